//! INSERT, UPDATE and DELETE whose input is a plan. DataFusion's own hooks for them are not
//! used: its plan yields row ids and values, and we change the rows.

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::{InsertOptions, KeyHint, Modified};
use evenkeel_engine::{BlockNumber, CancelFlag, Isolation, Tid, Transaction};

use super::batches::BatchRows;
use super::bind::Binding;
use super::pool::Pool;
use super::scan::unpack;
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult};
use crate::exec::StatementCx;
use crate::exec::oltp::conflict::{Inserter, OnConflict};
use crate::exec::oltp::expr::{Env, RowRef, Typed, Value};
use crate::exec::oltp::insert::{Changed, Returning, RowMaker, describe_violation};
use crate::exec::oltp::select::encode_row;
use crate::planner::query::QueryPlan;
use crate::session::api::Format;
use crate::types::{Datum, SqlType};

/// Bytes of rows that a bulk insert gathers before it writes them.
const BULK_BYTES: usize = 64 << 10;
/// Rows after which a change lets other tasks run.
const ROWS_AT_A_TIME: u32 = 1024;

/// A column set by a planned UPDATE.
#[derive(Debug)]
pub struct Assignment {
    /// The table's column.
    pub column: usize,
    /// The plan's column with the new value.
    pub source: usize,
    /// The new value's type.
    pub ty: SqlType,
}

/// What to do with the plan's rows.
#[derive(Debug)]
pub enum Verb {
    /// Insert them; `row` says where each column's value comes from, its columns being the
    /// plan's.
    Insert {
        row: Vec<Typed>,
        conflict: Option<OnConflict>,
    },
    /// Update the row whose id is in the first column.
    Update {
        assignments: Vec<Assignment>,
        hint: KeyHint,
    },
    /// Delete the row whose id is in the first column.
    Delete,
}

impl Verb {
    /// The command's name.
    pub fn tag(&self) -> &'static str {
        match self {
            Verb::Insert { .. } => "INSERT",
            Verb::Update { .. } => "UPDATE",
            Verb::Delete => "DELETE",
        }
    }
}

/// A data-changing statement over a plan.
#[derive(Debug)]
pub struct PlannedChange {
    /// The table to change.
    pub table: Arc<TableInfo>,
    /// Where the rows come from.
    pub plan: QueryPlan,
    /// What happens to them.
    pub verb: Verb,
    /// RETURNING.
    pub returning: Option<Returning>,
}

/// Everything a planned change runs with.
pub struct ChangeCx<'a> {
    /// The statement's session values.
    pub cx: Arc<StatementCx>,
    /// Values of the parameters.
    pub params: &'a [Datum],
    /// Their types.
    pub param_types: &'a [SqlType],
    /// Functions and rules.
    pub state: &'a SessionState,
    /// The threads that the plan runs on.
    pub pool: &'a Pool,
    /// The session's cancel flag.
    pub cancel: CancelFlag,
    /// Result formats, for RETURNING.
    pub formats: &'a [Format],
}

impl ChangeCx<'_> {
    async fn rows(&self, change: &PlannedChange, txn: &mut Transaction) -> SqlResult<BatchRows> {
        let binding = Binding::new(
            txn.snapshot()?,
            Arc::clone(&self.cx),
            self.cancel.clone(),
            self.params,
            self.param_types,
        )?;
        let stream = binding.start(&change.plan.plan, self.state).await?;
        let stream = self.pool.run(stream);
        Ok(BatchRows::new(
            stream,
            Arc::clone(&change.plan.types),
            Arc::clone(&self.cx),
        ))
    }
}

/// A long loop over rows that are at hand: it can be cancelled, and lets other sessions have the
/// thread now and then.
#[derive(Default)]
struct Pace(u32);

impl Pace {
    async fn step(&mut self, txn: &Transaction) -> SqlResult<()> {
        txn.check_cancel()?;
        self.0 += 1;
        if self.0 == ROWS_AT_A_TIME {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// Runs a planned change. Under READ COMMITTED, if it meets a row that another transaction
/// changed since the snapshot, it waits, undoes what it did and begins anew with a new
/// snapshot. It keeps the locks that it has waited for, so that nobody changes those rows again
/// before it comes back to them (exec rule 4).
pub async fn run(
    change: &PlannedChange,
    run: &ChangeCx<'_>,
    txn: &mut Transaction,
) -> SqlResult<Changed> {
    let Verb::Insert { row, conflict } = &change.verb else {
        loop {
            let sub = txn.begin_sub();
            match modify(change, run, txn).await {
                Ok(Some(changed)) => {
                    txn.commit_sub(sub);
                    return Ok(changed);
                }
                Ok(None) => {
                    txn.abort_sub_keeping_locks(sub);
                    txn.begin_statement()?;
                }
                Err(error) => {
                    txn.abort_sub(sub);
                    return Err(error);
                }
            }
        }
    };
    insert(change, row, conflict.as_ref(), run, txn).await
}

async fn insert(
    change: &PlannedChange,
    template: &[Typed],
    conflict: Option<&OnConflict>,
    run: &ChangeCx<'_>,
    txn: &mut Transaction,
) -> SqlResult<Changed> {
    let env = Env {
        params: run.params,
        cx: &run.cx,
    };
    let table = &change.table;
    let mut rows = run.rows(change, txn).await?;
    let mut data = Vec::new();
    let mut maker = RowMaker::new(table, &run.cx.types);
    let mut bulk = RowBatch::new();
    let options = InsertOptions {
        freeze: false,
        ring: Some(table.table.load_ring()),
    };
    let mut changed = Changed::default();
    let mut inserter = match conflict {
        Some(conflict) => Some(Inserter::new(table, conflict, env, txn.snapshot()?)),
        None => None,
    };
    let mut pace = Pace::default();
    while rows.next_row(&mut data).await? {
        pace.step(txn).await?;
        maker.begin();
        for item in template {
            let datum = match &item.value {
                Value::Column(source) => data[*source].clone(),
                _ => item.eval(None, env)?,
            };
            maker.push(datum, item.ty)?;
        }
        maker.finish()?;
        if let Some(inserter) = &mut inserter
            && !inserter.insert(txn, &mut maker).await?
        {
            continue;
        }
        changed.count += 1;
        if let Some(returning) = &change.returning {
            let row = RowRef {
                layout: &table.layout,
                bytes: &maker.bytes,
            };
            changed
                .rows
                .push(encode_row(&returning.output, Some(row), env, run.formats)?);
        }
        if inserter.is_some() {
            continue;
        }
        bulk.push(Tid::new(BlockNumber(0), 1), &maker.bytes);
        if bulk.bytes() >= BULK_BYTES {
            table.table.insert_many(txn, &bulk, &options).await?;
            bulk.clear();
        }
    }
    if !bulk.is_empty() {
        table.table.insert_many(txn, &bulk, &options).await?;
    }
    Ok(changed)
}

/// One attempt; `None` if it met a row that changed.
async fn modify(
    change: &PlannedChange,
    run: &ChangeCx<'_>,
    txn: &mut Transaction,
) -> SqlResult<Option<Changed>> {
    let env = Env {
        params: run.params,
        cx: &run.cx,
    };
    let table = &change.table;
    let snapshot = txn.snapshot()?;
    let mut rows = run.rows(change, txn).await?;
    let mut data = Vec::new();
    let mut maker = RowMaker::new(table, &run.cx.types);
    let mut changed = Changed::default();
    let mut pace = Pace::default();
    while rows.next_row(&mut data).await? {
        pace.step(txn).await?;
        let Some(Datum::Int8(id)) = data.first() else {
            return Err(SqlError::internal("a planned change without a row id"));
        };
        let tid = unpack(*id);
        let Some(old) = table.table.fetch(&snapshot, tid)? else {
            return Err(SqlError::internal(
                "a planned change of a row that is not there",
            ));
        };
        let modified = change_row(change, run, txn, tid, &old.bytes, &data, &mut maker).await?;
        match modified {
            Modified::Done(_) => {}
            // Joined twice: the first time counts.
            Modified::SelfModified | Modified::Skipped => continue,
            Modified::Gone | Modified::Changed { .. } => {
                debug_assert_eq!(txn.isolation(), Isolation::ReadCommitted);
                return Ok(None);
            }
        }
        changed.count += 1;
        if let Some(returning) = &change.returning {
            let is_delete = matches!(change.verb, Verb::Delete);
            let bytes = if is_delete {
                old.bytes.as_slice()
            } else {
                maker.bytes.as_slice()
            };
            let row = RowRef {
                layout: &table.layout,
                bytes,
            };
            changed
                .rows
                .push(encode_row(&returning.output, Some(row), env, run.formats)?);
        }
    }
    Ok(Some(changed))
}

/// Changes one row; for an update the new version is then in `maker`.
async fn change_row(
    change: &PlannedChange,
    run: &ChangeCx<'_>,
    txn: &mut Transaction,
    tid: Tid,
    old: &[u8],
    data: &[Datum],
    maker: &mut RowMaker<'_>,
) -> SqlResult<Modified> {
    let table = &change.table;
    let Verb::Update { assignments, hint } = &change.verb else {
        return Ok(table.table.delete(txn, tid).await?);
    };
    maker.begin_from(old)?;
    for assignment in assignments {
        let value = data[assignment.source].clone();
        maker.set(assignment.column, value, assignment.ty)?;
    }
    maker.finish()?;
    let updated = table.table.update(txn, tid, &maker.bytes, *hint).await;
    updated.map_err(|error| describe_violation(error, table, &maker.bytes, &run.cx.types))
}
