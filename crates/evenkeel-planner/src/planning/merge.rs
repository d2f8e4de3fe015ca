//! The WHEN clauses of MERGE.

use std::rc::Rc;

use crate::bound::{ChangeShape, ClauseShape, MergeAction, Query, Target};
use crate::error::{PlanError, PlanResult};
use crate::plan;

use super::build::internal;
use super::change::Renamed;
use super::layout::{Env, Layout};
use super::marks::row_id;
use super::number::ROW_ID;
use super::path::{Change, ExprRef, Merge, MergeClause};
use super::statement::Statement;
use super::tree::conjuncts;
use super::upper::row_of_field;
use super::volatility::is_volatile;
use super::walk;

impl Merge {
    /// The columns of the rows that RETURNING is over: those of the child, and of the row before
    /// and after, are in `layout`.
    pub(super) fn returned(&self, layout: Layout, columns: usize) -> Layout {
        let mut layout = layout.joined(Layout::of_columns(self.shown, 0..columns));
        let action = layout.push_nameless();
        if let Some(rel) = self.action {
            layout.alias_var(rel, 0, action);
        }
        // The row is always there, and so is the action's name.
        layout.alias_var(self.shown, ROW_ID, action);
        layout
    }
}

impl Statement<'_> {
    /// The clauses, with their expressions; what these look at comes with the rows.
    pub(super) fn merge(
        &mut self,
        change: &ChangeShape,
        (first, target): (usize, usize),
        exprs: Vec<Target>,
        query: &mut Query,
    ) -> PlanResult<Merge> {
        let types: Vec<_> = change
            .relation
            .columns
            .iter()
            .map(|column| column.ty)
            .collect();
        let there = self.new_rel(types.clone());
        let shown = self.new_rel(types);
        let action = change.action.map(|action| first + action);
        let mut renamed = Renamed {
            from: target,
            to: there,
        };
        let mut exprs = exprs.into_iter().map(|mut item| {
            walk::change_expr(&mut item.expr, 0, &mut renamed);
            item
        });
        let clauses = change.clauses.iter();
        let clauses: PlanResult<Vec<MergeClause>> =
            clauses.map(|shape| clause(shape, &mut exprs)).collect();
        let clauses = clauses?;
        for clause in &clauses {
            self.fetch_others(&clause.condition, &[there], query);
            self.fetch_others(&clause.values, &[there], query);
        }
        if let Some(action) = action {
            // It is no relation of the join.
            self.rels[action].types.clear();
        }
        Ok(Merge {
            there,
            shown,
            action,
            clauses,
        })
    }

    /// The clauses over the child's rows and the target row.
    pub(super) fn build_merge(
        &mut self,
        change: &Change,
        child: &Layout,
        env: &mut Env,
    ) -> PlanResult<plan::Merge> {
        let missing = || internal("MERGE without its rows");
        let merge = change.merge.as_ref().ok_or_else(missing)?;
        let slot = |rel: usize| child.find(&row_id(rel)).ok_or_else(missing);
        let source = change.held.iter().filter(|rel| **rel != change.rel);
        let source: PlanResult<Vec<usize>> = source.map(|rel| slot(*rel)).collect();
        let row = slot(change.rel)?;
        let columns = change.relation.columns.len();
        let there = Layout::of_columns(merge.there, 0..columns);
        let mut layout = child.clone().joined(there);
        layout.alias_var(merge.there, ROW_ID, row);
        let mut clauses = Vec::with_capacity(merge.clauses.len());
        for clause in &merge.clauses {
            let condition = self.condition_programs(&clause.condition, &layout, env)?;
            let values = self.programs_of(&clause.values, &layout, env)?;
            clauses.push(plan::MergeClause {
                when: clause.when,
                condition,
                action: match clause.action {
                    MergeAction::Insert => plan::MergeAction::Insert(values),
                    MergeAction::Update => plan::MergeAction::Update(
                        clause.columns.iter().copied().zip(values).collect(),
                    ),
                    MergeAction::Delete => plan::MergeAction::Delete,
                    MergeAction::Nothing => plan::MergeAction::Nothing,
                },
            });
        }
        Ok(plan::Merge {
            row,
            source: source?,
            clauses,
        })
    }
}

fn clause(shape: &ClauseShape, exprs: &mut dyn Iterator<Item = Target>) -> PlanResult<MergeClause> {
    let mut condition = Vec::new();
    if shape.conditional
        && let Some(item) = exprs.next()
    {
        conjuncts(item.expr, &mut condition);
    }
    let values: Vec<Target> = exprs.take(shape.columns.len()).collect();
    let volatile = |target: &&Target| row_of_field(&target.expr).is_some_and(is_volatile);
    if values.iter().filter(volatile).count() > 1 {
        let message = "MERGE with a volatile subquery for several columns is not supported";
        return Err(PlanError::unsupported(message));
    }
    let values: Vec<ExprRef> = values.into_iter().map(|item| Rc::new(item.expr)).collect();
    Ok(MergeClause {
        when: shape.when,
        condition: condition.into_iter().map(Rc::new).collect(),
        action: shape.action,
        columns: shape.columns.clone(),
        values,
    })
}
