//! Which rows a row was made from: for locks, and for changes of rows that a concurrent transaction
//! has changed. See [`crate::plan::HeldRow`].

use std::sync::Arc;

use evenkeel_types::{SqlState, SqlType};

use crate::ast::{LockStrength, Pos};
use crate::bound::{Expr, ExprKind, Query, RowMark, Target};
use crate::error::{PlanError, PlanResult};
use crate::plan::{HeldRow, NodeKind};
use crate::relation::RelationKind;

use super::build::{Built, internal, wrapped};
use super::layout::Layout;
use super::number::{ROW_ID, numbered};
use super::problem::{ItemKind, SpecialKind, Unit};
use super::statement::{Source, Statement};

/// The variable of a relation's row id.
pub(super) fn row_id(rel: usize) -> Expr {
    variable(rel, ROW_ID, SqlType::Int8)
}

fn variable(rel: usize, column: usize, ty: SqlType) -> Expr {
    Expr {
        kind: ExprKind::Var(numbered(rel, column)),
        ty,
        at: Pos::NONE,
    }
}

/// The relations whose rows a row of a join problem is made from, with whether an outer join may
/// have put NULLs in their place.
fn leaves(unit: &Unit, nullable: bool, out: &mut Vec<(usize, bool)>) {
    for item in &unit.items {
        match &item.kind {
            ItemKind::Leaf(rel) => out.push((*rel, nullable)),
            ItemKind::Part(unit) => leaves(unit, nullable, out),
            ItemKind::Full { left, right, .. } => {
                leaves(left, true, out);
                leaves(right, true, out);
            }
            ItemKind::Special {
                kind: SpecialKind::Left,
                unit,
                ..
            } => leaves(unit, true, out),
            ItemKind::Special { .. } => {}
        }
    }
}

fn strength_name(strength: LockStrength) -> &'static str {
    match strength {
        LockStrength::KeyShare => "FOR KEY SHARE",
        LockStrength::Share => "FOR SHARE",
        LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
        LockStrength::Update => "FOR UPDATE",
    }
}

impl Statement<'_> {
    /// The locks of tables' rows. Those of a subquery's are made within it.
    ///
    /// # Errors
    /// 0A000 for rows that an outer join may add.
    pub(super) fn own_marks(&self, marks: Vec<RowMark>, unit: &Unit) -> PlanResult<Vec<RowMark>> {
        let mut found = Vec::new();
        leaves(unit, false, &mut found);
        let nullable = |mark: &&RowMark| found.contains(&(mark.rel, true));
        if let Some(mark) = marks.iter().find(nullable) {
            return Err(PlanError::unsupported(format!(
                "{} cannot be applied to the nullable side of an outer join",
                strength_name(mark.strength)
            )));
        }
        let own = marks.into_iter().filter(|mark| self.is_stored(mark.rel));
        Ok(own.collect())
    }

    /// Adds to the select list whatever says which rows a row was made from. Answers the relations.
    pub(super) fn hold_rows(&mut self, query: &mut Query, unit: &Unit) -> Vec<usize> {
        let mut found = Vec::new();
        leaves(unit, false, &mut found);
        let rels: Vec<usize> = found.into_iter().map(|(rel, _)| rel).collect();
        for rel in &rels {
            self.mentioned.entry(*rel).or_default().insert(ROW_ID);
            if !self.is_stored(*rel) {
                let columns = self.rels[*rel].types.iter().enumerate();
                let columns = columns.map(|(column, ty)| variable(*rel, column, *ty));
                columns.for_each(|expr| add(query, expr));
            }
            add(query, row_id(*rel));
        }
        rels
    }

    /// Whether a relation's rows have places.
    fn is_stored(&self, rel: usize) -> bool {
        matches!(&self.rels[rel].source, Source::Relation(relation)
            if relation.kind == RelationKind::Table)
    }

    /// Marks an operator as the one that gives a relation's rows, if they are held.
    pub(super) fn marked(&self, rel: usize, (mut node, mut layout): Built) -> Built {
        if self.used_as_row(rel) {
            let alone = matches!(
                node.kind,
                NodeKind::SeqScan { .. }
                    | NodeKind::IndexScan { .. }
                    | NodeKind::BitmapHeapScan { .. }
                    | NodeKind::Values(_)
                    | NodeKind::FunctionScan { .. }
                    | NodeKind::CteScan { .. }
                    | NodeKind::WorkingScan { .. }
                    | NodeKind::VirtualScan { .. }
            );
            if !alone {
                let estimate = node.estimate;
                let notes = node.notes.take();
                node = wrapped(node, estimate);
                node.notes = notes;
            }
            if layout.var(rel, ROW_ID).is_none() {
                layout.push_var(rel, ROW_ID);
            }
            node.mark = Some(rel);
            node.width = layout.width();
        }
        (node, layout)
    }

    /// Where the held rows are in rows of a layout.
    pub(super) fn held(&self, rels: &[usize], layout: &Layout) -> PlanResult<Vec<HeldRow>> {
        let missing = || internal("a row that is held is not there");
        let held = rels.iter().map(|rel| {
            let slot = |column| layout.var(*rel, column).ok_or_else(missing);
            let (relation, columns) = match &self.rels[*rel].source {
                Source::Relation(relation) if relation.kind == RelationKind::Table => {
                    (Some(Arc::clone(relation)), Vec::new())
                }
                _ => {
                    let columns = 0..self.rels[*rel].types.len();
                    (None, columns.map(slot).collect::<PlanResult<_>>()?)
                }
            };
            Ok(HeldRow {
                mark: *rel,
                id: slot(ROW_ID)?,
                relation,
                columns,
            })
        });
        held.collect()
    }

    /// Notes the tables whose rows are locked, under the numbers of the statement.
    pub(super) fn number_marks(&mut self, marks: &mut [RowMark], first: usize) {
        for mark in marks {
            mark.rel += first;
            if let Source::Relation(relation) = &self.rels[mark.rel].source
                && !self.row_locked.contains(&relation.oid)
            {
                self.row_locked.push(relation.oid);
            }
        }
    }
}

fn add(query: &mut Query, expr: Expr) {
    query.targets.push(Target {
        expr,
        name: Arc::from(""),
        junk: true,
    });
}

/// The locks of a query as the plan has them.
pub(super) fn plan_marks(
    marks: &[RowMark],
    held: &[HeldRow],
) -> PlanResult<Vec<crate::plan::RowMark>> {
    let marks = marks.iter().map(|mark| {
        let place = held.iter().position(|held| held.mark == mark.rel);
        let held = place
            .ok_or_else(|| PlanError::new(SqlState::INTERNAL_ERROR, "a locked row is not there"))?;
        Ok(crate::plan::RowMark {
            held,
            strength: mark.strength,
            wait: mark.wait,
        })
    });
    marks.collect()
}
