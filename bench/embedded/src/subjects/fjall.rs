//! fjall: a log-structured merge tree.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::subject::{Key, Result, Row, Session, Store, Subject, locked};

pub const SUBJECT: Subject = Subject {
    name: "fjall",
    version: || locked("fjall"),
    durability: "PersistMode::SyncData: fdatasync of the journal by every commit",
    settings: "cache_size = cache",
    open,
};

struct Fjall {
    db: Database,
    rows: Keyspace,
}

fn open(dir: &Path, cache: u64) -> Result<Box<dyn Store>> {
    let db = Database::builder(dir).cache_size(cache).open()?;
    let rows = db.keyspace("rows", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { db, rows }))
}

impl Store for Fjall {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(FjallSession(self)))
    }

    fn checkpoint(&self) -> Result<bool> {
        self.rows.rotate_memtable_and_wait()?;
        self.rows.major_compact()?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncData)?)
    }
}

struct FjallSession<'a>(&'a Fjall);

impl Session for FjallSession<'_> {
    fn put(&mut self, rows: &[Row]) -> Result<()> {
        let mut batch = self.0.db.batch().durability(Some(PersistMode::SyncData));
        for row in rows {
            batch.insert(&self.0.rows, row.key, row.value);
        }
        Ok(batch.commit()?)
    }

    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(value) = self.0.rows.get(key)? else {
            return Ok(false);
        };
        found(&value);
        Ok(true)
    }
}
