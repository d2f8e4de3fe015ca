//! Objects as SQL spells them.

use evenkeel_planner::ast::{ExprKind, Literal};
use evenkeel_planner::catalog::TypesOnly;
use evenkeel_planner::parser::parse_expr;

use super::builtin;
use super::view::{Constraint, Index, KeyPart, KeySource, Table};
use crate::parser::parse::type_of;
use crate::quote::quote_ident;
use crate::types::SqlType;

/// As `format_type`: of a type that is not known, `???`.
pub fn format_type(oid: u32, typmod: Option<i32>) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let known = typmod.and_then(|typmod| SqlType::from_oid(oid, typmod));
    let typmod = typmod.filter(|typmod| *typmod >= 0);
    let element = match known {
        Some(SqlType::Array(element, _)) => element.oid(),
        _ => oid,
    };
    match (known, typmod, builtin::type_by_oid(oid)) {
        // A type that has no modifiers shows the number that it is given.
        (_, Some(typmod), Some(ty)) if !has_own_form(element) => {
            match ty.formatted.strip_suffix("[]") {
                Some(element) => format!("{element}({typmod})[]"),
                None => format!("{}({typmod})", ty.formatted),
            }
        }
        (Some(SqlType::Array(..)), Some(typmod), Some(ty)) => {
            match SqlType::from_oid(element, typmod) {
                Some(element) => format!("{}[]", element.name()),
                None => ty.formatted.to_owned(),
            }
        }
        (Some(known), ..) => known.name(),
        (None, _, ty) => ty.map_or("???", |ty| ty.formatted).to_owned(),
    }
}

/// Whether `format_type` shows a type's modifier in a form of its own, or never.
fn has_own_form(oid: u32) -> bool {
    const NEVER: [u32; 7] = [16, 20, 21, 23, 114, 700, 701];
    const OWN: [u32; 10] = [1042, 1043, 1083, 1114, 1184, 1186, 1266, 1560, 1562, 1700];
    NEVER.contains(&oid) || OWN.contains(&oid)
}

/// A column of an index without its order.
pub fn key_part(table: &Table, part: &KeyPart, pretty: bool) -> String {
    match &part.source {
        KeySource::Column(column) => column_name(table, *column),
        KeySource::Expression(expression) => expression.among_columns(pretty),
    }
}

/// The columns of an index's key as `pg_get_indexdef` spells them.
pub fn key_columns(table: &Table, index: &Index, pretty: bool) -> Vec<String> {
    let column = |part: &KeyPart| {
        let mut text = key_part(table, part, pretty);
        if let Some(class) = part.class {
            text.push(' ');
            text.push_str(class.name);
        }
        if part.descending {
            text.push_str(" DESC");
        }
        match (part.descending, part.nulls_first) {
            (true, false) => text.push_str(" NULLS LAST"),
            (false, true) => text.push_str(" NULLS FIRST"),
            _ => {}
        }
        text
    };
    let parts = index.key.iter().take(index.key_columns);
    parts.map(column).collect()
}

/// INCLUDE, if an index has it.
fn included(table: &Table, index: &Index) -> String {
    let parts = index.key.iter().skip(index.key_columns);
    let parts: Vec<String> = parts.map(|part| key_part(table, part, false)).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(" INCLUDE ({})", parts.join(", ")),
    }
}

/// The name of column `position` (from 0), quoted where it must be.
pub fn column_name(table: &Table, position: usize) -> String {
    table
        .columns
        .get(position)
        .map_or_else(String::new, |column| quote_ident(&column.name))
}

/// The command that makes an index.
pub fn index(table: &Table, index: &Index, schema: bool, pretty: bool) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let mut name = quote_ident(&table.name);
    if schema {
        name = format!("{}.{name}", quote_ident(&table.schema));
    }
    let columns = key_columns(table, index, pretty).join(", ");
    let filter = index.predicate.as_ref().map(|predicate| match pretty {
        true => format!(" WHERE {}", predicate.pretty),
        false => format!(" WHERE {}", predicate.text),
    });
    let filter = filter.unwrap_or_default();
    let nulls = if index.nulls_not_distinct {
        " NULLS NOT DISTINCT"
    } else {
        ""
    };
    let included = included(table, index);
    let index = quote_ident(&index.name);
    format!(
        "CREATE {unique}INDEX {index} ON {name} USING btree ({columns}){included}{nulls}{filter}"
    )
}

/// A constraint as it stands in CREATE TABLE.
pub fn constraint(table: &Table, constraint: &Constraint) -> String {
    let columns: Vec<String> = constraint
        .columns
        .iter()
        .map(|position| column_name(table, *position))
        .collect();
    let index = table
        .indexes
        .iter()
        .find(|index| index.oid == constraint.index);
    let distinct = index.is_some_and(|index| index.nulls_not_distinct);
    let words = match (constraint.code, distinct) {
        ("p", _) => "PRIMARY KEY",
        (_, true) => "UNIQUE NULLS NOT DISTINCT",
        _ => "UNIQUE",
    };
    let included = index.map_or_else(String::new, |index| included(table, index));
    let timing = match (constraint.deferrable, constraint.deferred) {
        (_, true) => " DEFERRABLE INITIALLY DEFERRED",
        (true, false) => " DEFERRABLE",
        (false, false) => "",
    };
    format!("{words} ({}){included}{timing}", columns.join(", "))
}

/// A column's default as PostgreSQL shows it: a string literal with its type, functions and
/// types in small letters; anything else as it was written.
pub fn default(text: &str, ty: SqlType) -> String {
    let Ok(expr) = parse_expr(text) else {
        return text.to_owned();
    };
    match &expr.kind {
        ExprKind::Literal(Literal::String(value)) => {
            format!("'{}'::{}", value.replace('\'', "''"), ty.base_name())
        }
        ExprKind::Literal(Literal::Bool(value)) => value.to_string(),
        ExprKind::Cast { arg, ty } => match (
            &arg.kind,
            type_of(ty, text, &TypesOnly(|_: Option<&str>, _: &str| None)),
        ) {
            (ExprKind::Literal(Literal::String(value)), Ok(ty)) => {
                format!("'{}'::{}", value.replace('\'', "''"), ty.name())
            }
            _ => text.to_owned(),
        },
        ExprKind::Call(_) if text.ends_with("()") => text.to_ascii_lowercase(),
        _ if text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') => {
            text.to_ascii_uppercase()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_with_their_modifier() {
        assert_eq!(format_type(1043, Some(44)), "character varying(40)");
        assert_eq!(format_type(1043, None), "character varying");
        assert_eq!(format_type(1007, Some(-1)), "integer[]");
        assert_eq!(format_type(1042, None), "character");
        assert_eq!(format_type(1042, Some(-1)), "bpchar");
        assert_eq!(format_type(25, Some(100)), "text(100)");
        assert_eq!(format_type(1009, Some(7)), "text(7)[]");
        assert_eq!(format_type(23, Some(100)), "integer");
        assert_eq!(format_type(18, Some(0)), "\"char\"(0)");
        assert_eq!(format_type(999_999, Some(-1)), "???");
    }

    #[test]
    fn defaults_are_shown_as_in_postgresql() {
        for (given, ty, shown) in [
            ("'x'", SqlType::Varchar(Some(4)), "'x'::character varying"),
            (
                "'x'::VARCHAR(3)",
                SqlType::Text,
                "'x'::character varying(3)",
            ),
            ("0", SqlType::Int4, "0"),
            ("NOW()", SqlType::Timestamptz(None), "now()"),
            (
                "current_timestamp",
                SqlType::Timestamptz(None),
                "CURRENT_TIMESTAMP",
            ),
            ("TRUE", SqlType::Bool, "true"),
            ("1 + 1", SqlType::Int4, "1 + 1"),
        ] {
            assert_eq!(default(given, ty), shown);
        }
    }
}
