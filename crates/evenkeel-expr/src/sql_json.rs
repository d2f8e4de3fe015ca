//! The functions behind the syntax of SQL/JSON. No name calls them: the binder refers to them, so
//! that they are in no catalog.

use std::borrow::Cow;
use std::collections::HashSet;

use evenkeel_types::{
    Datum, JsonEvent, JsonParser, JsonToken, JsonbKind, SqlState, SqlType, TypeError,
};

use crate::call::Call;
use crate::error::ExprResult;
use crate::json::{
    As, Out, Tree, add_key, add_value, becomes_null, null_key, put_value, step, text_of,
};
use crate::proc::{ArgType, Body, Proc, Volatility};

const ANY: ArgType = ArgType::Any;
const BOOL: ArgType = ArgType::Is(SqlType::Bool);
const TEXT: ArgType = ArgType::Is(SqlType::Text);
const JSON: ArgType = ArgType::Is(SqlType::Json);
const JSONB: ArgType = ArgType::Is(SqlType::Jsonb);

/// `value IS JSON`: the value, the kind asked for, and whether names must be unique.
pub static IS_JSON: Proc = Proc::scalar(
    16_100,
    "is_json",
    &[ANY, TEXT, BOOL],
    BOOL,
    (Volatility::Immutable, true),
    is_json,
);

/// `JSON (text WITH UNIQUE KEYS)`
pub static PARSE_UNIQUE: Proc = Proc::scalar(
    16_101,
    "json",
    &[TEXT],
    JSON,
    (Volatility::Immutable, true),
    parse_unique,
);

const fn made(oid: u32, name: &'static str, result: ArgType, body: Body) -> Proc {
    let mode = (Volatility::Stable, false);
    Proc::scalar(oid, name, &[ANY], result, mode, body).variadic(true)
}

static ARRAYS: [Proc; 4] = [
    made(16_110, "json_array", JSON, |call| array(call, false)),
    made(16_111, "json_array", JSON, |call| array(call, true)),
    made(16_112, "json_array", JSONB, |call| array(call, false)),
    made(16_113, "json_array", JSONB, |call| array(call, true)),
];

static OBJECTS: [Proc; 8] = [
    made(16_120, "json_object", JSON, |call| {
        object(call, false, false)
    }),
    made(16_121, "json_object", JSON, |call| {
        object(call, false, true)
    }),
    made(16_122, "json_object", JSON, |call| {
        object(call, true, false)
    }),
    made(16_123, "json_object", JSON, |call| object(call, true, true)),
    made(16_124, "json_object", JSONB, |call| {
        object(call, false, false)
    }),
    made(16_125, "json_object", JSONB, |call| {
        object(call, false, true)
    }),
    made(16_126, "json_object", JSONB, |call| {
        object(call, true, false)
    }),
    made(16_127, "json_object", JSONB, |call| {
        object(call, true, true)
    }),
];

/// `JSON_ARRAY (…)` that makes a `json` or `jsonb`, with NULLs or without them.
pub fn array_maker(binary: bool, absent: bool) -> &'static Proc {
    &ARRAYS[usize::from(binary) * 2 + usize::from(absent)]
}

/// `JSON_OBJECT (…)` that makes a `json` or `jsonb`, with members that are NULL or without them,
/// whose names may come twice or not.
pub fn object_maker(binary: bool, absent: bool, unique: bool) -> &'static Proc {
    &OBJECTS[usize::from(binary) * 4 + usize::from(absent) * 2 + usize::from(unique)]
}

fn duplicate(message: String) -> TypeError {
    TypeError::new(SqlState::DUPLICATE_JSON_OBJECT_KEY_VALUE, message)
}

/// The names of the objects that are open.
#[derive(Default)]
struct Names<'a> {
    open: Vec<HashSet<Cow<'a, str>>>,
    bytes: usize,
}

impl<'a> Names<'a> {
    /// Takes a part of a text; false for a name that its object has already.
    fn take(&mut self, call: &Call<'_>, event: JsonEvent<'a>) -> ExprResult<bool> {
        match event {
            JsonEvent::ObjectStart(_) => self.open.push(HashSet::new()),
            JsonEvent::ObjectEnd(_) => {
                self.open.pop();
            }
            JsonEvent::Key(name) => {
                self.bytes += size_of::<Cow<'_, str>>() * 2 + name.len();
                call.room(self.bytes)?;
                if let Some(names) = self.open.last_mut() {
                    return Ok(names.insert(name));
                }
            }
            _ => {}
        }
        Ok(true)
    }
}

/// Whether a text is JSON, in which with `unique` no object has a name twice.
fn validate(call: &Call<'_>, text: &str, unique: bool) -> ExprResult<bool> {
    let mut parser = JsonParser::new(text, unique);
    let mut pace = call.pace();
    let mut names = Names::default();
    while let Some(event) = parser.next()? {
        step(&mut pace, &event)?;
        if unique && !names.take(call, event)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The errors that say that a text is no JSON.
fn is_about_text(error: &TypeError) -> bool {
    matches!(
        error.sqlstate,
        SqlState::INVALID_TEXT_REPRESENTATION | SqlState::UNTRANSLATABLE_CHARACTER
    )
}

fn is_json(call: &Call<'_>) -> ExprResult<Datum> {
    let (kind, unique) = (call.text(1), call.flag(2));
    let text = match call.arg(0) {
        Datum::Jsonb(value) => {
            let is = match value.root().kind() {
                JsonbKind::Object => kind == "object",
                JsonbKind::Array => kind == "array",
                _ => kind == "scalar",
            };
            return Ok(Datum::Bool(is || kind == "value"));
        }
        Datum::Text(text) => text,
        _ => return call.mismatch(),
    };
    if kind != "value" {
        let is = match JsonParser::first_token(text) {
            Ok(JsonToken::ObjectStart) => kind == "object",
            Ok(JsonToken::ArrayStart) => kind == "array",
            Ok(
                JsonToken::String
                | JsonToken::Number
                | JsonToken::True
                | JsonToken::False
                | JsonToken::Null,
            ) => kind == "scalar",
            _ => false,
        };
        if !is {
            return Ok(Datum::Bool(false));
        }
    }
    if call.type_of(0) == SqlType::Json && !unique {
        return Ok(Datum::Bool(true));
    }
    match validate(call, text, unique) {
        Ok(is) => Ok(Datum::Bool(is)),
        Err(error) if is_about_text(&error) => Ok(Datum::Bool(false)),
        Err(error) => Err(error),
    }
}

fn parse_unique(call: &Call<'_>) -> ExprResult<Datum> {
    match validate(call, call.text(0), true)? {
        true => Ok(call.arg(0).clone()),
        false => Err(duplicate("duplicate JSON object key value".to_owned())),
    }
}

/// The arguments with their types.
fn arguments<'a>(call: &Call<'a>) -> impl Iterator<Item = (&'a Datum, SqlType)> {
    let types = call.types;
    let arguments = call.args.iter().enumerate();
    arguments.map(move |(at, arg)| (*arg, types.get(at).copied().unwrap_or(SqlType::Text)))
}

fn array(call: &Call<'_>, absent: bool) -> ExprResult<Datum> {
    let kept = arguments(call).filter(|(value, _)| !absent || !value.is_null());
    if call.result == SqlType::Jsonb {
        let mut tree = Tree::new(call.session);
        tree.builder.begin_array()?;
        for (value, ty) in kept {
            add_value(&mut tree, value, ty, call.session, 0)?;
        }
        tree.builder.end()?;
        return tree.finish();
    }
    let mut out = Out::new(call.session);
    out.put("[");
    for (at, (value, ty)) in kept.enumerate() {
        if at > 0 {
            out.put(", ");
        }
        put_value(&mut out, value, ty, As::Value, call.session)?;
    }
    out.put("]");
    Ok(out.finish())
}

/// Names and values, in turns.
type Member<'a> = ((&'a Datum, SqlType), (&'a Datum, SqlType));

fn members<'a>(call: &Call<'a>) -> Vec<Member<'a>> {
    let arguments: Vec<_> = arguments(call).collect();
    let pairs = arguments.chunks_exact(2);
    pairs.map(|pair| (pair[0], pair[1])).collect()
}

fn object(call: &Call<'_>, absent: bool, unique: bool) -> ExprResult<Datum> {
    if call.result == SqlType::Jsonb {
        return jsonb_object(call, absent, unique);
    }
    let mut out = Out::new(call.session);
    let mut names = HashSet::new();
    out.put("{");
    let mut first = true;
    for ((name, name_type), (value, ty)) in members(call) {
        let skipped = absent && value.is_null();
        if skipped && !unique {
            continue;
        }
        if name.is_null() {
            return Err(null_key());
        }
        let before = out.text.len();
        if !first && !skipped {
            out.put(", ");
        }
        let start = out.text.len();
        put_value(&mut out, name, name_type, As::Key, call.session)?;
        if unique {
            let name = out.text.get(start..).unwrap_or_default().to_vec();
            if names.contains(&name) {
                let name = String::from_utf8_lossy(&name);
                return Err(duplicate(format!(
                    "duplicate JSON object key value: {name}"
                )));
            }
            names.insert(name);
        }
        if skipped {
            out.text.truncate(before);
            continue;
        }
        first = false;
        out.put(" : ");
        put_value(&mut out, value, ty, As::Value, call.session)?;
    }
    out.put("}");
    Ok(out.finish())
}

fn jsonb_object(call: &Call<'_>, absent: bool, unique: bool) -> ExprResult<Datum> {
    let mut tree = Tree::new(call.session);
    let mut names: HashSet<String> = HashSet::new();
    let mut twice = false;
    tree.builder.begin_object()?;
    for (at, ((name, name_type), (value, ty))) in members(call).into_iter().enumerate() {
        if name.is_null() {
            let message = format!("argument {}: key must not be null", at * 2 + 1);
            return Err(TypeError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let skipped = absent && becomes_null(value, ty);
        if unique {
            let text = text_of(name, name_type, call.session)?;
            twice |= !names.insert(text.into_owned());
        }
        if !skipped {
            add_key(&mut tree, name, name_type, call.session)?;
            add_value(&mut tree, value, ty, call.session, 0)?;
        }
    }
    if twice {
        return Err(duplicate("duplicate JSON object key value".to_owned()));
    }
    tree.builder.end()?;
    tree.finish()
}
