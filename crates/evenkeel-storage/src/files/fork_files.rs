//! The segment files of one fork.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_io::{File, IoErrorKind, IoResult, OpenOptions};
use parking_lot::RwLock;

use super::manifest::PageLsns;
use super::segment::{OpenSegment, Segment};
use super::space::FileSpace;
use crate::error::{StorageError, StorageResult};
use crate::ids::{BlockNumber, FileId, Fork, Lsn, PageId};
use crate::page::PAGE_SIZE;

/// How often one who cannot fail looks for a descriptor when there is none.
const RECHECK: Duration = Duration::from_millis(20);

/// The segments of a fork. All but the last are full.
pub(crate) struct ForkFiles {
    space: Arc<FileSpace>,
    file: FileId,
    fork: Fork,
    segments: RwLock<Vec<Arc<Segment>>>,
    known: Arc<PageLsns>,
}

impl ForkFiles {
    /// Opens whatever segments there are; answers the fork's length in blocks with them.
    ///
    /// A crash may have taken back growth that was not synced: part of a page at the end is cut
    /// off, and a segment that others follow gets its full length again. So does one that is
    /// shorter than the manifest has it, which is damage: the pages that are gone read as zeroes,
    /// and those that had been written are errors of who reads them (FILE-10).
    pub(crate) fn open(
        space: &Arc<FileSpace>,
        file: FileId,
        fork: Fork,
    ) -> StorageResult<(Self, u32)> {
        const PAGE: u64 = PAGE_SIZE as u64;
        let known = space.manifest.fork(file, fork);
        let expected = known.len();
        let full = u64::from(space.segment_blocks);
        let mut segments: Vec<Arc<Segment>> = Vec::new();
        let mut lengths = Vec::new();
        for number in 0.. {
            let is_known = u64::from(number) * full < u64::from(expected);
            let opts = if is_known {
                OpenOptions::create()
            } else {
                OpenOptions::read_write()
            };
            let path = space.path(file, fork, number);
            let opts = space.open_options(opts);
            let opened = match space
                .sync
                .register(&path, file.is_temporary(), || space.disk.open(&path, opts))
            {
                Ok(opened) => opened,
                Err(StorageError::Io(error)) if error.kind() == IoErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            let len = opened.file().len()?;
            let whole = (len / PAGE).min(full);
            if whole * PAGE < len {
                opened.file().set_len(whole * PAGE)?;
            }
            if is_known && len == 0 {
                // It was missing, and what is written to the new one is to be found again.
                space.note_entry(file);
            }
            lengths.push(whole);
            segments.push(Arc::clone(opened.segment()));
        }
        let before_last = (segments.len().saturating_sub(1) as u64) * full;
        let blocks = before_last + lengths.last().copied().unwrap_or_default();
        let blocks = u32::try_from(blocks).map_err(|_| StorageError::FileDamaged {
            path: space.path(file, fork, 0),
            offset: 0,
            reason: format!("{blocks} blocks are more than a fork can have"),
        })?;
        say_if_cut(space, (file, fork), &lengths, expected);
        let files = ForkFiles {
            space: Arc::clone(space),
            file,
            fork,
            segments: RwLock::new(segments),
            known,
        };
        let blocks = blocks.max(expected);
        files.fill_up(&lengths, blocks, expected)?;
        Ok((files, blocks))
    }

    /// Gives the segments, which have these lengths in blocks, those of a fork of `blocks`, and
    /// counts them as writes where the manifest does not have them yet: perhaps only the page
    /// cache knows them.
    fn fill_up(&self, lengths: &[u64], blocks: u32, expected: u32) -> StorageResult<()> {
        const PAGE: u64 = PAGE_SIZE as u64;
        let full = u64::from(self.space.segment_blocks);
        let mut end = 0;
        for (segment, len) in self.segments.read().iter().zip(lengths) {
            let due = (u64::from(blocks) - end).min(full);
            end += due;
            if *len < due || end > u64::from(expected) {
                let segment = self.open_segment(segment)?;
                if *len < due {
                    segment.file().allocate(len * PAGE, (due - len) * PAGE)?;
                }
                segment.count_write();
            }
        }
        self.known.grow(blocks);
        Ok(())
    }

    /// The LSN that a page had when it was last written home, if that is to be compared with the
    /// one it is found with.
    pub(crate) fn last_written(&self, block: BlockNumber) -> Option<Lsn> {
        let compares = self.space.manifest.compares();
        compares.then(|| self.known.get(block))
    }

    /// Notes pages that were written home; see [`PageLsns::wrote`].
    pub(crate) fn wrote(&self, pages: impl Iterator<Item = (BlockNumber, Lsn)>) {
        self.known.wrote(pages);
    }

    /// The segment that holds `block`, for use, and the block's offset in it.
    pub(crate) fn segment(&self, block: BlockNumber) -> StorageResult<(OpenSegment, u64)> {
        let number = block.0 / self.space.segment_blocks;
        let offset = u64::from(block.0 % self.space.segment_blocks) * PAGE_SIZE as u64;
        let segment = self.segments.read().get(number as usize).map(Arc::clone);
        match segment {
            Some(segment) => Ok((self.open_segment(&segment)?, offset)),
            None => Err(StorageError::NoSuchPage {
                page: PageId {
                    file: self.file,
                    fork: self.fork,
                    block,
                },
            }),
        }
    }

    /// As [`ForkFiles::segment`], for one who cannot fail for want of a descriptor: waits until
    /// the process has one.
    pub(crate) fn await_segment(&self, block: BlockNumber) -> StorageResult<(OpenSegment, u64)> {
        self.await_descriptor(|| self.segment(block))
    }

    fn await_descriptor<T>(&self, act: impl Fn() -> StorageResult<T>) -> StorageResult<T> {
        let mut warned = false;
        loop {
            match act() {
                Err(StorageError::TooManyFiles(error)) => {
                    self.space.sync.check()?;
                    if !warned {
                        tracing::warn!("{error}; waiting until a file can be opened");
                        warned = true;
                    }
                    std::thread::sleep(RECHECK);
                }
                other => return other,
            }
        }
    }

    fn open_segment(&self, segment: &Arc<Segment>) -> StorageResult<OpenSegment> {
        let open = || open_file(&self.space, segment.path());
        self.space.sync.open_segment(segment, open)
    }

    /// Blocks from `block` to the end of its segment.
    pub(crate) fn blocks_left_in_segment(&self, block: BlockNumber) -> u32 {
        self.space.segment_blocks - block.0 % self.space.segment_blocks
    }

    /// Reads the pages from `block` on, all in one segment.
    pub(crate) fn read(&self, block: BlockNumber, buf: &mut [u8]) -> StorageResult<()> {
        let (segment, offset) = self.segment(block)?;
        Ok(segment.file().read_exact_at(buf, offset)?)
    }

    /// Allocates zeroed space for the blocks from `from` to before `to`.
    pub(crate) fn extend(&self, from: u32, to: u32) -> StorageResult<()> {
        let mut at = from;
        while at < to {
            let segment = self.segment_or_create(at / self.space.segment_blocks)?;
            let left = self.blocks_left_in_segment(BlockNumber(at));
            let blocks = left.min(to - at);
            let offset = u64::from(at % self.space.segment_blocks) * PAGE_SIZE as u64;
            segment
                .file()
                .allocate(offset, u64::from(blocks) * PAGE_SIZE as u64)?;
            // The length must be synced: one that a checkpoint has seen survives a crash.
            segment.count_write();
            at += blocks;
        }
        self.known.grow(to);
        Ok(())
    }

    fn segment_or_create(&self, number: u32) -> StorageResult<OpenSegment> {
        let mut segments = self.segments.write();
        if let Some(segment) = segments.get(number as usize) {
            return self.open_segment(segment);
        }
        let path = self.space.path(self.file, self.fork, number);
        // A crash may have left a file there although it took back the segment before it, or the
        // cutting of the fork: whatever it holds is not this fork's.
        let opts = self.space.open_options(OpenOptions::create().truncate());
        let create = || self.space.disk.open(&path, opts);
        let opened = self
            .space
            .sync
            .register(&path, self.file.is_temporary(), create)?;
        // The entry must be durable before the redo point passes what is written here.
        self.space.note_entry(self.file);
        segments.push(Arc::clone(opened.segment()));
        Ok(opened)
    }

    /// Makes the first segment if there is none.
    pub(crate) fn create(&self) -> StorageResult<()> {
        self.segment_or_create(0).map(|_| ())
    }

    /// Cuts the fork to `blocks`. Nobody reads or writes the blocks beyond.
    pub(crate) fn truncate(&self, blocks: u32) -> StorageResult<()> {
        self.known.cut(blocks);
        let mut segments = self.segments.write();
        let keep = (blocks.div_ceil(self.space.segment_blocks) as usize).max(1);
        self.remove_behind_gap(segments.len())?;
        // From the end, so that a crash midway leaves no gap before a segment.
        while segments.len() > keep {
            self.remove_last(&mut segments)?;
        }
        let last = u32::try_from(segments.len()).unwrap_or(u32::MAX);
        if let Some(segment) = segments.last() {
            let first = (last - 1) * self.space.segment_blocks;
            let len = u64::from(blocks.saturating_sub(first)) * PAGE_SIZE as u64;
            // The log says that the fork is cut.
            let segment = self.await_descriptor(|| self.open_segment(segment))?;
            if segment.file().len()? > len {
                segment.file().set_len(len)?;
                segment.count_write();
            }
        }
        Ok(())
    }

    /// As [`ForkFiles::truncate`] of a fork that is not longer: its present length counts as a
    /// change that is not yet durable.
    ///
    /// # Errors
    /// When the last segment cannot be opened.
    pub(crate) fn truncated_before(&self, blocks: u32) -> StorageResult<()> {
        self.known.cut(blocks);
        let segments = self.segments.read();
        self.remove_behind_gap(segments.len())?;
        if let Some(last) = segments.last() {
            self.open_segment(last)?.count_write();
        }
        Ok(())
    }

    /// Unlinks every segment. Nobody reads or writes the fork any more.
    pub(crate) fn remove(&self) -> StorageResult<()> {
        let mut segments = self.segments.write();
        self.remove_behind_gap(segments.len())?;
        while !segments.is_empty() {
            self.remove_last(&mut segments)?;
        }
        Ok(())
    }

    /// Unlinks every segment of a fork that is not open, which needs no descriptor.
    pub(crate) fn unlink(space: &FileSpace, file: FileId, fork: Fork) -> StorageResult<()> {
        let mut segments = space.segments_found(file, fork);
        while space.disk.exists(&space.path(file, fork, segments))? {
            segments += 1;
        }
        unlink_segments(space, file, fork, 0..segments)
    }

    /// Unlinks segments that an earlier process left behind those that the fork has, `own` of
    /// them.
    fn remove_behind_gap(&self, own: usize) -> StorageResult<()> {
        let own = u32::try_from(own).unwrap_or(u32::MAX);
        let found = self.space.segments_found(self.file, self.fork);
        unlink_segments(&self.space, self.file, self.fork, own..found)
    }

    fn remove_last(&self, segments: &mut Vec<Arc<Segment>>) -> StorageResult<()> {
        let Some(segment) = segments.last() else {
            return Ok(());
        };
        self.space.sync.forget(segment);
        let number = u32::try_from(segments.len() - 1).unwrap_or(u32::MAX);
        match self
            .space
            .disk
            .remove(&self.space.path(self.file, self.fork, number))
        {
            Ok(()) => {}
            Err(error) if error.kind() == IoErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        self.space.note_entry(self.file);
        segments.pop();
        Ok(())
    }
}

/// Unlinks those of a fork's segments that are there, from the last to the first.
fn unlink_segments(
    space: &FileSpace,
    file: FileId,
    fork: Fork,
    numbers: Range<u32>,
) -> StorageResult<()> {
    for number in numbers.rev() {
        match space.disk.remove(&space.path(file, fork, number)) {
            Ok(()) => space.note_entry(file),
            Err(error) if error.kind() == IoErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Opens a segment that is there.
fn open_file(space: &FileSpace, path: &Path) -> IoResult<Arc<dyn File>> {
    let opts = space.open_options(OpenOptions::read_write());
    space.disk.open(path, opts)
}

/// Says in the log that a fork is shorter than the manifest has it.
fn say_if_cut(space: &FileSpace, (file, fork): (FileId, Fork), lengths: &[u64], expected: u32) {
    let full = u64::from(space.segment_blocks);
    let whole = lengths.iter().take_while(|len| **len == full).count();
    let found = lengths.iter().take(whole + 1).sum::<u64>();
    if found < u64::from(expected) {
        let path = space.path(file, fork, u32::try_from(whole).unwrap_or(u32::MAX));
        tracing::error!(
            "file damaged: {}: {found} blocks are there, and {expected} were; those that are gone \
             cannot be read",
            path.display()
        );
    }
}
