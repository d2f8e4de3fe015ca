//! Calls with named arguments: `f(1, b => 2)`.

use evenkeel_expr::argument_names;
use evenkeel_expr::proc::Proc;
use evenkeel_types::{SqlState, SqlType};

use super::call::{NO_MATCH, Resolved, default_value};
use super::candidates::{self, Candidate, Choice};
use super::{Binder, place, tables, types};
use crate::ast::{self, Pos};
use crate::bound::Expr;
use crate::error::{PlanError, PlanResult};

/// A function with the place among its arguments of each that is given.
#[derive(Debug, Clone)]
struct Match {
    proc: &'static Proc,
    places: Vec<usize>,
}

/// Where the given arguments stand among those of a function; `None` if it has none of a name, has
/// it given twice, or leaves one out that has no default.
fn places(proc: &Proc, call: &ast::Call) -> Option<Vec<usize>> {
    let names = argument_names(proc.oid);
    if proc.variadic || call.args.len() > proc.args.len() {
        return None;
    }
    let mut places = Vec::with_capacity(call.args.len());
    for (index, argument) in call.args.iter().enumerate() {
        let at = match &argument.name {
            None => index,
            Some(name) => names.iter().position(|known| **known == *name.text)?,
        };
        if places.contains(&at) {
            return None;
        }
        places.push(at);
    }
    let required = proc.args.len() - proc.defaults.len();
    (0..required)
        .all(|at| places.contains(&at))
        .then_some(places)
}

fn check_names(call: &ast::Call, args: &[Expr]) -> PlanResult<()> {
    let mut named: Vec<&str> = Vec::new();
    for (argument, arg) in call.args.iter().zip(args) {
        let (message, at) = match &argument.name {
            Some(name) if named.contains(&name.text.as_str()) => {
                let message = format!("argument name \"{}\" used more than once", name.text);
                (message, name.at)
            }
            Some(name) => {
                named.push(&name.text);
                continue;
            }
            None if named.is_empty() => continue,
            None => {
                let message = "positional argument cannot follow named argument";
                (message.to_owned(), place::of(arg))
            }
        };
        return Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at));
    }
    Ok(())
}

/// The call as messages show it.
fn signature(call: &ast::Call, args: &[Expr]) -> String {
    let pairs = call.args.iter().zip(args);
    let list: Vec<String> = pairs
        .map(|(argument, arg)| match &argument.name {
            Some(name) => format!("{} => {}", name.text, types::name(arg.ty)),
            None => types::name(arg.ty).to_owned(),
        })
        .collect();
    format!("{}({})", call.name.display(), list.join(", "))
}

impl Binder<'_> {
    /// The function that a call with named arguments means, with all its arguments.
    pub(super) fn resolve_named(
        &mut self,
        call: &ast::Call,
        args: Vec<Expr>,
        in_catalog: bool,
        at: Pos,
    ) -> PlanResult<Resolved> {
        check_names(call, &args)?;
        let given: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let named = tables::procs_named(call.name.last()).iter().copied();
        let list: Vec<Candidate<Match>> = named
            .filter(|_| in_catalog && !call.variadic)
            .filter_map(|proc| {
                let places = places(proc, call)?;
                let args = places.iter().map(|at| proc.args[*at]).collect();
                let what = Match { proc, places };
                Some(Candidate { what, args })
            })
            .collect();
        let choice = match candidates::exact(&list, &given) {
            Some(exact) => Choice::One(exact),
            None => candidates::choose(&list, &given),
        };
        let (what, state, hint) = match choice {
            Choice::One(candidate) => return self.with_defaults(candidate.what, args),
            Choice::Ambiguous => (
                "is not unique",
                SqlState::AMBIGUOUS_FUNCTION,
                "Could not choose a best candidate function. You might need to add explicit type \
                 casts.",
            ),
            Choice::None => ("does not exist", SqlState::UNDEFINED_FUNCTION, NO_MATCH),
        };
        let message = format!("function {} {what}", signature(call, &args));
        Err(PlanError::new(state, message).hint(hint).at(at))
    }

    /// The arguments in the order of the function's, with defaults where none is given.
    fn with_defaults(&mut self, found: Match, args: Vec<Expr>) -> PlanResult<Resolved> {
        let Match { proc, places } = found;
        let mut slots: Vec<Option<Expr>> = vec![None; proc.args.len()];
        for (at, arg) in places.into_iter().zip(args) {
            slots[at] = Some(arg);
        }
        let required = proc.args.len() - proc.defaults.len();
        let all = slots.into_iter().enumerate().map(|(at, slot)| {
            slot.unwrap_or_else(|| default_value(proc.defaults[at - required], proc.args[at]))
        });
        let all = all.collect();
        self.resolve_call(proc, proc.args, all, false)
    }
}
