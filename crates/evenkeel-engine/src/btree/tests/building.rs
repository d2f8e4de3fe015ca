//! Bottom-up loading.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

fn build(fixture: &Fixture, entries: &Entries, fillfactor: u8) -> BTree {
    let file = fixture.new_file();
    let mut builder =
        TreeBuilder::new(&fixture.store, Xid::FIRST, file, fillfactor).expect("builder");
    let mut last: Option<&[u8]> = None;
    for (key, tid) in entries {
        let equal = builder.add(key, *tid).expect("add");
        assert_eq!(equal, last == Some(key));
        last = Some(key);
    }
    let (tree, count) = builder.finish().expect("finish");
    assert_eq!(count, entries.len() as u64);
    tree
}

#[test]
fn a_built_tree_holds_its_entries_and_takes_more() {
    let seed = seed(21);
    let mut rng = StdRng::seed_from_u64(seed);
    let fixture = Fixture::new(4_096);
    for (count, longest) in [
        (0, 10),
        (1, 10),
        (50, 10),
        (5_000, 10),
        (400, MAX_KEY_LEN),
        (3_000, 60),
    ] {
        let mut entries: Entries = (0..count)
            .map(|number| {
                let len = rng.random_range(0..=longest);
                (
                    (0..len).map(|_| rng.random_range(0..3)).collect(),
                    tid(number),
                )
            })
            .collect();
        entries.sort();
        for fillfactor in [10, 90, 100] {
            let tree = build(&fixture, &entries, fillfactor);
            assert_eq!(check(&tree).entries, count, "seed {seed}");
            assert_eq!(scan_all(&tree), entries);
            for number in 0..200 {
                insert(&tree, &[1, 2, 3, number as u8], tid(100_000 + number));
            }
            assert_eq!(check(&tree).entries, count + 200);
        }
    }
}

#[test]
fn entries_out_of_order_are_refused() {
    let fixture = Fixture::new(64);
    let file = fixture.new_file();
    let mut builder = TreeBuilder::new(&fixture.store, Xid::FIRST, file, 90).expect("builder");
    builder.add(b"b", tid(1)).expect("first");
    assert!(builder.add(b"a", tid(2)).is_err());
    assert!(builder.add(b"b", tid(1)).is_err());
    builder.add(b"b", tid(2)).expect("greater tid");
}
