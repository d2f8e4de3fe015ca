//! The catalog as the binder and the planner see it, by a trait.

use std::sync::Arc;

use crate::bound::Query;
use crate::error::PlanResult;
use crate::relation::Relation;

/// One state of the catalog, with the session's way of looking names up.
pub trait Catalog: Send + Sync {
    /// A relation by name: in `schema` if one is given, else by the search path.
    ///
    /// # Errors
    /// Those of the catalog itself; a name that is not there is `None`.
    fn relation(&self, schema: Option<&str>, name: &str) -> PlanResult<Option<Arc<Relation>>>;
    /// Whether a schema of that name exists.
    fn schema_exists(&self, schema: &str) -> bool;
    /// The query of a view, whose targets are its columns.
    ///
    /// # Errors
    /// Those of reading its definition; 54001 where views within views make the statement too
    /// large.
    fn view(&self, relation: &Relation) -> PlanResult<Arc<Query>>;
}
