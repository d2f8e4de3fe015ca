//! `json_object` and `jsonb_object`: objects of texts.

use evenkeel_types::{Datum, SqlState, SqlType, TypeError, escape_json};

use super::make::null_key;
use super::write::{Out, Tree};
use crate::call::Call;
use crate::error::ExprResult;

fn wrong(message: &str) -> TypeError {
    TypeError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

/// The object of these names and values.
fn build<'a>(
    call: &Call<'a>,
    fields: impl Iterator<Item = (&'a Datum, &'a Datum)>,
) -> ExprResult<Datum> {
    let jsonb = call.result == SqlType::Jsonb;
    let mut out = Out::new(call.session);
    let mut tree = Tree::new(call.session);
    out.put("{");
    tree.builder.begin_object()?;
    for (at, (key, value)) in fields.enumerate() {
        let key = key.as_str().ok_or_else(null_key)?;
        let value = value.as_str();
        let size = key.len() + value.map_or(0, str::len);
        if jsonb {
            tree.room(size)?;
            tree.builder.key(key)?;
            match value {
                Some(value) => tree.builder.string(value)?,
                None => tree.builder.null()?,
            }
            continue;
        }
        out.room(size.saturating_mul(2))?;
        if at > 0 {
            out.put(", ");
        }
        escape_json(key, &mut out.text);
        out.put(" : ");
        match value {
            Some(value) => escape_json(value, &mut out.text),
            None => out.put("null"),
        }
    }
    out.put("}");
    tree.builder.end()?;
    if jsonb {
        tree.finish()
    } else {
        Ok(out.finish())
    }
}

/// Of one array, whose elements are names and values in turn.
pub fn object(call: &Call<'_>) -> ExprResult<Datum> {
    let array = call.array(0);
    match array.dimensions() {
        [one] if one.length % 2 != 0 => {
            return Err(wrong("array must have even number of elements"));
        }
        [_, two] if two.length != 2 => return Err(wrong("array must have two columns")),
        [] | [_] | [_, _] => {}
        _ => return Err(wrong("wrong number of array subscripts")),
    }
    let pairs = array.elements().chunks_exact(2);
    build(call, pairs.map(|pair| (&pair[0], &pair[1])))
}

/// Of an array of names and one of values.
pub fn object_of_two(call: &Call<'_>) -> ExprResult<Datum> {
    let (keys, values) = (call.array(0), call.array(1));
    if keys.dimensions().len() > 1 || keys.dimensions().len() != values.dimensions().len() {
        return Err(wrong("wrong number of array subscripts"));
    }
    if keys.elements().len() != values.elements().len() {
        return Err(wrong("mismatched array dimensions"));
    }
    build(call, keys.elements().iter().zip(values.elements()))
}
