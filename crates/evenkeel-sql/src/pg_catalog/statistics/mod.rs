//! The statistics views: what sessions do, what is locked, what has been counted. Rows are read
//! from the running server when the statement that names the view is planned, which for a
//! prepared statement is every time that it runs.

mod activity;
mod io;
mod progress;
mod server;
mod tables;

pub use activity::{activity, encryption, gssapi, locks};
pub use io::{io, latency, under_way};
pub use progress::{analyzes, vacuums};
pub use server::{
    archiver, buffers, checkpoint_details, checkpointer, cleaner, conflicts, damaged_pages,
    database, log, recovery, recovery_prefetch, status_pages,
};
pub use tables::{index_io, indexes, table_io, tables};

use crate::types::Datum;

/// A time in microseconds since 1970, or NULL.
fn moment(time: Option<i64>) -> Datum {
    time.map_or(Datum::Null, Datum::Timestamptz)
}

/// Microseconds as milliseconds.
#[expect(clippy::cast_precision_loss, reason = "a statistic")]
fn millis(micros: u64) -> Datum {
    Datum::Float8(micros as f64 / 1000.0)
}
