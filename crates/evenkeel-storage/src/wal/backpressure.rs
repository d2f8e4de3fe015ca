//! Making those wait who write log, in proportion to what they write.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::ids::Lsn;

/// A thread with more unflushed log of its own than this waits before it makes more, so that
/// what others wait for is not behind it.
const OWN_UNFLUSHED: u64 = 1 << 20;
/// Debts are paid when they are worth a sleep.
const LEAST_SLEEP: Duration = Duration::from_micros(500);
/// Longest wait at once; the rest is owed until the next change.
const LONGEST_SLEEP: Duration = Duration::from_millis(200);
/// Most that is owed.
const MOST_OWED: Duration = Duration::from_secs(1);

/// Log that this thread has written lately.
#[derive(Clone, Copy, Debug, Default)]
struct Mine {
    /// Which log it wrote to.
    log: u64,
    /// Bytes since it was last admitted.
    unpaid: u64,
    /// Time owed for bytes before.
    debt: Duration,
    /// A position of its own about half of [`OWN_UNFLUSHED`] ago, and its bytes since.
    mark: Lsn,
    since_mark: u64,
    /// Its last record.
    last: Lsn,
}

thread_local! {
    static MINE: Cell<Mine> = const { Cell::new(Mine {
        log: 0,
        unpaid: 0,
        debt: Duration::ZERO,
        mark: Lsn::ZERO,
        since_mark: 0,
        last: Lsn::ZERO,
    }) };
}

/// Tells the logs of a process apart; their incarnations do not, since a directory may be copied.
static LOGS: AtomicU64 = AtomicU64::new(1);

/// The price of log, and what was paid.
#[derive(Debug)]
pub struct Backpressure {
    log: u64,
    nanos_per_byte: AtomicU64,
    delays: AtomicU64,
    delay_micros: AtomicU64,
}

/// The condition that a thread has to wait for before it makes more log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    /// Until this record is durable.
    Durable(Lsn),
}

impl Default for Backpressure {
    fn default() -> Backpressure {
        Backpressure {
            log: LOGS.fetch_add(1, Ordering::Relaxed),
            nanos_per_byte: AtomicU64::new(0),
            delays: AtomicU64::new(0),
            delay_micros: AtomicU64::new(0),
        }
    }
}

impl Backpressure {
    /// From now on each byte of log costs who writes it so much time before the next change.
    pub(crate) fn set_price(&self, nanos_per_byte: u64) {
        self.nanos_per_byte.store(nanos_per_byte, Ordering::Relaxed);
    }

    /// Nanoseconds that a byte of log costs at present.
    #[must_use]
    pub fn price(&self) -> u64 {
        self.nanos_per_byte.load(Ordering::Relaxed)
    }

    /// How often somebody was delayed, and for how many microseconds in all.
    #[must_use]
    pub fn delays(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.delays), load(&self.delay_micros))
    }

    /// Notes a record of this thread.
    #[inline]
    pub(super) fn wrote(&self, lsn: Lsn, len: u64) {
        let mut mine = MINE.get();
        if mine.log != self.log {
            mine = Mine {
                log: self.log,
                mark: lsn,
                ..Mine::default()
            };
        }
        mine.unpaid += len;
        mine.since_mark += len;
        mine.last = lsn;
        MINE.set(mine);
    }

    /// Before more log is made: whose time has come sleeps; says what else to wait for.
    #[inline]
    pub(super) fn admit(&self) -> Wait {
        let mine = MINE.get();
        let free = self.price() == 0 && mine.debt.is_zero();
        if mine.log != self.log || (free && mine.since_mark < OWN_UNFLUSHED / 2) {
            return Wait::Nothing;
        }
        self.pay(mine)
    }

    #[cold]
    fn pay(&self, mut mine: Mine) -> Wait {
        let price = self.price();
        mine.debt = if price == 0 {
            Duration::ZERO
        } else {
            let due = Duration::from_nanos(mine.unpaid.saturating_mul(price));
            (mine.debt + due).min(MOST_OWED)
        };
        mine.unpaid = 0;
        let sleep = mine.debt.min(LONGEST_SLEEP);
        if sleep >= LEAST_SLEEP {
            mine.debt -= sleep;
        }
        let wait = if mine.since_mark >= OWN_UNFLUSHED / 2 {
            let mark = std::mem::replace(&mut mine.mark, mine.last);
            mine.since_mark = 0;
            Wait::Durable(mark)
        } else {
            Wait::Nothing
        };
        MINE.set(mine);
        if sleep >= LEAST_SLEEP {
            self.delays.fetch_add(1, Ordering::Relaxed);
            let micros = u64::try_from(sleep.as_micros()).unwrap_or(u64::MAX);
            self.delay_micros.fetch_add(micros, Ordering::Relaxed);
            evenkeel_io::blocking(|| std::thread::sleep(sleep));
        }
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn who_writes_pays_in_proportion_and_only_while_there_is_a_price() {
        let pressure = Backpressure::default();
        let paid = |bytes| {
            pressure.wrote(Lsn(64), bytes);
            let start = Instant::now();
            assert_eq!(pressure.admit(), Wait::Nothing);
            start.elapsed()
        };
        assert!(paid(100_000) < Duration::from_millis(5));
        assert_eq!(pressure.delays().0, 0);
        pressure.set_price(1_000);
        assert!(paid(30_000) >= Duration::from_millis(30));
        // Little is owed until it is worth a sleep.
        assert_eq!((paid(200), pressure.delays().0).1, 2 - 1);
        for _ in 0..3 {
            paid(200);
        }
        assert_eq!(pressure.delays().0, 2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let start = Instant::now();
                pressure.wrote(Lsn(64), 100);
                pressure.admit();
                start.elapsed()
            });
            let took = other.join().expect("no panic");
            assert!(took < Duration::from_millis(20), "{took:?}");
        });
        pressure.set_price(0);
        paid(100_000);
        assert_eq!(pressure.delays().0, 2);
    }

    #[test]
    fn who_has_much_unflushed_log_waits_for_its_own() {
        let pressure = Backpressure::default();
        let mut waits = Vec::new();
        for n in 1..=64_u64 {
            pressure.wrote(Lsn(n << 16), 1 << 16);
            if let Wait::Durable(lsn) = pressure.admit() {
                waits.push((n, lsn));
            }
        }
        assert_eq!(waits.len(), 8);
        // Never more than the limit between what is waited for and what was written.
        assert!(
            waits
                .iter()
                .all(|(n, lsn)| (n << 16) - lsn.0 <= OWN_UNFLUSHED),
            "{waits:?}"
        );
        // Another log is another matter, and may be a copy of this one.
        pressure.wrote(Lsn(1 << 30), OWN_UNFLUSHED / 2);
        assert_eq!(Backpressure::default().admit(), Wait::Nothing);
    }
}
