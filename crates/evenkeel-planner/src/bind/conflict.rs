//! ON CONFLICT.

use std::sync::Arc;

use evenkeel_types::SqlState;

use super::Binder;
use super::from::item_of;
use super::returning::entry_of;
use super::scope::{EntryInfo, Place};
use crate::ast::{self, ExprKind as K, FieldPart, Pos, SortDirection};
use crate::bound::{
    Arbiter, ConflictUpdate, Expr, ExprKind as BoundKind, IndexExprs, OnConflict, RangeKind,
};
use crate::error::{PlanError, PlanResult};
use crate::planning::predicate;
use crate::relation::{Index, Relation};

impl Binder<'_> {
    /// ON CONFLICT of an INSERT whose target alone is visible.
    pub(super) fn bind_conflict(
        &mut self,
        conflict: &ast::OnConflict,
        relation: &Arc<Relation>,
        rel: usize,
    ) -> PlanResult<OnConflict> {
        let update = conflict.update.as_ref();
        let excluded = update.map(|_| self.add_excluded(relation));
        let excluded = excluded.transpose()?;
        let arbiter = self.bind_arbiter(conflict, relation, rel)?;
        let update = match (&conflict.update, excluded) {
            (Some(update), Some(excluded)) => {
                let scope = self.scope();
                let item = item_of(excluded, &scope.range_table[excluded]);
                scope.namespace.push(item);
                let (columns, targets) = self.bind_set(&update.set, relation, rel)?;
                let filter = update.filter.as_ref();
                let filter = filter
                    .map(|filter| self.bind_condition(Place::Where, "WHERE", filter))
                    .transpose()?;
                self.scope().namespace.pop();
                Some(ConflictUpdate {
                    excluded,
                    columns,
                    targets,
                    filter,
                })
            }
            _ => None,
        };
        Ok(OnConflict { arbiter, update })
    }

    /// The row that was to be inserted.
    fn add_excluded(&mut self, relation: &Arc<Relation>) -> PlanResult<usize> {
        let mut entry = entry_of(relation, "excluded");
        entry.kind = RangeKind::Excluded(Arc::clone(relation));
        let info = EntryInfo {
            aliased: true,
            relation: Some((Arc::clone(&relation.name), relation.oid)),
            cte: None,
            join: false,
        };
        let rel = self.add_entry(entry, info);
        self.bind_virtuals(rel)?;
        Ok(rel)
    }

    fn bind_arbiter(
        &mut self,
        conflict: &ast::OnConflict,
        relation: &Relation,
        rel: usize,
    ) -> PlanResult<Arbiter> {
        if let Some(name) = &conflict.constraint {
            let mut indexes = relation.indexes.iter();
            let found = indexes.position(|index| *index.name == *name.text && index.constraint);
            return found
                .map(|found| Arbiter::Indexes(vec![found]))
                .ok_or_else(|| {
                    let message = format!(
                        "constraint \"{}\" for table \"{}\" does not exist",
                        name.text, relation.name
                    );
                    PlanError::new(SqlState::UNDEFINED_OBJECT, message)
                });
        }
        if conflict.target.is_empty() {
            if conflict.update.is_some() {
                let message = "ON CONFLICT DO UPDATE requires inference specification or \
                               constraint name";
                let error = PlanError::new(SqlState::SYNTAX_ERROR, message);
                let hint = "For example, ON CONFLICT (column_name).";
                return Err(error.hint(hint).at(conflict.at));
            }
            return Ok(Arbiter::Any);
        }
        let (mut columns, mut expressions) = (Vec::new(), Vec::new());
        for element in &conflict.target {
            let bound = self.bind_element(element, conflict.target_at)?;
            match bound.kind {
                BoundKind::Var(var) if var.column < relation.columns.len() => {
                    columns.push(var.column);
                }
                _ => expressions.push(bound),
            }
        }
        columns.sort_unstable();
        columns.dedup();
        let filter = conflict.target_filter.as_ref();
        let filter = filter
            .map(|filter| self.bind_condition(Place::IndexPredicate, "WHERE", filter))
            .transpose()?;
        let wanted = Inference {
            columns,
            expressions,
            filter,
        };
        let bound = &self.scope().range_table[rel].indexes;
        let indexes = relation.indexes.iter().enumerate();
        let found = indexes.filter(|(number, index)| {
            wanted.is_met(index, bound.iter().find(|bound| bound.index == *number))
        });
        let found: Vec<usize> = found.map(|(number, _)| number).collect();
        if found.is_empty() {
            let message = "there is no unique or exclusion constraint matching the ON CONFLICT \
                           specification";
            return Err(PlanError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(Arbiter::Indexes(found))
    }

    /// An element of the list.
    fn bind_element(&mut self, element: &ast::IndexElement, at: Pos) -> PlanResult<Expr> {
        let refused = |what: &str| {
            let message = format!("{what} is not allowed in ON CONFLICT clause");
            PlanError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(at)
        };
        if element.direction != SortDirection::Default {
            return Err(refused("ASC/DESC"));
        }
        if element.nulls_first.is_some() {
            return Err(refused("NULLS FIRST/LAST"));
        }
        let unbuilt = match (&element.operator_class, &element.collation) {
            (Some(_), _) => Some("an operator class"),
            (None, Some(_)) => Some("COLLATE"),
            (None, None) => None,
        };
        if let Some(clause) = unbuilt {
            let message = format!("{clause} in ON CONFLICT is not supported");
            return Err(PlanError::unsupported(message).at(at));
        }
        let name = match &element.value.kind {
            K::Column(parts) => match parts.as_slice() {
                [FieldPart::Name(name)] => name,
                _ => return self.bind_in(Place::IndexExpression, &element.value),
            },
            _ => return self.bind_in(Place::IndexExpression, &element.value),
        };
        // PostgreSQL points at the list where a name means nothing.
        let name = ast::Name { at, ..name.clone() };
        let value = ast::Expr {
            kind: K::Column(vec![FieldPart::Name(name)]),
            at,
        };
        self.bind_in(Place::IndexExpression, &value)
    }
}

/// The description of an index in ON CONFLICT.
struct Inference {
    /// Its columns, each once.
    columns: Vec<usize>,
    /// Its expressions.
    expressions: Vec<Expr>,
    /// A condition of the rows that it has at least.
    filter: Option<Expr>,
}

impl Inference {
    /// Whether an index is one of those; `bound` are its expressions, if it has any, and its
    /// predicate.
    fn is_met(&self, index: &Index, bound: Option<&IndexExprs>) -> bool {
        let columns = index.columns.iter().filter_map(|column| column.column);
        let mut columns: Vec<usize> = columns.collect();
        columns.sort_unstable();
        columns.dedup();
        if !index.unique || columns != self.columns {
            return false;
        }
        let expressions = bound.map_or(&[][..], |bound| &bound.expressions);
        let within = |some: &[Expr], all: &[Expr]| {
            let mut some = some.iter();
            some.all(|one| all.iter().any(|other| predicate::same_expr(one, other)))
        };
        let same = within(expressions, &self.expressions) && within(&self.expressions, expressions);
        let predicate = bound.and_then(|bound| bound.predicate.as_ref());
        same && predicate.is_none_or(|predicate| {
            let filter = self.filter.iter().collect::<Vec<_>>();
            predicate::implied(&filter, predicate)
        })
    }
}
