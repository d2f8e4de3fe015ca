//! FOR UPDATE and its kin.

use std::sync::Arc;

use evenkeel_types::SqlState;

use super::Binder;
use super::walk::{self, RED_ZONE, STACK_PART};
use crate::ast::{LockStrength, LockWait, Locking, Pos};
use crate::bound::{Distinct, Query, RangeKind, RowMark};
use crate::error::{PlanError, PlanResult};
use crate::relation::RelationKind;

/// The clause as messages call it.
pub(super) fn clause(strength: LockStrength) -> &'static str {
    match strength {
        LockStrength::KeyShare => "FOR KEY SHARE",
        LockStrength::Share => "FOR SHARE",
        LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
        LockStrength::Update => "FOR UPDATE",
    }
}

/// Refuses row locks of a query whose rows are not those of tables.
fn check(query: &Query, has_set_calls: bool, has_aggregates: bool, name: &str) -> PlanResult<()> {
    let refused = if query.set_operation.is_some() {
        "UNION/INTERSECT/EXCEPT"
    } else if query.distinct != Distinct::All {
        "DISTINCT clause"
    } else if !query.group_by.is_empty() || !query.grouping_sets.is_empty() {
        "GROUP BY clause"
    } else if query.having.is_some() {
        "HAVING clause"
    } else if has_aggregates {
        "aggregate functions"
    } else if !query.windows.is_empty() {
        "window functions"
    } else if has_set_calls {
        "set-returning functions in the target list"
    } else {
        return Ok(());
    };
    Err(PlanError::unsupported(format!(
        "{name} is not allowed with {refused}"
    )))
}

impl Binder<'_> {
    pub(super) fn bind_locking(
        &mut self,
        clauses: &[Locking],
        query: &mut Query,
    ) -> PlanResult<()> {
        for locking in clauses {
            let name = clause(locking.strength);
            let scope = self.scope();
            check(query, scope.has_set_calls, scope.has_aggregates, name)?;
            if locking.tables.is_empty() {
                let all: Vec<usize> = (0..scope.range_table.len()).collect();
                for rel in all {
                    self.lock_entry(rel, locking, query, None)?;
                }
                continue;
            }
            for table in &locking.tables {
                let wanted =
                    |item: &&super::scope::NsItem| item.table_visible && *item.name == *table.text;
                let Some(item) = self.scope().namespace.iter().find(wanted) else {
                    let message = format!(
                        "relation \"{}\" in {name} clause not found in FROM clause",
                        table.text
                    );
                    let error = PlanError::new(SqlState::UNDEFINED_TABLE, message);
                    return Err(error.at(table.at));
                };
                let rel = item.rel;
                self.lock_entry(rel, locking, query, Some(table.at))?;
            }
        }
        Ok(())
    }

    /// Locks the rows of an entry; `named` is where the clause names it.
    fn lock_entry(
        &mut self,
        rel: usize,
        locking: &Locking,
        query: &mut Query,
        named: Option<Pos>,
    ) -> PlanResult<()> {
        let name = clause(locking.strength);
        let refused = match &mut self.scope().range_table[rel].kind {
            RangeKind::Relation(relation) => {
                if matches!(relation.kind, RelationKind::Table) {
                    mark(query, rel, locking);
                }
                return Ok(());
            }
            RangeKind::Subquery(inner) => {
                lock_within(Arc::make_mut(inner), locking)?;
                mark(query, rel, locking);
                return Ok(());
            }
            RangeKind::Join { .. } => "a join",
            RangeKind::Functions { .. } => "a function",
            RangeKind::Values(_) => "VALUES",
            RangeKind::Cte { .. } => "a WITH query",
            RangeKind::Excluded(_) | RangeKind::Version(_) | RangeKind::MergeAction => {
                "a named tuplestore"
            }
        };
        match named {
            Some(at) => {
                let message = format!("{name} cannot be applied to {refused}");
                Err(PlanError::unsupported(message).at(at))
            }
            None => Ok(()),
        }
    }
}

/// Locks the rows of the tables that a subquery's rows are made from.
fn lock_within(query: &mut Query, locking: &Locking) -> PlanResult<()> {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || {
        let mut kept = query.targets.iter();
        let sets = kept.any(|target| walk::returns_set(&target.expr));
        check(query, sets, query.grouped, clause(locking.strength))?;
        for rel in 0..query.range_table.len() {
            match &mut query.range_table[rel].kind {
                RangeKind::Relation(relation) if matches!(relation.kind, RelationKind::Table) => {
                    mark(query, rel, locking);
                }
                RangeKind::Subquery(inner) => {
                    lock_within(Arc::make_mut(inner), locking)?;
                    mark(query, rel, locking);
                }
                _ => {}
            }
        }
        Ok(())
    })
}

/// Of several locks of one entry the strongest holds, and the least patient.
fn mark(query: &mut Query, rel: usize, locking: &Locking) {
    let patience = |wait: LockWait| match wait {
        LockWait::Block => 0,
        LockWait::Skip => 1,
        LockWait::Error => 2,
    };
    if let Some(known) = query.row_marks.iter_mut().find(|mark| mark.rel == rel) {
        known.strength = known.strength.max(locking.strength);
        if patience(locking.wait) > patience(known.wait) {
            known.wait = locking.wait;
        }
        return;
    }
    query.row_marks.push(RowMark {
        rel,
        strength: locking.strength,
        wait: locking.wait,
    });
}
