//! Aggregates, and rows that are left out because they are equal.

use std::collections::BTreeMap;

use evenkeel_expr::call::Session;
use evenkeel_expr::proc::{Accumulator, ArgType, Proc, ProcKind, Volatility};
use evenkeel_expr::program::Program;
use evenkeel_planner::plan::{Aggregate, AggregateStrategy, Node, NodeKind};
use evenkeel_types::{Datum, SqlType, TypeResult};
use proptest::prelude::*;

use crate::common::*;
use crate::flow::{model_order, sort};

/// `sum` of integers.
#[derive(Default)]
struct Sum(Option<i64>);

impl Accumulator for Sum {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        if let Datum::Int4(value) = args[0] {
            self.0 = Some(self.0.unwrap_or(0) + i64::from(value));
        }
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(self.0.into())
    }

    fn bytes(&self) -> usize {
        16
    }
}

/// The values in the order in which they come.
#[derive(Default)]
struct Gathered(Vec<Datum>);

impl Accumulator for Gathered {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        self.0.push(args[0].clone());
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(Datum::array(self.0.clone()))
    }

    fn bytes(&self) -> usize {
        self.0.len() * size_of::<Datum>()
    }
}

const fn aggregate_proc(name: &'static str, kind: ProcKind) -> Proc {
    Proc {
        oid: 0,
        name,
        args: &[ArgType::Is(SqlType::Int4)],
        defaults: &[],
        variadic: false,
        result: ArgType::Is(SqlType::Int8),
        strict: false,
        volatility: Volatility::Immutable,
        kind,
        cost: 1.0,
    }
}

pub static SUM: Proc = aggregate_proc("sum", ProcKind::Aggregate(|_| Box::new(Sum::default())));
static GATHER: Proc = aggregate_proc(
    "array_agg",
    ProcKind::Aggregate(|_| Box::new(Gathered::default())),
);
/// The direct argument, then the values in their order.
static ORDERED: Proc = aggregate_proc(
    "ordered",
    ProcKind::OrderedSet(
        |_, input| {
            let mut first = input.direct.to_vec();
            first.push(Datum::Int8(input.rows as i64));
            Ok(Box::new(Gathered(first)))
        },
        1,
    ),
);

pub fn aggregate(proc: &'static Proc, arg: Program) -> Aggregate {
    Aggregate {
        proc,
        direct: vec![],
        args: vec![arg],
        arg_types: vec![SqlType::Int4],
        result: SqlType::Int8,
        distinct: false,
        order_by: vec![],
        filter: None,
    }
}

fn aggregates() -> Vec<Aggregate> {
    let distinct = Aggregate {
        distinct: true,
        ..aggregate(&SUM, slot(1))
    };
    let filtered = Aggregate {
        filter: Some(less(constant(0), slot(1))),
        ..aggregate(&SUM, slot(1))
    };
    let ordered = Aggregate {
        order_by: vec![(slot(1), true, true)],
        ..aggregate(&GATHER, slot(1))
    };
    vec![aggregate(&SUM, slot(1)), distinct, filtered, ordered]
}

fn group(
    child: Node,
    strategy: AggregateStrategy,
    columns: Vec<usize>,
    sets: Vec<Vec<usize>>,
) -> Node {
    let aggregates = aggregates();
    let width = columns.len() + aggregates.len() + usize::from(!sets.is_empty());
    node(
        NodeKind::Aggregate {
            child: Box::new(child),
            strategy,
            group: columns,
            sets,
            aggregates,
        },
        width,
    )
}

/// The values of [`aggregates`] for some rows.
fn model(rows: &[Row]) -> Row {
    let values: Vec<Option<i64>> = rows
        .iter()
        .map(|row| match row[1] {
            Datum::Int4(value) => Some(i64::from(value)),
            _ => None,
        })
        .collect();
    let sum = |values: Vec<i64>| -> Datum {
        (!values.is_empty())
            .then(|| values.iter().sum::<i64>())
            .into()
    };
    let mut distinct: Vec<i64> = values.iter().flatten().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let positive = values
        .iter()
        .flatten()
        .copied()
        .filter(|v| *v > 0)
        .collect();
    let mut gathered: Vec<Datum> = rows.iter().map(|row| row[1].clone()).collect();
    gathered.sort_by(|a, b| b.compare(a));
    vec![
        sum(values.iter().flatten().copied().collect()),
        sum(distinct),
        sum(positive),
        Datum::array(gathered),
    ]
}

fn model_groups(rows: &[Row], set: &[usize], columns: usize) -> Vec<Row> {
    let mut groups: BTreeMap<String, (Row, Vec<Row>)> = BTreeMap::new();
    for row in rows {
        let kept = |at: usize| {
            if set.contains(&at) {
                row[at].clone()
            } else {
                Datum::Null
            }
        };
        let key: Row = (0..columns).map(kept).collect();
        let group = groups.entry(format!("{key:?}")).or_insert((key, vec![]));
        group.1.push(row.clone());
    }
    if rows.is_empty() && set.is_empty() {
        groups.insert(String::new(), (vec![Datum::Null; columns], vec![]));
    }
    let groups = groups.into_values();
    groups
        .map(|(key, rows)| [key, model(&rows)].concat())
        .collect()
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let value = || prop_oneof![1 => Just(None), 5 => (-2..4i32).prop_map(Some)];
    let row = (value(), value());
    prop::collection::vec(row.prop_map(|(a, b)| ints(&[a, b])), 0..50)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn groups_are_those_of_the_model(rows in any_rows()) {
        let fixture = Fixture::new();
        let keys = vec![key(0, false, false)];
        let expected = sorted(&model_groups(&rows, &[0], 1));
        let ordered = sort(values(&rows, 2), keys, 0);
        let found = fixture.rows(plan(group(ordered, AggregateStrategy::Sorted, vec![0], vec![])));
        prop_assert_eq!(sorted(&found), expected.clone());
        let hashed = group(values(&rows, 2), AggregateStrategy::Hashed, vec![0], vec![]);
        prop_assert_eq!(sorted(&fixture.rows(plan(hashed))), expected);
        let plain = group(values(&rows, 2), AggregateStrategy::Plain, vec![], vec![]);
        prop_assert_eq!(sorted(&fixture.rows(plan(plain))), sorted(&[model(&rows)]));
    }

    #[test]
    fn grouping_sets_group_each_row_once_for_each_set(rows in any_rows()) {
        let fixture = Fixture::new();
        let sets = vec![vec![0, 1], vec![1], vec![]];
        let mut expected = Vec::new();
        for (number, set) in sets.iter().enumerate() {
            for mut row in model_groups(&rows, set, 2) {
                row.push(Datum::Int4(number as i32));
                expected.push(row);
            }
        }
        let root = group(values(&rows, 2), AggregateStrategy::Hashed, vec![0, 1], sets);
        prop_assert_eq!(sorted(&fixture.rows(plan(root))), sorted(&expected));
    }

    #[test]
    fn set_operations_count_rows(left in any_rows(), right in any_rows()) {
        let fixture = Fixture::new();
        for (except, all) in [(false, false), (false, true), (true, false), (true, true)] {
            let root = node(
                NodeKind::SetOperation {
                    left: Box::new(values(&left, 2)),
                    right: Box::new(values(&right, 2)),
                    except,
                    all,
                },
                2,
            );
            let mut rest = texts(&right);
            let mut expected: Vec<Row> = Vec::new();
            for row in &left {
                let text = format!("{row:?}");
                let partner = rest.iter().position(|other| *other == text);
                if all {
                    partner.map(|at| rest.remove(at));
                } else if texts(&expected).contains(&text) {
                    continue;
                }
                if partner.is_some() != except {
                    expected.push(row.clone());
                }
            }
            let found = fixture.rows(plan(root));
            prop_assert_eq!(sorted(&found), sorted(&expected), "except {} all {}", except, all);
        }
    }

    #[test]
    fn unique_leaves_one_of_equal_neighbours(rows in any_rows()) {
        let fixture = Fixture::new();
        let keys = vec![key(0, false, false), key(1, true, true)];
        let child = sort(values(&rows, 2), keys.clone(), 0);
        let root = node(NodeKind::Unique { child: Box::new(child), columns: vec![0] }, 2);
        let mut expected = rows.clone();
        expected.sort_by(|a, b| model_order(a, b, &keys));
        expected.dedup_by(|a, b| a[0].compare(&b[0]).is_eq());
        prop_assert_eq!(texts(&fixture.ordered(plan(root))), texts(&expected));
    }
}

#[test]
fn an_ordered_set_knows_its_rows_and_direct_arguments() {
    let fixture = Fixture::new();
    let rows = [(1, Some(5)), (1, None), (1, Some(9)), (2, Some(7))];
    let rows: Vec<Row> = rows.map(|(a, b)| ints(&[Some(a), b])).to_vec();
    let ordered = Aggregate {
        direct: vec![slot(0)],
        order_by: vec![(slot(1), true, false)],
        ..aggregate(&ORDERED, slot(1))
    };
    let root = node(
        NodeKind::Aggregate {
            child: Box::new(values(&rows, 2)),
            strategy: AggregateStrategy::Hashed,
            group: vec![0],
            sets: vec![],
            aggregates: vec![ordered],
        },
        2,
    );
    let array = |first: i32, rows: i64, values: &[i32]| {
        let values = values.iter().copied().map(int);
        let all = [int(first), Datum::Int8(rows)].into_iter().chain(values);
        vec![int(first), Datum::array(all.collect())]
    };
    let expected = [array(1, 2, &[9, 5]), array(2, 1, &[7])];
    assert_eq!(sorted(&fixture.rows(plan(root))), sorted(&expected));
}
