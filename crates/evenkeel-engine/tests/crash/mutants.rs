//! Deliberate bugs: disks that quietly skip what durability rests on. Each must be caught by
//! the images that the engine on an honest disk passes; the suite is worth what this shows.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_io::{Disk, Fault, FaultKind, File, IoResult, OpKind, SimDisk};
use evenkeel_storage::mutant::Mutant;
use evenkeel_storage::{StorageConfig, TornPageProtection};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::hooked::{Hooked, Hooks, is_in};
use crate::images::{Run, check_run, clock_of, run};
use crate::schema::{open, protected, small};
use crate::watch::{guarded, seed};
use crate::workload::Driver;

/// A write or sync that the faulty disk skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// Nothing: the control.
    None,
    /// Commits are acknowledged before the log is flushed: its syncs come one call too late.
    AcknowledgeBeforeFlush,
    /// Pages are written without the log before them: it is flushed for commits and files only.
    NoFlushBeforePageWrite,
    /// New names are not made durable.
    NoDirectorySync,
    /// The images in the double-write area are not durable before the home writes.
    NoDoubleWriteSync,
    /// The redo point moves on before data files are synced.
    NoDataSync,
    /// The control file is written and not synced.
    NoControlSync,
    /// A sync of a data file that fails is tried again, and what it says in the end is believed.
    TrustThePageCache,
}

struct Buggy {
    bug: Bug,
    /// A synchronous commit is being waited for.
    committing: Arc<AtomicBool>,
    /// The database is there; from here on the bug shows.
    armed: Arc<AtomicBool>,
}

impl Buggy {
    /// Whether a sync is skipped; `late` says that one that was skipped is due.
    fn skips(&self, file: &dyn File, late: &AtomicBool) -> bool {
        if !self.armed.load(Ordering::SeqCst) {
            return false;
        }
        let is_in = |part| is_in(file, part);
        match self.bug {
            Bug::None | Bug::NoDirectorySync | Bug::TrustThePageCache => false,
            Bug::AcknowledgeBeforeFlush => is_in("wal/") && !late.swap(true, Ordering::SeqCst),
            Bug::NoFlushBeforePageWrite => is_in("wal/") && !self.committing.load(Ordering::SeqCst),
            Bug::NoDoubleWriteSync => is_in("doublewrite"),
            Bug::NoDataSync => is_in("base/") || is_in("status/"),
            Bug::NoControlSync => is_in("control"),
        }
    }
}

impl Hooks for Buggy {
    fn before_write(&self, file: &dyn File, late: &AtomicBool) -> IoResult<()> {
        if late.swap(false, Ordering::SeqCst) {
            file.sync_data()?;
        }
        Ok(())
    }

    fn sync_data(&self, file: &dyn File, late: &AtomicBool) -> IoResult<()> {
        if self.skips(file, late) {
            return Ok(());
        }
        // With syncs in parallel the next fault may hit the second attempt.
        let attempts = match self.bug {
            Bug::TrustThePageCache => 10,
            _ => 1,
        };
        let mut synced = file.sync_data();
        for _ in 1..attempts {
            synced = synced.or_else(|_| file.sync_data());
        }
        synced
    }

    fn sync_all(&self, file: &dyn File, late: &AtomicBool) -> IoResult<()> {
        if self.skips(file, late) {
            return Ok(());
        }
        file.sync_all()
    }

    fn sync_dir(&self, disk: &SimDisk, dir: &Path) -> IoResult<()> {
        if self.bug == Bug::NoDirectorySync && self.armed.load(Ordering::SeqCst) {
            return Ok(());
        }
        disk.sync_dir(dir)
    }
}

/// The workload on a disk with the bug. The journal is the honest disk's below.
fn run_with(bug: Bug, seed: u64) -> Result<Run, String> {
    guarded(&format!("seed {seed}, {bug:?}"), || {
        let disk = SimDisk::new(seed);
        let committing = Arc::new(AtomicBool::new(false));
        let armed = Arc::new(AtomicBool::new(false));
        let buggy = Buggy {
            bug,
            committing: Arc::clone(&committing),
            armed: Arc::clone(&armed),
        };
        let db = open(Hooked::new(&disk, buggy), small()).map_err(|error| error.to_string())?;
        let random = StdRng::seed_from_u64(seed);
        let mut driver =
            Driver::create(db, clock_of(&disk), random).map_err(|error| error.to_string())?;
        armed.store(true, Ordering::SeqCst);
        if bug == Bug::TrustThePageCache {
            for nth in (3..100).step_by(5) {
                let fault = Fault::nth(nth, FaultKind::Eio).path("base");
                disk.inject(fault.on(OpKind::SyncData));
            }
        }
        driver.on_commit = Some(Arc::new(move |waiting| {
            committing.store(waiting, Ordering::SeqCst);
        }));
        for _ in 0..300 {
            driver.turn().map_err(|error| error.to_string())?;
        }
        let history = std::mem::take(&mut driver.history);
        let trace = std::mem::take(&mut driver.trace);
        Ok(Run {
            seed,
            disk,
            storage: small(),
            history,
            trace,
        })
    })
}

/// Whether any image shows the bug, with the first that does.
fn caught(bug: Bug) -> Option<String> {
    let first = seed(777);
    (0..8).find_map(|round| {
        let run = run_with(bug, first + round).unwrap_or_else(|error| panic!("{error}"));
        check_run(&run, 500).err()
    })
}

fn assert_caught(bug: Bug) {
    let what = caught(bug);
    assert!(what.is_some(), "{bug:?} was not caught");
    println!("{bug:?}: {}", what.unwrap_or_default());
}

/// The engine with a bug on an honest disk. The database it leaves is recovered without the bug.
fn assert_mutant_caught(mutant: Mutant, protection: TornPageProtection) {
    if !cfg!(debug_assertions) {
        println!("{mutant:?} is not in this build");
        return;
    }
    let first = seed(888);
    let sound = protected(protection);
    let buggy = StorageConfig {
        mutant: Some(mutant),
        ..sound.clone()
    };
    // It takes a crash at the right moment: one round in seven or so has it.
    let caught = (0..60).find_map(|round| {
        // The bug is to show in what a crash leaves, not in the workload.
        let mut run = run(first + round, 300, &buggy)
            .unwrap_or_else(|error| panic!("{mutant:?} ends the workload: {error}"));
        run.storage = sound.clone();
        check_run(&run, 500).err()
    });
    assert!(caught.is_some(), "{mutant:?} was not caught");
    println!("{mutant:?}: {}", caught.unwrap_or_default());
}

#[test]
fn reusing_a_slot_early_is_caught() {
    assert_mutant_caught(Mutant::ReuseSlotEarly, TornPageProtection::DoubleWrite);
}

#[test]
fn a_redo_point_beyond_a_pending_page_is_caught() {
    assert_mutant_caught(Mutant::PassPendingPage, TornPageProtection::DoubleWrite);
}

#[test]
fn a_redo_point_beyond_the_publisher_is_caught() {
    assert_mutant_caught(Mutant::PassPublisher, TornPageProtection::DoubleWrite);
}

#[test]
fn forgotten_creations_of_running_transactions_are_caught() {
    assert_mutant_caught(Mutant::ForgetOpenFiles, TornPageProtection::DoubleWrite);
}

#[test]
fn a_skipped_page_image_is_caught() {
    assert_mutant_caught(Mutant::SkipImage, TornPageProtection::FullPageWrites);
}

#[test]
fn a_skipped_image_of_hints_is_caught() {
    assert_mutant_caught(Mutant::SkipHintImage, TornPageProtection::FullPageWrites);
}

#[test]
fn a_skipped_image_of_a_status_page_is_caught() {
    assert_mutant_caught(Mutant::SkipLateImage, TornPageProtection::FullPageWrites);
}

#[test]
fn a_redo_point_that_nobody_announced_is_caught() {
    assert_mutant_caught(Mutant::AnyRedoPoint, TornPageProtection::FullPageWrites);
}

#[test]
fn trusting_the_page_cache_after_a_failed_sync_is_caught() {
    assert_caught(Bug::TrustThePageCache);
}

#[test]
fn the_honest_disk_passes_where_mutants_do_not() {
    let run = run_with(Bug::None, seed(777)).unwrap_or_else(|error| panic!("{error}"));
    check_run(&run, 300).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn acknowledging_before_the_flush_is_caught() {
    assert_caught(Bug::AcknowledgeBeforeFlush);
}

#[test]
fn writing_pages_before_their_log_is_caught() {
    assert_caught(Bug::NoFlushBeforePageWrite);
}

#[test]
fn a_missing_directory_sync_is_caught() {
    assert_caught(Bug::NoDirectorySync);
}

#[test]
fn a_missing_sync_of_the_double_write_area_is_caught() {
    assert_caught(Bug::NoDoubleWriteSync);
}

#[test]
fn a_missing_sync_of_data_files_is_caught() {
    assert_caught(Bug::NoDataSync);
}

#[test]
fn a_missing_sync_of_the_control_file_is_caught() {
    assert_caught(Bug::NoControlSync);
}
