//! Which vacuums and analyzes are running, and how far they are.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::vacuum_progress::VacuumProgress;

/// Which part of its work an analyze is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnalyzePhase {
    /// About to begin.
    #[default]
    Initializing,
    /// Reading pages chosen at random.
    AcquiringSampleRows,
    /// Working out the statistics of columns.
    ComputingStatistics,
    /// Writing them into the catalog.
    FinalizingAnalyze,
}

impl AnalyzePhase {
    /// PostgreSQL's name of the phase.
    pub fn name(self) -> &'static str {
        match self {
            AnalyzePhase::Initializing => "initializing",
            AnalyzePhase::AcquiringSampleRows => "acquiring sample rows",
            AnalyzePhase::ComputingStatistics => "computing statistics",
            AnalyzePhase::FinalizingAnalyze => "finalizing analyze",
        }
    }
}

/// How far an analyze is, under the names of `pg_stat_progress_analyze`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnalyzeProgress {
    /// Its current phase.
    pub phase: AnalyzePhase,
    /// Blocks to be read.
    pub sample_blks_total: u32,
    /// Blocks read.
    pub sample_blks_scanned: u32,
    /// Time spent sleeping because of the cost limit.
    pub delay_time: Duration,
}

/// A vacuum that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VacuumInProgress {
    /// The table's id.
    pub table: u64,
    /// The session's number, as the vacuum was told.
    pub pid: i32,
    /// How far it is.
    pub progress: VacuumProgress,
}

/// An analyze that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalyzeInProgress {
    /// The table's id.
    pub table: u64,
    /// The session's number.
    pub pid: i32,
    /// How far it is.
    pub progress: AnalyzeProgress,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Vacuum(VacuumProgress),
    Analyze(AnalyzeProgress),
}

#[derive(Debug)]
struct Entry {
    number: u64,
    table: u64,
    pid: i32,
    what: What,
}

/// All that run.
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    running: Vec<Entry>,
}

/// One that runs, as long as this lives.
#[derive(Debug)]
pub(crate) struct Running {
    progress: Arc<Progress>,
    number: u64,
}

impl Progress {
    fn enter(self: &Arc<Self>, table: u64, pid: i32, what: What) -> Running {
        let mut entries = self.0.lock();
        let number = entries.next;
        entries.next += 1;
        entries.running.push(Entry {
            number,
            table,
            pid,
            what,
        });
        Running {
            progress: Arc::clone(self),
            number,
        }
    }

    pub(crate) fn vacuum(self: &Arc<Self>, table: u64, pid: i32) -> Running {
        self.enter(table, pid, What::Vacuum(VacuumProgress::default()))
    }

    pub(crate) fn vacuums(&self) -> Vec<VacuumInProgress> {
        let entries = self.0.lock();
        let vacuums = entries.running.iter().filter_map(|entry| match entry.what {
            What::Vacuum(progress) => Some(VacuumInProgress {
                table: entry.table,
                pid: entry.pid,
                progress,
            }),
            What::Analyze(_) => None,
        });
        vacuums.collect()
    }

    pub(crate) fn analyzes(&self) -> Vec<AnalyzeInProgress> {
        let entries = self.0.lock();
        let analyzes = entries.running.iter().filter_map(|entry| match entry.what {
            What::Analyze(progress) => Some(AnalyzeInProgress {
                table: entry.table,
                pid: entry.pid,
                progress,
            }),
            What::Vacuum(_) => None,
        });
        analyzes.collect()
    }
}

impl Running {
    fn set(&self, what: What) {
        let mut entries = self.progress.0.lock();
        let mine = |entry: &&mut Entry| entry.number == self.number;
        if let Some(entry) = entries.running.iter_mut().find(mine) {
            entry.what = what;
        }
    }

    pub(crate) fn vacuum_at(&self, progress: &VacuumProgress) {
        self.set(What::Vacuum(*progress));
    }
}

/// An analyze that runs, as long as this lives.
#[derive(Debug)]
pub struct AnalyzeTask(Running);

impl AnalyzeTask {
    pub(crate) fn new(progress: &Arc<Progress>, table: u64, pid: i32) -> AnalyzeTask {
        let what = What::Analyze(AnalyzeProgress::default());
        AnalyzeTask(progress.enter(table, pid, what))
    }

    /// Tells how far it is.
    pub fn at(&self, progress: &AnalyzeProgress) {
        self.0.set(What::Analyze(*progress));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut entries = self.progress.0.lock();
        entries.running.retain(|entry| entry.number != self.number);
    }
}
