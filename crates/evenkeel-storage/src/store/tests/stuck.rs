//! A device that answers no more holds up who needs it, and nobody else.

use std::path::Path;

use evenkeel_io::{IoObserver, MeteredDisk, Observed};
use parking_lot::Condvar;

use super::*;

/// While it is stuck, writes and syncs of data files and of the double-write area wait.
#[derive(Default)]
struct Stuck {
    is_stuck: Mutex<bool>,
    released: Condvar,
    waiting: AtomicU64,
}

const DATA: u8 = 1;

impl IoObserver for Stuck {
    fn classify(&self, path: &Path) -> u8 {
        let path = path.to_string_lossy();
        let is_data = ["/base", "/status", "/doublewrite"]
            .iter()
            .any(|part| path.contains(part));
        if is_data { DATA } else { 0 }
    }

    fn account(&self) -> u64 {
        0
    }

    fn begin(&self, op: &Observed<'_>) -> u64 {
        if op.class == DATA {
            let mut stuck = self.is_stuck.lock();
            self.waiting.fetch_add(1, Ordering::SeqCst);
            self.released.wait_while(&mut stuck, |stuck| *stuck);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        0
    }

    fn end(&self, _: &Observed<'_>, _: u64) {}
}

impl Stuck {
    fn set(&self, stuck: bool) {
        *self.is_stuck.lock() = stuck;
        self.released.notify_all();
    }
}

#[test]
fn commits_go_on_while_the_data_files_are_stuck() {
    let sim = SimDisk::new(55);
    let device = Arc::new(Stuck::default());
    let disk = MeteredDisk::new(
        Arc::new(sim.clone()),
        Arc::clone(&device) as Arc<dyn IoObserver>,
    );
    let large = StorageConfig {
        shared_buffers: 32 << 20,
        max_wal_size: 64 << 20,
        ..config()
    };
    let manager: Arc<dyn ResourceManager> = Arc::new(Toy::default());
    let store = Store::open(disk, &dir(), large, manager).expect("opens");
    set_up(&store).expect("set up");
    run(&store, &sim, 1, 30, 0).expect("steps");
    device.set(true);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint(CheckpointMode::Fast));
        while device.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let fork = counters(&store);
        for n in 31..=90 {
            let lsn = step(&store, &fork, n).expect("step");
            store.log().flush(lsn).expect("durable");
        }
        assert!(!checkpoint.is_finished(), "it is stuck");
        let killed = sim.crash(5);
        device.set(false);
        checkpoint.join().expect("no panic").expect("checkpoint");
        let (recovered, _) = open(&killed);
        assert_steps(
            &recovered,
            90,
            "power failed while the data files were stuck",
        );
    });
    store.shutdown().expect("shutdown");
}
