//! The format of a log record, its encoder and its checked decoder.
//!
//! ```text
//! record  total_len u32 | crc u32 | xid u64 | durable u64 | kind u8 | flags u8 | parts u16
//!         | payload_len u32 | part … | payload
//! part    file u64 | block u32 | fork u8 | flags u8 | op u16 | prev_lsn u64 | data_len u32 | data
//! ```
//! Little endian, unaligned inside, each record starting at a multiple of 8. The checksum covers
//! everything behind the first 8 bytes and is salted with the record's LSN, its length and the
//! incarnation. The salt is mixed in at the end, so that the bytes can be summed before the LSN
//! is known (wal rules 2 and 3).

use std::ops::Range;

use crate::error::ApplyError;
use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};

/// Bytes of a record before its first part.
pub const HEADER_LEN: usize = 32;
/// Bytes of a part before its data.
pub const PART_LEN: usize = 28;
/// Largest record, in bytes.
pub const MAX_RECORD: usize = 1 << 20;
/// Records start at multiples of this.
pub const ALIGN: usize = 8;

/// Set on a record whose completion the client wants to hear of, in log order.
pub const FLAG_NOTIFY: u8 = 1;
/// Bits of a record's flags that are the client's own.
pub const CLIENT_FLAGS: u8 = 0xF0;

/// Length rounded up to where the next record starts.
#[inline]
#[must_use]
pub const fn aligned(len: usize) -> usize {
    (len + ALIGN - 1) & !(ALIGN - 1)
}

/// What a record is. Numbers below [`RecordKind::FIRST_CLIENT`] are storage's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct RecordKind(pub u8);

impl RecordKind {
    /// Where a checkpoint's cycle began; says whether the records behind it carry page images.
    pub const REDO_POINT: RecordKind = RecordKind(1);
    /// The records behind this one belong to a new incarnation.
    pub const INCARNATION: RecordKind = RecordKind(2);
    /// A file was created by transaction `xid`.
    pub const FILE_CREATE: RecordKind = RecordKind(3);
    /// A file was dropped.
    pub const FILE_DROP: RecordKind = RecordKind(4);
    /// The tail of a fork was cut off.
    pub const TRUNCATE: RecordKind = RecordKind(5);
    /// Nothing: it fills space that was reserved for a record which then needed more.
    pub const FILLER: RecordKind = RecordKind(6);
    /// What pages are after the records before it (`wal_consistency_checking`).
    pub const RESULT: RecordKind = RecordKind(7);
    /// The first number a client may use.
    pub const FIRST_CLIENT: u8 = 16;
    /// A record that only changes pages.
    pub const PAGES: RecordKind = RecordKind(Self::FIRST_CLIENT);

    /// Whether storage itself interprets the record.
    #[must_use]
    pub const fn is_storage(self) -> bool {
        self.0 < Self::FIRST_CLIENT
    }

    const fn is_known(self) -> bool {
        self.0 >= Self::FIRST_CLIENT || (self.0 >= 1 && self.0 <= Self::RESULT.0)
    }

    /// Name of a storage kind, for people.
    #[must_use]
    pub const fn storage_name(self) -> Option<&'static str> {
        match self {
            Self::REDO_POINT => Some("REDO_POINT"),
            Self::INCARNATION => Some("INCARNATION"),
            Self::FILE_CREATE => Some("FILE_CREATE"),
            Self::FILE_DROP => Some("FILE_DROP"),
            Self::TRUNCATE => Some("TRUNCATE"),
            Self::FILLER => Some("FILLER"),
            Self::RESULT => Some("RESULT"),
            _ => None,
        }
    }
}

/// Properties of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct PartFlags(pub u8);

impl PartFlags {
    /// None.
    pub const NONE: PartFlags = PartFlags(0);
    /// The part starts from a zeroed page; what the page held does not matter.
    pub const INIT: PartFlags = PartFlags(1);
    /// The data is the whole page (see [`crate::wal::image`]); storage applies it itself.
    pub const IMAGE: PartFlags = PartFlags(2);
    /// The data begins with an image of the page as it was before (see
    /// [`crate::wal::image`]), which the operation then changes.
    pub const BEFORE: PartFlags = PartFlags(4);
    /// The data is the page as it is now; nothing changes, redo compares.
    pub const COMPARE: PartFlags = PartFlags(8);
    const KNOWN: u8 = 15;

    /// Whether all bits of `other` are set.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: PartFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for PartFlags {
    type Output = PartFlags;
    fn bitor(self, other: PartFlags) -> PartFlags {
        PartFlags(self.0 | other.0)
    }
}

/// Salt of a record's checksum.
#[inline]
#[must_use]
pub fn salt(lsn: Lsn, incarnation: u64, total_len: u32) -> u32 {
    let mut x = lsn.0 ^ incarnation.rotate_left(29) ^ (u64::from(total_len) << 40);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^= x >> 31;
    (x ^ (x >> 32)) as u32
}

/// Checksum over a record's bytes behind the first 8, without salt.
#[inline]
#[must_use]
pub fn body_crc(body: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(body)
}

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

    /// The encoded bytes. The first 8 are not filled in (see [`completion_mark`]).
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

    /// Gives the buffer back for the next record.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

/// The first 8 bytes of a record: its length and its salted checksum. Never zero, so its
/// appearance in the ring says that the record is complete.
#[inline]
#[must_use]
pub fn completion_mark(lsn: Lsn, incarnation: u64, total_len: u32, body_crc: u32) -> u64 {
    let crc = body_crc ^ salt(lsn, incarnation, total_len);
    u64::from(total_len) | (u64::from(crc) << 32)
}

/// Why bytes are not a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordFault {
    /// The length field is zero: nothing was written here.
    Empty,
    /// The length field is out of range.
    Length(u32),
    /// The record does not end within the bytes given; this many are needed.
    Short(usize),
    /// The parts and payload do not add up to the length, or a field is out of range.
    Structure,
    /// The checksum does not match.
    Checksum,
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let mut raw = [0; 2];
    raw.copy_from_slice(&bytes[at..at + 2]);
    u16::from_le_bytes(raw)
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

/// A checked view of one record. Its structure was verified when it was made, so reading it
/// needs no further checks.
#[derive(Clone, Copy)]
pub struct RecordView<'a> {
    lsn: Lsn,
    bytes: &'a [u8],
    payload_start: usize,
}

/// One part of a record.
#[derive(Clone, Copy, Debug)]
pub struct PartView<'a> {
    /// The page it changes.
    pub page: PageId,
    /// Its properties.
    pub flags: PartFlags,
    /// What to do, in the client's numbering.
    pub op: u16,
    /// LSN the page had before.
    pub prev_lsn: Lsn,
    /// What the operation needs besides the page.
    pub data: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Reads the record that starts at `bytes[0]`, position `lsn`. `bytes` may go on behind it.
    ///
    /// # Errors
    /// The first reason why these bytes are not that record.
    pub fn parse(bytes: &'a [u8], lsn: Lsn, incarnation: u64) -> Result<Self, RecordFault> {
        let view = Self::parse_unverified(bytes, lsn)?;
        let expected = u32_at(bytes, 4) ^ salt(lsn, incarnation, view.bytes.len() as u32);
        if body_crc(&view.bytes[8..]) != expected {
            return Err(RecordFault::Checksum);
        }
        Ok(view)
    }

    /// Like [`RecordView::parse`] without the checksum: for records still in memory, and as the
    /// cheap test when looking for records at unknown positions.
    ///
    /// # Errors
    /// The first reason why these bytes cannot be a record.
    pub fn parse_unverified(bytes: &'a [u8], lsn: Lsn) -> Result<Self, RecordFault> {
        if bytes.len() < 8 {
            return Err(RecordFault::Short(8));
        }
        let total = u32_at(bytes, 0);
        if total == 0 {
            return Err(RecordFault::Empty);
        }
        let len = total as usize;
        if !(HEADER_LEN..=MAX_RECORD).contains(&len) {
            return Err(RecordFault::Length(total));
        }
        if bytes.len() < HEADER_LEN {
            return Err(RecordFault::Short(len));
        }
        if !RecordKind(bytes[24]).is_known() || u64_at(bytes, 16) > lsn.0 {
            return Err(RecordFault::Structure);
        }
        let payload_len = u32_at(bytes, 28) as usize;
        let least = HEADER_LEN + usize::from(u16_at(bytes, 26)) * PART_LEN;
        if least.saturating_add(payload_len) > len {
            return Err(RecordFault::Structure);
        }
        if bytes.len() < len {
            return Err(RecordFault::Short(len));
        }
        let bytes = &bytes[..len];
        let payload_start = Self::check_parts(bytes).ok_or(RecordFault::Structure)?;
        if payload_start + payload_len != len {
            return Err(RecordFault::Structure);
        }
        Ok(RecordView {
            lsn,
            bytes,
            payload_start,
        })
    }

    /// Walks the part headers; returns where the payload starts.
    fn check_parts(bytes: &[u8]) -> Option<usize> {
        let mut at = HEADER_LEN;
        for _ in 0..u16_at(bytes, 26) {
            let data = at.checked_add(PART_LEN)?;
            if data > bytes.len() {
                return None;
            }
            Fork::from_u8(bytes[at + 12])?;
            if bytes[at + 13] & !PartFlags::KNOWN != 0 {
                return None;
            }
            at = data.checked_add(u32_at(bytes, at + 24) as usize)?;
            if at > bytes.len() {
                return None;
            }
        }
        Some(at)
    }

    /// Where the record starts.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Where the next record starts.
    #[must_use]
    pub fn end(&self) -> Lsn {
        Lsn(self.lsn.0 + aligned(self.bytes.len()) as u64)
    }

    /// Length in bytes, without padding.
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.bytes.len()
    }

    /// Transaction that made the record; 0 for none.
    #[must_use]
    pub fn xid(&self) -> u64 {
        u64_at(self.bytes, 8)
    }

    /// The log was durable up to here when the record was made.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        Lsn(u64_at(self.bytes, 16))
    }

    /// What the record is.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        RecordKind(self.bytes[24])
    }

    /// The record's flags.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.bytes[25]
    }

    /// How many parts it has.
    #[must_use]
    pub fn part_count(&self) -> u16 {
        u16_at(self.bytes, 26)
    }

    /// The payload behind the parts.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.payload_start..]
    }

    /// The parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = PartView<'a>> + use<'a> {
        let bytes = self.bytes;
        let mut at = HEADER_LEN;
        (0..self.part_count()).map(move |_| {
            let data = at + PART_LEN;
            let end = data + u32_at(bytes, at + 24) as usize;
            let part = PartView {
                page: PageId {
                    file: FileId(u64_at(bytes, at)),
                    fork: Fork::from_u8(bytes[at + 12]).unwrap_or(Fork::Main),
                    block: BlockNumber(u32_at(bytes, at + 8)),
                },
                flags: PartFlags(bytes[at + 13]),
                op: u16_at(bytes, at + 14),
                prev_lsn: Lsn(u64_at(bytes, at + 16)),
                data: &bytes[data..end],
            };
            at = end;
            part
        })
    }
}

impl std::fmt::Debug for RecordView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("lsn", &self.lsn)
            .field("len", &self.bytes.len())
            .field("xid", &self.xid())
            .field("kind", &self.kind().0)
            .field("flags", &self.flags())
            .field("parts", &self.part_count())
            .field("payload", &self.payload().len())
            .finish()
    }
}

/// Reads fixed-size little-endian fields from a payload or a part's data.
#[derive(Clone, Copy, Debug)]
pub struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        FieldReader { rest: bytes }
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], ApplyError> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| ApplyError(format!("{len} bytes wanted, {} left", self.rest.len())))?;
        self.rest = rest;
        Ok(head)
    }

    /// The next byte.
    ///
    /// # Errors
    /// When none is left; likewise for the wider fields.
    pub fn u8(&mut self) -> Result<u8, ApplyError> {
        Ok(self.take(1)?[0])
    }

    /// The next 2 bytes.
    ///
    /// # Errors
    /// See [`FieldReader::u8`].
    pub fn u16(&mut self) -> Result<u16, ApplyError> {
        Ok(u16_at(self.take(2)?, 0))
    }

    /// The next 4 bytes.
    ///
    /// # Errors
    /// See [`FieldReader::u8`].
    pub fn u32(&mut self) -> Result<u32, ApplyError> {
        Ok(u32_at(self.take(4)?, 0))
    }

    /// The next 8 bytes.
    ///
    /// # Errors
    /// See [`FieldReader::u8`].
    pub fn u64(&mut self) -> Result<u64, ApplyError> {
        Ok(u64_at(self.take(8)?, 0))
    }

    /// What is left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests;
