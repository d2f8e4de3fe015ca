//! The segment files of one fork.

use std::sync::Arc;

use evenkeel_io::{IoErrorKind, OpenOptions};
use parking_lot::RwLock;

use super::FileSpace;
use super::lengths::{self, Cut};
use super::segment::Segment;
use crate::error::{StorageError, StorageResult};
use crate::ids::{BlockNumber, FileId, Fork, PageId};
use crate::page::PAGE_SIZE;

/// The segments of a fork, each opened once and kept open. All but the last are full.
pub(crate) struct ForkFiles {
    space: Arc<FileSpace>,
    file: FileId,
    fork: Fork,
    segments: RwLock<Vec<Arc<Segment>>>,
    /// Its end is lost: it keeps its length, and blocks that are gone cannot be read.
    cut: Option<Cut>,
}

impl ForkFiles {
    /// Opens whatever segments there are; answers the fork's length in blocks with them.
    ///
    /// A crash may have taken back growth that was not synced: part of a page at the end is cut
    /// off, and a segment that others follow gets its full length again.
    pub(crate) fn open(
        space: &Arc<FileSpace>,
        file: FileId,
        fork: Fork,
    ) -> StorageResult<(Self, u32)> {
        const PAGE: u64 = PAGE_SIZE as u64;
        let cut = lengths::cut(space, file, fork)?;
        let full = u64::from(space.segment_blocks) * PAGE;
        let mut segments: Vec<Arc<Segment>> = Vec::new();
        let mut last = 0;
        for number in 0.. {
            let path = space.path(file, fork, number);
            let opts = space.open_options(OpenOptions::read_write());
            let opened = match space.disk.open(&path, opts) {
                Ok(opened) => opened,
                Err(error) if error.kind() == IoErrorKind::NotFound => break,
                Err(error) => return Err(error.into()),
            };
            if let Some(before) = segments.last().filter(|_| last < full && cut.is_none()) {
                before.file().allocate(last, full - last)?;
            }
            let len = opened.len()?;
            last = (len / PAGE * PAGE).min(full);
            if last < len && cut.is_none() {
                opened.set_len(last)?;
            }
            segments.push(space.sync.register(opened));
        }
        let blocks = (segments.len().saturating_sub(1) as u64) * (full / PAGE) + last / PAGE;
        let blocks = u32::try_from(blocks).map_err(|_| StorageError::FileDamaged {
            path: space.path(file, fork, 0),
            offset: 0,
            reason: format!("{blocks} blocks are more than a fork can have"),
        })?;
        let segments = RwLock::new(segments);
        let files = ForkFiles {
            space: Arc::clone(space),
            file,
            fork,
            segments,
            cut,
        };
        if let Some(cut) = cut {
            tracing::error!("{}", cut.error(space, file, fork));
            return Ok((files, cut.expected));
        }
        Ok((files, blocks))
    }

    /// The segment that holds `block` and the block's offset in it.
    pub(crate) fn segment(&self, block: BlockNumber) -> StorageResult<(Arc<Segment>, u64)> {
        let number = block.0 / self.space.segment_blocks;
        let offset = u64::from(block.0 % self.space.segment_blocks) * PAGE_SIZE as u64;
        match self.segments.read().get(number as usize) {
            Some(segment) => Ok((Arc::clone(segment), offset)),
            None => Err(StorageError::NoSuchPage {
                page: PageId {
                    file: self.file,
                    fork: self.fork,
                    block,
                },
            }),
        }
    }

    /// Blocks from `block` to the end of its segment.
    pub(crate) fn blocks_left_in_segment(&self, block: BlockNumber) -> u32 {
        self.space.segment_blocks - block.0 % self.space.segment_blocks
    }

    /// Reads the pages from `block` on, all in one segment.
    pub(crate) fn read(&self, block: BlockNumber, buf: &mut [u8]) -> StorageResult<()> {
        let end = u64::from(block.0) + (buf.len() / PAGE_SIZE) as u64;
        if let Some(cut) = self.cut.filter(|cut| end > u64::from(cut.found)) {
            return Err(cut.error(&self.space, self.file, self.fork));
        }
        let (segment, offset) = self.segment(block)?;
        Ok(segment.file().read_exact_at(buf, offset)?)
    }

    /// An error if the fork has lost its end: its length is not to be changed.
    fn check_whole(&self) -> StorageResult<()> {
        match self.cut {
            Some(cut) => Err(cut.error(&self.space, self.file, self.fork)),
            None => Ok(()),
        }
    }

    /// Allocates zeroed space for the blocks from `from` to before `to`.
    pub(crate) fn extend(&self, from: u32, to: u32) -> StorageResult<()> {
        self.check_whole()?;
        let mut at = from;
        while at < to {
            let segment = self.segment_or_create(at / self.space.segment_blocks)?;
            let left = self.blocks_left_in_segment(BlockNumber(at));
            let blocks = left.min(to - at);
            let offset = u64::from(at % self.space.segment_blocks) * PAGE_SIZE as u64;
            segment
                .file()
                .allocate(offset, u64::from(blocks) * PAGE_SIZE as u64)?;
            // What was once as long at a checkpoint is so after a crash.
            segment.count_write();
            at += blocks;
        }
        Ok(())
    }

    fn segment_or_create(&self, number: u32) -> StorageResult<Arc<Segment>> {
        let mut segments = self.segments.write();
        if let Some(segment) = segments.get(number as usize) {
            return Ok(Arc::clone(segment));
        }
        let path = self.space.path(self.file, self.fork, number);
        // A crash may have left a file there although it took back the segment before it, or the
        // cutting of the fork: whatever it holds is not this fork's.
        let opts = self.space.open_options(OpenOptions::create().truncate());
        let segment = self.space.sync.register(self.space.disk.open(&path, opts)?);
        // The entry must be durable before the redo point passes what is written here.
        self.space.sync.note_dir(self.space.dir_of(self.file));
        segments.push(Arc::clone(&segment));
        Ok(segment)
    }

    /// Makes the first segment if there is none.
    pub(crate) fn create(&self) -> StorageResult<()> {
        self.segment_or_create(0).map(|_| ())
    }

    /// Cuts the fork to `blocks`. Nobody reads or writes the blocks beyond.
    pub(crate) fn truncate(&self, blocks: u32) -> StorageResult<()> {
        self.check_whole()?;
        let mut segments = self.segments.write();
        let keep = (blocks.div_ceil(self.space.segment_blocks) as usize).max(1);
        // From the end, so that a crash midway leaves no gap before a segment.
        while segments.len() > keep {
            self.remove_last(&mut segments)?;
        }
        let last = u32::try_from(segments.len()).unwrap_or(u32::MAX);
        if let Some(segment) = segments.last() {
            let first = (last - 1) * self.space.segment_blocks;
            let len = u64::from(blocks.saturating_sub(first)) * PAGE_SIZE as u64;
            if segment.file().len()? > len {
                segment.file().set_len(len)?;
                segment.count_write();
            }
        }
        Ok(())
    }

    /// Counts the present length as a change that is not yet durable.
    pub(crate) fn count_length(&self) {
        if let Some(last) = self.segments.read().last() {
            last.count_write();
        }
    }

    /// Unlinks every segment. Nobody reads or writes the fork any more.
    pub(crate) fn remove(&self) -> StorageResult<()> {
        let mut segments = self.segments.write();
        while !segments.is_empty() {
            self.remove_last(&mut segments)?;
        }
        Ok(())
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
        self.space.sync.note_dir(self.space.dir_of(self.file));
        segments.pop();
        Ok(())
    }
}
