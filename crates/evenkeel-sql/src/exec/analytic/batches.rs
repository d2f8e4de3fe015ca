//! Rows of a plan's batches, encoded for the client.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;

use crate::arrow;
use crate::error::SqlResult;
use crate::exec::StatementCx;
use crate::session::api::Format;
use crate::types::{Datum, SqlType};

/// A plan's result, row by row.
pub struct BatchRows {
    stream: SendableRecordBatchStream,
    types: Arc<[SqlType]>,
    cx: Arc<StatementCx>,
    batch: Option<RecordBatch>,
    next: usize,
}

impl BatchRows {
    /// The rows of `stream`, whose columns are of `types`.
    pub fn new(
        stream: SendableRecordBatchStream,
        types: Arc<[SqlType]>,
        cx: Arc<StatementCx>,
    ) -> BatchRows {
        BatchRows {
            stream,
            types,
            cx,
            batch: None,
            next: 0,
        }
    }

    /// Whether there is a row at hand; fetches the next batch if the last one is used up.
    async fn advance(&mut self) -> SqlResult<bool> {
        loop {
            if self
                .batch
                .as_ref()
                .is_some_and(|batch| self.next < batch.num_rows())
            {
                return Ok(true);
            }
            self.next = 0;
            match self.stream.next().await {
                Some(batch) => self.batch = Some(batch?),
                None => {
                    self.batch = None;
                    return Ok(false);
                }
            }
        }
    }

    /// Appends up to `max_rows` DataRow bodies; false when there are no more rows.
    pub async fn read(
        &mut self,
        max_rows: usize,
        formats: &[Format],
        out: &mut Vec<BytesMut>,
    ) -> SqlResult<bool> {
        let wanted = out.len() + max_rows;
        while out.len() < wanted {
            if !self.advance().await? {
                return Ok(false);
            }
            let Some(batch) = &self.batch else {
                return Ok(false);
            };
            let upto = batch.num_rows().min(self.next + (wanted - out.len()));
            for row in self.next..upto {
                let mut body = BytesMut::with_capacity(self.types.len() * 12);
                for (number, (array, ty)) in batch.columns().iter().zip(&*self.types).enumerate() {
                    let format = Format::of(formats, number);
                    arrow::put_field(array, row, *ty, format, &self.cx.types, &mut body)?;
                }
                out.push(body);
            }
            self.next = upto;
        }
        Ok(true)
    }

    /// The next row's values into `out`; false when there are no more rows.
    pub async fn next_row(&mut self, out: &mut Vec<Datum>) -> SqlResult<bool> {
        out.clear();
        if !self.advance().await? {
            return Ok(false);
        }
        let Some(batch) = &self.batch else {
            return Ok(false);
        };
        for (array, ty) in batch.columns().iter().zip(&*self.types) {
            out.push(arrow::datum_at(array, self.next, *ty)?);
        }
        self.next += 1;
        Ok(true)
    }

    /// The types of the columns.
    pub fn types(&self) -> &Arc<[SqlType]> {
        &self.types
    }
}
