//! A careful program survives every image; each of its careless variants is caught.

use super::*;

/// Which precaution the program leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    NoFileSync,
    NoDirSync,
    SyncAfterRename,
    WriteInPlace,
}

/// Replaces `d/control` by one version after another, acknowledging each.
fn replace(disk: &SimDisk, mutant: Mutant) {
    let (temporary, control) = (Path::new("d/control.tmp"), Path::new("d/control"));
    for version in 1..=8u8 {
        let body = [version; 6000];
        if mutant == Mutant::WriteInPlace {
            let file = open(disk, "d/control");
            file.write_all_at(&body, 0).unwrap();
            file.sync_data().unwrap();
            disk.sync_dir(Path::new("d")).unwrap();
            disk.acknowledge(u64::from(version));
            continue;
        }
        let file = disk
            .open(temporary, OpenOptions::create().truncate())
            .unwrap();
        file.write_all_at(&body, 0).unwrap();
        if !matches!(mutant, Mutant::NoFileSync | Mutant::SyncAfterRename) {
            file.sync_data().unwrap();
        }
        disk.rename(temporary, control).unwrap();
        if mutant != Mutant::NoDirSync {
            disk.sync_dir(Path::new("d")).unwrap();
        }
        if mutant == Mutant::SyncAfterRename {
            file.sync_data().unwrap();
        }
        disk.acknowledge(u64::from(version));
    }
}

/// Whether an image holds a whole version not older than the last one acknowledged.
fn holds(original: &SimDisk, image: &CrashImage) -> bool {
    let needed = original
        .acknowledged_by(image.index)
        .last()
        .copied()
        .unwrap_or(0);
    if !exists(&image.disk, "d/control") {
        return needed == 0;
    }
    let bytes = content(&image.disk, "d/control");
    let whole = bytes.len() == 6000 && bytes.iter().all(|&byte| byte == bytes[0]);
    whole && u64::from(bytes[0]) >= needed
}

#[test]
fn careless_programs_are_caught_and_the_careful_one_is_not() {
    for (mutant, sound) in [
        (Mutant::None, true),
        (Mutant::NoFileSync, false),
        (Mutant::NoDirSync, false),
        (Mutant::SyncAfterRename, false),
        (Mutant::WriteInPlace, false),
    ] {
        let disk = disk();
        replace(&disk, mutant);
        let mut failures = Vec::new();
        for seed in 0..20 {
            for image in disk.images(seed) {
                if !holds(&disk, &image) {
                    failures.push((image.index, image.seed));
                }
            }
        }
        assert_eq!(failures.is_empty(), sound, "{mutant:?}: {failures:?}");
    }
}

#[test]
fn a_sync_submitted_with_its_write_covers_nothing() {
    use crate::queue::{IoOp, IoQueue};
    let write_and_sync = |queue: &mut dyn IoQueue, file: &Arc<dyn File>, wait: bool| {
        let mut buf = crate::IoBuf::zeroed(4096);
        buf.fill(1);
        let write = IoOp::write(Arc::clone(file), 0, vec![buf], 1);
        let sync = IoOp::sync_data(Arc::clone(file), 2);
        let mut done = Vec::new();
        if wait {
            queue.submit(vec![write]);
            queue.wait(1, &mut done);
            queue.submit(vec![sync]);
            queue.wait(1, &mut done);
        } else {
            queue.submit(vec![write, sync]);
            queue.wait(2, &mut done);
        }
        assert!(done.len() == 2 && done.iter().all(|one| one.result.is_ok()));
    };
    for (wait, expected) in [(true, false), (false, true)] {
        let mut lost = false;
        for seed in 0..50 {
            let disk = SimDisk::new(seed);
            let file = open(&disk, "f");
            disk.sync_dir(Path::new("")).unwrap();
            write_and_sync(&mut *disk.queue(8), &file, wait);
            lost |= content(&disk.crash_with(Outcome::Nothing, 0), "f").is_empty();
        }
        assert_eq!(lost, expected, "waiting: {wait}");
    }
}
