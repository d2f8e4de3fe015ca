//! COPY's formats, in both directions.

mod binary;
mod maker;
mod records;
mod shape;
mod write;

use std::sync::Arc;

use evenkeel_engine::memory::Reservation;
use evenkeel_engine::table::InsertOptions;
use evenkeel_engine::{CancelFlag, Doubt, EngineError, Tid, Transaction};
use evenkeel_exec::{Role, RowEvent};
use evenkeel_expr::program::Program;

use super::StatementCx;
use super::row::{self, RowRules};
use crate::catalog::{ColumnInfo, Oid, TableInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser::copy_options::{CopyHeader, CopyVerbosity};
use crate::protocol::CopyFormat;
use crate::types::{Datum, SqlType, text_from_bytes};
use binary::{BinaryFields, Item};
use evenkeel_exec::{NewRow, NewRows};
use maker::{RowMaker, RowMemory};
use records::{Field, Fields, Scanner, split_csv, split_text};

pub use shape::CopyShape;
pub use write::CopyWriter;

/// Bytes of rows that are gathered before they are inserted.
const BULK_BYTES: usize = 256 << 10;
/// A line longer than this is refused, as PostgreSQL refuses more than 1 GB.
const MAX_LINE: usize = 1 << 30;
/// Rows between looks at the cancel flag.
const ROWS_PER_CHECK: u64 = 1024;
/// Bytes of the data that an error shows.
const SHOWN_BYTES: usize = 100;

/// The defaults of the columns that lines do not have: for each of the table's columns which of the
/// programs gives its value, if any does.
#[derive(Default)]
pub struct Defaults {
    /// By column.
    pub places: Vec<Option<usize>>,
    /// Evaluated for every row, in their order.
    pub programs: Vec<Program>,
    /// Those of the columns that lines have, by field: evaluated where the line says so.
    pub marked: Vec<Option<Program>>,
}

/// The values that rows get and must have.
#[derive(Default)]
pub struct CopyRules {
    /// The defaults.
    pub defaults: Defaults,
    /// Generated columns and CHECK constraints.
    pub rules: RowRules,
    /// WHERE: the rows that are taken.
    pub filter: Option<Program>,
    /// ON_ERROR ignore.
    pub skip: Option<Skip>,
    /// The programs over a row that ask the domains of its columns, by position.
    pub domains: Vec<(usize, Program)>,
}

/// The treatment of rows whose fields are no values of their columns' types.
#[derive(Debug, Clone, Copy)]
pub struct Skip {
    /// So many are passed over at most.
    pub limit: Option<u64>,
    /// The notices of them.
    pub verbosity: CopyVerbosity,
}

/// COPY FROM STDIN under way.
pub struct CopyReceiver {
    table: Arc<TableInfo>,
    /// The table's columns that the lines have, in their order.
    columns: Vec<usize>,
    /// For each of the table's columns its field in a line.
    places: Vec<Option<usize>>,
    rules: CopyRules,
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
    /// Whether the header of the binary format was read.
    begun: bool,
    ended: bool,
    /// Rows that are yet to be stored, and the number of each one's line.
    rows: NewRows,
    lines: Vec<u64>,
    memory: RowMemory,
    count: u64,
    /// Rows that were passed over.
    skipped: u64,
    /// Texts for the client.
    notices: Vec<String>,
}

impl CopyReceiver {
    /// Begins a COPY into some columns of a table; the defaults are for the others.
    pub fn new(
        table: Arc<TableInfo>,
        columns: Vec<usize>,
        rules: CopyRules,
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
            rules,
            shape,
            options,
            charge: Reservation::new(&cx.seed.resources.memory),
            cx,
            cancel,
            rest: Vec::new(),
            scanner: Scanner::default(),
            line: 0,
            begun: false,
            ended: false,
            rows: NewRows::default(),
            lines: Vec::new(),
            memory: RowMemory::default(),
            count: 0,
            skipped: 0,
            notices: Vec::new(),
        }
    }

    /// Takes a piece of the data, cut anywhere: whether its rows are now to be stored.
    pub fn take(&mut self, data: &[u8]) -> SqlResult<bool> {
        self.cancel.check()?;
        if self.rest.is_empty() {
            let used = self.records(data)?;
            self.rest.extend_from_slice(&data[used..]);
        } else {
            let mut joined = std::mem::take(&mut self.rest);
            joined.extend_from_slice(data);
            let used = self.records(&joined)?;
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
        Ok(self.rows.bytes() >= BULK_BYTES)
    }

    /// The end of the data: the number of rows.
    pub async fn finish(&mut self, txn: &mut Transaction) -> SqlResult<u64> {
        let rest = std::mem::take(&mut self.rest);
        if self.shape.format == CopyFormat::Binary {
            self.end_of_tuples(&rest)?;
        } else if !rest.is_empty() && !self.ended {
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
        let silent = |skip: Skip| skip.verbosity == CopyVerbosity::Silent;
        if self.skipped > 0 && !self.rules.skip.is_some_and(silent) {
            let rows = if self.skipped == 1 {
                "row was"
            } else {
                "rows were"
            };
            self.notices.push(format!(
                "{} {rows} skipped due to data type incompatibility",
                self.skipped
            ));
        }
        Ok(self.count)
    }

    /// The notices since the last call.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Stores the rows that have been taken.
    pub async fn store(&mut self, txn: &mut Transaction) -> SqlResult<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        txn.check_cancel()?;
        let table = Arc::clone(&self.table);
        let mut rows = std::mem::take(&mut self.rows);
        let lines = std::mem::take(&mut self.lines);
        let settled = rows.settle(&table.table, txn).await;
        let settled = settled.map_err(|error| self.unstored(error.into()))?;
        let inserted = table.table.insert_many(txn, settled, &self.options).await;
        let placed = match inserted {
            Ok(placed) => placed,
            Err(EngineError::UniqueViolation { index, row }) => {
                self.line = lines.get(row).copied().unwrap_or(self.line);
                let bytes = (row < settled.len()).then(|| settled.row(row));
                let error = self.taken(
                    &index,
                    bytes,
                    EngineError::UniqueViolation {
                        index: index.clone(),
                        row,
                    }
                    .into(),
                );
                return Err(self.unstored(error));
            }
            Err(error) => return Err(self.unstored(error.into())),
        };
        rows.clear();
        self.rows = rows;
        self.note_all(&placed, txn.take_doubts())
    }

    /// The error of rows that could not be stored.
    fn unstored(&self, error: SqlError) -> SqlError {
        let error = error.table(&*self.table.schema, &*self.table.name);
        self.located(error, Place::Number)
    }

    /// The error of a row whose key another one has.
    fn taken(&self, index: &str, row: Option<&[u8]>, error: SqlError) -> SqlError {
        let mut indexes = self.table.indexes.iter();
        let Some(index) = indexes.find(|known| *known.name == *index) else {
            return error;
        };
        let types = &self.cx.types;
        let key = row.and_then(|row| index.described(&self.table.columns, row, types).ok()?);
        let error = error.constraint(&*index.name);
        match key {
            Some(key) => error.detail(format!("{key} already exists.")),
            None => error,
        }
    }

    /// Queues the events of rows that were stored, those of each row in the order of PostgreSQL's
    /// triggers. The doubts are in the order of the rows.
    fn note_all(&self, placed: &[Tid], doubts: Vec<Doubt>) -> SqlResult<()> {
        let table = &self.table;
        if table.foreign_keys.is_empty() && doubts.is_empty() {
            return Ok(());
        }
        let mut doubts = doubts.into_iter().peekable();
        for at in placed {
            let mut others = Vec::new();
            while let Some(doubt) = doubts.next_if(|doubt| doubt.tid == *at) {
                let index = table.indexes.get(doubt.index);
                let index = index.ok_or_else(|| SqlError::internal("an index is not there"))?;
                match index.primary {
                    true => self.note(index.oid, Role::Doubtful, *at)?,
                    false => others.push(index.oid),
                }
            }
            for key in &table.foreign_keys {
                self.note(key.oid, Role::Refers, *at)?;
            }
            for index in others {
                self.note(index, Role::Doubtful, *at)?;
            }
        }
        Ok(())
    }

    /// Queues an event of a row that was stored.
    fn note(&self, key: Oid, role: Role, at: Tid) -> SqlResult<()> {
        Ok(self.cx.seed.resources.events.push(RowEvent {
            key,
            role,
            old: None,
            new: Some(at),
        })?)
    }

    /// Reads the complete records of `data`; the number of bytes used.
    fn records(&mut self, data: &[u8]) -> SqlResult<usize> {
        match self.shape.format {
            CopyFormat::Binary => self.tuples(data),
            CopyFormat::Text | CopyFormat::Csv => self.lines(data),
        }
    }

    /// Reads the complete tuples of `data`; the number of bytes used.
    fn tuples(&mut self, data: &[u8]) -> SqlResult<usize> {
        let mut used = 0;
        if !self.begun {
            let Item::Header(length) = binary::header(data)? else {
                return Ok(0);
            };
            self.begun = true;
            used = length;
        }
        let mut fields = BinaryFields::new();
        while !self.ended && used < data.len() {
            self.line += 1;
            if self.line.is_multiple_of(ROWS_PER_CHECK) {
                self.cancel.check()?;
            }
            let item = binary::tuple(&data[used..], self.columns.len(), &mut fields);
            match item.map_err(|error| self.located(error, Place::Number))? {
                Item::Tuple(length) => {
                    self.binary_row(&fields)?;
                    used += length;
                }
                Item::End(length) => {
                    self.ended = true;
                    used += length;
                }
                Item::Header(_) | Item::Incomplete => {
                    self.line -= 1;
                    return Ok(used);
                }
            }
        }
        if self.ended && used < data.len() {
            let error = SqlError::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                "received copy data after EOF marker",
            );
            return Err(self.located(error, Place::Number));
        }
        Ok(used)
    }

    /// The end of the data, of which `rest` was not used.
    fn end_of_tuples(&mut self, rest: &[u8]) -> SqlResult<()> {
        if !self.begun {
            return Err(binary::short_header(rest));
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.line += 1;
        Err(self.located(binary::short_tuple(), Place::Number))
    }

    fn binary_row(&mut self, fields: &BinaryFields<'_>) -> SqlResult<()> {
        let mut values = Vec::with_capacity(fields.len());
        for (at, (column, field)) in self.columns.iter().zip(fields).enumerate() {
            let info = &self.table.columns[*column];
            let value = match field {
                None => Ok(Datum::Null),
                Some(bytes) => Datum::parse_binary(info.ty, bytes).map_err(SqlError::from),
            };
            let value = value.and_then(|value| self.allowed(at, value));
            let place = Place::Column(&info.name);
            values.push(value.map_err(|error| self.located(error, place))?);
        }
        self.made(values, Place::Number)
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
        let text =
            text_from_bytes(line).map_err(|error| self.located(error.into(), Place::Number))?;
        match self.shape.header {
            CopyHeader::Match if self.line == 1 => self.check_header(text),
            CopyHeader::Present if self.line == 1 => Ok(()),
            _ => self.row(text),
        }
    }

    fn split<'l>(&self, line: &'l str) -> SqlResult<Fields<'l>> {
        let mut fields = Fields::new();
        match self.shape.format {
            CopyFormat::Text => split_text(line, &self.shape, &mut fields)
                .map_err(|error| self.located(error, Place::Line(line)))?,
            CopyFormat::Csv | CopyFormat::Binary => split_csv(line, &self.shape, &mut fields),
        }
        Ok(fields)
    }

    /// HEADER match: refuses a first line that has not the columns' names.
    fn check_header(&self, line: &str) -> SqlResult<()> {
        let fields = self.split(line)?;
        let refused = |message: String| {
            let error = SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message);
            Err(self.located(error, Place::Line(line)))
        };
        let (got, expected) = (fields.len(), self.columns.len());
        if got != expected {
            return refused(format!(
                "wrong number of fields in header line: got {got}, expected {expected}"
            ));
        }
        for (number, (field, column)) in (1..).zip(fields.iter().zip(&self.columns)) {
            let expected = &self.table.columns[*column].name;
            let got = match field {
                Field::Text(got) if **got == **expected => continue,
                Field::Text(got) => format!("\"{got}\""),
                Field::Default => format!("\"{}\"", self.shape.default.as_deref().unwrap_or("")),
                Field::Null => format!("null value (\"{}\")", self.shape.null),
            };
            return refused(format!(
                "column name mismatch in header line field {number}: got {got}, expected \
                 \"{expected}\""
            ));
        }
        Ok(())
    }

    fn row(&mut self, line: &str) -> SqlResult<()> {
        let table = Arc::clone(&self.table);
        let fields = self.split(line)?;
        let refused = |message: String| SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message);
        if fields.len() > self.columns.len() {
            let error = refused("extra data after last expected column".to_owned());
            return Err(self.located(error, Place::Line(line)));
        }
        let mut values = Vec::with_capacity(self.columns.len());
        for at in 0..self.columns.len() {
            let info = &table.columns[self.columns[at]];
            values.push(match fields.get(at) {
                Some(Field::Text(text)) => match self.field(at, info.ty, text) {
                    Ok(value) => value,
                    Err(error) => {
                        let place = Place::Field(&info.name, text);
                        return self.skip(error, (&info.name, text), place);
                    }
                },
                Some(Field::Null) => match self.allowed(at, Datum::Null) {
                    Ok(null) => null,
                    Err(error) => {
                        let place = Place::Null(&info.name);
                        return self.skip(error, (&info.name, ""), place);
                    }
                },
                Some(Field::Default) => self.default_of(at, info, line)?,
                None => {
                    let message = format!("missing data for column \"{}\"", info.name);
                    return Err(self.located(refused(message), Place::Line(line)));
                }
            });
        }
        self.made(values, Place::Line(line))
    }

    /// The value of a field.
    fn field(&self, at: usize, ty: SqlType, text: &str) -> SqlResult<Datum> {
        let value = Datum::parse_text(ty, text, &self.cx.types)?;
        self.allowed(at, value)
    }

    /// A value of a field, once the domain of its column has allowed it.
    fn allowed(&self, at: usize, value: Datum) -> SqlResult<Datum> {
        let column = self.columns.get(at).copied();
        let mut domains = self.rules.domains.iter();
        let Some((column, program)) = domains.find(|(of, _)| Some(*of) == column) else {
            return Ok(value);
        };
        let mut row = vec![Datum::Null; *column];
        row.push(value);
        row::over_row(program, &row, &self.cx)
    }

    /// Passes a row over whose field is no value of its type, if that is asked for.
    fn skip(
        &mut self,
        error: SqlError,
        (column, text): (&str, &str),
        place: Place<'_>,
    ) -> SqlResult<()> {
        let Some(skip) = self.rules.skip else {
            return Err(self.located(error, place));
        };
        self.skipped += 1;
        if skip.verbosity == CopyVerbosity::Verbose {
            self.notices.push(format!(
                "skipping row due to data type incompatibility at line {} for column \"{column}\": \
                 \"{}\"",
                self.line,
                shortened(text)
            ));
        }
        match skip.limit {
            Some(limit) if self.skipped > limit => {
                let message = format!(
                    "skipped more than REJECT_LIMIT ({limit}) rows due to data type incompatibility"
                );
                let error = SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message);
                Err(self.located(error, place))
            }
            _ => Ok(()),
        }
    }

    /// The default of a field's column, in a line that asks for it.
    fn default_of(&self, field: usize, column: &ColumnInfo, line: &str) -> SqlResult<Datum> {
        let program = self
            .rules
            .defaults
            .marked
            .get(field)
            .and_then(Option::as_ref);
        let Some(program) = program else {
            let error = SqlError::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                "unexpected default marker in COPY data",
            );
            let detail = format!("Column \"{}\" has no default value.", column.name);
            return Err(self.located(error.detail(detail), Place::Line(line)));
        };
        let mut made = row::values(std::slice::from_ref(program), &self.cx)?;
        Ok(made.pop().unwrap_or(Datum::Null))
    }

    /// Makes a row of the values of the columns that the data has.
    fn made(&mut self, mut values: Vec<Datum>, at: Place<'_>) -> SqlResult<()> {
        let table = Arc::clone(&self.table);
        let mut defaults = match self.rules.defaults.programs.as_slice() {
            [] => Vec::new(),
            programs => row::values(programs, &self.cx)?,
        };
        let memory = std::mem::take(&mut self.memory);
        let mut maker = RowMaker::reusing(&table, &self.cx.types, memory);
        for column in 0..table.columns.len() {
            let value = match self.places[column] {
                Some(place) => values.get_mut(place),
                None => {
                    let place = self.rules.defaults.places.get(column).copied().flatten();
                    place.and_then(|place| defaults.get_mut(place))
                }
            };
            let take = |value: &mut Datum| std::mem::replace(value, Datum::Null);
            maker.push(value.map_or(Datum::Null, take));
        }
        if let Some(filter) = &self.rules.filter {
            let taken = maker.takes(filter, &self.cx);
            if !taken.map_err(|error| self.located(error, at))? {
                self.memory = maker.into_memory();
                return Ok(());
            }
        }
        let made = maker.finish(&self.rules.rules, &self.cx);
        let made = made.and_then(|long| {
            maker.check(&self.rules.rules.checks, &self.cx)?;
            Ok(long)
        });
        match made.map_err(|error| self.located(error, at))? {
            None => self.rows.push_bytes(&maker.bytes),
            Some(row) => {
                let charge = Reservation::of(self.charge.memory(), row.bytes())?;
                self.rows.push(NewRow::Long(Box::new(row), charge));
            }
        }
        self.memory = maker.into_memory();
        self.lines.push(self.line);
        self.count += 1;
        Ok(())
    }

    fn located(&self, error: SqlError, place: Place<'_>) -> SqlError {
        let (table, line) = (&self.table.name, self.line);
        error.context(match place {
            Place::Number => format!("COPY {table}, line {line}"),
            Place::Line(text) => format!("COPY {table}, line {line}: \"{}\"", shortened(text)),
            Place::Null(column) => {
                format!("COPY {table}, line {line}, column {column}: null input")
            }
            Place::Column(column) => format!("COPY {table}, line {line}, column {column}"),
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
    /// NULL in a column.
    Null(&'a str),
    /// A field that cannot be shown: its column.
    Column(&'a str),
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
    use crate::parser::copy_options::CopyOptions;

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
            CopyFormat::Csv | CopyFormat::Binary => split_csv(line, &shape(format), &mut out),
        }
        out.into_iter()
            .map(|field| match field {
                Field::Text(text) => Some(text.into_owned()),
                Field::Null | Field::Default => None,
            })
            .collect()
    }

    pub(super) fn some(texts: &[Option<&str>]) -> Vec<Option<String>> {
        texts.iter().map(|text| text.map(str::to_owned)).collect()
    }
}
