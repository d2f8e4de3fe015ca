//! Visibility and blocking between sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_sql::SqlEngine;
use tokio::task::JoinHandle;

use crate::harness::{background, open, run, session, until_blocked};

async fn table_with_a_row() -> (Arc<SqlEngine>, evenkeel_sql::Session) {
    let engine = open();
    let mut main = session(&engine);
    let sql = "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 10), (2, 20)";
    run(&mut main, sql).await.unwrap();
    (engine, main)
}

async fn number(session: &mut evenkeel_sql::Session) -> String {
    run(session, "SELECT n FROM t WHERE id = 1")
        .await
        .unwrap()
        .0
        .remove(0)
}

async fn count_on_newest(update: &'static str) -> (String, String) {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "BEGIN; UPDATE t SET n = n + 5 WHERE id = 1")
        .await
        .unwrap();
    let other = background(&engine, update);
    until_blocked(&engine).await;
    run(&mut main, "COMMIT").await.unwrap();
    let tag = other.await.unwrap().unwrap();
    (tag, number(&mut main).await)
}

#[tokio::test]
async fn an_update_counts_on_the_newest_version() {
    let by_key = count_on_newest("UPDATE t SET n = n + 1 WHERE id = 1").await;
    assert_eq!(by_key, ("UPDATE 1".into(), "16".into()));
    let by_scan = count_on_newest("UPDATE t SET n = n + 1 WHERE n < 20").await;
    assert_eq!(by_scan, ("UPDATE 1".into(), "16".into()));
    // The newest version no longer fits the condition.
    let no_more = count_on_newest("UPDATE t SET n = n + 1 WHERE id = 1 AND n = 10").await;
    assert_eq!(no_more, ("UPDATE 0".into(), "15".into()));
}

#[tokio::test]
async fn a_planned_update_starts_over() {
    let update = "UPDATE t SET n = t.n + x.k FROM (VALUES (1, 1), (2, 1)) AS x(id, k) \
                  WHERE t.id = x.id";
    let (tag, n) = count_on_newest(update).await;
    assert_eq!((tag.as_str(), n.as_str()), ("UPDATE 2", "16"));
}

const PLANNED: &str = "UPDATE t SET n = t.n + 100 WHERE id IN (SELECT max(id) - 1 FROM t)";

#[tokio::test]
async fn a_planned_update_that_starts_over_keeps_the_row_it_waited_for() {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "BEGIN; UPDATE t SET n = n + 5 WHERE id = 1")
        .await
        .unwrap();
    let mut planned = session(&engine);
    let planned = tokio::spawn(async move {
        run(&mut planned, "BEGIN").await.unwrap();
        let tag = run(&mut planned, PLANNED).await.unwrap().1;
        (planned, tag)
    });
    until_blocked(&engine).await;
    let next = background(&engine, "UPDATE t SET n = n + 1 WHERE id = 1");
    while engine.database().txn_statistics().waiting < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    run(&mut main, "COMMIT").await.unwrap();
    let (mut planned, tag) = planned.await.unwrap();
    assert_eq!(tag, "UPDATE 1");
    assert!(!next.is_finished(), "nobody got in between");
    run(&mut planned, "COMMIT").await.unwrap();
    assert_eq!(next.await.unwrap().unwrap(), "UPDATE 1");
    assert_eq!(number(&mut main).await, "116");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_planned_update_finishes_among_many_others_of_its_row() {
    let (engine, mut main) = table_with_a_row().await;
    let stop = Arc::new(AtomicBool::new(false));
    let others: Vec<JoinHandle<u32>> = (0..4)
        .map(|_| {
            let (mut session, stop) = (session(&engine), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut updates = 0;
                while !stop.load(Ordering::Relaxed) {
                    let update = "UPDATE t SET n = n + 1 WHERE id = 1";
                    run(&mut session, update).await.unwrap();
                    updates += 1;
                }
                updates
            })
        })
        .collect();
    for _ in 0..20 {
        let update = tokio::time::timeout(Duration::from_secs(60), run(&mut main, PLANNED));
        let (_, tag) = update.await.expect("it finishes").unwrap();
        assert_eq!(tag, "UPDATE 1");
    }
    stop.store(true, Ordering::Relaxed);
    let mut expected = 10 + 20 * 100;
    for other in others {
        expected += other.await.unwrap();
    }
    assert_eq!(number(&mut main).await, expected.to_string());
}

/// EXEC-9: on one thread, so that nobody could cancel it if it did not let go.
#[tokio::test]
async fn a_planned_change_of_many_rows_lets_others_run_and_can_be_cancelled() {
    let (engine, mut main) = table_with_a_row().await;
    run(
        &mut main,
        "INSERT INTO t SELECT g, 0 FROM generate_series(3, 8000) g",
    )
    .await
    .unwrap();
    let changes = [
        "UPDATE t SET n = t.n + 1 FROM (SELECT id FROM t ORDER BY n, id) x WHERE x.id = t.id",
        "DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY n, id)",
        "INSERT INTO t SELECT id + 100000, n FROM t ORDER BY n, id",
    ];
    for change in changes {
        let before = engine.database().next_xid();
        let handle = Arc::clone(main.backend());
        let other = Arc::clone(&engine);
        let cancel = tokio::spawn(async move {
            while other.database().next_xid() == before {
                tokio::task::yield_now().await;
            }
            handle.cancel();
        });
        let error = run(&mut main, change).await.expect_err(change);
        assert_eq!(error.sqlstate.as_str(), "57014", "{change}");
        cancel.await.unwrap();
    }
    let (rows, _) = run(&mut main, "SELECT count(*), sum(n) FROM t")
        .await
        .unwrap();
    assert_eq!(rows, ["8000|30"]);
}

#[tokio::test]
async fn a_deleted_row_is_not_updated() {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "BEGIN; DELETE FROM t WHERE id = 1")
        .await
        .unwrap();
    let other = background(&engine, "UPDATE t SET n = 0 WHERE id = 1");
    until_blocked(&engine).await;
    run(&mut main, "COMMIT").await.unwrap();
    assert_eq!(other.await.unwrap().unwrap(), "UPDATE 0");
}

#[tokio::test]
async fn a_cancelled_statement_ends_with_57014() {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "BEGIN; UPDATE t SET n = 0 WHERE id = 1")
        .await
        .unwrap();
    let mut waiting = session(&engine);
    let handle = Arc::clone(waiting.backend());
    let update = tokio::spawn(async move {
        run(&mut waiting, "UPDATE t SET n = 1 WHERE id = 1")
            .await
            .map(|(_, tag)| tag)
    });
    until_blocked(&engine).await;
    handle.cancel();
    let error = update.await.unwrap().unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "57014");
    assert_eq!(&*error.message, "canceling statement due to user request");

    let mut impatient = session(&engine);
    let sql = "SET statement_timeout = 20; UPDATE t SET n = 1 WHERE id = 1";
    let error = run(&mut impatient, sql).await.unwrap_err();
    assert_eq!(
        &*error.message,
        "canceling statement due to statement timeout"
    );
}

#[tokio::test]
async fn lock_timeout_ends_waits_for_every_kind_of_lock() {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "CREATE TABLE u (id int PRIMARY KEY)")
        .await
        .unwrap();
    let held = "BEGIN; UPDATE t SET n = 0 WHERE id = 1; INSERT INTO t VALUES (3, 0);
        LOCK TABLE u IN SHARE ROW EXCLUSIVE MODE";
    run(&mut main, held).await.unwrap();
    let mut other = session(&engine);
    for sql in [
        "UPDATE t SET n = 1 WHERE id = 1",
        "UPDATE t SET n = n + 1 WHERE n < 20",
        "DELETE FROM t WHERE id = 1",
        "SELECT * FROM t WHERE id = 1 FOR SHARE",
        "INSERT INTO t VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET n = 1",
        "INSERT INTO t VALUES (3, 1)",
        "DROP TABLE t",
        "CREATE INDEX ON t (n)",
        "ALTER TABLE u ADD COLUMN n int",
        "TRUNCATE t",
        "VACUUM u",
        "ANALYZE u",
    ] {
        // Within the same query text the setting counts at once.
        let block = !sql.starts_with("VACUUM");
        let begin = if block { "BEGIN; SELECT 1;" } else { "" };
        run(&mut other, &format!("{begin} SET lock_timeout = '20ms'"))
            .await
            .unwrap();
        let error = run(&mut other, sql).await.unwrap_err();
        assert_eq!(error.sqlstate.as_str(), "55P03", "{sql}: {}", error.message);
        let message = "canceling statement due to lock timeout";
        assert_eq!(&*error.message, message, "{sql}");
        run(&mut other, if block { "ROLLBACK" } else { "SELECT 1" })
            .await
            .unwrap();
        run(&mut other, "SET lock_timeout = 0").await.unwrap();
    }
    let (shown, _) = run(&mut other, "SHOW deadlock_timeout").await.unwrap();
    assert_eq!(shown, ["1s"]);
}

#[tokio::test]
async fn a_deadlock_is_found_after_deadlock_timeout() {
    let (engine, mut main) = table_with_a_row().await;
    run(
        &mut main,
        "SET deadlock_timeout = '10s'; BEGIN; UPDATE t SET n = 1 WHERE id = 1",
    )
    .await
    .unwrap();
    let mut other = session(&engine);
    run(&mut other, "BEGIN; UPDATE t SET n = 2 WHERE id = 2")
        .await
        .unwrap();
    let waiting = tokio::spawn(async move {
        let done = run(&mut main, "UPDATE t SET n = 1 WHERE id = 2").await;
        done.map(|(_, tag)| tag)
    });
    until_blocked(&engine).await;
    let sql = "SET deadlock_timeout = '5ms'; UPDATE t SET n = 2 WHERE id = 1";
    let error = run(&mut other, sql).await.unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "40P01");
    run(&mut other, "ROLLBACK").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), "UPDATE 1");
}

#[tokio::test]
async fn what_is_refused_anyway_does_not_wait_for_a_lock() {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let mut other = session(&engine);
    for sql in [
        "UPDATE t SET n = 1",
        "SELECT * FROM t FOR UPDATE",
        "INSERT INTO t VALUES (9)",
    ] {
        run(&mut other, "BEGIN READ ONLY").await.unwrap();
        let error = run(&mut other, sql).await.unwrap_err();
        assert_eq!(error.sqlstate.as_str(), "25006", "{sql}");
        run(&mut other, "ROLLBACK").await.unwrap();
    }
}

#[tokio::test]
async fn row_locks_are_skipped_refused_or_waited_for() {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "BEGIN; SELECT * FROM t WHERE id = 1 FOR UPDATE")
        .await
        .unwrap();
    let mut other = session(&engine);
    let (rows, _) = run(&mut other, "SELECT id FROM t FOR UPDATE SKIP LOCKED")
        .await
        .unwrap();
    assert_eq!(rows, ["2"]);
    let nowait = "SELECT id FROM t WHERE id = 1 FOR SHARE NOWAIT";
    let error = run(&mut other, nowait).await.unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "55P03");
    let message = "could not obtain lock on row in relation \"t\"";
    assert_eq!(&*error.message, message);
    let nowait = "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE NOWAIT";
    let error = run(&mut other, nowait).await.unwrap_err();
    assert_eq!(&*error.message, "could not obtain lock on relation \"t\"");
    run(&mut other, "ROLLBACK").await.unwrap();
    let waiting = background(&engine, "SELECT id FROM t WHERE id = 1 FOR UPDATE");
    until_blocked(&engine).await;
    run(&mut main, "ROLLBACK").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), "SELECT 1");
}

#[tokio::test]
async fn a_dropped_table_is_gone_for_those_who_waited() {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "BEGIN; DROP TABLE t").await.unwrap();
    let reader = background(&engine, "SELECT n FROM t WHERE id = 1");
    until_blocked(&engine).await;
    run(&mut main, "COMMIT").await.unwrap();
    assert_eq!(
        reader.await.unwrap().unwrap_err().sqlstate.as_str(),
        "42P01"
    );
}

#[tokio::test]
async fn a_deadlock_fails_one_of_the_two() {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "BEGIN; UPDATE t SET n = 0 WHERE id = 1")
        .await
        .unwrap();
    let mut other = session(&engine);
    run(&mut other, "BEGIN; UPDATE t SET n = 0 WHERE id = 2")
        .await
        .unwrap();
    let crossing = tokio::spawn(async move {
        let outcome = run(&mut other, "UPDATE t SET n = 0 WHERE id = 1").await;
        outcome.map(|_| ()).map_err(|error| error.sqlstate.as_str())
    });
    until_blocked(&engine).await;
    let outcome = run(&mut main, "UPDATE t SET n = 0 WHERE id = 2").await;
    let mine = outcome.map(|_| ()).map_err(|error| error.sqlstate.as_str());
    run(&mut main, "ROLLBACK").await.unwrap();
    let theirs = crossing.await.unwrap();
    let failures = [mine, theirs]
        .into_iter()
        .filter(|o| *o == Err("40P01"))
        .count();
    assert_eq!(failures, 1, "{mine:?} {theirs:?}");
}

/// Rows that a HOT update replaced before an index on the changed column was made.
#[tokio::test]
async fn an_index_younger_than_a_snapshot_gives_it_the_rows_of_the_heap() {
    let engine = open();
    let (mut main, mut old) = (session(&engine), session(&engine));
    run(
        &mut main,
        "CREATE TABLE t (id int PRIMARY KEY, n int) WITH (fillfactor = 50); \
         INSERT INTO t SELECT i, i % 10 FROM generate_series(1, 100) i",
    )
    .await
    .unwrap();
    run(
        &mut old,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t",
    )
    .await
    .unwrap();
    // The first row has n = 3 now; the index has one entry for its chain.
    run(
        &mut main,
        "UPDATE t SET n = 3 WHERE id = 1; CREATE INDEX t_n ON t (n)",
    )
    .await
    .unwrap();
    let check = "SELECT indcheckxmin FROM pg_index WHERE indexrelid = 't_n'::regclass";
    assert_eq!(run(&mut main, check).await.unwrap().0, ["t"]);
    // The plan is kept: each session runs what the other has planned.
    for _ in 0..2 {
        for (n, before, now) in [(1, "1 11 21 31 41 51 61 71 81 91", 9), (3, "", 11)] {
            let sql = format!("SELECT id FROM t WHERE n = {n} ORDER BY id");
            let seen = run(&mut main, &sql).await.unwrap().0;
            assert_eq!(seen.len(), now, "n = {n}");
            let seen = run(&mut old, &sql).await.unwrap().0;
            match before {
                "" => assert!(seen.len() == 10 && !seen.contains(&"1".into()), "{seen:?}"),
                _ => assert_eq!(seen.join(" "), before),
            }
            let sql = format!("SELECT count(*) FROM t WHERE n BETWEEN {n} AND {n}");
            assert_eq!(run(&mut old, &sql).await.unwrap().0, ["10"]);
        }
    }
    let ordered = "SELECT n FROM t WHERE n >= 2 AND n <= 3 ORDER BY n LIMIT 11";
    let seen = run(&mut old, ordered).await.unwrap().0.join("");
    assert_eq!(seen, "22222222223");
}

#[tokio::test]
async fn alter_table_sees_rows_that_its_snapshot_does_not() {
    let (engine, mut main) = table_with_a_row().await;
    let mut other = session(&engine);
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
    run(&mut other, begin).await.unwrap();
    run(&mut main, "INSERT INTO t VALUES (3, 30)")
        .await
        .unwrap();
    let refused = run(&mut other, "ALTER TABLE t ADD CHECK (n < 30)").await;
    assert_eq!(refused.unwrap_err().sqlstate.as_str(), "23514");
    run(&mut other, "ROLLBACK").await.unwrap();
    run(&mut other, begin).await.unwrap();
    run(&mut main, "INSERT INTO t VALUES (4, 40)")
        .await
        .unwrap();
    let rewrite = "ALTER TABLE t ALTER COLUMN n TYPE bigint USING n + 1";
    run(&mut other, rewrite).await.unwrap();
    run(&mut other, "COMMIT").await.unwrap();
    let rows = run(&mut main, "SELECT * FROM t ORDER BY id")
        .await
        .unwrap()
        .0;
    assert_eq!(rows, ["1|11", "2|21", "3|31", "4|41"]);
}

/// A wait for the transaction that drops or restarts a sequence is a wait for a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nextval_waits_for_who_drops_the_sequence_as_for_a_lock() {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "CREATE SEQUENCE s").await.unwrap();
    for change in ["DROP SEQUENCE s", "ALTER SEQUENCE s RESTART WITH 7"] {
        run(&mut main, &format!("BEGIN; {change}")).await.unwrap();
        let mut other = session(&engine);
        let text = "SET lock_timeout = 20; SELECT nextval('s')";
        let error = run(&mut other, text).await.unwrap_err();
        assert_eq!(error.sqlstate.as_str(), "55P03", "{change}");
        run(&mut main, "ROLLBACK").await.unwrap();
    }
    run(&mut main, "BEGIN; ALTER SEQUENCE s RESTART WITH 7")
        .await
        .unwrap();
    let waiting = background(&engine, "SELECT nextval('s')");
    until_blocked(&engine).await;
    run(&mut main, "COMMIT").await.unwrap();
    waiting.await.unwrap().unwrap();
    let (next, _) = run(&mut main, "SELECT nextval('s')").await.unwrap();
    assert_eq!(next, ["8"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deadlock_by_a_sequence_has_a_victim() {
    let (engine, mut main) = table_with_a_row().await;
    run(&mut main, "CREATE SEQUENCE s; SET deadlock_timeout = 20")
        .await
        .unwrap();
    run(&mut main, "BEGIN; DROP SEQUENCE s").await.unwrap();
    let text = "SET deadlock_timeout = 20; BEGIN; UPDATE t SET n = 0 WHERE id = 1; \
                SELECT nextval('s')";
    let other = background(&engine, text);
    until_blocked(&engine).await;
    let ours = run(&mut main, "UPDATE t SET n = 1 WHERE id = 1").await;
    drop(main);
    let theirs = other.await.unwrap();
    let state = |error: &evenkeel_sql::SqlError| error.sqlstate.as_str() == "40P01";
    let victims = [ours.as_ref().err(), theirs.as_ref().err()];
    let victims = victims.into_iter().flatten().filter(|error| state(error));
    assert_eq!(victims.count(), 1, "{ours:?} {theirs:?}");
}

/// Counts the times that this thread leaves its sessions to another.
mod hand_over {
    use std::cell::Cell;

    thread_local!(static COUNT: Cell<u32> = const { Cell::new(0) });

    pub fn hook(work: &mut dyn FnMut()) {
        COUNT.set(COUNT.get() + 1);
        work();
    }

    pub fn count() -> u32 {
        COUNT.get()
    }
}

#[tokio::test]
async fn a_short_statement_that_plans_for_long_leaves_its_thread_to_others() {
    evenkeel_io::set_blocking_hook(hand_over::hook).unwrap();
    let (_engine, mut main) = table_with_a_row().await;
    let before = hand_over::count();
    run(&mut main, "SELECT 1 FROM t").await.unwrap();
    assert_eq!(hand_over::count(), before);
    let tables: Vec<_> = (0..10).map(|n| format!("t t{n}")).collect();
    let text = format!("SELECT 1 FROM {} LIMIT 0", tables.join(", "));
    run(&mut main, &text).await.unwrap();
    assert!(hand_over::count() > before, "planned without a pause");
}

/// The joins of a text may be more than one search takes.
#[tokio::test]
async fn a_join_of_hundreds_of_relations_runs() {
    let engine = open();
    let mut main = session(&engine);
    run(
        &mut main,
        "CREATE TABLE one (id int PRIMARY KEY); INSERT INTO one VALUES (1)",
    )
    .await
    .unwrap();
    for (join, null) in [("JOIN", ""), ("LEFT JOIN", " WHERE u279.id IS NOT NULL")] {
        let joins = (1..280).map(|n| format!(" {join} one u{n} ON u{n}.id = u{}.id", n - 1));
        let joins: String = joins.collect();
        let text = format!("SELECT count(*), sum(u279.id) FROM one u0{joins}{null}");
        let (rows, _) = run(&mut main, &text).await.unwrap();
        assert_eq!(rows, ["1|1"], "{join}");
    }
    let tables: Vec<_> = (0..280).map(|n| format!("one u{n}")).collect();
    let text = format!("SELECT count(*) FROM {}", tables.join(", "));
    assert_eq!(run(&mut main, &text).await.unwrap().0, ["1"]);
}
