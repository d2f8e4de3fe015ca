//! The open connections, and the delivery of a cancel request to its statement.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};

use bytes::Bytes;
use evenkeel_sql::CancelHandle;
use parking_lot::Mutex;
use rand::Rng;

/// Process numbers shown to clients start here; they only name connections.
const FIRST_PID: i32 = 1000;

/// The open connections, by the number their clients know them by.
pub(crate) struct Registry {
    next_pid: AtomicI32,
    connections: Mutex<HashMap<i32, Entry>>,
}

struct Entry {
    secret: Bytes,
    cancel: CancelHandle,
}

impl Registry {
    pub fn new() -> Registry {
        Registry {
            next_pid: AtomicI32::new(FIRST_PID),
            connections: Mutex::new(HashMap::new()),
        }
    }

    pub fn next_pid(&self) -> i32 {
        self.next_pid.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a connection known until `remove`; returns the key that cancels its statements.
    pub fn add(&self, pid: i32, long_key: bool, cancel: CancelHandle) -> Bytes {
        let mut secret = vec![0_u8; if long_key { 32 } else { 4 }];
        rand::rng().fill(secret.as_mut_slice());
        let secret = Bytes::from(secret);
        self.connections.lock().insert(
            pid,
            Entry {
                secret: secret.clone(),
                cancel,
            },
        );
        secret
    }

    pub fn remove(&self, pid: i32) {
        self.connections.lock().remove(&pid);
    }

    /// Cancels what connection `pid` runs, if `secret` is its key. As in PostgreSQL nobody is
    /// told whether it was.
    pub fn cancel(&self, pid: i32, secret: &[u8]) {
        let handle = match self.connections.lock().get(&pid) {
            Some(entry) if same(&entry.secret, secret) => Some(entry.cancel.clone()),
            _ => None,
        };
        match handle {
            Some(handle) => handle.cancel(),
            None => tracing::warn!(pid, "a cancel request with an unknown process or wrong key"),
        }
    }

    /// Cancels every running statement.
    pub fn cancel_all(&self) {
        for handle in self.handles() {
            handle.cancel();
        }
    }

    /// Ends every running statement, since the server ends.
    pub fn shut_down_all(&self) {
        for handle in self.handles() {
            handle.shut_down();
        }
    }

    fn handles(&self) -> Vec<CancelHandle> {
        let connections = self.connections.lock();
        let handles = connections.values().map(|entry| entry.cancel.clone());
        handles.collect()
    }
}

/// Compares keys in a time that does not tell how much of a guess was right.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}
