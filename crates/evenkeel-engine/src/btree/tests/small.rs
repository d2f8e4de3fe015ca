//! The least pool there is.

use evenkeel_storage::BlockNumber;

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
