//! Large values: rows are `key:id,bytes`, where the second part names one.

use std::collections::BTreeMap;

use super::*;
use crate::error::EngineError;
use crate::table::{CHUNK_BYTES, LargeDef, LargeRef, NamesLarge};

/// The value that a row names.
struct Named;

fn named(row: &[u8]) -> Option<LargeRef> {
    let text = std::str::from_utf8(row).ok()?;
    let (id, bytes) = text.split_once(':')?.1.split_once(',')?;
    Some(LargeRef {
        id: id.parse().ok()?,
        bytes: bytes.parse().ok()?,
    })
}

impl NamesLarge for Named {
    fn each(&self, row: &[u8], found: &mut dyn FnMut(LargeRef)) {
        named(row).into_iter().for_each(found);
    }
}

fn row(key: &str, value: LargeRef) -> String {
    format!("{key}:{},{}", value.id, value.bytes)
}

/// Bytes that differ from place to place.
fn value(seed: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| ((at * 31 + seed * 7919) >> 3) as u8)
        .collect()
}

struct Values {
    f: Fixture,
    def: LargeDef,
}

impl Values {
    fn new(frames: Option<u64>) -> Values {
        let f = Fixture::with(1, 100, frames);
        let of = f.table.def().heap;
        let (heap, tree) = f.commit(|txn| Table::create_large(txn, of).unwrap());
        let names = Arc::new(Named);
        let def = LargeDef {
            id: 2,
            heap,
            tree,
            names,
        };
        Values { f, def }.opened()
    }

    fn opened(mut self) -> Values {
        let table = self.f.table.def().clone();
        self.f.table = Table::open_with_large(&self.f.db, table, &self.def).unwrap();
        self
    }

    fn reopened(&self, disk: SimDisk) -> Values {
        let f = self.f.reopened(disk);
        let def = self.def.clone();
        Values { f, def }.opened()
    }

    fn store(&self, txn: &mut Transaction, bytes: &[u8]) -> LargeRef {
        block_on(self.f.table.store_large(txn, bytes)).unwrap()
    }

    fn insert(&self, txn: &mut Transaction, key: &str, bytes: &[u8]) -> LargeRef {
        let stored = self.store(txn, bytes);
        self.f.insert(txn, &row(key, stored)).unwrap();
        stored
    }

    fn set(&self, txn: &mut Transaction, key: &str, bytes: &[u8]) -> LargeRef {
        let stored = self.store(txn, bytes);
        self.f.set(txn, &row(key, stored));
        stored
    }

    fn remove(&self, txn: &mut Transaction, key: &str) {
        txn.begin_statement().unwrap();
        let (tid, _) = self.f.find(txn, key.as_bytes()).unwrap();
        self.f.delete(txn, tid).unwrap();
    }

    fn fetch(&self, snapshot: &Snapshot, at: LargeRef) -> EngineResult<Vec<u8>> {
        self.f
            .table
            .fetch_large(snapshot, at, (0, usize::MAX), None)
    }

    /// All values that a snapshot sees, by key.
    fn all(&self, snapshot: &Snapshot) -> BTreeMap<String, Vec<u8>> {
        let rows = self.f.scan(snapshot).into_iter();
        rows.map(|(_, row)| {
            let key = String::from_utf8(key_of(row.as_bytes()).to_vec()).unwrap();
            let at = named(row.as_bytes()).unwrap();
            (key, self.fetch(snapshot, at).unwrap())
        })
        .collect()
    }

    fn committed(&self) -> BTreeMap<String, Vec<u8>> {
        self.all(&self.f.begin().snapshot().unwrap())
    }

    fn chunks(&self) -> u32 {
        self.f.table.large().unwrap().blocks()
    }

    fn vacuum(&self) {
        let options = VacuumOptions {
            truncate: true,
            index_cleanup: crate::vacuum::IndexCleanup::On,
            ..VacuumOptions::default()
        };
        self.f.vacuum(&options);
        self.f.assert_sound();
    }
}

#[test]
fn large_values_come_back_whole_and_in_slices() {
    let v = Values::new(Some(32));
    let lengths = [
        1,
        CHUNK_BYTES - 1,
        CHUNK_BYTES,
        CHUNK_BYTES + 1,
        50 * CHUNK_BYTES + 17,
    ];
    let mut stored = Vec::new();
    v.f.commit(|txn| {
        for (n, length) in lengths.into_iter().enumerate() {
            stored.push(v.insert(txn, &format!("k{n}"), &value(n, length)));
        }
    });
    let mut reader = v.f.begin();
    let snapshot = reader.snapshot().unwrap();
    for (n, at) in stored.iter().enumerate() {
        let whole = value(n, lengths[n]);
        assert_eq!(v.fetch(&snapshot, *at).unwrap(), whole);
        for (from, length) in [
            (0, 1),
            (CHUNK_BYTES - 1, 2),
            (CHUNK_BYTES, 1),
            (7, 3 * CHUNK_BYTES),
        ] {
            let part = v.f.table.fetch_large(&snapshot, *at, (from, length), None);
            let end = (from + length).min(whole.len());
            let expected = whole.get(from..end).unwrap_or_default();
            assert_eq!(
                part.unwrap(),
                expected,
                "{from} {length} of {}",
                whole.len()
            );
        }
    }
    v.f.assert_sound();
}

#[test]
fn ids_of_large_values_are_not_given_out_again() {
    let v = Values::new(None);
    let mut ids = Vec::new();
    for round in 0..50 {
        let stored =
            v.f.commit(|txn| v.insert(txn, &format!("k{round}"), &value(round, 100)));
        ids.push(stored.id);
    }
    v.f.db.store().log().flush_all().unwrap();
    let again = v.reopened(v.f.disk.crash(1));
    let stored = again
        .f
        .commit(|txn| again.insert(txn, "new", &value(1, 100)));
    ids.push(stored.id);
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

#[test]
fn chunks_are_kept_for_every_snapshot_that_sees_their_row() {
    let v = Values::new(None);
    let (old, new) = (value(1, 5 * CHUNK_BYTES), value(2, 3 * CHUNK_BYTES));
    v.f.commit(|txn| v.insert(txn, "a", &old));
    v.f.commit(|txn| v.insert(txn, "b", &old));
    let mut reader = v.f.begin_rr();
    let snapshot = reader.snapshot().unwrap();
    v.f.commit(|txn| v.set(txn, "a", &new));
    v.f.commit(|txn| v.remove(txn, "b"));
    v.vacuum();
    let seen = v.all(&snapshot);
    assert_eq!(
        seen,
        [("a".to_owned(), old.clone()), ("b".to_owned(), old)].into()
    );
    assert_eq!(v.committed(), [("a".to_owned(), new.clone())].into());
    drop((snapshot, reader));
    v.vacuum();
    assert_eq!(v.committed(), [("a".to_owned(), new)].into());
    v.f.commit(|txn| v.remove(txn, "a"));
    v.vacuum();
    assert_eq!(v.chunks(), 0, "chunks of dead rows stay");
}

#[test]
fn an_update_that_keeps_a_value_keeps_its_chunks() {
    let v = Values::new(None);
    let kept = value(1, 4 * CHUNK_BYTES);
    let stored = v.f.commit(|txn| v.insert(txn, "a", &kept));
    let blocks = v.chunks();
    for _ in 0..3 {
        v.f.commit(|txn| v.f.set(txn, &row("a", stored)));
        v.vacuum();
    }
    assert_eq!(v.committed(), [("a".to_owned(), kept)].into());
    assert_eq!(v.chunks(), blocks);
}

#[test]
fn a_rollback_brings_back_and_takes_away_chunks() {
    let v = Values::new(None);
    let first = value(1, 2 * CHUNK_BYTES);
    v.f.commit(|txn| v.insert(txn, "a", &first));
    let mut txn = v.f.begin();
    v.set(&mut txn, "a", &value(2, 3 * CHUNK_BYTES));
    txn.rollback();
    let mut txn = v.f.begin();
    txn.savepoint("s");
    v.remove(&mut txn, "a");
    v.insert(&mut txn, "b", &value(3, CHUNK_BYTES));
    txn.rollback_to("s").unwrap();
    v.insert(&mut txn, "c", &first);
    end(txn);
    v.vacuum();
    let expected: BTreeMap<_, _> =
        [("a".to_owned(), first.clone()), ("c".to_owned(), first)].into();
    assert_eq!(v.committed(), expected);
    // The gaps of the chunks that were rolled back are used again.
    let blocks = v.chunks();
    assert_eq!(blocks, 2 + 3 + 1 + 2);
    v.f.commit(|txn| v.insert(txn, "d", &value(4, 4 * CHUNK_BYTES)));
    assert_eq!(v.chunks(), blocks);
    v.f.assert_sound();
}

#[test]
fn a_check_finds_values_and_rows_that_do_not_have_each_other() {
    let v = Values::new(None);
    let stored =
        v.f.commit(|txn| v.insert(txn, "a", &value(1, 2 * CHUNK_BYTES)));
    v.f.assert_sound();
    // A value that no row names.
    v.f.commit(|txn| v.store(txn, b"lost"));
    let report = v.f.table.check().unwrap();
    assert!(
        report.problems[0].contains("no row names large value"),
        "{report:?}"
    );
    // A row whose value is of another length, and one whose value is not there.
    let wrong = LargeRef {
        bytes: stored.bytes + 1,
        ..stored
    };
    let none = LargeRef { id: 1, bytes: 5 };
    for (key, value) in [("b", wrong), ("c", none)] {
        let v = Values::new(None);
        v.f.commit(|txn| v.insert(txn, "a", &super::large::value(1, 2 * CHUNK_BYTES)));
        v.f.put(&row(key, value));
        let report = v.f.table.check().unwrap();
        assert_eq!(report.problem_count, 1, "{report:?}");
        let snapshot = v.f.begin().snapshot().unwrap();
        let error = v.fetch(&snapshot, value).unwrap_err();
        assert!(matches!(error, EngineError::Corrupted { .. }), "{error}");
        assert!(
            error.to_string().contains("missing chunk number"),
            "{error}"
        );
    }
}

#[test]
fn large_values_survive_crashes_as_their_rows_do() {
    let v = Values::new(Some(64));
    for round in 0..20 {
        v.f.commit(|txn| v.insert(txn, &format!("k{round:02}"), &value(round, round * 3000)));
        if round % 3 == 2 {
            v.f.commit(|txn| v.set(txn, &format!("k{:02}", round - 1), &value(round, 20_000)));
            v.f.commit(|txn| v.remove(txn, &format!("k{:02}", round - 2)));
        }
        if round % 8 == 7 {
            v.vacuum();
        }
    }
    let expected = v.committed();
    let mut lost = v.f.begin();
    v.insert(&mut lost, "lost", &value(1, 100_000));
    v.set(&mut lost, "k19", &value(2, 10));
    v.f.db.store().log().flush_all().unwrap();
    for seed in 0..4 {
        let again = v.reopened(v.f.disk.crash(seed));
        assert_eq!(again.committed(), expected, "seed {seed}");
        again.f.assert_sound();
        again.vacuum();
        assert_eq!(again.committed(), expected, "seed {seed}");
    }
}

#[test]
fn a_value_is_stored_by_whole_pages() {
    let v = Values::new(None);
    v.f.commit(|txn| v.insert(txn, "a", &value(1, 10 * CHUNK_BYTES)));
    assert_eq!(v.chunks(), 10);
}
