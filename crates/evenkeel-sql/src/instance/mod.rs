//! State that all sessions of a server share besides the catalog: the connected sessions, the
//! server's start time, and the counters' values at their last reset. The statistics views are read
//! from here, live.

mod backends;
mod counters;
mod notifications;
mod temporary;

use std::collections::HashMap;
use std::sync::Arc;

use evenkeel_engine::Database;
use evenkeel_engine::stats::TableStatistics;
use evenkeel_storage::stats::IoStatsRow;
use parking_lot::Mutex;

use crate::databases::Databases;
use temporary::TemporaryNumbers;

pub use backends::{
    Activity, Backend, Backends, Client, EndFlag, Identity, Occupation, OpenTransaction, Times,
};
pub use counters::{Counted, Kind, Resets};
pub use notifications::{Action, Arrival, Listener, Message, Notification, Notifications};
pub use temporary::TemporaryNumber;

/// A running server, or an embedded database's SQL layer.
pub struct Instance {
    db: Database,
    databases: Arc<Databases>,
    started: i64,
    backends: Arc<Backends>,
    resets: Mutex<Resets>,
    /// Where the counters of I/O stood when they were reset.
    io_base: Mutex<Vec<IoStatsRow>>,
    /// Where the counters of tables stood when they were reset.
    table_base: Mutex<HashMap<u64, TableStatistics>>,
    temporary: Arc<TemporaryNumbers>,
    notifications: Arc<Notifications>,
}

impl Instance {
    /// Over an open database; `started` in microseconds since 1970 UTC.
    pub fn new(
        db: Database,
        databases: Arc<Databases>,
        started: i64,
        notifications: Notifications,
    ) -> Instance {
        Instance {
            db,
            databases,
            started,
            backends: Arc::default(),
            resets: Mutex::default(),
            io_base: Mutex::default(),
            table_base: Mutex::default(),
            temporary: Arc::default(),
            notifications: Arc::new(notifications),
        }
    }

    /// The engine below.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// Its databases.
    pub fn databases(&self) -> &Arc<Databases> {
        &self.databases
    }

    /// `pg_postmaster_start_time()`: microseconds since 1970 UTC.
    pub fn started(&self) -> i64 {
        self.started
    }

    /// The open sessions.
    pub fn backends(&self) -> &Arc<Backends> {
        &self.backends
    }

    /// The queues of notifications.
    pub fn notifications(&self) -> &Arc<Notifications> {
        &self.notifications
    }

    /// The number of a session's temporary schema, which no other session has meanwhile.
    pub fn take_temporary_number(&self) -> TemporaryNumber {
        TemporaryNumbers::take(&self.temporary)
    }

    /// Counters of a kind since they were last reset.
    pub fn counted(&self, kind: Kind) -> Counted {
        let now = counters::read(&self.db, kind);
        self.resets.lock().since(kind, now)
    }

    /// The rows of `pg_stat_io`, and when their counters were last reset.
    pub fn io(&self) -> (Vec<IoStatsRow>, Option<i64>) {
        let rows = counters::io(&self.db, &self.io_base.lock());
        (rows, self.counted(Kind::Io).reset)
    }

    /// A table's counts since its reset.
    pub fn table(&self, id: u64) -> TableStatistics {
        let mut counted = self.db.table_statistics(id);
        if let Some(base) = self.table_base.lock().get(&id) {
            counters::since(&mut counted, base);
        }
        counted
    }

    /// Makes the counters of some tables begin at zero.
    pub fn reset_tables(&self, ids: impl IntoIterator<Item = u64>) {
        let mut bases = self.table_base.lock();
        for id in ids {
            bases.insert(id, self.db.table_statistics(id));
        }
    }

    /// Makes the counters of a kind begin at zero; `now` in microseconds since 1970 UTC.
    pub fn reset(&self, kind: Kind, now: i64) {
        if kind == Kind::Io {
            *self.io_base.lock() = self.db.pool().io_rows();
        }
        let values = counters::read(&self.db, kind);
        self.resets.lock().reset(kind, values, now);
    }
}
