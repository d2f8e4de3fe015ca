//! Tests of the lock manager, without a database.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel_storage::{BlockNumber, FileId};

use super::*;
use crate::error::{EngineError, EngineResult};
use crate::memory::ServerMemory;
use crate::ticket::{CancelFlag, WakeList, block_on};
use crate::types::Xid;

const TABLE: LockKey = LockKey::Table(7);
const NEVER: Duration = Duration::from_secs(3600);
const ROW: LockKey = LockKey::Row(FileId(1), Tid::new(BlockNumber(3), 4), Xid::new(9));

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn options(cancel: &CancelFlag) -> WaitOptions<'_> {
    WaitOptions {
        cancel,
        timeout: None,
        deadlock_timeout: NEVER,
    }
}

async fn take(
    manager: &LockManager,
    owner: &HeldLocks,
    key: LockKey,
    mode: impl Into<Mode>,
) -> EngineResult<bool> {
    let cancel = CancelFlag::new();
    manager
        .acquire(owner, key, mode.into(), WaitPolicy::Block, options(&cancel))
        .await
}

/// Takes the lock with a search for deadlocks right after the wait begins.
async fn take_suspecting(
    manager: &LockManager,
    owner: &HeldLocks,
    key: LockKey,
    mode: impl Into<Mode>,
) -> EngineResult<bool> {
    take_suspecting_after(Duration::from_millis(1), manager, owner, key, mode).await
}

async fn take_suspecting_after(
    deadlock_timeout: Duration,
    manager: &LockManager,
    owner: &HeldLocks,
    key: LockKey,
    mode: impl Into<Mode>,
) -> EngineResult<bool> {
    let cancel = CancelFlag::new();
    let options = WaitOptions {
        deadlock_timeout,
        ..options(&cancel)
    };
    manager
        .acquire(owner, key, mode.into(), WaitPolicy::Block, options)
        .await
}

fn release_all(manager: &LockManager, owner: &HeldLocks) {
    let mut wakes = WakeList::default();
    manager.release_all(owner, &mut wakes);
    wakes.wake();
}

#[test]
fn a_row_has_several_lockers() {
    let manager = LockManager::new();
    let [a, b, c] = [(); 3].map(|()| manager.new_owner());
    assert!(
        manager
            .try_acquire(&a, ROW, RowLockMode::KeyShare.into())
            .is_some()
    );
    assert!(
        manager
            .try_acquire(&b, ROW, RowLockMode::Share.into())
            .is_some()
    );
    assert!(
        manager
            .try_acquire(&c, ROW, RowLockMode::NoKeyUpdate.into())
            .is_none()
    );
    assert!(manager.conflicts(&c, &ROW, RowLockMode::NoKeyUpdate.into()));
    assert!(!manager.conflicts(&c, &ROW, RowLockMode::KeyShare.into()));
    release_all(&manager, &b);
    assert!(
        manager
            .try_acquire(&c, ROW, RowLockMode::NoKeyUpdate.into())
            .is_some()
    );
    assert!(manager.conflicts(&a, &ROW, RowLockMode::Update.into()));
    release_all(&manager, &a);
    release_all(&manager, &c);
    assert!(manager.list().is_empty());
}

#[test]
fn waiters_are_served_in_order() {
    let manager = LockManager::new();
    let [a, b, c, d] = [(); 4].map(|()| manager.new_owner());
    assert!(block_on(take(&manager, &a, TABLE, TableLockMode::AccessShare)).unwrap());
    let mut exclusive = pin!(take(&manager, &b, TABLE, TableLockMode::AccessExclusive));
    assert!(poll(exclusive.as_mut()).is_pending());
    // Compatible with what is held, but it may not overtake the waiter.
    let mut shared = pin!(take(&manager, &c, TABLE, TableLockMode::AccessShare));
    assert!(poll(shared.as_mut()).is_pending());
    assert!(
        manager
            .try_acquire(&d, TABLE, TableLockMode::AccessShare.into())
            .is_none()
    );
    release_all(&manager, &a);
    assert!(matches!(poll(exclusive.as_mut()), Poll::Ready(Ok(true))));
    assert!(poll(shared.as_mut()).is_pending());
    release_all(&manager, &b);
    assert!(matches!(poll(shared.as_mut()), Poll::Ready(Ok(true))));
}

#[test]
fn a_holder_passes_the_queue() {
    let manager = LockManager::new();
    let [a, b] = [(); 2].map(|()| manager.new_owner());
    assert!(block_on(take(&manager, &a, ROW, RowLockMode::Share)).unwrap());
    let mut waiting = pin!(take(&manager, &b, ROW, RowLockMode::Update));
    assert!(poll(waiting.as_mut()).is_pending());
    assert!(block_on(take(&manager, &a, ROW, RowLockMode::Update)).unwrap());
    assert!(poll(waiting.as_mut()).is_pending());
    release_all(&manager, &a);
    assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Ok(true))));
}

#[test]
fn an_abandoned_wait_leaves_the_queue() {
    let manager = LockManager::new();
    let [a, b, c] = [(); 3].map(|()| manager.new_owner());
    assert!(block_on(take(&manager, &a, TABLE, TableLockMode::Share)).unwrap());
    {
        let mut waiting = Box::pin(take(&manager, &b, TABLE, TableLockMode::RowExclusive));
        assert!(poll(waiting.as_mut()).is_pending());
        assert!(
            manager
                .try_acquire(&c, TABLE, TableLockMode::Share.into())
                .is_none()
        );
    }
    assert!(
        manager
            .try_acquire(&c, TABLE, TableLockMode::Share.into())
            .is_some()
    );
    {
        // Granted but never looked at: the lock is the owner's, and goes with it.
        let mut waiting = Box::pin(take(&manager, &b, TABLE, TableLockMode::RowExclusive));
        assert!(poll(waiting.as_mut()).is_pending());
        release_all(&manager, &a);
        release_all(&manager, &c);
    }
    assert!(
        manager
            .try_acquire(&c, TABLE, TableLockMode::Share.into())
            .is_none()
    );
    release_all(&manager, &b);
    assert!(manager.list().is_empty());
}

#[test]
fn deadlocks_are_found_across_kinds_of_waits() {
    let manager = LockManager::new();
    let [a, b, c] = [(); 3].map(|()| manager.new_owner());
    let xid = Xid::new(100);
    manager.start_xid(xid, &c);
    assert!(block_on(take(&manager, &a, ROW, RowLockMode::Update)).unwrap());
    assert!(block_on(take(&manager, &b, TABLE, TableLockMode::Share)).unwrap());
    // a waits for c's end, c for b's table lock; b asking for a's row closes the cycle.
    let cancel = CancelFlag::new();
    let mut a_waits = pin!(manager.wait_for_xid(&a, xid, WaitPolicy::Block, options(&cancel)));
    assert!(poll(a_waits.as_mut()).is_pending());
    let mut c_waits = pin!(take(&manager, &c, TABLE, TableLockMode::RowExclusive));
    assert!(poll(c_waits.as_mut()).is_pending());
    let closes = take_suspecting(&manager, &b, ROW, RowLockMode::KeyShare);
    let error = block_on(closes).unwrap_err();
    assert!(matches!(&error, EngineError::Deadlock { detail } if detail.contains("ShareLock on")));
    assert_eq!(error.sqlstate(), "40P01");
    assert_eq!(manager.deadlocks(), 1);
    // The victim gives up; the others go on.
    release_all(&manager, &b);
    assert!(matches!(poll(c_waits.as_mut()), Poll::Ready(Ok(true))));
    let mut wakes = WakeList::default();
    manager.end_xid(xid, &mut wakes);
    wakes.wake();
    assert!(matches!(poll(a_waits.as_mut()), Poll::Ready(Ok(true))));
}

#[test]
fn two_upgrades_deadlock_and_one_is_refused() {
    let manager = LockManager::new();
    let [a, b] = [(); 2].map(|()| manager.new_owner());
    assert!(
        manager
            .try_acquire(&a, ROW, RowLockMode::Share.into())
            .is_some()
    );
    assert!(
        manager
            .try_acquire(&b, ROW, RowLockMode::Share.into())
            .is_some()
    );
    let mut first = pin!(take(&manager, &a, ROW, RowLockMode::Update));
    assert!(poll(first.as_mut()).is_pending());
    let second = block_on(take_suspecting(&manager, &b, ROW, RowLockMode::Update));
    assert!(matches!(second, Err(EngineError::Deadlock { .. })));
    release_all(&manager, &b);
    assert!(matches!(poll(first.as_mut()), Poll::Ready(Ok(true))));
}

/// The session of the first victim may be slow to run: its cycle is broken all the same.
#[test]
fn a_cycle_has_one_victim_though_another_search_comes_before_it_gives_up() {
    let manager = LockManager::new();
    let [a, b] = [(); 2].map(|()| manager.new_owner());
    assert!(
        manager
            .try_acquire(&a, ROW, RowLockMode::Update.into())
            .is_some()
    );
    assert!(
        manager
            .try_acquire(&b, TABLE, TableLockMode::Share.into())
            .is_some()
    );
    let (soon, later) = (Duration::from_millis(20), Duration::from_millis(60));
    let mode = TableLockMode::Exclusive;
    let mut first = pin!(take_suspecting_after(later, &manager, &a, TABLE, mode));
    let mode = RowLockMode::Update;
    let mut second = pin!(take_suspecting_after(soon, &manager, &b, ROW, mode));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    // Both searches, while neither session runs.
    std::thread::sleep(Duration::from_millis(200));
    assert!(poll(first.as_mut()).is_pending());
    let victim = poll(second.as_mut());
    assert!(matches!(
        victim,
        Poll::Ready(Err(EngineError::Deadlock { .. }))
    ));
    assert_eq!(manager.deadlocks(), 1);
    release_all(&manager, &b);
    assert!(matches!(poll(first.as_mut()), Poll::Ready(Ok(true))));
}

#[test]
fn a_wait_is_looked_at_only_after_deadlock_timeout() {
    let manager = LockManager::new();
    let [a, b] = [(); 2].map(|()| manager.new_owner());
    assert!(
        manager
            .try_acquire(&a, ROW, RowLockMode::Update.into())
            .is_some()
    );
    assert!(
        manager
            .try_acquire(&b, TABLE, TableLockMode::Share.into())
            .is_some()
    );
    let mut first = pin!(take(&manager, &a, TABLE, TableLockMode::Exclusive));
    let mut second = pin!(take(&manager, &b, ROW, RowLockMode::Update));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    // A search for the sake of another wait leaves those alone that are not due.
    let c = manager.new_owner();
    let mut third = pin!(take_suspecting(&manager, &c, ROW, RowLockMode::Update));
    assert!(poll(third.as_mut()).is_pending());
    std::thread::sleep(Duration::from_millis(30));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    assert!(poll(third.as_mut()).is_pending());
    assert_eq!(manager.deadlocks(), 0);
}

#[test]
fn a_share_lock_is_not_queued_behind_a_waiting_update() {
    let manager = LockManager::new();
    let [a, b, c, d] = [(); 4].map(|()| manager.new_owner());
    assert!(
        manager
            .try_acquire(&a, ROW, RowLockMode::Share.into())
            .is_some()
    );
    let mut exclusive = pin!(take(&manager, &b, ROW, RowLockMode::Update));
    assert!(poll(exclusive.as_mut()).is_pending());
    assert!(block_on(take(&manager, &c, ROW, RowLockMode::Share)).unwrap());
    assert!(
        manager
            .try_acquire(&d, ROW, RowLockMode::KeyShare.into())
            .is_some()
    );
    for owner in [&a, &c, &d] {
        assert!(poll(exclusive.as_mut()).is_pending());
        release_all(&manager, owner);
    }
    assert!(matches!(poll(exclusive.as_mut()), Poll::Ready(Ok(true))));
    // Behind a lock that conflicts, waiters are served in order.
    let mut first = pin!(take(&manager, &a, ROW, RowLockMode::Update));
    let mut second = pin!(take(&manager, &c, ROW, RowLockMode::Share));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    release_all(&manager, &b);
    assert!(poll(second.as_mut()).is_pending());
    assert!(matches!(poll(first.as_mut()), Poll::Ready(Ok(true))));
}

#[test]
fn policies_timeouts_and_cancels_end_waits() {
    let manager = LockManager::new();
    let [a, b] = [(); 2].map(|()| manager.new_owner());
    assert!(
        manager
            .try_acquire(&a, ROW, RowLockMode::Update.into())
            .is_some()
    );
    let cancel = CancelFlag::new();
    let acquire = |policy, timeout| {
        let options = WaitOptions {
            cancel: &cancel,
            timeout,
            deadlock_timeout: NEVER,
        };
        block_on(manager.acquire(&b, ROW, RowLockMode::Share.into(), policy, options))
    };
    assert!(!acquire(WaitPolicy::SkipLocked, None).unwrap());
    let refused = acquire(WaitPolicy::NoWait, None).unwrap_err();
    assert_eq!(refused.sqlstate(), "55P03");
    let timed_out = acquire(WaitPolicy::Block, Some(Duration::from_millis(5))).unwrap_err();
    assert!(matches!(timed_out, EngineError::LockTimeout));
    assert_eq!(timed_out.sqlstate(), "55P03");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while manager.list().len() < 2 {
                std::thread::yield_now();
            }
            cancel.cancel();
        });
        let cancelled = acquire(WaitPolicy::Block, None).unwrap_err();
        assert_eq!(cancelled.sqlstate(), "57014");
    });
    assert_eq!(manager.list().len(), 1);
}

#[test]
fn locks_of_a_rolled_back_part_go_and_the_rest_stays() {
    let manager = LockManager::new();
    let [a, b] = [(); 2].map(|()| manager.new_owner());
    assert!(block_on(take(&manager, &a, TABLE, TableLockMode::RowExclusive)).unwrap());
    let mark = a.mark();
    assert!(block_on(take(&manager, &a, TABLE, TableLockMode::AccessExclusive)).unwrap());
    assert!(
        manager
            .try_acquire(&a, ROW, RowLockMode::Update.into())
            .is_some()
    );
    let mut wakes = WakeList::default();
    manager.release_to(&a, mark, &mut wakes);
    wakes.wake();
    assert!(
        manager
            .try_acquire(&b, ROW, RowLockMode::Update.into())
            .is_some()
    );
    assert!(
        manager
            .try_acquire(&b, TABLE, TableLockMode::RowExclusive.into())
            .is_some()
    );
    assert!(
        manager
            .try_acquire(&b, TABLE, TableLockMode::Share.into())
            .is_none()
    );
    // The released lock is acquired anew: the owner does not take it for held.
    let acquire = manager.acquire(
        &a,
        TABLE,
        TableLockMode::Share.into(),
        WaitPolicy::SkipLocked,
        options(a_flag()),
    );
    assert!(!block_on(acquire).unwrap());
}

fn a_flag() -> &'static CancelFlag {
    static FLAG: std::sync::OnceLock<CancelFlag> = std::sync::OnceLock::new();
    FLAG.get_or_init(CancelFlag::new)
}

#[test]
fn threads_exclude_each_other_and_no_wake_up_is_lost() {
    let manager = Arc::new(LockManager::new());
    let shared = Arc::new(std::sync::atomic::AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let owner = manager.new_owner();
                    assert!(block_on(take(&manager, &owner, ROW, RowLockMode::Update)).unwrap());
                    let seen = shared.load(std::sync::atomic::Ordering::Relaxed);
                    std::hint::spin_loop();
                    shared.store(seen + 1, std::sync::atomic::Ordering::Relaxed);
                    release_all(&manager, &owner);
                }
            });
        }
    });
    assert_eq!(shared.load(std::sync::atomic::Ordering::Relaxed), 2000);
    assert!(manager.list().is_empty());
}

#[test]
fn row_locks_are_charged_to_the_session() {
    let server = ServerMemory::new(64 << 20);
    let session = server.session(1 << 20);
    let manager = LockManager::new();
    let owner = manager.new_owner();
    owner.charge_to(&session);
    let cancel = CancelFlag::new();
    let lock = |number: u32| {
        let key = LockKey::Row(FileId(1), Tid::new(BlockNumber(number), 1), Xid::new(9));
        let mode = RowLockMode::Update.into();
        if manager.try_acquire(&owner, key, mode).is_some() {
            return Ok(true);
        }
        let policy = WaitPolicy::SkipLocked;
        block_on(manager.acquire(&owner, key, mode, policy, options(&cancel)))
    };
    let mark = owner.mark();
    let mut taken = 0;
    let error = loop {
        match lock(taken) {
            Ok(true) => taken += 1,
            Ok(false) => panic!("a free lock was skipped"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.sqlstate(), "53200");
    assert!((4000..=4200).contains(&taken), "{taken}");
    // It holds what it has, and can go on after a rollback to a savepoint.
    assert_eq!(manager.list().len(), taken as usize);
    let mut wakes = WakeList::default();
    manager.release_to(&owner, mark, &mut wakes);
    wakes.wake();
    assert!(manager.list().is_empty());
    assert!(lock(0).unwrap());
    release_all(&manager, &owner);
    drop(owner);
    assert_eq!(session.used(), 0);
}

/// Another version of a row.
fn version(number: u64) -> LockKey {
    LockKey::Row(FileId(1), Tid::new(BlockNumber(3), 4), Xid::new(number))
}

#[test]
fn a_row_is_locked_by_all_its_versions_and_given_up_once() {
    let manager = LockManager::new();
    let [a, b, c] = [(); 3].map(|()| manager.new_owner());
    let (share, change, delete): (Mode, Mode, Mode) = (
        RowLockMode::KeyShare.into(),
        RowLockMode::NoKeyUpdate.into(),
        RowLockMode::Update.into(),
    );
    // Nobody has locked the row: a change leaves nothing.
    assert_eq!(manager.join(&b, &ROW, change).unwrap(), RowObject::None);
    assert_eq!(manager.try_acquire(&a, ROW, share), Some(ROW));
    assert_eq!(
        manager.join(&b, &ROW, change).unwrap(),
        RowObject::Held(ROW)
    );
    assert!(manager.add_alias(&ROW, version(10), None));
    // Asked by either version.
    for key in [ROW, version(10)] {
        assert!(manager.conflicts(&c, &key, change));
        assert!(!manager.conflicts(&c, &key, share));
        assert_eq!(
            manager.join(&c, &key, delete).unwrap(),
            RowObject::Contended
        );
    }
    // The next version, when the one before is committed.
    release_all(&manager, &b);
    assert!(!manager.conflicts(&c, &version(10), change));
    assert_eq!(
        manager.join(&b, &version(10), change).unwrap(),
        RowObject::Held(ROW)
    );
    assert!(manager.add_alias(&ROW, version(11), Some(version(10))));
    assert!(manager.conflicts(&c, &version(11), delete));
    release_all(&manager, &a);
    assert!(manager.conflicts(&c, &version(11), delete));
    release_all(&manager, &b);
    assert!(manager.list().is_empty());
    // The rest of a row that nobody locks any more is in nobody's way.
    assert!(!manager.conflicts(&c, &version(11), delete));
    assert_eq!(
        manager.try_acquire(&c, version(11), delete),
        Some(version(11))
    );
    release_all(&manager, &c);
}

#[test]
fn waiters_for_a_row_are_served_when_those_have_gone_that_changed_it() {
    let manager = LockManager::new();
    let [a, b, c] = [(); 3].map(|()| manager.new_owner());
    let share: Mode = RowLockMode::KeyShare.into();
    assert_eq!(manager.try_acquire(&a, ROW, share), Some(ROW));
    let mut waits = pin!(take(&manager, &c, ROW, RowLockMode::Update));
    assert!(poll(waits.as_mut()).is_pending());
    // A change of other columns passes the waiter, and the lock is not free before its end.
    let change = RowLockMode::NoKeyUpdate.into();
    assert_eq!(
        manager.join(&b, &ROW, change).unwrap(),
        RowObject::Held(ROW)
    );
    assert!(manager.add_alias(&ROW, version(10), None));
    release_all(&manager, &a);
    assert!(poll(waits.as_mut()).is_pending());
    release_all(&manager, &b);
    assert!(matches!(poll(waits.as_mut()), Poll::Ready(Ok(true))));
    // By every version.
    assert!(manager.conflicts(&a, &version(10), share));
    release_all(&manager, &c);
    assert!(manager.list().is_empty());
}

#[test]
fn threads_that_lock_and_move_rows_exclude_each_other_and_leave_nothing() {
    let manager = Arc::new(LockManager::new());
    let owned = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let newest = Arc::new(std::sync::atomic::AtomicU64::new(100));
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let (manager, owned) = (Arc::clone(&manager), Arc::clone(&owned));
            let newest = Arc::clone(&newest);
            std::thread::spawn(move || {
                use std::sync::atomic::Ordering::SeqCst;
                for round in 0..2000u64 {
                    let owner = manager.new_owner();
                    let at = newest.load(SeqCst);
                    if (round + seed) % 3 == 0 {
                        if let Some(root) =
                            manager.try_acquire(&owner, version(at), RowLockMode::Update.into())
                        {
                            // Others may hold versions that are no longer the newest. While the
                            // newest is held, nobody else makes another.
                            if newest.load(SeqCst) == at {
                                assert_eq!(owned.fetch_add(1, SeqCst), 0);
                                manager.add_alias(&root, version(at + 1), None);
                                newest.store(at + 1, SeqCst);
                                owned.fetch_sub(1, SeqCst);
                            }
                        }
                    } else {
                        let _ =
                            manager.try_acquire(&owner, version(at), RowLockMode::KeyShare.into());
                    }
                    release_all(&manager, &owner);
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(manager.list().is_empty());
}
