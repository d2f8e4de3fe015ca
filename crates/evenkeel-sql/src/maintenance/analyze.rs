//! One table's analyze.

use std::sync::Arc;
use std::time::Instant;

use evenkeel_engine::memory::SessionMemory;
use evenkeel_engine::stats::{AnalyzePhase, AnalyzeProgress, AnalyzeTask, Maintained};
use evenkeel_engine::table::{Sample, SampleOptions};
use evenkeel_engine::vacuum::CostBalance;
use evenkeel_engine::{Durability, Isolation, Transaction, block_on};

use super::Request;
use super::compute;
use crate::catalog::{Catalog, ColumnStats, DdlLog, Oid, StatisticsChange, TableInfo};
use crate::error::SqlResult;

/// Rows sampled for each item of `default_statistics_target` (PostgreSQL's number, after
/// Chaudhuri, Motwani and Narasayya, 1998).
const ROWS_PER_TARGET: usize = 300;

/// Options of an analyze.
#[derive(Clone, Debug)]
pub struct AnalyzeRequest {
    /// `default_statistics_target`.
    pub target: usize,
    /// The columns by name; empty for all.
    pub columns: Vec<String>,
    /// Bytes of the pool that it may use, if not as many as a vacuum.
    pub buffer_usage_limit: Option<u64>,
    /// Paces it.
    pub cost: Option<Arc<CostBalance>>,
    /// The session's budget; none for work of no session.
    pub memory: Option<Arc<SessionMemory>>,
    /// How it came about.
    pub request: Request,
}

/// Result of analyzing a table.
pub struct AnalyzeReport {
    /// The table's name.
    pub table: Arc<TableInfo>,
    /// The sample, without its rows.
    pub sample: Sample,
    /// Rows that were sampled.
    pub rows: usize,
}

/// Analyzes a table in a transaction of its own. `None` if it is gone, or locked and to be
/// skipped.
///
/// # Errors
/// The engine's; 53200; 57014.
pub fn analyze(
    catalog: &Catalog,
    oid: Oid,
    wanted: &AnalyzeRequest,
) -> SqlResult<Option<AnalyzeReport>> {
    let mut txn = catalog.database().begin(Isolation::ReadCommitted)?;
    let found = super::vacuum::locked(catalog, &mut txn, oid, &wanted.request)?;
    let Some(table) = found else {
        return Ok(None);
    };
    let ddl = DdlLog::default();
    let report = analyze_in(catalog, &mut txn, &ddl, table, wanted)?;
    block_on(txn.commit(Durability::Sync))?;
    Ok(Some(report))
}

/// Analyzes a table that the transaction has locked, as a part of it.
///
/// # Errors
/// The engine's; 53200; 57014.
pub fn analyze_in(
    catalog: &Catalog,
    txn: &mut Transaction,
    ddl: &DdlLog,
    table: Arc<TableInfo>,
    wanted: &AnalyzeRequest,
) -> SqlResult<AnalyzeReport> {
    let started = Instant::now();
    let db = table.table.db().clone();
    let id = table.lock_id();
    let task = db.begin_analyze(id, wanted.request.pid);
    let options = SampleOptions {
        rows: wanted.target.max(1) * ROWS_PER_TARGET,
        seed: db.store().disk().random_u64(),
        buffer_usage_limit: wanted.buffer_usage_limit,
        cost: wanted.cost.clone(),
        cancel: Some(wanted.request.cancel.clone()),
        memory: wanted.memory.clone(),
    };
    let mut sample = table.table.sample(txn, &options, &task)?;
    at(&task, &sample, AnalyzePhase::ComputingStatistics);
    let columns = columns_of(&table, &sample, wanted)?;
    let rows = std::mem::take(&mut sample.rows).len();
    sample.charge = None;
    at(&task, &sample, AnalyzePhase::FinalizingAnalyze);
    let (visible, frozen) = table.table.visibility()?;
    let figure = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let change = StatisticsChange {
        figures: Some((
            figure(sample.blocks),
            sample.live() as f32,
            figure(visible),
            figure(frozen),
        )),
        relfrozenxid: None,
        columns,
    };
    block_on(catalog.set_statistics(txn, ddl, &table, change))?;
    // The transaction's own changes are counted at its commit.
    let (inserted, updated, deleted) = txn.rows_changed(id);
    db.table_counters(id).analyzed(
        &Maintained {
            live: Some((sample.live() + deleted).saturating_sub(inserted)),
            dead: sample.dead().saturating_sub(updated + deleted),
            automatic: wanted.request.automatic,
            at: super::now_micros(),
            took: started.elapsed(),
        },
        wanted.columns.is_empty(),
    );
    Ok(AnalyzeReport {
        table,
        sample,
        rows,
    })
}

fn at(task: &AnalyzeTask, sample: &Sample, phase: AnalyzePhase) {
    task.at(&AnalyzeProgress {
        phase,
        sample_blks_total: sample.blocks_sampled,
        sample_blks_scanned: sample.blocks_sampled,
        ..AnalyzeProgress::default()
    });
}

fn columns_of(
    table: &TableInfo,
    sample: &Sample,
    wanted: &AnalyzeRequest,
) -> SqlResult<Vec<(usize, ColumnStats)>> {
    let mut columns = Vec::new();
    for (position, column) in table.columns.iter().enumerate() {
        let named = wanted.columns.iter().any(|name| **name == *column.name);
        if column.is_virtual() || (!wanted.columns.is_empty() && !named) {
            continue;
        }
        let mut values = Vec::with_capacity(sample.rows.len());
        for (at, (_, row)) in sample.rows.iter().enumerate() {
            if at % compute::STEP == 0 {
                wanted.request.cancel.check()?;
            }
            values.push(table.layout.read(row, position)?);
        }
        // A sample of nothing says nothing; what was known stays.
        if !values.is_empty() {
            let total = sample.live() as f64;
            let stats = compute::column(
                column.ty,
                values,
                total,
                wanted.target,
                &wanted.request.cancel,
            )?;
            columns.push((position, stats));
        }
    }
    Ok(columns)
}
