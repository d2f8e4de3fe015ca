//! What is put into expressions when no more is planned with them: AND and OR that evaluate what
//! may fail only where it decides, and floats that compare by their bits.
//!
//! Planning must come first: it takes conditions apart, finds indexes and joins by them, and
//! would make AND and OR of these again.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ExprSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{BinaryExpr, Case};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};

use super::floats::{self, COMPARABLE, Operands};
use super::semantics::map_node;

/// Deeper expressions are left as they are.
const MAX_DEPTH: usize = 200;
/// How often an operand may be doubled, and its doubles again.
const MAX_DOUBLINGS: usize = 4;

/// Finishes a plan that has been optimised.
///
/// # Errors
/// When a part's type cannot be found.
pub fn finish_plan(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let finished = plan.transform_up_with_subqueries(finish_node)?;
    if !finished.transformed {
        return Ok(finished.data);
    }
    let renewed = finished
        .data
        .transform_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes))?;
    Ok(renewed.data)
}

fn finish_node(plan: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
    let condition = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    let groups = match &plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.len(),
        // Its keys and its condition, of which no condition is a float.
        LogicalPlan::Sort(_) | LogicalPlan::Join(_) => usize::MAX,
        _ => 0,
    };
    let mut number = 0;
    map_node(plan, |expr, schema| {
        let is_key = number < groups;
        number += 1;
        let finished = finish_expr(expr, schema, condition)?;
        match is_key {
            true => finished.transform_data(|expr| key(expr, schema)),
            false => Ok(finished),
        }
    })
}

/// What rows are sorted, grouped or joined by.
fn key(expr: Expr, schema: &dyn ExprSchema) -> DfResult<Transformed<Expr>> {
    floats::operand(expr, schema, Operands::All)
}

/// Finishes an expression. Of a `condition` it only matters whether it is true.
///
/// # Errors
/// When a part's type cannot be found in `schema`.
pub fn finish_expr(expr: Expr, schema: &DFSchema, condition: bool) -> DfResult<Transformed<Expr>> {
    let compared = expr.transform_up(|expr| {
        let compared = floats::comparison(expr, schema, Operands::All)?;
        compared.transform_data(|expr| keys_within(expr, schema))
    })?;
    compared.transform_data(|expr| {
        if !expr.exists(|part| Ok(is_logic(part)))? || !expr.exists(|part| Ok(fails(part)))? {
            return Ok(Transformed::no(expr));
        }
        let context = Context {
            condition,
            depth: 0,
            doublings: 0,
        };
        Ok(Transformed::yes(guard(expr, context)?))
    })
}

/// The keys of window functions and of DISTINCT aggregates.
fn keys_within(expr: Expr, schema: &dyn ExprSchema) -> DfResult<Transformed<Expr>> {
    let mut changed = false;
    let mut part = |expr: Expr| -> DfResult<Expr> {
        let part = key(expr, schema)?;
        changed |= part.transformed;
        Ok(part.data)
    };
    let expr = match expr {
        Expr::WindowFunction(mut window) => {
            let params = &mut window.params;
            for expr in &mut params.partition_by {
                *expr = part(std::mem::take(expr))?;
            }
            for sort in &mut params.order_by {
                sort.expr = part(std::mem::take(&mut sort.expr))?;
            }
            Expr::WindowFunction(window)
        }
        Expr::AggregateFunction(mut aggregate) => {
            let params = &mut aggregate.params;
            let distinct = params.args.iter_mut().filter(|_| params.distinct);
            let sorted = params.order_by.iter_mut().map(|sort| &mut sort.expr);
            for expr in distinct.chain(sorted) {
                *expr = part(std::mem::take(expr))?;
            }
            Expr::AggregateFunction(aggregate)
        }
        other => return Ok(Transformed::no(other)),
    };
    Ok(Transformed::new_transformed(expr, changed))
}

fn is_logic(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::And | Operator::Or,
            ..
        })
    )
}

/// Whether evaluating an expression, leaving its parts aside, may be an error.
fn fails(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.name() != COMPARABLE,
        Expr::BinaryExpr(binary) => matches!(
            binary.op,
            Operator::Plus
                | Operator::Minus
                | Operator::Multiply
                | Operator::Divide
                | Operator::Modulo
        ),
        Expr::HigherOrderFunction(_) => true,
        // The casts that may fail have become functions.
        _ => false,
    }
}

fn may_fail(expr: &Expr) -> DfResult<bool> {
    expr.exists(|part| Ok(fails(part)))
}

/// Where an expression stands.
#[derive(Clone, Copy)]
struct Context {
    /// Whether NULL is as good as false here.
    condition: bool,
    depth: usize,
    doublings: usize,
}

impl Context {
    fn value(self) -> Context {
        Context {
            condition: false,
            ..self
        }
    }

    fn condition(self) -> Context {
        Context {
            condition: true,
            ..self
        }
    }
}

/// Makes every AND and OR evaluate what may fail last, and only for the rows where the rest does
/// not decide.
fn guard(expr: Expr, context: Context) -> DfResult<Expr> {
    if context.depth > MAX_DEPTH {
        return Ok(expr);
    }
    let inner = Context {
        depth: context.depth + 1,
        ..context
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            op: op @ (Operator::And | Operator::Or),
            left,
            right,
        }) => guard_logic(op, [*left, *right], inner),
        Expr::Alias(mut alias) => {
            *alias.expr = guard(*alias.expr, inner)?;
            Ok(Expr::Alias(alias))
        }
        Expr::Case(case) if case.expr.is_none() => {
            let boxed = |expr: Box<Expr>, context| guard(*expr, context).map(Box::new);
            let branches = case.when_then_expr.into_iter().map(|(when, then)| {
                DfResult::Ok((boxed(when, inner.condition())?, boxed(then, inner)?))
            });
            Ok(Expr::Case(Case {
                expr: None,
                when_then_expr: branches.collect::<DfResult<Vec<_>>>()?,
                else_expr: case.else_expr.map(|expr| boxed(expr, inner)).transpose()?,
            }))
        }
        other => Ok(other
            .map_children(|part| guard(part, inner.value()).map(Transformed::yes))?
            .data),
    }
}

fn guard_logic(op: Operator, operands: [Expr; 2], context: Context) -> DfResult<Expr> {
    let mut stack: Vec<Expr> = operands.into_iter().rev().collect();
    let (mut safe, mut failing) = (Vec::new(), Vec::new());
    while let Some(operand) = stack.pop() {
        match operand {
            Expr::BinaryExpr(BinaryExpr {
                op: same,
                left,
                right,
            }) if same == op => stack.extend([*right, *left]),
            operand if may_fail(&operand)? => failing.push(operand),
            operand => safe.push(operand),
        }
    }
    let join = |left, right| datafusion::logical_expr::binary_expr(left, op, right);
    let mut done = safe.into_iter().reduce(join);
    for operand in failing {
        let doubles = done.is_some() && !context.condition;
        if doubles && context.doublings >= MAX_DOUBLINGS {
            done = done.map(|done| join(done, operand));
            continue;
        }
        let context = Context {
            doublings: context.doublings + usize::from(doubles),
            ..context
        };
        let operand = guard(operand, context)?;
        done = Some(match done {
            None => operand,
            Some(done) => lazily(op, done, operand, context.condition),
        });
    }
    Ok(done.unwrap_or_else(|| Expr::Literal(ScalarValue::Boolean(None), None)))
}

/// `left op right`, where `right` is evaluated only for the rows that `left` does not decide:
/// of the operations that DataFusion has, CASE keeps to that.
fn lazily(op: Operator, left: Expr, right: Expr, condition: bool) -> Expr {
    let literal = |value| Expr::Literal(ScalarValue::Boolean(value), None);
    let and = op == Operator::And;
    if condition {
        // NULL AND x is never true; NULL OR x is true when x is.
        let (then, otherwise) = match and {
            true => (right, literal(Some(false))),
            false => (literal(Some(true)), right),
        };
        return Expr::Case(Case {
            expr: None,
            when_then_expr: vec![(Box::new(left), Box::new(then))],
            else_expr: Some(Box::new(otherwise)),
        });
    }
    let with_null = datafusion::logical_expr::binary_expr(right.clone(), op, literal(None));
    let decided = (literal(Some(!and)), literal(Some(!and)));
    let open = (literal(Some(and)), right);
    let branches = [decided, open].map(|(when, then)| (Box::new(when), Box::new(then)));
    Expr::Case(Case {
        expr: Some(Box::new(left)),
        when_then_expr: branches.into(),
        else_expr: Some(Box::new(with_null)),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{and, col, lit, not, or};

    use super::super::arithmetic::negation;
    use super::*;

    fn finished(expr: Expr, condition: bool) -> String {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int32, true));
        let schema = DFSchema::try_from(Schema::new(fields.to_vec())).unwrap();
        let finished = finish_expr(expr, &schema, condition).unwrap();
        finished.data.to_string()
    }

    /// A comparison that may fail.
    fn risky() -> Expr {
        let negated = negation(&DataType::Int32).unwrap().call(vec![col("a")]);
        negated.gt(lit(1))
    }

    #[test]
    fn what_may_fail_comes_last_and_only_where_it_decides() {
        let safe = || col("b").eq(lit(0));
        let negated = "checked_negate(a) > Int32(1)";
        assert_eq!(
            finished(and(risky(), safe()), true),
            format!("CASE WHEN b = Int32(0) THEN {negated} ELSE Boolean(false) END")
        );
        assert_eq!(
            finished(or(safe(), risky()), true),
            format!("CASE WHEN b = Int32(0) THEN Boolean(true) ELSE {negated} END")
        );
        assert_eq!(
            finished(not(and(safe(), risky())), true),
            format!(
                "NOT CASE b = Int32(0) WHEN Boolean(false) THEN Boolean(false) WHEN Boolean(true) \
                 THEN {negated} ELSE {negated} AND Boolean(NULL) END"
            )
        );
        let plain = and(safe(), or(safe(), col("a").is_null()));
        assert_eq!(finished(plain.clone(), true), plain.to_string());
        assert_eq!(finished(risky(), true), negated);
    }

    #[test]
    fn deep_logic_does_not_grow_without_bound() {
        let mut expr = risky();
        for depth in 0..60 {
            let safe = col("b").eq(lit(depth));
            expr = match depth % 2 {
                0 => and(safe, expr),
                _ => or(safe, expr),
            };
        }
        assert!(finished(not(expr), false).len() < 100_000);
    }
}
