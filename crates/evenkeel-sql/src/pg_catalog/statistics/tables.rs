//! What has been counted of each table and index.

use crate::error::SqlResult;
use crate::pg_catalog::rows::{Cell, Rows, oid, text};
use crate::pg_catalog::snapshot::{Index, Snapshot, Table};

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

/// `pg_stat_all_tables`, `pg_stat_user_tables`
pub fn tables(snapshot: &Snapshot, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        rows.push(table_cells(table))?;
    }
    Ok(())
}

/// `pg_stat_all_indexes`, `pg_stat_user_indexes`
pub fn indexes(snapshot: &Snapshot, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for index in &table.indexes {
            rows.push(index_cells(table, index))?;
        }
    }
    Ok(())
}

/// `pg_statio_all_tables`, `pg_statio_user_tables`
pub fn table_io(snapshot: &Snapshot, rows: &mut Rows) -> SqlResult<()> {
    tables(snapshot, rows)
}

/// `pg_statio_all_indexes`, `pg_statio_user_indexes`
pub fn index_io(snapshot: &Snapshot, rows: &mut Rows) -> SqlResult<()> {
    indexes(snapshot, rows)
}
