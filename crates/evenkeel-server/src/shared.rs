//! The database and the limits, which all connections share.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use evenkeel_sql::{SqlEngine, SqlError, SqlState};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::config::ServerConfig;
use crate::error::{ConnectionError, error_response};
use crate::instance::{Instance, Instances};

/// The parts of a server that all connections share.
pub(crate) struct Shared {
    pub instances: Instances,
    pub stopping: watch::Sender<bool>,
    authentication_timeout: Mutex<Duration>,
    slots: Arc<Semaphore>,
    /// For connections that are not sessions yet.
    pending: Arc<Semaphore>,
}

impl Shared {
    pub fn new(engine: Arc<SqlEngine>, config: &ServerConfig) -> Shared {
        Shared {
            instances: Instances::new(engine),
            stopping: watch::Sender::new(false),
            authentication_timeout: Mutex::new(config.authentication_timeout),
            slots: Arc::new(Semaphore::new(config.max_connections)),
            pending: Arc::new(Semaphore::new(config.max_pending)),
        }
    }

    /// How long a client may take to say who it is.
    pub fn authentication_timeout(&self) -> Duration {
        *self.authentication_timeout.lock()
    }

    pub fn set_authentication_timeout(&self, time: Duration) {
        *self.authentication_timeout.lock() = time;
    }

    /// The open database; an error while it recovers from a failure.
    pub fn instance(&self) -> Result<Instance, ConnectionError> {
        self.instances.serving().ok_or_else(|| {
            ConnectionError::Fatal(SqlError::new(
                SqlState::CANNOT_CONNECT_NOW,
                "the database system is in recovery mode",
            ))
        })
    }

    /// A place among `max_connections`, given back when it is dropped.
    pub fn connection_slot(&self) -> Result<OwnedSemaphorePermit, ConnectionError> {
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        slot.map_err(|_| ConnectionError::Fatal(too_many()))
    }

    /// A place among the connections that are not sessions yet; the client is told if there is
    /// none, as far as it takes that at once.
    pub fn admit<S: AsFd>(&self, stream: &S) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.pending).try_acquire_owned();
        if place.is_err() {
            let mut message = BytesMut::new();
            // An error response is always encoded.
            let _ = error_response("FATAL", &too_many()).encode(&mut message);
            let _ = rustix::io::write(stream, &message);
        }
        place.ok()
    }
}

fn too_many() -> SqlError {
    SqlError::new(
        SqlState::TOO_MANY_CONNECTIONS,
        "sorry, too many clients already",
    )
}

/// Waits until the server is told to stop. The answer of `wait_for` must not be kept: it is bound
/// to its thread.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}
