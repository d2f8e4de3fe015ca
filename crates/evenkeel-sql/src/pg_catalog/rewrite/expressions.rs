//! The first pass: spellings of operators, functions and casts, in any statement.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, Expr, Function, ObjectNamePart, Parens, Query, Select,
    SelectItem, SetExpr, SetOperator, Subscript, UnaryOperator, Value,
};

use super::visit::HooksMut;
use super::{ast, item_names, restore_names};
use crate::planner::names::ItemName;
use crate::planner::utility::ident_text;

/// Types that are oids with a name, with the functions that read and show them.
const NAMED_OIDS: [(&str, &str, &str); 5] = [
    ("regclass", "regclassin", "regclassout"),
    ("regtype", "regtypein", "regtypeout"),
    ("regproc", "regprocin", "regprocout"),
    ("regnamespace", "regnamespacein", "regnamespaceout"),
    ("regrole", "regrolein", "regroleout"),
];

/// Columns of the catalogs that are arrays or vectors of numbers.
const NUMBER_ARRAYS: [&str; 12] = [
    "conkey",
    "confkey",
    "indkey",
    "indclass",
    "indcollation",
    "indoption",
    "proargtypes",
    "prattrs",
    "stxkeys",
    "partattrs",
    "tgattr",
    "proallargtypes",
];

#[derive(Default)]
pub struct Expressions {
    depth: usize,
    names: Vec<Vec<ItemName>>,
}

impl HooksMut for Expressions {
    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.names.push(item_names(select));
        if self.depth == 1 {
            select
                .projection
                .iter_mut()
                .filter_map(ast::item_expr_mut)
                .for_each(show_named_oid);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Some(names) = self.names.pop() {
            restore_names(select, &names);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        without_ancestors(expr);
        rewrite_cast(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Collate { expr: inner, .. } => *expr = ast::take(inner),
            Expr::BinaryOp { .. } => {
                array_to_text(expr);
                rewrite_operator(expr);
            }
            Expr::Function(function) => rewrite_function(function),
            Expr::AnyOp { .. } | Expr::AllOp { .. } => rewrite_any(expr),
            Expr::CompoundFieldAccess { .. } => rewrite_subscript(expr),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The last name of a type in `pg_catalog` or without a schema.
fn type_name(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Regclass => Some("regclass".to_owned()),
        DataType::Text => Some("text".to_owned()),
        DataType::Custom(name, _) => ast::system_name(name),
        _ => None,
    }
}

fn named_oid(data_type: &DataType) -> Option<(&'static str, &'static str)> {
    let name = type_name(data_type)?;
    let found = NAMED_OIDS.iter().find(|(named, ..)| *named == name);
    found.map(|(_, input, output)| (*input, *output))
}

/// `x::regclass` in the result of a statement is a name; anywhere else it is the oid (rule 6).
fn show_named_oid(expr: &mut Expr) {
    let Expr::Cast {
        expr: inner,
        data_type,
        ..
    } = expr
    else {
        return;
    };
    let Some((input, output)) = named_oid(data_type) else {
        return;
    };
    let value = ast::call(input, vec![ast::take(inner)]);
    *expr = ast::call(output, vec![value]);
}

fn rewrite_cast(expr: &mut Expr) {
    let Expr::Cast {
        expr: inner,
        data_type,
        ..
    } = expr
    else {
        return;
    };
    if let Some((input, _)) = named_oid(data_type) {
        *expr = ast::call(input, vec![ast::take(inner)]);
        return;
    }
    if type_name(data_type).is_some_and(|name| matches!(name.as_str(), "text" | "varchar" | "name"))
        && let Expr::Cast {
            data_type: from, ..
        } = &**inner
        && named_oid(from).is_some()
    {
        show_named_oid(inner);
        *expr = ast::take(inner);
        return;
    }
    let dropped = match data_type {
        // Arrays are in their text form, whatever they are of.
        DataType::Array(_) => is_catalog_array(inner) || is_string(inner),
        _ => type_name(data_type)
            .is_some_and(|name| matches!(name.as_str(), "xid" | "cid" | "pg_lsn" | "aclitem")),
    };
    if dropped {
        *expr = ast::take(inner);
    }
}

fn is_string(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

/// Whether an expression is a column that the catalogs have as an array of numbers.
fn is_catalog_array(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(ident) => ident,
        Expr::CompoundIdentifier(parts) => match parts.last() {
            Some(ident) => ident,
            None => return false,
        },
        Expr::Nested(inner) => return is_catalog_array(inner),
        _ => return false,
    };
    NUMBER_ARRAYS.contains(&name.value.to_lowercase().as_str())
}

fn plain_operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

/// `OPERATOR(pg_catalog.~)` is `~`; `||` of arrays is a function.
fn rewrite_operator(expr: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expr else {
        return;
    };
    if let BinaryOperator::PGCustomBinaryOperator(names) = op {
        let plain = match names.as_slice() {
            [name] => plain_operator(name),
            [schema, name] if schema == "pg_catalog" => plain_operator(name),
            _ => None,
        };
        if let Some(plain) = plain {
            *op = plain;
        }
    }
    let is_array = |side: &Expr| ast::array_subquery(side).is_some();
    if *op == BinaryOperator::StringConcat && (is_array(left) || is_array(right)) {
        *expr = ast::call("ek_array_cat", vec![ast::take(left), ast::take(right)]);
    }
}

/// Functions are all in `pg_catalog`.
fn rewrite_function(function: &mut Function) {
    let parts = &mut function.name.0;
    let schema = parts.first().and_then(ObjectNamePart::as_ident);
    if parts.len() == 2
        && schema.is_some_and(|ident| ident.value.eq_ignore_ascii_case("pg_catalog"))
    {
        parts.remove(0);
    }
}

/// `x = ANY (array)` and `x <> ALL (array)` of arrays in text form.
fn rewrite_any(expr: &mut Expr) {
    let (left, right, all) = match expr {
        Expr::AnyOp {
            left,
            compare_op: BinaryOperator::Eq,
            right,
            ..
        } => (left, right, false),
        Expr::AllOp {
            left,
            compare_op: BinaryOperator::NotEq,
            right,
        } => (left, right, true),
        _ => return,
    };
    let mut inner: &Expr = right;
    while let Expr::Nested(nested) = inner {
        inner = nested;
    }
    if matches!(inner, Expr::Subquery(_) | Expr::Array(_)) {
        return;
    }
    let found = ast::call("ek_any_equal", vec![ast::take(left), ast::take(right)]);
    *expr = if all {
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(found),
        }
    } else {
        found
    };
}

/// `conkey[1]`
fn rewrite_subscript(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else {
        return;
    };
    let is_column = |root: &Expr| matches!(root, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    // `t.a[1]` may come as `t` with the accesses `.a` and `[1]`.
    while let Some(AccessExpr::Dot(Expr::Identifier(name))) = access_chain.first() {
        let mut parts = match &**root {
            Expr::Identifier(first) => vec![first.clone()],
            Expr::CompoundIdentifier(parts) => parts.clone(),
            _ => return,
        };
        parts.push(name.clone());
        **root = Expr::CompoundIdentifier(parts);
        access_chain.remove(0);
    }
    if is_column(root) && is_type_name(root) {
        // A name's characters are counted from 0.
        if let [AccessExpr::Subscript(Subscript::Index { index })] = access_chain.as_mut_slice() {
            let at = Expr::BinaryOp {
                left: Box::new(ast::take(index)),
                op: BinaryOperator::Plus,
                right: Box::new(ast::number(1)),
            };
            *expr = ast::call("substr", vec![ast::take(root), at, ast::number(1)]);
        }
        return;
    }
    if !is_column(root) || !is_catalog_array(root) {
        return;
    }
    if let [AccessExpr::Subscript(Subscript::Index { index })] = access_chain.as_mut_slice() {
        *expr = ast::call("ek_array_number", vec![ast::take(root), ast::take(index)]);
    }
}

/// `conkey = array[attnum]`
fn array_to_text(expr: &mut Expr) {
    if let Expr::BinaryOp {
        left,
        op: BinaryOperator::Eq,
        right,
    } = expr
        && is_catalog_array(left)
        && let Expr::Array(array) = &mut **right
    {
        **right = ast::call("ek_array_of", std::mem::take(&mut array.elem));
    }
}

fn is_type_name(column: &Expr) -> bool {
    let last = match column {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    last.is_some_and(|name| ident_text(name) == "typname")
}

/// `x IN (SELECT pg_partition_ancestors(…) UNION ALL VALUES (y))`: the function is a set, which
/// is empty where nothing is partitioned.
fn without_ancestors(expr: &mut Expr) {
    let Expr::InSubquery {
        expr: operand,
        subquery,
        negated,
    } = expr
    else {
        return;
    };
    let SetExpr::SetOperation {
        left,
        op: SetOperator::Union,
        right,
        ..
    } = &*subquery.body
    else {
        return;
    };
    let SetExpr::Values(values) = &**right else {
        return;
    };
    if !is_ancestors(left) {
        return;
    }
    let first = |row: &Parens<Vec<Expr>>| row.content.first().cloned();
    let Some(list) = values.rows.iter().map(first).collect::<Option<Vec<_>>>() else {
        return;
    };
    *expr = Expr::InList {
        expr: Box::new(ast::take(operand)),
        list,
        negated: *negated,
    };
}

fn is_ancestors(body: &SetExpr) -> bool {
    let SetExpr::Select(select) = body else {
        return false;
    };
    let [SelectItem::UnnamedExpr(expr)] = select.projection.as_slice() else {
        return false;
    };
    let name = ast::plain_call(expr).map(|(name, _)| name);
    select.from.is_empty() && name.is_some_and(|name| name == "pg_partition_ancestors")
}
