//! Settings of a store. Names and meanings are PostgreSQL's where it has the same thing.

use std::time::Duration;

use crate::error::{StorageError, StorageResult};
use crate::mutant::Mutant;

const MIB: u64 = 1 << 20;

/// Whether log segments may have this size.
pub(crate) fn is_segment_size(bytes: u64) -> bool {
    bytes.is_power_of_two() && (64 << 10..=1 << 30).contains(&bytes)
}

/// How a page is kept whole when a crash tears its write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TornPageProtection {
    /// Every page image goes to the double-write area before it goes home.
    DoubleWrite,
    /// The first change of a page after a redo point carries the page in the log.
    FullPageWrites,
    /// Nothing: the device writes 8 KiB atomically, by the operator's word.
    Off,
}

/// When an opening returns after an unclean end (`recovery_open`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryOpen {
    /// When the log has been read: pages are redone when somebody needs them, and the rest
    /// meanwhile.
    Immediate,
    /// When every page is up to date.
    AfterRedo,
}

/// Settings of one store; all sizes in bytes unless the name says otherwise.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// Memory for pages, in bytes; a frame is 8 KiB. At least 16 frames.
    pub shared_buffers: u64,
    /// Size of the log's ring in memory; a power of two, at least four times the largest record
    /// that will be written.
    pub wal_buffers: u64,
    /// Log volume since the redo point at which a checkpoint is forced.
    pub max_wal_size: u64,
    /// Log kept as recycled segments even when idle.
    pub min_wal_size: u64,
    /// Size of a log segment; a power of two. Fixed when the database is created.
    pub wal_segment_size: u64,
    /// Segments written ahead of use; at least as many as the log in memory can fill, and one.
    pub wal_segments_ahead: u32,
    /// Longest time between two checkpoints while there is activity.
    pub checkpoint_timeout: Duration,
    /// Share of the time between two checkpoints over which one is spread, 0 to 1.
    pub checkpoint_completion_target: f64,
    /// Spread checkpoints have the system begin writing back whenever so many bytes have been
    /// written; 0 leaves it to the system.
    pub checkpoint_flush_after: u64,
    /// How long recovery may take, if the last ones are a measure; zero: no bound. Sessions are
    /// delayed rather than that more log piles up.
    pub max_recovery_time: Duration,
    /// A warning is logged when log volume starts checkpoints at shorter intervals; zero: never.
    pub checkpoint_warning: Duration,
    /// How long an asynchronous commit may stay unsynced (half of the worst case).
    pub wal_writer_delay: Duration,
    /// Protection against torn page writes.
    pub torn_page_protection: TornPageProtection,
    /// The same for what the cleaner writes.
    pub bgwriter_flush_after: u64,
    /// Bytes of the pool that a vacuum may use; 0 for all of it.
    pub vacuum_buffer_usage_limit: u64,
    /// Reads ahead of use in flight at once; 0 turns reading ahead off.
    pub effective_io_concurrency: usize,
    /// When an opening returns after an unclean end.
    pub recovery_open: RecoveryOpen,
    /// Threads that redo pages at once; 0 for as many as there are processors, up to 8.
    pub recovery_workers: usize,
    /// Bytes of memory for what the log has, until redo is done; 0: as much as goes with the pool.
    pub recovery_memory: u64,
    /// How long closing the database waits for redo. Pages that are owed changes then are left to
    /// the next start.
    pub redo_at_close: Duration,
    /// Whether recovery reads the pages it will need ahead of use.
    pub recovery_prefetch: bool,
    /// Such reads in flight at once; 0 turns looking ahead off.
    pub maintenance_io_concurrency: usize,
    /// Most bytes of adjacent pages in one read, 8 KiB to 1 MiB.
    pub io_combine_limit: u64,
    /// An operation on a file that takes longer is reported; zero for never.
    pub io_slow_threshold: Duration,
    /// Whether page images in the log are compressed (LZ4).
    pub wal_compression: bool,
    /// Whether the log tells what each change made of its pages, and redo compares. For tests:
    /// it multiplies the log's volume.
    pub wal_consistency_checking: bool,
    /// Whether syncs are done at all. Off loses the database in an operating system crash.
    pub fsync: bool,
    /// Bypass the page cache for data files and the double-write area.
    pub io_direct_data: bool,
    /// Bypass the page cache for the log.
    pub io_direct_wal: bool,
    /// Pages written home after which recovery is told of them, also between the ends of
    /// checkpoints.
    pub homes_after: u64,
    /// Bytes kept for starting and stopping on a full disk; 0 for none.
    pub space_reserve: u64,
    /// Most data files that are open at once, about; `None` for half of what the process may have.
    pub max_data_files: Option<usize>,
    /// Open even if the log is damaged, losing what follows the damage.
    pub ignore_log_damage: bool,
    /// Redo waits for who needs a page, until the database is closed.
    #[cfg(test)]
    pub(crate) redo_waits: bool,
    /// A deliberate bug, for a test that is to catch it; nothing without debug assertions.
    pub mutant: Option<Mutant>,
}

impl Default for StorageConfig {
    fn default() -> Self {
        StorageConfig {
            shared_buffers: 128 * MIB,
            wal_buffers: 16 * MIB,
            max_wal_size: 1024 * MIB,
            min_wal_size: 80 * MIB,
            wal_segment_size: 16 * MIB,
            wal_segments_ahead: 3,
            checkpoint_timeout: Duration::from_secs(300),
            checkpoint_completion_target: 0.9,
            checkpoint_flush_after: 256 << 10,
            max_recovery_time: Duration::from_secs(60),
            checkpoint_warning: Duration::from_secs(30),
            wal_writer_delay: Duration::from_millis(10),
            torn_page_protection: TornPageProtection::DoubleWrite,
            bgwriter_flush_after: 512 << 10,
            vacuum_buffer_usage_limit: 2 * MIB,
            effective_io_concurrency: 16,
            recovery_open: RecoveryOpen::Immediate,
            recovery_workers: 0,
            recovery_memory: 0,
            redo_at_close: Duration::from_secs(3),
            recovery_prefetch: true,
            maintenance_io_concurrency: 16,
            io_combine_limit: 256 << 10,
            io_slow_threshold: Duration::from_secs(5),
            wal_compression: true,
            wal_consistency_checking: false,
            fsync: true,
            io_direct_data: false,
            io_direct_wal: false,
            homes_after: 8192,
            space_reserve: 16 * MIB,
            max_data_files: None,
            ignore_log_damage: false,
            #[cfg(test)]
            redo_waits: false,
            mutant: None,
        }
    }
}

impl StorageConfig {
    /// Small sizes for tests: 64 frames, a 256 KiB ring, 64 KiB log segments.
    #[must_use]
    pub fn small() -> Self {
        StorageConfig {
            shared_buffers: 64 * 8192,
            wal_buffers: 256 << 10,
            max_wal_size: 4 * MIB,
            min_wal_size: 128 << 10,
            wal_segment_size: 64 << 10,
            wal_segments_ahead: 1,
            space_reserve: 256 << 10,
            io_slow_threshold: Duration::ZERO,
            ..StorageConfig::default()
        }
    }

    /// Whether this bug was asked for.
    #[inline]
    #[must_use]
    pub fn has(&self, mutant: Mutant) -> bool {
        cfg!(debug_assertions) && self.mutant == Some(mutant)
    }

    /// Frames that `shared_buffers` holds.
    #[must_use]
    pub fn frames(&self) -> usize {
        usize::try_from(self.shared_buffers / crate::page::PAGE_SIZE as u64).unwrap_or(usize::MAX)
    }

    /// Whether redo reads pages ahead of use.
    pub(crate) fn redo_reads_ahead(&self) -> bool {
        self.recovery_prefetch && self.maintenance_io_concurrency > 0
    }

    /// Most adjacent pages in one read.
    pub(crate) fn combined_pages(&self) -> usize {
        usize::try_from(self.io_combine_limit / crate::page::PAGE_SIZE as u64).unwrap_or(1)
    }

    /// Most data files open at once in a process that may have `limit` files open.
    pub(crate) fn data_files(&self, limit: Option<u64>) -> usize {
        let half = limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit / 2).unwrap_or(usize::MAX)
        });
        self.max_data_files.unwrap_or(half)
    }

    /// Largest log record this configuration can write, in bytes.
    #[must_use]
    pub fn max_record(&self) -> usize {
        usize::try_from(self.wal_buffers / 4)
            .unwrap_or(usize::MAX)
            .min(crate::record::MAX_RECORD)
    }

    /// Checks ranges that the rest of the crate relies on.
    ///
    /// # Errors
    /// [`StorageError::Config`] naming the setting.
    pub fn validate(&self) -> StorageResult<()> {
        let fail = |text: String| Err(StorageError::Config(text));
        if self.frames() < 16 {
            return fail(format!(
                "shared_buffers = {} is less than 16 pages of 8 KiB",
                self.shared_buffers
            ));
        }
        if u32::try_from(self.frames()).is_err() {
            return fail(format!(
                "shared_buffers = {} is too large",
                self.shared_buffers
            ));
        }
        if !self.wal_buffers.is_power_of_two() || !(64 << 10..=1 << 32).contains(&self.wal_buffers)
        {
            return fail(format!(
                "wal_buffers = {} is not a power of two between 64 KiB and 4 GiB",
                self.wal_buffers
            ));
        }
        if !is_segment_size(self.wal_segment_size) {
            return fail(format!(
                "wal_segment_size = {} is not a power of two between 64 KiB and 1 GiB",
                self.wal_segment_size
            ));
        }
        if self.max_wal_size < 2 * self.wal_segment_size {
            return fail(format!(
                "max_wal_size = {} is less than two log segments",
                self.max_wal_size
            ));
        }
        if !(8 << 10..=MIB).contains(&self.io_combine_limit) {
            return fail(format!(
                "io_combine_limit = {} is not between 8 KiB and 1 MiB",
                self.io_combine_limit
            ));
        }
        if !(0.0..=1.0).contains(&self.checkpoint_completion_target) {
            return fail(format!(
                "checkpoint_completion_target = {} is not between 0 and 1",
                self.checkpoint_completion_target
            ));
        }
        Ok(())
    }
}

/// Settings that can change while the database is open.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tuning {
    /// As in [`StorageConfig`].
    pub max_wal_size: u64,
    /// As in [`StorageConfig`].
    pub min_wal_size: u64,
    /// As in [`StorageConfig`].
    pub checkpoint_timeout: Duration,
    /// As in [`StorageConfig`].
    pub checkpoint_completion_target: f64,
    /// As in [`StorageConfig`].
    pub checkpoint_warning: Duration,
    /// As in [`StorageConfig`].
    pub max_recovery_time: Duration,
    /// As in [`StorageConfig`].
    pub wal_writer_delay: Duration,
}

impl StorageConfig {
    /// Its part that can change while the database is open.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        Tuning {
            max_wal_size: self.max_wal_size,
            min_wal_size: self.min_wal_size,
            checkpoint_timeout: self.checkpoint_timeout,
            checkpoint_completion_target: self.checkpoint_completion_target,
            checkpoint_warning: self.checkpoint_warning,
            max_recovery_time: self.max_recovery_time,
            wal_writer_delay: self.wal_writer_delay,
        }
    }

    /// These settings with that part replaced.
    #[must_use]
    pub(crate) fn tuned(&self, tuning: &Tuning) -> StorageConfig {
        StorageConfig {
            max_wal_size: tuning.max_wal_size,
            min_wal_size: tuning.min_wal_size,
            checkpoint_timeout: tuning.checkpoint_timeout,
            checkpoint_completion_target: tuning.checkpoint_completion_target,
            checkpoint_warning: tuning.checkpoint_warning,
            max_recovery_time: tuning.max_recovery_time,
            wal_writer_delay: tuning.wal_writer_delay,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_ranges_are_checked() {
        assert!(StorageConfig::default().validate().is_ok());
        assert!(StorageConfig::small().validate().is_ok());
        let bad = StorageConfig {
            wal_buffers: 100_000,
            ..StorageConfig::default()
        };
        assert!(
            matches!(bad.validate(), Err(StorageError::Config(text)) if text.contains("wal_b"))
        );
        let bad = StorageConfig {
            shared_buffers: 8192,
            ..StorageConfig::default()
        };
        assert!(bad.validate().is_err());
    }
}
