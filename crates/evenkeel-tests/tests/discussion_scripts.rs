//! The scripts of the discussions that evenkeel answers, verbatim but for their sizes.

use evenkeel_tests::server::TestServer;

#[test]
fn the_uuid_insert_script_with_three_indexes_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    for statement in [
        "CREATE TABLE t (c1 uuid NOT NULL, c2 uuid NOT NULL, c3 integer NOT NULL, c4 integer NOT NULL)",
        "CREATE INDEX i1 ON t USING btree (c1)",
        "CREATE INDEX i2 ON t USING btree (c2)",
        "CREATE INDEX i3 ON t USING btree (c3)",
        "CREATE EXTENSION \"uuid-ossp\"",
    ] {
        server.psql(statement).ok();
    }
    let script = dir.path().join("insert_only.sql");
    let text = "BEGIN; INSERT INTO t (c1,c2,c3,c4) values ( uuid_generate_v4(), \
                uuid_generate_v4(),round(5000*random()), 500); END;";
    std::fs::write(&script, text).unwrap();
    let script = script.display().to_string();
    server
        .pgbench(&["-n", "-c", "8", "-j", "8", "-f", &script, "-t", "50"])
        .ok();
    let counts = "SELECT count(*), count(DISTINCT c1), min(c3) >= 0 AND max(c3) <= 5000 FROM t";
    assert_eq!(server.psql(counts).ok().trim(), "400|400|t");
    assert!(server.stop().success());
    let check = evenkeel_tests::server::evenkeel(&[
        "check",
        &dir.path().join("data").display().to_string(),
    ]);
    check.ok();
}

#[test]
fn the_freeze_script_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    server.pgbench(&["-i", "-s", "1"]).ok();
    server.psql("VACUUM FREEZE").ok();
    server.psql("CHECKPOINT").ok();
    server
        .psql("UPDATE pgbench_accounts SET aid=aid WHERE random() < 0.005")
        .ok();
    server.psql("CHECKPOINT").ok();
    server.psql("VACUUM FREEZE pgbench_accounts").ok();
    let accounts = server
        .psql("SELECT count(*), sum(aid) FROM pgbench_accounts")
        .ok();
    assert_eq!(accounts.trim(), "100000|5000050000");
}
