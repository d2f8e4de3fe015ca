//! Enumerated types over several sessions and starts.

use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::{Config, Database};
use evenkeel_io::SimDisk;
use evenkeel_sql::{SqlConfig, SqlEngine};

use crate::harness::{one, open, run, session};

fn open_on(disk: &SimDisk) -> Arc<SqlEngine> {
    let disk = Arc::new(disk.clone());
    let db = Database::open(disk, Path::new("/data"), Config::default());
    SqlEngine::open(db.unwrap(), SqlConfig::default()).unwrap()
}

const MADE: &str = "CREATE SCHEMA app; CREATE TYPE app.mood AS ENUM ('sad', 'ok'); \
     CREATE TABLE app.t (a app.mood DEFAULT 'ok', b app.mood[], CHECK (a <> 'sad' OR b IS NULL)); \
     CREATE INDEX ON app.t (a) WHERE a > 'sad'; \
     CREATE VIEW app.v AS SELECT a FROM app.t WHERE a = 'ok'::app.mood; \
     INSERT INTO app.t VALUES ('ok', '{sad,ok}'), ('sad', NULL); \
     ALTER TYPE app.mood ADD VALUE 'meh' BEFORE 'ok'; \
     INSERT INTO app.t VALUES ('meh', '{meh}')";

#[tokio::test]
async fn types_and_their_values_are_read_back() {
    let mut disk = SimDisk::new(9);
    let engine = open_on(&disk);
    one(&mut session(&engine), MADE).await;
    for seed in 0..3 {
        disk = disk.crash(seed);
        let engine = open_on(&disk);
        let mut s = session(&engine);
        let rows = one(&mut s, "SELECT * FROM app.t ORDER BY a").await;
        assert_eq!(rows, "sad|NULL,meh|{meh},ok|{sad,ok}");
        assert_eq!(one(&mut s, "SELECT * FROM app.v").await, "ok");
        assert_eq!(
            one(&mut s, "SELECT enum_range(NULL::app.mood)").await,
            "{sad,meh,ok}"
        );
        let taken = run(&mut s, "CREATE TYPE app.mood AS ENUM ()").await;
        assert_eq!(taken.unwrap_err().sqlstate.as_str(), "42710");
        one(&mut s, "CREATE TYPE other AS ENUM ('x')").await;
        one(&mut s, "DROP TYPE other").await;
    }
}

/// A statement that was prepared before sees the new label, in a cursor and through an index too.
#[tokio::test]
async fn a_label_that_another_session_adds_is_known_at_once() {
    let engine = open();
    let (mut a, mut b) = (session(&engine), session(&engine));
    one(&mut a, MADE).await;
    one(
        &mut b,
        "PREPARE p AS SELECT a FROM app.t ORDER BY a; PREPARE q AS INSERT INTO app.t VALUES ($1)",
    )
    .await;
    assert_eq!(one(&mut b, "EXECUTE p").await, "sad,meh,ok");
    one(&mut a, "ALTER TYPE app.mood ADD VALUE 'glad'").await;
    one(&mut b, "EXECUTE q ('glad')").await;
    assert_eq!(one(&mut b, "EXECUTE p").await, "sad,meh,ok,glad");
    one(&mut a, "ALTER TYPE app.mood RENAME VALUE 'glad' TO 'happy'").await;
    assert_eq!(one(&mut b, "EXECUTE p").await, "sad,meh,ok,happy");
    let undone = "BEGIN; ALTER TYPE app.mood ADD VALUE 'lost'; \
                  INSERT INTO app.t VALUES ('lost'); ROLLBACK";
    one(&mut a, undone).await;
    assert_eq!(one(&mut b, "EXECUTE p").await, "sad,meh,ok,happy");
    let error = run(&mut b, "EXECUTE q ('lost')").await.unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "22P02");
}

/// Values and rows of them go through temporary files.
#[tokio::test]
async fn values_are_sorted_and_grouped_beyond_memory() {
    let engine = open();
    let mut s = session(&engine);
    one(
        &mut s,
        "CREATE TYPE size AS ENUM ('s', 'm', 'l'); SET work_mem = '64kB'",
    )
    .await;
    let rows = "SELECT ((ARRAY['l', 's', 'm']::size[])[1 + g % 3]) AS a, g, row(g, 's'::size) AS r \
                FROM generate_series(1, 20000) g";
    let sorted = format!(
        "SELECT string_agg(DISTINCT a::text, ',' ORDER BY a::text), count(*) FROM \
                          (SELECT a, r FROM ({rows}) x ORDER BY a, g) y"
    );
    assert_eq!(one(&mut s, &sorted).await, "l,m,s|20000");
    let first = format!("SELECT a, r, g FROM ({rows}) x ORDER BY a DESC, g DESC LIMIT 1");
    assert_eq!(one(&mut s, &first).await, "l|(19998,s)|19998");
    let groups = format!("SELECT a, count(DISTINCT g) FROM ({rows}) x GROUP BY a ORDER BY a");
    assert_eq!(one(&mut s, &groups).await, "s|6667,m|6667,l|6666");
}

/// Statistics have places of labels, whatever those are called since.
#[tokio::test]
async fn statistics_outlive_the_names_of_labels() {
    let disk = SimDisk::new(5);
    let engine = open_on(&disk);
    let mut s = session(&engine);
    one(
        &mut s,
        "CREATE TYPE size AS ENUM ('s', 'm', 'l'); CREATE TABLE t (a size, b size[]); \
         INSERT INTO t SELECT (ARRAY['l', 's', 'm']::size[])[1 + g % 3], '{s,NULL,m}' \
         FROM generate_series(1, 300) g; ANALYZE t; \
         ALTER TYPE size RENAME VALUE 's' TO 'small'; ALTER TYPE size ADD VALUE 'xs' BEFORE 'small'",
    )
    .await;
    let stats =
        "SELECT most_common_vals::text FROM pg_stats WHERE tablename = 't' ORDER BY attname";
    let expected = "{l,m,small},{\"{small,NULL,m}\"}";
    let sorted = |found: String| found.replace("{small,m,l}", "{l,m,small}");
    assert_eq!(sorted(one(&mut s, stats).await), expected);
    let engine = open_on(&disk.crash(1));
    let mut s = session(&engine);
    assert_eq!(sorted(one(&mut s, stats).await), expected);
    one(&mut s, "DROP TYPE size CASCADE").await;
    assert_eq!(one(&mut s, stats).await, "");
    one(&mut s, "ANALYZE t").await;
}

/// A type is not dropped while a table that is being made has a column of it.
#[tokio::test]
async fn a_type_waits_for_what_is_made_of_it() {
    let engine = open();
    let (mut a, mut b) = (session(&engine), session(&engine));
    one(&mut a, "CREATE TYPE mood AS ENUM ('x')").await;
    one(&mut a, "BEGIN; CREATE TABLE t (a mood)").await;
    one(&mut b, "SET lock_timeout = '50ms'").await;
    let error = run(&mut b, "DROP TYPE mood").await.unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "55P03");
    one(&mut a, "COMMIT").await;
    let error = run(&mut b, "DROP TYPE mood").await.unwrap_err();
    assert_eq!(error.sqlstate.as_str(), "2BP01");
    one(
        &mut b,
        "DROP TYPE mood CASCADE; INSERT INTO t DEFAULT VALUES",
    )
    .await;
}

/// A text that mentions a type holds it as a column does, and goes with it: the database opens
/// again.
#[tokio::test]
async fn a_type_waits_for_texts_that_mention_it() {
    let mut disk = SimDisk::new(21);
    let mut engine = open_on(&disk);
    let texts = [
        "CREATE TABLE x (k int, CHECK (k > 0 OR 'a'::mood < 'b'))",
        "CREATE TABLE x (k int, d text DEFAULT 'a'::mood::text)",
        "CREATE VIEW x AS SELECT 'b'::mood AS m",
        "CREATE VIEW x AS SELECT k FROM t WHERE 'a'::mood < 'b'",
        "ALTER TABLE t ADD CONSTRAINT x CHECK ('a'::mood < 'b')",
        "ALTER TABLE t ALTER d SET DEFAULT 'a'::mood",
    ];
    one(&mut session(&engine), "CREATE TABLE t (k int, d text)").await;
    for (seed, text) in (0..).zip(texts) {
        let (mut a, mut b) = (session(&engine), session(&engine));
        one(&mut a, "CREATE TYPE mood AS ENUM ('a', 'b')").await;
        one(&mut a, &format!("BEGIN; {text}")).await;
        one(&mut b, "SET lock_timeout = '50ms'").await;
        let error = run(&mut b, "DROP TYPE mood").await.unwrap_err();
        assert_eq!(error.sqlstate.as_str(), "55P03", "{text}");
        one(&mut a, "COMMIT").await;
        let error = run(&mut b, "DROP TYPE mood").await.unwrap_err();
        assert_eq!(error.sqlstate.as_str(), "2BP01", "{text}");
        one(&mut b, "ALTER TYPE mood RENAME VALUE 'b' TO 'c'").await;
        one(&mut b, "ALTER TYPE mood RENAME TO feeling").await;
        disk = disk.crash(seed);
        engine = open_on(&disk);
        let mut s = session(&engine);
        one(&mut s, "INSERT INTO t (k) VALUES (1)").await;
        one(&mut s, "DROP TYPE feeling CASCADE").await;
        one(&mut s, "DROP TABLE IF EXISTS x").await;
        disk = disk.crash(seed);
        engine = open_on(&disk);
        one(&mut session(&engine), "INSERT INTO t (k) VALUES (1)").await;
    }
}
