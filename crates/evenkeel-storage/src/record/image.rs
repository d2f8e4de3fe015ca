//! Whole-page images in log records, without the zero hole in the middle of a page, and
//! compressed where that makes them smaller.
//!
//! ```text
//! image   stored u16 | hole start u16 | hole length u15, LZ4 u1 | `stored` bytes
//! ```
//! The bytes are the page without the hole, in LZ4's block format if the bit is set. An image
//! knows its own length, so something may follow it.

use lz4_flex::block;

use crate::error::ApplyError;
use crate::page::{LOWER_OFFSET, PAGE_SIZE, PageBytes, UPPER_OFFSET, checksum};
use crate::record::fields::FieldReader;

const LZ4: u16 = 1 << 15;
/// Bytes before the stored ones.
const HEAD: usize = 6;

/// The bytes known to be zero: all of a page never used, else the space between `lower` and
/// `upper`, if it is zero.
fn hole(page: &PageBytes) -> (usize, usize) {
    let field = |at: usize| usize::from(u16::from_le_bytes([page[at], page[at + 1]]));
    let (lower, upper) = (field(LOWER_OFFSET), field(UPPER_OFFSET));
    if lower < upper && upper <= PAGE_SIZE && page[lower..upper].iter().all(|&b| b == 0) {
        (lower, upper - lower)
    } else if checksum::is_zero(page) {
        (0, PAGE_SIZE)
    } else {
        (0, 0)
    }
}

/// Appends the image of a page to `out`. The hole is left out only if it is all zero, so nothing
/// is lost.
pub fn encode(page: &PageBytes, compress: bool, out: &mut Vec<u8>) {
    let (start, len) = hole(page);
    let head = out.len();
    // At most PAGE_SIZE each, so they fit.
    for field in [0, start, len] {
        out.extend_from_slice(&(field as u16).to_le_bytes());
    }
    let body = out.len();
    out.extend_from_slice(&page[..start]);
    out.extend_from_slice(&page[start + len..]);
    let mut flag = 0;
    if compress {
        let mut packed = [0; block::get_maximum_output_size(PAGE_SIZE)];
        if let Ok(packed_len) = block::compress_into(&out[body..], &mut packed)
            && packed_len < out.len() - body
        {
            out.truncate(body);
            out.extend_from_slice(&packed[..packed_len]);
            flag = LZ4;
        }
    }
    let stored = (out.len() - body) as u16;
    out[head..head + 2].copy_from_slice(&stored.to_le_bytes());
    out[head + 4..head + 6].copy_from_slice(&(len as u16 | flag).to_le_bytes());
}

/// Bytes of the image that `data` begins with; 0 when it is none.
#[must_use]
pub fn len(data: &[u8]) -> usize {
    let stored = FieldReader::new(data).u16().map(usize::from);
    stored.map_or(0, |stored| HEAD + stored)
}

/// Makes `page` the page that [`encode`] was given, and answers what follows the image.
///
/// # Errors
/// When the data is not an image.
pub fn restore<'a>(data: &'a [u8], page: &mut PageBytes) -> Result<&'a [u8], ApplyError> {
    let mut fields = FieldReader::new(data);
    let stored = usize::from(fields.u16()?);
    let start = usize::from(fields.u16()?);
    let packed_len = fields.u16()?;
    let len = usize::from(packed_len & !LZ4);
    let bytes = fields.take(stored)?;
    let malformed = || {
        ApplyError(format!(
            "page image of {stored} bytes, hole {start}+{len}, does not make a page"
        ))
    };
    if start + len > PAGE_SIZE {
        return Err(malformed());
    }
    let mut unpacked = [0; PAGE_SIZE];
    let rest = if packed_len & LZ4 != 0 {
        let size = block::decompress_into(bytes, &mut unpacked).map_err(|_| malformed())?;
        &unpacked[..size]
    } else {
        bytes
    };
    if rest.len() != PAGE_SIZE - len {
        return Err(malformed());
    }
    page[..start].copy_from_slice(&rest[..start]);
    page[start..start + len].fill(0);
    page[start + len..].copy_from_slice(&rest[start..]);
    Ok(fields.rest())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(stray: Option<usize>) -> PageBytes {
        let mut page = [0u8; PAGE_SIZE];
        page[24..100].fill(7);
        for (at, byte) in page[8000..].iter_mut().enumerate() {
            *byte = (at * 31 % 251) as u8;
        }
        page[LOWER_OFFSET..LOWER_OFFSET + 2].copy_from_slice(&100u16.to_le_bytes());
        page[UPPER_OFFSET..UPPER_OFFSET + 2].copy_from_slice(&8000u16.to_le_bytes());
        if let Some(at) = stray {
            page[at] = 1;
        }
        page
    }

    #[test]
    fn an_image_restores_every_byte_with_and_without_a_hole() {
        for (compress, stray) in [
            (false, None),
            (false, Some(500)),
            (true, None),
            (true, Some(500)),
        ] {
            let page = sample(stray);
            let mut data = Vec::new();
            encode(&page, compress, &mut data);
            assert_eq!(data.len() < 1000, compress || stray.is_none());
            let end = data.len();
            data.extend_from_slice(b"what follows");
            let mut other = [0xAA; PAGE_SIZE];
            let rest = restore(&data, &mut other).expect("restores");
            assert_eq!(rest, b"what follows");
            assert!(other == page);
            assert!(restore(&data[..end - 1], &mut other).is_err());
        }
    }

    #[test]
    fn a_page_of_zeroes_takes_no_space() {
        let mut data = Vec::new();
        encode(&[0; PAGE_SIZE], false, &mut data);
        assert_eq!((data.len(), len(&data)), (HEAD, HEAD));
        let mut other = [0xAA; PAGE_SIZE];
        restore(&data, &mut other).expect("restores");
        assert!(other == [0; PAGE_SIZE]);
    }

    proptest! {
        /// WAL-1: nothing that a record may hold makes decoding panic.
        #[test]
        fn any_bytes_are_decoded_without_panic(
            mut data in proptest::collection::vec(any::<u8>(), 0..400),
            lz4 in any::<bool>(),
        ) {
            if lz4 && data.len() > 6 {
                let stored = (data.len() - 6) as u16;
                data[..2].copy_from_slice(&stored.to_le_bytes());
                data[3] &= 0x1f;
                data[5] = data[5] & 0x1f | 0x80;
            }
            let mut page = [0; PAGE_SIZE];
            let _ = restore(&data, &mut page);
        }
    }
}
