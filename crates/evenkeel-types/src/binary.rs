//! Binary forms: what PostgreSQL's send and receive functions exchange.

use bytes::BufMut;
use smallvec::SmallVec;

use crate::array;
use crate::calendar::{MICROS_PER_DAY, POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_MICROS};
use crate::context::TypeContext;
use crate::datetime::round_seconds;
use crate::datum::Datum;
use crate::error::{SqlState, TypeError, TypeResult};
use crate::identity::SqlType;
use crate::interval::Interval;
use crate::json::{check_json, parse_jsonb, write_jsonb};
use crate::numeric::{Numeric, NumericSign};
use crate::record;
use crate::system_columns::TupleId;
use crate::text::{fit_string, text_from_bytes};
use crate::timetz::TimeTz;
use crate::wire::write_string;

/// Most digits behind the point.
const MAX_DSCALE: u16 = 16_383;
const NUMERIC_NEGATIVE: u16 = 0x4000;
const NUMERIC_NAN: u16 = 0xC000;
const NUMERIC_POSITIVE_INFINITY: u16 = 0xD000;
const NUMERIC_NEGATIVE_INFINITY: u16 = 0xF000;

/// The first byte of a binary `jsonb`.
const JSONB_VERSION: u8 = 1;

fn interval_from(ty: SqlType, bytes: &[u8]) -> TypeResult<Interval> {
    let all: [u8; 16] = fixed(ty, bytes)?;
    let (micros, rest) = all.split_at(8);
    let (days, months) = rest.split_at(4);
    Ok(Interval {
        micros: i64::from_be_bytes(fixed(ty, micros)?),
        days: i32::from_be_bytes(fixed(ty, days)?),
        months: i32::from_be_bytes(fixed(ty, months)?),
    })
}

impl Datum {
    /// The receive function of `ty`. Errors: 22P03 for a form that does not fit, 22021 for
    /// text that is not UTF-8, and those of the type's modifier.
    pub fn parse_binary(ty: SqlType, bytes: &[u8]) -> TypeResult<Datum> {
        Ok(match ty {
            SqlType::Bool => Datum::Bool(fixed::<1>(ty, bytes)?[0] != 0),
            SqlType::Int2 => Datum::Int2(i16::from_be_bytes(fixed(ty, bytes)?)),
            SqlType::Int4 => Datum::Int4(i32::from_be_bytes(fixed(ty, bytes)?)),
            SqlType::Int8 => Datum::Int8(i64::from_be_bytes(fixed(ty, bytes)?)),
            SqlType::Float4 => Datum::Float4(f32::from_be_bytes(fixed(ty, bytes)?)),
            SqlType::Float8 => Datum::Float8(f64::from_be_bytes(fixed(ty, bytes)?)),
            SqlType::Numeric(modifier) => {
                Datum::Numeric(numeric_from(bytes)?.apply_modifier(modifier)?)
            }
            SqlType::Text
            | SqlType::Varchar(_)
            | SqlType::Char(_)
            | SqlType::Name
            | SqlType::Unknown => fit_string(text_from_bytes(bytes)?, ty)?,
            SqlType::InternalChar => Datum::Text(match fixed::<1>(ty, bytes)? {
                [0] => String::new(),
                [byte] => char::from(byte).to_string(),
            }),
            SqlType::Date => Datum::Date(date_from(i32::from_be_bytes(fixed(ty, bytes)?), ty)?),
            SqlType::Time(digits) => {
                let micros = clock_from(i64::from_be_bytes(fixed(ty, bytes)?))?;
                Datum::Time(round_seconds(micros, digits))
            }
            SqlType::Timetz(digits) => Datum::Timetz(timetz_from(ty, bytes)?.rounded(digits)),
            SqlType::Timestamp(digits) => {
                let micros = instant_from(i64::from_be_bytes(fixed(ty, bytes)?))?;
                Datum::Timestamp(round_seconds(micros, digits))
            }
            SqlType::Timestamptz(digits) => {
                let micros = instant_from(i64::from_be_bytes(fixed(ty, bytes)?))?;
                Datum::Timestamptz(round_seconds(micros, digits))
            }
            SqlType::Interval(modifier) => {
                Datum::Interval(interval_from(ty, bytes)?.apply_modifier(modifier)?)
            }
            SqlType::Uuid => Datum::Uuid(fixed(ty, bytes)?),
            SqlType::Tid => Datum::Tid(tuple_id_from(ty, bytes)?),
            SqlType::Xid8 => Datum::Xid8(u64::from_be_bytes(fixed(ty, bytes)?)),
            SqlType::Enum(ty) => Datum::Enum(ty.value(text_from_bytes(bytes)?)?),
            SqlType::Domain(of) => Datum::parse_binary(of.root(), bytes)?,
            SqlType::Bytea => Datum::Bytea(bytes.to_vec()),
            SqlType::Json => {
                let text = text_from_bytes(bytes)?;
                check_json(text)?;
                text.into()
            }
            SqlType::Jsonb => jsonb_from(bytes)?,
            SqlType::Array(element, modifier) => array::parse_binary(modifier.on(*element), bytes)?,
            SqlType::Record => {
                return Err(TypeError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "input of anonymous composite types is not implemented",
                ));
            }
            SqlType::Int2Vector | SqlType::OidVector | SqlType::Void => {
                return Err(TypeError::unsupported(format!(
                    "binary input of type {}",
                    ty.base_name()
                )));
            }
            // The object ids, whatever they read as.
            _ => Datum::Oid(u32::from_be_bytes(fixed(ty, bytes)?)),
        })
    }

    /// Appends the binary form; NULL appends nothing.
    pub fn write_binary<B: BufMut>(&self, ty: SqlType, out: &mut B) {
        match self {
            Datum::Null => {}
            Datum::Bool(value) => out.put_u8(u8::from(*value)),
            Datum::Int2(value) => out.put_i16(*value),
            Datum::Int4(value) => out.put_i32(*value),
            Datum::Int8(value) => out.put_i64(*value),
            Datum::Oid(value) => out.put_u32(*value),
            Datum::Float4(value) => out.put_f32(*value),
            Datum::Float8(value) => out.put_f64(*value),
            Datum::Numeric(value) => write_numeric(value, out),
            Datum::Text(value) => match ty {
                SqlType::Int2Vector => write_vector(value, SqlType::Int2, out),
                SqlType::OidVector => write_vector(value, SqlType::Oid, out),
                SqlType::Array(element, _) => write_catalog_array(value, *element, out),
                SqlType::InternalChar => {
                    let byte = value.chars().next().map_or(0, u32::from);
                    out.put_u8(u8::try_from(byte).unwrap_or(0));
                }
                _ => write_string(value, ty, out),
            },
            Datum::Char(value) => out.put_slice(value.as_bytes()),
            Datum::Date(days) => out.put_i32(match *days {
                i32::MAX | i32::MIN => *days,
                _ => days.saturating_sub(POSTGRES_EPOCH_DAYS),
            }),
            Datum::Time(micros) => out.put_i64(*micros),
            Datum::Timetz(time) => {
                out.put_i64(time.micros);
                out.put_i32(time.west);
            }
            Datum::Timestamp(micros) | Datum::Timestamptz(micros) => out.put_i64(match *micros {
                i64::MAX | i64::MIN => *micros,
                _ => micros.saturating_sub(POSTGRES_EPOCH_MICROS),
            }),
            Datum::Interval(interval) => {
                out.put_i64(interval.micros);
                out.put_i32(interval.days);
                out.put_i32(interval.months);
            }
            Datum::Tid(value) => {
                out.put_u32(value.block);
                out.put_u16(value.slot);
            }
            Datum::Xid8(value) => out.put_u64(*value),
            Datum::Uuid(value) => out.put_slice(value),
            Datum::Enum(value) => out.put_slice(value.text().as_bytes()),
            Datum::Bytea(value) => out.put_slice(value),
            Datum::Array(value) => array::write_binary(value, ty, out),
            Datum::Jsonb(value) => {
                out.put_u8(JSONB_VERSION);
                write_jsonb(value.root(), out);
            }
            Datum::Record(value) => record::write_binary(value, out),
        }
    }
}

/// The receive function of `jsonb`: a version and the text.
fn jsonb_from(bytes: &[u8]) -> TypeResult<Datum> {
    match bytes.split_first() {
        Some((&JSONB_VERSION, text)) => Ok(Datum::Jsonb(parse_jsonb(text_from_bytes(text)?)?)),
        Some((version, _)) => Err(TypeError::internal(format!(
            "unsupported jsonb version number {version}"
        ))),
        None => Err(TypeError::new(
            SqlState::PROTOCOL_VIOLATION,
            "no data left in message",
        )),
    }
}

fn incorrect(ty: SqlType) -> TypeError {
    TypeError::new(
        SqlState::INVALID_BINARY_REPRESENTATION,
        format!("incorrect binary data format for type {}", ty.base_name()),
    )
}

fn fixed<const N: usize>(ty: SqlType, bytes: &[u8]) -> TypeResult<[u8; N]> {
    bytes.try_into().map_err(|_| incorrect(ty))
}

fn clock_from(micros: i64) -> TypeResult<i64> {
    let message = "time out of range";
    let refused = || TypeError::new(SqlState::DATETIME_FIELD_OVERFLOW, message);
    let within = (0..=MICROS_PER_DAY).contains(&micros);
    within.then_some(micros).ok_or_else(refused)
}

fn tuple_id_from(ty: SqlType, bytes: &[u8]) -> TypeResult<TupleId> {
    let all: [u8; 6] = fixed(ty, bytes)?;
    let (block, slot) = all.split_at(4);
    Ok(TupleId {
        block: u32::from_be_bytes(fixed(ty, block)?),
        slot: u16::from_be_bytes(fixed(ty, slot)?),
    })
}

fn timetz_from(ty: SqlType, bytes: &[u8]) -> TypeResult<TimeTz> {
    /// PostgreSQL's `TZDISP_LIMIT`, in seconds.
    const LIMIT: u32 = 16 * 3600;
    let all: [u8; 12] = fixed(ty, bytes)?;
    let (micros, west) = all.split_at(8);
    let micros = clock_from(i64::from_be_bytes(fixed(ty, micros)?))?;
    let west = i32::from_be_bytes(fixed(ty, west)?);
    if west.unsigned_abs() >= LIMIT {
        let message = "time zone displacement out of range";
        return Err(TypeError::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT,
            message,
        ));
    }
    Ok(TimeTz { micros, west })
}

fn date_from(wire: i32, ty: SqlType) -> TypeResult<i32> {
    match wire {
        i32::MAX | i32::MIN => Ok(wire),
        _ => wire
            .checked_add(POSTGRES_EPOCH_DAYS)
            .ok_or_else(|| incorrect(ty)),
    }
}

fn instant_from(wire: i64) -> TypeResult<i64> {
    match wire {
        i64::MAX | i64::MIN => Ok(wire),
        _ => wire.checked_add(POSTGRES_EPOCH_MICROS).ok_or_else(|| {
            TypeError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
        }),
    }
}

/// The receive function of `numeric`, without a modifier.
fn numeric_from(bytes: &[u8]) -> TypeResult<Numeric> {
    let bad = |message: &str| TypeError::new(SqlState::INVALID_BINARY_REPRESENTATION, message);
    let short = || {
        TypeError::new(
            SqlState::PROTOCOL_VIOLATION,
            "insufficient data left in message",
        )
    };
    let (header, digits) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let sign = match word(4) {
        0 => NumericSign::Positive,
        NUMERIC_NEGATIVE => NumericSign::Negative,
        NUMERIC_NAN => NumericSign::NaN,
        NUMERIC_POSITIVE_INFINITY => NumericSign::PositiveInfinity,
        NUMERIC_NEGATIVE_INFINITY => NumericSign::NegativeInfinity,
        _ => return Err(bad("invalid sign in external \"numeric\" value")),
    };
    let dscale = word(6);
    if dscale > MAX_DSCALE {
        return Err(bad("invalid scale in external \"numeric\" value"));
    }
    let count = usize::from(word(0));
    if digits.len() < count * 2 {
        return Err(short());
    }
    if digits.len() > count * 2 {
        return Err(incorrect(SqlType::Numeric(None)));
    }
    match sign {
        NumericSign::NaN => return Ok(Numeric::nan()),
        NumericSign::PositiveInfinity => return Ok(Numeric::infinity(false)),
        NumericSign::NegativeInfinity => return Ok(Numeric::infinity(true)),
        _ => {}
    }
    let pairs = digits.chunks_exact(2);
    let digits: SmallVec<[u16; 8]> = pairs.map(|p| u16::from_be_bytes([p[0], p[1]])).collect();
    let value = Numeric::from_parts(sign, word(2).cast_signed(), dscale, digits)
        .ok_or_else(|| bad("invalid digit in external \"numeric\" value"))?;
    // Digits beyond the display scale are cut, as PostgreSQL's receive function does.
    Ok(value.truncate(i32::from(dscale)))
}

fn write_numeric<B: BufMut>(value: &Numeric, out: &mut B) {
    let sign = match value.sign() {
        NumericSign::Positive => 0,
        NumericSign::Negative => NUMERIC_NEGATIVE,
        NumericSign::NaN => NUMERIC_NAN,
        NumericSign::PositiveInfinity => NUMERIC_POSITIVE_INFINITY,
        NumericSign::NegativeInfinity => NUMERIC_NEGATIVE_INFINITY,
    };
    out.put_u16(u16::try_from(value.digits().len()).unwrap_or(u16::MAX));
    out.put_i16(value.weight());
    out.put_u16(sign);
    out.put_u16(match value.sign() {
        // The bits that PostgreSQL's header of an infinity has at the scale's place.
        NumericSign::PositiveInfinity | NumericSign::NegativeInfinity => 0x20,
        _ => value.dscale(),
    });
    for digit in value.digits() {
        out.put_u16(*digit);
    }
}

/// Array header of one dimension: dimensions, NULL flag, element type, length, lower bound.
fn write_array_header<B: BufMut>(element: SqlType, length: usize, lower: i32, out: &mut B) {
    out.put_i32(1);
    out.put_i32(0);
    out.put_u32(element.oid());
    out.put_i32(i32::try_from(length).unwrap_or(i32::MAX));
    out.put_i32(lower);
}

fn write_vector<B: BufMut>(text: &str, element: SqlType, out: &mut B) {
    let numbers: Vec<i64> = text.split(' ').filter_map(|n| n.parse().ok()).collect();
    write_array_header(element, numbers.len(), 0, out);
    for number in numbers {
        if element == SqlType::Int2 {
            out.put_i32(2);
            out.put_i16(i16::try_from(number).unwrap_or(0));
        } else {
            out.put_i32(4);
            out.put_u32(u32::try_from(number).unwrap_or(0));
        }
    }
}

/// The catalog's relations hold their arrays in the text form.
fn write_catalog_array<B: BufMut>(text: &str, element: SqlType, out: &mut B) {
    let value = array::parse(element, text, &TypeContext::default());
    let value = value.unwrap_or_else(|_| Datum::array(Vec::new()));
    value.write_binary(element.array_of().unwrap_or(SqlType::TEXT_ARRAY), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_forms_round_trip() {
        let cx = TypeContext::default();
        for (ty, text) in [
            (SqlType::Bool, "t"),
            (SqlType::Int2, "-7"),
            (SqlType::Int4, "2147483647"),
            (SqlType::Int8, "-9223372036854775808"),
            (SqlType::Float4, "1.5"),
            (SqlType::Float8, "-0"),
            (SqlType::Numeric(None), "-12345.6700"),
            (SqlType::Numeric(None), "NaN"),
            (SqlType::Numeric(None), "-Infinity"),
            (SqlType::Text, "grün"),
            (SqlType::Char(Some(3)), "a"),
            (SqlType::Date, "1999-12-31"),
            (SqlType::Interval(None), "-1 mons +2 days 03:04:05.000006"),
            (SqlType::Interval(None), "infinity"),
            (SqlType::Date, "infinity"),
            (SqlType::Time(None), "23:59:59.999999"),
            (SqlType::Timetz(None), "23:59:59.999999-03:30"),
            (SqlType::Timestamp(None), "2000-01-01 00:00:00.000001"),
            (SqlType::Timestamptz(None), "-infinity"),
            (SqlType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
            (SqlType::Bytea, "\\x0001"),
            (SqlType::Oid, "4294967295"),
        ] {
            let datum = Datum::parse_text(ty, text, &cx).unwrap();
            let mut bytes = Vec::new();
            datum.write_binary(ty, &mut bytes);
            assert_eq!(Datum::parse_binary(ty, &bytes).unwrap(), datum, "{text}");
        }
    }

    #[test]
    fn dates_count_from_2000_on_the_wire() {
        let mut bytes = Vec::new();
        Datum::Date(POSTGRES_EPOCH_DAYS).write_binary(SqlType::Date, &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 0]);
    }

    #[test]
    fn malformed_binary_is_refused() {
        for ty in SqlType::all() {
            for length in [0usize, 1, 3, 5, 7, 9, 17] {
                // Refused or read, but never a panic.
                let _ = Datum::parse_binary(*ty, &vec![0xff; length]);
            }
        }
        let state = Datum::parse_binary(SqlType::Int4, &[0; 3])
            .unwrap_err()
            .sqlstate;
        assert_eq!(state, SqlState::INVALID_BINARY_REPRESENTATION);
        let state = Datum::parse_binary(SqlType::Text, &[0xff])
            .unwrap_err()
            .sqlstate;
        assert_eq!(state, SqlState::CHARACTER_NOT_IN_REPERTOIRE);
    }
}
