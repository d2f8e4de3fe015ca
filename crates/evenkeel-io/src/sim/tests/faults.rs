use super::*;
use crate::error::{IoErrorKind, OpKind};

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
