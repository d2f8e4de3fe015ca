//! The directory's lock is given back when nothing of its instance can still write.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use evenkeel_io::{
    BootId, FileDisk, IoBuf, IoMethod, IoObserver, IoOp, IoQueue, IoResult, MeteredDisk, Observed,
    OpKind,
};

use super::*;
use crate::mutant::Mutant;

const SLOW: &str = "slow";
const WRITES: u64 = 40;

/// Keeps writes of one file under way.
#[derive(Default)]
struct Slow {
    waiting: AtomicBool,
    released: AtomicBool,
}

impl IoObserver for Slow {
    fn classify(&self, path: &Path) -> u8 {
        u8::from(path.ends_with(SLOW))
    }

    fn account(&self) -> u64 {
        0
    }

    fn begin(&self, op: &Observed<'_>) -> u64 {
        if op.class == 1 && op.kind == OpKind::Write {
            self.waiting.store(true, Ordering::SeqCst);
            wait_until(|| self.released.load(Ordering::SeqCst));
        }
        0
    }

    fn end(&self, _: &Observed<'_>, _: u64) {}
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A disk with slow writes, whose lock is that of the disk below: it waits for nothing.
struct SlowDisk {
    slow: Arc<MeteredDisk>,
    below: Arc<dyn Disk>,
    /// The processes that the lock file may name were killed.
    killed: AtomicBool,
}

impl SlowDisk {
    fn new(below: &Arc<dyn Disk>, slow: &Arc<Slow>) -> Arc<SlowDisk> {
        let observer = Arc::clone(slow) as Arc<dyn IoObserver>;
        Arc::new(SlowDisk {
            slow: MeteredDisk::new(Arc::clone(below), observer),
            below: Arc::clone(below),
            killed: AtomicBool::new(false),
        })
    }
}

impl Disk for SlowDisk {
    fn open(&self, path: &Path, opts: OpenOptions) -> IoResult<Arc<dyn File>> {
        self.slow.open(path, opts)
    }
    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        self.slow.rename(from, to)
    }
    fn remove(&self, path: &Path) -> IoResult<()> {
        self.slow.remove(path)
    }
    fn create_dir_all(&self, path: &Path) -> IoResult<()> {
        self.slow.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> IoResult<Vec<String>> {
        self.slow.list(dir)
    }
    fn exists(&self, path: &Path) -> IoResult<bool> {
        self.slow.exists(path)
    }
    fn sync_dir(&self, dir: &Path) -> IoResult<()> {
        self.slow.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> IoResult<Box<dyn LockGuard>> {
        self.below.lock(path)
    }
    fn has_open(&self, _: u32, _: &Path) -> bool {
        !self.killed.load(Ordering::SeqCst)
    }
    fn queue(&self, depth: usize) -> Box<dyn IoQueue> {
        self.slow.queue(depth)
    }
    fn random_u64(&self) -> u64 {
        self.below.random_u64()
    }
    fn now_micros(&self) -> u64 {
        self.below.now_micros()
    }
    fn free_space(&self, dir: &Path) -> IoResult<Option<u64>> {
        self.below.free_space(dir)
    }
    fn boot_id(&self) -> Option<BootId> {
        self.below.boot_id()
    }
    fn max_open_files(&self) -> Option<u64> {
        self.below.max_open_files()
    }
}

fn open_at(disk: Arc<dyn Disk>, dir: &Path, config: StorageConfig) -> StorageResult<Arc<Store>> {
    Store::open(disk, dir, config, Arc::new(Toy::default()))
}

/// A queue of the store's disk with writes of the slow file, as a thread of it would leave behind.
fn begin_writes(store: &Store) -> Box<dyn IoQueue> {
    let file = store.dir().join(SLOW);
    let file = store.disk().open(&file, OpenOptions::create());
    let file = file.expect("opens");
    let mut queue = store.disk().queue(WRITES as usize);
    let write = |tag| IoOp::write(Arc::clone(&file), 0, vec![IoBuf::zeroed(4096)], tag);
    queue.submit((0..WRITES).map(write).collect());
    queue
}

/// Whether a store that is poisoned and dropped gives its directory back before its writes have
/// ended; they end by `release`.
fn unlocks_early(system: &dyn Disk, store: Arc<Store>, release: impl FnOnce()) -> bool {
    let lock = store.dir().join(LOCK_FILE);
    store.poison().set("as the test wants it");
    let dropped = std::thread::spawn(move || drop(store));
    let begun = Instant::now();
    let mut is_early = false;
    while !is_early && begun.elapsed() < Duration::from_millis(300) {
        is_early = system.lock(&lock).is_ok();
        std::thread::sleep(Duration::from_millis(5));
    }
    release();
    dropped.join().expect("no panic");
    drop(system.lock(&lock).expect("free by now"));
    is_early
}

/// With writes that threads carry out; the disk counts those of rings in the same way.
fn with_workers(mutant: Option<Mutant>) -> bool {
    let place = tempfile::tempdir().expect("a directory");
    let system: Arc<dyn Disk> = Arc::new(FileDisk::new(IoMethod::Worker { threads: 4 }));
    let slow = Arc::new(Slow::default());
    let disk = SlowDisk::new(&system, &slow);
    let config = StorageConfig { mutant, ..config() };
    let store = open_at(disk, &place.path().join("db"), config).expect("opens");
    let queue = begin_writes(&store);
    wait_until(|| slow.waiting.load(Ordering::SeqCst));
    let is_early = unlocks_early(&*system, store, || {
        slow.released.store(true, Ordering::SeqCst);
    });
    drop(queue);
    is_early
}

#[test]
fn the_directory_is_unlocked_after_the_writes_of_its_instance() {
    assert!(!with_workers(None));
    assert!(with_workers(Some(Mutant::UnlockEarly)), "it is noticed");
}

/// Poisoned in the middle of steps and checkpoints, and opened again in the same process.
#[test]
fn an_instance_that_fails_under_load_is_opened_again_at_once() {
    let methods = [
        IoMethod::Worker { threads: 4 },
        IoMethod::IoUring { threads: 4 },
    ];
    for (method, direct) in methods
        .map(|method| [(method, false), (method, true)])
        .as_flattened()
    {
        let place = tempfile::tempdir().expect("a directory");
        let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(*method));
        let config = StorageConfig {
            io_direct_data: *direct,
            ..config()
        };
        let open = || open_at(Arc::clone(&disk), &place.path().join("db"), config.clone());
        let store = open().expect("opens");
        set_up(&store).expect("set up");
        drop(store);
        let mut least = 0;
        for round in 0..6 {
            let store = open().expect("opens at once");
            let done = steps_done(&store).expect("steps");
            let what = format!("{method:?}, direct {direct}, round {round}");
            assert!(done >= least, "{what}: {done} of {least} steps");
            assert_steps(&store, done, &what);
            least = std::thread::scope(|scope| {
                let steps = scope.spawn(|| steps_until_failure(&store, done));
                let checkpoints =
                    scope.spawn(|| while store.checkpoint(CheckpointMode::Fast).is_ok() {});
                std::thread::sleep(Duration::from_millis(40));
                store.poison().set("as the test wants it");
                checkpoints.join().expect("no panic");
                steps.join().expect("no panic")
            });
        }
    }
}

/// The last step that was durable.
fn steps_until_failure(store: &Store, done: u64) -> u64 {
    let fork = counters(store);
    let mut durable = done;
    for n in done + 1.. {
        let stepped = step(store, &fork, n).and_then(|lsn| store.log().flush(lsn));
        match stepped {
            Ok(()) => durable = n,
            Err(_) => break,
        }
    }
    durable
}

#[test]
fn the_lock_of_a_killed_process_is_waited_for_and_not_for_ever() {
    let system: Arc<dyn Disk> = Arc::new(SimDisk::new(8));
    let disk = SlowDisk::new(&system, &Arc::default());
    let lock = dir().join(LOCK_FILE);
    let open = || open_at(Arc::clone(&disk) as Arc<dyn Disk>, &dir(), config());
    drop(open().expect("opens"));
    let guard = system.lock(&lock).expect("free");
    let begun = Instant::now();
    let refused = open().map(|_| ()).expect_err("its process lives");
    assert!(matches!(refused, StorageError::Locked { .. }), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(2));
    disk.killed.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let opened = scope.spawn(open);
        std::thread::sleep(Duration::from_millis(200));
        assert!(!opened.is_finished());
        drop(guard);
        drop(opened.join().expect("no panic").expect("opens"));
    });
    let _guard = system.lock(&lock).expect("free");
    let refused = open().map(|_| ()).expect_err("it never ends");
    assert!(matches!(refused, StorageError::Locked { .. }), "{refused}");
}
