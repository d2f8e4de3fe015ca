//! `string_to_table`.

use evenkeel_types::{Datum, TypeResult};

use super::put;
use crate::arrays::{Parts, divisible};
use crate::call::{Call, Session};
use crate::pace::Pace;
use crate::proc::Rows;

/// The parts of a text, as `string_to_array` divides it.
#[derive(Default)]
struct TextParts {
    text: String,
    at: Option<usize>,
    delimiter: Option<String>,
    null: Option<String>,
}

impl Rows for TextParts {
    fn next(&mut self, session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let (delimiter, null) = (self.delimiter.as_deref(), self.null.as_deref());
        let mut parts = Parts::new(&self.text, self.at, delimiter, null);
        let part = parts.next(&mut Pace::new(session))?;
        self.at = parts.at();
        let found = part.is_some();
        if let Some(part) = part {
            put(row, part);
        }
        Ok(found)
    }

    fn bytes(&self) -> usize {
        let others = [&self.delimiter, &self.null];
        let others = others.map(|text| text.as_ref().map_or(0, String::capacity));
        size_of::<Self>() + self.text.capacity() + others.iter().sum::<usize>()
    }
}

/// `string_to_table(text, text [, text])`; of NULL no rows.
pub(super) fn parts_of(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    let Some((text, delimiter, null)) = divisible(call) else {
        return Ok(Box::new(TextParts::default()));
    };
    call.room(text.len())?;
    Ok(Box::new(TextParts {
        text: text.to_owned(),
        at: (!text.is_empty()).then_some(0),
        delimiter: delimiter.map(str::to_owned),
        null: null.map(str::to_owned),
    }))
}
