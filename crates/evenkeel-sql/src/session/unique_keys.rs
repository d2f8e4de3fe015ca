//! Deferrable unique constraints at work: keys that other rows may have are looked at again
//! (FK-4).

use std::sync::Arc;

use evenkeel_engine::{Doubt, TableLockMode, WaitPolicy};
use evenkeel_exec::RowEvent;

use super::Session;
use crate::catalog::{IndexInfo, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};

impl Session {
    /// Looks at the key of a row that was stored beside another one's.
    ///
    /// # Errors
    /// 23505; those of waiting for the other row's transaction.
    pub(super) async fn check_unique(&mut self, event: RowEvent) -> SqlResult<()> {
        let Some((table, index)) = self.keyed_table(event).await? else {
            return Ok(());
        };
        let Some(tid) = event.new else {
            return Ok(());
        };
        let doubt = Doubt {
            index: index.position,
            tid,
        };
        let txn = self.tx.txn()?;
        txn.begin_statement()?;
        match table.table.recheck_unique(txn, doubt).await? {
            None => Ok(()),
            Some(row) => Err(self.duplicate_key(&table, &index, &row)?),
        }
    }

    /// The table and the index of an event, the table locked; none if the constraint is gone.
    async fn keyed_table(
        &mut self,
        event: RowEvent,
    ) -> SqlResult<Option<(Arc<TableInfo>, Arc<IndexInfo>)>> {
        loop {
            let view = self.view();
            let Some((table, index, _)) = view.unique_key(event.key) else {
                return Ok(None);
            };
            let (lock, mode) = (table.lock_id(), TableLockMode::RowExclusive);
            let txn = self.tx.txn()?;
            txn.lock_table(lock, mode, WaitPolicy::Block).await?;
            if self.view().version == view.version {
                return Ok(Some((Arc::clone(table), Arc::clone(index))));
            }
        }
    }

    fn duplicate_key(
        &self,
        table: &TableInfo,
        index: &IndexInfo,
        row: &[u8],
    ) -> SqlResult<SqlError> {
        let message = format!(
            "duplicate key value violates unique constraint \"{}\"",
            index.name
        );
        let error = SqlError::new(SqlState::UNIQUE_VIOLATION, message)
            .table(&*table.schema, &*table.name)
            .constraint(&*index.name);
        let key = index.described(&table.columns, row, &self.types_now())?;
        Ok(match key {
            Some(key) => error.detail(format!("{key} already exists.")),
            None => error,
        })
    }
}
