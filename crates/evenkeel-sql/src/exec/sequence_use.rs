//! A session's use of sequences: the last numbers it had, and those it has in reserve.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_engine::FileId;
use parking_lot::Mutex;

use crate::catalog::{Catalog, Oid};

/// The last number a session had of a sequence, and those it has in reserve.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// A restarted sequence has another file: its reserve is not this one's.
    pub file: FileId,
    /// The last number.
    pub last: i64,
    /// The last number of the reserve.
    pub cached: i64,
    /// The distance of two numbers.
    pub increment: i64,
}

#[derive(Debug, Default)]
struct Uses {
    by_oid: HashMap<Oid, Used>,
    /// The sequence of the last `nextval`.
    last: Option<Oid>,
}

/// A session's use of sequences.
pub struct SequenceUse {
    catalog: Arc<Catalog>,
    uses: Mutex<Uses>,
    /// A number was taken whose record is not durable yet (SEQ-2).
    logged: AtomicBool,
    /// The transaction may take no number.
    read_only: AtomicBool,
}

impl SequenceUse {
    /// None yet.
    pub fn new(catalog: Arc<Catalog>) -> SequenceUse {
        SequenceUse {
            catalog,
            uses: Mutex::default(),
            logged: AtomicBool::new(false),
            read_only: AtomicBool::new(false),
        }
    }

    /// Where definitions are committed.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Forgets all numbers (DISCARD SEQUENCES).
    pub fn forget(&self) {
        *self.uses.lock() = Uses::default();
    }

    /// Whether the transaction that ends now has had numbers that its commit must make durable.
    pub fn take_logged(&self) -> bool {
        self.logged.swap(false, Ordering::Relaxed)
    }

    /// The transaction's commit must make a number durable.
    pub fn note_logged(&self) {
        self.logged.store(true, Ordering::Relaxed);
    }

    /// Whether the transaction may take no number.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// A statement begins in a transaction that is read-only or not.
    pub fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Relaxed);
    }

    /// The next number of the reserve, if there is one.
    pub fn reserved(&self, sequence: Oid, file: FileId) -> Option<i64> {
        let mut uses = self.uses.lock();
        let used = uses.by_oid.get_mut(&sequence)?;
        if used.file != file || used.last == used.cached {
            return None;
        }
        used.last += used.increment;
        let number = used.last;
        uses.last = Some(sequence);
        Some(number)
    }

    /// Numbers were taken; the last that was given out is `used.last`.
    pub fn took(&self, sequence: Oid, used: Used) {
        let mut uses = self.uses.lock();
        uses.by_oid.insert(sequence, used);
        uses.last = Some(sequence);
    }

    /// The sequence was set. It is not the last one used for that.
    pub fn set(&self, sequence: Oid, used: Used) {
        self.uses.lock().by_oid.insert(sequence, used);
    }

    /// The sequence was set to a number that is not given out yet.
    pub fn forget_reserve(&self, sequence: Oid) {
        if let Some(used) = self.uses.lock().by_oid.get_mut(&sequence) {
            used.cached = used.last;
        }
    }

    /// The last number of a sequence.
    pub fn last_of(&self, sequence: Oid) -> Option<i64> {
        let uses = self.uses.lock();
        uses.by_oid.get(&sequence).map(|used| used.last)
    }

    /// The sequence of the last `nextval`, with its last number.
    pub fn last_used(&self) -> Option<(Oid, i64)> {
        let uses = self.uses.lock();
        let last = uses.last?;
        Some((last, uses.by_oid.get(&last)?.last))
    }
}
