//! The record of the state of all transactions.
//!
//! ```text
//! payload  more u8 | time_micros u64 | next_file u64 | next u64 | newest_commit u64
//!          | floor, oldest_status: LEB128 of next - id | open | locks | files
//! open     count LEB128 | ids, LEB128: the difference to the one before (first: to the floor)
//! locks    count LEB128 | xid, table: LEB128
//! files    count LEB128 | file, xid: LEB128
//! ```

use evenkeel_storage::record::FieldReader;
use evenkeel_storage::{ApplyError, FileId, Lsn};

use super::varint::{put_leb, take_leb, to_xid};
use crate::types::Xid;

/// Entries of each list in one record; longer ones go on in the next.
const AT_ONCE: usize = 4096;

/// The state of all transactions shortly before the record: what an earlier record decides is
/// decided, and a transaction that an earlier record ends holds nothing. An id below the next one
/// that is neither listed nor decided by a record has aborted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Running {
    /// The lists go on in the next such record.
    pub more: bool,
    /// Microseconds since the Unix epoch.
    pub time_micros: u64,
    /// No file has this number or a higher one.
    pub next_file: u64,
    /// The id that the next transaction gets.
    pub next: Xid,
    /// The newest commit that is published.
    pub newest_commit: Lsn,
    /// All ids below are decided.
    pub floor: Xid,
    /// The first id whose status is kept.
    pub oldest_status: Xid,
    /// Ids from the floor on that are not decided, ascending.
    pub open: Vec<Xid>,
    /// Tables locked against everybody, with the transaction that has each.
    pub locks: Vec<(Xid, u64)>,
    /// Files of transactions that have not ended.
    pub files: Vec<(FileId, Xid)>,
}

impl Running {
    /// The payloads of the records that say this.
    pub(crate) fn encode(&self) -> Vec<Vec<u8>> {
        let longest = self.open.len().max(self.locks.len()).max(self.files.len());
        let records = longest.div_ceil(AT_ONCE).max(1);
        (0..records)
            .map(|at| self.encode_piece(at, at + 1 < records))
            .collect()
    }

    fn encode_piece(&self, at: usize, more: bool) -> Vec<u8> {
        let mut bytes = vec![u8::from(more)];
        let words = [
            self.time_micros,
            self.next_file,
            self.next.get(),
            self.newest_commit.0,
        ];
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for id in [self.floor, self.oldest_status] {
            put_leb(&mut bytes, self.next.get().saturating_sub(id.get()));
        }
        let open = piece(&self.open, at);
        put_leb(&mut bytes, open.len() as u64);
        let mut last = self.floor;
        for xid in open {
            put_leb(&mut bytes, xid.get() - last.get());
            last = *xid;
        }
        let locks = piece(&self.locks, at);
        put_leb(&mut bytes, locks.len() as u64);
        for (xid, table) in locks {
            put_leb(&mut bytes, xid.get());
            put_leb(&mut bytes, *table);
        }
        let files = piece(&self.files, at);
        put_leb(&mut bytes, files.len() as u64);
        for (file, xid) in files {
            put_leb(&mut bytes, file.0);
            put_leb(&mut bytes, xid.get());
        }
        bytes
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// When it is not one.
    pub fn decode(payload: &[u8]) -> Result<Running, ApplyError> {
        Self::parse(&mut FieldReader::new(payload)).map_err(|ApplyError(reason)| {
            ApplyError(format!("damaged record of running transactions: {reason}"))
        })
    }

    fn parse(fields: &mut FieldReader<'_>) -> Result<Running, ApplyError> {
        let more = match fields.u8()? {
            more @ (0 | 1) => more == 1,
            other => return Err(ApplyError(format!("flags {other:#04x}"))),
        };
        let mut running = Running {
            more,
            time_micros: fields.u64()?,
            next_file: fields.u64()?,
            next: to_xid(fields.u64()?)?,
            newest_commit: Lsn(fields.u64()?),
            ..Running::default()
        };
        let next = running.next.get();
        let below = |fields: &mut FieldReader<'_>| {
            let id = next.checked_sub(take_leb(fields)?);
            to_xid(id.ok_or_else(|| ApplyError::new("id beyond the next one"))?)
        };
        running.floor = below(fields)?;
        running.oldest_status = below(fields)?;
        let mut last = running.floor.get();
        for at in 0..take_leb(fields)? {
            let step = take_leb(fields)?;
            let open = last.checked_add(step).filter(|_| at == 0 || step > 0);
            last = open.ok_or_else(|| ApplyError::new("ids do not ascend"))?;
            running.open.push(to_xid(last)?);
        }
        for _ in 0..take_leb(fields)? {
            let xid = to_xid(take_leb(fields)?)?;
            running.locks.push((xid, take_leb(fields)?));
        }
        for _ in 0..take_leb(fields)? {
            let file = FileId(take_leb(fields)?);
            running.files.push((file, to_xid(take_leb(fields)?)?));
        }
        super::varint::finished(fields)?;
        Ok(running)
    }
}

/// The entries of a list that its record number `at` has.
fn piece<T>(list: &[T], at: usize) -> &[T] {
    let start = list.len().min(at * AT_ONCE);
    &list[start..list.len().min(start + AT_ONCE)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn running()(
            time_micros: u64,
            next_file: u64,
            newest_commit: u64,
            floor in 3_u64..1 << 40,
            oldest in 0_u64..3,
            steps in prop::collection::vec(0_u64..1 << 20, 0..50),
            locks in prop::collection::vec((0_u64..1 << 48, any::<u64>()), 0..5),
            files in prop::collection::vec((any::<u64>(), 0_u64..1 << 48), 0..5),
        ) -> Running {
            let mut last = floor;
            let mut open = Vec::new();
            for (at, step) in steps.into_iter().enumerate() {
                last += step + u64::from(at > 0);
                open.push(Xid::new(last));
            }
            let locks = locks.into_iter();
            let files = files.into_iter();
            Running {
                more: false,
                time_micros,
                next_file,
                next: Xid::new(last + 1),
                newest_commit: Lsn(newest_commit),
                floor: Xid::new(floor),
                oldest_status: Xid::new(oldest),
                open,
                locks: locks.map(|(xid, table)| (Xid::new(xid), table)).collect(),
                files: files.map(|(file, xid)| (FileId(file), Xid::new(xid))).collect(),
            }
        }
    }

    proptest! {
        #[test]
        fn states_round_trip(running in running()) {
            let records = running.encode();
            prop_assert_eq!(records.len(), 1);
            let bytes = &records[0];
            prop_assert_eq!(Running::decode(bytes).unwrap(), running);
            for cut in 0..bytes.len() {
                prop_assert!(Running::decode(&bytes[..cut]).is_err());
            }
            prop_assert!(Running::decode(&[&bytes[..], &[0]].concat()).is_err());
        }

        #[test]
        fn damaged_states_are_refused_not_trusted(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let _ = Running::decode(&bytes);
        }
    }

    /// However many there are, no record becomes too long.
    #[test]
    fn long_lists_go_on_in_the_next_record() {
        let count = 2 * AT_ONCE as u64 + 7;
        let whole = Running {
            next: Xid::new(1 << 40),
            floor: Xid::FIRST,
            open: (0..count).map(|n| Xid::new(3 + n * 1000)).collect(),
            locks: (0..10).map(|n| (Xid::new(3 + n), n)).collect(),
            ..Running::default()
        };
        let mut sum = Running::default();
        let records = whole.encode();
        for (at, record) in records.iter().enumerate() {
            assert!(record.len() < 64 << 10);
            let piece = Running::decode(record).unwrap();
            assert_eq!(piece.more, at + 1 < records.len());
            let (open, locks) = (sum.open, sum.locks);
            sum = Running {
                open: [open, piece.open.clone()].concat(),
                locks: [locks, piece.locks.clone()].concat(),
                ..piece
            };
        }
        assert_eq!((records.len(), sum), (3, whole));
    }
}
