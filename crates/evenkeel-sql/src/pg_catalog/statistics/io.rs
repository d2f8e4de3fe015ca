//! Reads and writes: who, what, why, how many and how long.

use std::time::Duration;

use evenkeel_storage::stats::{IoObject, IoStatsRow};

use super::moment;
use super::server::bytes;
use crate::error::SqlResult;
use crate::pg_catalog::rows::{Cell, Rows, number, text};
use crate::pg_catalog::view::CatalogView;
use crate::types::Datum;

fn millis(time: Duration) -> Datum {
    Datum::Float8(time.as_secs_f64() * 1000.0)
}

/// `pg_stat_io`: sessions' rows, and all that have counted something.
pub fn io(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(server) = &snapshot.instance else {
        return Ok(());
    };
    let (counted, reset) = server.io();
    for row in counted.iter().filter(|row| is_shown(row)) {
        let cells = io_cells(row).into_iter();
        rows.push(cells.chain([("stats_reset", moment(reset))]))?;
    }
    Ok(())
}

fn is_shown(row: &IoStatsRow) -> bool {
    let operations = [
        row.reads,
        row.writes,
        row.extends,
        row.fsyncs,
        row.writebacks,
    ];
    let pages = [row.hits, row.evictions, row.reuses];
    let always = row.object == IoObject::Relation
        && row.backend_type.name() == "client backend"
        && row.context.name() != "init";
    always || operations.iter().chain(&pages).any(|count| *count > 0)
}

fn io_cells(row: &IoStatsRow) -> Vec<Cell> {
    vec![
        ("backend_type", text(row.backend_type.name())),
        ("object", text(row.object.name())),
        ("context", text(row.context.name())),
        ("reads", number(row.reads)),
        ("read_bytes", bytes(row.read_bytes)),
        ("read_time", millis(row.read_time)),
        ("writes", number(row.writes)),
        ("write_bytes", bytes(row.write_bytes)),
        ("write_time", millis(row.write_time)),
        ("writebacks", number(row.writebacks)),
        ("writeback_time", millis(row.writeback_time)),
        ("extends", number(row.extends)),
        ("extend_bytes", bytes(row.extend_bytes)),
        ("extend_time", millis(row.extend_time)),
        ("hits", number(row.hits)),
        ("evictions", number(row.evictions)),
        ("reuses", number(row.reuses)),
        ("fsyncs", number(row.fsyncs)),
        ("fsync_time", millis(row.fsync_time)),
    ]
}

/// `evenkeel_io_latency`: how long operations on files have taken, in milliseconds.
pub fn latency(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(server) = &snapshot.instance else {
        return Ok(());
    };
    for kind in server.database().store().io_stats().latencies() {
        if kind.count() == 0 {
            continue;
        }
        rows.push([
            ("object", text(kind.object.name())),
            ("operation", text(kind.operation.name())),
            ("count", number(kind.count())),
            ("total_time", millis(kind.total)),
            ("longest_time", millis(kind.longest)),
            ("p50_time", millis(kind.quantile(0.5))),
            ("p99_time", millis(kind.quantile(0.99))),
        ])?;
    }
    Ok(())
}
