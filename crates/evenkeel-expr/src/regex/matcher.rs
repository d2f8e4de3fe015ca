//! Finding matches. The library prefers the first alternative, PostgreSQL the longest match, so
//! the place where a match begins comes from one search and its end from another.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use regex_automata::meta::Regex;
use regex_automata::util::syntax::Config as Syntax;
use regex_automata::{Anchored, Input, MatchKind};

use super::syntax::{Options, translate};
use super::walk::{Automaton, too_complex};
use crate::error::{self, ExprResult};
use crate::pace::Pace;

/// Compiled expressions may not be larger.
const MAX_SIZE: usize = 4 << 20;
/// Expressions that a thread keeps.
const KEPT: usize = 32;

/// A compiled expression.
pub struct Matcher {
    regex: Regex,
    /// The same, to be matched up to the end of what it is given.
    to_end: Regex,
    /// All ends of a match.
    ends: Automaton,
    /// In the library's syntax, for the automata that only long searches need.
    text: String,
    /// The end of the first match, and where one with this end begins.
    first: OnceCell<(Automaton, Automaton)>,
    longest: bool,
}

/// Steps of a search that the library makes at once.
const QUICK: usize = 1 << 18;

/// A match: the place of the whole, then of each group.
pub type Groups = Vec<Option<(usize, usize)>>;

/// An expression, its options, and what it was compiled to.
type Recent = (String, Options, Rc<Matcher>);

thread_local! {
    static RECENT: RefCell<Vec<Recent>> = const { RefCell::new(Vec::new()) };
}

impl Matcher {
    /// A compiled expression, one of those that this thread keeps if it is there.
    ///
    /// # Errors
    /// 2201B, 0A000.
    pub fn of(pattern: &str, mut options: Options) -> ExprResult<Rc<Matcher>> {
        options.global = false;
        let kept = RECENT.with_borrow_mut(|recent| {
            let at = recent
                .iter()
                .position(|(text, with, _)| text == pattern && *with == options)?;
            let entry = recent.remove(at);
            let matcher = Rc::clone(&entry.2);
            recent.push(entry);
            Some(matcher)
        });
        if let Some(matcher) = kept {
            return Ok(matcher);
        }
        let matcher = Rc::new(Matcher::compile(pattern, options)?);
        RECENT.with_borrow_mut(|recent| {
            if recent.len() >= KEPT {
                recent.remove(0);
            }
            recent.push((pattern.to_owned(), options, Rc::clone(&matcher)));
        });
        Ok(matcher)
    }

    fn compile(pattern: &str, options: Options) -> ExprResult<Matcher> {
        let translated = translate(pattern, options)?;
        let limits = || Regex::config().nfa_size_limit(Some(MAX_SIZE));
        let build = |text: &str| {
            let mut builder = Regex::builder();
            let built = builder
                .configure(limits())
                .syntax(Syntax::new())
                .build(text);
            built.map_err(too_complex)
        };
        let regex = build(&translated.text)?;
        let to_end = build(&format!("(?:{})\\z", translated.text))?;
        Ok(Matcher {
            regex,
            to_end,
            ends: Automaton::of(&translated.text, MatchKind::All, false)?,
            text: translated.text,
            first: OnceCell::new(),
            longest: translated.longest,
        })
    }

    /// Whether a search of so many bytes is quick.
    fn is_quick(&self, bytes: usize) -> bool {
        bytes.saturating_mul(self.ends.steps()) <= QUICK
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.regex.captures_len() - 1
    }

    /// Whether anything in `text` matches.
    ///
    /// # Errors
    /// 57014.
    pub fn is_match(&self, text: &str, pace: &mut Pace<'_>) -> ExprResult<bool> {
        if self.is_quick(text.len()) {
            pace.step(1 + text.len())?;
            return Ok(self.regex.is_match(text));
        }
        let end = self.ends.end(&Input::new(text), true, pace)?;
        // The library does not match between the bytes of a character.
        Ok(match end {
            Some(end) if !text.is_char_boundary(end) => self.regex.is_match(text),
            end => end.is_some(),
        })
    }

    /// The place of the first match at or behind `from`, as the library prefers it.
    fn preferred(
        &self,
        text: &str,
        from: usize,
        pace: &mut Pace<'_>,
    ) -> ExprResult<Option<(usize, usize)>> {
        let input = Input::new(text).range(from..);
        let library = || {
            let found = self.regex.find(input.clone());
            found.map(|found| (found.start(), found.end()))
        };
        if self.is_quick(text.len() - from) {
            let found = library();
            pace.step(1 + found.map_or(text.len(), |(_, end)| end) - from)?;
            return Ok(found);
        }
        if self.first.get().is_none() {
            let forwards = Automaton::of(&self.text, MatchKind::LeftmostFirst, false)?;
            let backwards = Automaton::of(&self.text, MatchKind::All, true)?;
            let _ = self.first.set((forwards, backwards));
        }
        let Some((forwards, backwards)) = self.first.get() else {
            return Ok(library());
        };
        let Some(end) = forwards.end(&input, false, pace)? else {
            return Ok(None);
        };
        let before = Input::new(text).range(from..end);
        let start = backwards.start(&before, pace)?;
        // The library does not match between the bytes of a character.
        let whole = |at: &usize| text.is_char_boundary(*at);
        Ok(match start.filter(whole).filter(|_| whole(&end)) {
            Some(start) => Some((start, end)),
            None => library(),
        })
    }

    /// The first match at or behind `from`.
    ///
    /// # Errors
    /// 2201B when it cannot be told; 0A000 for groups that cannot; 57014.
    pub fn find(
        &self,
        text: &str,
        from: usize,
        pace: &mut Pace<'_>,
    ) -> ExprResult<Option<(usize, usize)>> {
        let Some((start, end)) = self.preferred(text, from, pace)? else {
            return Ok(None);
        };
        let input = Input::new(text).range(start..).anchored(Anchored::Yes);
        let last = self.ends.end(&input, !self.longest, pace)?;
        Ok(Some((start, last.unwrap_or(end))))
    }

    /// The groups of a match that [`Matcher::find`] has found.
    ///
    /// # Errors
    /// 0A000 when the library would match them with another end.
    pub fn groups_of(&self, text: &str, (start, end): (usize, usize)) -> ExprResult<Groups> {
        if self.groups() == 0 {
            return Ok(vec![Some((start, end))]);
        }
        let mut captures = self.regex.create_captures();
        let input = Input::new(text).range(start..end).anchored(Anchored::Yes);
        self.regex.search_captures(&input, &mut captures);
        if captures.get_match().map(|whole| whole.end()) != Some(end) {
            let before = text.get(..end).unwrap_or(text);
            let input = Input::new(before).range(start..end).anchored(Anchored::Yes);
            captures = self.to_end.create_captures();
            self.to_end.search_captures(&input, &mut captures);
        }
        if captures.get_match().map(|whole| whole.end()) != Some(end) {
            let message = "the groups of this regular expression are not supported";
            return Err(error::unsupported(message));
        }
        let place = |at| captures.get_group(at).map(|span| (span.start, span.end));
        Ok((0..=self.groups()).map(place).collect())
    }
}

/// The place behind the character at `at`.
pub fn next_character(text: &str, at: usize) -> usize {
    let character = text.get(at..).and_then(|rest| rest.chars().next());
    at + character.map_or(1, char::len_utf8)
}
