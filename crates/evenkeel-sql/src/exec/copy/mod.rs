//! COPY's text and CSV formats, in both directions.

mod maker;
mod records;
mod write;

use std::sync::Arc;

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::memory::Reservation;
use evenkeel_engine::table::InsertOptions;
use evenkeel_engine::{BlockNumber, CancelFlag, Tid, Transaction};
use evenkeel_exec::RowEvent;
use evenkeel_expr::program::Program;

use super::StatementCx;
use super::row::{self, RowRules};
use crate::catalog::{ColumnInfo, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser::options::CopyOptions;
use crate::protocol::CopyFormat;
use crate::types::{Datum, text_from_bytes};
use evenkeel_exec::{NewRow, settle};
use maker::{RowMaker, RowMemory};
use records::{Fields, Scanner, split_csv, split_text};

pub use write::TextWriter;

/// Bytes of rows that are gathered before they are inserted.
const BULK_BYTES: usize = 256 << 10;
/// A line longer than this is refused, as PostgreSQL refuses more than 1 GB.
const MAX_LINE: usize = 1 << 30;
/// Rows between looks at the cancel flag.
const ROWS_PER_CHECK: u64 = 1024;
/// Bytes of the data that an error shows.
const SHOWN_BYTES: usize = 100;

/// The options of a COPY with their defaults filled in.
#[derive(Debug, Clone)]
pub struct CopyShape {
    /// Text or CSV.
    pub format: CopyFormat,
    /// Between fields.
    pub delimiter: u8,
    /// Text that stands for NULL.
    pub null: String,
    /// CSV's quote.
    pub quote: u8,
    /// CSV's escape within quotes.
    pub escape: u8,
    /// Whether the first line names the columns.
    pub header: bool,
}

impl CopyShape {
    /// The shape for some options.
    pub fn new(options: &CopyOptions) -> CopyShape {
        let csv = options.format == CopyFormat::Csv;
        // Options are single bytes: the grammar takes ASCII characters only.
        let byte = |c: Option<char>, default: u8| c.map_or(default, |c| c as u8);
        let quote = byte(options.quote, b'"');
        let null = if csv { "" } else { "\\N" };
        CopyShape {
            format: options.format,
            delimiter: byte(options.delimiter, if csv { b',' } else { b'\t' }),
            null: options.null.clone().unwrap_or_else(|| null.to_owned()),
            quote,
            escape: byte(options.escape, quote),
            header: options.header,
        }
    }
}

/// The defaults of the columns that lines do not have: for each of the table's columns which of the
/// programs gives its value, if any does.
#[derive(Default)]
pub struct Defaults {
    /// By column.
    pub places: Vec<Option<usize>>,
    /// Evaluated for every row, in their order.
    pub programs: Vec<Program>,
}

/// COPY FROM STDIN under way.
pub struct CopyReceiver {
    table: Arc<TableInfo>,
    /// The table's columns that the lines have, in their order.
    columns: Vec<usize>,
    /// For each of the table's columns its field in a line.
    places: Vec<Option<usize>>,
    defaults: Defaults,
    rules: RowRules,
    shape: CopyShape,
    options: InsertOptions,
    cx: Arc<StatementCx>,
    cancel: CancelFlag,
    /// Beginning of a record whose end has not been received.
    rest: Vec<u8>,
    /// Charged for it: a record may come in any number of pieces.
    charge: Reservation,
    /// How far it has been looked into.
    scanner: Scanner,
    line: u64,
    ended: bool,
    bulk: RowBatch,
    /// Long rows, each with the number of rows of `bulk` before it.
    long: Vec<(usize, NewRow)>,
    long_bytes: usize,
    memory: RowMemory,
    count: u64,
}

impl CopyReceiver {
    /// Begins a COPY into some columns of a table; the defaults are for the others.
    pub fn new(
        table: Arc<TableInfo>,
        columns: Vec<usize>,
        (defaults, rules): (Defaults, RowRules),
        shape: CopyShape,
        options: InsertOptions,
        cx: Arc<StatementCx>,
        cancel: CancelFlag,
    ) -> CopyReceiver {
        let place = |column| columns.iter().position(|c| *c == column);
        CopyReceiver {
            places: (0..table.columns.len()).map(place).collect(),
            table,
            columns,
            defaults,
            rules,
            shape,
            options,
            charge: Reservation::new(&cx.seed.resources.memory),
            cx,
            cancel,
            rest: Vec::new(),
            scanner: Scanner::default(),
            line: 0,
            ended: false,
            bulk: RowBatch::new(),
            long: Vec::new(),
            long_bytes: 0,
            memory: RowMemory::default(),
            count: 0,
        }
    }

    /// Takes a piece of the data, cut anywhere: whether its rows are now to be stored.
    pub fn take(&mut self, data: &[u8]) -> SqlResult<bool> {
        self.cancel.check()?;
        if self.rest.is_empty() {
            let used = self.lines(data)?;
            self.rest.extend_from_slice(&data[used..]);
        } else {
            let mut joined = std::mem::take(&mut self.rest);
            joined.extend_from_slice(data);
            let used = self.lines(&joined)?;
            joined.drain(..used);
            self.rest = joined;
        }
        self.charge.resize(self.rest.capacity())?;
        if self.rest.len() > MAX_LINE {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "a line of COPY data is too long",
            ));
        }
        Ok(self.bulk.bytes() + self.long_bytes >= BULK_BYTES)
    }

    /// The end of the data: the number of rows.
    pub async fn finish(&mut self, txn: &mut Transaction) -> SqlResult<u64> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() && !self.ended {
            if self.scanner.is_quoted() {
                let error = SqlError::new(
                    SqlState::BAD_COPY_FILE_FORMAT,
                    "unterminated CSV quoted field",
                );
                self.line += 1;
                return Err(self.located(error, Place::Number));
            }
            self.one_line(&rest)?;
        }
        self.store(txn).await?;
        Ok(self.count)
    }

    /// Stores the rows that have been taken.
    pub async fn store(&mut self, txn: &mut Transaction) -> SqlResult<()> {
        if self.bulk.is_empty() && self.long.is_empty() {
            return Ok(());
        }
        txn.check_cancel()?;
        let settled = self.settle(txn).await;
        settled.map_err(|error| {
            self.located(
                error.table(&*self.table.schema, &*self.table.name),
                Place::Number,
            )
        })?;
        let inserted = self
            .table
            .table
            .insert_many(txn, &self.bulk, &self.options)
            .await;
        self.bulk.clear();
        let placed = inserted.map_err(|error| {
            let error: SqlError = error.into();
            self.located(
                error.table(&*self.table.schema, &*self.table.name),
                Place::Number,
            )
        })?;
        for key in &self.table.foreign_keys {
            for at in &placed {
                self.cx.seed.resources.events.push(RowEvent {
                    key: key.oid,
                    referred: false,
                    old: None,
                    new: Some(*at),
                })?;
            }
        }
        Ok(())
    }

    /// Stores the large values of long rows, which then take their places among the others.
    async fn settle(&mut self, txn: &mut Transaction) -> SqlResult<()> {
        if self.long.is_empty() {
            return Ok(());
        }
        let others = std::mem::take(&mut self.bulk);
        let mut others = others.iter().enumerate().peekable();
        self.long_bytes = 0;
        for (before, row) in std::mem::take(&mut self.long) {
            while let Some((_, (tid, row))) = others.next_if(|(at, _)| *at < before) {
                self.bulk.push(tid, row);
            }
            let (bytes, _) = settle(&self.table.table, txn, row).await?;
            self.bulk.push(Tid::new(BlockNumber(0), 1), &bytes);
        }
        others.for_each(|(_, (tid, row))| self.bulk.push(tid, row));
        Ok(())
    }

    /// Reads the complete lines of `data`; the number of bytes used.
    fn lines(&mut self, data: &[u8]) -> SqlResult<usize> {
        let mut used = 0;
        while !self.ended {
            let Some(length) = self.scanner.record(&data[used..], &self.shape) else {
                break;
            };
            let line = &data[used..used + length];
            used += length + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.one_line(line)?;
        }
        Ok(if self.ended { data.len() } else { used })
    }

    fn one_line(&mut self, line: &[u8]) -> SqlResult<()> {
        self.line += 1;
        if self.line.is_multiple_of(ROWS_PER_CHECK) {
            self.cancel.check()?;
        }
        // In CSV it is data.
        if self.shape.format == CopyFormat::Text && line == b"\\." {
            self.ended = true;
            return Ok(());
        }
        if self.line == 1 && self.shape.header {
            return Ok(());
        }
        let text =
            text_from_bytes(line).map_err(|error| self.located(error.into(), Place::Number))?;
        self.row(text)?;
        self.count += 1;
        Ok(())
    }

    fn row(&mut self, line: &str) -> SqlResult<()> {
        let table = Arc::clone(&self.table);
        let mut fields = Fields::new();
        match self.shape.format {
            CopyFormat::Text => split_text(line, &self.shape, &mut fields)
                .map_err(|error| self.located(error, Place::Line(line)))?,
            CopyFormat::Csv => split_csv(line, &self.shape, &mut fields),
        }
        if fields.len() > self.columns.len() {
            let error = SqlError::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                "extra data after last expected column",
            );
            return Err(self.located(error, Place::Line(line)));
        }
        if fields.len() < self.columns.len() {
            return Err(self.missing(line, &fields));
        }
        let mut defaults = match self.defaults.programs.as_slice() {
            [] => Vec::new(),
            programs => row::values(programs, &self.cx)?,
        };
        let memory = std::mem::take(&mut self.memory);
        let mut maker = RowMaker::reusing(&table, &self.cx.types, memory);
        for (column, info) in table.columns.iter().enumerate() {
            match self.places[column].map(|place| &fields[place]) {
                Some(Some(text)) => {
                    maker.push(self.value(info, text)?);
                }
                Some(None) => maker.push(Datum::Null),
                None => {
                    let place = self.defaults.places.get(column).copied().flatten();
                    let value = place.and_then(|place| defaults.get_mut(place));
                    maker.push(
                        value.map_or(Datum::Null, |value| std::mem::replace(value, Datum::Null)),
                    );
                }
            }
        }
        let made = maker.finish(&self.rules, &self.cx);
        let made = made.and_then(|long| {
            maker.check(&self.rules.checks, &self.cx)?;
            Ok(long)
        });
        match made.map_err(|error| self.located(error, Place::Line(line)))? {
            None => self.bulk.push(Tid::new(BlockNumber(0), 1), &maker.bytes),
            Some(row) => {
                let bytes = row.bytes();
                let charge = Reservation::of(self.charge.memory(), bytes)?;
                self.long_bytes += bytes;
                let row = NewRow::Long(Box::new(row), charge);
                self.long.push((self.bulk.len(), row));
            }
        }
        self.memory = maker.into_memory();
        Ok(())
    }

    fn value(&self, column: &ColumnInfo, text: &str) -> SqlResult<Datum> {
        let value = Datum::parse_text(column.ty, text, &self.cx.types);
        value.map_err(|error| self.located(error.into(), Place::Field(&column.name, text)))
    }

    /// The error of a line with too few fields, if those that it has are sound.
    fn missing(&self, line: &str, fields: &Fields<'_>) -> SqlError {
        let columns = self
            .columns
            .iter()
            .map(|column| &self.table.columns[*column]);
        for (column, field) in columns.clone().zip(fields) {
            if let Some(text) = field
                && let Err(error) = self.value(column, text)
            {
                return error;
            }
        }
        let name = columns.map(|column| &column.name).nth(fields.len());
        let message = format!(
            "missing data for column \"{}\"",
            name.map_or("", |name| name)
        );
        let error = SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message);
        self.located(error, Place::Line(line))
    }

    fn located(&self, error: SqlError, place: Place<'_>) -> SqlError {
        let (table, line) = (&self.table.name, self.line);
        error.context(match place {
            Place::Number => format!("COPY {table}, line {line}"),
            Place::Line(text) => format!("COPY {table}, line {line}: \"{}\"", shortened(text)),
            Place::Field(column, text) => format!(
                "COPY {table}, line {line}, column {column}: \"{}\"",
                shortened(text)
            ),
        })
    }
}

/// The part of the data that an error is about.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// A line that cannot be shown.
    Number,
    /// A line.
    Line(&'a str),
    /// A field of a line: its column and text.
    Field(&'a str, &'a str),
}

/// Data as an error shows it.
fn shortened(text: &str) -> String {
    match text.len() > SHOWN_BYTES {
        true => format!("{}...", &text[..text.floor_char_boundary(SHOWN_BYTES)]),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn shape(format: CopyFormat) -> CopyShape {
        CopyShape::new(&CopyOptions {
            format,
            ..CopyOptions::default()
        })
    }

    pub(super) fn split(format: CopyFormat, line: &str) -> Vec<Option<String>> {
        let mut out = Fields::new();
        match format {
            CopyFormat::Text => split_text(line, &shape(format), &mut out).unwrap(),
            CopyFormat::Csv => split_csv(line, &shape(format), &mut out),
        }
        out.into_iter()
            .map(|field| field.map(std::borrow::Cow::into_owned))
            .collect()
    }

    pub(super) fn some(texts: &[Option<&str>]) -> Vec<Option<String>> {
        texts.iter().map(|text| text.map(str::to_owned)).collect()
    }
}
