//! Files that are gone with the process.

use super::*;
use crate::TornPageProtection;
use crate::stats::{BackendType, IoContext, IoObject};

/// A temporary file of as many pages as that of the counters.
fn set_up_temporary(store: &Store) -> StorageResult<Arc<ForkHandle>> {
    let file = store.create_temporary_file()?;
    let fork = store.pool().fork(file, Fork::Main)?;
    fork.extend(PAGES)?;
    init_pages(store, &fork, 0..PAGES)?;
    Ok(fork)
}

/// Adds 1 to a counter of every page.
fn add_everywhere(store: &Store, fork: &ForkHandle) -> StorageResult<()> {
    for block in 0..PAGES {
        store.admit()?;
        let mut page = fork.write(BlockNumber(block))?;
        let mut change = store.change(0);
        change.part(&mut page, ADD, PartFlags::NONE, &add_data(0, 1));
        change.commit();
    }
    Ok(())
}

fn assert_everywhere(fork: &ForkHandle, sum: u64) {
    for block in 0..PAGES {
        let page = fork.read(BlockNumber(block)).expect("whole");
        assert_eq!(page.u64_at(PAGE_HEADER_SIZE), sum, "block {block}");
    }
}

/// Also with full page images, which hints of other pages need, and with fewer frames than pages.
#[test]
fn temporary_files_cost_no_log_and_no_sync_and_are_gone_with_the_process() {
    for protection in [
        TornPageProtection::DoubleWrite,
        TornPageProtection::FullPageWrites,
    ] {
        let small = StorageConfig {
            shared_buffers: 32 * 8192,
            torn_page_protection: protection,
            ..config()
        };
        let disk = SimDisk::new(61);
        let (store, _) = open_with(&disk, small.clone()).expect("opens");
        set_up(&store).expect("set up");
        store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        let (log, syncs) = (
            store.log().insert_lsn(),
            store.pool().files().sync_table().stats().syncs,
        );
        let batches = || store.writer().stats().batches;
        let before = batches();

        let fork = set_up_temporary(&store).expect("made");
        for _ in 0..20 {
            add_everywhere(&store, &fork).expect("added");
        }
        assert_everywhere(&fork, 20);
        assert_eq!(store.log().insert_lsn(), log, "nothing is logged");
        assert!(batches() > before, "pages were written home for frames");
        let cleaner = store.io_stats().row(
            BackendType::BackgroundWriter,
            IoObject::DoubleWrite,
            IoContext::Normal,
        );
        let covered = cleaner.writes;
        add_everywhere(&store, &fork).expect("added");
        let cleaner = store.io_stats().row(
            BackendType::BackgroundWriter,
            IoObject::DoubleWrite,
            IoContext::Normal,
        );
        assert_eq!(cleaner.writes, covered, "nothing is protected");
        let pending = store.pool().files().sync_table().stats();
        assert_eq!((pending.syncs, pending.pending), (syncs, 0), "{pending:?}");
        // The redo point passes them though their frames are dirty.
        run(&store, &disk, 1, 60, 0).expect("steps");
        store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        assert!(store.control().redo > log, "{}", store.control().redo);
        assert_everywhere(&fork, 21);

        for disk in [disk.clone().crash(5), disk.process_crash()] {
            let (store, toy) = open_with(&disk, small.clone()).expect("opens");
            assert!(toy.created.lock().is_empty() && toy.dropped.lock().is_empty());
            let left = disk.list(&dir().join("temp")).expect("is there");
            assert_eq!(left, Vec::<String>::new(), "left behind");
            assert_steps(&store, 60, "recovered");
        }
    }
}

#[test]
fn a_dropped_temporary_file_is_gone_and_a_cut_one_shorter() {
    let disk = SimDisk::new(62);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    let fork = set_up_temporary(&store).expect("made");
    let (file, log) = (fork.file(), store.log().insert_lsn());
    store
        .truncate(file, Fork::Main, 3, NOTHING)
        .expect("is cut");
    assert_eq!(fork.len(), 3);
    store.drop_file(file, NOTHING).expect("is dropped");
    assert_eq!(store.log().insert_lsn(), log, "nothing is logged");
    let left = disk.list(&dir().join("temp")).expect("is there");
    assert_eq!(left, Vec::<String>::new());
}
