//! Redo gives what the way forward gave, from any prefix of the log a sound tree.

use std::collections::BTreeMap;

use evenkeel_storage::ApplyError;
use evenkeel_storage::page::{PAGE_SIZE, PageBuf, PageRead};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::*;
use crate::btree::page::{META_BLOCK, Meta, NO_BLOCK, Node, flag};

/// Pages in memory that parts are replayed onto.
#[derive(Default)]
struct Pages(BTreeMap<BlockNumber, PageBuf>);

impl Pages {
    fn apply(&mut self, part: &Applied) {
        let page = self.0.entry(part.block).or_insert_with(PageBuf::zeroed);
        redo::apply_part(part.op, &mut page.page_mut(), &part.data).expect("part applies");
        page.page_mut().set_lsn(part.lsn);
    }

    /// The entries of the leaf level, found by way of the downlinks and right links; every leaf
    /// entry must be reachable by a descent from the root.
    fn entries(&self) -> Entries {
        let root = Meta::read(&self.0[&META_BLOCK]).expect("meta page").root;
        let mut block = root;
        loop {
            let node = Node::of(&self.0[&block]).expect("node");
            if node.is_leaf() {
                break;
            }
            block = node.pivot(node.first()).expect("pivot").child;
        }
        // A half-dead leftmost leaf has no downlink any more.
        let mut left = Node::of(&self.0[&block]).expect("node").header.left;
        while left != NO_BLOCK {
            block = left;
            let header = Node::of(&self.0[&block]).expect("node").header;
            assert!(header.is(flag::HALF_DEAD));
            left = header.left;
        }
        let mut entries = Vec::new();
        while block != NO_BLOCK {
            let node = Node::of(&self.0[&block]).expect("node");
            assert_eq!(node.header.left, left);
            assert!(!node.header.is(flag::DELETED));
            left = block;
            for slot in node.first()..node.end() {
                let entry = node.entry(slot).expect("entry");
                assert_eq!(self.covering(root, &entry.position()), block);
                entries.push((entry.key.to_vec(), entry.tid.tid()));
            }
            block = node.header.right;
        }
        assert!(entries.is_sorted_by(|a, b| a < b));
        entries
    }

    fn covering(&self, root: BlockNumber, position: &key::Position<'_>) -> BlockNumber {
        let mut block = root;
        loop {
            let node = Node::of(&self.0[&block]).expect("node");
            if node.is_beyond(position).expect("high key") {
                block = node.header.right;
            } else if node.is_leaf() {
                return block;
            } else {
                let slot = node.downlink_for(position).expect("downlink");
                block = node.pivot(slot).expect("pivot").child;
            }
        }
    }
}

/// A workload with splits of all kinds, unfinished ones, page deletion and reuse.
fn record_workload(seed: u64, operations: u64) -> Vec<Applied> {
    let fixture = Fixture::new(4_096);
    fixture.client.record.store(true, Ordering::SeqCst);
    let file = fixture.new_file();
    let tree = BTree::create(&fixture.store, Xid::FIRST, file).expect("tree is created");
    tree.shared.unfinished_every.store(3, Ordering::Relaxed);
    let mut rng = StdRng::seed_from_u64(seed);
    let clock = Clock::default();
    for number in 0..operations {
        let len = rng.random_range(1..1_200);
        let key: Vec<u8> = (0..len).map(|_| rng.random_range(0..4)).collect();
        insert(&tree, &key, tid(number));
        if rng.random_range(0..operations / 6) == 0 {
            clock
                .horizon
                .store(clock.now.load(Ordering::SeqCst), Ordering::SeqCst);
            let keep = rng.random_range(0..4);
            let mut dead = |tid: Tid| tid.slot % 4 != keep && rng.random_range(0..10) > 0;
            tree.bulk_delete(&mut dead, &clock, &mut |_| Ok(()))
                .expect("bulk delete");
        }
    }
    check(&tree);
    std::mem::take(&mut *fixture.client.applied.lock())
}

fn same(a: &PageBytes, b: &PageBytes) -> bool {
    // Checksum and LSN are storage's.
    a[4..8] == b[4..8] && a[16..] == b[16..]
}

fn masked(bytes: &PageBytes) -> PageBytes {
    let mut copy = *bytes;
    page::mask_hints(&mut PageMut::new(&mut copy));
    copy
}

#[test]
fn redo_equals_the_way_forward() {
    let applied = record_workload(seed(41), 1_500);
    let mut pages = Pages::default();
    for part in &applied {
        let mut from_before = *part.before;
        let mut view = PageMut::new(&mut from_before);
        redo::apply_part(part.op, &mut view, &part.data).expect("part applies");
        assert!(same(&from_before, &part.after), "op {:#06x}", part.op);
        pages.apply(part);
        let replayed = masked(pages.0[&part.block].bytes());
        assert!(same(&replayed, &masked(&part.after)), "op {:#06x}", part.op);
    }
}

/// Applies a part to a page with any hints set.
type Apply = fn(u16, &mut PageMut<'_>, &[u8]) -> Result<(), ApplyError>;

/// The first operation whose result depends on hints that nobody logged.
fn depends_on_hints(applied: &[Applied], rng: &mut StdRng, apply: Apply) -> Option<u16> {
    let masked = |mut bytes: PageBytes| {
        crate::rmgr::redo::mask(&mut PageMut::new(&mut bytes));
        bytes
    };
    let differs = |part: &&Applied| {
        let mut hinted = *part.before;
        let mut view = PageMut::new(&mut hinted);
        let slots = Node::of(&view).map_or(0, |node| node.end());
        for slot in (0..slots).filter(|_| rng.random_bool(0.5)) {
            let (offset, bits) = page::dead_hint(slot);
            let word = view.u64_at(offset);
            view.put_u64(offset, word | bits);
        }
        apply(part.op, &mut view, &part.data).is_err()
            || !same(&masked(hinted), &masked(*part.after))
    };
    applied.iter().find(differs).map(|part| part.op)
}

#[test]
fn redo_decides_nothing_by_dead_hints() {
    let seed = seed(45);
    let applied = record_workload(seed, 1_500);
    let mut rng = StdRng::seed_from_u64(seed);
    assert_eq!(depends_on_hints(&applied, &mut rng, redo::apply_part), None);
}

#[test]
fn redo_that_removes_what_hints_call_dead_is_caught() {
    fn mutant(op: u16, page: &mut PageMut<'_>, data: &[u8]) -> Result<(), ApplyError> {
        let mut slots = data.to_vec();
        if op == redo::op::DELETE_ITEMS {
            let node = Node::of(&*page)?;
            let named: Vec<u16> = data
                .chunks_exact(2)
                .map(|slot| u16::from_le_bytes([slot[0], slot[1]]))
                .collect();
            let gone = |slot: &u16| named.contains(slot) || node.is_dead(*slot);
            let all: Vec<u16> = (node.first()..node.end()).filter(gone).collect();
            slots = redo::encode_slots(&all);
        }
        redo::apply_part(op, page, &slots)
    }
    let seed = seed(46);
    let applied = record_workload(seed, 600);
    let mut rng = StdRng::seed_from_u64(seed);
    let caught = depends_on_hints(&applied, &mut rng, mutant);
    assert_eq!(caught, Some(redo::op::DELETE_ITEMS));
}

#[test]
fn every_record_prefix_is_a_sound_tree() {
    let applied = record_workload(seed(42), 400);
    let mut rng = StdRng::seed_from_u64(7);
    let mut pages = Pages::default();
    let mut last: Option<Entries> = None;
    for record in applied.chunk_by(|a, b| a.lsn == b.lsn) {
        // The parts of a record may be applied in any order.
        let mut parts: Vec<&Applied> = record.iter().collect();
        parts.shuffle(&mut rng);
        parts.iter().for_each(|part| pages.apply(part));
        let entries = pages.entries();
        let ops: Vec<u16> = record.iter().map(|part| part.op).collect();
        if let Some(last) = last {
            let deletes = ops.contains(&redo::op::DELETE_ITEMS);
            let kept = entries
                .iter()
                .filter(|entry| last.binary_search(entry).is_ok())
                .count();
            assert!(deletes || kept == last.len(), "entries lost by {ops:x?}");
            assert!(
                entries.len() <= last.len() + 1,
                "entries invented by {ops:x?}"
            );
        }
        last = Some(entries);
    }
}

#[test]
fn malformed_parts_are_errors() {
    let seed = seed(43);
    let mut rng = StdRng::seed_from_u64(seed);
    let applied = record_workload(seed, 300);
    for _ in 0..20_000 {
        let part = &applied[rng.random_range(0..applied.len())];
        let mut bytes = *part.before;
        let mut data = part.data.clone();
        match rng.random_range(0..4) {
            0 => data.truncate(rng.random_range(0..=data.len())),
            1 if !data.is_empty() => {
                let at = rng.random_range(0..data.len());
                data[at] = rng.random();
            }
            2 => {
                let at = rng.random_range(0..PAGE_SIZE);
                bytes[at] = rng.random();
            }
            _ => data.push(rng.random()),
        }
        // An error or not, but no panic.
        let op = if rng.random_range(0..8) == 0 {
            rng.random_range(0x300..0x310)
        } else {
            part.op
        };
        let _ = redo::apply_part(op, &mut PageMut::new(&mut bytes), &data);
    }
}

/// Writes a record more, and makes everything up to it durable.
fn make_durable(fixture: &Fixture) {
    let mut page = fixture.tree.fork().write(META_BLOCK).expect("meta page");
    let meta = Meta::read(&page).expect("meta page");
    let mut change = fixture.store.change(0);
    let none = evenkeel_storage::PartFlags::NONE;
    change.part(&mut page, redo::op::META, none, &redo::encode_meta(meta));
    let lsn = change.commit();
    drop(page);
    fixture.store.log().flush(lsn).expect("flush");
}

/// Crashes at many moments of a workload in a pool that is too small for it: what was flushed is
/// there, and the tree is sound and can be worked with.
#[test]
fn recovery_from_a_crash_gives_the_tree_back() {
    let seed = seed(44);
    let fixture = Fixture::new(32);
    fixture
        .tree
        .shared
        .unfinished_every
        .store(3, Ordering::Relaxed);
    make_durable(&fixture);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut entries = Vec::new();
    // By the disk's operations so far: how many entries are durable.
    let mut durable = vec![(fixture.disk.op_count(), 0)];
    for number in 0..3_000u64 {
        let key: Vec<u8> = (0..rng.random_range(1..200))
            .map(|_| rng.random_range(0..4))
            .collect();
        fixture.insert(&key, tid(number));
        entries.push((key, tid(number)));
        if number % 150 == 149 {
            make_durable(&fixture);
            durable.push((fixture.disk.op_count(), entries.len()));
        }
    }
    let file = fixture.tree.file();
    let (start, end) = (durable[0].0, fixture.disk.op_count());
    for at in 0..24u64 {
        let index = start + (end - start) * at / 23;
        let disk = fixture.disk.image_at(index, seed + at);
        let store = open_store(&disk, 64, &Arc::default());
        let tree = BTree::open(&store, file).expect("tree opens");
        let count = check(&tree).entries as usize;
        let least = durable
            .iter()
            .rev()
            .find(|(op, _)| *op <= index)
            .map_or(0, |(_, n)| *n);
        assert!(
            count >= least,
            "{count} entries, {least} durable: image {index} seed {seed}"
        );
        let mut expected: Entries = entries[..count].to_vec();
        expected.sort();
        assert_eq!(scan_all(&tree), expected, "image {index} seed {seed}");
        for number in 0..300 {
            insert(
                &tree,
                &[1, 2, 3, (number % 7) as u8],
                tid(1_000_000 + number),
            );
        }
        assert_eq!(check(&tree).entries as usize, count + 300);
    }
}
