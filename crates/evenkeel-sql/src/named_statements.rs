//! The prepared statements that a session has named, as `pg_prepared_statements` shows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

/// A prepared statement.
#[derive(Debug, Clone)]
pub struct NamedStatement {
    /// The command that prepared it, or the text that the client sent.
    pub statement: Arc<str>,
    /// When it was prepared, in microseconds since 1970 UTC.
    pub since: i64,
    /// The oids of its parameters' types.
    pub parameters: Vec<u32>,
    /// The oids of its columns' types; `None` for a statement without rows.
    pub results: Option<Vec<u32>>,
    /// Whether PREPARE made it, not the protocol.
    pub from_sql: bool,
    /// How often it has run.
    pub runs: Arc<AtomicU64>,
}

/// Those of one session by name; what runs them is the session's own.
#[derive(Debug, Default)]
pub struct NamedStatements(Mutex<BTreeMap<String, NamedStatement>>);

impl NamedStatements {
    /// Notes a statement.
    pub fn put(&self, name: String, statement: NamedStatement) {
        self.0.lock().insert(name, statement);
    }

    /// Forgets a statement, if there is one of that name.
    pub fn remove(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// All, by name.
    pub fn all(&self) -> Vec<(String, NamedStatement)> {
        let known = self.0.lock();
        let known = known.iter();
        known
            .map(|(name, one)| (name.clone(), one.clone()))
            .collect()
    }
}
