//! The rows of a table that ALTER TABLE changes: checked, or written anew.

use std::sync::Arc;

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::memory::Reservation;
use evenkeel_engine::table::{InsertOptions, Table};
use evenkeel_engine::{CancelFlag, EngineError, Tid, Transaction, block_on};
use evenkeel_exec::{NewRow, RowReader, settle};
use evenkeel_expr::eval::{Env, NoSubplans};
use evenkeel_expr::program::Program;
use evenkeel_planner::bound::RowRule;
use evenkeel_planner::plan::Check;

use super::Session;
use crate::catalog::{Oid, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::StatementCx;
use crate::exec::row::{RowRules, RowSession};
use crate::planner::rows;
use crate::types::Datum;

/// Bytes of rows that are written together.
const BATCH_BYTES: usize = 1 << 20;

/// Source of a column's new values.
pub(super) enum NewValue {
    /// A program over the row as it was.
    OfOld(Program),
    /// A default, computed for each row.
    Default(Program),
}

/// Work on a table's rows, gathered while its definition changes.
#[derive(Default)]
pub(super) struct RowWork {
    /// New values of columns, by number.
    pub values: Vec<(i16, NewValue)>,
    /// Whether the rows must be written in another form.
    pub rewrite: bool,
    /// CHECK constraints that they have to keep to.
    pub checks: Vec<Oid>,
    /// Numbers of columns that must not be NULL.
    pub not_nulls: Vec<i16>,
    /// Numbers of generated columns whose values are to be computed.
    pub generated: Vec<i16>,
}

/// A table's rows as they were, and what they have to be.
struct Rows {
    before: Arc<TableInfo>,
    after: Arc<TableInfo>,
    /// For each column after the change its position before it, unless it gets new values.
    kept: Vec<Option<usize>>,
    /// New values, by position.
    values: Vec<(usize, NewValue)>,
    /// Generated columns to be computed.
    generated: Vec<(usize, Program)>,
    checks: Vec<Check>,
    not_nulls: Vec<usize>,
    cx: Arc<StatementCx>,
    cancel: CancelFlag,
}

impl Session {
    /// Checks the rows, or writes them anew: once, after all changes of the definition but those
    /// that make indexes.
    pub(super) async fn work_on_rows(
        &mut self,
        before: Arc<TableInfo>,
        work: RowWork,
    ) -> SqlResult<()> {
        if !work.rewrite && work.checks.is_empty() && work.not_nulls.is_empty() {
            return Ok(());
        }
        let cx = Arc::new(self.statement_cx(self.view()));
        let missing = || SqlError::internal("a table that is being altered is not there any more");
        let after = cx.view.table(before.oid).cloned().ok_or_else(missing)?;
        let RowRules {
            mut generated,
            mut checks,
        } = rows::checks::programs(&after, &cx)?;
        generated.retain(|(at, _)| work.generated.contains(&after.columns[*at].attnum));
        let wanted = |check: &Check| match &check.rule {
            RowRule::Check(name) => {
                let mut known = after.checks.iter().filter(|known| known.name == *name);
                known.any(|known| work.checks.contains(&known.oid))
            }
            RowRule::NotNull(at) => work.not_nulls.contains(&after.columns[*at].attnum),
        };
        checks.retain(wanted);
        let position = |table: &TableInfo, attnum: i16| {
            let mut columns = table.columns.iter();
            columns.position(|column| column.attnum == attnum)
        };
        let kept = after.columns.iter();
        let kept = kept.map(|column| position(&before, column.attnum));
        let values = work.values.into_iter();
        let values = values.filter_map(|(attnum, value)| Some((position(&after, attnum)?, value)));
        let not_nulls = work.not_nulls.iter();
        let not_nulls = not_nulls.filter_map(|attnum| position(&after, *attnum));
        let not_nulls = not_nulls.filter(|at| !after.columns[*at].is_virtual());
        let rows = Rows {
            kept: kept.collect(),
            values: values.collect(),
            generated,
            checks,
            not_nulls: not_nulls.collect(),
            cancel: self.cancel.clone(),
            before,
            after,
            cx,
        };
        let rewrite = work.rewrite;
        self.off_runtime(move |catalog, txn, ddl| {
            if !rewrite {
                return rows.each(txn, |_, _| Ok(()));
            }
            let (new, heap) = catalog.new_heap(txn, &rows.after)?;
            rows.copy(txn, &heap)?;
            txn.next_command()?;
            block_on(catalog.swap_heap(txn, ddl, rows.after.oid, new))?;
            Ok(())
        })
        .await
    }
}

/// A column whose values a domain is asked about.
pub(super) struct DomainColumn {
    pub table: Arc<TableInfo>,
    pub at: usize,
    /// The question, over a row.
    pub program: Program,
    pub cx: Arc<StatementCx>,
}

impl DomainColumn {
    fn check(&self, txn: &mut Transaction, cancel: &CancelFlag) -> SqlResult<()> {
        let session = RowSession::new(Arc::clone(&self.cx));
        let env = Env::new(&[], &session, &NoSubplans);
        let table = &self.table;
        let kept = (0..table.columns.len()).map(Some).collect();
        let rows = Rows {
            before: Arc::clone(table),
            after: Arc::clone(table),
            kept,
            values: Vec::new(),
            generated: Vec::new(),
            checks: Vec::new(),
            not_nulls: Vec::new(),
            cx: Arc::clone(&self.cx),
            cancel: cancel.clone(),
        };
        rows.each(txn, |_, row| match env.eval(&self.program, row) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.refused(error.into())),
        })
    }

    /// The error of a value that the domain does not allow, as ALTER DOMAIN has it.
    fn refused(&self, error: SqlError) -> SqlError {
        let (table, column) = (&self.table, &self.table.columns[self.at].name);
        let what = match error.sqlstate {
            SqlState::NOT_NULL_VIOLATION => "null values",
            SqlState::CHECK_VIOLATION => "values that violate the new constraint",
            _ => return error,
        };
        let message = format!(
            "column \"{column}\" of table \"{}\" contains {what}",
            table.name
        );
        let error = SqlError::new(error.sqlstate, message);
        error.table(&*table.schema, &*table.name).column(&**column)
    }
}

impl Session {
    /// Asks a domain about a column's values in all rows that there are now.
    ///
    /// # Errors
    /// 23502, 23514.
    pub(super) async fn check_domain_column(&mut self, column: DomainColumn) -> SqlResult<()> {
        let cancel = self.cancel.clone();
        self.off_runtime(move |_, txn, _| column.check(txn, &cancel))
            .await
    }
}

impl Rows {
    /// Writes all rows into a new heap.
    fn copy(&self, txn: &mut Transaction, heap: &Table) -> SqlResult<()> {
        let options = InsertOptions {
            ring: Some(heap.load_ring()),
            ..InsertOptions::default()
        };
        let (mut batch, mut bytes) = (RowBatch::new(), Vec::new());
        let keys = self.after.indexes.iter();
        let indexed: Vec<usize> = keys.flat_map(|index| index.key.looks_at()).collect();
        let memory = &self.cx.seed.resources.memory;
        self.each(txn, |txn, row| {
            if let Some(long) = self
                .after
                .layout
                .encode_row(row, None, &indexed, &mut bytes)?
            {
                let charge = Reservation::of(memory, long.bytes()).map_err(EngineError::from)?;
                let row = NewRow::Long(Box::new(long), charge);
                (bytes, _) = block_on(settle(heap, txn, row))?;
            }
            batch.push(Tid::new(evenkeel_engine::BlockNumber(0), 0), &bytes);
            if batch.bytes() >= BATCH_BYTES {
                block_on(heap.insert_many(txn, &batch, &options))?;
                batch.clear();
            }
            Ok(())
        })?;
        block_on(heap.insert_many(txn, &batch, &options))?;
        Ok(())
    }

    /// Makes every row anew and checks it. The rows are those that are committed by now, whatever
    /// the transaction's snapshot: the table's lock keeps others out.
    fn each(
        &self,
        txn: &mut Transaction,
        mut then: impl FnMut(&mut Transaction, &[Datum]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let session = RowSession::new(Arc::clone(&self.cx));
        let env = Env::new(&[], &session, &NoSubplans);
        let snapshot = txn.latest_snapshot()?;
        let reader = RowReader {
            table: &self.before.table,
            layout: &self.before.layout,
            snapshot: &snapshot,
            cancel: &self.cancel,
        };
        let mut scan = self.before.table.scan(&snapshot);
        let mut batch = RowBatch::new();
        while scan.next_page(&mut batch)? {
            self.cancel.check()?;
            for (_, bytes) in batch.iter() {
                let row = self.made(&reader.decode(bytes)?, &env)?;
                self.check(&row, &env)?;
                then(txn, &row)?;
            }
        }
        Ok(())
    }

    fn made(&self, old: &[Datum], env: &Env<'_>) -> SqlResult<Vec<Datum>> {
        let columns = self.kept.iter().zip(&self.after.columns);
        let mut row = Vec::with_capacity(self.kept.len());
        for (kept, column) in columns {
            row.push(match (kept.and_then(|at| old.get(at)), &column.missing) {
                (Some(value), _) => value.clone(),
                (None, Some(missing)) => evenkeel_types::row::decode(column.ty, missing)?,
                (None, None) => Datum::Null,
            });
        }
        for (at, value) in &self.values {
            row[*at] = match value {
                NewValue::OfOld(program) => env.eval(program, old)?,
                NewValue::Default(program) => env.eval(program, &[])?,
            };
        }
        for (at, program) in &self.generated {
            row[*at] = env.eval(program, &row)?;
        }
        Ok(row)
    }

    fn check(&self, row: &[Datum], env: &Env<'_>) -> SqlResult<()> {
        let (schema, table) = (&*self.after.schema, &self.after.name);
        let null = |at: usize| {
            let name = &self.after.columns[at].name;
            let message = format!("column \"{name}\" of relation \"{table}\" contains null values");
            let error = SqlError::new(SqlState::NOT_NULL_VIOLATION, message);
            error.table(schema, &**table).column(&**name)
        };
        if let Some(at) = self.not_nulls.iter().find(|at| row[**at].is_null()) {
            return Err(null(*at));
        }
        for check in &self.checks {
            // NULL is no violation.
            if matches!(env.eval(&check.condition, row)?, Datum::Bool(false)) {
                let name = match &check.rule {
                    RowRule::Check(name) => name,
                    RowRule::NotNull(at) => return Err(null(*at)),
                };
                let message = format!(
                    "check constraint \"{name}\" of relation \"{table}\" is violated by some row"
                );
                let error = SqlError::new(SqlState::CHECK_VIOLATION, message);
                return Err(error.table(schema, &**table).constraint(&**name));
            }
        }
        Ok(())
    }
}
