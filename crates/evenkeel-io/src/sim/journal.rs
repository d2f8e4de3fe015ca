//! The journal of mutations.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::state::Change;
use crate::error::OpKind;

/// A mutation as the journal keeps it.
pub(crate) struct Entry {
    pub(crate) op: OpKind,
    pub(crate) path: Arc<Path>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) failed: bool,
    pub(crate) change: Change,
}

/// A mutating operation, described for a failing test's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOp {
    /// Its index, from 1.
    pub index: u64,
    /// The kind of operation.
    pub op: OpKind,
    /// Its path (as the file was named when it was opened).
    pub path: PathBuf,
    /// Where, for operations on a range.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// It reported an error, and this is what it left.
    pub failed: bool,
}

impl JournalOp {
    pub(crate) fn new(index: u64, entry: &Entry) -> Self {
        Self {
            index,
            op: entry.op,
            path: entry.path.to_path_buf(),
            offset: entry.offset,
            len: entry.len,
            failed: entry.failed,
        }
    }
}

impl fmt::Display for JournalOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} \"{}\"", self.index, self.op, self.path.display())?;
        if matches!(self.op, OpKind::Write | OpKind::Allocate | OpKind::SetLen) {
            write!(f, " at {} for {}", self.offset, self.len)?;
        }
        if self.failed {
            f.write_str(" (failed)")
        } else {
            Ok(())
        }
    }
}
