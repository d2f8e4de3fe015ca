//! Transactions interleaved at random, beside a model that never asks the engine: it knows what
//! every snapshot sees, which statement has to wait, and which one is refused.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::error::EngineError;
use crate::{RowLockMode, WaitPolicy};

const KEYS: u32 = 6;
const SESSIONS: usize = 4;

/// Keys and their values.
type Rows = BTreeMap<u32, u32>;

/// How a statement ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Done,
    Waits,
    Duplicate,
    Changed,
}

/// An operation on a row, and the value that the row gets.
#[derive(Debug)]
enum Statement {
    Insert(String, u32),
    Lock(Tid, RowLockMode),
    Delete(Tid),
    Update(Tid, String, u32),
}

struct Session {
    txn: Transaction,
    /// Rows of other sessions as its fixed snapshot shows them, if it has one.
    fixed: Option<Rows>,
    /// Its own changes: a value, or none for a deleted row.
    own: BTreeMap<u32, Option<u32>>,
    /// Rows it has locked.
    locks: Vec<(u32, RowLockMode)>,
}

struct Oracle {
    f: Fixture,
    rng: StdRng,
    committed: Rows,
    sessions: Vec<Option<Session>>,
    values: u32,
}

/// Runs `steps` random steps in an engine that may have a bug. An error says where engine and
/// model differ.
pub(super) fn run(seed: u64, steps: u32, mutant: Option<Mutant>) -> Result<(), String> {
    let disk = SimDisk::new(seed);
    let db = open_with_bug(&disk, None, mutant);
    let mut oracle = Oracle {
        f: Fixture::on(&disk, db, 2, 100),
        rng: StdRng::seed_from_u64(seed),
        committed: Rows::new(),
        sessions: (0..SESSIONS).map(|_| None).collect(),
        values: 0,
    };
    for step in 0..steps {
        oracle
            .step()
            .map_err(|what| format!("seed {seed}, step {step}: {what}"))?;
    }
    Ok(())
}

fn parse(row: &str) -> (u32, u32) {
    let mut parts = row.split(':').map(|part| part.parse().unwrap());
    (parts.next().unwrap(), parts.next().unwrap())
}

fn differ(what: &str, expected: impl std::fmt::Debug, found: impl std::fmt::Debug) -> String {
    format!("{what}: expected {expected:?}, found {found:?}")
}

/// The outcome of a statement that is not to wait longer than it has to.
fn poll_once<T>(
    future: impl Future<Output = EngineResult<T>>,
    is_changed: impl Fn(&T) -> bool,
) -> Result<End, String> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => Ok(End::Waits),
        Poll::Ready(Ok(value)) if is_changed(&value) => Ok(End::Changed),
        Poll::Ready(Ok(_)) => Ok(End::Done),
        Poll::Ready(Err(EngineError::UniqueViolation { .. })) => Ok(End::Duplicate),
        Poll::Ready(Err(EngineError::SerializationFailure { .. })) => Ok(End::Changed),
        Poll::Ready(Err(error)) => Err(error.to_string()),
    }
}

fn is_changed(outcome: &Modified<'_>) -> bool {
    !matches!(outcome, Modified::Done(_))
}

fn apply(rows: &mut Rows, changes: &BTreeMap<u32, Option<u32>>) {
    for (key, value) in changes {
        match value {
            Some(value) => rows.insert(*key, *value),
            None => rows.remove(key),
        };
    }
}

impl Oracle {
    fn step(&mut self) -> Result<(), String> {
        if self.rng.random_ratio(1, 15) {
            self.f.vacuum(&VacuumOptions {
                freeze: self.rng.random(),
                ..VacuumOptions::default()
            });
        }
        let at = self.rng.random_range(0..SESSIONS);
        let Some(mut session) = self.sessions[at].take() else {
            self.sessions[at] = Some(self.begin());
            return Ok(());
        };
        match self.rng.random_range(0..12) {
            0 | 1 => {
                block_on(session.txn.commit(Durability::Async)).map_err(|e| e.to_string())?;
                apply(&mut self.committed, &session.own);
                return Ok(());
            }
            2 => {
                session.txn.rollback();
                return Ok(());
            }
            3 | 4 => self.read(&mut session)?,
            _ => {
                if !self.change(at, &mut session)? {
                    session.txn.rollback();
                    return Ok(());
                }
            }
        }
        self.sessions[at] = Some(session);
        Ok(())
    }

    fn begin(&mut self) -> Session {
        let is_fixed = self.rng.random();
        Session {
            txn: if is_fixed {
                self.f.begin_rr()
            } else {
                self.f.begin()
            },
            fixed: is_fixed.then(|| self.committed.clone()),
            own: BTreeMap::new(),
            locks: Vec::new(),
        }
    }

    /// The rows that a new statement of the session sees.
    fn seen_by(&self, session: &Session) -> Rows {
        let mut rows = session
            .fixed
            .clone()
            .unwrap_or_else(|| self.committed.clone());
        apply(&mut rows, &session.own);
        rows
    }

    /// Compares what a snapshot sees, by scan and by every index, with what it is to see.
    fn compare(&self, snapshot: &Snapshot, expected: &Rows, what: &str) -> Result<(), String> {
        let mut found: Vec<_> = self
            .f
            .scan(snapshot)
            .iter()
            .map(|(_, row)| parse(row))
            .collect();
        found.sort_unstable();
        let rows: Vec<_> = expected.iter().map(|(key, value)| (*key, *value)).collect();
        if found != rows {
            return Err(differ(what, rows, found));
        }
        for index in [BY_KEY, BY_VALUE] {
            let all = super::super::KeyRange::all();
            let forward = super::super::Direction::Forward;
            let mut scan = self
                .f
                .table
                .index_scan(snapshot, index, &all, forward)
                .unwrap();
            let (mut batch, mut found) = (RowBatch::new(), Vec::new());
            while scan.next_page(&mut batch).unwrap() {
                found.extend(batch.iter().map(|(_, row)| parse(&text(row))));
            }
            found.sort_unstable();
            if found != rows {
                return Err(differ(&format!("{what}, index {index}"), rows, found));
            }
        }
        Ok(())
    }

    fn read(&self, session: &mut Session) -> Result<(), String> {
        let expected = self.seen_by(session);
        session.txn.begin_statement().unwrap();
        let snapshot = session.txn.snapshot().unwrap();
        self.compare(&snapshot, &expected, "read")?;
        drop(snapshot);
        session.txn.end_statement();
        Ok(())
    }

    /// Whether another session has changed the row, or holds a lock on it that `mode` conflicts
    /// with.
    fn is_in_use(&self, key: u32, mode: RowLockMode) -> bool {
        let conflicts = |held: &(u32, RowLockMode)| {
            held.0 == key && (held.1 == RowLockMode::Update || mode == RowLockMode::Update)
        };
        let mut others = self.sessions.iter().flatten();
        others.any(|other| other.own.contains_key(&key) || other.locks.iter().any(conflicts))
    }

    /// Changes or locks a row. `false` if the transaction can only be rolled back.
    fn change(&mut self, at: usize, session: &mut Session) -> Result<bool, String> {
        assert!(self.sessions[at].is_none());
        let key = self.rng.random_range(0..KEYS);
        let before = self.seen_by(session);
        session.txn.begin_statement().unwrap();
        let snapshot = session.txn.snapshot().unwrap();
        let sub = session.txn.begin_sub();
        let found = self.f.find(&mut session.txn, key.to_string().as_bytes());
        if found.is_some() != before.contains_key(&key) {
            return Err(differ("look-up", before.get(&key), found));
        }
        let statement = self.statement(key, found.map(|(tid, _)| tid), session);
        let expected = self.expected(key, &statement, session);
        let is_own = session.own.contains_key(&key);
        let found = self.execute(&statement, &mut session.txn, is_own)?;
        if found != expected {
            return Err(differ(&format!("{statement:?} on {key}"), expected, found));
        }
        if found == End::Done {
            session.txn.commit_sub(sub);
            self.compare(&snapshot, &before, "the statement's own snapshot")?;
            match statement {
                Statement::Insert(_, value) | Statement::Update(_, _, value) => {
                    session.own.insert(key, Some(value));
                }
                Statement::Delete(_) => {
                    session.own.insert(key, None);
                }
                Statement::Lock(_, mode) => session.locks.push((key, mode)),
            }
        } else {
            session.txn.abort_sub(sub);
        }
        drop(snapshot);
        session.txn.end_statement();
        Ok(found != End::Changed)
    }

    /// A statement on a row that was found, or not.
    fn statement(&mut self, key: u32, found: Option<Tid>, session: &Session) -> Statement {
        self.values += 1;
        let value = self.values;
        // Long rows move to other pages, short ones stay on theirs.
        let pad = "0".repeat(if self.rng.random_ratio(1, 8) { 3000 } else { 3 });
        let row = format!("{key}:{pad}{value}");
        // At times a key is inserted that is there.
        let again = !self.is_old(key, session) && self.rng.random_ratio(1, 6);
        match found.filter(|_| !again) {
            None => Statement::Insert(row, value),
            Some(tid) => match self.rng.random_range(0..8) {
                0 => Statement::Lock(tid, RowLockMode::Share),
                1 => Statement::Lock(tid, RowLockMode::Update),
                2 | 3 => Statement::Delete(tid),
                _ => Statement::Update(tid, row, value),
            },
        }
    }

    /// Whether a fixed snapshot shows something else of the row than the newest commit.
    fn is_old(&self, key: u32, session: &Session) -> bool {
        let fixed = session.fixed.as_ref();
        fixed.is_some_and(|fixed| {
            !session.own.contains_key(&key) && fixed.get(&key) != self.committed.get(&key)
        })
    }

    fn expected(&self, key: u32, statement: &Statement, session: &Session) -> End {
        let mode = match statement {
            Statement::Insert(..) => {
                let live = match session.own.get(&key) {
                    Some(own) => own.is_some(),
                    None => self.committed.contains_key(&key),
                };
                return match live {
                    _ if self.is_changed_elsewhere(key) => End::Waits,
                    true => End::Duplicate,
                    false => End::Done,
                };
            }
            Statement::Lock(_, mode) => *mode,
            Statement::Delete(_) | Statement::Update(..) => RowLockMode::Update,
        };
        match self.is_old(key, session) {
            true => End::Changed,
            false if self.is_in_use(key, mode) => End::Waits,
            false => End::Done,
        }
    }

    fn execute(
        &self,
        statement: &Statement,
        txn: &mut Transaction,
        is_own: bool,
    ) -> Result<End, String> {
        let table = &self.f.table;
        match statement {
            Statement::Insert(row, _) => poll_once(table.insert(txn, row.as_bytes()), |_| false),
            Statement::Lock(tid, mode) => {
                let lock =
                    table.lock_row(txn, RowHandle::unguarded(*tid), *mode, WaitPolicy::Block);
                poll_once(lock, |outcome| !is_own && is_changed(outcome))
            }
            Statement::Delete(tid) => {
                poll_once(table.delete(txn, RowHandle::unguarded(*tid)), is_changed)
            }
            Statement::Update(tid, row, _) => {
                let update = table.update(
                    txn,
                    RowHandle::unguarded(*tid),
                    row.as_bytes(),
                    KeyHint::Compare,
                );
                poll_once(update, is_changed)
            }
        }
    }

    fn is_changed_elsewhere(&self, key: u32) -> bool {
        let mut others = self.sessions.iter().flatten();
        others.any(|other| other.own.contains_key(&key))
    }
}

#[test]
fn any_interleaving_of_transactions_agrees_with_the_model() {
    let first = rand::random::<u32>();
    println!("first seed {first}");
    for seed in 0..12 {
        if let Err(what) = run(u64::from(first) + seed, 600, None) {
            panic!("{what}");
        }
    }
}
