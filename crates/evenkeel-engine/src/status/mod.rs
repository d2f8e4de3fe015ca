//! Transaction status: two bits per id, in pages of the one buffer pool.
//!
//! | page offset | content |
//! | --- | --- |
//! | 0 | the page header, kind [`STATUS_PAGE`] |
//! | 24 | 32,640 ids, two bits each, first in the lowest: 0 unknown, 1 committed, 2 aborted |
//!
//! File `n` of the series has the ids from `n * 64 * 32,640` on. Nothing here is logged of its
//! own: commit and abort records say it all. Files are dropped whole when every table's tuples
//! of their ids are frozen or gone ([`crate::Database::truncate_status`]).

mod pages;
mod series;
pub(crate) mod stamps;

use evenkeel_storage::page::{PAGE_HEADER_SIZE, PageMut, PageRead};
use evenkeel_storage::{ApplyContext, ApplyError, Lsn};

use crate::types::Xid;
use series::Layout;

pub(crate) use pages::StatusPages;
pub(crate) use series::PageNumber;
pub(crate) use stamps::{CommitStamps, Stamp};

/// Kind of a status page.
pub const STATUS_PAGE: u16 = 0x0401;
pub(crate) const PAGE_BYTES: usize = 8160;
const PAGE_XIDS: u64 = PAGE_BYTES as u64 * 4;
pub(crate) const LAYOUT: Layout = Layout {
    first_file: 0,
    files: 1 << 48,
    file_blocks: 64,
    page_xids: PAGE_XIDS,
};

/// Sets the bits of listed places: a list of `u32`, place and bits.
pub(crate) const OP_SET: u16 = 0x0401;
/// Merges a whole page's worth of bits.
pub(crate) const OP_MERGE: u16 = 0x0402;

/// The status of an id on a status page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StatusBits {
    Unknown = 0,
    Committed = 1,
    Aborted = 2,
}

/// The place of an id within its page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u16);

/// Where the id's bits are.
pub(crate) fn place_of(xid: Xid) -> (PageNumber, Place) {
    let place = (xid.get() % PAGE_XIDS) as u16;
    (PageNumber(xid.get() / PAGE_XIDS), Place(place))
}

impl Place {
    fn byte(self) -> usize {
        usize::from(self.0) / 4
    }

    fn shift(self) -> u32 {
        u32::from(self.0 % 4) * 2
    }

    fn read(self, byte: u8) -> Result<StatusBits, u8> {
        match byte >> self.shift() & 3 {
            0 => Ok(StatusBits::Unknown),
            1 => Ok(StatusBits::Committed),
            2 => Ok(StatusBits::Aborted),
            both => Err(both),
        }
    }

    fn encode(self, bits: StatusBits) -> [u8; 4] {
        (u32::from(self.0) << 2 | bits as u32).to_le_bytes()
    }
}

/// Bits to be merged into a page, as recovery collects them.
#[derive(Clone, Debug)]
pub(crate) struct StatusPageImage {
    bytes: Box<[u8]>,
    first: Lsn,
    last: Lsn,
}

impl Default for StatusPageImage {
    fn default() -> StatusPageImage {
        let bytes = vec![0; PAGE_BYTES].into_boxed_slice();
        StatusPageImage {
            bytes,
            first: Lsn::MAX,
            last: Lsn::ZERO,
        }
    }
}

impl StatusPageImage {
    pub(crate) fn set(&mut self, place: Place, bits: StatusBits, lsn: Lsn) {
        self.bytes[place.byte()] |= (bits as u8) << place.shift();
        self.first = self.first.min(lsn);
        self.last = self.last.max(lsn);
    }

    /// Whether a record said that this id has committed.
    pub(crate) fn has_committed(&self, place: Place) -> bool {
        place.read(self.bytes[place.byte()]) == Ok(StatusBits::Committed)
    }
}

/// Applies a change to a status page. Bits only get set, so applying twice is harmless, and
/// one id is never both committed and aborted.
pub(crate) fn apply(
    op: u16,
    page: &mut PageMut<'_>,
    data: &[u8],
    _cx: &ApplyContext,
) -> Result<(), ApplyError> {
    if op == stamps::OP_STAMP {
        return stamps::apply(page, data);
    }
    if page.kind() == 0 {
        page.init(STATUS_PAGE, 0);
        page.set_lower((PAGE_HEADER_SIZE + PAGE_BYTES) as u16);
    }
    if page.kind() != STATUS_PAGE {
        return Err(ApplyError::new(format!(
            "page kind {:#06x} is not status",
            page.kind()
        )));
    }
    match op {
        OP_SET if data.len().is_multiple_of(4) => {
            for entry in data.chunks_exact(4) {
                let entry = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
                let place = Place((entry >> 2) as u16);
                if u64::from(entry >> 2) >= PAGE_XIDS {
                    return Err(ApplyError::new("status place out of range"));
                }
                merge(page, place.byte(), ((entry & 3) as u8) << place.shift())?;
            }
            Ok(())
        }
        OP_MERGE if data.len() == PAGE_BYTES => data
            .iter()
            .enumerate()
            .try_for_each(|(at, bits)| merge(page, at, *bits)),
        _ => Err(ApplyError::new(format!(
            "status operation {op:#06x} is malformed"
        ))),
    }
}

fn merge(page: &mut PageMut<'_>, at: usize, bits: u8) -> Result<(), ApplyError> {
    if bits == 0 {
        return Ok(());
    }
    let byte = page.u8_at(PAGE_HEADER_SIZE + at) | bits;
    if byte & byte >> 1 & 0x55 != 0 {
        return Err(ApplyError::new(format!(
            "an id in status byte {at} both commits and aborts"
        )));
    }
    page.put_u8(PAGE_HEADER_SIZE + at, byte);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_storage::page::PageBuf;
    use evenkeel_storage::{BlockNumber, FileId, Fork, PageId};

    fn cx() -> ApplyContext {
        let page_id = PageId {
            file: FileId::status(0),
            fork: Fork::Main,
            block: BlockNumber(0),
        };
        ApplyContext {
            lsn: Lsn(8),
            page_id,
        }
    }

    #[test]
    fn bits_are_set_where_they_are_read() {
        let mut page = PageBuf::zeroed();
        for (raw, bits) in [
            (3, StatusBits::Committed),
            (4, StatusBits::Aborted),
            (PAGE_XIDS - 1, StatusBits::Committed),
        ] {
            let (number, place) = place_of(Xid::new(raw));
            assert_eq!(number, PageNumber(0));
            apply(OP_SET, &mut page.page_mut(), &place.encode(bits), &cx()).unwrap();
            assert_eq!(
                place.read(page.u8_at(PAGE_HEADER_SIZE + place.byte())),
                Ok(bits)
            );
        }
        let (number, place) = place_of(Xid::new(LAYOUT.file_xids()));
        assert_eq!(
            (
                LAYOUT.file(LAYOUT.file_number(number)),
                LAYOUT.block(number)
            ),
            (FileId::status(1), BlockNumber(0))
        );
        assert_eq!(place, Place(0));
    }

    #[test]
    fn applying_twice_is_harmless_and_contradictions_are_refused() {
        let mut page = PageBuf::zeroed();
        let mut image = StatusPageImage::default();
        let (_, place) = place_of(Xid::new(77));
        image.set(place, StatusBits::Committed, Lsn(16));
        for _ in 0..2 {
            apply(OP_MERGE, &mut page.page_mut(), &image.bytes, &cx()).unwrap();
        }
        let abort = place.encode(StatusBits::Aborted);
        assert!(apply(OP_SET, &mut page.page_mut(), &abort, &cx()).is_err());
        assert!(apply(OP_SET, &mut page.page_mut(), &[0xff; 4], &cx()).is_err());
        assert!(apply(OP_SET, &mut page.page_mut(), &[0; 3], &cx()).is_err());
        assert!(apply(0x04ff, &mut page.page_mut(), &[], &cx()).is_err());
    }
}
