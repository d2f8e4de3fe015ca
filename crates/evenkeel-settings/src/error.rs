//! Errors of settings, in PostgreSQL's words.

use evenkeel_types::SqlState;

/// A setting or a value that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No setting has this name.
    #[error("unrecognized configuration parameter \"{0}\"")]
    Unknown(String),
    /// The value is not of the setting's form.
    #[error("invalid value for parameter \"{name}\": \"{value}\"")]
    Invalid {
        /// The setting.
        name: &'static str,
        /// The value given.
        value: String,
        /// The values that it takes.
        hint: Option<String>,
    },
    /// The value of a Boolean is none.
    #[error("parameter \"{0}\" requires a Boolean value")]
    NotBoolean(&'static str),
    /// The number is too small or too large.
    #[error("{value} is outside the valid range for parameter \"{name}\" ({low} .. {high})")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// The number, with its unit.
        value: String,
        /// The least that it can be.
        low: String,
        /// The most that it can be.
        high: String,
    },
    /// Nothing changes this setting.
    #[error("parameter \"{0}\" cannot be changed")]
    Fixed(&'static str),
    /// The setting is read when the server starts.
    #[error("parameter \"{0}\" cannot be changed without restarting the server")]
    NeedsRestart(&'static str),
    /// The setting is read from the configuration, not from sessions.
    #[error("parameter \"{0}\" cannot be changed now")]
    NotInSession(&'static str),
    /// `ALTER SYSTEM` without a directory to write to.
    #[error("ALTER SYSTEM is not supported by a database without a configuration file")]
    NoFile,
    /// The configuration cannot be read or written.
    #[error("could not {act} file \"{path}\": {reason}")]
    File {
        /// `read` or `write`.
        act: &'static str,
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The files and the command line have errors, each in a line.
    #[error("{0}")]
    Several(String),
}

impl SettingError {
    /// The SQLSTATE that PostgreSQL gives.
    #[must_use]
    pub fn sqlstate(&self) -> SqlState {
        match self {
            SettingError::Unknown(_) => SqlState::UNDEFINED_OBJECT,
            SettingError::Invalid { .. }
            | SettingError::NotBoolean(_)
            | SettingError::OutOfRange { .. } => SqlState::INVALID_PARAMETER_VALUE,
            SettingError::Fixed(_)
            | SettingError::NeedsRestart(_)
            | SettingError::NotInSession(_) => SqlState::CANT_CHANGE_RUNTIME_PARAM,
            SettingError::NoFile => SqlState::FEATURE_NOT_SUPPORTED,
            SettingError::File { .. } => SqlState::IO_ERROR,
            SettingError::Several(_) => SqlState::CONFIG_FILE_ERROR,
        }
    }

    /// A suggestion to the user.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            SettingError::Invalid { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }
}
