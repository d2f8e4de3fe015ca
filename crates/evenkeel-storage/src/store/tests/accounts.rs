//! Which backend type is charged with which operations on the files.

use super::*;
use crate::stats::{BackendType, IoObject, IoStatsRow};

fn sum(store: &Store, who: BackendType, object: IoObject) -> IoStatsRow {
    let rows = store.pool().io_rows();
    let mut rows = rows
        .into_iter()
        .filter(|row| (row.backend_type, row.object) == (who, object));
    let first = rows.next().expect("every combination has a row");
    rows.fold(first, |mut sum, row| {
        sum.reads += row.reads;
        sum.writes += row.writes;
        sum.fsyncs += row.fsyncs;
        sum.hits += row.hits;
        sum
    })
}

/// No session writes a page, or flushes log to be rid of one, though the pool has a third of the
/// frames that the pages need; and redo leaves it to the cleaner as well.
#[test]
fn the_cleaner_writes_for_sessions_and_for_recovery() {
    let small = StorageConfig {
        shared_buffers: 32 * 8192,
        ..config()
    };
    let disk = SimDisk::new(60);
    let (store, _) = open_with(&disk, small.clone()).expect("opens");
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 600, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let client = |object| sum(&store, BackendType::ClientBackend, object);
    let pages = client(IoObject::Relation);
    assert_eq!(pages.writes, 0, "{pages:?}");
    assert!(pages.reads > 0, "{pages:?}");
    let log = client(IoObject::Wal);
    assert_eq!((log.writes, log.fsyncs), (0, 0), "{log:?}");
    let cleaner = sum(&store, BackendType::BackgroundWriter, IoObject::Relation);
    assert!(cleaner.writes > 0, "{cleaner:?}");
    let flusher = sum(&store, BackendType::WalWriter, IoObject::Wal);
    assert!(flusher.writes > 0 && flusher.fsyncs > 0, "{flusher:?}");

    let (store, _) = open_with(&disk.crash(3), small).expect("recovers");
    assert!(!store.recovery_stats().clean);
    store.wait_for_redo();
    let startup = sum(&store, BackendType::Startup, IoObject::Relation);
    let cleaner = sum(&store, BackendType::BackgroundWriter, IoObject::Relation);
    assert!(startup.reads > 0, "{startup:?}");
    assert!(cleaner.writes > 0, "{cleaner:?}");
    assert_steps(&store, 600, "recovered");
}
