//! The functions, operators and casts there are, and how they are found.

mod arithmetic;
mod arrays;
mod bits;
mod casts;
mod comparisons;
mod datetime;
mod enums;
mod evenkeel;
mod formatting;
mod json;
mod names;
mod numbers;
mod operators;
mod patterns;
mod strings;
mod system;
mod types;
mod unbuilt;

use std::collections::HashMap;
use std::sync::LazyLock;
pub use unbuilt::is_unbuilt;

use crate::aggregate::{AGGREGATES, WINDOW_FUNCTIONS};
use crate::proc::{OperatorDef, Proc};
use crate::set_returning::{JSON_SETS, RECORDS, SETS, SYSTEM_SETS};

/// A row a function: oid, mode, name, arguments, result, body, and what is not as usual. The modes
/// are `pure`, `stable` and `volatile`; a `…_lenient` function sees NULL.
macro_rules! procs {
    ($($oid:literal $mode:ident $name:ident ($($arg:ident),*) -> $result:ident = $body:expr
        $(=> $($option:ident($value:expr))+)?;)*) => {
        pub(super) static ROWS: &[crate::proc::Proc] = &[$(
            crate::proc::Proc::scalar(
                $oid,
                stringify!($name),
                &[$($arg),*],
                $result,
                super::$mode(),
                $body,
            )$($(.$option($value))+)?,
        )*];
    };
}
use procs;

/// A row an operator: oid, left type unless it is a prefix operator, name, right type, function,
/// commutator and negator by oid, 0 for none.
macro_rules! operator_rows {
    (@row $oid:literal $left:ident $name:literal $right:ident
        = $proc:literal, $com:literal, $neg:literal) => {
        crate::proc::OperatorDef {
            oid: $oid,
            name: $name,
            left: Some($left),
            right: $right,
            proc: $proc,
            commutator: $com,
            negator: $neg,
        }
    };
    (@row $oid:literal $name:literal $right:ident = $proc:literal, $com:literal, $neg:literal) => {
        crate::proc::OperatorDef {
            oid: $oid,
            name: $name,
            left: None,
            right: $right,
            proc: $proc,
            commutator: $com,
            negator: $neg,
        }
    };
    ($($oid:literal $($left:ident)?
        $name:literal $right:ident = $proc:literal, $com:literal, $neg:literal;)*) => {
        pub(super) static ROWS: &[crate::proc::OperatorDef] = &[$(
            super::operator_rows!(@row $oid $($left)? $name $right = $proc, $com, $neg),
        )*];
    };
}
use operator_rows;

use crate::proc::Volatility;

/// Volatility, and whether it is strict.
type Mode = (Volatility, bool);

const fn pure() -> Mode {
    (Volatility::Immutable, true)
}

const fn pure_lenient() -> Mode {
    (Volatility::Immutable, false)
}

const fn stable() -> Mode {
    (Volatility::Stable, true)
}

const fn stable_lenient() -> Mode {
    (Volatility::Stable, false)
}

const fn volatile() -> Mode {
    (Volatility::Volatile, true)
}

const fn volatile_lenient() -> Mode {
    (Volatility::Volatile, false)
}

/// The tables, an area each.
static TABLES: &[&[Proc]] = &[
    arithmetic::ROWS,
    arrays::ROWS,
    bits::ROWS,
    casts::ROWS,
    comparisons::ROWS,
    datetime::ROWS,
    enums::ROWS,
    formatting::ROWS,
    json::ROWS,
    numbers::ROWS,
    evenkeel::ROWS,
    patterns::ROWS,
    strings::ROWS,
    system::ROWS,
];

pub use names::argument_names;

/// All operators.
pub static OPERATORS: &[OperatorDef] = operators::ROWS;

/// Rows by a key, in the order of the tables.
type Index<K, T> = LazyLock<HashMap<K, Vec<&'static T>>>;

static PROCS_BY_NAME: Index<&str, Proc> = LazyLock::new(|| {
    let mut index: HashMap<&str, Vec<&Proc>> = HashMap::new();
    for proc in procs_listed() {
        index.entry(proc.name).or_default().push(proc);
    }
    index
});

static PROCS_BY_OID: LazyLock<HashMap<u32, &Proc>> =
    LazyLock::new(|| procs_listed().map(|proc| (proc.oid, proc)).collect());

static OPERATORS_BY_NAME: Index<&str, OperatorDef> = LazyLock::new(|| {
    let mut index: HashMap<&str, Vec<&OperatorDef>> = HashMap::new();
    for operator in OPERATORS {
        index.entry(operator.name).or_default().push(operator);
    }
    index
});

static OPERATORS_BY_OID: LazyLock<HashMap<u32, &OperatorDef>> =
    LazyLock::new(|| OPERATORS.iter().map(|o| (o.oid, o)).collect());

/// All functions.
pub fn procs_listed() -> impl Iterator<Item = &'static Proc> {
    let tables = TABLES.iter().chain(&AGGREGATES).copied();
    let sets = SETS
        .iter()
        .chain(&SYSTEM_SETS)
        .chain(&JSON_SETS)
        .chain(&RECORDS);
    tables.flatten().chain(&WINDOW_FUNCTIONS).chain(sets)
}

/// The functions of a name.
pub fn procs_named(name: &str) -> &'static [&'static Proc] {
    PROCS_BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// The function with this oid in `pg_proc`.
pub fn proc_by_oid(oid: u32) -> Option<&'static Proc> {
    PROCS_BY_OID.get(&oid).copied()
}

/// The operators of a name.
pub fn operators_named(name: &str) -> &'static [&'static OperatorDef] {
    OPERATORS_BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// The operator with this oid in `pg_operator`.
pub fn operator_by_oid(oid: u32) -> Option<&'static OperatorDef> {
    OPERATORS_BY_OID.get(&oid).copied()
}
