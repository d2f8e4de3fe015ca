//! The binder: from the statement as written to the statement with its meaning, by PostgreSQL's
//! rules of analysis. See the README.

mod aggregate;
mod aggregate_check;
mod assigned;
mod call;
mod candidates;
mod change;
mod check;
mod coerce;
mod columns;
mod common_type;
mod compare;
mod conflict;
mod cte;
mod cte_graph;
mod domains;
mod equal;
mod expr;
mod from;
mod functions;
mod grouping;
mod index;
mod join;
mod json;
mod lists;
mod locking;
mod mentions;
mod merge;
mod missing;
mod named;
mod names;
mod operators;
mod params;
mod pathway;
mod place;
mod poly;
mod query;
mod returning;
mod row_value;
mod scope;
mod setops;
mod simple;
mod slots;
mod sort;
mod star;
mod sublink;
mod tables;
mod targets;
mod type_name;
mod types;
mod view;
mod walk;
mod window;

use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_types::{CreatedType, SqlState, SqlType};

use crate::ast::Statement;
use crate::bound::{Bound, BoundStatement};
use crate::catalog::Catalog;
use crate::error::{PlanError, PlanResult};
use crate::relation::{Column, Relation};
use params::Params;
use scope::Scope;

pub use assigned::{AssignedTo, bind_assigned};
pub use check::{BoundCheck, bind_check, rename_check};
pub use domains::{BoundDomainCheck, bind_domain_check, domain_mentions};
pub use index::{BoundIndexExpr, bind_index_expression, bind_index_predicate, rename_index_expr};
pub use mentions::{MentionKind, TypeMention, type_mentions};
pub use row_value::{BoundRowValue, Kept, RowValue, bind_row_value, rename_generated};
pub use type_name::type_of;
pub use view::{BoundView, Reference, bind_view};

/// Expressions and queries within one another beyond which a statement is refused.
const MAX_DEPTH: usize = 5000;

/// Expressions and queries between two looks at whether the statement is cancelled.
const CANCEL_EVERY: u32 = 64;

/// The binder of one statement.
struct Binder<'a> {
    catalog: &'a dyn Catalog,
    session: &'a dyn Session,
    params: Params,
    /// The queries being bound, the innermost last.
    scopes: Vec<Scope>,
    /// How many expressions and queries are being bound within one another.
    depth: usize,
    /// How many have been begun.
    begun: u32,
    /// The relations that names stand for, where somebody asks.
    references: Option<Vec<Reference>>,
    /// The places of the text that hang on types, where somebody asks.
    mentions: Option<Vec<TypeMention>>,
    /// The relation or domain whose kept text is being bound.
    home: Option<Home>,
    /// The type of `VALUE` in the condition of a domain that is being bound.
    domain_value: Option<SqlType>,
}

/// The types among these, or of the elements of these, that were created.
fn created_in(types: impl Iterator<Item = SqlType>) -> Vec<SqlType> {
    types
        .filter_map(SqlType::created)
        .map(CreatedType::ty)
        .collect()
}

/// Where the types that a kept text names are looked for first.
struct Home {
    /// The types of the relation's columns, or those that the domain is over, that were created.
    types: Vec<SqlType>,
    /// The schema of the relation or the domain.
    schema: Arc<str>,
}

impl Home {
    fn of(relation: &Relation) -> Home {
        let types = relation.columns.iter().map(Column::declared);
        Home {
            types: created_in(types),
            schema: Arc::clone(&relation.schema),
        }
    }
}

/// Binds a statement. `given_params` are the types that the client declared for parameters; those
/// it did not declare get their types from their uses.
///
/// # Errors
/// PostgreSQL's, each with its SQLSTATE, message, detail, hint and position; 0A000 for what is not
/// built.
pub fn bind(
    statement: &Statement,
    catalog: &dyn Catalog,
    session: &dyn Session,
    given_params: &[Option<SqlType>],
) -> PlanResult<Bound> {
    let mut binder = Binder::new(catalog, session, Params::new(given_params));
    let statement = match statement {
        Statement::Query(query) => {
            BoundStatement::Query(Arc::new(binder.bind_query(query, query::Unknowns::Text)?))
        }
        Statement::Insert(insert) => BoundStatement::Change(Arc::new(binder.bind_insert(insert)?)),
        Statement::Update(update) => BoundStatement::Change(Arc::new(binder.bind_update(update)?)),
        Statement::Delete(delete) => BoundStatement::Change(Arc::new(binder.bind_delete(delete)?)),
        Statement::Merge(merge) => BoundStatement::Change(Arc::new(binder.bind_merge(merge)?)),
        Statement::Command(_) => return Err(not_built("a command")),
    };
    match &statement {
        BoundStatement::Query(query) => binder.params.check(query)?,
        BoundStatement::Change(change) => {
            binder.params.check(&change.query)?;
            if let Some(update) = change.conflict.iter().find_map(|c| c.update.as_ref()) {
                binder.params.check_targets(&update.targets)?;
                binder.params.check_exprs(&update.filter)?;
            }
            for clause in &change.clauses {
                binder.params.check_exprs(&clause.condition)?;
                binder.params.check_targets(&clause.targets)?;
            }
            if let Some(returning) = &change.returning {
                binder.params.check_targets(&returning.targets)?;
            }
        }
    }
    Ok(Bound {
        params: binder.params.finish()?,
        statement,
    })
}

fn not_built(command: &str) -> PlanError {
    PlanError::unsupported(format!("{command} is not supported by the planner"))
}

impl<'a> Binder<'a> {
    /// A binder that is within no query yet.
    fn new(catalog: &'a dyn Catalog, session: &'a dyn Session, params: Params) -> Binder<'a> {
        Binder {
            catalog,
            session,
            params,
            scopes: Vec::new(),
            depth: 0,
            begun: 0,
            references: None,
            mentions: None,
            home: None,
            domain_value: None,
        }
    }
}

impl Binder<'_> {
    /// Binds a text that the catalog keeps for a relation: the types that it names may be off the
    /// session's path.
    fn of_kept<T>(&mut self, relation: &Relation, bind: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.home.replace(Home::of(relation));
        // Places in it are none of the text that is bound.
        let mentions = self.mentions.take();
        let bound = bind(self);
        self.mentions = mentions;
        self.home = before;
        bound
    }

    /// Runs `f` one level deeper, with enough stack for it.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> PlanResult<T>) -> PlanResult<T> {
        if self.depth >= MAX_DEPTH {
            let message = "stack depth limit exceeded";
            return Err(PlanError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        self.begun = self.begun.wrapping_add(1);
        if self.begun.is_multiple_of(CANCEL_EVERY) {
            self.session.check_cancel()?;
        }
        self.depth += 1;
        let result = stacker::maybe_grow(walk::RED_ZONE, walk::STACK_PART, || f(self));
        self.depth -= 1;
        result
    }

    /// The query being bound. There is one whenever a clause is being bound.
    fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// The query `depth` levels further out than the one being bound.
    fn outer(&self, depth: usize) -> Option<&Scope> {
        let index = self.scopes.len().checked_sub(depth + 1)?;
        self.scopes.get(index)
    }
}
