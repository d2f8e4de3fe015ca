//! DDL statements, translated to the catalog's operations.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction, WaitPolicy, block_on};
use evenkeel_planner::ast::{
    self, CommandOption, Constraint, CreateIndex, Define, DropKind, ExprKind, FieldPart,
    IndexElement, KeyConstraint, QualifiedName, Role, SortDirection, TableElement,
};
use evenkeel_planner::bind::Kept;

use evenkeel_planner::bind::BoundIndexExpr;

use super::Session;
use super::like::Copied;
use super::sequence_options::serial_type;
use super::views::only_views;
use crate::catalog::{
    Catalog, ConstraintKind, CreateTable, DdlLog, Generated, NewCheck, NewColumn, NewConstraint,
    NewIndex, NewIndexColumn, NewIndexKey, Oid, OwnSequence, PUBLIC_OID, Relation,
    StorageParameters, TableInfo,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser::parse::type_of;
use crate::planner::rows::{self, Names};
use crate::types::SqlType;

impl Session {
    /// Runs a definition within the current transaction.
    pub(super) async fn ddl(&mut self, define: &Define) -> SqlResult<()> {
        let before = self.tx.ddl.mark();
        self.define_one(define).await?;
        self.keep_mentioned_types(before).await?;
        if matches!(define, Define::Drop(_) | Define::AlterTable(_)) {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.drop_comments(txn, ddl).await?;
        }
        Ok(())
    }

    async fn define_one(&mut self, define: &Define) -> SqlResult<()> {
        match define {
            Define::Comment(comment) => self.comment_on(comment).await,
            Define::CreateTable(create) => self.create_table(create).await,
            Define::CreateTableAs(_) => Err(SqlError::internal("CREATE TABLE AS is run elsewhere")),
            Define::CreateView(create) if create.recursive => {
                self.create_recursive_view(create).await
            }
            Define::CreateView(create) => self.create_view(create).await,
            Define::AlterView(alter) => self.alter_view(alter).await,
            Define::CreateEnum { name, labels } => self.create_enum(name, labels).await,
            Define::AlterType(alter) => self.alter_type(alter).await,
            Define::CreateDomain(create) => self.create_domain(create).await,
            Define::AlterDomain(alter) => self.alter_domain(alter).await,
            Define::CreateIndex(create) => self.create_index(create).await,
            Define::AlterTable(alter) => self.alter_table(alter).await,
            Define::Rename(rename) => self.rename(rename).await,
            Define::SetSchema(set) => self.set_schema(set).await,
            Define::Drop(drop) => self.drop_relations(drop).await,
            Define::Truncate {
                tables,
                restart,
                cascade,
            } => self.truncate(tables, *restart, *cascade).await,
            Define::CreateSequence {
                name,
                persistence,
                if_not_exists,
                options,
            } => {
                self.create_sequence(name, *persistence, *if_not_exists, options)
                    .await
            }
            Define::AlterSequence {
                name,
                if_exists,
                change,
            } => self.alter_sequence(name, *if_exists, change).await,
            Define::CreateSchema { elements: true, .. } => {
                Err(SqlError::unsupported("CREATE SCHEMA with elements"))
            }
            Define::CreateSchema {
                name,
                owner,
                if_not_exists,
                ..
            } => {
                self.create_schema(name.as_ref(), owner.as_ref(), *if_not_exists)
                    .await
            }
            Define::Database(command) => self.database_command(command).await,
            Define::AlterSchema { name, change } => self.alter_schema(name, change).await,
            Define::CreateExtension {
                unbuilt: Some(clause),
                ..
            } => Err(SqlError::unsupported(clause)),
            Define::CreateExtension {
                name,
                if_not_exists,
                ..
            } => self.create_extension(&name.text, *if_not_exists).await,
        }
    }

    /// The parts that catalog operations need, each at once.
    pub(super) fn ddl_parts(&mut self) -> SqlResult<(Arc<Catalog>, &mut Transaction, &DdlLog)> {
        let catalog = Arc::clone(&self.catalog);
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
        let catalog = Arc::clone(&self.catalog);
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

    async fn create_table(&mut self, create: &ast::CreateTable) -> SqlResult<()> {
        if let Some(clause) = create.unbuilt {
            return Err(SqlError::unsupported(clause));
        }
        let persistence = create.persistence;
        let (schema, name) = self.new_name(&create.name, persistence, "TABLE").await?;
        self.check_on_commit(&schema, create.on_commit)?;
        let mut columns = Vec::with_capacity(create.elements.len());
        let mut constraints = Vec::new();
        let mut like = Copied::default();
        for element in &create.elements {
            match element {
                TableElement::Column(column) => {
                    columns.push(self.new_column(&name, column, &mut constraints)?);
                }
                TableElement::Like(name, options) => {
                    let made = (&mut columns, &mut constraints);
                    self.copy_like(name, *options, made, &mut like).await?;
                }
                TableElement::Constraint(_) => {}
            }
        }
        self.bind_generated(&name, create, &mut columns)?;
        let mut checks = std::mem::take(&mut like.checks);
        for element in &create.elements {
            if let TableElement::Column(column) = element {
                for constraint in &column.constraints {
                    checks.extend(self.new_check(&name, constraint, &columns)?);
                }
            }
        }
        for element in &create.elements {
            if let TableElement::Constraint(constraint) = element {
                if let Some(check) = self.new_check(&name, constraint, &columns)? {
                    checks.push(check);
                    continue;
                }
                if matches!(constraint.kind, ast::ConstraintKind::ForeignKey(_)) {
                    continue;
                }
                table_constraint(&name, constraint, &mut columns, &mut constraints)?;
            }
        }
        let (mut fillfactor, mut parameters) = (None, StorageParameters::default());
        set_options(&create.options, &mut fillfactor, &mut parameters)?;
        let new = CreateTable {
            schema,
            name,
            columns,
            constraints: in_order_of_making(constraints, create),
            checks,
            fillfactor,
            parameters,
            if_not_exists: create.if_not_exists,
        };
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let Some(made) = catalog.create_table(txn, ddl, &new).await? else {
            let message = format!("relation \"{}\" already exists, skipping", new.name);
            self.notice("NOTICE", SqlState::DUPLICATE_TABLE, message);
            return Ok(());
        };
        self.note_on_commit(made.oid, create.on_commit);
        self.put_copied_comments(&made, &like).await?;
        for index in &like.indexes {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            let index = index.over(&made.columns)?;
            catalog.create_index(txn, ddl, made.oid, &index).await?;
        }
        self.add_foreign_keys(made.oid, create).await
    }

    /// A column without its constraints.
    fn typed_column(&self, column: &ast::TableColumn) -> SqlResult<NewColumn> {
        let serial = serial_type(&column.ty);
        if serial.is_some() && !column.ty.dimensions.is_empty() {
            let message = "array of serial is not implemented";
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(self.placed(error, column.ty.at));
        }
        let new = NewColumn {
            ty: match serial {
                Some(ty) => ty,
                None => self.column_type(&column.ty)?,
            },
            name: column.name.text.clone(),
            not_null: serial.is_some(),
            not_null_name: None,
            default: None,
            generated: None,
            sequence: serial.map(Session::serial_sequence).transpose()?,
        };
        if column.collation.is_some() {
            return Err(SqlError::unsupported("COLLATE of a column"));
        }
        if let Some(clause) = column.unbuilt {
            return Err(SqlError::unsupported(clause));
        }
        if let Some((clause, at)) = column.misplaced {
            let error = SqlError::syntax(format!("misplaced {clause} clause"));
            return Err(self.placed(error, at));
        }
        Ok(new)
    }

    pub(super) fn new_column(
        &self,
        table: &str,
        column: &ast::TableColumn,
        constraints: &mut Vec<NewConstraint>,
    ) -> SqlResult<NewColumn> {
        let mut new = self.typed_column(column)?;
        let (name, serial) = (new.name.clone(), new.is_serial());
        let mut null = serial.then_some(true);
        for constraint in &column.constraints {
            if !matches!(constraint.kind, ast::ConstraintKind::ForeignKey(_)) {
                refuse_attributes(constraint, false)?;
            }
            match &constraint.kind {
                ast::ConstraintKind::Null | ast::ConstraintKind::NotNull(_) => {
                    let not_null = constraint.kind != ast::ConstraintKind::Null;
                    if null.is_some_and(|null: bool| null != not_null) {
                        return Err(self.conflicting("NULL/NOT NULL", table, &name, constraint));
                    }
                    null = Some(not_null);
                    new.not_null |= not_null;
                    if let Some(name) = constraint.name.as_ref().filter(|_| not_null) {
                        new.not_null_name = Some(name.text.clone());
                    }
                }
                ast::ConstraintKind::Default(value) => {
                    let twice = self.twice("default values specified", table, &name, constraint);
                    if serial {
                        return Err(twice.without_position());
                    }
                    if new.default.is_some() {
                        return Err(twice);
                    }
                    self.refuse_default_and_identity(table, &new, constraint, &new.sequence)?;
                    self.check_default(value, &new.name, new.ty)?;
                    new.default = Some(self.kept_default(value));
                }
                ast::ConstraintKind::Key(key) => {
                    new.not_null |= key.primary;
                    constraints.push(new_key(constraint, key, vec![name.clone()])?);
                }
                // Bound when all columns are known.
                ast::ConstraintKind::Check(_)
                | ast::ConstraintKind::ForeignKey(_)
                | ast::ConstraintKind::Generated { .. } => {}
                ast::ConstraintKind::Identity { always, options } => {
                    if new.sequence.is_some() && !serial {
                        let what = "identity specifications";
                        return Err(self.twice(what, table, &name, constraint));
                    }
                    let own = Some(self.identity_sequence(new.ty, *always, options)?);
                    self.refuse_default_and_identity(table, &new, constraint, &own)?;
                    if null == Some(false) {
                        return Err(self.conflicting("NULL/NOT NULL", table, &name, constraint));
                    }
                    null = Some(true);
                    new.not_null = true;
                    new.sequence = own;
                }
                ast::ConstraintKind::Unbuilt(clause) => return Err(SqlError::unsupported(clause)),
            }
        }
        self.refuse_other_source(table, new, column)
    }

    /// Refuses a column that is generated and has another source of values.
    fn refuse_other_source(
        &self,
        table: &str,
        new: NewColumn,
        column: &ast::TableColumn,
    ) -> SqlResult<NewColumn> {
        let mut generation = column.constraints.iter().filter(|of| is_generation(of));
        let Some(constraint) = generation.next() else {
            return Ok(new);
        };
        if let Some(second) = generation.next() {
            let what = "generation clauses specified";
            return Err(self.twice(what, table, &new.name, second));
        }
        let what = match (&new.default, &new.sequence) {
            (None, None) => return Ok(new),
            (None, Some(own)) if own.identity.is_some() => "identity",
            _ => "default",
        };
        let message = format!(
            "both {what} and generation expression specified for column \"{}\" of table \
             \"{table}\"",
            new.name
        );
        Err(self.placed(SqlError::syntax(message), constraint.at))
    }

    /// The expressions of the generated columns of a new table.
    fn bind_generated(
        &self,
        table: &str,
        create: &ast::CreateTable,
        columns: &mut [NewColumn],
    ) -> SqlResult<()> {
        let written = create.elements.iter().filter_map(|element| match element {
            TableElement::Column(column) => Some((&column.name.text, generation(column)?)),
            _ => None,
        });
        let written: Vec<_> = written.collect();
        let is_generated = |column: &NewColumn| {
            let own = written.iter().any(|(name, _)| **name == column.name);
            own || column.generated.is_some()
        };
        let flags: Vec<bool> = columns.iter().map(is_generated).collect();
        for (name, written) in &written {
            let all = columns.iter().zip(&flags);
            let all = all.map(|(column, generated)| (&*column.name, column.ty, *generated));
            let all: Vec<_> = all.collect();
            if let Some(at) = columns.iter().position(|column| column.name == **name) {
                columns[at].generated = Some(self.bound_generated(table, *written, &all, at)?);
            }
        }
        Ok(())
    }

    /// The expression of a generated column of a table of these columns, each with whether it is
    /// generated.
    pub(super) fn bound_generated(
        &self,
        table: &str,
        written: (&ast::WrittenExpr, Kept),
        columns: &[(&str, SqlType, bool)],
        at: usize,
    ) -> SqlResult<Generated> {
        let cx = Arc::new(self.statement_cx(self.view()));
        rows::checks::generated(&self.current_text, written, table, (columns, at), &cx)
    }

    /// A CHECK constraint on a table of these columns, if the constraint is one.
    fn new_check(
        &self,
        table: &str,
        constraint: &Constraint,
        columns: &[NewColumn],
    ) -> SqlResult<Option<NewCheck>> {
        let columns = columns.iter().map(|column| (&*column.name, column.ty));
        let columns: Vec<(&str, SqlType)> = columns.collect();
        self.bound_check(table, constraint, &columns)
    }

    pub(super) fn bound_check(
        &self,
        table: &str,
        constraint: &Constraint,
        columns: &[(&str, SqlType)],
    ) -> SqlResult<Option<NewCheck>> {
        let ast::ConstraintKind::Check(written) = &constraint.kind else {
            return Ok(None);
        };
        refuse_attributes(constraint, true)?;
        let cx = Arc::new(self.statement_cx(self.view()));
        let bound = rows::checks::bind_check(&self.current_text, written, table, columns, &cx)?;
        Ok(Some(NewCheck {
            name: constraint.name.as_ref().map(|name| name.text.clone()),
            text: bound.text,
            pretty: bound.pretty,
            columns: bound.columns,
            not_valid: constraint.not_valid,
        }))
    }

    /// The type of a column.
    pub(super) fn column_type(&self, ty: &ast::TypeName) -> SqlResult<SqlType> {
        type_of(ty, &self.current_text, &self.names())
    }

    /// The names that a statement sees now.
    pub(super) fn names(&self) -> Names {
        Names::new(Arc::new(self.statement_cx(self.view())))
    }

    /// An error at a place of the command.
    pub(super) fn placed(&self, error: SqlError, at: ast::Pos) -> SqlError {
        let before = self.current_text.get(..at.0 as usize).unwrap_or_default();
        error.at(u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX))
    }

    fn conflicting(
        &self,
        what: &str,
        table: &str,
        column: &str,
        constraint: &Constraint,
    ) -> SqlError {
        let message =
            format!("conflicting {what} declarations for column \"{column}\" of table \"{table}\"");
        self.placed(SqlError::syntax(message), constraint.at)
    }

    fn twice(&self, what: &str, table: &str, column: &str, constraint: &Constraint) -> SqlError {
        let message = format!("multiple {what} for column \"{column}\" of table \"{table}\"");
        self.placed(SqlError::syntax(message), constraint.at)
    }

    /// A default must be an expression without columns that fits the column's type.
    pub(super) fn check_default(
        &self,
        value: &ast::WrittenExpr,
        column: &str,
        ty: SqlType,
    ) -> SqlResult<()> {
        let cx = Arc::new(self.statement_cx(self.view()));
        let text = &self.current_text;
        rows::default_program(text, &value.expr, column, ty, &cx).map(drop)
    }

    fn refuse_default_and_identity(
        &self,
        table: &str,
        column: &NewColumn,
        constraint: &Constraint,
        sequence: &Option<OwnSequence>,
    ) -> SqlResult<()> {
        let default = matches!(constraint.kind, ast::ConstraintKind::Default(_));
        let has_default = default || column.default.is_some() || column.is_serial();
        if !has_default || sequence.is_none() {
            return Ok(());
        }
        let message = format!(
            "both default and identity specified for column \"{}\" of table \"{table}\"",
            column.name
        );
        Err(self.placed(SqlError::syntax(message), constraint.at))
    }

    async fn create_index(&mut self, create: &CreateIndex) -> SqlResult<()> {
        refuse_index_features(create)?;
        if let Some(view) = self.named_view(&create.table)? {
            let message = format!("cannot create index on relation \"{}\"", view.name);
            let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
            return Err(error.detail("This operation is not supported for views."));
        }
        let table = self
            .locked_table(
                &create.table,
                TableLockMode::ShareRowExclusive,
                WaitPolicy::Block,
            )
            .await?;
        self.refuse_foreign(&table, "create indexes on")?;
        let name = create.name.as_ref().map(|name| name.text.clone());
        let cx = Arc::new(self.statement_cx(self.view()));
        let bind = |written: &ast::Expr, predicate: bool| {
            rows::indexes::bind(&self.current_text, written, &table, predicate, &cx)
        };
        let mut columns = Vec::with_capacity(create.columns.len());
        for column in &create.columns {
            columns.push(index_column(column, &table, bind)?);
        }
        let predicate = create.filter.as_ref();
        let predicate = predicate.map(|filter| bind(filter, true)).transpose()?;
        let included = create.included.iter().map(included_column);
        let new = NewIndex {
            name,
            columns,
            included: included.collect::<SqlResult<_>>()?,
            unique: create.unique,
            nulls_not_distinct: create.nulls_not_distinct,
            if_not_exists: create.if_not_exists,
            predicate: predicate.map(Into::into),
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

    /// Everything belongs to one role, and can be given to no other.
    pub(super) fn check_owner(&self, owner: &Role) -> SqlResult<()> {
        match owner {
            Role::Named(name) if name.text != self.params.user => {
                let message = format!("role \"{}\" does not exist", name.text);
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
            _ => Ok(()),
        }
    }

    async fn drop_relations(&mut self, drop: &ast::Drop) -> SqlResult<()> {
        match drop.kind {
            DropKind::Extension => return self.drop_extensions(drop).await,
            DropKind::Schema => return self.drop_schemas(drop).await,
            DropKind::Type | DropKind::Domain => return self.drop_types(drop).await,
            DropKind::Index if drop.concurrently => {
                return Err(SqlError::unsupported("DROP INDEX CONCURRENTLY"));
            }
            DropKind::Table | DropKind::Index | DropKind::Sequence | DropKind::View => {}
        }
        let mut found = Vec::new();
        for name in &drop.names {
            let (schema, table) = self.split_name(name)?;
            let path = &self.effective.search_path;
            let relation = self.view().find(schema.as_deref(), &table, path);
            match relation {
                Some(relation) => found.push(relation),
                None => {
                    let missing = match self.refuse_missing_schema(schema.as_deref()) {
                        Err(error) => error,
                        Ok(()) => missing(drop.kind, &table),
                    };
                    if !drop.if_exists {
                        return Err(missing);
                    }
                    let message = format!("{}, skipping", missing.message);
                    self.notice("NOTICE", SqlState::SUCCESS, message);
                }
            }
        }
        if drop.kind == DropKind::Table {
            return self.drop_tables(found.into_iter(), drop.cascade).await;
        }
        if drop.kind == DropKind::View {
            let views = only_views(&found).map_err(|other| wrong_object(drop.kind, other))?;
            return self.drop_views(&views, drop.cascade).await;
        }
        for relation in found {
            match (drop.kind, &relation) {
                (DropKind::Index, Relation::Index(table, index)) => {
                    if index.constraint.is_none() {
                        let what = format!("index {}", index.name);
                        self.drop_references_by(table, index.oid, what, drop.cascade)
                            .await?;
                    }
                    let (catalog, txn, ddl) = self.ddl_parts()?;
                    catalog.drop_index(txn, ddl, index.oid).await?;
                }
                (DropKind::Sequence, Relation::Sequence(sequence)) => {
                    // A column's sequence may have gone with the table before it in the list.
                    if self.view().sequence(sequence.oid).is_some() {
                        self.drop_sequence(sequence, drop.cascade).await?;
                    }
                }
                (wanted, relation) => return Err(wrong_object(wanted, relation)),
            }
        }
        Ok(())
    }

    /// DROP TABLE of relations that were found.
    pub(super) async fn drop_tables(
        &mut self,
        found: impl Iterator<Item = Relation>,
        cascade: bool,
    ) -> SqlResult<()> {
        let found: Vec<Relation> = found.collect();
        self.before_drop(&found, cascade).await?;
        for relation in &found {
            if let Relation::Table(table) = relation {
                self.drop_table(table, cascade).await?;
            }
        }
        Ok(())
    }

    /// Takes away the foreign keys that refer to tables to be dropped and the views over them, or
    /// refuses to.
    async fn before_drop(&mut self, found: &[Relation], cascade: bool) -> SqlResult<()> {
        let mut tables = Vec::with_capacity(found.len());
        for relation in found {
            let Relation::Table(table) = relation else {
                return Err(wrong_object(DropKind::Table, relation));
            };
            let (lock, mode) = (table.lock_id(), TableLockMode::AccessExclusive);
            let txn = self.tx.txn()?;
            txn.lock_table(lock, mode, WaitPolicy::Block).await?;
            if !tables
                .iter()
                .any(|known: &Arc<crate::catalog::TableInfo>| known.oid == table.oid)
            {
                tables.push(Arc::clone(table));
            }
        }
        for table in &tables {
            self.refuse_pending("DROP TABLE", table)?;
        }
        self.drop_references_to_tables(&tables, cascade).await
    }

    async fn drop_extensions(&mut self, drop: &ast::Drop) -> SqlResult<()> {
        for name in &drop.names {
            let name = name.last();
            let (catalog, txn, ddl) = self.ddl_parts()?;
            if catalog.drop_extension(txn, ddl, name).await? {
                continue;
            }
            let message = format!("extension \"{name}\" does not exist");
            if !drop.if_exists {
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
            self.notice("NOTICE", SqlState::SUCCESS, format!("{message}, skipping"));
        }
        Ok(())
    }

    async fn truncate(
        &mut self,
        names: &[QualifiedName],
        restart: bool,
        cascade: bool,
    ) -> SqlResult<()> {
        let mut tables: Vec<Oid> = Vec::with_capacity(names.len());
        for name in names {
            let mode = TableLockMode::AccessExclusive;
            let table = self.locked_table(name, mode, WaitPolicy::Block).await?;
            self.refuse_foreign(&table, "truncate")?;
            self.refuse_in_use(&table, "TRUNCATE")?;
            if !tables.contains(&table.oid) {
                tables.push(table.oid);
            }
        }
        self.truncated_too(&mut tables, cascade).await?;
        for oid in tables {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.truncate(txn, ddl, oid).await?;
            if restart {
                self.restart_sequences(oid).await?;
            }
        }
        Ok(())
    }

    async fn create_extension(&mut self, name: &str, if_not_exists: bool) -> SqlResult<()> {
        if self.view().schema(PUBLIC_OID).is_none() {
            let message = "no schema has been selected to create in";
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        if !catalog
            .create_extension(txn, ddl, name, if_not_exists)
            .await?
        {
            let message = format!("extension \"{name}\" already exists, skipping");
            self.notice("NOTICE", SqlState::DUPLICATE_OBJECT, message);
        }
        Ok(())
    }
}

fn missing(kind: DropKind, name: &str) -> SqlError {
    let state = match kind {
        DropKind::Index => SqlState::UNDEFINED_OBJECT,
        _ => SqlState::UNDEFINED_TABLE,
    };
    let kind = kind_name(kind);
    SqlError::new(state, format!("{kind} \"{name}\" does not exist"))
}

fn kind_name(kind: DropKind) -> &'static str {
    match kind {
        DropKind::Table => "table",
        DropKind::Index => "index",
        DropKind::Sequence => "sequence",
        DropKind::Schema => "schema",
        DropKind::Extension => "extension",
        DropKind::View => "view",
        DropKind::Type => "type",
        DropKind::Domain => "domain",
    }
}

/// 42809: a relation is of another kind than DROP says.
fn wrong_object(wanted: DropKind, found: &Relation) -> SqlError {
    let (name, kind) = match found {
        Relation::Table(table) => (&table.name, "TABLE"),
        Relation::Index(_, index) => (&index.name, "INDEX"),
        Relation::Sequence(sequence) => (&sequence.name, "SEQUENCE"),
        Relation::View(view) => (&view.name, "VIEW"),
    };
    let article = if wanted == DropKind::Index { "an" } else { "a" };
    let message = format!("\"{name}\" is not {article} {}", kind_name(wanted));
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    let article = if kind == "INDEX" { "an" } else { "a" };
    error.hint(format!(
        "Use DROP {kind} to remove {article} {}.",
        kind.to_lowercase()
    ))
}

fn refuse_index_features(create: &CreateIndex) -> SqlResult<()> {
    if let Some(method) = &create.method
        && method.text != "btree"
    {
        let known = ["hash", "gist", "spgist", "gin", "brin"];
        return Err(match known.contains(&method.text.as_str()) {
            true => SqlError::unsupported(format!("access method {}", method.text)),
            false => SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("access method \"{}\" does not exist", method.text),
            ),
        });
    }
    if !create.options.is_empty() {
        return Err(SqlError::unsupported("WITH of an index"));
    }
    create
        .unbuilt
        .map_or(Ok(()), |clause| Err(SqlError::unsupported(clause)))
}

/// 0A000 for an attribute of a constraint that is not built.
pub(super) fn refuse_attributes(constraint: &Constraint, may_be_invalid: bool) -> SqlResult<()> {
    let attributes = [
        (
            constraint.not_valid && !may_be_invalid,
            "a NOT VALID constraint",
        ),
        (constraint.no_inherit, "a NO INHERIT constraint"),
        (constraint.not_enforced, "a NOT ENFORCED constraint"),
    ];
    match attributes.iter().find(|(given, _)| *given) {
        Some((_, name)) => Err(SqlError::unsupported(name)),
        None => Ok(()),
    }
}

/// Applies `name = value` items.
pub(super) fn set_options(
    options: &[CommandOption],
    fillfactor: &mut Option<u8>,
    parameters: &mut StorageParameters,
) -> SqlResult<()> {
    for option in options {
        let text = option.value.text().unwrap_or("true");
        if option.name != "fillfactor" {
            parameters.set(&option.name, text)?;
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

/// A constraint of the table in CREATE TABLE.
fn table_constraint(
    table: &str,
    constraint: &Constraint,
    columns: &mut [NewColumn],
    constraints: &mut Vec<NewConstraint>,
) -> SqlResult<()> {
    refuse_attributes(constraint, false)?;
    if let ast::ConstraintKind::NotNull(Some(name)) = &constraint.kind {
        let column = columns.iter_mut().find(|column| column.name == name.text);
        let Some(column) = column else {
            let message = format!(
                "column \"{}\" of relation \"{table}\" does not exist",
                name.text
            );
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        column.not_null = true;
        if let Some(name) = &constraint.name {
            column.not_null_name = Some(name.text.clone());
        }
        return Ok(());
    }
    constraints.push(added_constraint(constraint)?);
    Ok(())
}

/// The primary key first; of keys that say the same one, which has the name of any of them. Keys
/// that LIKE has copied are beside them as they are.
fn in_order_of_making(
    constraints: Vec<NewConstraint>,
    create: &ast::CreateTable,
) -> Vec<NewConstraint> {
    let copies = |element: &TableElement| matches!(element, TableElement::Like(..));
    if create.elements.iter().any(copies) {
        return constraints;
    }
    let is_primary = |key: &NewConstraint| key.kind == ConstraintKind::Primary;
    let (first, others) = constraints.into_iter().partition(is_primary);
    let mut made: Vec<NewConstraint> = first;
    for key in Vec::<NewConstraint>::into_iter(others) {
        match made.iter_mut().find(|known| known.is_like(&key)) {
            Some(known) => known.name = known.name.take().or(key.name),
            None => made.push(key),
        }
    }
    made
}

/// The expression of a column that is generated, and where its value is.
pub(super) fn generation(column: &ast::TableColumn) -> Option<(&ast::WrittenExpr, Kept)> {
    let mut constraints = column.constraints.iter();
    constraints.find_map(|constraint| match &constraint.kind {
        ast::ConstraintKind::Generated { value, stored } => Some((
            value,
            match stored {
                true => Kept::Stored,
                false => Kept::Virtual,
            },
        )),
        _ => None,
    })
}

fn is_generation(constraint: &Constraint) -> bool {
    matches!(constraint.kind, ast::ConstraintKind::Generated { .. })
}

/// A constraint of a table.
pub(super) fn added_constraint(constraint: &Constraint) -> SqlResult<NewConstraint> {
    refuse_attributes(constraint, false)?;
    match &constraint.kind {
        ast::ConstraintKind::Key(key) => {
            let columns = key.columns.iter().map(|name| name.text.clone());
            new_key(constraint, key, columns.collect())
        }
        ast::ConstraintKind::Unbuilt(clause) => Err(SqlError::unsupported(clause)),
        ast::ConstraintKind::Null
        | ast::ConstraintKind::NotNull(_)
        | ast::ConstraintKind::Check(_)
        | ast::ConstraintKind::ForeignKey(_)
        | ast::ConstraintKind::Generated { .. }
        | ast::ConstraintKind::Default(_)
        | ast::ConstraintKind::Identity { .. } => {
            Err(SqlError::internal("a constraint that is made elsewhere"))
        }
    }
}

fn new_key(
    constraint: &Constraint,
    key: &KeyConstraint,
    columns: Vec<String>,
) -> SqlResult<NewConstraint> {
    if let Some(clause) = key.unbuilt {
        return Err(SqlError::unsupported(clause));
    }
    if key.index.is_some() {
        let message = "cannot use an existing index in CREATE TABLE";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if !key.options.is_empty() {
        return Err(SqlError::unsupported("WITH of a constraint"));
    }
    Ok(NewConstraint {
        name: constraint.name.as_ref().map(|name| name.text.clone()),
        kind: match key.primary {
            true => ConstraintKind::Primary,
            false => ConstraintKind::Unique,
        },
        columns,
        included: key.included.iter().map(|name| name.text.clone()).collect(),
        deferrable: constraint.deferrable,
        deferred: constraint.deferred,
        nulls_not_distinct: key.nulls_not_distinct,
    })
}

/// The name of a column of INCLUDE, which is stored as it is.
fn included_column(column: &IndexElement) -> SqlResult<String> {
    let name = match &column.value.kind {
        ExprKind::Column(parts) if !column.enclosed => match parts.as_slice() {
            [FieldPart::Name(name)] => Some(name),
            _ => None,
        },
        _ => None,
    };
    let Some(name) = name else {
        let message = "expressions are not supported in included columns";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    };
    let refused = [
        (column.collation.is_some(), "a collation"),
        (column.operator_class.is_some(), "an operator class"),
        (
            column.direction != SortDirection::Default,
            "ASC/DESC options",
        ),
        (column.nulls_first.is_some(), "NULLS FIRST/LAST options"),
    ];
    match refused.iter().find(|(given, _)| *given) {
        Some((_, what)) => {
            let message = format!("including column does not support {what}");
            Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message))
        }
        None => Ok(name.text.clone()),
    }
}

fn index_column(
    column: &IndexElement,
    table: &TableInfo,
    bind: impl Fn(&ast::Expr, bool) -> SqlResult<BoundIndexExpr>,
) -> SqlResult<NewIndexColumn> {
    let class = column.operator_class.as_ref().map(class_name).transpose()?;
    if let (Some(class), true) = (&class, column.class_options) {
        let message = format!("operator class {class} has no options");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    if column.collation.is_some() || matches!(column.value.kind, ExprKind::Collate { .. }) {
        return Err(SqlError::unsupported("COLLATE of an index"));
    }
    let key = match &column.value.kind {
        ExprKind::Column(parts) if matches!(parts.as_slice(), [FieldPart::Name(_)]) => {
            match parts.as_slice() {
                [FieldPart::Name(name)] => NewIndexKey::Column(name.text.clone()),
                _ => return Err(SqlError::internal("a column without a name")),
            }
        }
        _ => {
            let bound = bind(&column.value, false)?;
            let column = bound.column.and_then(|at| table.columns.get(at));
            match column {
                Some(column) => NewIndexKey::Column(column.name.to_string()),
                None => NewIndexKey::Expression(bound.into()),
            }
        }
    };
    Ok(NewIndexColumn {
        key,
        descending: column.direction == SortDirection::Desc,
        nulls_first: column.nulls_first,
        class,
    })
}

/// The name of an operator class: all are in `pg_catalog`.
fn class_name(name: &QualifiedName) -> SqlResult<String> {
    match name.schema() {
        None | Some("pg_catalog") => Ok(name.last().to_owned()),
        Some(_) => {
            let shown = name.display();
            let message =
                format!("operator class \"{shown}\" does not exist for access method \"btree\"");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}
