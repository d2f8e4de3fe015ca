//! The control file: where recovery starts. Two copies, written alternately.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_io::{AlignedBuf, BootId, Disk, File, IoErrorKind, OpenOptions};

use crate::config::is_segment_size;
use crate::error::{StorageError, StorageResult};
use crate::files::ManifestPosition;
use crate::gaps::{Gap, Gaps};
use crate::ids::Lsn;
use crate::record::{ALIGN, FieldReader};
use crate::retry;

/// Version of everything in the data directory.
pub const FORMAT_VERSION: u32 = 9;
/// Name of the control file.
pub const CONTROL_FILE: &str = "control";
/// Name under which it exists while a database is being created.
pub const CREATING_FILE: &str = "control.new";
/// Most bytes a manager may keep in the control block.
pub const MAX_PAYLOAD: usize = 256;
/// Most gaps of the log that a control block names: the newest ones.
pub const MOST_GAPS: usize = 200;

const MAGIC: [u8; 8] = *b"evenkeel";
/// Each copy has a block of its own, so that no write touches both.
const BLOCK: usize = 4096;
const FIXED: usize = 100;
/// No counter and no position comes so far: adding to one that is read does not overflow.
const LAST: u64 = 1 << 62;
/// Bit of the state field: [`Control::images`].
const IMAGES: u32 = 1 << 16;
/// Behind the manager's part: how many gaps there are, and their bounds.
const GAPS: usize = FIXED + MAX_PAYLOAD;
const FIRST_GAP: usize = GAPS + 4;
const GAP: usize = 16;
/// At the end of the block.
const REDO_SPEED: usize = BLOCK - 8;
const RESTORE_MICROS: usize = BLOCK - 16;
const MANIFEST_NUMBER: usize = BLOCK - 24;
const MANIFEST_LEN: usize = BLOCK - 32;
const MANIFEST_CRC: usize = BLOCK - 40;
const BOOT: usize = BLOCK - 56;
const TERM: usize = BLOCK - 64;

const _: () = assert!(FIRST_GAP + MOST_GAPS * GAP <= TERM);

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
    /// Term of the node that writes the log.
    pub term: u64,
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
    /// Where the log has been passed over, of which a block names the newest [`MOST_GAPS`].
    pub gaps: Gaps,
    /// No file has this number or a higher one.
    pub next_file: u64,
    /// When the block was written, in microseconds since 1970.
    pub written_at: u64,
    /// Speed of redo as last measured, in bytes of log per second; 0 when it never was.
    pub redo_speed: u64,
    /// How long restoring torn pages took when it was last needed, in microseconds.
    pub restore_micros: u64,
    /// Where it is written how long files are, and of which LSN their pages.
    pub manifest: ManifestPosition,
    /// The run of the kernel under which files were last written; `None` if it was unknown.
    pub boot: Option<BootId>,
    /// The manager's own state.
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
            (MANIFEST_NUMBER, self.manifest.number),
            (MANIFEST_LEN, self.manifest.len),
            (MANIFEST_CRC, self.manifest.crc.into()),
            (TERM, self.term),
        ];
        for (at, word) in behind {
            block[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let boot = self.boot.map_or(0, |BootId(id)| id.get());
        block[BOOT..BOOT + 16].copy_from_slice(&boot.to_le_bytes());
        let len = self.payload.len();
        block[96..FIXED].copy_from_slice(&(len as u32).to_le_bytes());
        block[FIXED..FIXED + len].copy_from_slice(&self.payload);
        encode_gaps(&self.gaps, block);
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
        let [generation, redo, durable] = [word(32), word(48), word(64)];
        let sound = is_segment_size(segment_size)
            && word(88) == crate::page::PAGE_SIZE as u64
            && payload.len() <= MAX_PAYLOAD
            && is_position(redo)
            && redo >= segment_size
            && is_position(durable)
            && generation < LAST
            && word(72) < LAST;
        if !sound {
            return Err(Fault::Content);
        }
        Ok(Control {
            system_id: word(24),
            generation,
            state,
            timeline: half(20),
            term: word(TERM),
            segment_size,
            redo: Lsn(redo),
            images: half(16) & IMAGES != 0,
            incarnation: word(56),
            durable: Lsn(durable),
            gaps: decode_gaps(block).ok_or(Fault::Content)?,
            next_file: word(72),
            written_at: word(80),
            redo_speed: word(REDO_SPEED),
            restore_micros: word(RESTORE_MICROS),
            manifest: ManifestPosition {
                number: word(MANIFEST_NUMBER),
                len: word(MANIFEST_LEN),
                crc: half(MANIFEST_CRC),
            },
            boot: NonZero::new(u128::from(word(BOOT)) | (u128::from(word(BOOT + 8)) << 64))
                .map(BootId),
            payload: payload.to_vec(),
        })
    }
}

fn is_position(lsn: u64) -> bool {
    lsn < LAST && lsn.is_multiple_of(ALIGN as u64)
}

fn encode_gaps(gaps: &Gaps, block: &mut [u8]) {
    let list = gaps.list();
    let newest = &list[list.len().saturating_sub(MOST_GAPS)..];
    block[GAPS..FIRST_GAP].copy_from_slice(&(newest.len() as u32).to_le_bytes());
    for (place, gap) in block[FIRST_GAP..].chunks_exact_mut(GAP).zip(newest) {
        place[..8].copy_from_slice(&gap.start.0.to_le_bytes());
        place[8..].copy_from_slice(&gap.end.0.to_le_bytes());
    }
}

/// The gaps that a block names, if they are sound.
fn decode_gaps(block: &[u8]) -> Option<Gaps> {
    let mut fields = FieldReader::new(&block[GAPS..TERM]);
    let count = fields.u32().ok()? as usize;
    let mut gaps = Vec::new();
    for _ in 0..count {
        let (start, end) = (fields.u64().ok()?, fields.u64().ok()?);
        gaps.push(Gap {
            start: Lsn(start),
            end: Lsn(end),
        });
    }
    let are_positions = |gap: &Gap| is_position(gap.start.0) && is_position(gap.end.0);
    let sound = count <= MOST_GAPS && gaps.iter().all(are_positions);
    Gaps::from_ascending(gaps).filter(|_| sound)
}

fn checksum(block: &[u8]) -> u32 {
    let mut copy = block[..BLOCK].to_vec();
    copy[8..12].fill(0);
    crc_fast::crc32_iscsi(&copy)
}

/// The copies in these bytes with checksums that fit.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(BLOCK) {
        let crc = checksum(block);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Unreadable,
    Foreign,
    Checksum,
    Version(u32),
    Content,
}

impl Fault {
    fn text(self) -> &'static str {
        match self {
            Fault::Unreadable => "cannot be read",
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
    /// The other copy could not be used: it may have been the newer one.
    is_sole: bool,
    page_cache_held_nothing: bool,
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
        let (_, control, _) = Self::read_both(disk, dir, OpenOptions::read_only())?;
        Ok(control)
    }

    /// Opens the control file for writing.
    ///
    /// # Errors
    /// As [`ControlFile::read`].
    pub fn open(disk: &dyn Disk, dir: &Path, fsync: bool) -> StorageResult<ControlFile> {
        let (file, current, is_sole) = Self::read_both(disk, dir, OpenOptions::read_write())?;
        Ok(ControlFile {
            file,
            fsync,
            current,
            is_sole,
            page_cache_held_nothing: false,
        })
    }

    fn read_both(
        disk: &dyn Disk,
        dir: &Path,
        options: OpenOptions,
    ) -> StorageResult<(Arc<dyn File>, Control, bool)> {
        let path = dir.join(CONTROL_FILE);
        let file = match disk.open(&path, options) {
            Err(error) if error.kind() == IoErrorKind::NotFound => {
                return Err(not_a_database(dir, "it has no control file"));
            }
            opened => opened?,
        };
        // Each by itself: one that cannot be read is as good as torn. But it may be the newer one,
        // and the log from the older one's redo point may be gone: so not at the first error.
        let copy = |offset: usize| {
            let mut block = vec![0; BLOCK];
            let read = retry::attempts(
                |error| {
                    tracing::warn!("reading the control block failed: {error}");
                    true
                },
                || file.read_at(&mut block, offset as u64),
            );
            let len = read.map_err(|_| Fault::Unreadable)?;
            Control::decode(&block[..len])
        };
        match (copy(0), copy(BLOCK)) {
            (Ok(a), Ok(b)) => {
                let newest = if a.generation > b.generation { a } else { b };
                Ok((file, newest, false))
            }
            (Ok(only), Err(fault)) | (Err(fault), Ok(only)) => {
                tracing::warn!(
                    "one copy of the control block is unusable: {}",
                    fault.text()
                );
                Ok((file, only, true))
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

    /// Whether only one copy could be used when the file was opened.
    #[must_use]
    pub fn is_sole(&self) -> bool {
        self.is_sole
    }

    /// Writes the newest copy again where it is, and syncs it: a failed sync may have left it in
    /// the page cache only. To be called before the first [`ControlFile::write`], which takes the
    /// place of the other copy.
    ///
    /// # Errors
    /// When writing or syncing fails.
    pub fn write_again(&self) -> StorageResult<()> {
        self.put(&self.current)
    }

    /// Notes the run of the kernel under which files are written from now on. To be called after
    /// [`ControlFile::write_again`] and before anything else is written: the note is durable
    /// before a write that could fail and leave in the page cache what the disk does not have.
    ///
    /// # Errors
    /// As [`ControlFile::write`].
    pub fn note_boot(&mut self, boot: Option<BootId>) -> StorageResult<()> {
        let last = self.current.boot;
        if boot != last {
            self.write(Control {
                boot,
                ..self.current.clone()
            })?;
            self.page_cache_held_nothing = boot.is_some() && last.is_some();
        }
        Ok(())
    }

    /// Whether the page cache held nothing of the database when it was opened, since the machine
    /// was started after everything that earlier runs wrote, failed starts included. Then what
    /// this run reads, and has not written, is what the disk has; otherwise a sync that failed
    /// may have left content in the page cache only. Known once [`ControlFile::note_boot`] has
    /// returned; `false` also means that it is unknown.
    ///
    /// Files that something else has written here, such as a copy from another machine, are as
    /// durable as that has made them.
    #[must_use]
    pub fn page_cache_held_nothing(&self) -> bool {
        self.page_cache_held_nothing
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
        debug_assert!(
            next.redo >= self.current.redo
                && next.next_file >= self.current.next_file
                && next.durable >= self.current.durable,
            "a control block that knows less than the one before: {next:?}"
        );
        next.generation = self.current.generation + 1;
        self.put(&next)?;
        self.current = next;
        Ok(())
    }

    /// Generations alternate between the blocks; the first one is in the first.
    fn put(&self, control: &Control) -> StorageResult<()> {
        let mut block = AlignedBuf::zeroed(BLOCK);
        control.encode(&mut block);
        let offset = control.generation.wrapping_sub(1) % 2 * BLOCK as u64;
        self.file.write_all_at(&block, offset)?;
        if self.fsync {
            self.file.sync_data()?;
        }
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
            term: 3,
            segment_size: 1 << 16,
            redo: Lsn(redo),
            images: redo & 1 << 16 != 0,
            incarnation: 5,
            durable: Lsn(redo + 8),
            gaps: gaps_before(redo),
            next_file: 20_000,
            redo_speed: redo * 3,
            restore_micros: redo * 5,
            manifest: ManifestPosition {
                number: redo,
                len: redo + 1,
                crc: 9,
            },
            written_at: 1,
            boot: NonZero::new((u128::from(redo) << 60) | 1).map(BootId),
            payload: b"client".to_vec(),
        }
    }

    fn gaps_before(redo: u64) -> Gaps {
        let mut gaps = Gaps::default();
        for start in (8..redo).step_by(1 << 14) {
            gaps.add(Gap {
                start: Lsn(start),
                end: Lsn(start + 64),
            });
        }
        gaps
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

    /// CKPT-4: a torn write of one copy leaves the other.
    #[test]
    fn one_damaged_copy_leaves_the_other_and_two_are_an_error() {
        for field in [8, 13, 17, 50, 99, 103, 4000, 4045] {
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

    /// CKPT-4: so does one that cannot be read.
    #[test]
    fn an_unreadable_copy_leaves_the_other() {
        let disk = evenkeel_io::SimDisk::new(1);
        let dir = Path::new("/db");
        let path = dir.join(CONTROL_FILE);
        disk.create_dir_all(dir).expect("directory");
        ControlFile::create(&disk, dir, sample(1 << 16), true).expect("create");
        ControlFile::publish(&disk, dir, true).expect("publish");
        let mut control = ControlFile::open(&disk, dir, true).expect("open");
        control.write(sample(2 << 16)).expect("write");
        let block = |index: u64| index * BLOCK as u64..(index + 1) * BLOCK as u64;
        disk.make_unreadable(&path, block(1)).expect("there");
        let read = ControlFile::read(&disk, dir).expect("the other");
        assert_eq!(read.redo, Lsn(2 << 16));
        disk.make_unreadable(&path, block(0)).expect("there");
        let error = ControlFile::read(&disk, dir).expect_err("both unreadable");
        assert!(
            matches!(error, StorageError::ControlDamaged { .. }),
            "{error}"
        );
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
            assert_eq!(read.boot, sample(i << 16).boot);
            assert_eq!(read.payload, b"client");
            assert_eq!(read.gaps, gaps_before(i << 16));
        }
    }

    /// GAP-6: beyond the bound the newest count.
    #[test]
    fn the_newest_gaps_fit_into_a_block() {
        let mut block = vec![0; BLOCK];
        for count in [0, 1, MOST_GAPS, MOST_GAPS + 1, 3 * MOST_GAPS] {
            let mut control = sample(1 << 16);
            control.gaps = gaps_before((count as u64) << 14);
            assert_eq!(control.gaps.list().len(), count);
            control.encode(&mut block);
            let read = Control::decode(&block).expect("sound").gaps;
            let newest = &control.gaps.list()[count.saturating_sub(MOST_GAPS)..];
            assert_eq!(read.list(), newest, "{count}");
        }
        for (at, byte) in [
            (GAPS, 201),
            (GAPS + 3, 255),
            (FIRST_GAP, 1),
            (FIRST_GAP + 15, 255),
        ] {
            let mut damaged = block.clone();
            damaged[at] = byte;
            let sealed = sealed(&damaged);
            assert_eq!(Control::decode(&sealed), Err(Fault::Content), "{at}");
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
        let next = FORMAT_VERSION + 1;
        block[12..16].copy_from_slice(&next.to_le_bytes());
        let crc = checksum(&block);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(dir.path().join(CONTROL_FILE), block.repeat(2)).expect("write");
        assert!(matches!(
            read(),
            Err(StorageError::WrongVersion { found, .. }) if found == next
        ));
    }
}
