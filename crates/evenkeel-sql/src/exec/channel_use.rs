//! A session's use of channels: what its transaction has sent and asked for, until it commits.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_engine::Transaction;
use evenkeel_engine::memory::{Reservation, SessionMemory};
use parking_lot::Mutex;

use crate::error::{SqlError, SqlResult, SqlState};
use crate::instance::{Action, Arrival, Listener, Message, Notification, Notifications};

/// A channel's name is shorter than this, as every identifier.
const CHANNEL_BYTES: usize = 64;
/// A payload is shorter than this: PostgreSQL's limit, by its page.
const PAYLOAD_BYTES: usize = 8000;
/// Memory of a message or an action besides its texts, with its place in the set.
const PENDING_BYTES: usize = 192;

/// The channels as one session uses them.
pub struct ChannelUse {
    queues: Arc<Notifications>,
    listener: Arc<Listener>,
    memory: Arc<SessionMemory>,
    pending: Mutex<Pending>,
    /// Whether the transaction has anything pending: read by every commit.
    is_pending: AtomicBool,
    /// Whether the session has ever asked to listen.
    listens: AtomicBool,
}

#[derive(Default)]
struct Pending {
    actions: Vec<Action>,
    messages: Vec<Arc<Message>>,
    /// The same, to be found.
    known: HashSet<Arc<Message>>,
    /// Charged for the messages.
    charge: Option<Reservation>,
}

/// How much was pending at a savepoint.
#[derive(Debug, Clone, Copy)]
pub struct ChannelMark {
    actions: usize,
    messages: usize,
}

impl ChannelUse {
    /// For a session, by its process number.
    pub fn new(
        queues: &Arc<Notifications>,
        listener: Arc<Listener>,
        memory: &Arc<SessionMemory>,
    ) -> ChannelUse {
        ChannelUse {
            queues: Arc::clone(queues),
            listener,
            memory: Arc::clone(memory),
            pending: Mutex::default(),
            is_pending: AtomicBool::new(false),
            listens: AtomicBool::new(false),
        }
    }

    /// The session as the queue knows it.
    pub fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// Whether the session has asked to listen to anything.
    pub fn listens(&self) -> bool {
        self.listens.load(Ordering::Relaxed)
    }

    /// NOTIFY: sends a message when the transaction commits, unless it has sent the same.
    ///
    /// # Errors
    /// 22023 for a name or a payload that is too long, or no name; 53200.
    pub fn notify(&self, channel: &str, payload: &str) -> SqlResult<()> {
        let refused = |message: &str| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        if channel.is_empty() {
            return Err(refused("channel name cannot be empty"));
        }
        if channel.len() >= CHANNEL_BYTES {
            return Err(refused("channel name too long"));
        }
        if payload.len() >= PAYLOAD_BYTES {
            return Err(refused("payload string too long"));
        }
        let message = Arc::new(Message {
            channel: channel.into(),
            payload: payload.into(),
        });
        let mut pending = self.pending.lock();
        if pending.known.contains(&message) {
            return Ok(());
        }
        let bytes = PENDING_BYTES + channel.len() + payload.len();
        let charge = &mut pending.charge;
        charge
            .get_or_insert_with(|| Reservation::new(&self.memory))
            .grow(bytes)?;
        pending.known.insert(Arc::clone(&message));
        pending.messages.push(message);
        self.is_pending.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// LISTEN, when the transaction commits.
    ///
    /// # Errors
    /// 53200
    pub fn listen(&self, channel: &str) -> SqlResult<()> {
        let charge = Reservation::of(&self.memory, PENDING_BYTES + channel.len())?;
        self.listens.store(true, Ordering::Relaxed);
        self.ask(Action::Listen(Arc::from(channel), charge));
        Ok(())
    }

    /// UNLISTEN, of all channels if none is named, when the transaction commits. A session that has
    /// never listened has nothing to do.
    pub fn unlisten(&self, channel: Option<&str>) {
        if self.listens() {
            self.ask(match channel {
                Some(channel) => Action::Unlisten(Arc::from(channel)),
                None => Action::UnlistenAll,
            });
        }
    }

    fn ask(&self, action: Action) {
        self.pending.lock().actions.push(action);
        self.is_pending.store(true, Ordering::Relaxed);
    }

    /// How much is pending.
    pub fn mark(&self) -> ChannelMark {
        let pending = self.pending.lock();
        ChannelMark {
            actions: pending.actions.len(),
            messages: pending.messages.len(),
        }
    }

    /// Forgets what was asked for and sent since.
    pub fn rollback_to(&self, mark: ChannelMark) {
        let mut pending = self.pending.lock();
        pending.actions.truncate(mark.actions);
        let from = mark.messages.min(pending.messages.len());
        for message in pending.messages.split_off(from) {
            pending.known.remove(&message);
        }
    }

    /// The transaction has ended.
    pub fn end(&self) {
        if self.is_pending.swap(false, Ordering::Relaxed) {
            *self.pending.lock() = Pending::default();
        }
    }

    /// Has what is pending take effect with the commit that follows.
    ///
    /// # Errors
    /// 54000 if the queue has no room.
    pub fn commit_with(&self, txn: &mut Transaction) -> SqlResult<()> {
        if !self.is_pending.load(Ordering::Relaxed) {
            return Ok(());
        }
        let pending = std::mem::take(&mut *self.pending.lock());
        let room = self.queues.reserve(&pending.messages);
        let Some(room) = room else {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "too many notifications in the NOTIFY queue",
            ));
        };
        let arrival = Arrival {
            listener: Arc::clone(&self.listener),
            actions: pending.actions,
            messages: pending.messages,
            room,
        };
        // Not the instance: a hook may be the last that has it, under the publisher's lock.
        let queues = Arc::clone(&self.queues);
        txn.on_publish(Box::new(move || queues.arrive(arrival)));
        let queues = Arc::clone(&self.queues);
        txn.on_commit(Box::new(move || queues.enter()));
        Ok(())
    }

    /// `pg_listening_channels()`
    pub fn channels(&self) -> Vec<Arc<str>> {
        match self.listens() {
            true => self.queues.channels(&self.listener),
            false => Vec::new(),
        }
    }

    /// `pg_notification_queue_usage()`
    pub fn queue_usage(&self) -> f64 {
        self.queues.usage()
    }

    /// The next messages for the session, of about so many bytes.
    pub fn read(&self, bytes: usize) -> Vec<Notification> {
        match self.listens() {
            true => self.queues.read(&self.listener, bytes),
            false => Vec::new(),
        }
    }
}
