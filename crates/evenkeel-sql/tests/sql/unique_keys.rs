//! Deferrable unique keys under sessions that swap, insert and delete them at once: never two rows
//! with one key in what is committed, and no refusal where the keys of all sessions differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_sql::{Session, SqlEngine, SqlResult};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::harness::{background, one, open, run, session, until_blocked};

const TABLE: &str = "
    CREATE TABLE t (id int PRIMARY KEY, late int UNIQUE DEFERRABLE INITIALLY DEFERRED,
        soon int UNIQUE DEFERRABLE, pad text DEFAULT '');
    CREATE INDEX ON t (pad)";
/// Rows of each session that changes its own.
const OWN: u32 = 6;

fn rounds() -> u64 {
    let rounds = std::env::var("EVENKEEL_UNIQUE_KEY_ROUNDS");
    rounds.ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

async fn done(session: &mut Session, sql: &str) {
    if let Err(error) = run(session, sql).await {
        panic!("{sql}: {} {error}", error.sqlstate.as_str());
    }
}

/// Moves the keys of two of a session's rows, or of all, around: at the end they are others than
/// each other's.
async fn swap(session: &mut Session, rng: &mut StdRng, first: u32) {
    let (a, b) = (rng.random_range(0..OWN), rng.random_range(0..OWN));
    let (a, b, end) = (first + a, first + b, first + OWN - 1);
    let column = ["late", "soon"][rng.random_range(0..2)];
    let deferred = column == "late";
    match rng.random_range(0..4) {
        0 if deferred => {
            let old = one(session, &format!("SELECT late FROM t WHERE id = {a}")).await;
            let sql = format!("UPDATE t SET late = (SELECT late FROM t WHERE id = {b})");
            done(session, &format!("{sql} WHERE id = {a}")).await;
            if a != b {
                done(
                    session,
                    &format!("UPDATE t SET late = {old} WHERE id = {b}"),
                )
                .await;
            }
        }
        1 => {
            let turned = format!("(x.{column} - {first} + 1) % {OWN} + {first}");
            let sql = format!("UPDATE t x SET {column} = {turned}");
            done(
                session,
                &format!("{sql} WHERE id BETWEEN {first} AND {end}"),
            )
            .await;
        }
        2 => {
            let other = format!("SELECT {column} FROM t o WHERE o.id = {a} + {b} - x.id");
            let sql = format!("UPDATE t x SET {column} = ({other}), pad = pad || 'x'");
            done(session, &format!("{sql} WHERE id IN ({a}, {b})")).await;
        }
        _ => {
            let sql = format!("DELETE FROM t WHERE id = {a} RETURNING late, soon");
            let gone = run(session, &sql).await.unwrap().0.remove(0);
            let (late, soon) = gone.split_once('|').unwrap();
            done(
                session,
                &format!("INSERT INTO t VALUES ({a}, {late}, {soon})"),
            )
            .await;
        }
    }
}

async fn swaps_of_one(engine: &Arc<SqlEngine>, rng: &mut StdRng, first: u32) {
    let mut session = session(engine);
    for _ in 0..rounds() {
        done(&mut session, "BEGIN").await;
        for _ in 0..rng.random_range(1..4) {
            swap(&mut session, rng, first).await;
            if rng.random_ratio(1, 3) {
                done(&mut session, "SAVEPOINT s").await;
                // Rows that are there twice for a while.
                let end = first + OWN - 1;
                let sql = format!("UPDATE t SET late = {first} WHERE id BETWEEN {first} AND {end}");
                if rng.random_bool(0.5) {
                    done(&mut session, &sql).await;
                }
                done(&mut session, "ROLLBACK TO s").await;
            }
            if rng.random_ratio(1, 5) {
                done(&mut session, "SET CONSTRAINTS ALL IMMEDIATE").await;
                done(&mut session, "SET CONSTRAINTS t_late_key DEFERRED").await;
            }
        }
        let end = ["COMMIT", "ROLLBACK"][usize::from(rng.random_ratio(1, 5))];
        done(&mut session, end).await;
    }
}

async fn assert_unique(session: &mut Session) {
    let sql = "SELECT count(*) - count(DISTINCT late), count(*) - count(DISTINCT soon) FROM t";
    assert_eq!(run(session, sql).await.unwrap().0, ["0|0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keys_that_are_swapped_under_a_deferrable_index_stay_unique() {
    let first = rand::random::<u32>();
    println!("first seed {first}");
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, TABLE).await.unwrap();
    let rows = format!(
        "INSERT INTO t SELECT g, g, g FROM generate_series(0, {}) g",
        6 * OWN - 1
    );
    run(&mut main, &rows).await.unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let watch = {
        let (engine, ended) = (Arc::clone(&engine), Arc::clone(&ended));
        tokio::spawn(async move {
            let mut session = session(&engine);
            while !ended.load(Ordering::Relaxed) {
                assert_unique(&mut session).await;
                tokio::task::yield_now().await;
            }
        })
    };
    let sessions = (0..6u32).map(|number| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            let mut rng = StdRng::seed_from_u64(u64::from(first) + u64::from(number));
            swaps_of_one(&engine, &mut rng, number * OWN).await;
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
    ended.store(true, Ordering::Relaxed);
    watch.await.unwrap();
    assert_unique(&mut main).await;
    let there = format!(
        "SELECT count(*) FROM t WHERE late < {0} AND soon < {0}",
        6 * OWN
    );
    assert_eq!(one(&mut main, &there).await, (6 * OWN).to_string());
    assert!(engine.database().locks().is_empty());
}

/// Whether a statement succeeded; a failure that is none of those expected ends the test.
async fn tried(session: &mut Session, sql: &str) -> bool {
    match run(session, sql).await {
        Ok(_) => true,
        Err(error) => {
            let code = error.sqlstate.as_str();
            assert!(
                ["23505", "40001", "40P01"].contains(&code),
                "{sql}: {code} {error}"
            );
            false
        }
    }
}

async fn contend(session: &mut Session, rng: &mut StdRng) -> bool {
    let level = ["READ COMMITTED", "REPEATABLE READ"][usize::from(rng.random_ratio(1, 4))];
    done(session, &format!("BEGIN ISOLATION LEVEL {level}")).await;
    let mut saved = false;
    for _ in 0..rng.random_range(1..5) {
        if rng.random_ratio(1, 3) {
            done(session, "SAVEPOINT s").await;
            saved = true;
        }
        let (a, b) = (rng.random_range(0..12), rng.random_range(0..12));
        let id = rng.random::<u32>() >> 1;
        let sql = match rng.random_range(0..7) {
            0 | 1 => format!("INSERT INTO t VALUES ({id}, {a}, {b})"),
            2 => format!("DELETE FROM t WHERE late = {a}"),
            3 => format!("UPDATE t SET late = {b} WHERE late = {a}"),
            4 => format!("UPDATE t SET soon = 12 - soon WHERE late <> {a}"),
            5 => format!("UPDATE t SET pad = pad || 'x' WHERE soon = {a}"),
            _ => "SET CONSTRAINTS ALL IMMEDIATE".to_owned(),
        };
        let went = tried(session, &sql).await;
        if saved && (!went || rng.random_ratio(1, 4)) {
            done(session, "ROLLBACK TO s").await;
        } else if !went {
            break;
        }
    }
    let end = ["COMMIT", "ROLLBACK"][usize::from(rng.random_ratio(1, 5))];
    tried(session, end).await && end == "COMMIT"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_that_contend_for_keys_commit_no_two_rows_with_one() {
    let first = rand::random::<u32>();
    println!("first seed {first}");
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, TABLE).await.unwrap();
    let committed = Arc::new(AtomicU64::new(0));
    let sessions = (0..6u64).map(|number| {
        let (engine, committed) = (Arc::clone(&engine), Arc::clone(&committed));
        tokio::spawn(async move {
            let mut rng = StdRng::seed_from_u64(u64::from(first) + number);
            let mut session = session(&engine);
            done(&mut session, "SET deadlock_timeout = '20ms'").await;
            for _ in 0..rounds() {
                if contend(&mut session, &mut rng).await {
                    committed.fetch_add(1, Ordering::Relaxed);
                }
                assert_unique(&mut session).await;
            }
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
    assert!(
        committed.load(Ordering::Relaxed) > rounds() / 2,
        "few have committed"
    );
    assert_unique(&mut main).await;
    assert!(engine.database().locks().is_empty());
}

/// The second session's outcome, where the first one ends in this way once the second waits.
async fn second_of_two(sql: &'static str, end: &str) -> SqlResult<String> {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, TABLE).await.unwrap();
    run(&mut main, "BEGIN; INSERT INTO t VALUES (1, 1, 1)")
        .await
        .unwrap();
    let other = background(&engine, sql);
    until_blocked(&engine).await;
    run(&mut main, end).await.unwrap();
    let outcome = other.await.unwrap();
    assert_unique(&mut main).await;
    outcome
}

#[tokio::test]
async fn the_second_of_two_sessions_with_one_key_waits_when_it_looks_again() {
    // At the end of the statement, at COMMIT, and at SET CONSTRAINTS.
    let soon = "INSERT INTO t VALUES (2, 2, 1)";
    let late = "BEGIN; INSERT INTO t VALUES (2, 1, 2); SELECT 1; COMMIT";
    let said = "BEGIN; INSERT INTO t VALUES (2, 1, 2); SET CONSTRAINTS ALL IMMEDIATE; COMMIT";
    let copied = "COPY (SELECT 1) TO STDOUT; INSERT INTO t SELECT 3, 3, 1";
    for sql in [soon, late, said, copied] {
        let refused = second_of_two(sql, "COMMIT").await.unwrap_err();
        assert_eq!(refused.sqlstate.as_str(), "23505", "{sql}");
        let column = ["soon", "late"][usize::from(sql == late || sql == said)];
        let detail = format!("Key ({column})=(1) already exists.");
        assert_eq!(refused.fields.detail.as_deref(), Some(&*detail));
        second_of_two(sql, "ROLLBACK").await.unwrap();
        second_of_two(sql, "DELETE FROM t WHERE id = 1; COMMIT")
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_fixed_snapshot_does_not_hide_a_key_that_others_have() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, TABLE).await.unwrap();
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t";
    run(&mut main, begin).await.unwrap();
    let mut other = session(&engine);
    run(&mut other, "INSERT INTO t VALUES (1, 1, 1)")
        .await
        .unwrap();
    run(&mut main, "INSERT INTO t VALUES (2, 1, 2)")
        .await
        .unwrap();
    let refused = run(&mut main, "COMMIT").await.unwrap_err();
    assert_eq!(refused.sqlstate.as_str(), "23505");
    assert_unique(&mut main).await;
}

/// A change of a deferrable key, to which nobody can refer, passes the locks of those who refer to
/// another key of the row.
#[tokio::test]
async fn a_deferrable_key_is_none_that_others_hold() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, TABLE).await.unwrap();
    run(&mut main, "INSERT INTO t VALUES (1, 1, 1)")
        .await
        .unwrap();
    let locked = run(&mut main, "BEGIN; SELECT id FROM t FOR KEY SHARE").await;
    assert_eq!(locked.unwrap().0, ["1"]);
    let mut other = session(&engine);
    run(&mut other, "SET lock_timeout = '2s'").await.unwrap();
    run(&mut other, "UPDATE t SET soon = 5, late = 6")
        .await
        .unwrap();
    let refused = run(&mut other, "SET lock_timeout = '10ms'; UPDATE t SET id = 2").await;
    assert_eq!(refused.unwrap_err().sqlstate.as_str(), "55P03");
}
