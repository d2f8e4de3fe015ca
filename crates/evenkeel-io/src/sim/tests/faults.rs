use super::*;
use crate::error::{IoErrorKind, OpKind};
use crate::whole::write_whole;

#[test]
fn a_failed_sync_leaves_pages_clean_but_volatile() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 4096]);
    file.write_all_at(&[2; 5000], 0).unwrap();
    disk.fail_nth(1, FaultKind::Eio);
    let error = file.sync_data().unwrap_err();
    assert_eq!(
        (error.op(), error.kind()),
        (OpKind::SyncData, IoErrorKind::Io)
    );
    // Trying again proves nothing.
    file.sync_data().unwrap();
    assert_eq!(content(&disk, "d/f"), [2; 5000]);
    assert_eq!(content(&disk.process_crash(), "d/f"), [2; 5000]);
    let expected = |len: usize| [&[1; 4096][..], &vec![0; len - 4096]].concat();
    assert_eq!(direct_content(&disk, "d/f"), expected(5000));
    assert_eq!(
        content(&disk.crash_with(Outcome::Everything, 0), "d/f"),
        expected(5000)
    );
    disk.drop_caches();
    assert_eq!(content(&disk, "d/f"), expected(5000));
}

#[test]
fn a_failed_sync_loses_the_length_too() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 4096]);
    file.set_len(8192).unwrap();
    disk.fail_nth(1, FaultKind::Eio);
    file.sync_all().unwrap_err();
    assert_eq!(content(&disk, "d/f").len(), 8192);
    assert_eq!(
        content(&disk.crash_with(Outcome::Everything, 0), "d/f").len(),
        4096
    );
    disk.drop_caches();
    assert_eq!(content(&disk, "d/f"), [1; 4096]);
}

#[test]
fn writing_a_block_again_saves_it_whole() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 8192]);
    file.write_all_at(&[2; 8192], 0).unwrap();
    disk.fail_nth(1, FaultKind::Eio);
    file.sync_data().unwrap_err();
    file.write_all_at(&[3; 10], 0).unwrap();
    file.sync_data().unwrap();
    disk.drop_caches();
    let bytes = content(&disk, "d/f");
    assert_eq!(bytes[..10], [3; 10]);
    assert_eq!(
        bytes[10..4096],
        [2; 4086],
        "the cache page was written back whole"
    );
    assert_eq!(bytes[4096..], [1; 4096], "this one was not");
}

#[test]
fn the_page_cache_survives_the_process_and_can_still_be_synced() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 4096]);
    file.write_all_at(&[2; 4096], 0).unwrap();
    let survivor = disk.process_crash();
    file.write_all_at(&[3; 4096], 0).unwrap();
    assert_eq!(
        content(&survivor, "d/f"),
        [2; 4096],
        "the dead process wrote on"
    );
    assert_eq!(
        content(&survivor.crash_with(Outcome::Nothing, 0), "d/f"),
        [1; 4096]
    );
    open(&survivor, "d/f").sync_data().unwrap();
    assert_eq!(
        content(&survivor.crash_with(Outcome::Nothing, 0), "d/f"),
        [2; 4096]
    );
    assert!(survivor.op_count() > disk.images(0).index());
}

#[test]
fn a_write_back_error_is_reported_once_to_handles_open_at_the_time() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 4096]);
    let other = open(&disk, "d/f");
    file.write_all_at(&[2; 4096], 0).unwrap();
    assert_eq!(disk.fail_write_back("d/"), 1);
    assert_eq!(disk.fail_write_back("d/"), 0, "nothing is dirty any more");
    let late = open(&disk, "d/f");
    late.sync_data().unwrap();
    assert_eq!(file.sync_data().unwrap_err().kind(), IoErrorKind::Io);
    file.sync_data().unwrap();
    assert_eq!(other.sync_data().unwrap_err().kind(), IoErrorKind::Io);
    assert_eq!(content(&disk, "d/f"), [2; 4096]);
    assert_eq!(content(&disk.crash(0), "d/f"), [1; 4096]);
}

#[test]
fn one_handles_failed_sync_is_the_other_handles_error_too() {
    let disk = disk();
    let (a, b) = (durable(&disk, "d/f", &[1]), open(&disk, "d/f"));
    a.write_all_at(&[2], 0).unwrap();
    disk.fail_nth(1, FaultKind::Eio);
    a.sync_data().unwrap_err();
    b.sync_data().unwrap_err();
    b.sync_data().unwrap();
}

#[test]
fn the_nth_call_fails_whatever_it_is() {
    let run = |disk: &SimDisk| -> crate::IoResult<()> {
        let file = disk.open(Path::new("d/f"), OpenOptions::create())?;
        file.allocate(0, 8192)?;
        file.write_all_at(&[1; 8192], 0)?;
        file.start_writeback(0, 8192)?;
        file.read_exact_at(&mut [0; 10], 0)?;
        file.len()?;
        file.set_len(100)?;
        file.sync_data()?;
        file.sync_all()?;
        disk.rename(Path::new("d/f"), Path::new("d/g"))?;
        disk.create_dir_all(Path::new("d/e"))?;
        disk.list(Path::new("d"))?;
        disk.exists(Path::new("d"))?;
        disk.sync_dir(Path::new("d"))?;
        disk.lock(Path::new("d/l"))?;
        disk.remove(Path::new("d/g"))
    };
    let clean = disk();
    let before = clean.calls();
    run(&clean).unwrap();
    let calls = clean.calls() - before;
    assert_eq!(calls, 16);
    for (kind, expected) in [
        (FaultKind::Eio, IoErrorKind::Io),
        (FaultKind::Enospc, IoErrorKind::NoSpace),
    ] {
        for nth in 1..=calls {
            let disk = disk();
            disk.fail_nth(nth, kind);
            let error = run(&disk).unwrap_err();
            assert_eq!(error.kind(), expected, "call {nth}: {error}");
            assert_eq!(disk.faults_fired(), 1);
        }
        let disk = disk();
        disk.fail_nth(calls + 1, kind);
        run(&disk).unwrap();
    }
}

#[test]
fn short_transfers_are_carried_on_with() {
    let disk = disk();
    let file = open(&disk, "d/f");
    disk.inject(Fault::nth(1, FaultKind::Short).on(OpKind::Write));
    disk.inject(Fault::nth(1, FaultKind::Short).on(OpKind::Read));
    let (before, bytes) = (disk.op_count(), [7; 9000]);
    file.write_all_at(&bytes, 0).unwrap();
    assert_eq!(
        disk.op_count() - before,
        2,
        "a crash between the two parts is possible"
    );
    assert_eq!(content(&disk, "d/f"), bytes);
    assert_eq!(disk.faults_fired(), 2);
    disk.inject(Fault::nth(1, FaultKind::Short).on(OpKind::Allocate));
    assert_eq!(
        file.allocate(0, 10_000).unwrap_err().kind(),
        IoErrorKind::NoSpace
    );
    assert_eq!(file.len().unwrap(), 9000);
}

#[test]
fn a_failed_write_may_have_written_any_part() {
    let (mut nothing, mut part) = (false, false);
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let file = open(&disk, "f");
        disk.fail_nth(1, FaultKind::Enospc);
        let error = file.write_all_at(&[1; 8192], 0).unwrap_err();
        assert_eq!(error.kind(), IoErrorKind::NoSpace);
        let bytes = content(&disk, "f");
        assert!(
            bytes.len() < 8192 && bytes.iter().all(|&byte| byte == 1),
            "seed {seed}"
        );
        nothing |= bytes.is_empty();
        part |= !bytes.is_empty();
    }
    assert!(nothing && part);
}

#[test]
fn faults_choose_by_kind_and_path_and_may_stick() {
    let disk = disk();
    let (a, b) = (open(&disk, "d/a"), open(&disk, "d/b"));
    disk.inject(
        Fault::nth(2, FaultKind::Eio)
            .on(OpKind::Write)
            .path("/b")
            .sticky(),
    );
    for round in 1..5 {
        a.write_all_at(b"x", 0).unwrap();
        a.sync_data().unwrap();
        b.sync_data().unwrap();
        assert_eq!(b.write_all_at(b"x", 0).is_ok(), round < 2, "round {round}");
    }
    disk.clear_faults();
    b.write_all_at(b"x", 0).unwrap();
}

#[test]
fn a_failed_directory_sync_makes_nothing_durable() {
    let disk = disk();
    open(&disk, "d/f");
    disk.inject(Fault::nth(1, FaultKind::Eio).on(OpKind::SyncDir));
    disk.sync_dir(Path::new("d")).unwrap_err();
    assert!(!exists(&disk.crash_with(Outcome::Nothing, 0), "d/f"));
}

#[test]
fn opening_fails_while_too_many_files_are_open() {
    let disk = disk();
    let open = |name: &str| disk.open(name.as_ref(), OpenOptions::create());
    let before = disk.open_files();
    disk.set_max_open_files(Some(before + 2));
    assert_eq!(disk.max_open_files(), Some(before + 2));
    let (one, _two) = (open("d/1").unwrap(), open("d/2").unwrap());
    let error = open("d/3").map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), IoErrorKind::TooManyFiles);
    assert!(!disk.exists("d/3".as_ref()).unwrap());
    // Operations that need no new descriptor go on.
    one.write_all_at(&[1; 10], 0).unwrap();
    one.sync_all().unwrap();
    disk.sync_dir("d".as_ref()).unwrap();
    let error = disk.list("d".as_ref()).unwrap_err();
    assert_eq!(error.kind(), IoErrorKind::TooManyFiles);
    drop(one);
    assert_eq!(disk.list("d".as_ref()).unwrap().len(), 2);
    open("d/3").unwrap();
    // Another process has a limit of its own.
    assert_eq!(disk.process_crash().open_files(), 0);
}

#[test]
fn a_full_disk_refuses_growth_and_nothing_else() {
    let disk = disk();
    disk.set_capacity(Some(10_000));
    let open = |name: &str| disk.open(name.as_ref(), OpenOptions::create()).unwrap();
    let (one, two) = (open("d/1"), open("d/2"));
    one.allocate(0, 9_000).unwrap();
    assert_eq!(disk.free_space("d".as_ref()).unwrap(), Some(1_000));
    for refused in [two.allocate(0, 1_001), two.write_all_at(&[1; 1_001], 0)] {
        assert_eq!(refused.unwrap_err().kind(), IoErrorKind::NoSpace);
    }
    one.write_all_at(&[1; 9_000], 0).unwrap();
    one.sync_all().unwrap();
    disk.remove("d/1".as_ref()).unwrap();
    two.allocate(0, 10_000).unwrap();
    two.set_len(500).unwrap();
    two.write_all_at(&[1; 9_500], 500).unwrap();
}

#[test]
fn a_small_file_is_whole_or_as_it_was_after_any_crash() {
    const SEED: u64 = 31;
    let disk = SimDisk::new(SEED);
    disk.create_dir_all("/d".as_ref()).unwrap();
    disk.sync_dir("/".as_ref()).unwrap();
    let texts = [vec![b'a'; 9_000], vec![b'b'; 20_000]];
    for (text, tag) in texts.iter().zip(1..) {
        write_whole(&disk, "/d/f".as_ref(), text).unwrap();
        disk.acknowledge(tag);
    }
    for image in disk.images(SEED) {
        let acknowledged = disk.acknowledged_by(image.index).len();
        let found = match image.disk.exists("/d/f".as_ref()) {
            Ok(true) => Some(content(&image.disk, "/d/f")),
            _ => None,
        };
        let place = found.as_ref().map_or(0, |found| {
            let text = texts.iter().position(|text| text == found);
            1 + text.unwrap_or_else(|| panic!("half a file at {}", image.index))
        });
        assert!(place >= acknowledged, "{} at {}", place, image.index);
    }
    // A failure leaves the old one, and nothing beside it.
    disk.inject(Fault::nth(1, FaultKind::Enospc).on(OpKind::Write));
    write_whole(&disk, "/d/f".as_ref(), b"new").unwrap_err();
    assert_eq!(content(&disk, "/d/f"), texts[1]);
    assert_eq!(disk.list("/d".as_ref()).unwrap(), ["f"]);
}

#[test]
fn an_unreadable_block_fails_every_read_of_it_until_it_is_written() {
    let disk = disk();
    let file = durable(&disk, "d/f", &[1; 16384]);
    disk.make_unreadable(Path::new("d/f"), 4096..8192).unwrap();
    for disk in [&disk, &disk.process_crash(), &disk.crash(1)] {
        let file = open(disk, "d/f");
        let mut all = [0; 16384];
        let error = file.read_at(&mut all, 0).unwrap_err();
        assert_eq!((error.op(), error.kind()), (OpKind::Read, IoErrorKind::Io));
        file.read_at(&mut all[..4096], 0).unwrap();
        file.read_at(&mut all[..8192], 8192).unwrap();
        file.read_at(&mut all[..1], 8191).unwrap_err();
    }
    file.write_all_at(&[2; 4096], 4096).unwrap();
    let expected = [vec![1; 4096], vec![2; 4096], vec![1; 8192]].concat();
    assert_eq!(content(&disk, "d/f"), expected);
}
