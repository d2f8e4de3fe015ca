//! Casts between types: by assignment (INSERT, UPDATE, COPY) and explicit.

use std::sync::Arc;

use crate::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND};
use crate::context::TypeContext;
use crate::datetime::{round_seconds, today};
use crate::datum::{ArrayValue, Datum};
use crate::error::{SqlState, TypeError, TypeResult};
use crate::identity::SqlType;
use crate::json::{Jsonb, JsonbItem};
use crate::numeric::Numeric;
use crate::padding::without_blanks;
use crate::text::{cut_string, fit_string};
use crate::timetz::TimeTz;

/// Context of a cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// A value goes into a column: what does not fit is an error.
    Assignment,
    /// `CAST` in the statement: strings are cut, more pairs of types are allowed.
    Explicit,
}

impl Datum {
    /// The value as a column of type `to` takes it. Errors: 22001 for a string that is too
    /// long, 22003 for a number out of range, 42804 where no assignment cast exists, and the
    /// input errors of `to` when a string is read as another type.
    pub fn cast_assign(self, from: SqlType, to: SqlType, cx: &TypeContext) -> TypeResult<Datum> {
        cast(self, from, to, cx, Strictness::Assignment)
    }

    /// `CAST(value AS to)`.
    pub fn cast_explicit(self, from: SqlType, to: SqlType, cx: &TypeContext) -> TypeResult<Datum> {
        cast(self, from, to, cx, Strictness::Explicit)
    }
}

fn cast(
    value: Datum,
    from: SqlType,
    to: SqlType,
    cx: &TypeContext,
    strictness: Strictness,
) -> TypeResult<Datum> {
    if value.is_null() || (from == to && to.typmod() == -1) {
        return Ok(value);
    }
    if let Datum::Jsonb(json) = &value
        && !to.is_string()
    {
        return of_jsonb(json, from, to, cx, strictness);
    }
    match to {
        _ if to.is_string() => to_string_type(value, from, to, cx, strictness),
        // A literal reaches us as text; reading it is what PostgreSQL does with an unknown.
        _ if matches!(value, Datum::Text(_) | Datum::Char(_)) && from.is_string() => {
            Datum::parse_text(to, value.as_str().unwrap_or_default(), cx)
        }
        SqlType::Jsonb if from == SqlType::Json => {
            Datum::parse_text(to, value.as_str().unwrap_or_default(), cx)
        }
        SqlType::Xid => match value {
            Datum::Xid8(number) => Ok(Datum::Oid(number as u32)),
            Datum::Oid(_) => Ok(value),
            _ => Err(no_cast(from, to)),
        },
        SqlType::Int2 => Ok(Datum::Int2(narrow(to_integer(&value, from, to)?, to)?)),
        SqlType::Int4 if matches!(value, Datum::Oid(_)) => {
            // The same bits.
            let bits = to_integer(&value, from, to)? as u32;
            Ok(Datum::Int4(bits.cast_signed()))
        }
        SqlType::Int4 => Ok(Datum::Int4(narrow(to_integer(&value, from, to)?, to)?)),
        SqlType::Int8 => Ok(Datum::Int8(to_integer(&value, from, to)?)),
        _ if to.is_oid() => to_oid(&value, from, to),
        SqlType::Float4 => to_float4(&value, from, to),
        SqlType::Float8 => to_float8(&value, from, to),
        SqlType::Numeric(modifier) => Ok(Datum::Numeric(
            to_numeric(&value, from, to)?.apply_modifier(modifier)?,
        )),
        SqlType::Bool => match (&value, strictness) {
            (Datum::Bool(_), _) => Ok(value),
            (Datum::Int4(number), Strictness::Explicit) => Ok(Datum::Bool(*number != 0)),
            _ => Err(no_cast(from, to)),
        },
        SqlType::Date
        | SqlType::Time(_)
        | SqlType::Timetz(_)
        | SqlType::Timestamp(_)
        | SqlType::Timestamptz(_) => to_datetime(&value, from, to, cx),
        SqlType::Interval(modifier) => match value {
            Datum::Interval(interval) => Ok(Datum::Interval(interval.apply_modifier(modifier)?)),
            _ => Err(no_cast(from, to)),
        },
        SqlType::Array(element, modifier) => match (&value, from.element()) {
            (Datum::Array(array), Some(from_element)) => {
                cast_elements(array, from_element, modifier.on(*element), cx, strictness)
            }
            _ if from.oid() == to.oid() => Ok(value),
            _ => Err(no_cast(from, to)),
        },
        _ if from.oid() == to.oid() => Ok(value),
        _ => Err(no_cast(from, to)),
    }
}

fn to_oid(value: &Datum, from: SqlType, to: SqlType) -> TypeResult<Datum> {
    let number = to_integer(value, from, to)?;
    let bits = match value {
        // The bits of a narrower integer, whatever its sign.
        Datum::Int2(_) | Datum::Int4(_) => Ok(number as u32),
        _ => u32::try_from(number),
    };
    let message = "OID out of range";
    let refused = |_| TypeError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message);
    bits.map(Datum::Oid).map_err(refused)
}

fn cast_elements(
    array: &ArrayValue,
    from: SqlType,
    to: SqlType,
    cx: &TypeContext,
    strictness: Strictness,
) -> TypeResult<Datum> {
    let each = |element: &Datum| cast(element.clone(), from, to, cx, strictness);
    let elements = array.elements().iter().map(each);
    let elements = elements.collect::<TypeResult<_>>()?;
    let cast = ArrayValue::new(array.dimensions(), elements)?;
    Ok(Datum::Array(Arc::new(cast)))
}

fn no_cast(from: SqlType, to: SqlType) -> TypeError {
    TypeError::new(
        SqlState::CANNOT_COERCE,
        format!(
            "cannot cast type {} to {}",
            from.base_name(),
            to.base_name()
        ),
    )
}

/// A `jsonb` as a value of another type; `null` is NULL.
fn of_jsonb(
    json: &Jsonb,
    from: SqlType,
    to: SqlType,
    cx: &TypeContext,
    strictness: Strictness,
) -> TypeResult<Datum> {
    let kind = match (json.root().item(), to) {
        (_, SqlType::Jsonb) => return Ok(Datum::Jsonb(json.clone())),
        (_, SqlType::Json) => {
            return Ok(Datum::Text(Datum::Jsonb(json.clone()).to_text(from, cx)));
        }
        _ if strictness == Strictness::Assignment => return Err(no_cast(from, to)),
        (JsonbItem::Null, _) => return Ok(Datum::Null),
        (JsonbItem::Bool(value), SqlType::Bool) => return Ok(Datum::Bool(value)),
        (JsonbItem::Number(number), _) if to.is_number() => {
            return cast(
                Datum::Numeric(number),
                SqlType::Numeric(None),
                to,
                cx,
                strictness,
            );
        }
        _ if !to.is_number() && to != SqlType::Bool => return Err(no_cast(from, to)),
        (JsonbItem::String(_), _) => "string",
        (JsonbItem::Number(_), _) => "numeric",
        (JsonbItem::Bool(_), _) => "boolean",
        (JsonbItem::Array(_), _) => "array",
        (JsonbItem::Object(_), _) => "object",
    };
    let message = format!("cannot cast jsonb {kind} to type {}", to.base_name());
    Err(TypeError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

fn out_of_range(ty: SqlType) -> TypeError {
    let message = match ty {
        SqlType::Float8 | SqlType::Float4 => "value out of range: overflow".to_owned(),
        other => format!("{} out of range", other.base_name()),
    };
    TypeError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

fn to_string_type(
    value: Datum,
    from: SqlType,
    to: SqlType,
    cx: &TypeContext,
    strictness: Strictness,
) -> TypeResult<Datum> {
    let text = match value {
        Datum::Text(text) if from != SqlType::InternalChar => text,
        Datum::Char(text) if matches!(to, SqlType::Char(_) | SqlType::InternalChar) => text,
        Datum::Char(text) => without_blanks(&text).to_owned(),
        // As text a boolean is a word, though its output form is a letter: to the other string
        // types it has no cast but by that form.
        Datum::Bool(value) if !matches!(to, SqlType::Name | SqlType::InternalChar) => {
            if value { "true" } else { "false" }.to_owned()
        }
        other => other.to_text(from, cx),
    };
    match strictness {
        Strictness::Assignment => fit_string(&text, to),
        Strictness::Explicit => Ok(cut_string(&text, to)),
    }
}

fn narrow<T: TryFrom<i64>>(value: i64, to: SqlType) -> TypeResult<T> {
    T::try_from(value).map_err(|_| out_of_range(to))
}

fn to_integer(value: &Datum, from: SqlType, to: SqlType) -> TypeResult<i64> {
    match value {
        Datum::Int2(n) => Ok(i64::from(*n)),
        Datum::Int4(n) => Ok(i64::from(*n)),
        Datum::Int8(n) => Ok(*n),
        Datum::Oid(n) => Ok(i64::from(*n)),
        Datum::Float4(x) => float_to_integer(f64::from(*x), to),
        Datum::Float8(x) => float_to_integer(*x, to),
        Datum::Numeric(n) if n.is_finite() => n
            .round(0)?
            .to_i128(0)
            .and_then(|n| i64::try_from(n).ok())
            .ok_or_else(|| out_of_range(to)),
        Datum::Numeric(n) => {
            let kind = if *n == Numeric::nan() {
                "NaN"
            } else {
                "infinity"
            };
            Err(TypeError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cannot convert {kind} to {}", to.base_name()),
            ))
        }
        Datum::Bool(value) if to == SqlType::Int4 => Ok(i64::from(*value)),
        _ => Err(no_cast(from, to)),
    }
}

/// Rounds half to even, as C's `rint` does.
fn float_to_integer(value: f64, to: SqlType) -> TypeResult<i64> {
    let rounded = value.round_ties_even();
    // 2^63 itself is representable and out of range.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        Ok(rounded as i64)
    } else {
        Err(out_of_range(to))
    }
}

fn to_float8(value: &Datum, from: SqlType, to: SqlType) -> TypeResult<Datum> {
    let number = match value {
        Datum::Float8(x) => *x,
        Datum::Float4(x) => f64::from(*x),
        Datum::Numeric(n) => {
            let x = n.to_f64();
            if n.is_finite() && (x.is_infinite() || (x == 0.0 && !n.digits().is_empty())) {
                return Err(out_of_float_range(n, "double precision"));
            }
            x
        }
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => to_integer(value, from, to)? as f64,
        _ => return Err(no_cast(from, to)),
    };
    Ok(Datum::Float8(number))
}

fn to_float4(value: &Datum, from: SqlType, to: SqlType) -> TypeResult<Datum> {
    match value {
        Datum::Float4(_) => return Ok(value.clone()),
        Datum::Numeric(n) => return numeric_to_float4(n).map(Datum::Float4),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => {
            return Ok(Datum::Float4(to_integer(value, from, to)? as f32));
        }
        _ => {}
    }
    let Datum::Float8(wide) = to_float8(value, from, to)? else {
        return Err(no_cast(from, to));
    };
    let narrow = wide as f32;
    if narrow.is_infinite() && wide.is_finite() {
        return Err(out_of_range(to));
    }
    if narrow == 0.0 && wide != 0.0 {
        let message = "value out of range: underflow";
        return Err(TypeError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            message,
        ));
    }
    Ok(Datum::Float4(narrow))
}

/// By the text form, as PostgreSQL does: no value is rounded twice.
fn numeric_to_float4(n: &Numeric) -> TypeResult<f32> {
    let number: f32 = n.to_string().parse().unwrap_or(f32::NAN);
    if n.is_finite() && (number.is_infinite() || (number == 0.0 && !n.digits().is_empty())) {
        return Err(out_of_float_range(n, "real"));
    }
    Ok(number)
}

fn out_of_float_range(n: &Numeric, name: &str) -> TypeError {
    TypeError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("\"{n}\" is out of range for type {name}"),
    )
}

fn to_numeric(value: &Datum, from: SqlType, to: SqlType) -> TypeResult<Numeric> {
    match value {
        Datum::Numeric(n) => Ok(n.clone()),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => {
            Ok(Numeric::from(to_integer(value, from, to)?))
        }
        Datum::Float8(x) => Ok(Numeric::from_float(*x, 15)),
        Datum::Float4(x) => Ok(Numeric::from_float(f64::from(*x), 6)),
        _ => Err(no_cast(from, to)),
    }
}

fn day_of(micros: i64) -> i32 {
    match micros {
        i64::MAX => i32::MAX,
        i64::MIN => i32::MIN,
        _ => i32::try_from(micros.div_euclid(MICROS_PER_DAY)).unwrap_or(i32::MAX),
    }
}

fn is_infinite(micros: i64) -> bool {
    micros == i64::MAX || micros == i64::MIN
}

/// The session's clock reading at an instant.
fn to_local(instant: i64, cx: &TypeContext) -> i64 {
    if is_infinite(instant) {
        return instant;
    }
    instant.saturating_add(i64::from(cx.time_zone.offset_at(instant)) * MICROS_PER_SECOND)
}

/// The instant at which the session's clock reads `local`.
fn to_instant(local: i64, cx: &TypeContext) -> i64 {
    if is_infinite(local) {
        return local;
    }
    local.saturating_sub(i64::from(cx.time_zone.offset_of_local(local)) * MICROS_PER_SECOND)
}

/// A time of day as one with or without a zone.
fn to_time(value: &Datum, to: SqlType, cx: &TypeContext) -> Option<Datum> {
    Some(match (value, to) {
        (Datum::Time(micros), SqlType::Time(digits)) => Datum::Time(round_seconds(*micros, digits)),
        (Datum::Timetz(time), SqlType::Time(digits)) => {
            Datum::Time(round_seconds(time.micros, digits))
        }
        (Datum::Timetz(time), SqlType::Timetz(digits)) => Datum::Timetz(time.rounded(digits)),
        (Datum::Time(micros), SqlType::Timetz(digits)) => {
            let local = today(cx).saturating_mul(MICROS_PER_DAY) + micros;
            let time = TimeTz::new(*micros, cx.time_zone.offset_of_local(local));
            Datum::Timetz(time.rounded(digits))
        }
        (Datum::Timestamptz(instant), SqlType::Timetz(_)) if is_infinite(*instant) => Datum::Null,
        (Datum::Timestamptz(instant), SqlType::Timetz(digits)) => {
            let local = to_local(*instant, cx).rem_euclid(MICROS_PER_DAY);
            let time = TimeTz::new(local, cx.time_zone.offset_at(*instant));
            Datum::Timetz(time.rounded(digits))
        }
        _ => return None,
    })
}

fn to_datetime(value: &Datum, from: SqlType, to: SqlType, cx: &TypeContext) -> TypeResult<Datum> {
    let midnight = |days: i32| match days {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        _ => i64::from(days).checked_mul(MICROS_PER_DAY).ok_or_else(|| {
            let message = "date out of range for timestamp";
            TypeError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        }),
    };
    if let Some(time) = to_time(value, to, cx) {
        return Ok(time);
    }
    let local = match *value {
        Datum::Date(days) if to == SqlType::Date => return Ok(Datum::Date(days)),
        Datum::Timestamptz(micros) => match to {
            SqlType::Timestamptz(digits) => {
                return Ok(Datum::Timestamptz(round_seconds(micros, digits)));
            }
            _ => to_local(micros, cx),
        },
        Datum::Timestamp(micros) => micros,
        Datum::Date(days) if !matches!(to, SqlType::Time(_)) => midnight(days)?,
        _ => return Err(no_cast(from, to)),
    };
    Ok(match to {
        SqlType::Date => Datum::Date(day_of(local)),
        SqlType::Time(_) if is_infinite(local) => Datum::Null,
        SqlType::Time(digits) => {
            Datum::Time(round_seconds(local.rem_euclid(MICROS_PER_DAY), digits))
        }
        SqlType::Timestamp(digits) => Datum::Timestamp(round_seconds(local, digits)),
        SqlType::Timestamptz(digits) => {
            Datum::Timestamptz(round_seconds(to_instant(local, cx), digits))
        }
        _ => return Err(no_cast(from, to)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::NumericMod;
    use crate::zone::TimeZone;

    fn assign(value: Datum, from: SqlType, to: SqlType) -> TypeResult<Datum> {
        value.cast_assign(from, to, &TypeContext::default())
    }

    #[test]
    fn numbers_round_and_are_checked() {
        let int4 = |v: Datum, from| assign(v, from, SqlType::Int4);
        assert_eq!(
            int4(Datum::Float8(2.5), SqlType::Float8).unwrap(),
            Datum::Int4(2)
        );
        assert_eq!(
            int4(Datum::Float8(-3.5), SqlType::Float8).unwrap(),
            Datum::Int4(-4)
        );
        let half = Datum::Numeric(Numeric::parse("2.5").unwrap());
        assert_eq!(int4(half, SqlType::Numeric(None)).unwrap(), Datum::Int4(3));
        let error = int4(Datum::Int8(1 << 40), SqlType::Int8).unwrap_err();
        assert_eq!(error.sqlstate, SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
        assert_eq!(&*error.message, "integer out of range");
        assert!(int4(Datum::Float8(f64::NAN), SqlType::Float8).is_err());
        let money = SqlType::Numeric(Some(NumericMod {
            precision: 5,
            scale: 2,
        }));
        let value = assign(Datum::Int4(12), SqlType::Int4, money).unwrap();
        assert_eq!(value.to_text(money, &TypeContext::default()), "12.00");
        assert!(assign(Datum::Int4(1000), SqlType::Int4, money).is_err());
        assert!(assign(Datum::Float8(1e300), SqlType::Float8, SqlType::Float4).is_err());
    }

    #[test]
    fn assignment_refuses_long_strings_and_a_cast_cuts_them() {
        let to = SqlType::Varchar(Some(3));
        let error = assign("abcd".into(), SqlType::Text, to).unwrap_err();
        assert_eq!(error.sqlstate, SqlState::STRING_DATA_RIGHT_TRUNCATION);
        assert_eq!(
            assign("abc  ".into(), SqlType::Text, to).unwrap(),
            Datum::from("abc")
        );
        let cx = TypeContext::default();
        let cut = Datum::from("abcd")
            .cast_explicit(SqlType::Text, to, &cx)
            .unwrap();
        assert_eq!(cut, Datum::from("abc"));
        let word = Datum::Bool(true)
            .cast_explicit(SqlType::Bool, SqlType::Text, &cx)
            .unwrap();
        assert_eq!(word, Datum::from("true"));
    }

    #[test]
    fn dates_and_instants_convert_by_the_sessions_zone() {
        let zone = TimeZone::parse("Europe/Berlin").unwrap();
        let cx = TypeContext {
            time_zone: zone,
            ..TypeContext::default()
        };
        let day = Datum::Date(0);
        let instant = day
            .cast_assign(SqlType::Date, SqlType::Timestamptz(None), &cx)
            .unwrap();
        assert_eq!(instant, Datum::Timestamptz(-3_600_000_000));
        let back = instant
            .cast_assign(SqlType::Timestamptz(None), SqlType::Date, &cx)
            .unwrap();
        assert_eq!(back, Datum::Date(0));
    }

    #[test]
    fn types_that_do_not_convert_are_refused() {
        let error = assign(Datum::Bool(true), SqlType::Bool, SqlType::Date).unwrap_err();
        assert_eq!(error.sqlstate, SqlState::CANNOT_COERCE);
        assert!(assign(Datum::Int4(1), SqlType::Int4, SqlType::Bool).is_err());
    }
}
