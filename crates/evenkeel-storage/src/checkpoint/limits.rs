//! How much log there may be since the redo point.

use std::time::{Duration, Instant};

use crate::core::Core;

/// How often the disk is asked for its free space.
const ASK: Duration = Duration::from_secs(1);
/// Of the log that can be redone in `max_recovery_time`, less what restoring torn pages took, so
/// much may be there: measurements of the past do not bind the future.
const MARGIN: f64 = 0.8;
/// Segments that are not counted as space for log: those being made, and for others' use.
const SPARE_SEGMENTS: u64 = 4;
/// Redo speed assumed before any was measured, in bytes per second.
const ASSUMED_REDO_SPEED: u64 = 16 << 20;
/// Less log than this says nothing about redo speed.
const LEAST_MEASURED: u64 = 4 << 20;

/// The limits that the disk sets, asked for at intervals.
#[derive(Debug, Default)]
pub(super) struct Limits {
    asked: Option<Instant>,
    space: Option<u64>,
}

impl Limits {
    /// Log since the redo point that must not be exceeded, in bytes; `u64::MAX`: no bound.
    pub(super) fn hard(&mut self, core: &Core) -> u64 {
        let (config, longest) = (&core.config, core.tuning().max_recovery_time);
        let recovery = if longest.is_zero() {
            u64::MAX
        } else {
            let restore = Duration::from_micros(core.control.restore_micros());
            let time = redo_time(longest, restore);
            let bytes = redo_speed(core) as f64 * time.as_secs_f64() * MARGIN;
            // Not so little that cycles follow each other without end; the cast saturates.
            let bytes = (bytes as u64).max(config.wal_segment_size);
            // The log that is being redone is there already, and nobody made it too fast.
            bytes.saturating_add(being_redone(core))
        };
        let space = self.space(core).unwrap_or(u64::MAX);
        recovery.min(space.max(2 * config.wal_segment_size))
    }

    /// Log since the last target at which the next cycle begins, such that the nearest limit is
    /// about reached when that one ends.
    pub(super) fn volume(&mut self, core: &Core) -> u64 {
        let tuning = core.tuning();
        let share = 1.0 + tuning.checkpoint_completion_target;
        // Segments that are ready in any case are within `max_wal_size`, too.
        let ready = core.log.segments().least_ahead() * core.config.wal_segment_size;
        let volume = tuning.max_wal_size - ready.min(tuning.max_wal_size / 2);
        let limit = volume.min(self.hard(core));
        (limit as f64 / share) as u64
    }

    /// Log that fits on the disk, what is there included.
    fn space(&mut self, core: &Core) -> Option<u64> {
        if self.asked.is_none_or(|asked| asked.elapsed() >= ASK) {
            self.asked = Some(Instant::now());
            // A disk that cannot say sets no limit here; a full one is seen by who makes segments.
            let segments = core.log.segments();
            let free = core.disk.free_space(&segments.layout().dir).ok().flatten();
            let redo = core.control.redo();
            let insert = core.log.insert_lsn();
            // Segments that were made or kept ahead need no space any more.
            let there = core.log.gaps().log_between(redo, insert) + segments.ready_from(insert);
            let spare = SPARE_SEGMENTS * core.config.wal_segment_size;
            self.space = free.map(|free| there + free.saturating_sub(spare));
        }
        self.space
    }
}

/// Log since the redo point that was there when the database was opened, while it is redone.
fn being_redone(core: &Core) -> u64 {
    match core.pool.owed().get() {
        Some(_) => {
            let redo = core.control.redo();
            core.log.gaps().log_between(redo, core.opened_at)
        }
        None => 0,
    }
}

/// Time left for redo when torn pages have been restored; never less than a quarter of
/// `recovery`.
fn redo_time(recovery: Duration, restore: Duration) -> Duration {
    recovery.saturating_sub(restore).max(recovery / 4)
}

/// Redo speed to go by, in bytes per second.
pub(super) fn redo_speed(core: &Core) -> u64 {
    match core.control.redo_speed() {
        0 => ASSUMED_REDO_SPEED,
        measured => measured,
    }
}

/// Redo speed to go by after one was measured: a slower one counts more than a faster one.
pub(crate) fn learn_redo_speed(known: u64, bytes: u64, took: Duration) -> u64 {
    if bytes < LEAST_MEASURED {
        return known;
    }
    let measured = (bytes as f64 / took.as_secs_f64().max(1e-3)).max(1.0) as u64;
    match known {
        0 => measured,
        known if measured < known => known / 4 + measured / 4 * 3,
        known => known / 4 * 3 + measured / 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_restoring_takes_is_not_left_for_redo() {
        let seconds = Duration::from_secs;
        assert_eq!(redo_time(seconds(60), seconds(2)), seconds(58));
        assert_eq!(redo_time(seconds(4), seconds(9)), seconds(1));
    }

    #[test]
    fn redo_speed_falls_quickly_and_rises_slowly() {
        let mib = 1 << 20;
        let second = Duration::from_secs(1);
        assert_eq!(learn_redo_speed(7, mib, second), 7);
        assert_eq!(learn_redo_speed(0, 100 * mib, second * 2), 50 * mib);
        assert_eq!(learn_redo_speed(40 * mib, 80 * mib, second), 50 * mib);
        assert_eq!(learn_redo_speed(80 * mib, 40 * mib, second), 50 * mib);
    }
}
