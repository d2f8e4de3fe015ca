//! Surroundings of a run: directories, programs, progress, and the wish to stop.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::NamedTempFile;

use crate::error::{LabError, telling_line};

const POLL: Duration = Duration::from_millis(10);

/// Shared by all steps of a run.
pub struct Context<'a> {
    /// A directory on the disk under test, removed afterwards.
    pub work: &'a Path,
    /// The directory of the stock clients.
    pub clients: &'a Path,
    /// The port servers are to listen on, if not any.
    pub port: Option<u16>,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
    /// Says what is being done.
    pub progress: &'a ProgressBar,
    /// The command lines so far.
    pub commands: RefCell<Vec<String>>,
}

impl Context<'_> {
    /// Fails when the user wants to stop.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub fn go_on(&self) -> Result<(), LabError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        Ok(())
    }

    /// Notes a command line for the report.
    pub fn note(&self, command: &Command) {
        self.commands.borrow_mut().push(command_line(command));
    }

    /// Notes something that is no command line.
    pub fn note_text(&self, text: &str) {
        self.commands.borrow_mut().push(text.to_owned());
    }

    /// A stock client of the server on `port`.
    #[must_use]
    pub fn client(&self, program: &str, port: u16) -> Command {
        let mut command = Command::new(self.clients.join(program));
        let port = port.to_string();
        command.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres"]);
        command.env("PGDATABASE", "postgres");
        command
    }

    /// Runs a program to its end and returns what it printed. The user's wish to stop, and an
    /// error of `watch`, which is called now and then, kill it.
    ///
    /// # Errors
    /// The program's telling line, [`LabError::Interrupted`], or what `watch` says.
    pub fn run(
        &self,
        command: &mut Command,
        mut watch: impl FnMut(Duration) -> Result<(), LabError>,
    ) -> Result<String, LabError> {
        self.note(command);
        let mut running = self.start(command)?;
        let started = Instant::now();
        loop {
            if let Some(outcome) = running.outcome() {
                return outcome;
            }
            self.go_on()?;
            watch(started.elapsed())?;
            std::thread::sleep(POLL);
        }
    }

    /// Starts a program.
    ///
    /// # Errors
    /// When it is not to be started.
    pub fn start(&self, command: &mut Command) -> Result<Running, LabError> {
        use std::os::unix::process::CommandExt;
        let name = PathBuf::from(command.get_program());
        let (out, err) = (self.scratch()?, self.scratch()?);
        let copy = |file: &std::fs::File| file.try_clone().map_err(LabError::file("using", &name));
        command
            .stdout(copy(out.as_file())?)
            .stderr(copy(err.as_file())?);
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(LabError::file("starting", &name))?;
        Ok(Running {
            name,
            child,
            out,
            err,
        })
    }

    /// Copies a directory with owners and times, sharing blocks where the file system can.
    ///
    /// # Errors
    /// Those that `cp` reports.
    pub fn copy(&self, from: &Path, to: &Path) -> Result<(), LabError> {
        let mut copy = Command::new("cp");
        copy.args(["-a", "--reflink=auto"]).arg(from).arg(to);
        let noted = self.commands.borrow().len();
        self.run(&mut copy, |_| Ok(()))?;
        self.commands.borrow_mut().truncate(noted);
        Ok(())
    }

    fn scratch(&self) -> Result<NamedTempFile, LabError> {
        NamedTempFile::new_in(self.work).map_err(LabError::file("writing in", self.work))
    }
}

/// A program under way; it does not outlive this.
pub struct Running {
    name: PathBuf,
    child: Child,
    out: NamedTempFile,
    err: NamedTempFile,
}

impl Running {
    /// Once it has ended, what it printed, or why it failed.
    pub fn outcome(&mut self) -> Option<Result<String, LabError>> {
        let status = match self.child.try_wait() {
            Ok(status) => status?,
            Err(error) => return Some(Err(LabError::file("awaiting", &self.name)(error))),
        };
        let read = |file: &NamedTempFile| {
            let bytes = std::fs::read(file.path()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let stdout = read(&self.out);
        if status.success() {
            return Some(Ok(stdout));
        }
        let stderr = read(&self.err);
        let file = self.name.file_name().unwrap_or_default().to_string_lossy();
        Some(Err(LabError::Program {
            program: file.into_owned(),
            status: status.to_string(),
            last: telling_line(if stderr.trim().is_empty() {
                &stdout
            } else {
                &stderr
            }),
        }))
    }

    /// Interrupts it, as the terminal does, and waits until it has ended, at most `patience`.
    pub fn interrupt(mut self, patience: Duration) {
        if self.outcome().is_none() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::INT);
        }
        let asked = Instant::now();
        while asked.elapsed() < patience && self.outcome().is_none() {
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.outcome().is_none() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// A command as one would type it, without the directory of the program.
#[must_use]
pub fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let mut line = name.into_owned();
    for argument in command.get_args() {
        let text = argument.to_string_lossy();
        line.push(' ');
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
        if !text.is_empty() && text.chars().all(plain) {
            line.push_str(&text);
        } else {
            line.push_str(&format!("'{}'", text.replace('\'', "'\\''")));
        }
    }
    line
}

/// A context in a directory of its own.
#[cfg(test)]
pub mod tests_support {
    use super::*;

    pub fn with_context<T>(stop: &AtomicBool, body: impl FnOnce(&Context<'_>) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        body(&Context {
            work: dir.path(),
            clients: Path::new("/bin"),
            port: None,
            interrupted: stop,
            progress: &ProgressBar::hidden(),
            commands: RefCell::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::tests_support::with_context;
    use super::*;

    #[test]
    fn an_interrupt_kills_the_program() {
        let stop = AtomicBool::new(true);
        let started = Instant::now();
        let outcome = with_context(&stop, |context| {
            context.run(Command::new("sleep").arg("1000"), |_| Ok(()))
        });
        assert!(matches!(outcome, Err(LabError::Interrupted)));
        assert!(started.elapsed() < Duration::from_secs(100));
    }

    #[test]
    fn what_watches_can_end_the_program() {
        let outcome = with_context(&AtomicBool::new(false), |context| {
            context.run(Command::new("sleep").arg("1000"), |_| {
                Err(LabError::PortInUse(1))
            })
        });
        assert!(matches!(outcome, Err(LabError::PortInUse(1))));
    }

    #[test]
    fn a_program_is_interrupted_before_it_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let [ready, told] = ["ready", "told"].map(|name| dir.path().join(name));
        let script = format!(
            "trap 'touch {}; exit 0' INT; touch {}; while :; do sleep 0.02; done",
            told.display(),
            ready.display()
        );
        // A shell starts background commands with the signal ignored, which they would inherit.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", "sh", "-c", &script]);
        with_context(&AtomicBool::new(false), |context| {
            let running = context.start(&mut command).unwrap();
            while !ready.exists() {
                std::thread::sleep(POLL);
            }
            running.interrupt(Duration::from_secs(100));
            assert!(told.exists());
            let running = context.start(Command::new("sleep").arg("1000")).unwrap();
            let pid = Pid::from_child(&running.child);
            drop(running);
            assert!(rustix::process::test_kill_process(pid).is_err());
        });
    }

    #[test]
    fn command_lines_are_quoted_for_a_shell() {
        let mut command = Command::new("/opt/bin/psql");
        command.args(["-c", "SELECT 'a'", ""]);
        assert_eq!(command_line(&command), "psql -c 'SELECT '\\''a'\\''' ''");
    }
}
