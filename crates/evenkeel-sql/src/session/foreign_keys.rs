//! Constraints at work: the events of changed rows, acted on at the end of a statement or before
//! the transaction commits (FK-1). The rules are in the README of the crate.

use std::sync::Arc;

use evenkeel_engine::heap::rows::{RowBatch, RowHandle};
use evenkeel_engine::table::Modified;
use evenkeel_engine::{
    Isolation, RowLockMode, Snapshot, TableLockMode, Tid, Transaction, WaitPolicy,
};
use evenkeel_exec::{Role, RowEvent};
use evenkeel_planner::ast::KeyAction;

use super::Session;
use super::run::lock_mode;
use crate::catalog::{ForeignKeyInfo, Oid, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::row;
use crate::planner::compile::Kind;
use crate::planner::references::{self, KeyTexts};
use crate::types::{Datum, SqlType, TypeContext};

/// An event with what it concerns.
struct Concern {
    event: RowEvent,
    key: Arc<ForeignKeyInfo>,
    /// The table that refers.
    child: Arc<TableInfo>,
    /// The table that is referred to.
    parent: Arc<TableInfo>,
}

/// Values of the parent's side, before a change and after it.
struct Change {
    old: Vec<Datum>,
    new: Option<Vec<Datum>>,
}

impl Session {
    /// Acts on the events of a statement that has ended; those that are deferred wait. `from` is
    /// how many there were before it.
    pub(super) async fn statement_events(&mut self, from: usize) -> SqlResult<()> {
        if self.resources.events.len() == from {
            return Ok(());
        }
        self.act_on_events(false).await?;
        self.resources.events.forget_done(from);
        Ok(())
    }

    /// Acts on the events that wait, before the transaction commits.
    pub(super) async fn deferred_events(&mut self) -> SqlResult<()> {
        if self.resources.events.is_empty() {
            return Ok(());
        }
        self.resources.events.look_again();
        self.act_on_events(true).await
    }

    /// Acts on events in the order in which they were queued, their consequences behind them.
    pub(super) async fn act_on_events(&mut self, all: bool) -> SqlResult<()> {
        let events = Arc::clone(&self.resources.events);
        let savepoints = self.tx.level();
        loop {
            let view = self.view();
            let deferral = &self.tx.deferral;
            let waits = |event: &RowEvent| match event.role {
                Role::Doubtful => view
                    .unique_key(event.key)
                    .is_some_and(|(_, _, key)| deferral.of(key.oid, key.deferred)),
                Role::Refers | Role::Referred => {
                    view.foreign_key(event.key).is_some_and(|(_, key)| {
                        may_wait(event, key) && deferral.of(key.oid, key.deferred)
                    })
                }
            };
            let is_due = |event: &RowEvent| all || !waits(event);
            let Some(event) = events.next(savepoints, is_due) else {
                return Ok(());
            };
            self.check_cancel()?;
            if event.role == Role::Doubtful {
                self.check_unique(event).await?;
                continue;
            }
            if let Some(concern) = self.concern(event).await? {
                self.act_on(&concern).await?;
            }
        }
    }

    fn check_cancel(&self) -> SqlResult<()> {
        Ok(self.cancel.check()?)
    }

    /// The tables of an event, locked; none if its foreign key is gone.
    async fn concern(&mut self, event: RowEvent) -> SqlResult<Option<Concern>> {
        loop {
            let view = self.view();
            let Some((child, key)) = view.foreign_key(event.key) else {
                return Ok(None);
            };
            let other = if event.role == Role::Referred {
                child.oid
            } else {
                key.parent
            };
            let txn = self.tx.txn()?;
            txn.lock_table(
                self.catalog.table_id(other),
                TableLockMode::RowShare,
                WaitPolicy::Block,
            )
            .await?;
            if self.view().version != view.version {
                continue;
            }
            let parent = view.table(key.parent);
            let parent = parent.ok_or_else(|| SqlError::internal("a reference to no table"))?;
            return Ok(Some(Concern {
                event,
                key: Arc::clone(key),
                child: Arc::clone(child),
                parent: Arc::clone(parent),
            }));
        }
    }

    async fn act_on(&mut self, concern: &Concern) -> SqlResult<()> {
        self.tx.txn()?.begin_statement()?;
        let (event, key) = (concern.event, &concern.key);
        if event.role == Role::Refers {
            return match event.new {
                Some(at) => self.check_reference(concern, at).await,
                None => Ok(()),
            };
        }
        let Some(change) = self.parent_change(concern)? else {
            return Ok(());
        };
        let action = match event.new {
            Some(_) => key.on_update,
            None => key.on_delete,
        };
        match action {
            KeyAction::NoAction => self.refuse_referenced(concern, &change.old, false).await,
            KeyAction::Restrict => self.refuse_referenced(concern, &change.old, true).await,
            action => self.carry_on(concern, action, change).await,
        }
    }

    /// The child's side: the row that a new row refers to must be there, and stays until this
    /// transaction ends (FK-2).
    async fn check_reference(&mut self, concern: &Concern, at: Tid) -> SqlResult<()> {
        let (key, child, parent) = (&concern.key, &concern.child, &concern.parent);
        let txn = self.tx.txn()?;
        let snapshot = txn.snapshot()?;
        // Replaced or deleted since, it is no longer a matter of this event.
        let Some(row) = child.table.fetch(&snapshot, at)? else {
            return Ok(());
        };
        let values = values_of(child, &row.bytes, &key.columns)?;
        let nulls = values.iter().filter(|value| value.is_null()).count();
        if nulls == values.len() || (nulls > 0 && !key.full) {
            return Ok(());
        }
        if nulls > 0 {
            return Err(orphan(key, (child, parent), &values, &self.types_now()));
        }
        let found = match references::search_key(key, (child, parent), &values)? {
            Some(bytes) => share_key(txn, (concern, &snapshot), &bytes).await?,
            None => {
                let texts = KeyTexts::new(key, child, parent);
                let text = texts.parent_row();
                let types = types_of(child, &key.columns);
                self.key_query(text, values.clone(), &types, false).await? > 0
            }
        };
        if found {
            return Ok(());
        }
        Err(orphan(key, (child, parent), &values, &self.types_now()))
    }

    /// The key of a parent's row before its change, and after it; none where nothing can refer to
    /// it, or where it is the same.
    fn parent_change(&mut self, concern: &Concern) -> SqlResult<Option<Change>> {
        let (key, parent) = (&concern.key, &concern.parent);
        let snapshot = self.tx.txn()?.snapshot()?;
        let values = |at: Tid| {
            let row = parent.table.fetch_locked(RowHandle::known(&snapshot, at))?;
            let row = row.ok_or_else(|| SqlError::internal("a changed row is gone"))?;
            values_of(parent, &row.bytes, &key.referenced)
        };
        let Some(old) = concern.event.old.map(values).transpose()? else {
            return Ok(None);
        };
        if old.iter().any(Datum::is_null) {
            return Ok(None);
        }
        let new = concern.event.new.map(values).transpose()?;
        Ok((new.as_ref() != Some(&old)).then_some(Change { old, new }))
    }

    /// NO ACTION and RESTRICT: no row may refer to the key any more (FK-3).
    async fn refuse_referenced(
        &mut self,
        concern: &Concern,
        old: &[Datum],
        restrict: bool,
    ) -> SqlResult<()> {
        let (key, child, parent) = (&concern.key, &concern.child, &concern.parent);
        if !restrict {
            // Another row may have the key by now.
            let txn = self.tx.txn()?;
            let newest = txn.latest_snapshot()?;
            let bytes = references::parent_key(key, parent, old)?;
            if share_key(txn, (concern, &newest), &bytes).await? {
                return Ok(());
            }
        }
        let texts = KeyTexts::new(key, child, parent);
        let types = types_of(parent, &key.referenced);
        let found = self
            .key_query(texts.child_row(), old.to_vec(), &types, true)
            .await?;
        if found == 0 {
            return Ok(());
        }
        Err(still_referenced(concern, old, restrict, &self.types_now()))
    }

    /// CASCADE, SET NULL, SET DEFAULT: the rows that refer to the key follow.
    async fn carry_on(
        &mut self,
        concern: &Concern,
        action: KeyAction,
        change: Change,
    ) -> SqlResult<()> {
        let (key, child, parent) = (&concern.key, &concern.child, &concern.parent);
        let texts = KeyTexts::new(key, child, parent);
        let mut types = types_of(parent, &key.referenced);
        let mut values = change.old.clone();
        let text = match (action, change.new) {
            (KeyAction::Cascade, None) => texts.delete_children(),
            (KeyAction::Cascade, Some(new)) => {
                types.extend_from_within(..);
                values.extend(new);
                texts.update_children()
            }
            (action, new) => texts.set_children(action, new.is_none()),
        };
        self.key_query(text, values, &types, true).await?;
        if action == KeyAction::SetDefault {
            // The default may be the key that goes.
            self.tx.txn()?.begin_statement()?;
            return self.refuse_referenced(concern, &change.old, false).await;
        }
        Ok(())
    }

    /// Runs a statement of a foreign key: how many rows it found or changed. `newest`: it sees what
    /// has been committed since, though the transaction's snapshot is fixed; changing a row that
    /// only the newest state has is a serialization failure.
    pub(super) async fn key_query(
        &mut self,
        text: String,
        values: Vec<Datum>,
        types: &[SqlType],
        newest: bool,
    ) -> SqlResult<u64> {
        let text: Arc<str> = text.into();
        let given: Arc<[Oid]> = types.iter().map(|ty| ty.oid()).collect();
        let compiled = loop {
            let compiled = self.obtain_text(&text, &given).await?;
            let txn = self.tx.txn()?;
            for table in &compiled.tables {
                let mode = lock_mode(&compiled.kind, table.oid);
                txn.lock_table(table.lock_id(), mode, WaitPolicy::Block)
                    .await?;
            }
            if self.version_of(&self.view()) == compiled.version {
                break compiled;
            }
        };
        let Kind::RowChange(plan, _) = &compiled.kind else {
            return Err(SqlError::internal("a foreign key's statement has no plan"));
        };
        let cx = Arc::new(self.statement_cx(self.view()));
        let txn = self.tx.txn()?;
        txn.begin_statement()?;
        let mut snapshot = txn.snapshot()?;
        let mut seen = None;
        if newest && txn.isolation() != Isolation::ReadCommitted {
            seen = Some(snapshot);
            snapshot = txn.latest_snapshot()?;
        }
        let at = (snapshot, self.cancel.clone());
        let changed = row::change::act(plan, values, &cx, at, seen, &mut self.tx.txn).await?;
        Ok(changed.count + changed.rows.count() as u64)
    }

    /// The first row of a query on the newest state.
    pub(super) async fn first_row(&mut self, text: &str) -> SqlResult<Option<Vec<Datum>>> {
        let compiled = self.obtain_text(&Arc::from(text), &Arc::from([])).await?;
        let Kind::Rows(plan) = &compiled.kind else {
            return Err(SqlError::internal("a foreign key's query has no plan"));
        };
        let cx = Arc::new(self.statement_cx(self.view()));
        let txn = self.tx.txn()?;
        txn.begin_statement()?;
        let snapshot = txn.latest_snapshot()?;
        let mut rows = row::start(plan, Vec::new(), &cx, snapshot, self.cancel.clone())?;
        let mut values = Vec::new();
        let found = rows.next_row(&mut values).await?;
        Ok(found.then_some(values))
    }

    pub(super) fn types_now(&self) -> TypeContext {
        self.statement_cx(self.view()).types
    }

    /// 55006 if events of one of a table's constraints wait.
    pub(super) fn refuse_pending(&self, what: &str, table: &TableInfo) -> SqlResult<()> {
        if self.resources.events.is_empty() {
            return Ok(());
        }
        let view = self.view();
        let concerns = |event: &RowEvent| match event.role {
            Role::Doubtful => {
                let found = view.unique_key(event.key);
                found.is_some_and(|(owner, ..)| owner.oid == table.oid)
            }
            Role::Refers | Role::Referred => {
                let found = view.foreign_key(event.key);
                found.is_some_and(|(child, key)| child.oid == table.oid || key.parent == table.oid)
            }
        };
        if !self.resources.events.waits_for(concerns) {
            return Ok(());
        }
        let message = format!(
            "cannot {what} \"{}\" because it has pending trigger events",
            table.name
        );
        Err(SqlError::new(SqlState::OBJECT_IN_USE, message))
    }
}

/// Whether an event waits for the end of the transaction where its constraint is deferred: checks
/// do, actions do not.
fn may_wait(event: &RowEvent, key: &ForeignKeyInfo) -> bool {
    let action = match event.new {
        Some(_) => key.on_update,
        None => key.on_delete,
    };
    key.deferrable && (event.role == Role::Refers || action == KeyAction::NoAction)
}

/// Looks a key up in the parent's unique index and locks the row against changes of its key;
/// whether it is there.
async fn share_key(
    txn: &mut Transaction,
    (concern, snapshot): (&Concern, &Snapshot),
    key: &[u8],
) -> SqlResult<bool> {
    let parent = &concern.parent;
    let index = parent.indexes.iter().find(|i| i.oid == concern.key.index);
    let index = index.ok_or_else(|| SqlError::internal("a foreign key without its index"))?;
    let mut rows = RowBatch::new();
    parent
        .table
        .index_lookup(snapshot, index.position, key, &mut rows)?;
    for at in 0..rows.len() {
        let row = RowHandle::known(snapshot, rows.tid(at));
        let (mode, policy) = (RowLockMode::KeyShare, WaitPolicy::Block);
        match parent.table.lock_row(txn, row, mode, policy).await? {
            Modified::Done(_) => return Ok(true),
            Modified::Changed { newest } => {
                // The lock is that of the newest version, whose key may be another.
                let version = parent.table.fetch_locked(newest)?;
                let mut bytes = Vec::new();
                if let Some(version) = version {
                    index.key.encode_row(&version.bytes, &mut bytes)?;
                }
                if bytes == key {
                    return Ok(true);
                }
            }
            Modified::SelfModified | Modified::Gone | Modified::Skipped => {}
        }
    }
    Ok(false)
}

fn values_of(table: &TableInfo, row: &[u8], columns: &[i16]) -> SqlResult<Vec<Datum>> {
    let positions = table.positions(columns).into_iter();
    let values = positions.map(|column| table.layout.get(row, column));
    Ok(values.collect::<Result<_, _>>()?)
}

fn types_of(table: &TableInfo, columns: &[i16]) -> Vec<SqlType> {
    let positions = table.positions(columns).into_iter();
    let types = positions.filter_map(|at| table.columns.get(at));
    types.map(|column| column.ty).collect()
}

/// `Key (a, b)=(1, 2)`
fn described(table: &TableInfo, columns: &[i16], values: &[Datum], cx: &TypeContext) -> String {
    let positions = table.positions(columns).into_iter();
    let columns = positions.filter_map(|at| table.columns.get(at));
    let shown = columns.zip(values).map(|(column, value)| {
        let value = match value {
            Datum::Null => "null".to_owned(),
            value => value.to_text(column.ty, cx),
        };
        (&*column.name, value)
    });
    let (names, values): (Vec<&str>, Vec<String>) = shown.unzip();
    format!("Key ({})=({})", names.join(", "), values.join(", "))
}

/// 23503 of a row that refers to none, by these values.
pub(super) fn orphan(
    key: &ForeignKeyInfo,
    (child, parent): (&TableInfo, &TableInfo),
    values: &[Datum],
    cx: &TypeContext,
) -> SqlError {
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        child.name, key.name
    );
    let error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message);
    let error = error
        .table(&*child.schema, &*child.name)
        .constraint(&*key.name);
    error.detail(match values.iter().any(Datum::is_null) {
        true => "MATCH FULL does not allow mixing of null and nonnull key values.".to_owned(),
        false => format!(
            "{} is not present in table \"{}\".",
            described(child, &key.columns, values, cx),
            parent.name
        ),
    })
}

/// 23503, or 23001 of RESTRICT, of a row that others refer to.
fn still_referenced(
    concern: &Concern,
    old: &[Datum],
    restrict: bool,
    cx: &TypeContext,
) -> SqlError {
    let (key, child, parent) = (&concern.key, &concern.child, &concern.parent);
    let key_text = described(parent, &key.referenced, old, cx);
    let (state, violates, is) = match restrict {
        true => (
            SqlState::RESTRICT_VIOLATION,
            "RESTRICT setting of foreign key",
            "is",
        ),
        false => (SqlState::FOREIGN_KEY_VIOLATION, "foreign key", "is still"),
    };
    let message = format!(
        "update or delete on table \"{}\" violates {violates} constraint \"{}\" on table \"{}\"",
        parent.name, key.name, child.name
    );
    let detail = format!("{key_text} {is} referenced from table \"{}\".", child.name);
    let error = SqlError::new(state, message).table(&*child.schema, &*child.name);
    error.constraint(&*key.name).detail(detail)
}
