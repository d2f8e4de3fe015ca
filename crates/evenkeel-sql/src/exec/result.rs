//! Results on their way to the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use evenkeel_engine::memory::{Reservation, SessionMemory};

use super::copy::CopyWriter;
use super::row::PlanRows;
use crate::error::SqlResult;
use crate::protocol::{Column, CopyFormat, Format};

/// Raised when a result fails after its statement has returned, so that the session rolls its
/// transaction back.
#[derive(Debug, Clone, Default)]
pub struct FailFlag(Arc<AtomicBool>);

impl FailFlag {
    /// Raises the flag.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Lowers the flag; whether it was raised.
    pub fn take(&self) -> bool {
        self.0.load(Ordering::Acquire) && self.0.swap(false, Ordering::AcqRel)
    }
}

/// Rows encoded before the client takes the first; their memory is charged to the session.
#[derive(Debug, Default)]
pub struct RowBuffer {
    rows: Vec<BytesMut>,
    memory: Option<Reservation>,
}

/// Memory of a buffered row besides its bytes.
const ROW_OVERHEAD: usize = size_of::<BytesMut>() + 16;

impl RowBuffer {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row.
    ///
    /// # Errors
    /// 53200.
    pub fn push(&mut self, row: BytesMut, memory: &Arc<SessionMemory>) -> SqlResult<()> {
        let reservation = self.memory.get_or_insert_with(|| Reservation::new(memory));
        reservation.grow(row.capacity() + ROW_OVERHEAD)?;
        self.rows.push(row);
        Ok(())
    }
}

enum Source {
    Ready {
        rows: std::vec::IntoIter<BytesMut>,
        _memory: Option<Reservation>,
    },
    Query {
        rows: Box<PlanRows>,
        formats: Box<[Format]>,
    },
    Done,
}

/// Rows on their way to the client, encoded. Owns all it needs (no borrow of the session), so
/// a portal can keep it.
pub struct RowStream {
    columns: Arc<[Column]>,
    source: Source,
    verb: &'static str,
    given: u64,
    failed: FailFlag,
    /// The statement's timer, which ends with its rows.
    timeout: Option<Box<dyn Send>>,
    /// Whether the tag has the row count.
    counted: bool,
}

impl RowStream {
    /// A few rows that are all there.
    pub fn ready(columns: Arc<[Column]>, rows: Vec<BytesMut>, verb: &'static str) -> RowStream {
        RowStream::buffered(columns, RowBuffer { rows, memory: None }, verb)
    }

    /// Rows that are all there.
    pub fn buffered(columns: Arc<[Column]>, rows: RowBuffer, verb: &'static str) -> RowStream {
        let source = Source::Ready {
            rows: rows.rows.into_iter(),
            _memory: rows.memory,
        };
        RowStream {
            columns,
            source,
            verb,
            given: 0,
            failed: FailFlag::default(),
            timeout: None,
            counted: true,
        }
    }

    /// Rows of a query.
    pub fn query(
        columns: Arc<[Column]>,
        rows: PlanRows,
        formats: &[Format],
        verb: &'static str,
        failed: FailFlag,
    ) -> RowStream {
        let source = Source::Query {
            rows: Box::new(rows),
            formats: formats.into(),
        };
        RowStream {
            columns,
            source,
            verb,
            given: 0,
            failed,
            timeout: None,
            counted: true,
        }
    }

    /// Keeps a timer running until the rows are drained or dropped.
    #[must_use]
    pub fn with_timeout<T: Send + 'static>(mut self, timeout: Option<T>) -> RowStream {
        if !self.is_complete() {
            self.timeout = timeout.map(|timeout| Box::new(timeout) as Box<dyn Send>);
        }
        self
    }

    /// For commands whose tag has no row count.
    #[must_use]
    pub fn untagged(mut self) -> RowStream {
        self.counted = false;
        self
    }

    /// Whether all rows are here, so that the transaction may end.
    pub fn is_complete(&self) -> bool {
        matches!(self.source, Source::Ready { .. } | Source::Done)
    }

    /// The columns, in order.
    pub fn columns(&self) -> &Arc<[Column]> {
        &self.columns
    }

    /// Up to `max_rows` DataRow bodies (fields with their lengths, without the field count);
    /// `None` when there are no more. Never an empty vector.
    pub async fn next_batch(&mut self, max_rows: usize) -> SqlResult<Option<Vec<BytesMut>>> {
        let max_rows = max_rows.max(1);
        let mut out = Vec::new();
        let more = match &mut self.source {
            Source::Done => Ok(false),
            Source::Ready { rows, .. } => {
                if rows.len() <= max_rows {
                    let all = std::mem::take(rows);
                    self.source = Source::Done;
                    out = all.collect();
                } else {
                    out.extend(rows.take(max_rows));
                }
                Ok(true)
            }
            Source::Query { rows, formats } => rows.read(max_rows, formats, &mut out).await,
        };
        match more {
            Ok(true) => {}
            Ok(false) => {
                self.source = Source::Done;
                self.timeout = None;
            }
            Err(error) => {
                self.source = Source::Done;
                self.failed.raise();
                return Err(error);
            }
        }
        self.given += out.len() as u64;
        Ok((!out.is_empty()).then_some(out))
    }

    /// The client asks for more rows: the tag of a query counts those of each call, that of a
    /// change all.
    pub fn call_again(&mut self) {
        if self.verb == "SELECT" {
            self.given = 0;
        }
    }

    /// The command tag for the rows given out so far (`SELECT 5`).
    pub fn tag(&self) -> String {
        if self.counted {
            tag(self.verb, self.given)
        } else {
            self.verb.to_owned()
        }
    }
}

/// The command tag of a statement with a row count.
pub fn tag(verb: &str, count: u64) -> String {
    if verb == "INSERT" {
        format!("INSERT 0 {count}")
    } else {
        format!("{verb} {count}")
    }
}

/// Gives the data of COPY TO STDOUT.
pub struct CopyOutStream {
    rows: Box<PlanRows>,
    writer: CopyWriter,
    header: BytesMut,
    count: u64,
    failed: FailFlag,
    /// The statement's timer, which ends with its data.
    timeout: Option<Box<dyn Send>>,
    done: bool,
}

/// Data of COPY TO: as many CopyData messages as rows, since clients read a row from each.
#[derive(Debug, Default)]
pub struct CopyChunk {
    data: BytesMut,
    /// Where each message ends.
    ends: Vec<usize>,
}

impl CopyChunk {
    /// The contents of the messages, in order.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let messages = begins.zip(self.ends.iter());
        messages.filter_map(|(begin, end)| self.data.get(begin..*end))
    }

    fn end_message(&mut self) {
        self.ends.push(self.data.len());
    }
}

/// Data that is gathered before it is sent, about.
const CHUNK_BYTES: usize = 32 << 10;

impl CopyOutStream {
    /// The data of a plan's rows.
    pub fn new(
        rows: PlanRows,
        writer: CopyWriter,
        header: BytesMut,
        failed: FailFlag,
    ) -> CopyOutStream {
        CopyOutStream {
            rows: Box::new(rows),
            writer,
            header,
            count: 0,
            failed,
            timeout: None,
            done: false,
        }
    }

    /// Keeps a timer running until the data is drained or dropped.
    #[must_use]
    pub fn with_timeout<T: Send + 'static>(mut self, timeout: Option<T>) -> CopyOutStream {
        self.timeout = timeout.map(|timeout| Box::new(timeout) as Box<dyn Send>);
        self
    }

    /// The format, for CopyOutResponse.
    pub fn format(&self) -> CopyFormat {
        self.writer.format()
    }

    /// Number of columns, for CopyOutResponse.
    pub fn column_count(&self) -> usize {
        self.rows.types().len()
    }

    /// The next messages, or `None` at the end.
    pub async fn next_chunk(&mut self) -> SqlResult<Option<CopyChunk>> {
        let result = self.chunk().await;
        if result.is_err() {
            self.done = true;
            self.failed.raise();
        }
        result
    }

    async fn chunk(&mut self) -> SqlResult<Option<CopyChunk>> {
        if self.done {
            return Ok(None);
        }
        let mut out = CopyChunk {
            data: std::mem::take(&mut self.header),
            ends: Vec::new(),
        };
        // The binary header is of the first row's message, as PostgreSQL has it.
        if !out.data.is_empty() && self.format() != CopyFormat::Binary {
            out.end_message();
        }
        let mut row = Vec::new();
        while out.data.len() < CHUNK_BYTES {
            if !self.rows.next_row(&mut row).await? {
                self.done = true;
                self.timeout = None;
                self.writer.end(&mut out.data);
                if self.format() == CopyFormat::Binary {
                    out.end_message();
                }
                break;
            }
            if self.format() != CopyFormat::Binary {
                self.rows.show_names(&mut row)?;
            }
            self.writer.row(&row, self.rows.types(), &mut out.data)?;
            out.end_message();
            self.count += 1;
        }
        Ok((!out.ends.is_empty()).then_some(out))
    }

    /// The command tag (`COPY 5`).
    pub fn tag(&self) -> String {
        format!("COPY {}", self.count)
    }
}
