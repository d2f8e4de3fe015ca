//! The fate of a transaction id: as the system knows it, and as a tuple's header remembers it.

use evenkeel_storage::Lsn;

/// The state of an id as of now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum XidState {
    InProgress,
    Aborted,
    /// Its commit record is here; it may not be published.
    Committed(Lsn),
    /// Committed before anything in the window, durably.
    Older,
}

/// The fate of an id as a tuple's header records it: a fact, not visibility.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hint {
    /// Nothing.
    #[default]
    None,
    /// It committed, durably.
    Committed,
    /// It aborted.
    Aborted,
}
