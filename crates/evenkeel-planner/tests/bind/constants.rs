//! Constant expressions are computed when a plan is made; the others are left to the execution.

use std::time::{Duration, Instant};

use evenkeel_expr::program::Program;
use evenkeel_planner::bind::bind;
use evenkeel_planner::parser::parse;
use evenkeel_planner::plan::Plan;
use evenkeel_planner::planning::{PlannerSettings, Planning, plan};
use evenkeel_types::Datum;

use crate::catalog::{Tables, TestSession};

fn planned(statement: &str) -> Plan {
    let (tables, session) = (Tables::new(), TestSession::default());
    let parsed = parse(statement).unwrap();
    let bound = bind(&parsed[0].statement, &tables, &session, &[]).unwrap();
    let settings = PlannerSettings::default();
    let how = Planning {
        settings: &settings,
        session: &session,
        values: None,
        notes: false,
    };
    plan(&bound, how).unwrap()
}

/// The first column of a statement that reads no table.
fn first(plan: &Plan) -> String {
    format!("{:?}", plan.root)
}

fn is_computed(expression: &str) -> bool {
    !first(&planned(&format!("SELECT {expression}"))).contains("Call(")
}

#[test]
fn cheap_constants_are_computed() {
    for expression in [
        "length(repeat('x', 1000))",
        "1 + 2 * 3",
        "upper('abc') || 'd'",
        "2::numeric ^ 10",
        "replace(repeat('ab', 30000), 'b', '')",
        "'abc' ~ 'b+'",
    ] {
        assert!(is_computed(expression), "{expression}");
    }
}

#[test]
fn expensive_constants_are_left_to_the_execution() {
    let replaced = "replace(replace(replace(repeat('x', 1000), 'x', repeat('y', 1000)), 'y', \
                    repeat('z', 100)), 'z', repeat('a', 10))";
    for expression in [
        replaced,
        "length(upper(lower(repeat('x', 100000000))))",
        "repeat('x', 100000)",
        "lpad('x', 1000000)",
        "length(repeat('x', 100000))",
        "array_fill(1, ARRAY[1000000])",
        "repeat('a', 60000) LIKE '%' || repeat('a', 30000) || 'b'",
        "repeat('ab', 30000) ~ '(a{1,200}b{1,200}){1,50}c'",
        "factorial(30000)",
        "3.7::numeric ^ 40000.5 > 1",
        "exp(5999.9::numeric) > 1",
        "9.7::numeric ^ 100000 > 1",
        "sqrt(9.7::numeric ^ 100000) > 1",
    ] {
        let begun = Instant::now();
        assert!(!is_computed(expression), "{expression}");
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(200), "{took:?}: {expression}");
    }
}

#[test]
fn the_constants_of_a_statement_are_bounded() {
    let columns: Vec<String> = (0..400).map(|_| "repeat('x', 60000)".to_owned()).collect();
    let plan = planned(&format!("SELECT {}", columns.join(", ")));
    let shown = first(&plan);
    assert!(shown.contains("xxxx"), "some are computed");
    assert!(shown.len() < 8 << 20, "{} bytes", shown.len());
    let compared = "repeat('a', 4000) LIKE '%' || repeat('a', 1000) || 'c'";
    let conditions: Vec<&str> = (0..1000).map(|_| compared).collect();
    let begun = Instant::now();
    planned(&format!("SELECT {}", conditions.join(", ")));
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[test]
fn what_is_left_is_no_constant() {
    let plan = planned("SELECT repeat('x', 100000)");
    let programs = plan.root.project.iter().flatten();
    for program in programs {
        assert!(!matches!(program, Program::Const(Datum::Text(_))));
    }
}

const PAIR: &str =
    "SELECT 1 FROM generate_series(1, 1000) a(v), generate_series(1, 1000) b(v) WHERE ";

#[test]
fn a_condition_of_all_alternatives_joins() {
    for alternatives in [
        "(a.v = b.v AND a.v > 3) OR (a.v = b.v AND b.v < 9)",
        "a.v = b.v OR (a.v < 5 AND a.v = b.v)",
        "(b.v < 9 AND a.v = b.v) OR (a.v = b.v AND a.v = 2) OR (a.v = b.v AND b.v = 1)",
    ] {
        let plan = first(&planned(&format!("{PAIR}{alternatives}")));
        assert!(plan.contains("HashJoin"), "{alternatives}");
    }
    for alternatives in [
        "(a.v = b.v AND a.v > 3) OR b.v < 9",
        "(a.v = b.v AND a.v > 3) OR (a.v = b.v + 1 AND a.v > 3)",
    ] {
        let plan = first(&planned(&format!("{PAIR}{alternatives}")));
        assert!(!plan.contains("HashJoin"), "{alternatives}");
    }
    let volatile = "(random() < 0.5 AND a.v > 3) OR (random() < 0.5 AND b.v > 3)";
    let plan = first(&planned(&format!("{PAIR}{volatile}")));
    assert_eq!(plan.matches("random").count(), 2, "{plan}");
}
