//! What changes, checkpoints and recovery do with the parts they share.

use std::sync::Arc;

use crate::buffer::{Prefetcher, ReadAheadOptions};
use crate::control::{Control, State};
use crate::error::{ApplyError, StorageError, StorageResult};
use crate::ids::Lsn;
use crate::mutant::Mutant;
use crate::store::{ApplyContext, Core};

impl Core {
    /// Poisons the instance after a page and its log record were found not to fit.
    #[cold]
    pub(crate) fn apply_failed(
        &self,
        op: u16,
        cx: &ApplyContext,
        error: &ApplyError,
    ) -> StorageError {
        let text: Arc<str> = Arc::from(format!(
            "operation {op:#06x} of the record at {} failed on {}: {error}",
            cx.lsn, cx.page_id
        ));
        self.poison.set(Arc::clone(&text));
        StorageError::Internal(text)
    }

    /// Says in the control file that the database is open, and whether the log from the redo
    /// point on goes on having images.
    pub(crate) fn mark_running(&self, images: bool) -> StorageResult<()> {
        let mut control = self.control.lock();
        let next = Control {
            state: State::Running,
            images,
            durable: self.log.durable_lsn(),
            wal_buffers: control.current().wal_buffers.max(self.config.wal_buffers),
            ..control.current().clone()
        };
        control.write(next)
    }

    /// Most log in memory at once since a redo point of `incarnation`: if that is this instance's,
    /// no other one wrote any of it.
    pub(crate) fn wal_buffers_since(&self, incarnation: u64, known: u64) -> u64 {
        let own = self.config.wal_buffers;
        if incarnation == self.log.incarnation() {
            own
        } else {
            own.max(known)
        }
    }

    /// Announces a redo point and remembers it where only such a one may become the redo point.
    pub(crate) fn announce_redo_point(&self) -> Lsn {
        let lsn = self.log.append_redo_point();
        if self.log.has_images() {
            self.redo_points.lock().push(lsn);
        }
        lsn
    }

    /// The best redo point that is not beyond `limit`. In a log with images it is one that was
    /// announced: only from there on every page that is changed has its image (checkpoint
    /// rule 5).
    pub(crate) fn redo_point_within(&self, limit: Lsn, old: Lsn) -> Lsn {
        if !self.log.has_images() || self.config.has(Mutant::AnyRedoPoint) {
            return limit.max(old);
        }
        let mut announced = self.redo_points.lock();
        let best = announced.iter().copied().filter(|lsn| *lsn <= limit).max();
        let redo = best.map_or(old, |best| best.max(old));
        announced.retain(|lsn| *lsn > redo);
        redo
    }

    /// What recovery reads ahead with, if it does: never more than a quarter of the pool.
    pub(crate) fn recovery_prefetcher(&self) -> Option<Prefetcher> {
        let config = &self.config;
        let depth = config.maintenance_io_concurrency.min(config.frames() / 4);
        let options = ReadAheadOptions { depth, combine: 1 };
        (config.recovery_prefetch && depth > 0)
            .then(|| Prefetcher::new(Arc::clone(&self.disk), options))
    }

    /// Incarnation of the record at `lsn`, which is not before the redo point.
    pub(crate) fn incarnation_at(&self, lsn: Lsn) -> u64 {
        let incarnations = self.incarnations.lock();
        let at = incarnations.partition_point(|(start, _)| *start <= lsn);
        incarnations
            .get(at.saturating_sub(1))
            .map_or(0, |(_, incarnation)| *incarnation)
    }

    /// Forgets incarnations that ended before the redo point.
    pub(crate) fn forget_incarnations_before(&self, redo: Lsn) {
        let mut incarnations = self.incarnations.lock();
        let at = incarnations.partition_point(|(start, _)| *start <= redo);
        incarnations.drain(..at.saturating_sub(1));
    }

    /// Writes what is in the log and ends the threads.
    pub(crate) fn stop(&self) {
        // First: it may write log.
        self.writer.stop_cleaner();
        if let Err(error) = self.log.stop() {
            tracing::warn!("the log was not flushed at the end: {error}");
        }
        if let Err(error) = self.writer.shutdown() {
            tracing::warn!("the double-write area was not closed: {error}");
        }
        self.watchdog.stop();
    }
}
