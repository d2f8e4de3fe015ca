//! Searches by a lazily built automaton, byte by byte, so that they can be ended between two bytes.

use std::cell::RefCell;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};

use evenkeel_types::TypeError;

use crate::error::{self, ExprResult};
use crate::pace::Pace;

/// States of the expression whose set one step of a walk is taken to compute.
const STATES_OF_STEP: usize = 16;

/// 2201B for an expression that the library refuses.
pub fn too_complex<E>(_: E) -> TypeError {
    error::regular_expression("invalid regular expression: regular expression is too complex")
}

/// An automaton with its memory.
pub struct Automaton {
    dfa: DFA,
    cache: RefCell<Cache>,
}

impl Automaton {
    /// Of an expression in the library's syntax; `reverse` reads texts from their ends.
    ///
    /// # Errors
    /// 2201B.
    pub fn of(text: &str, kind: MatchKind, reverse: bool) -> ExprResult<Automaton> {
        let config = DFA::config()
            .match_kind(kind)
            .skip_cache_capacity_check(true);
        let dfa = DFA::builder()
            .configure(config)
            .thompson(thompson::Config::new().reverse(reverse))
            .build(text)
            .map_err(too_complex)?;
        let cache = RefCell::new(dfa.create_cache());
        Ok(Automaton { dfa, cache })
    }

    /// The steps that a byte of a text takes.
    pub fn steps(&self) -> usize {
        1 + self.dfa.get_nfa().states().len() / STATES_OF_STEP
    }

    /// Where a match ends that begins at the input's start, or if that is not anchored anywhere in
    /// it: the first end if `earliest`, else the last that the automaton comes to.
    ///
    /// # Errors
    /// 57014.
    pub fn end(
        &self,
        input: &Input<'_>,
        earliest: bool,
        pace: &mut Pace<'_>,
    ) -> ExprResult<Option<usize>> {
        let (text, cache) = (input.haystack(), &mut *self.cache.borrow_mut());
        let begun = self.dfa.start_state_forward(cache, input);
        let mut state = begun.map_err(too_complex)?;
        let (mut last, steps) = (None, self.steps());
        for (at, byte) in (input.start()..).zip(&text[input.get_range()]) {
            pace.step(steps)?;
            let next = self.dfa.next_state(cache, state, *byte);
            state = next.map_err(too_complex)?;
            // A match is told a byte late.
            if state.is_tagged() {
                if is_match(state)? {
                    last = Some(at);
                    if earliest {
                        return Ok(last);
                    }
                } else if state.is_dead() {
                    return Ok(last);
                }
            }
        }
        let behind = match text.get(input.end()) {
            Some(byte) => self.dfa.next_state(cache, state, *byte),
            None => self.dfa.next_eoi_state(cache, state),
        };
        Ok(match is_match(behind.map_err(too_complex)?)? {
            true => Some(input.end()),
            false => last,
        })
    }

    /// As [`Automaton::end`] of a reversed one: where the longest match begins that ends with the
    /// input.
    ///
    /// # Errors
    /// 57014.
    pub fn start(&self, input: &Input<'_>, pace: &mut Pace<'_>) -> ExprResult<Option<usize>> {
        let (text, cache) = (input.haystack(), &mut *self.cache.borrow_mut());
        let input = input.clone().anchored(Anchored::Yes);
        let begun = self.dfa.start_state_reverse(cache, &input);
        let mut state = begun.map_err(too_complex)?;
        let (mut last, steps) = (None, self.steps());
        for at in (input.start()..input.end()).rev() {
            pace.step(steps)?;
            let next = self.dfa.next_state(cache, state, text[at]);
            state = next.map_err(too_complex)?;
            if state.is_tagged() {
                if is_match(state)? {
                    last = Some(at + 1);
                } else if state.is_dead() {
                    return Ok(last);
                }
            }
        }
        let before = input.start().checked_sub(1).and_then(|at| text.get(at));
        let before = match before {
            Some(byte) => self.dfa.next_state(cache, state, *byte),
            None => self.dfa.next_eoi_state(cache, state),
        };
        Ok(match is_match(before.map_err(too_complex)?)? {
            true => Some(input.start()),
            false => last,
        })
    }
}

/// 2201B where the automaton does not know.
fn is_match(state: LazyStateID) -> ExprResult<bool> {
    match state.is_quit() {
        true => Err(too_complex(())),
        false => Ok(state.is_match()),
    }
}
