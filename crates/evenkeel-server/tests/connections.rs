//! How connections begin and how they end, whatever their clients do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::{Config, Database};
use evenkeel_io::SimDisk;
use evenkeel_server::{Reopen, Server, ServerConfig, StopHandle};
use evenkeel_sql::{SqlConfig, SqlEngine};
use futures::StreamExt;
use tokio::task::JoinHandle;
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, NoTls};

const PATIENCE: Duration = Duration::from_secs(60);
const LARGE: &str = "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)";

struct Running {
    address: SocketAddr,
    stop: StopHandle,
    server: JoinHandle<()>,
}

fn engine() -> Arc<SqlEngine> {
    let disk = Arc::new(SimDisk::new(1));
    let database = Database::open(disk, Path::new("data"), Config::default()).expect("opens");
    SqlEngine::open(database, SqlConfig::default()).expect("opens")
}

async fn start() -> Running {
    let config = ServerConfig {
        port: 0,
        socket_directory: None,
        ..ServerConfig::default()
    };
    let server = Server::bind(engine(), &config).await.expect("listens");
    let reopen: Reopen = Arc::new(|| Err("it did not fail".into()));
    Running {
        address: server.address().expect("an address"),
        stop: server.stop_handle(),
        server: tokio::spawn(async move {
            server.run(reopen).await.map(drop).expect("ends well");
        }),
    }
}

impl Running {
    async fn connect(&self, to: &str) -> Result<Client, Error> {
        let url = format!("host=127.0.0.1 port={} {to}", self.address.port());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn client(&self) -> Client {
        let client = self.connect("user=postgres dbname=postgres").await;
        client.expect("connects")
    }

    /// A connection whose client has asked for a large result and does not read it.
    async fn stuck(&self) -> TcpStream {
        let address = self.address;
        let asked = tokio::task::spawn_blocking(move || ask(address)).await;
        // The answer soon fills the buffers of both sides.
        tokio::time::sleep(Duration::from_millis(500)).await;
        asked.expect("no panic")
    }
}

/// Starts a session and sends a query.
fn ask(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connects");
    let parameters = b"user\0postgres\0database\0postgres\0\0";
    let mut packet = (parameters.len() as u32 + 8).to_be_bytes().to_vec();
    packet.extend(196_608_u32.to_be_bytes());
    packet.extend(parameters);
    stream.write_all(&packet).expect("sends");
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).expect("reads");
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).expect("reads");
        if head[0] == b'Z' {
            break;
        }
    }
    let mut query = vec![b'Q'];
    query.extend((LARGE.len() as u32 + 5).to_be_bytes());
    query.extend(LARGE.as_bytes());
    query.push(0);
    stream.write_all(&query).expect("sends");
    stream
}

/// SRV-9.
#[tokio::test]
async fn only_a_database_that_there_is_can_be_connected_to() {
    let running = start().await;
    for (to, state, message) in [
        (
            "user=postgres dbname=shop",
            "3D000",
            "database \"shop\" does not exist",
        ),
        (
            "user=ann dbname=template0",
            "55000",
            "database \"template0\" is not currently accepting connections",
        ),
    ] {
        let error = running.connect(to).await.map(drop).expect_err(to);
        let error = error.as_db_error().expect("an error of the server");
        assert_eq!(error.code().code(), state);
        assert_eq!(error.severity(), "FATAL");
        assert_eq!(error.message(), message);
    }
    let client = running.connect("user=ann dbname=template1").await;
    let client = client.expect("connects");
    let made = client.batch_execute("CREATE DATABASE bob").await;
    made.expect("makes a database");
    let client = running.connect("user=bob").await.expect("connects");
    let row = client.query_one("SELECT current_database()", &[]).await;
    assert_eq!(row.expect("answers").get::<_, String>(0), "bob");
    for to in ["user=postgres", "user=ann", "user=ann dbname=postgres"] {
        let client = running.connect(to).await.expect(to);
        let row = client.query_one("SELECT current_database()", &[]).await;
        assert_eq!(row.expect("answers").get::<_, String>(0), "postgres");
    }
}

/// SRV-5.
#[tokio::test]
async fn a_portal_ends_with_its_transaction() {
    let running = start().await;
    let mut client = running.client().await;
    let transaction = client.transaction().await.expect("begins");
    let query = "SELECT g FROM generate_series(1, 3) g";
    let portal = transaction.bind(query, &[]).await.expect("binds");
    let rows = transaction.query_portal(&portal, 1).await.expect("a row");
    assert_eq!(rows.len(), 1);
    transaction.commit().await.expect("commits");
    let transaction = client.transaction().await.expect("begins");
    let gone = transaction.query_portal(&portal, 1).await;
    let gone = gone.expect_err("the portal is gone");
    assert_eq!(
        gone.code().map(tokio_postgres::error::SqlState::code),
        Some("34000")
    );
}

/// SRV-6.
/// Drivers tell by these fields which rule of the application was broken.
#[tokio::test]
async fn violations_name_their_table_column_and_constraint() {
    let running = start().await;
    let client = running.client().await;
    client
        .batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL CHECK (b > 0))")
        .await
        .expect("creates");
    client
        .batch_execute("INSERT INTO t VALUES (1, 1)")
        .await
        .expect("inserts");
    for (statement, column, constraint) in [
        ("INSERT INTO t VALUES (1, 1)", None, Some("t_pkey")),
        ("INSERT INTO t VALUES (2, NULL)", Some("b"), None),
        ("INSERT INTO t VALUES (2, 0)", None, Some("t_b_check")),
        ("UPDATE t SET b = -1", None, Some("t_b_check")),
        (
            "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)",
            None,
            Some("c"),
        ),
    ] {
        let error = client.batch_execute(statement).await.expect_err(statement);
        let error = error.as_db_error().expect("of the server");
        assert_eq!(error.schema(), Some("public"), "{statement}");
        assert_eq!(error.table(), Some("t"), "{statement}");
        assert_eq!(error.column(), column, "{statement}");
        assert_eq!(error.constraint(), constraint, "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_client_that_does_not_read_keeps_nobody_from_ending_it() {
    let running = start().await;
    let stuck = running.stuck().await;
    let other = running.client().await;
    let listed = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT repeat%'";
    let count = async || -> i64 { other.query_one(listed, &[]).await.expect("reads").get(0) };
    assert_eq!(count().await, 1);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE query LIKE 'SELECT repeat%'";
    let ended: bool = other.query_one(end, &[]).await.expect("ends").get(0);
    assert!(ended);
    let gone = async {
        while count().await > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it ends");

    // One that does not even say who it is, and one that does not read.
    let silent = TcpStream::connect(running.address).expect("connects");
    let again = running.stuck().await;
    running.stop.stop();
    let ended = tokio::time::timeout(PATIENCE, running.server).await;
    ended.expect("it stops").expect("no panic");
    drop((stuck, silent, again));
}

#[tokio::test]
async fn the_socket_of_a_living_server_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let config = ServerConfig {
        port,
        socket_directory: Some(directory.path().to_owned()),
        ..ServerConfig::default()
    };
    let path = directory.path().join(format!(".s.PGSQL.{port}"));
    let living = UnixListener::bind(&path).expect("a socket");
    let error = Server::bind(engine(), &config).await.map(drop);
    let text = error.expect_err("somebody has it").to_string();
    assert!(
        text.contains("already in use") && text.contains(&path.display().to_string()),
        "{text}"
    );
    assert!(UnixStream::connect(&path).is_ok(), "it is as it was");
    drop(living);
    let server = Server::bind(engine(), &config).await;
    let server = server.expect("a socket left behind is in nobody's way");
    assert_eq!(server.socket_directory(), Some(directory.path()));
}

#[tokio::test]
async fn a_driver_copies_rows_in_binary_form() {
    let server = start().await;
    let client = server.client().await;
    let create = "CREATE TABLE t (a int4, b text, c timestamptz)";
    client.batch_execute(create).await.unwrap();
    let sink = client
        .copy_in("COPY t FROM STDIN (FORMAT binary)")
        .await
        .unwrap();
    let types = [Type::INT4, Type::TEXT, Type::TIMESTAMPTZ];
    let writer = BinaryCopyInWriter::new(sink, &types);
    let mut writer = std::pin::pin!(writer);
    let now = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for number in 0..3000_i32 {
        let text = (number % 3 > 0).then(|| format!("row {number}"));
        writer
            .as_mut()
            .write(&[&number, &text, &now])
            .await
            .unwrap();
    }
    assert_eq!(writer.finish().await.unwrap(), 3000);
    let out = client
        .copy_out("COPY (SELECT * FROM t ORDER BY a) TO STDOUT (FORMAT binary)")
        .await
        .unwrap();
    let rows = BinaryCopyOutStream::new(out, &types);
    let mut rows = std::pin::pin!(rows);
    let mut count = 0;
    while let Some(row) = rows.next().await {
        let row = row.unwrap();
        assert_eq!(row.get::<i32>(0), count);
        assert_eq!(row.get::<Option<&str>>(1).is_some(), count % 3 > 0);
        assert_eq!(row.get::<std::time::SystemTime>(2), now);
        count += 1;
    }
    assert_eq!(count, 3000);
}

/// A driver names the statements that it prepares, and poolers forget them by SQL.
#[tokio::test(flavor = "multi_thread")]
async fn sql_and_the_protocol_share_the_names_of_prepared_statements() {
    let running = start().await;
    let client = running.client().await;
    let sum = client
        .prepare("SELECT $1::int + $2::int AS sum")
        .await
        .expect("prepares");
    for _ in 0..3 {
        let row = client.query_one(&sum, &[&1, &2]).await.expect("runs");
        assert_eq!(row.get::<_, i32>("sum"), 3);
    }
    let shown = "SELECT name, statement, from_sql, parameter_types::text, result_types::text, \
                 generic_plans FROM pg_prepared_statements WHERE statement LIKE '%AS sum'";
    let rows = client.simple_query(shown).await.expect("a view");
    let rows: Vec<_> = rows
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })
        .collect();
    assert_eq!(rows.len(), 1);
    let column = |at: usize| rows[0].get(at).expect("no NULL");
    assert_eq!(column(1), "SELECT $1::int + $2::int AS sum");
    let others: Vec<_> = (2..6).map(column).collect();
    assert_eq!(others, ["f", "{integer,integer}", "{integer}", "3"]);
    let name = column(0);
    let ran = client.simple_query(&format!("EXECUTE {name} (4, 5)")).await;
    assert!(ran.is_ok(), "{ran:?}");
    let again = client
        .simple_query(&format!("PREPARE {name} AS SELECT 1"))
        .await;
    let code = again.expect_err("a name that is taken").code().cloned();
    assert_eq!(code.expect("a SQLSTATE").code(), "42P05");
    let gone = client.simple_query(&format!("DEALLOCATE {name}")).await;
    assert!(gone.is_ok(), "{gone:?}");
    let error = client.query_one(&sum, &[&1, &2]).await.expect_err("gone");
    assert_eq!(error.code().expect("a SQLSTATE").code(), "26000");
    let other = client.prepare("SELECT 1").await.expect("prepares");
    client.simple_query("DISCARD ALL").await.expect("discards");
    let error = client.query_one(&other, &[]).await.expect_err("gone");
    assert_eq!(error.code().expect("a SQLSTATE").code(), "26000");
}

/// SRV-15. A client that waits is told at once, one in a transaction at its end, and of its own
/// notifications before it may send the next query.
#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_of_notifications_when_no_transaction_is_open() {
    let running = start().await;
    let url = format!(
        "host=127.0.0.1 port={} user=postgres dbname=postgres",
        running.address.port()
    );
    let (listener, mut connection) = tokio_postgres::connect(&url, NoTls)
        .await
        .expect("connects");
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = futures::stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            if let tokio_postgres::AsyncMessage::Notification(notification) = message {
                let text = format!("{}:{}", notification.channel(), notification.payload());
                told.send((notification.process_id(), text)).expect("heard");
            }
        }
    });
    let sender = running.client().await;
    let row = sender.query_one("SELECT pg_backend_pid()", &[]).await;
    let pid: i32 = row.expect("a number").get(0);
    listener.batch_execute("LISTEN x").await.expect("listens");
    for turn in 0..3 {
        let payload = format!("{turn}");
        let send = "SELECT pg_notify('x', $1)";
        sender.query_one(send, &[&payload]).await.expect("sends");
        let came = tokio::time::timeout(PATIENCE, heard.recv()).await;
        assert_eq!(came.expect("at once"), Some((pid, format!("x:{turn}"))));
    }
    listener.batch_execute("BEGIN").await.expect("begins");
    sender
        .batch_execute("NOTIFY x, 'late'")
        .await
        .expect("sends");
    listener.query_one("SELECT 1", &[]).await.expect("answers");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(heard.try_recv().is_err());
    listener.batch_execute("COMMIT").await.expect("commits");
    let late = tokio::time::timeout(PATIENCE, heard.recv()).await;
    assert_eq!(late.expect("comes"), Some((pid, "x:late".to_owned())));
    // More than the buffers have, to a client that reads as it comes.
    let many =
        "SELECT count(pg_notify('x', repeat('a', 4000) || n)) FROM generate_series(1, 9000) n";
    sender.batch_execute(many).await.expect("sends");
    for _ in 0..9000 {
        let came = tokio::time::timeout(PATIENCE, heard.recv()).await;
        assert!(came.expect("comes").is_some());
    }
    listener
        .batch_execute("NOTIFY x, 'own'")
        .await
        .expect("sends");
    // It came with the answer, ahead of the message that ends that.
    let (_, own) = heard.try_recv().expect("has come");
    assert_eq!(own, "x:own");
}
