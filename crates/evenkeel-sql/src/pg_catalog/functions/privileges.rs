//! Functions of privileges. The one role has them all, so what is asked for is looked at, and the
//! answer is yes.

use super::names::{missing, name_parts, procedure_oid, relation_oid, type_oid};
use super::{Definition, strict, text_arg};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::pg_catalog::shared_rows::{LANGUAGES, TABLESPACES};
use crate::pg_catalog::view::{CatalogView, DATABASE_OWNER_NAME, Relation};
use crate::types::Datum;

pub(super) const FUNCTIONS: &[Definition] = &[
    strict("has_any_column_privilege", |snapshot, args| {
        answer(snapshot, args, &COLUMN_KINDS, relation)
    }),
    strict("has_column_privilege", column_privilege),
    strict("has_database_privilege", |snapshot, args| {
        let kinds = ["CREATE", "CONNECT", "TEMPORARY", "TEMP"];
        answer(snapshot, args, &kinds, |snapshot, database| {
            by_name(database, |name| {
                let instance = snapshot.instance.as_ref();
                instance.map_or(Ok(()), |it| it.databases().expect(name).map(drop))
            })
        })
    }),
    strict("has_foreign_data_wrapper_privilege", |snapshot, args| {
        let what = "foreign-data wrapper";
        answer(snapshot, args, &["USAGE"], |_, it| one_of(&[], what, it))
    }),
    strict("has_function_privilege", |snapshot, args| {
        answer(snapshot, args, &["EXECUTE"], |_, function| {
            by_name(function, |text| procedure_oid(text).map(drop))
        })
    }),
    strict("has_language_privilege", |snapshot, args| {
        let known = LANGUAGES.map(|(_, name)| name);
        let find = |_: &CatalogView, it: &Datum| one_of(&known, "language", it);
        answer(snapshot, args, &["USAGE"], find)
    }),
    strict("has_parameter_privilege", |snapshot, args| {
        let kinds = ["SET", "ALTER SYSTEM"];
        answer(snapshot, args, &kinds, |_, _| Ok(true))
    }),
    strict("has_schema_privilege", |snapshot, args| {
        answer(snapshot, args, &["CREATE", "USAGE"], |snapshot, schema| {
            by_name(schema, |name| check_schema(snapshot, name))
        })
    }),
    strict("has_sequence_privilege", |snapshot, args| {
        answer(snapshot, args, &["USAGE", "SELECT", "UPDATE"], sequence)
    }),
    strict("has_server_privilege", |snapshot, args| {
        let find = |_: &CatalogView, it: &Datum| one_of(&[], "server", it);
        answer(snapshot, args, &["USAGE"], find)
    }),
    strict("has_table_privilege", |snapshot, args| {
        answer(snapshot, args, &TABLE_KINDS, relation)
    }),
    strict("has_tablespace_privilege", |snapshot, args| {
        let known = TABLESPACES.map(|(_, name)| name);
        let find = |_: &CatalogView, it: &Datum| one_of(&known, "tablespace", it);
        answer(snapshot, args, &["CREATE"], find)
    }),
    strict("has_type_privilege", |snapshot, args| {
        answer(snapshot, args, &["USAGE"], |snapshot, ty| {
            by_name(ty, |text| type_oid(snapshot, text).map(drop))
        })
    }),
    strict("pg_has_role", |snapshot, args| {
        answer(
            snapshot,
            args,
            &["MEMBER", "USAGE", "SET"],
            |snapshot, role| by_name(role, |name| check_role(snapshot, name)),
        )
    }),
];

const COLUMN_KINDS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "REFERENCES"];
const TABLE_KINDS: [&str; 8] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "TRUNCATE",
    "REFERENCES",
    "TRIGGER",
    "MAINTAIN",
];
/// A privilege that may be given on.
const GRANTABLE: [&str; 2] = [" WITH GRANT OPTION", " WITH ADMIN OPTION"];
const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"];

/// The answer of a function `([role,] object, privileges)`, by one that says whether the object is
/// there: NULL if it is not. An object that is named has to be there, or the name is an error.
fn answer(
    snapshot: &CatalogView,
    args: &[Datum],
    kinds: &[&str],
    find: impl Fn(&CatalogView, &Datum) -> SqlResult<bool>,
) -> SqlResult<Datum> {
    let [object, kind] = without_role(snapshot, args)? else {
        return Err(SqlError::internal("a privilege of no object"));
    };
    let is_there = find(snapshot, object)?;
    check_kinds(text_arg(std::slice::from_ref(kind), 0)?, kinds)?;
    Ok(if is_there {
        Datum::Bool(true)
    } else {
        Datum::Null
    })
}

/// The arguments behind the role, if there is one, which has to exist if it is named.
fn without_role<'a>(snapshot: &CatalogView, args: &'a [Datum]) -> SqlResult<&'a [Datum]> {
    let [role, rest @ ..] = args else {
        return Ok(args);
    };
    if rest.len() < 2 {
        return Ok(args);
    }
    if let Some(name) = role.as_str()
        && name != "public"
    {
        check_role(snapshot, name)?;
    }
    Ok(rest)
}

fn check_role(snapshot: &CatalogView, name: &str) -> SqlResult<()> {
    match name == snapshot.user || name == DATABASE_OWNER_NAME {
        true => Ok(()),
        false => Err(missing(SqlState::UNDEFINED_OBJECT, "role", name)),
    }
}

fn check_schema(snapshot: &CatalogView, name: &str) -> SqlResult<()> {
    let found = snapshot.schema_oid(name).map(drop);
    found.ok_or_else(|| missing(SqlState::INVALID_SCHEMA_NAME, "schema", name))
}

/// Refuses a list of privileges in which one is none of `kinds`.
fn check_kinds(list: &str, kinds: &[&str]) -> SqlResult<()> {
    for given in list.split(',').map(str::trim) {
        let upper = given.to_ascii_uppercase();
        let grantable = GRANTABLE.iter().find_map(|words| upper.strip_suffix(words));
        if !kinds.contains(&grantable.unwrap_or(&upper)) {
            let message = format!("unrecognized privilege type: \"{given}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    Ok(())
}

/// Looks a named object up. One by its oid is not looked for: a superuser may do anything with it.
fn by_name(object: &Datum, find: impl Fn(&str) -> SqlResult<()>) -> SqlResult<bool> {
    object.as_str().map_or(Ok(()), find).map(|()| true)
}

fn one_of(known: &[&str], what: &str, object: &Datum) -> SqlResult<bool> {
    by_name(object, |name| match known.contains(&name) {
        true => Ok(()),
        false => Err(missing(SqlState::UNDEFINED_OBJECT, what, name)),
    })
}

/// The relation that an argument names or is the oid of.
fn relation_of<'a>(snapshot: &'a CatalogView, object: &Datum) -> SqlResult<Option<Relation<'a>>> {
    let oid = match object {
        Datum::Oid(oid) => *oid,
        _ => {
            let text = object.as_str().unwrap_or_default();
            if let [.., schema, _] = name_parts(text)?.as_slice() {
                check_schema(snapshot, snapshot.search_path.meant(schema))?;
            }
            relation_oid(snapshot, text)?
        }
    };
    Ok(snapshot.relation(oid))
}

fn relation(snapshot: &CatalogView, object: &Datum) -> SqlResult<bool> {
    Ok(relation_of(snapshot, object)?.is_some())
}

fn sequence(snapshot: &CatalogView, object: &Datum) -> SqlResult<bool> {
    match relation_of(snapshot, object)? {
        None => Ok(false),
        Some(Relation::Sequence(_)) => Ok(true),
        Some(other) => {
            let message = format!("\"{}\" is not a sequence", other.name());
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
    }
}

/// `has_column_privilege([role,] table, column, privileges)`
fn column_privilege(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    let args = match args.len() {
        4 => without_role(snapshot, args)?,
        _ => args,
    };
    let [table, column, kind] = args else {
        return Err(SqlError::internal("a privilege of no column"));
    };
    let is_there = match relation_of(snapshot, table)? {
        Some(relation) => has_column(&relation, column)?,
        None => false,
    };
    check_kinds(text_arg(std::slice::from_ref(kind), 0)?, &COLUMN_KINDS)?;
    Ok(if is_there {
        Datum::Bool(true)
    } else {
        Datum::Null
    })
}

/// Whether a relation has a column, by its number; one that is named has to be there.
fn has_column(relation: &Relation<'_>, column: &Datum) -> SqlResult<bool> {
    let columns: Vec<(&str, i16)> = match relation {
        Relation::Table(table) => {
            let columns = table.columns.iter();
            columns
                .map(|column| (&*column.name, column.attnum))
                .collect()
        }
        Relation::View(view) => {
            let names = view.columns.iter().map(|column| &*column.name);
            names.zip(1..).collect()
        }
        Relation::System(def) => def
            .columns
            .iter()
            .map(|column| column.name)
            .zip(1..)
            .collect(),
        Relation::Index(..) | Relation::Sequence(_) => Vec::new(),
    };
    let Some(name) = column.as_str() else {
        let number = matches!(column, Datum::Int2(number)
            if columns.iter().any(|(_, known)| known == number));
        return Ok(number);
    };
    if SYSTEM_COLUMNS.contains(&name) || columns.iter().any(|(known, _)| *known == name) {
        return Ok(true);
    }
    let message = format!(
        "column \"{name}\" of relation \"{}\" does not exist",
        relation.name()
    );
    Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
}
