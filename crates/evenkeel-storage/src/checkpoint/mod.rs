//! Checkpoints: writing out what was dirtied before a target and moving the redo point. The
//! rules are in the README of `recovery`.

mod homes;
pub(crate) mod limits;
mod pace;
mod requests;
mod spread;
mod stats;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

pub use crate::checkpoint::requests::CheckpointMode;
use crate::checkpoint::requests::Shared;
use crate::checkpoint::spread::{Memory, OWN_LOG, Spread};
pub use crate::checkpoint::stats::CheckpointStats;
use crate::control::{Control, State};
use crate::core::Core;
use crate::error::{StorageError, StorageResult};
use crate::files::{ManifestPosition, SyncPass};
use crate::ids::Lsn;
use crate::invariant;
use crate::mutant::Mutant;
use crate::poison::Poison;
use crate::writeout::WriteOutStats;

/// How often the checkpointer looks at the log's volume.
const POLL: Duration = Duration::from_millis(200);
/// Log that a checkpoint writes for each file whose creating transaction is running.
const OPEN_FILE_LOG: u64 = 64;
/// How often a checkpoint makes the progress of redo durable, or every `checkpoint_timeout`.
const REDO_CYCLE: Duration = Duration::from_secs(5);
/// How long the checkpointer waits after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// Why a checkpoint begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    Time,
    Volume,
    Space,
    Request,
    Recovery,
    Shutdown,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Time => "time",
            Cause::Volume => "wal",
            Cause::Space => "no space for wal",
            Cause::Request => "fast force wait",
            Cause::Recovery => "end-of-recovery",
            Cause::Shutdown => "shutdown fast",
        })
    }
}

/// The checkpointer's thread and the door to it.
pub(crate) struct Checkpointer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Checkpointer {
    /// Starts the thread.
    pub(crate) fn start(core: &Arc<Core>) -> StorageResult<Checkpointer> {
        let shared = Arc::new(Shared {
            poison: Arc::clone(&core.poison),
            requests: Mutex::default(),
            changed: Condvar::new(),
            stats: Mutex::new(CheckpointStats {
                stats_reset: core.disk.now_micros(),
                ..CheckpointStats::default()
            }),
        });
        let (worker, core) = (Arc::clone(&shared), Arc::clone(core));
        let thread = std::thread::Builder::new()
            .name("checkpointer".into())
            .spawn(move || run(&worker, &core))
            .map_err(|error| StorageError::Config(format!("cannot start a thread: {error}")))?;
        Ok(Checkpointer {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The counters, with what other parts know.
    pub(crate) fn stats(&self, core: &Core) -> CheckpointStats {
        let mut stats = *self.shared.stats.lock();
        stats.take_over(&core.pool.files().sync_table().stats());
        let redo = core.control.redo();
        stats.redo_distance = core.log.log_since(redo);
        stats.redo_speed = limits::redo_speed(core);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        stats.flush_time = micros(core.log.latency().quiet());
        stats.flush_time_busy = micros(core.log.latency().busy());
        (stats.session_delays, stats.session_delay_time) = core.log.backpressure().delays();
        stats.area_full = core.writer.stats().area_full;
        stats
    }

    /// Begins counting anew.
    pub(crate) fn reset_stats(&self, core: &Core) {
        core.pool.files().sync_table().reset_stats();
        *self.shared.stats.lock() = CheckpointStats {
            stats_reset: core.disk.now_micros(),
            ..CheckpointStats::default()
        };
    }

    /// Asks for a checkpoint that begins after this call, and waits for it.
    pub(crate) fn request(&self, mode: CheckpointMode) -> StorageResult<()> {
        let mut requests = self.shared.requests.lock();
        if requests.closed || requests.stop {
            return Err(StorageError::ShutDown);
        }
        requests.wanted += 1;
        requests.mode = requests.mode.max(Some(mode));
        let mine = requests.wanted;
        self.shared.changed.notify_all();
        evenkeel_io::blocking(|| {
            while requests.served < mine {
                if requests.stop || requests.closed {
                    return Err(StorageError::ShutDown);
                }
                // The checkpointer may have panicked before it served the request.
                self.shared.poison.check()?;
                self.shared.changed.wait_for(&mut requests, POLL);
            }
            requests.result.clone().map_or(Ok(()), Err)
        })
    }

    pub(crate) fn stop(&self) {
        self.shared.requests.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // A panic there has been reported; without it the next start recovers.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, core: &Core) {
    let _who = crate::stats::BackendType::Checkpointer.enter();
    let _guard = core.poison.guard("checkpointer");
    let mut last = Instant::now();
    let mut last_target = core.control.redo();
    let mut memory = Memory::new();
    loop {
        let Some(due) = next_due(shared, core, &mut memory, last, last_target) else {
            return;
        };
        // From beginning to beginning: the next one does not come later because this is spread.
        last = Instant::now();
        let result = take(core, &due, shared, &mut memory);
        let mut requests = shared.requests.lock();
        match &result {
            Ok(target) => {
                last_target = *target;
                shared.stats.lock().num_done += 1;
                requests.closed |= due.mode == CheckpointMode::Shutdown;
            }
            Err(error) => {
                shared.stats.lock().num_failed += 1;
                tracing::error!("checkpoint failed: {error}");
                requests.closed |= core.poison.is_set();
            }
        }
        requests.served = due.number;
        let failed = result.is_err();
        requests.result = result.err();
        shared.changed.notify_all();
        if requests.closed {
            return;
        }
        if failed && requests.wanted == requests.served && !requests.stop {
            shared.changed.wait_for(&mut requests, RETRY);
        }
    }
}

/// A checkpoint that is to be taken.
struct Due {
    /// Number of the last request that it serves.
    number: u64,
    mode: CheckpointMode,
    cause: Cause,
    /// Not spread over time, since it makes redo's work durable: otherwise a crash has all of that
    /// done once more. Commits that suffer slow it down all the same.
    at_once: bool,
}

/// Waits until a checkpoint is due; `None` when the thread is to end.
fn next_due(
    shared: &Shared,
    core: &Core,
    memory: &mut Memory,
    last: Instant,
    last_target: Lsn,
) -> Option<Due> {
    loop {
        memory.brake(core, None);
        memory.homes.tell(core);
        let volume = memory.limits.volume(core);
        let mut requests = shared.requests.lock();
        if requests.stop {
            return None;
        }
        if requests.wanted > requests.served {
            // It does what the one after redo would.
            core.recovered.store(false, Ordering::Release);
            shared.stats.lock().num_requested += 1;
            let mode = requests.mode.take().unwrap_or(CheckpointMode::Fast);
            let cause = match mode {
                CheckpointMode::Spread => Cause::Recovery,
                CheckpointMode::Fast => Cause::Request,
                CheckpointMode::Shutdown => Cause::Shutdown,
            };
            let number = requests.wanted;
            return Some(Due {
                number,
                mode,
                cause,
                at_once: core.pool.owed().least().is_some(),
            });
        }
        if core.recovered.swap(false, Ordering::AcqRel) {
            shared.stats.lock().num_requested += 1;
            return Some(Due {
                number: requests.wanted,
                mode: CheckpointMode::Spread,
                cause: Cause::Recovery,
                at_once: true,
            });
        }
        let number = requests.wanted;
        match due_unasked(core, memory, (last, last_target), volume) {
            Some((mode, cause)) => {
                match cause {
                    Cause::Time => shared.stats.lock().num_timed += 1,
                    _ => shared.stats.lock().num_requested += 1,
                }
                let owed = core.pool.owed().least();
                memory.owed = owed.unwrap_or(memory.owed);
                return Some(Due {
                    number,
                    mode,
                    cause,
                    at_once: owed.is_some(),
                });
            }
            None => {
                shared.changed.wait_for(&mut requests, POLL);
            }
        }
    }
}

/// The checkpoint that is due although nobody asks for one. The last one began at `last`.
fn due_unasked(
    core: &Core,
    memory: &Memory,
    (last, last_target): (Instant, Lsn),
    volume: u64,
) -> Option<(CheckpointMode, Cause)> {
    let written = core.log.log_since(last_target);
    // Old segments take the place of those that the disk has no room for.
    let is_short = core.log.segments().is_exhausted() && last.elapsed() >= RETRY;
    // Log that the last checkpoint itself wrote is not activity.
    let is_active = written > memory.own_log;
    let timed = last.elapsed() >= core.tuning().checkpoint_timeout;
    // Redo writes no log, but its work is to be kept.
    let redo_moves = || {
        let owed = core.pool.owed().least();
        owed.is_some_and(|owed| owed > memory.owed)
            && last.elapsed() >= REDO_CYCLE.min(core.tuning().checkpoint_timeout)
    };
    if written >= volume {
        warn_if_frequent(core, last.elapsed());
        Some((CheckpointMode::Spread, Cause::Volume))
    } else if is_short && is_active {
        Some((CheckpointMode::Fast, Cause::Space))
    } else if timed && is_active {
        Some((CheckpointMode::Spread, Cause::Time))
    } else {
        redo_moves().then_some((CheckpointMode::Spread, Cause::Recovery))
    }
}

fn warn_if_frequent(core: &Core, since: Duration) {
    if since < core.tuning().checkpoint_warning {
        let apart = since.as_secs_f64();
        tracing::warn!(
            "checkpoints are occurring too frequently ({apart:.0} s apart); consider raising \
             max_wal_size (or max_recovery_time, if that is nearer)"
        );
    }
}

/// Takes one checkpoint; returns its target.
fn take(core: &Core, due: &Due, shared: &Shared, memory: &mut Memory) -> StorageResult<Lsn> {
    core.poison.check()?;
    let mode = due.mode;
    tracing::info!("checkpoint starting: {}", due.cause);
    let begun = Instant::now();
    if core.log.has_images() && mode == CheckpointMode::Shutdown {
        // Now, while hints have their images before the target: nothing is to follow that.
        core.writer.write_everything()?;
    }
    let target = core.announce_redo_point();
    // When this is back the manager has been told of every notified record before the target, so
    // its floor accounts for them (CKPT-2).
    core.log.flush(target)?;
    let floor = client_floor(core, shared, target)?;
    let floor = floor.filter(|_| !core.config.has(Mutant::PassPublisher));
    // The end of a transaction that has not begun to end lies behind the target, like this record
    // of what it has created (CKPT-6).
    let open = core.holds.open_creations();
    let recorded = match core.config.has(Mutant::ForgetOpenFiles) {
        true => Some(target),
        false => core.record_open_files(&open),
    };
    let state_log = core.log_state(&open);
    let floor = floor.into_iter().chain(core.holds.min(&open)).min();
    // A record that has ended a hold by now may lie behind the target; it must be durable before
    // the redo point passes the position that was held (CKPT-2).
    core.log.flush_all()?;
    let written = write(core, due, shared, memory, target)?;
    let pages = written.written;
    let write_time = begun.elapsed();
    // Before the frames: a page becomes dirty before it is no longer owed anything (REC-14).
    let owed = core.pool.owed().least();
    // Before the syncs: what becomes clean later may not be synced (CKPT-3).
    let dirtied = oldest_dirtied(core, shared, mode, target)?;
    let home = core.writer.pages_written();
    let (pass, manifest) = sync(core)?;
    let sync_time = begun.elapsed().saturating_sub(write_time);
    let dirtied = dirtied.filter(|_| !core.config.has(Mutant::PassPendingPage));
    let owed = owed.filter(|_| !core.config.has(Mutant::PassOwedPage));
    let candidates = floor.into_iter().chain(dirtied).chain(owed);
    let redo = candidates.fold(target, Lsn::min);
    let distance = move_redo_point(core, mode, redo, manifest)?;
    memory.homes.told(home);
    if let Some(lsn) = recorded {
        core.holds.raise(&open, lsn);
    }
    memory.own_log = OWN_LOG + state_log + open.files().len() as u64 * OPEN_FILE_LOG;
    memory.sync = sync_time.as_secs_f64();
    let report = Report {
        pages,
        status_pages: written.status_pages,
        home_writes: written.home_writes,
        fillers: written.fillers,
        write_time,
        sync_time,
        total: begun.elapsed(),
        pass,
        distance,
        target,
    };
    report.count(&mut shared.stats.lock());
    recycle(core, memory, &report);
    Ok(target)
}

/// Writes the pages that were first dirtied before `target`.
fn write(
    core: &Core,
    due: &Due,
    shared: &Shared,
    memory: &mut Memory,
    target: Lsn,
) -> StorageResult<WriteOutStats> {
    match due.mode {
        CheckpointMode::Shutdown => core.writer.write_everything(),
        CheckpointMode::Fast => core.writer.write_dirty_before(target, &mut |_, _| {}),
        CheckpointMode::Spread => {
            let mut pace = Spread::new(core, shared, memory, due.number, target);
            if due.at_once {
                pace.at_once();
            }
            core.writer.write_paced(target, &mut pace)
        }
    }
}

/// Makes durable what has been written, and the manifest of it, which names nothing that these
/// syncs do not cover (FILE-13).
fn sync(core: &Core) -> StorageResult<(SyncPass, ManifestPosition)> {
    let files = core.pool.files();
    let (manifest, table) = (files.manifest(), files.sync_table());
    let position = manifest.write(table, &core.dir)?;
    let pass = core.writer.sync_all()?;
    if core.config.fsync {
        manifest.sync(table, &core.dir)?;
    }
    Ok((pass, position))
}

/// The manager's floor. Where only the target may become the redo point, and not what lies a
/// little before it, the manager is given time to let the floor pass it.
fn client_floor(core: &Core, shared: &Shared, target: Lsn) -> StorageResult<Option<Lsn>> {
    let begun = Instant::now();
    loop {
        let floor = core.manager.redo_floor();
        let is_behind = floor.is_some_and(|floor| floor < target);
        if !(is_behind && core.log.has_images()) || shared.gives_up(begun) {
            return Ok(floor);
        }
        core.poison.check()?;
        core.manager.raise_redo_floor();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The least first-dirtied LSN. A page may have been marked dirty by a position before the
/// target after the write-out had looked, or the cleaner may have one on its way home; where the
/// target or nothing becomes the redo point, and at the end, which is to leave nothing to redo,
/// they are waited for.
fn oldest_dirtied(
    core: &Core,
    shared: &Shared,
    mode: CheckpointMode,
    target: Lsn,
) -> StorageResult<Option<Lsn>> {
    let begun = Instant::now();
    // Redo makes pages dirty by changes before the target; the redo point waits for them anyway.
    let is_redoing = core.pool.owed().least().is_some();
    let exact = core.log.has_images() && !is_redoing || mode == CheckpointMode::Shutdown;
    loop {
        let dirtied = core.pool.min_first_dirtied();
        let is_behind = dirtied.is_some_and(|dirtied| dirtied < target);
        if !(is_behind && exact) || shared.gives_up(begun) {
            return Ok(dirtied);
        }
        core.writer.write_dirty_before(target, &mut |_, _| {})?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Writes the control block with the new redo point, after the side files that it makes outdated
/// are gone (QRT-4); returns how far it moved, in bytes.
fn move_redo_point(
    core: &Core,
    mode: CheckpointMode,
    redo: Lsn,
    manifest: ManifestPosition,
) -> StorageResult<u64> {
    let mut control = core.control.lock();
    let old = control.current().clone();
    // Segments before the old one are gone already.
    let limit = redo;
    let redo = core.redo_point_within(limit, old.redo);
    let durable = core.log.durable_lsn();
    check_redo_point(&core.poison, redo, (old.redo, limit, durable))?;
    core.quarantine.settle(redo)?;
    let images = if redo == old.redo {
        old.images
    } else {
        core.log.has_images()
    };
    let incarnation = core.control.incarnation_at(redo);
    // After the redo point was chosen, so both are at least as new as every record before it.
    let payload = core.manager.checkpoint_payload();
    let next = Control {
        redo,
        images,
        incarnation,
        payload,
        // With changes that redo could not make the next start goes on.
        state: if mode == CheckpointMode::Shutdown && core.pool.owed().get().is_none() {
            State::Shutdown
        } else {
            State::Running
        },
        durable,
        next_file: core.control.next_file(),
        manifest,
        redo_speed: core.control.redo_speed(),
        restore_micros: core.control.restore_micros(),
        written_at: core.disk.now_micros(),
        ..old
    };
    let distance = core.log.gaps().log_between(old.redo, redo);
    control.write(next).inspect_err(|error| {
        core.poison
            .set(format!("writing the control file failed: {error}"));
    })?;
    drop(control);
    if images {
        core.writer.images_cover()?;
    }
    core.control.forget_incarnations_before(redo);
    Ok(distance)
}

/// Checks a redo point before anything is given up for it: it moves forward from `old`, and then
/// neither beyond `limit`, which all that needs the log has agreed to, nor to where the log is not
/// durable (CKPT-7).
fn check_redo_point(
    poison: &Poison,
    redo: Lsn,
    (old, limit, durable): (Lsn, Lsn, Lsn),
) -> StorageResult<()> {
    invariant!(
        poison,
        redo >= old,
        "the redo point would move back from {old} to {redo}"
    );
    invariant!(
        poison,
        redo == old || redo <= limit,
        "the redo point would pass {limit}, from where the log is needed, to {redo}"
    );
    invariant!(
        poison,
        redo == old || redo < durable,
        "the redo point would be {redo}, and the log is durable to {durable}"
    );
    Ok(())
}

/// Offers segments before the redo point for reuse, keeping about as many ready as a cycle is
/// expected to use, and says what the checkpoint did.
fn recycle(core: &Core, memory: &mut Memory, report: &Report) {
    let distance = report.distance;
    let size = core.config.wal_segment_size;
    // At once up, slowly down.
    let kept = memory.estimate - memory.estimate / 10 + distance / 10;
    memory.estimate = kept.max(distance);
    let ahead = (memory.estimate + memory.estimate / 4).max(core.tuning().min_wal_size);
    let segments = core.log.segments();
    let redo = core.control.redo();
    let layout = segments.layout();
    let since_redo = core.log.log_since(layout.start_of(layout.segment_of(redo))) / size;
    let most = (core.tuning().max_wal_size / size).saturating_sub(since_redo);
    // With those that are ready in any case nothing has to be made in the coming cycle.
    let ahead = (ahead / size + segments.least_ahead()).min(most);
    let counts = segments.take_counts();
    if let Err(error) = segments.recycle_below(redo, ahead) {
        tracing::warn!("could not recycle log segments: {error}");
    }
    core.reserve.take_if_plenty();
    let frames = core.config.frames() as f64;
    tracing::info!(
        "checkpoint complete: wrote {} buffers ({:.1}%), wrote {} SLRU buffers; {} WAL file(s) \
         added, {} removed, {} recycled; write={:.3} s, sync={:.3} s, total={:.3} s; sync \
         files={}, longest={:.3} s, average={:.3} s; distance={} kB, estimate={} kB; lsn={}, \
         redo lsn={redo}",
        report.pages,
        report.pages as f64 * 100.0 / frames,
        report.status_pages,
        counts.added,
        counts.removed,
        counts.recycled,
        report.write_time.as_secs_f64(),
        report.sync_time.as_secs_f64(),
        report.total.as_secs_f64(),
        report.pass.files,
        report.pass.longest.as_secs_f64(),
        report.pass.average().as_secs_f64(),
        distance / 1024,
        memory.estimate / 1024,
        report.target,
    );
}

/// Counts and times of one checkpoint.
struct Report {
    pages: u64,
    status_pages: u64,
    home_writes: u64,
    fillers: u64,
    write_time: Duration,
    sync_time: Duration,
    total: Duration,
    pass: SyncPass,
    distance: u64,
    target: Lsn,
}

impl Report {
    fn count(&self, stats: &mut CheckpointStats) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        stats.buffers_written += self.pages;
        stats.slru_written += self.status_pages;
        stats.home_writes += self.home_writes;
        stats.gap_pages += self.fillers;
        stats.files_synced += self.pass.files;
        stats.write_time += micros(self.write_time);
        stats.sync_time += micros(self.sync_time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redo_point_lies_between_the_old_one_and_all_that_needs_the_log() {
        let check = |redo: u64, old: u64, limit: u64, durable: u64| {
            let poison = Poison::new();
            let result = check_redo_point(&poison, Lsn(redo), (Lsn(old), Lsn(limit), Lsn(durable)));
            assert_eq!(result.is_err(), poison.is_set());
            result.is_ok()
        };
        assert!(check(80, 40, 80, 88) && check(72, 40, 80, 88));
        // A position that needs the log may lie before the old redo point: nothing moves then.
        assert!(check(40, 40, 24, 40));
        assert!(!check(32, 40, 80, 88), "back");
        assert!(!check(80, 40, 72, 88), "beyond what is needed");
        assert!(!check(80, 40, 80, 80), "beyond what is durable");
    }
}
