//! `information_schema`, from the same source as `pg_catalog`.

use super::builtin;
use super::deparse::format_type;
use super::enums;
use super::foreign_keys;
use super::relation_rows;
use super::relations;
use super::rows::{Cell, Rows, maybe_text, number, text};
use super::sequences;
use super::view::{CatalogView, Column, Table};
use crate::error::SqlResult;
use crate::search_path::is_temporary;
use crate::types::{Datum, IntervalMod, SqlType};

/// Bytes of a character at most.
const CHARACTER_BYTES: i64 = 4;
/// Bytes of a string at most.
const STRING_BYTES: i64 = 1 << 30;

pub(super) fn yes_or_no(value: bool) -> Datum {
    text(if value { "YES" } else { "NO" })
}

/// `information_schema_catalog_name`
pub fn catalog_name(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    rows.push([("catalog_name", text(&snapshot.database))])
}

/// `enabled_roles`
pub fn enabled_roles(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    rows.push([("role_name", text(&snapshot.user))])
}

/// `schemata`
pub fn schemata(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for (_, name) in &snapshot.schemas {
        rows.push([
            ("catalog_name", text(&snapshot.database)),
            ("schema_name", text(name)),
            ("schema_owner", text(&snapshot.user)),
        ])?;
    }
    Ok(())
}

/// `tables`
pub fn tables(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let mut row = |schema: &str, name: &str, kind: &str, writable: bool| {
        rows.push([
            ("table_catalog", text(&snapshot.database)),
            ("table_schema", text(schema)),
            ("table_name", text(name)),
            ("table_type", text(kind)),
            ("is_insertable_into", yes_or_no(writable)),
            ("is_typed", yes_or_no(false)),
        ])
    };
    for table in snapshot.tables.iter() {
        let kind = match is_temporary(&table.schema) {
            true => "LOCAL TEMPORARY",
            false => "BASE TABLE",
        };
        row(&table.schema, &table.name, kind, true)?;
    }
    for view in snapshot.views.iter() {
        row(&view.schema, &view.name, "VIEW", false)?;
    }
    for def in relations::all() {
        row(
            def.schema,
            def.name,
            if def.kind == "r" {
                "BASE TABLE"
            } else {
                "VIEW"
            },
            false,
        )?;
    }
    Ok(())
}

/// `columns`
pub fn columns(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for column in &table.columns {
            let not_null = column.not_null.is_some();
            let mut row = column_row(snapshot, &table.schema, &table.name, (column, not_null));
            row.push(("is_updatable", yes_or_no(true)));
            rows.push(row)?;
        }
    }
    let mut read_only = |(schema, table), at: usize, (name, ty, not_null): (&str, SqlType, _)| {
        let column = Column {
            name: name.into(),
            ty: ty.storage(),
            declared: ty,
            attnum: i16::try_from(at + 1).unwrap_or(i16::MAX),
            not_null: None,
            default: None,
            identity: None,
            generated: None,
            has_missing: false,
        };
        let mut row = column_row(snapshot, schema, table, (&column, not_null));
        row.push(("is_updatable", yes_or_no(false)));
        rows.push(row)
    };
    for view in snapshot.views.iter() {
        for (at, column) in view.columns.iter().enumerate() {
            let of = (&*view.schema, &*view.name);
            read_only(of, at, (&column.name, column.ty, false))?;
        }
    }
    for def in relations::all() {
        for (at, column) in def.columns.iter().enumerate() {
            let column = (column.name, column.ty, column.not_null);
            read_only((def.schema, def.name), at, column)?;
        }
    }
    Ok(())
}

/// A domain is shown as the type that it is directly over.
fn shown_type(declared: SqlType) -> SqlType {
    match declared {
        SqlType::Domain(of) => of.parts().base,
        other => other,
    }
}

/// The three names of a column's domain, if it has one.
fn domain_cells(snapshot: &CatalogView, declared: SqlType) -> Vec<Cell> {
    let found = enums::find(snapshot, declared.oid());
    let Some((info, false)) = found.filter(|(info, _)| info.is_domain()) else {
        return Vec::new();
    };
    vec![
        ("domain_catalog", text(&snapshot.database)),
        ("domain_schema", text(&*info.schema)),
        ("domain_name", text(&*info.name)),
    ]
}

fn column_row(
    snapshot: &CatalogView,
    schema: &str,
    table: &str,
    (column, not_null): (&Column, bool),
) -> Vec<Cell> {
    let shown = shown_type(column.declared);
    let ty = builtin::type_by_oid(shown.oid());
    let created = enums::find(snapshot, shown.oid());
    let is_array =
        matches!(shown, SqlType::Array(..)) || ty.is_some_and(|ty| ty.get("typcategory") == "A");
    let udt_name = match created {
        Some((info, true)) => Some(info.array_name()),
        Some((info, false)) => Some(info.name.to_string()),
        None => ty.map(|ty| ty.name.to_owned()),
    };
    let formatted = || format_type(shown.oid(), None);
    let default = column
        .default
        .as_deref()
        .map(|text| relation_rows::shown_default(snapshot, text, column.ty));
    let mut row = vec![
        ("table_catalog", text(&snapshot.database)),
        ("table_schema", text(schema)),
        ("table_name", text(table)),
        ("column_name", text(&*column.name)),
        ("ordinal_position", number(column.attnum)),
        ("column_default", maybe_text(default)),
        ("is_nullable", yes_or_no(!not_null)),
        (
            "data_type",
            text(match created {
                _ if is_array => "ARRAY".to_owned(),
                Some(_) => "USER-DEFINED".to_owned(),
                None => formatted(),
            }),
        ),
        ("udt_catalog", text(&snapshot.database)),
        (
            "udt_schema",
            text(created.map_or("pg_catalog", |(info, _)| &info.schema)),
        ),
        ("udt_name", maybe_text(udt_name)),
        ("dtd_identifier", text(column.attnum.to_string())),
        ("is_self_referencing", yes_or_no(false)),
        (
            "is_generated",
            text(match column.generated {
                Some(_) => "ALWAYS",
                None => "NEVER",
            }),
        ),
        (
            "generation_expression",
            maybe_text(column.generated.as_ref().map(|of| &*of.text)),
        ),
    ];
    row.extend(domain_cells(snapshot, column.declared));
    row.extend(match column.identity {
        Some(identity) => sequences::identity_cells(snapshot, identity),
        None => vec![
            ("is_identity", yes_or_no(false)),
            ("identity_cycle", yes_or_no(false)),
        ],
    });
    measures(shown, &mut row);
    row
}

/// Lengths, precisions and scales.
pub(super) fn measures(ty: SqlType, row: &mut Vec<Cell>) {
    let mut numeric = |bits: i64, radix: i64, scale: Option<i64>| {
        row.push(("numeric_precision", number(bits)));
        row.push(("numeric_precision_radix", number(radix)));
        row.push(("numeric_scale", scale.map_or(Datum::Null, number)));
    };
    match ty {
        SqlType::Int2 => numeric(16, 2, Some(0)),
        SqlType::Int4 => numeric(32, 2, Some(0)),
        SqlType::Int8 => numeric(64, 2, Some(0)),
        SqlType::Float4 => numeric(24, 2, None),
        SqlType::Float8 => numeric(53, 2, None),
        SqlType::Numeric(Some(modifier)) => {
            numeric(modifier.precision.into(), 10, Some(modifier.scale.into()));
        }
        SqlType::Numeric(None) => row.push(("numeric_precision_radix", number(10))),
        SqlType::Varchar(Some(length)) | SqlType::Char(Some(length)) => {
            let length = i64::from(length);
            row.push(("character_maximum_length", number(length)));
            row.push(("character_octet_length", number(length * CHARACTER_BYTES)));
        }
        SqlType::Text | SqlType::Varchar(None) => {
            row.push(("character_octet_length", number(STRING_BYTES)));
        }
        SqlType::Date => row.push(("datetime_precision", number(0))),
        SqlType::Time(digits)
        | SqlType::Timetz(digits)
        | SqlType::Timestamp(digits)
        | SqlType::Timestamptz(digits) => {
            row.push(("datetime_precision", number(digits.unwrap_or(6))));
        }
        SqlType::Interval(modifier) => {
            let digits = modifier.and_then(|modifier| modifier.precision);
            row.push(("datetime_precision", number(digits.unwrap_or(6))));
            let fields = modifier.and_then(IntervalMod::words).unwrap_or_default();
            if !fields.is_empty() {
                let declared = ty.name().to_uppercase();
                let declared = declared.strip_prefix("INTERVAL ").unwrap_or(&declared);
                row.push(("interval_type", text(declared)));
            }
        }
        _ => {}
    }
}

/// The three names of a table.
fn table_names(snapshot: &CatalogView, table: &Table) -> [Cell; 3] {
    [
        ("table_catalog", text(&snapshot.database)),
        ("table_schema", text(&*table.schema)),
        ("table_name", text(&*table.name)),
    ]
}

/// The three names of a constraint.
fn constraint_names(snapshot: &CatalogView, table: &Table, name: &str) -> [Cell; 3] {
    [
        ("constraint_catalog", text(&snapshot.database)),
        ("constraint_schema", text(&*table.schema)),
        ("constraint_name", text(name)),
    ]
}

/// `check_constraints`
pub fn check_constraints(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for check in &table.checks {
            let names = constraint_names(snapshot, table, &check.name);
            let clause = ("check_clause", text(&*check.text));
            rows.push(names.into_iter().chain([clause]))?;
        }
        for (constraint, column) in table.not_null() {
            let names = constraint_names(snapshot, table, &constraint.name);
            let clause = text(format!("{} IS NOT NULL", column.name));
            rows.push(names.into_iter().chain([("check_clause", clause)]))?;
        }
    }
    Ok(())
}

/// `table_constraints`
pub fn table_constraints(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for (constraint, _) in table.not_null() {
            let names = constraint_names(snapshot, table, &constraint.name);
            rows.push(
                names
                    .into_iter()
                    .chain(table_names(snapshot, table))
                    .chain([
                        ("constraint_type", text("CHECK")),
                        ("is_deferrable", yes_or_no(false)),
                        ("initially_deferred", yes_or_no(false)),
                        ("enforced", yes_or_no(true)),
                    ]),
            )?;
        }
        for check in &table.checks {
            let names = constraint_names(snapshot, table, &check.name);
            let names = names.into_iter().chain(table_names(snapshot, table));
            rows.push(names.chain([
                ("constraint_type", text("CHECK")),
                ("is_deferrable", yes_or_no(false)),
                ("initially_deferred", yes_or_no(false)),
                ("enforced", yes_or_no(true)),
            ]))?;
        }
        for key in &table.foreign_keys {
            let names = constraint_names(snapshot, table, &key.name);
            let names = names.into_iter().chain(table_names(snapshot, table));
            rows.push(names.chain([
                ("constraint_type", text("FOREIGN KEY")),
                ("is_deferrable", yes_or_no(key.deferrable)),
                ("initially_deferred", yes_or_no(key.deferred)),
                ("enforced", yes_or_no(true)),
            ]))?;
        }
        for constraint in &table.constraints {
            let index = table
                .indexes
                .iter()
                .find(|index| index.oid == constraint.index);
            let distinct = index.is_none_or(|index| !index.nulls_not_distinct);
            let unique = constraint.code == "u";
            let names = constraint_names(snapshot, table, &constraint.name);
            rows.push(
                names
                    .into_iter()
                    .chain(table_names(snapshot, table))
                    .chain([
                        (
                            "constraint_type",
                            text(if unique { "UNIQUE" } else { "PRIMARY KEY" }),
                        ),
                        ("is_deferrable", yes_or_no(constraint.deferrable)),
                        ("initially_deferred", yes_or_no(constraint.deferred)),
                        ("enforced", yes_or_no(true)),
                        (
                            "nulls_distinct",
                            if unique {
                                yes_or_no(distinct)
                            } else {
                                Datum::Null
                            },
                        ),
                    ]),
            )?;
        }
    }
    Ok(())
}

/// `key_column_usage`
pub fn key_columns(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    each_key_column(snapshot, |names, at| {
        rows.push(
            names
                .into_iter()
                .chain([("ordinal_position", number(at + 1))]),
        )
    })?;
    foreign_keys::key_columns(snapshot, rows)
}

/// `constraint_column_usage`
pub fn constraint_columns(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    each_key_column(snapshot, |names, _| rows.push(names))?;
    for table in snapshot.tables.iter() {
        let not_null = table.not_null();
        let not_null = not_null.map(|(constraint, column)| (&constraint.name, column));
        let checks = table.checks.iter().flat_map(|check| {
            let columns = check.columns.iter();
            let columns = columns.filter_map(|at| table.columns.get(*at));
            columns.map(|column| (&check.name, column))
        });
        for (name, column) in not_null.chain(checks) {
            let mut names = constraint_names(snapshot, table, name).to_vec();
            names.extend(table_names(snapshot, table));
            names.push(("column_name", text(&*column.name)));
            rows.push(names)?;
        }
    }
    foreign_keys::used_columns(snapshot, rows)
}

fn each_key_column(
    snapshot: &CatalogView,
    mut row: impl FnMut(Vec<Cell>, usize) -> SqlResult<()>,
) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for constraint in &table.constraints {
            for (at, position) in constraint.columns.iter().enumerate() {
                let Some(column) = table.columns.get(*position) else {
                    continue;
                };
                let mut names = constraint_names(snapshot, table, &constraint.name).to_vec();
                names.extend(table_names(snapshot, table));
                names.push(("column_name", text(&*column.name)));
                row(names, at)?;
            }
        }
    }
    Ok(())
}
