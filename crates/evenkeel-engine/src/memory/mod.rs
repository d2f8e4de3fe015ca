//! The accounting of memory: one tree from the server to its sessions to what they hold. The
//! rules are in the README beside this file.

pub mod counting;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// A session draws from the server in multiples of this, so that small reservations stay on the
/// session's own cache line.
pub const DRAWN_AT_ONCE: usize = 64 << 10;
/// How far a [`Reservation`] may lag behind what it stands for.
const LAG: usize = 8 << 10;
/// A session with less than this share of the server's budget is small: the last eighth of the
/// budget is for small sessions, so that one large session does not starve all others.
const SMALL_SHARE: usize = 16;
const KEPT_FOR_SMALL: usize = 8;

/// A reservation that would pass a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory")]
pub struct OutOfMemory {
    /// The setting that bounds the budget.
    pub budget: &'static str,
    /// The budget, in bytes.
    pub limit: usize,
    /// Bytes that were asked for.
    pub requested: usize,
}

/// `max_server_memory`, as an error names it.
pub const SERVER_BUDGET: &str = "max_server_memory";
/// `max_session_memory`, as an error names it.
pub const SESSION_BUDGET: &str = "max_session_memory";

static GAUGE: OnceLock<fn() -> usize> = OnceLock::new();

/// Lets budgets see the bytes that the process has from its allocator. For a program whose
/// allocator counts; the first call holds for the process.
pub fn set_gauge(bytes_in_use: fn() -> usize) {
    let _ = GAUGE.set(bytes_in_use);
}

/// Bytes that the process has from its allocator; 0 if nothing counts them.
pub fn in_use() -> usize {
    GAUGE.get().map_or(0, |gauge| gauge())
}

/// The root of the tree: what all sessions may use together.
#[derive(Debug)]
pub struct ServerMemory {
    limit: usize,
    drawn: AtomicUsize,
    /// Bytes the process had from its allocator when the budget was made: pools and buffers of
    /// fixed size, which are not the sessions'.
    base: usize,
}

impl ServerMemory {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<ServerMemory> {
        Arc::new(ServerMemory {
            limit,
            drawn: AtomicUsize::new(0),
            base: in_use(),
        })
    }

    /// No bound.
    #[must_use]
    pub fn unlimited() -> Arc<ServerMemory> {
        ServerMemory::new(usize::MAX)
    }

    /// The budget in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that sessions have drawn.
    #[must_use]
    pub fn drawn(&self) -> usize {
        self.drawn.load(Ordering::Relaxed)
    }

    /// The budget of a session.
    #[must_use]
    pub fn session(self: &Arc<Self>, limit: usize) -> Arc<SessionMemory> {
        Arc::new(SessionMemory {
            server: Arc::clone(self),
            limit,
            state: Mutex::default(),
        })
    }

    /// Draws `bytes` for a session that has drawn `has`.
    fn draw(&self, bytes: usize, has: usize) -> Result<(), OutOfMemory> {
        let small = has.saturating_add(bytes) <= self.limit / SMALL_SHARE;
        let kept = self.limit / KEPT_FOR_SMALL;
        // Memory that accounting misses shows in the allocator's total. A small session may go
        // beyond the budget by the same share that is kept for it: it is not the one that used it
        // up.
        let ends = if small {
            [self.limit, self.limit.saturating_add(kept)]
        } else {
            [self.limit - kept, self.limit]
        };
        let refused = OutOfMemory {
            budget: SERVER_BUDGET,
            limit: self.limit,
            requested: bytes,
        };
        let in_use = in_use().saturating_sub(self.base);
        if in_use.saturating_add(bytes) > ends[1] {
            return Err(refused);
        }
        let add = |drawn: usize| drawn.checked_add(bytes).filter(|drawn| *drawn <= ends[0]);
        let drawn = self
            .drawn
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        drawn.map(drop).map_err(|_| refused)
    }

    fn give_back(&self, bytes: usize) {
        self.drawn.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The memory budget of one session. Shared by its statements, wherever they run.
#[derive(Debug)]
pub struct SessionMemory {
    server: Arc<ServerMemory>,
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// Drawn from the server; at least `used`.
    drawn: usize,
}

impl SessionMemory {
    /// A session without bound, of no server.
    #[must_use]
    pub fn unlimited() -> Arc<SessionMemory> {
        ServerMemory::unlimited().session(usize::MAX)
    }

    /// Bytes reserved now.
    #[must_use]
    pub fn used(&self) -> usize {
        self.state.lock().used
    }

    /// The session's budget in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Reserves `bytes`; the caller releases as many.
    ///
    /// # Errors
    /// When the session's budget or the server's would be passed; nothing is reserved then.
    pub fn reserve(&self, bytes: usize) -> Result<(), OutOfMemory> {
        let mut state = self.state.lock();
        let used = state.used.checked_add(bytes);
        let used = used.filter(|used| *used <= self.limit).ok_or(OutOfMemory {
            budget: SESSION_BUDGET,
            limit: self.limit,
            requested: bytes,
        })?;
        if used > state.drawn {
            let missing = (used - state.drawn).next_multiple_of(DRAWN_AT_ONCE);
            let drawn = self.server.draw(missing, state.drawn);
            drawn.map_err(|error| OutOfMemory {
                requested: bytes,
                ..error
            })?;
            state.drawn += missing;
        }
        state.used = used;
        Ok(())
    }

    /// Reserves what has been allocated already, beyond every budget if need be: the next
    /// reservation is then refused.
    pub fn reserve_regardless(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.used = state.used.saturating_add(bytes);
        if state.used > state.drawn {
            let missing = state.used - state.drawn;
            self.server.drawn.fetch_add(missing, Ordering::Relaxed);
            state.drawn = state.used;
        }
    }

    /// Gives back what [`SessionMemory::reserve`] reserved.
    pub fn release(&self, bytes: usize) {
        let mut state = self.state.lock();
        debug_assert!(bytes <= state.used, "more memory released than reserved");
        state.used = state.used.saturating_sub(bytes);
        let spare = state.drawn - state.used;
        // One multiple stays, so that a session at its edge does not go to the server each time.
        if spare >= 2 * DRAWN_AT_ONCE {
            let kept = state.used.next_multiple_of(DRAWN_AT_ONCE) + DRAWN_AT_ONCE;
            let back = state.drawn - kept.min(state.drawn);
            state.drawn -= back;
            self.server.give_back(back);
        }
    }
}

impl Drop for SessionMemory {
    fn drop(&mut self) {
        self.server.give_back(self.state.get_mut().drawn);
    }
}

/// Memory that something holds, given back when it is dropped. The first bytes are free, and the
/// reservation then follows in steps: a caller may tell it of every row.
#[derive(Debug)]
pub struct Reservation {
    memory: Arc<SessionMemory>,
    /// Bytes the reservation stands for.
    bytes: usize,
    /// Bytes charged to the session's budget; behind `bytes` by less than the lag.
    reserved: usize,
}

impl Reservation {
    /// An empty reservation in a session's budget.
    #[must_use]
    pub fn new(memory: &Arc<SessionMemory>) -> Reservation {
        Reservation {
            memory: Arc::clone(memory),
            bytes: 0,
            reserved: 0,
        }
    }

    /// A reservation of `bytes`, all of them charged.
    ///
    /// # Errors
    /// As [`SessionMemory::reserve`].
    pub fn of(memory: &Arc<SessionMemory>, bytes: usize) -> Result<Reservation, OutOfMemory> {
        memory.reserve(bytes)?;
        Ok(Reservation {
            memory: Arc::clone(memory),
            bytes,
            reserved: bytes,
        })
    }

    /// An empty reservation in the same budget.
    #[must_use]
    pub fn another(&self) -> Reservation {
        Reservation::new(&self.memory)
    }

    /// The budget that it is in.
    #[must_use]
    pub fn memory(&self) -> &Arc<SessionMemory> {
        &self.memory
    }

    /// Bytes it stands for.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds `bytes`.
    ///
    /// # Errors
    /// As [`SessionMemory::reserve`]; nothing is added then.
    #[inline]
    pub fn grow(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        self.resize(self.bytes.saturating_add(bytes))
    }

    /// Stands for `bytes` from now on.
    ///
    /// # Errors
    /// As [`SessionMemory::reserve`]; it stays as it was then.
    #[inline]
    pub fn resize(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        if bytes > self.reserved.saturating_add(LAG) {
            self.memory.reserve(bytes - self.reserved)?;
            self.reserved = bytes;
        } else if self.reserved > bytes.saturating_add(LAG) {
            self.memory.release(self.reserved - bytes);
            self.reserved = bytes;
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Takes `bytes` away.
    pub fn shrink(&mut self, bytes: usize) {
        // Shrinking reserves nothing.
        let _ = self.resize(self.bytes.saturating_sub(bytes));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.reserved > 0 {
            self.memory.release(self.reserved);
        }
    }
}
