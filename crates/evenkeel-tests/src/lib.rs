//! Shared by the end-to-end tests: a real server on a real directory, the stock clients, and a
//! checker of isolation histories. See the README.

#![forbid(unsafe_code)]

pub mod history;
pub mod quiet;
pub mod raw;
pub mod scale;
pub mod server;
