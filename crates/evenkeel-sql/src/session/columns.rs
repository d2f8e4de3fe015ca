//! ALTER TABLE … ALTER COLUMN.

use std::sync::Arc;

use evenkeel_planner::ast::{self, ColumnChange};
use evenkeel_planner::bind::Kept;

use super::Session;
use super::alter::Alteration;
use super::sequences::no_column;
use crate::catalog::{
    ColumnInfo, Identity, NewNotNull, NewSequence, Oid, SequenceInfo, TableInfo, refuse_nulls,
};
use crate::error::{SqlError, SqlResult, SqlState};

fn prerequisite(message: String) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

/// `column "c" of relation "t" …`
fn of_column(column: &ColumnInfo, table: &TableInfo, rest: &str) -> String {
    format!(
        "column \"{}\" of relation \"{}\" {rest}",
        column.name, table.name
    )
}

impl Session {
    pub(super) async fn alter_column(
        &mut self,
        table: &TableInfo,
        name: &ast::Name,
        change: &ColumnChange,
        work: &mut Alteration<'_>,
    ) -> SqlResult<()> {
        let at = table.column(&name.text);
        let at = at.ok_or_else(|| no_column(&name.text, table))?;
        let column = &table.columns[at];
        match change {
            ColumnChange::SetDefault(value) => {
                refuse_default(table, column)?;
                refuse_generated(table, column, "SET EXPRESSION")?;
                // PostgreSQL has forgotten the command's text by then.
                let checked = self.check_default(value, &column.name, column.declared());
                checked.map_err(SqlError::without_position)?;
                let default = Some(Arc::from(self.kept_default(value)));
                self.put_column(table.oid, at, |column| column.default = default)
                    .await
            }
            ColumnChange::DropDefault => {
                refuse_default(table, column).map_err(|error| {
                    error.hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.")
                })?;
                refuse_generated(table, column, "DROP EXPRESSION")?;
                self.put_column(table.oid, at, |column| column.default = None)
                    .await
            }
            ColumnChange::Type {
                ty,
                collation,
                using,
            } => {
                if collation.is_some() {
                    return Err(SqlError::unsupported("COLLATE of a column"));
                }
                self.retype_column(table, at, (ty, using.as_ref()), work)
                    .await
            }
            ColumnChange::SetExpression(written) => {
                self.set_expression(table, at, written, work).await
            }
            ColumnChange::DropExpression { if_exists } => {
                self.drop_expression(table, at, *if_exists).await
            }
            ColumnChange::NotNull(true) => {
                let rows = &mut work.rows;
                self.set_not_null(table, at, NewNotNull::default(), rows)
                    .await
            }
            ColumnChange::NotNull(false) => {
                refuse_nulls(table, at)?;
                let (catalog, txn, ddl) = self.ddl_parts()?;
                catalog.drop_not_null(txn, ddl, table.oid, at).await
            }
            ColumnChange::AddIdentity { always, options } => {
                self.add_identity(table, at, *always, options).await
            }
            ColumnChange::SetIdentity { always, options } => {
                self.set_identity(table, at, *always, options).await
            }
            ColumnChange::DropIdentity { if_exists } => {
                self.drop_identity(table, at, *if_exists).await
            }
        }
    }

    async fn set_expression(
        &mut self,
        table: &TableInfo,
        at: usize,
        written: &ast::WrittenExpr,
        work: &mut Alteration<'_>,
    ) -> SqlResult<()> {
        let column = &table.columns[at];
        let Some(generated) = &column.generated else {
            let rest = "is not a generated column";
            return Err(prerequisite(of_column(column, table, rest)));
        };
        let kept = generated.kept();
        if kept == Kept::Virtual && !table.checks.is_empty() {
            let what = "ALTER TABLE / SET EXPRESSION is not supported for virtual generated \
                        columns in tables with check constraints";
            return Err(refuse_virtual(what, table, column));
        }
        let all = table.columns.iter();
        let all = all.map(|column| (&*column.name, column.declared(), column.generated.is_some()));
        let all: Vec<_> = all.collect();
        let made = self.bound_generated(&table.name, (written, kept), &all, at)?;
        match kept {
            Kept::Stored => {
                work.rows.rewrite = true;
                work.rows.generated.push(column.attnum);
            }
            Kept::Virtual if column.not_null.is_some() => work.rows.not_nulls.push(column.attnum),
            Kept::Virtual => {}
        }
        let made = Some(Arc::new(made));
        self.put_column(table.oid, at, |column| column.generated = made)
            .await
    }

    async fn drop_expression(
        &mut self,
        table: &TableInfo,
        at: usize,
        if_exists: bool,
    ) -> SqlResult<()> {
        let column = &table.columns[at];
        if column.is_virtual() {
            let what =
                "ALTER TABLE / DROP EXPRESSION is not supported for virtual generated columns";
            return Err(refuse_virtual(what, table, column));
        }
        if column.generated.is_some() {
            return self
                .put_column(table.oid, at, |column| column.generated = None)
                .await;
        }
        let message = of_column(column, table, "is not a generated column");
        if !if_exists {
            return Err(prerequisite(message));
        }
        self.notice("NOTICE", SqlState::SUCCESS, format!("{message}, skipping"));
        Ok(())
    }

    async fn put_column(
        &mut self,
        table: Oid,
        at: usize,
        change: impl FnOnce(&mut ColumnInfo),
    ) -> SqlResult<()> {
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.alter_column(txn, ddl, table, at, change).await?;
        Ok(())
    }

    async fn add_identity(
        &mut self,
        table: &TableInfo,
        at: usize,
        always: bool,
        options: &[ast::SequenceOption],
    ) -> SqlResult<()> {
        let column = &table.columns[at];
        let own = self.identity_sequence(column.ty, always, options)?;
        if column.not_null.is_none() {
            let rest = "must be declared NOT NULL before identity can be added";
            return Err(prerequisite(of_column(column, table, rest)));
        }
        if column.identity.is_some() {
            let rest = "is already an identity column";
            return Err(prerequisite(of_column(column, table, rest)));
        }
        if column.default.is_some() {
            let rest = "already has a default value";
            return Err(prerequisite(of_column(column, table, rest)));
        }
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let new = NewSequence {
            schema: table.schema.to_string(),
            name: own
                .name
                .clone()
                .unwrap_or_else(|| catalog.sequence_name(ddl, table, &column.name)),
            ty: own.ty,
            start: own.start,
            rule: own.rule,
            owner: Some((table.oid, column.attnum)),
            identity: own.identity,
            if_not_exists: false,
        };
        let made = catalog.create_sequence(txn, ddl, &new).await?;
        let identity = made.zip(own.identity);
        let identity = identity.map(|(made, identity)| (identity, made.oid));
        self.put_column(table.oid, at, |column| column.identity = identity)
            .await
    }

    fn identity_of(&self, column: &ColumnInfo) -> Option<(Identity, Arc<SequenceInfo>)> {
        let (identity, sequence) = column.identity?;
        Some((identity, Arc::clone(self.view().sequence(sequence)?)))
    }

    async fn set_identity(
        &mut self,
        table: &TableInfo,
        at: usize,
        always: Option<bool>,
        options: &[ast::SequenceOption],
    ) -> SqlResult<()> {
        let column = &table.columns[at];
        let Some((identity, sequence)) = self.identity_of(column) else {
            let rest = "is not an identity column";
            return Err(prerequisite(of_column(column, table, rest)));
        };
        let identity = match always {
            Some(true) => Identity::Always,
            Some(false) => Identity::ByDefault,
            None => identity,
        };
        let options = self.options(options)?;
        let mut changed = self.changed_sequence(&sequence, &options)?;
        changed.identity = Some(identity);
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let sequence = catalog
            .alter_sequence(txn, ddl, sequence.oid, &changed)
            .await?;
        self.put_column(table.oid, at, |column| {
            column.identity = Some((identity, sequence.oid));
        })
        .await
    }

    async fn drop_identity(
        &mut self,
        table: &TableInfo,
        at: usize,
        if_exists: bool,
    ) -> SqlResult<()> {
        let column = &table.columns[at];
        let Some((_, sequence)) = self.identity_of(column) else {
            let message = of_column(column, table, "is not an identity column");
            if !if_exists {
                return Err(prerequisite(message));
            }
            self.notice("NOTICE", SqlState::SUCCESS, format!("{message}, skipping"));
            return Ok(());
        };
        self.put_column(table.oid, at, |column| column.identity = None)
            .await?;
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.drop_sequence(txn, ddl, sequence.oid).await
    }
}

/// 0A000 for a change that a column which is computed where it is read cannot have.
fn refuse_virtual(what: &str, table: &TableInfo, column: &ColumnInfo) -> SqlError {
    let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what);
    error.detail(of_column(column, table, "is a virtual generated column.").replacen('c', "C", 1))
}

fn refuse_generated(table: &TableInfo, column: &ColumnInfo, instead: &str) -> SqlResult<()> {
    if column.generated.is_none() {
        return Ok(());
    }
    let error = SqlError::syntax(of_column(column, table, "is a generated column"));
    Err(error.hint(format!(
        "Use ALTER TABLE ... ALTER COLUMN ... {instead} instead."
    )))
}

fn refuse_default(table: &TableInfo, column: &ColumnInfo) -> SqlResult<()> {
    if column.identity.is_none() {
        return Ok(());
    }
    let message = of_column(column, table, "is an identity column");
    Err(SqlError::syntax(message))
}
