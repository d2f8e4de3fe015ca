//! Sorting rows: short runs in memory as they come, merged when they are read; runs on disk when
//! memory has no room for them. No step takes long: a sort can give way, and is noticed to be
//! cancelled, between any two rows that it moves (RUN-19).

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
    /// Where each sorted run of `entries` ends; those behind the last are not sorted yet.
    ends: Vec<usize>,
    disk: Vec<DiskRun>,
    /// A merge that must end before the next row is put.
    work: Option<Work>,
    reservation: Reservation,
    space: Arc<TempSpace>,
    limit: usize,
    bound: Option<usize>,
    /// Whether the first `bound` entries are the first of all rows so far, in order: a row behind
    /// the last of them is let go at once.
    cut: bool,
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

/// A merge of rows that are not read yet.
struct Work {
    merge: Merge,
    into: Sink,
    /// The row that is moved.
    row: Batch,
}

/// The place of merged rows.
enum Sink {
    /// A run on disk, and its level.
    Disk(RowStore, u32),
    /// Memory, as far as rows are read.
    Memory {
        rows: Vec<Datum>,
        entries: Vec<Entry>,
        bytes: usize,
        bound: usize,
    },
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
        Datum::Enum(v) => clamp(v.position),
        Datum::Oid(v) => u64::from(*v),
        Datum::Float4(v) => float(f64::from(*v)),
        Datum::Float8(v) => float(*v),
        Datum::Text(v) => bytes(v.as_bytes()),
        Datum::Char(v) => bytes(without_blanks(v).as_bytes()),
        Datum::Bytea(v) => bytes(v),
        Datum::Uuid(v) => bytes(v),
        Datum::Tid(v) => u64::from(v.block) << 16 | u64::from(v.slot),
        Datum::Xid8(v) => v >> 2,
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
            ends: Vec::new(),
            disk: Vec::new(),
            work: None,
            reservation: cx.reservation(),
            space: Arc::clone(&cx.env.temp),
            limit: cx.env.limits.work_mem,
            bound: None,
            cut: false,
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

    fn unsorted(&self) -> usize {
        self.entries.len() - self.ends.last().copied().unwrap_or(0)
    }

    /// Whether so many rows come before a row that it will not be read.
    #[inline]
    fn is_cut(&self, row: &[Datum]) -> bool {
        let Some(bound) = self.bound.filter(|_| self.cut) else {
            return false;
        };
        let Some(last) = bound.checked_sub(1).and_then(|at| self.entries.get(at)) else {
            return false;
        };
        let prefix = Self::prefix(&self.keys, row);
        if prefix != last.prefix {
            return prefix > last.prefix;
        }
        let last = Self::row(&self.rows, self.width, *last);
        compare_rows(row, last, &self.keys).is_ge()
    }

    /// Appends a row, whose values are taken if it may be among those that are read. Work before is
    /// settled.
    pub fn push(&mut self, row: &mut [Datum]) -> ExecResult<()> {
        debug_assert_eq!(row.len(), self.width, "a row of another width");
        debug_assert!(self.work.is_none(), "a row into a merge");
        self.count += 1;
        if self.is_cut(row) {
            return Ok(());
        }
        let bytes = row_bytes(row) + ENTRY;
        // The row that finds no room is held in any case, until the merge has moved it.
        let room = self.reservation.bytes().saturating_add(bytes) <= self.limit
            && self.entries.len() < (u32::MAX - 1) as usize
            && self.reservation.grow(bytes).is_ok();
        let prefix = Self::prefix(&self.keys, row);
        let number = self.entries.len() as u32;
        self.rows.extend(row.iter_mut().map(take));
        self.entries.push(Entry {
            prefix,
            row: number,
        });
        if !room {
            return self.spill();
        }
        if let Some(bound) = self.bound
            && self.entries.len() >= bound.saturating_mul(2).max(RUN / 8)
        {
            let sink = Sink::Memory {
                rows: Vec::new(),
                entries: Vec::new(),
                bytes: 0,
                bound,
            };
            return self.merge_memory(sink);
        }
        if self.unsorted() >= RUN {
            self.sort_run();
        }
        Ok(())
    }

    /// Goes on with the merge that is under way, if one is. False when it gives way before the
    /// end: the caller gives way, and asks again before it puts a row.
    ///
    /// # Errors
    /// 57014; those of temporary files.
    pub fn settle(&mut self, cx: &Cx) -> ExecResult<bool> {
        while let Some(mut work) = self.work.take() {
            loop {
                work.row.reset(self.width);
                if work.into.is_full() || !work.merge.pop(self, &mut work.row)? {
                    break;
                }
                work.into.push(work.row.row_mut(0), &self.keys)?;
                if cx.over(1)? {
                    self.work = Some(work);
                    return Ok(false);
                }
            }
            match work.into {
                Sink::Disk(rows, level) => self.add_run(rows, level, work.merge)?,
                Sink::Memory {
                    rows,
                    entries,
                    bytes,
                    ..
                } => {
                    // No run is empty.
                    self.ends = (!entries.is_empty())
                        .then_some(entries.len())
                        .into_iter()
                        .collect();
                    self.cut = true;
                    (self.rows, self.entries) = (rows, entries);
                    // Less than before.
                    let _ = self.reservation.resize(bytes);
                }
            }
        }
        Ok(true)
    }

    /// [`Sorter::settle`] for a caller that cannot give way.
    pub fn settle_all(&mut self, cx: &Cx) -> ExecResult<()> {
        while !self.settle(cx)? {}
        Ok(())
    }

    /// Sorts the rows that came since the last run.
    fn sort_run(&mut self) {
        let unsorted = self.entries.len() - self.unsorted();
        if unsorted == self.entries.len() {
            return;
        }
        let (rows, width, keys) = (&self.rows, self.width, &self.keys);
        self.entries[unsorted..].sort_unstable_by(|a, b| Self::order(rows, width, keys, *a, *b));
        self.ends.push(self.entries.len());
    }

    /// The runs in memory, where each begins and ends.
    fn memory_runs(&mut self) -> Vec<(usize, usize)> {
        self.sort_run();
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(self.ends.iter().copied()).collect()
    }

    #[inline]
    fn order(rows: &[Datum], width: usize, keys: &[SortColumn], a: Entry, b: Entry) -> Ordering {
        a.prefix
            .cmp(&b.prefix)
            .then_with(|| compare_rows(Self::row(rows, width, a), Self::row(rows, width, b), keys))
    }

    /// Begins to merge the runs in memory.
    fn merge_memory(&mut self, into: Sink) -> ExecResult<()> {
        let merge = Merge::new(self.memory_runs(), Vec::new());
        self.begin(merge, into)
    }

    fn begin(&mut self, mut merge: Merge, into: Sink) -> ExecResult<()> {
        merge.begin(&self.rows, &self.entries, self.width, &self.keys)?;
        let row = Batch::new(self.width);
        self.work = Some(Work { merge, into, row });
        Ok(())
    }

    /// Begins to write the rows in memory to disk as one run.
    fn spill(&mut self) -> ExecResult<()> {
        self.cut = false;
        let run = self.new_run();
        self.merge_memory(Sink::Disk(run, 0))
    }

    /// A store on disk alone.
    fn new_run(&self) -> RowStore {
        RowStore::new(self.width, self.reservation.another(), &self.space, 0)
    }

    /// Adds the run that a merge has made, and begins to merge when there are many of its level.
    fn add_run(&mut self, rows: RowStore, level: u32, merged: Merge) -> ExecResult<()> {
        if !merged.memory.is_empty() {
            self.rows = Vec::new();
            self.entries = Vec::new();
            self.ends = Vec::new();
            self.reservation.shrink(usize::MAX);
        }
        drop(merged);
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
        let into = Sink::Disk(self.new_run(), level + 1);
        self.begin(Merge::new(Vec::new(), runs), into)
    }

    /// Ends putting rows, and begins reading them. False when it gives way before that: the caller
    /// asks again.
    ///
    /// # Errors
    /// Those of [`Sorter::settle`].
    pub fn finish(&mut self, cx: &Cx) -> ExecResult<bool> {
        if !self.settle(cx)? {
            return Ok(false);
        }
        if !self.disk.is_empty() && !self.entries.is_empty() {
            self.spill()?;
            if !self.settle(cx)? {
                return Ok(false);
            }
        }
        let mut merge = Merge::new(self.memory_runs(), std::mem::take(&mut self.disk));
        merge.begin(&self.rows, &self.entries, self.width, &self.keys)?;
        self.merge = Some(merge);
        Ok(true)
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

impl Sink {
    /// Whether no further row will be read.
    fn is_full(&self) -> bool {
        matches!(self, Sink::Memory { entries, bound, .. } if entries.len() >= *bound)
    }

    /// Appends a row, whose values are taken.
    fn push(&mut self, row: &mut [Datum], keys: &[SortColumn]) -> ExecResult<()> {
        match self {
            Sink::Disk(store, _) => store.push_taken(row),
            Sink::Memory {
                rows,
                entries,
                bytes,
                ..
            } => {
                *bytes += row_bytes(row) + ENTRY;
                let entry = Entry {
                    prefix: Sorter::prefix(keys, row),
                    row: entries.len() as u32,
                };
                entries.push(entry);
                rows.extend(row.iter_mut().map(take));
                Ok(())
            }
        }
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
