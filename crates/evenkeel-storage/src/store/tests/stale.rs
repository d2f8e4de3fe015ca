//! Files and pages that are missing, cut, zeroed or older than they were: named, or harmless.

use std::path::Path;

use evenkeel_io::OpenOptions;

use super::*;

fn file(disk: &SimDisk) -> Arc<dyn evenkeel_io::File> {
    let path = dir().join("base/1");
    disk.open(&path, OpenOptions::create()).expect("there")
}

fn content(disk: &SimDisk) -> Vec<u8> {
    let file = file(disk);
    let mut bytes = vec![0; file.len().expect("length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("read");
    bytes
}

/// Steps with checkpoints, and a clean end.
fn closed(seed: u64, steps: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, steps, 20).expect("steps");
    store.shutdown().expect("shutdown");
    disk
}

/// A file that is cut or removed is an error of whoever reads what is gone, not a table with
/// fewer rows; everything else works.
#[test]
fn a_file_cut_while_the_database_was_closed_is_named() {
    for cut in [Some(40 * 8192), Some(99 * 8192 + 100), Some(0), None] {
        let disk = SimDisk::new(91);
        let (store, _) = open(&disk);
        set_up(&store).expect("set up");
        let (other, hold) = store.create_file(5).expect("create");
        let fork = store.pool().fork(other, Fork::Main).expect("fork");
        fork.extend(8).expect("extend");
        drop(hold);
        store.shutdown().expect("shutdown");
        drop(store);
        match cut {
            Some(len) => file(&disk).set_len(len).expect("cut"),
            None => disk.remove(&dir().join("base/1")).expect("removed"),
        }
        let (store, _) = open(&disk);
        let found = cut.unwrap_or(0) / 8192;
        let fork = counters(&store);
        assert_eq!(fork.len(), PAGES);
        if found > 0 {
            fork.read(BlockNumber(found as u32 - 1)).expect("there");
        }
        let gone = fork.read(BlockNumber(found as u32)).map(|_| ());
        let text = gone.expect_err("gone").to_string();
        let page = format!("page damaged: file base/1 fork main block {found}");
        assert!(text.contains(&page), "{text}");
        assert!(text.contains("it is all zeroes"), "{text}");
        let fork = store.pool().fork(other, Fork::Main).expect("whole");
        assert_eq!(fork.len(), 8);
        store
            .truncate(other, Fork::Main, 3, NOTHING)
            .expect("its own cut");
        store.shutdown().expect("shutdown");
        drop((fork, store));
        let (store, _) = open(&disk);
        let gone = counters(&store).read(BlockNumber(99)).map(|_| ());
        gone.expect_err("a clean end does not heal it");
        let fork = store.pool().fork(other, Fork::Main).expect("whole");
        assert_eq!(fork.len(), 3);
        store
            .drop_file(COUNTERS, NOTHING)
            .expect("dropping it is the way out");
        store.shutdown().expect("shutdown");
        drop((fork, store));
        let (store, _) = open(&disk);
        assert!(counters(&store).is_empty());
    }
}

#[test]
fn a_block_zeroed_after_a_clean_end_is_named() {
    let disk = closed(92, 50);
    file(&disk)
        .write_all_at(&[0; 8192], 30 * 8192)
        .expect("written");
    let (store, _) = open(&disk);
    let fork = counters(&store);
    fork.read(BlockNumber(29)).expect("sound");
    // Neither read ahead nor read.
    fork.prefetch(28..32);
    let error = fork.read(BlockNumber(30)).map(|_| ());
    let text = error.expect_err("zeroed").to_string();
    assert!(
        text.contains("block 30") && text.contains("zeroes"),
        "{text}"
    );
    // A page that is made anew needs nothing of what was there.
    let last = init_pages(&store, &fork, 30..31).expect("made");
    store.log().flush(last).expect("flush");
    fork.read(BlockNumber(30)).expect("made");
    // A block that nobody has used stays zero.
    let first = fork.extend(1).expect("space");
    store.shutdown().expect("shutdown");
    drop((fork, store));
    let (store, _) = open(&disk);
    let fork = counters(&store);
    assert!(fork.read(first).expect("never used").is_new());
    fork.read(BlockNumber(30)).expect("made");
}

#[test]
fn a_file_replaced_by_an_older_copy_is_named_page_by_page() {
    let disk = closed(93, 40);
    let old = content(&disk);
    let (store, _) = open(&disk);
    let fork = counters(&store);
    let changed = parts_of(41).map(|(block, ..)| block);
    step(&store, &fork, 41).expect("step");
    store.shutdown().expect("shutdown");
    drop((fork, store));
    let sound = disk.process_crash();
    file(&disk).write_all_at(&old, 0).expect("written");
    let (store, _) = open(&disk);
    let fork = counters(&store);
    for block in 0..PAGES {
        let read = fork.read(BlockNumber(block)).map(|_| ());
        assert_eq!(read.is_err(), changed.contains(&block), "block {block}");
        if let Err(error) = read {
            let text = error.to_string();
            assert!(text.contains("it was last written with LSN"), "{text}");
        }
    }
    // A whole directory that is put back is sound.
    let (store, _) = open(&sound);
    assert_steps(&store, 41, "whole");
}

/// One write that the device has lost, while the database is open.
#[test]
fn a_lost_write_is_named_when_the_page_is_read_again() {
    let disk = SimDisk::new(94);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let old = content(&disk);
    run(&store, &disk, 1, 99, 0).expect("steps");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    file(&disk).write_all_at(&old, 0).expect("written");
    let fork = counters(&store);
    // More pages than frames.
    let read = |block| fork.read(BlockNumber(block)).map(|_| ());
    assert!((0..PAGES).any(|block| read(block).is_err()));
}

/// A page of which redo begins with an image, or anew, may be written with an older LSN than it
/// had, if redo does not get to its end.
#[test]
fn redo_that_is_interrupted_leaves_no_page_too_old() {
    let disk = SimDisk::new(95);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let fork = counters(&store);
    // A floor keeps the redo point while pages and manifest go on.
    let hold = store.hold_redo_here();
    run(&store, &disk, 1, 30, 0).expect("steps");
    let last = init_pages(&store, &fork, 1..PAGES).expect("anew");
    store.log().flush(last).expect("flush");
    run(&store, &disk, 31, 200, 40).expect("steps");
    store.log().flush_all().expect("flush");
    let mut crashed = disk.crash(1);
    drop((hold, fork, store));
    for round in 0..4 {
        let (store, _) = open(&crashed);
        let end = crashed.op_count();
        drop(store);
        for index in (0..end).step_by((end as usize / 12).max(1)) {
            let image = crashed.image_at(index, round);
            let (store, _) = open(&image);
            for block in 0..PAGES {
                counters(&store).read(BlockNumber(block)).expect("sound");
            }
        }
        crashed = crashed.image_at(end * 2 / 3, round);
    }
}

/// Everything that may be done to a file, by number.
const DAMAGES: u64 = 7;

fn damage(disk: &SimDisk, path: &Path, old: &[u8], word: u64) {
    let open = || disk.open(path, OpenOptions::create()).expect("opens");
    let len = open().len().expect("length");
    let blocks = (len / 8192).max(1);
    let block = (word >> 8) % blocks;
    let page = (block * 8192) as usize..(block * 8192 + 8192) as usize;
    match word % DAMAGES {
        0 => disk.remove(path).expect("removed"),
        1 => open().set_len(block * 8192).expect("cut"),
        2 => open().set_len((word >> 8) % (len + 1)).expect("cut"),
        3 => open()
            .write_all_at(&vec![0; len as usize], 0)
            .expect("zeroed"),
        4 => open()
            .write_all_at(&[0; 8192], block * 8192)
            .expect("zeroed"),
        5 => {
            open().set_len(0).expect("cut");
            open().write_all_at(old, 0).expect("replaced");
        }
        _ => {
            if let Some(page) = old.get(page) {
                open().write_all_at(page, block * 8192).expect("replaced");
            }
        }
    }
}

/// How a trial ended.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    Harmless,
    NamedAtStart,
    NamedWhenRead,
}

/// A database that has crashed or was closed, with one kind of damage to its file.
fn trial(seed: u64) -> Outcome {
    let disk = SimDisk::new(seed);
    let word = disk.random_u64();
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    let (mut old, mut steps) = (Vec::new(), 0);
    for round in 0..6 {
        if round == word % 6 {
            old = content(&disk);
        }
        let more = steps + 1 + disk.random_u64() % 40;
        run(&store, &disk, steps + 1, more, disk.random_u64() % 30).expect("steps");
        steps = more;
        if disk.random_u64().is_multiple_of(3) {
            store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        }
    }
    store.log().flush_all().expect("flush");
    let image = if word >> 61 == 0 {
        store.shutdown().expect("shutdown");
        disk.process_crash()
    } else if word >> 61 < 5 {
        store.shutdown().expect("shutdown");
        disk.crash(word)
    } else {
        disk.crash(word)
    };
    drop(store);
    damage(&image, &dir().join("base/1"), &old, word >> 3);
    let (store, _) = match open_with(&image, config()) {
        Ok(opened) => opened,
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("base/1"), "seed {seed}: {text}");
            return Outcome::NamedAtStart;
        }
    };
    let fork = counters(&store);
    let damaged = (0..PAGES).any(|block| fork.read(BlockNumber(block)).is_err());
    if damaged || fork.len() < PAGES {
        assert!(damaged, "seed {seed}: shorter, and nobody says so");
        return Outcome::NamedWhenRead;
    }
    assert_steps(&store, steps, &format!("seed {seed}: damage in silence"));
    Outcome::Harmless
}

/// FILE-10 and FILE-13. `EVENKEEL_DAMAGE_TRIALS` says how many; the seeds count from one.
#[test]
fn a_damaged_file_is_named_or_harmless() {
    let trials = std::env::var("EVENKEEL_DAMAGE_TRIALS").ok();
    let trials = trials.map_or(60, |trials| trials.parse().expect("a number of trials"));
    let mut outcomes = std::collections::BTreeMap::<Outcome, u64>::new();
    for seed in 1..=trials {
        *outcomes.entry(trial(seed)).or_default() += 1;
    }
    println!("{trials} trials: {outcomes:?}");
    let harmless = outcomes.get(&Outcome::Harmless).copied();
    assert!(harmless.is_some_and(|harmless| (1..trials).contains(&harmless)));
}

/// BUF-18: nothing proves that log was lost but the pages that are ahead of its end.
#[test]
fn a_page_that_is_ahead_of_the_log_is_damaged() {
    let disk = SimDisk::new(93);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let durable = store.control().durable;
    run(&store, &disk, 1, 40, 1000).expect("steps");
    store.writer().write_everything().expect("writes");
    let layout = layout(config().wal_segment_size);
    let image = disk.crash_with(evenkeel_io::Outcome::Everything, 1);
    drop(store);
    // Whole, all steps are there.
    let (store, _) = open(&image.process_crash());
    assert_eq!(steps_done(&store).expect("steps"), 40);
    drop(store);
    let image = image.process_crash();
    for number in layout.list(&image).expect("list") {
        let start = layout.start_of(number);
        let path = layout.path(number);
        let file = image.open(&path, OpenOptions::read_write()).expect("opens");
        let from = durable.0.saturating_sub(start.0).min(layout.size);
        let zeros = vec![0; (layout.size - from) as usize];
        file.write_all_at(&zeros, from).expect("write");
    }
    let (store, _) = open(&image);
    let error = steps_done(&store).expect_err("the log has lost all steps");
    let text = error.to_string();
    assert!(text.contains("file base/1 fork main block 0"), "{text}");
    assert!(text.contains("in the log's gap from"), "{text}");
}

/// FILE-4: a file that was missing and is made anew has an entry that a checkpoint makes durable.
#[test]
fn a_missing_file_that_was_made_anew_survives_a_power_failure() {
    let disk = closed(94, 40);
    let path = dir().join("base/1");
    disk.remove(&path).expect("removed");
    let (store, _) = open(&disk);
    let fork = counters(&store);
    init_pages(&store, &fork, 0..PAGES).expect("made anew");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let image = disk.crash_with(evenkeel_io::Outcome::Nothing, 1);
    drop((fork, store));
    assert!(image.exists(&path).expect("answers"));
    let (store, _) = open(&image);
    assert_steps(&store, 0, "made anew");
}

/// REC-11: a page that is ahead of the log is damaged, whoever finds it: redo, or a load (BUF-18).
#[test]
fn a_page_that_is_ahead_of_the_log_is_set_aside_by_redo() {
    let disk = SimDisk::new(95);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, &disk, 1, 9, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let fork = counters(&store);
    let lost = step(&store, &fork, 10).expect("step");
    store.writer().write_everything().expect("writes");
    let layout = layout(config().wal_segment_size);
    let image = disk.crash_with(evenkeel_io::Outcome::Everything, 1);
    drop((fork, store));
    // The device has lost the last record, and nothing but the pages proves that there was one.
    let path = layout.path(layout.segment_of(lost));
    let file = image.open(&path, OpenOptions::read_write()).expect("opens");
    let zeros = vec![0; (layout.size - lost.0 % layout.size) as usize];
    file.write_all_at(&zeros, lost.0 % layout.size)
        .expect("write");
    let (store, _) = open(&image);
    let fork = counters(&store);
    let ahead: Vec<u32> = parts_of(10).iter().map(|(block, ..)| *block).collect();
    assert!(ahead.contains(&0));
    let error = fork.read(BlockNumber(0)).map(drop).expect_err("ahead");
    assert!(
        matches!(error, StorageError::PageSetAside { .. }),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("the log ends at"), "{text}");
    let whole = (0..PAGES).filter(|block| !ahead.contains(block));
    for block in whole {
        fork.read(BlockNumber(block)).expect("the others are whole");
    }
}
