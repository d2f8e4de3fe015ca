//! `cargo xtask miri`: the tests of the small unsafe parts, under Miri.

use std::process::Command;

use crate::run;

/// Which tests of which crate. Code that maps memory or calls the system is out of Miri's reach.
const PARTS: [(&str, &[&str]); 2] = [
    ("evenkeel-io", &["buffer::"]),
    ("evenkeel-storage", &["wal::ring::", "writeout::staging::"]),
];

pub fn miri() -> Result<(), String> {
    for (package, tests) in PARTS {
        let mut command = Command::new("rustup");
        command.current_dir(run::root());
        // Those of the toolchain that started this.
        for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(name);
        }
        command.env("CARGO_TARGET_DIR", run::target_dir().join("miri"));
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        command.args(["run", "nightly", "cargo", "miri", "test", "--lib"]);
        command.args(["-p", package, "--"]).args(tests);
        run::check("miri", &mut command)?;
    }
    Ok(())
}
