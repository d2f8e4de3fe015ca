//! The files of a database's catalog.

use std::collections::BTreeMap;

use evenkeel_engine::{FileId, Transaction};

use super::fields::damaged;
use super::{DATABASE_OID, Oid};
use crate::error::SqlResult;

/// Where the tables of a database's catalog are. Those of the first database have fixed files,
/// those of every other one files that `pg_database` lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogFiles {
    database: Oid,
    /// By the oid of the table; of the first database none.
    files: BTreeMap<Oid, FileId>,
}

impl CatalogFiles {
    /// Of a database that has no file yet, or of the first one.
    pub fn new(database: Oid) -> CatalogFiles {
        let files = BTreeMap::new();
        CatalogFiles { database, files }
    }

    /// The database's oid.
    pub fn database(&self) -> Oid {
        self.database
    }

    /// Whether there is a catalog to be read.
    pub fn is_made(&self) -> bool {
        self.database == DATABASE_OID || !self.files.is_empty()
    }

    /// The number under which locks and counters have a relation of the database.
    pub fn table_id(&self, table: Oid) -> u64 {
        table_id(self.database, table)
    }

    /// The file of a table, if it has one.
    fn of(&self, table: Oid) -> Option<FileId> {
        match self.database {
            DATABASE_OID => Some(FileId(u64::from(table))),
            _ => self.files.get(&table).copied(),
        }
    }

    /// The file of a table; a new one if it has none, which is that transaction's until it commits.
    ///
    /// # Errors
    /// The engine's.
    pub fn of_or_new(&mut self, table: Oid, txn: &mut Transaction) -> SqlResult<FileId> {
        if let Some(file) = self.of(table) {
            return Ok(file);
        }
        let file = txn.create_file()?;
        self.files.insert(table, file);
        Ok(file)
    }

    /// All that are listed.
    pub fn listed(&self) -> impl Iterator<Item = FileId> {
        self.files.values().copied()
    }

    /// As `pg_database` has them: `oid:file`, separated by spaces.
    pub fn text(&self) -> String {
        let one = |(oid, file): (&Oid, &FileId)| format!("{oid}:{}", file.0);
        self.files.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// Reads that text.
    ///
    /// # Errors
    /// XX001
    pub fn parse(database: Oid, text: &str) -> SqlResult<CatalogFiles> {
        let one = |word: &str| {
            let (oid, file) = word.split_once(':')?;
            Some((oid.parse().ok()?, FileId(file.parse().ok()?)))
        };
        let files: Option<_> = text.split_whitespace().map(one).collect();
        let files = files.ok_or_else(|| damaged("pg_database"))?;
        Ok(CatalogFiles { database, files })
    }
}

/// The bits of a relation's number that are its oid.
const OID: u64 = 0xffff_ffff;

/// The number under which locks and counters have a relation: two databases may have relations of
/// one oid, when one is a copy of the other.
pub fn table_id(database: Oid, relation: Oid) -> u64 {
    match database {
        DATABASE_OID => u64::from(relation),
        other => u64::from(other) << 32 | u64::from(relation),
    }
}

/// The oid of the relation that has this number.
pub fn oid_of(table_id: u64) -> Oid {
    (table_id & OID) as Oid
}

/// The number of another relation of the same database.
pub(super) fn id_beside(table_id: u64, relation: Oid) -> u64 {
    table_id & !OID | u64::from(relation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_files_are_read_back() {
        let files = CatalogFiles::parse(16_400, "1249:20001 1259:20002").unwrap();
        assert_eq!(files.of(1259), Some(FileId(20_002)));
        assert_eq!(files.of(2610), None);
        assert_eq!(CatalogFiles::parse(16_400, &files.text()).unwrap(), files);
        for damaged in ["1259", "1259:", "x:1", "1259:1:2"] {
            assert!(CatalogFiles::parse(16_400, damaged).is_err(), "{damaged}");
        }
    }

    #[test]
    fn catalogs_of_two_databases_share_no_lock() {
        let (one, other) = (CatalogFiles::new(DATABASE_OID), CatalogFiles::new(16_400));
        assert_eq!(one.table_id(1259), 1259);
        assert_ne!(one.table_id(1259), other.table_id(1259));
        assert!(other.table_id(1259) < 1 << 62);
        assert_eq!(oid_of(other.table_id(1259)), 1259);
    }
}
