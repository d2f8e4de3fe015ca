//! Holes in the log, of any width, are told from its end.

use evenkeel_io::{OpenOptions, Outcome};

use super::*;

const MIB: u64 = 1 << 20;

fn with(segment: u64) -> StorageConfig {
    StorageConfig {
        wal_segment_size: segment,
        // No checkpoint but those that are asked for.
        max_wal_size: 4096 * MIB,
        min_wal_size: 2 * segment,
        // No page is written but by checkpoints.
        shared_buffers: 32 * MIB,
        ..config()
    }
}

/// A database that crashed with about `log` bytes of log behind its redo point, and the positions
/// of its records.
fn crashed(segment: u64, log: u64) -> (SimDisk, Vec<Lsn>) {
    let disk = SimDisk::new(segment ^ log);
    let (store, _) = open_with(&disk, with(segment)).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let redo = store.control().redo;
    let fork = counters(&store);
    let mut records = Vec::new();
    for n in 1.. {
        let lsn = big_step(&store, &fork, n).expect("step");
        store.log().flush(lsn).expect("flush");
        records.push(lsn);
        if lsn.0 - redo.0 >= log {
            break;
        }
    }
    // A journal of so much log takes memory; nothing needs it.
    let disk = disk.crash_with(Outcome::Everything, 1);
    drop(store);
    (disk, records)
}

/// Step `n`, with a payload that makes log.
fn big_step(store: &Store, fork: &ForkHandle, n: u64) -> StorageResult<Lsn> {
    let payload = [&n.to_le_bytes()[..], &[0x5A; 48 << 10]].concat();
    step_with(store, fork, n, &payload)
}

fn zero(disk: &SimDisk, segment: u64, from: u64, to: u64) {
    let layout = layout(segment);
    let mut at = from;
    while at < to {
        let len = (segment - at % segment).min(to - at);
        let path = layout.path(at / segment);
        let file = disk
            .open(&path, OpenOptions::read_write())
            .expect("segment");
        let zeros = vec![0; len as usize];
        file.write_all_at(&zeros, at % segment).expect("write");
        at += len;
    }
}

/// The start is refused, names where the log's records end, and removes no segment.
fn assert_damaged(disk: &SimDisk, segment: u64, at: Lsn, what: &str) {
    let list = || layout(segment).list(disk).expect("list");
    let before = list();
    let Err(error) = open_with(disk, with(segment)).map(|_| ()) else {
        panic!("{what}: opened")
    };
    let StorageError::LogDamaged { lsn, durable, .. } = &error else {
        panic!("{what}: {error}")
    };
    assert_eq!(*lsn, at, "{what}");
    assert!(*durable > at, "{what}");
    assert_eq!(before, list(), "{what}");
}

/// The last record that ends at or before a position.
fn end_before(records: &[Lsn], at: u64) -> Lsn {
    let next = records.partition_point(|lsn| lsn.0 <= at);
    records[next - 1]
}

/// WAL-8: zeroed or missing segments, however many, with log of the same incarnation behind.
#[test]
fn a_hole_wider_than_the_search_is_damage() {
    let segment = 2 * MIB;
    let (image, records) = crashed(segment, 30 * MIB);
    let start = records[0].0 / segment + 1;
    for count in [1, 2, 10, 12] {
        let (from, to) = (start * segment, (start + count) * segment);
        let disk = image.process_crash();
        zero(&disk, segment, from, to);
        let end = end_before(&records, from);
        assert_damaged(&disk, segment, end, &format!("{count} segments zeroed"));
        let disk = image.process_crash();
        for number in start..start + count {
            disk.remove(&layout(segment).path(number)).expect("remove");
        }
        assert_damaged(&disk, segment, end, &format!("{count} segments missing"));
    }
    // Both, and the log ends in the segment in which the hole ends.
    let last = records.last().expect("records").0;
    let disk = image.process_crash();
    zero(&disk, segment, start * segment, last - MIB / 4);
    for number in [start + 1, start + 4, start + 5] {
        disk.remove(&layout(segment).path(number)).expect("remove");
    }
    let end = end_before(&records, start * segment);
    assert_damaged(
        &disk,
        segment,
        end,
        "all but the last quarter of a megabyte",
    );
    // Without any damage it opens.
    let (store, _) = open_with(&image, with(segment)).expect("opens");
    let steps = steps_done(&store).expect("steps");
    assert_eq!(steps, records.len() as u64);
}

/// WAL-8: a hole of 20 MiB inside one segment.
#[test]
fn a_wide_hole_inside_one_segment_is_damage() {
    let segment = 64 * MIB;
    let (image, records) = crashed(segment, 26 * MIB);
    for hole in [MIB, 20 * MIB, 24 * MIB] {
        let from = records[3].0;
        let disk = image.process_crash();
        zero(&disk, segment, from, from + hole);
        assert_damaged(&disk, segment, records[3], &format!("{hole} bytes zeroed"));
    }
}
