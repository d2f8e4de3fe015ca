//! Comments on objects, and the objects that have them.

use std::sync::Arc;

use evenkeel_engine::Tid;

use super::Oid;

/// `pg_class`
pub const CLASS: Oid = 1259;
/// `pg_constraint`
pub const CONSTRAINTS: Oid = 2606;
/// `pg_namespace`
pub const NAMESPACES: Oid = 2615;
/// `pg_database`
pub const DATABASES: Oid = 1262;
/// `pg_extension`
pub const EXTENSIONS: Oid = 3079;

/// `pg_type`
pub const TYPES: Oid = 1247;

/// The extension that every database has.
pub const PLPGSQL: Oid = 12_771;

/// An object that has a comment: the catalog that it is in, and its oid; of a column the table's
/// oid and its number, which is 0 for all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// Oid of the catalog.
    pub class: Oid,
    /// Oid in it.
    pub object: Oid,
    /// Number of a column.
    pub column: i16,
}

impl Subject {
    /// A whole object.
    pub fn of(class: Oid, object: Oid) -> Subject {
        Subject {
            class,
            object,
            column: 0,
        }
    }
}

/// A comment.
#[derive(Debug)]
pub struct CommentInfo {
    /// `None`: the one that the object has in a new database was taken away.
    pub text: Option<Arc<str>>,
    pub(super) place: Tid,
}
