//! Statistics views of tables and indexes.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::FileId;
use evenkeel_engine::stats::TableStatistics;
use evenkeel_storage::Fork;

use super::moment;
use crate::catalog::TableInfo;
use crate::error::SqlResult;
use crate::pg_catalog::rows::{Cell, Rows, number, oid, text};
use crate::pg_catalog::view::{CatalogView, Index, Table};
use crate::types::Datum;

fn table_cells(table: &Table) -> Vec<Cell> {
    vec![
        ("relid", oid(table.oid)),
        ("schemaname", text(&*table.schema)),
        ("relname", text(&*table.name)),
    ]
}

fn index_cells(table: &Table, index: &Index) -> Vec<Cell> {
    let mut cells = table_cells(table);
    cells.push(("indexrelid", oid(index.oid)));
    cells.push(("indexrelname", text(&*index.name)));
    cells
}

/// A time span in milliseconds.
pub fn millis_of(span: Duration) -> Datum {
    Datum::Float8(span.as_secs_f64() * 1000.0)
}

/// `pg_stat_all_tables`, `pg_stat_user_tables`
pub fn tables(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        let counted = snapshot
            .instance
            .as_ref()
            .map(|server| server.table(snapshot.table_id(table.oid)));
        let mut cells = table_cells(table);
        cells.extend(counted.iter().flat_map(counted_cells));
        rows.push(cells)?;
    }
    Ok(())
}

fn counted_cells(table: &TableStatistics) -> Vec<Cell> {
    let at = |time: Option<u64>| moment(time.and_then(|micros| i64::try_from(micros).ok()));
    vec![
        ("seq_scan", number(table.seq_scan)),
        ("seq_tup_read", number(table.seq_tup_read)),
        ("idx_scan", number(table.idx_scan)),
        ("idx_tup_fetch", number(table.idx_tup_fetch)),
        ("n_tup_ins", number(table.n_tup_ins)),
        ("n_tup_upd", number(table.n_tup_upd)),
        ("n_tup_del", number(table.n_tup_del)),
        ("n_tup_hot_upd", number(table.n_tup_hot_upd)),
        ("n_tup_newpage_upd", number(table.n_tup_newpage_upd)),
        ("n_live_tup", number(table.n_live_tup)),
        ("n_dead_tup", number(table.n_dead_tup)),
        ("n_mod_since_analyze", number(table.n_mod_since_analyze)),
        ("n_ins_since_vacuum", number(table.n_ins_since_vacuum)),
        ("last_vacuum", at(table.last_vacuum)),
        ("last_autovacuum", at(table.last_autovacuum)),
        ("last_analyze", at(table.last_analyze)),
        ("last_autoanalyze", at(table.last_autoanalyze)),
        ("vacuum_count", number(table.vacuum_count)),
        ("autovacuum_count", number(table.autovacuum_count)),
        ("analyze_count", number(table.analyze_count)),
        ("autoanalyze_count", number(table.autoanalyze_count)),
        ("total_vacuum_time", millis_of(table.total_vacuum_time)),
        (
            "total_autovacuum_time",
            millis_of(table.total_autovacuum_time),
        ),
        ("total_analyze_time", millis_of(table.total_analyze_time)),
        (
            "total_autoanalyze_time",
            millis_of(table.total_autoanalyze_time),
        ),
    ]
}

/// `pg_stat_all_indexes`, `pg_stat_user_indexes`
pub fn indexes(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for index in &table.indexes {
            rows.push(index_cells(table, index))?;
        }
    }
    Ok(())
}

/// Pages found in the pool and pages read, of the main fork of a file.
fn pages(snapshot: &CatalogView, file: FileId) -> (Datum, Datum) {
    let pool = snapshot
        .instance
        .as_ref()
        .map(|server| server.database().pool());
    let fork = pool.and_then(|pool| pool.fork(file, Fork::Main).ok());
    match fork {
        Some(fork) => {
            let stats = fork.stats();
            (number(stats.hits), number(stats.reads))
        }
        None => (number(0), number(0)),
    }
}

/// The definition with the files.
fn definition(snapshot: &CatalogView, table: &Table) -> Option<Arc<TableInfo>> {
    let catalog = snapshot.catalog.as_ref()?;
    catalog.table(table.oid).cloned()
}

/// `pg_statio_all_tables`, `pg_statio_user_tables`
pub fn table_io(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        let Some(definition) = definition(snapshot, table) else {
            continue;
        };
        let (hits, reads) = pages(snapshot, definition.heap);
        let mut cells = table_cells(table);
        cells.push(("heap_blks_hit", hits));
        cells.push(("heap_blks_read", reads));
        if !definition.indexes.is_empty() {
            let mut sums = [0, 0];
            for index in &definition.indexes {
                let (hits, reads) = pages(snapshot, index.file);
                for (sum, pages) in sums.iter_mut().zip([hits, reads]) {
                    if let Datum::Int8(pages) = pages {
                        *sum += pages;
                    }
                }
            }
            cells.push(("idx_blks_hit", number(sums[0])));
            cells.push(("idx_blks_read", number(sums[1])));
        }
        rows.push(cells)?;
    }
    Ok(())
}

/// `pg_statio_all_indexes`, `pg_statio_user_indexes`
pub fn index_io(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        let Some(definition) = definition(snapshot, table) else {
            continue;
        };
        for index in &table.indexes {
            let Some(info) = definition.indexes.iter().find(|info| info.oid == index.oid) else {
                continue;
            };
            let (hits, reads) = pages(snapshot, info.file);
            let cells = index_cells(table, index).into_iter();
            rows.push(cells.chain([("idx_blks_hit", hits), ("idx_blks_read", reads)]))?;
        }
    }
    Ok(())
}
