//! WAL-16: what another version wrote is refused by name, and nothing is changed.

use evenkeel_io::OpenOptions;

use super::*;
use crate::control::{CONTROL_FILE, sealed};
use crate::gaps::Gap;
use crate::record::{Incarnation, LOG_VERSION, RecordBuilder, completion_mark};
use crate::wal::dump;

/// A database that crashed with this record behind all others; where it lies.
fn crashed_behind(record: RecordBuilder) -> (SimDisk, Lsn) {
    let disk = SimDisk::new(31);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 30, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let (lsn, incarnation) = (store.log().insert_lsn(), store.log().incarnation());
    let image = disk.crash(1);
    drop(store);
    let mut record = record;
    let crc = record.seal(lsn);
    let len = record.len();
    let mut bytes = record.into_buffer();
    let mark = completion_mark(lsn, incarnation, len as u32, crc);
    bytes[..8].copy_from_slice(&mark.to_le_bytes());
    let wal = layout(64 << 10);
    let path = wal.path(wal.segment_of(lsn));
    let file = image
        .open(&path, OpenOptions::read_write())
        .expect("segment");
    file.write_all_at(&bytes, lsn.0 % wal.size).expect("write");
    (image, lsn)
}

fn record(kind: u8, flags: u8) -> RecordBuilder {
    let mut record = RecordBuilder::new(Vec::new(), 7);
    record.payload(RecordKind(kind), b"of tomorrow");
    record.add_flags(flags);
    record
}

/// Fails to open for this reason, having written no more than the lock file.
fn assert_refused(disk: &SimDisk, expected: &str) {
    let before = disk.op_count();
    let error = open_with(disk, config()).map(|_| ()).expect_err("refused");
    assert_eq!(error.to_string(), expected);
    let written: Vec<_> = (before + 1..=disk.op_count())
        .filter_map(|index| disk.operation(index))
        .filter(|op| !op.path.ends_with(LOCK_FILE))
        .collect();
    assert!(written.is_empty(), "{written:?}");
}

#[test]
fn a_valid_record_of_an_unknown_kind_is_refused_by_name() {
    for (record, what) in [
        (record(15, 0), "kind 15"),
        (record(20, 4), "flags 0x04 of kind 20"),
        (record(UNKNOWN_KIND.0, 0), "kind 99"),
    ] {
        let (image, lsn) = crashed_behind(record);
        let text = format!(
            "the record at {lsn} is valid, but its {what} is unknown: another version wrote it"
        );
        assert_refused(&image, &text);
        let forced = StorageConfig {
            ignore_log_damage: true,
            ..config()
        };
        let error = open_with(&image, forced).map(|_| ());
        assert_eq!(error.expect_err("it is no damage").to_string(), text);
    }
}

#[test]
fn waldump_names_what_it_does_not_know() {
    let (image, lsn) = crashed_behind(record(15, 0));
    let (_, mut reader) = dump::open(Arc::new(image), &dir()).expect("opens");
    let error = loop {
        match reader.next_record() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("taken for the end"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&error, StorageError::UnknownRecord { lsn: at, what } if *at == lsn && what == "kind 15"),
        "{error}"
    );
}

#[test]
fn records_of_another_format_version_are_not_read() {
    let next = Incarnation {
        incarnation: 5,
        version: LOG_VERSION + 1,
        timeline: 1,
        term: 1,
        old_end: Lsn(8),
        floor: 1,
    };
    let mut record = RecordBuilder::new(Vec::new(), 0);
    record.payload(RecordKind::INCARNATION, &next.encode());
    let (image, lsn) = crashed_behind(record);
    assert_refused(
        &image,
        &format!(
            "the record at {lsn} is valid, but its announcement of an incarnation (format version \
             {}, and this program knows {LOG_VERSION}) is unknown: another version wrote it",
            LOG_VERSION + 1
        ),
    );
}

#[test]
fn a_directory_of_another_version_is_left_alone() {
    let disk = SimDisk::new(32);
    drop(open(&disk));
    let path = dir().join(CONTROL_FILE);
    let file = disk.open(&path, OpenOptions::read_write()).expect("there");
    let mut bytes = vec![0; file.len().expect("length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("read");
    let block = bytes.len() / 2;
    for copy in bytes.chunks_exact_mut(block) {
        copy[12] -= 1;
    }
    file.write_all_at(&sealed(&bytes), 0).expect("write");
    let image = disk.process_crash();
    let before = image.op_count();
    let error = open_with(&image, config())
        .map(|_| ())
        .expect_err("refused");
    let StorageError::WrongVersion {
        found, expected, ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(found + 1, expected);
    assert_eq!(image.op_count(), before, "nothing is written");
}

/// A new incarnation says where the log before ended, and below which id nothing runs on.
#[test]
fn an_incarnation_says_where_the_log_before_ended() {
    let disk = SimDisk::new(33);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 30, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let end = store.log().insert_lsn();
    let image = disk.crash(1);
    drop(store);
    let (store, _) = open(&image);
    let incarnation = store.log().incarnation();
    let disk: Arc<dyn Disk> = Arc::new(image.clone());
    let (_, mut reader) = dump::open(disk, &dir()).expect("opens");
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().expect("whole") {
        if record.kind() == RecordKind::INCARNATION {
            found.push((record.lsn(), Incarnation::decode(record.payload())));
        }
    }
    let (lsn, announced) = found.pop().expect("announced");
    let announced = announced.expect("decodes");
    let gaps = store.control().gaps;
    assert_eq!(
        gaps.list(),
        [Gap {
            start: end,
            end: lsn
        }]
    );
    assert_eq!(announced.incarnation, incarnation);
    assert_eq!((announced.old_end, announced.floor), (end, 31));
    assert_eq!((announced.timeline, announced.term), (1, 1));
}
