//! Foreign keys as the catalog knows them.

use std::sync::Arc;

use evenkeel_engine::Tid;
use evenkeel_planner::ast::KeyAction;

use super::{NOWHERE, Oid};

/// A foreign key. It belongs to the table that refers.
#[derive(Debug, Clone)]
pub struct ForeignKeyInfo {
    /// Oid.
    pub oid: Oid,
    /// Name.
    pub name: Arc<str>,
    /// The table that it refers to.
    pub parent: Oid,
    /// The unique index by which rows of that table are found.
    pub index: Oid,
    /// Numbers of its columns in its own table.
    pub columns: Vec<i16>,
    /// Numbers of the columns of the other table that they refer to.
    pub referenced: Vec<i16>,
    /// `MATCH FULL`
    pub full: bool,
    /// `ON DELETE`
    pub on_delete: KeyAction,
    /// The columns that ON DELETE SET NULL and SET DEFAULT set; none for all.
    pub set_columns: Vec<i16>,
    /// `ON UPDATE`
    pub on_update: KeyAction,
    /// `DEFERRABLE`
    pub deferrable: bool,
    /// `INITIALLY DEFERRED`
    pub deferred: bool,
    /// Whether every row is known to keep to it: not yet, after NOT VALID.
    pub valid: bool,
    /// Its row in `evenkeel_foreign_key`.
    pub(crate) place: Tid,
}

/// The code of an action in `pg_constraint`.
pub fn action_code(action: KeyAction) -> &'static str {
    match action {
        KeyAction::NoAction => "a",
        KeyAction::Restrict => "r",
        KeyAction::Cascade => "c",
        KeyAction::SetNull => "n",
        KeyAction::SetDefault => "d",
    }
}

/// The action of a code.
pub(super) fn action_of(code: char) -> Option<KeyAction> {
    Some(match code {
        'a' => KeyAction::NoAction,
        'r' => KeyAction::Restrict,
        'c' => KeyAction::Cascade,
        'n' => KeyAction::SetNull,
        'd' => KeyAction::SetDefault,
        _ => return None,
    })
}

impl ForeignKeyInfo {
    /// One without name and place, that does nothing but refuse.
    pub fn unnamed(parent: Oid, index: Oid, columns: Vec<i16>, referenced: Vec<i16>) -> Self {
        ForeignKeyInfo {
            oid: 0,
            name: Arc::from(""),
            parent,
            index,
            columns,
            referenced,
            full: false,
            on_delete: KeyAction::NoAction,
            set_columns: Vec::new(),
            on_update: KeyAction::NoAction,
            deferrable: false,
            deferred: false,
            valid: true,
            place: NOWHERE,
        }
    }
}
