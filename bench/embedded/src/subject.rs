//! Every engine under comparison as the workloads see it (BENCH-1).

use std::path::Path;

/// Error of an engine.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// Results of engines.
pub type Result<T> = std::result::Result<T, Error>;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;

/// A key.
pub type Key = [u8; KEY_BYTES];

/// A row to be put.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its key.
    pub key: Key,
    /// Its value.
    pub value: [u8; VALUE_BYTES],
}

/// An open database of one engine.
pub trait Store: Send + Sync {
    /// A session for one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Has the engine do now what it otherwise does from time to time: a checkpoint, a flush
    /// and compaction. `false` if it has nothing of the kind that may run beside commits.
    fn checkpoint(&self) -> Result<bool>;

    /// Closes it in good order.
    fn close(self: Box<Self>) -> Result<()>;
}

/// One thread's hold on a store.
pub trait Session {
    /// Puts all rows, new or not, in one transaction; it is durable when this returns.
    fn put(&mut self, rows: &[Row]) -> Result<()>;

    /// Shows `found` what was committed last under `key`; `false` if there is nothing.
    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool>;
}

/// Opens a directory, made if it is not there, with this much memory for pages, in bytes.
pub type Open = fn(&Path, u64) -> Result<Box<dyn Store>>;

/// An engine under comparison.
#[derive(Clone, Copy)]
pub struct Subject {
    /// Its name in reports and on the command line.
    pub name: &'static str,
    /// The version that was compiled or linked in.
    pub version: fn() -> String,
    /// How a commit of it is made durable.
    pub durability: &'static str,
    /// Settings that differ from the engine's defaults.
    pub settings: &'static str,
    /// Opens it.
    pub open: Open,
}

/// The version of a package that was compiled in, from the lock file.
pub fn locked(name: &str) -> String {
    locked_version(include_str!("../Cargo.lock"), name)
        .unwrap_or("unknown")
        .to_owned()
}

/// The version of a package in the text of a lock file.
fn locked_version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let wanted = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|line| *line != wanted);
    lines
        .nth(1)?
        .strip_prefix("version = \"")?
        .strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use crate::subjects;

    #[test]
    fn every_subject_has_a_version() {
        for subject in subjects::all() {
            let version = (subject.version)();
            assert!(
                version.starts_with(|c: char| c.is_ascii_digit()),
                "{}",
                subject.name
            );
        }
    }
}
