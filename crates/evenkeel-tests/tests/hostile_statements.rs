//! One client against all others: statements that are deep, long, large or slow end with an answer
//! or an error of their own, soon after they are cancelled, while well-behaved sessions beside them
//! are served as ever.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use evenkeel_tests::quiet::{self, Quiet, connect, head, limit, outcome, value};
use evenkeel_tests::server::{TestServer, client_runtime};
use tokio_postgres::{Client, NoTls};

/// A statement that was cancelled ends within a tenth of a second; with room for eight sessions
/// beside it, and the more the busier the machine is.
fn cancelled_within(limit: Duration) -> Duration {
    limit / 4
}

async fn prepare_tables(client: &Client) {
    let setup = "CREATE TABLE t (a int PRIMARY KEY, b int, c text);
         INSERT INTO t SELECT g, g % 100, 'row ' || g FROM generate_series(1, 20000) g";
    client.batch_execute(setup).await.unwrap();
    quiet::prepare(client).await;
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

fn chain(term: impl Fn(usize) -> String, between: &str, length: usize) -> String {
    let terms: Vec<String> = (0..length).map(term).collect();
    terms.join(between)
}

/// Queries of WITH each of which joins the one before with itself.
fn doubling(length: usize) -> String {
    let mut sql = "WITH c0 AS (SELECT 1 AS a)".to_owned();
    for n in 1..length {
        let before = n - 1;
        sql += &format!(", c{n} AS (SELECT x.a FROM c{before} x JOIN c{before} y ON x.a = y.a)");
    }
    format!("{sql} SELECT count(*) FROM c{}", length - 1)
}

/// Queries of WITH, each over the one before.
fn over(length: usize, query: impl Fn(usize) -> String) -> String {
    let mut sql = "WITH c0 AS (SELECT 1 AS a)".to_owned();
    for n in 1..length {
        sql += &format!(", c{n} AS {}", query(n - 1));
    }
    format!("{sql} SELECT a FROM c{}", length - 1)
}

/// Statements that PostgreSQL answers, with its answers.
fn answered() -> Vec<(String, &'static str)> {
    let ones = |length| chain(|_| "1".to_owned(), "+", length);
    let any = |length| chain(|n| format!("a = {n}"), " OR ", length);
    let all = |length| chain(|n| format!("a <> {n}"), " AND ", length);
    let sets = |length| chain(|n| format!("SELECT {n} AS n"), " UNION ALL ", length);
    let subselects = |depth| {
        let mut sql = "SELECT 7 AS a".to_owned();
        for n in 0..depth {
            sql = format!("SELECT a FROM ({sql}) s{n}");
        }
        sql
    };
    vec![
        (format!("SELECT {}", ones(2000)), "2000"),
        (
            format!("SELECT count(*) FROM t WHERE {}", any(2000)),
            "1999",
        ),
        (
            format!("SELECT count(*) FROM t WHERE {}", any(10_000)),
            "9999",
        ),
        (
            format!("SELECT count(*) FROM t WHERE {}", all(2000)),
            "18001",
        ),
        (format!("SELECT a + {} FROM t WHERE a = 5", ones(60)), "65"),
        (format!("SELECT count(*) FROM ({}) s", sets(592)), "592"),
        (doubling(30), "1"),
        (subselects(56), "7"),
        (format!("SELECT {}", nested("abs(", "-3", ")", 60)), "3"),
        (format!("SELECT {}", nested("(", "4", ")", 200)), "4"),
        (format!("SELECT {}", nested("NOT ", "true", "", 60)), "t"),
        (format!("SELECT {}", nested("(SELECT ", "6", ")", 10)), "6"),
        (
            format!("SELECT {}", nested("CASE WHEN true THEN ", "8", " END", 40)),
            "8",
        ),
        (
            format!("SELECT {}", chain(|_| "'x'".into(), " || ", 60)),
            &X60,
        ),
        (
            format!(
                "SELECT length({})",
                nested("replace(", "'xx'", ", 'x', 'xx')", 10)
            ),
            "2048",
        ),
        ("SELECT lpad('hi', -5, 'xy') || '.'".into(), "."),
        ("SELECT rpad('hi', 0, 'xy') || '.'".into(), "."),
        ("SELECT length(repeat('x', 10000000))".into(), "10000000"),
    ]
}

static X60: LazyLock<String> = LazyLock::new(|| "x".repeat(60));

/// Chains of WITH, as many as one text may have: in a row, and one within the other. All answer 1.
fn chains() -> Vec<String> {
    let plain = |n| format!("(SELECT a FROM c{n})");
    let kept = |n| format!("MATERIALIZED (SELECT a FROM c{n})");
    let windows = |n| format!("MATERIALIZED (SELECT max(a) OVER () AS a FROM c{n})");
    let hashed = |n| format!("MATERIALIZED (SELECT a FROM c{n} WHERE a IN (SELECT a FROM c{n}))");
    let levels = |n| format!("(SELECT max(a) OVER () AS a FROM c{n})");
    vec![
        over(100, plain),
        over(736, plain),
        over(2500, kept),
        over(1500, windows),
        over(500, hashed),
        over(2500, levels),
    ]
}

/// Statements that change rows, and how many.
fn executed() -> Vec<(String, u64)> {
    let any = |length| chain(|n| format!("a = {n}"), " OR ", length);
    let all = |length| chain(|n| format!("a <> {n}"), " AND ", length);
    vec![
        (format!("UPDATE t SET b = b WHERE {}", any(2000)), 1999),
        (format!("UPDATE t SET b = b WHERE {}", all(2000)), 18_001),
        (
            format!("DELETE FROM t WHERE a < 0 AND ({})", any(10_000)),
            0,
        ),
    ]
}

/// Statements that are refused, with their SQLSTATEs.
fn refused() -> Vec<(String, &'static str)> {
    vec![
        ("SELECT $99999999999".into(), "42601"),
        ("SELECT $999999999".into(), "42P02"),
        ("SELECT $65536".into(), "42P02"),
        ("SELECT $0".into(), "42P02"),
        (
            format!("SELECT {}", nested("(", "1", ")", 100_000)),
            "54001",
        ),
        (format!("SELECT {}", "(".repeat(200_000)), "54001"),
        (format!("SELECT {}1", "- ".repeat(100_000)), "54001"),
        (format!("SELECT 1{}", "+1".repeat(100_000)), "54001"),
        (format!("SELECT 1::int{}", "[]".repeat(100_000)), "54001"),
        (
            format!("SELECT 1{}", " UNION SELECT 1".repeat(50_000)),
            "54001",
        ),
        (
            format!("SELECT {}", nested("(SELECT ", "6", ")", 40)),
            "54001",
        ),
        (format!("SELECT a{} FROM t", " + a".repeat(5000)), "54001"),
        ("SELECT repeat('x', 2000000000)".into(), "54000"),
        ("SELECT lpad('x', 2000000000)".into(), "54000"),
        ("SELECT length(rpad('x', 1000000000, 'y'))".into(), "54000"),
        (
            "SELECT replace(repeat('x', 100000), 'x', repeat('y', 100000))".into(),
            "54000",
        ),
        (
            format!(
                "SELECT length({})",
                nested("replace(", "'xxxxxxxxxx'", ", 'x', 'xxxxxxxxxx')", 10)
            ),
            "54000",
        ),
        ("SELECT 1e1000000000".into(), "22003"),
    ]
}

/// Statements that would take minutes.
fn endless() -> Vec<&'static str> {
    static CHECKS: LazyLock<String> = LazyLock::new(|| {
        let checks = chain(|n| format!("CHECK (a <> {n})"), ", ", 6000);
        format!("CREATE TABLE checked (a int, {checks})")
    });
    static SETS: LazyLock<String> = LazyLock::new(|| {
        let sets = chain(|n| format!("(a, b, {n} + a)"), ", ", 500);
        format!("SELECT count(*) FROM (SELECT max(c) FROM t GROUP BY GROUPING SETS ({sets})) s")
    });
    vec![
        &CHECKS,
        &SETS,
        "SELECT * FROM t x, t y, t z ORDER BY x.c, y.c, z.c",
        "SELECT count(*) FROM t x JOIN t y ON x.a + y.a < 0 JOIN t z ON x.b + y.b + z.b < 0",
        "SELECT count(*) FROM t x, t y, t z WHERE x.a + y.b * z.a = -1",
        "SELECT count(*) FROM generate_series(1, 1000000000000) g",
        "SELECT x.b, sum(y.a) FROM t x, t y, t z GROUP BY x.b",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
        "INSERT INTO t SELECT -(x.a * 20000 + y.a), 0, '' FROM t x, t y",
        "CREATE INDEX ON t (length(repeat(c, 1000000)))",
        "SELECT count(DISTINCT (SELECT jsonb_agg(y.c || x.a) FROM t y)) FROM t x",
        "UPDATE t SET b = s.n FROM (SELECT count(*)::int AS n FROM t x, t y, t z) s WHERE t.a = 1",
    ]
}

fn start(dir: &tempfile::TempDir) -> TestServer {
    TestServer::start(&dir.path().join("data"), &["fsync=off"])
}

#[test]
fn what_postgresql_answers_is_answered_and_the_rest_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir);
    client_runtime().block_on(async {
        let client = connect(&server).await;
        prepare_tables(&client).await;
        let limit = limit(&server).await;
        let quiet = Quiet::begin(&server).await;
        for (sql, expected) in answered() {
            assert_eq!(value(&client, &sql).await, expected, "{}", head(&sql));
        }
        for sql in chains() {
            assert_eq!(value(&client, &sql).await, "1", "{}", head(&sql));
        }
        for (sql, rows) in executed() {
            let changed = client.execute(&sql, &[]).await.unwrap();
            assert_eq!(changed, rows, "{}", head(&sql));
        }
        for (sql, sqlstate) in refused() {
            assert_eq!(outcome(&client, &sql).await, sqlstate, "{}", head(&sql));
        }
        let slowest = quiet.end().await;
        assert!(slowest < limit, "{slowest:?} of {limit:?}");
    });
    assert!(server.stop().success());
}

/// The text of a plan grows with the square of its levels, and is charged.
#[test]
fn a_deep_plan_is_shown_within_the_sessions_memory() {
    let dir = tempfile::tempdir().unwrap();
    let settings = &["fsync=off", "max_session_memory=16MB"];
    let server = TestServer::start(&dir.path().join("data"), settings);
    client_runtime().block_on(async {
        let client = connect(&server).await;
        for format in ["TEXT", "JSON"] {
            for (levels, ends) in [(300, "00000"), (1700, "53200")] {
                let window = |n| format!("(SELECT max(a) OVER () AS a FROM c{n})");
                let deep = over(levels, window);
                let explain = format!("EXPLAIN (FORMAT {format}) {deep}");
                assert_eq!(outcome(&client, &explain).await, ends, "{format} {levels}");
            }
        }
    });
    assert!(server.stop().success());
}

#[test]
fn whatever_runs_ends_soon_after_it_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir);
    client_runtime().block_on(async {
        let client = connect(&server).await;
        prepare_tables(&client).await;
        let limit = limit(&server).await;
        let quiet = Quiet::begin(&server).await;
        for sql in endless() {
            let cancel = client.cancel_token();
            let canceller = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(300)).await;
                let sent = Instant::now();
                cancel.cancel_query(NoTls).await.unwrap();
                sent
            });
            let ended = outcome(&client, sql).await;
            let took = canceller.await.unwrap().elapsed();
            assert_eq!(ended, "57014", "{sql}");
            let within = cancelled_within(limit);
            println!("{took:?} {}", head(sql));
            assert!(took < within, "{took:?} after its cancel: {sql}");
        }
        let slowest = quiet.end().await;
        assert!(slowest < limit, "{slowest:?} of {limit:?}");
    });
    assert!(server.stop().success());
}

#[test]
fn many_hostile_sessions_at_once_do_not_hold_up_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir);
    client_runtime().block_on(async {
        let client = connect(&server).await;
        prepare_tables(&client).await;
        let limit = limit(&server).await;
        let quiet = Quiet::begin(&server).await;
        let mut hostile = Vec::new();
        for sql in endless() {
            let client = connect(&server).await;
            hostile.push(tokio::spawn(async move {
                outcome(&client, "SET statement_timeout = '2s'").await;
                for _ in 0..2 {
                    assert_eq!(outcome(&client, sql).await, "57014", "{sql}");
                }
            }));
        }
        let mut deep: Vec<String> = answered().into_iter().map(|(sql, _)| sql).collect();
        deep.extend(chains());
        deep.extend(refused().into_iter().map(|(sql, _)| sql));
        for _ in 0..4 {
            let client = connect(&server).await;
            let deep = deep.clone();
            hostile.push(tokio::spawn(async move {
                outcome(&client, "SET statement_timeout = '2s'").await;
                for sql in deep {
                    outcome(&client, &sql).await;
                }
            }));
        }
        for session in hostile {
            session
                .await
                .expect("a hostile session keeps its connection");
        }
        let slowest = quiet.end().await;
        assert!(slowest < limit, "{slowest:?} of {limit:?}");
    });
    assert!(server.stop().success());
}
