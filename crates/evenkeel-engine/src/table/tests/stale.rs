//! Files of tables, indexes, maps and transaction status that are missing, cut, zeroed or older
//! than they were: named, or harmless.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_io::{Disk, OpenOptions};

use super::*;

/// A sequence of numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }
}

type Model = BTreeMap<String, String>;

/// A transaction with a few changes; one in four is rolled back.
fn change(f: &Fixture, model: &mut Model, numbers: &mut Numbers) -> Result<(), String> {
    let mut after = model.clone();
    let mut txn = f.begin();
    for _ in 0..numbers.below(8) + 1 {
        let key = format!("{:03}", numbers.below(150));
        let row = format!("{key}:{}", "r".repeat(20 + numbers.below(300)));
        txn.begin_statement().map_err(|error| error.to_string())?;
        let snapshot = txn.snapshot().map_err(|error| error.to_string())?;
        let mut batch = RowBatch::new();
        let wanted = super::key(&key);
        let found = f.table.index_lookup(&snapshot, BY_KEY, &wanted, &mut batch);
        found.map_err(|error| error.to_string())?;
        let found = batch.iter().next().map(|(tid, _)| tid);
        let done = match found {
            None => f.insert(&mut txn, &row).map(|_| ()),
            Some(tid) if numbers.below(6) == 0 => {
                after.remove(&key);
                let deleted = f.delete(&mut txn, tid);
                deleted.map(|_| ()).map_err(|error| error.to_string())?;
                continue;
            }
            Some(tid) => f.update(&mut txn, tid, &row).map(|_| ()),
        };
        done.map_err(|error| error.to_string())?;
        after.insert(key, row);
    }
    if numbers.below(4) == 0 {
        txn.rollback();
        return Ok(());
    }
    block_on(txn.commit(Durability::Sync)).map_err(|error| error.to_string())?;
    *model = after;
    Ok(())
}

/// Vacuum, which may fail where a page is damaged.
fn vacuum(f: &Fixture, numbers: &mut Numbers) -> Result<(), String> {
    let options = VacuumOptions {
        freeze: numbers.below(3) == 0,
        ..VacuumOptions::default()
    };
    let done = f.table.vacuum(&options, &mut |_| {});
    done.map(|_| ()).map_err(|error| error.to_string())
}

/// All rows by the heap and by each index, as long as none of them fails.
fn read(f: &Fixture) -> Result<Vec<Vec<String>>, String> {
    let mut txn = f.begin();
    txn.begin_statement().map_err(|error| error.to_string())?;
    let snapshot = txn.snapshot().map_err(|error| error.to_string())?;
    let mut ways = Vec::new();
    let mut batch = RowBatch::new();
    let mut rows = Vec::new();
    let mut scan = f.table.scan(&snapshot);
    while scan
        .next_page(&mut batch)
        .map_err(|error| error.to_string())?
    {
        rows.extend(batch.iter().map(|(_, row)| text(row)));
    }
    ways.push(rows);
    for index in 0..f.table.def().indexes.len() {
        let range = crate::table::KeyRange::all();
        let direction = crate::table::Direction::Forward;
        let scan = f.table.index_scan(&snapshot, index, &range, direction);
        let mut scan = scan.map_err(|error| error.to_string())?;
        let mut rows = Vec::new();
        while scan
            .next_page(&mut batch)
            .map_err(|error| error.to_string())?
        {
            rows.extend(batch.iter().map(|(_, row)| text(row)));
        }
        ways.push(rows);
    }
    for rows in &mut ways {
        rows.sort();
    }
    Ok(ways)
}

/// Data files, whatever their kind.
fn data_files(disk: &SimDisk) -> Vec<PathBuf> {
    let dirs = ["base", "status"].map(|name| Path::new(DIR).join(name));
    let names = |dir: &PathBuf| {
        let names = disk.list(dir).unwrap();
        names
            .into_iter()
            .map(|name| dir.join(name))
            .collect::<Vec<_>>()
    };
    dirs.iter().flat_map(names).collect()
}

fn content(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenOptions::read_only()).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    let len = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(len);
    bytes
}

const DAMAGES: usize = 6;

fn damage(disk: &SimDisk, path: &Path, old: &[u8], numbers: &mut Numbers) -> &'static str {
    let open = || disk.open(path, OpenOptions::create()).unwrap();
    let len = open().len().unwrap() as usize;
    let at = numbers.below(len / 8192) * 8192;
    let zeroes = |len: usize, at: usize| {
        open().write_all_at(&vec![0; len], at as u64).unwrap();
    };
    match numbers.below(DAMAGES) {
        0 => {
            disk.remove(path).unwrap();
            "removed"
        }
        1 => {
            open().set_len(at as u64).unwrap();
            "cut"
        }
        2 => {
            zeroes(len, 0);
            "zeroed"
        }
        3 => {
            zeroes(len.min(8192), at);
            "a block zeroed"
        }
        4 => {
            open().set_len(0).unwrap();
            open().write_all_at(old, 0).unwrap();
            "replaced by an older copy"
        }
        _ => {
            if let Some(page) = old.get(at..at + 8192) {
                open().write_all_at(page, at as u64).unwrap();
            }
            "a block replaced by an older copy"
        }
    }
}

/// Looks for the damage in the order in which a user would meet it. Returns the first error, if
/// there is one.
fn meet(f: &Fixture, model: &mut Model, numbers: &mut Numbers) -> Result<(), String> {
    let expected: Vec<String> = model.values().cloned().collect();
    for rows in read(f)? {
        assert_eq!(rows, expected, "other rows, in silence");
    }
    // A check finds damage that a user has not met yet.
    let pages =
        f.db.check_pages(&mut |_| {})
            .map_err(|error| error.to_string())?;
    if let Some(problem) = pages.problems.first() {
        return Err(problem.clone());
    }
    let report = f.table.check().map_err(|error| error.to_string())?;
    assert!(report.is_ok(), "not named as damage: {:?}", report.problems);
    for _ in 0..10 {
        change(f, model, numbers)?;
    }
    vacuum(f, numbers)?;
    let expected: Vec<String> = model.values().cloned().collect();
    for rows in read(f)? {
        assert_eq!(rows, expected, "other rows later, in silence");
    }
    Ok(())
}

/// The files as they were at some time, and the rows as they are at the end.
fn workload(f: &Fixture, model: &mut Model, numbers: &mut Numbers) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut old = BTreeMap::new();
    let rounds = 8 + numbers.below(8);
    let copied = numbers.below(rounds);
    for round in 0..rounds {
        if round == copied {
            let files = data_files(&f.disk).into_iter();
            old = files
                .map(|path| (path.clone(), content(&f.disk, &path)))
                .collect();
        }
        for _ in 0..numbers.below(12) {
            change(f, model, numbers).unwrap();
        }
        match numbers.below(4) {
            0 => f.db.checkpoint().unwrap(),
            1 => vacuum(f, numbers).unwrap(),
            _ => {}
        }
    }
    old
}

/// One file of a database that has crashed or was closed is damaged: whether that is named.
fn trial(seed: u64) -> bool {
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // Fewer frames than pages, sometimes.
    let frames = [32, 1024][numbers.below(2)];
    let f = Fixture::with(2, 100, Some(frames));
    let mut model = Model::new();
    let old = workload(&f, &mut model, &mut numbers);
    let mut open = f.begin();
    f.insert(&mut open, "open:1").unwrap();
    let is_clean = numbers.below(2) == 0;
    let image = if is_clean {
        open.rollback();
        f.db.close().unwrap();
        f.disk.process_crash()
    } else {
        f.db.store().log().flush_all().unwrap();
        f.disk.crash(seed)
    };
    let files = data_files(&image);
    let path = &files[numbers.below(files.len())];
    let old = old.get(path).map(Vec::as_slice).unwrap_or_default();
    let done = damage(&image, path, old, &mut numbers);
    let what = format!(
        "seed {seed}, clean end {is_clean}: {}: {done}",
        path.display()
    );
    let met = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut storage = StorageConfig::small();
        storage.shared_buffers = frames * 8192;
        let config = Config {
            storage,
            ..Config::default()
        };
        let db = Database::open(Arc::new(image.clone()), Path::new(DIR), config);
        let db = db.map_err(|error| error.to_string())?;
        let table = Table::open(&db, f.table.def().clone()).map_err(|error| error.to_string())?;
        let g = Fixture {
            disk: image,
            db,
            files: f.files.clone(),
            table,
        };
        meet(&g, &mut model, &mut numbers)
    }));
    let met = met.unwrap_or_else(|_| panic!("{what}"));
    if let Err(error) = &met {
        let number = path.file_name().unwrap().to_string_lossy();
        let number = number.split(['_', '.']).next().unwrap();
        assert!(error.contains(number), "{what}: not named by {error}");
    }
    met.is_err()
}

/// `EVENKEEL_DAMAGE_TRIALS` says how many; the seeds count from one.
#[test]
fn a_damaged_relation_is_named_or_harmless() {
    let trials = std::env::var("EVENKEEL_DAMAGE_TRIALS").ok();
    let trials = trials.map_or(40, |trials| trials.parse().unwrap());
    let named = (1..=trials).filter(|seed| trial(*seed)).count();
    println!("{trials} trials: {named} named, the others harmless");
    assert!(named > 0);
}
