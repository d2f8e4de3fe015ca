//! Which kind of file is accessed.

use std::path::Path;

/// Kinds of files, with the names of `pg_stat_io.object`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoObject {
    /// Pages: relations, maps, transaction status.
    Relation,
    /// Pages of temporary relations.
    TempRelation,
    /// Log segments.
    Wal,
    /// The double-write area.
    DoubleWrite,
    /// Anything else: the control file, files of sorts.
    Other,
}

impl IoObject {
    /// All of them, in the order of their numbers.
    pub const ALL: [IoObject; 5] = [
        IoObject::Relation,
        IoObject::TempRelation,
        IoObject::Wal,
        IoObject::DoubleWrite,
        IoObject::Other,
    ];

    /// The name in `pg_stat_io`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            IoObject::Relation => "relation",
            IoObject::TempRelation => "temp relation",
            IoObject::Wal => "wal",
            IoObject::DoubleWrite => "double-write",
            IoObject::Other => "other",
        }
    }

    /// The object that has the number.
    pub(super) fn of_class(class: u8) -> IoObject {
        IoObject::ALL[usize::from(class) % IoObject::ALL.len()]
    }

    /// By the data directory's layout: the innermost directory or name that tells.
    pub(super) fn of(path: &Path) -> IoObject {
        for part in path.iter().rev().filter_map(|part| part.to_str()) {
            match part {
                "base" | "status" => return IoObject::Relation,
                "temp" => return IoObject::TempRelation,
                "wal" => return IoObject::Wal,
                name if name.starts_with("doublewrite.") => return IoObject::DoubleWrite,
                _ => {}
            }
        }
        IoObject::Other
    }
}
