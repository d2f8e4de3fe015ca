//! `cargo xtask miri`: the tests of the small unsafe parts, under Miri.

use std::process::Command;

use crate::run;

/// Which tests of which crate. Code that maps memory or calls the system is out of Miri's reach.
const PARTS: [(&str, &[&str]); 2] = [
    ("evenkeel-io", &["buffer::"]),
    ("evenkeel-storage", &["wal::ring::", "writeout::staging::"]),
];

/// Why Miri cannot run here, if it cannot.
pub fn missing() -> Option<String> {
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

pub fn miri() -> Result<(), String> {
    for (package, tests) in PARTS {
        let mut command = nightly();
        command.env("CARGO_TARGET_DIR", run::target_dir().join("miri"));
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        command.args(["cargo", "miri", "test", "--lib"]);
        command.args(["-p", package, "--"]).args(tests);
        run::check("miri", &mut command)?;
    }
    Ok(())
}
