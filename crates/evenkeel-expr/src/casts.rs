//! Casts: which there are, and what they do.

use std::collections::HashMap;
use std::sync::LazyLock;

use evenkeel_types::{ArrayValue, Datum, Interval, SqlType};

use crate::calendar::DAY;
use crate::call::{Call, Session};
use crate::error::{self, ExprResult};
use crate::proc::{CastContext, CastDef, CastMethod};

macro_rules! casts {
    ($($source:ident $(($source_mod:ident))? => $target:ident $(($target_mod:ident))?:
        $context:ident $method:ident;)*) => {
        /// The rows of `pg_cast`, with PostgreSQL's contexts and methods. The casts between arrays
        /// are those of their elements, and those by the text forms are not listed.
        pub static CASTS: &[CastDef] = &[$(
            CastDef {
                source: SqlType::$source$(($source_mod))?,
                target: SqlType::$target$(($target_mod))?,
                context: CastContext::$context,
                method: CastMethod::$method,
            },
        )*];
    };
}

casts! {
    Bool => Int4: Explicit Convert;
    Bool => Text: Assignment Convert;
    Bool => Char(None): Assignment Convert;
    Bool => Varchar(None): Assignment Convert;
    Bytea => Int8: Explicit Convert;
    Bytea => Int2: Explicit Convert;
    Bytea => Int4: Explicit Convert;
    InternalChar => Int4: Explicit Convert;
    InternalChar => Text: Implicit Convert;
    InternalChar => Char(None): Assignment Convert;
    InternalChar => Varchar(None): Assignment Convert;
    Json => Jsonb: Assignment InOut;
    Jsonb => Json: Assignment InOut;
    Jsonb => Bool: Explicit Convert;
    Jsonb => Numeric(None): Explicit Convert;
    Jsonb => Int2: Explicit Convert;
    Jsonb => Int4: Explicit Convert;
    Jsonb => Int8: Explicit Convert;
    Jsonb => Float4: Explicit Convert;
    Jsonb => Float8: Explicit Convert;
    Name => Text: Implicit Convert;
    Name => Char(None): Assignment Convert;
    Name => Varchar(None): Assignment Convert;
    Int8 => Bytea: Explicit Convert;
    Int8 => Int2: Assignment Convert;
    Int8 => Int4: Assignment Convert;
    Int8 => Regproc: Implicit Convert;
    Int8 => Oid: Implicit Convert;
    Int8 => Float4: Implicit Convert;
    Int8 => Float8: Implicit Convert;
    Int8 => Numeric(None): Implicit Convert;
    Int8 => Regclass: Implicit Convert;
    Int8 => Regtype: Implicit Convert;
    Int2 => Bytea: Explicit Convert;
    Int2 => Int8: Implicit Convert;
    Int2 => Int4: Implicit Convert;
    Int2 => Regproc: Implicit Convert;
    Int2 => Oid: Implicit Convert;
    Int2 => Float4: Implicit Convert;
    Int2 => Float8: Implicit Convert;
    Int2 => Numeric(None): Implicit Convert;
    Int2 => Regclass: Implicit Convert;
    Int2 => Regtype: Implicit Convert;
    Int4 => Bool: Explicit Convert;
    Int4 => Bytea: Explicit Convert;
    Int4 => InternalChar: Explicit Convert;
    Int4 => Int8: Implicit Convert;
    Int4 => Int2: Assignment Convert;
    Int4 => Regproc: Implicit Binary;
    Int4 => Oid: Implicit Binary;
    Int4 => Float4: Implicit Convert;
    Int4 => Float8: Implicit Convert;
    Int4 => Numeric(None): Implicit Convert;
    Int4 => Regclass: Implicit Binary;
    Int4 => Regtype: Implicit Binary;
    Regproc => Int8: Assignment Convert;
    Regproc => Int4: Assignment Binary;
    Regproc => Oid: Implicit Binary;
    Text => InternalChar: Assignment Convert;
    Text => Name: Implicit Convert;
    Text => Char(None): Implicit Binary;
    Text => Varchar(None): Implicit Binary;
    Text => Regclass: Implicit Convert;
    Oid => Int8: Assignment Convert;
    Oid => Int4: Assignment Binary;
    Oid => Regproc: Implicit Binary;
    Oid => Regclass: Implicit Binary;
    Oid => Regtype: Implicit Binary;
    Float4 => Int8: Assignment Convert;
    Float4 => Int2: Assignment Convert;
    Float4 => Int4: Assignment Convert;
    Float4 => Float8: Implicit Convert;
    Float4 => Numeric(None): Assignment Convert;
    Float8 => Int8: Assignment Convert;
    Float8 => Int2: Assignment Convert;
    Float8 => Int4: Assignment Convert;
    Float8 => Float4: Assignment Convert;
    Float8 => Numeric(None): Assignment Convert;
    Char(None) => InternalChar: Assignment Convert;
    Char(None) => Name: Implicit Convert;
    Char(None) => Text: Implicit Convert;
    Char(None) => Char(None): Implicit Convert;
    Char(None) => Varchar(None): Implicit Convert;
    Varchar(None) => InternalChar: Assignment Convert;
    Varchar(None) => Name: Implicit Convert;
    Varchar(None) => Text: Implicit Binary;
    Varchar(None) => Char(None): Implicit Binary;
    Varchar(None) => Varchar(None): Implicit Convert;
    Varchar(None) => Regclass: Implicit Convert;
    Date => Timestamp(None): Implicit Convert;
    Date => Timestamptz(None): Implicit Convert;
    Time(None) => Time(None): Implicit Convert;
    Time(None) => Timetz(None): Implicit Convert;
    Time(None) => Interval(None): Implicit Convert;
    Timetz(None) => Time(None): Assignment Convert;
    Timetz(None) => Timetz(None): Implicit Convert;
    Timestamp(None) => Date: Assignment Convert;
    Timestamp(None) => Time(None): Assignment Convert;
    Timestamp(None) => Timestamp(None): Implicit Convert;
    Timestamp(None) => Timestamptz(None): Implicit Convert;
    Timestamptz(None) => Date: Assignment Convert;
    Timestamptz(None) => Time(None): Assignment Convert;
    Timestamptz(None) => Timetz(None): Assignment Convert;
    Timestamptz(None) => Timestamp(None): Assignment Convert;
    Timestamptz(None) => Timestamptz(None): Implicit Convert;
    Interval(None) => Time(None): Assignment Convert;
    Interval(None) => Interval(None): Implicit Convert;
    Numeric(None) => Int8: Assignment Convert;
    Numeric(None) => Int2: Assignment Convert;
    Numeric(None) => Int4: Assignment Convert;
    Numeric(None) => Float4: Implicit Convert;
    Numeric(None) => Float8: Implicit Convert;
    Numeric(None) => Numeric(None): Implicit Convert;
    Regclass => Int8: Assignment Convert;
    Regclass => Int4: Assignment Binary;
    Regclass => Oid: Implicit Binary;
    Regtype => Int8: Assignment Convert;
    Regtype => Int4: Assignment Binary;
    Regtype => Oid: Implicit Binary;
    Int8 => Regprocedure: Implicit Convert;
    Int2 => Regprocedure: Implicit Convert;
    Int4 => Regprocedure: Implicit Binary;
    Oid => Regprocedure: Implicit Binary;
    Regprocedure => Int8: Assignment Convert;
    Regprocedure => Int4: Assignment Binary;
    Regprocedure => Oid: Implicit Binary;
    Int8 => Regoper: Implicit Convert;
    Int2 => Regoper: Implicit Convert;
    Int4 => Regoper: Implicit Binary;
    Oid => Regoper: Implicit Binary;
    Regoper => Int8: Assignment Convert;
    Regoper => Int4: Assignment Binary;
    Regoper => Oid: Implicit Binary;
    Int8 => Regoperator: Implicit Convert;
    Int2 => Regoperator: Implicit Convert;
    Int4 => Regoperator: Implicit Binary;
    Oid => Regoperator: Implicit Binary;
    Regoperator => Int8: Assignment Convert;
    Regoperator => Int4: Assignment Binary;
    Regoperator => Oid: Implicit Binary;
    Int8 => Regnamespace: Implicit Convert;
    Int2 => Regnamespace: Implicit Convert;
    Int4 => Regnamespace: Implicit Binary;
    Oid => Regnamespace: Implicit Binary;
    Regnamespace => Int8: Assignment Convert;
    Regnamespace => Int4: Assignment Binary;
    Regnamespace => Oid: Implicit Binary;
    Int8 => Regrole: Implicit Convert;
    Int2 => Regrole: Implicit Convert;
    Int4 => Regrole: Implicit Binary;
    Oid => Regrole: Implicit Binary;
    Regrole => Int8: Assignment Convert;
    Regrole => Int4: Assignment Binary;
    Regrole => Oid: Implicit Binary;
    Regproc => Regprocedure: Implicit Binary;
    Regprocedure => Regproc: Implicit Binary;
    Regoper => Regoperator: Implicit Binary;
    Regoperator => Regoper: Implicit Binary;
    Xid8 => Xid: Explicit Convert;
}

/// The cast from one type to another, whatever their modifiers; also from a type to itself, which
/// applies a modifier. `None` where `pg_cast` has none.
pub fn find_cast(from: SqlType, to: SqlType) -> Option<&'static CastDef> {
    static INDEX: LazyLock<HashMap<(u32, u32), &CastDef>> = LazyLock::new(|| {
        let rows = CASTS.iter();
        rows.map(|cast| ((cast.source.oid(), cast.target.oid()), cast))
            .collect()
    });
    INDEX.get(&(from.oid(), to.oid())).copied()
}

/// The oids of the input and the output function of a type whose values read as names.
fn name_functions(ty: SqlType) -> (u32, u32) {
    match ty {
        SqlType::Regproc => (44, 45),
        SqlType::Regprocedure => (2212, 2213),
        SqlType::Regoper => (2214, 2215),
        SqlType::Regoperator => (2216, 2217),
        SqlType::Regtype => (2220, 2221),
        SqlType::Regnamespace => (4084, 4085),
        SqlType::Regrole => (4098, 4092),
        _ => (2218, 2219),
    }
}

/// An oid, or an array of oids, of a type whose values read as names, from its text or texts.
///
/// # Errors
/// Those of the type's input function.
pub fn of_names(value: Datum, ty: SqlType, session: &dyn Session) -> ExprResult<Datum> {
    let Some(element) = ty.element() else {
        return session.system_call(name_functions(ty).0, &[value]);
    };
    let texts = match value {
        Datum::Text(text) => Datum::parse_text(SqlType::TEXT_ARRAY, &text, session.types())?,
        other => other,
    };
    each_element(texts, |text| of_names(text, element, session))
}

/// The text of such an oid, or the texts of such an array.
///
/// # Errors
/// Those of the type's output function.
pub fn as_names(value: Datum, ty: SqlType, session: &dyn Session) -> ExprResult<Datum> {
    match ty.element() {
        None => session.system_call(name_functions(ty).1, &[value]),
        Some(element) => each_element(value, |oid| as_names(oid, element, session)),
    }
}

fn each_element(
    array: Datum,
    mut made: impl FnMut(Datum) -> ExprResult<Datum>,
) -> ExprResult<Datum> {
    let Datum::Array(array) = array else {
        return Err(error::internal("elements of a value that is no array"));
    };
    let elements = array.elements().iter().map(|element| match element {
        Datum::Null => Ok(Datum::Null),
        element => made(element.clone()),
    });
    let elements = elements.collect::<ExprResult<Vec<_>>>()?;
    let made = ArrayValue::new(array.dimensions(), elements)?;
    Ok(Datum::Array(made.into()))
}

/// A value as one of another type.
///
/// # Errors
/// Those of the cast; 42846 where there is none.
pub fn convert(
    value: Datum,
    from: SqlType,
    to: SqlType,
    explicit: bool,
    session: &dyn Session,
) -> ExprResult<Datum> {
    match (&value, to) {
        (Datum::Interval(interval), SqlType::Time(_)) => return time_of(*interval),
        (Datum::Time(micros), SqlType::Interval(modifier)) => {
            let interval = Interval {
                micros: *micros,
                ..Interval::ZERO
            };
            return interval.apply_modifier(modifier).map(Datum::Interval);
        }
        (Datum::Int4(number), SqlType::InternalChar) => return byte_char(*number),
        (Datum::Text(text), SqlType::Int4) if from == SqlType::InternalChar => {
            return Ok(Datum::Int4(char_byte(text)));
        }
        (Datum::Int2(number), SqlType::Bytea) => {
            return Ok(Datum::Bytea(number.to_be_bytes().to_vec()));
        }
        (Datum::Int4(number), SqlType::Bytea) => {
            return Ok(Datum::Bytea(number.to_be_bytes().to_vec()));
        }
        (Datum::Int8(number), SqlType::Bytea) => {
            return Ok(Datum::Bytea(number.to_be_bytes().to_vec()));
        }
        (Datum::Bytea(bytes), SqlType::Int2) => {
            let bits = u16::try_from(bits_of(bytes, 2, "smallint")?).unwrap_or_default();
            return Ok(Datum::Int2(bits.cast_signed()));
        }
        (Datum::Bytea(bytes), SqlType::Int4) => {
            let bits = u32::try_from(bits_of(bytes, 4, "integer")?).unwrap_or_default();
            return Ok(Datum::Int4(bits.cast_signed()));
        }
        (Datum::Bytea(bytes), SqlType::Int8) => {
            return Ok(Datum::Int8(bits_of(bytes, 8, "bigint")?.cast_signed()));
        }
        _ => {}
    }
    match explicit {
        true => value.cast_explicit(from, to, session.types()),
        false => value.cast_assign(from, to, session.types()),
    }
}

fn time_of(interval: Interval) -> ExprResult<Datum> {
    match interval.is_finite() {
        true => Ok(Datum::Time(interval.micros.rem_euclid(DAY))),
        false => Err(error::datetime_overflow(
            "cannot convert infinite interval to time",
        )),
    }
}

fn byte_char(number: i32) -> ExprResult<Datum> {
    let byte = i8::try_from(number).map_err(|_| error::out_of_range("\"char\" out of range"))?;
    Ok(char_of(byte.cast_unsigned()))
}

/// A byte as a `"char"`; zero is the empty one.
pub(crate) fn char_of(byte: u8) -> Datum {
    match byte {
        0 => String::new(),
        byte => char::from(byte).to_string(),
    }
    .into()
}

fn char_byte(text: &str) -> i32 {
    let byte = text.chars().next().map_or(0, |c| u32::from(c) & 0xff);
    i32::from(u8::try_from(byte).unwrap_or(0).cast_signed())
}

/// Bytes as a number, the first the highest.
fn bits_of(bytes: &[u8], most: usize, name: &str) -> ExprResult<u64> {
    if bytes.len() > most {
        return Err(error::out_of_range(format!("{name} out of range")));
    }
    Ok(bytes
        .iter()
        .fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
}

/// The function of a cast: from its argument's type to its result's.
pub fn apply(call: &Call<'_>) -> ExprResult<Datum> {
    let value = call.arg(0).clone();
    convert(value, call.type_of(0), call.result, true, call.session)
}
