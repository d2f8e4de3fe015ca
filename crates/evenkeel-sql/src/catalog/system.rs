//! The heap tables that hold the catalog: their rows, writing them, and reading them at start.
//!
//! They have the oids and the columns' names of PostgreSQL's, and fixed file ids. A row is never
//! updated: a changed object is a deleted row and a new one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use evenkeel_engine::heap::{RowBatch, RowHandle};
use evenkeel_engine::sequence::Rule;
use evenkeel_engine::table::{Table, TableDef};
use evenkeel_engine::{Database, FileId, Isolation, Tid, Transaction};

use super::comment::read_comment;
use super::fields::{Fields, damaged, texts, vector};
use super::foreign_key_row::read_foreign_key;
use super::index_expr::{IndexExpr, computed, index_key, read_expr};
use super::parameters::StorageParameters;
use super::parts::{TableParts, layout_of};
use super::state::{CatalogChange, CatalogState};
use super::statistics::{RelationStats, read_column_stats};
use super::{
    CheckInfo, ColumnInfo, ConstraintInfo, ConstraintKind, DroppedColumn, ExtensionInfo,
    ForeignKeyInfo, Generated, Identity, IndexInfo, LargeInfo, NotNull, Oid, OperatorClass,
    SchemaInfo, SequenceInfo, TableInfo, split_domain,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::key::KeyColumn;
use crate::types::{Datum, SqlType};
use evenkeel_types::row::{RowLayout, fixed_width};

const CLASS_OID: Oid = 1259;
const DESCRIPTION_OID: Oid = 2609;
const ATTRIBUTE_OID: Oid = 1249;
const INDEX_OID: Oid = 2610;
const CONSTRAINT_OID: Oid = 2606;
const EXTENSION_OID: Oid = 3079;
const NAMESPACE_OID: Oid = 2615;
const SEQUENCE_OID: Oid = 2224;
const STATISTIC_OID: Oid = 2619;
// No object of PostgreSQL's has one of these oids.
const COUNTS_OID: Oid = 9901;
const CHECKS_OID: Oid = 9902;
const FOREIGN_KEYS_OID: Oid = 9903;
const LARGE_OID: Oid = 9907;
const VIEWS_OID: Oid = 9908;
const ENUMS_OID: Oid = 9909;
const DOMAINS_OID: Oid = 9910;
const DOMAIN_CONSTRAINTS_OID: Oid = 9911;
const LABELS_OID: Oid = 3501;
const CATALOG_FILLFACTOR: u8 = 100;
/// Columns of `pg_class` as it is stored.
const CLASS_COLUMNS: usize = 12;
/// `contype` of NOT NULL.
const NOT_NULL_CODE: &str = "n";
const OPTION_DESCENDING: u32 = 1;
const OPTION_NULLS_FIRST: u32 = 2;
/// The bits from here on are the number of the column's operator class.
const OPTION_CLASS_SHIFT: u32 = 2;
/// Numbers in a row of counts.
pub(super) const COUNTS_KEPT: usize = 25;

/// One catalog table.
pub(crate) struct SystemTable {
    layout: RowLayout,
    pub table: Arc<Table>,
}

/// All of them.
pub(crate) struct SystemTables {
    /// oid, relname, relnamespace, relkind, relfilenode, fillfactor, reloptions, relfrozenxid,
    /// relpages, reltuples, relallvisible, relallfrozen
    pub class: SystemTable,
    /// attrelid, attnum, attname, atttypid, atttypmod, the bytes of a slot or -1, attisdropped,
    /// the bytes of the missing value, adsrc; of a generated column its expression as psql shows it
    /// and the columns that it mentions; whether that is computed where it is read
    pub attribute: SystemTable,
    /// indexrelid, indrelid, indisunique, indisprimary, indnullsnotdistinct, indkey, indoption,
    /// the builder if older snapshots must not read by it, indexprs and indpred as texts,
    /// indnkeyatts; NULL of an index that was made before there was INCLUDE
    pub index: SystemTable,
    /// oid, conname, contype, conrelid, conindid, conkey, convalidated, condeferrable, condeferred;
    /// the last two NULL of one that was made before it could be
    pub constraint: SystemTable,
    /// seqrelid, seqtypid, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle; the table
    /// and the number of the column that it belongs to, and whether that is an identity: `a`, `d`
    pub sequence: SystemTable,
    /// oid, nspname; without a name, a schema of every new database that was dropped
    pub namespace: SystemTable,
    /// oid, extname, extversion
    pub extension: SystemTable,
    /// starelid, staattnum, stanullfrac, stawidth, stadistinct, correlation, and as texts of
    /// arrays: most common values, their frequencies, the bounds of the histogram
    pub statistic: SystemTable,
    /// oid, conname, conrelid, conkey, the condition, the condition as psql shows it, convalidated
    pub check: SystemTable,
    /// oid, conname, conrelid, confrelid, conindid, conkey, confkey, confdelsetcols; the codes of
    /// the actions for updates and deletes and of the way to match; condeferrable, condeferred,
    /// convalidated
    pub foreign_key: SystemTable,
    /// The table, toastrelid, the oid of its index, the files of both
    pub large: SystemTable,
    /// objoid, classoid, objsubid, description; NULL hides the one of a new database
    pub description: SystemTable,
    /// The view, the number of a part of its definition, the part
    pub view: SystemTable,
    /// oid, the oid of the type of its arrays, typname, typnamespace
    pub enums: SystemTable,
    /// oid, enumtypid, the label's place in the order, enumlabel
    pub labels: SystemTable,
    /// oid, the oid of the type of its arrays, typname, typnamespace, typbasetype, typtypmod,
    /// typndims, the default
    pub domains: SystemTable,
    /// oid, conname, contypid, the condition and the same as psql shows it, which NOT NULL has
    /// not, convalidated
    pub domain_constraints: SystemTable,
    /// The counters of tables, between a clean stop and the next start.
    pub counts: SystemTable,
}

impl SystemTable {
    /// Opens the table that has this number for locks and counters.
    pub fn open(
        db: &Database,
        (id, heap): (u64, FileId),
        types: &[SqlType],
    ) -> SqlResult<SystemTable> {
        let table = Table::open(
            db,
            TableDef {
                id,
                heap,
                fillfactor: CATALOG_FILLFACTOR,
                indexes: Vec::new(),
            },
        )?;
        Ok(SystemTable {
            layout: RowLayout::new(types),
            table,
        })
    }

    /// Writes a row, unless the statement was cancelled: one of DDL may be for thousands.
    pub async fn insert(&self, txn: &mut Transaction, values: &[Datum]) -> SqlResult<Tid> {
        txn.check_cancel()?;
        let mut row = Vec::new();
        self.layout.encode(values, &mut row)?;
        Ok(self.table.insert(txn, &row).await?)
    }

    /// Deletes a row that the caller has learnt of from the catalog, under the lock of the
    /// object that it describes.
    pub async fn delete(&self, txn: &mut Transaction, place: Tid) -> SqlResult<()> {
        use evenkeel_engine::table::Modified;
        // The object's lock keeps the row where the cached catalog says, though the transaction's
        // snapshot may be too old to see it.
        let snapshot = txn.snapshot()?;
        let row = RowHandle::known(&snapshot, place);
        match self.table.delete(txn, row).await? {
            Modified::Done(_) => Ok(()),
            _ => Err(SqlError::new(
                SqlState::INTERNAL_ERROR,
                "tuple concurrently updated",
            )),
        }
    }

    /// All rows that are committed now.
    pub fn read(&self, txn: &mut Transaction) -> SqlResult<Vec<(Tid, Vec<Datum>)>> {
        let mut scan = self.table.scan(&txn.snapshot()?);
        let mut batch = RowBatch::new();
        let mut rows = Vec::new();
        while scan.next_page(&mut batch)? {
            for (place, row) in batch.iter() {
                rows.push((place, self.layout.decode(row)?));
            }
        }
        Ok(rows)
    }
}

/// A table's row of `pg_class`.
pub(super) fn table_row(parts: &TableParts) -> Vec<Datum> {
    let stats = &parts.stats;
    let mut row = class_row(parts.oid, &parts.name, parts.schema_oid, "r", parts.heap);
    row.extend([
        parts.fillfactor.map(i32::from).into(),
        parts.parameters.to_datum(),
        Datum::Int8(stats.relfrozenxid.cast_signed()),
        Datum::Int4(stats.relpages),
        Datum::Float4(stats.reltuples),
        Datum::Int4(stats.relallvisible),
        Datum::Int4(stats.relallfrozen),
    ]);
    row
}

/// An index's row of `pg_class`.
pub(super) fn index_class_row(oid: Oid, name: &str, schema: Oid, file: FileId) -> Vec<Datum> {
    let mut row = class_row(oid, name, schema, "i", file);
    row.resize(CLASS_COLUMNS, Datum::Null);
    row
}

/// A sequence's rows of `pg_class` and `pg_sequence`.
pub(super) fn sequence_rows(sequence: &SequenceInfo) -> [Vec<Datum>; 2] {
    let (name, schema) = (&sequence.name, sequence.schema_oid);
    let mut class = class_row(sequence.oid, name, schema, "S", sequence.file);
    class.resize(CLASS_COLUMNS, Datum::Null);
    let rule = &sequence.rule;
    let (table, column) = sequence.owner.unwrap_or_default();
    let own = vec![
        Datum::Oid(sequence.oid),
        Datum::Oid(sequence.ty.oid()),
        Datum::Int8(sequence.start),
        Datum::Int8(rule.increment),
        Datum::Int8(rule.max),
        Datum::Int8(rule.min),
        Datum::Int8(rule.cache),
        Datum::Bool(rule.cycle),
        Datum::Oid(table),
        Datum::Int4(i32::from(column)),
        sequence.identity.map_or("", Identity::code).into(),
    ];
    [class, own]
}

/// The columns that are filled for every relation.
fn class_row(oid: Oid, name: &str, schema: Oid, kind: &str, file: FileId) -> Vec<Datum> {
    vec![
        Datum::Oid(oid),
        name.into(),
        Datum::Oid(schema),
        kind.into(),
        Datum::Int8(file.0.cast_signed()),
    ]
}

/// A column's row of `pg_attribute`.
pub(super) fn attribute_row(
    table: Oid,
    columns: &[ColumnInfo],
    at: usize,
) -> SqlResult<Vec<Datum>> {
    let missing = || SqlError::internal("a column is not there");
    let column = columns.get(at).ok_or_else(missing)?;
    let generated = column.generated.as_ref();
    let text = generated.map(|generated| &generated.text);
    let text = text.or(column.default.as_ref());
    let mentioned = |of: &Arc<Generated>| vector(attnums(columns, of.columns.iter().copied()));
    Ok(vec![
        Datum::Oid(table),
        Datum::Int4(i32::from(column.attnum)),
        (&*column.name).into(),
        Datum::Oid(column.declared().oid()),
        Datum::Int4(column.declared().typmod()),
        Datum::Int4(stored_width(fixed_width(column.ty))),
        Datum::Bool(false),
        match &column.missing {
            Some(bytes) => Datum::Bytea(bytes.to_vec()),
            None => Datum::Null,
        },
        text.map_or(Datum::Null, |text| Datum::from(&**text)),
        generated.map_or(Datum::Null, |generated| (&*generated.pretty).into()),
        generated.map_or(Datum::Null, mentioned),
        Datum::Bool(generated.is_some_and(|generated| generated.is_virtual)),
    ])
}

/// The row of a column that was dropped.
pub(super) fn dropped_row(table: Oid, column: &DroppedColumn) -> Vec<Datum> {
    vec![
        Datum::Oid(table),
        Datum::Int4(i32::from(column.attnum)),
        column.name().into(),
        Datum::Oid(0),
        Datum::Int4(-1),
        Datum::Int4(stored_width(column.width)),
        Datum::Bool(true),
        Datum::Null,
        Datum::Null,
        Datum::Null,
        Datum::Null,
        Datum::Null,
    ]
}

fn stored_width(width: Option<usize>) -> i32 {
    width
        .and_then(|width| i32::try_from(width).ok())
        .unwrap_or(-1)
}

/// A row of `pg_attribute` decoded: the table, and a column or one that was dropped. The columns
/// that a generated one mentions are numbers here.
fn read_attribute(
    place: Tid,
    values: Vec<Datum>,
    state: &CatalogState,
) -> SqlResult<(Oid, Result<ColumnInfo, DroppedColumn>)> {
    let mut fields = Fields::new(values, "pg_attribute");
    let (table, attnum) = (fields.oid()?, fields.int4()?);
    let attnum = i16::try_from(attnum).map_err(|_| damaged("pg_attribute"))?;
    let name = fields.text()?.into();
    let (type_oid, typmod, width) = (fields.oid()?, fields.int4()?, fields.int4()?);
    let width = match width {
        -1 => None,
        width => Some(usize::try_from(width).map_err(|_| damaged("pg_attribute"))?),
    };
    if fields.bool()? {
        let dropped = DroppedColumn {
            attnum,
            width,
            place,
        };
        return Ok((table, Err(dropped)));
    }
    let declared = state.column_type(type_oid, typmod);
    let split = declared.map(split_domain);
    // Rows that another program wrote in another form are not read in this one.
    let split = split.filter(|(ty, _)| fixed_width(*ty) == width);
    let (ty, domain) = split.ok_or_else(|| damaged("pg_attribute"))?;
    let missing = fields.bytes_or_null()?.map(Arc::from);
    let text: Option<Arc<str>> = fields.text_or_null()?.map(Into::into);
    let generated = match (fields.text_or_null()?, &text) {
        (None, _) => None,
        (Some(_), None) => return Err(damaged("pg_attribute")),
        (Some(pretty), Some(text)) => Some(Arc::new(Generated {
            text: Arc::clone(text),
            pretty: pretty.into(),
            columns: fields.numbers()?,
            is_virtual: fields.bool_or_false()?,
        })),
    };
    let column = ColumnInfo {
        name,
        ty,
        domain,
        attnum,
        not_null: None,
        default: text.filter(|_| generated.is_none()),
        identity: None,
        generated,
        missing,
        place,
    };
    Ok((table, Ok(column)))
}

/// The numbers of columns at these positions.
fn attnums<'a>(
    columns: &'a [ColumnInfo],
    positions: impl Iterator<Item = usize> + 'a,
) -> impl Iterator<Item = usize> + 'a {
    positions.filter_map(|at| usize::try_from(columns.get(at)?.attnum).ok())
}

/// The numbers of an index's columns, 0 for expressions.
fn key_numbers<'a>(
    columns: &'a [ColumnInfo],
    index: &'a IndexInfo,
) -> impl Iterator<Item = usize> + 'a {
    let included = index.included.iter().map(|at| Some(*at));
    let keys = index.columns.iter().map(|key| key.column);
    keys.chain(included).map(|at| {
        let column = at.and_then(|at| columns.get(at));
        column.map_or(0, |column| {
            usize::try_from(column.attnum).unwrap_or_default()
        })
    })
}

/// An index's row of `pg_index`.
pub(super) fn index_row(index: &IndexInfo, columns: &[ColumnInfo]) -> Vec<Datum> {
    let option = |(at, column): (usize, &KeyColumn)| {
        let class = index.classes.get(at).copied().flatten();
        let class = OperatorClass::number(class) << OPTION_CLASS_SHIFT;
        let descending = if column.descending {
            OPTION_DESCENDING
        } else {
            0
        };
        let nulls_first = if column.nulls_first {
            OPTION_NULLS_FIRST
        } else {
            0
        };
        (descending | nulls_first | class) as usize
    };
    vec![
        Datum::Oid(index.oid),
        Datum::Oid(index.table_oid),
        Datum::Bool(index.unique),
        Datum::Bool(index.primary),
        Datum::Bool(index.nulls_not_distinct),
        vector(key_numbers(columns, index)),
        vector(index.columns.iter().enumerate().map(option)),
        index
            .usable_after
            .map_or(Datum::Null, |xid| Datum::Int8(xid.get().cast_signed())),
        texts(index.expressions.iter().map(|expression| &*expression.text)),
        index
            .predicate
            .as_ref()
            .map_or(Datum::Null, |predicate| (&*predicate.text).into()),
        Datum::Int4(index.columns.len() as i32),
    ]
}

/// A constraint's row of `pg_constraint`.
pub(super) fn constraint_row(
    table: Oid,
    constraint: &ConstraintInfo,
    columns: &[ColumnInfo],
) -> Vec<Datum> {
    vec![
        Datum::Oid(constraint.oid),
        (&*constraint.name).into(),
        constraint.kind.code().into(),
        Datum::Oid(table),
        Datum::Oid(constraint.index_oid),
        vector(attnums(columns, constraint.columns.iter().copied())),
        Datum::Bool(true),
        Datum::Bool(constraint.deferrable),
        Datum::Bool(constraint.deferred),
    ]
}

/// The row of a NOT NULL constraint in `pg_constraint`.
pub(super) fn not_null_row(table: Oid, attnum: i16, constraint: &NotNull) -> Vec<Datum> {
    vec![
        Datum::Oid(constraint.oid),
        (&*constraint.name).into(),
        NOT_NULL_CODE.into(),
        Datum::Oid(table),
        Datum::Oid(0),
        vector(usize::try_from(attnum).into_iter()),
        Datum::Bool(constraint.validated),
        Datum::Bool(false),
        Datum::Bool(false),
    ]
}

/// A relation's row of `pg_class`, decoded.
struct ClassEntry {
    name: Arc<str>,
    schema: Oid,
    file: FileId,
    fillfactor: Option<u8>,
    parameters: Arc<StorageParameters>,
    stats: RelationStats,
    place: Tid,
}

/// The rows of all catalog tables, by what they belong to.
#[derive(Default)]
struct Loaded {
    schema_names: HashMap<Oid, Arc<str>>,
    tables: BTreeMap<Oid, ClassEntry>,
    indexes: HashMap<Oid, ClassEntry>,
    columns: HashMap<Oid, Vec<ColumnInfo>>,
    dropped: HashMap<Oid, Vec<DroppedColumn>>,
    not_nulls: HashMap<Oid, Vec<(i16, NotNull)>>,
    index_rows: HashMap<Oid, Vec<(Tid, Vec<Datum>)>>,
    /// Their columns are numbers here, not positions.
    constraints: HashMap<Oid, Vec<ConstraintInfo>>,
    /// As `constraints`.
    checks: HashMap<Oid, Vec<CheckInfo>>,
    foreign_keys: HashMap<Oid, Vec<Arc<ForeignKeyInfo>>>,
    statistics: HashMap<Oid, Vec<(Tid, Vec<Datum>)>>,
    sequence_classes: HashMap<Oid, ClassEntry>,
    sequences: Vec<Arc<SequenceInfo>>,
    large: HashMap<Oid, Arc<LargeInfo>>,
}

/// The columns of a row of `pg_class`.
fn class_columns() -> [SqlType; CLASS_COLUMNS] {
    use SqlType::{Float4, Int4, Int8, InternalChar, Name, Oid, Text};
    [
        Oid,
        Name,
        Oid,
        InternalChar,
        Int8,
        Int4,
        Text,
        Int8,
        Int4,
        Float4,
        Int4,
        Int4,
    ]
}

/// The columns of a row of `evenkeel_domain`.
const DOMAIN: [SqlType; 8] = [
    SqlType::Oid,
    SqlType::Oid,
    SqlType::Name,
    SqlType::Oid,
    SqlType::Oid,
    SqlType::Int4,
    SqlType::Int4,
    SqlType::Text,
];

/// The columns of a row of `evenkeel_domain_constraint`.
const DOMAIN_CONSTRAINT: [SqlType; 6] = [
    SqlType::Oid,
    SqlType::Name,
    SqlType::Oid,
    SqlType::Text,
    SqlType::Text,
    SqlType::Bool,
];

/// The columns of a row of `pg_attribute`.
fn attribute_columns() -> [SqlType; 12] {
    use SqlType::{Bool, Bytea, Int2Vector, Int4, Name, Oid, Text};
    [
        Oid, Int4, Name, Oid, Int4, Int4, Bool, Bytea, Text, Text, Int2Vector, Bool,
    ]
}

/// The columns of a row of `pg_index`.
fn index_columns() -> [SqlType; 11] {
    use SqlType::{Bool, Int2Vector, Int4, Int8, Oid, Text};
    let texts = SqlType::TEXT_ARRAY;
    [
        Oid, Oid, Bool, Bool, Bool, Int2Vector, Int2Vector, Int8, texts, Text, Int4,
    ]
}

/// The columns of a row of `pg_constraint`.
fn constraint_columns() -> [SqlType; 9] {
    use SqlType::{Bool, Int2Vector, InternalChar, Name, Oid};
    [
        Oid,
        Name,
        InternalChar,
        Oid,
        Oid,
        Int2Vector,
        Bool,
        Bool,
        Bool,
    ]
}

impl SystemTables {
    /// Opens the catalog tables of one database. In a new one they are empty. `place` answers each
    /// one's number for locks and counters, and its file.
    pub fn open(
        db: &Database,
        place: &mut dyn FnMut(super::Oid) -> SqlResult<(u64, FileId)>,
    ) -> SqlResult<SystemTables> {
        use SqlType::{Bool, Float4, Int2Vector, Int4, Int8, InternalChar, Name, Oid, Text};
        let mut open = |oid, types: &[SqlType]| SystemTable::open(db, place(oid)?, types);
        Ok(SystemTables {
            class: open(CLASS_OID, &class_columns())?,
            attribute: open(ATTRIBUTE_OID, &attribute_columns())?,
            index: open(INDEX_OID, &index_columns())?,
            constraint: open(CONSTRAINT_OID, &constraint_columns())?,
            namespace: open(NAMESPACE_OID, &[Oid, Name])?,
            extension: open(EXTENSION_OID, &[Oid, Name, Text])?,
            sequence: open(
                SEQUENCE_OID,
                &[
                    Oid,
                    Oid,
                    Int8,
                    Int8,
                    Int8,
                    Int8,
                    Int8,
                    Bool,
                    Oid,
                    Int4,
                    InternalChar,
                ],
            )?,
            statistic: open(
                STATISTIC_OID,
                &[Oid, Int4, Float4, Int4, Float4, Float4, Text, Text, Text],
            )?,
            check: open(CHECKS_OID, &[Oid, Name, Oid, Int2Vector, Text, Text, Bool])?,
            foreign_key: open(
                FOREIGN_KEYS_OID,
                &[
                    Oid, Name, Oid, Oid, Oid, Int2Vector, Int2Vector, Int2Vector, Text, Bool, Bool,
                    Bool,
                ],
            )?,
            large: open(LARGE_OID, &[Oid, Oid, Oid, Int8, Int8])?,
            description: open(DESCRIPTION_OID, &[Oid, Oid, Int4, Text])?,
            view: open(VIEWS_OID, &[Oid, Int4, Text])?,
            enums: open(ENUMS_OID, &[Oid, Oid, Name, Oid])?,
            labels: open(LABELS_OID, &[Oid, Oid, Int8, Name])?,
            domains: open(DOMAINS_OID, &DOMAIN)?,
            domain_constraints: open(DOMAIN_CONSTRAINTS_OID, &DOMAIN_CONSTRAINT)?,
            counts: open(COUNTS_OID, &[&[Oid][..], &[Int8; COUNTS_KEPT]].concat())?,
        })
    }

    /// The tables, with their names.
    pub fn all(&self) -> [(&'static str, &SystemTable); 18] {
        [
            ("pg_class", &self.class),
            ("pg_attribute", &self.attribute),
            ("pg_index", &self.index),
            ("pg_constraint", &self.constraint),
            ("pg_namespace", &self.namespace),
            ("pg_extension", &self.extension),
            ("pg_statistic", &self.statistic),
            ("pg_sequence", &self.sequence),
            ("evenkeel_check", &self.check),
            ("evenkeel_foreign_key", &self.foreign_key),
            ("evenkeel_large", &self.large),
            ("pg_description", &self.description),
            ("evenkeel_view", &self.view),
            ("evenkeel_enum", &self.enums),
            ("pg_enum", &self.labels),
            ("evenkeel_domain", &self.domains),
            ("evenkeel_domain_constraint", &self.domain_constraints),
            ("evenkeel_table_counts", &self.counts),
        ]
    }

    /// The committed state, and an oid above all that are in use.
    pub fn load(&self, db: &Database, database: Oid) -> SqlResult<(CatalogState, Oid)> {
        let mut txn = db.begin(Isolation::RepeatableRead)?;
        txn.begin_statement()?;
        let mut state = CatalogState::of(db, database, 1);
        let mut greatest = 0;
        for (place, values) in self.namespace.read(&mut txn)? {
            let change = read_schema(place, values)?;
            if let CatalogChange::PutSchema(schema) = &change {
                greatest = greatest.max(schema.oid);
            }
            state.apply(&change);
        }
        greatest = greatest.max(self.load_enums(&mut txn, &mut state)?);
        greatest = greatest.max(self.load_domains(&mut txn, &mut state)?);
        let loaded = self.load_rows(&mut txn, &state)?;
        for (oid, entry) in &loaded.tables {
            let table = loaded.table(db, (*oid, state.table_id(*oid)), entry)?;
            let parts = table.indexes.iter().map(|index| index.oid);
            let constraints = table.constraints.iter().map(|constraint| constraint.oid);
            let checks = table.checks.iter().map(|check| check.oid);
            let columns = table.columns.iter();
            let not_nulls = columns.filter_map(|column| Some(column.not_null.as_ref()?.oid));
            let foreign = table.foreign_keys.iter().map(|key| key.oid);
            let all = parts
                .chain(constraints)
                .chain(checks)
                .chain(not_nulls)
                .chain(foreign);
            greatest = all.fold(greatest.max(*oid), Oid::max);
            state.apply(&CatalogChange::PutTable(Arc::new(table)));
        }
        for large in loaded.large.values() {
            greatest = greatest.max(large.oid).max(large.index_oid);
        }
        for sequence in &loaded.sequences {
            greatest = greatest.max(sequence.oid);
            state.apply(&CatalogChange::PutSequence(Arc::clone(sequence)));
        }
        greatest = greatest.max(self.load_views(&mut txn, &mut state)?);
        for (place, values) in self.extension.read(&mut txn)? {
            let mut fields = Fields::new(values, "pg_extension");
            let oid = fields.oid()?;
            let (name, version) = (fields.text()?.into(), fields.text()?.into());
            let extension = Arc::new(ExtensionInfo {
                oid,
                name,
                version,
                place,
            });
            greatest = greatest.max(oid);
            state.apply(&CatalogChange::PutExtension(extension));
        }
        for (place, values) in self.description.read(&mut txn)? {
            state.apply(&read_comment(place, values)?);
        }
        txn.rollback();
        Ok((state, greatest.saturating_add(1)))
    }

    /// The rows that are of relations, over a state that has the schemas and the types.
    fn load_rows(&self, txn: &mut Transaction, state: &CatalogState) -> SqlResult<Loaded> {
        let mut loaded = Loaded::default();
        let schemas = state.schemas();
        loaded.schema_names = schemas.map(|s| (s.oid, Arc::clone(&s.name))).collect();
        for (place, values) in self.class.read(txn)? {
            let mut fields = Fields::new(values, "pg_class");
            let (oid, name, schema) = (fields.oid()?, fields.text()?.into(), fields.oid()?);
            let (kind, file) = (fields.text()?, fields.file()?);
            let entry = class_entry(&kind, name, schema, (file, place), fields)?;
            match kind.as_str() {
                "r" => loaded.tables.insert(oid, entry),
                "i" => loaded.indexes.insert(oid, entry),
                "S" => loaded.sequence_classes.insert(oid, entry),
                _ => return Err(damaged("pg_class")),
            };
        }
        for (place, values) in self.attribute.read(txn)? {
            match read_attribute(place, values, state)? {
                (table, Ok(column)) => loaded.columns.entry(table).or_default().push(column),
                (table, Err(dropped)) => loaded.dropped.entry(table).or_default().push(dropped),
            }
        }
        for (place, values) in self.large.read(txn)? {
            let (table, large) = LargeInfo::read(place, values)?;
            loaded.large.insert(table, Arc::new(large));
        }
        for (place, values) in self.sequence.read(txn)? {
            let sequence = loaded.sequence(place, values)?;
            loaded.note_identity(&sequence);
            loaded.sequences.push(Arc::new(sequence));
        }
        for (place, values) in self.index.read(txn)? {
            let Some(Datum::Oid(table)) = values.get(1) else {
                return Err(damaged("pg_index"));
            };
            loaded
                .index_rows
                .entry(*table)
                .or_default()
                .push((place, values));
        }
        for (place, values) in self.statistic.read(txn)? {
            let Some(Datum::Oid(table)) = values.first() else {
                return Err(damaged("pg_statistic"));
            };
            let rows = loaded.statistics.entry(*table).or_default();
            rows.push((place, values));
        }
        for (place, values) in self.constraint.read(txn)? {
            match read_constraint(place, values)? {
                (table, Stored::Key(constraint)) => {
                    let constraints = loaded.constraints.entry(table).or_default();
                    constraints.push(constraint);
                }
                (table, Stored::NotNull(attnum, constraint)) => {
                    let constraints = loaded.not_nulls.entry(table).or_default();
                    constraints.push((attnum, constraint));
                }
            }
        }
        self.load_conditions(txn, &mut loaded)?;
        Ok(loaded)
    }

    /// CHECK constraints and foreign keys.
    fn load_conditions(&self, txn: &mut Transaction, loaded: &mut Loaded) -> SqlResult<()> {
        for (place, values) in self.check.read(txn)? {
            let (table, check) = read_check(place, values)?;
            loaded.checks.entry(table).or_default().push(check);
        }
        for (place, values) in self.foreign_key.read(txn)? {
            let (table, key) = read_foreign_key(place, values)?;
            let keys = loaded.foreign_keys.entry(table).or_default();
            keys.push(Arc::new(key));
        }
        Ok(())
    }
}

/// A row of `pg_namespace`.
pub(super) fn schema_row(oid: Oid, name: Option<&str>) -> Vec<Datum> {
    vec![Datum::Oid(oid), name.map_or(Datum::Null, Datum::from)]
}

fn read_schema(place: Tid, values: Vec<Datum>) -> SqlResult<CatalogChange> {
    let mut fields = Fields::new(values, "pg_namespace");
    let oid = fields.oid()?;
    Ok(match fields.text_or_null()? {
        Some(name) => CatalogChange::PutSchema(Arc::new(SchemaInfo {
            oid,
            name: name.into(),
            place: Some(place),
        })),
        None => CatalogChange::DropSchema(oid),
    })
}

/// A CHECK constraint's row of `evenkeel_check`.
pub(super) fn check_row(table: Oid, check: &CheckInfo, columns: &[ColumnInfo]) -> Vec<Datum> {
    vec![
        Datum::Oid(check.oid),
        (&*check.name).into(),
        Datum::Oid(table),
        vector(attnums(columns, check.columns.iter().copied())),
        (&*check.text).into(),
        (&*check.pretty).into(),
        Datum::Bool(check.validated),
    ]
}

fn read_check(place: Tid, values: Vec<Datum>) -> SqlResult<(Oid, CheckInfo)> {
    let mut fields = Fields::new(values, "evenkeel_check");
    let (oid, name, table) = (fields.oid()?, fields.text()?.into(), fields.oid()?);
    let columns = fields.numbers()?;
    let (text, pretty) = (fields.text()?.into(), fields.text()?.into());
    let check = CheckInfo {
        oid,
        name,
        text,
        pretty,
        columns,
        validated: fields.bool()?,
        place,
    };
    Ok((table, check))
}

/// Decodes the fields of a `pg_class` row that follow the file id.
fn class_entry(
    kind: &str,
    name: Arc<str>,
    schema: Oid,
    (file, place): (FileId, Tid),
    mut fields: Fields,
) -> SqlResult<ClassEntry> {
    let fillfactor = match fields.values.next() {
        Some(Datum::Int4(percent)) => u8::try_from(percent).ok(),
        _ => None,
    };
    let mut entry = ClassEntry {
        name,
        schema,
        file,
        fillfactor,
        parameters: Arc::default(),
        stats: RelationStats::default(),
        place,
    };
    if kind == "r" {
        let parameters = StorageParameters::from_stored(fields.text_or_null()?.as_deref());
        entry.parameters = Arc::new(parameters.ok_or_else(|| damaged("pg_class"))?);
        entry.stats = RelationStats {
            relfrozenxid: fields.file()?.0,
            relpages: fields.int4()?,
            reltuples: fields.float4()?,
            relallvisible: fields.int4()?,
            relallfrozen: fields.int4()?,
            columns: Vec::new(),
        };
    }
    Ok(entry)
}

/// A row of `pg_constraint` decoded.
enum Stored {
    /// One that an index enforces; its columns are numbers.
    Key(ConstraintInfo),
    /// NOT NULL of a column.
    NotNull(i16, NotNull),
}

fn read_constraint(place: Tid, values: Vec<Datum>) -> SqlResult<(Oid, Stored)> {
    let mut fields = Fields::new(values, "pg_constraint");
    let (oid, name) = (fields.oid()?, fields.text()?.into());
    let kind = match fields.text()?.as_str() {
        "p" => Some(ConstraintKind::Primary),
        "u" => Some(ConstraintKind::Unique),
        NOT_NULL_CODE => None,
        _ => return Err(damaged("pg_constraint")),
    };
    let (table, index_oid) = (fields.oid()?, fields.oid()?);
    let columns = fields.numbers()?;
    let validated = fields.bool()?;
    let (deferrable, deferred) = (fields.bool_or_false()?, fields.bool_or_false()?);
    let stored = match (kind, columns.as_slice()) {
        (Some(kind), _) => Stored::Key(ConstraintInfo {
            oid,
            name,
            kind,
            columns,
            index_oid,
            deferrable,
            deferred,
            place,
        }),
        (None, [attnum]) => {
            let attnum = i16::try_from(*attnum).map_err(|_| damaged("pg_constraint"))?;
            let constraint = NotNull {
                oid,
                name,
                validated,
                place,
            };
            Stored::NotNull(attnum, constraint)
        }
        (None, _) => return Err(damaged("pg_constraint")),
    };
    Ok((table, stored))
}

/// Positions of the columns with these numbers.
fn positions(columns: &[ColumnInfo], attnums: &[usize]) -> Option<Vec<usize>> {
    attnums
        .iter()
        .map(|attnum| position(columns, *attnum))
        .collect()
}

/// The position from 0 of the column of a number.
fn position(columns: &[ColumnInfo], attnum: usize) -> Option<usize> {
    let mut columns = columns.iter();
    columns.position(|column| usize::try_from(column.attnum) == Ok(attnum))
}

impl Loaded {
    fn sequence(&self, place: Tid, values: Vec<Datum>) -> SqlResult<SequenceInfo> {
        let mut fields = Fields::new(values, "pg_sequence");
        let (oid, type_oid) = (fields.oid()?, fields.oid()?);
        let ty = SqlType::from_oid(type_oid, -1).ok_or_else(|| damaged("pg_sequence"))?;
        let (start, increment) = (fields.int8()?, fields.int8()?);
        let (max, min, cache) = (fields.int8()?, fields.int8()?, fields.int8()?);
        let cycle = fields.bool()?;
        let (table, column) = (fields.oid()?, fields.int4()?);
        let column = i16::try_from(column).map_err(|_| damaged("pg_sequence"))?;
        let identity = Identity::from_code(&fields.text()?);
        let entry = self.sequence_classes.get(&oid);
        let entry = entry.filter(|_| increment != 0 && cache > 0);
        let entry = entry.ok_or_else(|| damaged("pg_sequence"))?;
        let schema = self.schema_names.get(&entry.schema).cloned();
        Ok(SequenceInfo {
            oid,
            name: Arc::clone(&entry.name),
            schema: schema.ok_or_else(|| damaged("pg_class"))?,
            schema_oid: entry.schema,
            ty,
            start,
            rule: Rule {
                increment,
                min,
                max,
                cache,
                cycle,
            },
            file: entry.file,
            owner: (table != 0).then_some((table, column)),
            identity,
            places: [entry.place, place],
        })
    }

    fn note_identity(&mut self, sequence: &SequenceInfo) {
        if let (Some((table, attnum)), Some(identity)) = (sequence.owner, sequence.identity) {
            let columns = self.columns.get_mut(&table).into_iter().flatten();
            for column in columns.filter(|column| column.attnum == attnum) {
                column.identity = Some((identity, sequence.oid));
            }
        }
    }

    /// The columns of a table and those that were dropped, which have all numbers from 1.
    fn columns_of(&self, oid: Oid) -> SqlResult<(Vec<ColumnInfo>, Vec<DroppedColumn>)> {
        let mut columns = self.columns.get(&oid).cloned().unwrap_or_default();
        columns.sort_by_key(|column| column.attnum);
        let mut dropped = self.dropped.get(&oid).cloned().unwrap_or_default();
        dropped.sort_by_key(|column| column.attnum);
        let mut numbers: Vec<i16> = columns.iter().map(|column| column.attnum).collect();
        numbers.extend(dropped.iter().map(|column| column.attnum));
        numbers.sort_unstable();
        if numbers.iter().zip(1..).any(|(number, n)| *number != n) {
            return Err(damaged("pg_attribute"));
        }
        for at in 0..columns.len() {
            let Some(generated) = columns[at].generated.clone() else {
                continue;
            };
            let positions = positions(&columns, &generated.columns);
            columns[at].generated = Some(Arc::new(Generated {
                columns: positions.ok_or_else(|| damaged("pg_attribute"))?,
                ..Generated::clone(&generated)
            }));
        }
        for (attnum, constraint) in self.not_nulls.get(&oid).into_iter().flatten() {
            let column = columns.iter_mut().find(|column| column.attnum == *attnum);
            let column = column.ok_or_else(|| damaged("pg_constraint"))?;
            column.not_null = Some(constraint.clone());
        }
        Ok((columns, dropped))
    }

    fn table(
        &self,
        db: &Database,
        (oid, id): (Oid, u64),
        entry: &ClassEntry,
    ) -> SqlResult<TableInfo> {
        let (columns, dropped) = self.columns_of(oid)?;
        let schema = self.schema_names.get(&entry.schema).cloned();
        let schema = schema.ok_or_else(|| damaged("pg_class"))?;
        let layout = Arc::new(layout_of(&columns, &dropped));
        let mut constraints = Vec::new();
        for constraint in self.constraints.get(&oid).into_iter().flatten() {
            let positions = positions(&columns, &constraint.columns);
            constraints.push(Arc::new(ConstraintInfo {
                columns: positions.ok_or_else(|| damaged("pg_constraint"))?,
                ..constraint.clone()
            }));
        }
        constraints.sort_by_key(|constraint| constraint.oid);
        let mut checks = Vec::new();
        for check in self.checks.get(&oid).into_iter().flatten() {
            let positions = positions(&columns, &check.columns);
            checks.push(Arc::new(CheckInfo {
                columns: positions.ok_or_else(|| damaged("evenkeel_check"))?,
                ..check.clone()
            }));
        }
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        let mut foreign_keys = self.foreign_keys.get(&oid).cloned().unwrap_or_default();
        foreign_keys.sort_by_key(|key| key.oid);
        let mut indexes = Vec::new();
        for (place, values) in self.index_rows.get(&oid).into_iter().flatten() {
            let of = (&columns[..], &layout, &constraints[..]);
            let index = self.index(*place, values.clone(), of)?;
            indexes.push(Arc::new(index));
        }
        indexes.sort_by_key(|index| index.oid);
        let declared = entry.fillfactor;
        let mut stats = entry.stats.clone();
        stats.columns = vec![None; columns.len()];
        for (place, values) in self.statistics.get(&oid).into_iter().flatten() {
            let mut fields = Fields::new(values.clone(), "pg_statistic");
            let (_, attnum) = (fields.oid()?, fields.int4()?);
            let mut numbers = columns.iter().map(|column| i32::from(column.attnum));
            let at = numbers.position(|number| number == attnum);
            let at = at.ok_or_else(|| damaged("pg_statistic"))?;
            let column = read_column_stats(*place, columns[at].ty, fields)?;
            stats.columns[at] = Some(Arc::new(column));
        }
        let parts = TableParts {
            id,
            oid,
            name: Arc::clone(&entry.name),
            schema,
            schema_oid: entry.schema,
            columns,
            dropped,
            indexes,
            constraints,
            checks,
            foreign_keys,
            heap: entry.file,
            large: self.large.get(&oid).cloned(),
            fillfactor: declared,
            parameters: Arc::clone(&entry.parameters),
            stats: Arc::new(stats),
            place: entry.place,
        };
        parts.open(db)
    }

    fn index(
        &self,
        place: Tid,
        values: Vec<Datum>,
        (table_columns, layout, constraints): (
            &[ColumnInfo],
            &Arc<RowLayout>,
            &[Arc<ConstraintInfo>],
        ),
    ) -> SqlResult<IndexInfo> {
        let mut fields = Fields::new(values, "pg_index");
        let (oid, table_oid) = (fields.oid()?, fields.oid()?);
        let (unique, primary) = (fields.bool()?, fields.bool()?);
        let nulls_not_distinct = fields.bool()?;
        let (numbers, options) = (fields.numbers()?, fields.vector()?);
        let usable_after = fields.xid_or_null()?;
        let entry = self.indexes.get(&oid).ok_or_else(|| damaged("pg_index"))?;
        let expressions = fields.texts()?.into_iter();
        let expressions = expressions.map(|text| read_expr(&text, table_columns, false));
        let expressions: Vec<IndexExpr> = expressions.collect::<SqlResult<_>>()?;
        let predicate = fields.text_or_null()?;
        let predicate = predicate.map(|text| read_expr(&text, table_columns, true));
        let predicate = predicate.transpose()?;
        let keys = fields.count_or(numbers.len())?;
        let (numbers, included) = numbers
            .split_at_checked(keys)
            .ok_or_else(|| damaged("pg_index"))?;
        let included = positions(table_columns, included).ok_or_else(|| damaged("pg_index"))?;
        let (columns, classes) =
            key_columns((numbers, &options), table_columns, layout, &expressions)?;
        let constraint = constraints
            .iter()
            .find(|constraint| constraint.index_oid == oid);
        Ok(IndexInfo {
            oid,
            name: Arc::clone(&entry.name),
            table_oid,
            key: index_key(
                layout,
                &columns,
                computed(&expressions, predicate.as_ref()),
                nulls_not_distinct,
            ),
            columns,
            classes,
            expressions,
            predicate,
            included,
            unique,
            deferrable: constraint.is_some_and(|constraint| constraint.deferrable),
            primary,
            nulls_not_distinct,
            constraint: constraint.map(|constraint| constraint.oid),
            file: entry.file,
            // Given by the order of oids when the table is opened.
            position: 0,
            usable_after,
            places: [entry.place, place],
        })
    }
}

/// The columns of an index's keys with their operator classes, from the numbers and options of its
/// row.
fn key_columns(
    (numbers, options): (&[usize], &[u32]),
    table_columns: &[ColumnInfo],
    layout: &RowLayout,
    expressions: &[IndexExpr],
) -> SqlResult<(Vec<KeyColumn>, Vec<Option<&'static OperatorClass>>)> {
    let mut of_expressions = expressions.iter().map(|expression| expression.ty);
    let mut columns = Vec::with_capacity(numbers.len());
    let mut classes = Vec::with_capacity(numbers.len());
    for (number, option) in numbers.iter().zip(options) {
        let class = OperatorClass::numbered(option >> OPTION_CLASS_SHIFT);
        classes.push(class.ok_or_else(|| damaged("pg_index"))?);
        let column = match number {
            0 => None,
            number => Some(position(table_columns, *number).ok_or_else(|| damaged("pg_index"))?),
        };
        let ty = match column {
            Some(column) => layout.column_type(column),
            None => of_expressions.next(),
        };
        columns.push(KeyColumn {
            column,
            ty: ty.ok_or_else(|| damaged("pg_index"))?,
            descending: option & OPTION_DESCENDING != 0,
            nulls_first: option & OPTION_NULLS_FIRST != 0,
        });
    }
    Ok((columns, classes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that was written before indexes had INCLUDE and keys were deferrable.
    #[test]
    fn rows_of_an_older_catalog_are_read() {
        let types = index_columns();
        let texts = || texts(std::iter::empty());
        let numbers = || vector([1, 2].into_iter());
        let old = [
            Datum::Oid(5),
            Datum::Oid(6),
            Datum::Bool(true),
            Datum::Bool(false),
            Datum::Bool(false),
            numbers(),
            numbers(),
            Datum::Null,
            texts(),
            Datum::Null,
        ];
        let mut row = Vec::new();
        let layout = RowLayout::new(&types[..old.len()]);
        layout.encode(&old, &mut row).unwrap();
        let values = RowLayout::new(&types).decode(&row).unwrap();
        let mut fields = Fields::new(values, "pg_index");
        fields.values.nth(old.len() - 1);
        assert_eq!(fields.count_or(2).unwrap(), 2);
        let mut fields = Fields::new(vec![Datum::Null, Datum::Bool(true)], "pg_constraint");
        assert!(!fields.bool_or_false().unwrap());
        assert!(fields.bool_or_false().unwrap());
    }
}
