//! The figures of all rounds, as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::measure::{Latency, Measured};
use crate::subject::Result;

/// The version of the JSON's shape.
const SCHEMA: u32 = 1;

/// Result of one workload in one round.
pub struct Sample {
    /// The workload's name.
    pub workload: &'static str,
    /// Threads that did it.
    pub threads: u32,
    /// Unit of the value.
    pub unit: &'static str,
    /// The figure; none if it could not be had.
    pub value: Option<f64>,
    /// Latencies, for what has them.
    pub latency: Option<Latency>,
    /// Processor time for one of the unit's things, in seconds.
    pub cpu: Option<f64>,
    /// Acknowledged commits that were not there.
    pub lost: Option<u64>,
    /// A remark on the result.
    pub note: String,
}

impl Sample {
    /// A rate with its latencies.
    pub fn rate(
        workload: &'static str,
        threads: u32,
        unit: &'static str,
        measured: Measured,
    ) -> Sample {
        Sample {
            threads,
            value: Some(measured.rate()),
            cpu: Some(measured.cpu.as_secs_f64() / measured.operations.max(1) as f64),
            latency: Some(measured.latency),
            ..Sample::plain(workload, unit, 0.0)
        }
    }

    /// A time in seconds.
    pub fn time(workload: &'static str, threads: u32, took: Duration) -> Sample {
        Sample {
            threads,
            ..Sample::plain(workload, "s", took.as_secs_f64())
        }
    }

    /// A figure and nothing else.
    pub fn plain(workload: &'static str, unit: &'static str, value: f64) -> Sample {
        Sample {
            workload,
            threads: 1,
            unit,
            value: Some(value),
            latency: None,
            cpu: None,
            lost: None,
            note: String::new(),
        }
    }

    /// A figure that could not be had, and why.
    pub fn hole(
        workload: &'static str,
        threads: u32,
        unit: &'static str,
        why: impl Into<String>,
    ) -> Sample {
        Sample {
            threads,
            value: None,
            note: why.into(),
            ..Sample::plain(workload, unit, 0.0)
        }
    }
}

/// Everything that is written as JSON.
#[derive(Serialize)]
pub struct Report {
    schema: u32,
    experiment: &'static str,
    /// When the run began, UTC.
    pub started: String,
    /// How long it has taken so far.
    pub seconds: f64,
    /// Whether all rounds were run.
    pub finished: bool,
    /// `quick` or `full`.
    pub mode: &'static str,
    /// Rounds that were asked for.
    pub rounds: u32,
    /// The command line.
    pub command: String,
    /// The machine.
    pub machine: BTreeMap<&'static str, serde_json::Value>,
    /// The plan's numbers.
    pub settings: BTreeMap<&'static str, serde_json::Value>,
    /// The subjects compared.
    pub subjects: Vec<SubjectLine>,
    /// The subjects that are missing.
    pub missing: Vec<Missing>,
    /// The figures.
    pub results: Vec<Line>,
}

/// A subject, as reported.
#[derive(Serialize)]
pub struct SubjectLine {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: String,
    /// How a commit is made durable.
    pub durability: &'static str,
    /// Its settings.
    pub settings: &'static str,
}

/// A subject that is not in this build.
#[derive(Serialize)]
pub struct Missing {
    /// Its name.
    pub name: &'static str,
    /// The reason.
    pub why: &'static str,
}

/// All rounds of one workload on one subject.
#[derive(Serialize)]
pub struct Line {
    /// The workload.
    pub workload: &'static str,
    /// The subject.
    pub subject: &'static str,
    /// Its version.
    pub version: String,
    /// Threads that did it.
    pub threads: u32,
    /// Unit of the figures.
    pub unit: &'static str,
    /// A figure for every round that gave one.
    pub rounds: Vec<f64>,
    /// Their median.
    pub median: Option<f64>,
    /// Over all rounds, in seconds.
    pub latency: Option<Percentiles>,
    /// Processor time of the process for one of the unit's things, in seconds; the median.
    pub cpu: Option<f64>,
    /// Acknowledged commits that were not there.
    pub lost: Option<u64>,
    /// A remark on the result.
    pub note: String,
    #[serde(skip)]
    histogram: Option<Latency>,
    #[serde(skip)]
    cpu_rounds: Vec<f64>,
}

/// Latencies in seconds.
#[derive(Serialize)]
pub struct Percentiles {
    /// Half were faster.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The worst.
    pub max: f64,
}

impl Report {
    /// A report without figures.
    pub fn new(mode: &'static str, rounds: u32) -> Report {
        Report {
            schema: SCHEMA,
            experiment: "embedded",
            started: String::new(),
            seconds: 0.0,
            finished: false,
            mode,
            rounds,
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: BTreeMap::new(),
            settings: BTreeMap::new(),
            subjects: Vec::new(),
            missing: Vec::new(),
            results: Vec::new(),
        }
    }

    /// Adds one round's sample.
    pub fn add(&mut self, subject: &'static str, version: &str, sample: Sample) -> Result<()> {
        let same = |line: &Line| {
            (line.workload, line.threads, line.subject)
                == (sample.workload, sample.threads, subject)
        };
        let at = match self.results.iter().position(same) {
            Some(at) => at,
            None => {
                self.results.push(Line {
                    workload: sample.workload,
                    subject,
                    version: version.to_owned(),
                    threads: sample.threads,
                    unit: sample.unit,
                    rounds: Vec::new(),
                    median: None,
                    latency: None,
                    cpu: None,
                    lost: None,
                    note: String::new(),
                    histogram: None,
                    cpu_rounds: Vec::new(),
                });
                self.results.len() - 1
            }
        };
        self.results[at].add(sample)
    }

    /// Writes the JSON whole, or leaves what was there.
    pub fn write(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("json.new");
        std::fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        Ok(std::fs::rename(&new, path)?)
    }

    /// The table for people: medians, and the ratio to the first subject.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let mut shown = Vec::new();
        for line in &self.results {
            let what = (line.workload, line.threads);
            if shown.contains(&what) {
                continue;
            }
            shown.push(what);
            let _ = writeln!(text, "\n{} · {} thread(s) · {}", what.0, what.1, line.unit);
            let same = |other: &&Line| (other.workload, other.threads) == what;
            let lines: Vec<_> = self.results.iter().filter(same).collect();
            let first = self.subjects.first().map(|subject| subject.name);
            let base = lines.iter().find(|line| Some(line.subject) == first);
            let base = base.and_then(|line| line.median);
            for line in lines {
                line.show(base, &mut text);
            }
        }
        text
    }
}

impl Line {
    fn add(&mut self, sample: Sample) -> Result<()> {
        self.rounds.extend(sample.value);
        self.median = median(&self.rounds);
        self.cpu_rounds.extend(sample.cpu);
        self.cpu = median(&self.cpu_rounds);
        match (&mut self.histogram, sample.latency) {
            (Some(all), Some(more)) => all.add(&more)?,
            (none, more) => *none = none.take().or(more),
        }
        self.latency = self.histogram.as_ref().map(percentiles);
        if let Some(lost) = sample.lost {
            *self.lost.get_or_insert(0) += lost;
        }
        if !sample.note.is_empty() && !self.note.contains(&sample.note) {
            let gap = if self.note.is_empty() { "" } else { "; " };
            self.note = format!("{}{gap}{}", self.note, sample.note);
        }
        Ok(())
    }

    fn show(&self, base: Option<f64>, text: &mut String) {
        let _ = write!(text, "  {:<10}", self.subject);
        match self.median {
            Some(median) => {
                let _ = write!(text, "{median:>14.3}");
                let ratio = base.map_or(1.0, |base| median / base);
                let _ = write!(text, "  ×{ratio:<8.3}");
            }
            None => text.push_str("             -           "),
        }
        if let Some(latency) = &self.latency {
            let Percentiles {
                p50,
                p99,
                p999,
                max,
            } = latency;
            let [p50, p99, p999, max] = [p50, p99, p999, max].map(|seconds| seconds * 1e6);
            let _ = write!(
                text,
                "  p50 {p50:.1}  p99 {p99:.1}  p99.9 {p999:.1}  max {max:.0} µs"
            );
        }
        if let Some(cpu) = self.cpu {
            let _ = write!(text, "  cpu {:.2} µs", cpu * 1e6);
        }
        if let Some(lost) = self.lost {
            let _ = write!(text, "  lost {lost}");
        }
        let _ = writeln!(text, "  {}", self.note);
    }
}

fn percentiles(all: &Latency) -> Percentiles {
    let at = |quantile| all.value_at_quantile(quantile) as f64 / 1e9;
    Percentiles {
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: all.max() as f64 / 1e9,
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    match sorted.len() % 2 {
        0 => Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper)),
        _ => Some(upper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_rounds_that_succeeded() {
        let mut report = Report::new("quick", 3);
        for value in [3.0, 1.0, 2.0] {
            let sample = Sample::plain("size", "MB", value);
            report.add("a", "1", sample).unwrap();
        }
        let hole = Sample::hole("size", 1, "MB", "no disk");
        report.add("a", "1", hole).unwrap();
        let line = &report.results[0];
        assert_eq!((line.rounds.len(), line.median), (3, Some(2.0)));
        assert_eq!(line.note, "no disk");
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn lost_commits_add_up_over_rounds() {
        let mut report = Report::new("quick", 2);
        for lost in [0, 2, 1] {
            let sample = Sample {
                lost: Some(lost),
                ..Sample::plain("reopen", "s", 1.0)
            };
            report.add("a", "1", sample).unwrap();
        }
        assert_eq!(report.results[0].lost, Some(3));
    }
}
