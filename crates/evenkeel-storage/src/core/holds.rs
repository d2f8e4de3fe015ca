//! Positions that the redo point may not pass while a file operation is unfinished.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::ids::{FileId, Lsn};
use crate::record::files::OpenFile;

/// The positions held, and the files created by transactions that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: BTreeMap<HoldId, Held>,
    last: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct HoldId(u64);

#[derive(Debug)]
struct Held {
    lsn: Lsn,
    /// The file and the transaction of a creation that a checkpoint may record anew.
    creation: Option<OpenFile>,
}

/// The creations that were open at a moment. Their holds do not count for the checkpoint that
/// records them.
#[derive(Debug, Default)]
pub(crate) struct OpenCreations(Vec<(HoldId, OpenFile)>);

impl OpenCreations {
    pub(crate) fn files(&self) -> impl ExactSizeIterator<Item = OpenFile> + '_ {
        self.0.iter().map(|(_, open)| *open)
    }
}

impl Holds {
    /// Holds the position that `position` reads. It is read under the lock that [`Holds::min`]
    /// takes, so a checkpoint that announced its target later sees the hold.
    pub(crate) fn hold(self: &Arc<Self>, position: impl FnOnce() -> Lsn) -> RedoHold {
        let mut state = self.state.lock();
        state.last += 1;
        let id = HoldId(state.last);
        let lsn = position();
        let creation = None;
        state.held.insert(id, Held { lsn, creation });
        RedoHold {
            holds: Arc::clone(self),
            id,
        }
    }

    /// The lowest position held, but for those of `recorded`.
    pub(crate) fn min(&self, recorded: &OpenCreations) -> Option<Lsn> {
        let is_recorded = |id: &HoldId| recorded.0.binary_search_by_key(id, |(id, _)| *id).is_ok();
        let state = self.state.lock();
        let held = state.held.iter().filter(|(id, _)| !is_recorded(id));
        held.map(|(_, held)| held.lsn).min()
    }

    /// The creations whose transactions have not begun to end.
    pub(crate) fn open_creations(&self) -> OpenCreations {
        let state = self.state.lock();
        let open = state.held.iter();
        OpenCreations(
            open.filter_map(|(id, held)| Some((*id, held.creation?)))
                .collect(),
        )
    }

    /// The creations were recorded anew at `lsn`, and the redo point does not need what the log
    /// says of them before.
    pub(crate) fn raise(&self, recorded: &OpenCreations, lsn: Lsn) {
        let mut state = self.state.lock();
        for (id, _) in &recorded.0 {
            if let Some(held) = state.held.get_mut(id) {
                held.lsn = held.lsn.max(lsn);
            }
        }
    }
}

/// Keeps the redo point at or below a position until dropped.
#[must_use = "the hold ends when this is dropped"]
#[derive(Debug)]
pub struct RedoHold {
    holds: Arc<Holds>,
    id: HoldId,
}

impl RedoHold {
    /// The position held: that of the creation of a file, or of its newest record.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        let state = self.holds.state.lock();
        state.held.get(&self.id).map_or(Lsn::MAX, |held| held.lsn)
    }

    /// The hold is for the creation of `file`, which is on disk, by transaction `xid`. From here
    /// on checkpoints record the creation anew and pass the position.
    pub(crate) fn is_creation(&self, file: FileId, xid: u64) {
        self.set_creation(Some(OpenFile { file, xid }));
    }

    /// To be called before the record is written by which the creating transaction commits. Until
    /// then a checkpoint records the creation behind its target, and so does the transaction its
    /// end; from here on the record of the end may lie before the target, so the redo point waits
    /// for the hold.
    pub fn settle(&self) {
        self.set_creation(None);
    }

    fn set_creation(&self, creation: Option<OpenFile>) {
        let mut state = self.holds.state.lock();
        if let Some(held) = state.held.get_mut(&self.id) {
            held.creation = creation;
        }
    }
}

impl Drop for RedoHold {
    fn drop(&mut self) {
        self.holds.state.lock().held.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_hold_counts_until_its_last_holder_is_gone() {
        let holds = Arc::new(Holds::default());
        let min = || holds.min(&OpenCreations::default());
        assert_eq!(min(), None);
        let a = holds.hold(|| Lsn(50));
        let b = holds.hold(|| Lsn(20));
        let c = holds.hold(|| Lsn(20));
        assert_eq!(min(), Some(Lsn(20)));
        drop(b);
        assert_eq!(min(), Some(Lsn(20)));
        drop(c);
        assert_eq!(min(), Some(Lsn(50)));
        assert_eq!(a.lsn(), Lsn(50));
        drop(a);
        assert_eq!(min(), None);
    }

    #[test]
    fn a_creation_is_passed_when_it_is_recorded_and_its_transaction_runs_on() {
        let holds = Arc::new(Holds::default());
        let (file, none) = (FileId(7), OpenCreations::default());
        let running = holds.hold(|| Lsn(10));
        assert_eq!(holds.open_creations().files().len(), 0, "not on disk yet");
        running.is_creation(file, 3);
        let ending = holds.hold(|| Lsn(20));
        ending.is_creation(FileId(8), 4);
        ending.settle();
        let open = holds.open_creations();
        assert!(open.files().eq([OpenFile { file, xid: 3 }]));
        // It may begin to end meanwhile: that record lies behind the target.
        running.settle();
        assert_eq!(holds.min(&open), Some(Lsn(20)));
        assert_eq!(holds.min(&none), Some(Lsn(10)));
        holds.raise(&open, Lsn(90));
        assert_eq!((running.lsn(), ending.lsn()), (Lsn(90), Lsn(20)));
        drop(ending);
        assert_eq!(holds.min(&holds.open_creations()), Some(Lsn(90)));
    }
}
