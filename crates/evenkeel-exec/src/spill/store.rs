//! Rows that are kept and read again, in memory as far as there is room, then in a file.

use std::sync::Arc;

use evenkeel_engine::memory::Reservation;
use evenkeel_types::Datum;

use super::codec::{LENGTH, Reader, put_row};
use super::file::{TempFile, TempSpace};
use crate::batch::{Batch, row_bytes, take};
use crate::error::{ExecError, ExecResult};

/// Bytes read from a file at once.
const CHUNK: usize = 32 << 10;

/// Rows in the order in which they were put.
pub(crate) struct RowStore {
    width: usize,
    /// The first rows.
    memory: Vec<Datum>,
    in_memory: usize,
    /// The rows behind them.
    file: Option<TempFile>,
    in_file: usize,
    /// Where each row of the file begins, if they are read in any order.
    offsets: Option<Vec<u64>>,
    reservation: Reservation,
    space: Arc<TempSpace>,
    /// Bytes that it keeps in memory.
    limit: usize,
}

/// A place in a store, from which rows are read on.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    row: usize,
    /// Where the row begins in the file.
    offset: u64,
    /// Bytes of the file, from `start` on.
    buffer: Vec<u8>,
    start: u64,
}

impl Cursor {
    /// Goes back to the first row.
    pub fn rewind(&mut self) {
        *self = Cursor::default();
    }

    /// The number of the row that is read next.
    pub fn row(&self) -> usize {
        self.row
    }
}

impl RowStore {
    /// An empty store of rows of `width` columns that keeps `limit` bytes in memory.
    pub fn new(
        width: usize,
        reservation: Reservation,
        space: &Arc<TempSpace>,
        limit: usize,
    ) -> RowStore {
        RowStore {
            width,
            memory: Vec::new(),
            in_memory: 0,
            file: None,
            in_file: 0,
            offsets: None,
            reservation,
            space: Arc::clone(space),
            limit,
        }
    }

    /// An empty store like this one.
    pub fn another(&self) -> RowStore {
        let reservation = self.reservation.another();
        RowStore::new(self.width, reservation, &self.space, self.limit)
    }

    /// Lets rows be read in any order.
    pub fn random_access(mut self) -> RowStore {
        self.offsets = Some(Vec::new());
        self
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.in_memory + self.in_file
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of a row that is in memory.
    #[inline]
    pub fn in_memory(&self, row: usize) -> Option<&[Datum]> {
        let here = row < self.in_memory;
        here.then(|| &self.memory[row * self.width..(row + 1) * self.width])
    }

    /// Whether there is room in memory for a row, which is reserved then.
    fn room(&mut self, row: &[Datum]) -> bool {
        if self.file.is_some() {
            return false;
        }
        let bytes = row_bytes(row);
        self.reservation.bytes().saturating_add(bytes) <= self.limit
            && self.reservation.grow(bytes).is_ok()
    }

    fn put_in_file(&mut self, row: &[Datum]) -> ExecResult<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(TempFile::create(&self.space)?),
        };
        if let Some(offsets) = &mut self.offsets {
            offsets.push(file.len());
        }
        file.append(|out| put_row(row, out))?;
        self.in_file += 1;
        Ok(())
    }

    /// Appends a row.
    pub fn push(&mut self, row: &[Datum]) -> ExecResult<()> {
        if !self.room(row) {
            return self.put_in_file(row);
        }
        self.memory.extend_from_slice(row);
        self.in_memory += 1;
        Ok(())
    }

    /// Appends a row, whose values are taken.
    pub fn push_taken(&mut self, row: &mut [Datum]) -> ExecResult<()> {
        if !self.room(row) {
            return self.put_in_file(row);
        }
        self.memory.extend(row.iter_mut().map(take));
        self.in_memory += 1;
        Ok(())
    }

    /// Appends the row at the cursor to `out`; false at the end.
    pub fn read(&self, cursor: &mut Cursor, out: &mut Batch) -> ExecResult<bool> {
        if cursor.row >= self.len() {
            return Ok(false);
        }
        if cursor.row < self.in_memory {
            out.push_row(&self.memory[cursor.row * self.width..(cursor.row + 1) * self.width]);
        } else {
            self.read_file(cursor, out)?;
        }
        cursor.row += 1;
        Ok(true)
    }

    /// Moves the cursor to a row. Of a store with random access.
    pub fn seek(&self, cursor: &mut Cursor, row: usize) {
        cursor.row = row;
        let in_file = row.checked_sub(self.in_memory);
        if let (Some(at), Some(offsets)) = (in_file, &self.offsets) {
            cursor.offset = offsets.get(at).copied().unwrap_or(0);
        } else {
            cursor.offset = 0;
        }
    }

    fn read_file(&self, cursor: &mut Cursor, out: &mut Batch) -> ExecResult<()> {
        let none = || ExecError::plan("rows that were not kept");
        let file = self.file.as_ref().ok_or_else(none)?;
        let head = cursor.bytes(file, LENGTH)?;
        let head: [u8; LENGTH] = head.try_into().map_err(|_| none())?;
        cursor.offset += LENGTH as u64;
        let length = u32::from_le_bytes(head) as usize;
        let mut reader = Reader(cursor.bytes(file, length)?);
        for _ in 0..self.width {
            out.push_value(reader.value()?);
        }
        out.end_row();
        cursor.offset += length as u64;
        Ok(())
    }
}

impl Cursor {
    /// The next bytes of the file, which has them.
    fn bytes(&mut self, file: &TempFile, length: usize) -> ExecResult<&[u8]> {
        let end = self.start + self.buffer.len() as u64;
        if self.offset < self.start || self.offset + length as u64 > end {
            // Nothing is allocated by a length that the file does not have.
            let left = file.len().saturating_sub(self.offset);
            let wanted = (CHUNK.max(length) as u64).min(left) as usize;
            if wanted < length {
                return Err(ExecError::plan("a temporary file that ends within a row"));
            }
            self.buffer.clear();
            self.buffer.resize(wanted, 0);
            file.read(self.offset, &mut self.buffer)?;
            self.start = self.offset;
        }
        let from = (self.offset - self.start) as usize;
        Ok(&self.buffer[from..from + length])
    }
}
