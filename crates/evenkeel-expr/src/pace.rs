//! Work in portions: between two of them the session is asked whether the statement is to end.

use std::cmp::Ordering;

use crate::error::ExprResult;
use crate::session::Session;

/// Steps of work between two questions; a step is a byte that is looked at, or an operation of some
/// nanoseconds.
const PORTION: usize = 64 << 10;
/// Bytes that are copied or compared by the machine's fastest means count as one step.
const FAST: usize = 8;

/// A value that is copied or compared, as steps of a loop.
pub(crate) const VALUE_STEPS: usize = 8;

/// Counts the steps of a loop.
pub(crate) struct Pace<'s> {
    session: &'s dyn Session,
    left: usize,
}

impl<'s> Pace<'s> {
    #[inline]
    pub fn new(session: &'s dyn Session) -> Pace<'s> {
        Pace {
            session,
            left: PORTION,
        }
    }

    /// Counts steps that are about to be made, or were.
    ///
    /// # Errors
    /// 57014.
    #[inline]
    pub fn step(&mut self, steps: usize) -> ExprResult<()> {
        if steps < self.left {
            self.left -= steps;
            return Ok(());
        }
        self.ask()
    }

    #[cold]
    fn ask(&mut self) -> ExprResult<()> {
        self.left = PORTION;
        self.session.check_cancel()
    }

    /// Appends a text.
    ///
    /// # Errors
    /// 57014.
    #[inline]
    pub fn append(&mut self, out: &mut String, text: &str) -> ExprResult<()> {
        if text.len() <= PORTION {
            out.push_str(text);
            return self.step(text.len() / FAST);
        }
        for piece in pieces(text, PORTION * FAST) {
            out.push_str(piece);
            self.step(piece.len() / FAST)?;
        }
        Ok(())
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// 57014.
    #[inline]
    pub fn append_bytes(&mut self, out: &mut Vec<u8>, bytes: &[u8]) -> ExprResult<()> {
        for piece in bytes.chunks(PORTION * FAST) {
            out.extend_from_slice(piece);
            self.step(piece.len() / FAST)?;
        }
        Ok(())
    }

    /// Portions of a text, counted one by one.
    ///
    /// # Errors
    /// 57014.
    pub fn each(
        &mut self,
        text: &str,
        mut work: impl FnMut(&str) -> ExprResult<()>,
    ) -> ExprResult<()> {
        for piece in pieces(text, PORTION) {
            work(piece)?;
            self.step(piece.len())?;
        }
        Ok(())
    }

    /// As [`Pace::each`], of bytes.
    ///
    /// # Errors
    /// 57014.
    pub fn each_bytes(&mut self, bytes: &[u8], mut work: impl FnMut(&[u8])) -> ExprResult<()> {
        for piece in bytes.chunks(PORTION) {
            work(piece);
            self.step(piece.len())?;
        }
        Ok(())
    }
}

/// The number of characters.
///
/// # Errors
/// 57014.
pub(crate) fn characters(text: &str, session: &dyn Session) -> ExprResult<usize> {
    let mut count = 0;
    let mut pace = Pace::new(session);
    for piece in pieces(text, PORTION * FAST) {
        count += piece.chars().count();
        pace.step(piece.len() / FAST)?;
    }
    Ok(count)
}

/// Where the character with this number, from 0, begins; the end of a text with fewer. Also the
/// number of characters before that place.
///
/// # Errors
/// 57014.
pub(crate) fn place_of(
    text: &str,
    number: usize,
    session: &dyn Session,
) -> ExprResult<(usize, usize)> {
    let (mut at, mut left) = (0, number);
    let mut pace = Pace::new(session);
    for piece in pieces(text, PORTION) {
        // No piece has more characters than bytes: most are passed over without a look at each.
        let count = piece.chars().count();
        if count > left {
            let within = piece.char_indices().nth(left).map_or(0, |(at, _)| at);
            return Ok((at + within, number));
        }
        left -= count;
        at += piece.len();
        pace.step(piece.len())?;
    }
    Ok((at, number - left))
}

/// A text in pieces of at most so many bytes, or of one character.
pub(crate) fn pieces(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = most.min(rest.len());
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let piece;
        (piece, rest) = rest.split_at(end.max(1));
        Some(piece)
    })
}

/// Sorts, equal items as they stood.
///
/// # Errors
/// 57014.
pub(crate) fn sort_paced<T: Copy>(
    items: &mut Vec<T>,
    order: impl Fn(&T, &T) -> Ordering,
    pace: &mut Pace<'_>,
) -> ExprResult<()> {
    let mut run = SORTED_AT_ONCE;
    for run in items.chunks_mut(run) {
        run.sort_by(&order);
        pace.step(run.len() * VALUE_STEPS)?;
    }
    // Runs are merged in pairs.
    let mut merged = Vec::new();
    while run < items.len() {
        merged.clear();
        merged.reserve_exact(items.len());
        for pair in items.chunks(run * 2) {
            let (mut left, mut right) = pair.split_at(run.min(pair.len()));
            while let (Some((a, left_rest)), Some((b, right_rest))) =
                (left.split_first(), right.split_first())
            {
                pace.step(VALUE_STEPS)?;
                if order(b, a).is_lt() {
                    merged.push(*b);
                    right = right_rest;
                } else {
                    merged.push(*a);
                    left = left_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(items, &mut merged);
        run *= 2;
    }
    Ok(())
}

/// Items that are sorted between two questions.
const SORTED_AT_ONCE: usize = 1 << 12;

/// Looks for bytes in others.
pub(crate) struct Search<'n> {
    finder: memchr::memmem::Finder<'n>,
    /// Bytes that are looked at at once; at least as many as are sought.
    window: usize,
}

impl<'n> Search<'n> {
    /// Of bytes, of which there is at least one.
    pub fn new(sought: &'n [u8]) -> Search<'n> {
        Search {
            finder: memchr::memmem::Finder::new(sought),
            window: sought.len().max(PORTION * FAST),
        }
    }

    /// The first place at or behind `from`.
    ///
    /// # Errors
    /// 57014.
    #[inline]
    pub fn find(
        &self,
        whole: &[u8],
        from: usize,
        pace: &mut Pace<'_>,
    ) -> ExprResult<Option<usize>> {
        let mut at = from;
        while let Some(rest) = whole.get(at..).filter(|rest| !rest.is_empty()) {
            let seen = rest.len().min(self.window.saturating_mul(2));
            if let Some(found) = self.finder.find(&rest[..seen]) {
                pace.step(found / FAST + 1)?;
                return Ok(Some(at + found));
            }
            pace.step(seen / FAST + 1)?;
            if seen == rest.len() {
                break;
            }
            at += self.window;
        }
        Ok(None)
    }

    /// Bytes that are sought.
    pub fn len(&self) -> usize {
        self.finder.needle().len()
    }
}
