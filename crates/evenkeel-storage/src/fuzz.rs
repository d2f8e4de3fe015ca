//! Entry points for fuzzing: whatever the bytes are, each returns. The tests call them with
//! damaged copies of real inputs, the `fuzz` package with libFuzzer's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_io::{AlignedBuf, Disk, OpenOptions, SimDisk};

use crate::control::{Control, ControlFile, State};
use crate::error::ApplyError;
use crate::gaps::Gaps;
use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};
use crate::page::{PAGE_SIZE, PageBuf, PageMut, PageRead, checksum};
use crate::record::image;
use crate::record::{
    HEADER_LEN, MAX_RECORD, PartFlags, RecordView, aligned, body_crc, completion_mark,
};
use crate::recovery;
use crate::resource_manager::{ApplyContext, InsertedRecord, ResourceManager};
use crate::wal::SegmentLayout;
use crate::wal::dump::{Describe, DumpStats, Names};
use crate::wal::reader::LogReader;
use crate::writeout;

const INCARNATION: u64 = 7;
const SEGMENT: u64 = 64 << 10;
const NAMES: Names = Names {
    record: |kind| format!("kind {}", kind.0),
    operation: |op| format!("op {op}"),
    payload: |_| None,
};

/// The directory that [`log`] reads.
fn dir() -> PathBuf {
    PathBuf::from("/fuzz")
}

/// A log of these bytes from its redo point on: the search for its end, what redo would read of
/// it, and `waldump`. Checksums are made to fit first, since nothing else would pass them.
pub fn log(bytes: &[u8]) {
    let bytes = sealed(bytes, Lsn(SEGMENT));
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let layout = SegmentLayout {
        dir: dir().join("wal"),
        size: SEGMENT,
        timeline: 1,
    };
    if disk.create_dir_all(&layout.dir).is_err() {
        return;
    }
    for (segment, piece) in (1..).zip(bytes.chunks(SEGMENT as usize)) {
        let file = disk.open(&layout.path(segment), OpenOptions::create());
        let written = file.and_then(|file| file.write_all_at(piece, 0));
        assert!(written.is_ok(), "a simulated disk takes what is written");
    }
    let control = control_of(Lsn(SEGMENT));
    // An error is an answer.
    let memory = 128 << 10;
    let _ = recovery::analyse(&disk, &layout, &control, &Deaf, memory, &|_| ());
    let start = (control.redo, INCARNATION);
    let mut reader = LogReader::new(disk, layout, start, &control.gaps);
    let mut stats = DumpStats::default();
    let mut page = PageBuf::zeroed();
    while let Ok(Some(record)) = reader.next_record() {
        stats.add(&record);
        assert!(!Describe(&record, NAMES).to_string().is_empty());
        read_parts(&record, &mut page);
    }
    assert!(!stats.report(NAMES).is_empty());
    let _ = reader.damage(control.durable);
}

/// A client to which nothing means anything.
struct Deaf;

impl ResourceManager for Deaf {
    fn apply(
        &self,
        _: u16,
        _: &mut PageMut<'_>,
        _: &[u8],
        _: &ApplyContext,
    ) -> Result<(), ApplyError> {
        Ok(())
    }

    fn completed(&self, _: &[InsertedRecord]) {}

    fn durable(&self, _: Lsn) {}

    fn replayed(&self, _: &RecordView<'_>) -> Result<(), ApplyError> {
        Ok(())
    }

    fn redo_floor(&self) -> Option<Lsn> {
        None
    }

    fn checkpoint_payload(&self) -> Vec<u8> {
        Vec::new()
    }
}

fn read_parts(record: &RecordView<'_>, page: &mut PageBuf) {
    for part in record.parts() {
        let whole = PartFlags::IMAGE.0 | PartFlags::BEFORE.0 | PartFlags::COMPARE.0;
        if part.flags.0 & whole != 0 {
            let _ = image::restore(part.data, page.bytes_mut());
        }
    }
}

/// The bytes with the checksum of each record that their length fields lay out.
fn sealed(bytes: &[u8], start: Lsn) -> Vec<u8> {
    let mut bytes = bytes[..bytes.len().min(4 * SEGMENT as usize)].to_vec();
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + HEADER_LEN) {
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let end = at.saturating_add(len as usize);
        if len as usize > MAX_RECORD || (len as usize) < HEADER_LEN || end > bytes.len() {
            break;
        }
        let lsn = Lsn(start.0 + at as u64);
        let crc = body_crc(&bytes[at + 8..end]);
        let mark = completion_mark(lsn, INCARNATION, len, crc);
        bytes[at..at + 8].copy_from_slice(&mark.to_le_bytes());
        at += aligned(len as usize);
    }
    bytes
}

fn control_of(redo: Lsn) -> Control {
    Control {
        system_id: 1,
        generation: 1,
        state: State::Running,
        timeline: 1,
        term: 1,
        segment_size: SEGMENT,
        redo,
        images: false,
        incarnation: INCARNATION,
        gaps: Gaps::default(),
        durable: redo,
        next_file: 1,
        written_at: 0,
        redo_speed: 0,
        restore_micros: 0,
        manifest: crate::files::ManifestPosition::default(),
        boot: None,
        payload: Vec::new(),
    }
}

/// One log record, as it may lie in memory or on disk.
pub fn record(bytes: &[u8]) {
    let lsn = Lsn(1 << 32);
    let _ = RecordView::parse(bytes, lsn, INCARNATION);
    if let Ok(record) = RecordView::parse_unverified(bytes, lsn) {
        assert!(record.end() > lsn && record.total_len() <= bytes.len());
        let mut page = PageBuf::zeroed();
        read_parts(&record, &mut page);
        DumpStats::default().add(&record);
        let _ = Describe(&record, NAMES).to_string();
    }
}

/// One page: its checksum, its header, its image, and as a page of the double-write area.
pub fn page(bytes: &[u8]) {
    let mut page = PageBuf::zeroed();
    let len = bytes.len().min(PAGE_SIZE);
    page.bytes_mut()[..len].copy_from_slice(&bytes[..len]);
    let id = PageId {
        file: FileId(1),
        fork: Fork::Main,
        block: BlockNumber(1),
    };
    let _ = checksum::verify(page.bytes(), id);
    let _ = (page.is_new(), page.kind(), page.lsn(), page.special());
    writeout::read_area_page(page.bytes());
    for compress in [false, true] {
        let mut data = Vec::new();
        image::encode(page.bytes(), compress, &mut data);
        let mut again = PageBuf::zeroed();
        let rest = image::restore(&data, again.bytes_mut());
        assert!(rest.is_ok_and(<[u8]>::is_empty) && again.bytes() == page.bytes());
    }
    // And as an image itself.
    let _ = image::restore(bytes, page.bytes_mut());
}

/// A control file, its checksums as they are and made to fit.
pub fn control(bytes: &[u8]) {
    read_control(bytes);
    read_control(&crate::control::sealed(bytes));
}

fn read_control(bytes: &[u8]) {
    let disk = SimDisk::new(1);
    let dir = Path::new("/fuzz");
    let path = dir.join(crate::control::CONTROL_FILE);
    let written = disk.create_dir_all(dir).and_then(|()| {
        let mut aligned = AlignedBuf::zeroed(bytes.len());
        aligned.copy_from_slice(bytes);
        disk.open(&path, OpenOptions::create())?
            .write_all_at(&aligned, 0)
    });
    assert!(written.is_ok(), "a simulated disk takes what is written");
    let Ok(mut file) = ControlFile::open(&disk, dir, true) else {
        return;
    };
    // A copy that passes can be gone on from.
    let read = file.current().clone();
    assert!(file.write_again().is_ok() && file.write(read.clone()).is_ok());
    let again = ControlFile::read(&disk, dir);
    assert!(
        again.is_ok_and(|again| {
            again.generation == read.generation + 1 && again.redo == read.redo
        })
    );
}

#[cfg(test)]
mod tests;
