//! The catalog as the binder and the planner see it, by a trait.

use std::sync::Arc;

use evenkeel_types::{SqlState, SqlType};

use crate::bound::Query;
use crate::error::{PlanError, PlanResult};
use crate::relation::Relation;

/// One state of the catalog, with the session's way of looking names up.
pub trait Catalog: Send + Sync {
    /// A relation by name: in `schema` if one is given, else by the search path.
    ///
    /// # Errors
    /// Those of the catalog itself; a name that is not there is `None`.
    fn relation(&self, schema: Option<&str>, name: &str) -> PlanResult<Option<Arc<Relation>>>;
    /// Whether the database, whose relations alone can be named, has this name.
    fn is_database(&self, name: &str) -> bool;
    /// Whether a schema of that name exists.
    fn schema_exists(&self, schema: &str) -> bool;
    /// A type that was created, by name: in `schema` if one is given, else by the search path; in a
    /// text that is kept for a relation of the schema `home` there as well, and anywhere else. The
    /// built-in types are not asked for.
    fn type_named(&self, schema: Option<&str>, name: &str, home: Option<&str>) -> Option<SqlType>;
    /// The query of a view, whose targets are its columns.
    ///
    /// # Errors
    /// Those of reading its definition; 54001 where views within views make the statement too
    /// large.
    fn view(&self, relation: &Relation) -> PlanResult<Arc<Query>>;
}

/// A catalog of types alone, by the function that finds them: for texts that name no relation.
pub struct TypesOnly<F>(pub F);

impl<F: Fn(Option<&str>, &str) -> Option<SqlType> + Send + Sync> Catalog for TypesOnly<F> {
    fn relation(&self, _: Option<&str>, _: &str) -> PlanResult<Option<Arc<Relation>>> {
        Ok(None)
    }

    fn is_database(&self, _: &str) -> bool {
        false
    }

    fn schema_exists(&self, _: &str) -> bool {
        true
    }

    fn type_named(&self, schema: Option<&str>, name: &str, _: Option<&str>) -> Option<SqlType> {
        (self.0)(schema, name)
    }

    fn view(&self, relation: &Relation) -> PlanResult<Arc<Query>> {
        let message = format!("\"{}\" is not a view", relation.name);
        Err(PlanError::new(SqlState::INTERNAL_ERROR, message))
    }
}
