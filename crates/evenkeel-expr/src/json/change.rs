//! A `jsonb` made of another one.

use evenkeel_types::{
    Datum, JsonbArray, JsonbItem, JsonbObject, JsonbRef, SqlState, TypeError, pretty,
};

use super::path::index_of;
use super::write::Tree;
use super::{invalid, jsonb_of, path_of, root_of, texts};
use crate::call::Call;
use crate::error::ExprResult;
use crate::session::Session;

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
    /// As `Create`, with all that the path lacks: for subscripts.
    Assign,
}

impl Op {
    fn adds(self) -> bool {
        !matches!(self, Op::Delete | Op::Replace)
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

    /// Appends so many nulls.
    fn pad(&mut self, count: i64) -> ExprResult<()> {
        for _ in 0..count {
            copy(&mut self.tree, JsonbRef::null())?;
        }
        Ok(())
    }

    /// Appends the new value within objects and arrays for the steps from `level` on.
    fn new_path(&mut self, level: usize) -> ExprResult<()> {
        for level in level..self.path.len() {
            let step = self.step(level)?;
            match index_of(step) {
                Some(index) => {
                    self.tree.builder.begin_array()?;
                    self.pad(i64::from(index))?;
                }
                None => {
                    self.tree.builder.begin_object()?;
                    self.tree.room(step.len())?;
                    self.tree.builder.key(step)?;
                }
            }
        }
        self.new_element()?;
        for _ in level..self.path.len() {
            self.tree.builder.end()?;
        }
        Ok(())
    }

    /// Goes into a value; returns the one within it where the path goes on.
    fn enter(&mut self, value: JsonbRef<'a>, level: usize) -> ExprResult<Option<JsonbRef<'a>>> {
        let step = self.step(level)?;
        let last = level + 1 == self.path.len();
        match value.item() {
            JsonbItem::Object(object) => self.enter_object(object, step, level),
            JsonbItem::Array(array) => self.enter_array(array, step, level, last),
            _ if self.op == Op::Assign => Err(scalar_in_path()),
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
        level: usize,
    ) -> ExprResult<Option<JsonbRef<'a>>> {
        let last = level + 1 == self.path.len();
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
                Op::Replace | Op::Create | Op::Assign => {
                    copy_field(&mut self.tree, key, self.new)?;
                }
            }
            return Ok(None);
        }
        if last && self.op.adds() {
            copy_field(&mut self.tree, step, self.new)?;
        } else if self.op == Op::Assign {
            self.tree.room(step.len())?;
            self.tree.builder.key(step)?;
            self.new_path(level + 1)?;
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
        if at < 0 && self.op == Op::Assign {
            let level = level + 1;
            let message = format!("path element at position {level} is out of range: {index}");
            return Err(invalid(message));
        }
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
            if matches!(self.op, Op::InsertBefore | Op::Create | Op::Assign) {
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
        if self.op == Op::Assign {
            self.pad(at - length)?;
            self.new_path(level + 1)?;
        } else if at >= 0 && last && self.op.adds() {
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

/// 22023 for a path that goes on below a scalar.
fn scalar_in_path() -> TypeError {
    let detail = "The path assumes key is a composite object, but it is a scalar value.";
    invalid("cannot replace existing key").detail(detail)
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
    changed((call.session, value), path, new, op)
}

/// A value that is no scalar with a change at the end of a path, which has a step.
fn changed(
    (session, value): (&dyn Session, JsonbRef<'_>),
    path: &[Option<&str>],
    new: JsonbRef<'_>,
    op: Op,
) -> Answer {
    let mut change = Change {
        path,
        new,
        op,
        tree: Tree::new(session),
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

/// `jsonb[…] := value`, where NULL is an empty array if it is subscripted `by_index`, and an empty
/// object if by a name.
///
/// # Errors
/// 22023 for an index before the first element, or a path below a scalar; 22P02 for a name in an
/// array.
pub(crate) fn assign(
    session: &dyn Session,
    (value, by_index): (&Datum, bool),
    path: &[Option<&str>],
    new: &Datum,
) -> Answer {
    let empty;
    let value = match value {
        Datum::Null => {
            let mut tree = Tree::new(session);
            match by_index {
                true => tree.builder.begin_array()?,
                false => tree.builder.begin_object()?,
            }
            tree.builder.end()?;
            empty = tree.finish()?;
            &empty
        }
        value => value,
    };
    let value = root_of(value);
    if value.is_scalar() {
        return Err(scalar_in_path());
    }
    changed((session, value), path, root_of(new), Op::Assign)
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
