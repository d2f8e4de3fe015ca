//! Tests of the behaviour that both kinds of disk, and all kinds of queues, have in common.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use evenkeel_io::{
    AlignedBuf, Disk, File, FileDisk, IoBuf, IoErrorKind, IoMethod, IoObserver, IoOp, IoQueue,
    IoResult, IoWork, MeteredDisk, Observed, OpKind, OpenOptions, SimDisk,
};

/// Runs a test on every kind of disk, each with an empty directory that the test may fill.
fn on_every_disk(test: impl Fn(&dyn Disk, &Path)) {
    for method in [
        IoMethod::Sync,
        IoMethod::Worker { threads: 3 },
        IoMethod::IoUring { threads: 3 },
    ] {
        let dir = tempfile::tempdir().unwrap();
        test(&FileDisk::new(method), dir.path());
    }
    let sim = SimDisk::new(7);
    sim.create_dir_all(Path::new("/data")).unwrap();
    test(&sim, Path::new("/data"));
}

fn kind<T>(result: IoResult<T>) -> Option<IoErrorKind> {
    result.err().map(|error| error.kind())
}

fn create(disk: &dyn Disk, path: &Path) -> Arc<dyn File> {
    disk.open(path, OpenOptions::create_new()).unwrap()
}

#[test]
fn files_are_read_as_written() {
    on_every_disk(|disk, dir| {
        let path = dir.join("file");
        let file = create(disk, &path);
        assert!(file.is_empty().unwrap());
        file.write_all_at(b"hello", 3).unwrap();
        file.allocate(0, 20).unwrap();
        file.start_writeback(0, 20).unwrap();
        file.await_writeback(0, 20).unwrap();
        assert_ne!(disk.free_space(dir).unwrap(), Some(0));
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        disk.sync_dir(dir).unwrap();
        assert_eq!((file.len().unwrap(), file.path()), (20, &*path));
        let mut buf = [1; 32];
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), 20);
        assert_eq!(&buf[..10], b"\0\0\0hello\0\0");
        assert_eq!(file.read_at(&mut buf, 20).unwrap(), 0);
        let error = file.read_exact_at(&mut buf, 0).unwrap_err();
        assert_eq!(error.kind(), IoErrorKind::UnexpectedEof);
        assert_eq!(
            (error.op(), error.offset(), error.path()),
            (OpKind::Read, Some(20), &*path)
        );
        file.set_len(5).unwrap();
        file.set_len(7).unwrap();
        file.read_exact_at(&mut buf[..7], 0).unwrap();
        assert_eq!(&buf[..7], b"\0\0\0he\0\0");
        let truncate = OpenOptions::read_write().truncate();
        assert!(disk.open(&path, truncate).unwrap().is_empty().unwrap());
    });
}

#[test]
fn names_and_their_errors_are_the_same() {
    on_every_disk(|disk, dir| {
        let path = |name: &str| dir.join(name);
        disk.create_dir_all(&path("a/b/c")).unwrap();
        disk.create_dir_all(&path("a/b/c")).unwrap();
        create(disk, &path("a/x")).write_all_at(b"x", 0).unwrap();
        create(disk, &path("a/y"));
        assert_eq!(disk.list(&path("a")).unwrap(), ["b", "x", "y"]);
        disk.rename(&path("a/x"), &path("a/y")).unwrap();
        disk.rename(&path("a/y"), &path("a/b/z")).unwrap();
        assert_eq!(disk.list(&path("a")).unwrap(), ["b"]);
        assert!(disk.exists(&path("a/b/z")).unwrap() && disk.exists(&path("a/b")).unwrap());
        assert!(!disk.exists(&path("a/x")).unwrap() && !disk.exists(&path("a/b/z/q")).unwrap());
        disk.sync_dir(&path("a")).unwrap();

        let open = |name: &str, opts| kind(disk.open(&path(name), opts));
        assert_eq!(
            open("none", OpenOptions::read_write()),
            Some(IoErrorKind::NotFound)
        );
        assert_eq!(
            open("none/f", OpenOptions::create()),
            Some(IoErrorKind::NotFound)
        );
        let existing = open("a/b/z", OpenOptions::create_new());
        assert_eq!(existing, Some(IoErrorKind::AlreadyExists));
        assert_eq!(
            open("a", OpenOptions::read_write()),
            Some(IoErrorKind::InvalidInput)
        );
        assert_eq!(
            open("a/b/z", OpenOptions::default()),
            Some(IoErrorKind::InvalidInput)
        );
        let refused = kind(disk.create_dir_all(&path("a/b/z")));
        assert_eq!(refused, Some(IoErrorKind::AlreadyExists));
        let below_a_file = kind(disk.create_dir_all(&path("a/b/z/q")));
        assert_eq!(below_a_file, Some(IoErrorKind::NotFound));
        assert_eq!(
            kind(disk.remove(&path("none"))),
            Some(IoErrorKind::NotFound)
        );
        assert_eq!(
            kind(disk.rename(&path("none"), &path("n"))),
            Some(IoErrorKind::NotFound)
        );
        assert_eq!(kind(disk.list(&path("none"))), Some(IoErrorKind::NotFound));
        assert_eq!(
            kind(disk.sync_dir(&path("none"))),
            Some(IoErrorKind::NotFound)
        );
        let read_only = disk.open(&path("a/b/z"), OpenOptions::read_only()).unwrap();
        assert_eq!(
            kind(read_only.write_all_at(b"q", 0)),
            Some(IoErrorKind::InvalidInput)
        );
        disk.remove(&path("a/b/z")).unwrap();
        let mut still = [0; 1];
        read_only.read_exact_at(&mut still, 0).unwrap();
        assert_eq!(&still, b"x");
    });
}

#[test]
fn a_lock_has_one_holder() {
    on_every_disk(|disk, dir| {
        let path = dir.join("lock");
        let guard = disk.lock(&path).unwrap();
        guard.file().write_all_at(b"1234", 0).unwrap();
        let error = disk.lock(&path).map(|_| ()).unwrap_err();
        assert_eq!(
            (error.op(), error.kind()),
            (OpKind::Lock, IoErrorKind::Locked)
        );
        assert!(error.to_string().contains("lock"), "{error}");
        drop(guard);
        let guard = disk.lock(&path).unwrap();
        assert_eq!(guard.file().len().unwrap(), 4);
    });
}

/// Keeps writes under way until it is told to let them end.
#[derive(Default)]
struct Held {
    writes: AtomicUsize,
    released: AtomicBool,
}

impl IoObserver for Held {
    fn classify(&self, _: &Path) -> u8 {
        0
    }
    fn account(&self) -> u64 {
        0
    }
    fn begin(&self, op: &Observed<'_>) -> u64 {
        self.writes
            .fetch_add(usize::from(op.kind == OpKind::Write), Ordering::SeqCst);
        0
    }
    fn end(&self, op: &Observed<'_>, _: u64) {
        while op.kind == OpKind::Write && !self.released.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}

/// For each way of I/O, and each way of writing that it has.
#[test]
fn a_lock_is_given_back_after_the_writes_under_way() {
    let methods = [
        IoMethod::Worker { threads: 3 },
        IoMethod::IoUring { threads: 3 },
    ];
    for (method, direct) in methods
        .into_iter()
        .flat_map(|method| [(method, false), (method, true)])
    {
        let dir = tempfile::tempdir().unwrap();
        let held = Arc::new(Held::default());
        let system: Arc<dyn Disk> = Arc::new(FileDisk::new(method));
        let observer = Arc::clone(&held) as Arc<dyn IoObserver>;
        let disk = MeteredDisk::new(Arc::clone(&system), observer);
        let lock = dir.path().join("lock");
        let guard = disk.lock(&lock).unwrap();
        let path = dir.path().join("file");
        let opts = OpenOptions::create().direct(direct);
        let Ok(file) = disk.open(&path, opts) else {
            let test = "a_lock_is_given_back_after_the_writes_under_way";
            evenkeel_io::skip(test, "no direct I/O in the temporary directory");
            continue;
        };
        let write = |tag: u64| {
            let bufs = vec![IoBuf::zeroed(4096)];
            IoOp::write(Arc::clone(&file), tag * 4096, bufs, tag)
        };
        let mut queue = disk.queue(1);
        queue.submit(vec![write(0), write(1)]);
        while held.writes.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let given_back = std::thread::spawn(move || drop(guard));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(kind(system.lock(&lock)), Some(IoErrorKind::Locked));
        held.released.store(true, Ordering::SeqCst);
        given_back.join().unwrap();
        drop(system.lock(&lock).unwrap());
        // Operations that begin later change nothing.
        let mut done = Vec::new();
        queue.wait(2, &mut done);
        done.sort_by_key(|completion| completion.tag());
        assert_eq!(done[0].result, Ok(4096));
        let unlocked = Some(IoErrorKind::Unlocked);
        assert_eq!(kind(done.remove(1).result), unlocked);
        assert_eq!(file.len().unwrap(), 4096);
        assert_eq!(kind(file.set_len(0)), unlocked);
        assert_eq!(kind(file.allocate(0, 10_000)), unlocked);
        assert_eq!(kind(disk.remove(&path)), unlocked);
        assert_eq!(kind(disk.rename(&path, &lock)), unlocked);
        let new = dir.path().join("new");
        assert_eq!(kind(disk.open(&new, OpenOptions::create())), unlocked);
        assert_eq!(kind(disk.create_dir_all(&new)), unlocked);
    }
}

/// A child that is between its fork and its exec still has every descriptor of its parent.
#[test]
fn a_lock_that_is_given_up_is_free_while_children_start() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(IoMethod::Sync);
    let path = dir.path().join("lock");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let starting = || {
            while !over.load(Ordering::Relaxed) {
                std::process::Command::new("true").status().unwrap();
            }
        };
        scope.spawn(starting);
        let refused = (0..5_000).filter(|_| disk.lock(&path).is_err()).count();
        over.store(true, Ordering::Relaxed);
        assert_eq!(refused, 0);
    });
}

#[test]
fn direct_files_read_and_write_whole_blocks() {
    on_every_disk(|disk, dir| {
        let path = dir.join("direct");
        let file = match disk.open(&path, OpenOptions::create().direct(true)) {
            Ok(file) => file,
            Err(error) => {
                // Some temporary directories are on file systems without direct I/O.
                assert_eq!(error.kind(), IoErrorKind::Unsupported);
                let test = "direct_files_read_and_write_whole_blocks";
                evenkeel_io::skip(test, "no direct I/O in the temporary directory");
                return;
            }
        };
        let mut buf = AlignedBuf::zeroed(16384);
        buf.fill(5);
        file.allocate(0, 65536).unwrap();
        file.write_all_at(&buf, 8192).unwrap();
        file.sync_data().unwrap();
        file.read_exact_at(&mut buf[..8192], 4096).unwrap();
        assert!(buf[..4096].iter().all(|&b| b == 0) && buf[4096..].iter().all(|&b| b == 5));
        assert_eq!(
            kind(file.write_all_at(&buf[..4096], 100)),
            Some(IoErrorKind::InvalidInput)
        );
        file.set_len(10_000).unwrap();
        assert_eq!(file.read_at(&mut buf, 8192).unwrap(), 10_000 - 8192);
    });
}

/// Writes blocks through a queue and reads them back, with many operations in flight.
fn queue_round_trip(queue: &mut dyn IoQueue, file: &Arc<dyn File>) {
    const COUNT: u64 = 100;
    let block = |n: u64, len: usize| {
        let mut buf = IoBuf::zeroed(len);
        buf.fill(u8::try_from(n).unwrap());
        buf
    };
    let write = |n: u64| {
        let bufs = vec![block(n, 4096), block(n, 4096)];
        IoOp::write(Arc::clone(file), n * 8192, bufs, n)
    };
    let mut done = Vec::new();
    queue.submit((0..COUNT).map(write).collect());
    assert_eq!(queue.in_flight(), 100);
    while queue.in_flight() > 10 {
        queue.poll(&mut done);
    }
    queue.wait(usize::MAX, &mut done);
    assert_eq!((queue.in_flight(), done.len()), (0, 100));
    let mut tags: Vec<u64> = done.iter().map(|completion| completion.tag()).collect();
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..COUNT));
    assert!(done.iter().all(|completion| completion.result == Ok(8192)));

    done.clear();
    queue.submit(vec![IoOp::sync_data(Arc::clone(file), 1000)]);
    queue.wait(1, &mut done);
    assert!(
        done.pop()
            .is_some_and(|completion| completion.result == Ok(0))
    );

    let read = |n: u64| {
        let bufs = vec![IoBuf::zeroed(100), IoBuf::zeroed(8092)];
        IoOp::read(Arc::clone(file), n * 8192, bufs, n)
    };
    queue.submit((0..COUNT + 1).map(read).collect());
    while queue.in_flight() > 0 {
        queue.wait(1, &mut done);
    }
    for completion in done {
        let tag = completion.tag();
        let expected = if tag == COUNT { 0 } else { 8192 };
        assert_eq!(completion.result, Ok(expected));
        let byte = u8::try_from(if tag == COUNT { 0 } else { tag }).unwrap();
        let mut bytes = completion.op.bufs.iter().flat_map(|buf| buf.iter());
        assert!(bytes.all(|&b| b == byte), "block {tag}");
    }
}

#[test]
fn queues_carry_out_everything_once_and_hand_it_back() {
    on_every_disk(|disk, dir| {
        let file = create(disk, &dir.join("file"));
        for depth in [1, 4, 1000] {
            queue_round_trip(&mut *disk.queue(depth), &file);
        }
    });
}

#[test]
fn queued_operations_report_their_own_errors() {
    on_every_disk(|disk, dir| {
        let path = dir.join("file");
        create(disk, &path);
        let read_only = disk.open(&path, OpenOptions::read_only()).unwrap();
        let mut queue = disk.queue(4);
        let mut done = Vec::new();
        queue.wait(3, &mut done);
        queue.poll(&mut done);
        assert!(done.is_empty(), "nothing is in flight");
        let refused = IoOp::write(Arc::clone(&read_only), 0, vec![IoBuf::zeroed(10)], 1);
        let write_back = IoWork::StartWriteback { offset: 0, len: 10 };
        let advice = IoOp {
            file: read_only,
            work: write_back,
            bufs: Vec::new(),
            tag: 2,
            finish: None,
        };
        queue.submit(vec![refused, advice]);
        queue.wait(2, &mut done);
        done.sort_by_key(|completion| completion.tag());
        assert_eq!(
            done[0].result.as_ref().unwrap_err().kind(),
            IoErrorKind::InvalidInput
        );
        assert_eq!(done[1].result, Ok(0));
    });
}

#[test]
fn an_operation_may_have_its_own_finish() {
    on_every_disk(|disk, dir| {
        let file = create(disk, &dir.join("file"));
        file.write_all_at(&[7; 1000], 0).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let read = |tag| {
            let sender = sender.clone();
            IoOp::read(Arc::clone(&file), 0, vec![IoBuf::zeroed(1000)], tag).finished_by(
                move |completion| {
                    let read = completion.op.bufs[0].iter().all(|&byte| byte == 7);
                    sender
                        .send((completion.tag(), completion.result, read))
                        .unwrap();
                },
            )
        };
        let mut queue = disk.queue(2);
        let mut done = Vec::new();
        queue.submit((0..6).map(read).collect());
        queue.submit(vec![IoOp::sync_data(Arc::clone(&file), 6)]);
        queue.wait(7, &mut done);
        assert_eq!((done.len(), queue.in_flight()), (1, 0));
        assert!(!done[0].blocked);
        let mut finished: Vec<_> = receiver.try_iter().collect();
        finished.sort_by_key(|(tag, ..)| *tag);
        assert!(
            finished
                .into_iter()
                .eq((0..6).map(|tag| (tag, Ok(1000), true)))
        );
        // A queue that is dropped finishes, too.
        queue.submit((10..20).map(read).collect());
        drop(queue);
        assert_eq!(receiver.iter().take(10).count(), 10);
    });
}

#[test]
fn a_dropped_queue_lets_its_operations_finish() {
    on_every_disk(|disk, dir| {
        let file = create(disk, &dir.join("file"));
        let mut queue = disk.queue(2);
        let write = |n| IoOp::write(Arc::clone(&file), n * 10, vec![IoBuf::zeroed(10)], n);
        queue.submit((0..20).map(write).collect());
        drop(queue);
        while file.len().unwrap() < 200 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn time_never_goes_back_and_random_numbers_differ() {
    on_every_disk(|disk, _| {
        let mut last = disk.now_micros();
        assert!(last > 1_700_000_000_000_000, "microseconds since 1970");
        for _ in 0..100 {
            let now = disk.now_micros();
            assert!(now >= last);
            last = now;
        }
        assert_ne!(disk.random_u64(), disk.random_u64());
    });
}
