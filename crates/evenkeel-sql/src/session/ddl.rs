//! DDL statements, translated to the catalog's operations.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction, WaitPolicy, block_on};
use sqlparser::ast::{
    self, AlterTable, AlterTableOperation, ColumnOption, CreateExtension, CreateIndex,
    CreateTableOptions, Expr, IndexColumn, IndexType, NullsDistinctOption, ObjectName, ObjectType,
    Owner, SqlOption, Statement, TableConstraint, Truncate,
};

use super::Session;
use crate::catalog::{
    Catalog, ConstraintKind, CreateTable, DdlLog, NewColumn, NewConstraint, NewIndex, Oid,
    Relation, StorageParameters, TableInfo,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser::names::{ident_text, split_name, undefined_table};
use crate::parser::type_from_ast;
use crate::planner::rows;

impl Session {
    /// Runs a DDL statement within the current transaction.
    pub(super) async fn ddl(&mut self, statement: &Statement) -> SqlResult<()> {
        self.ddl_statement(statement).await.map_err(of_index_build)
    }

    async fn ddl_statement(&mut self, statement: &Statement) -> SqlResult<()> {
        match statement {
            Statement::CreateTable(create) => self.create_table(create).await,
            Statement::CreateIndex(create) => self.create_index(create).await,
            Statement::AlterTable(alter) => self.alter_table(alter).await,
            Statement::Drop {
                object_type,
                if_exists,
                names,
                cascade,
                ..
            } => {
                self.drop_relations(*object_type, *if_exists, names, *cascade)
                    .await
            }
            Statement::Truncate(truncate) => self.truncate(truncate).await,
            Statement::CreateExtension(create) => self.create_extension(create).await,
            other => Err(SqlError::unsupported(other.to_string())),
        }
    }

    /// The parts that catalog operations need, each at once.
    fn ddl_parts(&mut self) -> SqlResult<(Arc<Catalog>, &mut Transaction, &DdlLog)> {
        let catalog = Arc::clone(self.engine.catalog());
        self.tx.ddl_used = true;
        let txn = self
            .tx
            .txn
            .as_mut()
            .ok_or_else(super::transaction::in_failed_block)?;
        Ok((catalog, txn, &self.tx.ddl))
    }

    /// Runs catalog work that reads a whole table on a thread where it holds nobody up.
    pub(super) async fn off_runtime<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Catalog, &mut Transaction, &DdlLog) -> SqlResult<T> + Send + 'static,
    ) -> SqlResult<T> {
        let catalog = Arc::clone(self.engine.catalog());
        self.tx.ddl_used = true;
        let ddl = self.tx.ddl.clone();
        let txn = self.tx.txn.take();
        let mut txn = txn.ok_or_else(super::transaction::in_failed_block)?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work(&catalog, &mut txn, &ddl);
            (txn, result)
        });
        let (txn, result) = done.await.map_err(|e| SqlError::internal(e.to_string()))?;
        self.tx.txn = Some(txn);
        result
    }

    /// The schema that a new relation goes into, and its name.
    fn new_name(&self, name: &ObjectName) -> SqlResult<(String, String)> {
        let (schema, name) = split_name(name)?;
        if let Some(schema) = schema {
            return Ok((schema, name));
        }
        let view = self.view();
        let path = self.effective.search_path.iter();
        let found = path
            .into_iter()
            .find(|schema| view.schema_oid(schema).is_some());
        match found {
            Some(schema) => Ok((schema.clone(), name)),
            None => Err(SqlError::new(
                SqlState::INVALID_SCHEMA_NAME,
                "no schema has been selected to create in",
            )),
        }
    }

    async fn create_table(&mut self, create: &ast::CreateTable) -> SqlResult<()> {
        refuse_table_features(create)?;
        let (schema, name) = self.new_name(&create.name)?;
        let mut columns = Vec::with_capacity(create.columns.len());
        let mut constraints = Vec::new();
        for column in &create.columns {
            columns.push(self.new_column(column, &mut constraints)?);
        }
        for constraint in &create.constraints {
            constraints.push(new_constraint(constraint)?);
        }
        let (fillfactor, parameters) = table_options(&create.table_options)?;
        let new = CreateTable {
            schema,
            name,
            columns,
            constraints,
            fillfactor,
            parameters,
            if_not_exists: create.if_not_exists,
        };
        let (catalog, txn, ddl) = self.ddl_parts()?;
        if catalog.create_table(txn, ddl, &new).await?.is_none() {
            let message = format!("relation \"{}\" already exists, skipping", new.name);
            self.notice("NOTICE", SqlState::DUPLICATE_TABLE, message);
        }
        Ok(())
    }

    fn new_column(
        &self,
        column: &ast::ColumnDef,
        constraints: &mut Vec<NewConstraint>,
    ) -> SqlResult<NewColumn> {
        let name = ident_text(&column.name);
        let ty = type_from_ast(&column.data_type)?;
        let mut new = NewColumn {
            name: name.clone(),
            ty,
            not_null: false,
            default: None,
        };
        for option in &column.options {
            let label = option.name.as_ref().map(ident_text);
            match &option.option {
                ColumnOption::Null => {}
                ColumnOption::NotNull => new.not_null = true,
                ColumnOption::Default(expr) => {
                    let text = expr.to_string();
                    self.check_default(&text, &new)?;
                    new.default = Some(text);
                }
                ColumnOption::PrimaryKey(_) => {
                    new.not_null = true;
                    constraints.push(NewConstraint {
                        name: label,
                        kind: ConstraintKind::Primary,
                        columns: vec![name.clone()],
                        nulls_not_distinct: false,
                    });
                }
                ColumnOption::Unique(unique) => constraints.push(NewConstraint {
                    name: label,
                    kind: ConstraintKind::Unique,
                    columns: vec![name.clone()],
                    nulls_not_distinct: unique.nulls_distinct == NullsDistinctOption::NotDistinct,
                }),
                other => return Err(SqlError::unsupported(format!("column option {other}"))),
            }
        }
        Ok(new)
    }

    /// A default must be an expression without columns that fits the column's type.
    fn check_default(&self, text: &str, column: &NewColumn) -> SqlResult<()> {
        let cx = Arc::new(self.statement_cx(self.view()));
        let made = rows::default_of(text, &column.name, column.ty, &cx);
        made.map(drop).map_err(|mut error| {
            error.fields.position = None;
            error
        })
    }

    async fn create_index(&mut self, create: &CreateIndex) -> SqlResult<()> {
        refuse_index_features(create)?;
        let table = self
            .locked_table(
                &create.table_name,
                TableLockMode::ShareRowExclusive,
                WaitPolicy::Block,
            )
            .await?;
        let name = match &create.name {
            Some(name) => Some(split_name(name)?.1),
            None => None,
        };
        let mut columns = Vec::with_capacity(create.columns.len());
        for column in &create.columns {
            let (name, descending, nulls_first) = index_column(column)?;
            columns.push((name, descending, nulls_first));
        }
        let new = NewIndex {
            name,
            columns,
            unique: create.unique,
            nulls_not_distinct: create.nulls_distinct == Some(false),
            if_not_exists: create.if_not_exists,
        };
        let name = new.name.clone().unwrap_or_default();
        let oid = table.oid;
        let made = self
            .off_runtime(move |catalog, txn, ddl| {
                Ok(block_on(catalog.create_index(txn, ddl, oid, &new))?.is_some())
            })
            .await?;
        if !made {
            let message = format!("relation \"{name}\" already exists, skipping");
            self.notice("NOTICE", SqlState::DUPLICATE_TABLE, message);
        }
        Ok(())
    }

    async fn alter_table(&mut self, alter: &AlterTable) -> SqlResult<()> {
        let mode = TableLockMode::AccessExclusive;
        let table = match self
            .locked_table(&alter.name, mode, WaitPolicy::Block)
            .await
        {
            Ok(table) => table,
            Err(error) if alter.if_exists && error.sqlstate == SqlState::UNDEFINED_TABLE => {
                let message = format!("relation \"{}\" does not exist, skipping", alter.name);
                self.notice("NOTICE", SqlState::UNDEFINED_TABLE, message);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let oid = table.oid;
        for operation in &alter.operations {
            // Each action is applied to what those before it have made of the table.
            let view = self.view();
            let table = view.table(oid).ok_or_else(|| {
                SqlError::internal("a table that is being altered is not there any more")
            })?;
            self.alter(table, operation).await?;
        }
        Ok(())
    }

    /// Everything belongs to one role, and can be given to no other.
    fn check_owner(&self, owner: &Owner) -> SqlResult<()> {
        match owner {
            Owner::Ident(name) if ident_text(name) != self.params.user => {
                let message = format!("role \"{}\" does not exist", ident_text(name));
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
            _ => Ok(()),
        }
    }

    async fn alter(&mut self, table: &TableInfo, operation: &AlterTableOperation) -> SqlResult<()> {
        match operation {
            AlterTableOperation::AddConstraint {
                constraint,
                not_valid: false,
            } => {
                let new = new_constraint(constraint)?;
                let oid = table.oid;
                self.off_runtime(move |catalog, txn, ddl| {
                    block_on(catalog.add_constraint(txn, ddl, oid, &new))
                })
                .await?;
                Ok(())
            }
            AlterTableOperation::OwnerTo { new_owner } => self.check_owner(new_owner),
            AlterTableOperation::SetOptionsParens { options } => {
                let mut parameters = StorageParameters::clone(&table.parameters);
                let mut fillfactor = table.fillfactor_declared.then_some(table.fillfactor);
                set_options(options, &mut fillfactor, &mut parameters)?;
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog
                    .set_parameters(txn, ddl, table.oid, fillfactor, parameters)
                    .await?;
                Ok(())
            }
            AlterTableOperation::DropConstraint {
                if_exists, name, ..
            } => {
                let name = ident_text(name);
                let there = table
                    .constraints
                    .iter()
                    .any(|constraint| *constraint.name == *name);
                if !there && *if_exists {
                    let message = format!(
                        "constraint \"{name}\" of relation \"{}\" does not exist, skipping",
                        table.name
                    );
                    self.notice("NOTICE", SqlState::UNDEFINED_OBJECT, message);
                    return Ok(());
                }
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.drop_constraint(txn, ddl, table.oid, &name).await?;
                Ok(())
            }
            other => Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
        }
    }

    async fn drop_relations(
        &mut self,
        object: ObjectType,
        if_exists: bool,
        names: &[ObjectName],
        _cascade: bool,
    ) -> SqlResult<()> {
        let mut found = Vec::new();
        for name in names {
            let (schema, table) = split_name(name)?;
            let path = &self.effective.search_path;
            let relation = self.view().find(schema.as_deref(), &table, path);
            match relation {
                Some(relation) => found.push(relation),
                None if if_exists => {
                    let kind = if object == ObjectType::Table {
                        "table"
                    } else {
                        "index"
                    };
                    let message = format!("{kind} \"{table}\" does not exist, skipping");
                    self.notice("NOTICE", SqlState::SUCCESS, message);
                }
                None => return Err(missing(object, schema.as_deref(), &table)),
            }
        }
        for relation in found {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            match (object, &relation) {
                (ObjectType::Table, Relation::Table(table)) => {
                    catalog.drop_table(txn, ddl, table.oid).await?;
                }
                (ObjectType::Index, Relation::Index(_, index)) => {
                    catalog.drop_index(txn, ddl, index.oid).await?;
                }
                (ObjectType::Table, Relation::Index(_, index)) => {
                    return Err(wrong_object(&index.name, "a table"));
                }
                (_, Relation::Table(table)) => return Err(wrong_object(&table.name, "an index")),
                (other, _) => return Err(SqlError::unsupported(format!("DROP {other}"))),
            }
        }
        Ok(())
    }

    /// ALTER TABLE … RESET.
    pub(super) async fn reset_parameters(
        &mut self,
        name: &ObjectName,
        names: &[String],
    ) -> SqlResult<()> {
        let mode = TableLockMode::ShareUpdateExclusive;
        let table = self.locked_table(name, mode, WaitPolicy::Block).await?;
        let mut parameters = StorageParameters::clone(&table.parameters);
        names.iter().for_each(|name| parameters.reset(name));
        let declared = table.fillfactor_declared.then_some(table.fillfactor);
        let fillfactor = declared.filter(|_| !names.iter().any(|name| name == "fillfactor"));
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog
            .set_parameters(txn, ddl, table.oid, fillfactor, parameters)
            .await?;
        Ok(())
    }

    async fn truncate(&mut self, truncate: &Truncate) -> SqlResult<()> {
        let mut tables: Vec<Oid> = Vec::with_capacity(truncate.table_names.len());
        for target in &truncate.table_names {
            let mode = TableLockMode::AccessExclusive;
            let table = self
                .locked_table(&target.name, mode, WaitPolicy::Block)
                .await?;
            if !tables.contains(&table.oid) {
                tables.push(table.oid);
            }
        }
        for oid in tables {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.truncate(txn, ddl, oid).await?;
        }
        Ok(())
    }

    async fn create_extension(&mut self, create: &CreateExtension) -> SqlResult<()> {
        let name = ident_text(&create.name);
        let (catalog, txn, ddl) = self.ddl_parts()?;
        if !catalog
            .create_extension(txn, ddl, &name, create.if_not_exists)
            .await?
        {
            let message = format!("extension \"{name}\" already exists, skipping");
            self.notice("NOTICE", SqlState::DUPLICATE_OBJECT, message);
        }
        Ok(())
    }
}

/// A duplicate key met by DDL is one that the rows had before.
fn of_index_build(error: SqlError) -> SqlError {
    match error
        .message
        .strip_prefix("duplicate key value violates unique constraint ")
    {
        Some(index) => {
            let message = format!("could not create unique index {index}");
            SqlError {
                message: message.into(),
                ..error
            }
        }
        None => error,
    }
}

fn missing(object: ObjectType, schema: Option<&str>, name: &str) -> SqlError {
    match object {
        ObjectType::Table => {
            let error = undefined_table(schema, name);
            let message = error.message.replacen("relation", "table", 1);
            SqlError::new(error.sqlstate, message)
        }
        ObjectType::Index => SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("index \"{name}\" does not exist"),
        ),
        other => SqlError::unsupported(format!("DROP {other}")),
    }
}

fn wrong_object(name: &str, wanted: &str) -> SqlError {
    SqlError::new(
        SqlState::WRONG_OBJECT_TYPE,
        format!("\"{name}\" is not {wanted}"),
    )
}

fn refuse_table_features(create: &ast::CreateTable) -> SqlResult<()> {
    let features = [
        (create.temporary, "CREATE TEMPORARY TABLE"),
        (create.query.is_some(), "CREATE TABLE AS"),
        (create.like.is_some(), "CREATE TABLE LIKE"),
        (create.inherits.is_some(), "INHERITS"),
        (
            create.partition_by.is_some() || create.partition_of.is_some(),
            "partitioning",
        ),
        (create.on_commit.is_some(), "ON COMMIT"),
        (
            create.or_replace || create.external,
            "this form of CREATE TABLE",
        ),
    ];
    match features.iter().find(|(used, _)| *used) {
        Some((_, name)) => Err(SqlError::unsupported(name)),
        None => Ok(()),
    }
}

fn refuse_index_features(create: &CreateIndex) -> SqlResult<()> {
    if let Some(method) = &create.using
        && !matches!(method, IndexType::BTree)
    {
        return Err(SqlError::unsupported(format!("access method {method}")));
    }
    let features = [
        (create.concurrently, "CREATE INDEX CONCURRENTLY"),
        (!create.include.is_empty(), "INCLUDE"),
        (create.predicate.is_some(), "a partial index"),
    ];
    match features.iter().find(|(used, _)| *used) {
        Some((_, name)) => Err(SqlError::unsupported(name)),
        None => Ok(()),
    }
}

/// The storage parameters of CREATE TABLE.
fn table_options(options: &CreateTableOptions) -> SqlResult<(Option<u8>, StorageParameters)> {
    let mut parameters = StorageParameters::default();
    let mut fillfactor = None;
    if let CreateTableOptions::With(options) | CreateTableOptions::Options(options) = options {
        set_options(options, &mut fillfactor, &mut parameters)?;
    }
    Ok((fillfactor, parameters))
}

/// Applies `name = value` items.
fn set_options(
    options: &[SqlOption],
    fillfactor: &mut Option<u8>,
    parameters: &mut StorageParameters,
) -> SqlResult<()> {
    for option in options {
        let (name, text) = match option {
            SqlOption::KeyValue { key, value } => (ident_text(key), value.to_string()),
            SqlOption::Ident(name) => (ident_text(name), "true".into()),
            _ => return Err(SqlError::unsupported(format!("storage parameter {option}"))),
        };
        let text = text.trim_matches('\'');
        if name != "fillfactor" {
            parameters.set(&name, text)?;
            continue;
        }
        let number = text.parse::<u8>().ok();
        *fillfactor = Some(number.filter(|n| (10..=100).contains(n)).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("value {text} out of bounds for option \"fillfactor\""),
            )
            .detail("Valid values are between \"10\" and \"100\".")
        })?);
    }
    Ok(())
}

fn new_constraint(constraint: &TableConstraint) -> SqlResult<NewConstraint> {
    let (name, kind, columns, nulls_not_distinct) = match constraint {
        TableConstraint::PrimaryKey(primary) => (
            &primary.name,
            ConstraintKind::Primary,
            &primary.columns,
            false,
        ),
        TableConstraint::Unique(unique) => {
            let not_distinct = unique.nulls_distinct == NullsDistinctOption::NotDistinct;
            (
                &unique.name,
                ConstraintKind::Unique,
                &unique.columns,
                not_distinct,
            )
        }
        other => return Err(SqlError::unsupported(format!("constraint {other}"))),
    };
    let columns = columns
        .iter()
        .map(|column| Ok(index_column(column)?.0))
        .collect::<SqlResult<_>>()?;
    Ok(NewConstraint {
        name: name.as_ref().map(ident_text),
        kind,
        columns,
        nulls_not_distinct,
    })
}

fn index_column(column: &IndexColumn) -> SqlResult<(String, bool, Option<bool>)> {
    if column.operator_class.is_some() {
        return Err(SqlError::unsupported("an operator class"));
    }
    let Expr::Identifier(ident) = &column.column.expr else {
        return Err(SqlError::unsupported("an index on an expression"));
    };
    let options = &column.column.options;
    Ok((
        ident_text(ident),
        options.asc == Some(false),
        options.nulls_first,
    ))
}
