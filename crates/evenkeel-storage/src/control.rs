//! The control file: where recovery starts. Two copies, written alternately.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_io::{AlignedBuf, Disk, File, IoErrorKind, OpenOptions};

use crate::error::{StorageError, StorageResult};
use crate::ids::Lsn;

/// Version of everything in the data directory.
pub const FORMAT_VERSION: u32 = 1;
/// Name of the control file.
pub const CONTROL_FILE: &str = "control";
/// Name under which it exists while a database is being created.
pub const CREATING_FILE: &str = "control.new";
/// Most bytes a client may keep in the control block.
pub const MAX_PAYLOAD: usize = 256;

const MAGIC: [u8; 8] = *b"evenkeel";
/// Each copy has a block of its own, so that no write touches both.
const BLOCK: usize = 4096;
const FIXED: usize = 100;
/// Bit of the state field: [`Control::images`].
const IMAGES: u32 = 1 << 16;
/// Behind the client's part.
const REDO_SPEED: usize = BLOCK - 8;
const RESTORE_MICROS: usize = BLOCK - 16;
const WAL_BUFFERS: usize = BLOCK - 24;

/// Whether the database was closed in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Everything is in its files; redo has nothing to do.
    Shutdown,
    /// It is open, or was when the process ended.
    Running,
}

/// Content of the control block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Control {
    /// Random identity of the database.
    pub system_id: u64,
    /// Counts writes of the block; the higher of two valid copies is current.
    pub generation: u64,
    /// Whether it was closed in order.
    pub state: State,
    /// Timeline of the log.
    pub timeline: u32,
    /// Size of a log segment, in bytes.
    pub segment_size: u64,
    /// Redo starts here.
    pub redo: Lsn,
    /// From the redo point on the log has an image of every page that it changes.
    pub images: bool,
    /// Incarnation of the record at the redo point.
    pub incarnation: u64,
    /// The log was durable up to here at least.
    pub durable: Lsn,
    /// No file has this number or a higher one.
    pub next_file: u64,
    /// When the block was written, in microseconds since 1970.
    pub written_at: u64,
    /// Speed of redo as last measured, in bytes of log per second; 0 when it never was.
    pub redo_speed: u64,
    /// How long restoring torn pages took when it was last needed, in microseconds.
    pub restore_micros: u64,
    /// Most bytes of log from the redo point on that were in memory at once: what is valid of it
    /// may lie so far behind a gap.
    pub wal_buffers: u64,
    /// The client's own state.
    pub payload: Vec<u8>,
}

impl Control {
    fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        block[0..8].copy_from_slice(&MAGIC);
        block[12..16].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        let state = match self.state {
            State::Shutdown => 1u32,
            State::Running => 2,
        };
        let state = state | if self.images { IMAGES } else { 0 };
        block[16..20].copy_from_slice(&state.to_le_bytes());
        block[20..24].copy_from_slice(&self.timeline.to_le_bytes());
        let words = [
            self.system_id,
            self.generation,
            self.segment_size,
            self.redo.0,
            self.incarnation,
            self.durable.0,
            self.next_file,
            self.written_at,
            crate::page::PAGE_SIZE as u64,
        ];
        for (place, word) in block[24..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let behind = [
            (REDO_SPEED, self.redo_speed),
            (RESTORE_MICROS, self.restore_micros),
            (WAL_BUFFERS, self.wal_buffers),
        ];
        for (at, word) in behind {
            block[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let len = self.payload.len();
        block[96..FIXED].copy_from_slice(&(len as u32).to_le_bytes());
        block[FIXED..FIXED + len].copy_from_slice(&self.payload);
        let crc = checksum(block);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
    }

    fn decode(block: &[u8]) -> Result<Control, Fault> {
        if block.len() < BLOCK || block[0..8] != MAGIC {
            return Err(Fault::Foreign);
        }
        let half = |at: usize| {
            u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
        };
        let word = |at: usize| u64::from(half(at)) | (u64::from(half(at + 4)) << 32);
        if half(8) != checksum(block) {
            return Err(Fault::Checksum);
        }
        // Behind the checksum, so that a damaged version number is called damage.
        if half(12) != FORMAT_VERSION {
            return Err(Fault::Version(half(12)));
        }
        let state = match half(16) & !IMAGES {
            1 => State::Shutdown,
            2 => State::Running,
            _ => return Err(Fault::Content),
        };
        let segment_size = word(40);
        let payload = block
            .get(FIXED..FIXED + half(96) as usize)
            .ok_or(Fault::Content)?;
        let sound = segment_size.is_power_of_two()
            && segment_size >= 4096
            && word(88) == crate::page::PAGE_SIZE as u64
            && payload.len() <= MAX_PAYLOAD
            && word(48) >= segment_size;
        if !sound {
            return Err(Fault::Content);
        }
        Ok(Control {
            system_id: word(24),
            generation: word(32),
            state,
            timeline: half(20),
            segment_size,
            redo: Lsn(word(48)),
            images: half(16) & IMAGES != 0,
            incarnation: word(56),
            durable: Lsn(word(64)),
            next_file: word(72),
            written_at: word(80),
            redo_speed: word(REDO_SPEED),
            restore_micros: word(RESTORE_MICROS),
            wal_buffers: word(WAL_BUFFERS),
            payload: payload.to_vec(),
        })
    }
}

fn checksum(block: &[u8]) -> u32 {
    let mut copy = block[..BLOCK].to_vec();
    copy[8..12].fill(0);
    crc_fast::crc32_iscsi(&copy)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Foreign,
    Checksum,
    Version(u32),
    Content,
}

impl Fault {
    fn text(self) -> &'static str {
        match self {
            Fault::Foreign => "not a control block",
            Fault::Checksum => "checksum does not match",
            Fault::Version(_) => "other version",
            Fault::Content => "fields out of range",
        }
    }
}

/// The open control file.
pub struct ControlFile {
    file: Arc<dyn File>,
    fsync: bool,
    current: Control,
}

impl ControlFile {
    /// Writes the first control block under a temporary name. The database exists only after
    /// [`ControlFile::publish`].
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(
        disk: &dyn Disk,
        dir: &Path,
        mut first: Control,
        fsync: bool,
    ) -> StorageResult<()> {
        let file = disk.open(&dir.join(CREATING_FILE), OpenOptions::create().truncate())?;
        first.generation = 1;
        let mut blocks = AlignedBuf::zeroed(2 * BLOCK);
        first.encode(&mut blocks[..BLOCK]);
        first.generation = 2;
        first.encode(&mut blocks[BLOCK..]);
        file.write_all_at(&blocks, 0)?;
        if fsync {
            file.sync_all()?;
        }
        Ok(())
    }

    /// Gives a created control file its name: from here on the database exists.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn publish(disk: &dyn Disk, dir: &Path, fsync: bool) -> StorageResult<()> {
        disk.rename(&dir.join(CREATING_FILE), &dir.join(CONTROL_FILE))?;
        if fsync {
            disk.sync_dir(dir)?;
        }
        Ok(())
    }

    /// Reads the control block without changing anything.
    ///
    /// # Errors
    /// [`StorageError::NotADatabase`], [`StorageError::WrongVersion`] or
    /// [`StorageError::ControlDamaged`].
    pub fn read(disk: &dyn Disk, dir: &Path) -> StorageResult<Control> {
        Self::read_both(disk, dir, OpenOptions::read_only()).map(|(_, control)| control)
    }

    /// Opens the control file for writing.
    ///
    /// # Errors
    /// As [`ControlFile::read`].
    pub fn open(disk: &dyn Disk, dir: &Path, fsync: bool) -> StorageResult<ControlFile> {
        let (file, current) = Self::read_both(disk, dir, OpenOptions::read_write())?;
        Ok(ControlFile {
            file,
            fsync,
            current,
        })
    }

    fn read_both(
        disk: &dyn Disk,
        dir: &Path,
        options: OpenOptions,
    ) -> StorageResult<(Arc<dyn File>, Control)> {
        let path = dir.join(CONTROL_FILE);
        let file = match disk.open(&path, options) {
            Err(error) if error.kind() == IoErrorKind::NotFound => {
                return Err(not_a_database(dir, "it has no control file"));
            }
            opened => opened?,
        };
        let mut blocks = vec![0; 2 * BLOCK];
        let len = file.read_at(&mut blocks, 0)?;
        blocks.truncate(len);
        let second = blocks.get(BLOCK..).unwrap_or_default();
        match (Control::decode(&blocks), Control::decode(second)) {
            (Ok(a), Ok(b)) => Ok((file, if a.generation > b.generation { a } else { b })),
            (Ok(only), Err(fault)) | (Err(fault), Ok(only)) => {
                tracing::warn!(
                    "one copy of the control block is unusable: {}",
                    fault.text()
                );
                Ok((file, only))
            }
            (Err(Fault::Foreign), Err(Fault::Foreign)) => {
                Err(not_a_database(dir, "its control file is not evenkeel's"))
            }
            (Err(Fault::Version(found)), Err(_)) | (Err(_), Err(Fault::Version(found))) => {
                Err(StorageError::WrongVersion {
                    path: dir.to_owned(),
                    found,
                    expected: FORMAT_VERSION,
                })
            }
            (Err(a), Err(b)) => Err(StorageError::ControlDamaged {
                path,
                reason: format!("first copy: {}; second copy: {}", a.text(), b.text()),
            }),
        }
    }

    /// The block as last read or written.
    #[must_use]
    pub fn current(&self) -> &Control {
        &self.current
    }

    /// Writes `next` over the older copy and syncs it. Its generation is set here.
    ///
    /// # Errors
    /// When writing or syncing fails: then either block may be on disk, and the instance must
    /// not go on.
    pub fn write(&mut self, mut next: Control) -> StorageResult<()> {
        if next.payload.len() > MAX_PAYLOAD {
            return Err(StorageError::Config(format!(
                "control payload of {} bytes, at most {MAX_PAYLOAD}",
                next.payload.len()
            )));
        }
        next.generation = self.current.generation + 1;
        let mut block = AlignedBuf::zeroed(BLOCK);
        next.encode(&mut block);
        // Generation 1 is in the first block.
        let offset = (next.generation + 1) % 2 * BLOCK as u64;
        self.file.write_all_at(&block, offset)?;
        if self.fsync {
            self.file.sync_data()?;
        }
        self.current = next;
        Ok(())
    }
}

pub(crate) fn not_a_database(dir: &Path, reason: &str) -> StorageError {
    StorageError::NotADatabase {
        path: PathBuf::from(dir),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_io::{FileDisk, IoMethod};

    fn sample(redo: u64) -> Control {
        Control {
            system_id: 77,
            generation: 0,
            state: State::Running,
            timeline: 1,
            segment_size: 1 << 16,
            redo: Lsn(redo),
            images: redo & 1 << 16 != 0,
            incarnation: 5,
            durable: Lsn(redo + 8),
            next_file: 20_000,
            redo_speed: redo * 3,
            restore_micros: redo * 5,
            wal_buffers: redo * 7,
            written_at: 1,
            payload: b"client".to_vec(),
        }
    }

    fn created(dir: &Path) -> FileDisk {
        let disk = FileDisk::new(IoMethod::Sync);
        ControlFile::create(&disk, dir, sample(1 << 16), true).expect("create");
        ControlFile::publish(&disk, dir, true).expect("publish");
        disk
    }

    fn damage(dir: &Path, offset: usize) {
        let path = dir.join(CONTROL_FILE);
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[offset] ^= 0x10;
        std::fs::write(&path, bytes).expect("write");
    }

    /// control rule 1: a torn write of one copy leaves the other.
    #[test]
    fn one_damaged_copy_leaves_the_other_and_two_are_an_error() {
        for field in [8, 13, 17, 50, 99, 103, 4000] {
            let dir = tempfile::tempdir().expect("temporary directory");
            let disk = created(dir.path());
            let mut control = ControlFile::open(&disk, dir.path(), true).expect("open");
            control.write(sample(2 << 16)).expect("write");
            drop(control);
            assert_eq!(
                ControlFile::read(&disk, dir.path()).expect("read").redo.0,
                2 << 16
            );
            damage(dir.path(), field);
            assert_eq!(
                ControlFile::read(&disk, dir.path()).expect("read").redo.0,
                1 << 16
            );
            damage(dir.path(), BLOCK + field);
            let error = ControlFile::read(&disk, dir.path()).expect_err("both damaged");
            assert!(
                matches!(error, StorageError::ControlDamaged { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn writes_alternate_between_the_copies() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let disk = created(dir.path());
        let mut control = ControlFile::open(&disk, dir.path(), true).expect("open");
        for i in 3..9u64 {
            let before = std::fs::read(dir.path().join(CONTROL_FILE)).expect("read");
            control.write(sample(i << 16)).expect("write");
            let after = std::fs::read(dir.path().join(CONTROL_FILE)).expect("read");
            let first = before[..BLOCK] != after[..BLOCK];
            assert_ne!(first, before[BLOCK..] != after[BLOCK..]);
            assert_eq!(first, i % 2 == 1, "generation {i}");
            let read = ControlFile::read(&disk, dir.path()).expect("read");
            assert_eq!((read.generation, read.redo), (i, Lsn(i << 16)));
            assert_eq!(read.payload, b"client");
        }
    }

    #[test]
    fn foreign_files_and_other_versions_are_told_apart() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let disk = FileDisk::new(IoMethod::Sync);
        let read = || ControlFile::read(&disk, dir.path());
        assert!(matches!(read(), Err(StorageError::NotADatabase { .. })));
        for content in [b"something else".to_vec(), Vec::new(), vec![0; 8192]] {
            std::fs::write(dir.path().join(CONTROL_FILE), content).expect("write");
            assert!(matches!(read(), Err(StorageError::NotADatabase { .. })));
        }
        let mut block = vec![0; BLOCK];
        sample(1 << 16).encode(&mut block);
        block[12] = 9;
        let crc = checksum(&block);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(dir.path().join(CONTROL_FILE), block.repeat(2)).expect("write");
        assert!(matches!(
            read(),
            Err(StorageError::WrongVersion { found: 9, .. })
        ));
    }
}
