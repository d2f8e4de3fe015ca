//! A log that is damaged is told from one that ended.

use evenkeel_io::{File, OpenOptions};

use super::*;
use crate::wal::reader::LogReader;

fn wal() -> SegmentLayout {
    layout(64 << 10)
}

/// A database that crashed after some steps; returns the LSNs of the records that recovery will
/// read.
fn crashed(disk: &SimDisk) -> (SimDisk, Vec<Lsn>) {
    // Large enough that no page is written but by checkpoints.
    let large = StorageConfig {
        shared_buffers: 32 << 20,
        ..config()
    };
    let (store, _) = open_with(disk, large).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, disk, 1, 300, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let control = store.control();
    let image = disk.crash(1);
    drop(store);
    let shared: Arc<dyn Disk> = Arc::new(image.clone());
    let start = (control.redo, control.incarnation);
    let mut reader = LogReader::new(shared, wal(), start, &control.gaps);
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().expect("read") {
        records.push(record.lsn());
    }
    assert!(records.len() >= 300);
    (image, records)
}

fn file_at(disk: &SimDisk, lsn: Lsn) -> (Arc<dyn File>, u64) {
    let layout = wal();
    let path = layout.path(layout.segment_of(lsn));
    (
        disk.open(&path, OpenOptions::read_write())
            .expect("segment"),
        lsn.0 % layout.size,
    )
}

fn flip(disk: &SimDisk, lsn: Lsn) {
    let (file, offset) = file_at(disk, lsn);
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("read");
    file.write_all_at(&[byte[0] ^ 0x40], offset).expect("write");
}

/// WAL-8: a record lost in the middle is damage, whatever part of it is hit.
#[test]
fn a_hole_in_the_log_is_damage_and_not_the_end() {
    let (image, records) = crashed(&SimDisk::new(20));
    for (victim, byte) in [(0, 0), (1, 9), (40, 4), (150, 60), (200, 16)] {
        let disk = image.process_crash();
        flip(&disk, Lsn(records[victim].0 + byte));
        let before = disk.op_count();
        let error = open_with(&disk, config()).map(|_| ()).expect_err("damaged");
        let StorageError::LogDamaged {
            lsn,
            durable,
            segment,
            ..
        } = &error
        else {
            panic!("record {victim}: {error}")
        };
        // The message is enough to find the file.
        assert!(error.to_string().contains(segment.to_str().unwrap()));
        let directory = segment.parent().unwrap();
        assert!(directory.ends_with("wal"), "{}", segment.display());
        assert_eq!(*lsn, records[victim]);
        assert!(*durable > *lsn);
        // The lock file is all that was written.
        let written: Vec<_> = (before + 1..=disk.op_count())
            .filter_map(|index| disk.operation(index))
            .filter(|op| !op.path.ends_with(LOCK_FILE))
            .collect();
        assert!(written.is_empty(), "{written:?}");
    }
}

#[test]
fn a_log_cut_behind_what_the_control_file_proves_is_damage() {
    let disk = SimDisk::new(21);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 30, 0).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let redo = store.control().redo;
    let image = disk.crash(1);
    drop(store);
    let (file, offset) = file_at(&image, redo);
    file.write_all_at(&vec![0; 4096], offset).expect("write");
    let error = open_with(&image, config())
        .map(|_| ())
        .expect_err("damaged");
    assert!(error.to_string().contains("control file"), "{error}");
    let layout = wal();
    image
        .remove(&layout.path(layout.segment_of(redo)))
        .expect("remove");
    let error = open_with(&image, config())
        .map(|_| ())
        .expect_err("damaged");
    assert!(matches!(error, StorageError::LogDamaged { .. }), "{error}");
}

/// Only the override opens a damaged log; then the rest is given up, once, and the database is
/// sound from there.
#[test]
fn the_override_gives_up_what_follows_the_damage() {
    let (image, records) = crashed(&SimDisk::new(22));
    flip(&image, Lsn(records[150].0 + 40));
    assert!(open_with(&image, config()).is_err());
    let forced = StorageConfig {
        ignore_log_damage: true,
        ..config()
    };
    let (store, _) = open_with(&image, forced).expect("opens");
    store.recovery_finished().expect("finished");
    let steps = steps_done(&store).expect("steps");
    assert!(steps < 300);
    assert_steps(&store, steps, "given up");
    run(&store, &image, steps + 1, steps + 50, 0).expect("goes on");
    store.log().flush_all().expect("flush");
    let image = image.crash(2);
    let (store, _) = open(&image);
    assert_steps(&store, steps + 50, "after another crash");
}

/// The redo point passes the damage although the manager needs what it replayed until it has
/// looked.
#[test]
fn the_override_is_not_needed_again_once_recovery_is_finished() {
    let (image, records) = crashed(&SimDisk::new(28));
    flip(&image, Lsn(records[150].0 + 40));
    let forced = StorageConfig {
        ignore_log_damage: true,
        ..config()
    };
    let toy = Arc::new(Toy::default());
    *toy.floor.lock() = Some(records[2]);
    let manager = Arc::clone(&toy) as Arc<dyn ResourceManager>;
    let shared: Arc<dyn Disk> = Arc::new(image.clone());
    let store = Store::open(shared, &dir(), forced, manager).expect("opens");
    *toy.floor.lock() = None;
    store.recovery_finished().expect("finished");
    let steps = steps_done(&store).expect("steps");
    run(&store, &image, steps + 1, steps + 50, 0).expect("goes on");
    store.log().flush_all().expect("flush");
    let image = image.crash(2);
    drop(store);
    let (store, _) = open(&image);
    assert_steps(&store, steps + 50, "after another crash");
}

/// Until the checkpoint that ends the override is complete, the next start needs it again; from
/// then on it finds the same without it.
#[test]
fn a_crash_while_damage_is_given_up_needs_the_override_again() {
    let (image, records) = crashed(&SimDisk::new(29));
    let place = Lsn(records[150].0 + 40);
    flip(&image, place);
    file_at(&image, place).0.sync_all().expect("durable");
    let forced = || StorageConfig {
        ignore_log_damage: true,
        ..config()
    };
    let start = image.op_count();
    let (store, _) = open_with(&image, forced()).expect("opens");
    store.recovery_finished().expect("finished");
    let steps = steps_done(&store).expect("steps");
    let end = image.op_count();
    drop(store);
    let (mut refused, mut opened) = (0, 0);
    for at in 0..40 {
        let index = start + (end - start) * at / 39;
        let disk = image.image_at(index, at);
        let store = match open_with(&disk.process_crash(), config()) {
            Ok((store, _)) => {
                opened += 1;
                store
            }
            Err(StorageError::LogDamaged { .. }) => {
                assert_eq!(opened, 0, "image {index} is refused after one that was not");
                refused += 1;
                let (store, _) = open_with(&disk, forced()).expect("opens");
                store.recovery_finished().expect("finished");
                store
            }
            Err(error) => panic!("image {index}: {error}"),
        };
        assert_eq!(steps_done(&store).expect("steps"), steps, "image {index}");
        assert_steps(&store, steps, "given up");
    }
    assert!(refused > 0 && opened > 0, "{refused} refused, {opened} not");
}

/// The unsynced end of a log may be anything; it ends there.
#[test]
fn garbage_and_zeros_behind_the_end_are_just_the_end() {
    let (image, records) = crashed(&SimDisk::new(23));
    let last = *records.last().expect("records");
    // The last record itself: nothing proves that it was durable.
    for byte in [0, 4, 30, 100] {
        let disk = image.process_crash();
        flip(&disk, Lsn(last.0 + byte));
        let (store, _) = open(&disk);
        let steps = steps_done(&store).expect("steps");
        assert_eq!(steps, 299);
        assert_steps(&store, steps, "without the last record");
    }
}

/// WAL-3: records of a future that was lost do not come back.
#[test]
fn records_of_a_lost_future_are_not_read() {
    let disk = SimDisk::new(24);
    // Nothing is written before it is asked for, by the flusher or for the cleaner.
    let patient = StorageConfig {
        wal_writer_delay: std::time::Duration::from_secs(3600),
        shared_buffers: 32 << 20,
        ..config()
    };
    let (store, _) = open_with(&disk, patient).expect("opens");
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 60, 0).expect("steps");
    let fork = counters(&store);
    let cut = step(&store, &fork, 61).expect("step");
    for n in 62..100 {
        step(&store, &fork, n).expect("step");
    }
    store.log().flush_all().expect("flush");
    let image = disk.crash(1);
    drop(store);
    // As if the block with record 61 had not reached the disk. Nothing behind it claims that it
    // was durable, since one flush wrote them all.
    let (file, offset) = file_at(&image, cut);
    file.write_all_at(&[0; 8], offset).expect("write");
    let (store, _) = open(&image);
    assert_eq!(steps_done(&store).expect("steps"), 60);
    // Other history, of the same shape, over the same place.
    let fork = counters(&store);
    let lsn = step(&store, &fork, 61).expect("step");
    store.log().flush(lsn).expect("flush");
    let (store, _) = open(&image.crash(3));
    assert_eq!(steps_done(&store).expect("steps"), 61);
    assert_steps(&store, 61, "second history");
}

/// A page that lost a write is found by its chain.
#[test]
fn a_lost_page_write_is_named() {
    let disk = SimDisk::new(25);
    // Large enough that no page is written but by checkpoints.
    let large = StorageConfig {
        shared_buffers: 32 << 20,
        ..config()
    };
    let (store, _) = open_with(&disk, large).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let path = dir().join("base").join("1");
    let file = disk.open(&path, OpenOptions::read_write()).expect("file");
    let mut old = vec![0; 8192];
    file.read_exact_at(&mut old, 0).expect("read");
    run(&store, &disk, 1, 5, 0).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, &disk, 6, 9, 0).expect("steps");
    let image = disk.crash(1);
    drop(store);
    let file = image.open(&path, OpenOptions::read_write()).expect("file");
    file.write_all_at(&old, 0).expect("write");
    let (store, _) = open(&image);
    let fork = counters(&store);
    let error = fork.read(BlockNumber(0)).map(drop).expect_err("lost write");
    assert!(error.to_string().contains("lost write"), "{error}");
    let StorageError::PageSetAside { page, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((page.file, page.block), (COUNTERS, BlockNumber(0)));
    for block in 1..PAGES {
        fork.read(BlockNumber(block)).expect("the others are whole");
    }
}

const NAMES: crate::wal::dump::Names = crate::wal::dump::Names {
    record: |kind| format!("kind-{}", kind.0),
    operation: |op| format!("op-{op}"),
    payload: |_| None,
};

#[test]
fn waldump_reads_a_database_without_changing_it() {
    let (image, records) = crashed(&SimDisk::new(26));
    let before = image.op_count();
    let shared: Arc<dyn Disk> = Arc::new(image.clone());
    let (control, mut reader) = crate::wal::dump::open(shared, &dir()).expect("opens");
    let mut stats = crate::wal::dump::DumpStats::default();
    let mut lines = String::new();
    while let Some(record) = reader.next_record().expect("read") {
        stats.add(&record);
        lines.push_str(&crate::wal::dump::Describe(&record, NAMES).to_string());
    }
    assert_eq!(control.redo, records[0]);
    assert_eq!(stats.records.count, records.len() as u64);
    assert_eq!(stats.ops[&ADD].count, 900);
    assert!(lines.contains("kind-1") && lines.contains("op-2"));
    assert!(stats.report(NAMES).contains("kind-1 "));
    let damage = crate::wal::dump::damage(&control, &mut reader);
    assert!(damage.expect("read").is_none());
    assert_eq!(image.op_count(), before);
}

/// A log that goes on behind where its records end is not just shorter for who looks at it.
#[test]
fn waldump_tells_damage_from_the_end() {
    let (image, records) = crashed(&SimDisk::new(27));
    flip(&image, Lsn(records[150].0 + 9));
    let shared: Arc<dyn Disk> = Arc::new(image.clone());
    let (control, mut reader) = crate::wal::dump::open(shared, &dir()).expect("opens");
    let mut count = 0;
    while reader.next_record().expect("read").is_some() {
        count += 1;
    }
    assert_eq!(count, 150);
    let damage = crate::wal::dump::damage(&control, &mut reader);
    let damage = damage.expect("read").expect("damaged");
    assert!(matches!(damage, StorageError::LogDamaged { lsn, .. } if lsn == records[150]));
}
