//! Joins of every type against a model of two loops.

use evenkeel_expr::program::Program;
use evenkeel_planner::plan::{JoinType, Node, NodeKind};
use evenkeel_types::Datum;
use proptest::prelude::*;

use crate::common::*;
use crate::flow::model_order;

const WIDTH: usize = 2;

/// Type and condition of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Join {
    pub ty: JoinType,
    /// Whether `outer.1 < inner.1` must hold too.
    pub residual: bool,
}

pub fn condition(residual: bool) -> Vec<Program> {
    let mut condition = vec![equal(slot(0), slot(WIDTH))];
    if residual {
        condition.push(less(slot(1), slot(WIDTH + 1)));
    }
    condition
}

fn pair_matches(a: &Row, b: &Row, residual: bool) -> bool {
    let equal = !a[0].is_null() && a[0].compare(&b[0]).is_eq();
    let less = !a[1].is_null() && !b[1].is_null() && a[1].compare(&b[1]).is_lt();
    equal && (!residual || less)
}

/// The join by two loops.
pub fn model(outer: &[Row], inner: &[Row], join: Join) -> Vec<Row> {
    let mut rows = Vec::new();
    let nulls = || vec![Datum::Null; WIDTH];
    let mut partners = vec![false; inner.len()];
    for a in outer {
        let matching = (0..inner.len()).filter(|at| pair_matches(a, &inner[*at], join.residual));
        let matching: Vec<usize> = matching.collect();
        matching.iter().for_each(|at| partners[*at] = true);
        match join.ty {
            JoinType::Semi if !matching.is_empty() => rows.push(a.clone()),
            JoinType::Anti if matching.is_empty() => rows.push(a.clone()),
            JoinType::Semi | JoinType::Anti | JoinType::NullAwareAnti => {}
            JoinType::Left | JoinType::Full if matching.is_empty() => {
                rows.push([a.clone(), nulls()].concat());
            }
            _ => rows.extend(
                matching
                    .iter()
                    .map(|at| [a.clone(), inner[*at].clone()].concat()),
            ),
        }
    }
    if matches!(join.ty, JoinType::Right | JoinType::Full) {
        let alone = inner
            .iter()
            .zip(&partners)
            .filter(|(_, partner)| !**partner);
        rows.extend(alone.map(|(b, _)| [nulls(), b.clone()].concat()));
    }
    rows
}

pub fn width_of(ty: JoinType) -> usize {
    match ty {
        JoinType::Semi | JoinType::Anti | JoinType::NullAwareAnti => WIDTH,
        _ => 2 * WIDTH,
    }
}

pub const TYPES: [JoinType; 6] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::Semi,
    JoinType::Anti,
];

pub fn any_side() -> impl Strategy<Value = Vec<Row>> {
    let value = || prop_oneof![1 => Just(None), 5 => (-2..4i32).prop_map(Some)];
    let row = (value(), value());
    prop::collection::vec(row.prop_map(|(a, b)| ints(&[a, b])), 0..25)
}

fn nested_loop(outer: &[Row], inner: &[Row], join: Join) -> Node {
    node(
        NodeKind::NestedLoop {
            outer: Box::new(values(outer, WIDTH)),
            inner: Box::new(values(inner, WIDTH)),
            join: join.ty,
            params: vec![],
            condition: condition(join.residual),
        },
        width_of(join.ty),
    )
}

fn hash_join(outer: Node, inner: Node, join: Join) -> Node {
    node(
        NodeKind::HashJoin {
            outer: Box::new(outer),
            inner: Box::new(inner),
            join: join.ty,
            outer_keys: vec![slot(0)],
            inner_keys: vec![call(PLUS, slot(0), constant(0))],
            condition: condition(join.residual).split_off(1),
        },
        width_of(join.ty),
    )
}

fn merge_join(outer: &[Row], inner: &[Row], join: Join, desc: bool) -> Node {
    let key = key(0, desc, desc);
    let side = |rows: &[Row]| {
        let mut rows = rows.to_vec();
        rows.sort_by(|a, b| model_order(a, b, &[key]));
        Box::new(values(&rows, WIDTH))
    };
    node(
        NodeKind::MergeJoin {
            outer: side(outer),
            inner: side(inner),
            join: join.ty,
            keys: vec![(key, 0)],
            condition: condition(join.residual).split_off(1),
        },
        width_of(join.ty),
    )
}

/// `NOT IN`: the rows for which no comparison is true or unknown.
fn model_not_in(outer: &[Row], inner: &[Row]) -> Vec<Row> {
    let may_be = |a: &Row, b: &Row| a[0].is_null() || b[0].is_null() || a[0].compare(&b[0]).is_eq();
    let rows = outer.iter().filter(|a| !inner.iter().any(|b| may_be(a, b)));
    rows.cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_nested_loop_joins_as_two_loops_do(
        outer in any_side(), inner in any_side(), residual in any::<bool>(),
    ) {
        let fixture = Fixture::new();
        for ty in TYPES {
            let join = Join { ty, residual };
            let found = fixture.rows(plan(nested_loop(&outer, &inner, join)));
            prop_assert_eq!(sorted(&found), sorted(&model(&outer, &inner, join)), "{:?}", join);
        }
    }

    #[test]
    fn a_hash_join_joins_as_two_loops_do(
        outer in any_side(), inner in any_side(), residual in any::<bool>(),
    ) {
        let fixture = Fixture::new();
        for ty in TYPES {
            let join = Join { ty, residual };
            let root = hash_join(values(&outer, WIDTH), values(&inner, WIDTH), join);
            let found = fixture.rows(plan(root));
            prop_assert_eq!(sorted(&found), sorted(&model(&outer, &inner, join)), "{:?}", join);
        }
        let join = Join { ty: JoinType::NullAwareAnti, residual: false };
        let root = hash_join(values(&outer, WIDTH), values(&inner, WIDTH), join);
        let found = fixture.rows(plan(root));
        prop_assert_eq!(sorted(&found), sorted(&model_not_in(&outer, &inner)));
    }

    #[test]
    fn a_merge_join_joins_as_two_loops_do(
        outer in any_side(), inner in any_side(), residual in any::<bool>(), desc in any::<bool>(),
    ) {
        let fixture = Fixture::new();
        for ty in TYPES {
            let join = Join { ty, residual };
            let found = fixture.rows(plan(merge_join(&outer, &inner, join, desc)));
            prop_assert_eq!(sorted(&found), sorted(&model(&outer, &inner, join)), "{:?}", join);
        }
    }

    #[test]
    fn a_joins_inner_side_runs_again_when_its_parameters_change(
        outer in any_side(), middle in any_side(), inner in any_side(),
        correlated in any::<bool>(), memoized in any::<bool>(),
    ) {
        let fixture = Fixture::new();
        let right = if correlated {
            values(&inner, WIDTH).filter(equal(Program::Exec(0), slot(1)))
        } else {
            values(&inner, WIDTH)
        };
        let join = Join { ty: JoinType::Inner, residual: false };
        let mut side = hash_join(values(&middle, WIDTH), right, join);
        if memoized {
            side = node(NodeKind::Memoize { child: Box::new(side), keys: vec![0] }, 2 * WIDTH);
        }
        let root = node(
            NodeKind::NestedLoop {
                outer: Box::new(values(&outer, WIDTH)),
                inner: Box::new(side),
                join: JoinType::Inner,
                params: vec![(0, 0)],
                condition: vec![],
            },
            3 * WIDTH,
        );
        let mut expected = Vec::new();
        for a in &outer {
            let wanted = |b: &&Row| !correlated || (!a[0].is_null() && b[1].compare(&a[0]).is_eq());
            let rows: Vec<Row> = inner.iter().filter(wanted).cloned().collect();
            let pairs = model(&middle, &rows, join);
            expected.extend(pairs.into_iter().map(|pair| [a.clone(), pair].concat()));
        }
        let found = fixture.rows(plan_with(root, vec![], 1));
        prop_assert_eq!(sorted(&found), sorted(&expected));
    }

    #[test]
    fn an_inner_side_runs_again_for_each_outer_row(
        outer in any_side(), inner in any_side(), kept in any::<bool>(),
    ) {
        let fixture = Fixture::new();
        let mut side = values(&inner, WIDTH).filter(equal(Program::Exec(0), slot(0)));
        if kept {
            side = node(NodeKind::Materialize { child: Box::new(side) }, WIDTH);
        }
        let root = node(
            NodeKind::NestedLoop {
                outer: Box::new(values(&outer, WIDTH)),
                inner: Box::new(side),
                join: JoinType::Left,
                params: vec![(0, 0)],
                condition: vec![],
            },
            2 * WIDTH,
        );
        let join = Join { ty: JoinType::Left, residual: false };
        let found = fixture.rows(plan_with(root, vec![], 1));
        prop_assert_eq!(sorted(&found), sorted(&model(&outer, &inner, join)));
    }
}
