//! A database that fails under its sessions, on a simulated disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_engine::{Config, Database};
use evenkeel_io::{Disk, Fault, FaultKind, OpKind, SimDisk};
use evenkeel_server::{Reopen, RunError, Server, ServerConfig};
use evenkeel_sql::{SqlConfig, SqlEngine};
use evenkeel_storage::StorageConfig;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls};

const PATIENCE: Duration = Duration::from_secs(60);

fn open(disk: &SimDisk) -> Result<Arc<SqlEngine>, String> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = Config {
        storage: StorageConfig {
            shared_buffers: 2 << 20,
            wal_buffers: 1 << 20,
            wal_segment_size: 1 << 20,
            ..StorageConfig::default()
        },
        ..Config::default()
    };
    let database = Database::open(disk, Path::new("data"), config);
    let database = database.map_err(|error| error.to_string())?;
    SqlEngine::open(database, SqlConfig::default()).map_err(|error| error.message.to_string())
}

struct Running {
    disk: SimDisk,
    url: String,
    server: JoinHandle<Result<Arc<SqlEngine>, RunError>>,
}

async fn start(seed: u64) -> Running {
    let disk = SimDisk::new(seed);
    let engine = open(&disk).expect("opens");
    let config = ServerConfig {
        port: 0,
        socket_directory: None,
        ..ServerConfig::default()
    };
    let server = Server::bind(engine, &config).await.expect("listens");
    let port = server.address().expect("an address").port();
    let again = disk.clone();
    let reopen: Reopen = Arc::new(move || {
        let begun = Instant::now();
        loop {
            match open(&again) {
                Err(error) if error.contains("open in another") && begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                opened => return opened,
            }
        }
    });
    Running {
        disk,
        url: format!("host=127.0.0.1 port={port} user=postgres dbname=postgres"),
        server: tokio::spawn(server.run(reopen)),
    }
}

impl Running {
    async fn try_connect(&self) -> Result<Client, Error> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Connects, waiting for recovery; the only answer until then is 57P03.
    async fn connect(&self) -> Client {
        let begun = Instant::now();
        loop {
            match self.try_connect().await {
                Ok(client) => return client,
                Err(error) => {
                    assert_eq!(code(&error), "57P03", "{error:?}");
                    assert!(begun.elapsed() < PATIENCE, "it does not come back");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }
}

fn code(error: &Error) -> String {
    error
        .code()
        .map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

/// A session ends: with 57P02, or with its socket, when the client had nothing under way.
fn ended(error: &Error) -> bool {
    error.is_closed() || error.code().is_none() || code(error) == "57P02"
}

/// SRV-8: everything acknowledged is there afterwards; who writes, who waits and who
/// idles is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_failed_database_comes_back_by_itself() {
    let running = start(1).await;
    let (writer, idle) = (running.connect().await, running.connect().await);
    writer
        .batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
        .await
        .expect("creates");
    idle.batch_execute("BEGIN; INSERT INTO t VALUES (100)")
        .await
        .expect("inserts");
    for round in 0..3 {
        let writer = running.connect().await;
        let fault = Fault::nth(1, FaultKind::Eio).path("wal");
        running.disk.inject(fault.on(OpKind::SyncData));
        let insert = format!("INSERT INTO t VALUES ({})", -round - 1);
        let error = writer.batch_execute(&insert).await.expect_err("fails");
        assert!(ended(&error), "{error:?}");
        if let Some(error) = error.as_db_error() {
            let text = error.message();
            assert!(text.contains("wal/"), "the file is named: {text}");
        }
        let again = running.connect().await;
        let sum = "SELECT count(*) FROM t WHERE a > 0 AND a < 100";
        let found: i64 = again.query_one(sum, &[]).await.expect("reads").get(0);
        assert_eq!(found, 1 + i64::from(round));
        let next = format!("INSERT INTO t VALUES ({})", round + 2);
        again.batch_execute(&next).await.expect("writes");
    }
    let error = idle.batch_execute("COMMIT").await.expect_err("has ended");
    assert!(ended(&error), "{error:?}");
    let last = running.connect().await;
    let lost = "SELECT count(*) FROM t WHERE a = 100";
    let found: i64 = last.query_one(lost, &[]).await.expect("reads").get(0);
    assert_eq!(found, 0, "the open transaction is rolled back");
    assert!(!running.server.is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_database_that_cannot_come_back_ends_the_server() {
    let running = start(2).await;
    let writer = running.connect().await;
    writer
        .batch_execute("CREATE TABLE t (a int)")
        .await
        .expect("creates");
    // Not the segments that are made ahead: without one a statement is refused, and no more.
    let fault = Fault::nth(1, FaultKind::Eio).path("wal/0").sticky();
    running.disk.inject(fault);
    let error = writer.batch_execute("INSERT INTO t VALUES (1)").await;
    let error = error.expect_err("fails");
    assert!(ended(&error), "{error:?}");
    let outcome = tokio::time::timeout(PATIENCE, running.server).await;
    let error = outcome.expect("it ends").expect("no panic");
    let text = error
        .map(|_| ())
        .expect_err("it cannot recover")
        .to_string();
    assert!(
        text.contains("could not recover") && text.contains("wal"),
        "{text}"
    );
}

/// A page that cannot be read is an error of that query alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_unreadable_page_fails_one_query_and_is_named() {
    let running = start(3).await;
    let client = running.connect().await;
    client
        .batch_execute(
            "CREATE TABLE big (a int, b text); CREATE TABLE small (a int); \
             INSERT INTO small VALUES (7); \
             INSERT INTO big SELECT g, repeat('x', 1000) FROM generate_series(1, 4000) g; \
             CHECKPOINT",
        )
        .await
        .expect("creates");
    let fault = Fault::nth(1, FaultKind::Eio).path("base").sticky();
    running.disk.inject(fault.on(OpKind::Read));
    let error = client.query("SELECT count(b) FROM big", &[]).await;
    let error = error.expect_err("more pages than frames");
    assert_eq!(code(&error), "58030", "{error:?}");
    let text = error.as_db_error().map_or("", |error| error.message());
    assert!(text.contains("could not read page: file base/"), "{text}");
    running.disk.clear_faults();
    let count = client.query_one("SELECT count(b) FROM big", &[]).await;
    let count: i64 = count.expect("the session goes on").get(0);
    assert_eq!(count, 4_000);
    assert!(!running.server.is_finished());
}
