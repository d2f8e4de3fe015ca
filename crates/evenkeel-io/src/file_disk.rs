//! The operating system's files.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FallocateFlags, IFlags, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::process::{Resource, getrlimit};

use crate::blocking::blocking;
use crate::buffer::AlignedBuf;
use crate::disk::{BootId, Disk, LockGuard};
use crate::error::{IoError, IoErrorKind, IoResult, OpKind};
use crate::file::{File, OpenOptions};
use crate::native::NativeFile;
use crate::queue::{IoMethod, IoQueue, SyncQueue};
use crate::shared_queue::{Carrier, SharedQueue};
use crate::transfer::{read_full, retry, write_full};
use crate::uring::{HeldLocks, RingPool, RingSetup};
use crate::worker::WorkerPool;
use crate::{process, syscalls, transfer};

/// From Linux's `uapi/linux/stat.h` and `uapi/linux/fs.h`, 6.11.
const STATX_WRITE_ATOMIC: u32 = 0x0001_0000;
const RWF_ATOMIC: u32 = 0x0000_0040;
/// From Linux's `uapi/linux/magic.h`.
const BTRFS_SUPER_MAGIC: u64 = 0x9123_683e;
const PROC_SUPER_MAGIC: u64 = 0x9fa0;
/// See random(4).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The operating system's files, with queues of one [`IoMethod`].
pub struct FileDisk {
    /// Carries out what is queued; without one the queue's owner does.
    carrier: Option<Arc<dyn Carrier>>,
    /// Locks that no end of the process gives back before its rings have ended.
    locks: Arc<HeldLocks>,
    /// Directories that were synced, kept open: a sync needs no descriptor then, and cannot fail
    /// for want of one.
    directories: Mutex<HashMap<PathBuf, Arc<OwnedFd>>>,
    /// Wall clock at `started`, in microseconds since 1970; what lies after it is monotonic.
    epoch_micros: u64,
    started: Instant,
}

impl FileDisk {
    /// A disk whose queues work by `method`. The process ignores SIGXFSZ from here on: a limit of
    /// file sizes is an error of the write that meets it.
    ///
    /// Where the system gives no ring, workers do what [`IoMethod::IoUring`] asks for, and one
    /// line of the log says so: a container may forbid io_uring, and a database that does not
    /// start is worse than one that reads as it does everywhere else.
    pub fn new(method: IoMethod) -> Self {
        Self::with_rings(method, RingSetup::default())
    }

    pub(crate) fn with_rings(method: IoMethod, setup: RingSetup) -> Self {
        syscalls::ignore_file_size_signal();
        let locks = Arc::<HeldLocks>::default();
        let carrier: Option<Arc<dyn Carrier>> = match method {
            IoMethod::Sync => None,
            IoMethod::Worker { threads } => Some(WorkerPool::new(threads)),
            IoMethod::IoUring { threads } => Some(carrier_of_rings(threads, setup, &locks)),
        };
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            carrier,
            locks,
            directories: Mutex::default(),
            epoch_micros: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX),
            started: Instant::now(),
        }
    }
}

/// Rings, or workers where there are none.
fn carrier_of_rings(threads: usize, setup: RingSetup, locks: &Arc<HeldLocks>) -> Arc<dyn Carrier> {
    let workers = WorkerPool::new(threads);
    match RingPool::new(Arc::clone(&workers), threads, setup, locks) {
        Ok(rings) => rings,
        Err(error) => {
            tracing::warn!(
                "the system does not allow io_uring ({error}): io_method is worker in effect"
            );
            workers
        }
    }
}

impl FileDisk {
    /// The directory's descriptor: the one that is open, unless another directory has the name.
    fn open_directory(&self, dir: &Path) -> Result<Arc<OwnedFd>, Errno> {
        let path = directory(dir);
        let known = self.directories.lock().get(path).map(Arc::clone);
        if let Some(fd) = known {
            let (named, open) = (retry(|| rustix::fs::stat(path))?, rustix::fs::fstat(&fd)?);
            if (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino) {
                return Ok(fd);
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = Arc::new(retry(|| rustix::fs::open(path, flags, Mode::empty()))?);
        let mut directories = self.directories.lock();
        directories.insert(path.to_owned(), Arc::clone(&fd));
        Ok(fd)
    }
}

/// The directory itself where a relative path's parent is the empty path.
fn directory(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

fn check<T>(op: OpKind, path: &Path, result: Result<T, Errno>) -> IoResult<T> {
    result.map_err(|errno| IoError::from_errno(op, path, None, errno))
}

fn open_file(path: &Path, opts: OpenOptions) -> Result<OsFile, Errno> {
    let mut flags = OFlags::CLOEXEC;
    flags |= match (opts.read, opts.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (true, false) => OFlags::RDONLY,
        (false, false) => return Err(Errno::INVAL),
    };
    if opts.create_new {
        flags |= OFlags::CREATE | OFlags::EXCL;
    } else if opts.create {
        flags |= OFlags::CREATE;
    }
    if opts.truncate {
        flags |= OFlags::TRUNC;
    }
    if opts.direct {
        flags |= OFlags::DIRECT;
    }
    let mode = Mode::RUSR | Mode::WUSR;
    let fd = retry(|| rustix::fs::open(path, flags, mode)).map_err(|errno| {
        // This is how a file system without direct I/O refuses the flag.
        if opts.direct && errno == Errno::INVAL {
            Errno::OPNOTSUPP
        } else {
            errno
        }
    })?;
    if opts.create || opts.create_new {
        overwrite_in_place(&fd);
    }
    if opts.atomic != 0 && !writes_atomically(&fd, opts)? {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(OsFile {
        fd: Arc::new(fd),
        path: path.to_owned(),
        direct: opts.direct,
        atomic: opts.atomic as usize,
        reads_at_once: AtomicBool::new(!opts.direct),
    })
}

/// On a file system that writes every block to a new place (btrfs) a write to space that was
/// allocated, or written before, fails when the disk is full. A file that is still empty can be
/// told to be overwritten in place. It then has no checksums of the file system's; what is
/// written has its own.
fn overwrite_in_place(fd: &OwnedFd) {
    let copies = rustix::fs::fstatfs(fd).is_ok_and(|fs| fs.f_type as u64 == BTRFS_SUPER_MAGIC);
    if !copies || rustix::fs::fstat(fd).map_or(true, |stat| stat.st_size != 0) {
        return;
    }
    let set = rustix::fs::ioctl_getflags(fd)
        .and_then(|flags| rustix::fs::ioctl_setflags(fd, flags | IFlags::NOCOW));
    if let Err(errno) = set {
        tracing::warn!(
            "btrfs does not overwrite a file in place ({errno}): a full disk may end it"
        );
    }
}

/// Whether the kernel guarantees atomic direct writes of this many bytes to the file.
fn writes_atomically(fd: &OwnedFd, opts: OpenOptions) -> Result<bool, Errno> {
    if !opts.direct {
        return Ok(false);
    }
    let wanted = StatxFlags::from_bits_retain(STATX_WRITE_ATOMIC);
    let stat = match retry(|| rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, wanted)) {
        Err(Errno::NOSYS) => return Ok(false),
        stat => stat?,
    };
    let units = stat.stx_atomic_write_unit_min..=stat.stx_atomic_write_unit_max;
    let is_known = stat.stx_mask & STATX_WRITE_ATOMIC != 0;
    Ok(is_known && opts.atomic.is_power_of_two() && units.contains(&opts.atomic))
}

fn create_dir_all(path: &Path) -> Result<(), Errno> {
    let path = directory(path);
    match retry(|| rustix::fs::mkdir(path, Mode::RWXU)) {
        Err(Errno::EXIST) => {
            let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::stat(path)?.st_mode);
            if kind.is_dir() {
                Ok(())
            } else {
                Err(Errno::EXIST)
            }
        }
        Err(Errno::NOENT) => {
            create_dir_all(path.parent().ok_or(Errno::NOENT)?)?;
            match retry(|| rustix::fs::mkdir(path, Mode::RWXU)) {
                Err(Errno::EXIST) => Ok(()),
                other => other,
            }
        }
        other => other,
    }
}

fn list(dir: &Path) -> Result<Vec<String>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = retry(|| rustix::fs::open(directory(dir), flags, Mode::empty()))?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(fd)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if name != "." && name != ".." {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The kernel's boot id, a UUID as text. systemd-nspawn and LXC cover the file with one of their
/// own, which changes with each start of a container while the page cache lives on: a file that
/// is not the kernel's own says nothing.
fn boot_id(path: &Path) -> Option<BootId> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let fd = retry(|| rustix::fs::open(path, flags, Mode::empty())).ok()?;
    let file_system = rustix::fs::fstatfs(&fd).ok()?.f_type as u64;
    if file_system != PROC_SUPER_MAGIC {
        return None;
    }
    let mut text = [0; 64];
    let len = retry(|| rustix::io::read(&fd, &mut text)).ok()?;
    let text = std::str::from_utf8(&text[..len]).ok()?;
    let digits = text.trim().replace('-', "");
    if digits.len() != 32 {
        return None;
    }
    let id = u128::from_str_radix(&digits, 16).ok()?;
    NonZero::new(id).map(BootId)
}

impl Disk for FileDisk {
    fn open(&self, path: &Path, opts: OpenOptions) -> IoResult<Arc<dyn File>> {
        let file = check(OpKind::Open, path, open_file(path, opts))?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        check(OpKind::Rename, from, retry(|| rustix::fs::rename(from, to)))
    }

    fn remove(&self, path: &Path) -> IoResult<()> {
        check(OpKind::Remove, path, retry(|| rustix::fs::unlink(path)))
    }

    fn create_dir_all(&self, path: &Path) -> IoResult<()> {
        check(OpKind::CreateDir, path, create_dir_all(path))
    }

    fn list(&self, dir: &Path) -> IoResult<Vec<String>> {
        check(OpKind::List, dir, list(dir))
    }

    fn exists(&self, path: &Path) -> IoResult<bool> {
        match retry(|| rustix::fs::stat(path)) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(IoError::from_errno(OpKind::Exists, path, None, errno)),
        }
    }

    fn sync_dir(&self, dir: &Path) -> IoResult<()> {
        let synced = self
            .open_directory(dir)
            .and_then(|fd| retry(|| rustix::fs::fsync(&fd)));
        check(OpKind::SyncDir, dir, synced)
    }

    fn lock(&self, path: &Path) -> IoResult<Box<dyn LockGuard>> {
        let file = check(OpKind::Lock, path, open_file(path, OpenOptions::create()))?;
        match retry(|| syscalls::try_lock(file.fd.as_fd())) {
            Ok(()) => Ok(Box::new(OsLock::new(file, &self.locks))),
            Err(Errno::AGAIN | Errno::ACCESS) => {
                Err(IoError::new(OpKind::Lock, path, None, IoErrorKind::Locked))
            }
            Err(errno) => Err(IoError::from_errno(OpKind::Lock, path, None, errno)),
        }
    }

    fn has_open(&self, number: u32, path: &Path) -> bool {
        process::has_open(number, path)
    }

    fn queue(&self, depth: usize) -> Box<dyn IoQueue> {
        match &self.carrier {
            Some(carrier) => Box::new(SharedQueue::new(Arc::clone(carrier), depth)),
            None => Box::new(SyncQueue::default()),
        }
    }

    fn random_u64(&self) -> u64 {
        getrandom::u64().unwrap_or_else(|_| {
            use std::hash::BuildHasher;
            std::collections::hash_map::RandomState::new().hash_one(self.now_micros())
        })
    }

    fn now_micros(&self) -> u64 {
        let elapsed = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.epoch_micros.saturating_add(elapsed)
    }

    fn free_space(&self, dir: &Path) -> IoResult<Option<u64>> {
        let stat = check(OpKind::FreeSpace, dir, retry(|| rustix::fs::statvfs(dir)))?;
        Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    fn boot_id(&self) -> Option<BootId> {
        boot_id(Path::new(BOOT_ID))
    }

    fn max_open_files(&self) -> Option<u64> {
        getrlimit(Resource::Nofile).current
    }
}

struct OsLock {
    file: OsFile,
    locks: Arc<HeldLocks>,
}

impl OsLock {
    fn new(file: OsFile, locks: &Arc<HeldLocks>) -> OsLock {
        locks.add(Arc::clone(&file.fd));
        OsLock {
            file,
            locks: Arc::clone(locks),
        }
    }
}

impl Drop for OsLock {
    /// Closing would not do: a child between its fork and its exec still has the descriptor, and
    /// with it the lock. So may a ring.
    fn drop(&mut self) {
        self.locks.remove(&self.file.fd);
        if let Err(errno) = syscalls::unlock(self.file.fd.as_fd()) {
            tracing::warn!("could not unlock {}: {errno}", self.file.path.display());
        }
    }
}

impl LockGuard for OsLock {
    fn file(&self) -> &dyn File {
        &self.file
    }
}

struct OsFile {
    fd: Arc<OwnedFd>,
    path: PathBuf,
    direct: bool,
    /// Unit of atomic writes, or zero.
    atomic: usize,
    /// Whether a read can be told not to wait for the device.
    reads_at_once: AtomicBool,
}

impl OsFile {
    /// Reads once: what the page cache holds at once, and only what it does not through the
    /// "about to block" hook.
    fn read_some(&self, bufs: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        if self.reads_at_once.load(Ordering::Relaxed) {
            match rustix::io::preadv2(&self.fd, bufs, at, ReadWriteFlags::NOWAIT) {
                // Linux 5.9 and 5.10 answer 0 for what is not in the page cache, too.
                Err(Errno::AGAIN) | Ok(0) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.reads_at_once.store(false, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        blocking(|| rustix::io::preadv(&self.fd, bufs, at))
    }

    /// Writes unit by unit, each in a call of its own: that is what the kernel guarantees.
    fn write_units(&self, bufs: &[IoSlice<'_>], offset: u64) -> IoResult<()> {
        let flags = ReadWriteFlags::from_bits_retain(RWF_ATOMIC);
        let mut at = offset;
        let misplaced =
            |at: u64, len: usize| len != self.atomic || !at.is_multiple_of(self.atomic as u64);
        for unit in bufs.iter().flat_map(|buf| buf.chunks(self.atomic)) {
            let written = if misplaced(at, unit.len()) {
                Err(Errno::INVAL)
            } else {
                let unit = [IoSlice::new(unit)];
                retry(|| rustix::io::pwritev2(&self.fd, &unit, at, flags))
            };
            match self.check(OpKind::Write, Some(at), written)? {
                whole if whole == unit.len() => at += whole as u64,
                _ => return self.check(OpKind::Write, Some(at), Err(Errno::IO)),
            }
        }
        Ok(())
    }

    fn write_back(&self, op: OpKind, offset: u64, len: u64, wait: bool) -> IoResult<()> {
        let result = match (i64::try_from(offset), i64::try_from(len)) {
            (_, Ok(0)) => Ok(()),
            (Ok(offset), Ok(len)) => {
                retry(|| syscalls::sync_file_range(self.fd.as_fd(), offset, len, wait))
            }
            _ => Err(Errno::INVAL),
        };
        match result {
            // It is advice: a file system that cannot take it is not an error.
            Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::SPIPE) => Ok(()),
            other => self.check(op, Some(offset), other),
        }
    }

    fn check<T>(&self, op: OpKind, offset: Option<u64>, result: Result<T, Errno>) -> IoResult<T> {
        result.map_err(|errno| IoError::from_errno(op, &self.path, offset, errno))
    }

    /// Takes space on a file system that cannot reserve it. Within the file nothing is done:
    /// another writer may be at work there.
    fn extend_with_zeroes(&self, offset: u64, len: u64) -> IoResult<()> {
        let zeroes = AlignedBuf::zeroed(256 * 1024);
        let end = offset.saturating_add(len);
        let mut at = self.len()?;
        while at < end {
            let take = zeroes
                .len()
                .min(usize::try_from(end - at).unwrap_or(usize::MAX));
            self.write_all_at(&zeroes[..take], at)?;
            at += take as u64;
        }
        Ok(())
    }

    fn broken(&self, op: OpKind, offset: u64, broken: transfer::Broken) -> IoError {
        let at = offset.saturating_add(broken.done as u64);
        IoError::from_errno(op, &self.path, Some(at), broken.errno)
    }
}

impl File for OsFile {
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> IoResult<usize> {
        read_full(bufs, offset, self.direct, |bufs, at| {
            self.read_some(bufs, at)
        })
        .map_err(|broken| self.broken(OpKind::Read, offset, broken))
    }

    fn write_all_vectored_at(&self, bufs: &mut [IoSlice<'_>], offset: u64) -> IoResult<()> {
        if self.atomic != 0 {
            return self.write_units(bufs, offset);
        }
        write_full(bufs, offset, |bufs, at| {
            rustix::io::pwritev(&self.fd, bufs, at)
        })
        .map_err(|broken| self.broken(OpKind::Write, offset, broken))
    }

    fn sync_data(&self) -> IoResult<()> {
        self.check(
            OpKind::SyncData,
            None,
            retry(|| rustix::fs::fdatasync(&self.fd)),
        )
    }

    fn sync_all(&self) -> IoResult<()> {
        self.check(OpKind::SyncAll, None, retry(|| rustix::fs::fsync(&self.fd)))
    }

    fn len(&self) -> IoResult<u64> {
        let stat = self.check(OpKind::Len, None, retry(|| rustix::fs::fstat(&self.fd)))?;
        u64::try_from(stat.st_size)
            .map_err(|_| IoError::new(OpKind::Len, &self.path, None, IoErrorKind::Io))
    }

    fn set_len(&self, len: u64) -> IoResult<()> {
        self.check(
            OpKind::SetLen,
            Some(len),
            retry(|| rustix::fs::ftruncate(&self.fd, len)),
        )
    }

    fn allocate(&self, offset: u64, len: u64) -> IoResult<()> {
        if len == 0 {
            return Ok(());
        }
        match retry(|| rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), offset, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.extend_with_zeroes(offset, len),
            other => self.check(OpKind::Allocate, Some(offset), other),
        }
    }

    fn start_writeback(&self, offset: u64, len: u64) -> IoResult<()> {
        self.write_back(OpKind::StartWriteback, offset, len, false)
    }

    fn await_writeback(&self, offset: u64, len: u64) -> IoResult<()> {
        self.write_back(OpKind::AwaitWriteback, offset, len, true)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn native(&self) -> Option<NativeFile<'_>> {
        Some(NativeFile::new(
            self.fd.as_fd(),
            self.direct,
            self.atomic != 0,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_synced_without_a_new_descriptor_and_another_of_its_name_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("inside");
        let disk = FileDisk::new(IoMethod::Sync);
        disk.create_dir_all(&path).unwrap();
        disk.sync_dir(&path).unwrap();
        let open = disk.open_directory(&path).unwrap();
        assert!(Arc::ptr_eq(&open, &disk.open_directory(&path).unwrap()));
        // Kept while it is open, so that the new one has another number.
        std::fs::remove_dir(&path).unwrap();
        disk.sync_dir(&path).unwrap_err();
        disk.create_dir_all(&path).unwrap();
        disk.sync_dir(&path).unwrap();
        assert!(!Arc::ptr_eq(&open, &disk.open_directory(&path).unwrap()));
    }

    #[test]
    fn space_can_be_taken_by_writing_zeroes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = open_file(&path, OpenOptions::create_new()).unwrap();
        file.write_all_at(b"kept", 0).unwrap();
        file.extend_with_zeroes(0, 600_000).unwrap();
        assert_eq!(file.len().unwrap(), 600_000);
        let mut read = vec![1; 600_000];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(read[..4], *b"kept");
        assert!(read[4..].iter().all(|&byte| byte == 0));
        file.extend_with_zeroes(0, 10).unwrap();
        assert_eq!(file.len().unwrap(), 600_000);
    }

    /// Where the device guarantees it, writes of whole units succeed and others do not; where it
    /// does not, opening says so.
    #[test]
    fn atomic_writes_are_had_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let disk = FileDisk::new(IoMethod::Sync);
        let opts = OpenOptions::create().atomic(8192);
        let refused = disk.open(&dir.path().join("buffered"), opts);
        assert_eq!(
            refused.map(|_| ()).unwrap_err().kind(),
            IoErrorKind::Unsupported
        );
        let file = match disk.open(&dir.path().join("file"), opts.direct(true)) {
            Ok(file) => file,
            Err(error) => {
                assert_eq!(error.kind(), IoErrorKind::Unsupported, "{error}");
                return;
            }
        };
        let pages = AlignedBuf::zeroed(2 * 8192);
        file.allocate(0, 4 * 8192).unwrap();
        file.write_all_at(&pages, 8192).unwrap();
        assert!(file.write_all_at(&pages, 4096).is_err());
        assert!(file.write_all_at(&pages[..4096], 0).is_err());
    }

    #[test]
    fn the_boot_id_is_the_kernels_or_unknown() {
        let disk = FileDisk::new(IoMethod::Sync);
        let id = disk.boot_id();
        assert_eq!(id, FileDisk::new(IoMethod::Sync).boot_id());
        if let Some(id) = id {
            let text = std::fs::read_to_string(BOOT_ID).unwrap();
            let digits = text.trim().replace('-', "");
            assert_eq!(format!("{:032x}", id.0), digits);
        }
        // One that covers the kernel's, another file of its file system, and none.
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("boot_id");
        std::fs::write(&own, "0123456789abcdef0123456789abcdef\n").unwrap();
        for path in [&own, Path::new("/proc/version"), Path::new("/none")] {
            assert_eq!(boot_id(path), None, "{}", path.display());
        }
    }

    #[test]
    fn the_empty_path_is_the_present_directory() {
        let disk = FileDisk::new(IoMethod::Sync);
        assert_eq!(
            disk.list(Path::new("")).unwrap(),
            disk.list(Path::new(".")).unwrap()
        );
        disk.sync_dir(Path::new("")).unwrap();
    }
}
