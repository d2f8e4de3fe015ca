//! The writer: two lanes, one for the cleaner and one for checkpoints.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::LogFlush;
use super::area::Area;
use super::batch::{Counters, Lane, Shared};
use super::cleaner::Cleaner;
use super::restore::{self, RestoreStats};
use crate::buffer::BufferPool;
use crate::config::{StorageConfig, TornPageProtection};
use crate::error::StorageResult;
use crate::files::SyncPass;
use crate::ids::{FrameId, Lsn, PageId};
use crate::mutant::Mutant;

/// How the writer works.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The data directory, where the double-write area is.
    pub dir: PathBuf,
    /// Protection against torn page writes.
    pub torn_page_protection: TornPageProtection,
    /// From the redo point on the log has an image of every page that it changes.
    pub images_cover: bool,
    /// A deliberate bug: slots of the area are free before the home files are synced.
    pub reuse_slots_early: bool,
    /// A deliberate bug: a write-out leaves a page out.
    pub leave_one_out: bool,
    /// Most pages in a batch; at most a quarter of the pool is ever on its way home in a lane.
    pub batch_pages: usize,
    /// Size of the double-write area, in pages.
    pub area_pages: u32,
    /// Whether write-back is asked for right after each write, so that syncs find little to do.
    pub write_back: bool,
}

impl WriterOptions {
    /// The options for a store with these settings in `dir`.
    #[must_use]
    pub fn from_config(config: &StorageConfig, dir: &Path, images_cover: bool) -> WriterOptions {
        let area_pages = u32::try_from(config.frames() * 2)
            .unwrap_or(u32::MAX)
            .clamp(64, 4096);
        WriterOptions {
            dir: dir.to_path_buf(),
            torn_page_protection: config.torn_page_protection,
            images_cover,
            reuse_slots_early: config.has(Mutant::ReuseSlotEarly),
            leave_one_out: config.has(Mutant::PassPendingPage),
            batch_pages: 128,
            area_pages,
            write_back: config.fsync && !config.io_direct_data,
        }
    }
}

/// What a write-out did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOutStats {
    /// Pages that were dirty by changes before the target when it began.
    pub due: u64,
    /// Pages it wrote itself; the cleaner may have written others.
    pub written: u64,
}

/// Counters of the writer since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Batches written, by cleaner and checkpoints.
    pub batches: u64,
    /// Pages in them.
    pub pages: u64,
    /// Operations in which they went home.
    pub home_writes: u64,
    /// Batches for which the log had to be flushed.
    pub log_flushes: u64,
    /// Pages written by the cleaner.
    pub cleaner_pages: u64,
    /// Frames the cleaner made free.
    pub cleaner_freed: u64,
    /// Times that the double-write area was full and home files were synced for it.
    pub area_full: u64,
}

/// Writes pages home. Threads that use pages never do.
pub struct Writer {
    shared: Arc<Shared>,
    checkpoint: Mutex<Lane>,
    cleaner: Cleaner,
    restored: RestoreStats,
    leave_one_out: bool,
}

impl Writer {
    /// Restores torn pages from the double-write area, takes the area into use and starts the
    /// cleaner. To be called before any page is read.
    ///
    /// # Errors
    /// When area or home files cannot be read, written or synced.
    pub fn start(
        pool: Arc<BufferPool>,
        log: Arc<dyn LogFlush>,
        options: &WriterOptions,
    ) -> StorageResult<Arc<Writer>> {
        let restored = restore::restore(&pool, &options.dir)?;
        let sync = Arc::clone(pool.files().sync_table());
        let area = match options.torn_page_protection {
            TornPageProtection::Off => None,
            TornPageProtection::FullPageWrites if options.images_cover => None,
            // With images, too, until the redo point is one from which on there are some.
            TornPageProtection::DoubleWrite | TornPageProtection::FullPageWrites => {
                let (number, generation) = restored.next;
                let files = pool.files();
                let mut area = Area::activate(
                    &**files.disk(),
                    &options.dir,
                    number,
                    generation,
                    options.area_pages.max(8),
                    files.direct(),
                    &sync,
                )?;
                area.reuse_early = options.reuse_slots_early;
                Some(area)
            }
        };
        restore::retire(&restored.old, sync.fsync())?;
        let batch = (pool.core().frame_count() / 4).clamp(1, options.batch_pages.max(1));
        let write_back = options.write_back;
        let shared = Arc::new(Shared {
            pool,
            log,
            area,
            images_cover: AtomicBool::new(options.images_cover),
            write_back,
            counters: Counters::default(),
        });
        let checkpoint = Mutex::new(Lane::new(&shared, batch));
        let cleaner = Cleaner::start(Arc::clone(&shared), batch)?;
        Ok(Arc::new(Writer {
            shared,
            checkpoint,
            cleaner,
            restored: restored.stats,
            leave_one_out: options.leave_one_out,
        }))
    }

    /// What was restored at the start.
    #[must_use]
    pub fn restored(&self) -> RestoreStats {
        self.restored
    }

    /// From the redo point on the log now has an image of every page that it changes: the
    /// double-write area is not used any more. What it holds stays until the end, since it does
    /// no harm: a page that is torn from now on is restored from the log, whatever it held.
    pub fn images_cover(&self) {
        self.shared.images_cover.store(true, Ordering::SeqCst);
    }

    /// Writes every page with changes first made before `target`, in file order. `pace` is
    /// called after each batch with the number of pages done and due, and may sleep.
    ///
    /// On return every such change is home and counted in the sync table; nothing is synced.
    ///
    /// # Errors
    /// The instance is poisoned then.
    pub fn write_dirty_before(
        &self,
        target: Lsn,
        pace: &mut dyn FnMut(u64, u64),
    ) -> StorageResult<WriteOutStats> {
        let mut due = self.shared.pool.dirty_before(target, false);
        if self.leave_one_out {
            due.pop();
        }
        self.write_all(due, target, pace)
    }

    /// Writes every page that is not as on disk, for hints and advice as well.
    ///
    /// # Errors
    /// The instance is poisoned then.
    pub fn write_everything(&self) -> StorageResult<WriteOutStats> {
        let due = self.shared.pool.dirty_before(Lsn::MAX, true);
        self.write_all(due, Lsn::MAX, &mut |_, _| {})
    }

    fn write_all(
        &self,
        mut due: Vec<(PageId, FrameId)>,
        target: Lsn,
        pace: &mut dyn FnMut(u64, u64),
    ) -> StorageResult<WriteOutStats> {
        let mut stats = WriteOutStats {
            due: due.len() as u64,
            written: 0,
        };
        let mut lane = self.checkpoint.lock();
        let mut pass = 0;
        while !due.is_empty() {
            let mut rest = &due[..];
            while !rest.is_empty() {
                // From the second pass on a locked page is waited for, in the lock's queue.
                let (looked_at, written) = lane.write(&self.shared, rest, pass > 0)?;
                rest = &rest[looked_at..];
                stats.written += written as u64;
                if pass == 0 {
                    pace(stats.due - rest.len() as u64, stats.due);
                }
            }
            // Pages that were locked, or that the cleaner has on its way.
            due.retain(|(page, frame)| self.shared.pool.is_due(*page, *frame, target));
            pass += 1;
            if !due.is_empty() && pass > 1 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(stats)
    }

    /// Makes every home write counted so far durable, and new directory entries.
    ///
    /// # Errors
    /// A failed sync poisons the instance.
    pub fn sync_all(&self) -> StorageResult<SyncPass> {
        self.shared.pool.files().sync_table().sync_all()
    }

    /// Stops the cleaner; the log still works.
    pub fn stop_cleaner(&self) {
        self.cleaner.stop();
    }

    /// Stops the cleaner. If nothing is left to sync and the instance is sound, the double-write
    /// area is declared not needed.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn shutdown(&self) -> StorageResult<()> {
        self.cleaner.stop();
        let pool = &self.shared.pool;
        if pool.poison().is_set() || pool.files().sync_table().stats().pending != 0 {
            return Ok(());
        }
        match &self.shared.area {
            Some(area) => Ok(area.retire()?),
            None => Ok(()),
        }
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> WriterStats {
        let counters = &self.shared.counters;
        let (cleaner_pages, cleaner_freed) = self.cleaner.counts();
        let area = self.shared.area.as_ref();
        WriterStats {
            batches: counters.batches.load(Ordering::Relaxed),
            pages: counters.pages.load(Ordering::Relaxed),
            home_writes: counters.home_writes.load(Ordering::Relaxed),
            log_flushes: counters.log_flushes.load(Ordering::Relaxed),
            cleaner_pages,
            cleaner_freed,
            area_full: area.map_or(0, |area| area.full.load(Ordering::Relaxed)),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.cleaner.stop();
    }
}
