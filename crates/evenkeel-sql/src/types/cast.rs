//! Casts between types: by assignment (INSERT, UPDATE, COPY) and explicit.

use super::datetime::{MICROS_PER_DAY, MICROS_PER_SECOND, round_seconds};
use super::text::{cut_string, fit_string};
use super::{Datum, Numeric, SqlType, TypeContext};
use crate::error::{SqlError, SqlResult, SqlState};

/// Who asks for a cast.
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
    pub fn cast_assign(self, from: SqlType, to: SqlType, cx: &TypeContext) -> SqlResult<Datum> {
        cast(self, from, to, cx, Strictness::Assignment)
    }

    /// `CAST(value AS to)`.
    pub fn cast_explicit(self, from: SqlType, to: SqlType, cx: &TypeContext) -> SqlResult<Datum> {
        cast(self, from, to, cx, Strictness::Explicit)
    }
}

fn cast(
    value: Datum,
    from: SqlType,
    to: SqlType,
    cx: &TypeContext,
    strictness: Strictness,
) -> SqlResult<Datum> {
    if value.is_null() || (from == to && to.typmod() == -1) {
        return Ok(value);
    }
    match to {
        _ if to.is_string() => to_string_type(value, from, to, cx, strictness),
        // A literal reaches us as text; reading it is what PostgreSQL does with an unknown.
        _ if matches!(value, Datum::Text(_)) && from.is_string() => {
            Datum::parse_text(to, value.as_str().unwrap_or_default(), cx)
        }
        SqlType::Int2 => Ok(Datum::Int2(narrow(to_integer(&value, from, to)?, to)?)),
        SqlType::Int4 => Ok(Datum::Int4(narrow(to_integer(&value, from, to)?, to)?)),
        SqlType::Int8 => Ok(Datum::Int8(to_integer(&value, from, to)?)),
        SqlType::Oid | SqlType::Regclass | SqlType::Regtype | SqlType::Regproc => {
            let number = to_integer(&value, from, to)?;
            let bits = u32::try_from(number).or_else(|_| i32::try_from(number).map(|n| n as u32));
            bits.map(Datum::Oid).map_err(|_| out_of_range(SqlType::Oid))
        }
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
        SqlType::Date | SqlType::Time | SqlType::Timestamp(_) | SqlType::Timestamptz(_) => {
            to_datetime(value, from, to, cx)
        }
        _ if from.oid() == to.oid() => Ok(value),
        _ => Err(no_cast(from, to)),
    }
}

fn no_cast(from: SqlType, to: SqlType) -> SqlError {
    SqlError::new(
        SqlState::CANNOT_COERCE,
        format!(
            "cannot cast type {} to {}",
            from.base_name(),
            to.base_name()
        ),
    )
}

fn out_of_range(ty: SqlType) -> SqlError {
    let message = match ty {
        SqlType::Float8 | SqlType::Float4 => "value out of range: overflow".to_owned(),
        other => format!("{} out of range", other.base_name()),
    };
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

fn to_string_type(
    value: Datum,
    from: SqlType,
    to: SqlType,
    cx: &TypeContext,
    strictness: Strictness,
) -> SqlResult<Datum> {
    let text = match value {
        Datum::Text(text) => text,
        // As text a boolean is a word, though its output form is a letter.
        Datum::Bool(value) => if value { "true" } else { "false" }.to_owned(),
        other => other.to_text(from, cx),
    };
    match strictness {
        Strictness::Assignment => fit_string(&text, to).map(Datum::Text),
        Strictness::Explicit => Ok(Datum::Text(cut_string(&text, to))),
    }
}

fn narrow<T: TryFrom<i64>>(value: i64, to: SqlType) -> SqlResult<T> {
    T::try_from(value).map_err(|_| out_of_range(to))
}

fn to_integer(value: &Datum, from: SqlType, to: SqlType) -> SqlResult<i64> {
    match value {
        Datum::Int2(n) => Ok(i64::from(*n)),
        Datum::Int4(n) => Ok(i64::from(*n)),
        Datum::Int8(n) => Ok(*n),
        Datum::Oid(n) => Ok(i64::from(*n)),
        Datum::Float4(x) => float_to_integer(f64::from(*x), to),
        Datum::Float8(x) => float_to_integer(*x, to),
        Datum::Numeric(n) if n.is_finite() => n
            .round(0)
            .to_i128(0)
            .and_then(|n| i64::try_from(n).ok())
            .ok_or_else(|| out_of_range(to)),
        Datum::Numeric(n) => {
            let kind = if *n == Numeric::nan() {
                "NaN"
            } else {
                "infinity"
            };
            Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cannot convert {kind} to {}", to.base_name()),
            ))
        }
        Datum::Bool(value) if to == SqlType::Int4 => Ok(i64::from(*value)),
        _ => Err(no_cast(from, to)),
    }
}

/// Rounds half to even, as C's `rint` does.
fn float_to_integer(value: f64, to: SqlType) -> SqlResult<i64> {
    let rounded = value.round_ties_even();
    // 2^63 itself is representable and out of range.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        Ok(rounded as i64)
    } else {
        Err(out_of_range(to))
    }
}

fn to_float8(value: &Datum, from: SqlType, to: SqlType) -> SqlResult<Datum> {
    let number = match value {
        Datum::Float8(x) => *x,
        Datum::Float4(x) => f64::from(*x),
        Datum::Numeric(n) => {
            let x = n.to_f64();
            if x.is_infinite() && n.is_finite() {
                let message = format!("\"{n}\" is out of range for type double precision");
                return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
            }
            x
        }
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => to_integer(value, from, to)? as f64,
        _ => return Err(no_cast(from, to)),
    };
    Ok(Datum::Float8(number))
}

fn to_float4(value: &Datum, from: SqlType, to: SqlType) -> SqlResult<Datum> {
    if let Datum::Float4(_) = value {
        return Ok(value.clone());
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
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    Ok(Datum::Float4(narrow))
}

fn to_numeric(value: &Datum, from: SqlType, to: SqlType) -> SqlResult<Numeric> {
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

fn to_datetime(value: Datum, from: SqlType, to: SqlType, cx: &TypeContext) -> SqlResult<Datum> {
    let midnight = |days: i32| match days {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        _ => i64::from(days).checked_mul(MICROS_PER_DAY).ok_or_else(|| {
            let message = "date out of range for timestamp";
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        }),
    };
    let local = match value {
        Datum::Date(days) if to == SqlType::Date => return Ok(Datum::Date(days)),
        Datum::Time(_) if to == SqlType::Time => return Ok(value),
        Datum::Timestamptz(micros) => match to {
            SqlType::Timestamptz(digits) => {
                return Ok(Datum::Timestamptz(round_seconds(micros, digits)));
            }
            _ => to_local(micros, cx),
        },
        Datum::Timestamp(micros) => micros,
        Datum::Date(days) if to != SqlType::Time => midnight(days)?,
        _ => return Err(no_cast(from, to)),
    };
    Ok(match to {
        SqlType::Date => Datum::Date(day_of(local)),
        SqlType::Time if is_infinite(local) => Datum::Null,
        SqlType::Time => Datum::Time(local.rem_euclid(MICROS_PER_DAY)),
        SqlType::Timestamp(digits) => Datum::Timestamp(round_seconds(local, digits)),
        SqlType::Timestamptz(digits) => {
            Datum::Timestamptz(round_seconds(to_instant(local, cx), digits))
        }
        _ => return Err(no_cast(from, to)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{NumericMod, TimeZone};
    use super::*;

    fn assign(value: Datum, from: SqlType, to: SqlType) -> SqlResult<Datum> {
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
            now_micros: 0,
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
