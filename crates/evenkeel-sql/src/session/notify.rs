//! LISTEN, NOTIFY and UNLISTEN, and the messages that come to a session.

use std::sync::Arc;

use super::Session;
use super::transaction::Block;
use crate::instance::{Listener, Notification, Notifications};

/// Bytes of messages that are handed over at once.
const BATCH_BYTES: usize = 64 << 10;

/// A session's place among those that listen, which goes with it.
pub(super) struct Listening {
    queues: Arc<Notifications>,
    listener: Arc<Listener>,
}

impl Listening {
    pub fn new(queues: &Arc<Notifications>, listener: &Arc<Listener>) -> Listening {
        Listening {
            queues: Arc::clone(queues),
            listener: Arc::clone(listener),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.queues.leave(&self.listener);
    }
}

impl Session {
    /// The next messages of the channels that the session listens to, which its client is told of
    /// when no transaction is open; none if there are no more.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        match self.tx.block {
            Block::Idle => self.resources.channels.read(BATCH_BYTES),
            Block::Implicit | Block::Explicit | Block::Failed => Vec::new(),
        }
    }

    /// Waits until there may be messages to take; never comes while a transaction is open, nor to a
    /// session that has listened to nothing.
    pub fn notified(&self) -> impl Future<Output = ()> + Send + use<> {
        let channels = &self.resources.channels;
        let listens = self.tx.block == Block::Idle && channels.listens();
        let listener = listens.then(|| Arc::clone(channels.listener()));
        async move {
            match listener {
                Some(listener) => listener.notified().await,
                None => std::future::pending().await,
            }
        }
    }
}
