//! The disk itself: names, journal, faults, clock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use super::fault::{Fault, FaultKind, Faults};
use super::file::SimFile;
use super::image::{Outcome, crash};
use super::journal::{Entry, ImageSeries, JournalOp};
use super::latency::{Device, LatencyMode, LatencyModel};
use super::queue::SimQueue;
use super::rng::Rng;
use super::state::{Change, Ino, Node, State, parent};
use crate::buffer::IO_ALIGN;
use crate::disk::{Disk, File, LockGuard, OpenOptions};
use crate::error::{IoError, IoErrorKind, IoResult, OpKind};
use crate::queue::IoQueue;
use crate::worker::{WorkerPool, WorkerQueue};

/// Where simulated time begins: 2025-01-01 UTC, in microseconds since 1970.
const EPOCH_MICROS: u64 = 1_735_689_600_000_000;

/// A disk in memory that can crash, tear, lose, fail and be slow. See the README's rules.
///
/// A clone is the same disk. What a crash leaves is another one, with a journal of its own.
#[derive(Clone)]
pub struct SimDisk {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    serving: Mutex<usize>,
    served: Condvar,
}

pub(crate) struct Inner {
    pub(crate) state: State,
    /// The state before the journal, and the index it has.
    base: State,
    first: u64,
    journal: Vec<Arc<Entry>>,
    acknowledged: Vec<(u64, u64)>,
    faults: Faults,
    calls: u64,
    clock: u64,
    /// Cost of the present call.
    cost: u64,
    device: Option<Device>,
    free_space: Option<u64>,
    pub(crate) rng: Rng,
    locks: BTreeSet<Arc<Path>>,
    write_back_errors: BTreeMap<Ino, u64>,
    /// Unit of atomic writes that the disk promises, or zero.
    atomic_unit: u32,
}

impl Inner {
    /// Applies a change and journals it.
    pub(crate) fn record(
        &mut self,
        op: OpKind,
        path: &Arc<Path>,
        offset: u64,
        len: u64,
        failed: bool,
        change: Change,
    ) {
        let index = self.index() + 1;
        self.state.apply(index, &change);
        let path = Arc::clone(path);
        self.journal.push(Arc::new(Entry {
            op,
            path,
            offset,
            len,
            failed,
            change,
        }));
    }

    fn name(&mut self, op: OpKind, path: &Arc<Path>, change: Change) {
        self.record(op, path, 0, 0, false, change);
    }

    fn index(&self) -> u64 {
        self.first + self.journal.len() as u64
    }

    /// A shorter, not empty, length; aligned if it must be; the same if there is none.
    pub(crate) fn shorten(&mut self, len: usize, direct: bool) -> usize {
        let unit = if direct { IO_ALIGN } else { 1 };
        match len / unit {
            0 | 1 => len,
            units => (1 + self.rng.index(units - 1)) * unit,
        }
    }

    pub(crate) fn charge(&mut self, cost: impl FnOnce(&mut Device) -> u64) {
        if let Some(device) = &mut self.device {
            self.cost = self.cost.saturating_add(cost(device));
        }
    }

    pub(crate) fn on_device(&mut self, act: impl FnOnce(&mut Device)) {
        if let Some(device) = &mut self.device {
            act(device);
        }
    }

    pub(crate) fn write_back_errors(&self, ino: Ino) -> u64 {
        self.write_back_errors.get(&ino).copied().unwrap_or(0)
    }

    pub(crate) fn add_write_back_error(&mut self, ino: Ino) {
        *self.write_back_errors.entry(ino).or_default() += 1;
    }

    fn open(&mut self, path: &Arc<Path>, opts: OpenOptions) -> Result<Ino, Errno> {
        if !opts.read && !opts.write {
            return Err(Errno::INVAL);
        }
        if opts.atomic != 0 && !(opts.direct && opts.atomic == self.atomic_unit) {
            return Err(Errno::OPNOTSUPP);
        }
        match self.state.node(path) {
            Some(_) if opts.create_new => Err(Errno::EXIST),
            Some(Node::Dir) => Err(Errno::ISDIR),
            Some(Node::File(ino)) => {
                if opts.truncate && opts.write {
                    let change = Change::SetLen { ino, len: 0 };
                    self.name(OpKind::SetLen, path, change);
                }
                Ok(ino)
            }
            None if !(opts.create || opts.create_new) => Err(Errno::NOENT),
            None if !self.state.is_dir(parent(path)) => Err(Errno::NOENT),
            None => {
                let ino = Ino(self.state.next_ino);
                self.name(
                    OpKind::Open,
                    path,
                    Change::Create {
                        path: Arc::clone(path),
                        ino,
                    },
                );
                Ok(ino)
            }
        }
    }

    fn rename(&mut self, from: Arc<Path>, to: Arc<Path>) -> Result<(), Errno> {
        let node = match self.state.node(&from) {
            Some(node @ Node::File(_)) => node,
            Some(Node::Dir) => return Err(Errno::INVAL),
            None => return Err(Errno::NOENT),
        };
        if self.state.is_dir(&to) {
            return Err(Errno::ISDIR);
        }
        if !self.state.is_dir(parent(&to)) {
            return Err(Errno::NOENT);
        }
        if from != to {
            let path = Arc::clone(&to);
            self.name(OpKind::Rename, &path, Change::Rename { from, to, node });
        }
        Ok(())
    }

    fn create_dir_all(&mut self, path: &Path) -> Result<(), Errno> {
        let mut missing = Vec::new();
        let mut at = path;
        loop {
            match self.state.node(at) {
                Some(Node::Dir) => break,
                Some(Node::File(_)) if at == path => return Err(Errno::EXIST),
                Some(Node::File(_)) => return Err(Errno::NOTDIR),
                None => missing.push(Arc::<Path>::from(at)),
            }
            at = parent(at);
        }
        for path in missing.into_iter().rev() {
            let change = Change::CreateDir {
                path: Arc::clone(&path),
            };
            self.name(OpKind::CreateDir, &path, change);
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>, Errno> {
        if !self.state.is_dir(dir) {
            return Err(Errno::NOENT);
        }
        let inside = self.state.names.keys().filter(|path| parent(path) == dir);
        let names = inside.filter_map(|path| path.file_name());
        Ok(names
            .map(|name| name.to_string_lossy().into_owned())
            .collect())
    }
}

impl Shared {
    /// One call: counted, possibly failed, paid for when the disk is free again for others.
    pub(crate) fn call<T>(
        &self,
        op: OpKind,
        path: &Path,
        act: impl FnOnce(&mut Inner, Option<FaultKind>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut inner = self.inner.lock();
        inner.calls += 1;
        inner.cost = 0;
        let fault = inner.faults.meet(op, path);
        let result = act(&mut inner, fault);
        let cost = inner.cost;
        inner.clock = inner.clock.saturating_add(cost + 1);
        let sleep = inner
            .device
            .as_ref()
            .filter(|device| device.mode == LatencyMode::Sleep);
        let parallel = sleep.map(|device| device.model.parallel.max(1));
        drop(inner);
        if let Some(parallel) = parallel
            && cost > 0
        {
            self.serve(cost, parallel);
        }
        result
    }

    /// Occupies one of the device's places for this many microseconds.
    fn serve(&self, micros: u64, parallel: usize) {
        let mut serving = self.serving.lock();
        while *serving >= parallel {
            self.served.wait(&mut serving);
        }
        *serving += 1;
        drop(serving);
        std::thread::sleep(Duration::from_micros(micros));
        *self.serving.lock() -= 1;
        self.served.notify_one();
    }
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

    /// From now on the disk says that it writes aligned units of `unit` bytes atomically. Whoever
    /// takes crash images keeps the promise, with [`Outcome::Torn8192`] for the one of 8192.
    pub fn promise_atomic_writes(&self, unit: u32) {
        self.shared.inner.lock().atomic_unit = unit;
    }

    pub(crate) fn from_state(state: State, first: u64, seed: u64) -> Self {
        let inner = Inner {
            base: state.clone(),
            state,
            first,
            journal: Vec::new(),
            acknowledged: Vec::new(),
            faults: Faults::default(),
            calls: 0,
            clock: EPOCH_MICROS,
            cost: 0,
            device: None,
            free_space: None,
            rng: Rng::new(seed),
            locks: BTreeSet::new(),
            write_back_errors: BTreeMap::new(),
            atomic_unit: 0,
        };
        Self {
            shared: Arc::new(Shared {
                inner: Mutex::new(inner),
                serving: Mutex::new(0),
                served: Condvar::new(),
            }),
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

    /// What [`Disk::free_space`] answers. Nothing is refused because of it: see
    /// [`SimDisk::inject`] for that.
    pub fn set_free_space(&self, bytes: Option<u64>) {
        self.shared.inner.lock().free_space = bytes;
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
        let state = self.shared.inner.lock().state.clone();
        Self::from_state(crash(&state, outcome, seed), 0, seed)
    }

    /// The disk if only the process dies now: the page cache survives, locks do not. Handles on
    /// the old disk go on working there and change nothing here.
    pub fn process_crash(&self) -> Self {
        let mut inner = self.shared.inner.lock();
        let (state, first, seed) = (inner.state.clone(), inner.index(), inner.rng.next_u64());
        drop(inner);
        Self::from_state(state, first, seed)
    }

    /// One possible disk if power failed after `index` operations. Replays the journal; for many
    /// indexes use [`SimDisk::images`].
    pub fn image_at(&self, index: u64, seed: u64) -> Self {
        self.image_with(index, Outcome::Mixed, seed)
    }

    /// As [`SimDisk::image_at`], with the outcome given.
    pub fn image_with(&self, index: u64, outcome: Outcome, seed: u64) -> Self {
        let mut series = self.images(seed);
        series.seek(index);
        series.image(outcome, seed)
    }

    /// Crash images at every index of the journal as it is now.
    pub fn images(&self, seed: u64) -> ImageSeries {
        let inner = self.shared.inner.lock();
        ImageSeries::new(inner.base.clone(), inner.journal.clone(), inner.first, seed)
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

    fn open_file(&self, op: OpKind, path: &Path, opts: OpenOptions) -> IoResult<SimFile> {
        self.on_path(op, path, |inner, plain| {
            let ino = inner.open(&plain, opts)?;
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
        self.on_path(OpKind::List, dir, |inner, dir| inner.list(&dir))
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
            Some(parallel) => Box::new(WorkerQueue::new(
                WorkerPool::start(parallel.min(depth)),
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
        Ok(self.shared.inner.lock().free_space)
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
