//! Settings under PostgreSQL's names: SET, SHOW, RESET, and their fate when a transaction ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::{Durability, Isolation};
use parking_lot::Mutex;

use super::setting_info::{ServerSetting, SettingInfo, effect};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::SettingsAccess;
use crate::types::TimeZone;

/// What values a setting takes.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Bool,
    /// Whole numbers in a range; of milliseconds when `true`.
    Int(i64, i64, bool),
    /// Memory; kept in kB, between these.
    Size(u64, u64),
    /// Milliseconds with a fraction, up to this many.
    Delay(f64),
    Enum(&'static [&'static str]),
    Text,
    Zone,
    /// Cannot be changed.
    Fixed,
}

struct Def {
    name: &'static str,
    default: &'static str,
    kind: Kind,
    /// Name in ParameterStatus messages, for settings that clients are told of.
    report: Option<&'static str>,
}

const fn def(name: &'static str, default: &'static str, kind: Kind) -> Def {
    Def {
        name,
        default,
        kind,
        report: None,
    }
}

const fn told(name: &'static str, default: &'static str, kind: Kind, report: &'static str) -> Def {
    Def {
        name,
        default,
        kind,
        report: Some(report),
    }
}

const LEVELS: Kind = Kind::Enum(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "info", "warning", "error",
]);
const ISOLATION: Kind = Kind::Enum(&[
    "read uncommitted",
    "read committed",
    "repeatable read",
    "serializable",
]);
const AGE: Kind = Kind::Int(0, 2_000_000_000, false);
const MILLIS: Kind = Kind::Int(0, i32::MAX as i64, true);

/// PostgreSQL's version that the dialect follows.
pub const SERVER_VERSION: &str = "18.0";

static DEFS: &[Def] = &[
    told("application_name", "", Kind::Text, "application_name"),
    def("check_function_bodies", "on", Kind::Bool),
    def(
        "default_toast_compression",
        "pglz",
        Kind::Enum(&["pglz", "lz4"]),
    ),
    def("idle_session_timeout", "0", MILLIS),
    def("quote_all_identifiers", "off", Kind::Enum(&["off"])),
    def("restrict_nonsystem_relation_kind", "", Kind::Text),
    def("synchronize_seqscans", "on", Kind::Bool),
    def("transaction_timeout", "0", Kind::Int(0, 0, true)),
    def("xmloption", "content", Kind::Enum(&["content", "document"])),
    def("bytea_output", "hex", Kind::Enum(&["hex", "escape"])),
    told(
        "client_encoding",
        "UTF8",
        Kind::Enum(&["utf8", "unicode"]),
        "client_encoding",
    ),
    def("client_min_messages", "notice", LEVELS),
    told("datestyle", "ISO, MDY", Kind::Text, "DateStyle"),
    def(
        "default_statistics_target",
        "100",
        Kind::Int(1, 10_000, false),
    ),
    def("default_table_access_method", "heap", Kind::Enum(&["heap"])),
    def("default_tablespace", "", Kind::Text),
    def("default_transaction_deferrable", "off", Kind::Bool),
    def("default_transaction_isolation", "read committed", ISOLATION),
    told(
        "default_transaction_read_only",
        "off",
        Kind::Bool,
        "default_transaction_read_only",
    ),
    def("extra_float_digits", "1", Kind::Int(-15, 3, false)),
    def("idle_in_transaction_session_timeout", "0", MILLIS),
    told("in_hot_standby", "off", Kind::Fixed, "in_hot_standby"),
    told("integer_datetimes", "on", Kind::Fixed, "integer_datetimes"),
    told(
        "intervalstyle",
        "postgres",
        Kind::Enum(&["postgres"]),
        "IntervalStyle",
    ),
    told("is_superuser", "on", Kind::Fixed, "is_superuser"),
    def("jit", "off", Kind::Bool),
    def("lc_collate", "C", Kind::Fixed),
    def("lc_ctype", "C", Kind::Fixed),
    def("lc_messages", "C", Kind::Text),
    def("lc_monetary", "C", Kind::Text),
    def("lc_numeric", "C", Kind::Text),
    def("lc_time", "C", Kind::Text),
    def("lock_timeout", "0", MILLIS),
    def(
        "log_statement",
        "none",
        Kind::Enum(&["none", "ddl", "mod", "all"]),
    ),
    def("maintenance_work_mem", "65536", Kind::Size(64, 1 << 31)),
    def("max_identifier_length", "63", Kind::Fixed),
    def("role", "none", Kind::Enum(&["none"])),
    def("row_security", "on", Kind::Bool),
    told(
        "search_path",
        "\"$user\", public",
        Kind::Text,
        "search_path",
    ),
    told("server_encoding", "UTF8", Kind::Fixed, "server_encoding"),
    told(
        "server_version",
        SERVER_VERSION,
        Kind::Fixed,
        "server_version",
    ),
    def("server_version_num", "180000", Kind::Fixed),
    told(
        "session_authorization",
        "",
        Kind::Fixed,
        "session_authorization",
    ),
    told(
        "standard_conforming_strings",
        "on",
        Kind::Enum(&["on", "true", "1"]),
        "standard_conforming_strings",
    ),
    def("statement_timeout", "0", MILLIS),
    def(
        "synchronous_commit",
        "on",
        Kind::Enum(&["on", "off", "local", "remote_write", "remote_apply"]),
    ),
    told("timezone", "UTC", Kind::Zone, "TimeZone"),
    def("transaction_deferrable", "off", Kind::Fixed),
    def("transaction_isolation", "read committed", ISOLATION),
    def("transaction_read_only", "off", Kind::Bool),
    def("vacuum_buffer_usage_limit", "2048", Kind::Size(0, 1 << 24)),
    def("vacuum_cost_delay", "0", Kind::Delay(100.0)),
    def("vacuum_cost_limit", "200", Kind::Int(1, 10_000, false)),
    def("vacuum_cost_page_dirty", "20", Kind::Int(0, 10_000, false)),
    def("vacuum_cost_page_hit", "1", Kind::Int(0, 10_000, false)),
    def("vacuum_cost_page_miss", "2", Kind::Int(0, 10_000, false)),
    def("vacuum_freeze_min_age", "50000000", AGE),
    def("vacuum_freeze_table_age", "150000000", AGE),
    def("vacuum_truncate", "on", Kind::Bool),
    def("work_mem", "4096", Kind::Text),
];

fn find(name: &str) -> Option<&'static Def> {
    DEFS.iter().find(|def| def.name == name)
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

fn fixed_by_server(name: &str) -> SqlError {
    SqlError::new(
        SqlState::CANT_CHANGE_RUNTIME_PARAM,
        format!("parameter \"{name}\" cannot be changed without restarting the server"),
    )
}

fn invalid(name: &str, value: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

/// Reads PostgreSQL's spellings of a boolean.
fn boolean(value: &str) -> Option<bool> {
    let lower = value.to_ascii_lowercase();
    match lower.as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// Reads a whole number, with a unit of time if the setting is one.
fn number(value: &str, time: bool) -> Option<i64> {
    let value = value.trim();
    if !time {
        return value.parse().ok();
    }
    let split = value
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(value.len());
    let (digits, unit) = value.split_at(split);
    let number: f64 = digits.trim().parse().ok()?;
    let factor = match unit {
        "" | "ms" => 1.0,
        "us" => 0.001,
        "s" => 1_000.0,
        "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    };
    Some((number * factor).round() as i64)
}

/// Reads an amount of memory: bytes, of a number in `unit` bytes unless it says otherwise.
pub fn parse_size(value: &str, unit: u64) -> Option<u64> {
    let value = value.trim();
    let split = value
        .find(|c: char| c.is_ascii_alphabetic() || c == ' ')
        .unwrap_or(value.len());
    let (digits, suffix) = value.split_at(split);
    let unit = match suffix.trim() {
        "" => unit,
        "B" => 1,
        "kB" | "kb" => 1 << 10,
        "MB" | "mb" => 1 << 20,
        "GB" | "gb" => 1 << 30,
        "TB" | "tb" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Milliseconds with a fraction.
fn delay(value: &str) -> Option<f64> {
    let value = value.trim();
    let (digits, factor) = match value.strip_suffix("ms") {
        Some(digits) => (digits, 1.0),
        None => match value.strip_suffix("us") {
            Some(digits) => (digits, 1e-3),
            None => (value, 1.0),
        },
    };
    digits.trim().parse::<f64>().ok().map(|ms| ms * factor)
}

/// A value with its unit, as SHOW and `current_setting` give it.
fn shown(name: &str, value: String) -> String {
    match find(&name.to_ascii_lowercase()).map(|def| def.kind) {
        Some(Kind::Int(_, _, true)) => milliseconds(&value),
        Some(Kind::Size(..)) => kilobytes(&value),
        Some(Kind::Delay(_)) if value != "0" => format!("{value}ms"),
        _ => value,
    }
}

/// Memory in the largest unit that divides it.
fn kilobytes(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(kb) if kb > 0 && kb % (1 << 20) == 0 => format!("{}GB", kb >> 20),
        Ok(kb) if kb > 0 && kb % (1 << 10) == 0 => format!("{}MB", kb >> 10),
        Ok(kb) if kb > 0 => format!("{kb}kB"),
        _ => value.to_owned(),
    }
}

/// The value in its canonical form.
fn canonical(def: &Def, value: &str) -> SqlResult<String> {
    let bad = || invalid(def.name, value);
    Ok(match def.kind {
        Kind::Fixed => {
            return Err(SqlError::new(
                SqlState::CANT_CHANGE_RUNTIME_PARAM,
                format!("parameter \"{}\" cannot be changed", def.name),
            ));
        }
        Kind::Bool => match boolean(value) {
            Some(true) => "on".into(),
            Some(false) => "off".into(),
            None => {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("parameter \"{}\" requires a Boolean value", def.name),
                ));
            }
        },
        Kind::Int(low, high, time) => {
            let number = number(value, time).ok_or_else(bad)?;
            if !(low..=high).contains(&number) {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "{number} is outside the valid range for parameter \"{}\" ({low} .. {high})",
                        def.name
                    ),
                ));
            }
            number.to_string()
        }
        Kind::Size(low, high) => {
            let kilobytes = parse_size(value, 1024).ok_or_else(bad)? / 1024;
            if !(low..=high).contains(&kilobytes) {
                let message = format!(
                    "{kilobytes} kB is outside the valid range for parameter \"{}\" \
                     ({low} kB .. {high} kB)",
                    def.name
                );
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            kilobytes.to_string()
        }
        Kind::Delay(most) => {
            let millis = delay(value).filter(|ms| (0.0..=most).contains(ms));
            millis.ok_or_else(bad)?.to_string()
        }
        Kind::Enum(values) => one_of(def.name, values, value).ok_or_else(bad)?,
        Kind::Zone => TimeZone::parse(value)?.name().to_owned(),
        Kind::Text if def.name == "datestyle" => date_style(value).ok_or_else(bad)?,
        Kind::Text => value.to_owned(),
    })
}

/// A word of a list, in its canonical form.
fn one_of(name: &str, values: &[&str], value: &str) -> Option<String> {
    let mut lower = value.to_ascii_lowercase();
    if name == "client_encoding" {
        // PostgreSQL looks at nothing but letters and digits; asyncpg sends 'utf-8' quoted.
        lower.retain(|c| c.is_ascii_alphanumeric());
    }
    if name == "synchronous_commit"
        && let Some(on) = boolean(&lower)
    {
        return Some(if on { "on" } else { "off" }.into());
    }
    values.contains(&lower.as_str()).then(|| match name {
        "client_encoding" => "UTF8".into(),
        "standard_conforming_strings" => "on".into(),
        _ => lower,
    })
}

/// Dates are written in ISO style only; the order of fields on input can be chosen.
fn date_style(value: &str) -> Option<String> {
    let mut order = "MDY";
    for word in value.split(',').map(str::trim) {
        match word.to_ascii_lowercase().as_str() {
            "iso" | "default" => {}
            "mdy" | "us" | "noneuropean" => order = "MDY",
            "dmy" | "euro" | "european" => order = "DMY",
            "ymd" => order = "YMD",
            _ => return None,
        }
    }
    Some(format!("ISO, {order}"))
}

type Values = BTreeMap<Arc<str>, Arc<str>>;

/// A setting that `set_config` asked for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The setting.
    pub name: String,
    /// Its value.
    pub value: String,
    /// For the transaction only.
    pub local: bool,
}

/// A consistent set of settings; shared, never changed in place. What functions set through it
/// comes into force when their statement ends.
#[derive(Debug, Clone, Default)]
pub struct SettingsView {
    values: Arc<Values>,
    base: Arc<Values>,
    server: Arc<[ServerSetting]>,
    wishes: Arc<Mutex<Vec<Wish>>>,
}

impl SettingsAccess for SettingsView {
    fn get(&self, name: &str) -> Option<String> {
        let wished = self.wishes.lock();
        let last = wished
            .iter()
            .rev()
            .find(|wish| wish.name.eq_ignore_ascii_case(name));
        let value = last
            .map(|wish| wish.value.clone())
            .or_else(|| self.value(name));
        value.map(|value| shown(name, value))
    }

    fn set(&self, name: &str, value: &str, local: bool) -> SqlResult<String> {
        let name = name.to_ascii_lowercase();
        let value = match find(&name) {
            Some(def) => canonical(def, value)?,
            None if name.contains('.') => value.to_owned(),
            None => return Err(unknown(&name)),
        };
        self.wishes.lock().push(Wish {
            name,
            value: value.clone(),
            local,
        });
        Ok(value)
    }

    fn all(&self) -> Vec<(String, String)> {
        SettingsView::all(self)
    }

    fn describe(&self) -> Vec<SettingInfo> {
        let own = DEFS.iter().map(|def| self.info(def));
        let server = self
            .server
            .iter()
            .filter(|setting| find(setting.name).is_none());
        let mut all: Vec<_> = own.chain(server.map(ServerSetting::info)).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

impl SettingsView {
    /// What functions have asked for since the last call.
    pub fn take_wishes(&self) -> Vec<Wish> {
        let mut wishes = self.wishes.lock();
        if wishes.is_empty() {
            Vec::new()
        } else {
            std::mem::take(&mut wishes)
        }
    }

    /// The value of a setting; `None` when there is none of that name.
    pub fn value(&self, name: &str) -> Option<String> {
        let name = name.to_ascii_lowercase();
        match self.values.get(name.as_str()) {
            Some(value) => Some(value.to_string()),
            None => find(&name).map(|def| def.default.to_owned()),
        }
    }

    fn info(&self, def: &Def) -> SettingInfo {
        let base = self.base.get(def.name).map_or(def.default, |value| value);
        let value = self.values.get(def.name).map_or(base, |value| value);
        let source = match (value == base, base == def.default) {
            (false, _) => "session",
            (true, false) => "client",
            (true, true) => "default",
        };
        let mut info = SettingInfo {
            name: def.report.unwrap_or(def.name).to_owned(),
            setting: value.to_owned(),
            category: "Session",
            short_desc: effect(def.name),
            context: "user",
            source,
            boot_val: def.default.to_owned(),
            reset_val: base.to_owned(),
            vartype: "string",
            ..SettingInfo::default()
        };
        match def.kind {
            Kind::Bool => info.vartype = "bool",
            Kind::Int(low, high, time) => {
                info.vartype = "integer";
                info.unit = time.then_some("ms");
                info.min_val = Some(low.to_string());
                info.max_val = Some(high.to_string());
            }
            Kind::Size(low, high) => {
                info.vartype = "integer";
                info.unit = Some("kB");
                info.min_val = Some(low.to_string());
                info.max_val = Some(high.to_string());
            }
            Kind::Delay(most) => {
                info.vartype = "real";
                info.unit = Some("ms");
                info.min_val = Some("0".into());
                info.max_val = Some(most.to_string());
            }
            Kind::Enum(values) => {
                info.vartype = "enum";
                info.enumvals = Some(values.to_vec());
            }
            Kind::Fixed => info.context = "internal",
            Kind::Text | Kind::Zone => {}
        }
        info
    }

    /// All settings in order of name.
    pub fn all(&self) -> Vec<(String, String)> {
        let mut all: BTreeMap<String, String> = DEFS
            .iter()
            .map(|def| (def.name.to_owned(), def.default.to_owned()))
            .collect();
        for (name, value) in &*self.values {
            all.insert(name.to_string(), value.to_string());
        }
        all.into_iter().collect()
    }
}

/// One session's settings.
#[derive(Debug)]
pub struct Settings {
    /// What RESET goes back to.
    base: Arc<Values>,
    /// What holds now, SET LOCAL included.
    current: Arc<Values>,
    /// What holds if the transaction commits.
    lasting: Arc<Values>,
    /// What held when the transaction began.
    saved: Option<Arc<Values>>,
    /// The server's, as `pg_settings` shows them.
    server: Arc<[ServerSetting]>,
    /// Grows with every change.
    generation: u64,
}

/// A point that settings can go back to.
#[derive(Debug, Clone)]
pub struct SettingsMark {
    current: Arc<Values>,
    lasting: Arc<Values>,
}

impl Settings {
    /// Settings with values from the server's configuration and the client's start.
    pub fn new(
        user: &str,
        server: &Arc<[ServerSetting]>,
        given: &[(String, String)],
    ) -> SqlResult<Settings> {
        let mut values = Values::new();
        values.insert("session_authorization".into(), user.into());
        for setting in server.iter() {
            let value = match find(setting.name) {
                Some(def) => canonical(def, &setting.shown)?,
                None => setting.shown.clone(),
            };
            values.insert(setting.name.into(), value.into());
        }
        for (name, value) in given {
            let name = name.to_ascii_lowercase();
            let value = match find(&name) {
                Some(def) => canonical(def, value)?,
                None if name.contains('.') => value.clone(),
                None => return Err(unknown(&name)),
            };
            values.insert(name.into(), value.into());
        }
        let base = Arc::new(values);
        Ok(Settings {
            current: Arc::clone(&base),
            lasting: Arc::clone(&base),
            base,
            server: Arc::clone(server),
            saved: None,
            generation: 0,
        })
    }

    /// The settings as they are.
    pub fn view(&self) -> SettingsView {
        SettingsView {
            values: Arc::clone(&self.current),
            base: Arc::clone(&self.base),
            server: Arc::clone(&self.server),
            wishes: Arc::default(),
        }
    }

    /// A number that changes whenever a setting may have changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// SET; `None` for DEFAULT.
    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> SqlResult<()> {
        let default = self.base.get(name).map(ToString::to_string);
        let value = match (find(name), value) {
            (Some(def), Some(value)) => canonical(def, value)?,
            (Some(def), None) => default.unwrap_or_else(|| def.default.to_owned()),
            (None, Some(value)) if name.contains('.') => value.to_owned(),
            (None, None) if name.contains('.') => default.unwrap_or_default(),
            (None, _) if self.base.contains_key(name) => return Err(fixed_by_server(name)),
            (None, _) => return Err(unknown(name)),
        };
        let (name, value): (Arc<str>, Arc<str>) = (name.into(), value.into());
        Arc::make_mut(&mut self.current).insert(Arc::clone(&name), Arc::clone(&value));
        if !local {
            Arc::make_mut(&mut self.lasting).insert(name, value);
        }
        self.generation += 1;
        Ok(())
    }

    /// RESET ALL.
    pub fn reset_all(&mut self) {
        self.current = Arc::clone(&self.base);
        self.lasting = Arc::clone(&self.base);
        self.generation += 1;
    }

    /// SHOW.
    pub fn show(&self, name: &str) -> SqlResult<String> {
        let value = self.view().value(name).ok_or_else(|| unknown(name))?;
        Ok(shown(name, value))
    }

    /// A transaction begins.
    pub fn begin(&mut self) {
        self.saved = Some(Arc::clone(&self.current));
    }

    /// The transaction ends.
    pub fn end(&mut self, committed: bool) {
        let Some(saved) = self.saved.take() else {
            return;
        };
        if !committed {
            self.lasting = saved;
        }
        if !Arc::ptr_eq(&self.current, &self.lasting) {
            self.current = Arc::clone(&self.lasting);
            self.generation += 1;
        }
    }

    /// A savepoint.
    pub fn mark(&self) -> SettingsMark {
        SettingsMark {
            current: Arc::clone(&self.current),
            lasting: Arc::clone(&self.lasting),
        }
    }

    /// Back to a savepoint.
    pub fn rollback_to(&mut self, mark: &SettingsMark) {
        self.current = Arc::clone(&mark.current);
        self.lasting = Arc::clone(&mark.lasting);
        self.generation += 1;
    }

    /// The settings that clients are told of, under the names they know them by.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        let told = DEFS
            .iter()
            .filter_map(|def| def.report.map(|report| (def, report)));
        told.map(|(def, report)| (report, self.text(def.name)))
            .collect()
    }

    fn text(&self, name: &str) -> String {
        self.view().value(name).unwrap_or_default()
    }

    fn bool(&self, name: &str) -> bool {
        self.text(name) == "on"
    }

    /// The value of a Boolean.
    pub fn flag(&self, name: &str) -> bool {
        self.bool(name)
    }

    /// The value of a whole number.
    pub fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// The value of a delay, in milliseconds.
    pub fn real(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }

    /// The value of an amount of memory, in bytes.
    pub fn bytes(&self, name: &str) -> u64 {
        self.text(name).parse::<u64>().unwrap_or(0) << 10
    }

    fn millis(&self, name: &str) -> Option<Duration> {
        let millis = self.text(name).parse().unwrap_or(0);
        (millis > 0).then(|| Duration::from_millis(millis))
    }
}

fn milliseconds(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(0) | Err(_) => value.to_owned(),
        Ok(ms) if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        Ok(ms) if ms % 60_000 == 0 => format!("{}min", ms / 60_000),
        Ok(ms) if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        Ok(ms) => format!("{ms}ms"),
    }
}

/// Settings in the form that statements use them, worked out when they change.
#[derive(Debug, Clone)]
pub struct Effective {
    /// `statement_timeout`.
    pub statement_timeout: Option<Duration>,
    /// `lock_timeout`.
    pub lock_timeout: Option<Duration>,
    /// `idle_in_transaction_session_timeout`.
    pub idle_in_block: Option<Duration>,
    /// `idle_session_timeout`.
    pub idle: Option<Duration>,
    /// `synchronous_commit`.
    pub durability: Durability,
    /// `default_transaction_isolation`.
    pub isolation: Isolation,
    /// `default_transaction_read_only`.
    pub read_only: bool,
    /// `TimeZone`.
    pub time_zone: TimeZone,
    /// The schemas of `search_path`.
    pub search_path: Arc<[String]>,
}

impl Effective {
    /// Works out the settings for a role.
    pub fn of(settings: &Settings, user: &str) -> SqlResult<Effective> {
        let durability = match settings.text("synchronous_commit").as_str() {
            "off" => Durability::Async,
            _ => Durability::Sync,
        };
        Ok(Effective {
            statement_timeout: settings.millis("statement_timeout"),
            lock_timeout: settings.millis("lock_timeout"),
            idle_in_block: settings.millis("idle_in_transaction_session_timeout"),
            idle: settings.millis("idle_session_timeout"),
            durability,
            isolation: isolation(&settings.text("default_transaction_isolation")),
            read_only: settings.bool("default_transaction_read_only"),
            time_zone: TimeZone::parse(&settings.text("timezone"))?,
            search_path: search_path(&settings.text("search_path"), user),
        })
    }
}

/// The level of a name that a setting took.
pub fn isolation(name: &str) -> Isolation {
    match name {
        "serializable" => Isolation::Serializable,
        "repeatable read" => Isolation::RepeatableRead,
        _ => Isolation::ReadCommitted,
    }
}

/// The name of a level.
pub fn isolation_name(level: Isolation) -> &'static str {
    match level {
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
        Isolation::Serializable => "serializable",
    }
}

fn search_path(value: &str, user: &str) -> Arc<[String]> {
    let names = value
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let names = names.map(
        |name| match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => name.trim_matches('\'').to_lowercase(),
        },
    );
    names
        .map(|name| {
            if name == "$user" {
                user.to_owned()
            } else {
                name
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new("me", &Arc::default(), &[]).unwrap()
    }

    #[test]
    fn values_are_checked_and_made_canonical() {
        let mut s = settings();
        s.set("statement_timeout", Some("2min"), false).unwrap();
        assert_eq!(s.show("statement_timeout").unwrap(), "2min");
        assert_eq!(s.view().value("Statement_Timeout").unwrap(), "120000");
        s.set("synchronous_commit", Some("false"), false).unwrap();
        assert_eq!(s.show("synchronous_commit").unwrap(), "off");
        s.set("datestyle", Some("iso, ymd"), false).unwrap();
        assert_eq!(s.show("datestyle").unwrap(), "ISO, YMD");
        let state = |e: SqlResult<()>| e.unwrap_err().sqlstate.as_str();
        assert_eq!(state(s.set("nonsense", Some("1"), false)), "42704");
        assert_eq!(state(s.set("server_version", Some("1"), false)), "55P02");
        assert_eq!(state(s.set("lock_timeout", Some("x"), false)), "22023");
        assert_eq!(
            state(s.set("timezone", Some("Mars/Phobos"), false)),
            "22023"
        );
        s.set("app.user", Some("5"), false).unwrap();
        assert_eq!(s.show("app.user").unwrap(), "5");
    }

    #[test]
    fn memory_and_delays_have_units() {
        let mut s = settings();
        s.set("maintenance_work_mem", Some("1GB"), false).unwrap();
        assert_eq!(s.show("maintenance_work_mem").unwrap(), "1GB");
        assert_eq!(s.bytes("maintenance_work_mem"), 1 << 30);
        s.set("vacuum_cost_delay", Some("1.5ms"), false).unwrap();
        assert_eq!(s.show("vacuum_cost_delay").unwrap(), "1.5ms");
        assert_eq!(s.real("vacuum_cost_delay"), 1.5);
        assert_eq!(s.show("vacuum_buffer_usage_limit").unwrap(), "2MB");
        for (name, value) in [
            ("maintenance_work_mem", "1kB"),
            ("vacuum_cost_delay", "101"),
        ] {
            assert!(s.set(name, Some(value), false).is_err(), "{name}");
        }
    }

    #[test]
    fn a_transactions_end_decides_over_its_settings() {
        let mut s = settings();
        s.begin();
        s.set("work_mem", Some("1"), false).unwrap();
        s.set("jit", Some("on"), true).unwrap();
        let mark = s.mark();
        s.set("work_mem", Some("2"), false).unwrap();
        s.rollback_to(&mark);
        assert_eq!(s.show("work_mem").unwrap(), "1");
        s.end(true);
        assert_eq!(s.show("work_mem").unwrap(), "1");
        assert_eq!(s.show("jit").unwrap(), "off");
        s.begin();
        s.set("work_mem", Some("3"), false).unwrap();
        s.end(false);
        assert_eq!(s.show("work_mem").unwrap(), "1");
    }

    #[test]
    fn the_search_path_is_split_as_identifiers() {
        assert_eq!(
            search_path("\"$user\", Public", "me").to_vec(),
            ["me", "public"]
        );
    }
}
