use super::*;
use crate::error::IoErrorKind;

const SEEDS: std::ops::Range<u64> = 0..200;

#[test]
fn unsynced_content_may_vanish_and_synced_content_stays() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 4096]);
    file.write_all_at(&[2; 4096], 0).unwrap();
    assert_eq!(content(&disk, "d/f"), [2; 4096]);
    let none = disk.crash_with(Outcome::Nothing, 0);
    assert_eq!(content(&none, "d/f"), [1; 4096]);
    let all = disk.crash_with(Outcome::Everything, 0);
    assert_eq!(content(&all, "d/f"), [2; 4096]);
    file.sync_data().unwrap();
    for seed in SEEDS {
        assert_eq!(content(&disk.crash(seed), "d/f"), [2; 4096], "seed {seed}");
    }
}

#[test]
fn writes_arrive_in_any_order() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[0; 8192]);
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.write_all_at(&[2; 4096], 4096).unwrap();
    for (outcome, in_order) in [(Outcome::Prefix, true), (Outcome::Operations, false)] {
        let mut seen = [false; 4];
        for seed in SEEDS {
            let bytes = content(&disk.crash_with(outcome, seed), "d/f");
            let first = usize::from(bytes[0] == 1);
            let second = usize::from(bytes[4096] == 2);
            assert!(
                bytes[..4096].iter().all(|&byte| byte == bytes[0]),
                "torn, seed {seed}"
            );
            seen[first + 2 * second] = true;
        }
        assert_eq!(seen, [true, true, !in_order, true], "{outcome:?}");
    }
}

#[test]
fn writes_tear_at_sectors_and_nowhere_else() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 8192]);
    file.write_all_at(&[2; 8192], 0).unwrap();
    for (outcome, unit) in [(Outcome::Torn4096, 4096), (Outcome::Torn512, 512)] {
        let mut torn = false;
        for seed in SEEDS {
            let bytes = content(&disk.crash_with(outcome, seed), "d/f");
            for part in bytes.chunks(unit) {
                assert!(part.iter().all(|&byte| byte == part[0]), "seed {seed}");
                assert!(part[0] == 1 || part[0] == 2, "seed {seed}");
            }
            torn |= bytes[0] != bytes[8191];
        }
        assert!(torn, "{outcome:?} never tore");
    }
}

/// A device that writes 8 KiB atomically keeps or loses each aligned 8 KiB whole, of any version.
#[test]
fn atomic_pages_tear_between_pages_only() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 4 * 8192]);
    file.write_all_at(&[2; 4 * 8192], 0).unwrap();
    file.write_all_at(&[3; 8192], 8192).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in SEEDS {
        let bytes = content(&disk.crash_with(Outcome::Torn8192, seed), "d/f");
        for (page, part) in bytes.chunks(8192).enumerate() {
            assert!(part.iter().all(|&byte| byte == part[0]), "seed {seed}");
            seen.insert((page, part[0]));
        }
    }
    let versions = [1, 2].map(|version| (0..4).map(move |page| (page, version)));
    let expected = versions.into_iter().flatten().chain([(1, 3)]);
    assert_eq!(seen, expected.collect());
}

#[test]
fn any_version_since_the_last_sync_may_be_the_one() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[0; 4096]);
    for version in 1..=3 {
        file.write_all_at(&[version; 4096], 0).unwrap();
    }
    let mut seen = [false; 4];
    for seed in SEEDS {
        let bytes = content(&disk.crash_with(Outcome::Torn4096, seed), "d/f");
        seen[usize::from(bytes[0])] = true;
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
fn a_length_is_durable_only_by_sync() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 100]);
    file.write_all_at(&[2; 100], 100).unwrap();
    assert_eq!(
        content(&disk.crash_with(Outcome::Nothing, 0), "d/f"),
        [1; 100]
    );
    file.sync_data().unwrap();
    file.allocate(200, 50).unwrap();
    assert_eq!(content(&disk, "d/f")[200..], [0; 50]);
    assert_eq!(
        content(&disk.crash_with(Outcome::Nothing, 0), "d/f").len(),
        200
    );
    file.sync_data().unwrap();
    assert_eq!(
        content(&disk.crash_with(Outcome::Nothing, 0), "d/f").len(),
        250
    );
    file.set_len(10).unwrap();
    assert_eq!(
        content(&disk.crash_with(Outcome::Nothing, 0), "d/f").len(),
        250
    );
    assert_eq!(
        content(&disk.crash_with(Outcome::Everything, 0), "d/f"),
        [1; 10]
    );
}

#[test]
fn a_length_may_arrive_without_its_content_and_content_without_its_length() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[]);
    file.write_all_at(&[7; 4096], 0).unwrap();
    let mut hole = false;
    for seed in SEEDS {
        let bytes = content(&disk.crash_with(Outcome::Torn4096, seed), "d/f");
        hole |= bytes.len() == 4096 && bytes[0] == 0;
    }
    assert!(hole);
    let lost = disk.crash_with(Outcome::Nothing, 0);
    open(&lost, "d/f").set_len(4096).unwrap();
    assert_eq!(content(&lost, "d/f"), [0; 4096]);
}

#[test]
fn what_was_cut_off_does_not_come_back_by_extending() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[9; 10_000]);
    file.set_len(5_000).unwrap();
    file.set_len(10_000).unwrap();
    let mut expected = vec![9; 5_000];
    expected.resize(10_000, 0);
    assert_eq!(content(&disk, "d/f"), expected);
    file.sync_data().unwrap();
    assert_eq!(content(&disk.crash(3), "d/f"), expected);
}

#[test]
fn an_allocation_keeps_content_and_never_shortens() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[9; 10_000]);
    file.allocate(0, 5_000).unwrap();
    file.allocate(2_000, 0).unwrap();
    assert_eq!(content(&disk, "d/f"), [9; 10_000]);
}

#[test]
fn direct_io_must_be_aligned() {
    let disk = disk();
    let path = Path::new("d/f");
    let file = disk.open(path, OpenOptions::create().direct(true)).unwrap();
    let mut buf = crate::AlignedBuf::zeroed(8192);
    file.write_all_at(&buf, 4096).unwrap();
    assert_eq!(file.read_at(&mut buf[..4096], 8192).unwrap(), 4096);
    let refused = [
        file.write_all_at(&buf, 512),
        file.write_all_at(&buf[..512], 0),
        file.write_all_at(&buf[512..4608], 0),
        file.read_exact_at(&mut buf[..512], 0),
        file.read_exact_at(&mut buf[512..4608], 0),
    ];
    for result in refused {
        assert_eq!(result.unwrap_err().kind(), IoErrorKind::InvalidInput);
    }
}

#[test]
fn a_direct_write_is_as_unsynced_as_any() {
    let disk = disk();
    durable(&disk, "d/f", &[1; 4096]);
    let file = disk
        .open(Path::new("d/f"), OpenOptions::read_write().direct(true))
        .unwrap();
    let mut buf = crate::AlignedBuf::zeroed(4096);
    buf.fill(2);
    file.write_all_at(&buf, 0).unwrap();
    assert_eq!(content(&disk, "d/f"), [2; 4096]);
    assert_eq!(
        content(&disk.crash_with(Outcome::Nothing, 0), "d/f"),
        [1; 4096]
    );
    file.sync_data().unwrap();
    assert_eq!(
        content(&disk.crash_with(Outcome::Nothing, 0), "d/f"),
        [2; 4096]
    );
}

#[test]
fn vectored_transfers_take_the_slices_in_turn() {
    use std::io::{IoSlice, IoSliceMut};
    let disk = disk();
    let file = open(&disk, "d/f");
    let (a, b) = ([1; 5_000], [2; 3]);
    file.write_all_vectored_at(&mut [IoSlice::new(&a), IoSlice::new(&b)], 10)
        .unwrap();
    let (mut c, mut d) = ([0; 12], [9; 6_000]);
    let got = file
        .read_vectored_at(&mut [IoSliceMut::new(&mut c), IoSliceMut::new(&mut d)], 0)
        .unwrap();
    assert_eq!(got, 5_013);
    assert_eq!(c[9..], [0, 1, 1]);
    assert_eq!(d[4_997..5_002], [1, 2, 2, 2, 9]);
}
