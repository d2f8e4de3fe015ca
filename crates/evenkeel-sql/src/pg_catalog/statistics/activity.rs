//! Sessions, what they wait for, and locks.

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_engine::{FileId, LockInfo, LockKey, WaitOn};

use super::moment;
use crate::catalog::oid_of;
use crate::error::SqlResult;
use crate::instance::{Backend, Client, Instance, Occupation};
use crate::pg_catalog::rows::{Cell, Rows, flag, number, oid, text, xid};
use crate::pg_catalog::view::{CatalogView, OWNER};
use crate::types::Datum;

/// `pg_stat_activity`
pub fn activity(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(instance) = &snapshot.instance else {
        return Ok(());
    };
    let waits: HashMap<u64, WaitOn> = instance
        .database()
        .waits()
        .into_iter()
        .map(|wait| (wait.transaction, wait.on))
        .collect();
    for backend in instance.backends().list() {
        rows.push(backend_cells(snapshot, &backend, &waits))?;
    }
    Ok(())
}

fn backend_cells(
    snapshot: &CatalogView,
    backend: &Backend,
    waits: &HashMap<u64, WaitOn>,
) -> Vec<Cell> {
    let activity = backend.activity();
    let transaction = backend.transaction();
    let waits_for = transaction
        .as_ref()
        .and_then(|open| waits.get(&open.number));
    let (wait_type, wait) = match (activity.occupation, waits_for) {
        (Occupation::Active, Some(on)) => (text("Lock"), text(wait_name(on))),
        (Occupation::Active, None) => (Datum::Null, Datum::Null),
        _ => (text("Client"), text("ClientRead")),
    };
    // The statement that asks may be about to begin its transaction.
    let begun = (backend.pid == snapshot.backend_pid).then_some(snapshot.statement_ts);
    let start = transaction.as_ref().map(|open| open.start).or(begun);
    let own = transaction.as_ref().and_then(|open| open.ids.top());
    let mut cells = vec![
        ("datid", oid(backend.database_oid)),
        ("datname", text(&backend.database)),
        ("pid", number(backend.pid)),
        ("usesysid", oid(OWNER)),
        ("usename", text(&backend.user)),
        ("application_name", text(&*backend.application())),
        ("backend_start", moment(Some(backend.started))),
        ("xact_start", moment(start)),
        ("query_start", moment(activity.query_start)),
        ("state_change", moment(Some(activity.state_change))),
        ("wait_event_type", wait_type),
        ("wait_event", wait),
        ("state", text(activity.occupation.name())),
        ("backend_xid", own.map_or(Datum::Null, |own| xid(own.get()))),
        ("query", text(activity.query())),
        ("backend_type", text("client backend")),
    ];
    match backend.client {
        Client::Embedded => {}
        // As PostgreSQL shows a Unix socket.
        Client::Local => cells.push(("client_port", number(-1))),
        Client::Tcp(address) => cells.extend([
            ("client_addr", text(address.ip().to_string())),
            ("client_port", number(address.port())),
        ]),
    }
    cells
}

/// PostgreSQL's name of a wait for a lock.
fn wait_name(on: &WaitOn) -> &'static str {
    match on {
        WaitOn::Transaction(_) => "transactionid",
        WaitOn::Lock(key) => lock_type(key),
    }
}

fn lock_type(key: &LockKey) -> &'static str {
    match key {
        LockKey::Table(_) => "relation",
        LockKey::Row(..) | LockKey::Turn(..) => "tuple",
        LockKey::Advisory(..) => "advisory",
    }
}

/// `pg_locks`: table, row and advisory locks, and the ids of transactions, which every
/// transaction that has one holds.
pub fn locks(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(instance) = &snapshot.instance else {
        return Ok(());
    };
    let owners = owners(instance);
    let relations = heaps(snapshot);
    let db = instance.database();
    let holders = holders(instance);
    for lock in db.locks() {
        rows.push(lock_cells(&lock, &holders, &relations))?;
    }
    for (transaction, backend) in &owners {
        if let Some(xid) = backend.transaction().and_then(|open| open.ids.top()) {
            rows.push(id_cells(xid.get(), *transaction, &owners, true))?;
        }
    }
    for wait in db.waits() {
        if let WaitOn::Transaction(xid) = wait.on {
            rows.push(id_cells(xid.get(), wait.transaction, &owners, false))?;
        }
    }
    Ok(())
}

/// Sessions by the numbers under which the lock table has what they hold: their transactions', and
/// their own for advisory locks.
fn holders(instance: &Instance) -> HashMap<u64, Arc<Backend>> {
    let mut holders = owners(instance);
    for backend in instance.backends().list() {
        holders.insert(backend.advisory, backend);
    }
    holders
}

/// Sessions by the numbers of their transactions.
fn owners(instance: &Instance) -> HashMap<u64, Arc<Backend>> {
    let open = instance.backends().list().into_iter();
    open.filter_map(|backend| Some((backend.transaction()?.number, backend)))
        .collect()
}

/// Tables by the file that row locks name.
fn heaps(snapshot: &CatalogView) -> HashMap<FileId, u32> {
    let tables = snapshot.catalog.iter().flat_map(|state| state.tables());
    tables.map(|table| (table.heap, table.oid)).collect()
}

fn lock_cells(
    lock: &LockInfo,
    owners: &HashMap<u64, Arc<Backend>>,
    relations: &HashMap<FileId, u32>,
) -> Vec<Cell> {
    let mut cells = held_cells(lock.transaction, owners, lock.granted);
    cells.push(("locktype", text(lock_type(&lock.key))));
    cells.push(("mode", text(lock.mode)));
    let database = owners
        .get(&lock.transaction)
        .map(|holder| holder.database_oid);
    cells.push(("database", database.map_or(Datum::Null, oid)));
    match lock.key {
        LockKey::Table(table) => {
            cells.push(("relation", oid(relation_of(table))));
        }
        LockKey::Row(file, tid, _) | LockKey::Turn(file, tid, _) => {
            let table = relations.get(&file).copied();
            cells.push(("relation", table.map_or(Datum::Null, oid)));
            cells.push(("page", number(tid.block.0)));
            cells.push(("tuple", number(tid.slot)));
        }
        LockKey::Advisory(_, key, pair) => {
            // A key of 64 bits shows as its halves, as in PostgreSQL.
            cells.push(("classid", oid((key >> 32) as u32)));
            cells.push(("objid", oid(key as u32)));
            cells.push(("objsubid", number(if pair { 2 } else { 1 })));
        }
    }
    cells
}

/// The relation of a lock; none of that of a name or a schema.
fn relation_of(lock: u64) -> u32 {
    const NO_RELATION: u64 = 3 << 62;
    match lock & NO_RELATION {
        0 => oid_of(lock),
        _ => 0,
    }
}

fn id_cells(
    id: u64,
    transaction: u64,
    owners: &HashMap<u64, Arc<Backend>>,
    granted: bool,
) -> Vec<Cell> {
    let mut cells = held_cells(transaction, owners, granted);
    cells.push(("locktype", text("transactionid")));
    cells.push(("transactionid", xid(id)));
    let mode = if granted {
        "ExclusiveLock"
    } else {
        "ShareLock"
    };
    cells.push(("mode", text(mode)));
    cells
}

fn held_cells(transaction: u64, owners: &HashMap<u64, Arc<Backend>>, granted: bool) -> Vec<Cell> {
    let pid = owners.get(&transaction).map(|backend| backend.pid);
    vec![
        ("virtualtransaction", text(format!("1/{transaction}"))),
        ("pid", pid.map_or(Datum::Null, number)),
        ("granted", flag(granted)),
        ("fastpath", flag(false)),
    ]
}

/// `pg_stat_ssl`: no connection is encrypted.
pub fn encryption(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for_each_backend(snapshot, rows, &["ssl"])
}

/// `pg_stat_gssapi`
pub fn gssapi(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let flags = ["gss_authenticated", "encrypted", "credentials_delegated"];
    for_each_backend(snapshot, rows, &flags)
}

fn for_each_backend(
    snapshot: &CatalogView,
    rows: &mut Rows,
    unset: &[&'static str],
) -> SqlResult<()> {
    let Some(instance) = &snapshot.instance else {
        return Ok(());
    };
    for backend in instance.backends().list() {
        let flags = unset.iter().map(|name| (*name, flag(false)));
        rows.push(flags.chain([("pid", number(backend.pid))]))?;
    }
    Ok(())
}
