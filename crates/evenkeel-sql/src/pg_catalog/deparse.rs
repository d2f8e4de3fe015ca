//! Objects as SQL spells them.

use datafusion::sql::sqlparser::ast::{Expr, FunctionArguments, Value};
use datafusion::sql::sqlparser::parser::Parser;

use super::builtin;
use super::snapshot::{Constraint, Index, KeyPart, Table};
use crate::planner::parse::DIALECT;
use crate::types::SqlType;

/// As `format_type`: of a type that is not known, `???`.
pub fn format_type(oid: u32, typmod: Option<i32>) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    if let Some(ty) = typmod.and_then(|typmod| SqlType::from_oid(oid, typmod)) {
        return ty.name();
    }
    builtin::type_by_oid(oid).map_or_else(|| "???".to_owned(), |ty| ty.formatted.to_owned())
}

/// A name as SQL has to spell it.
pub fn quote_ident(name: &str) -> String {
    let plain = name.chars().enumerate().all(|(at, c)| {
        c.is_ascii_lowercase() || c == '_' || (at > 0 && (c.is_ascii_digit() || c == '$'))
    });
    if plain && !name.is_empty() && !is_reserved(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// PostgreSQL's keywords that cannot be a column's name without quotes, or only some places.
fn is_reserved(name: &str) -> bool {
    const WORDS: &str = " all analyse analyze and any array as asc asymmetric authorization \
        between bigint binary bit boolean both case cast char character check coalesce collate \
        collation column concurrently constraint create cross current_catalog current_date \
        current_role current_schema current_time current_timestamp current_user dec decimal \
        default deferrable desc distinct do else end except exists extract false fetch float for \
        foreign freeze from full grant greatest group grouping having ilike in initially inner \
        inout int integer intersect interval into is isnull join lateral leading least left like \
        limit localtime localtimestamp national natural nchar none normalize not notnull null \
        nullif numeric offset on only or order out outer overlaps overlay placing position \
        precision primary real references returning right row select session_user setof similar \
        smallint some substring symmetric system_user table tablesample then time timestamp to \
        trailing treat trim true union unique user using values varchar variadic verbose when \
        where window with xmlattributes ";
    WORDS.contains(&format!(" {name} "))
}

/// An index's columns as `pg_get_indexdef` spells them.
pub fn key_columns(table: &Table, index: &Index) -> Vec<String> {
    let column = |part: &KeyPart| {
        let mut text = column_name(table, part.column);
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
    index.key.iter().map(column).collect()
}

/// The name of column `position` (from 0), quoted where it must be.
pub fn column_name(table: &Table, position: usize) -> String {
    table
        .columns
        .get(position)
        .map_or_else(String::new, |column| quote_ident(&column.name))
}

/// The command that makes an index.
pub fn index(table: &Table, index: &Index, schema: bool) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let mut name = quote_ident(&table.name);
    if schema {
        name = format!("{}.{name}", quote_ident(&table.schema));
    }
    let columns = key_columns(table, index).join(", ");
    let nulls = if index.nulls_not_distinct {
        " NULLS NOT DISTINCT"
    } else {
        ""
    };
    let index = quote_ident(&index.name);
    format!("CREATE {unique}INDEX {index} ON {name} USING btree ({columns}){nulls}")
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
    format!("{words} ({})", columns.join(", "))
}

/// A column's default as PostgreSQL shows it: a string literal with its type, functions and
/// types in small letters; anything else as it was written.
pub fn default(text: &str, ty: SqlType) -> String {
    let parsed = Parser::new(&DIALECT)
        .try_with_sql(text)
        .and_then(|mut p| p.parse_expr());
    let Ok(expr) = parsed else {
        return text.to_owned();
    };
    match &expr {
        Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)) => {
            format!("{expr}::{}", ty.base_name())
        }
        Expr::Cast {
            expr: inner,
            data_type,
            ..
        } => match SqlType::from_ast(data_type) {
            Ok(ty) => format!("{inner}::{}", ty.name()),
            Err(_) => text.to_owned(),
        },
        Expr::Function(function) if matches!(function.args, FunctionArguments::None) => {
            text.to_ascii_uppercase()
        }
        Expr::Function(function) if function.args.to_string() == "()" => text.to_ascii_lowercase(),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => text.to_ascii_lowercase(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_only_where_sql_needs_it() {
        for (name, quoted) in [
            ("accounts", "accounts"),
            ("_x1$", "_x1$"),
            ("1x", "\"1x\""),
            ("Odd Name", "\"Odd Name\""),
            ("a\"b", "\"a\"\"b\""),
            ("order", "\"order\""),
            ("orders", "orders"),
        ] {
            assert_eq!(quote_ident(name), quoted);
        }
    }

    #[test]
    fn types_are_named_with_their_modifier() {
        assert_eq!(format_type(1043, Some(44)), "character varying(40)");
        assert_eq!(format_type(1043, None), "character varying");
        assert_eq!(format_type(1007, Some(-1)), "integer[]");
        assert_eq!(format_type(1042, None), "character");
        assert_eq!(format_type(1042, Some(-1)), "bpchar");
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
