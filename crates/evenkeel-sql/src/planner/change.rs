//! UPDATE and DELETE whose rows come from a plan: joins, subqueries. The statement becomes a
//! query for the hidden row id and the new values, which feeds our own executor.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, Delete, Expr, FromTable, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr,
    TableFactor, TableWithJoins, Update, UpdateTableFromKind, Value as SqlValue,
};

use super::binder::{Binder, param_index};
use super::compile::{Compiled, Kind, with};
use super::dml::{assignment_list, check_assignable, key_hint};
use super::parse::{Parsed, parse};
use super::query;
use super::select::{Target, select_list};
use super::source::{ROW_ID, TARGET};
use crate::error::{SqlError, SqlResult};
use crate::exec::analytic::modify::{Assignment, PlannedChange, Verb};
use crate::exec::oltp::insert::Returning;
use crate::types::SqlType;

/// Compiles an UPDATE whose rows come from a plan.
pub fn update(binder: &Binder<'_>, mut update: Update) -> SqlResult<Compiled> {
    let target = target(binder, &update.table.relation)?;
    let mut items = vec![row_id(&target.label)];
    let mut assignments = Vec::new();
    for (column, sql) in assignment_list(&update.assignments, &target.table)? {
        let info = &target.table.columns[column];
        let mut from = None;
        if let Expr::Value(value) = sql {
            match &value.value {
                SqlValue::Placeholder(id) => {
                    if let (Some(index), Some(ty)) =
                        (param_index(id), SqlType::from_oid(info.ty.oid(), -1))
                    {
                        binder.infer_param(index, ty);
                    }
                }
                SqlValue::SingleQuotedString(_) | SqlValue::Null => from = Some(SqlType::Unknown),
                _ => {}
            }
        }
        items.push(SelectItem::UnnamedExpr(sql.clone()));
        assignments.push((column, from));
    }
    let mut from = vec![rename(update.table.clone())];
    match update.from.take() {
        Some(UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) => {
            from.extend(tables);
        }
        None => {}
    }
    let query = select(items, from, update.selection.take())?;
    let plan = query::plan_query(binder, &query)?;
    let mut list = Vec::with_capacity(assignments.len());
    for (number, (column, from)) in assignments.into_iter().enumerate() {
        let ty = from.unwrap_or(plan.types[number + 1]);
        let info = &target.table.columns[column];
        check_assignable(ty, info.ty, &info.name)?;
        list.push(Assignment {
            column,
            source: number + 1,
            ty,
        });
    }
    let hint = key_hint(
        &target.table,
        list.iter().map(|assignment| assignment.column),
    );
    let verb = Verb::Update {
        assignments: list,
        hint,
    };
    finish(binder, target, plan, verb, update.returning.as_deref())
}

/// Compiles a DELETE whose rows come from a plan.
pub fn delete(binder: &Binder<'_>, delete: Delete) -> SqlResult<Compiled> {
    let (FromTable::WithFromKeyword(mut from) | FromTable::WithoutKeyword(mut from)) = delete.from;
    let Some(first) = from.pop() else {
        return Err(SqlError::syntax("DELETE without a table"));
    };
    let target = target(binder, &first.relation)?;
    let mut tables = vec![rename(first)];
    tables.extend(delete.using.unwrap_or_default());
    let query = select(vec![row_id(&target.label)], tables, delete.selection)?;
    let plan = query::plan_query(binder, &query)?;
    finish(
        binder,
        target,
        plan,
        Verb::Delete,
        delete.returning.as_deref(),
    )
}

fn finish(
    binder: &Binder<'_>,
    target: Target,
    plan: query::QueryPlan,
    verb: Verb,
    items: Option<&[SelectItem]>,
) -> SqlResult<Compiled> {
    let returning = match items {
        None => None,
        Some(items) => match select_list(binder, items, Some(&target), &target.schema)? {
            Some((output, columns)) => Some(Returning { output, columns }),
            None => return Err(SqlError::unsupported("this expression in RETURNING")),
        },
    };
    let columns = returning
        .as_ref()
        .map(|returning| Arc::clone(&returning.columns));
    let change = PlannedChange {
        table: target.table,
        plan,
        verb,
        returning,
    };
    Ok(with(binder, Kind::Change(Box::new(change)), columns))
}

/// The table to change; from here on the name `TARGET` stands for it, with its row id.
fn target(binder: &Binder<'_>, factor: &TableFactor) -> SqlResult<Target> {
    let Some(target) = Target::of(binder, factor)? else {
        return Err(SqlError::unsupported("changing this"));
    };
    binder.set_target(Arc::clone(&target.table));
    Ok(target)
}

/// Lets the first table of a FROM stand for the target under its old name.
fn rename(mut from: TableWithJoins) -> TableWithJoins {
    if let TableFactor::Table { name, alias, .. } = &mut from.relation {
        if alias.is_none() {
            let label = name.0.last().and_then(|part| part.as_ident()).cloned();
            *alias = label.map(|name| ast::TableAlias {
                explicit: true,
                name,
                columns: Vec::new(),
                at: None,
            });
        }
        *name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote(
            '"', TARGET,
        ))]);
    }
    from
}

fn row_id(label: &str) -> SelectItem {
    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![
        Ident::with_quote('"', label),
        Ident::with_quote('"', ROW_ID),
    ]))
}

/// `SELECT items FROM tables WHERE selection`, on the frame of a parsed query.
pub fn select(
    items: Vec<SelectItem>,
    tables: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> SqlResult<Query> {
    let Parsed::Sql(statement) = parse("SELECT 1")? else {
        return Err(SqlError::internal("SELECT is not a query"));
    };
    let ast::Statement::Query(mut query) = *statement else {
        return Err(SqlError::internal("SELECT is not a query"));
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from = tables;
        select.selection = selection;
    }
    Ok(*query)
}
