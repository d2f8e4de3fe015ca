//! The machine that the figures come from.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::subject::Result;
use crate::workloads;

/// Facts about the machine and the directory, for the report.
pub fn facts(dir: &Path) -> Result<BTreeMap<&'static str, Value>> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let sync = workloads::sync_time(dir)?;
    Ok(BTreeMap::from([
        ("cpu", cpu().into()),
        ("cores", cores.into()),
        ("memory_bytes", memory().into()),
        ("kernel", kernel.trim().into()),
        ("filesystem", filesystem(dir).into()),
        ("directory", dir.display().to_string().into()),
        ("fsync_us", (sync.as_secs_f64() * 1e6).into()),
    ]))
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn cpu() -> String {
    field("/proc/cpuinfo", "model name").unwrap_or_default()
}

fn memory() -> u64 {
    let total = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kib = total.split(' ').next().and_then(|kib| kib.parse().ok());
    kib.map_or(0, |kib: u64| kib << 10)
}

/// The type of the file system mounted closest above `dir`.
pub fn filesystem(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut best = (0, "unknown");
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        if let (Some(at), Some(kind)) = (fields.next(), fields.next())
            && dir.starts_with(at)
            && at.len() >= best.0
        {
            best = (at.len(), kind);
        }
    }
    best.1.to_owned()
}

/// Now, as `2026-01-31T12:00:00Z`.
pub fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(seconds.map_or(0, |since| since.as_secs()))
}

/// Days become a date by the method of H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms": years begin in March, so that the leap day is the last.
fn utc(seconds: u64) -> String {
    let (day, time) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_798_761_599), "2026-12-31T23:59:59Z");
    }
}
