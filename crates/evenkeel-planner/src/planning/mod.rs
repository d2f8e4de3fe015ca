//! From bound queries to plans. Entry point: [`plan`].

mod bitmaps;
mod build;
mod build_upper;
mod change;
mod cost;
pub(crate) mod deparse;
mod domains;
mod extremes;
mod fold;
mod frugal;
mod hashing;
mod joins;
mod layout;
mod lower;
mod marks;
mod merge;
mod methods;
mod notes;
mod number;
mod ops;
mod path;
pub(crate) mod predicate;
mod problem;
mod push;
mod rels;
mod scans;
mod select;
mod set_operations;
mod settings;
mod statement;
mod tree;
mod upper;
mod visit;
mod volatility;
mod walk;

use std::sync::Arc;

use evenkeel_expr::call::Session;
use evenkeel_expr::program::Program;
use evenkeel_types::{Datum, SqlState};

use crate::bound::{
    Bound, BoundStatement, Change, Expr, ExprKind, Query, RangeEntry, RangeKind, Target, WHOLE_ROW,
};
use crate::error::{PlanError, PlanResult};
use crate::flat::flat;
use crate::plan::{OutputColumn, Plan};
use crate::relation::Oid;

use layout::Env;
pub use settings::PlannerSettings;
use statement::Statement;
pub(crate) use statement::program_over;

/// How a plan is made.
#[derive(Clone, Copy)]
pub struct Planning<'a> {
    /// Costs and switches.
    pub settings: &'a PlannerSettings,
    /// Session under which constants are computed.
    pub session: &'a dyn Session,
    /// The values of the parameters, for a plan that is made for these; it is right for all others.
    pub values: Option<&'a [Datum]>,
    /// Whether EXPLAIN will show it.
    pub notes: bool,
}

/// The plan of a statement.
///
/// # Errors
/// 0A000 for what is not built, 54001 for a statement that is too large.
pub fn plan(bound: &Bound, how: Planning<'_>) -> PlanResult<Plan> {
    let mut statement = Statement::new(how.settings, how.session, how.values);
    statement.notes = how.notes;
    let missing = || PlanError::new(SqlState::INTERNAL_ERROR, "a query has no path");
    let (columns, best) = match &bound.statement {
        BoundStatement::Query(query) => {
            let columns = output_columns(&query.range_table, &query.targets);
            let mut query = Query::clone(query);
            fold::fold(&mut query, how.session, how.settings);
            let paths = statement.query_paths(query)?;
            let paths: Vec<_> = paths.into_iter().map(|planned| planned.path).collect();
            let best = joins::cheapest(&paths).cloned();
            (columns, best.ok_or_else(missing)?)
        }
        BoundStatement::Change(change) => {
            let returning = change.returning.iter();
            let returning: Vec<_> = returning.flat_map(|r| r.targets.clone()).collect();
            let columns = output_columns(&change.query.range_table, &returning);
            let (mut query, shape) = flat(Change::clone(change));
            fold::fold(&mut query, how.session, how.settings);
            (columns, statement.change_path(query, &shape)?)
        }
    };
    let root = statement.build_root(&best, &mut Env::default())?;
    statement.build_changes()?;
    let subplans: Option<Vec<_>> = statement.subplans.into_iter().collect();
    Ok(Plan {
        root,
        subplans: subplans.ok_or_else(missing)?,
        exec_params: statement.exec_params,
        columns,
        params: bound.params.clone(),
        relations: statement.locked,
        changed: statement.changed,
        locked: statement.row_locked,
    })
}

/// Whether a query's select list has a value that may be another each time.
pub fn has_volatile(bound: &Bound) -> bool {
    match &bound.statement {
        BoundStatement::Query(query) => {
            let mut targets = query.targets.iter();
            targets.any(|target| volatility::is_volatile(&target.expr))
        }
        BoundStatement::Change(_) => true,
    }
}

/// The programs of a query's select list over the columns of the row of its only relation.
///
/// # Errors
/// As [`plan`].
pub fn row_programs(bound: &Bound, how: Planning<'_>) -> PlanResult<Vec<Program>> {
    let internal = |message| PlanError::new(SqlState::INTERNAL_ERROR, message);
    let BoundStatement::Query(query) = &bound.statement else {
        return Err(internal("a change where values were expected"));
    };
    let mut query = Query::clone(query);
    fold::fold(&mut query, how.session, how.settings);
    let mut statement = Statement::new(how.settings, how.session, how.values);
    let first = statement.enter(&mut query)?;
    let width = statement.rels.get(first).map_or(0, |rel| rel.types.len());
    let row = layout::Layout::of_columns(first, 0..width);
    let exprs = query.targets.iter().map(|target| &target.expr);
    statement.programs(exprs, &row, &mut Env::default())
}

fn output_columns(range_table: &[RangeEntry], targets: &[Target]) -> Vec<OutputColumn> {
    let kept = targets.iter().filter(|target| !target.junk);
    kept.map(|target| OutputColumn {
        name: Arc::clone(&target.name),
        ty: target.expr.ty.storage(),
        declared: target.expr.ty,
        origin: origin(range_table, &target.expr),
    })
    .collect()
}

/// The table column that a column of the result is.
fn origin(range_table: &[RangeEntry], expr: &Expr) -> Option<(Oid, i16)> {
    let ExprKind::Var(var) = expr.kind else {
        return None;
    };
    if var.depth != 0 || var.column == WHOLE_ROW {
        return None;
    }
    match &range_table.get(var.rel)?.kind {
        RangeKind::Relation(relation) | RangeKind::Version(relation) => {
            Some((relation.oid, i16::try_from(var.column + 1).ok()?))
        }
        RangeKind::Join { columns } => origin(range_table, columns.get(var.column)?),
        _ => None,
    }
}
