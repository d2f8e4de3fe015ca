//! `string_agg`.

use evenkeel_types::{Datum, SqlState, TypeError, TypeResult};

use super::no_value;
use crate::call::Session;
use crate::proc::Accumulator;

/// Most bytes of a value (PostgreSQL's limit).
const MAX_BYTES: usize = 0x3fff_ffff;

/// A buffer of values with their delimiters between them. The first value's delimiter is not used,
/// a NULL delimiter is empty, and a NULL value is passed over with its delimiter.
#[derive(Debug, Default)]
pub(super) struct Joined<T>(Option<T>);

/// `text` or `bytea`.
pub(super) trait Joinable: Default + Clone + Send {
    fn of(datum: &Datum) -> Option<&[u8]>;
    /// Appends a value of this type.
    fn append(&mut self, value: &Datum);
    fn len(&self) -> usize;
    fn capacity(&self) -> usize;
    fn datum(self) -> Datum;
}

impl Joinable for String {
    fn of(datum: &Datum) -> Option<&[u8]> {
        datum.as_str().map(str::as_bytes)
    }

    fn append(&mut self, value: &Datum) {
        self.push_str(value.as_str().unwrap_or_default());
    }

    fn len(&self) -> usize {
        String::len(self)
    }

    fn capacity(&self) -> usize {
        String::capacity(self)
    }

    fn datum(self) -> Datum {
        Datum::Text(self)
    }
}

impl Joinable for Vec<u8> {
    fn of(datum: &Datum) -> Option<&[u8]> {
        match datum {
            Datum::Bytea(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn append(&mut self, value: &Datum) {
        self.extend_from_slice(Self::of(value).unwrap_or_default());
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn capacity(&self) -> usize {
        Vec::capacity(self)
    }

    fn datum(self) -> Datum {
        Datum::Bytea(self)
    }
}

fn append<T: Joinable>(buffer: &mut T, value: &Datum) -> TypeResult<()> {
    let more = T::of(value).map_or(0, <[u8]>::len);
    if buffer.len() + more > MAX_BYTES {
        return Err(TypeError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("string buffer exceeds maximum allowed length ({MAX_BYTES} bytes)"),
        )
        .detail(format!(
            "Cannot enlarge string buffer containing {} bytes by {more} more bytes.",
            buffer.len()
        )));
    }
    buffer.append(value);
    Ok(())
}

impl<T: Joinable> Accumulator for Joined<T> {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [value, delimiter] = args else {
            return Err(TypeError::internal("string_agg has two arguments"));
        };
        if T::of(value).is_none() {
            return no_value(std::slice::from_ref(value));
        }
        match &mut self.0 {
            Some(buffer) => {
                append(buffer, delimiter)?;
                append(buffer, value)
            }
            empty => append(empty.insert(T::default()), value),
        }
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(self.0.clone().map_or(Datum::Null, T::datum))
    }

    fn finish(self: Box<Self>, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(self.0.map_or(Datum::Null, T::datum))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.0.as_ref().map_or(0, T::capacity)
    }
}
