//! Every row of the tables is PostgreSQL 18's.

use std::collections::HashMap;

use evenkeel_expr::proc::{ArgType, CastContext, CastMethod, Proc, ProcKind, Volatility};
use evenkeel_expr::{
    CASTS, OPERATORS, argument_names, category, find_cast, is_preferred, operator_by_oid,
    operators_named, proc_by_oid, procs_listed, procs_named,
};
use evenkeel_types::SqlType;

const RECORDED: &str = include_str!("catalog.txt");

/// Oids from here on are of functions that PostgreSQL has not.
const OWN: u32 = 16_000;

/// The recorded rows of a kind, by what their first fields are.
fn recorded(kind: &str, key: usize) -> HashMap<String, Vec<&'static str>> {
    RECORDED
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|fields| fields[0] == kind)
        .map(|fields| (fields[1..=key].join(" "), fields))
        .collect()
}

fn oid(ty: ArgType) -> u32 {
    match ty {
        ArgType::Is(ty) => ty.oid(),
        ArgType::AnyElement => 2283,
        ArgType::AnyArray => 2277,
        ArgType::AnyNonArray => 2776,
        ArgType::AnyEnum => 3500,
        ArgType::AnyCompatible => 5077,
        ArgType::AnyCompatibleArray => 5078,
        ArgType::Any => 2276,
        ArgType::Record => 2249,
    }
}

fn flag(value: bool) -> &'static str {
    if value { "t" } else { "f" }
}

fn row_of(proc: &Proc) -> String {
    let mut args: Vec<u32> = proc.args.iter().map(|arg| oid(*arg)).collect();
    // A variadic argument is listed by its element.
    if let (true, Some(ArgType::Is(ty)), Some(last)) =
        (proc.variadic, proc.args.last(), args.last_mut())
    {
        *last = ty.array_of().unwrap().oid();
    }
    let args: Vec<String> = args.iter().map(u32::to_string).collect();
    let args = if args.is_empty() {
        "-".to_owned()
    } else {
        args.join(",")
    };
    let kind = match proc.kind {
        ProcKind::Scalar(_) | ProcKind::Set(..) => "f",
        ProcKind::Window(_) => "w",
        _ => "a",
    };
    format!(
        "proc {} {} {args} {} {} {} {} {kind} {} {} {}",
        proc.oid,
        proc.name,
        oid(proc.result),
        flag(proc.strict),
        match proc.volatility {
            Volatility::Immutable => "i",
            Volatility::Stable => "s",
            Volatility::Volatile => "v",
        },
        flag(matches!(proc.kind, ProcKind::Set(..))),
        flag(proc.variadic),
        proc.defaults.len(),
        proc.cost
    )
}

#[test]
fn functions_are_those_of_pg_proc() {
    let rows = recorded("proc", 1);
    for proc in procs_listed().filter(|proc| proc.oid < OWN) {
        let row = rows.get(&proc.oid.to_string()).map(|row| row.join(" "));
        assert_eq!(Some(row_of(proc)), row, "{}", proc.name);
        assert!(
            std::ptr::eq(proc_by_oid(proc.oid).unwrap(), proc),
            "{} twice",
            proc.oid
        );
        assert!(
            procs_named(proc.name)
                .iter()
                .any(|named| std::ptr::eq(*named, proc))
        );
    }
    assert!(procs_named("no_such_function").is_empty());
}

#[test]
fn names_of_arguments_are_those_of_pg_proc() {
    let rows = recorded("names", 1);
    for proc in procs_listed().filter(|proc| proc.oid < OWN) {
        let row = rows.get(&proc.oid.to_string()).map(|row| row[2]);
        let names = argument_names(proc.oid).join(",");
        assert_eq!(names, row.unwrap_or_default(), "{} {}", proc.name, proc.oid);
    }
}

#[test]
fn operators_are_those_of_pg_operator() {
    let rows = recorded("operator", 1);
    for operator in OPERATORS {
        let row = &rows[&operator.oid.to_string()];
        assert_eq!(row[2], operator.name);
        assert_eq!(
            row[3],
            operator.left.map_or(0, oid).to_string(),
            "{}",
            operator.oid
        );
        assert_eq!(row[4], oid(operator.right).to_string(), "{}", operator.oid);
        assert_eq!(row[5], operator.proc.to_string());
        // An operator that is not here is nobody's commutator.
        let known = |text: &str| match text.parse() {
            Ok(oid) if operator_by_oid(oid).is_some() => oid,
            _ => 0,
        };
        assert_eq!(known(row[6]), operator.commutator, "{}", operator.oid);
        assert_eq!(known(row[7]), operator.negator, "{}", operator.oid);
        assert!(matches!(
            proc_by_oid(operator.proc).unwrap().kind,
            ProcKind::Scalar(_)
        ));
        let named = operators_named(operator.name);
        assert!(named.iter().any(|named| std::ptr::eq(*named, operator)));
    }
}

#[test]
fn casts_are_those_of_pg_cast() {
    let rows = recorded("cast", 2);
    for cast in CASTS {
        let row = &rows[&format!("{} {}", cast.source.oid(), cast.target.oid())];
        let context = match cast.context {
            CastContext::Implicit => "i",
            CastContext::Assignment => "a",
            CastContext::Explicit => "e",
        };
        let method = match cast.method {
            CastMethod::Binary => "b",
            CastMethod::Convert => "f",
            CastMethod::InOut => "i",
        };
        assert_eq!((row[3], row[4]), (context, method), "{cast:?}");
        let found = find_cast(cast.source, cast.target).unwrap();
        assert!(std::ptr::eq(found, cast));
    }
    // All that PostgreSQL has between the types there are.
    for row in rows.values() {
        let ty = |at: usize| SqlType::from_oid(row[at].parse().unwrap(), -1);
        if let (Some(from), Some(to)) = (ty(1), ty(2)) {
            assert!(find_cast(from, to).is_some(), "{from:?} to {to:?}");
        }
    }
}

#[test]
fn categories_are_those_of_pg_type() {
    let rows = recorded("type", 1);
    for ty in SqlType::all().iter().copied().chain(SqlType::arrays()) {
        let row = &rows[&ty.oid().to_string()];
        // The arrays of pseudo-types are pseudo-types.
        if row[2] == "P" && ty.element().is_some() {
            continue;
        }
        assert_eq!(row[2], category(ty).to_string(), "{ty:?}");
        assert_eq!(row[3], flag(is_preferred(ty)), "{ty:?}");
    }
}
