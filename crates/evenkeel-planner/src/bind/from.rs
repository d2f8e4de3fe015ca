//! FROM: relations, common table expressions and subqueries, and what of them is visible where.

use std::sync::Arc;

use evenkeel_types::SqlState;

use super::Binder;
use super::query::Unknowns;
use super::scope::{EntryInfo, NsColumn, NsItem, Place};
use crate::ast::{self, Alias, FromItem, Pos, QualifiedName};
use crate::bound::{FromNode, RangeEntry, RangeKind};
use crate::error::{PlanError, PlanResult};
use crate::relation::{Relation, RelationKind};

/// An item of FROM that was bound.
#[derive(Debug)]
pub(super) struct BoundItem {
    pub(super) node: FromNode,
    /// Its own item of the namespace: its columns as a join sees them.
    pub(super) own: NsItem,
    /// All items that it makes visible.
    pub(super) visible: Vec<NsItem>,
}

/// A relation's entry before it is added.
struct NewEntry {
    entry: RangeEntry,
    info: EntryInfo,
}

fn no_info() -> EntryInfo {
    EntryInfo {
        aliased: false,
        relation: None,
        cte: None,
        join: false,
    }
}

/// The namespace item of an entry.
pub(super) fn item_of(rel: usize, entry: &RangeEntry) -> NsItem {
    let columns = entry.columns.iter().zip(&entry.types).enumerate();
    let columns = columns.map(|(column, (name, ty))| NsColumn {
        name: Arc::clone(name),
        rel,
        column,
        ty: *ty,
        hidden: false,
    });
    NsItem {
        rel,
        name: Arc::clone(&entry.alias),
        columns: columns.collect(),
        table_visible: true,
        columns_visible: true,
        lateral_only: false,
        lateral_ok: true,
        relation: None,
        scalar_function: false,
    }
}

/// Names the columns as the alias asks.
pub(super) fn rename_columns(
    kind: &str,
    entry: &mut RangeEntry,
    alias: Option<&Alias>,
) -> PlanResult<()> {
    let Some(alias) = alias else {
        return Ok(());
    };
    let available = entry.columns.len();
    if alias.columns.len() > available {
        let message = format!(
            "{kind} \"{}\" has {available} columns available but {} columns specified",
            alias.name.text,
            alias.columns.len()
        );
        return Err(PlanError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
    }
    for (column, name) in entry.columns.iter_mut().zip(&alias.columns) {
        *column = name.text.as_str().into();
    }
    Ok(())
}

/// Refuses two items of one name, unless they are two relations without alias of other schemas.
pub(super) fn check_conflicts(left: &[NsItem], right: &[NsItem]) -> PlanResult<()> {
    for b in right.iter().filter(|item| item.table_visible) {
        for a in left.iter().filter(|item| item.table_visible) {
            let other_relations = match (a.relation, b.relation) {
                (Some(a), Some(b)) => a != b,
                _ => false,
            };
            if a.name == b.name && !other_relations {
                let message = format!("table name \"{}\" specified more than once", b.name);
                return Err(PlanError::new(SqlState::DUPLICATE_ALIAS, message));
            }
        }
    }
    Ok(())
}

pub(super) fn set_lateral(items: &mut [NsItem], only: bool, ok: bool) {
    for item in items {
        item.lateral_only = only;
        item.lateral_ok = ok;
    }
}

impl Binder<'_> {
    /// FROM.
    pub(super) fn bind_from(&mut self, list: &[FromItem]) -> PlanResult<Vec<FromNode>> {
        let mut nodes = Vec::with_capacity(list.len());
        for item in list {
            let mut bound = self.bind_from_item(item)?;
            check_conflicts(&self.scope().namespace, &bound.visible)?;
            set_lateral(&mut bound.visible, true, true);
            self.scope().namespace.append(&mut bound.visible);
            nodes.push(bound.node);
        }
        set_lateral(&mut self.scope().namespace, false, true);
        Ok(nodes)
    }

    pub(super) fn bind_from_item(&mut self, item: &FromItem) -> PlanResult<BoundItem> {
        self.deeper(|binder| match item {
            FromItem::Table {
                name,
                alias,
                sample,
                ..
            } => {
                if *sample {
                    let message = "TABLESAMPLE is not supported";
                    return Err(PlanError::unsupported(message).at(name.at()));
                }
                binder.bind_table(name, alias.as_ref())
            }
            FromItem::Subquery {
                query,
                lateral,
                alias,
                ..
            } => binder.bind_subquery(query, *lateral, alias.as_ref()),
            FromItem::Functions { .. } => binder.bind_functions(item),
            FromItem::Join(join) => binder.bind_join(join),
        })
    }

    /// Adds an entry to the range table; nothing of it is visible yet.
    pub(super) fn add_entry(&mut self, entry: RangeEntry, info: EntryInfo) -> usize {
        let scope = self.scope();
        scope.range_table.push(entry);
        scope.info.push(info);
        scope.range_table.len() - 1
    }

    /// Adds an entry that is visible at once.
    pub(super) fn add_visible(&mut self, entry: RangeEntry) -> usize {
        let rel = self.add_entry(entry, no_info());
        let scope = self.scope();
        let item = item_of(rel, &scope.range_table[rel]);
        scope.namespace.push(item);
        rel
    }

    /// Adds an entry as an item of FROM.
    pub(super) fn add_item(&mut self, entry: RangeEntry, info: EntryInfo) -> BoundItem {
        let relation = info.relation.as_ref().filter(|_| !info.aliased);
        let relation = relation.map(|(_, oid)| *oid);
        let rel = self.add_entry(entry, info);
        let mut own = item_of(rel, &self.scope().range_table[rel]);
        own.relation = relation;
        BoundItem {
            node: FromNode::Entry(rel),
            visible: vec![own.clone()],
            own,
        }
    }

    fn bind_table(&mut self, name: &QualifiedName, alias: Option<&Alias>) -> PlanResult<BoundItem> {
        let mut new = match self.find_cte(name)? {
            Some(new) => new,
            None => {
                let relation = self.open_relation(name)?;
                self.note_reference(name, &relation, alias.is_some());
                self.relation_entry(relation)?
            }
        };
        if let Some(alias) = alias {
            new.entry.alias = alias.name.text.as_str().into();
            new.info.aliased = true;
        }
        rename_columns("table", &mut new.entry, alias)?;
        let item = self.add_item(new.entry, new.info);
        if let FromNode::Entry(rel) = item.node {
            self.bind_indexes(rel)?;
            self.bind_virtuals(rel)?;
        }
        Ok(item)
    }

    /// The relation of a name.
    pub(super) fn open_relation(&self, name: &QualifiedName) -> PlanResult<Arc<Relation>> {
        if name.parts.len() > 3 {
            let message = format!(
                "improper relation name (too many dotted names): {}",
                name.display()
            );
            return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(name.at()));
        }
        if let [database, _, _] = name.parts.as_slice()
            && !self.catalog.is_database(&database.text)
        {
            let message = format!(
                "cross-database references are not implemented: \"{}\"",
                name.display()
            );
            return Err(PlanError::unsupported(message).at(name.at()));
        }
        let schema = name.schema();
        if let Some(relation) = self.catalog.relation(schema, name.last())? {
            return Ok(relation);
        }
        let shown = match schema {
            Some(schema) => format!("{schema}.{}", name.last()),
            None => name.last().to_owned(),
        };
        let message = format!("relation \"{shown}\" does not exist");
        let error = PlanError::new(SqlState::UNDEFINED_TABLE, message).at(name.at());
        let later = |text: &str| {
            let mut scopes = self.scopes.iter();
            scopes.any(|scope| scope.future_ctes.iter().any(|cte| cte == text))
        };
        Err(if schema.is_none() && later(name.last()) {
            error
                .detail(format!(
                    "There is a WITH item named \"{}\", but it cannot be referenced from this \
                     part of the query.",
                    name.last()
                ))
                .hint(
                    "Use WITH RECURSIVE, or re-order the WITH items to remove forward references.",
                )
        } else {
            error
        })
    }

    fn relation_entry(&mut self, relation: Arc<Relation>) -> PlanResult<NewEntry> {
        let info = EntryInfo {
            relation: Some((Arc::clone(&relation.name), relation.oid)),
            ..no_info()
        };
        let shown = relation.columns.len();
        let shown = shown.saturating_sub(relation.past.as_ref().map_or(0, |past| past.hidden));
        let columns = &relation.columns[..shown];
        let entry = RangeEntry {
            alias: Arc::clone(&relation.name),
            columns: columns.iter().map(|c| Arc::clone(&c.name)).collect(),
            types: columns.iter().map(|column| column.declared()).collect(),
            kind: match relation.kind {
                RelationKind::View => RangeKind::Subquery(self.catalog.view(&relation)?),
                RelationKind::Table | RelationKind::Virtual | RelationKind::Sequence => {
                    RangeKind::Relation(relation)
                }
            },
            lateral: false,
            indexes: Vec::new(),
            virtuals: Vec::new(),
        };
        Ok(NewEntry { entry, info })
    }

    /// The common table expression that a name means, counting the reference.
    fn find_cte(&mut self, name: &QualifiedName) -> PlanResult<Option<NewEntry>> {
        let [only] = name.parts.as_slice() else {
            return Ok(None);
        };
        for depth in 0..self.scopes.len() {
            let index = self.scopes.len() - 1 - depth;
            let ctes = &mut self.scopes[index].ctes;
            let Some(cte) = ctes.iter().rposition(|slot| *slot.name == *only.text) else {
                continue;
            };
            let slot = &mut ctes[cte];
            let change = slot.bound.as_ref().and_then(|cte| cte.change.as_ref());
            if change.is_some_and(|change| change.before_after.is_none()) {
                let message = format!(
                    "WITH query \"{}\" does not have a RETURNING clause",
                    slot.name
                );
                return Err(PlanError::unsupported(message).at(name.at()));
            }
            let working = slot.bound.is_none();
            if !working {
                slot.references += 1;
            }
            let entry = RangeEntry {
                alias: Arc::clone(&slot.name),
                columns: slot.columns.clone(),
                types: slot.types.clone(),
                kind: RangeKind::Cte {
                    depth,
                    cte,
                    working,
                },
                lateral: false,
                indexes: Vec::new(),
                virtuals: Vec::new(),
            };
            let info = EntryInfo {
                cte: Some(Arc::clone(&slot.name)),
                ..no_info()
            };
            return Ok(Some(NewEntry { entry, info }));
        }
        Ok(None)
    }

    fn bind_subquery(
        &mut self,
        query: &ast::Query,
        lateral: bool,
        alias: Option<&Alias>,
    ) -> PlanResult<BoundItem> {
        let scope = self.scope();
        let place = std::mem::replace(&mut scope.place, Place::FromSubquery);
        let active = std::mem::replace(&mut scope.lateral_active, lateral);
        let bound = self.bind_query(query, Unknowns::Text)?;
        let scope = self.scope();
        scope.place = place;
        scope.lateral_active = active;
        let shown = bound.targets.iter().filter(|target| !target.junk);
        let mut entry = RangeEntry {
            alias: match alias {
                Some(alias) => alias.name.text.as_str().into(),
                None => "unnamed_subquery".into(),
            },
            columns: shown
                .clone()
                .map(|target| Arc::clone(&target.name))
                .collect(),
            types: shown.map(|target| target.expr.ty).collect(),
            kind: RangeKind::Subquery(Arc::new(bound)),
            lateral,
            indexes: Vec::new(),
            virtuals: Vec::new(),
        };
        rename_columns("table", &mut entry, alias)?;
        let info = EntryInfo {
            aliased: alias.is_some(),
            ..no_info()
        };
        let mut item = self.add_item(entry, info);
        if alias.is_none() {
            for visible in &mut item.visible {
                visible.table_visible = false;
            }
        }
        Ok(item)
    }

    /// Adds the entry of a join.
    pub(super) fn add_join(&mut self, entry: RangeEntry, aliased: bool) -> usize {
        let info = EntryInfo {
            aliased,
            join: true,
            ..no_info()
        };
        self.add_entry(entry, info)
    }

    /// Adds the entry of functions or of something that stands in their place.
    pub(super) fn add_functions(&mut self, entry: RangeEntry, aliased: bool) -> BoundItem {
        let info = EntryInfo {
            aliased,
            ..no_info()
        };
        self.add_item(entry, info)
    }

    /// Refuses a name list that names more columns than there are; `at` is the WITH item's.
    pub(super) fn check_names(cte: &ast::Cte, available: usize, at: Pos) -> PlanResult<()> {
        if cte.columns.len() <= available {
            return Ok(());
        }
        let message = format!(
            "WITH query \"{}\" has {available} columns available but {} columns specified",
            cte.name.text,
            cte.columns.len()
        );
        Err(PlanError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(at))
    }
}
