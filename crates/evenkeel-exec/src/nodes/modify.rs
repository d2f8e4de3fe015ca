//! INSERT, UPDATE, DELETE and MERGE. A row that a concurrent transaction has changed is made again
//! from its newest version; one that this command has changed already stays as it is.

use evenkeel_engine::table::Arbiter;
use evenkeel_engine::{RowLockMode, Tid, WaitPolicy};
use evenkeel_planner::plan::{HeldRow, Merge, Node, OnConflict, RowChange, Side};
use evenkeel_planner::relation::{Index, Relation, SystemColumn};
use evenkeel_types::row::Kept;
use evenkeel_types::{Datum, SqlState, TypeError};

use super::changed::{Changed, changed_within, cross_check, has_events, hint_of, note, there};
use super::insert_many::InsertMany;
use super::merge::Merging;
use crate::batch::Batch;
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::new_row::{Rules, Stored, refused};
use crate::rows::{SystemValues, tid_of};
use crate::writer::{Write, Written};

/// A row of the child on its way into the table.
#[derive(Default)]
struct Current {
    row: Vec<Datum>,
    /// The version to change.
    at: Option<Tid>,
    old: Vec<Datum>,
    new: Vec<Datum>,
    /// The row that was to be inserted, where that may be in conflict.
    excluded: Vec<Datum>,
    step: ConflictStep,
    waiting: bool,
    /// Where the last write has put the row.
    placed: Option<Tid>,
}

/// The steps of an insert that may be in conflict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ConflictStep {
    /// The row is inserted, unless another is in its way.
    #[default]
    Insert,
    /// The one in its way is locked.
    Lock,
    /// It is updated.
    Update,
}

/// A row that the command itself has written is in the way.
fn twice() -> ExecError {
    TypeError::new(
        SqlState::CARDINALITY_VIOLATION,
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
    )
    .hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate \
         constrained values.",
    )
    .into()
}

pub(crate) struct Modify {
    child: Child,
    rows: Batch,
    at: usize,
    stored: Option<Stored>,
    current: Option<Current>,
    /// The row of MERGE that is begun.
    merging: Option<Merging>,
    many: InsertMany,
}

fn place(change: &RowChange) -> Option<usize> {
    match change {
        RowChange::Insert { .. } | RowChange::Merge(_) => None,
        RowChange::Update { row, .. } | RowChange::Delete { row } => Some(*row),
    }
}

/// Where a row in the way is no error.
fn arbiter(conflict: &OnConflict, relation: &Relation) -> ExecResult<Arbiter> {
    let Some(number) = conflict.arbiter else {
        return Ok(Arbiter::Any);
    };
    let index = relation.indexes.get(number);
    let index = index.ok_or_else(|| ExecError::plan("an index that is not there"))?;
    Ok(Arbiter::Index(index.position))
}

/// The lock of a row that is in the way of an insert: that of the update which assigns to it, as
/// far as its columns say.
fn conflict_mode(change: &RowChange, relation: &Relation) -> RowLockMode {
    let RowChange::Insert {
        conflict: Some(conflict),
    } = change
    else {
        return RowLockMode::Update;
    };
    let indexes = relation.indexes.iter();
    let keys = indexes.filter(|index| index.is_proof() && index.is_plain());
    let mut keys = keys.flat_map(Index::looks_at);
    let set = conflict.update.iter().flat_map(|update| &update.set);
    let set: Vec<usize> = set.map(|(column, _)| *column).collect();
    match keys.any(|key| set.contains(&key)) {
        true => RowLockMode::Update,
        false => RowLockMode::NoKeyUpdate,
    }
}

impl Current {
    fn new(row: Vec<Datum>, change: &RowChange) -> ExecResult<Current> {
        let at = match place(change) {
            Some(slot) => {
                let id = row.get(slot);
                let id = id.ok_or_else(|| ExecError::plan("a slot beyond its row"))?;
                Some(tid_of(id)?)
            }
            None => None,
        };
        Ok(Current {
            row,
            at,
            ..Current::default()
        })
    }

    fn version(&self) -> ExecResult<Tid> {
        self.at.ok_or_else(|| ExecError::plan("no row to change"))
    }

    /// Makes the write; none if the version is no longer there.
    fn write(
        &mut self,
        (change, rules): (&RowChange, Rules<'_>),
        stored: &Stored,
        returns: bool,
        cx: &Cx,
    ) -> ExecResult<Option<Write>> {
        let relation = rules.relation;
        let width = relation.columns.len();
        cross_check(self.at, stored, cx)?;
        let mut version = Vec::new();
        if returns || matches!(change, RowChange::Update { .. }) {
            self.old = match self.at {
                Some(at) => {
                    let Some(bytes) = cx.version(relation, at)? else {
                        return Ok(None);
                    };
                    version = bytes;
                    let all = returns || !rules.checks.is_empty() || !rules.generated.is_empty();
                    let wanted = |column| all || relation.is_keyed(column);
                    stored.decode(&version, wanted, cx)?
                }
                None => vec![Datum::Null; width],
            };
        }
        let values = |count: usize| {
            let values = self.row.get(..count);
            values.ok_or_else(|| ExecError::plan("a row with too few columns"))
        };
        Ok(Some(match change {
            RowChange::Insert { conflict } => {
                self.new = values(width)?.to_vec();
                let row = stored.encode(rules, (&mut self.new, None), cx)?;
                let arbiter = match conflict {
                    None => None,
                    Some(conflict) => Some(arbiter(conflict, relation)?),
                };
                Write::Insert { row, arbiter }
            }
            RowChange::Update { columns, .. } => {
                let values = values(columns.len())?;
                self.new.clone_from(&self.old);
                for (column, value) in columns.iter().zip(values) {
                    let slot = self.new.get_mut(*column);
                    *slot.ok_or_else(|| ExecError::plan("a column that is not there"))? =
                        value.clone();
                }
                let old = Kept {
                    row: &version,
                    assigned: columns,
                };
                Write::Update {
                    at: self.version()?,
                    row: stored.encode(rules, (&mut self.new, Some(old)), cx)?,
                    hint: hint_of(columns, rules, stored),
                }
            }
            RowChange::Delete { .. } => {
                if returns {
                    self.new = vec![Datum::Null; width];
                }
                Write::Delete {
                    at: self.version()?,
                }
            }
            RowChange::Merge(_) => return Err(ExecError::plan("MERGE has rows of its own")),
        }))
    }

    /// Makes the update of the row that was in the way; none if it is not wanted.
    fn conflict_update(
        &mut self,
        (conflict, rules): (&OnConflict, Rules<'_>),
        stored: &Stored,
        cx: &Cx,
    ) -> ExecResult<Option<Write>> {
        let at = self.version()?;
        let (Some(update), Some(bytes)) = (&conflict.update, cx.version(rules.relation, at)?)
        else {
            return Ok(None);
        };
        self.old = stored.decode(&bytes, |_| true, cx)?;
        let mut both = self.old.clone();
        both.extend_from_slice(&self.excluded);
        let mut values = SystemValues::new(&stored.table, at);
        for column in &update.system {
            both.push(values.get(*column, cx)?);
        }
        if !cx.holds(&update.filter, &both)? {
            return Ok(None);
        }
        self.new.clone_from(&self.old);
        for (column, value) in &update.set {
            let slot = self.new.get_mut(*column);
            *slot.ok_or_else(|| ExecError::plan("a column that is not there"))? =
                cx.eval(value, &both)?;
        }
        let columns: Vec<usize> = update.set.iter().map(|(column, _)| *column).collect();
        let old = Kept {
            row: &bytes,
            assigned: &columns,
        };
        Ok(Some(Write::Update {
            at,
            row: stored.encode(rules, (&mut self.new, Some(old)), cx)?,
            hint: hint_of(&columns, rules, stored),
        }))
    }

    /// Goes on with an insert that may be in conflict.
    fn conflict(&mut self, conflict: &OnConflict, written: Written) -> ExecResult<Changed> {
        Ok(match (self.step, written) {
            (ConflictStep::Insert | ConflictStep::Update, Written::Done(_)) => Changed::Done,
            (ConflictStep::Insert, Written::Conflict { .. }) if conflict.update.is_none() => {
                Changed::Not
            }
            (
                ConflictStep::Insert,
                Written::Conflict {
                    at,
                    by_this_command: false,
                },
            ) => {
                self.excluded = std::mem::take(&mut self.new);
                self.at = Some(at);
                self.step = ConflictStep::Lock;
                Changed::Again
            }
            (ConflictStep::Insert, Written::Conflict { .. })
            | (_, Written::SelfModified { .. }) => return Err(twice()),
            (ConflictStep::Lock, Written::Done(_)) => {
                self.step = ConflictStep::Update;
                Changed::Again
            }
            // Its key may be another now: the index is asked again.
            _ => {
                self.at = None;
                self.step = ConflictStep::Insert;
                Changed::Again
            }
        })
    }

    /// The write of the step that the row is at; none if there is nothing to do.
    fn next_write(
        &mut self,
        (change, rules): (&RowChange, Rules<'_>),
        stored: &Stored,
        returns: bool,
        cx: &Cx,
    ) -> ExecResult<Option<Write>> {
        match (self.step, change) {
            (ConflictStep::Lock, _) => Ok(Some(Write::Lock {
                at: self.version()?,
                mode: conflict_mode(change, rules.relation),
                policy: WaitPolicy::Block,
            })),
            (
                ConflictStep::Update,
                RowChange::Insert {
                    conflict: Some(conflict),
                },
            ) => self.conflict_update((conflict, rules), stored, cx),
            _ => self.write((change, rules), stored, returns, cx),
        }
    }

    /// Goes on with the row.
    fn go_on(&mut self, node: &Node, stored: &Stored, cx: &Cx) -> ExecResult<Changed> {
        kind!(
            node,
            ModifyTable {
                child,
                relation,
                change,
                held
            }
        );
        let rules = Rules::of(node)?;
        let written = if self.waiting {
            cx.resume_write()
        } else {
            let returns = node.project.is_some();
            let write = self.next_write((change, rules), stored, returns, cx)?;
            match write {
                Some(write) => cx.write(&stored.table, write),
                None => return Ok(Changed::Not),
            }
        };
        let written = written.map_err(|error| refused(error, relation, &self.new, cx))?;
        self.waiting = written.is_none();
        if let Some(Written::Done(at)) = written {
            self.placed = Some(at);
        }
        if let (
            Some(written),
            RowChange::Insert {
                conflict: Some(conflict),
            },
        ) = (written, change)
        {
            return self.conflict(conflict, written);
        }
        Ok(match written {
            None => Changed::Waits,
            Some(Written::Done(_)) => Changed::Done,
            Some(Written::SelfModified {
                by_another_command: true,
            }) => {
                return Err(changed_within(match change {
                    RowChange::Delete { .. } => "deleted",
                    _ => "updated",
                }));
            }
            Some(Written::Changed(newest)) => {
                match self.again(change, (child, held), newest, cx)? {
                    true => Changed::Again,
                    false => Changed::Not,
                }
            }
            Some(
                Written::SelfModified { .. }
                | Written::Gone
                | Written::Skipped
                | Written::Conflict { .. },
            ) => Changed::Not,
        })
    }

    /// Adds to a row of RETURNING the system columns that it looks at, as the change leaves them.
    fn give_system(
        &self,
        (system, deleted): (&[(Side, SystemColumn)], bool),
        stored: &Stored,
        cx: &Cx,
        out: &mut Batch,
    ) -> ExecResult<()> {
        let values = |at: Option<Tid>| at.map(|at| SystemValues::new(&stored.table, at));
        let mut old = values(self.at);
        let mut new = values(self.placed.filter(|_| !deleted));
        for (side, column) in system {
            let values = match side {
                Side::Old => &mut old,
                Side::New => &mut new,
            };
            let column = match (column, side) {
                // The row in the way was locked before it was updated, and PostgreSQL keeps the
                // lock with the new version: its `xmax` tells an update from an insert.
                (SystemColumn::Xmax, Side::New) if self.step == ConflictStep::Update => {
                    SystemColumn::Xmin
                }
                (column, _) => *column,
            };
            out.push_value(match values {
                Some(values) => values.get(column, cx)?,
                None => Datum::Null,
            });
        }
        Ok(())
    }

    /// Notes the change, which is done, for the constraints that it concerns.
    fn note(
        &self,
        change: &RowChange,
        relation: &Relation,
        stored: &Stored,
        cx: &Cx,
    ) -> ExecResult<()> {
        if !has_events(relation) {
            return Ok(());
        }
        let old = self.at.map(|at| (at, &*self.old));
        let new = match change {
            RowChange::Delete { .. } => None,
            _ => self.placed.map(|at| (at, &*self.new)),
        };
        note(relation, stored, (old, new), cx)
    }

    /// Makes the row again from the newest version of the one to change.
    fn again(
        &mut self,
        change: &RowChange,
        (child, held): (&Node, &[HeldRow]),
        newest: Tid,
        cx: &Cx,
    ) -> ExecResult<bool> {
        let place = place(change);
        let target = held.iter().position(|held| Some(held.id) == place);
        let target = target.ok_or_else(|| ExecError::plan("a row to change that is not held"))?;
        let made = cx.recheck(child, held, &self.row, &[(target, newest)])?;
        let Some(row) = made else {
            return Ok(false);
        };
        self.row = row;
        self.at = Some(newest);
        Ok(true)
    }
}

impl Modify {
    pub fn new(child: Child) -> Modify {
        Modify {
            child,
            rows: Batch::default(),
            at: 0,
            stored: None,
            current: None,
            merging: None,
            many: InsertMany::default(),
        }
    }

    /// The row at hand: one that is begun, or the child's next; none where the child's batch is
    /// used up.
    fn take_row(&mut self, change: &RowChange) -> ExecResult<Option<Current>> {
        if let Some(current) = self.current.take() {
            return Ok(Some(current));
        }
        let row = self.next_row();
        row.map(|row| Current::new(row, change)).transpose()
    }

    fn next_row(&mut self) -> Option<Vec<Datum>> {
        if self.at >= self.rows.len() {
            return None;
        }
        let row = self.rows.row_mut(self.at);
        self.at += 1;
        Some(row.iter_mut().map(crate::batch::take).collect())
    }

    /// As [`Modify::change_all`], for MERGE.
    fn merge_all(
        &mut self,
        (node, merge): (&Node, &Merge),
        (stored, cx): (&Stored, &Cx),
        most: usize,
        out: &mut Batch,
    ) -> ExecResult<bool> {
        while !out.is_full(most) {
            let mut merging = match self.merging.take() {
                Some(merging) => merging,
                None => match self.next_row() {
                    Some(row) => Merging::new(row, merge)?,
                    None => break,
                },
            };
            match merging.go_on(node, stored, cx)? {
                Changed::Waits => {
                    self.merging = Some(merging);
                    return Ok(false);
                }
                Changed::Again => self.merging = Some(merging),
                Changed::Not => {}
                Changed::Done => {
                    if node.project.is_some() {
                        merging.give(out);
                    }
                    if merging.goes_on() {
                        self.merging = Some(merging);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Changes the table by the rows at hand; false when it waits.
    fn change_all(
        &mut self,
        node: &Node,
        cx: &Cx,
        most: usize,
        out: &mut Batch,
    ) -> ExecResult<bool> {
        kind!(
            node,
            ModifyTable {
                relation,
                change,
                system
            }
        );
        let stored = match &self.stored {
            Some(stored) => stored.clone(),
            None => self.stored.insert(Stored::open(relation, cx)?).clone(),
        };
        if let RowChange::Merge(merge) = change {
            return self.merge_all((node, merge), (&stored, cx), most, out);
        }
        if InsertMany::suits(node, &self.rows) {
            let rows = (&mut self.rows, &mut self.at);
            return self.many.go_on(node, &stored, rows, cx);
        }
        while !out.is_full(most)
            && let Some(mut current) = self.take_row(change)?
        {
            match current.go_on(node, &stored, cx)? {
                Changed::Waits => {
                    self.current = Some(current);
                    return Ok(false);
                }
                Changed::Again => self.current = Some(current),
                Changed::Not => {}
                Changed::Done => {
                    cx.count_change(node);
                    current.note(change, relation, &stored, cx)?;
                    if node.project.is_some() {
                        let deleted = matches!(change, RowChange::Delete { .. });
                        let (before, after) = (there(current.at.is_some()), there(!deleted));
                        let columns = [&mut current.row, &mut current.old, &mut current.new];
                        let columns = columns.into_iter().flat_map(std::mem::take);
                        columns
                            .chain([before, after])
                            .for_each(|v| out.push_value(v));
                        current.give_system((system, deleted), &stored, cx, out)?;
                        out.end_row();
                    }
                }
            }
        }
        Ok(true)
    }
}

impl Operator for Modify {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(
            node,
            ModifyTable {
                child,
                relation,
                change,
                system
            }
        );
        let columns = relation.columns.len();
        out.reset(match (&node.project, change) {
            (None, _) => 0,
            (Some(_), RowChange::Merge(_)) => child.width + 3 * columns + 3,
            (Some(_), _) => child.width + 2 * columns + 2 + system.len(),
        });
        let most = cx.most(want);
        loop {
            let all = self.change_all(node, cx, most, out)?;
            if out.is_full(most) || (!all && !out.is_empty()) {
                return Ok(Step::Rows);
            }
            if !all {
                return Ok(Step::Yield);
            }
            if cx.over(self.rows.len())? {
                self.rows.reset(0);
                self.at = 0;
                return Ok(if out.is_empty() {
                    Step::Yield
                } else {
                    Step::Rows
                });
            }
            self.at = 0;
            let step = self.child.next(child, cx, ALL, &mut self.rows)?;
            if step != Step::Rows {
                return Ok(if out.is_empty() { step } else { Step::Rows });
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, ModifyTable { child });
        self.rows.reset(0);
        self.at = 0;
        self.current = None;
        self.merging = None;
        self.many = InsertMany::default();
        self.child.rescan(child, cx)
    }
}
