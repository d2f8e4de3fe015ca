//! pg_dump reads a database, and psql makes the same one of what it wrote.

use evenkeel_tests::server::TestServer;

const TABLES: [&str; 4] = [
    "pgbench_accounts",
    "pgbench_branches",
    "pgbench_history",
    "pgbench_tellers",
];

fn start(dir: &tempfile::TempDir, name: &str) -> TestServer {
    TestServer::start(&dir.path().join(name), &["fsync=off"])
}

/// Views over tables that are dumped behind them by name, renamed since, and over one another.
const VIEWS: &str = "
    CREATE VIEW a_balances (branch, balance, tellers) AS
        SELECT bid, bbalance, (SELECT count(*) FROM pgbench_tellers t WHERE t.bid = b.bid)
        FROM pgbench_branches b;
    CREATE SCHEMA apart;
    CREATE TABLE apart.noted (branch int, note text);
    INSERT INTO apart.noted VALUES (1, 'first');
    CREATE VIEW a_noted AS SELECT * FROM a_balances JOIN apart.noted USING (branch);
    ALTER TABLE apart.noted RENAME COLUMN note TO words;
    ALTER TABLE apart.noted RENAME TO notes;
    ALTER TABLE apart.notes ADD COLUMN more int;
    ALTER VIEW a_noted RENAME COLUMN note TO remark;";

/// Types whose labels were added and renamed, and tables and views with them.
const TYPES: &str = "
    CREATE SCHEMA kinds;
    CREATE TYPE kinds.mood AS ENUM ('sad', 'it''s ok');
    CREATE TABLE kinds.people (name text, mood kinds.mood DEFAULT 'sad', before kinds.mood[],
        CHECK (mood <> 'sad' OR name <> ''));
    CREATE INDEX ON kinds.people (mood) WHERE mood > 'sad';
    CREATE VIEW kinds.content AS SELECT name, mood FROM kinds.people WHERE mood >= 'it''s ok';
    ALTER TYPE kinds.mood ADD VALUE 'meh' BEFORE 'it''s ok';
    ALTER TYPE kinds.mood RENAME VALUE 'sad' TO 'Sad, very';
    ALTER TYPE kinds.mood RENAME TO \"Mood\";
    COMMENT ON TYPE kinds.\"Mood\" IS 'how one feels';
    CREATE DOMAIN kinds.positive AS int DEFAULT 3 CONSTRAINT more CHECK (VALUE > 0);
    CREATE DOMAIN kinds.good AS kinds.\"Mood\" NOT NULL CHECK (VALUE <> 'Sad, very');
    CREATE DOMAIN kinds.even AS kinds.positive;
    ALTER DOMAIN kinds.even ADD CONSTRAINT is_even CHECK (VALUE % 2 = 0) NOT VALID;
    COMMENT ON DOMAIN kinds.even IS 'two, four, …';
    COMMENT ON CONSTRAINT is_even ON DOMAIN kinds.even IS 'no rest';
    CREATE TABLE kinds.counts (a kinds.positive, b kinds.even DEFAULT 4::kinds.positive,
        c kinds.good DEFAULT 'meh', d kinds.positive[], CHECK (a < 9::kinds.positive));
    INSERT INTO kinds.counts VALUES (DEFAULT, DEFAULT, DEFAULT, '{1,2}');
    INSERT INTO kinds.people VALUES ('a', DEFAULT, '{meh,\"it''s ok\"}'), ('b', 'it''s ok', NULL);";

/// The tables' definitions and rows, and those of the views.
fn content(server: &TestServer) -> String {
    let mut all = server.psql("\\d").ok();
    all.push_str(&server.psql("\\dT+ kinds.*").ok());
    all.push_str(&server.psql("\\d kinds.people").ok());
    all.push_str(&server.psql("\\dD+ kinds.*").ok());
    all.push_str(&server.psql("\\d kinds.counts").ok());
    all.push_str(&server.psql("SELECT * FROM kinds.counts").ok());
    for relation in ["people", "content"] {
        let sql = format!("SELECT * FROM kinds.{relation} ORDER BY mood, name");
        all.push_str(&server.psql(&sql).ok());
    }
    for view in ["a_balances", "a_noted"] {
        all.push_str(&server.psql(&format!("\\d {view}")).ok());
        all.push_str(&server.psql(&format!("SELECT * FROM {view}")).ok());
    }
    for table in TABLES {
        all.push_str(&server.psql(&format!("\\d {table}")).ok());
        let sql = format!("SELECT * FROM {table} ORDER BY 1, 2, 3");
        all.push_str(&server.psql(&sql).ok());
    }
    all
}

#[test]
fn a_dump_restores_the_database_it_was_taken_of() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (start(&dir, "source"), start(&dir, "target"));
    source.pgbench(&["-i", "-s", "1"]).ok();
    source.pgbench(&["-n", "-t", "20"]).ok();
    source.psql(VIEWS).ok();
    source.psql(TYPES).ok();
    let dump = source.pg_dump(&[]);
    let file = dir.path().join("dump.sql");
    std::fs::write(&file, dump.ok()).unwrap();
    let file = file.to_str().unwrap();
    let restore = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file];
    target.psql_with(&restore).ok();
    assert_eq!(content(&target), content(&source));
    let inserts = source.pg_dump(&["--inserts", "-t", "pgbench_tellers"]).ok();
    let lines = inserts.lines();
    let insert = |line: &&str| line.starts_with("INSERT INTO public.pgbench_tellers");
    assert_eq!(lines.filter(insert).count(), 10);
}

/// `pg_dump -C` makes the database as well, and psql goes to it.
#[test]
fn a_dump_that_creates_its_database_does_so() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (start(&dir, "source"), start(&dir, "target"));
    let made = "CREATE DATABASE \"The shop\" CONNECTION LIMIT 9";
    source.psql(made).ok();
    let within = |server: &TestServer, sql: &str| server.psql_in("The shop", sql).ok();
    within(
        &source,
        "CREATE TABLE goods (id serial PRIMARY KEY, name text)",
    );
    within(
        &source,
        "INSERT INTO goods (name) VALUES ('rope'), ('sail')",
    );
    within(
        &source,
        "COMMENT ON DATABASE \"The shop\" IS 'of the harbour'",
    );
    let dump = source.pg_dump(&["-C", "-d", "The shop"]).ok();
    let file = dir.path().join("dump.sql");
    std::fs::write(&file, dump).unwrap();
    let file = file.to_str().unwrap();
    target
        .psql_with(&["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file])
        .ok();
    let content = "SELECT string_agg(name, ' ' ORDER BY id), \
                   (SELECT datconnlimit FROM pg_database WHERE datname = current_database()), \
                   (SELECT shobj_description(oid, 'pg_database') FROM pg_database \
                    WHERE datname = current_database()) FROM goods";
    assert_eq!(within(&target, content), "rope sail|9|of the harbour\n");
    assert_eq!(within(&source, content), within(&target, content));
}
