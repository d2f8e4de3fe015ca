use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::error::IoResult;
use crate::file::File;
use crate::sim::skip;
use crate::uring::{RingPool, RingSetup};
use crate::worker::WorkerPool;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A slow device: each read lasts until `together` reads are under way at once.
#[derive(Default)]
pub(crate) struct Slow {
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
    pub(crate) fn new(together: usize) -> Arc<Slow> {
        Arc::new(Slow {
            together,
            ..Slow::default()
        })
    }

    pub(crate) fn most(&self) -> usize {
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

pub(crate) fn reads(file: &Arc<Slow>, count: u64) -> Vec<IoOp> {
    let read = |tag| IoOp::read(Arc::clone(file) as Arc<dyn File>, 0, Vec::new(), tag);
    (0..count).map(read).collect()
}

/// Every kind of carrier, with so many threads for what is not a ring's.
fn carriers(threads: usize) -> Vec<Arc<dyn Carrier>> {
    let workers = WorkerPool::new(threads);
    let rings = RingPool::new(workers, threads, RingSetup::default(), &Arc::default());
    let mut carriers: Vec<Arc<dyn Carrier>> = vec![WorkerPool::new(threads)];
    match rings {
        Ok(rings) => carriers.push(rings),
        Err(error) => skip("rings", &format!("the system gives no ring: {error}")),
    }
    carriers
}

pub(crate) fn run(queue: &mut SharedQueue, ops: Vec<IoOp>) {
    let count = ops.len();
    let mut done = Vec::new();
    queue.submit(ops);
    queue.wait(count, &mut done);
    assert_eq!((done.len(), queue.in_flight()), (count, 0));
}

#[test]
fn as_many_reads_are_in_flight_as_the_depth_of_their_queue() {
    for carrier in carriers(100) {
        for depth in [1, 16, 100] {
            let slow = Slow::new(depth);
            let mut queue = SharedQueue::new(Arc::clone(&carrier), depth);
            run(&mut queue, reads(&slow, 300));
            assert_eq!(slow.most(), depth);
        }
        // The queues of a disk have their depths at the same time.
        let slow = Slow::new(90);
        let mut queues = [30, 60].map(|depth| SharedQueue::new(Arc::clone(&carrier), depth));
        for queue in &mut queues {
            queue.submit(reads(&slow, 60));
        }
        for mut queue in queues {
            queue.wait(60, &mut Vec::new());
        }
        assert_eq!(slow.most(), 90);
    }
}

#[test]
fn a_panic_in_an_operation_reaches_its_queue_and_strands_nobody() {
    for carrier in carriers(2) {
        let slow = Slow::new(1);
        let mut queue = SharedQueue::new(Arc::clone(&carrier), 4);
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
}

#[test]
fn what_follows_on_an_operation_is_done_by_as_many_threads() {
    const DEPTH: usize = 8;
    for carrier in carriers(DEPTH) {
        let mut queue = SharedQueue::new(Arc::clone(&carrier), DEPTH);
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
}
