//! Recovery after the log has been read: files, then pages, a share of them after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::analysis::{Analysis, LogScan, gather, memory_of};
use super::drain::Drain;
use super::lists::{PageLists, Share};
use super::owed::{Circumstances, Owed};
use super::progress::{Progress, Report};
use super::records::Records;
use super::settle;
use super::stats::RecoveryStats;
use crate::buffer::PageRedo;
use crate::checkpoint::limits;
use crate::config::RecoveryOpen;
use crate::core::Core;
use crate::error::{StorageError, StorageResult};
use crate::ids::Lsn;
use crate::stats::{BackendType, Usage};
use crate::wal::SegmentLayout;

/// How long a failure that may pass is waited out.
const PAUSE: Duration = Duration::from_millis(500);

/// A recovery under way, or done.
pub(crate) struct Recovery {
    analysis: RecoveryStats,
    progress: Arc<Progress>,
    shared: Arc<Shared>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Shared {
    stop: AtomicBool,
    /// The database is being closed: failures are not waited out any more.
    closing: AtomicBool,
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Shared {
    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || self.closing.load(Ordering::SeqCst)
    }
}

/// State of the opening that recovery uses.
pub(crate) struct Opening<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) layout: &'a SegmentLayout,
    /// The damaged rest of the log is being given up.
    pub(crate) gave_up: bool,
    /// The log is needed for torn pages: a page that went home whole may be torn by now.
    pub(crate) log_restores: bool,
    /// Since the reading of the log began.
    pub(crate) usage: Usage,
}

impl Recovery {
    /// Brings the database to the end of its log: all of it, or so far that nobody sees a page
    /// that is not. Returns the LSN of the first record that says of the creation of a file which
    /// no later one drops.
    pub(crate) fn begin(
        opening: &Opening<'_>,
        analysis: Analysis,
        mut stats: RecoveryStats,
    ) -> StorageResult<(Recovery, Option<Lsn>)> {
        let core = opening.core;
        let began = Instant::now();
        settle::files(core, &analysis)?;
        let created = analysis.first_creation();
        let announced = !stats.clean && analysis.scan.records > 0;
        if announced {
            tracing::info!("redo starts at {}", analysis.scan.redo);
        }
        let Analysis { scan, lists, .. } = analysis;
        stats.records = scan.records;
        let records = Records::new(&core.disk, opening.layout, scan.incarnations.clone());
        let run = Run {
            core: Arc::clone(core),
            layout: opening.layout.clone(),
            records: Arc::new(records),
            circumstances: Circumstances {
                end: scan.end,
                gave_up: opening.gave_up,
                rewrite: !stats.clean && !core.control.lock().page_cache_held_nothing(),
                floor: None,
            },
            scan,
            progress: Arc::new(Progress::new()),
            trusts_homes: !opening.log_restores,
            announced,
            report: Report::new(began),
            usage: opening.usage,
            began,
            before: stats.scan_time,
        };
        let last = run.all_but_the_last(lists, &mut stats.doomed)?;
        let recovery = Recovery {
            progress: Arc::clone(&run.progress),
            analysis: stats,
            shared: Arc::new(Shared {
                stop: AtomicBool::new(false),
                closing: AtomicBool::new(false),
                ended: Mutex::new(false),
                changed: Condvar::new(),
            }),
            thread: Mutex::new(None),
        };
        let waits = core.config.recovery_open == RecoveryOpen::AfterRedo || opening.gave_up;
        if waits || last.left() == 0 {
            run.finish(&last, &recovery.shared)?;
            *recovery.shared.ended.lock() = true;
        } else {
            recovery.start(run, last)?;
        }
        recovery.progress.opened();
        Ok((recovery, created))
    }

    /// Goes on in the background.
    fn start(&self, run: Run, last: Arc<Owed>) -> StorageResult<()> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            let _who = BackendType::Startup.enter();
            let _guard = run.core.poison.guard("recovery");
            run.finish_in_background(&last, &shared);
            *shared.ended.lock() = true;
            shared.changed.notify_all();
        };
        let thread = std::thread::Builder::new()
            .name("recovery".into())
            .spawn(work)
            .map_err(|error| StorageError::Config(format!("cannot start a thread: {error}")))?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Positions, counts and times so far.
    pub(crate) fn stats(&self) -> RecoveryStats {
        self.progress.stats(&self.analysis)
    }

    /// The log's end, as it was found.
    pub(crate) fn end(&self) -> Lsn {
        self.analysis.redo_end
    }

    /// Waits until nothing is owed to any page, or that has been given up.
    pub(crate) fn wait(&self) {
        evenkeel_io::blocking(|| {
            let mut ended = self.shared.ended.lock();
            while !*ended {
                self.shared.changed.wait(&mut ended);
            }
        });
    }

    /// Ends redo: waits for it no longer than `patience`, and not for what holds it up. Pages that
    /// are still owed changes keep the redo point, and the next start goes on.
    pub(crate) fn close(&self, patience: Duration) {
        if !patience.is_zero() {
            self.shared.closing.store(true, Ordering::SeqCst);
            let deadline = Instant::now() + patience;
            let mut ended = self.shared.ended.lock();
            while !*ended
                && !self
                    .shared
                    .changed
                    .wait_until(&mut ended, deadline)
                    .timed_out()
            {}
        }
        self.shared.stop.store(true, Ordering::SeqCst);
        self.wait();
        let stats = self.stats();
        if !stats.is_done {
            tracing::info!(
                "redo ends early: {} of {} pages are left to the next start",
                stats.pages - stats.pages_done.min(stats.pages),
                stats.pages
            );
        }
    }

    /// Ends the threads. The next start redoes the pages that are left.
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.lock().take() {
            // A panic there has been reported, and has poisoned the instance.
            let _ = thread.join();
        }
    }
}

/// A redo, share by share of the pages.
struct Run {
    core: Arc<Core>,
    layout: SegmentLayout,
    scan: LogScan,
    records: Arc<Records>,
    circumstances: Circumstances,
    progress: Arc<Progress>,
    /// The manifest can be believed of a page's home (REC-18).
    trusts_homes: bool,
    announced: bool,
    report: Report,
    usage: Usage,
    began: Instant,
    /// Time that reading the log took.
    before: Duration,
}

impl Run {
    /// Brings all shares of the pages up to date but the last, whose pages are owed their changes
    /// when this returns.
    fn all_but_the_last(&self, mut lists: PageLists, doomed: &mut u64) -> StorageResult<Arc<Owed>> {
        let never = AtomicBool::new(false);
        let mut left = Vec::new();
        loop {
            left.extend(lists.take_left_out());
            let next = left.pop();
            let owed = self.owe(lists, next.is_none(), doomed)?;
            let Some(next) = next else {
                return Ok(owed);
            };
            self.drain(&owed, &never)?;
            lists = self.gather(next)?;
        }
    }

    fn gather(&self, share: Share) -> StorageResult<PageLists> {
        let budget = memory_of(&self.core.config);
        let mut lists = PageLists::new(self.scan.redo, share, budget);
        gather(&self.core.disk, &self.layout, &self.scan, &mut lists)?;
        Ok(lists)
    }

    /// From here on pages are loaded with their changes.
    fn owe(
        &self,
        mut lists: PageLists,
        is_last: bool,
        doomed: &mut u64,
    ) -> StorageResult<Arc<Owed>> {
        let core = &self.core;
        let settled = settle::lists(core, &self.scan, &mut lists, self.trusts_homes)?;
        *doomed += settled.doomed;
        Progress::add(&self.progress.home, settled.home);
        Progress::add(&self.progress.skip_new, settled.new);
        let circumstances = Circumstances {
            floor: (!is_last).then_some(self.scan.redo),
            ..self.circumstances
        };
        let owed = Owed::new(core, lists, &self.records, circumstances, &self.progress)?;
        let owed = Arc::new(owed);
        for (page, error) in settled.damaged {
            owed.set_aside(page, error);
        }
        core.pool.owed().set(Arc::clone(&owed) as Arc<dyn PageRedo>);
        Ok(owed)
    }

    /// Brings every page up to date, unless it is stopped.
    fn drain(&self, owed: &Owed, stop: &AtomicBool) -> StorageResult<()> {
        let mut ahead = true;
        while owed.left() > 0 && !stop.load(Ordering::Relaxed) {
            Drain::new(owed, ahead, stop, &self.report).run()?;
            if owed.left() > 0 && !ahead {
                // Others are at work on the rest.
                std::thread::sleep(Duration::from_millis(1));
            }
            ahead = false;
        }
        Ok(())
    }

    fn finish(&self, last: &Owed, shared: &Shared) -> StorageResult<()> {
        self.drain(last, &shared.stop)?;
        if last.left() == 0 {
            self.done();
        }
        Ok(())
    }

    /// Goes on through failures that may pass, such as a full disk: meanwhile the redo point
    /// stays.
    fn finish_in_background(&self, last: &Owed, shared: &Shared) {
        #[cfg(test)]
        while self.core.config.redo_waits && !shared.is_ending() {
            std::thread::sleep(Duration::from_millis(1));
        }
        loop {
            match self.finish(last, shared) {
                Ok(()) => return,
                Err(error @ StorageError::Inconsistent { .. }) => {
                    self.core.poison.set(error.to_string());
                    return;
                }
                Err(error) if self.core.poison.is_set() || shared.is_ending() => {
                    tracing::warn!("redo ends early: {error}");
                    return;
                }
                Err(error) => {
                    tracing::warn!("redo is held up: {error}");
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    fn done(&self) {
        let core = &self.core;
        core.pool.owed().clear();
        self.progress.finish();
        if !self.announced {
            return;
        }
        let took = self.began.elapsed();
        let stats = self.progress.stats(&RecoveryStats::default());
        tracing::info!(
            "redo done at {} system usage: {}; {} records, {} pages, {} more home already, {} changes \
             applied, {} already there",
            self.scan.end,
            self.usage,
            self.scan.records,
            stats.pages,
            stats.home,
            stats.applied,
            stats.skipped,
        );
        let bytes = self.scan.gaps.log_between(self.scan.redo, self.scan.end);
        let known = core.control.redo_speed();
        let speed = limits::learn_redo_speed(known, bytes, self.before + took);
        core.control.set_redo_speed(speed);
        core.recovered.store(true, Ordering::Release);
    }
}
