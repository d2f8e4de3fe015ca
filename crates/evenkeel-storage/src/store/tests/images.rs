//! Page images in the log: `full_page_writes`, changes of the mode, and
//! `wal_consistency_checking`.

use std::sync::atomic::{AtomicBool, AtomicI64};

use evenkeel_io::{OpenOptions, Outcome};

use super::*;
use crate::config::RecoveryOpen;
use crate::config::TornPageProtection::{self, DoubleWrite, FullPageWrites, Off};
use crate::page::PAGE_SIZE;
use crate::wal::dump;

fn with(protection: TornPageProtection) -> StorageConfig {
    StorageConfig {
        torn_page_protection: protection,
        wal_consistency_checking: true,
        ..config()
    }
}

fn parts(disk: &SimDisk) -> Vec<(Lsn, RecordKind, Vec<PartFlags>)> {
    let (_, mut reader) = dump::open(Arc::new(disk.clone()), &dir()).expect("control file");
    let mut all = Vec::new();
    while let Some(record) = reader.next_record().expect("whole") {
        let flags = record.parts().map(|part| part.flags).collect();
        all.push((record.lsn(), record.kind(), flags));
    }
    all
}

fn acknowledged(disk: &SimDisk, index: u64) -> u64 {
    disk.acknowledged_by(index).last().copied().unwrap_or(0)
}

/// Opens crash images evenly over the journal and compares them with what was acknowledged.
fn check_images(disk: &SimDisk, begin: u64, count: u64, protection: TornPageProtection) {
    let end = disk.op_count();
    let mut series = disk.images(7).step(((end - begin) / count).max(1));
    series.seek(begin);
    for image in series {
        let what = image_name(&image);
        let (store, _) = open_with(&image.disk, with(protection))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let steps = steps_done(&store).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(steps >= acknowledged(disk, image.index), "{what}");
        assert_steps(&store, steps, &what);
    }
}

/// STO-8, at every operation of a workload with checkpoints and evictions: nothing but
/// the log protects the pages.
#[test]
fn no_crash_leaves_a_torn_page_that_the_log_cannot_restore() {
    let disk = SimDisk::new(3);
    let (store, _) = open_with(&disk, with(FullPageWrites)).expect("opens");
    set_up(&store).expect("set up");
    let begin = disk.op_count();
    run(&store, &disk, 1, 300, 60).expect("steps");
    drop(store);
    assert!(!disk.exists(&dir().join("doublewrite.0")).expect("list"));
    check_images(&disk, begin, 80, FullPageWrites);
}

/// Each start under another protection; the one before counts until a redo point is its own.
#[test]
fn the_protection_may_change_with_every_start() {
    let disk = SimDisk::new(4);
    let modes = [
        FullPageWrites,
        DoubleWrite,
        FullPageWrites,
        DoubleWrite,
        DoubleWrite,
        FullPageWrites,
    ];
    let mut steps = 0;
    let mut current = disk;
    for (round, protection) in modes.into_iter().enumerate() {
        let begin = current.op_count();
        let (store, _) = open_with(&current, with(protection)).expect("opens");
        if round == 0 {
            set_up(&store).expect("set up");
        }
        steps = steps.max(steps_done(&store).expect("steps"));
        current.acknowledge(steps);
        let begin = if round == 0 {
            current.op_count()
        } else {
            begin
        };
        // Without a checkpoint in every other round: the mode has not changed in the log then.
        let checkpoints = if round % 2 == 0 { 20 } else { 0 };
        run(&store, &current, steps + 1, steps + 50, checkpoints).expect("steps");
        let is_clean = round % 3 == 1;
        if is_clean {
            store.shutdown().expect("shutdown");
        }
        drop(store);
        check_images(&current, begin, 12, protection);
        let last = current.op_count().saturating_sub(20);
        check_images(&current, last, 3, FullPageWrites);
        check_images(&current, last, 3, DoubleWrite);
        let next = current.crash_with(Outcome::Torn4096, round as u64);
        steps = acknowledged(&current, current.op_count());
        current = next;
    }
}

/// OUT-11: on a device that writes pages atomically nothing else protects them, and
/// nothing else is needed.
#[test]
fn atomic_page_writes_take_the_place_of_protection() {
    let direct = StorageConfig {
        io_direct_data: true,
        ..with(DoubleWrite)
    };
    let disk = SimDisk::new(11);
    let (store, _) = open_with(&disk, direct.clone()).expect("opens");
    assert!(!store.writes_pages_atomically());
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 60, 20).expect("steps");
    drop(store);
    // The same directory, moved to a better device by a power failure.
    let disk = disk.crash_with(Outcome::Torn512, 1);
    disk.promise_atomic_writes(PAGE_SIZE as u32);
    let (store, _) = open_with(&disk, direct.clone()).expect("opens");
    assert!(store.writes_pages_atomically());
    assert!(!disk.exists(&dir().join("base/probe")).expect("list"));
    let begun = disk.op_count();
    let steps = steps_done(&store).expect("steps");
    run(&store, &disk, steps + 1, steps + 200, 60).expect("steps");
    drop(store);
    let end = disk.op_count();
    let mut series = disk.images(7);
    for round in 0..60 {
        series.seek(begun + (end - begun) * round / 60);
        let image = series.image(Outcome::Torn8192, round);
        image.promise_atomic_writes(PAGE_SIZE as u32);
        let (store, _) = open_with(&image, direct.clone()).expect("recovers");
        let steps = steps_done(&store).expect("steps");
        assert!(steps >= acknowledged(&disk, series.index()));
        assert_steps(&store, steps, &format!("operation {}", series.index()));
    }
}

#[test]
fn a_file_system_without_direct_io_is_used_through_the_page_cache() {
    for protection in [DoubleWrite, FullPageWrites, Off] {
        let direct = StorageConfig {
            io_direct_data: true,
            io_direct_wal: true,
            ..with(protection)
        };
        let disk = SimDisk::new(12);
        disk.refuse_direct_io();
        let (store, _) = open_with(&disk, direct.clone()).expect("opens");
        assert!(!store.config().io_direct_data && !store.writes_pages_atomically());
        assert!(!disk.exists(&dir().join("base/probe")).expect("list"));
        set_up(&store).expect("set up");
        run(&store, &disk, 1, 60, 20).expect("steps");
        drop(store);
        let (store, _) = open_with(&disk, direct).expect("opens");
        assert_steps(&store, 60, "opened again");
    }
}

/// CKPT-5.
#[test]
fn with_images_only_an_announced_position_becomes_redo_point() {
    let disk = SimDisk::new(5);
    let (store, toy) = open_with(&disk, with(FullPageWrites)).expect("opens");
    set_up(&store).expect("set up");
    let announced = |disk: &SimDisk| {
        let all = parts(disk).into_iter();
        all.filter(|(_, kind, _)| *kind == RecordKind::REDO_POINT)
            .map(|(lsn, ..)| lsn)
            .collect::<Vec<_>>()
    };
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let first = store.control().redo;
    assert_eq!(announced(&disk), [first]);
    run(&store, &disk, 1, 30, 0).expect("steps");
    let hold = store.hold_redo_here();
    run(&store, &disk, 31, 60, 0).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert_eq!(
        store.control().redo,
        first,
        "not {}, which nothing announced",
        hold.lsn()
    );
    let second = announced(&disk)[1];
    drop(hold);
    *toy.floor.lock() = Some(store.log().insert_lsn());
    run(&store, &disk, 61, 90, 0).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert_eq!(store.control().redo, second);
    assert!(store.control().images);
}

/// STO-8: the first change after a redo point carries the page, the next ones do not.
#[test]
fn a_page_is_logged_once_in_a_cycle() {
    let disk = SimDisk::new(6);
    let (store, _) = open_with(&disk, with(FullPageWrites)).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let fork = counters(&store);
    let change = |block: u32| {
        let mut page = fork.write(BlockNumber(block)).expect("page");
        let mut change = store.change(1);
        change.part(&mut page, ADD, PartFlags::NONE, &add_data(0, 1));
        change.commit()
    };
    let lsns = [change(5), change(5), change(6), change(5)];
    store.log().flush_all().expect("flush");
    let all = parts(&disk);
    let flags = lsns.map(|lsn| {
        let found = all.iter().find(|(at, ..)| *at == lsn);
        found.expect("the record").2[0]
    });
    let (with, without) = (PartFlags::BEFORE, PartFlags::NONE);
    assert_eq!(flags, [with, without, with, without]);
}

/// REC-8: the page is not even looked at.
#[test]
fn a_page_with_an_image_is_restored_whatever_its_home_holds() {
    let disk = SimDisk::new(7);
    let (store, _) = open_with(&disk, with(FullPageWrites)).expect("opens");
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 200, 50).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, &disk, 201, 260, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let image = disk.crash_with(Outcome::Everything, 1);
    let path = dir().join("base/1");
    let home = image.open(&path, OpenOptions::read_write()).expect("opens");
    for (block, ..) in parts_of(250) {
        home.write_all_at(&[0xEE; 512], u64::from(block) * PAGE_SIZE as u64)
            .expect("writes");
    }
    let (store, _) = open_with(&image, with(FullPageWrites)).expect("recovers");
    assert_steps(&store, 260, "torn pages");
}

/// A page that only hints changed is logged before it is written, once in a cycle.
#[test]
fn hints_are_protected_when_their_page_is_written() {
    const WORD: usize = PAGE_HEADER_SIZE + 8 * (SLOTS as usize + 3);
    let disk = SimDisk::new(8);
    let (store, _) = open_with(&disk, with(FullPageWrites)).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let redo = store.control().redo;
    let fork = counters(&store);
    let hint = |bits: u64| {
        let mut page = fork.read(BlockNumber(9)).expect("page");
        page.try_hint().expect("alone").or_u64(WORD, bits);
    };
    hint(1);
    store.writer().write_everything().expect("writes");
    let lsn = fork.read(BlockNumber(9)).expect("page").lsn();
    assert!(lsn > redo, "the image is a record of its own");
    hint(2);
    store.writer().write_everything().expect("writes");
    assert_eq!(fork.read(BlockNumber(9)).expect("page").lsn(), lsn);
    // A write of the page that is torn now is repaired by the image, hints of then included.
    let image = disk.crash_with(Outcome::Everything, 1);
    let home = image
        .open(&dir().join("base/1"), OpenOptions::read_write())
        .expect("opens");
    home.write_all_at(&[0xEE; 512], 9 * PAGE_SIZE as u64 + 4096)
        .expect("writes");
    let (store, _) = open_with(&image, with(FullPageWrites)).expect("recovers");
    let fork = counters(&store);
    let page = fork.read(BlockNumber(9)).expect("restored");
    assert_eq!((page.lsn(), page.u64_at(WORD)), (lsn, 1));
}

/// A change of a page is compared with what redo makes of it.
#[test]
fn redo_that_differs_from_the_change_is_named() {
    let disk = SimDisk::new(9);
    let (store, _) = open_with(&disk, with(Off)).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, &disk, 1, 20, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let image = disk.crash_with(Outcome::Everything, 1);
    drop(store);
    let (sound, _) = open_with(&image.crash(2), with(Off)).expect("recovers");
    sound.wait_for_redo();
    assert!(sound.recovery_stats().compared >= 60);
    // A bit that the log did not change, at a place that redo does not touch.
    let block = parts_of(7)[1].0;
    let mut page = crate::page::PageBuf::zeroed();
    let id = crate::ids::PageId {
        file: COUNTERS,
        fork: Fork::Main,
        block: BlockNumber(block),
    };
    let home = image
        .open(&dir().join("base/1"), OpenOptions::read_write())
        .expect("opens");
    let offset = u64::from(block) * PAGE_SIZE as u64;
    home.read_exact_at(page.bytes_mut(), offset).expect("reads");
    page.page_mut().put_u8(5000, 0x40);
    crate::page::checksum::stamp(page.bytes_mut(), id);
    home.write_all_at(page.bytes(), offset).expect("writes");
    // A database that is open by then stops.
    let (store, _) = open_with(&image.crash(3), with(Off)).expect("opens");
    store.wait_for_redo();
    let reason = store.poison().reason().expect("stopped");
    assert!(reason.contains(&id.to_string()), "{reason}");
    let before = StorageConfig {
        recovery_open: RecoveryOpen::AfterRedo,
        ..with(Off)
    };
    let error = open_with(&image, before).map(|_| ()).expect_err("differs");
    assert!(
        matches!(
            error,
            StorageError::Inconsistent { page, offset: 5000, expected: 0, found: 0x40, .. }
                if page == id
        ),
        "{error}"
    );
}

/// WAL-12, with threads: whatever races a checkpoint has its image in the right cycle.
#[test]
fn images_are_chosen_for_the_cycle_that_the_record_lies_in() {
    let disk = SimDisk::new(10);
    let (store, _) = open_with(&disk, with(FullPageWrites)).expect("opens");
    set_up(&store).expect("set up");
    let done = AtomicBool::new(false);
    // Changes that may still be made: the log has room for a few cycles only.
    let left = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (store, done, left) = (&store, &done, &left);
            scope.spawn(move || {
                let fork = counters(store);
                let mut n = thread;
                while !done.load(Ordering::Relaxed) {
                    if left.fetch_sub(1, Ordering::Relaxed) <= 0 {
                        std::thread::yield_now();
                        continue;
                    }
                    store.admit().expect("room");
                    let block = (n * 2 + thread) % u64::from(PAGES);
                    let mut page = fork.write(BlockNumber(block as u32)).expect("page");
                    let mut change = store.change(1);
                    change.part(&mut page, ADD, PartFlags::NONE, &add_data(0, 1));
                    change.commit();
                    n += 1;
                }
            });
        }
        for _ in 0..12 {
            left.store(100, Ordering::Relaxed);
            while left.load(Ordering::Relaxed) > 50 {
                std::thread::yield_now();
            }
            store.log().append_redo_point();
        }
        done.store(true, Ordering::Relaxed);
    });
    store.log().flush_all().expect("flush");
    let (_, mut reader) = dump::open(Arc::new(disk.clone()), &dir()).expect("control file");
    let mut seen = std::collections::HashSet::new();
    let mut cycles = 0;
    while let Some(record) = reader.next_record().expect("whole") {
        if record.kind() == RecordKind::REDO_POINT {
            seen.clear();
            cycles += 1;
        }
        for part in record.parts().filter(|part| part.op == ADD) {
            let has_image = part.flags.contains(PartFlags::BEFORE);
            if cycles > 0 && part.prev_lsn < record.lsn() {
                assert_eq!(has_image, seen.insert(part.page), "{}", record.lsn());
            }
        }
    }
    assert_eq!(cycles, 12);
}

/// OUT-18: the area is not needed from the redo point on at which images cover. Its
/// content grows old then: a page that the device damages later is named, not set back.
#[test]
fn the_area_is_retired_when_images_cover() {
    let disk = SimDisk::new(12);
    let (store, _) = open_with(&disk, with(DoubleWrite)).expect("opens");
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 100, 50).expect("steps");
    let disk = disk.crash(1);
    drop(store);
    let (store, _) = open_with(&disk, with(FullPageWrites)).expect("opens");
    let steps = steps_done(&store).expect("steps");
    store.recovery_finished().expect("finished");
    run(&store, &disk, steps + 1, 300, 20).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let disk = disk.crash(2);
    drop(store);
    let path = dir().join("base/1");
    let file = disk.open(&path, OpenOptions::read_write()).expect("there");
    for block in 0..u64::from(PAGES) {
        let damage = file.write_all_at(&[0xA5; 512], block * PAGE_SIZE as u64 + 512);
        damage.expect("write");
    }
    let (store, _) = open_with(&disk, with(FullPageWrites)).expect("opens");
    assert_eq!(store.writer().restored().restored, 0);
    for block in 0..PAGES {
        let read = counters(&store).read(BlockNumber(block)).map(|_| ());
        assert!(read.is_err(), "block {block} is as it once was");
    }
}
