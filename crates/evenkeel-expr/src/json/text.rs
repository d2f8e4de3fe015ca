//! Looking into a `json`, which is read as text from its beginning to its end.

use evenkeel_types::{Datum, JsonEvent, JsonParser, JsonToken, escape_json};

use super::path::index_of;
use super::write::Out;
use super::{invalid, texts};
use crate::call::Call;
use crate::error::ExprResult;
use crate::pace::Pace;

type Answer = ExprResult<Datum>;

/// A step of a path.
#[derive(Clone, Copy)]
enum Step<'a> {
    /// The name of a field, and the index that it is in an array.
    Name(&'a str, Option<i32>),
    /// An index only.
    Index(i32),
}

impl Step<'_> {
    fn index(self) -> Option<i32> {
        match self {
            Step::Name(_, index) => index,
            Step::Index(index) => Some(index),
        }
    }
}

/// A level of the text that is open.
struct Level {
    /// Whether the path leads to this array or object.
    on_path: bool,
    /// The index of the element that the path wants, and that of the next one.
    wanted: Option<i64>,
    next: i64,
    /// Whether the value that comes is the one that the path wants.
    matches: bool,
}

/// Finds the value at the end of a path.
struct Search<'a, 's> {
    text: &'a str,
    path: &'s [Step<'s>],
    levels: Vec<Level>,
    /// Where the value begins, if it is an array or object that is being read, and its level.
    open: Option<(usize, usize)>,
    found: Option<Datum>,
    as_text: bool,
}

impl<'a> Search<'a, '_> {
    /// Whether the path leads to the value that comes.
    fn arrives(&mut self) -> bool {
        let Some(level) = self.levels.last_mut() else {
            return true;
        };
        if let Some(wanted) = level.wanted {
            level.matches = level.on_path && level.next == wanted;
            level.next += 1;
        }
        std::mem::take(&mut level.matches)
    }

    fn is_end(&self) -> bool {
        self.levels.len() == self.path.len()
    }

    fn begin(&mut self, start: usize, object: bool) -> ExprResult<()> {
        let on_path = self.arrives();
        if on_path && self.is_end() {
            self.found = None;
            self.open = Some((start, self.levels.len()));
        }
        let mut level = Level {
            on_path: on_path && !self.is_end(),
            wanted: None,
            next: 0,
            matches: false,
        };
        let step = self.path.get(self.levels.len()).copied();
        if let (true, false, Some(step)) = (level.on_path, object, step) {
            level.wanted = match step.index() {
                Some(index) if index < 0 => {
                    let count = elements_at(self.text, start)?;
                    Some(count + i64::from(index)).filter(|index| *index >= 0)
                }
                index => index.map(i64::from),
            };
        }
        self.levels.push(level);
        Ok(())
    }

    fn end(&mut self, end: usize) {
        self.levels.pop();
        if let Some((start, level)) = self.open
            && level == self.levels.len()
        {
            let text = self.text.get(start..end).unwrap_or_default();
            self.found = Some(text.into());
            self.open = None;
        }
    }

    fn event(&mut self, event: JsonEvent<'a>) -> ExprResult<()> {
        match event {
            JsonEvent::ObjectStart(start) => self.begin(start, true)?,
            JsonEvent::ArrayStart(start) => self.begin(start, false)?,
            JsonEvent::ObjectEnd(end) | JsonEvent::ArrayEnd(end) => self.end(end),
            JsonEvent::Key(key) => {
                let at = self.levels.len().checked_sub(1);
                let step = at.and_then(|at| self.path.get(at)).copied();
                if let (Some(level), Some(Step::Name(name, _))) = (self.levels.last_mut(), step) {
                    level.matches = level.on_path && key == name;
                }
            }
            JsonEvent::Scalar(token, span, string) => {
                if self.arrives() && self.is_end() {
                    let raw = || Datum::from(self.text.get(span.clone()).unwrap_or_default());
                    self.found = Some(match token {
                        JsonToken::Null if self.as_text => Datum::Null,
                        JsonToken::String if self.as_text => string.into_owned().into(),
                        _ => raw(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// The number of elements of the array that begins at this place.
fn elements_at(text: &str, start: usize) -> ExprResult<i64> {
    let rest = text.get(start..).unwrap_or_default();
    let mut parser = JsonParser::new(rest, false);
    let mut count = 0;
    while let Some(event) = parser.next()? {
        let depth = parser.depth();
        match event {
            JsonEvent::ArrayEnd(_) | JsonEvent::ObjectEnd(_) if depth == 0 => break,
            JsonEvent::Scalar(..) if depth == 1 => count += 1,
            JsonEvent::ArrayStart(_) | JsonEvent::ObjectStart(_) if depth == 2 => count += 1,
            _ => {}
        }
    }
    Ok(count)
}

fn find(call: &Call<'_>, path: &[Step<'_>], as_text: bool) -> Answer {
    let text = call.text(0);
    let mut search = Search {
        text,
        path,
        levels: Vec::new(),
        open: None,
        found: None,
        as_text,
    };
    let mut parser = JsonParser::new(text, true);
    let mut pace = call.pace();
    while let Some(event) = parser.next()? {
        step(&mut pace, &event)?;
        search.event(event)?;
    }
    Ok(search.found.unwrap_or(Datum::Null))
}

/// Counts the work of reading an event.
pub(crate) fn step(pace: &mut Pace<'_>, event: &JsonEvent<'_>) -> ExprResult<()> {
    pace.step(match event {
        JsonEvent::Scalar(_, span, _) => 8 + span.len(),
        JsonEvent::Key(key) => 8 + key.len(),
        _ => 8,
    })
}

/// `json -> text`
pub fn json_field(call: &Call<'_>) -> Answer {
    find(call, &[Step::Name(call.text(1), None)], false)
}

/// `json ->> text`
pub fn json_field_text(call: &Call<'_>) -> Answer {
    find(call, &[Step::Name(call.text(1), None)], true)
}

/// `json -> integer`
pub fn json_element(call: &Call<'_>) -> Answer {
    find(call, &[Step::Index(call.int4(1)?)], false)
}

/// `json ->> integer`
pub fn json_element_text(call: &Call<'_>) -> Answer {
    find(call, &[Step::Index(call.int4(1)?)], true)
}

fn along_path(call: &Call<'_>, as_text: bool) -> Answer {
    let steps: Option<Vec<Step<'_>>> = texts(call, 1)
        .into_iter()
        .map(|step| step.map(|step| Step::Name(step, index_of(step))))
        .collect();
    match steps {
        Some(steps) => find(call, &steps, as_text),
        None => Ok(Datum::Null),
    }
}

/// `json #> text[]`, `json_extract_path`
pub fn json_extract_path(call: &Call<'_>) -> Answer {
    along_path(call, false)
}

/// `json #>> text[]`, `json_extract_path_text`
pub fn json_extract_path_text(call: &Call<'_>) -> Answer {
    along_path(call, true)
}

/// `json_array_length`
pub fn json_array_length(call: &Call<'_>) -> Answer {
    let mut parser = JsonParser::new(call.text(0), false);
    let mut pace = call.pace();
    let mut count = 0i32;
    while let Some(event) = parser.next()? {
        step(&mut pace, &event)?;
        match (parser.depth(), event) {
            (1, JsonEvent::ObjectStart(_)) => {
                return Err(invalid("cannot get array length of a non-array"));
            }
            (0, JsonEvent::Scalar(..)) => {
                return Err(invalid("cannot get array length of a scalar"));
            }
            (1, JsonEvent::Scalar(..))
            | (2, JsonEvent::ArrayStart(_) | JsonEvent::ObjectStart(_)) => {
                count = count.saturating_add(1);
            }
            _ => {}
        }
    }
    Ok(Datum::Int4(count))
}

/// `json_typeof`
pub fn json_type_of(call: &Call<'_>) -> Answer {
    Ok(match JsonParser::first_token(call.text(0))? {
        JsonToken::ObjectStart => "object",
        JsonToken::ArrayStart => "array",
        JsonToken::String => "string",
        JsonToken::Number => "number",
        JsonToken::True | JsonToken::False => "boolean",
        _ => "null",
    }
    .into())
}

/// `json_strip_nulls`
pub fn json_strip_nulls(call: &Call<'_>) -> Answer {
    let in_arrays = call.flag(1);
    let text = call.text(0);
    let mut out = Out::new(call.session);
    let mut parser = JsonParser::new(text, true);
    // Whether each open array or object has had a value, and is an array.
    let mut open: Vec<(bool, bool)> = Vec::new();
    let mut name = None;
    while let Some(event) = parser.next()? {
        let (start, scalar) = match event {
            JsonEvent::Key(key) => {
                name = Some(key);
                continue;
            }
            JsonEvent::ObjectEnd(_) | JsonEvent::ArrayEnd(_) => {
                let array = open.pop().is_some_and(|(_, array)| array);
                out.put(if array { "]" } else { "}" });
                continue;
            }
            JsonEvent::ObjectStart(_) => ("{", None),
            JsonEvent::ArrayStart(_) => ("[", None),
            JsonEvent::Scalar(token, span, string) => ("", Some((token, span, string))),
        };
        let is_null = matches!(&scalar, Some((JsonToken::Null, ..)));
        if is_null && (name.is_some() || (in_arrays && open.last().is_some_and(|open| open.1))) {
            name = None;
            continue;
        }
        if let Some((had, _)) = open.last_mut()
            && std::mem::replace(had, true)
        {
            out.put(",");
        }
        if let Some(name) = name.take() {
            out.room(name.len().saturating_mul(2))?;
            escape_json(&name, &mut out.text);
            out.put(":");
        }
        match scalar {
            Some((JsonToken::String, _, string)) => {
                out.room(string.len().saturating_mul(2))?;
                escape_json(&string, &mut out.text);
            }
            Some((_, span, _)) => {
                out.room(span.len())?;
                out.put(text.get(span).unwrap_or_default());
            }
            None => {
                out.room(1)?;
                out.put(start);
                open.push((false, start == "["));
            }
        }
    }
    Ok(out.finish())
}
