mod rings;
mod touch;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_io::{
    Disk, Fault, FaultKind, LatencyMode, LatencyModel, OpKind, OpenOptions, SimDisk,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::buffer::ReadAheadOptions;
use crate::error::StorageError;
use crate::ids::{BlockNumber, FileId, Fork, Lsn};
use crate::page::{PAGE_SIZE, PageBuf, PageRead, checksum};
use crate::testing::{DIR, FILE, TEST_SEGMENT, TestLog, open_pool, page_id};

fn block(number: u32) -> BlockNumber {
    BlockNumber(number)
}

/// Writes pages whose word at 24 is 1000 + block, as an earlier run would have left them.
fn lay_out(disk: &SimDisk, blocks: u32) {
    let (pool, _) = open_pool(disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    fork.ensure_len(blocks).expect("no fault armed");
    for number in 0..blocks {
        let mut page = PageBuf::zeroed();
        page.page_mut().init(1, 0);
        page.page_mut().put_u64(24, 1000 + u64::from(number));
        page.page_mut().set_lsn(Lsn(8));
        checksum::stamp(page.bytes_mut(), page_id(number));
        let (segment, offset) = fork.files().segment(block(number)).expect("extended");
        segment
            .file()
            .write_all_at(page.bytes(), offset)
            .expect("no fault armed");
    }
}

fn spoil(disk: &SimDisk, name: &str, number: u32) {
    let file = disk
        .open(
            format!("{DIR}/base/{name}").as_ref(),
            OpenOptions::read_write(),
        )
        .expect("laid out");
    let at = u64::from(number) * PAGE_SIZE as u64 + 5000;
    file.write_all_at(&[0xEE; 16], at).expect("no fault armed");
}

#[test]
fn a_page_is_read_once_and_found_afterwards() {
    let disk = SimDisk::new(1);
    lay_out(&disk, TEST_SEGMENT * 2 + 3);
    let (pool, _) = open_pool(&disk, 32);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    assert_eq!(fork.len(), TEST_SEGMENT * 2 + 3);
    for _ in 0..3 {
        for number in [0, TEST_SEGMENT - 1, TEST_SEGMENT, TEST_SEGMENT * 2 + 2] {
            let page = fork.read(block(number)).expect("valid");
            assert_eq!(page.u64_at(24), 1000 + u64::from(number));
            assert_eq!(page.page_id(), page_id(number));
        }
    }
    let stats = pool.stats();
    assert_eq!((stats.reads, stats.hits), (4, 8));
}

#[test]
fn a_damaged_page_is_an_error_that_names_it_and_the_others_go_on() {
    let disk = SimDisk::new(2);
    lay_out(&disk, 4);
    spoil(&disk, "7", 2);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    for _ in 0..2 {
        let error = fork.pin(block(2)).expect_err("spoiled");
        let text = error.to_string();
        assert!(matches!(error, StorageError::PageDamaged { page, .. } if page == page_id(2)));
        assert!(
            text.contains("stored") && text.contains("computed"),
            "{text}"
        );
    }
    assert_eq!(fork.read(block(3)).expect("whole").u64_at(24), 1003);
    assert_eq!(pool.stats().free, 15);
}

#[test]
fn a_damaged_free_space_map_starts_again_empty() {
    let disk = SimDisk::new(3);
    let (pool, _) = open_pool(&disk, 16);
    pool.fork(FILE, Fork::Fsm)
        .and_then(|fork| fork.extend(2))
        .expect("extends");
    spoil(&disk, "7_fsm", 1);
    let fork = pool.fork(FILE, Fork::Fsm).expect("open");
    assert!(fork.read(block(1)).expect("zeroed").is_new());
    assert_eq!(pool.stats().zeroed_advice, 1);
}

#[test]
fn blocks_beyond_the_end_do_not_exist() {
    let disk = SimDisk::new(4);
    lay_out(&disk, 2);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let error = fork.pin(block(2)).expect_err("beyond");
    assert!(matches!(error, StorageError::NoSuchPage { page } if page == page_id(2)));
    assert_eq!(fork.extend(3).expect("space"), block(2));
    assert!(fork.read(block(4)).expect("extended").is_new());
    assert!(fork.pin(block(5)).is_err());
}

#[test]
fn a_failed_read_leaves_the_page_to_be_read_again() {
    let disk = SimDisk::new(5);
    lay_out(&disk, 2);
    let (pool, poison) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    disk.inject(Fault::nth(1, FaultKind::Eio).on(OpKind::Read));
    assert!(
        matches!(fork.pin(block(1)), Err(StorageError::PageRead { page, .. }) if page == page_id(1))
    );
    assert!(!poison.is_set());
    assert_eq!(
        fork.read(block(1)).expect("the fault is over").u64_at(24),
        1001
    );
    assert_eq!(pool.stats().free, 15);
}

#[test]
fn a_full_disk_fails_the_extension_and_nothing_else() {
    let disk = SimDisk::new(6);
    lay_out(&disk, 2);
    let (pool, poison) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    disk.inject(Fault::nth(1, FaultKind::Enospc).on(OpKind::Allocate));
    assert!(matches!(fork.extend(10), Err(StorageError::DiskFull(_))));
    assert_eq!(fork.len(), 2);
    assert!(!poison.is_set());
    assert_eq!(fork.extend(10).expect("space again"), block(2));
}

#[test]
fn more_pages_than_frames_fit_one_after_the_other() {
    let disk = SimDisk::new(7);
    lay_out(&disk, 200);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    for _ in 0..2 {
        for number in 0..200 {
            assert_eq!(
                fork.read(block(number)).expect("read").u64_at(24),
                1000 + u64::from(number)
            );
        }
    }
    let stats = pool.stats();
    assert!(stats.evictions >= 384, "{stats:?}");
    assert_eq!(stats.foreground_waits, 0);
}

#[test]
fn one_pass_of_a_scan_does_not_displace_hot_pages() {
    let disk = SimDisk::new(8);
    lay_out(&disk, 1000);
    let (pool, _) = open_pool(&disk, 64);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    for _ in 0..6 {
        for number in 0..32 {
            drop(fork.read(block(number)).expect("read"));
        }
    }
    for number in 32..150 {
        drop(fork.read(block(number)).expect("read"));
    }
    let resident = (0..32)
        .filter(|number| fork.pin_resident(block(*number)).is_some())
        .count();
    assert!(resident >= 30, "{resident} of 32 hot pages stayed");
}

#[test]
fn who_needs_a_frame_gets_the_next_one_unpinned() {
    let disk = SimDisk::new(9);
    lay_out(&disk, 40);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let other = Arc::clone(&fork);
    let pins: Vec<_> = (0..16)
        .map(|n| fork.pin(block(n)).expect("free frames"))
        .collect();
    let waiter = std::thread::spawn(move || other.read(block(30)).map(|page| page.u64_at(24)));
    while pool.stats().foreground_waits == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!waiter.is_finished());
    drop(pins);
    assert_eq!(waiter.join().expect("no panic").expect("a frame"), 1030);
}

#[test]
fn a_pinned_page_stays_though_others_come_and_go() {
    let disk = SimDisk::new(10);
    lay_out(&disk, 100);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let kept = fork.pin(block(50)).expect("free frames");
    for number in 0..100 {
        drop(fork.pin(block(number)).expect("read"));
    }
    let reads = pool.stats().reads;
    assert_eq!(kept.read().u64_at(24), 1050);
    assert!(fork.pin_resident(block(50)).is_some());
    assert_eq!(pool.stats().reads, reads);
}

#[test]
fn dropping_a_file_discards_its_frames_and_unlinks_it() {
    let disk = SimDisk::new(11);
    lay_out(&disk, TEST_SEGMENT + 2);
    let (pool, _) = open_pool(&disk, 64);
    let other = pool.create_file(FileId(8)).expect("space");
    other.extend(1).expect("space");
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    pool.fork(FILE, Fork::Vm)
        .and_then(|vm| vm.extend(1))
        .expect("extends");
    for number in 0..TEST_SEGMENT + 2 {
        let mut page = fork.write(block(number)).expect("read");
        page.mark_dirty(Lsn(16));
    }
    drop(other.read(block(0)).expect("extended"));
    assert_eq!(pool.min_first_dirtied(), Some(Lsn(16)));
    pool.drop_file(FILE).expect("no fault armed");
    assert_eq!(pool.min_first_dirtied(), None);
    assert_eq!(pool.stats().free, 63);
    assert!(matches!(
        fork.pin(block(0)),
        Err(StorageError::NoSuchPage { .. })
    ));
    assert!(fork.extend(1).is_err());
    assert_eq!(pool.files().list().expect("lists"), [FileId(8)]);
    assert!(disk.list(format!("{DIR}/base").as_ref()).expect("lists") == ["8"]);
    pool.drop_file(FILE).expect("dropping again is fine");
}

#[test]
fn cutting_a_fork_discards_what_is_beyond() {
    let disk = SimDisk::new(12);
    lay_out(&disk, TEST_SEGMENT * 2 + 5);
    let (pool, _) = open_pool(&disk, 64);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    for number in 0..fork.len() {
        let mut page = fork.write(block(number)).expect("read");
        page.mark_dirty(Lsn(u64::from(fork.len() - number) * 8));
    }
    pool.truncate(FILE, Fork::Main, TEST_SEGMENT - 1)
        .expect("no fault armed");
    assert_eq!(fork.len(), TEST_SEGMENT - 1);
    assert_eq!(
        pool.min_first_dirtied(),
        Some(Lsn(u64::from(TEST_SEGMENT + 7) * 8))
    );
    assert_eq!(
        disk.list(format!("{DIR}/base").as_ref()).expect("lists"),
        ["7"]
    );
    assert_eq!(fork.extend(2).expect("space"), block(TEST_SEGMENT - 1));
    assert!(fork.read(block(TEST_SEGMENT)).expect("extended").is_new());
    assert_eq!(fork.read(block(3)).expect("kept").u64_at(24), 1003);
}

#[test]
fn hints_are_set_by_one_at_a_time_and_readers_go_on() {
    let disk = SimDisk::new(13);
    lay_out(&disk, 1);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let mut one = fork.read(block(0)).expect("read");
    let mut two = fork.read(block(0)).expect("shared");
    let mut hint = one.try_hint().expect("nobody else hints");
    assert!(two.try_hint().is_none());
    hint.or_u64(24, 1 << 40);
    assert_eq!(two.u64_at(24), 1000 | 1 << 40);
    assert_eq!(hint.u64_at(24), 1000 | 1 << 40);
    drop(hint);
    assert!(two.try_hint().is_some());
    assert!(one.unlock().try_write().is_err());
    drop(two);
    // Hints alone hold no redo point back.
    assert_eq!(pool.min_first_dirtied(), None);
    assert_eq!(pool.dirty_before(Lsn::MAX, false), []);
    assert_eq!(pool.dirty_before(Lsn::MAX, true).len(), 1);
}

#[test]
fn the_first_dirtied_lsn_is_that_of_the_first_change() {
    let disk = SimDisk::new(14);
    lay_out(&disk, 3);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    for (number, lsn) in [(0, 80), (1, 40), (0, 120), (1, 160), (2, 56)] {
        fork.write(block(number))
            .expect("read")
            .mark_dirty(Lsn(lsn));
    }
    assert_eq!(pool.min_first_dirtied(), Some(Lsn(40)));
    let due: Vec<_> = pool
        .dirty_before(Lsn(80), false)
        .into_iter()
        .map(|due| due.0)
        .collect();
    assert_eq!(due, [page_id(1), page_id(2)]);
}

/// Changes that are in a copy and not yet at home still hold the redo point back.
#[test]
fn a_write_out_under_way_counts_with_its_own_lsn() {
    let disk = SimDisk::new(20);
    lay_out(&disk, 3);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let mut image = PageBuf::zeroed();
    fork.write(block(1)).expect("read").mark_dirty(Lsn(40));
    let (page, frame) = pool.dirty_before(Lsn::MAX, false)[0];
    let copied = pool
        .begin_write(page, frame, image.bytes_mut(), false, &*TestLog::new(None))
        .expect("dirty");
    assert_eq!(copied.lsn, Lsn(8));
    assert_eq!(
        checksum::verify(image.bytes(), page),
        checksum::Verdict::Valid
    );
    assert_eq!(pool.min_first_dirtied(), Some(Lsn(40)));
    assert!(pool.is_due(page, frame, Lsn(41)) && !pool.is_due(page, frame, Lsn(40)));
    assert!(
        pool.begin_write(page, frame, image.bytes_mut(), false, &*TestLog::new(None))
            .is_none()
    );

    fork.write(block(1)).expect("resident").mark_dirty(Lsn(80));
    assert_eq!(pool.min_first_dirtied(), Some(Lsn(40)));
    assert!(
        pool.begin_write(page, frame, image.bytes_mut(), false, &*TestLog::new(None))
            .is_none()
    );
    pool.end_write([frame].into_iter()).expect("begun");
    assert_eq!(pool.min_first_dirtied(), Some(Lsn(80)));

    // Another page by now is not taken for the one that was meant.
    assert!(
        pool.begin_write(
            page_id(2),
            frame,
            image.bytes_mut(),
            false,
            &*TestLog::new(None)
        )
        .is_none()
    );
    assert!(
        pool.begin_write(page, frame, image.bytes_mut(), false, &*TestLog::new(None))
            .is_some()
    );
    pool.end_write([frame].into_iter()).expect("begun");
    assert_eq!(pool.min_first_dirtied(), None);
}

#[test]
fn an_exclusive_lock_turns_into_a_share_lock_in_one_step() {
    let disk = SimDisk::new(15);
    lay_out(&disk, 1);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let writing = fork.write(block(0)).expect("read");
    assert!(fork.pin(block(0)).expect("resident").try_read().is_err());
    let reading = writing.downgrade();
    assert!(fork.pin(block(0)).expect("resident").try_read().is_ok());
    assert!(fork.pin(block(0)).expect("resident").try_write().is_err());
    drop(reading);
    assert!(fork.pin(block(0)).expect("resident").try_write().is_ok());
}

#[test]
fn pages_asked_for_ahead_are_there() {
    let disk = SimDisk::new(16);
    lay_out(&disk, TEST_SEGMENT * 2);
    spoil(&disk, "7", 5);
    let (pool, _) = open_pool(&disk, 64);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    drop(fork.read(block(3)).expect("read"));
    fork.prefetch(0..TEST_SEGMENT * 2 + 10);
    while pool.stats().prefetched < u64::from(TEST_SEGMENT * 2) - 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The damaged page is left to whoever needs it.
    assert!(matches!(
        fork.pin(block(5)),
        Err(StorageError::PageDamaged { .. })
    ));
    for number in (0..TEST_SEGMENT * 2).filter(|number| *number != 5) {
        assert_eq!(
            fork.read(block(number)).expect("whole").u64_at(24),
            1000 + u64::from(number)
        );
    }
    assert_eq!(pool.stats().reads, 2);
}

#[test]
fn as_many_pages_are_read_ahead_at_once_as_the_depth_says() {
    let disk = SimDisk::new(20);
    lay_out(&disk, 64);
    let (pool, _) = open_pool(&disk, 128);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let model = LatencyModel {
        access: 300_000,
        parallel: 100,
        ..LatencyModel::nvme()
    };
    disk.set_latency(Some((model, LatencyMode::Sleep)));
    // Not adjacent, so each is a read.
    for number in (0..64).step_by(2) {
        fork.prefetch(number..number + 1);
    }
    while pool.stats().prefetched < 32 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(
        disk.most_served_at_once(),
        ReadAheadOptions::default().depth
    );
    assert_eq!(pool.stats().reads, 0);
}

#[test]
fn reservations_wait_only_in_small_pools_and_only_for_room() {
    let disk = SimDisk::new(17);
    let (pool, _) = open_pool(&disk, 16);
    let first = pool.reserve(10);
    let other = Arc::clone(&pool);
    let second = std::thread::spawn(move || drop(other.reserve(10)));
    std::thread::sleep(Duration::from_millis(5));
    assert!(!second.is_finished());
    drop(first);
    second.join().expect("no panic");
    // More than there is means all there is.
    drop(pool.reserve(1000));
}

#[test]
fn a_pool_goes_with_its_last_user() {
    let disk = SimDisk::new(18);
    lay_out(&disk, 20);
    let (pool, _) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    for number in 0..20 {
        drop(fork.read(block(number)).expect("read"));
    }
    let core = Arc::downgrade(pool.core());
    drop(pool);
    assert!(core.upgrade().is_some(), "a handle still works");
    assert_eq!(fork.read(block(3)).expect("read").u64_at(24), 1003);
    drop(fork);
    assert!(core.upgrade().is_none());
}

/// Readers of any page see that page, whatever is evicted, in a pool far too small.
#[test]
fn many_threads_always_find_the_page_they_asked_for() {
    let disk = SimDisk::new(19);
    lay_out(&disk, 64);
    let (pool, _) = open_pool(&disk, 16);
    let seed: u64 = rand::random();
    println!("seed {seed}");
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let pool = &pool;
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed ^ thread);
                let fork = pool.fork(FILE, Fork::Main).expect("opens");
                for _ in 0..8000 {
                    let number = rng.random_range(0..64_u32);
                    if rng.random_bool(0.05) {
                        fork.prefetch(number..64.min(number + 8));
                    }
                    let mut page = if rng.random_bool(0.5) {
                        fork.read(block(number)).expect("read")
                    } else {
                        fork.pin(block(number)).expect("read").read()
                    };
                    assert_eq!(page.u64_at(24), 1000 + u64::from(number), "seed {seed}");
                    if rng.random_bool(0.2) {
                        // Tries only: hinted pages could not be evicted without a writer.
                        drop(page.try_hint());
                    }
                    let pin = page.unlock();
                    if let Ok(page) = pin.try_write() {
                        assert_eq!(page.u64_at(24), 1000 + u64::from(number), "seed {seed}");
                    }
                }
            });
        }
    });
    assert_eq!(pool.stats().foreground_waits, 0);
}
