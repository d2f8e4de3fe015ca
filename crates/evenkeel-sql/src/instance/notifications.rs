//! LISTEN and NOTIFY between the sessions of one database: a queue for each database, in the order
//! of the commits, and the place of each listening session in it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use evenkeel_engine::memory::Reservation;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::protocol::Oid;

/// A page of PostgreSQL's queue, in which `max_notify_queue_pages` counts.
const PAGE_BYTES: usize = 8192;
/// Memory of a queued notification besides its texts.
const ENTRY_BYTES: usize = 128;

/// A channel and the payload that is sent to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// The channel.
    pub channel: Box<str>,
    /// The payload; empty if none was given.
    pub payload: Box<str>,
}

impl Message {
    /// Its memory in the queue.
    pub fn bytes(&self) -> usize {
        ENTRY_BYTES + self.channel.len() + self.payload.len()
    }
}

/// A message as a listener gets it.
#[derive(Debug, Clone)]
pub struct Notification {
    /// The process number of the session that sent it.
    pub pid: i32,
    /// Its channel and payload.
    pub message: Arc<Message>,
}

/// A change of the channels that a session listens to.
pub enum Action {
    /// `LISTEN`, with the charge to the session for as long as it listens.
    Listen(Arc<str>, Reservation),
    /// `UNLISTEN`
    Unlisten(Arc<str>),
    /// `UNLISTEN *`
    UnlistenAll,
}

/// A session as the queue knows it.
#[derive(Debug)]
pub struct Listener {
    number: u64,
    database: Oid,
    pid: i32,
    /// The session has ended: a commit of its own that is published later enters it no more.
    gone: AtomicBool,
    /// Told when there may be something to read.
    wake: Notify,
}

impl Listener {
    /// Waits until there may be something to read.
    pub async fn notified(&self) {
        self.wake.notified().await;
    }
}

/// The room of the queues of all databases.
struct Room {
    used: AtomicUsize,
    limit: usize,
}

/// Room in the queue for the messages of one transaction.
pub struct QueueRoom {
    room: Arc<Room>,
    bytes: usize,
}

impl QueueRoom {
    /// Leaves `bytes` of it to an entry of the queue, which gives them back itself.
    fn hand_over(&mut self, bytes: usize) {
        self.bytes -= bytes.min(self.bytes);
    }
}

impl Drop for QueueRoom {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Messages and changes of channels of a transaction that has committed.
pub struct Arrival {
    /// The session's.
    pub listener: Arc<Listener>,
    /// Its changes of channels, in order; they come before its messages.
    pub actions: Vec<Action>,
    /// The messages, in order, each once.
    pub messages: Vec<Arc<Message>>,
    /// The room for those.
    pub room: QueueRoom,
}

/// The queues of an instance.
pub struct Notifications {
    /// Commits that have been published and not been entered, in the order of the log. This lock is
    /// taken under that of the publisher, and nothing but a push or a swap is done under it.
    arrivals: Mutex<Vec<Arrival>>,
    /// Locked before `arrivals`, so that those who enter them keep the order.
    queues: Mutex<HashMap<Oid, Queue>>,
    room: Arc<Room>,
    last_number: AtomicU64,
}

/// The queue of one database; there is none while nobody listens in it.
#[derive(Default)]
struct Queue {
    /// Position of the first entry.
    first: u64,
    entries: VecDeque<Notification>,
    listeners: HashMap<u64, Place>,
    /// How many listeners there are at each position.
    positions: BTreeMap<u64, usize>,
}

/// A listening session's place.
struct Place {
    listener: Arc<Listener>,
    /// Position of the next entry to read.
    next: u64,
    channels: HashMap<Arc<str>, Listened>,
    /// The number that the next channel gets.
    next_channel: u64,
}

/// A channel that a session listens to.
struct Listened {
    number: u64,
    _charge: Reservation,
}

impl Queue {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// A listener's place at `from`, if it had one, is now at `to`, if it has one.
    fn moved(&mut self, from: Option<u64>, to: Option<u64>) {
        if let Some(to) = to {
            *self.positions.entry(to).or_default() += 1;
        }
        if let Some(from) = from
            && let Some(count) = self.positions.get_mut(&from)
        {
            *count -= 1;
            if *count == 0 {
                self.positions.remove(&from);
            }
        }
    }

    /// Drops the entries that every listener has read.
    fn trim(&mut self, room: &Room) {
        let end = self.end();
        let keep = self.positions.first_key_value().map_or(end, |(at, _)| *at);
        while self.first < keep
            && let Some(entry) = self.entries.pop_front()
        {
            self.first += 1;
            let bytes = entry.message.bytes();
            room.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn act(&mut self, listener: &Arc<Listener>, action: Action) {
        match action {
            Action::Listen(channel, charge) => {
                if !self.listeners.contains_key(&listener.number) {
                    let next = self.end();
                    self.moved(None, Some(next));
                    let place = Place {
                        listener: Arc::clone(listener),
                        next,
                        channels: HashMap::new(),
                        next_channel: 0,
                    };
                    self.listeners.insert(listener.number, place);
                }
                if let Some(place) = self.listeners.get_mut(&listener.number) {
                    let number = place.next_channel;
                    place.next_channel += 1;
                    place.channels.entry(channel).or_insert(Listened {
                        number,
                        _charge: charge,
                    });
                }
            }
            Action::Unlisten(channel) => {
                if let Some(place) = self.listeners.get_mut(&listener.number) {
                    place.channels.remove(&channel);
                    if place.channels.is_empty() {
                        self.leave(listener.number);
                    }
                }
            }
            Action::UnlistenAll => self.leave(listener.number),
        }
    }

    fn leave(&mut self, number: u64) {
        if let Some(place) = self.listeners.remove(&number) {
            self.moved(Some(place.next), None);
        }
    }

    /// Queues messages; the listeners that are to be woken go to `woken`. One that has read all and
    /// listens to none of the channels has read these, so it keeps nothing in the queue.
    fn push(
        &mut self,
        (pid, messages): (i32, Vec<Arc<Message>>),
        room: &mut QueueRoom,
        woken: &mut Vec<Arc<Listener>>,
    ) {
        if messages.is_empty() || self.listeners.is_empty() {
            return;
        }
        let before = self.end();
        let said = messages.iter().map(|message| &*message.channel);
        let said: HashSet<&str> = said.collect();
        let after = before + messages.len() as u64;
        let mut passed = 0;
        for place in self.listeners.values_mut() {
            let listens = match said.len() < place.channels.len() {
                true => said.iter().any(|said| place.channels.contains_key(*said)),
                false => place.channels.keys().any(|own| said.contains(&**own)),
            };
            if listens {
                woken.push(Arc::clone(&place.listener));
            } else if place.next == before {
                place.next = after;
                passed += 1;
            }
        }
        for message in messages {
            room.hand_over(message.bytes());
            self.entries.push_back(Notification { pid, message });
        }
        for _ in 0..passed {
            self.moved(Some(before), Some(after));
        }
    }

    /// The next messages of a listener, up to some bytes.
    fn read(&mut self, number: u64, bytes: usize) -> Vec<Notification> {
        let mut read = Vec::new();
        let (first, end) = (self.first, self.end());
        let Some(place) = self.listeners.get_mut(&number) else {
            return read;
        };
        let before = place.next;
        let mut taken = 0;
        while place.next < end && taken < bytes {
            let at = usize::try_from(place.next - first).unwrap_or(usize::MAX);
            let Some(entry) = self.entries.get(at) else {
                break;
            };
            place.next += 1;
            if place.channels.contains_key(&*entry.message.channel) {
                taken += entry.message.bytes();
                read.push(entry.clone());
            }
        }
        let after = place.next;
        self.moved(Some(before), Some(after));
        read
    }
}

impl Notifications {
    /// Empty queues, of so many pages in all.
    pub fn new(pages: usize) -> Notifications {
        Notifications {
            arrivals: Mutex::default(),
            queues: Mutex::default(),
            room: Arc::new(Room {
                used: AtomicUsize::new(0),
                limit: pages.saturating_mul(PAGE_BYTES),
            }),
            last_number: AtomicU64::new(0),
        }
    }

    /// A session, which listens to nothing yet.
    pub fn listener(&self, database: Oid, pid: i32) -> Arc<Listener> {
        Arc::new(Listener {
            number: self.last_number.fetch_add(1, Ordering::Relaxed),
            database,
            pid,
            gone: AtomicBool::new(false),
            wake: Notify::new(),
        })
    }

    /// Room for the messages of a transaction that is about to commit; `None` if the queue is full.
    pub fn reserve(&self, messages: &[Arc<Message>]) -> Option<QueueRoom> {
        let bytes = messages.iter().map(|message| message.bytes()).sum();
        let room = &self.room;
        let grown = |used: usize| used.checked_add(bytes).filter(|used| *used <= room.limit);
        let order = Ordering::Relaxed;
        let reserved = bytes == 0 || room.used.fetch_update(order, order, grown).is_ok();
        reserved.then(|| QueueRoom {
            room: Arc::clone(room),
            bytes,
        })
    }

    /// The part of the room that is taken, from 0 to 1.
    pub fn usage(&self) -> f64 {
        self.room.used.load(Ordering::Relaxed) as f64 / self.room.limit.max(1) as f64
    }

    /// A commit is published. [`Notifications::enter`] is to follow.
    pub fn arrive(&self, arrival: Arrival) {
        self.arrivals.lock().push(arrival);
    }

    /// Enters what has arrived into the queues, and wakes those who listen.
    pub fn enter(&self) {
        let mut woken = Vec::new();
        let mut queues = self.queues.lock();
        self.enter_into(&mut queues, &mut woken);
        drop(queues);
        for listener in woken {
            listener.wake.notify_one();
        }
    }

    fn enter_into(&self, queues: &mut HashMap<Oid, Queue>, woken: &mut Vec<Arc<Listener>>) {
        let arrivals = std::mem::take(&mut *self.arrivals.lock());
        for arrival in arrivals {
            let Arrival {
                listener,
                actions,
                messages,
                mut room,
            } = arrival;
            let database = listener.database;
            let queue = queues.entry(database).or_default();
            if !listener.gone.load(Ordering::Relaxed) {
                for action in actions {
                    queue.act(&listener, action);
                }
            }
            queue.push((listener.pid, messages), &mut room, woken);
            queue.trim(&self.room);
            if queue.listeners.is_empty() {
                queues.remove(&database);
            }
        }
    }

    /// The next messages for a session, of about so many bytes.
    pub fn read(&self, listener: &Listener, bytes: usize) -> Vec<Notification> {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&listener.database) else {
            return Vec::new();
        };
        let read = queue.read(listener.number, bytes);
        queue.trim(&self.room);
        read
    }

    /// The channels that a session listens to, in the order in which it began to.
    pub fn channels(&self, listener: &Listener) -> Vec<Arc<str>> {
        let queues = self.queues.lock();
        let place = queues
            .get(&listener.database)
            .and_then(|queue| queue.listeners.get(&listener.number));
        let channels = place.into_iter().flat_map(|place| &place.channels);
        let mut channels: Vec<_> = channels
            .map(|(channel, listened)| (listened.number, Arc::clone(channel)))
            .collect();
        channels.sort_unstable();
        channels.into_iter().map(|(_, channel)| channel).collect()
    }

    /// The session has ended.
    pub fn leave(&self, listener: &Listener) {
        let mut queues = self.queues.lock();
        // Under the lock, so that no arrival of the session is being entered.
        listener.gone.store(true, Ordering::Relaxed);
        let Some(queue) = queues.get_mut(&listener.database) else {
            return;
        };
        queue.leave(listener.number);
        queue.trim(&self.room);
        if queue.listeners.is_empty() {
            queues.remove(&listener.database);
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::memory::SessionMemory;

    use super::*;

    fn arrival(
        queues: &Notifications,
        listener: &Arc<Listener>,
        listens: &[&str],
        said: &[&str],
    ) -> Arrival {
        let listen = |channel: &&str| {
            let charge = Reservation::new(&SessionMemory::unlimited());
            Action::Listen(Arc::from(*channel), charge)
        };
        let message = |channel: &&str| {
            let (channel, payload) = (Box::from(*channel), Box::default());
            Arc::new(Message { channel, payload })
        };
        let messages: Vec<_> = said.iter().map(message).collect();
        let room = queues.reserve(&messages).expect("room");
        Arrival {
            listener: Arc::clone(listener),
            actions: listens.iter().map(listen).collect(),
            messages,
            room,
        }
    }

    #[test]
    fn a_session_that_ended_before_its_commit_was_published_is_not_entered() {
        let queues = Notifications::new(1);
        let (gone, other) = (queues.listener(5, 1), queues.listener(5, 2));
        queues.arrive(arrival(&queues, &gone, &["x"], &["x"]));
        queues.leave(&gone);
        queues.enter();
        assert!(queues.queues.lock().is_empty());
        assert_eq!(queues.room.used.load(Ordering::Relaxed), 0);
        queues.arrive(arrival(&queues, &other, &["x"], &["x"]));
        queues.enter();
        assert_eq!(queues.read(&other, 1).len(), 1);
        assert!(queues.read(&other, 1).is_empty());
    }

    #[test]
    fn only_sessions_that_have_something_to_read_keep_entries() {
        let queues = Notifications::new(1);
        let (x, y) = (queues.listener(5, 1), queues.listener(5, 2));
        queues.arrive(arrival(&queues, &x, &["x"], &[]));
        queues.arrive(arrival(&queues, &y, &["y"], &[]));
        for _ in 0..3 {
            queues.arrive(arrival(&queues, &x, &[], &["x", "z"]));
        }
        queues.enter();
        let kept = || {
            queues
                .queues
                .lock()
                .values()
                .map(|queue| queue.entries.len())
                .sum::<usize>()
        };
        assert_eq!(kept(), 6);
        // Read one by one; the entry behind it that is not for the session goes with the next.
        for left in [5, 3, 1] {
            assert_eq!(queues.read(&x, 1).len(), 1);
            assert_eq!(kept(), left);
        }
        assert!(queues.read(&x, 1).is_empty());
        assert_eq!(kept(), 0);
        assert_eq!(queues.room.used.load(Ordering::Relaxed), 0);
        queues.leave(&x);
        queues.leave(&y);
        assert!(queues.queues.lock().is_empty());
    }

    #[test]
    fn a_commit_that_is_never_published_gives_its_room_back() {
        let queues = Notifications::new(1);
        let listener = queues.listener(5, 1);
        let made = arrival(&queues, &listener, &[], &["x"]);
        assert!(queues.usage() > 0.0);
        drop(made);
        assert_eq!(queues.room.used.load(Ordering::Relaxed), 0);
    }
}
