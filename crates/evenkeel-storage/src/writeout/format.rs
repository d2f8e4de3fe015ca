//! Format of the double-write area's files.
//!
//! Page 0 is the file's header; all other pages are slots. A batch takes adjacent slots: a batch
//! header that names its pages, then their images. Numbers are little endian.

use crc_fast::{CrcAlgorithm, checksum};

use crate::ids::{BlockNumber, FileId, Fork, PageId};
use crate::page::{PAGE_SIZE, PageBytes};

const FILE_MAGIC: u64 = u64::from_le_bytes(*b"evkl-dwa");
const BATCH_MAGIC: u64 = u64::from_le_bytes(*b"evkl-dwb");
const FORMAT: u32 = 1;

const CRC_OFFSET: usize = PAGE_SIZE - 4;
const ENTRIES_OFFSET: usize = 32;
const ENTRY_SIZE: usize = 20;

/// Most images that one batch header can name.
pub(super) const MAX_BATCH: usize = (CRC_OFFSET - ENTRIES_OFFSET) / ENTRY_SIZE;

/// Header of an area file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileHeader {
    /// Drawn at random for each use of the file; batches of other uses do not count.
    pub(super) epoch: u64,
    /// Grows with each use of either file.
    pub(super) generation: u64,
    /// Whether the batches in it may be needed.
    pub(super) active: bool,
}

/// One image of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BatchEntry {
    pub(super) page: PageId,
    /// The image's own checksum, so that an image is taken only for the one that was meant.
    pub(super) checksum: u32,
}

/// Header of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BatchHeader {
    pub(super) epoch: u64,
    /// Grows by one from batch to batch within an epoch.
    pub(super) sequence: u64,
    /// How many of the last batches, this one included, may still be needed: the home writes of
    /// all earlier ones were durable when it was written.
    pub(super) live: u32,
    pub(super) entries: Vec<BatchEntry>,
}

fn crc(page: &PageBytes) -> u32 {
    // A 32-bit algorithm leaves the upper half empty.
    checksum(CrcAlgorithm::Crc32Iscsi, &page[..CRC_OFFSET]) as u32
}

fn seal(page: &mut PageBytes) {
    let crc = crc(page);
    page[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
}

fn is_sealed(page: &PageBytes) -> bool {
    page[CRC_OFFSET..] == crc(page).to_le_bytes()
}

fn get<const N: usize>(page: &PageBytes, offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&page[offset..offset + N]);
    bytes
}

impl FileHeader {
    pub(super) fn encode(&self, page: &mut PageBytes) {
        page.fill(0);
        page[..8].copy_from_slice(&FILE_MAGIC.to_le_bytes());
        page[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        page[12..16].copy_from_slice(&u32::from(self.active).to_le_bytes());
        page[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        page[24..32].copy_from_slice(&self.generation.to_le_bytes());
        seal(page);
    }

    /// `None` for anything else, torn headers included.
    pub(super) fn decode(page: &PageBytes) -> Option<FileHeader> {
        let known = u64::from_le_bytes(get(page, 0)) == FILE_MAGIC
            && u32::from_le_bytes(get(page, 8)) == FORMAT;
        (known && is_sealed(page)).then(|| FileHeader {
            active: u32::from_le_bytes(get(page, 12)) != 0,
            epoch: u64::from_le_bytes(get(page, 16)),
            generation: u64::from_le_bytes(get(page, 24)),
        })
    }
}

impl BatchHeader {
    /// Encodes the header; at most [`MAX_BATCH`] entries.
    pub(super) fn encode(&self, page: &mut PageBytes) {
        assert!(
            self.entries.len() <= MAX_BATCH,
            "batch too large for its header"
        );
        page.fill(0);
        page[..8].copy_from_slice(&BATCH_MAGIC.to_le_bytes());
        page[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        page[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        // At most MAX_BATCH, so it fits.
        page[24..28].copy_from_slice(&(self.entries.len() as u32).to_le_bytes());
        page[28..32].copy_from_slice(&self.live.to_le_bytes());
        let room = page[ENTRIES_OFFSET..CRC_OFFSET].chunks_exact_mut(ENTRY_SIZE);
        for (bytes, entry) in room.zip(&self.entries) {
            bytes[..8].copy_from_slice(&entry.page.file.0.to_le_bytes());
            bytes[8..12].copy_from_slice(&entry.page.block.0.to_le_bytes());
            bytes[12..16].copy_from_slice(&u32::from(entry.page.fork as u8).to_le_bytes());
            bytes[16..20].copy_from_slice(&entry.checksum.to_le_bytes());
        }
        seal(page);
    }

    /// Sequence of the oldest batch that may still have been needed when this one was written.
    pub(super) fn oldest_live(&self) -> u64 {
        self.sequence
            .saturating_sub(u64::from(self.live).saturating_sub(1))
    }

    /// `None` for anything else, page images included.
    pub(super) fn decode(page: &PageBytes) -> Option<BatchHeader> {
        if u64::from_le_bytes(get(page, 0)) != BATCH_MAGIC || !is_sealed(page) {
            return None;
        }
        let count = u32::from_le_bytes(get(page, 24)) as usize;
        if count > MAX_BATCH {
            return None;
        }
        let entry = |index: usize| {
            let at = ENTRIES_OFFSET + index * ENTRY_SIZE;
            let fork = u32::from_le_bytes(get(page, at + 12));
            Some(BatchEntry {
                page: PageId {
                    file: FileId(u64::from_le_bytes(get(page, at))),
                    fork: Fork::from_u8(u8::try_from(fork).ok()?)?,
                    block: BlockNumber(u32::from_le_bytes(get(page, at + 8))),
                },
                checksum: u32::from_le_bytes(get(page, at + 16)),
            })
        };
        Some(BatchHeader {
            epoch: u64::from_le_bytes(get(page, 8)),
            sequence: u64::from_le_bytes(get(page, 16)),
            live: u32::from_le_bytes(get(page, 28)),
            entries: (0..count).map(entry).collect::<Option<_>>()?,
        })
    }
}

/// Reads a page as each kind of header, its checksum as it is and made to fit.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn read_area_page(page: &PageBytes) {
    let mut sealed = *page;
    seal(&mut sealed);
    for page in [page, &sealed] {
        let mut again = *page;
        if let Some(header) = FileHeader::decode(page) {
            header.encode(&mut again);
            assert_eq!(FileHeader::decode(&again), Some(header));
        }
        if let Some(header) = BatchHeader::decode(page) {
            assert!(header.oldest_live() <= header.sequence);
            header.encode(&mut again);
            assert_eq!(BatchHeader::decode(&again), Some(header));
        }
    }
}

/// A header of each kind.
#[cfg(test)]
pub(crate) fn sample_area_pages() -> Vec<Vec<u8>> {
    let mut file = [0; PAGE_SIZE];
    let header = FileHeader {
        epoch: 5,
        generation: 7,
        active: true,
    };
    header.encode(&mut file);
    let page = PageId {
        file: FileId(20_000),
        fork: Fork::Main,
        block: BlockNumber(9),
    };
    let mut batch = [0; PAGE_SIZE];
    let header = BatchHeader {
        epoch: 5,
        sequence: 99,
        live: 3,
        entries: vec![BatchEntry { page, checksum: 1 }; 40],
    };
    header.encode(&mut batch);
    vec![file.to_vec(), batch.to_vec()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageBuf;

    #[test]
    fn headers_round_trip_and_damage_is_found() {
        let mut page = PageBuf::zeroed();
        let file = FileHeader {
            epoch: 0x1234_5678_9ABC_DEF0,
            generation: 7,
            active: true,
        };
        file.encode(page.bytes_mut());
        assert_eq!(FileHeader::decode(page.bytes()), Some(file));
        assert_eq!(BatchHeader::decode(page.bytes()), None);

        let entries = (0..MAX_BATCH as u32)
            .map(|n| BatchEntry {
                page: PageId {
                    file: FileId(u64::MAX - u64::from(n)),
                    fork: Fork::ALL[n as usize % 3],
                    block: BlockNumber(n * 7),
                },
                checksum: n ^ 0xFFFF_0000,
            })
            .collect();
        let batch = BatchHeader {
            epoch: 5,
            sequence: 99,
            live: 3,
            entries,
        };
        batch.encode(page.bytes_mut());
        assert_eq!(BatchHeader::decode(page.bytes()), Some(batch));
        for at in [0, 9, 17, 25, 40, 5000, PAGE_SIZE - 1] {
            page.bytes_mut()[at] ^= 1;
            assert_eq!(BatchHeader::decode(page.bytes()), None, "byte {at}");
            page.bytes_mut()[at] ^= 1;
        }
    }
}
