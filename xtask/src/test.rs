//! `cargo xtask test`: everything that must hold before a change lands.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{again, apps, clients, deny, miri, run, tidy};

/// The profile of everything that is compiled here.
const CHECKED: [&str; 2] = ["--profile", "checked"];

pub fn test(args: &[String]) -> Result<(), String> {
    let fast = args.iter().any(|arg| arg == "--fast");
    let pg_bin = clients::directory()?;
    format()?;
    step("tidy");
    tidy::tidy()?;
    let skipped = Skipped::new()?;
    step("deny");
    if let Err(why) = deny::install() {
        skipped.add("cargo deny", &why);
    } else {
        deny::check()?;
    }
    step("clippy");
    let mut clippy = run::cargo();
    clippy.arg("clippy").args(CHECKED);
    clippy.args(["--workspace", "--all-targets", "--quiet"]);
    run::check("clippy", clippy.args(["--", "-D", "warnings"]))?;
    document()?;
    step("build");
    let mut build = run::cargo();
    build.arg("build").args(CHECKED).args(["--workspace"]);
    run::check("building", &mut build)?;
    step("test");
    // pg_dump refuses servers that are newer than itself.
    let pg18_bin = if fast {
        None
    } else {
        Some(clients::postgres_18()?)
    };
    if !fast {
        file_system_tools();
    }
    let tests = || {
        let mut tests = run::cargo();
        tests.arg("test").args(CHECKED);
        tests.args(["--workspace", "--no-fail-fast"]);
        if fast {
            tests.args(["--exclude", "evenkeel-tests"]);
        }
        tests.env("EVENKEEL_PG_BIN", &pg_bin);
        tests.envs(pg18_bin.iter().map(|bin| ("EVENKEEL_PG18_BIN", bin)));
        tests.env("EVENKEEL_SKIPPED", &skipped.0);
        tests.env("EVENKEEL_BIN", run::target_dir().join("checked/evenkeel"));
        tests
    };
    let passed = again::run(tests);
    let outcome = passed.and_then(|twice| {
        if !fast {
            step("sample applications");
            match apps::install() {
                Err(why) => skipped.add("the sample applications", &why),
                Ok(python) => apps::run(&python)?,
            }
            loom()?;
            step("miri");
            match miri::install() {
                Err(why) => skipped.add("the tests under Miri", &why),
                Ok(()) => miri::miri()?,
            }
        }
        for test in twice {
            eprintln!("== passed only when run again: {test}");
        }
        Ok(())
    });
    skipped.report(fast);
    outcome
}

fn format() -> Result<(), String> {
    step("format");
    run::check("formatting", run::cargo().args(["fmt", "--all", "--check"]))?;
    // Outside the workspace, which must not compile it; its format needs no compiler.
    let mut bench = run::cargo();
    bench.args(["fmt", "--check", "--manifest-path"]);
    bench.arg(run::root().join("bench/embedded/Cargo.toml"));
    run::check("formatting of bench/embedded", &mut bench)
}

/// The documentation has no broken link and no other warning.
fn document() -> Result<(), String> {
    step("doc");
    let mut doc = run::cargo();
    doc.env("RUSTDOCFLAGS", "-D warnings");
    doc.arg("doc").args(CHECKED);
    doc.args(["--workspace", "--no-deps", "--quiet"]);
    run::check("the documentation", &mut doc)
}

/// Has the test of the tables of settings write them.
pub fn write_settings() -> Result<(), String> {
    let mut write = run::cargo();
    write
        .arg("test")
        .args(CHECKED)
        .env("EVENKEEL_WRITE_SETTINGS", "1");
    write.args(["--package", "evenkeel-settings", "--test", "pages"]);
    run::check("writing the tables of settings", &mut write)
}

/// Tests on full disks make file systems of these kinds; Debian has the programs apart.
fn file_system_tools() {
    const TOOLS: [(&str, &str); 2] = [("mkfs.xfs", "xfsprogs"), ("mkfs.btrfs", "btrfs-progs")];
    let is_here = |program: &str| {
        ["/usr/sbin", "/sbin"]
            .iter()
            .any(|dir| Path::new(dir).join(program).exists())
    };
    let missing: Vec<&str> = TOOLS
        .iter()
        .filter(|(program, _)| !is_here(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() || !run::is_root() {
        return;
    }
    eprintln!("installing {}", missing.join(" and "));
    let apt = |args: &[&str]| {
        Command::new("apt-get")
            .args(["-qq", "-y"])
            .args(args)
            .status()
            .is_ok_and(|status| status.success())
    };
    let install: Vec<&str> = ["install"].into_iter().chain(missing).collect();
    let installed = apt(&install) || (apt(&["update"]) && apt(&install));
    if !installed {
        eprintln!("they cannot be installed: the tests that need them are skipped");
    }
}

/// The list of what does not run on this machine, and why; tests add to it.
struct Skipped(PathBuf);

impl Skipped {
    fn new() -> Result<Skipped, String> {
        let list = run::target_dir().join("skipped-tests");
        std::fs::write(&list, "").map_err(|e| format!("{}: {e}", list.display()))?;
        Ok(Skipped(list))
    }

    fn add(&self, name: &str, why: &str) {
        let list = std::fs::OpenOptions::new().append(true).open(&self.0);
        let added = list.and_then(|mut list| writeln!(list, "{name}: {why}"));
        if let Err(error) = added {
            eprintln!("skipped: {name}: {why} ({}: {error})", self.0.display());
        }
    }

    /// The last lines.
    fn report(&self, fast: bool) {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let count = text.lines().count();
        eprintln!("== {count} tests skipped");
        for line in text.lines() {
            eprintln!("skipped: {line}");
        }
        if fast {
            eprintln!(
                "left out by --fast: end-to-end tests, the sample applications, the loom models, Miri"
            );
        }
    }
}

/// The models of the pool's locks, whose sources loom compiles with primitives of its own: with
/// other flags than the rest, and therefore in a directory of its own.
fn loom() -> Result<(), String> {
    step("loom");
    let mut models = run::cargo();
    models.env("RUSTFLAGS", "--cfg loom");
    models.env("CARGO_TARGET_DIR", run::target_dir().join("loom"));
    models.arg("test").args(CHECKED);
    models.args(["-p", "evenkeel-storage"]);
    run::check("the loom models", models.args(["--test", "loom"]))
}

fn step(name: &str) {
    eprintln!("== {name}");
}
