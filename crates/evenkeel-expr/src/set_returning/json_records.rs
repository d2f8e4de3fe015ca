//! `json_to_record` and `json_to_recordset`: the columns are those of a column definition list,
//! which the binder hands over as the names and as a row of the types.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use evenkeel_types::{
    ArrayValue, Datum, Dimension, JsonEvent, JsonParser, JsonToken, MAX_DIMENSIONS, RecordValue,
    SqlState, SqlType, TypeError, TypeResult, write_jsonb,
};

use crate::call::{Call, Session};
use crate::error;
use crate::json::step;
use crate::pace::Pace;
use crate::proc::{ArgType, Proc, ProcKind, Rows, Volatility};

const JSON: ArgType = ArgType::Is(SqlType::Json);
const JSONB: ArgType = ArgType::Is(SqlType::Jsonb);

const fn record(
    oid: u32,
    name: &'static str,
    args: &'static [ArgType; 1],
    strict: bool,
    kind: ProcKind,
) -> Proc {
    Proc {
        oid,
        name,
        args,
        defaults: &[],
        variadic: false,
        result: ArgType::Record,
        strict,
        volatility: Volatility::Stable,
        kind,
        cost: 1.0,
    }
}

/// The functions whose columns a column definition list gives.
pub static RECORDS: [Proc; 4] = [
    record(3204, "json_to_record", &[JSON], true, ProcKind::Scalar(one)),
    record(
        3205,
        "json_to_recordset",
        &[JSON],
        false,
        ProcKind::Set(all, &[]),
    ),
    record(
        3490,
        "jsonb_to_record",
        &[JSONB],
        true,
        ProcKind::Scalar(one),
    ),
    record(
        3491,
        "jsonb_to_recordset",
        &[JSONB],
        false,
        ProcKind::Set(all, &[]),
    ),
];

/// The record; the value itself where it has one column, as a scan of the function expects it.
fn one(call: &Call<'_>) -> TypeResult<Datum> {
    let mut rows = begin(call, false)?;
    let mut row = Vec::new();
    rows.next(call.session, &mut row)?;
    if row.len() == 1 {
        return Ok(row.pop().unwrap_or(Datum::Null));
    }
    let types = std::mem::take(&mut rows.types).into_boxed_slice();
    Ok(Datum::Record(RecordValue::new(types, row.into()).into()))
}

fn all(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    Ok(Box::new(begin(call, true)?))
}

/// A value in a text: its place and, of a string, its characters.
struct Value {
    place: Range<usize>,
    token: JsonToken,
    string: String,
}

type Members = HashMap<String, Value>;

/// Rows to come.
struct Records {
    text: String,
    names: Arc<ArrayValue>,
    types: Vec<SqlType>,
    rows: std::vec::IntoIter<Option<Members>>,
    bytes: usize,
}

fn begin(call: &Call<'_>, set: bool) -> TypeResult<Records> {
    let binary = call.type_of(0) == SqlType::Jsonb;
    let (Datum::Array(names), Datum::Record(sample)) = (call.arg(1), call.arg(2)) else {
        let name = match (binary, set) {
            (false, false) => "json_to_record",
            (false, true) => "json_to_recordset",
            (true, false) => "jsonb_to_record",
            (true, true) => "jsonb_to_recordset",
        };
        let message = format!("could not determine row type for result of {name}");
        return Err(TypeError::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint(
            "Provide a non-null record argument, or call the function in the FROM clause using a \
             column definition list.",
        ));
    };
    let text = match call.arg(0) {
        Datum::Null => None,
        Datum::Jsonb(value) => {
            call.room(value.bytes().len().saturating_mul(2))?;
            let mut out = Vec::new();
            write_jsonb(value.root(), &mut out);
            Some(String::from_utf8(out).unwrap_or_default())
        }
        _ => Some(call.text(0).to_owned()),
    };
    let mut rows = Vec::new();
    let mut bytes = text.as_ref().map_or(0, String::len);
    match (&text, set) {
        // Without a value a record has NULLs, and a set no row.
        (None, true) => {}
        (None, false) => rows.push(None),
        (Some(text), _) => {
            let mut reader = Reader::new(call, text, binary, set);
            reader.read()?;
            bytes += reader.bytes;
            rows.extend(reader.rows.into_iter().map(Some));
        }
    }
    Ok(Records {
        text: text.unwrap_or_default(),
        names: Arc::clone(names),
        types: sample.types().to_vec(),
        rows: rows.into_iter(),
        bytes,
    })
}

/// Collects the members of the objects that become rows.
struct Reader<'c, 'a> {
    call: &'c Call<'c>,
    text: &'a str,
    binary: bool,
    set: bool,
    rows: Vec<Members>,
    bytes: usize,
    key: Option<String>,
    start: usize,
}

impl<'c, 'a> Reader<'c, 'a> {
    fn new(call: &'c Call<'c>, text: &'a str, binary: bool, set: bool) -> Reader<'c, 'a> {
        Reader {
            call,
            text,
            binary,
            set,
            rows: Vec::new(),
            bytes: 0,
            key: None,
            start: 0,
        }
    }

    fn read(&mut self) -> TypeResult<()> {
        let mut parser = JsonParser::new(self.text, true);
        let mut pace = self.call.pace();
        // The depth of an object that becomes a row.
        let level = usize::from(self.set);
        while let Some(event) = parser.next()? {
            step(&mut pace, &event)?;
            let depth = parser.depth();
            let is_start = matches!(event, JsonEvent::ObjectStart(_) | JsonEvent::ArrayStart(_));
            let before = depth - usize::from(is_start);
            match event {
                JsonEvent::ObjectStart(_) if before == level => self.rows.push(Members::new()),
                JsonEvent::ArrayStart(_) if before == 0 && self.set => {}
                JsonEvent::ArrayStart(_) | JsonEvent::ObjectStart(_) | JsonEvent::Scalar(..)
                    if before <= level =>
                {
                    return Err(self.refused(before, &event));
                }
                JsonEvent::Key(name) if depth == level + 1 => self.key = Some(name.into_owned()),
                JsonEvent::ObjectStart(at) | JsonEvent::ArrayStart(at) if before == level + 1 => {
                    self.start = at;
                }
                JsonEvent::ObjectEnd(end) if depth == level + 1 => {
                    self.put(self.start..end, JsonToken::ObjectStart, "")?;
                }
                JsonEvent::ArrayEnd(end) if depth == level + 1 => {
                    self.put(self.start..end, JsonToken::ArrayStart, "")?;
                }
                JsonEvent::Scalar(token, place, string) if depth == level + 1 => {
                    self.put(place, token, &string)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn put(&mut self, place: Range<usize>, token: JsonToken, string: &str) -> TypeResult<()> {
        let Some(key) = self.key.take() else {
            return Ok(());
        };
        self.bytes += size_of::<Value>() * 2 + key.len() + string.len();
        self.call.room(self.bytes)?;
        let value = Value {
            place,
            token,
            string: string.to_owned(),
        };
        if let Some(row) = self.rows.last_mut() {
            row.insert(key, value);
        }
        Ok(())
    }

    /// 22023 for a value that becomes no row.
    fn refused(&self, depth: usize, event: &JsonEvent<'_>) -> TypeError {
        let scalar = matches!(event, JsonEvent::Scalar(..));
        let name = match self.binary {
            true => "jsonb_to_recordset",
            false => "json_to_recordset",
        };
        error::parameter(match (self.set, depth) {
            (false, _) if scalar => "cannot call populate_composite on a scalar".to_owned(),
            (false, _) => "cannot call populate_composite on an array".to_owned(),
            (true, 0) if self.binary => format!("cannot call {name} on a non-array"),
            (true, 0) if scalar => format!("cannot call {name} on a scalar"),
            (true, 0) => format!("cannot call {name} on an object"),
            (true, _) => format!("argument of {name} must be an array of objects"),
        })
    }
}

impl Rows for Records {
    fn next(&mut self, session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let Some(members) = self.rows.next() else {
            return Ok(false);
        };
        row.clear();
        for (name, ty) in self.names.elements().iter().zip(&self.types) {
            let name = name.as_str().unwrap_or_default();
            let value = members.as_ref().and_then(|members| members.get(name));
            row.push(match value {
                Some(value) => populate(value, &self.text, *ty, name, session)?,
                None => Datum::Null,
            });
        }
        Ok(true)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }
}

/// The value of a column.
fn populate(
    value: &Value,
    text: &str,
    ty: SqlType,
    name: &str,
    session: &dyn Session,
) -> TypeResult<Datum> {
    let written = text.get(value.place.clone()).unwrap_or_default();
    match (value.token, ty) {
        (JsonToken::Null, _) => Ok(Datum::Null),
        (JsonToken::String, SqlType::Array(..)) => {
            Datum::parse_text(ty, &value.string, session.types())
        }
        (JsonToken::ArrayStart, SqlType::Array(element, modifier)) => {
            Elements::new(name, modifier.on(*element), session).read(written)
        }
        (_, SqlType::Array(..)) => Err(no_array(name, &[])),
        _ => scalar(value.token, written, &value.string, ty, session),
    }
}

/// The value of a type that is no array.
fn scalar(
    token: JsonToken,
    written: &str,
    string: &str,
    ty: SqlType,
    session: &dyn Session,
) -> TypeResult<Datum> {
    match (token, ty) {
        (JsonToken::Null, _) => Ok(Datum::Null),
        (_, SqlType::Record) => Err(TypeError::new(
            SqlState::WRONG_OBJECT_TYPE,
            "record type has not been registered",
        )),
        (JsonToken::String, SqlType::Json | SqlType::Jsonb) => {
            Datum::parse_text(ty, written, session.types())
        }
        (JsonToken::String, _) => Datum::parse_text(ty, string, session.types()),
        _ => Datum::parse_text(ty, written, session.types()),
    }
}

/// 22P02: no array stands where one must; `path` are subscripts of the array that has it.
fn no_array(name: &str, path: &[i32]) -> TypeError {
    let hint = match path {
        [] => format!("See the value of key \"{name}\"."),
        path => {
            let indexes: Vec<String> = path.iter().map(|at| format!("[{at}]")).collect();
            let indexes = indexes.concat();
            format!("See the array element {indexes} of key \"{name}\".")
        }
    };
    TypeError::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected JSON array").hint(hint)
}

fn malformed() -> TypeError {
    TypeError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        "malformed JSON array",
    )
    .detail("Multidimensional arrays must have sub-arrays with matching dimensions.")
}

/// The elements of an array: the first value that is no array tells the number of dimensions.
struct Elements<'s> {
    name: &'s str,
    element: SqlType,
    session: &'s dyn Session,
    /// The number of dimensions, once it is known.
    dimensions: Option<usize>,
    /// Elements seen so far in each open array.
    counts: Vec<i32>,
    /// The length of each dimension, once one of its arrays has ended.
    lengths: Vec<Option<i32>>,
    values: Vec<Datum>,
}

impl<'s> Elements<'s> {
    fn new(name: &'s str, element: SqlType, session: &'s dyn Session) -> Elements<'s> {
        Elements {
            name,
            element,
            session,
            dimensions: None,
            counts: Vec::new(),
            lengths: Vec::new(),
            values: Vec::new(),
        }
    }

    fn read(mut self, text: &str) -> TypeResult<Datum> {
        let mut parser = JsonParser::new(text, true);
        let mut pace = Pace::new(self.session);
        // Where an element that is an array or object itself begins, and the level it is on.
        let mut inner: Option<(usize, usize)> = None;
        while let Some(event) = parser.next()? {
            step(&mut pace, &event)?;
            let depth = parser.depth();
            if let Some((start, level)) = inner {
                let (JsonEvent::ObjectEnd(end) | JsonEvent::ArrayEnd(end)) = event else {
                    continue;
                };
                if depth == level {
                    inner = None;
                    let written = text.get(start..end).unwrap_or_default();
                    self.element(JsonToken::ObjectStart, written, "")?;
                }
                continue;
            }
            match event {
                JsonEvent::ArrayStart(at) if self.dimensions == Some(depth - 1) => {
                    inner = Some((at, depth - 1));
                }
                JsonEvent::ArrayStart(_) => self.counts.push(0),
                JsonEvent::ObjectStart(at) => {
                    self.settle(depth - 1)?;
                    inner = Some((at, depth - 1));
                }
                JsonEvent::Scalar(token, place, string) => {
                    self.settle(depth)?;
                    let written = text.get(place).unwrap_or_default();
                    self.element(token, written, &string)?;
                }
                JsonEvent::ArrayEnd(_) => self.end(depth + 1)?,
                JsonEvent::ObjectEnd(_) | JsonEvent::Key(_) => {}
            }
        }
        self.finish()
    }

    /// A value stands on this level, which is to be that of the elements.
    fn settle(&mut self, level: usize) -> TypeResult<()> {
        match self.dimensions {
            None if level > MAX_DIMENSIONS => {
                let message = format!(
                    "number of array dimensions ({level}) exceeds the maximum allowed \
                     ({MAX_DIMENSIONS})"
                );
                Err(TypeError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
            }
            None => {
                self.dimensions = Some(level);
                self.lengths.resize(level.max(self.lengths.len()), None);
                Ok(())
            }
            Some(dimensions) if level < dimensions => Err(no_array(self.name, &self.counts)),
            Some(_) => Ok(()),
        }
    }

    fn element(&mut self, token: JsonToken, written: &str, string: &str) -> TypeResult<()> {
        let value = scalar(token, written, string, self.element, self.session)?;
        self.values.push(value);
        if self.values.len() == self.values.capacity() {
            self.session
                .reserve(self.values.len() * 2 * size_of::<Datum>())?;
        }
        self.count();
        Ok(())
    }

    fn count(&mut self) {
        if let Some(last) = self.counts.last_mut() {
            *last = last.saturating_add(1);
        }
    }

    /// An array of this level has ended.
    fn end(&mut self, level: usize) -> TypeResult<()> {
        let count = self.counts.pop().unwrap_or(0);
        if self.lengths.len() < level {
            self.lengths.resize(level, None);
        }
        match self.lengths.get_mut(level - 1) {
            Some(Some(length)) if *length != count => return Err(malformed()),
            Some(length) => *length = Some(count),
            None => {}
        }
        self.count();
        Ok(())
    }

    fn finish(self) -> TypeResult<Datum> {
        let dimensions = self.dimensions.unwrap_or(0);
        if self.values.is_empty() {
            return Ok(Datum::array(Vec::new()));
        }
        let lengths = self.lengths.iter().take(dimensions);
        let shape: Vec<Dimension> = lengths
            .map(|length| Dimension {
                length: length.unwrap_or(0),
                lower: 1,
            })
            .collect();
        Ok(Datum::Array(Arc::new(ArrayValue::new(
            &shape,
            self.values,
        )?)))
    }
}
