//! Expressions that stand outside of any query and are assigned to something: defaults of columns
//! and arguments of EXECUTE.

use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_expr::proc::CastContext;
use evenkeel_types::{SqlState, SqlType};

use super::params::Params;
use super::scope::Place;
use super::{Binder, place, types};
use crate::ast::{self, Pos};
use crate::bound::{Bound, BoundStatement, Query, Target};
use crate::catalog::Catalog;
use crate::error::{PlanError, PlanResult};

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

    fn mismatch(self, number: usize, (from, at): (SqlType, Pos), to: SqlType) -> PlanError {
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
        let error = PlanError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint);
        match self {
            // As in PostgreSQL.
            AssignedTo::Column(_) => error,
            AssignedTo::Parameters => error.at(at),
        }
    }
}

/// Binds expressions as values of these types, one each, in one row. Positions are of the text that
/// they were read from.
///
/// # Errors
/// PostgreSQL's of the binder; 42804 for a value of another type.
pub fn bind_assigned(
    list: &[ast::Expr],
    wanted: &[SqlType],
    to: AssignedTo<'_>,
    catalog: &dyn Catalog,
    session: &dyn Session,
) -> PlanResult<Bound> {
    let mut binder = Binder::new(catalog, session, Params::new(&[]));
    binder.scope().place = to.place();
    let mut targets = Vec::with_capacity(list.len());
    for (number, (item, wanted)) in list.iter().zip(wanted).enumerate() {
        let value = binder.bind_expr(item)?;
        let (from, at) = (value.ty, place::of(&value));
        let value = binder.coerce_to_target(value, *wanted, CastContext::Assignment, Pos::NONE)?;
        let expr = value.ok_or_else(|| to.mismatch(number, (from, at), *wanted))?;
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
