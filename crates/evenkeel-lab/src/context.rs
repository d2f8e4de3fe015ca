//! What a run works with: directories, programs, progress, and the wish to stop.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::process::{Pid, Signal, kill_process_group};

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
        use std::os::unix::process::CommandExt;
        self.note(command);
        let name = PathBuf::from(command.get_program());
        let (out, err) = (self.scratch()?, self.scratch()?);
        let copy = |file: &std::fs::File| file.try_clone().map_err(LabError::file("using", &name));
        command
            .stdout(copy(out.as_file())?)
            .stderr(copy(err.as_file())?);
        let mut child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(LabError::file("starting", &name))?;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child
                .try_wait()
                .map_err(LabError::file("awaiting", &name))?
            {
                break status;
            }
            if let Err(error) = self.go_on().and_then(|()| watch(started.elapsed())) {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                return Err(error);
            }
            std::thread::sleep(POLL);
        };
        let read = |file: &Path| std::fs::read(file).unwrap_or_default();
        let stdout = String::from_utf8_lossy(&read(out.path())).into_owned();
        if status.success() {
            return Ok(stdout);
        }
        let stderr = String::from_utf8_lossy(&read(err.path())).into_owned();
        let file = name.file_name().unwrap_or_default().to_string_lossy();
        Err(LabError::Program {
            program: file.into_owned(),
            status: status.to_string(),
            last: telling_line(if stderr.trim().is_empty() {
                &stdout
            } else {
                &stderr
            }),
        })
    }

    /// Copies a directory with owners and times, sharing blocks where the file system can.
    ///
    /// # Errors
    /// What `cp` says.
    pub fn copy(&self, from: &Path, to: &Path) -> Result<(), LabError> {
        let mut copy = Command::new("cp");
        copy.args(["-a", "--reflink=auto"]).arg(from).arg(to);
        let noted = self.commands.borrow().len();
        self.run(&mut copy, |_| Ok(()))?;
        self.commands.borrow_mut().truncate(noted);
        Ok(())
    }

    fn scratch(&self) -> Result<tempfile::NamedTempFile, LabError> {
        tempfile::NamedTempFile::new_in(self.work).map_err(LabError::file("writing in", self.work))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn with_context<T>(stop: &AtomicBool, body: impl FnOnce(&Context<'_>) -> T) -> T {
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
    fn command_lines_are_quoted_for_a_shell() {
        let mut command = Command::new("/opt/bin/psql");
        command.args(["-c", "SELECT 'a'", ""]);
        assert_eq!(command_line(&command), "psql -c 'SELECT '\\''a'\\''' ''");
    }
}
