//! New log after an unclean end: a fresh segment, and a gap before it.

use evenkeel_io::{Fault, FaultKind, File, OpKind, OpenOptions, Outcome, sample};

use super::*;
use crate::config::TornPageProtection;
use crate::gaps::Gap;
use crate::ids::PageId;
use crate::mutant::Mutant;
use crate::page::PAGE_SIZE;
use crate::wal::dump;

const SEGMENT: u64 = 64 << 10;

/// No page goes home but when the test says so.
fn quiet() -> StorageConfig {
    StorageConfig {
        shared_buffers: 32 << 20,
        ..config()
    }
}

fn victim() -> PageId {
    PageId {
        file: COUNTERS,
        fork: Fork::Main,
        block: BlockNumber(77),
    }
}

fn base(disk: &SimDisk) -> Arc<dyn File> {
    let path = dir().join("base/1");
    disk.open(&path, OpenOptions::read_write()).expect("there")
}

fn content(disk: &SimDisk, page: PageId) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_SIZE];
    let offset = u64::from(page.block.0) * PAGE_SIZE as u64;
    base(disk).read_exact_at(&mut bytes, offset).expect("read");
    bytes
}

fn overwrite(disk: &SimDisk, page: PageId, bytes: &[u8]) {
    let offset = u64::from(page.block.0) * PAGE_SIZE as u64;
    base(disk).write_all_at(bytes, offset).expect("written");
    base(disk).sync_all().expect("synced");
}

/// Adds to the first slot of a page.
fn add(store: &Store, page: PageId, delta: u64) -> Lsn {
    let fork = counters(store);
    let mut guard = fork.write(page.block).expect("page");
    let mut change = store.change(0);
    change.part(&mut guard, ADD, PartFlags::NONE, &add_data(0, delta));
    change.commit()
}

fn value(store: &Store, page: PageId) -> StorageResult<u64> {
    let fork = counters(store);
    let guard = fork.read(page.block)?;
    Ok(guard.u64_at(PAGE_HEADER_SIZE))
}

/// The log from `lsn` to the end of its segment, and all segments behind it, as zeros: the device
/// had said that they were durable.
fn lose_log(disk: &SimDisk, lsn: Lsn) {
    let layout = layout(SEGMENT);
    for segment in layout.list(disk).expect("list") {
        let from = lsn.distance_from(layout.start_of(segment));
        if from < SEGMENT {
            let file = disk.open(&layout.path(segment), OpenOptions::read_write());
            let zeros = vec![0; (SEGMENT - from) as usize];
            file.expect("segment")
                .write_all_at(&zeros, from)
                .expect("written");
        }
    }
}

/// A thread makes segments ahead of use, sooner or later.
fn wait_for_segments_ahead(disk: &SimDisk) {
    while layout(SEGMENT).list(disk).expect("list").len() < 3 {
        std::thread::yield_now();
    }
}

/// A database that crashed, and has lost its log behind some steps, with the victim's page home as
/// a lost record left it.
fn with_a_page_of_lost_log(seed: u64, config: StorageConfig) -> (SimDisk, Lsn) {
    let disk = SimDisk::new(seed);
    let (store, _) = open_with(&disk, config).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, &disk, 1, 9, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let end = store.log().insert_lsn();
    // Padding, so that the lost record lies where new log would come to later.
    for n in 0..100 {
        add(&store, page_of(n), 0);
    }
    let lost = add(&store, victim(), 1000);
    store.log().flush_all().expect("flush");
    store.writer().write_everything().expect("writes");
    let image = disk.crash_with(Outcome::Everything, seed);
    drop(store);
    lose_log(&image, end);
    // Of all pages that the lost log changed only the victim got home.
    let old = SimDisk::new(seed);
    let (store, _) = open_with(&old, quiet()).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    run(&store, &old, 1, 9, 0).expect("steps");
    store.log().flush_all().expect("flush");
    store.writer().write_everything().expect("writes");
    drop(store);
    for block in (0..PAGES).filter(|block| *block != victim().block.0) {
        let page = page_of(u64::from(block));
        overwrite(&image, page, &content(&old, page));
    }
    (image, lost)
}

fn page_of(n: u64) -> PageId {
    PageId {
        block: BlockNumber((n % u64::from(PAGES)) as u32),
        ..victim()
    }
}

/// A page that lost log has changed, new log that has come past its LSN, a write of the page that
/// the device loses, and a crash: redo must not take the page for newer than the log. Returns the
/// value that the page has then.
fn pass_the_lost_lsn(config: &StorageConfig) -> StorageResult<u64> {
    let plain = StorageConfig {
        torn_page_protection: TornPageProtection::Off,
        ..quiet()
    };
    let (disk, lost) = with_a_page_of_lost_log(61, plain);
    let old = content(&disk, victim());
    let (store, _) = open_with(&disk, config.clone()).expect("opens");
    // While redo goes on, the checkpoint would leave the redo point before the page's making.
    store.wait_for_redo();
    // The page is made anew, and that is acknowledged.
    let fork = counters(&store);
    let first = init_pages(&store, &fork, 77..78).expect("made");
    add(&store, victim(), 1);
    store.log().flush_all().expect("flush");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    add(&store, victim(), 2);
    // Log comes past the lost record's LSN in any case.
    for n in 1..=300 {
        add(&store, page_of(n % 70), 0);
    }
    store.log().flush_all().expect("flush");
    assert!(store.log().durable_lsn() > lost);
    let image = disk.crash_with(Outcome::Everything, 1);
    drop((fork, store));
    if config.mutant.is_some() {
        assert!(first < lost, "the log is used again");
    } else {
        assert!(first > lost);
    }
    overwrite(&image, victim(), &old);
    let (store, _) = open_with(&image, config.clone()).expect("opens");
    store.wait_for_redo();
    value(&store, victim())
}

/// GAP-1: the reason for all of it. Where the log goes on at its end, what was acknowledged is
/// lost in silence; with a gap the page is damaged, and named.
#[test]
fn a_page_of_lost_log_never_passes_for_current() {
    let config = StorageConfig {
        torn_page_protection: TornPageProtection::Off,
        ..quiet()
    };
    let error = pass_the_lost_lsn(&config).expect_err("damaged").to_string();
    assert!(error.contains("file base/1 fork main block 77"), "{error}");
    let reusing = StorageConfig {
        mutant: Some(Mutant::ReuseLostLog),
        ..config
    };
    // 3 was acknowledged, and 1000 is of a change that nobody was told of.
    // Log of the background may push the last change past the lost one; then nothing is lost.
    let lost = |_| pass_the_lost_lsn(&reusing).expect("read") == 1000;
    assert!((0..20).any(lost), "the bug that gaps are against");
}

/// BUF-18: a page whose LSN lies in a gap is damaged for whoever loads it, now and ever after.
#[test]
fn a_page_whose_lsn_lies_in_a_gap_is_damaged_for_good() {
    let config = StorageConfig {
        torn_page_protection: TornPageProtection::Off,
        ..quiet()
    };
    let (mut disk, lost) = with_a_page_of_lost_log(62, config.clone());
    for round in 0..4 {
        let (store, _) = open_with(&disk, config.clone()).expect("opens");
        store.wait_for_redo();
        let gap = store.control().gaps.at(lost).expect("recorded");
        for n in 1..=100 {
            add(&store, page_of(n % 70), 0);
        }
        store.log().flush_all().expect("flush");
        let error = value(&store, victim()).expect_err("damaged").to_string();
        for part in ["file base/1 fork main block 77", "log has been lost"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(error.contains(&format!("{lost}, in {gap}")), "{error}");
        match round {
            0 => {}
            1 => store.checkpoint(CheckpointMode::Fast).expect("checkpoint"),
            _ => store.shutdown().expect("a clean end"),
        }
        let next = disk.crash(round);
        drop(store);
        disk = next;
    }
}

/// GAP-7: where the double-write area has what the page was before the lost log, that is what it
/// becomes.
#[test]
fn a_page_of_lost_log_is_restored_from_the_double_write_area() {
    let disk = SimDisk::new(63);
    let (store, _) = open_with(&disk, quiet()).expect("opens");
    set_up(&store).expect("set up");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    add(&store, victim(), 1);
    add(&store, victim(), 2);
    store.log().flush_all().expect("flush");
    store.writer().write_everything().expect("writes");
    let end = add(&store, victim(), 1000);
    store.log().flush_all().expect("flush");
    store.writer().write_everything().expect("writes");
    let image = disk.crash_with(Outcome::Everything, 1);
    drop(store);
    lose_log(&image, end);
    let (store, _) = open_with(&image, quiet()).expect("opens");
    assert_eq!(value(&store, victim()).expect("restored"), 3);
    assert!(store.damaged_pages().is_empty());
    store.shutdown().expect("a clean end");
    drop(store);
    let (store, _) = open_with(&image, quiet()).expect("opens");
    assert_eq!(value(&store, victim()).expect("restored"), 3);
}

/// GAP-3: log that was not valid when a start found the end does not count later, though it be
/// readable then, at whichever step a second crash comes.
#[test]
fn log_behind_an_unclean_end_is_never_read_again() {
    let disk = SimDisk::new(64);
    let (store, _) = open_with(&disk, quiet()).expect("opens");
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 9, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let end = step(&store, &counters(&store), 10).expect("step");
    run(&store, &disk, 11, 40, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let whole = disk.crash_with(Outcome::Everything, 1);
    drop(store);
    let image = whole.process_crash();
    lose_log(&image, end);
    let layout = layout(SEGMENT);
    let first = layout.segment_of(end);
    let mut tail = vec![0; SEGMENT as usize];
    let file = whole.open(&layout.path(first), OpenOptions::read_only());
    file.expect("segment")
        .read_exact_at(&mut tail, 0)
        .expect("read");
    let begin = image.op_count();
    let (store, _) = open_with(&image, quiet()).expect("opens");
    assert_eq!(steps_done(&store).expect("steps"), 9);
    store.wait_for_redo();
    // Other steps than those that were lost.
    for n in 10..=12 {
        let lsn = step_with(&store, &counters(&store), n, &(n + 100).to_le_bytes());
        store.log().flush(lsn.expect("step")).expect("flush");
        image.acknowledge(n);
    }
    drop(store);
    let mut series = image.images(64).step(sample(3));
    series.seek(begin);
    for crashed in series {
        let what = image_name(&crashed);
        let known = crashed.disk.clone();
        let acknowledged = image.acknowledged_by(crashed.index);
        // The tail comes back, as far as its segment reaches by then.
        let path = layout.path(first);
        let file = known.open(&path, OpenOptions::read_write()).expect("there");
        let from = end.0 % SEGMENT;
        let len = file.len().expect("length").max(from);
        let back = &tail[from as usize..len as usize];
        file.write_all_at(back, from).expect("written");
        let is_recorded = crate::control::ControlFile::read(&known, &dir())
            .expect("control file")
            .gaps
            .at(end)
            .is_some();
        let (store, toy) = open_with(&known, quiet()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let steps = steps_done(&store).expect("steps");
        if is_recorded {
            assert!(steps <= 12, "{what}: {steps}");
            assert!(acknowledged.iter().all(|n| *n <= steps), "{what}");
            let replayed = toy.replayed.lock().clone();
            let lost = replayed.iter().filter(|n| (10..=100).contains(*n)).count();
            assert_eq!(lost, 0, "{what}: {replayed:?}");
        } else {
            assert!(acknowledged.is_empty(), "{what}");
        }
        assert_steps(&store, steps, &what);
    }
}

fn used_by_log(disk: &SimDisk) -> (usize, u64) {
    let segments = layout(SEGMENT).list(disk).expect("list");
    let len = |segment: &u64| {
        let file = disk.open(&layout(SEGMENT).path(*segment), OpenOptions::read_only());
        file.expect("segment").len().expect("length")
    };
    (segments.len(), segments.iter().map(len).sum())
}

/// GAP-4 and GAP-6: runs that end before a checkpoint does leave a block or two each, and a gap
/// each, of which the control file names the newest; all of the log is read all the same.
#[test]
fn many_short_runs_fill_neither_the_disk_nor_the_control_file() {
    const RUNS: u64 = 230;
    let mut disk = SimDisk::new(65);
    let held = StorageConfig {
        redo_waits: true,
        ..quiet()
    };
    let (store, _) = open_with(&disk, held.clone()).expect("opens");
    set_up(&store).expect("set up");
    let redo = store.control().redo;
    drop(store);
    for n in 1..=RUNS {
        disk = disk.process_crash();
        let (store, toy) = open_with(&disk, held.clone()).expect("opens");
        assert_eq!(toy.replayed.lock().len() as u64, n - 1);
        let lsn = step(&store, &counters(&store), n).expect("step");
        store.log().flush(lsn).expect("flush");
        let gaps = store.control().gaps;
        assert_eq!(gaps.list().len() as u64, n);
        let since = store.log().log_since(redo);
        assert!(since < 100 * 100 + n * 1000, "{n}: {since} bytes of log");
    }
    let crashed = disk.process_crash();
    let (control, mut reader) = dump::open(Arc::new(crashed.clone()), &dir()).expect("opens");
    assert_eq!(control.gaps.list().len(), crate::control::MOST_GAPS);
    let mut steps = 0;
    while let Some(record) = reader.next_record().expect("reads") {
        steps += u64::from(record.kind() == COMMIT);
    }
    assert_eq!(steps, RUNS);
    let (segments, bytes) = used_by_log(&crashed);
    assert!(segments < RUNS as usize + 20, "{segments} segments");
    assert!(bytes < RUNS * 8192 + 20 * SEGMENT, "{bytes} bytes");
    let (store, _) = open_with(&crashed, quiet()).expect("opens");
    store.wait_for_redo();
    assert_steps(&store, RUNS, "all runs");
    store.recovery_finished().expect("finished");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
    let begun = std::time::Instant::now();
    while used_by_log(&crashed).0 > 20 {
        assert!(
            begun.elapsed().as_secs() < 20,
            "{:?}",
            used_by_log(&crashed)
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    store.shutdown().expect("a clean end");
    drop(store);
    let (store, _) = open_with(&crashed, quiet()).expect("opens");
    assert_steps(&store, RUNS, "after a clean end");
    // Ends in order leave no gaps.
    assert_eq!(store.control().gaps, {
        let (store, _) = open_with(&crashed.process_crash(), quiet()).expect("opens");
        let mut gaps = store.control().gaps.list().to_vec();
        gaps.pop();
        crate::gaps::Gaps::from_ascending(gaps).expect("in order")
    });
}

/// GAP-1: neither creating a database, nor a clean end, nor a run that got no further than
/// announcing itself makes a gap.
#[test]
fn starts_that_nothing_was_lost_before_make_no_gap() {
    let disk = SimDisk::new(66);
    let (store, _) = open(&disk);
    assert!(store.control().gaps.list().is_empty());
    set_up(&store).expect("set up");
    store.shutdown().expect("a clean end");
    drop(store);
    let (store, _) = open(&disk);
    assert!(store.control().gaps.list().is_empty());
    run(&store, &disk, 1, 9, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let mut image = disk.crash(1);
    drop(store);
    // Each of these starts fails behind the announcement.
    for _ in 0..5 {
        image.inject(
            Fault::nth(1, FaultKind::Eio)
                .on(OpKind::Write)
                .path("doublewrite")
                .sticky(),
        );
        let failed = open_with(&image, config()).map(|_| ());
        failed.expect_err("no double-write area");
        image.clear_faults();
        image = image.process_crash();
    }
    let (store, _) = open(&image);
    let gaps = store.control().gaps;
    assert_eq!(gaps.list().len(), 1);
    assert_steps(&store, 9, "in the end");
    let opened_at = store.log().insert_lsn();
    assert!(opened_at.distance_from(gaps.list()[0].end) < 4096);
}

/// GAP-2: the log behind a gap begins with the announcement that says where the log before it
/// ended, nothing else is read there, and no record reaches into a gap.
#[test]
fn the_log_goes_on_behind_a_gap_only_with_its_announcement() {
    let disk = SimDisk::new(67);
    let (store, _) = open_with(&disk, quiet()).expect("opens");
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 9, 0).expect("steps");
    store.log().flush_all().expect("flush");
    // The gap ends behind the segments that are made ahead: it is to be longer than one.
    wait_for_segments_ahead(&disk);
    let image = disk.crash_with(Outcome::Everything, 1);
    drop(store);
    let (store, _) = open_with(&image, quiet()).expect("opens");
    run(&store, &image, 10, 19, 0).expect("steps");
    store.log().flush_all().expect("flush");
    let control = store.control();
    let gap = control.gaps.last().expect("one");
    let crashed = image.process_crash();
    drop(store);
    let shared: Arc<dyn Disk> = Arc::new(crashed.clone());
    let read = |gap: Gap| {
        let gaps = crate::gaps::Gaps::from_ascending(vec![gap]).expect("one");
        let start = (control.redo, control.incarnation);
        let (disk, layout) = (Arc::clone(&shared), layout(SEGMENT));
        let mut reader = crate::wal::reader::LogReader::new(disk, layout, start, &gaps);
        let mut steps = 0;
        while let Some(record) = reader.next_record().expect("reads") {
            steps += u64::from(record.kind() == COMMIT);
        }
        (steps, reader.position())
    };
    assert_eq!(read(gap).0, 19);
    // A gap that begins at another record, or within one.
    for start in [gap.start.0 - 8, gap.start.0 - 64] {
        let start = Lsn(start);
        let (steps, end) = read(Gap { start, ..gap });
        assert!(
            steps <= 9 && (end == gap.end || end <= start),
            "{start}: {end}"
        );
    }
    // A gap that is too short, or too long.
    for end in [gap.end.0 - SEGMENT, gap.end.0 + SEGMENT] {
        let end = Lsn(end);
        assert_eq!(read(Gap { end, ..gap }), (9, end));
    }
    // A missing segment that is in no gap is damage all the same.
    let layout = layout(SEGMENT);
    let path = layout.path(layout.segment_of(gap.end));
    crashed.remove(&path).expect("removed");
    let error = open_with(&crashed, quiet())
        .map(|_| ())
        .expect_err("damaged");
    let StorageError::LogDamaged { lsn, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(lsn, gap.end);
    // So is one in a gap that the control file does not name.
    let crashed = image.process_crash();
    crashed
        .remove(&layout.path(layout.segment_of(gap.start)))
        .expect("removed");
    open_with(&crashed, quiet())
        .map(|_| ())
        .expect_err("the log before the gap is needed");
}

/// GAP-5: on a full disk a segment that is not needed becomes the fresh one; without any as much of
/// one is made as there is room for, the database opens, and work is admitted when the rest is
/// there.
#[test]
fn a_fresh_segment_is_found_on_a_full_disk() {
    for has_spare in [true, false] {
        let disk = SimDisk::new(68);
        let config = StorageConfig {
            space_reserve: 0,
            ..quiet()
        };
        let (store, _) = open_with(&disk, config.clone()).expect("opens");
        set_up(&store).expect("set up");
        run(&store, &disk, 1, 30, 10).expect("steps");
        store.log().flush_all().expect("flush");
        let end = store.log().insert_lsn();
        wait_for_segments_ahead(&disk);
        let image = disk.crash_with(Outcome::Everything, 1);
        drop(store);
        let layout = layout(SEGMENT);
        if !has_spare {
            for segment in layout.list(&image).expect("list") {
                if segment > layout.segment_of(end) {
                    image.remove(&layout.path(segment)).expect("removed");
                }
            }
        }
        image.set_capacity(Some(u64::MAX));
        let left = image.free_space(&dir()).expect("answers").expect("known");
        // Room for half a segment and what else a start needs, which is not another segment.
        let room = if has_spare { 0 } else { 40 << 10 };
        image.set_capacity(Some(u64::MAX - left + room));
        // The checkpoint at the end of redo makes room: segments that are not needed any more.
        let waiting = StorageConfig {
            redo_waits: true,
            ..config.clone()
        };
        let (store, _) = open_with(&image, waiting).expect("opens on a full disk");
        let error = store.admit().map(|()| 0);
        if !has_spare {
            let error = error.expect_err("no room for work");
            assert!(matches!(error, StorageError::DiskFull(_)), "{error}");
        }
        assert_steps(&store, 30, "on a full disk");
        assert_eq!(store.control().gaps.list().len(), 1);
        store.checkpoint(CheckpointMode::Fast).expect("checkpoint");
        store.shutdown().expect("a clean end");
        drop(store);
        for _ in 0..2 {
            let (store, _) = open_with(&image, config.clone()).expect("opens again");
            assert_steps(&store, 30, "still on a full disk");
            let image = image.process_crash();
            drop(store);
            let (store, _) = open_with(&image, config.clone()).expect("opens after a crash");
            assert_steps(&store, 30, "still on a full disk");
        }
        image.set_capacity(None);
        let (store, _) = open_with(&image, config.clone()).expect("opens");
        let begun = std::time::Instant::now();
        while store.admit().is_err() {
            assert!(begun.elapsed().as_secs() < 20, "space came back");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        run(&store, &image, 31, 200, 50).expect("goes on");
        assert_steps(&store, 200, "with room again");
    }
}

/// GAP-1 in full: at every step of starts after starts that crashed, with torn and vanished
/// sectors, nothing acknowledged is lost, and no page is taken for damaged.
#[test]
fn crashes_at_every_step_of_starts_in_a_row_lose_nothing() {
    let disk = SimDisk::new(69);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    run(&store, &disk, 1, 60, 25).expect("steps");
    let mut crashed = disk.crash(69);
    let mut known = disk.acknowledged_by(disk.op_count()).last().copied();
    drop(store);
    for round in 0..4 {
        let (store, _) = open(&crashed);
        let steps = steps_done(&store).expect("steps");
        assert!(steps >= known.unwrap_or(0));
        run(&store, &crashed, steps + 1, steps + 9, round).expect("steps");
        drop(store);
        let end = crashed.op_count();
        let mut next = None;
        for image in crashed.images(round).step(sample((end / 30).max(1))) {
            let acknowledged = crashed.acknowledged_by(image.index).last().copied();
            let what = format!("round {round}: {}", image_name(&image));
            let least = acknowledged.max(known).unwrap_or(0);
            super::crash::check_recovered(&image.disk, least, &what);
            if image.index < end * 2 / 3 {
                next = Some((image.disk, acknowledged.max(known)));
            }
        }
        (crashed, known) = next.expect("images");
    }
}
