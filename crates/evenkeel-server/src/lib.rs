//! The PostgreSQL wire protocol over evenkeel's SQL layer. See the README.

#![forbid(unsafe_code)]

mod config;
mod connection;
mod copy;
mod descriptors;
mod error;
mod extended;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod instance;
mod message;
mod options;
mod portals;
mod server;
mod session;
pub mod settings;
mod shared;
mod simple;
mod startup;
mod wire;

pub use config::ServerConfig;
pub use descriptors::Descriptors;
pub use instance::{Reopen, RunError};
pub use server::{Server, ServerError, StopHandle};
