//! Ties a kept plan to a snapshot and to the values of its parameters, and starts it.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ParamValues, ScalarValue};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ColumnarValue, Expr, LogicalPlan, TableScan, TableSource};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use evenkeel_engine::{CancelFlag, Snapshot};

use super::provider::BoundTable;
use super::series::Series;
use crate::arrow::scalar_from_datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::StatementCx;
use crate::functions::finish_plan;
use crate::planner::source::{CatalogSource, SeriesSource};
use crate::types::{Datum, SqlType};

/// What a plan is tied to when it runs.
pub struct Binding {
    /// The snapshot of every table scan in it (exec rule 3).
    pub snapshot: Snapshot,
    /// The statement's session values.
    pub cx: Arc<StatementCx>,
    /// The session's cancel flag.
    pub cancel: CancelFlag,
    /// Values of the parameters.
    pub params: Vec<ScalarValue>,
}

impl Binding {
    /// A binding with parameters of these types.
    pub fn new(
        snapshot: Snapshot,
        cx: Arc<StatementCx>,
        cancel: CancelFlag,
        params: &[Datum],
        types: &[SqlType],
    ) -> SqlResult<Binding> {
        let scalars = params
            .iter()
            .zip(types)
            .map(|(datum, ty)| scalar_from_datum(datum, *ty));
        let params = scalars.collect::<SqlResult<Vec<_>>>()?;
        Ok(Binding {
            snapshot,
            cx,
            cancel,
            params,
        })
    }

    /// The plan with its sources bound and its parameters replaced by their values.
    pub fn bind(&self, plan: &LogicalPlan, state: &SessionState) -> SqlResult<LogicalPlan> {
        let bound = plan
            .clone()
            .transform_up_with_subqueries(|node| match node {
                LogicalPlan::TableScan(scan) => match self.source(&scan.source, state)? {
                    Some(source) => Ok(Transformed::yes(LogicalPlan::TableScan(TableScan {
                        source,
                        ..scan
                    }))),
                    None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
                },
                other => Ok(Transformed::no(other)),
            })?;
        if self.params.is_empty() {
            return Ok(bound.data);
        }
        let values = ParamValues::from(self.params.clone());
        Ok(bound.data.replace_params_with_values(&values)?)
    }

    fn source(
        &self,
        source: &Arc<dyn TableSource>,
        state: &SessionState,
    ) -> SqlResult<Option<Arc<dyn TableSource>>> {
        let any: &dyn Any = source.as_ref();
        if let Some(table) = any.downcast_ref::<CatalogSource>() {
            let provider = BoundTable::new(
                Arc::clone(table.table()),
                table.schema(),
                self.snapshot.clone(),
                Arc::clone(&self.cx),
                self.cancel.clone(),
            );
            return Ok(Some(provider_as_source(Arc::new(provider))));
        }
        if let Some(series) = any.downcast_ref::<SeriesSource>() {
            let provider = self.series(series, state)?;
            return Ok(Some(provider_as_source(Arc::new(provider))));
        }
        Ok(None)
    }

    fn series(&self, source: &SeriesSource, state: &SessionState) -> SqlResult<Series> {
        let mut ends = [0, 0, 1];
        let mut has_null = false;
        for (end, arg) in ends.iter_mut().zip(&source.args) {
            match self.integer(arg, state)? {
                Some(value) => *end = value,
                None => has_null = true,
            }
        }
        let [start, stop, step] = ends;
        if step == 0 {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "step size cannot equal zero",
            ));
        }
        // A NULL argument makes an empty series.
        let (start, stop, step) = if has_null {
            (1, 0, 1)
        } else {
            (start, stop, step)
        };
        let schema = source.schema();
        Ok(Series {
            schema,
            start,
            stop,
            step,
            cancel: self.cancel.clone(),
        })
    }

    /// The value of an expression without columns, as a bigint.
    fn integer(&self, expr: &Expr, state: &SessionState) -> SqlResult<Option<i64>> {
        let values = ParamValues::from(self.params.clone());
        let expr = expr.clone().transform_up(|e| match e {
            Expr::Placeholder(param) => {
                let value = values.get_placeholders_with_values(&param.id)?;
                let (value, metadata) = value.into_inner();
                Ok(Transformed::yes(Expr::Literal(value, metadata)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        let physical = state.create_physical_expr(expr.data, &DFSchema::empty())?;
        let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
        let batch =
            RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
        let scalar = match physical.evaluate(&batch)? {
            ColumnarValue::Scalar(scalar) => scalar,
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0)?,
        };
        match scalar.cast_to(&DataType::Int64)? {
            ScalarValue::Int64(value) => Ok(value),
            _ => Err(SqlError::internal("a series end that is not an integer")),
        }
    }

    /// The physical plan.
    pub async fn physical(
        &self,
        plan: &LogicalPlan,
        state: &SessionState,
    ) -> SqlResult<Arc<dyn ExecutionPlan>> {
        let bound = self.bind(plan, state)?;
        let optimised = finish_plan(state.optimize(&bound)?)?;
        let planner = state.query_planner();
        Ok(planner.create_physical_plan(&optimised, state).await?)
    }

    /// Starts the plan.
    pub async fn start(
        &self,
        plan: &LogicalPlan,
        state: &SessionState,
    ) -> SqlResult<SendableRecordBatchStream> {
        let physical = self.physical(plan, state).await?;
        Ok(execute_stream(physical, state.task_ctx())?)
    }
}
