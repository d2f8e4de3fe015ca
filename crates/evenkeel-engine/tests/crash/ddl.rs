//! Changes of tables: created, indexed, truncated by new files, dropped; each with its row in
//! the catalog, in the same transaction.

use std::sync::Arc;

use evenkeel_engine::btree::BTree;
use evenkeel_engine::heap::RowBatch;
use evenkeel_engine::table::{InsertOptions, Modified};
use evenkeel_engine::{EngineResult, FileId, Isolation, Table, block_on};
use rand::Rng;

use crate::model::TableDelta;
use crate::schema::{Files, group_index};
use crate::workload::{Driver, KEYS, SLOTS};

/// Tables have numbers from 1 to this.
pub const TABLES: u64 = 3;

impl Driver {
    pub fn ddl(&mut self, slot: usize) -> EngineResult<()> {
        let number = self.random.random_range(1..=TABLES);
        if self.is_taken(slot, number)
            || self.is_used(slot, number)
            || self.slot(slot).txn.isolation() != Isolation::ReadCommitted
        {
            return Ok(());
        }
        let choice = self.random.random_range(0..10);
        let own = self.slot(slot);
        own.exclusive.insert(number);
        own.used.insert(number);
        own.txn.begin_statement()?;
        match (self.handle(slot, number), choice) {
            (None, _) => self.create_table(slot, number),
            (Some(_), 0) => self.drop_table(slot, number),
            (Some(_), 1) => self.truncate(slot, number),
            (Some(table), 2..5) => self.toggle_index(slot, number, &table),
            (Some(table), 5) => self.empty(slot, number, &table),
            // Most of the time tables are used, not made.
            (Some(table), _) => self.insert_run(slot, number, &table),
        }
    }

    fn new_tree(&mut self, slot: usize) -> EngineResult<FileId> {
        let store = Arc::clone(self.db.store());
        let txn = &mut self.slot(slot).txn;
        let file = txn.create_file()?;
        BTree::create(&store, txn.xid()?, file)?;
        Ok(file)
    }

    fn new_files(&mut self, slot: usize, group: bool) -> EngineResult<Files> {
        Ok(Files {
            heap: self.slot(slot).txn.create_file()?,
            unique: self.new_tree(slot)?,
            group: if group {
                Some(self.new_tree(slot)?)
            } else {
                None
            },
        })
    }

    /// From here on the transaction uses these files for the table.
    fn switch(&mut self, slot: usize, number: u64, files: Files) -> EngineResult<Arc<Table>> {
        let table = Table::open(&self.db, files.def(number))?;
        self.log(slot, format_args!("table {number} now has {files:?}"));
        self.delta(slot, number).files = Some(files);
        self.slot(slot).handles.insert(number, Arc::clone(&table));
        Ok(table)
    }

    fn create_table(&mut self, slot: usize, number: u64) -> EngineResult<()> {
        self.log(slot, format_args!("create table {number}"));
        let group = self.one_in(2);
        let files = self.new_files(slot, group)?;
        *self.delta(slot, number) = TableDelta {
            emptied: true,
            ..TableDelta::default()
        };
        let table = self.switch(slot, number, files)?;
        self.note(slot, number, Some(files))?;
        let freeze = self.one_in(3);
        let first = self.random.random_range(0..KEYS / SLOTS / 2);
        let keys = (first..KEYS / SLOTS).map(|key| key * SLOTS + slot as u64);
        let keys: Vec<_> = keys.collect();
        let ring = freeze.then(|| table.load_ring());
        let options = InsertOptions { freeze, ring };
        self.insert_keys(slot, number, &table, &keys, &options)
    }

    fn files(&self, slot: usize, number: u64) -> Files {
        let own = self.slots[slot]
            .as_ref()
            .and_then(|slot| slot.delta.get(&number));
        let files = own.and_then(|delta| delta.files);
        files.unwrap_or_else(|| self.history.last().tables[&number].files)
    }

    fn drop_table(&mut self, slot: usize, number: u64) -> EngineResult<()> {
        self.log(slot, format_args!("drop table {number}"));
        for file in self.files(slot, number).all() {
            self.slot(slot).txn.drop_file(file)?;
        }
        self.note(slot, number, None)?;
        self.slot(slot).handles.remove(&number);
        *self.delta(slot, number) = TableDelta {
            dropped: true,
            ..TableDelta::default()
        };
        Ok(())
    }

    fn truncate(&mut self, slot: usize, number: u64) -> EngineResult<()> {
        self.log(slot, format_args!("truncate table {number}"));
        let old = self.files(slot, number);
        let files = self.new_files(slot, old.group.is_some())?;
        for file in old.all() {
            self.slot(slot).txn.drop_file(file)?;
        }
        *self.delta(slot, number) = TableDelta {
            emptied: true,
            ..TableDelta::default()
        };
        self.switch(slot, number, files)?;
        self.note(slot, number, Some(files))
    }

    /// Deletes all rows but the first few, and has what they leave cleaned up.
    fn empty(&mut self, slot: usize, number: u64, table: &Arc<Table>) -> EngineResult<()> {
        // A transaction with an older snapshot would go on seeing rows that are its to change.
        if self
            .others(slot)
            .any(|other| other.txn.isolation() == Isolation::RepeatableRead)
        {
            return Ok(());
        }
        for key in self.random.random_range(0..KEYS / 4)..KEYS {
            self.delete(slot, number, table, key)?;
        }
        self.commit(slot)?;
        if let Some(table) = self.handles.get(&number).cloned() {
            self.vacuum(number, &table)?;
        }
        Ok(())
    }

    /// Drops the second index, or builds it.
    fn toggle_index(&mut self, slot: usize, number: u64, table: &Arc<Table>) -> EngineResult<()> {
        let mut files = self.files(slot, number);
        self.log(
            slot,
            format_args!("toggle index of table {number}: {files:?}"),
        );
        if let Some(file) = files.group.take() {
            self.slot(slot).txn.drop_file(file)?;
        } else {
            let txn = &mut self.slot(slot).txn;
            let file = txn.create_file()?;
            // Nobody reads by it before the transaction has ended, and older snapshots never do.
            let _ = table.build_index(txn, &group_index(file))?;
            files.group = Some(file);
        }
        self.switch(slot, number, files)?;
        self.note(slot, number, Some(files))
    }

    /// Writes the table's row in the catalog.
    fn note(&mut self, slot: usize, number: u64, files: Option<Files>) -> EngineResult<()> {
        let catalog = Arc::clone(&self.catalog);
        let txn = &mut self.slot(slot).txn;
        txn.begin_statement()?;
        let snapshot = txn.snapshot()?;
        let mut found = RowBatch::new();
        catalog.index_lookup(&snapshot, 0, &number.to_be_bytes(), &mut found)?;
        drop(snapshot);
        let row = files.map(|files| files.encode(number));
        let modified = match (found.is_empty(), row) {
            (true, Some(row)) => {
                block_on(catalog.insert(txn, &row))?;
                return Ok(());
            }
            (true, None) => panic!("table {number} is not in the catalog"),
            (false, None) => {
                block_on(catalog.delete(txn, found.handle(0).expect("a row that was read")))?
            }
            (false, Some(row)) => {
                let hint = evenkeel_engine::table::KeyHint::Compare;
                let old = found.handle(0).expect("a row that was read");
                block_on(catalog.update(txn, old, &row, hint))?
            }
        };
        assert!(matches!(modified, Modified::Done(_)), "{modified:?}");
        txn.begin_statement()
    }
}
