//! The search behind the log's end for records that prove damage.

use super::LogReader;
use crate::error::{StorageError, StorageResult};
use crate::ids::Lsn;
use crate::record::{ALIGN, HEADER_LEN, MAX_RECORD, RecordFault, RecordView};
use crate::wal::layout::BLOCK;
use crate::wal::unused::{self, STRIPE};

/// Log behind the end that is searched whatever marks it carries: one lost write may have been
/// the first one in a stripe, which begins less than a write behind the end.
const REACH: u64 = STRIPE + 2 * MAX_RECORD as u64;

impl LogReader {
    /// Why the log is damaged where the reader found its end rather than ended there. The control
    /// file says that the log was durable up to `durable`.
    ///
    /// # Errors
    /// When a segment that exists cannot be read.
    pub(crate) fn damage(&mut self, durable: Lsn) -> StorageResult<Option<StorageError>> {
        let end = self.position();
        let proof = if durable > end {
            Some((durable, "the control file".to_owned()))
        } else {
            let proof = self.find_proof_of_damage()?;
            proof.map(|(at, durable)| (durable, format!("the record at {at}")))
        };
        Ok(proof.map(|(durable, proof)| StorageError::LogDamaged {
            segment: self.layout.path(self.layout.segment_of(end)),
            lsn: end,
            durable,
            proof,
        }))
    }

    /// Looks behind the end, in all segments that exist, for a record of the incarnation that
    /// ended there that says the log was durable beyond the end: `(its LSN, durable up to)`. Such
    /// a record proves damage: the log did not just end. Stripes whose mark says that no log was
    /// ever durable in them are passed over; all others are searched byte by byte, since a hole
    /// may end anywhere. The reader stays behind where it looked.
    ///
    /// Log of a later incarnation than the last known one needs no search: it begins behind a
    /// position that is in the control file before the first of its records.
    ///
    /// # Errors
    /// When a segment that exists cannot be read.
    pub fn find_proof_of_damage(&mut self) -> StorageResult<Option<(Lsn, Lsn)>> {
        let end = self.position;
        let from = end.0.saturating_add(ALIGN as u64);
        let always = end.0.saturating_add(REACH);
        let (size, stripe) = (self.layout.size, unused::stripe(self.layout.size));
        let first = self.layout.segment_of(end);
        let segments = self.layout.list(self.disk.as_ref())?;
        let stripes = segments
            .into_iter()
            .filter(|segment| *segment >= first)
            .flat_map(|segment| {
                let start = segment * size;
                (0..size / stripe).map(move |index| start + index * stripe)
            });
        for start in stripes.filter(|start| start + stripe > from) {
            if start >= always && self.is_unused(Lsn(start))? {
                continue;
            }
            self.position = Lsn(start.max(from));
            if let Some(proof) = self.search(end, start + stripe)? {
                return Ok(Some(proof));
            }
        }
        Ok(None)
    }

    /// Whether a stripe carries its mark.
    fn is_unused(&mut self, stripe: Lsn) -> StorageResult<bool> {
        let offset = stripe.0 % self.layout.size;
        let segment = self.layout.segment_of(stripe);
        let Some(file) = self.segment_file(segment)? else {
            return Ok(false);
        };
        let mut block = [0; BLOCK];
        let got = file.read_at(&mut block, offset)?;
        Ok(unused::is_mark(&block[..got], stripe))
    }

    /// Searches from the current position to `to`.
    fn search(&mut self, end: Lsn, to: u64) -> StorageResult<Option<(Lsn, Lsn)>> {
        while self.position.0 < to {
            if !self.fill_within(HEADER_LEN, to)? {
                break;
            }
            let Some(lsn) = self.next_candidate(end, to) else {
                // Behind the last position whose header is in the buffer.
                let looked_at = (self.filled - HEADER_LEN) / ALIGN + 1;
                self.position = Lsn(self.buffer_start + (looked_at * ALIGN) as u64);
                continue;
            };
            self.position = lsn;
            if let Some(durable) = self.check_candidate()? {
                return Ok(Some((lsn, durable)));
            }
            self.position.0 += ALIGN as u64;
        }
        Ok(None)
    }

    /// First position in the buffer, from the current one on and before `to`, whose header could
    /// be that of a record that claims durability beyond `end`. Nearly all positions are ruled
    /// out here.
    fn next_candidate(&self, end: Lsn, to: u64) -> Option<Lsn> {
        let from = (self.position.0 - self.buffer_start) as usize;
        let heads = (self.filled + 1).saturating_sub(HEADER_LEN);
        let last = to.saturating_sub(self.buffer_start).min(heads as u64) as usize;
        for at in (from..last).step_by(ALIGN) {
            let head = &self.buffer[at..at + HEADER_LEN];
            let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            if !(HEADER_LEN..=MAX_RECORD).contains(&len) {
                continue;
            }
            let mut durable = [0; 8];
            durable.copy_from_slice(&head[16..24]);
            let durable = u64::from_le_bytes(durable);
            let lsn = self.buffer_start + at as u64;
            if durable > end.0 && durable <= lsn {
                return Some(Lsn(lsn));
            }
        }
        None
    }

    /// The durable LSN that the record at the current position states, if there is a valid one.
    fn check_candidate(&mut self) -> StorageResult<Option<Lsn>> {
        let mut need = HEADER_LEN;
        loop {
            // Not more than the record: what follows it may be space that is passed over.
            let have = self.fill_within(need, self.position.0 + need as u64)?;
            let at = (self.position.0 - self.buffer_start) as usize;
            match RecordView::parse(
                &self.buffer[at..self.filled],
                self.position,
                self.incarnation,
            ) {
                Ok(record) => return Ok(Some(record.durable())),
                // Valid all the same; its header is laid out as every other's.
                Err(RecordFault::Unknown(_)) => {
                    let durable = self.buffer.get(at + 16..at + 24);
                    let durable = durable.and_then(|bytes| bytes.first_chunk());
                    return Ok(durable.map(|bytes| Lsn(u64::from_le_bytes(*bytes))));
                }
                Err(RecordFault::Short(more)) if have && more > need => need = more,
                Err(_) => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests;
