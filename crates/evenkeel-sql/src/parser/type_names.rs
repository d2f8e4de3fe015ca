//! Types as the parser gives them.

use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, IntervalFields, ObjectName,
    ObjectNamePart, TimezoneInfo,
};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{IntervalMod, MAX_CHAR_LENGTH, NumericMod, SqlType};

const MAX_PRECISION: u64 = 1000;

/// The type that a type name in a statement means. Errors: 42704 for a name that is not a
/// type, 22023 for a modifier out of range.
pub fn type_from_ast(ast: &DataType) -> SqlResult<SqlType> {
    Ok(match ast {
        DataType::Bool | DataType::Boolean => SqlType::Bool,
        DataType::Int2(_) | DataType::SmallInt(_) => SqlType::Int2,
        DataType::Int4(_) | DataType::Int(_) | DataType::Integer(_) => SqlType::Int4,
        DataType::Int8(_) | DataType::BigInt(_) => SqlType::Int8,
        DataType::Float4 | DataType::Real => SqlType::Float4,
        DataType::Float8 | DataType::DoublePrecision | DataType::Double(_) => SqlType::Float8,
        DataType::Float(info) => float(info)?,
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => {
            SqlType::Numeric(numeric(info)?)
        }
        DataType::Text | DataType::String(_) => SqlType::Text,
        DataType::Varchar(length)
        | DataType::CharacterVarying(length)
        | DataType::CharVarying(length) => SqlType::Varchar(char_length(length.as_ref())?),
        DataType::Char(length) | DataType::Character(length) => {
            SqlType::Char(Some(char_length(length.as_ref())?.unwrap_or(1)))
        }
        DataType::Date => SqlType::Date,
        DataType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            SqlType::Time(seconds_digits(*digits)?)
        }
        DataType::Time(digits, _) => SqlType::Timetz(seconds_digits(*digits)?),
        DataType::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            SqlType::Timestamp(seconds_digits(*digits)?)
        }
        DataType::Timestamp(digits, _) => SqlType::Timestamptz(seconds_digits(*digits)?),
        DataType::Interval { fields, precision } => {
            SqlType::Interval(interval(fields.as_ref(), *precision)?)
        }
        DataType::Uuid => SqlType::Uuid,
        DataType::Bytea => SqlType::Bytea,
        DataType::Regclass => SqlType::Regclass,
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _))
            if type_from_ast(element)?.is_string() =>
        {
            SqlType::TEXT_ARRAY
        }
        DataType::Custom(name, modifiers) => custom(name, modifiers)?,
        other => return Err(SqlError::unsupported(format!("type {other}"))),
    })
}

fn float(info: &ExactNumberInfo) -> SqlResult<SqlType> {
    match info {
        ExactNumberInfo::None | ExactNumberInfo::Precision(25..=53) => Ok(SqlType::Float8),
        ExactNumberInfo::Precision(1..=24) => Ok(SqlType::Float4),
        _ => Err(bad_modifier(
            "precision for type float must be between 1 and 53 bits",
        )),
    }
}

fn bad_modifier(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn numeric(info: &ExactNumberInfo) -> SqlResult<Option<NumericMod>> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(None),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=MAX_PRECISION).contains(&precision) {
        return Err(bad_modifier(format!(
            "NUMERIC precision {precision} must be between 1 and 1000"
        )));
    }
    let scale = i16::try_from(scale)
        .ok()
        .filter(|s| (-1000..=1000).contains(s))
        .ok_or_else(|| {
            bad_modifier(format!(
                "NUMERIC scale {scale} must be between -1000 and 1000"
            ))
        })?;
    let precision = u16::try_from(precision).unwrap_or(u16::MAX);
    Ok(Some(NumericMod { precision, scale }))
}

fn interval(
    fields: Option<&IntervalFields>,
    precision: Option<u64>,
) -> SqlResult<Option<IntervalMod>> {
    use IntervalMod as M;
    let precision = seconds_digits(precision)?;
    let bits = match fields {
        None if precision.is_none() => return Ok(None),
        None => M::FULL,
        Some(IntervalFields::Year) => M::YEAR,
        Some(IntervalFields::Month) => M::MONTH,
        Some(IntervalFields::Day) => M::DAY,
        Some(IntervalFields::Hour) => M::HOUR,
        Some(IntervalFields::Minute) => M::MINUTE,
        Some(IntervalFields::Second) => M::SECOND,
        Some(IntervalFields::YearToMonth) => M::YEAR_TO_MONTH,
        Some(IntervalFields::DayToHour) => M::DAY_TO_HOUR,
        Some(IntervalFields::DayToMinute) => M::DAY_TO_MINUTE,
        Some(IntervalFields::DayToSecond) => M::DAY_TO_SECOND,
        Some(IntervalFields::HourToMinute) => M::HOUR_TO_MINUTE,
        Some(IntervalFields::HourToSecond) => M::HOUR_TO_SECOND,
        Some(IntervalFields::MinuteToSecond) => M::MINUTE_TO_SECOND,
    };
    Ok(Some(IntervalMod {
        fields: bits,
        precision,
    }))
}

fn char_length(length: Option<&CharacterLength>) -> SqlResult<Option<u32>> {
    match length {
        None | Some(CharacterLength::Max) => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) => checked_length(*length).map(Some),
    }
}

fn checked_length(length: u64) -> SqlResult<u32> {
    if length == 0 {
        return Err(bad_modifier("length for type varchar must be at least 1"));
    }
    u32::try_from(length)
        .ok()
        .filter(|n| *n <= MAX_CHAR_LENGTH.unsigned_abs())
        .ok_or_else(|| {
            bad_modifier(format!(
                "length for type varchar cannot exceed {MAX_CHAR_LENGTH}"
            ))
        })
}

/// More than six digits of a second mean six, as in PostgreSQL.
fn seconds_digits(digits: Option<u64>) -> SqlResult<Option<u8>> {
    Ok(digits.map(|d| u8::try_from(d.min(6)).unwrap_or(6)))
}

/// Names that the parser does not know, in `pg_catalog` or without a schema.
fn custom(name: &ObjectName, modifiers: &[String]) -> SqlResult<SqlType> {
    let parts: Vec<String> = name.0.iter().map(part_name).collect();
    let last = match parts.as_slice() {
        [last] => last.as_str(),
        [schema, last] if schema == "pg_catalog" => last.as_str(),
        _ => "",
    };
    let number = || modifiers.first().and_then(|m| m.parse::<u64>().ok());
    let quoted_char = name.to_string().ends_with("\"char\"");
    Ok(match last {
        "bool" => SqlType::Bool,
        "int2" => SqlType::Int2,
        "int4" => SqlType::Int4,
        "int8" => SqlType::Int8,
        "float4" => SqlType::Float4,
        "float8" => SqlType::Float8,
        "numeric" => SqlType::Numeric(None),
        "text" => SqlType::Text,
        "varchar" => SqlType::Varchar(number().map(checked_length).transpose()?),
        "char" if quoted_char => SqlType::InternalChar,
        "bpchar" => SqlType::Char(number().map(checked_length).transpose()?),
        "name" => SqlType::Name,
        "date" => SqlType::Date,
        "time" => SqlType::Time(seconds_digits(number())?),
        "timetz" => SqlType::Timetz(seconds_digits(number())?),
        "timestamp" => SqlType::Timestamp(seconds_digits(number())?),
        "timestamptz" => SqlType::Timestamptz(seconds_digits(number())?),
        "interval" => SqlType::Interval(None),
        "uuid" => SqlType::Uuid,
        "bytea" => SqlType::Bytea,
        "oid" => SqlType::Oid,
        "regclass" => SqlType::Regclass,
        "regtype" => SqlType::Regtype,
        "regproc" => SqlType::Regproc,
        "int2vector" => SqlType::Int2Vector,
        "oidvector" => SqlType::OidVector,
        "_text" | "_name" => SqlType::TEXT_ARRAY,
        "unknown" => SqlType::Unknown,
        "void" => SqlType::Void,
        _ => {
            return Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("type \"{}\" does not exist", parts.join(".")),
            ));
        }
    })
}

/// A name as the catalog has it: folded to lower case unless quoted.
fn part_name(part: &ObjectNamePart) -> String {
    match part {
        ObjectNamePart::Identifier(ident) if ident.quote_style.is_some() => ident.value.clone(),
        ObjectNamePart::Identifier(ident) => ident.value.to_lowercase(),
        ObjectNamePart::Function(function) => function.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    use super::*;

    fn ty(text: &str) -> SqlResult<SqlType> {
        let dialect = PostgreSqlDialect {};
        let ast = Parser::new(&dialect)
            .try_with_sql(text)
            .unwrap()
            .parse_data_type()
            .unwrap();
        type_from_ast(&ast)
    }

    #[test]
    fn type_names_mean_what_they_mean_in_postgres() {
        let numeric = |precision, scale| SqlType::Numeric(Some(NumericMod { precision, scale }));
        for (text, expected) in [
            ("int", SqlType::Int4),
            ("bigint", SqlType::Int8),
            ("smallint", SqlType::Int2),
            ("float", SqlType::Float8),
            ("float(10)", SqlType::Float4),
            ("double precision", SqlType::Float8),
            ("numeric(10, 2)", numeric(10, 2)),
            ("decimal(5)", numeric(5, 0)),
            ("char", SqlType::Char(Some(1))),
            ("char(88)", SqlType::Char(Some(88))),
            ("character varying(20)", SqlType::Varchar(Some(20))),
            ("varchar", SqlType::Varchar(None)),
            ("timestamp", SqlType::Timestamp(None)),
            ("timestamptz", SqlType::Timestamptz(None)),
            ("timestamp(3) with time zone", SqlType::Timestamptz(Some(3))),
            ("uuid", SqlType::Uuid),
            ("pg_catalog.regclass", SqlType::Regclass),
            ("pg_catalog.text", SqlType::Text),
            ("oid", SqlType::Oid),
            ("name", SqlType::Name),
        ] {
            assert_eq!(ty(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn unknown_types_and_bad_modifiers_are_refused() {
        assert_eq!(
            ty("nosuch").unwrap_err().sqlstate,
            SqlState::UNDEFINED_OBJECT
        );
        assert_eq!(
            ty("numeric(2000)").unwrap_err().sqlstate,
            SqlState::INVALID_PARAMETER_VALUE
        );
        assert_eq!(
            ty("varchar(0)").unwrap_err().sqlstate,
            SqlState::INVALID_PARAMETER_VALUE
        );
    }
}
