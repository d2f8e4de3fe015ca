//! Queries and changes by the planner of `evenkeel-planner`, which says what they mean; the row
//! executor runs them. Entry point: [`plan`].

pub mod checks;
pub mod domains;
pub mod indexes;
pub mod mentions;
mod names;
mod relations;
pub mod views;

use std::sync::Arc;

use evenkeel_expr::program::Program;
use evenkeel_planner::ast::{Expr, Statement};
use evenkeel_planner::bind::{self, AssignedTo, RowValue};
use evenkeel_planner::bound::Bound;
use evenkeel_planner::plan::{OutputColumn, Plan};
use evenkeel_planner::planning::{self, Planning};
use evenkeel_planner::{PlanResult, parser};

use crate::catalog::TableInfo;
use crate::deep::on_deep_stack;
use crate::error::{SqlError, SqlResult, SqlState, planner_error};
use crate::exec::StatementCx;
use crate::exec::row::RowSession;
use crate::protocol::Column;
use crate::types::SqlType;

pub use names::Names;

/// A planned query or change.
#[derive(Debug)]
pub struct RowQuery {
    /// Its plan.
    pub plan: Arc<Plan>,
    /// The result columns for the client.
    pub columns: Arc<[Column]>,
    /// The tables that it reads.
    pub tables: Vec<Arc<TableInfo>>,
    /// The command, as its tag begins with it.
    pub verb: &'static str,
    /// Whether it may be kept: no constant in it depends on when it was planned.
    pub keep: bool,
}

/// Binds and plans a statement. `notes` is for EXPLAIN; on a thread that is `shared` with other
/// sessions they run on if it takes long.
///
/// # Errors
/// PostgreSQL's of names and types, with positions; 0A000 for what is not built.
pub fn plan(
    text: &str,
    statement: &Statement,
    cx: &Arc<StatementCx>,
    given: &[Option<SqlType>],
    notes: bool,
    shared: bool,
) -> SqlResult<RowQuery> {
    let names = Names::new(Arc::clone(cx));
    let session = RowSession::new(Arc::clone(cx));
    session.begin_turn(shared);
    let bound = bind::bind(statement, &names, &session, given);
    let planned = bound.and_then(|bound| match names.are_deep() {
        false => planned(&bound, &session, cx, notes),
        true => on_deep_stack(move || planned(&bound, &session, cx, notes)),
    });
    let plan = planned.map_err(|error| planner_error(error, text))?;
    let columns = plan.columns.iter().map(|column| client_column(column, cx));
    let columns = columns.collect();
    let tables = plan.relations.iter();
    let tables = tables.filter_map(|relation| cx.view.table(relation.oid).cloned());
    Ok(RowQuery {
        columns,
        tables: tables.collect(),
        plan: Arc::new(plan),
        verb: verb(statement),
        keep: !mentions_the_present(text),
    })
}

/// The programs of values that stand outside of any query, one of each type; `text` is the one that
/// the expressions were read from.
///
/// # Errors
/// As [`plan`]; 42804 for a value of another type.
pub fn assigned(
    text: &str,
    values: &[Expr],
    types: &[SqlType],
    to: AssignedTo<'_>,
    cx: &Arc<StatementCx>,
) -> SqlResult<Vec<Program>> {
    let names = Names::new(Arc::clone(cx));
    let session = RowSession::new(Arc::clone(cx));
    let planned = bind::bind_assigned(values, types, to, &names, &session)
        .and_then(|bound| planned(&bound, &session, cx, false));
    let plan = planned.map_err(|error| planner_error(error, text))?;
    match plan.take_root().project {
        Some(programs) if programs.len() == types.len() => Ok(programs),
        _ => Err(SqlError::internal("values without programs")),
    }
}

/// The program of a column's default, as it is stored.
///
/// # Errors
/// As [`assigned`]; positions count from the beginning of the default.
pub fn default_of(
    text: &str,
    column: &str,
    ty: SqlType,
    cx: &Arc<StatementCx>,
) -> SqlResult<Program> {
    let value = parser::parse_expr(text).map_err(|error| planner_error(error, text))?;
    default_program(text, &value, column, ty, cx)
}

/// The program of a column's default, as it is stored, and whether its value differs from one row
/// to the next.
///
/// # Errors
/// As [`assigned`].
pub fn default_value(
    text: &str,
    column: &str,
    ty: SqlType,
    cx: &Arc<StatementCx>,
) -> SqlResult<(Program, bool)> {
    let program = default_of(text, column, ty, cx)?;
    let value = parser::parse_expr(text).map_err(|error| planner_error(error, text))?;
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let to = AssignedTo::Column(column);
    let bound = bind::bind_assigned(&[value], &[ty], to, &names, &session);
    let bound = bound.map_err(|error| planner_error(error, text))?;
    Ok((program, planning::has_volatile(&bound)))
}

/// The program of the new values of a column whose type becomes `ty`, over its table's row.
///
/// # Errors
/// PostgreSQL's of names and types, with positions in the command's text.
pub fn transform(
    text: &str,
    using: Option<&Expr>,
    (table, at): (&TableInfo, usize),
    ty: SqlType,
    cx: &Arc<StatementCx>,
) -> SqlResult<Program> {
    let column = &table.columns[at].name;
    let (own, using) = match using {
        Some(using) => (None, Some(using)),
        None => {
            let name = evenkeel_planner::quote::identifier(column);
            let own = parser::parse_expr(&name).map_err(|error| planner_error(error, &name))?;
            (Some(own), None)
        }
    };
    let value = RowValue::Transform {
        column,
        using: using.is_some(),
    };
    let written = using.or(own.as_ref());
    let written = written.ok_or_else(|| SqlError::internal("a column without a value"))?;
    let relation = Arc::new(checks::row_of(table));
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let bound = bind::bind_row_value(written, ty, value, &relation, (&names, &session));
    let made = bound.and_then(|bound| row_programs(&bound.bound, &session, cx));
    let made = made.map_err(|error| planner_error(error, text))?;
    let missing = || SqlError::internal("a value without a program");
    made.into_iter().next().ok_or_else(missing)
}

/// The program of WHERE of a COPY FROM, over its table's row.
///
/// # Errors
/// PostgreSQL's of names and types, with positions in the command's text; 42P10 for one over
/// generated columns, which are computed later.
pub fn copy_filter(
    text: &str,
    written: &Expr,
    table: &TableInfo,
    cx: &Arc<StatementCx>,
) -> SqlResult<Program> {
    let relation = Arc::new(checks::row_of(table));
    let (names, session) = (Names::new(Arc::clone(cx)), RowSession::new(Arc::clone(cx)));
    let (value, ty) = (RowValue::CopyWhere, SqlType::Bool);
    let bound = bind::bind_row_value(written, ty, value, &relation, (&names, &session));
    let bound = bound.map_err(|error| planner_error(error, text))?;
    let mut mentioned = bound.columns.iter().filter_map(|at| table.columns.get(*at));
    if let Some(column) = mentioned.find(|column| column.generated.is_some()) {
        let message = "generated columns are not supported in COPY FROM WHERE conditions";
        let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
        let detail = format!("Column \"{}\" is a generated column.", column.name);
        return Err(error.detail(detail));
    }
    let made = row_programs(&bound.bound, &session, cx);
    let made = made.map_err(|error| planner_error(error, text))?;
    let missing = || SqlError::internal("a condition without a program");
    made.into_iter().next().ok_or_else(missing)
}

fn row_programs(bound: &Bound, session: &RowSession, cx: &StatementCx) -> PlanResult<Vec<Program>> {
    let how = Planning {
        settings: &cx.seed.planner,
        session,
        values: None,
        notes: false,
    };
    planning::row_programs(bound, how)
}

/// The program of a column's default in a command of this text.
///
/// # Errors
/// As [`assigned`].
pub fn default_program(
    text: &str,
    value: &Expr,
    column: &str,
    ty: SqlType,
    cx: &Arc<StatementCx>,
) -> SqlResult<Program> {
    let values = std::slice::from_ref(value);
    let made = assigned(text, values, &[ty], AssignedTo::Column(column), cx)?;
    let missing = || SqlError::internal("a default without a program");
    made.into_iter().next().ok_or_else(missing)
}

fn planned(bound: &Bound, session: &RowSession, cx: &StatementCx, notes: bool) -> PlanResult<Plan> {
    let how = Planning {
        settings: &cx.seed.planner,
        session,
        values: None,
        notes,
    };
    planning::plan(bound, how)
}

fn client_column(column: &OutputColumn, cx: &StatementCx) -> Column {
    let origin = column.origin.and_then(|(oid, number)| {
        let table = cx.view.table(oid)?;
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        Some((oid, table.columns.get(at)?.attnum))
    });
    let (table_oid, attnum) = origin.unwrap_or_default();
    Column {
        table_oid,
        attnum,
        ..Column::of(column.name.to_string(), column.ty)
    }
}

fn verb(statement: &Statement) -> &'static str {
    match statement {
        Statement::Insert(_) => "INSERT",
        Statement::Update(_) => "UPDATE",
        Statement::Delete(_) => "DELETE",
        Statement::Merge(_) => "MERGE",
        Statement::Query(_) | Statement::Command(_) => "SELECT",
    }
}

/// Whether a string of the text may read as the time at which it is read. Words that are called are
/// functions.
fn mentions_the_present(text: &str) -> bool {
    const WORDS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
    if !text.contains('\'') {
        return false;
    }
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|word| {
        text.match_indices(word).any(|(at, _)| {
            let behind = text[at + word.len()..].trim_start();
            !behind.starts_with('(')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_mean_the_present_are_noticed() {
        assert!(mentions_the_present("SELECT timestamp 'Now'"));
        assert!(mentions_the_present("SELECT ' tomorrow '::date, now()"));
        assert!(!mentions_the_present("SELECT now() - interval '1 day'"));
        assert!(!mentions_the_present("SELECT now FROM t"));
    }
}
