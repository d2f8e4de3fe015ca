//! Positions that the redo point may not pass while a file operation is unfinished.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::ids::Lsn;

/// An ordered multiset of positions.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    held: Mutex<BTreeMap<Lsn, usize>>,
}

impl Holds {
    /// Holds the position that `position` reads. It is read under the lock that [`Holds::min`]
    /// takes, so a checkpoint that announced its target later sees the hold.
    pub(crate) fn hold(self: &Arc<Self>, position: impl FnOnce() -> Lsn) -> RedoHold {
        let mut held = self.held.lock();
        let lsn = position();
        *held.entry(lsn).or_insert(0) += 1;
        RedoHold {
            holds: Arc::clone(self),
            lsn,
        }
    }

    /// The lowest position held.
    pub(crate) fn min(&self) -> Option<Lsn> {
        self.held.lock().keys().next().copied()
    }
}

/// Keeps the redo point at or below a position until dropped.
#[must_use = "the hold ends when this is dropped"]
#[derive(Debug)]
pub struct RedoHold {
    holds: Arc<Holds>,
    lsn: Lsn,
}

impl RedoHold {
    /// The position held.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl Drop for RedoHold {
    fn drop(&mut self) {
        let mut held = self.holds.held.lock();
        if let Some(count) = held.get_mut(&self.lsn) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.lsn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_hold_counts_until_its_last_holder_is_gone() {
        let holds = Arc::new(Holds::default());
        assert_eq!(holds.min(), None);
        let a = holds.hold(|| Lsn(50));
        let b = holds.hold(|| Lsn(20));
        let c = holds.hold(|| Lsn(20));
        assert_eq!(holds.min(), Some(Lsn(20)));
        drop(b);
        assert_eq!(holds.min(), Some(Lsn(20)));
        drop(c);
        assert_eq!(holds.min(), Some(Lsn(50)));
        assert_eq!(a.lsn(), Lsn(50));
        drop(a);
        assert_eq!(holds.min(), None);
    }
}
