//! How long every fork was when the database was closed in order, so that a file cut or removed
//! meanwhile is noticed. A file of its own: little endian, a header, entries, a checksum.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use evenkeel_io::{AlignedBuf, Disk, IoErrorKind, OpenOptions};

use super::FileSpace;
use crate::error::{StorageError, StorageResult};
use crate::ids::{FileId, Fork};
use crate::page::PAGE_SIZE;

const NAME: &str = "lengths";
const MAGIC: [u8; 8] = *b"evkl-len";
const HEADER: usize = 24;
const ENTRY: usize = 16;
const CRC: usize = 4;
/// Nothing longer is read: 64 million forks.
const LONGEST: usize = 1 << 30;

/// Blocks by fork; forks without any are left out.
pub(super) type Lengths = HashMap<(FileId, Fork), u32>;

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

fn encode(lengths: &Lengths, generation: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + lengths.len() * ENTRY + CRC);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&generation.to_le_bytes());
    bytes.extend_from_slice(&(lengths.len() as u64).to_le_bytes());
    for ((file, fork), blocks) in lengths {
        bytes.extend_from_slice(&file.0.to_le_bytes());
        bytes.extend_from_slice(&u32::from(*fork as u8).to_le_bytes());
        bytes.extend_from_slice(&blocks.to_le_bytes());
    }
    let crc = crc_fast::crc32_iscsi(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// `None` for anything but what was written at the end that the control block's `generation` is of.
fn decode(bytes: &[u8], generation: u64) -> Option<Lengths> {
    let (body, crc) = bytes.split_at_checked(bytes.len().checked_sub(CRC)?)?;
    if crc_fast::crc32_iscsi(body).to_le_bytes() != crc {
        return None;
    }
    let (header, entries) = body.split_at_checked(HEADER)?;
    let word = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    let known = header.get(..8)? == MAGIC && word(header.get(8..16)?)? == generation;
    if !known || entries.len() % ENTRY != 0 {
        return None;
    }
    let entry = |bytes: &[u8]| {
        let file = FileId(word(bytes.get(..8)?)?);
        let fork = Fork::from_u8(*bytes.get(8)?)?;
        let blocks = u32::from_le_bytes(bytes.get(12..)?.try_into().ok()?);
        Some(((file, fork), blocks))
    };
    entries.chunks_exact(ENTRY).map(entry).collect()
}

/// Writes the lengths as they are.
pub(super) fn write(space: &FileSpace, dir: &Path, generation: u64) -> StorageResult<()> {
    // Of forks that nobody has opened, and of those found damaged, which stay so.
    let mut lengths = space.lengths.read().clone();
    for file in space.list()? {
        for fork in Fork::ALL {
            let blocks = blocks(space, file, fork)?;
            if blocks > 0 {
                let known = lengths.entry((file, fork)).or_default();
                *known = blocks.max(*known);
            }
        }
    }
    let disk = space.disk();
    let file = disk.open(&path(dir), OpenOptions::create().truncate())?;
    let bytes = encode(&lengths, generation);
    let mut buf = AlignedBuf::zeroed(bytes.len());
    buf[..bytes.len()].copy_from_slice(&bytes);
    file.write_all_at(&buf[..bytes.len()], 0)?;
    file.sync_all()?;
    disk.sync_dir(dir)?;
    Ok(())
}

/// Reads what was written at that end; nothing when there is nothing of it.
pub(super) fn read(disk: &dyn Disk, dir: &Path, generation: u64) -> StorageResult<Lengths> {
    let file = match disk.open(&path(dir), OpenOptions::read_only()) {
        Ok(file) => file,
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Lengths::new()),
        Err(error) => return Err(error.into()),
    };
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    if !(HEADER + CRC..=LONGEST).contains(&len) {
        return Ok(Lengths::new());
    }
    let mut bytes = AlignedBuf::zeroed(len);
    file.read_exact_at(&mut bytes[..len], 0)?;
    Ok(decode(&bytes[..len], generation).unwrap_or_default())
}

/// Blocks of a fork from its beginning to the first that is missing.
fn blocks(space: &FileSpace, file: FileId, fork: Fork) -> StorageResult<u32> {
    let full = space.segment_blocks;
    let mut blocks = 0u32;
    for number in 0.. {
        let path = space.path(file, fork, number);
        let segment = match space.disk.open(&path, OpenOptions::read_only()) {
            Ok(segment) => segment,
            Err(error) if error.kind() == IoErrorKind::NotFound => break,
            Err(error) => return Err(error.into()),
        };
        let here = u32::try_from(segment.len()? / PAGE_SIZE as u64).map_or(full, |n| n.min(full));
        blocks = blocks.saturating_add(here);
        if here < full {
            break;
        }
    }
    Ok(blocks)
}

/// A fork that has lost its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Blocks that are there.
    pub(super) found: u32,
    /// Blocks that were.
    pub(super) expected: u32,
}

impl Cut {
    /// What is wrong with `file`'s fork.
    pub(super) fn error(self, space: &FileSpace, file: FileId, fork: Fork) -> StorageError {
        let Cut { found, expected } = self;
        StorageError::FileDamaged {
            path: space.path(file, fork, found / space.segment_blocks),
            offset: u64::from(found % space.segment_blocks) * PAGE_SIZE as u64,
            reason: format!(
                "{found} blocks are there, and {expected} were when the database was shut down"
            ),
        }
    }
}

/// Whether a fork is shorter than it was, looked at before anything is done with it.
pub(super) fn cut(space: &FileSpace, file: FileId, fork: Fork) -> StorageResult<Option<Cut>> {
    let Some(expected) = space.lengths.read().get(&(file, fork)).copied() else {
        return Ok(None);
    };
    let found = blocks(space, file, fork)?;
    if found < expected {
        return Ok(Some(Cut { found, expected }));
    }
    space.lengths.write().remove(&(file, fork));
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_round_trip_and_only_those_of_the_last_end_count() {
        let lengths = Lengths::from([
            ((FileId(7), Fork::Main), 12),
            ((FileId(7), Fork::Vm), 1),
            ((FileId::status(3), Fork::Main), u32::MAX),
        ]);
        let bytes = encode(&lengths, 9);
        assert_eq!(decode(&bytes, 9), Some(lengths));
        assert_eq!(decode(&bytes, 8), None);
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut], 9), None, "{cut}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(decode(&damaged, 9), None, "{at}");
        }
    }
}
