//! SQL over the engine: catalog, types, planning and the two executors. See the README.

#![forbid(unsafe_code)]

pub mod catalog;
pub mod error;
pub mod types;
pub mod row;
pub mod key;
pub mod arrow;
pub mod session;
#[cfg(test)]
mod testing;

pub use error::{ErrorFields, SqlError, SqlResult, SqlState};
pub use session::api::{
    CancelHandle, Column, CopyFormat, Format, Notice, Prepared, SessionParams, SqlConfig,
    TransactionStatus,
};
pub use session::{
    CopyInSink, CopyOutStream, RowStream, Session, SimpleQuery, SqlEngine, StatementResult,
};
