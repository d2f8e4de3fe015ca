//! Definition of an experiment: a table of cases, each a list of steps, and how its figures read.

use crate::record::Extent;

/// An experiment.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its headline.
    pub title: &'static str,
    /// Its question, in a sentence or two.
    pub question: &'static str,
    /// How this set-up differs from the seed's, or what to know when reading it.
    pub notes: &'static [&'static str],
    /// The discussion it repeats, with its figures.
    pub seed: Option<&'static Seed>,
    /// The figures, the one that is compared first.
    pub figures: &'static [Figure],
    /// The values drawn over time.
    pub plots: &'static [Plot],
    /// The (case, row) pairs that the README's comparison shows.
    pub headlines: &'static [(&'static str, &'static str)],
    /// Why evenkeel is behind where it has been found to be; shown where it is.
    pub reasons: &'static [Reason],
    /// How it is measured.
    pub work: Work,
}

/// Why a measurement of evenkeel is behind PostgreSQL's.
pub struct Reason {
    /// The case; empty for all.
    pub case: &'static str,
    /// How the row's name begins; empty for all.
    pub label: &'static str,
    /// The figures' keys; empty for all.
    pub figures: &'static [&'static str],
    /// The cause, in a sentence.
    pub why: &'static str,
}

impl Experiment {
    /// The first reason given for a measurement's figure.
    pub fn reason(&self, case: &str, label: &str, figure: &str) -> Option<&'static str> {
        let fits = |reason: &&Reason| {
            (reason.case.is_empty() || reason.case == case)
                && label.starts_with(reason.label)
                && (reason.figures.is_empty() || reason.figures.contains(&figure))
        };
        self.reasons.iter().find(fits).map(|reason| reason.why)
    }
}

/// How an experiment is measured.
pub enum Work {
    /// By servers and stock clients.
    Servers {
        /// Repetitions.
        rounds: fn(Extent) -> u32,
        /// The cases.
        cases: fn(Extent) -> Vec<Case>,
    },
    /// By the benchmark program of the embedded API.
    Embedded,
}

/// A discussion's own measurements.
pub struct Seed {
    /// Author, list or place, and date.
    pub source: &'static str,
    /// Column headings.
    pub head: &'static [&'static str],
    /// Its figures.
    pub rows: &'static [&'static [&'static str]],
}

/// Which way a figure is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    More,
    /// Less is better.
    Less,
    /// It explains, and is neither.
    Neither,
}

/// A column of an experiment's table.
pub struct Figure {
    /// Its key in [`crate::record::Row::figures`].
    pub key: &'static str,
    /// Its heading.
    pub label: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Which way is good.
    pub better: Better,
}

/// A series drawn over time.
pub struct Plot {
    /// Its key in [`crate::record::Row::series`].
    pub key: &'static str,
    /// The vertical axis's label.
    pub label: &'static str,
    /// The vertical axis's unit.
    pub unit: &'static str,
}

/// One set-up on one fresh server.
pub struct Case {
    /// Its name.
    pub name: String,
    /// The server's settings.
    pub settings: Vec<(&'static str, String)>,
    /// The settings, by the subjects' several names, that this case is about: without any of
    /// them a subject has only the default case.
    pub switch: &'static [&'static str],
    /// Whether a subject without the switch runs this case.
    pub default: bool,
    /// Megabytes of disk that it fills.
    pub space_mb: u64,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// A case without a switch.
    #[must_use]
    pub fn new(name: &str, settings: &[(&'static str, &str)], steps: Vec<Step>) -> Case {
        Case {
            name: name.to_owned(),
            settings: settings
                .iter()
                .map(|(n, v)| (*n, (*v).to_owned()))
                .collect(),
            switch: &[],
            default: true,
            space_mb: 2_000,
            steps,
        }
    }

    /// The same, filling `megabytes`.
    #[must_use]
    pub fn filling(mut self, megabytes: u64) -> Case {
        self.space_mb = megabytes;
        self
    }

    /// The same, about the setting of one of these names; `default`: also for a subject that
    /// has none of them.
    #[must_use]
    pub fn about(mut self, names: &'static [&'static str], default: bool) -> Case {
        self.switch = names;
        self.default = default;
        self
    }
}

/// A step of a case.
pub enum Step {
    /// `pgbench -i` at a scale; a row of its own, `load`.
    Load(u32),
    /// A statement that is not measured.
    Sql(String),
    /// A run of `pgbench`.
    Pgbench(Workload),
    /// A statement timed by `psql`.
    Statement {
        /// The row's label.
        label: String,
        /// Settings that the same session makes first.
        set: Vec<Set>,
        /// The statement that is timed.
        sql: String,
    },
    /// From here on the server may write this often a second.
    SlowDisk(u32),
    /// The data directory's size; a row of its own.
    Size,
    /// Every process of the server is killed, and the directory kept as an image.
    Crash,
    /// A server is started over a copy of the image.
    Recover(Recovery),
    /// A server is started over the crashed directory itself, and serves the steps that follow;
    /// the row's label.
    Restart(String),
}

/// A setting of one session.
pub struct Set {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: &'static str,
    /// Whether the measurement means nothing without it.
    pub required: bool,
}

/// A run of `pgbench`.
#[derive(Default)]
pub struct Workload {
    /// The row's label.
    pub label: String,
    /// Arguments beside those that every run has.
    pub args: Vec<String>,
    /// How long, in seconds; none: the arguments say when it ends.
    pub seconds: Option<u32>,
    /// Transactions above this latency are late.
    pub limit_ms: Option<u32>,
    /// The text of a script of its own.
    pub script: Option<&'static str>,
    /// A checkpoint is asked for this many seconds into the run.
    pub checkpoint_at: Option<u32>,
    /// A statement of one more session, which must end with the run at the latest.
    pub beside: Option<Beside>,
}

/// A statement beside a run of `pgbench`.
pub struct Beside {
    /// How many seconds into the run it begins.
    pub at: u32,
    /// Input of `psql`.
    pub sql: String,
    /// Megabytes of rows in the file `copy.txt` that `psql` finds in its directory.
    pub file_mb: Option<u64>,
}

impl Workload {
    /// A run of `seconds` with arguments separated by spaces.
    #[must_use]
    pub fn new(label: &str, args: &str, seconds: u32) -> Workload {
        Workload {
            label: label.to_owned(),
            args: args.split_whitespace().map(str::to_owned).collect(),
            seconds: Some(seconds),
            ..Workload::default()
        }
    }

    /// A run that its arguments end.
    #[must_use]
    pub fn counted(label: &str, args: &str) -> Workload {
        Workload {
            seconds: None,
            ..Workload::new(label, args, 0)
        }
    }
}

/// A start over a crashed directory.
pub struct Recovery {
    /// The row's label.
    pub label: String,
    /// Settings that differ from the case's.
    pub settings: Vec<(&'static str, String)>,
    /// Settings without which the row means nothing.
    pub needs: Option<&'static str>,
    /// Whether the page cache is emptied first.
    pub cold: bool,
}

/// Shorthand for settings that differ by row.
#[must_use]
pub fn own(settings: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    settings
        .iter()
        .map(|(n, v)| (*n, (*v).to_owned()))
        .collect()
}
