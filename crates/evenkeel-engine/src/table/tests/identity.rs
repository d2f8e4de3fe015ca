//! The log has the old versions of rows, or their keys, for tables that ask for it.

use evenkeel_storage::wal::dump;
use evenkeel_storage::{PartFlags, TornPageProtection};

use super::*;
use crate::heap::ops::{OLD_KEY, OLD_ROW, OP_MODIFY, OP_UPDATE};
use crate::table::ReplicaIdentity;

/// The operations on rows in the log, each with the record's payload and whether an image of the
/// page stands in front of its data.
fn changes(f: &Fixture) -> Vec<(u16, Vec<u8>, bool)> {
    f.db.store().log().flush_all().unwrap();
    let (_, mut reader) = dump::open(Arc::new(f.disk.clone()), Path::new(DIR)).unwrap();
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        for part in record.parts() {
            if [OP_MODIFY, OP_UPDATE].contains(&part.op) {
                let image = part.flags.contains(PartFlags::BEFORE);
                assert!(!part.flags.contains(PartFlags::IMAGE));
                all.push((part.op, record.payload().to_vec(), image));
            }
        }
    }
    all
}

/// Updates in place and to another page, with the key and without, and deletions.
fn work(f: &Fixture) {
    let wide = "w".repeat(3000);
    for n in 0..3 {
        f.put(&format!("{n}:{wide}"));
    }
    f.commit(|txn| {
        f.set(txn, "0:short");
    });
    f.commit(|txn| {
        let (tid, _) = f.find(txn, b"0").unwrap();
        f.update(txn, tid, "a:short").unwrap();
    });
    f.commit(|txn| {
        let row = format!("a:{}", "m".repeat(6000));
        f.set(txn, &row);
    });
    f.commit(|txn| {
        let (tid, _) = f.find(txn, b"1").unwrap();
        f.delete(txn, tid).unwrap();
    });
}

pub(super) fn logging(identity: ReplicaIdentity, protection: TornPageProtection) -> Fixture {
    let disk = SimDisk::new(1);
    let mut storage = StorageConfig::small();
    storage.shared_buffers = 1024 * 8192;
    storage.torn_page_protection = protection;
    let config = Config {
        storage,
        ..Config::default()
    };
    let db = Database::open(Arc::new(disk.clone()), Path::new(DIR), config).unwrap();
    let mut f = Fixture::on(&disk, db, 1, 100);
    let def = f.table.def().clone();
    f.table = Table::open_logging(&f.db, def, identity).unwrap();
    f
}

#[test]
fn the_log_has_as_much_of_old_rows_as_the_table_asks_for() {
    let wide = "w".repeat(3000);
    let rows = [
        (OP_UPDATE, format!("0:{wide}"), None),
        (OP_UPDATE, "0:short".to_owned(), Some("0")),
        (OP_MODIFY, "a:short".to_owned(), None),
        (OP_MODIFY, format!("1:{wide}"), Some("1")),
    ];
    for identity in [
        ReplicaIdentity::Nothing,
        ReplicaIdentity::Index(BY_KEY),
        ReplicaIdentity::Full,
    ] {
        let f = logging(identity, TornPageProtection::DoubleWrite);
        work(&f);
        let found = changes(&f);
        assert_eq!(found.len(), rows.len(), "{identity:?}");
        for ((op, payload, image), (expected, row, old_key)) in found.iter().zip(&rows) {
            let wanted = match (identity, old_key) {
                (ReplicaIdentity::Full, _) => [&[OLD_ROW], row.as_bytes()].concat(),
                (ReplicaIdentity::Index(_), Some(old)) => [&[OLD_KEY], &key(old)[..]].concat(),
                _ => Vec::new(),
            };
            assert_eq!(
                (op, payload, image),
                (expected, &wanted, &false),
                "{identity:?}"
            );
        }
        // And recovery takes it for what it is.
        let again = f.reopened(f.disk.crash(1));
        assert_eq!(again.committed(), f.committed());
    }
}

/// With full page writes the image of a page stands in front of the operation, which stays.
#[test]
fn an_image_keeps_the_rows_operation() {
    let f = logging(ReplicaIdentity::Full, TornPageProtection::FullPageWrites);
    f.put("0:first");
    f.db.checkpoint().unwrap();
    f.commit(|txn| {
        f.set(txn, "0:second");
    });
    f.commit(|txn| {
        f.set(txn, "0:third");
    });
    let old = |row: &str| [&[OLD_ROW], row.as_bytes()].concat();
    assert_eq!(
        changes(&f),
        [
            (OP_UPDATE, old("0:first"), true),
            (OP_UPDATE, old("0:second"), false)
        ]
    );
}
