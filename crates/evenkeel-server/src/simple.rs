//! The simple query protocol, and how results of both protocols are sent.

use std::sync::Arc;

use evenkeel_sql::{
    Column, CopyInStart, Format, RowStream, SimpleQuery, SqlError, StatementResult,
};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};
use pgwire::messages::data::{FieldDescription, RowDescription};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};

use crate::connection::{Connection, CopyProtocol, Mode};
use crate::error::{ConnectionError, ends_session, error_response};
use crate::message::Text;
use crate::wire::Transport;

/// Rows asked for at once.
const BATCH_ROWS: usize = 1024;

/// How the rows of one call ended.
pub(crate) enum RowsEnd {
    /// There are no more.
    Drained,
    /// The client's limit was reached.
    Limit,
}

impl<T: Transport> Connection<'_, T> {
    /// A Query message.
    pub async fn simple_query(&mut self, sql: Text) -> Result<(), ConnectionError> {
        self.named.close_unnamed();
        let query = self.session.simple(sql.as_str());
        // The session has a copy; a long text is not kept twice while it runs.
        drop(sql);
        self.simple_results(query).await
    }

    /// Sends the results of `query` from where it stands, then ReadyForQuery. A COPY FROM
    /// STDIN in it suspends this until its data has come.
    pub async fn simple_results(&mut self, mut query: SimpleQuery) -> Result<(), ConnectionError> {
        loop {
            let outcome = match self.session.next_result(&mut query).await {
                Ok(None) => break,
                Ok(Some(StatementResult::CopyIn(start))) => {
                    let response = copy_in_response(start);
                    self.put(PgWireBackendMessage::CopyInResponse(response));
                    self.mode = Mode::CopyIn(CopyProtocol::Simple(query));
                    return Ok(());
                }
                Ok(Some(result)) => self.simple_result(result).await,
                Err(error) => Err(ConnectionError::Fatal(error)),
            };
            match outcome {
                Ok(()) => self.put_side_effects(),
                Err(ConnectionError::Fatal(error)) if !ends_session(&error) => {
                    self.session.fail();
                    self.put(error_response("ERROR", &error));
                }
                Err(e) => return Err(e),
            }
        }
        self.named.transaction_boundary(self.session.status());
        self.ready_for_query().await
    }

    async fn simple_result(&mut self, result: StatementResult) -> Result<(), ConnectionError> {
        match result {
            StatementResult::Rows(mut rows) => {
                self.put(row_description(rows.columns(), &[]));
                self.send_rows(&mut rows, 0).await?;
                self.command_complete(rows.tag());
                Ok(())
            }
            other => self.send_result(other).await,
        }
    }

    /// Sends a result that has no rows and takes no data.
    pub async fn send_result(&mut self, result: StatementResult) -> Result<(), ConnectionError> {
        match result {
            StatementResult::Command(tag) => self.command_complete(tag),
            StatementResult::Empty => {
                self.put(PgWireBackendMessage::EmptyQueryResponse(
                    EmptyQueryResponse::new(),
                ));
            }
            StatementResult::CopyOut(mut out) => {
                let columns = out.column_count();
                let code = out.format().code();
                let response =
                    CopyOutResponse::new(code as i8, columns as i16, vec![code; columns]);
                self.put(PgWireBackendMessage::CopyOutResponse(response));
                while let Some(chunk) = out.next_chunk().await.map_err(ConnectionError::Fatal)? {
                    for message in chunk.messages() {
                        self.wire.put_copy_data(message);
                    }
                    self.wire.flush_if_full().await?;
                }
                self.put(PgWireBackendMessage::CopyDone(CopyDone::new()));
                self.command_complete(out.tag());
            }
            StatementResult::Rows(_) | StatementResult::CopyIn(_) => {
                return Err(ConnectionError::Fatal(SqlError::internal(
                    "a result with rows or data was sent as one without",
                )));
            }
        }
        Ok(())
    }

    /// Sends up to `limit` rows (0: all), as fast as the client takes them.
    pub async fn send_rows(
        &mut self,
        rows: &mut RowStream,
        limit: usize,
    ) -> Result<RowsEnd, ConnectionError> {
        let fields = rows.columns().len() as u16;
        let mut left = if limit == 0 { usize::MAX } else { limit };
        while left > 0 {
            let batch = rows.next_batch(left.min(BATCH_ROWS)).await;
            let Some(batch) = batch.map_err(ConnectionError::Fatal)? else {
                return Ok(RowsEnd::Drained);
            };
            left -= batch.len().min(left);
            for row in &batch {
                self.wire.put_row(fields, row);
                self.wire.flush_if_full().await?;
            }
        }
        Ok(RowsEnd::Limit)
    }

    pub fn command_complete(&mut self, tag: String) {
        self.put(PgWireBackendMessage::CommandComplete(CommandComplete::new(
            tag,
        )));
    }
}

/// RowDescription for `columns` in the formats that Bind asked for.
pub(crate) fn row_description(columns: &Arc<[Column]>, formats: &[Format]) -> PgWireBackendMessage {
    let fields = columns.iter().enumerate().map(|(i, column)| {
        FieldDescription::new(
            column.name.clone(),
            column.table_oid as i32,
            column.attnum,
            column.type_oid,
            column.len,
            column.typmod,
            Format::of(formats, i).code(),
        )
    });
    PgWireBackendMessage::RowDescription(RowDescription::new(fields.collect()))
}

/// CopyInResponse: one format for all columns.
pub(crate) fn copy_in_response(start: CopyInStart) -> CopyInResponse {
    let code = start.format.code();
    CopyInResponse::new(code as i8, start.columns as i16, vec![code; start.columns])
}
