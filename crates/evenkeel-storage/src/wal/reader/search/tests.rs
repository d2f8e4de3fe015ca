//! The search on logs made by hand, in segments of every size.

use std::path::Path;
use std::sync::Arc;

use evenkeel_io::{AlignedBuf, Disk, FileDisk, IoMethod, OpenOptions, SimDisk};

use super::*;
use crate::gaps::Gaps;
use crate::record::{RecordBuilder, RecordKind, completion_mark};
use crate::wal::layout::SegmentLayout;

const MIB: u64 = 1 << 20;
const INCARNATION: u64 = 77;

/// A `wal` directory of sparse files.
struct Wal {
    disk: Arc<dyn Disk>,
    layout: SegmentLayout,
}

impl Wal {
    fn new(disk: Arc<dyn Disk>, dir: &Path, size: u64) -> Wal {
        disk.create_dir_all(dir).expect("directory");
        let layout = SegmentLayout {
            dir: dir.to_owned(),
            size,
            timeline: 1,
        };
        Wal { disk, layout }
    }

    /// Has the segment exist, with its marks.
    fn unused(&self, segment: u64) {
        let size = self.layout.size;
        let file = self
            .disk
            .open(&self.layout.path(segment), OpenOptions::create())
            .expect("segment");
        file.set_len(size).expect("length");
        for at in (0..size).step_by(unused::stripe(size) as usize) {
            let mut block = AlignedBuf::zeroed(BLOCK);
            unused::encode(Lsn(self.layout.start_of(segment).0 + at), &mut block);
            file.write_all_at(&block, at).expect("mark");
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let size = self.layout.size;
        let path = self.layout.path(at / size);
        let now = bytes.len().min((size - at % size) as usize);
        let file = self
            .disk
            .open(&path, OpenOptions::create())
            .expect("segment");
        if file.len().expect("length") < size {
            file.set_len(size).expect("length");
        }
        file.write_all_at(&bytes[..now], at % size).expect("write");
        if now < bytes.len() {
            self.write(at + now as u64, &bytes[now..]);
        }
    }

    /// A record of `len` bytes at `at`.
    fn record(&self, at: u64, len: usize, durable: u64, incarnation: u64) {
        let mut record = RecordBuilder::new(Vec::new(), 0);
        record.payload(RecordKind::PAGES, &vec![0x5A; len - HEADER_LEN]);
        let crc = record.seal(Lsn(durable));
        let mark = completion_mark(Lsn(at), incarnation, len as u32, crc);
        let mut bytes = record.into_buffer();
        bytes[..8].copy_from_slice(&mark.to_le_bytes());
        self.write(at, &bytes);
    }

    fn proof(&self, end: u64) -> StorageResult<Option<(Lsn, Lsn)>> {
        let disk = Arc::clone(&self.disk);
        let start = (Lsn(end), INCARNATION);
        let mut reader = LogReader::new(disk, self.layout.clone(), start, &Gaps::default());
        assert!(reader.next_record()?.is_none());
        reader.find_proof_of_damage()
    }
}

/// WAL-8, in segments of every size: one record, wherever it lies behind a hole of 1, 2 or 10
/// segments that are zero or missing, is proof.
#[test]
fn a_record_behind_any_hole_proves_damage() {
    for size in [64 << 10, MIB, 16 * MIB, 128 * MIB] {
        for hole in [1, 2, 10] {
            // Zeroes are searched: of the large ones most are missing.
            let zeroed = (hole * size).min(16 * MIB) / size;
            for offset in [0, 8, size / 2 + 4096, size - 40, size - 8] {
                let dir = tempfile::tempdir().expect("temporary directory");
                let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(IoMethod::Sync));
                let wal = Wal::new(disk, dir.path(), size);
                let end = 3 * size + 4096;
                wal.record(3 * size, 4096, 0, INCARNATION);
                for segment in 4..4 + zeroed {
                    wal.write(segment * size, &[0; 8]);
                }
                let what = format!("segments of {size}, {hole} missing, offset {offset}");
                assert_eq!(wal.proof(end).expect("reads"), None, "{what}");
                let at = (4 + hole) * size + offset;
                wal.record(at, 3000, end + 8, INCARNATION);
                let proof = Some((Lsn(at), Lsn(end + 8)));
                assert_eq!(wal.proof(end).expect("reads"), proof, "{what}");
            }
        }
    }
}

#[test]
fn a_record_behind_a_hole_in_the_largest_segment_proves_damage() {
    let size = 1024 * MIB;
    let dir = tempfile::tempdir().expect("temporary directory");
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(IoMethod::Sync));
    let wal = Wal::new(disk, dir.path(), size);
    let end = size + 4096;
    wal.record(size, 4096, 0, INCARNATION);
    let at = 12 * size - MIB;
    wal.record(at, 3000, end + 8, INCARNATION);
    let proof = Some((Lsn(at), Lsn(end + 8)));
    assert_eq!(wal.proof(end).expect("reads"), proof);
}

/// Records that were never durable, records of an earlier incarnation, records at other positions
/// than their own (in a recycled segment), and files of other names prove nothing.
#[test]
fn leftovers_prove_nothing() {
    let size = MIB;
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let wal = Wal::new(disk, Path::new("/wal"), size);
    let end = size + 4096;
    wal.record(size, 4096, 0, INCARNATION);
    wal.record(end + 800, 3000, end, INCARNATION);
    wal.record(4 * size, 3000, end + 8, INCARNATION - 1);
    wal.record(5 * size, 3000, end + 8, INCARNATION);
    let moved = wal
        .disk
        .rename(&wal.layout.path(5), &wal.layout.path(2))
        .and_then(|()| {
            let name = wal.layout.dir.join("00000001-ffffffffffffffff");
            wal.disk.open(&name, OpenOptions::create())
        });
    moved.expect("named");
    assert_eq!(wal.proof(end).expect("reads"), None);
}

/// A start does not read gigabytes of recycled segments: of those that no log was ever durable in
/// it reads the marks.
#[test]
fn unused_space_is_known_by_its_marks() {
    let size = 64 * MIB;
    let disk = SimDisk::new(2);
    let wal = Wal::new(Arc::new(disk.clone()), Path::new("/wal"), size);
    let end = size + 4096;
    wal.record(size, 4096, 0, INCARNATION);
    for segment in 2..6 {
        wal.unused(segment);
    }
    let behind = |segment: u64, range: std::ops::Range<u64>| {
        let path = wal.layout.path(segment);
        disk.make_unreadable(&path, range).expect("there");
    };
    behind(1, end - size + REACH + 16 * MIB..size);
    // Its third and fourth stripe were never reached.
    for at in [32 * MIB, 48 * MIB] {
        let mut block = AlignedBuf::zeroed(BLOCK);
        unused::encode(Lsn(size + at), &mut block);
        wal.write(size + at, &block);
    }
    for segment in 2..6 {
        for at in (0..size).step_by(STRIPE as usize) {
            behind(segment, at + BLOCK as u64..at + STRIPE);
        }
    }
    assert_eq!(wal.proof(end).expect("reads nothing but marks"), None);
    // Without its mark a stripe is searched.
    wal.write(3 * size, &[0xA5; BLOCK]);
    wal.proof(end).expect_err("it cannot be read");
}
