//! Indexes against the heap: under every live snapshot each index has exactly the heap's rows,
//! each under exactly its key.
//!
//! One session changes rows, HOT and not, with savepoints and rollbacks, and makes and drops
//! indexes; others hold snapshots; pruning and vacuum go on. `EVENKEEL_SEED` repeats a run,
//! `EVENKEEL_ORACLE_SECONDS` makes it long.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::table::{Direction, KeyRange};
use crate::transaction::Subtransaction;

const KEYS: u32 = 16;
const VALUES: [&str; 4] = ["", "red", "green", "blue"];
const READERS: usize = 4;
const STEPS: u32 = 120;

/// Columns that an index may be on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Key,
    Value,
    /// The value; rows without one have no entry.
    SomeValue,
}

impl KeyExtractor for Column {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> crate::error::EngineResult<KeyKind> {
        let mut fields = row.split(|byte| *byte == b':');
        let (key, value) = (fields.next().unwrap(), fields.next().unwrap());
        out.extend_from_slice(if *self == Column::Key { key } else { value });
        out.push(0);
        if *self == Column::SomeValue && value.is_empty() {
            Ok(KeyKind::Absent)
        } else {
            Ok(KeyKind::Unique)
        }
    }
}

/// Counts of the cases that the run must have reached, or it shows nothing.
#[derive(Debug, Default)]
struct Reached {
    by_index: u64,
    by_heap: u64,
    broken: u64,
    built: u64,
    hot: u64,
}

/// A transaction, or a savepoint of it, with the indexes there were when it began.
struct Level {
    sub: Option<Subtransaction>,
    def: TableDef,
}

struct Run<'a> {
    f: Fixture,
    random: StdRng,
    table: Arc<Table>,
    writer: Option<Transaction>,
    levels: Vec<Level>,
    readers: Vec<(Transaction, Snapshot)>,
    reached: &'a mut Reached,
    /// The bug to be caught: indexes are read by snapshots that are older.
    careless: bool,
}

impl<'a> Run<'a> {
    fn new(seed: u64, reached: &'a mut Reached, careless: bool) -> Run<'a> {
        let f = Fixture::with(0, 50, None);
        Run {
            table: Arc::clone(&f.table),
            f,
            random: StdRng::seed_from_u64(seed),
            writer: None,
            levels: Vec::new(),
            readers: Vec::new(),
            reached,
            careless,
        }
    }

    fn open(&mut self, def: TableDef) {
        self.table = Table::open(&self.f.db, def).unwrap();
    }

    fn row(&mut self, key: u32) -> String {
        let value = VALUES[self.random.random_range(0..VALUES.len())];
        let width = self.random.random_range(0..60);
        format!("{key:02}:{value}:{:width$}", "")
    }

    fn begin(&mut self) {
        if self.writer.is_none() {
            self.writer = Some(self.f.begin());
            self.levels.push(Level {
                sub: None,
                def: self.table.def().clone(),
            });
        }
    }

    /// One statement that changes the row of some key, or inserts it.
    fn change(&mut self) {
        self.begin();
        let key = self.random.random_range(0..KEYS);
        let new_key = if self.random.random_bool(0.1) {
            self.random.random_range(0..KEYS)
        } else {
            key
        };
        let (row, deletes) = (self.row(new_key), self.random.random_bool(0.15));
        let table = Arc::clone(&self.table);
        let txn = self.writer.as_mut().unwrap();
        txn.begin_statement().unwrap();
        let snapshot = txn.snapshot().unwrap();
        let found = heap_rows(&table, &snapshot);
        let of = |key: u32| {
            let wanted = format!("{key:02}");
            found
                .iter()
                .find(|(_, row)| key_of(row) == wanted.as_bytes())
        };
        let done = match of(key) {
            None if of(new_key).is_none() => {
                block_on(table.insert(txn, row.as_bytes())).unwrap();
                return;
            }
            None => return,
            Some((tid, _)) if deletes => block_on(table.delete(txn, RowHandle::unguarded(*tid))),
            Some(_) if key != new_key && of(new_key).is_some() => return,
            Some((tid, _)) => block_on(table.update(
                txn,
                RowHandle::unguarded(*tid),
                row.as_bytes(),
                KeyHint::Compare,
            )),
        };
        assert!(matches!(done.unwrap(), Modified::Done(_)));
    }

    fn savepoint(&mut self) {
        self.begin();
        let sub = self.writer.as_mut().unwrap().begin_sub();
        self.levels.push(Level {
            sub: Some(sub),
            def: self.table.def().clone(),
        });
    }

    /// Ends the innermost savepoint, or the transaction.
    fn end(&mut self, commits: bool) {
        let Some(level) = self.levels.pop() else {
            return;
        };
        match (level.sub, commits) {
            (Some(sub), true) => self.writer.as_mut().unwrap().commit_sub(sub),
            (Some(sub), false) => self.writer.as_mut().unwrap().abort_sub(sub),
            (None, true) => {
                block_on(self.writer.take().unwrap().commit(Durability::Async)).unwrap();
            }
            (None, false) => self.writer.take().unwrap().rollback(),
        }
        if !commits {
            self.open(level.def);
        }
    }

    fn build(&mut self) {
        self.begin();
        let mut def = self.table.def().clone();
        if def.indexes.len() >= 3 {
            return;
        }
        let columns = [Column::Key, Column::Value, Column::SomeValue];
        let column = columns[self.random.random_range(0..columns.len())];
        let txn = self.writer.as_mut().unwrap();
        txn.begin_statement().unwrap();
        let mut index = IndexDef {
            file: txn.create_file().unwrap(),
            unique: column == Column::Key,
            name: "late".into(),
            key: Arc::new(column),
            usable_after: None,
            deferrable: false,
        };
        let built = self.table.build_index(txn, &index).unwrap();
        self.reached.built += 1;
        self.reached.broken += u64::from(built.broken_chains);
        if built.broken_chains && !self.careless {
            index.usable_after = Some(txn.xid().unwrap());
        }
        def.indexes.push(index);
        self.open(def);
    }

    fn drop_index(&mut self) {
        let mut def = self.table.def().clone();
        if def.indexes.is_empty() {
            return;
        }
        self.begin();
        let gone = self.random.random_range(0..def.indexes.len());
        let file = def.indexes.remove(gone).file;
        self.writer.as_mut().unwrap().drop_file(file).unwrap();
        self.open(def);
    }

    /// Whether the open transaction has made or dropped an index.
    fn ddl_is_open(&self) -> bool {
        let files = |def: &TableDef| def.indexes.iter().map(|i| i.file).collect::<Vec<_>>();
        let before = self.levels.first().map(|level| files(&level.def));
        before.is_some_and(|before| before != files(self.table.def()))
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.random_range(0..100) {
            0..58 => self.change(),
            58..63 => self.savepoint(),
            63..77 => {
                let commits = self.random.random_bool(0.7);
                self.end(commits);
            }
            77..83 if self.readers.len() < READERS => {
                let mut txn = self.f.begin_rr();
                let snapshot = txn.snapshot().unwrap();
                self.readers.push((txn, snapshot));
            }
            77..83 => {
                let gone = self.random.random_range(0..self.readers.len());
                drop(self.readers.swap_remove(gone));
            }
            83..90 => {
                // Pages that are short of space are pruned by scans.
                let snapshot = self.f.begin().snapshot().unwrap();
                let _ = self.f.db.horizon();
                let _ = heap_rows(&self.table, &snapshot);
            }
            // DDL locks vacuum out.
            90..93 if !self.ddl_is_open() => {
                let options = VacuumOptions::default();
                self.table.vacuum(&options, &mut |_| {}).unwrap();
            }
            90..98 => self.build(),
            _ => self.drop_index(),
        }
        self.compare_all()
    }

    fn compare_all(&mut self) -> Result<(), String> {
        let mut snapshots: Vec<Snapshot> = self.readers.iter().map(|r| r.1.clone()).collect();
        snapshots.push(self.f.begin().snapshot().unwrap());
        if let Some(txn) = &mut self.writer {
            txn.begin_statement().unwrap();
            snapshots.push(txn.snapshot().unwrap());
        }
        // Indexes of a transaction that is open are its own.
        let own = self.levels.first().map(|level| &level.def);
        for (at, snapshot) in snapshots.iter().enumerate() {
            let writers = self.writer.is_some() && at + 1 == snapshots.len();
            for index in 0..self.table.def().indexes.len() {
                let def = &self.table.def().indexes[index];
                let known = own.is_none_or(|own| own.indexes.iter().any(|i| i.file == def.file));
                if !writers && !known {
                    continue;
                }
                compare(&self.table, snapshot, index)?;
                match self.table.can_read_by(snapshot, index).unwrap() {
                    true => self.reached.by_index += 1,
                    false => self.reached.by_heap += 1,
                }
            }
        }
        let report = self.table.check().unwrap();
        match report.is_ok() {
            true => Ok(()),
            false => Err(format!("check: {:?}", report.problems)),
        }
    }
}

fn heap_rows(table: &Arc<Table>, snapshot: &Snapshot) -> Vec<(Tid, Vec<u8>)> {
    let mut scan = table.scan(snapshot);
    let (mut batch, mut rows) = (RowBatch::new(), Vec::new());
    while scan.next_page(&mut batch).unwrap() {
        rows.extend(batch.iter().map(|(tid, row)| (tid, row.to_vec())));
    }
    rows
}

/// The keys of the visible rows, from the index alone where that suffices.
fn keys_alone(table: &Arc<Table>, snapshot: &Snapshot, index: usize) -> Vec<Vec<u8>> {
    let range = KeyRange::all();
    let scan = table.index_scan(snapshot, index, &range, Direction::Forward);
    let mut scan = scan.unwrap().keys_only();
    let (mut batch, mut keys) = (RowBatch::new(), Vec::new());
    while scan.next_page(&mut batch).unwrap() {
        keys.extend(batch.iter().map(|(_, key)| key.to_vec()));
    }
    keys
}

/// The index has the heap's rows, each once and under its key, in the order of the keys.
fn compare(table: &Arc<Table>, snapshot: &Snapshot, index: usize) -> Result<(), String> {
    let extractor = &table.def().indexes[index].key;
    let mut expected: Vec<(Vec<u8>, Tid, Vec<u8>)> = Vec::new();
    for (tid, row) in heap_rows(table, snapshot) {
        let mut key = Vec::new();
        if extractor.key(&row, &mut key).unwrap() != KeyKind::Absent {
            expected.push((key, tid, row));
        }
    }
    expected.sort();
    let keys: Vec<&[u8]> = expected.iter().map(|(key, ..)| key.as_slice()).collect();
    let alone = keys_alone(table, snapshot, index);
    if alone != keys {
        return Err(format!(
            "index {index} alone has keys {alone:?}, the heap {keys:?}"
        ));
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let range = KeyRange::all();
        let mut scan = table
            .index_scan(snapshot, index, &range, direction)
            .unwrap();
        let (mut batch, mut found) = (RowBatch::new(), Vec::new());
        while scan.next_page(&mut batch).unwrap() {
            found.extend(batch.iter().map(|(tid, row)| {
                let mut key = Vec::new();
                extractor.key(row, &mut key).unwrap();
                (key, tid, row.to_vec())
            }));
        }
        if direction == Direction::Backward {
            found.reverse();
        }
        if !found.is_sorted_by(|a, b| a.0 <= b.0) {
            return Err(format!("index {index} is out of order: {found:?}"));
        }
        found.sort();
        if found != expected {
            return Err(format!(
                "index {index} has {found:?}, the heap {expected:?}"
            ));
        }
    }
    let keys = (0..KEYS).map(|key| format!("{key:02}"));
    for probe in keys.chain(VALUES.map(String::from)) {
        let probe = key(&probe);
        let mut batch = RowBatch::new();
        table
            .index_lookup(snapshot, index, &probe, &mut batch)
            .unwrap();
        let mut found: Vec<Tid> = batch.iter().map(|(tid, _)| tid).collect();
        found.sort();
        let wanted = expected.iter().filter(|(key, ..)| *key == probe);
        let wanted: Vec<Tid> = wanted.map(|(_, tid, _)| *tid).collect();
        if found != wanted {
            return Err(format!(
                "index {index} leads from {probe:?} to {found:?}, the heap to {wanted:?}"
            ));
        }
    }
    Ok(())
}

fn run(seed: u64, reached: &mut Reached, careless: bool) -> Result<(), String> {
    let mut run = Run::new(seed, reached, careless);
    for step in 0..STEPS {
        let done = run.step();
        done.map_err(|error| format!("seed {seed} step {step}: {error}"))?;
    }
    run.reached.hot += run.table.counters().get().n_tup_hot_upd;
    Ok(())
}

fn first_seed() -> u64 {
    let given = std::env::var("EVENKEEL_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u32>).into();
    println!("seed {seed}");
    seed
}

#[test]
fn every_index_has_the_heaps_rows_under_every_snapshot() {
    let seconds = std::env::var("EVENKEEL_ORACLE_SECONDS").ok();
    let seconds = seconds.and_then(|s| s.parse().ok()).unwrap_or(2);
    let (start, first) = (Instant::now(), first_seed());
    let mut reached = Reached::default();
    // Enough rounds to have met everything, and then until the time is up.
    for round in 0.. {
        if round >= 12 && start.elapsed() > Duration::from_secs(seconds) {
            break;
        }
        run(first + round, &mut reached, false).unwrap();
    }
    println!("{reached:?}");
    let counts = [
        reached.by_index,
        reached.by_heap,
        reached.broken,
        reached.hot,
    ];
    assert!(counts.iter().all(|count| *count > 0), "{reached:?}");
    assert!(reached.built > reached.broken, "{reached:?}");
}

#[test]
fn an_index_that_older_snapshots_read_is_caught() {
    let first = first_seed();
    let mut reached = Reached::default();
    let caught = (0..40).find_map(|round| run(first + round, &mut reached, true).err());
    println!("{}", caught.expect("the oracle catches it"));
}
