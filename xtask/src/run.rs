//! Running other programs, with errors that say which one failed and how.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's root directory. Cargo says where it runs this from: checkouts that share a
/// target directory may run each other's build.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
    manifest
        .as_deref()
        .map_or(Path::new(env!("CARGO_MANIFEST_DIR")), Path::new)
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// The cargo that started this program.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Where cargo puts what it builds.
pub fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    exe.parent()
        .and_then(Path::parent)
        .map(Path::to_path_buf)
        .unwrap_or_else(|| root().join("target"))
}

/// Runs `command` with its output passed through; an exit code other than 0 is an error.
pub fn check(what: &str, command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|e| format!("{what}: cannot start {command:?}: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{what} failed ({status}): {command:?}"))
    }
}

/// Whether this runs as root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
