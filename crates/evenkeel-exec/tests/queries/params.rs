//! Parameters in place of a statement's constants, as far as they leave its meaning.

use evenkeel_planner::bound::{Bound, BoundStatement};
use evenkeel_planner::catalog::Catalog;
use evenkeel_types::{Datum, SqlType, TypeContext};

use crate::database::Database;
use crate::ways::Params;

/// A literal of a statement: its bytes, and its value as text.
struct Literal {
    start: usize,
    end: usize,
    text: String,
    number: bool,
}

/// Words after which a list of numbers names columns by their places.
const LISTS: [&str; 2] = ["BY", "ON"];
/// Words that end such a list.
const ENDS: [&str; 12] = [
    "LIMIT",
    "OFFSET",
    "FETCH",
    "HAVING",
    "WINDOW",
    "UNION",
    "WHERE",
    "ROWS",
    "RANGE",
    "GROUPS",
    "INTERSECT",
    "EXCEPT",
];

/// The literals that parameters may stand for.
fn literals(text: &str) -> Vec<Literal> {
    let bytes = text.as_bytes();
    let (mut found, mut at, mut in_list) = (Vec::new(), 0, Vec::from([false]));
    let mut before = b' ';
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        at += 1;
        if byte == b'\'' || byte == b'"' {
            while at < bytes.len() && (bytes[at] != byte || bytes.get(at + 1) == Some(&byte)) {
                at += if bytes[at] == byte { 2 } else { 1 };
            }
            at += 1;
            let plain = !before.is_ascii_alphanumeric() && before != b'&';
            if byte == b'\'' && plain && at <= bytes.len() {
                let text = text[start + 1..at - 1].replace("''", "'");
                found.push(Literal {
                    start,
                    end: at,
                    text,
                    number: false,
                });
            }
        } else if byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' || byte >= 128 {
            while at < bytes.len()
                && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_' || bytes[at] >= 128)
            {
                at += 1;
            }
            let word = text[start..at].to_ascii_uppercase();
            if let Some(last) = in_list.last_mut() {
                *last = LISTS.contains(&&*word) || (*last && !ENDS.contains(&&*word));
            }
        } else if byte.is_ascii_digit() {
            while at < bytes.len()
                && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'.' || bytes[at] == b'_')
            {
                at += 1;
            }
            if !in_list.last().unwrap_or(&false) && before != b'.' {
                let text = text[start..at].to_owned();
                found.push(Literal {
                    start,
                    end: at,
                    text,
                    number: true,
                });
            }
        } else if byte == b'(' {
            let inherited = *in_list.last().unwrap_or(&false) && (before == b' ' || before == b'(');
            in_list.push(inherited);
        } else if byte == b')' && in_list.len() > 1 {
            in_list.pop();
        }
        before = bytes[at - 1];
    }
    found
}

fn value(literal: &Literal, ty: SqlType, context: &TypeContext) -> Option<Datum> {
    Datum::parse_text(ty, &literal.text, context).ok()
}

fn columns(bound: &Bound) -> Vec<String> {
    let BoundStatement::Query(query) = &bound.statement else {
        return Vec::new();
    };
    let kept = query.targets.iter().filter(|target| !target.junk);
    kept.map(|target| format!("{} {:?}", target.name, target.expr.ty))
        .collect()
}

/// The statement with parameters instead of those constants that may be parameters.
pub fn instead_of_constants(database: &Database, text: &str) -> Option<(String, Params)> {
    let catalog: &dyn Catalog = database.catalog(false);
    let wanted = columns(&database.bind(text, catalog, &[]).ok()?);
    let context = database.context();
    let (mut out, mut params, mut done) = (text.to_owned(), Params::new(), 0_isize);
    for literal in literals(text) {
        let name = format!("${}", params.len() + 1);
        let (start, end) = (literal.start as isize + done, literal.end as isize + done);
        let mut tried = out.clone();
        tried.replace_range(start as usize..end as usize, &name);
        let mut types: Vec<Option<SqlType>> = params.iter().map(|(ty, _)| Some(*ty)).collect();
        types.push(match (literal.number, literal.text.parse::<i32>()) {
            (false, _) => None,
            (true, Ok(_)) => Some(SqlType::Int4),
            (true, Err(_)) => match literal.text.parse::<i64>() {
                Ok(_) => Some(SqlType::Int8),
                Err(_) => Some(SqlType::Numeric(None)),
            },
        });
        let Ok(bound) = database.bind(&tried, catalog, &types) else {
            continue;
        };
        let ty = bound.params[params.len()];
        if columns(&bound) != wanted {
            continue;
        }
        if let Some(value) = value(&literal, ty, context) {
            params.push((ty, value));
            done += name.len() as isize - (end - start);
            out = tried;
        }
    }
    (!params.is_empty()).then_some((out, params))
}
