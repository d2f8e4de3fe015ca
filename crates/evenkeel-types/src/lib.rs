//! PostgreSQL's types: identity, values, text, binary, row and key forms, casts. See the README.

#![forbid(unsafe_code)]

mod abbreviations;
mod array;
mod binary;
mod calendar;
mod cast;
mod context;
mod datetime;
mod datum;
pub mod enums;
mod error;
mod fields;
mod format;
mod identity;
mod interval;
mod json;
pub mod key;
mod numeric;
mod padding;
mod posix;
mod record;
pub mod row;
mod shortest;
mod system_columns;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text;
mod timetz;
mod wire;
mod zone;

pub use array::AssignedPart;
pub use calendar::{MICROS_PER_DAY, POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_MICROS};
pub use context::{ByteaOutput, DateOrder, DateStyle, TypeContext};
pub use datum::{ArrayValue, Datum, Dimension, MAX_ARRAY_SIZE, MAX_DIMENSIONS, RecordValue};
pub use error::{Concerned, SqlState, TypeError, TypeResult};
pub use format::Format;
pub use identity::{
    CreatedType, DomainCheck, DomainParts, DomainType, ElementModifier, IntervalMod,
    MAX_CHAR_LENGTH, NumericMod, SqlType,
};
pub use interval::{Interval, IntervalStyle};
pub use json::{
    JsonEvent, JsonParser, JsonSpan, JsonText, JsonToken, Jsonb, JsonbArray, JsonbBuilder,
    JsonbItem, JsonbKind, JsonbObject, JsonbRef, MAX_JSON_DEPTH, check_json, escape_json,
    parse_jsonb, pretty, write_jsonb,
};
pub use numeric::{Numeric, NumericSign, NumericSum, Work};
pub use padding::without_blanks;
pub use system_columns::TupleId;
pub use text::{invalid_encoding, text_from_bytes, without_zero};
pub use timetz::TimeTz;
pub use wire::{put_integer, put_with_length, uuid_text, write_string};
pub use zone::TimeZone;
