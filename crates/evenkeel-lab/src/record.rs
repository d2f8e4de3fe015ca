//! Record of a run: one JSON file, complete or absent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// Records of another format are not read.
pub const FORMAT: u32 = 1;

/// How much is run: a first answer in minutes, or the figures to publish.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default, Hash,
)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// Small data, seconds per run, one round.
    #[default]
    Quick,
    /// The seeds' sizes, several rounds.
    Full,
}

impl Extent {
    /// Its name in paths and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Extent::Quick => "quick",
            Extent::Full => "full",
        }
    }
}

/// One run of one case on one subject.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`].
    pub format: u32,
    /// The experiment.
    pub experiment: String,
    /// The case within the experiment.
    pub case: String,
    /// The subject's label.
    pub subject: String,
    /// The subject's own version text.
    pub version: String,
    /// Tells builds of the same version apart: size and time of the binary.
    pub build: String,
    /// Quick or full.
    pub extent: Extent,
    /// Which repetition, from 1.
    pub round: u32,
    /// When it began, in UTC.
    pub started: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Why there is no result, when there is none.
    pub hole: Option<String>,
    /// The settings the server ran with.
    pub settings: BTreeMap<String, String>,
    /// Settings asked for that the subject does not have.
    pub missing: Vec<String>,
    /// Slow disk, cold cache and the like, as they were.
    pub environment: Vec<String>,
    /// The command lines, in order.
    pub commands: Vec<String>,
    /// The measurements.
    pub rows: Vec<Row>,
}

/// One measurement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Row {
    /// The measurement.
    pub label: String,
    /// Why there is no result, when there is none.
    pub hole: Option<String>,
    /// Figures by key; the experiment says what each means.
    pub figures: BTreeMap<String, f64>,
    /// Values over time: (seconds from the start, value).
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// Counts of the subject's statistics views during the measurement.
    pub counters: BTreeMap<String, f64>,
}

impl Row {
    /// An empty row.
    #[must_use]
    pub fn new(label: &str) -> Row {
        Row {
            label: label.to_owned(),
            ..Row::default()
        }
    }

    /// A row that says why it is empty.
    #[must_use]
    pub fn hole(label: &str, reason: String) -> Row {
        Row {
            hole: Some(reason),
            ..Row::new(label)
        }
    }
}

/// Where a run's record lies below the results' directory.
#[must_use]
pub fn path(
    out: &Path,
    extent: Extent,
    experiment: &str,
    case: &str,
    subject: &str,
    round: u32,
) -> PathBuf {
    let file = format!("{}.{}.{round}.json", plain(case), plain(subject));
    out.join(extent.name()).join(experiment).join(file)
}

/// A name as part of a file name.
#[must_use]
pub fn plain(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    name.chars().map(plain).collect()
}

impl Record {
    /// Writes the record in place of an older one, at once or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, out: &Path) -> Result<PathBuf, LabError> {
        let path = path(
            out,
            self.extent,
            &self.experiment,
            &self.case,
            &self.subject,
            self.round,
        );
        let dir = path.parent().unwrap_or(out);
        std::fs::create_dir_all(dir).map_err(LabError::file("creating", dir))?;
        let text = serde_json::to_vec(self).map_err(|e| LabError::Usage(e.to_string()))?;
        let partial = path.with_extension("partial");
        std::fs::write(&partial, text)
            .inspect_err(|_| drop(std::fs::remove_file(&partial)))
            .map_err(LabError::file("writing", &partial))?;
        std::fs::rename(&partial, &path).map_err(LabError::file("renaming", &partial))?;
        Ok(path)
    }

    /// Reads a record; `None` when it is absent, unreadable or of another format.
    #[must_use]
    pub fn load(path: &Path) -> Option<Record> {
        let record: Record = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        (record.format == FORMAT).then_some(record)
    }

    /// Every record below `out`, in a stable order; files that are none are passed over.
    #[must_use]
    pub fn load_all(out: &Path) -> Vec<Record> {
        let mut records = Vec::new();
        for extent in [Extent::Quick, Extent::Full] {
            for dir in entries(&out.join(extent.name())) {
                for file in entries(&dir) {
                    if file.extension().is_some_and(|e| e == "json") {
                        records.extend(Record::load(&file));
                    }
                }
            }
        }
        records
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    paths
}

/// The present time, as [`Record::started`] has it.
#[must_use]
pub fn now() -> String {
    chrono::Utc::now()
        .format("%Y-%m-%d %H:%M:%S UTC")
        .to_string()
}

/// The middle of `values` (of an even number, the mean of the two in the middle).
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*values.get(values.len() / 2 - 1)?, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_even_and_odd() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn damaged_records_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let flush = dir.path().join("quick/flush");
        std::fs::create_dir_all(&flush).unwrap();
        std::fs::write(flush.join("a.json"), "{\"format\":1").unwrap();
        std::fs::write(flush.join("b.json"), "[]").unwrap();
        assert!(Record::load_all(dir.path()).is_empty());
        assert!(Record::load_all(&dir.path().join("absent")).is_empty());
    }

    #[test]
    fn names_become_plain_file_names() {
        let path = path(
            Path::new("o"),
            Extent::Full,
            "flush",
            "flushing off/1",
            "a b",
            2,
        );
        assert_eq!(path, Path::new("o/full/flush/flushing-off-1.a-b.2.json"));
    }
}
