//! Changes of rows, in the table and in the model.

use std::sync::Arc;

use evenkeel_engine::heap::RowBatch;
use evenkeel_engine::table::{InsertOptions, KeyHint, Modified};
use evenkeel_engine::{EngineError, EngineResult, Table, Tid, block_on};
use rand::Rng;

use crate::ddl::TABLES;
use crate::model::Row;
use crate::schema::{encode_row, unique_key};
use crate::workload::{Driver, KEYS, SLOTS};

/// Nowhere: rows of a batch to be inserted have no place yet.
pub const NOWHERE: Tid = Tid::new(evenkeel_engine::BlockNumber(0), 1);

impl Driver {
    /// Changes rows of one table.
    pub fn change(&mut self, slot: usize) -> EngineResult<()> {
        let number = self.random.random_range(1..=TABLES);
        if self.is_taken(slot, number) {
            return Ok(());
        }
        let Some(table) = self.handle(slot, number) else {
            return Ok(());
        };
        self.slot(slot).txn.begin_statement()?;
        self.log(slot, format_args!("change table {number}"));
        match self.random.random_range(0..12) {
            0 => self.insert_run(slot, number, &table),
            1 => self.delete_range(slot, number, &table),
            2 => self.insert_twice(slot, number, &table),
            3..5 => {
                let key = self.own_key(slot);
                self.delete(slot, number, &table, key)
            }
            _ => {
                let key = self.own_key(slot);
                self.put(slot, number, &table, key)
            }
        }
    }

    fn own_key(&mut self, slot: usize) -> u64 {
        self.random.random_range(0..KEYS / SLOTS) * SLOTS + slot as u64
    }

    fn own_keys(&mut self, slot: usize, most: u64) -> Vec<u64> {
        let first = self.random.random_range(0..KEYS / SLOTS);
        let count = self.random.random_range(1..=most);
        let last = (first + count).min(KEYS / SLOTS);
        let keys = first..last;
        keys.map(|key| key * SLOTS + slot as u64).collect()
    }

    pub fn new_row(&mut self) -> Row {
        let length = match self.random.random_range(0..12) {
            0 => self.random.random_range(700..1800),
            1..4 => self.random.random_range(100..400),
            _ => self.random.random_range(0..90),
        };
        let byte = self.random.random::<u8>();
        Row {
            group: self.random.random_range(0..7),
            body: Arc::from(vec![byte; length]),
        }
    }

    /// The row as it was read, and as the model has it, after comparing the two.
    fn find(
        &mut self,
        slot: usize,
        number: u64,
        table: &Arc<Table>,
        key: u64,
    ) -> EngineResult<Option<(RowBatch, Row)>> {
        let expected = self.row(slot, number, key);
        let snapshot = self.slot(slot).txn.snapshot()?;
        let mut found = RowBatch::new();
        table.index_lookup(&snapshot, 0, &unique_key(key), &mut found)?;
        let wanted = expected.iter().map(|row| encode_row(key, row));
        let wanted: Vec<_> = wanted.collect();
        let got: Vec<_> = found.iter().map(|(_, row)| row.to_vec()).collect();
        assert!(
            got == wanted,
            "slot {slot}, table {number}, key {key}: found {}, expected {}, alike {}",
            got.len(),
            wanted.len(),
            got.first() == wanted.first()
        );
        Ok(expected.map(|row| (found, row)))
    }

    fn put(&mut self, slot: usize, number: u64, table: &Arc<Table>, key: u64) -> EngineResult<()> {
        let mut row = self.new_row();
        match self.find(slot, number, table, key)? {
            None => {
                let bytes = encode_row(key, &row);
                block_on(table.insert(&mut self.slot(slot).txn, &bytes))?;
            }
            Some((found, old)) => {
                let hint = match self.random.random_range(0..3) {
                    0 => KeyHint::Compare,
                    other => {
                        row.group = old.group;
                        [KeyHint::Compare, KeyHint::Unchanged][other - 1]
                    }
                };
                let bytes = encode_row(key, &row);
                let there = found.handle(0).expect("a row that was read");
                let update = table.update(&mut self.slot(slot).txn, there, &bytes, hint);
                done(block_on(update)?);
            }
        }
        self.delta(slot, number).rows.insert(key, Some(row));
        Ok(())
    }

    pub fn delete(
        &mut self,
        slot: usize,
        number: u64,
        table: &Arc<Table>,
        key: u64,
    ) -> EngineResult<()> {
        if let Some((found, _)) = self.find(slot, number, table, key)? {
            let there = found.handle(0).expect("a row that was read");
            done(block_on(table.delete(&mut self.slot(slot).txn, there))?);
            self.delta(slot, number).rows.insert(key, None);
        }
        Ok(())
    }

    /// Deletes neighbours, so that pages of indexes become empty, and the heap's end at times.
    fn delete_range(&mut self, slot: usize, number: u64, table: &Arc<Table>) -> EngineResult<()> {
        let most = if self.one_in(3) { KEYS } else { 30 };
        for key in self.own_keys(slot, most) {
            self.delete(slot, number, table, key)?;
        }
        Ok(())
    }

    /// Inserts many rows by whole pages.
    pub fn insert_run(&mut self, slot: usize, number: u64, table: &Arc<Table>) -> EngineResult<()> {
        let keys = self.own_keys(slot, 60);
        self.insert_keys(slot, number, table, &keys, &InsertOptions::default())
    }

    pub fn insert_keys(
        &mut self,
        slot: usize,
        number: u64,
        table: &Arc<Table>,
        keys: &[u64],
        options: &InsertOptions,
    ) -> EngineResult<()> {
        let mut batch = RowBatch::new();
        let mut rows = Vec::new();
        for &key in keys {
            let row = self.new_row();
            if self.row(slot, number, key).is_none() {
                batch.push(NOWHERE, &encode_row(key, &row));
                rows.push((key, Some(row)));
            }
        }
        block_on(table.insert_many(&mut self.slot(slot).txn, &batch, options))?;
        self.delta(slot, number).rows.extend(rows);
        Ok(())
    }

    /// Tries a key that is there; the statement is rolled back.
    fn insert_twice(&mut self, slot: usize, number: u64, table: &Arc<Table>) -> EngineResult<()> {
        let key = self.own_key(slot);
        let row = self.new_row();
        if self.row(slot, number, key).is_none() {
            return Ok(());
        }
        let bytes = encode_row(key, &row);
        let txn = &mut self.slot(slot).txn;
        let statement = txn.begin_sub();
        match block_on(table.insert(txn, &bytes)) {
            Err(EngineError::UniqueViolation { .. }) => {
                txn.abort_sub(statement);
                self.slot(slot).used.insert(number);
                Ok(())
            }
            Err(other) => Err(other),
            Ok(tid) => panic!("table {number}: key {key} went in twice, at {tid}"),
        }
    }
}

fn done(modified: Modified<'_>) {
    assert!(matches!(modified, Modified::Done(_)), "{modified:?}");
}
