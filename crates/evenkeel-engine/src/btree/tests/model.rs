//! Random operations against a `BTreeSet`.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::Ordering;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

type Model = BTreeSet<(Vec<u8>, Tid)>;

/// The form of the keys.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// A handful of very short keys: mostly duplicates.
    Few,
    /// Eight bytes.
    Numbers,
    /// Up to the longest, with long common prefixes.
    Long,
}

fn random_key(rng: &mut StdRng, keys: Keys) -> Vec<u8> {
    match keys {
        Keys::Few => vec![b'a'; rng.random_range(0..3)],
        Keys::Numbers => rng.random_range(0..5_000u64).to_be_bytes().to_vec(),
        Keys::Long => {
            let len = *[3, 700, 1_500, MAX_KEY_LEN - 1, MAX_KEY_LEN]
                .get(rng.random_range(0..5))
                .unwrap_or(&0);
            let mut key = vec![b'x'; len];
            if let Some(at) = len.checked_sub(rng.random_range(1..4)) {
                key[at] = rng.random();
            }
            key
        }
    }
}

fn range<'a>(low: &Bound<&'a [u8]>, high: &Bound<&'a [u8]>, key: &[u8]) -> bool {
    let above = match low {
        Bound::Unbounded => true,
        Bound::Included(low) => key >= *low,
        Bound::Excluded(low) => key > *low,
    };
    let below = match high {
        Bound::Unbounded => true,
        Bound::Included(high) => key <= *high,
        Bound::Excluded(high) => key < *high,
    };
    above && below
}

fn random_bound<'a>(rng: &mut StdRng, key: &'a [u8]) -> Bound<&'a [u8]> {
    match rng.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

fn compare_scans(tree: &BTree, model: &Model, rng: &mut StdRng, keys: Keys) {
    let (a, b) = (random_key(rng, keys), random_key(rng, keys));
    let (low, high) = (random_bound(rng, &a), random_bound(rng, &b));
    let mut expected: Entries = model
        .iter()
        .filter(|(key, _)| range(&low, &high, key))
        .cloned()
        .collect();
    assert_eq!(
        scan(tree, low, high, Direction::Forward),
        expected,
        "{low:?} {high:?}"
    );
    expected.reverse();
    assert_eq!(
        scan(tree, low, high, Direction::Backward),
        expected,
        "{low:?} {high:?}"
    );
    let tids: Vec<Tid> = model
        .iter()
        .filter(|(key, _)| *key == a)
        .map(|(_, tid)| *tid)
        .collect();
    assert_eq!(lookup(tree, &a), tids);
    let prefix = &a[..rng.random_range(0..=a.len())];
    let mut found = Vec::new();
    tree.lookup_prefix(TreeReader::alone(), prefix, &mut |tid| {
        found.push(tid);
        Ok(Visit::Next)
    })
    .expect("lookup");
    let tids = model
        .iter()
        .filter(|(key, _)| key.starts_with(prefix))
        .map(|(_, tid)| *tid);
    assert!(tids.eq(found.iter().copied()));
}

fn delete_some(tree: &BTree, model: &mut Model, clock: &Clock, rng: &mut StdRng) {
    let share = rng.random_range(0..=100);
    // A tid names at most one entry here, as it does for rows.
    let doomed: BTreeSet<Tid> = model
        .iter()
        .map(|(_, tid)| *tid)
        .filter(|_| rng.random_range(0..100) < share)
        .collect();
    let before = model.len();
    model.retain(|(_, tid)| !doomed.contains(tid));
    clock
        .horizon
        .store(clock.now.load(Ordering::SeqCst), Ordering::SeqCst);
    let stats = tree
        .bulk_delete(&mut |tid| doomed.contains(&tid), clock, &mut |_| Ok(()))
        .expect("bulk delete");
    assert_eq!(stats.removed, (before - model.len()) as u64);
    assert_eq!(stats.entries, model.len() as u64);
}

fn run(keys: Keys, rounds: usize, per_round: usize, seed: u64) {
    let fixture = Fixture::new(4_096);
    let tree = &fixture.tree;
    fixture
        .tree
        .shared
        .unfinished_every
        .store(3, Ordering::Relaxed);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut model = Model::new();
    let clock = Clock::default();
    let mut next = 0;
    for round in 0..rounds {
        for _ in 0..rng.random_range(0..per_round) {
            next += 1;
            let key = random_key(&mut rng, keys);
            insert(tree, &key, tid(next));
            model.insert((key, tid(next)));
        }
        for _ in 0..5 {
            compare_scans(tree, &model, &mut rng, keys);
        }
        if rng.random_range(0..3) == 0 {
            delete_some(tree, &mut model, &clock, &mut rng);
        }
        let stats = check(tree);
        assert_eq!(
            stats.entries,
            model.len() as u64,
            "round {round} seed {seed}"
        );
        assert_eq!(scan_all(tree), model.iter().cloned().collect::<Entries>());
    }
}

#[test]
fn duplicates_agree_with_the_model() {
    run(Keys::Few, 20, 2_000, seed(11));
}

#[test]
fn numbers_agree_with_the_model() {
    run(Keys::Numbers, 30, 2_000, seed(12));
}

#[test]
fn long_keys_agree_with_the_model() {
    run(Keys::Long, 30, 120, seed(13));
}

#[test]
fn ascending_keys_fill_their_pages() {
    let fixture = Fixture::new(4_096);
    for number in 0..30_000u64 {
        fixture.insert(&number.to_be_bytes(), tid(number));
    }
    let stats = fixture.check();
    assert_eq!(stats.entries, 30_000);
    // 18 bytes an entry.
    let full = 30_000 * 18 / 8_144;
    assert!(
        stats.leaves <= full * 100 / 88,
        "{} leaves, {full} if full",
        stats.leaves
    );
}

#[test]
fn keys_beyond_the_limit_are_refused() {
    let fixture = Fixture::new(64);
    let key = vec![1; MAX_KEY_LEN + 1];
    let error = fixture
        .tree
        .insert(Xid::FIRST, &key, tid(1), UniqueCheck::None);
    assert_eq!(error.map_err(|error| error.sqlstate()), Err("54000"));
    fixture.insert(&key[1..], tid(1));
    assert_eq!(fixture.check().entries, 1);
}
