//! From typed expressions to programs over an operator's rows.

use std::rc::Rc;
use std::sync::Arc;

use evenkeel_expr::program::{
    CallNode, CastNode, DomainNode, PartAssignment, Program, RowPair, SubplanKind, SubplanNode,
};
use evenkeel_types::{Datum, SqlState, SqlType};

use crate::bound::{CallExpr, Expr, ExprKind, Query, Sublink, SublinkKind, ToDomain};
use crate::error::{PlanError, PlanResult};
use crate::plan::{Subplan, SubplanUse};
use crate::relation::SystemColumn;

use super::joins::cheapest;
use super::layout::{Env, Layout, Scope};
use super::number::NUMBERED;
use super::path::{ExprRef, PathRef};
use super::statement::Statement;
use super::walk;

/// The ends of subscripts, as far as they are given.
type Ranges = Box<[(Option<Program>, Option<Program>)]>;

fn misplaced(what: &str) -> PlanError {
    PlanError::new(
        SqlState::INTERNAL_ERROR,
        format!("{what} where there is none"),
    )
}

/// Evaluation cost of an expression, in half operators.
fn operators_in(expr: &Expr) -> usize {
    let mut cost = 0;
    walk::each(expr, &mut |part| {
        cost += match &part.kind {
            ExprKind::Call(_)
            | ExprKind::SetCall(_)
            | ExprKind::Cast { .. }
            | ExprKind::IsDistinct { .. }
            | ExprKind::NullIf { .. } => 2,
            ExprKind::Extreme { args, .. } => 2 * args.len(),
            ExprKind::RowCompare { pairs, .. } => 2 * pairs.len(),
            ExprKind::AnyAll { array, .. } => match &array.kind {
                ExprKind::Array { items, .. } => items.len(),
                ExprKind::Const(Datum::Array(array)) => array.elements().len(),
                _ => 10,
            },
            ExprKind::Sublink(_) => 100_000,
            _ => 0,
        };
    });
    cost
}

impl Statement<'_> {
    /// Programs of some expressions.
    pub(super) fn programs<'e>(
        &mut self,
        exprs: impl IntoIterator<Item = &'e Expr>,
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<Vec<Program>> {
        let exprs = exprs.into_iter();
        exprs.map(|expr| self.program(expr, layout, env)).collect()
    }

    /// Programs of conditions, in the order in which they are asked: the cheaper ones first, as in
    /// PostgreSQL, so that none fails for rows that a cheaper one leaves out.
    pub(super) fn condition_programs(
        &mut self,
        exprs: &[ExprRef],
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<Vec<Program>> {
        let mut exprs: Vec<&ExprRef> = exprs.iter().collect();
        exprs.sort_by_key(|expr| operators_in(expr));
        self.programs(exprs.into_iter().map(|expr| &**expr), layout, env)
    }

    /// Programs of shared expressions.
    pub(super) fn programs_of(
        &mut self,
        exprs: &[ExprRef],
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<Vec<Program>> {
        self.programs(exprs.iter().map(|expr| &**expr), layout, env)
    }

    fn boxed(&mut self, expr: &Expr, layout: &Layout, env: &mut Env) -> PlanResult<Box<Program>> {
        Ok(Box::new(self.program(expr, layout, env)?))
    }

    fn slice(
        &mut self,
        exprs: &[Expr],
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<Box<[Program]>> {
        Ok(self.programs(exprs, layout, env)?.into())
    }

    fn ranges(
        &mut self,
        ranges: &[(Option<Expr>, Option<Expr>)],
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<Ranges> {
        let mut made = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            let mut end = |end: &Option<Expr>| match end {
                Some(end) => self.program(end, layout, env).map(Some),
                None => Ok(None),
            };
            made.push((end(low)?, end(high)?));
        }
        Ok(made.into())
    }

    fn row(
        &mut self,
        fields: &[Expr],
        names: Arc<[Arc<str>]>,
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<Program> {
        Ok(Program::Row {
            names,
            types: fields.iter().map(|field| field.ty).collect(),
            fields: self.slice(fields, layout, env)?,
        })
    }

    fn pair(
        &mut self,
        left: &Expr,
        right: &Expr,
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<Box<[Program; 2]>> {
        let left = self.program(left, layout, env)?;
        Ok(Box::new([left, self.program(right, layout, env)?]))
    }

    /// The program of an expression.
    pub(super) fn program(
        &mut self,
        expr: &Expr,
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<Program> {
        if let Some(slot) = layout.find(expr) {
            return Ok(Program::Slot(slot));
        }
        if let Some(param) = env.find_computed(expr) {
            return Ok(Program::Exec(param));
        }
        Ok(match &expr.kind {
            ExprKind::Const(value) => Program::Const(value.clone()),
            ExprKind::Param(number) => Program::Param(*number),
            ExprKind::Var(var) => match (env.find(expr), SystemColumn::at(var.column)) {
                (Some(param), _) => Program::Exec(param),
                (None, Some(system)) => {
                    let name = system.name();
                    let message = format!("system column \"{name}\" is not supported here");
                    return Err(PlanError::unsupported(message));
                }
                (None, None) => return Err(misplaced("a column")),
            },
            ExprKind::Aggregate(_) => match env.find(expr) {
                Some(param) => Program::Exec(param),
                None => return Err(misplaced("an aggregate")),
            },
            ExprKind::Window(_) => return Err(misplaced("a window function")),
            ExprKind::SetCall(_) => return Err(misplaced("a set-returning function")),
            ExprKind::Default => return Err(misplaced("DEFAULT")),
            ExprKind::Call(call) => Program::Call(Box::new(self.call(call, expr, layout, env)?)),
            ExprKind::Cast { arg, explicit } => Program::Cast(Box::new(CastNode {
                arg: self.program(arg, layout, env)?,
                from: arg.ty,
                to: expr.ty,
                explicit: *explicit,
                at: expr.at.0,
            })),
            ExprKind::Relabel(arg) => self.program(arg, layout, env)?,
            ExprKind::Sublink(sublink) => self.sublink(sublink, layout, env)?,
            ExprKind::SublinkColumn(column) => {
                let columns = env.sublink_columns.last();
                let param = columns.and_then(|columns| columns.get(*column));
                Program::Exec(*param.ok_or_else(|| misplaced("a subquery's column"))?)
            }
            ExprKind::Grouping(groups) => grouping(groups, layout)?,
            _ => self.composed(expr, layout, env)?,
        })
    }

    fn call(
        &mut self,
        call: &CallExpr,
        expr: &Expr,
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<CallNode> {
        Ok(CallNode {
            proc: call.proc,
            args: self.slice(&call.args, layout, env)?,
            arg_types: call.args.iter().map(|arg| arg.ty).collect(),
            result: expr.ty,
            variadic_array: call.variadic_array,
            at: expr.at.0,
        })
    }

    /// Nodes that are made of others.
    fn composed(&mut self, expr: &Expr, layout: &Layout, env: &mut Env) -> PlanResult<Program> {
        Ok(match &expr.kind {
            ExprKind::And(items) => Program::And(self.slice(items, layout, env)?),
            ExprKind::Or(items) => Program::Or(self.slice(items, layout, env)?),
            ExprKind::Not(arg) => Program::Not(self.boxed(arg, layout, env)?),
            ExprKind::IsNull { arg, negated, row } => {
                let (arg, negated) = (self.boxed(arg, layout, env)?, *negated);
                match row {
                    true => Program::RowIsNull { arg, negated },
                    false => Program::IsNull { arg, negated },
                }
            }
            ExprKind::IsBool {
                arg,
                value,
                negated,
            } => Program::IsBool {
                arg: self.boxed(arg, layout, env)?,
                value: *value,
                negated: *negated,
            },
            ExprKind::IsDistinct {
                equal,
                left,
                right,
                negated,
            } => Program::IsDistinct {
                equal,
                args: self.pair(left, right, layout, env)?,
                negated: *negated,
            },
            ExprKind::NullIf { equal, left, right } => Program::NullIf {
                equal,
                args: self.pair(left, right, layout, env)?,
            },
            ExprKind::Case {
                operand,
                branches,
                otherwise,
            } => {
                let operand = match operand {
                    Some(operand) => Some(self.boxed(operand, layout, env)?),
                    None => None,
                };
                let mut made = Vec::with_capacity(branches.len());
                for (condition, value) in branches {
                    let condition = self.program(condition, layout, env)?;
                    made.push((condition, self.program(value, layout, env)?));
                }
                Program::Case {
                    operand,
                    branches: made.into(),
                    otherwise: self.boxed(otherwise, layout, env)?,
                }
            }
            ExprKind::CaseOperand => Program::CaseOperand,
            ExprKind::DomainValue => Program::DomainValue,
            ExprKind::ToDomain(domain) => self.domain_node(domain, layout, env)?,
            ExprKind::Coalesce(items) => Program::Coalesce(self.slice(items, layout, env)?),
            ExprKind::Extreme { greatest, args } => Program::Extreme {
                greatest: *greatest,
                args: self.slice(args, layout, env)?,
            },
            _ => self.collection(expr, layout, env)?,
        })
    }

    fn domain_node(
        &mut self,
        domain: &ToDomain,
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<Program> {
        let mut tests = Vec::with_capacity(domain.tests.len());
        for test in &domain.tests {
            tests.push(match test {
                Some((name, condition)) => {
                    Some((Arc::clone(name), self.program(condition, layout, env)?))
                }
                None => None,
            });
        }
        Ok(Program::ToDomain(Box::new(DomainNode {
            domain: domain.domain,
            arg: self.program(&domain.arg, layout, env)?,
            tests: tests.into(),
            each: domain.each,
        })))
    }

    /// Arrays and rows.
    fn collection(&mut self, expr: &Expr, layout: &Layout, env: &mut Env) -> PlanResult<Program> {
        Ok(match &expr.kind {
            ExprKind::AnyAll {
                op,
                all,
                left,
                array,
            } => Program::AnyAll {
                proc: op.proc,
                all: *all,
                args: self.pair(left, array, layout, env)?,
            },
            ExprKind::Array { nested, items } => Program::Array {
                element: match expr.ty {
                    SqlType::Array(element, _) => *element,
                    other => other,
                },
                nested: *nested,
                items: self.slice(items, layout, env)?,
            },
            ExprKind::Subscript { array, indexes } => Program::Subscript {
                array: self.boxed(array, layout, env)?,
                indexes: self.slice(indexes, layout, env)?,
            },
            ExprKind::Slice { array, ranges } => {
                let array = self.boxed(array, layout, env)?;
                let ranges = self.ranges(ranges, layout, env)?;
                Program::Slice { array, ranges }
            }
            ExprKind::AssignPart(part) => Program::AssignPart(Box::new(PartAssignment {
                array: self.program(&part.array, layout, env)?,
                ranges: self.ranges(&part.ranges, layout, env)?,
                slice: part.slice,
                json: part.json,
                value: self.program(&part.value, layout, env)?,
            })),
            ExprKind::Row(fields) => self.row(fields, Arc::default(), layout, env)?,
            ExprKind::NamedRow(names, fields) => {
                self.row(fields, Arc::clone(names), layout, env)?
            }
            ExprKind::Field { row, field } => Program::Field {
                row: self.boxed(row, layout, env)?,
                field: *field,
            },
            ExprKind::RowCompare { op, pairs } => {
                let mut made = Vec::with_capacity(pairs.len());
                for (left, right, equal, less) in pairs {
                    made.push(RowPair {
                        left: self.program(left, layout, env)?,
                        right: self.program(right, layout, env)?,
                        equal,
                        less,
                    });
                }
                Program::RowCompare {
                    op: *op,
                    pairs: made.into(),
                }
            }
            _ => return Err(misplaced("an expression")),
        })
    }

    /// A subquery in an expression: a subplan.
    fn sublink(
        &mut self,
        sublink: &Sublink,
        layout: &Layout,
        env: &mut Env,
    ) -> PlanResult<Program> {
        let (scope, params, free) = self.outer_values(&sublink.query, layout, env)?;
        env.open(scope);
        let exists = matches!(sublink.kind, SublinkKind::Exists);
        let root = self.subquery_node(&sublink.query, exists, env);
        env.close();
        let root = root?;
        let depends = !params.is_empty() || free;
        let element = match &sublink.kind {
            SublinkKind::Array => {
                let first = sublink.query.targets.first();
                Some(first.map_or(SqlType::Unknown, |target| target.expr.ty))
            }
            _ => None,
        };
        let once = match &sublink.kind {
            SublinkKind::Any(_) | SublinkKind::All(_) => None,
            _ if depends => None,
            _ => Some(self.new_param()),
        };
        let plan = self.subplans.len();
        let kind = match once {
            Some(param) => SubplanUse::Once {
                param,
                exists,
                array: element,
            },
            None if depends => SubplanUse::PerRow,
            None => SubplanUse::Kept,
        };
        self.subplans.push(Some(Subplan {
            name: None,
            root,
            kind,
        }));
        if let Some(param) = once {
            return Ok(Program::Exec(param));
        }
        let kind = match &sublink.kind {
            SublinkKind::Exists => SubplanKind::Exists,
            SublinkKind::Scalar => SubplanKind::Scalar,
            SublinkKind::Array => SubplanKind::Array(element.unwrap_or(SqlType::Unknown)),
            SublinkKind::Any(test) | SublinkKind::All(test) => {
                let kept = sublink.query.targets.iter().filter(|target| !target.junk);
                let columns: Vec<usize> = kept.map(|_| self.new_param()).collect();
                env.sublink_columns.push(columns.clone());
                let test = self.program(test, layout, env);
                env.sublink_columns.pop();
                let (columns, test) = (columns.into(), Box::new(test?));
                match sublink.kind {
                    SublinkKind::Any(_) => SubplanKind::Any { columns, test },
                    _ => SubplanKind::All { columns, test },
                }
            }
        };
        Ok(Program::Subplan(Box::new(SubplanNode {
            plan,
            kind,
            params: params.into(),
        })))
    }

    /// Outer references of a subquery. Values of the current row become parameters that are set
    /// before the subquery runs; the third result tells whether it refers to parameters that are
    /// set further out.
    #[allow(clippy::type_complexity)]
    fn outer_values(
        &mut self,
        query: &Arc<Query>,
        layout: &Layout,
        env: &Env,
    ) -> PlanResult<(Scope, Vec<(usize, Program)>, bool)> {
        let mut wanted: Vec<Expr> = Vec::new();
        walk::each_of_query(query, &mut |part| match &part.kind {
            ExprKind::Var(var) if var.depth == NUMBERED => wanted.push(part.clone()),
            ExprKind::Aggregate(aggregate) if aggregate.depth == NUMBERED => {
                wanted.push(part.clone());
            }
            _ => {}
        });
        let mut scope = Scope::default();
        let mut params = Vec::new();
        let mut free = false;
        for expr in wanted {
            let known = match expr.kind {
                ExprKind::Var(var) => scope.vars.contains_key(&(var.rel, var.column)),
                _ => scope
                    .exprs
                    .iter()
                    .any(|(known, _)| super::path::same(known, &expr)),
            };
            if known {
                continue;
            }
            match layout.find(&expr) {
                Some(slot) => {
                    let param = self.new_param();
                    params.push((param, Program::Slot(slot)));
                    match expr.kind {
                        ExprKind::Var(var) => {
                            scope.vars.insert((var.rel, var.column), param);
                        }
                        _ => scope.exprs.push((Rc::new(expr), param)),
                    }
                }
                None => free |= env.find(&expr).is_some(),
            }
        }
        Ok((scope, params, free))
    }

    fn subquery_node(
        &mut self,
        query: &Arc<Query>,
        exists: bool,
        env: &mut Env,
    ) -> PlanResult<crate::plan::Node> {
        let mut query = Query::clone(query);
        self.substitute_in(&mut query);
        let planned = self.query_paths(query)?;
        let paths: Vec<PathRef> = planned.into_iter().map(|planned| planned.path).collect();
        let by_start = |paths: &[PathRef]| {
            let best = paths
                .iter()
                .min_by(|a, b| a.estimate.startup.total_cmp(&b.estimate.startup));
            best.cloned()
        };
        let best = match exists {
            true => by_start(&paths),
            false => cheapest(&paths).cloned(),
        };
        let best = best.ok_or_else(|| misplaced("a path"))?;
        self.build_root(&best, env)
    }
}

/// `GROUPING(…)`: a bit for each of its expressions that the row's grouping set leaves out.
fn grouping(groups: &[usize], layout: &Layout) -> PlanResult<Program> {
    let Some((slot, sets)) = &layout.sets else {
        // One set of all: nothing is left out.
        return Ok(Program::Const(Datum::Int4(0)));
    };
    let bits = |set: &Vec<usize>| {
        let bits = groups.iter().map(|group| i32::from(!set.contains(group)));
        bits.fold(0, |all, bit| all << 1 | bit)
    };
    // The executor numbers the sets from 0, as an int4.
    let equal = evenkeel_expr::procs_named("int4eq")
        .first()
        .copied()
        .ok_or_else(|| misplaced("int4eq"))?;
    let branches = sets.iter().enumerate().map(|(number, set)| {
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        let is_set = Program::Call(Box::new(CallNode {
            proc: equal,
            args: Box::new([Program::Slot(*slot), Program::Const(Datum::Int4(number))]),
            arg_types: Box::new([SqlType::Int4, SqlType::Int4]),
            result: SqlType::Bool,
            variadic_array: false,
            at: u32::MAX,
        }));
        (is_set, Program::Const(Datum::Int4(bits(set))))
    });
    Ok(Program::Case {
        operand: None,
        branches: branches.collect(),
        otherwise: Box::new(Program::Const(Datum::Int4(0))),
    })
}
