//! Changes and row locks, from SQL text to the engine's tables, as PostgreSQL 18 has them:
//! `schedules.txt` has what it said, and is written by `examples/record_changes`.

mod catalog;
mod session;
mod transcript;

use std::time::Duration;

use evenkeel_exec::Limits;

use session::Ours;
use transcript::{Server, Session, schedules, transcript};

const TEXT: &str = include_str!("schedules.txt");
/// Every pair of row locks and changes, under both isolation levels.
const LOCKS: &str = include_str!("locks.txt");

fn check(text: &str, limits: &Limits) {
    let mut recorded = text.split("\n\n");
    let mut wrong = Vec::new();
    for schedule in schedules(text) {
        let mut server = Ours::new(limits.clone());
        let said = transcript(&schedule, &mut server);
        let expected = recorded.next().unwrap_or_default();
        if said.trim_end() != expected.trim_end() {
            wrong.push(difference(expected, &said));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} schedules differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The lines of both, from the first in which they differ.
fn difference(expected: &str, said: &str) -> String {
    let mut out = String::from(expected.lines().next().unwrap_or_default());
    let pairs = expected.lines().zip(said.lines());
    let same = pairs.take_while(|(a, b)| a == b).count();
    let context = same.saturating_sub(3);
    for line in expected.lines().skip(context).take(8) {
        out.push_str(&format!("\n  PostgreSQL: {line}"));
    }
    for line in said.lines().skip(context).take(8) {
        out.push_str(&format!("\n  evenkeel:   {line}"));
    }
    out
}

#[test]
fn changes_and_locks_are_postgresqls() {
    check(TEXT, &Limits::default());
}

#[test]
fn row_locks_are_postgresqls() {
    check(LOCKS, &Limits::default());
}

#[test]
fn changes_and_locks_do_not_depend_on_where_they_give_way() {
    for seed in [3, 77, 1234] {
        check(
            TEXT,
            &Limits {
                synchronize_seqscans: true,
                interrupt: Some(seed),
                slice: Duration::ZERO,
                batch: 2,
                work_mem: 300,
            },
        );
    }
}

/// A row that a command has changed which the change itself has called: PostgreSQL's message is
/// that of triggers, for which it stands here.
#[test]
fn a_row_that_a_later_command_has_changed_is_not_changed_again() {
    let mut server = Ours::new(Limits::default());
    let mut session = server.connect(true);
    for sql in [
        "CREATE TABLE t (a int PRIMARY KEY, b int)",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
    ] {
        session.send(sql);
        assert!(session.answer().is_some());
    }
    let modified = |verb| {
        format!(
            "! 27000 tuple to be {verb} was already modified by an operation triggered by the \
             current command"
        )
    };
    let inner = "UPDATE t SET b = b + 1 WHERE a = 2";
    let said = session.within("UPDATE t SET b = 0", inner);
    assert_eq!(said[0], modified("updated"));
    assert!(said[1].starts_with("H Consider using an AFTER trigger"));
    session.send("ROLLBACK");
    let said = session.within("DELETE FROM t", inner);
    assert_eq!(said[0], modified("deleted"));
    session.send("ROLLBACK");
    // A lock leaves such a row out.
    let said = session.within("SELECT a FROM t FOR UPDATE", inner);
    assert_eq!(said, ["| 1 |", "= SELECT 1"]);
}
