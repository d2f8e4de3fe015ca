//! MERGE: the changes that follow from a row of the join of target and source. A target row that a
//! concurrent transaction has changed is looked at again, as PostgreSQL's `ExecMerge` does: a match
//! stays one, or is two rows then, neither of which has a match; clauses are asked again from the
//! first.

use evenkeel_engine::Tid;
use evenkeel_planner::ast::MergeWhen;
use evenkeel_planner::plan::{HeldRow, Merge, MergeAction, MergeClause, Node, RowChange};
use evenkeel_planner::relation::Relation;
use evenkeel_types::row::Kept;
use evenkeel_types::{Datum, SqlState, TypeError};

use super::changed::{Changed, changed_within, cross_check, has_events, hint_of, note, there};
use crate::batch::Batch;
use crate::context::Cx;
use crate::error::{ExecError, ExecResult};
use crate::measure::MergeCounts;
use crate::new_row::{Rules, Stored, refused};
use crate::rows::tid_of;
use crate::writer::{Write, Written};

/// Another source row has changed the target row already.
fn twice() -> ExecError {
    TypeError::new(
        SqlState::CARDINALITY_VIOLATION,
        "MERGE command cannot affect row a second time",
    )
    .hint("Ensure that not more than one source row matches any one target row.")
    .into()
}

/// A row of the join on its way into the table.
pub(crate) struct Merging {
    row: Vec<Datum>,
    /// The target row, unless none matches.
    at: Option<Tid>,
    when: MergeWhen,
    /// Whether the source row is then to be treated as one without a match.
    source_too: bool,
    /// The target row before and after the change, and what was done to it.
    old: Vec<Datum>,
    new: Vec<Datum>,
    /// The bytes of the target row before the change.
    version: Vec<u8>,
    action: &'static str,
    waiting: bool,
}

fn value(row: &[Datum], slot: usize) -> ExecResult<&Datum> {
    row.get(slot)
        .ok_or_else(|| ExecError::plan("a slot beyond its row"))
}

/// Which clauses a row of the join is for.
fn kind_of(merge: &Merge, row: &[Datum]) -> ExecResult<MergeWhen> {
    if value(row, merge.row)?.is_null() {
        return Ok(MergeWhen::NotMatchedByTarget);
    }
    for slot in &merge.source {
        if !value(row, *slot)?.is_null() {
            return Ok(MergeWhen::Matched);
        }
    }
    Ok(MergeWhen::NotMatchedBySource)
}

impl Merging {
    pub fn new(row: Vec<Datum>, merge: &Merge) -> ExecResult<Merging> {
        let when = kind_of(merge, &row)?;
        let at = match when {
            MergeWhen::NotMatchedByTarget => None,
            _ => Some(tid_of(value(&row, merge.row)?)?),
        };
        Ok(Merging {
            row,
            at,
            when,
            source_too: false,
            old: Vec::new(),
            new: Vec::new(),
            version: Vec::new(),
            action: "",
            waiting: false,
        })
    }

    /// The source row, as one without a match.
    fn unmatched(&mut self) {
        self.when = MergeWhen::NotMatchedByTarget;
        self.at = None;
        self.source_too = false;
    }

    /// Goes on with the row.
    pub fn go_on(&mut self, node: &Node, stored: &Stored, cx: &Cx) -> ExecResult<Changed> {
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
        let RowChange::Merge(merge) = change else {
            return Err(ExecError::plan("a change that is no MERGE"));
        };
        let written = if self.waiting {
            cx.resume_write()
        } else {
            match self.write(merge, rules, stored, cx)? {
                Some(write) => cx.write(&stored.table, write),
                None => return Ok(self.left()),
            }
        };
        let written = written.map_err(|error| refused(error, relation, &self.new, cx))?;
        self.waiting = written.is_none();
        match written {
            None => Ok(Changed::Waits),
            Some(Written::Done(placed)) => {
                self.count(node, cx);
                self.note(placed, relation, stored, cx)?;
                Ok(Changed::Done)
            }
            Some(Written::SelfModified { by_another_command }) => Err(match by_another_command {
                true => changed_within("updated or deleted"),
                false => twice(),
            }),
            Some(Written::Changed(newest)) => self.again(merge, (child, held), newest, cx),
            Some(Written::Gone) => {
                self.unmatched();
                Ok(Changed::Again)
            }
            Some(Written::Skipped | Written::Conflict { .. }) => {
                Err(ExecError::plan("MERGE waits for locks, and has no arbiter"))
            }
        }
    }

    fn note(&self, placed: Tid, relation: &Relation, stored: &Stored, cx: &Cx) -> ExecResult<()> {
        if !has_events(relation) {
            return Ok(());
        }
        let old = self.at.filter(|_| self.action != "INSERT");
        let new = (self.action != "DELETE").then_some((placed, &*self.new));
        note(relation, stored, (old.map(|at| (at, &*self.old)), new), cx)
    }

    /// The row stays as it is; its source row may be still to come.
    fn left(&mut self) -> Changed {
        if self.source_too {
            self.unmatched();
            return Changed::Again;
        }
        Changed::Not
    }

    /// Chooses the clause and makes its write; none if nothing is to be done.
    fn write(
        &mut self,
        merge: &Merge,
        rules: Rules<'_>,
        stored: &Stored,
        cx: &Cx,
    ) -> ExecResult<Option<Write>> {
        if !merge.clauses.iter().any(|clause| clause.when == self.when) {
            return Ok(None);
        }
        let width = rules.relation.columns.len();
        self.old = match self.at {
            None => vec![Datum::Null; width],
            Some(at) => match cx.version(rules.relation, at)? {
                Some(bytes) => {
                    let values = stored.decode(&bytes, |_| true, cx)?;
                    self.version = bytes;
                    values
                }
                None => return Ok(None),
            },
        };
        let mut both = self.row.clone();
        both.extend_from_slice(&self.old);
        for clause in &merge.clauses {
            if clause.when == self.when && cx.holds(&clause.condition, &both)? {
                return self.act(clause, &both, (rules, stored), cx);
            }
        }
        Ok(None)
    }

    fn act(
        &mut self,
        clause: &MergeClause,
        both: &[Datum],
        (rules, stored): (Rules<'_>, &Stored),
        cx: &Cx,
    ) -> ExecResult<Option<Write>> {
        let at = self.at.ok_or_else(|| ExecError::plan("no row to change"));
        cross_check(self.at, stored, cx)?;
        Ok(match &clause.action {
            MergeAction::Nothing => None,
            MergeAction::Insert(values) => {
                self.action = "INSERT";
                let row = values.iter().map(|value| cx.eval(value, both));
                self.new = row.collect::<ExecResult<_>>()?;
                let row = stored.encode(rules, (&mut self.new, None), cx)?;
                Some(Write::Insert { row, arbiter: None })
            }
            MergeAction::Update(set) => {
                self.action = "UPDATE";
                self.new.clone_from(&self.old);
                for (column, value) in set {
                    let slot = self.new.get_mut(*column);
                    *slot.ok_or_else(|| ExecError::plan("a column that is not there"))? =
                        cx.eval(value, both)?;
                }
                let columns: Vec<usize> = set.iter().map(|(column, _)| *column).collect();
                let old = Kept {
                    row: &self.version,
                    assigned: &columns,
                };
                Some(Write::Update {
                    at: at?,
                    row: stored.encode(rules, (&mut self.new, Some(old)), cx)?,
                    hint: hint_of(&columns, rules, stored),
                })
            }
            MergeAction::Delete => {
                self.action = "DELETE";
                self.new = vec![Datum::Null; self.old.len()];
                Some(Write::Delete { at: at? })
            }
        })
    }

    /// Looks again at a target row of which another transaction has made a new version.
    fn again(
        &mut self,
        merge: &Merge,
        (child, held): (&Node, &[HeldRow]),
        newest: Tid,
        cx: &Cx,
    ) -> ExecResult<Changed> {
        if self.when == MergeWhen::Matched {
            let target = held.iter().position(|held| held.id == merge.row);
            let target = target.ok_or_else(|| ExecError::plan("a target row that is not held"))?;
            let made = cx.recheck(child, held, &self.row, &[(target, newest)])?;
            let Some(row) = made else {
                return Ok(Changed::Not);
            };
            if kind_of(merge, &row)? == MergeWhen::Matched {
                self.row = row;
            } else {
                self.when = MergeWhen::NotMatchedBySource;
                self.source_too = true;
            }
        }
        self.at = Some(newest);
        Ok(Changed::Again)
    }

    fn count(&self, node: &Node, cx: &Cx) {
        cx.count_change(node);
        if let Some(measures) = &cx.measures {
            measures.change(node, |measure| {
                let MergeCounts {
                    inserted,
                    updated,
                    deleted,
                } = &mut measure.merged;
                *match self.action {
                    "INSERT" => inserted,
                    "UPDATE" => updated,
                    _ => deleted,
                } += 1;
            });
        }
    }

    /// The row for RETURNING.
    pub fn give(&self, out: &mut Batch) {
        let shown = match self.action {
            "DELETE" => &self.old,
            _ => &self.new,
        };
        let values = [&self.row, &self.old, &self.new].into_iter().flatten();
        values.for_each(|value| out.push_value(value.clone()));
        out.push_value(there(self.action != "INSERT"));
        out.push_value(there(self.action != "DELETE"));
        shown.iter().for_each(|value| out.push_value(value.clone()));
        out.push_value(Datum::Text(self.action.to_owned()));
        out.end_row();
    }

    /// Whether the row is not at its end when it has changed the table.
    pub fn goes_on(&mut self) -> bool {
        let more = self.source_too;
        if more {
            self.unmatched();
        }
        more
    }
}
