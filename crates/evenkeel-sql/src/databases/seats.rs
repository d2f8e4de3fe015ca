//! The list of the databases, and how many sessions are in each.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::info::DatabaseInfo;
use super::{Oid, unknown_database};
use crate::error::{SqlError, SqlResult, SqlState};

/// The committed databases.
#[derive(Default)]
pub(super) struct Shared(Mutex<BTreeMap<Oid, Entry>>);

struct Entry {
    info: Arc<DatabaseInfo>,
    /// Sessions that are in it, or about to be.
    seats: usize,
    /// One session wants it for itself: nobody takes a seat meanwhile.
    closed: bool,
}

impl Shared {
    pub fn list(&self) -> Vec<Arc<DatabaseInfo>> {
        let entries = self.0.lock();
        entries.values().map(|e| Arc::clone(&e.info)).collect()
    }

    pub fn info(&self, oid: Oid) -> Option<Arc<DatabaseInfo>> {
        self.0.lock().get(&oid).map(|entry| Arc::clone(&entry.info))
    }

    /// A database is new, or has a new definition.
    pub fn put(&self, info: DatabaseInfo) {
        let mut entries = self.0.lock();
        let info = Arc::new(info);
        match entries.get_mut(&info.oid) {
            Some(entry) => entry.info = info,
            None => {
                let (seats, closed) = (0, false);
                let oid = info.oid;
                entries.insert(
                    oid,
                    Entry {
                        info,
                        seats,
                        closed,
                    },
                );
            }
        }
    }

    pub fn remove(&self, oid: Oid) {
        self.0.lock().remove(&oid);
    }

    pub fn enter(shared: &Arc<Shared>, oid: Oid) -> SqlResult<Seat> {
        let mut entries = shared.0.lock();
        let entry = entries
            .get_mut(&oid)
            .ok_or_else(|| unknown_database(&oid.to_string()))?;
        if entry.closed {
            let name = &entry.info.name;
            let message = format!("database \"{name}\" is being copied, renamed or dropped");
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        entry.seats += 1;
        Ok(Seat {
            shared: Arc::clone(shared),
            info: Arc::clone(&entry.info),
        })
    }

    /// Closes a database to all but `own` sessions that are in it; or says how many others there
    /// are.
    pub fn close(shared: &Arc<Shared>, oid: Oid, own: usize) -> SqlResult<Result<Closed, usize>> {
        let mut entries = shared.0.lock();
        let entry = entries
            .get_mut(&oid)
            .ok_or_else(|| unknown_database(&oid.to_string()))?;
        if entry.closed {
            return Ok(Err(1));
        }
        if entry.seats > own {
            return Ok(Err(entry.seats - own));
        }
        entry.closed = true;
        let shared = Arc::clone(shared);
        Ok(Ok(Closed { shared, oid }))
    }
}

/// A session's place in a database, which is not dropped meanwhile.
pub struct Seat {
    shared: Arc<Shared>,
    info: Arc<DatabaseInfo>,
}

impl Seat {
    /// The database, as it was when the seat was taken; its name and files do not change while
    /// anybody is in it.
    pub fn info(&self) -> &Arc<DatabaseInfo> {
        &self.info
    }

    /// One more in the same database, which the first one keeps from being dropped.
    pub fn again(&self) -> Seat {
        if let Some(entry) = self.shared.0.lock().get_mut(&self.info.oid) {
            entry.seats += 1;
        }
        Seat {
            shared: Arc::clone(&self.shared),
            info: Arc::clone(&self.info),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(entry) = self.shared.0.lock().get_mut(&self.info.oid) {
            entry.seats = entry.seats.saturating_sub(1);
        }
    }
}

/// Keeps sessions out of a database until it is dropped.
pub struct Closed {
    shared: Arc<Shared>,
    oid: Oid,
}

impl Drop for Closed {
    fn drop(&mut self) {
        if let Some(entry) = self.shared.0.lock().get_mut(&self.oid) {
            entry.closed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::info::builtin;
    use super::*;

    fn shared() -> (Arc<Shared>, Oid) {
        let shared = Arc::new(Shared::default());
        let [info, ..] = builtin();
        let oid = info.oid;
        shared.put(info);
        (shared, oid)
    }

    #[test]
    fn a_database_with_sessions_is_not_closed_and_a_closed_one_takes_none() {
        let (shared, oid) = shared();
        let seat = Shared::enter(&shared, oid).unwrap();
        let other = Shared::enter(&shared, oid).unwrap();
        assert_eq!(Shared::close(&shared, oid, 0).unwrap().err(), Some(2));
        assert_eq!(Shared::close(&shared, oid, 1).unwrap().err(), Some(1));
        drop(other);
        let closed = Shared::close(&shared, oid, 1).unwrap().ok().unwrap();
        assert!(Shared::enter(&shared, oid).is_err());
        assert!(Shared::close(&shared, oid, 1).unwrap().is_err());
        drop(closed);
        let again = Shared::enter(&shared, oid).unwrap();
        drop((seat, again));
        assert!(Shared::close(&shared, oid, 0).unwrap().is_ok());
    }

    #[test]
    fn a_seat_of_a_database_that_is_gone_is_given_up_in_silence() {
        let (shared, oid) = shared();
        let seat = Shared::enter(&shared, oid).unwrap();
        shared.remove(oid);
        drop(seat);
        assert!(Shared::enter(&shared, oid).is_err());
    }
}
