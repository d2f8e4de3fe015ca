//! redb: a copy-on-write B-tree in one file; one writer at a time.

use std::path::Path;

use redb::{Database, Durability, TableDefinition};

use crate::subject::{Key, Result, Row, Session, Store, Subject, locked};

pub const SUBJECT: Subject = Subject {
    name: "redb",
    version: || locked("redb"),
    durability: "Durability::Immediate: fdatasync of the file by every commit",
    settings: "cache_size = cache; no quick repair",
    open,
};

const ROWS: TableDefinition<'_, &Key, &[u8]> = TableDefinition::new("rows");

struct Redb(Database);

fn open(dir: &Path, cache: u64) -> Result<Box<dyn Store>> {
    std::fs::create_dir_all(dir)?;
    let mut builder = Database::builder();
    builder.set_cache_size(usize::try_from(cache)?);
    let db = builder.create(dir.join("rows.redb"))?;
    let txn = db.begin_write()?;
    txn.open_table(ROWS)?;
    txn.commit()?;
    Ok(Box::new(Redb(db)))
}

impl Store for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession(&self.0)))
    }

    /// `Database::compact` needs the database for itself.
    fn checkpoint(&self) -> Result<bool> {
        Ok(false)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}

struct RedbSession<'a>(&'a Database);

impl Session for RedbSession<'_> {
    fn put(&mut self, rows: &[Row]) -> Result<()> {
        let mut txn = self.0.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        {
            let mut table = txn.open_table(ROWS)?;
            for row in rows {
                table.insert(&row.key, row.value.as_slice())?;
            }
        }
        Ok(txn.commit()?)
    }

    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        use redb::ReadableDatabase;
        let table = self.0.begin_read()?.open_table(ROWS)?;
        let Some(value) = table.get(key)? else {
            return Ok(false);
        };
        found(value.value());
        Ok(true)
    }
}
