//! Writing a table's statistics, as a part of a transaction.

use std::sync::Arc;

use evenkeel_engine::Transaction;

use super::parts::TableParts;
use super::state::CatalogChange;
use super::statistics::{ColumnStats, RelationStats};
use super::system::table_row;
use super::{Catalog, DdlLog, TableInfo};
use crate::error::SqlResult;

/// New figures for a table; `None` leaves what is there.
#[derive(Debug, Clone, Default)]
pub struct StatisticsChange {
    /// Blocks, rows, all-visible and all-frozen blocks.
    pub figures: Option<(i32, f32, i32, i32)>,
    /// The oldest id left unfrozen.
    pub relfrozenxid: Option<u64>,
    /// Columns by position, with their new statistics.
    pub columns: Vec<(usize, ColumnStats)>,
}

impl Catalog {
    /// Writes what was found out about a table, as a part of the transaction. The caller has
    /// locked it so that nobody else does.
    ///
    /// # Errors
    /// The engine's.
    pub async fn set_statistics(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: &Arc<TableInfo>,
        change: StatisticsChange,
    ) -> SqlResult<Arc<TableInfo>> {
        let mut stats = RelationStats::clone(&table.stats);
        if let Some((pages, rows, visible, frozen)) = change.figures {
            stats.relpages = pages;
            stats.reltuples = rows;
            stats.relallvisible = visible;
            stats.relallfrozen = frozen;
        }
        // The newest freeze limit holds, in whatever order concurrent vacuums report theirs.
        stats.relfrozenxid = stats.relfrozenxid.max(change.relfrozenxid.unwrap_or(0));
        stats.columns.resize(table.columns.len(), None);
        for (at, mut new) in change.columns {
            if let Some(old) = &stats.columns[at] {
                self.tables.statistic.delete(txn, old.place).await?;
            }
            let column = &table.columns[at];
            let row = new.row(table.oid, column.attnum, column.ty);
            new.place = self.tables.statistic.insert(txn, &row).await?;
            stats.columns[at] = Some(Arc::new(new));
        }
        let mut parts = TableParts::of(table);
        parts.stats = Arc::new(stats);
        self.tables.class.delete(txn, parts.place).await?;
        let place = self.tables.class.insert(txn, &table_row(&parts)).await?;
        let known = Arc::new(TableInfo {
            stats: parts.stats,
            place,
            ..TableInfo::clone(table)
        });
        let put = CatalogChange::PutTable(Arc::clone(&known));
        ddl.push(txn, &self.shared, put);
        txn.next_command()?;
        Ok(known)
    }
}
