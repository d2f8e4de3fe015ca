//! SQLite: a B-tree with a write-ahead log; one writer at a time.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use crate::subject::{Key, Result, Row, Session, Store, Subject};

pub const SUBJECT: Subject = Subject {
    name: "sqlite",
    version: || rusqlite::version().to_owned(),
    durability: "journal_mode = WAL, synchronous = FULL: fdatasync of the log by every commit",
    settings: "cache_size = cache; a connection a thread; writers queue on a mutex",
    open,
};

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS rows
    (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";
const PUT: &str = "INSERT INTO rows VALUES (?1, ?2)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value";
const GET: &str = "SELECT value FROM rows WHERE key = ?1";
/// Longest wait for the checkpoint, which excludes writers in its last step.
const BUSY: Duration = Duration::from_secs(60);

struct Sqlite {
    path: PathBuf,
    cache: u64,
    /// Writers queue here: SQLite's own busy handler sleeps and tries again, which would show
    /// the sleeps and not the engine.
    writer: Mutex<()>,
    /// Kept so that the last session to end does not close the database, which checkpoints.
    keeper: Mutex<Connection>,
}

fn open(dir: &Path, cache: u64) -> Result<Box<dyn Store>> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join("rows.sqlite");
    let keeper = connect(&path, cache)?;
    keeper.execute_batch(SCHEMA)?;
    Ok(Box::new(Sqlite {
        path,
        cache,
        writer: Mutex::new(()),
        keeper: Mutex::new(keeper),
    }))
}

fn connect(path: &Path, cache: u64) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A negative size is in KiB.
    connection.pragma_update(None, "cache_size", -i64::try_from(cache >> 10)?)?;
    Ok(connection)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Sqlite {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(SqliteSession {
            store: self,
            connection: connect(&self.path, self.cache)?,
        }))
    }

    fn checkpoint(&self) -> Result<bool> {
        locked(&self.keeper).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let keeper = self.keeper.into_inner();
        let keeper = keeper.unwrap_or_else(PoisonError::into_inner);
        keeper.close().map_err(|(_, error)| error.into())
    }
}

struct SqliteSession<'a> {
    store: &'a Sqlite,
    connection: Connection,
}

impl Session for SqliteSession<'_> {
    fn put(&mut self, rows: &[Row]) -> Result<()> {
        let _turn = locked(&self.store.writer);
        let behavior = rusqlite::TransactionBehavior::Immediate;
        let txn = self.connection.transaction_with_behavior(behavior)?;
        {
            let mut put = txn.prepare_cached(PUT)?;
            for row in rows {
                put.execute(params![row.key, row.value])?;
            }
        }
        Ok(txn.commit()?)
    }

    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut get = self.connection.prepare_cached(GET)?;
        let shown = get.query_row([key], |row| {
            found(row.get_ref(0)?.as_blob()?);
            Ok(())
        });
        Ok(shown.optional()?.is_some())
    }
}
