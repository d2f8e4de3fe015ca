//! Sequences: `pg_sequence`, `pg_sequences`, `information_schema.sequences`, and what hangs on
//! them in `pg_class`, `pg_attribute` and `pg_depend`.

use super::deparse::format_type;
use super::relation_rows::{attribute, class};
use super::rows::{Cell, Rows, flag, number, oid, text};
use super::view::{CatalogView, default_sequence};
use crate::catalog::{Identity, SequenceInfo};
use crate::error::SqlResult;
use crate::types::{Datum, SqlType};

/// Oid of `pg_class`.
const CLASS: u32 = 1259;
/// Oid of `pg_attrdef`.
const ATTRDEF: u32 = 2604;

/// `pg_class` rows.
pub fn classes(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for sequence in snapshot.sequences.iter() {
        let schema = (sequence.schema_oid, &*sequence.schema);
        let mut row = class(sequence.oid, &sequence.name, schema, "S");
        row.extend([
            ("relfilenode", oid(sequence.oid)),
            ("relpages", number(1)),
            ("reltuples", Datum::Float4(1.0)),
            ("relnatts", number(3)),
        ]);
        rows.push(row)?;
    }
    Ok(())
}

/// `pg_attribute` rows.
pub fn attributes(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for sequence in snapshot.sequences.iter() {
        let columns = [
            ("last_value", SqlType::Int8),
            ("log_cnt", SqlType::Int8),
            ("is_called", SqlType::Bool),
        ];
        for (at, (name, ty)) in columns.into_iter().enumerate() {
            let mut row = attribute(sequence.oid, name, at + 1, ty);
            row.push(("attnotnull", flag(true)));
            rows.push(row)?;
        }
    }
    Ok(())
}

/// `pg_sequence`
pub fn sequences(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for sequence in snapshot.sequences.iter() {
        let rule = &sequence.rule;
        rows.push([
            ("seqrelid", oid(sequence.oid)),
            ("seqtypid", oid(sequence.ty.oid())),
            ("seqstart", number(sequence.start)),
            ("seqincrement", number(rule.increment)),
            ("seqmax", number(rule.max)),
            ("seqmin", number(rule.min)),
            ("seqcache", number(rule.cache)),
            ("seqcycle", flag(rule.cycle)),
        ])?;
    }
    Ok(())
}

/// The last number that was given out.
fn last_value(snapshot: &CatalogView, sequence: &SequenceInfo) -> SqlResult<Datum> {
    let catalog = snapshot.catalog.as_ref();
    let Some(database) = catalog.and_then(|catalog| catalog.database()) else {
        return Ok(Datum::Null);
    };
    let open = database.sequence(sequence.file)?;
    let position = open.map(|open| open.position());
    let position = position.filter(|position| position.is_called);
    Ok(position.map_or(Datum::Null, |position| number(position.last_value)))
}

/// `pg_sequences`
pub fn sequences_view(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for sequence in snapshot.sequences.iter() {
        let rule = &sequence.rule;
        rows.push([
            ("schemaname", text(&*sequence.schema)),
            ("sequencename", text(&*sequence.name)),
            ("sequenceowner", text(&snapshot.user)),
            ("data_type", oid(sequence.ty.oid())),
            ("start_value", number(sequence.start)),
            ("min_value", number(rule.min)),
            ("max_value", number(rule.max)),
            ("increment_by", number(rule.increment)),
            ("cycle", flag(rule.cycle)),
            ("cache_size", number(rule.cache)),
            ("last_value", last_value(snapshot, sequence)?),
        ])?;
    }
    Ok(())
}

/// `information_schema.sequences`: those that are no identity's.
pub fn information(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let free = snapshot.sequences.iter();
    for sequence in free.filter(|sequence| sequence.identity.is_none()) {
        let rule = &sequence.rule;
        let bits = match sequence.ty {
            SqlType::Int2 => 16,
            SqlType::Int4 => 32,
            _ => 64,
        };
        rows.push([
            ("sequence_catalog", text(&snapshot.database)),
            ("sequence_schema", text(&*sequence.schema)),
            ("sequence_name", text(&*sequence.name)),
            ("data_type", text(format_type(sequence.ty.oid(), None))),
            ("numeric_precision", number(bits)),
            ("numeric_precision_radix", number(2)),
            ("numeric_scale", number(0)),
            ("start_value", text(sequence.start.to_string())),
            ("minimum_value", text(rule.min.to_string())),
            ("maximum_value", text(rule.max.to_string())),
            ("increment", text(rule.increment.to_string())),
            ("cycle_option", text(if rule.cycle { "YES" } else { "NO" })),
        ])?;
    }
    Ok(())
}

/// The cells of an identity in `information_schema.columns`.
pub fn identity_cells(snapshot: &CatalogView, identity: (Identity, u32)) -> Vec<Cell> {
    let (kind, sequence) = identity;
    let mut cells = vec![
        ("is_identity", text("YES")),
        ("identity_generation", text(kind.words())),
    ];
    let sequence = snapshot.sequences.iter().find(|s| s.oid == sequence);
    if let Some(sequence) = sequence {
        let rule = &sequence.rule;
        cells.extend([
            ("identity_start", text(sequence.start.to_string())),
            ("identity_increment", text(rule.increment.to_string())),
            ("identity_maximum", text(rule.max.to_string())),
            ("identity_minimum", text(rule.min.to_string())),
            (
                "identity_cycle",
                text(if rule.cycle { "YES" } else { "NO" }),
            ),
        ]);
    }
    cells
}

/// A row of `pg_depend`: an object of a catalog, the relation and the column of it that it depends
/// on, in another catalog.
pub(super) fn depend(
    rows: &mut Rows,
    of: (u32, u32),
    on: (u32, i32),
    class: u32,
    kind: &'static str,
) -> SqlResult<()> {
    rows.push([
        ("classid", oid(of.0)),
        ("objid", oid(of.1)),
        ("refclassid", oid(class)),
        ("refobjid", oid(on.0)),
        ("refobjsubid", number(on.1)),
        ("deptype", text(kind)),
    ])
}

/// `pg_depend`: a sequence on its column, a default on its column and on its sequence.
pub fn dependencies(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let mut depend = |of, on, class, kind| depend(rows, of, on, class, kind);
    for sequence in snapshot.sequences.iter() {
        if let Some((table, column)) = sequence.owner {
            let kind = if sequence.identity.is_some() {
                "i"
            } else {
                "a"
            };
            let on = (table, i32::from(column));
            depend((CLASS, sequence.oid), on, CLASS, kind)?;
        }
    }
    for table in snapshot.tables.iter() {
        for column in &table.columns {
            let Some(default) = &column.default else {
                continue;
            };
            let of = (ATTRDEF, table.default_oid(column.attnum));
            let on = (table.oid, i32::from(column.attnum));
            depend(of, on, CLASS, "a")?;
            if let Some(sequence) = default_sequence(default) {
                depend(of, (sequence, 0), CLASS, "n")?;
            }
        }
    }
    Ok(())
}

/// The sequence that belongs to a column.
pub fn serial_sequence(snapshot: &CatalogView, table: u32, attnum: i16) -> Option<&SequenceInfo> {
    let owned = |sequence: &&std::sync::Arc<SequenceInfo>| sequence.owner == Some((table, attnum));
    snapshot
        .sequences
        .iter()
        .find(owned)
        .map(|sequence| &**sequence)
}
