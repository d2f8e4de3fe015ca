//! Rows copied out of pages: no reference to page bytes leaves the engine.

use crate::types::Tid;

/// Rows with their places, in one contiguous buffer that is reused from call to call.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    data: Vec<u8>,
    rows: Vec<RowRef>,
}

#[derive(Clone, Copy, Debug)]
struct RowRef {
    tid: Tid,
    start: u32,
    end: u32,
}

impl RowBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the rows and keeps the memory.
    pub fn clear(&mut self) {
        self.data.clear();
        self.rows.clear();
    }

    /// Forgets all but the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
        let end = self.rows.last().map_or(0, |row| row.end);
        self.data.truncate(end as usize);
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The bytes of row `index`. Panics when `index` is not below `len`.
    pub fn row(&self, index: usize) -> &[u8] {
        let row = &self.rows[index];
        &self.data[row.start as usize..row.end as usize]
    }

    /// The place of row `index`. Panics when `index` is not below `len`.
    pub fn tid(&self, index: usize) -> Tid {
        self.rows[index].tid
    }

    /// The rows with their places.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Tid, &[u8])> + '_ {
        self.rows
            .iter()
            .map(|row| (row.tid, &self.data[row.start as usize..row.end as usize]))
    }

    /// All rows' bytes together, in bytes.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// Adds a copy of a row.
    pub fn push(&mut self, tid: Tid, row: &[u8]) {
        // A batch is one page, or one index leaf's worth of rows: far below 4 GiB.
        let start = self.data.len() as u32;
        self.data.extend_from_slice(row);
        self.rows.push(RowRef {
            tid,
            start,
            end: self.data.len() as u32,
        });
    }
}

/// One row with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where this version is.
    pub tid: Tid,
    /// The row as it was given to `insert` or `update`.
    pub bytes: Vec<u8>,
}
