//! The transaction's own ids and its combo command ids. Shared with its snapshots, which may be
//! read by other threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::types::{CommandId, Xid};

/// The ids of one transaction and its live subtransactions, and its combo command ids.
#[derive(Debug, Default)]
pub struct OwnXids {
    top: AtomicU64,
    has_subs: AtomicBool,
    /// Ascending. Those of a subtransaction lie behind the mark where it began.
    subs: Mutex<Vec<Xid>>,
    /// How often a subtransaction was rolled back.
    rollbacks: AtomicU64,
    combos: Mutex<Combos>,
}

#[derive(Debug, Default)]
struct Combos {
    list: Vec<(CommandId, CommandId)>,
    numbers: HashMap<(CommandId, CommandId), CommandId>,
}

impl OwnXids {
    /// The transaction's id, if it has one.
    pub fn top(&self) -> Option<Xid> {
        let top = Xid::new(self.top.load(Ordering::Acquire));
        top.is_some().then_some(top)
    }

    /// Whether the id is the transaction's or a subtransaction's that was not rolled back.
    pub fn contains(&self, xid: Xid) -> bool {
        let top = self.top.load(Ordering::Acquire);
        if top == xid.get() {
            return top != 0;
        }
        // Subtransactions are younger than their transaction.
        xid.get() > top
            && self.has_subs.load(Ordering::Acquire)
            && self.subs.lock().binary_search(&xid).is_ok()
    }

    /// The transaction's id; `assign` makes one if it has none.
    pub(crate) fn top_or<E>(&self, assign: impl FnOnce() -> Result<Xid, E>) -> Result<Xid, E> {
        if let Some(top) = self.top() {
            return Ok(top);
        }
        // One at a time: an id that nobody ends would be in progress for ever.
        let _subs = self.subs.lock();
        if let Some(top) = self.top() {
            return Ok(top);
        }
        let top = assign()?;
        self.set_top(top);
        Ok(top)
    }

    pub(crate) fn set_top(&self, xid: Xid) {
        self.top.store(xid.get(), Ordering::Release);
    }

    pub(crate) fn sub_count(&self) -> usize {
        if self.has_subs.load(Ordering::Acquire) {
            self.subs.lock().len()
        } else {
            0
        }
    }

    /// The first id assigned at or after the mark: it lives and dies with whatever began there.
    pub(crate) fn first_sub_from(&self, mark: usize) -> Option<Xid> {
        self.subs.lock().get(mark).copied()
    }

    pub(crate) fn push_sub(&self, xid: Xid) {
        self.subs.lock().push(xid);
        self.has_subs.store(true, Ordering::Release);
    }

    /// Removes the ids from the mark on, as they are rolled back.
    pub(crate) fn cut_subs(&self, mark: usize) -> Vec<Xid> {
        self.rollbacks.fetch_add(1, Ordering::Release);
        let mut subs = self.subs.lock();
        if mark < subs.len() {
            subs.split_off(mark)
        } else {
            Vec::new()
        }
    }

    /// How often a subtransaction was rolled back: the transaction's own rows that were seen
    /// before may be gone, and their places others'.
    pub(crate) fn rollbacks(&self) -> u64 {
        self.rollbacks.load(Ordering::Acquire)
    }

    /// The live subtransactions' ids.
    pub(crate) fn subs(&self) -> Vec<Xid> {
        if self.has_subs.load(Ordering::Acquire) {
            self.subs.lock().clone()
        } else {
            Vec::new()
        }
    }

    /// The transaction's id and its live subtransactions'.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Xid)) {
        self.top().into_iter().for_each(&mut visit);
        if self.has_subs.load(Ordering::Acquire) {
            self.subs.lock().iter().copied().for_each(visit);
        }
    }

    /// The number that stands for this pair in a tuple that the transaction both made and
    /// deleted.
    pub(crate) fn make_combo(&self, cmin: CommandId, cmax: CommandId) -> CommandId {
        let mut combos = self.combos.lock();
        if let Some(number) = combos.numbers.get(&(cmin, cmax)) {
            return *number;
        }
        let number = CommandId(combos.list.len() as u32);
        combos.list.push((cmin, cmax));
        combos.numbers.insert((cmin, cmax), number);
        number
    }

    /// The pair that a number stands for; `None` for a number never made.
    pub fn combo(&self, number: CommandId) -> Option<(CommandId, CommandId)> {
        self.combos.lock().list.get(number.0 as usize).copied()
    }
}
