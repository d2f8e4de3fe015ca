//! The one thread that writes the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{StorageError, StorageResult};
use crate::ids::Lsn;
use crate::wal::log::Log;
use crate::wal::writer::LogWriter;

/// How long the flusher sleeps when no log is being written at all. A record that somebody
/// waits for wakes it.
const QUIET: Duration = Duration::from_secs(1);
/// Rounds without anything complete before the flusher sleeps instead of yielding.
const YIELDS: u32 = 64;

pub(crate) struct Flusher {
    log: Arc<Log>,
    writer: LogWriter,
    /// Last record boundary at or below the writer's position.
    boundary: Lsn,
    /// End of the record that starts at `boundary`, once that was begun to be written.
    open_end: Lsn,
}

impl Flusher {
    pub(crate) fn new(log: Arc<Log>, writer: LogWriter) -> Flusher {
        let boundary = writer.position();
        Flusher {
            log,
            writer,
            boundary,
            open_end: boundary,
        }
    }

    /// [`Flusher::write_on`], as a thread of the store.
    pub(crate) fn run(self) {
        let _who = crate::stats::BackendType::WalWriter.enter();
        let _guard = self.log.poison.guard("wal-flusher");
        self.write_on();
    }

    /// Writes until the log is stopped (then: until all is written) or poisoned.
    fn write_on(mut self) {
        let mut idle_rounds = 0;
        loop {
            if self.log.poison.is_set() {
                return self.log.give_up();
            }
            let wanted = self.log.flush_wanted();
            let due = wanted || self.log.ring.backlog() >= self.log.pile;
            if due {
                match self.round() {
                    Ok(true) => idle_rounds = 0,
                    Ok(false) => self.pause(&mut idle_rounds),
                    Err(error) => self.fail(&error),
                }
                continue;
            }
            if self.log.stopping.load(Ordering::Acquire) {
                return;
            }
            let quiet = self.log.ring.backlog() == 0;
            let sleep = if quiet {
                QUIET
            } else {
                self.log.writer_delay()
            };
            let woken = self.log.sleep_flusher(sleep, quiet);
            if !woken
                && !quiet
                && let Err(error) = self.round()
            {
                self.fail(&error);
            }
        }
    }

    /// Between reserving and completing there is neither lock nor I/O, so the record waited for
    /// is a matter of its thread getting the processor.
    fn pause(&self, idle_rounds: &mut u32) {
        *idle_rounds += 1;
        if *idle_rounds < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn fail(&self, error: &StorageError) {
        if !matches!(error, StorageError::Poisoned { .. }) {
            let at = self.writer.position();
            self.log
                .poison
                .set(format!("writing the log before {at} failed: {error}"));
        }
    }

    /// Writes and syncs what is complete, at most one chunk of one segment.
    fn round(&mut self) -> StorageResult<bool> {
        let completed = self.log.advance_completed();
        let from = self.writer.position();
        let len = completed.distance_from(from).min(self.writer.room() as u64) as usize;
        if len == 0 {
            return Ok(false);
        }
        let end = Lsn(from.0 + len as u64);
        self.find_boundary(end);
        self.log.ring.drain(from, self.writer.stage(len));
        let start = Instant::now();
        let mark = self.log.latency.begin();
        self.writer.write_out()?;
        let took = start.elapsed();
        self.log.latency.note(mark, took);
        let stats = &self.log.stats;
        stats.syncs.fetch_add(1, Ordering::Relaxed);
        stats.bytes_written.fetch_add(len as u64, Ordering::Relaxed);
        stats
            .write_micros
            .fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        self.log.advance_durable(self.boundary)?;
        Ok(true)
    }

    /// Follows the records that start before `end`; their marks are still in the ring.
    fn find_boundary(&mut self, end: Lsn) {
        while self.open_end <= end {
            self.boundary = self.open_end;
            if self.boundary == end {
                break;
            }
            self.open_end = Lsn(self.boundary.0 + self.log.ring.record_len(self.boundary));
        }
    }
}
