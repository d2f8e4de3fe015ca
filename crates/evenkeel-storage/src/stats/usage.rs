//! Processor time of the process, as log lines of long operations state it.

use std::fmt;
use std::time::{Duration, Instant};

/// Processor time that the process has used, as its kernel counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTime {
    user: Duration,
    system: Duration,
}

impl CpuTime {
    /// Zero where the system does not say.
    fn now() -> CpuTime {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        CpuTime::parse(&stat, ticks).unwrap_or_default()
    }

    /// From the text of `/proc/PID/stat`: the 14th and 15th field. The second one is a name in
    /// parentheses, which may hold anything (proc_pid_stat(5)).
    fn parse(stat: &str, ticks: u64) -> Option<CpuTime> {
        let (_, behind_name) = stat.rsplit_once(')')?;
        let mut fields = behind_name.split_ascii_whitespace().skip(11);
        let mut time = || {
            let count: u64 = fields.next()?.parse().ok()?;
            Some(Duration::from_millis(count.saturating_mul(1000) / ticks))
        };
        Some(CpuTime {
            user: time()?,
            system: time()?,
        })
    }
}

/// Processor time and time since an operation began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    cpu: CpuTime,
    begun: Instant,
}

impl Usage {
    /// An operation begins.
    pub(crate) fn begin() -> Usage {
        Usage {
            cpu: CpuTime::now(),
            begun: Instant::now(),
        }
    }
}

/// As PostgreSQL's `pg_rusage_show`.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = CpuTime::now();
        write!(
            f,
            "CPU: user: {:.2} s, system: {:.2} s, elapsed: {:.2} s",
            now.user.saturating_sub(self.cpu.user).as_secs_f64(),
            now.system.saturating_sub(self.cpu.system).as_secs_f64(),
            self.begun.elapsed().as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a) b) 1 (c) S 1 7 7 0 -1 4194304 100 0 0 0 250 30 0 0 20 0 1 0 5 1 2";
        let expected = CpuTime {
            user: Duration::from_millis(2500),
            system: Duration::from_millis(300),
        };
        assert_eq!(CpuTime::parse(stat, 100), Some(expected));
        for cut in ["", "7 (a", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 4 1 0 0 0 x 3"] {
            assert_eq!(CpuTime::parse(cut, 100), None, "{cut}");
        }
    }

    #[test]
    fn usage_is_shown_as_postgresql_shows_it() {
        let usage = Usage::begin();
        while CpuTime::now().user.saturating_sub(usage.cpu.user) < Duration::from_millis(20) {
            std::hint::black_box((0..1000_u64).sum::<u64>());
        }
        let text = usage.to_string();
        assert!(
            text.starts_with("CPU: user: ") && text.ends_with(" s"),
            "{text}"
        );
        assert!(!text.starts_with("CPU: user: 0.00 s,"), "{text}");
        assert_eq!(text.matches(" s,").count(), 2, "{text}");
    }
}
