//! Source of the generated catalogs: one session's view of the catalog, without the machinery that
//! reads and writes rows.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_exec::VirtualRows;
use parking_lot::Mutex;

use super::relations;
use crate::catalog::{
    CatalogState, DATABASE_OID, DroppedColumn, ForeignKeyInfo, Generated, Identity, IndexExpr,
    NotNull, OperatorClass, RelationStats, SequenceInfo, ViewInfo, table_id,
};
use crate::error::SqlResult;
use crate::functions::SettingsAccess;
use crate::instance::Instance;
use crate::named_statements::NamedStatements;
use crate::quote::quote_ident;
use crate::search_path::SearchPath;
use crate::types::SqlType;

/// Oid of the schema `pg_catalog`.
pub const PG_CATALOG: u32 = 11;
/// Oid of the schema `information_schema`.
pub const INFORMATION_SCHEMA: u32 = 13_183;
/// Oid of the schema `public`.
pub const PUBLIC: u32 = 2200;
/// Oid of the one role.
pub const OWNER: u32 = 10;
/// Oid of the role `pg_database_owner`, whose the schema `public` is.
pub const DATABASE_OWNER: u32 = 6171;
/// Its name.
pub const DATABASE_OWNER_NAME: &str = "pg_database_owner";
/// Oid of the access method `heap`.
pub const HEAP_AM: u32 = 2;
/// Oid of the access method `btree`.
pub const BTREE_AM: u32 = 403;

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    /// Name.
    pub name: Arc<str>,
    /// The type of its values.
    pub ty: SqlType,
    /// The type that it was declared with.
    pub declared: SqlType,
    /// `attnum`.
    pub attnum: i16,
    /// The NOT NULL constraint.
    pub not_null: Option<NotNull>,
    /// DEFAULT, as SQL text.
    pub default: Option<Arc<str>>,
    /// GENERATED AS IDENTITY, with the sequence's oid.
    pub identity: Option<(Identity, u32)>,
    /// GENERATED ALWAYS AS (…)
    pub generated: Option<Arc<Generated>>,
    /// `atthasmissing`
    pub has_missing: bool,
}

/// A column of an index's key.
#[derive(Debug, Clone)]
pub struct KeyPart {
    /// Position in the table, from 0, or an expression.
    pub source: KeySource,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
    /// The operator class, if it is not that of the type.
    pub class: Option<&'static OperatorClass>,
}

/// Where the values of an index's column come from.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// The table's column at this position, from 0.
    Column(usize),
    /// An expression.
    Expression(IndexExpr),
}

/// An index.
#[derive(Debug, Clone)]
pub struct Index {
    /// Oid.
    pub oid: u32,
    /// Name.
    pub name: Arc<str>,
    /// Its columns, those of INCLUDE last.
    pub key: Vec<KeyPart>,
    /// How many of them the key has.
    pub key_columns: usize,
    /// WHERE
    pub predicate: Option<IndexExpr>,
    /// UNIQUE.
    pub unique: bool,
    /// Whether two rows may have the same key for a while.
    pub deferrable: bool,
    /// Whether it is the primary key's.
    pub primary: bool,
    /// NULLS NOT DISTINCT.
    pub nulls_not_distinct: bool,
    /// `indcheckxmin`.
    pub check_xmin: bool,
}

/// A constraint.
#[derive(Debug, Clone)]
pub struct Constraint {
    /// Oid.
    pub oid: u32,
    /// Name.
    pub name: Arc<str>,
    /// `contype`: `p` or `u`.
    pub code: &'static str,
    /// Positions of its columns, from 0.
    pub columns: Vec<usize>,
    /// Oid of its index.
    pub index: u32,
    /// `DEFERRABLE`
    pub deferrable: bool,
    /// `INITIALLY DEFERRED`
    pub deferred: bool,
}

/// A CHECK constraint.
#[derive(Debug, Clone)]
pub struct Check {
    /// Oid.
    pub oid: u32,
    /// Name.
    pub name: Arc<str>,
    /// Positions of the columns that it mentions, from 0.
    pub columns: Vec<usize>,
    /// Not so after NOT VALID.
    pub validated: bool,
    /// Its condition.
    pub text: Arc<str>,
    /// The same with the parentheses that are needed.
    pub pretty: Arc<str>,
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    /// Oid.
    pub oid: u32,
    /// Name.
    pub name: Arc<str>,
    /// Name of its schema.
    pub schema: Arc<str>,
    /// Oid of its schema.
    pub schema_oid: u32,
    /// Columns.
    pub columns: Vec<Column>,
    /// Columns that were dropped.
    pub dropped: Vec<DroppedColumn>,
    /// Indexes.
    pub indexes: Vec<Index>,
    /// Constraints.
    pub constraints: Vec<Constraint>,
    /// CHECK constraints.
    pub checks: Vec<Check>,
    /// Foreign keys.
    pub foreign_keys: Vec<Arc<ForeignKeyInfo>>,
    /// Declared storage parameters, as `name=value`.
    pub options: Vec<String>,
    /// Statistics gathered by vacuum and analyze.
    pub stats: Arc<RelationStats>,
}

impl Table {
    /// Columns that are NOT NULL, with the constraint that says so.
    pub fn not_null(&self) -> impl Iterator<Item = (&NotNull, &Column)> {
        let columns = self.columns.iter();
        columns.filter_map(|column| Some((column.not_null.as_ref()?, column)))
    }

    /// How many columns it has, dropped ones included.
    pub fn attributes(&self) -> usize {
        self.columns.len() + self.dropped.len()
    }

    /// The oid of a column's default: the table's with the column's number above, which no object
    /// has, since oids are given out from below.
    pub fn default_oid(&self, attnum: i16) -> u32 {
        (self.oid ^ (u32::from(attnum.unsigned_abs()) << 19)) | (1 << 31)
    }
}

/// An installed extension.
#[derive(Debug, Clone)]
pub struct Extension {
    /// Oid.
    pub oid: u32,
    /// Name.
    pub name: Arc<str>,
    /// Version.
    pub version: Arc<str>,
}

/// How large relations are.
pub trait Sizes: Send + Sync {
    /// Blocks of the main fork of a table or an index; `None` for one without a file.
    fn blocks(&self, oid: u32) -> Option<u32>;
    /// Blocks of what keeps a table's large values: chunks and their index.
    fn large_blocks(&self, oid: u32) -> u32;
}

/// Rows of relations that a catalog's state tells, each made when it is first asked for.
#[derive(Debug, Default)]
pub struct MadeRows(Mutex<HashMap<u32, VirtualRows>>);

impl MadeRows {
    /// The rows of a relation, by its oid.
    pub fn get_or_make(
        &self,
        relation: u32,
        make: impl FnOnce() -> SqlResult<VirtualRows>,
    ) -> SqlResult<VirtualRows> {
        if let Some(made) = self.0.lock().get(&relation) {
            return Ok(made.clone());
        }
        let rows = make()?;
        Ok(self.0.lock().entry(relation).or_insert(rows).clone())
    }
}

/// One session's view of the catalog.
#[derive(Clone)]
pub struct CatalogView {
    /// Session user.
    pub user: String,
    /// Name of the database.
    pub database: String,
    /// Process id of the session.
    pub backend_pid: i32,
    /// Start of the statement, µs since 1970.
    pub statement_ts: i64,
    /// Schemas searched for names without one.
    pub search_path: SearchPath,
    /// Schemas: oid and name.
    pub schemas: Vec<(u32, String)>,
    /// Tables, by oid.
    pub tables: Arc<[Table]>,
    /// Sequences, by oid.
    pub sequences: Arc<[Arc<SequenceInfo>]>,
    /// Views, by oid.
    pub views: Arc<[Arc<ViewInfo>]>,
    /// Extensions.
    pub extensions: Arc<[Extension]>,
    /// The rows that have been made of these objects.
    pub made: Arc<MadeRows>,
    /// Settings.
    pub settings: Arc<dyn SettingsAccess>,
    /// How large they are.
    pub sizes: Arc<dyn Sizes>,
    /// The catalog they come from.
    pub catalog: Option<Arc<CatalogState>>,
    /// The running server.
    pub instance: Option<Arc<Instance>>,
    /// The session's prepared statements that have names.
    pub named: Arc<NamedStatements>,
}

/// A relation by oid.
#[derive(Debug, Clone, Copy)]
pub enum Relation<'a> {
    /// A table.
    Table(&'a Table),
    /// An index and its table.
    Index(&'a Table, &'a Index),
    /// A sequence.
    Sequence(&'a SequenceInfo),
    /// A view.
    View(&'a ViewInfo),
    /// One of PostgreSQL's own catalogs.
    System(&'static relations::RelationDef),
}

impl Relation<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Relation::Table(table) => &table.name,
            Relation::Index(_, index) => &index.name,
            Relation::Sequence(sequence) => &sequence.name,
            Relation::View(view) => &view.name,
            Relation::System(def) => def.name,
        }
    }

    /// The name of its schema.
    pub fn schema(&self) -> &str {
        match self {
            Relation::Table(table) | Relation::Index(table, _) => &table.schema,
            Relation::Sequence(sequence) => &sequence.schema,
            Relation::View(view) => &view.schema,
            Relation::System(def) => def.schema,
        }
    }

    /// Its oid.
    pub fn oid(&self) -> u32 {
        match self {
            Relation::Table(table) => table.oid,
            Relation::Index(_, index) => index.oid,
            Relation::Sequence(sequence) => sequence.oid,
            Relation::View(view) => view.oid,
            Relation::System(def) => def.oid,
        }
    }
}

impl CatalogView {
    /// The number under which locks and counters have a relation of the database.
    pub fn table_id(&self, oid: u32) -> u64 {
        table_id(self.database_oid(), oid)
    }

    /// The oid of the database.
    pub fn database_oid(&self) -> u32 {
        let state = self.catalog.as_ref();
        state.map_or(DATABASE_OID, |state| state.database_oid)
    }

    /// Whether the session's database has this name.
    pub fn is_database(&self, name: &str) -> bool {
        let databases = self.instance.as_ref().map(|instance| instance.databases());
        databases.is_some_and(|databases| *databases.name_of(self.database_oid()) == *name)
    }

    /// A relation by oid.
    pub fn relation(&self, oid: u32) -> Option<Relation<'_>> {
        for table in self.tables.iter() {
            if table.oid == oid {
                return Some(Relation::Table(table));
            }
            if let Some(index) = table.indexes.iter().find(|index| index.oid == oid) {
                return Some(Relation::Index(table, index));
            }
        }
        if let Some(sequence) = self.sequences.iter().find(|sequence| sequence.oid == oid) {
            return Some(Relation::Sequence(sequence));
        }
        if let Some(view) = self.views.iter().find(|view| view.oid == oid) {
            return Some(Relation::View(view));
        }
        relations::by_oid(oid).map(Relation::System)
    }

    /// Schemas in the order in which names are looked up.
    pub fn path(&self) -> Vec<&str> {
        let mut path: Vec<&str> = self.search_path.all().collect();
        path.retain(|name| self.schemas.iter().any(|(_, schema)| schema == name));
        path
    }

    /// A relation by schema and name.
    pub fn relation_in(&self, schema: &str, name: &str) -> Option<Relation<'_>> {
        for table in self.tables.iter().filter(|table| &*table.schema == schema) {
            if &*table.name == name {
                return Some(Relation::Table(table));
            }
            if let Some(index) = table.indexes.iter().find(|index| &*index.name == name) {
                return Some(Relation::Index(table, index));
            }
        }
        let sequences = self.sequences.iter();
        let mut here = sequences.filter(|sequence| &*sequence.schema == schema);
        if let Some(sequence) = here.find(|sequence| &*sequence.name == name) {
            return Some(Relation::Sequence(sequence));
        }
        let mut views = self.views.iter().filter(|view| &*view.schema == schema);
        if let Some(view) = views.find(|view| &*view.name == name) {
            return Some(Relation::View(view));
        }
        relations::find(schema, name).map(Relation::System)
    }

    /// A relation by name, in a schema or along the path.
    pub fn find(&self, schema: Option<&str>, name: &str) -> Option<Relation<'_>> {
        match schema {
            Some(schema) => self.relation_in(self.search_path.meant(schema), name),
            None => self
                .path()
                .into_iter()
                .find_map(|schema| self.relation_in(schema, name)),
        }
    }

    /// Whether the relation is what its name without a schema means.
    pub fn is_visible(&self, relation: &Relation<'_>) -> bool {
        self.find(None, relation.name())
            .is_some_and(|found| found.oid() == relation.oid())
    }

    /// Name of a schema.
    pub fn schema_name(&self, oid: u32) -> Option<&str> {
        self.schemas
            .iter()
            .find(|(other, _)| *other == oid)
            .map(|(_, name)| name.as_str())
    }

    /// Oid of a schema.
    pub fn schema_oid(&self, name: &str) -> Option<u32> {
        self.schemas
            .iter()
            .find(|(_, other)| other == name)
            .map(|(oid, _)| *oid)
    }

    /// As `regclassout`: with the schema if the name alone would not do.
    pub fn relation_text(&self, oid: u32) -> String {
        match self.relation(oid) {
            _ if oid == 0 => "-".to_owned(),
            None => oid.to_string(),
            Some(relation) => {
                let name = quote_ident(relation.name());
                if self.is_visible(&relation) {
                    name
                } else {
                    format!("{}.{name}", quote_ident(relation.schema()))
                }
            }
        }
    }

    /// A default that takes a sequence's next number, as PostgreSQL shows it: by the sequence's
    /// name. None for any other.
    pub fn shown_default(&self, default: &str) -> Option<String> {
        let sequence = default_sequence(default)?;
        let name = self.relation_text(sequence).replace('\'', "''");
        Some(format!("nextval('{name}'::regclass)"))
    }

    /// Blocks of a relation; 0 for one without a file.
    pub fn blocks(&self, oid: u32) -> u32 {
        self.sizes.blocks(oid).unwrap_or(0)
    }

    /// Blocks of what keeps a table's large values; 0 for what has none.
    pub fn large_blocks(&self, oid: u32) -> u32 {
        self.sizes.large_blocks(oid)
    }
}

/// The oid of the sequence that a default takes its value of, as the catalog keeps it.
pub fn default_sequence(default: &str) -> Option<u32> {
    let rest = default.strip_prefix("nextval('")?;
    rest.strip_suffix("'::oid)")?.parse().ok()
}
