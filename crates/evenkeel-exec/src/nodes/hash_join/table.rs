//! The hashed side of a join.

use evenkeel_engine::memory::{OutOfMemory, Reservation};
use evenkeel_expr::program::Program;
use evenkeel_types::Datum;

use crate::batch::{row_bytes, take};
use crate::context::Cx;
use crate::error::ExecResult;
use crate::hash_index::HashIndex;
use crate::key::{HashSeed, same};

/// Rows, found by their keys.
pub(super) struct HashTable {
    seed: HashSeed,
    index: HashIndex,
    width: usize,
    rows: Vec<Datum>,
    /// Slots of the keys in the rows, where all keys are columns; else the keys are kept beside.
    slots: Option<Vec<usize>>,
    keys: Vec<Datum>,
    key_width: usize,
    /// Which rows have a partner, for joins that keep those without.
    pub partners: Vec<bool>,
    /// Rows with a NULL in their keys.
    pub with_nulls: Vec<usize>,
    reservation: Reservation,
}

impl HashTable {
    pub fn new(width: usize, keys: &[Program], cx: &Cx) -> HashTable {
        let slot = |program: &Program| match program {
            Program::Slot(slot) if *slot < width => Some(*slot),
            _ => None,
        };
        HashTable {
            seed: HashSeed::new(),
            index: HashIndex::default(),
            width,
            rows: Vec::new(),
            slots: keys.iter().map(slot).collect(),
            keys: Vec::new(),
            key_width: keys.len(),
            partners: Vec::new(),
            with_nulls: Vec::new(),
            reservation: cx.reservation(),
        }
    }

    /// An empty table that hashes as another one does.
    pub fn with_seed_of(other: &HashTable, width: usize, keys: &[Program], cx: &Cx) -> HashTable {
        HashTable {
            seed: other.seed,
            ..HashTable::new(width, keys, cx)
        }
    }

    /// The hash of a key.
    pub fn hash(&self, key: &[Datum]) -> u64 {
        self.seed.hash(key)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.reservation.bytes()
    }

    /// The values of a row.
    pub fn row(&self, at: usize) -> &[Datum] {
        &self.rows[at * self.width..(at + 1) * self.width]
    }

    /// A value of a row's key.
    #[inline]
    pub fn key(&self, at: usize, part: usize) -> &Datum {
        match &self.slots {
            Some(slots) => &self.rows[at * self.width + slots[part]],
            None => &self.keys[at * self.key_width + part],
        }
    }

    /// Whether a row's key is this one; NULL is equal to nothing.
    #[inline]
    fn is_key(&self, at: usize, key: &[Datum]) -> bool {
        key.iter().enumerate().all(|(part, value)| {
            let own = self.key(at, part);
            !own.is_null() && same(own, value)
        })
    }

    /// Whether a row's key may be this one, if NULL may be anything.
    pub fn may_be_key(&self, at: usize, key: &[Datum]) -> bool {
        key.iter().enumerate().all(|(part, value)| {
            let own = self.key(at, part);
            own.is_null() || value.is_null() || same(own, value)
        })
    }

    /// Adds a row, whose values are taken.
    ///
    /// # Errors
    /// The session's memory budget; nothing is taken then.
    pub fn insert(
        &mut self,
        row: &mut [Datum],
        key: &mut [Datum],
        hash: u64,
    ) -> Result<(), OutOfMemory> {
        let beside = if self.slots.is_some() {
            0
        } else {
            row_bytes(key)
        };
        let bytes = row_bytes(row) + beside + HashIndex::ROW_BYTES;
        self.reservation.grow(bytes)?;
        let number = self.index.insert(hash);
        if key.iter().any(Datum::is_null) {
            self.with_nulls.push(number);
        }
        self.rows.extend(row.iter_mut().map(take));
        if self.slots.is_none() {
            self.keys.extend(key.iter_mut().map(take));
        }
        Ok(())
    }

    /// The first row with this key, which has no NULL.
    #[inline]
    pub fn first(&self, key: &[Datum], hash: u64) -> Option<usize> {
        self.matching(self.index.first(hash), key)
    }

    /// The next row with this key.
    #[inline]
    pub fn next(&self, at: usize, key: &[Datum]) -> Option<usize> {
        self.matching(self.index.before(at), key)
    }

    #[inline]
    fn matching(&self, mut at: Option<usize>, key: &[Datum]) -> Option<usize> {
        while let Some(row) = at {
            if self.is_key(row, key) {
                return Some(row);
            }
            at = self.index.before(row);
        }
        None
    }
}

/// Computes the key of a row; true if there is no NULL in it.
pub(super) fn key_of(
    programs: &[Program],
    row: &[Datum],
    key: &mut Vec<Datum>,
    cx: &Cx,
) -> ExecResult<bool> {
    key.clear();
    let mut complete = true;
    for program in programs {
        let value = cx.eval(program, row)?;
        complete &= !value.is_null();
        key.push(value);
    }
    Ok(complete)
}
