//! Pages, redo and pruning on pages in memory.

use evenkeel_storage::page::{PAGE_SIZE, PageBuf, PageMut, PageRead};
use evenkeel_storage::{ApplyContext, ApplyError, BlockNumber, FileId, Fork, Lsn, PageId};
use proptest::prelude::*;

use super::check::check_layout;
use super::layout::*;
use super::ops::*;
use super::prune::{PlanOptions, plan, xmin_hint};
use super::read::{Entry, chain};
use super::redo::apply;
use crate::error::EngineResult;
use crate::txn::Hint;
use crate::txn::XidAtHorizon;
use crate::types::{Tid, Xid};

const BLOCK: u32 = 7;

fn cx() -> ApplyContext {
    let page_id = PageId {
        file: FileId(1),
        fork: Fork::Main,
        block: BlockNumber(BLOCK),
    };
    ApplyContext {
        lsn: Lsn(64),
        page_id,
    }
}

/// Applies a part to copies of the page as well: redo from the same bytes gives the same bytes,
/// and hints, true or not, change nothing but hints.
fn redo(page: &mut PageBuf, op: u16, data: &[u8]) {
    let mut again = page.clone();
    let dependent = depends_on_hints(page, op, data, apply);
    apply(op, &mut page.page_mut(), data, &cx()).unwrap();
    apply(op, &mut again.page_mut(), data, &cx()).unwrap();
    assert_eq!(page.bytes(), again.bytes());
    assert!(!dependent, "redo of {op:#06x} depends on hints");
}

type Apply = fn(u16, &mut PageMut<'_>, &[u8], &ApplyContext) -> Result<(), ApplyError>;

/// Whether applying a part gives another page when the tuples have hints, which are not logged.
fn depends_on_hints(page: &PageBuf, op: u16, data: &[u8], apply: Apply) -> bool {
    let result = |set: &dyn Fn(u16) -> bool| {
        let mut copy = page.clone();
        let mut bytes = copy.page_mut();
        mask_unlogged(&mut bytes);
        let slots = if bytes.is_heap() { bytes.slots() } else { 0 };
        for slot in (1..=slots).filter(|slot| set(*slot)) {
            if let Some((offset, _)) = bytes.tuple_at(slot) {
                let (w0, w1) = (bytes.u64_at(offset), bytes.u64_at(offset + 8));
                bytes.put_u64(offset, w0 | mask_word(XMIN_COMMITTED | XMIN_ABORTED));
                bytes.put_u64(offset + 8, w1 | mask_word(XMAX_COMMITTED | XMAX_ABORTED));
            }
        }
        let applied = apply(op, &mut bytes, data, &cx()).is_ok();
        mask_unlogged(&mut bytes);
        (applied, copy.bytes().to_vec())
    };
    let none = result(&|_| false);
    [
        result(&|_| true),
        result(&|slot| slot % 2 == 0),
        result(&|slot| slot % 2 == 1),
    ]
    .iter()
    .any(|hinted| *hinted != none)
}

#[test]
fn redo_that_asks_a_hint_is_caught() {
    /// Freezes only what a hint calls committed.
    fn mutant(
        op: u16,
        page: &mut PageMut<'_>,
        data: &[u8],
        cx: &ApplyContext,
    ) -> Result<(), ApplyError> {
        let mut op_data = Prune::decode(data)?;
        let committed = |run: &FreezeRun| {
            run.slots().all(|slot| {
                page.tuple_at(slot)
                    .is_some_and(|(offset, _)| xmin_hint(&page.header(offset)) == Hint::Committed)
            })
        };
        op_data.freeze.retain(committed);
        apply(op, page, &op_data.encode(), cx)
    }
    let mut page = PageBuf::zeroed();
    insert(&mut page, 10, b"row");
    let options = PlanOptions {
        freeze_below: Some(Xid::new(50)),
        thorough: true,
        ..PlanOptions::default()
    };
    let plan = plan(&page, BLOCK, options, &mut fates).unwrap();
    assert!(!plan.op.freeze.is_empty());
    let data = plan.op.encode();
    assert!(!depends_on_hints(&page, OP_PRUNE, &data, apply));
    assert!(depends_on_hints(&page, OP_PRUNE, &data, mutant));
}

fn insert(page: &mut PageBuf, xid: u64, row: &[u8]) -> u16 {
    let bits = if page.is_new() { INIT_PAGE } else { 0 };
    let slot = if page.is_new() { 1 } else { page.next_slot() };
    let op = Insert {
        xmin: Xid::new(xid),
        xmin_mask: 0,
        cid: 0,
        slot,
        bits,
        row,
    };
    redo(page, OP_INSERT, &op.encode());
    slot
}

fn row_of(page: &PageBuf, slot: u16) -> Vec<u8> {
    let (offset, length) = page.tuple_at(slot).unwrap();
    page.row(offset, length).to_vec()
}

fn update(page: &mut PageBuf, xid: u64, old_slot: u16, row: &[u8], hot: bool) -> u16 {
    let old = row_of(page, old_slot);
    let (prefix, suffix) = Update::common(&old, row);
    let new_slot = page.next_slot();
    let op = Update {
        xid: Xid::new(xid),
        xmax_mask: 0,
        old_cid: 0,
        old_slot,
        bits: if hot { HOT } else { 0 },
        new_cid: 0,
        new_slot,
        prefix: prefix as u16,
        suffix: suffix as u16,
        middle: &row[prefix..row.len() - suffix],
    };
    redo(page, OP_UPDATE, &op.encode());
    new_slot
}

fn delete(page: &mut PageBuf, xid: u64, slot: u16) {
    let op = Modify {
        xmax: Xid::new(xid),
        xmax_mask: XMAX_KEYS,
        cid: 0,
        slot,
        bits: NOTE_PRUNABLE,
        ctid: Tid::new(BlockNumber(BLOCK), slot),
    };
    redo(page, OP_MODIFY, &op.encode());
}

/// Fates by number: below 100 old, below 200 recent, below 300 running, else aborted.
fn fates(xid: Xid, _hint: Hint) -> EngineResult<XidAtHorizon> {
    Ok(match xid.get() {
        0..100 => XidAtHorizon::CommittedForAll,
        100..200 => XidAtHorizon::CommittedLately,
        200..300 => XidAtHorizon::InProgress,
        _ => XidAtHorizon::Aborted,
    })
}

fn prune_with(page: &mut PageBuf, options: PlanOptions<'_>) -> super::prune::Plan {
    let options = PlanOptions {
        thorough: true,
        ..options
    };
    let plan = plan(page, BLOCK, options, &mut fates).unwrap();
    assert_eq!(Prune::decode(&plan.op.encode()).unwrap(), plan.op);
    redo(page, OP_PRUNE, &plan.op.encode());
    plan
}

fn prune(page: &mut PageBuf) -> super::prune::Plan {
    prune_with(page, PlanOptions::default())
}

fn chain_slots(page: &PageBuf, slot: u16) -> Vec<u16> {
    chain(page, BlockNumber(BLOCK), slot, Entry::Index)
        .map(|link| link.slot)
        .collect()
}

#[test]
fn the_largest_row_fills_a_page() {
    let mut page = PageBuf::zeroed();
    insert(&mut page, 10, &vec![1; MAX_ROW]);
    assert_eq!(row_of(&page, 1).len(), MAX_ROW);
    assert!(!page.fits(0));
    let op = Insert {
        xmin: Xid::new(10),
        xmin_mask: 0,
        cid: 0,
        slot: 1,
        bits: INIT_PAGE,
        row: &vec![1; MAX_ROW + 1],
    };
    let mut other = PageBuf::zeroed();
    assert!(apply(OP_INSERT, &mut other.page_mut(), &op.encode(), &cx()).is_err());
}

#[test]
fn an_update_on_the_page_shares_what_the_rows_have_in_common() {
    let mut page = PageBuf::zeroed();
    for (old, new) in [
        (&b"abcdef"[..], &b"abXdef"[..]),
        (b"aaaa", b"aaaaaa"),
        (b"aaaaaa", b"aa"),
        (b"", b"new"),
        (b"gone", b""),
        (b"same", b"same"),
    ] {
        let slot = insert(&mut page, 10, old);
        let new_slot = update(&mut page, 20, slot, new, true);
        assert_eq!(row_of(&page, slot), old);
        assert_eq!(row_of(&page, new_slot), new);
        assert_eq!(chain_slots(&page, slot), [slot, new_slot]);
    }
}

#[test]
fn a_dead_head_becomes_a_redirect_to_the_first_version_that_stays() {
    let mut page = PageBuf::zeroed();
    let root = insert(&mut page, 10, b"one");
    let second = update(&mut page, 20, root, b"two", true);
    let third = update(&mut page, 30, second, b"three", true);
    let fourth = update(&mut page, 150, third, b"four", true);
    let plan = prune(&mut page);
    assert_eq!(plan.removed, 2);
    assert_eq!(plan.op.redirect, [(root, third)]);
    assert_eq!(plan.op.unused, [second]);
    assert_eq!(chain_slots(&page, root), [third, fourth]);
    assert_eq!(row_of(&page, third), b"three");
    assert_eq!(page.prune_xid(), Xid::new(150));
    // A freed slot is the next one to be used.
    assert_eq!(insert(&mut page, 10, b"other"), second);
    assert_eq!(page.u16_at(SPARE), 0);
}

#[test]
fn a_chain_that_is_dead_to_all_leaves_a_dead_slot_for_the_indexes() {
    let mut page = PageBuf::zeroed();
    let root = insert(&mut page, 10, b"one");
    let second = update(&mut page, 20, root, b"two", true);
    let other = insert(&mut page, 10, b"stays");
    delete(&mut page, 30, second);
    let plan = prune(&mut page);
    assert_eq!(plan.dead, [root]);
    assert_eq!(page.line_pointer(root).state, LpState::Dead);
    assert_eq!(page.line_pointer(second).state, LpState::Unused);
    assert_eq!(row_of(&page, other), b"stays");
    assert!(!plan.all_visible);
    // Vacuum has removed the index entries: the slot is free.
    let plan = prune_with(
        &mut page,
        PlanOptions {
            reap: &[root],
            ..PlanOptions::default()
        },
    );
    assert_eq!(plan.op.unused, [root]);
    assert!(plan.all_visible && plan.dead.is_empty());
}

#[test]
fn without_indexes_a_dead_row_frees_its_slot_at_once() {
    let mut page = PageBuf::zeroed();
    let slot = insert(&mut page, 10, b"one");
    delete(&mut page, 20, slot);
    prune_with(
        &mut page,
        PlanOptions {
            no_indexes: true,
            ..PlanOptions::default()
        },
    );
    assert_eq!(page.slots(), 0);
    assert_eq!(page.gap(), PAGE_CAPACITY);
}

#[test]
fn versions_of_an_update_that_rolled_back_go_and_the_old_one_stays() {
    let mut page = PageBuf::zeroed();
    let root = insert(&mut page, 10, b"one");
    let lost = update(&mut page, 300, root, b"two", true);
    let lost_too = update(&mut page, 300, lost, b"three", true);
    let plan = prune(&mut page);
    assert_eq!(plan.op.unused, [lost, lost_too]);
    assert_eq!(chain_slots(&page, root), [root]);
    assert_eq!(row_of(&page, root), b"one");
}

/// A plan that is not thorough asks for few transactions and still takes what updates left.
#[test]
fn a_quick_plan_looks_at_deleters_only() {
    let mut page = PageBuf::zeroed();
    for xid in 40..60 {
        insert(&mut page, xid, b"nobody deleted it");
    }
    let root = insert(&mut page, 10, b"one");
    let second = update(&mut page, 20, root, b"two", true);
    let third = update(&mut page, 30, second, b"three", true);
    let lost = update(&mut page, 300, 1, b"rolled back", true);
    let mut asked = Vec::new();
    let mut counting = |xid: Xid, hint: Hint| {
        asked.push(xid.get());
        fates(xid, hint)
    };
    let plan = plan(&page, BLOCK, PlanOptions::default(), &mut counting).unwrap();
    assert_eq!(plan.op.redirect, [(root, third)]);
    assert_eq!(plan.op.unused, [second, lost]);
    assert!(!plan.all_visible);
    // The deleters, the inserter of the version whose update rolled back, that of the orphan.
    assert_eq!(asked, [300, 40, 20, 30, 300]);
}

#[test]
fn nothing_that_somebody_may_see_is_pruned() {
    let mut page = PageBuf::zeroed();
    let running = insert(&mut page, 200, b"running");
    let recent = insert(&mut page, 10, b"recent");
    delete(&mut page, 150, recent);
    let deleting = insert(&mut page, 10, b"deleting");
    delete(&mut page, 250, deleting);
    let kept = insert(&mut page, 10, b"deleter aborted");
    delete(&mut page, 300, kept);
    let plan = prune(&mut page);
    assert_eq!((plan.removed, plan.kept, plan.recently_dead), (0, 4, 1));
    assert!(!plan.all_visible);
    assert_eq!(page.prune_xid(), Xid::new(150));
    assert_eq!(row_of(&page, running), b"running");
}

#[test]
fn freezing_leaves_no_id_behind() {
    let mut page = PageBuf::zeroed();
    insert(&mut page, 10, b"a");
    let b = insert(&mut page, 20, b"b");
    delete(&mut page, 300, b);
    let options = PlanOptions {
        freeze_below: Some(Xid::new(1000)),
        set_visible: true,
        ..PlanOptions::default()
    };
    let plan = prune_with(&mut page, options);
    assert!(plan.all_visible && plan.all_frozen && page.all_visible());
    assert_eq!(plan.oldest_xid, Xid::NONE);
    for slot in 1..=2 {
        let header = page.header(page.tuple_at(slot).unwrap().0);
        assert!(header.frozen() && !header.xmax.is_some());
        assert_eq!(header.ctid, Tid::new(BlockNumber(BLOCK), slot));
    }
    // The next change of the page ends its visibility.
    let op = Modify {
        xmax: Xid::new(200),
        xmax_mask: 0,
        cid: 0,
        slot: 1,
        bits: CLEAR_VISIBLE,
        ctid: Tid::new(BlockNumber(BLOCK), 1),
    };
    redo(&mut page, OP_MODIFY, &op.encode());
    assert!(!page.all_visible());
}

#[test]
fn ids_above_the_limit_are_not_frozen_and_are_reported() {
    let mut page = PageBuf::zeroed();
    insert(&mut page, 10, b"a");
    insert(&mut page, 60, b"b");
    let options = PlanOptions {
        freeze_below: Some(Xid::new(50)),
        ..PlanOptions::default()
    };
    let plan = prune_with(&mut page, options);
    let run = FreezeRun {
        first: 1,
        count: 1,
        what: FREEZE_XMIN,
    };
    assert_eq!(plan.op.freeze, [run]);
    assert_eq!(plan.oldest_xid, Xid::new(60));
    assert!(plan.all_visible && !plan.all_frozen);
}

/// One step of a random life of a page.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>),
    Update(u16, Vec<u8>, bool),
    Delete(u16),
    Prune,
    Freeze,
}

fn step() -> impl Strategy<Value = Step> {
    let row = || prop::collection::vec(any::<u8>(), 0..400);
    prop_oneof![
        4 => row().prop_map(Step::Insert),
        4 => (any::<u16>(), row(), any::<bool>()).prop_map(|(a, b, c)| Step::Update(a, b, c)),
        2 => any::<u16>().prop_map(Step::Delete),
        1 => Just(Step::Prune),
        1 => Just(Step::Freeze),
    ]
}

/// The layout of a page holds: tuples inside and apart, counted unused slots.
fn assert_layout(page: &PageBuf) {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let mut unused = 0;
    for slot in 1..=page.slots() {
        match page.line_pointer(slot).state {
            LpState::Normal => {
                let (offset, length) = page.tuple_at(slot).expect("tuple within the page");
                assert!(offset >= usize::from(page.upper()));
                spans.push((offset, offset + length));
            }
            LpState::Unused => unused += 1,
            _ => {}
        }
    }
    spans.sort_unstable();
    assert!(
        spans.windows(2).all(|pair| pair[0].1 <= pair[1].0),
        "tuples overlap"
    );
    assert_eq!(page.u16_at(SPARE), unused);
    assert!(page.lower() <= page.upper() && usize::from(page.upper()) <= PAGE_SIZE);
}

proptest! {
    /// Live rows survive whatever happens on their page, and the layout holds throughout.
    #[test]
    fn live_rows_survive_any_history(steps in prop::collection::vec(step(), 1..80)) {
        let mut page = PageBuf::zeroed();
        // Live versions by slot, and the root their index entry would name.
        let mut live: Vec<(u16, u16, Vec<u8>)> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(row) if page.is_new() || page.fits(row.len()) => {
                    let slot = insert(&mut page, 10, &row);
                    live.push((slot, slot, row));
                }
                Step::Update(pick, row, hot) if !live.is_empty() && page.fits(row.len()) => {
                    let at = usize::from(pick) % live.len();
                    let (slot, root, _) = live[at].clone();
                    let new = update(&mut page, 20, slot, &row, hot);
                    live[at] = (new, if hot { root } else { new }, row);
                }
                Step::Delete(pick) if !live.is_empty() => {
                    let at = usize::from(pick) % live.len();
                    let (slot, _, _) = live.swap_remove(at);
                    delete(&mut page, 30, slot);
                }
                Step::Prune if !page.is_new() => {
                    prune(&mut page);
                }
                Step::Freeze if !page.is_new() => {
                    let options = PlanOptions {
                        freeze_below: Some(Xid::new(90)),
                        set_visible: true,
                        no_indexes: true,
                        ..PlanOptions::default()
                    };
                    let plan = prune_with(&mut page, options);
                    prop_assert!(plan.all_frozen);
                }
                _ => {}
            }
            assert_layout(&page);
            for (slot, root, row) in &live {
                prop_assert_eq!(&row_of(&page, *slot), row);
                let chain = chain_slots(&page, *root);
                prop_assert_eq!(chain.last(), Some(slot));
            }
        }
    }

    /// Redo of anything, on any page, ends with an answer and not with a panic.
    #[test]
    fn redo_refuses_nonsense(
        op in 0x0100u16..0x0108,
        data in prop::collection::vec(any::<u8>(), 0..120),
        rows in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
        damage in prop::collection::vec((0..PAGE_SIZE, any::<u8>()), 0..6),
    ) {
        let mut page = PageBuf::zeroed();
        for row in &rows {
            insert(&mut page, 10, row);
        }
        for (offset, byte) in damage {
            page.bytes_mut()[offset] = byte;
        }
        let _ = apply(op, &mut page.page_mut(), &data, &cx());
    }

    /// As above, with parts that are well formed but name the wrong things.
    #[test]
    fn redo_refuses_wrong_slots(
        slots in prop::collection::vec(0u16..12, 8),
        rows in 0usize..6,
        bits in 0u16..128,
    ) {
        let mut page = PageBuf::zeroed();
        for _ in 0..rows {
            insert(&mut page, 10, b"some row");
        }
        let [a, b, c, d, e, f, g, h] = slots[..] else { unreachable!() };
        let op = Prune {
            prune_xid: Xid::NONE,
            bits: bits & (COMPACT | SET_VISIBLE),
            redirect: vec![(a, b)],
            dead: vec![c],
            unused: vec![d, e],
            freeze: vec![FreezeRun { first: f, count: g, what: 3 }],
        };
        let _ = apply(OP_PRUNE, &mut page.page_mut(), &op.encode(), &cx());
        let op = Update {
            xid: Xid::new(20), xmax_mask: 0, old_cid: 0, old_slot: g, bits, new_cid: 0,
            new_slot: h, prefix: a, suffix: b, middle: b"xyz",
        };
        let _ = apply(OP_UPDATE, &mut page.page_mut(), &op.encode(), &cx());
    }
}

/// The checks that follow every change in builds with debug assertions.
#[test]
fn a_page_whose_pointers_do_not_fit_is_named() {
    let insert = |page: &mut PageBuf, slot: u16| {
        let op = Insert {
            xmin: Xid::new(3),
            xmin_mask: 0,
            cid: 0,
            slot,
            bits: if slot == 1 { INIT_PAGE } else { 0 },
            row: b"sixteen bytes it",
        };
        redo(page, OP_INSERT, &op.encode());
    };
    let mut sound = PageBuf::zeroed();
    insert(&mut sound, 1);
    insert(&mut sound, 2);
    assert_eq!(check_layout(&sound), Ok(()));
    let first = sound.line_pointer(1);
    let spoilt = |spoil: &dyn Fn(&mut PageMut<'_>)| {
        let mut page = sound.clone();
        spoil(&mut page.page_mut());
        check_layout(&page).expect_err("spoilt")
    };
    let moved = LinePointer::normal(first.offset - 16, first.length);
    let outside = LinePointer::normal(first.offset, first.length + 8);
    for (found, expected) in [
        (spoilt(&|page| page.set_lower(20)), "bounds 20 and"),
        (spoilt(&|page| page.set_upper(8184)), "below the tuples"),
        (
            spoilt(&|page| put_line_pointer(page, 1, moved)),
            "slots 2 and 1 overlap",
        ),
        (
            spoilt(&|page| put_line_pointer(page, 1, outside)),
            "outside the page",
        ),
        (
            spoilt(&|page| put_line_pointer(page, 1, LinePointer::redirect(3))),
            "redirects to slot 3",
        ),
        (
            spoilt(&|page| put_line_pointer(page, 1, LinePointer::UNUSED)),
            "0 unused slots counted, 1 there",
        ),
    ] {
        assert!(found.contains(expected), "{found}");
    }
}
