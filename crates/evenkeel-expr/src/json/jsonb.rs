//! Looking into a `jsonb`.

use evenkeel_types::{Datum, JsonbItem, JsonbKind, JsonbRef};

use super::path::index_of;
use super::{as_text, invalid, jsonb_of, texts};
use crate::call::Call;
use crate::error::ExprResult;

type Answer = ExprResult<Datum>;

fn copied(value: Option<JsonbRef<'_>>) -> Datum {
    value.map_or(Datum::Null, |value| Datum::Jsonb(value.to_owned()))
}

/// The result of `->` or, as text, of `->>`.
fn answer(value: Option<JsonbRef<'_>>, text: bool) -> Answer {
    Ok(match value {
        Some(value) if text => as_text(value),
        value => copied(value),
    })
}

fn field_of<'a>(call: &Call<'a>) -> Option<JsonbRef<'a>> {
    jsonb_of(call, 0).as_object()?.find(call.text(1))
}

/// `jsonb -> text`
pub fn field(call: &Call<'_>) -> Answer {
    answer(field_of(call), false)
}

/// `jsonb ->> text`
pub fn field_text(call: &Call<'_>) -> Answer {
    answer(field_of(call), true)
}

/// The element of an array; a scalar is an array of itself.
fn element_of<'a>(call: &Call<'a>) -> Option<JsonbRef<'a>> {
    let value = jsonb_of(call, 0);
    let at = call.int(1);
    if value.is_scalar() {
        return matches!(at, 0 | -1).then_some(value);
    }
    value.as_array()?.at(at)
}

/// `jsonb -> integer`
pub fn element(call: &Call<'_>) -> Answer {
    answer(element_of(call), false)
}

/// `jsonb ->> integer`
pub fn element_text(call: &Call<'_>) -> Answer {
    answer(element_of(call), true)
}

/// The value at the end of a path; `None` where there is none.
pub(super) fn at_path<'a>(value: JsonbRef<'a>, path: &[Option<&str>]) -> Option<JsonbRef<'a>> {
    path.iter().try_fold(value, |value, step| {
        let step = (*step)?;
        match value.item() {
            JsonbItem::Object(object) => object.find(step),
            JsonbItem::Array(array) => array.at(i64::from(index_of(step)?)),
            _ => None,
        }
    })
}

/// `jsonb #> text[]`, `jsonb_extract_path`
pub fn extract_path(call: &Call<'_>) -> Answer {
    answer(at_path(jsonb_of(call, 0), &texts(call, 1)), false)
}

/// `jsonb #>> text[]`, `jsonb_extract_path_text`
pub fn extract_path_text(call: &Call<'_>) -> Answer {
    answer(at_path(jsonb_of(call, 0), &texts(call, 1)), true)
}

/// `jsonb_array_length`
pub fn array_length(call: &Call<'_>) -> Answer {
    match jsonb_of(call, 0).item() {
        JsonbItem::Array(array) => Ok(Datum::Int4(i32::try_from(array.len()).unwrap_or(i32::MAX))),
        JsonbItem::Object(_) => Err(invalid("cannot get array length of a non-array")),
        _ => Err(invalid("cannot get array length of a scalar")),
    }
}

/// `jsonb_typeof`
pub fn type_of(call: &Call<'_>) -> Answer {
    Ok(match jsonb_of(call, 0).kind() {
        JsonbKind::Null => "null",
        JsonbKind::String => "string",
        JsonbKind::Number => "number",
        JsonbKind::Bool => "boolean",
        JsonbKind::Array => "array",
        JsonbKind::Object => "object",
    }
    .into())
}

/// Whether a name, or an element that is this string, is there.
fn has(value: JsonbRef<'_>, key: &str) -> bool {
    let is_key =
        |value: JsonbRef<'_>| matches!(value.item(), JsonbItem::String(text) if text == key);
    match value.item() {
        JsonbItem::Object(object) => object.find(key).is_some(),
        JsonbItem::Array(array) => array.iter().any(is_key),
        _ => is_key(value),
    }
}

/// `jsonb ? text`
pub fn exists(call: &Call<'_>) -> Answer {
    Ok(Datum::Bool(has(jsonb_of(call, 0), call.text(1))))
}

/// The names of a `text[]`, each with a question to the session; NULLs are passed over.
fn each_has(call: &Call<'_>, stop: bool) -> Answer {
    let value = jsonb_of(call, 0);
    let mut pace = call.pace();
    for key in texts(call, 1).into_iter().flatten() {
        pace.step(value.bytes().len() / 8)?;
        if has(value, key) == stop {
            return Ok(Datum::Bool(stop));
        }
    }
    Ok(Datum::Bool(!stop))
}

/// `jsonb ?| text[]`
pub fn exists_any(call: &Call<'_>) -> Answer {
    each_has(call, true)
}

/// `jsonb ?& text[]`
pub fn exists_all(call: &Call<'_>) -> Answer {
    each_has(call, false)
}
