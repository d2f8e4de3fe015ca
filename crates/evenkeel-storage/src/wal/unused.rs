//! Marks of log space that nothing has been written to.
//!
//! ```text
//! mark    zero u64 | magic u64 | position u64 | crc u32 | zeros to the end of the block
//! ```
//! A segment that is made or recycled carries a mark in the first block of each stripe, durable
//! before the segment gets its name. The log is written in order, each write synced before the
//! next begins, so its first write in a stripe replaces the mark: behind a mark that is still
//! there no log was ever durable. A mark begins as a block of zeros does, so that the log's end
//! is recognised there.

use crate::ids::Lsn;
use crate::wal::layout::BLOCK;

/// Bytes between two marks, in segments that are larger.
pub(super) const STRIPE: u64 = 16 << 20;

const MAGIC: u64 = u64::from_le_bytes(*b"evkl-nul");
const CRC: usize = 24;
const LEN: usize = 28;

/// Bytes between two marks in segments of `size` bytes.
pub(super) fn stripe(size: u64) -> u64 {
    size.min(STRIPE)
}

fn head(at: Lsn) -> [u8; LEN] {
    let mut head = [0; LEN];
    head[8..16].copy_from_slice(&MAGIC.to_le_bytes());
    head[16..CRC].copy_from_slice(&at.0.to_le_bytes());
    let crc = crc_fast::crc32_iscsi(&head[..CRC]);
    head[CRC..].copy_from_slice(&crc.to_le_bytes());
    head
}

/// Makes `block` the mark of the stripe that begins at `at`.
pub(super) fn encode(at: Lsn, block: &mut [u8]) {
    let head = head(at);
    block[..LEN].copy_from_slice(&head);
    block[LEN..].fill(0);
}

/// Whether a block is the mark of the stripe that begins at `at`.
pub(super) fn is_mark(block: &[u8], at: Lsn) -> bool {
    block.len() == BLOCK && block[..LEN] == head(at) && block[LEN..].iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_at_its_place_and_with_every_bit() {
        let mut block = [0xAA; BLOCK];
        encode(Lsn(3 << 20), &mut block);
        assert!(is_mark(&block, Lsn(3 << 20)));
        assert!(!is_mark(&block, Lsn(4 << 20)));
        assert!(!is_mark(&block[..BLOCK - 1], Lsn(3 << 20)));
        assert!(!is_mark(&[0; BLOCK], Lsn(0)));
        for bit in 0..BLOCK * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_mark(&block, Lsn(3 << 20)), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
