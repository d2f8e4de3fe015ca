//! Arrays in the catalog's text form, and what the rewrite makes of operators on them.

use super::{Definition, arg, lax, number_arg, strict, text_arg};
use crate::error::SqlResult;
use crate::pg_catalog::arrays;
use crate::pg_catalog::snapshot::Snapshot;
use crate::types::{Datum, SqlType, TypeContext};

pub(super) const FUNCTIONS: &[Definition] = &[
    lax("array_to_string", SqlType::Text, to_string),
    lax("array_position", SqlType::Int4, position),
    strict("array_length", SqlType::Int4, length),
    strict("array_upper", SqlType::Int4, length),
    strict("array_lower", SqlType::Int4, |snapshot, args| {
        Ok(match length(snapshot, args)? {
            Datum::Null => Datum::Null,
            _ => Datum::Int4(1),
        })
    }),
    strict("cardinality", SqlType::Int4, |_, args| {
        Ok(Datum::Int4(count(&items(args, 0)?)))
    }),
    lax("array_remove", SqlType::TextArray, removed),
    lax("ek_array_cat", SqlType::TextArray, concatenated),
    lax("ek_array_of", SqlType::TextArray, |_, args| {
        let items: Vec<Option<String>> = args.iter().map(item_text).collect();
        let items = items.iter().map(Option::as_deref);
        Ok(Datum::Text(arrays::format(items)))
    }),
    lax("ek_any_equal", SqlType::Bool, any_equal),
    strict("ek_array_element", SqlType::Text, element),
    strict("ek_array_number", SqlType::Int8, |snapshot, args| {
        Ok(match element(snapshot, args)? {
            Datum::Text(text) => text.parse().map_or(Datum::Null, Datum::Int8),
            _ => Datum::Null,
        })
    }),
    lax("ek_array_prefixed", SqlType::TextArray, prefixed),
    lax("ek_array", SqlType::TextArray, |_, args| {
        Ok(match arg(args, 0) {
            Datum::Null => Datum::Text("{}".to_owned()),
            other => other.clone(),
        })
    }),
];

fn items(args: &[Datum], at: usize) -> SqlResult<Vec<Option<String>>> {
    Ok(arrays::parse(text_arg(args, at)?))
}

fn count(items: &[Option<String>]) -> i32 {
    i32::try_from(items.len()).unwrap_or(i32::MAX)
}

/// A value as it stands among an array's items.
pub(super) fn item_text(value: &Datum) -> Option<String> {
    let ty = match value {
        Datum::Null => return None,
        Datum::Text(text) => return Some(text.clone()),
        Datum::Bool(_) => SqlType::Bool,
        Datum::Int2(_) => SqlType::Int2,
        Datum::Int4(_) => SqlType::Int4,
        Datum::Int8(_) => SqlType::Int8,
        Datum::Oid(_) => SqlType::Oid,
        Datum::Float4(_) => SqlType::Float4,
        Datum::Float8(_) => SqlType::Float8,
        Datum::Numeric(_) => SqlType::Numeric(None),
        Datum::Date(_) => SqlType::Date,
        Datum::Time(_) => SqlType::Time,
        Datum::Timestamp(_) => SqlType::Timestamp(None),
        Datum::Timestamptz(_) => SqlType::Timestamptz(None),
        Datum::Interval(_) => SqlType::Interval,
        Datum::Uuid(_) => SqlType::Uuid,
        Datum::Bytea(_) => SqlType::Bytea,
    };
    Some(value.to_text(ty, &TypeContext::default()))
}

/// `array_to_string(array, delimiter [, text for NULL])`
fn to_string(_: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    if arg(args, 0).is_null() || arg(args, 1).is_null() {
        return Ok(Datum::Null);
    }
    let null = match arg(args, 2) {
        Datum::Text(text) => Some(text.as_str()),
        _ => None,
    };
    let items = items(args, 0)?;
    let shown: Vec<&str> = items
        .iter()
        .filter_map(|item| item.as_deref().or(null))
        .collect();
    Ok(Datum::Text(shown.join(text_arg(args, 1)?)))
}

/// `array_position(array, value)`: from 1, NULL if it is not there.
fn position(_: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    if arg(args, 0).is_null() {
        return Ok(Datum::Null);
    }
    let wanted = item_text(arg(args, 1));
    let found = items(args, 0)?.iter().position(|item| *item == wanted);
    Ok(found.map_or(Datum::Null, |at| {
        Datum::Int4(i32::try_from(at + 1).unwrap_or(i32::MAX))
    }))
}

/// `array_length(array, 1)`: NULL of an empty one, and of other dimensions.
fn length(_: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    let items = items(args, 0)?;
    if items.is_empty() || (args.len() > 1 && number_arg(args, 1)? != 1) {
        return Ok(Datum::Null);
    }
    Ok(Datum::Int4(count(&items)))
}

/// `a || b`; NULL is as an empty array unless both are.
/// The array without the items that are equal to a value.
fn removed(_: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    if arg(args, 0).is_null() {
        return Ok(Datum::Null);
    }
    let (items, value) = (items(args, 0)?, item_text(arg(args, 1)));
    let left = items.iter().filter(|item| **item != value);
    Ok(Datum::Text(arrays::format(left.map(Option::as_deref))))
}

fn concatenated(_: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    let (left, right) = (arg(args, 0), arg(args, 1));
    if left.is_null() || right.is_null() {
        return Ok(if left.is_null() {
            right.clone()
        } else {
            left.clone()
        });
    }
    let (left, right) = (items(args, 0)?, items(args, 1)?);
    Ok(Datum::Text(arrays::format(
        left.iter().chain(&right).map(Option::as_deref),
    )))
}

/// `value = ANY (array)`
fn any_equal(_: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    let Some(wanted) = item_text(arg(args, 0)) else {
        return Ok(Datum::Null);
    };
    if arg(args, 1).is_null() {
        return Ok(Datum::Null);
    }
    let items = items(args, 1)?;
    if items.iter().flatten().any(|item| *item == wanted) {
        return Ok(Datum::Bool(true));
    }
    Ok(if items.contains(&None) {
        Datum::Null
    } else {
        Datum::Bool(false)
    })
}

/// `array[n]`; the vectors of the catalog count from 0, arrays from 1.
fn element(_: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    let first = i64::from(text_arg(args, 0)?.starts_with('{'));
    let at = usize::try_from(number_arg(args, 1)? - first).ok();
    let item = at.and_then(|at| items(args, 0).ok()?.into_iter().nth(at).flatten());
    Ok(item.map_or(Datum::Null, Datum::Text))
}

/// `array(select prefix || x from unnest(array) x)`
fn prefixed(_: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    if arg(args, 1).is_null() {
        return Ok(Datum::Text("{}".to_owned()));
    }
    let prefix = item_text(arg(args, 0)).unwrap_or_default();
    let items: Vec<Option<String>> = items(args, 1)?
        .into_iter()
        .map(|item| item.map(|item| prefix.clone() + &item))
        .collect();
    Ok(Datum::Text(arrays::format(
        items.iter().map(Option::as_deref),
    )))
}
