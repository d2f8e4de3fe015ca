//! Settings under PostgreSQL's names: SET, SHOW, RESET, and their fate when a transaction ends.

mod planner;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::{Durability, Isolation};
use evenkeel_planner::planning::PlannerSettings;
use evenkeel_settings::{
    Configuration, Context, Loaded, Setting, SettingError, Source, all as table, find,
};
use parking_lot::Mutex;

use crate::error::{SqlError, SqlResult};
use crate::functions::{SettingInfo, SettingsAccess};
use crate::search_path::SearchPath;
use crate::types::{ByteaOutput, DateOrder, DateStyle, IntervalStyle, TimeZone, TypeContext};
use planner::planner_settings;

type Values = BTreeMap<Arc<str>, Arc<str>>;

/// A setting that `set_config` asked for.
#[derive(Debug, Clone)]
pub struct PendingSetConfig {
    /// The setting.
    pub name: String,
    /// Its value.
    pub value: String,
    /// For the transaction only.
    pub local: bool,
}

/// A consistent set of settings; shared, never changed in place. A value that a function sets
/// through it takes effect at the end of the function's statement.
#[derive(Debug, Clone)]
pub struct SettingsView {
    layers: Layers,
    configuration: Arc<Configuration>,
    pending: Arc<Mutex<Vec<PendingSetConfig>>>,
}

/// The values of a session, by where they come from. A name is that of the table, or an
/// application's own in lower case.
#[derive(Debug, Clone)]
struct Layers {
    /// The server's configuration, which every session starts with.
    loaded: Arc<Loaded>,
    /// ALTER DATABASE … SET.
    database: Arc<Values>,
    /// The client's start-up message. RESET restores this, or the database's, or the server's.
    client: Arc<Values>,
    /// SET and its kind.
    session: Arc<Values>,
}

impl Layers {
    /// The value that RESET restores.
    fn reset(&self, name: &str) -> Option<&str> {
        match self.client.get(name).or_else(|| self.database.get(name)) {
            Some(value) => Some(value),
            None => self.loaded.get(name).map(|given| &*given.value),
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        match self.session.get(name) {
            Some(value) => Some(value),
            None => self.reset(name),
        }
    }
}

/// The name by which a setting is kept.
fn key(name: &str) -> Cow<'_, str> {
    match find(name) {
        Some(setting) => Cow::Borrowed(setting.name),
        None => Cow::Owned(name.to_ascii_lowercase()),
    }
}

fn unknown(name: &str) -> SqlError {
    SettingError::Unknown(name.to_owned()).into()
}

/// The value that a session may give to a setting, in its canonical form; `current` is the value
/// that it has.
fn of_session(name: &str, value: &str, current: Option<&str>) -> SqlResult<String> {
    let setting = match find(name) {
        Some(setting) => setting,
        None if name.contains('.') => return Ok(value.to_owned()),
        None => return Err(unknown(name)),
    };
    match setting.context {
        Context::Session => Ok(setting.canonical_after(value, current.unwrap_or_default())?),
        Context::Internal => Err(SettingError::Fixed(setting.name).into()),
        Context::Start => Err(SettingError::NeedsRestart(setting.name).into()),
        Context::Reload => Err(SettingError::NotInSession(setting.name).into()),
    }
}

fn shown(name: &str, value: &str) -> String {
    match find(name) {
        Some(setting) => setting.shown(value),
        None => value.to_owned(),
    }
}

impl SettingsAccess for SettingsView {
    fn get(&self, name: &str) -> Option<String> {
        let name = key(name);
        let wished = self.pending.lock();
        let last = wished.iter().rev().find(|pending| pending.name == *name);
        let value = match last {
            Some(pending) => &pending.value,
            None => self.layers.value(&name)?,
        };
        Some(shown(&name, value))
    }

    fn set(&self, name: &str, value: &str, local: bool) -> SqlResult<String> {
        let name = key(name).into_owned();
        let current = SettingsAccess::get(self, &name);
        let value = of_session(&name, value, current.as_deref())?;
        self.pending.lock().push(PendingSetConfig {
            name: name.clone(),
            value: value.clone(),
            local,
        });
        Ok(shown(&name, &value))
    }

    fn all(&self) -> Vec<(String, String)> {
        SettingsView::all(self)
    }

    fn describe(&self) -> Vec<SettingInfo> {
        let mut all: Vec<_> = table().map(|setting| self.info(setting)).collect();
        all.sort_by_key(|info| info.name.to_ascii_lowercase());
        all
    }

    fn configuration(&self) -> Option<Arc<Configuration>> {
        Some(Arc::clone(&self.configuration))
    }
}

impl SettingsView {
    /// Takes the `set_config()` calls made since the last call.
    pub fn take_wishes(&self) -> Vec<PendingSetConfig> {
        let mut pending = self.pending.lock();
        if pending.is_empty() {
            Vec::new()
        } else {
            std::mem::take(&mut pending)
        }
    }

    /// The canonical value of a setting; `None` when there is none of that name.
    pub fn value(&self, name: &str) -> Option<String> {
        self.layers.value(&key(name)).map(str::to_owned)
    }

    fn info(&self, setting: &'static Setting) -> SettingInfo {
        let layers = &self.layers;
        let given = layers.loaded.get(setting.name);
        let is_set = layers.session.contains_key(setting.name);
        let of_client = layers.client.contains_key(setting.name);
        let of_database = layers.database.contains_key(setting.name);
        let place = given.and_then(|given| match &given.source {
            Source::File { path, line } if !is_set && !of_client && !of_database => {
                Some((path.display().to_string(), *line))
            }
            _ => None,
        });
        let source = match given {
            _ if is_set => "session",
            _ if of_client => "client",
            _ if of_database => "database",
            Some(given) => given.source.name(),
            None => "default",
        };
        let (min_val, max_val) = setting.kind.range().unzip();
        SettingInfo {
            name: setting.name,
            setting: layers.value(setting.name).unwrap_or_default().to_owned(),
            unit: setting.kind.unit().name(),
            category: setting.category(),
            short_desc: setting.description(),
            context: setting.context.name(),
            vartype: setting.kind.vartype(),
            source,
            min_val,
            max_val,
            enumvals: setting.kind.choices(),
            boot_val: setting.boot(),
            reset_val: layers.reset(setting.name).unwrap_or_default().to_owned(),
            source_place: place,
            pending_restart: given.is_some_and(|given| given.pending_restart),
        }
    }

    /// All settings, by name.
    pub fn all(&self) -> Vec<(String, String)> {
        let layers = &self.layers;
        let loaded = layers.loaded.values().map(|(name, _)| name);
        let names: BTreeSet<&Arc<str>> = loaded
            .chain(layers.database.keys())
            .chain(layers.client.keys())
            .chain(layers.session.keys())
            .collect();
        let mut all: Vec<_> = names
            .into_iter()
            .filter_map(|name| Some((name.to_string(), layers.value(name)?.to_owned())))
            .collect();
        all.sort_by_key(|(name, _)| name.to_ascii_lowercase());
        all
    }
}

/// One session's settings.
#[derive(Debug)]
pub struct Settings {
    configuration: Arc<Configuration>,
    /// The generation of the configuration that `layers` is of.
    loaded_at: u64,
    /// Current values, SET LOCAL included.
    layers: Layers,
    /// The session's own after a commit of the transaction.
    lasting: Arc<Values>,
    /// The session's own at the transaction's start.
    saved: Option<Arc<Values>>,
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
    /// Settings with values from the server's configuration, the database and the client's start.
    /// A value of the database's that is no longer valid has no effect, so that the database can be
    /// entered and the value changed.
    pub fn new(
        user: &str,
        configuration: &Arc<Configuration>,
        of_database: &[(Arc<str>, Arc<str>)],
        given: &[(String, String)],
    ) -> SqlResult<Settings> {
        let mut database = Values::new();
        for (name, value) in of_database {
            match of_session(name, value, None) {
                Ok(value) => drop(database.insert(Arc::from(&*key(name)), value.into())),
                Err(error) => tracing::warn!("a setting of the database is skipped: {error}"),
            }
        }
        let mut client = Values::new();
        client.insert("session_authorization".into(), user.into());
        for (name, value) in given {
            let name = key(name);
            let value = of_session(&name, value, None)?;
            client.insert(Arc::from(&*name), value.into());
        }
        let own = Arc::<Values>::default();
        // Before the values, so that a load in between is looked at once more.
        let loaded_at = configuration.generation();
        Ok(Settings {
            loaded_at,
            layers: Layers {
                loaded: configuration.loaded(),
                database: Arc::new(database),
                client: Arc::new(client),
                session: Arc::clone(&own),
            },
            lasting: own,
            saved: None,
            configuration: Arc::clone(configuration),
            generation: 0,
        })
    }

    /// Takes over what the server has loaded meanwhile, where neither the client nor the session
    /// has set something else.
    pub fn follow_configuration(&mut self) {
        let generation = self.configuration.generation();
        if generation != self.loaded_at {
            self.loaded_at = generation;
            self.layers.loaded = self.configuration.loaded();
            self.generation += 1;
        }
    }

    /// The settings as they are.
    pub fn view(&self) -> SettingsView {
        SettingsView {
            layers: self.layers.clone(),
            configuration: Arc::clone(&self.configuration),
            pending: Arc::default(),
        }
    }

    /// The server's configuration.
    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.configuration
    }

    /// A number that changes whenever a setting may have changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// SET; `None` for DEFAULT. Answers why the value has no effect, if it has none.
    pub fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
    ) -> SqlResult<Option<String>> {
        let name = key(name);
        let (value, why) = self.check(&name, value)?;
        let change = |values: &mut Values| match &value {
            Some(value) => values.insert(Arc::from(&*name), value.as_str().into()),
            None => values.remove(&*name),
        };
        change(Arc::make_mut(&mut self.layers.session));
        if !local {
            change(Arc::make_mut(&mut self.lasting));
        }
        self.generation += 1;
        Ok(why)
    }

    /// The name and the value of a setting that a database's sessions are to begin with, and why it
    /// has no effect, if it has none; without a value as for RESET.
    ///
    /// # Errors
    /// Those of SET.
    pub fn of_database(
        &self,
        name: &str,
        value: Option<&str>,
    ) -> SqlResult<(String, Option<String>)> {
        let name = key(name);
        let (_, why) = self.check(&name, value)?;
        Ok((name.into_owned(), why))
    }

    /// The value that is kept of a given one, and why it has no effect; a reset needs no value.
    fn check(
        &self,
        name: &str,
        value: Option<&str>,
    ) -> SqlResult<(Option<String>, Option<String>)> {
        let value = match (value, self.layers.reset(name)) {
            (Some(value), _) => Some(of_session(name, value, self.layers.value(name))?),
            (None, Some(now)) => of_session(name, now, None).map(|_| None)?,
            (None, None) if name.contains('.') => None,
            (None, None) => return Err(unknown(name)),
        };
        let why = find(name).zip(value.as_deref());
        let why = why.and_then(|(setting, value)| setting.without_effect(value));
        Ok((value, why))
    }

    /// RESET ALL.
    pub fn reset_all(&mut self) {
        self.layers.session = Arc::default();
        self.lasting = Arc::default();
        self.generation += 1;
    }

    /// SHOW.
    pub fn show(&self, name: &str) -> SqlResult<String> {
        let name = key(name);
        let value = self.layers.value(&name).ok_or_else(|| unknown(&name))?;
        Ok(shown(&name, value))
    }

    /// A transaction begins.
    pub fn begin(&mut self) {
        self.saved = Some(Arc::clone(&self.layers.session));
    }

    /// The transaction ends.
    pub fn end(&mut self, committed: bool) {
        let Some(saved) = self.saved.take() else {
            return;
        };
        if !committed {
            self.lasting = saved;
        }
        if !Arc::ptr_eq(&self.layers.session, &self.lasting) {
            self.layers.session = Arc::clone(&self.lasting);
            self.generation += 1;
        }
    }

    /// A savepoint.
    pub fn mark(&self) -> SettingsMark {
        SettingsMark {
            current: Arc::clone(&self.layers.session),
            lasting: Arc::clone(&self.lasting),
        }
    }

    /// Back to a savepoint.
    pub fn rollback_to(&mut self, mark: &SettingsMark) {
        self.layers.session = Arc::clone(&mark.current);
        self.lasting = Arc::clone(&mark.lasting);
        self.generation += 1;
    }

    /// The settings that clients are told of, under the names they know them by.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        let reported = table().filter(|setting| setting.is_reported);
        reported
            .map(|setting| (setting.name, self.text(setting.name)))
            .collect()
    }

    fn text(&self, name: &str) -> String {
        self.layers.value(&key(name)).unwrap_or_default().to_owned()
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
    /// The style of `DateStyle`.
    pub date_style: DateStyle,
    /// The order of fields in dates of `DateStyle`.
    pub date_order: DateOrder,
    /// `IntervalStyle`.
    pub interval_style: IntervalStyle,
    /// `bytea_output`.
    pub bytea_output: ByteaOutput,
    /// `extra_float_digits`.
    pub extra_float_digits: i32,
    /// The schemas of `search_path`, with the session's temporary one.
    pub search_path: SearchPath,
    /// `work_mem`, in bytes.
    pub work_mem: u64,
    /// `synchronize_seqscans`.
    pub synchronize_seqscans: bool,
    /// `maintenance_work_mem`, in bytes.
    pub maintenance_work_mem: u64,
    /// `temp_file_limit`, in bytes.
    pub temp_file_limit: Option<u64>,
    /// Settings of the cost model and the plan choice.
    pub planner: PlannerSettings,
}

impl Effective {
    /// Works out the settings for a role, in a session with this temporary schema.
    pub fn of(
        settings: &Settings,
        user: &str,
        temporary: Option<&Arc<str>>,
    ) -> SqlResult<Effective> {
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
            date_style: match settings.text("datestyle").split(',').next() {
                Some("SQL") => DateStyle::Sql,
                Some("German") => DateStyle::German,
                Some("Postgres") => DateStyle::Postgres,
                _ => DateStyle::Iso,
            },
            date_order: date_order(&settings.text("datestyle")),
            interval_style: IntervalStyle::parse(&settings.text("intervalstyle"))
                .unwrap_or_default(),
            bytea_output: match settings.text("bytea_output").as_str() {
                "escape" => ByteaOutput::Escape,
                _ => ByteaOutput::Hex,
            },
            extra_float_digits: i32::try_from(settings.number("extra_float_digits")).unwrap_or(1),
            search_path: SearchPath::new(
                named_schemas(&settings.text("search_path"), user),
                temporary,
            ),
            work_mem: settings.bytes("work_mem"),
            synchronize_seqscans: settings.flag("synchronize_seqscans"),
            maintenance_work_mem: settings.bytes("maintenance_work_mem"),
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
            date_style: self.date_style,
            date_order: self.date_order,
        }
    }
}

/// The order of the numbers of dates under a `DateStyle`.
pub fn date_order(date_style: &str) -> DateOrder {
    match date_style.rsplit(' ').next() {
        Some("DMY") => DateOrder::Dmy,
        Some("YMD") => DateOrder::Ymd,
        _ => DateOrder::Mdy,
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

/// The items of a list, as PostgreSQL's `SplitIdentifierString` finds them: a comma between double
/// quotes belongs to a name.
fn list_items(value: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, byte) in value.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                items.extend(value.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    items.extend(value.get(start..));
    items
}

/// The schemas that a value of `search_path` names.
fn named_schemas(value: &str, user: &str) -> Vec<String> {
    let names = list_items(value)
        .into_iter()
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
    use evenkeel_io::Disk;

    use super::*;

    fn settings() -> Settings {
        Settings::new("me", &Arc::default(), &[], &[]).unwrap()
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
        let state = |e: SqlResult<Option<String>>| e.unwrap_err().sqlstate.as_str();
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

    fn row(settings: &Settings, name: &str) -> SettingInfo {
        let rows = settings.view().describe();
        rows.into_iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn a_servers_configuration_gives_defaults() {
        let server = Configuration::of(&[("synchronous_commit", "false")]).unwrap();
        let server = Arc::new(server);
        let given = [("application_name".to_owned(), "mine".to_owned())];
        let mut s = Settings::new("me", &server, &[], &given).unwrap();
        assert_eq!(s.show("synchronous_commit").unwrap(), "off");
        let before = row(&s, "synchronous_commit");
        assert_eq!((before.source, &*before.reset_val), ("command line", "off"));
        assert_eq!(row(&s, "application_name").source, "client");
        s.set("synchronous_commit", Some("on"), false).unwrap();
        assert_eq!(row(&s, "synchronous_commit").source, "session");
        s.set("synchronous_commit", None, false).unwrap();
        assert_eq!(row(&s, "synchronous_commit"), before);
    }

    /// SET-6.
    #[test]
    fn a_session_follows_a_reload_where_nothing_else_was_set() {
        let disk = Arc::new(evenkeel_io::SimDisk::new(1));
        let directory = std::path::Path::new("/data");
        disk.create_dir_all(directory).unwrap();
        let shared: Arc<dyn Disk> = Arc::<evenkeel_io::SimDisk>::clone(&disk);
        let server = Configuration::open(shared, directory, Vec::new()).unwrap();
        let server = Arc::new(server);
        let given = [("lock_timeout".to_owned(), "7s".to_owned())];
        let mut s = Settings::new("me", &server, &[], &given).unwrap();
        s.set("work_mem", Some("64MB"), false).unwrap();
        let text = "work_mem = 1MB\nlock_timeout = 1s\nstatement_timeout = 2s\n";
        let file = directory.join(evenkeel_settings::FILE);
        evenkeel_io::write_whole(&*disk, &file, text.as_bytes()).unwrap();
        s.follow_configuration();
        assert_eq!(
            (s.show("statement_timeout").unwrap(), s.generation()),
            ("0".into(), 1)
        );
        server.reload().unwrap();
        s.follow_configuration();
        let shown = |s: &Settings, name: &str| s.show(name).unwrap();
        assert_eq!(shown(&s, "statement_timeout"), "2s");
        assert_eq!(shown(&s, "lock_timeout"), "7s");
        assert_eq!(shown(&s, "work_mem"), "64MB");
        let info = row(&s, "statement_timeout");
        assert_eq!(
            info.source_place,
            Some(("/data/evenkeel.conf".to_owned(), 3))
        );
        s.set("work_mem", None, false).unwrap();
        assert_eq!(shown(&s, "work_mem"), "1MB");
    }

    #[test]
    fn memory_and_delays_have_units() {
        let mut s = settings();
        s.set("maintenance_work_mem", Some("1GB"), false).unwrap();
        assert_eq!(s.show("maintenance_work_mem").unwrap(), "1GB");
        assert_eq!(s.bytes("maintenance_work_mem"), 1 << 30);
        s.set("vacuum_cost_delay", Some("1.5ms"), false).unwrap();
        assert_eq!(s.show("vacuum_cost_delay").unwrap(), "1500us");
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
        assert_eq!(named_schemas("\"$user\", Public", "me"), ["me", "public"]);
        assert_eq!(
            named_schemas("\"odd, \"\"Name\",a", "me"),
            ["odd, \"Name", "a"]
        );
    }
}
