use proptest::prelude::*;

use super::*;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn bounds() -> Bounds {
    Bounds {
        time: secs(100),
        soft_log: 1_000,
        hard_log: 10_000,
    }
}

fn place(elapsed: u64, log: u64, done: u64) -> Place {
    Place {
        elapsed: secs(elapsed),
        log,
        done,
        due: 100,
    }
}

#[test]
fn time_or_log_whichever_is_used_up_sooner_sets_the_pace() {
    for (elapsed, log, done, urgency) in [
        (10, 0, 20, Urgency::Ahead),
        (30, 0, 20, Urgency::Behind),
        (10, 300, 20, Urgency::Behind),
        (10, 300, 31, Urgency::Ahead),
        (99, 0, 100, Urgency::Behind),
    ] {
        let found = bounds().urgency(&place(elapsed, log, done));
        assert_eq!(found, urgency, "{elapsed} s, {log} bytes, {done} done");
    }
}

#[test]
fn what_must_hold_comes_before_commit_latency_and_that_before_what_should() {
    let suffering = Flushes {
        quiet: Duration::from_millis(1),
        busy: Duration::from_millis(50),
        met: 1,
    };
    let mut pacer = Pacer::default();
    let piece = Piece {
        pages: 1,
        writes: 1,
        took: Duration::from_millis(10),
        protect: Duration::ZERO,
        done: 1,
        due: 100,
    };
    for met in 1..5 {
        pacer.wrote(&piece, Flushes { met, ..suffering });
    }
    // Too much time and soft log are gone: still there are rests.
    assert_eq!(bounds().urgency(&place(200, 2_000, 20)), Urgency::Behind);
    assert!(pacer.rest(piece.took) >= piece.took);
    // The hard bound is near: there are none.
    assert_eq!(bounds().urgency(&place(1, 2_001, 20)), Urgency::Pressed);
}

#[test]
fn pieces_shrink_while_commits_suffer_and_grow_again_afterwards() {
    let mut pacer = Pacer::default();
    let piece = |pacer: &Pacer| Piece {
        pages: pacer.writes() as u64,
        writes: pacer.writes() as u64,
        took: Duration::from_micros(500) * pacer.writes() as u32,
        protect: Duration::ZERO,
        done: 0,
        due: 100,
    };
    let flush = |busy, met| Flushes {
        quiet: Duration::from_millis(2),
        busy: Duration::from_millis(busy),
        met,
    };
    for met in 1..200 {
        pacer.wrote(&piece(&pacer), flush(3, met));
    }
    assert_eq!(pacer.writes(), 40, "20 ms of 500 µs each");
    for met in 200..210 {
        pacer.wrote(&piece(&pacer), flush(30, met));
    }
    assert_eq!(pacer.writes(), 1);
    assert!(pacer.rest(Duration::from_millis(1)) >= Duration::from_millis(1));
    // Nothing is learned where no flush was met.
    let before = pacer.rest(Duration::from_millis(1));
    for _ in 0..10 {
        pacer.wrote(&piece(&pacer), flush(3, 209));
    }
    assert_eq!(pacer.rest(Duration::from_millis(1)), before);
    for met in 210..400 {
        pacer.wrote(&piece(&pacer), flush(3, met));
    }
    assert_eq!(pacer.writes(), 40);
    assert_eq!(pacer.rest(Duration::from_millis(1)), Duration::ZERO);
}

/// A device and sessions that write log, in virtual time.
struct World {
    now: Duration,
    write: Duration,
    /// Sessions, and bytes of log of each per second when nothing delays them.
    sessions: f64,
    each: f64,
    log: f64,
}

impl World {
    /// Lets time pass; sessions pay for what they write.
    fn pass(&mut self, time: Duration, price: u64) {
        let per_byte = 1.0 / self.each + price as f64 / 1e9;
        self.log += self.sessions / per_byte * time.as_secs_f64();
        self.now += time;
    }
}

struct Cycle {
    took: Duration,
    log: f64,
    longest_piece: Duration,
    /// Pages written in each tenth of the time it was meant to take.
    tenths: [u64; 10],
    highest_price: u64,
}

/// One cycle of `due` pages, each a write of its own.
fn cycle(world: &mut World, bounds: &Bounds, due: u64, flushes: Flushes) -> Cycle {
    let (mut pacer, mut brake) = (Pacer::default(), WriteThrottle::default());
    let begun = world.now;
    let log = world.log;
    let mut found = Cycle {
        took: Duration::ZERO,
        log: 0.0,
        longest_piece: Duration::ZERO,
        tenths: [0; 10],
        highest_price: 0,
    };
    let mut done = 0;
    while done < due {
        let place = Place {
            elapsed: world.now - begun,
            log: (world.log - log) as u64,
            done,
            due,
        };
        let left = bounds.hard_log as f64 - (world.log - log);
        let needed = pacer.time_for(due - done);
        let allowed = (needed > 0.0).then(|| left.max(0.0) / needed);
        let price = brake.tick(world.now, world.log as u64, allowed);
        found.highest_price = found.highest_price.max(price);
        let urgency = bounds.urgency(&place);
        if urgency == Urgency::Ahead {
            world.pass(Duration::from_millis(5), price);
            continue;
        }
        let writes = match urgency {
            Urgency::Pressed => 32,
            _ => pacer.writes() as u64,
        };
        let writes = writes.min(due - done);
        let took = world.write * writes as u32;
        world.pass(took, price);
        done += writes;
        let tenth = (world.now - begun).as_secs_f64() / bounds.time.as_secs_f64() * 10.0;
        found.tenths[(tenth as usize).min(9)] += writes;
        if urgency != Urgency::Pressed {
            found.longest_piece = found.longest_piece.max(took);
        }
        let piece = Piece {
            pages: writes,
            writes,
            took,
            protect: Duration::ZERO,
            done,
            due,
        };
        pacer.wrote(&piece, flushes);
        if urgency == Urgency::Behind {
            world.pass(pacer.rest(took), price);
        }
    }
    found.took = world.now - begun;
    found.log = world.log - log;
    found
}

proptest! {
    /// A device that has the time for it writes evenly, in small pieces, and ends in time.
    #[test]
    fn a_cycle_is_spread_evenly_and_in_small_pieces(
        write_micros in 50_u64..8_000,
        load in 0.05_f64..0.6,
        seconds in 10_u64..300,
    ) {
        let write = Duration::from_micros(write_micros);
        let due = (seconds as f64 * load / write.as_secs_f64()).max(40.0) as u64;
        let bounds = Bounds { time: secs(seconds), soft_log: 1 << 40, hard_log: 1 << 50 };
        let mut world = World { now: secs(5), write, sessions: 4.0, each: 1e6, log: 0.0 };
        let found = cycle(&mut world, &bounds, due, Flushes::default());
        prop_assert!(found.took <= bounds.time.mul_f64(1.02) + write * 2);
        prop_assert!(found.longest_piece <= FIRST_PIECE.max(write));
        let fair = due / 10;
        let most = *found.tenths.iter().max().expect("ten");
        prop_assert!(most <= fair + fair / 4 + 70, "{:?}", found.tenths);
        prop_assert_eq!(found.highest_price, 0);
    }

    /// However fast sessions would write log, the hard bound holds, by delays that begin early
    /// and stay moderate.
    #[test]
    fn a_bound_that_must_hold_holds_by_delaying_sessions(
        write_micros in 4_000_u64..8_000,
        due in 1_000_u64..5_000,
        sessions in 1_u64..64,
        excess in 1.2_f64..10.0,
    ) {
        let write = Duration::from_micros(write_micros);
        let full_speed = write.as_secs_f64() * due as f64;
        let hard_log = 64_000_000;
        let total = hard_log as f64 / full_speed * excess;
        let bounds = Bounds { time: secs(300), soft_log: 30_000_000, hard_log };
        let mut world = World {
            now: secs(5),
            write,
            sessions: sessions as f64,
            each: total / sessions as f64,
            log: 0.0,
        };
        let found = cycle(&mut world, &bounds, due, Flushes::default());
        prop_assert!(found.log <= hard_log as f64 * 1.1, "{} of {hard_log}", found.log);
        prop_assert!(found.highest_price > 0 || found.log <= hard_log as f64);
    }

    /// While commits suffer a cycle takes its time, but not for ever.
    #[test]
    fn suffering_commits_slow_a_cycle_within_limits(write_micros in 200_u64..8_000) {
        let write = Duration::from_micros(write_micros);
        let bounds = Bounds { time: secs(10), soft_log: 1 << 40, hard_log: 1 << 50 };
        let due = (5.0 / write.as_secs_f64()) as u64;
        let flushes = Flushes {
            quiet: Duration::from_millis(2),
            busy: Duration::from_millis(40),
            met: 1,
        };
        let mut world = World { now: secs(5), write, sessions: 4.0, each: 1e6, log: 0.0 };
        let found = cycle(&mut world, &bounds, due, flushes);
        prop_assert!(found.took <= bounds.time.mul_f64(1.0 + MOST_STRETCH));
    }
}

#[test]
fn the_price_falls_to_nothing_when_the_bound_is_far_again() {
    let mut brake = WriteThrottle::default();
    let mut log = 0;
    for tick in 0..100_u64 {
        log += 100_000;
        brake.tick(Duration::from_millis(tick * 25), log, Some(1e6));
    }
    assert!(brake.price > 0.0);
    for tick in 100..300_u64 {
        log += 100;
        brake.tick(Duration::from_millis(tick * 25), log, None);
    }
    assert_eq!(brake.tick(secs(30), log, None), 0);
}

/// Batches on a device that needs so much for a write and for a page of it; a page in six is
/// due. Answers the gap that is found best.
fn gap_found(write: f64, page: f64, needed: bool) -> usize {
    let mut search = GapSearch::default();
    let mut gap = 0;
    for _ in 0..400 {
        gap = search.next_batch(needed);
        // Pages due in 128, and writes in which they go, when gaps up to `gap` are closed.
        let density: f64 = 1.0 / 6.0;
        let closed = 1.0 - (1.0 - density).powi(gap as i32 + 1);
        let mean_gap = (1.0 / density - 1.0).min(gap as f64 / 2.0);
        let due = 128.0 / (1.0 + closed * mean_gap);
        let writes = due * (1.0 - closed) + 1.0;
        search.wrote(due as u64, writes * write + 2.0 * 128.0 * page);
    }
    gap
}

#[test]
fn gaps_are_closed_where_writes_are_what_is_short() {
    // A spinning disk, and a volume with a quota of writes.
    assert!(gap_found(8e-3, 55e-6, true) >= 4);
    assert!(gap_found(2.5e-3, 20e-6, true) >= 4);
    // A device whose bandwidth is what is short.
    assert_eq!(gap_found(20e-6, 100e-6, true), 0);
    assert_eq!(gap_found(8e-3, 55e-6, false), 0);
}
