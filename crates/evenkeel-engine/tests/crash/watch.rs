//! A guard against hangs: what takes too long is named, and ends the run.

use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// Generous: the machine may be busy with other things.
const LIMIT: Duration = Duration::from_secs(300);

static RUNNING: Mutex<BTreeMap<u64, (Instant, String)>> = Mutex::new(BTreeMap::new());
static START: Once = Once::new();

fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let running = RUNNING.lock().unwrap_or_else(|broken| broken.into_inner());
        let late = running.values().find(|(since, _)| since.elapsed() > LIMIT);
        if let Some((_, what)) = late {
            // Past the capturing of test output, which would be lost.
            let _ = writeln!(std::io::stderr(), "no end of: {what}");
            std::process::abort();
        }
    }
}

/// Runs `work`; a panic in it becomes an error, a hang ends the process.
pub fn guarded<T>(what: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    START.call_once(|| {
        std::thread::spawn(watch);
    });
    let mut running = RUNNING.lock().unwrap_or_else(|broken| broken.into_inner());
    let id = running.last_key_value().map_or(0, |(last, _)| last + 1);
    running.insert(id, (Instant::now(), what.to_owned()));
    drop(running);
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    let mut running = RUNNING.lock().unwrap_or_else(|broken| broken.into_inner());
    running.remove(&id);
    drop(running);
    result.map_err(|error| match what {
        "" => error,
        what => format!("{what}: {error}"),
    })
}

/// The seed of a test: `EVENKEEL_SEED`, or `otherwise`; printed.
pub fn seed(otherwise: u64) -> u64 {
    let given = std::env::var("EVENKEEL_SEED").ok();
    let seed = given
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(otherwise);
    println!("EVENKEEL_SEED={seed}");
    seed
}

/// A seed that no run had before.
pub fn fresh() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_nanos() as u64
}

/// A number from the environment.
pub fn number(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given
        .and_then(|given| given.parse().ok())
        .unwrap_or(otherwise)
}
