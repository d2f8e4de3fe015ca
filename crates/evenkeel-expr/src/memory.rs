//! Memory of large values: their size, and the charge of those that an evaluation holds.

use evenkeel_types::{Datum, MAX_ARRAY_SIZE, SqlState, TypeError};

use crate::error::ExprResult;
use crate::session::Session;

/// Values up to this size are not charged one by one.
pub const LARGE: usize = 64 << 10;
/// Most bytes of a value: PostgreSQL's `MaxAllocSize`.
pub(crate) const MAX_VALUE: usize = 0x3fff_ffff;

/// The bytes of a value that is large, and 0 for any other.
#[inline]
pub fn large_bytes(value: &Datum) -> usize {
    let bytes = match value {
        Datum::Text(text) | Datum::Char(text) => text.capacity(),
        Datum::Bytea(bytes) => bytes.capacity(),
        Datum::Jsonb(value) => value.bytes().len(),
        Datum::Numeric(number) => number.digits().len() * 2,
        Datum::Array(_) | Datum::Record(_) => nested_bytes(value),
        _ => 0,
    };
    if bytes > LARGE { bytes } else { 0 }
}

/// The bytes of a value, with those of the values in it.
#[inline(never)]
pub fn nested_bytes(value: &Datum) -> usize {
    let within = |values: &[Datum]| -> usize {
        let inner = values.iter().map(nested_bytes);
        size_of_val(values).saturating_add(inner.fold(0, usize::saturating_add))
    };
    match value {
        Datum::Text(text) | Datum::Char(text) => text.capacity(),
        Datum::Bytea(bytes) => bytes.capacity(),
        Datum::Jsonb(value) => value.bytes().len(),
        Datum::Numeric(number) => number.digits().len() * 2,
        Datum::Array(array) => within(array.elements()),
        Datum::Record(record) => within(record.fields()),
        _ => 0,
    }
}

/// Bytes that the text form of a value has at most, about: each character of a text may be escaped,
/// each byte of a `bytea` becomes two digits, and no number is much longer than a value's slot.
pub(crate) fn text_bytes(value: &Datum) -> usize {
    nested_bytes(value).saturating_mul(2)
}

/// 54000 for a text or `bytea` beyond the largest.
#[cold]
pub(crate) fn too_long() -> TypeError {
    let message = format!("string buffer exceeds maximum allowed length ({MAX_VALUE} bytes)");
    TypeError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// 54000 for an array of too many elements.
#[cold]
pub(crate) fn too_many() -> TypeError {
    let message = format!("array size exceeds the maximum allowed ({MAX_ARRAY_SIZE})");
    TypeError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// The charge of values that an evaluation holds; it ends with this.
pub(crate) struct Charge<'s> {
    session: &'s dyn Session,
    bytes: usize,
}

impl<'s> Charge<'s> {
    #[inline]
    pub fn new(session: &'s dyn Session) -> Charge<'s> {
        Charge { session, bytes: 0 }
    }

    /// Charges a value, if it is large.
    #[inline]
    pub fn add(&mut self, value: &Datum) -> ExprResult<()> {
        match large_bytes(value) {
            0 => Ok(()),
            bytes => self.grow(bytes),
        }
    }

    /// Whether anything is charged.
    pub fn is_charged(&self) -> bool {
        self.bytes != 0
    }

    /// An evaluation that makes a large value or takes one is work of some time.
    #[cold]
    fn grow(&mut self, bytes: usize) -> ExprResult<()> {
        self.session.check_cancel()?;
        self.session.hold(bytes)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    #[cold]
    fn end(&mut self) {
        self.session.release(std::mem::take(&mut self.bytes));
    }
}

impl Drop for Charge<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.bytes != 0 {
            self.end();
        }
    }
}

/// A place for a value that an evaluation needs until it has made another one of it.
pub(crate) struct Space<'s> {
    value: Datum,
    charge: Charge<'s>,
}

impl<'s> Space<'s> {
    #[inline]
    pub fn new(session: &'s dyn Session) -> Space<'s> {
        Space {
            value: Datum::Null,
            charge: Charge::new(session),
        }
    }

    /// Holds a value, in the place of the one before.
    #[inline]
    pub fn put(&mut self, value: Datum) -> ExprResult<&Datum> {
        if self.charge.bytes != 0 {
            self.charge.end();
        }
        self.value = value;
        self.charge.add(&self.value)?;
        Ok(&self.value)
    }

    #[inline]
    pub fn get(&self) -> &Datum {
        &self.value
    }

    /// The value, of which nothing is charged from now on.
    #[inline]
    pub fn take(mut self) -> Datum {
        std::mem::replace(&mut self.value, Datum::Null)
    }
}
