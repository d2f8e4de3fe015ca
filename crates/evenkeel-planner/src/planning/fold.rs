//! Constants: what depends on nothing is computed when the plan is made, and conditions that are
//! known are left out. An expression whose value is an error stays, and fails if it is reached; so
//! does one that is not cheap, or whose value is large.

use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_expr::eval::{Env, NoSubplans};
use evenkeel_expr::large_bytes;
use evenkeel_expr::proc::{ProcKind, Volatility};
use evenkeel_types::{Datum, SqlType};

use crate::bound::{CallExpr, Distinct, Expr, ExprKind, Query, RangeEntry, SublinkKind};

use super::domains::ForgetDomains;
use super::frugal::Frugal;
use super::layout;
use super::path::same;
use super::settings::PlannerSettings;
use super::statement::Statement;
use super::tree::{ALTERNATIVES_MOST, conjunction, conjuncts_of, has_set};
use super::volatility::is_volatile;
use super::walk::{self, Change};

/// Folds the constants of a query and of its subqueries.
pub(super) fn fold(query: &mut Query, session: &dyn Session, settings: &PlannerSettings) {
    walk::change_query(query, 0, &mut ForgetColumns);
    let session = Frugal::new(session);
    walk::change_query(query, 0, &mut Fold { session, settings });
    if let Some(filter) = &query.filter
        && matches!(filter.kind, ExprKind::Const(Datum::Bool(true)))
    {
        query.filter = None;
    }
}

/// EXISTS looks at no column: where the number of rows does not depend on what is selected, nothing
/// is, so that nothing fails.
struct ForgetColumns;

impl Change for ForgetColumns {
    fn expr(&mut self, expr: &mut Expr, depth: usize) {
        // In one walk.
        ForgetDomains.expr(expr, depth);
        let ExprKind::Sublink(sublink) = &mut expr.kind else {
            return;
        };
        let query = &sublink.query;
        let sets = query.targets.iter().any(|target| has_set(&target.expr));
        let fixed = query.set_operation.is_some()
            || query.grouped
            || !query.windows.is_empty()
            || query.limit.is_some()
            || query.offset.is_some()
            || !query.row_marks.is_empty()
            || sets;
        if matches!(sublink.kind, SublinkKind::Exists) && !fixed {
            let query = Arc::make_mut(&mut sublink.query);
            query.targets.clear();
            query.order_by.clear();
            query.distinct = Distinct::All;
        }
    }

    fn entry(&mut self, entry: &mut RangeEntry, depth: usize) {
        ForgetDomains.entry(entry, depth);
    }

    fn query(&mut self, query: &mut Query) {
        ForgetDomains.query(query);
    }
}

struct Fold<'s> {
    session: Frugal<'s>,
    settings: &'s PlannerSettings,
}

impl Change for Fold<'_> {
    fn expr(&mut self, expr: &mut Expr, _depth: usize) {
        match &mut expr.kind {
            ExprKind::Call(call) if is_foldable(call) => self.compute(expr),
            ExprKind::Cast { arg, .. } if is_small(arg) && is_steady(arg.ty, expr.ty) => {
                self.compute(expr);
            }
            ExprKind::Array { items, .. } if items.iter().all(is_small) => self.compute(expr),
            ExprKind::Relabel(arg) if is_constant(arg) => {
                expr.kind = std::mem::replace(&mut arg.kind, ExprKind::CaseOperand);
            }
            ExprKind::Not(arg) => match arg.kind {
                ExprKind::Const(Datum::Bool(value)) => set(expr, Datum::Bool(!value)),
                ExprKind::Const(Datum::Null) => set(expr, Datum::Null),
                _ => {}
            },
            ExprKind::And(items) => {
                let items = std::mem::take(items);
                junction(expr, items, false);
            }
            ExprKind::Or(items) => {
                let items = std::mem::take(items);
                junction(expr, items, true);
            }
            ExprKind::IsNull {
                arg,
                negated,
                row: false,
            } => {
                if let ExprKind::Const(value) = &arg.kind {
                    let known = value.is_null() != *negated;
                    set(expr, Datum::Bool(known));
                }
            }
            ExprKind::Case { operand: None, .. } => case(expr),
            ExprKind::Coalesce(items) => {
                let items = std::mem::take(items);
                coalesce(expr, items);
            }
            _ => {}
        }
    }

    fn entry(&mut self, _entry: &mut RangeEntry, _depth: usize) {}
}

impl Fold<'_> {
    fn compute(&self, expr: &mut Expr) {
        let mut statement = Statement::new(self.settings, &self.session, None);
        let nothing = layout::Layout::default();
        let Ok(program) = statement.program(expr, &nothing, &mut layout::Env::default()) else {
            return;
        };
        let env = Env::new(&[], &self.session, &NoSubplans);
        if let Some(value) = self.session.kept(|| env.eval(&program, &[])) {
            set(expr, value);
        }
    }
}

fn set(expr: &mut Expr, value: Datum) {
    expr.kind = ExprKind::Const(value);
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Const(_))
}

/// A constant that work with takes no time.
fn is_small(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Const(value) if large_bytes(value) == 0)
}

fn is_foldable(call: &CallExpr) -> bool {
    matches!(call.proc.kind, ProcKind::Scalar(_))
        && call.proc.volatility == Volatility::Immutable
        && call.args.iter().all(is_small)
}

/// Whether a cast gives the same in every session.
fn is_steady(from: SqlType, to: SqlType) -> bool {
    let steady = |ty: SqlType| {
        ty.is_number() || ty.is_string() || matches!(ty, SqlType::Bool | SqlType::Uuid)
    };
    steady(from) && steady(to)
}

/// `AND` (absorbed by false) or `OR` (absorbed by true).
fn junction(expr: &mut Expr, items: Vec<Expr>, or: bool) {
    let mut left = Vec::with_capacity(items.len());
    for item in items {
        match item.kind {
            ExprKind::Const(Datum::Bool(value)) if value == or => {
                return set(expr, Datum::Bool(or));
            }
            ExprKind::Const(Datum::Bool(_)) => {}
            _ => left.push(item),
        }
    }
    match left.len() {
        0 => set(expr, Datum::Bool(!or)),
        1 => {
            let one = left.swap_remove(0);
            expr.kind = one.kind;
        }
        _ if or => factored(expr, left),
        _ => expr.kind = ExprKind::And(left),
    }
}

/// `(a AND b) OR (a AND c)` as `a AND (b OR c)`, which is the same in three-valued logic: a join's
/// condition is often written in each alternative, and joins only by what holds in all of them.
/// PostgreSQL does so in `process_duplicate_ors`.
fn factored(expr: &mut Expr, items: Vec<Expr>) {
    let few = |parts: &[Expr]| parts.len() <= ALTERNATIVES_MOST;
    let small = few(&items) && items.iter().all(|item| few(conjuncts_of(item)));
    let Some(first) = items.first().filter(|_| small).map(conjuncts_of) else {
        expr.kind = ExprKind::Or(items);
        return;
    };
    let is_common = |part: &Expr| {
        let holds_it = |item: &Expr| conjuncts_of(item).iter().any(|other| same(part, other));
        items.iter().all(holds_it) && !is_volatile(part)
    };
    let mut common: Vec<Expr> = Vec::new();
    for part in first {
        if is_common(part) && !common.iter().any(|known| same(known, part)) {
            common.push(part.clone());
        }
    }
    if common.is_empty() {
        expr.kind = ExprKind::Or(items);
        return;
    }
    let mut alternatives: Vec<Vec<Expr>> = Vec::with_capacity(items.len());
    for item in items {
        let mut parts = match item.kind {
            ExprKind::And(parts) => parts,
            _ => vec![item],
        };
        parts.retain(|part| !common.iter().any(|known| same(known, part)));
        alternatives.push(parts);
    }
    // An alternative that asks for nothing else is true where the common part is.
    if alternatives.iter().all(|parts| !parts.is_empty()) {
        let kinds = alternatives
            .into_iter()
            .map(|parts| conjunction(expr, parts));
        let rest = ExprKind::Or(kinds.collect());
        common.push(Expr {
            kind: rest,
            ty: expr.ty,
            at: expr.at,
        });
    }
    *expr = conjunction(expr, common);
}

fn case(expr: &mut Expr) {
    let ExprKind::Case {
        branches,
        otherwise,
        ..
    } = &mut expr.kind
    else {
        return;
    };
    let mut kept = Vec::with_capacity(branches.len());
    for (condition, value) in std::mem::take(branches) {
        match condition.kind {
            ExprKind::Const(Datum::Bool(true)) => {
                **otherwise = value;
                break;
            }
            ExprKind::Const(Datum::Bool(false) | Datum::Null) => {}
            _ => kept.push((condition, value)),
        }
    }
    if kept.is_empty() {
        expr.kind = std::mem::replace(&mut otherwise.kind, ExprKind::CaseOperand);
    } else {
        *branches = kept;
    }
}

fn coalesce(expr: &mut Expr, items: Vec<Expr>) {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        match &item.kind {
            ExprKind::Const(Datum::Null) => {}
            ExprKind::Const(_) => {
                kept.push(item);
                break;
            }
            _ => kept.push(item),
        }
    }
    match kept.len() {
        0 => set(expr, Datum::Null),
        1 => expr.kind = kept.swap_remove(0).kind,
        _ => expr.kind = ExprKind::Coalesce(kept),
    }
}
