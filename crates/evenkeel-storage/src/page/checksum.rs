//! The page checksum: CRC-32C over the content and the page's identity, so that a page written
//! to the wrong place fails as surely as one that was changed.

use crc_fast::{CrcAlgorithm, Digest};

use super::{CHECKSUM_OFFSET, LSN_OFFSET, PAGE_SIZE, PageBytes};
use crate::error::StorageError;
use crate::ids::{Lsn, PageId};

const CHECKSUM_END: usize = CHECKSUM_OFFSET + 4;

/// Result of verifying a page's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The checksum is the content's.
    Valid,
    /// Every byte is zero: a block that only extension made. Valid.
    Zero,
    /// The content is not what was written under this identity.
    Damaged {
        /// The checksum found in the page.
        stored: u32,
        /// The checksum the content has.
        computed: u32,
    },
}

impl Verdict {
    /// Whether the page may be used.
    #[must_use]
    pub fn is_valid(self) -> bool {
        !matches!(self, Verdict::Damaged { .. })
    }
}

/// The checksum of `bytes` as page `id`; the checksum field counts as zero.
#[must_use]
pub fn compute(bytes: &PageBytes, id: PageId) -> u32 {
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&id.file.0.to_le_bytes());
    identity[8..12].copy_from_slice(&id.block.0.to_le_bytes());
    identity[12] = id.fork as u8;
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&[0; CHECKSUM_END]);
    digest.update(&bytes[CHECKSUM_END..]);
    digest.update(&identity);
    // A 32-bit algorithm leaves the upper half empty.
    digest.finalize() as u32
}

/// Stores the checksum of `bytes` as page `id` in it. A page of zeroes stays one.
pub fn stamp(bytes: &mut PageBytes, id: PageId) {
    if is_zero(bytes) {
        return;
    }
    let checksum = compute(bytes, id);
    bytes[CHECKSUM_OFFSET..CHECKSUM_END].copy_from_slice(&checksum.to_le_bytes());
}

/// Judges `bytes` as page `id`.
#[must_use]
pub fn verify(bytes: &PageBytes, id: PageId) -> Verdict {
    let mut stored = [0; 4];
    stored.copy_from_slice(&bytes[CHECKSUM_OFFSET..CHECKSUM_END]);
    let stored = u32::from_le_bytes(stored);
    let computed = compute(bytes, id);
    if stored == computed {
        Verdict::Valid
    } else if is_zero(bytes) {
        Verdict::Zero
    } else {
        Verdict::Damaged { stored, computed }
    }
}

/// The error for a page that failed its checksum.
#[must_use]
pub fn damaged(bytes: &PageBytes, id: PageId, stored: u32, computed: u32) -> StorageError {
    StorageError::PageDamaged {
        page: id,
        lsn: lsn_of(bytes),
        reason: format!("checksum {stored:08x} stored, {computed:08x} computed"),
    }
}

/// The LSN in a page's header.
#[must_use]
pub fn lsn_of(bytes: &PageBytes) -> Lsn {
    let mut lsn = [0; 8];
    lsn.copy_from_slice(&bytes[LSN_OFFSET..LSN_OFFSET + 8]);
    Lsn(u64::from_le_bytes(lsn))
}

/// Whether every byte is zero. Stops at the first that is not.
#[must_use]
pub fn is_zero(bytes: &PageBytes) -> bool {
    const STEP: usize = 64;
    const _: () = assert!(PAGE_SIZE.is_multiple_of(STEP));
    bytes
        .chunks_exact(STEP)
        .all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BlockNumber, FileId, Fork};
    use crate::page::PageBuf;

    fn id(block: u32) -> PageId {
        PageId {
            file: FileId(42),
            fork: Fork::Main,
            block: BlockNumber(block),
        }
    }

    #[test]
    fn a_page_is_valid_only_as_itself() {
        let mut page = PageBuf::zeroed();
        page.page_mut().init(1, 0);
        stamp(page.bytes_mut(), id(7));
        assert_eq!(verify(page.bytes(), id(7)), Verdict::Valid);
        assert!(!verify(page.bytes(), id(8)).is_valid());
        assert!(
            !verify(
                page.bytes(),
                PageId {
                    fork: Fork::Vm,
                    ..id(7)
                }
            )
            .is_valid()
        );
        assert!(
            !verify(
                page.bytes(),
                PageId {
                    file: FileId(43),
                    ..id(7)
                }
            )
            .is_valid()
        );
    }

    #[test]
    fn any_changed_bit_is_found() {
        let mut page = PageBuf::zeroed();
        page.page_mut().init(1, 0);
        stamp(page.bytes_mut(), id(0));
        for bit in (0..PAGE_SIZE * 8)
            .step_by(1021)
            .chain([0, 31, 32, PAGE_SIZE * 8 - 1])
        {
            page.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
            assert!(!verify(page.bytes(), id(0)).is_valid(), "bit {bit}");
            page.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn the_all_zero_page_is_valid_and_stays_zero() {
        let mut page = PageBuf::zeroed();
        assert_eq!(verify(page.bytes(), id(3)), Verdict::Zero);
        stamp(page.bytes_mut(), id(3));
        assert!(is_zero(page.bytes()));
        page.bytes_mut()[PAGE_SIZE - 1] = 1;
        assert!(!is_zero(page.bytes()));
    }

    /// The algorithm is part of the file format: CRC-32C of "123456789" is a published constant.
    #[test]
    fn the_algorithm_is_crc32c() {
        assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xE306_9283);
    }
}
