//! The atomic loops around the frame word: pinning, the content lock and its waiters.

use std::convert::Infallible;
use std::sync::Arc;

use super::frame_state::{Asker, Flag, FrameState, Mode, PinRefused};
use super::waiters::WaitTable;
use crate::sync::{AtomicU64, Ordering, Parker, SPINS, spin_loop};

/// A frame's word.
///
/// An uncontended operation is one compare-and-swap (BUF-1). A thread that must wait
/// enters the queue and tries once more under the queue's mutex, in one step with setting
/// `WAITERS`; who gives the lock back afterwards sees the flag and takes that mutex, so no
/// wake-up is lost (BUF-4).
pub(crate) struct Latch(AtomicU64);

impl Latch {
    pub(crate) fn new(word: FrameState) -> Self {
        Latch(AtomicU64::new(word.0))
    }

    #[inline]
    pub(crate) fn load(&self) -> FrameState {
        FrameState(self.0.load(Ordering::Acquire))
    }

    /// Publishes a page in a frame that is the caller's alone.
    pub(crate) fn publish(&self, word: FrameState) {
        self.0.store(word.0, Ordering::Release);
    }

    /// Applies a transition until it is refused or wins; answers the word before and after.
    #[inline]
    pub(crate) fn update<E>(
        &self,
        transition: impl Fn(FrameState) -> Result<FrameState, E>,
    ) -> Result<(FrameState, FrameState), E> {
        let mut word = FrameState(self.0.load(Ordering::Relaxed));
        loop {
            let next = transition(word)?;
            match self.swap(word, next) {
                Ok(()) => return Ok((word, next)),
                Err(found) => word = found,
            }
        }
    }

    /// As [`Latch::update`], for transitions that may not be allowed.
    #[inline]
    pub(crate) fn try_update(
        &self,
        transition: impl Fn(FrameState) -> Option<FrameState>,
    ) -> Option<FrameState> {
        self.update(|word| transition(word).ok_or(()))
            .ok()
            .map(|(before, _)| before)
    }

    #[inline]
    fn swap(&self, from: FrameState, to: FrameState) -> Result<(), FrameState> {
        self.0
            .compare_exchange_weak(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed)
            .map(|_| ())
            .map_err(FrameState)
    }

    /// Pins and, if nothing is in the way, takes the share lock in the same step. Says whether
    /// the lock was taken.
    #[inline]
    pub(crate) fn pin_and_share(&self) -> Result<bool, PinRefused> {
        let (_, after) = self.update(|word| {
            let pinned = word.pinned()?;
            Ok(pinned
                .locked(Mode::Share, Asker::Newcomer)
                .unwrap_or(pinned))
        })?;
        // Both transitions are told apart by the share count; only this thread's own matters,
        // and a lock that others share as well was taken by this step if X and the bar are off.
        Ok(after.locked(Mode::Share, Asker::Newcomer).is_some())
    }

    #[inline]
    pub(crate) fn unpin(&self) {
        let _ = self.try_update(|word| Some(word.unpinned()));
    }

    /// Takes the lock if that needs no waiting.
    #[inline]
    pub(crate) fn try_lock(&self, mode: Mode) -> bool {
        self.try_update(|word| word.locked(mode, Asker::Newcomer))
            .is_some()
    }

    /// Takes the lock. The caller holds a pin and no lock on this frame.
    #[inline]
    pub(crate) fn lock(&self, mode: Mode, table: &WaitTable) {
        if !self.try_lock(mode) {
            self.lock_contended(mode, table);
        }
    }

    #[cold]
    fn lock_contended(&self, mode: Mode, table: &WaitTable) {
        for _ in 0..SPINS {
            spin_loop();
            if self.try_lock(mode) {
                return;
            }
        }
        let waiter = Arc::new(Parker::new());
        let mut asker = Asker::Newcomer;
        while !self.lock_or_enqueue(mode, asker, table, &waiter) {
            waiter.park();
            asker = Asker::Queued;
        }
    }

    /// One try under the queue's mutex; failing, the waiter is in the queue and announced.
    pub(crate) fn lock_or_enqueue(
        &self,
        mode: Mode,
        asker: Asker,
        table: &WaitTable,
        waiter: &Arc<Parker>,
    ) -> bool {
        let key = self.key();
        let mut queue = table.queue(key);
        let step = self.update::<Infallible>(|word| {
            Ok(match word.locked(mode, asker) {
                Some(locked) => locked,
                // Overtaken after being woken: from now on newcomers queue (BUF-5).
                None if asker == Asker::Queued => word.with(Flag::WAITERS).with(Flag::BARRED),
                None => word.with(Flag::WAITERS),
            })
        });
        let Ok((before, _)) = step;
        if before.locked(mode, asker).is_some() {
            return true;
        }
        match asker {
            Asker::Newcomer => queue.push_back(key, mode, waiter),
            Asker::Queued => queue.push_front(key, mode, waiter),
        }
        false
    }

    /// Gives the lock back.
    #[inline]
    pub(crate) fn unlock(&self, mode: Mode, table: &WaitTable) {
        self.release(mode, table, |word| word.unlocked(mode));
    }

    /// Gives the lock back and the pin with it, in one step.
    #[inline]
    pub(crate) fn unlock_and_unpin(&self, mode: Mode, table: &WaitTable) {
        self.release(mode, table, |word| word.unlocked(mode).unpinned());
    }

    /// From exclusive to share, letting other sharers in.
    pub(crate) fn downgrade(&self, table: &WaitTable) {
        self.release(Mode::Exclusive, table, |word| {
            // Alone under exclusive, so the conversion is always allowed.
            word.converted(Mode::Exclusive, Mode::Share).unwrap_or(word)
        });
    }

    /// From share to share-exclusive, if nobody else has that: one try that never waits.
    #[inline]
    pub(crate) fn try_upgrade(&self) -> bool {
        self.try_update(|word| word.converted(Mode::Share, Mode::ShareExclusive))
            .is_some()
    }

    /// Back from share-exclusive to share; `dirtied` by hints or not.
    #[inline]
    pub(crate) fn end_upgrade(&self, dirtied: bool, table: &WaitTable) {
        self.release(Mode::ShareExclusive, table, |word| {
            // Shares are always compatible with a share-exclusive lock given back.
            let word = word
                .converted(Mode::ShareExclusive, Mode::Share)
                .unwrap_or(word);
            if dirtied {
                word.with(Flag::HINT_DIRTY)
            } else {
                word
            }
        });
    }

    #[inline]
    fn release(
        &self,
        mode: Mode,
        table: &WaitTable,
        transition: impl Fn(FrameState) -> FrameState,
    ) {
        let Ok((_, after)) = self.update::<Infallible>(|word| Ok(transition(word)));
        if after.should_wake(mode) {
            self.wake(table);
        }
    }

    #[cold]
    fn wake(&self, table: &WaitTable) {
        let key = self.key();
        let woken = {
            let mut queue = table.queue(key);
            let (woken, stay) = queue.take_compatible(key);
            if !stay {
                // Under the mutex: whoever queues next sets the flag again.
                let _ = self.try_update(|word| Some(word.without(Flag::WAITERS)));
            }
            woken
        };
        for waiter in woken {
            waiter.wake();
        }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}
