//! The fields and elements of `json` and `jsonb` as rows.

use std::ops::Range;

use evenkeel_types::{
    Datum, JsonEvent, JsonParser, JsonToken, Jsonb, JsonbItem, JsonbRef, SqlType, TypeResult,
};

use super::put;
use crate::call::{Call, Session};
use crate::error;
use crate::json::{as_text, jsonb_of, step};
use crate::proc::{ArgType, Proc, ProcKind, Rows, RowsOf, Volatility};

type Started = TypeResult<Box<dyn Rows>>;

/// Rows of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Names and values.
    Each,
    /// Elements.
    Elements,
    /// Names.
    Keys,
}

const JSON: ArgType = ArgType::Is(SqlType::Json);
const JSONB: ArgType = ArgType::Is(SqlType::Jsonb);
const TEXT: ArgType = ArgType::Is(SqlType::Text);

/// The columns of a function: their names and types.
type Columns = &'static [(&'static str, SqlType)];

const fn set(
    oid: u32,
    name: &'static str,
    args: &'static [ArgType; 1],
    result: ArgType,
    (rows, columns): (RowsOf, Columns),
) -> Proc {
    Proc {
        oid,
        name,
        args,
        defaults: &[],
        variadic: false,
        result,
        strict: true,
        volatility: Volatility::Immutable,
        kind: ProcKind::Set(rows, columns),
        cost: 1.0,
    }
}

const fn each(value: SqlType) -> [(&'static str, SqlType); 2] {
    [("key", SqlType::Text), ("value", value)]
}

static EACH_JSON: [(&str, SqlType); 2] = each(SqlType::Json);
static EACH_JSONB: [(&str, SqlType); 2] = each(SqlType::Jsonb);
static EACH_TEXT: [(&str, SqlType); 2] = each(SqlType::Text);

/// The sets of `json` and `jsonb`.
pub static JSON_SETS: [Proc; 10] = [
    set(
        3958,
        "json_each",
        &[JSON],
        ArgType::Record,
        (|call| of_json(call, Kind::Each, false), &EACH_JSON),
    ),
    set(
        3959,
        "json_each_text",
        &[JSON],
        ArgType::Record,
        (|call| of_json(call, Kind::Each, true), &EACH_TEXT),
    ),
    set(
        3208,
        "jsonb_each",
        &[JSONB],
        ArgType::Record,
        (|call| of_jsonb(call, Kind::Each, false), &EACH_JSONB),
    ),
    set(
        3932,
        "jsonb_each_text",
        &[JSONB],
        ArgType::Record,
        (|call| of_jsonb(call, Kind::Each, true), &EACH_TEXT),
    ),
    set(
        3955,
        "json_array_elements",
        &[JSON],
        JSON,
        (
            |call| of_json(call, Kind::Elements, false),
            &[("value", SqlType::Json)],
        ),
    ),
    set(
        3969,
        "json_array_elements_text",
        &[JSON],
        TEXT,
        (
            |call| of_json(call, Kind::Elements, true),
            &[("value", SqlType::Text)],
        ),
    ),
    set(
        3219,
        "jsonb_array_elements",
        &[JSONB],
        JSONB,
        (
            |call| of_jsonb(call, Kind::Elements, false),
            &[("value", SqlType::Jsonb)],
        ),
    ),
    set(
        3465,
        "jsonb_array_elements_text",
        &[JSONB],
        TEXT,
        (
            |call| of_jsonb(call, Kind::Elements, true),
            &[("value", SqlType::Text)],
        ),
    ),
    set(
        3957,
        "json_object_keys",
        &[JSON],
        TEXT,
        (|call| of_json(call, Kind::Keys, true), &[]),
    ),
    set(
        3931,
        "jsonb_object_keys",
        &[JSONB],
        TEXT,
        (|call| of_jsonb(call, Kind::Keys, true), &[]),
    ),
];

/// The rows of a `jsonb`.
struct OfJsonb {
    value: Jsonb,
    kind: Kind,
    text: bool,
    next: usize,
}

fn of_jsonb(call: &Call<'_>, kind: Kind, text: bool) -> Started {
    let value = jsonb_of(call, 0);
    match (kind, value.item()) {
        (Kind::Elements, JsonbItem::Array(_)) => {}
        (Kind::Elements, JsonbItem::Object(_)) => {
            return Err(error::parameter("cannot extract elements from an object"));
        }
        (Kind::Elements, _) => {
            return Err(error::parameter("cannot extract elements from a scalar"));
        }
        (_, JsonbItem::Object(_)) => {}
        (Kind::Each, _) => {
            let text = if text { "_text" } else { "" };
            let message = format!("cannot call jsonb_each{text} on a non-object");
            return Err(error::parameter(message));
        }
        (Kind::Keys, JsonbItem::Array(_)) => {
            let message = "cannot call jsonb_object_keys on an array";
            return Err(error::parameter(message));
        }
        (Kind::Keys, _) => {
            let message = "cannot call jsonb_object_keys on a scalar";
            return Err(error::parameter(message));
        }
    }
    call.room(value.bytes().len())?;
    Ok(Box::new(OfJsonb {
        value: value.to_owned(),
        kind,
        text,
        next: 0,
    }))
}

impl OfJsonb {
    fn shown(&self, value: JsonbRef<'_>) -> Datum {
        match self.text {
            true => as_text(value),
            false => Datum::Jsonb(value.to_owned()),
        }
    }
}

impl Rows for OfJsonb {
    fn next(&mut self, _session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let root = self.value.root();
        let at = self.next;
        self.next += 1;
        match (root.as_array(), root.as_object()) {
            (Some(array), _) => match array.get(at) {
                Some(element) => put(row, self.shown(element)),
                None => return Ok(false),
            },
            (_, Some(object)) => match object.get(at) {
                Some((key, _)) if self.kind == Kind::Keys => put(row, key.into()),
                Some((key, value)) => {
                    row.clear();
                    row.extend([key.into(), self.shown(value)]);
                }
                None => return Ok(false),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.value.bytes().len()
    }
}

/// A value of a `json`: its name, its place, and its characters if those are wanted.
struct Piece {
    key: Option<String>,
    place: Range<usize>,
    string: Option<String>,
    null: bool,
}

/// The rows of a `json`.
struct OfJson {
    json: String,
    pieces: Vec<Piece>,
    kind: Kind,
    text: bool,
    next: usize,
    bytes: usize,
}

fn wrong_json(kind: Kind, text: bool, event: &JsonEvent<'_>) -> Option<String> {
    let suffix = if text { "_text" } else { "" };
    let array = matches!(event, JsonEvent::ArrayStart(_));
    let object = matches!(event, JsonEvent::ObjectStart(_));
    match kind {
        Kind::Each if array => Some("cannot deconstruct an array as an object".to_owned()),
        Kind::Each if !object => Some("cannot deconstruct a scalar".to_owned()),
        Kind::Keys if array => Some("cannot call json_object_keys on an array".to_owned()),
        Kind::Keys if !object => Some("cannot call json_object_keys on a scalar".to_owned()),
        Kind::Elements if object => Some(format!(
            "cannot call json_array_elements{suffix} on a non-array"
        )),
        Kind::Elements if !array => Some(format!(
            "cannot call json_array_elements{suffix} on a scalar"
        )),
        _ => None,
    }
}

fn of_json(call: &Call<'_>, kind: Kind, text: bool) -> Started {
    let json = call.text(0);
    let mut parser = JsonParser::new(json, text || kind != Kind::Elements);
    let mut pace = call.pace();
    let mut bytes = json.len();
    let (mut pieces, mut key, mut start) = (Vec::new(), None, 0);
    while let Some(event) = parser.next()? {
        step(&mut pace, &event)?;
        let depth = parser.depth();
        let is_start = matches!(event, JsonEvent::ObjectStart(_) | JsonEvent::ArrayStart(_));
        if (depth == 1 && is_start) || (depth == 0 && matches!(event, JsonEvent::Scalar(..))) {
            if let Some(message) = wrong_json(kind, text, &event) {
                return Err(error::parameter(message));
            }
            continue;
        }
        let (place, string, null) = match event {
            JsonEvent::Key(name) if depth == 1 => {
                bytes += name.len();
                key = Some(name.into_owned());
                continue;
            }
            JsonEvent::ObjectStart(at) | JsonEvent::ArrayStart(at) if depth == 2 => {
                start = at;
                continue;
            }
            JsonEvent::ObjectEnd(end) | JsonEvent::ArrayEnd(end) if depth == 1 => {
                (start..end, None, false)
            }
            JsonEvent::Scalar(token, place, string) if depth == 1 => {
                let string = (text && token == JsonToken::String).then(|| string.into_owned());
                bytes += string.as_ref().map_or(0, String::len);
                (place, string, token == JsonToken::Null)
            }
            _ => continue,
        };
        bytes += size_of::<Piece>();
        if pieces.len() == pieces.capacity() {
            call.room(bytes + pieces.capacity() * size_of::<Piece>())?;
        }
        pieces.push(Piece {
            key: key.take(),
            place,
            string,
            null,
        });
    }
    call.room(bytes)?;
    Ok(Box::new(OfJson {
        json: json.to_owned(),
        pieces,
        kind,
        text,
        next: 0,
        bytes,
    }))
}

impl Rows for OfJson {
    fn next(&mut self, _session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let Some(piece) = self.pieces.get_mut(self.next) else {
            return Ok(false);
        };
        self.next += 1;
        let key = piece.key.take().map_or(Datum::Null, Datum::Text);
        if self.kind == Kind::Keys {
            put(row, key);
            return Ok(true);
        }
        let value = match piece.string.take() {
            Some(text) => Datum::Text(text),
            None if self.text && piece.null => Datum::Null,
            None => {
                let text = self.json.get(piece.place.clone());
                text.unwrap_or_default().into()
            }
        };
        if self.kind == Kind::Each {
            row.clear();
            row.extend([key, value]);
        } else {
            put(row, value);
        }
        Ok(true)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }
}
