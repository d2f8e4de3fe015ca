//! Well-behaved sessions, which whatever others do must not hold up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::server::TestServer;

/// Longer than that no well-behaved statement may take, whatever others do; unless the machine is
/// so busy that one takes a twentieth of it when there are no others.
const SLOWEST: Duration = Duration::from_secs(1);
const BUSY: u32 = 20;

/// A session.
///
/// # Panics
/// When the server does not let it in.
pub async fn connect(server: &TestServer) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls)
        .await
        .expect("connects");
    tokio::spawn(connection);
    client
}

/// The SQLSTATE that a statement ends with, `00000` for an answer.
///
/// # Panics
/// When the connection is lost.
pub async fn outcome(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(_) => "00000".to_owned(),
        Err(error) => match error.code() {
            Some(code) => code.code().to_owned(),
            None => panic!("{error} at {}", head(sql)),
        },
    }
}

/// The first words of a statement.
#[must_use]
pub fn head(sql: &str) -> String {
    sql.chars().take(60).collect()
}

/// The first value that a statement answers.
///
/// # Panics
/// When it fails or has no row.
pub async fn value(client: &Client, sql: &str) -> String {
    let messages = client.simple_query(sql).await;
    let messages = messages.unwrap_or_else(|error| panic!("{error:?} at {}", head(sql)));
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            return row.get(0).unwrap_or("NULL").to_owned();
        }
    }
    panic!("no row from {}", head(sql));
}

/// The table of the well-behaved sessions.
///
/// # Panics
/// When it cannot be made.
pub async fn prepare(client: &Client) {
    let setup = "CREATE TABLE quiet (id int PRIMARY KEY, n int);
         INSERT INTO quiet SELECT g, 0 FROM generate_series(1, 100) g";
    client.batch_execute(setup).await.expect("a table");
}

/// Eight sessions that read and write rows of their own until they are told to stop; their slowest
/// statement.
pub struct Quiet {
    stop: Arc<AtomicBool>,
    sessions: Vec<tokio::task::JoinHandle<Duration>>,
}

impl Quiet {
    /// Begins them.
    pub async fn begin(server: &TestServer) -> Quiet {
        let stop = Arc::new(AtomicBool::new(false));
        let mut sessions = Vec::new();
        for number in 1..=8 {
            let client = connect(server).await;
            let stop = Arc::clone(&stop);
            sessions.push(tokio::spawn(quiet(client, number, stop)));
        }
        Quiet { stop, sessions }
    }

    /// Ends them: how long their slowest statement took.
    ///
    /// # Panics
    /// When one had a wrong answer.
    pub async fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let mut slowest = Duration::ZERO;
        for session in self.sessions {
            slowest = slowest.max(session.await.expect("a well-behaved session"));
        }
        slowest
    }
}

async fn quiet(client: Client, number: i32, stop: Arc<AtomicBool>) -> Duration {
    let update = "UPDATE quiet SET n = n + 1 WHERE id = $1";
    let update = client.prepare(update).await.expect("prepares");
    let mut slowest = Duration::ZERO;
    let before = format!("SELECT n FROM quiet WHERE id = {number}");
    let mut done: i32 = value(&client, &before).await.parse().expect("a number");
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let changed = client.execute(&update, &[&number]).await;
        assert_eq!(changed.expect("a well-behaved update"), 1);
        done += 1;
        slowest = slowest.max(began.elapsed());
        let began = Instant::now();
        // Never seen before, so it is planned.
        let sql = format!("SELECT n, {done} AS s{done} FROM quiet WHERE id = {number}");
        assert_eq!(value(&client, &sql).await, done.to_string());
        slowest = slowest.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    slowest
}

/// How long the slowest well-behaved statement may take on this machine as it is now.
pub async fn limit(server: &TestServer) -> Duration {
    let quiet = Quiet::begin(server).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    SLOWEST.max(quiet.end().await * BUSY)
}
