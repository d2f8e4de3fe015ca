//! The settings of a server: where their values come from, and loading them again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use evenkeel_io::{Disk, IoErrorKind, OpenOptions};
use parking_lot::{Mutex, RwLock};

use crate::error::SettingError;
use crate::file;
use crate::table::{Context, Setting, all, find};

/// The file that the user writes, in the data directory.
pub const FILE: &str = "evenkeel.conf";
/// The file that `ALTER SYSTEM` writes, which comes after the other.
pub const AUTO_FILE: &str = "evenkeel.auto.conf";
/// A longer configuration file is not one.
const LONGEST_FILE: u64 = 16 << 20;

/// The origin of a value, in the order in which they override each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The table.
    Default,
    /// Found out at the start.
    Override,
    /// A line of a file.
    File {
        /// The file.
        path: Arc<Path>,
        /// Counted from 1.
        line: u32,
    },
    /// `-c`, or an option that stands for it.
    CommandLine,
}

impl Source {
    /// Its name in `pg_settings`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::Override => "override",
            Source::File { .. } => "configuration file",
            Source::CommandLine => "command line",
        }
    }
}

/// The value of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// In its canonical form.
    pub value: Arc<str>,
    /// Its origin.
    pub source: Source,
    /// The files give another value, which the next start takes.
    pub pending_restart: bool,
}

/// One line of a configuration file, as `pg_file_settings` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// The file.
    pub path: Arc<Path>,
    /// Counted from 1.
    pub line: u32,
    /// The name and the value, where the line has them.
    pub content: Option<(String, String)>,
    /// The value is in force: nothing overrides it, and it could be applied.
    pub applied: bool,
    /// The reason why it could not.
    pub error: Option<String>,
}

/// The configuration as it was loaded last; never changed in place.
#[derive(Debug)]
pub struct Loaded {
    values: BTreeMap<Arc<str>, Given>,
    /// When.
    pub at: SystemTime,
}

impl Loaded {
    /// The value of a setting, of an application's own as well.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Given> {
        self.values.get(name)
    }

    /// All of them, by name.
    pub fn values(&self) -> impl Iterator<Item = (&Arc<str>, &Given)> {
        self.values.iter()
    }

    /// The canonical value of a setting of the table.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.get(name).map_or("", |given| &*given.value)
    }

    /// One sentence for each setting that was given a value without effect.
    pub fn without_effect(&self) -> impl Iterator<Item = String> {
        let given = self.values.iter();
        given.filter_map(|(name, given)| find(name)?.without_effect(&given.value))
    }

    /// A whole number.
    #[must_use]
    pub fn integer(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// A whole number that is not negative.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        usize::try_from(self.integer(name)).unwrap_or(0)
    }

    /// A number.
    #[must_use]
    pub fn real(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }

    /// A Boolean.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name) == "on"
    }

    /// An amount of memory, in bytes.
    #[must_use]
    pub fn bytes(&self, name: &str) -> u64 {
        let unit = find(name).map_or("", |setting| setting.kind.unit().name().unwrap_or(""));
        let size: u64 = match unit {
            "kB" => 1 << 10,
            "8kB" => 8 << 10,
            "MB" => 1 << 20,
            _ => 1,
        };
        u64::try_from(self.integer(name)).map_or(0, |number| number.saturating_mul(size))
    }

    /// A time.
    #[must_use]
    pub fn time(&self, name: &str) -> std::time::Duration {
        let unit = find(name).and_then(|setting| setting.kind.unit().name());
        let seconds = if unit == Some("ms") { 1e-3 } else { 1.0 };
        let time = std::time::Duration::try_from_secs_f64(self.real(name) * seconds);
        time.unwrap_or_default()
    }
}

/// Told of every configuration that is loaded while the server runs.
type Listener = Box<dyn Fn(&Loaded) + Send + Sync>;

/// The configuration of one server, shared by everything that it concerns.
pub struct Configuration {
    /// The directory of the files, if there is one.
    files: Option<(Arc<dyn Disk>, PathBuf)>,
    command_line: Vec<(String, String)>,
    /// Settings that the start found out.
    found: Mutex<BTreeMap<&'static str, String>>,
    loaded: RwLock<Arc<Loaded>>,
    generation: AtomicU64,
    /// Held while the files are read or written.
    files_lock: Mutex<()>,
    listeners: Mutex<Vec<Listener>>,
}

impl std::fmt::Debug for Configuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Configuration")
            .field("files", &self.files.as_ref().map(|(_, dir)| dir))
            .field("command_line", &self.command_line)
            .finish_non_exhaustive()
    }
}

impl Default for Configuration {
    /// Nothing but defaults, and no files.
    fn default() -> Configuration {
        let reading = Reading::new(&BTreeMap::new());
        Configuration::with(None, Vec::new(), reading.values)
    }
}

impl Configuration {
    fn with(
        files: Option<(Arc<dyn Disk>, PathBuf)>,
        command_line: Vec<(String, String)>,
        values: BTreeMap<Arc<str>, Given>,
    ) -> Configuration {
        Configuration {
            files,
            command_line,
            found: Mutex::default(),
            loaded: RwLock::new(Arc::new(Loaded {
                values,
                at: SystemTime::now(),
            })),
            generation: AtomicU64::new(0),
            files_lock: Mutex::new(()),
            listeners: Mutex::default(),
        }
    }

    /// These values and no files: for a database within another program, and for tests.
    ///
    /// # Errors
    /// When there is no such setting, or it does not take the value.
    pub fn of(given: &[(&str, &str)]) -> Result<Configuration, SettingError> {
        let command_line: Vec<(String, String)> = given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let mut reading = Reading::new(&BTreeMap::new());
        reading.command_line(&command_line);
        reading.first_error()?;
        Ok(Configuration::with(None, command_line, reading.values))
    }

    /// Reads the files of a data directory; what the command line gives overrides them.
    ///
    /// # Errors
    /// All errors of both, a line each.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        command_line: Vec<(String, String)>,
    ) -> Result<Configuration, SettingError> {
        let mut reading = Reading::new(&BTreeMap::new());
        reading.files(&*disk, directory)?;
        reading.command_line(&command_line);
        reading.first_error()?;
        let files = Some((disk, directory.to_owned()));
        let configuration = Configuration::with(files, command_line, reading.values);
        for sentence in configuration.loaded().without_effect() {
            tracing::warn!("{sentence}");
        }
        Ok(configuration)
    }

    /// The values as they were loaded last.
    #[must_use]
    pub fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read())
    }

    /// Grows with every load.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Says what the start found a setting to be, or that it is to be.
    pub fn settle(&self, name: &'static str, value: &str) {
        self.found.lock().insert(name, value.to_owned());
        let mut loaded = self.loaded.write();
        let mut values = loaded.values.clone();
        settle(&mut values, name, value);
        *loaded = Arc::new(Loaded {
            values,
            at: loaded.at,
        });
    }

    /// Has `listener` told of every configuration that is loaded from now on.
    pub fn on_load(&self, listener: impl Fn(&Loaded) + Send + Sync + 'static) {
        self.listeners.lock().push(Box::new(listener));
    }

    /// Reads the files once more. Sound values are applied, those that can change only at a start
    /// are left as they are and noted, and errors are logged.
    ///
    /// # Errors
    /// When a file cannot be read. Nothing is changed then.
    pub fn reload(&self) -> Result<(), SettingError> {
        let _one = self.files_lock.lock();
        let Some((disk, directory)) = &self.files else {
            return Ok(());
        };
        let mut reading = Reading::new(&self.found.lock());
        reading.files(&**disk, directory)?;
        reading.command_line(&self.command_line);
        let before = self.loaded();
        let is_sound = reading.keep_what_needs_a_restart(&before, true);
        if !is_sound {
            let path = directory.join(FILE);
            tracing::warn!(
                "configuration file \"{}\" contains errors; unaffected changes were applied",
                path.display()
            );
        }
        reading.tell_changes(&before);
        let loaded = Arc::new(Loaded {
            values: reading.values,
            at: SystemTime::now(),
        });
        *self.loaded.write() = Arc::clone(&loaded);
        self.generation.fetch_add(1, Ordering::Release);
        for listener in &*self.listeners.lock() {
            listener(&loaded);
        }
        Ok(())
    }

    /// The lines of the files as they are now, and whether each would take effect.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn file_entries(&self) -> Result<Vec<FileEntry>, SettingError> {
        let _one = self.files_lock.lock();
        let Some((disk, directory)) = &self.files else {
            return Ok(Vec::new());
        };
        let mut reading = Reading::new(&self.found.lock());
        reading.files(&**disk, directory)?;
        reading.command_line(&self.command_line);
        reading.keep_what_needs_a_restart(&self.loaded(), false);
        Ok(reading.entries)
    }

    /// `ALTER SYSTEM`: sets the value that the next load finds, or takes it back; without a name
    /// takes all of them back. Returns when that is durable; answers that the value has no effect,
    /// if it has none.
    ///
    /// # Errors
    /// When the setting does not take the value or no file may give it, or when the file cannot be
    /// written.
    pub fn alter(
        &self,
        change: Option<(&str, Option<&str>)>,
    ) -> Result<Option<String>, SettingError> {
        let without_effect = match change {
            Some((name, value)) => check_alter(name, value)?,
            None => None,
        };
        let _one = self.files_lock.lock();
        let (disk, directory) = self.files.as_ref().ok_or(SettingError::NoFile)?;
        let path = directory.join(AUTO_FILE);
        let mut kept: Vec<(String, String)> = Vec::new();
        if let Some((name, value)) = change {
            let text = read(&**disk, &path)?.unwrap_or_default();
            let pairs = file::lines(&text)
                .into_iter()
                .filter_map(|l| l.content.ok());
            kept.extend(pairs.filter(|(other, _)| !other.eq_ignore_ascii_case(name)));
            let name = find(name).map_or(name, |setting| setting.name);
            kept.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        }
        let head = "# Do not edit this file by hand: ALTER SYSTEM writes it.\n";
        let mut text = head.to_owned();
        for (name, value) in &kept {
            let line = file::line(name, value).ok_or_else(|| SettingError::Invalid {
                name: find(name).map_or("", |setting| setting.name),
                value: value.clone(),
                hint: Some("A value in a configuration file is one line.".to_owned()),
            })?;
            text.push_str(&line);
        }
        evenkeel_io::write_whole(&**disk, &path, text.as_bytes())
            .map_err(|error| failed("write", &path, &error))?;
        Ok(without_effect)
    }
}

/// Refuses what `ALTER SYSTEM` may not do; answers that the value has no effect, if it has none.
fn check_alter(name: &str, value: Option<&str>) -> Result<Option<String>, SettingError> {
    match (find(name), value) {
        (Some(setting), _) if !setting.is_configurable() => Err(SettingError::Fixed(setting.name)),
        (Some(setting), Some(value)) => Ok(setting.without_effect(&setting.canonical(value)?)),
        (Some(_), None) => Ok(None),
        (None, _) if name.contains('.') => Ok(None),
        (None, _) => Err(SettingError::Unknown(name.to_owned())),
    }
}

/// The text of a new data directory's file: every setting with its default, commented out.
#[must_use]
pub fn settings_file(prefix: &str) -> String {
    let chosen = all().filter(|setting| setting.is_configurable() && setting.has_effect());
    let line = |setting: &Setting| {
        let shown = setting.shown(&setting.boot());
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        let shown = match !shown.is_empty() && shown.chars().all(plain) {
            true => shown,
            false => format!("'{shown}'"),
        };
        format!("{prefix}{} = {shown}  # {}\n", setting.name, setting.effect)
    };
    chosen.map(line).collect()
}

fn failed(act: &'static str, path: &Path, error: &impl std::fmt::Display) -> SettingError {
    SettingError::File {
        act,
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

/// The text of a file; `None` if there is none.
fn read(disk: &dyn Disk, path: &Path) -> Result<Option<String>, SettingError> {
    let file = match disk.open(path, OpenOptions::read_only()) {
        Ok(file) => file,
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path, &error)),
    };
    let len = file.len().map_err(|error| failed("read", path, &error))?;
    if len > LONGEST_FILE {
        return Err(failed("read", path, &"it is too long"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|error| failed("read", path, &error))?;
    let text = String::from_utf8(bytes);
    text.map(Some)
        .map_err(|_| failed("read", path, &"it is not UTF-8"))
}

fn settle(values: &mut BTreeMap<Arc<str>, Given>, name: &'static str, value: &str) {
    if let Some(given) = values.get_mut(name) {
        given.value = value.into();
        // A value that was asked for keeps its origin.
        if given.source == Source::Default {
            given.source = Source::Override;
        }
    }
}

/// A configuration while it is read.
struct Reading {
    values: BTreeMap<Arc<str>, Given>,
    entries: Vec<FileEntry>,
    /// Errors of the command line.
    errors: Vec<SettingError>,
}

impl Reading {
    fn new(found: &BTreeMap<&'static str, String>) -> Reading {
        let default = |setting: &'static Setting| {
            let given = Given {
                value: setting.boot().into(),
                source: Source::Default,
                pending_restart: false,
            };
            (Arc::from(setting.name), given)
        };
        let mut values: BTreeMap<_, _> = all().map(default).collect();
        for (name, value) in found {
            settle(&mut values, name, value);
        }
        Reading {
            values,
            entries: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn files(&mut self, disk: &dyn Disk, directory: &Path) -> Result<(), SettingError> {
        for name in [FILE, AUTO_FILE] {
            let path: Arc<Path> = directory.join(name).into();
            let text = read(disk, &path)?.unwrap_or_default();
            for line in file::lines(&text) {
                let error = match &line.content {
                    Ok((name, value)) => {
                        let source = Source::File {
                            path: Arc::clone(&path),
                            line: line.number,
                        };
                        self.give(name, value, source).err()
                    }
                    Err(error) => Some((*error).to_owned()),
                };
                self.entries.push(FileEntry {
                    path: Arc::clone(&path),
                    line: line.number,
                    content: line.content.ok(),
                    applied: false,
                    error,
                });
            }
        }
        Ok(())
    }

    fn give(&mut self, name: &str, value: &str, source: Source) -> Result<(), String> {
        self.try_give(name, value, source).map_err(|error| {
            let hint = error.hint().map(|hint| format!(" ({hint})"));
            format!("{error}{}", hint.unwrap_or_default())
        })
    }

    fn try_give(&mut self, name: &str, value: &str, source: Source) -> Result<(), SettingError> {
        let (name, value) = match find(name) {
            Some(setting) if !setting.is_configurable() => {
                return Err(SettingError::Fixed(setting.name));
            }
            Some(setting) => (setting.name.to_owned(), setting.canonical(value)?),
            None if name.contains('.') => (name.to_ascii_lowercase(), value.to_owned()),
            None => return Err(SettingError::Unknown(name.to_owned())),
        };
        let given = Given {
            value: value.into(),
            source,
            pending_restart: false,
        };
        self.values.insert(name.into(), given);
        Ok(())
    }

    fn command_line(&mut self, given: &[(String, String)]) {
        for (name, value) in given {
            let result = self.try_give(name, value, Source::CommandLine);
            self.errors.extend(result.err());
        }
    }

    /// All errors, for one who cannot go on with any.
    fn first_error(&self) -> Result<(), SettingError> {
        let of_files = self.entries.iter().filter_map(|entry| {
            let error = entry.error.as_ref()?;
            Some(format!("{}:{}: {error}", entry.path.display(), entry.line))
        });
        let mut all: Vec<String> = of_files.collect();
        match (&*all, &*self.errors) {
            ([], []) => Ok(()),
            ([], [one]) => Err(one.clone()),
            _ => {
                all.extend(self.errors.iter().map(ToString::to_string));
                Err(SettingError::Several(all.join("\n")))
            }
        }
    }

    /// Leaves what can change only at a start as it is `now`, and notes which entries are in
    /// force; says whether all are sound. With `tells`, in the log as well.
    fn keep_what_needs_a_restart(&mut self, now: &Loaded, tells: bool) -> bool {
        for (name, given) in &mut self.values {
            let Some(setting) = find(name) else {
                continue;
            };
            let Some(before) = now.get(name) else {
                continue;
            };
            if setting.context == Context::Start && given.value != before.value {
                let wanted = std::mem::replace(given, before.clone());
                given.pending_restart = true;
                let error = SettingError::NeedsRestart(setting.name).to_string();
                if tells && !before.pending_restart {
                    tracing::info!("{error}");
                }
                let entry = self.entries.iter_mut().find(|entry| {
                    matches!(&wanted.source, Source::File { path, line }
                        if *path == entry.path && *line == entry.line)
                });
                if let Some(entry) = entry {
                    entry.error = Some("setting could not be applied".to_owned());
                }
            }
        }
        for entry in &mut self.entries {
            let given = entry.content.as_ref().and_then(|(name, _)| {
                let name = find(name).map_or(name.as_str(), |setting| setting.name);
                self.values.get(name)
            });
            let in_force = given.is_some_and(|given| {
                matches!(&given.source, Source::File { path, line }
                    if *path == entry.path && *line == entry.line)
            });
            entry.applied = in_force && entry.error.is_none();
        }
        for entry in self.entries.iter().filter(|_| tells) {
            let at_start = entry.error.as_deref() == Some("setting could not be applied");
            if let Some(error) = entry.error.as_ref().filter(|_| !at_start) {
                tracing::warn!("{}:{}: {error}", entry.path.display(), entry.line);
            }
        }
        self.entries.iter().all(|entry| entry.error.is_none())
    }

    fn tell_changes(&self, before: &Loaded) {
        for (name, given) in &self.values {
            let changed = before.get(name).is_none_or(|b| b.value != given.value);
            if changed {
                tracing::info!("parameter \"{name}\" changed to \"{}\"", given.value);
                let sentence = find(name).and_then(|s| s.without_effect(&given.value));
                if let Some(sentence) = sentence {
                    tracing::warn!("{sentence}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
