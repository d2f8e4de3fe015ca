//! The value of a window function, or of an aggregate over a frame, for a row.

use evenkeel_expr::proc::{Accumulator, AggregateTypes, NewAccumulator, ProcKind, WindowFunction};
use evenkeel_planner::plan::WindowCall;
use evenkeel_types::{Datum, SqlState};

use super::frame::Ranges;
use super::partition::{Partition, Place};
use crate::context::Cx;
use crate::error::{ExecError, ExecResult};

/// State that a function keeps from row to row of a partition.
pub(super) enum CallState {
    /// A window function; for `ntile` the number of buckets.
    Window(WindowFunction, Option<i64>),
    /// An aggregate: what makes its state, and the state over some rows with its value.
    Aggregate(NewAccumulator, Option<Running>),
}

pub(super) struct Running {
    state: Box<dyn Accumulator>,
    ranges: Ranges,
    value: Option<Datum>,
}

fn invalid(state: &'static str, message: &str) -> ExecError {
    ExecError::new(SqlState(state), message)
}

impl CallState {
    pub fn new(call: &WindowCall) -> ExecResult<CallState> {
        match call.proc.kind {
            ProcKind::Window(function) => Ok(CallState::Window(function, None)),
            ProcKind::Aggregate(new) => Ok(CallState::Aggregate(new, None)),
            _ => Err(ExecError::plan("a window function that is none")),
        }
    }

    pub fn value(
        &mut self,
        call: &WindowCall,
        partition: &Partition,
        place: &Place,
        ranges: &Ranges,
        cx: &Cx,
    ) -> ExecResult<Datum> {
        let arg = Args {
            call,
            partition,
            place,
            cx,
        };
        match self {
            CallState::Aggregate(new, running) => arg.aggregate(*new, running, ranges),
            CallState::Window(function, buckets) => match function {
                WindowFunction::Ntile => arg.ntile(buckets),
                WindowFunction::Lag => arg.shifted(false),
                WindowFunction::Lead => arg.shifted(true),
                WindowFunction::FirstValue => arg.nth(ranges, 0),
                WindowFunction::LastValue => {
                    let rows = count(ranges);
                    arg.nth(ranges, rows.wrapping_sub(1))
                }
                WindowFunction::NthValue => match arg.integer(1, place.row)? {
                    None => Ok(Datum::Null),
                    Some(number) if number <= 0 => Err(invalid(
                        "22016",
                        "argument of nth_value must be greater than zero",
                    )),
                    Some(number) => {
                        arg.nth(ranges, usize::try_from(number - 1).unwrap_or(usize::MAX))
                    }
                },
                _ => Ok(rank(*function, partition, place)),
            },
        }
    }
}

fn count(ranges: &Ranges) -> usize {
    ranges.iter().map(|(start, end)| end - start).sum()
}

/// Functions of a row's place alone.
fn rank(function: WindowFunction, partition: &Partition, place: &Place) -> Datum {
    let rank = partition.start_of(place.group);
    let rows = partition.len() as f64;
    match function {
        WindowFunction::RowNumber => Datum::Int8(place.row as i64 + 1),
        WindowFunction::Rank => Datum::Int8(rank as i64 + 1),
        WindowFunction::DenseRank => Datum::Int8(place.group as i64 + 1),
        WindowFunction::PercentRank if partition.len() <= 1 => Datum::Float8(0.0),
        WindowFunction::PercentRank => Datum::Float8(rank as f64 / (rows - 1.0)),
        WindowFunction::CumeDist => {
            Datum::Float8(partition.start_of(place.group + 1) as f64 / rows)
        }
        _ => Datum::Null,
    }
}

struct Args<'a> {
    call: &'a WindowCall,
    partition: &'a Partition,
    place: &'a Place,
    cx: &'a Cx,
}

impl Args<'_> {
    /// An argument's value for a row; NULL if it is not given.
    fn value(&self, number: usize, row: usize) -> ExecResult<Datum> {
        match self.call.args.get(number) {
            Some(program) => self.partition.eval(program, row, self.cx),
            None => Ok(Datum::Null),
        }
    }

    fn integer(&self, number: usize, row: usize) -> ExecResult<Option<i64>> {
        match self.value(number, row)? {
            Datum::Null => Ok(None),
            Datum::Int2(n) => Ok(Some(i64::from(n))),
            Datum::Int4(n) => Ok(Some(i64::from(n))),
            Datum::Int8(n) => Ok(Some(n)),
            _ => Err(ExecError::plan("an argument that is not an integer")),
        }
    }

    /// The first buckets have a row more where they cannot all have the same number.
    fn ntile(&self, buckets: &mut Option<i64>) -> ExecResult<Datum> {
        if buckets.is_none() {
            *buckets = self.integer(0, self.place.row)?;
        }
        let Some(buckets) = *buckets else {
            return Ok(Datum::Null);
        };
        let Some(buckets) = usize::try_from(buckets).ok().filter(|buckets| *buckets > 0) else {
            let message = "argument of ntile must be greater than zero";
            return Err(invalid("22014", message));
        };
        let (rows, row) = (self.partition.len(), self.place.row);
        let (each, more) = (rows / buckets, rows % buckets);
        let larger = more * (each + 1);
        let bucket = if row < larger {
            row / (each + 1)
        } else {
            more + (row - larger) / each.max(1)
        };
        Ok(Datum::Int4(i32::try_from(bucket + 1).unwrap_or(i32::MAX)))
    }

    /// `lag` and `lead`: the value of another row of the partition.
    fn shifted(&self, forward: bool) -> ExecResult<Datum> {
        let row = self.place.row;
        let offset = if self.call.args.len() > 1 {
            match self.integer(1, row)? {
                Some(offset) => offset,
                None => return Ok(Datum::Null),
            }
        } else {
            1
        };
        let offset = if forward { offset } else { -offset };
        let wanted = i64::try_from(row).unwrap_or(i64::MAX).checked_add(offset);
        let wanted = wanted.and_then(|wanted| usize::try_from(wanted).ok());
        match wanted.filter(|wanted| *wanted < self.partition.len()) {
            Some(wanted) => self.value(0, wanted),
            None => self.value(2, row),
        }
    }

    /// The value of the frame's row of this number, from 0; NULL if it has not so many.
    fn nth(&self, ranges: &Ranges, mut number: usize) -> ExecResult<Datum> {
        for (start, end) in ranges {
            if number < end - start {
                return self.value(0, start + number);
            }
            number -= end - start;
        }
        Ok(Datum::Null)
    }

    /// Adds a row to an aggregate's state, or takes it out; false when that cannot be done.
    fn change(&self, state: &mut dyn Accumulator, row: usize, add: bool) -> ExecResult<bool> {
        let cx = self.cx;
        // A raised cancel flag ends it; the row is handed over before it gives way.
        cx.over(1)?;
        let args = self.partition.with_row(row, |values| {
            if let Some(filter) = &self.call.filter
                && cx.eval(filter, values)? != Datum::Bool(true)
            {
                return Ok(None);
            }
            let args = self.call.args.iter().map(|arg| cx.eval(arg, values));
            args.collect::<ExecResult<Vec<_>>>().map(Some)
        })?;
        let Some(args) = args else {
            return Ok(true);
        };
        let session = cx.env.session.as_ref();
        if add {
            state.add(&args, session)?;
            return Ok(true);
        }
        Ok(state.remove(&args, session)?)
    }

    fn aggregate(
        &self,
        new: NewAccumulator,
        running: &mut Option<Running>,
        ranges: &Ranges,
    ) -> ExecResult<Datum> {
        if let Some(running) = running
            && running.ranges == *ranges
            && let Some(value) = &running.value
        {
            return Ok(value.clone());
        }
        let moved = match running {
            Some(running) => self.move_on(running, ranges)?,
            None => false,
        };
        if !moved {
            let mut state = new(&AggregateTypes {
                args: &self.call.arg_types,
                result: self.call.result,
            });
            for row in ranges.iter().flat_map(|(start, end)| *start..*end) {
                self.change(state.as_mut(), row, true)?;
            }
            *running = Some(Running {
                state,
                ranges: ranges.clone(),
                value: None,
            });
        }
        let Some(running) = running else {
            return Ok(Datum::Null);
        };
        let value = running.state.value(self.cx.env.session.as_ref())?;
        running.value = Some(value.clone());
        Ok(value)
    }

    /// Moves a state on to a frame that lies behind its own and overlaps it; false when that
    /// cannot be done.
    fn move_on(&self, running: &mut Running, ranges: &Ranges) -> ExecResult<bool> {
        let (&[(old_start, old_end)], &[(start, end)]) =
            (running.ranges.as_slice(), ranges.as_slice())
        else {
            return Ok(false);
        };
        if start < old_start || end < old_end || start >= old_end {
            return Ok(false);
        }
        for row in old_start..start {
            if !self.change(running.state.as_mut(), row, false)? {
                return Ok(false);
            }
        }
        for row in old_end..end {
            self.change(running.state.as_mut(), row, true)?;
        }
        running.ranges = ranges.clone();
        Ok(true)
    }
}
