//! Objects that depend on those that a command drops: named, or dropped with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Session;
use super::schemas::still_needed;
use crate::catalog::{CatalogState, ForeignKeyInfo, Oid, Relation, TableInfo, ViewInfo};
use crate::error::SqlResult;

/// An object that depends on another.
enum Object {
    /// A foreign key: its table and its name.
    ForeignKey(Oid, Arc<str>),
    /// A view.
    View(Oid),
}

/// An object in the way of a drop.
pub(super) struct InTheWay {
    object: Object,
    /// In words.
    name: String,
    /// The object that it depends on, in words.
    needs: String,
}

/// Objects by their oids, each with those in the way of its own drop.
pub(super) type Dependents = Vec<(Oid, Vec<InTheWay>)>;

/// In the order in which PostgreSQL names them: by oid, each before those that depend on it.
pub(super) fn in_order(mut all: Dependents) -> Vec<InTheWay> {
    all.sort_by_key(|(oid, _)| *oid);
    all.into_iter().flat_map(|(_, found)| found).collect()
}

/// A foreign key.
pub(super) fn foreign_key(
    child: &TableInfo,
    key: &ForeignKeyInfo,
    needs: String,
) -> (Oid, Vec<InTheWay>) {
    let found = InTheWay {
        object: Object::ForeignKey(child.oid, Arc::clone(&key.name)),
        name: format!("constraint {} on table {}", key.name, child.name),
        needs,
    };
    (key.oid, vec![found])
}

impl Session {
    /// The views over a relation that `counts`, but for those of `except`. A view over two of them
    /// is named below the newer one. Views are in one another no deeper than a statement may read.
    pub(super) fn views_over(
        &self,
        state: &CatalogState,
        (oid, needs, counts): (Oid, &str, &dyn Fn(&ViewInfo) -> bool),
        except: &[Oid],
        seen: &mut BTreeSet<Oid>,
    ) -> Dependents {
        let views: Vec<_> = state.views_of(oid).filter(|view| counts(view)).collect();
        let mut dependents = Dependents::new();
        for view in views.into_iter().rev() {
            if except.contains(&view.oid) || !seen.insert(view.oid) {
                continue;
            }
            let name = self.in_words(state, view.oid);
            let over = self.views_over(state, (view.oid, &name, &|_| true), except, seen);
            let mut found = vec![InTheWay {
                object: Object::View(view.oid),
                name,
                needs: needs.to_owned(),
            }];
            found.extend(in_order(over));
            dependents.push((view.oid, found));
        }
        dependents
    }

    /// Drops what is in the way of dropping `what`, or some objects.
    ///
    /// # Errors
    /// 2BP01 if there is anything, unless CASCADE was said.
    pub(super) async fn drop_in_the_way(
        &mut self,
        found: Vec<InTheWay>,
        what: Option<&str>,
        cascade: bool,
    ) -> SqlResult<()> {
        if found.is_empty() {
            return Ok(());
        }
        let reported = found.iter().map(|it| (it.name.clone(), it.needs.clone()));
        let reported = reported.collect();
        if !cascade {
            return Err(still_needed(what, reported));
        }
        self.report_cascade(reported);
        // Each after those that depend on it.
        for it in found.into_iter().rev() {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            match it.object {
                Object::View(view) => catalog.drop_view(txn, ddl, view).await?,
                Object::ForeignKey(table, key) => {
                    catalog.drop_constraint(txn, ddl, table, &key).await?;
                }
            }
        }
        Ok(())
    }

    /// The views over a relation, for DROP SCHEMA: the oid of each, what it is and what it depends
    /// on, in words.
    pub(super) fn views_on(&self, oid: Oid) -> Vec<(Oid, String, String)> {
        let state = self.view();
        let needs = self.in_words(&state, oid);
        let found = self.views_over(&state, (oid, &needs, &|_| true), &[], &mut BTreeSet::new());
        let found = in_order(found).into_iter();
        let views = found.filter_map(|it| match it.object {
            Object::View(view) => Some((view, it.name, it.needs)),
            Object::ForeignKey(..) => None,
        });
        views.collect()
    }

    /// The kind and the name of a relation.
    pub(super) fn in_words(&self, state: &CatalogState, oid: Oid) -> String {
        let (kind, schema, name) = match state.relation(oid) {
            Some(Relation::Table(it)) => ("table", Arc::clone(&it.schema), Arc::clone(&it.name)),
            Some(Relation::View(it)) => ("view", Arc::clone(&it.schema), Arc::clone(&it.name)),
            Some(Relation::Sequence(it)) => {
                ("sequence", Arc::clone(&it.schema), Arc::clone(&it.name))
            }
            Some(Relation::Index(..)) | None => return format!("relation {oid}"),
        };
        self.described(state, kind, oid, (&schema, &name))
    }
}
