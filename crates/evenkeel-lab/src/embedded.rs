//! Runs `bench/embedded`, a program of its own, and turns its JSON into records.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::context::Context;
use crate::error::{LabError, one_line};
use crate::record::{self, Extent, FORMAT, Record, Row};
use crate::subject::Settings;

const SCHEMA: u32 = 1;
const PROGRAM: &str = "evenkeel-bench-embedded";
const MANIFEST: &str = "bench/embedded/Cargo.toml";
const NAME: &str = "embedded";

#[derive(Deserialize)]
struct Outcome {
    schema: u32,
    started: String,
    seconds: f64,
    /// Whether all its rounds were run: it writes what it has after each turn.
    #[serde(default)]
    finished: bool,
    #[serde(default)]
    rounds: u32,
    command: String,
    #[serde(default)]
    settings: std::collections::BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    subjects: Vec<Store>,
    #[serde(default)]
    missing: Vec<Missing>,
    results: Vec<Measured>,
}

#[derive(Deserialize)]
struct Store {
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    durability: String,
    #[serde(default)]
    settings: String,
}

#[derive(Deserialize)]
struct Missing {
    name: String,
    why: String,
}

#[derive(Deserialize)]
struct Measured {
    workload: String,
    subject: String,
    #[serde(default)]
    threads: u32,
    unit: String,
    median: Option<f64>,
    latency: Option<Latency>,
    lost: Option<f64>,
    #[serde(default)]
    note: String,
}

/// In seconds.
#[derive(Deserialize)]
struct Latency {
    p50: f64,
    p99: f64,
    max: f64,
}

/// Runs the program, unless its result is there and `again` is not asked for.
///
/// # Errors
/// [`LabError::Interrupted`]; everything else is a record with a hole.
pub fn run(
    context: &Context<'_>,
    extent: Extent,
    out: &Path,
    again: bool,
) -> Result<Vec<Record>, LabError> {
    match measure(context, extent, out, again) {
        Ok(records) => Ok(records),
        Err(LabError::Interrupted) => Err(LabError::Interrupted),
        Err(error) => Ok(vec![Record {
            hole: Some(error.reason()),
            started: record::now(),
            ..record("all", "evenkeel", extent)
        }]),
    }
}

fn measure(
    context: &Context<'_>,
    extent: Extent,
    out: &Path,
    again: bool,
) -> Result<Vec<Record>, LabError> {
    let manifest = manifest().ok_or_else(|| {
        LabError::unavailable(
            MANIFEST,
            "not found here: run the lab in evenkeel's checkout",
        )
    })?;
    let program = program(&manifest);
    match extent {
        Extent::Quick if !program.is_file() => {
            let why = format!("not built: cargo build --release --manifest-path {MANIFEST}");
            return Err(LabError::unavailable(PROGRAM, why));
        }
        Extent::Quick => {}
        Extent::Full => build(context, &manifest)?,
    }
    let file = out.join(extent.name()).join("embedded.json");
    if again || !is_newer(&file, &program) || !is_finished(&file) {
        context.progress.set_message("embedded: the stores in turn");
        let file = std::path::absolute(&file).unwrap_or_else(|_| file.clone());
        let mut bench = Command::new(&program);
        bench
            .arg(format!("--{}", extent.name()))
            .arg("--dir")
            .arg(context.work);
        context.run(bench.arg("--json").arg(file), |_| Ok(()))?;
    }
    let text = std::fs::read(&file).map_err(LabError::file("reading", &file))?;
    records(&text, extent)
}

fn build(context: &Context<'_>, manifest: &Path) -> Result<(), LabError> {
    context
        .progress
        .set_message("embedded: building bench/embedded");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(manifest);
    if std::env::var_os("ROCKSDB_LIB_DIR").is_some() {
        cargo.args(["--features", "rocksdb"]);
    }
    context.run(&mut cargo, |_| Ok(())).map(drop)
}

fn manifest() -> Option<PathBuf> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut roots = [PathBuf::from("."), built_from].into_iter();
    roots.find_map(|root| std::fs::canonicalize(root.join(MANIFEST)).ok())
}

fn program(manifest: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let beside = manifest.with_file_name("target");
    target.unwrap_or(beside).join("release").join(PROGRAM)
}

fn is_newer(file: &Path, than: &Path) -> bool {
    let time = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|meta| meta.modified())
            .ok()
    };
    time(file)
        .zip(time(than))
        .is_some_and(|(file, than)| file > than)
}

fn is_finished(file: &Path) -> bool {
    let text = std::fs::read(file).unwrap_or_default();
    serde_json::from_slice(&text).is_ok_and(|outcome: Outcome| outcome.finished)
}

fn record(case: &str, subject: &str, extent: Extent) -> Record {
    Record {
        format: FORMAT,
        experiment: NAME.to_owned(),
        case: case.to_owned(),
        subject: subject.to_owned(),
        version: String::new(),
        build: String::new(),
        extent,
        round: 1,
        started: String::new(),
        seconds: 0.0,
        hole: None,
        settings: Settings::new(),
        missing: Vec::new(),
        environment: Vec::new(),
        commands: Vec::new(),
        rows: Vec::new(),
    }
}

/// The program's JSON as records, one for each store.
fn records(text: &[u8], extent: Extent) -> Result<Vec<Record>, LabError> {
    let damaged = |why: String| LabError::unavailable("the result of bench/embedded", why);
    let outcome: Outcome = serde_json::from_slice(text).map_err(|e| damaged(e.to_string()))?;
    if outcome.schema != SCHEMA {
        return Err(damaged(format!("schema {}, not {SCHEMA}", outcome.schema)));
    }
    let plain = |value: &serde_json::Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let settings: Settings = outcome
        .settings
        .iter()
        .map(|(name, value)| (name.clone(), plain(value)))
        .collect();
    let mut records = Vec::new();
    for store in &outcome.subjects {
        let mut rows: Vec<Row> = Vec::new();
        for measured in outcome.results.iter().filter(|m| m.subject == store.name) {
            rows.push(row(measured));
        }
        records.push(Record {
            version: store.version.clone(),
            started: outcome.started.clone(),
            seconds: outcome.seconds,
            settings: settings.clone(),
            environment: vec![
                store.durability.clone(),
                store.settings.clone(),
                format!("medians of rounds: {}", outcome.rounds),
            ],
            commands: vec![outcome.command.clone()],
            rows,
            ..record("all", &store.name, extent)
        });
    }
    for missing in &outcome.missing {
        records.push(Record {
            hole: Some(one_line(&missing.why, 200)),
            started: outcome.started.clone(),
            ..record("all", &missing.name, extent)
        });
    }
    Ok(records)
}

fn row(measured: &Measured) -> Row {
    let threads = match measured.threads {
        0 => String::new(),
        1 => ", 1 thread".to_owned(),
        n => format!(", {n} threads"),
    };
    let label = format!("{}{threads} ({})", measured.workload, measured.unit);
    let Some(median) = measured.median else {
        return Row::hole(&label, one_line(&measured.note, 200));
    };
    let mut row = Row::new(&label);
    let key = match measured.unit.as_str() {
        "s" => "seconds",
        "MB" => "size_mb",
        _ => "per_s",
    };
    row.figures.insert(key.to_owned(), median);
    if let Some(latency) = &measured.latency {
        for (key, seconds) in [
            ("p50_us", latency.p50),
            ("p99_us", latency.p99),
            ("max_us", latency.max),
        ] {
            row.figures.insert(key.to_owned(), seconds * 1e6);
        }
    }
    if let Some(lost) = measured.lost {
        row.figures.insert("lost".to_owned(), lost);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"schema": 1, "experiment": "embedded", "started": "x", "seconds": 1.5,
        "finished": true, "mode": "quick", "rounds": 1, "command": "c", "machine": {},
        "settings": {"rows": 10, "dir": "/x"},
        "subjects": [{"name": "redb", "version": "3", "durability": "d", "settings": "s"}],
        "missing": [{"name": "rocksdb", "why": "built without it"}],
        "results": [
          {"workload": "commit", "subject": "redb", "version": "3", "threads": 4,
           "unit": "commits/s", "rounds": [1.0], "median": 812.5,
           "latency": {"p50": 0.001, "p99": 0.002, "p999": 0.003, "max": 0.5},
           "lost": null, "note": ""},
          {"workload": "failed", "subject": "redb", "version": "3", "threads": 1, "unit": "",
           "rounds": [], "median": null, "latency": null, "lost": null, "note": "no\nroom"}]}"#;

    #[test]
    fn its_json_becomes_records_with_holes() {
        let records = records(TEXT.as_bytes(), Extent::Quick).unwrap();
        assert_eq!(records.len(), 2);
        let redb = &records[0];
        assert_eq!(redb.rows[0].label, "commit, 4 threads (commits/s)");
        assert!((redb.rows[0].figures["per_s"] - 812.5).abs() < 1e-9);
        assert!((redb.rows[0].figures["max_us"] - 5e5).abs() < 1e-6);
        assert_eq!(redb.rows[1].hole.as_deref(), Some("no room"));
        assert_eq!(records[1].hole.as_deref(), Some("built without it"));
    }

    #[test]
    fn a_result_is_kept_only_when_all_rounds_were_run() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("embedded.json");
        assert!(!is_finished(&file));
        std::fs::write(&file, TEXT).unwrap();
        assert!(is_finished(&file));
        let text = TEXT.replace("\"finished\": true", "\"finished\": false");
        std::fs::write(&file, text).unwrap();
        assert!(!is_finished(&file));
    }

    #[test]
    fn another_schema_is_refused() {
        let text = TEXT.replace("\"schema\": 1", "\"schema\": 2");
        let reason = super::records(text.as_bytes(), Extent::Quick)
            .unwrap_err()
            .reason();
        assert!(reason.ends_with("schema 2, not 1"), "{reason}");
        assert!(super::records(b"{", Extent::Quick).is_err());
    }
}
