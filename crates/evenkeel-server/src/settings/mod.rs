//! Settings: `evenkeel.conf` and `-c name=value`, with PostgreSQL's names and units.

mod memory;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_engine::Config;
use evenkeel_io::IoMethod;
use evenkeel_sql::{AutovacuumConfig, ServerSetting, SqlConfig, SqlState};
use evenkeel_storage::{RecoveryOpen, StorageConfig, TornPageProtection};

use crate::config::ServerConfig;
use table::{MILLISECOND, SECOND, SETTINGS, Setting};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Workers for page writes, of the cleaner and of a checkpoint, beside those for reads ahead.
const IO_WRITERS: usize = 32;

/// A setting that was not accepted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SettingError {
    /// No setting has this name.
    #[error("unrecognized configuration parameter \"{0}\"; `evenkeel serve --help` lists them")]
    Unknown(String),
    /// The value does not fit.
    #[error("invalid value for parameter \"{name}\": \"{value}\" ({expected})")]
    Invalid {
        /// The setting.
        name: String,
        /// The value given.
        value: String,
        /// The values it takes.
        expected: String,
    },
    /// A line of the file is not `name = value`.
    #[error("line {0} is not of the form name = value")]
    Line(usize),
}

/// Everything that can be set, by the layer it goes to.
pub struct Settings {
    /// The engine and storage.
    pub database: Config,
    /// The SQL layer.
    pub sql: SqlConfig,
    /// The wire.
    pub server: ServerConfig,
    /// `io_method` is `worker`.
    has_io_workers: bool,
    /// `io_max_workers`; 0: as many as the depths of the queues need.
    io_max_workers: usize,
    /// `max_server_memory` and `max_session_memory`.
    memory: memory::Budgets,
    /// Where values come from that are applied now.
    source: &'static str,
}

/// Type of a setting's values; numbers without a unit are in the one given here.
#[derive(Clone, Copy)]
enum Kind {
    Bytes(u64),
    Time(Duration),
    Bool,
    Number,
    Fraction,
    /// A whole number, or -1.
    Count,
    /// Milliseconds with a fraction.
    Delay,
    Choice(&'static [&'static str]),
    Text,
}

enum Value {
    Bytes(u64),
    Time(Duration),
    Bool(bool),
    Number(u64),
    Fraction(f64),
    Count(i64),
    Delay(Duration),
    Text(String),
}

impl Default for Settings {
    fn default() -> Settings {
        let sql = SqlConfig {
            settings: SETTINGS.iter().map(Setting::by_default).collect(),
            ..SqlConfig::default()
        };
        Settings {
            database: Config::default(),
            sql,
            server: ServerConfig::default(),
            has_io_workers: true,
            io_max_workers: 0,
            memory: memory::Budgets::default(),
            source: "command line",
        }
    }
}

impl Setting {
    /// As `pg_settings` shows it when nothing sets it.
    fn by_default(&self) -> ServerSetting {
        let mut shown = ServerSetting {
            name: self.name,
            shown: String::new(),
            setting: String::new(),
            boot: String::new(),
            unit: self.kind.unit(),
            vartype: self.kind.vartype(),
            choices: self.kind.choices(),
            description: self.effect,
            source: "default",
        };
        self.show(&mut shown, self.default.trim_matches('\''), "default");
        shown.boot.clone_from(&shown.setting);
        shown
    }

    /// Puts a value, which has been checked, into what is shown.
    fn show(&self, shown: &mut ServerSetting, text: &str, source: &'static str) {
        (shown.setting, shown.shown) = match parse(self.kind, text) {
            Some(Value::Bytes(bytes)) => self.kind.in_units(bytes),
            Some(Value::Time(time)) => self.kind.in_units(time.as_micros() as u64),
            Some(Value::Bool(on)) => {
                let text = if on { "on" } else { "off" };
                (text.to_owned(), text.to_owned())
            }
            _ => (text.to_owned(), text.to_owned()),
        };
        shown.source = source;
    }
}

impl Settings {
    /// Applies the text of a settings file: `name = value` lines, `#` begins a comment.
    pub fn apply_file(&mut self, text: &str) -> Result<(), SettingError> {
        let source = std::mem::replace(&mut self.source, "configuration file");
        let applied = self.apply_lines(text);
        self.source = source;
        applied
    }

    fn apply_lines(&mut self, text: &str) -> Result<(), SettingError> {
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (name, value) = line.split_once('=').ok_or(SettingError::Line(index + 1))?;
            self.apply(name.trim(), value.trim())?;
        }
        Ok(())
    }

    /// Applies one setting.
    pub fn apply(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let name = name.to_ascii_lowercase();
        let text = value
            .strip_prefix('\'')
            .and_then(|v| v.strip_suffix('\''))
            .unwrap_or(value);
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            return self.apply_to_sessions(&name, text);
        };
        let invalid = |expected: String| SettingError::Invalid {
            name: name.clone(),
            value: text.to_owned(),
            expected,
        };
        let parsed = parse(setting.kind, text).ok_or_else(|| invalid(setting.kind.expected()))?;
        self.store(setting.name, parsed)
            .map_err(|expected| invalid(expected.to_owned()))?;
        let mut all = self.sql.settings.to_vec();
        for shown in all.iter_mut().filter(|shown| shown.name == setting.name) {
            setting.show(shown, text, self.source);
        }
        self.sql.settings = all.into();
        Ok(())
    }

    /// Applies a setting of sessions: their default.
    fn apply_to_sessions(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let given = evenkeel_sql::session_default(name, value, self.source);
        let given = given.map_err(|error| match error.sqlstate {
            SqlState::UNDEFINED_OBJECT => SettingError::Unknown(name.to_owned()),
            _ => SettingError::Invalid {
                name: name.to_owned(),
                value: value.to_owned(),
                expected: error.message.to_string(),
            },
        })?;
        let mut all = self.sql.settings.to_vec();
        all.retain(|known| known.name != given.name);
        all.push(given);
        self.sql.settings = all.into();
        Ok(())
    }

    fn store(&mut self, name: &str, value: Value) -> Result<(), &'static str> {
        let storage = &mut self.database.storage;
        if store_durability(storage, name, &value) || store_pool(storage, name, &value)? {
            return Ok(());
        }
        match (name, value) {
            ("port", Value::Number(n)) => {
                self.server.port = u16::try_from(n).map_err(|_| "a port is at most 65535")?;
            }
            ("unix_socket_directories", Value::Text(text)) => {
                self.server.socket_directory = (!text.is_empty()).then(|| PathBuf::from(text));
            }
            ("max_connections", Value::Number(n)) => {
                let n = usize::try_from(n)
                    .ok()
                    .filter(|n| (1..=100_000).contains(n));
                self.server.max_connections = n.ok_or("1 to 100000")?;
            }
            ("authentication_timeout", Value::Time(t)) => self.server.authentication_timeout = t,
            ("shared_buffers", Value::Bytes(n)) => storage.shared_buffers = n,
            ("wal_buffers", Value::Bytes(n)) => storage.wal_buffers = n,
            ("synchronize_seqscans", Value::Bool(on)) => self.database.synchronize_seqscans = on,
            ("ignore_log_damage", Value::Bool(on)) => storage.ignore_log_damage = on,
            ("torn_page_protection", Value::Text(text)) => {
                storage.torn_page_protection = match &*text {
                    "off" => TornPageProtection::Off,
                    "full_page_writes" => TornPageProtection::FullPageWrites,
                    _ => TornPageProtection::DoubleWrite,
                };
            }
            ("wal_compression", Value::Text(text)) => storage.wal_compression = text != "off",
            ("wal_consistency_checking", Value::Bool(on)) => {
                storage.wal_consistency_checking = on;
            }
            ("io_method", Value::Text(text)) => self.has_io_workers = text != "sync",
            ("io_max_workers", Value::Number(n)) => self.io_max_workers = concurrency(n)?,
            ("io_direct", Value::Text(text)) => {
                let wanted: Vec<&str> = text
                    .split(',')
                    .map(str::trim)
                    .filter(|part| !part.is_empty())
                    .collect();
                if wanted.iter().any(|part| !matches!(*part, "data" | "wal")) {
                    return Err("a list of data, wal");
                }
                storage.io_direct_data = wanted.contains(&"data");
                storage.io_direct_wal = wanted.contains(&"wal");
            }
            ("max_server_memory", Value::Bytes(n)) => self.memory.server = memory::budget(n)?,
            ("max_session_memory", Value::Bytes(n)) => self.memory.session = memory::budget(n)?,
            ("track_commit_timestamp", Value::Bool(on)) => {
                self.database.track_commit_timestamp = on;
            }
            (name, value) if name.starts_with("autovacuum") => {
                return store_autovacuum(&mut self.sql.autovacuum, name, value);
            }
            _ => return Err("a value of another kind"),
        }
        Ok(())
    }

    /// How files are read and written.
    #[must_use]
    pub fn io_method(&self) -> IoMethod {
        if !self.has_io_workers {
            return IoMethod::Sync;
        }
        let storage = &self.database.storage;
        let reads = storage.effective_io_concurrency + storage.maintenance_io_concurrency;
        IoMethod::Worker {
            threads: match self.io_max_workers {
                0 => reads + IO_WRITERS,
                most => most,
            },
        }
    }

    /// The settings with unit, default and effect, a line each: for `--help` and for the file
    /// that a new data directory gets.
    #[must_use]
    pub fn describe(prefix: &str) -> String {
        let own = SETTINGS
            .iter()
            .map(|s| format!("{prefix}{} = {}  # {}\n", s.name, s.default, s.effect));
        let is_new = |name: &str| SETTINGS.iter().all(|s| s.name != name);
        let sessions = evenkeel_sql::session_settings().filter(|(name, ..)| is_new(name));
        let sessions = sessions.map(|(name, default, effect)| {
            let default = if default.contains([' ', '"']) || default.is_empty() {
                format!("'{default}'")
            } else {
                default
            };
            format!("{prefix}{name} = {default}  # {effect} (default of sessions)\n")
        });
        own.chain(sessions).collect()
    }
}

/// Units from the smallest to the largest, with their size in the smallest.
const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", KIB),
    ("MB", MIB),
    ("GB", MIB << 10),
    ("TB", MIB << 20),
];
const TIMES: &[(&str, u64)] = &[
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// Stores a setting of checkpoints and the log; says whether it is one.
fn store_durability(storage: &mut StorageConfig, name: &str, value: &Value) -> bool {
    match (name, value) {
        ("max_wal_size", &Value::Bytes(n)) => storage.max_wal_size = n,
        ("min_wal_size", &Value::Bytes(n)) => storage.min_wal_size = n,
        ("checkpoint_timeout", &Value::Time(t)) => storage.checkpoint_timeout = t,
        ("checkpoint_completion_target", &Value::Fraction(f)) => {
            storage.checkpoint_completion_target = f;
        }
        ("checkpoint_flush_after", &Value::Bytes(n)) => storage.checkpoint_flush_after = n,
        ("checkpoint_warning", &Value::Time(t)) => storage.checkpoint_warning = t,
        ("max_recovery_time", &Value::Time(t)) => storage.max_recovery_time = t,
        ("wal_writer_delay", &Value::Time(t)) => storage.wal_writer_delay = t,
        ("fsync", &Value::Bool(on)) => storage.fsync = on,
        _ => return false,
    }
    true
}

fn concurrency(number: u64) -> Result<usize, &'static str> {
    let number = usize::try_from(number).ok().filter(|n| *n <= 1000);
    number.ok_or("0 to 1000")
}

/// Stores a setting of the pool and its reads and writes; says whether it is one.
fn store_pool(
    storage: &mut StorageConfig,
    name: &str,
    value: &Value,
) -> Result<bool, &'static str> {
    match (name, value) {
        ("bgwriter_flush_after", &Value::Bytes(n)) => storage.bgwriter_flush_after = n,
        ("vacuum_buffer_usage_limit", &Value::Bytes(n)) => {
            if n != 0 && !(128 * KIB..=16 << 30).contains(&n) {
                return Err("0, or 128kB to 16GB");
            }
            storage.vacuum_buffer_usage_limit = n;
        }
        ("effective_io_concurrency", &Value::Number(n)) => {
            storage.effective_io_concurrency = concurrency(n)?;
        }
        ("maintenance_io_concurrency", &Value::Number(n)) => {
            storage.maintenance_io_concurrency = concurrency(n)?;
        }
        ("recovery_open", Value::Text(text)) => {
            storage.recovery_open = match text.as_str() {
                "immediate" => RecoveryOpen::Immediate,
                _ => RecoveryOpen::AfterRedo,
            };
        }
        ("recovery_workers", &Value::Number(n)) => {
            let n = usize::try_from(n).ok().filter(|n| *n <= 64);
            storage.recovery_workers = n.ok_or("0 to 64")?;
        }
        ("recovery_prefetch", Value::Text(text)) => storage.recovery_prefetch = text != "off",
        ("io_combine_limit", &Value::Bytes(n)) => storage.io_combine_limit = n,
        ("io_slow_threshold", &Value::Time(t)) => storage.io_slow_threshold = t,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The settings of autovacuum.
fn store_autovacuum(
    to: &mut AutovacuumConfig,
    name: &str,
    value: Value,
) -> Result<(), &'static str> {
    match (name, value) {
        ("autovacuum", Value::Bool(on)) => to.enabled = on,
        ("autovacuum_naptime", Value::Time(time)) => {
            to.naptime = time.max(SECOND);
        }
        ("autovacuum_max_workers", Value::Number(n)) => {
            let n = usize::try_from(n).ok().filter(|n| (1..=64).contains(n));
            to.max_workers = n.ok_or("1 to 64")?;
        }
        ("autovacuum_vacuum_threshold", Value::Number(n)) => to.vacuum_threshold = n as f64,
        ("autovacuum_vacuum_max_threshold", Value::Count(n)) => to.vacuum_max_threshold = n as f64,
        ("autovacuum_vacuum_scale_factor", Value::Fraction(f)) => to.vacuum_scale_factor = f,
        ("autovacuum_vacuum_insert_threshold", Value::Count(n)) => to.insert_threshold = n as f64,
        ("autovacuum_vacuum_insert_scale_factor", Value::Fraction(f)) => to.insert_scale_factor = f,
        ("autovacuum_analyze_threshold", Value::Number(n)) => to.analyze_threshold = n as f64,
        ("autovacuum_analyze_scale_factor", Value::Fraction(f)) => to.analyze_scale_factor = f,
        ("autovacuum_freeze_max_age", Value::Number(n)) => {
            let in_range = (100_000..=2_000_000_000).contains(&n);
            to.freeze_max_age = in_range.then_some(n).ok_or("100000 to 2000000000")?;
        }
        ("autovacuum_vacuum_cost_delay", Value::Delay(delay)) => to.cost.delay = delay,
        ("autovacuum_vacuum_cost_limit", Value::Count(n)) => {
            let limit = if n == -1 { 200 } else { n };
            let limit = u32::try_from(limit)
                .ok()
                .filter(|n| (1..=10_000).contains(n));
            to.cost.limit = limit.ok_or("-1, or 1 to 10000")?;
        }
        _ => return Err("a value of another kind"),
    }
    Ok(())
}

impl Kind {
    /// Unit of numbers without one, as `pg_settings` names it.
    fn unit(self) -> Option<&'static str> {
        match self {
            Kind::Bytes(unit) if unit == 8 * KIB => Some("8kB"),
            Kind::Bytes(unit) => SIZES.iter().find(|(_, size)| *size == unit).map(|s| s.0),
            Kind::Time(unit) => {
                let micros = unit.as_micros() as u64;
                TIMES.iter().find(|(_, size)| *size == micros).map(|t| t.0)
            }
            _ => None,
        }
    }

    fn vartype(self) -> &'static str {
        match self {
            Kind::Bytes(_) | Kind::Time(_) | Kind::Number | Kind::Count => "integer",
            Kind::Bool => "bool",
            Kind::Fraction | Kind::Delay => "real",
            Kind::Choice(_) => "enum",
            Kind::Text => "string",
        }
    }

    fn choices(self) -> &'static [&'static str] {
        match self {
            Kind::Choice(choices) => choices,
            _ => &[],
        }
    }

    /// A size in bytes or a time in microseconds, as a number of this kind's units, and with
    /// the largest unit that it is a whole number of.
    fn in_units(self, amount: u64) -> (String, String) {
        let (units, own) = match self {
            Kind::Time(unit) => (TIMES, unit.as_micros() as u64),
            Kind::Bytes(unit) => (SIZES, unit),
            _ => (SIZES, 1),
        };
        let setting = (amount / own.max(1)).to_string();
        let fits = |(_, size): &&(&str, u64)| amount >= *size && amount.is_multiple_of(*size);
        match units.iter().rev().find(fits) {
            Some((unit, size)) => (setting, format!("{}{unit}", amount / size)),
            None => (setting.clone(), setting),
        }
    }

    fn expected(self) -> String {
        match self {
            Kind::Bytes(_) => "a size with unit B, kB, MB, GB or TB".to_owned(),
            Kind::Time(_) => "a time with unit us, ms, s, min, h or d".to_owned(),
            Kind::Bool => "on or off".to_owned(),
            Kind::Number => "a whole number".to_owned(),
            Kind::Fraction => "a number from 0 to 1".to_owned(),
            Kind::Count => "a whole number, or -1".to_owned(),
            Kind::Delay => "a time from 0 to 100ms".to_owned(),
            Kind::Choice(choices) => format!("one of {}", choices.join(", ")),
            Kind::Text => "a text".to_owned(),
        }
    }
}

fn parse(kind: Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Bytes(unit) => {
            let (number, suffix) = number_and_unit(text)?;
            let unit = match suffix {
                "" => unit,
                "B" => 1,
                "kB" => KIB,
                "MB" => MIB,
                "GB" => MIB << 10,
                "TB" => MIB << 20,
                _ => return None,
            };
            number.checked_mul(unit).map(Value::Bytes)
        }
        Kind::Time(unit) => {
            let (number, suffix) = number_and_unit(text)?;
            let unit = match suffix {
                "" => unit,
                "us" => Duration::from_micros(1),
                "ms" => MILLISECOND,
                "s" => SECOND,
                "min" => SECOND * 60,
                "h" => SECOND * 3600,
                "d" => SECOND * 86_400,
                _ => return None,
            };
            unit.checked_mul(u32::try_from(number).ok()?)
                .map(Value::Time)
        }
        Kind::Bool => match text.to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" | "1" => Some(Value::Bool(true)),
            "off" | "false" | "no" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
        Kind::Number => text.parse().ok().map(Value::Number),
        Kind::Fraction => text
            .parse()
            .ok()
            .filter(|f| (0.0..=1.0).contains(f))
            .map(Value::Fraction),
        Kind::Count => text.parse().ok().filter(|n| *n >= -1).map(Value::Count),
        Kind::Delay => {
            let digits = text.strip_suffix("ms").unwrap_or(text).trim();
            let millis: f64 = digits
                .parse()
                .ok()
                .filter(|ms| (0.0..=100.0).contains(ms))?;
            Some(Value::Delay(Duration::from_secs_f64(millis / 1e3)))
        }
        Kind::Choice(choices) => choices
            .contains(&text)
            .then(|| Value::Text(text.to_owned())),
        Kind::Text => Some(Value::Text(text.to_owned())),
    }
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_takes_its_own_default() {
        let mut settings = Settings::default();
        for setting in SETTINGS {
            settings.apply(setting.name, setting.default).unwrap();
        }
        let fresh = Settings::default();
        assert_eq!(settings.server.port, fresh.server.port);
        assert_eq!(
            settings.server.socket_directory,
            fresh.server.socket_directory
        );
        assert_eq!(settings.memory, fresh.memory);
        assert_eq!(settings.sql.autovacuum, fresh.sql.autovacuum);
        let (ours, theirs) = (&settings.database.storage, &fresh.database.storage);
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    }

    #[test]
    fn units_are_postgresqls() {
        let mut settings = Settings::default();
        settings
            .apply_file("# sizes\nshared_buffers = 1GB\nmax_wal_size=2048 # MB\n")
            .unwrap();
        assert_eq!(settings.database.storage.shared_buffers, 1 << 30);
        assert_eq!(settings.database.storage.max_wal_size, 2 << 30);
        settings.apply("checkpoint_timeout", "30").unwrap();
        assert_eq!(
            settings.database.storage.checkpoint_timeout,
            Duration::from_secs(30)
        );
        settings.apply("shared_buffers", "16384").unwrap();
        assert_eq!(settings.database.storage.shared_buffers, 128 << 20);
    }

    #[test]
    fn there_are_io_workers_for_the_depths_of_reading_ahead() {
        let mut settings = Settings::default();
        let workers = |threads| IoMethod::Worker { threads };
        assert_eq!(settings.io_method(), workers(16 + 16 + IO_WRITERS));
        settings.apply("maintenance_io_concurrency", "100").unwrap();
        assert_eq!(settings.io_method(), workers(16 + 100 + IO_WRITERS));
        settings.apply("io_max_workers", "3").unwrap();
        assert_eq!(settings.io_method(), workers(3));
        settings.apply("io_method", "sync").unwrap();
        assert_eq!(settings.io_method(), IoMethod::Sync);
        settings.apply("io_max_workers", "1001").unwrap_err();
    }

    #[test]
    fn settings_are_shown_in_their_units() {
        let mut settings = Settings::default();
        settings.apply_file("shared_buffers = 1GB\n").unwrap();
        settings.apply("checkpoint_timeout", "90s").unwrap();
        let shown = |name: &str| {
            let mut all = settings.sql.settings.iter();
            let found = all.find(|setting| setting.name == name).unwrap().clone();
            (
                found.shown,
                found.setting,
                found.boot,
                found.unit,
                found.source,
            )
        };
        let text = str::to_owned;
        let buffers = (text("1GB"), text("131072"), text("16384"), Some("8kB"));
        let (shown_as, setting, boot, unit, source) = shown("shared_buffers");
        assert_eq!((shown_as, setting, boot, unit), buffers);
        assert_eq!(source, "configuration file");
        let timeout = (
            text("90s"),
            text("90"),
            text("300"),
            Some("s"),
            "command line",
        );
        assert_eq!(shown("checkpoint_timeout"), timeout);
        assert_eq!(shown("wal_writer_delay").0, "10ms");
        assert_eq!(shown("fsync").4, "default");
    }

    #[test]
    fn settings_of_sessions_take_their_default_here() {
        let mut settings = Settings::default();
        settings.apply("synchronous_commit", "off").unwrap();
        settings.apply("statement_timeout", "5s").unwrap();
        settings.apply("Statement_Timeout", "7s").unwrap();
        settings.apply("lock_timeout", "2s").unwrap();
        let given = |name: &str| {
            let all = settings.sql.settings.iter();
            let of_name: Vec<_> = all.filter(|setting| setting.name == name).collect();
            assert_eq!(of_name.len(), 1, "{name}");
            (of_name[0].shown.clone(), of_name[0].source)
        };
        assert_eq!(
            given("synchronous_commit"),
            ("off".to_owned(), "command line")
        );
        assert_eq!(
            given("statement_timeout"),
            ("7s".to_owned(), "command line")
        );
        assert_eq!(given("lock_timeout").0, "2s");
        assert_eq!(
            settings.apply("statement_timeot", "5s").unwrap_err(),
            SettingError::Unknown("statement_timeot".to_owned())
        );
        for (name, value) in [
            ("statement_timeout", "soon"),
            ("application_name", "mine"),
            ("server_version", "19"),
        ] {
            let error = settings.apply(name, value).unwrap_err();
            assert!(matches!(error, SettingError::Invalid { .. }), "{error}");
        }
    }

    #[test]
    fn a_bad_setting_says_what_it_takes() {
        let mut settings = Settings::default();
        assert_eq!(
            settings.apply("shared_bufers", "1").unwrap_err(),
            SettingError::Unknown("shared_bufers".to_owned())
        );
        let error = settings.apply("shared_buffers", "1 parsec").unwrap_err();
        assert!(error.to_string().contains("kB, MB"), "{error}");
        assert_eq!(
            settings.apply_file("\nport 5\n").unwrap_err(),
            SettingError::Line(2)
        );
    }
}
