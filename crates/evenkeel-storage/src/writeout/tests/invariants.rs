//! Copies that must not be written stop the instance before they leave memory.

use super::*;
use crate::page::{LOWER_OFFSET, PageMut};

/// Writes one page after `spoil` had it; answers the reason why the instance stopped.
fn reason(spoil: impl FnOnce(&mut PageMut<'_>), mutant: Option<Mutant>) -> Option<Arc<str>> {
    let disk = SimDisk::new(31);
    let (store, log) = fresh(&disk, 64, 4, 64);
    if let Some(mutant) = mutant {
        store.poison.mutate(mutant);
    }
    change(&store, &log, 1, 7);
    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
    spoil(&mut fork.write(block(1)).expect("whole").page_mut());
    let result = store
        .writer
        .write_dirty_before(log.insert_lsn(), &mut |_, _| {});
    let reason = store.poison.reason();
    match (&result, &reason) {
        (Ok(_), None) | (Err(StorageError::Internal(_)), Some(_)) => {}
        _ => panic!("{result:?}, stopped for {reason:?}"),
    }
    let homes = store.writer.stats().home_writes;
    assert_eq!(homes == 0, reason.is_some(), "nothing left memory");
    reason
}

#[test]
fn only_sound_copies_with_a_durable_log_are_written() {
    assert_eq!(reason(|_| {}, None), None);
    let stopped = [
        (
            reason(|page| page.put_u16(LOWER_OFFSET, 9000), None),
            "lower 9000",
        ),
        (
            reason(|page| page.set_lsn(Lsn(1 << 40)), None),
            "and the log ends at",
        ),
        (
            reason(|_| {}, Some(Mutant::SkipLogFlush)),
            "while the log is durable to",
        ),
    ];
    for (found, expected) in stopped {
        let found = found.expect(expected);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_write_out_ends_once() {
    let disk = SimDisk::new(32);
    let (store, log) = fresh(&disk, 64, 4, 64);
    change(&store, &log, 1, 7);
    let fork = store.pool.fork(FILE, Fork::Main).expect("opens");
    let id = fork.resident_frame(block(1)).expect("in the pool");
    let mut image = [0; PAGE_SIZE];
    let copied = store
        .pool
        .begin_write(page_id(1), id, &mut image, false, &*log);
    assert!(copied.is_some());
    store
        .pool
        .end_write([id].into_iter())
        .expect("it was under way");
    let again = store.pool.end_write([id].into_iter());
    assert!(matches!(again, Err(StorageError::Internal(_))));
    assert!(store.poison.is_set());
}

#[test]
fn a_page_with_an_impossible_header_is_damaged_when_it_is_read() {
    let disk = SimDisk::new(33);
    let (store, log) = fresh(&disk, 64, 4, 64);
    change(&store, &log, 1, 7);
    store.checkpoint(&log).expect("sound");
    drop(store);
    let path = Path::new(DIR).join(format!("base/{}", FILE.0));
    let file = disk.open(&path, OpenOptions::read_write()).expect("there");
    let mut image = [0; PAGE_SIZE];
    file.read_at(&mut image, PAGE_SIZE as u64).expect("read");
    PageMut::new(&mut image).put_u16(LOWER_OFFSET, 9000);
    crate::page::checksum::stamp(&mut image, page_id(1));
    file.write_all_at(&image, PAGE_SIZE as u64).expect("space");
    let (pool, poison) = open_pool(&disk, 16);
    let fork = pool.fork(FILE, Fork::Main).expect("opens");
    let error = fork.read(block(1)).map(drop).expect_err("damaged");
    assert!(
        matches!(&error, StorageError::PageDamaged { reason, .. } if reason.contains("lower 9000")),
        "{error}"
    );
    assert!(fork.read(block(0)).is_ok() && !poison.is_set());
}
