//! The rows of a partition, with where its groups of peers begin.

use evenkeel_engine::memory::Reservation;
use evenkeel_expr::program::Program;
use evenkeel_planner::plan::SortColumn;
use evenkeel_types::Datum;

use crate::batch::{Batch, bytes_of};
use crate::context::Cx;
use crate::error::ExecResult;
use crate::key::same;
use crate::spill::{Cursor, RowStore};

/// Rows that are equal by the order.
struct Peers {
    start: usize,
    /// The value of the first ordered column.
    value: Datum,
}

/// A row's place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub row: usize,
    /// Its group of peers.
    pub group: usize,
}

pub(super) struct Partition {
    rows: RowStore,
    /// The first row, and the last one so far.
    first: Vec<Datum>,
    last: Vec<Datum>,
    groups: Vec<Peers>,
    reservation: Reservation,
    /// Places in the store's file, for readers that read on from where they are: the row at
    /// hand, and rows of its frame.
    at_row: std::cell::RefCell<Reader>,
    in_frame: std::cell::RefCell<Reader>,
}

/// A place in the rows, and the row that was read last.
#[derive(Default)]
struct Reader {
    cursor: Cursor,
    row: Batch,
}

impl Partition {
    /// A partition that begins with a row, which is not in it yet.
    pub fn new(width: usize, first: &[Datum], cx: &Cx) -> Partition {
        let limit = cx.env.limits.work_mem;
        let rows = RowStore::new(width, cx.reservation(), &cx.env.temp, limit);
        Partition {
            rows: rows.random_access(),
            first: first.to_vec(),
            last: Vec::new(),
            groups: Vec::new(),
            reservation: cx.reservation(),
            at_row: std::cell::RefCell::default(),
            in_frame: std::cell::RefCell::default(),
        }
    }

    /// Whether a row is of this partition.
    pub fn has(&self, row: &[Datum], columns: &[usize]) -> bool {
        columns
            .iter()
            .all(|column| same(&self.first[*column], &row[*column]))
    }

    /// Appends a row.
    pub fn push(&mut self, row: &mut [Datum], order: &[SortColumn]) -> ExecResult<()> {
        let peer = |key: &SortColumn| same(&self.last[key.slot], &row[key.slot]);
        if self.groups.is_empty() || !order.iter().all(peer) {
            let value = order
                .first()
                .map_or(Datum::Null, |key| row[key.slot].clone());
            self.reservation
                .grow(size_of::<usize>() + bytes_of(&value))?;
            self.groups.push(Peers {
                start: self.rows.len(),
                value,
            });
            self.last = row.to_vec();
        }
        self.rows.push_taken(row)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Number of groups of peers.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Where a group begins; where the last one ends for a group behind it.
    pub fn start_of(&self, group: usize) -> usize {
        self.groups
            .get(group)
            .map_or(self.len(), |group| group.start)
    }

    /// The value of the first ordered column in a group.
    pub fn value_of(&self, group: usize) -> &Datum {
        self.groups
            .get(group)
            .map_or(&Datum::Null, |group| &group.value)
    }

    /// Moves a place's group on to that of its row.
    pub fn find_group(&self, place: &mut Place) {
        while self.start_of(place.group + 1) <= place.row {
            place.group += 1;
        }
    }

    /// The first group for which `reached` holds; it holds for all behind it.
    pub fn first_group(&self, from: usize, to: usize, reached: impl Fn(&Datum) -> bool) -> usize {
        from + self.groups[from..to].partition_point(|group| !reached(&group.value))
    }

    /// Appends the values of a row, which the caller ends.
    pub fn copy_row(&self, row: usize, out: &mut Batch) -> ExecResult<()> {
        self.with(&self.at_row, row, |values| {
            values
                .iter()
                .for_each(|value| out.push_value(value.clone()));
            Ok(())
        })
    }

    /// Looks at a row.
    pub fn with_row<T>(
        &self,
        row: usize,
        look: impl FnOnce(&[Datum]) -> ExecResult<T>,
    ) -> ExecResult<T> {
        self.with(&self.in_frame, row, look)
    }

    fn with<T>(
        &self,
        reader: &std::cell::RefCell<Reader>,
        row: usize,
        look: impl FnOnce(&[Datum]) -> ExecResult<T>,
    ) -> ExecResult<T> {
        if let Some(values) = self.rows.in_memory(row) {
            return look(values);
        }
        // Taken out: a subplan in the expression may not find it borrowed.
        let mut reading = reader.take();
        if reading.cursor.row() != row {
            self.rows.seek(&mut reading.cursor, row);
        }
        reading.row.reset(self.rows.width());
        self.rows.read(&mut reading.cursor, &mut reading.row)?;
        let result = look(reading.row.row(0));
        reader.replace(reading);
        result
    }

    /// The value of a program over a row.
    pub fn eval(&self, program: &Program, row: usize, cx: &Cx) -> ExecResult<Datum> {
        self.with_row(row, |values| cx.eval(program, values))
    }
}
