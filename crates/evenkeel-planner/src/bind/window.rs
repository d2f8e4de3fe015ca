//! Window functions and window definitions.

use evenkeel_expr::proc::{CastContext, ProcKind};
use evenkeel_types::{SqlState, SqlType};

use super::aggregate::window_refusal;
use super::call::Resolved;
use super::pathway::can_coerce;
use super::scope::Place;
use super::sort::{check_groupable, no_variables};
use super::walk::{self, Enter};
use super::{Binder, equal, types};
use crate::ast::{self, FrameExclude, FrameUnit, Pos};
use crate::bound::{Expr, ExprKind, Frame, FrameBound, SortKey, WindowDef, WindowExpr};
use crate::error::{PlanError, PlanResult};

fn windowing(message: impl Into<String>, at: Pos) -> PlanError {
    PlanError::new(SqlState::WINDOWING_ERROR, message).at(at)
}

fn window_in(exprs: &[Expr]) -> Option<Pos> {
    let mut found = None;
    for expr in exprs {
        walk::walk(expr, 0, &mut |node, level| {
            if level > 0 {
                return Enter::No;
            }
            if matches!(node.kind, ExprKind::Window(_)) && found.is_none() {
                found = Some(node.at);
            }
            Enter::Yes
        });
    }
    found
}

impl Binder<'_> {
    /// A call with OVER, or of a window function without it, which is refused.
    pub(super) fn bind_window_call(
        &mut self,
        call: &ast::Call,
        resolved: Resolved,
        seen: usize,
        at: Pos,
    ) -> PlanResult<Expr> {
        let name = call.name.display();
        let over = check_window_syntax(call, &resolved, &name, at)?;
        let filter = self.bind_filter(call)?;
        self.no_set_calls_in_args(seen, "window")?;
        if let Some(inner) = window_in(&resolved.args) {
            return Err(windowing("window function calls cannot be nested", inner));
        }
        if let Some(message) = window_refusal(self.scope().place) {
            return Err(windowing(message, at));
        }
        let window = self.window_of(over)?;
        self.scope().has_windows = true;
        let kind = WindowExpr {
            proc: resolved.proc,
            args: resolved.args,
            filter,
            window,
        };
        Ok(Expr {
            kind: ExprKind::Window(Box::new(kind)),
            ty: resolved.result,
            at,
        })
    }

    /// The number of the window that OVER means.
    fn window_of(&mut self, over: &ast::Window) -> PlanResult<usize> {
        let scope = self.scope();
        if over.reference
            && let Some(name) = &over.name
        {
            let named = |window: &ast::Window| {
                !window.reference && window.name.as_ref().is_some_and(|n| n.text == name.text)
            };
            return scope.windows.iter().position(named).ok_or_else(|| {
                let message = format!("window \"{}\" does not exist", name.text);
                PlanError::new(SqlState::UNDEFINED_OBJECT, message).at(over.at)
            });
        }
        // Windows that are written alike are one; those of the WINDOW clause have names.
        let alike = |window: &ast::Window| window.name.is_none() && ast::same(window, over);
        if let Some(known) = scope.windows.iter().position(alike) {
            return Ok(known);
        }
        scope.windows.push(over.clone());
        Ok(scope.windows.len() - 1)
    }

    /// The windows of the query, when its other clauses are bound.
    pub(super) fn bind_windows(&mut self) -> PlanResult<Vec<WindowDef>> {
        let windows = std::mem::take(&mut self.scope().windows);
        let mut bound: Vec<WindowDef> = Vec::with_capacity(windows.len());
        for (index, window) in windows.iter().enumerate() {
            let same_name = |other: &ast::Window| match (&other.name, &window.name) {
                (Some(a), Some(b)) => a.text == b.text,
                _ => false,
            };
            if let (Some(name), true) = (&window.name, windows[..index].iter().any(same_name)) {
                let message = format!("window \"{}\" is already defined", name.text);
                return Err(windowing(message, window.at));
            }
            let base = match &window.base {
                Some(base) => {
                    let named = |other: &ast::Window| {
                        other
                            .name
                            .as_ref()
                            .is_some_and(|name| name.text == base.text)
                    };
                    match windows[..index].iter().position(named) {
                        Some(found) => Some((base.text.as_str(), &windows[found], &bound[found])),
                        None => {
                            let message = format!("window \"{}\" does not exist", base.text);
                            let error = PlanError::new(SqlState::UNDEFINED_OBJECT, message);
                            return Err(error.at(window.at));
                        }
                    }
                }
                None => None,
            };
            let base = base.map(|(name, ast, def)| (name, ast.frame.is_some(), def.clone()));
            bound.push(self.bind_window(window, base)?);
        }
        Ok(bound)
    }

    fn bind_window(
        &mut self,
        window: &ast::Window,
        base: Option<(&str, bool, WindowDef)>,
    ) -> PlanResult<WindowDef> {
        let mut partition_by: Vec<Expr> = Vec::new();
        let own_order = self.sort_keys(&window.order_by, &[], Place::WindowOrder)?;
        for item in &window.partition_by {
            let expr = self.bind_in(Place::WindowPartition, item)?;
            let expr = self.resolve_unknown(expr)?;
            check_groupable(&expr)?;
            if !partition_by.iter().any(|other| equal::exprs(other, &expr)) {
                partition_by.push(expr);
            }
        }
        let mut order_by = own_order;
        if let Some((name, has_frame, base)) = base {
            if !window.partition_by.is_empty() {
                let message = format!("cannot override PARTITION BY clause of window \"{name}\"");
                return Err(windowing(message, window.at));
            }
            if !order_by.is_empty() && !base.order_by.is_empty() {
                let message = format!("cannot override ORDER BY clause of window \"{name}\"");
                return Err(windowing(message, window.at));
            }
            if has_frame {
                let message =
                    format!("cannot copy window \"{name}\" because it has a frame clause");
                let error = windowing(message, window.at);
                let bare = window.name.is_none() && order_by.is_empty() && window.frame.is_none();
                return Err(if bare {
                    error.hint("Omit the parentheses in this OVER clause.")
                } else {
                    error
                });
            }
            partition_by = base.partition_by;
            if order_by.is_empty() {
                order_by = base.order_by;
            }
        }
        let frame = self.bind_frame(window, &order_by)?;
        Ok(WindowDef {
            partition_by,
            order_by,
            frame,
        })
    }

    fn bind_frame(&mut self, window: &ast::Window, order: &[SortKey<Expr>]) -> PlanResult<Frame> {
        let Some(frame) = &window.frame else {
            return Ok(Frame {
                unit: FrameUnit::Range,
                start: FrameBound::UnboundedPreceding,
                end: FrameBound::CurrentRow,
                exclude: FrameExclude::NoOthers,
            });
        };
        let is_offset = |bound: &ast::FrameBound| {
            matches!(
                bound,
                ast::FrameBound::Preceding(_) | ast::FrameBound::Following(_)
            )
        };
        let offsets = is_offset(&frame.start) || is_offset(&frame.end);
        if frame.unit == FrameUnit::Range && offsets && order.len() != 1 {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY \
                           column";
            return Err(windowing(message, window.at));
        }
        if frame.unit == FrameUnit::Groups && order.is_empty() {
            return Err(windowing(
                "GROUPS mode requires an ORDER BY clause",
                window.at,
            ));
        }
        let key = order.first().map(|key| key.key.ty);
        Ok(Frame {
            unit: frame.unit,
            start: self.bind_bound(&frame.start, frame.unit, key)?,
            end: self.bind_bound(&frame.end, frame.unit, key)?,
            exclude: frame.exclude,
        })
    }

    fn bind_bound(
        &mut self,
        bound: &ast::FrameBound,
        unit: FrameUnit,
        key: Option<SqlType>,
    ) -> PlanResult<FrameBound> {
        Ok(match bound {
            ast::FrameBound::UnboundedPreceding => FrameBound::UnboundedPreceding,
            ast::FrameBound::CurrentRow => FrameBound::CurrentRow,
            ast::FrameBound::UnboundedFollowing => FrameBound::UnboundedFollowing,
            ast::FrameBound::Preceding(offset) => {
                FrameBound::Preceding(Box::new(self.bind_offset(offset, unit, key)?))
            }
            ast::FrameBound::Following(offset) => {
                FrameBound::Following(Box::new(self.bind_offset(offset, unit, key)?))
            }
        })
    }

    fn bind_offset(
        &mut self,
        offset: &ast::Expr,
        unit: FrameUnit,
        key: Option<SqlType>,
    ) -> PlanResult<Expr> {
        let (place, clause) = match unit {
            FrameUnit::Rows => (Place::FrameRows, "ROWS"),
            FrameUnit::Groups => (Place::FrameGroups, "GROUPS"),
            FrameUnit::Range => (Place::FrameRange, "RANGE"),
        };
        let bound = self.bind_in(place, offset)?;
        let bound = match (unit, key) {
            (FrameUnit::Range, Some(key)) => self.range_offset(bound, key)?,
            _ => self.coerce_to_specific(bound, SqlType::Int8, clause)?,
        };
        no_variables(&bound, clause)?;
        Ok(bound)
    }

    /// An offset of RANGE, as the type by which the ordering column's type can be changed.
    fn range_offset(&mut self, offset: Expr, key: SqlType) -> PlanResult<Expr> {
        let at = super::place::of(&offset);
        let given = offset.ty;
        let choices = range_offset_types(key);
        if choices.is_empty() {
            let message = format!(
                "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
                types::name(key)
            );
            return Err(PlanError::unsupported(message).at(at));
        }
        let fits = |ty: &&SqlType| can_coerce(given, **ty, CastContext::Implicit);
        let reached: Vec<SqlType> = choices.iter().filter(fits).copied().collect();
        let same = reached.iter().copied().find(|ty| {
            types::same(*ty, given) || (given == SqlType::Unknown && types::same(*ty, key))
        });
        let chosen = same.or(match reached.as_slice() {
            [only] => Some(*only),
            _ => None,
        });
        match chosen {
            Some(ty) => self.coerce(offset, ty, CastContext::Implicit, Pos::NONE),
            None if reached.is_empty() => {
                let message = format!(
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} \
                     and offset type {}",
                    types::name(key),
                    types::name(given)
                );
                let hint = "Cast the offset value to an appropriate type.";
                Err(PlanError::unsupported(message).hint(hint).at(at))
            }
            None => {
                let message = format!(
                    "RANGE with offset PRECEDING/FOLLOWING has multiple interpretations for \
                     column type {} and offset type {}",
                    types::name(key),
                    types::name(given)
                );
                let hint = "Cast the offset value to the exact intended type.";
                Err(PlanError::unsupported(message).hint(hint).at(at))
            }
        }
    }
}

/// Refuses what a call over a window may not have; gives its window.
fn check_window_syntax<'c>(
    call: &'c ast::Call,
    resolved: &Resolved,
    name: &str,
    at: Pos,
) -> PlanResult<&'c ast::Window> {
    let wrong = |message: String| Err(PlanError::new(SqlState::WRONG_OBJECT_TYPE, message).at(at));
    let unsupported = |message: String| Err(PlanError::unsupported(message).at(at));
    let plain = matches!(resolved.proc.kind, ProcKind::Window(_));
    if plain && call.within_group {
        return wrong(format!("window function {name} cannot have WITHIN GROUP"));
    }
    let Some(over) = &call.over else {
        return wrong(format!("window function {name} requires an OVER clause"));
    };
    if matches!(
        resolved.proc.kind,
        ProcKind::OrderedSet(..) | ProcKind::HypotheticalSet(_)
    ) {
        if !call.within_group {
            return wrong(format!(
                "WITHIN GROUP is required for ordered-set aggregate {name}"
            ));
        }
        return unsupported(format!(
            "OVER is not supported for ordered-set aggregate {name}"
        ));
    }
    if !plain && call.args.is_empty() && !call.star {
        return wrong(format!(
            "{name}(*) must be used to call a parameterless aggregate function"
        ));
    }
    if call.distinct {
        return unsupported("DISTINCT is not implemented for window functions".into());
    }
    if !call.order_by.is_empty() {
        return unsupported("aggregate ORDER BY is not implemented for window functions".into());
    }
    if plain && call.filter.is_some() {
        return unsupported("FILTER is not implemented for non-aggregate window functions".into());
    }
    Ok(over)
}

/// The types of offsets that `in_range` of the type takes.
fn range_offset_types(key: SqlType) -> &'static [SqlType] {
    match key {
        SqlType::Int2 | SqlType::Int4 => &[SqlType::Int2, SqlType::Int4, SqlType::Int8],
        SqlType::Int8 => &[SqlType::Int8],
        SqlType::Float4 | SqlType::Float8 => &[SqlType::Float8],
        SqlType::Numeric(_) => &[SqlType::Numeric(None)],
        SqlType::Date
        | SqlType::Time(_)
        | SqlType::Timetz(_)
        | SqlType::Timestamp(_)
        | SqlType::Timestamptz(_)
        | SqlType::Interval(_) => &[SqlType::Interval(None)],
        _ => &[],
    }
}
