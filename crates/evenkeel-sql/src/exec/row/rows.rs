//! A plan's rows, encoded for the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use evenkeel_exec::{Batch, Execution, Measure, Step, TransactionWriter, Wait, Writer};
use evenkeel_planner::plan::Node;

use super::ends_its_statement;
use super::session::RowSession;
use crate::error::{SqlError, SqlResult};
use crate::exec::in_use::Using;
use crate::types::{Datum, Format, SqlType};

/// Encoded bytes after which the client gets what there is.
const READ_BYTES: usize = 1 << 20;

/// Slices without a row after which a plan goes on where it holds up no other session's thread:
/// turns on a shared thread would make short statements wait for as many slices as there are such
/// plans, the system's scheduler gives them the processor first.
const SLICES: u32 = 8;
/// How long it goes on there before it looks whether its session is still there.
const LONG_SLICE: Duration = Duration::from_millis(10);

/// A running plan, row by row.
pub struct PlanRows {
    run: Execution,
    types: Arc<[SqlType]>,
    session: Arc<RowSession>,
    batch: Batch,
    next: usize,
    /// Slices since the last row.
    slices: u32,
    /// Of a plan that changes or locks rows.
    writer: Option<Arc<TransactionWriter>>,
    /// Whether a column holds oids that the client gets as names.
    named: bool,
    /// Its use of tables, until its last row has been read.
    using: Option<Using>,
}

impl PlanRows {
    /// The rows of `run`, whose columns are of `types`.
    pub fn new(run: Execution, types: Arc<[SqlType]>, session: Arc<RowSession>) -> PlanRows {
        let named = types.iter().any(|ty| ty.has_names());
        PlanRows {
            run,
            types,
            session,
            batch: Batch::default(),
            next: 0,
            slices: 0,
            writer: None,
            named,
            using: None,
        }
    }

    /// Those of a plan that uses tables.
    #[must_use]
    pub fn using(self, using: Using) -> PlanRows {
        PlanRows {
            using: Some(using),
            ..self
        }
    }

    /// Those of a plan that changes or locks rows through this writer.
    #[must_use]
    pub fn writing(self, writer: Arc<TransactionWriter>) -> PlanRows {
        PlanRows {
            run: self.run.writing(Arc::clone(&writer) as Arc<dyn Writer>),
            writer: Some(writer),
            ..self
        }
    }

    /// The rows that the statement has changed.
    pub fn changed(&self) -> u64 {
        self.run.changed()
    }

    /// The types of the columns.
    pub fn types(&self) -> &Arc<[SqlType]> {
        &self.types
    }

    /// Whether there is a row at hand; asks the plan for at most `want` when the last ones are
    /// used up. Gives way to other sessions when the plan does.
    async fn advance(&mut self, want: usize) -> SqlResult<bool> {
        while self.next == self.batch.len() {
            self.next = 0;
            // A plan that always has rows would keep its thread, and its own timer from firing.
            tokio::task::consume_budget().await;
            match self.step(want)? {
                Step::Batch => self.slices = 0,
                Step::Done => {
                    self.using = None;
                    return Ok(false);
                }
                Step::Wait(Wait::Yield) => {
                    self.slices = self.slices.saturating_add(1);
                    tokio::task::yield_now().await;
                }
                Step::Wait(Wait::Row) => match &self.writer {
                    Some(writer) => writer.wait().await,
                    None => return Err(SqlError::internal("a plan that may not write waits")),
                },
            }
        }
        Ok(true)
    }

    fn step(&mut self, want: usize) -> SqlResult<Step> {
        let (run, batch) = (&mut self.run, &mut self.batch);
        let shared = self.slices < SLICES;
        self.session.begin_turn(shared);
        if shared {
            return ends_its_statement(|| Ok(run.next_rows(want, batch)?));
        }
        evenkeel_io::blocking(|| {
            let began = Instant::now();
            ends_its_statement(|| {
                loop {
                    let step = run.next_rows(want, batch)?;
                    let goes_on = matches!(step, Step::Wait(Wait::Yield));
                    if !goes_on || began.elapsed() >= LONG_SLICE {
                        return Ok(step);
                    }
                }
            })
        })
    }

    /// Runs the plan to its end.
    ///
    /// # Errors
    /// The statement's.
    pub async fn drain(&mut self) -> SqlResult<()> {
        while self.advance(usize::MAX).await? {
            self.next = self.batch.len();
        }
        Ok(())
    }

    /// Measurements of a plan node, if the run takes them.
    pub fn measure(&self, node: &Node) -> Measure {
        self.run.measure(node).unwrap_or_default()
    }

    /// Appends up to `max_rows` DataRow bodies, fewer if they are long; false when there are no
    /// more rows.
    ///
    /// # Errors
    /// The statement's.
    pub async fn read(
        &mut self,
        max_rows: usize,
        formats: &[Format],
        out: &mut Vec<BytesMut>,
    ) -> SqlResult<bool> {
        let wanted = out.len() + max_rows;
        let mut bytes = 0;
        while out.len() < wanted && bytes < READ_BYTES {
            if !self.advance(wanted - out.len()).await? {
                return Ok(false);
            }
            let body = self.encoded(formats)?;
            bytes += body.len();
            out.push(body);
            self.next += 1;
        }
        Ok(true)
    }

    /// The session that the rows are made for.
    pub fn session(&self) -> &Arc<RowSession> {
        &self.session
    }

    /// Puts the texts of a row's values that read as names in their places.
    ///
    /// # Errors
    /// Those of the catalog.
    pub fn show_names(&self, row: &mut [Datum]) -> SqlResult<()> {
        if self.named {
            self.session.show_names(row, &self.types)?;
        }
        Ok(())
    }

    /// The DataRow body of the row at hand.
    fn encoded(&self, formats: &[Format]) -> SqlResult<BytesMut> {
        let mut body = BytesMut::with_capacity(self.types.len() * 12);
        let types = &self.session.cx().types;
        let row = self.batch.row(self.next).iter().zip(&*self.types);
        for (number, (value, ty)) in row.enumerate() {
            let format = Format::of(formats, number);
            if self.named
                && format == Format::Text
                && let Some(name) = self.session.name_of(value, *ty)?
            {
                let ty = match ty.is_named_oid() {
                    true => SqlType::Text,
                    false => SqlType::TEXT_ARRAY,
                };
                name.put_field(ty, format, types, &mut body);
            } else {
                value.put_field(*ty, format, types, &mut body);
            }
        }
        Ok(body)
    }

    /// The next row's values into `out`; false when there are no more rows.
    ///
    /// # Errors
    /// The statement's.
    pub async fn next_row(&mut self, out: &mut Vec<Datum>) -> SqlResult<bool> {
        out.clear();
        if !self.advance(usize::MAX).await? {
            return Ok(false);
        }
        out.extend_from_slice(self.batch.row(self.next));
        self.next += 1;
        Ok(true)
    }
}
