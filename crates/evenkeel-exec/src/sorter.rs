//! Sorting rows: short runs in memory as they come, merged when they are read; runs on disk when
//! memory has no room for them. No step takes long, so that a sort can give way between any two
//! rows.

use std::cmp::Ordering;
use std::sync::Arc;

use evenkeel_engine::memory::Reservation;
use evenkeel_planner::plan::SortColumn;
use evenkeel_types::{Datum, without_blanks};

use crate::batch::{Batch, row_bytes, take};
use crate::context::Cx;
use crate::error::ExecResult;
use crate::key::compare_rows;
use crate::spill::{Cursor, RowStore, TempSpace};

/// Rows of a run in memory: sorting one takes a millisecond or two.
const RUN: usize = 8192;
/// So many runs on disk become one.
const FAN_IN: usize = 32;
/// Bytes that a row takes in memory beside its values.
const ENTRY: usize = size_of::<Entry>();

/// A row in memory, with the beginning of its first key as a number that orders like it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    prefix: u64,
    row: u32,
}

/// Rows that are put in any order and read in that of the keys.
pub(crate) struct Sorter {
    width: usize,
    keys: Arc<[SortColumn]>,
    rows: Vec<Datum>,
    entries: Vec<Entry>,
    /// Entries before this one are in sorted runs of [`RUN`].
    sorted: usize,
    disk: Vec<DiskRun>,
    reservation: Reservation,
    space: Arc<TempSpace>,
    limit: usize,
    bound: Option<usize>,
    merge: Option<Merge>,
    count: u64,
}

/// A sorted run on disk; the rows of runs with the same level are about as many.
struct DiskRun {
    rows: RowStore,
    cursor: Cursor,
    /// The row that comes next.
    head: Batch,
    prefix: u64,
    level: u32,
}

/// A merge under way: a heap of runs by their next rows, the least first.
struct Merge {
    /// Places in `entries` where runs in memory go on, and where they end.
    memory: Vec<(usize, usize)>,
    /// Runs in memory by number, then runs on disk.
    heap: Vec<(u64, usize)>,
    disk: Vec<DiskRun>,
}

/// A number that orders like the value does under the key, equal for some values that are not.
fn prefix_of(value: &Datum, key: &SortColumn) -> u64 {
    /// Half of the numbers, so that there is one below and one above all values.
    const NULL_BEFORE: u64 = 0;
    const NULL_BEHIND: u64 = u64::MAX;
    let clamp = |v: i64| (v.clamp(-(1 << 61), (1 << 61) - 1) + (1 << 61)).cast_unsigned();
    let float = |v: f64| {
        let bits = if v.is_nan() {
            f64::NAN.to_bits() & !(1 << 63)
        } else if v == 0.0 {
            0
        } else {
            v.to_bits()
        };
        (if bits >> 63 == 1 {
            !bits
        } else {
            bits | 1 << 63
        }) >> 2
    };
    let bytes = |v: &[u8]| {
        let mut head = [0; 8];
        let length = v.len().min(8);
        head[..length].copy_from_slice(&v[..length]);
        u64::from_be_bytes(head) >> 2
    };
    let number = match value {
        Datum::Null if key.nulls_first => return NULL_BEFORE,
        Datum::Null => return NULL_BEHIND,
        Datum::Bool(v) => u64::from(*v),
        Datum::Int2(v) => clamp(i64::from(*v)),
        Datum::Int4(v) | Datum::Date(v) => clamp(i64::from(*v)),
        Datum::Int8(v) | Datum::Time(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) => clamp(*v),
        Datum::Timetz(v) => clamp(v.utc_micros()),
        Datum::Oid(v) => u64::from(*v),
        Datum::Float4(v) => float(f64::from(*v)),
        Datum::Float8(v) => float(*v),
        Datum::Text(v) => bytes(v.as_bytes()),
        Datum::Char(v) => bytes(without_blanks(v).as_bytes()),
        Datum::Bytea(v) => bytes(v),
        Datum::Uuid(v) => bytes(v),
        // Ordered by a look at the whole value.
        Datum::Numeric(_)
        | Datum::Interval(_)
        | Datum::Jsonb(_)
        | Datum::Array(_)
        | Datum::Record(_) => 0,
    };
    // Below 2^62, so that it is above one number and below another either way.
    1 + if key.desc { (1 << 62) - number } else { number }
}

impl Sorter {
    pub fn new(width: usize, keys: Arc<[SortColumn]>, cx: &Cx) -> Sorter {
        Sorter {
            width,
            keys,
            rows: Vec::new(),
            entries: Vec::new(),
            sorted: 0,
            disk: Vec::new(),
            reservation: cx.reservation(),
            space: Arc::clone(&cx.env.temp),
            limit: cx.env.limits.work_mem,
            bound: None,
            merge: None,
            count: 0,
        }
    }

    /// Only the first `rows` rows will be read.
    pub fn bounded(mut self, rows: Option<usize>) -> Sorter {
        self.bound = rows;
        self
    }

    /// Number of rows put.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The row of an entry.
    fn row(rows: &[Datum], width: usize, entry: Entry) -> &[Datum] {
        let at = entry.row as usize;
        &rows[at * width..(at + 1) * width]
    }

    fn prefix(keys: &[SortColumn], row: &[Datum]) -> u64 {
        keys.first().map_or(0, |key| prefix_of(&row[key.slot], key))
    }

    /// Appends a row, whose values are taken.
    pub fn push(&mut self, row: &mut [Datum]) -> ExecResult<()> {
        debug_assert_eq!(row.len(), self.width, "a row of another width");
        self.count += 1;
        let bytes = row_bytes(row) + ENTRY;
        let room = self.reservation.bytes().saturating_add(bytes) <= self.limit
            && self.entries.len() < u32::MAX as usize
            && self.reservation.grow(bytes).is_ok();
        if !room {
            self.spill()?;
            // One row is held in any case.
            let _ = self.reservation.grow(bytes);
        }
        let prefix = Self::prefix(&self.keys, row);
        let number = self.entries.len() as u32;
        self.rows.extend(row.iter_mut().map(take));
        self.entries.push(Entry {
            prefix,
            row: number,
        });
        if let Some(bound) = self.bound
            && self.entries.len() >= bound.saturating_mul(2).max(RUN / 8)
        {
            self.keep_first(bound);
        } else if self.entries.len() - self.sorted >= RUN {
            self.sort_run();
        }
        Ok(())
    }

    /// Sorts the rows that came since the last run.
    fn sort_run(&mut self) {
        let (rows, width, keys) = (&self.rows, self.width, &self.keys);
        self.entries[self.sorted..].sort_unstable_by(|a, b| Self::order(rows, width, keys, *a, *b));
        self.sorted = self.entries.len();
    }

    #[inline]
    fn order(rows: &[Datum], width: usize, keys: &[SortColumn], a: Entry, b: Entry) -> Ordering {
        a.prefix
            .cmp(&b.prefix)
            .then_with(|| compare_rows(Self::row(rows, width, a), Self::row(rows, width, b), keys))
    }

    /// Forgets all rows in memory but the first `bound`.
    fn keep_first(&mut self, bound: usize) {
        self.sorted = 0;
        self.sort_run();
        self.entries.truncate(bound);
        self.sorted = self.entries.len();
        let mut kept = Vec::with_capacity(self.rows.len());
        let mut bytes = 0;
        for (number, entry) in self.entries.iter_mut().enumerate() {
            let at = entry.row as usize * self.width;
            let row = &mut self.rows[at..at + self.width];
            bytes += row_bytes(row) + ENTRY;
            kept.extend(row.iter_mut().map(take));
            entry.row = number as u32;
        }
        self.rows = kept;
        // Less than before.
        let _ = self.reservation.resize(bytes);
    }

    /// Writes the rows in memory to disk as one run.
    fn spill(&mut self) -> ExecResult<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.sorted = 0;
        self.sort_run();
        let mut run = self.new_run();
        for entry in &self.entries {
            run.push(Self::row(&self.rows, self.width, *entry))?;
        }
        self.rows = Vec::new();
        self.entries = Vec::new();
        self.sorted = 0;
        self.reservation.shrink(usize::MAX);
        self.add_run(run, 0)
    }

    /// A store on disk alone.
    fn new_run(&self) -> RowStore {
        RowStore::new(self.width, self.reservation.another(), &self.space, 0)
    }

    fn add_run(&mut self, rows: RowStore, level: u32) -> ExecResult<()> {
        self.disk.push(DiskRun {
            head: Batch::new(self.width),
            rows,
            cursor: Cursor::default(),
            prefix: 0,
            level,
        });
        let same = self.disk.iter().rev().take_while(|run| run.level == level);
        if same.count() < FAN_IN {
            return Ok(());
        }
        let runs = self.disk.split_off(self.disk.len() - FAN_IN);
        let mut merge = Merge::new(Vec::new(), runs);
        merge.begin(&self.rows, &self.entries, self.width, &self.keys)?;
        let mut merged = self.new_run();
        let mut out = Batch::new(self.width);
        while merge.pop(self, &mut out)? {
            merged.push(out.row(0))?;
            out.reset(self.width);
        }
        self.add_run(merged, level + 1)
    }

    /// Ends putting rows, and begins reading them.
    pub fn finish(&mut self) -> ExecResult<()> {
        if !self.disk.is_empty() {
            self.spill()?;
        }
        // A bound leaves runs of any length; sorting them again is the rare case.
        if self.bound.is_some() {
            self.sorted = 0;
        }
        self.sort_run();
        let length = if self.bound.is_some() {
            self.entries.len().max(1)
        } else {
            RUN
        };
        let starts = (0..self.entries.len()).step_by(length);
        let memory = starts.map(|start| (start, (start + length).min(self.entries.len())));
        let mut merge = Merge::new(memory.collect(), std::mem::take(&mut self.disk));
        merge.begin(&self.rows, &self.entries, self.width, &self.keys)?;
        self.merge = Some(merge);
        Ok(())
    }

    /// Appends the next row to `out`; false at the end.
    pub fn next(&mut self, out: &mut Batch) -> ExecResult<bool> {
        let Some(mut merge) = self.merge.take() else {
            return Ok(false);
        };
        let more = merge.pop(self, out)?;
        self.merge = Some(merge);
        Ok(more)
    }
}

impl Merge {
    fn new(memory: Vec<(usize, usize)>, disk: Vec<DiskRun>) -> Merge {
        Merge {
            memory,
            heap: Vec::new(),
            disk,
        }
    }

    fn begin(
        &mut self,
        rows: &[Datum],
        entries: &[Entry],
        width: usize,
        keys: &[SortColumn],
    ) -> ExecResult<()> {
        for number in 0..self.memory.len() {
            let (at, _) = self.memory[number];
            self.heap.push((entries[at].prefix, number));
        }
        for number in 0..self.disk.len() {
            if self.disk[number].advance(keys)? {
                let prefix = self.disk[number].prefix;
                self.heap.push((prefix, self.memory.len() + number));
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift(at, rows, entries, width, keys);
        }
        Ok(())
    }

    fn head<'a>(
        &'a self,
        run: usize,
        rows: &'a [Datum],
        entries: &[Entry],
        width: usize,
    ) -> &'a [Datum] {
        match self.memory.get(run) {
            Some((at, _)) => Sorter::row(rows, width, entries[*at]),
            None => self.disk[run - self.memory.len()].head.row(0),
        }
    }

    /// Moves an element of the heap down to its place.
    fn sift(
        &mut self,
        mut at: usize,
        rows: &[Datum],
        entries: &[Entry],
        width: usize,
        keys: &[SortColumn],
    ) {
        let less = |merge: &Merge, a: usize, b: usize| {
            let (a, b) = (merge.heap[a], merge.heap[b]);
            a.0.cmp(&b.0)
                .then_with(|| {
                    compare_rows(
                        merge.head(a.1, rows, entries, width),
                        merge.head(b.1, rows, entries, width),
                        keys,
                    )
                })
                .is_lt()
        };
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            if left < self.heap.len() && less(self, left, least) {
                least = left;
            }
            if right < self.heap.len() && less(self, right, least) {
                least = right;
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    /// Appends the least row to `out`; false when there is none.
    fn pop(&mut self, sorter: &mut Sorter, out: &mut Batch) -> ExecResult<bool> {
        let Some((_, run)) = self.heap.first().copied() else {
            return Ok(false);
        };
        let width = sorter.width;
        let next = if let Some((at, end)) = self.memory.get_mut(run) {
            let row = sorter.entries[*at].row as usize * width;
            out.push_taken(&mut sorter.rows[row..row + width]);
            *at += 1;
            (*at < *end).then(|| sorter.entries[*at].prefix)
        } else {
            let run = &mut self.disk[run - self.memory.len()];
            out.push_taken(run.head.row_mut(0));
            run.advance(&sorter.keys)?.then_some(run.prefix)
        };
        match next {
            Some(prefix) => self.heap[0].0 = prefix,
            None => {
                self.heap.swap_remove(0);
            }
        }
        let (rows, entries) = (&sorter.rows, &sorter.entries);
        self.sift(0, rows, entries, width, &sorter.keys);
        Ok(true)
    }
}

impl DiskRun {
    /// Reads the next row; false at the end.
    fn advance(&mut self, keys: &[SortColumn]) -> ExecResult<bool> {
        self.head.reset(self.rows.width());
        if !self.rows.read(&mut self.cursor, &mut self.head)? {
            return Ok(false);
        }
        self.prefix = Sorter::prefix(keys, self.head.row(0));
        Ok(true)
    }
}
