//! Temporary relations of several sessions, and their end.

use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::{Config, Database};
use evenkeel_io::{Disk, SimDisk};
use evenkeel_sql::{Session, SqlConfig, SqlEngine};

use crate::harness::{catalog, one, open, run, session};

const LEFT: &str = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'";

async fn refused(session: &mut Session, sql: &str) -> String {
    let error = run(session, sql).await.expect_err(sql);
    format!("{} {}", error.sqlstate.as_str(), error.message)
}

#[tokio::test]
async fn sessions_have_temporary_tables_of_one_name_and_see_their_own() {
    let engine = open();
    let (mut a, mut b) = (session(&engine), session(&engine));
    for (session, value) in [(&mut a, 1), (&mut b, 2)] {
        let make =
            format!("CREATE TEMP TABLE t (n serial, v int); INSERT INTO t (v) VALUES ({value})");
        one(session, &make).await;
    }
    assert_eq!(one(&mut a, "SELECT v FROM t").await, "1");
    assert_eq!(one(&mut b, "SELECT v FROM t").await, "2");
    assert_eq!(
        one(&mut b, "SELECT pg_my_temp_schema()::regnamespace").await,
        "pg_temp_1"
    );
    let other = "0A000 cannot access temporary tables of other sessions";
    assert_eq!(refused(&mut b, "SELECT * FROM pg_temp_0.t").await, other);
    assert_eq!(
        refused(&mut b, "INSERT INTO pg_temp_0.t VALUES (1)").await,
        other
    );
    assert_eq!(refused(&mut b, "COPY pg_temp_0.t FROM STDIN").await, other);
    for (sql, does) in [
        ("TRUNCATE pg_temp_0.t", "truncate"),
        ("ALTER TABLE pg_temp_0.t ADD x int", "alter"),
        ("CREATE INDEX ON pg_temp_0.t (v)", "create indexes on"),
    ] {
        let message = format!("0A000 cannot {does} temporary tables of other sessions");
        assert_eq!(refused(&mut b, sql).await, message, "{sql}");
    }
    let made = refused(&mut b, "CREATE TEMP TABLE pg_temp_0.u (a int)").await;
    let message = "42P16 cannot create relations in temporary schemas of other sessions";
    assert_eq!(made, message);
    let is_other = "SELECT pg_is_other_temp_schema('pg_temp_0'::regnamespace)";
    assert_eq!(one(&mut b, is_other).await, "t");
    one(&mut b, "VACUUM").await;
    one(&mut b, "DROP TABLE pg_temp_0.t").await;
    assert_eq!(
        refused(&mut a, "SELECT * FROM t").await,
        "42P01 relation \"t\" does not exist"
    );
}

/// A prepared statement means the table that its name means now.
#[tokio::test]
async fn a_temporary_table_hides_one_that_a_statement_was_prepared_over() {
    let engine = open();
    let mut a = session(&engine);
    one(
        &mut a,
        "CREATE TABLE t (v text); INSERT INTO t VALUES ('permanent')",
    )
    .await;
    one(&mut a, "PREPARE p AS SELECT v FROM t").await;
    assert_eq!(one(&mut a, "EXECUTE p").await, "permanent");
    one(
        &mut a,
        "CREATE TEMP TABLE t (v text); INSERT INTO t VALUES ('temporary')",
    )
    .await;
    assert_eq!(one(&mut a, "EXECUTE p").await, "temporary");
    one(&mut a, "DROP TABLE t").await;
    assert_eq!(one(&mut a, "EXECUTE p").await, "permanent");
}

#[tokio::test]
async fn temporary_relations_end_with_their_session() {
    let engine = open();
    let mut main = session(&engine);
    one(&mut main, "CREATE TABLE d (a int, b int)").await;
    for closes in [true, false] {
        let mut a = session(&engine);
        one(
            &mut a,
            "CREATE TEMP TABLE t (a int PRIMARY KEY, b text); \
             CREATE TEMP TABLE u (a int REFERENCES t, n serial); \
             CREATE TEMP SEQUENCE s; CREATE VIEW v AS SELECT * FROM t; \
             CREATE TEMP VIEW w AS SELECT * FROM v; \
             COMMENT ON TABLE t IS 'words'; \
             INSERT INTO t VALUES (1, repeat('x', 100000)); \
             ALTER TABLE d ALTER a SET DEFAULT nextval('s')",
        )
        .await;
        assert_eq!(one(&mut main, LEFT).await, "7");
        one(
            &mut a,
            "BEGIN; INSERT INTO t VALUES (2); CREATE TEMP TABLE x (a int)",
        )
        .await;
        match closes {
            true => a.close().await,
            false => drop(a),
        }
        assert_eq!(one(&mut main, LEFT).await, "0");
        // The default that needed them is gone.
        one(&mut main, "INSERT INTO d (b) VALUES (1)").await;
        assert_eq!(
            one(&mut main, "SELECT count(*) FROM d WHERE a IS NOT NULL").await,
            "0"
        );
        let comments = "SELECT count(*) FROM pg_description WHERE description = 'words'";
        assert_eq!(one(&mut main, comments).await, "0");
    }
    // The schema is the next session's.
    let mut next = session(&engine);
    one(&mut next, "CREATE TEMP TABLE t (a int)").await;
    assert_eq!(
        one(&mut next, "SELECT pg_my_temp_schema()::regnamespace").await,
        "pg_temp_0"
    );
    assert_eq!(one(&mut next, "SELECT count(*) FROM t").await, "0");
}

fn engine_on(disk: &SimDisk) -> Arc<SqlEngine> {
    let db = Database::open(
        Arc::new(disk.clone()),
        Path::new("/data"),
        Config::default(),
    );
    SqlEngine::open(db.unwrap(), SqlConfig::default()).unwrap()
}

/// After the end of the process and of the machine.
#[tokio::test]
async fn a_start_removes_the_temporary_relations_of_the_process_before() {
    let disk = SimDisk::new(3);
    let engine = engine_on(&disk);
    let mut a = session(&engine);
    one(
        &mut a,
        "CREATE TABLE kept (a int); INSERT INTO kept VALUES (1); \
         CREATE TEMP TABLE t (a serial PRIMARY KEY, b text); CREATE INDEX ON t (b); \
         CREATE VIEW v AS SELECT * FROM t; CREATE TEMP SEQUENCE s; \
         CREATE TABLE d (a int DEFAULT nextval('s'), b int); \
         INSERT INTO t (b) SELECT md5(g::text) FROM generate_series(1, 2000) g",
    )
    .await;
    let mut again = disk.process_crash();
    // A file of a number that a dropped one had would go with that.
    let file = |engine: &SqlEngine| {
        let state = catalog(engine).current();
        let mut tables = state.tables();
        tables
            .find(|table| &*table.name == "t")
            .map(|table| table.heap)
    };
    let mut before = file(&engine);
    for round in 0..3 {
        let engine = engine_on(&again);
        let mut b = session(&engine);
        assert_eq!(one(&mut b, LEFT).await, "0", "round {round}");
        assert_eq!(one(&mut b, "SELECT a FROM kept").await, "1");
        one(&mut b, "INSERT INTO d (b) VALUES (1)").await;
        one(
            &mut b,
            "CREATE TEMP TABLE t (a serial, b text); INSERT INTO t (b) VALUES ('x')",
        )
        .await;
        assert_eq!(one(&mut b, "SELECT * FROM t").await, "1|x");
        let now = file(&engine);
        assert!(now > before, "round {round}: {now:?} after {before:?}");
        before = now;
        let files = again.list(Path::new("/data/temp")).unwrap();
        assert!(!files.is_empty());
        again = again.crash(round);
        drop(b);
    }
}
