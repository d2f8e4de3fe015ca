//! Publication: commits become visible strictly in the order of the log.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_storage::{InsertedRecord, Lsn, StorageError};
use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;

use super::recent_xids::RecentXids;
use super::record;
use super::shared::TxnShared;
use super::snapshot_registry::View;
use crate::types::Xid;

const ENDING_SHARDS: u64 = 16;

/// Orders what is decided: takes notes of complete records and of durability from the log, and
/// hands back which transactions have ended.
pub(crate) struct Publisher {
    published: AtomicU64,
    /// The id below which all is decided as of `published`; read before it.
    floor: AtomicU64,
    durable: AtomicU64,
    /// The newest commit that is published.
    newest_commit: AtomicU64,
    queue: Mutex<Queue>,
    /// Told when there is something to apply and nothing was before.
    to_apply: Condvar,
    ending: Box<[Mutex<HashMap<Xid, Arc<TxnShared>>>]>,
}

#[derive(Default)]
struct Queue {
    /// The newest record that was noted.
    last: Lsn,
    /// Complete records in log order that are not published.
    pending: VecDeque<Pending>,
    /// Published, to be applied to the status pages, in log order.
    applying: VecDeque<Applied>,
    /// Oldest of the batch that is being applied.
    in_hand: Option<Lsn>,
    urgent: bool,
    stopped: bool,
}

struct Pending {
    lsn: Lsn,
    /// Kept from being published until it is durable.
    sync: bool,
    committed: bool,
    txn: Arc<TxnShared>,
}

/// A decided transaction on its way to the status pages.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) lsn: Lsn,
    pub(crate) committed: bool,
    /// When it committed, in microseconds since the Unix epoch.
    pub(crate) micros: u64,
    pub(crate) xids: SmallVec<[Xid; 2]>,
    /// All ids below are decided, by records up to this one.
    pub(crate) floor: Xid,
}

/// A record was noted behind a later one: a commit would be visible before one ahead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record at {lsn} was noted after the one at {last}")]
pub(crate) struct OutOfOrder {
    last: Lsn,
    lsn: Lsn,
}

/// Transactions that were just published, in order.
pub(crate) type Published = SmallVec<[(Lsn, Arc<TxnShared>); 8]>;

impl Publisher {
    pub(crate) fn new() -> Publisher {
        Publisher {
            published: AtomicU64::new(0),
            floor: AtomicU64::new(Xid::FIRST.get()),
            durable: AtomicU64::new(0),
            newest_commit: AtomicU64::new(0),
            queue: Mutex::default(),
            to_apply: Condvar::new(),
            ending: (0..ENDING_SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// The newest view: what a snapshot taken now sees.
    pub(crate) fn view(&self) -> View {
        // Floor first: it belongs to this or an earlier position, never to a later one.
        let floor = Xid::new(self.floor.load(Ordering::Acquire));
        View {
            floor,
            lsn: self.published(),
        }
    }

    /// The id below which all is decided.
    pub(crate) fn floor(&self) -> Xid {
        self.view().floor
    }

    /// Commits up to here are visible.
    pub(crate) fn published(&self) -> Lsn {
        Lsn(self.published.load(Ordering::Acquire))
    }

    /// The newest commit that is published. Unlike [`Publisher::published`] it is a commit's
    /// position after a start, too.
    pub(crate) fn newest_commit(&self) -> Lsn {
        Lsn(self.newest_commit.load(Ordering::Acquire))
    }

    /// Records that start below are durable.
    pub(crate) fn durable_upto(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Starts over after recovery: all below `next` is decided, by commits up to `settled`.
    pub(crate) fn restart(&self, next: Xid, position: Lsn, settled: Lsn) {
        self.newest_commit.fetch_max(settled.0, Ordering::AcqRel);
        self.floor.store(next.get(), Ordering::Release);
        self.published.store(position.0, Ordering::Release);
    }

    fn shard(&self, xid: Xid) -> &Mutex<HashMap<Xid, Arc<TxnShared>>> {
        &self.ending[(xid.get() % ENDING_SHARDS) as usize]
    }

    /// A transaction is about to write its commit or abort record.
    pub(crate) fn will_end(&self, xid: Xid, txn: &Arc<TxnShared>) {
        self.shard(xid).lock().insert(xid, Arc::clone(txn));
    }

    /// Records are complete, in log order.
    ///
    /// # Errors
    /// [`OutOfOrder`]: then nothing of these is published. The caller poisons the instance, which
    /// it cannot do under the queue's lock: the pending commits are failed under that.
    pub(crate) fn completed(
        &self,
        notes: &[InsertedRecord],
        window: &RecentXids,
    ) -> Result<Published, OutOfOrder> {
        let mut queue = self.queue.lock();
        for note in notes {
            let last = std::mem::replace(&mut queue.last, note.lsn);
            if note.lsn <= last {
                let lsn = note.lsn;
                return Err(OutOfOrder { last, lsn });
            }
            let xid = Xid::new(note.xid);
            let Some(txn) = self.shard(xid).lock().remove(&xid) else {
                continue;
            };
            let committed = note.kind == record::COMMIT;
            let sync = committed && note.flags & record::FLAG_SYNC != 0;
            queue.pending.push_back(Pending {
                lsn: note.lsn,
                sync,
                committed,
                txn,
            });
        }
        Ok(self.publish(&mut queue, window))
    }

    /// Records that start below `upto` are durable.
    pub(crate) fn durable(&self, upto: Lsn, window: &RecentXids) -> Published {
        let mut queue = self.queue.lock();
        self.durable.fetch_max(upto.0, Ordering::Release);
        self.publish(&mut queue, window)
    }

    fn publish(&self, queue: &mut MutexGuard<'_, Queue>, window: &RecentXids) -> Published {
        let durable = self.durable_upto();
        let was_idle = queue.applying.is_empty();
        let mut published = Published::new();
        while let Some(next) = queue.pending.front() {
            if next.sync && next.lsn >= durable {
                break;
            }
            let Some(next) = queue.pending.pop_front() else {
                break;
            };
            let mut xids = SmallVec::new();
            next.txn.own().for_each(|xid| xids.push(xid));
            queue.applying.push_back(Applied {
                lsn: next.lsn,
                committed: next.committed,
                micros: next.txn.commit_micros(),
                xids,
                floor: Xid::NONE,
            });
            debug_assert!(
                next.lsn > self.published(),
                "the commit at {} published behind {}",
                next.lsn,
                self.published()
            );
            if next.committed {
                if let Some(hook) = next.txn.take_in_order() {
                    hook();
                }
                self.newest_commit.store(next.lsn.0, Ordering::Release);
                self.published.store(next.lsn.0, Ordering::Release);
                published.push((next.lsn, next.txn));
            }
        }
        let floor = self.advance_floor_locked(window);
        if let Some(last) = queue.applying.back_mut()
            && last.floor == Xid::NONE
        {
            last.floor = floor;
        }
        if was_idle && !queue.applying.is_empty() {
            self.to_apply.notify_one();
        }
        published
    }

    fn advance_floor_locked(&self, window: &RecentXids) -> Xid {
        let old = Xid::new(self.floor.load(Ordering::Relaxed));
        let floor = window.decided_until(old, self.published());
        debug_assert!(floor >= old, "the floor moved back from {old} to {floor}");
        if floor != old {
            self.floor.store(floor.get(), Ordering::Release);
        }
        floor
    }

    /// After an abort, which no record's order publishes: the floor may move.
    pub(crate) fn advance_floor(&self, window: &RecentXids) {
        let _queue = self.queue.lock();
        self.advance_floor_locked(window);
    }

    /// The log from here on is needed to bring the status pages up to date.
    pub(crate) fn redo_floor(&self) -> Option<Lsn> {
        let queue = self.queue.lock();
        let pending = queue.pending.front().map(|pending| pending.lsn);
        let applying = queue.applying.front().map(|applied| applied.lsn);
        [queue.in_hand, pending, applying]
            .into_iter()
            .flatten()
            .min()
    }

    /// The instance is poisoned: nobody's commit will be published any more.
    pub(crate) fn fail_pending(&self, error: &StorageError) -> Vec<Arc<TxnShared>> {
        let mut queue = self.queue.lock();
        let mut failed: Vec<_> = queue.pending.drain(..).map(|pending| pending.txn).collect();
        for shard in &self.ending {
            failed.extend(shard.lock().drain().map(|(_, txn)| txn));
        }
        tracing::debug!(count = failed.len(), %error, "commits left unpublished");
        failed
    }

    /// Takes what is to be applied and durable. `finish_applying` is to follow.
    pub(crate) fn take_batch(&self, most: usize) -> Vec<Applied> {
        let mut queue = self.queue.lock();
        let durable = self.durable_upto();
        let ready = queue
            .applying
            .iter()
            .take(most)
            .take_while(|next| next.lsn < durable)
            .count();
        debug_assert!(
            queue.in_hand.is_none(),
            "two batches at once: the redo point would pass the first"
        );
        let batch: Vec<Applied> = queue.applying.drain(..ready).collect();
        debug_assert!(
            batch.is_sorted_by_key(|applied| applied.lsn),
            "statuses would be set out of the log's order"
        );
        queue.in_hand = batch.first().map(|first| first.lsn);
        batch
    }

    /// The batch taken last is on its pages, or given back.
    pub(crate) fn finish_applying(&self, failed: Option<Vec<Applied>>) {
        let mut queue = self.queue.lock();
        for applied in failed.into_iter().flatten().rev() {
            queue.applying.push_front(applied);
        }
        queue.in_hand = None;
    }

    /// How many wait to be applied.
    pub(crate) fn backlog(&self) -> usize {
        self.queue.lock().applying.len()
    }

    /// Sleeps until there is something to apply, then a little longer to let it become a
    /// batch. `false` once stopped.
    pub(crate) fn wait_for_work(&self, linger: std::time::Duration) -> bool {
        let mut queue = self.queue.lock();
        while !queue.stopped && !queue.urgent && queue.applying.is_empty() {
            self.to_apply.wait(&mut queue);
        }
        if !queue.stopped && !queue.urgent {
            self.to_apply.wait_for(&mut queue, linger);
        }
        queue.urgent = false;
        !queue.stopped
    }

    /// Wakes the applier at once.
    pub(crate) fn hurry(&self) {
        self.queue.lock().urgent = true;
        self.to_apply.notify_one();
    }

    /// Ends the applier's sleep for good.
    pub(crate) fn stop(&self) {
        self.queue.lock().stopped = true;
        self.to_apply.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::LockManager;
    use evenkeel_io::SimDisk;
    use std::path::Path;

    struct Log {
        publisher: Publisher,
        window: RecentXids,
        locks: LockManager,
        lsn: u64,
    }

    impl Log {
        fn new() -> Log {
            let disk = Arc::new(SimDisk::new(1));
            Log {
                publisher: Publisher::new(),
                window: RecentXids::new(disk, Path::new("/"), 1 << 14),
                locks: LockManager::new(),
                lsn: 1 << 16,
            }
        }

        fn end(
            &mut self,
            xid: u64,
            kind: evenkeel_storage::RecordKind,
            flags: u8,
        ) -> InsertedRecord {
            self.lsn += 64;
            self.window.prepare(xid).unwrap();
            let txn = Arc::new(TxnShared::new(self.locks.new_owner()));
            txn.own().set_top(Xid::new(xid));
            if kind == record::COMMIT {
                self.window.commit(Xid::new(xid), Lsn(self.lsn));
            } else {
                self.window.abort(Xid::new(xid));
            }
            self.publisher.will_end(Xid::new(xid), &txn);
            InsertedRecord {
                lsn: Lsn(self.lsn),
                end: Lsn(self.lsn + 64),
                xid,
                kind,
                flags,
            }
        }

        fn completed(&self, notes: &[InsertedRecord]) -> Vec<Lsn> {
            let published = self.publisher.completed(notes, &self.window);
            lsns(&published.expect("in the log's order"))
        }

        fn durable(&self, upto: Lsn) -> Vec<Lsn> {
            lsns(&self.publisher.durable(upto, &self.window))
        }
    }

    fn lsns(published: &Published) -> Vec<Lsn> {
        published.iter().map(|(lsn, _)| *lsn).collect()
    }

    #[test]
    fn an_asynchronous_commit_waits_for_synchronous_ones_ahead() {
        let mut log = Log::new();
        let first = log.end(3, record::COMMIT, 0);
        assert_eq!(log.completed(&[first]), [first.lsn]);
        let sync = log.end(4, record::COMMIT, record::FLAG_SYNC);
        let asynchronous = log.end(5, record::COMMIT, 0);
        assert!(log.completed(&[sync, asynchronous]).is_empty());
        assert_eq!(
            log.publisher.view(),
            View {
                lsn: first.lsn,
                floor: Xid::new(4)
            }
        );
        assert!(log.durable(sync.lsn).is_empty());
        assert_eq!(log.durable(sync.end), [sync.lsn, asynchronous.lsn]);
        assert_eq!(
            log.publisher.view(),
            View {
                lsn: asynchronous.lsn,
                floor: Xid::new(6)
            }
        );
    }

    #[test]
    fn a_record_durable_before_it_is_noted_is_published_at_once() {
        let mut log = Log::new();
        let sync = log.end(3, record::COMMIT, record::FLAG_SYNC);
        assert!(log.durable(sync.end).is_empty());
        assert_eq!(log.completed(&[sync]), [sync.lsn]);
    }

    #[test]
    fn the_redo_point_waits_for_what_is_not_applied() {
        let mut log = Log::new();
        assert_eq!(log.publisher.redo_floor(), None);
        let a = log.end(3, record::COMMIT, record::FLAG_SYNC);
        let b = log.end(4, record::ABORT, 0);
        let c = log.end(5, record::COMMIT, 0);
        log.completed(&[a, b, c]);
        assert_eq!(log.publisher.redo_floor(), Some(a.lsn));
        assert!(log.publisher.take_batch(10).is_empty());
        // Published, but an asynchronous commit is applied only once it is durable.
        log.durable(c.lsn);
        let batch = log.publisher.take_batch(10);
        assert_eq!(
            batch.iter().map(|applied| applied.lsn).collect::<Vec<_>>(),
            [a.lsn, b.lsn]
        );
        assert_eq!(log.publisher.redo_floor(), Some(a.lsn));
        log.publisher.finish_applying(Some(batch));
        assert_eq!(log.publisher.redo_floor(), Some(a.lsn));
        assert_eq!(log.publisher.take_batch(10).len(), 2);
        log.publisher.finish_applying(None);
        assert_eq!(log.publisher.redo_floor(), Some(c.lsn));
        log.durable(c.end);
        let last = log.publisher.take_batch(10);
        assert_eq!(last[0].floor, Xid::new(6));
        log.publisher.finish_applying(None);
        assert_eq!(log.publisher.redo_floor(), None);
    }

    #[test]
    fn records_noted_out_of_order_are_not_published() {
        let mut log = Log::new();
        let [a, b, c] = [3, 4, 5].map(|xid| log.end(xid, record::COMMIT, 0));
        assert_eq!(log.completed(&[a]), [a.lsn]);
        let disorder = |lsn, last| Err(OutOfOrder { last, lsn });
        for (notes, expected) in [
            ([c, b], disorder(b.lsn, c.lsn)),
            ([a, b], disorder(a.lsn, b.lsn)),
        ] {
            let published = log.publisher.completed(&notes, &log.window);
            assert_eq!(published.map(|published| lsns(&published)), expected);
            assert_eq!(log.publisher.published(), a.lsn);
        }
    }

    #[test]
    fn the_floor_stops_at_the_first_undecided_id() {
        let mut log = Log::new();
        log.window.prepare(3).unwrap();
        let later = log.end(4, record::COMMIT, 0);
        log.completed(&[later]);
        assert_eq!(log.publisher.view().floor, Xid::new(3));
        log.window.abort(Xid::new(3));
        log.publisher.advance_floor(&log.window);
        assert_eq!(log.publisher.view().floor, Xid::new(5));
    }
}
