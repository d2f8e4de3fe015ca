//! The connected sessions and the activity of each: `pg_stat_activity`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use evenkeel_engine::{CancelFlag, OwnXids};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::protocol::Oid;

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Client {
    /// In this process.
    #[default]
    Embedded,
    /// At the Unix socket.
    Local,
    /// At this address.
    Tcp(SocketAddr),
}

/// State of a session, as `pg_stat_activity.state` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Occupation {
    /// It waits for its client, outside a transaction block.
    #[default]
    Idle,
    /// It runs a statement.
    Active,
    /// It waits for its client, in a block.
    InBlock,
    /// It waits for its client, in a failed block.
    Failed,
}

impl Occupation {
    /// The `state` of `pg_stat_activity`.
    pub fn name(self) -> &'static str {
        match self {
            Occupation::Idle => "idle",
            Occupation::Active => "active",
            Occupation::InBlock => "idle in transaction",
            Occupation::Failed => "idle in transaction (aborted)",
        }
    }
}

/// A session's last statement and where it stands. Times are microseconds since 1970 UTC.
#[derive(Debug, Clone, Default)]
pub struct Activity {
    /// State of the session.
    pub occupation: Occupation,
    text: Option<Arc<str>>,
    /// When the statement began.
    pub query_start: Option<i64>,
    /// When the occupation began.
    pub state_change: i64,
}

impl Activity {
    /// The statement, the last one if none runs.
    pub fn query(&self) -> &str {
        self.text.as_deref().unwrap_or("")
    }
}

/// A statement as it is shown: of a long one the beginning, as PostgreSQL's
/// `track_activity_query_size` does by default, so that it does not stay in memory.
fn shown(text: &Arc<str>) -> Arc<str> {
    const SHOWN_BYTES_MAX: usize = 1024;
    if text.len() < SHOWN_BYTES_MAX {
        return Arc::clone(text);
    }
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX - 1);
    Arc::from(&text[..end])
}

/// An open transaction as others see it.
#[derive(Debug, Clone)]
pub struct OpenTransaction {
    /// When it began.
    pub start: i64,
    /// Its number in the lock table.
    pub number: u64,
    /// Its ids.
    pub ids: Arc<OwnXids>,
}

/// Asks a session to end.
#[derive(Debug, Default)]
pub struct EndFlag {
    wanted: AtomicBool,
    changed: Notify,
}

impl EndFlag {
    /// Asks.
    pub fn raise(&self) {
        self.wanted.store(true, Ordering::Release);
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// Whether it was asked.
    pub fn is_raised(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Waits until it is asked.
    pub async fn raised(&self) {
        while !self.is_raised() {
            self.changed.notified().await;
        }
    }
}

/// A client as it introduced itself.
#[derive(Debug)]
pub struct Identity {
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Its oid.
    pub database_oid: Oid,
    /// Where the client is.
    pub client: Client,
    /// The key that cancels its statements; none that fits if there is none.
    pub cancel_key: Option<Bytes>,
    /// The number under which the lock table has its advisory locks.
    pub advisory: u64,
}

/// One session as others see it.
#[derive(Debug)]
pub struct Backend {
    /// `pg_backend_pid()`.
    pub pid: i32,
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Its oid.
    pub database_oid: Oid,
    /// Where its client is.
    pub client: Client,
    /// When it was opened.
    pub started: i64,
    cancel_key: Option<Bytes>,
    cancel: CancelFlag,
    end: Arc<EndFlag>,
    activity: Mutex<Activity>,
    transaction: Mutex<Option<OpenTransaction>>,
    application: Mutex<Arc<str>>,
    /// The number under which the lock table has the session's advisory locks.
    pub advisory: u64,
    active: AtomicU64,
    in_block: AtomicU64,
}

impl Backend {
    fn new(pid: i32, identity: Identity, started: i64, cancel: CancelFlag) -> Backend {
        Backend {
            pid,
            user: identity.user,
            database: identity.database,
            database_oid: identity.database_oid,
            client: identity.client,
            started,
            cancel_key: identity.cancel_key,
            cancel,
            end: Arc::default(),
            advisory: identity.advisory,
            activity: Mutex::new(Activity {
                state_change: started,
                ..Activity::default()
            }),
            transaction: Mutex::default(),
            application: Mutex::new(Arc::from("")),
            active: AtomicU64::new(0),
            in_block: AtomicU64::new(0),
        }
    }

    /// A statement begins.
    pub fn runs(&self, text: &Arc<str>, now: i64) {
        let mut activity = self.activity.lock();
        self.spend(&activity, now);
        activity.text = Some(shown(text));
        activity.query_start = Some(now);
        activity.state_change = now;
        activity.occupation = Occupation::Active;
    }

    /// The session waits for its client.
    pub fn waits(&self, occupation: Occupation, now: i64) {
        let mut activity = self.activity.lock();
        if activity.occupation != occupation {
            self.spend(&activity, now);
            activity.state_change = now;
            activity.occupation = occupation;
        }
    }

    fn spend(&self, activity: &Activity, now: i64) {
        let spent = u64::try_from(now - activity.state_change).unwrap_or(0);
        match activity.occupation {
            Occupation::Idle => {}
            Occupation::Active => drop(self.active.fetch_add(spent, Ordering::Relaxed)),
            Occupation::InBlock | Occupation::Failed => {
                self.in_block.fetch_add(spent, Ordering::Relaxed);
            }
        }
    }

    /// A transaction begins.
    pub fn begins(&self, start: i64, number: u64, ids: Arc<OwnXids>) {
        let open = OpenTransaction { start, number, ids };
        *self.transaction.lock() = Some(open);
    }

    /// The transaction has ended.
    pub fn ends(&self) {
        *self.transaction.lock() = None;
    }

    /// `application_name` was set.
    pub fn call_itself(&self, application: &str) {
        *self.application.lock() = Arc::from(application);
    }

    /// `application_name`.
    pub fn application(&self) -> Arc<str> {
        Arc::clone(&self.application.lock())
    }

    /// The session's activity.
    pub fn activity(&self) -> Activity {
        self.activity.lock().clone()
    }

    /// Its transaction.
    pub fn transaction(&self) -> Option<OpenTransaction> {
        self.transaction.lock().clone()
    }

    /// Ends the running statement with 57014; does nothing to an idle session.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Ends the running statement with 57P01, since the server or the session ends.
    pub fn shut_down(&self) {
        self.cancel.shut_down();
    }

    /// Ends the session; the statement under way with 57P01.
    pub fn terminate(&self) {
        self.end.raise();
        self.cancel.shut_down();
    }

    /// Flag that tells the session to end.
    pub fn end_flag(&self) -> Arc<EndFlag> {
        Arc::clone(&self.end)
    }
}

/// Microseconds that sessions spent in each state, and the number of sessions. An occupation counts
/// when it ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Sessions opened.
    pub sessions: u64,
    /// Open.
    pub session: u64,
    /// Running statements.
    pub active: u64,
    /// Waiting for the client in a block.
    pub in_block: u64,
    /// Sessions that were told to end.
    pub killed: u64,
}

/// The open sessions of an instance by their process numbers: the only list of them.
#[derive(Debug, Default)]
pub struct Backends {
    open: Mutex<Open>,
    opened: AtomicU64,
    /// Totals of the closed sessions.
    closed: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Open {
    /// The process number that was given last; numbers only name sessions.
    last: i32,
    sessions: BTreeMap<i32, Arc<Backend>>,
}

impl Open {
    fn next_pid(&mut self) -> i32 {
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.sessions.contains_key(&self.last) {
                return self.last;
            }
        }
    }
}

impl Backends {
    /// Enters a session under a new process number; times in microseconds since 1970 UTC.
    pub fn open(&self, identity: Identity, started: i64, cancel: CancelFlag) -> Arc<Backend> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock();
        let pid = open.next_pid();
        let backend = Arc::new(Backend::new(pid, identity, started, cancel));
        open.sessions.insert(pid, Arc::clone(&backend));
        backend
    }

    /// Takes a session out; `now` in microseconds since 1970 UTC.
    pub fn close(&self, pid: i32, now: i64) {
        let Some(backend) = self.open.lock().sessions.remove(&pid) else {
            return;
        };
        let spent = backend.times(now);
        let mut closed = self.closed.lock();
        closed.session += spent.session;
        closed.active += spent.active;
        closed.in_block += spent.in_block;
        closed.killed += u64::from(backend.end.is_raised());
    }

    /// Cancels the statement of session `pid` if `key` is its key: whether it is.
    pub fn cancel(&self, pid: i32, key: &[u8]) -> bool {
        let found = self.find(pid);
        let backend = found.filter(|backend| {
            let own = backend.cancel_key.as_deref();
            own.is_some_and(|own| is_same(own, key))
        });
        if let Some(backend) = &backend {
            backend.cancel();
        }
        backend.is_some()
    }

    /// All sessions.
    pub fn list(&self) -> Vec<Arc<Backend>> {
        self.open.lock().sessions.values().cloned().collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.open.lock().sessions.len()
    }

    /// A session by its process number.
    pub fn find(&self, pid: i32) -> Option<Arc<Backend>> {
        self.open.lock().sessions.get(&pid).cloned()
    }

    /// Totals of all sessions, open and closed.
    pub fn times(&self, now: i64) -> Times {
        let mut times = *self.closed.lock();
        times.sessions = self.opened.load(Ordering::Relaxed);
        for backend in self.open.lock().sessions.values() {
            let spent = backend.times(now);
            times.session += spent.session;
            times.active += spent.active;
            times.in_block += spent.in_block;
        }
        times
    }
}

impl Backend {
    fn times(&self, now: i64) -> Times {
        Times {
            sessions: 1,
            session: u64::try_from(now - self.started).unwrap_or(0),
            active: self.active.load(Ordering::Relaxed),
            in_block: self.in_block.load(Ordering::Relaxed),
            killed: 0,
        }
    }
}

/// Compares keys in a time that does not tell how much of a guess was right.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(backends: &Backends, key: Option<&'static [u8]>) -> (Arc<Backend>, CancelFlag) {
        let identity = Identity {
            user: "u".to_owned(),
            database: "d".to_owned(),
            database_oid: 5,
            client: Client::Embedded,
            cancel_key: key.map(Bytes::from_static),
            advisory: 0,
        };
        let flag = CancelFlag::new();
        (backends.open(identity, 0, flag.clone()), flag)
    }

    #[test]
    fn only_a_sessions_own_key_cancels_its_statement() {
        let backends = Backends::default();
        let (keyed, flag) = open(&backends, Some(b"abcd"));
        let (keyless, other) = open(&backends, None);
        for (pid, key) in [
            (keyed.pid, &b"abce"[..]),
            (keyed.pid, b"abc"),
            (keyed.pid, b""),
            (keyless.pid, b""),
            (keyless.pid, b"abcd"),
            (99, b"abcd"),
        ] {
            assert!(!backends.cancel(pid, key));
        }
        assert!(flag.check().is_ok());
        assert!(backends.cancel(keyed.pid, b"abcd"));
        assert!(flag.check().is_err() && other.check().is_ok());
        backends.close(keyed.pid, 1);
        assert!(!backends.cancel(keyed.pid, b"abcd"));
    }

    #[test]
    fn a_process_number_names_one_open_session() {
        let backends = Backends::default();
        let (first, _) = open(&backends, None);
        backends.open.lock().last = i32::MAX;
        let (second, _) = open(&backends, None);
        assert_ne!(first.pid, second.pid);
        assert!(second.pid > 0);
        assert_eq!(backends.count(), 2);
    }
}
