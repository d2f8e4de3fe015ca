//! Short runs of the entry points, on damaged copies of what storage really writes.

use evenkeel_io::mutate::on_damaged;

use super::*;
use crate::record::{Incarnation, LOG_VERSION, RecordBuilder, RecordKind, RemovalLsn};

const SEED: u64 = 0x0DD_BA11;

fn sample_page(seed: u8) -> PageBuf {
    let mut page = PageBuf::zeroed();
    page.page_mut().init(0x0101, 16);
    page.page_mut().set_lower(400);
    page.page_mut().set_upper(6000);
    for (at, byte) in page.bytes_mut()[6000..].iter_mut().enumerate() {
        *byte = (at as u8).wrapping_mul(seed);
    }
    page
}

/// The same incarnation again, so that the records behind it are read.
fn announcement() -> Incarnation {
    Incarnation {
        incarnation: INCARNATION,
        version: LOG_VERSION,
        timeline: 1,
        term: 1,
        old_end: Lsn(SEGMENT),
        floor: 3,
    }
}

/// A record of each kind, with parts of each form.
fn records() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let kinds = (1..RecordKind::FIRST_CLIENT).map(RecordKind);
    let storage = kinds.filter(|kind| kind.storage_name().is_some());
    for (index, kind) in storage.chain([RecordKind::PAGES]).enumerate() {
        let mut record = RecordBuilder::new(Vec::new(), index as u64);
        if index % 2 == 1 {
            record.removal(RemovalLsn::Commit(Lsn(4096 + index as u64)));
        }
        for flags in [0, 1, 2, 4, 8] {
            let page = PageId {
                file: FileId(20_000),
                fork: Fork::Main,
                block: BlockNumber(u32::from(flags)),
            };
            let mut data = Vec::new();
            if flags > 1 {
                image::encode(sample_page(flags).bytes(), index % 2 == 0, &mut data);
            }
            data.extend_from_slice(b"what the operation needs");
            record.part(page, PartFlags(flags), 0x0101, Lsn(64), &data);
        }
        let payload: Vec<u8> = match kind {
            RecordKind::INCARNATION => announcement().encode(),
            _ => (0..24 + index as u8).collect(),
        };
        record.payload(kind, &payload);
        let crc = record.seal(Lsn(8));
        let len = record.len();
        let mut bytes = record.into_buffer();
        let mark = completion_mark(Lsn(1 << 32), INCARNATION, len as u32, crc);
        bytes[..8].copy_from_slice(&mark.to_le_bytes());
        bytes.resize(aligned(len), 0);
        all.push(bytes);
    }
    all
}

#[test]
fn damaged_records_are_read_without_panic() {
    on_damaged(SEED, 20_000, &records(), record);
}

/// Recovery's first pass and `waldump` come to an end on any log.
#[test]
fn damaged_logs_are_read_without_panic() {
    let whole = records().concat();
    log(&whole);
    on_damaged(SEED, 1500, &[whole, records()[2].repeat(40)], log);
}

#[test]
fn damaged_pages_are_read_without_panic() {
    let mut inputs: Vec<_> = (1..4).map(|n| sample_page(n).bytes().to_vec()).collect();
    inputs.extend(writeout::sample_area_pages());
    on_damaged(SEED, 2000, &inputs, page);
}

#[test]
fn damaged_control_files_are_read_without_panic() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(&dir()).expect("directory");
    let first = control_of(Lsn(SEGMENT));
    ControlFile::create(&disk, &dir(), first, true).expect("created");
    ControlFile::publish(&disk, &dir(), true).expect("published");
    let path = dir().join(crate::control::CONTROL_FILE);
    let file = disk.open(&path, OpenOptions::read_only()).expect("there");
    let mut bytes = vec![0; file.len().expect("length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("read");
    control(&bytes);
    on_damaged(SEED, 4000, &[bytes], control);
}
