//! SQL over the engine: the catalog, sessions, commands, and statements by planner and executor.
//! See the README.

#![forbid(unsafe_code)]

pub mod catalog;
pub mod databases;
pub mod deep;
pub mod error;
pub mod exec;
pub mod functions;
pub mod instance;
pub mod key;
pub mod maintenance;
pub mod named_statements;
pub mod parser;
pub mod pg_catalog;
pub mod planner;
pub mod protocol;
mod quote;
pub mod search_path;
pub mod session;
pub mod settings;

pub use error::{ErrorFields, SqlError, SqlResult, SqlState};
pub use evenkeel_types as types;
pub use instance::{Backend, Backends, Client, EndFlag, Notification};
pub use maintenance::{Autovacuum, AutovacuumConfig};
pub use protocol::{Column, CopyFormat, Format, Notice, TransactionStatus};
pub use session::api::{Prepared, SessionParams, SqlConfig};
pub use session::{
    CopyChunk, CopyInStart, CopyOutStream, RowStream, Session, SimpleQuery, SqlEngine,
    StatementResult,
};
