//! COPY's text and CSV formats, in both directions.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::InsertOptions;
use evenkeel_engine::{BlockNumber, Tid, Transaction};

use super::StatementCx;
use super::oltp::expr::{Env, Typed};
use super::oltp::insert::{RowMaker, RowMemory};
use crate::catalog::TableInfo;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::planner::utility::CopyOptions;
use crate::session::api::CopyFormat;
use crate::types::{Datum, SqlType, TypeContext};

/// Bytes of rows that are gathered before they are inserted.
const BULK_BYTES: usize = 256 << 10;
/// A line longer than this is refused, as PostgreSQL refuses more than 1 GB.
const MAX_LINE: usize = 1 << 30;

/// The options of a COPY with their defaults filled in.
#[derive(Debug, Clone)]
pub struct CopyShape {
    /// Text or CSV.
    pub format: CopyFormat,
    /// Between fields.
    pub delimiter: u8,
    /// What NULL looks like.
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

/// COPY FROM STDIN under way.
pub struct CopyIn {
    table: Arc<TableInfo>,
    /// The table's columns that the lines have, in their order.
    columns: Vec<usize>,
    /// For each of the table's columns its field in a line.
    places: Vec<Option<usize>>,
    defaults: Vec<Typed>,
    shape: CopyShape,
    options: InsertOptions,
    cx: StatementCx,
    /// What is left of a line whose end has not come yet.
    rest: Vec<u8>,
    line: u64,
    ended: bool,
    bulk: RowBatch,
    memory: RowMemory,
    count: u64,
}

impl CopyIn {
    /// Begins a COPY into some columns of a table; `defaults` has a value for each column.
    pub fn new(
        table: Arc<TableInfo>,
        columns: Vec<usize>,
        defaults: Vec<Typed>,
        shape: CopyShape,
        options: InsertOptions,
        cx: StatementCx,
    ) -> CopyIn {
        let place = |column| columns.iter().position(|c| *c == column);
        CopyIn {
            places: (0..table.columns.len()).map(place).collect(),
            table,
            columns,
            defaults,
            shape,
            options,
            cx,
            rest: Vec::new(),
            line: 0,
            ended: false,
            bulk: RowBatch::new(),
            memory: RowMemory::default(),
            count: 0,
        }
    }

    /// Number of columns.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// The format.
    pub fn format(&self) -> CopyFormat {
        self.shape.format
    }

    /// Takes a piece of the data, cut anywhere: whether its rows are now to be stored.
    pub fn take(&mut self, data: &[u8]) -> SqlResult<bool> {
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
        if self.rest.len() > MAX_LINE {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "a line of COPY data is too long",
            ));
        }
        Ok(self.bulk.bytes() >= BULK_BYTES)
    }

    /// The end of the data: the number of rows.
    pub async fn finish(&mut self, txn: &mut Transaction) -> SqlResult<u64> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() && !self.ended {
            if self.shape.format == CopyFormat::Csv && open_quote(&rest, &self.shape) {
                let error = SqlError::new(
                    SqlState::BAD_COPY_FILE_FORMAT,
                    "unterminated CSV quoted field",
                );
                self.line += 1;
                return Err(self.located(error, None));
            }
            self.one_line(&rest)?;
        }
        self.store(txn).await?;
        Ok(self.count)
    }

    /// Stores the rows that have been taken.
    pub async fn store(&mut self, txn: &mut Transaction) -> SqlResult<()> {
        if self.bulk.is_empty() {
            return Ok(());
        }
        txn.check_cancel()?;
        let inserted = self
            .table
            .table
            .insert_many(txn, &self.bulk, &self.options)
            .await;
        self.bulk.clear();
        inserted.map_err(|error| {
            let error: SqlError = error.into();
            error.table(&*self.table.name).context(self.place(None))
        })
    }

    /// Reads the complete lines of `data`; the number of bytes used.
    fn lines(&mut self, data: &[u8]) -> SqlResult<usize> {
        let mut used = 0;
        while !self.ended {
            let Some(length) = line_length(&data[used..], &self.shape) else {
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
        if line == b"\\." {
            self.ended = true;
            return Ok(());
        }
        if self.line == 1 && self.shape.header {
            return Ok(());
        }
        let text = std::str::from_utf8(line).map_err(|_| {
            let error = SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"UTF8\"",
            );
            self.located(error, None)
        })?;
        self.row(text)?;
        self.count += 1;
        Ok(())
    }

    fn row(&mut self, line: &str) -> SqlResult<()> {
        let table = Arc::clone(&self.table);
        let mut fields: smallvec::SmallVec<[Option<Cow<'_, str>>; 8]> = smallvec::SmallVec::new();
        match self.shape.format {
            CopyFormat::Text => split_text(line, &self.shape, &mut fields),
            CopyFormat::Csv => split_csv(line, &self.shape, &mut fields),
        }
        if fields.len() > self.columns.len() {
            let error = SqlError::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                "extra data after last expected column",
            );
            return Err(self.located(error, None));
        }
        if fields.len() < self.columns.len() {
            let name = &table.columns[self.columns[fields.len()]].name;
            let error = SqlError::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                format!("missing data for column \"{name}\""),
            );
            return Err(self.located(error, None));
        }
        let memory = std::mem::take(&mut self.memory);
        let mut maker = RowMaker::reusing(&table, &self.cx.types, memory);
        maker.begin();
        for (column, info) in table.columns.iter().enumerate() {
            match self.places[column].map(|place| &fields[place]) {
                Some(Some(text)) => {
                    let datum = Datum::parse_text(info.ty, text, &self.cx.types)
                        .map_err(|error| self.located(error, Some((&*info.name, text))))?;
                    maker.push_stored(datum);
                }
                Some(None) => maker.push_stored(Datum::Null),
                None => {
                    let env = Env {
                        params: &[],
                        cx: &self.cx,
                    };
                    let default = &self.defaults[column];
                    let datum = default.eval(None, env)?;
                    maker.push(datum, default.ty)?;
                }
            }
        }
        maker.finish().map_err(|error| self.located(error, None))?;
        self.bulk.push(Tid::new(BlockNumber(0), 1), &maker.bytes);
        self.memory = maker.into_memory();
        Ok(())
    }

    fn place(&self, field: Option<(&str, &str)>) -> String {
        let table = &self.table.name;
        match field {
            None => format!("COPY {table}, line {}", self.line),
            Some((column, text)) => {
                format!(
                    "COPY {table}, line {}, column {column}: \"{text}\"",
                    self.line
                )
            }
        }
    }

    fn located(&self, error: SqlError, field: Option<(&str, &str)>) -> SqlError {
        error.context(self.place(field))
    }
}

/// The length of the first line of `data`, without its line feed; `None` if it is not complete.
fn line_length(data: &[u8], shape: &CopyShape) -> Option<usize> {
    let mut from = 0;
    loop {
        let end = from + memchr::memchr(b'\n', &data[from..])?;
        let incomplete = match shape.format {
            // A backslash before the line feed makes it data.
            CopyFormat::Text => {
                let slashes = data[..end]
                    .iter()
                    .rev()
                    .take_while(|b| **b == b'\\')
                    .count();
                slashes % 2 == 1
            }
            CopyFormat::Csv => open_quote(&data[..end], shape),
        };
        if !incomplete {
            return Some(end);
        }
        from = end + 1;
    }
}

/// Whether a quote is open at the end of some CSV data that begins outside of quotes.
fn open_quote(data: &[u8], shape: &CopyShape) -> bool {
    let mut open = false;
    let mut bytes = data.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if open && byte == shape.escape && shape.escape != shape.quote {
            bytes.next();
        } else if byte == shape.quote {
            open = !open;
        }
    }
    open
}

type Fields<'a> = smallvec::SmallVec<[Option<Cow<'a, str>>; 8]>;

fn split_text<'a>(line: &'a str, shape: &CopyShape, out: &mut Fields<'a>) {
    let bytes = line.as_bytes();
    let mut start = 0;
    let mut at = 0;
    let mut escaped = false;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        match memchr::memchr2(shape.delimiter, b'\\', rest) {
            Some(next) if rest[next] != shape.delimiter => {
                escaped = true;
                at += next + 2;
                continue;
            }
            next => at += next.unwrap_or(rest.len()),
        }
        let field = &line[start..at.min(bytes.len())];
        if field == shape.null {
            out.push(None);
        } else if escaped {
            out.push(Some(Cow::Owned(unescape(field))));
        } else {
            out.push(Some(Cow::Borrowed(field)));
        }
        if at >= bytes.len() {
            return;
        }
        at += 1;
        start = at;
        escaped = false;
    }
}

fn unescape(field: &str) -> String {
    let mut out = Vec::with_capacity(field.len());
    let mut bytes = field.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            None => out.push(b'\\'),
            Some(b'b') => out.push(8),
            Some(b'f') => out.push(12),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(b'v') => out.push(11),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(next @ b'0'..=b'7') = bytes.peek().copied() else {
                        break;
                    };
                    value = value * 8 + u32::from(next - b'0');
                    bytes.next();
                }
                // As in PostgreSQL, bits above a byte are lost.
                out.push((value & 0xff) as u8);
            }
            Some(b'x') => {
                let mut value = None;
                for _ in 0..2 {
                    let Some(next) = bytes.peek().and_then(|b| (*b as char).to_digit(16)) else {
                        break;
                    };
                    value = Some(value.unwrap_or(0) * 16 + next);
                    bytes.next();
                }
                out.push(value.map_or(b'x', |value| (value & 0xff) as u8));
            }
            Some(other) => out.push(other),
        }
    }
    String::from_utf8(out).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into())
}

fn split_csv<'a>(line: &'a str, shape: &CopyShape, out: &mut Fields<'a>) {
    let bytes = line.as_bytes();
    let mut at = 0;
    loop {
        let start = at;
        let mut quoted = false;
        let mut open = false;
        while let Some(byte) = bytes.get(at) {
            if open && *byte == shape.escape && shape.escape != shape.quote {
                at += 1;
            } else if *byte == shape.quote {
                quoted = true;
                open = !open;
            } else if *byte == shape.delimiter && !open {
                break;
            }
            at += 1;
        }
        let at_end = at.min(bytes.len());
        let field = &line[start..at_end];
        if !quoted && field == shape.null {
            out.push(None);
        } else if quoted {
            out.push(Some(Cow::Owned(unquote(field, shape))));
        } else {
            out.push(Some(Cow::Borrowed(field)));
        }
        if at >= bytes.len() {
            return;
        }
        at += 1;
    }
}

fn unquote(field: &str, shape: &CopyShape) -> String {
    let (quote, escape) = (char::from(shape.quote), char::from(shape.escape));
    let mut out = String::with_capacity(field.len());
    let mut open = false;
    let mut chars = field.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        if open && c == escape && matches!(next, Some(n) if n == quote || n == escape) {
            out.extend(chars.next());
        } else if c == quote {
            open = !open;
        } else {
            out.push(c);
        }
    }
    out
}

/// Writes rows in COPY's formats.
pub struct TextWriter {
    shape: CopyShape,
    types: TypeContext,
}

impl TextWriter {
    /// A writer of a shape.
    pub fn new(shape: CopyShape, types: TypeContext) -> TextWriter {
        TextWriter { shape, types }
    }

    /// Appends a line.
    pub fn row(&self, row: &[Datum], types: &[SqlType], out: &mut BytesMut) {
        for (number, (datum, ty)) in row.iter().zip(types).enumerate() {
            if number > 0 {
                out.put_u8(self.shape.delimiter);
            }
            if datum.is_null() {
                out.put_slice(self.shape.null.as_bytes());
            } else {
                self.field(&datum.to_text(*ty, &self.types), out);
            }
        }
        out.put_u8(b'\n');
    }

    /// Appends a header line.
    pub fn names<'n>(&self, names: impl Iterator<Item = &'n str>, out: &mut BytesMut) {
        for (number, name) in names.enumerate() {
            if number > 0 {
                out.put_u8(self.shape.delimiter);
            }
            self.field(name, out);
        }
        out.put_u8(b'\n');
    }

    fn field(&self, text: &str, out: &mut BytesMut) {
        match self.shape.format {
            CopyFormat::Text => self.escaped(text, out),
            CopyFormat::Csv => self.quoted(text, out),
        }
    }

    fn escaped(&self, text: &str, out: &mut BytesMut) {
        for byte in text.bytes() {
            let letter = match byte {
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                b'\\' => b'\\',
                other if other == self.shape.delimiter => other,
                other => {
                    out.put_u8(other);
                    continue;
                }
            };
            out.put_slice(&[b'\\', letter]);
        }
    }

    fn quoted(&self, text: &str, out: &mut BytesMut) {
        let special = |byte: u8| {
            byte == self.shape.delimiter
                || byte == self.shape.quote
                || byte == b'\n'
                || byte == b'\r'
        };
        if text != self.shape.null && !text.is_empty() && !text.bytes().any(special) {
            out.put_slice(text.as_bytes());
            return;
        }
        out.put_u8(self.shape.quote);
        for byte in text.bytes() {
            if byte == self.shape.quote || byte == self.shape.escape {
                out.put_u8(self.shape.escape);
            }
            out.put_u8(byte);
        }
        out.put_u8(self.shape.quote);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(format: CopyFormat) -> CopyShape {
        CopyShape::new(&CopyOptions {
            format,
            ..CopyOptions::default()
        })
    }

    fn split(format: CopyFormat, line: &str) -> Vec<Option<String>> {
        let mut out = Fields::new();
        match format {
            CopyFormat::Text => split_text(line, &shape(format), &mut out),
            CopyFormat::Csv => split_csv(line, &shape(format), &mut out),
        }
        out.into_iter()
            .map(|field| field.map(Cow::into_owned))
            .collect()
    }

    fn some(texts: &[Option<&str>]) -> Vec<Option<String>> {
        texts.iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn text_fields_are_split_and_unescaped() {
        assert_eq!(
            split(CopyFormat::Text, "1\t\\N\t\ta\\tb\\\\N\\101\\x41"),
            some(&[Some("1"), None, Some(""), Some("a\tb\\NAA")])
        );
        assert_eq!(split(CopyFormat::Text, ""), some(&[Some("")]));
    }

    #[test]
    fn csv_fields_are_split_and_unquoted() {
        assert_eq!(
            split(CopyFormat::Csv, "1,,\"\",\"a,\"\"b\"\"\",c\"d\"e"),
            some(&[Some("1"), None, Some(""), Some("a,\"b\""), Some("cde")])
        );
    }

    #[test]
    fn a_line_ends_at_the_first_line_feed_that_is_not_data() {
        let text = shape(CopyFormat::Text);
        assert_eq!(line_length(b"a\\\nb\nc", &text), Some(4));
        assert_eq!(line_length(b"a\\\\\nb", &text), Some(3));
        assert_eq!(line_length(b"abc", &text), None);
        let csv = shape(CopyFormat::Csv);
        assert_eq!(line_length(b"\"a\nb\",c\nd", &csv), Some(7));
    }

    #[test]
    fn what_is_written_reads_back() {
        let rows = ["", "a\tb", "\\N", "x,\"y\"\nz", "\\."];
        for format in [CopyFormat::Text, CopyFormat::Csv] {
            for text in rows {
                let writer = TextWriter::new(shape(format), TypeContext::default());
                let mut out = BytesMut::new();
                writer.row(
                    &[Datum::from(text), Datum::Null],
                    &[SqlType::Text; 2],
                    &mut out,
                );
                let line = std::str::from_utf8(&out)
                    .unwrap()
                    .strip_suffix('\n')
                    .unwrap();
                assert_eq!(split(format, line), some(&[Some(text), None]), "{format:?}");
            }
        }
    }
}
