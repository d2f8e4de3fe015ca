//! Rows copied out of pages: no reference to page bytes leaves the engine.

use smallvec::SmallVec;

use crate::error::{EngineError, EngineResult};
use crate::txn::Snapshot;
use crate::types::Tid;

/// Rows with their places, in one contiguous buffer that is reused from call to call. Rows that
/// were read come with the snapshot that they were read under, which is held until they go.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    data: Vec<u8>,
    rows: Vec<RowRef>,
    held: SmallVec<[Held; 1]>,
}

/// The snapshot of the rows from a certain one on.
#[derive(Clone, Debug)]
struct Held {
    from: usize,
    snapshot: Snapshot,
    rollbacks: u64,
}

/// A version of a row, to be changed or locked: it borrows the snapshot under which it was read
/// or met, or the batch that holds that. A place alone would not do: without a snapshot the
/// version may be pruned and its place be another row's.
///
/// ```no_run
/// use evenkeel_engine::{Snapshot, Table, Transaction, block_on};
/// use evenkeel_engine::table::{Arbiter, Inserted, KeyHint};
/// fn put(table: &Table, txn: &mut Transaction, row: &[u8]) {
///     let snapshot = txn.snapshot().unwrap();
///     let tried = block_on(table.insert_or_conflict(txn, &snapshot, row, Arbiter::Any)).unwrap();
///     if let Inserted::Conflict { row: other, .. } = tried {
///         block_on(table.update(txn, other, row, KeyHint::Compare)).unwrap();
///     }
/// }
/// ```
///
/// ```compile_fail,E0502
/// use evenkeel_engine::heap::rows::RowBatch;
/// fn stale(batch: &mut RowBatch) -> evenkeel_engine::Tid {
///     let row = batch.handle(0).unwrap();
///     batch.clear(); // Drops the snapshot that holds the row's place.
///     row.tid()
/// }
/// ```
///
/// ```compile_fail,E0505
/// use evenkeel_engine::{Snapshot, Table, Transaction, block_on};
/// use evenkeel_engine::table::{Arbiter, Inserted, KeyHint};
/// fn stale(table: &Table, txn: &mut Transaction, row: &[u8]) {
///     let snapshot = txn.snapshot().unwrap();
///     let tried = block_on(table.insert_or_conflict(txn, &snapshot, row, Arbiter::Any)).unwrap();
///     drop(snapshot);
///     if let Inserted::Conflict { row: other, .. } = tried {
///         block_on(table.update(txn, other, row, KeyHint::Compare)).unwrap();
///     }
/// }
/// ```
///
/// ```compile_fail,E0308
/// use evenkeel_engine::{Table, Tid, Transaction, block_on};
/// fn without_a_snapshot(table: &Table, txn: &mut Transaction, tid: Tid) {
///     block_on(table.delete(txn, tid)).unwrap();
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RowHandle<'r> {
    tid: Tid,
    /// None in tests only, which see to it themselves.
    read: Option<(&'r Snapshot, u64)>,
}

impl<'r> RowHandle<'r> {
    /// A version that is at `tid` now, as the caller is sure without having read it: a lock, of
    /// the object that the row describes, keeps everybody from changing it. `snapshot` is held
    /// from now on; it need not see the row.
    pub fn known(snapshot: &'r Snapshot, tid: Tid) -> RowHandle<'r> {
        RowHandle {
            tid,
            read: Some((snapshot, snapshot.own().rollbacks())),
        }
    }

    /// Another version of the row that was there while this one's snapshot was held.
    pub(crate) fn at(self, tid: Tid) -> RowHandle<'r> {
        RowHandle { tid, ..self }
    }

    #[cfg(test)]
    pub(crate) fn unguarded(tid: Tid) -> RowHandle<'static> {
        RowHandle { tid, read: None }
    }

    /// Its place.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The place, if nothing can have come there since. The transaction's own rows go with a
    /// subtransaction, whatever snapshot has seen them.
    ///
    /// # Errors
    /// `StaleRow`.
    pub(crate) fn place(&self) -> EngineResult<Tid> {
        match self.read {
            Some((snapshot, then)) if snapshot.own().rollbacks() != then => {
                Err(EngineError::StaleRow { tid: self.tid })
            }
            _ => Ok(self.tid),
        }
    }
}

impl PartialEq for RowHandle<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.tid == other.tid
    }
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
        self.held.clear();
    }

    /// Forgets all but the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
        let end = self.rows.last().map_or(0, |row| row.end);
        self.data.truncate(end as usize);
        self.held.retain(|held| held.from < rows);
    }

    /// The rows from `first` on were read under `snapshot`.
    pub(crate) fn read_under(&mut self, first: usize, snapshot: &Snapshot) {
        let rollbacks = snapshot.own().rollbacks();
        let same = |held: &Held| held.rollbacks == rollbacks && held.snapshot.holds_same(snapshot);
        if first < self.rows.len() && !self.held.last().is_some_and(same) {
            self.held.push(Held {
                from: first,
                snapshot: snapshot.clone(),
                rollbacks,
            });
        }
    }

    /// Row `index`, to be changed or locked; none for one that was not read, or is not there.
    pub fn handle(&self, index: usize) -> Option<RowHandle<'_>> {
        let tid = self.rows.get(index)?.tid;
        let held = self.held.iter().rev().find(|held| held.from <= index)?;
        Some(RowHandle {
            tid,
            read: Some((&held.snapshot, held.rollbacks)),
        })
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
