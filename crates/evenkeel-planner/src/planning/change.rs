//! Paths and plans of INSERT, UPDATE, DELETE and MERGE.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_expr::program::Program;
use evenkeel_types::{SqlState, SqlType};

use crate::ast::Pos;
use crate::bound::{Arbiter, ChangeKind, ChangeShape, Expr, ExprKind, Query, RangeEntry, Target};
use crate::error::{PlanError, PlanResult};
use crate::plan::{self, Estimate, NodeKind, RowChange, Side};
use crate::relation::SystemColumn;

use super::build::{Built, internal, node};
use super::cost::path;
use super::joins::cheapest;
use super::layout::{Env, Layout};
use super::marks::row_id;
use super::number::{NUMBERED, ROW_ID, numbered};
use super::path::{Change, ConflictUpdate, ExprRef, OnConflict, PathKind, PathRef};
use super::statement::Statement;
use super::tree::conjuncts;
use super::upper::row_of_field;
use super::volatility::is_volatile;
use super::walk;

/// ON CONFLICT, whose expressions are taken.
fn on_conflict(
    change: &ChangeShape,
    first: usize,
    exprs: &mut Vec<Target>,
) -> Option<PlanResult<OnConflict>> {
    let (arbiter, update) = change.conflict.as_ref()?;
    let update = update.as_ref().map(|(excluded, columns)| {
        conflict_update(first + excluded, columns.clone(), std::mem::take(exprs))
    });
    let made = || {
        Ok(OnConflict {
            arbiters: match arbiter {
                Arbiter::Any => Vec::new(),
                Arbiter::Indexes(indexes) => indexes.clone(),
            },
            update: update.transpose()?,
        })
    };
    Some(made())
}

/// Takes the last expressions of a list, each under its key.
fn last<K: Clone>(exprs: &mut Vec<Target>, keys: &[K]) -> Vec<(K, ExprRef)> {
    let behind = exprs.split_off(exprs.len().saturating_sub(keys.len()));
    let behind = behind.into_iter().map(|target| Rc::new(target.expr));
    keys.iter().cloned().zip(behind).collect()
}

fn conflict_update(
    excluded: usize,
    columns: Vec<usize>,
    mut values: Vec<Target>,
) -> PlanResult<ConflictUpdate> {
    let volatile = |target: &Target| row_of_field(&target.expr).is_some_and(is_volatile);
    if values.iter().filter(|target| volatile(target)).count() > 1 {
        let message = "ON CONFLICT DO UPDATE with a volatile subquery for several columns is not \
                       supported";
        return Err(PlanError::unsupported(message));
    }
    let mut filter = Vec::new();
    for item in values.split_off(columns.len()) {
        conjuncts(item.expr, &mut filter);
    }
    let shared = |exprs: Vec<Expr>| exprs.into_iter().map(Rc::new).collect();
    Ok(ConflictUpdate {
        excluded,
        columns,
        values: shared(values.into_iter().map(|item| item.expr).collect()),
        filter: shared(filter),
    })
}

/// Makes variables of the target those of the row that they stand for.
pub(super) struct Renamed {
    pub(super) from: usize,
    pub(super) to: usize,
}

impl walk::Change for Renamed {
    fn expr(&mut self, expr: &mut Expr, _depth: usize) {
        if let ExprKind::Var(var) = &mut expr.kind
            && var.depth == NUMBERED
            && var.rel == self.from
        {
            var.rel = self.to;
        }
    }

    fn entry(&mut self, _entry: &mut RangeEntry, _depth: usize) {}
}

impl Statement<'_> {
    /// The way to run a change.
    pub(super) fn change_path(
        &mut self,
        mut query: Query,
        change: &ChangeShape,
    ) -> PlanResult<PathRef> {
        let first = self.enter(&mut query)?;
        let rel = first + change.target;
        self.changed.push(change.relation.oid);
        let before_after = change
            .before_after
            .map(|(old, new)| (first + old, first + new));
        for rel in before_after.iter().flat_map(|(old, new)| [*old, *new]) {
            // No name of the statement is theirs alone.
            self.rels[rel].columns.clear();
        }
        let tree = self.tree(&mut query, first)?;
        let mut returning = query.targets.split_off(change.columns.len());
        let mut updating = returning.split_off(change.returned);
        let checks = last(&mut updating, &change.checks);
        let generated = last(&mut updating, &change.generated);
        let conflict = on_conflict(change, first, &mut updating);
        let merge = match change.kind {
            ChangeKind::Merge => Some(self.merge(change, (first, rel), updating, &mut query)?),
            _ => None,
        };
        let shown = match (change.kind, before_after) {
            (ChangeKind::Delete, Some((old, _))) => old,
            (_, Some((_, new))) => merge.as_ref().map_or(new, |merge| merge.shown),
            (_, None) => rel,
        };
        let returning = self.returning(returning, (rel, shown), before_after, &mut query);
        let unit = self.unit(tree);
        let held = match change.kind {
            ChangeKind::Insert => Vec::new(),
            _ => self.hold_rows(&mut query, &unit),
        };
        let paths = self.finished(&query, &unit, &held)?;
        let missing = || PlanError::new(SqlState::INTERNAL_ERROR, "a change has no path");
        let child = cheapest(&paths).cloned().ok_or_else(missing)?;
        let estimate = match returning.is_empty() {
            true => Estimate {
                rows: 0.0,
                bytes: 0.0,
                ..child.estimate
            },
            false => child.estimate,
        };
        let rels = child.rels.clone();
        let change = Rc::new(Change {
            kind: change.kind,
            relation: Arc::clone(&change.relation),
            rel,
            columns: change.columns.clone(),
            held,
            before_after,
            returning,
            conflict: conflict.transpose()?,
            merge,
            generated,
            checks,
        });
        Ok(path(
            PathKind::Modify { child, change },
            estimate,
            Vec::new(),
            rels,
        ))
    }

    /// RETURNING over the rows before and after; other columns that it looks at come with the
    /// rows.
    fn returning(
        &self,
        list: Vec<Target>,
        (from, to): (usize, usize),
        before_after: Option<(usize, usize)>,
        query: &mut Query,
    ) -> Vec<ExprRef> {
        let Some((old, new)) = before_after else {
            return Vec::new();
        };
        let mut renamed = Renamed { from, to };
        let exprs = list.into_iter().map(|mut item| {
            walk::change_expr(&mut item.expr, 0, &mut renamed);
            Rc::new(item.expr)
        });
        let made: Vec<ExprRef> = exprs.collect();
        self.fetch_others(&made, &[old, new, to], query);
        made
    }

    /// Adds to the rows the columns of relations that expressions look at, but for those of `own`
    /// and of relations that stand for no rows of the join.
    pub(super) fn fetch_others(&self, exprs: &[ExprRef], own: &[usize], query: &mut Query) {
        let mut others = BTreeSet::new();
        for expr in exprs {
            walk::each(expr, &mut |part| {
                if let ExprKind::Var(var) = part.kind
                    && var.depth == NUMBERED
                    && !own.contains(&var.rel)
                    && !self.rels[var.rel].types.is_empty()
                {
                    others.insert((var.rel, var.column));
                }
            });
        }
        for (rel, column) in others {
            // A row's id is no column of its relation.
            let ty = self.rels[rel].types.get(column).copied();
            query.targets.push(Target {
                expr: Expr {
                    kind: ExprKind::Var(numbered(rel, column)),
                    ty: ty.unwrap_or(SqlType::Int8),
                    at: Pos::NONE,
                },
                name: Arc::from(""),
                junk: true,
            });
        }
    }

    fn build_conflict(
        &mut self,
        change: &Change,
        env: &mut Env,
    ) -> PlanResult<Option<plan::OnConflict>> {
        let Some(conflict) = &change.conflict else {
            return Ok(None);
        };
        let columns = change.relation.columns.len();
        let update = match &conflict.update {
            None => None,
            Some(update) => {
                let mut layout = Layout::of_columns(change.rel, 0..columns)
                    .joined(Layout::of_columns(update.excluded, 0..columns));
                let exprs = || update.values.iter().chain(&update.filter);
                let system = system_columns(exprs(), |rel| (rel == change.rel).then_some(()));
                let system: Vec<SystemColumn> = system.into_iter().map(|(_, of)| of).collect();
                for column in &system {
                    layout.push_var(change.rel, column.position());
                }
                let values = self.programs_of(&update.values, &layout, env)?;
                Some(plan::ConflictUpdate {
                    set: update.columns.iter().copied().zip(values).collect(),
                    filter: self.programs_of(&update.filter, &layout, env)?,
                    system,
                })
            }
        };
        Ok(Some(plan::OnConflict {
            arbiter: conflict.arbiters.first().copied(),
            update,
        }))
    }

    /// Generated columns as programs over a new row.
    fn build_generated(
        &mut self,
        change: &Change,
        env: &mut Env,
    ) -> PlanResult<Vec<(usize, Program)>> {
        let new_row = Layout::of_columns(change.rel, 0..change.relation.columns.len());
        let (columns, values): (Vec<_>, Vec<_>) = change.generated.iter().cloned().unzip();
        let programs = self.programs_of(&values, &new_row, env)?;
        Ok(columns.into_iter().zip(programs).collect())
    }

    /// CHECK constraints as programs over a new row.
    fn build_checks(&mut self, change: &Change, env: &mut Env) -> PlanResult<Vec<plan::Check>> {
        let new_row = Layout::of_columns(change.rel, 0..change.relation.columns.len());
        let (names, conditions): (Vec<_>, Vec<_>) = change.checks.iter().cloned().unzip();
        let programs = self.programs_of(&conditions, &new_row, env)?;
        let checks = names.into_iter().zip(programs);
        let checks = checks.map(|(rule, condition)| plan::Check { rule, condition });
        Ok(checks.collect())
    }

    /// The plan of a change.
    pub(super) fn build_modify(
        &mut self,
        child: &PathRef,
        change: &Change,
        estimate: Estimate,
        env: &mut Env,
    ) -> PlanResult<Built> {
        let (child, layout) = self.build(child, env)?;
        let row = || {
            let slot = layout.find(&row_id(change.rel));
            slot.ok_or_else(|| internal("a row to change has no place"))
        };
        let kind = match change.kind {
            ChangeKind::Insert => RowChange::Insert {
                conflict: self.build_conflict(change, env)?,
            },
            ChangeKind::Update => RowChange::Update {
                columns: change.columns.clone(),
                row: row()?,
            },
            ChangeKind::Delete => RowChange::Delete { row: row()? },
            ChangeKind::Merge => RowChange::Merge(self.build_merge(change, &layout, env)?),
        };
        let held = self.held(&change.held, &layout)?;
        let system = returned_system(change)?;
        let kind = NodeKind::ModifyTable {
            child: Box::new(child),
            relation: Arc::clone(&change.relation),
            change: kind,
            held,
            generated: self.build_generated(change, env)?,
            checks: self.build_checks(change, env)?,
            system: system.clone(),
        };
        let Some((old, new)) = change.before_after else {
            return Ok((node(kind, 0, estimate), Layout::default()));
        };
        let columns = change.relation.columns.len();
        let mut layout = layout
            .joined(Layout::of_columns(old, 0..columns))
            .joined(Layout::of_columns(new, 0..columns));
        layout.push_var(old, ROW_ID);
        layout.push_var(new, ROW_ID);
        if let Some(merge) = &change.merge {
            layout = merge.returned(layout, columns);
        }
        for (side, column) in system {
            let rel = match side {
                Side::Old => old,
                Side::New => new,
            };
            layout.push_var(rel, column.position());
        }
        let mut built = node(kind, change.returning.len(), estimate);
        built.project = Some(self.programs_of(&change.returning, &layout, env)?);
        Ok((built, Layout::of_exprs(&change.returning)))
    }
}

/// The system columns that expressions look at, each once, with what `of` says of the relation.
fn system_columns<'e, T: Copy + PartialEq>(
    exprs: impl Iterator<Item = &'e ExprRef>,
    of: impl Fn(usize) -> Option<T>,
) -> Vec<(T, SystemColumn)> {
    let mut found = Vec::new();
    for expr in exprs {
        walk::each(expr, &mut |part| {
            if let ExprKind::Var(var) = part.kind
                && var.depth == NUMBERED
                && let Some(column) = SystemColumn::at(var.column)
                && let Some(of) = of(var.rel)
                && !found.contains(&(of, column))
            {
                found.push((of, column));
            }
        });
    }
    found
}

/// The system columns that RETURNING looks at.
fn returned_system(change: &Change) -> PlanResult<Vec<(Side, SystemColumn)>> {
    let Some((old, new)) = change.before_after else {
        return Ok(Vec::new());
    };
    let found = system_columns(change.returning.iter(), |rel| match rel {
        rel if rel == old => Some(Side::Old),
        rel if rel == new => Some(Side::New),
        _ => None,
    });
    match found.first() {
        Some((_, column)) if change.kind == ChangeKind::Merge => {
            let message = format!(
                "system column \"{}\" in RETURNING of MERGE is not supported",
                column.name()
            );
            Err(PlanError::unsupported(message))
        }
        _ => Ok(found),
    }
}
