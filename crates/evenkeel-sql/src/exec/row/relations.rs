//! Where the row executor gets rows from: the engine's tables, and the catalogs that the server
//! makes.

use std::sync::Arc;

use evenkeel_engine::table::Table;
use evenkeel_exec::{ExecError, ExecResult, Relations, VirtualRows};
use evenkeel_planner::relation::Relation;
use evenkeel_types::TypeError;
use evenkeel_types::row::RowLayout;

use crate::exec::StatementCx;
use crate::pg_catalog;

/// The relations of the catalog state that a statement was compiled under.
pub struct CatalogRelations {
    cx: Arc<StatementCx>,
}

impl CatalogRelations {
    /// Those that a statement sees.
    pub fn new(cx: Arc<StatementCx>) -> CatalogRelations {
        CatalogRelations { cx }
    }
}

impl Relations for CatalogRelations {
    fn table(&self, relation: &Relation) -> ExecResult<(Arc<Table>, Arc<RowLayout>)> {
        let Some(table) = self.cx.view.table(relation.oid) else {
            let message = format!("relation {} is not in the catalog", relation.oid);
            return Err(TypeError::internal(message).into());
        };
        Ok((Arc::clone(&table.table), Arc::clone(&table.layout)))
    }

    fn virtual_rows(&self, relation: &Relation) -> ExecResult<Vec<VirtualRows>> {
        if self.cx.view.sequence(relation.oid).is_some() {
            let row = super::sequences::position(&self.cx, relation.oid);
            let row = row.map_err(|error| ExecError::Value(error.into()))?;
            return Ok(vec![row.map(|row| row.to_vec()).into_iter().collect()]);
        }
        let rows = pg_catalog::rows_of(&relation.schema, &relation.name, self.cx.vars());
        rows.map_err(|error| ExecError::Value(error.into()))
    }
}
