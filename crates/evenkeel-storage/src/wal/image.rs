//! Whole-page images in log records, without the zero hole in the middle of a page.

use crate::error::ApplyError;
use crate::page::PAGE_SIZE;
use crate::wal::record::FieldReader;

/// Offsets of `lower` and `upper` in the page header.
const LOWER: usize = 16;
const UPPER: usize = 18;

fn hole(page: &[u8; PAGE_SIZE]) -> (usize, usize) {
    let lower = usize::from(u16::from_le_bytes([page[LOWER], page[LOWER + 1]]));
    let upper = usize::from(u16::from_le_bytes([page[UPPER], page[UPPER + 1]]));
    if lower < upper && upper <= PAGE_SIZE && page[lower..upper].iter().all(|&b| b == 0) {
        (lower, upper - lower)
    } else {
        (0, 0)
    }
}

/// Encodes a page: `hole start u16 | hole length u16 | the other bytes`. The hole is left out
/// only if it is all zero, so nothing is lost.
#[must_use]
pub fn encode(page: &[u8; PAGE_SIZE]) -> Vec<u8> {
    let (start, len) = hole(page);
    let mut data = Vec::with_capacity(4 + PAGE_SIZE - len);
    data.extend_from_slice(&(start as u16).to_le_bytes());
    data.extend_from_slice(&(len as u16).to_le_bytes());
    data.extend_from_slice(&page[..start]);
    data.extend_from_slice(&page[start + len..]);
    data
}

/// Makes `page` the page that [`encode`] was given.
///
/// # Errors
/// When the data's lengths do not add up to a page.
pub fn restore(data: &[u8], page: &mut [u8]) -> Result<(), ApplyError> {
    let mut fields = FieldReader::new(data);
    let start = usize::from(fields.u16()?);
    let len = usize::from(fields.u16()?);
    let rest = fields.rest();
    if page.len() != PAGE_SIZE || start + len > PAGE_SIZE || rest.len() != PAGE_SIZE - len {
        return Err(ApplyError(format!(
            "page image of {} bytes, hole {start}+{len}",
            data.len()
        )));
    }
    page[..start].copy_from_slice(&rest[..start]);
    page[start..start + len].fill(0);
    page[start + len..].copy_from_slice(&rest[start..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_restores_every_byte_with_and_without_a_hole() {
        let mut page = [0u8; PAGE_SIZE];
        page[..100].fill(7);
        page[8000..].fill(9);
        page[LOWER..LOWER + 2].copy_from_slice(&100u16.to_le_bytes());
        page[UPPER..UPPER + 2].copy_from_slice(&8000u16.to_le_bytes());
        for stray in [None, Some(500)] {
            if let Some(at) = stray {
                page[at] = 1;
            }
            let data = encode(&page);
            assert_eq!(data.len() < 1000, stray.is_none());
            let mut other = [0xAA; PAGE_SIZE];
            restore(&data, &mut other).expect("restores");
            assert!(other == page);
            assert!(restore(&data[..data.len() - 1], &mut other).is_err());
        }
    }
}
