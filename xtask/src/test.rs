//! `cargo xtask test`: everything that must hold before a change lands.

use crate::{clients, run, tidy};

/// Debug assertions for this workspace's crates; the dependencies' settings stay as they are,
/// so that nothing is compiled twice. The SQL layer, by far the slowest to compile, is optimised
/// less: tests do not measure.
const CHECKED: [&str; 7] = [
    "--release",
    "--config",
    "profile.release.debug-assertions=true",
    "--config",
    "profile.release.overflow-checks=true",
    "--config",
    "profile.release.package.evenkeel-sql.opt-level=1",
];

pub fn test(args: &[String]) -> Result<(), String> {
    let fast = args.iter().any(|arg| arg == "--fast");
    let pg_bin = clients::directory()?;
    step("format");
    run::check("formatting", run::cargo().args(["fmt", "--all", "--check"]))?;
    // Outside the workspace, which must not compile it; its format needs no compiler.
    let mut bench = run::cargo();
    bench.args(["fmt", "--check", "--manifest-path"]);
    bench.arg(run::root().join("bench/embedded/Cargo.toml"));
    run::check("formatting of bench/embedded", &mut bench)?;
    step("tidy");
    tidy::tidy()?;
    step("clippy");
    let mut clippy = run::cargo();
    clippy.args([
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--quiet",
    ]);
    run::check("clippy", clippy.args(["--", "-D", "warnings"]))?;
    step("build");
    let mut build = run::cargo();
    build.arg("build").args(CHECKED).args(["--workspace"]);
    run::check("building", &mut build)?;
    step("test");
    let mut tests = run::cargo();
    tests
        .arg("test")
        .args(CHECKED)
        .arg("--workspace")
        .arg("--no-fail-fast");
    if fast {
        tests.args(["--exclude", "evenkeel-tests"]);
    }
    tests.env("EVENKEEL_PG_BIN", pg_bin);
    tests.env("EVENKEEL_BIN", run::target_dir().join("release/evenkeel"));
    run::check("the tests", &mut tests)?;
    if fast { Ok(()) } else { loom() }
}

/// The models of the pool's locks, whose sources loom compiles with primitives of its own: with
/// other flags than the rest, and therefore in a directory of its own.
fn loom() -> Result<(), String> {
    step("loom");
    let mut models = run::cargo();
    models.env("RUSTFLAGS", "--cfg loom");
    models.env("CARGO_TARGET_DIR", run::target_dir().join("loom"));
    models.args(["test", "--release", "-p", "evenkeel-storage"]);
    run::check("the loom models", models.args(["--test", "loom"]))
}

fn step(name: &str) {
    eprintln!("== {name}");
}
