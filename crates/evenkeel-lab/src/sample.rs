//! Resource use of a server, second by second: CPU and I/O of all its processes from `/proc`, its
//! own views' figures of log and pool, and the processor time that the machine lost to others
//! meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Pid;

use crate::client::Client;
use crate::environment::DiskGroup;
use crate::server::{Log, Server, descendants};
use crate::views;

const MIB: f64 = 1_048_576.0;

/// Values over time, by name.
pub type SeriesSet = BTreeMap<String, Vec<(f64, f64)>>;

/// Resource use of a server's processes since they started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// CPU time, in seconds.
    pub cpu: f64,
    /// Bytes passed to write calls. (The kernel's count of dirtied bytes would include whole large
    /// folios: a megabyte for a log block of 8 kB.)
    pub written: f64,
    /// Bytes fetched from the disk.
    pub fetched: f64,
    /// Bytes the processes themselves sent to the disk, by syncs and direct I/O.
    pub synced: Option<f64>,
}

impl Usage {
    /// Sums over `root` and its descendants; what ended children used is in their parent's
    /// counters.
    #[must_use]
    pub fn of(root: Pid, group: Option<&DiskGroup>) -> Usage {
        let mut sum = Usage::default();
        let mut pids = descendants(root);
        pids.push(root);
        for pid in pids {
            let dir = format!("/proc/{}", pid.as_raw_nonzero());
            if let Ok(io) = fs::read_to_string(format!("{dir}/io")) {
                let value = |name: &str| {
                    let mut lines = io.lines().filter_map(|line| line.split_once(": "));
                    lines
                        .find(|(key, _)| *key == name)
                        .and_then(|(_, value)| value.parse::<f64>().ok())
                        .unwrap_or(0.0)
                };
                sum.written += value("wchar");
                sum.fetched += value("read_bytes");
            }
            sum.cpu += fs::read_to_string(format!("{dir}/stat")).map_or(0.0, |s| cpu_seconds(&s));
        }
        sum.synced = group.and_then(DiskGroup::written).map(|bytes| bytes as f64);
        sum
    }

    /// Use between `before` and this.
    #[must_use]
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            cpu: self.cpu - before.cpu,
            written: self.written - before.written,
            fetched: self.fetched - before.fetched,
            synced: self.synced.zip(before.synced).map(|(now, then)| now - then),
        }
    }

    /// As figures of a row.
    pub fn put(&self, figures: &mut BTreeMap<String, f64>) {
        figures.insert("cpu_s".to_owned(), self.cpu);
        figures.insert("written_mib".to_owned(), self.written / MIB);
        figures.insert("fetched_mib".to_owned(), self.fetched / MIB);
        if let Some(synced) = self.synced {
            figures.insert("synced_mib".to_owned(), synced / MIB);
        }
    }
}

/// User and system time of a process and its reaped children, from its `stat` line.
fn cpu_seconds(stat: &str) -> f64 {
    const UTIME: usize = 11;
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(UTIME).take(4);
    let ticks: f64 = ticks.filter_map(|t| t.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

/// Processor time of the whole machine since it was started, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Processors {
    all: f64,
    stolen: f64,
}

impl Processors {
    /// As it is now, where the kernel tells.
    #[must_use]
    pub fn now() -> Option<Processors> {
        Processors::of(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn of(stat: &str) -> Option<Processors> {
        // The fields behind it, the time of guests, are in the first two once more.
        const STEAL: usize = 7;
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks = line.split_whitespace().take(STEAL + 1);
        let ticks: Vec<f64> = ticks.map_while(|t| t.parse().ok()).collect();
        Some(Processors {
            all: ticks.iter().sum(),
            stolen: *ticks.get(STEAL)?,
        })
    }

    /// The share, in percent, that the hypervisor has given to other machines since `before`.
    #[must_use]
    pub fn stolen_since(&self, before: &Processors) -> Option<f64> {
        let all = self.all - before.all;
        (all > 0.0).then(|| 100.0 * (self.stolen - before.stolen) / all)
    }
}

/// Seconds since 1970, as `pgbench` logs them.
#[must_use]
pub fn unix_time() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// Questions with one number for an answer, by the name of their series: the first of a name that
/// the server understands is asked every second.
const PROBES: [(&str, &str); 3] = [
    (
        "log_distance_mib",
        "SELECT (pg_current_wal_insert_lsn() - redo_lsn) / 1048576.0 FROM pg_control_checkpoint()",
    ),
    (
        "dirty_pages",
        "SELECT buffers_dirty FROM pg_buffercache_summary()",
    ),
    ("dirty_pages", "SELECT buffers_dirty FROM evenkeel_buffers"),
];

/// A thread that looks at a server every second until it is finished.
pub struct Sampler {
    /// Unix time from which the seconds of its series count.
    pub begun: f64,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<SeriesSet>,
}

impl Sampler {
    /// Begins.
    #[must_use]
    pub fn start(server: &Server) -> Sampler {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let (root, port, log) = (server.pid(), server.port, server.log());
        let begun = unix_time();
        let thread = std::thread::spawn(move || sample(root, port, &log, &seen));
        Sampler {
            begun,
            stop,
            thread,
        }
    }

    /// Ends, and gives what was seen.
    #[must_use]
    pub fn finish(self) -> SeriesSet {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn sample(root: Pid, port: u16, log: &Log, stop: &AtomicBool) -> SeriesSet {
    let mut series = SeriesSet::new();
    let mut client: Option<Client> = None;
    let mut probes = Vec::new();
    let begin = Instant::now();
    let mut before = (Duration::ZERO, Usage::of(root, None), Processors::now());
    for second in 1.. {
        while begin.elapsed() < Duration::from_secs(second) {
            if stop.load(Ordering::Relaxed) {
                return series;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let now = (begin.elapsed(), Usage::of(root, None), Processors::now());
        let span = (now.0 - before.0).as_secs_f64();
        let used = now.1.since(&before.1);
        let at = now.0.as_secs_f64();
        let mut put = |name: &str, value: f64| {
            series.entry(name.to_owned()).or_default().push((at, value));
        };
        put("cpu_cores", used.cpu / span);
        put("written_mib_s", used.written / MIB / span);
        put("fetched_mib_s", used.fetched / MIB / span);
        let processors = now.2.zip(before.2);
        if let Some(stolen) = processors.and_then(|(now, then)| now.stolen_since(&then)) {
            put("stolen_pct", stolen);
        }
        if second == 1 {
            // Not sooner: what is over in less is not disturbed.
            client = Client::connect(port, Duration::from_secs(2)).ok();
            probes = client.as_mut().map(understood).unwrap_or_default();
        }
        if let Some(client) = &mut client {
            for (name, sql) in &probes {
                if let Some(value) = client.number(sql) {
                    put(name, value);
                }
            }
            if probes.iter().all(|(name, _)| *name != "log_distance_mib")
                && let Some(redo) = log.last_checkpoint().as_deref().and_then(redo_point)
                && let Some(position) = views::log_position(client)
            {
                put("log_distance_mib", (position - redo) / MIB);
            }
        }
        before = now;
    }
    series
}

/// The redo point that a server's line about a finished checkpoint names, in bytes.
fn redo_point(line: &str) -> Option<f64> {
    views::position(line.split_once("redo lsn=")?.1)
}

fn understood(client: &mut Client) -> Vec<(&'static str, &'static str)> {
    let mut probes: Vec<(&str, &str)> = Vec::new();
    for (name, sql) in PROBES {
        if probes.iter().all(|(taken, _)| *taken != name) && client.number(sql).is_some() {
            probes.push((name, sql));
        }
    }
    probes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_spaces_and_parentheses_is_no_obstacle() {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 22 33 44 20 0";
        // utime, stime, cutime, cstime are the fields 14 to 17.
        let expected = (11.0 + 22.0 + 33.0 + 44.0) / ticks;
        assert!((cpu_seconds(stat) - expected).abs() < 1e-9);
        assert!(cpu_seconds("").abs() < 1e-9);
    }

    #[test]
    fn the_redo_point_is_read_from_the_line_of_either_server() {
        let line = "LOG:  checkpoint complete: wrote 3 buffers; lsn=1/15B9800, redo lsn=1/F";
        assert_eq!(redo_point(line), Some(4_294_967_311.0));
        assert_eq!(
            redo_point("redo lsn=0/01000048)"),
            Some(f64::from(0x0100_0048))
        );
        assert_eq!(redo_point("checkpoint starting"), None);
    }

    #[test]
    fn stolen_time_is_a_share_of_all_processor_time() {
        let of = |cpu: &str| Processors::of(&format!("{cpu}\ncpu0 1 1 1 1 1 1 1 1 1 1\n"));
        let before = of("cpu  100 0 50 300 10 0 5 20 40 0").unwrap();
        let after = of("cpu  150 0 60 320 10 0 5 40 80 0").unwrap();
        // 50 + 10 + 20 + 20 ticks; those of guests are the user's too.
        assert_eq!(after.stolen_since(&before), Some(20.0));
        assert_eq!(before.stolen_since(&before), None);
        assert_eq!(of("cpu  1 2 3 4"), None);
        assert!(Processors::now().is_some());
    }

    #[test]
    fn usage_counts_this_process() {
        let before = Usage::of(rustix::process::getpid(), None);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
        let used = Usage::of(rustix::process::getpid(), None).since(&before);
        assert!(used.written >= MIB, "{used:?}");
        assert_eq!(used.synced, None);
    }
}
