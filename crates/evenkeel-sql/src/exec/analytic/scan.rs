//! Table scans for DataFusion: rows are copied out a page at a time and gathered into batches.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::Direction;
use evenkeel_engine::{BlockNumber, CancelFlag, Snapshot, Tid};
use futures::stream;

use crate::catalog::TableInfo;
use crate::error::SqlResult;
use crate::exec::StatementCx;
use crate::exec::oltp::access::{Access, Rows};
use crate::exec::oltp::expr::Env;
use crate::row::ArrowRowDecoder;

/// Rows gathered into one batch, about.
const BATCH_ROWS: usize = 2048;

/// One partition of a table scan.
pub struct TablePartition {
    /// The table.
    pub table: Arc<TableInfo>,
    /// The part of it to read.
    pub access: Arc<Access>,
    /// The columns to produce; the number behind the last column is the row id.
    pub columns: Vec<usize>,
    /// Their schema.
    pub schema: SchemaRef,
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The statement's session values.
    pub cx: Arc<StatementCx>,
    /// Looked at once a batch.
    pub cancel: CancelFlag,
}

impl std::fmt::Debug for TablePartition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.access.describe(&self.table))
    }
}

struct Reader {
    table: Arc<TableInfo>,
    rows: Rows,
    page: RowBatch,
    columns: Vec<usize>,
    schema: SchemaRef,
    cancel: CancelFlag,
}

impl Reader {
    fn next_batch(&mut self) -> SqlResult<Option<RecordBatch>> {
        self.cancel.check()?;
        let width = self.table.columns.len();
        let stored: Vec<usize> = self
            .columns
            .iter()
            .copied()
            .filter(|column| *column < width)
            .collect();
        let wants_id = stored.len() < self.columns.len();
        let mut decoder = ArrowRowDecoder::new(&self.table.layout, &stored)?;
        let mut ids = Vec::new();
        while decoder.rows() < BATCH_ROWS && self.rows.next_page(&mut self.page)? {
            for (tid, bytes) in self.page.iter() {
                decoder.push(bytes)?;
                if wants_id {
                    ids.push(pack(tid));
                }
            }
        }
        if decoder.rows() == 0 {
            return Ok(None);
        }
        let count = decoder.rows();
        if !wants_id {
            return decoder.finish(&self.schema).map(Some);
        }
        let fields: Vec<_> = self.schema.fields().iter().cloned().collect();
        let inner = fields
            .iter()
            .zip(&self.columns)
            .filter(|(_, column)| **column < width);
        let inner: Vec<_> = inner.map(|(field, _)| Arc::clone(field)).collect();
        let batch = decoder.finish(&Arc::new(Schema::new(inner)))?;
        let ids: ArrayRef = Arc::new(Int64Array::from(ids));
        let mut stored = batch.columns().iter();
        let arrays = self.columns.iter().map(|column| {
            if *column < width {
                stored.next().cloned().unwrap_or_else(|| Arc::clone(&ids))
            } else {
                Arc::clone(&ids)
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.schema);
        Ok(Some(RecordBatch::try_new_with_options(
            schema,
            arrays.collect(),
            &options,
        )?))
    }
}

/// A row's place in one number.
pub fn pack(tid: Tid) -> i64 {
    i64::from(tid.block.0) << 16 | i64::from(tid.slot)
}

/// The place that `pack` made a number of.
pub fn unpack(id: i64) -> Tid {
    // The casts keep the 32 and 16 bits that `pack` put there.
    Tid::new(BlockNumber((id >> 16) as u32), (id & 0xffff) as u16)
}

impl PartitionStream for TablePartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let env = Env {
            params: &[],
            cx: &self.cx,
        };
        let opened = Rows::open(
            &self.table,
            &self.access,
            Direction::Forward,
            env,
            &self.snapshot,
        );
        let reader = opened.map(|rows| Reader {
            table: Arc::clone(&self.table),
            rows,
            page: RowBatch::new(),
            columns: self.columns.clone(),
            schema: Arc::clone(&self.schema),
            cancel: self.cancel.clone(),
        });
        let batches = stream::unfold(Some(reader), |state| async move {
            match state? {
                Err(error) => Some((Err(error.into()), None)),
                Ok(mut reader) => match reader.next_batch() {
                    Ok(Some(batch)) => Some((Ok(batch), Some(Ok(reader)))),
                    Ok(None) => None,
                    Err(error) => Some((Err(error.into()), None)),
                },
            }
        });
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, Box::pin(batches)))
    }
}
