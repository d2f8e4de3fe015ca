//! The names PostgreSQL gives to result columns without an alias.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, ObjectName, Query, Select, SelectItem, SetExpr,
};

use super::utility::ident_text;
use crate::types::SqlType;

/// A select item's share of the result columns.
#[derive(Debug, PartialEq, Eq)]
pub enum ItemName {
    /// One column of this name.
    One(String),
    /// As many columns as `*` or `t.*` stands for, under their own names.
    Star,
}

/// The names of a query's result columns.
pub fn of_query(query: &Query) -> Vec<ItemName> {
    of_set(&query.body)
}

fn of_set(set: &SetExpr) -> Vec<ItemName> {
    match set {
        SetExpr::Select(select) => of_select(select),
        SetExpr::Query(query) => of_query(query),
        SetExpr::SetOperation { left, .. } => of_set(left),
        SetExpr::Values(values) => {
            let width = values.rows.first().map_or(0, |row| row.len());
            (1..=width)
                .map(|n| ItemName::One(format!("column{n}")))
                .collect()
        }
        _ => vec![ItemName::Star],
    }
}

/// The names of a SELECT list's result columns.
pub fn of_select(select: &Select) -> Vec<ItemName> {
    select.projection.iter().map(of_item).collect()
}

/// The name of one item.
pub fn of_item(item: &SelectItem) -> ItemName {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            ItemName::One(of_expr(expr).unwrap_or_else(|| "?column?".into()))
        }
        SelectItem::ExprWithAlias { alias, .. } => ItemName::One(ident_text(alias)),
        SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => ItemName::Star,
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0
        .last()
        .and_then(|part| part.as_ident())
        .map(ident_text)
}

/// PostgreSQL's FigureColname; `None` where it says `?column?`.
fn of_expr(expr: &Expr) -> Option<String> {
    let fixed = |name: &str| Some(name.to_owned());
    match expr {
        Expr::Identifier(ident) => Some(ident_text(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(ident_text),
        Expr::Function(function) => match &function.args {
            FunctionArguments::Subquery(_) => fixed("array"),
            _ => last(&function.name),
        },
        Expr::Cast {
            expr, data_type, ..
        } => of_expr(expr).or_else(|| {
            SqlType::from_ast(data_type)
                .ok()
                .map(|ty| ty.type_name().to_owned())
        }),
        Expr::TypedString(typed) => SqlType::from_ast(&typed.data_type)
            .ok()
            .map(|ty| ty.type_name().to_owned()),
        Expr::Nested(inner)
        | Expr::Collate { expr: inner, .. }
        | Expr::CompoundFieldAccess { root: inner, .. } => of_expr(inner),
        Expr::Case { else_result, .. } => else_result
            .as_deref()
            .and_then(of_expr)
            .or_else(|| fixed("case")),
        Expr::Subquery(query) => match of_query(query).into_iter().next() {
            Some(ItemName::One(name)) => Some(name),
            _ => None,
        },
        Expr::Exists { .. } => fixed("exists"),
        Expr::Array(_) => fixed("array"),
        Expr::Extract { .. } => fixed("extract"),
        Expr::Substring { .. } => fixed("substring"),
        Expr::Position { .. } => fixed("position"),
        Expr::Overlay { .. } => fixed("overlay"),
        Expr::Trim { .. } => fixed("btrim"),
        Expr::Ceil { .. } => fixed("ceil"),
        Expr::Floor { .. } => fixed("floor"),
        Expr::AtTimeZone { .. } => fixed("timezone"),
        Expr::Interval(_) => fixed("interval"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::parse::{Parsed, parse};
    use datafusion::sql::sqlparser::ast::Statement;

    #[test]
    fn columns_are_named_as_in_postgresql() {
        let text = "select a, t.b, count(*), 1, 1 + 1, '5'::int, a::text, case when a then 1 end, \
                    now() as x, current_timestamp, (select c from d), t.*, coalesce(a, 1)";
        let Ok(Parsed::Sql(statement)) = parse(text) else {
            panic!("parses")
        };
        let Statement::Query(query) = *statement else {
            panic!("a query")
        };
        let names: Vec<String> = of_query(&query)
            .into_iter()
            .map(|name| match name {
                ItemName::One(name) => name,
                ItemName::Star => "*".into(),
            })
            .collect();
        assert_eq!(
            names,
            [
                "a",
                "b",
                "count",
                "?column?",
                "?column?",
                "int4",
                "a",
                "case",
                "x",
                "current_timestamp",
                "c",
                "*",
                "coalesce"
            ]
        );
    }
}
