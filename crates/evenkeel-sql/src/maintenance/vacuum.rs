//! One table's vacuum, with all that belongs to it: the lock, the tail, the catalog's figures,
//! the counters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_engine::stats::Maintained;
use evenkeel_engine::vacuum::{VacuumOptions, VacuumStats};
use evenkeel_engine::{
    CancelFlag, Durability, EngineError, Isolation, Table, TableLockMode, Transaction, WaitPolicy,
    Xid, block_on,
};

use super::Request;
use crate::catalog::{Catalog, DdlLog, Oid, StatisticsChange, TableInfo};
use crate::databases::Databases;
use crate::error::SqlResult;

/// A tail of at least so many pages, or of this part of the table, is worth cutting off.
const TAIL_PAGES: u32 = 1000;
const TAIL_PART: u32 = 16;

/// Options of a table's vacuum, including those for the engine.
#[derive(Clone, Debug)]
pub struct VacuumRequest {
    /// The engine's options.
    pub options: VacuumOptions,
    /// Ids of this age make the vacuum look at every page that is not all-frozen.
    pub freeze_table_age: u64,
    /// Whether the tail may be cut.
    pub truncate: bool,
    /// How it came about.
    pub request: Request,
}

/// Result of vacuuming a table.
pub struct VacuumReport {
    /// The table as it was known before.
    pub table: Arc<TableInfo>,
    /// The engine's counts.
    pub stats: VacuumStats,
    /// The oldest id left unfrozen, if it moved: now, and before.
    pub frozen: Option<(u64, u64)>,
    /// How long it took.
    pub took: Duration,
    /// Ids given out meanwhile.
    pub ids_passed: u64,
}

/// Vacuums a table. `None` if it is gone, or locked and to be skipped.
///
/// # Errors
/// The engine's; 57014.
pub fn vacuum(
    catalog: &Catalog,
    oid: Oid,
    wanted: &VacuumRequest,
) -> SqlResult<Option<VacuumReport>> {
    let started = Instant::now();
    let db = catalog.database();
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    let Some(table) = locked(catalog, &mut txn, oid, &wanted.request)? else {
        return Ok(None);
    };
    let mut options = wanted.options.clone();
    options.cancel = Some(wanted.request.cancel.clone());
    options.pid = wanted.request.pid;
    let floor = db.horizon().floor().get();
    let age = floor.saturating_sub(table.stats.relfrozenxid);
    options.aggressive |= age > wanted.freeze_table_age;
    let mut stats = table.table.vacuum(&options, &mut |_| {})?;
    if wanted.truncate && worth_cutting(&stats) {
        stats.pages_removed = cut_tail(&mut txn, &table.table, &wanted.request)?;
        stats.pages -= stats.pages_removed;
    }
    let rows = live_rows(&table, &stats);
    let change = StatisticsChange {
        figures: Some((
            pages(stats.pages),
            rows as f32,
            pages(stats.pages_all_visible),
            pages(stats.pages_all_frozen),
        )),
        relfrozenxid: stats.oldest_xid.map(Xid::get),
        columns: Vec::new(),
    };
    let before = table.stats.relfrozenxid;
    let ddl = DdlLog::default();
    let known = block_on(catalog.set_statistics(&mut txn, &ddl, &table, change))?;
    block_on(txn.commit(Durability::Sync))?;
    let took = started.elapsed();
    db.table_counters(table.lock_id()).vacuumed(&Maintained {
        live: Some(rows as u64),
        dead: stats.tuples_recently_dead + stats.dead_items_left,
        automatic: wanted.request.automatic,
        at: super::now_micros(),
        took,
    });
    let after = known.stats.relfrozenxid;
    let ids_passed = db.next_xid().get() - stats.removal_cutoff.get().min(db.next_xid().get());
    Ok(Some(VacuumReport {
        table,
        frozen: (after > before).then_some((after, before)),
        stats,
        took,
        ids_passed,
    }))
}

/// Locks a table for maintenance and answers its definition as of then.
pub(super) fn locked(
    catalog: &Catalog,
    txn: &mut Transaction,
    oid: Oid,
    request: &Request,
) -> SqlResult<Option<Arc<TableInfo>>> {
    txn.set_cancel_flag(request.cancel.clone());
    txn.set_lock_timeout(request.lock_timeout);
    let policy = if request.skip_locked {
        WaitPolicy::SkipLocked
    } else {
        WaitPolicy::Block
    };
    let mode = TableLockMode::ShareUpdateExclusive;
    if !block_on(txn.lock_table(catalog.table_id(oid), mode, policy))? {
        return Ok(None);
    }
    Ok(catalog.current().table(oid).cloned())
}

fn pages(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Live rows of the table: counted on the pages looked at, and as dense as before on the others.
fn live_rows(table: &TableInfo, stats: &VacuumStats) -> f64 {
    let counted = (stats.tuples_kept - stats.tuples_recently_dead) as f64;
    let pages = f64::from(stats.pages + stats.pages_removed);
    let scanned = f64::from(stats.pages_scanned);
    let known = &table.stats;
    if scanned >= pages || known.reltuples < 0.0 || known.relpages == 0 {
        // Nothing better is known of the rest than what was seen.
        let density = if scanned > 0.0 {
            counted / scanned
        } else {
            0.0
        };
        return (density * pages).round();
    }
    let old_density = f64::from(known.reltuples) / f64::from(known.relpages);
    // The pages cut off held no rows, whether scanned or not.
    let unseen = (pages - scanned).min(f64::from(stats.pages));
    (old_density * unseen + counted).round()
}

fn worth_cutting(stats: &VacuumStats) -> bool {
    let tail = stats.empty_tail;
    tail > 0 && (tail >= TAIL_PAGES || tail >= stats.pages / TAIL_PART)
}

/// Cuts the tail if the table can be had alone at once: an empty page more is no harm.
fn cut_tail(txn: &mut Transaction, table: &Table, request: &Request) -> SqlResult<u32> {
    let (id, mode) = (table.def().id, TableLockMode::AccessExclusive);
    if !block_on(txn.lock_table(id, mode, WaitPolicy::SkipLocked))? {
        return Ok(0);
    }
    Ok(table.truncate_tail(Some(&request.cancel))?)
}

/// Forgets the statuses of transactions that no table of any database needs, if that frees a file;
/// all tables of the catalogs are frozen for it.
///
/// # Errors
/// The engine's.
pub fn truncate_status(databases: &Databases, cancel: &CancelFlag) -> SqlResult<()> {
    let db = databases.database();
    // Before the catalogs are looked at: a table made later, or a database, has nothing older.
    let mut oldest = db.horizon().floor();
    let catalogs = databases.catalogs()?;
    for catalog in &catalogs {
        for table in catalog.current().tables() {
            oldest = oldest.min(Xid::new(table.stats.relfrozenxid));
        }
    }
    if !db.status_reclaimable(oldest) {
        return Ok(());
    }
    let options = VacuumOptions {
        freeze: true,
        cancel: Some(cancel.clone()),
        ..VacuumOptions::default()
    };
    let own = catalogs.iter().flat_map(|catalog| {
        let tables = catalog.system_tables();
        tables.map(move |(_, table)| (table, Some(catalog)))
    });
    for (table, of) in own.chain([(databases.table(), None)]) {
        let txn = db.begin(Isolation::ReadCommitted)?;
        let (id, mode) = (table.def().id, TableLockMode::ShareUpdateExclusive);
        block_on(txn.lock_table(id, mode, WaitPolicy::Block))?;
        if of.is_some_and(|catalog| !databases.is_there(catalog.database_oid())) {
            // Dropped while the lock was waited for, with its files.
            continue;
        }
        let stats = table.vacuum(&options, &mut |_| {})?;
        match stats.oldest_xid {
            Some(left) => oldest = oldest.min(left),
            None => return Ok(()),
        }
    }
    db.truncate_status(oldest).or_else(|error| match error {
        EngineError::Cancelled => Ok(()),
        other => Err(other),
    })?;
    Ok(())
}
