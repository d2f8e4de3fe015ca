//! The catalog: definitions of relations, kept in real heap tables and cached in memory.
//!
//! Entry points: [`Catalog::open`], [`Catalog::current`], [`Catalog::view`], and the changes in
//! `create.rs`, `alter.rs` and `drop.rs`
//! ([`Catalog::create_table`], …). The rules are in the README beside this file.

mod alter;
mod check;
mod columns;
mod comment;
pub mod comment_info;
mod copy;
mod counts;
mod create;
mod domains;
mod drop;
mod enums;
mod fields;
mod files;
mod foreign_key;
mod foreign_key_info;
mod foreign_key_row;
mod index;
mod index_expr;
mod key_by_index;
mod large;
mod large_info;
mod log;
mod names;
mod not_null;
mod operator_class;
mod parameters;
mod parts;
mod reindex;
mod rename;
mod schema;
mod sequence;
mod sequence_info;
mod set_schema;
mod set_statistics;
mod state;
mod statistics;
mod system;
#[cfg(test)]
mod tests;
mod type_info;
mod type_names;
mod view;
mod view_info;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use evenkeel_engine::table::Table;
use evenkeel_engine::{
    Database, FileId, Isolation, TableLockMode, Tid, Transaction, WaitPolicy, Xid,
};
use evenkeel_planner::bind::Kept;

use parking_lot::RwLock;

pub use alter::refuse_nulls;
pub use check::NewCheck;
pub use columns::Retyped;
pub use create::{
    CreateTable, NewColumn, NewConstraint, check_column_name, is_system_column, second_primary_key,
};
pub use domains::{NewDomain, NewDomainCheck};
pub use enums::{LabelPlace, gone_type, rename_label};
pub(crate) use fields::{Fields, damaged};
pub use files::{CatalogFiles, oid_of, table_id};
pub use foreign_key::NewForeignKey;
pub use foreign_key_info::{ForeignKeyInfo, action_code};
pub use index::{NewIndex, NewIndexColumn, NewIndexKey, numbered_names};
pub use index_expr::IndexExpr;
pub use key_by_index::KeyByIndex;
pub use large_info::LargeInfo;
pub use log::{DdlLog, DdlMark};
pub(crate) use names::name_lock;
pub use not_null::NewNotNull;
pub use operator_class::{CLASSES, OperatorClass};
pub use parameters::StorageParameters;
pub use rename::{NewText, TextOf};
pub use sequence::{NewSequence, OwnSequence, SequenceChange};
pub use sequence_info::{Identity, SequenceInfo};
pub use set_statistics::StatisticsChange;
pub use state::{CatalogState, Relation};
pub use statistics::{ColumnStats, RelationStats};
pub use type_info::{DomainBody, DomainCheckInfo, TypeBody, TypeInfo, of_definition};
pub use view::NewView;
pub use view_info::{ReadUnder, ReferenceColumn, ViewColumn, ViewInfo, ViewReference};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::key::{IndexKey, KeyColumn};
use crate::types::SqlType;
use evenkeel_types::row::RowLayout;
pub(crate) use system::{SystemTable, SystemTables};

/// PostgreSQL's object id.
pub type Oid = u32;

/// First oid for objects that users make.
pub const FIRST_NORMAL_OID: Oid = 16_384;
/// Oid of the schema `pg_catalog`.
pub const PG_CATALOG_OID: Oid = 11;
/// Oid of the schema `public`.
pub const PUBLIC_OID: Oid = 2200;
/// Oid of the schema `information_schema`.
pub const INFORMATION_SCHEMA_OID: Oid = 13_183;
/// Oid of the role that owns everything.
pub const OWNER_OID: Oid = 10;
/// Oid of the first database, `postgres`.
pub const DATABASE_OID: Oid = 5;

/// The place of a row that is not written yet.
const NOWHERE: Tid = Tid::new(evenkeel_engine::BlockNumber(0), 0);

/// A column of a table.
#[derive(Debug, Clone)]
pub struct ColumnInfo {
    /// Name.
    pub name: Arc<str>,
    /// The type of its values.
    pub ty: SqlType,
    /// The domain, or the type of arrays of one, that it was declared with.
    pub domain: Option<SqlType>,
    /// `attnum`, from 1; those of dropped columns are not used again.
    pub attnum: i16,
    /// The NOT NULL constraint.
    pub not_null: Option<NotNull>,
    /// DEFAULT, as SQL text.
    pub default: Option<Arc<str>>,
    /// GENERATED AS IDENTITY, with the sequence.
    pub identity: Option<(Identity, Oid)>,
    /// GENERATED ALWAYS AS (…)
    pub generated: Option<Arc<Generated>>,
    /// The stored bytes of its value in rows that were written before it was added.
    pub missing: Option<Arc<[u8]>>,
    /// Its row in `pg_attribute`.
    pub(crate) place: Tid,
}

/// The expression of a generated column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// SQL text with every cast.
    pub text: Arc<str>,
    /// The same with the parentheses that are needed.
    pub pretty: Arc<str>,
    /// Positions of the columns that it mentions, from 0.
    pub columns: Vec<usize>,
    /// VIRTUAL: the value is computed where it is read, and NULL is stored.
    pub is_virtual: bool,
}

impl Generated {
    /// Where its value is.
    pub fn kept(&self) -> Kept {
        match self.is_virtual {
            true => Kept::Virtual,
            false => Kept::Stored,
        }
    }
}

impl ColumnInfo {
    /// Whether its value is computed where it is read.
    pub fn is_virtual(&self) -> bool {
        self.generated.as_ref().is_some_and(|of| of.is_virtual)
    }
}

/// A column that was dropped. Its number and its place in rows are not used again.
#[derive(Debug, Clone)]
pub struct DroppedColumn {
    /// `attnum`
    pub attnum: i16,
    /// Bytes of its slot in a row, or `None` for values of variable length.
    pub width: Option<usize>,
    /// Its row in `pg_attribute`.
    pub(crate) place: Tid,
}

impl DroppedColumn {
    /// The name that PostgreSQL gives it.
    pub fn name(&self) -> String {
        format!("........pg.dropped.{}........", self.attnum)
    }
}

/// A type that was declared as that of values, and the domain that it is if it is one.
pub fn split_domain(declared: SqlType) -> (SqlType, Option<SqlType>) {
    (declared.storage(), declared.domain().map(|_| declared))
}

impl ColumnInfo {
    /// The type that it was declared with.
    pub fn declared(&self) -> SqlType {
        self.domain.unwrap_or(self.ty)
    }

    /// The expression of a value that nobody gave, as SQL text: the default, or the identity's next
    /// number.
    pub fn value_if_none(&self) -> Option<Arc<str>> {
        match self.identity {
            Some((_, sequence)) => Some(sequence_info::default_text(sequence).into()),
            None => self.default.clone(),
        }
    }
}

/// Condition that a constraint imposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConstraintKind {
    /// PRIMARY KEY
    Primary,
    /// UNIQUE
    Unique,
}

impl ConstraintKind {
    /// `contype`.
    pub fn code(self) -> &'static str {
        match self {
            ConstraintKind::Primary => "p",
            ConstraintKind::Unique => "u",
        }
    }

    /// The words of SQL.
    pub fn words(self) -> &'static str {
        match self {
            ConstraintKind::Primary => "PRIMARY KEY",
            ConstraintKind::Unique => "UNIQUE",
        }
    }
}

/// A constraint that an index enforces.
#[derive(Debug, Clone)]
pub struct ConstraintInfo {
    /// Oid.
    pub oid: Oid,
    /// Name; that of its index too.
    pub name: Arc<str>,
    /// Kind.
    pub kind: ConstraintKind,
    /// Positions of its columns in the table, from 0.
    pub columns: Vec<usize>,
    /// The index that enforces it.
    pub index_oid: Oid,
    /// `DEFERRABLE`
    pub deferrable: bool,
    /// `INITIALLY DEFERRED`
    pub deferred: bool,
    /// Its row in `pg_constraint`.
    pub(crate) place: Tid,
}

/// A NOT NULL constraint of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotNull {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// Whether the rows that were there before it keep to it: not after NOT VALID.
    pub validated: bool,
    /// Its row in `pg_constraint`.
    pub(crate) place: Tid,
}

/// A CHECK constraint.
#[derive(Debug, Clone)]
pub struct CheckInfo {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// The condition, as SQL text with every cast.
    pub text: Arc<str>,
    /// The same with the parentheses that are needed.
    pub pretty: Arc<str>,
    /// Positions of the columns that it mentions, from 0.
    pub columns: Vec<usize>,
    /// Whether the rows that were there before it keep to it: not after NOT VALID.
    pub validated: bool,
    /// Its row in `evenkeel_check`.
    pub(crate) place: Tid,
}

/// An index.
#[derive(Debug, Clone)]
pub struct IndexInfo {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// Oid of its table.
    pub table_oid: Oid,
    /// Columns in key order.
    pub columns: Vec<KeyColumn>,
    /// The operator classes of the columns, where they are not those of their types.
    pub classes: Vec<Option<&'static OperatorClass>>,
    /// The expressions of the columns that are none of the table's, in order.
    pub expressions: Vec<IndexExpr>,
    /// The condition of the rows that it has.
    pub predicate: Option<IndexExpr>,
    /// Positions of the columns that INCLUDE names, in its order.
    pub included: Vec<usize>,
    /// Whether it refuses duplicates.
    pub unique: bool,
    /// Whether it refuses them at the end of a statement or of a transaction.
    pub deferrable: bool,
    /// Whether it is the primary key's.
    pub primary: bool,
    /// NULLS NOT DISTINCT.
    pub nulls_not_distinct: bool,
    /// Oid of the constraint it enforces.
    pub constraint: Option<Oid>,
    /// Its keys.
    pub key: Arc<IndexKey>,
    /// The file of its tree.
    pub file: FileId,
    /// Its number in the engine's table.
    pub position: usize,
    /// The transaction that built it, if older snapshots must not read by it (`indcheckxmin`).
    pub usable_after: Option<Xid>,
    /// Its rows in `pg_class` and `pg_index`.
    pub(crate) places: [Tid; 2],
}

/// A table with all that is needed to read and change its rows. Never changes: another
/// definition is another `TableInfo`.
#[derive(Debug, Clone)]
pub struct TableInfo {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// Name of its schema.
    pub schema: Arc<str>,
    /// Oid of its schema.
    pub schema_oid: Oid,
    /// Columns in order, without those that were dropped.
    pub columns: Vec<ColumnInfo>,
    /// Columns that were dropped, by number.
    pub dropped: Vec<DroppedColumn>,
    /// Indexes, in the order of the engine's table.
    pub indexes: Vec<Arc<IndexInfo>>,
    /// Constraints.
    pub constraints: Vec<Arc<ConstraintInfo>>,
    /// CHECK constraints, by name: the order in which they are checked.
    pub checks: Vec<Arc<CheckInfo>>,
    /// Its foreign keys.
    pub foreign_keys: Vec<Arc<ForeignKeyInfo>>,
    /// Where the columns are in a row.
    pub layout: Arc<RowLayout>,
    /// The engine's table.
    pub table: Arc<Table>,
    /// The file of the heap.
    pub heap: FileId,
    /// Where its large values are, if it may have such.
    pub large: Option<Arc<LargeInfo>>,
    /// How full inserts make a page, in percent.
    pub fillfactor: u8,
    /// Whether `fillfactor` was declared.
    pub fillfactor_declared: bool,
    /// The other storage parameters that were declared.
    pub parameters: Arc<StorageParameters>,
    /// Statistics gathered by vacuum and analyze.
    pub stats: Arc<RelationStats>,
    /// Its row in `pg_class`.
    pub(crate) place: Tid,
}

impl TableInfo {
    /// Position of a column, from 0.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| &*column.name == name)
    }

    /// The primary key's index.
    pub fn primary_key(&self) -> Option<&Arc<IndexInfo>> {
        self.indexes.iter().find(|index| index.primary)
    }

    /// The columns' types.
    pub fn types(&self) -> Vec<SqlType> {
        self.columns.iter().map(|column| column.ty).collect()
    }

    /// The number that a column added now gets.
    pub fn next_attnum(&self) -> i16 {
        let last = self.columns.last().map_or(0, |column| column.attnum);
        let dropped = self.dropped.iter().map(|column| column.attnum);
        dropped.fold(last, i16::max).saturating_add(1)
    }

    /// The same table with other types for its columns, whose values are stored alike.
    fn with_types(&self, of: impl Fn(SqlType) -> SqlType) -> TableInfo {
        let mut parts = parts::TableParts::of(self);
        for column in &mut parts.columns {
            (column.ty, column.domain) = split_domain(of(column.declared()));
        }
        parts.renew_keys();
        TableInfo {
            layout: parts.layout(),
            columns: parts.columns,
            indexes: parts.indexes,
            ..self.clone()
        }
    }

    /// Whether it is gone with the session that made it.
    pub fn is_temporary(&self) -> bool {
        self.heap.is_temporary()
    }

    /// Its files: the heap, the indexes, those of large values.
    pub fn files(&self) -> impl Iterator<Item = FileId> {
        let indexes = self.indexes.iter().map(|index| index.file);
        let large = self.large.iter();
        let large = large.flat_map(|large| [large.heap, large.tree]);
        [self.heap].into_iter().chain(indexes).chain(large)
    }

    /// The lock of the table.
    pub fn lock_id(&self) -> u64 {
        self.table.def().id
    }
}

/// A schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaInfo {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// Its row in `pg_namespace`, unless it is as in a new database.
    pub(crate) place: Option<Tid>,
}

/// An installed extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionInfo {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// Version.
    pub version: Arc<str>,
    /// Its row in `pg_extension`.
    pub(crate) place: Tid,
}

/// The catalog of a database.
pub struct Catalog {
    db: Database,
    files: CatalogFiles,
    tables: SystemTables,
    oids: Arc<Oids>,
    shared: Arc<Shared>,
}

/// The oids that the databases of an instance give out: one is never an object's of two of them.
#[derive(Debug)]
pub struct Oids(AtomicU32);

impl Default for Oids {
    fn default() -> Oids {
        Oids(AtomicU32::new(FIRST_NORMAL_OID))
    }
}

impl Oids {
    /// An oid that none has had since the start.
    ///
    /// # Errors
    /// 54000
    pub fn take(&self) -> SqlResult<Oid> {
        let oid = self.0.fetch_add(1, Ordering::Relaxed);
        if oid < FIRST_NORMAL_OID {
            let message = "the database has run out of object ids";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        Ok(oid)
    }

    /// Gives out none below this one from now on.
    pub fn pass(&self, next: Oid) {
        self.0.fetch_max(next, Ordering::Relaxed);
    }
}

/// State that publishing a catalog version needs; transactions' commit hooks hold it.
pub(crate) struct Shared {
    current: RwLock<Arc<CatalogState>>,
    next_version: AtomicU64,
}

impl Shared {
    /// A version that no state has had.
    fn new_version(&self) -> u64 {
        self.next_version.fetch_add(1, Ordering::Relaxed)
    }
}

impl Catalog {
    /// Reads the catalog of the first database. That of a new one is empty.
    ///
    /// # Errors
    /// Those of the engine; XX001 for rows that make no sense.
    pub fn open(db: &Database) -> SqlResult<Arc<Catalog>> {
        let mut files = CatalogFiles::new(DATABASE_OID);
        let mut txn = db.begin(Isolation::ReadCommitted)?;
        let tables = Catalog::make_tables(db, &mut txn, &mut files)?;
        txn.rollback();
        Catalog::read(db, (files, tables), &Arc::default())
    }

    /// Reads the catalog in these tables, which are in these files.
    ///
    /// # Errors
    /// Those of the engine; XX001 for rows that make no sense.
    pub(crate) fn read(
        db: &Database,
        (files, tables): (CatalogFiles, SystemTables),
        oids: &Arc<Oids>,
    ) -> SqlResult<Arc<Catalog>> {
        let (state, next_oid) = tables.load(db, files.database())?;
        oids.pass(next_oid);
        let shared = Shared {
            current: RwLock::new(Arc::new(state)),
            next_version: AtomicU64::new(2),
        };
        let catalog = Catalog {
            db: db.clone(),
            files,
            tables,
            oids: Arc::clone(oids),
            shared: Arc::new(shared),
        };
        match catalog.restore_counts() {
            Err(error) if error.sqlstate == SqlState::DISK_FULL => {
                tracing::warn!("the counts of rows are left to a later start: {error}");
            }
            restored => restored?,
        }
        Ok(Arc::new(catalog))
    }

    /// The engine that holds it.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// The committed state.
    pub fn current(&self) -> Arc<CatalogState> {
        Arc::clone(&self.shared.current.read())
    }

    /// The state that a transaction sees: the committed one with its own changes.
    pub fn view(&self, ddl: &DdlLog) -> Arc<CatalogState> {
        ddl.view(&self.shared)
    }

    /// Ends a transaction's changes. They were published as a part of its commit (CAT-3), so
    /// there is nothing left to do but to forget them.
    pub fn publish(&self, ddl: DdlLog) {
        drop(ddl);
    }

    /// The tables that hold the catalog, with their names.
    pub fn system_tables(&self) -> impl Iterator<Item = (&'static str, &Arc<Table>)> {
        let all = self.tables.all().into_iter();
        all.map(|(name, table)| (name, &table.table))
    }

    /// Opens the tables of a catalog. Those that have no file get one, which is that transaction's
    /// until it commits.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn make_tables(
        db: &Database,
        txn: &mut Transaction,
        files: &mut CatalogFiles,
    ) -> SqlResult<SystemTables> {
        SystemTables::open(db, &mut |oid| {
            Ok((files.table_id(oid), files.of_or_new(oid, txn)?))
        })
    }

    /// The files of the catalog's own tables.
    pub fn files(&self) -> &CatalogFiles {
        &self.files
    }

    /// The database's oid.
    pub fn database_oid(&self) -> Oid {
        self.files.database()
    }

    /// The number under which locks and counters have a relation of this database.
    pub fn table_id(&self, oid: Oid) -> u64 {
        self.files.table_id(oid)
    }

    /// Forgets everything, once the database is dropped, so that nobody who still holds the catalog
    /// looks for its files.
    pub(crate) fn empty(&self) {
        let version = self.shared.new_version();
        *self.shared.current.write() =
            Arc::new(CatalogState::of(&self.db, self.database_oid(), version));
    }

    fn new_oid(&self) -> SqlResult<Oid> {
        self.oids.take()
    }

    /// The lock of a name in a schema of this database.
    fn name_lock(&self, schema: Oid, name: &str) -> u64 {
        name_lock(self.database_oid(), schema, name)
    }

    /// Locks a table and answers its definition as of then, which may be newer than the one
    /// that led here; 42P01 if it is gone.
    pub async fn lock_table(
        &self,
        txn: &Transaction,
        ddl: &DdlLog,
        oid: Oid,
        mode: TableLockMode,
    ) -> SqlResult<Arc<TableInfo>> {
        txn.lock_table(self.table_id(oid), mode, WaitPolicy::Block)
            .await?;
        self.view(ddl).table(oid).cloned().ok_or_else(|| gone(oid))
    }
}

/// 42P01 for a relation that has gone while its lock was waited for.
fn gone(oid: Oid) -> SqlError {
    let message = format!("relation with OID {oid} does not exist");
    SqlError::new(SqlState::UNDEFINED_TABLE, message)
}
