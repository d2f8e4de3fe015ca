//! A row that a concurrent transaction has changed, made again: the operators that made it run once
//! more over the rows that it was made from (`HeldRow`).

use evenkeel_engine::Tid;
use evenkeel_engine::heap::rows::RowHandle;
use evenkeel_planner::plan::{HeldRow, Node};
use evenkeel_planner::relation::Relation;
use evenkeel_types::Datum;

use crate::batch::Batch;
use crate::context::{Cx, Fixed};
use crate::error::{ExecError, ExecResult};
use crate::rows::tid_of;

/// The newest version of a row: which of the held rows, and where it is.
pub(crate) type Newest = (usize, Tid);

impl Cx {
    /// The row that `child` gives when the rows that `row` was made from are as they were, but for
    /// the newest versions of some; none if the conditions no longer hold.
    pub fn recheck(
        &self,
        child: &Node,
        held: &[HeldRow],
        row: &[Datum],
        newest: &[Newest],
    ) -> ExecResult<Option<Vec<Datum>>> {
        let mut fixed = Vec::with_capacity(held.len());
        for (number, held) in held.iter().enumerate() {
            let newer = newest.iter().find(|(of, _)| *of == number);
            let newer = newer.map(|(_, tid)| *tid);
            fixed.push((held.mark, self.fixed(held, row, newer)?));
        }
        let before = self.fixed_rows.replace(fixed);
        let params = self.save_params();
        let mut tree = (self.rebuild)(child, held)?;
        let mut found = None;
        let mut batch = Batch::default();
        tree.rescan(child, self)?;
        let read = |out: &mut Batch| tree.next(child, self, 1, out);
        self.drive(read, &mut batch, &mut |row| {
            found = Some(row.to_vec());
            Ok(false)
        })?;
        self.restore_params(params);
        self.fixed_rows.replace(before);
        Ok(found)
    }

    fn fixed(&self, held: &HeldRow, row: &[Datum], newer: Option<Tid>) -> ExecResult<Fixed> {
        let id = row.get(held.id).ok_or_else(beyond)?;
        if id.is_null() {
            return Ok(Fixed::Nothing);
        }
        let Some(relation) = &held.relation else {
            let columns = held.columns.iter();
            let values = columns.map(|slot| row.get(*slot).cloned().ok_or_else(beyond));
            return Ok(Fixed::Values(values.collect::<ExecResult<_>>()?));
        };
        let at = match newer {
            Some(at) => at,
            None => tid_of(id)?,
        };
        Ok(match self.version(relation, at)? {
            Some(bytes) => Fixed::Stored(at, bytes.into()),
            None => Fixed::Nothing,
        })
    }

    /// The version of a row at a place that the snapshot or a lock holds.
    pub fn version(&self, relation: &Relation, at: Tid) -> ExecResult<Option<Vec<u8>>> {
        let (table, _) = self.env.relations.table(relation)?;
        let row = table.fetch_locked(RowHandle::known(&self.env.snapshot, at))?;
        Ok(row.map(|row| row.bytes))
    }

    /// The row of an operator with this mark.
    pub fn fixed_row(&self, mark: usize) -> ExecResult<Fixed> {
        let rows = self.fixed_rows.borrow();
        let found = rows.iter().find(|(of, _)| *of == mark);
        let found = found.map(|(_, row)| row.clone());
        found.ok_or_else(|| ExecError::plan("a mark that nothing holds"))
    }
}

fn beyond() -> ExecError {
    ExecError::plan("a slot beyond its row")
}
