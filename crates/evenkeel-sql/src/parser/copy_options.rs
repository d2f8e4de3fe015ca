//! The options of COPY, with PostgreSQL's checks in PostgreSQL's order (`ProcessCopyOptions`).

use std::collections::HashSet;

use evenkeel_planner::ast::{CommandOption, OptionValue};

use super::options::{flag, placed, required};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::protocol::CopyFormat;

/// The columns that an option is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyColumns {
    /// All of them.
    All,
    /// Those of these names.
    Named(Vec<String>),
}

/// The first line of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyHeader {
    /// It is a row.
    #[default]
    Absent,
    /// It has the columns' names, which are not looked at.
    Present,
    /// It must have the columns' names.
    Match,
}

/// The notices of rows that are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyVerbosity {
    /// None.
    Silent,
    /// One with their number.
    #[default]
    Default,
    /// One for each of them too.
    Verbose,
}

/// The options of COPY.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyOptions {
    /// FORMAT.
    pub format: CopyFormat,
    /// FREEZE.
    pub freeze: bool,
    /// DELIMITER.
    pub delimiter: Option<char>,
    /// NULL.
    pub null: Option<String>,
    /// DEFAULT.
    pub default: Option<String>,
    /// HEADER.
    pub header: CopyHeader,
    /// QUOTE.
    pub quote: Option<char>,
    /// ESCAPE.
    pub escape: Option<char>,
    /// FORCE_QUOTE.
    pub force_quote: Option<CopyColumns>,
    /// FORCE_NOT_NULL.
    pub force_not_null: Option<CopyColumns>,
    /// FORCE_NULL.
    pub force_null: Option<CopyColumns>,
    /// ON_ERROR ignore.
    pub skip_errors: bool,
    /// REJECT_LIMIT.
    pub reject_limit: Option<u64>,
    /// LOG_VERBOSITY.
    pub verbosity: CopyVerbosity,
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message.into())
}

fn unsupported(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message.into())
}

impl CopyOptions {
    /// The options as they were given, of COPY FROM or else COPY TO.
    ///
    /// # Errors
    /// 42601 for one that is not known or is given twice, or does not go with another; 22023 for
    /// its value; 0A000 where it has no meaning.
    pub fn of(given: &[CommandOption], from: bool, text: &str) -> SqlResult<CopyOptions> {
        let mut options = CopyOptions::default();
        let mut seen = HashSet::new();
        for option in given {
            if !seen.insert(option.name.as_str()) {
                let error = SqlError::syntax("conflicting or redundant options");
                return Err(placed(error, option, text));
            }
            options.set(option, from, text)?;
        }
        options.check(from)?;
        Ok(options)
    }

    fn set(&mut self, option: &CommandOption, from: bool, text: &str) -> SqlResult<()> {
        let at = |error| placed(error, option, text);
        match option.name.as_str() {
            "format" => self.format = copy_format(required(option)?).map_err(at)?,
            "freeze" => self.freeze = flag(option)?,
            "header" => self.header = header(option, from)?,
            "delimiter" => self.delimiter = Some(character(option, "delimiter")?),
            "quote" => self.quote = Some(character(option, "quote")?),
            "escape" => self.escape = Some(character(option, "escape")?),
            "null" => self.null = Some(required(option)?.to_owned()),
            "default" => self.default = Some(required(option)?.to_owned()),
            "encoding" => {
                let encoding = required(option)?;
                let utf8 = ["utf8", "utf-8", "unicode"];
                if !utf8.contains(&encoding.to_ascii_lowercase().as_str()) {
                    return Err(SqlError::unsupported(format!(
                        "COPY with ENCODING {encoding}"
                    )));
                }
            }
            "force_quote" => self.force_quote = Some(columns(option).map_err(at)?),
            "force_not_null" => self.force_not_null = Some(columns(option).map_err(at)?),
            "force_null" => self.force_null = Some(columns(option).map_err(at)?),
            "on_error" => self.skip_errors = skip_errors(option, from).map_err(at)?,
            "reject_limit" => self.reject_limit = Some(reject_limit(option)?),
            "log_verbosity" => self.verbosity = verbosity(option).map_err(at)?,
            name => {
                let error = SqlError::syntax(format!("option \"{name}\" not recognized"));
                return Err(at(error));
            }
        }
        Ok(())
    }

    fn check(&self, from: bool) -> SqlResult<()> {
        let csv = self.format == CopyFormat::Csv;
        if self.format == CopyFormat::Binary {
            self.check_binary()?;
        }
        self.check_characters(csv)?;
        for (option, given, reads) in [
            ("FORCE_QUOTE", &self.force_quote, false),
            ("FORCE_NOT_NULL", &self.force_not_null, true),
            ("FORCE_NULL", &self.force_null, true),
        ] {
            if given.is_none() {
                continue;
            }
            if !csv {
                return Err(unsupported(format!("COPY {option} requires CSV mode")));
            }
            if reads && !from {
                let message = format!("COPY {option} cannot be used with COPY TO");
                return Err(invalid(message));
            }
            if !reads && from {
                let message = format!("COPY {option} cannot be used with COPY FROM");
                return Err(unsupported(message));
            }
        }
        self.check_marks(csv)?;
        if self.freeze && !from {
            return Err(invalid("COPY FREEZE cannot be used with COPY TO"));
        }
        self.check_default(csv, from)?;
        if self.reject_limit.is_some() && !self.skip_errors {
            let message = "COPY REJECT_LIMIT requires ON_ERROR to be set to IGNORE";
            return Err(invalid(message));
        }
        Ok(())
    }

    fn check_binary(&self) -> SqlResult<()> {
        for (option, given) in [
            ("DELIMITER", self.delimiter.is_some()),
            ("NULL", self.null.is_some()),
            ("DEFAULT", self.default.is_some()),
        ] {
            if given {
                let message = format!("cannot specify {option} in BINARY mode");
                return Err(SqlError::syntax(message));
            }
        }
        if self.header != CopyHeader::Absent {
            return Err(unsupported("cannot specify HEADER in BINARY mode"));
        }
        if self.skip_errors {
            let message = "only ON_ERROR STOP is allowed in BINARY mode";
            return Err(SqlError::syntax(message));
        }
        Ok(())
    }

    fn check_characters(&self, csv: bool) -> SqlResult<()> {
        if matches!(self.delimiter, Some('\n' | '\r')) {
            return Err(invalid(
                "COPY delimiter cannot be newline or carriage return",
            ));
        }
        for (option, given) in [("null", &self.null), ("default", &self.default)] {
            if given
                .as_ref()
                .is_some_and(|text| text.contains(['\n', '\r']))
            {
                return Err(invalid(format!(
                    "COPY {option} representation cannot use newline or carriage return"
                )));
            }
        }
        let of_escapes =
            |c: char| c == '\\' || c == '.' || c.is_ascii_lowercase() || c.is_ascii_digit();
        if let Some(c) = self.delimiter.filter(|c| !csv && of_escapes(*c)) {
            return Err(invalid(format!("COPY delimiter cannot be \"{c}\"")));
        }
        if !csv && self.quote.is_some() {
            return Err(unsupported("COPY QUOTE requires CSV mode"));
        }
        if csv && self.delimiter.unwrap_or(',') == self.quote.unwrap_or('"') {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        if !csv && self.escape.is_some() {
            return Err(unsupported("COPY ESCAPE requires CSV mode"));
        }
        Ok(())
    }

    /// The characters between fields and around them.
    fn separators(&self, csv: bool) -> (char, Option<char>) {
        let delimiter = self.delimiter.unwrap_or(if csv { ',' } else { '\t' });
        (delimiter, csv.then(|| self.quote.unwrap_or('"')))
    }

    fn check_marks(&self, csv: bool) -> SqlResult<()> {
        let (delimiter, quote) = self.separators(csv);
        let Some(null) = &self.null else {
            return Ok(());
        };
        if null.contains(delimiter) {
            let message = "COPY delimiter character must not appear in the NULL specification";
            return Err(invalid(message));
        }
        if quote.is_some_and(|quote| null.contains(quote)) {
            let message = "CSV quote character must not appear in the NULL specification";
            return Err(invalid(message));
        }
        Ok(())
    }

    fn check_default(&self, csv: bool, from: bool) -> SqlResult<()> {
        let (delimiter, quote) = self.separators(csv);
        let Some(default) = &self.default else {
            return Ok(());
        };
        if !from {
            return Err(unsupported("COPY DEFAULT cannot be used with COPY TO"));
        }
        if default.contains(delimiter) {
            let message = "COPY delimiter character must not appear in the DEFAULT specification";
            return Err(unsupported(message));
        }
        if quote.is_some_and(|quote| default.contains(quote)) {
            let message = "CSV quote character must not appear in the DEFAULT specification";
            return Err(unsupported(message));
        }
        let null = self.null.as_deref().unwrap_or(if csv { "" } else { "\\N" });
        if default == null {
            let message = "NULL specification and DEFAULT specification cannot be the same";
            return Err(unsupported(message));
        }
        Ok(())
    }
}

fn copy_format(name: &str) -> SqlResult<CopyFormat> {
    match name {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "binary" => Ok(CopyFormat::Binary),
        _ => Err(invalid(format!("COPY format \"{name}\" not recognized"))),
    }
}

fn header(option: &CommandOption, from: bool) -> SqlResult<CopyHeader> {
    let text = option.value.text();
    if text.is_some_and(|text| text.eq_ignore_ascii_case("match")) {
        if !from {
            return Err(unsupported("cannot use \"match\" with HEADER in COPY TO"));
        }
        return Ok(CopyHeader::Match);
    }
    let present = flag(option)
        .map_err(|error| SqlError::syntax(format!("{} or \"match\"", error.message)))?;
    Ok(match present {
        true => CopyHeader::Present,
        false => CopyHeader::Absent,
    })
}

fn columns(option: &CommandOption) -> SqlResult<CopyColumns> {
    match &option.value {
        OptionValue::Star => Ok(CopyColumns::All),
        OptionValue::List(names) => Ok(CopyColumns::Named(names.clone())),
        _ => Err(invalid(format!(
            "argument to option \"{}\" must be a list of column names",
            option.name
        ))),
    }
}

fn skip_errors(option: &CommandOption, from: bool) -> SqlResult<bool> {
    if !from {
        return Err(invalid("COPY ON_ERROR cannot be used with COPY TO"));
    }
    let text = required(option)?;
    match text.to_ascii_lowercase().as_str() {
        "stop" => Ok(false),
        "ignore" => Ok(true),
        _ => Err(invalid(format!("COPY ON_ERROR \"{text}\" not recognized"))),
    }
}

fn reject_limit(option: &CommandOption) -> SqlResult<u64> {
    let text = required(option)?;
    let number: i64 = text
        .parse()
        .map_err(|_| SqlError::syntax(format!("{} requires a numeric value", option.name)))?;
    match u64::try_from(number) {
        Ok(limit) if limit > 0 => Ok(limit),
        _ => Err(invalid(format!(
            "REJECT_LIMIT ({number}) must be greater than zero"
        ))),
    }
}

fn verbosity(option: &CommandOption) -> SqlResult<CopyVerbosity> {
    let text = required(option)?;
    match text.to_ascii_lowercase().as_str() {
        "silent" => Ok(CopyVerbosity::Silent),
        "default" => Ok(CopyVerbosity::Default),
        "verbose" => Ok(CopyVerbosity::Verbose),
        _ => Err(invalid(format!(
            "COPY LOG_VERBOSITY \"{text}\" not recognized"
        ))),
    }
}

fn character(option: &CommandOption, what: &str) -> SqlResult<char> {
    let text = required(option)?;
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if one.is_ascii() => Ok(one),
        _ => Err(unsupported(format!(
            "COPY {what} must be a single one-byte character"
        ))),
    }
}
