//! Results that grow: room for them is asked for as they do.

use evenkeel_types::{Datum, MAX_ARRAY_SIZE};

use crate::call::Call;
use crate::error::ExprResult;
use crate::memory::{MAX_VALUE, too_long, too_many};
use crate::pace::{Pace, VALUE_STEPS};

/// Makes room for so many bytes more, and asks for it where the text becomes large.
///
/// # Errors
/// 54000, 53200.
pub(crate) fn grow(call: &Call<'_>, out: &mut String, more: usize) -> ExprResult<()> {
    let needed = out.len().saturating_add(more);
    if needed <= out.capacity() {
        return Ok(());
    }
    if needed > MAX_VALUE {
        return Err(too_long());
    }
    let capacity = needed.max(out.capacity() * 2).min(MAX_VALUE);
    call.room(capacity)?;
    out.reserve_exact(capacity - out.len());
    Ok(())
}

/// Elements of an array that is made; room for them is asked for as they become many.
pub(crate) struct Values<'c> {
    call: &'c Call<'c>,
    values: Vec<Datum>,
    /// Bytes that the elements hold in all, at most.
    heap: usize,
    pace: Pace<'c>,
}

impl<'c> Values<'c> {
    pub fn new(call: &'c Call<'c>, heap: usize) -> Values<'c> {
        Values {
            call,
            values: Vec::new(),
            heap,
            pace: call.pace(),
        }
    }

    /// Appends an element.
    ///
    /// # Errors
    /// 54000, 53200, 57014.
    #[inline]
    pub fn push(&mut self, value: Datum) -> ExprResult<()> {
        self.pace.step(VALUE_STEPS)?;
        if self.values.len() == self.values.capacity() {
            self.grow()?;
        }
        self.values.push(value);
        Ok(())
    }

    #[cold]
    fn grow(&mut self) -> ExprResult<()> {
        if self.values.len() >= MAX_ARRAY_SIZE {
            return Err(too_many());
        }
        let capacity = (self.values.capacity() * 2).clamp(8, MAX_ARRAY_SIZE);
        self.call.room_of_values(capacity, self.heap)?;
        self.values.reserve_exact(capacity - self.values.len());
        Ok(())
    }

    /// The elements as an array of one dimension.
    pub fn array(self) -> Datum {
        Datum::array(self.values)
    }
}
