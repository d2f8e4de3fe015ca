use super::*;
use crate::error::IoErrorKind;

#[test]
fn a_created_file_is_durable_only_by_its_directory() {
    let disk = disk();
    let file = open(&disk, "d/f");
    file.write_all_at(b"x", 0).unwrap();
    file.sync_all().unwrap();
    assert!(!exists(&disk.crash_with(Outcome::Nothing, 0), "d/f"));
    disk.sync_dir(Path::new("")).unwrap();
    assert!(
        !exists(&disk.crash_with(Outcome::Nothing, 0), "d/f"),
        "another directory's sync"
    );
    disk.sync_dir(Path::new("d")).unwrap();
    assert_eq!(content(&disk.crash_with(Outcome::Nothing, 0), "d/f"), b"x");
}

#[test]
fn an_entry_may_survive_without_content() {
    let disk = disk();
    let file = open(&disk, "d/f");
    file.write_all_at(b"x", 0).unwrap();
    disk.sync_dir(Path::new("d")).unwrap();
    assert_eq!(content(&disk.crash_with(Outcome::Nothing, 0), "d/f"), b"");
}

#[test]
fn a_removed_file_comes_back_without_sync_dir() {
    let disk = disk();
    durable(&disk, "d/f", b"x");
    disk.remove(Path::new("d/f")).unwrap();
    assert!(!exists(&disk, "d/f"));
    assert_eq!(content(&disk.crash_with(Outcome::Nothing, 0), "d/f"), b"x");
    assert!(!exists(&disk.crash_with(Outcome::Everything, 0), "d/f"));
    disk.sync_dir(Path::new("d")).unwrap();
    assert!(!exists(&disk.crash(0), "d/f"));
}

#[test]
fn a_rename_survives_whole_or_not_at_all() {
    let disk = disk();
    durable(&disk, "d/old", b"old");
    durable(&disk, "d/new", b"new");
    disk.rename(Path::new("d/new"), Path::new("d/old")).unwrap();
    let (mut before, mut after) = (false, false);
    for seed in 0..100 {
        let image = disk.crash(seed);
        match exists(&image, "d/new") {
            true => {
                before = true;
                assert_eq!(content(&image, "d/new"), b"new", "seed {seed}");
                assert_eq!(content(&image, "d/old"), b"old", "seed {seed}");
            }
            false => {
                after = true;
                assert_eq!(content(&image, "d/old"), b"new", "seed {seed}");
            }
        }
    }
    assert!(before && after);
    disk.sync_dir(Path::new("d")).unwrap();
    assert_eq!(
        content(&disk.crash_with(Outcome::Nothing, 0), "d/old"),
        b"new"
    );
}

#[test]
fn entries_arrive_in_any_order() {
    let disk = disk();
    open(&disk, "d/a");
    open(&disk, "d/b");
    let mut seen = [false; 4];
    for seed in 0..200 {
        let image = disk.crash_with(Outcome::Operations, seed);
        let place = usize::from(exists(&image, "d/a")) + 2 * usize::from(exists(&image, "d/b"));
        seen[place] = true;
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
fn a_lost_directory_takes_its_files_along() {
    let disk = disk();
    disk.create_dir_all(Path::new("d/sub/deep")).unwrap();
    open(&disk, "d/sub/deep/f").sync_all().unwrap();
    disk.sync_dir(Path::new("d/sub/deep")).unwrap();
    disk.sync_dir(Path::new("d/sub")).unwrap();
    assert!(disk.list(Path::new("d")).unwrap() == ["sub"]);
    let image = disk.crash_with(Outcome::Nothing, 0);
    assert!(!exists(&image, "d/sub") && !exists(&image, "d/sub/deep/f"));
    disk.sync_dir(Path::new("d")).unwrap();
    assert!(exists(
        &disk.crash_with(Outcome::Nothing, 0),
        "d/sub/deep/f"
    ));
}

#[test]
fn a_rename_across_directories_is_durable_with_both_ends() {
    for synced in ["d", "e"] {
        let disk = disk();
        disk.create_dir_all(Path::new("e")).unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        durable(&disk, "d/f", b"x");
        disk.rename(Path::new("d/f"), Path::new("e/f")).unwrap();
        assert!(exists(&disk.crash_with(Outcome::Nothing, 0), "d/f"));
        disk.sync_dir(Path::new(synced)).unwrap();
        let image = disk.crash_with(Outcome::Nothing, 0);
        assert!(exists(&image, "e/f") && !exists(&image, "d/f"));
    }
}

#[test]
fn an_open_file_outlives_its_name() {
    let disk = disk();
    let file = durable(&disk, "d/f", b"one");
    disk.remove(Path::new("d/f")).unwrap();
    let other = open(&disk, "d/f");
    other.write_all_at(b"two", 0).unwrap();
    file.write_all_at(b"ONE", 0).unwrap();
    let mut bytes = [0; 3];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"ONE");
    assert_eq!(content(&disk, "d/f"), b"two");
}

#[test]
fn names_are_refused_as_a_file_system_does() {
    let disk = disk();
    durable(&disk, "d/f", b"x");
    let kind = |result: crate::IoResult<()>| result.unwrap_err().kind();
    let open = |path: &str, opts| disk.open(Path::new(path), opts).map(|_| ());
    assert_eq!(
        kind(open("d/none", OpenOptions::read_write())),
        IoErrorKind::NotFound
    );
    assert_eq!(
        kind(open("none/f", OpenOptions::create())),
        IoErrorKind::NotFound
    );
    assert_eq!(
        kind(open("d/f", OpenOptions::create_new())),
        IoErrorKind::AlreadyExists
    );
    assert_eq!(
        kind(open("d", OpenOptions::read_write())),
        IoErrorKind::InvalidInput
    );
    assert_eq!(
        kind(disk.remove(Path::new("d/none"))),
        IoErrorKind::NotFound
    );
    let (from, to) = (Path::new("d/none"), Path::new("d/f"));
    assert_eq!(kind(disk.rename(from, to)), IoErrorKind::NotFound);
    assert_eq!(
        kind(disk.rename(to, Path::new("none/f"))),
        IoErrorKind::NotFound
    );
    assert_eq!(
        kind(disk.sync_dir(Path::new("none"))),
        IoErrorKind::NotFound
    );
    assert_eq!(
        kind(disk.list(Path::new("none")).map(|_| ())),
        IoErrorKind::NotFound
    );
    assert_eq!(
        kind(disk.create_dir_all(Path::new("d/f"))),
        IoErrorKind::AlreadyExists
    );
    let read_only = disk.open(to, OpenOptions::read_only()).unwrap();
    assert_eq!(
        kind(read_only.write_all_at(b"y", 0)),
        IoErrorKind::InvalidInput
    );
    assert_eq!(kind(read_only.set_len(0)), IoErrorKind::InvalidInput);
    assert_eq!(content(&disk, "./d//f"), b"x");
}

#[test]
fn a_lock_has_one_holder_and_dies_with_the_process() {
    let disk = disk();
    let path = Path::new("d/lock");
    let guard = disk.lock(path).unwrap();
    guard.file().write_all_at(b"42", 0).unwrap();
    let refused = disk.lock(path).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), IoErrorKind::Locked);
    assert!(disk.process_crash().lock(path).is_ok());
    drop(guard);
    assert!(disk.lock(path).is_ok());
}
