//! Where the log's bytes are: in which segment file, and in blocks of which size.

use std::path::PathBuf;

use evenkeel_io::Disk;

use crate::error::StorageResult;
use crate::ids::Lsn;

/// The log is written in multiples of this.
pub(crate) const BLOCK: usize = 4096;

/// Which segment holds which bytes, and what the file is called.
#[derive(Clone, Debug)]
pub struct SegmentLayout {
    /// The `wal` directory.
    pub dir: PathBuf,
    /// Bytes in a segment; a power of two.
    pub size: u64,
    /// Timeline that the names carry.
    pub timeline: u32,
}

impl SegmentLayout {
    /// Number of the segment that holds the byte at `lsn`.
    #[must_use]
    pub fn segment_of(&self, lsn: Lsn) -> u64 {
        lsn.0 / self.size
    }

    /// First byte of a segment.
    #[must_use]
    pub fn start_of(&self, segment: u64) -> Lsn {
        Lsn(segment.saturating_mul(self.size))
    }

    /// Path of a segment's file.
    #[must_use]
    pub fn path(&self, segment: u64) -> PathBuf {
        self.dir
            .join(format!("{:08x}-{segment:016x}", self.timeline))
    }

    /// Number of the segment that a file of this timeline is; `None` for any other file, and for
    /// one whose bytes would have no positions.
    #[must_use]
    pub fn parse_name(&self, name: &str) -> Option<u64> {
        let (timeline, segment) = name.split_once('-')?;
        if timeline.len() != 8 || segment.len() != 16 {
            return None;
        }
        let same = u32::from_str_radix(timeline, 16).ok()? == self.timeline;
        let number = u64::from_str_radix(segment, 16).ok()?;
        // The one behind it must have a number and positions, too.
        let has_positions = number.checked_add(2)?.checked_mul(self.size).is_some();
        (same && has_positions).then_some(number)
    }

    /// Numbers of all segments in the directory, ascending.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn list(&self, disk: &dyn Disk) -> StorageResult<Vec<u64>> {
        let names = disk.list(&self.dir)?;
        let mut segments: Vec<u64> = names
            .iter()
            .filter_map(|name| self.parse_name(name))
            .collect();
        segments.sort_unstable();
        Ok(segments)
    }
}
