//! The form of COPY's data.

use crate::parser::copy_options::{CopyHeader, CopyOptions};
use crate::protocol::CopyFormat;

/// The options of a COPY with their defaults filled in.
#[derive(Debug, Clone)]
pub struct CopyShape {
    /// The format.
    pub format: CopyFormat,
    /// Between fields.
    pub delimiter: u8,
    /// Text that stands for NULL.
    pub null: String,
    /// Text that stands for the column's default.
    pub default: Option<String>,
    /// CSV's quote.
    pub quote: u8,
    /// CSV's escape within quotes.
    pub escape: u8,
    /// The first line.
    pub header: CopyHeader,
    /// The fields, by number, that CSV always quotes; those beyond its end are not among them.
    pub force_quote: Vec<bool>,
    /// The fields that are never NULL.
    pub force_not_null: Vec<bool>,
    /// The fields that are NULL in quotes too.
    pub force_null: Vec<bool>,
}

impl CopyShape {
    /// The shape for some options, but for the fields that they name.
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
            default: options.default.clone(),
            quote,
            escape: byte(options.escape, quote),
            header: options.header,
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        }
    }

    /// Whether a field is among those that an option names.
    pub(super) fn has(fields: &[bool], number: usize) -> bool {
        fields.get(number).copied().unwrap_or(false)
    }

    /// Whether the text stands for the column's default.
    pub(super) fn is_default(&self, text: &str) -> bool {
        self.default.as_deref() == Some(text)
    }
}
