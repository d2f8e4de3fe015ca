//! Threads that do one thing over and over, and what they measured.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::subject::{Error, Result, Session, Store};

/// Latencies in nanoseconds, to three digits.
pub type Latency = Histogram<u64>;

/// An empty histogram.
pub fn latency() -> Result<Latency> {
    Ok(Latency::new(3)?)
}

/// Work of several threads.
pub struct Measured {
    /// Operations done by all threads.
    pub operations: u64,
    /// From the common start to the end of the last thread.
    pub elapsed: Duration,
    /// Processor time of the whole process meanwhile, the engine's own threads included: with
    /// other kinds of workers beside, theirs too.
    pub cpu: Duration,
    /// Of those operations that were timed.
    pub latency: Latency,
}

/// Processor time this process has used.
pub fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

impl Measured {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// One kind of thread: how many, and what each does.
pub struct Workers<'a> {
    /// Number of threads.
    pub threads: u32,
    /// One operation in this many is timed.
    pub timed: u64,
    /// The operation; it is told the thread's number and how often it was called before.
    pub operation: &'a (dyn Fn(&mut dyn Session, u32, u64) -> Result<()> + Sync),
}

/// Runs all kinds of workers at once until `body`, on this thread, has returned.
pub fn run<T>(
    store: &dyn Store,
    kinds: &[Workers<'_>],
    body: impl FnOnce() -> Result<T>,
) -> Result<(Vec<Measured>, T)> {
    let stop = AtomicBool::new(false);
    let threads: u32 = kinds.iter().map(|kind| kind.threads).sum();
    let barrier = Barrier::new(threads as usize + 1);
    std::thread::scope(|scope| {
        let (stop, barrier) = (&stop, &barrier);
        let start = |kind, thread| scope.spawn(move || work(store, kind, thread, stop, barrier));
        let spawned: Vec<Vec<_>> = kinds
            .iter()
            .map(|kind| (0..kind.threads).map(|n| start(kind, n)).collect())
            .collect();
        let cpu = cpu_time();
        barrier.wait();
        let outcome = body();
        stop.store(true, Ordering::Relaxed);
        let mut measured = Vec::new();
        for threads in spawned {
            let mut all = Measured {
                operations: 0,
                elapsed: Duration::ZERO,
                cpu: Duration::ZERO,
                latency: latency()?,
            };
            for thread in threads {
                let one = thread
                    .join()
                    .map_err(|_| Error::from("a thread panicked"))??;
                all.operations += one.operations;
                all.elapsed = all.elapsed.max(one.elapsed);
                all.latency.add(&one.latency)?;
            }
            measured.push(all);
        }
        let cpu = cpu_time().saturating_sub(cpu);
        measured.iter_mut().for_each(|one| one.cpu = cpu);
        Ok((measured, outcome?))
    })
}

/// As [`run`], for one kind of worker and a time.
pub fn run_for(store: &dyn Store, kind: Workers<'_>, time: Duration) -> Result<Measured> {
    let (mut measured, ()) = run(store, &[kind], || {
        std::thread::sleep(time);
        Ok(())
    })?;
    measured.pop().ok_or_else(|| "nothing was measured".into())
}

fn work(
    store: &dyn Store,
    kind: &Workers<'_>,
    thread: u32,
    stop: &AtomicBool,
    barrier: &Barrier,
) -> Result<Measured> {
    let session = store.session();
    barrier.wait();
    let mut session = session?;
    let mut latency = latency()?;
    let begun = Instant::now();
    let mut operations = 0;
    while !stop.load(Ordering::Relaxed) {
        if operations % kind.timed == 0 {
            let at = Instant::now();
            (kind.operation)(session.as_mut(), thread, operations)?;
            latency.record(at.elapsed().as_nanos() as u64)?;
        } else {
            (kind.operation)(session.as_mut(), thread, operations)?;
        }
        operations += 1;
    }
    Ok(Measured {
        operations,
        elapsed: begun.elapsed(),
        cpu: Duration::ZERO,
        latency,
    })
}
