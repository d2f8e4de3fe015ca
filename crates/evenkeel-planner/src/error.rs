//! The error of a statement that does not parse, bind or plan.

use evenkeel_types::{SqlState, TypeError};

use crate::ast::Pos;

/// Result of everything here that can fail.
pub type PlanResult<T> = Result<T, PlanError>;

/// PostgreSQL's fields of an error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct PlanError {
    /// SQLSTATE.
    pub state: SqlState,
    /// Message.
    pub message: String,
    /// DETAIL
    pub detail: Option<String>,
    /// HINT
    pub hint: Option<String>,
    /// CONTEXT
    pub context: Option<String>,
    /// The byte in the text that it points at.
    pub at: Option<Pos>,
}

impl PlanError {
    /// An error without detail, hint and position.
    pub fn new(state: SqlState, message: impl Into<String>) -> PlanError {
        PlanError {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            context: None,
            at: None,
        }
    }

    /// 0A000: not built.
    pub fn unsupported(what: impl Into<String>) -> PlanError {
        PlanError::new(SqlState::FEATURE_NOT_SUPPORTED, what)
    }

    /// Points at a place; keeps a place it has.
    #[must_use]
    pub fn at(mut self, at: Pos) -> PlanError {
        if self.at.is_none() && at != Pos::NONE {
            self.at = Some(at);
        }
        self
    }

    /// With a DETAIL.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> PlanError {
        self.detail = Some(detail.into());
        self
    }

    /// With a HINT.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> PlanError {
        self.hint = Some(hint.into());
        self
    }
}

impl From<TypeError> for PlanError {
    fn from(error: TypeError) -> PlanError {
        PlanError {
            state: error.sqlstate,
            message: error.message.into(),
            detail: error.detail.map(Into::into),
            hint: error.hint.map(Into::into),
            context: error.context.map(Into::into),
            at: None,
        }
    }
}
