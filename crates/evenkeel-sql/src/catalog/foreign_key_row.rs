//! The rows of foreign keys.

use evenkeel_engine::Tid;

use super::Oid;
use super::fields::{Fields, damaged, vector};
use super::foreign_key_info::{ForeignKeyInfo, action_code, action_of};
use crate::error::SqlResult;
use crate::types::Datum;

/// A foreign key's row of `evenkeel_foreign_key`.
pub(super) fn foreign_key_row(table: Oid, key: &ForeignKeyInfo) -> Vec<Datum> {
    let numbers = |columns: &[i16]| {
        vector(
            columns
                .iter()
                .map(|attnum| usize::from(attnum.unsigned_abs())),
        )
    };
    let codes = [
        action_code(key.on_update),
        action_code(key.on_delete),
        if key.full { "f" } else { "s" },
    ];
    vec![
        Datum::Oid(key.oid),
        (&*key.name).into(),
        Datum::Oid(table),
        Datum::Oid(key.parent),
        Datum::Oid(key.index),
        numbers(&key.columns),
        numbers(&key.referenced),
        numbers(&key.set_columns),
        (&*codes.concat()).into(),
        Datum::Bool(key.deferrable),
        Datum::Bool(key.deferred),
        Datum::Bool(key.valid),
    ]
}

pub(super) fn read_foreign_key(place: Tid, values: Vec<Datum>) -> SqlResult<(Oid, ForeignKeyInfo)> {
    let broken = || damaged("evenkeel_foreign_key");
    let mut fields = Fields::new(values, "evenkeel_foreign_key");
    let (oid, name, table) = (fields.oid()?, fields.text()?, fields.oid()?);
    let (parent, index) = (fields.oid()?, fields.oid()?);
    let mut columns = || {
        let numbers = fields.vector()?.into_iter();
        let numbers = numbers.map(|number| i16::try_from(number).map_err(|_| broken()));
        numbers.collect::<SqlResult<Vec<i16>>>()
    };
    let (own, referenced, set_columns) = (columns()?, columns()?, columns()?);
    let codes: Vec<char> = fields.text()?.chars().collect();
    let &[on_update, on_delete, matching] = codes.as_slice() else {
        return Err(broken());
    };
    let key = ForeignKeyInfo {
        oid,
        name: name.into(),
        full: matching == 'f',
        on_delete: action_of(on_delete).ok_or_else(broken)?,
        on_update: action_of(on_update).ok_or_else(broken)?,
        set_columns,
        deferrable: fields.bool()?,
        deferred: fields.bool()?,
        valid: fields.bool()?,
        place,
        ..ForeignKeyInfo::unnamed(parent, index, own, referenced)
    };
    Ok((table, key))
}
