use std::time::Instant;

use super::*;
use crate::shared_queue::SharedQueue;
use crate::shared_queue::tests::{PATIENCE, Slow, reads, run};

fn workers(pool: &WorkerPool) -> usize {
    pool.jobs.state.lock().workers
}

fn queue_of(pool: &Arc<WorkerPool>, depth: usize) -> SharedQueue {
    SharedQueue::new(Arc::clone(pool) as Arc<dyn Carrier>, depth)
}

#[test]
fn workers_start_when_they_are_needed() {
    let pool = WorkerPool::new(100);
    assert_eq!(workers(&pool), 0);
    for depth in [1, 16, 100] {
        let slow = Slow::new(depth);
        run(&mut queue_of(&pool, depth), reads(&slow, 300));
        assert_eq!(slow.most(), depth);
        assert!(workers(&pool) <= 100);
    }
}

#[test]
fn the_pool_is_not_larger_than_its_bound() {
    let pool = WorkerPool::new(3);
    let slow = Slow::new(3);
    let mut queue = queue_of(&pool, 50);
    run(&mut queue, reads(&slow, 200));
    assert_eq!((slow.most(), workers(&pool)), (3, 3));
}

#[test]
fn idle_workers_end_and_others_start_again() {
    let pool = WorkerPool::with_idle_limit(20, Duration::from_millis(20));
    let mut queue = queue_of(&pool, 20);
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
fn workers_end_with_their_pool() {
    let pool = WorkerPool::new(8);
    let slow = Slow::new(8);
    let mut queue = queue_of(&pool, 8);
    run(&mut queue, reads(&slow, 8));
    let jobs = Arc::downgrade(&pool.jobs);
    drop((queue, pool));
    let deadline = Instant::now() + PATIENCE;
    while jobs.upgrade().is_some() {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
}
