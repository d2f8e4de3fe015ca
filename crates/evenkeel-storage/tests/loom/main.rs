//! Models of the frame word, its waiters, the block array, the log's ring and the redo point,
//! checked by loom in every order of their steps:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p evenkeel-storage --release --test loom
//! ```
//!
//! The modules are the very source files of the pool and the log, built with loom's primitives.
#![cfg(loom)]
#![allow(dead_code)]

#[path = "../../src/buffer/dirtiness.rs"]
mod dirtiness;
#[path = "../../src/buffer/entry.rs"]
mod entry;
#[path = "../../src/buffer/frame_state.rs"]
mod frame_state;
#[path = "../../src/ids.rs"]
mod ids;
#[path = "../../src/buffer/latch.rs"]
mod latch;
mod record;
mod redo_point;
mod ring;
#[path = "../../src/sync.rs"]
mod sync;
#[path = "../../src/buffer/waiters.rs"]
mod waiters;
mod wal;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use entry::{Entry, Place};
use frame_state::{Asker, Flag, FrameState, Mode};
use ids::FrameId;
use latch::Latch;
use sync::Parker;
use waiters::WaitTable;

/// One frame, its page, and what it takes to wait for it.
struct Model {
    latch: Latch,
    table: WaitTable,
    entries: [Entry; 2],
    /// The page: loom reports any access that the lock should have kept out.
    page: UnsafeCell<u64>,
    /// A hint word: written under share-exclusive, read under share.
    hint: AtomicU64,
}

unsafe impl Sync for Model {}
unsafe impl Send for Model {}

impl Model {
    fn new(word: FrameState) -> Arc<Model> {
        Arc::new(Model {
            latch: Latch::new(word),
            table: WaitTable::new(1),
            entries: [Entry::new(), Entry::new()],
            page: UnsafeCell::new(0),
            hint: AtomicU64::new(0),
        })
    }

    fn read(&self) -> u64 {
        self.page.with(|page| unsafe { *page })
    }

    fn write(&self, value: u64) {
        self.page.with_mut(|page| unsafe { *page = value });
    }

    fn pin(&self) {
        assert!(self.latch.update(FrameState::pinned).is_ok());
    }

    fn locked(&self, mode: Mode, work: impl FnOnce(&Model)) {
        self.pin();
        self.latch.lock(mode, &self.table);
        work(self);
        self.latch.unlock_and_unpin(mode, &self.table);
    }
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Nobody parks for ever, and exclusive lockers see each other's changes.
#[test]
fn exclusive_lockers_lose_no_wake_up() {
    check(3, || {
        let model = Model::new(FrameState::loaded(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.locked(Mode::Exclusive, |m| m.write(m.read() + 1)))
            })
            .collect();
        model.locked(Mode::Exclusive, |m| m.write(m.read() + 1));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(model.read(), 3);
        assert_eq!(model.latch.load().pins(), 0);
        assert!(!model.latch.load().is_locked());
        assert!(!model.latch.load().has(Flag::WAITERS));
        assert!(!model.latch.load().has(Flag::BARRED));
    });
}

/// The three modes keep out what they should, and whoever waits is woken.
#[test]
fn share_share_exclusive_and_exclusive_exclude_as_the_table_says() {
    check(3, || {
        let model = Model::new(FrameState::loaded(0));
        let (reader, copier) = (Arc::clone(&model), Arc::clone(&model));
        let reader = thread::spawn(move || {
            reader.locked(Mode::Share, |m| {
                m.read();
            });
        });
        let copier = thread::spawn(move || {
            copier.locked(Mode::ShareExclusive, |m| {
                m.read();
            });
        });
        model.locked(Mode::Exclusive, |m| m.write(7));
        reader.join().unwrap();
        copier.join().unwrap();
        assert!(!model.latch.load().is_locked());
        assert!(!model.latch.load().has(Flag::WAITERS));
    });
}

/// An exclusive waiter that was woken and overtaken is not overtaken again: nobody who asks
/// after that gets the lock before it.
#[test]
fn an_exclusive_waiter_is_not_passed_for_ever() {
    overtaken_waiter(|| Asker::Queued);
}

/// The model finds it when nothing bars newcomers: a waiter that asks as one of them.
#[test]
#[should_panic(expected = "overtaken once more")]
fn a_waiter_that_asks_like_a_newcomer_is_passed_again() {
    overtaken_waiter(|| Asker::Newcomer);
}

fn overtaken_waiter(woken: fn() -> Asker) {
    fn share(model: &Model, state: &AtomicU64) {
        let overtaken = state.load(Ordering::Acquire) == OVERTAKEN;
        model.locked(Mode::Share, |m| {
            m.read();
            let still = state.load(Ordering::Acquire) == OVERTAKEN;
            assert!(!(overtaken && still), "overtaken once more");
        });
    }
    const OVERTAKEN: u64 = 1;
    const DONE: u64 = 2;
    check(2, move || {
        let model = Model::new(FrameState::loaded(0));
        let state = Arc::new(AtomicU64::new(0));
        // To begin with, one thread shares and an exclusive locker is in the queue.
        let waiter = std::sync::Arc::new(Parker::new());
        model.pin();
        model.latch.lock(Mode::Share, &model.table);
        model.pin();
        let newcomer = Asker::Newcomer;
        let (latch, table) = (&model.latch, &model.table);
        assert!(!latch.lock_or_enqueue(Mode::Exclusive, newcomer, table, &waiter));

        let (exclusive, told) = (Arc::clone(&model), Arc::clone(&state));
        let exclusive = thread::spawn(move || {
            let (latch, table) = (&exclusive.latch, &exclusive.table);
            waiter.park();
            while !latch.lock_or_enqueue(Mode::Exclusive, woken(), table, &waiter) {
                told.store(OVERTAKEN, Ordering::Release);
                waiter.park();
            }
            told.store(DONE, Ordering::Release);
            exclusive.write(1);
            latch.unlock_and_unpin(Mode::Exclusive, table);
        });
        let (reader, seen) = (Arc::clone(&model), Arc::clone(&state));
        let reader = thread::spawn(move || share(&reader, &seen));
        model.latch.unlock_and_unpin(Mode::Share, &model.table);
        share(&model, &state);
        exclusive.join().unwrap();
        reader.join().unwrap();
        assert_eq!(model.latch.load().pins(), 0);
        assert!(!model.latch.load().has(Flag::BARRED));
    });
}

/// A pin taken through the array is on the page that was looked for, though an evictor gives the
/// frame to another page meanwhile.
#[test]
fn a_pin_and_an_eviction_never_both_win() {
    check(3, || {
        let model = Model::new(FrameState::loaded(0));
        let frame = FrameId(0);
        model.write(100);
        assert!(model.entries[0].begin_load());
        model.entries[0].end_load(Some(frame), &model.table);

        let evictor = Arc::clone(&model);
        let evictor = thread::spawn(move || {
            if evictor.latch.try_update(FrameState::evicted).is_none() {
                return;
            }
            evictor.entries[0].clear();
            // The frame is this thread's: it loads block 1 into it.
            assert!(evictor.entries[1].begin_load());
            evictor.write(101);
            evictor.latch.publish(FrameState::loaded(0));
            evictor.entries[1].end_load(Some(frame), &evictor.table);
        });
        for (block, content) in [(0, 100), (1, 101)] {
            let entry = &model.entries[block];
            if entry.pin(|_| &model.latch).is_ok() {
                model.latch.lock(Mode::Share, &model.table);
                assert_eq!(model.read(), content);
                model.latch.unlock_and_unpin(Mode::Share, &model.table);
            }
            if let Ok((_, shared)) = entry.pin_and_share(|_| &model.latch, &model.table) {
                assert!(shared, "nobody writes");
                assert_eq!(model.read(), content);
                model.latch.unlock_and_unpin(Mode::Share, &model.table);
            }
        }
        evictor.join().unwrap();
        assert_eq!(model.latch.load().pins(), 0);
    });
}

/// A page that nobody waits for (read ahead) is not evicted before its entry names its frame,
/// which would be another page's by then.
#[test]
fn a_page_shown_is_not_evicted_before_its_entry_names_it() {
    check(3, || {
        let model = Model::new(FrameState::FREE);
        let frame = FrameId(0);
        assert!(model.entries[0].begin_load());
        model.write(100);
        let loader = Arc::clone(&model);
        let loader = thread::spawn(move || {
            loader.entries[0].show(&loader.latch, FrameState::loaded(1), frame, &loader.table);
            loader.latch.unpin();
        });
        if model.latch.try_update(FrameState::evicted).is_some() {
            model.entries[0].clear();
            assert!(model.entries[1].begin_load());
            model.write(101);
            model.entries[1].show(&model.latch, FrameState::loaded(1), frame, &model.table);
            model.latch.unpin();
        }
        loader.join().unwrap();
        if model.entries[0].pin(|_| &model.latch).is_ok() {
            assert_eq!(model.read(), 100);
            model.latch.unpin();
        }
    });
}

/// A ring takes a frame back only while it still holds the ring's own page and nobody has it
/// pinned, whoever else looks for that page or evicts it.
#[test]
fn a_ring_takes_a_page_from_nobody() {
    fn refill(model: &Model, content: u64) {
        model.entries[0].clear();
        assert!(model.entries[1].begin_load());
        model.write(content);
        model.entries[1].show(
            &model.latch,
            FrameState::loaded(1),
            FrameId(0),
            &model.table,
        );
        model.latch.unpin();
    }
    check(3, || {
        let model = Model::new(FrameState::loaded(0));
        model.write(100);
        assert!(model.entries[0].begin_load());
        model.entries[0].end_load(Some(FrameId(0)), &model.table);

        let evictor = Arc::clone(&model);
        let evictor = thread::spawn(move || {
            if evictor.latch.try_update(FrameState::evicted).is_some() {
                match evictor.read() {
                    100 => refill(&evictor, 101),
                    // The ring was first, and its next page is evicted.
                    _ => evictor.entries[1].clear(),
                }
            }
        });
        let ring = Arc::clone(&model);
        let ring = thread::spawn(move || {
            if ring.latch.update(FrameState::pinned_quietly).is_err() {
                return;
            }
            // The page itself stands for its identity here.
            if ring.read() == 100 && ring.latch.try_update(FrameState::reused).is_some() {
                refill(&ring, 101);
            } else {
                ring.latch.unpin();
            }
        });
        for (block, content) in [(0, 100), (1, 101)] {
            if model.entries[block].pin_quietly(|_| &model.latch).is_ok() {
                assert_eq!(model.read(), content);
                model.latch.unpin();
            }
        }
        evictor.join().unwrap();
        ring.join().unwrap();
        assert_eq!(model.latch.load().pins(), 0);
    });
}

/// One of two threads that miss a page loads it, and the other is woken to find it.
#[test]
fn a_page_is_loaded_once_and_its_waiters_are_woken() {
    fn fetch(model: &Model) -> u64 {
        let entry = &model.entries[0];
        loop {
            match entry.load() {
                Place::Frame(_) => {
                    if model.latch.update(FrameState::pinned).is_ok() {
                        let value = model.read();
                        model.latch.unpin();
                        return value;
                    }
                }
                Place::Loading => entry.wait_loaded(&model.table),
                Place::Empty => {
                    if entry.begin_load() {
                        model.write(model.read() + 1);
                        model.latch.publish(FrameState::loaded(0));
                        entry.end_load(Some(FrameId(0)), &model.table);
                    }
                }
            }
        }
    }
    check(3, || {
        let model = Model::new(FrameState::FREE);
        let other = Arc::clone(&model);
        let other = thread::spawn(move || assert_eq!(fetch(&other), 1));
        assert_eq!(fetch(&model), 1);
        other.join().unwrap();
    });
}

/// A load that fails leaves the entry empty and wakes who waited, who then tries itself.
#[test]
fn a_failed_load_strands_nobody() {
    check(3, || {
        let model = Model::new(FrameState::FREE);
        assert!(model.entries[0].begin_load());
        let waiter = Arc::clone(&model);
        let waiter = thread::spawn(move || {
            while !waiter.entries[0].begin_load() {
                waiter.entries[0].wait_loaded(&waiter.table);
            }
        });
        model.entries[0].end_load(None, &model.table);
        waiter.join().unwrap();
        assert_eq!(model.entries[0].load(), Place::Loading);
    });
}

/// A hint is in the copy that is written, or the page is still marked as changed by hints.
#[test]
fn a_hint_is_written_or_still_owed() {
    check(3, || {
        let model = Model::new(FrameState::loaded(0).with(Flag::DIRTY));
        let hinter = Arc::clone(&model);
        let hinter = thread::spawn(move || {
            hinter.pin();
            hinter.latch.lock(Mode::Share, &hinter.table);
            let mut hinted = false;
            if hinter.latch.try_upgrade() {
                hinter.write(1);
                hinted = true;
                hinter.latch.end_upgrade(true, &hinter.table);
            }
            hinter.latch.unlock_and_unpin(Mode::Share, &hinter.table);
            hinted
        });
        let mut copy = None;
        model.pin();
        if model.latch.try_lock(Mode::ShareExclusive) {
            if model.latch.try_update(FrameState::write_begun).is_some() {
                copy = Some(model.read());
            }
            model.latch.unlock(Mode::ShareExclusive, &model.table);
        }
        model.latch.unpin();
        if copy.is_some() {
            let _ = model
                .latch
                .try_update(|word| Some(word.without(Flag::WRITING)));
        }
        let hinted = hinter.join().unwrap();
        let owed = model.latch.load().has(Flag::HINT_DIRTY);
        assert!(!hinted || copy == Some(1) || owed);
        assert_eq!(copy.is_none(), model.latch.load().has(Flag::DIRTY));
    });
}

/// A change made while a copy is on its way leaves the frame dirty.
#[test]
fn a_change_during_the_write_out_is_not_forgotten() {
    check(3, || {
        let model = Model::new(FrameState::loaded(0).with(Flag::DIRTY));
        model.write(1);
        let changer = Arc::clone(&model);
        let changer = thread::spawn(move || {
            changer.locked(Mode::Exclusive, |m| {
                let _ = m.latch.try_update(|word| Some(word.with(Flag::DIRTY)));
                m.write(2);
            });
        });
        let mut copy = 0;
        model.locked(Mode::ShareExclusive, |m| {
            if m.latch.try_update(FrameState::write_begun).is_some() {
                copy = m.read();
            }
        });
        let _ = model
            .latch
            .try_update(|word| Some(word.without(Flag::WRITING)));
        changer.join().unwrap();
        assert!(copy == 2 || model.latch.load().has(Flag::DIRTY));
    });
}

/// Pinning and sharing in one step is the same as one after the other.
#[test]
fn pin_and_share_in_one_step_respects_an_exclusive_lock() {
    check(3, || {
        let model = Model::new(FrameState::loaded(0));
        let reader = Arc::clone(&model);
        let reader = thread::spawn(move || {
            let shared = reader.latch.pin_and_share().unwrap();
            if !shared {
                reader.latch.lock(Mode::Share, &reader.table);
            }
            reader.read();
            reader.latch.unlock_and_unpin(Mode::Share, &reader.table);
        });
        model.locked(Mode::Exclusive, |m| m.write(5));
        reader.join().unwrap();
        assert_eq!(model.latch.load().pins(), 0);
        assert!(!model.latch.load().is_locked());
    });
}

/// Seen from outside the lock, hints are single words that never tear.
#[test]
fn hint_words_are_seen_whole() {
    check(3, || {
        let model = Model::new(FrameState::loaded(0));
        let other = Arc::clone(&model);
        let other = thread::spawn(move || {
            other.pin();
            other.latch.lock(Mode::Share, &other.table);
            if other.latch.try_upgrade() {
                let old = other.hint.load(Ordering::Relaxed);
                other.hint.store(old | 0b10, Ordering::Relaxed);
                other.latch.end_upgrade(true, &other.table);
            }
            other.latch.unlock_and_unpin(Mode::Share, &other.table);
        });
        model.pin();
        model.latch.lock(Mode::Share, &model.table);
        if model.latch.try_upgrade() {
            let old = model.hint.load(Ordering::Relaxed);
            model.hint.store(old | 0b01, Ordering::Relaxed);
            model.latch.end_upgrade(true, &model.table);
        }
        let seen = model.hint.load(Ordering::Relaxed);
        model.latch.unlock_and_unpin(Mode::Share, &model.table);
        other.join().unwrap();
        // A hint once set stays set: two hinters never overwrite each other.
        assert_eq!(model.hint.load(Ordering::Relaxed) & seen, seen);
    });
}
