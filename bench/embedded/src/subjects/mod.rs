//! The engines, each behind [`crate::subject::Store`].

mod evenkeel;
#[cfg(test)]
pub mod faulty;
mod fjall;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;

use crate::subject::Subject;

/// The engines compiled in, in the order of reports.
pub fn all() -> Vec<Subject> {
    vec![
        evenkeel::SUBJECT,
        redb::SUBJECT,
        #[cfg(feature = "rocksdb")]
        rocksdb::SUBJECT,
        sqlite::SUBJECT,
        fjall::SUBJECT,
    ]
}

/// Engines left out of this build, and why.
pub fn missing() -> Vec<(&'static str, &'static str)> {
    vec![
        #[cfg(not(feature = "rocksdb"))]
        ("rocksdb", "built without the cargo feature `rocksdb`"),
    ]
}
