//! Page deletion and reuse.

use super::*;

fn vacuum(tree: &BTree, clock: &Clock, is_dead: &mut dyn FnMut(Tid) -> bool) -> BulkDeleteStats {
    tree.bulk_delete(is_dead, clock, &mut |_| Ok(()))
        .expect("bulk delete")
}

#[test]
fn an_emptied_tree_gives_its_pages_back() {
    let fixture = Fixture::new(2_048);
    let (tree, clock) = (&fixture.tree, Clock::default());
    let wide = |number: u64| [[7; 200].as_slice(), &number.to_be_bytes()].concat();
    for round in 0..4u64 {
        for number in 0..8_000u64 {
            fixture.insert(&wide(number), tid(number));
        }
        let full = fixture.check();
        assert!(full.levels >= 3);
        let stats = vacuum(tree, &clock, &mut |_| true);
        assert_eq!((stats.removed, stats.entries), (8_000, 0));
        let empty = fixture.check();
        assert_eq!(empty.half_dead, 0);
        // Pages that cannot be deleted remain: the rightmost page of each level and last children.
        assert!(
            empty.leaves < full.leaves / 20,
            "{} of {}",
            empty.leaves,
            full.leaves
        );
        // Nothing is used again before the horizon has passed.
        let stats = vacuum(tree, &clock, &mut |_| false);
        assert!(stats.pages_free < 70, "{stats:?}");
        clock
            .horizon
            .store(clock.now.load(Ordering::SeqCst), Ordering::SeqCst);
        let stats = vacuum(tree, &clock, &mut |_| false);
        assert!(stats.pages_free > full.leaves * 9 / 10, "{stats:?}");
        if round > 0 {
            assert!(
                u64::from(tree.blocks()) < full.leaves * 3 / 2,
                "the file does not grow"
            );
        }
    }
}

/// A queue: inserted at one end, deleted at the other. Whole branches become empty.
#[test]
fn a_queue_does_not_leave_pages_behind() {
    let fixture = Fixture::new(2_048);
    let (tree, clock) = (&fixture.tree, Clock::default());
    let wide = |number: u64| [[7; 300].as_slice(), &number.to_be_bytes()].concat();
    let mut blocks = 0;
    for round in 0..40u64 {
        for number in round * 1_000..(round + 1) * 1_000 {
            fixture.insert(&wide(number), tid(number));
        }
        let keep = tid(round * 1_000 + 500);
        vacuum(tree, &clock, &mut |tid| tid < keep);
        clock
            .horizon
            .store(clock.now.load(Ordering::SeqCst), Ordering::SeqCst);
        let stats = fixture.check();
        assert_eq!(stats.entries, 500);
        if round == 10 {
            blocks = tree.blocks();
        }
    }
    assert!(
        tree.blocks() <= blocks + blocks / 10,
        "{} blocks, {blocks} before",
        tree.blocks()
    );
}

#[test]
fn a_half_dead_leaf_is_unlinked_by_the_next_vacuum() {
    // The leftmost leaf as well: the level begins with a page without a downlink then.
    half_delete_and_vacuum(true);
    half_delete_and_vacuum(false);
}

fn half_delete_and_vacuum(leftmost: bool) {
    let fixture = Fixture::new(512);
    let (tree, clock) = (&fixture.tree, Clock::default());
    for number in 0..5_000u64 {
        fixture.insert(&number.to_be_bytes(), tid(number));
    }
    // Empties the first or second leaf by hand, and leaves it after the first stage.
    let first = tree
        .covering(&key::Position::start(), 0)
        .expect("leftmost leaf");
    let second = page::Node::of(&first).expect("node").header.right;
    let emptied = if leftmost { first.block() } else { second };
    drop(first);
    let mut leaf = tree.fork().write(emptied).expect("leaf");
    let node = page::Node::of(&leaf).expect("node");
    let slots: Vec<u16> = (node.first()..node.end()).collect();
    let mut change = fixture.store.change(0);
    let none = evenkeel_storage::PartFlags::NONE;
    change.part(
        &mut leaf,
        redo::op::DELETE_ITEMS,
        none,
        &redo::encode_slots(&slots),
    );
    change.commit();
    drop(leaf);
    assert!(tree.half_delete(emptied).expect("first stage"));
    assert_eq!(fixture.check().half_dead, 1);
    let left = 5_000 - slots.len();
    assert_eq!(scan_all(tree).len(), left);
    let backward = scan(
        tree,
        Bound::Unbounded,
        Bound::Unbounded,
        Direction::Backward,
    );
    assert_eq!(backward.len(), left);
    // The key range of the deleted leaf belongs to its right sibling now.
    let from = if leftmost { 0 } else { 300 };
    for slot in 0..slots.len() as u64 {
        fixture.insert(&(slot + from).to_be_bytes(), tid(10_000 + slot));
    }
    let stats = vacuum(tree, &clock, &mut |_| false);
    assert_eq!(stats.pages_deleted, 1);
    let stats = fixture.check();
    assert_eq!((stats.half_dead, stats.entries), (0, 5_000));
}

/// Splits during a vacuum that move entries into blocks that it has passed.
#[test]
fn vacuum_follows_entries_that_splits_move_behind_it() {
    let fixture = Fixture::new(2_048);
    let (tree, clock) = (&fixture.tree, Clock::default());
    let key = |number: u64, extra: u64| [number.to_be_bytes(), extra.to_be_bytes()].concat();
    for number in 0..20_000 {
        fixture.insert(&key(number, 0), tid(number));
    }
    // Frees the first blocks of the file.
    vacuum(tree, &clock, &mut |found| found < tid(5_000));
    clock
        .horizon
        .store(clock.now.load(Ordering::SeqCst), Ordering::SeqCst);
    let free = vacuum(tree, &clock, &mut |_| false).pages_free;
    assert!(free > 10, "{free} pages free");
    let blocks = tree.blocks();
    let mut next = 1_000_000;
    let mut reused = 0;
    let mut split_ahead = |step: VacuumStep| {
        // Fills a leaf near the end of the file, half way through.
        if step.blocks_done > step.blocks / 2 && reused < 5 {
            reused += 1;
            for extra in 1..400 {
                next += 1;
                insert(tree, &key(20_000 - 300 * reused, extra), tid(next));
            }
        }
        Ok(())
    };
    let mut dead = |found: Tid| found < tid(1_000_000) && found.slot.is_multiple_of(2);
    let stats = tree
        .bulk_delete(&mut dead, &clock, &mut split_ahead)
        .expect("bulk delete");
    assert!(
        tree.blocks() < blocks + 15,
        "splits used the free pages first"
    );
    assert!(stats.removed > 0);
    let left = scan_all(tree)
        .into_iter()
        .filter(|(_, found)| dead(*found))
        .count();
    assert_eq!(left, 0, "vacuum missed entries");
    fixture.check();
}
