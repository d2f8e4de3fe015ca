//! The rows of a row's frame.

use std::cmp::Ordering;

use evenkeel_expr::program::Program;
use evenkeel_planner::ast::{FrameExclude, FrameUnit};
use evenkeel_planner::plan::{Frame, FrameBound, SortColumn};
use evenkeel_types::{Datum, Numeric, SqlState, TimeTz};
use smallvec::SmallVec;

use super::partition::{Partition, Place};
use crate::context::Cx;
use crate::error::{ExecError, ExecResult};
use crate::key::compare_values;

/// The rows of a frame: from each first number to before the second, in order.
pub(super) type Ranges = SmallVec<[(usize, usize); 3]>;

/// The frame's offsets, computed once.
pub(super) struct Offsets {
    start: Datum,
    end: Datum,
}

/// 22013
const INVALID_SIZE: SqlState = SqlState("22013");

impl Offsets {
    pub fn new(frame: &Frame, cx: &Cx) -> ExecResult<Offsets> {
        let start = offset(&frame.start, frame.unit, "starting", cx)?;
        let end = offset(&frame.end, frame.unit, "ending", cx)?;
        Ok(Offsets { start, end })
    }
}

fn offset(bound: &FrameBound, unit: FrameUnit, which: &str, cx: &Cx) -> ExecResult<Datum> {
    let (FrameBound::Preceding(value, _) | FrameBound::Following(value, _)) = bound else {
        return Ok(Datum::Null);
    };
    let value = cx.eval(value, &[])?;
    let negative = match &value {
        Datum::Null => {
            let message = format!("frame {which} offset must not be null");
            return Err(ExecError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        Datum::Int2(n) => *n < 0,
        Datum::Int4(n) => *n < 0,
        Datum::Int8(n) => *n < 0,
        Datum::Float4(n) => *n < 0.0 || n.is_nan(),
        Datum::Float8(n) => *n < 0.0 || n.is_nan(),
        Datum::Numeric(n) => *n < Numeric::zero() || *n == Numeric::nan(),
        Datum::Interval(n) => n.comparison_micros() < 0,
        _ => false,
    };
    if negative {
        let message = if unit == FrameUnit::Range {
            "invalid preceding or following size in window function".to_owned()
        } else {
            format!("frame {which} offset must not be negative")
        };
        return Err(ExecError::new(INVALID_SIZE, message));
    }
    Ok(value)
}

/// The rows of the frame of the row at `place`.
pub(super) fn ranges(
    frame: &Frame,
    offsets: &Offsets,
    order: &[SortColumn],
    (partition, place): (&Partition, &Place),
    cx: &Cx,
) -> ExecResult<Ranges> {
    let edges = Edges {
        unit: frame.unit,
        order,
        partition,
        place,
        cx,
    };
    let start = edges.edge(&frame.start, &offsets.start, true)?;
    let end = edges.edge(&frame.end, &offsets.end, false)?;
    let mut ranges = Ranges::new();
    if start < end {
        ranges.push((start, end));
    }
    let row = place.row;
    let peers = (
        partition.start_of(place.group),
        partition.start_of(place.group + 1),
    );
    match frame.exclude {
        FrameExclude::NoOthers => {}
        FrameExclude::CurrentRow => leave_out(&mut ranges, (row, row + 1)),
        FrameExclude::Group => leave_out(&mut ranges, peers),
        FrameExclude::Ties => {
            leave_out(&mut ranges, (peers.0, row));
            leave_out(&mut ranges, (row + 1, peers.1));
        }
    }
    Ok(ranges)
}

/// Takes rows out of ranges.
fn leave_out(ranges: &mut Ranges, (from, to): (usize, usize)) {
    let parts = ranges.iter().flat_map(|(start, end)| {
        let before = (*start, (*end).min(from));
        let behind = ((*start).max(to), *end);
        [before, behind]
    });
    // A range that lies outside of what is left out is both before and behind nothing: one part
    // of it is empty.
    *ranges = if from < to {
        parts.filter(|(start, end)| start < end).collect()
    } else {
        ranges.clone()
    };
}

struct Edges<'a> {
    unit: FrameUnit,
    order: &'a [SortColumn],
    partition: &'a Partition,
    place: &'a Place,
    cx: &'a Cx,
}

impl Edges<'_> {
    /// The first row of the frame (`start`), or the row behind its last.
    fn edge(&self, bound: &FrameBound, offset: &Datum, start: bool) -> ExecResult<usize> {
        let partition = self.partition;
        match bound {
            FrameBound::UnboundedPreceding => Ok(0),
            FrameBound::UnboundedFollowing => Ok(partition.len()),
            FrameBound::CurrentRow if self.unit == FrameUnit::Rows => {
                Ok(self.place.row + usize::from(!start))
            }
            FrameBound::CurrentRow => Ok(self.of_group(self.place.group, start)),
            FrameBound::Preceding(_, test) => self.offset(offset, test.as_ref(), start, true),
            FrameBound::Following(_, test) => self.offset(offset, test.as_ref(), start, false),
        }
    }

    /// Where a group begins or ends.
    fn of_group(&self, group: usize, start: bool) -> usize {
        self.partition.start_of(group + usize::from(!start))
    }

    fn offset(
        &self,
        offset: &Datum,
        test: Option<&Program>,
        start: bool,
        preceding: bool,
    ) -> ExecResult<usize> {
        if self.unit == FrameUnit::Range {
            return self.range(offset, test, start, preceding);
        }
        let count = match offset {
            Datum::Int2(n) => i64::from(*n),
            Datum::Int4(n) => i64::from(*n),
            Datum::Int8(n) => *n,
            _ => return Err(ExecError::plan("a frame's offset that is not an integer")),
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (at, end) = if self.unit == FrameUnit::Rows {
            (self.place.row, self.partition.len())
        } else {
            (self.place.group, self.partition.groups())
        };
        let wanted = if preceding {
            match at.checked_sub(count) {
                Some(wanted) => wanted,
                // Before the first: the frame begins with it, or ends before it.
                None => return Ok(0),
            }
        } else {
            at.saturating_add(count)
        };
        if wanted >= end {
            return Ok(self.partition.len());
        }
        Ok(if self.unit == FrameUnit::Rows {
            wanted + usize::from(!start)
        } else {
            self.of_group(wanted, start)
        })
    }

    /// Rows by the value of the ordered column. NULLs are peers of NULLs, and in no other frame
    /// that ends by an offset.
    fn range(
        &self,
        offset: &Datum,
        test: Option<&Program>,
        start: bool,
        preceding: bool,
    ) -> ExecResult<usize> {
        let (Some(key), Some(test)) = (self.order.first(), test) else {
            return Err(ExecError::plan("a RANGE without an order"));
        };
        let value = self.partition.value_of(self.place.group);
        if value.is_null() {
            return Ok(self.of_group(self.place.group, start));
        }
        let (mut from, mut to) = (0, self.partition.groups());
        if self.partition.value_of(from).is_null() {
            from += 1;
        }
        if to > from && self.partition.value_of(to - 1).is_null() {
            to -= 1;
        }
        let bound = match (value, offset) {
            // Of a time the bound is not a time of another day.
            (Datum::Time(time), Datum::Interval(offset)) => {
                let bound = match preceding != key.desc {
                    true => time.checked_sub(offset.micros),
                    false => time.checked_add(offset.micros),
                };
                bound.map(Datum::Time)
            }
            // PostgreSQL compares the instants and then the zones, of which the value's is meant.
            (Datum::Timetz(time), Datum::Interval(offset)) => {
                let bound = match preceding != key.desc {
                    true => time.micros.checked_sub(offset.micros),
                    false => time.micros.checked_add(offset.micros),
                };
                bound.map(|micros| Datum::Timetz(TimeTz { micros, ..*time }))
            }
            _ => match self.cx.eval(test, &[value.clone(), offset.clone()]) {
                Ok(bound) => Some(bound),
                // A bound that the type cannot hold is beyond all values.
                Err(error) if matches!(error.sqlstate(), "22003" | "22008") => None,
                Err(error) => return Err(error),
            },
        };
        let group = match bound {
            Some(bound) => {
                let reached = |value: &Datum| {
                    let order = compare_values(value, &bound, key.desc, key.nulls_first);
                    order == Ordering::Greater || (start && order == Ordering::Equal)
                };
                self.partition.first_group(from, to, reached)
            }
            None if preceding => from,
            None => to,
        };
        Ok(self.partition.start_of(group))
    }
}
