//! Values of PostgreSQL's protocol: formats, columns, transaction status, notices.

pub use evenkeel_types::Format;

use crate::error::SqlState;
use crate::types::SqlType;

/// PostgreSQL's object id.
pub type Oid = u32;

/// A result column as RowDescription gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: String,
    /// Type oid.
    pub type_oid: Oid,
    /// Type modifier, -1 for none.
    pub typmod: i32,
    /// `typlen`: bytes, or -1 for a type of variable length.
    pub len: i16,
    /// The table the column comes from, or 0.
    pub table_oid: Oid,
    /// The column's number in that table, or 0.
    pub attnum: i16,
}

impl Column {
    /// A result column that is not a table's.
    pub fn of(name: String, ty: SqlType) -> Column {
        Column {
            name,
            type_oid: ty.oid(),
            typmod: ty.typmod(),
            len: ty.wire_len(),
            table_oid: 0,
            attnum: 0,
        }
    }
}

/// The state that ReadyForQuery reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`: no transaction block.
    Idle,
    /// `T`: in a block.
    InBlock,
    /// `E`: in a failed block.
    Failed,
}

impl TransactionStatus {
    /// The byte of ReadyForQuery.
    pub fn as_byte(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InBlock => b'T',
            TransactionStatus::Failed => b'E',
        }
    }
}

/// A notice or warning for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// `NOTICE`, `WARNING`, `INFO`.
    pub severity: &'static str,
    /// The code.
    pub sqlstate: SqlState,
    /// The text.
    pub message: String,
    /// DETAIL
    pub detail: Option<String>,
}

/// The format of a COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyFormat {
    /// Tab-separated with backslash escapes.
    #[default]
    Text,
    /// Comma-separated values.
    Csv,
    /// Tuples of the types' binary forms.
    Binary,
}

impl CopyFormat {
    /// The code of the format and of its columns in CopyInResponse and CopyOutResponse.
    pub fn code(self) -> i16 {
        i16::from(self == CopyFormat::Binary)
    }
}
