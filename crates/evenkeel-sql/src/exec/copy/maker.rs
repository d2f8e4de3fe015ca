//! The making of a table's rows out of the values of a line.

use std::sync::Arc;

use evenkeel_expr::program::Program;
use evenkeel_planner::bound::RowRule;
use evenkeel_planner::plan::Check;
use evenkeel_types::row::LargeRow;
use smallvec::SmallVec;

use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult};
use crate::exec::StatementCx;
use crate::exec::row::{self, RowRules};
use crate::types::{Datum, SqlType, TypeContext};

/// A [`RowMaker`]'s memory, for the next one.
#[derive(Default)]
pub struct RowMemory {
    data: Vec<Datum>,
    bytes: Vec<u8>,
}

/// Makes rows of a table out of values of its columns' types: NOT NULL, encoding.
pub struct RowMaker<'a> {
    table: &'a TableInfo,
    types: &'a TypeContext,
    data: Vec<Datum>,
    /// The row made last.
    pub bytes: Vec<u8>,
}

impl<'a> RowMaker<'a> {
    /// For a row of `table`, in the memory of an earlier one.
    pub fn reusing(
        table: &'a TableInfo,
        types: &'a TypeContext,
        RowMemory { mut data, bytes }: RowMemory,
    ) -> RowMaker<'a> {
        data.clear();
        RowMaker {
            table,
            types,
            data,
            bytes,
        }
    }

    /// Its memory.
    pub fn into_memory(self) -> RowMemory {
        RowMemory {
            data: self.data,
            bytes: self.bytes,
        }
    }

    /// The next column's value.
    pub fn push(&mut self, datum: Datum) {
        self.data.push(datum);
    }

    /// Ends the row, which gets the values of its generated columns: its bytes are in `bytes`,
    /// unless it is a long one, which is the answer.
    ///
    /// # Errors
    /// 23502; 54000 for a row that is too long; the errors of the expressions.
    pub fn finish(
        &mut self,
        rules: &RowRules,
        cx: &Arc<StatementCx>,
    ) -> SqlResult<Option<LargeRow>> {
        for (at, value) in row::over(&rules.generated, &self.data, cx)? {
            if let Some(slot) = self.data.get_mut(at) {
                *slot = value;
            }
        }
        for (column, datum) in self.table.columns.iter().zip(&self.data) {
            if column.not_null.is_some() && datum.is_null() && !column.is_virtual() {
                return Err(self.null_violation(&column.name));
            }
        }
        self.bytes.clear();
        let keys = self.table.indexes.iter();
        let indexed: SmallVec<[usize; 8]> = keys.flat_map(|index| index.key.looks_at()).collect();
        let layout = &self.table.layout;
        Ok(layout.encode_row(&self.data, None, &indexed, &mut self.bytes)?)
    }

    /// Whether the row is one of those that a condition is for.
    ///
    /// # Errors
    /// Those of the condition.
    pub fn takes(&self, filter: &Program, cx: &Arc<StatementCx>) -> SqlResult<bool> {
        Ok(row::over_row(filter, &self.data, cx)? == Datum::Bool(true))
    }

    /// Refuses the row if it violates one of the table's CHECK constraints.
    ///
    /// # Errors
    /// 23514; the errors of the conditions.
    pub fn check(&self, checks: &[Check], cx: &Arc<StatementCx>) -> SqlResult<()> {
        let Some(check) = row::violated(checks, &self.data, cx)? else {
            return Ok(());
        };
        let name = match &check.rule {
            RowRule::Check(name) => name,
            RowRule::NotNull(at) => {
                return Err(self.null_violation(&self.table.columns[*at].name));
            }
        };
        let table = (&*self.table.schema, &*self.table.name);
        let types = self.shown_types();
        Err(evenkeel_exec::check_violation(table, name, &self.data, types, self.types).into())
    }

    /// The types of a row that an error shows; none of values that are not stored.
    fn shown_types(&self) -> impl Iterator<Item = Option<SqlType>> {
        let columns = self.table.columns.iter();
        columns.map(|column| (!column.is_virtual()).then_some(column.ty))
    }

    fn null_violation(&self, column: &str) -> SqlError {
        let table = (&*self.table.schema, &*self.table.name);
        let types = self.shown_types();
        evenkeel_exec::null_violation(table, column, &self.data, types, self.types).into()
    }
}
