//! Crashes of a mixed workload on the simulated disk: what was acknowledged is there, nothing is
//! there by half, and every structure checks.
//!
//! Random, by the seed that each run prints; `EVENKEEL_SEED` sets it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_engine::btree::BTree;
use evenkeel_engine::heap::RowBatch;
use evenkeel_engine::table::{IndexDef, KeyExtractor, KeyHint, KeyKind, Modified, TableDef};
use evenkeel_engine::vacuum::VacuumOptions;
use evenkeel_engine::{
    Config, Database, Durability, EngineError, Isolation, Table, Transaction, block_on,
};
use evenkeel_io::{SimDisk, sample};
use evenkeel_storage::{CheckpointMode, FileId, StorageConfig};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const HEAP: FileId = FileId(100);
const INDEX: FileId = FileId(101);
const KEYS: u64 = 60;

/// A row is its key, 8 bytes, and any more bytes.
type Content = BTreeMap<u64, Vec<u8>>;

struct FirstEight;

impl KeyExtractor for FirstEight {
    fn key(&self, row: &[u8], out: &mut Vec<u8>) -> evenkeel_engine::EngineResult<KeyKind> {
        out.extend_from_slice(&row[..8]);
        Ok(KeyKind::Unique)
    }
}

fn seed() -> u64 {
    let given = std::env::var("EVENKEEL_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or(20_260_822);
    println!("EVENKEEL_SEED={seed}");
    seed
}

fn open(disk: &SimDisk) -> Database {
    let config = Config {
        storage: StorageConfig::small(),
        ..Config::default()
    };
    Database::open(Arc::new(disk.clone()), Path::new("data"), config).expect("database opens")
}

fn def() -> TableDef {
    let key = Arc::new(FirstEight);
    let index = IndexDef {
        file: INDEX,
        unique: true,
        name: "key".into(),
        key,
        usable_after: None,
        deferrable: false,
    };
    TableDef {
        id: 1,
        heap: HEAP,
        fillfactor: 90,
        indexes: vec![index],
    }
}

fn create(db: &Database) -> Arc<Table> {
    let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
    txn.create_file_as(HEAP).unwrap();
    txn.create_file_as(INDEX).unwrap();
    BTree::create(db.store(), txn.xid().unwrap(), INDEX).unwrap();
    block_on(txn.commit(Durability::Sync)).unwrap();
    Table::open(db, def()).unwrap()
}

fn row(key: u64, value: &[u8]) -> Vec<u8> {
    [&key.to_be_bytes()[..], value].concat()
}

fn read_all(db: &Database, table: &Arc<Table>) -> Content {
    let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
    let mut scan = table.scan(&txn.snapshot().unwrap());
    let mut batch = RowBatch::new();
    let mut content = Content::new();
    while scan.next_page(&mut batch).unwrap() {
        for (_, row) in batch.iter() {
            let key = u64::from_be_bytes(row[..8].try_into().unwrap());
            let old = content.insert(key, row[8..].to_vec());
            assert!(old.is_none(), "key {key} is there twice");
        }
    }
    content
}

fn check(table: &Table) {
    let report = table.check().unwrap();
    assert!(report.is_ok(), "{:?}", report.problems);
}

/// Fails naming the keys that differ.
fn assert_same(found: &Content, expected: &Content, what: &str) {
    let keys = found.keys().chain(expected.keys());
    let wrong: Vec<_> = keys
        .filter(|key| found.get(key) != expected.get(key))
        .collect();
    assert!(wrong.is_empty(), "{what}: keys {wrong:?} differ");
}

/// Changes rows as `random` says, in the table and in the model.
fn change(table: &Arc<Table>, txn: &mut Transaction, model: &mut Content, random: &mut StdRng) {
    let key = random.random_range(0..KEYS);
    let value = vec![random.random::<u8>(); random.random_range(0..600)];
    txn.begin_statement().unwrap();
    let snapshot = txn.snapshot().unwrap();
    let mut found = RowBatch::new();
    table
        .index_lookup(&snapshot, 0, &key.to_be_bytes(), &mut found)
        .unwrap();
    drop(snapshot);
    assert_eq!(
        found.len(),
        usize::from(model.contains_key(&key)),
        "key {key}"
    );
    if found.is_empty() {
        block_on(table.insert(txn, &row(key, &value))).unwrap();
        model.insert(key, value);
    } else if random.random_range(0..3) == 0 {
        let done = block_on(table.delete(txn, found.handle(0).unwrap())).unwrap();
        assert!(matches!(done, Modified::Done(_)), "{done:?}");
        model.remove(&key);
    } else {
        let hint = if random.random() {
            KeyHint::Unchanged
        } else {
            KeyHint::Compare
        };
        let done =
            block_on(table.update(txn, found.handle(0).unwrap(), &row(key, &value), hint)).unwrap();
        assert!(matches!(done, Modified::Done(_)), "{done:?}");
        model.insert(key, value);
    }
}

/// One transaction: some changes, perhaps a part rolled back. Returns what it leaves behind if
/// it commits.
fn transaction(
    table: &Arc<Table>,
    txn: &mut Transaction,
    before: &Content,
    random: &mut StdRng,
) -> Content {
    let mut model = before.clone();
    for _ in 0..random.random_range(1..6) {
        change(table, txn, &mut model, random);
        if random.random_range(0..5) == 0 {
            let kept = model.clone();
            txn.savepoint("part");
            change(table, txn, &mut model, random);
            if random.random() {
                txn.rollback_to("part").unwrap();
                model = kept;
            } else {
                txn.release("part").unwrap();
            }
        }
    }
    model
}

fn maintain(db: &Database, table: &Table, random: &mut StdRng) {
    match random.random_range(0..20) {
        0 => db.store().checkpoint(CheckpointMode::Fast).unwrap(),
        1 => {
            table
                .vacuum(&VacuumOptions::default(), &mut |_| {})
                .unwrap();
        }
        _ => {}
    }
}

/// The states that transactions left behind, in order, and when the disk knew of each.
#[derive(Default)]
struct History {
    /// Content after each commit; the first is that of the new table.
    states: Vec<Content>,
    /// Operations of the disk when the commit was begun.
    begun: Vec<u64>,
    /// Operations of the disk when everything up to here was acknowledged as durable.
    durable: Vec<(u64, usize)>,
}

impl History {
    fn run(disk: &SimDisk, turns: usize, random: &mut StdRng) -> History {
        let db = open(disk);
        let table = create(&db);
        let mut history = History::default();
        history.states.push(Content::new());
        history.begun.push(disk.op_count());
        history.durable.push((disk.op_count(), 0));
        for _ in 0..turns {
            let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
            let before = &history.states[history.states.len() - 1];
            let after = transaction(&table, &mut txn, before, random);
            match random.random_range(0..8) {
                0 => txn.rollback(),
                durability => {
                    history.begun.push(disk.op_count());
                    history.states.push(after);
                    let sync = durability > 2;
                    let durability = if sync {
                        Durability::Sync
                    } else {
                        Durability::Async
                    };
                    block_on(txn.commit(durability)).unwrap();
                    if sync {
                        history
                            .durable
                            .push((disk.op_count(), history.states.len() - 1));
                    }
                }
            }
            maintain(&db, &table, random);
        }
        let last = &history.states[history.states.len() - 1];
        assert_same(&read_all(&db, &table), last, "before any crash");
        check(&table);
        history
    }

    /// A recovered database holds one of the states, none older than what was acknowledged.
    fn verify(&self, db: &Database, table: &Arc<Table>, index: u64, what: &str) {
        let acknowledged = self
            .durable
            .iter()
            .filter(|(at, _)| *at <= index)
            .map(|(_, n)| *n);
        let least = acknowledged.max().unwrap_or(0);
        let most = self.begun.iter().filter(|at| **at <= index).count();
        let content = read_all(db, table);
        let possible = &self.states[least..most];
        assert!(
            possible.contains(&content),
            "{what}: none of the states {least}..{most}"
        );
        check(table);
    }
}

#[test]
fn crashes_leave_whole_acknowledged_transactions() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let disk = SimDisk::new(seed);
    let history = History::run(&disk, 120, &mut random);
    let first = history.durable[0].0;
    let mut images = disk.images(seed);
    let mut index = first;
    while index <= images.end() {
        images.seek(index);
        let outcome_seed = seed ^ index;
        let image = images.image(evenkeel_io::Outcome::Mixed, outcome_seed);
        let what = format!("seed {seed}, power failed after operation {index}");
        verify_twice(&history, &image, index, &what, &mut random);
        index += random.random_range(1..=sample(30));
    }
}

/// Recovers, changes something, and recovers again from a crash behind that.
fn verify_twice(history: &History, disk: &SimDisk, index: u64, what: &str, random: &mut StdRng) {
    let again = {
        let db = open(disk);
        let table = Table::open(&db, def()).unwrap();
        history.verify(&db, &table, index, what);
        let before = read_all(&db, &table);
        let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
        let after = transaction(&table, &mut txn, &before, random);
        block_on(txn.commit(Durability::Sync)).unwrap();
        let again = if random.random() {
            disk.crash(index)
        } else {
            disk.process_crash()
        };
        (again, after)
    };
    let (disk, after) = again;
    let db = open(&disk);
    let table = Table::open(&db, def()).unwrap();
    assert_same(
        &read_all(&db, &table),
        &after,
        &format!("{what}, then again"),
    );
    check(&table);
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed ^ 0xdead);
    for turn in 0..6 {
        let disk = SimDisk::new(seed + turn);
        let history = History::run(&disk, 40, &mut random);
        let image = disk.process_crash();
        let db = open(&image);
        let table = Table::open(&db, def()).unwrap();
        history.verify(
            &db,
            &table,
            disk.op_count(),
            &format!("seed {seed}, turn {turn}"),
        );
    }
}

/// Money moves between accounts on several threads; the sum never changes, whenever power fails.
#[test]
fn concurrent_transfers_keep_the_sum_through_crashes() {
    const ACCOUNTS: u64 = 20;
    let seed = seed();
    let disk = SimDisk::new(seed);
    let db = open(&disk);
    let table = create(&db);
    let mut txn = db.begin(Isolation::ReadCommitted).unwrap();
    for account in 0..ACCOUNTS {
        block_on(table.insert(&mut txn, &row(account, &100_i64.to_be_bytes()))).unwrap();
    }
    block_on(txn.commit(Durability::Sync)).unwrap();
    let first = disk.op_count();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (db, table) = (&db, &table);
                let mut random = StdRng::seed_from_u64(seed + thread);
                scope.spawn(move || {
                    for _ in 0..60 {
                        transfer(db, table, ACCOUNTS, &mut random);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                assert_eq!(sum(&read_all(&db, &table)), 100 * ACCOUNTS as i64);
                table
                    .vacuum(&VacuumOptions::default(), &mut |_| {})
                    .unwrap();
            }
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        done.store(true, Ordering::SeqCst);
    });
    check(&table);
    let mut random = StdRng::seed_from_u64(seed);
    let mut images = disk.images(seed);
    let mut index = first;
    while index <= images.end() {
        images.seek(index);
        let image = images.image(evenkeel_io::Outcome::Mixed, seed ^ index);
        let db = open(&image);
        let table = Table::open(&db, def()).unwrap();
        let what = format!("seed {seed}, power failed after operation {index}");
        assert_eq!(sum(&read_all(&db, &table)), 100 * ACCOUNTS as i64, "{what}");
        check(&table);
        index += random.random_range(1..60);
    }
}

fn sum(content: &Content) -> i64 {
    content
        .values()
        .map(|value| i64::from_be_bytes(value[..8].try_into().unwrap()))
        .sum()
}

/// Moves one unit between two accounts in any order, so that deadlocks happen; a victim and a
/// transaction that cannot be serialised give up.
fn transfer(db: &Database, table: &Arc<Table>, accounts: u64, random: &mut StdRng) {
    let isolation = if random.random() {
        Isolation::ReadCommitted
    } else {
        Isolation::RepeatableRead
    };
    let mut txn = db.begin(isolation).unwrap();
    let from = random.random_range(0..accounts);
    let to = (from + random.random_range(1..accounts)) % accounts;
    let moved = add(table, &mut txn, from, -1).and_then(|()| add(table, &mut txn, to, 1));
    match moved {
        Ok(()) => block_on(txn.commit(Durability::Sync)).unwrap(),
        Err(EngineError::Deadlock { .. } | EngineError::SerializationFailure { .. }) => {
            txn.rollback();
        }
        Err(error) => panic!("{error}"),
    }
}

fn add(
    table: &Arc<Table>,
    txn: &mut Transaction,
    account: u64,
    amount: i64,
) -> Result<(), EngineError> {
    txn.begin_statement()?;
    let snapshot = txn.snapshot()?;
    let mut found = RowBatch::new();
    table.index_lookup(&snapshot, 0, &account.to_be_bytes(), &mut found)?;
    drop(snapshot);
    assert_eq!(found.len(), 1, "account {account}");
    let mut old = found.handle(0).expect("a row that was read");
    let mut bytes = found.row(0).to_vec();
    loop {
        let balance = i64::from_be_bytes(bytes[8..16].try_into().unwrap()) + amount;
        let new = row(account, &balance.to_be_bytes());
        match block_on(table.update(txn, old, &new, KeyHint::Compare))? {
            Modified::Done(_) => return Ok(()),
            Modified::Changed { newest } => {
                old = newest;
                bytes = table
                    .fetch_locked(newest)?
                    .expect("a locked row is there")
                    .bytes;
            }
            other => panic!("account {account}: {other:?}"),
        }
    }
}
