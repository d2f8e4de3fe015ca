//! RocksDB: a log-structured merge tree; commits that wait share a sync.

use std::path::Path;

use rocksdb::{BlockBasedOptions, Cache, DB, Options, WriteBatch, WriteOptions};

use crate::subject::{Key, Result, Row, Session, Store, Subject, locked};

pub const SUBJECT: Subject = Subject {
    name: "rocksdb",
    version: library_version,
    durability: "WriteOptions::sync: fdatasync of the log, shared by the commits that wait",
    settings: "block cache = cache; bloom filters of 10 bits; no compression",
    open,
};

/// The number in the name of the shared library that this process has mapped.
fn library_version() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let path = maps
        .lines()
        .find_map(|line| line.split("librocksdb.so.").nth(1));
    path.map_or_else(|| format!("{} (crate)", locked("rocksdb")), str::to_owned)
}

struct Rocks {
    db: DB,
    write: WriteOptions,
}

fn open(dir: &Path, cache: u64) -> Result<Box<dyn Store>> {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(usize::try_from(cache)?)?);
    blocks.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(rocksdb::DBCompressionType::None);
    options.set_block_based_table_factory(&blocks);
    let mut write = WriteOptions::default();
    write.set_sync(true);
    let db = DB::open(&options, dir)?;
    Ok(Box::new(Rocks { db, write }))
}

impl Store for Rocks {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RocksSession(self)))
    }

    fn checkpoint(&self) -> Result<bool> {
        self.db.flush()?;
        self.db.compact_range::<&[u8], &[u8]>(None, None);
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

struct RocksSession<'a>(&'a Rocks);

impl Session for RocksSession<'_> {
    fn put(&mut self, rows: &[Row]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for row in rows {
            batch.put(row.key, row.value);
        }
        Ok(self.0.db.write_opt(batch, &self.0.write)?)
    }

    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(value) = self.0.db.get_pinned(key)? else {
            return Ok(false);
        };
        found(&value);
        Ok(true)
    }
}
