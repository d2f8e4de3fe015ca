//! The same answer under any setting: one list of operations, carried out by several threads at
//! once, leaves the same rows whatever the size of the pool, the rings and the way of I/O.

use std::path::PathBuf;

use evenkeel_io::{Disk, FileDisk, IoErrorKind, IoMethod, OpenOptions};
use evenkeel_storage::buffer::BufferAccessStrategy;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::table::InsertOptions;

const THREADS: usize = 4;
/// Keys of each thread: it alone changes them, so the outcome does not depend on the schedule.
const KEYS: usize = 40;
const OPERATIONS: usize = 150;

/// The settings that are varied.
#[derive(Clone, Debug)]
struct Setting {
    frames: u64,
    rings: bool,
    io: Option<IoMethod>,
    direct: bool,
    read_ahead: usize,
}

impl Setting {
    fn frames(frames: u64) -> Setting {
        Setting {
            frames,
            rings: true,
            io: None,
            direct: false,
            read_ahead: 16,
        }
    }

    fn storage(&self) -> StorageConfig {
        StorageConfig {
            shared_buffers: self.frames * 8192,
            vacuum_buffer_usage_limit: if self.rings { 128 << 10 } else { 0 },
            effective_io_concurrency: self.read_ahead,
            io_direct_data: self.direct,
            ..StorageConfig::small()
        }
    }
}

fn key_text(thread: usize, key: usize) -> String {
    format!("{thread}-{key:03}")
}

/// One thread's share of the list.
fn operate(f: &Fixture, thread: usize, seed: u64, rings: bool) {
    let mut rng = StdRng::seed_from_u64(seed ^ thread as u64);
    let mut here = [false; KEYS];
    for step in 0..OPERATIONS {
        let key = rng.random_range(0..KEYS);
        let value = "v".repeat(rng.random_range(1..1200));
        let row = format!("{}:{step} {value}", key_text(thread, key));
        let wanted = key_text(thread, key);
        let commits = rng.random_bool(0.9);
        let mut txn = f.begin();
        match rng.random_range(0..10) {
            _ if !here[key] => {
                f.insert(&mut txn, &row).unwrap();
                here[key] = commits;
            }
            0..7 => {
                f.set(&mut txn, &row);
            }
            7 => {
                let (tid, _) = f.find(&mut txn, wanted.as_bytes()).unwrap();
                f.delete(&mut txn, tid).unwrap();
                here[key] = !commits;
            }
            8 => {
                let found = f.find(&mut txn, wanted.as_bytes()).is_some();
                assert!(found, "{wanted} is there");
            }
            _ => {
                let snapshot = txn.snapshot().unwrap();
                let mine = format!("{thread}-");
                let rows = f.scan(&snapshot);
                let seen = rows
                    .iter()
                    .filter(|(_, row)| row.starts_with(&mine))
                    .count();
                assert_eq!(seen, here.iter().filter(|here| **here).count());
            }
        }
        if commits {
            end(txn);
        } else {
            txn.rollback();
        }
        if thread == 0 && step % 50 == 49 {
            f.vacuum(&VacuumOptions::default());
        }
        if step == OPERATIONS / 2 {
            load(f, thread, rings);
        }
    }
}

/// A load of many rows, as a COPY does it.
fn load(f: &Fixture, thread: usize, rings: bool) {
    let mut batch = RowBatch::new();
    for n in 0..300 {
        let row = format!("load {thread}-{n}:{}", "x".repeat(300));
        batch.push(
            Tid::new(evenkeel_storage::BlockNumber(0), 1),
            row.as_bytes(),
        );
    }
    let options = InsertOptions {
        freeze: false,
        ring: rings.then(|| BufferAccessStrategy::bulk_write(f.db.pool())),
    };
    f.commit(|txn| block_on(f.table.insert_many(txn, &batch, &options)).unwrap());
}

/// The rows at the end, and again after a clean start.
fn outcome(setting: &Setting, seed: u64) -> Vec<String> {
    let scratch = tempfile::tempdir().unwrap();
    let (disk, dir): (Arc<dyn Disk>, PathBuf) = match setting.io {
        None => (Arc::new(SimDisk::new(seed)), DIR.into()),
        Some(method) => {
            let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(method));
            (disk, scratch.path().join("db"))
        }
    };
    let config = Config {
        storage: setting.storage(),
        ..Config::default()
    };
    let open = || Database::open(Arc::clone(&disk), &dir, config.clone()).unwrap();
    let f = Fixture::on(&SimDisk::new(1), open(), 2, 100);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let f = &f;
            scope.spawn(move || operate(f, thread, seed, setting.rings));
        }
    });
    f.assert_sound();
    let rows = f.committed();
    let def = f.table.def().clone();
    for row in f.db.pool().io_rows() {
        // Nobody who uses pages writes them.
        let client = row.backend_type == evenkeel_storage::stats::BackendType::ClientBackend;
        let relation = row.object == evenkeel_storage::stats::IoObject::Relation;
        assert!(!client || !relation || row.writes == 0, "{row:?}");
    }
    f.db.close().unwrap();
    drop(f);
    let db = open();
    let table = Table::open(&db, def).unwrap();
    let again = Fixture {
        disk: SimDisk::new(1),
        db,
        files: Vec::new(),
        table,
    };
    assert_eq!(again.committed(), rows, "{setting:?}");
    rows
}

/// Whether the directory of temporary files takes direct I/O.
fn direct_works(scratch: &std::path::Path) -> bool {
    let disk = FileDisk::new(IoMethod::Sync);
    let opts = OpenOptions::create().direct(true);
    match disk.open(&scratch.join("probe"), opts) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), IoErrorKind::Unsupported);
            false
        }
    }
}

#[test]
fn one_list_of_operations_gives_one_content_under_any_setting() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let few = Setting::frames(16);
    let worker = Some(IoMethod::Worker { threads: 2 });
    let rings = Some(IoMethod::IoUring { threads: 2 });
    let mut settings = vec![
        few.clone(),
        Setting {
            rings: false,
            read_ahead: 0,
            ..few.clone()
        },
        Setting::frames(16_000),
        Setting {
            rings: false,
            ..Setting::frames(200)
        },
        Setting {
            io: Some(IoMethod::Sync),
            ..few.clone()
        },
        Setting {
            io: worker,
            ..Setting::frames(64)
        },
        Setting {
            io: rings,
            ..Setting::frames(64)
        },
    ];
    let scratch = tempfile::tempdir().unwrap();
    if direct_works(scratch.path()) {
        settings.extend([worker, rings].map(|io| Setting {
            io,
            direct: true,
            ..few.clone()
        }));
    }
    let expected = outcome(&settings[2], seed);
    assert!(expected.len() >= THREADS * 300);
    for setting in &settings {
        assert!(
            outcome(setting, seed) == expected,
            "{setting:?} gives other rows, seed {seed}"
        );
    }
}
