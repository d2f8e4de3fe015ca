//! The beginning of a log that was read, kept in memory.

use crate::ids::Lsn;

/// Pieces of the log as they were read, each of whole records.
pub(crate) struct KeptLog {
    /// Where each piece begins, and its bytes, in order.
    pieces: Vec<(Lsn, Vec<u8>)>,
    /// Bytes that may still be kept.
    left: usize,
}

impl KeptLog {
    /// Room for about `most` bytes.
    pub(crate) fn new(most: usize) -> KeptLog {
        KeptLog {
            pieces: Vec::new(),
            left: most,
        }
    }

    /// Whether `bytes` more may be kept.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.left
    }

    /// Adds a piece behind the others.
    pub(super) fn push(&mut self, start: Lsn, piece: Vec<u8>) {
        self.left = self.left.saturating_sub(piece.len());
        self.pieces.push((start, piece));
    }

    /// Keeps nothing more.
    pub(super) fn close(&mut self) {
        self.left = 0;
    }

    /// The kept bytes from `at` up to the end of a piece; empty if none are kept.
    #[inline]
    pub(crate) fn get(&self, at: Lsn) -> &[u8] {
        let before = self.pieces.partition_point(|(start, _)| *start <= at);
        let Some((start, piece)) = self.pieces.get(before.wrapping_sub(1)) else {
            return &[];
        };
        let offset = usize::try_from(at.distance_from(*start)).unwrap_or(usize::MAX);
        piece.get(offset..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_found_again_at_its_position() {
        let mut kept = KeptLog::new(300);
        kept.push(Lsn(4096), vec![1; 100]);
        kept.push(Lsn(4200), vec![2; 50]);
        assert!(kept.get(Lsn(4000)).is_empty());
        assert_eq!(kept.get(Lsn(4096)), [1; 100]);
        assert_eq!(kept.get(Lsn(4190)), [1; 6]);
        assert!(kept.get(Lsn(4198)).is_empty());
        assert_eq!(kept.get(Lsn(4200)), [2; 50]);
        assert!(kept.get(Lsn(4250)).is_empty() && kept.get(Lsn(9000)).is_empty());
        assert!(kept.has_room(150) && !kept.has_room(151));
        kept.close();
        assert!(!kept.has_room(1));
    }
}
