//! Statistics views of the server as a whole.

use std::time::Duration;

use evenkeel_engine::stats::TableStatistics;

use super::{millis, moment};
use crate::error::SqlResult;
use crate::instance::{Counted, Instance, Kind};
use crate::pg_catalog::rows::{Cell, Rows, number, oid, text};
use crate::pg_catalog::view::CatalogView;
use crate::types::{Datum, Numeric};

fn counted(snapshot: &CatalogView, kind: Kind) -> Option<Counted> {
    snapshot
        .instance
        .as_ref()
        .map(|server| server.counted(kind))
}

pub(super) fn bytes(count: u64) -> Datum {
    Datum::Numeric(Numeric::from_i128(i128::from(count), 0))
}

/// `pg_stat_checkpointer`
pub fn checkpointer(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(counted) = counted(snapshot, Kind::Checkpointer) else {
        return Ok(());
    };
    let [timed, requested, done, write, sync, buffers, status, ..] = counted.values;
    rows.push([
        ("num_timed", number(timed)),
        ("num_requested", number(requested)),
        ("num_done", number(done)),
        ("restartpoints_timed", number(0)),
        ("restartpoints_req", number(0)),
        ("restartpoints_done", number(0)),
        ("write_time", millis(write)),
        ("sync_time", millis(sync)),
        ("buffers_written", number(buffers)),
        // Transaction status is in the pool: its pages are among the buffers.
        ("slru_written", number(status)),
        ("stats_reset", moment(counted.reset)),
    ])
}

/// `evenkeel_checkpointer`: what PostgreSQL's view does not have; since the start, times in
/// milliseconds.
pub fn checkpoint_details(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(server) = &snapshot.instance else {
        return Ok(());
    };
    let stats = server.database().store().checkpoint_stats();
    let recovery = u64::try_from(stats.recovery_time().as_micros()).unwrap_or(u64::MAX);
    rows.push([
        ("num_failed", number(stats.num_failed)),
        ("home_writes", number(stats.home_writes)),
        ("files_synced", number(stats.files_synced)),
        ("area_full", number(stats.area_full)),
        ("unsynced_files", number(stats.unsynced_files)),
        ("syncs", number(stats.syncs)),
        ("longest_sync", millis(stats.longest_sync)),
        ("redo_distance", number(stats.redo_distance)),
        ("redo_speed", number(stats.redo_speed)),
        ("recovery_time", millis(recovery)),
        ("flush_time", millis(stats.flush_time)),
        ("flush_time_busy", millis(stats.flush_time_busy)),
        ("session_delays", number(stats.session_delays)),
        ("session_delay_time", millis(stats.session_delay_time)),
    ])
}

/// `evenkeel_damaged_pages`: the pages that are set aside as damaged.
pub fn damaged_pages(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(server) = &snapshot.instance else {
        return Ok(());
    };
    for damaged in server.database().store().damaged_pages() {
        let block = u64::from(damaged.page.block.0);
        rows.push([
            ("file", text(damaged.page.file.to_string())),
            ("fork", text(damaged.page.fork.to_string())),
            ("block", number(block)),
            ("lsn", text(damaged.lsn.to_string())),
            ("reason", text(&damaged.reason)),
            ("side_file", text(damaged.side_file.display().to_string())),
        ])?;
    }
    Ok(())
}

/// `pg_stat_bgwriter`
pub fn cleaner(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(counted) = counted(snapshot, Kind::Cleaner) else {
        return Ok(());
    };
    let [clean, taken, ..] = counted.values;
    rows.push([
        ("buffers_clean", number(clean)),
        // The cleaner's rounds have no upper limit.
        ("maxwritten_clean", number(0)),
        ("buffers_alloc", number(taken)),
        ("stats_reset", moment(counted.reset)),
    ])
}

/// `evenkeel_buffers`: the pool now, and who had to wait for it since the start, in milliseconds.
pub fn buffers(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(server) = &snapshot.instance else {
        return Ok(());
    };
    let stats = server.database().pool().census();
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    rows.push([
        ("buffers", number(stats.frames)),
        ("buffers_free", number(stats.free)),
        ("buffers_dirty", number(stats.dirty)),
        ("foreground_waits", number(stats.foreground_waits)),
        ("foreground_evictions", number(stats.foreground_evictions)),
        ("ring_waits", number(stats.ring_waits)),
        ("ring_wait_time", millis(micros(stats.ring_wait_time))),
        (
            "ring_wait_log_time",
            millis(micros(stats.ring_wait_log_time)),
        ),
        ("prefetched", number(stats.prefetched)),
    ])
}

/// `pg_stat_wal`
pub fn log(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(counted) = counted(snapshot, Kind::Log) else {
        return Ok(());
    };
    let [volume, full, ..] = counted.values;
    rows.push([
        ("wal_bytes", bytes(volume)),
        ("wal_buffers_full", number(full)),
        ("stats_reset", moment(counted.reset)),
    ])
}

/// `pg_stat_recovery`: how far the recovery is that this start began.
pub fn recovery(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(server) = &snapshot.instance else {
        return Ok(());
    };
    let stats = server.database().store().recovery_stats();
    let time = |time: Duration| Datum::Float8(time.as_secs_f64() * 1e3);
    let left = stats.pages.saturating_sub(stats.pages_done);
    let share = match stats.pages {
        0 => 1.0,
        pages => stats.pages_done as f64 / pages as f64,
    };
    let redo = stats.redo_time.as_secs_f64();
    let rate = Datum::Float8(stats.pages_done as f64 / redo.max(1e-6));
    let time_left = if stats.is_done {
        Datum::Float8(0.0)
    } else if stats.pages_done == 0 {
        Datum::Null
    } else {
        Datum::Float8(redo * 1e3 * (1.0 - share) / share)
    };
    rows.push([
        ("phase", text(if stats.is_done { "done" } else { "redo" })),
        ("redo_start_lsn", text(stats.redo_start.to_string())),
        ("redo_end_lsn", text(stats.redo_end.to_string())),
        ("records", number(stats.records)),
        ("pages_total", number(stats.pages)),
        ("pages_done", number(stats.pages_done)),
        ("pages_left", number(left)),
        ("pages_home", number(stats.home)),
        ("share_done", Datum::Float8(share)),
        ("changes_applied", number(stats.applied)),
        ("changes_skipped", number(stats.skipped)),
        ("pages_set_aside", number(stats.set_aside)),
        ("pages_per_second", rate),
        ("analysis_time", time(stats.scan_time)),
        ("open_time", time(stats.open_time)),
        ("redo_time", time(stats.redo_time)),
        ("time_left", time_left),
    ])
}

/// `pg_stat_recovery_prefetch`: what the recovery that this start began has read.
pub fn recovery_prefetch(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(counted) = counted(snapshot, Kind::RecoveryPrefetch) else {
        return Ok(());
    };
    let [prefetch, hit, init, new, fpw, rep, ..] = counted.values;
    rows.push([
        ("stats_reset", moment(counted.reset)),
        ("prefetch", number(prefetch)),
        ("hit", number(hit)),
        ("skip_init", number(init)),
        ("skip_new", number(new)),
        ("skip_fpw", number(fpw)),
        ("skip_rep", number(rep)),
        // Recovery is over once there are sessions to ask.
        ("wal_distance", Datum::Int4(0)),
        ("block_distance", Datum::Int4(0)),
        ("io_depth", Datum::Int4(0)),
    ])
}

/// `pg_stat_database`: the instance's counters stand in the row of the session's database. Of the
/// others it is known how many sessions they have.
pub fn database(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(instance) = &snapshot.instance else {
        return Ok(());
    };
    for info in instance.databases().list() {
        let own = info.oid == snapshot.database_oid();
        let mut cells = match own {
            true => database_cells(snapshot, instance),
            false => Vec::new(),
        };
        let backends = instance.backends().list().into_iter();
        let backends = backends.filter(|backend| backend.database_oid == info.oid);
        cells.extend([
            ("datid", oid(info.oid)),
            ("datname", text(&*info.name)),
            ("numbackends", number(backends.count() as u64)),
        ]);
        rows.push(cells)?;
    }
    Ok(())
}

fn database_cells(snapshot: &CatalogView, instance: &Instance) -> Vec<Cell> {
    let counted = instance.counted(Kind::Database);
    let [commits, rollbacks, deadlocks, hits, reads, ..] = counted.values;
    let times = instance.backends().times(snapshot.statement_ts);
    let tables = snapshot.tables.iter();
    let tables: Vec<_> = tables
        .map(|table| instance.table(snapshot.table_id(table.oid)))
        .collect();
    let sum = |count: fn(&TableStatistics) -> u64| number(tables.iter().map(count).sum::<u64>());
    vec![
        ("tup_returned", sum(|t| t.seq_tup_read + t.idx_tup_fetch)),
        ("tup_fetched", sum(|t| t.idx_tup_fetch)),
        ("tup_inserted", sum(|t| t.n_tup_ins)),
        ("tup_updated", sum(|t| t.n_tup_upd)),
        ("tup_deleted", sum(|t| t.n_tup_del)),
        ("xact_commit", number(commits)),
        ("xact_rollback", number(rollbacks)),
        ("blks_read", number(reads)),
        ("blks_hit", number(hits)),
        ("conflicts", number(0)),
        ("temp_files", number(0)),
        ("temp_bytes", number(0)),
        ("deadlocks", number(deadlocks)),
        ("blk_read_time", millis(0)),
        ("blk_write_time", millis(0)),
        ("session_time", millis(times.session)),
        ("active_time", millis(times.active)),
        ("idle_in_transaction_time", millis(times.in_block)),
        ("sessions", number(times.sessions)),
        ("sessions_killed", number(times.killed)),
        ("parallel_workers_to_launch", number(0)),
        ("parallel_workers_launched", number(0)),
        ("stats_reset", moment(counted.reset)),
    ]
}

/// `pg_stat_database_conflicts`: there is no recovery for queries to be in conflict with.
pub fn conflicts(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let none = [
        "confl_tablespace",
        "confl_lock",
        "confl_snapshot",
        "confl_bufferpin",
        "confl_deadlock",
        "confl_active_logicalslot",
    ];
    let Some(instance) = &snapshot.instance else {
        return Ok(());
    };
    for info in instance.databases().list() {
        let none = none.into_iter().map(|name| (name, number(0)));
        rows.push(none.chain([("datid", oid(info.oid)), ("datname", text(&*info.name))]))?;
    }
    Ok(())
}

/// `pg_stat_archiver`: nothing is archived.
pub fn archiver(_: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    rows.push([("archived_count", number(0)), ("failed_count", number(0))])
}

/// `pg_stat_slru`: the transaction status. Its pages are in the buffer pool like all others and
/// are counted there, so that here only the name is left.
pub fn status_pages(_: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let zero = [
        "blks_zeroed",
        "blks_hit",
        "blks_read",
        "blks_written",
        "blks_exists",
        "flushes",
        "truncates",
    ];
    let zero = zero.into_iter().map(|name| (name, number(0)));
    rows.push(zero.chain([("name", text("transaction"))]))
}
