//! Rows, keys and table definitions of the workload, and its catalog: a table like any other,
//! under known file numbers, whose rows name the files of the others.

use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::btree::BTree;
use evenkeel_engine::table::{IndexDef, KeyExtractor, KeyKind, TableDef};
use evenkeel_engine::{Config, Database, Durability, EngineResult, FileId, Isolation, block_on};
use evenkeel_io::Disk;
use evenkeel_storage::{StorageConfig, TornPageProtection};

use crate::model::Row;

pub const DIR: &str = "data";
pub const CATALOG_HEAP: FileId = FileId(100);
pub const CATALOG_INDEX: FileId = FileId(101);

/// Bytes that all keys of the unique index begin with: they cannot be cut short in inner pages,
/// so few rows make a deep tree.
const WIDE: usize = 400;
/// Bytes of a key in the other index.
const GROUP_WIDE: usize = 90;

/// The files of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    pub heap: FileId,
    pub unique: FileId,
    pub group: Option<FileId>,
}

impl Files {
    pub fn all(&self) -> impl Iterator<Item = FileId> {
        [Some(self.heap), Some(self.unique), self.group]
            .into_iter()
            .flatten()
    }

    /// The catalog's row for a table.
    pub fn encode(&self, table: u64) -> Vec<u8> {
        let group = self.group.map_or(0, |file| file.0);
        [table, self.heap.0, self.unique.0, group]
            .iter()
            .flat_map(|number| number.to_be_bytes())
            .collect()
    }

    pub fn decode(row: &[u8]) -> Option<(u64, Files)> {
        let number = |at: usize| {
            let bytes = row.get(at * 8..at * 8 + 8)?;
            Some(u64::from_be_bytes(bytes.try_into().ok()?))
        };
        let group = number(3)?;
        let files = Files {
            heap: FileId(number(1)?),
            unique: FileId(number(2)?),
            group: (group != 0).then_some(FileId(group)),
        };
        Some((number(0)?, files))
    }

    pub fn def(&self, table: u64) -> TableDef {
        let mut indexes = vec![IndexDef {
            file: self.unique,
            unique: true,
            name: "unique".into(),
            key: Arc::new(ByKey),
            usable_after: None,
            deferrable: false,
        }];
        indexes.extend(self.group.map(group_index));
        TableDef {
            id: table,
            heap: self.heap,
            fillfactor: if table.is_multiple_of(2) { 100 } else { 80 },
            indexes,
        }
    }
}

pub fn group_index(file: FileId) -> IndexDef {
    IndexDef {
        file,
        unique: false,
        name: "group".into(),
        key: Arc::new(ByGroup),
        usable_after: None,
        deferrable: false,
    }
}

/// A row is its key, 8 bytes, its group, 4, and what it carries.
pub fn encode_row(key: u64, row: &Row) -> Vec<u8> {
    let mut bytes = key.to_be_bytes().to_vec();
    bytes.extend_from_slice(&row.group.to_be_bytes());
    bytes.extend_from_slice(&row.body);
    bytes
}

pub fn decode_row(bytes: &[u8]) -> Option<(u64, Row)> {
    let key = u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
    let group = u32::from_be_bytes(bytes.get(8..12)?.try_into().ok()?);
    let body = Arc::from(bytes.get(12..)?);
    Some((key, Row { group, body }))
}

/// Whether the partial index has an entry for rows of this group.
pub fn in_group_index(group: u32) -> bool {
    group != 0
}

pub fn unique_key(key: u64) -> Vec<u8> {
    let mut out = vec![7; WIDE];
    out.extend_from_slice(&key.to_be_bytes());
    out
}

struct ByKey;

impl KeyExtractor for ByKey {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind> {
        out.resize(WIDE, 7);
        out.extend_from_slice(&row[..8]);
        Ok(KeyKind::Unique)
    }
}

/// Few groups, so many duplicates; one group is not in the index at all.
struct ByGroup;

impl KeyExtractor for ByGroup {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind> {
        let group = u32::from_be_bytes([row[8], row[9], row[10], row[11]]);
        if !in_group_index(group) {
            return Ok(KeyKind::Absent);
        }
        out.extend_from_slice(&row[8..12]);
        out.resize(GROUP_WIDE, 7);
        Ok(KeyKind::Unique)
    }
}

/// The catalog's key: the table's number.
struct FirstEight;

impl KeyExtractor for FirstEight {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> EngineResult<KeyKind> {
        out.extend_from_slice(&row[..8]);
        Ok(KeyKind::Unique)
    }
}

pub fn catalog_def() -> TableDef {
    TableDef {
        id: 1,
        heap: CATALOG_HEAP,
        fillfactor: 90,
        indexes: vec![IndexDef {
            file: CATALOG_INDEX,
            unique: true,
            name: "catalog".into(),
            key: Arc::new(FirstEight),
            usable_after: None,
            deferrable: false,
        }],
    }
}

/// Makes the empty catalog, in one transaction.
pub fn create_catalog(db: &Database) -> EngineResult<()> {
    let mut txn = db.begin(Isolation::ReadCommitted)?;
    txn.create_file_as(CATALOG_HEAP)?;
    txn.create_file_as(CATALOG_INDEX)?;
    BTree::create(db.store(), txn.xid()?, CATALOG_INDEX)?;
    block_on(txn.commit(Durability::Sync))
}

/// The settings of a run under one kind of protection against torn pages.
pub fn protected(torn_page_protection: TornPageProtection) -> StorageConfig {
    StorageConfig {
        torn_page_protection,
        ..small()
    }
}

/// Small enough that pages are written, segments recycled and checkpoints forced all the time.
pub fn small() -> StorageConfig {
    StorageConfig {
        shared_buffers: 40 * 8192,
        max_wal_size: 512 << 10,
        ..StorageConfig::small()
    }
}

pub fn open(disk: Arc<dyn Disk>, storage: StorageConfig) -> EngineResult<Database> {
    open_at(disk, Path::new(DIR), storage)
}

pub fn open_at(disk: Arc<dyn Disk>, dir: &Path, storage: StorageConfig) -> EngineResult<Database> {
    let config = Config {
        storage,
        track_commit_timestamp: true,
        ..Config::default()
    };
    Database::open(disk, dir, config)
}
