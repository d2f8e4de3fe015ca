//! INSERT … VALUES, and the making of rows that every way of inserting shares.

use std::sync::Arc;

use bytes::BytesMut;
use evenkeel_engine::Transaction;

use super::conflict::{Inserter, OnConflict};
use super::expr::{Env, RowRef, Typed};
use super::select::encode_row;
use crate::arrow::check_stored_numeric;
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::StatementCx;
use crate::session::api::{Column, Format};
use crate::types::{Datum, SqlType, TypeContext};

/// RETURNING.
#[derive(Debug)]
pub struct Returning {
    /// Values over the row as it is after the change.
    pub output: Vec<Typed>,
    /// The result columns.
    pub columns: Arc<[Column]>,
}

/// A compiled INSERT … VALUES.
#[derive(Debug)]
pub struct Insert {
    /// The table.
    pub table: Arc<TableInfo>,
    /// A value for every column of the table, for each row.
    pub rows: Vec<Vec<Typed>>,
    /// ON CONFLICT.
    pub conflict: Option<OnConflict>,
    /// RETURNING.
    pub returning: Option<Returning>,
}

/// What a data-changing statement did.
#[derive(Debug, Default)]
pub struct Changed {
    /// Rows changed.
    pub count: u64,
    /// RETURNING's rows.
    pub rows: Vec<BytesMut>,
}

/// A [`RowMaker`]'s memory, for the next one.
#[derive(Default)]
pub struct RowMemory {
    data: Vec<Datum>,
    bytes: Vec<u8>,
}

/// Makes rows of a table out of values: assignment casts, NOT NULL, what plans can read,
/// encoding.
pub struct RowMaker<'a> {
    table: &'a TableInfo,
    types: &'a TypeContext,
    data: Vec<Datum>,
    /// The row made last.
    pub bytes: Vec<u8>,
}

impl<'a> RowMaker<'a> {
    /// For rows of `table`.
    pub fn new(table: &'a TableInfo, types: &'a TypeContext) -> RowMaker<'a> {
        let memory = RowMemory {
            data: Vec::with_capacity(table.columns.len()),
            bytes: Vec::with_capacity(128),
        };
        RowMaker::reusing(table, types, memory)
    }

    /// For rows of `table`, in the memory of an earlier one.
    pub fn reusing(
        table: &'a TableInfo,
        types: &'a TypeContext,
        RowMemory { data, bytes }: RowMemory,
    ) -> RowMaker<'a> {
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

    /// Begins a row.
    pub fn begin(&mut self) {
        self.data.clear();
    }

    /// Begins a row with an existing row's values.
    pub fn begin_from(&mut self, row: &[u8]) -> SqlResult<()> {
        self.data = self.table.layout.decode(row)?;
        Ok(())
    }

    /// The next column's value, of type `from`.
    pub fn push(&mut self, datum: Datum, from: SqlType) -> SqlResult<()> {
        let column = self.data.len();
        let datum = self.assign(column, datum, from)?;
        self.data.push(datum);
        Ok(())
    }

    /// The next column's value, as its input function made it.
    pub fn push_stored(&mut self, datum: Datum) {
        self.data.push(datum);
    }

    /// Replaces a column's value.
    pub fn set(&mut self, column: usize, datum: Datum, from: SqlType) -> SqlResult<()> {
        self.data[column] = self.assign(column, datum, from)?;
        Ok(())
    }

    fn assign(&self, column: usize, datum: Datum, from: SqlType) -> SqlResult<Datum> {
        let to = self.table.columns[column].ty;
        if datum.is_null() || (from == to && to.typmod() < 0) {
            return Ok(datum);
        }
        datum.cast_assign(from, to, self.types)
    }

    /// Ends the row: its bytes are in `bytes`.
    pub fn finish(&mut self) -> SqlResult<()> {
        for (column, datum) in self.table.columns.iter().zip(&self.data) {
            if column.not_null && datum.is_null() {
                return Err(self.null_violation(&column.name));
            }
            if let (SqlType::Numeric(modifier), Datum::Numeric(value)) = (column.ty, datum) {
                check_stored_numeric(value, modifier)
                    .map_err(|error| error.table(&*self.table.name).column(&*column.name))?;
            }
        }
        self.bytes.clear();
        self.table.layout.encode(&self.data, &mut self.bytes)
    }

    fn null_violation(&self, column: &str) -> SqlError {
        let table = &self.table.name;
        SqlError::new(
            SqlState::NOT_NULL_VIOLATION,
            format!(
                "null value in column \"{column}\" of relation \"{table}\" violates not-null \
                 constraint"
            ),
        )
        .detail(format!("Failing row contains ({}).", self.describe()))
        .table(&**table)
        .column(column)
    }

    fn describe(&self) -> String {
        let texts = self
            .table
            .columns
            .iter()
            .zip(&self.data)
            .map(|(column, datum)| {
                if datum.is_null() {
                    "null".to_owned()
                } else {
                    datum.to_text(column.ty, self.types)
                }
            });
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// Adds what PostgreSQL says about a failed insert or update: the key, the table.
pub fn describe_violation(
    error: evenkeel_engine::EngineError,
    table: &TableInfo,
    row: &[u8],
    types: &TypeContext,
) -> SqlError {
    let evenkeel_engine::EngineError::UniqueViolation { index } = &error else {
        return error.into();
    };
    let index = index.clone();
    let described: SqlError = error.into();
    let described = described.table(&*table.name).constraint(index.as_str());
    let Some(info) = table.indexes.iter().find(|info| *info.name == *index) else {
        return described;
    };
    let mut names = Vec::new();
    let mut values = Vec::new();
    for key in &info.columns {
        let column = &table.columns[key.column];
        let Ok(datum) = table.layout.get(row, key.column) else {
            return described;
        };
        names.push(column.name.to_string());
        values.push(datum.to_text(column.ty, types));
    }
    described.detail(format!(
        "Key ({})=({}) already exists.",
        names.join(", "),
        values.join(", ")
    ))
}

/// Runs an INSERT … VALUES.
pub async fn run(
    insert: &Insert,
    params: &[Datum],
    cx: &StatementCx,
    formats: &[Format],
    txn: &mut Transaction,
) -> SqlResult<Changed> {
    let env = Env { params, cx };
    let table = &insert.table;
    let mut changed = Changed::default();
    let mut maker = RowMaker::new(table, &cx.types);
    let mut inserter = match &insert.conflict {
        Some(conflict) => Some(Inserter::new(table, conflict, env, txn.snapshot()?)),
        None => None,
    };
    for row in &insert.rows {
        maker.begin();
        for value in row {
            maker.push(value.eval(None, env)?, value.ty)?;
        }
        maker.finish()?;
        if let Some(inserter) = &mut inserter {
            if !inserter.insert(txn, &mut maker).await? {
                continue;
            }
        } else if let Err(error) = table.table.insert(txn, &maker.bytes).await {
            return Err(describe_violation(error, table, &maker.bytes, &cx.types));
        }
        changed.count += 1;
        if let Some(returning) = &insert.returning {
            let row = RowRef {
                layout: &table.layout,
                bytes: &maker.bytes,
            };
            changed
                .rows
                .push(encode_row(&returning.output, Some(row), env, formats)?);
        }
    }
    Ok(changed)
}
