//! The one error type of the SQL layer: PostgreSQL's SQLSTATE, message and fields.

use std::fmt;

use evenkeel_engine::EngineError;
use evenkeel_engine::memory::OutOfMemory;
use evenkeel_exec::ExecError;
use evenkeel_planner::PlanError;
use evenkeel_settings::SettingError;
pub use evenkeel_types::SqlState;
use evenkeel_types::TypeError;

/// Result of everything in this crate that can fail.
pub type SqlResult<T> = Result<T, SqlError>;

/// The fields of an ErrorResponse that are not always there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorFields {
    /// A second sentence about what happened.
    pub detail: Option<String>,
    /// A suggestion to the user.
    pub hint: Option<String>,
    /// Where in the query text, in characters from 1.
    pub position: Option<u32>,
    /// Where the engine was: COPY's line, for example.
    pub context: Option<String>,
    /// The schema of the table concerned.
    pub schema: Option<String>,
    /// The table concerned.
    pub table: Option<String>,
    /// The column concerned.
    pub column: Option<String>,
    /// The type concerned, whose schema is `schema`.
    pub data_type: Option<String>,
    /// The constraint concerned.
    pub constraint: Option<String>,
}

/// An error as the client sees it. Small to move: the fields are boxed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sqlstate}: {message}")]
pub struct SqlError {
    /// PostgreSQL's code.
    pub sqlstate: SqlState,
    /// The primary message, in PostgreSQL's words where it has them.
    pub message: Box<str>,
    /// The rest.
    pub fields: Box<ErrorFields>,
}

impl SqlError {
    /// An error with a code and a message.
    pub fn new(sqlstate: SqlState, message: impl Into<String>) -> SqlError {
        SqlError {
            sqlstate,
            message: message.into().into_boxed_str(),
            fields: Box::default(),
        }
    }

    /// 0A000: `feature` is not supported.
    pub fn unsupported(feature: impl fmt::Display) -> SqlError {
        SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{feature} is not supported"),
        )
    }

    /// XX000: a state that this engine must never be in.
    pub fn internal(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    }

    /// 42601.
    pub fn syntax(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    }

    /// Adds the detail line.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.fields.detail = Some(detail.into());
        self
    }

    /// Adds the hint line.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.fields.hint = Some(hint.into());
        self
    }

    /// Adds the position in the query text, in characters from 1.
    #[must_use]
    pub fn at(mut self, position: u32) -> SqlError {
        self.fields.position = Some(position);
        self
    }

    /// Forgets the place in the statement.
    #[must_use]
    pub fn without_position(mut self) -> SqlError {
        self.fields.position = None;
        self
    }

    /// Adds a context line, below those there are.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> SqlError {
        let context = context.into();
        self.fields.context = Some(match self.fields.context.take() {
            Some(inner) => format!("{inner}\n{context}"),
            None => context,
        });
        self
    }

    /// Names the table, with its schema.
    #[must_use]
    pub fn table(mut self, schema: impl Into<String>, table: impl Into<String>) -> SqlError {
        self.fields.schema = Some(schema.into());
        self.fields.table = Some(table.into());
        self
    }

    /// Names the column.
    #[must_use]
    pub fn column(mut self, column: impl Into<String>) -> SqlError {
        self.fields.column = Some(column.into());
        self
    }

    /// Names the constraint.
    #[must_use]
    pub fn constraint(mut self, constraint: impl Into<String>) -> SqlError {
        self.fields.constraint = Some(constraint.into());
        self
    }
}

/// An error of the planner's in `text`, with its position in characters.
pub fn planner_error(error: PlanError, text: &str) -> SqlError {
    let mut out = SqlError::new(error.state, error.message);
    out.fields.detail = error.detail;
    out.fields.hint = error.hint;
    out.fields.context = error.context;
    if let Some(at) = error.at
        && let Some(before) = text.get(..at.0 as usize)
    {
        let position = before.chars().count() + 1;
        out.fields.position = u32::try_from(position).ok();
    }
    out
}

/// A failure to lock something of a table. If NOWAIT fails, `what` and `table` name the object as
/// PostgreSQL does.
pub fn lock_error(error: EngineError, what: &str, table: &str) -> SqlError {
    match error {
        EngineError::LockNotAvailable { .. } => SqlError::new(
            SqlState::LOCK_NOT_AVAILABLE,
            format!("could not obtain lock on {what} \"{table}\""),
        ),
        other => other.into(),
    }
}

impl From<EngineError> for SqlError {
    fn from(error: EngineError) -> SqlError {
        if let EngineError::OutOfMemory(error) = error {
            return error.into();
        }
        if let EngineError::Key { error, .. } = &error
            && let Some(error) = error.downcast_ref::<TypeError>()
        {
            return error.clone().into();
        }
        SqlError::new(SqlState::from_code(error.sqlstate()), error.to_string())
    }
}

impl From<TypeError> for SqlError {
    fn from(error: TypeError) -> SqlError {
        let mut out = SqlError::new(error.sqlstate, error.message);
        out.fields.detail = error.detail.map(String::from);
        out.fields.hint = error.hint.map(String::from);
        out.fields.context = error.context.map(String::from);
        if let Some(concerns) = error.concerns {
            out.fields.schema = Some(concerns.schema.into());
            out.fields.table = concerns.table.map(Into::into);
            out.fields.data_type = concerns.data_type.map(Into::into);
            out.fields.column = concerns.column.map(Into::into);
            out.fields.constraint = concerns.constraint.map(Into::into);
        }
        out
    }
}

impl From<SettingError> for SqlError {
    fn from(error: SettingError) -> SqlError {
        let out = SqlError::new(error.sqlstate(), error.to_string());
        match error.hint() {
            Some(hint) => out.hint(hint.to_owned()),
            None => out,
        }
    }
}

impl From<ExecError> for SqlError {
    fn from(error: ExecError) -> SqlError {
        match error {
            ExecError::Value(error) => error.into(),
            ExecError::Engine(error) => error.into(),
        }
    }
}

/// For functions of the row executor that the session answers.
impl From<SqlError> for TypeError {
    fn from(error: SqlError) -> TypeError {
        let mut out = TypeError::new(error.sqlstate, error.message);
        out.detail = error.fields.detail.map(Into::into);
        out.hint = error.fields.hint.map(Into::into);
        out.context = error.fields.context.map(Into::into);
        out
    }
}

/// 53200 with the budget that was passed, and the setting that raises it.
impl From<OutOfMemory> for SqlError {
    fn from(error: OutOfMemory) -> SqlError {
        SqlError::new(SqlState::OUT_OF_MEMORY, error.to_string()).detail(detail_of(&error))
    }
}

/// The budget that was passed.
pub fn detail_of(error: &OutOfMemory) -> String {
    format!(
        "Failed on request of size {}: \"{}\" is {} kB.",
        error.requested,
        error.budget,
        error.limit >> 10
    )
}
