//! Statements as PostgreSQL 18 describes and refuses them: `answers.txt` has the columns and the
//! parameters of each, or its error, as `examples/record_bind` was told by a server with the tables
//! of `schema.txt`; `clients.txt` has the same of what clients ask of the catalogs.
//! `differences.txt` lists the statements that are answered otherwise, below the reason.

mod cancel;
mod catalog;
mod constants;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use catalog::{Tables, TestSession};
use evenkeel_planner::bind::bind;
use evenkeel_planner::bound::{Bound, BoundStatement, Target};
use evenkeel_planner::parser::parse;
use evenkeel_planner::planning::{PlannerSettings, Planning, plan};
use evenkeel_planner::{PlanError, PlanResult};
use evenkeel_types::SqlType;

const ANSWERS: &str = include_str!("answers.txt");
const CLIENTS: &str = include_str!("clients.txt");
const DIFFERENCES: &str = include_str!("differences.txt");

/// The statements that are listed as answered otherwise.
fn listed() -> BTreeSet<&'static str> {
    let lines = DIFFERENCES.lines();
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("--"))
        .collect()
}

fn one_line(text: &str) -> String {
    text.replace('\n', "\\n")
}

fn shown_targets(out: &mut String, targets: &[Target]) {
    for target in targets.iter().filter(|target| !target.junk) {
        let ty = target.expr.ty;
        // A table's row type has no oid of its own in the recording.
        let oid = match ty {
            SqlType::Record => "row".to_owned(),
            other => other.oid().to_string(),
        };
        let _ = writeln!(out, "C {oid} {} {}", ty.typmod(), target.name);
    }
}

fn shown(bound: &Bound) -> String {
    let mut out = String::new();
    match &bound.statement {
        BoundStatement::Query(query) => shown_targets(&mut out, &query.targets),
        BoundStatement::Change(change) => {
            if let Some(returning) = &change.returning {
                shown_targets(&mut out, &returning.targets);
            }
        }
    }
    for ty in &bound.params {
        let _ = writeln!(out, "P {}", ty.oid());
    }
    out
}

fn shown_error(statement: &str, error: &PlanError) -> String {
    let mut out = format!("E {}\nM {}\n", error.state.0, one_line(&error.message));
    if let Some(detail) = &error.detail {
        let _ = writeln!(out, "D {}", one_line(detail));
    }
    if let Some(hint) = &error.hint {
        let _ = writeln!(out, "H {}", one_line(hint));
    }
    if let Some(at) = error.at {
        let before = &statement[..at.0 as usize];
        let _ = writeln!(out, "@ {}", before.chars().count() + 1);
    }
    out
}

fn bound(statement: &str, tables: &Tables, session: &TestSession) -> PlanResult<Bound> {
    bind(&parse(statement)?[0].statement, tables, session, &[])
}

/// A line of an answer: `record` written as a row's type, and types of the catalogs that there are
/// not here as text.
fn with_types_of_here(line: &str) -> String {
    let fields: Vec<&str> = line.splitn(3, ' ').collect();
    let ["C", oid, rest] = fields.as_slice() else {
        return line.to_owned();
    };
    let oid = match *oid {
        "2249" => "row",
        // xid, pg_node_tree, inet, anyarray, pg_lsn
        "194" | "869" | "2277" | "3220" => "25",
        // aclitem[]
        "1034" => "1009",
        other => other,
    };
    format!("C {oid} {rest}")
}

/// Each recorded statement with its answer.
fn recorded() -> Vec<(&'static str, String)> {
    let blocks = [ANSWERS, CLIENTS].into_iter();
    let blocks = blocks.flat_map(|text| text.split_terminator("\n\n"));
    blocks
        .map(|block| {
            let (statement, answer) = block.split_once('\n').unwrap_or((block, ""));
            let mut text = String::new();
            for line in answer.lines() {
                let _ = writeln!(text, "{}", with_types_of_here(line));
            }
            (statement.strip_prefix("S ").unwrap(), text)
        })
        .collect()
}

#[test]
fn statements_mean_what_they_mean_to_postgresql() {
    let (tables, session) = (Tables::new(), TestSession::default());
    let recorded = recorded();
    assert!(recorded.len() > 4_000, "{} statements", recorded.len());
    let mut listed = listed();
    let mut wrong = String::new();
    let mut count = 0;
    for (statement, wanted) in &recorded {
        let found = match bound(statement, &tables, &session) {
            Ok(bound) => shown(&bound),
            Err(error) => shown_error(statement, &error),
        };
        match (found == *wanted, listed.remove(statement)) {
            (true, false) | (false, true) => {}
            (true, true) => {
                count += 1;
                let _ = writeln!(wrong, "{statement}\n  is listed and agrees\n");
            }
            (false, false) => {
                count += 1;
                let _ = writeln!(wrong, "{statement}\nPostgreSQL:\n{wanted}found:\n{found}");
            }
        }
    }
    for statement in listed {
        count += 1;
        let _ = writeln!(wrong, "{statement}\n  is listed and not recorded\n");
    }
    assert!(count == 0, "{count} statements:\n{wrong}");
}

/// The planner refuses nothing that the binder takes but what it names as not built.
#[test]
fn bound_statements_have_plans() {
    let (tables, session) = (Tables::new(), TestSession::default());
    let settings = PlannerSettings::default();
    let mut refused: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (statement, _) in recorded() {
        let Ok(bound) = bound(statement, &tables, &session) else {
            continue;
        };
        let how = Planning {
            settings: &settings,
            session: &session,
            values: None,
            notes: true,
        };
        if !matches!(bound.statement, BoundStatement::Query(_)) {
            continue;
        }
        if let Err(error) = plan(&bound, how) {
            let why = format!("{} {}", error.state.0, error.message);
            refused.entry(why).or_default().push(statement);
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
}
