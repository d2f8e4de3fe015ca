//! Entry points of the bench of the lists.

use std::time::{Duration, Instant};

use super::list_builder::ListBuilder;
use super::lists::{PageLists, Share};
use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};
use crate::record::{PartFlags, PartView};

/// Bytes of a part: an update of a row of TPC-B and its record's share of them.
const PART_BYTES: usize = 64;

/// The time to list `parts` changes of `pages` pages, in an order without any locality. The pages
/// are in the lists before, so none is for the first time.
#[must_use]
pub fn list(pages: u32, parts: u64) -> Duration {
    let mut builder = ListBuilder::new(PageLists::new(Lsn(0), Share::default(), usize::MAX));
    let data = [7; PART_BYTES];
    let mut lsn = Lsn(8);
    let mut add = |block: u32, data: &[u8]| {
        lsn = Lsn(lsn.0 + 128);
        let part = PartView {
            page: PageId {
                file: FileId(1),
                fork: Fork::Main,
                block: BlockNumber(block),
            },
            flags: PartFlags::NONE,
            op: 1,
            prev_lsn: Lsn(0),
            data,
        };
        builder.add((lsn, 32), &part);
    };
    for block in 0..pages {
        add(block, &[]);
    }
    let begun = Instant::now();
    let mut at = 1_u64;
    for _ in 0..parts {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        add(((at >> 33) % u64::from(pages)) as u32, &data);
    }
    assert_eq!(builder.finish().lists().len(), pages as usize);
    begun.elapsed()
}
