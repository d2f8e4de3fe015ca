//! Vacuums and analyzes that are running.

use super::tables::millis_of;
use crate::error::SqlResult;
use crate::pg_catalog::rows::{Cell, Rows, number, oid, text};
use crate::pg_catalog::view::CatalogView;

fn head(snapshot: &CatalogView, pid: i32, table: u64) -> Vec<Cell> {
    vec![
        ("pid", number(pid)),
        ("datid", oid(snapshot.database_oid())),
        ("datname", text(&snapshot.database)),
        ("relid", oid(u32::try_from(table).unwrap_or(0))),
    ]
}

/// `pg_stat_progress_vacuum`
pub fn vacuums(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(server) = &snapshot.instance else {
        return Ok(());
    };
    for vacuum in server.database().vacuums_in_progress() {
        let at = &vacuum.progress;
        let cells = [
            ("phase", text(at.phase.name())),
            ("heap_blks_total", number(at.heap_blks_total)),
            ("heap_blks_scanned", number(at.heap_blks_scanned)),
            ("heap_blks_vacuumed", number(at.heap_blks_vacuumed)),
            ("index_vacuum_count", number(at.index_vacuum_count)),
            ("max_dead_tuple_bytes", number(at.max_dead_tuple_bytes)),
            ("dead_tuple_bytes", number(at.dead_tuple_bytes)),
            ("num_dead_item_ids", number(at.num_dead_item_ids)),
            ("indexes_total", number(at.indexes_total)),
            ("indexes_processed", number(at.indexes_processed)),
            ("delay_time", millis_of(at.delay_time)),
        ];
        let head = head(snapshot, vacuum.pid, vacuum.table).into_iter();
        rows.push(head.chain(cells))?;
    }
    Ok(())
}

/// `pg_stat_progress_analyze`
pub fn analyzes(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(server) = &snapshot.instance else {
        return Ok(());
    };
    for analyze in server.database().analyzes_in_progress() {
        let at = &analyze.progress;
        let cells = [
            ("phase", text(at.phase.name())),
            ("sample_blks_total", number(at.sample_blks_total)),
            ("sample_blks_scanned", number(at.sample_blks_scanned)),
            ("ext_stats_total", number(0)),
            ("ext_stats_computed", number(0)),
            ("child_tables_total", number(0)),
            ("child_tables_done", number(0)),
            ("current_child_table_relid", oid(0)),
            ("delay_time", millis_of(at.delay_time)),
        ];
        let head = head(snapshot, analyze.pid, analyze.table).into_iter();
        rows.push(head.chain(cells))?;
    }
    Ok(())
}
