//! Internal rules that are checked in release builds: a broken one stops the instance before
//! anything is written or acknowledged by it.

use super::*;
use crate::mutant::Mutant;

fn assert_stopped<T: std::fmt::Debug>(store: &Store, result: &StorageResult<T>, why: &str) {
    assert!(
        matches!(result, Err(StorageError::Internal(text)) if text.contains(why)),
        "{result:?}"
    );
    assert!(
        store
            .poison()
            .reason()
            .is_some_and(|text| text.contains(why))
    );
}

#[test]
fn a_record_changes_no_page_that_is_ahead_of_it() {
    let disk = SimDisk::new(61);
    let (store, _) = open(&disk);
    set_up(&store).expect("set up");
    let fork = counters(&store);
    step(&store, &fork, 1).expect("step");
    let ahead = Lsn(store.log().insert_lsn().0 + (1 << 20));
    let mut page = fork.write(BlockNumber(0)).expect("page");
    page.page_mut().set_lsn(ahead);
    let before = *page.bytes();
    let mut change = store.change(0);
    change.part(&mut page, ADD, PartFlags::NONE, &add_data(0, 1));
    let lsn = change.commit();
    assert_eq!(before, *page.bytes());
    drop(page);
    assert!(store.log().flush(lsn).is_err());
    let reason = store.poison().reason().expect("poisoned");
    assert!(reason.contains("which has LSN"), "{reason}");
}

#[test]
fn the_redo_point_moves_forward_and_no_further_than_the_log_is_given_up() {
    for (mutant, why) in [
        (Mutant::MoveRedoPointBack, "would move back"),
        (Mutant::PassEverything, "from where the log is needed"),
    ] {
        let disk = SimDisk::new(62);
        let mutated = StorageConfig {
            mutant: Some(mutant),
            ..config()
        };
        let (store, _) = open_with(&disk, mutated).expect("opens");
        set_up(&store).expect("set up");
        let _hold = store.hold_redo_here();
        run(&store, &disk, 1, 30, 0).expect("steps");
        let redo = store.control().redo;
        assert_stopped(&store, &store.checkpoint(CheckpointMode::Fast), why);
        assert_eq!(store.control().redo, redo, "{mutant:?}");
        drop(store);
        let (store, _) = open(&disk);
        assert_steps(&store, 30, "opened after the instance had stopped");
    }
}

#[test]
fn nothing_is_acknowledged_that_is_not_complete() {
    let disk = SimDisk::new(63);
    let (store, toy) = open(&disk);
    set_up(&store).expect("set up");
    let durable = store.log().durable_lsn();
    let beyond = Lsn(store.log().insert_lsn().0 + 64);
    assert_stopped(
        &store,
        &store.log().advance_durable(beyond),
        "is complete up to",
    );
    assert!(store.log().durable_lsn() >= durable && store.log().durable_lsn() < beyond);
    assert!(toy.durable.load(Ordering::SeqCst) < beyond.0);
}
