//! ALTER TABLE: its actions in PostgreSQL's passes.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, WaitPolicy, block_on};
use evenkeel_planner::ast::{
    self, AlterAction, AlterTable, ColumnChange, Constraint, ConstraintKind, Name, Pos,
};

use super::Session;
use super::alter_rows::{NewValue, RowWork};
use super::ddl::{added_constraint, generation, refuse_attributes, set_options};
use super::schemas::is_missing;
use super::sequences::no_column;
use crate::catalog::{
    ConstraintKind as KeyKind, Generated, NewColumn, NewConstraint, NewNotNull, Oid,
    StorageParameters, TableInfo, check_column_name, is_system_column, second_primary_key,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::row;
use crate::planner::rows;
use crate::types::SqlType;

/// The passes in which the actions of one statement are done, whatever order they are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Drop,
    Type,
    AddColumn,
    Expression,
    Constraint,
    Attribute,
    Index,
    Other,
    Last,
}

impl Pass {
    const ALL: [Pass; 9] = [
        Pass::Drop,
        Pass::Type,
        Pass::AddColumn,
        Pass::Expression,
        Pass::Constraint,
        Pass::Attribute,
        Pass::Index,
        Pass::Other,
        Pass::Last,
    ];

    fn of(action: &AlterAction) -> Pass {
        match action {
            AlterAction::DropConstraint { .. } | AlterAction::DropColumn { .. } => Pass::Drop,
            AlterAction::AddColumn { .. } => Pass::AddColumn,
            AlterAction::AddConstraint(constraint) => match constraint.kind {
                ConstraintKind::Check(_) | ConstraintKind::NotNull(_) => Pass::Constraint,
                ConstraintKind::Key(_) => Pass::Index,
                _ => Pass::Other,
            },
            AlterAction::Column { change, .. } => match change {
                ColumnChange::DropDefault
                | ColumnChange::DropExpression { .. }
                | ColumnChange::NotNull(false)
                | ColumnChange::DropIdentity { .. } => Pass::Drop,
                ColumnChange::Type { .. } => Pass::Type,
                ColumnChange::SetExpression(_) => Pass::Expression,
                ColumnChange::NotNull(true) | ColumnChange::SetIdentity { .. } => Pass::Attribute,
                ColumnChange::SetDefault(_) | ColumnChange::AddIdentity { .. } => Pass::Other,
            },
            AlterAction::Validate(_)
            | AlterAction::AlterConstraint { .. }
            | AlterAction::Owner(_)
            | AlterAction::SetOptions(_)
            | AlterAction::ResetOptions(_)
            | AlterAction::Unbuilt(_) => Pass::Last,
        }
    }
}

/// Work that the actions of one ALTER TABLE leave to later passes.
pub(super) struct Alteration<'a> {
    /// The table as it was.
    pub before: Arc<TableInfo>,
    /// Work on its rows.
    pub rows: RowWork,
    /// CHECK constraints of columns that were added.
    checks: Vec<&'a Constraint>,
    /// Keys of columns that were added.
    keys: Vec<NewConstraint>,
    /// Foreign keys of columns that were added, with the columns.
    references: Vec<(&'a Constraint, &'a Name)>,
    /// Numbers of columns that got another type.
    pub retyped: Vec<i16>,
}

impl Session {
    pub(super) async fn alter_table(&mut self, alter: &AlterTable) -> SqlResult<()> {
        let unbuilt = alter.actions.iter().find_map(|action| match action {
            AlterAction::Unbuilt(name) => Some(name),
            _ => None,
        });
        if let Some(name) = unbuilt {
            return Err(SqlError::unsupported(name));
        }
        if let Some(view) = self.named_view(&alter.name)? {
            return self.alter_view_as_table(&view, &alter.actions);
        }
        let mode = TableLockMode::AccessExclusive;
        let table = match self
            .locked_table(&alter.name, mode, WaitPolicy::Block)
            .await
        {
            Ok(table) => table,
            Err(error) if alter.if_exists && is_missing(&error) => {
                let message = format!(
                    "relation \"{}\" does not exist, skipping",
                    alter.name.last()
                );
                self.notice("NOTICE", SqlState::UNDEFINED_TABLE, message);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.refuse_foreign(&table, "alter")?;
        self.refuse_in_use(&table, "ALTER TABLE")?;
        self.refuse_pending("ALTER TABLE", &table)?;
        let oid = table.oid;
        let mut work = Alteration {
            before: table,
            rows: RowWork::default(),
            checks: Vec::new(),
            keys: Vec::new(),
            references: Vec::new(),
            retyped: Vec::new(),
        };
        for pass in Pass::ALL {
            for action in alter
                .actions
                .iter()
                .filter(|action| Pass::of(action) == pass)
            {
                // Each action is applied to what those before it have made of the table.
                let table = self.altered(oid)?;
                self.alter(&table, action, &mut work).await?;
            }
            self.end_pass(pass, oid, &mut work).await?;
        }
        Ok(())
    }

    /// Work that the actions of a pass have left for its end.
    async fn end_pass(&mut self, pass: Pass, oid: Oid, work: &mut Alteration<'_>) -> SqlResult<()> {
        match pass {
            Pass::Constraint => {
                for constraint in std::mem::take(&mut work.checks) {
                    let table = self.altered(oid)?;
                    self.add_check(&table, constraint, &mut work.rows).await?;
                }
            }
            Pass::Attribute => {
                let rows = std::mem::take(&mut work.rows);
                self.work_on_rows(Arc::clone(&work.before), rows).await?;
            }
            Pass::Index => {
                for key in std::mem::take(&mut work.keys) {
                    self.add_key(oid, key).await?;
                }
                let retyped = std::mem::take(&mut work.retyped);
                self.recheck_foreign_keys(oid, &retyped).await?;
            }
            Pass::Other => {
                for (constraint, column) in std::mem::take(&mut work.references) {
                    let own = Some(column);
                    self.make_foreign_key(oid, constraint, own, true).await?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// 55006 if a cursor or a portal of the session is still open on a table.
    pub(super) fn refuse_in_use(&self, table: &TableInfo, command: &str) -> SqlResult<()> {
        if !self.resources.in_use.is_used(table.oid) {
            return Ok(());
        }
        let message = format!(
            "cannot {command} \"{}\" because it is being used by active queries in this session",
            table.name
        );
        Err(SqlError::new(SqlState::OBJECT_IN_USE, message))
    }

    fn altered(&self, oid: Oid) -> SqlResult<Arc<TableInfo>> {
        let view = self.view();
        let table = view.table(oid).cloned();
        table.ok_or_else(|| {
            SqlError::internal("a table that is being altered is not there any more")
        })
    }

    async fn alter<'a>(
        &mut self,
        table: &TableInfo,
        action: &'a AlterAction,
        work: &mut Alteration<'a>,
    ) -> SqlResult<()> {
        match action {
            AlterAction::AddConstraint(constraint) => {
                self.add_constraint(table, constraint, &mut work.rows).await
            }
            AlterAction::AddColumn {
                column,
                if_not_exists,
            } => self.add_column(table, column, *if_not_exists, work).await,
            AlterAction::DropColumn {
                name,
                if_exists,
                cascade,
            } => self.drop_column(table, name, *if_exists, *cascade).await,
            AlterAction::Column { name, change } => {
                self.alter_column(table, name, change, work).await
            }
            AlterAction::Validate(name) => self.validate_constraint(table, name).await,
            AlterAction::Owner(role) => self.check_owner(role),
            AlterAction::SetOptions(options) => {
                let mut parameters = StorageParameters::clone(&table.parameters);
                let mut fillfactor = table.fillfactor_declared.then_some(table.fillfactor);
                set_options(options, &mut fillfactor, &mut parameters)?;
                self.set_parameters(table, fillfactor, parameters).await
            }
            AlterAction::ResetOptions(options) => {
                let mut parameters = StorageParameters::clone(&table.parameters);
                options
                    .iter()
                    .for_each(|option| parameters.reset(&option.name));
                let declared = table.fillfactor_declared.then_some(table.fillfactor);
                let reset = options.iter().any(|option| option.name == "fillfactor");
                let fillfactor = declared.filter(|_| !reset);
                self.set_parameters(table, fillfactor, parameters).await
            }
            AlterAction::AlterConstraint {
                name,
                deferrable,
                deferred,
            } => {
                let how = (*deferrable, *deferred);
                self.alter_constraint(table, &name.text, how).await
            }
            AlterAction::DropConstraint {
                name,
                if_exists,
                cascade,
            } => {
                self.drop_constraint(table, name, *if_exists, *cascade)
                    .await
            }
            AlterAction::Unbuilt(name) => Err(SqlError::unsupported(name)),
        }
    }

    async fn drop_constraint(
        &mut self,
        table: &TableInfo,
        name: &Name,
        if_exists: bool,
        cascade: bool,
    ) -> SqlResult<()> {
        let name = &name.text;
        let there = table.constraint_names().any(|other| **other == **name);
        if !there && if_exists {
            let message = format!(
                "constraint \"{name}\" of relation \"{}\" does not exist, skipping",
                table.name
            );
            self.notice("NOTICE", SqlState::UNDEFINED_OBJECT, message);
            return Ok(());
        }
        let mut constraints = table.constraints.iter();
        if let Some(key) = constraints.find(|known| *known.name == **name) {
            let what = format!("constraint {name} on table {}", table.name);
            self.drop_references_by(table, key.index_oid, what, cascade)
                .await?;
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.drop_constraint(txn, ddl, table.oid, name).await?;
        Ok(())
    }

    async fn set_parameters(
        &mut self,
        table: &TableInfo,
        fillfactor: Option<u8>,
        parameters: StorageParameters,
    ) -> SqlResult<()> {
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog
            .set_parameters(txn, ddl, table.oid, fillfactor, parameters)
            .await?;
        Ok(())
    }

    async fn add_constraint(
        &mut self,
        table: &TableInfo,
        constraint: &Constraint,
        rows: &mut RowWork,
    ) -> SqlResult<()> {
        match &constraint.kind {
            ConstraintKind::Check(_) => self.add_check(table, constraint, rows).await,
            ConstraintKind::NotNull(Some(column)) => {
                refuse_attributes(constraint, true)?;
                let at = table.column(&column.text);
                let at = at.ok_or_else(|| no_column(&column.text, table))?;
                let new = NewNotNull {
                    name: constraint.name.as_ref().map(|name| name.text.clone()),
                    not_valid: constraint.not_valid,
                };
                self.set_not_null(table, at, new, rows).await
            }
            ConstraintKind::ForeignKey(_) => {
                self.make_foreign_key(table.oid, constraint, None, true)
                    .await?;
                Ok(())
            }
            ConstraintKind::Key(key) if key.index.is_some() => {
                self.add_key_by_index(table, constraint, key).await
            }
            _ => self.add_key(table.oid, added_constraint(constraint)?).await,
        }
    }

    async fn add_key(&mut self, table: Oid, new: NewConstraint) -> SqlResult<()> {
        self.off_runtime(move |catalog, txn, ddl| {
            block_on(catalog.add_constraint(txn, ddl, table, &new))
        })
        .await?;
        Ok(())
    }

    /// Makes a column NOT NULL; unless NOT VALID, its rows are to be looked at.
    pub(super) async fn set_not_null(
        &mut self,
        table: &TableInfo,
        at: usize,
        new: NewNotNull,
        rows: &mut RowWork,
    ) -> SqlResult<()> {
        let column = &table.columns[at];
        if let Some(known) = &column.not_null {
            if let Some(name) = new.name.as_ref().filter(|name| **name != *known.name) {
                return Err(other_not_null(
                    name,
                    &known.name,
                    (&column.name, &table.name),
                ));
            }
            if known.validated || new.not_valid {
                return Ok(());
            }
        }
        if !new.not_valid {
            rows.not_nulls.push(column.attnum);
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog
            .set_column_not_null(txn, ddl, (table.oid, at), &new)
            .await
    }

    /// ALTER TABLE … ADD CHECK: unless NOT VALID, every row must keep to it.
    async fn add_check(
        &mut self,
        table: &TableInfo,
        constraint: &Constraint,
        rows: &mut RowWork,
    ) -> SqlResult<()> {
        let columns = table.columns.iter();
        let columns = columns.map(|column| (&*column.name, column.declared()));
        let columns: Vec<_> = columns.collect();
        let Some(new) = self.bound_check(&table.name, constraint, &columns)? else {
            return Ok(());
        };
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let table = catalog.add_check(txn, ddl, table.oid, &new).await?;
        // The newest is the one that was added.
        let newest = table.checks.iter().map(|check| check.oid).max();
        rows.checks.extend(newest.filter(|_| !new.not_valid));
        Ok(())
    }

    async fn validate_constraint(&mut self, table: &TableInfo, name: &Name) -> SqlResult<()> {
        let name = &name.text;
        if let Some(key) = table.foreign_keys.iter().find(|key| *key.name == **name) {
            return self.validate_foreign_key(table, key).await;
        }
        let mut rows = RowWork::default();
        let check = table.checks.iter().find(|check| *check.name == **name);
        let not_null = table.columns.iter().find(|column| {
            let constraint = column.not_null.as_ref();
            constraint.is_some_and(|constraint| *constraint.name == **name)
        });
        match (check, not_null) {
            (Some(check), _) if check.validated => return Ok(()),
            (Some(check), _) => rows.checks.push(check.oid),
            (None, Some(column)) => {
                if column
                    .not_null
                    .as_ref()
                    .is_some_and(|known| known.validated)
                {
                    return Ok(());
                }
                rows.not_nulls.push(column.attnum);
            }
            (None, None) => {
                let there = table.constraint_names().any(|other| **other == **name);
                return Err(cannot_validate(name, &table.name, there));
            }
        }
        let before = self.altered(table.oid)?;
        self.work_on_rows(before, rows).await?;
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.mark_validated(txn, ddl, table.oid, name).await
    }

    async fn add_column<'a>(
        &mut self,
        table: &TableInfo,
        column: &'a ast::TableColumn,
        if_not_exists: bool,
        work: &mut Alteration<'a>,
    ) -> SqlResult<()> {
        let name = &column.name.text;
        if if_not_exists && table.column(name).is_some() && !is_system_column(name) {
            let message = format!(
                "column \"{name}\" of relation \"{}\" already exists, skipping",
                table.name
            );
            self.notice("NOTICE", SqlState::DUPLICATE_COLUMN, message);
            return Ok(());
        }
        check_column_name(table, name)?;
        let mut keys = Vec::new();
        let mut new = self.new_column(&table.name, column, &mut keys)?;
        let primary = keys.iter().any(|key| key.kind == KeyKind::Primary);
        if primary && table.primary_key().is_some() {
            return Err(second_primary_key(&table.name));
        }
        let attnum = table.next_attnum();
        new.generated = self.added_generated(table, column, new.ty)?;
        if new.generated.as_ref().is_some_and(|of| !of.is_virtual) {
            work.rows.rewrite = true;
            work.rows.generated.push(attnum);
        }
        let mut missing = None;
        if let Some(default) = default_or_domain(&new) {
            let cx = Arc::new(self.statement_cx(self.view()));
            let (program, volatile) = rows::default_value(&default, name, new.ty, &cx)?;
            // A domain may refuse the value that the rows get.
            if volatile || new.ty.is_constrained() {
                work.rows.rewrite = true;
                work.rows.values.push((attnum, NewValue::Default(program)));
            } else {
                missing = self.missing_value(&new, &program)?;
            }
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let added = catalog
            .add_column(txn, ddl, table.oid, &new, missing.clone())
            .await?;
        if new.sequence.is_some()
            && let Some(default) = added.columns.last().and_then(|c| c.value_if_none())
        {
            let cx = Arc::new(self.statement_cx(self.view()));
            let (program, _) = rows::default_value(&default, name, new.ty, &cx)?;
            work.rows.rewrite = true;
            work.rows.values.push((attnum, NewValue::Default(program)));
        }
        if (new.not_null || new.sequence.is_some()) && missing.is_none() {
            work.rows.not_nulls.push(attnum);
        }
        work.checks
            .extend(column.constraints.iter().filter(is_check));
        let references = column.constraints.iter();
        let references = references.filter(|c| matches!(c.kind, ConstraintKind::ForeignKey(_)));
        work.references
            .extend(references.map(|constraint| (constraint, &column.name)));
        work.keys.extend(keys);
        Ok(())
    }

    /// The expression of a column that is added, if it is generated.
    fn added_generated(
        &self,
        table: &TableInfo,
        column: &ast::TableColumn,
        ty: SqlType,
    ) -> SqlResult<Option<Generated>> {
        let Some(written) = generation(column) else {
            return Ok(None);
        };
        let of = table.columns.iter();
        let of = of.map(|column| (&*column.name, column.declared(), column.generated.is_some()));
        let all: Vec<_> = of.chain([(column.name.text.as_str(), ty, true)]).collect();
        let at = all.len() - 1;
        self.bound_generated(&table.name, written, &all, at)
            .map(Some)
    }

    /// Drops the generated columns over a column.
    ///
    /// # Errors
    /// 2BP01 if there are any, unless CASCADE was said.
    async fn drop_generated_over(
        &mut self,
        table: &TableInfo,
        at: usize,
        cascade: bool,
    ) -> SqlResult<()> {
        let column = &table.columns[at].name;
        let users = table.columns.iter().filter(|user| {
            let generated = user.generated.as_ref();
            generated.is_some_and(|generated| generated.columns.contains(&at))
        });
        let users: Vec<Arc<str>> = users.map(|user| Arc::clone(&user.name)).collect();
        if !users.is_empty() && !cascade {
            let of = format!("column {column} of table {}", table.name);
            let message = format!("cannot drop {of} because other objects depend on it");
            let lines = users.iter();
            let lines =
                lines.map(|user| format!("column {user} of table {} depends on {of}", table.name));
            let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
            return Err(error
                .detail(lines.collect::<Vec<_>>().join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for user in users {
            let message = format!("drop cascades to column {user} of table {}", table.name);
            self.notice("NOTICE", SqlState::SUCCESS, message);
            let now = self.altered(table.oid)?;
            if let Some(at) = now.column(&user) {
                self.drop_references_to_column(&now, at, cascade).await?;
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.drop_column(txn, ddl, table.oid, at).await?;
            }
        }
        Ok(())
    }

    /// The stored bytes of a default that is the same for all rows.
    fn missing_value(
        &self,
        new: &NewColumn,
        program: &evenkeel_expr::program::Program,
    ) -> SqlResult<Option<Arc<[u8]>>> {
        let cx = Arc::new(self.statement_cx(self.view()));
        let values = row::values(std::slice::from_ref(program), &cx)?;
        let value = values.first();
        let bytes = value.map(|value| evenkeel_types::row::stored(new.ty, value));
        Ok(bytes.transpose()?.flatten().map(Arc::from))
    }

    /// Drops a column with all that depends on it, for the drop of something that it needs.
    pub(super) async fn drop_column_of(&mut self, table: Oid, column: &str) -> SqlResult<()> {
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let mode = TableLockMode::AccessExclusive;
        let table = catalog.lock_table(txn, ddl, table, mode).await?;
        let name = Name {
            text: column.to_owned(),
            at: Pos::NONE,
        };
        self.drop_column(&table, &name, true, true).await
    }

    async fn drop_column(
        &mut self,
        table: &TableInfo,
        name: &Name,
        if_exists: bool,
        cascade: bool,
    ) -> SqlResult<()> {
        let name = &name.text;
        let Some(at) = table.column(name) else {
            if is_system_column(name) {
                let message = format!("cannot drop system column \"{name}\"");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            if !if_exists {
                return Err(no_column(name, table));
            }
            let message = format!(
                "column \"{name}\" of relation \"{}\" does not exist, skipping",
                table.name
            );
            self.notice("NOTICE", SqlState::SUCCESS, message);
            return Ok(());
        };
        let attnum = table.columns[at].attnum;
        self.drop_generated_over(table, at, cascade).await?;
        // The columns over it are gone.
        let table = &*self.altered(table.oid)?;
        let at = table.column(name).unwrap_or(at);
        let view = self.view();
        let own = view.sequences_of(table.oid);
        let own = own.filter(|sequence| sequence.owner == Some((table.oid, attnum)));
        let own: Vec<_> = own.cloned().collect();
        for sequence in &own {
            self.drop_defaults_by(sequence, Some((table, Some(at))), cascade)
                .await?;
        }
        self.drop_references_to_column(table, at, cascade).await?;
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.drop_column(txn, ddl, table.oid, at).await?;
        for sequence in own {
            let (catalog, txn, ddl) = self.ddl_parts()?;
            catalog.drop_sequence(txn, ddl, sequence.oid).await?;
        }
        Ok(())
    }
}

/// 55000: a column has one NOT NULL constraint.
fn other_not_null(name: &str, known: &str, (column, table): (&str, &str)) -> SqlError {
    let message = format!(
        "cannot create not-null constraint \"{name}\" on column \"{column}\" of table \"{table}\""
    );
    let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
    error.detail(format!(
        "A not-null constraint named \"{known}\" already exists for this column."
    ))
}

/// 42704, or 42809 for a constraint that is always valid.
fn cannot_validate(name: &str, table: &str, there: bool) -> SqlError {
    if !there {
        let message = format!("constraint \"{name}\" of relation \"{table}\" does not exist");
        return SqlError::new(SqlState::UNDEFINED_OBJECT, message);
    }
    let message = format!("cannot validate constraint \"{name}\" of relation \"{table}\"");
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    error.detail("This operation is not supported for this type of constraint.")
}

/// The default of a new column's rows: that of its domain if it has none of its own, and NULL
/// where a domain has to allow it.
fn default_or_domain(new: &NewColumn) -> Option<String> {
    if new.default.is_some() || new.sequence.is_some() || new.generated.is_some() {
        return new.default.clone();
    }
    let SqlType::Domain(domain) = new.ty else {
        return None;
    };
    let null = new.ty.is_constrained().then_some("NULL");
    domain.default().or(null).map(str::to_owned)
}

fn is_check(constraint: &&Constraint) -> bool {
    matches!(constraint.kind, ConstraintKind::Check(_))
}
