//! The simulated disk as its user has it: calls, faults, crashes.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::blocks::{BLOCK, block_number};
use super::fault::{Fault, FaultKind};
use super::file::SimFile;
use super::image::{Outcome, crash};
use super::journal::JournalOp;
use super::latency::{Device, LatencyMode, LatencyModel};
use super::queue::SimQueue;
use super::shared::{Inner, Shared};
use super::state::{Change, Node, State};
use crate::disk::{BootId, Disk, LockGuard};
use crate::error::{IoError, IoErrorKind, IoResult, OpKind};
use crate::file::{File, OpenOptions};
use crate::queue::IoQueue;
use crate::shared_queue::SharedQueue;
use crate::worker::WorkerPool;

/// A disk in memory that can crash, tear, lose, fail and be slow. See the README's rules.
///
/// A clone is the same disk. A crash leaves another one, with a journal of its own.
#[derive(Clone)]
pub struct SimDisk {
    pub(super) shared: Arc<Shared>,
}

/// The path without what changes nothing; parent components are refused.
fn plain(path: &Path) -> Result<Arc<Path>, Errno> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL),
            other => plain.push(other),
        }
    }
    Ok(plain.into())
}

impl SimDisk {
    /// An empty disk. All its randomness comes from `seed`.
    pub fn new(seed: u64) -> Self {
        Self::from_state(State::default(), 0, seed)
    }

    /// From now on the disk says that it writes aligned units of `unit` bytes atomically. The
    /// caller that takes crash images keeps the promise, with [`Outcome::Torn8192`] for 8192.
    pub fn promise_atomic_writes(&self, unit: u32) {
        self.shared.inner.lock().atomic_unit = unit;
    }

    /// From now on the file system refuses direct I/O.
    pub fn refuse_direct_io(&self) {
        self.shared.inner.lock().refuses_direct = true;
    }

    pub(crate) fn from_state(state: State, first: u64, seed: u64) -> Self {
        Self {
            shared: Arc::new(Shared::new(state, first, seed)),
        }
    }

    /// Mutating operations so far: the index of the last one. After [`SimDisk::process_crash`]
    /// the count goes on, after a power failure it begins anew.
    pub fn op_count(&self) -> u64 {
        self.shared.inner.lock().index()
    }

    /// Calls of any kind so far: what [`SimDisk::fail_nth`] counts.
    pub fn calls(&self) -> u64 {
        self.shared.inner.lock().calls
    }

    /// The operation with this index (from 1), if the journal has it.
    pub fn operation(&self, index: u64) -> Option<JournalOp> {
        let inner = self.shared.inner.lock();
        let place = usize::try_from(index.checked_sub(inner.first + 1)?).ok()?;
        inner
            .journal
            .get(place)
            .map(|entry| JournalOp::new(index, entry))
    }

    /// Notes that something was acknowledged by now: images from this index on, which is
    /// returned, must contain it.
    pub fn acknowledge(&self, tag: u64) -> u64 {
        let mut inner = self.shared.inner.lock();
        let index = inner.index();
        inner.acknowledged.push((index, tag));
        index
    }

    /// Tags acknowledged at or before an index, in order of acknowledgement.
    pub fn acknowledged_by(&self, index: u64) -> Vec<u64> {
        let inner = self.shared.inner.lock();
        let known = inner.acknowledged.iter().filter(|(at, _)| *at <= index);
        known.map(|(_, tag)| *tag).collect()
    }

    /// Makes the `nth` call from now on (from 1) fail, whatever it is.
    pub fn fail_nth(&self, nth: u64, kind: FaultKind) {
        self.inject(Fault::nth(nth, kind));
    }

    /// Arms a fault.
    pub fn inject(&self, fault: Fault) {
        self.shared.inner.lock().faults.arm(fault);
    }

    /// Disarms all faults.
    pub fn clear_faults(&self) {
        self.shared.inner.lock().faults.clear();
    }

    /// Calls that have met a fault.
    pub fn faults_fired(&self) -> u64 {
        self.shared.inner.lock().faults.fired
    }

    /// Makes the blocks of 4096 bytes that hold this range of a file unreadable: reading any of
    /// them fails with an I/O error until it is written again, across crashes too.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn make_unreadable(&self, path: &Path, range: Range<u64>) -> IoResult<()> {
        self.on_path(OpKind::Write, path, |inner, path| {
            let Some(Node::File(ino)) = inner.state.node(&path) else {
                return Err(Errno::NOENT);
            };
            let blocks = block_number(range.start)..block_number(range.end + BLOCK as u64 - 1);
            inner.unreadable.entry(ino).or_default().extend(blocks);
            Ok(())
        })
    }

    /// Lets the system's own write-back fail for files whose path contains `path`: unsynced
    /// content is lost as by a failed sync. Handles open now report it at their next sync;
    /// those opened later never will. Returns how many files lost something.
    pub fn fail_write_back(&self, path: &str) -> usize {
        let mut inner = self.shared.inner.lock();
        let names = Arc::clone(&inner.state.names);
        let mut lost = 0;
        for (name, node) in &*names {
            let Node::File(ino) = *node else { continue };
            let dirty = inner
                .state
                .file(ino)
                .is_some_and(|file| !file.pending.is_empty() || !file.pending_lens.is_empty());
            if dirty && name.to_string_lossy().contains(path) {
                let change = Change::FailSync { ino };
                inner.record(OpKind::StartWriteback, name, 0, 0, true, change);
                inner.add_write_back_error(ino);
                lost += 1;
            }
        }
        lost
    }

    /// Drops clean pages from the page cache: what a failed sync lost shows as it is on disk.
    pub fn drop_caches(&self) {
        let path = Arc::<Path>::from(Path::new(""));
        let change = Change::DropCaches;
        self.shared
            .inner
            .lock()
            .record(OpKind::Read, &path, 0, 0, false, change);
    }

    /// Paths of files with unsynced content or length, and of entries whose directory was not
    /// synced since.
    pub fn unsynced(&self) -> Vec<PathBuf> {
        let inner = self.shared.inner.lock();
        let mut paths = BTreeSet::new();
        for (path, node) in &*inner.state.names {
            if let Node::File(ino) = node
                && inner.state.file(*ino).is_some_and(|file| !file.is_clean())
            {
                paths.insert(path.to_path_buf());
            }
        }
        for op in &inner.state.pending {
            paths.extend(op.effects.iter().map(|(path, _)| path.to_path_buf()));
        }
        paths.into_iter().collect()
    }

    /// Makes operations take time from now on; `None` for none.
    pub fn set_latency(&self, latency: Option<(LatencyModel, LatencyMode)>) {
        let device = latency.map(|(model, mode)| Device::new(model, mode));
        self.shared.inner.lock().device = device;
    }

    /// The most operations that were under way at once under [`LatencyMode::Sleep`].
    pub fn most_served_at_once(&self) -> usize {
        self.shared.most_served()
    }

    /// Sets the answer of [`Disk::free_space`]. No operation is refused because of it: see
    /// [`SimDisk::inject`] for that.
    pub fn set_free_space(&self, bytes: Option<u64>) {
        self.shared.inner.lock().free_space = bytes;
    }

    /// From now on all files together cannot grow beyond `bytes`: what needs more fails as on a
    /// full disk, and [`Disk::free_space`] answers the rest. A file that nobody can find any more
    /// takes no room.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.inner.lock().capacity = bytes;
    }

    /// From now on the disk does not say by which run of the kernel it is used.
    pub fn forget_boot_id(&self) {
        self.shared.inner.lock().knows_boot_id = false;
    }

    /// From now on opening fails while the process has so many handles.
    pub fn set_max_open_files(&self, handles: Option<u64>) {
        self.shared.inner.lock().max_open = handles;
    }

    /// Handles that the process has open.
    pub fn open_files(&self) -> u64 {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Moves the simulated clock forward.
    pub fn advance(&self, micros: u64) {
        let mut inner = self.shared.inner.lock();
        inner.clock = inner.clock.saturating_add(micros);
    }

    /// One possible disk if power fails now.
    pub fn crash(&self, seed: u64) -> Self {
        self.crash_with(Outcome::Mixed, seed)
    }

    /// As [`SimDisk::crash`], with the outcome given.
    pub fn crash_with(&self, outcome: Outcome, seed: u64) -> Self {
        let inner = self.shared.inner.lock();
        let (state, unreadable) = (inner.state.clone(), inner.unreadable.clone());
        drop(inner);
        let disk = Self::from_state(crash(&state, outcome, seed), 0, seed);
        disk.shared.inner.lock().unreadable = unreadable;
        disk
    }

    /// The disk if only the process dies now: the page cache survives, locks do not. Handles on
    /// the old disk go on working there and change nothing here.
    pub fn process_crash(&self) -> Self {
        let mut inner = self.shared.inner.lock();
        let (state, first, seed) = (inner.state.clone(), inner.index(), inner.rng.next_u64());
        let unreadable = inner.unreadable.clone();
        drop(inner);
        let disk = Self::from_state(state, first, seed);
        disk.shared.inner.lock().unreadable = unreadable;
        disk
    }

    fn on_path<T>(
        &self,
        op: OpKind,
        path: &Path,
        act: impl FnOnce(&mut Inner, Arc<Path>) -> Result<T, Errno>,
    ) -> IoResult<T> {
        let result = plain(path).and_then(|plain| {
            self.shared.call(op, path, |inner, fault| match fault {
                Some(fault) => Err(fault.errno(op)),
                None => act(inner, plain),
            })
        });
        result.map_err(|errno| IoError::from_errno(op, path, None, errno))
    }

    /// Directories are opened, too, to be listed; for syncs they stay open.
    fn needs_descriptor(&self, inner: &Inner) -> Result<(), Errno> {
        let open = self.shared.open.load(Ordering::SeqCst);
        match inner.max_open {
            Some(most) if open >= most => Err(Errno::MFILE),
            _ => Ok(()),
        }
    }

    fn open_file(&self, op: OpKind, path: &Path, opts: OpenOptions) -> IoResult<SimFile> {
        self.on_path(op, path, |inner, plain| {
            self.needs_descriptor(inner)?;
            let ino = inner.open(&plain, opts)?;
            self.shared.open.fetch_add(1, Ordering::SeqCst);
            Ok(SimFile {
                disk: Arc::clone(&self.shared),
                ino,
                path: plain,
                given: path.to_owned(),
                opts,
                errors_seen: AtomicU64::new(inner.write_back_errors(ino)),
            })
        })
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, opts: OpenOptions) -> IoResult<Arc<dyn File>> {
        Ok(Arc::new(self.open_file(OpKind::Open, path, opts)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        self.on_path(OpKind::Rename, from, |inner, from| {
            inner.rename(from, plain(to)?)
        })
    }

    fn remove(&self, path: &Path) -> IoResult<()> {
        self.on_path(OpKind::Remove, path, |inner, path| {
            match inner.state.node(&path) {
                Some(Node::File(_)) => {
                    inner.name(
                        OpKind::Remove,
                        &path,
                        Change::Remove {
                            path: Arc::clone(&path),
                        },
                    );
                    Ok(())
                }
                Some(Node::Dir) => Err(Errno::ISDIR),
                None => Err(Errno::NOENT),
            }
        })
    }

    fn create_dir_all(&self, path: &Path) -> IoResult<()> {
        self.on_path(OpKind::CreateDir, path, |inner, path| {
            inner.create_dir_all(&path)
        })
    }

    fn list(&self, dir: &Path) -> IoResult<Vec<String>> {
        self.on_path(OpKind::List, dir, |inner, dir| {
            self.needs_descriptor(inner)?;
            inner.list(&dir)
        })
    }

    fn exists(&self, path: &Path) -> IoResult<bool> {
        self.on_path(OpKind::Exists, path, |inner, path| {
            Ok(inner.state.node(&path).is_some())
        })
    }

    fn sync_dir(&self, dir: &Path) -> IoResult<()> {
        self.on_path(OpKind::SyncDir, dir, |inner, dir| {
            if !inner.state.is_dir(&dir) {
                return Err(Errno::NOENT);
            }
            inner.charge(|device| device.sync(None));
            inner.name(
                OpKind::SyncDir,
                &dir,
                Change::SyncDir {
                    dir: Arc::clone(&dir),
                },
            );
            Ok(())
        })
    }

    fn lock(&self, path: &Path) -> IoResult<Box<dyn LockGuard>> {
        let file = self.open_file(OpKind::Lock, path, OpenOptions::create())?;
        if !self
            .shared
            .inner
            .lock()
            .locks
            .insert(Arc::clone(&file.path))
        {
            return Err(IoError::new(OpKind::Lock, path, None, IoErrorKind::Locked));
        }
        Ok(Box::new(SimLock(file)))
    }

    fn queue(&self, depth: usize) -> Box<dyn IoQueue> {
        let mut inner = self.shared.inner.lock();
        let sleeping = inner
            .device
            .as_ref()
            .filter(|device| device.mode == LatencyMode::Sleep);
        match sleeping.map(|device| device.model.parallel) {
            // Only threads sleep at the same time.
            Some(parallel) => Box::new(SharedQueue::new(
                WorkerPool::new(parallel.min(depth)),
                depth,
            )),
            None => Box::new(SimQueue::new(depth, inner.rng.next_u64())),
        }
    }

    fn random_u64(&self) -> u64 {
        self.shared.inner.lock().rng.next_u64()
    }

    fn now_micros(&self) -> u64 {
        let mut inner = self.shared.inner.lock();
        inner.clock += 1;
        inner.clock
    }

    fn free_space(&self, _: &Path) -> IoResult<Option<u64>> {
        let inner = self.shared.inner.lock();
        Ok(inner.left().or(inner.free_space))
    }

    /// Another one after each crash of the machine.
    fn boot_id(&self) -> Option<BootId> {
        let inner = self.shared.inner.lock();
        let id = NonZero::<u128>::MIN.saturating_add(inner.state.crashes.into());
        inner.knows_boot_id.then_some(BootId(id))
    }

    fn max_open_files(&self) -> Option<u64> {
        self.shared.inner.lock().max_open
    }
}

struct SimLock(SimFile);

impl LockGuard for SimLock {
    fn file(&self) -> &dyn File {
        &self.0
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.disk.inner.lock().locks.remove(&self.0.path);
    }
}
