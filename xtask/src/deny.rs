//! `cargo deny`: licences, sources and banned crates among the dependencies, by `deny.toml`.

use std::path::PathBuf;
use std::process::Command;

use crate::run;

/// A later one may judge otherwise.
const VERSION: &str = "0.20.2";

/// Where it is installed, for all checkouts of this user.
fn directory() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cache = home.map_or_else(run::target_dir, |home| home.join(".cache"));
    cache
        .join("evenkeel/tools")
        .join(format!("cargo-deny-{VERSION}"))
}

fn program() -> PathBuf {
    directory().join("bin/cargo-deny")
}

/// Installs it once; an error says why it cannot be.
pub fn install() -> Result<(), String> {
    if program().is_file() {
        return Ok(());
    }
    eprintln!(
        "installing cargo-deny {VERSION} into {}",
        directory().display()
    );
    let mut install = run::cargo();
    install.args(["install", "cargo-deny", "--locked", "--quiet"]);
    install
        .args(["--version", VERSION, "--root"])
        .arg(directory());
    // Not this workspace's directory, whose profile and lints it does not share.
    let build = run::target_dir().join("cargo-deny");
    install.env("CARGO_TARGET_DIR", &build);
    let installed = run::check("installing cargo-deny", &mut install);
    let _ = std::fs::remove_dir_all(build);
    installed
}

pub fn check() -> Result<(), String> {
    let mut deny = Command::new(program());
    deny.current_dir(run::root());
    deny.args(["--all-features", "--log-level", "error", "check"]);
    run::check("cargo deny", deny.args(["bans", "licenses", "sources"]))
}
