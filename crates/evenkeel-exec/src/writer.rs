//! Through which an execution changes and locks rows.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use evenkeel_engine::table::{Arbiter, KeyHint, Table};
use evenkeel_engine::{Doubt, RowLockMode, Snapshot, Tid, WaitPolicy};

use crate::error::ExecResult;
use crate::large::{NewRow, NewRows};

/// A future of [`Writer::wait`].
pub type Waiting<'w> = Pin<Box<dyn Future<Output = ()> + Send + 'w>>;

/// A change or a lock of a row. Places are those of versions that the execution's snapshot sees,
/// or that were [`Written::Changed`].
#[derive(Debug)]
pub enum Write {
    /// Inserts a row; with `arbiter` unless a live row has the same key there.
    Insert {
        row: NewRow,
        arbiter: Option<Arbiter>,
    },
    /// Inserts rows, one after the other. It is done with the place of the last one; those of all
    /// are had by [`Writer::placed`].
    InsertMany { rows: NewRows },
    /// Replaces the row at a place.
    Update { at: Tid, row: NewRow, hint: KeyHint },
    /// Deletes the row at a place.
    Delete { at: Tid },
    /// Locks the row at a place.
    Lock {
        at: Tid,
        mode: RowLockMode,
        policy: WaitPolicy,
    },
}

/// Result of a [`Write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is done; where the row is now.
    Done(Tid),
    /// The row at this place has the key: nothing was inserted.
    Conflict { at: Tid, by_this_command: bool },
    /// This transaction has changed the row already: in the same command, or by what that called.
    SelfModified { by_another_command: bool },
    /// READ COMMITTED: another transaction has deleted the row.
    Gone,
    /// READ COMMITTED: another transaction has updated the row. Its newest version is at this
    /// place, and locked; the execution decides whether it still wants it.
    Changed(Tid),
    /// The row is locked by another transaction and was to be skipped then.
    Skipped,
}

/// The transaction of an execution that changes or locks rows. One write is made at a time.
pub trait Writer: Send + Sync {
    /// Begins a write. `None`: another transaction is in its way. The execution then gives way
    /// with [`Wait::Row`](crate::Wait::Row), and asks [`Writer::resume`] when it goes on.
    ///
    /// # Errors
    /// The engine's: 23505, 40001, 40P01, 55P03, 57014 and others.
    fn start(
        &self,
        table: &Arc<Table>,
        snapshot: &Snapshot,
        write: Write,
    ) -> ExecResult<Option<Written>>;

    /// Goes on with the write that waits. `None`: it still does.
    ///
    /// # Errors
    /// As [`Writer::start`].
    fn resume(&self) -> ExecResult<Option<Written>>;

    /// The places of the rows of the last [`Write::InsertMany`], once it is done.
    fn placed(&self) -> Vec<Tid>;

    /// The doubts about keys of the rows written since the last call (a deferrable unique index).
    fn doubts(&self) -> Vec<Doubt>;

    /// Ends when [`Writer::resume`] has something to say. It holds no lock of this process and
    /// no thread.
    fn wait(&self) -> Waiting<'_>;
}
