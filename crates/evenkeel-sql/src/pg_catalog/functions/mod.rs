//! PostgreSQL's catalog functions, over the session's [`CatalogView`].

mod definitions;
mod names;
mod privileges;
mod server;
mod sizes;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::view::CatalogView;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::Datum;

/// All functions.
const ALL: [&[Definition]; 5] = [
    names::FUNCTIONS,
    definitions::FUNCTIONS,
    sizes::FUNCTIONS,
    server::FUNCTIONS,
    privileges::FUNCTIONS,
];

/// A function's value for one row.
type Eval = fn(&CatalogView, &[Datum]) -> SqlResult<Datum>;

/// A function's name, strictness and body.
#[derive(Debug, Clone, Copy)]
struct Definition {
    name: &'static str,
    /// Whether a NULL argument makes the result NULL.
    strict: bool,
    eval: Eval,
}

impl Definition {
    /// The value of one row, whose arguments are in `args`.
    fn value(&self, snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
        if self.strict && args.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        (self.eval)(snapshot, args)
    }
}

const fn strict(name: &'static str, eval: Eval) -> Definition {
    Definition {
        name,
        strict: true,
        eval,
    }
}

const fn lax(name: &'static str, eval: Eval) -> Definition {
    Definition {
        name,
        strict: false,
        eval,
    }
}

/// Answers a function about the catalog by its oid in `pg_proc`.
///
/// # Errors
/// Those of the function; 0A000 for one that is not built.
pub fn call(oid: u32, snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    static BY_NAME: LazyLock<HashMap<&'static str, Definition>> = LazyLock::new(|| {
        let all = ALL.into_iter().flatten();
        all.map(|definition| (definition.name, *definition))
            .collect()
    });
    let name = proc_name(oid).unwrap_or_default();
    let Some(definition) = BY_NAME.get(name) else {
        return Err(SqlError::unsupported(format!("function {name} here")));
    };
    definition.value(snapshot, args)
}

/// The name of a function that the catalog answers. The functions of names and oids are in no
/// statement by name.
fn proc_name(oid: u32) -> Option<&'static str> {
    Some(match oid {
        44 => "regprocin",
        45 => "regprocout",
        2218 | 1079 => "regclassin",
        2219 => "regclassout",
        2212 => "regprocedurein",
        2213 => "regprocedureout",
        2214 => "regoperin",
        2215 => "regoperout",
        2216 => "regoperatorin",
        2217 => "regoperatorout",
        2220 => "regtypein",
        2221 => "regtypeout",
        4084 => "regnamespacein",
        4085 => "regnamespaceout",
        4098 => "regrolein",
        4092 => "regroleout",
        _ => evenkeel_expr::proc_by_oid(oid)?.name,
    })
}

/// The argument at a position; NULL where there is none.
fn arg(args: &[Datum], at: usize) -> &Datum {
    args.get(at).unwrap_or(&Datum::Null)
}

/// A string argument.
fn text_arg(args: &[Datum], at: usize) -> SqlResult<&str> {
    match arg(args, at) {
        Datum::Text(text) => Ok(text),
        _ => Err(mismatch("text")),
    }
}

/// A whole number.
fn number_arg(args: &[Datum], at: usize) -> SqlResult<i64> {
    match arg(args, at) {
        Datum::Int2(n) => Ok(i64::from(*n)),
        Datum::Int4(n) => Ok(i64::from(*n)),
        Datum::Int8(n) => Ok(*n),
        Datum::Oid(n) => Ok(i64::from(*n)),
        Datum::Text(text) => text.trim().parse().map_err(|_| mismatch("bigint")),
        Datum::Numeric(n) => n.to_string().parse().map_err(|_| mismatch("bigint")),
        _ => Err(mismatch("bigint")),
    }
}

/// A flag; absent is false.
fn flag_arg(args: &[Datum], at: usize) -> bool {
    match arg(args, at) {
        Datum::Bool(value) => *value,
        Datum::Text(text) => matches!(text.as_str(), "t" | "true" | "on" | "yes" | "1"),
        _ => false,
    }
}

/// An oid, or a text that reads as one.
fn oid_arg(args: &[Datum], at: usize) -> SqlResult<u32> {
    u32::try_from(number_arg(args, at)?).map_err(|_| mismatch("oid"))
}

/// A relation by oid, or by name.
fn relation_arg(snapshot: &CatalogView, args: &[Datum], at: usize) -> SqlResult<u32> {
    match arg(args, at) {
        Datum::Text(name) => names::relation_oid(snapshot, name),
        _ => oid_arg(args, at),
    }
}

fn mismatch(wanted: &str) -> SqlError {
    let message = format!("an argument of a catalog function is not of type {wanted}");
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}
