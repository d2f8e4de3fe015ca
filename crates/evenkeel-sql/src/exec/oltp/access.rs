//! Finding the rows of a compiled statement: a point, a range of an index, or the whole table.

use std::sync::Arc;

use evenkeel_engine::Snapshot;
use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::{Direction, IndexScan, KeyRange, Scan};

use super::expr::{Env, Typed};
use crate::catalog::TableInfo;
use crate::error::SqlResult;
use crate::key;
use crate::types::{Datum, SqlType};

/// One column's part of a search key.
#[derive(Debug)]
pub struct KeyValue {
    /// The value; needs no row.
    pub value: Typed,
    /// The type of the column.
    pub column: SqlType,
    /// Whether the value is of a wider integer type than the column.
    pub narrow: bool,
}

/// An end of a range.
#[derive(Debug)]
pub struct Bound {
    /// Its value.
    pub value: KeyValue,
    /// Whether rows equal to it are wanted.
    pub inclusive: bool,
}

/// Where to look for rows.
#[derive(Debug)]
pub enum Access {
    /// The row with this key in a unique index.
    Point { index: usize, key: Vec<KeyValue> },
    /// The rows whose key's first column is one of these.
    Points { index: usize, keys: Vec<KeyValue> },
    /// The rows whose key begins with `prefix`, and whose next column lies between the bounds.
    Range {
        index: usize,
        prefix: Vec<KeyValue>,
        low: Option<Bound>,
        high: Option<Bound>,
    },
    /// All rows.
    Scan,
}

impl Access {
    /// As EXPLAIN says it.
    pub fn describe(&self, table: &TableInfo) -> String {
        match self {
            Access::Point { index, .. }
            | Access::Points { index, .. }
            | Access::Range { index, .. } => {
                let index = &table.indexes[*index].name;
                format!("Index Scan using {index} on {}", table.name)
            }
            Access::Scan => format!("Seq Scan on {}", table.name),
        }
    }
}

/// A key value at run time.
enum Key {
    Value(Datum),
    /// NULL, or a number that the column's type cannot hold: nothing is equal to it.
    Nothing,
    /// Above every value of the column's type, or below.
    Beyond,
}

impl KeyValue {
    fn eval(&self, env: Env<'_>) -> SqlResult<Key> {
        let datum = self.value.eval(None, env)?;
        if datum.is_null() {
            return Ok(Key::Nothing);
        }
        if !self.narrow {
            return Ok(Key::Value(datum));
        }
        let wide = match datum {
            Datum::Int4(value) => i64::from(value),
            Datum::Int8(value) => value,
            other => return Ok(Key::Value(other)),
        };
        let narrow = match self.column {
            SqlType::Int2 => i16::try_from(wide).ok().map(Datum::Int2),
            _ => i32::try_from(wide).ok().map(Datum::Int4),
        };
        Ok(match narrow {
            Some(datum) => Key::Value(datum),
            None => Key::Beyond,
        })
    }
}

/// The search key of a point; `None` when no row can have it.
fn point_key(
    table: &TableInfo,
    index: usize,
    key: &[KeyValue],
    env: Env<'_>,
    out: &mut Vec<u8>,
) -> SqlResult<bool> {
    let mut data: smallvec::SmallVec<[Datum; 4]> = smallvec::SmallVec::new();
    for part in key {
        match part.eval(env)? {
            Key::Value(datum) => data.push(datum),
            Key::Nothing | Key::Beyond => return Ok(false),
        }
    }
    table.indexes[index].key.encode_prefix(&data, out)?;
    Ok(true)
}

/// Appends the row of a point access, if it is there, to `out`.
pub fn lookup(
    table: &TableInfo,
    index: usize,
    key: &[KeyValue],
    env: Env<'_>,
    snapshot: &Snapshot,
    out: &mut RowBatch,
) -> SqlResult<()> {
    let mut bytes = Vec::with_capacity(32);
    if point_key(table, index, key, env, &mut bytes)? {
        table.table.index_lookup(snapshot, index, &bytes, out)?;
    }
    Ok(())
}

/// Appends the rows of every key, each once though it may be given twice.
fn look_up_all(
    table: &TableInfo,
    index: usize,
    keys: &[KeyValue],
    env: Env<'_>,
    snapshot: &Snapshot,
    out: &mut RowBatch,
) -> SqlResult<()> {
    let mut wanted: Vec<Vec<u8>> = Vec::with_capacity(keys.len());
    for key in keys {
        let mut bytes = Vec::with_capacity(16);
        if point_key(table, index, std::slice::from_ref(key), env, &mut bytes)? {
            wanted.push(bytes);
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    for key in &wanted {
        table.table.index_lookup(snapshot, index, key, out)?;
    }
    Ok(())
}

/// The keys of a range access; `None` when it is empty.
fn key_range(
    table: &TableInfo,
    index: usize,
    prefix: &[KeyValue],
    ends: (&Option<Bound>, &Option<Bound>),
    env: Env<'_>,
) -> SqlResult<Option<KeyRange>> {
    let mut head = Vec::new();
    if !point_key(table, index, prefix, env, &mut head)? {
        return Ok(None);
    }
    let mut data = Vec::with_capacity(prefix.len() + 1);
    for part in prefix {
        if let Key::Value(datum) = part.eval(env)? {
            data.push(datum);
        }
    }
    let whole = (!head.is_empty()).then(|| (head.clone(), true));
    let mut range = KeyRange {
        low: whole.clone(),
        high: whole,
    };
    for (bound, is_low) in [(ends.0, true), (ends.1, false)] {
        let Some(bound) = bound else { continue };
        let end = if is_low {
            &mut range.low
        } else {
            &mut range.high
        };
        match bound.value.eval(env)? {
            Key::Nothing => return Ok(None),
            // In an ascending column a low end above all values leaves nothing, and one below
            // them leaves the prefix's own end; the residual condition decides the rest.
            Key::Beyond => {}
            Key::Value(datum) => {
                let mut key = Vec::with_capacity(head.len() + 16);
                data.push(datum);
                table.indexes[index].key.encode_prefix(&data, &mut key)?;
                data.pop();
                // Keys of further columns begin with this one: an exclusive low end skips
                // them, an exclusive high end stops before them.
                if is_low && !bound.inclusive {
                    key::successor(&mut key);
                    *end = Some((key, true));
                } else {
                    *end = Some((key, bound.inclusive));
                }
            }
        }
    }
    Ok(Some(range))
}

/// The rows of an access, a page at a time.
pub enum Rows {
    /// Nothing left.
    Done,
    /// Rows found at once.
    Ready(RowBatch),
    /// An index range.
    Index(IndexScan),
    /// The whole table.
    Heap(Scan),
}

impl Rows {
    /// Begins to look for the rows that `snapshot` sees.
    pub fn open(
        table: &Arc<TableInfo>,
        access: &Access,
        direction: Direction,
        env: Env<'_>,
        snapshot: &Snapshot,
    ) -> SqlResult<Rows> {
        match access {
            Access::Point { index, key } => {
                let mut batch = RowBatch::new();
                lookup(table, *index, key, env, snapshot, &mut batch)?;
                Ok(if batch.is_empty() {
                    Rows::Done
                } else {
                    Rows::Ready(batch)
                })
            }
            Access::Points { index, keys } => {
                let mut batch = RowBatch::new();
                look_up_all(table, *index, keys, env, snapshot, &mut batch)?;
                Ok(if batch.is_empty() {
                    Rows::Done
                } else {
                    Rows::Ready(batch)
                })
            }
            Access::Range {
                index,
                prefix,
                low,
                high,
            } => match key_range(table, *index, prefix, (low, high), env)? {
                Some(range) => {
                    let scan = table
                        .table
                        .index_scan(snapshot, *index, &range, direction)?;
                    Ok(Rows::Index(scan))
                }
                None => Ok(Rows::Done),
            },
            Access::Scan => Ok(Rows::Heap(table.table.scan(snapshot))),
        }
    }

    /// Replaces `batch` by the next rows; false at the end.
    pub fn next_page(&mut self, batch: &mut RowBatch) -> SqlResult<bool> {
        match self {
            Rows::Done => Ok(false),
            Rows::Ready(_) => {
                if let Rows::Ready(ready) = std::mem::replace(self, Rows::Done) {
                    *batch = ready;
                }
                Ok(true)
            }
            Rows::Index(scan) => Ok(scan.next_page(batch)?),
            Rows::Heap(scan) => Ok(scan.next_page(batch)?),
        }
    }
}
