//! A server process under test, and the stock clients that talk to it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

const STOP_LIMIT: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills it.
pub struct TestServer {
    child: Child,
    port: u16,
    log: PathBuf,
}

/// A server that was killed and may not be gone yet. Dropping it waits until it is.
pub struct KilledServer {
    _server: TestServer,
}

/// Exit status and output of a client program.
pub struct Output {
    /// Its exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Standard output of a program that must have succeeded.
    ///
    /// # Panics
    /// When it has not, with all it printed.
    pub fn ok(self) -> String {
        assert!(
            self.status.success(),
            "{}\n{}\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self.stdout
    }
}

impl TestServer {
    /// Starts a server over `data` on a free port with `settings`, and waits until it listens.
    ///
    /// # Panics
    /// When it does not come up, with its log.
    #[must_use]
    pub fn start(data: &Path, settings: &[&str]) -> TestServer {
        TestServer::try_start(data, settings).unwrap_or_else(|log| panic!("no server:\n{log}"))
    }

    /// The same, giving what the server printed when it does not come up.
    ///
    /// # Errors
    /// The server's log.
    pub fn try_start(data: &Path, settings: &[&str]) -> Result<TestServer, String> {
        TestServer::run(Command::new(server_binary()), data, settings)
    }

    /// As [`TestServer::start`], from a shell that allows so many open files unless a program
    /// asks for more.
    #[must_use]
    pub fn start_with_open_files(limit: u32, data: &Path, settings: &[&str]) -> TestServer {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -Sn {limit}; exec \"$0\" \"$@\"");
        shell.arg("-c").arg(script).arg(server_binary());
        TestServer::run(shell, data, settings).unwrap_or_else(|log| panic!("no server:\n{log}"))
    }

    /// As [`TestServer::try_start`], with limits that `prlimit` sets and no program can raise, such
    /// as `--nofile=256:256`.
    ///
    /// # Errors
    /// The server's log.
    pub fn try_start_limited(
        limits: &[&str],
        data: &Path,
        settings: &[&str],
    ) -> Result<TestServer, String> {
        let mut prlimit = Command::new("prlimit");
        prlimit.args(limits).arg(server_binary());
        TestServer::run(prlimit, data, settings)
    }

    /// Starts a server over `data` and kills it after so long, wherever it is by then.
    ///
    /// # Panics
    /// When the system does not start or kill it.
    pub fn start_and_kill(data: &Path, settings: &[&str], after: Duration) {
        let (mut child, _) = spawn(Command::new(server_binary()), data, settings);
        std::thread::sleep(after);
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    fn run(command: Command, data: &Path, settings: &[&str]) -> Result<TestServer, String> {
        let (mut child, log) = spawn(command, data, settings);
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let first = lines.next().and_then(Result::ok);
        let port = first
            .as_deref()
            .and_then(|line| line.rsplit(' ').next()?.parse().ok());
        let Some(port) = port else {
            let _ = child.wait();
            return Err(std::fs::read_to_string(&log).unwrap_or_default());
        };
        // The rest of the greeting is read so that the server never blocks on the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(TestServer { child, port, log })
    }

    /// The TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process's own memory that is resident, in bytes. Pages of the program's file are left
    /// out: how many of them the kernel maps around one that is used depends on its page cache.
    ///
    /// # Panics
    /// When the system does not say.
    #[must_use]
    pub fn resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("a running process");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB"));
        let kilobytes = kilobytes.and_then(|number| number.trim().parse::<usize>().ok());
        kilobytes.expect("RssAnon") << 10
    }

    /// The server's log so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A connection string for `tokio-postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres",
            self.port
        )
    }

    /// Kills the server as a crash of the process would.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// As [`TestServer::kill`], without waiting for the process to be gone: that is what the
    /// answer is waited for.
    ///
    /// # Panics
    /// When the system does not kill it.
    #[must_use]
    pub fn kill_and_go_on(mut self) -> KilledServer {
        self.child.kill().expect("kill");
        KilledServer { _server: self }
    }

    /// Stops the server as an administrator would, and waits for it.
    ///
    /// # Panics
    /// When it does not stop within a minute.
    pub fn stop(mut self) -> ExitStatus {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -TERM");
        let deadline = Instant::now() + STOP_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "the server does not stop:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs psql's `-c` with unaligned output; errors stop it.
    #[must_use]
    pub fn psql(&self, sql: &str) -> Output {
        self.psql_in("postgres", sql)
    }

    /// As [`TestServer::psql`], in a database.
    #[must_use]
    pub fn psql_in(&self, database: &str, sql: &str) -> Output {
        let unaligned = ["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1"];
        let what = ["-d", database, "-c", sql];
        self.client("psql", &[&unaligned[..], &what].concat())
    }

    /// Runs psql with `arguments`.
    #[must_use]
    pub fn psql_with(&self, arguments: &[&str]) -> Output {
        self.client("psql", arguments)
    }

    /// Runs pgbench with `arguments`.
    #[must_use]
    pub fn pgbench(&self, arguments: &[&str]) -> Output {
        self.client("pgbench", arguments)
    }

    /// Runs PostgreSQL 18's pg_dump with `arguments`: it refuses servers newer than itself.
    #[must_use]
    pub fn pg_dump(&self, arguments: &[&str]) -> Output {
        self.run_client(program_in("EVENKEEL_PG18_BIN", "pg_dump"), arguments)
    }

    fn client(&self, program: &str, arguments: &[&str]) -> Output {
        self.run_client(program_in("EVENKEEL_PG_BIN", program), arguments)
    }

    fn run_client(&self, program: PathBuf, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-U",
            "postgres",
        ]);
        command
            .env("PGDATABASE", "postgres")
            .env("PGCONNECT_TIMEOUT", "20");
        let out = command
            .args(arguments)
            .output()
            .expect("a stock PostgreSQL client");
        Output {
            status: out.status,
            stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }
}

/// Starts `command` as a server; the process and the file of its log.
fn spawn(mut command: Command, data: &Path, settings: &[&str]) -> (Child, PathBuf) {
    let log = data.with_extension("log");
    let log_file = File::options().create(true).append(true).open(&log);
    command.arg("serve").arg(data).args(["--port", "0"]);
    for setting in settings {
        command.args(["-c", setting]);
    }
    command
        .stdout(Stdio::piped())
        .stderr(log_file.expect("a log file"));
    (command.spawn().expect("the evenkeel binary"), log)
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the `evenkeel` command with `arguments`.
#[must_use]
pub fn evenkeel(arguments: &[&str]) -> Output {
    let out = Command::new(server_binary())
        .args(arguments)
        .output()
        .expect("evenkeel");
    Output {
        status: out.status,
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

/// A runtime for clients of the server under test.
///
/// # Panics
/// When the system gives no threads.
#[must_use]
pub fn client_runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// `EVENKEEL_BIN`, or the binary beside the test's own.
///
/// # Panics
/// When the test does not know its own path.
#[must_use]
pub fn server_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("EVENKEEL_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("the test's path");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("target/PROFILE/deps");
    profile.join("evenkeel")
}

/// A program from the directory that an environment variable names, or from the path.
fn program_in(variable: &str, program: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(dir) => Path::new(&dir).join(program),
        None => program.into(),
    }
}
