//! Where the executor gets rows from.

use std::sync::Arc;

use evenkeel_engine::table::Table;
use evenkeel_planner::relation::Relation;
use evenkeel_types::row::RowLayout;

use crate::error::ExecResult;
use crate::virtual_rows::VirtualRows;

/// The rows of relations; the session implements it over its catalog.
pub trait Relations: Send + Sync {
    /// The engine's table of a relation, and where the columns are in its rows.
    ///
    /// # Errors
    /// XX000 for a relation that the catalog state of the plan does not have.
    fn table(&self, relation: &Relation) -> ExecResult<(Arc<Table>, Arc<RowLayout>)>;
    /// The rows of a virtual relation, all columns, in parts that may be shared.
    ///
    /// # Errors
    /// Those of making them; the memory budget.
    fn virtual_rows(&self, relation: &Relation) -> ExecResult<Vec<VirtualRows>>;
}
