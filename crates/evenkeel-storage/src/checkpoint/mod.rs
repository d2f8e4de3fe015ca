//! Checkpoints: writing out what was dirtied before a target and moving the redo point. The
//! rules are in the README of `recovery`.

pub(crate) mod limits;
mod pace;
mod spread;
mod stats;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::checkpoint::spread::{Memory, Spread};
pub use crate::checkpoint::stats::CheckpointStats;
use crate::control::{Control, State};
use crate::error::{StorageError, StorageResult};
use crate::files::SyncPass;
use crate::ids::Lsn;
use crate::mutant::Mutant;
use crate::poison::Poison;
use crate::store::Core;

/// How often the checkpointer looks at the log's volume.
const POLL: Duration = Duration::from_millis(200);
/// How long it waits after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// How long it waits for what keeps the target from becoming the redo point.
const SETTLE: Duration = Duration::from_secs(5);

/// How a checkpoint is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CheckpointMode {
    /// Spread over `checkpoint_completion_target` of the time to the next one.
    Spread,
    /// As fast as the disk can.
    Fast,
    /// The last one: nothing changes pages any more.
    Shutdown,
}

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

#[derive(Default)]
struct Requests {
    /// Number of the last checkpoint asked for, and the most pressing mode of those pending.
    wanted: u64,
    mode: Option<CheckpointMode>,
    /// Number of the last request that was served, and how.
    served: u64,
    result: Option<StorageError>,
    stop: bool,
    /// The last one was taken; nothing is served any more.
    closed: bool,
}

struct Shared {
    poison: Arc<Poison>,
    requests: Mutex<Requests>,
    changed: Condvar,
    stats: Mutex<CheckpointStats>,
}

/// The checkpointer's thread and the door to it.
pub(crate) struct Checkpointer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Checkpointer {
    /// Starts the thread. `soon`: something was recovered, so a first checkpoint is due.
    pub(crate) fn start(core: &Arc<Core>, soon: bool) -> StorageResult<Checkpointer> {
        let shared = Arc::new(Shared {
            poison: Arc::clone(&core.poison),
            requests: Mutex::default(),
            changed: Condvar::new(),
            stats: Mutex::new(CheckpointStats {
                stats_reset: core.disk.now_micros(),
                ..CheckpointStats::default()
            }),
        });
        if soon {
            let mut requests = shared.requests.lock();
            requests.wanted = 1;
            requests.mode = Some(CheckpointMode::Spread);
        }
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
        let redo = core.control.lock().current().redo;
        stats.redo_distance = core.log.insert_lsn().distance_from(redo);
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
                // Whoever would serve it may have panicked.
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

impl Shared {
    /// Whether a wait for what keeps the target from becoming the redo point is to end.
    fn gives_up(&self, begun: Instant) -> bool {
        begun.elapsed() > SETTLE || self.requests.lock().stop
    }

    /// Whether somebody waits for this checkpoint, or another.
    fn is_hurried(&self, number: u64) -> bool {
        let requests = self.requests.lock();
        requests.stop || requests.wanted > number
    }

    /// Sleeps unless [`Shared::is_hurried`].
    fn sleep(&self, number: u64, time: Duration) {
        let mut requests = self.requests.lock();
        if !(requests.stop || requests.wanted > number || time.is_zero()) {
            self.changed.wait_for(&mut requests, time);
        }
    }
}

fn run(shared: &Shared, core: &Core) {
    let _who = crate::stats::BackendType::Checkpointer.enter();
    let _guard = core.poison.guard("checkpointer");
    let mut last = Instant::now();
    let mut last_target = core.control.lock().current().redo;
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
        let volume = memory.limits.volume(core);
        let mut requests = shared.requests.lock();
        if requests.stop {
            return None;
        }
        if requests.wanted > requests.served {
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
            });
        }
        let written = core.log.insert_lsn().distance_from(last_target);
        // Old segments take the place of those that the disk has no room for.
        let is_short = core.log.segments().is_exhausted() && last.elapsed() >= RETRY;
        // The redo point record itself is not activity.
        let timed = last.elapsed() >= core.config.checkpoint_timeout;
        let (mode, cause) = if written >= volume {
            warn_if_frequent(core, last.elapsed());
            (CheckpointMode::Spread, Cause::Volume)
        } else if is_short && written > 64 {
            (CheckpointMode::Fast, Cause::Space)
        } else if timed && written > 64 {
            (CheckpointMode::Spread, Cause::Time)
        } else {
            shared.changed.wait_for(&mut requests, POLL);
            continue;
        };
        match cause {
            Cause::Time => shared.stats.lock().num_timed += 1,
            _ => shared.stats.lock().num_requested += 1,
        }
        return Some(Due {
            number: requests.wanted,
            mode,
            cause,
        });
    }
}

fn warn_if_frequent(core: &Core, since: Duration) {
    if since < core.config.checkpoint_warning {
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
    // When this is back the client has been told of every notified record before the target, so
    // its floor accounts for them (checkpoint rule 2).
    core.log.flush(target)?;
    let floor = client_floor(core, shared, target)?;
    let floor = floor.filter(|_| !core.config.has(Mutant::PassPublisher));
    let floor = floor.into_iter().chain(core.holds.min()).min();
    // What ended a hold by now is in the log, perhaps behind the target; it must be durable
    // before the redo point passes what was held (checkpoint rule 2).
    core.log.flush_all()?;
    let written = match mode {
        CheckpointMode::Shutdown => core.writer.write_everything()?,
        CheckpointMode::Fast => core.writer.write_dirty_before(target, &mut |_, _| {})?,
        CheckpointMode::Spread => {
            let mut pace = Spread::new(core, shared, memory, due.number, target);
            core.writer.write_paced(target, &mut pace)?
        }
    };
    let pages = written.written;
    let write_time = begun.elapsed();
    // Before the syncs: what becomes clean later may not be synced (checkpoint rule 3).
    let dirtied = oldest_dirtied(core, shared, mode, target)?;
    let pass = core.writer.sync_all()?;
    let sync_time = begun.elapsed().saturating_sub(write_time);
    let dirtied = dirtied.filter(|_| !core.config.has(Mutant::PassPendingPage));
    let candidates = floor.into_iter().chain(dirtied);
    let redo = candidates.fold(target, Lsn::min);
    let distance = move_redo_point(core, mode, redo)?;
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

/// The client's floor. Where only the target may become the redo point, and not what lies a
/// little before it, the client is given time to let the floor pass it.
fn client_floor(core: &Core, shared: &Shared, target: Lsn) -> StorageResult<Option<Lsn>> {
    let begun = Instant::now();
    loop {
        let floor = core.client.redo_floor();
        let is_behind = floor.is_some_and(|floor| floor < target);
        if !(is_behind && core.log.has_images()) || shared.gives_up(begun) {
            return Ok(floor);
        }
        core.poison.check()?;
        core.client.raise_redo_floor();
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
    let exact = core.log.has_images() || mode == CheckpointMode::Shutdown;
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

/// Writes the control block with the new redo point; returns how far it moved, in bytes.
fn move_redo_point(core: &Core, mode: CheckpointMode, redo: Lsn) -> StorageResult<u64> {
    let mut control = core.control.lock();
    let old = control.current().clone();
    // Segments before the old one are gone already.
    let redo = core.redo_point_within(redo, old.redo);
    let images = if redo == old.redo {
        old.images
    } else {
        core.log.has_images()
    };
    let incarnation = core.incarnation_at(redo);
    // After the redo point was chosen, so both are at least as new as every record before it.
    let payload = core.client.checkpoint_payload();
    let next = Control {
        redo,
        images,
        incarnation,
        payload,
        state: if mode == CheckpointMode::Shutdown {
            State::Shutdown
        } else {
            State::Running
        },
        durable: core.log.durable_lsn(),
        next_file: core.next_file.load(Ordering::SeqCst),
        redo_speed: core.redo_speed.load(Ordering::Relaxed),
        restore_micros: core.restore_micros,
        wal_buffers: core.wal_buffers_since(incarnation, old.wal_buffers),
        written_at: core.disk.now_micros(),
        ..old
    };
    let distance = redo.distance_from(old.redo);
    control.write(next).inspect_err(|error| {
        core.poison
            .set(format!("writing the control file failed: {error}"));
    })?;
    drop(control);
    if images {
        core.writer.images_cover();
    }
    core.forget_incarnations_before(redo);
    Ok(distance)
}

/// Offers segments before the redo point for reuse, keeping about as many ready as a cycle is
/// expected to use, and says what the checkpoint did.
fn recycle(core: &Core, memory: &mut Memory, report: &Report) {
    let distance = report.distance;
    let size = core.config.wal_segment_size;
    // At once up, slowly down.
    let kept = memory.estimate - memory.estimate / 10 + distance / 10;
    memory.estimate = kept.max(distance);
    let ahead = (memory.estimate + memory.estimate / 4).max(core.config.min_wal_size);
    let segments = core.log.segments();
    let redo = core.control.lock().current().redo;
    let layout = segments.layout();
    let since_redo = layout.segment_of(core.log.insert_lsn()) - layout.segment_of(redo);
    let most = (core.config.max_wal_size / size).saturating_sub(since_redo);
    // With those that are ready in any case nothing has to be made in the coming cycle.
    let ahead = (ahead / size + segments.least_ahead()).min(most);
    let counts = segments.take_counts();
    if let Err(error) = segments.recycle_below(redo, ahead) {
        tracing::warn!("could not recycle log segments: {error}");
    }
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

/// What a checkpoint did.
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
