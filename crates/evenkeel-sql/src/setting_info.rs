//! Descriptions of settings for `pg_settings`.

/// A setting of the server, which sessions only show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSetting {
    /// Its name.
    pub name: &'static str,
    /// The value with a unit, as SHOW writes it.
    pub shown: String,
    /// The value as a number of units.
    pub setting: String,
    /// The default, the same way.
    pub boot: String,
    /// Unit of a number.
    pub unit: Option<&'static str>,
    /// `bool`, `integer`, `real`, `enum` or `string`.
    pub vartype: &'static str,
    /// The values of an `enum`.
    pub choices: &'static [&'static str],
    /// Its effect.
    pub description: &'static str,
    /// `default`, `configuration file` or `command line`.
    pub source: &'static str,
}

/// One row of `pg_settings`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of pg_settings")]
pub struct SettingInfo {
    pub name: String,
    pub setting: String,
    pub unit: Option<&'static str>,
    pub category: &'static str,
    pub short_desc: &'static str,
    pub context: &'static str,
    pub vartype: &'static str,
    pub source: &'static str,
    pub min_val: Option<String>,
    pub max_val: Option<String>,
    pub enumvals: Option<Vec<&'static str>>,
    pub boot_val: String,
    pub reset_val: String,
}

impl ServerSetting {
    /// A read-only fact that the server determines at start.
    pub fn found(name: &'static str, value: &str, description: &'static str) -> ServerSetting {
        ServerSetting {
            name,
            shown: value.to_owned(),
            setting: value.to_owned(),
            boot: value.to_owned(),
            unit: None,
            vartype: "bool",
            choices: &[],
            description,
            source: "default",
        }
    }

    /// Its row.
    pub fn info(&self) -> SettingInfo {
        SettingInfo {
            name: self.name.to_owned(),
            setting: self.setting.clone(),
            unit: self.unit,
            category: "Server",
            short_desc: self.description,
            context: "postmaster",
            vartype: self.vartype,
            source: self.source,
            enumvals: (!self.choices.is_empty()).then(|| self.choices.to_vec()),
            boot_val: self.boot.clone(),
            reset_val: self.setting.clone(),
            ..SettingInfo::default()
        }
    }
}

/// The effect of a session's setting.
pub fn effect(name: &str) -> &'static str {
    match name {
        "application_name" => "the client's name for itself, shown in pg_stat_activity",
        "bytea_output" => "how binary strings are written",
        "client_encoding" => "the client's character set",
        "client_min_messages" => "the least important messages that the client gets",
        "datestyle" => "how dates are written, and in which order their fields are read",
        "default_table_access_method" => "what new tables are stored as",
        "default_tablespace" => "where new relations are stored",
        "default_transaction_deferrable" => "what transactions are that do not say otherwise",
        "default_transaction_isolation" => "the isolation of transactions that name none",
        "default_transaction_read_only" => "whether transactions that do not say so only read",
        "extra_float_digits" => "digits of floats: above 0 the fewest that read back the same",
        "idle_in_transaction_session_timeout" => {
            "longest wait for the client within a transaction, 0: no limit"
        }
        "idle_session_timeout" => "longest wait for the client between transactions, 0: no limit",
        "in_hot_standby" => "whether the server follows another",
        "integer_datetimes" => "that times are counted in microseconds",
        "intervalstyle" => "how intervals are written",
        "is_superuser" => "whether the role may do everything",
        "lc_collate" | "lc_ctype" => "strings are compared and classified by their bytes",
        "lc_messages" | "lc_monetary" | "lc_numeric" | "lc_time" => "texts are in English",
        "deadlock_timeout" => "how long a wait lasts before it is looked at for a deadlock",
        "lock_timeout" => "longest wait for a lock, 0: no limit",
        "log_statement" => "accepted: statements are not logged",
        "max_identifier_length" => "the longest name, in bytes",
        "role" => "the role whose rights count",
        "row_security" => "accepted: there are no row policies",
        "search_path" => "the schemas that names without one are looked up in",
        "server_encoding" => "the character set of all stored text",
        "server_version" | "server_version_num" => "the PostgreSQL version whose dialect this is",
        "session_authorization" => "the role that logged in",
        "standard_conforming_strings" => "a backslash in a string literal is a backslash",
        "statement_timeout" => "longest time a statement may take, 0: no limit",
        "synchronous_commit" => "whether COMMIT waits until it is durable",
        "timezone" => "the zone that times are read and written in",
        "transaction_deferrable" | "transaction_isolation" | "transaction_read_only" => {
            "a property of the present transaction"
        }
        "default_statistics_target" => {
            "how many values ANALYZE keeps of a column; 300 times as many rows are sampled"
        }
        "maintenance_work_mem" => "memory in which VACUUM remembers dead rows",
        "vacuum_buffer_usage_limit" => {
            "share of the pool that VACUUM and ANALYZE use, 0: all of it"
        }
        "vacuum_cost_delay" => "sleep of VACUUM and ANALYZE at the cost limit, 0: none",
        "vacuum_cost_limit" => "cost at which VACUUM and ANALYZE sleep",
        "vacuum_cost_page_dirty" => "cost of changing a page",
        "vacuum_cost_page_hit" => "cost of a page found in memory",
        "vacuum_cost_page_miss" => "cost of a page that is read",
        "vacuum_freeze_min_age" => "age at which VACUUM freezes a row, in ids",
        "vacuum_freeze_table_age" => "age at which VACUUM looks at all pages not frozen, in ids",
        "vacuum_truncate" => "whether VACUUM gives empty pages at the end back",
        "temp_file_limit" => "space that a session's spill files may take, -1: no limit",
        "work_mem" => "memory of one operation, such as a sort, before it spills to files",
        "check_function_bodies"
        | "default_toast_compression"
        | "jit"
        | "quote_all_identifiers"
        | "restrict_nonsystem_relation_kind"
        | "synchronize_seqscans"
        | "transaction_timeout"
        | "xmloption" => "accepted for clients that set it; it has no effect",
        _ => planner_effect(name),
    }
}

/// The effect of a setting that plans are chosen by.
fn planner_effect(name: &str) -> &'static str {
    match name {
        "cpu_index_tuple_cost" => "what the planner reckons an index entry to cost",
        "cpu_operator_cost" => "what the planner reckons an operator or function to cost",
        "cpu_tuple_cost" => "what the planner reckons a row to cost",
        "effective_cache_size" => "memory that the planner expects to hold pages read before",
        "enable_hashagg" => "whether the planner groups by hashing",
        "enable_hashjoin" => "whether the planner joins by hashing",
        "enable_indexscan" => "whether the planner reads tables by indexes",
        "enable_material" => "whether the planner keeps an inner side's rows for further runs",
        "enable_memoize" => "whether the planner keeps an inner side's rows by its parameters",
        "enable_nestloop" => "whether the planner joins by nested loops",
        "enable_seqscan" => "whether the planner reads whole tables",
        "enable_sort" => "whether the planner sorts",
        "geqo_threshold" => "from so many relations on, joins are not tried in every order",
        "random_page_cost" => "what the planner reckons a page to cost that is read by itself",
        "seq_page_cost" => "what the planner reckons a page to cost that is read after another",
        _ => "",
    }
}
