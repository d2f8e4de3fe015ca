//! The functions of enumerated types that are asked for their labels.

use evenkeel_types::enums::{EnumType, EnumValue};
use evenkeel_types::{Datum, SqlState, SqlType, TypeError};

use crate::call::Call;
use crate::error::ExprResult;

/// The enumerated type of a call's arguments.
fn type_of(call: &Call<'_>) -> ExprResult<&'static EnumType> {
    match call.type_of(0) {
        SqlType::Enum(ty) => Ok(ty),
        _ => Err(TypeError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "could not determine actual enum type",
        )),
    }
}

fn at_end(call: &Call<'_>, last: bool) -> ExprResult<Datum> {
    let ty = type_of(call)?;
    let label = match last {
        true => ty.labels().last(),
        false => ty.labels().first(),
    };
    let label = label.ok_or_else(|| {
        TypeError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("enum {} contains no values", ty.name()),
        )
    })?;
    let position = label.position;
    Ok(Datum::Enum(EnumValue { ty, position }))
}

/// `enum_first`
pub fn first(call: &Call<'_>) -> ExprResult<Datum> {
    at_end(call, false)
}

/// `enum_last`
pub fn last(call: &Call<'_>) -> ExprResult<Datum> {
    at_end(call, true)
}

/// `enum_range` from one value to another; without one to the end.
pub fn range(call: &Call<'_>) -> ExprResult<Datum> {
    let bound = |at| match call.arg(at) {
        Datum::Enum(value) => Some(value.position),
        _ => None,
    };
    labels(type_of(call)?, bound(0), bound(1))
}

/// `enum_range` of all values.
pub fn range_all(call: &Call<'_>) -> ExprResult<Datum> {
    labels(type_of(call)?, None, None)
}

fn labels(ty: &'static EnumType, from: Option<i64>, to: Option<i64>) -> ExprResult<Datum> {
    let positions = ty.labels().iter().map(|label| label.position);
    let within =
        positions.filter(|at| from.is_none_or(|from| from <= *at) && to.is_none_or(|to| *at <= to));
    let values = within.map(|position| Datum::Enum(EnumValue { ty, position }));
    Ok(Datum::array(values.collect()))
}
