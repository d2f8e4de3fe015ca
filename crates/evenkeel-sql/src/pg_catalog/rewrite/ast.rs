//! Building and taking apart syntax trees.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableAlias,
    Value,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::planner::utility::ident_text;

/// A quoted name: taken as it is.
pub fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// `NULL`
pub fn null() -> Expr {
    Expr::Value(Value::Null.with_span(Span::empty()))
}

/// A string literal.
pub fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).with_span(Span::empty()))
}

/// A number.
pub fn number(value: u64) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).with_span(Span::empty()))
}

/// `TRUE` or `FALSE`
pub fn boolean(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).with_span(Span::empty()))
}

/// `table.column`
pub fn column(table: &str, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![quoted(table), quoted(column)])
}

/// `name(args)`
pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args
        .into_iter()
        .map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: args.collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Takes an expression out of its place.
pub fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, null())
}

/// A name's parts, folded as PostgreSQL folds them; `None` for what is not a name.
pub fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0
        .iter()
        .map(|part| part.as_ident().map(ident_text))
        .collect()
}

/// The last part of a name in `pg_catalog`, or without a schema.
pub fn system_name(name: &ObjectName) -> Option<String> {
    let mut parts = parts(name)?;
    match parts.len() {
        1 => parts.pop(),
        2 if parts.first().is_some_and(|schema| schema == "pg_catalog") => parts.pop(),
        _ => None,
    }
}

/// The name of an alias.
pub fn alias_name(alias: &TableAlias) -> String {
    ident_text(&alias.name)
}

/// An alias without columns.
pub fn alias(name: &str) -> TableAlias {
    TableAlias {
        explicit: true,
        name: quoted(name),
        columns: Vec::new(),
        at: None,
    }
}

/// The single SELECT that a query is.
pub fn plain_select(query: &Query) -> Option<&Select> {
    match &*query.body {
        SetExpr::Select(select) if query.with.is_none() => Some(select),
        _ => None,
    }
}

/// The single SELECT that a query is.
pub fn plain_select_mut(query: &mut Query) -> Option<&mut Select> {
    match &mut *query.body {
        SetExpr::Select(select) if query.with.is_none() => Some(select),
        _ => None,
    }
}

/// The expression of an item.
pub fn item_expr(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The expression of an item.
pub fn item_expr_mut(item: &mut SelectItem) -> Option<&mut Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Whether there is a GROUP BY.
pub fn is_grouped(select: &Select) -> bool {
    match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(exprs, modifiers) => !exprs.is_empty() || !modifiers.is_empty(),
    }
}

/// The subquery of `ARRAY(SELECT …)`.
pub fn array_subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Function(Function {
            name,
            args: FunctionArguments::Subquery(query),
            ..
        }) if parts(name).is_some_and(|parts| parts == ["array"]) => Some(query),
        _ => None,
    }
}

/// The name and the arguments of a call with plain arguments.
pub fn plain_call(expr: &Expr) -> Option<(String, Vec<&Expr>)> {
    let Expr::Function(function) = expr else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    Some((
        system_name(&function.name)?,
        args.collect::<Option<Vec<_>>>()?,
    ))
}
