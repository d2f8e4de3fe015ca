//! Statements and messages that nobody wrote down, made from a seed, against one server: deep,
//! long, huge, endless, malformed. Each ends by itself, by its timeout or by a cancel; none of them
//! is an internal error, ends another session, makes well-behaved sessions wait or takes more
//! memory than the budget.
//!
//! `EVENKEEL_HOSTILE` sets how many (the default keeps the suite short), `EVENKEEL_SEED` the seed,
//! which is printed.

mod generate;
mod protocol;

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_tests::quiet::{self, Quiet, connect, head, limit};
use evenkeel_tests::scale::{scale, seeded};
use evenkeel_tests::server::{TestServer, client_runtime};
use futures::StreamExt;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, NoTls};

const HOSTILE: usize = 48;
const SESSIONS: usize = 4;
const TIMEOUT: Duration = Duration::from_millis(1000);
const MIB: usize = 1 << 20;
/// `max_server_memory` and `shared_buffers`.
const BUDGET: usize = 384 * MIB;
const POOL: usize = 64 * MIB;
const SETTINGS: [&str; 4] = [
    "fsync=off",
    "shared_buffers=64MB",
    "max_server_memory=384MB",
    "temp_file_limit=256MB",
];

/// The outcomes of the attack so far.
#[derive(Default)]
struct Seen {
    /// How often each SQLSTATE came, `00000` for an answer.
    states: BTreeMap<String, usize>,
    /// Outcomes that must not be.
    wrong: Vec<String>,
    slowest: (Duration, String),
}

struct Attack {
    server: TestServer,
    seen: Mutex<Seen>,
    left: AtomicUsize,
    /// The statements that run now.
    running: Mutex<BTreeMap<usize, String>>,
    /// After its timeout a statement ends within that.
    limit: Duration,
}

/// How a statement ended.
enum End {
    State(String, String),
    Lost(String),
}

async fn run(client: &Client, sql: &str) -> End {
    let error = match client.simple_query_raw(sql).await {
        Ok(stream) => {
            let mut stream = std::pin::pin!(stream);
            loop {
                match stream.next().await {
                    None => return End::State("00000".to_owned(), String::new()),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break error,
                }
            }
        }
        Err(error) => error,
    };
    match error.as_db_error() {
        Some(db) => End::State(db.code().code().to_owned(), db.message().to_owned()),
        None => End::Lost(error.to_string()),
    }
}

impl Attack {
    fn wrong(&self, what: String) {
        println!("WRONG {what}");
        self.seen.lock().unwrap().wrong.push(what);
    }

    fn saw(&self, state: String, took: Duration, sql: &str) {
        let mut seen = self.seen.lock().unwrap();
        *seen.states.entry(state).or_default() += 1;
        if took > seen.slowest.0 {
            seen.slowest = (took, head(sql));
        }
    }

    async fn session(&self) -> Client {
        let client = connect(&self.server).await;
        let setup = format!(
            "SET statement_timeout = {}; SET lock_timeout = '500ms'",
            TIMEOUT.as_millis()
        );
        client.batch_execute(&setup).await.expect("settings");
        client
    }

    /// Takes statements until there are none.
    async fn attack(&self, mut rng: SmallRng, statements: &[(&'static str, String)]) {
        let mut client = self.session().await;
        loop {
            let left = self.left.load(Ordering::Relaxed);
            let next = self
                .left
                .fetch_sub(usize::from(left > 0), Ordering::Relaxed);
            if next == 0 || next > statements.len() {
                return;
            }
            let (class, sql) = &statements[next - 1];
            let begun = format!("{class}: {}", keep(sql));
            self.running.lock().unwrap().insert(next, begun);
            let ended = self.one(&client, &mut rng, class, sql).await;
            self.running.lock().unwrap().remove(&next);
            if !ended {
                client = self.session().await;
            }
        }
    }

    /// One statement; whether the session may go on.
    async fn one(&self, client: &Client, rng: &mut SmallRng, class: &str, sql: &str) -> bool {
        let began = Instant::now();
        let over = Arc::new(AtomicBool::new(false));
        if rng.random_bool(0.25) {
            let (cancel, over) = (client.cancel_token(), Arc::clone(&over));
            let after = Duration::from_millis(rng.random_range(1..400));
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                if !over.load(Ordering::Relaxed) {
                    let _ = cancel.cancel_query(NoTls).await;
                }
            });
        }
        let most = TIMEOUT * generate::statements_in(sql) + self.limit;
        let ended = tokio::time::timeout(most * 5, run(client, sql)).await;
        over.store(true, Ordering::Relaxed);
        let took = began.elapsed();
        let (state, message) = match ended {
            Ok(End::State(state, message)) => (state, message),
            Ok(End::Lost(error)) => {
                self.wrong(format!(
                    "{class}: the session was lost ({error}): {}",
                    head(sql)
                ));
                return false;
            }
            Err(_) => {
                self.wrong(format!("{class}: not ended after {took:?}: {}", keep(sql)));
                return false;
            }
        };
        if state == "XX000" || state.starts_with("58") {
            self.wrong(format!("{class}: {state} {message}: {}", keep(sql)));
        }
        if took > most {
            self.wrong(format!("{class}: {state} after {took:?}: {}", keep(sql)));
        }
        self.saw(state, took, sql);
        let reset = run(client, "ROLLBACK; RESET ALL; CLOSE ALL").await;
        if let End::Lost(error) = reset {
            self.wrong(format!("{class}: lost after it ({error}): {}", head(sql)));
            return false;
        }
        let set = format!("SET statement_timeout = {}", TIMEOUT.as_millis());
        // A cancel that came late ends this one instead.
        while let End::State(state, _) = run(client, &set).await {
            if state == "00000" {
                return true;
            }
        }
        false
    }
}

/// A statement's text, in a file of its own where it is long.
fn keep(sql: &str) -> String {
    if sql.len() < 300 {
        return sql.to_owned();
    }
    let (_, path) = tempfile::Builder::new()
        .suffix(".sql")
        .tempfile()
        .and_then(|file| Ok(file.keep()?))
        .expect("a file");
    std::fs::write(&path, sql).expect("a file");
    format!(
        "{} … ({} bytes in {})",
        head(sql),
        sql.len(),
        path.display()
    )
}

/// Distinct statements, each with the class it is of.
fn statements(rng: &mut SmallRng, number: usize) -> Vec<(&'static str, String)> {
    let mut known = HashSet::new();
    let mut statements = Vec::new();
    while statements.len() < number {
        let class = generate::CLASSES[statements.len() % generate::CLASSES.len()];
        let sql = (class.1)(rng);
        if known.insert(sql.clone()) {
            statements.push((class.0, sql));
        }
    }
    statements
}

async fn prepare(server: TestServer, number: usize) -> Arc<Attack> {
    let client = connect(&server).await;
    client.batch_execute(generate::TABLES).await.unwrap();
    quiet::prepare(&client).await;
    let limit = limit(&server).await;
    Arc::new(Attack {
        server,
        seen: Mutex::default(),
        left: AtomicUsize::new(number),
        running: Mutex::default(),
        limit,
    })
}

#[test]
fn whatever_is_sent_ends_alone_and_nobody_else_notices() {
    let number = scale("EVENKEEL_HOSTILE", HOSTILE);
    let mut rng = seeded();
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(&dir.path().join("data"), &SETTINGS);
    let runtime = client_runtime();
    let attack = runtime.block_on(prepare(server, number));
    let statements: Arc<[_]> = statements(&mut rng, number).into();
    let most = attack.server.resident() + POOL + BUDGET * 6 / 5;
    let stop = Arc::new(AtomicBool::new(false));
    let watch = watch_memory(&attack, &stop);
    let slowest = runtime.block_on(async {
        let quiet = Quiet::begin(&attack.server).await;
        let mut hostile = Vec::new();
        for _ in 0..SESSIONS {
            let (attack, statements) = (Arc::clone(&attack), Arc::clone(&statements));
            let rng = SmallRng::seed_from_u64(rng.random());
            hostile.push(tokio::spawn(async move {
                attack.attack(rng, &statements).await;
            }));
        }
        let port = attack.server.port();
        let mut more = SmallRng::seed_from_u64(rng.random());
        let messages =
            tokio::task::spawn_blocking(move || protocol::attack(port, &mut more, number / 4 + 1));
        for session in hostile {
            session.await.expect("a hostile session");
        }
        for wrong in messages.await.expect("a hostile client") {
            attack.wrong(wrong);
        }
        quiet.end().await
    });
    stop.store(true, Ordering::Relaxed);
    let resident = watch.join().unwrap();
    report(&attack, number, slowest, resident);
    let attack = Arc::into_inner(attack).expect("nobody else");
    let log = attack.server.log();
    assert!(!log.contains("panicked"), "{log}");
    assert!(slowest < attack.limit, "{slowest:?} of {:?}", attack.limit);
    assert!(resident < most, "{} of {} MiB", resident / MIB, most / MIB);
    assert!(attack.server.stop().success());
    let wrong = attack.seen.into_inner().unwrap().wrong;
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn watch_memory(attack: &Arc<Attack>, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<usize> {
    let (attack, stop) = (Arc::clone(attack), Arc::clone(stop));
    std::thread::spawn(move || {
        let mut most = 0;
        while !stop.load(Ordering::Relaxed) {
            let now = attack.server.resident();
            if now > most.max(BUDGET) {
                let running = attack.running.lock().unwrap();
                println!("{} MiB with {running:?}", now / MIB);
            }
            most = most.max(now);
            std::thread::sleep(Duration::from_millis(20));
        }
        most
    })
}

fn report(attack: &Attack, number: usize, slowest: Duration, resident: usize) {
    let seen = attack.seen.lock().unwrap();
    println!("{number} statements: {:?}", seen.states);
    println!("the slowest hostile one: {:?}", seen.slowest);
    println!(
        "the slowest well-behaved one: {slowest:?} of {:?}",
        attack.limit
    );
    println!("resident at most {} MiB", resident / MIB);
}
