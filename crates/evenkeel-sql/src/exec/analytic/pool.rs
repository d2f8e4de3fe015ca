//! Threads of their own for plans, so that a long query takes no thread from short statements.

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::error::{SqlError, SqlResult};

/// Batches that may wait for the client before a plan pauses.
const BATCHES_AHEAD: usize = 2;

/// The threads that plans run on.
pub struct Pool {
    /// Always there until the pool is dropped.
    runtime: Option<Runtime>,
}

/// Ends a plan when nobody wants its rows any more.
struct EndOnDrop(AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Pool {
    /// A pool of `threads` threads.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(threads: usize) -> SqlResult<Pool> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("evenkeel-plan")
            .enable_all()
            .build()
            .map_err(|error| SqlError::internal(format!("no threads for plans: {error}")))?;
        Ok(Pool {
            runtime: Some(runtime),
        })
    }

    /// The same rows, made on the pool's threads.
    pub fn run(&self, mut rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let Some(runtime) = &self.runtime else {
            return rows;
        };
        let schema = rows.schema();
        let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
        let task = runtime.spawn(async move {
            while let Some(batch) = rows.next().await {
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        });
        let end = EndOnDrop(task.abort_handle());
        let state = (receiver, Some(task), end);
        let batches = stream::unfold(state, |(mut receiver, mut task, end)| async move {
            if let Some(batch) = receiver.recv().await {
                return Some((batch, (receiver, task, end)));
            }
            // The sender is gone: at the end of the rows, or because the plan panicked.
            let outcome = task.take()?.await;
            let error = outcome.err()?;
            Some((
                Err(SqlError::internal(error.to_string()).into()),
                (receiver, None, end),
            ))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, Box::pin(batches)))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Dropping a runtime waits, which an asynchronous caller must not.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
