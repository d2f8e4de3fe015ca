//! The least pool there is.

use evenkeel_storage::BlockNumber;
use evenkeel_storage::page::PageBuf;

use super::super::key::TidOrder;
use super::super::order::{check_alone, check_neighbours};
use super::super::page::{Entry, Fault, NO_BLOCK, NodeHeader, Pivot};
use super::super::redo::{InsertData, NodeContent};
use super::*;

#[test]
fn sixteen_frames_are_enough() {
    let fixture = Fixture::new(16);
    for number in 0..20_000u64 {
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        fixture.insert(&key, tid(number));
    }
    assert_eq!(fixture.check().entries, 20_000);
    let clock = Clock::default();
    let mut dead = |tid: Tid| !tid.block.0.is_multiple_of(4);
    fixture
        .tree
        .bulk_delete(&mut dead, &clock, &mut |_| Ok(()))
        .expect("bulk delete");
    assert_eq!(fixture.check().entries, 5_000);
}

/// Vacuum's list may name pages that were taken into use since it saw them: the page that is
/// being split among them, which is locked.
#[test]
fn stale_advice_of_free_pages_harms_nothing() {
    let fixture = Fixture::new(64);
    let key = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    for number in 0..4_000 {
        if number % 100 == 0 {
            let blocks = 1..fixture.tree.blocks();
            let stale = blocks.map(|block| (BlockNumber(block), None)).collect();
            fixture.tree.shared.free.lock().replace(stale);
        }
        fixture.insert(&key(number), tid(number));
    }
    assert_eq!(fixture.check().entries, 4_000);
}

/// The checks that follow every change in builds with debug assertions.
#[test]
fn a_node_out_of_order_is_named() {
    let header = NodeHeader {
        left: NO_BLOCK,
        right: BlockNumber(9),
        level: 0,
        flags: 0,
        extra: 0,
    };
    let leaf = |keys: &[&[u8]], high: &[u8]| {
        let mut content = NodeContent::new(&header);
        content.push_pivot(&Pivot {
            child: NO_BLOCK,
            key: high,
            tid: TidOrder::LEAST,
        });
        for key in keys {
            let tid = TidOrder::of(tid(1));
            content.push(InsertData::entry(&Entry { key, tid }).tuple());
        }
        let mut page = PageBuf::zeroed();
        redo::apply_part(redo::op::NODE, &mut page.page_mut(), content.data()).expect("applies");
        page
    };
    let alone = |keys: &[&[u8]]| check_alone(&leaf(keys, b"m"));
    assert_eq!(alone(&[b"a", b"b", b"l"]), Ok(()));
    assert_eq!(alone(&[b"b", b"a"]), Err(Fault("entries out of order")));
    assert_eq!(alone(&[b"a", b"a"]), Err(Fault("entries out of order")));
    assert_eq!(
        alone(&[b"a", b"m"]),
        Err(Fault("entry beyond the high key"))
    );
    let (left, mut right) = (leaf(&[b"a"], b"m"), leaf(&[b"k"], b"z"));
    let beside = |right: &PageBuf| check_neighbours((4, &left), (9, right));
    let strangers = Err(Fault("siblings do not name each other"));
    assert_eq!(beside(&right), strangers);
    let name = |page: &mut PageBuf| {
        let left = 4u32.to_le_bytes();
        redo::apply_part(redo::op::SET_LEFT, &mut page.page_mut(), &left).expect("applies");
    };
    name(&mut right);
    assert_eq!(beside(&right), Err(Fault("entry below the page's range")));
    let mut right = leaf(&[b"m"], b"z");
    name(&mut right);
    assert_eq!(beside(&right), Ok(()));
}
