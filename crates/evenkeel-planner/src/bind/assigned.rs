//! Expressions that stand outside of any query and are assigned to something: defaults of columns
//! and arguments of EXECUTE.

use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_expr::proc::CastContext;
use evenkeel_types::{SqlState, SqlType};

use super::params::Params;
use super::scope::{Place, Scope};
use super::{Binder, place, types};
use crate::ast::{self, Distinct, Pos, QueryBody, Statement};
use crate::bound::{Bound, BoundStatement, Query, Target};
use crate::catalog::Catalog;
use crate::error::{PlanError, PlanResult};
use crate::parser;

/// Target of the assignment of expressions.
#[derive(Debug, Clone, Copy)]
pub enum AssignedTo<'a> {
    /// A column, of which each is a default.
    Column(&'a str),
    /// The parameters of a prepared statement, in order.
    Parameters,
}

impl AssignedTo<'_> {
    fn place(self) -> Place {
        match self {
            AssignedTo::Column(_) => Place::Default,
            AssignedTo::Parameters => Place::ExecuteArgument,
        }
    }

    fn mismatch(self, number: usize, from: SqlType, to: SqlType) -> PlanError {
        let (from, to) = (types::name(from), types::name(to));
        let message = match self {
            AssignedTo::Column(name) => format!(
                "column \"{name}\" is of type {to} but default expression is of type {from}"
            ),
            AssignedTo::Parameters => format!(
                "parameter ${} of type {from} cannot be coerced to the expected type {to}",
                number + 1
            ),
        };
        let hint = "You will need to rewrite or cast the expression.";
        PlanError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint)
    }
}

/// The select list of `SELECT …`, with nothing else in the text.
///
/// # Errors
/// PostgreSQL's of the parser; 42601 for any other text.
pub fn value_list(text: &str) -> PlanResult<Vec<ast::Target>> {
    let parsed = parser::parse_one(text)?;
    match parsed.map(|parsed| parsed.statement) {
        Some(Statement::Query(query)) => list_of(*query),
        _ => Err(not_a_list()),
    }
}

/// Binds a [`value_list`] as values of these types, one each, in one row.
///
/// # Errors
/// PostgreSQL's of the binder; 42804 for a value of another type.
pub fn bind_assigned(
    list: &[ast::Target],
    wanted: &[SqlType],
    to: AssignedTo<'_>,
    catalog: &dyn Catalog,
    session: &dyn Session,
) -> PlanResult<Bound> {
    if list.len() != wanted.len() {
        return Err(not_a_list());
    }
    let mut binder = Binder {
        catalog,
        session,
        params: Params::new(&[]),
        scopes: vec![Scope::default()],
        depth: 0,
    };
    binder.scope().place = to.place();
    let mut targets = Vec::with_capacity(list.len());
    for (number, (item, wanted)) in list.iter().zip(wanted).enumerate() {
        let value = binder.bind_expr(&item.value)?;
        let (from, at) = (value.ty, place::of(&value));
        let value = binder.coerce_to_target(value, *wanted, CastContext::Assignment, Pos::NONE)?;
        let expr = value.ok_or_else(|| to.mismatch(number, from, *wanted).at(at))?;
        targets.push(Target {
            expr,
            name: Arc::from("value"),
            junk: false,
        });
    }
    let query = Query {
        targets,
        ..Query::default()
    };
    binder.params.check(&query)?;
    Ok(Bound {
        params: binder.params.finish()?,
        statement: BoundStatement::Query(Arc::new(query)),
    })
}

fn not_a_list() -> PlanError {
    PlanError::new(SqlState::SYNTAX_ERROR, "syntax error in a list of values")
}

/// The select list of a query that has nothing else.
fn list_of(query: ast::Query) -> PlanResult<Vec<ast::Target>> {
    let bare = query.with.is_none()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.locking.is_empty();
    match query.body {
        QueryBody::Select(select) if bare => {
            let bare = select.distinct == Distinct::All
                && select.from.is_empty()
                && select.filter.is_none()
                && select.group_by.is_empty()
                && select.having.is_none()
                && select.windows.is_empty()
                && select.into.is_none();
            if bare {
                Ok(select.targets)
            } else {
                Err(not_a_list())
            }
        }
        _ => Err(not_a_list()),
    }
}
