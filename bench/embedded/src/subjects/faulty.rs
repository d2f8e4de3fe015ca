//! Subjects with one planted fault each, to see that the harness notices.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::subject::{Key, Result, Row, Session, Store, Subject};

/// Fate of the commit with the fault in it, by number.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Lose,
    OldValue,
    Tear,
}

const fn subject(name: &'static str, open: crate::subject::Open) -> Subject {
    Subject {
        name,
        version: String::new,
        durability: "none",
        settings: "none",
        open,
    }
}

/// Acknowledges its second commit and has nothing of it.
pub const LOSES_A_COMMIT: Subject = subject("loses", |_: &Path, _| Memory::open(Fault::Lose, 1));
/// Has one row of its second commit with another commit's value.
pub const KEEPS_AN_OLD_VALUE: Subject =
    subject("old value", |_: &Path, _| Memory::open(Fault::OldValue, 1));
/// Has half of its fifth commit.
pub const TEARS_THE_LAST_COMMIT: Subject =
    subject("tears", |_: &Path, _| Memory::open(Fault::Tear, 4));

struct Memory {
    fault: Fault,
    at: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    commits: usize,
    rows: HashMap<Key, Vec<u8>>,
}

impl Memory {
    fn open(fault: Fault, at: usize) -> Result<Box<dyn Store>> {
        Ok(Box::new(Memory {
            fault,
            at,
            state: Mutex::default(),
        }))
    }
}

impl Store for Memory {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MemorySession(self)))
    }

    fn checkpoint(&self) -> Result<bool> {
        Ok(false)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct MemorySession<'a>(&'a Memory);

impl Session for MemorySession<'_> {
    fn put(&mut self, rows: &[Row]) -> Result<()> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let faulty = state.commits == self.0.at;
        state.commits += 1;
        for (number, row) in rows.iter().enumerate() {
            let mut value = row.value.to_vec();
            match self.0.fault {
                Fault::Lose if faulty => continue,
                Fault::Tear if faulty && number % 2 == 0 => continue,
                Fault::OldValue if faulty && number == 0 => value[8] ^= 1,
                _ => {}
            }
            state.rows.insert(row.key, value);
        }
        Ok(())
    }

    fn get(&mut self, key: &Key, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let value = state.rows.get(key);
        value.into_iter().for_each(|value| found(value));
        Ok(value.is_some())
    }
}
