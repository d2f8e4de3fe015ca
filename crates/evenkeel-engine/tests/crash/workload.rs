//! The workload: up to three transactions open at once, on one thread, each changing rows of its
//! own in shared tables; what they do is decided by the seed alone, so that runs under different
//! settings do the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_engine::vacuum::{IndexCleanup, VacuumOptions};
use evenkeel_engine::{
    Database, Durability, EngineResult, Isolation, Table, Transaction, Xid, block_on,
};
use evenkeel_storage::{CheckpointMode, RedoHold};
use rand::Rng;
use rand::rngs::StdRng;

use crate::model::{Delta, History, Row, State, TableDelta};
use crate::schema::{catalog_def, create_catalog};

pub const SLOTS: u64 = 3;
/// Keys of a table are below this; slot `s` changes those that leave `s` when divided by
/// [`SLOTS`].
pub const KEYS: u64 = 240;
/// Ids whose statuses fill a file.
pub const STATUS_FILE_IDS: u64 = 64 * 32_640;
/// Ids that the workload uses before it comes to the second file.
const IDS_BEFORE: u64 = 40;

pub type Handles = BTreeMap<u64, Arc<Table>>;

/// One open transaction.
pub struct Slot {
    pub txn: Transaction,
    pub delta: Delta,
    /// Tables as this transaction sees them, where that differs.
    pub handles: Handles,
    savepoints: Vec<(Delta, Handles)>,
    /// Tables it has touched.
    pub used: BTreeSet<u64>,
    /// Tables nobody else may touch until it ends.
    pub exclusive: BTreeSet<u64>,
}

/// Tells how many operations the disk has seen.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Called with true before something that rests on a durable log of its own, with false after.
pub type CommitHook = Arc<dyn Fn(bool) + Send + Sync>;

pub struct Driver {
    /// Keeps the redo point between two that checkpoints announce. Goes before the database.
    hold: Option<RedoHold>,
    pub db: Database,
    pub catalog: Arc<Table>,
    pub handles: Handles,
    pub slots: [Option<Slot>; SLOTS as usize],
    pub history: History,
    clock: Clock,
    pub on_commit: Option<CommitHook>,
    pub random: StdRng,
    /// The operations done, with the number of operations the disk had seen.
    pub trace: Vec<String>,
}

impl Driver {
    /// Begins with an empty database.
    pub fn create(db: Database, clock: Clock, random: StdRng) -> EngineResult<Driver> {
        create_catalog(&db)?;
        // The first file of transaction statuses is soon full, and goes when all is frozen.
        db.skip_ids(Xid::new(STATUS_FILE_IDS - IDS_BEFORE))?;
        let mut history = History::default();
        let at = clock();
        history.created = Some(at);
        history.begin_commit(at, State::default());
        history.acknowledge(at);
        Driver::resume(db, history, clock, random)
    }

    /// Goes on with the last state of `history`, which is in the database.
    pub fn resume(
        db: Database,
        history: History,
        clock: Clock,
        random: StdRng,
    ) -> EngineResult<Driver> {
        let mut handles = Handles::new();
        for (&number, table) in &history.last().tables {
            handles.insert(number, Table::open(&db, table.files.def(number))?);
        }
        let catalog = Table::open(&db, catalog_def())?;
        Ok(Driver {
            hold: None,
            db,
            catalog,
            handles,
            slots: [None, None, None],
            history,
            clock,
            on_commit: None,
            random,
            trace: Vec::new(),
        })
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: u32) -> bool {
        self.random.random_range(0..n) == 0
    }

    /// Notes something done.
    pub fn log(&mut self, slot: usize, what: impl std::fmt::Display) {
        let own = self.slots.get(slot).and_then(Option::as_ref);
        let xid = own.and_then(|own| own.txn.xid_if_any());
        let xid = xid.map_or(0, |xid| xid.get());
        self.trace
            .push(format!("#{} slot {slot} xid {xid}: {what}", (self.clock)()));
    }

    pub fn poisoned(&self) -> bool {
        self.db.store().poison().is_set()
    }

    /// Does one thing. After an error the transaction it happened in is rolled back.
    pub fn turn(&mut self) -> EngineResult<()> {
        if self.one_in(14) {
            return self.maintain();
        }
        let slot = self.random.random_range(0..self.slots.len());
        let result = self.turn_of(slot);
        if result.is_err() && self.slots[slot].is_some() {
            self.rollback(slot);
        }
        result
    }

    fn turn_of(&mut self, slot: usize) -> EngineResult<()> {
        if self.slots[slot].is_none() {
            self.begin(slot)?;
        }
        match self.random.random_range(0..24) {
            0..4 => self.commit(slot),
            4 => {
                self.rollback(slot);
                Ok(())
            }
            5 => {
                self.savepoint(slot);
                Ok(())
            }
            6 => self.end_savepoint(slot),
            7..10 => {
                // Files are made and dropped with their record durable.
                self.tell_commit(true);
                let result = self.ddl(slot);
                self.tell_commit(false);
                result
            }
            _ => self.change(slot),
        }
    }

    fn begin(&mut self, slot: usize) -> EngineResult<()> {
        let isolation = if self.one_in(4) {
            Isolation::RepeatableRead
        } else {
            Isolation::ReadCommitted
        };
        self.slots[slot] = Some(Slot {
            txn: self.db.begin(isolation)?,
            delta: Delta::new(),
            handles: Handles::new(),
            savepoints: Vec::new(),
            used: BTreeSet::new(),
            exclusive: BTreeSet::new(),
        });
        Ok(())
    }

    pub fn slot(&mut self, slot: usize) -> &mut Slot {
        self.slots[slot].as_mut().expect("an open transaction")
    }

    /// Whether another transaction keeps `slot` from touching a table at all.
    pub fn is_taken(&self, slot: usize, table: u64) -> bool {
        self.others(slot)
            .any(|other| other.exclusive.contains(&table))
    }

    /// Whether another transaction has touched a table.
    pub fn is_used(&self, slot: usize, table: u64) -> bool {
        self.others(slot).any(|other| other.used.contains(&table))
    }

    pub fn others(&self, slot: usize) -> impl Iterator<Item = &Slot> {
        let others = self.slots.iter().enumerate();
        others.filter_map(move |(at, other)| other.as_ref().filter(|_| at != slot))
    }

    /// A row as the transaction should see it.
    pub fn row(&self, slot: usize, table: u64, key: u64) -> Option<Row> {
        let delta = self.slots[slot]
            .as_ref()
            .and_then(|slot| slot.delta.get(&table));
        if let Some(changed) = delta.and_then(|delta| delta.rows.get(&key)) {
            return changed.clone();
        }
        if delta.is_some_and(|delta| delta.emptied) {
            return None;
        }
        let table = self.history.last().tables.get(&table)?;
        table.rows.get(&key).cloned()
    }

    /// The table as the transaction should see it, if it is there.
    pub fn handle(&self, slot: usize, table: u64) -> Option<Arc<Table>> {
        let own = self.slots[slot].as_ref()?;
        if own.delta.get(&table).is_some_and(|delta| delta.dropped) {
            return None;
        }
        let found = own.handles.get(&table).or_else(|| self.handles.get(&table));
        found.cloned()
    }

    /// Changes of the transaction to a table so far.
    pub fn delta(&mut self, slot: usize, table: u64) -> &mut TableDelta {
        let slot = self.slot(slot);
        slot.used.insert(table);
        slot.delta.entry(table).or_default()
    }

    fn savepoint(&mut self, slot: usize) {
        self.log(slot, "savepoint");
        let slot = self.slot(slot);
        slot.txn.savepoint(&format!("s{}", slot.savepoints.len()));
        slot.savepoints
            .push((slot.delta.clone(), slot.handles.clone()));
    }

    fn end_savepoint(&mut self, slot: usize) -> EngineResult<()> {
        let back = self.one_in(2);
        self.log(slot, if back { "rollback to" } else { "release" });
        let slot = self.slot(slot);
        let Some(last) = slot.savepoints.pop() else {
            return Ok(());
        };
        let name = format!("s{}", slot.savepoints.len());
        if !back {
            return slot.txn.release(&name);
        }
        slot.txn.rollback_to(&name)?;
        (slot.delta, slot.handles) = last.clone();
        slot.savepoints.push(last);
        Ok(())
    }

    pub fn rollback(&mut self, slot: usize) {
        self.log(slot, "rollback");
        if let Some(slot) = self.slots[slot].take() {
            drop(slot.handles);
            slot.txn.rollback();
        }
    }

    pub fn commit(&mut self, slot: usize) -> EngineResult<()> {
        let durability = if self.one_in(4) {
            Durability::Async
        } else {
            Durability::Sync
        };
        self.commit_with(slot, durability)
    }

    fn commit_with(&mut self, slot: usize, durability: Durability) -> EngineResult<()> {
        self.log(slot, format_args!("commit {durability:?}"));
        let Some(slot) = self.slots[slot].take() else {
            return Ok(());
        };
        let changed = slot.txn.xid_if_any().is_some();
        if changed {
            let next = self.history.last().after(&slot.delta);
            self.history.begin_commit((self.clock)(), next);
        }
        let sync = durability == Durability::Sync;
        self.tell_commit(sync);
        let result = block_on(slot.txn.commit(durability));
        self.tell_commit(false);
        if let Err(error) = result {
            // Otherwise it may turn out to be durable.
            if changed && !self.poisoned() {
                self.history.undo_commit();
            }
            return Err(error);
        }
        for (table, delta) in &slot.delta {
            if delta.dropped {
                self.handles.remove(table);
            }
        }
        self.handles.extend(slot.handles);
        self.handles
            .retain(|table, _| self.history.last().tables.contains_key(table));
        if changed && sync {
            self.history.acknowledge((self.clock)());
        }
        Ok(())
    }

    pub fn tell_commit(&self, waiting: bool) {
        if let Some(hook) = &self.on_commit {
            hook(waiting);
        }
    }

    fn maintain(&mut self) -> EngineResult<()> {
        let what = self.random.random_range(0..10);
        if what < 3 {
            self.log(self.slots.len(), "checkpoint");
            self.db.store().checkpoint(CheckpointMode::Fast)?;
            return Ok(());
        }
        if what == 9 {
            return self.freeze_all();
        }
        if what > 4 {
            // Amid a cycle, so that the next redo point is not the one that a checkpoint announces.
            self.hold = match self.hold.take() {
                None => Some(self.db.store().hold_redo_here()),
                Some(_) => None,
            };
        }
        let table = self.random.random_range(1..=crate::ddl::TABLES);
        let nobody = self.slots.len();
        let Some(handle) = self.handles.get(&table).cloned() else {
            return Ok(());
        };
        if self.is_taken(nobody, table) {
            return Ok(());
        }
        self.vacuum(table, &handle)
    }

    /// Cleans a table up that no transaction has to itself.
    pub fn vacuum(&mut self, table: u64, handle: &Table) -> EngineResult<()> {
        let nobody = self.slots.len();
        let cleanups = [IndexCleanup::Auto, IndexCleanup::On, IndexCleanup::Off];
        let options = VacuumOptions {
            freeze: self.one_in(3),
            freeze_min_age: 20,
            aggressive: self.one_in(4),
            every_page: self.one_in(4),
            index_cleanup: cleanups[self.random.random_range(0..cleanups.len())],
            truncate: !self.is_used(nobody, table),
            memory: if self.one_in(3) { 100 } else { 64 << 20 },
            ..VacuumOptions::default()
        };
        self.log(nobody, format_args!("vacuum table {table} {options:?}"));
        let stats = handle.vacuum(&options, &mut |_| {})?;
        self.log(nobody, format_args!("{stats:?}"));
        Ok(())
    }

    /// Freezes what can be and forgets the status of what is frozen. Ids that open transactions and
    /// their snapshots need stay.
    fn freeze_all(&mut self) -> EngineResult<()> {
        let nobody = self.slots.len();
        let numbers: Vec<u64> = self.handles.keys().copied().collect();
        if numbers.iter().any(|table| self.is_taken(nobody, *table)) {
            return Ok(());
        }
        let options = VacuumOptions {
            freeze: true,
            ..VacuumOptions::default()
        };
        self.log(nobody, "freeze all");
        let mut oldest = self.db.horizon().floor();
        let tables = self.handles.values().chain([&self.catalog]);
        for table in tables {
            let stats = table.vacuum(&options, &mut |_| {})?;
            oldest = oldest.min(stats.oldest_xid.expect("every page was looked at"));
        }
        let before = self.status_files()?;
        self.db.truncate_status(oldest)?;
        if self.status_files()? < before {
            self.log(nobody, "dropped status files");
        }
        Ok(())
    }

    fn status_files(&self) -> EngineResult<usize> {
        let files = self.db.pool().files().list()?;
        Ok(files.iter().filter(|file| file.is_status()).count())
    }

    /// Ends what is open; the last commit is a synchronous one.
    pub fn finish(&mut self) -> EngineResult<()> {
        for slot in 0..self.slots.len() {
            if self.one_in(3) {
                self.rollback(slot);
            } else {
                self.commit(slot)?;
            }
        }
        self.begin(0)?;
        self.slot(0).txn.xid()?;
        self.commit_with(0, Durability::Sync)
    }
}
