//! `json` and `jsonb` made of values of other types.

use std::borrow::Cow;

use evenkeel_types::{
    DateStyle, Datum, Dimension, JsonEvent, JsonParser, JsonbKind, Numeric, RecordValue, SqlState,
    SqlType, TypeError, escape_json,
};

use super::invalid;
use super::write::{Out, Tree};
use crate::call::{Call, Session};
use crate::error::{self, ExprResult};
use crate::memory::text_bytes;

type Answer = ExprResult<Datum>;

/// Levels of rows and arrays within one another that become JSON.
const MAX_LEVELS: usize = 500;

/// Place of a value that becomes JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    /// A value, in one line.
    Value,
    /// A value, whose parts are on lines of their own.
    Lines,
    /// The name of a field.
    Key,
}

/// Way in which values of a type become JSON.
enum Way {
    Bool,
    Number,
    Moment,
    Json,
    Array,
    Record,
    Text,
}

fn way(ty: SqlType) -> Way {
    match ty {
        SqlType::Bool => Way::Bool,
        _ if ty.is_number() => Way::Number,
        SqlType::Date | SqlType::Timestamp(_) | SqlType::Timestamptz(_) => Way::Moment,
        SqlType::Json | SqlType::Jsonb => Way::Json,
        SqlType::Array(..) | SqlType::Int2Vector | SqlType::OidVector => Way::Array,
        SqlType::Record => Way::Record,
        _ => Way::Text,
    }
}

/// Whether a value becomes the `null` of `jsonb`, which an object without nulls leaves out
/// (`uniqueifyJsonbObject` of PostgreSQL's `jsonb_util.c`).
pub(crate) fn becomes_null(value: &Datum, ty: SqlType) -> bool {
    match value {
        Datum::Null => true,
        Datum::Jsonb(value) => value.root().kind() == JsonbKind::Null,
        Datum::Text(text) => ty == SqlType::Json && text.trim_ascii() == "null",
        _ => false,
    }
}

fn no_key() -> TypeError {
    invalid("key value must be scalar, not array, composite, or json")
}

/// 22004 for a NULL in the place of a name.
pub(crate) fn null_key() -> TypeError {
    TypeError::new(
        SqlState::NULL_VALUE_NOT_ALLOWED,
        "null value not allowed for object key",
    )
}

/// The text of a value, as JSON has it: moments with a `T` and a full offset.
pub(crate) fn text_of<'a>(
    value: &'a Datum,
    ty: SqlType,
    session: &dyn Session,
) -> ExprResult<Cow<'a, str>> {
    if let (Datum::Text(text), false) = (value, matches!(ty, SqlType::Char(Some(_)))) {
        return Ok(Cow::Borrowed(text));
    }
    let size = text_bytes(value);
    if size > crate::LARGE {
        session.reserve(size)?;
        session.check_cancel()?;
    }
    let types = session.types();
    let text = match types.date_style {
        DateStyle::Iso => value.to_text(ty, types),
        _ => {
            let mut iso = types.clone();
            iso.date_style = DateStyle::Iso;
            value.to_text(ty, &iso)
        }
    };
    Ok(Cow::Owned(match way(ty) {
        Way::Bool => if text == "t" { "true" } else { "false" }.to_owned(),
        Way::Moment => moment(&text, matches!(ty, SqlType::Timestamptz(_))),
        _ => text,
    }))
}

fn moment(text: &str, zoned: bool) -> String {
    let (text, era) = match text.strip_suffix(" BC") {
        Some(text) => (text, " BC"),
        None => (text, ""),
    };
    let mut out = text.replacen(' ', "T", 1);
    let offset = out.rfind(['+', '-']).filter(|_| zoned && out.contains('T'));
    if offset.is_some_and(|at| out.len() - at == 3) {
        out.push_str(":00");
    }
    out + era
}

fn is_json_number(text: &str) -> bool {
    !text.contains(['N', 'n'])
}

/// Appends a value as JSON.
///
/// # Errors
/// 22023 for a name that is no scalar; 54000, 54001, 53200, 57014.
pub(crate) fn put_value(
    out: &mut Out<'_>,
    value: &Datum,
    ty: SqlType,
    place: As,
    session: &dyn Session,
) -> ExprResult<()> {
    put_level(out, value, ty, place, session, 0)
}

fn put_level(
    out: &mut Out<'_>,
    value: &Datum,
    ty: SqlType,
    place: As,
    session: &dyn Session,
    level: usize,
) -> ExprResult<()> {
    if value.is_null() {
        out.put("null");
        return Ok(());
    }
    let way = way(ty);
    if place == As::Key && matches!(way, Way::Array | Way::Record | Way::Json) {
        return Err(no_key());
    }
    if level > MAX_LEVELS {
        return Err(error::too_complex());
    }
    match (way, value) {
        (Way::Array, Datum::Array(array)) => {
            let element = ty.element().unwrap_or(SqlType::Text);
            let mut elements = array.elements().iter();
            let inner = |out: &mut Out<'_>, value: &Datum| {
                put_level(out, value, element, As::Value, session, level + 1)
            };
            put_dimension(out, array.dimensions(), &mut elements, place, &inner)
        }
        (Way::Record, Datum::Record(record)) => put_record(out, record, place, session, level),
        (way, _) => {
            let text = text_of(value, ty, session)?;
            out.room(text.len().saturating_mul(2))?;
            match way {
                Way::Json => out.put(&text),
                Way::Bool if place != As::Key => out.put(&text),
                Way::Number if place != As::Key && is_json_number(&text) => out.put(&text),
                _ => escape_json(&text, &mut out.text),
            }
            Ok(())
        }
    }
}

/// The elements of an array along its first dimension.
fn put_dimension<'v>(
    out: &mut Out<'_>,
    dimensions: &[Dimension],
    elements: &mut impl Iterator<Item = &'v Datum>,
    place: As,
    inner: &impl Fn(&mut Out<'_>, &Datum) -> ExprResult<()>,
) -> ExprResult<()> {
    out.put("[");
    if let Some((first, rest)) = dimensions.split_first() {
        for at in 0..first.length {
            if at > 0 {
                out.put(if place == As::Lines { ",\n " } else { "," });
            }
            if rest.is_empty() {
                inner(out, elements.next().unwrap_or(&Datum::Null))?;
            } else {
                put_dimension(out, rest, elements, As::Value, inner)?;
            }
        }
    }
    out.put("]");
    Ok(())
}

/// The name of a field, of which a row that was built by itself has only a number.
fn field_name(record: &RecordValue, at: usize) -> Cow<'_, str> {
    match record.names().get(at) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("f{}", at + 1)),
    }
}

fn put_record(
    out: &mut Out<'_>,
    record: &RecordValue,
    place: As,
    session: &dyn Session,
    level: usize,
) -> ExprResult<()> {
    out.put("{");
    for (at, (field, ty)) in record.fields().iter().zip(record.types()).enumerate() {
        if at > 0 {
            out.put(if place == As::Lines { ",\n " } else { "," });
        }
        escape_json(&field_name(record, at), &mut out.text);
        out.put(":");
        put_level(out, field, *ty, As::Value, session, level + 1)?;
    }
    out.put("}");
    Ok(())
}

/// Appends a value to a `jsonb`.
///
/// # Errors
/// As [`put_value`], and those of the input function of `jsonb`.
pub(crate) fn add_value(
    tree: &mut Tree<'_>,
    value: &Datum,
    ty: SqlType,
    session: &dyn Session,
    level: usize,
) -> ExprResult<()> {
    if level > MAX_LEVELS {
        return Err(error::too_complex());
    }
    match (value, way(ty)) {
        (Datum::Null, _) => tree.builder.null(),
        (Datum::Bool(value), Way::Bool) => tree.builder.bool(*value),
        (Datum::Jsonb(value), _) => {
            tree.room(value.bytes().len())?;
            tree.builder.value(value.root())
        }
        (Datum::Text(text), Way::Json) => add_json(tree, text),
        (Datum::Array(array), Way::Array) => {
            let element = ty.element().unwrap_or(SqlType::Text);
            let mut elements = array.elements().iter();
            add_dimension(tree, array.dimensions(), &mut elements, &|tree, value| {
                add_value(tree, value, element, session, level + 1)
            })
        }
        (Datum::Record(record), _) => {
            tree.builder.begin_object()?;
            for (at, (field, ty)) in record.fields().iter().zip(record.types()).enumerate() {
                tree.builder.key(&field_name(record, at))?;
                add_value(tree, field, *ty, session, level + 1)?;
            }
            tree.builder.end()
        }
        (value, way) => {
            let text = text_of(value, ty, session)?;
            tree.room(text.len())?;
            match way {
                Way::Number if is_json_number(&text) => {
                    tree.builder.number(&Numeric::parse(&text)?)
                }
                _ => tree.builder.string(&text),
            }
        }
    }
}

/// Appends a text of JSON to a `jsonb`.
fn add_json(tree: &mut Tree<'_>, text: &str) -> ExprResult<()> {
    let mut parser = JsonParser::new(text, true);
    while let Some(event) = parser.next()? {
        let size = match &event {
            JsonEvent::Key(key) => key.len(),
            JsonEvent::Scalar(_, span, _) => span.len(),
            _ => 0,
        };
        tree.room(size)?;
        tree.builder.event(&event, text)?;
    }
    Ok(())
}

fn add_dimension<'v>(
    tree: &mut Tree<'_>,
    dimensions: &[Dimension],
    elements: &mut impl Iterator<Item = &'v Datum>,
    inner: &impl Fn(&mut Tree<'_>, &Datum) -> ExprResult<()>,
) -> ExprResult<()> {
    tree.builder.begin_array()?;
    if let Some((first, rest)) = dimensions.split_first() {
        for _ in 0..first.length {
            if rest.is_empty() {
                inner(tree, elements.next().unwrap_or(&Datum::Null))?;
            } else {
                add_dimension(tree, rest, elements, inner)?;
            }
        }
    }
    tree.builder.end()
}

/// Appends the name of a field, which is a scalar and not NULL.
pub(crate) fn add_key(
    tree: &mut Tree<'_>,
    value: &Datum,
    ty: SqlType,
    session: &dyn Session,
) -> ExprResult<()> {
    if matches!(way(ty), Way::Array | Way::Record | Way::Json) {
        return Err(no_key());
    }
    let text = text_of(value, ty, session)?;
    tree.room(text.len())?;
    tree.builder.key(&text)
}

fn to_json_of(call: &Call<'_>, place: As) -> Answer {
    let mut out = Out::new(call.session);
    put_value(&mut out, call.arg(0), call.type_of(0), place, call.session)?;
    Ok(out.finish())
}

/// `to_json`
pub fn to_json(call: &Call<'_>) -> Answer {
    to_json_of(call, As::Value)
}

fn in_lines(call: &Call<'_>) -> As {
    if call.flag(1) { As::Lines } else { As::Value }
}

/// `row_to_json`
pub fn row_to_json(call: &Call<'_>) -> Answer {
    to_json_of(call, in_lines(call))
}

/// `array_to_json`
pub fn array_to_json(call: &Call<'_>) -> Answer {
    to_json_of(call, in_lines(call))
}

/// `to_jsonb`
pub fn to_jsonb(call: &Call<'_>) -> Answer {
    let mut tree = Tree::new(call.session);
    add_value(&mut tree, call.arg(0), call.type_of(0), call.session, 0)?;
    tree.finish()
}

/// The arguments with their types.
fn arguments<'a>(call: &Call<'a>) -> impl Iterator<Item = (&'a Datum, SqlType)> {
    let types = call.types;
    call.args.iter().enumerate().map(move |(at, arg)| {
        let ty = types.get(at).or(types.last()).copied();
        (*arg, ty.unwrap_or(SqlType::Text))
    })
}

/// `json_build_array`, `jsonb_build_array`
pub fn build_array(call: &Call<'_>) -> Answer {
    if call.result == SqlType::Jsonb {
        let mut tree = Tree::new(call.session);
        tree.builder.begin_array()?;
        for (arg, ty) in arguments(call) {
            add_value(&mut tree, arg, ty, call.session, 0)?;
        }
        tree.builder.end()?;
        return tree.finish();
    }
    let mut out = Out::new(call.session);
    out.put("[");
    for (at, (arg, ty)) in arguments(call).enumerate() {
        if at > 0 {
            out.put(", ");
        }
        put_value(&mut out, arg, ty, As::Value, call.session)?;
    }
    out.put("]");
    Ok(out.finish())
}

/// `json_build_object`, `jsonb_build_object`
pub fn build_object(call: &Call<'_>) -> Answer {
    let jsonb = call.result == SqlType::Jsonb;
    if !call.args.len().is_multiple_of(2) {
        let name = if jsonb { "jsonb" } else { "json" };
        let hint = format!(
            "The arguments of {name}_build_object() must consist of alternating keys and values."
        );
        return Err(invalid("argument list must have even number of elements").hint(hint));
    }
    if jsonb {
        return build_jsonb_object(call);
    }
    let mut out = Out::new(call.session);
    out.put("{");
    for (at, (arg, ty)) in arguments(call).enumerate() {
        let key = at % 2 == 0;
        if key && at > 0 {
            out.put(", ");
        }
        if key && arg.is_null() {
            return Err(null_key());
        }
        let place = if key { As::Key } else { As::Value };
        put_value(&mut out, arg, ty, place, call.session)?;
        if key {
            out.put(" : ");
        }
    }
    out.put("}");
    Ok(out.finish())
}

fn build_jsonb_object(call: &Call<'_>) -> Answer {
    let mut tree = Tree::new(call.session);
    tree.builder.begin_object()?;
    for (at, (arg, ty)) in arguments(call).enumerate() {
        match (at % 2 == 0, arg) {
            (true, Datum::Null) => {
                let message = format!("argument {}: key must not be null", at + 1);
                return Err(invalid(message));
            }
            (true, key) => add_key(&mut tree, key, ty, call.session)?,
            (false, value) => add_value(&mut tree, value, ty, call.session, 0)?,
        }
    }
    tree.builder.end()?;
    tree.finish()
}
