//! Between which log positions the commits of a chunk of ids lie.
//!
//! The hint "committed" on a tuple says that, but not when. With the span of the id's chunk it
//! replaces the look-up for nearly every snapshot: only a chunk with commits on both sides of a
//! snapshot's position has to be asked for the commit itself.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const NO_CHUNK: u64 = u64::MAX;
/// Spans in a block, which is allocated when the first of them is used.
const BLOCK: u64 = 1024;
/// Blocks; what is older than `BLOCK * BLOCKS` chunks (4 * 10^9 ids) has no span any more.
const BLOCKS: u64 = 1024;

/// The spans of the newest chunks.
pub(super) struct Spans {
    blocks: Box<[OnceLock<Box<[Span]>>]>,
}

struct Span {
    number: AtomicU64,
    least: AtomicU64,
    most: AtomicU64,
}

impl Spans {
    pub(super) fn new() -> Spans {
        Spans {
            blocks: (0..BLOCKS).map(|_| OnceLock::new()).collect(),
        }
    }

    fn span(&self, number: u64) -> Option<&Span> {
        let block = self.blocks[(number / BLOCK % BLOCKS) as usize].get()?;
        Some(&block[(number % BLOCK) as usize])
    }

    /// Begins the span of a chunk whose ids were not given out yet.
    pub(super) fn start(&self, number: u64) {
        let empty = || Span {
            number: AtomicU64::new(NO_CHUNK),
            least: AtomicU64::new(u64::MAX),
            most: AtomicU64::new(0),
        };
        let block = &self.blocks[(number / BLOCK % BLOCKS) as usize];
        let block = block.get_or_init(|| (0..BLOCK).map(|_| empty()).collect());
        let span = &block[(number % BLOCK) as usize];
        span.number.store(NO_CHUNK, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        span.least.store(u64::MAX, Ordering::Relaxed);
        span.most.store(0, Ordering::Relaxed);
        span.number.store(number, Ordering::SeqCst);
    }

    /// Extends a chunk's span to a commit at `lsn`. If the place was taken by a younger chunk
    /// meanwhile, that one's span becomes too wide, which costs it look-ups and no more.
    pub(super) fn extend(&self, number: u64, lsn: u64) {
        let Some(span) = self.span(number) else {
            return;
        };
        if span.number.load(Ordering::Acquire) != number {
            return;
        }
        if span.least.load(Ordering::Relaxed) > lsn {
            span.least.fetch_min(lsn, Ordering::AcqRel);
        }
        if span.most.load(Ordering::Relaxed) < lsn {
            span.most.fetch_max(lsn, Ordering::AcqRel);
        }
    }

    /// The least and the greatest commit LSN in a chunk, if they are known. They include every
    /// commit that the caller knows of.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<(u64, u64)> {
        let span = self.span(number)?;
        if span.number.load(Ordering::Acquire) != number {
            return None;
        }
        let least = span.least.load(Ordering::Acquire);
        let most = span.most.load(Ordering::Acquire);
        fence(Ordering::Acquire);
        (span.number.load(Ordering::Relaxed) == number).then_some((least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_that_of_its_chunk_until_a_younger_one_takes_its_place() {
        let spans = Spans::new();
        assert_eq!(spans.get(7), None);
        spans.start(7);
        for lsn in [800, 500, 900, 600] {
            spans.extend(7, lsn);
        }
        assert_eq!(spans.get(7), Some((500, 900)));
        assert_eq!(spans.get(8), None);
        let younger = 7 + BLOCK * BLOCKS;
        spans.start(younger);
        assert_eq!(spans.get(7), None);
        spans.extend(7, 1000);
        assert_eq!(spans.get(younger), Some((u64::MAX, 0)));
    }
}
