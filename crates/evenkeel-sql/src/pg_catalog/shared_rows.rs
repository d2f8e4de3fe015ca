//! Rows of objects that belong to no table: schemas, types, functions, roles, the database and its
//! settings.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::builtin;
use super::rows::{Rows, flag, maybe_text, number, oid, text, xid};
use super::view::{
    BTREE_AM, CatalogView, DATABASE_OWNER, DATABASE_OWNER_NAME, HEAP_AM, OWNER, PG_CATALOG, PUBLIC,
};
use crate::catalog::CatalogState;
use crate::catalog::comment_info::{
    CLASS, CONSTRAINTS, DATABASES, EXTENSIONS as EXTENSIONS_CLASS, NAMESPACES, PLPGSQL, Subject,
};
use crate::databases::{DatabaseInfo, Databases};
use crate::error::SqlResult;
use crate::types::Datum;

const DEFAULT_TABLESPACE: u32 = 1663;
const GLOBAL_TABLESPACE: u32 = 1664;
const INTERNAL_LANGUAGE: u32 = 12;
const SQL_LANGUAGE: u32 = 14;
/// The tablespaces, which are names alone.
pub const TABLESPACES: [(u32, &str); 2] = [
    (DEFAULT_TABLESPACE, "pg_default"),
    (GLOBAL_TABLESPACE, "pg_global"),
];
/// The languages of the built-in functions.
pub const LANGUAGES: [(u32, &str); 2] = [(INTERNAL_LANGUAGE, "internal"), (SQL_LANGUAGE, "sql")];
/// PostgreSQL's number of UTF-8.
pub const UTF8: i32 = 6;
/// Extensions that CREATE EXTENSION accepts, with version and comment. The first is always
/// there.
const EXTENSIONS: [(&str, &str, &str); 2] = [
    ("plpgsql", "1.0", "PL/pgSQL procedural language"),
    (
        "uuid-ossp",
        "1.1",
        "generate universally unique identifiers (UUIDs)",
    ),
];

/// `pg_type`
pub fn types(rows: &mut Rows) -> SqlResult<()> {
    for ty in builtin::types() {
        let cells = ty.columns().map(|(name, value)| {
            let value = match name {
                "oid" | "typlen" | "typelem" | "typarray" | "typcollation" | "typinput"
                | "typoutput" | "typreceive" | "typsend" | "typmodin" | "typmodout"
                | "typsubscript" => number(value.parse::<i64>().unwrap_or(0)),
                "typbyval" | "typispreferred" => flag(value == "t"),
                _ => text(value),
            };
            (name, value)
        });
        rows.push(cells.chain([
            ("typnamespace", oid(PG_CATALOG)),
            ("typowner", oid(OWNER)),
            ("typisdefined", flag(true)),
            ("typtypmod", number(-1)),
        ]))?;
    }
    Ok(())
}

/// `pg_proc`
pub fn procs(rows: &mut Rows) -> SqlResult<()> {
    for proc in builtin::procs() {
        rows.push([
            ("oid", oid(proc.oid)),
            ("proname", text(proc.name)),
            ("pronamespace", oid(PG_CATALOG)),
            ("proowner", oid(OWNER)),
            ("prolang", oid(INTERNAL_LANGUAGE)),
            ("procost", Datum::Float4(1.0)),
            ("prokind", text(proc.kind)),
            ("proisstrict", flag(proc.strict)),
            ("proretset", flag(proc.returns_set)),
            ("provolatile", text(proc.volatility)),
            ("proparallel", text("s")),
            (
                "pronargs",
                number(proc.arg_types.split_whitespace().count()),
            ),
            ("prorettype", oid(proc.return_type)),
            ("proargtypes", text(proc.arg_types.as_str())),
            ("prosrc", text(proc.name)),
        ])?;
    }
    Ok(())
}

/// `pg_am`
pub fn access_methods(rows: &mut Rows) -> SqlResult<()> {
    for (number, name, kind) in [(HEAP_AM, "heap", "t"), (BTREE_AM, "btree", "i")] {
        rows.push([
            ("oid", oid(number)),
            ("amname", text(name)),
            ("amtype", text(kind)),
        ])?;
    }
    Ok(())
}

/// `pg_tablespace`
pub fn tablespaces(rows: &mut Rows) -> SqlResult<()> {
    for (number, name) in TABLESPACES {
        rows.push([
            ("oid", oid(number)),
            ("spcname", text(name)),
            ("spcowner", oid(OWNER)),
        ])?;
    }
    Ok(())
}

/// `pg_collation`: strings compare by their bytes.
pub fn collations(rows: &mut Rows) -> SqlResult<()> {
    for (number_, name, provider) in [(100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")] {
        let locale = (provider == "c").then_some(name);
        rows.push([
            ("oid", oid(number_)),
            ("collname", text(name)),
            ("collnamespace", oid(PG_CATALOG)),
            ("collowner", oid(OWNER)),
            ("collprovider", text(provider)),
            ("collisdeterministic", flag(true)),
            ("collencoding", number(-1)),
            ("collcollate", maybe_text(locale)),
            ("collctype", maybe_text(locale)),
        ])?;
    }
    Ok(())
}

/// `pg_language`
pub fn languages(rows: &mut Rows) -> SqlResult<()> {
    for (number, name) in LANGUAGES {
        rows.push([
            ("oid", oid(number)),
            ("lanname", text(name)),
            ("lanowner", oid(OWNER)),
            ("lanpltrusted", flag(number == SQL_LANGUAGE)),
        ])?;
    }
    Ok(())
}

/// Privileges on schema `public` in a new database of PostgreSQL.
const PUBLIC_PRIVILEGES: &str = "{pg_database_owner=UC/pg_database_owner,=U/pg_database_owner}";

/// `pg_namespace`
pub fn namespaces(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for (number, name) in &snapshot.schemas {
        let public = *number == PUBLIC;
        let owner = if public { DATABASE_OWNER } else { OWNER };
        rows.push([
            ("oid", oid(*number)),
            ("nspname", text(name)),
            ("nspowner", oid(owner)),
            ("nspacl", maybe_text(public.then_some(PUBLIC_PRIVILEGES))),
        ])?;
    }
    Ok(())
}

/// `pg_database`
pub fn databases(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(instance) = &snapshot.instance else {
        return Ok(());
    };
    for info in instance.databases().list() {
        // As in a new cluster of PostgreSQL.
        let user = &snapshot.user;
        let privileges = info.is_builtin_template();
        let privileges = privileges.then(|| format!("{{=c/{user},{user}=CTc/{user}}}"));
        rows.push([
            ("datacl", maybe_text(privileges)),
            ("oid", oid(info.oid)),
            ("datname", text(&*info.name)),
            ("datdba", oid(OWNER)),
            ("encoding", number(UTF8)),
            ("datlocprovider", text("c")),
            ("datistemplate", flag(info.is_template)),
            ("datallowconn", flag(info.allows_connections)),
            ("datconnlimit", number(info.connection_limit)),
            ("datminmxid", xid(1)),
            ("dattablespace", oid(DEFAULT_TABLESPACE)),
            ("datcollate", text("C")),
            ("datctype", text("C")),
        ])?;
    }
    Ok(())
}

/// `pg_roles`: everything belongs to one role, whose name is the user's; that one is the owner of
/// the database, too.
pub fn roles(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    rows.push([
        ("oid", oid(DATABASE_OWNER)),
        ("rolname", text(DATABASE_OWNER_NAME)),
        ("rolinherit", flag(true)),
        ("rolconnlimit", number(-1)),
        ("rolpassword", text("********")),
    ])?;
    rows.push([
        ("oid", oid(OWNER)),
        ("rolname", text(&snapshot.user)),
        ("rolsuper", flag(true)),
        ("rolinherit", flag(true)),
        ("rolcreaterole", flag(true)),
        ("rolcreatedb", flag(true)),
        ("rolcanlogin", flag(true)),
        ("rolreplication", flag(true)),
        ("rolconnlimit", number(-1)),
        ("rolpassword", text("********")),
        ("rolbypassrls", flag(true)),
    ])
}

/// `pg_user`
pub fn users(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    rows.push([
        ("usename", text(&snapshot.user)),
        ("usesysid", oid(OWNER)),
        ("usecreatedb", flag(true)),
        ("usesuper", flag(true)),
        ("userepl", flag(true)),
        ("usebypassrls", flag(true)),
        ("passwd", text("********")),
    ])
}

/// `pg_extension`
pub fn extensions(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let (name, version, _) = EXTENSIONS[0];
    let mut row = |number: u32, name: &str, version: &str, schema: u32| {
        rows.push([
            ("oid", oid(number)),
            ("extname", text(name)),
            ("extowner", oid(OWNER)),
            ("extnamespace", oid(schema)),
            ("extversion", text(version)),
        ])
    };
    row(PLPGSQL, name, version, PG_CATALOG)?;
    for extension in snapshot.extensions.iter() {
        row(extension.oid, &extension.name, &extension.version, PUBLIC)?;
    }
    Ok(())
}

/// `pg_available_extensions`
pub fn available_extensions(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for (at, (name, version, comment)) in EXTENSIONS.into_iter().enumerate() {
        let installed = snapshot
            .extensions
            .iter()
            .find(|extension| &*extension.name == name);
        let installed = installed.map(|extension| extension.version.to_string());
        rows.push([
            ("name", text(name)),
            ("default_version", text(version)),
            (
                "installed_version",
                maybe_text(installed.or((at == 0).then(|| version.into()))),
            ),
            ("comment", text(comment)),
        ])?;
    }
    Ok(())
}

/// The rows of `pg_available_extensions()`, one after the other: name, version, comment.
pub fn extensions_there_are() -> Datum {
    let rows = EXTENSIONS.iter();
    let values = rows.flat_map(|(name, version, comment)| [name, version, comment]);
    Datum::array(values.map(|value| text(*value)).collect())
}

/// Whether the object has a comment without being given one.
pub fn has_description(state: &CatalogState, subject: Subject) -> bool {
    built_in(state, subject).is_some()
}

/// The comment on an object: the one that was given to it, or that it has in a new database.
pub fn description(snapshot: &CatalogView, subject: Subject) -> Option<Arc<str>> {
    let state = snapshot.catalog.as_ref()?;
    match state.comment(subject) {
        Some(given) => given.text.clone(),
        None => built_in(state, subject).map(Arc::from),
    }
}

/// The comments on an object, of whatever catalog.
pub fn descriptions_of(snapshot: &CatalogView, object: u32) -> Option<Arc<str>> {
    let classes = [CLASS, CONSTRAINTS, NAMESPACES, EXTENSIONS_CLASS];
    let mut subjects = classes.map(|class| Subject::of(class, object)).into_iter();
    subjects.find_map(|subject| description(snapshot, subject))
}

fn built_in(state: &CatalogState, subject: Subject) -> Option<&'static str> {
    let number = subject.object;
    match subject.class {
        NAMESPACES if number == PUBLIC => Some("standard public schema"),
        NAMESPACES if number == PG_CATALOG => Some("system catalog schema"),
        EXTENSIONS_CLASS => {
            let named = |name: &str| EXTENSIONS.iter().find(|(known, ..)| *known == name);
            let installed = state.extensions().find(|e| e.oid == number);
            let name = installed.map(|extension| &*extension.name);
            let name = name.or((number == PLPGSQL).then_some("plpgsql"))?;
            named(name).map(|(.., comment)| *comment)
        }
        _ => None,
    }
}

/// `pg_description`
pub fn descriptions(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(state) = &snapshot.catalog else {
        return Ok(());
    };
    let extensions = state.extensions().map(|extension| extension.oid);
    let extensions = extensions.chain([PLPGSQL]);
    let extensions = extensions.map(|number| Subject::of(EXTENSIONS_CLASS, number));
    let schemas = [PUBLIC, PG_CATALOG].into_iter();
    let schemas = schemas.filter(|number| state.schema(*number).is_some());
    let schemas = schemas.map(|number| Subject::of(NAMESPACES, number));
    let born = schemas.chain(extensions);
    let born = born.filter(|subject| state.comment(*subject).is_none());
    let given = state.comments().map(|(subject, _)| *subject);
    let given = given.filter(|subject| subject.class != DATABASES);
    for subject in born.chain(given) {
        let Some(words) = description(snapshot, subject) else {
            continue;
        };
        rows.push([
            ("objoid", oid(subject.object)),
            ("classoid", oid(subject.class)),
            ("objsubid", number(subject.column)),
            ("description", text(&*words)),
        ])?;
    }
    Ok(())
}

/// The comment on a database: of the session's own as its transaction sees it.
fn database_comment(snapshot: &CatalogView, info: &DatabaseInfo) -> Option<Arc<str>> {
    let subject = Subject::of(DATABASES, info.oid);
    if info.oid == snapshot.database_oid() {
        return Databases::comment(info, description(snapshot, subject));
    }
    let instance = snapshot.instance.as_ref()?;
    let made = info.comment.is_none() && info.files.is_made();
    // One that is being dropped has no catalog, and is of no account.
    let catalog = made.then(|| instance.databases().catalog(info.oid).ok());
    let state = catalog.flatten().map(|catalog| catalog.current());
    let own = state.and_then(|state| state.comment(subject)?.text.clone());
    Databases::comment(info, own)
}

/// The comment on an object that all databases share.
pub fn shared_description(snapshot: &CatalogView, subject: Subject) -> Option<Arc<str>> {
    let instance = snapshot.instance.as_ref()?;
    let databases = instance.databases().list();
    let named = databases.iter().find(|info| info.oid == subject.object);
    let named = named.filter(|_| subject.class == DATABASES)?;
    database_comment(snapshot, named)
}

/// `pg_shdescription`: the comments on databases.
pub fn shared_descriptions(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(instance) = &snapshot.instance else {
        return Ok(());
    };
    for info in instance.databases().list() {
        if let Some(words) = database_comment(snapshot, &info) {
            rows.push([
                ("objoid", oid(info.oid)),
                ("classoid", oid(DATABASES)),
                ("description", text(&*words)),
            ])?;
        }
    }
    Ok(())
}

/// `pg_db_role_setting`: the settings of databases, for every role.
pub fn database_settings(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(instance) = &snapshot.instance else {
        return Ok(());
    };
    for info in instance.databases().list() {
        if !info.settings.is_empty() {
            let settings = info.setting_texts().map(Datum::Text);
            rows.push([
                ("setdatabase", oid(info.oid)),
                ("setrole", oid(0)),
                ("setconfig", Datum::array(settings.collect())),
            ])?;
        }
    }
    Ok(())
}

/// `pg_settings`
pub fn settings(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    for info in snapshot.settings.describe() {
        let choices = info.enumvals.map(array_of_words);
        let (file, line) = info.source_place.unzip();
        rows.push([
            ("name", text(info.name)),
            ("setting", text(info.setting)),
            ("unit", maybe_text(info.unit)),
            ("category", text(info.category)),
            ("short_desc", text(info.short_desc)),
            ("context", text(info.context)),
            ("vartype", text(info.vartype)),
            ("source", text(info.source)),
            ("min_val", maybe_text(info.min_val)),
            ("max_val", maybe_text(info.max_val)),
            ("enumvals", maybe_text(choices)),
            ("boot_val", text(info.boot_val)),
            ("reset_val", text(info.reset_val)),
            ("sourcefile", maybe_text(file)),
            ("sourceline", line.map_or(Datum::Null, line_number)),
            ("pending_restart", flag(info.pending_restart)),
        ])?;
    }
    Ok(())
}

/// Words as the text of an array; those with other characters than words have are quoted.
fn array_of_words(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| match word.contains(' ') {
        true => format!("\"{word}\""),
        false => (*word).to_owned(),
    });
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

fn line_number(line: u32) -> Datum {
    Datum::Int4(i32::try_from(line).unwrap_or(i32::MAX))
}

/// `pg_file_settings`
pub fn file_settings(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let Some(configuration) = snapshot.settings.configuration() else {
        return Ok(());
    };
    for (entry, number) in configuration.file_entries()?.into_iter().zip(1..) {
        let (name, value) = entry.content.unzip();
        rows.push([
            ("sourcefile", text(entry.path.display().to_string())),
            ("sourceline", line_number(entry.line)),
            ("seqno", line_number(number)),
            ("name", maybe_text(name)),
            ("setting", maybe_text(value)),
            ("applied", flag(entry.applied)),
            ("error", maybe_text(entry.error)),
        ])?;
    }
    Ok(())
}

/// `pg_prepared_statements`: every plan is one for any values of the parameters.
pub fn prepared_statements(snapshot: &CatalogView, rows: &mut Rows) -> SqlResult<()> {
    let types = |oids: &[u32]| Datum::array(oids.iter().map(|oid| Datum::Oid(*oid)).collect());
    for (name, one) in snapshot.named.all() {
        rows.push(vec![
            ("name", text(name)),
            ("statement", text(&*one.statement)),
            ("prepare_time", Datum::Timestamptz(one.since)),
            ("parameter_types", types(&one.parameters)),
            (
                "result_types",
                one.results.as_deref().map_or(Datum::Null, types),
            ),
            ("from_sql", flag(one.from_sql)),
            ("generic_plans", number(one.runs.load(Ordering::Relaxed))),
            ("custom_plans", number(0)),
        ])?;
    }
    Ok(())
}
