//! Functions by which a session asks about itself and the server. Entry point: [`about`].

use std::sync::Arc;

use evenkeel_engine::Xid;

use evenkeel_settings::SERVER_VERSION;

use super::SessionVars;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::Datum;

/// One call.
struct Call<'a> {
    args: &'a [Datum],
    session: &'a Arc<SessionVars>,
}

impl Call<'_> {
    /// A string argument.
    fn text(&self, at: usize) -> Option<&str> {
        self.args.get(at)?.as_str()
    }

    /// An integer argument of any width.
    fn integer(&self, at: usize) -> Option<i64> {
        match self.args.get(at)? {
            Datum::Int2(v) => Some(i64::from(*v)),
            Datum::Int4(v) => Some(i64::from(*v)),
            Datum::Int8(v) => Some(*v),
            Datum::Oid(v) => Some(i64::from(*v)),
            _ => None,
        }
    }
}

type Body = fn(&Call<'_>) -> SqlResult<Datum>;

fn version(_: &Call<'_>) -> SqlResult<Datum> {
    let own = env!("CARGO_PKG_VERSION");
    let machine = std::env::consts::ARCH;
    let system = std::env::consts::OS;
    Ok(
        format!("PostgreSQL {SERVER_VERSION} (evenkeel {own}) on {machine}-{system}, 64-bit")
            .into(),
    )
}

fn current_database(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(call.session.database.as_str().into())
}

fn current_user(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(call.session.user.as_str().into())
}

/// The first schema of the path that exists.
fn current_schema(call: &Call<'_>) -> SqlResult<Datum> {
    let session = call.session;
    let mut path = session.search_path.named().iter();
    let first = path.find(|schema| session.catalog.schema_oid(schema).is_some());
    Ok(first.map_or(Datum::Null, |schema| schema.as_str().into()))
}

/// A name as an element of an array's text.
fn array_element(name: &str) -> String {
    let special = |c: char| "{},\"\\".contains(c) || c.is_ascii_whitespace();
    if !name.is_empty() && !name.contains(special) && !name.eq_ignore_ascii_case("null") {
        return name.to_owned();
    }
    let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

fn current_schemas(call: &Call<'_>) -> SqlResult<Datum> {
    let session = call.session;
    let implicit = call.args.first() == Some(&Datum::Bool(true));
    let mut path: Vec<&str> = match implicit {
        true => session.search_path.all().collect(),
        false => session
            .search_path
            .named()
            .iter()
            .map(String::as_str)
            .collect(),
    };
    path.retain(|schema| session.catalog.schema_oid(schema).is_some());
    let quoted: Vec<String> = path.into_iter().map(array_element).collect();
    Ok(format!("{{{}}}", quoted.join(",")).into())
}

fn pg_backend_pid(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Int4(call.session.backend_pid))
}

fn current_setting(call: &Call<'_>) -> SqlResult<Datum> {
    let name = call.text(0).unwrap_or_default();
    let missing_ok = call.args.get(1) == Some(&Datum::Bool(true));
    match call.session.settings.get(name) {
        Some(value) => Ok(value.into()),
        None if missing_ok => Ok(Datum::Null),
        None => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized configuration parameter \"{name}\""),
        )),
    }
}

fn set_config(call: &Call<'_>) -> SqlResult<Datum> {
    let local = call.args.get(2) == Some(&Datum::Bool(true));
    let settings = &call.session.settings;
    let value = call.text(1).unwrap_or_default();
    Ok(settings
        .set(call.text(0).unwrap_or_default(), value, local)?
        .into())
}

/// When a transaction committed; NULL when it has not, or that is no longer kept.
fn pg_xact_commit_timestamp(call: &Call<'_>) -> SqlResult<Datum> {
    let number = match (call.integer(0), call.text(0)) {
        (Some(number), _) => u64::try_from(number).ok(),
        (None, text) => text.and_then(|text| text.trim().parse().ok()),
    };
    let Some(number) = number.filter(|number| *number > 0) else {
        let message = "cannot retrieve commit timestamp for transaction 0";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    };
    let session = call.session;
    let Some(db) = session.catalog.database() else {
        return Ok(Datum::Null);
    };
    if !db.config().track_commit_timestamp {
        let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        let error = SqlError::new(state, "could not get commit timestamp data");
        return Err(
            error.hint("Make sure the configuration parameter \"track_commit_timestamp\" is set.")
        );
    }
    let micros = db.commit_timestamp(Xid::new(number))?;
    Ok(micros.map_or(Datum::Null, |micros| {
        Datum::Timestamptz(i64::try_from(micros).unwrap_or(i64::MAX))
    }))
}

/// The functions that answer NULL for NULL, by name.
const FUNCTIONS: [(&str, Body); 10] = [
    ("version", version),
    ("current_database", current_database),
    ("current_catalog", current_database),
    ("current_user", current_user),
    ("session_user", current_user),
    ("current_schema", current_schema),
    ("current_schemas", current_schemas),
    ("pg_backend_pid", pg_backend_pid),
    ("pg_xact_commit_timestamp", pg_xact_commit_timestamp),
    ("current_setting", current_setting),
];

/// Answers a function about the session or the server by its oid in `pg_proc`; `None` for one that
/// the catalog answers.
pub fn about(oid: u32, args: &[Datum], vars: &Arc<SessionVars>) -> Option<SqlResult<Datum>> {
    let name = evenkeel_expr::proc_by_oid(oid)?.name;
    let call = Call {
        args,
        session: vars,
    };
    if name == "set_config" {
        return Some(set_config(&call));
    }
    let (_, body) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    if args.iter().any(Datum::is_null) {
        return Some(Ok(Datum::Null));
    }
    Some(body(&call))
}
