//! The options of COPY, VACUUM and ANALYZE, with PostgreSQL's checks.

use std::collections::HashSet;

use evenkeel_planner::ast::{CommandOption, OptionValue};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::protocol::CopyFormat;

/// The options of COPY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOptions {
    /// FORMAT.
    pub format: CopyFormat,
    /// FREEZE.
    pub freeze: bool,
    /// DELIMITER.
    pub delimiter: Option<char>,
    /// NULL.
    pub null: Option<String>,
    /// HEADER.
    pub header: bool,
    /// QUOTE.
    pub quote: Option<char>,
    /// ESCAPE.
    pub escape: Option<char>,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions {
            format: CopyFormat::Text,
            freeze: false,
            delimiter: None,
            null: None,
            header: false,
            quote: None,
            escape: None,
        }
    }
}

impl CopyOptions {
    /// The options as they were given.
    ///
    /// # Errors
    /// 42601 for one that is not known or is given twice; 22023 for its value; 0A000 for one that
    /// is not built.
    pub fn of(given: &[CommandOption], text: &str) -> SqlResult<CopyOptions> {
        let mut options = CopyOptions::default();
        let mut seen = HashSet::new();
        for option in given {
            if !seen.insert(option.name.as_str()) {
                let error = SqlError::syntax("conflicting or redundant options");
                return Err(placed(error, option, text));
            }
            options.set(option, text)?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &CommandOption, text: &str) -> SqlResult<()> {
        match option.name.as_str() {
            "format" => {
                let format = copy_format(required(option)?);
                self.format = format.map_err(|error| placed(error, option, text))?;
            }
            "freeze" => self.freeze = flag(option)?,
            "header" => {
                if option.value.text() == Some("match") {
                    return Err(SqlError::unsupported("COPY with HEADER match"));
                }
                self.header = flag(option)
                    .map_err(|error| SqlError::syntax(format!("{} or \"match\"", error.message)))?;
            }
            "delimiter" => self.delimiter = Some(character(option, "delimiter")?),
            "quote" => self.quote = Some(character(option, "quote")?),
            "escape" => self.escape = Some(character(option, "escape")?),
            "null" => self.null = Some(required(option)?.to_owned()),
            "encoding" => {
                let encoding = required(option)?;
                let utf8 = ["utf8", "utf-8", "unicode"];
                if !utf8.contains(&encoding.to_ascii_lowercase().as_str()) {
                    return Err(SqlError::unsupported(format!(
                        "COPY with ENCODING {encoding}"
                    )));
                }
            }
            "force_quote"
            | "force_not_null"
            | "force_null"
            | "convert_selectively"
            | "default"
            | "on_error"
            | "log_verbosity"
            | "reject_limit" => {
                let name = option.name.to_ascii_uppercase();
                return Err(SqlError::unsupported(format!("COPY with {name}")));
            }
            name => {
                let error = SqlError::syntax(format!("option \"{name}\" not recognized"));
                return Err(placed(error, option, text));
            }
        }
        Ok(())
    }
}

/// An error at an option of a command with this text.
pub fn placed(error: SqlError, option: &CommandOption, text: &str) -> SqlError {
    let before = text.get(..option.at.0 as usize).unwrap_or_default();
    error.at(u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX))
}

fn copy_format(name: &str) -> SqlResult<CopyFormat> {
    match name {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "binary" => Err(SqlError::unsupported("COPY in binary format")),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("COPY format \"{name}\" not recognized"),
        )),
    }
}

/// The text of an option that must have one.
fn required(option: &CommandOption) -> SqlResult<&str> {
    option
        .value
        .text()
        .ok_or_else(|| SqlError::syntax(format!("{} requires a parameter", option.name)))
}

fn character(option: &CommandOption, what: &str) -> SqlResult<char> {
    let text = required(option)?;
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if one.is_ascii() => Ok(one),
        _ => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("COPY {what} must be a single one-byte character"),
        )),
    }
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
