//! The statement as it was written, shaped like the nodes of PostgreSQL's grammar. Names are
//! folded to lower case unless quoted and cut to 63 bytes; nothing is resolved. Every node that an
//! error may point at carries its byte position.

mod command;
mod define;
mod expr;
mod json;
mod query;
mod statement;

use std::cell::Cell;
use std::cmp::Ordering;

pub use command::*;
pub use define::*;
pub use expr::*;
pub use json::*;
pub use query::*;
pub use statement::*;

/// A byte offset in the statement's text.
#[derive(Debug, Clone, Copy)]
pub struct Pos(pub u32);

thread_local! {
    /// Whether all positions are equal to this thread.
    static ANYWHERE: Cell<bool> = const { Cell::new(false) };
}

/// Whether two nodes are the same but for their positions, as PostgreSQL's `equal()` has it.
pub fn same<T: PartialEq>(a: &T, b: &T) -> bool {
    let before = ANYWHERE.replace(true);
    let same = a == b;
    ANYWHERE.set(before);
    same
}

impl PartialEq for Pos {
    fn eq(&self, other: &Pos) -> bool {
        self.0 == other.0 || ANYWHERE.get()
    }
}

impl Eq for Pos {}

impl PartialOrd for Pos {
    fn partial_cmp(&self, other: &Pos) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pos {
    fn cmp(&self, other: &Pos) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Pos {
    /// Of a node that no text stands for.
    pub const NONE: Pos = Pos(u32::MAX);
}

/// An identifier with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Folded and unquoted.
    pub text: String,
    /// Where it begins.
    pub at: Pos,
}

/// A name that may be qualified: `schema.table`, `pg_catalog.lower`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualifiedName {
    /// At least one; the object's own name is the last.
    pub parts: Vec<Name>,
}

impl QualifiedName {
    /// The object's own name.
    pub fn last(&self) -> &str {
        self.parts.last().map_or("", |name| &name.text)
    }

    /// The schema, if one was given.
    pub fn schema(&self) -> Option<&str> {
        let before = self.parts.len().checked_sub(2)?;
        Some(&self.parts[before].text)
    }

    /// Where it begins.
    pub fn at(&self) -> Pos {
        self.parts.first().map_or(Pos::NONE, |name| name.at)
    }

    /// As it would be written, for messages: parts joined by dots.
    pub fn display(&self) -> String {
        let parts: Vec<&str> = self.parts.iter().map(|name| name.text.as_str()).collect();
        parts.join(".")
    }
}
