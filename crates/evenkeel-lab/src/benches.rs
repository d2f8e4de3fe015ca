//! Two runs of the Criterion benches beside each other, from what `cargo bench -- --save-baseline`
//! has left.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

use crate::error::LabError;

/// A bench that takes so much longer is slower, if that cannot be chance.
const TOLERANCE: f64 = 1.05;
/// Directories below the results in which no bench is looked for: a group, its function and its
/// value are three.
const DEEPEST: usize = 4;

/// Nanoseconds of an iteration, by Criterion's bootstrap.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Estimate {
    point_estimate: f64,
    confidence_interval: Interval,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Benchmark {
    full_id: String,
}

/// A bench in both runs.
struct Pair {
    before: Estimate,
    after: Estimate,
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.after.point_estimate / self.before.point_estimate
    }

    /// Beyond the tolerance, and the intervals do not meet.
    fn is_slower(&self) -> bool {
        let (before, after) = (
            self.before.confidence_interval,
            self.after.confidence_interval,
        );
        self.ratio() > TOLERANCE && after.lower_bound > before.upper_bound
    }

    fn is_faster(&self) -> bool {
        let (before, after) = (
            self.before.confidence_interval,
            self.after.confidence_interval,
        );
        self.ratio() < 1.0 / TOLERANCE && after.upper_bound < before.lower_bound
    }
}

fn read<T: for<'de> Deserialize<'de>>(file: &Path) -> Result<T, LabError> {
    let text = std::fs::read_to_string(file).map_err(LabError::file("read", file))?;
    serde_json::from_str(&text).map_err(|error| {
        let file = file.display();
        LabError::Usage(format!("{file} is no result of a bench: {error}"))
    })
}

/// The benches of a baseline, by name.
fn collect(
    dir: &Path,
    baseline: &str,
    depth: usize,
    into: &mut BTreeMap<String, Estimate>,
) -> Result<(), LabError> {
    let results = dir.join(baseline);
    if results.join("estimates.json").is_file() {
        let named: Benchmark = read(&results.join("benchmark.json"))?;
        let found: Estimates = read(&results.join("estimates.json"))?;
        into.insert(named.full_id, found.median);
    }
    if depth == DEEPEST {
        return Ok(());
    }
    let entries = std::fs::read_dir(dir).map_err(LabError::file("list", dir))?;
    for entry in entries {
        let path = entry.map_err(LabError::file("list", dir))?.path();
        if path.is_dir() {
            collect(&path, baseline, depth + 1, into)?;
        }
    }
    Ok(())
}

fn baseline(dir: &Path, name: &str) -> Result<BTreeMap<String, Estimate>, LabError> {
    let mut found = BTreeMap::new();
    collect(dir, name, 0, &mut found)?;
    if found.is_empty() {
        return Err(LabError::Usage(format!(
            "{} has no baseline {name}: `cargo bench -- --save-baseline {name}` makes it",
            dir.display()
        )));
    }
    Ok(found)
}

fn time(nanoseconds: f64) -> String {
    let (number, unit) = match nanoseconds {
        below if below < 1e3 => (below, "ns"),
        below if below < 1e6 => (below / 1e3, "µs"),
        below if below < 1e9 => (below / 1e6, "ms"),
        seconds => (seconds / 1e9, "s"),
    };
    format!("{number:.1} {unit}")
}

/// The comparison of two baselines, and the names of the benches that are slower.
fn compared(dir: &Path, before: &str, after: &str) -> Result<(String, Vec<String>), LabError> {
    let (old, mut new) = (baseline(dir, before)?, baseline(dir, after)?);
    let mut text = format!("{:<44} {before:>10} {after:>10}  ratio\n", "bench");
    let mut slower = Vec::new();
    for (name, before) in old {
        let Some(after) = new.remove(&name) else {
            let _ = writeln!(
                text,
                "{name:<44} {:>10} {:>10}",
                time(before.point_estimate),
                "-"
            );
            continue;
        };
        let pair = Pair { before, after };
        let word = match (pair.is_slower(), pair.is_faster()) {
            (true, _) => "slower",
            (_, true) => "faster",
            _ => "",
        };
        let times = [before, after].map(|estimate| time(estimate.point_estimate));
        let [before, after] = &times;
        let ratio = pair.ratio();
        let _ = writeln!(
            text,
            "{name:<44} {before:>10} {after:>10}  {ratio:.2} {word}"
        );
        if pair.is_slower() {
            slower.push(name);
        }
    }
    for (name, only) in new {
        let _ = writeln!(
            text,
            "{name:<44} {:>10} {:>10}",
            "-",
            time(only.point_estimate)
        );
    }
    Ok((text, slower))
}

/// Prints two baselines of Criterion's benches beside each other.
///
/// # Errors
/// A baseline that is not there; a bench that has become slower, by name.
pub fn compare(dir: &Path, before: &str, after: &str) -> Result<(), LabError> {
    let (text, slower) = compared(dir, before, after)?;
    print!("{text}");
    if slower.is_empty() {
        return Ok(());
    }
    Err(LabError::Slower(slower.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn save(dir: &Path, bench: &str, baseline: &str, median: f64) {
        let results = dir.join(bench).join(baseline);
        std::fs::create_dir_all(&results).unwrap();
        let (lower, upper) = (median * 0.98, median * 1.02);
        let estimates = format!(
            r#"{{"median": {{"point_estimate": {median}, "standard_error": 1.0,
                "confidence_interval": {{"confidence_level": 0.95, "lower_bound": {lower},
                "upper_bound": {upper}}}}}, "mean": {{}}}}"#
        );
        std::fs::write(results.join("estimates.json"), estimates).unwrap();
        let named = format!(r#"{{"group_id": "g", "full_id": "{bench}"}}"#);
        std::fs::write(results.join("benchmark.json"), named).unwrap();
    }

    #[test]
    fn benches_that_became_slower_beyond_chance_are_named() {
        let dir = tempfile::tempdir().unwrap();
        for (bench, before, after) in [
            ("btree/insert", 100.0, 130.0),
            ("scan/Forward", 5e6, 4e6),
            ("steady", 1000.0, 1010.0),
        ] {
            save(dir.path(), bench, "before", before);
            save(dir.path(), bench, "after", after);
        }
        save(dir.path(), "gone", "before", 1.0);
        let (text, slower) = compared(dir.path(), "before", "after").unwrap();
        assert_eq!(slower, ["btree/insert"]);
        assert!(text.contains("1.30 slower"), "{text}");
        assert!(text.contains("0.80 faster"), "{text}");
        assert!(text.contains("5.0 ms"), "{text}");
        assert!(matches!(
            compare(dir.path(), "before", "after"),
            Err(LabError::Slower(_))
        ));
        assert!(compare(dir.path(), "after", "after").is_ok());
        assert!(compare(dir.path(), "before", "never").is_err());
    }
}
