//! `regexp_matches`, `regexp_split_to_table`.

use evenkeel_types::{Datum, TypeResult};

use super::put;
use crate::call::{Call, Session};
use crate::pace::Pace;
use crate::proc::Rows;
use crate::regex::{Matcher, Options, next_character};

/// A text and the matches in it that are still to be found. The compiled expression is one of those
/// that the thread keeps, so that rows may be asked for by any thread.
struct Search {
    text: String,
    pattern: String,
    options: Options,
    /// Where the next match is looked for.
    at: usize,
}

impl Search {
    fn new(call: &Call<'_>, options: Options) -> TypeResult<Search> {
        call.room(call.text(0).len())?;
        let search = Search {
            text: call.text(0).to_owned(),
            pattern: call.text(1).to_owned(),
            options,
            at: 0,
        };
        // A wrong expression is an error even if no row is asked for.
        Matcher::of(&search.pattern, options)?;
        Ok(search)
    }

    fn find(
        &mut self,
        matcher: &Matcher,
        session: &dyn Session,
    ) -> TypeResult<Option<(usize, usize)>> {
        if self.at > self.text.len() {
            return Ok(None);
        }
        let found = matcher.find(&self.text, self.at, &mut Pace::new(session))?;
        self.at = match found {
            Some((start, end)) if start == end => next_character(&self.text, end),
            Some((_, end)) => end,
            None => self.text.len() + 1,
        };
        Ok(found)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.capacity() + self.pattern.capacity()
    }
}

/// The groups of each match, or the match itself of an expression without groups.
struct Matches {
    search: Search,
    /// All matches, not the first alone.
    global: bool,
}

impl Rows for Matches {
    fn next(&mut self, session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        session.check_cancel()?;
        let matcher = Matcher::of(&self.search.pattern, self.search.options)?;
        let Some(place) = self.search.find(&matcher, session)? else {
            return Ok(false);
        };
        let text = &self.search.text;
        let groups = matcher.groups_of(text, place)?;
        let skip = usize::from(groups.len() > 1);
        let shown = groups.iter().skip(skip).map(|place| match place {
            Some((start, end)) => Datum::from(&text[*start..*end]),
            None => Datum::Null,
        });
        put(row, Datum::array(shown.collect()));
        if !self.global {
            self.search.at = text.len() + 1;
        }
        Ok(true)
    }

    fn bytes(&self) -> usize {
        self.search.bytes()
    }
}

/// `regexp_matches(text, text [, text])`
pub(super) fn matches(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    let options = Options::of(call.text(2))?;
    Ok(Box::new(Matches {
        search: Search::new(call, options)?,
        global: options.global,
    }))
}

/// The text between the matches.
struct Between {
    search: Search,
    /// Where the next part begins; `None` behind the last.
    begin: Option<usize>,
    last_end: usize,
}

impl Rows for Between {
    fn next(&mut self, session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let Some(begin) = self.begin else {
            return Ok(false);
        };
        let matcher = Matcher::of(&self.search.pattern, self.search.options)?;
        while let Some((start, end)) = self.search.find(&matcher, session)? {
            session.check_cancel()?;
            // Empty matches at the ends and right behind another do not divide.
            let divides = start < self.search.text.len() && end > self.last_end;
            self.last_end = end;
            if divides {
                put(row, Datum::from(&self.search.text[begin..start]));
                self.begin = Some(end);
                return Ok(true);
            }
        }
        put(row, Datum::from(&self.search.text[begin..]));
        self.begin = None;
        Ok(true)
    }

    fn bytes(&self) -> usize {
        self.search.bytes()
    }
}

/// `regexp_split_to_table(text, text [, text])`
pub(super) fn split(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    let options = Options::of(call.text(2))?;
    if options.global {
        return Err(super::series::parameter(
            "regexp_split_to_table() does not support the \"global\" option",
        ));
    }
    Ok(Box::new(Between {
        search: Search::new(call, options)?,
        begin: Some(0),
        last_end: 0,
    }))
}
