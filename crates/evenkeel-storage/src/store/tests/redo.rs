//! Redo of each page by itself, while the database is open.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use evenkeel_io::{LatencyMode, LatencyModel};

use super::crash::check_recovered;
use super::*;
use crate::config::{RecoveryOpen, TornPageProtection};
use crate::ids::PageId;
use crate::mutant::Mutant;
use crate::page::{CHECKSUM_OFFSET, PAGE_SIZE, PageBuf};
use crate::resource_manager::apply_part;
use crate::wal::reader::LogReader;

/// Large enough that no page is written but by a checkpoint.
pub(super) fn large() -> StorageConfig {
    StorageConfig {
        shared_buffers: 4 << 20,
        ..config()
    }
}

/// Nobody redoes pages but who needs them.
fn idle() -> StorageConfig {
    StorageConfig {
        redo_waits: true,
        ..large()
    }
}

/// A crash after so many steps, of which the pages have those up to a checkpoint.
pub(super) fn crashed(seed: u64, steps: u64) -> SimDisk {
    crashed_with(seed, steps, large())
}

fn crashed_with(seed: u64, steps: u64, config: StorageConfig) -> SimDisk {
    let disk = SimDisk::new(seed);
    let (store, _) = open_with(&disk, config).expect("opens");
    set_up(&store).expect("set up");
    run(&store, &disk, 1, steps / 3, 0).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, &disk, steps / 3 + 1, steps, 0).expect("steps");
    store.log().flush_all().expect("flush");
    disk.crash(seed)
}

#[test]
fn a_page_is_complete_whoever_loads_it_first() {
    let disk = crashed(31, 300);
    // A copy: once all pages are done a checkpoint may leave nothing to do for the next start.
    let copy = disk.process_crash();
    let (store, _) = open_with(&copy, idle()).expect("opens");
    let fork = counters(&store);
    // Reading ahead leaves such pages alone.
    fork.prefetch(0..PAGES);
    let begun = store.recovery_stats();
    assert!(!begun.is_done);
    assert_eq!((begun.pages, begun.pages_done), (u64::from(PAGES), 0));
    for block in 0..PAGES {
        drop(fork.pin(BlockNumber(block)).expect("whole"));
        assert_eq!(store.recovery_stats().pages_done, u64::from(block) + 1);
    }
    assert_steps(&store, 300, "on demand");
    // A page that somebody would initialise is complete as well.
    drop(store);
    let (store, _) = open_with(&disk, idle()).expect("opens");
    let fork = counters(&store);
    assert_eq!(store.recovery_stats().pages, u64::from(PAGES));
    for block in 0..PAGES {
        drop(fork.pin_new(BlockNumber(block)).expect("whole"));
    }
    assert_steps(&store, 300, "for new content");
    store.shutdown().expect("shuts down");
    assert!(store.recovery_stats().is_done);
    drop(store);
    let (store, _) = open_with(&disk, idle()).expect("opens");
    assert!(store.recovery_stats().clean && store.recovery_stats().is_done);
    assert_steps(&store, 300, "after a clean end");
}

#[test]
fn what_is_cut_off_while_redo_goes_on_stays_away() {
    let disk = crashed(32, 300);
    let (store, _) = open_with(&disk, idle()).expect("opens");
    store
        .truncate(COUNTERS, Fork::Main, 40, NOTHING)
        .expect("cut");
    let fork = counters(&store);
    fork.extend(PAGES - 40).expect("room");
    for block in 40..PAGES {
        let page = fork.read(BlockNumber(block)).expect("new");
        assert_eq!((page.lsn(), page.kind()), (Lsn::ZERO, 0), "block {block}");
    }
    assert_eq!(store.recovery_stats().pages_done, u64::from(PAGES - 40));
    store.drop_file(COUNTERS, NOTHING).expect("dropped");
    store.shutdown().expect("shuts down");
    let stats = store.recovery_stats();
    assert!(stats.is_done && stats.applied == 0, "{stats:?}");
}

/// Steps and checkpoints on a database whose redo goes on. Returns how many steps there are.
fn go_on(store: &Store) -> u64 {
    let done = steps_done(store).expect("steps");
    let fork = counters(store);
    for n in done + 1..=done + 6 {
        step(store, &fork, n).expect("step");
        if n.is_multiple_of(3) {
            store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        }
    }
    store.log().flush_all().expect("flush");
    done + 6
}

#[test]
fn a_crash_while_redo_goes_on_loses_nothing() {
    let seed = 33;
    let disk = crashed(seed, 200);
    let before = disk.op_count();
    let (store, _) = open_with(&disk, idle()).expect("opens");
    let steps = go_on(&store);
    assert!(!store.recovery_stats().is_done);
    let end = disk.op_count();
    check_recovered(&disk.crash(1), steps, "at the end");
    drop(store);
    let mut series = disk.images(seed).step(((end - before) / 60).max(1));
    series.seek(before);
    for image in series {
        check_recovered(&image.disk, 200, &image_name(&image));
    }
}

/// REC-14: the mutants that the rule is there for.
#[test]
fn a_redo_point_that_passes_what_is_owed_loses_changes() {
    let loses = |mutant| {
        let disk = crashed(34, 200);
        let config = StorageConfig { mutant, ..idle() };
        let (store, _) = open_with(&disk, config).expect("opens");
        let steps = go_on(&store);
        let image = disk.crash(2);
        drop(store);
        catch_unwind(AssertUnwindSafe(|| {
            check_recovered(&image, steps, "mutant");
        }))
        .is_err()
    };
    assert!(!loses(None));
    assert!(loses(Some(Mutant::PassOwedPage)));
}

/// REC-14: a page that is owed nothing any more before it is dirty.
#[test]
fn a_page_forgotten_before_it_is_dirty_is_lost() {
    let loses = |mutant| {
        let disk = crashed(35, 200);
        let config = StorageConfig { mutant, ..idle() };
        let (store, _) = open_with(&disk, config).expect("opens");
        let fork = counters(&store);
        for block in 0..PAGES - 1 {
            drop(fork.pin(BlockNumber(block)).expect("whole"));
        }
        let end = store.recovery_stats().redo_end;
        std::thread::scope(|scope| {
            let last = scope.spawn(|| drop(fork.pin(BlockNumber(PAGES - 1)).expect("whole")));
            while store.recovery_stats().pages_done < u64::from(PAGES) {
                std::thread::sleep(Duration::from_millis(1));
            }
            while !last.is_finished() && store.control().redo <= end {
                store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
            }
        });
        let image = disk.crash(2);
        drop(store);
        catch_unwind(AssertUnwindSafe(|| {
            check_recovered(&image, 200, "mutant");
        }))
        .is_err()
    };
    assert!(!loses(None));
    assert!(loses(Some(Mutant::ForgetOwedEarly)));
}

#[test]
fn closing_while_redo_goes_on_leaves_the_rest_to_the_next_start() {
    let disk = crashed(40, 300);
    let config = StorageConfig {
        redo_at_close: Duration::ZERO,
        ..idle()
    };
    let (store, _) = open_with(&disk, config.clone()).expect("opens");
    let fork = counters(&store);
    for block in 0..10 {
        drop(fork.pin(BlockNumber(block)).expect("whole"));
    }
    step(&store, &fork, 301).expect("step");
    store.log().flush_all().expect("flush");
    store.shutdown().expect("shuts down");
    let stats = store.recovery_stats();
    assert!(
        !stats.is_done && stats.pages_done < u64::from(PAGES),
        "{stats:?}"
    );
    drop(store);
    // Twice: the rest is left as it is.
    for _ in 0..2 {
        let (store, _) = open_with(&disk, config.clone()).expect("opens");
        assert!(!store.recovery_stats().clean);
        store.shutdown().expect("shuts down");
        drop(store);
    }
    check_recovered(&disk.crash(3), 301, "after a crash");
    let (store, _) = open_with(&disk, large()).expect("opens");
    assert_steps(&store, 301, "all of it");
    store.shutdown().expect("shuts down");
    drop(store);
    let (store, _) = open_with(&disk, idle()).expect("opens");
    assert!(store.recovery_stats().clean && store.recovery_stats().is_done);
}

#[test]
fn closing_waits_for_redo_no_longer_than_it_is_told_to() {
    let disk = crashed(41, 300);
    let config = StorageConfig {
        redo_at_close: Duration::from_millis(50),
        recovery_prefetch: false,
        recovery_workers: 1,
        ..idle()
    };
    let (store, _) = open_with(&disk, config).expect("opens");
    let model = LatencyModel {
        access: 50_000,
        flush: 0,
        ..LatencyModel::nvme()
    };
    disk.set_latency(Some((model, LatencyMode::Sleep)));
    store.shutdown().expect("shuts down");
    disk.set_latency(None);
    let stats = store.recovery_stats();
    assert!(!stats.is_done, "{stats:?}");
    drop(store);
    check_recovered(&disk.crash(4), 300, "after a crash");
}

/// A log whose pages are changed for the first time one after the other.
fn crashed_in_order(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    let (store, _) = open_with(&disk, large()).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let fork = counters(&store);
    // Against the order of the file.
    for block in (0..PAGES).rev() {
        let mut page = fork.write(BlockNumber(block)).expect("page");
        let mut change = store.change(0);
        change.part(&mut page, ADD, PartFlags::NONE, &add_data(1, 1));
        change.commit();
    }
    store.log().flush_all().expect("flush");
    disk.crash(seed)
}

#[test]
fn the_redo_point_moves_while_redo_goes_on() {
    let disk = crashed_in_order(42);
    let config = StorageConfig {
        checkpoint_timeout: Duration::from_millis(20),
        ..idle()
    };
    let (store, _) = open_with(&disk, config).expect("opens");
    store.recovery_finished().expect("finished");
    let fork = counters(&store);
    // Redo is all that happens: the first checkpoint finds log of the start, the second one none.
    for blocks in [PAGES / 2..PAGES, PAGES / 4..PAGES / 2] {
        let before = store.control().redo;
        for block in blocks.rev() {
            drop(fork.pin(BlockNumber(block)).expect("whole"));
        }
        let begun = std::time::Instant::now();
        while store.control().redo == before {
            assert!(begun.elapsed() < Duration::from_secs(20), "no checkpoint");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(!store.recovery_stats().is_done);
    let image = disk.crash(1);
    drop(store);
    let (store, _) = open_with(&image, idle()).expect("opens");
    let left = store.recovery_stats().pages;
    assert!(left < u64::from(PAGES), "{left} pages");
}

#[test]
fn the_checkpoint_after_redo_is_not_spread_over_time() {
    let disk = SimDisk::new(44);
    let large = || StorageConfig {
        shared_buffers: 64 << 20,
        ..config()
    };
    let (store, _) = open_with(&disk, large()).expect("opens");
    set_up(&store).expect("set up");
    let fork = counters(&store);
    fork.extend(4000).expect("room");
    init_pages(&store, &fork, PAGES..PAGES + 4000).expect("pages");
    store.log().flush_all().expect("flush");
    let disk = disk.crash(1);
    drop(store);
    let (store, _) = open_with(&disk, large()).expect("opens");
    store.recovery_finished().expect("finished");
    store.wait_for_redo();
    let end = store.recovery_stats().redo_end;
    let begun = std::time::Instant::now();
    while store.control().redo <= end {
        assert!(begun.elapsed() < Duration::from_secs(20), "spread");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_dropped_file_forgets_its_own_pages_and_no_others() {
    let disk = SimDisk::new(45);
    let (store, _) = open_with(&disk, large()).expect("opens");
    set_up(&store).expect("set up");
    let mut files = Vec::new();
    for _ in 0..3 {
        let (file, hold) = store.create_file(0).expect("file");
        let fork = store.pool().fork(file, Fork::Main).expect("fork");
        fork.extend(10).expect("room");
        init_pages(&store, &fork, 0..10).expect("pages");
        files.push(file);
        drop(hold);
    }
    store.log().flush_all().expect("flush");
    let (store, _) = open_with(&disk.crash(1), idle()).expect("opens");
    let done = || store.recovery_stats().pages_done;
    assert_eq!(done(), 0);
    store.drop_file(files[1], NOTHING).expect("dropped");
    assert_eq!(done(), 10);
    store
        .truncate(files[2], Fork::Main, 4, NOTHING)
        .expect("cut");
    assert_eq!(done(), 16);
    store
        .truncate(files[0], Fork::Fsm, 0, NOTHING)
        .expect("cut");
    assert_eq!(done(), 16);
    for block in 0..4 {
        let fork = store.pool().fork(files[2], Fork::Main).expect("fork");
        drop(fork.pin(BlockNumber(block)).expect("whole"));
    }
    assert_eq!(done(), 20);
}

type Pages = BTreeMap<PageId, PageBuf>;

/// Every page of the counters, without its checksum.
fn pages(store: &Store) -> Pages {
    store.wait_for_redo();
    let fork = counters(store);
    let mut pages = Pages::new();
    for block in 0..fork.len() {
        let page = fork.pin(BlockNumber(block)).expect("whole").write();
        let mut copy = PageBuf::zeroed();
        copy.bytes_mut().copy_from_slice(page.bytes());
        copy.page_mut().put_u32(CHECKSUM_OFFSET, 0);
        pages.insert(page.page_id(), copy);
    }
    pages
}

/// Redo in the order of the log, record by record: the reference.
fn in_order(disk: &SimDisk) -> Pages {
    let control = crate::control::ControlFile::read(disk, &dir()).expect("control");
    let file = disk
        .open(&dir().join("base/1"), evenkeel_io::OpenOptions::read_only())
        .expect("the counters' file");
    let mut pages = Pages::new();
    for block in 0..PAGES {
        let page = PageId {
            file: COUNTERS,
            fork: Fork::Main,
            block: BlockNumber(block),
        };
        let mut bytes = PageBuf::zeroed();
        file.read_exact_at(bytes.bytes_mut(), u64::from(block) * PAGE_SIZE as u64)
            .expect("read");
        bytes.page_mut().put_u32(CHECKSUM_OFFSET, 0);
        pages.insert(page, bytes);
    }
    let layout = layout(control.segment_size);
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let start = (control.redo, control.incarnation);
    let mut reader = LogReader::new(disk, layout, start, &control.gaps);
    let toy = Toy::default();
    while let Some(record) = reader.next_record().expect("read") {
        for part in record.parts() {
            let mut page = pages.get_mut(&part.page).expect("there").page_mut();
            if page.lsn() >= record.lsn() {
                continue;
            }
            assert_eq!(page.lsn(), part.prev_lsn);
            let cx = ApplyContext {
                lsn: record.lsn(),
                page_id: part.page,
            };
            apply_part(&toy, part.op, part.flags, &mut page, part.data, &cx).expect("applies");
        }
    }
    pages
}

fn assert_same(found: &Pages, expected: &Pages, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for ((page, a), b) in found.iter().zip(expected.values()) {
        assert!(a.bytes() == b.bytes(), "{what}: {page}");
    }
}

#[test]
fn redo_by_any_number_of_threads_gives_the_same_bytes() {
    let disk = crashed(36, 900);
    let expected = in_order(&disk);
    for workers in [1, 2, 8] {
        for recovery_open in [RecoveryOpen::Immediate, RecoveryOpen::AfterRedo] {
            for shared_buffers in [16 * 8192, 4 << 20] {
                let config = StorageConfig {
                    recovery_workers: workers,
                    recovery_open,
                    shared_buffers,
                    ..config()
                };
                let what = format!("{workers} workers, {recovery_open:?}, {shared_buffers} bytes");
                let image = disk.process_crash();
                let (store, _) = open_with(&image, config.clone()).expect("opens");
                // Killed midway.
                let midway = image.process_crash();
                assert_same(&pages(&store), &expected, &what);
                drop(store);
                let (store, _) = open_with(&midway, config).expect("opens");
                assert_same(&pages(&store), &expected, &what);
            }
        }
    }
}

/// The lists have not the changes, but where the log has them.
#[test]
fn redo_by_places_in_the_log_gives_the_same() {
    let disk = crashed(39, 900);
    let expected = in_order(&disk);
    for recovery_memory in [20 << 10, 24 << 10, 28 << 10] {
        let config = StorageConfig {
            recovery_memory,
            ..config()
        };
        let image = disk.process_crash();
        let (store, toy) = open_with(&image, config).expect("opens");
        let what = format!("{recovery_memory} bytes");
        assert_same(&pages(&store), &expected, &what);
        assert_eq!(toy.replayed.lock().len(), 600);
    }
}

#[test]
fn redo_in_shares_gives_the_same() {
    let disk = crashed(37, 900);
    let expected = in_order(&disk);
    for recovery_open in [RecoveryOpen::Immediate, RecoveryOpen::AfterRedo] {
        let config = StorageConfig {
            recovery_memory: 8 << 10,
            recovery_open,
            ..config()
        };
        let (store, toy) = open_with(&disk.process_crash(), config).expect("opens");
        assert_same(&pages(&store), &expected, &format!("{recovery_open:?}"));
        let stats = store.recovery_stats();
        assert_eq!(stats.pages, u64::from(PAGES));
        // The manager hears of each record once.
        assert_eq!(toy.replayed.lock().len(), 600);
    }
}

#[test]
fn a_checkpoint_follows_redo_and_leaves_nothing_to_do() {
    let disk = crashed(38, 600);
    let (store, _) = open_with(&disk, large()).expect("opens");
    store.recovery_finished().expect("finished");
    store.wait_for_redo();
    let end = store.recovery_stats().redo_end;
    let begun = std::time::Instant::now();
    while store.control().redo <= end {
        assert!(begun.elapsed() < Duration::from_secs(20), "no checkpoint");
        std::thread::sleep(Duration::from_millis(1));
    }
    let image = disk.crash(1);
    drop(store);
    let (store, _) = open_with(&image, large()).expect("opens");
    store.wait_for_redo();
    assert_eq!(store.recovery_stats().applied, 0);
    assert_steps(&store, 600, "after it");
}

/// A page without a protection against tearing, torn, and owed changes, is the error of its users
/// while the database is open, and holds nothing up.
#[test]
fn a_damaged_page_found_on_demand_is_set_aside() {
    let unprotected = |config| StorageConfig {
        torn_page_protection: TornPageProtection::Off,
        ..config
    };
    let disk = crashed_with(39, 300, unprotected(large()));
    let path = dir().join("base/1");
    let file = disk.open(&path, evenkeel_io::OpenOptions::read_write());
    let file = file.expect("the counters' file");
    file.write_all_at(&[0xff; 16], 50 * 8192 + 4096)
        .expect("damage");
    let (store, _) = open_with(&disk, unprotected(idle())).expect("opens");
    assert!(store.damaged_pages().is_empty());
    let fork = counters(&store);
    let error = fork.pin(BlockNumber(50)).map(drop).expect_err("damaged");
    assert!(
        matches!(error, StorageError::PageSetAside { .. }),
        "{error}"
    );
    assert_eq!(store.damaged_pages().len(), 1);
    store.shutdown().expect("shuts down");
    let stats = store.recovery_stats();
    assert!(stats.is_done && stats.set_aside == 1, "{stats:?}");
}

#[test]
fn log_that_is_read_ahead_is_the_log() {
    let disk = crashed(39, 3000);
    let (store, _) = open_with(&disk, idle()).expect("opens");
    let control = store.control();
    let layout = store.log().segments().layout().clone();
    let read = |ahead: bool| {
        let start = (control.redo, control.incarnation);
        let (disk, gaps) = (std::sync::Arc::clone(store.disk()), store.log().gaps());
        let mut reader = LogReader::new(disk, layout.clone(), start, gaps);
        if ahead {
            reader.read_ahead();
        }
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().expect("reads") {
            records.push((record.lsn(), record.payload().to_vec()));
        }
        (records, reader.position())
    };
    let (here, ahead) = (read(false), read(true));
    assert!(here.0.len() > 2000 && here.1.distance_from(control.redo) > 200 << 10);
    assert!(here == ahead);
}
