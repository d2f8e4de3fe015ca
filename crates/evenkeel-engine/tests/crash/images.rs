//! Crash images along the journal of one run, each opened, verified, used and crashed again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use evenkeel_io::{ImageSeries, Outcome, SimDisk, takes_all};
use evenkeel_storage::{StorageConfig, TornPageProtection};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::keep::keep;
use crate::model::{History, State};
use crate::schema::{open, protected};
use crate::verify::{read_live, read_recovered};
use crate::watch::{fresh, guarded, number, seed};
use crate::workload::{Clock, Driver};

pub fn clock_of(disk: &SimDisk) -> Clock {
    let disk = disk.clone();
    Arc::new(move || disk.op_count())
}

/// A finished run: its disk, with the journal, and what must be found.
pub struct Run {
    pub seed: u64,
    pub disk: SimDisk,
    /// The settings of all its starts.
    pub storage: StorageConfig,
    pub history: History,
    /// The operations done.
    pub trace: Vec<String>,
}

/// Runs the workload, closing the database at the end of every other seed.
pub fn run(seed: u64, turns: usize, storage: &StorageConfig) -> Result<Run, String> {
    guarded(&format!("workload of seed {seed}"), || {
        let disk = SimDisk::new(seed);
        let db =
            open(Arc::new(disk.clone()), storage.clone()).map_err(|error| error.to_string())?;
        let random = StdRng::seed_from_u64(seed);
        let mut driver =
            Driver::create(db, clock_of(&disk), random).map_err(|error| error.to_string())?;
        for _ in 0..turns {
            driver.turn().map_err(|error| error.to_string())?;
        }
        driver.finish().map_err(|error| error.to_string())?;
        let found = read_live(&driver.db)?;
        driver.history.place(
            &found,
            driver.history.states.len() - 1..driver.history.states.len(),
        )?;
        if seed.is_multiple_of(2) {
            driver.db.close().map_err(|error| error.to_string())?;
        }
        let history = std::mem::take(&mut driver.history);
        let trace = std::mem::take(&mut driver.trace);
        Ok(Run {
            seed,
            disk,
            storage: storage.clone(),
            history,
            trace,
        })
    })
}

/// Outcomes of a power failure: without protection only whole pages.
pub fn outcomes(storage: &StorageConfig) -> [Outcome; 6] {
    match storage.torn_page_protection {
        TornPageProtection::Off => [
            Outcome::Nothing,
            Outcome::Everything,
            Outcome::Prefix,
            Outcome::Torn8192,
            Outcome::Torn8192,
            Outcome::Operations,
        ],
        _ => Outcome::ALL,
    }
}

/// How an image comes about.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    Power(Outcome),
    Process,
}

/// Opens an image and verifies it; answers the history to go on with.
fn recover(
    disk: &SimDisk,
    storage: &StorageConfig,
    history: &History,
    index: u64,
) -> Result<Option<(evenkeel_engine::Database, History)>, String> {
    let db = open(Arc::new(disk.clone()), storage.clone()).map_err(|error| error.to_string())?;
    let found = read_recovered(&db)?;
    if history.created.is_none_or(|created| index < created) {
        // The catalog was being made.
        return match found {
            Some(state) if state != State::default() => Err("a table before its time".into()),
            _ => Ok(None),
        };
    }
    let found = found.ok_or("the catalog is gone")?;
    let possible = history.possible(index);
    let place = history.place(&found, possible.clone())?;
    let states = history.states[possible.start..=place].to_vec();
    let opened = disk.op_count();
    let next = History {
        created: Some(0),
        begun: vec![0; states.len()],
        durable: vec![(0, 0), (opened, states.len() - 1)],
        states,
    };
    Ok(Some((db, next)))
}

/// Opens, verifies, changes, verifies; then perhaps fails again at some point of all this. A
/// failing image is kept, with what was done before it.
pub fn check_image(
    disk: &SimDisk,
    storage: &StorageConfig,
    history: &History,
    index: u64,
    depth: u32,
    random: &mut StdRng,
    trace: &[String],
) -> Result<(), String> {
    let before = disk.process_crash();
    let start = disk.op_count();
    let mut trace = trace.to_vec();
    guarded("", || {
        let when = (start, index);
        try_image(disk, storage, history, when, depth, random, &mut trace)
    })
    .map_err(|error| {
        let name = format!("{}-{index}-depth{depth}", std::process::id());
        match keep(&before, &name, &trace) {
            Some(place) => format!("{error} (kept in {})", place.display()),
            None => error,
        }
    })
}

fn try_image(
    disk: &SimDisk,
    storage: &StorageConfig,
    history: &History,
    (start, index): (u64, u64),
    depth: u32,
    random: &mut StdRng,
    trace: &mut Vec<String>,
) -> Result<(), String> {
    trace.push(format!("crash after operation {index}"));
    let Some((db, next)) = recover(disk, storage, history, index)? else {
        return Ok(());
    };
    trace.push(format!("recovered at {}", disk.op_count()));
    let driver_random = StdRng::seed_from_u64(random.random());
    let mut driver = Driver::resume(db, next, clock_of(disk), driver_random)
        .map_err(|error| format!("after recovery: {error}"))?;
    for _ in 0..4 {
        driver
            .turn()
            .map_err(|error| format!("after recovery: {error}"))?;
    }
    driver
        .finish()
        .map_err(|error| format!("after recovery: {error}"))?;
    let found =
        read_live(&driver.db).map_err(|error| format!("after recovery and use: {error}"))?;
    let history = std::mem::take(&mut driver.history);
    trace.append(&mut driver.trace);
    history
        .place(&found, history.states.len() - 1..history.states.len())
        .map_err(|error| format!("after recovery and a commit: {error}"))?;
    drop(driver);
    if depth == 0 {
        return Ok(());
    }
    let seed = random.random();
    let mut images = disk.images(seed);
    let again = random.random_range(start..=images.end());
    images.seek(again);
    let (image, how) = if random.random_range(0..4) == 0 {
        (images.process_crash(), Failure::Process)
    } else {
        let outcomes = outcomes(storage);
        let outcome = outcomes[random.random_range(0..outcomes.len())];
        (images.image(outcome, seed), Failure::Power(outcome))
    };
    let operation = images.operation().map(|operation| operation.to_string());
    let result = check_image(&image, storage, &history, again, depth - 1, random, trace);
    result.map_err(|error| {
        let operation = operation.unwrap_or_default();
        format!("then {how:?} with seed {seed} after operation {operation}: {error}")
    })
}

/// The image at `index` of a run, its seed, and its name.
pub fn image_at(
    run: &Run,
    images: &mut ImageSeries,
    index: u64,
    failure: Failure,
) -> (SimDisk, u64, String) {
    images.seek(index);
    let seed = run.seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let image = match failure {
        Failure::Power(outcome) => images.image(outcome, seed),
        Failure::Process => images.process_crash(),
    };
    let operation = images.operation().map(|operation| operation.to_string());
    let operation = operation.unwrap_or_default();
    let name = format!(
        "seed {}, {failure:?} with seed {seed} after operation {operation}",
        run.seed
    );
    (image, seed, name)
}

/// Checks the image at `index` of a run, with everything needed to name it.
pub fn check_at(
    run: &Run,
    images: &mut ImageSeries,
    index: u64,
    failure: Failure,
    twice: bool,
) -> Result<(), String> {
    let (image, seed, name) = image_at(run, images, index, failure);
    let mut random = StdRng::seed_from_u64(seed);
    guarded(&name, || {
        let twice = u32::from(twice);
        let (storage, history) = (&run.storage, &run.history);
        check_image(
            &image,
            storage,
            history,
            index,
            twice,
            &mut random,
            &run.trace,
        )
    })
}

/// Which failures to try at an index, in turn.
fn failures(storage: &StorageConfig) -> Vec<Failure> {
    let outcomes = outcomes(storage).into_iter().map(Failure::Power);
    outcomes.chain([Failure::Process]).collect()
}

/// A check of the image at an index; the last says whether it is one of four.
type Check<'a> = &'a (dyn Fn(&mut ImageSeries, u64, Failure, bool) -> Result<(), String> + Sync);

/// Checks `count` images of a run.
pub fn check_run(run: &Run, count: u64) -> Result<u64, String> {
    over_images(run, count, &|images, index, failure, fourth| {
        check_at(run, images, index, failure, fourth)
    })
}

/// Checks `count` images of a run, evenly over its journal and over the kinds of failure, on
/// several threads. With more images than operations an index has several.
pub fn over_images(run: &Run, count: u64, check: Check<'_>) -> Result<u64, String> {
    // A database's threads wait for each other most of the time: several keep a core busy.
    const PER_CORE: usize = 4;
    let threads = PER_CORE * std::thread::available_parallelism().map_or(2, usize::from);
    let places = run.disk.images(0).end() + 1;
    let failures = failures(&run.storage);
    let count = count.min(places * failures.len() as u64);
    let next = AtomicU64::new(0);
    let work = || {
        let mut images = run.disk.images(run.seed);
        loop {
            // In rising order on each thread.
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return Ok(());
            }
            let index = at * places / count;
            let failure = failures[at as usize % failures.len()];
            check(&mut images, index, failure, at.is_multiple_of(4)).inspect_err(|_| {
                next.store(count, Ordering::Relaxed);
            })?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().expect("a panic is an error there"));
        results.collect::<Result<Vec<()>, String>>()
    })?;
    Ok(count)
}

/// DUR-1: at every operation, whatever of the unsynced survives.
fn check_crashes(storage: &StorageConfig) {
    let mut total = number("EVENKEEL_CRASH_IMAGES", 400);
    let mut next = seed(20_260_822);
    let mut checked = 0;
    let begun = Instant::now();
    while checked < total {
        let run = run(next, 200 + (next % 300) as usize, storage);
        let run = run.unwrap_or_else(|error| panic!("{error}"));
        // A few of every run's operations: many runs show more than many images of one.
        let mut count = (total - checked).min((total / 2).clamp(200, 2500));
        if takes_all() {
            // Of one run: every operation, with everything that can become of the unsynced.
            (count, total) = (u64::MAX, 0);
        }
        let images = check_run(&run, count).unwrap_or_else(|error| panic!("{error}"));
        checked += images;
        println!(
            "seed {next}: {} operations, {} commits, {images} images; {:.1} images per second",
            run.disk.op_count(),
            run.history.states.len() - 1,
            checked as f64 / begun.elapsed().as_secs_f64()
        );
        next = fresh();
    }
}

#[test]
fn crashes_leave_a_prefix_of_whole_commits_with_all_acknowledged() {
    check_crashes(&protected(TornPageProtection::DoubleWrite));
}

#[test]
fn so_do_crashes_with_page_images_in_the_log() {
    check_crashes(&protected(TornPageProtection::FullPageWrites));
}

#[test]
fn so_do_crashes_of_a_device_with_atomic_pages() {
    check_crashes(&protected(TornPageProtection::Off));
}

/// REC-9: redo makes of every page what the change had made of it.
#[test]
fn redo_repeats_every_change() {
    for protection in [
        TornPageProtection::DoubleWrite,
        TornPageProtection::FullPageWrites,
    ] {
        check_crashes(&StorageConfig {
            wal_consistency_checking: true,
            ..protected(protection)
        });
    }
}
