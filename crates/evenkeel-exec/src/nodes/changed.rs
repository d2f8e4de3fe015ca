//! Steps that all changes of rows share.

use evenkeel_engine::heap::rows::RowHandle;
use evenkeel_engine::table::KeyHint;
use evenkeel_engine::{Doubt, EngineError, Tid};
use evenkeel_planner::relation::{Index, KeyUse, Relation};
use evenkeel_types::row::fixed_width;
use evenkeel_types::{Datum, SqlState, TypeError};
use smallvec::SmallVec;

use crate::context::Cx;
use crate::error::{ExecError, ExecResult};
use crate::events::{Role, RowEvent};
use crate::new_row::{Rules, Stored};

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
pub(crate) fn hint_of(columns: &[usize], rules: Rules<'_>, stored: &Stored) -> KeyHint {
    let relation = rules.relation;
    let generated = |column| rules.generated.iter().any(|(at, _)| *at == column);
    let all = stored.table.def().indexes.len() == relation.indexes.len();
    let mut keys = relation.indexes.iter().flat_map(Index::looks_at);
    // A row that has become longer may have a value moved out that a computed key looks at, which
    // is to be refused.
    let may_move = |column: &usize| {
        let column = relation.columns.get(*column);
        column.is_none_or(|column| fixed_width(column.ty).is_none())
    };
    let mut computed = relation.indexes.iter().filter(|index| !index.is_plain());
    let settled = !computed.any(|index| index.looks_at().any(|column| may_move(&column)));
    if all && settled && !keys.any(|key| columns.contains(&key) || generated(key)) {
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

/// Refuses a change of a row that a fixed snapshot does not see: an action of a foreign key finds
/// rows that the transaction may not know of.
pub(crate) fn cross_check(at: Option<Tid>, stored: &Stored, cx: &Cx) -> ExecResult<()> {
    let (Some(snapshot), Some(at)) = (&cx.env.cross_check, at) else {
        return Ok(());
    };
    match stored.table.fetch(snapshot, at)? {
        Some(_) => Ok(()),
        None => Err(EngineError::SerializationFailure { what: "update" }.into()),
    }
}

/// A version of a row, with its values if they are known.
pub(crate) type Version<'r> = (Tid, &'r [Datum]);

/// Queues the events of a changed row, in the order of PostgreSQL's triggers: the primary key,
/// foreign keys, other unique keys.
pub(crate) fn note(
    relation: &Relation,
    stored: &Stored,
    (old, new): (Option<Version<'_>>, Option<Version<'_>>),
    cx: &Cx,
) -> ExecResult<()> {
    let doubts = match relation.indexes.iter().any(|index| index.deferrable) {
        true => cx.doubts()?,
        false => Vec::new(),
    };
    note_with(relation, stored, (old, new), doubts, cx)
}

/// As [`note`], with the doubts about the new version's keys.
pub(crate) fn note_with(
    relation: &Relation,
    stored: &Stored,
    (old, new): (Option<Version<'_>>, Option<Version<'_>>),
    doubts: impl IntoIterator<Item = Doubt>,
    cx: &Cx,
) -> ExecResult<()> {
    let doubtful = doubtful(relation, doubts)?;
    for at in doubtful.iter().filter(|(primary, _)| *primary) {
        cx.env.events.push(at.1)?;
    }
    for key in &relation.keys {
        let concerned = match (old, new) {
            (Some(old), Some(new)) => changes(key, old, new, stored, cx)?,
            (None, Some((_, values))) => !key.referred && has_value(key, values),
            (Some(_), None) => key.referred,
            (None, None) => false,
        };
        if concerned {
            cx.env.events.push(RowEvent {
                key: key.oid,
                role: match key.referred {
                    true => Role::Referred,
                    false => Role::Refers,
                },
                old: old.map(|(at, _)| at),
                new: new.map(|(at, _)| at),
            })?;
        }
    }
    for at in doubtful.iter().filter(|(primary, _)| !*primary) {
        cx.env.events.push(at.1)?;
    }
    Ok(())
}

/// Whether changes of a relation's rows may have events.
pub(crate) fn has_events(relation: &Relation) -> bool {
    let mut indexes = relation.indexes.iter();
    !relation.keys.is_empty() || indexes.any(|index| index.deferrable)
}

/// The events of keys that others may have, and whether they are of the primary key.
fn doubtful(
    relation: &Relation,
    doubts: impl IntoIterator<Item = Doubt>,
) -> ExecResult<SmallVec<[(bool, RowEvent); 2]>> {
    let event = |doubt: Doubt| {
        let mut indexes = relation.indexes.iter();
        let index = indexes.find(|index| index.position == doubt.index);
        let index = index.ok_or_else(|| ExecError::plan("an index that is not there"))?;
        let event = RowEvent {
            key: index.oid,
            role: Role::Doubtful,
            old: None,
            new: Some(doubt.tid),
        };
        Ok((index.primary, event))
    };
    doubts.into_iter().map(event).collect()
}

fn has_value(key: &KeyUse, values: &[Datum]) -> bool {
    let mut columns = key.columns.iter();
    columns.any(|column| values.get(*column).is_some_and(|value| !value.is_null()))
}

/// Whether an update concerns a key: it changes its columns, or replaces a version of this
/// transaction, whose own event may still wait and will find it gone.
fn changes(
    key: &KeyUse,
    old: Version<'_>,
    new: Version<'_>,
    stored: &Stored,
    cx: &Cx,
) -> ExecResult<bool> {
    let mut columns = key.columns.iter();
    if columns.any(|column| old.1.get(*column) != new.1.get(*column)) {
        return Ok(key.referred || has_value(key, new.1));
    }
    if key.referred || cx.env.events.is_empty() || !has_value(key, new.1) {
        return Ok(false);
    }
    let snapshot = &cx.env.snapshot;
    let row = RowHandle::known(snapshot, old.0);
    Ok(stored.table.is_own(snapshot, row)?)
}
