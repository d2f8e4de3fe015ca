//! The open database, and how it comes back after a failure.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use evenkeel_sql::{Backends, SqlEngine};
use parking_lot::Mutex;
use tokio::sync::watch;

/// Opens the database anew after it has failed.
pub type Reopen = Arc<dyn Fn() -> Result<Arc<SqlEngine>, String> + Send + Sync>;

/// Why a server ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The database failed, and could not be opened again.
    #[error("the database system could not recover from a failure ({failure}): {error}")]
    Recovery {
        /// The failure of the running database.
        failure: String,
        /// Why it cannot be opened.
        error: String,
    },
    /// Sessions compute what cannot be interrupted, so the database cannot be closed in order.
    #[error(
        "{sessions} sessions could not be interrupted: ending at once, the next start will recover"
    )]
    Stuck {
        /// How many.
        sessions: usize,
    },
}

/// How long sessions may take to let go of a database that has failed.
const LET_GO: Duration = Duration::from_secs(60);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(20);

/// The database as one opening made it.
#[derive(Clone)]
pub(crate) struct Instance {
    pub engine: Arc<SqlEngine>,
    /// Says why, once it has failed. Sessions end then.
    pub failed: watch::Receiver<Option<String>>,
}

/// The open database; none while it recovers.
pub(crate) struct Instances(Mutex<State>);

struct State {
    open: Option<Instance>,
    /// The sessions of the database that was open last: they may outlive its failure for a moment.
    backends: Arc<Backends>,
}

impl Instances {
    pub fn new(engine: Arc<SqlEngine>) -> Instances {
        Instances(Mutex::new(State::of(engine)))
    }

    pub fn current(&self) -> Option<Instance> {
        self.0.lock().open.clone()
    }

    /// Cancels the statement of session `pid`, if `key` is its key. As in PostgreSQL nobody is told
    /// whether it was.
    pub fn cancel(&self, pid: i32, key: &[u8]) {
        if !self.backends().cancel(pid, key) {
            tracing::warn!(pid, "a cancel request with an unknown process or wrong key");
        }
    }

    /// Ends every running statement, since the server ends.
    pub fn shut_down_all(&self) {
        for backend in self.backends().list() {
            backend.shut_down();
        }
    }

    fn backends(&self) -> Arc<Backends> {
        Arc::clone(&self.0.lock().backends)
    }

    /// The database, if it serves. A caller that has seen it fail does not get that instance again,
    /// even before its sessions have been told.
    pub fn serving(&self) -> Option<Instance> {
        let instance = self.current()?;
        let failed = instance.engine.database().store().poison().is_set();
        (!failed).then_some(instance)
    }

    /// Waits for the database to fail, ends its sessions, opens it anew; and so on. Returns when
    /// it cannot be opened.
    pub async fn keep_open(&self, reopen: &Reopen) -> RunError {
        loop {
            let Some(failure) = self.next_failure().await else {
                return std::future::pending().await;
            };
            if let Err(error) = self.recover(reopen).await {
                return RunError::Recovery { failure, error };
            }
        }
    }

    async fn next_failure(&self) -> Option<String> {
        let mut failed = self.current()?.failed;
        let failure = failed.wait_for(Option::is_some).await.ok()?;
        failure.clone()
    }

    async fn recover(&self, reopen: &Reopen) -> Result<(), String> {
        tracing::error!("the database has failed: ending all sessions to recover");
        let Some(instance) = self.0.lock().open.take() else {
            return Err("it is recovering already".into());
        };
        let store = Arc::downgrade(instance.engine.database().store());
        // Its threads are joined in the last drop, which must not hold up the runtime.
        let dropped = tokio::task::spawn_blocking(move || drop(instance));
        let begun = Instant::now();
        while Weak::strong_count(&store) != 0 {
            if begun.elapsed() > LET_GO {
                return Err("sessions do not let go of the failed database".into());
            }
            for backend in self.backends().list() {
                backend.cancel();
            }
            tokio::time::sleep(LOOK).await;
        }
        let _ = dropped.await;
        let reopen = Arc::clone(reopen);
        let opened = tokio::task::spawn_blocking(move || reopen()).await;
        let engine = opened.map_err(|error| error.to_string())??;
        *self.0.lock() = State::of(engine);
        tracing::info!("database system is ready to accept connections");
        Ok(())
    }
}

impl State {
    fn of(engine: Arc<SqlEngine>) -> State {
        State {
            backends: Arc::clone(engine.instance().backends()),
            open: Some(Instance::of(engine)),
        }
    }
}

impl Instance {
    fn of(engine: Arc<SqlEngine>) -> Instance {
        let (sender, failed) = watch::channel(None);
        let poison = Arc::downgrade(engine.database().store().poison());
        let tell = move || {
            let reason = poison.upgrade().and_then(|poison| poison.reason());
            sender.send_replace(Some(reason.as_deref().unwrap_or("unknown").to_owned()));
        };
        engine.database().store().poison().on_set(tell);
        Instance { engine, failed }
    }
}
