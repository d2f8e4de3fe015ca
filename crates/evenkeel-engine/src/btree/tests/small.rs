//! The least pool there is.

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
