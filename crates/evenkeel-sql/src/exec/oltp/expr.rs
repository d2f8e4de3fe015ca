//! Values of compiled statements: trivial moves by ourselves, all else by DataFusion's physical
//! expressions on one-row (or one-page) batches.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_plan::PhysicalExpr;
use evenkeel_engine::heap::rows::RowBatch;
use smallvec::SmallVec;

use crate::arrow::{datum_from_scalar, scalar_from_datum};
use crate::error::{SqlError, SqlResult};
use crate::exec::StatementCx;
use crate::functions;
use crate::row::RowLayout;
use crate::types::{Datum, SqlType};

/// Where an input of an evaluated expression comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A column of the row.
    Column(usize),
    /// A parameter.
    Param(usize),
}

/// An expression for DataFusion's evaluator, with the batch it wants.
#[derive(Debug)]
pub struct RowExpr {
    /// The expression, over columns in the order of `inputs`.
    pub physical: Arc<dyn PhysicalExpr>,
    /// What the batch's columns are; row columns first, ascending.
    pub inputs: Vec<Input>,
    /// Types of the inputs.
    pub input_types: Vec<SqlType>,
    /// The batch's schema.
    pub schema: SchemaRef,
    /// The schema of the row columns alone.
    pub row_schema: SchemaRef,
    /// The row columns.
    pub projection: Vec<usize>,
    /// Whether evaluation may look at the session.
    pub needs_session: bool,
    /// The result's type.
    pub ty: SqlType,
}

/// A value of a compiled statement.
#[derive(Debug)]
pub enum Value {
    /// A column of the row at hand.
    Column(usize),
    /// A parameter.
    Param(usize),
    /// A constant.
    Const(Datum),
    /// The transaction's start, as timestamptz.
    Now,
    /// Anything that is evaluated.
    Expr(Box<RowExpr>),
}

/// A value and its type.
#[derive(Debug)]
pub struct Typed {
    /// The value.
    pub value: Value,
    /// Its type.
    pub ty: SqlType,
}

/// The row that values are taken from.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    /// How it is laid out.
    pub layout: &'a RowLayout,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// What values besides the row depend on.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// The parameters.
    pub params: &'a [Datum],
    /// The statement's session values.
    pub cx: &'a StatementCx,
}

impl Env<'_> {
    fn param(&self, index: usize) -> SqlResult<&Datum> {
        self.params.get(index).ok_or_else(|| {
            SqlError::new(
                crate::SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter ${}", index + 1),
            )
        })
    }
}

impl Typed {
    /// The value for a row, or without one.
    pub fn eval(&self, row: Option<RowRef<'_>>, env: Env<'_>) -> SqlResult<Datum> {
        match &self.value {
            Value::Column(index) => match row {
                Some(row) => row.layout.get(row.bytes, *index),
                None => Err(SqlError::internal("a column where there is no row")),
            },
            Value::Param(index) => env.param(*index).cloned(),
            Value::Const(datum) => Ok(datum.clone()),
            Value::Now => Ok(Datum::Timestamptz(env.cx.transaction_start)),
            Value::Expr(expr) => expr.eval(row, env),
        }
    }

    /// Whether the value needs no row.
    pub fn is_row_free(&self) -> bool {
        match &self.value {
            Value::Column(_) => false,
            Value::Expr(expr) => expr.projection.is_empty(),
            _ => true,
        }
    }
}

impl RowExpr {
    fn eval(&self, row: Option<RowRef<'_>>, env: Env<'_>) -> SqlResult<Datum> {
        let mut arrays = Vec::with_capacity(self.inputs.len());
        for (input, ty) in self.inputs.iter().zip(&self.input_types) {
            let scalar = match (input, row) {
                (Input::Param(index), _) => scalar_from_datum(env.param(*index)?, *ty)?,
                (Input::Column(index), Some(row)) => {
                    scalar_from_datum(&row.layout.get(row.bytes, *index)?, *ty)?
                }
                (Input::Column(_), None) => {
                    return Err(SqlError::internal("a column where there is no row"));
                }
            };
            arrays.push(scalar.to_array()?);
        }
        let scalar = match self.evaluate(arrays, 1, env)? {
            ColumnarValue::Scalar(scalar) => scalar,
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0)?,
        };
        datum_from_scalar(&scalar, self.ty)
    }

    /// Whether the expression, a condition, is true for the row (NULL is not).
    pub fn holds(&self, row: RowRef<'_>, env: Env<'_>) -> SqlResult<bool> {
        Ok(matches!(self.eval(Some(row), env)?, Datum::Bool(true)))
    }

    /// As [`RowExpr::holds`], of a condition that names no column.
    pub fn holds_without_row(&self, env: Env<'_>) -> SqlResult<bool> {
        Ok(matches!(self.eval(None, env)?, Datum::Bool(true)))
    }

    /// The rows of a page that the condition is true for.
    pub fn wanted(
        &self,
        layout: &RowLayout,
        rows: &RowBatch,
        env: Env<'_>,
    ) -> SqlResult<SmallVec<[usize; 8]>> {
        if rows.len() == 1 {
            let bytes = rows.row(0);
            let holds = self.holds(RowRef { layout, bytes }, env)?;
            return Ok((0..1).filter(|_| holds).collect());
        }
        let flags = self.select(layout, rows, env)?;
        let holds = |row: &usize| flags.is_valid(*row) && flags.value(*row);
        Ok((0..rows.len()).filter(holds).collect())
    }

    /// The condition's value for every row of a page.
    fn select(&self, layout: &RowLayout, rows: &RowBatch, env: Env<'_>) -> SqlResult<BooleanArray> {
        let count = rows.len();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.inputs.len());
        if !self.projection.is_empty() {
            let bytes = rows.iter().map(|(_, bytes)| bytes);
            let batch = layout.to_batch(bytes, &self.projection, &self.row_schema)?;
            arrays.extend(batch.columns().iter().cloned());
        }
        for (input, ty) in self.inputs.iter().zip(&self.input_types) {
            if let Input::Param(index) = input {
                arrays.push(scalar_from_datum(env.param(*index)?, *ty)?.to_array_of_size(count)?);
            }
        }
        let array = self.evaluate(arrays, count, env)?.into_array(count)?;
        let flags = array.as_any().downcast_ref::<BooleanArray>();
        flags
            .cloned()
            .ok_or_else(|| SqlError::internal("a condition that is not boolean"))
    }

    fn evaluate(
        &self,
        arrays: Vec<ArrayRef>,
        rows: usize,
        env: Env<'_>,
    ) -> SqlResult<ColumnarValue> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        if self.needs_session {
            let vars = env.cx.vars();
            return Ok(functions::with_session(vars, || {
                self.physical.evaluate(&batch)
            })?);
        }
        Ok(self.physical.evaluate(&batch)?)
    }
}
