use super::*;
use crate::queue::IoOp;
use std::time::{Duration, Instant};

#[test]
fn time_is_simulated_and_never_stands_still() {
    let disk = disk();
    let first = disk.now_micros();
    assert!(disk.now_micros() > first);
    disk.advance(1_000_000);
    assert!(disk.now_micros() >= first + 1_000_000);
    assert_eq!(SimDisk::new(5).now_micros(), SimDisk::new(5).now_micros());
    assert_eq!(SimDisk::new(5).random_u64(), SimDisk::new(5).random_u64());
    assert_ne!(SimDisk::new(5).random_u64(), SimDisk::new(6).random_u64());
}

/// Microseconds that `act` takes by the simulated clock.
fn cost(disk: &SimDisk, act: impl FnOnce()) -> u64 {
    let before = disk.now_micros();
    act();
    disk.now_micros() - before
}

#[test]
fn a_sync_pays_for_each_run_that_was_not_written_back() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[]);
    let model = LatencyModel::spinning();
    disk.set_latency(Some((model, LatencyMode::Virtual)));
    let write = |blocks: &[u64]| {
        for block in blocks {
            file.write_all_at(&[1; 4096], block * 4096).unwrap();
        }
    };
    assert!(
        cost(&disk, || write(&[0, 1, 2, 10, 20])) < 100,
        "buffered writes cost nothing"
    );
    let three_runs = cost(&disk, || file.sync_data().unwrap());
    assert!(three_runs >= model.flush + 3 * model.access);
    write(&[0, 1, 2, 10, 20]);
    file.start_writeback(0, 11 * 4096).unwrap();
    let one_run = cost(&disk, || file.sync_data().unwrap());
    assert!(one_run < model.flush + 2 * model.access);
    let nothing = cost(&disk, || file.sync_data().unwrap());
    assert!(nothing < model.flush + model.access);
}

#[test]
fn waiting_for_write_back_pays_once_and_reports_what_was_lost() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[]);
    let model = LatencyModel::spinning();
    disk.set_latency(Some((model, LatencyMode::Virtual)));
    for block in [0, 1, 10] {
        file.write_all_at(&[1; 4096], block * 4096).unwrap();
    }
    file.start_writeback(0, 2 * 4096).unwrap();
    let both = cost(&disk, || file.await_writeback(0, 11 * 4096).unwrap());
    assert!((2 * model.access..3 * model.access).contains(&both));
    assert!(cost(&disk, || file.await_writeback(0, 11 * 4096).unwrap()) < 100);
    assert!(cost(&disk, || file.sync_data().unwrap()) < model.flush + model.access);
    file.write_all_at(&[2; 4096], 0).unwrap();
    assert_eq!(disk.fail_write_back("d/f"), 1);
    assert!(file.await_writeback(0, 4096).is_err());
    file.sync_data().expect("reported once");
}

#[test]
fn going_on_where_the_last_access_ended_saves_the_way() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 16384]);
    let model = LatencyModel::nvme();
    disk.set_latency(Some((model, LatencyMode::Virtual)));
    let read = |offset| {
        cost(&disk, || {
            file.read_exact_at(&mut [0; 4096], offset).unwrap();
        })
    };
    assert!(read(0) >= model.access);
    assert!(read(4096) < model.access);
    assert!(read(0) >= model.access);
}

#[test]
fn sleeping_operations_of_a_queue_overlap_as_far_as_the_device_does() {
    let elapsed = |parallel| {
        let disk = disk();
        let file = durable(&disk, "d/f", &[1; 65536]);
        let model = LatencyModel {
            access: 20_000,
            per_mib: 0,
            flush: 0,
            parallel,
        };
        disk.set_latency(Some((model, LatencyMode::Sleep)));
        let mut queue = disk.queue(8);
        let op = |n| {
            IoOp::read(
                Arc::clone(&file),
                n * 8192,
                vec![crate::IoBuf::zeroed(10)],
                n,
            )
        };
        let start = Instant::now();
        queue.submit((0..8).map(op).collect());
        let mut done = Vec::new();
        queue.wait(8, &mut done);
        assert_eq!(done.len(), 8);
        start.elapsed()
    };
    let (one_head, eight) = (elapsed(1), elapsed(8));
    assert!(
        one_head >= Duration::from_millis(8 * 20),
        "one after the other: {one_head:?}"
    );
    assert!(eight < one_head, "{eight:?} against {one_head:?}");
}
