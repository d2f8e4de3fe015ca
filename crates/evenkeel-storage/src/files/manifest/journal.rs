//! The manifest's file: two names, used in turn. A journal is a sequence of frames, each with a
//! checksum that continues the one before it, so that the position in the control block says
//! exactly which bytes belong to it. Bytes behind that position belong to a checkpoint that did
//! not complete.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_io::{Disk, File, IoError, IoErrorKind, IoResult, OpenOptions};

use super::super::sync_table::SyncTable;
use crate::error::{ApplyError, StorageError, StorageResult};
use crate::ids::{FileId, Fork, Lsn};
use crate::record::FieldReader;

/// Length and checksum.
const FRAME_HEADER: usize = 8;
/// A frame is written when it is as long as this; one item more fits always.
const FRAME: usize = 256 << 10;
const LONGEST_FRAME: usize = FRAME + 64;
/// A journal shorter than this goes on, however little was in it when it was begun.
const LEAST: u64 = 64 << 10;

const DROP: u8 = 1;
const FORK: u8 = 2;
const RUN: u8 = 3;

/// Which journal counts, and how much of it: kept in the control block.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ManifestPosition {
    /// Counts journals; 0 when there is none.
    pub number: u64,
    /// Bytes of it that count.
    pub len: u64,
    /// The checksum of its last frame, which continues those before it.
    pub crc: u32,
}

/// One entry of a journal; entries apply in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Item {
    /// The file was dropped.
    Drop(FileId),
    /// The fork was cut to `least` blocks, and has `len` now; the pages that follow are its own.
    Fork {
        file: FileId,
        fork: Fork,
        least: u32,
        len: u32,
    },
    /// The page was written home with this LSN.
    Page { block: u32, lsn: Lsn },
}

fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("manifest.{}", number % 2))
}

fn checksum(before: u32, body: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&before.to_le_bytes());
    digest.update(body);
    // A CRC of 32 bits.
    digest.finalize() as u32
}

/// The checksum that the first frame of a journal continues.
fn seed(number: u64) -> u32 {
    checksum(0, &number.to_le_bytes())
}

/// The journal that is being written.
#[derive(Default)]
pub(super) struct Journal {
    /// `None`: the next one is to be begun.
    file: Option<Arc<dyn File>>,
    at: ManifestPosition,
    /// It is begun anew when it is as long as this.
    limit: u64,
    /// The number of the last one that was begun.
    last: u64,
    unsynced: bool,
    /// Its name may not be durable yet.
    unnamed: bool,
}

impl Journal {
    /// A journal is to be begun behind the one with this number.
    pub(super) fn after(number: u64) -> Journal {
        Journal {
            last: number,
            ..Journal::default()
        }
    }

    pub(super) fn position(&self) -> ManifestPosition {
        self.at
    }

    pub(super) fn is_due_anew(&self) -> bool {
        self.file.is_none() || self.at.len >= self.limit
    }

    /// Says how long a journal of all that is known would be.
    pub(super) fn holds(&mut self, len: u64) {
        self.limit = LEAST.max(2 * len);
    }

    /// Abandons the present journal: its content does not count, and the next one is begun anew.
    pub(super) fn break_off(&mut self) {
        *self = Journal::after(self.last);
    }

    /// Begins the next journal under the other name; the present one stays as it is.
    pub(super) fn begin_anew(
        &mut self,
        sync: &SyncTable,
        dir: &Path,
        fill: &mut dyn FnMut(&mut Frames<'_>) -> IoResult<()>,
    ) -> StorageResult<()> {
        let open = |number| {
            let path = path(dir, number);
            sync.with_descriptor(|| sync.disk().open(&path, OpenOptions::create()))
        };
        // Until it is written the next one has this name again: the other may still count.
        let number = self.last + 1;
        let file = open(number)?;
        self.at = ManifestPosition {
            number,
            len: 0,
            crc: seed(number),
        };
        self.file = Some(Arc::clone(&file));
        self.unnamed = true;
        self.append(fill)?;
        self.last = number;
        self.holds(self.at.len);
        // So that the next ones find room on a full disk. If there is none, that one will say so.
        for file in [file, open(number + 1)?] {
            match file.allocate(0, self.limit) {
                Err(error) if error.kind() != IoErrorKind::NoSpace => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes what `fill` says behind what is there.
    pub(super) fn append(
        &mut self,
        fill: &mut dyn FnMut(&mut Frames<'_>) -> IoResult<()>,
    ) -> IoResult<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        self.unsynced = true;
        let mut frames = Frames {
            file: &**file,
            at: self.at,
            frame: Vec::new(),
            fork: None,
            run: None,
        };
        fill(&mut frames)?;
        frames.write()?;
        self.at = frames.at;
        Ok(())
    }

    /// Makes what was written durable, and the names of both files.
    pub(super) fn sync(&mut self, sync: &SyncTable, dir: &Path) -> StorageResult<()> {
        if let Some(file) = self.file.as_ref().filter(|_| self.unsynced) {
            file.sync_data().map_err(|error| sync.fail(error))?;
        }
        self.unsynced = false;
        if self.unnamed {
            sync.sync_entries(dir)?;
        }
        self.unnamed = false;
        Ok(())
    }

    /// Reads the journal at `at`, telling `each` of its items, which answers `None` for one that
    /// makes no sense.
    pub(super) fn read(
        disk: &dyn Disk,
        dir: &Path,
        at: ManifestPosition,
        each: &mut dyn FnMut(Item) -> Option<()>,
    ) -> StorageResult<Journal> {
        let path = path(dir, at.number);
        let damaged = |offset: u64, reason: &str| StorageError::FileDamaged {
            path: path.clone(),
            offset,
            reason: reason.to_owned(),
        };
        let short = |error: IoError, offset| match error.kind() {
            IoErrorKind::NotFound => damaged(offset, "it is missing"),
            IoErrorKind::UnexpectedEof => damaged(offset, "it ends too early"),
            _ => StorageError::from(error),
        };
        let file = disk.open(&path, OpenOptions::read_write());
        let file = file.map_err(|error| short(error, 0))?;
        let mut read = ManifestPosition {
            len: 0,
            crc: seed(at.number),
            ..at
        };
        let mut body = vec![0; LONGEST_FRAME];
        while read.len < at.len {
            let foreign = || damaged(read.len, "it is not the one that the control file names");
            let mut header = [0; FRAME_HEADER];
            file.read_exact_at(&mut header, read.len)
                .map_err(|error| short(error, read.len))?;
            let [a, b, c, d, crc @ ..] = header;
            let len = u32::from_le_bytes([a, b, c, d]) as usize;
            let body = body.get_mut(..len).ok_or_else(foreign)?;
            let start = read.len + FRAME_HEADER as u64;
            file.read_exact_at(body, start)
                .map_err(|error| short(error, start))?;
            let crc = u32::from_le_bytes(crc);
            if checksum(read.crc, body) != crc {
                return Err(foreign());
            }
            items(body, each)
                .ok()
                .flatten()
                .ok_or_else(|| damaged(read.len, "it says what cannot be"))?;
            read.len = start + len as u64;
            read.crc = crc;
        }
        if read != at {
            return Err(damaged(
                at.len,
                "it is not the one that the control file names",
            ));
        }
        Ok(Journal {
            file: Some(file),
            at,
            limit: LEAST,
            last: at.number,
            unsynced: false,
            unnamed: false,
        })
    }
}

/// Tells `each` of a frame's items.
fn items(body: &[u8], each: &mut dyn FnMut(Item) -> Option<()>) -> Result<Option<()>, ApplyError> {
    let mut fields = FieldReader::new(body);
    while !fields.rest().is_empty() {
        let kind = fields.u8()?;
        let item = match kind {
            DROP => Item::Drop(FileId(fields.u64()?)),
            FORK => {
                let file = FileId(fields.u64()?);
                let fork = fields.u8()?;
                Item::Fork {
                    file,
                    fork: Fork::from_u8(fork).ok_or_else(|| ApplyError::new("no such fork"))?,
                    least: fields.u32()?,
                    len: fields.u32()?,
                }
            }
            RUN => {
                let (first, count) = (fields.u32()?, fields.u32()?);
                for at in 0..count {
                    let lsn = Lsn(fields.u64()?);
                    let page = first.checked_add(at).map(|block| Item::Page { block, lsn });
                    if page.and_then(&mut *each).is_none() {
                        return Ok(None);
                    }
                }
                continue;
            }
            other => return Err(ApplyError::new(format!("no such item: {other}"))),
        };
        if each(item).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(()))
}

/// Puts items into frames and writes those.
pub(super) struct Frames<'a> {
    file: &'a dyn File,
    at: ManifestPosition,
    frame: Vec<u8>,
    /// The fork whose pages come next.
    fork: Option<Item>,
    /// The run that is being written: where its count is, and the next block.
    run: Option<(usize, u32)>,
}

impl Frames<'_> {
    pub(super) fn put(&mut self, item: Item) -> IoResult<()> {
        if self.frame.len() >= FRAME {
            self.write()?;
            if let Some(fork) = self.fork
                && matches!(item, Item::Page { .. })
            {
                self.encode(fork);
            }
        }
        if let Item::Fork {
            file, fork, len, ..
        } = item
        {
            // Said again, it cuts nothing.
            let least = len;
            self.fork = Some(Item::Fork {
                file,
                fork,
                least,
                len,
            });
        }
        self.encode(item);
        Ok(())
    }

    fn encode(&mut self, item: Item) {
        if self.frame.is_empty() {
            self.frame.resize(FRAME_HEADER, 0);
        }
        let out = &mut self.frame;
        match item {
            Item::Drop(file) => {
                out.push(DROP);
                out.extend_from_slice(&file.0.to_le_bytes());
            }
            Item::Fork {
                file,
                fork,
                least,
                len,
            } => {
                out.push(FORK);
                out.extend_from_slice(&file.0.to_le_bytes());
                out.push(fork as u8);
                out.extend_from_slice(&least.to_le_bytes());
                out.extend_from_slice(&len.to_le_bytes());
            }
            Item::Page { block, lsn } => {
                let at = match self.run {
                    Some((at, next)) if next == block => at,
                    _ => {
                        out.push(RUN);
                        out.extend_from_slice(&block.to_le_bytes());
                        out.extend_from_slice(&0u32.to_le_bytes());
                        out.len() - 4
                    }
                };
                out.extend_from_slice(&lsn.0.to_le_bytes());
                let count = ((out.len() - at - 4) / 8) as u32;
                out[at..at + 4].copy_from_slice(&count.to_le_bytes());
                // A block number is below `u32::MAX`.
                self.run = Some((at, block.wrapping_add(1)));
                return;
            }
        }
        self.run = None;
    }

    /// Writes the frame that is begun, if one is.
    fn write(&mut self) -> IoResult<()> {
        self.run = None;
        if self.frame.is_empty() {
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.frame);
        let crc = checksum(self.at.crc, &frame[FRAME_HEADER..]);
        let len = (frame.len() - FRAME_HEADER) as u32;
        frame[..4].copy_from_slice(&len.to_le_bytes());
        frame[4..FRAME_HEADER].copy_from_slice(&crc.to_le_bytes());
        self.file.write_all_at(&frame, self.at.len)?;
        self.at.len += frame.len() as u64;
        self.at.crc = crc;
        Ok(())
    }
}
