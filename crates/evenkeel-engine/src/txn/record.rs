//! Commit and abort records: their kinds, flags and payload.
//!
//! ```text
//! payload  lists u8 | time_micros u64 | floor: zigzag LEB128 of xid - floor | list …
//! list     count LEB128, not 0 | entries
//! entries  1 dropped: file u64 | 2 subxids, 4 aborted: LEB128, the difference to the one before
//!          (first: to the record's xid) | 8 invalidations, 16 locks: LEB128
//! ```
//! `lists` has the bits of the lists that follow, in this order: a transaction that has none of
//! them pays nothing for them.

use evenkeel_storage::record::FieldReader;
use evenkeel_storage::{ApplyError, FileId, RecordKind};

use super::varint::{self, put_leb, put_signed};
use crate::types::Xid;

/// The record by which a transaction commits.
pub const COMMIT: RecordKind = RecordKind(RecordKind::FIRST_CLIENT + 1);
/// The record by which a transaction aborts, or subtransactions of one that goes on; never waited
/// for.
pub const ABORT: RecordKind = RecordKind(RecordKind::FIRST_CLIENT + 2);
/// The state of all transactions, at redo points and at intervals ([`super::Running`]).
pub const RUNNING: RecordKind = RecordKind(RecordKind::FIRST_CLIENT + 3);
/// Tables that the record's transaction has locked against everybody, before records that need
/// it: a list of LEB128.
pub const LOCKS: RecordKind = RecordKind(RecordKind::FIRST_CLIENT + 4);
/// Reserved for the description of a relation whose rows follow. Not written yet, and refused.
pub const RELATION: RecordKind = RecordKind(RecordKind::FIRST_CLIENT + 5);
/// In a commit record's flags: its publication waits until it is durable.
pub(crate) const FLAG_SYNC: u8 = 0x10;

const DROPPED: u8 = 1;
const SUBXIDS: u8 = 2;
const ABORTED: u8 = 4;
const INVALIDATIONS: u8 = 8;
const LOCKED: u8 = 16;
const KNOWN: u8 = 31;
const HEADER: usize = 11;

/// The content of a commit or abort record besides its xid.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ending {
    /// Microseconds since the Unix epoch.
    pub time_micros: u64,
    /// Every id below was decided when the record was made: those that no record before decides
    /// have aborted.
    pub floor: Xid,
    /// Files to be dropped because of it.
    pub dropped: Vec<FileId>,
    /// Ids of the subtransactions that share its fate, ascending, all above its own.
    pub subxids: Vec<Xid>,
    /// Ids of the subtransactions that were rolled back before, ascending, all above its own.
    pub aborted: Vec<Xid>,
    /// Objects whose definitions others may have cached, and must read again.
    pub invalidations: Vec<u64>,
    /// Tables that were locked by a [`LOCKS`] record and are no longer.
    pub locks: Vec<u64>,
}

impl Ending {
    /// The payload's bytes.
    pub fn encode(&self, xid: Xid) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + 8 * self.dropped.len() + self.subxids.len());
        bytes.push(0);
        bytes.extend_from_slice(&self.time_micros.to_le_bytes());
        put_signed(&mut bytes, xid.get().wrapping_sub(self.floor.get()) as i64);
        let mut lists = 0;
        if !self.dropped.is_empty() {
            lists |= DROPPED;
            put_leb(&mut bytes, self.dropped.len() as u64);
            for file in &self.dropped {
                bytes.extend_from_slice(&file.0.to_le_bytes());
            }
        }
        for (bit, xids) in [(SUBXIDS, &self.subxids), (ABORTED, &self.aborted)] {
            if !xids.is_empty() {
                lists |= bit;
                varint::put_ascending(&mut bytes, xid, xids);
            }
        }
        for (bit, numbers) in [(INVALIDATIONS, &self.invalidations), (LOCKED, &self.locks)] {
            if !numbers.is_empty() {
                lists |= bit;
                varint::put_list(&mut bytes, numbers);
            }
        }
        bytes[0] = lists;
        bytes
    }

    /// Whether a payload has lists that this program does not know.
    pub(crate) fn unknown_lists(payload: &[u8]) -> Option<u8> {
        let unknown = payload.first()? & !KNOWN;
        (unknown != 0).then_some(unknown)
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// When it is not one.
    pub fn decode(xid: Xid, bytes: &[u8]) -> Result<Ending, ApplyError> {
        Self::parse(xid, &mut FieldReader::new(bytes)).map_err(|ApplyError(reason)| {
            ApplyError(format!("damaged end record of transaction {xid}: {reason}"))
        })
    }

    fn parse(xid: Xid, fields: &mut FieldReader<'_>) -> Result<Ending, ApplyError> {
        let lists = fields.u8()?;
        if lists & !KNOWN != 0 {
            return Err(ApplyError(format!("lists {lists:#04x}")));
        }
        let has = |bit: u8| lists & bit != 0;
        let time_micros = fields.u64()?;
        let floor = xid.get().wrapping_sub(varint::take_signed(fields)? as u64);
        let mut ending = Ending {
            time_micros,
            floor: varint::to_xid(floor)?,
            ..Ending::default()
        };
        if has(DROPPED) {
            for _ in 0..varint::take_count(fields)? {
                ending.dropped.push(FileId(fields.u64()?));
            }
        }
        if has(SUBXIDS) {
            ending.subxids = varint::take_ascending(fields, xid)?;
        }
        if has(ABORTED) {
            ending.aborted = varint::take_ascending(fields, xid)?;
        }
        if has(INVALIDATIONS) {
            ending.invalidations = varint::take_list(fields)?;
        }
        if has(LOCKED) {
            ending.locks = varint::take_list(fields)?;
        }
        varint::finished(fields)?;
        Ok(ending)
    }
}

/// Payload of a [`LOCKS`] record.
pub(crate) fn encode_locks(tables: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint::put_list(&mut bytes, tables);
    bytes
}

/// The tables that a [`LOCKS`] record names.
///
/// # Errors
/// When it is none.
pub fn decode_locks(payload: &[u8]) -> Result<Vec<u64>, ApplyError> {
    let mut fields = FieldReader::new(payload);
    let tables = varint::take_list(&mut fields)?;
    varint::finished(&fields)?;
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn ascending(above: u64)(
            steps in prop::collection::vec(1_u64..1 << 20, 0..50),
        ) -> Vec<Xid> {
            let mut last = above;
            let next = |step| {
                last += step;
                Xid::new(last)
            };
            steps.into_iter().map(next).collect()
        }
    }

    prop_compose! {
        fn ending(xid: u64)(
            subxids in ascending(xid),
            aborted in ascending(xid),
            files in prop::collection::vec(any::<u64>(), 0..5),
            invalidations in prop::collection::vec(any::<u64>(), 0..5),
            locks in prop::collection::vec(any::<u64>(), 0..5),
            floor in 0..1_u64 << 47,
            time_micros: u64,
        ) -> Ending {
            Ending {
                time_micros,
                floor: Xid::new(floor),
                dropped: files.into_iter().map(FileId).collect(),
                subxids,
                aborted,
                invalidations,
                locks,
            }
        }
    }

    proptest! {
        #[test]
        fn payloads_round_trip(
            (xid, ending) in (3_u64..1 << 40).prop_flat_map(|xid| (Just(xid), ending(xid))),
        ) {
            let xid = Xid::new(xid);
            let bytes = ending.encode(xid);
            prop_assert_eq!(Ending::decode(xid, &bytes).unwrap(), ending);
            for cut in 0..bytes.len() {
                prop_assert!(Ending::decode(xid, &bytes[..cut]).is_err());
            }
            let longer = [&bytes[..], &[0]].concat();
            prop_assert!(Ending::decode(xid, &longer).is_err());
        }

        #[test]
        fn damaged_payloads_are_refused_not_trusted(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            if let Ok(ending) = Ending::decode(Xid::FIRST, &bytes) {
                let again = ending.encode(Xid::FIRST);
                prop_assert_eq!(Ending::decode(Xid::FIRST, &again).unwrap(), ending);
            }
        }
    }

    /// The end of an ordinary transaction costs little more than its time.
    #[test]
    fn absent_lists_take_nothing() {
        let ending = Ending {
            time_micros: u64::MAX,
            floor: Xid::new(1_000_000),
            ..Ending::default()
        };
        assert_eq!(ending.encode(Xid::new(1_000_063)).len(), 10);
        assert_eq!(ending.encode(Xid::new(1_008_000)).len(), 11);
    }

    #[test]
    fn unknown_lists_are_named() {
        let mut bytes = Ending::default().encode(Xid::FIRST);
        assert_eq!(Ending::unknown_lists(&bytes), None);
        bytes[0] |= 64;
        assert_eq!(Ending::unknown_lists(&bytes), Some(64));
        assert!(Ending::decode(Xid::FIRST, &bytes).is_err());
    }
}
