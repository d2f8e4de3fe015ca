//! Values that are kept outside of their rows: read when a column is, stored before their row is.

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::memory::Reservation;
use evenkeel_engine::table::{LONGEST_KEY, LONGEST_ROW, LargeRef, Table};
use evenkeel_engine::{BlockNumber, CancelFlag, Snapshot, Tid, Transaction};
use evenkeel_types::Datum;
use evenkeel_types::row::{External, LargeRow, RowLayout, decompressed};

use crate::error::ExecResult;

/// A row to be stored.
#[derive(Debug)]
pub enum NewRow {
    /// Its bytes.
    Short(Vec<u8>),
    /// One whose large values are to be stored first, and the memory that it takes.
    Long(Box<LargeRow>, Reservation),
}

/// Rows to be stored together, in the order in which they were added.
#[derive(Debug, Default)]
pub struct NewRows {
    short: RowBatch,
    /// The others, each with the number of short ones before it.
    long: Vec<(usize, NewRow)>,
    long_bytes: usize,
}

impl NewRows {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    /// Bytes that they occupy.
    pub fn bytes(&self) -> usize {
        self.short.bytes() + self.long_bytes
    }

    /// Adds a row.
    pub fn push(&mut self, row: NewRow) {
        match &row {
            NewRow::Short(bytes) => self.push_bytes(bytes),
            NewRow::Long(of, _) => {
                self.long_bytes += of.bytes();
                self.long.push((self.short.len(), row));
            }
        }
    }

    /// Adds a copy of a row's bytes.
    pub fn push_bytes(&mut self, row: &[u8]) {
        self.short.push(NOWHERE, row);
    }

    /// Forgets the rows and keeps the memory.
    pub fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
        self.long_bytes = 0;
    }

    /// The bytes of all rows, whose large values are stored now.
    ///
    /// # Errors
    /// As [`settle`].
    pub async fn settle(
        &mut self,
        table: &Table,
        transaction: &mut Transaction,
    ) -> ExecResult<&RowBatch> {
        if self.long.is_empty() {
            return Ok(&self.short);
        }
        let others = std::mem::take(&mut self.short);
        let mut others = others.iter().enumerate().peekable();
        self.long_bytes = 0;
        for (before, row) in std::mem::take(&mut self.long) {
            while let Some((_, (tid, row))) = others.next_if(|(at, _)| *at < before) {
                self.short.push(tid, row);
            }
            let (bytes, _) = settle(table, transaction, row).await?;
            self.short.push(NOWHERE, &bytes);
        }
        others.for_each(|(_, (tid, row))| self.short.push(tid, row));
        Ok(&self.short)
    }
}

/// The place of a row that has none yet.
const NOWHERE: Tid = Tid::new(BlockNumber(0), 1);

/// How a table's rows and the values outside of them are found and read.
#[derive(Clone, Copy)]
pub struct RowReader<'a> {
    /// The table.
    pub table: &'a Table,
    /// Its rows' layout.
    pub layout: &'a RowLayout,
    /// That sees the rows: it keeps what they name.
    pub snapshot: &'a Snapshot,
    /// Ends a read.
    pub cancel: &'a CancelFlag,
}

impl RowReader<'_> {
    /// A column's value.
    ///
    /// # Errors
    /// XX001 for what is damaged; 57014; storage failures.
    pub fn get(&self, row: &[u8], column: usize) -> ExecResult<Datum> {
        match self.layout.read(row, column)? {
            Ok(value) => Ok(value),
            Err(external) => self.fetch(column, &external),
        }
    }

    /// All columns.
    ///
    /// # Errors
    /// As [`RowReader::get`].
    pub fn decode(&self, row: &[u8]) -> ExecResult<Vec<Datum>> {
        let columns = 0..self.layout.len();
        columns.map(|column| self.get(row, column)).collect()
    }

    /// The value of a column that is kept outside of its row.
    ///
    /// # Errors
    /// As [`RowReader::get`].
    pub fn fetch(&self, column: usize, external: &External) -> ExecResult<Datum> {
        let at = LargeRef {
            id: external.id,
            bytes: external.stored,
        };
        let all = (0, usize::MAX);
        let cancel = Some(self.cancel);
        let bytes = self.table.fetch_large(self.snapshot, at, all, cancel)?;
        let bytes = match external.compressed {
            true => decompressed(&bytes, external.raw)?,
            false => bytes,
        };
        Ok(self.layout.whole(column, bytes)?)
    }
}

/// Most bytes that reading a value from outside of its row takes for a while.
pub(crate) fn reading_bytes(external: &External) -> usize {
    external.stored as usize + external.raw as usize
}

/// The bytes of a row, whose large values are stored now; and those values: who does not put the
/// row into the table drops them ([`Table::drop_large`]).
///
/// # Errors
/// 54000 for a value that is too long, or a row that fits no page; 57014; storage failures.
pub async fn settle(
    table: &Table,
    transaction: &mut Transaction,
    row: NewRow,
) -> ExecResult<(Vec<u8>, Vec<LargeRef>)> {
    let (mut row, _charge) = match row {
        NewRow::Short(bytes) => return Ok((bytes, Vec::new())),
        NewRow::Long(row, charge) => (row, charge),
    };
    let mut stored = Vec::new();
    while let Some(at) = row.next_to_move(LONGEST_ROW, LONGEST_KEY)? {
        // The catalog's own tables have none: their rows are too big then.
        if table.large().is_none() {
            break;
        }
        let value = table.store_large(transaction, row.to_move(&at)).await?;
        row.moved(&at, value.id);
        stored.push(value);
    }
    let mut bytes = Vec::new();
    row.finish(&mut bytes)?;
    Ok((bytes, stored))
}
