//! The rows of `generate_series` over integers.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use evenkeel_engine::CancelFlag;
use futures::stream;

use crate::error::SqlError;

/// Values per batch.
const BATCH_ROWS: usize = 8192;

/// A series with its ends known.
#[derive(Debug, Clone)]
pub struct Series {
    /// The column; `Int32` or `Int64`.
    pub schema: SchemaRef,
    /// First value.
    pub start: i64,
    /// The value not to go beyond.
    pub stop: i64,
    /// The step; not 0.
    pub step: i64,
    /// Looked at once a batch.
    pub cancel: CancelFlag,
}

struct Position {
    series: Series,
    next: Option<i64>,
}

impl Position {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.series.cancel.check().map_err(SqlError::from)?;
        let Series { stop, step, .. } = self.series;
        let within = |value: i64| {
            if step > 0 {
                value <= stop
            } else {
                value >= stop
            }
        };
        let mut values = Vec::with_capacity(BATCH_ROWS);
        while let Some(value) = self.next.filter(|value| within(*value)) {
            values.push(value);
            self.next = value.checked_add(step);
            if values.len() == BATCH_ROWS {
                break;
            }
        }
        if values.is_empty() {
            return Ok(None);
        }
        let array: ArrayRef = match self.series.schema.field(0).data_type() {
            // The ends are of the type, so the values between them are.
            DataType::Int32 => Arc::new(Int32Array::from_iter_values(
                values.iter().map(|v| *v as i32),
            )),
            _ => Arc::new(Int64Array::from(values)),
        };
        Ok(Some(RecordBatch::try_new(
            Arc::clone(&self.series.schema),
            vec![array],
        )?))
    }
}

impl PartitionStream for Series {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let position = Position {
            series: self.clone(),
            next: Some(self.start),
        };
        let batches = stream::unfold(position, |mut position| async move {
            position
                .next_batch()
                .transpose()
                .map(|batch| (batch, position))
        });
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, Box::pin(batches)))
    }
}

#[async_trait]
impl TableProvider for Series {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let partitions: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(self.clone())];
        let schema = Arc::clone(&self.schema);
        let exec = StreamingTableExec::try_new(schema, partitions, projection, [], false, limit)?;
        Ok(Arc::new(exec))
    }
}
