//! The hook is the process's, so its test has a process of its own.

use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_io::{
    AlignedBuf, Disk, FileDisk, IO_ALIGN, IoBuf, IoMethod, IoOp, OpenOptions, set_blocking_hook,
};
use rustix::io::ReadWriteFlags;

static CALLS: AtomicUsize = AtomicUsize::new(0);

fn count(work: &mut dyn FnMut()) {
    CALLS.fetch_add(1, Ordering::SeqCst);
    work();
}

/// Whether the file system can say that a read would wait.
fn reads_at_once(path: &Path) -> bool {
    let file = std::fs::File::open(path).unwrap();
    let mut byte = [0];
    let bufs = &mut [IoSliceMut::new(&mut byte)];
    rustix::io::preadv2(file.as_fd(), bufs, 0, ReadWriteFlags::NOWAIT).is_ok()
}

/// Reads the whole file and tells how often the hook was called.
fn calls_for(disk: &dyn Disk, path: &Path, opts: OpenOptions, expected: &[u8]) -> usize {
    let file = disk.open(path, opts).unwrap();
    let mut buf = AlignedBuf::zeroed(expected.len());
    let before = CALLS.load(Ordering::SeqCst);
    file.read_exact_at(&mut buf, 0).unwrap();
    assert!(buf[..] == *expected);
    let calls = CALLS.load(Ordering::SeqCst) - before;
    // A queue tells of each read whether it waited.
    let (mut queue, mut done) = (disk.queue(1), Vec::new());
    let bufs = vec![IoBuf::zeroed(expected.len())];
    queue.submit(vec![IoOp::read(file, 0, bufs, 0)]);
    queue.wait(1, &mut done);
    assert_eq!(done[0].blocked, calls > 0);
    calls
}

#[test]
fn what_the_page_cache_holds_is_read_without_the_hook() {
    set_blocking_hook(count).unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("pages");
    let disk = FileDisk::new(IoMethod::Sync);
    let mut content = AlignedBuf::zeroed(4 * IO_ALIGN);
    content.fill(7);
    let file = disk.open(&path, OpenOptions::create()).unwrap();
    file.write_all_at(&content, 0).unwrap();
    file.sync_all().unwrap();

    let cached = calls_for(&disk, &path, OpenOptions::read_only(), &content);
    assert_eq!(cached, usize::from(!reads_at_once(&path)));
    let direct = OpenOptions::read_only().direct(true);
    if disk.open(&path, direct).is_ok() {
        assert_eq!(calls_for(&disk, &path, direct, &content), 1);
    }
}
