//! How fast a spread checkpoint writes, and what log costs those who write it. Nothing here
//! knows a clock, a disk or a thread.

use std::time::Duration;

use crate::writeout::Piece;

/// Longest time that the device is given writes for at once. A commit's log waits behind them.
const LONGEST_PIECE: Duration = Duration::from_millis(20);
/// And to begin with.
const FIRST_PIECE: Duration = Duration::from_millis(5);
/// By how much that grows with each piece that nobody's commit suffered from.
const GROWTH: Duration = Duration::from_micros(250);
/// Most writes in a piece.
const MOST_WRITES: f64 = 64.0;
/// Clean pages written along to close a gap between two that are due: how many at most, by
/// level. Each level costs more transfers and saves more writes.
const GAPS: [usize; 5] = [0, 2, 4, 8, 16];
/// Batches at one level before another is tried, or the best one chosen.
const BATCHES: u32 = 6;
/// Batches without need after which one level less is tried.
const CALM_BATCHES: u32 = 64;
/// Commits suffer when a flush beside page writes takes so many times as long as without.
const SUFFERING: u32 = 2;
/// Time that a flush may take longer in any case.
const TOLERANCE: Duration = Duration::from_millis(1);
/// Longest rest after a piece, in multiples of the time it took.
const MOST_STRETCH: f64 = 4.0;
/// Of the rate at which log may grow, what is aimed at.
const AIM: f64 = 0.9;
/// How far behind, of 1, a cycle may be before its device is said not to keep up.
const LAG: f64 = 0.03;
/// Weight of a new measurement.
const WEIGHT: f64 = 1.0 / 8.0;

/// Limits on the time and the log that a cycle may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// It is spread over this time (`checkpoint_timeout`) ...
    pub(super) time: Duration,
    /// ... or so much log since its target (`max_wal_size`), whichever is used up sooner.
    pub(super) soft_log: u64,
    /// By so much log it must be done, whatever becomes of commit latency (space for the log,
    /// `max_recovery_time`).
    pub(super) hard_log: u64,
}

/// Where a cycle is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Time since it began.
    pub(super) elapsed: Duration,
    /// Log since its target.
    pub(super) log: u64,
    /// Pages done, of those due.
    pub(super) done: u64,
    pub(super) due: u64,
}

/// How pressing the next write is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Urgency {
    /// More is done than need be by now.
    Ahead,
    /// Less is, but nothing is lost if it takes longer.
    Behind,
    /// A bound that must hold is near.
    Pressed,
}

/// How long flushes of the log take, without and with page writes beside them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flushes {
    pub(super) quiet: Duration,
    pub(super) busy: Duration,
    /// How many met page writes.
    pub(super) met: u64,
}

impl Flushes {
    fn suffer(&self) -> bool {
        !self.quiet.is_zero() && self.busy > self.quiet * SUFFERING + TOLERANCE
    }
}

fn share(part: f64, whole: f64) -> f64 {
    part / whole.max(1e-3)
}

impl Bounds {
    /// The share that should be done by now, of 1, for the bounds that may be passed.
    fn expected(&self, place: &Place) -> f64 {
        let time = share(place.elapsed.as_secs_f64(), self.time.as_secs_f64());
        time.max(share(place.log as f64, self.soft_log as f64))
    }

    pub(super) fn urgency(&self, place: &Place) -> Urgency {
        let done = share(place.done as f64, place.due.max(1) as f64);
        if place.done >= place.due {
            // All pages are written; only syncs and the move of the redo point remain.
            Urgency::Behind
        } else if done < share(place.log as f64, self.hard_log as f64) {
            Urgency::Pressed
        } else if done > self.expected(place) {
            Urgency::Ahead
        } else {
            Urgency::Behind
        }
    }

    /// Whether the device does not keep up.
    pub(super) fn is_behind(&self, place: &Place) -> bool {
        let done = share(place.done as f64, place.due.max(1) as f64);
        self.expected(place) > done + LAG
    }
}

/// Spaces the writes of cycles. Its measurements of the device are kept from cycle to cycle.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    /// Longest time the device is to be given writes for at once, by what commits say.
    piece: Duration,
    /// Rest after a piece that is behind, in multiples of its time.
    stretch: f64,
    /// Seconds per write and per page on the device; zero when not known.
    write: f64,
    page: f64,
    /// Flushes seen that met page writes.
    met: u64,
    gaps: GapSearch,
}

impl Default for Pacer {
    fn default() -> Pacer {
        Pacer {
            piece: FIRST_PIECE,
            stretch: 0.0,
            write: 0.0,
            page: 0.0,
            met: 0,
            gaps: GapSearch::default(),
        }
    }
}

fn learn(mean: &mut f64, value: f64) {
    *mean = match *mean {
        0.0 => value,
        old => old + (value - old) * WEIGHT,
    };
}

impl Pacer {
    /// Learns from a piece that the device has taken.
    pub(super) fn wrote(&mut self, piece: &Piece, flushes: Flushes) {
        let took = piece.took.as_secs_f64().max(1e-9);
        learn(&mut self.write, took / piece.writes.max(1) as f64);
        let whole = took + piece.protect.as_secs_f64();
        learn(&mut self.page, whole / piece.pages.max(1) as f64);
        self.gaps.wrote(piece.pages, whole);
        if flushes.met == self.met {
            return;
        }
        self.met = flushes.met;
        if flushes.suffer() {
            // One write at a time is as little as can be; from there on there are rests.
            if self.writes() == 1 {
                self.stretch = (self.stretch * 1.5 + 0.5).min(MOST_STRETCH);
            }
            self.piece /= 2;
        } else {
            self.stretch = (self.stretch - 0.25).max(0.0);
            self.piece = (self.piece + GROWTH).min(LONGEST_PIECE);
        }
        self.piece = self.piece.max(GROWTH);
    }

    /// Most writes for the device at once.
    pub(super) fn writes(&self) -> usize {
        let fit = match self.write {
            0.0 => 1.0,
            write => self.piece.as_secs_f64() / write,
        };
        // At least 1 and small.
        fit.clamp(1.0, MOST_WRITES) as usize
    }

    /// Notes that a batch begins, in a cycle that is behind or not; answers how large gaps may
    /// be that are closed in it.
    pub(super) fn gap(&mut self, behind: bool) -> usize {
        let needed = behind || self.stretch > 0.0 || self.piece <= FIRST_PIECE / 4;
        self.gaps.next_batch(needed)
    }

    /// Rest after a piece that is behind schedule.
    pub(super) fn rest(&self, took: Duration) -> Duration {
        took.mul_f64(self.stretch).min(LONGEST_PIECE * 4)
    }

    /// Seconds in which so many pages can be written at full speed; zero when not known.
    pub(super) fn time_for(&self, pages: u64) -> f64 {
        self.page * pages as f64
    }
}

/// Finds out at which level of [`GAPS`] the device takes least time for a page that is due: at
/// none where it is short of bandwidth, or not the device is what is short, at a high one where
/// every write costs a movement of heads or counts against a quota.
#[derive(Clone, Debug, Default)]
struct GapSearch {
    level: usize,
    /// Seconds per due page at each level; zero where it was not tried lately.
    cost: [f64; GAPS.len()],
    /// Of this level's trial: batches, pages and seconds.
    batches: u32,
    pages: u64,
    seconds: f64,
    calm: u32,
}

impl GapSearch {
    /// A level must be so much better to be worth more transfers.
    const BETTER: f64 = 0.9;

    fn wrote(&mut self, pages: u64, seconds: f64) {
        self.pages += pages;
        self.seconds += seconds;
    }

    fn next_batch(&mut self, needed: bool) -> usize {
        self.batches += 1;
        self.calm = if needed { 0 } else { self.calm + 1 };
        if self.calm >= CALM_BATCHES {
            self.calm = 0;
            self.cost = [0.0; GAPS.len()];
            self.go_to(self.level.saturating_sub(1));
        } else if self.batches > BATCHES && self.pages > 0 {
            let cost = self.seconds / self.pages as f64;
            self.cost[self.level] = cost;
            if needed {
                self.go_to(self.better());
            } else {
                self.go_to(self.level);
            }
        }
        GAPS[self.level]
    }

    /// One more while that pays; else back to what did.
    fn better(&self) -> usize {
        let here = self.cost[self.level];
        let below = self.level.checked_sub(1);
        let above = self.level + 1;
        match below.map(|below| self.cost[below]) {
            Some(cost) if cost > 0.0 && here > cost * Self::BETTER => self.level - 1,
            _ if above == GAPS.len() => self.level,
            // Known to be no better.
            _ if self.cost[above] > here * Self::BETTER => self.level,
            _ => above,
        }
    }

    fn go_to(&mut self, level: usize) {
        self.level = level;
        (self.batches, self.pages, self.seconds) = (0, 0, 0.0);
    }
}

/// Sets the price of log, such that it grows no faster than bounds that must hold allow.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteThrottle {
    /// Nanoseconds per byte.
    price: f64,
    /// Bytes per second.
    rate: f64,
    last: Option<(Duration, u64)>,
}

impl WriteThrottle {
    /// Least time between two looks.
    const TICK: Duration = Duration::from_millis(20);
    /// A byte never costs more: 8 KiB are then 8 seconds.
    const HIGHEST: f64 = 1e6;

    /// Looks at the log's position `inserted` at time `now`; log may grow by `allowed` bytes per
    /// second. Answers the price of a byte, in nanoseconds.
    pub(super) fn tick(&mut self, now: Duration, inserted: u64, allowed: Option<f64>) -> u64 {
        let (at, before) = *self.last.get_or_insert((now, inserted));
        let elapsed = now.saturating_sub(at);
        if elapsed >= Self::TICK {
            let rate = inserted.saturating_sub(before) as f64 / elapsed.as_secs_f64();
            self.rate += (rate - self.rate) / 2.0;
            self.last = Some((now, inserted));
            self.adjust(allowed.unwrap_or(f64::INFINITY).max(1.0));
        }
        // Not negative and bounded.
        self.price as u64
    }

    fn adjust(&mut self, allowed: f64) {
        // The price that one session alone would have to pay.
        let alone = (1e9 / allowed).min(Self::HIGHEST);
        let ratio = self.rate / (allowed * AIM);
        if ratio > 1.0 {
            // In steps: the effect shows with the next look.
            let step = ratio.clamp(1.02, 4.0);
            self.price = (self.price * step).max(alone / 2.0).min(Self::HIGHEST);
        } else {
            self.price *= ratio.sqrt().clamp(0.8, 0.99);
            if self.price < alone / 16.0 {
                self.price = 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests;
