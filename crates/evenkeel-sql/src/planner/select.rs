//! Which SELECTs the compiled executor takes, and their compilation.

use std::sync::Arc;

use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::{
    self, GroupByExpr, LimitClause, LockType, NonBlock, OrderByKind, Query, Select as SqlSelect,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
};
use evenkeel_engine::table::Direction;
use evenkeel_engine::{RowLockMode, WaitPolicy};

use super::access;
use super::binder::Binder;
use super::names::{self, ItemName};
use super::query::column;
use super::source::table_schema;
use super::utility::ident_text;
use super::value;
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::oltp::access::Access;
use crate::exec::oltp::expr::{Typed, Value};
use crate::exec::oltp::select::{Locking, Select};
use crate::session::api::Column;
use crate::types::SqlType;

/// A table named in a statement, and its columns as expressions see them.
pub struct Target {
    /// The table.
    pub table: Arc<TableInfo>,
    /// Its columns under the table's name or alias.
    pub schema: DFSchema,
    /// The name or alias.
    pub label: String,
}

impl Target {
    /// A plain table, perhaps with an alias; `None` for anything else.
    pub fn of(binder: &Binder<'_>, factor: &TableFactor) -> SqlResult<Option<Target>> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            sample: None,
            ..
        } = factor
        else {
            return Ok(None);
        };
        if !with_hints.is_empty() || alias.as_ref().is_some_and(|a| !a.columns.is_empty()) {
            return Ok(None);
        }
        let table = binder.table(name)?;
        let label = match alias {
            Some(alias) => ident_text(&alias.name),
            None => table.name.to_string(),
        };
        Target::new(table, label).map(Some)
    }

    /// A table under a label.
    pub fn new(table: Arc<TableInfo>, label: String) -> SqlResult<Target> {
        let schema = table_schema(&table);
        let reference = TableReference::bare(label.clone());
        let schema = DFSchema::try_from_qualified_schema(reference, &schema)?;
        Ok(Target {
            table,
            schema,
            label,
        })
    }
}

/// Compiles a query that the compiled executor can run; `None` if it is for the other one.
pub fn compile(binder: &Binder<'_>, query: &Query) -> SqlResult<Option<Select>> {
    let Some(select) = plain_select(query) else {
        return Ok(None);
    };
    let (target, empty) = match select.from.as_slice() {
        [] => (None, DFSchema::empty()),
        [TableWithJoins { relation, joins }] if joins.is_empty() => {
            match Target::of(binder, relation)? {
                Some(target) => (Some(target), DFSchema::empty()),
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let schema = target.as_ref().map_or(&empty, |target| &target.schema);
    let condition = match &select.selection {
        Some(sql) => Some(binder.expr(sql.clone(), schema)?),
        None => None,
    };
    if condition.as_ref().is_some_and(value::needs_plan) {
        return Ok(None);
    }
    let chosen = match &target {
        Some(target) => access::choose(binder, &target.table, condition.as_ref(), schema)?,
        None => access::Chosen {
            access: Access::Scan,
            exact: condition.is_none(),
        },
    };
    let locking = locking(query)?;
    let Some(direction) = order(query, target.as_ref(), &chosen.access) else {
        return Ok(None);
    };
    if target.is_some() && locking.is_none() && !is_short(&chosen.access, query) {
        return Ok(None);
    }
    let Some((output, columns)) = output(binder, select, target.as_ref(), schema)? else {
        return Ok(None);
    };
    let (limit, offset) = limits(binder, query)?;
    let condition = match condition {
        Some(expr) => Some(value::row_expr(binder, &expr, schema, true)?),
        None => None,
    };
    Ok(Some(Select {
        table: target.map(|target| target.table),
        access: chosen.access,
        direction,
        condition,
        exact: chosen.exact,
        output,
        columns,
        limit,
        offset,
        locking,
    }))
}

/// A SELECT without anything that needs more than one row at a time.
fn plain_select(query: &Query) -> Option<&SqlSelect> {
    let simple_query = query.with.is_none()
        && query.fetch.is_none()
        && query.for_clause.is_none()
        && query.pipe_operators.is_empty()
        && query.locks.len() <= 1;
    let SetExpr::Select(select) = &*query.body else {
        return None;
    };
    let no_groups = matches!(
        &select.group_by,
        GroupByExpr::Expressions(exprs, modifiers) if exprs.is_empty() && modifiers.is_empty()
    );
    let simple_select = select.distinct.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.having.is_none()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && select.exclude.is_none();
    (simple_query && no_groups && simple_select).then_some(select)
}

/// Whether an access yields few enough rows to be read one by one: a point, a range that
/// begins with an equality or has two ends, or anything cut off by a LIMIT.
fn is_short(access: &Access, query: &Query) -> bool {
    match access {
        Access::Point { .. } | Access::Points { .. } => true,
        Access::Range {
            prefix, low, high, ..
        } => {
            !prefix.is_empty() || (low.is_some() && high.is_some()) || query.limit_clause.is_some()
        }
        Access::Scan => false,
    }
}

/// The direction to visit the access in so that the rows come in the order asked for; `None`
/// if neither gives it.
fn order(query: &Query, target: Option<&Target>, access: &Access) -> Option<Direction> {
    let Some(order_by) = &query.order_by else {
        return Some(Direction::Forward);
    };
    if matches!(access, Access::Point { .. }) {
        return Some(Direction::Forward);
    }
    let OrderByKind::Expressions(exprs) = &order_by.kind else {
        return None;
    };
    let [item] = exprs.as_slice() else {
        return None;
    };
    let ast::Expr::Identifier(ident) = &item.expr else {
        return None;
    };
    let name = ident_text(ident);
    let target = target?;
    let SetExpr::Select(select) = &*query.body else {
        return None;
    };
    // An output alias of that name would be what is ordered by.
    let aliased = select.projection.iter().any(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => ident_text(alias) == name,
        _ => false,
    });
    let Access::Range { index, prefix, .. } = access else {
        return None;
    };
    let key = target.table.indexes[*index].columns.get(prefix.len())?;
    if aliased || *target.table.columns[key.column].name != *name {
        return None;
    }
    let descending = item.options.asc == Some(false);
    let nulls_first = item.options.nulls_first.unwrap_or(descending);
    let natural = (key.descending, key.nulls_first);
    if natural == (descending, nulls_first) {
        Some(Direction::Forward)
    } else if natural == (!descending, !nulls_first) {
        Some(Direction::Backward)
    } else {
        None
    }
}

fn locking(query: &Query) -> SqlResult<Option<Locking>> {
    let Some(lock) = query.locks.first() else {
        return Ok(None);
    };
    let mode = match lock.lock_type {
        LockType::Share => RowLockMode::Share,
        LockType::Update => RowLockMode::Update,
    };
    let policy = match lock.nonblock {
        None => WaitPolicy::Block,
        Some(NonBlock::Nowait) => WaitPolicy::NoWait,
        Some(NonBlock::SkipLocked) => WaitPolicy::SkipLocked,
    };
    Ok(Some(Locking { mode, policy }))
}

type Output = (Vec<Typed>, Arc<[Column]>);

fn output(
    binder: &Binder<'_>,
    select: &SqlSelect,
    target: Option<&Target>,
    schema: &DFSchema,
) -> SqlResult<Option<Output>> {
    select_list(binder, &select.projection, target, schema)
}

/// Compiles a select list; `None` if an item needs a plan.
pub fn select_list(
    binder: &Binder<'_>,
    items: &[SelectItem],
    target: Option<&Target>,
    schema: &DFSchema,
) -> SqlResult<Option<Output>> {
    let mut output = Vec::new();
    let mut columns = Vec::new();
    for item in items {
        match item {
            SelectItem::UnnamedExpr(sql) | SelectItem::ExprWithAlias { expr: sql, .. } => {
                let expr = binder.expr(sql.clone(), schema)?;
                if value::needs_plan(&expr) {
                    return Ok(None);
                }
                let typed = value::compile(binder, &expr, schema)?;
                let ItemName::One(name) = names::of_item(item) else {
                    return Ok(None);
                };
                columns.push(label(name, &typed, target));
                output.push(typed);
            }
            SelectItem::Wildcard(options) if is_bare(options) => {
                let Some(target) = target else {
                    return Ok(None);
                };
                all_columns(target, &mut output, &mut columns);
            }
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) if is_bare(options) => {
                let (_, label) = super::binder::split_name(name)?;
                match target {
                    Some(target) if target.label == label => {
                        all_columns(target, &mut output, &mut columns);
                    }
                    _ => return Err(missing_from(&label)),
                }
            }
            _ => return Ok(None),
        }
    }
    Ok(Some((output, columns.into())))
}

fn missing_from(label: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_TABLE,
        format!("missing FROM-clause entry for table \"{label}\""),
    )
}

fn is_bare(options: &WildcardAdditionalOptions) -> bool {
    options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_ilike.is_none()
        && options.opt_rename.is_none()
        && options.opt_replace.is_none()
}

fn all_columns(target: &Target, output: &mut Vec<Typed>, columns: &mut Vec<Column>) {
    for (index, info) in target.table.columns.iter().enumerate() {
        let typed = Typed {
            value: Value::Column(index),
            ty: info.ty,
        };
        columns.push(label(info.name.to_string(), &typed, Some(target)));
        output.push(typed);
    }
}

/// A result column; one that is a table's column says so, as drivers expect.
fn label(name: String, typed: &Typed, target: Option<&Target>) -> Column {
    let mut column = column(name, typed.ty);
    if let (Value::Column(index), Some(target)) = (&typed.value, target) {
        column.table_oid = target.table.oid;
        column.attnum = target.table.columns[*index].attnum;
    }
    column
}

fn limits(binder: &Binder<'_>, query: &Query) -> SqlResult<(Option<Typed>, Option<Typed>)> {
    let Some(clause) = &query.limit_clause else {
        return Ok((None, None));
    };
    let LimitClause::LimitOffset {
        limit,
        offset,
        limit_by,
    } = clause
    else {
        return Err(SqlError::unsupported("LIMIT with a comma"));
    };
    if !limit_by.is_empty() {
        return Err(SqlError::unsupported("LIMIT BY"));
    }
    let limit = limit.as_ref().map(|sql| count(binder, sql)).transpose()?;
    let offset = offset
        .as_ref()
        .map(|offset| count(binder, &offset.value))
        .transpose()?;
    Ok((limit, offset))
}

fn count(binder: &Binder<'_>, sql: &ast::Expr) -> SqlResult<Typed> {
    let schema = DFSchema::empty();
    let expr = binder.expr(sql.clone(), &schema)?;
    if let Expr::Placeholder(param) = &expr
        && let Some(index) = super::binder::param_index(&param.id)
    {
        binder.infer_param(index, SqlType::Int8);
    }
    value::compile(binder, &expr, &schema)
}
