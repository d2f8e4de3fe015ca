//! Rows between operators: values side by side, row after row.

use std::sync::Arc;

use evenkeel_engine::memory::{OutOfMemory, Reservation, SessionMemory};
use evenkeel_expr::large_bytes;
use evenkeel_types::row::RowLayout;
use evenkeel_types::{Datum, TypeResult};

/// Bytes of large values with which a batch is full, whatever its rows.
const HEAVY: usize = 1 << 20;

/// Some rows of one width.
#[derive(Debug, Default)]
pub struct Batch {
    width: usize,
    rows: usize,
    /// Those of the rows, then others that will be overwritten: a value that takes the place of one
    /// of its type need not drop it, and has its memory.
    data: Vec<Datum>,
    /// How many of these are the rows'.
    used: usize,
    /// Bytes of the large values.
    large: usize,
    /// The charge of those that were computed for it.
    charge: Option<Reservation>,
}

impl Batch {
    /// No rows of `width` columns.
    pub fn new(width: usize) -> Batch {
        Batch {
            width,
            ..Batch::default()
        }
    }

    /// Forgets the rows, keeps the memory, and has rows of `width` columns from now on.
    pub(crate) fn reset(&mut self, width: usize) {
        self.width = width;
        self.rows = 0;
        self.used = 0;
        if self.large != 0 {
            self.data.clear();
            self.large = 0;
            self.charge = None;
        }
    }

    /// Whether it has `most` rows, or values that are so large that it takes no more.
    #[inline]
    pub(crate) fn is_full(&self, most: usize) -> bool {
        self.rows >= most || self.large > HEAVY
    }

    /// Appends a value that was computed, charged to the session if it is large until the batch
    /// is reset.
    #[inline]
    pub(crate) fn push_computed(
        &mut self,
        value: Datum,
        memory: &Arc<SessionMemory>,
    ) -> Result<(), OutOfMemory> {
        if large_bytes(&value) != 0 {
            self.charge(large_bytes(&value), memory)?;
        }
        self.push_value(value);
        Ok(())
    }

    /// Charges the large values of a row that is appended next to the session.
    #[cold]
    pub(crate) fn charge_row(
        &mut self,
        row: &[Datum],
        memory: &Arc<SessionMemory>,
    ) -> Result<(), OutOfMemory> {
        self.charge(row.iter().map(large_bytes).sum(), memory)
    }

    #[cold]
    fn charge(&mut self, bytes: usize, memory: &Arc<SessionMemory>) -> Result<(), OutOfMemory> {
        let charge = self.charge.get_or_insert_with(|| Reservation::new(memory));
        charge.grow(bytes)
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The values of row `at`.
    ///
    /// # Panics
    /// When `at` is not below [`Batch::len`].
    pub fn row(&self, at: usize) -> &[Datum] {
        &self.data[at * self.width..(at + 1) * self.width]
    }

    /// The values of the rows from `at` on, one behind the other.
    pub(crate) fn values_from(&self, at: usize) -> &[Datum] {
        self.data
            .get(at * self.width..self.used)
            .unwrap_or_default()
    }

    /// The values of row `at`, to be taken.
    pub(crate) fn row_mut(&mut self, at: usize) -> &mut [Datum] {
        &mut self.data[at * self.width..(at + 1) * self.width]
    }

    /// The rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[Datum]> + '_ {
        (0..self.rows).map(|at| self.row(at))
    }

    /// Appends a copy of a row.
    pub(crate) fn push_row(&mut self, row: &[Datum]) {
        debug_assert_eq!(row.len(), self.width, "a row of another width");
        for value in row {
            self.large += large_bytes(value);
            self.slot().clone_from(value);
        }
        self.rows += 1;
    }

    /// Appends the values of a row, which leaves others in it.
    pub(crate) fn push_taken(&mut self, row: &mut [Datum]) {
        debug_assert_eq!(row.len(), self.width, "a row of another width");
        for value in row {
            self.large += large_bytes(value);
            std::mem::swap(self.slot(), value);
        }
        self.rows += 1;
    }

    /// Appends the columns of a row that is simple.
    #[inline]
    pub(crate) fn push_stored(
        &mut self,
        row: &[u8],
        layout: &RowLayout,
        columns: &[usize],
    ) -> TypeResult<()> {
        debug_assert_eq!(columns.len(), self.width, "a row of another width");
        let first = self.used;
        for column in columns {
            layout.read_simple(row, *column, self.slot())?;
        }
        // A value that fits into a page is not large, but a string may have a larger one's memory.
        let read = &self.data[first..self.used];
        self.large += read.iter().map(large_bytes).sum::<usize>();
        self.rows += 1;
        Ok(())
    }

    /// The place of the next value.
    #[inline]
    fn slot(&mut self) -> &mut Datum {
        if self.used == self.data.len() {
            self.data.push(Datum::Null);
        }
        self.used += 1;
        &mut self.data[self.used - 1]
    }

    /// Appends a value of the row that [`Batch::end_row`] ends.
    pub(crate) fn push_value(&mut self, value: Datum) {
        self.large += large_bytes(&value);
        *self.slot() = value;
    }

    /// Ends a row of values.
    pub(crate) fn end_row(&mut self) {
        self.rows += 1;
        debug_assert_eq!(self.used, self.rows * self.width, "a row's width");
    }
}

/// The value of a slot, which is NULL from now on.
pub(crate) fn take(slot: &mut Datum) -> Datum {
    std::mem::replace(slot, Datum::Null)
}

/// Moves values into the slots of a row.
pub(crate) fn move_into(to: &mut [Datum], from: &mut [Datum]) {
    to.swap_with_slice(from);
}

/// Bytes that a value occupies, for the memory budget.
pub(crate) fn bytes_of(value: &Datum) -> usize {
    let heap = match value {
        Datum::Text(text) | Datum::Char(text) => text.capacity(),
        Datum::Bytea(bytes) => bytes.capacity(),
        Datum::Numeric(number) => number.digits().len() * 2,
        Datum::Array(array) => array.bytes(),
        Datum::Record(record) => row_bytes(record.fields()),
        _ => 0,
    };
    size_of::<Datum>() + heap
}

/// Bytes that the values of a row occupy.
pub(crate) fn row_bytes(row: &[Datum]) -> usize {
    row.iter().map(bytes_of).sum()
}
