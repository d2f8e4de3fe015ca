//! SIGKILL under load, over and over on one directory, with an oracle outside the server that
//! knows what was acknowledged: nothing of it may be lost, and nothing may be there by half.
//!
//! A server that recovers is killed as well, up to three times in a row, before the oracle looks.
//! The next one starts at once, while the kernel may still end the killed one's writes, and does
//! its I/O in another way.
//!
//! `EVENKEEL_KILLS` sets how many times (the default keeps the suite short), `EVENKEEL_SEED` the
//! seed, which is printed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_tests::scale::{scale, seeded};
use evenkeel_tests::server::{KilledServer, TestServer, client_runtime, evenkeel};
use rand::Rng;
use rand::rngs::SmallRng;
use tokio_postgres::{Client, NoTls};

const CLIENTS: usize = 8;
const KILLS: usize = 6;
/// Ways of I/O, one after another.
const WAYS: [&[&str]; 3] = [
    &["io_method=worker"],
    &["io_method=io_uring"],
    &["io_method=io_uring", "io_direct=data"],
];

/// One client's knowledge of itself: how many transactions it began, and which of them were
/// acknowledged.
#[derive(Default)]
struct Progress {
    attempted: AtomicI64,
    acknowledged: Mutex<BTreeSet<i64>>,
}

#[test]
fn sigkill_loses_nothing_acknowledged_and_leaves_nothing_half_done() {
    let kills = scale("EVENKEEL_KILLS", KILLS);
    let mut rng = seeded();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = TestServer::start(&data, &[]);
    server.pgbench(&["-i", "-s", "1"]).ok();
    server
        .psql("CREATE TABLE ledger (client int, seq bigint, PRIMARY KEY (client, seq))")
        .ok();
    server.stop();
    let progress: Arc<Vec<Progress>> =
        Arc::new((0..CLIENTS).map(|_| Progress::default()).collect());
    let mut recoveries = 0;
    for round in 1..=kills {
        recoveries += kill_recoveries(&data, &mut rng);
        let settings = [WAYS[round % WAYS.len()], &["checkpoint_timeout=1s"]].concat();
        let server = TestServer::start(&data, &settings);
        verify(&server, &progress);
        let (killed, clients) = run_until_killed(server, &progress, rng.random_range(300..1500));
        check(&data, round);
        drop(killed);
        clients.join().unwrap();
    }
    let server = TestServer::start(&data, &[]);
    verify(&server, &progress);
    let total: usize = progress
        .iter()
        .map(|p| p.acknowledged.lock().unwrap().len())
        .sum();
    println!("{kills} kills of a loaded server, {recoveries} more of its recoveries");
    println!("{total} acknowledged transactions, none lost");
    assert!(total > 0);
}

/// Databases that are copied and dropped, over and over, until the server is killed: each is whole
/// afterwards or not there, and no file is left.
#[test]
fn a_database_made_or_dropped_by_a_killed_server_is_whole_or_gone() {
    let kills = scale("EVENKEEL_KILLS", KILLS);
    let mut rng = seeded();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = TestServer::start(&data, &[]);
    server.psql("CREATE DATABASE original").ok();
    let fill = "CREATE TABLE t (id serial PRIMARY KEY, words text UNIQUE); \
                INSERT INTO t (words) SELECT repeat(md5(n::text), 20) FROM generate_series(1, 2000) n";
    server.psql_in("original", fill).ok();
    let content = "SELECT count(*), sum(length(words)), max(id) FROM t";
    let wanted = server.psql_in("original", content).ok();
    server.stop();
    for round in 1..=kills {
        let server = TestServer::start(&data, &["checkpoint_timeout=1s"]);
        let until = Duration::from_millis(rng.random_range(100..1500));
        let stop = Arc::new(AtomicBool::new(false));
        let (url, told) = (server.url(), Arc::clone(&stop));
        let runtime = client_runtime();
        let work = runtime.spawn(async move { make_and_drop(&url, round, &told).await });
        std::thread::sleep(until);
        server.kill();
        stop.store(true, Ordering::Relaxed);
        runtime.block_on(work).unwrap();
        let server = TestServer::start(&data, &[]);
        let listed = "SELECT datname FROM pg_database WHERE datname LIKE 'copy%'";
        for copy in server.psql(listed).ok().lines() {
            assert_eq!(server.psql_in(copy, content).ok(), wanted, "{copy}");
            server.psql(&format!("DROP DATABASE {copy}")).ok();
        }
        assert_eq!(server.psql_in("original", content).ok(), wanted);
        server.stop();
        check(&data, round);
    }
    let files = || std::fs::read_dir(data.join("base")).unwrap().count();
    let before = files();
    TestServer::start(&data, &[]).stop();
    assert_eq!(files(), before, "files that nobody has");
    let server = TestServer::start(&data, &[]);
    server.psql("CREATE DATABASE copy TEMPLATE original").ok();
    server.psql("DROP DATABASE copy").ok();
    server.stop();
    assert_eq!(files(), before, "files of a database that was dropped");
}

async fn make_and_drop(url: &str, round: usize, stop: &AtomicBool) {
    let Ok((connection, driver)) = tokio_postgres::connect(url, NoTls).await else {
        return;
    };
    let driver = tokio::spawn(driver);
    for n in 0.. {
        let make = format!("CREATE DATABASE copy_{round}_{n} TEMPLATE original");
        let drop = format!("DROP DATABASE copy_{round}_{n}");
        for command in [make, drop] {
            if stop.load(Ordering::Relaxed) || connection.batch_execute(&command).await.is_err() {
                driver.abort();
                return;
            }
        }
    }
}

/// Kills up to three starts on what the last kill left, at moments from the first read of the log
/// to a recovery that is done; how many.
fn kill_recoveries(data: &Path, rng: &mut SmallRng) -> usize {
    let times = rng.random_range(0..=3);
    for _ in 0..times {
        let after = Duration::from_micros(rng.random_range(2_000..400_000));
        TestServer::start_and_kill(data, &["checkpoint_timeout=1s"], after);
    }
    times
}

/// Answers while the server and its clients may still end.
fn run_until_killed(
    server: TestServer,
    progress: &Arc<Vec<Progress>>,
    millis: u64,
) -> (KilledServer, JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = client_runtime();
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (url, progress, stop) = (server.url(), Arc::clone(progress), Arc::clone(&stop));
            runtime.spawn(async move { work(client, &url, &progress[client], &stop).await })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(millis));
    let killed = server.kill_and_go_on();
    stop.store(true, Ordering::Relaxed);
    // They hear of the end when it has come.
    let clients = std::thread::spawn(move || {
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    (killed, clients)
}

/// Runs transactions until the server is gone.
async fn work(client: usize, url: &str, progress: &Progress, stop: &AtomicBool) {
    let Ok((connection, driver)) = tokio_postgres::connect(url, NoTls).await else {
        return;
    };
    let driver = tokio::spawn(driver);
    let scratch = "CREATE TEMP TABLE scratch (id bigserial PRIMARY KEY, seq bigint, words text)";
    if connection.batch_execute(scratch).await.is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        let seq = progress.attempted.fetch_add(1, Ordering::Relaxed) + 1;
        match transaction(&connection, client as i32, seq).await {
            Ok(()) => drop(progress.acknowledged.lock().unwrap().insert(seq)),
            Err(e) if e.is_closed() || e.as_db_error().is_none() => break,
            Err(e) => panic!("client {client}: {e:?}"),
        }
    }
    driver.abort();
}

/// TPC-B's transaction, with a line in the ledger that names it, and one in a temporary table.
async fn transaction(
    connection: &Client,
    client: i32,
    seq: i64,
) -> Result<(), tokio_postgres::Error> {
    let delta = i32::try_from(seq % 1000).unwrap_or(1);
    let aid = (client * 12_345 + delta * 97) % 100_000 + 1;
    let teller = (client + delta) % 10 + 1;
    connection.batch_execute("BEGIN").await?;
    let accounts = "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2";
    connection.execute(accounts, &[&delta, &aid]).await?;
    connection
        .query(
            "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
            &[&aid],
        )
        .await?;
    let tellers = "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2";
    connection.execute(tellers, &[&delta, &teller]).await?;
    let branches = "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2";
    connection.execute(branches, &[&delta, &1_i32]).await?;
    let history = "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
                   VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)";
    connection
        .execute(history, &[&teller, &1_i32, &aid, &delta])
        .await?;
    let ledger = "INSERT INTO ledger (client, seq) VALUES ($1, $2)";
    connection.execute(ledger, &[&client, &seq]).await?;
    let scratch = "INSERT INTO scratch (seq, words) VALUES ($1, repeat('word ', $2))";
    let words = i32::try_from(seq % 1000).unwrap_or(1);
    connection.execute(scratch, &[&seq, &words]).await?;
    connection.batch_execute("COMMIT").await
}

/// The oracle's verdict on a server that has recovered.
fn verify(server: &TestServer, progress: &[Progress]) {
    let left = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'";
    let left = server.psql(left).ok();
    assert_eq!(left.trim(), "0", "temporary relations that nobody has");
    let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), \
                (SELECT sum(bbalance) FROM pgbench_branches), \
                (SELECT sum(tbalance) FROM pgbench_tellers), \
                (SELECT coalesce(sum(delta), 0) FROM pgbench_history), \
                (SELECT coalesce(sum(seq % 1000), 0) FROM ledger)";
    let sums = server.psql(sums).ok();
    let sums: Vec<&str> = sums.trim().split('|').collect();
    assert!(
        sums.windows(2).all(|pair| pair[0] == pair[1]),
        "half a transaction: {sums:?}"
    );
    for (client, progress) in progress.iter().enumerate() {
        let query = format!("SELECT seq FROM ledger WHERE client = {client}");
        let answer = server.psql(&query).ok();
        let kept: BTreeSet<i64> = answer
            .lines()
            .map(|line| line.trim().parse().expect("a number"))
            .collect();
        let acknowledged = progress.acknowledged.lock().unwrap();
        let lost: Vec<_> = acknowledged.difference(&kept).collect();
        assert!(
            lost.is_empty(),
            "client {client} lost acknowledged transactions: {lost:?}"
        );
        let attempted = progress.attempted.load(Ordering::Relaxed);
        let max = kept.last().copied().unwrap_or(0);
        assert!(
            max <= attempted,
            "client {client}: {max} was never attempted ({attempted})"
        );
    }
}

fn check(data: &Path, round: usize) {
    let output = evenkeel(&["check", &data.display().to_string()]);
    assert!(
        output.status.success(),
        "round {round}: {}\n{}",
        output.stdout,
        output.stderr
    );
}
