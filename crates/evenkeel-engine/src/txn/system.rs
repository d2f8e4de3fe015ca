//! Transactions together with the store: looking up ids, horizons, and the background work of
//! bringing the status pages up to date.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evenkeel_storage::{Lsn, RemovalLsn, Store};
use parking_lot::Mutex;

use super::core::TxnCore;
use super::publisher::Applied;
use super::recent_xids::RecentXidsState;
use super::snapshot_registry::View;
use super::xid_state::{Hint, XidState};
use crate::config::Config;
use crate::error::{EngineError, EngineResult};
use crate::mutant::Mutant;
use crate::status::{CommitStamps, StatusBits, StatusPages};
use crate::types::{Xid, XidStatus};

/// Commits applied to the status pages at once.
const BATCH: usize = 16_384;
/// How long the applier lets commits gather.
const LINGER: Duration = Duration::from_millis(50);
/// How often one looks whether the applier is done.
const SHORTLY: Duration = Duration::from_millis(1);
/// A cached horizon is renewed when this much log was published since.
const HORIZON_STEP: u64 = 16 << 10;

pub(crate) struct TxnSystem {
    pub(crate) core: Arc<TxnCore>,
    pub(crate) store: Arc<Store>,
    pub(crate) status: StatusPages,
    /// Kept if `track_commit_timestamp` is on.
    pub(crate) stamps: Option<CommitStamps>,
    horizon_at: AtomicU64,
    /// The newest id of a large value.
    large_id: AtomicU64,
    /// Held while a batch is applied: the publisher keeps the redo point for one.
    applying: Mutex<()>,
    /// The longest activity without a record of the state of all transactions.
    running_interval: Duration,
    mutant: Option<Mutant>,
}

/// The bound that decides which tuples are dead to every snapshot, existing or yet to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Horizon(View);

/// A horizon's verdict on an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XidAtHorizon {
    /// Committed, and every snapshot sees it so: what it deleted is dead, what it made can be
    /// frozen.
    CommittedForAll,
    /// Committed, but some snapshot may not see it.
    CommittedLately,
    /// Not decided.
    InProgress,
    /// Rolled back.
    Aborted,
}

impl Horizon {
    /// Commits up to here are visible to all.
    pub fn lsn(&self) -> Lsn {
        self.0.lsn
    }

    /// Ids below are decided for all.
    pub fn floor(&self) -> Xid {
        self.0.floor
    }
}

impl TxnSystem {
    pub(crate) fn new(
        core: Arc<TxnCore>,
        store: Arc<Store>,
        status: StatusPages,
        stamps: Option<CommitStamps>,
        config: &Config,
    ) -> TxnSystem {
        TxnSystem {
            core,
            store,
            status,
            stamps,
            horizon_at: AtomicU64::new(0),
            large_id: AtomicU64::new(0),
            applying: Mutex::new(()),
            running_interval: config.running_interval,
            mutant: config.mutant,
        }
    }

    /// An id for a large value that no other has or had: where the log ends, or one more than the
    /// id before. A value takes more bytes of the log than ids that were given out since, so the
    /// log of the next start ends behind them all.
    pub(crate) fn new_large_id(&self) -> u64 {
        let end = self.store.log().insert_lsn().0;
        let next = |last: u64| Some(end.max(last.saturating_add(1)));
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let last = self.large_id.fetch_update(set, fetch, next);
        end.max(last.unwrap_or(0).saturating_add(1))
    }

    /// Whether the engine runs with this deliberate bug.
    #[inline]
    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        cfg!(debug_assertions) && self.mutant == Some(mutant)
    }

    /// The state of an id.
    pub(crate) fn known(&self, xid: Xid) -> EngineResult<XidState> {
        let state = self.core.window.get(xid)?;
        self.known_by(xid, state, || self.status.get(xid))
    }

    /// The state of an id, without reading any page: page locks may be held.
    ///
    /// # Errors
    /// `StatusNotInMemory`.
    pub(crate) fn known_in_memory(&self, xid: Xid) -> EngineResult<XidState> {
        let missing = EngineError::StatusNotInMemory { xid };
        let state = self.core.window.get_in_memory(xid).ok_or(missing)?;
        self.known_by(xid, state, || {
            let bits = self.status.get_in_memory(xid)?;
            bits.ok_or(EngineError::StatusNotInMemory { xid })
        })
    }

    fn known_by(
        &self,
        xid: Xid,
        state: RecentXidsState,
        below: impl FnOnce() -> EngineResult<StatusBits>,
    ) -> EngineResult<XidState> {
        if !xid.is_normal() {
            return Ok(if xid == Xid::FROZEN {
                XidState::Older
            } else {
                XidState::Aborted
            });
        }
        Ok(match state {
            RecentXidsState::InProgress => XidState::InProgress,
            RecentXidsState::Aborted => XidState::Aborted,
            RecentXidsState::Committed(lsn) => XidState::Committed(lsn),
            RecentXidsState::Below => match below()? {
                StatusBits::Committed => XidState::Older,
                // Below the window all is decided: who did not commit was lost in a crash.
                StatusBits::Aborted | StatusBits::Unknown => XidState::Aborted,
            },
        })
    }

    /// The hint that states what is known, if it is a fact for good (TXN-4).
    pub(crate) fn hint(&self, known: XidState) -> Option<Hint> {
        match known {
            XidState::Aborted => Some(Hint::Aborted),
            XidState::Older => Some(Hint::Committed),
            XidState::Committed(lsn) => {
                (lsn < self.core.publisher.durable_upto()).then_some(Hint::Committed)
            }
            XidState::InProgress => None,
        }
    }

    /// An id's status as of now.
    pub(crate) fn status(&self, xid: Xid) -> EngineResult<XidStatus> {
        Ok(self.status_of(self.known(xid)?))
    }

    /// [`TxnSystem::status`] without reading any page: page locks may be held.
    ///
    /// # Errors
    /// `StatusNotInMemory`.
    pub(crate) fn status_in_memory(&self, xid: Xid) -> EngineResult<XidStatus> {
        Ok(self.status_of(self.known_in_memory(xid)?))
    }

    fn status_of(&self, known: XidState) -> XidStatus {
        match known {
            XidState::Aborted => XidStatus::Aborted,
            XidState::Older => XidStatus::Committed,
            XidState::Committed(lsn) if lsn <= self.core.publisher.published() => {
                XidStatus::Committed
            }
            XidState::Committed(_) | XidState::InProgress => XidStatus::InProgress,
        }
    }

    /// Runs `attempt`, which looks at locked pages and reads no status from disk, again for every
    /// one that it missed.
    pub(crate) fn retry<T>(&self, mut attempt: impl FnMut() -> EngineResult<T>) -> EngineResult<T> {
        loop {
            match attempt() {
                Err(EngineError::StatusNotInMemory { xid }) => {
                    self.known(xid)?;
                }
                result => return result,
            }
        }
    }

    pub(crate) fn horizon(&self) -> Horizon {
        let now = self.core.publisher.view();
        self.horizon_at.fetch_max(now.lsn.0, Ordering::Relaxed);
        if self.has(Mutant::IgnoreSnapshots) {
            return Horizon(now);
        }
        Horizon(self.core.slots.horizon(now))
    }

    pub(crate) fn recent_horizon(&self) -> Horizon {
        let published = self.core.publisher.published().0;
        let at = self.horizon_at.load(Ordering::Relaxed);
        if published.saturating_sub(at) >= HORIZON_STEP {
            return self.horizon();
        }
        Horizon(self.core.slots.cached_horizon())
    }

    pub(crate) fn removal(
        &self,
        horizon: &Horizon,
        xid: Xid,
        hint: Hint,
    ) -> EngineResult<(XidAtHorizon, Option<Hint>)> {
        if let Some(removal) = self.removal_by_hint(horizon, xid, hint) {
            return Ok((removal, None));
        }
        let known = self.known(xid)?;
        let fact = self.hint(known).filter(|_| hint == Hint::None);
        Ok((self.removal_of(horizon, known), fact))
    }

    /// [`TxnSystem::removal`] without reading any page: page locks may be held.
    ///
    /// # Errors
    /// `StatusNotInMemory`.
    pub(crate) fn removal_in_memory(
        &self,
        horizon: &Horizon,
        xid: Xid,
        hint: Hint,
    ) -> EngineResult<XidAtHorizon> {
        match self.removal_by_hint(horizon, xid, hint) {
            Some(removal) => Ok(removal),
            None => Ok(self.removal_of(horizon, self.known_in_memory(xid)?)),
        }
    }

    /// The verdict by the hint, with the span of the id's chunk if the id is not below the floor.
    fn removal_by_hint(&self, horizon: &Horizon, xid: Xid, hint: Hint) -> Option<XidAtHorizon> {
        match hint {
            Hint::Aborted => Some(XidAtHorizon::Aborted),
            Hint::Committed if xid < horizon.floor() => Some(XidAtHorizon::CommittedForAll),
            Hint::Committed => {
                let is_dead = self.core.window.committed_by(xid, horizon.lsn())?;
                is_dead.then_some(XidAtHorizon::CommittedForAll)
            }
            Hint::None => None,
        }
    }

    /// Whether a page is worth pruning that notes `hint` as its oldest deleter. Page locks may be
    /// held. An id from the floor on counts by its commit, so that one idle transaction does not
    /// keep what younger ones leave.
    pub(crate) fn is_prunable(&self, horizon: &Horizon, hint: Xid) -> bool {
        hint.is_some()
            && (hint < horizon.floor()
                || matches!(
                    self.removal_in_memory(horizon, hint, Hint::None),
                    Ok(XidAtHorizon::CommittedForAll | XidAtHorizon::Aborted)
                ))
    }

    /// The newest commit among these ids: the removal of a record that takes their effects from
    /// snapshots, or makes them visible to all. No page may be read for it.
    pub(crate) fn newest_commit(&self, xids: impl IntoIterator<Item = Xid>) -> Lsn {
        let normal = xids.into_iter().filter(|xid| xid.is_normal());
        let commits = normal.map(|xid| self.core.window.commit_bound(xid));
        commits.max().unwrap_or_default()
    }

    /// Has an id's status brought into memory in the background.
    pub(crate) fn fetch_later(&self, xid: Xid) {
        match self.core.window.get_in_memory(xid) {
            None => self.core.window.fetch_later(xid),
            Some(_) => self.status.fetch_later(xid),
        }
    }

    fn removal_of(&self, horizon: &Horizon, known: XidState) -> XidAtHorizon {
        match known {
            XidState::Aborted => XidAtHorizon::Aborted,
            XidState::Older => XidAtHorizon::CommittedForAll,
            XidState::Committed(lsn) if lsn <= horizon.lsn() => XidAtHorizon::CommittedForAll,
            XidState::Committed(lsn) if lsn <= self.core.publisher.published() => {
                XidAtHorizon::CommittedLately
            }
            XidState::Committed(_) | XidState::InProgress => XidAtHorizon::InProgress,
        }
    }

    /// Forgets statuses below `limit`, as far as nobody can ask for them any more.
    pub(crate) fn truncate_status(&self, limit: Xid) -> EngineResult<()> {
        let limit = limit
            .min(self.horizon().floor())
            .min(self.core.window.tail());
        // The records that froze the tuples of these ids must not be lost when their status is.
        self.store.log().flush_all()?;
        self.core.set_status_oldest(limit);
        let settled = self.core.window.settled();
        self.status.truncate(limit, settled)?;
        match &self.stamps {
            Some(stamps) => stamps.truncate(limit, settled),
            None => Ok(()),
        }
    }

    /// The background thread: applies what is published, moves the window's tail, drops files.
    pub(crate) fn run(&self) {
        let mut announced = Instant::now();
        while self.core.publisher.wait_for_work(LINGER) {
            // After the first activity behind the interval: an idle database writes nothing.
            if announced.elapsed() >= self.running_interval {
                announced = Instant::now();
                if let Err(error) = self.store.log_state() {
                    tracing::debug!(%error, "the state of transactions could not be logged");
                }
            }
            if let Err(error) = self.work() {
                if self.store.poison().is_set() {
                    return;
                }
                // Nothing is lost: the redo point waits for the pages that could not be had.
                tracing::warn!(%error, "transaction status could not be applied, trying again");
                std::thread::sleep(LINGER);
            }
        }
    }

    /// One round of the background work. Files are dropped though statuses could not be applied:
    /// that may be for want of the space that the files take.
    pub(crate) fn work(&self) -> EngineResult<()> {
        let applied = self.apply_published();
        self.drop_files();
        applied
    }

    fn apply_published(&self) -> EngineResult<()> {
        let _one_at_a_time = self.applying.lock();
        let mut floor = Xid::NONE;
        loop {
            let batch = self.core.publisher.take_batch(BATCH);
            if batch.is_empty() {
                break;
            }
            let result = self.apply_batch(&batch);
            floor = batch
                .iter()
                .map(|applied| applied.floor)
                .max()
                .unwrap_or(floor)
                .max(floor);
            self.core
                .publisher
                .finish_applying(result.is_err().then_some(batch));
            result?;
        }
        if floor.is_some() {
            let oldest = self.horizon().floor();
            self.core.window.advance_tail(floor.min(oldest));
        }
        self.core.window.fetch_wanted()
    }

    fn apply_batch(&self, batch: &[Applied]) -> EngineResult<()> {
        let entries = batch.iter().flat_map(|applied| {
            let bits = if applied.committed {
                StatusBits::Committed
            } else {
                StatusBits::Aborted
            };
            applied
                .xids
                .iter()
                .map(move |xid| (*xid, bits, applied.lsn))
        });
        self.status.set(entries)?;
        let Some(stamps) = &self.stamps else {
            return Ok(());
        };
        let commits = batch.iter().filter(|applied| applied.committed);
        stamps.set(commits.flat_map(|applied| {
            let ids = applied.xids.iter();
            ids.map(|xid| (*xid, applied.micros, applied.lsn))
        }))
    }

    /// When a transaction committed. None: it has not, or that is no longer known.
    ///
    /// # Errors
    /// `Unsupported` if times are not kept; the disk's.
    pub(crate) fn commit_timestamp(&self, xid: Xid) -> EngineResult<Option<u64>> {
        let Some(stamps) = &self.stamps else {
            let what = "commit timestamps without track_commit_timestamp";
            return Err(EngineError::Unsupported { what });
        };
        if !xid.is_normal() || xid >= self.core.next_xid() {
            return Ok(None);
        }
        if let RecentXidsState::Committed(lsn) = self.core.window.get(xid)?
            && lsn <= self.core.publisher.published()
        {
            // It is on its way to the page.
            while self.core.publisher.redo_floor().is_some_and(|at| at <= lsn) {
                self.store.poison().check()?;
                self.core.publisher.hurry();
                std::thread::sleep(SHORTLY);
            }
        }
        stamps.get(xid)
    }

    /// Drops the pending files, many at the cost of one flush and one sync. A file that cannot be
    /// dropped is tried again in a later round, and keeps the redo point where recovery finds the
    /// drop; otherwise the file would never be removed.
    fn drop_files(&self) {
        let pending = self.core.drops.take();
        let files: Vec<_> = pending.iter().map(|pending| pending.file).collect();
        let mut failed = Vec::new();
        let newest = pending.iter().map(|pending| pending.removal).max();
        let newest = RemovalLsn::Commit(newest.unwrap_or_default());
        if self.store.drop_files(&files, newest).is_err() {
            // One by one, to find those that cannot be.
            for pending in pending {
                let removal = RemovalLsn::Commit(pending.removal);
                if let Err(error) = self.store.drop_file(pending.file, removal) {
                    tracing::warn!(file = %pending.file, %error, "a dropped file is still there");
                    failed.push(pending);
                }
            }
        }
        self.core.drops.done(files.len(), failed);
    }
}
