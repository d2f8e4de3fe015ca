//! Keeps what a failing test found: the disk as it was before it was opened, its log in words,
//! and what the workload had done. `EVENKEEL_CRASH_KEEP` names the directory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_engine::describe::{operation_name, payload_text, record_name};
use evenkeel_io::{Disk, OpenOptions, SimDisk};
use evenkeel_storage::wal::dump::{self, Describe, Names};

/// Writes the disk and its log to a new directory, if one is wanted. Answers where.
pub fn keep(disk: &SimDisk, name: &str, trace: &[String]) -> Option<PathBuf> {
    let root = PathBuf::from(std::env::var_os("EVENKEEL_CRASH_KEEP")?);
    let place = root.join(name);
    std::fs::create_dir_all(&place).ok()?;
    copy(disk, Path::new("data"), &place)?;
    std::fs::write(place.join("trace.txt"), trace.join("\n")).ok()?;
    std::fs::write(place.join("log.txt"), log(disk)).ok()?;
    Some(place)
}

fn copy(disk: &SimDisk, from: &Path, root: &Path) -> Option<()> {
    let to = root.join(from);
    if let Ok(names) = disk.list(from) {
        std::fs::create_dir_all(&to).ok()?;
        return names
            .iter()
            .try_for_each(|name| copy(disk, &from.join(name), root));
    }
    let file = disk.open(from, OpenOptions::read_only()).ok()?;
    let mut bytes = vec![0; usize::try_from(file.len().ok()?).ok()?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    std::fs::write(to, bytes).ok()
}

/// The log from the redo point on, in words.
pub fn log(disk: &SimDisk) -> String {
    let names = Names {
        record: record_name,
        operation: operation_name,
        payload: payload_text,
    };
    let mut text = String::new();
    match dump::open(Arc::new(disk.clone()), Path::new("data")) {
        Ok((control, mut reader)) => {
            let _ = writeln!(text, "{control:?}");
            while let Ok(Some(record)) = reader.next_record() {
                let _ = writeln!(text, "{}", Describe(&record, names));
            }
            let _ = writeln!(text, "the log ends at {}", reader.position());
        }
        Err(error) => text = error.to_string(),
    }
    text
}
