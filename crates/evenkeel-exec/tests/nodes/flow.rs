//! Rows without tables, limits, sorts, and subplans.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::memory::ServerMemory;
use evenkeel_exec::{Batch, ExecError, Execution, Limits, Measure, Step, Wait};
use evenkeel_expr::call::Session;
use evenkeel_expr::proc::{ArgType, Proc, ProcKind, Rows, Volatility};
use evenkeel_expr::proc_by_oid;
use evenkeel_expr::program::{CallNode, Program, SubplanKind, SubplanNode};
use evenkeel_planner::plan::{
    JoinType, Node, NodeKind, Plan, SetCall, SetItem, SortColumn, Subplan, SubplanUse,
};
use evenkeel_types::{Datum, SqlType, TypeError, TypeResult};
use proptest::prelude::*;

use crate::common::*;

pub fn limit(
    child: Node,
    offset: Option<Datum>,
    count: Option<Datum>,
    ties: Option<Vec<SortColumn>>,
) -> Node {
    let width = child.width;
    node(
        NodeKind::Limit {
            child: Box::new(child),
            offset: offset.map(Program::Const),
            count: count.map(Program::Const),
            ties,
        },
        width,
    )
}

pub fn sort(child: Node, keys: Vec<SortColumn>, presorted: usize) -> Node {
    let width = child.width;
    node(
        NodeKind::Sort {
            child: Box::new(child),
            keys,
            presorted,
            bounded: true,
        },
        width,
    )
}

fn numbers(count: i32) -> Vec<Row> {
    (0..count).map(|n| ints(&[Some(n)])).collect()
}

#[test]
fn nothing_is_evaluated_beyond_a_limit() {
    let fixture = Fixture::new();
    let rows: Vec<Row> = [5, 2, 1, 0, 7].map(|n| ints(&[Some(n)])).to_vec();
    let divided = values(&rows, 1);
    let project = |child: Node| {
        let child = Box::new(child);
        node(NodeKind::Project { child }, 1)
            .filter(less(constant(-1), slot(0)))
            .project(vec![call(DIVIDE, constant(10), slot(0))])
    };
    let three = limit(project(divided), None, Some(Datum::Int8(3)), None);
    assert_eq!(
        texts(&fixture.ordered(plan(three))),
        texts(&[
            [2].map(int).to_vec(),
            [5].map(int).to_vec(),
            [10].map(int).to_vec()
        ])
    );
    let four = limit(project(values(&rows, 1)), None, Some(Datum::Int8(4)), None);
    assert_eq!(fixture.error(plan(four)), "22012");
}

#[test]
fn limits_that_are_null_do_not_limit_and_negative_ones_are_refused() {
    let fixture = Fixture::new();
    let all = |offset, count| limit(values(&numbers(5), 1), offset, count, None);
    let null = || Some(Datum::Null);
    assert_eq!(fixture.rows(plan(all(null(), null()))).len(), 5);
    assert_eq!(fixture.rows(plan(all(Some(Datum::Int8(3)), None))).len(), 2);
    assert_eq!(fixture.rows(plan(all(Some(Datum::Int8(9)), None))).len(), 0);
    assert_eq!(fixture.rows(plan(all(None, Some(Datum::Int8(0))))).len(), 0);
    assert_eq!(
        fixture.error(plan(all(None, Some(Datum::Int8(-1))))),
        "2201W"
    );
    assert_eq!(
        fixture.error(plan(all(Some(Datum::Int8(-1)), None))),
        "2201X"
    );
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let value = || prop_oneof![1 => Just(None), 5 => (-2..4i32).prop_map(Some)];
    let row = (value(), value());
    prop::collection::vec(row.prop_map(|(a, b)| ints(&[a, b])), 0..60)
}

fn any_key(slot: usize) -> impl Strategy<Value = SortColumn> {
    (any::<bool>(), any::<bool>()).prop_map(move |(desc, nulls_first)| key(slot, desc, nulls_first))
}

pub fn model_order(a: &Row, b: &Row, keys: &[SortColumn]) -> std::cmp::Ordering {
    for key in keys {
        let (a, b) = (&a[key.slot], &b[key.slot]);
        let order = match (a.is_null(), b.is_null()) {
            (true, true) => std::cmp::Ordering::Equal,
            (true, false) if key.nulls_first => std::cmp::Ordering::Less,
            (true, false) => std::cmp::Ordering::Greater,
            (false, true) if key.nulls_first => std::cmp::Ordering::Greater,
            (false, true) => std::cmp::Ordering::Less,
            (false, false) if key.desc => b.compare(a),
            (false, false) => a.compare(b),
        };
        if order.is_ne() {
            return order;
        }
    }
    std::cmp::Ordering::Equal
}

fn is_ordered(rows: &[Row], keys: &[SortColumn]) -> bool {
    rows.windows(2)
        .all(|pair| model_order(&pair[0], &pair[1], keys).is_le())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn a_sort_gives_all_rows_in_order(
        rows in any_rows(), a in any_key(0), b in any_key(1), presorted in any::<bool>(),
    ) {
        let fixture = Fixture::new();
        let mut input = rows.clone();
        if presorted {
            input.sort_by(|x, y| model_order(x, y, &[a]));
        }
        let root = sort(values(&input, 2), vec![a, b], usize::from(presorted));
        let found = fixture.ordered(plan(root));
        prop_assert_eq!(sorted(&found), sorted(&rows));
        prop_assert!(is_ordered(&found, &[a, b]));
    }

    #[test]
    fn a_limit_over_a_sort_keeps_the_first_and_those_that_tie(
        rows in any_rows(), a in any_key(0), b in any_key(1),
        offset in 0..20usize, count in 0..20usize, ties in any::<bool>(),
    ) {
        let fixture = Fixture::new();
        let mut model = rows.clone();
        model.sort_by(|x, y| model_order(x, y, &[a, b]));
        let end = (offset + count).min(model.len());
        let mut expected: Vec<Row> = model.iter().take(end).skip(offset).cloned().collect();
        if ties && count > 0 && !expected.is_empty() {
            let last = expected.last().unwrap().clone();
            let more = model[end..].iter().take_while(|row| model_order(row, &last, &[a]).is_eq());
            expected.extend(more.cloned());
        }
        let root = limit(
            sort(values(&rows, 2), vec![a, b], 0),
            Some(Datum::Int8(offset as i64)),
            Some(Datum::Int8(count as i64)),
            ties.then(|| vec![a]),
        );
        prop_assert_eq!(texts(&fixture.ordered(plan(root))), texts(&expected));
    }
}

#[test]
fn a_large_sort_in_little_memory_is_the_same_sort() {
    let fixture = Fixture::new();
    let rows: Vec<Row> = (0..3000)
        .map(|n: i32| ints(&[Some(n.wrapping_mul(48_271) % 1009), Some(n)]))
        .collect();
    let found = fixture.ordered(plan(sort(
        values(&rows, 2),
        vec![key(0, true, false), key(1, false, false)],
        0,
    )));
    assert_eq!(found.len(), 3000);
    assert!(is_ordered(
        &found,
        &[key(0, true, false), key(1, false, false)]
    ));
}

#[test]
fn a_limit_over_many_rows_keeps_the_first_of_them() {
    let fixture = Fixture::new();
    let rows: Vec<Row> = (0..20_000)
        .map(|n: i32| ints(&[Some(n.wrapping_mul(48_271) % 1009), Some(n)]))
        .collect();
    let keys = vec![key(0, false, false), key(1, true, false)];
    let mut expected = rows.clone();
    expected.sort_by(|x, y| model_order(x, y, &keys));
    for count in [1, 5, 700] {
        let root = sort(values(&rows, 2), keys.clone(), 0);
        let found = fixture.ordered(plan(limit(root, None, Some(Datum::Int8(count)), None)));
        assert_eq!(texts(&found), texts(&expected[..count as usize]));
    }
}

fn subplan(plan: usize, kind: SubplanKind, params: Vec<(usize, Program)>) -> Program {
    let params = params.into();
    Program::Subplan(Box::new(SubplanNode { plan, kind, params }))
}

/// A correlated subplan, one that is kept, and one that computes a parameter.
fn three_subplans() -> Vec<Subplan> {
    let inner = || values(&numbers(4), 1);
    let correlated = inner().filter(less(slot(0), Program::Exec(0)));
    vec![
        Subplan {
            root: correlated,
            kind: SubplanUse::PerRow,
            name: None,
        },
        Subplan {
            root: inner(),
            kind: SubplanUse::Kept,
            name: None,
        },
        Subplan {
            root: limit(inner(), Some(Datum::Int8(2)), Some(Datum::Int8(1)), None),
            kind: SubplanUse::Once {
                param: 2,
                exists: false,
                array: None,
            },
            name: None,
        },
    ]
}

#[test]
fn subplans_answer_per_row_once_and_from_what_is_kept() {
    let fixture = Fixture::new();
    let subplans = three_subplans();
    let test = equal(slot(0), Program::Exec(1));
    let root = values(
        &[
            ints(&[Some(0)]),
            ints(&[Some(2)]),
            ints(&[Some(9)]),
            ints(&[None]),
        ],
        1,
    )
    .project(vec![
        subplan(0, SubplanKind::Exists, vec![(0, slot(0))]),
        subplan(
            0,
            SubplanKind::Array(evenkeel_types::SqlType::Int4),
            vec![(0, slot(0))],
        ),
        subplan(
            1,
            SubplanKind::Any {
                columns: Box::new([1]),
                test: Box::new(test.clone()),
            },
            vec![],
        ),
        subplan(
            1,
            SubplanKind::All {
                columns: Box::new([1]),
                test: Box::new(Program::Not(Box::new(test))),
            },
            vec![],
        ),
        Program::Exec(2),
    ]);
    let found = fixture.ordered(plan_with(root, subplans, 3));
    let row = |exists: bool, array: &[i32], any: Option<bool>| -> Row {
        let array = Datum::array(array.iter().copied().map(int).collect());
        vec![
            exists.into(),
            array,
            any.into(),
            any.map(|any| !any).into(),
            int(2),
        ]
    };
    let expected = [
        row(false, &[], Some(true)),
        row(true, &[0, 1], Some(true)),
        row(true, &[0, 1, 2, 3], Some(false)),
        row(false, &[], None),
    ];
    assert_eq!(texts(&found), texts(&expected));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn in_by_a_hash_table_is_in_by_comparing(left in any_rows(), right in any_rows()) {
        let fixture = Fixture::new();
        let any = |plan: usize, test: Program| {
            let (columns, test) = (Box::from([0]), Box::new(test));
            subplan(plan, SubplanKind::Any { columns, test }, vec![])
        };
        let test = equal(slot(0), Program::Exec(0));
        // The same test in words that no hash table answers.
        let twice = Program::Not(Box::new(Program::Not(Box::new(test.clone()))));
        let subplans = vec![Subplan {
            root: values(&right, 2),
            kind: SubplanUse::Kept,
            name: None,
        }];
        let root = values(&left, 2).project(vec![any(0, test), any(0, twice)]);
        for row in fixture.ordered(plan_with(root, subplans, 1)) {
            prop_assert_eq!(format!("{:?}", row[0]), format!("{:?}", row[1]));
        }
    }
}

#[test]
fn a_scalar_subplan_with_two_rows_is_refused() {
    let fixture = Fixture::new();
    let root = values(&[ints(&[Some(3)])], 1).project(vec![subplan(
        0,
        SubplanKind::Scalar,
        vec![(0, slot(0))],
    )]);
    let two = vec![Subplan {
        root: values(&numbers(4), 1),
        kind: SubplanUse::PerRow,
        name: None,
    }];
    assert_eq!(fixture.error(plan_with(root, two, 1)), "21000");
}

#[test]
fn readers_of_a_common_table_expression_share_its_rows() {
    let fixture = Fixture::new();
    let cte = || node(NodeKind::CteScan { subplan: 0 }, 1);
    let inner = cte();
    let root = node(
        NodeKind::NestedLoop {
            outer: Box::new(cte()),
            inner: Box::new(inner),
            join: evenkeel_planner::plan::JoinType::Inner,
            params: vec![],
            condition: vec![less(slot(0), slot(1))],
        },
        2,
    );
    let subplans = vec![Subplan {
        root: values(&numbers(20), 1),
        kind: SubplanUse::Cte,
        name: None,
    }];
    assert_eq!(fixture.rows(plan_with(root, subplans, 0)).len(), 190);
}

/// `generate_series` from 1.
struct Series(i32, i32);

impl Rows for Series {
    fn next(&mut self, _session: &dyn Session, row: &mut Row) -> TypeResult<bool> {
        self.0 += 1;
        row.clear();
        row.push(int(self.0));
        Ok(self.0 <= self.1)
    }

    fn bytes(&self) -> usize {
        0
    }
}

static SERIES: Proc = Proc {
    oid: 0,
    name: "series",
    args: &[ArgType::Is(SqlType::Int4)],
    defaults: &[],
    variadic: false,
    result: ArgType::Is(SqlType::Int4),
    strict: true,
    volatility: Volatility::Immutable,
    kind: ProcKind::Set(
        |call| match call.arg(0) {
            Datum::Int4(end) => Ok(Box::new(Series(0, *end))),
            _ => Err(TypeError::internal("not an integer")),
        },
        &[],
    ),
    cost: 1.0,
};

fn series(end: Program) -> SetCall {
    SetCall {
        proc: &SERIES,
        args: vec![end],
        arg_types: vec![SqlType::Int4],
        columns: vec![SqlType::Int4],
    }
}

#[test]
fn functions_side_by_side_are_padded_with_null() {
    let fixture = Fixture::new();
    let calls = vec![
        series(constant(2)),
        series(constant(3)),
        series(Program::Const(Datum::Null)),
    ];
    let root = node(
        NodeKind::FunctionScan {
            calls,
            ordinality: true,
        },
        4,
    );
    let row = |a, b, n: i64| [ints(&[a, b, None]), vec![Datum::Int8(n)]].concat();
    let expected = [
        row(Some(1), Some(1), 1),
        row(Some(2), Some(2), 2),
        row(None, Some(3), 3),
    ];
    assert_eq!(texts(&fixture.ordered(plan(root))), texts(&expected));
}

#[test]
fn sets_in_a_select_list_run_in_lockstep() {
    let fixture = Fixture::new();
    let items = vec![
        SetItem::Value(slot(0)),
        SetItem::Set(series(slot(0))),
        SetItem::Set(series(constant(2))),
    ];
    let rows = [Some(3), Some(0), None, Some(1)].map(|n| ints(&[n]));
    let root = node(
        NodeKind::ProjectSet {
            child: Box::new(values(&rows, 1)),
            items,
        },
        3,
    );
    let expected = [
        [Some(3), Some(1), Some(1)],
        [Some(3), Some(2), Some(2)],
        [Some(3), Some(3), None],
        [Some(0), None, Some(1)],
        [Some(0), None, Some(2)],
        [None, None, Some(1)],
        [None, None, Some(2)],
        [Some(1), Some(1), Some(1)],
        [Some(1), None, Some(2)],
    ];
    let expected: Vec<Row> = expected.iter().map(|row| ints(row)).collect();
    assert_eq!(texts(&fixture.ordered(plan(root))), texts(&expected));
    let none = vec![SetItem::Set(series(slot(0)))];
    let root = node(
        NodeKind::ProjectSet {
            child: Box::new(values(&rows, 1)),
            items: none,
        },
        1,
    );
    assert_eq!(fixture.ordered(plan(root)).len(), 4);
}

#[test]
fn a_recursive_union_steps_until_nothing_is_added() {
    let fixture = Fixture::new();
    let edges = [(1, 2), (2, 3), (3, 1), (3, 4), (7, 8)];
    let edges: Vec<Row> = edges.map(|(a, b)| ints(&[Some(a), Some(b)])).to_vec();
    let working = || node(NodeKind::WorkingScan { union_id: 7 }, 1);
    // The hashed side is the working table: it changes with every step.
    let step = node(
        NodeKind::HashJoin {
            outer: Box::new(values(&edges, 2)),
            inner: Box::new(working()),
            join: evenkeel_planner::plan::JoinType::Inner,
            outer_keys: vec![slot(0)],
            inner_keys: vec![slot(0)],
            condition: vec![],
        },
        3,
    )
    .project(vec![slot(1)]);
    let union = |step: Node, all| {
        let (first, step) = (Box::new(values(&[ints(&[Some(1)])], 1)), Box::new(step));
        node(
            NodeKind::RecursiveUnion {
                union_id: 7,
                first,
                step,
                all,
            },
            1,
        )
    };
    let expected: Vec<Row> = [1, 2, 3, 4].map(|n| ints(&[Some(n)])).to_vec();
    assert_eq!(
        sorted(&fixture.rows(plan(union(step, false)))),
        sorted(&expected)
    );
    let count = working()
        .filter(less(slot(0), constant(500)))
        .project(vec![call(PLUS, slot(0), constant(1))]);
    assert_eq!(fixture.ordered(plan(union(count, true))).len(), 500);
}

#[test]
fn appended_children_that_are_in_order_can_be_merged() {
    let fixture = Fixture::new();
    let side = |first: i32| {
        let rows: Vec<Row> = (0..30).map(|n| ints(&[Some(first + n * 3)])).collect();
        values(&rows, 1)
    };
    let children = || vec![side(2), values(&[], 1), side(0), side(1)];
    let keys = vec![key(0, false, false)];
    let merged = node(
        NodeKind::MergeAppend {
            children: children(),
            keys,
        },
        1,
    );
    let expected: Vec<Row> = (0..90).map(|n| ints(&[Some(n)])).collect();
    assert_eq!(texts(&fixture.ordered(plan(merged))), texts(&expected));
    let appended = node(
        NodeKind::Append {
            children: children(),
        },
        1,
    );
    let found = fixture.ordered(plan(appended));
    assert_eq!(sorted(&found), sorted(&expected));
    assert_eq!(texts(&found[..1]), texts(&[ints(&[Some(2)])]));
}

#[test]
fn a_raised_cancel_flag_ends_an_execution_within_a_batch() {
    let fixture = Fixture::new();
    let working = || node(NodeKind::WorkingScan { union_id: 0 }, 1);
    let endless = || {
        let (first, step) = (Box::new(values(&numbers(1), 1)), Box::new(working()));
        node(
            NodeKind::RecursiveUnion {
                union_id: 0,
                first,
                step,
                all: true,
            },
            1,
        )
    };
    let never = endless().filter(Program::Const(Datum::Bool(false)));
    let key = key(0, false, false);
    for root in [never, sort(endless(), vec![key], 0)] {
        let env = fixture.environment(Default::default());
        let cancel = env.cancel.clone();
        let mut run = Execution::start(Arc::new(plan(root)), vec![], env).unwrap();
        let mut batch = Batch::default();
        for _ in 0..3 {
            let begun = std::time::Instant::now();
            assert_eq!(run.next(&mut batch).unwrap(), Step::Wait(Wait::Yield));
            assert!(begun.elapsed().as_secs() < 5);
        }
        cancel.cancel();
        let error = run.next(&mut batch).expect_err("cancelled");
        assert_eq!(error.sqlstate(), "57014");
    }
}

#[test]
fn an_execution_can_move_between_threads() {
    fn moves<T: Send>() {}
    moves::<Execution>();
}

#[test]
fn temporary_files_stay_within_their_limit() {
    let fixture = Fixture::new();
    let rows = numbers(3000);
    let root = Arc::new(plan(sort(values(&rows, 1), vec![key(0, true, false)], 0)));
    let limits = Limits {
        work_mem: 100,
        ..Limits::default()
    };
    let env = fixture.environment(limits);
    env.temp.quota().set_limit(Some(1000));
    let mut run = Execution::start(root, vec![], env).unwrap();
    let error = collect(&mut run)
        .map(|rows| rows.len())
        .expect_err("too many bytes");
    assert_eq!(error.sqlstate(), "53400");
}

#[test]
fn an_operator_that_cannot_spill_stays_within_the_sessions_memory() {
    let fixture = Fixture::new();
    let working = node(NodeKind::WorkingScan { union_id: 0 }, 1);
    let step = working.project(vec![call(PLUS, slot(0), constant(1))]);
    let (first, step) = (Box::new(values(&numbers(1), 1)), Box::new(step));
    let all = false;
    let endless = node(
        NodeKind::RecursiveUnion {
            union_id: 0,
            first,
            step,
            all,
        },
        1,
    );
    let mut env = fixture.environment(Limits::default());
    env.memory = ServerMemory::unlimited().session(1 << 20);
    let mut run = Execution::start(Arc::new(plan(endless)), vec![], env).unwrap();
    let error = collect(&mut run).expect_err("no more memory");
    assert_eq!(error.sqlstate(), "53200");
}

/// Rows with so many columns of a megabyte each.
fn megabytes(columns: usize) -> Node {
    let repeat = |_| {
        let args = [Program::Const(Datum::from("x")), constant(1 << 20)];
        Program::Call(Box::new(CallNode {
            proc: proc_by_oid(1622).unwrap(),
            args: args.into(),
            arg_types: [SqlType::Text, SqlType::Int4].into(),
            result: SqlType::Text,
            variadic_array: false,
            at: u32::MAX,
        }))
    };
    values(&numbers(300), 1).project((0..columns).map(repeat).collect())
}

#[test]
fn rows_of_large_values_need_the_memory_of_a_few() {
    let fixture = Fixture::new();
    let run = |columns| {
        let mut env = fixture.environment(Limits::default());
        env.memory = ServerMemory::unlimited().session(16 << 20);
        let mut run = Execution::start(Arc::new(plan(megabytes(columns))), vec![], env).unwrap();
        let (mut batch, mut rows) = (Batch::default(), 0);
        loop {
            match run.next(&mut batch)? {
                Step::Batch => rows += batch.len(),
                Step::Done => return Ok::<_, ExecError>(rows),
                Step::Wait(_) => {}
            }
        }
    };
    assert_eq!(run(2).unwrap(), 300);
    assert_eq!(run(20).unwrap_err().sqlstate(), "53200");
}

/// A nested loop whose inner side gives the two rows above the outer row's value.
fn measured_join(fixture: &Fixture) -> (Arc<Plan>, Vec<Measure>) {
    let numbers = numbers(4);
    let inner = values(&numbers, 1).filter(less(Program::Exec(0), slot(0)));
    let root = node(
        NodeKind::NestedLoop {
            outer: Box::new(values(&numbers, 1).filter(less(constant(0), slot(0)))),
            inner: Box::new(inner),
            join: JoinType::Inner,
            params: vec![(0, 0)],
            condition: vec![],
        },
        2,
    );
    let plan = Arc::new(plan_with(root, vec![], 1));
    let limits = Limits {
        interrupt: Some(11),
        batch: 2,
        ..Limits::default()
    };
    let env = fixture.environment(limits);
    let mut run = Execution::start_measured(Arc::clone(&plan), Vec::new(), env).unwrap();
    collect(&mut run).unwrap();
    let mut nodes = vec![&plan.root];
    nodes.extend(plan.root.children());
    let measures = nodes.iter().map(|node| run.measure(node).unwrap());
    let measures = measures.collect();
    (plan, measures)
}

#[test]
fn an_operator_that_is_measured_counts_its_runs_and_rows() {
    let fixture = Fixture::new();
    let (_plan, measures) = measured_join(&fixture);
    let counts = measures.iter().map(|m| (m.loops, m.rows, m.removed));
    // Of 0 to 3 the outer side leaves out the 0; for 1, 2 and 3 there are 2, 1 and 0 above.
    let expected = [(1, 3, 0), (1, 3, 1), (3, 3, 9)];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
    for measure in &measures {
        assert!(measure.startup <= measure.total, "{measure:?}");
    }
    assert!(measures[1].total + measures[2].total <= measures[0].total);
    let plan = Arc::new(plan(values(&numbers(1), 1)));
    let env = fixture.environment(Limits::default());
    let run = Execution::start(Arc::clone(&plan), Vec::new(), env).unwrap();
    assert_eq!(run.measure(&plan.root), None);
}

#[test]
fn a_sort_gives_way_while_it_spills_and_merges() {
    let fixture = Fixture::new();
    let root = Arc::new(plan(sort(
        values(&numbers(100_000), 1),
        vec![key(0, true, false)],
        0,
    )));
    // Some sixty runs, of which 32 become one.
    let limits = Limits {
        work_mem: 64 << 10,
        slice: Duration::ZERO,
        ..Limits::default()
    };
    let start = || {
        let env = fixture.environment(limits.clone());
        let (cancel, temp) = (env.cancel.clone(), Arc::clone(&env.temp));
        let run = Execution::start(Arc::clone(&root), vec![], env).unwrap();
        (run, cancel, temp)
    };
    let (mut run, _, temp) = start();
    let (mut batch, mut before, mut most, mut slices) = (Batch::default(), 0, 0, 0);
    while run.next(&mut batch).unwrap() == Step::Wait(Wait::Yield) {
        most = most.max(temp.quota().used().saturating_sub(before));
        before = temp.quota().used();
        slices += 1;
    }
    let per_row = before / 100_000;
    assert!(per_row > 0, "nothing was written");
    assert!(most < 4096 * per_row, "{most} bytes written in one slice");
    for quarter in 1..4 {
        let (mut run, cancel, _) = start();
        for _ in 0..slices * quarter / 4 {
            assert_eq!(run.next(&mut batch).unwrap(), Step::Wait(Wait::Yield));
        }
        cancel.cancel();
        let error = run.next(&mut batch).expect_err("cancelled");
        assert_eq!(error.sqlstate(), "57014");
    }
}

#[test]
fn temporary_files_get_descriptors_from_idle_relation_files() {
    let mut fixture = Fixture::new();
    // More than the sort has runs.
    for _ in 0..40 {
        fixture.table(&[SqlType::Int4], &[], &numbers(3));
    }
    let root = Arc::new(plan(sort(
        values(&numbers(3000), 1),
        vec![key(0, true, false)],
        0,
    )));
    let limits = Limits {
        work_mem: 40 << 10,
        ..Limits::default()
    };
    let open = fixture.disk.open_files();
    fixture.disk.set_max_open_files(Some(open));
    let sorted = fixture.rows_with(&root, limits.clone()).unwrap();
    assert_eq!(sorted.len(), 3000);
    fixture.disk.set_max_open_files(Some(0));
    let error = fixture.rows_with(&root, limits).unwrap_err();
    assert_eq!(error.sqlstate(), "53000");
    fixture.disk.set_max_open_files(None);
}
