//! Settings under PostgreSQL's names: SET, SHOW, RESET, and their fate when a transaction ends.

pub mod defs;
mod planner;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::{Durability, Isolation};
use evenkeel_planner::planning::PlannerSettings;
use parking_lot::Mutex;

use crate::error::SqlResult;
use crate::functions::SettingsAccess;
use crate::setting_info::{ServerSetting, SettingInfo, effect};
use crate::types::{ByteaOutput, DateOrder, IntervalStyle, TimeZone, TypeContext};
use defs::{DEFS, Def, Kind, canonical, find, fixed_by_server, shown, unknown};
use planner::planner_settings;

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

/// A consistent set of settings; shared, never changed in place. A value that a function sets
/// through it takes effect at the end of the function's statement.
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
    /// Takes the `set_config()` calls made since the last call.
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
        let server = self.server.iter().find(|s| s.name == def.name);
        let configured = server.filter(|s| canonical(def, &s.shown).is_ok_and(|v| v == base));
        let source = match (value == base, base == def.default, configured) {
            (false, ..) => "session",
            (true, _, Some(server)) => server.source,
            (true, false, None) => "client",
            (true, true, None) => "default",
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
            Kind::SizeOrNone => {
                info.vartype = "integer";
                info.unit = Some("kB");
                info.min_val = Some("-1".into());
                info.max_val = Some(i32::MAX.to_string());
            }
            Kind::Delay(most) => {
                info.vartype = "real";
                info.unit = Some("ms");
                info.min_val = Some("0".into());
                info.max_val = Some(most.to_string());
            }
            Kind::Cost => {
                info.vartype = "real";
                info.min_val = Some("0".into());
                info.max_val = Some(f64::MAX.to_string());
            }
            Kind::Pages => {
                info.vartype = "integer";
                info.unit = Some("8kB");
                info.min_val = Some("1".into());
                info.max_val = Some(i32::MAX.to_string());
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
    /// Values that RESET restores.
    base: Arc<Values>,
    /// Current values, SET LOCAL included.
    current: Arc<Values>,
    /// Values after a commit of the transaction.
    lasting: Arc<Values>,
    /// Values at the transaction's start.
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

/// Settings in the form that statements use them, worked out when they change.
#[derive(Debug, Clone)]
pub struct Effective {
    /// `statement_timeout`.
    pub statement_timeout: Option<Duration>,
    /// `lock_timeout`.
    pub lock_timeout: Option<Duration>,
    /// `deadlock_timeout`.
    pub deadlock_timeout: Duration,
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
    /// The order of fields in dates of `DateStyle`.
    pub date_order: DateOrder,
    /// `IntervalStyle`.
    pub interval_style: IntervalStyle,
    /// `bytea_output`.
    pub bytea_output: ByteaOutput,
    /// `extra_float_digits`.
    pub extra_float_digits: i32,
    /// The schemas of `search_path`.
    pub search_path: Arc<[String]>,
    /// `work_mem`, in bytes.
    pub work_mem: u64,
    /// `temp_file_limit`, in bytes.
    pub temp_file_limit: Option<u64>,
    /// Settings of the cost model and the plan choice.
    pub planner: PlannerSettings,
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
            deadlock_timeout: settings.millis("deadlock_timeout").unwrap_or_default(),
            idle_in_block: settings.millis("idle_in_transaction_session_timeout"),
            idle: settings.millis("idle_session_timeout"),
            durability,
            isolation: isolation(&settings.text("default_transaction_isolation")),
            read_only: settings.bool("default_transaction_read_only"),
            time_zone: TimeZone::parse(&settings.text("timezone"))?,
            date_order: match settings.text("datestyle").rsplit(' ').next() {
                Some("DMY") => DateOrder::Dmy,
                Some("YMD") => DateOrder::Ymd,
                _ => DateOrder::Mdy,
            },
            interval_style: IntervalStyle::parse(&settings.text("intervalstyle"))
                .unwrap_or_default(),
            bytea_output: match settings.text("bytea_output").as_str() {
                "escape" => ByteaOutput::Escape,
                _ => ByteaOutput::Hex,
            },
            extra_float_digits: i32::try_from(settings.number("extra_float_digits")).unwrap_or(1),
            search_path: search_path(&settings.text("search_path"), user),
            work_mem: settings.bytes("work_mem"),
            temp_file_limit: u64::try_from(settings.number("temp_file_limit"))
                .ok()
                .map(|kilobytes| kilobytes << 10),
            planner: planner_settings(settings),
        })
    }
}

impl Effective {
    /// The settings that text forms depend on, at an instant.
    pub fn type_context(&self, now_micros: i64) -> TypeContext {
        TypeContext {
            time_zone: self.time_zone.clone(),
            now_micros,
            interval_style: self.interval_style,
            bytea_output: self.bytea_output,
            extra_float_digits: self.extra_float_digits,
            date_order: self.date_order,
        }
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
    use super::defs::{session_default, session_settings};
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
    fn a_servers_configuration_gives_defaults() {
        let given = session_default("synchronous_commit", "false", "command line").unwrap();
        let server: Arc<[ServerSetting]> = [given].into();
        let mut s = Settings::new("me", &server, &[]).unwrap();
        assert_eq!(s.show("synchronous_commit").unwrap(), "off");
        let rows = s.view().describe();
        let row = rows
            .iter()
            .find(|row| row.name == "synchronous_commit")
            .unwrap();
        assert_eq!((row.source, &*row.reset_val), ("command line", "off"));
        s.set("synchronous_commit", Some("on"), false).unwrap();
        s.set("synchronous_commit", None, false).unwrap();
        assert_eq!(s.show("synchronous_commit").unwrap(), "off");
        for name in [
            "transaction_isolation",
            "server_version",
            "application_name",
        ] {
            let error = session_default(name, "x", "command line").unwrap_err();
            assert_eq!(error.sqlstate.as_str(), "55P02", "{name}");
        }
        assert!(session_settings().any(|(name, ..)| name == "statement_timeout"));
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
        s.set("work_mem", Some("64"), false).unwrap();
        s.set("jit", Some("on"), true).unwrap();
        let mark = s.mark();
        s.set("work_mem", Some("65"), false).unwrap();
        s.rollback_to(&mark);
        assert_eq!(s.show("work_mem").unwrap(), "64kB");
        s.end(true);
        assert_eq!(s.show("work_mem").unwrap(), "64kB");
        assert_eq!(s.show("jit").unwrap(), "off");
        s.begin();
        s.set("work_mem", Some("66"), false).unwrap();
        s.end(false);
        assert_eq!(s.show("work_mem").unwrap(), "64kB");
    }

    #[test]
    fn the_search_path_is_split_as_identifiers() {
        assert_eq!(
            search_path("\"$user\", Public", "me").to_vec(),
            ["me", "public"]
        );
    }
}
