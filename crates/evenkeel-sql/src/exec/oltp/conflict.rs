//! INSERT … ON CONFLICT: what happens to a row when another with its key is in the way.

use std::collections::HashSet;

use evenkeel_engine::table::{Arbiter, Inserted, KeyHint, Modified};
use evenkeel_engine::{
    EngineError, Isolation, RowLockMode, Snapshot, Tid, Transaction, WaitPolicy,
};

use super::expr::{Env, RowExpr, RowRef, Typed};
use super::insert::{RowMaker, describe_violation};
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::row::RowLayout;

/// A compiled ON CONFLICT.
#[derive(Debug)]
pub struct OnConflict {
    /// The index that decides.
    pub arbiter: Arbiter,
    /// DO UPDATE; `None` for DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// DO UPDATE.
#[derive(Debug)]
pub struct ConflictUpdate {
    /// Columns and their new values, over both rows.
    pub assignments: Vec<(usize, Typed)>,
    /// WHERE, over both rows.
    pub condition: Option<RowExpr>,
    /// Whether index keys may change.
    pub hint: KeyHint,
    /// The row that is there, then the one that was to be inserted.
    pub both: RowLayout,
}

/// One statement's insertions.
pub struct Inserter<'a> {
    table: &'a TableInfo,
    conflict: &'a OnConflict,
    env: Env<'a>,
    snapshot: Snapshot,
    /// Rows that this statement has written: it may not change them again.
    written: HashSet<Tid>,
}

impl<'a> Inserter<'a> {
    /// For a statement that reads at `snapshot`.
    pub fn new(
        table: &'a TableInfo,
        conflict: &'a OnConflict,
        env: Env<'a>,
        snapshot: Snapshot,
    ) -> Inserter<'a> {
        Inserter {
            table,
            conflict,
            env,
            snapshot,
            written: HashSet::new(),
        }
    }

    /// Inserts the row in `maker`, or does what is to be done about the one in its way. Whether
    /// a row was written; it is then the one in `maker`.
    ///
    /// # Errors
    /// 23505 for another index than the one that decides, 21000 for a row of this statement,
    /// 40001 under REPEATABLE READ for a row that its snapshot does not see.
    pub async fn insert(
        &mut self,
        txn: &mut Transaction,
        maker: &mut RowMaker<'_>,
    ) -> SqlResult<bool> {
        let excluded = maker.bytes.clone();
        loop {
            let table = &self.table.table;
            let tried = table
                .insert_or_conflict(txn, &excluded, self.conflict.arbiter)
                .await;
            let tid = match tried {
                Ok(Inserted::Done(tid)) => {
                    self.written.insert(tid);
                    return Ok(true);
                }
                Ok(Inserted::Conflict { tid, .. }) => tid,
                Err(error) => return Err(self.describe(error, &excluded)),
            };
            self.check_seen(txn, tid)?;
            let Some(update) = &self.conflict.update else {
                return Ok(false);
            };
            if self.written.contains(&tid) {
                return Err(twice());
            }
            let mode = RowLockMode::Update;
            match table.lock_row(txn, tid, mode, WaitPolicy::Block).await? {
                Modified::Done(_) => {}
                Modified::SelfModified => return Err(twice()),
                // Its key may be another now: the index is asked again.
                Modified::Gone | Modified::Changed { .. } | Modified::Skipped => continue,
            }
            let Some(found) = table.fetch_locked(txn, tid)? else {
                continue;
            };
            if let Some(written) = self
                .update(txn, update, tid, &found.bytes, &excluded, maker)
                .await?
            {
                return Ok(written);
            }
        }
    }

    /// A fixed snapshot cannot act on a row that it does not see.
    fn check_seen(&self, txn: &Transaction, tid: Tid) -> SqlResult<()> {
        let fixed = txn.isolation() != Isolation::ReadCommitted;
        if fixed
            && !self.written.contains(&tid)
            && self.table.table.fetch(&self.snapshot, tid)?.is_none()
        {
            return Err(EngineError::SerializationFailure { what: "update" }.into());
        }
        Ok(())
    }

    /// Updates the row at `tid`, which is locked. `None` if it has gone nevertheless.
    async fn update(
        &mut self,
        txn: &mut Transaction,
        update: &ConflictUpdate,
        tid: Tid,
        found: &[u8],
        excluded: &[u8],
        maker: &mut RowMaker<'_>,
    ) -> SqlResult<Option<bool>> {
        let mut values = self.table.layout.decode(found)?;
        values.extend(self.table.layout.decode(excluded)?);
        let mut bytes = Vec::with_capacity(found.len() + excluded.len());
        update.both.encode(&values, &mut bytes)?;
        let both = RowRef {
            layout: &update.both,
            bytes: &bytes,
        };
        if let Some(condition) = &update.condition
            && !condition.holds(both, self.env)?
        {
            return Ok(Some(false));
        }
        maker.begin_from(found)?;
        for (column, value) in &update.assignments {
            let datum = value.eval(Some(both), self.env)?;
            maker.set(*column, datum, value.ty)?;
        }
        maker.finish()?;
        let new = &maker.bytes;
        match self.table.table.update(txn, tid, new, update.hint).await {
            Ok(Modified::Done(new)) => {
                self.written.insert(new);
                Ok(Some(true))
            }
            Ok(_) => Ok(None),
            Err(error) => Err(self.describe(error, new)),
        }
    }

    fn describe(&self, error: EngineError, row: &[u8]) -> SqlError {
        describe_violation(error, self.table, row, &self.env.cx.types)
    }
}

fn twice() -> SqlError {
    SqlError::new(
        SqlState::CARDINALITY_VIOLATION,
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
    )
    .hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate \
         constrained values.",
    )
}
