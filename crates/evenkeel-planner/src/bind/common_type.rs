//! The common type of the branches of CASE, the columns of UNION, the elements of ARRAY, ….

use evenkeel_expr::proc::CastContext;
use evenkeel_types::{SqlState, SqlType};

use super::pathway::can_coerce;
use super::{place, tables, types};
use crate::bound::Expr;
use crate::error::{PlanError, PlanResult};

/// The common type, without modifier.
///
/// # Errors
/// 42804 where two types are of different categories; it names `construct` and points at the
/// second of them.
pub(super) fn select(exprs: &[&Expr], construct: &str) -> PlanResult<SqlType> {
    let list: Vec<SqlType> = exprs.iter().map(|expr| expr.ty).collect();
    select_types(&list).map_err(|conflict| {
        let message = format!(
            "{construct} types {} and {} cannot be matched",
            types::name(conflict.left),
            types::name(conflict.right)
        );
        let at = place::of(exprs[conflict.index]);
        PlanError::new(SqlState::DATATYPE_MISMATCH, message).at(at)
    })
}

/// Two types that have no common one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conflict {
    left: SqlType,
    right: SqlType,
    /// The place of the second in the list.
    index: usize,
}

/// The common type of a list of types.
pub(super) fn select_types(list: &[SqlType]) -> Result<SqlType, Conflict> {
    let Some(first) = list.first() else {
        return Ok(SqlType::Text);
    };
    let mut chosen = first.without_modifier();
    if chosen != SqlType::Unknown && list.iter().all(|ty| types::same(*ty, chosen)) {
        return Ok(chosen);
    }
    chosen = chosen.base().without_modifier();
    for (index, ty) in list.iter().enumerate().skip(1) {
        let ty = ty.base().without_modifier();
        if ty == SqlType::Unknown || types::same(ty, chosen) {
            continue;
        }
        if chosen == SqlType::Unknown {
            chosen = ty;
        } else if tables::category(ty) != tables::category(chosen) {
            return Err(Conflict {
                left: chosen,
                right: ty,
                index,
            });
        } else if !tables::is_preferred(chosen)
            && can_coerce(chosen, ty, CastContext::Implicit)
            && !can_coerce(ty, chosen, CastContext::Implicit)
        {
            chosen = ty;
        }
    }
    Ok(if chosen == SqlType::Unknown {
        SqlType::Text
    } else {
        chosen
    })
}

/// The common type with the modifier that all the expressions have.
pub(super) fn with_modifier(exprs: &[&Expr], common: SqlType) -> SqlType {
    match exprs.first() {
        Some(first) if types::same(first.ty, common) && exprs.iter().all(|e| e.ty == first.ty) => {
            first.ty
        }
        _ => common,
    }
}
