//! The frame word: pins, usage, flags and the content lock in 64 bits.
//!
//! Everything here is a pure function from a word to its successor; `None` means the transition
//! is not allowed now. The atomic loops around them are in `latch.rs`.
//!
//! ```text
//!  0..18  pins
//! 18..22  usage (clock)
//! 22..34  flags
//! 34..52  share locks
//! 52      share-exclusive lock
//! 53      exclusive lock
//! ```

use std::fmt;

const PIN_BITS: u32 = 18;
const USAGE_BITS: u32 = 4;
const FLAG_BITS: u32 = 12;
const SHARE_BITS: u32 = 18;

const USAGE_SHIFT: u32 = PIN_BITS;
const FLAG_SHIFT: u32 = USAGE_SHIFT + USAGE_BITS;
const SHARE_SHIFT: u32 = FLAG_SHIFT + FLAG_BITS;
const SX_SHIFT: u32 = SHARE_SHIFT + SHARE_BITS;
const X_SHIFT: u32 = SX_SHIFT + 1;

const PIN_ONE: u64 = 1;
const PIN_MASK: u64 = (1 << PIN_BITS) - 1;
const USAGE_ONE: u64 = 1 << USAGE_SHIFT;
const USAGE_MASK: u64 = ((1 << USAGE_BITS) - 1) << USAGE_SHIFT;
const SHARE_ONE: u64 = 1 << SHARE_SHIFT;
const SHARE_MASK: u64 = ((1 << SHARE_BITS) - 1) << SHARE_SHIFT;
const SX: u64 = 1 << SX_SHIFT;
const X: u64 = 1 << X_SHIFT;
const LOCK_MASK: u64 = SHARE_MASK | SX | X;

/// The clock forgets more than this.
pub(crate) const MAX_USAGE: u64 = 5;

const _: () = assert!(X_SHIFT < 64);
const _: () = assert!(MAX_USAGE < 1 << USAGE_BITS);
// A lock is held through a pin, so the share count cannot overflow before the pin count does.
const _: () = assert!(SHARE_BITS >= PIN_BITS);
const _: () = assert!(Flag::LAST.0 < 1 << (FLAG_SHIFT + FLAG_BITS));
const _: () = assert!(
    PIN_MASK & USAGE_MASK == 0
        && USAGE_MASK & SHARE_MASK == 0
        && (PIN_MASK | USAGE_MASK) & LOCK_MASK == 0
);

/// A flag of the frame word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flag(u64);

impl Flag {
    /// The frame holds a page. Without it the frame has one owner: the free list, a loader or an
    /// evictor, and nobody can pin it.
    pub(crate) const VALID: Flag = Flag(1 << FLAG_SHIFT);
    /// The content has changes that no write-out has copied.
    pub(crate) const DIRTY: Flag = Flag(1 << (FLAG_SHIFT + 1));
    /// As `DIRTY`, but only by hints or advice: may be lost.
    pub(crate) const HINT_DIRTY: Flag = Flag(1 << (FLAG_SHIFT + 2));
    /// A copy is on its way home. The content may change, the frame may not be evicted nor
    /// written a second time.
    pub(crate) const WRITING: Flag = Flag(1 << (FLAG_SHIFT + 3));
    /// Somebody waits for the content lock.
    pub(crate) const WAITERS: Flag = Flag(1 << (FLAG_SHIFT + 4));
    /// A waiter was overtaken after it had been woken: newcomers queue.
    pub(crate) const BARRED: Flag = Flag(1 << (FLAG_SHIFT + 5));
    const LAST: Flag = Flag::BARRED;

    const fn or(self, other: Flag) -> Flag {
        Flag(self.0 | other.0)
    }

    /// Changes under log that are not at home.
    pub(crate) const UNWRITTEN: Flag = Flag::DIRTY.or(Flag::WRITING);
    /// Any of these flags keeps a frame from being evicted as it is.
    pub(crate) const UNCLEAN: Flag = Flag::DIRTY.or(Flag::HINT_DIRTY).or(Flag::WRITING);
}

/// Modes of the content lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Reading; conflicts with `Exclusive`.
    Share,
    /// Setting hints, copying out; conflicts with itself and `Exclusive`.
    ShareExclusive,
    /// Changing; conflicts with everything.
    Exclusive,
}

/// The state of the thread that asks for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// Has not waited; is held up by `BARRED`.
    Newcomer,
    /// Was in the queue and has been woken; clears `BARRED` when it gets the lock.
    Queued,
}

/// Why a pin was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PinRefused {
    /// The frame holds no page: look at the array entry again.
    NotValid,
    /// The count is at its maximum.
    TooMany,
}

/// A value of the frame word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameState(pub(crate) u64);

impl FrameState {
    /// A frame without a page.
    pub(crate) const FREE: FrameState = FrameState(0);

    /// A page just loaded, admitted cold, with this many pins (0 or 1).
    pub(crate) const fn loaded(pins: u64) -> FrameState {
        FrameState(Flag::VALID.0 | (pins & 1))
    }

    #[inline]
    pub(crate) const fn has(self, flag: Flag) -> bool {
        self.0 & flag.0 != 0
    }

    #[inline]
    pub(crate) const fn with(self, flag: Flag) -> FrameState {
        FrameState(self.0 | flag.0)
    }

    #[inline]
    pub(crate) const fn without(self, flag: Flag) -> FrameState {
        FrameState(self.0 & !flag.0)
    }

    pub(crate) const fn pins(self) -> u64 {
        self.0 & PIN_MASK
    }

    pub(crate) const fn usage(self) -> u64 {
        (self.0 & USAGE_MASK) >> USAGE_SHIFT
    }

    pub(crate) const fn shares(self) -> u64 {
        (self.0 & SHARE_MASK) >> SHARE_SHIFT
    }

    pub(crate) const fn is_locked(self) -> bool {
        self.0 & LOCK_MASK != 0
    }

    /// Whether somebody holds the lock in a mode that only one can: what is changed under it is
    /// read as one whole by nobody else.
    pub(crate) const fn has_one_holder(self) -> bool {
        self.0 & (SX | X) != 0
    }

    /// One pin more, and one step hotter.
    #[inline]
    pub(crate) const fn pinned(self) -> Result<FrameState, PinRefused> {
        match self.pinned_quietly() {
            Ok(word) if word.usage() < MAX_USAGE => Ok(FrameState(word.0 + USAGE_ONE)),
            other => other,
        }
    }

    /// One pin more, without making the page hotter (write-out, recovery's own walk).
    #[inline]
    pub(crate) const fn pinned_quietly(self) -> Result<FrameState, PinRefused> {
        if !self.has(Flag::VALID) {
            return Err(PinRefused::NotValid);
        }
        if self.pins() == PIN_MASK {
            return Err(PinRefused::TooMany);
        }
        Ok(FrameState(self.0 + PIN_ONE))
    }

    /// One pin less. The caller holds a pin.
    #[inline]
    pub(crate) const fn unpinned(self) -> FrameState {
        assert!(self.pins() != 0, "unpin of a frame without pins");
        FrameState(self.0 - PIN_ONE)
    }

    /// The lock taken in `mode`.
    #[inline]
    pub(crate) const fn locked(self, mode: Mode, asker: Asker) -> Option<FrameState> {
        let conflicts = match mode {
            Mode::Share => X,
            Mode::ShareExclusive => SX | X,
            Mode::Exclusive => LOCK_MASK,
        };
        let barred = match asker {
            Asker::Newcomer => Flag::BARRED.0,
            Asker::Queued => 0,
        };
        if self.0 & (conflicts | barred) != 0 {
            return None;
        }
        let base = match asker {
            Asker::Newcomer => self.0,
            Asker::Queued => self.0 & !Flag::BARRED.0,
        };
        Some(FrameState(base + mode.unit()))
    }

    /// The lock given back. The caller holds it in `mode`.
    #[inline]
    pub(crate) const fn unlocked(self, mode: Mode) -> FrameState {
        let held = match mode {
            Mode::Share => self.0 & SHARE_MASK,
            Mode::ShareExclusive => self.0 & SX,
            Mode::Exclusive => self.0 & X,
        };
        assert!(held != 0, "unlock of a lock that is not held");
        FrameState(self.0 - mode.unit())
    }

    /// The caller's lock changed from one mode to another, if nobody else's is in the way.
    #[inline]
    pub(crate) const fn converted(self, from: Mode, to: Mode) -> Option<FrameState> {
        // Not a newcomer: it holds the lock already and delays nobody by keeping it.
        let given_back = self.unlocked(from);
        let barred = self.0 & Flag::BARRED.0;
        match given_back.locked(to, Asker::Queued) {
            Some(word) => Some(FrameState(word.0 | barred)),
            None => None,
        }
    }

    /// Whether giving back a lock, which led to `self`, may let a waiter in.
    #[inline]
    pub(crate) const fn should_wake(self, released: Mode) -> bool {
        if !self.has(Flag::WAITERS) {
            return false;
        }
        match released {
            // Sharers only keep out exclusive lockers, who need all of them gone.
            Mode::Share => !self.is_locked(),
            Mode::ShareExclusive | Mode::Exclusive => true,
        }
    }

    /// The page given up: the frame is its evictor's alone.
    #[inline]
    pub(crate) const fn evicted(self) -> Option<FrameState> {
        if !self.has(Flag::VALID) || self.has(Flag::UNCLEAN) || self.pins() != 0 {
            return None;
        }
        assert!(!self.is_locked(), "a lock without a pin");
        Some(FrameState::FREE)
    }

    /// As [`FrameState::evicted`], but by the holder of the only pin, who is sure by it which page
    /// it gives up, and changes that were not written are lost (dropped files).
    pub(crate) const fn discarded(self) -> Option<FrameState> {
        if self.has(Flag::WRITING) || self.pins() != 1 {
            return None;
        }
        assert!(!self.is_locked(), "discarded by the holder of a lock");
        Some(FrameState::FREE)
    }

    /// As [`FrameState::evicted`], but by the holder of the only pin, who is sure by it which page
    /// it gives up. Refused once somebody has used the page: it is not the ring's alone then. Hints
    /// that the cleaner has not got round to are lost.
    pub(crate) const fn reused(self) -> Option<FrameState> {
        if !self.has(Flag::VALID) || self.has(Flag::UNWRITTEN) || self.pins() != 1 {
            return None;
        }
        if self.usage() != 0 {
            return None;
        }
        assert!(!self.is_locked(), "reused by the holder of a lock");
        Some(FrameState::FREE)
    }

    /// One step colder; `None` at the coldest.
    #[inline]
    pub(crate) const fn cooled(self) -> Option<FrameState> {
        if self.usage() == 0 {
            return None;
        }
        Some(FrameState(self.0 - USAGE_ONE))
    }

    /// A write-out begun: what was dirty is being written. The caller holds share-exclusive.
    pub(crate) const fn write_begun(self) -> Option<FrameState> {
        let dirty = Flag::DIRTY.or(Flag::HINT_DIRTY);
        if !self.has(Flag::VALID) || !self.has(dirty) || self.has(Flag::WRITING) {
            return None;
        }
        Some(self.without(dirty).with(Flag::WRITING))
    }

    /// A write-out ended: the copy is at home. `None` when none had begun.
    pub(crate) const fn write_ended(self) -> Option<FrameState> {
        if !self.has(Flag::VALID) || !self.has(Flag::WRITING) {
            return None;
        }
        Some(self.without(Flag::WRITING))
    }

    /// A clean page is being written once more, to close a gap between two others. The caller
    /// holds share-exclusive.
    pub(crate) const fn rewrite_begun(self) -> Option<FrameState> {
        if !self.has(Flag::VALID) || self.has(Flag::UNCLEAN) {
            return None;
        }
        Some(self.with(Flag::WRITING))
    }
}

impl Mode {
    const fn unit(self) -> u64 {
        match self {
            Mode::Share => SHARE_ONE,
            Mode::ShareExclusive => SX,
            Mode::Exclusive => X,
        }
    }
}

impl fmt::Debug for FrameState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pins {} usage {} shares {}",
            self.pins(),
            self.usage(),
            self.shares()
        )?;
        let named = [
            (SX, "share-exclusive"),
            (X, "exclusive"),
            (Flag::VALID.0, "valid"),
            (Flag::DIRTY.0, "dirty"),
            (Flag::HINT_DIRTY.0, "hint-dirty"),
            (Flag::WRITING.0, "writing"),
            (Flag::WAITERS.0, "waiters"),
            (Flag::BARRED.0, "barred"),
        ];
        for (bit, name) in named {
            if self.0 & bit != 0 {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use Mode::{Exclusive, Share, ShareExclusive};

    fn lock(word: FrameState, mode: Mode) -> Option<FrameState> {
        word.locked(mode, Asker::Newcomer)
    }

    #[test]
    fn the_conflict_table_is_the_designs() {
        let expected = [
            (Share, Share, true),
            (Share, ShareExclusive, true),
            (Share, Exclusive, false),
            (ShareExclusive, Share, true),
            (ShareExclusive, ShareExclusive, false),
            (ShareExclusive, Exclusive, false),
            (Exclusive, Share, false),
            (Exclusive, ShareExclusive, false),
            (Exclusive, Exclusive, false),
        ];
        for (held, wanted, compatible) in expected {
            let word = lock(FrameState::loaded(1), held).expect("the first lock is free");
            assert_eq!(
                lock(word, wanted).is_some(),
                compatible,
                "{held:?} then {wanted:?}"
            );
            assert_eq!(word.unlocked(held), FrameState::loaded(1));
        }
    }

    #[test]
    fn hints_upgrade_only_when_nobody_has_share_exclusive() {
        let one = lock(FrameState::loaded(1), Share).expect("free");
        let two = lock(one, Share).expect("shares are compatible");
        let hinting = two
            .converted(Share, ShareExclusive)
            .expect("nobody else hints");
        assert_eq!(hinting.shares(), 1);
        assert_eq!(hinting.converted(Share, ShareExclusive), None);
        assert_eq!(hinting.converted(ShareExclusive, Share), Some(two));
        assert_eq!(two.converted(Share, Exclusive), None);
        assert!(one.converted(Share, Exclusive).is_some());
    }

    #[test]
    fn the_bar_stops_newcomers_and_falls_with_the_queued_locker() {
        let barred = FrameState::loaded(1).with(Flag::BARRED);
        for mode in [Share, ShareExclusive, Exclusive] {
            assert_eq!(barred.locked(mode, Asker::Newcomer), None);
            let locked = barred.locked(mode, Asker::Queued).expect("nobody holds it");
            assert!(!locked.has(Flag::BARRED));
        }
        let share = lock(FrameState::loaded(1), Share)
            .expect("free")
            .with(Flag::BARRED);
        let hinting = share
            .converted(Share, ShareExclusive)
            .expect("a holder is no newcomer");
        assert!(hinting.has(Flag::BARRED));
    }

    #[test]
    fn pins_are_checked_and_usage_saturates() {
        let mut word = FrameState::loaded(0);
        for n in 1..=PIN_MASK {
            word = word.pinned().expect("below the maximum");
            assert_eq!(word.pins(), n);
        }
        assert_eq!(word.usage(), MAX_USAGE);
        assert_eq!(word.pinned(), Err(PinRefused::TooMany));
        assert_eq!(FrameState::FREE.pinned(), Err(PinRefused::NotValid));
    }

    #[test]
    fn only_clean_unpinned_frames_are_evicted() {
        assert_eq!(FrameState::loaded(0).evicted(), Some(FrameState::FREE));
        assert_eq!(FrameState::loaded(1).evicted(), None);
        for flag in [Flag::DIRTY, Flag::HINT_DIRTY, Flag::WRITING] {
            assert_eq!(FrameState::loaded(0).with(flag).evicted(), None);
        }
        assert_eq!(
            FrameState::loaded(1).with(Flag::DIRTY).discarded(),
            Some(FrameState::FREE)
        );
        assert_eq!(FrameState::loaded(1).with(Flag::WRITING).discarded(), None);
        assert_eq!(
            FrameState(FrameState::loaded(1).0 + PIN_ONE).discarded(),
            None
        );
        assert_eq!(FrameState::FREE.evicted(), None);
    }

    #[test]
    fn a_ring_takes_back_only_clean_pages_that_nobody_else_used() {
        assert_eq!(FrameState::loaded(1).reused(), Some(FrameState::FREE));
        assert_eq!(FrameState::loaded(0).reused(), None);
        assert_eq!(FrameState(FrameState::loaded(1).0 + PIN_ONE).reused(), None);
        assert_eq!(
            FrameState(FrameState::loaded(1).0 + USAGE_ONE).reused(),
            None
        );
        for flag in [Flag::DIRTY, Flag::WRITING] {
            assert_eq!(FrameState::loaded(1).with(flag).reused(), None);
        }
        let hinted = FrameState::loaded(1).with(Flag::HINT_DIRTY);
        assert_eq!(hinted.reused(), Some(FrameState::FREE));
        assert_eq!(FrameState::FREE.reused(), None);
    }

    #[test]
    fn a_page_is_not_written_twice_at_once() {
        let dirty = FrameState::loaded(0).with(Flag::DIRTY);
        let writing = dirty.write_begun().expect("dirty");
        assert!(writing.has(Flag::WRITING) && !writing.has(Flag::DIRTY));
        assert_eq!(writing.with(Flag::DIRTY).write_begun(), None);
        assert_eq!(FrameState::loaded(0).write_begun(), None);
    }
}
