//! What objects are defined by, who may use them, and what is said about them.

use super::{Definition, arg, flag_arg, lax, number_arg, oid_arg, strict};
use crate::error::SqlResult;
use crate::pg_catalog::snapshot::{Relation, Snapshot};
use crate::pg_catalog::{builtin, deparse, globals, relations};
use crate::types::{Datum, SqlType};

pub(super) const FUNCTIONS: &[Definition] = &[
    strict("pg_get_indexdef", SqlType::Text, index),
    strict("pg_get_constraintdef", SqlType::Text, constraint),
    strict("pg_get_expr", SqlType::Text, |_, args| {
        Ok(arg(args, 0).clone())
    }),
    strict("pg_get_function_result", SqlType::Text, |_, args| {
        proc(args, |p| p.result)
    }),
    strict("pg_get_function_arguments", SqlType::Text, |_, args| {
        proc(args, |p| p.arguments)
    }),
    strict(
        "pg_get_function_identity_arguments",
        SqlType::Text,
        |_, args| proc(args, |p| p.arguments),
    ),
    lax("pg_get_functiondef", SqlType::Text, nothing),
    lax("pg_get_viewdef", SqlType::Text, nothing),
    lax("pg_get_ruledef", SqlType::Text, nothing),
    lax("pg_get_triggerdef", SqlType::Text, nothing),
    lax("pg_get_partkeydef", SqlType::Text, nothing),
    lax("pg_get_partition_constraintdef", SqlType::Text, nothing),
    lax("pg_get_statisticsobjdef", SqlType::Text, nothing),
    lax("pg_get_statisticsobjdef_columns", SqlType::Text, nothing),
    lax("pg_get_serial_sequence", SqlType::Text, nothing),
    lax("obj_description", SqlType::Text, description),
    lax("col_description", SqlType::Text, nothing),
    lax("shobj_description", SqlType::Text, nothing),
    strict(
        "pg_relation_is_publishable",
        SqlType::Bool,
        |snapshot, args| {
            let relation = snapshot.relation(super::relation_arg(snapshot, args, 0)?);
            Ok(Datum::Bool(matches!(relation, Some(Relation::Table(_)))))
        },
    ),
    strict(
        "pg_relation_is_updatable",
        SqlType::Int4,
        |snapshot, args| {
            let relation = snapshot.relation(oid_arg(args, 0)?);
            let every_event = 28;
            Ok(Datum::Int4(
                if matches!(relation, Some(Relation::Table(_))) {
                    every_event
                } else {
                    0
                },
            ))
        },
    ),
    lax("row_security_active", SqlType::Bool, no),
    lax("pg_is_in_recovery", SqlType::Bool, no),
    lax("pg_is_other_temp_schema", SqlType::Bool, no),
    lax("pg_my_temp_schema", SqlType::Oid, |_, _| Ok(Datum::Oid(0))),
    strict("has_any_column_privilege", SqlType::Bool, yes),
    strict("has_column_privilege", SqlType::Bool, yes),
    strict("has_database_privilege", SqlType::Bool, yes),
    strict("has_foreign_data_wrapper_privilege", SqlType::Bool, yes),
    strict("has_function_privilege", SqlType::Bool, yes),
    strict("has_language_privilege", SqlType::Bool, yes),
    strict("has_parameter_privilege", SqlType::Bool, yes),
    strict("has_schema_privilege", SqlType::Bool, yes),
    strict("has_sequence_privilege", SqlType::Bool, yes),
    strict("has_server_privilege", SqlType::Bool, yes),
    strict("has_table_privilege", SqlType::Bool, yes),
    strict("has_tablespace_privilege", SqlType::Bool, yes),
    strict("has_type_privilege", SqlType::Bool, yes),
    strict("pg_has_role", SqlType::Bool, yes),
];

fn nothing(_: &Snapshot, _: &[Datum]) -> SqlResult<Datum> {
    Ok(Datum::Null)
}

fn yes(_: &Snapshot, _: &[Datum]) -> SqlResult<Datum> {
    Ok(Datum::Bool(true))
}

fn no(_: &Snapshot, _: &[Datum]) -> SqlResult<Datum> {
    Ok(Datum::Bool(false))
}

fn proc(args: &[Datum], part: fn(&builtin::ProcDef) -> &'static str) -> SqlResult<Datum> {
    let proc = builtin::proc_by_oid(oid_arg(args, 0)?);
    Ok(proc.map_or(Datum::Null, |proc| Datum::Text(part(proc).to_owned())))
}

/// `obj_description(oid, catalog)`; without a catalog nothing is known.
fn description(snapshot: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    let (Datum::Text(catalog), false) = (arg(args, 1), arg(args, 0).is_null()) else {
        return Ok(Datum::Null);
    };
    let class = relations::find("pg_catalog", catalog).map_or(0, |def| def.oid);
    let found = globals::description(snapshot, oid_arg(args, 0)?, class);
    Ok(found.map_or(Datum::Null, |text| Datum::Text(text.to_owned())))
}

/// `pg_get_indexdef(oid)`, `pg_get_indexdef(oid, column, pretty)`
fn index(snapshot: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
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
        return Ok(Datum::Text(deparse::index(table, index, schema)));
    }
    let part = usize::try_from(column - 1)
        .ok()
        .and_then(|at| index.key.get(at));
    Ok(Datum::Text(part.map_or_else(String::new, |part| {
        deparse::column_name(table, part.column)
    })))
}

/// `pg_get_constraintdef(oid [, pretty])`
fn constraint(snapshot: &Snapshot, args: &[Datum]) -> SqlResult<Datum> {
    let oid = oid_arg(args, 0)?;
    let found = snapshot.tables.iter().find_map(|table| {
        if let Some((.., column)) = table.not_null().find(|(number, ..)| *number == oid) {
            return Some(format!("NOT NULL {}", deparse::quote_ident(&column.name)));
        }
        let constraint = table
            .constraints
            .iter()
            .find(|constraint| constraint.oid == oid)?;
        Some(deparse::constraint(table, constraint))
    });
    Ok(found.map_or(Datum::Null, Datum::Text))
}
