//! The running states of one group's aggregates.

use std::ops::Range;
use std::sync::Arc;

use evenkeel_expr::proc::{
    Accumulator, AggregateTypes, ArgRows, OrderedColumn, OrderedInput, ProcKind,
};
use evenkeel_expr::program::Program;
use evenkeel_planner::plan::{Aggregate, SortColumn};
use evenkeel_types::{Datum, SqlType};
use smallvec::SmallVec;

use crate::batch::{Batch, take};
use crate::context::Cx;
use crate::error::{ExecError, ExecResult};
use crate::hash_index::HashIndex;
use crate::key::{HashSeed, same, same_keys};
use crate::sorter::Sorter;

/// Rows that are fed between two looks at the clock.
const FEED: usize = 256;

/// One aggregate of one group.
enum State {
    /// Takes rows as they come.
    Running(Box<dyn Accumulator>),
    /// Gathers rows that are to be sorted: arguments, then the columns of the order.
    Gathering(Sorter, Option<Box<Seen>>),
    /// Takes rows that have been sorted.
    Feeding(Box<dyn Accumulator>, Sorter, Option<Vec<Datum>>),
}

/// Values that an aggregate of DISTINCT ones has taken in: the sorter need not see them again. It
/// is given up where most values are new.
struct Seen {
    seed: HashSeed,
    index: HashIndex,
    /// One after the other.
    values: Vec<Datum>,
    rows: usize,
}

impl Seen {
    /// Most values that are kept.
    const MOST: usize = 1024;
    /// Values that are equal are the same only with these types, so that it makes no difference
    /// which one is taken in.
    fn fits(aggregate: &Aggregate) -> bool {
        let exact = |ty: &SqlType| {
            matches!(
                ty,
                SqlType::Bool
                    | SqlType::Int2
                    | SqlType::Int4
                    | SqlType::Int8
                    | SqlType::Date
                    | SqlType::Timestamp(_)
                    | SqlType::Timestamptz(_)
                    | SqlType::Uuid
            )
        };
        aggregate.distinct
            && aggregate.order_by.is_empty()
            && aggregate.args.len() == 1
            && aggregate.arg_types.iter().all(exact)
    }

    fn new() -> Box<Seen> {
        Box::new(Seen {
            seed: HashSeed::new(),
            index: HashIndex::default(),
            values: Vec::new(),
            rows: 0,
        })
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<Datum>() + self.index.len() * HashIndex::ROW_BYTES
    }

    /// Whether the value was there before.
    fn has(&mut self, value: &Datum) -> bool {
        self.rows += 1;
        let hash = self.seed.hash([value]);
        let values = &self.values;
        if self
            .index
            .find(hash, |at| same(&values[at], value))
            .is_some()
        {
            return true;
        }
        if self.index.len() < Self::MOST {
            self.index.insert(hash);
            self.values.push(value.clone());
        }
        false
    }

    /// Whether it saves less than it costs.
    fn is_useless(&self) -> bool {
        self.index.len() == Self::MOST && self.rows < 4 * Self::MOST
    }
}

/// The aggregates of one group.
pub(crate) struct Group {
    states: Box<[State]>,
}

fn types(aggregate: &Aggregate) -> AggregateTypes<'_> {
    AggregateTypes {
        args: &aggregate.arg_types,
        result: aggregate.result,
    }
}

/// The slots of a row that are the arguments as they are.
fn own_args(aggregate: &Aggregate) -> Option<Range<usize>> {
    match aggregate.args.as_slice() {
        [] => Some(0..0),
        [Program::Slot(slot)] => Some(*slot..slot + 1),
        _ => None,
    }
}

/// Whether the rows of a group are sorted before they are taken in.
fn sorts(aggregate: &Aggregate) -> bool {
    aggregate.distinct
        || !aggregate.order_by.is_empty()
        || !matches!(aggregate.proc.kind, ProcKind::Aggregate(_))
}

/// The order in which rows are taken in; of those that are equal by all arguments, with DISTINCT,
/// one follows the other.
fn order(aggregate: &Aggregate) -> Arc<[SortColumn]> {
    let args = aggregate.args.len();
    let asked = aggregate.order_by.iter().enumerate();
    let asked = asked.map(|(number, (_, desc, nulls_first))| SortColumn {
        slot: args + number,
        desc: *desc,
        nulls_first: *nulls_first,
    });
    let distinct = if aggregate.distinct { args } else { 0 };
    let distinct = (0..distinct).map(|slot| SortColumn {
        slot,
        desc: false,
        nulls_first: false,
    });
    asked.chain(distinct).collect()
}

impl State {
    fn new(aggregate: &Aggregate, cx: &Cx) -> ExecResult<State> {
        if sorts(aggregate) {
            let width = aggregate.args.len() + aggregate.order_by.len();
            let seen = Seen::fits(aggregate).then(Seen::new);
            return Ok(State::Gathering(
                Sorter::new(width, order(aggregate), cx),
                seen,
            ));
        }
        match aggregate.proc.kind {
            ProcKind::Aggregate(new) => Ok(State::Running(new(&types(aggregate)))),
            _ => Err(ExecError::plan("an aggregate that is none")),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            State::Running(state) | State::Feeding(state, ..) => state.bytes(),
            // The sorter is accounted by itself.
            State::Gathering(_, seen) => seen.as_ref().map_or(0, |seen| seen.bytes()),
        }
    }

    fn add(
        &mut self,
        aggregate: &Aggregate,
        row: &[Datum],
        args: &mut Vec<Datum>,
        cx: &Cx,
    ) -> ExecResult<()> {
        if let State::Running(state) = self {
            // Without a copy of the row's value.
            let own = own_args(aggregate).and_then(|own| row.get(own));
            if let Some(own) = own {
                return Ok(state.add(own, cx.env.session.as_ref())?);
            }
        }
        args.clear();
        for arg in &aggregate.args {
            args.push(cx.eval(arg, row)?);
        }
        match self {
            State::Running(state) => Ok(state.add(args, cx.env.session.as_ref())?),
            State::Gathering(sorter, seen) => {
                if let (Some(known), [value]) = (seen.as_mut(), args.as_slice()) {
                    if known.has(value) {
                        return Ok(());
                    }
                    if known.is_useless() {
                        *seen = None;
                    }
                }
                let ordered_set = matches!(aggregate.proc.kind, ProcKind::OrderedSet(..));
                if ordered_set && args.iter().any(Datum::is_null) {
                    return Ok(());
                }
                for (key, _, _) in &aggregate.order_by {
                    args.push(cx.eval(key, row)?);
                }
                sorter.push(args)?;
                // A row goes to several states, and to each once: none gives way in between.
                sorter.settle_all(cx)
            }
            State::Feeding(..) => Err(ExecError::plan("a row behind the last")),
        }
    }

    /// Begins to feed sorted rows.
    fn begin(sorter: Sorter, aggregate: &Aggregate, group: &[Datum], cx: &Cx) -> ExecResult<State> {
        let types = types(aggregate);
        let state = match aggregate.proc.kind {
            ProcKind::Aggregate(new) => new(&types),
            ProcKind::OrderedSet(new, _) | ProcKind::HypotheticalSet(new) => {
                let direct: ExecResult<Vec<Datum>> = aggregate
                    .direct
                    .iter()
                    .map(|direct| cx.eval(direct, group))
                    .collect();
                let order = aggregate.order_by.iter();
                let order: Vec<OrderedColumn> = order
                    .map(|(_, desc, nulls_first)| OrderedColumn {
                        desc: *desc,
                        nulls_first: *nulls_first,
                    })
                    .collect();
                let input = OrderedInput {
                    direct: &direct?,
                    rows: sorter.count(),
                    order: &order,
                };
                new(&types, &input)?
            }
            _ => return Err(ExecError::plan("an aggregate that is none")),
        };
        Ok(State::Feeding(state, sorter, None))
    }

    /// Feeds sorted rows; false when it gives way before the last.
    fn feed(&mut self, aggregate: &Aggregate, cx: &Cx) -> ExecResult<bool> {
        let State::Feeding(state, sorter, last) = self else {
            return Ok(true);
        };
        let args = aggregate.args.len();
        let mut row = Batch::new(args + aggregate.order_by.len());
        loop {
            for _ in 0..FEED {
                row.reset(row.width());
                if !sorter.next(&mut row)? {
                    return Ok(true);
                }
                let values = &row.row(0)[..args];
                if aggregate.distinct {
                    if last.as_ref().is_some_and(|last| same_keys(last, values)) {
                        continue;
                    }
                    *last = Some(values.to_vec());
                }
                state.add(values, cx.env.session.as_ref())?;
            }
            if cx.over(FEED)? {
                return Ok(false);
            }
        }
    }
}

impl Group {
    /// A group without rows.
    pub fn new(aggregates: &[Aggregate], cx: &Cx) -> ExecResult<Group> {
        let states = aggregates.iter().map(|aggregate| State::new(aggregate, cx));
        Ok(Group {
            states: states.collect::<ExecResult<_>>()?,
        })
    }

    /// Bytes that the states hold.
    pub fn bytes(&self) -> usize {
        let each = self.states.iter().map(State::bytes);
        each.sum::<usize>() + self.states.len() * size_of::<State>()
    }

    /// Takes in a row of the child; `args` is memory to use.
    pub fn add(
        &mut self,
        aggregates: &[Aggregate],
        row: &[Datum],
        args: &mut Vec<Datum>,
        cx: &Cx,
    ) -> ExecResult<()> {
        (0..self.states.len()).try_for_each(|at| self.add_to(at, aggregates, row, args, cx))
    }

    /// Takes in rows of the child from `at` on. An aggregate of the rows' own values gets all at
    /// once; the others are evaluated row by row.
    pub fn add_all(
        &mut self,
        aggregates: &[Aggregate],
        (rows, at): (&Batch, usize),
        args: &mut Vec<Datum>,
        cx: &Cx,
    ) -> ExecResult<()> {
        let mut others = SmallVec::<[usize; 4]>::new();
        for (number, (state, aggregate)) in self.states.iter_mut().zip(aggregates).enumerate() {
            let own = own_args(aggregate).filter(|_| aggregate.filter.is_none());
            let own = own.and_then(|own| {
                ArgRows::new(rows.values_from(at), rows.width(), rows.len() - at, own)
            });
            match (state, own) {
                (State::Running(state), Some(own)) => {
                    state.add_rows(&own, cx.env.session.as_ref())?;
                }
                _ => others.push(number),
            }
        }
        if others.is_empty() {
            return Ok(());
        }
        for row in (at..rows.len()).map(|at| rows.row(at)) {
            for number in &others {
                self.add_to(*number, aggregates, row, args, cx)?;
            }
        }
        Ok(())
    }

    fn add_to(
        &mut self,
        number: usize,
        aggregates: &[Aggregate],
        row: &[Datum],
        args: &mut Vec<Datum>,
        cx: &Cx,
    ) -> ExecResult<()> {
        let (Some(state), Some(aggregate)) = (self.states.get_mut(number), aggregates.get(number))
        else {
            return Ok(());
        };
        if let Some(filter) = &aggregate.filter
            && cx.eval(filter, row)? != Datum::Bool(true)
        {
            return Ok(());
        }
        state.add(aggregate, row, args, cx)
    }

    /// Ends taking in rows; false when it gives way before that. `group` is the raw row's
    /// grouped columns.
    pub fn settle(
        &mut self,
        aggregates: &[Aggregate],
        group: &[Datum],
        cx: &Cx,
    ) -> ExecResult<bool> {
        for (state, aggregate) in self.states.iter_mut().zip(aggregates) {
            if let State::Gathering(sorter, _) = state {
                if !sorter.finish(cx)? {
                    return Ok(false);
                }
                let none = Sorter::new(0, Arc::new([]), cx);
                let sorter = std::mem::replace(sorter, none);
                *state = State::begin(sorter, aggregate, group, cx)?;
            }
            if !state.feed(aggregate, cx)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends the values of a settled group.
    pub fn finish(self, cx: &Cx, out: &mut Batch) -> ExecResult<()> {
        for state in self.states {
            match state {
                State::Running(state) | State::Feeding(state, ..) => {
                    out.push_value(state.finish(cx.env.session.as_ref())?);
                }
                State::Gathering(..) => return Err(ExecError::plan("a group that is not settled")),
            }
        }
        Ok(())
    }
}

/// The grouped columns of a row, in the order of the raw row.
pub(super) fn grouped(row: &[Datum], group: &[usize]) -> ExecResult<Vec<Datum>> {
    let column = |slot: &usize| row.get(*slot).cloned();
    let values = group.iter().map(column).collect::<Option<Vec<_>>>();
    values.ok_or_else(|| ExecError::plan("a grouped column beyond its row"))
}

/// Appends a group's raw row: grouped columns, aggregates, and with grouping sets the number of
/// its set.
pub(super) fn push_group(
    values: &mut [Datum],
    group: Group,
    set: Option<i32>,
    cx: &Cx,
    out: &mut Batch,
) -> ExecResult<()> {
    for value in values {
        out.push_value(take(value));
    }
    group.finish(cx, out)?;
    if let Some(set) = set {
        out.push_value(Datum::Int4(set));
    }
    out.end_row();
    Ok(())
}
