//! The settings of a session: names, defaults, kinds, and their values' forms.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::SERVER_VERSION;
use crate::setting_info::{ServerSetting, effect};
use crate::types::TimeZone;

/// Bytes of a page.
const PAGE_BYTES: u64 = 8192;

/// Type and range of a setting's values.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Bool,
    /// Whole numbers in a range; of milliseconds when `true`.
    Int(i64, i64, bool),
    /// Memory; kept in kB, between these.
    Size(u64, u64),
    /// Memory or disk space in kB, or -1 for no limit.
    SizeOrNone,
    /// Milliseconds with a fraction, up to this many.
    Delay(f64),
    /// A cost in the planner's units.
    Cost,
    /// Memory in pages.
    Pages,
    Enum(&'static [&'static str]),
    Text,
    Zone,
    /// Cannot be changed.
    Fixed,
}

pub struct Def {
    /// Its name.
    pub name: &'static str,
    /// Value while nothing sets it.
    pub default: &'static str,
    /// Type and range of its values.
    pub kind: Kind,
    /// Name in ParameterStatus messages, for settings that clients are told of.
    pub report: Option<&'static str>,
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

/// Every setting of a session, but for those that an application makes up.
pub static DEFS: &[Def] = &[
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
        "deadlock_timeout",
        "1000",
        Kind::Int(1, i32::MAX as i64, true),
    ),
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
    def("cpu_index_tuple_cost", "0.005", Kind::Cost),
    def("cpu_operator_cost", "0.0025", Kind::Cost),
    def("cpu_tuple_cost", "0.01", Kind::Cost),
    def("effective_cache_size", "524288", Kind::Pages),
    def("enable_hashagg", "on", Kind::Bool),
    def("enable_hashjoin", "on", Kind::Bool),
    def("enable_indexscan", "on", Kind::Bool),
    def("enable_material", "on", Kind::Bool),
    def("enable_memoize", "on", Kind::Bool),
    def("enable_nestloop", "on", Kind::Bool),
    def("enable_seqscan", "on", Kind::Bool),
    def("enable_sort", "on", Kind::Bool),
    def("extra_float_digits", "1", Kind::Int(-15, 3, false)),
    def("geqo_threshold", "11", Kind::Int(2, 12, false)),
    def("idle_in_transaction_session_timeout", "0", MILLIS),
    told("in_hot_standby", "off", Kind::Fixed, "in_hot_standby"),
    told("integer_datetimes", "on", Kind::Fixed, "integer_datetimes"),
    told(
        "intervalstyle",
        "postgres",
        Kind::Enum(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
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
    def("random_page_cost", "4", Kind::Cost),
    def("role", "none", Kind::Enum(&["none"])),
    def("row_security", "on", Kind::Bool),
    told(
        "search_path",
        "\"$user\", public",
        Kind::Text,
        "search_path",
    ),
    def("seq_page_cost", "1", Kind::Cost),
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
    def("temp_file_limit", "-1", Kind::SizeOrNone),
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
    def("work_mem", "65536", Kind::Size(64, 1 << 31)),
];

/// The setting of a name in lower case.
pub fn find(name: &str) -> Option<&'static Def> {
    DEFS.iter().find(|def| def.name == name)
}

/// 42704 for a name that no setting has.
pub fn unknown(name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

/// 55P02 for a setting of the server.
pub fn fixed_by_server(name: &str) -> SqlError {
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
pub fn shown(name: &str, value: String) -> String {
    match find(&name.to_ascii_lowercase()).map(|def| def.kind) {
        Some(Kind::Int(_, _, true)) => milliseconds(&value),
        Some(Kind::Size(..) | Kind::SizeOrNone) => kilobytes(&value),
        Some(Kind::Pages) => kilobytes(&pages_in_kilobytes(&value)),
        Some(Kind::Delay(_)) if value != "0" => format!("{value}ms"),
        _ => value,
    }
}

fn pages_in_kilobytes(pages: &str) -> String {
    let pages: u64 = pages.parse().unwrap_or(0);
    (pages * (PAGE_BYTES >> 10)).to_string()
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
pub fn canonical(def: &Def, value: &str) -> SqlResult<String> {
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
        Kind::SizeOrNone if value.trim() == "-1" => "-1".to_owned(),
        Kind::SizeOrNone => {
            let kilobytes = parse_size(value, 1024).ok_or_else(bad)? / 1024;
            let kilobytes = i32::try_from(kilobytes).map_err(|_| bad())?;
            kilobytes.to_string()
        }
        Kind::Delay(most) => {
            let millis = delay(value).filter(|ms| (0.0..=most).contains(ms));
            millis.ok_or_else(bad)?.to_string()
        }
        Kind::Cost => cost(def.name, value)?,
        Kind::Pages => {
            let pages = parse_size(value, PAGE_BYTES).ok_or_else(bad)? / PAGE_BYTES;
            i32::try_from(pages.max(1)).map_err(|_| bad())?.to_string()
        }
        Kind::Enum(values) => one_of(def.name, values, value).ok_or_else(bad)?,
        Kind::Zone => TimeZone::parse(value)?.name().to_owned(),
        Kind::Text if def.name == "datestyle" => date_style(value).ok_or_else(bad)?,
        Kind::Text => value.to_owned(),
    })
}

/// A cost, which is a number that is not negative.
fn cost(name: &str, value: &str) -> SqlResult<String> {
    let cost = value.trim().parse::<f64>().ok().filter(|c| c.is_finite());
    let cost = cost.ok_or_else(|| invalid(name, value))?;
    if cost < 0.0 {
        let message = format!(
            "{cost} is outside the valid range for parameter \"{name}\" (0 .. {:e})",
            f64::MAX
        );
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(cost.to_string())
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

fn milliseconds(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(0) | Err(_) => value.to_owned(),
        Ok(ms) if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        Ok(ms) if ms % 60_000 == 0 => format!("{}min", ms / 60_000),
        Ok(ms) if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        Ok(ms) => format!("{ms}ms"),
    }
}

/// Settings of sessions whose default a server's configuration may give.
fn is_configurable(def: &Def) -> bool {
    let of_the_transaction = def.name.starts_with("transaction_");
    let of_the_client = matches!(def.name, "application_name" | "client_encoding" | "role");
    !matches!(def.kind, Kind::Fixed) && !of_the_transaction && !of_the_client
}

/// The settings of sessions that have an effect and whose default a server's configuration may
/// give: name, default as SHOW writes it, effect.
pub fn session_settings() -> impl Iterator<Item = (&'static str, String, &'static str)> {
    let with_effect = |def: &&Def| {
        let effect = effect(def.name);
        is_configurable(def) && !effect.is_empty() && !effect.starts_with("accepted")
    };
    let line = |def: &Def| {
        (
            def.name,
            shown(def.name, def.default.to_owned()),
            effect(def.name),
        )
    };
    DEFS.iter().filter(with_effect).map(line)
}

/// The default of a session's setting as a server's configuration gives it; `source` as in
/// `pg_settings`.
///
/// # Errors
/// 42704 when there is no such setting, 55P02 when it is not to be set there, 22023 for a bad
/// value.
pub fn session_default(name: &str, value: &str, source: &'static str) -> SqlResult<ServerSetting> {
    let def = find(name).ok_or_else(|| unknown(name))?;
    if !is_configurable(def) {
        return Err(SqlError::new(
            SqlState::CANT_CHANGE_RUNTIME_PARAM,
            format!("parameter \"{name}\" cannot be changed"),
        ));
    }
    let value = canonical(def, value)?;
    Ok(ServerSetting {
        name: def.name,
        shown: shown(def.name, value.clone()),
        setting: value,
        boot: def.default.to_owned(),
        unit: None,
        vartype: "string",
        choices: &[],
        description: effect(def.name),
        source,
    })
}
