//! A database, and its row in `pg_database`.

use std::sync::Arc;

use evenkeel_engine::Tid;

use super::{Datum, Oid};
use crate::catalog::{CatalogFiles, DATABASE_OID, Fields};
use crate::error::SqlResult;

const TEMPLATE1_OID: Oid = 1;
const TEMPLATE0_OID: Oid = 4;

/// A database. Never changes: another definition is another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseInfo {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// `datistemplate`: it is not dropped.
    pub is_template: bool,
    /// `datallowconn`
    pub allows_connections: bool,
    /// `datconnlimit`: -1 for none. The one role is a superuser, whom it does not bind.
    pub connection_limit: i32,
    /// The files of its catalog.
    pub files: CatalogFiles,
    /// Its row, unless it is as in a new instance.
    pub(crate) place: Option<Tid>,
}

/// The databases of a new instance. `pg_database` stores them only once they change, and a row
/// without a name for one that was dropped.
pub(super) fn builtin() -> [DatabaseInfo; 3] {
    let database = |oid, name: &str, is_template| DatabaseInfo {
        oid,
        name: name.into(),
        is_template,
        allows_connections: oid != TEMPLATE0_OID,
        connection_limit: -1,
        files: CatalogFiles::new(oid),
        place: None,
    };
    [
        database(TEMPLATE1_OID, "template1", true),
        database(TEMPLATE0_OID, "template0", true),
        database(DATABASE_OID, "postgres", false),
    ]
}

impl DatabaseInfo {
    /// Whether every new instance has it.
    pub(super) fn is_builtin(oid: Oid) -> bool {
        builtin().iter().any(|info| info.oid == oid)
    }

    /// Whether it is one of the templates that every new instance has.
    pub fn is_builtin_template(&self) -> bool {
        [TEMPLATE0_OID, TEMPLATE1_OID].contains(&self.oid)
    }

    pub(super) fn row(&self) -> Vec<Datum> {
        vec![
            Datum::Oid(self.oid),
            (&*self.name).into(),
            Datum::Bool(self.is_template),
            Datum::Bool(self.allows_connections),
            Datum::Int4(self.connection_limit),
            self.files.text().as_str().into(),
        ]
    }
}

/// The row of a database of every new instance that was dropped.
pub(super) fn hidden_row(oid: Oid) -> Vec<Datum> {
    vec![
        Datum::Oid(oid),
        Datum::Null,
        Datum::Bool(false),
        Datum::Bool(false),
        Datum::Int4(-1),
        Datum::Null,
    ]
}

/// A row decoded: the oid, and the database unless it was dropped.
pub(super) fn read(place: Tid, values: Vec<Datum>) -> SqlResult<(Oid, Option<DatabaseInfo>)> {
    let mut fields = Fields::new(values, "pg_database");
    let oid = fields.oid()?;
    let Some(name) = fields.text_or_null()? else {
        return Ok((oid, None));
    };
    let (is_template, allows_connections) = (fields.bool()?, fields.bool()?);
    let connection_limit = fields.int4()?;
    let files = CatalogFiles::parse(oid, &fields.text()?)?;
    let info = DatabaseInfo {
        oid,
        name: name.into(),
        is_template,
        allows_connections,
        connection_limit,
        files,
        place: Some(place),
    };
    Ok((oid, Some(info)))
}
