//! The options of VACUUM and ANALYZE, with PostgreSQL's checks, and the reading of options.

use evenkeel_planner::ast::{CommandOption, OptionValue};

use crate::error::{SqlError, SqlResult};

/// An error at an option of a command with this text.
pub fn placed(error: SqlError, option: &CommandOption, text: &str) -> SqlError {
    let before = text.get(..option.at.0 as usize).unwrap_or_default();
    error.at(u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX))
}

/// The text of an option that must have one.
///
/// # Errors
/// 42601 if it has none.
pub fn required(option: &CommandOption) -> SqlResult<&str> {
    option
        .value
        .text()
        .ok_or_else(|| SqlError::syntax(format!("{} requires a parameter", option.name)))
}

/// A Boolean option; its name alone switches it on.
///
/// # Errors
/// 42601 for another value.
pub fn flag(option: &CommandOption) -> SqlResult<bool> {
    let text = match &option.value {
        OptionValue::Absent => return Ok(true),
        value => value.text().map(str::to_ascii_lowercase),
    };
    match text.as_deref() {
        Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        _ => Err(SqlError::syntax(format!(
            "{} requires a Boolean value",
            option.name
        ))),
    }
}

/// The options of VACUUM and ANALYZE.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VacuumFlags {
    /// FREEZE.
    pub freeze: bool,
    /// ANALYZE.
    pub analyze: bool,
    /// FULL: refused.
    pub full: bool,
    /// VERBOSE.
    pub verbose: bool,
    /// SKIP_LOCKED.
    pub skip_locked: bool,
    /// DISABLE_PAGE_SKIPPING.
    pub every_page: bool,
    /// TRUNCATE; `None`: as the table and `vacuum_truncate` say.
    pub truncate: Option<bool>,
    /// INDEX_CLEANUP; `None` for AUTO.
    pub index_cleanup: Option<bool>,
    /// BUFFER_USAGE_LIMIT, as given.
    pub buffer_usage_limit: Option<String>,
    /// ONLY_DATABASE_STATS: no table is vacuumed.
    pub no_tables: bool,
}

impl VacuumFlags {
    /// The options as they were given, of VACUUM or else ANALYZE.
    ///
    /// # Errors
    /// 42601 for one that is not known, at its place in `text`, and for its value.
    pub fn of(given: &[CommandOption], vacuum: bool, text: &str) -> SqlResult<VacuumFlags> {
        let mut flags = VacuumFlags::default();
        for option in given {
            let known = match option.name.as_str() {
                "verbose" => {
                    flags.verbose = flag(option)?;
                    true
                }
                "skip_locked" => {
                    flags.skip_locked = flag(option)?;
                    true
                }
                "buffer_usage_limit" => {
                    flags.buffer_usage_limit = Some(required(option)?.to_owned());
                    true
                }
                _ => vacuum && flags.set(option)?,
            };
            if !known {
                let command = if vacuum { "VACUUM" } else { "ANALYZE" };
                let message = format!("unrecognized {command} option \"{}\"", option.name);
                return Err(placed(SqlError::syntax(message), option, text));
            }
        }
        Ok(flags)
    }

    /// An option of VACUUM alone; whether it is known. PROCESS_MAIN, PROCESS_TOAST, PARALLEL and
    /// SKIP_DATABASE_STATS tune machinery that is not here: they are read and have no effect.
    fn set(&mut self, option: &CommandOption) -> SqlResult<bool> {
        match option.name.as_str() {
            "full" => self.full = flag(option)?,
            "freeze" => self.freeze = flag(option)?,
            "analyze" => self.analyze = flag(option)?,
            "disable_page_skipping" => self.every_page = flag(option)?,
            "only_database_stats" => self.no_tables = flag(option)?,
            "truncate" => self.truncate = Some(flag(option)?),
            "index_cleanup" => {
                let auto = option
                    .value
                    .text()
                    .is_some_and(|t| t.eq_ignore_ascii_case("auto"));
                self.index_cleanup = if auto { None } else { Some(flag(option)?) };
            }
            "process_main" | "process_toast" | "skip_database_stats" => {
                flag(option)?;
            }
            "parallel" => {
                required(option)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
