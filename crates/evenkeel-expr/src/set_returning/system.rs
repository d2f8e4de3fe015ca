//! Sets about catalogs: those that clients ask for.

use std::sync::Arc;

use evenkeel_types::{ArrayValue, Datum, SqlState, SqlType, TypeError, TypeResult};

use crate::call::{Call, Session};
use crate::proc::{ArgType, Proc, ProcKind, Rows, RowsOf, Volatility};

const INT2S: ArgType = ArgType::Is(SqlType::array(&SqlType::Int2));
const REGCLASS: ArgType = ArgType::Is(SqlType::Regclass);

const fn stable(
    oid: u32,
    name: &'static str,
    args: &'static [ArgType],
    result: ArgType,
    (rows, columns): (RowsOf, &'static [(&'static str, SqlType)]),
) -> Proc {
    Proc {
        oid,
        name,
        args,
        defaults: &[],
        variadic: false,
        result,
        strict: true,
        volatility: Volatility::Stable,
        kind: ProcKind::Set(rows, columns),
        cost: 10.0,
    }
}

/// Functions of catalogs. One is of `information_schema`, whose oid no catalog fixes;
/// `pg_get_sequence_data` gives one record in PostgreSQL, which is a set of one here.
pub static SYSTEM_SETS: [Proc; 7] = [
    Proc {
        cost: 100.0,
        volatility: Volatility::Immutable,
        ..stable(
            16_003,
            "_pg_expandarray",
            &[INT2S],
            ArgType::Record,
            (expanded, &[("x", SqlType::Int2), ("n", SqlType::Int4)]),
        )
    },
    stable(
        3082,
        "pg_available_extensions",
        &[],
        ArgType::Record,
        (
            extensions,
            &[
                ("name", SqlType::Name),
                ("default_version", SqlType::Text),
                ("comment", SqlType::Text),
            ],
        ),
    ),
    Proc {
        cost: 1.0,
        ..stable(
            3035,
            "pg_listening_channels",
            &[],
            ArgType::Is(SqlType::Text),
            (listened, &[("pg_listening_channels", SqlType::Text)]),
        )
    },
    // No table is a partition.
    Proc {
        cost: 1.0,
        volatility: Volatility::Volatile,
        ..stable(
            3425,
            "pg_partition_ancestors",
            &[REGCLASS],
            REGCLASS,
            (nothing, &[("relid", SqlType::Regclass)]),
        )
    },
    Proc {
        cost: 1.0,
        volatility: Volatility::Volatile,
        ..stable(
            3423,
            "pg_partition_tree",
            &[REGCLASS],
            ArgType::Record,
            (
                nothing,
                &[
                    ("relid", SqlType::Regclass),
                    ("parentrelid", SqlType::Regclass),
                    ("isleaf", SqlType::Bool),
                    ("level", SqlType::Int4),
                ],
            ),
        )
    },
    Proc {
        cost: 1.0,
        volatility: Volatility::Volatile,
        ..stable(
            16_028,
            "pg_get_sequence_data",
            &[REGCLASS],
            ArgType::Record,
            (
                sequence_data,
                &[("last_value", SqlType::Int8), ("is_called", SqlType::Bool)],
            ),
        )
    },
    Proc {
        cost: 1.0,
        ..stable(
            2289,
            "pg_options_to_table",
            &[ArgType::Is(SqlType::TEXT_ARRAY)],
            ArgType::Record,
            (
                options,
                &[
                    ("option_name", SqlType::Text),
                    ("option_value", SqlType::Text),
                ],
            ),
        )
    },
];

struct Nothing;

impl Rows for Nothing {
    fn next(&mut self, _session: &dyn Session, _row: &mut Vec<Datum>) -> TypeResult<bool> {
        Ok(false)
    }

    fn bytes(&self) -> usize {
        0
    }
}

#[allow(clippy::unnecessary_wraps)]
fn nothing(_call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    Ok(Box::new(Nothing))
}

/// One row: where a sequence stands, and NULLs for any other relation.
struct SequenceData {
    row: Option<[Datum; 2]>,
}

impl Rows for SequenceData {
    fn next(&mut self, _session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let Some(data) = self.row.take() else {
            return Ok(false);
        };
        row.clear();
        row.extend(data);
        Ok(true)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// The session gives the number and, as another, whether it was given out.
fn sequence_data(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    let row = match &call.system()? {
        Datum::Array(array) => match array.elements() {
            [last, Datum::Int8(called)] => [last.clone(), Datum::Bool(*called != 0)],
            _ => [Datum::Null, Datum::Null],
        },
        _ => [Datum::Null, Datum::Null],
    };
    Ok(Box::new(SequenceData { row: Some(row) }))
}

/// Three columns, one row after the other in an array that the session gives.
struct Extensions(Expanded);

impl Rows for Extensions {
    fn next(&mut self, _session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let elements = self.0.array.elements();
        let Some(columns) = elements.get(self.0.next..self.0.next + 3) else {
            return Ok(false);
        };
        row.clear();
        row.extend_from_slice(columns);
        self.0.next += 3;
        Ok(true)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

fn extensions(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    let array = call.system()?;
    Ok(Box::new(Extensions(expansion_of(&array)?)))
}

/// One column: the elements of an array that the session gives.
struct Elements(Expanded);

impl Rows for Elements {
    fn next(&mut self, session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let is_there = self.0.next(session, row)?;
        row.truncate(1);
        Ok(is_there)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

fn listened(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    let array = call.system()?;
    Ok(Box::new(Elements(expansion_of(&array)?)))
}

/// The elements of an array with their numbers from 1.
struct Expanded {
    array: Arc<ArrayValue>,
    next: usize,
}

impl Rows for Expanded {
    fn next(&mut self, _session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        let Some(element) = self.array.elements().get(self.next) else {
            return Ok(false);
        };
        self.next += 1;
        let number = i32::try_from(self.next).unwrap_or(i32::MAX);
        row.clear();
        row.extend([element.clone(), Datum::Int4(number)]);
        Ok(true)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.array.bytes()
    }
}

/// Texts `name=value`, and those without a value.
struct Options(Expanded);

impl Rows for Options {
    fn next(&mut self, session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool> {
        if !self.0.next(session, row)? {
            return Ok(false);
        }
        let Some(text) = row.first().and_then(Datum::as_str) else {
            let message = "null array element not allowed in this context";
            return Err(TypeError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.into(), value.into()),
            None => (text.into(), Datum::Null),
        };
        row.clear();
        row.extend([name, value]);
        Ok(true)
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

fn options(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    Ok(Box::new(Options(expansion(call)?)))
}

fn expanded(call: &Call<'_>) -> TypeResult<Box<dyn Rows>> {
    Ok(Box::new(expansion(call)?))
}

fn expansion(call: &Call<'_>) -> TypeResult<Expanded> {
    expansion_of(call.arg(0))
}

fn expansion_of(array: &Datum) -> TypeResult<Expanded> {
    let Datum::Array(array) = array else {
        return Err(TypeError::internal("a value that is no array is expanded"));
    };
    Ok(Expanded {
        array: Arc::clone(array),
        next: 0,
    })
}
