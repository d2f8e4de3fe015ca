//! Names of objects, whether they are visible, and the named forms of oids.

use evenkeel_planner::catalog::TypesOnly;

use super::{Definition, arg, lax, number_arg, oid_arg, strict, text_arg};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parser::parse::{type_among, type_named};
use crate::pg_catalog::deparse::format_type;
use crate::pg_catalog::view::{CatalogView, DATABASE_OWNER, DATABASE_OWNER_NAME, OWNER, Relation};
use crate::pg_catalog::{builtin, enums, shared_rows};
use crate::quote::quote_ident;
use crate::types::{Datum, SqlType};

pub(super) const FUNCTIONS: &[Definition] = &[
    lax("format_type", type_name),
    strict("pg_get_userbyid", user),
    strict("acldefault", default_privileges),
    strict("pg_encoding_to_char", encoding),
    strict("pg_char_to_encoding", encoding_number),
    lax("getdatabaseencoding", |_, _| Ok(Datum::Text("UTF8".into()))),
    strict("pg_table_is_visible", table_is_visible),
    strict("pg_type_is_visible", |snapshot, args| {
        let oid = oid_arg(args, 0)?;
        if let Some((info, _)) = enums::find(snapshot, oid) {
            return Ok(Datum::Bool(enums::is_visible(snapshot, info)));
        }
        Ok(builtin::type_by_oid(oid).map_or(Datum::Null, |_| Datum::Bool(true)))
    }),
    strict("pg_function_is_visible", |_, args| {
        let oid = oid_arg(args, 0)?;
        Ok(builtin::proc_by_oid(oid).map_or(Datum::Null, |_| Datum::Bool(true)))
    }),
    strict("pg_operator_is_visible", visible),
    strict("pg_opclass_is_visible", visible),
    strict("pg_opfamily_is_visible", visible),
    strict("pg_collation_is_visible", visible),
    strict("pg_conversion_is_visible", visible),
    strict("pg_statistics_obj_is_visible", visible),
    strict("pg_ts_config_is_visible", visible),
    strict("pg_ts_dict_is_visible", visible),
    strict("pg_ts_parser_is_visible", visible),
    strict("pg_ts_template_is_visible", visible),
    strict("to_regclass", |snapshot, args| {
        Ok(found(relation_oid(snapshot, text_arg(args, 0)?).ok()))
    }),
    strict("to_regtype", |snapshot, args| {
        Ok(found(type_oid(snapshot, text_arg(args, 0)?).ok()))
    }),
    strict("to_regproc", |_, args| {
        Ok(found(proc_oid(text_arg(args, 0)?).ok()))
    }),
    strict("to_regnamespace", |snapshot, args| {
        Ok(found(schema_oid(snapshot, text_arg(args, 0)?).ok()))
    }),
    strict("to_regrole", |snapshot, args| {
        Ok(found(role_oid(snapshot, text_arg(args, 0)?).ok()))
    }),
    strict("regclassin", |snapshot, args| {
        input(args, |name| relation_oid(snapshot, name))
    }),
    strict("regtypein", |snapshot, args| {
        input(args, |name| type_oid(snapshot, name))
    }),
    strict("regprocin", |_, args| input(args, proc_oid)),
    strict("regprocedurein", |_, args| input(args, procedure_oid)),
    strict("regprocedureout", |_, args| {
        Ok(Datum::Text(procedure_text(oid_arg(args, 0)?)))
    }),
    strict("regnamespacein", |snapshot, args| {
        input(args, |name| schema_oid(snapshot, name))
    }),
    strict("regrolein", |snapshot, args| {
        input(args, |name| role_oid(snapshot, name))
    }),
    strict("regclassout", |snapshot, args| {
        Ok(Datum::Text(snapshot.relation_text(oid_arg(args, 0)?)))
    }),
    strict("regtypeout", |snapshot, args| {
        Ok(Datum::Text(name_of_type(snapshot, oid_arg(args, 0)?, None)))
    }),
    strict("regprocout", |_, args| {
        let oid = oid_arg(args, 0)?;
        let name = builtin::proc_by_oid(oid).map(|proc| quote_ident(proc.name));
        Ok(Datum::Text(name.unwrap_or_else(|| unnamed(oid))))
    }),
    strict("regnamespaceout", |snapshot, args| {
        let oid = oid_arg(args, 0)?;
        let name = snapshot.schema_name(oid).map(quote_ident);
        Ok(Datum::Text(name.unwrap_or_else(|| unnamed(oid))))
    }),
    strict("regroleout", |snapshot, args| {
        let oid = oid_arg(args, 0)?;
        let name = role_name(snapshot, oid).map(quote_ident);
        Ok(Datum::Text(name.unwrap_or_else(|| unnamed(oid))))
    }),
];

/// The name of a role.
fn role_name(snapshot: &CatalogView, oid: u32) -> Option<&str> {
    match oid {
        OWNER => Some(&snapshot.user),
        DATABASE_OWNER => Some(DATABASE_OWNER_NAME),
        _ => None,
    }
}

/// An oid without a name, in its named form.
fn unnamed(oid: u32) -> String {
    if oid == 0 {
        "-".to_owned()
    } else {
        oid.to_string()
    }
}

fn found(oid: Option<u32>) -> Datum {
    oid.map_or(Datum::Null, Datum::Oid)
}

/// The input function of a named oid: a number is the oid itself.
fn input(args: &[Datum], lookup: impl Fn(&str) -> SqlResult<u32>) -> SqlResult<Datum> {
    Ok(Datum::Oid(match arg(args, 0) {
        Datum::Text(text) => lookup(text)?,
        _ => oid_arg(args, 0)?,
    }))
}

fn type_name(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    if arg(args, 0).is_null() {
        return Ok(Datum::Null);
    }
    let typmod = match arg(args, 1) {
        Datum::Null => None,
        _ => Some(i32::try_from(number_arg(args, 1)?).unwrap_or(-1)),
    };
    Ok(Datum::Text(name_of_type(
        snapshot,
        oid_arg(args, 0)?,
        typmod,
    )))
}

fn name_of_type(snapshot: &CatalogView, oid: u32, typmod: Option<i32>) -> String {
    match (enums::name(snapshot, oid), typmod) {
        (Some(name), Some(typmod)) if typmod >= 0 && !name.ends_with("[]") => {
            format!("{name}({typmod})")
        }
        (Some(name), _) => name,
        (None, typmod) => format_type(oid, typmod),
    }
}

/// The privileges that an object has when none were granted: those of its owner, and of all.
fn default_privileges(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let owner = match oid_arg(args, 1)? {
        DATABASE_OWNER => DATABASE_OWNER_NAME,
        _ => &snapshot.user,
    };
    let (all, own) = match text_arg(args, 0)? {
        "c" => return Ok(Datum::Text("{}".to_owned())),
        "r" => ("", "arwdDxtm"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "p" => ("", "sA"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        other => {
            let message = format!("unrecognized object type abbreviation: {other}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    };
    let public = match all {
        "" => String::new(),
        all => format!("={all}/{owner},"),
    };
    Ok(Datum::Text(format!("{{{public}{owner}={own}/{owner}}}")))
}

fn user(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let oid = oid_arg(args, 0)?;
    let name = role_name(snapshot, oid).map(str::to_owned);
    Ok(Datum::Text(
        name.unwrap_or_else(|| format!("unknown (OID={oid})")),
    ))
}

fn encoding(_: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let utf8 = number_arg(args, 0)? == i64::from(shared_rows::UTF8);
    Ok(Datum::Text(if utf8 {
        "UTF8".to_owned()
    } else {
        String::new()
    }))
}

fn encoding_number(_: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let name = text_arg(args, 0)?.to_ascii_lowercase();
    Ok(Datum::Int4(if matches!(name.as_str(), "utf8" | "utf-8") {
        shared_rows::UTF8
    } else {
        -1
    }))
}

fn table_is_visible(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let relation = snapshot.relation(oid_arg(args, 0)?);
    Ok(relation.map_or(Datum::Null, |relation| {
        Datum::Bool(snapshot.is_visible(&relation))
    }))
}

fn visible(_: &CatalogView, _: &[Datum]) -> SqlResult<Datum> {
    Ok(Datum::Bool(true))
}

/// A name's parts, folded as PostgreSQL folds them.
pub(super) fn name_parts(text: &str) -> SqlResult<Vec<String>> {
    let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    let name = evenkeel_planner::parser::parse_name(text).map_err(|_| invalid())?;
    Ok(name.parts.into_iter().map(|part| part.text).collect())
}

/// A name in a schema of PostgreSQL's own, or without one.
fn system_name(text: &str) -> SqlResult<String> {
    let mut parts = name_parts(text)?;
    Ok(parts.pop().unwrap_or_default())
}

/// The oid that a `regclass` text means; 42P01 if there is no such relation.
pub(super) fn relation_oid(snapshot: &CatalogView, text: &str) -> SqlResult<u32> {
    if let Some(oid) = plain_oid(text) {
        return Ok(oid);
    }
    let parts = name_parts(text)?;
    let found = match parts.as_slice() {
        [name] => snapshot.find(None, name),
        [schema, name] => snapshot.find(Some(schema), name),
        [database, schema, name] => {
            if !snapshot.is_database(database) {
                let shown = parts.join(".");
                let message = format!("cross-database references are not implemented: \"{shown}\"");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            snapshot.find(Some(schema), name)
        }
        [] => None,
        _ => {
            let shown = parts.join(".");
            let message = format!("improper relation name (too many dotted names): {shown}");
            return Err(SqlError::syntax(message));
        }
    };
    found
        .map(|relation: Relation<'_>| relation.oid())
        .ok_or_else(|| {
            let message = format!("relation \"{}\" does not exist", parts.join("."));
            SqlError::new(SqlState::UNDEFINED_TABLE, message)
        })
}

fn plain_oid(text: &str) -> Option<u32> {
    if text == "-" {
        Some(0)
    } else {
        text.parse().ok()
    }
}

/// The type that a text names, one that was created among them.
fn named_type(snapshot: &CatalogView, text: &str) -> SqlResult<SqlType> {
    let path = &snapshot.search_path;
    let created = |schema: Option<&str>, name: &str| {
        let schema = schema.map(|schema| path.meant(schema));
        let catalog = snapshot.catalog.as_ref()?;
        catalog.type_named(schema, name, path)
    };
    type_among(text, &TypesOnly(created))
}

pub(super) fn type_oid(snapshot: &CatalogView, text: &str) -> SqlResult<u32> {
    if let Some(oid) = plain_oid(text) {
        return Ok(oid);
    }
    let named = |name: &str| {
        let mut types = builtin::types().iter();
        types
            .find(|ty| ty.name == name || ty.formatted == name)
            .map(|ty| ty.oid)
    };
    if let Some(oid) = named(text) {
        return Ok(oid);
    }
    if let Ok(ty) = named_type(snapshot, text) {
        return Ok(ty.oid());
    }
    let name = system_name(text)?;
    named(&name).ok_or_else(|| missing(SqlState::UNDEFINED_OBJECT, "type", text))
}

fn proc_oid(text: &str) -> SqlResult<u32> {
    if let Some(oid) = plain_oid(text) {
        return Ok(oid);
    }
    let name = system_name(text)?;
    let mut named = builtin::procs().iter().filter(|proc| proc.name == name);
    match (named.next(), named.next()) {
        (Some(proc), None) => Ok(proc.oid),
        (Some(_), Some(_)) => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("more than one function named \"{name}\""),
        )),
        _ => Err(missing(SqlState::UNDEFINED_FUNCTION, "function", text)),
    }
}

/// A function by its name and the types of its arguments.
pub(super) fn procedure_oid(text: &str) -> SqlResult<u32> {
    if let Some(oid) = plain_oid(text) {
        return Ok(oid);
    }
    let invalid = |message| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message);
    let (name, rest) = text
        .split_once('(')
        .ok_or_else(|| invalid("expected a left parenthesis"))?;
    let types = rest
        .trim_end()
        .strip_suffix(')')
        .ok_or_else(|| invalid("expected a right parenthesis"))?;
    let name = system_name(name)?;
    let mut wanted = Vec::new();
    for ty in types.split(',').map(str::trim).filter(|ty| !ty.is_empty()) {
        wanted.push(type_named(ty)?.oid().to_string());
    }
    let wanted = wanted.join(" ");
    let mut procs = builtin::procs().iter();
    let found = procs.find(|proc| proc.name == name && proc.arg_types == wanted);
    let found = found.map(|proc| proc.oid);
    found.ok_or_else(|| missing(SqlState::UNDEFINED_FUNCTION, "function", text))
}

fn procedure_text(oid: u32) -> String {
    let Some(proc) = builtin::proc_by_oid(oid) else {
        return unnamed(oid);
    };
    let types = proc.arg_types.split_whitespace();
    let types = types.filter_map(|ty| Some(format_type(ty.parse().ok()?, None)));
    let types: Vec<String> = types.collect();
    format!("{}({})", quote_ident(proc.name), types.join(","))
}

fn schema_oid(snapshot: &CatalogView, text: &str) -> SqlResult<u32> {
    if let Some(oid) = plain_oid(text) {
        return Ok(oid);
    }
    let found = snapshot.schema_oid(&system_name(text)?);
    found.ok_or_else(|| missing(SqlState::INVALID_SCHEMA_NAME, "schema", text))
}

fn role_oid(snapshot: &CatalogView, text: &str) -> SqlResult<u32> {
    if let Some(oid) = plain_oid(text) {
        return Ok(oid);
    }
    let name = system_name(text)?;
    if name == snapshot.user {
        return Ok(OWNER);
    }
    if name == DATABASE_OWNER_NAME {
        return Ok(DATABASE_OWNER);
    }
    Err(missing(SqlState::UNDEFINED_OBJECT, "role", text))
}

pub(super) fn missing(state: SqlState, what: &str, name: &str) -> SqlError {
    SqlError::new(state, format!("{what} \"{name}\" does not exist"))
}
