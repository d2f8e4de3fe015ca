//! The oracle: what each commit left behind, and when the disk could know of it. It never asks
//! the engine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::schema::Files;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub group: u32,
    pub body: Arc<[u8]>,
}

pub type Rows = BTreeMap<u64, Row>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableState {
    pub files: Files,
    pub rows: Rows,
}

/// The committed content of the database: tables by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub tables: BTreeMap<u64, Arc<TableState>>,
}

/// Changes of a transaction to one table.
#[derive(Clone, Debug, Default)]
pub struct TableDelta {
    /// New files: the table was created, got or lost an index, or was truncated.
    pub files: Option<Files>,
    /// Rows of before do not count: created or truncated.
    pub emptied: bool,
    pub dropped: bool,
    pub rows: BTreeMap<u64, Option<Row>>,
}

/// Changes of a transaction.
pub type Delta = BTreeMap<u64, TableDelta>;

impl State {
    /// The state after a transaction.
    pub fn after(&self, delta: &Delta) -> State {
        let mut next = self.clone();
        for (&number, change) in delta {
            if change.dropped {
                next.tables.remove(&number);
                continue;
            }
            let old = next.tables.remove(&number);
            let files = change
                .files
                .or_else(|| old.as_ref().map(|table| table.files))
                .expect("a changed table has files");
            let mut rows = match old {
                Some(table) if !change.emptied => table.rows.clone(),
                _ => Rows::new(),
            };
            for (key, row) in &change.rows {
                match row {
                    Some(row) => rows.insert(*key, row.clone()),
                    None => rows.remove(key),
                };
            }
            let table = Arc::new(TableState { files, rows });
            next.tables.insert(number, table);
        }
        next
    }

    /// The content without the file numbers, for runs that may number files differently.
    pub fn logical(&self) -> BTreeMap<u64, (bool, Rows)> {
        let strip = |table: &TableState| (table.files.group.is_some(), table.rows.clone());
        let tables = self.tables.iter();
        tables
            .map(|(&number, table)| (number, strip(table)))
            .collect()
    }

    /// Where this state and another differ, in short.
    pub fn difference(&self, expected: &State) -> String {
        let mut text = String::new();
        let numbers = self.tables.keys().chain(expected.tables.keys());
        let mut numbers: Vec<_> = numbers.copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let _ = match (self.tables.get(&number), expected.tables.get(&number)) {
                (Some(_), None) => write!(text, "table {number} should not be there; "),
                (None, Some(_)) => write!(text, "table {number} is missing; "),
                (Some(found), Some(wanted)) => {
                    if found.files != wanted.files {
                        let files = (found.files, wanted.files);
                        let _ = write!(text, "table {number}: files {files:?}; ");
                    }
                    let keys = found.rows.keys().chain(wanted.rows.keys());
                    let wrong = keys.filter(|key| found.rows.get(key) != wanted.rows.get(key));
                    let mut wrong: Vec<_> = wrong.collect();
                    wrong.sort_unstable();
                    wrong.dedup();
                    if wrong.is_empty() {
                        continue;
                    }
                    write!(text, "table {number}: keys {wrong:?} differ; ")
                }
                (None, None) => Ok(()),
            };
        }
        text.truncate(600);
        text
    }
}

/// The states that commits left behind, in order, and when the disk knew of each.
#[derive(Default)]
pub struct History {
    /// Operations of the disk when the empty catalog was acknowledged.
    pub created: Option<u64>,
    /// Content after each commit; the first is that of the empty catalog.
    pub states: Vec<State>,
    /// Operations of the disk when the commit was begun, for each state.
    pub begun: Vec<u64>,
    /// Operations of the disk when everything up to a state was acknowledged as durable.
    pub durable: Vec<(u64, usize)>,
}

impl History {
    pub fn last(&self) -> &State {
        self.states.last().expect("the catalog is there")
    }

    /// A commit is about to be asked for.
    pub fn begin_commit(&mut self, at: u64, state: State) {
        self.begun.push(at);
        self.states.push(state);
    }

    /// The last commit was rolled back after all.
    pub fn undo_commit(&mut self) {
        self.begun.pop();
        self.states.pop();
    }

    /// Everything so far was acknowledged as durable.
    pub fn acknowledge(&mut self, at: u64) {
        self.durable.push((at, self.states.len() - 1));
    }

    /// Which states a disk may hold after `index` operations.
    pub fn possible(&self, index: u64) -> std::ops::Range<usize> {
        let known = self.durable.partition_point(|(at, _)| *at <= index);
        let least = known.checked_sub(1).map_or(0, |last| self.durable[last].1);
        let most = self.begun.partition_point(|at| *at <= index);
        least..most
    }

    /// Which of the possible states was found.
    pub fn place(&self, found: &State, possible: std::ops::Range<usize>) -> Result<usize, String> {
        let range = possible.clone();
        let place = range.rev().find(|&at| self.states[at] == *found);
        place.ok_or_else(|| {
            let nearest = (0..self.states.len()).find(|&at| self.states[at] == *found);
            match nearest {
                Some(at) => format!("state {at} found, one of {possible:?} expected"),
                None => {
                    let at = possible.end.saturating_sub(1).min(self.states.len() - 1);
                    let text = found.difference(&self.states[at]);
                    format!("none of {possible:?} found; against {at}: {text}")
                }
            }
        })
    }
}
