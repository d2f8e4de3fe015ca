//! Statements of the row executor that change or lock rows.

use std::sync::Arc;

use evenkeel_engine::{CancelFlag, Snapshot, Transaction};
use evenkeel_exec::{Environment, Execution, TransactionWriter};
use evenkeel_planner::plan::Plan;

use super::{PlanRows, RowSession, environment, types_of};
use crate::error::{SqlError, SqlResult};
use crate::exec::{RowBuffer, StatementCx};
use crate::protocol::Format;
use crate::types::Datum;

/// Result of an INSERT, UPDATE, DELETE or MERGE.
#[derive(Debug, Default)]
pub struct Changed {
    /// Rows changed.
    pub count: u64,
    /// RETURNING's rows.
    pub rows: RowBuffer,
}

/// Rows that are encoded at once.
const ROWS: usize = 1024;

/// The statement's snapshot, and the flag that ends it.
type At = (Snapshot, CancelFlag);

/// Runs a plan that changes or locks rows to its end: a client that does not fetch all rows must
/// not leave some of them unchanged. The transaction is the writer's meanwhile, and back when this
/// returns.
///
/// # Errors
/// The statement's.
pub async fn run(
    plan: &Arc<Plan>,
    params: Vec<Datum>,
    cx: &Arc<StatementCx>,
    (snapshot, cancel): At,
    formats: &[Format],
    txn: &mut Option<Transaction>,
) -> SqlResult<Changed> {
    let (session, env) = environment(cx, snapshot, cancel);
    run_in(plan, params, cx, (session, env), formats, txn).await
}

/// As [`run`], for the action of a foreign key: it finds rows by a snapshot of its own, and may
/// change none that `seen` does not see.
///
/// # Errors
/// The statement's; 40001 for such a row.
pub async fn act(
    plan: &Arc<Plan>,
    params: Vec<Datum>,
    cx: &Arc<StatementCx>,
    (snapshot, cancel): At,
    seen: Option<Snapshot>,
    txn: &mut Option<Transaction>,
) -> SqlResult<Changed> {
    let (session, mut env) = environment(cx, snapshot, cancel);
    env.cross_check = seen;
    run_in(plan, params, cx, (session, env), &[], txn).await
}

async fn run_in(
    plan: &Arc<Plan>,
    params: Vec<Datum>,
    cx: &Arc<StatementCx>,
    (session, env): (Arc<RowSession>, Environment),
    formats: &[Format],
    txn: &mut Option<Transaction>,
) -> SqlResult<Changed> {
    let started = Execution::start(Arc::clone(plan), params, env);
    let rows = started.map(|run| PlanRows::new(run, types_of(plan), session));
    written(rows?, txn, async |mut rows| {
        all(&mut rows, formats, cx).await
    })
    .await
}

/// As [`run`], for a plan without parameters whose operators are measured: what `shown` makes of
/// them at its end.
///
/// # Errors
/// The statement's.
pub async fn measured<T>(
    plan: &Arc<Plan>,
    cx: &Arc<StatementCx>,
    (snapshot, cancel): At,
    txn: &mut Option<Transaction>,
    shown: impl FnOnce(&PlanRows) -> T,
) -> SqlResult<T> {
    let rows = super::start_measured(plan, cx, snapshot, cancel)?;
    let drained = async |mut rows: PlanRows| {
        rows.drain().await?;
        Ok(shown(&rows))
    };
    written(rows, txn, drained).await
}

/// Lends the transaction to the rows that `work` asks for.
async fn written<T>(
    rows: PlanRows,
    txn: &mut Option<Transaction>,
    work: impl AsyncFnOnce(PlanRows) -> SqlResult<T>,
) -> SqlResult<T> {
    let Some(lent) = txn.take() else {
        return Err(SqlError::internal("a change without a transaction"));
    };
    let writer = Arc::new(TransactionWriter::new());
    writer.lend(lent);
    let worked = work(rows.writing(Arc::clone(&writer))).await;
    *txn = Some(taken_back(&writer).await);
    worked
}

async fn all(rows: &mut PlanRows, formats: &[Format], cx: &StatementCx) -> SqlResult<Changed> {
    let mut encoded = RowBuffer::default();
    let mut more = true;
    while more {
        let mut batch = Vec::new();
        more = rows.read(ROWS, formats, &mut batch).await?;
        for row in batch {
            encoded.push(row, &cx.seed.resources.memory)?;
        }
    }
    Ok(Changed {
        count: rows.changed(),
        rows: encoded,
    })
}

/// A write that was given up still has the transaction until it has ended.
async fn taken_back(writer: &TransactionWriter) -> Transaction {
    use evenkeel_exec::Writer;
    loop {
        if let Some(transaction) = writer.take() {
            return transaction;
        }
        writer.wait().await;
    }
}
