//! The statistics views: what they say of sessions at work.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_sql::{Session, SessionParams, SqlEngine};

use crate::harness::{open, run};

fn numbered(engine: &Arc<SqlEngine>, pid: i32) -> Session {
    let params = SessionParams {
        user: "tester".into(),
        database: "postgres".into(),
        settings: vec![("application_name".into(), format!("app{pid}"))],
        ..SessionParams::default()
    };
    let session = engine.session(params).unwrap();
    assert_eq!(session.backend().pid, pid);
    session
}

async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let result = run(session, sql).await;
    result.unwrap_or_else(|error| panic!("{sql}: {error}")).0
}

/// One session holds a row, another waits for it, a third looks on.
async fn one_waits_for_another() -> (Arc<SqlEngine>, Session, Session) {
    let engine = open();
    let (mut holder, mut waiter) = (numbered(&engine, 1), numbered(&engine, 2));
    rows(&mut holder, "CREATE TABLE t (id int PRIMARY KEY, n int)").await;
    rows(&mut holder, "INSERT INTO t VALUES (1, 10)").await;
    rows(&mut holder, "BEGIN; UPDATE t SET n = 11").await;
    holder.wait_for_client();
    tokio::spawn(async move {
        let _ = run(&mut waiter, "UPDATE t SET n = 12").await;
        waiter.wait_for_client();
        // It goes on being there.
        std::future::pending::<()>().await;
    });
    while engine.database().waits().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let watcher = numbered(&engine, 3);
    (engine, holder, watcher)
}

#[tokio::test]
async fn sessions_show_what_they_do_and_wait_for() {
    let (engine, mut holder, mut watcher) = one_waits_for_another().await;
    let activity = "SELECT pid, state, wait_event_type, wait_event, query, application_name \
                    FROM pg_stat_activity ORDER BY pid";
    let expected = [
        "1|idle in transaction|Client|ClientRead|BEGIN; UPDATE t SET n = 11|app1".to_owned(),
        "2|active|Lock|transactionid|UPDATE t SET n = 12|app2".to_owned(),
        format!("3|active|NULL|NULL|{activity}|app3"),
    ];
    assert_eq!(rows(&mut watcher, activity).await, expected);
    let with_ids = "SELECT pid FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY pid";
    assert_eq!(rows(&mut watcher, with_ids).await, ["1", "2"]);
    let since = "SELECT count(*) FROM pg_stat_activity WHERE xact_start <= now() \
                 AND backend_start <= xact_start AND query_start <= now()";
    assert_eq!(rows(&mut watcher, since).await, ["3"]);
    rows(&mut holder, "COMMIT").await;
    while !engine.database().waits().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn locks_show_who_holds_and_who_waits() {
    let (_engine, _holder, mut watcher) = one_waits_for_another().await;
    let tables = "SELECT pid, locktype, mode, granted FROM pg_locks \
                  WHERE relation = 't'::regclass AND locktype = 'relation' ORDER BY pid";
    let held = [
        "1|relation|RowExclusiveLock|t",
        "2|relation|RowExclusiveLock|t",
    ];
    assert_eq!(rows(&mut watcher, tables).await, held);
    let ids = "SELECT pid, mode, granted FROM pg_locks WHERE locktype = 'transactionid' \
               ORDER BY pid, mode";
    let expected = ["1|ExclusiveLock|t", "2|ExclusiveLock|t", "2|ShareLock|f"];
    assert_eq!(rows(&mut watcher, ids).await, expected);
    let blockers = "SELECT pg_blocking_pids(2), pg_blocking_pids(1)";
    assert_eq!(rows(&mut watcher, blockers).await, ["{1}|{}"]);
}

#[tokio::test]
async fn another_session_can_be_cancelled_or_told_to_end() {
    let (engine, _holder, mut watcher) = one_waits_for_another().await;
    let cancel = "SELECT pid, pg_cancel_backend(pid) FROM pg_stat_activity \
                  WHERE wait_event = 'transactionid'";
    assert_eq!(rows(&mut watcher, cancel).await, ["2|t"]);
    while !engine.database().waits().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let ended = engine.instance().backends().find(2).unwrap().end_flag();
    assert!(!ended.is_raised());
    assert_eq!(
        rows(&mut watcher, "SELECT pg_terminate_backend(2)").await,
        ["t"]
    );
    assert!(ended.is_raised());
    assert_eq!(
        rows(&mut watcher, "SELECT pg_terminate_backend(99)").await,
        ["f"]
    );
}

#[tokio::test]
async fn counters_go_on_and_begin_anew() {
    let engine = open();
    let mut session = numbered(&engine, 1);
    let checkpoints = "SELECT num_requested, num_done, stats_reset IS NULL \
                       FROM pg_stat_checkpointer";
    let before = rows(&mut session, checkpoints).await;
    rows(&mut session, "CREATE TABLE t (a int)").await;
    rows(&mut session, "CHECKPOINT").await;
    let after = rows(&mut session, checkpoints).await;
    assert_ne!(before, after);
    rows(&mut session, "SELECT pg_stat_reset_shared('checkpointer')").await;
    assert_eq!(rows(&mut session, checkpoints).await, ["0|0|f"]);
    let unknown = run(&mut session, "SELECT pg_stat_reset_shared('x')").await;
    assert_eq!(unknown.unwrap_err().sqlstate.as_str(), "22023");
    let distance = "SELECT redo_distance >= 0, num_failed FROM evenkeel_checkpointer";
    assert_eq!(rows(&mut session, distance).await, ["t|0"]);
    let pool = "SELECT buffers >= buffers_dirty, foreground_waits, ring_waits, \
         ring_wait_time, ring_wait_log_time FROM evenkeel_buffers";
    assert_eq!(rows(&mut session, pool).await, ["t|0|0|0|0"]);
    let redo = "SELECT prefetch, hit, io_depth FROM pg_stat_recovery_prefetch";
    assert_eq!(rows(&mut session, redo).await, ["0|0|0"]);
    let log = "SELECT wal_bytes > 0 FROM pg_stat_wal";
    assert_eq!(rows(&mut session, log).await, ["t"]);
    let sql = "INSERT INTO t SELECT i FROM generate_series(1, 1000) i; SELECT count(*) FROM t";
    rows(&mut session, sql).await;
    let io = "SELECT sum(hits) > 0 FROM pg_stat_io WHERE object = 'relation'";
    assert_eq!(rows(&mut session, io).await, ["t"]);
    // An operation under way is seen by chance alone.
    let under_way = "SELECT pid, io_id, io_generation, state, operation, off, length, target, \
         handle_data_len, raw_result, result, target_desc, f_sync, f_localmem, f_buffered \
         FROM pg_aios WHERE state <> 'SUBMITTED'";
    assert_eq!(rows(&mut session, under_way).await, [""; 0]);
    let database = "SELECT numbackends, sessions, xact_commit > 0 FROM pg_stat_database \
         WHERE datname = current_database()";
    assert_eq!(rows(&mut session, database).await, ["1|1|t"]);
    let lsn = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), pg_current_wal_lsn()) >= 0";
    assert_eq!(rows(&mut session, lsn).await, ["t"]);
}
