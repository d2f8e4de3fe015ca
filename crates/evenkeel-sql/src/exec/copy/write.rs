//! Rows to COPY's data.

use bytes::{BufMut, BytesMut};

use super::{CopyShape, binary};
use crate::error::SqlResult;
use crate::parser::copy_options::CopyHeader;
use crate::protocol::CopyFormat;
use crate::types::{Datum, SqlType, TypeContext};

/// Writes rows in COPY's formats.
pub struct CopyWriter {
    shape: CopyShape,
    types: TypeContext,
}

impl CopyWriter {
    /// A writer of a shape.
    pub fn new(shape: CopyShape, types: TypeContext) -> CopyWriter {
        CopyWriter { shape, types }
    }

    /// The format.
    pub fn format(&self) -> CopyFormat {
        self.shape.format
    }

    /// Appends what comes before the rows.
    pub fn begin<'n>(&self, names: impl Iterator<Item = &'n str>, out: &mut BytesMut) {
        if self.shape.format == CopyFormat::Binary {
            binary::write_header(out);
        } else if self.shape.header != CopyHeader::Absent {
            self.names(names, out);
        }
    }

    /// Appends what comes behind them.
    pub fn end(&self, out: &mut BytesMut) {
        if self.shape.format == CopyFormat::Binary {
            binary::write_end(out);
        }
    }

    /// Appends a row.
    ///
    /// # Errors
    /// 54000 for a value that the format has no length for.
    pub fn row(&self, row: &[Datum], types: &[SqlType], out: &mut BytesMut) -> SqlResult<()> {
        if self.shape.format == CopyFormat::Binary {
            return binary::write_tuple(row, types, out);
        }
        let alone = row.len() == 1;
        for (number, (datum, ty)) in row.iter().zip(types).enumerate() {
            if number > 0 {
                out.put_u8(self.shape.delimiter);
            }
            if datum.is_null() {
                out.put_slice(self.shape.null.as_bytes());
            } else {
                let quote = CopyShape::has(&self.shape.force_quote, number);
                self.field(&datum.to_text(*ty, &self.types), (alone, quote), out);
            }
        }
        out.put_u8(b'\n');
        Ok(())
    }

    fn names<'n>(&self, names: impl Iterator<Item = &'n str>, out: &mut BytesMut) {
        for (number, name) in names.enumerate() {
            if number > 0 {
                out.put_u8(self.shape.delimiter);
            }
            self.field(name, (false, false), out);
        }
        out.put_u8(b'\n');
    }

    /// Appends a field; `alone` if it is its line's only one, `quote` if CSV is to quote it.
    fn field(&self, text: &str, (alone, quote): (bool, bool), out: &mut BytesMut) {
        match self.shape.format {
            CopyFormat::Text => self.escaped(text, out),
            // Clients take a line of `\.` for the end of the data.
            CopyFormat::Csv | CopyFormat::Binary => {
                self.csv(text, quote || (alone && text == "\\."), out);
            }
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

    fn csv(&self, text: &str, quote: bool, out: &mut BytesMut) {
        let special = |byte: u8| {
            byte == self.shape.delimiter
                || byte == self.shape.quote
                || byte == b'\n'
                || byte == b'\r'
        };
        let quote = quote || text == self.shape.null || text.is_empty();
        if !quote && !text.bytes().any(special) {
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
    use super::super::tests::{shape, some, split};
    use super::*;

    fn written(format: CopyFormat, row: &[Datum]) -> String {
        let writer = CopyWriter::new(shape(format), TypeContext::default());
        let mut out = BytesMut::new();
        let types = vec![SqlType::Text; row.len()];
        writer.row(row, &types, &mut out).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn what_is_written_reads_back() {
        let rows = ["", "a\tb", "\\N", "x,\"y\"\nz", "\\."];
        for format in [CopyFormat::Text, CopyFormat::Csv] {
            for text in rows {
                let line = written(format, &[text.into(), Datum::Null]);
                let line = line.strip_suffix('\n').unwrap();
                assert_eq!(split(format, line), some(&[Some(text), None]), "{format:?}");
            }
        }
    }

    #[test]
    fn no_line_of_csv_is_taken_for_the_end_of_the_data() {
        assert_eq!(written(CopyFormat::Csv, &["\\.".into()]), "\"\\.\"\n");
        let two = written(CopyFormat::Csv, &["\\.".into(), "a".into()]);
        assert_eq!(two, "\\.,a\n");
    }
}
