//! Creating and opening a database.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use evenkeel_io::{Disk, File, IoErrorKind, IoObserver, LockGuard, MeteredDisk, OpenOptions};
use parking_lot::{Mutex, RwLock};

use crate::buffer::{BufferPool, PoolCore, ReadAheadOptions, TouchAhead};
use crate::checkpoint::Checkpointer;
use crate::config::{StorageConfig, TornPageProtection};
use crate::control::{CONTROL_FILE, CREATING_FILE, Control, ControlFile, State, not_a_database};
use crate::core::{ControlState, Core, Holds, RedoHold, SpaceReserve};
use crate::error::{StorageError, StorageResult};
use crate::files::{DataAccess, FileSpace, ManifestPosition, SEGMENT_BLOCKS, SyncTable};
use crate::gaps::Gaps;
use crate::ids::Lsn;
use crate::mutant::Mutant;
use crate::poison::Poison;
use crate::quarantine::Quarantine;
use crate::record::{Incarnation, LOG_VERSION};
use crate::recovery::{self, Analysis, LogScan, Opening, Recovery, RecoveryStats};
use crate::resource_manager::ResourceManager;
use crate::stats::{BackendType, IoStats, Usage, Watchdog};
use crate::store::{FIRST_FREE_FILE, LOCK_FILE, Store};
use crate::wal::{Log, LogFlush, LogStart, SegmentLayout};
use crate::writeout::{Writer, WriterOptions};

const WAL_DIR: &str = "wal";
const FIRST_TIMELINE: u32 = 1;
const FIRST_TERM: u64 = 1;
/// How long the lock of a killed process is waited for, and how often it is tried.
const ENDING: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The contents of a directory.
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

/// Locks the directory. One that is locked for a process that was killed is waited for: the kernel
/// still ends that process's operations, which may write.
fn lock(disk: &dyn Disk, dir: &Path) -> StorageResult<Box<dyn LockGuard>> {
    let path = dir.join(LOCK_FILE);
    let begun = Instant::now();
    let mut is_told = false;
    let guard = loop {
        match disk.lock(&path) {
            Err(error) if error.kind() == IoErrorKind::Locked => {
                let killed = killed_holder(disk, &path);
                let Some(process) = killed.filter(|_| begun.elapsed() < ENDING) else {
                    return Err(StorageError::Locked { path });
                };
                if !std::mem::replace(&mut is_told, true) {
                    tracing::info!("waiting for the I/O of process {process}, which was killed");
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            locked => break locked?,
        }
    };
    note_process(guard.file())?;
    Ok(guard)
}

/// The process that the lock file names, if it does not have the file open any more.
fn killed_holder(disk: &dyn Disk, path: &Path) -> Option<u32> {
    let file = disk.open(path, OpenOptions::read_only()).ok()?;
    let mut text = [0; 16];
    let len = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..len]).ok()?;
    let process = text.trim().parse().ok()?;
    drop(file);
    (!disk.has_open(process, path)).then_some(process)
}

/// Writes who holds the lock, for people and for [`killed_holder`]. The file keeps its space, so
/// that a full disk has room for that; one that has none all the same is locked as well.
fn note_process(file: &dyn File) -> StorageResult<()> {
    let text = format!("{:<15}\n", std::process::id());
    let written = file.write_all_at(text.as_bytes(), 0);
    match written.and_then(|()| file.set_len(text.len() as u64)) {
        Err(error) if error.kind() == IoErrorKind::NoSpace => {
            tracing::warn!("could not write down the number of this process: {error}");
            Ok(())
        }
        other => Ok(other?),
    }
}

/// Creates an empty database. It exists only when the control file gets its name, at the end.
fn create(disk: &dyn Disk, dir: &Path, config: &StorageConfig) -> StorageResult<()> {
    let start = Lsn(config.wal_segment_size);
    let control = Control {
        system_id: disk.random_u64(),
        generation: 0,
        state: State::Running,
        timeline: FIRST_TIMELINE,
        term: FIRST_TERM,
        segment_size: config.wal_segment_size,
        redo: start,
        images: config.torn_page_protection == TornPageProtection::FullPageWrites,
        incarnation: disk.random_u64(),
        durable: start,
        gaps: Gaps::default(),
        next_file: FIRST_FREE_FILE,
        written_at: disk.now_micros(),
        redo_speed: 0,
        restore_micros: 0,
        manifest: ManifestPosition::default(),
        boot: disk.boot_id(),
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

impl Store {
    /// Opens the database in `dir`, creating it if the directory is empty or missing, and
    /// recovers it if it was not shut down.
    ///
    /// # Errors
    /// Among others [`StorageError::NotADatabase`],
    /// [`WrongVersion`](crate::StorageError::WrongVersion),
    /// [`ControlDamaged`](crate::StorageError::ControlDamaged),
    /// [`Locked`](crate::StorageError::Locked) and
    /// [`LogDamaged`](crate::StorageError::LogDamaged), each before anything is changed.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        config: StorageConfig,
        manager: Arc<dyn ResourceManager>,
    ) -> StorageResult<Arc<Store>> {
        open(disk, dir, config, manager)
    }
}

/// A directory that is this instance's.
struct Taken {
    /// The instance's own disk: the lock lasts until the changes by way of it have ended.
    disk: Arc<dyn Disk>,
    io: Arc<IoStats>,
    lock: Box<dyn LockGuard>,
}

/// Locks the directory, and creates the database if there is none.
fn take_directory(
    system: Arc<dyn Disk>,
    dir: &Path,
    config: &StorageConfig,
) -> StorageResult<Taken> {
    let io = IoStats::new(config.io_slow_threshold);
    let observer = Arc::clone(&io) as Arc<dyn IoObserver>;
    let early = config.has(Mutant::UnlockEarly).then(|| Arc::clone(&system));
    let metered: Arc<dyn Disk> = MeteredDisk::new(system, observer);
    let disk = &*metered;
    examine(disk, dir)?;
    make_durable_dir(disk, dir, config.fsync)?;
    let lock = lock(early.as_deref().unwrap_or(disk), dir)?;
    // Again, now that nobody else can change it.
    if matches!(examine(disk, dir)?, Found::Nothing) {
        create(disk, dir, config)?;
    }
    Ok(Taken {
        disk: metered,
        io,
        lock,
    })
}

fn open(
    system: Arc<dyn Disk>,
    dir: &Path,
    mut config: StorageConfig,
    manager: Arc<dyn ResourceManager>,
) -> StorageResult<Arc<Store>> {
    config.validate()?;
    let _who = BackendType::Startup.enter();
    let Taken { disk, io, lock } = take_directory(system, dir, &config)?;
    let mut control = ControlFile::open(disk.as_ref(), dir, config.fsync)?;
    let found = control.current().clone();
    config.wal_segment_size = found.segment_size;
    config.validate()?;
    let layout = log_layout(dir, &found);
    manager
        .restore_payload(&found.payload)
        .map_err(|error| StorageError::Config(format!("control payload: {error}")))?;
    let (begun, usage) = (Instant::now(), Usage::begin());
    let memory = recovery::memory_of(&config);
    let poison = Poison::new();
    let frames = PoolCore::new(config.frames(), Arc::clone(&poison), Arc::clone(&io))?;
    let touching = TouchAhead::start(&frames);
    let pages = |count| touching.want(count);
    let mut analysis = recovery::analyse(&disk, &layout, &found, &*manager, memory, &pages)?;
    let scan_time = begun.elapsed();
    let fresh = needs_fresh_segment(&config, &control, &analysis.scan);
    let mut plan = plan(disk.as_ref(), &layout, &config, &found, &mut analysis.scan)?;
    plan.start.fresh = fresh && !plan.gave_up;
    // Before anything builds on it; the log is known to be whole.
    control.write_again()?;
    control.note_boot(disk.boot_id())?;
    plan.choose_access(disk.as_ref(), dir, &mut config)?;
    let stats = stats_of(&analysis.scan, scan_time, found.state);
    plan.start.announced.floor = manager.floor_after(analysis.scan.next_xid);
    let has_images = !plan.start.images_from.is_zero();
    let opened = Opened {
        control,
        plan: &plan,
        scan: &analysis.scan,
        poison,
        frames,
    };
    let core = build((disk, io), dir, config, manager, &layout, opened)?;
    let opening = Opening {
        core: &core,
        layout: &layout,
        gave_up: plan.gave_up,
        log_restores: found.images,
        usage,
    };
    match finish(&opening, has_images, analysis, stats) {
        Ok((checkpointer, recovery, hold)) => Ok(Arc::new(Store {
            core,
            checkpointer,
            recovery,
            recovery_hold: Mutex::new(hold),
            is_gap_ahead: AtomicBool::new(plan.gave_up),
            _lock: lock,
        })),
        Err(error) => {
            // Before the lock is given back.
            core.stop();
            Err(error)
        }
    }
}

fn log_layout(dir: &Path, found: &Control) -> SegmentLayout {
    SegmentLayout {
        dir: dir.join(WAL_DIR),
        size: found.segment_size,
        timeline: found.timeline,
    }
}

fn stats_of(scan: &LogScan, scan_time: Duration, state: State) -> RecoveryStats {
    RecoveryStats {
        redo_start: scan.redo,
        redo_end: scan.end,
        scan_time,
        clean: state == State::Shutdown,
        ..RecoveryStats::default()
    }
}

/// Findings of opening the directory.
struct Opened<'a> {
    control: ControlFile,
    plan: &'a Plan,
    scan: &'a LogScan,
    poison: Arc<Poison>,
    frames: Arc<PoolCore>,
}

/// How the log goes on, and data files are opened.
struct Plan {
    start: LogStart,
    /// The damaged rest of the log is being given up.
    gave_up: bool,
    access: DataAccess,
}

impl Plan {
    /// Says how data files are opened. A device that writes pages atomically needs no other
    /// protection against torn pages; a file system without direct I/O is used through the page
    /// cache, as the log's is.
    fn choose_access(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        config: &mut StorageConfig,
    ) -> StorageResult<()> {
        if !config.io_direct_data {
            return Ok(());
        }
        let protects = config.torn_page_protection != TornPageProtection::Off;
        if protects && DataAccess::Atomic.is_had(disk, dir)? {
            tracing::info!("the device writes pages atomically: torn_page_protection is not used");
            self.access = DataAccess::Atomic;
            config.torn_page_protection = TornPageProtection::Off;
            self.start.images_from = Lsn::ZERO;
        } else if DataAccess::Direct.is_had(disk, dir)? {
            self.access = DataAccess::Direct;
        } else {
            tracing::warn!(
                "the file system of {} has no direct I/O: io_direct = data has no effect",
                dir.display()
            );
            config.io_direct_data = false;
        }
        Ok(())
    }
}

/// Whether log behind the end that was found may have been lost, with pages home that it changed:
/// not after a clean end, nor when no run got further than announcing its incarnation since the
/// last gap, or since the database was created.
fn needs_fresh_segment(config: &StorageConfig, control: &ControlFile, scan: &LogScan) -> bool {
    let found = control.current();
    let begun = scan
        .gaps
        .last()
        .map_or(Lsn(found.segment_size), |gap| gap.end);
    // A run says that it is running, and how far the log is durable, before a page goes home.
    let is_used = found.durable > begun || scan.last_use >= begun || control.is_sole();
    found.state == State::Running && is_used && !config.has(Mutant::ReuseLostLog)
}

fn plan(
    disk: &dyn Disk,
    layout: &SegmentLayout,
    config: &StorageConfig,
    found: &Control,
    scan: &mut LogScan,
) -> StorageResult<Plan> {
    let mut start = LogStart {
        proven: scan.proven,
        end: scan.end,
        fresh: false,
        redo: scan.redo,
        gaps: scan.gaps.clone(),
        previous: Some(scan.last_incarnation()),
        announced: Incarnation {
            incarnation: disk.random_u64(),
            version: LOG_VERSION,
            timeline: found.timeline,
            term: found.term,
            old_end: scan.end,
            floor: 0,
        },
        images_from: Lsn::ZERO,
    };
    if found.images && config.torn_page_protection == TornPageProtection::FullPageWrites {
        start.images_from = found.redo;
    }
    let Some(damage) = scan.damage.take() else {
        return Ok(Plan {
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
    manager: Arc<dyn ResourceManager>,
    layout: &SegmentLayout,
    Opened {
        mut control,
        plan,
        scan,
        poison,
        frames,
    }: Opened<'_>,
) -> StorageResult<Arc<Core>> {
    let reserve = SpaceReserve::open(&disk, dir, &config);
    let most_open = config.data_files(disk.max_open_files());
    let sync = SyncTable::new(Arc::clone(&disk), config.fsync, &poison, most_open);
    let space = FileSpace::open(Arc::clone(&disk), dir, plan.access, SEGMENT_BLOCKS, sync)?;
    load_manifest(&space, dir, control.current(), plan, scan)?;
    let ahead = ReadAheadOptions {
        depth: config.effective_io_concurrency,
        combine: config.combined_pages(),
    };
    let pool = BufferPool::new(frames, space, ahead);
    let quarantine = Quarantine::open(&disk, dir, &pool, config.fsync)?;
    let log = open_log(&disk, layout, &config, plan, (&poison, &mut control))?;
    let flush = Arc::clone(&log) as Arc<dyn LogFlush>;
    // Restores torn pages before anything reads a page.
    let images_cover = !plan.start.images_from.is_zero();
    let options = WriterOptions {
        // Where damage is given up pages may well be ahead of the log.
        replayed: (!plan.gave_up).then_some(scan.redo..scan.end),
        ..WriterOptions::from_config(&config, dir, images_cover)
    };
    let writer = Writer::start(Arc::clone(&pool), flush, &options).inspect_err(|_| {
        let _ = log.stop();
    })?;
    let mut incarnations = scan.incarnations.clone();
    let opened_at = log.insert_lsn();
    incarnations.push((opened_at, plan.start.announced.incarnation));
    let restored = writer.restored();
    let restore_micros = (restored.checked > 0)
        .then(|| u64::try_from(restored.took.as_micros()).unwrap_or(u64::MAX));
    let next_file = scan.next_file;
    Ok(Arc::new(Core {
        disk,
        watchdog: Watchdog::start(&io),
        io,
        dir: dir.to_owned(),
        tuning: RwLock::new(config.tuning()),
        config,
        manager,
        poison,
        log,
        pool,
        writer,
        holds: Arc::new(Holds::default()),
        reserve,
        quarantine,
        control: ControlState::new(control, next_file, restore_micros, incarnations),
        opened_at,
        recovered: AtomicBool::new(false),
    }))
}

/// Opens the log for writing; a gap is in the control file before there is log behind it (GAP-1).
fn open_log(
    disk: &Arc<dyn Disk>,
    layout: &SegmentLayout,
    config: &StorageConfig,
    plan: &Plan,
    (poison, control): (&Arc<Poison>, &mut ControlFile),
) -> StorageResult<Arc<Log>> {
    let mut record_gap = |gaps: &Gaps, end: Lsn| {
        let last = control.current().clone();
        control.write(Control {
            gaps: gaps.clone(),
            durable: last.durable.max(end),
            ..last
        })
    };
    Log::open(disk, layout, config, &plan.start, poison, &mut record_gap)
}

fn load_manifest(
    space: &FileSpace,
    dir: &Path,
    last: &Control,
    plan: &Plan,
    scan: &LogScan,
) -> StorageResult<()> {
    let (disk, manifest) = (&**space.disk(), space.manifest());
    if plan.gave_up {
        // Files may have been cut and dropped by what is given up.
        manifest.give_up(last.manifest);
        return Ok(());
    }
    manifest.load(disk, dir, last.manifest, &scan.removed())
}

/// Recovers and starts serving.
fn finish(
    opening: &Opening<'_>,
    has_images: bool,
    analysis: Analysis,
    stats: RecoveryStats,
) -> StorageResult<(Checkpointer, Recovery, Option<RedoHold>)> {
    let core = opening.core;
    core.mark_running(has_images)?;
    core.pool.files().manifest().compare(true);
    let (recovery, created) = Recovery::begin(opening, analysis, stats)?;
    // Until the manager has dropped those whose transaction did not commit.
    let hold = created.map(|lsn| core.holds.hold(|| lsn));
    core.log.set_manager(Arc::clone(&core.manager));
    // Before statements, and segments that are made ahead for them, can have the space.
    core.reserve.take();
    core.log.segments().make_ahead(true);
    let checkpointer = Checkpointer::start(core)?;
    Ok((checkpointer, recovery, hold))
}
