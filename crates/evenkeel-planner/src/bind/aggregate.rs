//! Aggregates: the query that one belongs to, and where they and set-returning functions may
//! stand.

use evenkeel_expr::proc::ProcKind;
use evenkeel_types::{SqlState, SqlType};

use super::call::Resolved;
use super::scope::Place;
use super::walk::{self, Enter};
use super::{Binder, common_type, place, types};
use crate::ast::{self, Pos};
use crate::bound::{AggregateExpr, Expr, ExprKind, SortKey};
use crate::error::{PlanError, PlanResult};

fn error(state: SqlState, message: impl Into<String>, at: Pos) -> PlanError {
    PlanError::new(state, message).at(at)
}

/// The message for an aggregate or GROUPING in a clause that may not have one; `None` where it may.
fn refusal(place: Place, grouping: bool) -> Option<String> {
    let what = if grouping {
        "grouping operations"
    } else {
        "aggregate functions"
    };
    let specially = |rest: &str| Some(format!("{what} are not allowed in {rest}"));
    match place {
        Place::None
        | Place::Having
        | Place::WindowPartition
        | Place::WindowOrder
        | Place::Select
        | Place::OrderBy
        | Place::DistinctOn => None,
        Place::JoinOn => specially("JOIN conditions"),
        Place::FromSubquery => specially("FROM clause of their own query level"),
        Place::FromFunction => specially("functions in FROM"),
        other => specially(other.name()),
    }
}

/// The same for window functions.
pub(super) fn window_refusal(place: Place) -> Option<String> {
    let specially = |rest: &str| Some(format!("window functions are not allowed in {rest}"));
    match place {
        Place::None | Place::Select | Place::OrderBy | Place::DistinctOn => None,
        Place::JoinOn => specially("JOIN conditions"),
        Place::FromFunction => specially("functions in FROM"),
        Place::WindowPartition
        | Place::WindowOrder
        | Place::FrameRange
        | Place::FrameRows
        | Place::FrameGroups => specially("window definitions"),
        other => specially(other.name()),
    }
}

const LATERAL_HINT: &str =
    "You might be able to move the set-returning function into a LATERAL FROM item.";

/// The levels that the arguments of an aggregate refer to.
#[derive(Debug, Default)]
struct Levels {
    variable: Option<usize>,
    aggregate: Option<(usize, Pos)>,
    window: Option<Pos>,
    set: Option<Pos>,
}

fn levels_of<'e>(exprs: impl Iterator<Item = &'e Expr>) -> Levels {
    let mut found = Levels::default();
    for expr in exprs {
        walk::walk(expr, 0, &mut |node, level| {
            match &node.kind {
                ExprKind::Var(var) if var.depth >= level => {
                    let depth = var.depth - level;
                    found.variable = Some(found.variable.map_or(depth, |d| d.min(depth)));
                }
                ExprKind::Aggregate(inner) if inner.depth >= level => {
                    let depth = inner.depth - level;
                    if found.aggregate.is_none_or(|(d, _)| depth < d) {
                        found.aggregate = Some((depth, node.at));
                    }
                    return Enter::No;
                }
                ExprKind::Window(_) if level == 0 => {
                    found.window = found.window.or(Some(node.at));
                }
                ExprKind::SetCall(_) if level == 0 => {
                    found.set = found.set.or(Some(node.at));
                }
                _ => {}
            }
            Enter::Yes
        });
    }
    found
}

/// 0A000 for a set-returning function within the arguments of an aggregate or window function.
fn set_within(what: &str, at: Pos) -> PlanError {
    let message = format!("{what} function calls cannot contain set-returning function calls");
    error(SqlState::FEATURE_NOT_SUPPORTED, message, at).hint(LATERAL_HINT)
}

impl Binder<'_> {
    /// A set-returning function where it may not stand is refused. `seen` is the number of such
    /// functions before the arguments of this one.
    pub(super) fn check_set_call(&mut self, seen: usize, at: Pos) -> PlanResult<()> {
        let scope = self.scope();
        let place = scope.place;
        let unsupported =
            |message: String| Err(error(SqlState::FEATURE_NOT_SUPPORTED, message, at));
        match place {
            Place::None
            | Place::Select
            | Place::GroupBy
            | Place::OrderBy
            | Place::DistinctOn
            | Place::SingleValues
            | Place::WindowPartition
            | Place::WindowOrder => {}
            Place::FromFunction => {
                if scope.set_calls_seen != seen {
                    let message = "set-returning functions must appear at top level of FROM";
                    let inner = scope.last_set_call.unwrap_or(at);
                    return Err(error(SqlState::FEATURE_NOT_SUPPORTED, message, inner));
                }
            }
            Place::JoinOn => {
                return unsupported(
                    "set-returning functions are not allowed in JOIN conditions".into(),
                );
            }
            Place::FrameRange | Place::FrameRows | Place::FrameGroups => {
                return unsupported(
                    "set-returning functions are not allowed in window definitions".into(),
                );
            }
            other => {
                let name = other.name();
                return unsupported(format!("set-returning functions are not allowed in {name}"));
            }
        }
        scope.has_set_calls |= place != Place::FromFunction;
        scope.set_calls_seen += 1;
        scope.last_set_call = Some(at);
        Ok(())
    }

    /// Refuses a set-returning function within a construct that evaluates lazily.
    pub(super) fn no_set_calls_since(&mut self, seen: usize, construct: &str) -> PlanResult<()> {
        let scope = self.scope();
        if scope.set_calls_seen == seen {
            return Ok(());
        }
        let message = format!("set-returning functions are not allowed in {construct}");
        let at = scope.last_set_call.unwrap_or(Pos::NONE);
        Err(error(SqlState::FEATURE_NOT_SUPPORTED, message, at).hint(LATERAL_HINT))
    }

    /// Refuses a set-returning function within the arguments of an aggregate or window function.
    pub(super) fn no_set_calls_in_args(&mut self, seen: usize, what: &str) -> PlanResult<()> {
        let scope = self.scope();
        if scope.set_calls_seen == seen {
            return Ok(());
        }
        Err(set_within(what, scope.last_set_call.unwrap_or(Pos::NONE)))
    }

    /// An aggregate without OVER.
    pub(super) fn bind_aggregate(
        &mut self,
        call: &ast::Call,
        resolved: Resolved,
        seen: usize,
        at: Pos,
    ) -> PlanResult<Expr> {
        let name = call.name.display();
        check_aggregate_syntax(call, &resolved, &name, at)?;
        let filter = self.bind_filter(call)?;
        self.no_set_calls_in_args(seen, "aggregate")?;
        let (direct, args, order_by) =
            self.split_arguments(call, resolved.args, &resolved.proc.kind, &name, at)?;
        let args = self.shown_as_names(resolved.proc, args)?;
        let mut aggregate = AggregateExpr {
            proc: resolved.proc,
            direct,
            args,
            distinct: call.distinct,
            order_by,
            filter,
            variadic_array: resolved.variadic_array,
            depth: 0,
        };
        if aggregate.distinct {
            if !call.within_group {
                self.check_distinct_order(&call.order_by, &aggregate.args)?;
            }
            for arg in &aggregate.args {
                super::sort::check_groupable(arg)?;
                if !super::sort::can_compare("<", arg.ty) {
                    let ty = types::name(arg.ty);
                    let message = format!("could not identify an ordering operator for type {ty}");
                    let detail = "Aggregates with DISTINCT must be able to sort their inputs.";
                    let error = error(SqlState::UNDEFINED_FUNCTION, message, place::of(arg));
                    return Err(error.detail(detail));
                }
            }
        }
        aggregate.depth = self.aggregate_depth(&aggregate)?;
        self.place_aggregate(aggregate.depth, false, at)?;
        Ok(Expr {
            kind: ExprKind::Aggregate(Box::new(aggregate)),
            ty: resolved.result,
            at,
        })
    }

    pub(super) fn bind_filter(&mut self, call: &ast::Call) -> PlanResult<Option<Expr>> {
        match &call.filter {
            Some(filter) => {
                let expr = self.bind_in(Place::Filter, filter)?;
                Ok(Some(self.coerce_to_boolean(expr, "FILTER")?))
            }
            None => Ok(None),
        }
    }

    /// The direct arguments, the aggregated ones and their order.
    #[allow(clippy::type_complexity)]
    fn split_arguments(
        &mut self,
        call: &ast::Call,
        mut args: Vec<Expr>,
        kind: &ProcKind,
        name: &str,
        at: Pos,
    ) -> PlanResult<(Vec<Expr>, Vec<Expr>, Vec<SortKey<Expr>>)> {
        if !call.within_group {
            let order = self.sort_keys(&call.order_by, &args, Place::OrderBy)?;
            return Ok((Vec::new(), args, order));
        }
        let direct = call.args.len();
        let ordered = args.split_off(direct.min(args.len()));
        let mismatch = match kind {
            ProcKind::OrderedSet(_, wanted) if *wanted != direct => {
                let s = if *wanted == 1 { "" } else { "s" };
                Some(format!(
                    "There is an ordered-set aggregate {name}, but it requires {wanted} direct \
                     argument{s}, not {direct}."
                ))
            }
            ProcKind::HypotheticalSet(_) if direct != ordered.len() => Some(format!(
                "To use the hypothetical-set aggregate {name}, the number of hypothetical direct \
                 arguments (here {direct}) must match the number of ordering columns (here {}).",
                ordered.len()
            )),
            _ => None,
        };
        if let Some(hint) = mismatch {
            let given: Vec<SqlType> = args.iter().chain(&ordered).map(|arg| arg.ty).collect();
            let shown = super::call::signature(name, &given);
            let message = format!("function {shown} does not exist");
            return Err(error(SqlState::UNDEFINED_FUNCTION, message, at).hint(hint));
        }
        let (args, ordered) = if matches!(kind, ProcKind::HypotheticalSet(_)) {
            self.unify(args, ordered)?
        } else {
            (args, ordered)
        };
        let mut keys = Vec::with_capacity(ordered.len());
        let mut sorted = Vec::with_capacity(ordered.len());
        for (expr, by) in ordered.into_iter().zip(&call.order_by) {
            let expr = self.resolve_unknown(expr)?;
            keys.push(self.sort_key(by, expr.clone())?);
            sorted.push(expr);
        }
        Ok((args, sorted, keys))
    }

    /// Makes the hypothetical row's values and the ordered ones of common types.
    fn unify(
        &mut self,
        direct: Vec<Expr>,
        ordered: Vec<Expr>,
    ) -> PlanResult<(Vec<Expr>, Vec<Expr>)> {
        let mut left = Vec::new();
        let mut right = Vec::new();
        for (a, b) in direct.into_iter().zip(ordered) {
            let common = common_type::select(&[&b, &a], "WITHIN GROUP")?;
            left.push(self.coerce_to_common(a, common, "WITHIN GROUP")?);
            right.push(self.coerce_to_common(b, common, "WITHIN GROUP")?);
        }
        Ok((left, right))
    }

    /// How many queries further out the aggregate belongs: to the innermost query of its
    /// variables.
    fn aggregate_depth(&mut self, aggregate: &AggregateExpr) -> PlanResult<usize> {
        let keys = aggregate.order_by.iter().map(|key| &key.key);
        let all = aggregate.args.iter().chain(keys).chain(&aggregate.filter);
        let found = levels_of(all);
        let direct = levels_of(aggregate.direct.iter());
        if let Some(at) = found.set.or(direct.set) {
            return Err(set_within("aggregate", at));
        }
        if let Some(at) = found.window.or(direct.window) {
            let message = "aggregate function calls cannot contain window function calls";
            return Err(error(SqlState::GROUPING_ERROR, message, at));
        }
        let inner = found.aggregate.map(|(depth, _)| depth);
        let depth = match (found.variable, inner) {
            (Some(a), Some(b)) => a.min(b),
            (Some(a), None) => a,
            (None, Some(b)) => b,
            (None, None) => 0,
        };
        let nested = [found.aggregate, direct.aggregate];
        for (level, at) in nested.into_iter().flatten() {
            if level == depth {
                let message = "aggregate function calls cannot be nested";
                return Err(error(SqlState::GROUPING_ERROR, message, at));
            }
        }
        if direct.variable.is_some_and(|level| level < depth) {
            let message = "outer-level aggregate cannot contain a lower-level variable in its \
                           direct arguments";
            let at = aggregate.direct.first().map_or(Pos::NONE, place::of);
            return Err(error(SqlState::GROUPING_ERROR, message, at));
        }
        Ok(depth)
    }

    /// Marks the query an aggregate (or GROUPING) belongs to, and refuses it in a clause of that
    /// query that may have none.
    pub(super) fn place_aggregate(
        &mut self,
        depth: usize,
        grouping: bool,
        at: Pos,
    ) -> PlanResult<()> {
        let Some(index) = self.scopes.len().checked_sub(depth + 1) else {
            return Ok(());
        };
        let scope = &mut self.scopes[index];
        if let Some(message) = refusal(scope.place, grouping) {
            return Err(error(SqlState::GROUPING_ERROR, message, at));
        }
        scope.has_aggregates = true;
        Ok(())
    }

    /// `GROUPING(a, b)`; its arguments are looked up when GROUP BY is known.
    pub(super) fn bind_grouping(&mut self, args: &[ast::Expr], at: Pos) -> PlanResult<Expr> {
        if args.len() > 31 {
            let message = "GROUPING must have fewer than 32 arguments";
            return Err(error(SqlState::TOO_MANY_ARGUMENTS, message, at));
        }
        let bound: PlanResult<Vec<Expr>> = args.iter().map(|arg| self.bind_expr(arg)).collect();
        let bound = bound?;
        let found = levels_of(bound.iter());
        if let Some(at) = found.set {
            return Err(set_within("aggregate", at));
        }
        if let Some((_, at)) = found.aggregate {
            let message = "aggregate function calls cannot be nested";
            return Err(error(SqlState::GROUPING_ERROR, message, at));
        }
        if found.variable.is_some_and(|depth| depth > 0) {
            let message = "GROUPING of an outer query's columns is not supported";
            return Err(PlanError::unsupported(message).at(at));
        }
        self.place_aggregate(0, true, at)?;
        let scope = self.scope();
        scope.groupings.push((bound, at));
        let index = scope.groupings.len() - 1;
        Ok(Expr {
            kind: ExprKind::Grouping(vec![index]),
            ty: SqlType::Int4,
            at,
        })
    }
}

fn check_aggregate_syntax(
    call: &ast::Call,
    resolved: &Resolved,
    name: &str,
    at: Pos,
) -> PlanResult<()> {
    let wrong = |message: String| Err(error(SqlState::WRONG_OBJECT_TYPE, message, at));
    let ordered_set = matches!(
        resolved.proc.kind,
        ProcKind::OrderedSet(..) | ProcKind::HypotheticalSet(_)
    );
    if ordered_set && !call.within_group {
        return wrong(format!(
            "WITHIN GROUP is required for ordered-set aggregate {name}"
        ));
    }
    if !ordered_set && call.within_group {
        return wrong(format!(
            "{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"
        ));
    }
    if call.args.is_empty() && !call.star && !call.within_group {
        return wrong(format!(
            "{name}(*) must be used to call a parameterless aggregate function"
        ));
    }
    Ok(())
}
