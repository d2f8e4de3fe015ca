//! Tagged values of a row: those that are not stored as their bytes.
//!
//! ```text
//! u8:  1 compressed in the row, 2 outside of it, 3 outside and compressed
//! u32: bytes of the value
//! 1:   the compressed bytes (an lz4 block)
//! 2,3: bytes as they are kept outside (u32), id (u64)
//! ```

use super::damaged;
use crate::error::{SqlState, TypeError, TypeResult};

/// Bytes of the tag and the value's length.
const TAG: usize = 5;
/// Bytes that a value outside of its row takes within it.
pub const EXTERNAL_BYTES: usize = TAG + 12;
/// Most bytes that an lz4 block of `n` bytes can stand for, by its format: each byte of a length
/// adds 255.
const fn most_from(n: usize) -> usize {
    n.saturating_mul(255).saturating_add(64)
}
/// Most bytes of a value (PostgreSQL's limit).
pub const MAX_VALUE: usize = 0x3fff_ffff;

const COMPRESSED: u8 = 1;
const OUTSIDE: u8 = 2;
const OUTSIDE_COMPRESSED: u8 = 3;

/// A value that is kept outside of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct External {
    /// The id under which it is kept.
    pub id: u64,
    /// Its bytes as they are kept.
    pub stored: u32,
    /// Its bytes.
    pub raw: u32,
    /// Whether it is kept compressed.
    pub compressed: bool,
}

/// The stored form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored<'a> {
    /// Its bytes.
    Plain(&'a [u8]),
    /// An lz4 block.
    Compressed {
        /// Bytes of the value.
        raw: u32,
        /// The block.
        block: &'a [u8],
    },
    /// Outside of the row.
    External(External),
}

impl<'a> Stored<'a> {
    /// From the bytes of a tagged value.
    pub(super) fn from_tagged(bytes: &'a [u8]) -> TypeResult<Stored<'a>> {
        let bad = || damaged("a bad tag");
        let (tag, rest) = bytes.split_first().ok_or_else(bad)?;
        let (raw, rest) = rest.split_first_chunk::<4>().ok_or_else(bad)?;
        let raw = u32::from_le_bytes(*raw);
        if raw as usize > MAX_VALUE {
            return Err(bad());
        }
        if *tag == COMPRESSED {
            return Ok(Stored::Compressed { raw, block: rest });
        }
        let (stored, id) = rest.split_first_chunk::<4>().ok_or_else(bad)?;
        let id: [u8; 8] = id.try_into().map_err(|_| bad())?;
        if !matches!(*tag, OUTSIDE | OUTSIDE_COMPRESSED) {
            return Err(bad());
        }
        Ok(Stored::External(External {
            id: u64::from_le_bytes(id),
            stored: u32::from_le_bytes(*stored),
            raw,
            compressed: *tag == OUTSIDE_COMPRESSED,
        }))
    }

    /// Bytes of the value.
    pub fn raw_len(&self) -> usize {
        match self {
            Stored::Plain(bytes) => bytes.len(),
            Stored::Compressed { raw, .. } => *raw as usize,
            Stored::External(external) => external.raw as usize,
        }
    }

    /// Bytes as they are kept.
    pub fn stored_len(&self) -> usize {
        match self {
            Stored::Plain(bytes) => bytes.len(),
            Stored::Compressed { block, .. } => TAG + block.len(),
            Stored::External(external) => external.stored as usize,
        }
    }

    /// Bytes that it takes within the row.
    pub(super) fn row_len(&self) -> usize {
        match self {
            Stored::Plain(bytes) => bytes.len(),
            Stored::Compressed { block, .. } => TAG + block.len(),
            Stored::External(_) => EXTERNAL_BYTES,
        }
    }

    /// Appends it as it is within a row.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Stored::Plain(bytes) => out.extend_from_slice(bytes),
            Stored::Compressed { raw, block } => {
                out.push(COMPRESSED);
                out.extend_from_slice(&raw.to_le_bytes());
                out.extend_from_slice(block);
            }
            Stored::External(external) => {
                let compressed = external.compressed;
                out.push(if compressed {
                    OUTSIDE_COMPRESSED
                } else {
                    OUTSIDE
                });
                out.extend_from_slice(&external.raw.to_le_bytes());
                out.extend_from_slice(&external.stored.to_le_bytes());
                out.extend_from_slice(&external.id.to_le_bytes());
            }
        }
    }
}

/// The lz4 block of a value; none if it is not shorter.
pub(super) fn compressed(bytes: &[u8]) -> Option<Vec<u8>> {
    let block = lz4_flex::block::compress(bytes);
    (block.len() + TAG < bytes.len()).then_some(block)
}

/// The value of an lz4 block; XX001 for one that is none.
pub fn decompressed(block: &[u8], raw: u32) -> TypeResult<Vec<u8>> {
    let raw = raw as usize;
    let bad = || damaged("compressed lz4 data is corrupt");
    if raw > most_from(block.len()) {
        return Err(bad());
    }
    let value = lz4_flex::block::decompress(block, raw).map_err(|_| bad())?;
    if value.len() != raw {
        return Err(bad());
    }
    Ok(value)
}

/// 54000 for a value beyond PostgreSQL's limit.
pub(super) fn too_long(length: usize) -> TypeError {
    let message = format!("value of {length} bytes exceeds the maximum of {MAX_VALUE} bytes");
    TypeError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}
