//! The systems under test, behind one trait: what a subject is called, which settings it knows,
//! how a data directory is made and how its server is started.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::error::{LabError, telling_line};

/// Settings by name, PostgreSQL's names and units.
pub type Settings = BTreeMap<String, String>;

/// A system whose servers the lab starts.
pub trait Subject: Send + Sync {
    /// Its name in the report.
    fn label(&self) -> &str;
    /// Its own version text.
    fn version(&self) -> String;
    /// Tells builds of one version apart.
    fn build(&self) -> String;
    /// Whether it has a setting of this name.
    fn knows(&self, setting: &str) -> bool;
    /// Prepares the directory `data`, which does not exist yet.
    ///
    /// # Errors
    /// When the subject's own program fails, or the directory cannot be made.
    fn create(&self, data: &Path) -> Result<(), LabError>;
    /// The command, besides making a directory, that prepares `data`.
    fn initdb(&self, _data: &Path) -> Option<Command> {
        None
    }
    /// The command that runs a server over `data` in the foreground, logging to standard error.
    fn server(&self, data: &Path, port: u16, settings: &Settings) -> Command;
    /// The signal on which a server ends at once and gives back what the kernel would keep; none
    /// where a killed server leaves nothing.
    fn stop_signal(&self) -> Option<Signal> {
        None
    }
    /// Extensions worth having for what they show, made where they exist.
    fn extensions(&self) -> &'static [&'static str] {
        &[]
    }
}

/// A PostgreSQL of any version, at its directory of programs.
pub struct Postgres {
    label: String,
    bin: PathBuf,
    version: String,
    known: BTreeSet<String>,
    /// User that runs it: PostgreSQL refuses root.
    user: Option<(u32, u32)>,
}

impl Postgres {
    /// Looks at the programs in `bin`.
    ///
    /// # Errors
    /// When there is no server, or it cannot be run on this machine.
    pub fn at(bin: &Path, label: Option<&str>) -> Result<Postgres, LabError> {
        let server = bin.join("postgres");
        let version = output(Command::new(&server).arg("--version"))?;
        let version = version
            .trim()
            .replace("postgres (PostgreSQL)", "PostgreSQL");
        let config = output(Command::new(&server).arg("--describe-config"))?;
        let known = config.lines().filter_map(|line| line.split('\t').next());
        let major = version.split(['.', ' ']).nth(1).unwrap_or_default();
        Ok(Postgres {
            label: label.map_or_else(|| format!("PostgreSQL {major}"), str::to_owned),
            bin: bin.to_owned(),
            known: known.map(str::to_owned).collect(),
            version,
            user: unprivileged_user()?,
        })
    }

    /// The developers' settings are not in the server's own list; it prints the value of any.
    fn knows_unlisted(&self, setting: &str) -> bool {
        let Ok(dir) = tempfile::tempdir() else {
            return false;
        };
        if std::fs::write(dir.path().join("postgresql.conf"), "").is_err() {
            return false;
        }
        let mut ask = Command::new(self.bin.join("postgres"));
        ask.args(["-C", setting, "-D"]).arg(dir.path());
        output(&mut ask).is_ok()
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command.current_dir("/");
        command
    }
}

impl Subject for Postgres {
    fn label(&self) -> &str {
        &self.label
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn build(&self) -> String {
        identity(&self.bin.join("postgres"))
    }

    fn knows(&self, setting: &str) -> bool {
        self.known.contains(setting) || self.knows_unlisted(setting)
    }

    fn create(&self, data: &Path) -> Result<(), LabError> {
        std::fs::create_dir_all(data).map_err(LabError::file("creating", data))?;
        if let Some((user, group)) = self.user {
            std::os::unix::fs::chown(data, Some(user), Some(group))
                .map_err(LabError::file("giving away", data))?;
        }
        self.initdb(data)
            .map_or(Ok(()), |mut initdb| output(&mut initdb).map(drop))
    }

    fn initdb(&self, data: &Path) -> Option<Command> {
        let mut initdb = self.program("initdb");
        initdb.args(["--auth=trust", "--username=postgres", "--data-checksums"]);
        initdb.args(["--no-sync", "--locale=C", "--encoding=UTF8", "--pgdata"]);
        initdb.arg(data);
        Some(initdb)
    }

    /// Immediate shutdown: no checkpoint, but shared memory and semaphores are removed.
    fn stop_signal(&self) -> Option<Signal> {
        Some(Signal::QUIT)
    }

    fn server(&self, data: &Path, port: u16, settings: &Settings) -> Command {
        let mut command = self.program("postgres");
        command.arg("-D").arg(data).args(["-p", &port.to_string()]);
        for (name, value) in settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.args(["-c", "unix_socket_directories="]);
        command.args(["-c", "listen_addresses=127.0.0.1"]);
        command
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["pg_buffercache"]
    }
}

/// A build of evenkeel.
pub struct Evenkeel {
    label: String,
    program: PathBuf,
    version: String,
    known: BTreeSet<String>,
}

impl Evenkeel {
    /// Looks at the program.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn at(program: &Path, label: Option<&str>) -> Result<Evenkeel, LabError> {
        let version = output(Command::new(program).arg("--version"))?;
        let help = output(Command::new(program).args(["serve", "--help"]))?;
        Ok(Evenkeel {
            label: label.unwrap_or("evenkeel").to_owned(),
            program: program.to_owned(),
            version: version.trim().to_owned(),
            known: settings_in_help(&help),
        })
    }
}

impl Subject for Evenkeel {
    fn label(&self) -> &str {
        &self.label
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn build(&self) -> String {
        identity(&self.program)
    }

    fn knows(&self, setting: &str) -> bool {
        self.known.contains(setting)
    }

    fn create(&self, data: &Path) -> Result<(), LabError> {
        std::fs::create_dir_all(data).map_err(LabError::file("creating", data))
    }

    fn server(&self, data: &Path, port: u16, settings: &Settings) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("serve")
            .arg(data)
            .args(["--port", &port.to_string()]);
        for (name, value) in settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.args(["-c", "unix_socket_directories="]);
        command.env("NO_COLOR", "1");
        command
    }
}

/// The names in lines of the form `name = default  # effect`.
fn settings_in_help(help: &str) -> BTreeSet<String> {
    let names = help.lines().filter_map(|line| {
        let name = line.split_once(" = ")?.0.trim();
        let plain = |c: char| c.is_ascii_lowercase() || c == '_';
        name.chars().all(plain).then(|| name.to_owned())
    });
    names.collect()
}

/// The subject at `path`: a directory with `postgres` in it, or an evenkeel program.
///
/// # Errors
/// When it is neither.
pub fn at(path: &Path, label: Option<&str>) -> Result<Box<dyn Subject>, LabError> {
    if path.join("postgres").is_file() {
        return Ok(Box::new(Postgres::at(path, label)?));
    }
    if path.is_file() {
        return Ok(Box::new(Evenkeel::at(path, label)?));
    }
    Err(LabError::unavailable(
        path.display().to_string(),
        "neither a directory with `postgres` in it nor an evenkeel program",
    ))
}

/// User that runs PostgreSQL when the lab runs as root: `postgres`, else `nobody`.
fn unprivileged_user() -> Result<Option<(u32, u32)>, LabError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(str::parse);
        Some((ids.next()?.ok()?, ids.next()?.ok()?))
    };
    match ids("postgres").or_else(|| ids("nobody")) {
        Some(user) => Ok(Some(user)),
        None => Err(LabError::unavailable(
            "PostgreSQL",
            "refuses to run as root, and there is no user postgres or nobody",
        )),
    }
}

fn identity(program: &Path) -> String {
    std::fs::metadata(program).map_or_else(
        |_| String::new(),
        |file| format!("{} bytes, {}", file.len(), file.mtime()),
    )
}

/// Output of `command`; its telling line when it fails.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn output(command: &mut Command) -> Result<String, LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command
        .stdin(Stdio::null())
        .output()
        .map_err(LabError::file("running", Path::new(&program)))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let name = Path::new(&program).file_name().unwrap_or_default();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    Err(LabError::Program {
        program: name.to_string_lossy().into_owned(),
        status: out.status.to_string(),
        last: telling_line(if stderr.trim().is_empty() {
            &stdout
        } else {
            &stderr
        }),
    })
}

/// A directory that the subjects' users can enter.
///
/// # Errors
/// When it cannot be made.
pub fn enterable_dir(path: &Path) -> Result<(), LabError> {
    std::fs::create_dir_all(path).map_err(LabError::file("creating", path))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .map_err(LabError::file("opening up", path))
}

/// A subject whose server is a shell script.
#[cfg(test)]
pub mod tests_support {
    use super::*;

    pub struct Scripted {
        label: String,
        script: String,
        pub stop_signal: Option<Signal>,
    }

    impl Scripted {
        pub fn new(label: &str, script: &str) -> Scripted {
            Scripted {
                label: label.to_owned(),
                script: script.to_owned(),
                stop_signal: None,
            }
        }
    }

    impl Subject for Scripted {
        fn label(&self) -> &str {
            &self.label
        }

        fn version(&self) -> String {
            "1".to_owned()
        }

        fn build(&self) -> String {
            self.script.clone()
        }

        fn knows(&self, setting: &str) -> bool {
            setting == "shared_buffers"
        }

        fn create(&self, data: &Path) -> Result<(), LabError> {
            enterable_dir(data)
        }

        fn server(&self, _: &Path, _: u16, _: &Settings) -> Command {
            let mut command = Command::new("sh");
            command.arg("-c").arg(&self.script);
            command
        }

        fn stop_signal(&self) -> Option<Signal> {
            self.stop_signal
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_the_help() {
        let help = "Options:\n  -c <NAME=VALUE>  x = y\n\n  shared_buffers = 128MB  # memory\n  \
                    search_path = '\"$user\", public'  # where (default of sessions)\n  \
                    synchronous_commit = on  # whether (default of sessions)\n";
        let known: Vec<String> = settings_in_help(help).into_iter().collect();
        assert_eq!(
            known,
            ["search_path", "shared_buffers", "synchronous_commit"]
        );
    }

    #[test]
    fn a_path_that_is_no_subject_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let error = at(dir.path(), None).err().unwrap();
        assert!(
            error
                .reason()
                .contains("neither a directory with `postgres`")
        );
    }

    #[test]
    fn a_failing_program_gives_its_telling_line() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo one >&2; echo 'FATAL: two' >&2; exit 3"]);
        let reason = output(&mut shell).unwrap_err().reason();
        assert_eq!(reason, "sh failed (exit status: 3): FATAL: two");
    }
}
