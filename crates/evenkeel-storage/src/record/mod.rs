//! The format of a log record, its encoder and its checked decoder.
//!
//! ```text
//! record  total_len u32 | crc u32 | xid u64 | durable u64 | kind u8 | flags u8 | parts u16
//!         | payload_len u32 | [removal u64] | part … | payload
//! part    file u64 | block u32 | fork u8 | flags u8 | op u16 | prev_lsn u64 | data_len u32 | data
//! ```
//! Little endian, unaligned inside, each record starting at a multiple of 8. The checksum covers
//! everything behind the first 8 bytes and is salted with the record's LSN, its length and the
//! incarnation. The salt is mixed in at the end, so that the bytes can be summed before the LSN
//! is known (WAL-2 and WAL-3).
//!
//! The removal is there if [`FLAG_REMOVAL`] is set. A record whose checksum fits and whose content
//! this program does not know was written by another version; it is not the end of the log
//! (WAL-16).

mod builder;
mod fields;
pub mod files;
pub mod image;
mod incarnation;
mod removal;
mod view;

pub use self::builder::RecordBuilder;
pub use self::fields::FieldReader;
pub(crate) use self::fields::{u16_at, u32_at, u64_at};
pub use self::incarnation::{Incarnation, LOG_VERSION};
pub use self::removal::RemovalLsn;
pub use self::view::{PartView, RecordFault, RecordView, Unknown};
use crate::ids::Lsn;

/// Bytes of a record's header without its extension.
pub const HEADER_LEN: usize = 32;
/// Bytes of the header's extension with the removal.
pub const REMOVAL_LEN: usize = 8;
/// Bytes of a part before its data.
pub const PART_LEN: usize = 28;
/// Largest record, in bytes.
pub const MAX_RECORD: usize = 1 << 20;
/// Records start at multiples of this.
pub const ALIGN: usize = 8;

/// Set on a record whose completion the manager wants to hear of, in log order.
pub const FLAG_NOTIFY: u8 = 1;
/// Set on a record with a [`RemovalLsn`].
pub const FLAG_REMOVAL: u8 = 2;
/// Flags of storage's own that this program knows.
const KNOWN_FLAGS: u8 = FLAG_NOTIFY | FLAG_REMOVAL;
/// Bits of a record's flags that are the manager's own.
pub const CLIENT_FLAGS: u8 = 0xF0;

/// Length rounded up to where the next record starts.
#[inline]
#[must_use]
pub const fn aligned(len: usize) -> usize {
    (len + ALIGN - 1) & !(ALIGN - 1)
}

/// The kind of a record. Numbers below [`RecordKind::FIRST_CLIENT`] are storage's own.
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
    /// The content of pages after the records before it (`wal_consistency_checking`).
    pub const RESULT: RecordKind = RecordKind(7);
    /// Files created by transactions that had not ended when a checkpoint began: each file's
    /// number and its transaction's.
    pub const OPEN_FILES: RecordKind = RecordKind(8);
    /// The first number a manager may use.
    pub const FIRST_CLIENT: u8 = 16;
    /// A record that only changes pages.
    pub const PAGES: RecordKind = RecordKind(Self::FIRST_CLIENT);

    /// Whether storage itself interprets the record.
    #[must_use]
    pub const fn is_storage(self) -> bool {
        self.0 < Self::FIRST_CLIENT
    }

    const fn is_known(self) -> bool {
        self.0 >= Self::FIRST_CLIENT || (self.0 >= 1 && self.0 <= Self::OPEN_FILES.0)
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
            Self::OPEN_FILES => Some("OPEN_FILES"),
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
    /// The data is the whole page (see [`crate::record::image`]); storage applies it itself.
    pub const IMAGE: PartFlags = PartFlags(2);
    /// The data begins with an image of the page as it was before (see
    /// [`crate::record::image`]), which the operation then changes.
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

    /// Whether the part needs nothing of what the page held.
    #[inline]
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.contains(Self::INIT) || self.contains(Self::BEFORE)
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

/// The first 8 bytes of a record: its length and its salted checksum. Never zero, so its
/// appearance in the ring says that the record is complete.
#[inline]
#[must_use]
pub fn completion_mark(lsn: Lsn, incarnation: u64, total_len: u32, body_crc: u32) -> u64 {
    let crc = body_crc ^ salt(lsn, incarnation, total_len);
    u64::from(total_len) | (u64::from(crc) << 32)
}

#[cfg(test)]
mod tests;
