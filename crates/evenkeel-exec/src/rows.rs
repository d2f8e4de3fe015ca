//! Rows of a table as they come from the engine: decoded as far as the node needs them.

use std::sync::Arc;

use evenkeel_engine::heap::rows::{RowBatch, RowHandle};
use evenkeel_engine::memory::Reservation;
use evenkeel_engine::table::{Scan, Table, VersionMarks};
use evenkeel_engine::{Tid, Xid};
use evenkeel_expr::program::Program;
use evenkeel_planner::plan::Node;
use evenkeel_planner::relation::{Relation, SystemColumn};
use evenkeel_storage::BlockNumber;
use evenkeel_types::key::KeyColumn;
use evenkeel_types::row::RowLayout;
use evenkeel_types::{Datum, TupleId};

use crate::batch::Batch;
use crate::context::Cx;
use crate::error::{ExecError, ExecResult};
use crate::large::{RowReader, reading_bytes};
use crate::raw_test::RawTest;
use crate::walk::slots;

/// A table that is scanned, and which columns are decoded when.
pub(crate) struct ScannedTable {
    pub table: Arc<Table>,
    layout: Arc<RowLayout>,
    /// The first programs of the filter, as far as they are tests of stored bytes.
    tests: Vec<RawTest>,
    /// The columns of the slots, if simple rows that pass the tests are the node's output as they
    /// are.
    direct: Option<Vec<usize>>,
    /// How much of a simple row is looked at, if that is not all of it.
    prefix: Option<usize>,
    /// Whether rows that pass the tests have nothing that the node's output looks at.
    counted: bool,
    /// Slots and columns that each of the filter's programs is the first to look at: a row that
    /// one leaves out is decoded no further.
    early: Vec<Vec<(usize, usize)>>,
    /// The others, decoded for rows that pass.
    late: Vec<(usize, usize)>,
    scratch: Vec<Datum>,
    /// The charge of its values that were fetched from outside of the row.
    charge: Reservation,
    /// Whether the row ends with its place.
    placed: bool,
    /// How rows are read that are keys of an index.
    keys: Option<KeyRows>,
    /// The slots of system columns.
    system: Vec<(usize, SystemColumn)>,
    /// Whether the filter looks at one.
    system_first: bool,
}

/// The columns of an index's keys, each with its slot, as far as any has one.
struct KeyRows(Vec<(KeyColumn, Option<usize>)>);

impl KeyRows {
    fn new(index: &[KeyColumn], columns: &[usize]) -> KeyRows {
        let slot = |key: &KeyColumn| columns.iter().position(|of| key.column == Some(*of));
        let mut keys: Vec<_> = index.iter().map(|key| (*key, slot(key))).collect();
        let last = keys.iter().rposition(|(_, slot)| slot.is_some());
        keys.truncate(last.map_or(0, |last| last + 1));
        KeyRows(keys)
    }

    fn read(&self, mut key: &[u8], row: &mut [Datum]) -> ExecResult<()> {
        for (column, slot) in &self.0 {
            let value = column.decode(&mut key)?;
            if let Some(slot) = slot {
                row[*slot] = value;
            }
        }
        Ok(())
    }
}

/// Columns of a row that are decoded together.
#[derive(Clone, Copy)]
enum Wanted {
    /// Those that a program of the filter is the first to look at.
    By(usize),
    /// Those that only rows that pass are asked for.
    Late,
}

/// The values of a version's system columns.
pub(crate) struct SystemValues<'t> {
    table: &'t Table,
    at: Tid,
    marks: Option<VersionMarks>,
}

impl<'t> SystemValues<'t> {
    /// Those of the version at a place, which the snapshot or a lock holds.
    pub fn new(table: &'t Table, at: Tid) -> SystemValues<'t> {
        let marks = None;
        SystemValues { table, at, marks }
    }

    /// One of them.
    pub fn get(&mut self, column: SystemColumn, cx: &Cx) -> ExecResult<Datum> {
        if column == SystemColumn::Ctid {
            return Ok(Datum::Tid(TupleId {
                block: self.at.block.0,
                slot: self.at.slot,
            }));
        }
        let marks = match self.marks {
            Some(marks) => marks,
            None => {
                let row = RowHandle::known(&cx.env.snapshot, self.at);
                let marks = self.table.version_marks(row)?;
                let gone = || ExecError::plan("a row that is no longer in its place");
                *self.marks.insert(marks.ok_or_else(gone)?)
            }
        };
        // A number is shown by its last 32 bits, as PostgreSQL stores it.
        let shown = |xid: Xid| Datum::Oid(xid.get() as u32);
        Ok(match column {
            SystemColumn::Xmin => shown(marks.xmin),
            SystemColumn::Xmax => shown(marks.xmax),
            SystemColumn::Cmin | SystemColumn::Cmax => Datum::Oid(marks.command),
            SystemColumn::Ctid | SystemColumn::TableOid => {
                return Err(ExecError::plan("a system column that no row has"));
            }
        })
    }
}

/// A row's place as a value.
pub(crate) fn datum_of(place: Tid) -> Datum {
    Datum::Int8(i64::from(place.block.0) << 16 | i64::from(place.slot))
}

/// The place that a value is.
pub(crate) fn tid_of(value: &Datum) -> ExecResult<Tid> {
    let place = match value {
        Datum::Int8(place) => u64::try_from(*place).ok(),
        _ => None,
    };
    let block = place.and_then(|place| u32::try_from(place >> 16).ok());
    match (place, block) {
        (Some(place), Some(block)) => Ok(Tid::new(BlockNumber(block), (place & 0xffff) as u16)),
        _ => Err(ExecError::plan("a row's place that is none")),
    }
}

impl ScannedTable {
    pub fn open(
        relation: &Relation,
        columns: &[usize],
        node: &Node,
        cx: &Cx,
    ) -> ExecResult<ScannedTable> {
        let (table, layout) = cx.env.relations.table(relation)?;
        let mut late: Vec<(usize, usize)> = columns.iter().copied().enumerate().collect();
        let system = late.iter();
        let system = system.filter_map(|(slot, column)| Some((*slot, SystemColumn::at(*column)?)));
        let system: Vec<(usize, SystemColumn)> = system.collect();
        late.retain(|(_, column)| SystemColumn::at(*column).is_none());
        let mut early = Vec::with_capacity(node.filter.len());
        let mut system_first = false;
        for program in &node.filter {
            let mut used = vec![false; columns.len()];
            slots(program, &mut used);
            system_first |= system.iter().any(|(slot, _)| used[*slot]);
            let (first, rest) = late.into_iter().partition(|(slot, _)| used[*slot]);
            early.push(first);
            late = rest;
        }
        let placed = node.mark.is_some();
        let tests: Vec<RawTest> = node
            .filter
            .iter()
            .map_while(|program| RawTest::of(program, &layout, columns, &cx.params))
            .collect();
        let plain = !placed && system.is_empty();
        let direct = plain && node.project.is_none() && tests.len() == node.filter.len();
        let fixed = |column: &usize| layout.fixed_slot(*column).is_some();
        let prefix = !placed && columns.iter().all(fixed);
        Ok(ScannedTable {
            prefix: prefix.then(|| layout.slots_end()),
            counted: direct && columns.is_empty(),
            direct: direct.then(|| columns.to_vec()),
            tests,
            table,
            layout,
            charge: cx.reservation(),
            early,
            late,
            scratch: vec![Datum::Null; columns.len() + usize::from(placed)],
            placed,
            system,
            system_first,
            keys: None,
        })
    }

    /// As [`ScannedTable::open`], for rows that are keys of an index with these columns.
    pub fn of_keys(
        relation: &Relation,
        (columns, index): (&[usize], &[KeyColumn]),
        node: &Node,
        cx: &Cx,
    ) -> ExecResult<ScannedTable> {
        let mut table = ScannedTable::open(relation, columns, node, cx)?;
        // An enumerated type may have more labels than when the index was made.
        let index = index.iter().map(|key| {
            let column = key.column.and_then(|column| relation.columns.get(column));
            let ty = column.map_or(key.ty, |column| column.ty);
            KeyColumn { ty, ..*key }
        });
        let index: Vec<KeyColumn> = index.collect();
        table.keys = Some(KeyRows::new(&index, columns));
        table.early.iter_mut().for_each(Vec::clear);
        table.late.clear();
        table.direct = None;
        table.tests.clear();
        Ok(table)
    }

    /// How many of a row's first bytes are needed; none of one that the tests leave out.
    #[inline]
    fn needed(&self, row: &[u8]) -> Option<usize> {
        if self.counted && self.tests.is_empty() {
            return Some(0);
        }
        if !self.layout.is_simple(row) {
            return Some(row.len());
        }
        let wanted = self.tests.iter().all(|test| test.holds(row));
        wanted.then(|| match self.counted {
            true => 0,
            false => self.prefix.unwrap_or(row.len()),
        })
    }

    /// Replaces `page` by the rows of a scan's next page, without those that the tests leave out;
    /// false at the end.
    pub fn next_page(
        &self,
        scan: &mut Scan,
        page: &mut RowBatch,
        (node, cx): (&Node, &Cx),
    ) -> ExecResult<bool> {
        let Some(seen) = scan.next_page_of(&mut |row| self.needed(row), page)? else {
            return Ok(false);
        };
        cx.count_removed(node, seen.saturating_sub(page.len() as u64));
        Ok(true)
    }

    /// Fills in the system columns of the version at a place.
    fn fill_system(&mut self, place: Tid, cx: &Cx) -> ExecResult<()> {
        let mut values = SystemValues::new(&self.table, place);
        for (slot, column) in &self.system {
            self.scratch[*slot] = values.get(*column, cx)?;
        }
        Ok(())
    }

    fn decode(&mut self, row: &[u8], wanted: Wanted, cx: &Cx) -> ExecResult<()> {
        let wanted = match wanted {
            Wanted::By(program) => &self.early[program],
            Wanted::Late => &self.late,
        };
        if self.layout.is_simple(row) {
            for (slot, column) in wanted {
                self.layout
                    .read_simple(row, *column, &mut self.scratch[*slot])?;
            }
            return Ok(());
        }
        for (slot, column) in wanted {
            self.scratch[*slot] = match self.layout.read(row, *column)? {
                Ok(value) => value,
                Err(external) => {
                    let bytes = reading_bytes(&external);
                    self.charge.grow(bytes)?;
                    let reader = RowReader {
                        table: &self.table,
                        layout: &self.layout,
                        snapshot: &cx.env.snapshot,
                        cancel: &cx.env.cancel,
                    };
                    reader.fetch(*column, &external)?
                }
            };
        }
        Ok(())
    }

    /// Lets go of the values that were fetched for the row before.
    fn forget_fetched(&mut self) -> ExecResult<()> {
        if self.charge.bytes() != 0 {
            self.scratch.fill(Datum::Null);
            self.charge.resize(0)?;
        }
        Ok(())
    }

    /// Whether a row passes the node's filter; what that looked at is in the scratch row then.
    fn passes(&mut self, row: &[u8], (node, cx): (&Node, &Cx)) -> ExecResult<bool> {
        for (at, program) in node.filter.iter().enumerate() {
            self.decode(row, Wanted::By(at), cx)?;
            if !cx.holds(std::slice::from_ref(program), &self.scratch)? {
                cx.count_removed(node, 1);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether conditions hold for a row.
    pub fn holds(&mut self, row: &[u8], conditions: &[Program], cx: &Cx) -> ExecResult<bool> {
        self.forget_fetched()?;
        for program in 0..self.early.len() {
            self.decode(row, Wanted::By(program), cx)?;
        }
        self.decode(row, Wanted::Late, cx)?;
        cx.holds(conditions, &self.scratch)
    }

    /// Appends the node's output for the rows of a page from `at` on, up to `most` rows; returns
    /// where it goes on.
    pub fn emit(
        &mut self,
        page: &RowBatch,
        mut at: usize,
        (node, cx): (&Node, &Cx),
        most: usize,
        out: &mut Batch,
    ) -> ExecResult<usize> {
        while at < page.len() && !out.is_full(most) {
            let (row, place) = (page.row(at), page.tid(at));
            at += 1;
            if self.counted && row.is_empty() {
                out.end_row();
                continue;
            }
            if let Some(columns) = &self.direct
                && self.layout.is_simple(row)
            {
                if self.tests.iter().all(|test| test.holds(row)) {
                    out.push_stored(row, &self.layout, columns)?;
                } else {
                    cx.count_removed(node, 1);
                }
                continue;
            }
            self.forget_fetched()?;
            if let Some(keys) = &self.keys {
                keys.read(row, &mut self.scratch)?;
            }
            if self.placed
                && let Some(last) = self.scratch.last_mut()
            {
                *last = datum_of(place);
            }
            if self.system_first {
                self.fill_system(place, cx)?;
            }
            if !self.passes(row, (node, cx))? {
                continue;
            }
            if !self.system_first && !self.system.is_empty() {
                self.fill_system(place, cx)?;
            }
            self.decode(row, Wanted::Late, cx)?;
            match &node.project {
                None => {
                    if self.charge.bytes() != 0 {
                        out.charge_row(&self.scratch, &cx.env.memory)?;
                    }
                    out.push_taken(&mut self.scratch);
                }
                Some(programs) => cx.project(programs, &self.scratch, out)?,
            }
        }
        Ok(at)
    }
}
