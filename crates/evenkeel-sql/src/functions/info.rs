//! What a session can ask about itself and the server.

use datafusion::arrow::datatypes::DataType;

use evenkeel_engine::Xid;

use super::SERVER_VERSION;
use super::define::{Call, PgFunction, Result};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, SqlType};

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
    Ok(call.session()?.database.as_str().into())
}

fn current_user(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(call.session()?.user.as_str().into())
}

/// The first schema of the path that exists.
fn current_schema(call: &Call<'_>) -> SqlResult<Datum> {
    let session = call.session()?;
    let mut path = session.search_path.iter();
    let first = path.find(|schema| session.catalog.schema_oid(schema).is_some());
    Ok(first.map_or(Datum::Null, |schema| schema.as_str().into()))
}

fn current_schemas(call: &Call<'_>) -> SqlResult<Datum> {
    let session = call.session()?;
    let implicit = call.args.first() == Some(&Datum::Bool(true));
    let mut path: Vec<&str> = session.search_path.iter().map(String::as_str).collect();
    path.retain(|schema| session.catalog.schema_oid(schema).is_some());
    if implicit && !path.contains(&"pg_catalog") {
        path.insert(0, "pg_catalog");
    }
    Ok(format!("{{{}}}", path.join(",")).into())
}

fn pg_backend_pid(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Int4(call.session()?.backend_pid))
}

fn current_setting(call: &Call<'_>) -> SqlResult<Datum> {
    let name = call.text(0).unwrap_or_default();
    let missing_ok = call.args.get(1) == Some(&Datum::Bool(true));
    match call.session()?.settings.get(name) {
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
    let settings = &call.session()?.settings;
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
    let session = call.session()?;
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

fn pg_typeof(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(call
        .types
        .first()
        .map_or("unknown", |ty| ty.base_name())
        .into())
}

pub(super) fn functions() -> Vec<PgFunction> {
    let text = DataType::Utf8;
    let session = Result::Session;
    vec![
        PgFunction::nullary("version", SqlType::Text, Result::Immutable, version),
        PgFunction::nullary("current_database", SqlType::Name, session, current_database)
            .also(&["current_catalog"]),
        PgFunction::nullary("current_user", SqlType::Name, session, current_user).also(&[
            "session_user",
            "user",
            "current_role",
        ]),
        PgFunction::nullary("current_schema", SqlType::Name, session, current_schema),
        PgFunction::new(
            "current_schemas",
            vec![vec![DataType::Boolean]],
            SqlType::TextArray,
            session,
            current_schemas,
        ),
        PgFunction::nullary("pg_backend_pid", SqlType::Int4, session, pg_backend_pid),
        PgFunction::new(
            "pg_xact_commit_timestamp",
            vec![vec![DataType::Int64], vec![DataType::Utf8]],
            SqlType::Timestamptz(None),
            session,
            pg_xact_commit_timestamp,
        ),
        PgFunction::new(
            "current_setting",
            vec![vec![text.clone()], vec![text.clone(), DataType::Boolean]],
            SqlType::Text,
            session,
            current_setting,
        ),
        PgFunction::new(
            "set_config",
            vec![vec![text.clone(), text, DataType::Boolean]],
            SqlType::Text,
            session,
            set_config,
        ),
        PgFunction::nullary("pg_typeof", SqlType::Text, Result::Immutable, pg_typeof)
            .any(1)
            .with_nulls(),
    ]
}
