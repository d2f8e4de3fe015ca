//! Scans of tables and indexes.

use std::sync::Arc;

use evenkeel_expr::program::Program;
use evenkeel_planner::plan::{IndexKeys, KeyProgram, Node, NodeKind};
use evenkeel_planner::relation::{IndexColumn, Relation};
use evenkeel_types::{Datum, SqlType};
use proptest::prelude::*;

use crate::common::*;

fn index_scan(relation: &Arc<Relation>, index: usize, keys: IndexKeys, backward: bool) -> Node {
    let columns = (0..relation.columns.len()).collect();
    scan_by(relation, index, (keys, backward), (columns, false))
}

fn scan_by(
    relation: &Arc<Relation>,
    index: usize,
    (keys, backward): (IndexKeys, bool),
    (columns, only): (Vec<usize>, bool),
) -> Node {
    let width = columns.len();
    let relation = Arc::clone(relation);
    node(
        NodeKind::IndexScan {
            relation,
            index,
            columns,
            keys,
            backward,
            only,
        },
        width,
    )
}

fn key_of(value: Datum) -> KeyProgram {
    let from = match value {
        Datum::Int8(_) => SqlType::Int8,
        _ => SqlType::Int4,
    };
    KeyProgram {
        value: Program::Const(value),
        from,
        column: SqlType::Int4,
    }
}

/// A search: equality on the first column, a condition on the second.
#[derive(Debug, Clone)]
struct Search {
    first: Option<Option<i32>>,
    any: Option<Vec<Option<i32>>>,
    low: Option<(i64, bool)>,
    high: Option<(i64, bool)>,
    is_null: bool,
    backward: bool,
}

impl Search {
    fn keys(&self) -> IndexKeys {
        let end = |end: &Option<(i64, bool)>| {
            end.map(|(value, inclusive)| (key_of(Datum::Int8(value)), inclusive))
        };
        let any = self
            .any
            .as_ref()
            .map(|elements| key_of(Datum::array(elements.iter().copied().map(int).collect())));
        IndexKeys {
            equal: self.first.iter().map(|value| key_of(int(*value))).collect(),
            any,
            low: end(&self.low),
            high: end(&self.high),
            is_null: self.is_null,
        }
    }

    fn wants(&self, row: &Row) -> bool {
        let value = |at: usize| match row[at] {
            Datum::Int4(value) => Some(value),
            _ => None,
        };
        let mut at = 0;
        if let Some(first) = self.first {
            if first.is_none() || value(0) != first {
                return false;
            }
            at += 1;
        }
        if let Some(any) = &self.any {
            if value(at).is_none() || !any.contains(&value(at)) {
                return false;
            }
            at += 1;
        }
        if at > 1 {
            return true;
        }
        let number = value(at).map(i64::from);
        if self.is_null {
            return number.is_none();
        }
        let low = |(end, inclusive): (i64, bool)| {
            number.is_some_and(|n| n > end || (inclusive && n == end))
        };
        let high = |(end, inclusive): (i64, bool)| {
            number.is_some_and(|n| n < end || (inclusive && n == end))
        };
        self.low.is_none_or(low) && self.high.is_none_or(high)
    }
}

fn any_search() -> impl Strategy<Value = Search> {
    let small = || prop_oneof![1 => Just(None), 6 => (-2..4i32).prop_map(Some)];
    let wide = prop_oneof![6 => -3..5i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN)];
    let end = prop::option::of((wide, any::<bool>()));
    (
        prop::option::of(small()),
        prop::option::of(prop::collection::vec(small(), 0..4)),
        end.clone(),
        end,
        prop::bool::weighted(0.2),
        any::<bool>(),
    )
        .prop_map(|(first, any, low, high, is_null, backward)| {
            let room = first.is_none() || any.is_none();
            let ends = room && !is_null;
            Search {
                low: low.filter(|_| ends),
                high: high.filter(|_| ends),
                is_null: is_null && room,
                first,
                any,
                backward,
            }
        })
}

fn any_columns() -> impl Strategy<Value = Vec<IndexColumn>> {
    let flags = || (any::<bool>(), any::<bool>());
    (flags(), flags()).prop_map(|(a, b)| {
        let column = |column, (desc, nulls_first)| IndexColumn {
            column: Some(column),
            ty: SqlType::Int4,
            desc,
            nulls_first,
        };
        vec![column(0, a), column(1, b)]
    })
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let value = || prop_oneof![1 => Just(None), 5 => (-2..4i32).prop_map(Some)];
    let row = (value(), value(), any::<i32>().prop_map(Some));
    prop::collection::vec(row.prop_map(|(a, b, c)| ints(&[a, b, c])), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn an_index_scan_finds_what_its_keys_say_in_the_order_of_the_index(
        rows in any_rows(),
        columns in any_columns(),
        searches in prop::collection::vec(any_search(), 12),
    ) {
        let mut fixture = Fixture::new();
        let relation = fixture.table(&[SqlType::Int4; 3], &[(false, columns.clone())], &rows);
        for search in searches {
            let root = index_scan(&relation, 0, search.keys(), search.backward);
            let found = fixture.ordered(plan(root));
            let expected: Vec<Row> = rows.iter().filter(|row| search.wants(row)).cloned().collect();
            prop_assert_eq!(sorted(&found), sorted(&expected), "{:?} {:?}", &search, &columns);
            for (slots, limit) in [(vec![1, 0], None), (vec![0], Some(1)), (vec![1], Some(2))] {
                let ways = (search.keys(), search.backward);
                let mut root = scan_by(&relation, 0, ways, (slots.clone(), true));
                let mut expected = found.clone();
                if let Some(limit) = limit {
                    root = root.filter(less(slot(0), constant(limit)));
                    let below = |row: &Row| matches!(row[slots[0]], Datum::Int4(v) if v < limit);
                    expected.retain(below);
                }
                let alone = fixture.ordered(plan(root));
                let expected: Vec<Row> = expected
                    .iter()
                    .map(|row| slots.iter().map(|at| row[*at].clone()).collect())
                    .collect();
                prop_assert_eq!(alone, expected, "{:?} {:?}", &search, &columns);
            }
            for pair in found.windows(2) {
                let order = columns.iter().map(|column| {
                    let (a, b) = (
                        &pair[0][column.column.unwrap()],
                        &pair[1][column.column.unwrap()],
                    );
                    let order = match (a.is_null(), b.is_null()) {
                        (true, false) if column.nulls_first => std::cmp::Ordering::Less,
                        (false, true) if column.nulls_first => std::cmp::Ordering::Greater,
                        (false, false) if column.desc => b.compare(a),
                        _ => a.compare(b),
                    };
                    if search.backward { order.reverse() } else { order }
                });
                let order = order.into_iter().find(|order| order.is_ne());
                prop_assert!(order != Some(std::cmp::Ordering::Greater), "{:?}", found);
            }
        }
    }
}

#[test]
fn a_search_by_all_columns_of_a_unique_index_finds_one_row() {
    let mut fixture = Fixture::new();
    let rows: Vec<Row> = (0..2000).map(|n| ints(&[Some(n), Some(n * 2)])).collect();
    let indexes = [(true, vec![ascending(0)])];
    let relation = fixture.table(&[SqlType::Int4; 2], &indexes, &rows);
    for (value, found) in [
        (Datum::Int4(1999), 1),
        (Datum::Int8(1 << 40), 0),
        (Datum::Null, 0),
    ] {
        let keys = IndexKeys {
            equal: vec![key_of(value)],
            ..IndexKeys::default()
        };
        let rows = fixture.rows(plan(index_scan(&relation, 0, keys, false)));
        assert_eq!(rows.len(), found);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_test_of_stored_bytes_leaves_out_what_the_filter_does(
        rows in any_rows(), bound in -3..5i32, column in 0..2usize, turned in any::<bool>(),
        narrow in any::<bool>(),
    ) {
        let mut fixture = Fixture::new();
        let relation = fixture.table(&[SqlType::Int4; 3], &[], &rows);
        let tested = |value: Program| match turned {
            true => less(constant(bound), value),
            false => less(value, constant(bound)),
        };
        let wanted = |row: &&Row| match &row[column] {
            Datum::Int4(value) if turned => bound < *value,
            Datum::Int4(value) => *value < bound,
            _ => false,
        };
        let mut columns: Vec<usize> = (0..3).collect();
        if narrow {
            columns = vec![column];
        }
        let at = columns.iter().position(|at| *at == column).unwrap();
        let kind = || NodeKind::SeqScan {
            relation: Arc::clone(&relation),
            columns: columns.clone(),
        };
        // The second condition is none that can be tested before the row is decoded.
        let odd = Program::Not(Box::new(equal(slot(at), constant(3))));
        for second in [false, true] {
            let mut root = node(kind(), columns.len()).filter(tested(slot(at)));
            if second {
                root = root.filter(odd.clone());
            }
            let found = fixture.rows(plan(root));
            let expected = rows.iter().filter(wanted);
            let expected = expected.filter(|row| !second || row[column] != Datum::Int4(3));
            let expected: Vec<Row> = expected
                .map(|row| columns.iter().map(|at| row[*at].clone()).collect())
                .collect();
            prop_assert_eq!(sorted(&found), sorted(&expected));
        }
    }
}

#[test]
fn a_scan_filters_before_it_projects() {
    let mut fixture = Fixture::new();
    let rows: Vec<Row> = (0..1000).map(|n| ints(&[Some(n % 3), Some(n)])).collect();
    let relation = fixture.table(&[SqlType::Int4; 2], &[], &rows);
    let divide = call(DIVIDE, slot(1), slot(0));
    let guarded = scan(&relation)
        .filter(less(constant(0), slot(0)))
        .project(vec![divide.clone()]);
    assert_eq!(fixture.ordered(plan(guarded)).len(), 666);
    assert_eq!(
        fixture.error(plan(scan(&relation).project(vec![divide]))),
        "22012"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_bitmap_gives_the_rows_that_its_conditions_select_each_once(
        rows in any_rows(), value in -2..4i32, bound in -3..5i32, all in any::<bool>(),
    ) {
        let mut fixture = Fixture::new();
        let indexes = [(false, vec![ascending(0)]), (false, vec![ascending(1), ascending(2)])];
        let relation = fixture.table(&[SqlType::Int4; 3], &indexes, &rows);
        let source = |index, keys| {
            let relation = Arc::clone(&relation);
            node(NodeKind::BitmapIndexScan { relation, index, keys }, 0)
        };
        let equal_keys = IndexKeys {
            equal: vec![key_of(int(Some(value)))],
            ..IndexKeys::default()
        };
        let below = IndexKeys {
            high: Some((key_of(int(Some(bound))), false)),
            ..IndexKeys::default()
        };
        let bitmaps = vec![source(0, equal_keys), source(1, below)];
        let conditions = vec![equal(slot(0), constant(value)), less(slot(1), constant(bound))];
        let condition = match all {
            true => Program::And(conditions.into()),
            false => Program::Or(conditions.into()),
        };
        let kind = NodeKind::BitmapHeapScan {
            relation: Arc::clone(&relation),
            columns: (0..3).collect(),
            bitmap: Box::new(node(NodeKind::BitmapCombine { bitmaps, all }, 0)),
            recheck: vec![condition],
        };
        let found = fixture.rows(plan(node(kind, 3)));
        let expected = rows.iter().filter(|row| {
            let equal = row[0] == Datum::Int4(value);
            let below = matches!(row[1], Datum::Int4(v) if v < bound);
            if all { equal && below } else { equal || below }
        });
        let expected: Vec<Row> = expected.cloned().collect();
        prop_assert_eq!(sorted(&found), sorted(&expected));
    }
}
