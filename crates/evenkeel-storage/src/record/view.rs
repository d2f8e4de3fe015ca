//! The checked decoder of one record.

use super::fields::{u16_at, u32_at, u64_at};
use super::{
    CLIENT_FLAGS, FLAG_REMOVAL, HEADER_LEN, KNOWN_FLAGS, MAX_RECORD, PART_LEN, PartFlags,
    REMOVAL_LEN, RecordKind, RemovalLsn, aligned, body_crc, salt,
};
use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};

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
    /// The checksum matches, and this program does not know the content: another version wrote it.
    Unknown(Unknown),
}

/// The part of a record's content that this program does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// Its kind.
    Kind(RecordKind),
    /// Flags of storage's own, in a record of this kind.
    Flags(RecordKind, u8),
    /// Flags of a part, in a record of this kind.
    PartFlags(RecordKind, u8),
    /// A fork, in a record of this kind.
    Fork(RecordKind, u8),
    /// How a record of this kind is laid out.
    Structure(RecordKind),
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unknown::Kind(kind) => write!(f, "kind {}", kind.0),
            Unknown::Flags(kind, flags) => write!(f, "flags {flags:#04x} of kind {}", kind.0),
            Unknown::PartFlags(kind, flags) => {
                write!(f, "part flags {flags:#04x} in kind {}", kind.0)
            }
            Unknown::Fork(kind, fork) => write!(f, "fork {fork} in kind {}", kind.0),
            Unknown::Structure(kind) => write!(f, "structure of kind {}", kind.0),
        }
    }
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
    /// The operation, in the manager's numbering.
    pub op: u16,
    /// LSN the page had before.
    pub prev_lsn: Lsn,
    /// The operation's input besides the page.
    pub data: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Reads the record that starts at `bytes[0]`, position `lsn`. `bytes` may go on behind it.
    ///
    /// # Errors
    /// The first reason why these bytes are not that record.
    pub fn parse(bytes: &'a [u8], lsn: Lsn, incarnation: u64) -> Result<Self, RecordFault> {
        let bytes = Self::extent(bytes)?;
        let expected = u32_at(bytes, 4) ^ salt(lsn, incarnation, bytes.len() as u32);
        let is_valid = || body_crc(&bytes[8..]) == expected;
        match Self::check(bytes, lsn) {
            Ok(view) if is_valid() => Ok(view),
            Ok(_) => Err(RecordFault::Checksum),
            Err(unknown) if is_valid() => Err(RecordFault::Unknown(unknown)),
            Err(_) => Err(RecordFault::Structure),
        }
    }

    /// Like [`RecordView::parse`] without the checksum: for records still in memory, and as the
    /// cheap test when looking for records at unknown positions.
    ///
    /// # Errors
    /// The first reason why these bytes cannot be a record.
    pub fn parse_unverified(bytes: &'a [u8], lsn: Lsn) -> Result<Self, RecordFault> {
        Self::check(Self::extent(bytes)?, lsn).map_err(|_| RecordFault::Structure)
    }

    /// The bytes that the length field says are the record.
    fn extent(bytes: &'a [u8]) -> Result<&'a [u8], RecordFault> {
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
        bytes.get(..len).ok_or(RecordFault::Short(len))
    }

    /// Verifies the structure of a whole record.
    fn check(bytes: &'a [u8], lsn: Lsn) -> Result<Self, Unknown> {
        let (kind, flags) = (RecordKind(bytes[24]), bytes[25]);
        if !kind.is_known() {
            return Err(Unknown::Kind(kind));
        }
        if flags & !(KNOWN_FLAGS | CLIENT_FLAGS) != 0 {
            return Err(Unknown::Flags(kind, flags));
        }
        let structure = Unknown::Structure(kind);
        let payload_len = u32_at(bytes, 28) as usize;
        let parts_start = parts_start(flags);
        let least = parts_start + usize::from(u16_at(bytes, 26)) * PART_LEN;
        if u64_at(bytes, 16) > lsn.0 || least.saturating_add(payload_len) > bytes.len() {
            return Err(structure);
        }
        let payload_start = Self::check_parts(bytes, kind)?;
        if payload_start + payload_len != bytes.len() {
            return Err(structure);
        }
        Ok(RecordView {
            lsn,
            bytes,
            payload_start,
        })
    }

    /// Walks the part headers; returns where the payload starts.
    fn check_parts(bytes: &[u8], kind: RecordKind) -> Result<usize, Unknown> {
        let structure = Unknown::Structure(kind);
        let mut at = parts_start(bytes[25]);
        for _ in 0..u16_at(bytes, 26) {
            let data = at + PART_LEN;
            if data > bytes.len() {
                return Err(structure);
            }
            let (fork, flags) = (bytes[at + 12], bytes[at + 13]);
            Fork::from_u8(fork).ok_or(Unknown::Fork(kind, fork))?;
            if flags & !PartFlags::KNOWN != 0 {
                return Err(Unknown::PartFlags(kind, flags));
            }
            let data_len = u32_at(bytes, at + 24) as usize;
            at = data.checked_add(data_len).ok_or(structure)?;
            if at > bytes.len() {
                return Err(structure);
            }
        }
        Ok(at)
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

    /// The record's kind.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        RecordKind(self.bytes[24])
    }

    /// The record's flags.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.bytes[25]
    }

    /// The removal that the record carries, if any.
    #[must_use]
    pub fn removal(&self) -> Option<RemovalLsn> {
        let has_removal = self.flags() & FLAG_REMOVAL != 0;
        has_removal.then(|| RemovalLsn::decode(u64_at(self.bytes, HEADER_LEN)))
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

    /// Length and start of the payload, by which [`RecordView::of_shape`] makes the view again.
    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.bytes.len(), self.payload_start)
    }

    /// The view of a record that was parsed at the start of these bytes, and had this shape.
    pub(crate) fn of_shape(bytes: &'a [u8], lsn: Lsn, shape: (usize, usize)) -> Self {
        RecordView {
            lsn,
            bytes: &bytes[..shape.0],
            payload_start: shape.1,
        }
    }

    /// The parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = PartView<'a>> + use<'a> {
        self.parts_with_offsets().map(|(_, part)| part)
    }

    /// The parts, in order, each with where it starts in the record.
    pub(crate) fn parts_with_offsets(
        &self,
    ) -> impl Iterator<Item = (usize, PartView<'a>)> + use<'a> {
        let bytes = self.bytes;
        let mut at = parts_start(self.flags());
        (0..self.part_count()).map(move |_| {
            let start = at;
            let part = PartView::decode(&bytes[at..]);
            at += PART_LEN + part.data.len();
            (start, part)
        })
    }
}

impl<'a> PartView<'a> {
    /// The part at the start of these bytes, whose record was checked.
    fn decode(bytes: &'a [u8]) -> PartView<'a> {
        let end = PART_LEN + u32_at(bytes, 24) as usize;
        PartView {
            page: PageId {
                file: FileId(u64_at(bytes, 0)),
                fork: Fork::from_u8(bytes[12]).unwrap_or(Fork::Main),
                block: BlockNumber(u32_at(bytes, 8)),
            },
            flags: PartFlags(bytes[13]),
            op: u16_at(bytes, 14),
            prev_lsn: Lsn(u64_at(bytes, 16)),
            data: &bytes[PART_LEN..end],
        }
    }

    /// The part at `offset` of a record that starts with these bytes; `None` when there is none.
    pub(crate) fn at(record: &'a [u8], offset: usize) -> Option<PartView<'a>> {
        let bytes = record.get(offset..)?;
        let head = bytes.get(..PART_LEN)?;
        let end = PART_LEN + u32_at(head, 24) as usize;
        bytes.get(..end).map(PartView::decode)
    }
}

/// Where the first part of a record with these flags starts.
fn parts_start(flags: u8) -> usize {
    let removal = if flags & FLAG_REMOVAL != 0 {
        REMOVAL_LEN
    } else {
        0
    };
    HEADER_LEN + removal
}

impl std::fmt::Debug for RecordView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("lsn", &self.lsn)
            .field("len", &self.bytes.len())
            .field("xid", &self.xid())
            .field("kind", &self.kind().0)
            .field("flags", &self.flags())
            .field("removal", &self.removal())
            .field("parts", &self.part_count())
            .field("payload", &self.payload().len())
            .finish()
    }
}
