//! The memory budgets: what they are when nothing sets them.

use evenkeel_settings::{Configuration, Loaded};

const MIB: u64 = 1 << 20;
/// A smaller budget leaves no room for a session.
const LEAST: u64 = 8 * MIB;
/// Lower bound of a derived budget.
const LEAST_DERIVED: u64 = 256 * MIB;

/// The budgets that are set, in bytes; 0 for one that is derived.
#[derive(Debug, Default, PartialEq, Eq)]
struct Budgets {
    server: u64,
    session: u64,
}

impl Budgets {
    /// Both, on a machine with so much memory of which the page pool takes a part.
    fn derive(&self, available: u64, shared_buffers: u64) -> (u64, u64) {
        let rest = available.saturating_sub(shared_buffers);
        let server = match self.server {
            0 => (rest / 2).max(LEAST_DERIVED),
            given => given.max(LEAST),
        };
        let session = match self.session {
            0 => (server / 4).max(LEAST),
            given => given.max(LEAST),
        };
        (server, session.min(server))
    }
}

/// Works the budgets out, in bytes, and has them shown.
pub(super) fn settle(configuration: &Configuration) -> (u64, u64) {
    let loaded = configuration.loaded();
    let set = Budgets {
        server: loaded.bytes("max_server_memory"),
        session: loaded.bytes("max_session_memory"),
    };
    let (server, session) = set.derive(available(), loaded.bytes("shared_buffers"));
    configuration.settle("max_server_memory", &(server / MIB).to_string());
    configuration.settle("max_session_memory", &(session / MIB).to_string());
    (server, session)
}

/// Memory for the log while redo goes on: as much as a session may have, and more than the pool; 0
/// before the budgets are settled.
pub(super) fn of_recovery(loaded: &Loaded) -> u64 {
    const BESIDE_POOL: u64 = 128 * MIB;
    let least = loaded.bytes("shared_buffers").saturating_add(BESIDE_POOL);
    match loaded.bytes("max_session_memory") {
        0 => 0,
        session => session.max(least),
    }
}

/// The memory that this process may have: the machine's, or its container's.
fn available() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.as_deref().and_then(total).unwrap_or(1024 * MIB);
    let limits = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let limits = limits.iter().filter_map(|path| {
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse::<u64>().ok()
    });
    limits.fold(machine, u64::min)
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn budgets_follow_from_the_machine_unless_they_are_set() {
        let derived = |server, session| Budgets { server, session }.derive(16 * GIB, 4 * GIB);
        assert_eq!(derived(0, 0), (6 * GIB, 6 * GIB / 4));
        assert_eq!(derived(2 * GIB, 0), (2 * GIB, 2 * GIB / 4));
        assert_eq!(derived(2 * GIB, 4 * GIB), (2 * GIB, 2 * GIB));
        let small = Budgets::default().derive(GIB / 4, GIB);
        assert_eq!(small, (LEAST_DERIVED, LEAST_DERIVED / 4));
        let least = Budgets {
            server: 1,
            session: 1,
        }
        .derive(GIB, 0);
        assert_eq!(least, (LEAST, LEAST));
    }

    #[test]
    fn the_machines_memory_is_known() {
        assert_eq!(
            total("MemTotal:       24554496 kB\nMemFree: 1 kB\n"),
            Some(24_554_496 << 10)
        );
        assert!(available() >= 64 * MIB);
    }

    #[test]
    fn recovery_may_have_as_much_as_a_session() {
        let of = |given: &[(&str, &str)]| {
            let configuration = Configuration::of(given).unwrap();
            settle(&configuration);
            of_recovery(&configuration.loaded())
        };
        let pool = ("shared_buffers", "64MB");
        assert_eq!(of(&[pool, ("max_session_memory", "32MB")]), 192 * MIB);
        assert_eq!(
            of(&[
                pool,
                ("max_server_memory", "2GB"),
                ("max_session_memory", "1GB")
            ]),
            GIB
        );
    }

    #[test]
    fn the_budgets_in_force_are_shown() {
        let configuration = Configuration::of(&[("max_server_memory", "512MB")]).unwrap();
        assert_eq!(settle(&configuration), (512 * MIB, 128 * MIB));
        let loaded = configuration.loaded();
        assert_eq!(loaded.text("max_server_memory"), "512");
        assert_eq!(loaded.text("max_session_memory"), "128");
    }
}
