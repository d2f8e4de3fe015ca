//! ON CONFLICT: which index decides, and what happens to the row that is in the way.

use std::collections::HashSet;

use datafusion::common::{DFSchema, JoinType};
use datafusion::sql::sqlparser::ast::{
    ConflictTarget, DoUpdate, Expr, Ident, ObjectName, OnConflict as SqlConflict, OnConflictAction,
    OnInsert,
};
use evenkeel_engine::table::Arbiter;

use super::binder::Binder;
use super::dml::{assigned, assignment_list, column_named, key_hint};
use super::select::Target;
use super::utility::ident_text;
use super::value;
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::oltp::conflict::{ConflictUpdate, OnConflict};
use crate::row::RowLayout;

/// The name of the row that was to be inserted.
const EXCLUDED: &str = "excluded";

/// Compiles ON CONFLICT.
pub fn on_conflict(
    binder: &Binder<'_>,
    on: Option<&OnInsert>,
    target: &Target,
) -> SqlResult<Option<OnConflict>> {
    let on = match on {
        None => return Ok(None),
        Some(OnInsert::OnConflict(on)) => on,
        Some(_) => return Err(SqlError::unsupported("ON DUPLICATE KEY UPDATE")),
    };
    let arbiter = arbiter(on, &target.table)?;
    let update = match &on.action {
        OnConflictAction::DoNothing => None,
        OnConflictAction::DoUpdate(_) if arbiter == Arbiter::Any => {
            return Err(SqlError::syntax(
                "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            )
            .hint("For example, ON CONFLICT (column_name)."));
        }
        OnConflictAction::DoUpdate(update) => Some(compile_update(binder, update, target)?),
    };
    Ok(Some(OnConflict { arbiter, update }))
}

fn arbiter(on: &SqlConflict, table: &TableInfo) -> SqlResult<Arbiter> {
    match &on.conflict_target {
        None => Ok(Arbiter::Any),
        Some(ConflictTarget::Columns(names)) => by_columns(names, table),
        Some(ConflictTarget::OnConstraint(name)) => by_constraint(name, table),
    }
}

/// The unique index over exactly these columns, in any order.
fn by_columns(names: &[Ident], table: &TableInfo) -> SqlResult<Arbiter> {
    let columns = names
        .iter()
        .map(|name| column_named(table, &ident_text(name)))
        .collect::<SqlResult<HashSet<usize>>>()?;
    let fits = table.indexes.iter().find(|index| {
        let key: HashSet<usize> = index.columns.iter().map(|part| part.column).collect();
        index.unique && key == columns
    });
    match fits {
        Some(index) => Ok(Arbiter::Index(index.position)),
        None => Err(SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        )),
    }
}

fn by_constraint(name: &ObjectName, table: &TableInfo) -> SqlResult<Arbiter> {
    let ident = name.0.last().and_then(|part| part.as_ident());
    let name = ident.map(ident_text).unwrap_or_default();
    let mut constraints = table.constraints.iter();
    let oid = constraints
        .find(|constraint| *constraint.name == *name)
        .map(|constraint| constraint.index_oid);
    let index = table.indexes.iter().find(|index| Some(index.oid) == oid);
    match index {
        Some(index) => Ok(Arbiter::Index(index.position)),
        None => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!(
                "constraint \"{name}\" for table \"{}\" does not exist",
                table.name
            ),
        )),
    }
}

/// DO UPDATE, over the row that is there followed by the one that was to be inserted.
fn compile_update(
    binder: &Binder<'_>,
    update: &DoUpdate,
    target: &Target,
) -> SqlResult<ConflictUpdate> {
    let table = &target.table;
    let excluded = Target::new(table.clone(), EXCLUDED.to_owned())?;
    let both = datafusion::logical_expr::build_join_schema(
        &target.schema,
        &excluded.schema,
        &JoinType::Inner,
    )?;
    let mut assignments = Vec::new();
    for (column, sql) in assignment_list(&update.assignments, table)? {
        let value = assigned(binder, table, column, sql, &both)?;
        assignments.push((column, value.ok_or_else(needs_plan)?));
    }
    let condition = match &update.selection {
        Some(sql) => Some(condition(binder, sql, &both)?),
        None => None,
    };
    let types: Vec<_> = table.columns.iter().map(|column| column.ty).collect();
    let hint = key_hint(table, assignments.iter().map(|(column, _)| *column));
    Ok(ConflictUpdate {
        assignments,
        condition,
        hint,
        both: RowLayout::new(&[types.as_slice(), types.as_slice()].concat()),
    })
}

fn condition(
    binder: &Binder<'_>,
    sql: &Expr,
    schema: &DFSchema,
) -> SqlResult<crate::exec::oltp::expr::RowExpr> {
    let expr = binder.expr(sql.clone(), schema)?;
    if value::needs_plan(&expr) {
        return Err(needs_plan());
    }
    value::row_expr(binder, &expr, schema, true)
}

fn needs_plan() -> SqlError {
    SqlError::unsupported("a subquery in ON CONFLICT DO UPDATE")
}
