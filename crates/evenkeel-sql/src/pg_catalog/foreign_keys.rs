//! Foreign keys: their rows of `pg_constraint` and `information_schema`, and their definitions.

use std::fmt::Write;

use evenkeel_planner::ast::KeyAction;

use super::deparse::column_name;
use super::rows::{Cell, Rows, flag, number, oid, text};
use super::view::{CatalogView, Column, KeySource, Table};
use crate::catalog::{ForeignKeyInfo, action_code};
use crate::error::SqlResult;
use crate::types::Datum;

fn words(action: KeyAction) -> &'static str {
    match action {
        KeyAction::NoAction => "NO ACTION",
        KeyAction::Restrict => "RESTRICT",
        KeyAction::Cascade => "CASCADE",
        KeyAction::SetNull => "SET NULL",
        KeyAction::SetDefault => "SET DEFAULT",
    }
}

fn numbered(table: &Table, attnum: i16) -> Option<(usize, &Column)> {
    let mut columns = table.columns.iter().enumerate();
    columns.find(|(_, column)| column.attnum == attnum)
}

fn attnums(attnums: &[i16]) -> Datum {
    let numbers: Vec<String> = attnums.iter().map(i16::to_string).collect();
    text(format!("{{{}}}", numbers.join(",")))
}

fn table_of<'s>(snapshot: &'s CatalogView, key: &ForeignKeyInfo) -> Option<&'s Table> {
    snapshot.tables.iter().find(|table| table.oid == key.parent)
}

/// Adds to a row of `pg_constraint` what it has of a foreign key.
pub fn complete(key: &ForeignKeyInfo, row: &mut Vec<Cell>) {
    let replaced = [
        "convalidated",
        "confupdtype",
        "confdeltype",
        "confmatchtype",
    ];
    row.retain(|(name, _)| !replaced.contains(name));
    row.extend([
        ("condeferrable", flag(key.deferrable)),
        ("condeferred", flag(key.deferred)),
        ("convalidated", flag(key.valid)),
        ("conindid", oid(key.index)),
        ("confrelid", oid(key.parent)),
        ("confupdtype", text(action_code(key.on_update))),
        ("confdeltype", text(action_code(key.on_delete))),
        ("confmatchtype", text(if key.full { "f" } else { "s" })),
        ("connoinherit", flag(true)),
        ("conkey", attnums(&key.columns)),
        ("confkey", attnums(&key.referenced)),
    ]);
    if !key.set_columns.is_empty() {
        row.push(("confdelsetcols", attnums(&key.set_columns)));
    }
}

/// A foreign key as `pg_get_constraintdef` spells it.
pub fn definition(snapshot: &CatalogView, table: &Table, key: &ForeignKeyInfo) -> String {
    let names = |table: &Table, columns: &[i16]| {
        let positions = columns.iter().filter_map(|attnum| numbered(table, *attnum));
        let names = positions.map(|(at, _)| column_name(table, at));
        names.collect::<Vec<_>>().join(", ")
    };
    let parent = table_of(snapshot, key);
    let mut out = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        names(table, &key.columns),
        snapshot.relation_text(key.parent),
        parent.map_or_else(String::new, |parent| names(parent, &key.referenced))
    );
    if key.full {
        out.push_str(" MATCH FULL");
    }
    if key.on_update != KeyAction::NoAction {
        let _ = write!(out, " ON UPDATE {}", words(key.on_update));
    }
    if key.on_delete != KeyAction::NoAction {
        let _ = write!(out, " ON DELETE {}", words(key.on_delete));
    }
    if !key.set_columns.is_empty() {
        let _ = write!(out, " ({})", names(table, &key.set_columns));
    }
    if key.deferrable {
        out.push_str(" DEFERRABLE");
    }
    if key.deferred {
        out.push_str(" INITIALLY DEFERRED");
    }
    if !key.valid {
        out.push_str(" NOT VALID");
    }
    out
}

/// Whether a table has foreign keys, is referred to or has a deferrable key: PostgreSQL has
/// triggers then.
pub fn has_triggers(snapshot: &CatalogView, table: &Table) -> bool {
    let refers = |other: &Table| other.foreign_keys.iter().any(|key| key.parent == table.oid);
    let own = table.indexes.iter().any(|index| index.deferrable);
    own || !table.foreign_keys.is_empty() || snapshot.tables.iter().any(refers)
}

/// Catalog, schema and name of a constraint, under a prefix's names.
fn named(snapshot: &CatalogView, table: &Table, names: [&'static str; 3], name: &str) -> [Cell; 3] {
    [
        (names[0], text(&snapshot.database)),
        (names[1], text(&*table.schema)),
        (names[2], text(name)),
    ]
}

const CONSTRAINT: [&str; 3] = ["constraint_catalog", "constraint_schema", "constraint_name"];
const UNIQUE: [&str; 3] = [
    "unique_constraint_catalog",
    "unique_constraint_schema",
    "unique_constraint_name",
];
const TABLE: [&str; 3] = ["table_catalog", "table_schema", "table_name"];

/// `referential_constraints`
pub fn referential(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for key in &table.foreign_keys {
            let mut row = named(snapshot, table, CONSTRAINT, &key.name).to_vec();
            let unique = table_of(snapshot, key).and_then(|parent| {
                let mut constraints = parent.constraints.iter();
                let of = constraints.find(|constraint| constraint.index == key.index)?;
                Some(named(snapshot, parent, UNIQUE, &of.name))
            });
            row.extend(unique.into_iter().flatten());
            row.extend([
                ("match_option", text(if key.full { "FULL" } else { "NONE" })),
                ("update_rule", text(words(key.on_update))),
                ("delete_rule", text(words(key.on_delete))),
            ]);
            rows.push(row)?;
        }
    }
    Ok(())
}

/// Rows of `key_column_usage`.
pub fn key_columns(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for key in &table.foreign_keys {
            let parent = table_of(snapshot, key);
            let index = parent.and_then(|p| p.indexes.iter().find(|i| i.oid == key.index));
            for (at, own) in key.columns.iter().enumerate() {
                let Some((_, column)) = numbered(table, *own) else {
                    continue;
                };
                let mut row = named(snapshot, table, CONSTRAINT, &key.name).to_vec();
                row.extend(named(snapshot, table, TABLE, &table.name));
                row.extend([
                    ("column_name", text(&*column.name)),
                    ("ordinal_position", number(at + 1)),
                ]);
                let place = index.and_then(|index| {
                    let (referenced, _) = numbered(parent?, *key.referenced.get(at)?)?;
                    index.key.iter().position(
                        |part| matches!(part.source, KeySource::Column(at) if at == referenced),
                    )
                });
                if let Some(place) = place {
                    row.push(("position_in_unique_constraint", number(place + 1)));
                }
                rows.push(row)?;
            }
        }
    }
    Ok(())
}

/// Rows of `constraint_column_usage`: the columns that are referred to.
pub fn used_columns(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for key in &table.foreign_keys {
            let Some(parent) = table_of(snapshot, key) else {
                continue;
            };
            let referenced = key.referenced.iter();
            let columns = referenced.filter_map(|attnum| numbered(parent, *attnum));
            for (_, column) in columns {
                let mut row = named(snapshot, table, CONSTRAINT, &key.name).to_vec();
                row.extend(named(snapshot, parent, TABLE, &parent.name));
                row.push(("column_name", text(&*column.name)));
                rows.push(row)?;
            }
        }
    }
    Ok(())
}
