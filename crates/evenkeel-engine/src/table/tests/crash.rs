//! The state of a table after a crash.

use std::time::Duration;

use evenkeel_storage::mutant::Mutant;
use evenkeel_storage::page::{PageBuf, PageBytes, PageMut};
use evenkeel_storage::record::image;
use evenkeel_storage::wal::dump;
use evenkeel_storage::{BlockNumber, Fork, Lsn, PartFlags, TornPageProtection};

use super::*;
use crate::btree::{TreeReader, Visit};
use crate::table::{InsertOptions, ReplicaIdentity};

fn change(f: &Fixture, round: usize) {
    f.commit(|txn| {
        for n in 0..20 {
            let key = format!("{:03}", (round * 7 + n * 3) % 100);
            let row = format!("{key}:{}", "r".repeat(50 + round * 5 % 200));
            txn.begin_statement().unwrap();
            match f.find(txn, key.as_bytes()) {
                None => {
                    f.insert(txn, &row).unwrap();
                }
                Some((tid, _)) if (round + n).is_multiple_of(9) => {
                    f.delete(txn, tid).unwrap();
                }
                Some((tid, _)) => {
                    f.update(txn, tid, &row).unwrap();
                }
            }
        }
    });
}

#[test]
fn committed_rows_survive_and_others_do_not() {
    let f = Fixture::new(2);
    for round in 0..30 {
        change(&f, round);
        if round % 10 == 5 {
            f.vacuum(&VacuumOptions {
                freeze: true,
                ..VacuumOptions::default()
            });
        }
    }
    let expected = f.committed();
    let mut lost = f.begin();
    f.insert(&mut lost, "lost:1").unwrap();
    f.db.store().log().flush_all().unwrap();
    for seed in 0..4 {
        let image = f.disk.crash(seed);
        let g = f.reopened(image);
        assert_eq!(g.committed(), expected, "seed {seed}");
        g.assert_sound();
        // The free-space map may be lost; inserts and vacuum find their way.
        for round in 30..40 {
            change(&g, round);
        }
        g.vacuum(&VacuumOptions::default());
        g.assert_sound();
    }
}

/// A crash between the steps of a truncation: the map bits of the tail are clear, the pages still
/// there.
#[test]
fn a_tail_whose_map_bits_a_crash_left_clear_is_sound_and_vacuumed_again() {
    let f = Fixture::new(1);
    f.commit(|txn| {
        for n in 0..400 {
            let row = format!("{n:03}:{}", "r".repeat(150));
            f.insert(txn, &row).unwrap();
        }
    });
    let freeze = VacuumOptions {
        freeze: true,
        ..VacuumOptions::default()
    };
    f.vacuum(&freeze);
    let blocks = f.table.blocks();
    let bits = |f: &Fixture| {
        let bits = |block| f.table.vm().bits(BlockNumber(block)).unwrap();
        (0..blocks).map(bits).collect::<Vec<_>>()
    };
    assert!(blocks > 6 && bits(&f).iter().all(|bits| *bits != 0));
    for keep in [blocks - 1, blocks - 3, 2] {
        f.table.clear_map(keep..blocks).unwrap();
        f.db.store().log().flush_all().unwrap();
        let g = f.reopened(f.disk.crash(u64::from(keep)));
        assert_eq!(g.table.blocks(), blocks);
        let cleared = bits(&g).iter().position(|bits| *bits == 0);
        assert_eq!(cleared, Some(keep as usize));
        g.assert_sound();
        assert_eq!(g.committed().len(), 400);
        g.vacuum(&freeze);
        assert!(bits(&g).iter().all(|bits| *bits != 0));
        g.assert_sound();
    }
}

/// Extension is not logged: a page without content is offered by the free-space map after the next
/// vacuum, and rows go into it before the heap grows.
#[test]
fn heap_pages_that_a_crash_left_without_content_are_used_after_a_vacuum() {
    let f = Fixture::new(1);
    let row = |n: usize| format!("{n:03}:{}", "r".repeat(150));
    f.commit(|txn| {
        for n in 0..100 {
            f.insert(txn, &row(n)).unwrap();
        }
    });
    let before = f.table.blocks();
    f.table.heap().extend(4).unwrap();
    f.db.checkpoint().unwrap();
    let g = f.reopened(f.disk.crash(1));
    assert_eq!(g.table.blocks(), before + 4);
    g.assert_sound();
    g.vacuum(&VacuumOptions::default());
    // About forty rows fill a page.
    g.commit(|txn| {
        for n in 100..240 {
            g.insert(txn, &row(n)).unwrap();
        }
    });
    assert_eq!(g.table.blocks(), before + 4);
    assert_eq!(g.committed().len(), 240);
    g.assert_sound();
}

#[test]
fn redo_gives_the_pages_the_forward_path_made() {
    let f = Fixture::new(1);
    let mut rows = RowBatch::new();
    for n in 0..500 {
        rows.push(
            Tid::new(BlockNumber(0), 0),
            format!("{:03}:start", n % 1000).as_bytes(),
        );
    }
    f.commit(|txn| {
        block_on(f.table.insert_many(txn, &rows, &InsertOptions::default())).unwrap();
    });
    for round in 0..20 {
        change(&f, round);
    }
    f.vacuum(&VacuumOptions::default());
    f.db.store().log().flush_all().unwrap();
    let g = f.reopened(f.disk.crash(3));
    assert_eq!(g.table.blocks(), f.table.blocks());
    for block in (0..f.table.blocks()).map(BlockNumber) {
        let (a, b) = (
            f.table.heap().write(block).unwrap(),
            g.table.heap().write(block).unwrap(),
        );
        let (a, b) = (without_hints(a.bytes()), without_hints(b.bytes()));
        let differs = (0..a.len()).find(|at| a[*at] != b[*at]);
        assert_eq!(differs, None, "block {block}");
    }
}

/// The page without what is not logged.
fn without_hints(page: &[u8; 8192]) -> Vec<u8> {
    use evenkeel_storage::page::PageBuf;
    let mut copy = PageBuf::zeroed();
    copy.bytes_mut().copy_from_slice(page);
    copy.bytes_mut()[..4].fill(0);
    crate::heap::layout::mask_unlogged(&mut copy.page_mut());
    copy.bytes().to_vec()
}

/// Deletes a row asynchronously, has it pruned and its index entry looked up, writes the index
/// leaf home, and loses the log since. Says whether the row is found again by the index, and
/// whether the entry was hinted dead before the crash and once the log was durable.
fn entry_after_lost_delete(mutant: Option<Mutant>) -> (bool, bool, bool) {
    let disk = SimDisk::new(1);
    let mut storage = StorageConfig::small();
    storage.mutant = mutant;
    // Nothing flushes the log but those who wait for it.
    storage.wal_writer_delay = Duration::from_secs(3600);
    let config = Config {
        storage,
        ..Config::default()
    };
    let db = Database::open(Arc::new(disk.clone()), Path::new(DIR), config).unwrap();
    let f = Fixture::on(&disk, db, 1, 100);
    let store = Arc::clone(f.db.store());
    // The first page is full, so that a scan prunes it; the last row is on the second.
    let row = |n: usize| format!("{n:03}:{}", "r".repeat(700));
    let tid = f.put(&row(0));
    let mut next = 1;
    while f.put(&row(next)).block == tid.block {
        next += 1;
    }
    f.db.checkpoint().unwrap();
    f.put(&row(next + 1));
    let before_delete = store.log().insert_lsn();
    let mut txn = f.begin();
    txn.begin_statement().unwrap();
    f.delete(&mut txn, tid).unwrap();
    block_on(txn.commit(Durability::Async)).unwrap();
    let _ = f.db.horizon();
    let gone = |f: &Fixture| {
        let mut found = 0;
        let tree = &f.table.trees()[BY_KEY];
        let mut count = |_| {
            found += 1;
            Ok(Visit::Next)
        };
        tree.lookup(TreeReader::alone(), &key("000"), &mut count)
            .unwrap();
        found == 0
    };
    let visit = || {
        let mut reader = f.begin();
        let snapshot = reader.snapshot().unwrap();
        let _ = f.scan(&snapshot);
        assert!(f.find(&mut reader, b"000").is_none());
    };
    visit();
    assert!(
        store.log().durable_lsn() <= before_delete,
        "the delete is durable"
    );
    let hinted_early = gone(&f);
    let target = before_delete;
    store
        .writer()
        .write_dirty_before(target, &mut |_, _| {})
        .unwrap();
    store.writer().sync_all().unwrap();
    assert!(
        store.log().durable_lsn() <= before_delete,
        "the delete is durable"
    );
    let image = f.disk.crash(7);
    store.log().flush_all().unwrap();
    visit();
    let hinted_late = gone(&f);
    let g = f.reopened(image);
    let found = g.find(&mut g.begin(), b"000").is_some();
    assert_eq!(g.scan(&g.begin().snapshot().unwrap()).len(), next + 2);
    (found, hinted_early, hinted_late)
}

#[test]
fn a_dead_hint_waits_until_its_evidence_is_durable() {
    assert_eq!(entry_after_lost_delete(None), (true, false, true));
}

#[test]
fn a_dead_hint_before_its_evidence_is_durable_is_caught() {
    if cfg!(debug_assertions) {
        let (found, hinted_early, _) = entry_after_lost_delete(Some(Mutant::HintDeadEarly));
        assert!(hinted_early && !found, "the mutant is not caught");
    }
}

#[test]
fn an_image_in_the_log_hands_on_no_dead_hint() {
    let f = super::identity::logging(ReplicaIdentity::Nothing, TornPageProtection::FullPageWrites);
    f.put("a:1");
    let tree = &f.table.trees()[BY_KEY];
    tree.lookup(TreeReader::alone(), &key("a"), &mut |_| {
        Ok(Visit::Dead(Lsn::ZERO))
    })
    .unwrap();
    let mut entries = 0;
    let mut count = |_| {
        entries += 1;
        Ok(Visit::Next)
    };
    tree.lookup(TreeReader::alone(), &key("a"), &mut count)
        .unwrap();
    assert_eq!(entries, 0, "the entry is hinted dead");
    let hinted = |page: &PageBytes| {
        let mut masked = *page;
        crate::btree::mask_hints(&mut PageMut::new(&mut masked));
        masked != *page
    };
    let file = tree.file();
    let fork = f.db.pool().fork(file, Fork::Main).unwrap();
    let is_hinted = || {
        let blocks = (0..fork.len()).map(BlockNumber);
        blocks
            .filter(|block| hinted(fork.write(*block).unwrap().bytes()))
            .count()
    };
    f.db.checkpoint().unwrap();
    assert_eq!(is_hinted(), 1);
    // The first change of the leaf behind the redo point carries the leaf.
    f.put("b:1");
    f.db.store().log().flush_all().unwrap();
    let (_, mut reader) = dump::open(Arc::new(f.disk.clone()), Path::new(DIR)).unwrap();
    let mut images = 0;
    while let Some(record) = reader.next_record().unwrap() {
        let parts = record.parts().filter(|part| part.page.file == file);
        for part in parts.filter(|part| part.flags.contains(PartFlags::BEFORE)) {
            let mut page = PageBuf::zeroed();
            image::restore(part.data, page.bytes_mut()).unwrap();
            assert!(!hinted(page.bytes()), "{}", part.page);
            images += 1;
        }
    }
    assert!(images > 0);
}
