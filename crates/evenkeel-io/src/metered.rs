//! A disk that tells an observer of every operation on its files.

use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;

use crate::disk::{BootId, Disk, LockGuard};
use crate::error::{IoResult, OpKind};
use crate::file::{File, OpenOptions};
use crate::gate::Gate;
use crate::native::{NativeFile, Watch, Watched};
use crate::queue::{IoCompletion, IoOp, IoQueue};

/// One operation on a file, as an observer is told of it.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The file, or for [`OpKind::SyncDir`] the directory.
    pub path: &'a Arc<Path>,
    /// The class that [`IoObserver::classify`] gave the file when it was opened.
    pub class: u8,
    /// The kind of operation.
    pub kind: OpKind,
    /// From which byte on; 0 where that means nothing.
    pub offset: u64,
    /// How many bytes; 0 where that means nothing.
    pub len: u64,
    /// On whose account: what [`IoObserver::account`] said when the operation was queued. None
    /// for one carried out at once, which is on the calling thread's own.
    pub account: Option<u64>,
    /// The operation bypasses the page cache.
    pub direct: bool,
}

/// Is told of operations as they begin and end. Called on the thread that carries the operation
/// out; it must not wait.
pub trait IoObserver: Send + Sync + 'static {
    /// Sorts a file by its path, once, when it is opened.
    fn classify(&self, path: &Path) -> u8;
    /// On whose account the calling thread works now.
    fn account(&self) -> u64;
    /// An operation begins; the answer is handed to [`IoObserver::end`].
    fn begin(&self, op: &Observed<'_>) -> u64;
    /// It has ended, well or not.
    fn end(&self, op: &Observed<'_>, ticket: u64);
}

/// A disk whose reads, writes, syncs, allocations and write-backs are observed.
///
/// It serves one holder of a directory's lock. The lock that [`Disk::lock`] gives is given back
/// when no change of files by way of this disk is under way any more, and from then on every
/// change fails ([`IoErrorKind::Unlocked`](crate::IoErrorKind::Unlocked)), whoever still has a
/// file or a queue with operations.
pub struct MeteredDisk {
    inner: Arc<dyn Disk>,
    observer: Arc<dyn IoObserver>,
    gate: Arc<Gate>,
}

impl MeteredDisk {
    /// `inner`, observed.
    pub fn new(inner: Arc<dyn Disk>, observer: Arc<dyn IoObserver>) -> Arc<MeteredDisk> {
        Arc::new(MeteredDisk {
            inner,
            observer,
            gate: Arc::default(),
        })
    }
}

impl Disk for MeteredDisk {
    fn open(&self, path: &Path, opts: OpenOptions) -> IoResult<Arc<dyn File>> {
        let inner = if opts.create || opts.create_new || opts.truncate {
            let open = || self.inner.open(path, opts);
            self.gate.pass(OpKind::Open, path, open)?
        } else {
            self.inner.open(path, opts)?
        };
        Ok(Arc::new(MeteredFile {
            inner,
            path: Arc::from(path),
            class: self.observer.classify(path),
            observer: Arc::clone(&self.observer),
            gate: Arc::clone(&self.gate),
            direct: opts.direct,
            account: None,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        let rename = || self.inner.rename(from, to);
        self.gate.pass(OpKind::Rename, from, rename)
    }

    fn remove(&self, path: &Path) -> IoResult<()> {
        let remove = || self.inner.remove(path);
        self.gate.pass(OpKind::Remove, path, remove)
    }

    fn create_dir_all(&self, path: &Path) -> IoResult<()> {
        let create = || self.inner.create_dir_all(path);
        self.gate.pass(OpKind::CreateDir, path, create)
    }

    fn list(&self, dir: &Path) -> IoResult<Vec<String>> {
        self.inner.list(dir)
    }

    fn exists(&self, path: &Path) -> IoResult<bool> {
        self.inner.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> IoResult<()> {
        let path: Arc<Path> = Arc::from(dir);
        let op = Observed {
            path: &path,
            class: self.observer.classify(dir),
            kind: OpKind::SyncDir,
            offset: 0,
            len: 0,
            account: None,
            direct: false,
        };
        observed(&*self.observer, &op, || self.inner.sync_dir(dir))
    }

    fn lock(&self, path: &Path) -> IoResult<Box<dyn LockGuard>> {
        let inner = self.inner.lock(path)?;
        Ok(Box::new(GatedLock {
            inner,
            gate: Arc::clone(&self.gate),
        }))
    }

    fn has_open(&self, process: u32, path: &Path) -> bool {
        self.inner.has_open(process, path)
    }

    fn queue(&self, depth: usize) -> Box<dyn IoQueue> {
        Box::new(MeteredQueue {
            inner: self.inner.queue(depth),
            observer: Arc::clone(&self.observer),
        })
    }

    fn random_u64(&self) -> u64 {
        self.inner.random_u64()
    }

    fn now_micros(&self) -> u64 {
        self.inner.now_micros()
    }

    fn free_space(&self, dir: &Path) -> IoResult<Option<u64>> {
        self.inner.free_space(dir)
    }

    fn boot_id(&self) -> Option<BootId> {
        self.inner.boot_id()
    }

    fn max_open_files(&self) -> Option<u64> {
        self.inner.max_open_files()
    }
}

/// Runs `work` between the observer's begin and end; a panic in it ends the operation too.
fn observed<R>(observer: &dyn IoObserver, op: &Observed<'_>, work: impl FnOnce() -> R) -> R {
    struct Ending<'a>(&'a dyn IoObserver, &'a Observed<'a>, u64);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.end(self.1, self.2);
        }
    }
    let _ending = Ending(observer, op, observer.begin(op));
    work()
}

/// A lock that waits for the changes under way before it is given back.
struct GatedLock {
    inner: Box<dyn LockGuard>,
    gate: Arc<Gate>,
}

impl Drop for GatedLock {
    fn drop(&mut self) {
        self.gate.close();
    }
}

impl LockGuard for GatedLock {
    fn file(&self) -> &dyn File {
        self.inner.file()
    }
}

#[derive(Clone)]
struct MeteredFile {
    inner: Arc<dyn File>,
    path: Arc<Path>,
    class: u8,
    observer: Arc<dyn IoObserver>,
    gate: Arc<Gate>,
    direct: bool,
    account: Option<u64>,
}

impl MeteredFile {
    fn observed(&self, kind: OpKind, offset: u64, len: u64) -> Observed<'_> {
        Observed {
            path: &self.path,
            class: self.class,
            kind,
            offset,
            len,
            account: self.account,
            direct: self.direct,
        }
    }

    fn run<R>(&self, kind: OpKind, offset: u64, len: u64, work: impl FnOnce() -> R) -> R {
        observed(&*self.observer, &self.observed(kind, offset, len), work)
    }

    /// Carries out what changes the file.
    fn change<R>(
        &self,
        kind: OpKind,
        offset: u64,
        len: u64,
        work: impl FnOnce() -> IoResult<R>,
    ) -> IoResult<R> {
        let run = || self.run(kind, offset, len, work);
        self.gate.pass(kind, &self.path, run)
    }
}

impl Watch for MeteredFile {
    fn begin(&self, transfer: Watched) -> IoResult<u64> {
        let Watched { kind, offset, len } = transfer;
        if kind == OpKind::Write {
            self.gate.enter(kind, &self.path)?;
        }
        Ok(self.observer.begin(&self.observed(kind, offset, len)))
    }

    fn end(&self, transfer: Watched, ticket: u64) {
        let Watched { kind, offset, len } = transfer;
        self.observer.end(&self.observed(kind, offset, len), ticket);
        if kind == OpKind::Write {
            self.gate.leave();
        }
    }
}

fn total(lengths: impl Iterator<Item = usize>) -> u64 {
    lengths.map(|len| len as u64).sum()
}

impl File for MeteredFile {
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> IoResult<usize> {
        let len = total(bufs.iter().map(|buf| buf.len()));
        self.run(OpKind::Read, offset, len, || {
            self.inner.read_vectored_at(bufs, offset)
        })
    }

    fn write_all_vectored_at(&self, bufs: &mut [IoSlice<'_>], offset: u64) -> IoResult<()> {
        let len = total(bufs.iter().map(|buf| buf.len()));
        self.change(OpKind::Write, offset, len, || {
            self.inner.write_all_vectored_at(bufs, offset)
        })
    }

    fn sync_data(&self) -> IoResult<()> {
        self.run(OpKind::SyncData, 0, 0, || self.inner.sync_data())
    }

    fn sync_all(&self) -> IoResult<()> {
        self.run(OpKind::SyncAll, 0, 0, || self.inner.sync_all())
    }

    fn len(&self) -> IoResult<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> IoResult<()> {
        let set_len = || self.inner.set_len(len);
        self.gate.pass(OpKind::SetLen, &self.path, set_len)
    }

    fn allocate(&self, offset: u64, len: u64) -> IoResult<()> {
        self.change(OpKind::Allocate, offset, len, || {
            self.inner.allocate(offset, len)
        })
    }

    fn start_writeback(&self, offset: u64, len: u64) -> IoResult<()> {
        self.run(OpKind::StartWriteback, offset, len, || {
            self.inner.start_writeback(offset, len)
        })
    }

    fn await_writeback(&self, offset: u64, len: u64) -> IoResult<()> {
        self.run(OpKind::AwaitWriteback, offset, len, || {
            self.inner.await_writeback(offset, len)
        })
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn on_account(&self, account: u64) -> Option<Arc<dyn File>> {
        Some(Arc::new(MeteredFile {
            account: Some(account),
            ..self.clone()
        }))
    }

    fn native(&self) -> Option<NativeFile<'_>> {
        self.inner.native()?.watched_by(self)
    }
}

/// A queue whose operations are on the account of who submits them, whichever thread runs them.
struct MeteredQueue {
    inner: Box<dyn IoQueue>,
    observer: Arc<dyn IoObserver>,
}

impl IoQueue for MeteredQueue {
    fn submit(&mut self, mut ops: Vec<IoOp>) {
        let account = self.observer.account();
        for op in &mut ops {
            if let Some(file) = op.file.on_account(account) {
                op.file = file;
            }
        }
        self.inner.submit(ops);
    }

    fn poll(&mut self, out: &mut Vec<IoCompletion>) {
        self.inner.poll(out);
    }

    fn wait(&mut self, min: usize, out: &mut Vec<IoCompletion>) {
        self.inner.wait(min, out);
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use parking_lot::Mutex;

    use super::*;
    use crate::{AlignedBuf, SimDisk};

    /// Class, kind, offset, length and account.
    type Seen = (u8, OpKind, u64, u64, Option<u64>);

    #[derive(Default)]
    struct Log {
        account: AtomicU64,
        seen: Mutex<Vec<Seen>>,
        ended: AtomicU64,
    }

    impl IoObserver for Log {
        fn classify(&self, path: &Path) -> u8 {
            u8::from(path.ends_with("b"))
        }
        fn account(&self) -> u64 {
            self.account.load(Ordering::SeqCst)
        }
        fn begin(&self, op: &Observed<'_>) -> u64 {
            let mut seen = self.seen.lock();
            seen.push((op.class, op.kind, op.offset, op.len, op.account));
            seen.len() as u64
        }
        fn end(&self, _: &Observed<'_>, ticket: u64) {
            self.ended.fetch_add(ticket, Ordering::SeqCst);
        }
    }

    #[test]
    fn operations_are_observed_with_class_place_and_account() {
        let log = Arc::new(Log::default());
        let observer = Arc::clone(&log) as Arc<dyn IoObserver>;
        let disk = MeteredDisk::new(Arc::new(SimDisk::new(1)), observer);
        let file = disk
            .open("/b".as_ref(), OpenOptions::create())
            .expect("no fault armed");
        file.write_all_at(&[1; 64], 4096).expect("no fault armed");
        file.sync_data().expect("no fault armed");
        log.account.store(9, Ordering::SeqCst);
        let mut queue = disk.queue(2);
        let buf = AlignedBuf::zeroed(32).into();
        queue.submit(vec![IoOp::read(Arc::clone(&file), 4100, vec![buf], 5)]);
        log.account.store(10, Ordering::SeqCst);
        let mut done = Vec::new();
        queue.wait(1, &mut done);
        assert_eq!(done[0].tag(), 5);
        disk.sync_dir("/".as_ref()).expect("no fault armed");
        assert_eq!(
            *log.seen.lock(),
            [
                (1, OpKind::Write, 4096, 64, None),
                (1, OpKind::SyncData, 0, 0, None),
                (1, OpKind::Read, 4100, 32, Some(9)),
                (0, OpKind::SyncDir, 0, 0, None),
            ]
        );
        assert_eq!(log.ended.load(Ordering::SeqCst), 1 + 2 + 3 + 4);
    }
}
