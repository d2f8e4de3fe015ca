//! RETURNING.

use std::sync::Arc;

use evenkeel_types::SqlState;

use super::Binder;
use super::from::item_of;
use super::scope::{EntryInfo, Place};
use crate::ast;
use crate::bound::{RangeEntry, RangeKind, Returning};
use crate::error::{PlanError, PlanResult};
use crate::relation::Relation;

/// The entry of a relation under a name.
pub(super) fn entry_of(relation: &Arc<Relation>, alias: &str) -> RangeEntry {
    let columns = &relation.columns;
    RangeEntry {
        alias: alias.into(),
        columns: columns.iter().map(|c| Arc::clone(&c.name)).collect(),
        types: columns.iter().map(|column| column.declared()).collect(),
        kind: RangeKind::Relation(Arc::clone(relation)),
        lateral: false,
        indexes: Vec::new(),
        virtuals: Vec::new(),
    }
}

impl Binder<'_> {
    /// RETURNING, which sees the target, the other items and the rows before and after.
    pub(super) fn bind_returning(
        &mut self,
        returning: Option<&ast::Returning>,
        relation: &Arc<Relation>,
        place: Place,
    ) -> PlanResult<Option<Returning>> {
        let Some(returning) = returning else {
            return Ok(None);
        };
        let before = self.scope().namespace.len();
        let old = self.add_row(relation, returning.old.as_ref(), "old")?;
        let new = self.add_row(relation, returning.new.as_ref(), "new")?;
        let mut targets = self.bind_targets(&returning.targets, place)?;
        self.resolve_targets(&mut targets)?;
        self.scope().namespace.truncate(before);
        let action = self.scope().merge_action;
        Ok(Some(Returning {
            targets,
            old,
            new,
            action,
        }))
    }

    /// The row before or after the change; its usual name yields to another of that name.
    fn add_row(
        &mut self,
        relation: &Arc<Relation>,
        given: Option<&ast::Name>,
        usual: &str,
    ) -> PlanResult<usize> {
        let name = given.map_or(usual, |name| &name.text);
        let mut items = self.scope().namespace.iter();
        let taken = items.any(|item| item.table_visible && *item.name == *name);
        if let (true, Some(given)) = (taken, given) {
            let message = format!("table name \"{name}\" specified more than once");
            return Err(PlanError::new(SqlState::DUPLICATE_ALIAS, message).at(given.at));
        }
        let info = EntryInfo {
            aliased: true,
            relation: Some((Arc::clone(&relation.name), relation.oid)),
            cte: None,
            join: false,
        };
        let mut entry = entry_of(relation, name);
        entry.kind = RangeKind::Version(Arc::clone(relation));
        let rel = self.add_entry(entry, info);
        self.bind_virtuals(rel)?;
        let scope = self.scope();
        let mut item = item_of(rel, &scope.range_table[rel]);
        item.columns_visible = false;
        item.table_visible = !taken;
        scope.namespace.push(item);
        Ok(rel)
    }
}
