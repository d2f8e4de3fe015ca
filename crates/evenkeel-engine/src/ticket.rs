//! Waiting without a runtime: a ticket is completed once by whoever ends the wait, and is a
//! future for whoever waits.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::error::{EngineError, EngineResult};

/// Wakers collected under a mutex, to be called after it is released.
#[derive(Default)]
pub(crate) struct WakeList(SmallVec<[Waker; 8]>);

impl WakeList {
    /// Calls the wakers. No mutex of the engine may be held.
    pub(crate) fn wake(self) {
        for waker in self.0 {
            waker.wake();
        }
    }
}

/// The shared end of a wait: completed at most once.
#[derive(Debug, Default)]
pub(crate) struct TicketCell {
    state: Mutex<CellState>,
}

#[derive(Debug, Default)]
struct CellState {
    outcome: Option<EngineResult<()>>,
    waker: Option<Waker>,
}

impl TicketCell {
    pub(crate) fn new() -> Arc<TicketCell> {
        Arc::default()
    }

    /// Ends the wait unless it has ended already; says whether this call ended it.
    pub(crate) fn complete(&self, outcome: EngineResult<()>, wakes: &mut WakeList) -> bool {
        let mut state = self.state.lock();
        if state.outcome.is_some() {
            return false;
        }
        state.outcome = Some(outcome);
        wakes.0.extend(state.waker.take());
        true
    }

    /// [`TicketCell::complete`] for a caller that holds no mutex.
    pub(crate) fn complete_now(&self, outcome: EngineResult<()>) -> bool {
        let mut wakes = WakeList::default();
        let won = self.complete(outcome, &mut wakes);
        wakes.wake();
        won
    }

    /// Whether the wait has ended, and ended well.
    pub(crate) fn is_granted(&self) -> bool {
        matches!(self.state.lock().outcome, Some(Ok(())))
    }

    /// Whether the wait has ended, in whatever way.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().outcome.is_some()
    }

    fn poll(&self, context: &Context<'_>) -> Poll<EngineResult<()>> {
        let mut state = self.state.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// A wait of a session: for a lock, for another transaction's end, or for its own commit to be
/// published. It borrows nothing, so a session may await it on any runtime.
#[derive(Debug)]
#[must_use = "a ticket does nothing unless awaited"]
pub struct WaitTicket {
    cell: Arc<TicketCell>,
    cancel: Option<CancelFlag>,
}

impl WaitTicket {
    /// A wait that only its completion ends.
    pub(crate) fn new(cell: Arc<TicketCell>) -> WaitTicket {
        WaitTicket { cell, cancel: None }
    }

    /// A wait that `cancel` ends too.
    pub(crate) fn cancellable(cell: Arc<TicketCell>, cancel: &CancelFlag) -> WaitTicket {
        cancel.watch(&cell);
        WaitTicket {
            cell,
            cancel: Some(cancel.clone()),
        }
    }
}

impl Future for WaitTicket {
    type Output = EngineResult<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<EngineResult<()>> {
        self.cell.poll(context)
    }
}

impl Drop for WaitTicket {
    fn drop(&mut self) {
        if let Some(cancel) = &self.cancel {
            cancel.unwatch(&self.cell);
        }
    }
}

/// Lets another thread cancel what a session does: loops look at it, waits end by it.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    /// One of the causes below; a higher one replaces a lower one.
    cause: AtomicU8,
    waiting: Mutex<SmallVec<[Weak<TicketCell>; 1]>>,
}

const NOT_RAISED: u8 = 0;
const REQUESTED: u8 = 1;
const TIMED_OUT: u8 = 2;
const SHUT_DOWN: u8 = 3;

/// The error of a raised flag: it carries the cause, so that every check and every wait reports
/// the same one.
fn cancelled(cause: u8) -> EngineError {
    match cause {
        SHUT_DOWN => EngineError::ShuttingDown,
        TIMED_OUT => EngineError::StatementTimeout,
        _ => EngineError::Cancelled,
    }
}

impl CancelFlag {
    /// A flag that is not raised.
    pub fn new() -> CancelFlag {
        CancelFlag::default()
    }

    /// Raises the flag at a client's request and ends the waits that watch it with 57014.
    pub fn cancel(&self) {
        self.raise(REQUESTED);
    }

    /// Raises the flag because the statement's time is over: 57014 that says so.
    pub fn time_out(&self) {
        self.raise(TIMED_OUT);
    }

    /// Raises the flag because the server or the session ends: 57P01.
    pub fn shut_down(&self) {
        self.raise(SHUT_DOWN);
    }

    fn raise(&self, cause: u8) {
        let cause = self.0.cause.fetch_max(cause, Ordering::SeqCst).max(cause);
        let waiting = std::mem::take(&mut *self.0.waiting.lock());
        for cell in waiting.iter().filter_map(Weak::upgrade) {
            cell.complete_now(Err(cancelled(cause)));
        }
    }

    /// Lowers the flag, for the session's next statement.
    pub fn reset(&self) {
        self.0.cause.store(NOT_RAISED, Ordering::SeqCst);
    }

    /// Whether the flag is raised.
    pub fn is_raised(&self) -> bool {
        self.0.cause.load(Ordering::Relaxed) != NOT_RAISED
    }

    /// Fails with 57014, or 57P01, if the flag is raised.
    pub fn check(&self) -> EngineResult<()> {
        match self.0.cause.load(Ordering::Relaxed) {
            NOT_RAISED => Ok(()),
            cause => Err(cancelled(cause)),
        }
    }

    /// Sleeps on this thread until the time comes, for ever without one, or until the flag is
    /// raised.
    ///
    /// # Errors
    /// As [`CancelFlag::check`].
    pub fn sleep_until(&self, until: Option<Instant>) -> EngineResult<()> {
        let waker = UNPARK.try_with(Waker::clone).unwrap_or_else(|_| unpark());
        let mut context = Context::from_waker(&waker);
        let mut ticket = pin!(WaitTicket::cancellable(TicketCell::new(), self));
        loop {
            if let Poll::Ready(ended) = ticket.as_mut().poll(&mut context) {
                return ended;
            }
            match until {
                None => thread::park(),
                Some(until) => match until.saturating_duration_since(Instant::now()) {
                    Duration::ZERO => return Ok(()),
                    left => thread::park_timeout(left),
                },
            }
        }
    }

    fn watch(&self, cell: &Arc<TicketCell>) {
        self.0.waiting.lock().push(Arc::downgrade(cell));
        // Registered first, looked at second: a flag raised in between is seen here.
        match self.0.cause.load(Ordering::SeqCst) {
            NOT_RAISED => {}
            cause => {
                cell.complete_now(Err(cancelled(cause)));
            }
        }
    }

    fn unwatch(&self, cell: &Arc<TicketCell>) {
        self.0
            .waiting
            .lock()
            .retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(cell)));
    }
}

thread_local! {
    /// Wakes this thread. Made once, so that waiting for what is ready at once costs nothing.
    static UNPARK: Waker = unpark();
}

fn unpark() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// Runs a future of the engine to its end on this thread, which sleeps while it waits.
pub fn block_on<F: Future>(future: F) -> F::Output {
    // A thread that is ending has no thread-local values any more.
    let waker = UNPARK.try_with(Waker::clone).unwrap_or_else(|_| unpark());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_completed_once() {
        let cell = TicketCell::new();
        assert!(cell.complete_now(Ok(())));
        assert!(!cell.complete_now(Err(EngineError::Cancelled)));
        assert!(cell.is_granted());
        assert!(block_on(WaitTicket::new(cell)).is_ok());
    }

    #[test]
    fn a_raised_flag_ends_present_and_future_waits() {
        let flag = CancelFlag::new();
        let ticket = WaitTicket::cancellable(TicketCell::new(), &flag);
        let canceller = flag.clone();
        let thread = thread::spawn(move || canceller.cancel());
        assert!(matches!(block_on(ticket), Err(EngineError::Cancelled)));
        thread.join().unwrap();
        let late = WaitTicket::cancellable(TicketCell::new(), &flag);
        assert!(matches!(block_on(late), Err(EngineError::Cancelled)));
        flag.reset();
        assert!(flag.check().is_ok());
        assert!(flag.0.waiting.lock().is_empty());
    }
    #[test]
    fn a_wait_and_a_check_report_the_same_cause() {
        let flag = CancelFlag::new();
        let ticket = WaitTicket::cancellable(TicketCell::new(), &flag);
        flag.time_out();
        // A request that comes later does not hide the time limit.
        flag.cancel();
        assert!(matches!(
            block_on(ticket),
            Err(EngineError::StatementTimeout)
        ));
        assert!(matches!(flag.check(), Err(EngineError::StatementTimeout)));
        let late = WaitTicket::cancellable(TicketCell::new(), &flag);
        assert!(matches!(block_on(late), Err(EngineError::StatementTimeout)));
        flag.reset();
        flag.cancel();
        assert!(matches!(flag.check(), Err(EngineError::Cancelled)));
    }
}
