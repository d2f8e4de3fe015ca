//! The redo point: whatever a checkpoint finds, no record before it is missing at home.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::check;
use crate::dirtiness::Dirtiness;
use crate::frame_state::{Flag, FrameState, Mode};
use crate::ids::Lsn;
use crate::latch::Latch;
use crate::record::HEADER_LEN;
use crate::sync::{Mutex, lock};
use crate::waiters::WaitTable;
use crate::wal::buffers::WalBuffers;

/// One frame with its page, its home, and the log.
struct Model {
    latch: Latch,
    dirtiness: Dirtiness,
    table: WaitTable,
    /// As `PoolCore::transitions`.
    transitions: Mutex<()>,
    log: WalBuffers,
    /// The newest record that the page has, and that its home has.
    page: AtomicU64,
    home: AtomicU64,
}

impl Model {
    fn new() -> Arc<Model> {
        Arc::new(Model {
            latch: Latch::new(FrameState::loaded(0)),
            dirtiness: Dirtiness::new(),
            table: WaitTable::new(1),
            transitions: Mutex::new(()),
            log: WalBuffers::new(8 * HEADER_LEN, Lsn(64)),
            page: AtomicU64::new(0),
            home: AtomicU64::new(0),
        })
    }

    fn locked<T>(&self, mode: Mode, work: impl FnOnce() -> T) -> T {
        assert!(self.latch.update(FrameState::pinned).is_ok());
        self.latch.lock(mode, &self.table);
        let done = work();
        self.latch.unlock_and_unpin(mode, &self.table);
        done
    }

    /// As `MiniTransaction::commit`: dirty, then the record, then the page.
    fn change(&self) {
        self.locked(Mode::Exclusive, || {
            self.dirtiness.mark(&self.latch, self.log.inserted());
            let lsn = self.log.reserve(HEADER_LEN, || {}).lsn();
            self.page.store(lsn.0, Ordering::Relaxed);
        });
    }

    /// As `BufferPool::begin_write`, the home write, and `BufferPool::end_write`.
    fn write_out(&self) {
        let copy = self.locked(Mode::ShareExclusive, || {
            let _scans_wait = lock(&self.transitions);
            if !self.latch.load().has(Flag::DIRTY) {
                return None;
            }
            let lsn = self.dirtiness.first_dirtied();
            self.dirtiness.begin_write(&self.latch, lsn)?;
            Some(self.page.load(Ordering::Relaxed))
        });
        if let Some(copy) = copy {
            self.home.store(copy, Ordering::Release);
            let _scans_wait = lock(&self.transitions);
            Dirtiness::end_write(&self.latch);
        }
    }

    /// As a checkpoint: the target is announced in the log, then the frames are scanned.
    fn redo_point(&self) -> Lsn {
        let target = self.log.reserve(HEADER_LEN, || {}).lsn();
        let _still = lock(&self.transitions);
        target.min(self.dirtiness.oldest_unwritten(&self.latch))
    }

    /// The newest record of the page before `redo` is at home, as the sync after the scan finds
    /// it.
    fn assert_home_before(&self, redo: Lsn, changes: &[u64]) {
        let home = self.home.load(Ordering::Acquire);
        let newest = changes.iter().copied().filter(|lsn| *lsn < redo.0).max();
        assert!(
            newest <= Some(home).filter(|home| *home != 0),
            "lost below {redo:?}"
        );
    }
}

/// A change that races the checkpoint is behind the redo point or still owed.
#[test]
fn no_change_before_the_redo_point_is_unwritten() {
    check(3, || {
        let model = Model::new();
        let changer = Arc::clone(&model);
        let changer = thread::spawn(move || changer.change());
        let redo = model.redo_point();
        let home = model.home.load(Ordering::Acquire);
        assert_eq!(home, 0);
        changer.join().unwrap();
        model.assert_home_before(redo, &[model.page.load(Ordering::Relaxed)]);
    });
}

/// Nor does one slip through while its page is on its way home, or is changed once more then.
#[test]
fn a_write_out_under_way_holds_the_redo_point() {
    check(3, || {
        let model = Model::new();
        model.change();
        let first = model.page.load(Ordering::Relaxed);
        let (changer, writer) = (Arc::clone(&model), Arc::clone(&model));
        let changer = thread::spawn(move || changer.change());
        let writer = thread::spawn(move || writer.write_out());
        let redo = model.redo_point();
        let home = model.home.load(Ordering::Acquire);
        changer.join().unwrap();
        writer.join().unwrap();
        let second = model.page.load(Ordering::Relaxed);
        for lsn in [first, second] {
            assert!(
                lsn >= redo.0 || home >= lsn,
                "{lsn} below {redo:?}, home {home}"
            );
        }
    });
}
