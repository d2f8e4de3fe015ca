//! Looks at a recovered database: its files, and every table along every path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::heap::RowBatch;
use evenkeel_engine::table::{Direction, KeyRange};
use evenkeel_engine::{Database, EngineError, Isolation, Table};

use crate::model::{Rows, State, TableState};
use crate::schema::{CATALOG_HEAP, CATALOG_INDEX, Files, catalog_def, decode_row, in_group_index};

#[expect(clippy::needless_pass_by_value, reason = "used by map_err")]
fn text(error: EngineError) -> String {
    format!("error {}: {error}", error.sqlstate())
}

/// The content of a database that was opened just now; none if not even the catalog is there. Says
/// what is wrong with pages, indexes and files: recovery has removed all that nobody has.
pub fn read_recovered(db: &Database) -> Result<Option<State>, String> {
    if list_files(db)?.is_empty() {
        return Ok(None);
    }
    let state = read_state(db)?;
    check_files(db, &state)?;
    Ok(Some(state))
}

/// The content of a database in use. Its own thread removes files that transactions have left; it
/// is given some time.
pub fn read_live(db: &Database) -> Result<State, String> {
    let state = read_state(db)?;
    for _ in 0..1000 {
        if check_files(db, &state).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    check_files(db, &state)?;
    Ok(state)
}

fn check_files(db: &Database, state: &State) -> Result<(), String> {
    let files = list_files(db)?;
    let tables = state.tables.values();
    let mut expected: BTreeSet<_> = tables
        .flat_map(|table| table.files.all())
        .map(|file| file.0)
        .collect();
    expected.extend([CATALOG_HEAP.0, CATALOG_INDEX.0]);
    if files == expected {
        return Ok(());
    }
    let extra: Vec<_> = files.difference(&expected).collect();
    let missing: Vec<_> = expected.difference(&files).collect();
    Err(format!("files nobody has: {extra:?}; missing: {missing:?}"))
}

fn read_state(db: &Database) -> Result<State, String> {
    if let Some(damaged) = db.store().damaged_pages().first() {
        return Err(format!("{} is set aside: {}", damaged.page, damaged.reason));
    }
    let catalog = Table::open(db, catalog_def()).map_err(text)?;
    let mut state = State::default();
    let scanned = scan_rows(db, &catalog)?;
    let indexed = index_rows(db, &catalog, 0, Direction::Forward)?;
    if scanned.values().collect::<BTreeSet<_>>() != indexed.iter().collect() {
        return Err("the catalog and its index differ".into());
    }
    check(&catalog)?;
    for row in indexed {
        let (number, files) = Files::decode(&row).ok_or("a catalog row is damaged")?;
        let rows = read_table(db, number, &files).map_err(|e| format!("table {number}: {e}"))?;
        let table = Arc::new(TableState { files, rows });
        if state.tables.insert(number, table).is_some() {
            return Err(format!("table {number} is in the catalog twice"));
        }
    }
    Ok(state)
}

/// Numbers of the data files that there are. Names that no data file has are an error.
pub fn list_files(db: &Database) -> Result<BTreeSet<u64>, String> {
    const KNOWN: [&str; 12] = [
        "base",
        "control",
        "damaged",
        "doublewrite.0",
        "doublewrite.1",
        "evenkeel.pid",
        "manifest.0",
        "manifest.1",
        "reserve",
        "status",
        "temp",
        "wal",
    ];
    let (disk, dir) = (db.store().disk(), db.store().dir());
    let list = |dir: &Path| disk.list(dir).map_err(|error| error.to_string());
    if let Some(name) = list(dir)?.iter().find(|name| !KNOWN.contains(&&***name)) {
        return Err(format!("a file called {name} was left behind"));
    }
    if let Some(name) = list(&dir.join("temp"))?.first() {
        return Err(format!("a temporary file called {name} was left behind"));
    }
    let mut files = BTreeSet::new();
    for name in list(&dir.join("base"))? {
        let number = name.split(['_', '.']).next().unwrap_or_default();
        files.insert(number.parse().map_err(|_| format!("file base/{name}"))?);
    }
    Ok(files)
}

/// All rows of a table, the same by heap scan and by each index both ways.
fn read_table(db: &Database, number: u64, files: &Files) -> Result<Rows, String> {
    let table = Table::open(db, files.def(number)).map_err(text)?;
    let mut rows = Rows::new();
    let scanned = scan_rows(db, &table)?;
    for bytes in scanned.values() {
        let (key, row) = decode_row(bytes).ok_or("a row is damaged")?;
        if rows.insert(key, row).is_some() {
            return Err(format!("key {key} is there twice"));
        }
    }
    let mut by_key: Vec<_> = scanned.values().cloned().collect();
    by_key.sort_unstable_by(|a, b| a[..8].cmp(&b[..8]));
    compare(db, &table, 0, &by_key)?;
    if files.group.is_some() {
        let mut by_group: Vec<_> = scanned.into_iter().collect();
        let group = |bytes: &[u8]| u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        by_group.retain(|(_, bytes)| in_group_index(group(bytes)));
        by_group.sort_by_key(|(_, bytes)| group(bytes));
        let groups: Vec<_> = by_group.iter().map(|(_, bytes)| group(bytes)).collect();
        let found = index_rows(db, &table, 1, Direction::Forward)?;
        let found_groups: Vec<_> = found.iter().map(|bytes| group(bytes)).collect();
        if found_groups != groups {
            return Err("the index of groups is out of order or incomplete".into());
        }
        let set: BTreeSet<_> = by_group.into_iter().map(|(_, bytes)| bytes).collect();
        if found.into_iter().collect::<BTreeSet<_>>() != set {
            return Err("the index of groups leads to other rows".into());
        }
        let backward = index_rows(db, &table, 1, Direction::Backward)?;
        if backward.into_iter().collect::<BTreeSet<_>>() != set {
            return Err("the index of groups leads to other rows backwards".into());
        }
    }
    check(&table)?;
    Ok(rows)
}

fn compare(
    db: &Database,
    table: &Arc<Table>,
    index: usize,
    rows: &[Vec<u8>],
) -> Result<(), String> {
    let forward = index_rows(db, table, index, Direction::Forward)?;
    if forward != rows {
        return Err(format!(
            "index {index} gives {} rows, the heap has {}",
            forward.len(),
            rows.len()
        ));
    }
    let mut backward = index_rows(db, table, index, Direction::Backward)?;
    backward.reverse();
    if backward != rows {
        return Err(format!("index {index} gives other rows backwards"));
    }
    Ok(())
}

fn check(table: &Table) -> Result<(), String> {
    let report = table.check().map_err(text)?;
    if report.is_ok() {
        return Ok(());
    }
    Err(format!("{:?}", report.problems))
}

/// Rows by place.
fn scan_rows(db: &Database, table: &Arc<Table>) -> Result<BTreeMap<(u32, u16), Vec<u8>>, String> {
    let mut txn = db.begin(Isolation::ReadCommitted).map_err(text)?;
    let mut scan = table.scan(&txn.snapshot().map_err(text)?);
    let mut batch = RowBatch::new();
    let mut rows = BTreeMap::new();
    while scan.next_page(&mut batch).map_err(text)? {
        rows.extend(
            batch
                .iter()
                .map(|(tid, row)| ((tid.block.0, tid.slot), row.to_vec())),
        );
    }
    Ok(rows)
}

/// Rows in the order of an index.
fn index_rows(
    db: &Database,
    table: &Arc<Table>,
    index: usize,
    direction: Direction,
) -> Result<Vec<Vec<u8>>, String> {
    let mut txn = db.begin(Isolation::ReadCommitted).map_err(text)?;
    let snapshot = txn.snapshot().map_err(text)?;
    let range = KeyRange::all();
    let mut scan = table
        .index_scan(&snapshot, index, &range, direction)
        .map_err(text)?;
    let mut batch = RowBatch::new();
    let mut rows = Vec::new();
    while scan.next_page(&mut batch).map_err(text)? {
        rows.extend(batch.iter().map(|(_, row)| row.to_vec()));
    }
    Ok(rows)
}
