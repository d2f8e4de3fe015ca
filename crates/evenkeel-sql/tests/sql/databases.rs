//! CREATE, ALTER and DROP DATABASE, beside other sessions and across crashes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::{Config, Database};
use evenkeel_io::{Disk, Outcome, SimDisk};
use evenkeel_sql::{Session, SessionParams, SqlConfig, SqlEngine, SqlResult};

use crate::harness::{one, run, session};

/// Relations of every kind, with values beside the rows.
const FILL: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TABLE t (id serial PRIMARY KEY, m mood DEFAULT 'ok', big text);
    ALTER TABLE t ALTER big SET DEFAULT 'x';
    CREATE TABLE c (t int REFERENCES t ON DELETE CASCADE);
    INSERT INTO t (big) SELECT string_agg(md5((n * k)::text), '')
        FROM generate_series(1, 40) n, generate_series(1, 200) k GROUP BY n;
    INSERT INTO c SELECT id FROM t;
    CREATE INDEX ON t ((id + 1));
    CREATE VIEW v AS SELECT m, count(*) AS n FROM t GROUP BY m;
    COMMENT ON TABLE t IS 'a table';
    DELETE FROM t WHERE id > 35";

/// All of that in one line.
const CONTENT: &str = "
    SELECT (SELECT count(*) FROM t), (SELECT sum(length(big)) FROM t), (SELECT count(*) FROM c),
        (SELECT n FROM v), (SELECT id FROM t WHERE id + 1 = 8), obj_description('t'::regclass)";

fn open(disk: &SimDisk) -> (Database, Arc<SqlEngine>) {
    let config = Config::default();
    let db = Database::open(Arc::new(disk.clone()), Path::new("/data"), config).unwrap();
    let engine = SqlEngine::open(db.clone(), SqlConfig::default()).unwrap();
    (db, engine)
}

fn connect(engine: &Arc<SqlEngine>, database: &str) -> SqlResult<Session> {
    engine.session(SessionParams {
        user: "tester".into(),
        database: database.into(),
        ..SessionParams::default()
    })
}

/// Checks every table of every database.
fn assert_sound(engine: &SqlEngine) {
    for catalog in engine.databases().catalogs().unwrap() {
        let state = catalog.current();
        let users = state.tables().map(|table| &table.table);
        for table in users.chain(catalog.system_tables().map(|(_, table)| table)) {
            let report = table.check().unwrap();
            assert!(report.is_ok(), "{table:?}: {:?}", report.problems);
        }
    }
}

async fn state(session: &mut Session, sql: &str) -> String {
    let refused = run(session, sql).await.unwrap_err();
    format!("{} {}", refused.sqlstate.as_str(), refused.message)
}

#[tokio::test]
async fn a_database_is_a_copy_of_its_template_and_apart_from_it() {
    let (_db, engine) = open(&SimDisk::new(21));
    let mut main = session(&engine);
    run(&mut main, "CREATE DATABASE a").await.unwrap();
    let mut a = connect(&engine, "a").unwrap();
    run(&mut a, FILL).await.unwrap();
    let content = one(&mut a, CONTENT).await;
    drop(a);
    run(&mut main, "CREATE DATABASE b TEMPLATE a")
        .await
        .unwrap();
    let mut a = connect(&engine, "a").unwrap();
    let mut b = connect(&engine, "b").unwrap();
    assert_eq!(one(&mut b, CONTENT).await, content);
    // The sequence goes on where the other one stood; both count for themselves from here on.
    for session in [&mut a, &mut b] {
        let id = one(session, "INSERT INTO t DEFAULT VALUES RETURNING id").await;
        assert_eq!(id, "41");
    }
    // Locks, names and statistics of one are none of the other's, though the oids are the same.
    run(
        &mut a,
        "BEGIN; LOCK TABLE t; ALTER TYPE mood ADD VALUE 'new'",
    )
    .await
    .unwrap();
    run(&mut a, "CREATE TABLE fresh ()").await.unwrap();
    run(
        &mut b,
        "SET lock_timeout = '2s'; CREATE TABLE fresh (); DELETE FROM t WHERE id = 1",
    )
    .await
    .unwrap();
    assert_eq!(one(&mut b, "SELECT count(*) FROM c").await, "34");
    assert_eq!(one(&mut a, "SELECT count(*) FROM c").await, "35");
    run(&mut b, "DROP TABLE t CASCADE").await.unwrap();
    run(&mut a, "COMMIT").await.unwrap();
    assert_eq!(one(&mut a, "SELECT count(*) FROM t").await, "36");
    assert_eq!(
        one(&mut a, "SELECT enum_range(NULL::mood)").await,
        "{sad,ok,new}"
    );
    assert_eq!(
        one(&mut b, "SELECT enum_range(NULL::mood)").await,
        "{sad,ok}"
    );
    drop((a, b));
    assert_sound(&engine);
}

#[tokio::test]
async fn advisory_locks_are_the_databases_own() {
    let (_db, engine) = open(&SimDisk::new(22));
    let mut main = session(&engine);
    run(&mut main, "CREATE DATABASE a").await.unwrap();
    let mut a = connect(&engine, "a").unwrap();
    assert_eq!(one(&mut main, "SELECT pg_try_advisory_lock(7)").await, "t");
    assert_eq!(one(&mut a, "SELECT pg_try_advisory_lock(7)").await, "t");
    let mut again = session(&engine);
    assert_eq!(one(&mut again, "SELECT pg_try_advisory_lock(7)").await, "f");
}

#[tokio::test]
async fn a_database_in_use_is_neither_dropped_nor_copied_nor_renamed() {
    let (_db, engine) = open(&SimDisk::new(23));
    let mut main = session(&engine);
    run(&mut main, "CREATE DATABASE a").await.unwrap();
    let a = connect(&engine, "a").unwrap();
    let refused = "55006 database \"a\" is being accessed by other users";
    let dropped = state(&mut main, "DROP DATABASE a").await;
    assert_eq!(dropped, refused);
    // The command waits a while for sessions to end.
    let waits = Arc::clone(&engine);
    let waits = tokio::spawn(async move {
        let mut other = session(&waits);
        run(&mut other, "CREATE DATABASE b TEMPLATE a; ")
            .await
            .map(drop)
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waits.is_finished());
    drop(a);
    waits.await.unwrap().unwrap();
    // A session's temporary relations keep the database until they are gone.
    let mut a = connect(&engine, "a").unwrap();
    run(&mut a, "CREATE TEMP TABLE gone (x int)").await.unwrap();
    a.close().await;
    run(&mut main, "ALTER DATABASE a RENAME TO c")
        .await
        .unwrap();
    run(&mut main, "DROP DATABASE c").await.unwrap();
    let refused = connect(&engine, "c").err().unwrap();
    assert_eq!(refused.sqlstate.as_str(), "3D000");
    // One that is about to be dropped lets nobody in, and does again when it is not.
    run(&mut main, "CREATE DATABASE d").await.unwrap();
    let oid = engine.databases().named("d").unwrap().oid;
    let closed = engine.databases().close(oid, 0).unwrap().ok().unwrap();
    let refused = connect(&engine, "d").err().unwrap();
    assert_eq!(refused.sqlstate.as_str(), "55006");
    drop(closed);
    connect(&engine, "d").unwrap();
}

#[tokio::test]
async fn a_failed_copy_leaves_no_file_and_no_name() {
    let disk = SimDisk::new(24);
    let (_db, engine) = open(&disk);
    let mut main = session(&engine);
    run(&mut main, FILL).await.unwrap();
    // The tables that databases share get their first rows, and so their files.
    run(&mut main, "CREATE TEMP TABLE own (x int)")
        .await
        .unwrap();
    run(&mut main, "CREATE DATABASE first TEMPLATE template0")
        .await
        .unwrap();
    run(&mut main, "CHECKPOINT").await.unwrap();
    let files = || disk.list(Path::new("/data/base")).unwrap().len();
    let before = files();
    // The session's own temporary table is a part of nothing.
    let refused = state(&mut main, "CREATE DATABASE a TEMPLATE postgres").await;
    assert_eq!(refused, "55006 the source database has temporary relations");
    run(&mut main, "DROP TABLE own").await.unwrap();
    let in_block = "BEGIN; CREATE DATABASE a TEMPLATE postgres";
    let refused = state(&mut main, in_block).await;
    assert_eq!(
        refused,
        "25001 CREATE DATABASE cannot run inside a transaction block"
    );
    run(&mut main, "ROLLBACK").await.unwrap();
    run(&mut main, "CREATE DATABASE a TEMPLATE postgres")
        .await
        .unwrap();
    assert!(files() > before);
    run(&mut main, "DROP DATABASE a; ").await.unwrap();
    run(&mut main, "CHECKPOINT").await.unwrap();
    // Dropped by a thread of the engine's.
    for _ in 0..1000 {
        if files() == before {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(files(), before);
    assert!(engine.databases().named("a").is_none());
}

#[tokio::test]
async fn databases_are_there_or_not_after_a_crash_at_any_moment() {
    let disk = SimDisk::new(25);
    let (db, engine) = open(&disk);
    let mut main = session(&engine);
    run(&mut main, FILL).await.unwrap();
    let content = one(&mut main, CONTENT).await;
    let begun = disk.op_count();
    run(&mut main, "CREATE DATABASE a TEMPLATE postgres")
        .await
        .unwrap();
    let made = disk.op_count();
    run(&mut main, "CREATE DATABASE b TEMPLATE a")
        .await
        .unwrap();
    run(&mut main, "DROP DATABASE a").await.unwrap();
    let dropped = disk.op_count();
    run(&mut main, "ALTER DATABASE b RENAME TO c")
        .await
        .unwrap();
    let renamed = disk.op_count();
    drop((main, engine, db));
    let mut images = disk.images(0x5eed);
    let step = ((renamed - begun) / 24).max(1);
    let mut index = begun;
    while index <= renamed {
        images.seek(index);
        for outcome in [Outcome::Nothing, Outcome::Everything, Outcome::Mixed] {
            let (db, engine) = open(&images.image(outcome, index));
            let there = |name: &str| engine.databases().named(name).is_some();
            if index >= made && index < dropped {
                assert!(there("a") || there("b"), "{index} {outcome:?}");
            }
            if index >= dropped {
                assert!(
                    !there("a") && (there("b") || there("c")),
                    "{index} {outcome:?}"
                );
            }
            if index >= renamed {
                assert!(there("c"), "{index} {outcome:?}");
            }
            for name in ["postgres", "a", "b", "c"] {
                if there(name) {
                    let mut session = connect(&engine, name).unwrap();
                    assert_eq!(one(&mut session, CONTENT).await, content, "{index} {name}");
                }
            }
            assert_sound(&engine);
            drop((engine, db));
        }
        index += step;
    }
}

#[tokio::test]
async fn the_first_databases_may_be_changed_like_others() {
    let disk = SimDisk::new(26);
    let (db, engine) = open(&disk);
    let mut main = session(&engine);
    // The first connection to a template makes its catalog.
    let mut template = connect(&engine, "template1").unwrap();
    run(&mut template, "CREATE TABLE everywhere (x int)")
        .await
        .unwrap();
    drop(template);
    run(&mut main, "CREATE DATABASE a; CREATE TABLE here (x int)")
        .await
        .unwrap_err();
    run(&mut main, "CREATE DATABASE a").await.unwrap();
    let mut a = connect(&engine, "a").unwrap();
    run(&mut a, "INSERT INTO everywhere VALUES (1)")
        .await
        .unwrap();
    drop(main);
    run(&mut a, "DROP DATABASE postgres").await.unwrap();
    run(&mut a, "CREATE DATABASE postgres TEMPLATE template0")
        .await
        .unwrap();
    run(&mut a, "ALTER DATABASE template0 IS_TEMPLATE false")
        .await
        .unwrap();
    run(&mut a, "DROP DATABASE template0").await.unwrap();
    let refused = connect(&engine, "template0").err().unwrap();
    assert_eq!(refused.sqlstate.as_str(), "3D000");
    db.store().log().flush_all().unwrap();
    let disk = disk.process_crash();
    drop((a, engine, db));
    let (_db, engine) = open(&disk);
    let mut main = session(&engine);
    let listed = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database";
    assert_eq!(one(&mut main, listed).await, "a postgres template1");
    let refused = state(&mut main, "SELECT * FROM everywhere").await;
    assert_eq!(refused, "42P01 relation \"everywhere\" does not exist");
    let mut a = connect(&engine, "a").unwrap();
    assert_eq!(one(&mut a, "SELECT x FROM everywhere").await, "1");
    assert_sound(&engine);
}

/// DB-7.
#[tokio::test]
async fn sessions_begin_with_the_settings_of_their_database() {
    const SHOWN: &str =
        "SELECT setting, source, reset_val FROM pg_settings WHERE name = 'work_mem'";
    let (_db, engine) = open(&SimDisk::new(31));
    let mut main = session(&engine);
    for sql in [
        "CREATE DATABASE a",
        "ALTER DATABASE a SET work_mem = '5MB'",
        "ALTER DATABASE a SET app.x = 'of a'",
        "ALTER DATABASE a SET search_path = s, public",
    ] {
        run(&mut main, sql).await.unwrap();
    }
    let mut a = connect(&engine, "a").unwrap();
    assert_eq!(one(&mut a, SHOWN).await, "5120|database|5120");
    assert_eq!(one(&mut a, "SHOW app.x").await, "of a");
    assert_eq!(one(&mut a, "SHOW search_path").await, "s, public");
    for reset in ["RESET work_mem", "RESET ALL", "DISCARD ALL"] {
        run(&mut a, "SET work_mem = '7MB'").await.unwrap();
        run(&mut a, reset).await.unwrap();
        assert_eq!(one(&mut a, SHOWN).await, "5120|database|5120", "{reset}");
    }
    // Those that are there already go on, and the client's own come first.
    run(&mut main, "ALTER DATABASE a SET work_mem = '6MB'")
        .await
        .unwrap();
    assert_eq!(one(&mut a, "SHOW work_mem").await, "5MB");
    let params = SessionParams {
        user: "tester".into(),
        database: "a".into(),
        settings: vec![("work_mem".into(), "9MB".into())],
        ..SessionParams::default()
    };
    let mut given = engine.session(params).unwrap();
    assert_eq!(one(&mut given, SHOWN).await, "9216|client|9216");
}

#[tokio::test]
async fn settings_and_comments_of_a_database_last() {
    const COMMENT: &str =
        "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname ~ '^a'";
    let disk = SimDisk::new(33);
    let (db, engine) = open(&disk);
    let mut main = session(&engine);
    for sql in [
        "CREATE DATABASE a",
        "ALTER DATABASE a SET work_mem = '5MB'",
        "ALTER DATABASE postgres SET work_mem = '6MB'",
        "COMMENT ON DATABASE a IS 'from postgres'",
    ] {
        run(&mut main, sql).await.unwrap();
    }
    let mut a = connect(&engine, "a").unwrap();
    assert_eq!(one(&mut a, COMMENT).await, "from postgres");
    let own = "COMMENT ON DATABASE a IS 'from a'";
    run(&mut a, own).await.unwrap();
    for session in [&mut a, &mut main] {
        assert_eq!(one(session, COMMENT).await, "from a");
    }
    drop(a);
    let renamed = "ALTER DATABASE a RENAME TO a2";
    run(&mut main, renamed).await.unwrap();
    drop(main);
    engine.close().unwrap();
    drop(engine);
    db.close().unwrap();
    drop(db);
    let (_db, engine) = open(&disk);
    let mut a = connect(&engine, "a2").unwrap();
    assert_eq!(one(&mut a, "SHOW work_mem").await, "5MB");
    let mut main = session(&engine);
    assert_eq!(one(&mut main, "SHOW work_mem").await, "6MB");
    assert_eq!(one(&mut main, COMMENT).await, "from a");
    let changes = "ALTER DATABASE a2 RESET ALL; COMMENT ON DATABASE a2 IS NULL";
    run(&mut main, changes).await.unwrap();
    let count = "SELECT count(*) FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase
        WHERE datname = 'a2'";
    assert_eq!(one(&mut main, count).await, "0");
    assert_eq!(one(&mut main, COMMENT).await, "NULL");
}

#[tokio::test]
async fn a_transaction_changes_a_database_more_than_once() {
    let (_db, engine) = open(&SimDisk::new(32));
    let mut main = session(&engine);
    run(&mut main, "CREATE DATABASE a").await.unwrap();
    let changes = "BEGIN; ALTER DATABASE a SET work_mem = '5MB';
        ALTER DATABASE a CONNECTION LIMIT 7; SAVEPOINT s; ALTER DATABASE a SET lock_timeout = 1;
        ALTER DATABASE a SET lock_timeout = 2; ROLLBACK TO s; ALTER DATABASE a SET app.x = '1'";
    run(&mut main, changes).await.unwrap();
    // Another waits for its end, and loses nothing of it.
    let other = crate::harness::background(&engine, "ALTER DATABASE a SET app.y = '2'");
    crate::harness::until_blocked(&engine).await;
    run(&mut main, "COMMIT").await.unwrap();
    other.await.unwrap().unwrap();
    let shown = "SELECT setconfig, datconnlimit FROM pg_db_role_setting JOIN pg_database d
        ON d.oid = setdatabase";
    let expected = "{work_mem=5MB,app.x=1,app.y=2}|7";
    assert_eq!(one(&mut main, shown).await, expected);
}
