//! ALTER TABLE across crashes, and beside other sessions.

use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::{Config, Database};
use evenkeel_io::SimDisk;
use evenkeel_sql::{Session, SqlConfig, SqlEngine};

use crate::harness::{catalog, run, session};

const ALTERED: &str = "ALTER TABLE t ALTER c TYPE bigint USING c * 2, DROP COLUMN b, \
                       ADD COLUMN d int NOT NULL DEFAULT 5, ADD CHECK (d > c - 100000), \
                       ADD COLUMN e int GENERATED ALWAYS AS (id + 1) STORED; \
                       ALTER TABLE t ADD COLUMN f text DEFAULT 'late'; \
                       ALTER TABLE t RENAME COLUMN c TO cc";

fn open(disk: &SimDisk) -> (Database, Arc<SqlEngine>) {
    let path = Path::new("/data");
    let db = Database::open(Arc::new(disk.clone()), path, Config::default()).unwrap();
    let engine = SqlEngine::open(db.clone(), SqlConfig::default()).unwrap();
    (db, engine)
}

async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    run(session, sql).await.unwrap().0
}

fn assert_sound(engine: &Arc<SqlEngine>) {
    for table in catalog(engine).current().tables() {
        let report = table.table.check().unwrap();
        assert!(report.is_ok(), "{}: {:?}", table.name, report.problems);
    }
    for (name, table) in catalog(engine).system_tables() {
        let report = table.check().unwrap();
        assert!(report.is_ok(), "{name}: {:?}", report.problems);
    }
}

#[tokio::test]
async fn a_table_that_was_altered_is_as_it_was_or_as_it_was_altered_after_a_crash() {
    let disk = SimDisk::new(11);
    let (db, engine) = open(&disk);
    let mut main = session(&engine);
    let fill = "CREATE TABLE t (id int PRIMARY KEY, b text UNIQUE, c int); \
                CREATE INDEX t_c ON t (c); \
                INSERT INTO t SELECT n, 'b' || n, n * 10 FROM generate_series(1, 3000) n";
    run(&mut main, fill).await.unwrap();
    let wanted = rows(&mut main, "SELECT * FROM t ORDER BY id").await;

    // Not committed: nothing of it is left, its files neither.
    run(&mut main, "BEGIN").await.unwrap();
    run(&mut main, ALTERED).await.unwrap();
    db.store().log().flush_all().unwrap();
    let disk = disk.process_crash();
    drop((main, engine, db));
    let (db, engine) = open(&disk);
    let mut main = session(&engine);
    assert_eq!(rows(&mut main, "SELECT * FROM t ORDER BY id").await, wanted);
    assert_eq!(
        rows(&mut main, "SELECT id FROM t WHERE c = 500").await,
        ["50"]
    );
    assert_sound(&engine);

    // Committed: all of it is there.
    run(&mut main, ALTERED).await.unwrap();
    run(&mut main, "INSERT INTO t (id, cc) VALUES (4000, 1)")
        .await
        .unwrap();
    let altered = rows(&mut main, "SELECT * FROM t ORDER BY id").await;
    assert_eq!(altered[49], "50|1000|5|51|late");
    db.store().log().flush_all().unwrap();
    let disk = disk.process_crash();
    drop((main, engine, db));
    let (_db, engine) = open(&disk);
    let mut main = session(&engine);
    assert_eq!(
        rows(&mut main, "SELECT * FROM t ORDER BY id").await,
        altered
    );
    assert_eq!(
        rows(&mut main, "SELECT id FROM t WHERE cc = 1000").await,
        ["50"]
    );
    let refused = run(&mut main, "INSERT INTO t (id, cc) VALUES (4001, 200000)").await;
    assert_eq!(refused.unwrap_err().sqlstate.as_str(), "23514");
    assert_sound(&engine);
}

#[tokio::test]
async fn an_alteration_that_is_rolled_back_leaves_no_file() {
    let disk = SimDisk::new(12);
    let (_db, engine) = open(&disk);
    let mut main = session(&engine);
    let fill = "CREATE TABLE t (id int PRIMARY KEY, b text, c int); \
                INSERT INTO t SELECT n, 'b', n FROM generate_series(1, 100) n";
    run(&mut main, fill).await.unwrap();
    let files = || {
        use evenkeel_io::Disk;
        disk.list(Path::new("/data/base")).unwrap().len()
    };
    let before = files();
    run(&mut main, "BEGIN").await.unwrap();
    run(&mut main, "ALTER TABLE t ALTER c TYPE text")
        .await
        .unwrap();
    run(&mut main, "ROLLBACK").await.unwrap();
    let failed = run(
        &mut main,
        "ALTER TABLE t ALTER c TYPE int USING 1 / (c - 50)",
    )
    .await;
    assert_eq!(failed.unwrap_err().sqlstate.as_str(), "22012");
    run(&mut main, "CHECKPOINT").await.unwrap();
    // Dropped by a thread of the engine's.
    for _ in 0..1000 {
        if files() == before {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(files(), before);
    assert_sound(&engine);
}
