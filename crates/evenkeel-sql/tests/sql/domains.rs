//! Domains over several sessions and starts.

use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::{Config, Database};
use evenkeel_io::SimDisk;
use evenkeel_sql::{SqlConfig, SqlEngine};

use crate::copying::begin;
use crate::harness::{one, open, run, session};

fn open_on(disk: &SimDisk) -> Arc<SqlEngine> {
    let disk = Arc::new(disk.clone());
    let db = Database::open(disk, Path::new("/data"), Config::default());
    SqlEngine::open(db.unwrap(), SqlConfig::default()).unwrap()
}

const MADE: &str = "CREATE SCHEMA app; CREATE TYPE app.mood AS ENUM ('sad', 'ok'); \
     CREATE DOMAIN app.positive AS int DEFAULT 3 CHECK (VALUE > 0); \
     CREATE DOMAIN app.even AS app.positive NOT NULL CONSTRAINT is_even CHECK (VALUE % 2 = 0); \
     CREATE DOMAIN app.good AS app.mood CHECK (VALUE <> 'sad'); \
     CREATE TABLE app.t (a app.positive, b app.even DEFAULT 4, c app.good, d app.positive[]); \
     CREATE INDEX ON app.t (a) WHERE a > 1; \
     CREATE VIEW app.v AS SELECT a, b::app.positive AS e FROM app.t; \
     INSERT INTO app.t VALUES (DEFAULT, DEFAULT, 'ok', '{1,2}'); \
     ALTER DOMAIN app.even ADD CONSTRAINT small CHECK (VALUE < 100) NOT VALID; \
     ALTER DOMAIN app.positive RENAME TO more; ALTER TYPE app.mood RENAME VALUE 'sad' TO 'bad'";

async fn state_of(engine: &Arc<SqlEngine>, sql: &str) -> String {
    match run(&mut session(engine), sql).await {
        Ok(_) => "none".to_owned(),
        Err(error) => error.sqlstate.as_str().to_owned(),
    }
}

#[tokio::test]
async fn domains_are_read_back() {
    let mut disk = SimDisk::new(9);
    let engine = open_on(&disk);
    one(&mut session(&engine), MADE).await;
    for seed in 0..3 {
        disk = disk.crash(seed);
        let engine = open_on(&disk);
        let mut s = session(&engine);
        let types = "SELECT pg_typeof(a), pg_typeof(b), pg_typeof(c), pg_typeof(d) FROM app.t";
        let shown = one(&mut s, types).await;
        assert_eq!(shown, "app.more|app.even|app.good|app.more[]");
        assert_eq!(one(&mut s, "SELECT * FROM app.t").await, "3|4|ok|{1,2}");
        assert_eq!(one(&mut s, "SELECT * FROM app.v").await, "3|4");
        let constraints = "SELECT string_agg(conname || convalidated, ',' ORDER BY conname) \
             FROM pg_constraint WHERE contypid = 'app.even'::regtype";
        let known = "even_not_nulltrue,is_eventrue,smallfalse";
        assert_eq!(one(&mut s, constraints).await, known);
        for refused in [
            "INSERT INTO app.t VALUES (0)",
            "INSERT INTO app.t (b) VALUES (3)",
            "INSERT INTO app.t (b) VALUES (200)",
            "INSERT INTO app.t (c) VALUES ('bad')",
            "INSERT INTO app.t (d) VALUES ('{0}')",
        ] {
            assert_eq!(state_of(&engine, refused).await, "23514", "{refused}");
        }
        let null = "INSERT INTO app.t (b) VALUES (NULL)";
        assert_eq!(state_of(&engine, null).await, "23502");
        let taken = "CREATE DOMAIN app.even AS int";
        assert_eq!(state_of(&engine, taken).await, "42710");
        one(&mut s, "CREATE DOMAIN other AS text; DROP DOMAIN other").await;
    }
}

/// A statement that was prepared before asks the domain as it is now.
#[tokio::test]
async fn a_domain_that_another_session_changes_is_asked_at_once() {
    let engine = open();
    let (mut a, mut b) = (session(&engine), session(&engine));
    one(&mut a, "CREATE DOMAIN d AS int; CREATE TABLE t (x d)").await;
    one(&mut b, "PREPARE p AS INSERT INTO t VALUES ($1)").await;
    one(&mut b, "EXECUTE p (-1)").await;
    let refused = run(&mut a, "ALTER DOMAIN d ADD CHECK (VALUE > 0)").await;
    assert_eq!(refused.unwrap_err().sqlstate.as_str(), "23514");
    one(&mut b, "EXECUTE p (-2)").await;
    one(
        &mut a,
        "DELETE FROM t; ALTER DOMAIN d ADD CHECK (VALUE > 0)",
    )
    .await;
    let refused = run(&mut b, "EXECUTE p (-3)").await;
    assert_eq!(refused.unwrap_err().sqlstate.as_str(), "23514");
    let undone = "BEGIN; ALTER DOMAIN d DROP CONSTRAINT d_check; \
                  INSERT INTO t VALUES (-4); ROLLBACK";
    one(&mut a, undone).await;
    let refused = run(&mut b, "EXECUTE p (-3)").await;
    assert_eq!(refused.unwrap_err().sqlstate.as_str(), "23514");
    one(&mut a, "ALTER DOMAIN d DROP CONSTRAINT d_check").await;
    one(&mut b, "EXECUTE p (-3)").await;
    assert_eq!(one(&mut b, "SELECT * FROM t").await, "-3");
}

#[tokio::test]
async fn a_copy_asks_the_domains_of_its_columns() {
    let engine = open();
    let mut main = session(&engine);
    let made = "CREATE DOMAIN d AS int DEFAULT 5 NOT NULL CHECK (VALUE > 0); \
                CREATE TABLE t (a d, b d, c int)";
    one(&mut main, made).await;
    for (data, state, place) in [
        ("0\t1\n", "23514", "COPY t, line 1, column a: \"0\""),
        ("\\N\t1\n", "23502", "COPY t, line 1, column a: null input"),
    ] {
        begin(&mut main, "COPY t (a, c) FROM STDIN").await;
        let error = main.copy_data(data.as_bytes()).await.unwrap_err();
        assert_eq!(error.sqlstate.as_str(), state);
        assert_eq!(error.fields.context.as_deref(), Some(place));
    }
    begin(&mut main, "COPY t (a, c) FROM STDIN").await;
    main.copy_data(b"7\t1\n").await.unwrap();
    main.copy_done().await.unwrap();
    assert_eq!(one(&mut main, "SELECT * FROM t").await, "7|5|1");
}
