//! SQL over the engine: catalog, types, planning and the two executors. See the README.

#![forbid(unsafe_code)]

pub mod error;
pub mod session;

pub use error::{ErrorFields, SqlError, SqlResult, SqlState};
pub use session::api::{
    CancelHandle, Column, CopyFormat, Format, Notice, Prepared, SessionParams, SqlConfig,
    TransactionStatus,
};
pub use session::{
    CopyInSink, CopyOutStream, RowStream, Session, SimpleQuery, SqlEngine, StatementResult,
};
