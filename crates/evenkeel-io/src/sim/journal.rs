//! The journal of mutations, and the crash images along it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::SimDisk;
use super::image::{Outcome, crash};
use super::rng::mix;
use super::state::{Change, State};
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
    /// What was done.
    pub op: OpKind,
    /// To which path (as the file was named when it was opened).
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

/// One possible disk after a power failure, and how to get it again.
pub struct CrashImage {
    /// Operations before the failure; what was acknowledged by then must be there.
    pub index: u64,
    /// With `index` and `outcome` this gives the same image: [`SimDisk::image_with`].
    pub seed: u64,
    /// What survived.
    pub outcome: Outcome,
    /// The disk, with a journal of its own.
    pub disk: SimDisk,
}

/// Crash images along a journal, from low to high indexes; keeps a rolling state, so that each
/// image costs what changed.
///
/// As an iterator it yields one image for every index, the present one included.
pub struct ImageSeries {
    state: State,
    journal: Vec<Arc<Entry>>,
    /// Operations before the journal begins.
    first: u64,
    /// Operations applied to `state`.
    index: u64,
    seed: u64,
    outcome: Outcome,
    step: u64,
    /// Index of the iterator's next image.
    next: Option<u64>,
}

impl ImageSeries {
    pub(crate) fn new(state: State, journal: Vec<Arc<Entry>>, first: u64, seed: u64) -> Self {
        let (outcome, step, next) = (Outcome::Mixed, 1, Some(first));
        Self {
            state,
            journal,
            first,
            index: first,
            seed,
            outcome,
            step,
            next,
        }
    }

    /// What the iterator's images keep of the unsynced; [`Outcome::Mixed`] unless told.
    #[must_use]
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    /// Only every `step`-th index gets an image.
    #[must_use]
    pub fn step(mut self, step: u64) -> Self {
        self.step = step.max(1);
        self
    }

    /// Operations applied so far.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The last index there is.
    pub fn end(&self) -> u64 {
        self.first + self.journal.len() as u64
    }

    /// The operation that led to the present index.
    pub fn operation(&self) -> Option<JournalOp> {
        let place = self.index.checked_sub(self.first + 1)?;
        let entry = self.journal.get(usize::try_from(place).ok()?)?;
        Some(JournalOp::new(self.index, entry))
    }

    /// Goes forward to `index`, at most to the last. Returns where it is then: further on, if it
    /// had already passed `index`.
    pub fn seek(&mut self, index: u64) -> u64 {
        let from = usize::try_from(self.index - self.first).unwrap_or(usize::MAX);
        for entry in self.journal.iter().skip(from) {
            if self.index >= index {
                break;
            }
            self.index += 1;
            self.state.apply(self.index, &entry.change);
        }
        self.index
    }

    /// A possible disk if power fails at the present index.
    pub fn image(&self, outcome: Outcome, seed: u64) -> SimDisk {
        SimDisk::from_state(crash(&self.state, outcome, seed), 0, seed)
    }

    /// The disk if only the process dies at the present index: the page cache survives.
    pub fn process_crash(&self) -> SimDisk {
        SimDisk::from_state(self.state.clone(), self.index, self.seed)
    }
}

impl Iterator for ImageSeries {
    type Item = CrashImage;

    fn next(&mut self) -> Option<CrashImage> {
        let index = self.next.filter(|&next| next <= self.end())?;
        self.next = index.checked_add(self.step);
        let index = self.seek(index);
        let seed = mix(self.seed ^ mix(index));
        Some(CrashImage {
            index,
            seed,
            outcome: self.outcome,
            disk: self.image(self.outcome, seed),
        })
    }
}
