//! The time: of the transaction, of the statement, of the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use super::define::{Call, PgFunction, Result};
use crate::error::SqlResult;
use crate::types::{Datum, SqlType};

fn transaction_timestamp(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Timestamptz(call.session()?.transaction_ts))
}

fn statement_timestamp(call: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Timestamptz(call.session()?.statement_ts))
}

/// Microseconds since 1970 UTC.
pub(super) fn clock_micros() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn clock_timestamp(_: &Call<'_>) -> SqlResult<Datum> {
    Ok(Datum::Timestamptz(clock_micros()))
}

/// The start of the transaction as a type without zone, by the session's clock.
fn local(call: &Call<'_>, ty: SqlType) -> SqlResult<Datum> {
    let session = call.session()?;
    let now = Datum::Timestamptz(session.transaction_ts);
    now.cast_explicit(SqlType::Timestamptz(None), ty, &session.cx)
}

fn local_timestamp(call: &Call<'_>) -> SqlResult<Datum> {
    local(call, SqlType::Timestamp(None))
}

fn current_date(call: &Call<'_>) -> SqlResult<Datum> {
    local(call, SqlType::Date)
}

fn local_time(call: &Call<'_>) -> SqlResult<Datum> {
    local(call, SqlType::Time)
}

pub(super) fn functions() -> Vec<PgFunction> {
    let instant = SqlType::Timestamptz(None);
    vec![
        PgFunction::nullary("now", instant, Result::Session, transaction_timestamp)
            .also(&["current_timestamp", "transaction_timestamp"]),
        PgFunction::nullary(
            "statement_timestamp",
            instant,
            Result::Session,
            statement_timestamp,
        ),
        PgFunction::nullary(
            "clock_timestamp",
            instant,
            Result::EveryRow,
            clock_timestamp,
        ),
        PgFunction::nullary(
            "localtimestamp",
            SqlType::Timestamp(None),
            Result::Session,
            local_timestamp,
        ),
        PgFunction::nullary("current_date", SqlType::Date, Result::Session, current_date)
            .also(&["today"]),
        PgFunction::nullary("localtime", SqlType::Time, Result::Session, local_time)
            .also(&["current_time"]),
    ]
}
