//! INSERT, UPDATE and DELETE: which of them the compiled executor takes, and what the others
//! become.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, Delete, FromTable, Insert as SqlInsert, ObjectName, Query, SelectItem,
    SetExpr, TableObject, Update, Value as SqlValue,
};
use evenkeel_engine::table::KeyHint;

use super::binder::{Binder, means_present, param_index};
use super::compile::{Compiled, Kind, with};
use super::parse;
use super::query;
use super::select::{Target, select_list};
use super::utility::ident_text;
use super::{access, conflict, value};
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::analytic::modify::{PlannedChange, Verb};
use crate::exec::oltp::expr::{Typed, Value};
use crate::exec::oltp::insert::{Insert, Returning};
use crate::exec::oltp::modify::{Action, Modify};
use crate::types::{Datum, SqlType};

/// Compiles an INSERT.
pub fn insert<'a>(
    bind: &impl Fn() -> Binder<'a>,
    insert: SqlInsert,
    compiled_only: bool,
) -> SqlResult<Option<Compiled>> {
    let binder = bind();
    let TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::unsupported("INSERT into this"));
    };
    let table = binder.table(name)?;
    let columns = target_columns(&table, &insert.columns)?;
    let named = !insert.columns.is_empty();
    let label = match &insert.table_alias {
        Some(alias) => ident_text(&alias.alias),
        None => table.name.to_string(),
    };
    let target = Target::new(Arc::clone(&table), label)?;
    let rows = match &insert.source {
        None => Some(vec![defaults(&binder, &table)?]),
        Some(query) => match values_of(query) {
            Some(rows) => value_rows(&binder, &table, &columns, named, rows)?,
            None => None,
        },
    };
    let conflict = conflict::on_conflict(&binder, insert.on.as_ref(), &target)?;
    let returning = returning(&binder, insert.returning.as_deref(), &target)?;
    let result = returning
        .as_ref()
        .map(|returning| Arc::clone(&returning.columns));
    if let Some(rows) = rows {
        let kind = Kind::Insert(Box::new(Insert {
            table,
            rows,
            conflict,
            returning,
        }));
        return Ok(Some(with(&binder, kind, result)));
    }
    if compiled_only {
        return Ok(None);
    }
    let Some(query) = insert.source else {
        return Err(SqlError::internal("an INSERT without a source"));
    };
    let query = as_select(*query)?;
    let plan = query::plan_query(&binder, &query)?;
    check_width(plan.types.len(), &columns, named)?;
    let mut row = defaults(&binder, &table)?;
    for (source, (column, ty)) in columns.iter().zip(query::assigned_types(&plan)).enumerate() {
        let info = &table.columns[*column];
        check_assignable(ty, info.ty, &info.name)?;
        row[*column] = Typed {
            value: Value::Column(source),
            ty: plan.types[source],
        };
    }
    let change = PlannedChange {
        table,
        plan,
        verb: Verb::Insert { row, conflict },
        returning,
    };
    Ok(Some(with(&binder, Kind::Change(Box::new(change)), result)))
}

/// Columns that are not named may go without an expression.
fn check_width(expressions: usize, columns: &[usize], named: bool) -> SqlResult<()> {
    if expressions > columns.len() {
        return Err(SqlError::syntax(
            "INSERT has more expressions than target columns",
        ));
    }
    if named && expressions < columns.len() {
        return Err(SqlError::syntax(
            "INSERT has more target columns than expressions",
        ));
    }
    Ok(())
}

/// The columns an INSERT names, or all; 42703 and 42701 as PostgreSQL.
fn target_columns(table: &TableInfo, names: &[ObjectName]) -> SqlResult<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let mut seen = HashSet::new();
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let column = column_of(table, name)?;
        if !seen.insert(column) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!(
                    "column \"{}\" specified more than once",
                    table.columns[column].name
                ),
            ));
        }
        columns.push(column);
    }
    Ok(columns)
}

fn column_of(table: &TableInfo, name: &ObjectName) -> SqlResult<usize> {
    let last = name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .map(ident_text);
    let wanted = last.ok_or_else(|| SqlError::syntax(format!("not a column name: {name}")))?;
    column_named(table, &wanted)
}

/// The position of a column; 42703 if there is none of that name.
pub fn column_named(table: &TableInfo, wanted: &str) -> SqlResult<usize> {
    table.column(wanted).ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!(
                "column \"{wanted}\" of relation \"{}\" does not exist",
                table.name
            ),
        )
    })
}

/// The rows of a bare VALUES.
fn values_of(query: &Query) -> Option<&[ast::Parens<Vec<ast::Expr>>]> {
    let bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    match &*query.body {
        SetExpr::Values(values) if bare => Some(&values.rows),
        _ => None,
    }
}

/// One row of VALUES as a SELECT: DataFusion evaluates VALUES before any subquery has run.
fn as_select(query: Query) -> SqlResult<Query> {
    let Some([row]) = values_of(&query) else {
        return Ok(query);
    };
    let items = row.content.iter().cloned().map(SelectItem::UnnamedExpr);
    super::change::select(items.collect(), Vec::new(), None)
}

/// Compiles the rows of a VALUES; `None` if an item needs a plan.
fn value_rows(
    binder: &Binder<'_>,
    table: &TableInfo,
    columns: &[usize],
    named: bool,
    rows: &[ast::Parens<Vec<ast::Expr>>],
) -> SqlResult<Option<Vec<Vec<Typed>>>> {
    let mut compiled = Vec::with_capacity(rows.len());
    for items in rows {
        let items = &items.content;
        if items.len() != rows[0].content.len() {
            return Err(SqlError::syntax("VALUES lists must all be the same length"));
        }
        check_width(items.len(), columns, named)?;
        let mut row = defaults(binder, table)?;
        for (sql, column) in items.iter().zip(columns) {
            let Some(typed) = assigned(binder, table, *column, sql, &DFSchema::empty())? else {
                return Ok(None);
            };
            row[*column] = typed;
        }
        compiled.push(row);
    }
    Ok(Some(compiled))
}

fn is_default(sql: &ast::Expr) -> bool {
    matches!(sql, ast::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// A value that is assigned to a column. As in PostgreSQL a bare parameter takes the column's
/// type and a bare string is read by the column type's input function. `None` if it needs a
/// plan.
pub fn assigned(
    binder: &Binder<'_>,
    table: &TableInfo,
    column: usize,
    sql: &ast::Expr,
    schema: &DFSchema,
) -> SqlResult<Option<Typed>> {
    let info = &table.columns[column];
    if is_default(sql) {
        return default(binder, table, column).map(Some);
    }
    if let ast::Expr::Value(value) = sql {
        match &value.value {
            SqlValue::Placeholder(id) => {
                let index = param_index(id)
                    .ok_or_else(|| SqlError::syntax(format!("no such parameter: {id}")))?;
                let ty = binder.infer_param(index, base_type(info.ty));
                check_assignable(ty, info.ty, &info.name)?;
                return Ok(Some(Typed {
                    value: Value::Param(index),
                    ty,
                }));
            }
            SqlValue::SingleQuotedString(text) if !info.ty.is_string() => {
                if is_moment(info.ty) && means_present(text) {
                    binder.do_not_keep();
                }
                let datum = Datum::parse_text(info.ty, text, &binder.vars().cx)?;
                return Ok(Some(Typed {
                    value: Value::Const(datum),
                    ty: info.ty,
                }));
            }
            SqlValue::Null => {
                return Ok(Some(Typed {
                    value: Value::Const(Datum::Null),
                    ty: info.ty,
                }));
            }
            _ => {}
        }
    }
    let expr = binder.expr(sql.clone(), schema)?;
    if value::needs_plan(&expr) {
        return Ok(None);
    }
    let typed = value::compile(binder, &expr, schema)?;
    check_assignable(typed.ty, info.ty, &info.name)?;
    Ok(Some(typed))
}

/// A parameter has its column's type without the length, which the assignment checks.
fn base_type(ty: SqlType) -> SqlType {
    SqlType::from_oid(ty.oid(), -1).unwrap_or(ty)
}

/// 42804 for types that have no assignment cast, as PostgreSQL at parse time.
pub fn check_assignable(from: SqlType, to: SqlType, column: &str) -> SqlResult<()> {
    let fits = from.oid() == to.oid()
        || from == SqlType::Unknown
        || (from.is_number() && to.is_number())
        || to.is_string()
        || (from.is_string() && to.is_string())
        || (is_moment(from) && is_moment(to))
        || from.is_oid() && (to.is_oid() || to.is_number());
    if fits {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!(
            "column \"{column}\" is of type {} but expression is of type {}",
            to.base_name(),
            from.base_name()
        ),
    )
    .hint("You will need to rewrite or cast the expression."))
}

fn is_moment(ty: SqlType) -> bool {
    matches!(
        ty,
        SqlType::Date | SqlType::Timestamp(_) | SqlType::Timestamptz(_)
    )
}

/// Every column's default.
pub fn defaults(binder: &Binder<'_>, table: &TableInfo) -> SqlResult<Vec<Typed>> {
    (0..table.columns.len())
        .map(|column| default(binder, table, column))
        .collect()
}

fn default(binder: &Binder<'_>, table: &TableInfo, column: usize) -> SqlResult<Typed> {
    let info = &table.columns[column];
    let Some(text) = &info.default else {
        return Ok(Typed {
            value: Value::Const(Datum::Null),
            ty: info.ty,
        });
    };
    let sql = parse::parser(text)?
        .parse_expr()
        .map_err(|e| parse::parser_error(&e, text))?;
    let typed = assigned(binder, table, column, &sql, &DFSchema::empty())?;
    typed.ok_or_else(|| SqlError::unsupported("a subquery in DEFAULT"))
}

fn returning(
    binder: &Binder<'_>,
    items: Option<&[SelectItem]>,
    target: &Target,
) -> SqlResult<Option<Returning>> {
    let Some(items) = items else { return Ok(None) };
    match select_list(binder, items, Some(target), &target.schema)? {
        Some((output, columns)) => Ok(Some(Returning { output, columns })),
        None => Err(SqlError::unsupported("this expression in RETURNING")),
    }
}

/// Compiles an UPDATE.
pub fn update<'a>(
    bind: &impl Fn() -> Binder<'a>,
    update: Update,
    compiled_only: bool,
) -> SqlResult<Option<Compiled>> {
    let binder = bind();
    if update.limit.is_some() || !update.order_by.is_empty() {
        return Err(SqlError::unsupported("UPDATE with ORDER BY or LIMIT"));
    }
    let Some(target) = Target::of(&binder, &update.table.relation)? else {
        return Err(SqlError::unsupported("UPDATE of this"));
    };
    let plain = update.from.is_none() && update.table.joins.is_empty();
    let assignments = match plain {
        true => compiled_assignments(&binder, &update, &target)?,
        false => None,
    };
    if let Some(assignments) = assignments
        && let Some(found) = condition(&binder, update.selection.as_ref(), &target)?
    {
        let hint = key_hint(&target.table, assignments.iter().map(|(column, _)| *column));
        let action = Action::Update { assignments, hint };
        return modify(&binder, found, target, action, update.returning.as_deref()).map(Some);
    }
    if compiled_only {
        return Ok(None);
    }
    super::change::update(&bind(), update).map(Some)
}

/// Compiles a DELETE.
pub fn delete<'a>(
    bind: &impl Fn() -> Binder<'a>,
    delete: Delete,
    compiled_only: bool,
) -> SqlResult<Option<Compiled>> {
    let binder = bind();
    if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
        return Err(SqlError::unsupported(
            "DELETE with ORDER BY, LIMIT or several tables",
        ));
    }
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [from] = from.as_slice() else {
        return Err(SqlError::unsupported("DELETE from several tables"));
    };
    let Some(target) = Target::of(&binder, &from.relation)? else {
        return Err(SqlError::unsupported("DELETE from this"));
    };
    let plain = delete.using.is_none() && from.joins.is_empty();
    if plain && let Some(found) = condition(&binder, delete.selection.as_ref(), &target)? {
        let returning = delete.returning.as_deref();
        return modify(&binder, found, target, Action::Delete, returning).map(Some);
    }
    if compiled_only {
        return Ok(None);
    }
    super::change::delete(&bind(), delete).map(Some)
}

struct Condition {
    expr: Option<Expr>,
    chosen: access::Chosen,
}

/// A WHERE clause and the access for it; `None` if it needs a plan.
fn condition(
    binder: &Binder<'_>,
    sql: Option<&ast::Expr>,
    target: &Target,
) -> SqlResult<Option<Condition>> {
    let expr = match sql {
        Some(sql) => Some(binder.expr(sql.clone(), &target.schema)?),
        None => None,
    };
    if expr.as_ref().is_some_and(value::needs_plan) {
        return Ok(None);
    }
    if let Some(Expr::Literal(ScalarValue::Boolean(Some(true)), _)) = expr {
        let chosen = access::choose(binder, &target.table, None, &target.schema)?;
        return Ok(Some(Condition { expr: None, chosen }));
    }
    let chosen = access::choose(binder, &target.table, expr.as_ref(), &target.schema)?;
    Ok(Some(Condition { expr, chosen }))
}

fn modify(
    binder: &Binder<'_>,
    found: Condition,
    target: Target,
    action: Action,
    items: Option<&[SelectItem]>,
) -> SqlResult<Compiled> {
    let returning = returning(binder, items, &target)?;
    let result = returning
        .as_ref()
        .map(|returning| Arc::clone(&returning.columns));
    let condition = match &found.expr {
        Some(expr) => Some(value::row_expr(binder, expr, &target.schema, true)?),
        None => None,
    };
    let modify = Modify {
        table: target.table,
        access: found.chosen.access,
        condition,
        exact: found.chosen.exact,
        action,
        returning,
    };
    Ok(with(binder, Kind::Modify(Box::new(modify)), result))
}

/// Whether an update of these columns can change an index key.
pub fn key_hint(table: &TableInfo, columns: impl Iterator<Item = usize>) -> KeyHint {
    let assigned: HashSet<usize> = columns.collect();
    let keys = table.indexes.iter().flat_map(|index| &index.columns);
    let touched = keys.into_iter().any(|key| assigned.contains(&key.column));
    if touched {
        KeyHint::Compare
    } else {
        KeyHint::Unchanged
    }
}

/// The columns an UPDATE sets and the expressions it sets them to.
pub fn assignment_list<'u>(
    assignments: &'u [ast::Assignment],
    table: &TableInfo,
) -> SqlResult<Vec<(usize, &'u ast::Expr)>> {
    let mut list = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        match &assignment.target {
            AssignmentTarget::ColumnName(name) => {
                list.push((column_of(table, name)?, &assignment.value));
            }
            AssignmentTarget::Tuple(names) => {
                let ast::Expr::Tuple(values) = &assignment.value else {
                    return Err(SqlError::unsupported(
                        "UPDATE of several columns from a query",
                    ));
                };
                if names.len() != values.len() {
                    return Err(SqlError::syntax(
                        "number of columns does not match number of values",
                    ));
                }
                for (name, value) in names.iter().zip(values) {
                    list.push((column_of(table, name)?, value));
                }
            }
        }
    }
    let mut seen = HashSet::new();
    for (column, _) in &list {
        if !seen.insert(*column) {
            return Err(SqlError::syntax(format!(
                "multiple assignments to same column \"{}\"",
                table.columns[*column].name
            )));
        }
    }
    Ok(list)
}

fn compiled_assignments(
    binder: &Binder<'_>,
    update: &Update,
    target: &Target,
) -> SqlResult<Option<Vec<(usize, Typed)>>> {
    let mut compiled = Vec::with_capacity(update.assignments.len());
    for (column, sql) in assignment_list(&update.assignments, &target.table)? {
        match assigned(binder, &target.table, column, sql, &target.schema)? {
            Some(typed) => compiled.push((column, typed)),
            None => return Ok(None),
        }
    }
    Ok(Some(compiled))
}
