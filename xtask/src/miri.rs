//! `cargo xtask miri`: the tests of the small unsafe parts, under Miri.

use std::process::{Command, Stdio};

use crate::run;

/// Which tests of which crate. Code that maps memory or calls the system is out of Miri's reach.
const PARTS: [(&str, &[&str]); 2] = [
    ("evenkeel-io", &["buffer::"]),
    (
        "evenkeel-storage",
        &["wal::buffers::", "writeout::staging::"],
    ),
];

/// Adds Miri to nightly once; an error says why it cannot run here.
pub fn install() -> Result<(), String> {
    let Some(why) = missing() else {
        return Ok(());
    };
    let mut add = Command::new("rustup");
    add.args(["component", "add", "miri", "rust-src"]);
    add.args(["--toolchain", "nightly"]);
    let added = add.output().is_ok_and(|output| output.status.success());
    match missing() {
        None if added => Ok(()),
        _ => Err(why),
    }
}

/// Why Miri cannot run as things are, if it cannot.
fn missing() -> Option<String> {
    let mut version = nightly();
    version.args(["cargo", "miri", "--version"]);
    match version.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            Some(error.lines().next().unwrap_or("no answer").to_owned())
        }
        Err(error) => Some(format!("rustup: {error}")),
    }
}

/// `rustup run nightly`, without the marks of the toolchain that started this.
fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command.current_dir(run::root());
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command.args(["run", "nightly"]);
    command
}

/// Forgets what Miri made of the crates. A test is a file that names the directory that it was made
/// in, and checkouts that share a target directory have it from each other.
fn forget() -> Result<(), String> {
    let target = run::target_dir().join("miri").join("miri");
    let Ok(triples) = target.read_dir() else {
        return Ok(());
    };
    for triple in triples.filter_map(Result::ok) {
        let Ok(made) = triple.path().join("debug/deps").read_dir() else {
            continue;
        };
        for file in made.filter_map(Result::ok) {
            let name = file.file_name().to_string_lossy().replace('_', "-");
            if PARTS.iter().any(|(package, _)| name.starts_with(package)) {
                let path = file.path();
                let removed = std::fs::remove_file(&path);
                removed.map_err(|e| format!("miri: cannot remove {}: {e}", path.display()))?;
            }
        }
    }
    Ok(())
}

pub fn miri() -> Result<(), String> {
    forget()?;
    for (package, tests) in PARTS {
        for filter in tests {
            let mut command = nightly();
            command.env("CARGO_TARGET_DIR", run::target_dir().join("miri"));
            command.args(["cargo", "miri", "test", "--lib"]);
            command.args(["-p", package, "--", filter]);
            command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
            command.stderr(Stdio::inherit());
            let ran = command.output();
            let ran = ran.map_err(|e| format!("miri: cannot start {command:?}: {e}"))?;
            let text = String::from_utf8_lossy(&ran.stdout);
            print!("{text}");
            if !ran.status.success() {
                return Err(format!("miri failed ({}): {command:?}", ran.status));
            }
            if text.contains("running 0 tests") {
                return Err(format!("miri: {package} has no tests `{filter}`"));
            }
        }
    }
    Ok(())
}
