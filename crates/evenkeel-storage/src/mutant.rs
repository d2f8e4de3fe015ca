//! Deliberate bugs, so that tests can show that they catch them. A build without debug assertions
//! has none of them.

/// A bug to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Slots of the double-write area are used again before the home files are synced.
    ReuseSlotEarly,
    /// The redo point passes a page that the write-out did not get.
    PassPendingPage,
    /// The redo point passes commits that are not on the status pages yet.
    PassPublisher,
    /// The first change of a page after a redo point carries no image.
    SkipImage,
    /// Pages that only hints changed are written without an image.
    SkipHintImage,
    /// What is applied late is not logged again after a redo point.
    SkipLateImage,
    /// In a log with images any position may become redo point.
    AnyRedoPoint,
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
