//! The key ranges of an index scan.

use evenkeel_engine::table::KeyRange;
use evenkeel_planner::plan::{IndexKeys, KeyProgram};
use evenkeel_planner::relation::{Index, IndexColumn};
use evenkeel_types::key::KeyColumn;
use evenkeel_types::{Datum, SqlType};

use crate::context::Cx;
use crate::error::{ExecError, ExecResult};

/// A key's value at run time.
enum Value {
    /// Of the column's type.
    Is(Datum),
    /// Equal to nothing, and less or greater than nothing.
    Null,
    /// Below all values of the column's type.
    Below,
    /// Above all values of the column's type.
    Above,
}

/// The columns of an index as the key codec has them.
pub(crate) fn key_columns(index: &Index) -> Vec<KeyColumn> {
    let column = |column: &IndexColumn| KeyColumn {
        column: column.column,
        ty: column.ty,
        descending: column.desc,
        nulls_first: column.nulls_first,
    };
    index.columns.iter().map(column).collect()
}

/// Changes an integer into one of the column's type.
fn narrow(value: Datum, column: SqlType) -> Value {
    let wide = match value {
        Datum::Null => return Value::Null,
        Datum::Int2(v) => i64::from(v),
        Datum::Int4(v) => i64::from(v),
        Datum::Int8(v) => v,
        other => return Value::Is(other),
    };
    let narrow = match column {
        SqlType::Int2 => i16::try_from(wide).ok().map(Datum::Int2),
        SqlType::Int4 => i32::try_from(wide).ok().map(Datum::Int4),
        SqlType::Int8 => Some(Datum::Int8(wide)),
        _ => return Value::Is(value),
    };
    match narrow {
        Some(datum) => Value::Is(datum),
        None if wide < 0 => Value::Below,
        None => Value::Above,
    }
}

/// The part of an index that a scan reads.
pub(crate) enum Search {
    /// Nothing: no row can have such a key.
    Nothing,
    /// The rows whose key begins so.
    Prefix(Vec<u8>),
    /// The rows whose keys begin with one of these, in the order of the index.
    Prefixes(Vec<Vec<u8>>),
    /// These ranges, one after the other, in the order of the index.
    Ranges(Vec<KeyRange>),
}

/// Finds what an index scan searches, under the parameters as they are now.
pub(crate) fn search(keys: &IndexKeys, columns: &[KeyColumn], cx: &Cx) -> ExecResult<Search> {
    let mut prefix = Vec::with_capacity(24);
    if columns.len() < keys.equal.len() {
        return Err(too_many());
    }
    for (key, column) in keys.equal.iter().zip(columns) {
        match narrow(cx.eval(&key.value, &[])?, key.column) {
            Value::Is(value) => column.encode(&value, &mut prefix)?,
            Value::Null | Value::Below | Value::Above => return Ok(Search::Nothing),
        }
    }
    let columns = &columns[keys.equal.len()..];
    let Some(any) = &keys.any else {
        return match rest(keys, columns, prefix, cx)? {
            Some(Part::Prefix(prefix)) => Ok(Search::Prefix(prefix)),
            Some(Part::Range(range)) => Ok(Search::Ranges(vec![range])),
            None => Ok(Search::Nothing),
        };
    };
    let (column, columns) = columns.split_first().ok_or_else(too_many)?;
    let mut heads = Vec::new();
    for element in elements(any, cx)? {
        if let Value::Is(value) = narrow(element, any.column) {
            let mut head = prefix.clone();
            column.encode(&value, &mut head)?;
            heads.push(head);
        }
    }
    // In the index's order, each once: rows then come in that order too, each once.
    heads.sort_unstable();
    heads.dedup();
    if !keys.has_rest() {
        return Ok(Search::Prefixes(heads));
    }
    let mut ranges = Vec::with_capacity(heads.len());
    for head in heads {
        match rest(keys, columns, head, cx)? {
            Some(Part::Prefix(prefix)) => ranges.push(KeyRange::prefix(&prefix)),
            Some(Part::Range(range)) => ranges.push(range),
            None => return Ok(Search::Nothing),
        }
    }
    Ok(Search::Ranges(ranges))
}

enum Part {
    Prefix(Vec<u8>),
    Range(KeyRange),
}

/// Narrows a prefix by the next column's bounds or by IS NULL.
fn rest(
    keys: &IndexKeys,
    columns: &[KeyColumn],
    mut prefix: Vec<u8>,
    cx: &Cx,
) -> ExecResult<Option<Part>> {
    if !keys.has_rest() {
        return Ok(Some(if prefix.is_empty() {
            Part::Range(KeyRange::all())
        } else {
            Part::Prefix(prefix)
        }));
    }
    let column = columns.first().ok_or_else(too_many)?;
    if keys.is_null {
        column.encode(&Datum::Null, &mut prefix)?;
        return Ok(Some(Part::Prefix(prefix)));
    }
    let mut low = None;
    let mut high = None;
    for (end, bound, beyond_is_nothing) in
        [(&keys.low, &mut low, true), (&keys.high, &mut high, false)]
    {
        let Some((key, inclusive)) = end else {
            continue;
        };
        match narrow(cx.eval(&key.value, &[])?, key.column) {
            Value::Null => return Ok(None),
            // A low end above all values leaves nothing, one below them is no end.
            Value::Above if beyond_is_nothing => return Ok(None),
            Value::Below if !beyond_is_nothing => return Ok(None),
            Value::Above | Value::Below => {}
            Value::Is(value) => {
                let mut bytes = prefix.clone();
                column.encode(&value, &mut bytes)?;
                *bound = Some((bytes, *inclusive));
            }
        }
    }
    // Where there is no end, NULLs are: a comparison with them is not true.
    let values = not_null(column, prefix)?;
    let (first, last) = if column.descending {
        (high, low)
    } else {
        (low, high)
    };
    Ok(Some(Part::Range(KeyRange {
        low: Some(first.unwrap_or_else(|| (values.clone(), true))),
        high: Some(last.unwrap_or((values, true))),
    })))
}

/// The beginning of all keys that have a value in the column.
fn not_null(column: &KeyColumn, mut prefix: Vec<u8>) -> ExecResult<Vec<u8>> {
    // The marker is the first byte, whatever the value.
    let mut value = Vec::new();
    column.encode(&Datum::Bool(false), &mut value)?;
    prefix.extend(value.first());
    Ok(prefix)
}

/// The elements of the array that a key may be equal to.
fn elements(key: &KeyProgram, cx: &Cx) -> ExecResult<Vec<Datum>> {
    match cx.eval(&key.value, &[])? {
        Datum::Null => Ok(Vec::new()),
        Datum::Array(array) => Ok(array.elements().to_vec()),
        _ => Err(ExecError::plan("keys that are no array")),
    }
}

fn too_many() -> ExecError {
    ExecError::plan("more keys than its index has columns")
}
