//! psql's own commands, and a driver that speaks the extended protocol with binary values.

use evenkeel_tests::raw::{Answer, RawClient, bind, error_state, execute};
use evenkeel_tests::server::{TestServer, client_runtime};
use futures::StreamExt;
use tokio_postgres::NoTls;

fn psql(server: &TestServer, command: &str) -> String {
    server.psql_with(&["-X", "-c", command]).ok()
}

#[test]
fn psql_describes_tables_indexes_and_databases() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    server
        .psql(
            "CREATE TABLE fruit (id int PRIMARY KEY, name varchar(20) NOT NULL, \
                 price numeric(8,2) DEFAULT 0, picked timestamptz)",
        )
        .ok();
    server
        .psql("CREATE INDEX fruit_name ON fruit (name, price)")
        .ok();
    let list = psql(&server, "\\d");
    assert!(list.contains("public | fruit | table"), "{list}");
    assert!(psql(&server, "\\dt").contains("fruit"));
    let indexes = psql(&server, "\\di");
    assert!(
        indexes.contains("fruit_pkey") && indexes.contains("fruit_name"),
        "{indexes}"
    );
    let fruit = psql(&server, "\\d fruit");
    for expected in [
        "Table \"public.fruit\"",
        "character varying(20)",
        "numeric(8,2)",
        "timestamp with time zone",
        "not null",
        "\"fruit_pkey\" PRIMARY KEY, btree (id)",
        "\"fruit_name\" btree (name, price)",
    ] {
        assert!(
            fruit.contains(expected),
            "{expected} is missing in\n{fruit}"
        );
    }
    assert!(psql(&server, "\\l").contains("postgres"));
    let nothing = server.psql_with(&["-X", "-c", "\\d vegetable"]);
    assert!(
        nothing.stderr.contains("Did not find any relation"),
        "{}",
        nothing.stderr
    );
}

#[test]
fn values_travel_in_binary_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    server
        .psql("CREATE TABLE v (a int2, b int4, c int8, d float4, e float8, f text, g bool)")
        .ok();
    client_runtime().block_on(async {
        let (client, driver) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(driver);
        let insert = client
            .prepare("INSERT INTO v VALUES ($1, $2, $3, $4, $5, $6, $7)")
            .await
            .unwrap();
        let text = "häßlich".to_owned();
        client
            .execute(
                &insert,
                &[
                    &-7_i16,
                    &70_000_i32,
                    &(1_i64 << 40),
                    &1.5_f32,
                    &-2.25_f64,
                    &text,
                    &true,
                ],
            )
            .await
            .unwrap();
        let none: Option<i32> = None;
        client
            .execute("INSERT INTO v (b) VALUES ($1)", &[&none])
            .await
            .unwrap();
        let row = client
            .query_one("SELECT * FROM v WHERE b = $1", &[&70_000_i32])
            .await
            .unwrap();
        assert_eq!(row.get::<_, i16>(0), -7);
        assert_eq!(row.get::<_, i64>(2), 1 << 40);
        assert!((row.get::<_, f32>(3) - 1.5).abs() < f32::EPSILON);
        assert!((row.get::<_, f64>(4) + 2.25).abs() < f64::EPSILON);
        assert_eq!(row.get::<_, String>(5), text);
        assert!(row.get::<_, bool>(6));
        let rows = client
            .query("SELECT a FROM v WHERE b IS NULL", &[])
            .await
            .unwrap();
        assert_eq!(rows[0].get::<_, Option<i16>>(0), None);
    });
}

#[test]
fn a_portal_gives_its_rows_in_portions() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    client_runtime().block_on(async {
        let (mut client, driver) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(driver);
        let transaction = client.transaction().await.unwrap();
        let query = "SELECT g::int FROM generate_series(1, 25) g ORDER BY 1";
        let portal = transaction.bind(query, &[]).await.unwrap();
        let mut seen = Vec::new();
        // Each tag counts the rows of its own call, and a portal without more has none to give.
        for (expected, tag) in [(10, None), (10, None), (5, Some(5)), (0, Some(0))] {
            let rows = transaction.query_portal_raw(&portal, 10).await.unwrap();
            let mut rows = std::pin::pin!(rows);
            let before = seen.len();
            while let Some(row) = rows.next().await {
                seen.push(row.unwrap().get::<_, i32>(0));
            }
            assert_eq!(seen.len() - before, expected);
            assert_eq!(rows.rows_affected(), tag);
        }
        assert_eq!(seen, (1..=25).collect::<Vec<_>>());
        let command = transaction.bind("SET extra_float_digits = 1", &[]).await;
        let command = command.unwrap();
        transaction.query_portal(&command, 0).await.unwrap();
        let error = transaction.query_portal(&command, 0).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "55000");
    });
}

/// Drivers declare a cursor and ask for its columns as for those of a portal.
#[test]
fn a_cursor_is_a_portal_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    let mut client = RawClient::session(server.port());
    client.query(
        "BEGIN; DECLARE c CURSOR FOR SELECT g, 'x'::text AS word FROM generate_series(1, 5) g",
    );
    let kinds = |answers: Vec<Answer>| -> String {
        answers
            .iter()
            .map(|answer| char::from(answer.kind))
            .collect()
    };
    client.send(b'D', b"Pc\0");
    client.send(b'E', &execute("c", 2));
    client.send(b'S', &[]);
    let answers = client.ready();
    assert!(answers[0].body.windows(5).any(|bytes| bytes == b"word\0"));
    assert_eq!(kinds(answers), "TDDsZ");
    assert!(client.value("FETCH c").starts_with('3'));
    client.send(b'E', &execute("c", 0));
    client.send(b'C', b"Pc\0");
    client.send(b'S', &[]);
    assert_eq!(kinds(client.ready()), "DDC3Z");
    client.send(b'D', b"Pc\0");
    client.send(b'S', &[]);
    assert_eq!(error_state(&client.ready()).as_deref(), Some("34000"));
    client.query("ROLLBACK; BEGIN; DECLARE d BINARY CURSOR FOR SELECT 1");
    client.send(b'P', b"\0SELECT 1\0\0\0");
    client.send(b'B', &bind("d", ""));
    client.send(b'S', &[]);
    assert_eq!(error_state(&client.ready()).as_deref(), Some("42P03"));
}

#[test]
fn after_an_error_everything_up_to_sync_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    client_runtime().block_on(async {
        let (client, driver) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(driver);
        assert!(client.query("SELECT * FROM nowhere", &[]).await.is_err());
        assert_eq!(
            client
                .query_one("SELECT 1::int", &[])
                .await
                .unwrap()
                .get::<_, i32>(0),
            1
        );
        client.batch_execute("BEGIN").await.unwrap();
        assert!(client.query("SELECT 1/0", &[]).await.is_err());
        let error = client.query("SELECT 1", &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "25P02");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(
            client
                .query_one("SELECT 2::int", &[])
                .await
                .unwrap()
                .get::<_, i32>(0),
            2
        );
    });
}

#[test]
fn five_hundred_idle_connections_and_64_busy_ones_are_no_trouble() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    server.pgbench(&["-i", "-s", "1"]).ok();
    client_runtime().block_on(async {
        let mut idle = Vec::new();
        for _ in 0..500 {
            let (client, driver) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
            tokio::spawn(driver);
            idle.push(client);
        }
        server
            .pgbench(&["-n", "-S", "-c", "64", "-j", "2", "-t", "100"])
            .ok();
        for client in &idle {
            client.batch_execute("SELECT 1").await.unwrap();
        }
    });
}

#[test]
fn options_of_a_connection_are_settings_of_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    let connect = |options: &str| {
        let mut config: tokio_postgres::Config = server.url().parse().unwrap();
        config.options(options).application_name("explicit");
        async move { config.connect(NoTls).await }
    };
    client_runtime().block_on(async {
        let options = "-c application_name=overridden --lock-timeout=7s";
        let (client, driver) = connect(options).await.unwrap();
        tokio::spawn(driver);
        let query = "SELECT current_setting('application_name'), current_setting('lock_timeout')";
        let row = client.query_one(query, &[]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), "explicit");
        assert_eq!(row.get::<_, String>(1), "7s");
        let Err(refused) = connect("-c nonsense=1").await else {
            panic!("an unknown setting was accepted");
        };
        assert_eq!(refused.code().unwrap().code(), "42704");
    });
}

#[test]
fn psql_prints_the_notifications_that_come_with_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    let script = "LISTEN a; NOTIFY a; NOTIFY b; NOTIFY a, 'to a'; BEGIN; NOTIFY a, 'x'; \
                  SELECT pg_notify('a', 'x'); COMMIT; UNLISTEN a; NOTIFY a;";
    let statements = script.split_inclusive(';').map(str::trim);
    let arguments: Vec<&str> = statements.flat_map(|sql| ["-c", sql]).collect();
    let printed = server
        .psql_with(&[&["-At", "-d", "postgres"][..], &arguments].concat())
        .ok();
    let came = printed.lines().filter(|line| line.starts_with("Async"));
    let came: Vec<&str> = came
        .filter_map(|line| line.split(" received").next())
        .collect();
    let expected = [
        "Asynchronous notification \"a\"",
        "Asynchronous notification \"a\" with payload \"to a\"",
        "Asynchronous notification \"a\" with payload \"x\"",
    ];
    assert_eq!(came, expected, "{printed}");
}
