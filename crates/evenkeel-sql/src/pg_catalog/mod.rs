//! `pg_catalog` and `information_schema`: PostgreSQL's views on the catalog, generated when a
//! statement is planned. Entry points: [`provider`], [`rewrite::rewrite`],
//! [`functions::register`]. The rules are in the README beside this file.

mod arrays;
mod builtin;
mod context;
mod deparse;
pub mod functions;
mod generate;
mod globals;
mod information;
mod objects;
mod relations;
pub mod rewrite;
mod rows;
mod snapshot;
mod statistics;

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;

use crate::error::{SqlError, SqlResult};
use crate::functions::SessionVars;
use snapshot::Snapshot;

/// The catalog relation of that name, with its rows as of now; `None` if there is none.
pub fn provider(
    schema: &str,
    name: &str,
    vars: &Arc<SessionVars>,
) -> Option<Arc<dyn TableProvider>> {
    relations::find(schema, name)?;
    match filled(schema, name, &context::of_session(vars)) {
        Ok(provider) => provider,
        Err(error) => {
            // Only a generator that does not fit its relation comes here; the tests run all.
            tracing::error!(%schema, %name, error = %error.message, "catalog relation");
            None
        }
    }
}

/// The relation over a snapshot.
fn filled(
    schema: &str,
    name: &str,
    snapshot: &Snapshot,
) -> SqlResult<Option<Arc<dyn TableProvider>>> {
    let Some(def) = relations::find(schema, name) else {
        return Ok(None);
    };
    let batches = generate::batches(def, snapshot)?;
    let table = MemTable::try_new(Arc::clone(&def.arrow), vec![batches]);
    let table = table.map_err(|error| SqlError::internal(error.to_string()))?;
    Ok(Some(Arc::new(table)))
}
