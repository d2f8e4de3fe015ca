//! Rings, reading ahead, and what bulk operations leave of the pool.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::buffer::{BufferAccessStrategy, ForkStats, ReadAhead};
use crate::config::TornPageProtection;
use crate::stats::{BackendType, IoContext, IoObject};
use crate::testing::{TestLog, TestStore, options};

fn hot(store: &crate::buffer::ForkHandle, pages: u32) -> usize {
    (0..pages)
        .filter(|number| store.pin_resident(block(*number)).is_some())
        .count()
}

#[test]
fn a_ring_takes_no_more_than_its_share() {
    let disk = SimDisk::new(30);
    lay_out(&disk, 1000);
    let (pool, _) = open_pool(&disk, 64);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    // Used once, so as cold as a page can be.
    for number in 0..40 {
        drop(fork.read(block(number)).expect("read"));
    }
    let ring = BufferAccessStrategy::bulk_read(&pool);
    assert_eq!(ring.frames(), 8);
    for number in 0..1000 {
        let page = fork.read_with(block(number), Some(&ring)).expect("read");
        assert_eq!(page.u64_at(24), 1000 + u64::from(number));
    }
    assert_eq!(hot(&fork, 40), 40);
    let stats = pool.stats();
    assert_eq!((stats.allocations, stats.reuses), (48, 952));
    assert_eq!(stats.evictions, 0);
}

#[test]
fn a_page_that_others_use_leaves_the_ring() {
    let disk = SimDisk::new(31);
    lay_out(&disk, 300);
    let (pool, _) = open_pool(&disk, 64);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let ring = BufferAccessStrategy::vacuum(&pool, 1 << 20).expect("not zero");
    for number in 0..4 {
        drop(fork.read_with(block(number), Some(&ring)).expect("read"));
    }
    drop(fork.read(block(2)).expect("resident"));
    let pinned = fork.pin(block(3)).expect("resident");
    for number in 10..300 {
        drop(fork.read_with(block(number), Some(&ring)).expect("read"));
    }
    assert!(fork.pin_resident(block(2)).is_some());
    assert_eq!(pinned.read().u64_at(24), 1003);
    assert!(fork.pin_resident(block(0)).is_none());
    assert!(BufferAccessStrategy::vacuum(&pool, 0).is_none());
}

/// Without a cleaner a scan goes on all the same, and loses no change.
#[test]
fn a_scan_passes_over_pages_that_are_not_written() {
    let disk = SimDisk::new(32);
    lay_out(&disk, 200);
    let (pool, _) = open_pool(&disk, 128);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let ring = BufferAccessStrategy::bulk_read(&pool);
    for number in 0..200 {
        let mut page = fork.write_with(block(number), Some(&ring)).expect("read");
        if number < 60 {
            page.mark_dirty(Lsn(16));
        }
    }
    assert_eq!(pool.dirty_before(Lsn::MAX, false).len(), 60);
    assert_eq!(pool.stats().ring_waits, 0);
    assert_eq!(pool.stats().ring_wait_log_time, Duration::ZERO);
    // Forty frames were never needed.
    assert!(pool.stats().allocations < 100, "{:?}", pool.stats());
}

/// A pass that changes every page costs one flush of the log for most of a ring, and whoever makes
/// it writes nothing itself.
#[test]
fn a_ring_of_changed_pages_is_cleaned_for_it_in_batches() {
    const PAGES: u32 = 3000;
    let disk = SimDisk::new(33);
    lay_out(&disk, PAGES);
    let log = TestLog::ended(Lsn(16));
    let settings = options(TornPageProtection::DoubleWrite, 1024);
    let store = TestStore::open(&disk, 512, &log, &settings).expect("no fault armed");
    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
    let ring = BufferAccessStrategy::vacuum(&store.pool, 2 << 20).expect("not zero");
    assert_eq!(ring.frames(), 64);
    for number in 0..PAGES {
        let mut page = fork.write_with(block(number), Some(&ring)).expect("read");
        log.change(&mut page, u64::from(number));
    }
    let (pool, writer) = (store.pool.stats(), store.writer.stats());
    assert!(pool.reuses > u64::from(PAGES) * 9 / 10, "{pool:?}");
    assert!(pool.allocations < 300, "{pool:?}");
    assert!(writer.log_flushes * 10 < u64::from(PAGES), "{writer:?}");
    // The log is asked for once for most of a ring, while the cleaner is at the pages before.
    let asked = log.asked.load(Ordering::SeqCst);
    assert!(
        asked * 64 > u64::from(PAGES) && asked * 20 < u64::from(PAGES),
        "{asked}"
    );
    for row in store.pool.io_rows() {
        if row.backend_type == BackendType::ClientBackend {
            assert_eq!((row.writes, row.fsyncs), (0, 0), "{row:?}");
        }
    }
    for number in 0..PAGES {
        let page = fork.read_with(block(number), Some(&ring)).expect("read");
        assert_eq!(page.u64_at(24), u64::from(number));
    }
}

#[test]
fn a_sequential_pass_has_its_pages_read_ahead_once() {
    const PAGES: u32 = 600;
    let disk = SimDisk::new(34);
    lay_out(&disk, PAGES);
    let (pool, _) = open_pool(&disk, 1024);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let ring = BufferAccessStrategy::bulk_read(&pool);
    let mut ahead = ReadAhead::new(PAGES, Some(Arc::clone(&ring)));
    for number in 0..PAGES {
        ahead.at(&fork, number);
        let page = fork.read_with(block(number), Some(&ring)).expect("read");
        assert_eq!(page.u64_at(24), 1000 + u64::from(number));
    }
    let ForkStats { reads, .. } = fork.stats();
    // Pages that the pass had just left behind may have been read once more.
    let pages = u64::from(PAGES);
    assert!((pages..pages + 64).contains(&reads), "{reads}");
    let stats = pool.stats();
    assert_eq!(stats.reads + stats.prefetched, reads);
}

#[test]
fn a_pass_that_reads_from_the_device_has_more_under_way() {
    const PAGES: u32 = 4000;
    let disk = SimDisk::new(37);
    lay_out(&disk, PAGES);
    let (pool, _) = open_pool(&disk, 16_384);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let ring = BufferAccessStrategy::bulk_read(&pool);
    let at_first = ring.frames();
    let model = LatencyModel {
        access: 40_000,
        parallel: 100,
        ..LatencyModel::nvme()
    };
    disk.set_latency(Some((model, LatencyMode::Sleep)));
    let mut ahead = ReadAhead::new(PAGES, Some(Arc::clone(&ring)));
    for number in 0..PAGES {
        ahead.at(&fork, number);
        drop(fork.read_with(block(number), Some(&ring)).expect("read"));
    }
    let depth = ReadAheadOptions::default().depth;
    // The reader's own read, of a page that it reaches first, comes on top. A busy machine may not
    // give all workers a processor before the first read ends.
    let most = disk.most_served_at_once();
    assert!((depth / 2..=depth + 1).contains(&most), "{most}");
    assert!(ring.frames() > at_first && ring.frames() <= 16_384 / 8);
}

#[test]
fn only_the_ring_of_a_scan_widens_and_not_beyond_its_share() {
    let (pool, _) = open_pool(&SimDisk::new(38), 8192);
    let rings = [
        (BufferAccessStrategy::bulk_read(&pool), 1024),
        (BufferAccessStrategy::bulk_write(&pool), 1024),
        (
            BufferAccessStrategy::vacuum(&pool, 1 << 20).expect("a ring"),
            128,
        ),
    ];
    assert_eq!(rings[0].0.frames(), 256);
    for (ring, most) in rings {
        ring.widen(300);
        assert!(ring.frames() <= 300 || ring.context() != IoContext::BulkRead);
        for _ in 0..20 {
            ring.widen(1 << 20);
        }
        assert_eq!(ring.frames(), most);
    }
}

#[test]
fn hits_are_counted_by_fork_and_by_backend() {
    let disk = SimDisk::new(35);
    lay_out(&disk, 4);
    let (pool, _) = open_pool(&disk, 64);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let ring = BufferAccessStrategy::bulk_read(&pool);
    for _ in 0..3 {
        drop(fork.read(block(0)).expect("read"));
    }
    {
        let _who = BackendType::AutovacuumWorker.enter();
        for _ in 0..5 {
            drop(fork.pin(block(0)).expect("resident"));
        }
    }
    drop(fork.read_with(block(0), Some(&ring)).expect("resident"));
    assert_eq!(fork.stats(), ForkStats { hits: 8, reads: 1 });
    let hits = |who, why| {
        let rows = pool.io_rows();
        let row = rows.iter().find(|row| {
            (row.backend_type, row.context, row.object) == (who, why, IoObject::Relation)
        });
        row.map_or(0, |row| row.hits)
    };
    let all = || {
        (
            hits(BackendType::ClientBackend, IoContext::Normal),
            hits(BackendType::AutovacuumWorker, IoContext::Normal),
            hits(BackendType::ClientBackend, IoContext::BulkRead),
        )
    };
    assert_eq!(all(), (2, 5, 1));
    // The counts of a dropped file stay in the totals.
    drop(fork);
    pool.drop_file(FILE).expect("no fault armed");
    assert_eq!(all(), (2, 5, 1));
    assert_eq!(pool.stats().hits, 8);
}

/// A working set in use keeps its place while a scan, a load of twice the pool and a vacuum pass.
#[test]
fn bulk_operations_leave_the_working_set_in_the_pool() {
    const FRAMES: u32 = 512;
    const HOT: u32 = 300;
    const COLD: u32 = FRAMES * 2;
    let disk = SimDisk::new(36);
    lay_out(&disk, HOT + COLD);
    let log = TestLog::ended(Lsn(16));
    let settings = options(TornPageProtection::DoubleWrite, 1024);
    let store = TestStore::open(&disk, FRAMES as usize, &log, &settings).expect("no fault armed");
    let pool = &store.pool;
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let new = pool.create_file(FileId(8)).expect("space");
    let first = new.extend(COLD).expect("space");
    assert_eq!(first, block(0));
    let (ended, misses, visits) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let visit = |rng: &mut StdRng| {
        let number = block(rng.random_range(0..HOT));
        if fork.pin_resident(number).is_none() {
            misses.fetch_add(1, Ordering::Relaxed);
        }
        drop(fork.read(number).expect("read"));
        visits.fetch_add(1, Ordering::Relaxed);
    };
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..20 * HOT {
        visit(&mut rng);
    }
    misses.store(0, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = StdRng::seed_from_u64(2);
            while !ended.load(Ordering::Relaxed) {
                visit(&mut rng);
            }
        });
        let scan = BufferAccessStrategy::bulk_read(pool);
        let mut ahead = ReadAhead::new(HOT + COLD, Some(Arc::clone(&scan)));
        for number in 0..HOT + COLD {
            ahead.at(&fork, number);
            drop(fork.read_with(block(number), Some(&scan)).expect("read"));
        }
        let load = BufferAccessStrategy::bulk_write(pool);
        for number in 0..COLD {
            let pin = new.pin_new_with(block(number), Some(&load)).expect("room");
            log.change(&mut pin.write(), 1);
        }
        let vacuum = BufferAccessStrategy::vacuum(pool, 2 << 20);
        for number in 0..COLD {
            let page = fork.write_with(block(HOT + number), vacuum.as_ref());
            log.change(&mut page.expect("read"), 2);
        }
        ended.store(true, Ordering::Relaxed);
    });
    let (misses, visits) = (misses.into_inner(), visits.into_inner());
    assert!(
        misses * 50 < visits.max(1) || misses < u64::from(HOT) / 10,
        "{misses} of {visits} visits missed; {:?}",
        pool.stats()
    );
    assert!(
        hot(&fork, HOT) > HOT as usize * 9 / 10,
        "{}",
        hot(&fork, HOT)
    );
}
