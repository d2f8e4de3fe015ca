//! A text or `jsonb` that grows, for which room is asked for as it does.

use evenkeel_types::{Datum, JsonbBuilder};

use crate::error::ExprResult;
use crate::memory::{LARGE, MAX_VALUE, too_long};
use crate::pace::Pace;
use crate::session::Session;

/// Steps of a piece that is appended.
const PIECE: usize = 16;

/// Bytes of JSON that are made; room for them is asked for as they become many.
pub(crate) struct Out<'s> {
    pub text: Vec<u8>,
    session: &'s dyn Session,
    pace: Pace<'s>,
    asked: usize,
}

impl<'s> Out<'s> {
    pub fn new(session: &'s dyn Session) -> Out<'s> {
        Out {
            text: Vec::new(),
            session,
            pace: Pace::new(session),
            asked: LARGE,
        }
    }

    /// Goes on with a text.
    pub fn resume(session: &'s dyn Session, text: Vec<u8>) -> Out<'s> {
        Out {
            asked: text.capacity().max(LARGE),
            text,
            session,
            pace: Pace::new(session),
        }
    }

    /// Appends a text that needs no escapes.
    pub fn put(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    /// Counts a piece of so many bytes that is about to be appended.
    ///
    /// # Errors
    /// 54000, 53200, 57014.
    pub fn room(&mut self, more: usize) -> ExprResult<()> {
        self.pace.step(PIECE + more / 8)?;
        let size = self.text.len().saturating_add(more);
        if size <= self.asked {
            return Ok(());
        }
        if size > MAX_VALUE {
            return Err(too_long());
        }
        self.asked = size.saturating_mul(2).min(MAX_VALUE);
        self.session.reserve(self.asked)
    }

    /// The text.
    pub fn finish(self) -> Datum {
        let text = String::from_utf8(self.text);
        text.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into())
            .into()
    }
}

/// As [`Out`], for a `jsonb`.
pub(crate) struct Tree<'s> {
    pub builder: JsonbBuilder,
    session: &'s dyn Session,
    pace: Pace<'s>,
    asked: usize,
}

impl<'s> Tree<'s> {
    pub fn new(session: &'s dyn Session) -> Tree<'s> {
        Tree {
            builder: JsonbBuilder::new(),
            session,
            pace: Pace::new(session),
            asked: LARGE,
        }
    }

    /// Goes on with a value.
    pub fn resume(session: &'s dyn Session, builder: JsonbBuilder) -> Tree<'s> {
        Tree {
            asked: builder.bytes().max(LARGE),
            builder,
            session,
            pace: Pace::new(session),
        }
    }

    /// Counts a piece of so many bytes that is about to be appended.
    ///
    /// # Errors
    /// 53200, 57014.
    pub fn room(&mut self, more: usize) -> ExprResult<()> {
        self.pace.step(PIECE + more / 8)?;
        let size = self.builder.bytes().saturating_add(more);
        if size <= self.asked {
            return Ok(());
        }
        self.asked = size.saturating_mul(2);
        self.session.reserve(self.asked)
    }

    /// The value.
    ///
    /// # Errors
    /// XX000.
    pub fn finish(self) -> ExprResult<Datum> {
        Ok(Datum::Jsonb(self.builder.finish()?))
    }
}
