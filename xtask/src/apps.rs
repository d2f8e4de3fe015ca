//! `cargo xtask apps`: the sample applications of `examples/apps` on a server of this build.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::run;

/// How long the server may take until it listens.
const START: Duration = Duration::from_secs(30);

/// The Python that has the applications' packages, which are fetched from PyPI once.
///
/// # Errors
/// Why they cannot be had.
pub fn install() -> Result<PathBuf, String> {
    let wanted = run::root().join("examples/apps/requirements.txt");
    let wanted = std::fs::read_to_string(&wanted)
        .map_err(|error| format!("{}: {error}", wanted.display()))?;
    let venv = run::target_dir().join("sample-apps");
    let (python, installed) = (venv.join("bin/python"), venv.join("installed.txt"));
    if python.exists() && std::fs::read_to_string(&installed).is_ok_and(|has| has == wanted) {
        return Ok(python);
    }
    quietly(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&venv),
    )?;
    let mut fetch = Command::new(&python);
    fetch.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    quietly(fetch.args(wanted.lines()))?;
    std::fs::write(&installed, &wanted).map_err(|e| format!("{}: {e}", installed.display()))?;
    Ok(python)
}

/// Runs a command whose output is of interest only where it fails: its last line.
fn quietly(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = error.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.unwrap_or("it failed").to_owned())
}

/// A server over a new directory, which goes with it.
struct Server {
    child: Child,
    data: PathBuf,
    port: u16,
}

impl Server {
    fn start(binary: &Path) -> Result<Server, String> {
        let data = std::env::temp_dir().join(format!("evenkeel-apps-{}", std::process::id()));
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port
            .map_err(|error| format!("no free port: {error}"))?
            .port();
        let mut serve = Command::new(binary);
        serve
            .args(["serve", "--port", &port.to_string()])
            .arg(&data);
        serve.stdout(Stdio::null()).stderr(Stdio::null());
        let child = serve
            .spawn()
            .map_err(|e| format!("{}: {e}", binary.display()))?;
        let mut server = Server { child, data, port };
        let until = Instant::now() + START;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().ok().flatten();
            if let Some(status) = ended {
                return Err(format!("{serve:?} ended: {status}"));
            }
            if Instant::now() > until {
                return Err(format!("{serve:?} does not listen"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both may be gone already; a directory that is left over does no harm.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// Runs the applications' migrations and tests.
///
/// # Errors
/// When one fails.
pub fn run(python: &Path) -> Result<(), String> {
    let server = Server::start(&run::target_dir().join("checked/evenkeel"))?;
    let mut apps = Command::new(run::root().join("examples/apps/run.sh"));
    apps.env("PYTHON", python).env("PGHOST", "127.0.0.1");
    apps.env("PGPORT", server.port.to_string());
    apps.env("PGUSER", "postgres").env("PGDATABASE", "postgres");
    run::check("the sample applications", &mut apps)
}

/// `cargo xtask apps`
///
/// # Errors
/// When the server cannot be built, packages cannot be had, or a test fails.
pub fn apps() -> Result<(), String> {
    let python = install()?;
    let mut build = run::cargo();
    build.args(["build", "--profile", "checked", "--package", "evenkeel"]);
    run::check("building", &mut build)?;
    run(&python)
}
