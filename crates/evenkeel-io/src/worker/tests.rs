use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::time::Instant;

use super::*;
use crate::error::IoResult;
use crate::file::File;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A slow device: each read lasts until `together` reads are under way at once.
#[derive(Default)]
struct Slow {
    together: usize,
    reads: Mutex<Reads>,
    changed: Condvar,
}

#[derive(Default)]
struct Reads {
    under_way: usize,
    most: usize,
    /// The reads that are under way are let go.
    released: bool,
}

impl Slow {
    fn new(together: usize) -> Arc<Slow> {
        Arc::new(Slow {
            together,
            ..Slow::default()
        })
    }

    fn most(&self) -> usize {
        self.reads.lock().most
    }
}

impl File for Slow {
    fn read_vectored_at(&self, _: &mut [IoSliceMut<'_>], offset: u64) -> IoResult<usize> {
        assert_ne!(offset, u64::MAX, "as the test wants it");
        let deadline = Instant::now() + PATIENCE;
        let mut reads = self.reads.lock();
        reads.under_way += 1;
        reads.most = reads.most.max(reads.under_way);
        reads.released |= reads.under_way >= self.together;
        self.changed.notify_all();
        while !reads.released && !self.changed.wait_until(&mut reads, deadline).timed_out() {}
        reads.under_way -= 1;
        Ok(0)
    }

    fn write_all_vectored_at(&self, _: &mut [IoSlice<'_>], _: u64) -> IoResult<()> {
        Ok(())
    }

    fn sync_data(&self) -> IoResult<()> {
        Ok(())
    }

    fn sync_all(&self) -> IoResult<()> {
        Ok(())
    }

    fn len(&self) -> IoResult<u64> {
        Ok(0)
    }

    fn set_len(&self, _: u64) -> IoResult<()> {
        Ok(())
    }

    fn allocate(&self, _: u64, _: u64) -> IoResult<()> {
        Ok(())
    }

    fn start_writeback(&self, _: u64, _: u64) -> IoResult<()> {
        Ok(())
    }

    fn await_writeback(&self, _: u64, _: u64) -> IoResult<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("slow")
    }
}

fn reads(file: &Arc<Slow>, count: u64) -> Vec<IoOp> {
    let read = |tag| IoOp::read(Arc::clone(file) as Arc<dyn File>, 0, Vec::new(), tag);
    (0..count).map(read).collect()
}

fn workers(pool: &WorkerPool) -> usize {
    pool.jobs.state.lock().workers
}

fn run(queue: &mut WorkerQueue, ops: Vec<IoOp>) {
    let count = ops.len();
    let mut done = Vec::new();
    queue.submit(ops);
    queue.wait(count, &mut done);
    assert_eq!((done.len(), queue.in_flight()), (count, 0));
}

#[test]
fn as_many_reads_are_in_flight_as_the_depth_of_their_queue() {
    let pool = WorkerPool::new(100);
    assert_eq!(workers(&pool), 0, "workers start when they are needed");
    for depth in [1, 16, 100] {
        let slow = Slow::new(depth);
        let mut queue = WorkerQueue::new(Arc::clone(&pool), depth);
        run(&mut queue, reads(&slow, 300));
        assert_eq!(slow.most(), depth);
    }
    // The queues of a disk have their depths at the same time.
    let slow = Slow::new(90);
    let mut queues = [30, 60].map(|depth| WorkerQueue::new(Arc::clone(&pool), depth));
    for queue in &mut queues {
        queue.submit(reads(&slow, 60));
    }
    for mut queue in queues {
        queue.wait(60, &mut Vec::new());
    }
    assert_eq!(slow.most(), 90);
    assert!(workers(&pool) <= 100);
}

#[test]
fn the_pool_is_not_larger_than_its_bound() {
    let pool = WorkerPool::new(3);
    let slow = Slow::new(3);
    let mut queue = WorkerQueue::new(Arc::clone(&pool), 50);
    run(&mut queue, reads(&slow, 200));
    assert_eq!((slow.most(), workers(&pool)), (3, 3));
}

#[test]
fn idle_workers_end_and_others_start_again() {
    let pool = WorkerPool::with_idle_limit(20, Duration::from_millis(20));
    let mut queue = WorkerQueue::new(Arc::clone(&pool), 20);
    for round in 0..3 {
        let slow = Slow::new(20);
        run(&mut queue, reads(&slow, 20));
        assert_eq!(slow.most(), 20, "round {round}");
        let deadline = Instant::now() + PATIENCE;
        while workers(&pool) > 0 {
            // One operation at a time keeps one worker, and not the others.
            run(&mut queue, reads(&Slow::new(1), 1));
            if workers(&pool) == 1 {
                thread::sleep(Duration::from_millis(25));
            }
            assert!(Instant::now() < deadline, "{} workers", workers(&pool));
        }
    }
}

#[test]
fn a_panic_in_an_operation_reaches_its_queue_and_strands_nobody() {
    let pool = WorkerPool::new(2);
    let slow = Slow::new(1);
    let mut queue = WorkerQueue::new(Arc::clone(&pool), 4);
    let mut ops = reads(&slow, 3);
    let file = Arc::clone(&slow) as Arc<dyn File>;
    ops.push(IoOp::read(file, u64::MAX, Vec::new(), 9));
    queue.submit(ops);
    let mut done = Vec::new();
    let waited = catch_unwind(AssertUnwindSafe(|| queue.wait(4, &mut done)));
    assert!(waited.is_err());
    // The rest of the operations, and those that follow, are handed back.
    queue.wait(4, &mut done);
    assert_eq!((done.len(), queue.in_flight()), (3, 0));
    run(&mut queue, reads(&slow, 10));
}

#[test]
fn what_follows_on_an_operation_is_done_by_as_many_threads() {
    const DEPTH: usize = 8;
    let pool = WorkerPool::new(DEPTH);
    let mut queue = WorkerQueue::new(Arc::clone(&pool), DEPTH);
    let slow = Slow::new(1);
    // Each finish lasts until all are under way.
    let all = Arc::new(std::sync::Barrier::new(DEPTH));
    let tags = Arc::new(Mutex::new(Vec::new()));
    let ops = reads(&slow, DEPTH as u64).into_iter().map(|op| {
        let (all, tags) = (Arc::clone(&all), Arc::clone(&tags));
        op.finished_by(move |completion| {
            all.wait();
            tags.lock().push((completion.tag(), completion.result));
        })
    });
    queue.submit(ops.collect());
    let mut done = Vec::new();
    queue.wait(DEPTH, &mut done);
    // Waited for and counted, and not handed back.
    assert_eq!((done.len(), queue.in_flight()), (0, 0));
    let mut tags = tags.lock();
    tags.sort_by_key(|(tag, _)| *tag);
    assert!(tags.drain(..).eq((0..DEPTH as u64).map(|tag| (tag, Ok(0)))));
}

#[test]
fn workers_end_with_their_pool() {
    let pool = WorkerPool::new(8);
    let slow = Slow::new(8);
    let mut queue = WorkerQueue::new(Arc::clone(&pool), 8);
    run(&mut queue, reads(&slow, 8));
    let jobs = Arc::downgrade(&pool.jobs);
    drop((queue, pool));
    let deadline = Instant::now() + PATIENCE;
    while jobs.upgrade().is_some() {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
}
