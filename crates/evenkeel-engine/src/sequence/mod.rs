//! Sequences: numbers that are given out once, whatever becomes of the transaction that took them.
//!
//! Entry points: [`Sequence::next`], [`Sequence::set`], [`Sequence::position`], and
//! [`Database::sequence`](crate::Database::sequence). A file of one page holds the number up to
//! which the log has been told (`nextval` of PostgreSQL's `commands/sequence.c`); the numbers below
//! it are counted in memory, so that most calls write nothing. The rules are in the README beside
//! this file.

use std::sync::Arc;

use evenkeel_storage::buffer::ForkHandle;
use evenkeel_storage::page::{PAGE_SIZE, PageMut, PageRead};
use evenkeel_storage::{ApplyError, BlockNumber, FileId, Fork, PartFlags, Store};
use parking_lot::Mutex;

use crate::error::{EngineError, EngineResult};
use crate::types::Xid;

/// The page header's `kind` of a sequence's page.
pub const SEQUENCE_PAGE_KIND: u16 = 0x0501;
/// The value and whether it was given out.
pub(crate) const OP_SET: u16 = 0x0501;
/// Numbers that are written to the log ahead of those that are asked for.
const LOGGED_AHEAD: i64 = 32;

const BLOCK: BlockNumber = BlockNumber(0);
/// Bytes of the page's special area, which has its content.
const SPECIAL: usize = 16;
const VALUE: usize = PAGE_SIZE - SPECIAL;
const CALLED: usize = VALUE + 8;

/// How a sequence counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Added to each number; not 0.
    pub increment: i64,
    /// The least number.
    pub min: i64,
    /// The greatest.
    pub max: i64,
    /// Numbers that one call takes; at least 1.
    pub cache: i64,
    /// Whether it begins again at its end.
    pub cycle: bool,
}

/// Numbers that were taken: `first` and those up to `last` by the rule's increment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The number to be given out now.
    pub first: i64,
    /// The last number of the call.
    pub last: i64,
    /// Whether the log was written: the transaction that is told the number must not be
    /// acknowledged before the log is durable.
    pub logged: bool,
}

/// Why there is no number. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoNumber {
    /// The greatest number was given out.
    AtMax,
    /// The least number was given out, by a sequence that counts down.
    AtMin,
    /// This transaction drops the file. The caller waits for its end, and looks for the sequence
    /// again.
    Closing(Xid),
}

/// Where a sequence stands, with the names of PostgreSQL's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The number that was given out last, or that will be first.
    pub last_value: i64,
    /// Numbers that the log has been told of and that were not given out.
    pub log_cnt: i64,
    /// Whether `last_value` was given out.
    pub is_called: bool,
}

struct State {
    /// Never beyond the number on its page (SEQ-1).
    position: Position,
    /// A transaction drops it: from now on nobody may write to its page.
    closing: Option<Xid>,
}

impl State {
    fn at(position: Position) -> Mutex<State> {
        Mutex::new(State {
            position,
            closing: None,
        })
    }
}

/// An open sequence.
pub struct Sequence {
    store: Arc<Store>,
    fork: Arc<ForkHandle>,
    state: Mutex<State>,
}

impl Sequence {
    /// Writes the page of a new file of the transaction `xid`.
    pub(crate) fn create(
        store: Arc<Store>,
        file: FileId,
        xid: u64,
        start: i64,
    ) -> EngineResult<Sequence> {
        let fork = store.pool().fork(file, Fork::Main)?;
        fork.ensure_len(1)?;
        let position = Position {
            last_value: start,
            log_cnt: 0,
            is_called: false,
        };
        let sequence = Sequence {
            store,
            fork,
            state: State::at(position),
        };
        sequence.write(xid, start, false)?;
        Ok(sequence)
    }

    /// Reads the page.
    pub(crate) fn open(store: Arc<Store>, file: FileId) -> EngineResult<Sequence> {
        let fork = store.pool().fork(file, Fork::Main)?;
        let position = {
            let page = fork.read(BLOCK)?;
            let called = page.u8_at(CALLED);
            if page.kind() != SEQUENCE_PAGE_KIND || called > 1 {
                let text = format!("{} is no page of a sequence", page.page_id());
                return Err(EngineError::corrupted(text));
            }
            Position {
                last_value: page.u64_at(VALUE).cast_signed(),
                log_cnt: 0,
                is_called: called == 1,
            }
        };
        Ok(Sequence {
            store,
            fork,
            state: State::at(position),
        })
    }

    /// Where it stands.
    pub fn position(&self) -> Position {
        self.state.lock().position
    }

    /// Takes as many numbers as the rule's cache says, or as there are.
    ///
    /// # Errors
    /// Storage's.
    pub fn next(&self, rule: &Rule) -> EngineResult<Result<Taken, NoNumber>> {
        let mut state = self.state.lock();
        if let Some(xid) = state.closing {
            return Ok(Err(NoNumber::Closing(xid)));
        }
        let counted = match count(state.position, rule) {
            Ok(counted) => counted,
            Err(none) => return Ok(Err(none)),
        };
        if let Some(ahead) = counted.logged {
            self.write(0, ahead, true)?;
        }
        state.position = Position {
            last_value: counted.last,
            log_cnt: counted.log_cnt,
            is_called: true,
        };
        Ok(Ok(Taken {
            first: counted.first,
            last: counted.last,
            logged: counted.logged.is_some() && !self.fork.file().is_temporary(),
        }))
    }

    /// Makes `value` the last number given out, or the next one. The log is written.
    ///
    /// # Errors
    /// Storage's. The inner error is `Closing`.
    pub fn set(&self, value: i64, is_called: bool) -> EngineResult<Result<(), NoNumber>> {
        let mut state = self.state.lock();
        if let Some(xid) = state.closing {
            return Ok(Err(NoNumber::Closing(xid)));
        }
        self.write(0, value, is_called)?;
        state.position = Position {
            last_value: value,
            log_cnt: 0,
            is_called,
        };
        Ok(Ok(()))
    }

    /// Nobody writes to its page any more, until this is taken back. Waits for who does now.
    pub(crate) fn close(&self, closing: Option<Xid>) {
        self.state.lock().closing = closing;
    }

    /// Writes where it stands, if the log has been told of more.
    ///
    /// # Errors
    /// Storage's.
    pub fn settle(&self) -> EngineResult<()> {
        let mut state = self.state.lock();
        let position = state.position;
        if position.log_cnt > 0 && state.closing.is_none() {
            self.write(0, position.last_value, position.is_called)?;
            state.position.log_cnt = 0;
        }
        Ok(())
    }

    fn write(&self, xid: u64, value: i64, is_called: bool) -> EngineResult<()> {
        self.store.admit()?;
        let mut data = [0; 9];
        data[..8].copy_from_slice(&value.to_le_bytes());
        data[8] = u8::from(is_called);
        let mut page = self.fork.write(BLOCK)?;
        let mut change = self.store.change(xid);
        change.part(&mut page, OP_SET, PartFlags::INIT, &data);
        change.commit();
        Ok(())
    }
}

impl std::fmt::Debug for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sequence")
            .field("file", &self.fork.file())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

/// Numbers counted from a position.
struct Counted {
    first: i64,
    last: i64,
    log_cnt: i64,
    /// The number that the log is to be told of.
    logged: Option<i64>,
}

/// How often the increment fits between a number and the rule's end.
fn room(from: i64, rule: &Rule) -> i64 {
    let end = if rule.increment > 0 {
        rule.max
    } else {
        rule.min
    };
    let steps = (i128::from(end) - i128::from(from)) / i128::from(rule.increment);
    i64::try_from(steps.max(0)).unwrap_or(i64::MAX)
}

/// Counts as the loop of PostgreSQL's `nextval_internal` does, without a loop: a cache may be as
/// large as the range. A call never goes around the end, but to its first number.
fn count(position: Position, rule: &Rule) -> Result<Counted, NoNumber> {
    let cache = rule.cache.max(1);
    let mut fetch = cache - i64::from(!position.is_called);
    let mut log_cnt = position.log_cnt;
    let logs = log_cnt < fetch || !position.is_called;
    if logs {
        fetch = fetch.saturating_add(LOGGED_AHEAD);
        log_cnt = fetch;
    }
    let mut first = position.last_value;
    if position.is_called {
        let at_max = rule.increment > 0;
        first = match (room(first, rule), rule.cycle) {
            (0, false) if at_max => return Err(NoNumber::AtMax),
            (0, false) => return Err(NoNumber::AtMin),
            (0, true) if at_max => rule.min,
            (0, true) => rule.max,
            (_, _) => first + rule.increment,
        };
        fetch -= 1;
        log_cnt -= 1;
    }
    let steps = fetch.min(room(first, rule));
    let given = steps.min(cache - 1);
    Ok(Counted {
        first,
        last: first + given * rule.increment,
        log_cnt: log_cnt - given - (fetch - steps),
        logged: logs.then_some(first + steps * rule.increment),
    })
}

/// Applies one part to its page.
pub(crate) fn apply(op: u16, page: &mut PageMut<'_>, data: &[u8]) -> Result<(), ApplyError> {
    if op != OP_SET {
        let text = format!("unknown sequence operation {op:#06x}");
        return Err(ApplyError::new(text));
    }
    let Some((value, [called @ 0..=1])) = data.split_first_chunk::<8>() else {
        let text = format!("a sequence's part of {} bytes", data.len());
        return Err(ApplyError::new(text));
    };
    page.init(SEQUENCE_PAGE_KIND, SPECIAL);
    page.put_u64(VALUE, u64::from_le_bytes(*value));
    page.put_u8(CALLED, *called);
    Ok(())
}

#[cfg(test)]
mod tests;
