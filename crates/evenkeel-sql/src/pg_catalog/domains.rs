//! Domains: their rows in `pg_type`, `pg_constraint`, `pg_depend` and `information_schema`.

use super::builtin;
use super::deparse;
use super::enums;
use super::information::{measures, yes_or_no};
use super::rows::{Cell, Rows, flag, maybe_text, number, oid, text};
use super::type_texts::ShownTypes;
use super::view::CatalogView;
use crate::catalog::{DomainBody, DomainCheckInfo, TypeInfo};
use crate::error::SqlResult;
use crate::types::SqlType;

/// Oid of `pg_type`.
const TYPE: u32 = 1247;
/// Oid of `pg_constraint`.
const CONSTRAINT: u32 = 2606;
/// `domain_in`
const INPUT: u32 = 2597;
/// `domain_recv`
const RECEIVE: u32 = 2598;

fn all(snapshot: &CatalogView) -> impl Iterator<Item = (&TypeInfo, &DomainBody)> {
    enums::all(snapshot).filter_map(|info| Some((&**info, info.domain()?)))
}

/// A text of a domain as the session has to write it.
fn shown(snapshot: &CatalogView, (info, body): (&TypeInfo, &DomainBody), of: &str) -> String {
    let Some(state) = snapshot.catalog.as_deref() else {
        return of.to_owned();
    };
    let path = &snapshot.search_path;
    let own = [body.base];
    ShownTypes { state, path }.text(of, (&own, &info.schema))
}

/// The default of a domain as PostgreSQL shows it.
fn default(snapshot: &CatalogView, (info, body): (&TypeInfo, &DomainBody)) -> Option<String> {
    let default = body.default.as_deref()?;
    let base = body.base.storage();
    let own = snapshot.shown_default(default);
    let own = own.unwrap_or_else(|| deparse::default(default, base));
    Some(shown(snapshot, (info, body), &own))
}

/// The condition of a CHECK constraint.
fn condition(
    snapshot: &CatalogView,
    domain: (&TypeInfo, &DomainBody),
    check: &DomainCheckInfo,
    pretty: bool,
) -> String {
    let text = if pretty { &check.pretty } else { &check.text };
    shown(snapshot, domain, text)
}

/// Cells of `pg_type` that follow from the type that has the values.
fn stored(base: SqlType) -> Vec<Cell> {
    let (like, known) = match base.storage() {
        SqlType::Enum(_) => (SqlType::Int4, false),
        SqlType::Array(SqlType::Enum(_), _) => (SqlType::TEXT_ARRAY, false),
        other => (other, true),
    };
    let def = builtin::type_by_oid(like.oid());
    let get = |name| def.map_or("", |def| def.get(name));
    let numbered = |name| number(get(name).parse::<i64>().unwrap_or(0));
    let is_enum = matches!(base.storage(), SqlType::Enum(_));
    vec![
        ("typlen", numbered("typlen")),
        ("typbyval", flag(get("typbyval") == "t")),
        ("typalign", text(get("typalign"))),
        ("typstorage", text(get("typstorage"))),
        (
            "typcategory",
            text(if is_enum { "E" } else { get("typcategory") }),
        ),
        (
            "typcollation",
            if known {
                numbered("typcollation")
            } else {
                number(0)
            },
        ),
        (
            "typoutput",
            if is_enum {
                number(3507)
            } else {
                numbered("typoutput")
            },
        ),
        (
            "typsend",
            if is_enum {
                number(3533)
            } else {
                numbered("typsend")
            },
        ),
    ]
}

/// `pg_type`
pub fn types(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    all(snapshot).try_for_each(|domain| rows_of_type(snapshot, domain, rows))
}

/// The rows of `pg_type` of a domain and of its arrays.
fn rows_of_type(
    snapshot: &CatalogView,
    (info, body): (&TypeInfo, &DomainBody),
    rows: &mut Rows,
) -> SqlResult<()> {
    let default = default(snapshot, (info, body));
    let placed = || {
        vec![
            ("typnamespace", oid(info.schema_oid)),
            ("typowner", oid(super::view::OWNER)),
            ("typisdefined", flag(true)),
            ("typdelim", text(",")),
            ("typispreferred", flag(false)),
        ]
    };
    let mut own = placed();
    own.extend(stored(body.base));
    own.extend([
        ("oid", oid(info.oid)),
        ("typname", text(&*info.name)),
        ("typtype", text("d")),
        ("typelem", oid(0)),
        ("typarray", oid(info.array_oid)),
        ("typinput", number(INPUT)),
        ("typreceive", number(RECEIVE)),
        ("typnotnull", flag(body.not_null.is_some())),
        ("typbasetype", oid(body.base.oid())),
        ("typtypmod", number(body.base.typmod())),
        ("typndims", number(body.dimensions)),
        ("typdefault", maybe_text(default.clone())),
        ("typdefaultbin", maybe_text(default)),
    ]);
    rows.push(own)?;
    let wide = builtin::type_by_oid(body.base.storage().oid());
    let align = if wide.is_some_and(|def| def.get("typalign") == "d") {
        "d"
    } else {
        "i"
    };
    let collation = stored(body.base).into_iter();
    let mut array = placed();
    array.extend(collation.filter(|(name, _)| *name == "typcollation"));
    array.extend(enums::array(info));
    array.extend([("typalign", text(align)), ("typtypmod", number(-1))]);
    rows.push(array)
}

/// The rows of `pg_constraint`.
pub fn constraints(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for (info, body) in all(snapshot) {
        let not_null = body.not_null.iter();
        let not_null = not_null.map(|(oid, name)| (*oid, name, "n", true));
        let checks = body.checks.iter();
        let checks = checks.map(|check| (check.oid, &check.name, "c", check.validated));
        for (number, name, code, validated) in not_null.chain(checks) {
            rows.push([
                ("oid", oid(number)),
                ("conname", text(&**name)),
                ("connamespace", oid(info.schema_oid)),
                ("contype", text(code)),
                ("conenforced", flag(true)),
                ("convalidated", flag(validated)),
                ("contypid", oid(info.oid)),
                ("confupdtype", text(" ")),
                ("confdeltype", text(" ")),
                ("confmatchtype", text(" ")),
                ("conislocal", flag(true)),
            ])?;
        }
    }
    Ok(())
}

/// `pg_get_constraintdef` of a domain's constraint.
pub fn constraint_definition(snapshot: &CatalogView, wanted: u32, pretty: bool) -> Option<String> {
    all(snapshot).find_map(|(info, body)| {
        if body
            .not_null
            .as_ref()
            .is_some_and(|(oid, _)| *oid == wanted)
        {
            return Some("NOT NULL".to_owned());
        }
        let check = body.checks.iter().find(|check| check.oid == wanted)?;
        let condition = condition(snapshot, (info, body), check, pretty);
        let valid = if check.validated { "" } else { " NOT VALID" };
        Some(format!("CHECK ({condition}){valid}"))
    })
}

/// `pg_depend`: domains on the types that they are over, their constraints on them.
pub fn dependencies(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let mut row = |class: u32, object: u32, on: u32, kind: &str| {
        rows.push([
            ("classid", oid(class)),
            ("objid", oid(object)),
            ("objsubid", number(0)),
            ("refclassid", oid(TYPE)),
            ("refobjid", oid(on)),
            ("refobjsubid", number(0)),
            ("deptype", text(kind)),
        ])
    };
    for (info, body) in all(snapshot) {
        row(TYPE, info.array_oid, info.oid, "i")?;
        if enums::find(snapshot, body.base.oid()).is_some() {
            row(TYPE, info.oid, body.base.oid(), "n")?;
        }
        let not_null = body.not_null.iter().map(|(oid, _)| *oid);
        for constraint in not_null.chain(body.checks.iter().map(|check| check.oid)) {
            row(CONSTRAINT, constraint, info.oid, "a")?;
        }
    }
    Ok(())
}

fn constraint_names(snapshot: &CatalogView, info: &TypeInfo, name: &str) -> [Cell; 3] {
    [
        ("constraint_catalog", text(&snapshot.database)),
        ("constraint_schema", text(&*info.schema)),
        ("constraint_name", text(name)),
    ]
}

fn domain_names(snapshot: &CatalogView, info: &TypeInfo) -> [Cell; 3] {
    [
        ("domain_catalog", text(&snapshot.database)),
        ("domain_schema", text(&*info.schema)),
        ("domain_name", text(&*info.name)),
    ]
}

/// The rows of `information_schema.check_constraints`: NOT NULL as PostgreSQL has it.
pub fn check_constraints(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for (info, body) in all(snapshot) {
        for check in &body.checks {
            let names = constraint_names(snapshot, info, &check.name);
            let clause = condition(snapshot, (info, body), check, false);
            rows.push(names.into_iter().chain([("check_clause", text(clause))]))?;
        }
        if let Some((_, name)) = &body.not_null {
            let names = constraint_names(snapshot, info, name);
            let clause = ("check_clause", text("VALUE IS NOT NULL"));
            rows.push(names.into_iter().chain([clause]))?;
        }
    }
    Ok(())
}

/// `information_schema.domain_constraints`
pub fn domain_constraints(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for (info, body) in all(snapshot) {
        for name in body.constraint_names() {
            let names = constraint_names(snapshot, info, name);
            let names = names.into_iter().chain(domain_names(snapshot, info));
            rows.push(names.chain([
                ("is_deferrable", yes_or_no(false)),
                ("initially_deferred", yes_or_no(false)),
            ]))?;
        }
    }
    Ok(())
}

/// `information_schema.domains`
pub fn domains(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for (info, body) in all(snapshot) {
        let base = body.base;
        let created = enums::find(snapshot, base.oid());
        let known = builtin::type_by_oid(base.oid());
        let (schema, name) = match created {
            Some((of, true)) => (of.schema.to_string(), of.array_name()),
            Some((of, false)) => (of.schema.to_string(), of.name.to_string()),
            None => {
                let name = known.map_or(String::new(), |def| def.name.to_owned());
                ("pg_catalog".to_owned(), name)
            }
        };
        let data_type = match created {
            Some(_) => "USER-DEFINED".to_owned(),
            None => deparse::format_type(base.oid(), None),
        };
        let mut row: Vec<Cell> = domain_names(snapshot, info).to_vec();
        row.extend([
            ("data_type", text(data_type)),
            (
                "domain_default",
                maybe_text(default(snapshot, (info, body))),
            ),
            ("udt_catalog", text(&snapshot.database)),
            ("udt_schema", text(schema)),
            ("udt_name", text(name)),
            ("dtd_identifier", text("1")),
        ]);
        measures(base, &mut row);
        rows.push(row)?;
    }
    Ok(())
}
