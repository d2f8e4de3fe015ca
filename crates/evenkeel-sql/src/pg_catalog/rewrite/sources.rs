//! The FROM clause: functions that are relations, laterals without a source of their own, and
//! relations that never have rows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Value,
};

use datafusion::sql::sqlparser::parser::Parser;

use super::scope::Scope;
use super::visit::{HooksMut, walk_mut};
use super::{ast, scope, subqueries};
use crate::planner::parse::DIALECT;
use crate::planner::utility::ident_text;

/// Functions that return the rows of a relation, with that relation and the columns.
const FUNCTIONS: [(&str, &str, &str); 5] = [
    (
        "pg_available_extensions",
        "pg_available_extensions",
        "name, default_version, comment",
    ),
    (
        "pg_get_sequence_data",
        "pg_sequence",
        "NULL::bigint AS last_value, NULL::boolean AS is_called",
    ),
    ("pg_show_all_settings", "pg_settings", "*"),
    ("pg_timezone_names", "pg_timezone_names", "*"),
    ("pg_lock_status", "pg_locks", "*"),
];

/// Whether a table function is one that stands for a relation.
pub fn is_function(name: &ObjectName) -> bool {
    let name = ast::system_name(name);
    name.is_some_and(|name| FUNCTIONS.iter().any(|(function, ..)| *function == name))
}

/// `unnest` of a constant array of numbers becomes its rows.
pub fn unnest_to_rows(factor: &mut TableFactor) {
    let TableFactor::UNNEST {
        alias, array_exprs, ..
    } = factor
    else {
        return;
    };
    let [array] = array_exprs.as_slice() else {
        return;
    };
    let items = literal(array).and_then(|text| text.strip_prefix('{')?.strip_suffix('}'));
    let Some(items) = items else { return };
    let numbers: Result<Vec<u32>, _> = items
        .split(',')
        .filter(|item| !item.is_empty())
        .map(str::parse)
        .collect();
    let Ok(numbers) = numbers else { return };
    let rows: Vec<String> = numbers.iter().map(|n| format!("({n}::oid)")).collect();
    let text = if rows.is_empty() {
        "SELECT 0::oid AS unnest WHERE false".to_owned()
    } else {
        format!("VALUES {}", rows.join(", "))
    };
    if let Some(subquery) = query(&text) {
        let alias = alias.take().unwrap_or_else(|| ast::alias("unnest"));
        *factor = derived(subquery, alias);
    }
}

/// The text of a string literal under casts.
fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => literal(expr),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn query(text: &str) -> Option<Box<Query>> {
    let parsed = Parser::new(&DIALECT).try_with_sql(text);
    parsed.and_then(|mut parser| parser.parse_query()).ok()
}

fn derived(subquery: Box<Query>, alias: TableAlias) -> TableFactor {
    TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(alias),
        sample: None,
    }
}

/// Nothing is unnested where there are no rows.
pub fn drop_unnest(select: &mut Select) {
    if !scope::is_empty(select) {
        return;
    }
    for expr in select.projection.iter_mut().filter_map(ast::item_expr_mut) {
        if ast::plain_call(expr).is_some_and(|(name, _)| name == "unnest") {
            *expr = ast::null();
        }
    }
}

/// A table function that stands for a relation becomes a query on it.
pub fn function_to_relation(factor: &mut TableFactor) {
    let TableFactor::Table {
        name,
        alias,
        args: Some(_),
        ..
    } = factor
    else {
        return;
    };
    let Some(name) = ast::system_name(name) else {
        return;
    };
    let Some((function, relation, columns)) = FUNCTIONS.iter().find(|(f, ..)| *f == name) else {
        return;
    };
    let text = format!("SELECT {columns} FROM pg_catalog.{relation}");
    let Some(subquery) = query(&text) else { return };
    let alias = alias.take().unwrap_or_else(|| ast::alias(function));
    *factor = derived(subquery, alias);
}

/// `LATERAL (SELECT expr) AS o(n)` has one row: `o.n` is the expression.
pub fn inline_laterals(query: &mut Query) {
    let Some(select) = ast::plain_select_mut(query) else {
        return;
    };
    let mut inlined = Vec::new();
    for item in &mut select.from {
        take_laterals(item, &mut inlined);
    }
    if inlined.is_empty() {
        return;
    }
    walk_mut(query, &mut Inline { inlined });
}

/// A column of an inlined lateral.
struct Inlined {
    table: String,
    column: String,
    expr: Expr,
}

fn take_laterals(item: &mut TableWithJoins, inlined: &mut Vec<Inlined>) {
    item.joins
        .retain(|join| match lateral_columns(&join.relation) {
            Some(columns) if subqueries::is_unconditional(&join.join_operator) => {
                inlined.extend(columns);
                false
            }
            _ => true,
        });
}

/// The columns of a lateral without a FROM of its own.
fn lateral_columns(factor: &TableFactor) -> Option<Vec<Inlined>> {
    let TableFactor::Derived {
        lateral: true,
        subquery,
        alias: Some(alias),
        ..
    } = factor
    else {
        return None;
    };
    let SetExpr::Select(select) = &*subquery.body else {
        return None;
    };
    let plain = select.from.is_empty() && select.selection.is_none() && !ast::is_grouped(select);
    if !plain || subquery.limit_clause.is_some() {
        return None;
    }
    let column = |(at, item): (usize, &SelectItem)| {
        let named = alias.columns.get(at).map(|column| ident_text(&column.name));
        let column = match (named, item) {
            (Some(name), _) => name,
            (None, SelectItem::ExprWithAlias { alias, .. }) => ident_text(alias),
            _ => return None,
        };
        let expr = ast::item_expr(item)?.clone();
        Some(Inlined {
            table: ast::alias_name(alias),
            column,
            expr,
        })
    };
    select.projection.iter().enumerate().map(column).collect()
}

struct Inline {
    inlined: Vec<Inlined>,
}

impl HooksMut for Inline {
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, column] = parts.as_slice()
        {
            let (table, column) = (ident_text(table), ident_text(column));
            let found = self
                .inlined
                .iter()
                .find(|i| i.table == table && i.column == column);
            if let Some(found) = found {
                *expr = Expr::Nested(Box::new(found.expr.clone()));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Nothing in the list of a SELECT without rows is ever evaluated, so subqueries in it may as
/// well be NULL.
pub fn prune(select: &mut Select) {
    if !scope::is_empty(select) || ast::is_grouped(select) || subqueries::has_aggregate(select) {
        return;
    }
    for expr in select.projection.iter_mut().filter_map(ast::item_expr_mut) {
        walk_mut(expr, &mut Prune);
    }
}

struct Prune;

impl HooksMut for Prune {
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let subquery = matches!(expr, Expr::Subquery(_) | Expr::Exists { .. });
        if subquery || ast::array_subquery(expr).is_some() {
            *expr = ast::null();
        }
        ControlFlow::Continue(())
    }
}

/// `t.tableoid` is the oid of the catalog that `t` is.
pub fn resolve_tableoid(select: &mut Select) {
    let scope = Scope::of(select);
    if scope.sources.is_empty() {
        return;
    }
    walk_mut(select, &mut TableOid { scope });
}

struct TableOid {
    scope: Scope,
}

impl TableOid {
    fn oid(&self, parts: &[Ident]) -> Option<u32> {
        let (table, column) = match parts {
            [column] => (None, column),
            [table, column] => (Some(ident_text(table)), column),
            _ => return None,
        };
        if ident_text(column) != "tableoid" {
            return None;
        }
        let source = match &table {
            Some(table) => self.scope.named(table),
            None => self.scope.sources.first(),
        };
        source.map(|source| source.def.oid)
    }
}

impl HooksMut for TableOid {
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let oid = match expr {
            Expr::Identifier(ident) => self.oid(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(parts) => self.oid(parts),
            _ => None,
        };
        if let Some(oid) = oid {
            *expr = ast::number(u64::from(oid));
        }
        ControlFlow::Continue(())
    }
}
