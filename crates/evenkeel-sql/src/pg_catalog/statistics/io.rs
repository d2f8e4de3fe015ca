//! Reads and writes: who, what, why, how many and how long.

use std::path::Path;
use std::time::Duration;

use evenkeel_storage::files::SEGMENT_BLOCKS;
use evenkeel_storage::page::PAGE_SIZE;
use evenkeel_storage::stats::{IoObject, IoStatsRow, IoUnderWay};

use super::moment;
use super::server::bytes;
use crate::error::SqlResult;
use crate::pg_catalog::rows::{Cell, Rows, flag, number, text};
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

/// `pg_aios`: reads and writes under way. The pid is NULL: storage reads and writes for whoever
/// needs it, and knows backends by their type.
pub fn under_way(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(server) = &snapshot.instance else {
        return Ok(());
    };
    let store = server.database().store();
    for io in store.io_stats().transfers() {
        rows.push(transfer_cells(&io, store.dir()))?;
    }
    Ok(())
}

fn transfer_cells(io: &IoUnderWay, dir: &Path) -> Vec<Cell> {
    let page = PAGE_SIZE as u64;
    let is_of_pages = matches!(io.object, IoObject::Relation | IoObject::TempRelation);
    vec![
        ("io_id", number(io.id)),
        ("io_generation", number(io.generation)),
        ("state", text("SUBMITTED")),
        ("operation", text(if io.reads { "readv" } else { "writev" })),
        ("off", number(io.offset)),
        ("length", number(io.len)),
        (
            "target",
            text(if is_of_pages {
                "smgr"
            } else {
                io.object.name()
            }),
        ),
        (
            "handle_data_len",
            number(if is_of_pages { io.len / page } else { 0 }),
        ),
        ("result", text("UNKNOWN")),
        ("target_desc", text(described(io, dir, is_of_pages))),
        ("f_sync", flag(!io.queued)),
        ("f_localmem", flag(io.object == IoObject::TempRelation)),
        ("f_buffered", flag(!io.direct)),
    ]
}

/// The blocks of a relation, as PostgreSQL counts them through its segments, or the file.
fn described(io: &IoUnderWay, dir: &Path, is_of_pages: bool) -> String {
    let path = io.path.strip_prefix(dir).unwrap_or(&io.path);
    let file = path.display().to_string();
    if !is_of_pages {
        return format!("file \"{file}\"");
    }
    let (file, segment) = match file.rsplit_once('.') {
        Some((relation, segment)) => (relation, segment.parse().unwrap_or(0)),
        None => (&*file, 0),
    };
    let page = PAGE_SIZE as u64;
    let first = segment * u64::from(SEGMENT_BLOCKS) + io.offset / page;
    match io.len.div_ceil(page) {
        0 | 1 => format!("block {first} in file \"{file}\""),
        blocks => format!("blocks {first}..{} in file \"{file}\"", first + blocks - 1),
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn transfers_are_described_as_postgresql_does() {
        let io = |path: &str, object, offset, len| IoUnderWay {
            id: 7,
            generation: 3,
            reads: true,
            path: Arc::from(Path::new(path)),
            object,
            offset,
            len,
            queued: true,
            direct: false,
        };
        let described = |io: &IoUnderWay, is_of_pages| described(io, Path::new("/d"), is_of_pages);
        let one = io("/d/base/16384", IoObject::Relation, 8192, 8192);
        assert_eq!(described(&one, true), "block 1 in file \"base/16384\"");
        let many = io("/d/base/16384_vm.2", IoObject::Relation, 81920, 32768);
        let expected = "blocks 262154..262157 in file \"base/16384_vm\"";
        assert_eq!(described(&many, true), expected);
        let log = io("/d/wal/0001.2", IoObject::Wal, 0, 512);
        assert_eq!(described(&log, false), "file \"wal/0001.2\"");
        let cells = transfer_cells(&many, Path::new("/d"));
        assert!(cells.contains(&("handle_data_len", number(4))));
        assert!(cells.contains(&("f_sync", flag(false))));
        assert!(cells.contains(&("f_buffered", flag(true))));
    }
}
