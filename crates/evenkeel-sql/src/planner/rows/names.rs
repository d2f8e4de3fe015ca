//! The catalog as a statement's names see it, views included.
//!
//! A view is stored as it was written, with the relations that its names stood for and the columns
//! that those had. It is bound again in each statement, with these names and no others: it means
//! the same whatever is called otherwise, added or first in the search path since.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_planner::ast::Statement;
use evenkeel_planner::bind::{self, BoundView, TypeMention};
use evenkeel_planner::bound::{Query, Target};
use evenkeel_planner::catalog::Catalog;
use evenkeel_planner::relation::{Past, Relation};
use evenkeel_planner::{PlanError, PlanResult, parser};
use evenkeel_types::{IntervalStyle, SqlType, TimeZone, TypeContext};
use parking_lot::Mutex;

use super::relations::{relation_of, sequence, view, virtual_relation};
use crate::catalog::{self, Oid, ReadUnder, ViewInfo, ViewReference};
use crate::deep::on_deep_stack;
use crate::error::SqlState;
use crate::exec::StatementCx;
use crate::exec::row::RowSession;
use crate::pg_catalog;
use crate::settings::date_order;

/// Views in one another.
const NESTED_MAX: usize = 100;
/// Views of a statement, each as often as it is read.
const VIEWS_MAX: usize = 1_000;
/// Levels of the views of a statement, in sum, that an ordinary stack carries.
const SHALLOW: usize = 64;

/// The names that a statement may look up.
pub struct Names {
    cx: Arc<StatementCx>,
    views: Expansions,
}

impl Names {
    /// Those that a statement sees.
    pub fn new(cx: Arc<StatementCx>) -> Names {
        Names {
            cx,
            views: Expansions::default(),
        }
    }

    /// Whether its views make the statement too deep for an ordinary stack.
    pub fn are_deep(&self) -> bool {
        self.views.are_deep()
    }

    /// A relation by oid.
    fn by_oid(&self, oid: Oid) -> Option<Arc<Relation>> {
        let def = || pg_catalog::relation_by_oid(oid).map(virtual_relation);
        self.cx
            .view
            .relation(oid)
            .and_then(|it| self.known(&it))
            .or_else(def)
    }

    fn known(&self, relation: &catalog::Relation) -> Option<Arc<Relation>> {
        match relation {
            catalog::Relation::Table(table) => Some(Arc::new(relation_of(table, &self.cx.view))),
            catalog::Relation::Sequence(info) => Some(Arc::new(sequence(info))),
            catalog::Relation::View(info) => Some(Arc::new(view(info))),
            catalog::Relation::Index(..) => None,
        }
    }

    /// Whether it is a temporary table of another session.
    fn is_foreign(&self, oid: Oid) -> bool {
        let own = self.cx.seed.search_path.temporary();
        let table = self.cx.view.table(oid);
        table.is_some_and(|table| table.is_temporary() && Some(&*table.schema) != own)
    }

    fn in_schema(&self, schema: &str, name: &str) -> Option<Arc<Relation>> {
        let schema = self.cx.seed.search_path.meant(schema);
        if let Some(def) = pg_catalog::relation(schema, name) {
            return Some(virtual_relation(def));
        }
        self.known(&self.cx.view.find(Some(schema), name, &[])?)
    }
}

impl Catalog for Names {
    fn relation(&self, schema: Option<&str>, name: &str) -> PlanResult<Option<Arc<Relation>>> {
        if let Some(schema) = schema {
            let found = self.in_schema(schema, name);
            return match &found {
                Some(relation) if self.is_foreign(relation.oid) => {
                    let message = "cannot access temporary tables of other sessions";
                    Err(PlanError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
                }
                _ => Ok(found),
            };
        }
        let mut schemas = self.cx.seed.search_path.all();
        Ok(schemas.find_map(|schema| self.in_schema(schema, name)))
    }

    fn is_database(&self, name: &str) -> bool {
        self.cx.seed.database == name
    }

    fn schema_exists(&self, schema: &str) -> bool {
        let schema = self.cx.seed.search_path.meant(schema);
        self.cx.view.schema_oid(schema).is_some()
    }

    fn type_named(&self, schema: Option<&str>, name: &str, home: Option<&str>) -> Option<SqlType> {
        let path = &self.cx.seed.search_path;
        let schema = schema.map(|schema| path.meant(schema));
        match (schema, home) {
            (None, Some(home)) => self.cx.view.type_kept(name, home, path),
            _ => self.cx.view.type_named(schema, name, path),
        }
    }

    fn view(&self, relation: &Relation) -> PlanResult<Arc<Query>> {
        self.expand(relation, 0)
    }
}

/// The views that a statement has read.
#[derive(Default)]
struct Expansions(Mutex<Expanded>);

#[derive(Default)]
struct Expanded {
    /// Their queries, and how many views each stands for.
    queries: HashMap<Oid, (Arc<Query>, usize)>,
    /// How many were read, those within others included.
    count: usize,
    /// Levels of them all.
    depth: usize,
}

impl Expansions {
    /// Whether the statement is too deep for an ordinary stack.
    fn are_deep(&self) -> bool {
        self.0.lock().depth > SHALLOW
    }
}

impl Drop for Expansions {
    fn drop(&mut self) {
        let queries = std::mem::take(&mut self.0.get_mut().queries);
        if self.are_deep() {
            on_deep_stack(move || drop(queries));
        }
    }
}

fn too_many() -> PlanError {
    let message = "stack depth limit exceeded";
    let error = PlanError::new(SqlState::STATEMENT_TOO_COMPLEX, message);
    error.detail("The views of the statement are too many, or too deep in one another.")
}

fn broken(view: &Relation, why: &str) -> PlanError {
    let message = format!("view \"{}\" cannot be read: {why}", view.name);
    PlanError::new(SqlState::INTERNAL_ERROR, message)
}

impl Names {
    /// The query of a view that is named within so many others.
    fn expand(&self, relation: &Relation, nested: usize) -> PlanResult<Arc<Query>> {
        let expanded = &self.views.0;
        {
            let mut expanded = expanded.lock();
            let known = expanded.queries.get(&relation.oid).cloned();
            let (query, count) = known.map_or((None, 1), |(query, count)| (Some(query), count));
            expanded.count += count;
            if nested >= NESTED_MAX || expanded.count > VIEWS_MAX {
                return Err(too_many());
            }
            if let Some(query) = query {
                return Ok(query);
            }
        }
        let info = self.cx.view.view(relation.oid).cloned();
        let info = info.ok_or_else(|| broken(relation, "it is not there any more"))?;
        let before = expanded.lock().count;
        let bound = self.bound_view(&info, relation, nested)?;
        let mut expanded = expanded.lock();
        let count = 1 + expanded.count - before;
        let query = Arc::clone(&bound.query);
        expanded.queries.insert(relation.oid, (query, count));
        Ok(bound.query)
    }

    /// The places of a view's text that hang on types.
    pub(super) fn mentions_in(&self, info: &ViewInfo) -> PlanResult<Vec<TypeMention>> {
        let relation = view(info);
        Ok(self.bound_view(info, &relation, 0)?.mentions)
    }

    /// The statement's session with the settings under which a view's constants are read.
    fn read_under(&self, read_under: &ReadUnder) -> Arc<StatementCx> {
        let cx = &self.cx;
        let types = TypeContext {
            time_zone: TimeZone::parse(&read_under.time_zone).unwrap_or_default(),
            now_micros: read_under.now,
            date_order: date_order(&read_under.date_style),
            interval_style: IntervalStyle::parse(&read_under.interval_style).unwrap_or_default(),
            ..cx.types.clone()
        };
        let (began, now) = (cx.transaction_start, cx.statement_start);
        let (view, seed) = (Arc::clone(&cx.view), Arc::clone(&cx.seed));
        Arc::new(StatementCx::new(types, began, now, view, seed))
    }

    fn bound_view(
        &self,
        info: &ViewInfo,
        relation: &Relation,
        nested: usize,
    ) -> PlanResult<BoundView> {
        let measured = parser::measure(&*info.text)?;
        self.views.0.lock().depth += measured.shape().depth;
        let parsed = measured.parse_one()?.map(|parsed| parsed.statement);
        let Some(Statement::Query(query)) = parsed else {
            return Err(broken(relation, "its text is not a query"));
        };
        let names = ViewNames {
            names: self,
            info,
            nested: nested + 1,
        };
        let session = RowSession::new(self.read_under(&info.read_under));
        let bound = bind::bind_view(&query, &names, &session).map_err(|error| PlanError {
            at: None,
            context: Some(format!("view \"{}\"", relation.name)),
            ..error
        })?;
        let types = shown(&bound.query).map(|target| target.expr.ty);
        if !types.eq(info.columns.iter().map(|column| column.ty)) {
            return Err(broken(relation, "its columns have other types now"));
        }
        Ok(bound)
    }
}

/// The columns of a query.
pub(super) fn shown(query: &Query) -> impl Iterator<Item = &Target> {
    query.targets.iter().filter(|target| !target.junk)
}

/// The names in a view's text.
struct ViewNames<'n> {
    names: &'n Names,
    info: &'n ViewInfo,
    nested: usize,
}

impl Catalog for ViewNames<'_> {
    fn relation(&self, schema: Option<&str>, name: &str) -> PlanResult<Option<Arc<Relation>>> {
        let mut references = self.info.references.iter();
        let meant = references.find(|it| it.schema.as_deref() == schema && it.name == name);
        let Some(meant) = meant else { return Ok(None) };
        let relation = self.names.by_oid(meant.oid);
        Ok(relation.map(|relation| as_it_was(&relation, meant, self.names)))
    }

    /// The text may have been written in a database that this one is a copy of, or under another
    /// name of it: the relations are known by their oids.
    fn is_database(&self, _: &str) -> bool {
        true
    }

    fn schema_exists(&self, schema: &str) -> bool {
        self.names.schema_exists(schema)
    }

    fn type_named(&self, schema: Option<&str>, name: &str, _: Option<&str>) -> Option<SqlType> {
        self.names.type_named(schema, name, Some(&self.info.schema))
    }

    fn view(&self, relation: &Relation) -> PlanResult<Arc<Query>> {
        self.names.expand(relation, self.nested)
    }
}

/// A relation under the names of its columns that it had when the view was made, without the
/// columns that came later: they are the last ones.
fn as_it_was(now: &Relation, then: &ViewReference, names: &Names) -> Arc<Relation> {
    let numbers = numbers(now, names);
    let named = |number: i16| then.columns.iter().find(|column| column.attnum == number);
    let mut relation = Relation::clone(now);
    let kept_names = now.kept_names();
    // The names by which the text refers to its columns.
    relation.name = then.name.as_str().into();
    if let Some(schema) = &then.schema {
        relation.schema = schema.as_str().into();
    }
    let mut hidden = 0;
    for (column, number) in relation.columns.iter_mut().zip(numbers) {
        match named(number) {
            Some(known) => column.name = Arc::clone(&known.name),
            None => hidden += 1,
        }
    }
    relation.past = Some(Past {
        hidden,
        names: kept_names,
    });
    Arc::new(relation)
}

/// The numbers of a relation's columns.
pub(super) fn numbers(relation: &Relation, names: &Names) -> Vec<i16> {
    match names.cx.view.table(relation.oid) {
        Some(table) => table.columns.iter().map(|column| column.attnum).collect(),
        None => (1..).take(relation.columns.len()).collect(),
    }
}
