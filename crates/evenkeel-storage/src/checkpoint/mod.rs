//! Checkpoints: writing out what was dirtied before a target and moving the redo point. The
//! rules are in the README of `recovery`.

mod pace;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::checkpoint::pace::Pace;
use crate::control::{Control, State};
use crate::error::{StorageError, StorageResult};
use crate::ids::Lsn;
use crate::mutant::Mutant;
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

/// Counters since the start (`pg_stat_checkpointer`).
#[derive(Debug, Default)]
pub struct CheckpointStats {
    /// Begun because `checkpoint_timeout` had passed.
    pub timed: AtomicU64,
    /// Begun because of log volume, or on request.
    pub requested: AtomicU64,
    /// Completed.
    pub done: AtomicU64,
    /// Failed.
    pub failed: AtomicU64,
    /// Pages written.
    pub buffers_written: AtomicU64,
    /// Time spent writing pages, in microseconds.
    pub write_micros: AtomicU64,
    /// Time spent syncing files, in microseconds.
    pub sync_micros: AtomicU64,
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
    requests: Mutex<Requests>,
    changed: Condvar,
    stats: CheckpointStats,
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
            requests: Mutex::default(),
            changed: Condvar::new(),
            stats: CheckpointStats::default(),
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

    pub(crate) fn stats(&self) -> &CheckpointStats {
        &self.shared.stats
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
                self.shared.changed.wait(&mut requests);
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

    /// Sleeps while `is_ahead` says so and nobody waits for this checkpoint, or another.
    fn sleep_unless_hurried(&self, number: u64, is_ahead: impl Fn() -> bool) {
        let mut requests = self.requests.lock();
        while !requests.stop && requests.wanted <= number && is_ahead() {
            self.changed
                .wait_for(&mut requests, Duration::from_millis(20));
        }
    }
}

fn run(shared: &Shared, core: &Core) {
    let _who = crate::stats::BackendType::Checkpointer.enter();
    let mut last = Instant::now();
    let mut last_target = core.control.lock().current().redo;
    loop {
        let Some((number, mode)) = next_due(shared, core, last, last_target) else {
            return;
        };
        let result = take(core, mode, shared, number);
        last = Instant::now();
        let mut requests = shared.requests.lock();
        match &result {
            Ok(target) => {
                last_target = *target;
                shared.stats.done.fetch_add(1, Ordering::Relaxed);
                requests.closed |= mode == CheckpointMode::Shutdown;
            }
            Err(error) => {
                shared.stats.failed.fetch_add(1, Ordering::Relaxed);
                tracing::error!("checkpoint failed: {error}");
                requests.closed |= core.poison.is_set();
            }
        }
        requests.served = number;
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

/// Waits until a checkpoint is due; `None` when the thread is to end.
fn next_due(
    shared: &Shared,
    core: &Core,
    last: Instant,
    last_target: Lsn,
) -> Option<(u64, CheckpointMode)> {
    let volume = trigger_volume(core);
    let mut requests = shared.requests.lock();
    loop {
        if requests.stop {
            return None;
        }
        if requests.wanted > requests.served {
            shared.stats.requested.fetch_add(1, Ordering::Relaxed);
            let mode = requests.mode.take().unwrap_or(CheckpointMode::Fast);
            return Some((requests.wanted, mode));
        }
        let written = core.log.insert_lsn().distance_from(last_target);
        if written >= volume {
            shared.stats.requested.fetch_add(1, Ordering::Relaxed);
            return Some((requests.wanted, CheckpointMode::Spread));
        }
        // Old segments take the place of those that the disk has no room for.
        let is_short = core.log.segments().is_exhausted() && last.elapsed() >= RETRY;
        if is_short && written > 64 {
            shared.stats.requested.fetch_add(1, Ordering::Relaxed);
            return Some((requests.wanted, CheckpointMode::Fast));
        }
        // The redo point record itself is not activity.
        if last.elapsed() >= core.config.checkpoint_timeout && written > 64 {
            shared.stats.timed.fetch_add(1, Ordering::Relaxed);
            return Some((requests.wanted, CheckpointMode::Spread));
        }
        shared.changed.wait_for(&mut requests, POLL);
    }
}

/// Log since the last target at which the next checkpoint begins, such that `max_wal_size` is
/// about reached when that one ends.
fn trigger_volume(core: &Core) -> u64 {
    let share = 1.0 + core.config.checkpoint_completion_target;
    (core.config.max_wal_size as f64 / share) as u64
}

/// Takes one checkpoint; returns its target.
fn take(core: &Core, mode: CheckpointMode, shared: &Shared, number: u64) -> StorageResult<Lsn> {
    core.poison.check()?;
    let stats = &shared.stats;
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
            let pace = Pace::new(core, target, trigger_volume(core));
            core.writer.write_dirty_before(target, &mut |done, due| {
                shared.sleep_unless_hurried(number, || pace.is_ahead(core, done, due));
            })?
        }
    };
    let pages = written.written;
    let write_time = begun.elapsed();
    // Before the syncs: what becomes clean later may not be synced (checkpoint rule 3).
    let dirtied = oldest_dirtied(core, shared, target)?;
    core.writer.sync_all()?;
    let sync_time = begun.elapsed().saturating_sub(write_time);
    let dirtied = dirtied.filter(|_| !core.config.has(Mutant::PassPendingPage));
    let candidates = floor.into_iter().chain(dirtied);
    let redo = candidates.fold(target, Lsn::min);
    let distance = move_redo_point(core, mode, redo)?;
    stats.buffers_written.fetch_add(pages, Ordering::Relaxed);
    stats
        .write_micros
        .fetch_add(write_time.as_micros() as u64, Ordering::Relaxed);
    stats
        .sync_micros
        .fetch_add(sync_time.as_micros() as u64, Ordering::Relaxed);
    recycle(core, distance);
    tracing::info!(
        "checkpoint complete: wrote {pages} buffers ({:.1}%); write={:.3} s, sync={:.3} s, \
         total={:.3} s; distance={} kB; lsn={target}, redo lsn={}",
        pages as f64 * 100.0 / core.config.frames() as f64,
        write_time.as_secs_f64(),
        sync_time.as_secs_f64(),
        begun.elapsed().as_secs_f64(),
        distance / 1024,
        core.control.lock().current().redo,
    );
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
/// target or nothing becomes the redo point, they are waited for.
fn oldest_dirtied(core: &Core, shared: &Shared, target: Lsn) -> StorageResult<Option<Lsn>> {
    let begun = Instant::now();
    loop {
        let dirtied = core.pool.min_first_dirtied();
        let is_behind = dirtied.is_some_and(|dirtied| dirtied < target);
        if !(is_behind && core.log.has_images()) || shared.gives_up(begun) {
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

/// Offers segments before the redo point for reuse, keeping about as many ready as the last
/// cycle used.
fn recycle(core: &Core, distance: u64) {
    let size = core.config.wal_segment_size;
    let ahead = (distance + distance / 4).max(core.config.min_wal_size);
    let ahead = ahead.min(core.config.max_wal_size) / size;
    let redo = core.control.lock().current().redo;
    if let Err(error) = core.log.segments().recycle_below(redo, ahead) {
        tracing::warn!("could not recycle log segments: {error}");
    }
}
