//! TXN-12: a record that takes commits' effects from snapshots names the newest of them.

use std::collections::{BTreeMap, HashMap};

use evenkeel_storage::page::PageBuf;
use evenkeel_storage::wal::dump;
use evenkeel_storage::wal::record::FieldReader;
use evenkeel_storage::{
    ApplyContext, BlockNumber, Fork, Lsn, PageId, PartFlags, RecordKind, RecordView, RemovalLsn,
};

use super::*;
use crate::btree::redo::op as tree;
use crate::heap::layout::HeapRead;
use crate::heap::ops::{FREEZE_XMIN, OP_MULTI_INSERT, OP_PRUNE, Prune, SET_VISIBLE};
use crate::rmgr::redo;
use crate::table::InsertOptions;
use crate::txn::record::{COMMIT, Ending};
use crate::types::Xid;
use crate::vacuum::IndexCleanup;
use crate::vm::redo::OP_CHANGE;

/// The log of a database from its beginning, with pages as it makes them.
#[derive(Default)]
struct Walk {
    commits: HashMap<Xid, Lsn>,
    dropped: HashMap<FileId, Lsn>,
    pages: HashMap<PageId, PageBuf>,
    unlinked: HashMap<PageId, Lsn>,
    /// The newest commit whose rows became dead slots, and whose entries are to be removed.
    killed: Lsn,
    /// The newest commit that a record about a page of the heap has removed.
    newest_by_page: HashMap<PageId, Lsn>,
    /// How many records removed something, by what they did.
    seen: BTreeMap<String, u32>,
    /// Every commit is above the tail of the window.
    exact: bool,
    /// Nobody but one vacuum has made slots dead.
    exact_entries: bool,
}

impl Walk {
    fn of(disk: &SimDisk, exact: bool) -> Walk {
        let mut walk = Walk {
            exact,
            ..Walk::default()
        };
        walk.read(disk);
        walk
    }

    fn read(&mut self, disk: &SimDisk) {
        self.each(disk, Walk::note_commit);
        self.each(disk, Walk::check);
    }

    fn each(&mut self, disk: &SimDisk, mut visit: impl FnMut(&mut Walk, &RecordView<'_>)) {
        let (_, mut reader) = dump::open(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
        while let Some(record) = reader.next_record().unwrap() {
            visit(self, &record);
        }
    }

    fn note_commit(&mut self, record: &RecordView<'_>) {
        if record.kind() != COMMIT {
            return;
        }
        let xid = Xid::new(record.xid());
        let ending = Ending::decode(xid, record.payload()).unwrap();
        for xid in std::iter::once(xid).chain(ending.subxids) {
            self.commits.insert(xid, record.lsn());
        }
        for file in ending.dropped {
            self.dropped.insert(file, record.lsn());
        }
    }

    fn commit_of(&self, xid: Xid) -> Lsn {
        self.commits.get(&xid).copied().unwrap_or_default()
    }

    /// The record names the newest commit that it removes: no earlier one, and where that is known
    /// no later one.
    fn assert_names(&mut self, record: &RecordView<'_>, what: &str, newest: Lsn, exact: bool) {
        let named = match record.removal() {
            Some(RemovalLsn::Commit(lsn)) => lsn,
            None => Lsn::ZERO,
            Some(RemovalLsn::Own) => panic!("{what}: {record:?}"),
        };
        if newest > Lsn::ZERO {
            *self.seen.entry(what.to_owned()).or_default() += 1;
        }
        if exact {
            assert_eq!(named, newest, "{what}: {record:?}");
        }
        assert!(named >= newest, "{what}: {named}, {newest}: {record:?}");
        assert!(named < record.lsn(), "{what}: {record:?}");
    }

    fn check(&mut self, record: &RecordView<'_>) {
        match record.kind() {
            RecordKind::FILE_DROP => {
                let mut files = FieldReader::new(record.payload());
                let mut newest = Lsn::ZERO;
                while let Ok(file) = files.u64() {
                    let dropped = self.dropped.get(&FileId(file)).copied();
                    newest = newest.max(dropped.unwrap_or_default());
                }
                self.assert_names(record, "FILE_DROP", newest, true);
            }
            RecordKind::TRUNCATE => {
                let mut fields = FieldReader::new(record.payload());
                let (file, from) = (FileId(fields.u64().unwrap()), fields.u32().unwrap());
                let cut = |page: &PageId| page.file == file && page.block.0 >= from;
                let newest = self.newest_by_page.iter().filter(|(page, _)| cut(page));
                let newest = newest.map(|(_, lsn)| *lsn).max().unwrap_or_default();
                self.assert_names(record, "TRUNCATE", newest, false);
            }
            _ => self.check_parts(record),
        }
        for part in record.parts() {
            let page = self.pages.entry(part.page).or_insert_with(PageBuf::zeroed);
            if part.flags.contains(PartFlags::INIT) {
                page.page_mut().zero();
            }
            let cx = ApplyContext {
                lsn: record.lsn(),
                page_id: part.page,
            };
            redo::apply(part.op, &mut page.page_mut(), part.data, &cx).unwrap();
            page.page_mut().set_lsn(record.lsn());
            if part.op == tree::UNLINK {
                self.unlinked.insert(part.page, record.lsn());
            }
        }
    }

    fn check_parts(&mut self, record: &RecordView<'_>) {
        let sets = |data: &[u8]| data[4] != 0;
        let shows = record
            .parts()
            .any(|part| part.op == OP_CHANGE && sets(part.data));
        let exact = self.exact;
        for part in record.parts() {
            match part.op {
                OP_PRUNE => {
                    let op = Prune::decode(part.data).unwrap();
                    let (newest, killed) = self.pruned(part.page, &op, shows);
                    self.killed = self.killed.max(killed);
                    let of_page = self.newest_by_page.entry(part.page).or_default();
                    *of_page = newest.max(*of_page);
                    let what = match (shows, op.freeze.is_empty()) {
                        (_, false) => "FREEZE",
                        (true, _) => "SET_VISIBLE",
                        _ => "PRUNE",
                    };
                    self.assert_names(record, what, newest, exact);
                }
                OP_MULTI_INSERT => {
                    let frozen = part.data[6..8] != [0, 0];
                    let expected = frozen.then_some(RemovalLsn::Own);
                    assert_eq!(record.removal(), expected, "{record:?}");
                    *self.seen.entry("FROZEN".into()).or_default() += u32::from(frozen);
                }
                tree::DELETE_ITEMS | tree::REMOVE_DOWNLINK => {
                    let what = crate::describe::operation_name(part.op);
                    self.assert_names(record, &what, self.killed, self.exact_entries);
                }
                tree::NODE => {
                    let unlinked = self.unlinked.remove(&part.page).unwrap_or_default();
                    self.assert_names(record, "reuse", unlinked, true);
                }
                _ => {}
            }
        }
    }

    /// The newest commit that a prune removes, and of those the newest that leaves a dead slot.
    fn pruned(&self, id: PageId, op: &Prune, shows: bool) -> (Lsn, Lsn) {
        let page = &self.pages[&id];
        let deleter = |slot: u16| match page.tuple_at(slot) {
            Some((offset, _)) => self.commit_of(page.header(offset).xmax),
            None => Lsn::ZERO,
        };
        let inserter = |slot: u16| match page.tuple_at(slot) {
            Some((offset, _)) => self.commit_of(page.header(offset).xmin),
            None => Lsn::ZERO,
        };
        let moved = op.redirect.iter().map(|(slot, _)| *slot);
        let gone: Vec<u16> = moved
            .chain(op.dead.clone())
            .chain(op.unused.clone())
            .collect();
        let frozen = op.freeze.iter().filter(|run| run.what & FREEZE_XMIN != 0);
        let frozen = frozen.flat_map(|run| run.slots().collect::<Vec<_>>());
        let mut newest = gone.iter().map(|slot| deleter(*slot)).max();
        newest = newest.max(frozen.map(inserter).max());
        if shows || op.bits & SET_VISIBLE != 0 {
            let left = (1..=page.slots()).filter(|slot| !gone.contains(slot));
            newest = newest.max(left.map(inserter).max());
        }
        let newest = newest.unwrap_or_default();
        (
            newest,
            if op.dead.is_empty() {
                Lsn::ZERO
            } else {
                newest
            },
        )
    }
}

fn database(disk: &SimDisk) -> Database {
    let mut storage = StorageConfig::small();
    storage.shared_buffers = 4096 * 8192;
    // Without a checkpoint, which would take the beginning of pages out of the log.
    storage.max_wal_size = 256 << 20;
    let config = Config {
        storage,
        ..Config::default()
    };
    Database::open(Arc::new(disk.clone()), Path::new(DIR), config).unwrap()
}

/// Rows with long keys come and go, so that pages of the heap and of its indexes do.
fn work(f: &Fixture, round: u32) {
    let mut rows = RowBatch::new();
    for n in 0..1500 {
        let row = format!("{round}{:05}{}:{n}", n * 7919 % 10_000, "k".repeat(90));
        rows.push(Tid::new(BlockNumber(0), 0), row.as_bytes());
    }
    f.commit(|txn| {
        block_on(f.table.insert_many(txn, &rows, &InsertOptions::default())).unwrap();
    });
    let all = f.commit(|txn| f.scan(&txn.snapshot().unwrap()));
    for (at, rows) in all.chunks(200).enumerate() {
        let mut txn = f.begin();
        txn.begin_statement().unwrap();
        for (tid, row) in rows {
            if at.is_multiple_of(3) {
                f.update(&mut txn, *tid, row).unwrap();
            } else {
                f.delete(&mut txn, *tid).unwrap();
            }
        }
        if at.is_multiple_of(5) {
            txn.rollback();
        } else {
            end(txn);
        }
    }
}

fn delete_all(f: &Fixture) {
    f.commit(|txn| {
        txn.begin_statement().unwrap();
        for (tid, _) in f.scan(&txn.snapshot().unwrap()) {
            f.delete(txn, tid).unwrap();
        }
    });
}

fn until_dropped(f: &Fixture, file: FileId) {
    let start = std::time::Instant::now();
    while f.db.pool().files().exists(file, Fork::Main).unwrap() {
        assert!(start.elapsed().as_secs() < 20, "the file is still there");
        std::thread::yield_now();
    }
}

/// A table made and filled with frozen rows, and dropped by the next transaction.
fn frozen_table(f: &Fixture) {
    let mut txn = f.begin();
    let file = txn.create_file().unwrap();
    let table = Table::open(&f.db, def(&[file], 100)).unwrap();
    let options = InsertOptions {
        freeze: true,
        ..InsertOptions::default()
    };
    let mut rows = RowBatch::new();
    rows.push(Tid::new(BlockNumber(0), 0), b"1:frozen");
    block_on(table.insert_many(&mut txn, &rows, &options)).unwrap();
    end(txn);
    drop(table);
    f.commit(|txn| txn.drop_file(file).unwrap());
    until_dropped(f, file);
    let mut undone = f.begin();
    let file = undone.create_file().unwrap();
    drop(undone);
    until_dropped(f, file);
}

fn vacuum(f: &Fixture, freeze: bool) {
    f.vacuum(&VacuumOptions {
        freeze,
        truncate: true,
        index_cleanup: IndexCleanup::On,
        ..VacuumOptions::default()
    });
}

/// With an old transaction under way all commits are in the window.
#[test]
fn a_removal_is_named_exactly_while_its_commit_is_known() {
    let disk = SimDisk::new(11);
    let db = database(&disk);
    let mut idle = db.begin(Isolation::ReadCommitted).unwrap();
    idle.xid().unwrap();
    let f = Fixture::on(&disk, db, 2, 100);
    work(&f, 1);
    vacuum(&f, false);
    frozen_table(&f);
    f.db.store().log().flush_all().unwrap();
    let walk = Walk::of(&disk, true);
    for what in [
        "FILE_DROP",
        "FROZEN",
        "PRUNE",
        "SET_VISIBLE",
        "btree DELETE_ITEMS",
    ] {
        assert!(walk.seen.contains_key(what), "{what}: {:?}", walk.seen);
    }
    drop(idle);
}

#[test]
fn a_vacuum_names_what_removed_the_rows_whose_entries_it_removes() {
    let disk = SimDisk::new(14);
    let db = database(&disk);
    let mut idle = db.begin(Isolation::ReadCommitted).unwrap();
    idle.xid().unwrap();
    let f = Fixture::on(&disk, db, 2, 100);
    let tids: Vec<Tid> = (0..3000).map(|n| f.put(&format!("{n:05}:{n}"))).collect();
    for tids in tids.chunks(500) {
        f.commit(|txn| {
            for tid in tids {
                f.delete(txn, *tid).unwrap();
            }
        });
        f.commit(|txn| txn.xid().unwrap());
    }
    vacuum(&f, false);
    f.db.store().log().flush_all().unwrap();
    let mut walk = Walk {
        exact: true,
        exact_entries: true,
        ..Walk::default()
    };
    walk.read(&disk);
    for what in [
        "PRUNE",
        "TRUNCATE",
        "btree DELETE_ITEMS",
        "btree REMOVE_DOWNLINK",
    ] {
        assert!(walk.seen.contains_key(what), "{what}: {:?}", walk.seen);
    }
    drop(idle);
}

/// Behind the tail of the window it is the newest commit there.
#[test]
fn a_removal_is_never_older_than_what_is_removed() {
    let disk = SimDisk::new(12);
    let f = Fixture::on(&disk, database(&disk), 2, 100);
    for round in 1..=4 {
        work(&f, round);
        vacuum(&f, round % 2 == 0);
        f.put(&format!("{round}:between"));
    }
    // Until the pages of the trees can be used again.
    delete_all(&f);
    for round in 5..=8 {
        vacuum(&f, false);
        let tid = f.put(&format!("{round}:between"));
        f.commit(|txn| f.delete(txn, tid).map(drop).unwrap());
    }
    work(&f, 9);
    frozen_table(&f);
    f.db.store().log().flush_all().unwrap();
    let walk = Walk::of(&disk, false);
    for what in [
        "FREEZE",
        "PRUNE",
        "SET_VISIBLE",
        "btree DELETE_ITEMS",
        "reuse",
    ] {
        assert!(walk.seen.contains_key(what), "{what}: {:?}", walk.seen);
    }
}

/// After a start nothing is known of single commits, but of the newest.
#[test]
fn a_start_knows_the_newest_commit_that_may_be_removed() {
    let disk = SimDisk::new(13);
    let f = Fixture::on(&disk, database(&disk), 1, 100);
    work(&f, 1);
    f.db.store().log().flush_all().unwrap();
    let newest = f.db.system().core.publisher.newest_commit();
    let crashed = disk.crash(1);
    f.db.close().unwrap();
    drop(f);
    for (disk, ended) in [(disk, "closed"), (crashed, "crashed")] {
        let db = database(&disk);
        let core = &db.system().core;
        assert!(newest > Lsn::ZERO, "{ended}");
        assert_eq!(core.window.settled(), newest, "{ended}");
        assert_eq!(core.removal_bound(), newest, "{ended}");
    }
}
