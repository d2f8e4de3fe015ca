//! Steps that all changes of rows share.

use evenkeel_engine::table::KeyHint;
use evenkeel_planner::relation::Relation;
use evenkeel_types::{Datum, SqlState, TypeError};

use crate::error::ExecError;
use crate::new_row::Stored;

/// Result of changing a row.
pub(crate) enum Changed {
    Done,
    /// It stays as it is.
    Not,
    /// It is to be tried again, as it is now.
    Again,
    Waits,
}

/// The mark of a row before or after a change: whether it is there.
pub(crate) fn there(is: bool) -> Datum {
    match is {
        true => Datum::Bool(true),
        false => Datum::Null,
    }
}

/// Whether an update changes keys, as far as that is known without looking.
pub(crate) fn hint_of(columns: &[usize], relation: &Relation, stored: &Stored) -> KeyHint {
    let all = stored.table.def().indexes.len() == relation.indexes.len();
    let mut keys = relation.indexes.iter().flat_map(|index| &index.columns);
    if all && !keys.any(|key| columns.contains(&key.column)) {
        return KeyHint::Unchanged;
    }
    KeyHint::Compare
}

/// The row was changed by a command that this one has called.
pub(crate) fn changed_within(verb: &str) -> ExecError {
    let message = format!(
        "tuple to be {verb} was already modified by an operation triggered by the current command"
    );
    let hint = "Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes \
                to other rows.";
    TypeError::new(SqlState::TRIGGERED_DATA_CHANGE_VIOLATION, message)
        .hint(hint)
        .into()
}
