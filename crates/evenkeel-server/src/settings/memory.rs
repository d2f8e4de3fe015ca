//! The memory budgets: what they are when nothing sets them.

use super::{MIB, Settings};

/// A smaller budget leaves no room for a session.
const LEAST: u64 = 8 * MIB;
/// Lower bound of a derived budget.
const LEAST_DERIVED: u64 = 256 * MIB;

/// The budgets in bytes; 0 for one that is derived.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    pub server: u64,
    pub session: u64,
}

/// A budget that a setting gives.
pub fn budget(bytes: u64) -> Result<u64, &'static str> {
    let fits = bytes == 0 || bytes >= LEAST;
    fits.then_some(bytes).ok_or("0, or 8MB or more")
}

impl Budgets {
    /// Both, on a machine with so much memory of which the page pool takes a part.
    fn derive(&self, available: u64, shared_buffers: u64) -> (u64, u64) {
        let rest = available.saturating_sub(shared_buffers);
        let server = match self.server {
            0 => (rest / 2).max(LEAST_DERIVED),
            given => given,
        };
        let session = match self.session {
            0 => (server / 4).max(LEAST),
            given => given,
        };
        (server, session.min(server))
    }
}

impl Settings {
    /// Works the memory budgets out, once all settings are known: those that nothing sets follow
    /// from what the machine, or the container, has.
    pub fn settle_memory(&mut self) {
        let shared_buffers = self.database.storage.shared_buffers;
        let (server, session) = self.memory.derive(available(), shared_buffers);
        self.sql.server_memory = usize::try_from(server).unwrap_or(usize::MAX);
        self.sql.session_memory = usize::try_from(session).unwrap_or(usize::MAX);
        let mut all = self.sql.settings.to_vec();
        for (name, bytes) in [
            ("max_server_memory", server),
            ("max_session_memory", session),
        ] {
            for shown in all.iter_mut().filter(|shown| shown.name == name) {
                shown.setting = (bytes / MIB).to_string();
                shown.shown = format!("{}MB", bytes / MIB);
            }
        }
        self.sql.settings = all.into();
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
        assert!(budget(0).is_ok() && budget(LEAST).is_ok() && budget(MIB).is_err());
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
    fn the_budgets_in_force_are_shown() {
        let mut settings = Settings::default();
        settings.apply("max_server_memory", "512MB").unwrap();
        settings.settle_memory();
        assert_eq!(settings.sql.server_memory as u64, 512 * MIB);
        let shown = |name| {
            let mut all = settings.sql.settings.iter();
            all.find(|setting| setting.name == name)
                .unwrap()
                .shown
                .clone()
        };
        assert_eq!(shown("max_server_memory"), "512MB");
        assert_eq!(shown("max_session_memory"), "128MB");
    }
}
