//! Foreign keys under sessions that insert, delete and change keys at once: never an orphan, never
//! a lock that stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_sql::{Session, SqlEngine};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::harness::{open, run, session};

/// Tables with every kind of action; keys are few, so that sessions meet.
const TABLES: &str = "
    CREATE TABLE p (id int PRIMARY KEY, n int DEFAULT 0);
    CREATE TABLE keeps (id serial PRIMARY KEY, p int REFERENCES p);
    CREATE TABLE follows (id serial PRIMARY KEY,
        p int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE lets (id serial PRIMARY KEY,
        p int REFERENCES p ON DELETE SET NULL ON UPDATE SET NULL);
    CREATE TABLE late (id serial PRIMARY KEY,
        p int REFERENCES p DEFERRABLE INITIALLY DEFERRED);
    CREATE INDEX ON keeps (p);
    CREATE INDEX ON follows (p);
    INSERT INTO p SELECT g FROM generate_series(1, 8) g;
    SET deadlock_timeout = '20ms'";
const CHILDREN: [&str; 4] = ["keeps", "follows", "lets", "late"];
const KEYS: u32 = 16;

/// Failures that a transaction may have here: conflicts with others, and what the keys refuse.
fn is_expected(code: &str) -> bool {
    ["23503", "23505", "40001", "40P01"].contains(&code)
}

fn statement(rng: &mut StdRng) -> String {
    let (a, b) = (rng.random_range(1..=KEYS), rng.random_range(1..=KEYS));
    let child = CHILDREN[rng.random_range(0..CHILDREN.len())];
    match rng.random_range(0..12) {
        0 | 1 => format!("INSERT INTO p VALUES ({a})"),
        2 => format!("DELETE FROM p WHERE id = {a}"),
        3 => format!("UPDATE p SET id = {b} WHERE id = {a}"),
        4 | 5 => format!("UPDATE p SET n = n + 1 WHERE id = {a}"),
        6 => format!("DELETE FROM {child} WHERE p = {a}"),
        7 => format!("UPDATE {child} SET p = {b} WHERE p = {a}"),
        8 => format!("SELECT n FROM p WHERE id = {a} FOR UPDATE"),
        _ => format!("INSERT INTO {child} (p) VALUES ({a})"),
    }
}

/// Whether a statement succeeded; a failure that is none of those expected ends the test.
async fn tried(session: &mut Session, sql: &str) -> bool {
    match run(session, sql).await {
        Ok(_) => true,
        Err(error) => {
            let code = error.sqlstate.as_str();
            assert!(is_expected(code), "{sql}: {code} {error}");
            false
        }
    }
}

async fn transaction(session: &mut Session, rng: &mut StdRng) -> bool {
    let level = ["READ COMMITTED", "REPEATABLE READ"][usize::from(rng.random_ratio(1, 4))];
    let begin = format!("BEGIN ISOLATION LEVEL {level}");
    run(session, &begin).await.unwrap();
    let mut saved = false;
    for _ in 0..rng.random_range(1..5) {
        if rng.random_ratio(1, 3) {
            run(session, "SAVEPOINT s").await.unwrap();
            saved = true;
        }
        let done = tried(session, &statement(rng)).await;
        if saved && (!done || rng.random_ratio(1, 4)) {
            run(session, "ROLLBACK TO s").await.unwrap();
        } else if !done {
            break;
        }
    }
    let end = if rng.random_ratio(1, 5) {
        "ROLLBACK"
    } else {
        "COMMIT"
    };
    tried(session, end).await && end == "COMMIT"
}

async fn assert_no_orphans(engine: &Arc<SqlEngine>) {
    let mut main = session(engine);
    for child in CHILDREN {
        let sql = format!(
            "SELECT c.p FROM {child} c LEFT JOIN p ON p.id = c.p \
             WHERE c.p IS NOT NULL AND p.id IS NULL"
        );
        let (orphans, _) = run(&mut main, &sql).await.unwrap();
        assert_eq!(orphans, [] as [String; 0], "orphans in {child}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_leave_no_orphan_and_no_lock() {
    let rounds = std::env::var("EVENKEEL_FOREIGN_KEY_ROUNDS");
    let rounds: u64 = rounds.ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let first = rand::random::<u32>();
    println!("first seed {first}");
    let engine = open();
    run(&mut session(&engine), TABLES).await.unwrap();
    let committed = Arc::new(AtomicU64::new(0));
    let sessions = (0..8u64).map(|number| {
        let (engine, committed) = (Arc::clone(&engine), Arc::clone(&committed));
        tokio::spawn(async move {
            let mut rng = StdRng::seed_from_u64(u64::from(first) + number);
            let mut session = session(&engine);
            run(&mut session, "SET deadlock_timeout = '20ms'")
                .await
                .unwrap();
            for _ in 0..rounds {
                if transaction(&mut session, &mut rng).await {
                    committed.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
    assert!(
        committed.load(Ordering::Relaxed) > rounds,
        "few have committed"
    );
    assert_no_orphans(&engine).await;
    assert!(engine.database().locks().is_empty());
}

/// Two sessions that insert children of one row can both change the row: their locks are
/// KEY SHARE, and a change of other columns passes those.
#[tokio::test]
async fn children_of_one_row_do_not_keep_it_from_being_changed() {
    let engine = open();
    let mut a = session(&engine);
    run(&mut a, TABLES).await.unwrap();
    let mut b = session(&engine);
    run(&mut b, "SET lock_timeout = '2s'").await.unwrap();
    run(&mut a, "BEGIN; INSERT INTO keeps (p) VALUES (1)")
        .await
        .unwrap();
    run(&mut b, "BEGIN; INSERT INTO keeps (p) VALUES (1)")
        .await
        .unwrap();
    run(&mut b, "UPDATE p SET n = 5 WHERE id = 1; COMMIT")
        .await
        .unwrap();
    let refused = run(
        &mut b,
        "SET lock_timeout = '10ms'; DELETE FROM p WHERE id = 1",
    )
    .await;
    assert_eq!(refused.unwrap_err().sqlstate.as_str(), "55P03");
    run(&mut a, "UPDATE p SET n = 6 WHERE id = 1; COMMIT")
        .await
        .unwrap();
    assert!(engine.database().locks().is_empty());
}
