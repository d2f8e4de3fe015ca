//! LISTEN and NOTIFY between sessions.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::{Config, Database};
use evenkeel_io::SimDisk;
use evenkeel_settings::Configuration;
use evenkeel_sql::{Session, SessionParams, SqlConfig, SqlEngine};

use crate::harness::{one, open, run, session};

/// The channels and payloads that have come to a session.
fn heard(session: &mut Session) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        let some = session.take_notifications();
        if some.is_empty() {
            return heard;
        }
        let texts = some.iter().map(|notification| &notification.message);
        heard.extend(texts.map(|message| format!("{}:{}", message.channel, message.payload)));
    }
}

async fn usage(session: &mut Session) -> f64 {
    let usage = one(session, "SELECT pg_notification_queue_usage()").await;
    usage.parse().unwrap()
}

#[tokio::test]
async fn notifications_come_with_the_commit_and_in_its_order() {
    let engine = open();
    let (mut a, mut b, mut c) = (session(&engine), session(&engine), session(&engine));
    run(&mut a, "LISTEN x; LISTEN y").await.unwrap();
    run(
        &mut b,
        "BEGIN; NOTIFY x, 'of b'; NOTIFY x, 'of b'; NOTIFY y",
    )
    .await
    .unwrap();
    run(&mut c, "NOTIFY x, 'of c'; NOTIFY z").await.unwrap();
    assert_eq!(heard(&mut a), ["x:of c"]);
    run(&mut b, "COMMIT").await.unwrap();
    assert_eq!(heard(&mut a), ["x:of b", "y:"]);
    // None of a transaction or a savepoint that is rolled back, also by a failed commit.
    run(
        &mut b,
        "BEGIN; NOTIFY x, '1'; SAVEPOINT s; NOTIFY x, '1'; NOTIFY x, '2'; ROLLBACK TO s;
         NOTIFY x, '3'; SAVEPOINT t; NOTIFY x, '2'; RELEASE t; COMMIT",
    )
    .await
    .unwrap();
    run(&mut b, "BEGIN; NOTIFY x; ROLLBACK").await.unwrap();
    run(&mut b, "NOTIFY x; SELECT 1/0").await.unwrap_err();
    run(
        &mut b,
        "CREATE TABLE t (a int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)",
    )
    .await
    .unwrap();
    let failed = "BEGIN; NOTIFY x; INSERT INTO t VALUES (1), (1); COMMIT";
    run(&mut b, failed).await.unwrap_err();
    assert_eq!(heard(&mut a), ["x:1", "x:3", "x:2"]);
    // A session that is in a transaction is told at its end; its own are among them.
    run(&mut a, "BEGIN; NOTIFY y, 'own'").await.unwrap();
    run(&mut b, "INSERT INTO t VALUES (1); NOTIFY y, 'other'")
        .await
        .unwrap();
    assert!(heard(&mut a).is_empty());
    run(&mut a, "COMMIT").await.unwrap();
    assert_eq!(heard(&mut a), ["y:other", "y:own"]);
    assert!(usage(&mut a).await == 0.0);
}

#[tokio::test]
async fn listening_begins_and_ends_with_the_commit() {
    let engine = open();
    let (mut a, mut b) = (session(&engine), session(&engine));
    run(
        &mut a,
        "BEGIN; LISTEN x; SAVEPOINT s; LISTEN y; ROLLBACK TO s",
    )
    .await
    .unwrap();
    run(&mut b, "NOTIFY x, 'early'").await.unwrap();
    let listened = "SELECT string_agg(c, ' ') FROM pg_listening_channels() c";
    assert_eq!(one(&mut a, listened).await, "NULL");
    run(&mut a, "NOTIFY x, 'own'; COMMIT").await.unwrap();
    run(&mut b, "NOTIFY x; NOTIFY y").await.unwrap();
    assert_eq!(heard(&mut a), ["x:own", "x:"]);
    run(&mut a, "LISTEN y; LISTEN x").await.unwrap();
    assert_eq!(one(&mut a, listened).await, "x y");
    run(&mut a, "BEGIN; UNLISTEN x").await.unwrap();
    run(&mut b, "NOTIFY x; NOTIFY y").await.unwrap();
    run(&mut a, "COMMIT").await.unwrap();
    assert_eq!(heard(&mut a), ["y:"]);
    run(&mut a, "LISTEN x").await.unwrap();
    run(&mut a, "BEGIN; UNLISTEN *; ROLLBACK").await.unwrap();
    assert_eq!(one(&mut a, listened).await, "y x");
    for ended in ["UNLISTEN *", "DISCARD ALL"] {
        run(&mut a, "LISTEN x").await.unwrap();
        run(&mut a, ended).await.unwrap();
        run(&mut b, "NOTIFY x").await.unwrap();
        assert!(heard(&mut a).is_empty());
        assert_eq!(one(&mut a, listened).await, "NULL");
    }
}

#[tokio::test]
async fn a_database_hears_nothing_of_another() {
    let engine = open();
    let mut a = session(&engine);
    run(&mut a, "CREATE DATABASE other").await.unwrap();
    let params = SessionParams {
        user: "tester".into(),
        database: "other".into(),
        ..SessionParams::default()
    };
    let mut other = engine.session(params).unwrap();
    for session in [&mut a, &mut other] {
        run(session, "LISTEN x").await.unwrap();
    }
    run(&mut a, "NOTIFY x, 'a'").await.unwrap();
    run(&mut other, "NOTIFY x, 'other'").await.unwrap();
    assert_eq!(heard(&mut a), ["x:a"]);
    assert_eq!(heard(&mut other), ["x:other"]);
}

#[tokio::test]
async fn a_waiting_session_is_woken() {
    let engine = open();
    let (mut a, mut b) = (session(&engine), session(&engine));
    run(&mut a, "LISTEN x").await.unwrap();
    let woken = tokio::spawn(a.notified());
    run(&mut b, "NOTIFY y").await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!woken.is_finished());
    run(&mut b, "CREATE TABLE t (); NOTIFY x").await.unwrap();
    woken.await.unwrap();
    assert_eq!(heard(&mut a), ["x:"]);
}

/// Two notifications per transaction, of which half wait for the disk: the first says a number that
/// a lock on a row puts in the order of the commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_hear_all_commits_in_the_order_of_the_commits() {
    const SENDERS: i32 = 6;
    const TURNS: i32 = 60;
    let engine = open();
    let mut listeners = Vec::new();
    for _ in 0..3 {
        let mut listener = session(&engine);
        run(&mut listener, "LISTEN number; LISTEN other")
            .await
            .unwrap();
        listeners.push(listener);
    }
    let mut first = session(&engine);
    run(
        &mut first,
        "CREATE TABLE n (n int); INSERT INTO n VALUES (0)",
    )
    .await
    .unwrap();
    let sender = |number: i32| {
        let mut session = session(&engine);
        tokio::spawn(async move {
            let durable = if number % 2 == 0 { "on" } else { "off" };
            let set = format!("SET synchronous_commit = {durable}");
            run(&mut session, &set).await.unwrap();
            for turn in 0..TURNS {
                let sql = format!(
                    "BEGIN; UPDATE n SET n = n + 1; SELECT pg_notify('number', n::text) FROM n;
                     NOTIFY other, '{number}-{turn}'; COMMIT"
                );
                run(&mut session, &sql).await.unwrap();
            }
        })
    };
    let senders: Vec<_> = (0..SENDERS).map(sender).collect();
    for sender in senders {
        sender.await.unwrap();
    }
    let mut all = Vec::new();
    for listener in &mut listeners {
        let heard = heard(listener);
        let numbers = heard.iter().filter_map(|text| text.strip_prefix("number:"));
        let numbers: Vec<i32> = numbers.map(|text| text.parse().unwrap()).collect();
        assert_eq!(numbers, Vec::from_iter(1..=SENDERS * TURNS));
        assert_eq!(heard.len(), 2 * numbers.len());
        all.push(heard);
    }
    assert!(all.iter().all(|heard| *heard == all[0]));
    assert!(usage(&mut first).await == 0.0);
}

fn small_queue() -> Arc<SqlEngine> {
    let disk = Arc::new(SimDisk::new(1));
    let db = Database::open(disk, "/data".as_ref(), Config::default()).unwrap();
    let settings = Arc::new(Configuration::of(&[("max_notify_queue_pages", "64")]).unwrap());
    let config = SqlConfig {
        settings,
        ..SqlConfig::default()
    };
    SqlEngine::open(db, config).unwrap()
}

#[tokio::test]
async fn the_queue_is_bounded_and_emptied_when_it_is_read() {
    const FILL: &str = "SELECT count(pg_notify('x', repeat('a', 7000) || n))
        FROM generate_series(1, 60) n";
    let engine = small_queue();
    let (mut a, mut b, mut idle) = (session(&engine), session(&engine), session(&engine));
    // Nobody listens, so nothing is kept.
    for _ in 0..3 {
        run(&mut b, FILL).await.unwrap();
    }
    run(&mut idle, "LISTEN y").await.unwrap();
    run(&mut a, "LISTEN x").await.unwrap();
    run(&mut a, "BEGIN").await.unwrap();
    run(&mut b, FILL).await.unwrap();
    assert!(usage(&mut b).await > 0.7);
    let full = run(&mut b, FILL).await.unwrap_err();
    assert_eq!(full.sqlstate.as_str(), "54000");
    assert_eq!(&*full.message, "too many notifications in the NOTIFY queue");
    assert_eq!(one(&mut b, "SELECT 1").await, "1");
    run(&mut a, "COMMIT").await.unwrap();
    assert_eq!(heard(&mut a).len(), 60);
    assert!(usage(&mut b).await == 0.0);
    // A session that ends takes its place along.
    run(&mut a, "BEGIN").await.unwrap();
    run(&mut b, FILL).await.unwrap();
    drop(a);
    assert!(usage(&mut b).await == 0.0);
    assert!(heard(&mut idle).is_empty());
}

/// SESS-12.
#[tokio::test]
async fn pending_notifications_are_charged_to_the_session() {
    let disk = Arc::new(SimDisk::new(1));
    let db = Database::open(disk, "/data".as_ref(), Config::default()).unwrap();
    let config = SqlConfig {
        session_memory: 16 << 20,
        ..SqlConfig::default()
    };
    let engine = SqlEngine::open(db, config).unwrap();
    let mut a = session(&engine);
    let many =
        "SELECT count(pg_notify('x', repeat('a', 7000) || n)) FROM generate_series(1, 9999) n";
    let refused = run(&mut a, many).await.unwrap_err();
    assert_eq!(refused.sqlstate.as_str(), "53200");
    run(&mut a, "SELECT pg_notify('x', 'a')").await.unwrap();
}
