//! Definitions of objects, and comments about them.

use super::names::relation_oid;
use super::{Definition, arg, flag_arg, lax, number_arg, oid_arg, strict, text_arg};
use crate::catalog::comment_info::{CLASS, Subject};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::pg_catalog::foreign_keys;
use crate::pg_catalog::view::{CatalogView, Relation};
use crate::pg_catalog::{builtin, deparse, domains, relations, sequences, shared_rows, views};
use crate::quote::quote_ident;
use crate::search_path::is_temporary;
use crate::types::Datum;

pub(super) const FUNCTIONS: &[Definition] = &[
    strict("pg_get_indexdef", index),
    strict("pg_get_constraintdef", constraint),
    strict("pg_get_expr", expression),
    strict("pg_get_function_result", |_, args| proc(args, |p| p.result)),
    strict("pg_get_function_arguments", |_, args| {
        proc(args, |p| p.arguments)
    }),
    strict("pg_get_function_identity_arguments", |_, args| {
        proc(args, |p| p.arguments)
    }),
    lax("pg_get_functiondef", nothing),
    lax("pg_get_function_sqlbody", nothing),
    strict("pg_describe_object", description_of),
    strict("pg_get_viewdef", view),
    lax("pg_get_ruledef", nothing),
    lax("pg_get_triggerdef", nothing),
    lax("pg_get_partkeydef", nothing),
    lax("pg_get_partition_constraintdef", nothing),
    lax("pg_get_statisticsobjdef", nothing),
    lax("pg_get_statisticsobjdef_columns", nothing),
    strict("pg_get_serial_sequence", serial_sequence),
    lax("obj_description", description),
    strict("col_description", column_description),
    strict("shobj_description", shared_description),
    strict("pg_relation_is_publishable", |snapshot, args| {
        let relation = snapshot.relation(super::relation_arg(snapshot, args, 0)?);
        Ok(Datum::Bool(matches!(relation, Some(Relation::Table(_)))))
    }),
    strict("pg_relation_is_updatable", |snapshot, args| {
        let relation = snapshot.relation(oid_arg(args, 0)?);
        let every_event = 28;
        Ok(Datum::Int4(
            if matches!(relation, Some(Relation::Table(_))) {
                every_event
            } else {
                0
            },
        ))
    }),
    lax("row_security_active", no),
    lax("pg_is_in_recovery", no),
    strict("pg_is_other_temp_schema", is_other_temporary),
    lax("pg_my_temp_schema", |snapshot, _| {
        Ok(Datum::Oid(own_temporary(snapshot).unwrap_or(0)))
    }),
];

/// An object in words, by the oids of its catalog and its own; a column by its number.
fn description_of(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let (class, number) = (oid_arg(args, 0)?, oid_arg(args, 1)?);
    let column = number_arg(args, 2)?;
    let words = match relations::by_oid(class).map(|def| def.name) {
        Some("pg_class") if column == 0 => {
            let Some(relation) = snapshot.relation(number) else {
                return Ok(Datum::Null);
            };
            let kind = match relation {
                Relation::Index(..) => "index",
                Relation::Sequence(_) => "sequence",
                Relation::View(_) => "view",
                Relation::System(def) if def.kind == "v" => "view",
                _ => "table",
            };
            format!("{kind} {}", snapshot.relation_text(number))
        }
        Some("pg_namespace") => match snapshot.schema_name(number) {
            Some(name) => format!("schema {name}"),
            None => return Ok(Datum::Null),
        },
        _ => {
            let message = format!("pg_describe_object of objects of catalog {class}");
            return Err(SqlError::unsupported(message));
        }
    };
    Ok(Datum::Text(words))
}

/// `pg_get_expr(text, oid [, pretty])`: the text, or that of a generated column or of an index's
/// predicate with the parentheses that are needed.
fn expression(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    if let (Datum::Text(text), Some(Datum::Bool(true))) = (arg(args, 0), args.get(2))
        && let Some(Relation::Table(table)) = snapshot.relation(oid_arg(args, 1)?)
    {
        let generated = table.columns.iter();
        let generated = generated.filter_map(|column| column.generated.as_ref());
        let generated = generated.map(|generated| (&generated.text, &generated.pretty));
        let predicates = table.indexes.iter();
        let predicates = predicates.filter_map(|index| index.predicate.as_ref());
        let predicates = predicates.map(|predicate| (&predicate.text, &predicate.pretty));
        let found = generated
            .chain(predicates)
            .find(|(known, _)| ***known == **text);
        if let Some((_, pretty)) = found {
            return Ok(Datum::Text(pretty.to_string()));
        }
    }
    Ok(arg(args, 0).clone())
}

fn view(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let relation = snapshot.relation(super::relation_arg(snapshot, args, 0)?);
    Ok(match relation {
        Some(Relation::View(view)) => Datum::Text(views::definition(snapshot, view)),
        _ => Datum::Null,
    })
}

fn nothing(_: &CatalogView, _: &[Datum]) -> SqlResult<Datum> {
    Ok(Datum::Null)
}

/// The oid of the session's temporary schema, if there is one.
fn own_temporary(snapshot: &CatalogView) -> Option<u32> {
    let own = snapshot.search_path.temporary()?;
    let schema = snapshot.schemas.iter().find(|(_, name)| name == own)?;
    Some(schema.0)
}

fn is_other_temporary(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let wanted = oid_arg(args, 0)?;
    let schema = snapshot.schemas.iter().find(|(oid, _)| *oid == wanted);
    let is_temporary = schema.is_some_and(|(_, name)| is_temporary(name));
    let is_own = own_temporary(snapshot) == Some(wanted);
    Ok(Datum::Bool(is_temporary && !is_own))
}

fn no(_: &CatalogView, _: &[Datum]) -> SqlResult<Datum> {
    Ok(Datum::Bool(false))
}

fn proc(args: &[Datum], part: fn(&builtin::ProcDef) -> &'static str) -> SqlResult<Datum> {
    let proc = builtin::proc_by_oid(oid_arg(args, 0)?);
    Ok(proc.map_or(Datum::Null, |proc| Datum::Text(part(proc).to_owned())))
}

/// `obj_description(oid, catalog)`; without a catalog that of an object in any of them.
fn description(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    if args.iter().any(Datum::is_null) {
        return Ok(Datum::Null);
    }
    let object = oid_arg(args, 0)?;
    let found = match args.get(1) {
        Some(Datum::Text(catalog)) => {
            let class = relations::find("pg_catalog", catalog).map_or(0, |def| def.oid);
            shared_rows::description(snapshot, Subject::of(class, object))
        }
        _ => shared_rows::descriptions_of(snapshot, object),
    };
    Ok(found.map_or(Datum::Null, |text| Datum::Text(text.to_string())))
}

/// `shobj_description(oid, catalog)`
fn shared_description(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let (object, catalog) = (oid_arg(args, 0)?, text_arg(args, 1)?);
    let class = relations::find("pg_catalog", catalog).map_or(0, |def| def.oid);
    let found = shared_rows::shared_description(snapshot, Subject::of(class, object));
    Ok(found.map_or(Datum::Null, |text| Datum::Text(text.to_string())))
}

/// `col_description(table, column)`
fn column_description(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let column = i16::try_from(number_arg(args, 1)?).unwrap_or_default();
    let subject = Subject {
        column,
        ..Subject::of(CLASS, oid_arg(args, 0)?)
    };
    let found = shared_rows::description(snapshot, subject);
    Ok(found.map_or(Datum::Null, |text| Datum::Text(text.to_string())))
}

/// `pg_get_serial_sequence(table, column)`
fn serial_sequence(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let (name, column) = (text_arg(args, 0)?, text_arg(args, 1)?);
    let relation = snapshot.relation(relation_oid(snapshot, name)?);
    let Some(Relation::Table(table)) = relation else {
        return Ok(Datum::Null);
    };
    let found = table.columns.iter().find(|other| &*other.name == column);
    let found = found.ok_or_else(|| {
        let message = format!(
            "column \"{column}\" of relation \"{}\" does not exist",
            table.name
        );
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })?;
    let sequence = sequences::serial_sequence(snapshot, table.oid, found.attnum);
    Ok(sequence.map_or(Datum::Null, |sequence| {
        let (schema, name) = (quote_ident(&sequence.schema), quote_ident(&sequence.name));
        Datum::Text(format!("{schema}.{name}"))
    }))
}

/// `pg_get_indexdef(oid)`, `pg_get_indexdef(oid, column, pretty)`
fn index(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let relation = snapshot.relation(oid_arg(args, 0)?);
    let Some(Relation::Index(table, index)) = relation else {
        return Ok(Datum::Null);
    };
    let column = if args.len() > 1 {
        number_arg(args, 1)?
    } else {
        0
    };
    if column == 0 {
        let visible = snapshot.is_visible(&Relation::Table(table));
        let schema = !(flag_arg(args, 2) && visible);
        return Ok(Datum::Text(deparse::index(
            table,
            index,
            schema,
            flag_arg(args, 2),
        )));
    }
    let part = usize::try_from(column - 1)
        .ok()
        .and_then(|at| index.key.get(at));
    Ok(Datum::Text(part.map_or_else(String::new, |part| {
        deparse::key_part(table, part, flag_arg(args, 2))
    })))
}

/// `pg_get_constraintdef(oid [, pretty])`
fn constraint(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let oid = oid_arg(args, 0)?;
    let pretty = matches!(args.get(1), Some(Datum::Bool(true)));
    let found = snapshot.tables.iter().find_map(|table| {
        let not_valid = |validated: bool| if validated { "" } else { " NOT VALID" };
        if let Some((constraint, column)) = table.not_null().find(|(known, _)| known.oid == oid) {
            let valid = not_valid(constraint.validated);
            return Some(format!("NOT NULL {}{valid}", quote_ident(&column.name)));
        }
        if let Some(check) = table.checks.iter().find(|check| check.oid == oid) {
            let condition = if pretty { &check.pretty } else { &check.text };
            return Some(format!("CHECK ({condition}){}", not_valid(check.validated)));
        }
        if let Some(key) = table.foreign_keys.iter().find(|key| key.oid == oid) {
            return Some(foreign_keys::definition(snapshot, table, key));
        }
        let constraint = table
            .constraints
            .iter()
            .find(|constraint| constraint.oid == oid)?;
        Some(deparse::constraint(table, constraint))
    });
    let found = found.or_else(|| domains::constraint_definition(snapshot, oid, pretty));
    Ok(found.map_or(Datum::Null, Datum::Text))
}
