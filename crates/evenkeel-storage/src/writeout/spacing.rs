//! How a lane's writes are spaced.

use std::time::Duration;

/// A piece of a write-out that has been taken by the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Pages in it that were due.
    pub pages: u64,
    /// Writes in which they went.
    pub writes: u64,
    /// The time that it took, from the first write on.
    pub took: Duration,
    /// Time for the double-write area; all of a batch's with its first piece.
    pub protect: Duration,
    /// Pages done so far, of those that were due when the write-out began.
    pub done: u64,
    /// Pages that were due then.
    pub due: u64,
}

/// A policy that spaces a write-out. The defaults are full speed.
pub trait WritePace {
    /// The write-out begins; so many pages are due.
    fn begin(&mut self, _due: u64) {}

    /// Most pages of the next batch; a batch is at most 1 MiB anyway.
    fn batch(&mut self) -> usize {
        usize::MAX
    }

    /// Pages that are not due but lie between two that are, and are in memory, are written along
    /// with these if there are no more of them than this: one write then does for two.
    fn gap(&mut self) -> usize {
        0
    }

    /// Most writes to hand to the device before it has taken them. `None`: the next ones are
    /// handed over while it is at these.
    fn piece(&mut self) -> Option<usize> {
        None
    }

    /// A piece is home; may sleep. Frames of the batch's other pieces cannot be evicted
    /// meanwhile, nor their files be dropped.
    fn wrote(&mut self, piece: Piece);
}

/// As fast as the device can.
pub(super) struct FullSpeed;

impl WritePace for FullSpeed {
    fn wrote(&mut self, _: Piece) {}
}

/// Full speed, and somebody to tell.
pub(super) struct Told<'a>(pub(super) &'a mut dyn FnMut(u64, u64));

impl WritePace for Told<'_> {
    fn wrote(&mut self, piece: Piece) {
        (self.0)(piece.done, piece.due);
    }
}
