//! `pgbench`'s per-transaction log, read into percentiles and per-second series.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;

use crate::error::LabError;
use crate::record::median;
use crate::sample::SeriesSet;

/// Longest latency that is told apart: an hour, in microseconds.
const LATENCY_MAX: u64 = 3_600_000_000;
/// Significant digits of a latency in the whole run, and in one second of it.
const DIGITS: u8 = 3;
const DIGITS_OF_A_SECOND: u8 = 2;
const MS: f64 = 1_000.0;
const SECONDS_MAX: usize = 1 << 20;
/// Stolen processor time, in percent, above which a second says more of the machine than of the
/// server.
const CALM_MAX: f64 = 3.0;
/// A shorter part of a run, in seconds, has no rate worth telling.
const PART_MIN: f64 = 0.2;

/// One second of a run.
struct Second {
    done: u64,
    late: u64,
    latencies: Histogram<u32>,
}

/// Totals of a transaction log.
pub struct Log {
    /// Unix time, in seconds, at which the first transaction began.
    start: f64,
    /// Latency, in microseconds, above which a transaction is late.
    limit: Option<u64>,
    all: Histogram<u64>,
    seconds: Vec<Second>,
    late: u64,
    skipped: u64,
    /// Unix times at which the run is cut into parts, in order.
    cuts: Vec<f64>,
    /// Transactions that ended in each part.
    parts: Vec<u64>,
}

/// A line's fields: (Unix time of the end in seconds, latency in microseconds; `None`: skipped).
fn parse(line: &str) -> Option<(f64, Option<u64>)> {
    let mut fields = line.split(' ').skip(2);
    let latency = fields.next()?;
    let mut fields = fields.skip(1);
    let seconds: f64 = fields.next()?.parse().ok()?;
    let micros: f64 = fields.next()?.parse().ok()?;
    let latency = match latency {
        "skipped" => None,
        // A failed transaction has a word for its latency.
        number => Some(number.parse().ok()?),
    };
    Some((seconds + micros / 1e6, latency))
}

fn lines(file: &Path) -> Result<std::io::Lines<BufReader<File>>, LabError> {
    let reader = File::open(file).map_err(LabError::file("opening", file))?;
    Ok(BufReader::new(reader).lines())
}

/// When the first transaction of a file began; that of an empty one never did. `pgbench` itself
/// begins sooner: it connects all its clients first.
fn began(file: &Path) -> Result<f64, LabError> {
    let first = lines(file)?
        .map_while(Result::ok)
        .find_map(|line| parse(&line));
    Ok(first.map_or(f64::INFINITY, |(end, latency)| {
        end - latency.unwrap_or(0) as f64 / 1e6
    }))
}

fn histogram<C: hdrhistogram::Counter>(digits: u8) -> Result<Histogram<C>, LabError> {
    Histogram::new_with_bounds(1, LATENCY_MAX, digits)
        .map_err(|e| LabError::Usage(format!("no histogram: {e}")))
}

impl Log {
    /// An empty log of a run whose transactions are late above `limit_ms`.
    ///
    /// # Errors
    /// Never in practice: the histogram's bounds are fixed.
    pub fn new(limit_ms: Option<u32>) -> Result<Log, LabError> {
        Ok(Log {
            start: f64::INFINITY,
            limit: limit_ms.map(|ms| u64::from(ms) * 1_000),
            all: histogram(DIGITS)?,
            seconds: Vec::new(),
            late: 0,
            skipped: 0,
            cuts: Vec::new(),
            parts: vec![0],
        })
    }

    /// Counts what is read from here on by the part of the run in which it ended: before, between
    /// and after `cuts`, Unix times in order.
    pub fn cut(&mut self, cuts: &[f64]) {
        self.cuts = cuts.to_vec();
        self.parts = vec![0; cuts.len() + 1];
    }

    /// Reads every file of the directory `dir`, and empties it.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(&mut self, dir: &Path) -> Result<(), LabError> {
        let entries = std::fs::read_dir(dir).map_err(LabError::file("listing", dir))?;
        let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        for file in &files {
            self.start = self.start.min(began(file)?);
        }
        for file in files {
            for line in lines(&file)? {
                self.line(&line.map_err(LabError::file("reading", &file))?)?;
            }
            std::fs::remove_file(&file).map_err(LabError::file("removing", &file))?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), LabError> {
        let Some((end, latency)) = parse(line) else {
            return Ok(());
        };
        let late = match (latency, self.limit) {
            (Some(latency), Some(limit)) => latency > limit,
            (latency, _) => latency.is_none(),
        };
        let index = (end - self.start).max(0.0) as usize;
        if index >= SECONDS_MAX {
            return Ok(());
        }
        while self.seconds.len() <= index {
            self.seconds.push(Second {
                done: 0,
                late: 0,
                latencies: histogram(DIGITS_OF_A_SECOND)?,
            });
        }
        let Some(second) = self.seconds.get_mut(index) else {
            return Ok(());
        };
        second.late += u64::from(late);
        match latency {
            Some(latency) => {
                second.done += 1;
                let part = self.cuts.partition_point(|cut| *cut <= end);
                if let Some(part) = self.parts.get_mut(part) {
                    *part += 1;
                }
                second.latencies.saturating_record(latency.max(1));
                self.all.saturating_record(latency.max(1));
                self.late += u64::from(late);
            }
            None => self.skipped += 1,
        }
        Ok(())
    }

    /// The figures of a run that was to take `duration` whole seconds, or as long as it took.
    #[must_use]
    pub fn figures(&self, duration: Option<usize>) -> BTreeMap<String, f64> {
        let mut figures = BTreeMap::new();
        let done = self.all.len();
        if done == 0 && self.skipped == 0 {
            return figures;
        }
        let mut put = |name: &str, value: f64| figures.insert(name.to_owned(), value);
        put("transactions", done as f64);
        let quantile = |of: f64| self.all.value_at_quantile(of).max(1) as f64 / MS;
        for (name, of) in [("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999)] {
            put(name, quantile(of));
        }
        put("p999_times", quantile(0.999) / quantile(0.5));
        put("max_ms", self.all.max() as f64 / MS);
        if self.limit.is_some() {
            let late = (self.late + self.skipped) as f64;
            put("late_pct", 100.0 * late / (done + self.skipped) as f64);
        }
        let rates = self.rates(duration);
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        let variance = rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>();
        put("tps_stddev", (variance / rates.len().max(1) as f64).sqrt());
        if let Some(worst) = rates.iter().copied().reduce(f64::min) {
            put("worst_second_tps", worst);
        }
        if let Some(worst) = worst_of_median(&rates) {
            put("worst_second_pct", worst);
        }
        let empty = rates.iter().filter(|rate| **rate < 0.5).count();
        put("empty_seconds", empty as f64);
        figures
    }

    /// Transactions a second in each part; a part too short to tell has none.
    #[must_use]
    pub fn part_rates(&self, duration: Option<usize>) -> Vec<Option<f64>> {
        let seconds = duration.unwrap_or(self.seconds.len()) as f64;
        let ends = self.cuts.iter().copied().chain([self.start + seconds]);
        let mut from = self.start;
        let parts = self.parts.iter().zip(ends).map(|(done, end)| {
            let span = end - from;
            from = end;
            (span >= PART_MIN).then(|| *done as f64 / span)
        });
        parts.collect()
    }

    /// How many seconds of the run were calm, and how deep the worst of them is. `stolen` is
    /// sampled since the Unix time `begun`, each value for the time since the one before it. A
    /// second is calm when it was sampled, and little was stolen in all samples that it shares
    /// time with: the two clocks do not tick together.
    #[must_use]
    pub fn calm(
        &self,
        duration: Option<usize>,
        begun: f64,
        stolen: &[(f64, f64)],
    ) -> BTreeMap<String, f64> {
        let shift = begun - self.start;
        let mut from = shift;
        let mut samples = Vec::new();
        for (at, share) in stolen {
            samples.push((from, at + shift, *share));
            from = at + shift;
        }
        let is_calm = |second: f64| {
            let shared = |(from, to, _): &&(f64, f64, f64)| *from < second + 1.0 && *to > second;
            let mut shared = samples.iter().filter(shared).peekable();
            shared.peek().is_some() && shared.all(|(_, _, share)| *share <= CALM_MAX)
        };
        let rates = self.rates(duration).into_iter().enumerate();
        let calm = rates.filter(|(second, _)| is_calm(*second as f64));
        let calm: Vec<f64> = calm.map(|(_, rate)| rate).collect();
        let mut figures = BTreeMap::new();
        if !samples.is_empty() {
            figures.insert("calm_seconds".to_owned(), calm.len() as f64);
        }
        if let Some(worst) = worst_of_median(&calm) {
            figures.insert("worst_calm_pct".to_owned(), worst);
        }
        figures
    }

    /// Transactions in each whole second; seconds in which none ended count.
    fn rates(&self, duration: Option<usize>) -> Vec<f64> {
        let whole = duration.unwrap_or_else(|| self.seconds.len().saturating_sub(1).max(1));
        let rate = |second| {
            let second: Option<&Second> = self.seconds.get(second);
            second.map_or(0.0, |second| second.done as f64)
        };
        (0..whole).map(rate).collect()
    }

    /// Throughput and latency, second by second; a second without an end has no latency.
    pub fn series(&self, duration: Option<usize>, series: &mut SeriesSet) {
        for (index, rate) in self.rates(duration).into_iter().enumerate() {
            let at = index as f64 + 0.5;
            let mut put = |name: &str, value: f64| {
                series.entry(name.to_owned()).or_default().push((at, value));
            };
            put("tps", rate);
            let Some(second) = self.seconds.get(index) else {
                continue;
            };
            if self.limit.is_some() {
                put("late", second.late as f64);
            }
            if second.done > 0 {
                let p99 = second.latencies.value_at_quantile(0.99);
                put("p99_ms", p99 as f64 / MS);
            }
        }
    }
}

/// The least of `rates`, in percent of the one in the middle.
fn worst_of_median(rates: &[f64]) -> Option<f64> {
    let worst = rates.iter().copied().reduce(f64::min)?;
    let middle = median(rates.to_vec()).filter(|middle| *middle > 0.0)?;
    Some(100.0 * worst / middle)
}

/// The rate that `pgbench` itself prints.
#[must_use]
pub fn printed_rate(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("tps = "))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

/// Transactions that failed, by what `pgbench` prints.
#[must_use]
pub fn failed(text: &str) -> Option<f64> {
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("number of failed transactions: "))?;
    count.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Log {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("log.1"), lines.join("\n")).unwrap();
        let mut log = Log::new(Some(100)).unwrap();
        log.read(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        log
    }

    #[test]
    fn late_and_skipped_transactions_are_shares_of_all() {
        let log = log(&[
            "0 1 2000 0 1000 252000",
            "0 2 100001 0 1000 600000 12",
            "1 3 skipped 0 1002 300000 150000",
            "1 4 5000 0 1002 900000",
        ]);
        let figures = log.figures(Some(4));
        assert!((figures["late_pct"] - 50.0).abs() < 1e-9, "{figures:?}");
        assert!((figures["transactions"] - 3.0).abs() < 1e-9);
        assert!(figures["worst_second_tps"].abs() < 1e-9);
        assert!((figures["empty_seconds"] - 2.0).abs() < 1e-9);
        assert!((figures["max_ms"] - 100.0).abs() < 0.2);
    }

    #[test]
    fn seconds_count_from_the_start_of_the_first_transaction() {
        let log = log(&[
            "0 1 failed 0 1000 100000",
            "0 1 1050000 0 1001 300000",
            "0 1 4000 0 1001 240000",
            "rubbish",
        ]);
        let mut series = SeriesSet::new();
        log.series(Some(3), &mut series);
        assert_eq!(series["tps"], vec![(0.5, 1.0), (1.5, 1.0), (2.5, 0.0)]);
        assert_eq!(series["p99_ms"].len(), 2);
    }

    /// Transactions of a millisecond that end in each second from 1000 on.
    fn with_rates(rates: &[usize]) -> Log {
        let mut lines = vec!["0 1 1000 0 1000 1000".to_owned()];
        for (second, rate) in rates.iter().enumerate() {
            let (second, first) = (1_000 + second, usize::from(second == 0));
            let line = format!("0 1 1000 0 {second} 500000");
            lines.extend(std::iter::repeat_n(line, rate - first));
        }
        log(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[test]
    fn the_worst_second_is_a_share_of_the_median_second() {
        let figures = with_rates(&[10, 4, 12, 8]).figures(Some(4));
        assert!((figures["worst_second_pct"] - 400.0 / 9.0).abs() < 1e-9);
        assert!((figures["p999_times"] - 1.0).abs() < 1e-9);
        assert_eq!(worst_of_median(&[0.0, 0.0, 7.0]), None);
        assert_eq!(worst_of_median(&[]), None);
    }

    #[test]
    fn seconds_are_calm_when_little_was_stolen_in_all_samples_they_share() {
        let log = with_rates(&[10, 2, 12, 8, 11, 10]);
        // From half a second before the run on, and not to its end.
        let stolen = [(1.0, 0.0), (2.0, 9.0), (3.0, 3.0), (4.0, 0.0), (5.0, 0.0)];
        let figures = log.calm(Some(6), 999.5, &stolen);
        // The first two share time with the sample that is not calm; the last was not sampled.
        assert!((figures["calm_seconds"] - 3.0).abs() < 1e-9, "{figures:?}");
        assert!((figures["worst_calm_pct"] - 800.0 / 11.0).abs() < 1e-9);
        assert!(log.calm(Some(6), 999.5, &[]).is_empty());
        let figures = log.calm(Some(6), 999.5, &[(9.0, 5.0)]);
        assert_eq!(figures.keys().collect::<Vec<_>>(), ["calm_seconds"]);
    }

    #[test]
    fn a_run_is_cut_at_the_times_given() {
        let dir = tempfile::tempdir().unwrap();
        let ends = ["1000 500000", "1000 999999", "1001 0", "1002 400000"];
        let lines = ends.map(|end| format!("0 1 500000 0 {end}\n"));
        std::fs::write(dir.path().join("log.1"), lines.concat()).unwrap();
        let mut log = Log::new(None).unwrap();
        log.cut(&[1_001.0, 1_002.0]);
        log.read(dir.path()).unwrap();
        assert_eq!(
            log.part_rates(Some(4)),
            [Some(2.0), Some(1.0), Some(0.5)],
            "from the first transaction's start to the end of the run"
        );
        log.cut(&[1_002.9]);
        assert_eq!(
            log.part_rates(None),
            [Some(0.0), None],
            "0.1 s are too short"
        );
    }

    #[test]
    fn the_rate_is_the_one_without_connecting() {
        let text = "latency average = 1 ms\ntps = 812.5 (without initial connection time)\n";
        assert_eq!(printed_rate(text), Some(812.5));
        assert_eq!(printed_rate("pgbench: error"), None);
    }

    #[test]
    fn failed_transactions_are_counted() {
        let text = "number of transactions actually processed: 9\n\
                    number of failed transactions: 3 (25.000%)\n";
        assert_eq!(failed(text), Some(3.0));
        assert_eq!(failed("tps = 1"), None);
    }
}
