//! A hash table of numbers: rows are numbered as they come, their keys are kept elsewhere.

/// Ends a chain.
const END: u32 = u32::MAX;

/// Finds the numbers of rows by the hashes of their keys.
#[derive(Debug, Default)]
pub(crate) struct HashIndex {
    /// The newest row of each bucket; their number is a power of two.
    heads: Vec<u32>,
    /// Each row's hash, and the row before it in its bucket.
    rows: Vec<(u64, u32)>,
}

impl HashIndex {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of a row here.
    pub const ROW_BYTES: usize = size_of::<(u64, u32)>() + 2 * size_of::<u32>();

    /// Forgets all rows.
    pub fn clear(&mut self) {
        *self = HashIndex::default();
    }

    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    /// Adds the next row; there is room for less than 2^32.
    pub fn insert(&mut self, hash: u64) -> usize {
        if self.rows.len() >= self.heads.len() {
            self.grow();
        }
        let number = self.rows.len();
        let bucket = self.bucket(hash);
        self.rows.push((hash, self.heads[bucket]));
        self.heads[bucket] = number as u32;
        number
    }

    fn grow(&mut self) {
        let buckets = (self.heads.len() * 2).max(16);
        self.heads.clear();
        self.heads.resize(buckets, END);
        for number in 0..self.rows.len() {
            let bucket = self.bucket(self.rows[number].0);
            self.rows[number].1 = self.heads[bucket];
            self.heads[bucket] = number as u32;
        }
    }

    /// The newest row with this hash.
    #[inline]
    pub fn first(&self, hash: u64) -> Option<usize> {
        if self.heads.is_empty() {
            return None;
        }
        self.from(self.heads[self.bucket(hash)], hash)
    }

    /// The row with the same hash before this one.
    #[inline]
    pub fn before(&self, row: usize) -> Option<usize> {
        let (hash, before) = self.rows[row];
        self.from(before, hash)
    }

    #[inline]
    fn from(&self, mut at: u32, hash: u64) -> Option<usize> {
        while at != END {
            let (found, before) = self.rows[at as usize];
            if found == hash {
                return Some(at as usize);
            }
            at = before;
        }
        None
    }

    /// The newest row with this hash for which `same` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut same: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut at = self.first(hash);
        while let Some(row) = at {
            if same(row) {
                return Some(row);
            }
            at = self.before(row);
        }
        None
    }
}
