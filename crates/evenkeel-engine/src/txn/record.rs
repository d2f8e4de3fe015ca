//! Commit and abort records: their kinds, flags and payload.
//!
//! ```text
//! payload  version u8 | time_micros u64 | dropped u32 | subxids u32 | dropped file u64 …
//!          | subxid, as the difference to the one before (first: to the record's xid), LEB128 …
//! ```

use evenkeel_storage::{ApplyError, FileId, RecordKind};

use crate::types::Xid;

/// The record by which a transaction commits.
pub const COMMIT: RecordKind = RecordKind(RecordKind::FIRST_CLIENT + 1);
/// The record by which a transaction aborts; never waited for.
pub const ABORT: RecordKind = RecordKind(RecordKind::FIRST_CLIENT + 2);
/// In a commit record's flags: its publication waits until it is durable.
pub(crate) const FLAG_SYNC: u8 = 0x10;

const VERSION: u8 = 1;
const HEADER: usize = 17;

/// What a commit or abort record says besides its xid.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ending {
    /// Microseconds since the Unix epoch.
    pub time_micros: u64,
    /// Files to be dropped because of it.
    pub dropped: Vec<FileId>,
    /// Ids of the subtransactions that share its fate, ascending, all above its own.
    pub subxids: Vec<Xid>,
}

impl Ending {
    /// The payload's bytes.
    pub fn encode(&self, xid: Xid) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + 8 * self.dropped.len() + self.subxids.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.time_micros.to_le_bytes());
        bytes.extend_from_slice(&(self.dropped.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.subxids.len() as u32).to_le_bytes());
        for file in &self.dropped {
            bytes.extend_from_slice(&file.0.to_le_bytes());
        }
        let mut last = xid.get();
        for xid in &self.subxids {
            let mut rest = xid.get() - last;
            last = xid.get();
            while rest >= 0x80 {
                bytes.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        }
        bytes
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// When it is not one.
    pub fn decode(xid: Xid, bytes: &[u8]) -> Result<Ending, ApplyError> {
        Self::parse(xid, bytes)
            .ok_or_else(|| ApplyError::new(format!("damaged end record of transaction {xid}")))
    }

    fn parse(xid: Xid, mut bytes: &[u8]) -> Option<Ending> {
        let (&version, rest) = bytes.split_first()?;
        if version != VERSION {
            return None;
        }
        bytes = rest;
        let time_micros = take_u64(&mut bytes)?;
        let dropped_count = take_u32(&mut bytes)?;
        let sub_count = take_u32(&mut bytes)?;
        let mut ending = Ending {
            time_micros,
            ..Ending::default()
        };
        for _ in 0..dropped_count {
            ending.dropped.push(FileId(take_u64(&mut bytes)?));
        }
        let mut last = xid.get();
        for _ in 0..sub_count {
            let next = last.checked_add(take_leb(&mut bytes)?)?;
            if next == last || next > Xid::MAX.get() {
                return None;
            }
            ending.subxids.push(Xid::new(next));
            last = next;
        }
        bytes.is_empty().then_some(ending)
    }
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*head))
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*head))
}

fn take_leb(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn payloads_round_trip(
            xid in 3_u64..1 << 40,
            steps in prop::collection::vec(1_u64..1 << 20, 0..50),
            files in prop::collection::vec(any::<u64>(), 0..5),
            time_micros: u64,
        ) {
            let mut last = xid;
            let subxids = steps.iter().map(|step| {
                last += step;
                Xid::new(last)
            });
            let ending = Ending {
                time_micros,
                dropped: files.into_iter().map(FileId).collect(),
                subxids: subxids.collect(),
            };
            let bytes = ending.encode(Xid::new(xid));
            prop_assert_eq!(Ending::decode(Xid::new(xid), &bytes).unwrap(), ending);
            for cut in 0..bytes.len() {
                prop_assert!(Ending::decode(Xid::new(xid), &bytes[..cut]).is_err());
            }
        }

        #[test]
        fn damaged_payloads_are_refused_not_trusted(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let _ = Ending::decode(Xid::FIRST, &bytes);
        }
    }
}
