//! Plans: where their rows come from, what their functions may know of the session, and their rows
//! on their way to the client. Entry points: [`start`], [`change::run`].

mod advisory;
pub mod change;
mod channels;
mod relations;
mod rows;
mod sequences;
mod session;
mod transaction_ids;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_engine::{CancelFlag, Snapshot};
use evenkeel_exec::{Environment, Execution, Limits};
use evenkeel_expr::eval::{Env, NoSubplans};
use evenkeel_expr::program::Program;
use evenkeel_planner::plan::{Check, Plan};

use crate::error::{SqlError, SqlResult};
use crate::exec::StatementCx;
use crate::types::{Datum, SqlType};

pub use change::Changed;
pub use relations::CatalogRelations;
pub use rows::PlanRows;
pub use sequences::not_a_sequence;
pub use session::RowSession;

/// How long a plan works before other sessions of its thread have their turn: beside a dozen plans
/// a short statement, which takes some turns, is still answered within a fraction of a second.
const SLICE: Duration = Duration::from_micros(400);

/// Rules of rows to be stored, over their columns.
#[derive(Debug, Default)]
pub struct RowRules {
    /// Values of generated columns, by position, over the other columns.
    pub generated: Vec<(usize, Program)>,
    /// CHECK constraints.
    pub checks: Vec<Check>,
}

/// Begins to run a plan at a snapshot; nothing is read yet.
///
/// # Errors
/// XX000 for a plan that is not as the planner makes it.
pub fn start(
    plan: &Arc<Plan>,
    params: Vec<Datum>,
    cx: &Arc<StatementCx>,
    snapshot: Snapshot,
    cancel: CancelFlag,
) -> SqlResult<PlanRows> {
    let (session, env) = environment(cx, snapshot, cancel);
    let run = Execution::start(Arc::clone(plan), params, env)?;
    let tables = plan.relations.iter().map(|relation| relation.oid);
    let using = cx.seed.resources.in_use.begin(tables);
    Ok(PlanRows::new(run, types_of(plan), session).using(using))
}

/// As [`start`], for a plan without parameters whose operators are measured.
///
/// # Errors
/// As [`start`].
pub fn start_measured(
    plan: &Arc<Plan>,
    cx: &Arc<StatementCx>,
    snapshot: Snapshot,
    cancel: CancelFlag,
) -> SqlResult<PlanRows> {
    let (session, env) = environment(cx, snapshot, cancel);
    let run = Execution::start_measured(Arc::clone(plan), Vec::new(), env)?;
    Ok(PlanRows::new(run, types_of(plan), session))
}

/// The values of programs that look at no row.
///
/// # Errors
/// The statement's.
pub fn values(programs: &[Program], cx: &Arc<StatementCx>) -> SqlResult<Vec<Datum>> {
    let session = RowSession::new(Arc::clone(cx));
    let env = Env::new(&[], &session, &NoSubplans);
    let values = programs.iter().map(|program| env.eval(program, &[]));
    values.map(|value| Ok(value?)).collect()
}

/// The value that a program makes of a row.
///
/// # Errors
/// The program's.
pub fn over_row(program: &Program, row: &[Datum], cx: &Arc<StatementCx>) -> SqlResult<Datum> {
    let session = RowSession::new(Arc::clone(cx));
    Ok(Env::new(&[], &session, &NoSubplans).eval(program, row)?)
}

/// Values of columns, by position, that programs make of a row's other columns.
///
/// # Errors
/// Those of the programs.
pub fn over(
    programs: &[(usize, Program)],
    row: &[Datum],
    cx: &Arc<StatementCx>,
) -> SqlResult<Vec<(usize, Datum)>> {
    if programs.is_empty() {
        return Ok(Vec::new());
    }
    let session = RowSession::new(Arc::clone(cx));
    let env = Env::new(&[], &session, &NoSubplans);
    let values = programs.iter();
    let values = values.map(|(at, program)| Ok((*at, env.eval(program, row)?)));
    values.collect()
}

/// The first of the CHECK constraints that a row violates.
///
/// # Errors
/// Those of the conditions.
pub fn violated<'c>(
    checks: &'c [Check],
    row: &[Datum],
    cx: &Arc<StatementCx>,
) -> SqlResult<Option<&'c Check>> {
    if checks.is_empty() {
        return Ok(None);
    }
    let session = RowSession::new(Arc::clone(cx));
    let env = Env::new(&[], &session, &NoSubplans);
    for check in checks {
        // NULL is no violation.
        if matches!(env.eval(&check.condition, row)?, Datum::Bool(false)) {
            return Ok(Some(check));
        }
    }
    Ok(None)
}

/// Runs a part of a statement. A panic ends the statement, not its connection.
///
/// # Errors
/// Those of `work`; XX000 when it panics.
pub fn ends_its_statement<T>(work: impl FnOnce() -> SqlResult<T>) -> SqlResult<T> {
    // The statement's error discards any state that `work` left half changed.
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(SqlError::internal("the statement failed unexpectedly")))
}

fn types_of(plan: &Plan) -> Arc<[SqlType]> {
    plan.columns.iter().map(|column| column.ty).collect()
}

fn environment(
    cx: &Arc<StatementCx>,
    snapshot: Snapshot,
    cancel: CancelFlag,
) -> (Arc<RowSession>, Environment) {
    let resources = &cx.seed.resources;
    let session = Arc::new(RowSession::new(Arc::clone(cx)));
    let limits = Limits {
        work_mem: resources.work_mem(),
        synchronize_seqscans: resources.are_seqscans_synchronized(),
        slice: SLICE,
        ..Limits::default()
    };
    let env = Environment {
        snapshot,
        relations: Arc::new(CatalogRelations::new(Arc::clone(cx))),
        session: Arc::clone(&session) as Arc<dyn evenkeel_expr::call::Session>,
        memory: Arc::clone(&resources.memory),
        cancel,
        temp: Arc::clone(&resources.temp),
        events: Arc::clone(&resources.events),
        cross_check: None,
        limits,
    };
    (session, env)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SqlState;

    #[test]
    fn a_panic_ends_its_statement() {
        let ended = ends_its_statement(|| -> SqlResult<()> { panic!("on purpose") });
        assert_eq!(ended.unwrap_err().sqlstate, SqlState::INTERNAL_ERROR);
        assert_eq!(ends_its_statement(|| Ok(1)), Ok(1));
    }
}
