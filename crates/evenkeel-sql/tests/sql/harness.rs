//! A database on the simulated disk, and sessions on it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::{Config, Database};
use evenkeel_io::SimDisk;
use evenkeel_sql::catalog::{Catalog, DATABASE_OID};
use evenkeel_sql::{Session, SessionParams, SqlConfig, SqlEngine, SqlResult, StatementResult};
use tokio::task::JoinHandle;

/// The rows of a text that must succeed, between commas.
///
/// # Panics
/// When it fails, with its text.
pub async fn one(session: &mut Session, sql: &str) -> String {
    let ran = run(session, sql).await;
    let (rows, _) = ran.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.join(",")
}

/// Runs a text; returns the rows of its last statement with rows, and the last tag.
pub async fn run(session: &mut Session, sql: &str) -> SqlResult<(Vec<String>, String)> {
    let mut query = session.simple(sql);
    let mut rows = Vec::new();
    let mut tag = String::new();
    while let Some(result) = session.next_result(&mut query).await? {
        match result {
            StatementResult::Rows(mut stream) => {
                rows.clear();
                while let Some(batch) = stream.next_batch(100).await? {
                    let width = stream.columns().len();
                    rows.extend(batch.iter().map(|body| decode(body, width)));
                }
                tag = stream.tag();
            }
            StatementResult::Command(text) => tag = text,
            StatementResult::CopyIn(_) => return Err(session.copy_fail("no data")),
            StatementResult::CopyOut(mut stream) => {
                rows.clear();
                while let Some(chunk) = stream.next_chunk().await? {
                    for message in chunk.messages() {
                        let text = String::from_utf8_lossy(message);
                        rows.extend(text.lines().map(str::to_owned));
                    }
                }
                tag = stream.tag();
            }
            StatementResult::Empty => tag = "EMPTY".into(),
        }
    }
    Ok((rows, tag))
}

fn decode(body: &[u8], width: usize) -> String {
    let mut text = String::new();
    let mut at = 0;
    for column in 0..width {
        if column > 0 {
            text.push('|');
        }
        let length = i32::from_be_bytes(body[at..at + 4].try_into().unwrap());
        at += 4;
        match usize::try_from(length) {
            Err(_) => text.push_str("NULL"),
            Ok(length) => {
                text.push_str(&String::from_utf8_lossy(&body[at..at + length]));
                at += length;
            }
        }
    }
    if text.is_empty() {
        text.push_str("(empty)");
    }
    assert_eq!(
        at,
        body.len(),
        "a DataRow holds its fields and nothing else"
    );
    text
}

/// A new database.
pub fn open() -> Arc<SqlEngine> {
    let disk = Arc::new(SimDisk::new(1));
    let db = Database::open(disk, Path::new("/data"), Config::default()).unwrap();
    SqlEngine::open(db, SqlConfig::default()).unwrap()
}

/// A session on it.
pub fn session(engine: &Arc<SqlEngine>) -> Session {
    let params = SessionParams {
        user: "tester".into(),
        database: "postgres".into(),
        ..SessionParams::default()
    };
    engine.session(params).unwrap()
}

/// The catalog of the first database.
pub fn catalog(engine: &SqlEngine) -> Arc<Catalog> {
    engine.databases().catalog(DATABASE_OID).unwrap()
}

/// Runs statements in a session of its own, in the background.
pub fn background(engine: &Arc<SqlEngine>, sql: &'static str) -> JoinHandle<SqlResult<String>> {
    let mut session = session(engine);
    tokio::spawn(async move { run(&mut session, sql).await.map(|(_, tag)| tag) })
}

/// Waits until somebody waits for a lock.
pub async fn until_blocked(engine: &Arc<SqlEngine>) {
    while engine.database().txn_statistics().waiting == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
