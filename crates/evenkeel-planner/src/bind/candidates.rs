//! The choice among functions or operators of one name, by the types of the arguments.

use evenkeel_expr::proc::{ArgType, CastContext};
use evenkeel_types::SqlType;

use super::pathway::can_coerce;
use super::{poly, tables, types};

/// Whether values of these types can be the declared arguments.
fn can_coerce_args(sources: &[SqlType], targets: &[ArgType], context: CastContext) -> bool {
    let each = sources
        .iter()
        .zip(targets)
        .all(|(source, target)| match target {
            ArgType::Is(target) => can_coerce(*source, *target, context),
            ArgType::Record => matches!(source, SqlType::Record | SqlType::Unknown),
            _ => true,
        });
    each && (!targets.iter().any(|target| types::is_polymorphic(*target))
        || poly::is_consistent(sources, targets))
}

/// Something that could be called: its declared arguments, as many as were given.
#[derive(Debug, Clone)]
pub(super) struct Candidate<T> {
    pub(super) what: T,
    pub(super) args: Vec<ArgType>,
}

/// Result of choosing a candidate.
#[derive(Debug)]
pub(super) enum Choice<T> {
    /// None fits.
    None,
    /// Several fit alike.
    Ambiguous,
    One(Candidate<T>),
}

pub(super) fn is_exactly(arg: ArgType, given: SqlType) -> bool {
    match arg {
        ArgType::Is(ty) => types::same(ty, given.base()),
        ArgType::Record => given == SqlType::Record,
        _ => false,
    }
}

/// The candidate declared with exactly the given types.
pub(super) fn exact<T: Clone>(list: &[Candidate<T>], given: &[SqlType]) -> Option<Candidate<T>> {
    let fits = |c: &&Candidate<T>| {
        let mut pairs = c.args.iter().zip(given);
        c.args.len() == given.len() && pairs.all(|(arg, ty)| is_exactly(*arg, *ty))
    };
    list.iter().find(fits).cloned()
}

/// Chooses among candidates of which none fits exactly: those that implicit casts reach, then the
/// best of them.
pub(super) fn choose<T: Clone>(list: &[Candidate<T>], given: &[SqlType]) -> Choice<T> {
    let mut reached: Vec<Candidate<T>> = list
        .iter()
        .filter(|c| can_coerce_args(given, &c.args, CastContext::Implicit))
        .cloned()
        .collect();
    match reached.len() {
        0 => Choice::None,
        1 => reached.pop().map_or(Choice::None, Choice::One),
        _ => best(reached, given).map_or(Choice::Ambiguous, Choice::One),
    }
}

/// Keeps the candidates with the most points.
fn keep_most<T: Clone>(
    list: Vec<Candidate<T>>,
    points: impl Fn(&Candidate<T>) -> usize,
) -> Vec<Candidate<T>> {
    let most = list.iter().map(&points).max().unwrap_or(0);
    list.into_iter().filter(|c| points(c) == most).collect()
}

fn category_of(arg: ArgType) -> char {
    match arg {
        ArgType::Is(ty) => tables::category(ty),
        // Pseudo-types of every kind.
        _ => 'P',
    }
}

fn is_preferred_for(arg: ArgType, category: char) -> bool {
    matches!(arg, ArgType::Is(ty) if tables::category(ty) == category && tables::is_preferred(ty))
}

/// The rules for the best of several candidates: most exact matches, then most preferred types,
/// then what the categories of the arguments say of literals without a type, then the type that
/// all known arguments share.
fn best<T: Clone>(list: Vec<Candidate<T>>, given: &[SqlType]) -> Option<Candidate<T>> {
    let known = |index: usize| given[index] != SqlType::Unknown;
    let unknowns = given.iter().filter(|ty| **ty == SqlType::Unknown).count();
    let matches = |c: &Candidate<T>| {
        let pairs = c.args.iter().zip(given).enumerate();
        pairs
            .filter(|(i, (arg, ty))| known(*i) && is_exactly(**arg, **ty))
            .count()
    };
    let mut list = keep_most(list, matches);
    if list.len() == 1 {
        return list.pop();
    }
    let preferred = |c: &Candidate<T>| {
        let pairs = c.args.iter().zip(given).enumerate();
        let counts = |(i, (arg, ty)): &(usize, (&ArgType, &SqlType))| {
            known(*i)
                && (is_exactly(**arg, **ty) || is_preferred_for(**arg, tables::category(**ty)))
        };
        pairs.filter(counts).count()
    };
    let mut list = keep_most(list, preferred);
    if list.len() == 1 {
        return list.pop();
    }
    if unknowns == 0 {
        return None;
    }
    if let Some(slots) = unknown_slots(&list, given) {
        let fits = |c: &&Candidate<T>| {
            slots.iter().all(|(index, category, preferred)| {
                let arg = c.args[*index];
                category_of(arg) == *category && (!preferred || is_preferred_for(arg, *category))
            })
        };
        let narrowed: Vec<Candidate<T>> = list.iter().filter(fits).cloned().collect();
        if !narrowed.is_empty() {
            list = narrowed;
        }
        if list.len() == 1 {
            return list.pop();
        }
    }
    shared_type(list, given, unknowns)
}

/// For each argument of unknown type the category that it is taken to be of, and whether only a
/// preferred type will do; `None` where the candidates' categories conflict.
fn unknown_slots<T>(list: &[Candidate<T>], given: &[SqlType]) -> Option<Vec<(usize, char, bool)>> {
    let mut slots = Vec::new();
    for (index, ty) in given.iter().enumerate() {
        if *ty != SqlType::Unknown {
            continue;
        }
        let categories: Vec<char> = list.iter().map(|c| category_of(c.args[index])).collect();
        let first = *categories.first()?;
        let category = if categories.contains(&'S') {
            'S'
        } else if categories.iter().all(|c| *c == first) {
            first
        } else {
            return None;
        };
        let preferred = list
            .iter()
            .any(|c| is_preferred_for(c.args[index], category));
        slots.push((index, category, preferred));
    }
    Some(slots)
}

/// If all known arguments are of one type, the only candidate that takes it for the unknown ones
/// too.
fn shared_type<T: Clone>(
    list: Vec<Candidate<T>>,
    given: &[SqlType],
    unknowns: usize,
) -> Option<Candidate<T>> {
    if unknowns == given.len() {
        return None;
    }
    let mut known = given.iter().filter(|ty| **ty != SqlType::Unknown);
    let shared = known.next()?.without_modifier();
    if !known.all(|ty| types::same(*ty, shared)) {
        return None;
    }
    let all_shared = vec![shared; given.len()];
    let fits = |c: &Candidate<T>| can_coerce_args(&all_shared, &c.args, CastContext::Implicit);
    let mut fitting = list.into_iter().filter(fits);
    let only = fitting.next()?;
    fitting.next().is_none().then_some(only)
}
