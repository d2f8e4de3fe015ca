//! CREATE TABLE, CREATE EXTENSION, and the making of indexes.

use std::sync::Arc;

use evenkeel_engine::{EngineError, TableLockMode, Transaction, WaitPolicy};
use evenkeel_planner::relation::SystemColumn;

use super::index::{IndexPlan, check_width, included, join_names, key_column, refuse_virtual};
use super::index_expr::{computed, index_key};
use super::names::free_name;
use super::parts::{TableParts, index_def};
use super::state::CatalogChange;
use super::system::{attribute_row, constraint_row, index_class_row, index_row, table_row};
use super::{
    Catalog, CatalogState, ColumnInfo, ConstraintInfo, ConstraintKind, DdlLog, ExtensionInfo,
    Generated, IndexInfo, NOWHERE, NewCheck, NewNotNull, Oid, OwnSequence, RelationStats,
    StorageParameters, TableInfo, split_domain,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, SqlType};
use evenkeel_types::row::MAX_COLUMNS;

/// Extensions that CREATE EXTENSION knows, with their versions. The objects they install are built
/// in.
pub(crate) const EXTENSIONS: [(&str, &str); 2] = [("plpgsql", "1.0"), ("uuid-ossp", "1.1")];

/// A column of CREATE TABLE.
#[derive(Debug, Clone)]
pub struct NewColumn {
    /// Name.
    pub name: String,
    /// The type that it is declared with.
    pub ty: SqlType,
    /// NOT NULL.
    pub not_null: bool,
    /// The name of that constraint, if it was given one.
    pub not_null_name: Option<String>,
    /// DEFAULT, as SQL text.
    pub default: Option<String>,
    /// GENERATED ALWAYS AS (…) STORED; its columns are positions in the table.
    pub generated: Option<Generated>,
    /// The sequence of a `serial` or an identity, made with the table.
    pub sequence: Option<OwnSequence>,
}

impl NewColumn {
    /// A column with nothing but a name and a type.
    pub fn plain(name: String, ty: SqlType) -> NewColumn {
        NewColumn {
            name,
            ty,
            not_null: false,
            not_null_name: None,
            default: None,
            generated: None,
            sequence: None,
        }
    }
}

impl NewColumn {
    /// Whether it was declared as a `serial`.
    pub fn is_serial(&self) -> bool {
        self.sequence
            .as_ref()
            .is_some_and(|own| own.identity.is_none())
    }
}

/// PRIMARY KEY or UNIQUE.
#[derive(Debug, Clone)]
pub struct NewConstraint {
    /// Name, if it was given one.
    pub name: Option<String>,
    /// Kind.
    pub kind: ConstraintKind,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// Names of the columns of INCLUDE.
    pub included: Vec<String>,
    /// `DEFERRABLE`
    pub deferrable: bool,
    /// `INITIALLY DEFERRED`
    pub deferred: bool,
    /// NULLS NOT DISTINCT.
    pub nulls_not_distinct: bool,
}

impl NewConstraint {
    /// Whether the index of one would do for both.
    pub fn is_like(&self, other: &NewConstraint) -> bool {
        let columns = self.columns == other.columns && self.included == other.included;
        let timing = (self.deferrable, self.deferred) == (other.deferrable, other.deferred);
        columns && timing && self.nulls_not_distinct == other.nulls_not_distinct
    }
}

/// CREATE TABLE.
#[derive(Debug, Clone)]
pub struct CreateTable {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Columns.
    pub columns: Vec<NewColumn>,
    /// Keys, of columns and of the table.
    pub constraints: Vec<NewConstraint>,
    /// CHECK constraints, of columns and of the table.
    pub checks: Vec<NewCheck>,
    /// `WITH (fillfactor = …)`, in percent.
    pub fillfactor: Option<u8>,
    /// The other storage parameters.
    pub parameters: StorageParameters,
    /// IF NOT EXISTS
    pub if_not_exists: bool,
}

fn relation_exists(name: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_TABLE,
        format!("relation \"{name}\" already exists"),
    )
}

/// Whether every table has a column of this name.
pub fn is_system_column(name: &str) -> bool {
    SystemColumn::named(name).is_some()
}

/// Refuses a name for a column that the table already has.
///
/// # Errors
/// 42701
pub fn check_column_name(table: &TableInfo, name: &str) -> SqlResult<()> {
    let message = if is_system_column(name) {
        format!("column name \"{name}\" conflicts with a system column name")
    } else if table.column(name).is_some() {
        format!(
            "column \"{name}\" of relation \"{}\" already exists",
            table.name
        )
    } else {
        return Ok(());
    };
    Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message))
}

/// Checks the columns of a definition before anything is created.
fn check_columns(create: &CreateTable) -> SqlResult<()> {
    if create.columns.len() > MAX_COLUMNS {
        let message = format!("tables can have at most {MAX_COLUMNS} columns");
        return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    for (at, column) in create.columns.iter().enumerate() {
        if is_system_column(&column.name) {
            let message = format!(
                "column name \"{}\" conflicts with a system column name",
                column.name
            );
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        if create.columns[..at]
            .iter()
            .any(|other| other.name == column.name)
        {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        check_column(column)?;
    }
    let primaries = create
        .constraints
        .iter()
        .filter(|c| c.kind == ConstraintKind::Primary);
    if primaries.count() > 1 {
        return Err(second_primary_key(&create.name));
    }
    Ok(())
}

/// Refuses a column of a type that no row can have.
///
/// # Errors
/// 42P16, 0A000
pub(super) fn check_column(column: &NewColumn) -> SqlResult<()> {
    if column.ty.is_storable() {
        return Ok(());
    }
    let name = column.ty.base_name();
    Err(match column.ty {
        SqlType::Unknown | SqlType::Void => {
            let message = format!("column \"{}\" has pseudo-type {name}", column.name);
            SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
        }
        _ => SqlError::unsupported(format!("a column of type {name}")),
    })
}

/// 42P16
pub fn second_primary_key(table: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TABLE_DEFINITION,
        format!("multiple primary keys for table \"{table}\" are not allowed"),
    )
}

impl Catalog {
    /// Creates a table with its constraints' indexes; `None` if it is there already and
    /// IF NOT EXISTS was said.
    ///
    /// # Errors
    /// 42P07, 42701, 42703, 42P16, 3F000, 0A000 for a column type, and the engine's.
    pub async fn create_table(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        create: &CreateTable,
    ) -> SqlResult<Option<Arc<TableInfo>>> {
        check_columns(create)?;
        let schema_oid = self.schema_for_create(ddl, &create.schema)?;
        if !self
            .claim_name(txn, ddl, schema_oid, &create.name, create.if_not_exists)
            .await?
        {
            return Ok(None);
        }
        let types = create.columns.iter().map(|column| column.ty);
        self.keep_types(txn, ddl, (schema_oid, &create.name), types)
            .await?;
        let oid = self.new_oid()?;
        let mode = TableLockMode::AccessExclusive;
        txn.lock_table(self.table_id(oid), mode, WaitPolicy::Block)
            .await?;
        let mut parts = TableParts {
            id: self.table_id(oid),
            oid,
            name: create.name.as_str().into(),
            schema: create.schema.as_str().into(),
            schema_oid,
            columns: new_columns(create),
            dropped: Vec::new(),
            indexes: Vec::new(),
            constraints: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            heap: self.new_file(txn, &create.schema)?,
            large: None,
            fillfactor: create.fillfactor,
            parameters: Arc::new(create.parameters.clone()),
            // Nothing older than this can come into it.
            stats: Arc::new(RelationStats::new(self.db.horizon().floor())),
            place: NOWHERE,
        };
        let plans = self
            .constraint_plans(txn, ddl, &parts, &create.constraints)
            .await?;
        let own = create.columns.iter().map(|column| column.sequence.as_ref());
        self.own_sequences(txn, ddl, &mut parts, own).await?;
        let row = table_row(&parts);
        parts.place = self.tables.class.insert(txn, &row).await?;
        for at in 0..parts.columns.len() {
            let row = attribute_row(oid, &parts.columns, at)?;
            parts.columns[at].place = self.tables.attribute.insert(txn, &row).await?;
        }
        for plan in plans {
            self.add_index(txn, &mut parts, plan).await?;
        }
        self.add_checks(txn, ddl, &mut parts, &create.checks)
            .await?;
        for (at, column) in create.columns.iter().enumerate() {
            if column.not_null || column.sequence.is_some() || in_primary_key(create, &column.name)
            {
                let new = NewNotNull {
                    name: column.not_null_name.clone(),
                    ..NewNotNull::default()
                };
                self.add_not_null(txn, ddl, &mut parts, at, &new).await?;
            }
        }
        self.finish(txn, ddl, parts).map(Some)
    }

    /// Installs an extension; false if it is there already and IF NOT EXISTS was said.
    ///
    /// # Errors
    /// 42710, and 0A000 for one that does not exist.
    pub async fn create_extension(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        name: &str,
        if_not_exists: bool,
    ) -> SqlResult<bool> {
        let Some((_, version)) = EXTENSIONS.iter().find(|(known, _)| *known == name) else {
            let message = format!("extension \"{name}\" is not available");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        };
        let lock = self.name_lock(0, name);
        txn.lock_table(lock, TableLockMode::Exclusive, WaitPolicy::Block)
            .await?;
        if name == "plpgsql" || self.view(ddl).extension(name).is_some() {
            let message = format!("extension \"{name}\" already exists");
            let error = SqlError::new(SqlState::DUPLICATE_OBJECT, message);
            return if if_not_exists { Ok(false) } else { Err(error) };
        }
        let oid = self.new_oid()?;
        let row = [Datum::Oid(oid), name.into(), (*version).into()];
        let place = self.tables.extension.insert(txn, &row).await?;
        let (name, version) = (Arc::from(name), Arc::from(*version));
        let extension = Arc::new(ExtensionInfo {
            oid,
            name,
            version,
            place,
        });
        ddl.push(txn, &self.shared, CatalogChange::PutExtension(extension));
        txn.next_command()?;
        Ok(true)
    }

    /// Reserves a relation's name to the end of the transaction, and keeps its schema. False if it
    /// is taken and that is all right; 42P07 if it is taken.
    pub(super) async fn claim_name(
        &self,
        txn: &Transaction,
        ddl: &DdlLog,
        schema: Oid,
        name: &str,
        may_exist: bool,
    ) -> SqlResult<bool> {
        self.keep_schema(txn, ddl, schema).await?;
        let lock = self.name_lock(schema, name);
        txn.lock_table(lock, TableLockMode::Exclusive, WaitPolicy::Block)
            .await?;
        match self.view(ddl).relation_in(schema, name) {
            None => Ok(true),
            Some(_) if may_exist => Ok(false),
            Some(_) => Err(relation_exists(name)),
        }
    }

    /// Resolves constraints to indexes with names that are then this transaction's.
    pub(super) async fn constraint_plans(
        &self,
        txn: &Transaction,
        ddl: &DdlLog,
        parts: &TableParts,
        constraints: &[NewConstraint],
    ) -> SqlResult<Vec<IndexPlan>> {
        let state = self.view(ddl);
        let mut plans: Vec<IndexPlan> = Vec::new();
        for constraint in constraints {
            let plan = constraint_plan(&state, parts, &plans, constraint)?;
            self.claim_name(txn, ddl, parts.schema_oid, &plan.name, false)
                .await?;
            plans.push(plan);
        }
        Ok(plans)
    }

    /// Makes and fills an index, and writes its rows. The caller holds a lock that keeps
    /// writers out of the table.
    pub(super) async fn add_index(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        plan: IndexPlan,
    ) -> SqlResult<()> {
        let (oid, constraint_oid) = (self.new_oid()?, self.new_oid()?);
        let layout = parts.layout();
        let mut index = IndexInfo {
            oid,
            name: plan.name.as_str().into(),
            table_oid: parts.oid,
            key: index_key(
                &layout,
                &plan.columns,
                computed(&plan.expressions, plan.predicate.as_ref()),
                plan.nulls_not_distinct,
            ),
            columns: plan.columns,
            classes: plan.classes,
            expressions: plan.expressions,
            predicate: plan.predicate,
            included: plan.included,
            unique: plan.unique,
            deferrable: plan.deferrable,
            primary: plan.constraint == Some(ConstraintKind::Primary),
            nulls_not_distinct: plan.nulls_not_distinct,
            constraint: plan.constraint.map(|_| constraint_oid),
            file: txn.create_file_like(parts.heap)?,
            position: parts.indexes.len(),
            usable_after: None,
            places: [NOWHERE; 2],
        };
        let before = evenkeel_engine::table::Table::open(&self.db, parts.def(index.position))?;
        let built = match before.build_index(txn, &index_def(&index)) {
            Err(error @ EngineError::DuplicateRows { .. }) => {
                let row = match &error {
                    EngineError::DuplicateRows { row, .. } => Arc::clone(row),
                    _ => Arc::default(),
                };
                return Err(index.duplicated(parts, &row, error.into())?);
            }
            built => built?,
        };
        if built.broken_chains {
            index.usable_after = Some(txn.xid()?);
        }
        let row = index_class_row(oid, &index.name, parts.schema_oid, index.file);
        index.places[0] = self.tables.class.insert(txn, &row).await?;
        let row = index_row(&index, &parts.columns);
        index.places[1] = self.tables.index.insert(txn, &row).await?;
        if let Some(kind) = plan.constraint {
            let mut constraint = ConstraintInfo {
                oid: constraint_oid,
                name: Arc::clone(&index.name),
                kind,
                columns: index.columns.iter().filter_map(|key| key.column).collect(),
                index_oid: oid,
                deferrable: plan.deferrable,
                deferred: plan.deferred,
                place: NOWHERE,
            };
            let row = constraint_row(parts.oid, &constraint, &parts.columns);
            constraint.place = self.tables.constraint.insert(txn, &row).await?;
            parts.constraints.push(Arc::new(constraint));
        }
        parts.indexes.push(Arc::new(index));
        Ok(())
    }

    /// Opens the table under its new definition and makes that this transaction's.
    pub(super) fn finish(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        mut parts: TableParts,
    ) -> SqlResult<Arc<TableInfo>> {
        if parts.large.is_none()
            && let Some(large) = self.new_large(txn, &parts)?
        {
            self.put_large(txn, &mut parts, large)?;
        }
        let table = Arc::new(parts.open(&self.db)?);
        let put = CatalogChange::PutTable(Arc::clone(&table));
        ddl.push(txn, &self.shared, put);
        // Later commands of this transaction may change the catalog rows written by this one.
        txn.next_command()?;
        Ok(table)
    }
}

fn in_primary_key(create: &CreateTable, name: &String) -> bool {
    let mut constraints = create.constraints.iter();
    constraints.any(|c| c.kind == ConstraintKind::Primary && c.columns.contains(name))
}

fn new_columns(create: &CreateTable) -> Vec<ColumnInfo> {
    let column = |(attnum, new): (i16, &NewColumn)| ColumnInfo {
        name: new.name.as_str().into(),
        ty: new.ty.storage(),
        domain: split_domain(new.ty).1,
        attnum,
        not_null: None,
        default: new.default.as_deref().map(Into::into),
        identity: None,
        generated: new.generated.clone().map(Arc::new),
        missing: None,
        place: NOWHERE,
    };
    (1i16..).zip(&create.columns).map(column).collect()
}

fn constraint_plan(
    state: &CatalogState,
    parts: &TableParts,
    before: &[IndexPlan],
    constraint: &NewConstraint,
) -> SqlResult<IndexPlan> {
    check_width(constraint.columns.len() + constraint.included.len())?;
    let columns = constraint
        .columns
        .iter()
        .map(|name| key_column(&parts.columns, name, false, None))
        .collect::<SqlResult<Vec<_>>>()?;
    let repeated = (0..columns.len()).find(|&at| {
        columns[..at]
            .iter()
            .any(|other| other.column == columns[at].column)
    });
    if let Some(at) = repeated {
        let message = format!(
            "column \"{}\" appears twice in {} constraint",
            constraint.columns[at],
            constraint.kind.words().to_lowercase()
        );
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    let included = included(&parts.columns, &constraint.included, &|error, _| error)?;
    let what = match constraint.kind {
        ConstraintKind::Primary => "primary keys",
        ConstraintKind::Unique => "unique constraints",
    };
    let keys = columns.iter().filter_map(|column| column.column);
    refuse_virtual(&parts.columns, keys.chain(included.iter().copied()), what)?;
    let (words, label) = match constraint.kind {
        ConstraintKind::Primary => (String::new(), "pkey"),
        ConstraintKind::Unique => {
            let of = (&columns[..], &included[..]);
            (join_names(&parts.columns, of, &[]), "key")
        }
    };
    let mut taken: Vec<String> = before.iter().map(|plan| plan.name.clone()).collect();
    taken.push(parts.name.to_string());
    let name = constraint
        .name
        .clone()
        .unwrap_or_else(|| free_name(state, parts.schema_oid, &taken, &parts.name, &words, label));
    if taken.contains(&name) || state.relation_in(parts.schema_oid, &name).is_some() {
        return Err(relation_exists(&name));
    }
    Ok(IndexPlan {
        name,
        classes: vec![None; columns.len()],
        columns,
        expressions: Vec::new(),
        predicate: None,
        included,
        unique: true,
        deferrable: constraint.deferrable,
        deferred: constraint.deferred,
        nulls_not_distinct: constraint.nulls_not_distinct,
        constraint: Some(constraint.kind),
    })
}
