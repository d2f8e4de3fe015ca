//! Types that were created: their rows in `pg_type`, `pg_enum` and `pg_depend`, and their names.

use std::sync::Arc;

use super::rows::{Cell, Rows, flag, number, oid, text};
use super::view::{CatalogView, OWNER};
use crate::catalog::TypeInfo;
use crate::error::SqlResult;
use crate::types::Datum;

/// Oid of `pg_type`.
const TYPE: u32 = 1247;
/// Oid of `pg_class`.
const CLASS: u32 = 1259;

pub(super) fn all(snapshot: &CatalogView) -> impl Iterator<Item = &Arc<TypeInfo>> {
    let catalog = snapshot.catalog.iter();
    catalog.flat_map(|catalog| catalog.created_types())
}

/// The type, or that of its arrays, by oid: with whether it is of arrays.
pub fn find(snapshot: &CatalogView, wanted: u32) -> Option<(&TypeInfo, bool)> {
    let of = all(snapshot).find(|info| [info.oid, info.array_oid].contains(&wanted))?;
    Some((of, of.array_oid == wanted))
}

/// Whether its name without a schema means it along the session's path.
pub fn is_visible(snapshot: &CatalogView, info: &TypeInfo) -> bool {
    let catalog = snapshot.catalog.as_ref();
    catalog.is_some_and(|catalog| catalog.is_type_visible(info, &snapshot.search_path))
}

/// As `format_type` names it, if it is one.
pub fn name(snapshot: &CatalogView, wanted: u32) -> Option<String> {
    let (info, is_array) = find(snapshot, wanted)?;
    let catalog = snapshot.catalog.as_ref()?;
    let name = catalog.shown_type(info, &snapshot.search_path);
    Some(if is_array { format!("{name}[]") } else { name })
}

/// Cells of `pg_type` that the type and that of its arrays have alike.
pub(super) fn common(info: &TypeInfo) -> Vec<Cell> {
    vec![
        ("typnamespace", oid(info.schema_oid)),
        ("typowner", oid(OWNER)),
        ("typisdefined", flag(true)),
        ("typdelim", text(",")),
        ("typispreferred", flag(false)),
        ("typalign", text("i")),
        ("typtypmod", number(-1)),
    ]
}

/// `pg_type`
pub fn types(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for info in all(snapshot).filter(|info| !info.is_domain()) {
        let own: [Cell; 13] = [
            ("oid", oid(info.oid)),
            ("typname", text(&*info.name)),
            ("typlen", number(4)),
            ("typbyval", flag(true)),
            ("typtype", text("e")),
            ("typcategory", text("E")),
            ("typelem", oid(0)),
            ("typarray", oid(info.array_oid)),
            ("typstorage", text("p")),
            ("typinput", number(3506)),
            ("typoutput", number(3507)),
            ("typreceive", number(3532)),
            ("typsend", number(3533)),
        ];
        rows.push(common(info).into_iter().chain(own))?;
        rows.push(common(info).into_iter().chain(array(info)))?;
    }
    Ok(())
}

/// The cells of `pg_type` for the arrays of a type that was created, whichever kind it is of.
pub fn array(info: &TypeInfo) -> [Cell; 14] {
    [
        ("oid", oid(info.array_oid)),
        ("typname", text(info.array_name())),
        ("typlen", number(-1)),
        ("typbyval", flag(false)),
        ("typtype", text("b")),
        ("typcategory", text("A")),
        ("typelem", oid(info.oid)),
        ("typarray", oid(0)),
        ("typstorage", text("x")),
        ("typinput", number(750)),
        ("typoutput", number(751)),
        ("typreceive", number(2400)),
        ("typsend", number(2401)),
        ("typsubscript", number(6179)),
    ]
}

/// `pg_enum`. A label's place is its number: PostgreSQL shows those between others as fractions.
pub fn labels(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for info in all(snapshot) {
        for label in info.labels() {
            // In strides: whole numbers, and fractions for labels that were put between others.
            let place = label.position as f64 / evenkeel_types::enums::STRIDE as f64;
            rows.push([
                ("oid", oid(label.oid)),
                ("enumtypid", oid(info.oid)),
                ("enumsortorder", Datum::Float4(place as f32)),
                ("enumlabel", text(&*label.label)),
            ])?;
        }
    }
    Ok(())
}

/// `pg_depend`: columns on their types.
pub fn dependencies(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for table in snapshot.tables.iter() {
        for column in &table.columns {
            if let Some((info, _)) = find(snapshot, column.declared.oid()) {
                depend_column(rows, (table.oid, column.attnum), info.oid)?;
            }
        }
    }
    Ok(())
}

fn depend_column(rows: &mut Rows, (table, column): (u32, i16), on: u32) -> SqlResult<()> {
    rows.push([
        ("classid", oid(CLASS)),
        ("objid", oid(table)),
        ("objsubid", number(column)),
        ("refclassid", oid(TYPE)),
        ("refobjid", oid(on)),
        ("refobjsubid", number(0)),
        ("deptype", text("n")),
    ])
}
