use super::*;
use crate::error::OpKind;

/// A few operations of every kind.
fn workload(disk: &SimDisk) {
    for n in 0..6u8 {
        let path = format!("d/{n}");
        let file = open(disk, &path);
        file.allocate(0, 20_000).unwrap();
        file.write_all_at(&[n + 1; 9000], u64::from(n) * 700)
            .unwrap();
        if n % 2 == 0 {
            file.sync_data().unwrap();
        }
        file.write_all_at(&[n + 10; 600], 100).unwrap();
        if n % 3 == 0 {
            disk.sync_dir(Path::new("d")).unwrap();
        }
        let to = format!("d/renamed{n}");
        disk.rename(Path::new(&path), Path::new(&to)).unwrap();
    }
    disk.remove(Path::new("d/renamed1")).unwrap();
    disk.inject(Fault::nth(1, FaultKind::Eio).on(OpKind::SyncData));
    let file = open(disk, "d/renamed2");
    file.write_all_at(&[77; 9000], 50).unwrap();
    file.sync_data().unwrap_err();
}

/// Every file with its content.
fn dump(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    if !exists(disk, "d") {
        return Vec::new();
    }
    let names = disk.list(Path::new("d")).unwrap();
    names
        .into_iter()
        .map(|name| (name.clone(), content(disk, &format!("d/{name}"))))
        .collect()
}

#[test]
fn replayed_and_live_states_give_the_same_images() {
    let disk = disk();
    workload(&disk);
    for seed in 0..50 {
        let live = dump(&disk.crash(seed));
        assert_eq!(
            live,
            dump(&disk.image_at(disk.op_count(), seed)),
            "seed {seed}"
        );
        assert_eq!(live, dump(&disk.image_at(u64::MAX, seed)), "seed {seed}");
    }
    let mut series = disk.images(0);
    series.seek(disk.op_count());
    assert_eq!(dump(&series.process_crash()), dump(&disk.process_crash()));
}

#[test]
fn images_are_determined_by_index_outcome_and_seed() {
    let disk = disk();
    workload(&disk);
    let mut distinct = std::collections::BTreeSet::new();
    let mut count = 0;
    for image in disk.images(9) {
        assert_eq!(image.index, count);
        count += 1;
        let again = disk.image_with(image.index, image.outcome, image.seed);
        let content = dump(&image.disk);
        assert_eq!(content, dump(&again), "index {}", image.index);
        distinct.insert(content);
    }
    assert_eq!(count, disk.op_count() + 1);
    assert!(distinct.len() > 10);
}

#[test]
fn changing_an_image_changes_neither_the_disk_nor_other_images() {
    let disk = disk();
    workload(&disk);
    let before = dump(&disk);
    let (one, two) = (disk.crash(4), disk.crash(4));
    for (name, _) in dump(&one) {
        let file = open(&one, &format!("d/{name}"));
        file.write_all_at(&[0xEE; 30_000], 0).unwrap();
        file.sync_data().unwrap();
    }
    assert_eq!(dump(&disk), before);
    assert_eq!(dump(&two), dump(&disk.crash(4)));
    assert_ne!(dump(&one), dump(&two));
}

#[test]
fn an_image_crashes_in_its_turn() {
    let disk = disk();
    durable(&disk, "d/f", &[1; 4096]);
    let image = disk.crash(0);
    assert_eq!(image.op_count(), 0);
    open(&image, "d/f").write_all_at(&[2; 4096], 0).unwrap();
    assert_eq!(
        content(&image.crash_with(Outcome::Nothing, 0), "d/f"),
        [1; 4096]
    );
    assert_eq!(
        content(&image.image_with(0, Outcome::Everything, 0), "d/f"),
        [1; 4096]
    );
    assert_eq!(
        content(&image.image_with(1, Outcome::Everything, 0), "d/f"),
        [2; 4096]
    );
}

#[test]
fn a_process_crash_keeps_counting() {
    let disk = disk();
    let file = open(&disk, "d/f");
    file.write_all_at(b"x", 0).unwrap();
    let survivor = disk.process_crash();
    let at = disk.op_count();
    assert_eq!(survivor.op_count(), at);
    open(&survivor, "d/f").sync_data().unwrap();
    survivor.sync_dir(Path::new("d")).unwrap();
    assert_eq!(survivor.op_count(), at + 2);
    assert_eq!(survivor.operation(at + 1).unwrap().op, OpKind::SyncData);
    assert!(survivor.operation(at).is_none());
    let indexes: Vec<u64> = survivor.images(0).map(|image| image.index).collect();
    assert_eq!(indexes, [at, at + 1, at + 2]);
    let lost = survivor.image_with(at + 1, Outcome::Nothing, 0);
    assert!(!exists(&lost, "d/f"));
    let kept = survivor.image_with(at + 2, Outcome::Nothing, 0);
    assert_eq!(content(&kept, "d/f"), b"x");
}

#[test]
fn a_series_goes_upward_and_names_its_operations() {
    let disk = disk();
    durable(&disk, "d/f", b"abc");
    let mut series = disk.images(0);
    assert_eq!(series.operation(), None);
    assert_eq!(series.seek(4), 4);
    let operation = series.operation().unwrap();
    assert_eq!(operation.to_string(), "#4 write \"d/f\" at 0 for 3");
    assert_eq!(disk.operation(4), Some(operation));
    assert_eq!(series.seek(2), 4, "never back");
    assert_eq!(series.seek(u64::MAX), series.end());
    let stepped: Vec<u64> = disk.images(0).step(3).map(|image| image.index).collect();
    assert_eq!(stepped, [0, 3, 6]);
}

#[test]
fn acknowledgements_carry_the_index_they_were_made_at() {
    let disk = disk();
    let before = disk.op_count();
    let at = disk.acknowledge(1);
    durable(&disk, "d/f", b"x");
    disk.acknowledge(2);
    assert_eq!(at, before);
    assert_eq!(disk.acknowledged_by(before), [1]);
    assert_eq!(disk.acknowledged_by(disk.op_count() - 1), [1]);
    assert_eq!(disk.acknowledged_by(disk.op_count()), [1, 2]);
}

#[test]
fn what_is_unsynced_is_named() {
    let disk = disk();
    let file = durable(&disk, "d/f", b"x");
    assert!(disk.unsynced().is_empty());
    file.write_all_at(b"y", 0).unwrap();
    open(&disk, "d/g");
    assert_eq!(disk.unsynced(), [Path::new("d/f"), Path::new("d/g")]);
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("d")).unwrap();
    assert!(disk.unsynced().is_empty());
}

#[test]
fn a_crash_of_the_machine_changes_the_boot_id_and_no_other_end_does() {
    let disk = disk();
    durable(&disk, "d/f", b"x");
    let id = |disk: &SimDisk| disk.boot_id().unwrap();
    let first = id(&disk);
    disk.drop_caches();
    let mut series = disk.images(1);
    series.seek(1);
    for same in [disk.clone(), disk.process_crash(), series.process_crash()] {
        assert_eq!(id(&same), first);
    }
    let crashed = disk.crash(0);
    let images = [series.image(Outcome::Everything, 0), disk.image_at(1, 0)];
    for other in images.iter().chain([&crashed]) {
        assert_ne!(id(other), first);
        assert_eq!(id(&other.process_crash()), id(other));
    }
    let again = crashed.crash(0);
    assert!(![first, id(&crashed)].contains(&id(&again)));
    again.forget_boot_id();
    assert_eq!(again.boot_id(), None);
}
