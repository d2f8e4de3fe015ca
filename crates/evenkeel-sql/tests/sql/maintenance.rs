//! VACUUM, ANALYZE and autovacuum.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_engine::{Config, Database};
use evenkeel_io::SimDisk;
use evenkeel_sql::{Autovacuum, AutovacuumConfig, SqlConfig, SqlEngine};

use crate::harness::{catalog, open, run, session};

async fn one(session: &mut evenkeel_sql::Session, sql: &str) -> String {
    run(session, sql).await.unwrap().0.join("\n")
}

/// Autovacuum that looks all the time, and finds something due soon.
fn eager() -> AutovacuumConfig {
    AutovacuumConfig {
        naptime: Duration::from_millis(5),
        vacuum_threshold: 10.0,
        analyze_threshold: 10.0,
        vacuum_scale_factor: 0.0,
        analyze_scale_factor: 0.0,
        ..AutovacuumConfig::default()
    }
}

const FILL: &str = "CREATE TABLE t (id int PRIMARY KEY, n int); \
                    INSERT INTO t SELECT i, i FROM generate_series(1, 500) AS g(i)";

#[tokio::test]
async fn autovacuum_does_what_is_due_and_leaves_what_is_off() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, FILL).await.unwrap();
    run(
        &mut main,
        "CREATE TABLE idle (id int) WITH (autovacuum_enabled = false); \
         INSERT INTO idle SELECT i FROM generate_series(1, 500) AS g(i)",
    )
    .await
    .unwrap();
    let mut autovacuum = Autovacuum::start(engine.databases(), &eager()).unwrap();
    run(&mut main, "DELETE FROM t WHERE id > 100; DELETE FROM idle")
        .await
        .unwrap();
    let known = "SELECT reltuples FROM pg_class WHERE relname = 't'";
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let counts = counts(&engine, "t");
        if counts.autovacuum_count > 0
            && counts.autoanalyze_count > 0
            && one(&mut main, known).await == "100"
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    autovacuum.stop();
    assert_eq!(one(&mut main, known).await, "100");
    let done = counts(&engine, "t");
    assert_eq!((done.n_live_tup, done.n_dead_tup), (100, 0), "{done:?}");
    assert!(done.last_autovacuum.is_some() && done.last_vacuum.is_none());
    let idle = counts(&engine, "idle");
    assert_eq!((idle.autovacuum_count, idle.n_dead_tup), (0, 500));
}

fn counts(engine: &SqlEngine, table: &str) -> evenkeel_engine::stats::TableStatistics {
    let state = catalog(engine).current();
    let table = state.tables().find(|t| &*t.name == table).unwrap();
    engine.database().table_statistics(u64::from(table.oid))
}

/// A session gets a table's lock while an automatic vacuum is working on the table.
#[tokio::test]
async fn an_automatic_vacuum_gives_way() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, FILL).await.unwrap();
    run(
        &mut main,
        "INSERT INTO t SELECT i, i FROM generate_series(501, 20000) AS g(i); \
         ALTER TABLE t SET (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)",
    )
    .await
    .unwrap();
    run(&mut main, "UPDATE t SET n = 0").await.unwrap();
    let mut autovacuum = Autovacuum::start(engine.databases(), &eager()).unwrap();
    while engine.database().vacuums_in_progress().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let begun = std::time::Instant::now();
    run(&mut main, "ALTER TABLE t ADD CONSTRAINT u UNIQUE (id)")
        .await
        .unwrap();
    // The vacuum would have taken half a minute.
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    autovacuum.stop();
}

#[tokio::test]
async fn counts_survive_a_clean_restart() {
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| {
        let disk = Arc::new(disk.clone());
        let db = Database::open(disk, Path::new("/data"), Config::default()).unwrap();
        (
            db.clone(),
            SqlEngine::open(db, SqlConfig::default()).unwrap(),
        )
    };
    let (db, engine) = open(&disk);
    let mut main = session(&engine);
    run(&mut main, FILL).await.unwrap();
    run(&mut main, "DELETE FROM t WHERE id <= 20")
        .await
        .unwrap();
    run(&mut main, "ANALYZE t").await.unwrap();
    run(&mut main, "DELETE FROM t WHERE id <= 30")
        .await
        .unwrap();
    let mut before = counts(&engine, "t");
    assert_eq!((before.n_live_tup, before.n_mod_since_analyze), (470, 10));
    // Times are kept in microseconds.
    let micros = u64::try_from(before.total_analyze_time.as_micros()).unwrap();
    before.total_analyze_time = Duration::from_micros(micros);
    drop(main);
    engine.close().unwrap();
    db.close().unwrap();
    drop((engine, db));
    let (db, engine) = open(&disk);
    assert_eq!(counts(&engine, "t"), before);
    let mut main = session(&engine);
    // The statistics that analyze gathered are in the catalog.
    let known = "SELECT reltuples, (SELECT n_distinct FROM pg_stats WHERE attname = 'id') \
                 FROM pg_class WHERE relname = 't'";
    assert_eq!(one(&mut main, known).await, "480|-1");
    db.store().log().flush_all().unwrap();
    drop(main);
    let (_db, engine) = open(&disk.process_crash());
    assert_eq!(counts(&engine, "t").n_tup_ins, 0);
    let mut main = session(&engine);
    assert_eq!(one(&mut main, known).await, "480|-1");
}

#[tokio::test]
async fn an_analyze_that_is_rolled_back_leaves_no_statistics() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, FILL).await.unwrap();
    run(&mut main, "BEGIN; DELETE FROM t WHERE id <= 50; ANALYZE t")
        .await
        .unwrap();
    let known = "SELECT reltuples FROM pg_class WHERE relname = 't'";
    assert_eq!(one(&mut main, known).await, "450");
    run(&mut main, "ROLLBACK").await.unwrap();
    assert_eq!(one(&mut main, known).await, "-1");
}

#[tokio::test]
async fn a_verbose_vacuum_says_what_it_did() {
    let engine = open();
    let mut main = session(&engine);
    run(&mut main, FILL).await.unwrap();
    run(&mut main, "DELETE FROM t WHERE id <= 100")
        .await
        .unwrap();
    run(&mut main, "VACUUM (VERBOSE, ANALYZE) t").await.unwrap();
    let notices: Vec<_> = main.take_notices();
    assert!(notices.iter().all(|notice| notice.severity == "INFO"));
    let text: Vec<&str> = notices.iter().map(|notice| &*notice.message).collect();
    let text = text.join("\n");
    for part in [
        "vacuuming \"postgres.public.t\"",
        "finished vacuuming \"postgres.public.t\": index scans: 1\npages: 0 removed, ",
        "\ntuples: 100 removed, 400 remain, 0 are dead but not yet removable\n",
        "had 100 dead item identifiers removed\nindex \"t_pkey\": pages: ",
        "analyzing \"public.t\"",
        " full page images, ",
        "containing 400 live rows and 0 dead rows; 400 rows in sample, 400 estimated total rows",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains("WAL usage: 0 records"), "{text}");
}

/// Plans know how many rows a table has.
#[tokio::test]
async fn plans_use_the_statistics() {
    let engine = open();
    let mut main = session(&engine);
    run(
        &mut main,
        "CREATE TABLE big (a int, b int); CREATE TABLE small (c int); \
         INSERT INTO big SELECT i, i % 10 FROM generate_series(1, 20000) AS g(i); \
         INSERT INTO small SELECT i FROM generate_series(1, 5) AS g(i); ANALYZE",
    )
    .await
    .unwrap();
    for query in [
        "EXPLAIN SELECT count(a) FROM big, small WHERE b = c",
        "EXPLAIN SELECT count(a) FROM small, big WHERE b = c",
    ] {
        let plan = one(&mut main, query).await;
        // The hash table is made of the smaller side.
        let (big, small) = (plan.find("Seq Scan on big"), plan.find("Seq Scan on small"));
        let hash = plan.find("->  Hash  (");
        assert!(
            big.is_some() && big < hash && hash < small,
            "{query}:\n{plan}"
        );
    }
}
