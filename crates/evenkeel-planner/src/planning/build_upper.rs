//! Plans of what is above the joins.

use std::rc::Rc;

use evenkeel_expr::proc::ArgType;
use evenkeel_expr::program::{CallNode, CastNode, Program};
use evenkeel_types::SqlType;

use crate::ast::FrameUnit;
use crate::bound::{self, CallExpr, Expr, ExprKind};
use crate::error::{PlanError, PlanResult};
use crate::plan::{
    Aggregate, AggregateStrategy, Estimate, Frame, FrameBound, NodeKind, SetItem, WindowCall,
};

use super::build::{Built, internal, is_known, node};
use super::layout::{Env, Layout};
use super::marks::plan_marks;
use super::path::{ExprRef, OrderKey, Path, PathKind, PathRef, same};
use super::statement::Statement;
use super::walk;

impl Statement<'_> {
    pub(super) fn build_upper(&mut self, path: &Path, env: &mut Env) -> PlanResult<Built> {
        let estimate = path.estimate;
        match &path.kind {
            PathKind::Sort {
                child,
                keys,
                presorted,
                bounded,
            } => {
                let built = self.build(child, env)?;
                let ((child, layout), keys) = self.ensure_order(built, keys, env)?;
                let kind = NodeKind::Sort {
                    child: Box::new(child),
                    keys,
                    presorted: *presorted,
                    bounded: *bounded,
                };
                Ok((node(kind, layout.width(), estimate), layout))
            }
            PathKind::Unique { child, exprs } => {
                let built = self.build(child, env)?;
                let exprs = exprs.iter().filter(|expr| !is_known(expr));
                let exprs: Vec<ExprRef> = exprs.cloned().collect();
                let ((child, layout), columns) = self.ensure(built, &exprs, env)?;
                let child = Box::new(child);
                let kind = NodeKind::Unique { child, columns };
                Ok((node(kind, layout.width(), estimate), layout))
            }
            PathKind::Limit {
                child,
                offset,
                count,
                ties,
            } => self.build_limit(child, (offset, count, ties), estimate, env),
            PathKind::LockRows { child, marks, held } => {
                let (child, layout) = self.build(child, env)?;
                let held = self.held(held, &layout)?;
                let kind = NodeKind::LockRows {
                    marks: plan_marks(marks, &held)?,
                    child: Box::new(child),
                    held,
                };
                Ok((node(kind, layout.width(), estimate), layout))
            }
            PathKind::Modify { child, change } => self.build_modify(child, change, estimate, env),
            PathKind::Aggregate { .. } => self.build_aggregate(path, env),
            PathKind::Window { .. } => self.build_window(path, env),
            _ => self.build_set(path, env),
        }
    }

    #[allow(clippy::type_complexity)]
    fn build_limit(
        &mut self,
        child: &PathRef,
        (offset, count, ties): (&Option<ExprRef>, &Option<ExprRef>, &Option<Vec<OrderKey>>),
        estimate: Estimate,
        env: &mut Env,
    ) -> PlanResult<Built> {
        let mut built = self.build(child, env)?;
        let ties = match ties {
            None => None,
            Some(keys) => {
                let (with_keys, columns) = self.ensure_order(built, keys, env)?;
                built = with_keys;
                Some(columns)
            }
        };
        let (child, layout) = built;
        let nothing = Layout::default();
        let mut number = |expr: &Option<ExprRef>| match expr {
            Some(expr) => self.program(expr, &nothing, env).map(Some),
            None => Ok(None),
        };
        let kind = NodeKind::Limit {
            offset: number(offset)?,
            count: number(count)?,
            child: Box::new(child),
            ties,
        };
        Ok((node(kind, layout.width(), estimate), layout))
    }

    /// Appended and combined sets of rows.
    fn build_set(&mut self, path: &Path, env: &mut Env) -> PlanResult<Built> {
        let (rel, kind) = match &path.kind {
            PathKind::Append { rel, children } => {
                let mut made = Vec::with_capacity(children.len());
                for child in children {
                    made.push(self.build(child, env)?.0);
                }
                (*rel, NodeKind::Append { children: made })
            }
            PathKind::SetOperation {
                rel,
                left,
                right,
                except,
                all,
            } => {
                let left = Box::new(self.build(left, env)?.0);
                let right = Box::new(self.build(right, env)?.0);
                let kind = NodeKind::SetOperation {
                    left,
                    right,
                    except: *except,
                    all: *all,
                };
                (*rel, kind)
            }
            PathKind::RecursiveUnion {
                rel,
                union_id,
                first,
                step,
                all,
            } => {
                let first = Box::new(self.build(first, env)?.0);
                let step = Box::new(self.build(step, env)?.0);
                let kind = NodeKind::RecursiveUnion {
                    union_id: *union_id,
                    first,
                    step,
                    all: *all,
                };
                (*rel, kind)
            }
            _ => return Err(internal("not a set operation")),
        };
        let layout = Layout::of_columns(rel, 0..self.rels[rel].types.len());
        Ok((node(kind, layout.width(), path.estimate), layout))
    }

    fn build_aggregate(&mut self, path: &Path, env: &mut Env) -> PlanResult<Built> {
        let PathKind::Aggregate {
            child,
            strategy,
            group,
            sets,
            aggregates,
        } = &path.kind
        else {
            return Err(internal("not an aggregate"));
        };
        let built = self.build(child, env)?;
        let ((child, below), slots) = self.ensure(built, group, env)?;
        let mut layout = Layout::of_exprs(group);
        let mut made = Vec::with_capacity(aggregates.len());
        for expr in aggregates {
            made.push(self.aggregate(expr, &below, env)?);
            layout.push(expr);
        }
        if !sets.is_empty() {
            let slot = layout.push_nameless();
            layout.sets = Some((slot, Rc::new(sets.clone())));
        }
        // A single group of all rows needs no hash table, one that groups nothing has one set.
        let strategy = match group.is_empty() && sets.is_empty() {
            true => AggregateStrategy::Plain,
            false => *strategy,
        };
        let kind = NodeKind::Aggregate {
            child: Box::new(child),
            strategy,
            group: slots,
            sets: sets.clone(),
            aggregates: made,
        };
        Ok((node(kind, layout.width(), path.estimate), layout))
    }

    fn aggregate(&mut self, expr: &Expr, below: &Layout, env: &mut Env) -> PlanResult<Aggregate> {
        let ExprKind::Aggregate(aggregate) = &expr.kind else {
            return Err(internal("not an aggregate"));
        };
        let types = aggregate.direct.iter().chain(&aggregate.args);
        let mut order_by = Vec::with_capacity(aggregate.order_by.len());
        for key in &aggregate.order_by {
            let program = self.program(&key.key, below, env)?;
            order_by.push((program, key.desc, key.nulls_first));
        }
        Ok(Aggregate {
            proc: aggregate.proc,
            direct: self.programs(&aggregate.direct, below, env)?,
            args: self.programs(&aggregate.args, below, env)?,
            arg_types: types.map(|arg| arg.ty).collect(),
            result: expr.ty,
            distinct: aggregate.distinct,
            order_by,
            filter: match &aggregate.filter {
                Some(filter) => Some(self.program(filter, below, env)?),
                None => None,
            },
        })
    }

    fn build_window(&mut self, path: &Path, env: &mut Env) -> PlanResult<Built> {
        let PathKind::Window {
            child,
            partition,
            order,
            frame,
            functions,
        } = &path.kind
        else {
            return Err(internal("not a window"));
        };
        let built = self.build(child, env)?;
        let (built, partition) = self.ensure(built, partition, env)?;
        let by_value = |bound: &bound::FrameBound| {
            frame.unit == FrameUnit::Range
                && matches!(
                    bound,
                    bound::FrameBound::Preceding(_) | bound::FrameBound::Following(_)
                )
        };
        // A bound is computed from the ordered column, also where that is a constant.
        let ((child, mut layout), columns) = match by_value(&frame.start) || by_value(&frame.end) {
            true => self.ensure_keys(built, order.iter().collect(), env)?,
            false => self.ensure_order(built, order, env)?,
        };
        let mut calls = Vec::with_capacity(functions.len());
        let below = layout.clone();
        for expr in functions {
            let ExprKind::Window(window) = &expr.kind else {
                return Err(internal("not a window function"));
            };
            calls.push(WindowCall {
                proc: window.proc,
                args: self.programs(&window.args, &below, env)?,
                arg_types: window.args.iter().map(|arg| arg.ty).collect(),
                result: expr.ty,
                filter: match &window.filter {
                    Some(filter) => Some(self.program(filter, &below, env)?),
                    None => None,
                },
            });
            layout.push(expr);
        }
        let key = order.first();
        let start = self.frame_bound(&frame.start, frame.unit, key, env)?;
        let end = self.frame_bound(&frame.end, frame.unit, key, env)?;
        let kind = NodeKind::Window {
            child: Box::new(child),
            partition,
            order: columns,
            frame: Frame {
                unit: frame.unit,
                start,
                end,
                exclude: frame.exclude,
            },
            functions: calls,
        };
        Ok((node(kind, layout.width(), path.estimate), layout))
    }

    fn frame_bound(
        &mut self,
        bound: &bound::FrameBound,
        unit: FrameUnit,
        key: Option<&OrderKey>,
        env: &mut Env,
    ) -> PlanResult<FrameBound> {
        let (value, before) = match bound {
            bound::FrameBound::UnboundedPreceding => return Ok(FrameBound::UnboundedPreceding),
            bound::FrameBound::CurrentRow => return Ok(FrameBound::CurrentRow),
            bound::FrameBound::UnboundedFollowing => return Ok(FrameBound::UnboundedFollowing),
            bound::FrameBound::Preceding(value) => (value, true),
            bound::FrameBound::Following(value) => (value, false),
        };
        let program = self.program(value, &Layout::default(), env)?;
        let end = match (unit, key) {
            (FrameUnit::Range, Some(key)) => {
                Some(range_end(key.expr.ty, value.ty, before != key.desc)?)
            }
            _ => None,
        };
        Ok(match before {
            true => FrameBound::Preceding(program, end),
            false => FrameBound::Following(program, end),
        })
    }

    /// The rows with all set-returning functions of expressions: the innermost functions first,
    /// each level over the rows of the one below.
    pub(super) fn build_sets(
        &mut self,
        built: Built,
        exprs: &[ExprRef],
        estimate: Estimate,
        env: &mut Env,
    ) -> PlanResult<Built> {
        let (mut child, mut layout) = built;
        loop {
            let mut calls: Vec<ExprRef> = Vec::new();
            for expr in exprs {
                ready_sets(expr, &layout, &mut calls);
            }
            if calls.is_empty() {
                break;
            }
            let mut items: Vec<SetItem> = (0..layout.width())
                .map(|slot| SetItem::Value(Program::Slot(slot)))
                .collect();
            let below = layout.clone();
            for expr in &calls {
                let ExprKind::SetCall(call) = &expr.kind else {
                    return Err(internal("not a set-returning function"));
                };
                let call: &CallExpr = call;
                let made = self.set_call(call, vec![expr.ty], &below, env)?;
                items.push(SetItem::Set(made));
                layout.push(expr);
            }
            let kind = NodeKind::ProjectSet {
                child: Box::new(child),
                items,
            };
            child = node(kind, layout.width(), estimate);
        }
        Ok((child, layout))
    }
}

/// The set-returning functions that are not computed yet and whose arguments have none.
fn ready_sets(expr: &Expr, layout: &Layout, calls: &mut Vec<ExprRef>) {
    if layout.find(expr).is_some() {
        return;
    }
    let before = calls.len();
    let mut nested = false;
    walk::parts(expr, &mut |part| {
        ready_sets(part, layout, calls);
        nested |= pending(part, layout);
    });
    if matches!(expr.kind, ExprKind::SetCall(_))
        && !nested
        && calls.len() == before
        && !calls.iter().any(|known| same(known, expr))
    {
        calls.push(Rc::new(expr.clone()));
    }
}

fn pending(expr: &Expr, layout: &Layout) -> bool {
    if layout.find(expr).is_some() {
        return false;
    }
    let mut found = matches!(expr.kind, ExprKind::SetCall(_));
    walk::parts(expr, &mut |part| found |= pending(part, layout));
    found
}

/// The end of a RANGE frame: the ordering column's value (slot 0) less or plus the offset (slot 1).
fn range_end(key: SqlType, offset: SqlType, minus: bool) -> PlanResult<Program> {
    let name = if minus { "-" } else { "+" };
    let is = |arg: &ArgType, ty: SqlType| matches!(arg, ArgType::Is(of) if of.oid() == ty.oid());
    let operator = evenkeel_expr::operators_named(name)
        .iter()
        .find(|operator| {
            operator.left.is_some_and(|left| is(&left, key)) && is(&operator.right, offset)
        });
    let missing = || {
        PlanError::unsupported(format!(
            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset \
             type {}",
            key.name(),
            offset.name()
        ))
    };
    let operator = operator.ok_or_else(missing)?;
    let proc = evenkeel_expr::proc_by_oid(operator.proc).ok_or_else(missing)?;
    let ArgType::Is(result) = proc.result else {
        return Err(missing());
    };
    let call = Program::Call(Box::new(CallNode {
        proc,
        args: Box::new([Program::Slot(0), Program::Slot(1)]),
        arg_types: Box::new([key, offset]),
        result,
        variadic_array: false,
        at: u32::MAX,
    }));
    if result.oid() == key.oid() {
        return Ok(call);
    }
    Ok(Program::Cast(Box::new(CastNode {
        arg: call,
        from: result,
        to: key,
        explicit: true,
        at: u32::MAX,
    })))
}
