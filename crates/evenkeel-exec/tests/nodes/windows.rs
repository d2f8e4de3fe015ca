//! Window functions and aggregates over every kind of frame, against a model that looks at all
//! rows for each row.

use evenkeel_expr::call::Session;
use evenkeel_expr::proc::{Accumulator, ArgType, Proc, ProcKind, Volatility, WindowFunction};
use evenkeel_expr::program::Program;
use evenkeel_planner::ast::{FrameExclude, FrameUnit};
use evenkeel_planner::plan::{Frame, FrameBound, Node, NodeKind, WindowCall};
use evenkeel_types::{Datum, SqlType, TypeResult};
use proptest::prelude::*;

use crate::common::*;
use crate::flow::model_order;

/// The rows' third columns, joined; those added first can be taken out.
struct Joined(Vec<i32>, bool);

impl Accumulator for Joined {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        if let Datum::Int4(value) = args[0] {
            self.0.push(value);
        }
        Ok(())
    }

    fn remove(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        if self.1
            && let Datum::Int4(value) = args[0]
        {
            assert_eq!(self.0.remove(0), value, "not the row that was added first");
        }
        Ok(self.1)
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(Datum::array(self.0.iter().copied().map(int).collect()))
    }

    fn bytes(&self) -> usize {
        0
    }
}

const fn window_proc(name: &'static str, kind: ProcKind) -> Proc {
    Proc {
        oid: 0,
        name,
        args: &[ArgType::Is(SqlType::Int4)],
        defaults: &[],
        variadic: false,
        result: ArgType::Is(SqlType::Int4),
        strict: false,
        volatility: Volatility::Immutable,
        kind,
        cost: 1.0,
    }
}

static MOVING: Proc = window_proc("m", ProcKind::Aggregate(|_| Box::new(Joined(vec![], true))));
static STIFF: Proc = window_proc(
    "s",
    ProcKind::Aggregate(|_| Box::new(Joined(vec![], false))),
);
static FUNCTIONS: [Proc; 11] = [
    window_proc("row_number", ProcKind::Window(WindowFunction::RowNumber)),
    window_proc("rank", ProcKind::Window(WindowFunction::Rank)),
    window_proc("dense_rank", ProcKind::Window(WindowFunction::DenseRank)),
    window_proc(
        "percent_rank",
        ProcKind::Window(WindowFunction::PercentRank),
    ),
    window_proc("cume_dist", ProcKind::Window(WindowFunction::CumeDist)),
    window_proc("ntile", ProcKind::Window(WindowFunction::Ntile)),
    window_proc("lag", ProcKind::Window(WindowFunction::Lag)),
    window_proc("lead", ProcKind::Window(WindowFunction::Lead)),
    window_proc("first_value", ProcKind::Window(WindowFunction::FirstValue)),
    window_proc("last_value", ProcKind::Window(WindowFunction::LastValue)),
    window_proc("nth_value", ProcKind::Window(WindowFunction::NthValue)),
];

fn window_call(proc: &'static Proc, args: Vec<Program>) -> WindowCall {
    WindowCall {
        proc,
        arg_types: vec![SqlType::Int4; args.len()],
        args,
        result: SqlType::Int4,
        filter: None,
    }
}

/// An end of a frame: rows from the current one, or none for unbounded.
#[derive(Debug, Clone, Copy)]
struct End(Option<i64>);

#[derive(Debug, Clone)]
struct Shape {
    unit: FrameUnit,
    start: End,
    end: End,
    exclude: FrameExclude,
    desc: bool,
    nulls_first: bool,
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let end = || prop::option::weighted(0.8, -3..4i64);
    let units = prop::sample::select(vec![FrameUnit::Rows, FrameUnit::Range, FrameUnit::Groups]);
    let excludes = prop::sample::select(vec![
        FrameExclude::NoOthers,
        FrameExclude::CurrentRow,
        FrameExclude::Group,
        FrameExclude::Ties,
    ]);
    let flags = (any::<bool>(), any::<bool>());
    (units, end(), end(), excludes, flags).prop_map(
        |(unit, start, end, exclude, (desc, nulls_first))| Shape {
            unit,
            start: End(start),
            end: End(end),
            exclude,
            desc,
            nulls_first,
        },
    )
}

impl Shape {
    fn bound(&self, end: End, start: bool) -> FrameBound {
        let Some(count) = end.0 else {
            return if start {
                FrameBound::UnboundedPreceding
            } else {
                FrameBound::UnboundedFollowing
            };
        };
        let range = self.unit == FrameUnit::Range;
        let offset = if range {
            Datum::Int4(count.unsigned_abs() as i32)
        } else {
            Datum::Int8(count.abs())
        };
        let test = |forward: bool| {
            let proc = if forward != self.desc { PLUS } else { MINUS };
            range.then(|| call(proc, slot(0), slot(1)))
        };
        match count {
            0 => FrameBound::CurrentRow,
            ..0 => FrameBound::Preceding(Program::Const(offset), test(false)),
            _ => FrameBound::Following(Program::Const(offset), test(true)),
        }
    }

    /// The rows of the frame of row `at` of a partition in order.
    fn rows(&self, rows: &[Row], at: usize) -> Vec<usize> {
        let peer = |a: usize, b: usize| rows[a][1].compare(&rows[b][1]).is_eq();
        let mut groups = vec![0i64];
        for row in 1..rows.len() {
            groups.push(groups[row - 1] + i64::from(!peer(row - 1, row)));
        }
        let number = |row: usize| match rows[row][1] {
            Datum::Int4(value) => Some(i64::from(if self.desc { -value } else { value })),
            _ => None,
        };
        let inside = |row: usize, end: End, start: bool| -> bool {
            let Some(count) = end.0 else {
                return true;
            };
            let distance = match self.unit {
                FrameUnit::Rows => row as i64 - at as i64,
                FrameUnit::Groups => groups[row] - groups[at],
                FrameUnit::Range if count == 0 => groups[row] - groups[at],
                FrameUnit::Range => match (number(row), number(at)) {
                    (Some(a), Some(b)) => a - b,
                    (None, None) => count,
                    // By the order: an unbounded other end reaches them.
                    (None, Some(_)) | (Some(_), None) => {
                        if row < at {
                            i64::MIN
                        } else {
                            i64::MAX
                        }
                    }
                },
            };
            if start {
                distance >= count
            } else {
                distance <= count
            }
        };
        (0..rows.len())
            .filter(|row| inside(*row, self.start, true) && inside(*row, self.end, false))
            .filter(|row| match self.exclude {
                FrameExclude::NoOthers => true,
                FrameExclude::CurrentRow => *row != at,
                FrameExclude::Group => !peer(*row, at),
                FrameExclude::Ties => *row == at || !peer(*row, at),
            })
            .collect()
    }
}

fn window(rows: &[Row], shape: &Shape, functions: Vec<WindowCall>) -> Node {
    let width = 3 + functions.len();
    node(
        NodeKind::Window {
            child: Box::new(values(rows, 3)),
            partition: vec![0],
            order: vec![key(1, shape.desc, shape.nulls_first)],
            frame: Frame {
                unit: shape.unit,
                start: shape.bound(shape.start, true),
                end: shape.bound(shape.end, false),
                exclude: shape.exclude,
            },
            functions,
        },
        width,
    )
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let value = || prop_oneof![1 => Just(None), 5 => (-3..6i32).prop_map(Some)];
    let row = (0..2i32, value(), 0..100i32);
    let row = row.prop_map(|(a, b, c)| ints(&[Some(a), b, Some(c)]));
    prop::collection::vec(row, 0..25)
}

/// Rows in the order of partition and order, and each partition's place.
fn in_order(mut rows: Vec<Row>, shape: &Shape) -> (Vec<Row>, Vec<(usize, usize)>) {
    let keys = [key(0, false, false), key(1, shape.desc, shape.nulls_first)];
    rows.sort_by(|a, b| model_order(a, b, &keys));
    let split = rows.partition_point(|row| row[0].compare(&int(1)).is_lt());
    let places = vec![(0, split), (split, rows.len())];
    (rows, places)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn aggregates_take_in_the_rows_of_their_frames(rows in any_rows(), shape in any_shape()) {
        let fixture = Fixture::new();
        let (rows, partitions) = in_order(rows, &shape);
        let filtered = WindowCall {
            filter: Some(less(slot(2), constant(50))),
            ..window_call(&MOVING, vec![slot(2)])
        };
        let functions = vec![
            window_call(&MOVING, vec![slot(2)]),
            window_call(&STIFF, vec![slot(2)]),
            filtered,
            window_call(&FUNCTIONS[8], vec![slot(2)]),
            window_call(&FUNCTIONS[9], vec![slot(2)]),
            window_call(&FUNCTIONS[10], vec![slot(2), constant(2)]),
        ];
        let mut expected = Vec::new();
        for (start, end) in partitions {
            let part = &rows[start..end];
            for at in 0..part.len() {
                let frame = shape.rows(part, at);
                let values: Vec<Datum> = frame.iter().map(|row| part[*row][2].clone()).collect();
                let small = values.iter().filter(|value| value.compare(&int(50)).is_lt());
                let mut row = part[at].clone();
                row.push(Datum::array(values.clone()));
                row.push(Datum::array(values.clone()));
                row.push(Datum::array(small.cloned().collect()));
                row.push(values.first().cloned().unwrap_or(Datum::Null));
                row.push(values.last().cloned().unwrap_or(Datum::Null));
                row.push(values.get(1).cloned().unwrap_or(Datum::Null));
                expected.push(row);
            }
        }
        let found = fixture.ordered(plan(window(&rows, &shape, functions)));
        prop_assert_eq!(texts(&found), texts(&expected));
    }

    #[test]
    fn ranks_and_shifts_look_at_the_partition(
        rows in any_rows(), shape in any_shape(), buckets in 1..6i32, shift in -3..4i32,
    ) {
        let fixture = Fixture::new();
        let (rows, partitions) = in_order(rows, &shape);
        let plain = FUNCTIONS[..5].iter().map(|proc| window_call(proc, vec![]));
        let mut functions: Vec<WindowCall> = plain.collect();
        functions.push(window_call(&FUNCTIONS[5], vec![constant(buckets)]));
        functions.push(window_call(&FUNCTIONS[6], vec![slot(2), constant(shift), constant(-1)]));
        functions.push(window_call(&FUNCTIONS[7], vec![slot(2)]));
        let mut expected = Vec::new();
        for (start, end) in partitions {
            let part = &rows[start..end];
            let n = part.len();
            for at in 0..n {
                let peer = |row: usize| part[row][1].compare(&part[at][1]).is_eq();
                let first = (0..n).find(|row| peer(*row)).unwrap();
                let last = (0..n).rfind(|row| peer(*row)).unwrap();
                let mut distinct: Vec<String> = part[..=at].iter().map(|row| format!("{:?}", row[1])).collect();
                distinct.dedup();
                let buckets = buckets as usize;
                let bucket = (0..buckets).flat_map(|b| {
                    std::iter::repeat_n(b, n / buckets + usize::from(b < n % buckets))
                }).nth(at).unwrap();
                let shifted = at as i64 - i64::from(shift);
                let shifted = usize::try_from(shifted).ok().and_then(|row| part.get(row));
                let percent = if n <= 1 { 0.0 } else { first as f64 / (n as f64 - 1.0) };
                let mut row = part[at].clone();
                row.extend([
                    Datum::Int8(at as i64 + 1),
                    Datum::Int8(first as i64 + 1),
                    Datum::Int8(distinct.len() as i64),
                    Datum::Float8(percent),
                    Datum::Float8((last + 1) as f64 / n as f64),
                    Datum::Int4(bucket as i32 + 1),
                    shifted.map_or(int(-1), |row| row[2].clone()),
                    part.get(at + 1).map_or(Datum::Null, |row| row[2].clone()),
                ]);
                expected.push(row);
            }
        }
        let found = fixture.ordered(plan(window(&rows, &shape, functions)));
        prop_assert_eq!(texts(&found), texts(&expected));
    }
}

#[test]
fn offsets_that_are_null_or_negative_are_refused() {
    let fixture = Fixture::new();
    let rows = [ints(&[Some(1), Some(2), Some(3)])];
    for (offset, state) in [(Datum::Null, "22004"), (Datum::Int8(-1), "22013")] {
        let root = node(
            NodeKind::Window {
                child: Box::new(values(&rows, 3)),
                partition: vec![],
                order: vec![key(1, false, false)],
                frame: Frame {
                    unit: FrameUnit::Rows,
                    start: FrameBound::Preceding(Program::Const(offset), None),
                    end: FrameBound::CurrentRow,
                    exclude: FrameExclude::NoOthers,
                },
                functions: vec![window_call(&STIFF, vec![slot(2)])],
            },
            4,
        );
        assert_eq!(fixture.error(plan(root)), state);
    }
}
