//! Views: the query that one stands for, and the relations and columns that it looks at.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use evenkeel_expr::call::Session;

use super::Binder;
use super::mentions::TypeMention;
use super::params::Params;
use super::query::Unknowns;
use super::walk::{self, Enter};
use crate::ast::{self, QualifiedName};
use crate::bound::{ExprKind, Query, RangeKind, Var, WHOLE_ROW};
use crate::catalog::Catalog;
use crate::error::PlanResult;
use crate::relation::{Oid, Relation};

/// A name in FROM that stands for a relation.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The schema that was said.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// Where it begins in the text.
    pub start: usize,
    /// Where its last part begins.
    pub last: usize,
    /// Whether an alias follows.
    pub aliased: bool,
    /// The relation.
    pub relation: Arc<Relation>,
}

/// A view's query.
#[derive(Debug)]
pub struct BoundView {
    /// Its meaning.
    pub query: Arc<Query>,
    /// The names in it that stand for relations, in the order of the text.
    pub references: Vec<Reference>,
    /// The places in it that hang on types.
    pub mentions: Vec<TypeMention>,
}

impl BoundView {
    /// The columns of those relations that it looks at, from 0.
    #[must_use]
    pub fn columns(&self) -> BTreeSet<(Oid, usize)> {
        let mut columns = BTreeSet::new();
        each_query(&self.query, &mut |query| own_columns(query, &mut columns));
        // Those of the views in it are theirs.
        let named = self.references.iter().map(|it| it.relation.oid);
        let named: BTreeSet<Oid> = named.collect();
        columns.retain(|(oid, _)| named.contains(oid));
        columns
    }
}

/// Binds a view's query.
///
/// # Errors
/// PostgreSQL's of the binder; 42P02 for parameters.
pub fn bind_view(
    query: &ast::Query,
    catalog: &dyn Catalog,
    session: &dyn Session,
) -> PlanResult<BoundView> {
    let mut binder = Binder::new(catalog, session, Params::new(&[]));
    binder.references = Some(Vec::new());
    binder.mentions = Some(Vec::new());
    let query = binder.bind_query(query, Unknowns::Text)?;
    binder.refuse_parameters()?;
    let mentions = binder.take_mentions();
    let mut references = binder.references.unwrap_or_default();
    references.sort_by_key(|reference| reference.start);
    Ok(BoundView {
        query: Arc::new(query),
        references,
        mentions,
    })
}

impl Binder<'_> {
    pub(super) fn note_reference(
        &mut self,
        name: &QualifiedName,
        relation: &Arc<Relation>,
        aliased: bool,
    ) {
        if let Some(references) = &mut self.references {
            references.push(Reference {
                schema: name.schema().map(str::to_owned),
                name: name.last().to_owned(),
                start: name.at().0 as usize,
                last: name.parts.last().map_or(0, |part| part.at.0 as usize),
                aliased,
                relation: Arc::clone(relation),
            });
        }
    }
}

/// Calls `f` for a query and those within it.
fn each_query(query: &Query, f: &mut dyn FnMut(&Query)) {
    stacker::maybe_grow(walk::RED_ZONE, walk::STACK_PART, || {
        f(query);
        for cte in &query.ctes {
            each_query(&cte.query, f);
        }
        for entry in &query.range_table {
            if let RangeKind::Subquery(inner) = &entry.kind {
                each_query(inner, f);
            }
        }
        walk::walk_query(query, 0, &mut |expr, level| {
            if level > 0 {
                return Enter::No;
            }
            if let ExprKind::Sublink(sublink) = &expr.kind {
                each_query(&sublink.query, f);
            }
            Enter::Yes
        });
    });
}

/// Adds the columns of a query's relations that anything in it, or within it, looks at. A join's
/// columns stand for those of its sides only where they are looked at.
fn own_columns(query: &Query, columns: &mut BTreeSet<(Oid, usize)>) {
    let mut looks: HashMap<(usize, usize), i64> = HashMap::new();
    let mut count = |var: Var, by| *looks.entry((var.rel, var.column)).or_default() += by;
    walk::walk_query(query, 0, &mut |expr, level| {
        if let ExprKind::Var(var) = &expr.kind
            && var.depth == level
        {
            count(*var, 1);
        }
        Enter::Yes
    });
    for entry in &query.range_table {
        if let RangeKind::Join { columns } = &entry.kind {
            for_each_var(columns, &mut |var| count(var, -1));
        }
    }
    let looked = looks.into_iter().filter(|(_, count)| *count > 0);
    let mut rest: Vec<(usize, usize)> = looked.map(|(column, _)| column).collect();
    while let Some((rel, column)) = rest.pop() {
        match query.range_table.get(rel).map(|entry| &entry.kind) {
            Some(RangeKind::Relation(relation)) if column == WHOLE_ROW => {
                columns.extend((0..relation.columns.len()).map(|at| (relation.oid, at)));
            }
            Some(RangeKind::Relation(relation)) => {
                columns.insert((relation.oid, column));
            }
            Some(RangeKind::Join { columns }) if column == WHOLE_ROW => {
                for_each_var(columns, &mut |var| rest.push((var.rel, var.column)));
            }
            Some(RangeKind::Join { columns }) => {
                let column = columns.get(column).map(std::slice::from_ref);
                let add = &mut |var: Var| rest.push((var.rel, var.column));
                for_each_var(column.unwrap_or_default(), add);
            }
            _ => {}
        }
    }
}

fn for_each_var(exprs: &[crate::bound::Expr], f: &mut dyn FnMut(Var)) {
    for expr in exprs {
        walk::walk(expr, 0, &mut |expr, level| {
            if let ExprKind::Var(var) = &expr.kind
                && var.depth == level
            {
                f(*var);
            }
            Enter::Yes
        });
    }
}
