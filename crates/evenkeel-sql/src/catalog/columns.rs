//! ALTER TABLE … ADD, DROP and ALTER COLUMN TYPE: what they change in the catalog, and a new heap
//! where rows must be written anew.

use std::sync::Arc;

use evenkeel_engine::table::Table;
use evenkeel_engine::{FileId, TableLockMode, Transaction};
use evenkeel_types::row::{MAX_COLUMNS, fixed_width};

use super::create::check_column;
use super::index_expr::key_type;
use super::parts::TableParts;
use super::system::{attribute_row, dropped_row, table_row};
use super::{
    Catalog, CheckInfo, ColumnInfo, ConstraintInfo, DdlLog, DroppedColumn, Generated, IndexInfo,
    LargeInfo, NOWHERE, NewColumn, NewNotNull, NewText, Oid, RelationStats, TableInfo,
    split_domain,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::key::KeyColumn;
use crate::types::SqlType;

/// A column's new type.
#[derive(Debug, Clone)]
pub struct Retyped {
    /// The type.
    pub ty: SqlType,
    /// The default, as SQL text.
    pub default: Option<Arc<str>>,
    /// The table's expressions over the column, as they read now.
    pub texts: Vec<NewText>,
}

/// Files for a table's rows that are written anew.
pub struct NewHeap {
    heap: FileId,
    large: Option<LargeInfo>,
}

impl Catalog {
    /// Adds a column behind the others. `missing` are the stored bytes of its value in the rows
    /// that there are, unless they are written anew.
    ///
    /// # Errors
    /// 54011, 42P16, 0A000 for a type that is not stored; 42710, 42P07; the engine's.
    pub async fn add_column(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        new: &NewColumn,
        missing: Option<Arc<[u8]>>,
    ) -> SqlResult<Arc<TableInfo>> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        check_column(new)?;
        self.keep_type(txn, ddl, new.ty).await?;
        let mut parts = TableParts::of(&table);
        let number = parts.columns.len() + parts.dropped.len() + 1;
        let attnum = i16::try_from(number).ok().filter(|_| number <= MAX_COLUMNS);
        let attnum = attnum.ok_or_else(|| {
            let message = format!("tables can have at most {MAX_COLUMNS} columns");
            SqlError::new(SqlState::TOO_MANY_COLUMNS, message)
        })?;
        let (ty, domain) = split_domain(new.ty);
        parts.columns.push(ColumnInfo {
            name: new.name.as_str().into(),
            ty,
            domain,
            attnum,
            not_null: None,
            default: new.default.as_deref().map(Into::into),
            identity: None,
            generated: new.generated.clone().map(Arc::new),
            missing,
            place: NOWHERE,
        });
        let at = parts.columns.len() - 1;
        let own = std::iter::repeat_n(None, at).chain([new.sequence.as_ref()]);
        self.own_sequences(txn, ddl, &mut parts, own).await?;
        let row = attribute_row(parts.oid, &parts.columns, at)?;
        parts.columns[at].place = self.tables.attribute.insert(txn, &row).await?;
        if new.not_null || new.sequence.is_some() {
            let constraint = NewNotNull {
                name: new.not_null_name.clone(),
                ..NewNotNull::default()
            };
            self.add_not_null(txn, ddl, &mut parts, at, &constraint)
                .await?;
        }
        parts.renew_keys();
        self.finish(txn, ddl, parts)
    }

    /// Drops a column, and the indexes and constraints over it. Its place in rows stays.
    ///
    /// # Errors
    /// 42P01 if the table has gone meanwhile; the engine's.
    pub async fn drop_column(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        at: usize,
    ) -> SqlResult<Arc<TableInfo>> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        let column = parts.columns.get(at).cloned();
        let column = column.ok_or_else(|| SqlError::internal("a column is not there"))?;
        let (over, constraints) = parts
            .constraints
            .drain(..)
            .partition(|constraint| over_column(constraint, &table, at));
        parts.constraints = constraints;
        for constraint in Vec::<Arc<ConstraintInfo>>::into_iter(over) {
            self.tables.constraint.delete(txn, constraint.place).await?;
        }
        let on = |index: &Arc<IndexInfo>| {
            let key = index.columns.iter().any(|key| key.column == Some(at));
            key || index.included.contains(&at) || index.key.mentions().contains(&at)
        };
        while let Some(index) = parts.indexes.iter().find(|index| on(index)) {
            let oid = index.oid;
            self.remove_index(txn, &mut parts, oid).await?;
        }
        let (over, checks) = parts
            .checks
            .drain(..)
            .partition(|check| check.columns.contains(&at));
        parts.checks = checks;
        for check in Vec::<Arc<CheckInfo>>::into_iter(over) {
            self.tables.check.delete(txn, check.place).await?;
        }
        self.drop_foreign_keys_of(txn, &mut parts, column.attnum)
            .await?;
        self.remove_not_null(txn, &mut parts, at).await?;
        self.remove_statistics(txn, &mut parts, at).await?;
        self.tables.attribute.delete(txn, column.place).await?;
        let mut dropped = DroppedColumn {
            attnum: column.attnum,
            width: fixed_width(column.ty),
            place: NOWHERE,
        };
        let row = dropped_row(parts.oid, &dropped);
        dropped.place = self.tables.attribute.insert(txn, &row).await?;
        parts.dropped.push(dropped);
        parts.dropped.sort_by_key(|column| column.attnum);
        let before = parts.columns.clone();
        parts.forget_position(at);
        parts.renew_expressions(&before)?;
        parts.renew_keys();
        self.finish(txn, ddl, parts)
    }

    async fn remove_statistics(
        &self,
        txn: &mut Transaction,
        parts: &mut TableParts,
        at: usize,
    ) -> SqlResult<()> {
        let mut stats = RelationStats::clone(&parts.stats);
        let known = stats.columns.get_mut(at).and_then(Option::take);
        if let Some(known) = known {
            self.tables.statistic.delete(txn, known.place).await?;
        }
        parts.stats = Arc::new(stats);
        Ok(())
    }

    /// Gives a column another type. The rows have to be written anew, unless both types have the
    /// same form in rows and keys.
    ///
    /// # Errors
    /// 42P16, 42704 for a type that a row or an index cannot have; the engine's.
    pub async fn retype_column(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        (table, at): (Oid, usize),
        new: Retyped,
    ) -> SqlResult<Arc<TableInfo>> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        self.keep_type(txn, ddl, new.ty).await?;
        let mut parts = TableParts::of(&table);
        let column = parts.columns.get_mut(at);
        let column = column.ok_or_else(|| SqlError::internal("a column is not there"))?;
        (column.ty, column.domain) = split_domain(new.ty);
        column.default = new.default;
        self.put_column(txn, &mut parts, at).await?;
        for index in &mut parts.indexes {
            if !index.columns.iter().any(|key| key.column == Some(at)) {
                continue;
            }
            key_type(new.ty)?;
            for (key, class) in index.columns.iter().zip(&index.classes) {
                if let (true, Some(class)) = (key.column == Some(at), class) {
                    class.check(new.ty)?;
                }
            }
            let retyped = |key: &KeyColumn| match key.column == Some(at) {
                true => KeyColumn { ty: new.ty, ..*key },
                false => *key,
            };
            let columns = index.columns.iter().map(retyped).collect();
            *index = Arc::new(IndexInfo {
                columns,
                ..IndexInfo::clone(index)
            });
        }
        self.put_texts(txn, &mut parts, new.texts).await?;
        self.remove_statistics(txn, &mut parts, at).await?;
        let columns = parts.columns.clone();
        parts.renew_expressions(&columns)?;
        parts.renew_keys();
        self.finish(txn, ddl, parts)
    }

    /// A new, empty heap for a table's rows, its file, and the place of its large values. Nothing
    /// counts what is done to it.
    ///
    /// # Errors
    /// The engine's.
    pub fn new_heap(
        &self,
        txn: &mut Transaction,
        table: &TableInfo,
    ) -> SqlResult<(NewHeap, Arc<Table>)> {
        let heap = txn.create_file_like(table.heap)?;
        let mut parts = TableParts::of(table);
        parts.heap = heap;
        let large = self.new_large(txn, &parts)?;
        parts.large = large.clone().map(Arc::new);
        let mut def = parts.def(0);
        def.id = self.table_id(self.new_oid()?);
        let (db, id) = (self.db.clone(), def.id);
        txn.on_commit(Box::new(move || db.forget_table_statistics(id)));
        let db = self.db.clone();
        txn.on_abort(Box::new(move || db.forget_table_statistics(id)));
        let table = parts.open_table(&self.db, def)?;
        Ok((NewHeap { heap, large }, table))
    }

    /// Puts a heap with the table's rows, all written in its present form, in the place of the old
    /// one, and fills its indexes from it.
    ///
    /// # Errors
    /// 23505; the engine's.
    pub async fn swap_heap(
        &self,
        txn: &mut Transaction,
        ddl: &DdlLog,
        table: Oid,
        new: NewHeap,
    ) -> SqlResult<Arc<TableInfo>> {
        let mode = TableLockMode::AccessExclusive;
        let table = self.lock_table(txn, ddl, table, mode).await?;
        let mut parts = TableParts::of(&table);
        let mut old = vec![std::mem::replace(&mut parts.heap, new.heap)];
        self.remove_large(txn, &mut parts).await?;
        if let Some(large) = new.large {
            self.put_large(txn, &mut parts, large)?;
        }
        old.extend(parts.indexes.iter().map(|index| index.file));
        for at in 0..parts.columns.len() {
            if parts.columns[at].missing.take().is_some() {
                self.put_column(txn, &mut parts, at).await?;
            }
        }
        self.tables.class.delete(txn, parts.place).await?;
        parts.stats = Arc::new(RelationStats {
            columns: parts.stats.columns.clone(),
            ..RelationStats::new(self.db.horizon().floor())
        });
        let row = table_row(&parts);
        parts.place = self.tables.class.insert(txn, &row).await?;
        parts.renew_keys();
        for index in std::mem::take(&mut parts.indexes) {
            let index = self.renew_index(txn, &parts, &index).await?;
            parts.indexes.push(Arc::new(index));
        }
        for file in old {
            txn.drop_file(file)?;
        }
        self.finish(txn, ddl, parts)
    }
}

/// Whether a key, or the columns that its index includes, has the column at a position.
fn over_column(constraint: &ConstraintInfo, table: &TableInfo, at: usize) -> bool {
    let mut indexes = table.indexes.iter();
    let index = indexes.find(|index| index.oid == constraint.index_oid);
    let included = index.is_some_and(|index| index.included.contains(&at));
    included || constraint.columns.contains(&at)
}

impl TableParts {
    /// Takes a position out of all that counts columns by position; nothing is over it any more.
    fn forget_position(&mut self, at: usize) {
        let moved = |column: usize| column - usize::from(column > at);
        self.columns.remove(at);
        for column in &mut self.columns {
            if let Some(generated) = &column.generated {
                let columns = generated.columns.iter();
                column.generated = Some(Arc::new(Generated {
                    columns: columns.map(|column| moved(*column)).collect(),
                    ..Generated::clone(generated)
                }));
            }
        }
        for index in &mut self.indexes {
            let columns = index.columns.iter();
            let columns = columns.map(|key| KeyColumn {
                column: key.column.map(moved),
                ..*key
            });
            let columns = columns.collect();
            *index = Arc::new(IndexInfo {
                columns,
                included: index.included.iter().map(|at| moved(*at)).collect(),
                ..IndexInfo::clone(index)
            });
        }
        for constraint in &mut self.constraints {
            let columns = constraint.columns.iter();
            let columns = columns.map(|column| moved(*column)).collect();
            *constraint = Arc::new(ConstraintInfo {
                columns,
                ..ConstraintInfo::clone(constraint)
            });
        }
        for check in &mut self.checks {
            let columns = check.columns.iter().map(|column| moved(*column)).collect();
            *check = Arc::new(CheckInfo {
                columns,
                ..CheckInfo::clone(check)
            });
        }
        let mut stats = RelationStats::clone(&self.stats);
        if at < stats.columns.len() {
            stats.columns.remove(at);
        }
        self.stats = Arc::new(stats);
    }
}
