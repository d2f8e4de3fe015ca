//! Errors that end a statement or a connection, and their form on the wire.

use std::io;

use evenkeel_sql::{SqlError, SqlState};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// The client is told, then the connection is closed.
    #[error("{0}")]
    Fatal(SqlError),
    /// Nobody is left to be told.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl ConnectionError {
    pub fn protocol(message: impl Into<String>) -> ConnectionError {
        ConnectionError::Fatal(SqlError::new(SqlState::PROTOCOL_VIOLATION, message))
    }
}

/// The instance is gone, or has lost its log: no statement can follow.
pub(crate) fn ends_session(error: &SqlError) -> bool {
    [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN].contains(&error.sqlstate)
}

/// The ErrorResponse for `error`.
pub(crate) fn error_response(severity: &str, error: &SqlError) -> PgWireBackendMessage {
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', error.sqlstate.0.to_owned()),
        (b'M', error.message.to_string()),
    ];
    let mut optional = |code: u8, value: Option<String>| {
        if let Some(value) = value {
            fields.push((code, value));
        }
    };
    let more = &error.fields;
    optional(b'D', more.detail.clone());
    optional(b'H', more.hint.clone());
    optional(b'P', more.position.map(|position| position.to_string()));
    optional(b'W', more.context.clone());
    optional(b's', more.schema.clone());
    optional(b't', more.table.clone());
    optional(b'c', more.column.clone());
    optional(b'd', more.data_type.clone());
    optional(b'n', more.constraint.clone());
    PgWireBackendMessage::ErrorResponse(ErrorResponse::new(fields))
}

/// The NoticeResponse for `notice`.
pub(crate) fn notice_response(notice: &evenkeel_sql::Notice) -> PgWireBackendMessage {
    let mut fields = vec![
        (b'S', notice.severity.to_owned()),
        (b'V', notice.severity.to_owned()),
        (b'C', notice.sqlstate.0.to_owned()),
        (b'M', notice.message.clone()),
    ];
    fields.extend(notice.detail.clone().map(|detail| (b'D', detail)));
    PgWireBackendMessage::NoticeResponse(NoticeResponse::new(fields))
}
