//! Operations of the disk that fail: errors reach the caller, nothing panics or hangs, nothing
//! is acknowledged falsely, and after reopening everything acknowledged is there.

use std::sync::Arc;

use evenkeel_engine::EngineError;
use evenkeel_io::{Disk, Fault, FaultKind, OpKind, Outcome, SimDisk, takes_all};
use evenkeel_storage::{StorageConfig, StorageError, TornPageProtection};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::images::{check_image, clock_of};
use crate::model::History;
use crate::schema::{open, protected};
use crate::watch::{fresh, guarded, number, seed};
use crate::workload::Driver;

/// Pages are protected one way or the other; what crashes leave may tear them.
fn storage_of(seed: u64) -> StorageConfig {
    protected(if seed.is_multiple_of(3) {
        TornPageProtection::FullPageWrites
    } else {
        TornPageProtection::DoubleWrite
    })
}

/// Whether a failing disk explains the error.
fn is_explained(error: &EngineError) -> Result<(), String> {
    let explained = match error {
        EngineError::ShuttingDown => true,
        EngineError::Storage(error) => matches!(
            &**error,
            StorageError::DiskFull(_)
                | StorageError::Io(_)
                | StorageError::PageRead { .. }
                | StorageError::Poisoned { .. }
                | StorageError::ShutDown
                | StorageError::NoFreeFrame
        ),
        _ => false,
    };
    if explained {
        Ok(())
    } else {
        Err(format!("a failing disk does not explain {error:?}"))
    }
}

/// Runs the workload until its end or until the instance gives up.
fn run_failing(
    disk: &SimDisk,
    storage: &StorageConfig,
    seed: u64,
    turns: usize,
) -> Result<(History, Vec<String>), String> {
    let db = match open(Arc::new(disk.clone()), storage.clone()) {
        Ok(db) => db,
        Err(error) => return is_explained(&error).map(|()| Default::default()),
    };
    let random = StdRng::seed_from_u64(seed);
    let mut driver = match Driver::create(db, clock_of(disk), random) {
        Ok(driver) => driver,
        Err(error) => return is_explained(&error).map(|()| Default::default()),
    };
    for _ in 0..turns {
        if let Err(error) = driver.turn() {
            is_explained(&error)?;
        }
        if driver.poisoned() {
            break;
        }
    }
    if let Err(error) = driver.finish() {
        is_explained(&error)?;
    }
    if seed.is_multiple_of(2)
        && let Err(error) = driver.db.close()
    {
        is_explained(&error)?;
    }
    let trace = std::mem::take(&mut driver.trace);
    Ok((std::mem::take(&mut driver.history), trace))
}

/// One run with one fault, then reopened after the end of the process, or of power.
fn check_fault(seed: u64, turns: usize, fault: &Fault, ends: &[Ending]) -> Result<bool, String> {
    let disk = SimDisk::new(seed);
    disk.inject(fault.clone());
    let storage = &storage_of(seed);
    let (history, trace) = run_failing(&disk, storage, seed, turns)?;
    let fired = disk.faults_fired() > 0;
    disk.clear_faults();
    let at = disk.op_count();
    for end in ends {
        let image = match end {
            Ending::Closed => disk.clone(),
            Ending::Killed => disk.process_crash(),
            Ending::Power(outcome) => disk.crash_with(*outcome, seed),
        };
        let mut random = StdRng::seed_from_u64(seed);
        check_image(&image, storage, &history, at, 1, &mut random, &trace)
            .map_err(|error| format!("{end:?}: {error}"))?;
    }
    Ok(fired)
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The database was dropped, and is opened again by the same process.
    Closed,
    Killed,
    Power(Outcome),
}

/// The failed operations of the journal, for messages.
const KINDS: [FaultKind; 3] = [FaultKind::Eio, FaultKind::Enospc, FaultKind::Short];
const TURNS: usize = 120;

/// DUR-3: the N-th call fails, whatever it is.
#[test]
fn failing_calls_are_errors_and_lose_nothing() {
    let (seed, calls) = busy_workload(seed(fresh()));
    let all = 3 * calls;
    let wanted = if takes_all() {
        all
    } else {
        number("EVENKEEL_FAULTS", 150).min(all)
    };
    let mut fired = 0;
    for turn in 0..wanted {
        let nth = 1 + (turn as u128 * calls as u128 / wanted as u128) as u64;
        let kind = KINDS[turn as usize % KINDS.len()];
        let fault = Fault::nth(nth, kind);
        let torn = Outcome::ALL[turn as usize % Outcome::ALL.len()];
        // The database itself first: it changes the disk.
        let ends = [Ending::Killed, Ending::Power(torn), Ending::Closed];
        let what = format!("seed {seed}, call {nth} of {calls} fails with {kind:?}");
        let met = guarded(&what, || check_fault(seed, TURNS, &fault, &ends));
        fired += u64::from(met.unwrap_or_else(|error| panic!("{error}")));
    }
    println!("{wanted} runs of about {calls} calls, {fired} met the fault");
    assert!(fired > wanted / 2);
}

/// The first seed from `seed` on whose workload commits something, and how many calls a run of it
/// without faults makes; threads make that vary a little.
fn busy_workload(seed: u64) -> (u64, u64) {
    for seed in (0..20).map(|more| seed.wrapping_add(more)) {
        let disk = SimDisk::new(seed);
        let history = guarded(&format!("seed {seed}, no fault"), || {
            run_failing(&disk, &storage_of(seed), seed, TURNS)
        });
        let (history, _) = history.unwrap_or_else(|error| panic!("{error}"));
        if history.states.len() > 5 {
            return (seed, disk.calls());
        }
    }
    panic!("no workload from seed {seed} on commits anything");
}

/// DUR-3, for disks that go on failing: full ones, and files that can no longer be written or
/// synced.
#[test]
fn a_disk_that_stays_broken_loses_nothing() {
    let seed = seed(fresh());
    let mut random = StdRng::seed_from_u64(seed);
    let broken: [(&[OpKind], &str, FaultKind); 12] = [
        (&[OpKind::Allocate], "base", FaultKind::Enospc),
        (&[OpKind::Allocate], "", FaultKind::Enospc),
        (&[OpKind::Allocate, OpKind::Write], "", FaultKind::Enospc),
        (&[OpKind::Write], "wal", FaultKind::Enospc),
        (&[OpKind::Write], "base", FaultKind::Eio),
        (&[OpKind::Write], "doublewrite", FaultKind::Eio),
        (&[OpKind::SyncData, OpKind::SyncAll], "wal", FaultKind::Eio),
        (&[OpKind::SyncData, OpKind::SyncAll], "base", FaultKind::Eio),
        (
            &[OpKind::SyncData, OpKind::SyncAll],
            "control",
            FaultKind::Eio,
        ),
        (&[OpKind::SyncDir], "", FaultKind::Eio),
        (&[OpKind::Read], "base", FaultKind::Eio),
        (&[OpKind::Open, OpKind::Remove], "base", FaultKind::Eio),
    ];
    let rounds = number("EVENKEEL_FAULTS", 150).div_ceil(50);
    for round in 0..rounds {
        for (at, (ops, path, kind)) in broken.iter().enumerate() {
            let nth = random.random_range(1..60);
            for nth in if takes_all() { 1..60 } else { nth..nth + 1 } {
                let fault = Fault::nth(nth, *kind).path(path).sticky();
                let fault = ops.iter().fold(fault, |fault, op| fault.on(*op));
                let run = seed.wrapping_add(round * 100 + at as u64);
                let what = format!("seed {run}, {fault:?}");
                let torn = Outcome::ALL[at % Outcome::ALL.len()];
                let ends = [Ending::Killed, Ending::Power(torn), Ending::Closed];
                let met = guarded(&what, || check_fault(run, TURNS, &fault, &ends));
                met.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}

/// DUR-3, for the calls of a recovery: it fails or succeeds, and the next one finds everything.
#[test]
fn failing_calls_of_a_recovery_lose_nothing() {
    let seed = seed(fresh());
    let run = crate::images::run(seed | 1, 150, &storage_of(seed))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut random = StdRng::seed_from_u64(seed);
    let mut images = run.disk.images(seed);
    let end = images.end();
    let count = match takes_all() {
        true => end,
        false => number("EVENKEEL_FAULTS", 150) / 3,
    };
    for turn in 0..count {
        images.seek(turn * end / count);
        let index = images.index();
        let outcome = Outcome::ALL[turn as usize % Outcome::ALL.len()];
        let image_seed = random.random();
        let nth = random.random_range(1..120);
        let kind = KINDS[turn as usize / Outcome::ALL.len() % KINDS.len()];
        let what = format!("seed {seed}, {outcome:?} at {index}, then call {nth}: {kind:?}");
        let image = images.image(outcome, image_seed);
        let result = guarded(&what, || {
            image.fail_nth(nth, kind);
            match open(Arc::new(image.clone()), run.storage.clone()) {
                Ok(db) => drop(db),
                Err(error) => is_explained(&error)?,
            }
            image.clear_faults();
            let next = if turn % 2 == 0 {
                image.crash(image_seed)
            } else {
                image.process_crash()
            };
            assert!(next.exists("data".as_ref()).is_ok());
            let (storage, history) = (&run.storage, &run.history);
            check_image(&next, storage, history, index, 0, &mut random, &run.trace)
        });
        result.unwrap_or_else(|error| panic!("{error}"));
    }
}
