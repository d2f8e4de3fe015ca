//! The databases of an instance: their rows in `pg_database`, their catalogs, and the seats of the
//! sessions in them.
//!
//! Entry points: [`Databases::open`], [`Databases::enter`], [`Databases::list`], and the changes in
//! `change.rs` ([`Databases::create`], …). The rules are in the README beside this file.

mod change;
mod info;
mod seats;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_engine::table::Table;
use evenkeel_engine::{Database, Durability, FileId, Isolation, Tid, Transaction, block_on};
use parking_lot::Mutex;

use crate::catalog::{Catalog, CatalogFiles, Oid, Oids, SystemTable, SystemTables};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, SqlType};

pub use change::{DatabaseChange, NewDatabase, SettingChange};
pub use info::DatabaseInfo;
use seats::Shared;
pub use seats::{Closed, Seat};

/// Oid of `pg_database`, and its file, which all databases share.
const DATABASES: Oid = 1262;

/// The databases of an instance.
pub struct Databases {
    db: Database,
    table: SystemTable,
    oids: Arc<Oids>,
    shared: Arc<Shared>,
    /// The rows that open transactions have written, the newest of a database last. Each is locked
    /// by its transaction, which finds its own changes here.
    pending: Arc<Mutex<Vec<Arc<DatabaseInfo>>>>,
    /// The catalogs that have been read. Locked while one is read, so that none is read twice.
    open: Mutex<BTreeMap<Oid, Arc<Catalog>>>,
}

impl Databases {
    /// Reads `pg_database`, and the catalog of every database that has one.
    ///
    /// # Errors
    /// Those of the engine; XX001 for rows that make no sense.
    pub fn open(db: &Database) -> SqlResult<Arc<Databases>> {
        use SqlType::{Bool, Int4, Name, Oid, Text};
        let place = (u64::from(DATABASES), FileId(u64::from(DATABASES)));
        let columns = [Oid, Name, Bool, Bool, Int4, Text, SqlType::TEXT_ARRAY, Text];
        let table = SystemTable::open(db, place, &columns)?;
        let mut txn = db.begin(Isolation::RepeatableRead)?;
        txn.begin_statement()?;
        let rows = table.read(&mut txn)?;
        txn.rollback();
        let oids = Arc::new(Oids::default());
        let shared = Shared::default();
        for info in info::builtin() {
            shared.put(info);
        }
        for (place, values) in rows {
            let (oid, info) = info::read(place, values)?;
            oids.pass(oid.saturating_add(1));
            match info {
                Some(info) => shared.put(info),
                None => shared.remove(oid),
            }
        }
        let databases = Arc::new(Databases {
            db: db.clone(),
            table,
            oids,
            shared: Arc::new(shared),
            pending: Arc::default(),
            open: Mutex::default(),
        });
        // All of them: each may have given out the greatest oid, and each has to be vacuumed.
        databases.catalogs()?;
        Ok(databases)
    }

    /// The engine below.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// The name of a database; none of one that is gone.
    pub fn name_of(&self, oid: Oid) -> Arc<str> {
        let info = self.shared.info(oid);
        info.map_or_else(|| Arc::from(""), |info| Arc::clone(&info.name))
    }

    /// Whether a database has not been dropped.
    pub fn is_there(&self, oid: Oid) -> bool {
        self.shared.info(oid).is_some()
    }

    /// All databases, by oid.
    pub fn list(&self) -> Vec<Arc<DatabaseInfo>> {
        self.shared.list()
    }

    /// The database of this name.
    pub fn named(&self, name: &str) -> Option<Arc<DatabaseInfo>> {
        self.list().into_iter().find(|info| &*info.name == name)
    }

    /// The database of this name.
    ///
    /// # Errors
    /// 3D000
    pub fn expect(&self, name: &str) -> SqlResult<Arc<DatabaseInfo>> {
        self.named(name).ok_or_else(|| unknown_database(name))
    }

    /// The catalogs of all databases that have one: a template that nobody has been connected to
    /// has none.
    ///
    /// # Errors
    /// Those of the engine: one that has just been made is read.
    pub fn catalogs(&self) -> SqlResult<Vec<Arc<Catalog>>> {
        self.open.lock().retain(|oid, _| self.is_there(*oid));
        let made = self.list().into_iter().filter(|info| info.files.is_made());
        let mut catalogs = Vec::new();
        for info in made {
            match self.catalog(info.oid) {
                // Dropped meanwhile.
                Err(_) if !self.is_there(info.oid) => {}
                catalog => catalogs.push(catalog?),
            }
        }
        Ok(catalogs)
    }

    /// The catalog of a database, read if nobody has read it yet, and made if there is none.
    ///
    /// # Errors
    /// 3D000 if it is gone; those of the engine.
    pub fn catalog(&self, oid: Oid) -> SqlResult<Arc<Catalog>> {
        let mut open = self.open.lock();
        if let Some(catalog) = open.get(&oid) {
            return Ok(Arc::clone(catalog));
        }
        let info = self.shared.info(oid).ok_or_else(|| {
            let message = format!("database {oid} does not exist");
            SqlError::new(SqlState::INVALID_CATALOG_NAME, message)
        })?;
        let whole = self.whole_catalog(&info)?;
        let catalog = Catalog::read(&self.db, whole, &self.oids)?;
        open.insert(oid, Arc::clone(&catalog));
        Ok(catalog)
    }

    /// The files and tables of a catalog, once those are made that it lacks: all of a template that
    /// nobody has been connected to, and those that the database was made without.
    fn whole_catalog(&self, info: &Arc<DatabaseInfo>) -> SqlResult<(CatalogFiles, SystemTables)> {
        let mut files = info.files.clone();
        let mut txn = self.db.begin(Isolation::ReadCommitted)?;
        let tables = Catalog::make_tables(&self.db, &mut txn, &mut files)?;
        if files == info.files {
            txn.rollback();
            return Ok((files, tables));
        }
        let mut whole = DatabaseInfo::clone(info);
        whole.files = files.clone();
        block_on(self.replace(&mut txn, info, whole))?;
        block_on(txn.commit(Durability::Sync))?;
        Ok((files, tables))
    }

    /// Takes a seat in a database, which keeps it from being dropped.
    ///
    /// # Errors
    /// 3D000, 55000 if it accepts no connections, 55006 while it is dropped or copied.
    pub fn enter(&self, name: &str) -> SqlResult<Seat> {
        let info = self.expect(name)?;
        if !info.allows_connections {
            let message = format!("database \"{name}\" is not currently accepting connections");
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            return Err(SqlError::new(state, message));
        }
        let seat = self.seat(info.oid);
        seat.map_err(|error| match self.is_there(info.oid) {
            true => error,
            false => unknown_database(name),
        })
    }

    /// Takes a seat whether or not the database accepts connections.
    ///
    /// # Errors
    /// 3D000, 55006
    pub fn seat(&self, oid: Oid) -> SqlResult<Seat> {
        Shared::enter(&self.shared, oid)
    }

    /// `pg_database` itself, for vacuum and checks.
    pub fn table(&self) -> &Arc<Table> {
        &self.table.table
    }

    /// Writes another row for a database. It counts for all when the transaction commits.
    async fn replace(
        &self,
        txn: &mut Transaction,
        old: &DatabaseInfo,
        mut new: DatabaseInfo,
    ) -> SqlResult<()> {
        self.remove_row(txn, old.place).await?;
        new.place = Some(self.table.insert(txn, &new.row()).await?);
        let new = Arc::new(new);
        self.pending.lock().push(Arc::clone(&new));
        let ends = |new: &Arc<DatabaseInfo>| {
            let (pending, new) = (Arc::clone(&self.pending), Arc::clone(new));
            move || pending.lock().retain(|known| !Arc::ptr_eq(known, &new))
        };
        txn.on_abort(Box::new(ends(&new)));
        let (end, shared) = (ends(&new), Arc::clone(&self.shared));
        txn.on_commit(Box::new(move || {
            end();
            shared.put(DatabaseInfo::clone(&new));
        }));
        Ok(())
    }

    /// A database as the transaction that has locked its name sees it.
    fn locked(&self, name: &str) -> SqlResult<Arc<DatabaseInfo>> {
        let known = self.expect(name)?;
        let pending = self.pending.lock();
        let newest = pending.iter().rfind(|info| info.oid == known.oid);
        Ok(newest.map_or(known, Arc::clone))
    }

    /// The comment on a database, of which `own` is the one in its catalog.
    pub fn comment(info: &DatabaseInfo, own: Option<Arc<str>>) -> Option<Arc<str>> {
        let comment = info.comment.clone().or(own);
        comment.filter(|comment| !comment.is_empty())
    }

    async fn remove_row(&self, txn: &mut Transaction, place: Option<Tid>) -> SqlResult<()> {
        match place {
            Some(place) => self.table.delete(txn, place).await,
            None => Ok(()),
        }
    }

    /// Hides a database that every new instance has.
    async fn hide(&self, txn: &mut Transaction, oid: Oid) -> SqlResult<()> {
        let row = info::hidden_row(oid);
        self.table.insert(txn, &row).await.map(drop)
    }
}

/// 3D000
fn unknown_database(name: &str) -> SqlError {
    let message = format!("database \"{name}\" does not exist");
    SqlError::new(SqlState::INVALID_CATALOG_NAME, message)
}
