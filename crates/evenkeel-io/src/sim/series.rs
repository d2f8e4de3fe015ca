//! The crash images along a disk's journal.

use std::sync::Arc;

use super::disk::SimDisk;
use super::image::{Outcome, crash};
use super::journal::{Entry, JournalOp};
use super::rng::mix;
use super::state::State;

/// One possible disk after a power failure, and how to get it again.
pub struct CrashImage {
    /// Operations before the failure; what was acknowledged by then must be there.
    pub index: u64,
    /// With `index` and `outcome` this gives the same image: [`SimDisk::image_with`].
    pub seed: u64,
    /// The rule by which unsynced changes survived.
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

    /// Sets which unsynced changes the iterator's images keep; the default is [`Outcome::Mixed`].
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

impl SimDisk {
    /// One possible disk if power failed after `index` operations. Replays the journal; for many
    /// indexes use [`SimDisk::images`].
    pub fn image_at(&self, index: u64, seed: u64) -> Self {
        self.image_with(index, Outcome::Mixed, seed)
    }

    /// As [`SimDisk::image_at`], with the outcome given.
    pub fn image_with(&self, index: u64, outcome: Outcome, seed: u64) -> Self {
        let mut series = self.images(seed);
        series.seek(index);
        series.image(outcome, seed)
    }

    /// Crash images at every index of the journal as it is now.
    pub fn images(&self, seed: u64) -> ImageSeries {
        let inner = self.shared.inner.lock();
        ImageSeries::new(inner.base.clone(), inner.journal.clone(), inner.first, seed)
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
