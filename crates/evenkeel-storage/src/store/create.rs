//! Creating and opening a database.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use evenkeel_io::{Disk, IoErrorKind, IoObserver, LockGuard, MeteredDisk};
use parking_lot::Mutex;

use crate::buffer::{BufferPool, ReadAheadOptions};
use crate::checkpoint::Checkpointer;
use crate::checkpoint::limits;
use crate::config::{StorageConfig, TornPageProtection};
use crate::control::{CONTROL_FILE, CREATING_FILE, Control, ControlFile, State, not_a_database};
use crate::error::{StorageError, StorageResult};
use crate::files::{DataAccess, FileSpace, SEGMENT_BLOCKS, SyncTable};
use crate::ids::Lsn;
use crate::poison::Poison;
use crate::recovery::{self, LogScan, RecoveryStats};
use crate::stats::{BackendType, IoStats, Watchdog};
use crate::store::{Core, FIRST_FREE_FILE, Holds, LOCK_FILE, StorageClient, Store};
use crate::wal::{Log, LogStart, SegmentLayout};

use crate::writeout::{LogFlush, Writer, WriterOptions};

const WAL_DIR: &str = "wal";
const FIRST_TIMELINE: u32 = 1;

/// What a directory holds.
enum Found {
    Database,
    /// Nothing that matters, or a database whose creation did not get to its end.
    Nothing,
}

/// Looks at the directory without changing anything.
fn examine(disk: &dyn Disk, dir: &Path) -> StorageResult<Found> {
    if !disk.exists(dir)? {
        return Ok(Found::Nothing);
    }
    let names = disk.list(dir)?;
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has(CONTROL_FILE) {
        ControlFile::read(disk, dir)?;
        return Ok(Found::Database);
    }
    let harmless = |name: &String| {
        name.starts_with('.') || [LOCK_FILE, "evenkeel.conf", "lost+found"].contains(&name.as_str())
    };
    if has(CREATING_FILE) || names.iter().all(harmless) {
        return Ok(Found::Nothing);
    }
    Err(not_a_database(
        dir,
        "it is not empty and has no control file",
    ))
}

fn lock(disk: &dyn Disk, dir: &Path) -> StorageResult<Box<dyn LockGuard>> {
    let path = dir.join(LOCK_FILE);
    let guard = disk.lock(&path).map_err(|error| match error.kind() {
        IoErrorKind::Locked => StorageError::Locked { path },
        _ => error.into(),
    })?;
    let file = guard.file();
    file.set_len(0)?;
    file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)?;
    Ok(guard)
}

/// Creates an empty database. It exists only when the control file gets its name, at the end.
fn create(disk: &dyn Disk, dir: &Path, config: &StorageConfig) -> StorageResult<()> {
    let start = Lsn(config.wal_segment_size);
    let control = Control {
        system_id: disk.random_u64(),
        generation: 0,
        state: State::Running,
        timeline: FIRST_TIMELINE,
        segment_size: config.wal_segment_size,
        redo: start,
        images: config.torn_page_protection == TornPageProtection::FullPageWrites,
        incarnation: disk.random_u64(),
        durable: start,
        next_file: FIRST_FREE_FILE,
        written_at: disk.now_micros(),
        redo_speed: 0,
        restore_micros: 0,
        wal_buffers: config.wal_buffers,
        payload: Vec::new(),
    };
    ControlFile::create(disk, dir, control, config.fsync)?;
    if config.fsync {
        disk.sync_dir(dir)?;
    }
    let wal = dir.join(WAL_DIR);
    disk.create_dir_all(&wal)?;
    // Left by a creation that did not get to its end.
    for name in disk.list(&wal)? {
        disk.remove(&wal.join(name))?;
    }
    if config.fsync {
        disk.sync_dir(dir)?;
    }
    ControlFile::publish(disk, dir, config.fsync)
}

/// Makes the data directory and its missing ancestors, and their directory entries durable:
/// nothing inside outlives a lost entry above it.
fn make_durable_dir(disk: &dyn Disk, dir: &Path, fsync: bool) -> StorageResult<()> {
    let mut missing = Vec::new();
    for path in dir.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        if disk.exists(path)? {
            break;
        }
        missing.push(path);
    }
    if missing.is_empty() && !disk.exists(&dir.join(CONTROL_FILE))? {
        // It may have been made by a creation that did not get to syncing its entry.
        missing.push(dir);
    }
    disk.create_dir_all(dir)?;
    for path in missing.into_iter().filter(|_| fsync) {
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => disk.sync_dir(parent)?,
            _ => disk.sync_dir(Path::new("."))?,
        }
    }
    Ok(())
}

pub(super) fn open(
    disk: Arc<dyn Disk>,
    dir: &Path,
    mut config: StorageConfig,
    client: Arc<dyn StorageClient>,
) -> StorageResult<Arc<Store>> {
    config.validate()?;
    let _who = BackendType::Startup.enter();
    let io = IoStats::new(config.io_slow_threshold);
    let disk: Arc<dyn Disk> = MeteredDisk::new(disk, Arc::clone(&io) as Arc<dyn IoObserver>);
    examine(disk.as_ref(), dir)?;
    make_durable_dir(disk.as_ref(), dir, config.fsync)?;
    let lock = lock(disk.as_ref(), dir)?;
    // Again, now that nobody else can change it.
    if matches!(examine(disk.as_ref(), dir)?, Found::Nothing) {
        create(disk.as_ref(), dir, &config)?;
    }
    let control = ControlFile::open(disk.as_ref(), dir, config.fsync)?;
    let found = control.current().clone();
    config.wal_segment_size = found.segment_size;
    config.validate()?;
    let layout = SegmentLayout {
        dir: dir.join(WAL_DIR),
        size: found.segment_size,
        timeline: found.timeline,
    };
    let begun = Instant::now();
    let scan = recovery::scan(&disk, &layout, &found)?;
    let mut plan = plan(disk.as_ref(), &layout, &config, &found, scan)?;
    plan.choose_access(disk.as_ref(), dir, &mut config)?;
    let stats = RecoveryStats {
        redo_start: plan.scan.redo,
        redo_end: plan.scan.end,
        scan_time: begun.elapsed(),
        clean: found.state == State::Shutdown,
        ..RecoveryStats::default()
    };
    client
        .restore_payload(&found.payload)
        .map_err(|error| StorageError::Config(format!("control payload: {error}")))?;
    let core = build((disk, io), dir, config, client, control, &layout, &plan)?;
    match finish(&core, &layout, &plan, stats) {
        Ok((checkpointer, recovery)) => {
            let store = Arc::new(Store {
                core,
                checkpointer,
                recovery,
                _lock: lock,
            });
            if plan.gave_up {
                // The log has a gap now: the redo point must be behind it before anything else.
                store.checkpoint(crate::store::CheckpointMode::Fast)?;
            }
            Ok(store)
        }
        Err(error) => {
            // Before the lock is given back.
            core.stop();
            Err(error)
        }
    }
}

/// Where the log goes on, and what the first pass found.
struct Plan {
    scan: LogScan,
    start: LogStart,
    /// The damaged rest of the log is being given up.
    gave_up: bool,
    access: DataAccess,
}

impl Plan {
    /// Says how data files are opened. A device that writes pages atomically needs no other
    /// protection against torn pages.
    fn choose_access(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        config: &mut StorageConfig,
    ) -> StorageResult<()> {
        if !config.io_direct_data {
            return Ok(());
        }
        self.access = DataAccess::Direct;
        if config.torn_page_protection != TornPageProtection::Off
            && DataAccess::is_atomic(disk, dir)?
        {
            tracing::info!("the device writes pages atomically: torn_page_protection is not used");
            self.access = DataAccess::Atomic;
            config.torn_page_protection = TornPageProtection::Off;
            self.start.images_from = Lsn::ZERO;
        }
        Ok(())
    }
}

fn plan(
    disk: &dyn Disk,
    layout: &SegmentLayout,
    config: &StorageConfig,
    found: &Control,
    mut scan: LogScan,
) -> StorageResult<Plan> {
    let incarnation = disk.random_u64();
    let mut start = LogStart {
        proven: scan.proven,
        end: scan.end,
        previous: Some(scan.last_incarnation()),
        incarnation,
        images_from: Lsn::ZERO,
    };
    if found.images && config.torn_page_protection == TornPageProtection::FullPageWrites {
        start.images_from = found.redo;
    }
    let Some(damage) = scan.damage.take() else {
        return Ok(Plan {
            scan,
            start,
            gave_up: false,
            access: DataAccess::Buffered,
        });
    };
    if !config.ignore_log_damage {
        return Err(damage);
    }
    tracing::warn!("{damage}; opening all the same, since ignore_log_damage is set");
    // Behind everything that was ever written, so that no page seems to come from the future.
    let last = layout.list(disk)?.last().copied().unwrap_or_default();
    let beyond = layout.start_of(last.max(layout.segment_of(scan.end)) + 1);
    start.end = beyond;
    start.proven = beyond;
    start.previous = None;
    // Images may be among what is given up.
    start.images_from = Lsn::ZERO;
    Ok(Plan {
        scan,
        start,
        gave_up: true,
        access: DataAccess::Buffered,
    })
}

/// Brings up what redo needs. Threads run from here on.
fn build(
    (disk, io): (Arc<dyn Disk>, Arc<IoStats>),
    dir: &Path,
    config: StorageConfig,
    client: Arc<dyn StorageClient>,
    control: ControlFile,
    layout: &SegmentLayout,
    plan: &Plan,
) -> StorageResult<Arc<Core>> {
    let poison = Poison::new();
    let sync = SyncTable::new(Arc::clone(&disk), config.fsync, Arc::clone(&poison));
    let space = FileSpace::open(Arc::clone(&disk), dir, plan.access, SEGMENT_BLOCKS, sync)?;
    let last = control.current();
    if last.state == State::Shutdown {
        space.expect_lengths(dir, last.generation)?;
    }
    let ahead = ReadAheadOptions {
        depth: config.effective_io_concurrency,
        combine: config.combined_pages(),
    };
    let pool = BufferPool::new(
        config.frames(),
        space,
        Arc::clone(&poison),
        Arc::clone(&io),
        ahead,
    )?;
    let log = Log::open(&disk, layout, &config, &plan.start, &poison)?;
    let flush = Arc::clone(&log) as Arc<dyn LogFlush>;
    // Restores torn pages before anything reads a page.
    let images_cover = !plan.start.images_from.is_zero();
    let options = WriterOptions::from_config(&config, dir, images_cover);
    let writer = Writer::start(Arc::clone(&pool), flush, &options).inspect_err(|_| {
        let _ = log.stop();
    })?;
    let mut incarnations = plan.scan.incarnations.clone();
    incarnations.push((log.insert_lsn(), plan.start.incarnation));
    let redo_speed = control.current().redo_speed;
    let restored = writer.restored();
    let restore_micros = match restored.checked {
        0 => control.current().restore_micros,
        _ => u64::try_from(restored.took.as_micros()).unwrap_or(u64::MAX),
    };
    Ok(Arc::new(Core {
        disk,
        watchdog: Watchdog::start(&io),
        io,
        dir: dir.to_owned(),
        config,
        client,
        poison,
        log,
        pool,
        writer,
        holds: Arc::new(Holds::default()),
        redo_points: Mutex::default(),
        recovery_hold: Mutex::new(None),
        next_file: AtomicU64::new(plan.scan.next_file),
        control: Mutex::new(control),
        redo_speed: AtomicU64::new(redo_speed),
        restore_micros,
        incarnations: Mutex::new(incarnations),
    }))
}

/// Recovers and starts serving.
fn finish(
    core: &Arc<Core>,
    layout: &SegmentLayout,
    plan: &Plan,
    mut stats: RecoveryStats,
) -> StorageResult<(Checkpointer, RecoveryStats)> {
    core.mark_running(!plan.start.images_from.is_zero())?;
    let created = recovery::redo(core, layout, &plan.scan, plan.gave_up, &mut stats)?;
    learn_redo_speed(core, &stats);
    // Until the client has dropped those whose transaction did not commit.
    *core.recovery_hold.lock() = created.map(|lsn| core.holds.hold(|| lsn));
    core.log.set_client(Arc::clone(&core.client));
    let recovered = !stats.clean && stats.records > 0;
    let checkpointer = Checkpointer::start(core, recovered && !plan.gave_up)?;
    Ok((checkpointer, stats))
}

/// The speed of this recovery counts for how much log there may be from now on.
fn learn_redo_speed(core: &Core, stats: &RecoveryStats) {
    let bytes = stats.redo_end.distance_from(stats.redo_start);
    let known = core.control.lock().current().redo_speed;
    let took = stats.scan_time + stats.redo_time;
    let speed = limits::learn_redo_speed(known, bytes, took);
    core.redo_speed.store(speed, Ordering::Relaxed);
}
