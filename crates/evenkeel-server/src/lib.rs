//! The PostgreSQL wire protocol over evenkeel's SQL layer. See the README.

#![forbid(unsafe_code)]

mod cancel;
mod connection;
mod copy;
mod error;
mod extended;
mod instance;
mod options;
mod server;
pub mod settings;
mod simple;
mod startup;
mod wire;

pub use instance::Reopen;
pub use server::{RunError, Server, ServerConfig, ServerError, StopHandle};
pub use settings::{SettingError, Settings};
