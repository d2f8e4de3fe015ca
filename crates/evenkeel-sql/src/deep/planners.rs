//! The threads that statements are planned on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_engine::CancelFlag;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::on_deep_stack;
use crate::error::{SqlError, SqlResult};

/// Statements that are planned at once. Planning takes some milliseconds.
const PROMPT: usize = 4;
/// Statements that take longer, besides those.
const OVERDUE: usize = 16;
/// From then on planning is overdue: its place among the prompt ones is given to another.
const PROMPT_FOR: Duration = Duration::from_millis(100);
/// How often a session that waits for its plan looks at its cancel flag.
const LOOK: Duration = Duration::from_millis(20);

/// Threads that plan statements, each on a deep stack, so that neither a server's threads wait for
/// a plan nor a plan for them.
///
/// A session that is cancelled gives its plan up at once; the thread ends when the planner looks at
/// the flag the next time, until then as one of the overdue ones. When all places are taken, others
/// wait.
pub struct Planners {
    /// Always there until it is dropped.
    runtime: Option<Runtime>,
    prompt: Arc<Semaphore>,
    overdue: Arc<Semaphore>,
}

/// A place among the planning threads, shared by the thread and the session that waits for it.
type Place = Arc<Mutex<Option<OwnedSemaphorePermit>>>;

/// Gives the place back when the thread is done, by a panic too.
struct Leave(Place);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}

impl Planners {
    /// No thread is made before it is needed.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new() -> SqlResult<Planners> {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(PROMPT + OVERDUE)
            .thread_name("evenkeel-planner")
            .build()
            .map_err(|error| SqlError::internal(format!("no threads for planning: {error}")))?;
        Ok(Planners {
            runtime: Some(runtime),
            prompt: Arc::new(Semaphore::new(PROMPT)),
            overdue: Arc::new(Semaphore::new(OVERDUE)),
        })
    }

    /// Runs `work` on a planning thread.
    ///
    /// # Errors
    /// 57014 soon after `cancel` is raised, whatever `work` does; XX000 when it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        cancel: &CancelFlag,
        work: impl FnOnce() -> SqlResult<T> + Send + 'static,
    ) -> SqlResult<T> {
        let runtime = self.runtime.as_ref().ok_or_else(no_threads)?;
        let permit = self.place(cancel).await?;
        let place: Place = Arc::new(Mutex::new(Some(permit)));
        let held = Arc::clone(&place);
        let mut task = runtime.spawn_blocking(move || {
            let _leave = Leave(held);
            // Not the thread's own stack: it would keep the memory that the deepest statement has
            // touched, which no budget counts.
            on_deep_stack(work)
        });
        let begun = Instant::now();
        loop {
            tokio::select! {
                biased;
                done = &mut task => {
                    return done.unwrap_or_else(|error| Err(failure(&error)));
                }
                () = tokio::time::sleep(LOOK) => {}
            }
            let cancelled = cancel.check();
            if cancelled.is_err() || begun.elapsed() > PROMPT_FOR {
                self.is_overdue(&place);
            }
            cancelled?;
        }
    }

    async fn place(&self, cancel: &CancelFlag) -> SqlResult<OwnedSemaphorePermit> {
        let mut wanted = Box::pin(Arc::clone(&self.prompt).acquire_owned());
        loop {
            tokio::select! {
                biased;
                permit = &mut wanted => return permit.map_err(|_| no_threads()),
                () = tokio::time::sleep(LOOK) => cancel.check()?,
            }
        }
    }

    /// Lets another statement have the place, if there is one left among the overdue ones.
    fn is_overdue(&self, place: &Place) {
        let mut held = place.lock();
        if let Some(permit) = held.as_mut()
            && Arc::ptr_eq(permit.semaphore(), &self.prompt)
            && let Ok(overdue) = Arc::clone(&self.overdue).try_acquire_owned()
        {
            *permit = overdue;
        }
    }
}

impl Drop for Planners {
    fn drop(&mut self) {
        // Dropping a runtime waits, which an asynchronous caller must not.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn no_threads() -> SqlError {
    SqlError::internal("there are no planning threads any more")
}

fn failure(error: &tokio::task::JoinError) -> SqlError {
    SqlError::internal(format!("planning failed: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::error::SqlState;

    #[tokio::test]
    async fn a_cancelled_session_does_not_wait_for_its_plan() {
        let planners = Planners::new().unwrap();
        let (release, wait) = mpsc::channel::<()>();
        let cancel = CancelFlag::new();
        cancel.cancel();
        let stuck = planners.run(&cancel, move || Ok(wait.recv().is_ok()));
        assert_eq!(stuck.await.unwrap_err().sqlstate, SqlState::QUERY_CANCELED);
        drop(release);
    }

    #[tokio::test]
    async fn statements_that_plan_for_long_leave_their_places_to_others() {
        let planners = Planners::new().unwrap();
        let (release, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let cancel = CancelFlag::new();
        cancel.cancel();
        for _ in 0..OVERDUE {
            let wait = Arc::clone(&wait);
            let stuck = planners.run(&cancel, move || Ok(wait.lock().recv().is_ok()));
            assert!(stuck.await.is_err());
        }
        let patient = CancelFlag::new();
        let fine = planners.run(&patient, || Ok(1));
        assert_eq!(fine.await.unwrap(), 1);
        drop(release);
    }

    #[tokio::test]
    async fn a_panic_while_planning_is_an_error_of_its_statement() {
        let planners = Planners::new().unwrap();
        let cancel = CancelFlag::new();
        let broken = planners.run(&cancel, || -> SqlResult<()> { panic!("on purpose") });
        assert_eq!(broken.await.unwrap_err().sqlstate, SqlState::INTERNAL_ERROR);
        assert_eq!(planners.run(&cancel, || Ok(2)).await.unwrap(), 2);
    }
}
