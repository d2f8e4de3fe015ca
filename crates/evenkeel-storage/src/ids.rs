//! Newtypes for the numbers that travel between modules and into files.

use std::fmt;
use std::str::FromStr;

/// A position in the write-ahead log, in bytes since the log's beginning.
///
/// A record's LSN is the position of its first byte. A page's LSN is that of the last record
/// that changed it. The log starts at one segment, so [`Lsn::ZERO`] never names a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Lsn(pub u64);

impl Lsn {
    /// "None": no record lies here.
    pub const ZERO: Lsn = Lsn(0);
    /// Beyond every record.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// Whether this is [`Lsn::ZERO`].
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Bytes from `earlier` to `self`; zero when `earlier` is not earlier.
    #[must_use]
    pub const fn distance_from(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// PostgreSQL's notation: two hexadecimal halves.
impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:08X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Number of a page within a fork, from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct BlockNumber(pub u32);

impl fmt::Display for BlockNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identity of a relation's file. Never reused while it may be found on disk. The two bits below
/// say which directory it lives in: `status/`, `temp/` or, with neither, `base/`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FileId(pub u64);

impl FileId {
    const STATUS_BIT: u64 = 1 << 63;
    const TEMPORARY_BIT: u64 = 1 << 61;

    /// The id of the transaction-status file with this number.
    #[must_use]
    pub const fn status(number: u64) -> FileId {
        FileId(number | Self::STATUS_BIT)
    }

    /// Whether the file lives under `status/`.
    #[must_use]
    pub const fn is_status(self) -> bool {
        self.0 & Self::STATUS_BIT != 0
    }

    /// The id of the temporary file with this number.
    #[must_use]
    pub const fn temporary(number: u64) -> FileId {
        FileId(number | Self::TEMPORARY_BIT)
    }

    /// Whether the file lives under `temp/`: it is gone with the process, so that nothing of it is
    /// logged, protected against torn writes, or synced (STO-15).
    #[must_use]
    pub const fn is_temporary(self) -> bool {
        self.0 & Self::TEMPORARY_BIT != 0
    }

    /// The id without the bits that name the directory.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0 & !(Self::STATUS_BIT | Self::TEMPORARY_BIT)
    }

    /// The directory's name.
    pub(crate) const fn directory(self) -> &'static str {
        if self.is_status() {
            "status"
        } else if self.is_temporary() {
            "temp"
        } else {
            "base"
        }
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.directory(), self.number())
    }
}

impl FromStr for FileId {
    type Err = ParsePageError;

    /// Reads what [`FileId`] displays.
    fn from_str(text: &str) -> Result<FileId, ParsePageError> {
        let (directory, number) = text.split_once('/').ok_or(ParsePageError("file"))?;
        let number = number.parse().map_err(|_| ParsePageError("file"))?;
        match directory {
            "base" => Ok(FileId(number)),
            "status" => Ok(FileId::status(number)),
            "temp" => Ok(FileId::temporary(number)),
            _ => Err(ParsePageError("file")),
        }
    }
}

/// Text that does not name a file, or a fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "not a {0}: files are base/NUMBER, status/NUMBER or temp/NUMBER, forks are main, fsm and vm"
)]
pub struct ParsePageError(&'static str);

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which of a relation's forks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Fork {
    /// The data itself.
    Main = 0,
    /// The free-space map.
    Fsm = 1,
    /// The visibility map.
    Vm = 2,
}

impl Fork {
    /// Every fork, in the order of their numbers.
    pub const ALL: [Fork; 3] = [Fork::Main, Fork::Fsm, Fork::Vm];

    /// The fork with this number, if there is one.
    #[must_use]
    pub const fn from_u8(number: u8) -> Option<Fork> {
        match number {
            0 => Some(Fork::Main),
            1 => Some(Fork::Fsm),
            2 => Some(Fork::Vm),
            _ => None,
        }
    }
}

impl fmt::Display for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fork::Main => "main",
            Fork::Fsm => "fsm",
            Fork::Vm => "vm",
        })
    }
}

impl FromStr for Fork {
    type Err = ParsePageError;

    /// Reads what [`Fork`] displays.
    fn from_str(text: &str) -> Result<Fork, ParsePageError> {
        let named = |fork: &Fork| fork.to_string() == text;
        Fork::ALL
            .into_iter()
            .find(named)
            .ok_or(ParsePageError("fork"))
    }
}

/// One page of one fork of one file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageId {
    /// The file.
    pub file: FileId,
    /// The fork.
    pub fork: Fork,
    /// The block within the fork.
    pub block: BlockNumber,
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "file {} fork {} block {}",
            self.file, self.fork, self.block
        )
    }
}

/// A frame of the buffer pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct FrameId(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lsn_is_shown_as_postgresql_does() {
        assert_eq!(Lsn(0x1_0000_0040).to_string(), "1/00000040");
    }

    #[test]
    fn a_files_directory_is_told_by_its_bits() {
        assert!(FileId::status(7).is_status());
        assert_eq!(FileId::status(7).number(), 7);
        assert_eq!(FileId(7).to_string(), "base/7");
        assert_eq!(FileId::status(7).to_string(), "status/7");
        assert_eq!(FileId::temporary(7).to_string(), "temp/7");
        assert_eq!(FileId::temporary(7).number(), 7);
        for file in [FileId(7), FileId::status(7), FileId::temporary(7)] {
            assert_eq!(file.to_string().parse(), Ok(file));
        }
        for text in ["7", "base/", "wal/7", "base/7/8"] {
            assert!(text.parse::<FileId>().is_err(), "{text}");
        }
    }

    #[test]
    fn fork_numbers_round_trip() {
        for fork in Fork::ALL {
            assert_eq!(Fork::from_u8(fork as u8), Some(fork));
            assert_eq!(fork.to_string().parse(), Ok(fork));
        }
        assert_eq!(Fork::from_u8(3), None);
    }
}
