//! The error of a plan that runs.

use evenkeel_engine::EngineError;
use evenkeel_engine::memory::OutOfMemory;
use evenkeel_io::{IoError, IoErrorKind};
use evenkeel_types::{SqlState, TypeError};

/// Result of everything here that can fail.
pub type ExecResult<T> = Result<T, ExecError>;

/// Why a plan does not go on.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// An expression, a limit or a rule of SQL.
    #[error(transparent)]
    Value(#[from] TypeError),
    /// The engine: I/O, damage, a lock, a cancel, the memory budget.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ExecError {
    /// An error with a code and a message.
    pub(crate) fn new(state: SqlState, message: impl Into<String>) -> ExecError {
        ExecError::Value(TypeError::new(state, message))
    }

    /// XX000: a plan that is not as a planner makes it.
    pub(crate) fn plan(what: &str) -> ExecError {
        ExecError::Value(TypeError::internal(format!("a plan with {what}")))
    }

    /// The failure of a temporary file.
    pub(crate) fn temporary(error: &IoError) -> ExecError {
        let state = match error.kind() {
            IoErrorKind::NoSpace => SqlState::DISK_FULL,
            IoErrorKind::TooManyFiles => SqlState::INSUFFICIENT_RESOURCES,
            _ => SqlState::IO_ERROR,
        };
        ExecError::new(state, error.to_string())
    }

    /// PostgreSQL's five-character code.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            ExecError::Value(error) => error.sqlstate.as_str(),
            ExecError::Engine(error) => error.sqlstate(),
        }
    }
}

impl From<OutOfMemory> for ExecError {
    fn from(error: OutOfMemory) -> ExecError {
        ExecError::Engine(error.into())
    }
}
