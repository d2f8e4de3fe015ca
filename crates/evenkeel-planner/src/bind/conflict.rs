//! ON CONFLICT.

use std::sync::Arc;

use evenkeel_types::SqlState;

use super::Binder;
use super::from::item_of;
use super::returning::entry_of;
use super::scope::{EntryInfo, Place};
use crate::ast::{self, ExprKind as K, FieldPart, Pos, SortDirection};
use crate::bound::{Arbiter, ConflictUpdate, OnConflict, RangeKind};
use crate::error::{PlanError, PlanResult};
use crate::relation::Relation;

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
        let arbiter = self.bind_arbiter(conflict, relation)?;
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
    fn add_excluded(&mut self, relation: &Arc<Relation>) -> usize {
        let mut entry = entry_of(relation, "excluded");
        entry.kind = RangeKind::Excluded(Arc::clone(relation));
        let info = EntryInfo {
            aliased: true,
            relation: Some((Arc::clone(&relation.name), relation.oid)),
            cte: None,
            join: false,
        };
        self.add_entry(entry, info)
    }

    fn bind_arbiter(
        &mut self,
        conflict: &ast::OnConflict,
        relation: &Relation,
    ) -> PlanResult<Arbiter> {
        if let Some(name) = &conflict.constraint {
            let mut indexes = relation.indexes.iter();
            let found = indexes.position(|index| *index.name == *name.text && index.unique);
            return found.map(Arbiter::Index).ok_or_else(|| {
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
        let mut columns = Vec::new();
        for element in &conflict.target {
            columns.extend(self.bind_element(element, conflict.target_at, relation)?);
        }
        let plain = columns.len() == conflict.target.len();
        if let Some(filter) = &conflict.target_filter {
            // An index without a condition is for every condition.
            let _ = self.bind_condition(Place::IndexPredicate, "WHERE", filter)?;
        }
        columns.sort_unstable();
        columns.dedup();
        Ok(match plain {
            true => Arbiter::Columns(columns),
            false => Arbiter::Expressions,
        })
    }

    /// The column that an element of the list is, if it is one.
    fn bind_element(
        &mut self,
        element: &ast::IndexElement,
        at: Pos,
        relation: &Relation,
    ) -> PlanResult<Option<usize>> {
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
        let name = match &element.value.kind {
            K::Column(parts) => match parts.as_slice() {
                [FieldPart::Name(name)] => name,
                _ => return Ok(None),
            },
            _ => {
                let _ = self.bind_in(Place::IndexExpression, &element.value)?;
                return Ok(None);
            }
        };
        // PostgreSQL points at the list where a name means nothing.
        let name = ast::Name { at, ..name.clone() };
        let value = ast::Expr {
            kind: K::Column(vec![FieldPart::Name(name.clone())]),
            at,
        };
        let _ = self.bind_in(Place::IndexExpression, &value)?;
        let mut columns = relation.columns.iter();
        Ok(columns.position(|column| *column.name == *name.text))
    }
}
