//! Deliberate bugs, so that tests can show that they catch them. A build without debug assertions
//! has none of them.

/// A bug to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Slots of the double-write area are used again before the home files are synced.
    ReuseSlotEarly,
    /// The redo point passes a page that the write-out did not get.
    PassPendingPage,
    /// The redo point passes a page that redo has not come to.
    PassOwedPage,
    /// Nothing is owed to a page any more before it is in the pool.
    ForgetOwedEarly,
    /// The redo point passes commits that are not on the status pages yet.
    PassPublisher,
    /// The redo point passes the creation of files by running transactions, and nothing records
    /// it anew.
    ForgetOpenFiles,
    /// The first change of a page after a redo point carries no image.
    SkipImage,
    /// Pages that only hints changed are written without an image.
    SkipHintImage,
    /// A late change logs no image of its page after a redo point.
    SkipLateImage,
    /// In a log with images any position may become redo point.
    AnyRedoPoint,
    /// The redo point moves back.
    MoveRedoPointBack,
    /// The redo point goes to the log's end, whatever is needed of the log before.
    PassEverything,
    /// New log goes on where the log of an unclean end was found to end.
    ReuseLostLog,
    /// The directory's lock is given back though writes are under way.
    UnlockEarly,
    /// An index entry is hinted dead though what makes it so is not durable.
    HintDeadEarly,
    /// Redo of this operation changes a byte too many.
    BreakRedo(u16),
    /// Pages are written without waiting for their log.
    #[cfg(test)]
    SkipLogFlush,
    /// A frame is made clean before its home write is counted.
    #[cfg(test)]
    CleanBeforeCount,
    /// Some home writes are never counted.
    #[cfg(test)]
    CountLost,
    /// A file is closed before it is synced, and opened again for that.
    #[cfg(test)]
    ClosedUnsynced,
}
