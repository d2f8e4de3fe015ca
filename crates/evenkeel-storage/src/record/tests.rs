//! WAL-1 to WAL-3: what was encoded is decoded, and nothing else passes.

use proptest::prelude::*;

use super::*;
use crate::ids::{BlockNumber, FileId, Fork, PageId};

#[derive(Debug, Clone)]
struct Part {
    page: PageId,
    flags: PartFlags,
    op: u16,
    prev: Lsn,
    data: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Sample {
    xid: u64,
    kind: u8,
    flags: u8,
    removal: Option<RemovalLsn>,
    parts: Vec<Part>,
    payload: Vec<u8>,
}

const LSN: Lsn = Lsn(0x1234_5678);
const INCARNATION: u64 = 0xFEED_FACE_CAFE_BEEF;

prop_compose! {
    fn part()(
        file in any::<u64>(),
        block in any::<u32>(),
        fork in 0u8..3,
        flags in 0u8..8,
        op in any::<u16>(),
        prev in any::<u64>(),
        data in prop::collection::vec(any::<u8>(), 0..200),
    ) -> Part {
        let fork = Fork::from_u8(fork).expect("a fork");
        let page = PageId { file: FileId(file), fork, block: BlockNumber(block) };
        Part { page, flags: PartFlags(flags), op, prev: Lsn(prev), data }
    }
}

prop_compose! {
    fn sample()(
        xid in any::<u64>(),
        kind in 16u8..,
        flags in any::<u8>(),
        removal in prop::option::of(prop_oneof![
            Just(RemovalLsn::Own),
            (1..u64::MAX).prop_map(|lsn| RemovalLsn::Commit(Lsn(lsn))),
        ]),
        parts in prop::collection::vec(part(), 0..6),
        payload in prop::collection::vec(any::<u8>(), 0..100),
    ) -> Sample {
        let flags = flags & (FLAG_NOTIFY | CLIENT_FLAGS);
        Sample { xid, kind, flags, removal, parts, payload }
    }
}

fn encode(sample: &Sample) -> Vec<u8> {
    let mut record = RecordBuilder::new(Vec::new(), sample.xid);
    record.removal(sample.removal.unwrap_or(RemovalLsn::Commit(Lsn::ZERO)));
    for part in &sample.parts {
        record.part(part.page, part.flags, part.op, part.prev, &part.data);
    }
    record.payload(RecordKind(sample.kind), &sample.payload);
    record.add_flags(sample.flags);
    let _ = record.seal(Lsn(LSN.0 - 4096));
    sealed(record.into_buffer())
}

/// These bytes with a checksum that fits.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = body_crc(&bytes[8..]);
    let mark = completion_mark(LSN, INCARNATION, bytes.len() as u32, crc);
    bytes[..8].copy_from_slice(&mark.to_le_bytes());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_round_trip(sample in sample(), tail in prop::collection::vec(any::<u8>(), 0..20)) {
        let mut bytes = encode(&sample);
        let len = bytes.len();
        bytes.extend_from_slice(&tail);
        let record = RecordView::parse(&bytes, LSN, INCARNATION).expect("valid");
        prop_assert_eq!(record.total_len(), len);
        prop_assert_eq!(record.end().0, LSN.0 + aligned(len) as u64);
        prop_assert_eq!(record.xid(), sample.xid);
        prop_assert_eq!(record.kind().0, sample.kind);
        prop_assert_eq!(record.flags() & !FLAG_REMOVAL, sample.flags);
        prop_assert_eq!(record.removal(), sample.removal);
        prop_assert_eq!(record.durable().0, LSN.0 - 4096);
        prop_assert_eq!(record.payload(), &sample.payload[..]);
        let parts: Vec<_> = record.parts().collect();
        prop_assert_eq!(parts.len(), sample.parts.len());
        for (read, written) in parts.iter().zip(&sample.parts) {
            prop_assert_eq!(read.page, written.page);
            prop_assert_eq!(read.flags, written.flags);
            prop_assert_eq!(read.op, written.op);
            prop_assert_eq!(read.prev_lsn, written.prev);
            prop_assert_eq!(read.data, &written.data[..]);
        }
    }

    #[test]
    fn every_flipped_bit_is_detected(sample in sample()) {
        let mut bytes = encode(&sample);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(RecordView::parse(&bytes, LSN, INCARNATION).is_err(), "bit {}", bit);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        prop_assert!(RecordView::parse(&bytes, LSN, INCARNATION).is_ok());
    }

    #[test]
    fn a_record_is_valid_only_at_its_place_and_in_its_incarnation(
        sample in sample(),
        shift in 1u64..1 << 20,
        bit in 0u32..64,
    ) {
        let bytes = encode(&sample);
        let elsewhere = Lsn(LSN.0 + shift * ALIGN as u64);
        prop_assert!(RecordView::parse(&bytes, elsewhere, INCARNATION).is_err());
        prop_assert!(RecordView::parse(&bytes, LSN, INCARNATION ^ (1 << bit)).is_err());
    }

    #[test]
    fn any_bytes_are_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(RecordView::parse(&bytes, LSN, INCARNATION).is_err());
        let mut bytes = bytes;
        if bytes.len() >= HEADER_LEN {
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            bytes[16..24].fill(0);
            bytes[27] = 0;
            bytes[29..32].fill(0);
            // The structure may fit by chance; then everything it names can be read.
            if let Ok(record) = RecordView::parse_unverified(&bytes, LSN) {
                let parts: usize = record.parts().map(|part| part.data.len() + PART_LEN).sum();
                let extension = record.removal().map_or(0, |_| REMOVAL_LEN);
                let head = HEADER_LEN + extension;
                prop_assert_eq!(head + parts + record.payload().len(), bytes.len());
            }
        }
    }

    #[test]
    fn a_cut_record_asks_for_its_rest(sample in sample(), cut in any::<prop::sample::Index>()) {
        let bytes = encode(&sample);
        let cut = cut.index(bytes.len());
        let fault = RecordView::parse(&bytes[..cut], LSN, INCARNATION).expect_err("cut");
        let expected = if cut < 8 { 8 } else { bytes.len() };
        prop_assert_eq!(fault, RecordFault::Short(expected));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// WAL-16: whatever is not known is named, if the checksum fits, and nothing otherwise.
    #[test]
    fn unknown_content_is_named_only_if_the_checksum_fits(
        sample in sample(),
        kind in 0u8..16,
        flag in 2u32..4,
        part in part(),
        bit in 4u32..8,
        fork in 3u8..,
    ) {
        let mut sample = sample;
        sample.parts.insert(0, part);
        let whole = encode(&sample);
        let first = HEADER_LEN + sample.removal.map_or(0, |_| REMOVAL_LEN);
        let known = RecordKind(sample.kind);
        let kind = if RecordKind(kind).storage_name().is_some() { 0 } else { kind };
        let flags = whole[25] | 1 << flag;
        let part_flags = whole[first + 13] | 1 << bit;
        for (at, byte, unknown) in [
            (24, kind, Unknown::Kind(RecordKind(kind))),
            (25, flags, Unknown::Flags(known, flags)),
            (first + 12, fork, Unknown::Fork(known, fork)),
            (first + 13, part_flags, Unknown::PartFlags(known, part_flags)),
            (28, whole[28] ^ 1, Unknown::Structure(known)),
        ] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            let fault = RecordView::parse(&bytes, LSN, INCARNATION).err();
            prop_assert_eq!(fault, Some(RecordFault::Structure), "{}", unknown);
            let bytes = sealed(bytes);
            let fault = RecordView::parse(&bytes, LSN, INCARNATION).err();
            prop_assert_eq!(fault, Some(RecordFault::Unknown(unknown)));
        }
    }

    #[test]
    fn announcements_of_an_incarnation_round_trip(
        incarnation: u64, timeline: u32, term: u64, old_end: u64, floor: u64, version: u32,
    ) {
        let old_end = Lsn(old_end);
        let mut next = Incarnation {
            incarnation, version: LOG_VERSION, timeline, term, old_end, floor,
        };
        let bytes = next.encode();
        prop_assert_eq!(Incarnation::decode(&bytes), Ok(next));
        for cut in 0..bytes.len() {
            prop_assert!(Incarnation::decode(&bytes[..cut]).is_err());
        }
        prop_assert!(Incarnation::decode(&[&bytes[..], &[0]].concat()).is_err());
        next.version = version;
        let decoded = Incarnation::decode(&next.encode());
        prop_assert_eq!(decoded.is_ok(), version == LOG_VERSION);
    }
}

#[test]
fn zeros_are_the_end_and_marks_are_never_zero() {
    assert_eq!(
        RecordView::parse(&[0; 64], LSN, INCARNATION).err(),
        Some(RecordFault::Empty)
    );
    assert_ne!(
        completion_mark(LSN, INCARNATION, 32, salt(LSN, INCARNATION, 32)),
        0
    );
}

#[test]
fn fields_beyond_the_end_are_errors() {
    let mut fields = FieldReader::new(&[1, 0, 2, 0, 0, 0, 9]);
    assert_eq!(fields.u16(), Ok(1));
    assert_eq!(fields.u32(), Ok(2));
    assert!(fields.u16().is_err());
    assert_eq!(fields.u8(), Ok(9));
    assert!(fields.rest().is_empty());
}
