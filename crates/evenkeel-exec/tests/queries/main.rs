//! Statements answered as PostgreSQL 18 answers them. `answers` has their columns and rows, or
//! their error, as `examples/record_queries` was told by a server with the tables of `schema.txt`.
//! Each statement runs over the engine's tables under every way of planning and running that must
//! not change its answer. `differences.txt` lists those that are refused, below the reason.

mod database;
mod params;
mod recorded;
mod ways;

use std::fmt::Write as _;
use std::sync::LazyLock;

use database::Database;
use recorded::{Answer, Recorded};
use ways::{Way, ways};

static DATABASE: LazyLock<Database> = LazyLock::new(Database::new);

/// The statements that are listed as refused.
fn listed() -> Vec<&'static str> {
    let lines = include_str!("differences.txt").lines();
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("--"))
        .collect()
}

/// The answer of one way; a panic is an error, so that the others are told as well.
fn answer(statement: &Recorded, way: &Way) -> Answer {
    let run = || DATABASE.answer(&statement.text, way);
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(answer) => answer,
        Err(_) => Answer::error("panic", "the statement panicked"),
    }
}

/// How the first way that answers otherwise answers.
fn difference(statement: &Recorded) -> Option<String> {
    let usual = answer(statement, &Way::default());
    if let Some(difference) = statement.difference(&usual) {
        return Some(difference);
    }
    for way in ways() {
        let found = answer(statement, &way);
        if let Some(difference) = statement.difference_in_another_order(&found) {
            let plan = DATABASE.explained(&statement.text, &way);
            return Some(format!("{}: {difference}{plan}\n", way.name));
        }
    }
    let (text, params) = params::instead_of_constants(&DATABASE, &statement.text)?;
    for known in [false, true] {
        let way = Way {
            name: format!("{text} of {params:?}, known when planned: {known}"),
            params: Some((text.clone(), params.clone(), known)),
            ..Way::default()
        };
        let found = answer(statement, &way);
        if let Some(difference) = statement.difference(&found) {
            return Some(format!("{}: {difference}", way.name));
        }
    }
    None
}

fn check(answers: &str, least: usize) {
    let recorded = recorded::read(answers);
    assert!(recorded.len() >= least, "{} statements", recorded.len());
    let listed = listed();
    let (mut wrong, mut count) = (String::new(), 0);
    for statement in &recorded {
        let problem = if listed.contains(&&*statement.text) {
            let found = answer(statement, &Way::default());
            (!found.is_refused()).then(|| "is listed and not refused\n".to_owned())
        } else {
            difference(statement)
        };
        if let Some(problem) = problem {
            count += 1;
            let _ = writeln!(wrong, "{}\n{problem}", statement.text);
        }
    }
    let all = recorded.len();
    assert!(count == 0, "{count} of {all} statements:\n{wrong}");
}

macro_rules! areas {
    ($($test:ident $file:literal $least:literal;)*) => {
        $(#[test]
        fn $test() {
            check(include_str!(concat!("answers/", $file, ".txt")), $least);
        })*

        const FILES: &[&str] = &[$($file),*];
        const ANSWERS: &[&str] = &[$(include_str!(concat!("answers/", $file, ".txt"))),*];
    };
}

areas! {
    aggregates_are_postgresqls "aggregates" 290;
    arithmetic_is_postgresqls "arithmetic" 1_000;
    casts_are_postgresqls "casts" 500;
    common_table_expressions_are_postgresqls "ctes" 40;
    dates_and_times_are_postgresqls "datetime" 400;
    functions_are_postgresqls "functions" 200;
    grouping_sets_are_postgresqls "grouping" 100;
    joins_are_postgresqls "joins" 300;
    large_tables_are_queried_as_in_postgresql "large" 80;
    limits_and_orders_are_postgresqls "limits" 120;
    three_valued_logic_is_postgresqls "logic" 100;
    rows_and_subqueries_are_postgresqls "rows" 130;
    scans_are_postgresqls "scans" 150;
    set_operations_are_postgresqls "sets" 300;
    subqueries_are_postgresqls "subqueries" 350;
    values_and_sets_are_postgresqls "values" 120;
    windows_are_postgresqls "windows" 450;
}

#[test]
fn every_recorded_file_is_asked_and_every_listed_statement_is_recorded() {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs it");
    let folder = format!("{root}/tests/queries/answers");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(FILES.contains(&name), "{name}");
    }
    let all: Vec<_> = ANSWERS
        .iter()
        .flat_map(|text| recorded::read(text))
        .collect();
    for statement in listed() {
        assert!(all.iter().any(|one| one.text == statement), "{statement}");
    }
}
