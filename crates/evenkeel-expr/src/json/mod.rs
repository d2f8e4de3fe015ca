//! Functions and operators of `json` and `jsonb`.

mod change;
mod contain;
mod jsonb;
mod make;
mod object;
mod path;
mod text;
mod write;

use evenkeel_types::{Datum, JsonbRef, SqlState, TypeError};

use crate::call::Call;
use crate::error::ExprResult;

pub(crate) use change::assign;
pub use change::{
    concatenate, delete_index, delete_key, delete_path, insert, pretty_text, set, set_lax,
    strip_nulls,
};
pub use contain::{contained, contains};
pub use jsonb::{
    array_length, element, element_text, exists, exists_all, exists_any, extract_path,
    extract_path_text, field, field_text, type_of,
};
pub(crate) use make::{As, add_key, add_value, becomes_null, null_key, put_value, text_of};
pub use make::{array_to_json, build_array, build_object, row_to_json, to_json, to_jsonb};
pub use object::{object, object_of_two};
pub(crate) use text::step;
pub use text::{
    json_array_length, json_element, json_element_text, json_extract_path, json_extract_path_text,
    json_field, json_field_text, json_strip_nulls, json_type_of,
};
pub(crate) use write::{Out, Tree};

/// A `jsonb` argument; `null` for an argument of another type.
pub(crate) fn jsonb_of<'a>(call: &Call<'a>, at: usize) -> JsonbRef<'a> {
    root_of(call.arg(at))
}

/// A `jsonb` value; `null` for a value of another type.
fn root_of(value: &Datum) -> JsonbRef<'_> {
    match value {
        Datum::Jsonb(value) => value.root(),
        _ => JsonbRef::null(),
    }
}

/// 22023.
fn invalid(message: impl Into<String>) -> TypeError {
    TypeError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The elements of a `text[]` argument, or the variadic arguments in its place.
fn texts<'a>(call: &Call<'a>, from: usize) -> Vec<Option<&'a str>> {
    match call.arg(from) {
        Datum::Array(array) => array.elements().iter().map(Datum::as_str).collect(),
        _ => {
            let args = call.args.get(from..).unwrap_or_default();
            args.iter().map(|arg| arg.as_str()).collect()
        }
    }
}

/// The `text[]` argument of a path, which has one dimension.
fn path_of<'a>(call: &Call<'a>, at: usize) -> ExprResult<Vec<Option<&'a str>>> {
    if call.array(at).dimensions().len() > 1 {
        return Err(TypeError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "wrong number of array subscripts",
        ));
    }
    Ok(texts(call, at))
}

/// The text of a value as `->>` gives it; NULL for `null`.
pub(crate) fn as_text(value: JsonbRef<'_>) -> Datum {
    use evenkeel_types::JsonbItem;
    match value.item() {
        JsonbItem::Null => Datum::Null,
        JsonbItem::String(text) => text.into(),
        _ => {
            let mut out = Vec::new();
            evenkeel_types::write_jsonb(value, &mut out);
            String::from_utf8(out).unwrap_or_default().into()
        }
    }
}
