//! Histories of concurrent clients against the real server, checked for anomalies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use evenkeel_tests::history::{Key, Level, Op, Outcome, Transaction, Value, check};
use evenkeel_tests::server::{TestServer, client_runtime};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, Error, NoTls};

const CLIENTS: u64 = 16;
const KEYS: Key = 12;
const TRANSACTIONS: usize = 120;

#[test]
fn read_committed_shows_only_what_it_may() {
    run("READ COMMITTED", Level::ReadCommitted);
}

#[test]
fn repeatable_read_is_snapshot_isolation() {
    run("REPEATABLE READ", Level::RepeatableRead);
}

fn run(level: &str, allowed: Level) {
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &["fsync=off"]);
    server
        .psql("CREATE TABLE lists (k int PRIMARY KEY, v text NOT NULL)")
        .ok();
    for key in 0..KEYS {
        server
            .psql(&format!("INSERT INTO lists VALUES ({key}, '')"))
            .ok();
    }
    let runtime = client_runtime();
    let next = Arc::new(AtomicI64::new(1));
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (url, level, next) = (server.url(), level.to_owned(), Arc::clone(&next));
            let rng = SmallRng::seed_from_u64(seed.wrapping_add(client));
            runtime.spawn(client_history(url, level, next, rng))
        })
        .collect();
    let mut history = Vec::new();
    runtime.block_on(async {
        for task in tasks {
            history.extend(task.await.unwrap());
        }
    });
    let last = final_lists(&server);
    let committed = history
        .iter()
        .filter(|t| t.outcome == Outcome::Committed)
        .count();
    let findings = check(&history, &last);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for finding in &findings {
        *kinds.entry(format!("{:?}", finding.anomaly)).or_default() += 1;
    }
    println!(
        "{level}: {committed} of {} committed, anomalies seen: {kinds:?}",
        history.len()
    );
    assert!(committed > 100, "the history is too short to say anything");
    let forbidden: Vec<_> = findings
        .iter()
        .filter(|f| !allowed.allows(f.anomaly))
        .collect();
    assert!(
        forbidden.is_empty(),
        "{level}, seed {seed}: {:?}",
        forbidden.first()
    );
}

async fn client_history(
    url: String,
    level: String,
    next: Arc<AtomicI64>,
    mut rng: SmallRng,
) -> Vec<Transaction> {
    let (client, driver) = tokio_postgres::connect(&url, NoTls).await.expect("connect");
    tokio::spawn(driver);
    let mut history = Vec::new();
    for _ in 0..TRANSACTIONS {
        let mut ops = Vec::new();
        let result = transaction(&client, &level, &next, &mut rng, &mut ops).await;
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(e) => {
                let state = e
                    .code()
                    .map(|code| code.code().to_owned())
                    .unwrap_or_default();
                assert!(
                    matches!(&*state, "40001" | "40P01"),
                    "unexpected error: {e:?}"
                );
                client.batch_execute("ROLLBACK").await.expect("rollback");
                Outcome::Aborted
            }
        };
        history.push(Transaction { ops, outcome });
    }
    history
}

async fn transaction(
    client: &Client,
    level: &str,
    next: &AtomicI64,
    rng: &mut SmallRng,
    ops: &mut Vec<Op>,
) -> Result<Outcome, Error> {
    client
        .batch_execute(&format!("BEGIN ISOLATION LEVEL {level}"))
        .await?;
    for _ in 0..rng.random_range(1..=4) {
        let key = rng.random_range(0..KEYS);
        if rng.random_bool(0.5) {
            let row = client
                .query_one("SELECT v FROM lists WHERE k = $1", &[&key])
                .await?;
            ops.push(Op::Read(key, parse(row.get(0))));
        } else {
            let value = next.fetch_add(1, Ordering::Relaxed);
            ops.push(Op::Append(key, value));
            let text = format!(" {value}");
            let update = "UPDATE lists SET v = v || $1 WHERE k = $2";
            client.execute(update, &[&text, &key]).await?;
        }
    }
    if rng.random_bool(0.05) {
        client.batch_execute("ROLLBACK").await?;
        return Ok(Outcome::Aborted);
    }
    client.batch_execute("COMMIT").await?;
    Ok(Outcome::Committed)
}

fn parse(text: &str) -> Vec<Value> {
    text.split_whitespace()
        .map(|value| value.parse().expect("a number"))
        .collect()
}

fn final_lists(server: &TestServer) -> BTreeMap<Key, Vec<Value>> {
    let lists = server.psql("SELECT k, v FROM lists ORDER BY k").ok();
    lists
        .lines()
        .map(|line| {
            let (key, list) = line.split_once('|').expect("two columns");
            (key.parse().expect("a key"), parse(list))
        })
        .collect()
}
