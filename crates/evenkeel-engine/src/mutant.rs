//! Deliberate bugs, so that tests can show that they catch them. A build without debug assertions
//! has none of them.

/// A bug to be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A snapshot sees commits behind its position.
    SeeLaterCommits,
    /// A statement sees what it has changed itself.
    SeeOwnCommand,
    /// A change of a row by a running transaction is taken for one that has rolled back.
    OverwriteRunning,
    /// A unique check does not wait for the running inserter of its key.
    IgnoreRunningInserter,
    /// A unique check looks at the first version of a chain only.
    CheckFirstVersionOnly,
    /// A change of a row does not look for locks of others on it.
    IgnoreRowLocks,
    /// Of two heap pages the one named first is locked first.
    LockPagesAsNamed,
    /// Vacuum freezes rows that some snapshot does not see yet.
    FreezeRecent,
    /// A read of an index alone trusts the visibility map without looking at the leaf again.
    TrustStaleEntries,
    /// The removal horizon does not account for the snapshots in use.
    IgnoreSnapshots,
}
