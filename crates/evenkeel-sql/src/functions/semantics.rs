//! Puts our operators and casts where DataFusion's mean something else than PostgreSQL's.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ExprSchema};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{BinaryExpr, Cast, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::arithmetic::{are_decimals, checked, negation, quotient};
use super::cast::pg_cast;
use super::floats::{self, Operands};
use crate::types::SqlType;

/// The analyzer rule; it comes after type coercion.
#[derive(Debug, Default)]
pub struct PgSemantics;

impl AnalyzerRule for PgSemantics {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> DfResult<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(rewrite_node)?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &str {
        "pg_semantics"
    }
}

fn rewrite_node(plan: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
    let node = map_node(plan, pg_semantics)?;
    if node.transformed {
        node.map_data(LogicalPlan::recompute_schema)
    } else {
        Ok(node)
    }
}

/// Rewrites the expressions of one node, each under the schema of the node's inputs; their names
/// stay.
pub(super) fn map_node(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(Expr, &DFSchema) -> DfResult<Transformed<Expr>>,
) -> DfResult<Transformed<LogicalPlan>> {
    // A scan's filters are those of a plan that has been through here; LIMIT wants constants.
    if matches!(plan, LogicalPlan::TableScan(_) | LogicalPlan::Limit(_)) {
        return Ok(Transformed::no(plan));
    }
    let inputs = plan.inputs();
    let schema = if inputs.is_empty() {
        plan.schema().as_ref().clone()
    } else {
        merge_schema(&inputs)
    };
    let preserver = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = preserver.save(&expr);
        let changed = rewrite(expr, &schema)?;
        Ok(changed.update_data(|expr| name.restore(expr)))
    })
}

/// Gives an expression whose types have been coerced PostgreSQL's arithmetic and casts.
///
/// # Errors
/// When the type of a part cannot be found in `schema`.
pub fn pg_semantics(expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    expr.transform_up(|expr| rewrite_expr(expr, schema))
}

fn rewrite_expr(expr: Expr, schema: &dyn ExprSchema) -> DfResult<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let types = (left.get_type(schema), right.get_type(schema));
            let function = match types {
                (Ok(left), Ok(right)) if op == Operator::Divide && are_decimals(&left, &right) => {
                    Some(quotient())
                }
                (Ok(left), Ok(right)) if left == right => checked(op, &left),
                _ => None,
            };
            Ok(match function {
                Some(function) => Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(
                    function,
                    vec![*left, *right],
                ))),
                None => {
                    let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
                    floats::comparison(expr, schema, Operands::Computed)?
                }
            })
        }
        Expr::Negative(inner) => {
            let function = inner.get_type(schema).ok().and_then(|ty| negation(&ty));
            Ok(match function {
                Some(function) => Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(
                    function,
                    vec![*inner],
                ))),
                None => Transformed::no(Expr::Negative(inner)),
            })
        }
        Expr::Cast(Cast { expr: inner, field }) => {
            let Ok((_, from)) = inner.to_field(schema) else {
                return Ok(Transformed::no(Expr::Cast(Cast { expr: inner, field })));
            };
            let (from_type, to) = (
                SqlType::from_arrow_field(&from),
                SqlType::from_arrow_field(&field),
            );
            // What our types cannot name (other units, decimals of other widths) stays Arrow's.
            let nameable = to.arrow_type() == *field.data_type() && !from.data_type().is_null();
            let function = nameable
                .then(|| pg_cast(from_type, from.data_type(), to))
                .flatten();
            Ok(match function {
                Some(function) => Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(
                    Arc::new(function),
                    vec![*inner],
                ))),
                None => Transformed::no(Expr::Cast(Cast { expr: inner, field })),
            })
        }
        other => floats::comparison(other, schema, Operands::Computed),
    }
}
