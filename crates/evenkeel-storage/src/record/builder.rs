//! Encoding of one record.

use std::ops::Range;

use super::fields::u32_at;
use super::{
    FLAG_REMOVAL, HEADER_LEN, PART_LEN, PartFlags, RecordKind, RecordView, RemovalLsn, body_crc,
};
use crate::ids::{Lsn, PageId};

/// Builds one record in a buffer that can be used again.
#[derive(Debug, Default)]
pub struct RecordBuilder {
    bytes: Vec<u8>,
    parts: u16,
    has_payload: bool,
}

impl RecordBuilder {
    /// A builder using (and keeping the capacity of) `buffer`.
    #[must_use]
    pub fn new(mut buffer: Vec<u8>, xid: u64) -> Self {
        buffer.clear();
        buffer.resize(HEADER_LEN, 0);
        buffer[8..16].copy_from_slice(&xid.to_le_bytes());
        buffer[24] = RecordKind::PAGES.0;
        RecordBuilder {
            bytes: buffer,
            parts: 0,
            has_payload: false,
        }
    }

    /// Says what the record removes. At most once, before the parts.
    pub fn removal(&mut self, removal: RemovalLsn) {
        debug_assert!(self.is_empty(), "the header comes before the parts");
        if let Some(word) = removal.encode() {
            self.add_flags(FLAG_REMOVAL);
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Appends a part; returns where its data lies in [`RecordBuilder::bytes`].
    /// Parts come before the payload.
    pub fn part(
        &mut self,
        page: PageId,
        flags: PartFlags,
        op: u16,
        prev_lsn: Lsn,
        data: &[u8],
    ) -> Range<usize> {
        debug_assert!(!self.has_payload, "parts come before the payload");
        let mut head = [0u8; PART_LEN];
        head[0..8].copy_from_slice(&page.file.0.to_le_bytes());
        head[8..12].copy_from_slice(&page.block.0.to_le_bytes());
        head[12] = page.fork as u8;
        head[13] = flags.0;
        head[14..16].copy_from_slice(&op.to_le_bytes());
        head[16..24].copy_from_slice(&prev_lsn.0.to_le_bytes());
        head[24..28].copy_from_slice(&(data.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&head);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(data);
        self.parts += 1;
        start..self.bytes.len()
    }

    /// The same record in `buffer`, with images put in front of the data of some parts:
    /// `images` has where each one's data begins, as [`RecordBuilder::part`] answered, in order.
    pub fn with_images<'i>(
        &self,
        mut buffer: Vec<u8>,
        images: impl Iterator<Item = (usize, &'i [u8])>,
    ) -> RecordBuilder {
        buffer.clear();
        let mut copied = 0;
        for (start, image) in images {
            buffer.extend_from_slice(&self.bytes[copied..start]);
            let head = buffer.len() - PART_LEN;
            buffer[head + 13] |= PartFlags::BEFORE.0;
            let len = u32_at(&buffer, head + 24) + image.len() as u32;
            buffer[head + 24..head + 28].copy_from_slice(&len.to_le_bytes());
            buffer.extend_from_slice(image);
            copied = start;
        }
        buffer.extend_from_slice(&self.bytes[copied..]);
        RecordBuilder {
            bytes: buffer,
            parts: self.parts,
            has_payload: self.has_payload,
        }
    }

    /// A record without meaning of exactly `len` bytes, at least [`HEADER_LEN`].
    #[must_use]
    pub fn filler(len: usize) -> RecordBuilder {
        let mut record = RecordBuilder::new(Vec::with_capacity(len), 0);
        record.payload(RecordKind::FILLER, &vec![0; len.saturating_sub(HEADER_LEN)]);
        record
    }

    /// Sets the kind and the payload that follows the parts. At most once.
    pub fn payload(&mut self, kind: RecordKind, payload: &[u8]) {
        debug_assert!(!self.has_payload, "one payload per record");
        self.has_payload = true;
        self.bytes[24] = kind.0;
        self.bytes[28..32].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(payload);
    }

    /// Adds bits to the record's flags.
    pub fn add_flags(&mut self, flags: u8) {
        self.bytes[25] |= flags;
    }

    /// The record's flags.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.bytes[25]
    }

    /// Length of the record so far, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was added yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts == 0 && !self.has_payload
    }

    /// The encoded bytes. The first 8 are not filled in (see `completion_mark`).
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Fills in what is known just before reservation and returns the unsalted checksum.
    pub fn seal(&mut self, durable: Lsn) -> u32 {
        self.bytes[16..24].copy_from_slice(&durable.0.to_le_bytes());
        self.bytes[26..28].copy_from_slice(&self.parts.to_le_bytes());
        body_crc(&self.bytes[8..])
    }

    /// Whether the sealed record is valid at `lsn` with this completion mark, and has the parts
    /// that it was given.
    pub(crate) fn reads_back(&self, lsn: Lsn, incarnation: u64, mark: u64) -> bool {
        let mut bytes = self.bytes.clone();
        bytes[..8].copy_from_slice(&mark.to_le_bytes());
        RecordView::parse(&bytes, lsn, incarnation)
            .is_ok_and(|view| view.part_count() == self.parts && view.total_len() == bytes.len())
    }

    /// Gives the buffer back for the next record.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}
