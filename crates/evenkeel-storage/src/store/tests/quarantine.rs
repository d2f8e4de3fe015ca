//! Pages that redo cannot bring up to date are set aside, with what the log owes them.

use evenkeel_io::{Fault, FaultKind, OpKind, OpenOptions};

use super::*;
use crate::config::TornPageProtection;
use crate::page::PAGE_SIZE;
use crate::quarantine::{self, EntryKind};

/// Pages of a file in the test with many files.
const EACH: u32 = 6;

/// Large enough that no page is written but by a checkpoint, and without images that a damaged
/// page could be restored from.
pub(super) fn plain() -> StorageConfig {
    StorageConfig {
        torn_page_protection: TornPageProtection::Off,
        shared_buffers: 32 << 20,
        ..config()
    }
}

fn open_plain(disk: &SimDisk) -> Arc<Store> {
    open_with(disk, plain()).expect("opens").0
}

pub(super) fn page(file: FileId, block: u32) -> PageId {
    PageId {
        file,
        fork: Fork::Main,
        block: BlockNumber(block),
    }
}

fn path(file: FileId) -> PathBuf {
    dir().join("base").join(file.number().to_string())
}

pub(super) fn overwrite(disk: &SimDisk, page: PageId, bytes: &[u8]) {
    let file = disk.open(&path(page.file), OpenOptions::read_write());
    let offset = u64::from(page.block.0) * PAGE_SIZE as u64;
    let file = file.expect("there");
    file.write_all_at(bytes, offset).expect("written");
    file.sync_all().expect("synced");
}

pub(super) fn content(disk: &SimDisk, page: PageId) -> Vec<u8> {
    let file = disk.open(&path(page.file), OpenOptions::read_only());
    let mut bytes = vec![0; PAGE_SIZE];
    let offset = u64::from(page.block.0) * PAGE_SIZE as u64;
    file.expect("there")
        .read_exact_at(&mut bytes, offset)
        .expect("read");
    bytes
}

pub(super) fn damage(disk: &SimDisk, page: PageId) {
    let mut bytes = content(disk, page);
    bytes[4096] ^= 0xff;
    overwrite(disk, page, &bytes);
}

/// Adds `delta` to the first slot of a page.
pub(super) fn add(store: &Store, file: FileId, block: u32, delta: u64) -> Lsn {
    let fork = store.pool().fork(file, Fork::Main).expect("fork");
    let mut page = fork.write(BlockNumber(block)).expect("page");
    let mut change = store.change(0);
    change.part(&mut page, ADD, PartFlags::NONE, &add_data(0, delta));
    change.commit()
}

pub(super) fn value(store: &Store, file: FileId, block: u32) -> StorageResult<u64> {
    let fork = store.pool().fork(file, Fork::Main)?;
    Ok(fork.read(BlockNumber(block))?.u64_at(PAGE_HEADER_SIZE))
}

/// Files whose pages have the sum 1 on disk at the redo point, and 1 + 2 + 4 in the log.
fn files(disk: &SimDisk, count: u64) -> Vec<FileId> {
    files_in(&open_plain(disk), count)
}

pub(super) fn files_in(store: &Store, count: u64) -> Vec<FileId> {
    let mut files = Vec::new();
    for _ in 0..count {
        let (file, hold) = store.create_file(0).expect("create");
        let fork = store.pool().fork(file, Fork::Main).expect("fork");
        fork.extend(EACH).expect("extend");
        init_pages(store, &fork, 0..EACH).expect("init");
        for block in 0..EACH {
            add(store, file, block, 1);
        }
        drop(hold);
        files.push(file);
    }
    store.recovery_finished().expect("finished");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    for delta in [2, 4] {
        for file in &files {
            for block in 0..EACH {
                add(store, *file, block, delta);
            }
        }
    }
    store.log().flush_all().expect("flush");
    files
}

/// One file whose page 2 is damaged while the log owes it two changes.
fn one_damaged(seed: u64) -> (SimDisk, PageId) {
    let disk = SimDisk::new(seed);
    let files = files(&disk, 1);
    let image = disk.crash(seed);
    let victim = page(files[0], 2);
    damage(&image, victim);
    (image, victim)
}

fn refusal(store: &Store, page: PageId) -> String {
    let error = value(store, page.file, page.block.0).expect_err("set aside");
    let StorageError::PageSetAside {
        page: named,
        side_file,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*named, page);
    let text = error.to_string();
    assert!(text.contains(&page.to_string()), "{text}");
    assert!(text.contains(&side_file.display().to_string()), "{text}");
    assert!(text.contains("LSN"), "{text}");
    text
}

pub(super) fn set_aside(store: &Store) -> Vec<PageId> {
    store.wait_for_redo();
    let pages = store.damaged_pages();
    pages.into_iter().map(|damaged| damaged.page).collect()
}

/// The changes in a page's side file, by what they add.
fn owed(store: &Store, page: PageId) -> Vec<u64> {
    deltas(store, page, EntryKind::Part)
}

/// The amounts that the changes in a page's side file add; each change is of this kind.
fn deltas(store: &Store, page: PageId, kind: EntryKind) -> Vec<u64> {
    let mut found = Vec::new();
    let quarantine = &store.core.quarantine;
    let read = quarantine.for_each_owed(page, |owed| {
        assert_eq!((owed.kind, owed.op), (kind, ADD));
        let mut fields = FieldReader::new(owed.data);
        fields.u16().expect("slot");
        found.push(fields.u64().expect("delta"));
        Ok(())
    });
    read.expect("read");
    found
}

#[test]
fn a_page_damaged_in_every_tenth_file_is_named_and_the_rest_serves() {
    let disk = SimDisk::new(51);
    let files = files(&disk, 30);
    let image = disk.crash(51);
    let victims: Vec<PageId> = files
        .iter()
        .step_by(10)
        .map(|file| page(*file, 3))
        .collect();
    for victim in &victims {
        damage(&image, *victim);
    }
    let (store, _) = open_with(&image, plain()).expect("opens");
    assert_eq!(set_aside(&store), victims);
    assert_eq!(store.recovery_stats().set_aside, 3);
    for file in &files {
        for block in 0..EACH {
            if victims.contains(&page(*file, block)) {
                refusal(&store, page(*file, block));
            } else {
                assert_eq!(value(&store, *file, block).expect("whole"), 7);
            }
        }
    }
    // The redo point and the log go on.
    let end = store.recovery_stats().redo_end;
    store.recovery_finished().expect("finished");
    for _ in 0..3000 {
        store.admit().expect("room");
        add(&store, files[1], 0, 8);
    }
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert!(store.control().redo > end);
    let layout = layout(store.config().wal_segment_size);
    let first = layout.path(layout.segment_of(end));
    let first = first.file_name().and_then(|name| name.to_str());
    // Segments are recycled in the background.
    let begun = std::time::Instant::now();
    let is_there = || {
        let names = image.list(&dir().join("wal")).expect("listed");
        names.iter().any(|name| Some(name.as_str()) == first)
    };
    while is_there() {
        assert!(begun.elapsed().as_secs() < 20, "{first:?} is still there");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    for victim in &victims {
        assert_eq!(owed(&store, *victim), [2, 4]);
    }
    store.shutdown().expect("shuts down");
}

#[test]
fn a_page_that_lost_a_write_is_set_aside() {
    let disk = SimDisk::new(52);
    let store = open_plain(&disk);
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let victim = page(COUNTERS, 5);
    let old = content(&disk, victim);
    add(&store, COUNTERS, 5, 1);
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    add(&store, COUNTERS, 5, 2);
    add(&store, COUNTERS, 6, 2);
    store.log().flush_all().expect("flush");
    let image = disk.crash(2);
    overwrite(&image, victim, &old);
    let store = open_plain(&image);
    let text = refusal(&store, victim);
    assert!(text.contains("lost write"), "{text}");
    assert_eq!(value(&store, COUNTERS, 6).expect("whole"), 2);
    assert_eq!(owed(&store, victim), [2]);
    // Nor does reading ahead show what is in the file.
    counters(&store).prefetch(5..6);
    std::thread::sleep(std::time::Duration::from_millis(20));
    refusal(&store, victim);
    counters(&store)
        .pin_new(BlockNumber(5))
        .map(drop)
        .expect_err("it is not new");
    // As the disk has it, by command.
    store.discard_damage(victim).expect("discarded");
    assert_eq!(value(&store, COUNTERS, 5).expect("readable"), 0);
    add(&store, COUNTERS, 5, 9);
    store.log().flush_all().expect("flush");
    let store = open_plain(&image.crash(3));
    assert!(set_aside(&store).is_empty());
    assert_eq!(value(&store, COUNTERS, 5).expect("readable"), 9);
}

/// A part that its function refuses is an error of its page, at this start and later ones.
#[test]
fn a_page_whose_part_does_not_apply_is_set_aside_and_the_rest_serves() {
    let disk = SimDisk::new(54);
    let file = files(&disk, 1)[0];
    let image = disk.crash(54);
    let victim = page(file, 2);
    let toy = Arc::new(Toy::default());
    *toy.refused.lock() = Some(victim);
    let manager = Arc::clone(&toy) as Arc<dyn ResourceManager>;
    let shared: Arc<dyn Disk> = Arc::new(image.clone());
    let store = Store::open(shared, &dir(), plain(), manager).expect("opens");
    store.recovery_finished().expect("finished");
    store.wait_for_redo();
    let text = refusal(&store, victim);
    assert!(text.contains("as the test wants it"), "{text}");
    assert_eq!(set_aside(&store), [victim]);
    assert_eq!(owed(&store, victim), [2, 4]);
    for block in (0..EACH).filter(|block| *block != 2) {
        assert_eq!(value(&store, file, block).expect("whole"), 7);
    }
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let store = open_plain(&image.crash(3));
    refusal(&store, victim);
    assert_eq!(owed(&store, victim), [2, 4]);
    store.discard_damage(victim).expect("discarded");
    assert_eq!(value(&store, file, 2).expect("readable"), 1);
}

#[test]
fn a_page_whose_reads_fail_is_set_aside_and_one_that_fails_once_is_not() {
    for (lasting, victims) in [(false, 0), (true, 1)] {
        let disk = SimDisk::new(53);
        files(&disk, 1);
        let image = disk.crash(53);
        let mut fault = Fault::nth(1, FaultKind::Eio)
            .on(OpKind::Read)
            .path("/base/");
        if lasting {
            fault = fault.sticky();
        }
        image.inject(fault);
        let config = StorageConfig {
            recovery_prefetch: false,
            ..plain()
        };
        let (store, _) = open_with(&image, config).expect("opens");
        store.wait_for_redo();
        image.clear_faults();
        let all = u64::from(EACH) * victims;
        assert_eq!(store.recovery_stats().set_aside, all);
        for damaged in set_aside(&store) {
            assert_eq!(owed(&store, damaged), [2, 4]);
            refusal(&store, damaged);
        }
    }
}

#[test]
fn a_damaged_page_that_the_log_makes_anew_is_no_damage() {
    for by_image in [false, true] {
        let disk = SimDisk::new(54);
        let store = open_plain(&disk);
        let victim = page(files_in(&store, 1)[0], 2);
        let fork = store.pool().fork(victim.file, Fork::Main).expect("fork");
        let mut guard = fork.write(victim.block).expect("page");
        let mut image = crate::page::PageBuf::zeroed();
        image.bytes_mut().copy_from_slice(guard.bytes());
        let mut change = store.change(0);
        if by_image {
            change.image(&mut guard, image.bytes());
        } else {
            change.part(&mut guard, INIT, PartFlags::INIT, &[]);
        }
        change.commit();
        drop(guard);
        add(&store, victim.file, 2, 16);
        store.log().flush_all().expect("flush");
        let crashed = disk.crash(4);
        drop((fork, store));
        damage(&crashed, victim);
        let store = open_plain(&crashed);
        assert!(set_aside(&store).is_empty());
        assert_eq!(store.recovery_stats().set_aside, 0);
        let listed = quarantine::list(&crashed, &dir()).expect("listed");
        assert!(listed.is_empty());
        let expected = if by_image { 23 } else { 16 };
        assert_eq!(value(&store, victim.file, 2).expect("whole"), expected);
    }
}

#[test]
fn what_is_set_aside_stays_so_across_crashes_and_clean_starts() {
    let (mut disk, victim) = one_damaged(55);
    for round in 0..6 {
        let store = open_plain(&disk);
        assert_eq!(set_aside(&store), [victim], "{round}");
        refusal(&store, victim);
        assert_eq!(owed(&store, victim), [2, 4], "{round}");
        assert_eq!(value(&store, victim.file, 1).expect("whole"), 7 + round * 8);
        add(&store, victim.file, 1, 8);
        store.recovery_finished().expect("finished");
        match round % 3 {
            0 => store.log().flush_all().expect("flush"),
            1 => store.checkpoint(CheckpointMode::Fast).expect("checkpoint"),
            _ => store.shutdown().expect("shuts down"),
        }
        let next = disk.crash(round);
        drop(store);
        let listed = quarantine::list(&next, &dir()).expect("listed");
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].page, victim);
        disk = next;
    }
}

/// At every point of the start that sets pages aside, and of the checkpoint after it.
#[test]
fn a_start_killed_while_it_sets_pages_aside_is_begun_again() {
    let disk = SimDisk::new(56);
    let files = files(&disk, 3);
    let base = disk.crash(56);
    let victims: Vec<PageId> = files.iter().map(|file| page(*file, 4)).collect();
    for victim in &victims {
        damage(&base, *victim);
    }
    let begin = base.op_count();
    let store = open_plain(&base);
    store.recovery_finished().expect("finished");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let end = base.op_count();
    drop(store);
    let mut series = base.images(56).step(((end - begin) / 150).max(1));
    series.seek(begin);
    for image in series {
        let what = image_name(&image);
        let (store, _) =
            open_with(&image.disk, plain()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(set_aside(&store), victims, "{what}");
        for victim in &victims {
            refusal(&store, *victim);
            assert_eq!(owed(&store, *victim), [2, 4], "{what}");
        }
        for file in &files {
            assert_eq!(value(&store, *file, 1).expect("whole"), 7, "{what}");
        }
    }
}

#[test]
fn a_page_is_zeroed_by_a_command_that_is_logged_and_redone() {
    let (disk, victim) = one_damaged(57);
    let store = open_plain(&disk);
    let whole = store.zero_damaged_page(page(victim.file, 1));
    let error = whole.expect_err("it is not damaged").to_string();
    assert!(error.contains("not damaged"), "{error}");
    store.discard_damage(victim).expect_err("not whole on disk");
    refusal(&store, victim);
    let begin = disk.op_count();
    store.zero_damaged_page(victim).expect("zeroed");
    disk.acknowledge(1);
    assert!(set_aside(&store).is_empty());
    assert_eq!(value(&store, victim.file, 2).expect("readable"), 0);
    let fork = store.pool().fork(victim.file, Fork::Main).expect("fork");
    init_pages_again(&store, &fork, 2);
    let lsn = add(&store, victim.file, 2, 32);
    store.log().flush(lsn).expect("flush");
    disk.acknowledge(2);
    store.recovery_finished().expect("finished");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert!(quarantine::list(&disk, &dir()).expect("listed").is_empty());
    add(&store, victim.file, 2, 64);
    store.shutdown().expect("shuts down");
    let end = disk.op_count();
    drop((fork, store));
    let mut series = disk.images(57).step(((end - begin) / 120).max(1));
    series.seek(begin);
    for image in series {
        let what = image_name(&image);
        let acknowledged = disk.acknowledged_by(image.index);
        let store = open_plain(&image.disk);
        match value(&store, victim.file, 2) {
            Err(_) => {
                assert!(acknowledged.is_empty(), "{what}");
                refusal(&store, victim);
                assert_eq!(owed(&store, victim), [2, 4], "{what}");
            }
            Ok(0) => assert!(!acknowledged.contains(&2), "{what}"),
            Ok(found) => assert!(found == 32 || found == 96, "{what}: {found}"),
        }
    }
    let store = open_plain(&disk);
    assert_eq!(value(&store, victim.file, 2).expect("whole"), 96);
}

/// REC-18 leaves pages at home alone, but not one whose replacement redo has to meet.
#[test]
fn a_page_that_was_replaced_and_went_home_is_not_set_aside_again() {
    let (disk, victim) = one_damaged(65);
    let store = open_plain(&disk);
    store.recovery_finished().expect("finished");
    assert_eq!(set_aside(&store), [victim]);
    let hold = store.hold_redo_here();
    store.zero_damaged_page(victim).expect("zeroed");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let kept = quarantine::list(&disk, &dir()).expect("listed");
    assert_eq!(kept.len(), 1, "the redo point is behind its replacement");
    let image = disk.crash(3);
    drop((hold, store));
    let store = open_plain(&image);
    assert_eq!(value(&store, victim.file, 2).expect("readable"), 0);
    assert!(set_aside(&store).is_empty());
}

/// Lays a zeroed page out.
fn init_pages_again(store: &Store, fork: &ForkHandle, block: u32) {
    let mut page = fork.write(BlockNumber(block)).expect("page");
    let mut change = store.change(0);
    change.part(&mut page, INIT, PartFlags::INIT, &[]);
    change.commit();
}

#[test]
fn a_page_that_fails_its_checksum_while_running_can_be_zeroed_too() {
    let disk = SimDisk::new(58);
    let files = files(&disk, 1);
    let store = open_plain(&disk);
    store.shutdown().expect("shuts down");
    drop(store);
    let victim = page(files[0], 2);
    damage(&disk, victim);
    let store = open_plain(&disk);
    let error = value(&store, victim.file, 2).expect_err("damaged");
    assert!(matches!(error, StorageError::PageDamaged { .. }), "{error}");
    store.zero_damaged_page(victim).expect("zeroed");
    assert_eq!(value(&store, victim.file, 2).expect("readable"), 0);
    drop(store);
    let store = open_plain(&disk.crash(9));
    assert_eq!(value(&store, victim.file, 2).expect("readable"), 0);
}

#[test]
fn what_is_dropped_or_cut_off_is_damaged_no_more() {
    for cut in [true, false] {
        let (disk, victim) = one_damaged(59);
        let store = open_plain(&disk);
        assert_eq!(set_aside(&store), [victim]);
        let begin = disk.op_count();
        if cut {
            store
                .truncate(victim.file, Fork::Main, 2, NOTHING)
                .expect("cut");
            let fork = store.pool().fork(victim.file, Fork::Main).expect("fork");
            fork.extend(2).expect("extend");
            init_pages(&store, &fork, 2..4).expect("init");
            add(&store, victim.file, 2, 5);
        } else {
            store.drop_file(victim.file, NOTHING).expect("dropped");
        }
        assert!(set_aside(&store).is_empty());
        store.log().flush_all().expect("flush");
        disk.acknowledge(1);
        store.recovery_finished().expect("finished");
        store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        let end = disk.op_count();
        drop(store);
        let mut series = disk.images(59).step(((end - begin) / 60).max(1));
        series.seek(begin);
        for image in series {
            let what = image_name(&image);
            let store = open_plain(&image.disk);
            if disk.acknowledged_by(image.index).is_empty() {
                continue;
            }
            assert!(set_aside(&store).is_empty(), "{what}");
            if cut {
                assert_eq!(value(&store, victim.file, 2).expect("new"), 5, "{what}");
            }
        }
    }
}

#[test]
fn a_side_file_that_is_damaged_itself_still_keeps_the_page_aside() {
    let (disk, victim) = one_damaged(60);
    assert_eq!(set_aside(&open_plain(&disk)), [victim]);
    let crashed = disk.crash(1);
    let listed = quarantine::list(&crashed, &dir()).expect("listed");
    let file = crashed.open(&listed[0].side_file, OpenOptions::read_write());
    file.expect("there")
        .write_all_at(&[0; 40], 8)
        .expect("written");
    for _ in 0..2 {
        let store = open_plain(&crashed);
        let text = refusal(&store, victim);
        assert!(text.contains("side file"), "{text}");
    }
    let store = open_plain(&crashed);
    store.zero_damaged_page(victim).expect("zeroed");
    assert_eq!(value(&store, victim.file, 2).expect("readable"), 0);
    assert_eq!(value(&store, victim.file, 1).expect("whole"), 7);
}

/// QRT-4: in a log with images the redo point may stay before what the floor allows, and so does
/// the record that replaced the page.
#[test]
fn a_side_file_stays_while_the_redo_point_has_not_passed_the_replacement() {
    let (disk, victim) = one_damaged(61);
    let with_images = StorageConfig {
        torn_page_protection: TornPageProtection::FullPageWrites,
        ..plain()
    };
    let (store, toy) = open_with(&disk, with_images).expect("opens");
    store.wait_for_redo();
    store.recovery_finished().expect("finished");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    refusal(&store, victim);
    let replaced = store.zero_damaged_page(victim).expect("zeroed");
    let behind = add(&store, victim.file, 1, 32);
    store.log().flush(behind).expect("flush");
    *toy.floor.lock() = Some(behind);
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert!(store.control().redo <= replaced);
    let left = || quarantine::list(&disk, &dir()).expect("listed").len();
    assert_eq!(left(), 1, "redo meets the replacement again");
    *toy.floor.lock() = None;
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert!(store.control().redo > replaced);
    assert_eq!(left(), 0);
}

/// Keeps a late change that adds `delta`, as the manager does when it cannot load the page.
fn keep(store: &Store, page: PageId, delta: u64) {
    let cause = value(store, page.file, page.block.0).expect_err("damaged");
    let lsn = store.log().insert_lsn();
    let kept = store.keep_late(page, cause, (lsn, lsn), ADD, &add_data(0, delta));
    assert!(kept.expect("kept"));
}

/// The late changes in a page's side file, by what they add.
fn kept(store: &Store, page: PageId) -> Vec<u64> {
    deltas(store, page, EntryKind::Late)
}

/// QRT-6: at every point of making the side file and of appending to it.
#[test]
fn a_crash_while_late_changes_are_kept_loses_none_that_was_kept() {
    const DELTAS: [u64; 3] = [8, 16, 32];
    let disk = SimDisk::new(62);
    let files = files(&disk, 1);
    let store = open_plain(&disk);
    store.shutdown().expect("shuts down");
    drop(store);
    let victim = page(files[0], 2);
    damage(&disk, victim);
    let store = open_plain(&disk);
    let begin = disk.op_count();
    for delta in DELTAS {
        keep(&store, victim, delta);
        disk.acknowledge(delta);
    }
    let end = disk.op_count();
    drop(store);
    for (index, seed) in (begin..=end).flat_map(|index| (0..4).map(move |seed| (index, seed))) {
        let what = format!("image_at({index}, {seed})");
        let image = disk.image_at(index, seed);
        let store = open_plain(&image);
        let mut found = kept(&store, victim);
        assert!(found.starts_with(&disk.acknowledged_by(index)), "{what}");
        assert!(DELTAS.starts_with(&found), "{what}: {found:?}");
        // The manager applies again those that the log still has.
        for delta in DELTAS {
            keep(&store, victim, delta);
        }
        found.extend(DELTAS);
        assert_eq!(kept(&store, victim), found, "{what}");
    }
}

/// QRT-3: a page is set aside, or as the disk had it, at every point of the command and of the
/// checkpoint after it.
#[test]
fn a_crash_while_damage_is_discarded_leaves_the_page_set_aside_or_whole() {
    let disk = SimDisk::new(63);
    let store = open_plain(&disk);
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let victim = page(COUNTERS, 5);
    let old = content(&disk, victim);
    add(&store, COUNTERS, 5, 1);
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    add(&store, COUNTERS, 5, 2);
    store.log().flush_all().expect("flush");
    let disk = disk.crash(2);
    drop(store);
    overwrite(&disk, victim, &old);
    let store = open_plain(&disk);
    store.recovery_finished().expect("finished");
    let begin = disk.op_count();
    store.discard_damage(victim).expect("discarded");
    disk.acknowledge(1);
    let lsn = add(&store, COUNTERS, 5, 9);
    store.log().flush(lsn).expect("flush");
    disk.acknowledge(2);
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    assert!(quarantine::list(&disk, &dir()).expect("listed").is_empty());
    let end = disk.op_count();
    drop(store);
    for (index, seed) in (begin..=end).flat_map(|index| (0..2).map(move |seed| (index, seed))) {
        let what = format!("image_at({index}, {seed})");
        let acknowledged = disk.acknowledged_by(index);
        let store = open_plain(&disk.image_at(index, seed));
        match value(&store, COUNTERS, 5) {
            Err(_) => {
                assert!(acknowledged.is_empty(), "{what}");
                assert_eq!(owed(&store, victim), [2], "{what}");
                store.discard_damage(victim).expect("discarded");
                assert_eq!(value(&store, COUNTERS, 5).expect("whole"), 0, "{what}");
            }
            Ok(0) => assert!(!acknowledged.contains(&2), "{what}"),
            Ok(found) => assert_eq!(found, 9, "{what}"),
        }
    }
}
