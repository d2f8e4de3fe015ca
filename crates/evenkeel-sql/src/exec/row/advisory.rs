//! Advisory locks and `pg_sleep`.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use evenkeel_engine::advisory::{AdvisoryKey, AdvisoryLock, AdvisoryLocks, AdvisoryScope};
use evenkeel_engine::{WaitPolicy, block_on};
use evenkeel_types::Interval;

use crate::error::{SqlError, SqlResult};
use crate::exec::StatementCx;
use crate::types::Datum;

const MICROS: f64 = 1e6;

/// Answers a function of advisory locks, or one that sleeps, by its oid in `pg_proc`; `None` for
/// any other.
pub fn call(oid: u32, cx: &StatementCx, args: &[Datum]) -> Option<SqlResult<Datum>> {
    let nothing = |done: SqlResult<()>| done.map(|()| Datum::Text(String::new()));
    Some(match (oid, args) {
        (2880..=2891, _) => by_key(oid - 2880, AdvisoryScope::Session, cx, args),
        (3089..=3096, _) => by_key(
            transaction_function(oid),
            AdvisoryScope::Transaction,
            cx,
            args,
        ),
        (2892, []) => {
            locks(cx).unlock_all();
            nothing(Ok(()))
        }
        (2626, [Datum::Float8(seconds)]) => nothing(sleep(cx, *seconds)),
        (3935, [Datum::Interval(time)]) => nothing(sleep(cx, seconds_of(*time))),
        (3936, [Datum::Timestamptz(until)]) => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = since.unwrap_or_default().as_secs_f64();
            nothing(sleep(cx, *until as f64 / MICROS - now))
        }
        _ => return None,
    })
}

/// The number that the function of a session's lock has.
fn transaction_function(oid: u32) -> u32 {
    let number = oid - 3089;
    number % 4 + number / 4 * 6
}

fn locks(cx: &StatementCx) -> &AdvisoryLocks {
    &cx.seed.resources.advisory
}

/// Functions by number: lock, try and unlock, each exclusive and shared, by one key; then by two.
fn by_key(number: u32, scope: AdvisoryScope, cx: &StatementCx, args: &[Datum]) -> SqlResult<Datum> {
    let key = match args {
        [Datum::Int8(key)] => AdvisoryKey::One(*key),
        [Datum::Int4(first), Datum::Int4(second)] => AdvisoryKey::Two(*first, *second),
        _ => return Err(SqlError::internal("an advisory lock without a key")),
    };
    let lock = AdvisoryLock {
        key,
        shared: number % 2 == 1,
    };
    let take = |policy| {
        let wait = cx.seed.resources.advisory_wait(&cx.seed.cancel);
        let taken = locks(cx).lock(lock, scope, policy, wait);
        evenkeel_io::blocking(|| block_on(taken))
    };
    Ok(match number % 6 / 2 {
        0 => {
            take(WaitPolicy::Block)?;
            Datum::Text(String::new())
        }
        1 => Datum::Bool(take(WaitPolicy::SkipLocked)?),
        _ => Datum::Bool(locks(cx).unlock(lock)),
    })
}

/// The length of an interval, a month as 30 days.
fn seconds_of(time: Interval) -> f64 {
    time.comparison_micros() as f64 / MICROS
}

/// Sleeps until the time is over or the statement is to end; other sessions go on meanwhile.
fn sleep(cx: &StatementCx, seconds: f64) -> SqlResult<()> {
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    let until = Instant::now().checked_add(time);
    evenkeel_io::blocking(|| cx.seed.cancel.sleep_until(until))?;
    Ok(())
}
