//! Arrays from and to delimited text.

use evenkeel_types::{Datum, SqlType, TypeError, TypeResult};

use crate::call::Call;
use crate::gather::Values;
use crate::memory::text_bytes;
use crate::pace::{Pace, Search, VALUE_STEPS};

/// Bytes that a value has as a text which holds none, about.
const NUMBER: usize = 32;

/// `array_to_string(anyarray, text [, text])`: NULLs are left out, or stand as the last argument.
pub fn to_text(call: &Call<'_>) -> TypeResult<Datum> {
    if call.is_null(0) || call.is_null(1) {
        return Ok(Datum::Null);
    }
    let element = call.type_of(0).element().unwrap_or(SqlType::Unknown);
    let null = (!call.is_null(2)).then(|| call.text(2));
    let (mut out, mut first, mut pace) = (Vec::new(), true, call.pace());
    for value in call.array(0).elements() {
        pace.step(VALUE_STEPS)?;
        if value.is_null() && null.is_none() {
            continue;
        }
        let null_bytes = null.map_or(0, str::len);
        let more = text_bytes(value).max(null_bytes) + call.text(1).len() + NUMBER;
        if out.capacity() - out.len() < more {
            let capacity = (out.capacity() * 2).max(out.len() + more);
            call.room(capacity)?;
            out.reserve_exact(capacity - out.len());
        }
        if !first {
            out.extend_from_slice(call.text(1).as_bytes());
        }
        first = false;
        match (value, null) {
            (Datum::Null, Some(null)) => out.extend_from_slice(null.as_bytes()),
            (value, _) => value.write_text(element, call.session.types(), &mut out),
        }
    }
    match String::from_utf8(out) {
        Ok(text) => Ok(Datum::Text(text)),
        Err(_) => Err(TypeError::internal("a text form that is no text")),
    }
}

/// The parts of a text between delimiters, one after the other. A delimiter that is NULL divides
/// between characters, an empty one nowhere; the empty text has no parts.
pub(crate) struct Parts<'a> {
    text: &'a str,
    /// Where the next part begins; `None` behind the last.
    at: Option<usize>,
    divided: Divided<'a>,
    /// Parts that are NULL.
    null: Option<&'a str>,
}

enum Divided<'a> {
    Nowhere,
    Everywhere,
    At(Box<Search<'a>>),
}

impl<'a> Parts<'a> {
    /// From a place on.
    pub fn new(
        text: &'a str,
        at: Option<usize>,
        delimiter: Option<&'a str>,
        null: Option<&'a str>,
    ) -> Parts<'a> {
        Parts {
            text,
            at,
            divided: match delimiter {
                None => Divided::Everywhere,
                Some("") => Divided::Nowhere,
                Some(delimiter) => Divided::At(Box::new(Search::new(delimiter.as_bytes()))),
            },
            null,
        }
    }

    /// The next part.
    ///
    /// # Errors
    /// 57014.
    pub fn next(&mut self, pace: &mut Pace<'_>) -> TypeResult<Option<Datum>> {
        let Some((at, rest)) = self.at.and_then(|at| Some((at, self.text.get(at..)?))) else {
            return Ok(None);
        };
        let (length, next) = match &self.divided {
            Divided::Everywhere => {
                let length = rest.chars().next().map_or(0, char::len_utf8);
                (length, (length < rest.len()).then_some(at + length))
            }
            Divided::Nowhere => (rest.len(), None),
            Divided::At(search) => match search.find(rest.as_bytes(), 0, pace)? {
                Some(length) => (length, Some(at + length + search.len())),
                None => (rest.len(), None),
            },
        };
        self.at = next;
        let part = &rest[..length];
        Ok(Some(match self.null == Some(part) {
            true => Datum::Null,
            false => Datum::from(part),
        }))
    }

    /// Where the next part begins; `None` behind the last.
    pub fn at(&self) -> Option<usize> {
        self.at
    }
}

/// A text, the delimiter of its parts, and the part that is NULL.
pub(crate) type Divisible<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// The arguments of `string_to_array` or `string_to_table`; `None` of NULL.
pub(crate) fn divisible<'a>(call: &Call<'a>) -> Option<Divisible<'a>> {
    let given = |at: usize| (!call.is_null(at)).then(|| call.text(at));
    Some((given(0)?, given(1), given(2)))
}

/// `string_to_array(text, text [, text])`
pub fn from_text(call: &Call<'_>) -> TypeResult<Datum> {
    let Some((text, delimiter, null)) = divisible(call) else {
        return Ok(Datum::Null);
    };
    let mut parts = Parts::new(text, (!text.is_empty()).then_some(0), delimiter, null);
    let mut elements = Values::new(call, text.len());
    let mut pace = call.pace();
    while let Some(part) = parts.next(&mut pace)? {
        elements.push(part)?;
    }
    Ok(elements.array())
}
