//! Foreign keys in definitions: made, validated, changed, and in the way of what they need.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_engine::{TableLockMode, WaitPolicy};
use evenkeel_planner::ast::{self, Constraint, ConstraintKind, Name, QualifiedName};

use super::Session;
use super::in_the_way::{Dependents, foreign_key, in_order};
use super::transaction::Block;
use crate::catalog::{ForeignKeyInfo, IndexInfo, NewForeignKey, Oid, TableInfo, ViewInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::planner::references::{KeyTexts, compared};

/// The columns of a foreign key in its table and in the other.
type Columns = (Vec<i16>, Vec<i16>);

impl Session {
    /// Adds the foreign keys of CREATE TABLE to the table, which is empty.
    pub(super) async fn add_foreign_keys(
        &mut self,
        table: Oid,
        create: &ast::CreateTable,
    ) -> SqlResult<()> {
        for element in &create.elements {
            match element {
                ast::TableElement::Column(column) => {
                    for constraint in &column.constraints {
                        let own = Some(&column.name);
                        self.make_foreign_key(table, constraint, own, false).await?;
                    }
                }
                ast::TableElement::Constraint(constraint) => {
                    self.make_foreign_key(table, constraint, None, false)
                        .await?;
                }
                ast::TableElement::Like(..) => {}
            }
        }
        Ok(())
    }

    /// Adds a foreign key to a table, if the constraint is one. `own`: the column that it stands
    /// behind; `rows`: whether the table may have some.
    pub(super) async fn make_foreign_key(
        &mut self,
        table: Oid,
        constraint: &Constraint,
        own: Option<&Name>,
        rows: bool,
    ) -> SqlResult<bool> {
        let ConstraintKind::ForeignKey(key) = &constraint.kind else {
            return Ok(false);
        };
        if constraint.not_enforced {
            return Err(SqlError::unsupported("a NOT ENFORCED constraint"));
        }
        let mode = TableLockMode::ShareRowExclusive;
        let parent = self.locked_table(&key.table, mode, WaitPolicy::Block);
        let parent = parent.await?.oid;
        let view = self.view();
        let (Some(child), Some(parent)) = (view.table(table), view.table(parent)) else {
            return Err(SqlError::internal("a table that is locked is not there"));
        };
        refuse_unlike(child, parent)?;
        let (columns, referenced) = key_columns(key, own, child, parent)?;
        let positions = child.positions(&columns);
        if positions.iter().any(|at| child.columns[*at].is_virtual()) {
            let what = "foreign key constraints on virtual generated columns are not supported";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        let index = parent.unique_index(&parent.positions(&referenced));
        let index = index.ok_or_else(|| no_unique(parent))?.oid;
        let set_columns = set_columns(key, child, &columns)?;
        let new = NewForeignKey {
            name: constraint.name.as_ref().map(|name| name.text.clone()),
            key: ForeignKeyInfo {
                full: key.full,
                on_delete: key.on_delete,
                set_columns,
                on_update: key.on_update,
                deferrable: constraint.deferrable,
                deferred: constraint.deferred,
                valid: !rows || !constraint.not_valid,
                ..ForeignKeyInfo::unnamed(parent.oid, index, columns, referenced)
            },
        };
        let fits = comparable(&new.key, child, parent);
        let (child, parent) = (child.oid, Arc::clone(parent));
        let (catalog, txn, ddl) = self.ddl_parts()?;
        let made = catalog.add_foreign_key(txn, ddl, child, new).await?;
        if let Err(detail) = fits {
            return Err(not_comparable(&made.name, detail));
        }
        if rows && made.valid {
            self.check_orphans(child, &made, &parent).await?;
        }
        Ok(true)
    }

    /// 23503 if a row refers to nothing.
    async fn check_orphans(
        &mut self,
        child: Oid,
        key: &ForeignKeyInfo,
        parent: &TableInfo,
    ) -> SqlResult<()> {
        let view = self.view();
        let child = view.table(child);
        let child = child.ok_or_else(|| SqlError::internal("a table that is locked is gone"))?;
        let text = KeyTexts::new(key, child, parent).orphans();
        let Some(values) = self.first_row(&text).await? else {
            return Ok(());
        };
        let error = super::foreign_keys::orphan(key, (child, parent), &values, &self.types_now());
        Err(error)
    }

    /// ALTER TABLE … VALIDATE CONSTRAINT, of a foreign key.
    pub(super) async fn validate_foreign_key(
        &mut self,
        table: &TableInfo,
        key: &ForeignKeyInfo,
    ) -> SqlResult<()> {
        if key.valid {
            return Ok(());
        }
        let view = self.view();
        let parent = view.table(key.parent);
        let parent = parent.ok_or_else(|| SqlError::internal("a reference to no table"))?;
        let (lock, mode) = (parent.lock_id(), TableLockMode::RowShare);
        let txn = self.tx.txn()?;
        txn.lock_table(lock, mode, WaitPolicy::Block).await?;
        self.check_orphans(table.oid, key, parent).await?;
        let valid = ForeignKeyInfo {
            valid: true,
            ..ForeignKeyInfo::clone(key)
        };
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog.change_foreign_key(txn, ddl, table.oid, valid).await
    }

    /// ALTER TABLE … ALTER CONSTRAINT
    pub(super) async fn alter_constraint(
        &mut self,
        table: &TableInfo,
        name: &str,
        (deferrable, deferred): (bool, bool),
    ) -> SqlResult<()> {
        self.constraint_there(table, name)?;
        let Some(key) = table.foreign_keys.iter().find(|key| *key.name == *name) else {
            let message = format!(
                "constraint \"{name}\" of relation \"{}\" is not a foreign key constraint",
                table.name
            );
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        let changed = ForeignKeyInfo {
            deferrable,
            deferred,
            ..ForeignKeyInfo::clone(key)
        };
        let (catalog, txn, ddl) = self.ddl_parts()?;
        catalog
            .change_foreign_key(txn, ddl, table.oid, changed)
            .await
    }

    /// 42704 if a table has no constraint of this name.
    fn constraint_there(&self, table: &TableInfo, name: &str) -> SqlResult<()> {
        if table.constraint_names().any(|known| **known == *name) {
            return Ok(());
        }
        let message = format!(
            "constraint \"{name}\" of relation \"{}\" does not exist",
            table.name
        );
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
    }

    /// Looks at the foreign keys of columns that have got another type.
    pub(super) async fn recheck_foreign_keys(
        &mut self,
        table: Oid,
        attnums: &[i16],
    ) -> SqlResult<()> {
        let view = self.view();
        let Some(changed) = view.table(table) else {
            return Ok(());
        };
        let any = |columns: &[i16]| columns.iter().any(|attnum| attnums.contains(attnum));
        let own = changed.foreign_keys.iter().map(|key| (changed, key));
        let own = own.filter(|(_, key)| any(&key.columns));
        let others = view.references_to(table);
        let others = others.filter(|(_, key)| any(&key.referenced));
        for (child, key) in own.chain(others) {
            let Some(parent) = view.table(key.parent) else {
                continue;
            };
            if let Err(detail) = comparable(key, child, parent) {
                return Err(not_comparable(&key.name, detail));
            }
            if key.valid {
                self.check_orphans(child.oid, key, parent).await?;
            }
        }
        Ok(())
    }

    /// Drops the foreign keys that refer to a column, which is being dropped, and the views that
    /// look at it.
    ///
    /// # Errors
    /// As [`Session::drop_references_to_tables`].
    pub(super) async fn drop_references_to_column(
        &mut self,
        table: &TableInfo,
        at: usize,
        cascade: bool,
    ) -> SqlResult<()> {
        let view = self.view();
        let column = &table.columns[at];
        let of = self.in_words(&view, table.oid);
        let what = format!("column {} of {of}", column.name);
        let including = |key: &ForeignKeyInfo| {
            let mut indexes = table.indexes.iter();
            indexes.find(|index| index.oid == key.index && index.included.contains(&at))
        };
        let keys = view.references_to(table.oid).filter_map(|(child, key)| {
            let own = child.oid == table.oid && key.columns.contains(&column.attnum);
            let needs = match including(key) {
                Some(index) => format!("index {}", index.name),
                None if key.referenced.contains(&column.attnum) => what.clone(),
                None => return None,
            };
            (!own).then(|| foreign_key(child, key, needs))
        });
        let mut found: Dependents = keys.collect();
        let state = self.view();
        let looks = |view: &ViewInfo| view.uses_column(table.oid, column.attnum);
        let of = (table.oid, &*what, &looks as _);
        found.extend(self.views_over(&state, of, &[], &mut BTreeSet::new()));
        self.drop_in_the_way(in_order(found), Some(&what), cascade)
            .await
    }

    /// SET CONSTRAINTS
    pub(super) async fn set_constraints(
        &mut self,
        names: &[QualifiedName],
        deferred: bool,
    ) -> SqlResult<()> {
        if self.tx.block != Block::Explicit && !self.in_batch {
            self.warn(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET CONSTRAINTS can only be used in transaction blocks",
            );
        }
        if names.is_empty() {
            self.tx.deferral.all = Some(deferred);
            self.tx.deferral.named.clear();
        }
        for name in names {
            for oid in self.deferrable_named(name, deferred)? {
                self.tx.deferral.named.push((oid, deferred));
            }
        }
        if deferred || self.resources.events.is_empty() {
            return Ok(());
        }
        self.resources.events.look_again();
        self.act_on_events(false).await
    }

    /// The deferrable constraints of a name: those of the first schema of the path that has some
    /// of the name. A constraint that is not deferrable is immediate already.
    fn deferrable_named(&self, name: &QualifiedName, deferred: bool) -> SqlResult<Vec<Oid>> {
        let (schema, name) = self.split_name(name)?;
        self.refuse_missing_schema(schema.as_deref())?;
        let view = self.view();
        let path = match &schema {
            Some(schema) => std::slice::from_ref(schema),
            None => &*self.effective.search_path,
        };
        for schema in path {
            let mut tables = view.tables().filter(|table| *table.schema == **schema);
            let mut there = false;
            let mut found = Vec::new();
            for table in tables.by_ref() {
                let named = table.constraint_names().filter(|known| ***known == *name);
                let named = named.count();
                there |= named > 0;
                let keys = table.foreign_keys.iter();
                let keys = keys.filter(|key| *key.name == *name && key.deferrable);
                let unique = table.constraints.iter();
                let unique = unique.filter(|key| *key.name == *name && key.deferrable);
                let before = found.len();
                found.extend(keys.map(|key| key.oid));
                found.extend(unique.map(|key| key.oid));
                if deferred && found.len() < before + named {
                    let message = format!("constraint \"{name}\" is not deferrable");
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
            }
            if there {
                return Ok(found);
            }
        }
        let message = format!("constraint \"{name}\" does not exist");
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
    }

    /// Drops the foreign keys of other tables that refer to tables to be dropped.
    ///
    /// # Errors
    /// 2BP01 if there are any, unless CASCADE was said.
    pub(super) async fn drop_references_to_tables(
        &mut self,
        tables: &[Arc<TableInfo>],
        cascade: bool,
    ) -> SqlResult<()> {
        let view = self.view();
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        for table in tables.iter().rev() {
            let needs = self.in_words(&view, table.oid);
            let mut here = self.views_over(&view, (table.oid, &needs, &|_| true), &[], &mut seen);
            for (child, key) in view.references_to(table.oid) {
                if !tables.iter().any(|dropped| dropped.oid == child.oid) {
                    here.push(foreign_key(child, key, needs.clone()));
                }
            }
            found.extend(in_order(here));
        }
        let what = match tables {
            [table] => Some(self.in_words(&view, table.oid)),
            _ => None,
        };
        self.drop_in_the_way(found, what.as_deref(), cascade)
            .await?;
        // Those among the tables go first, so that each can be dropped by itself.
        for table in tables {
            for (child, key) in view.references_to(table.oid) {
                if child.oid != table.oid && tables.iter().any(|t| t.oid == child.oid) {
                    let (catalog, txn, ddl) = self.ddl_parts()?;
                    let name = &key.name;
                    catalog.drop_constraint(txn, ddl, child.oid, name).await?;
                }
            }
        }
        Ok(())
    }

    /// Drops the foreign keys that need an index of a table; `what` is being dropped.
    ///
    /// # Errors
    /// As [`Session::drop_references_to_tables`].
    pub(super) async fn drop_references_by(
        &mut self,
        table: &TableInfo,
        index: Oid,
        what: String,
        cascade: bool,
    ) -> SqlResult<()> {
        let name = table.indexes.iter().find(|known| known.oid == index);
        let name = name.map_or("", |index| &index.name);
        let view = self.view();
        let keys = view.references_to(table.oid);
        let keys = keys.filter(|(_, key)| key.index == index);
        let found = keys.map(|(child, key)| foreign_key(child, key, format!("index {name}")));
        let found = in_order(found.collect());
        self.drop_in_the_way(found, Some(&what), cascade).await
    }

    /// The tables that TRUNCATE empties: those named and, by CASCADE, those that refer to them.
    ///
    /// # Errors
    /// 0A000 where a table refers to one that is named and is not named itself; 55006.
    pub(super) async fn truncated_too(
        &mut self,
        tables: &mut Vec<Oid>,
        cascade: bool,
    ) -> SqlResult<()> {
        let mut at = 0;
        while let Some(oid) = tables.get(at).copied() {
            at += 1;
            let view = self.view();
            let Some(table) = view.table(oid) else {
                continue;
            };
            for (child, _) in view.references_to(oid) {
                if tables.contains(&child.oid) {
                    continue;
                }
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                    let error = error.detail(format!(
                        "Table \"{}\" references \"{}\".",
                        child.name, table.name
                    ));
                    return Err(error.hint(format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        child.name
                    )));
                }
                let message = format!("truncate cascades to table \"{}\"", child.name);
                self.notice("NOTICE", SqlState::SUCCESS, message);
                let (lock, mode) = (child.lock_id(), TableLockMode::AccessExclusive);
                let txn = self.tx.txn()?;
                txn.lock_table(lock, mode, WaitPolicy::Block).await?;
                tables.push(child.oid);
            }
        }
        let view = self.view();
        for table in tables.iter().filter_map(|oid| view.table(*oid)) {
            self.refuse_pending("TRUNCATE", table)?;
        }
        Ok(())
    }
}

fn not_comparable(key: &str, detail: String) -> SqlError {
    let message = format!("foreign key constraint \"{key}\" cannot be implemented");
    SqlError::new(SqlState::DATATYPE_MISMATCH, message).detail(detail)
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_FOREIGN_KEY, message)
}

/// 42P16 for a key between a table that lasts and one that does not.
fn refuse_unlike(child: &TableInfo, parent: &TableInfo) -> SqlResult<()> {
    let message = match (child.is_temporary(), parent.is_temporary()) {
        (false, true) => "constraints on permanent tables may reference only permanent tables",
        (true, false) => "constraints on temporary tables may reference only temporary tables",
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
}

fn no_unique(parent: &TableInfo) -> SqlError {
    invalid(format!(
        "there is no unique constraint matching given keys for referenced table \"{}\"",
        parent.name
    ))
}

/// 55000: a row that is referred to must be the only one of its key.
fn refuse_deferrable(index: &IndexInfo, parent: &TableInfo, what: &str) -> SqlResult<()> {
    if !index.deferrable {
        return Ok(());
    }
    let message = format!(
        "cannot use a deferrable {what} for referenced table \"{}\"",
        parent.name
    );
    let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
    Err(SqlError::new(state, message))
}

fn numbers(table: &TableInfo, names: &[&Name]) -> SqlResult<Vec<i16>> {
    let numbers = names.iter().map(|name| {
        let mut columns = table.columns.iter();
        let found = columns.find(|column| *column.name == *name.text);
        found.map(|column| column.attnum).ok_or_else(|| {
            let message = format!(
                "column \"{}\" referenced in foreign key constraint does not exist",
                name.text
            );
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    });
    numbers.collect()
}

fn key_columns(
    key: &ast::ForeignKey,
    own: Option<&Name>,
    child: &TableInfo,
    parent: &TableInfo,
) -> SqlResult<Columns> {
    let names: Vec<&Name> = own.into_iter().chain(&key.columns).collect();
    let columns = numbers(child, &names)?;
    let referenced = if key.referenced.is_empty() {
        let primary = parent.primary_key().ok_or_else(|| {
            let message = format!(
                "there is no primary key for referenced table \"{}\"",
                parent.name
            );
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        refuse_deferrable(primary, parent, "primary key")?;
        primary
            .columns
            .iter()
            .filter_map(|part| Some(parent.columns.get(part.column?)?.attnum))
            .collect()
    } else {
        numbers(parent, &key.referenced.iter().collect::<Vec<_>>())?
    };
    let again = |(at, column): (usize, &i16)| referenced[..at].contains(column);
    if referenced.iter().enumerate().any(again) {
        let message = "foreign key referenced-columns list must not contain duplicates";
        return Err(invalid(message));
    }
    if !key.referenced.is_empty() {
        let index = parent.unique_index(&parent.positions(&referenced));
        let index = index.ok_or_else(|| no_unique(parent))?;
        refuse_deferrable(index, parent, "unique constraint")?;
    }
    if columns.len() != referenced.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(invalid(message));
    }
    Ok((columns, referenced))
}

fn set_columns(key: &ast::ForeignKey, child: &TableInfo, columns: &[i16]) -> SqlResult<Vec<i16>> {
    let set = numbers(child, &key.set_columns.iter().collect::<Vec<_>>())?;
    let foreign = set.iter().zip(&key.set_columns);
    for (column, name) in foreign {
        if !columns.contains(column) {
            let message = format!(
                "column \"{}\" referenced in ON DELETE SET action must be part of foreign key",
                name.text
            );
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
    }
    Ok(set)
}

/// The detail of two columns that cannot be compared, if there are such.
fn comparable(key: &ForeignKeyInfo, child: &TableInfo, parent: &TableInfo) -> Result<(), String> {
    let columns = child.positions(&key.columns).into_iter();
    for (own, other) in columns.zip(parent.positions(&key.referenced)) {
        let (own, other) = (&child.columns[own], &parent.columns[other]);
        if compared(own.ty, other.ty).is_none() {
            return Err(format!(
                "Key columns \"{}\" of the referencing table and \"{}\" of the referenced table \
                 are of incompatible types: {} and {}.",
                own.name,
                other.name,
                own.ty.base_name(),
                other.ty.base_name()
            ));
        }
    }
    Ok(())
}
