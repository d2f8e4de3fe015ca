//! A running server: started, watched, stopped or killed; never left behind.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;
use crate::environment::DiskGroup;
use crate::error::{LabError, telling_line};
use crate::subject::{Settings, Subject};

/// Lines of a server's log that are kept.
const LOG_LINES_MAX: usize = 20_000;
const POLL: Duration = Duration::from_millis(5);
/// How long a server may take to end by itself.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A server's log: time since the start of its process, line.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<(Duration, String)>>>);

impl Log {
    fn lines(&self) -> Vec<(Duration, String)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The last line about a finished checkpoint.
    #[must_use]
    pub fn last_checkpoint(&self) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = lines.iter().rev().map(|(_, line)| line);
        lines.find(|line| line.contains("redo lsn=")).cloned()
    }

    fn keep(&self, at: Duration, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= LOG_LINES_MAX {
            lines.remove(LOG_LINES_MAX / 2);
        }
        lines.push((at, line));
    }
}

/// A server process and its children.
pub struct Server {
    label: String,
    child: Child,
    started: Instant,
    log: Log,
    group: Option<DiskGroup>,
    stop_signal: Option<Signal>,
    /// The TCP port on 127.0.0.1.
    pub port: u16,
    /// The data directory.
    pub data: PathBuf,
    /// From the start of the process to the first answered query.
    pub ready_after: Duration,
}

impl Server {
    /// Starts a server over `data`, which exists, and waits until it answers a query.
    ///
    /// # Errors
    /// [`LabError::PortInUse`], [`LabError::Crashed`] with its last words when it does not come
    /// up within `patience`, [`LabError::Interrupted`].
    pub fn start(
        subject: &dyn Subject,
        data: &Path,
        port: u16,
        settings: &Settings,
        group: Option<DiskGroup>,
        patience: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Server, LabError> {
        let mut server = Server::spawn(subject, data, port, settings)?;
        if let Some(group) = group {
            group.add(server.pid())?;
            server.group = Some(group);
        }
        server.wait_ready(patience, interrupted)?;
        Ok(server)
    }

    fn spawn(
        subject: &dyn Subject,
        data: &Path,
        port: u16,
        settings: &Settings,
    ) -> Result<Server, LabError> {
        let mut command = subject.server(data, port, settings);
        let program = PathBuf::from(command.get_program());
        // A group of its own: the terminal's interrupt is for the lab, which stops the server.
        command.process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command
            .spawn()
            .map_err(LabError::file("starting", &program))?;
        let log = Log::default();
        if let Some(stderr) = child.stderr.take() {
            let log = log.clone();
            std::thread::spawn(move || keep_log(stderr, started, &log));
        }
        Ok(Server {
            label: subject.label().to_owned(),
            child,
            started,
            log,
            group: None,
            stop_signal: subject.stop_signal(),
            port,
            data: data.to_owned(),
            ready_after: Duration::ZERO,
        })
    }

    fn wait_ready(&mut self, patience: Duration, stop: &AtomicBool) -> Result<(), LabError> {
        loop {
            let answered = Client::connect(self.port, Duration::from_secs(1))
                .is_ok_and(|mut client| client.ask("SELECT 1").is_ok());
            if answered {
                self.ready_after = self.started.elapsed();
                // Someone else's server on that port would answer too.
                return self.alive();
            }
            self.alive()?;
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            if self.started.elapsed() > patience {
                let how = format!("answered no query within {} s", patience.as_secs());
                return Err(self.crashed(how));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Fails when the server has ended by itself.
    ///
    /// # Errors
    /// [`LabError::Crashed`] with its last words.
    pub fn alive(&mut self) -> Result<(), LabError> {
        let status = match self.child.try_wait() {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => status.to_string(),
            Err(e) => e.to_string(),
        };
        // The reader of the log may be a moment behind.
        std::thread::sleep(Duration::from_millis(50));
        let in_use = |(_, line): &(Duration, String)| line.contains("Address already in use");
        if self.log_lines().iter().any(in_use) {
            return Err(LabError::PortInUse(self.port));
        }
        Err(self.crashed(format!("ended by itself ({status})")))
    }

    fn crashed(&self, how: String) -> LabError {
        let text: Vec<String> = self.log_lines().into_iter().map(|(_, line)| line).collect();
        LabError::Crashed {
            subject: self.label.clone(),
            how,
            last: telling_line(&text.join("\n")),
        }
    }

    /// The log so far: time since the start of the process, line.
    #[must_use]
    pub fn log_lines(&self) -> Vec<(Duration, String)> {
        self.log.lines()
    }

    /// The log, for another thread to follow.
    #[must_use]
    pub fn log(&self) -> Log {
        self.log.clone()
    }

    /// When the first line holding `text` was logged.
    #[must_use]
    pub fn logged(&self, text: &str) -> Option<Duration> {
        let lines = self.log_lines();
        let found = lines.iter().find(|(_, line)| line.contains(text));
        found.map(|(at, _)| *at)
    }

    /// The server's first process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The group that counts its writes, where there is one.
    #[must_use]
    pub fn group(&self) -> Option<&DiskGroup> {
        self.group.as_ref()
    }

    /// A session beside the measured load.
    ///
    /// # Errors
    /// When the server does not take it.
    pub fn client(&self) -> Result<Client, LabError> {
        Client::connect(self.port, Duration::from_secs(5)).map_err(|message| LabError::Sql {
            statement: "connecting".to_owned(),
            message,
        })
    }

    /// Ends every process of the server at once, as a crash does.
    pub fn crash(mut self) {
        self.stop_signal = None;
    }

    /// Ends the server, which need not be as a crash does it.
    pub fn stop(self) {
        drop(self);
    }

    fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Whether the server has ended by itself after being asked to.
    fn ends_when_asked(&mut self) -> bool {
        let Some(signal) = self.stop_signal else {
            return false;
        };
        let _ = kill_process(self.pid(), signal);
        let asked = Instant::now();
        while asked.elapsed() < STOP_PATIENCE {
            if self.has_ended() {
                return true;
            }
            std::thread::sleep(POLL);
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.has_ended() && !self.ends_when_asked() {
            // Stopped first, the server cannot replace the children that are killed.
            let _ = kill_process(self.pid(), Signal::STOP);
            for pid in descendants(self.pid()) {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn keep_log(stderr: impl std::io::Read, started: Instant, log: &Log) {
    for line in BufReader::new(stderr).split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line).into_owned();
        log.keep(started.elapsed(), line);
    }
}

/// Every process that descends from `root`, without it.
#[must_use]
pub fn descendants(root: Pid) -> Vec<Pid> {
    let mut parents: Vec<(Pid, i32)> = Vec::new();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    for process in processes.flatten() {
        let pid = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            continue;
        };
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The name in parentheses may hold anything; the fields after it are plain.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        if let Some(parent) = fields
            .split_whitespace()
            .nth(1)
            .and_then(|p| p.parse().ok())
        {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|pid| pid.as_raw_nonzero().get()) {
        let children = parents.iter().filter(|(_, of)| *of == parent);
        found.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// A port for a server: the one asked for if it is free, else any that is.
///
/// # Errors
/// [`LabError::PortInUse`] for the one asked for.
pub fn port(asked: Option<u16>) -> Result<u16, LabError> {
    let wanted = asked.unwrap_or(0);
    let listener = std::net::TcpListener::bind(("127.0.0.1", wanted))
        .map_err(|_| LabError::PortInUse(wanted))?;
    listener
        .local_addr()
        .map(|address| address.port())
        .map_err(|_| LabError::PortInUse(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::tests_support::Scripted;

    static RUN: AtomicBool = AtomicBool::new(false);

    fn start(script: &str, patience: Duration, stop: &AtomicBool) -> Result<Server, LabError> {
        let subject = Scripted::new("fake", script);
        let (data, port) = (std::env::temp_dir(), port(None).unwrap());
        Server::start(
            &subject,
            &data,
            port,
            &Settings::new(),
            None,
            patience,
            stop,
        )
    }

    #[test]
    fn a_subject_that_crashes_gives_its_last_words() {
        let script = "echo starting >&2; echo 'PANIC: bad page' >&2; exit 7";
        let reason = start(script, Duration::from_secs(20), &RUN)
            .err()
            .unwrap()
            .reason();
        assert_eq!(
            reason,
            "fake ended by itself (exit status: 7): PANIC: bad page"
        );
    }

    #[test]
    fn a_server_is_asked_to_stop_but_not_when_it_is_to_crash() {
        let dir = tempfile::tempdir().unwrap();
        let (ready, told) = (dir.path().join("ready"), dir.path().join("told"));
        let script = format!(
            "trap 'touch {}; exit 0' TERM; touch {}; while :; do sleep 0.02; done",
            told.display(),
            ready.display()
        );
        let mut subject = Scripted::new("fake", &script);
        // Not QUIT: what a shell starts in the background ignores it, and so would this one.
        subject.stop_signal = Some(Signal::TERM);
        let spawn = || {
            let _ = std::fs::remove_file(&ready);
            let server = Server::spawn(&subject, dir.path(), 0, &Settings::new()).unwrap();
            while !ready.exists() {
                std::thread::sleep(POLL);
            }
            server
        };
        spawn().crash();
        assert!(!told.exists());
        spawn().stop();
        assert!(told.exists());
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let number = taken.local_addr().unwrap().port();
        let reason = port(Some(number)).unwrap_err().reason();
        assert_eq!(
            reason,
            format!("port {number} is in use by another program")
        );
        let script = "echo 'could not bind: Address already in use' >&2; exit 1";
        let error = start(script, Duration::from_secs(20), &RUN).err().unwrap();
        assert!(matches!(error, LabError::PortInUse(_)), "{error}");
    }

    #[test]
    fn an_interrupted_or_impatient_start_leaves_no_process() {
        let error = start(
            "sleep 1000",
            Duration::from_secs(20),
            &AtomicBool::new(true),
        );
        assert!(matches!(error.err().unwrap(), LabError::Interrupted));
        let marker = format!("sleep 98{}", std::process::id());
        let error = start(&marker, Duration::from_millis(50), &RUN)
            .err()
            .unwrap();
        assert!(error.reason().contains("answered no query within"));
        let left = descendants(rustix::process::getpid())
            .into_iter()
            .filter(|pid| {
                let file = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
                let line = std::fs::read_to_string(file).unwrap_or_default();
                line.replace('\0', " ").contains(&marker)
            });
        assert_eq!(left.count(), 0);
    }
}
