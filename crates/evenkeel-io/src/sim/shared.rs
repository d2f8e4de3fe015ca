//! State, journal, faults and clock, which a disk shares with its open files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use super::blocks::{BLOCK, block_number};
use super::fault::{FaultKind, Faults};
use super::journal::Entry;
use super::latency::{Device, LatencyMode};
use super::rng::Rng;
use super::state::{Change, Ino, Node, State, parent};
use crate::blocking::blocking;
use crate::buffer::IO_ALIGN;
use crate::error::OpKind;
use crate::file::OpenOptions;

/// Where simulated time begins: 2025-01-01 UTC, in microseconds since 1970.
const EPOCH_MICROS: u64 = 1_735_689_600_000_000;

/// The part of a disk that its clones and open files share.
pub(crate) struct Shared {
    pub(super) inner: Mutex<Inner>,
    serving: Mutex<Serving>,
    served: Condvar,
    /// Handles that this process has open.
    pub(crate) open: AtomicU64,
}

/// Operations that the device serves while their callers sleep.
#[derive(Default)]
struct Serving {
    now: usize,
    most: usize,
}

/// State, journal, faults and clock of a disk.
pub(crate) struct Inner {
    pub(crate) state: State,
    /// The state before the journal, and the index it has.
    pub(super) base: State,
    pub(super) first: u64,
    pub(super) journal: Vec<Arc<Entry>>,
    pub(super) acknowledged: Vec<(u64, u64)>,
    pub(super) faults: Faults,
    pub(super) calls: u64,
    pub(super) clock: u64,
    /// Cost of the present call.
    cost: u64,
    pub(super) device: Option<Device>,
    pub(super) free_space: Option<u64>,
    /// Bytes that all files together may be long.
    pub(super) capacity: Option<u64>,
    pub(super) max_open: Option<u64>,
    pub(super) knows_boot_id: bool,
    pub(crate) rng: Rng,
    pub(super) locks: BTreeSet<Arc<Path>>,
    write_back_errors: BTreeMap<Ino, u64>,
    /// Blocks that cannot be read until they are written again.
    pub(super) unreadable: BTreeMap<Ino, BTreeSet<u64>>,
    /// Unit of atomic writes that the disk promises, or zero.
    pub(super) atomic_unit: u32,
    /// The file system has no direct I/O.
    pub(super) refuses_direct: bool,
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

    pub(super) fn name(&mut self, op: OpKind, path: &Arc<Path>, change: Change) {
        self.record(op, path, 0, 0, false, change);
    }

    pub(super) fn index(&self) -> u64 {
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

    /// Whether any block of a range cannot be read.
    pub(crate) fn is_unreadable(&self, ino: Ino, offset: u64, len: usize) -> bool {
        let end = offset.saturating_add(len as u64);
        let blocks = block_number(offset)..block_number(end.saturating_add(BLOCK as u64 - 1));
        let bad = self.unreadable.get(&ino);
        bad.is_some_and(|bad| bad.range(blocks).next().is_some())
    }

    /// The block was written as a whole: the device has put it elsewhere.
    pub(crate) fn heal(&mut self, ino: Ino, block: u64) {
        if let Some(bad) = self.unreadable.get_mut(&ino) {
            bad.remove(&block);
        }
    }

    pub(crate) fn add_write_back_error(&mut self, ino: Ino) {
        *self.write_back_errors.entry(ino).or_default() += 1;
    }

    /// Bytes that files can still grow by.
    pub(super) fn left(&self) -> Option<u64> {
        let names = self.state.names.values();
        let lens = names.filter_map(|node| match node {
            Node::File(ino) => self.state.file(*ino).map(|file| file.len),
            Node::Dir => None,
        });
        let capacity = self.capacity?;
        Some(capacity.saturating_sub(lens.sum()))
    }

    /// An error if there is no room for a file to become as long.
    pub(crate) fn check_room(&self, ino: Ino, end: u64) -> Result<(), Errno> {
        let len = self.state.file(ino).map_or(0, |file| file.len);
        match end > len && self.left().is_some_and(|left| end - len > left) {
            true => Err(Errno::NOSPC),
            false => Ok(()),
        }
    }

    pub(super) fn open(&mut self, path: &Arc<Path>, opts: OpenOptions) -> Result<Ino, Errno> {
        if !opts.read && !opts.write {
            return Err(Errno::INVAL);
        }
        if opts.atomic != 0 && !(opts.direct && opts.atomic == self.atomic_unit) {
            return Err(Errno::OPNOTSUPP);
        }
        if opts.direct && self.refuses_direct {
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

    pub(super) fn rename(&mut self, from: Arc<Path>, to: Arc<Path>) -> Result<(), Errno> {
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

    pub(super) fn create_dir_all(&mut self, path: &Path) -> Result<(), Errno> {
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

    pub(super) fn list(&self, dir: &Path) -> Result<Vec<String>, Errno> {
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
    pub(super) fn new(state: State, first: u64, seed: u64) -> Self {
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
            capacity: None,
            max_open: None,
            knows_boot_id: true,
            rng: Rng::new(seed),
            locks: BTreeSet::new(),
            write_back_errors: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            atomic_unit: 0,
            refuses_direct: false,
        };
        Self {
            inner: Mutex::new(inner),
            serving: Mutex::default(),
            served: Condvar::new(),
            open: AtomicU64::new(0),
        }
    }

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
            blocking(|| self.serve(cost, parallel));
        }
        result
    }

    /// Occupies one of the device's places for this many microseconds.
    fn serve(&self, micros: u64, parallel: usize) {
        let mut serving = self.serving.lock();
        while serving.now >= parallel {
            self.served.wait(&mut serving);
        }
        serving.now += 1;
        serving.most = serving.most.max(serving.now);
        drop(serving);
        std::thread::sleep(Duration::from_micros(micros));
        self.serving.lock().now -= 1;
        self.served.notify_one();
    }

    /// The most operations that were served at once, of those that made their callers sleep.
    pub(super) fn most_served(&self) -> usize {
        self.serving.lock().most
    }
}
