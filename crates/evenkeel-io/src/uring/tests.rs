use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;
use crate::queue::{IoCompletion, IoQueue};
use crate::shared_queue::SharedQueue;
use crate::shared_queue::tests::PATIENCE;
use crate::{
    Disk, File, FileDisk, IoBuf, IoMethod, IoObserver, MeteredDisk, Observed, OpenOptions, skip,
};

/// Rings, unless the system gives none.
fn rings(test: &str) -> Option<Arc<RingPool>> {
    rings_by(RingSetup::default(), test)
}

fn rings_by(setup: RingSetup, test: &str) -> Option<Arc<RingPool>> {
    let locks = Arc::default();
    match RingPool::new(WorkerPool::new(4), 4, setup, &locks) {
        Ok(rings) => Some(rings),
        Err(error) => {
            skip(test, &format!("the system gives no ring: {error}"));
            None
        }
    }
}

fn queue(rings: &Arc<RingPool>, depth: usize) -> SharedQueue {
    SharedQueue::new(Arc::clone(rings) as Arc<dyn Carrier>, depth)
}

/// A device of the slowest kind: a named pipe, whose reads last until somebody writes.
fn pipe(dir: &Path) -> PathBuf {
    let path = dir.join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    path
}

fn open(path: &Path, opts: OpenOptions) -> Arc<dyn File> {
    FileDisk::new(IoMethod::Sync).open(path, opts).unwrap()
}

fn read(file: &Arc<dyn File>, offset: u64, lengths: &[usize], tag: u64) -> IoOp {
    let bufs = lengths.iter().map(|len| IoBuf::zeroed(*len)).collect();
    IoOp::read(Arc::clone(file), offset, bufs, tag)
}

fn all(queue: &mut SharedQueue) -> Vec<IoCompletion> {
    let mut done = Vec::new();
    while queue.in_flight() > 0 {
        queue.wait(1, &mut done);
    }
    done.sort_by_key(IoCompletion::tag);
    done
}

fn bytes(completion: &IoCompletion) -> Vec<u8> {
    let bufs = completion.op.bufs.iter();
    bufs.flat_map(|buf| buf.iter()).copied().collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// How many operations are under way, and were at most.
#[derive(Default)]
struct UnderWay {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl IoObserver for UnderWay {
    fn classify(&self, _: &Path) -> u8 {
        0
    }
    fn account(&self) -> u64 {
        0
    }
    fn begin(&self, _: &Observed<'_>) -> u64 {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        0
    }
    fn end(&self, _: &Observed<'_>, _: u64) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_ring_has_as_many_reads_under_way_as_their_queues_depth() {
    let Some(rings) = rings("a_ring_has_as_many_reads_under_way_as_their_queues_depth") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = pipe(dir.path());
    for depth in [1, 16, 300] {
        let seen = Arc::new(UnderWay::default());
        let observer = Arc::clone(&seen) as Arc<dyn IoObserver>;
        let disk = MeteredDisk::new(Arc::new(FileDisk::new(IoMethod::Sync)), observer);
        let file = disk.open(&path, OpenOptions::read_write()).unwrap();
        let mut queue = queue(&rings, depth);
        let reads = (0..2 * depth as u64).map(|tag| read(&file, 0, &[1], tag));
        queue.submit(reads.collect());
        until("the depth is reached", || {
            seen.now.load(Ordering::SeqCst) == depth
        });
        fs::write(&path, vec![7; 2 * depth]).unwrap();
        let done = all(&mut queue);
        assert!(done.iter().all(|done| done.result == Ok(1)));
        assert!(done.iter().map(IoCompletion::tag).eq(0..2 * depth as u64));
        assert_eq!(seen.now.load(Ordering::SeqCst), 0);
        assert_eq!(seen.most.load(Ordering::SeqCst), depth);
    }
}

#[test]
fn a_ring_carries_short_transfers_on() {
    let Some(rings) = rings("a_ring_carries_short_transfers_on") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = pipe(dir.path());
    let file = open(&path, OpenOptions::read_write());
    let mut queue = queue(&rings, 4);
    queue.submit(vec![read(&file, 0, &[3, 0, 7], 0)]);
    for part in ["1234", "5", "67890"] {
        fs::write(&path, part).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let done = all(&mut queue);
    assert_eq!(done[0].result, Ok(10));
    assert_eq!(bytes(&done[0]), b"1234567890");
    // More slices than the system takes in one call, and the end of a file.
    let path = dir.path().join("file");
    let content: Vec<u8> = (0..30_000_u32).map(|n| n as u8).collect();
    fs::write(&path, &content).unwrap();
    let file = open(&path, OpenOptions::read_only());
    let many = vec![8; 3_000];
    queue.submit(vec![
        read(&file, 100, &many, 1),
        read(&file, 20_000, &many, 2),
        read(&file, 40_000, &[8], 3),
        read(&file, 0, &[0, 0], 4),
        read(&file, u64::MAX - 3, &[8], 5),
    ]);
    let done = all(&mut queue);
    let lengths = done.iter().map(|done| done.result.clone().ok());
    let expected = [Some(24_000), Some(10_000), Some(0), Some(0), None];
    assert!(lengths.eq(expected));
    assert_eq!(bytes(&done[0]), content[100..24_100]);
    assert_eq!(bytes(&done[1])[..10_000], content[20_000..]);
}

/// Also a ring as older kernels give it, and one whose queues are far too small.
#[test]
fn a_ring_does_more_than_it_has_places_for() {
    const TEST: &str = "a_ring_does_more_than_it_has_places_for";
    for setup in [
        RingSetup::default(),
        RingSetup(|| io_uring::IoUring::builder().setup_cqsize(1024).build(256)),
        RingSetup(|| io_uring::IoUring::new(2)),
    ] {
        if let Some(rings) = rings_by(setup, TEST) {
            read_more_than_places(TEST, &rings);
        }
    }
}

fn read_more_than_places(test: &str, rings: &Arc<RingPool>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let content: Vec<u8> = (0..1 << 20).map(|n: u32| (n >> 12) as u8).collect();
    fs::write(&path, &content).unwrap();
    let count = 4 * ring::MOST as u64;
    for (depth, direct) in [(100_000, false), (10, false), (100_000, true)] {
        let opts = OpenOptions::read_only().direct(direct);
        let Ok(file) = FileDisk::new(IoMethod::Sync).open(&path, opts) else {
            skip(test, "no direct I/O");
            continue;
        };
        let mut queue = queue(rings, depth);
        let place = |tag| tag % 256 * 4096;
        let reads = (0..count).map(|tag| read(&file, place(tag), &[4096], tag));
        queue.submit(reads.collect());
        let done = all(&mut queue);
        assert_eq!(done.len() as u64, count);
        for (tag, done) in (0..count).zip(&done) {
            assert_eq!((done.tag(), &done.result), (tag, &Ok(4096)));
            let at = place(tag) as usize;
            assert_eq!(bytes(done), content[at..at + 4096]);
        }
    }
}

#[test]
fn a_panic_behind_a_rings_operation_reaches_its_queue_and_strands_nobody() {
    let Some(rings) = rings("a_panic_behind_a_rings_operation_reaches_its_queue") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, [7; 100]).unwrap();
    let file = open(&path, OpenOptions::read_only());
    let mut queue = queue(&rings, 4);
    let mut ops: Vec<_> = (0..20).map(|tag| read(&file, 0, &[100], tag)).collect();
    ops.push(read(&file, 0, &[100], 20).finished_by(|_| panic!("as the test wants it")));
    queue.submit(ops);
    let mut done = Vec::new();
    let waited = catch_unwind(AssertUnwindSafe(|| queue.wait(21, &mut done)));
    assert!(waited.is_err());
    done.extend(all(&mut queue));
    assert_eq!((done.len(), queue.in_flight()), (20, 0));
}

#[test]
fn rings_end_with_their_pool_and_after_their_operations() {
    let Some(rings) = rings("rings_end_with_their_pool_and_after_their_operations") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = pipe(dir.path());
    let file = open(&path, OpenOptions::read_write());
    let mut queue = queue(&rings, 1);
    let read_bytes = Arc::new(AtomicUsize::new(0));
    let reads = (0..3).map(|tag| {
        let read_bytes = Arc::clone(&read_bytes);
        read(&file, 0, &[10], tag).finished_by(move |done| {
            read_bytes.fetch_add(done.result.unwrap(), Ordering::SeqCst);
        })
    });
    queue.submit(reads.collect());
    let mailboxes: Vec<_> = rings.rings.iter().map(Arc::downgrade).collect();
    drop((queue, rings));
    fs::write(&path, [1; 30]).unwrap();
    until("the threads end", || {
        mailboxes.iter().all(|ring| ring.upgrade().is_none())
    });
    assert_eq!(read_bytes.load(Ordering::SeqCst), 30);
}

/// A pool that is dropped while its threads are about to wait.
#[test]
fn no_ring_outlives_a_pool_that_is_gone_at_once() {
    for _ in 0..300 {
        let Some(rings) = rings("no_ring_outlives_a_pool_that_is_gone_at_once") else {
            return;
        };
        let mailboxes: Vec<_> = rings.rings.iter().map(Arc::downgrade).collect();
        drop(rings);
        until("the threads end", || {
            mailboxes.iter().all(|ring| ring.upgrade().is_none())
        });
    }
}

/// The lock files that the kernel keeps open for the rings of this process.
fn kept_open(lock: &Path) -> usize {
    let rings = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| {
        let fd = fd.ok()?.path();
        let target = fs::read_link(&fd).ok()?;
        let is_ring = target.to_string_lossy().contains("io_uring");
        let name = fd.file_name().unwrap().to_owned();
        is_ring.then(|| fs::read_to_string(Path::new("/proc/self/fdinfo").join(name)))
    });
    let name = lock.file_name().unwrap().to_string_lossy().into_owned();
    let texts: Vec<String> = rings.filter_map(Result::ok).collect();
    texts.iter().filter(|text| text.contains(&name)).count()
}

/// A process that is killed closes its descriptors, and its rings end later.
#[test]
fn a_ring_keeps_the_lock_file_open_that_its_writes_need() {
    let Some(_) = rings("a_ring_keeps_the_lock_file_open_that_its_writes_need") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(IoMethod::IoUring { threads: 2 });
    let lock = dir.path().join("lock-of-this-very-test");
    let file = disk
        .open(&dir.path().join("file"), OpenOptions::create())
        .unwrap();
    file.write_all_at(&[1; 100], 0).unwrap();
    let use_rings = || {
        let mut queue = disk.queue(64);
        queue.submit((0..64).map(|tag| read(&file, 0, &[100], tag)).collect());
        queue.wait(64, &mut Vec::new());
    };
    for _ in 0..20 {
        assert_eq!(kept_open(&lock), 0);
        let guard = disk.lock(&lock).unwrap();
        use_rings();
        assert!(kept_open(&lock) > 0);
        drop(guard);
        // Free at once, whatever the rings still have.
        drop(disk.lock(&lock).unwrap());
        use_rings();
        until("the rings have let the lock file go", || {
            use_rings();
            kept_open(&lock) == 0
        });
    }
}

/// A container, or an old kernel, answers one of these instead of a ring.
#[test]
fn where_the_system_gives_no_ring_workers_do_its_work() {
    fn refused(errno: i32) -> std::io::Result<io_uring::IoUring> {
        Err(std::io::Error::from_raw_os_error(errno))
    }
    for refusal in [
        RingSetup(|| refused(libc::ENOSYS)),
        RingSetup(|| refused(libc::EPERM)),
        RingSetup(|| refused(libc::EACCES)),
        RingSetup(|| refused(libc::ENOMEM)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let method = IoMethod::IoUring { threads: 3 };
        let disk = FileDisk::with_rings(method, refusal);
        let path = dir.path().join("file");
        let file = disk.open(&path, OpenOptions::create()).unwrap();
        file.write_all_at(&[5; 50], 0).unwrap();
        let mut queue = disk.queue(8);
        queue.submit((0..20).map(|tag| read(&file, 0, &[50], tag)).collect());
        let mut done = Vec::new();
        queue.wait(20, &mut done);
        assert_eq!(done.len(), 20);
        assert!(done.iter().all(|done| bytes(done) == [5; 50]));
    }
}
