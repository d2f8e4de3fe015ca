//! The portals that a client has named, and its unnamed statement.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_engine::memory::{Reservation, SessionMemory};
use evenkeel_sql::{Format, Prepared, RowStream, TransactionStatus};

/// Room for so many portals stays when they end.
const KEPT_PORTALS: usize = 1024;

/// The portals that a client has named, and the unnamed statement; the unnamed portal has the name
/// "". The session has the statements that have names.
pub(crate) struct Named {
    pub unnamed: Option<Arc<Prepared>>,
    pub portals: HashMap<String, Portal>,
    /// Charged for the portals, besides what a running one's rows are charged.
    pub memory: Reservation,
}

/// A prepared statement with its parameters, and how far it has run.
pub(crate) struct Portal {
    pub prepared: Arc<Prepared>,
    pub params: Vec<Option<Bytes>>,
    pub param_formats: Vec<Format>,
    pub result_formats: Vec<Format>,
    pub progress: Progress,
    /// Its share of the charge for portals.
    pub bytes: usize,
}

/// How far a portal has run.
pub(crate) enum Progress {
    /// Not yet.
    Bound,
    /// A query's rows, as far as they have not been sent.
    Open(RowStream),
    /// It was not a query, or it failed.
    Done,
}

impl Named {
    /// No statement and no portal.
    pub fn new(memory: &Arc<SessionMemory>) -> Named {
        Named {
            unnamed: None,
            portals: HashMap::new(),
            memory: Reservation::new(memory),
        }
    }

    pub fn close_portal(&mut self, name: &str) {
        if let Some(portal) = self.portals.remove(name) {
            self.memory.shrink(portal.bytes);
        }
    }

    /// Portals end with their transaction.
    pub fn transaction_boundary(&mut self, status: TransactionStatus) {
        if status == TransactionStatus::Idle && !self.portals.is_empty() {
            if self.portals.len() > KEPT_PORTALS {
                self.portals = HashMap::new();
            } else {
                self.portals.clear();
            }
            self.memory.shrink(self.memory.bytes());
        }
    }

    /// A simple query replaces the unnamed statement and portal.
    pub fn close_unnamed(&mut self) {
        self.unnamed = None;
        self.close_portal("");
    }
}
