//! `pg_catalog` and `information_schema`: PostgreSQL's views on the catalog, generated when a
//! statement reads them. Entry points: [`rows_of`], [`functions::call`]. The rules are in the
//! README beside this file.

mod builtin;
mod context;
mod deparse;
mod domains;
mod enums;
mod foreign_keys;
pub mod functions;
mod generate;
mod information;
mod keys;
mod relation_rows;
mod relations;
mod rows;
mod sequences;
mod shared_rows;
mod statistics;
mod type_texts;
mod view;
mod views;

use std::sync::Arc;

use evenkeel_exec::VirtualRows;

use crate::error::{SqlError, SqlResult};
use crate::functions::SessionVars;
pub use context::of_session as snapshot_of;
pub use keys::{CatalogKey, of as keys_of};
pub use relations::{RelationDef, all as relations, by_oid as relation_by_oid, find as relation};
pub use shared_rows::has_description;
pub use view::CatalogView;

/// All rows of a catalog relation as of now.
///
/// # Errors
/// Those of making them.
pub fn rows_of(schema: &str, name: &str, vars: &Arc<SessionVars>) -> SqlResult<Vec<VirtualRows>> {
    match relations::find(schema, name) {
        Some(def) => generate::rows(def, &context::of_session(vars)),
        None => {
            let message = format!("no catalog is called {schema}.{name}");
            Err(SqlError::internal(message))
        }
    }
}
