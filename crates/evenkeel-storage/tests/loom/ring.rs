//! The log's ring: records come out whole and in order, and space is handed round without loss.

use loom::sync::Arc;
use loom::thread;

use crate::check;
use crate::ids::Lsn;
use crate::record::{FLAG_NOTIFY, HEADER_LEN};
use crate::wal::buffers::WalBuffers;

/// A record of a header alone, whose transaction id is `xid`. (Its kind and flags are the bytes
/// 24 and 25, of which the first 8 are the mark.)
pub fn put(ring: &WalBuffers, xid: u64) -> Lsn {
    let mut body = [0; HEADER_LEN - 8];
    body[..8].copy_from_slice(&xid.to_le_bytes());
    body[17] = FLAG_NOTIFY;
    let reservation = ring.reserve(HEADER_LEN, || {});
    let lsn = reservation.lsn();
    reservation.publish(&body, mark());
    lsn
}

fn mark() -> u64 {
    // The length is in the lower half; the checksum in the upper one does not matter here.
    HEADER_LEN as u64 | 7 << 32
}

/// Walks and drains once; returns the ids of the records that came out.
fn drain(ring: &WalBuffers, from: &mut Lsn) -> Vec<u64> {
    let mut seen = Vec::new();
    let completed = ring.walk(|note| seen.push((note.lsn, note.xid))).completed;
    let mut ids = Vec::new();
    while *from < completed {
        let mut bytes = [0; HEADER_LEN];
        ring.drain(*from, &mut bytes);
        assert_eq!(bytes[..8], mark().to_le_bytes(), "the record is whole");
        let mut xid = [0; 8];
        xid.copy_from_slice(&bytes[8..16]);
        let note = seen.iter().find(|(lsn, _)| lsn == from);
        assert_eq!(note.map(|note| note.1), Some(u64::from_le_bytes(xid)));
        ids.push(u64::from_le_bytes(xid));
        from.0 += HEADER_LEN as u64;
    }
    ids
}

/// Two threads insert while a third drains: each record comes out once, whole, and only after
/// it is complete.
#[test]
fn records_come_out_whole_while_others_insert() {
    check(3, || {
        let ring = Arc::new(WalBuffers::new(2 * HEADER_LEN, Lsn(64)));
        let writers: Vec<_> = [1, 2]
            .map(|xid| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || put(&ring, xid))
            })
            .into();
        let mut at = Lsn(64);
        let mut out = drain(&ring, &mut at);
        for writer in writers {
            writer.join().unwrap();
        }
        out.extend(drain(&ring, &mut at));
        out.sort_unstable();
        assert_eq!(out, [1, 2]);
    });
}

/// A full ring is used again: who waits for space is woken, and finds its place empty.
#[test]
fn space_that_is_drained_is_used_again() {
    check(3, || {
        let ring = Arc::new(WalBuffers::new(2 * HEADER_LEN, Lsn(64)));
        let mut at = Lsn(64);
        put(&ring, 1);
        put(&ring, 2);
        let writer = Arc::clone(&ring);
        let writer = thread::spawn(move || put(&writer, 3));
        assert_eq!(drain(&ring, &mut at), [1, 2]);
        assert_eq!(writer.join().unwrap(), Lsn(64 + 2 * HEADER_LEN as u64));
        assert_eq!(drain(&ring, &mut at), [3]);
    });
}

/// A ring that is closed lets everybody through who waits for space.
#[test]
fn nobody_waits_in_a_closed_ring() {
    check(3, || {
        let ring = Arc::new(WalBuffers::new(2 * HEADER_LEN, Lsn(64)));
        put(&ring, 1);
        put(&ring, 2);
        let writer = Arc::clone(&ring);
        let writer = thread::spawn(move || put(&writer, 3));
        ring.close();
        writer.join().unwrap();
    });
}
