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
    /// The settings that its sessions begin with, in the order in which they were set first.
    pub settings: Arc<[(Arc<str>, Arc<str>)]>,
    /// The comment that a session of another database gave it last, empty if it took one away.
    /// None: it is in the database's own catalog.
    pub comment: Option<Arc<str>>,
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
        settings: Arc::default(),
        comment: None,
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
            match self.settings.is_empty() {
                true => Datum::Null,
                false => Datum::array(self.setting_texts().map(Datum::Text).collect()),
            },
            self.comment.as_deref().map_or(Datum::Null, Datum::from),
        ]
    }

    /// The settings as `pg_db_role_setting` has them: `name=value`.
    pub fn setting_texts(&self) -> impl Iterator<Item = String> {
        let settings = self.settings.iter();
        settings.map(|(name, value)| format!("{name}={value}"))
    }
}

/// A setting of a row; no name has a sign of equality.
fn setting(text: &str) -> Option<(Arc<str>, Arc<str>)> {
    let (name, value) = text.split_once('=')?;
    Some((name.into(), value.into()))
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
        Datum::Null,
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
    let settings = fields.texts_or_none()?;
    let settings = settings.iter().filter_map(|text| setting(text)).collect();
    let comment = fields.text_or_null()?.map(Into::into);
    let info = DatabaseInfo {
        oid,
        settings,
        comment,
        name: name.into(),
        is_template,
        allows_connections,
        connection_limit,
        files,
        place: Some(place),
    };
    Ok((oid, Some(info)))
}
