//! A sequence as the catalog describes it.

use std::sync::Arc;

use evenkeel_engine::sequence::Rule;
use evenkeel_engine::{FileId, Tid};

use super::Oid;
use crate::types::SqlType;

/// GENERATED … AS IDENTITY
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// ALWAYS
    Always,
    /// BY DEFAULT
    ByDefault,
}

impl Identity {
    /// `attidentity`
    pub fn code(self) -> &'static str {
        match self {
            Identity::Always => "a",
            Identity::ByDefault => "d",
        }
    }

    /// The words of SQL.
    pub fn words(self) -> &'static str {
        match self {
            Identity::Always => "ALWAYS",
            Identity::ByDefault => "BY DEFAULT",
        }
    }

    pub(super) fn from_code(code: &str) -> Option<Identity> {
        [Identity::Always, Identity::ByDefault]
            .into_iter()
            .find(|identity| identity.code() == code)
    }
}

/// A sequence. Never changes: another definition is another `SequenceInfo`.
#[derive(Debug, Clone)]
pub struct SequenceInfo {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// Name of its schema.
    pub schema: Arc<str>,
    /// Oid of its schema.
    pub schema_oid: Oid,
    /// Type of its numbers.
    pub ty: SqlType,
    /// START
    pub start: i64,
    /// How it counts.
    pub rule: Rule,
    /// The file of its page.
    pub file: FileId,
    /// The table and the number of the column that it belongs to.
    pub owner: Option<(Oid, i16)>,
    /// Whether that column is an identity.
    pub identity: Option<Identity>,
    /// Its rows in `pg_class` and `pg_sequence`.
    pub(crate) places: [Tid; 2],
}

impl SequenceInfo {
    /// The text that takes its next number.
    pub fn default_text(&self) -> String {
        default_text(self.oid)
    }
}

/// The oid is the sequence's name for as long as it lives, whatever it is renamed to.
pub(super) fn default_text(sequence: Oid) -> String {
    format!("nextval('{sequence}'::oid)")
}
