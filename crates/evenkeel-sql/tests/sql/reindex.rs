//! REINDEX beside other sessions.

use std::sync::Arc;

use crate::harness::{one, open, run, session};

#[tokio::test]
async fn an_index_that_is_made_anew_is_right_for_older_snapshots() {
    let engine = open();
    let mut main = session(&engine);
    run(
        &mut main,
        "CREATE TABLE t (a int, c int); CREATE TABLE o (x int)",
    )
    .await
    .unwrap();
    let rows = "INSERT INTO t SELECT g, g FROM generate_series(1, 20) g";
    run(&mut main, rows).await.unwrap();
    let mut old = session(&engine);
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM o";
    run(&mut old, begin).await.unwrap();
    for sql in [
        "UPDATE t SET c = c + 100",
        "CREATE INDEX i ON t (c)",
        "REINDEX TABLE t",
    ] {
        run(&mut main, sql).await.unwrap();
    }
    let waits = "SELECT indcheckxmin FROM pg_index WHERE indexrelid = 'i'::regclass";
    assert_eq!(one(&mut main, waits).await, "t");
    run(&mut old, "SET enable_seqscan = off").await.unwrap();
    assert_eq!(one(&mut old, "SELECT a FROM t WHERE c = 7").await, "7");
    run(&mut old, "COMMIT").await.unwrap();
    run(&mut main, "REINDEX INDEX i").await.unwrap();
    assert_eq!(one(&mut main, waits).await, "f");
    assert_eq!(one(&mut old, "SELECT a FROM t WHERE c = 107").await, "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_are_found_while_indexes_are_made_anew() {
    let engine = open();
    let mut main = session(&engine);
    run(
        &mut main,
        "CREATE TABLE t (a int PRIMARY KEY, c int UNIQUE)",
    )
    .await
    .unwrap();
    let rows = "INSERT INTO t SELECT g, g FROM generate_series(1, 200) g";
    run(&mut main, rows).await.unwrap();
    let workers = (0..4u32).map(|number| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            let mut session = session(&engine);
            for round in 0..100u32 {
                let a = (number * 50 + round % 50) + 1;
                let change = format!("UPDATE t SET c = c + 1000 WHERE a = {a}");
                run(&mut session, &change).await.unwrap();
                let back = format!("UPDATE t SET c = c - 1000 WHERE c = {}", a + 1000);
                assert_eq!(run(&mut session, &back).await.unwrap().1, "UPDATE 1");
                let found = format!("SELECT c FROM t WHERE a = {a}");
                assert_eq!(one(&mut session, &found).await, a.to_string());
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    for sql in [
        "REINDEX TABLE t",
        "REINDEX INDEX t_c_key",
        "REINDEX SCHEMA public",
    ]
    .repeat(8)
    {
        run(&mut main, sql).await.unwrap();
    }
    for worker in workers {
        worker.await.unwrap();
    }
    let sum = "SELECT count(*) FROM t WHERE a = c";
    assert_eq!(one(&mut main, sum).await, "200");
}
