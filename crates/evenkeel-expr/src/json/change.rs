//! A `jsonb` made of another one.

use evenkeel_types::{
    Datum, JsonbArray, JsonbItem, JsonbObject, JsonbRef, SqlState, TypeError, pretty,
};

use super::path::index_of;
use super::write::Tree;
use super::{invalid, jsonb_of, path_of, texts};
use crate::call::Call;
use crate::error::ExprResult;

type Answer = ExprResult<Datum>;

/// Appends a copy of a value.
fn copy(tree: &mut Tree<'_>, value: JsonbRef<'_>) -> ExprResult<()> {
    tree.room(value.bytes().len())?;
    tree.builder.value(value)
}

/// Appends a copy of a field.
fn copy_field(tree: &mut Tree<'_>, key: &str, value: JsonbRef<'_>) -> ExprResult<()> {
    tree.room(key.len() + value.bytes().len())?;
    tree.builder.field(key, value)
}

fn unchanged(value: JsonbRef<'_>) -> Answer {
    Ok(Datum::Jsonb(value.to_owned()))
}

/// `jsonb || jsonb`
pub fn concatenate(call: &Call<'_>) -> Answer {
    let (a, b) = (jsonb_of(call, 0), jsonb_of(call, 1));
    let mut tree = Tree::new(call.session);
    if let (JsonbItem::Object(a), JsonbItem::Object(b)) = (a.item(), b.item()) {
        tree.builder.begin_object()?;
        for (key, value) in a.iter().chain(b.iter()) {
            copy_field(&mut tree, key, value)?;
        }
    } else {
        tree.builder.begin_array()?;
        for side in [a, b] {
            match side.item() {
                JsonbItem::Array(array) => {
                    for element in array.iter() {
                        copy(&mut tree, element)?;
                    }
                }
                _ => copy(&mut tree, side)?,
            }
        }
    }
    tree.builder.end()?;
    tree.finish()
}

/// `jsonb - text`, `jsonb - text[]`
pub fn delete_key(call: &Call<'_>) -> Answer {
    let value = jsonb_of(call, 0);
    if value.is_scalar() {
        return Err(invalid("cannot delete from scalar"));
    }
    let keys = match call.arg(1) {
        Datum::Array(_) => path_of(call, 1)?,
        _ => texts(call, 1),
    };
    let keys: std::collections::HashSet<&str> = keys.into_iter().flatten().collect();
    let mut tree = Tree::new(call.session);
    match value.item() {
        JsonbItem::Object(object) => {
            tree.builder.begin_object()?;
            for (key, value) in object.iter().filter(|(key, _)| !keys.contains(key)) {
                copy_field(&mut tree, key, value)?;
            }
        }
        JsonbItem::Array(array) => {
            tree.builder.begin_array()?;
            for element in array.iter() {
                match element.item() {
                    JsonbItem::String(text) if keys.contains(text) => {}
                    _ => copy(&mut tree, element)?,
                }
            }
        }
        _ => return unchanged(value),
    }
    tree.builder.end()?;
    tree.finish()
}

/// `jsonb - integer`
pub fn delete_index(call: &Call<'_>) -> Answer {
    let value = jsonb_of(call, 0);
    let JsonbItem::Array(array) = value.item() else {
        return Err(invalid(match value.is_scalar() {
            true => "cannot delete from scalar",
            false => "cannot delete from object using integer index",
        }));
    };
    let length = i64::try_from(array.len()).unwrap_or(i64::MAX);
    let at = match call.int(1) {
        at if at < 0 => at + length,
        at => at,
    };
    if at < 0 || at >= length {
        return unchanged(value);
    }
    let mut tree = Tree::new(call.session);
    tree.builder.begin_array()?;
    for (index, element) in array.iter().enumerate() {
        if usize::try_from(at) != Ok(index) {
            copy(&mut tree, element)?;
        }
    }
    tree.builder.end()?;
    tree.finish()
}

/// Change at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Delete,
    Replace,
    /// Replaces, or adds where there is none.
    Create,
    InsertBefore,
    InsertAfter,
}

impl Op {
    fn adds(self) -> bool {
        matches!(self, Op::Create | Op::InsertBefore | Op::InsertAfter)
    }
}

/// An array or object of which the rest is still to be copied.
enum Rest<'a> {
    Array(JsonbArray<'a>, usize),
    Object(JsonbObject<'a>, usize),
}

struct Change<'a, 's> {
    path: &'a [Option<&'a str>],
    new: JsonbRef<'a>,
    op: Op,
    tree: Tree<'s>,
    rest: Vec<Rest<'a>>,
}

impl<'a> Change<'a, '_> {
    fn step(&self, level: usize) -> ExprResult<&'a str> {
        let step = self.path.get(level).copied().flatten();
        step.ok_or_else(|| {
            TypeError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                format!("path element at position {} is null", level + 1),
            )
        })
    }

    fn new_element(&mut self) -> ExprResult<()> {
        copy(&mut self.tree, self.new)
    }

    /// Goes into a value; returns the one within it where the path goes on.
    fn enter(&mut self, value: JsonbRef<'a>, level: usize) -> ExprResult<Option<JsonbRef<'a>>> {
        let step = self.step(level)?;
        let last = level + 1 == self.path.len();
        match value.item() {
            JsonbItem::Object(object) => self.enter_object(object, step, last),
            JsonbItem::Array(array) => self.enter_array(array, step, level, last),
            _ => {
                copy(&mut self.tree, value)?;
                Ok(None)
            }
        }
    }

    fn enter_object(
        &mut self,
        object: JsonbObject<'a>,
        step: &str,
        last: bool,
    ) -> ExprResult<Option<JsonbRef<'a>>> {
        self.tree.builder.begin_object()?;
        for (at, (key, value)) in object.iter().enumerate() {
            if key != step {
                copy_field(&mut self.tree, key, value)?;
                continue;
            }
            self.rest.push(Rest::Object(object, at + 1));
            if !last {
                self.tree.builder.key(key)?;
                return Ok(Some(value));
            }
            match self.op {
                Op::InsertBefore | Op::InsertAfter => {
                    let hint = "Try using the function jsonb_set to replace key value.";
                    return Err(invalid("cannot replace existing key").hint(hint));
                }
                Op::Delete => {}
                Op::Replace | Op::Create => copy_field(&mut self.tree, key, self.new)?,
            }
            return Ok(None);
        }
        if last && self.op.adds() {
            copy_field(&mut self.tree, step, self.new)?;
        }
        self.tree.builder.end()?;
        Ok(None)
    }

    fn enter_array(
        &mut self,
        array: JsonbArray<'a>,
        step: &str,
        level: usize,
        last: bool,
    ) -> ExprResult<Option<JsonbRef<'a>>> {
        let Some(index) = index_of(step) else {
            let message = format!(
                "path element at position {} is not an integer: \"{step}\"",
                level + 1
            );
            return Err(TypeError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                message,
            ));
        };
        let length = i64::try_from(array.len()).unwrap_or(i64::MAX);
        let at = match i64::from(index) {
            at if at < 0 => at + length,
            at => at,
        };
        self.tree.builder.begin_array()?;
        if at < 0 && last && self.op.adds() {
            self.new_element()?;
        }
        for (place, element) in array.iter().enumerate() {
            if usize::try_from(at) != Ok(place) {
                copy(&mut self.tree, element)?;
                continue;
            }
            self.rest.push(Rest::Array(array, place + 1));
            if !last {
                return Ok(Some(element));
            }
            if matches!(self.op, Op::InsertBefore | Op::Create) {
                self.new_element()?;
            }
            if matches!(self.op, Op::InsertBefore | Op::InsertAfter) {
                copy(&mut self.tree, element)?;
            }
            if matches!(self.op, Op::InsertAfter | Op::Replace) {
                self.new_element()?;
            }
            return Ok(None);
        }
        if at >= 0 && last && self.op.adds() {
            self.new_element()?;
        }
        self.tree.builder.end()?;
        Ok(None)
    }

    fn finish(mut self) -> Answer {
        while let Some(rest) = self.rest.pop() {
            match rest {
                Rest::Array(array, from) => {
                    for at in from..array.len() {
                        copy(&mut self.tree, array.get(at).unwrap_or(JsonbRef::null()))?;
                    }
                }
                Rest::Object(object, from) => {
                    for (key, value) in (from..object.len()).filter_map(|at| object.get(at)) {
                        copy_field(&mut self.tree, key, value)?;
                    }
                }
            }
            self.tree.builder.end()?;
        }
        self.tree.finish()
    }
}

fn change(call: &Call<'_>, path: &[Option<&str>], new: JsonbRef<'_>, op: Op) -> Answer {
    let value = jsonb_of(call, 0);
    if value.is_scalar() {
        return Err(invalid(match op {
            Op::Delete => "cannot delete path in scalar",
            _ => "cannot set path in scalar",
        }));
    }
    let empty = match value.item() {
        JsonbItem::Array(array) => array.is_empty(),
        JsonbItem::Object(object) => object.is_empty(),
        _ => true,
    };
    if path.is_empty() || (empty && !op.adds()) {
        return unchanged(value);
    }
    let mut change = Change {
        path,
        new,
        op,
        tree: Tree::new(call.session),
        rest: Vec::new(),
    };
    let mut at = Some(value);
    let mut level = 0;
    while let Some(value) = at {
        at = change.enter(value, level)?;
        level += 1;
    }
    change.finish()
}

/// `jsonb #- text[]`
pub fn delete_path(call: &Call<'_>) -> Answer {
    change(call, &path_of(call, 1)?, JsonbRef::null(), Op::Delete)
}

/// `jsonb_set`
pub fn set(call: &Call<'_>) -> Answer {
    let op = if call.flag(3) {
        Op::Create
    } else {
        Op::Replace
    };
    change(call, &path_of(call, 1)?, jsonb_of(call, 2), op)
}

/// `jsonb_insert`
pub fn insert(call: &Call<'_>) -> Answer {
    let op = if call.flag(3) {
        Op::InsertAfter
    } else {
        Op::InsertBefore
    };
    change(call, &path_of(call, 1)?, jsonb_of(call, 2), op)
}

/// `jsonb_set_lax`
pub fn set_lax(call: &Call<'_>) -> Answer {
    if call.is_null(0) || call.is_null(1) || call.is_null(3) {
        return Ok(Datum::Null);
    }
    if call.is_null(4) {
        return Err(treatment());
    }
    if !call.is_null(2) {
        return set(call);
    }
    match call.text(4) {
        "raise_exception" => Err(TypeError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "JSON value must not be null",
        )
        .detail("Exception was raised because null_value_treatment is \"raise_exception\".")
        .hint(
            "To avoid, either change the null_value_treatment argument or ensure that an SQL \
             NULL is not passed.",
        )),
        "use_json_null" => set(call),
        "delete_key" => delete_path(call),
        "return_target" => unchanged(jsonb_of(call, 0)),
        _ => Err(treatment()),
    }
}

fn treatment() -> TypeError {
    invalid(
        "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \
         \"raise_exception\"",
    )
}

/// `jsonb_strip_nulls`
pub fn strip_nulls(call: &Call<'_>) -> Answer {
    let in_arrays = call.flag(1);
    let mut tree = Tree::new(call.session);
    let mut open = Vec::new();
    begin(&mut tree, jsonb_of(call, 0), &mut open)?;
    while let Some(last) = open.last_mut() {
        let (value, left_out) = match last {
            Rest::Array(array, at) => {
                *at += 1;
                (array.get(*at - 1), in_arrays)
            }
            Rest::Object(object, at) => {
                *at += 1;
                let field = object.get(*at - 1);
                let is_value = |value: JsonbRef<'_>| !matches!(value.item(), JsonbItem::Null);
                if let Some((key, value)) = field
                    && is_value(value)
                {
                    tree.room(key.len())?;
                    tree.builder.key(key)?;
                }
                (field.map(|(_, value)| value), true)
            }
        };
        match value {
            Some(value) if left_out && matches!(value.item(), JsonbItem::Null) => {}
            Some(value) => begin(&mut tree, value, &mut open)?,
            None => {
                tree.builder.end()?;
                open.pop();
            }
        }
    }
    tree.finish()
}

fn begin<'a>(tree: &mut Tree<'_>, value: JsonbRef<'a>, open: &mut Vec<Rest<'a>>) -> ExprResult<()> {
    match value.item() {
        JsonbItem::Array(array) => {
            open.push(Rest::Array(array, 0));
            tree.builder.begin_array()
        }
        JsonbItem::Object(object) => {
            open.push(Rest::Object(object, 0));
            tree.builder.begin_object()
        }
        _ => copy(tree, value),
    }
}

/// `jsonb_pretty`
pub fn pretty_text(call: &Call<'_>) -> Answer {
    let value = jsonb_of(call, 0);
    call.room(value.bytes().len().saturating_mul(4))?;
    call.session.check_cancel()?;
    let mut out = Vec::new();
    pretty(value, &mut out);
    Ok(String::from_utf8(out).unwrap_or_default().into())
}
