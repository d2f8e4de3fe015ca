//! Crashes behind each record of a vacuum and before each reuse of a page: the next vacuum deletes
//! and lists everything that the crash left behind.

use evenkeel_storage::buffer::{ForkHandle, WriteGuard};
use evenkeel_storage::page::{PageBuf, PageRead};
use evenkeel_storage::{CheckpointMode, Fork, PartFlags};

use super::*;
use crate::btree::page::{META_BLOCK, Node, flag};

const ENTRIES: u64 = 400;
/// Entries below are dead in the recorded vacuum.
const DEAD: u64 = 300;
/// Entries that are inserted when the pages can be used again.
const AGAIN: u64 = 100;

/// A few entries fill a page, so that there are three levels.
fn wide(number: u64) -> Vec<u8> {
    [[7; 1_000].as_slice(), &number.to_be_bytes()].concat()
}

/// The parts of the tree's records, and where the vacuum's begin and end.
struct Recorded {
    parts: Vec<Applied>,
    vacuum: std::ops::Range<usize>,
}

fn record() -> Recorded {
    let fixture = Fixture::new(2_048);
    fixture.client.record.store(true, Ordering::SeqCst);
    let tree = BTree::create(&fixture.store, Xid::FIRST, fixture.new_file()).expect("created");
    let applied = || fixture.client.applied.lock().len();
    for number in 0..ENTRIES {
        insert(&tree, &wide(number), tid(number));
    }
    assert!(check(&tree).levels >= 3);
    let clock = Clock::default();
    let begin = applied();
    vacuum(&tree, &clock, DEAD);
    let vacuum_ends = applied();
    clock.horizon.store(u64::MAX, Ordering::SeqCst);
    vacuum(&tree, &clock, 0);
    for number in 0..AGAIN {
        insert(&tree, &wide(number), tid(ENTRIES + number));
    }
    let parts = std::mem::take(&mut *fixture.client.applied.lock());
    Recorded {
        parts,
        vacuum: begin..vacuum_ends,
    }
}

/// Removes the entries of the first `dead` numbers.
fn vacuum(tree: &BTree, clock: &Clock, dead: u64) -> BulkDeleteStats {
    let mut is_dead = |found: Tid| found < tid(dead);
    tree.bulk_delete(&mut is_dead, clock, &mut |_| Ok(()))
        .expect("bulk delete")
}

/// Does in another store what a record did.
fn repeat(store: &Store, fork: &ForkHandle, record: &[Applied]) {
    store.admit().expect("room");
    let last = record.iter().map(|part| part.block.0).max().expect("parts");
    if fork.len() <= last {
        fork.extend(last + 1 - fork.len()).expect("extended");
    }
    let pin = |part: &Applied| fork.pin(part.block).expect("page").write();
    let mut pages: Vec<WriteGuard<'_>> = record.iter().map(pin).collect();
    let mut change = store.change(Xid::FIRST.get());
    for (page, part) in pages.iter_mut().zip(record) {
        // A page that is taken into use is zeroed first.
        let flags = match page_of(&part.before).is_new() {
            true => PartFlags::INIT,
            false => PartFlags::NONE,
        };
        change.part(page, part.op, flags, &part.data);
    }
    change.commit();
}

fn page_of(bytes: &PageBytes) -> PageBuf {
    let mut page = PageBuf::zeroed();
    *page.bytes_mut() = *bytes;
    page
}

/// The states of `docs/design/btree.md` that a crash behind a record of the vacuum, or before a
/// record of the inserts that follow, leaves.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reached {
    emptied: bool,
    half_dead: bool,
    branch_begun: bool,
    deleted: bool,
    reuse_lost: bool,
}

impl Reached {
    fn note_vacuum(&mut self, record: &[Applied]) {
        let has = |op| record.iter().any(|part| part.op == op);
        let empties = |part: &Applied| {
            let page = page_of(&part.after);
            Node::of(&page).is_ok_and(|node| node.is_leaf() && node.first() == node.end())
        };
        self.emptied |= has(redo::op::DELETE_ITEMS) && record.iter().any(empties);
        self.half_dead |= has(redo::op::HALF_DEAD) && !has(redo::op::UNLINK);
        // A leaf that names the next page of its branch.
        self.branch_begun |= has(redo::op::HALF_DEAD) && has(redo::op::UNLINK);
        self.deleted |= has(redo::op::UNLINK);
    }
}

/// Whether a record takes a deleted page into use.
fn reuses(fork: &ForkHandle, record: &[Applied]) -> bool {
    let is_deleted = |part: &Applied| {
        let page = fork.read(part.block);
        page.is_ok_and(|page| Node::of(&page).is_ok_and(|node| node.header.is(flag::DELETED)))
    };
    let is_new = |part: &&Applied| part.op == redo::op::NODE && part.block.0 < fork.len();
    record.iter().filter(is_new).any(is_deleted)
}

/// Starts from a crash: the next vacuums complete the last one, and no page is lost.
fn assert_recovered(image: &SimDisk, file: FileId, at: usize) {
    let store = open_store(image, 512, &Arc::default());
    let tree = BTree::open(&store, file).expect("tree opens");
    check(&tree);
    let clock = Clock::default();
    vacuum(&tree, &clock, DEAD);
    let stats = check(&tree);
    assert_eq!(stats.half_dead, 0, "record {at}");
    let living = scan_all(&tree);
    let lost = (DEAD..ENTRIES).find(|n| !living.contains(&(wide(*n), tid(*n))));
    assert_eq!(lost, None, "record {at}");
    assert!(living.iter().all(|(_, found)| *found >= tid(DEAD)));
    // Every page that is not of the tree is listed: those that the crash left deleted or zero too.
    clock.horizon.store(u64::MAX, Ordering::SeqCst);
    let listed = vacuum(&tree, &clock, 0).pages_free;
    let used = stats.leaves + stats.inner_pages + 1;
    assert_eq!(listed + used, u64::from(tree.blocks()), "record {at}");
    let blocks = tree.blocks();
    for number in 0..listed {
        insert(&tree, &wide(10_000 + number), tid(10_000 + number));
    }
    assert_eq!(tree.blocks(), blocks, "record {at}");
    check(&tree);
}

#[test]
fn vacuum_after_a_crash_completes_what_the_last_one_began() {
    let Recorded { parts, vacuum } = record();
    let disk = SimDisk::new(3);
    let store = open_store(&disk, 2_048, &Arc::default());
    let (file, _hold) = store.create_file(3).expect("file is created");
    let fork = store.pool().fork(file, Fork::Main).expect("fork");
    let mut reached = Reached::default();
    let mut done = 0;
    for record in parts.chunk_by(|a, b| a.lsn == b.lsn) {
        let reuse = done >= vacuum.end && reuses(&fork, record);
        reached.reuse_lost |= reuse;
        if reuse {
            store.log().flush_all().expect("flush");
            assert_recovered(&disk.crash(done as u64), file, done);
        }
        repeat(&store, &fork, record);
        done += record.len();
        if vacuum.contains(&(done - 1)) {
            reached.note_vacuum(record);
            store.log().flush_all().expect("flush");
            assert_recovered(&disk.crash(done as u64), file, done);
        }
    }
    let all = Reached {
        emptied: true,
        half_dead: true,
        branch_begun: true,
        deleted: true,
        reuse_lost: true,
    };
    assert_eq!(reached, all);
}

/// Extension is not logged, and the list of free pages is in memory only.
#[test]
fn pages_that_a_crash_left_without_content_are_listed_by_the_next_vacuum() {
    let fixture = Fixture::new(256);
    for number in 0..50 {
        fixture.insert(&wide(number), tid(number));
    }
    let file = fixture.tree.file();
    let before = fixture.tree.blocks();
    fixture.tree.fork().extend(5).expect("extended");
    let mode = CheckpointMode::Fast;
    fixture.store.checkpoint(mode).expect("checkpoint");
    let image = fixture.disk.crash(1);
    let store = open_store(&image, 256, &Arc::default());
    let tree = BTree::open(&store, file).expect("tree opens");
    assert_eq!(tree.blocks(), before + 5);
    let stats = check(&tree);
    let listed = vacuum(&tree, &Clock::default(), 0).pages_free;
    let used = stats.leaves + stats.inner_pages + 1;
    assert_eq!(listed + used, u64::from(before + 5));
    assert!(listed >= 5);
    let page = tree.fork().read(META_BLOCK).expect("meta page");
    assert!(!page.is_new());
}
