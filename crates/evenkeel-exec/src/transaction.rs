//! The writer over a transaction of the engine.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use evenkeel_engine::heap::rows::RowHandle;
use evenkeel_engine::table::{InsertOptions, Inserted, LargeRef, Modified, Table};
use evenkeel_engine::{CommandId, Doubt, EngineError, Isolation, Snapshot, Tid, Transaction};

use crate::error::{ExecError, ExecResult};
use crate::large::settle;
use crate::writer::{Waiting, Write, Writer, Written};

type Outcome = ExecResult<Written>;
type Running = Pin<Box<dyn Future<Output = (Transaction, Outcome, Made)> + Send>>;

/// Things that a write has made, whatever its outcome.
#[derive(Default)]
struct Made {
    /// The large values of a new row, which no row names unless the write is done.
    values: Vec<LargeRef>,
    /// The places of many rows.
    placed: Vec<Tid>,
}

/// Writes in a transaction of the engine, which is lent to it while the execution runs.
///
/// A row's place is valid while the execution's snapshot is held and no subtransaction in which
/// the snapshot saw rows is rolled back: an execution ends before the subtransaction in which it
/// began.
#[derive(Default)]
pub struct TransactionWriter(Mutex<State>);

#[derive(Default)]
struct State {
    /// Here, unless a write waits, which has it then.
    transaction: Option<Transaction>,
    running: Option<Running>,
    ended: Option<Outcome>,
    /// Of the last write.
    placed: Vec<Tid>,
}

impl TransactionWriter {
    /// Without a transaction yet.
    pub fn new() -> TransactionWriter {
        TransactionWriter::default()
    }

    /// Lends the transaction in which it writes from now on. A statement that runs in between is
    /// a command of its own, also if nothing has been written yet.
    pub fn lend(&self, transaction: Transaction) {
        let _ = transaction.command();
        self.state().transaction = Some(transaction);
    }

    /// Takes the transaction back; none while a write waits: [`Writer::wait`] ends that.
    pub fn take(&self) -> Option<Transaction> {
        let mut state = self.state();
        if state.transaction.is_some() {
            state.ended = None;
        }
        state.transaction.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in between leaves a state that is no worse than before it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(running) = &mut self.running {
            let Poll::Ready((transaction, outcome, made)) = running.as_mut().poll(context) else {
                return Poll::Pending;
            };
            self.running = None;
            self.placed = made.placed;
            self.transaction = Some(transaction);
            self.ended = Some(outcome);
        }
        Poll::Ready(())
    }

    fn answer(&mut self) -> ExecResult<Option<Written>> {
        if self
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
        {
            return Ok(None);
        }
        let ended = self.ended.take();
        let ended = ended.ok_or_else(|| ExecError::plan("a write that was not begun"))?;
        ended.map(Some)
    }
}

impl Writer for TransactionWriter {
    fn start(
        &self,
        table: &Arc<Table>,
        snapshot: &Snapshot,
        write: Write,
    ) -> ExecResult<Option<Written>> {
        let mut state = self.state();
        let Some(mut transaction) = state.transaction.take() else {
            return Err(ExecError::plan("a write while another one waits"));
        };
        let (table, snapshot) = (Arc::clone(table), snapshot.clone());
        state.running = Some(Box::pin(async move {
            let mut made = Made::default();
            let outcome = perform(&table, &mut transaction, &snapshot, (write, &mut made)).await;
            (transaction, outcome, made)
        }));
        state.answer()
    }

    fn resume(&self) -> ExecResult<Option<Written>> {
        self.state().answer()
    }

    fn placed(&self) -> Vec<Tid> {
        std::mem::take(&mut self.state().placed)
    }

    fn doubts(&self) -> Vec<Doubt> {
        let mut state = self.state();
        let transaction = state.transaction.as_mut();
        transaction
            .map(Transaction::take_doubts)
            .unwrap_or_default()
    }

    fn wait(&self) -> Waiting<'_> {
        Box::pin(poll_fn(|context| self.state().poll(context)))
    }
}

async fn perform(
    table: &Table,
    transaction: &mut Transaction,
    snapshot: &Snapshot,
    (write, made): (Write, &mut Made),
) -> Outcome {
    let written = attempt(table, transaction, snapshot, (write, made)).await?;
    if !matches!(written, Written::Done(_)) {
        table.drop_large(transaction, &made.values)?;
    }
    Ok(written)
}

async fn attempt(
    table: &Table,
    transaction: &mut Transaction,
    snapshot: &Snapshot,
    (write, made): (Write, &mut Made),
) -> Outcome {
    let (at, modified) = match write {
        Write::Insert { row, arbiter: None } => {
            let (row, _) = settle(table, transaction, row).await?;
            return Ok(Written::Done(table.insert(transaction, &row).await?));
        }
        Write::InsertMany { mut rows } => {
            let rows = rows.settle(table, transaction).await?;
            let options = InsertOptions::default();
            made.placed = table.insert_many(transaction, rows, &options).await?;
            let last = made.placed.last();
            let last = last.ok_or_else(|| ExecError::plan("an insert of no rows"))?;
            return Ok(Written::Done(*last));
        }
        Write::Insert {
            row,
            arbiter: Some(arbiter),
        } => {
            let (row, values) = settle(table, transaction, row).await?;
            made.values = values;
            let tried = table.insert_or_conflict(transaction, snapshot, &row, arbiter);
            return match tried.await? {
                Inserted::Done(at) => Ok(Written::Done(at)),
                Inserted::Conflict { row, .. } => conflict(table, transaction, snapshot, row.tid()),
            };
        }
        Write::Update { at, row, hint } => {
            let (row, values) = settle(table, transaction, row).await?;
            made.values = values;
            let old = RowHandle::known(snapshot, at);
            (at, table.update(transaction, old, &row, hint).await?)
        }
        Write::Delete { at } => {
            let old = RowHandle::known(snapshot, at);
            (at, table.delete(transaction, old).await?)
        }
        Write::Lock { at, mode, policy } => {
            let row = RowHandle::known(snapshot, at);
            (at, table.lock_row(transaction, row, mode, policy).await?)
        }
    };
    outcome(table, transaction, (snapshot, at), modified)
}

/// The row in the way of an insert. A fixed snapshot cannot act on a row that it does not see.
fn conflict(table: &Table, transaction: &Transaction, snapshot: &Snapshot, at: Tid) -> Outcome {
    let seen = table.fetch(snapshot, at)?.is_some();
    // With all commands, the snapshot sees what its own transaction has written since.
    let all = snapshot.with_command(CommandId(u32::MAX));
    let by_this_command = !seen && table.fetch(&all, at)?.is_some();
    if !seen && !by_this_command && transaction.isolation() != Isolation::ReadCommitted {
        return Err(EngineError::SerializationFailure { what: "update" }.into());
    }
    Ok(Written::Conflict {
        at,
        by_this_command,
    })
}

fn outcome(
    table: &Table,
    transaction: &Transaction,
    (snapshot, at): (&Snapshot, Tid),
    modified: Modified<'_>,
) -> Outcome {
    Ok(match modified {
        Modified::Done(at) => Written::Done(at),
        Modified::SelfModified => {
            let row = RowHandle::known(snapshot, at);
            let by = table.changed_by(transaction, row)?;
            Written::SelfModified {
                by_another_command: by.is_some_and(|by| by != snapshot.command()),
            }
        }
        Modified::Gone => Written::Gone,
        Modified::Changed { newest } => Written::Changed(newest.tid()),
        Modified::Skipped => Written::Skipped,
    })
}
