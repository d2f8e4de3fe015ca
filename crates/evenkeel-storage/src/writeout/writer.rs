//! The writer: two lanes, one for the cleaner and one for checkpoints.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::batch::{BatchWriter, Counters, Shared};
use super::cleaner::Cleaner;
use super::doublewrite::{DoublewriteBuffer, LEAST_SLOTS};
use super::restore::{self, RestoreStats};
use super::spacing::{FullSpeed, Piece, Told, WritePace};
use crate::buffer::BufferPool;
use crate::config::{StorageConfig, TornPageProtection};
use crate::error::{StorageError, StorageResult};
use crate::files::SyncPass;
use crate::ids::{FrameId, Lsn, PageId};
use crate::mutant::Mutant;
use crate::wal::LogFlush;

/// How the writer works.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The data directory, where the double-write area is.
    pub dir: PathBuf,
    /// Protection against torn page writes.
    pub torn_page_protection: TornPageProtection,
    /// From the redo point on the log has an image of every page that it changes.
    pub images_cover: bool,
    /// The log that redo reads, from the redo point to its end. A page with an LSN that is not of
    /// the log is restored if what it lacks is in there; `None`: no page is, for that.
    pub replayed: Option<Range<Lsn>>,
    /// A deliberate bug: slots of the area are free before the home files are synced.
    pub reuse_slots_early: bool,
    /// A deliberate bug: a write-out leaves a page out.
    pub leave_one_out: bool,
    /// Most pages in a batch; at most a quarter of the pool is ever on its way home in a lane.
    pub batch_pages: usize,
    /// Size of the double-write area, in pages.
    pub area_pages: u32,
    /// Write-back is asked for whenever so many bytes have been written, so that syncs find
    /// little to do; 0 leaves it to the system.
    pub flush_after: u64,
    /// The same for what the cleaner writes.
    pub cleaner_flush_after: u64,
}

impl WriterOptions {
    /// The options for a store with these settings in `dir`.
    #[must_use]
    pub fn from_config(config: &StorageConfig, dir: &Path, images_cover: bool) -> WriterOptions {
        let area_pages = u32::try_from(config.frames() * 2)
            .unwrap_or(u32::MAX)
            .clamp(64, 4096);
        let cached = config.fsync && !config.io_direct_data;
        WriterOptions {
            dir: dir.to_path_buf(),
            torn_page_protection: config.torn_page_protection,
            images_cover,
            replayed: None,
            reuse_slots_early: config.has(Mutant::ReuseSlotEarly),
            leave_one_out: config.has(Mutant::PassPendingPage),
            batch_pages: 128,
            area_pages,
            flush_after: if cached {
                config.checkpoint_flush_after
            } else {
                0
            },
            cleaner_flush_after: if cached {
                config.bgwriter_flush_after
            } else {
                0
            },
        }
    }
}

/// Counts of a write-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOutStats {
    /// Pages that were dirty by changes before the target when it began.
    pub due: u64,
    /// Pages it wrote itself; the cleaner may have written others.
    pub written: u64,
    /// Pages of transaction status among them.
    pub status_pages: u64,
    /// Writes in which they went home.
    pub home_writes: u64,
    /// Clean pages written along with them, to close gaps.
    pub fillers: u64,
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
    checkpoint: Mutex<BatchWriter>,
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
        pool.core().set_log(Arc::clone(&log));
        let restored = restore::restore(&pool, &options.dir, options.replayed.as_ref())?;
        let sync = Arc::clone(pool.files().sync_table());
        let area = match options.torn_page_protection {
            TornPageProtection::Off => None,
            TornPageProtection::FullPageWrites if options.images_cover => None,
            // With images, too, until the redo point is one from which on there are some.
            TornPageProtection::DoubleWrite | TornPageProtection::FullPageWrites => {
                let (number, generation) = restored.next;
                let files = pool.files();
                let slots = options.area_pages.max(LEAST_SLOTS);
                if !restored.needs_other() {
                    DoublewriteBuffer::allocate_other(
                        &**files.disk(),
                        &options.dir,
                        1 - number,
                        slots,
                    )?;
                }
                let mut area = DoublewriteBuffer::activate(
                    &**files.disk(),
                    &options.dir,
                    number,
                    generation,
                    slots,
                    files.direct(),
                    &sync,
                )?;
                area.reuse_early = options.reuse_slots_early;
                Some(area)
            }
        };
        let in_use = area.as_ref().map(|_| restored.next.0);
        restore::retire(&restored.old, in_use, sync.fsync())?;
        let batch = (pool.core().frame_count() / 4).clamp(1, options.batch_pages.max(1));
        let shared = Arc::new(Shared {
            pool,
            log,
            area,
            images_cover: AtomicBool::new(options.images_cover),
            // With page images in the log there is none of a page that nothing has changed.
            fill_gaps: matches!(
                options.torn_page_protection,
                TornPageProtection::DoubleWrite | TornPageProtection::Off
            ),
            counters: Counters::default(),
        });
        let checkpoint = Mutex::new(BatchWriter::new(&shared, batch, options.flush_after, false));
        let cleaner = Cleaner::start(Arc::clone(&shared), batch, options.cleaner_flush_after)?;
        Ok(Arc::new(Writer {
            shared,
            checkpoint,
            cleaner,
            restored: restored.stats,
            leave_one_out: options.leave_one_out,
        }))
    }

    /// Counts of the pages checked and restored at the start.
    #[must_use]
    pub fn restored(&self) -> RestoreStats {
        self.restored
    }

    /// From the redo point on the log now has an image of every page that it changes: the
    /// double-write area is not used any more, and retired. Its images would grow old, and a page
    /// that the device damages later must not be set back to one of them. A batch that is on its
    /// way needs it no more either: its pages changed behind the redo point.
    ///
    /// # Errors
    /// When that cannot be written: the instance is poisoned then.
    pub fn images_cover(&self) -> StorageResult<()> {
        let before = self.shared.images_cover.swap(true, Ordering::SeqCst);
        match &self.shared.area {
            Some(area) if !before => {
                let retired = area.retire().map_err(StorageError::from);
                BatchWriter::poison_on_error(&self.shared, retired)
            }
            _ => Ok(()),
        }
    }

    /// Writes every page with changes first made before `target`, in file order, at full speed.
    /// `told` is called after each piece with the number of pages done and due.
    ///
    /// On return every such change is home and counted in the sync table; nothing is synced.
    ///
    /// # Errors
    /// The instance is poisoned then.
    pub fn write_dirty_before(
        &self,
        target: Lsn,
        told: &mut dyn FnMut(u64, u64),
    ) -> StorageResult<WriteOutStats> {
        self.write_paced(target, &mut Told(told))
    }

    /// As [`Writer::write_dirty_before`], spaced by `pace`.
    ///
    /// # Errors
    /// The instance is poisoned then.
    pub fn write_paced(
        &self,
        target: Lsn,
        pace: &mut dyn WritePace,
    ) -> StorageResult<WriteOutStats> {
        let mut due = self.shared.pool.dirty_before(target, false);
        if self.leave_one_out {
            due.pop();
        }
        self.write_all(due, Some(target), pace)
    }

    /// Writes every page that is not as on disk, for hints and advice as well.
    ///
    /// # Errors
    /// The instance is poisoned then.
    pub fn write_everything(&self) -> StorageResult<WriteOutStats> {
        let due = self.shared.pool.dirty_before(Lsn::MAX, true);
        self.write_all(due, None, &mut FullSpeed)
    }

    /// Whether somebody waits for a frame, for a write-out to end (to drop or cut a file), or for
    /// slots of the double-write area: who spaces writes does not sleep then.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        let area = self.shared.area.as_ref();
        self.shared.pool.core().is_awaiting_writes()
            || area.is_some_and(DoublewriteBuffer::is_awaited)
    }

    fn write_all(
        &self,
        mut due: Vec<(PageId, FrameId)>,
        target: Option<Lsn>,
        pace: &mut dyn WritePace,
    ) -> StorageResult<WriteOutStats> {
        let mut stats = WriteOutStats {
            due: due.len() as u64,
            ..WriteOutStats::default()
        };
        pace.begin(stats.due);
        let mut lane = self.checkpoint.lock();
        let mut pass = 0;
        while !due.is_empty() {
            let mut rest = &due[..];
            while !rest.is_empty() {
                let mut spacing = Overall {
                    pace,
                    // The first pass counted the pages that a later pass looks at.
                    done: if pass == 0 {
                        stats.due - rest.len() as u64
                    } else {
                        stats.due
                    },
                    due: stats.due,
                    writes: &mut stats.home_writes,
                };
                // From the second pass on a locked page is waited for, in the lock's queue.
                let (looked_at, written) =
                    lane.write_spaced(&self.shared, rest, target, pass > 0, &mut spacing)?;
                rest = &rest[looked_at..];
                stats.written += written as u64;
                stats.fillers += lane.fillers() as u64;
                let pages = lane.written_pages();
                stats.status_pages += pages.filter(|page| page.file.is_status()).count() as u64;
            }
            // Pages that were locked, or that the cleaner has on its way.
            let before = target.unwrap_or(Lsn::MAX);
            due.retain(|(page, frame)| self.shared.pool.is_due(*page, *frame, before));
            pass += 1;
            if !due.is_empty() && pass > 1 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        lane.settle(&self.shared)?;
        Ok(stats)
    }

    /// Pages written home since the start.
    #[must_use]
    pub fn pages_written(&self) -> u64 {
        self.shared.counters.pages.load(Ordering::Relaxed)
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

    /// Stops the cleaner. If the instance is sound, what was written since the last checkpoint is
    /// synced and the double-write area declared not needed.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn shutdown(&self) -> StorageResult<()> {
        self.cleaner.stop();
        match &self.shared.area {
            Some(area) if !self.shared.pool.poison().is_set() => {
                self.sync_all()?;
                Ok(area.retire()?)
            }
            _ => Ok(()),
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

/// Says of the pieces of a batch how far the write-out as a whole is.
struct Overall<'a> {
    pace: &'a mut dyn WritePace,
    done: u64,
    due: u64,
    writes: &'a mut u64,
}

impl WritePace for Overall<'_> {
    fn batch(&mut self) -> usize {
        self.pace.batch()
    }

    fn gap(&mut self) -> usize {
        self.pace.gap()
    }

    fn piece(&mut self) -> Option<usize> {
        self.pace.piece()
    }

    fn wrote(&mut self, piece: Piece) {
        *self.writes += piece.writes;
        self.pace.wrote(Piece {
            done: (self.done + piece.done).min(self.due),
            due: self.due,
            ..piece
        });
    }
}
