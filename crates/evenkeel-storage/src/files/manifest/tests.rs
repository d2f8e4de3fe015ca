use evenkeel_io::{Disk, Fault, FaultKind, OpKind, OpenOptions, SimDisk};

use std::collections::BTreeSet;

use super::*;
use crate::Poison;
use crate::ids::{BlockNumber, Lsn};

const FILES: u64 = 4;

fn dir() -> &'static Path {
    Path::new("/db")
}

fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.create_dir_all(dir()).expect("made");
    disk
}

fn nothing() -> Removed {
    Removed {
        files: Vec::new(),
        cuts: Vec::new(),
    }
}

fn write(manifest: &Manifest, disk: &SimDisk) -> ManifestPosition {
    let sync = SyncTable::new(Arc::new(disk.clone()), true, &Poison::new(), 16);
    let position = manifest.write(&sync, dir()).expect("written");
    manifest.sync(&sync, dir()).expect("synced");
    position
}

fn load(disk: &SimDisk, position: ManifestPosition) -> Manifest {
    let manifest = Manifest::new();
    manifest
        .load(disk, dir(), position, &nothing())
        .expect("the disk works");
    manifest
}

/// Length and LSNs of every fork that has blocks.
fn content(manifest: &Manifest) -> BTreeMap<(FileId, Fork), (u32, Vec<Lsn>)> {
    let forks = manifest.forks.read();
    let lsns = |known: &PageLsns| {
        (0..known.len())
            .map(|at| known.get(BlockNumber(at)))
            .collect()
    };
    let all = forks
        .iter()
        .map(|(key, known)| (*key, (known.len(), lsns(known))));
    all.filter(|(_, (len, _))| *len > 0).collect()
}

/// Changes something; `word` says what.
fn change(manifest: &Manifest, word: u64, lsn: Lsn) {
    let (file, at) = (FileId((word >> 8) & (FILES - 1)), (word >> 16) as u32);
    let known = manifest.fork(file, Fork::Main);
    match word % 8 {
        0 => manifest.forget(file),
        1 => known.cut(at % 2_000),
        2 | 3 => known.grow(at % 2_000),
        _ => {
            let first = at % 2_000;
            known.wrote(
                (first..first + 1 + (word >> 40) as u32 % 40).map(|at| (BlockNumber(at), lsn)),
            );
        }
    }
}

/// FILE-13: what is read is what was known when it was written, however often it was.
#[test]
fn a_manifest_is_read_as_it_was_written() {
    let disk = disk(1);
    let mut manifest = Manifest::new();
    let (mut position, mut numbers) = (ManifestPosition::default(), BTreeSet::new());
    for n in 1..6_000 {
        change(&manifest, disk.random_u64(), Lsn(n * 8));
        if n % 20 == 0 {
            position = write(&manifest, &disk);
            numbers.insert(position.number);
            let again = load(&disk, position);
            assert_eq!(content(&again), content(&manifest), "step {n}");
            assert_eq!(again.fault(), None);
        }
        if n % 400 == 0 {
            manifest = load(&disk, position);
        }
    }
    assert!(numbers.len() > 2, "begun anew: {numbers:?}");
    // Nothing to write is nothing written.
    position = write(&manifest, &disk);
    assert_eq!(write(&manifest, &disk), position);
}

#[test]
fn what_a_later_record_removes_is_not_expected() {
    let disk = disk(2);
    let manifest = Manifest::new();
    for file in 1..4 {
        let known = manifest.fork(FileId(file), Fork::Main);
        known.grow(10);
        known.wrote((0..10).map(|at| (BlockNumber(at), Lsn(8))));
    }
    let position = write(&manifest, &disk);
    let manifest = Manifest::new();
    let removed = Removed {
        files: vec![FileId(1)],
        cuts: vec![(FileId(2), Fork::Main, 4), (FileId(9), Fork::Main, 0)],
    };
    manifest
        .load(&disk, dir(), position, &removed)
        .expect("sound");
    let mut files = manifest.files();
    files.sort_unstable();
    assert_eq!(files, [FileId(2), FileId(3)]);
    let expected = content(&manifest);
    assert_eq!(manifest.len_of(FileId(2), Fork::Main), 4);
    assert_eq!(
        manifest.fork(FileId(2), Fork::Main).get(BlockNumber(7)),
        Lsn::ZERO
    );
    // The journal knows it from now on.
    let position = write(&manifest, &disk);
    assert_eq!(content(&load(&disk, position)), expected);
}

/// A power failure leaves the one that the control file names.
#[test]
fn a_crash_while_it_is_written_leaves_the_one_before() {
    let disk = disk(3);
    disk.sync_dir(Path::new("/")).expect("synced");
    let manifest = Manifest::new();
    let mut before = (ManifestPosition::default(), BTreeMap::new());
    for n in 1..3_000 {
        change(&manifest, disk.random_u64(), Lsn(n * 8));
        if n % 60 == 0 {
            let begin = disk.op_count();
            let position = write(&manifest, &disk);
            let end = disk.op_count();
            for index in begin..end {
                let image = disk.image_at(index, n);
                let found = load(&image, before.0);
                assert_eq!(found.fault(), None, "step {n}, operation {index}");
                assert_eq!(content(&found), before.1, "step {n}, operation {index}");
            }
            before = (position, content(&manifest));
            let after = load(&disk.image_at(end, n), position);
            assert_eq!(content(&after), before.1, "step {n}");
        }
    }
}

/// It is no worse for a manifest to be damaged than for any other file: that is said, and what
/// is written from then on is whole.
#[test]
fn a_damaged_manifest_is_named() {
    let whole = disk(4);
    let manifest = Manifest::new();
    let mut old = Vec::new();
    let mut position = ManifestPosition::default();
    let path = Path::new("/db/manifest.1");
    for n in 1..200 {
        change(&manifest, whole.random_u64() | 4, Lsn(n * 8));
        manifest.fork(FileId(1), Fork::Main).grow(n as u32);
        position = write(&manifest, &whole);
        if n == 150 {
            let file = whole.open(path, OpenOptions::read_only()).expect("there");
            old.resize(file.len().expect("length") as usize, 0);
            file.read_exact_at(&mut old, 0).expect("read");
        }
    }
    assert_eq!(position.number, 1);
    let damages: [&dyn Fn(&SimDisk); 5] = [
        &|disk| disk.remove(path).expect("removed"),
        &|disk| at(disk, path).set_len(position.len - 1).expect("cut"),
        &|disk| at(disk, path).set_len(0).expect("cut"),
        &|disk| {
            at(disk, path)
                .write_all_at(&[0x55], position.len / 2)
                .expect("written");
        },
        &|disk| at(disk, path).write_all_at(&old, 0).expect("written"),
    ];
    for (number, damage) in damages.iter().enumerate() {
        let disk = whole.process_crash();
        damage(&disk);
        let found = load(&disk, position);
        let fault = found
            .fault()
            .unwrap_or_else(|| panic!("damage {number} is not noticed"));
        assert!(fault.contains("/db/manifest.1"), "{fault}");
        assert!(content(&found).is_empty());
        found.fork(FileId(3), Fork::Vm).grow(7);
        let position = write(&found, &disk);
        assert_eq!(content(&load(&disk, position)), content(&found));
        assert_eq!(found.fault(), None);
    }
}

fn at(disk: &SimDisk, path: &Path) -> Arc<dyn evenkeel_io::File> {
    disk.open(path, OpenOptions::read_write()).expect("there")
}

/// A full disk is no reason to stop checkpoints: nothing is known until there is room.
#[test]
fn a_full_disk_breaks_the_manifest_off_until_there_is_room() {
    let disk = disk(5);
    let manifest = Manifest::new();
    let known = manifest.fork(FileId(1), Fork::Main);
    known.grow(90_000);
    assert_ne!(write(&manifest, &disk).number, 0);
    disk.inject(Fault::nth(1, FaultKind::Enospc).on(OpKind::Write));
    known.wrote((0..90_000).map(|at| (BlockNumber(at), Lsn(8))));
    assert_eq!(write(&manifest, &disk), ManifestPosition::default());
    disk.clear_faults();
    known.cut(80_000);
    let position = write(&manifest, &disk);
    assert_eq!(content(&load(&disk, position)), content(&manifest));
}

#[test]
fn a_manifest_that_finds_no_descriptor_begins_nothing_and_the_next_is_whole() {
    let disk = disk(7);
    let poison = Poison::new();
    let sync = SyncTable::new(Arc::new(disk.clone()), true, &poison, 16);
    let manifest = Manifest::new();
    disk.set_max_open_files(Some(disk.open_files()));
    let error = manifest.write(&sync, dir()).expect_err("no descriptor");
    assert!(matches!(error, StorageError::TooManyFiles(_)), "{error}");
    assert!(!poison.is_set());
    disk.set_max_open_files(None);
    let position = manifest.write(&sync, dir()).expect("written");
    manifest.sync(&sync, dir()).expect("synced");
    assert_eq!(load(&disk, position).fault(), None);
}
