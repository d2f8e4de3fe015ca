//! ALTER … RENAME.

use std::sync::Arc;

use evenkeel_engine::{TableLockMode, Transaction};

use super::index_expr::read_expr;
use super::not_null::constraint_exists;
use super::parts::TableParts;
use super::system::{attribute_row, check_row, constraint_row, table_row};
use super::system::{index_class_row, index_row};
use super::{
    Catalog, CheckInfo, ColumnInfo, ConstraintInfo, DdlLog, Generated, IndexInfo, Oid, TableInfo,
};
use crate::error::{SqlError, SqlResult, SqlState};

/// Owner of an expression over a table's columns.
#[derive(Debug, Clone, Copy)]
pub enum TextOf {
    /// A CHECK constraint, by its oid.
    Check(Oid),
    /// A generated column, by its number.
    Generated(i16),
    /// The column of this number, whose default it is.
    Default(i16),
    /// An index, by its oid: its expression of this number, from 0.
    IndexExpression(Oid, usize),
    /// An index whose predicate it is, by its oid.
    IndexPredicate(Oid),
}

/// An expression over a table's columns, written anew, and the same with the parentheses that are
/// needed.
pub type NewText = (TextOf, String, String);

fn numbered(parts: &TableParts, attnum: i16) -> SqlResult<usize> {
    let at = parts
        .columns
        .iter()
        .position(|column| column.attnum == attnum);
    at.ok_or_else(|| SqlError::internal("a column is not there"))
}

impl Catalog {
    /// Gives a table another name.
    ///
    /// # Errors
    /// 42P07; 42P01 if it has gone meanwhile; the engine's.
    pub async fn rename_table(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        to: &str,
    ) -> SqlResult<Arc<TableInfo>> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        self.claim_name(txn, ddl, parts.schema_oid, to, false)
            .await?;
        parts.name = to.into();
        self.tables.class.delete(txn, parts.place).await?;
        parts.place = self.tables.class.insert(txn, &table_row(&parts)).await?;
        self.finish(txn, ddl, parts)
    }

    /// Gives an index another name, and with it the constraint that it enforces.
    ///
    /// # Errors
    /// 42P07; 42P01 if it has gone meanwhile; the engine's.
    pub async fn rename_index(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        (table, index): (Oid, Oid),
        to: &str,
    ) -> SqlResult<Arc<TableInfo>> {
        let mode = TableLockMode::ShareUpdateExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        let at = parts.indexes.iter().position(|known| known.oid == index);
        let at = at.ok_or_else(|| {
            let message = format!("index with OID {index} does not exist");
            SqlError::new(SqlState::UNDEFINED_TABLE, message)
        })?;
        self.claim_name(txn, ddl, parts.schema_oid, to, false)
            .await?;
        let mut renamed = IndexInfo {
            name: to.into(),
            ..IndexInfo::clone(&parts.indexes[at])
        };
        if let Some(constraint) = renamed.constraint {
            self.put_constraint_name(txn, &mut parts, constraint, to)
                .await?;
        }
        self.tables.class.delete(txn, renamed.places[0]).await?;
        let row = index_class_row(index, to, parts.schema_oid, renamed.file);
        renamed.places[0] = self.tables.class.insert(txn, &row).await?;
        parts.indexes[at] = Arc::new(renamed);
        self.finish(txn, ddl, parts)
    }

    async fn put_constraint_name(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        constraint: Oid,
        to: &str,
    ) -> SqlResult<()> {
        let mut constraints = parts.constraints.iter();
        let Some(at) = constraints.position(|known| known.oid == constraint) else {
            return Err(SqlError::internal("a constraint is not in its table"));
        };
        let mut renamed = ConstraintInfo {
            name: to.into(),
            ..ConstraintInfo::clone(&parts.constraints[at])
        };
        self.tables.constraint.delete(txn, renamed.place).await?;
        let row = constraint_row(parts.oid, &renamed, &parts.columns);
        renamed.place = self.tables.constraint.insert(txn, &row).await?;
        parts.constraints[at] = Arc::new(renamed);
        Ok(())
    }

    /// Gives a constraint another name, and with it the index that enforces it.
    ///
    /// # Errors
    /// 42704 if there is none of that name; 42710, 42P07; the engine's.
    pub async fn rename_constraint(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        (name, to): (&str, &str),
    ) -> SqlResult<Arc<TableInfo>> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let keys = table.constraints.iter();
        if let Some(key) = keys.into_iter().find(|key| &*key.name == name) {
            let of = (table.oid, key.index_oid);
            return self.rename_index(txn, ddl, of, to).await;
        }
        let mut parts = TableParts::of(&table);
        if self.rename_foreign_key(txn, &mut parts, (name, to)).await? {
            return self.finish(txn, ddl, parts);
        }
        let check = parts.checks.iter().find(|check| &*check.name == name);
        let check = check.map(|check| check.oid);
        let named = |column: &super::ColumnInfo| {
            let constraint = column.not_null.as_ref();
            constraint.is_some_and(|constraint| &*constraint.name == name)
        };
        let column = parts.columns.iter().position(named);
        if check.is_none() && column.is_none() {
            let message = format!(
                "constraint \"{name}\" for table \"{}\" does not exist",
                table.name
            );
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        if parts.constraint_names().any(|other| &**other == to) {
            return Err(constraint_exists(to, &parts.name));
        }
        if let Some(check) = check {
            self.change_check(txn, &mut parts, check, |check| check.name = to.into())
                .await?;
            parts.checks.sort_by(|a, b| a.name.cmp(&b.name));
        }
        if let Some(column) = column {
            let rename = |constraint: &mut super::NotNull| constraint.name = to.into();
            self.change_not_null(txn, &mut parts, column, rename)
                .await?;
        }
        self.finish(txn, ddl, parts)
    }

    /// Writes a CHECK constraint anew.
    pub(super) async fn change_check(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        check: Oid,
        change: impl FnOnce(&mut CheckInfo),
    ) -> SqlResult<()> {
        let Some(at) = parts.checks.iter().position(|known| known.oid == check) else {
            return Err(SqlError::internal("a CHECK constraint is not in its table"));
        };
        let mut changed = CheckInfo::clone(&parts.checks[at]);
        change(&mut changed);
        self.tables.check.delete(txn, changed.place).await?;
        let row = check_row(parts.oid, &changed, &parts.columns);
        changed.place = self.tables.check.insert(txn, &row).await?;
        parts.checks[at] = Arc::new(changed);
        Ok(())
    }

    /// Writes expressions over a table's columns anew.
    pub(super) async fn put_texts(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        texts: Vec<NewText>,
    ) -> SqlResult<()> {
        for (of, text, pretty) in texts {
            match of {
                TextOf::Check(check) => {
                    self.change_check(txn, parts, check, |check| {
                        check.text = text.into();
                        check.pretty = pretty.into();
                    })
                    .await?;
                }
                TextOf::Default(attnum) => {
                    let at = numbered(parts, attnum)?;
                    parts.columns[at].default = Some(text.into());
                    self.put_column(txn, parts, at).await?;
                }
                TextOf::IndexExpression(index, number) => {
                    self.put_index_text(txn, parts, index, |index, columns| {
                        let missing = || SqlError::internal("an index lacks an expression");
                        let part = index.expressions.get_mut(number).ok_or_else(missing)?;
                        *part = read_expr(&text, columns, false)?;
                        Ok(())
                    })
                    .await?;
                }
                TextOf::IndexPredicate(index) => {
                    self.put_index_text(txn, parts, index, |index, columns| {
                        index.predicate = Some(read_expr(&text, columns, true)?);
                        Ok(())
                    })
                    .await?;
                }
                TextOf::Generated(attnum) => {
                    let at = numbered(parts, attnum)?;
                    let column = &mut parts.columns[at];
                    if let Some(generated) = &column.generated {
                        column.generated = Some(Arc::new(Generated {
                            text: text.into(),
                            pretty: pretty.into(),
                            ..Generated::clone(generated)
                        }));
                    }
                    self.put_column(txn, parts, at).await?;
                }
            }
        }
        Ok(())
    }

    /// Writes expressions of a table anew, for a type that they mention.
    ///
    /// # Errors
    /// 42P01 if the table has gone meanwhile; the engine's.
    pub async fn rewrite_texts(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        texts: Vec<NewText>,
    ) -> SqlResult<()> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        self.put_texts(txn, &mut parts, texts).await?;
        self.finish(txn, ddl, parts)?;
        Ok(())
    }

    async fn put_index_text(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        index: Oid,
        change: impl FnOnce(&mut IndexInfo, &[ColumnInfo]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let at = parts.indexes.iter().position(|known| known.oid == index);
        let at = at.ok_or_else(|| SqlError::internal("an index is not in its table"))?;
        let mut index = IndexInfo::clone(&parts.indexes[at]);
        change(&mut index, &parts.columns)?;
        self.put_index(txn, parts, &mut index).await?;
        parts.indexes[at] = Arc::new(index);
        Ok(())
    }

    /// Writes a column's row anew.
    pub(super) async fn put_column(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        at: usize,
    ) -> SqlResult<()> {
        let place = parts.columns[at].place;
        self.tables.attribute.delete(txn, place).await?;
        let row = attribute_row(parts.oid, &parts.columns, at)?;
        parts.columns[at].place = self.tables.attribute.insert(txn, &row).await?;
        Ok(())
    }

    /// Writes the row of an index in `pg_index` anew.
    pub(super) async fn put_index(
        &self,
        txn: &mut Transaction,
        parts: &TableParts,
        index: &mut IndexInfo,
    ) -> SqlResult<()> {
        self.tables.index.delete(txn, index.places[1]).await?;
        let row = index_row(index, &parts.columns);
        index.places[1] = self.tables.index.insert(txn, &row).await?;
        Ok(())
    }

    /// Gives a column another name; `texts` are the table's expressions with that name in them.
    ///
    /// # Errors
    /// 42701; 42P01 if the table has gone meanwhile; the engine's.
    pub async fn rename_column(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        (table, at): (Oid, usize),
        to: &str,
        texts: Vec<NewText>,
    ) -> SqlResult<Arc<TableInfo>> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        let before = parts.columns.clone();
        let column = parts.columns.get_mut(at);
        let column = column.ok_or_else(|| SqlError::internal("a column is not there"))?;
        column.name = to.into();
        self.put_column(txn, &mut parts, at).await?;
        for at in parts.renew_expressions(&before)? {
            let mut index = IndexInfo::clone(&parts.indexes[at]);
            self.put_index(txn, &parts, &mut index).await?;
            parts.indexes[at] = Arc::new(index);
        }
        self.put_texts(txn, &mut parts, texts).await?;
        self.finish(txn, ddl, parts)
    }
}
