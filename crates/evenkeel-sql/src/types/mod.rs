//! PostgreSQL's types: identity (oid and typmod), values, text and binary forms, assignment.
//!
//! Entry points: [`SqlType`], [`Datum`], [`Datum::parse_text`], [`Datum::parse_binary`],
//! [`Datum::put_field`], [`Datum::cast_assign`]. The rules are in the README beside this file.

mod ast;
mod binary;
mod cast;
mod datetime;
mod datum;
mod numeric;
mod text;
mod zone;

pub use datetime::{MICROS_PER_DAY, POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_MICROS};
pub use datum::{Datum, Interval};
pub use numeric::{Numeric, NumericSign};
pub(crate) use text::{
    invalid_encoding, put_integer, put_with_length, text_from_bytes, uuid_text, without_zero,
    write_string,
};
pub use zone::{TimeZone, TypeContext};

/// Declared precision and scale of a `numeric(p, s)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NumericMod {
    /// Most significant decimal digits, 1 to 1000.
    pub precision: u16,
    /// Digits after the decimal point, -1000 to 1000.
    pub scale: i16,
}

/// A type with its modifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric`, with or without precision and scale
    Numeric(Option<NumericMod>),
    /// `text`
    Text,
    /// `character varying(n)`, n in characters
    Varchar(Option<u32>),
    /// `character(n)`, n in characters; `None` is `bpchar` without a length
    Char(Option<u32>),
    /// `date`
    Date,
    /// `time without time zone`
    Time,
    /// `timestamp(p) without time zone`, p in digits of a second
    Timestamp(Option<u8>),
    /// `timestamp(p) with time zone`
    Timestamptz(Option<u8>),
    /// `interval`
    Interval,
    /// `uuid`
    Uuid,
    /// `bytea`
    Bytea,
    /// `name`: an identifier of at most 63 bytes
    Name,
    /// `oid`
    Oid,
    /// `"char"`: one byte
    InternalChar,
    /// `regclass`: a relation's oid that reads as its name
    Regclass,
    /// `regtype`
    Regtype,
    /// `regproc`
    Regproc,
    /// `int2vector`
    Int2Vector,
    /// `oidvector`
    OidVector,
    /// `text[]`
    TextArray,
    /// A literal whose type is not known yet
    Unknown,
    /// What a function without a result returns
    Void,
}

/// Bytes that PostgreSQL adds to lengths in typmods (its varlena header).
const TYPMOD_HEADER: i32 = 4;
const MAX_CHAR_LENGTH: i32 = 10_485_760;

impl SqlType {
    /// The type's oid in `pg_type`.
    pub fn oid(self) -> u32 {
        match self {
            SqlType::Bool => 16,
            SqlType::Bytea => 17,
            SqlType::InternalChar => 18,
            SqlType::Name => 19,
            SqlType::Int8 => 20,
            SqlType::Int2 => 21,
            SqlType::Int2Vector => 22,
            SqlType::Int4 => 23,
            SqlType::Regproc => 24,
            SqlType::Text => 25,
            SqlType::Oid => 26,
            SqlType::OidVector => 30,
            SqlType::Float4 => 700,
            SqlType::Float8 => 701,
            SqlType::Unknown => 705,
            SqlType::TextArray => 1009,
            SqlType::Char(_) => 1042,
            SqlType::Varchar(_) => 1043,
            SqlType::Date => 1082,
            SqlType::Time => 1083,
            SqlType::Timestamp(_) => 1114,
            SqlType::Timestamptz(_) => 1184,
            SqlType::Interval => 1186,
            SqlType::Numeric(_) => 1700,
            SqlType::Regclass => 2205,
            SqlType::Regtype => 2206,
            SqlType::Void => 2278,
            SqlType::Uuid => 2950,
        }
    }

    /// The modifier as PostgreSQL packs it; -1 when there is none.
    pub fn typmod(self) -> i32 {
        match self {
            SqlType::Numeric(Some(m)) => {
                ((i32::from(m.precision) << 16) | (i32::from(m.scale) & 0x7ff)) + TYPMOD_HEADER
            }
            SqlType::Varchar(Some(n)) | SqlType::Char(Some(n)) => {
                i32::try_from(n).unwrap_or(MAX_CHAR_LENGTH) + TYPMOD_HEADER
            }
            SqlType::Timestamp(Some(p)) | SqlType::Timestamptz(Some(p)) => i32::from(p),
            _ => -1,
        }
    }

    /// The type for an oid and a modifier; `None` for an oid that is not one of ours.
    pub fn from_oid(oid: u32, typmod: i32) -> Option<SqlType> {
        let length = (typmod > TYPMOD_HEADER && typmod - TYPMOD_HEADER <= MAX_CHAR_LENGTH)
            .then(|| (typmod - TYPMOD_HEADER).unsigned_abs());
        let seconds_digits = u8::try_from(typmod).ok().filter(|p| *p <= 6);
        Some(match oid {
            16 => SqlType::Bool,
            17 => SqlType::Bytea,
            18 => SqlType::InternalChar,
            19 => SqlType::Name,
            20 => SqlType::Int8,
            21 => SqlType::Int2,
            22 => SqlType::Int2Vector,
            23 => SqlType::Int4,
            24 => SqlType::Regproc,
            25 => SqlType::Text,
            26 => SqlType::Oid,
            30 => SqlType::OidVector,
            700 => SqlType::Float4,
            701 => SqlType::Float8,
            705 => SqlType::Unknown,
            1009 => SqlType::TextArray,
            1042 => SqlType::Char(length),
            1043 => SqlType::Varchar(length),
            1082 => SqlType::Date,
            1083 => SqlType::Time,
            1114 => SqlType::Timestamp(seconds_digits),
            1184 => SqlType::Timestamptz(seconds_digits),
            1186 => SqlType::Interval,
            1700 => SqlType::Numeric(numeric_mod(typmod)),
            2205 => SqlType::Regclass,
            2206 => SqlType::Regtype,
            2278 => SqlType::Void,
            2950 => SqlType::Uuid,
            _ => return None,
        })
    }

    /// `typlen`: bytes of the value, or -1 for a variable length.
    pub fn wire_len(self) -> i16 {
        match self {
            SqlType::Bool | SqlType::InternalChar => 1,
            SqlType::Int2 => 2,
            SqlType::Int4
            | SqlType::Float4
            | SqlType::Date
            | SqlType::Oid
            | SqlType::Regclass
            | SqlType::Regtype
            | SqlType::Regproc
            | SqlType::Void => 4,
            SqlType::Int8
            | SqlType::Float8
            | SqlType::Time
            | SqlType::Timestamp(_)
            | SqlType::Timestamptz(_) => 8,
            SqlType::Interval | SqlType::Uuid => 16,
            SqlType::Name => 64,
            SqlType::Unknown => -2,
            _ => -1,
        }
    }

    /// The name without modifier, as in PostgreSQL's messages (`character varying`).
    pub fn base_name(self) -> &'static str {
        match self {
            SqlType::Bool => "boolean",
            SqlType::Int2 => "smallint",
            SqlType::Int4 => "integer",
            SqlType::Int8 => "bigint",
            SqlType::Float4 => "real",
            SqlType::Float8 => "double precision",
            SqlType::Numeric(_) => "numeric",
            SqlType::Text => "text",
            SqlType::Varchar(_) => "character varying",
            SqlType::Char(_) => "character",
            SqlType::Date => "date",
            SqlType::Time => "time without time zone",
            SqlType::Timestamp(_) => "timestamp without time zone",
            SqlType::Timestamptz(_) => "timestamp with time zone",
            SqlType::Interval => "interval",
            SqlType::Uuid => "uuid",
            SqlType::Bytea => "bytea",
            SqlType::Name => "name",
            SqlType::Oid => "oid",
            SqlType::InternalChar => "\"char\"",
            SqlType::Regclass => "regclass",
            SqlType::Regtype => "regtype",
            SqlType::Regproc => "regproc",
            SqlType::Int2Vector => "int2vector",
            SqlType::OidVector => "oidvector",
            SqlType::TextArray => "text[]",
            SqlType::Unknown => "unknown",
            SqlType::Void => "void",
        }
    }

    /// `typname` in `pg_type` (`int4`, `bpchar`, …).
    pub fn type_name(self) -> &'static str {
        match self {
            SqlType::Bool => "bool",
            SqlType::Int2 => "int2",
            SqlType::Int4 => "int4",
            SqlType::Int8 => "int8",
            SqlType::Float4 => "float4",
            SqlType::Float8 => "float8",
            SqlType::Varchar(_) => "varchar",
            SqlType::Char(_) => "bpchar",
            SqlType::Time => "time",
            SqlType::Timestamp(_) => "timestamp",
            SqlType::Timestamptz(_) => "timestamptz",
            SqlType::InternalChar => "char",
            SqlType::TextArray => "_text",
            other => other.base_name(),
        }
    }

    /// The name with modifier, as `format_type` gives it.
    pub fn name(self) -> String {
        match self {
            SqlType::Numeric(Some(m)) => format!("numeric({},{})", m.precision, m.scale),
            SqlType::Varchar(Some(n)) => format!("character varying({n})"),
            SqlType::Char(Some(n)) => format!("character({n})"),
            SqlType::Char(None) => "bpchar".to_owned(),
            SqlType::Timestamp(Some(p)) => format!("timestamp({p}) without time zone"),
            SqlType::Timestamptz(Some(p)) => format!("timestamp({p}) with time zone"),
            other => other.base_name().to_owned(),
        }
    }

    /// Whether values are character strings.
    pub fn is_string(self) -> bool {
        matches!(
            self,
            SqlType::Text
                | SqlType::Varchar(_)
                | SqlType::Char(_)
                | SqlType::Name
                | SqlType::InternalChar
                | SqlType::Unknown
        )
    }

    /// Whether values are numbers.
    pub fn is_number(self) -> bool {
        matches!(
            self,
            SqlType::Int2
                | SqlType::Int4
                | SqlType::Int8
                | SqlType::Float4
                | SqlType::Float8
                | SqlType::Numeric(_)
        )
    }

    /// Whether a value is an object id.
    pub fn is_oid(self) -> bool {
        matches!(
            self,
            SqlType::Oid | SqlType::Regclass | SqlType::Regtype | SqlType::Regproc
        )
    }

    /// Whether a table may have a column of this type.
    pub fn is_storable(self) -> bool {
        !matches!(
            self,
            SqlType::Unknown | SqlType::Void | SqlType::TextArray | SqlType::Interval
        )
    }

    /// All types that `pg_type` lists.
    pub fn all() -> &'static [SqlType] {
        &[
            SqlType::Bool,
            SqlType::Bytea,
            SqlType::InternalChar,
            SqlType::Name,
            SqlType::Int8,
            SqlType::Int2,
            SqlType::Int2Vector,
            SqlType::Int4,
            SqlType::Regproc,
            SqlType::Text,
            SqlType::Oid,
            SqlType::OidVector,
            SqlType::Float4,
            SqlType::Float8,
            SqlType::Unknown,
            SqlType::TextArray,
            SqlType::Char(None),
            SqlType::Varchar(None),
            SqlType::Date,
            SqlType::Time,
            SqlType::Timestamp(None),
            SqlType::Timestamptz(None),
            SqlType::Interval,
            SqlType::Numeric(None),
            SqlType::Regclass,
            SqlType::Regtype,
            SqlType::Void,
            SqlType::Uuid,
        ]
    }
}

/// PostgreSQL keeps the scale in 11 bits, as a signed number.
fn numeric_mod(typmod: i32) -> Option<NumericMod> {
    if typmod < TYPMOD_HEADER {
        return None;
    }
    let packed = typmod - TYPMOD_HEADER;
    let precision = u16::try_from((packed >> 16) & 0xffff).ok()?;
    let scale = i16::try_from(((packed & 0x7ff) ^ 1024) - 1024).ok()?;
    (precision > 0).then_some(NumericMod { precision, scale })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oid_and_typmod_identify_a_type() {
        let with_modifiers = [
            SqlType::Numeric(Some(NumericMod {
                precision: 10,
                scale: 2,
            })),
            SqlType::Numeric(Some(NumericMod {
                precision: 5,
                scale: -3,
            })),
            SqlType::Numeric(Some(NumericMod {
                precision: 1000,
                scale: 1000,
            })),
            SqlType::Varchar(Some(10)),
            SqlType::Char(Some(84)),
            SqlType::Timestamp(Some(0)),
            SqlType::Timestamptz(Some(3)),
        ];
        for ty in SqlType::all().iter().chain(&with_modifiers) {
            assert_eq!(SqlType::from_oid(ty.oid(), ty.typmod()), Some(*ty));
        }
    }

    #[test]
    fn names_are_those_of_format_type() {
        let numeric = SqlType::Numeric(Some(NumericMod {
            precision: 10,
            scale: 2,
        }));
        assert_eq!(numeric.name(), "numeric(10,2)");
        assert_eq!(SqlType::Char(Some(1)).name(), "character(1)");
        assert_eq!(
            SqlType::Timestamptz(Some(3)).name(),
            "timestamp(3) with time zone"
        );
        assert_eq!(SqlType::Varchar(None).name(), "character varying");
        assert_eq!(numeric.typmod(), 655_366);
    }
}
