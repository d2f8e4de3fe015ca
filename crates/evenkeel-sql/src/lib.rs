//! SQL over the engine: catalog, types, planning and the two executors. See the README.

#![forbid(unsafe_code)]

pub mod arrow;
pub mod catalog;
pub mod error;
pub mod exec;
pub mod functions;
pub mod instance;
pub mod key;
pub mod maintenance;
pub mod pg_catalog;
pub mod planner;
pub mod row;
pub mod session;
#[cfg(test)]
mod testing;
pub mod types;

pub use error::{ErrorFields, SqlError, SqlResult, SqlState};
pub use instance::{Client, EndFlag};
pub use maintenance::{Autovacuum, AutovacuumConfig};
pub use session::api::{
    CancelHandle, Column, CopyFormat, Format, Notice, Prepared, SessionParams, SqlConfig,
    TransactionStatus,
};
pub use session::setting_info::ServerSetting;
pub use session::{
    CopyInSink, CopyOutStream, RowStream, Session, SimpleQuery, SqlEngine, StatementResult,
    session_default, session_settings,
};
