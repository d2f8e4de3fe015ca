//! Functions of transactions' numbers.

use evenkeel_engine::{Database, Xid, XidStatus};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::StatementCx;
use crate::types::Datum;

/// The first number that is a transaction's: PostgreSQL's `FirstNormalTransactionId`.
const FIRST_NORMAL: u32 = 3;

/// Answers a function of transactions by its oid in `pg_proc`; `None` for any other.
pub fn call(oid: u32, cx: &StatementCx, args: &[Datum]) -> Option<SqlResult<Datum>> {
    let known = |own: Option<Xid>, made: fn(Xid) -> Datum| own.map_or(Datum::Null, made);
    Some(match (oid, args) {
        (2943, []) => own(cx).map(|own| known(own, as_bigint)),
        (5059, []) => own(cx).map(|own| known(own, as_xid8)),
        (3348, []) => Ok(known(own_if_any(cx), as_bigint)),
        (5060, []) => Ok(known(own_if_any(cx), as_xid8)),
        (3360, [Datum::Int8(xid)]) => status(cx, xid.cast_unsigned()),
        (5066, [Datum::Xid8(xid)]) => status(cx, *xid),
        (1181, [Datum::Oid(xid)]) => age(cx, *xid),
        _ => return None,
    })
}

fn as_bigint(xid: Xid) -> Datum {
    Datum::Int8(xid.get().cast_signed())
}

fn as_xid8(xid: Xid) -> Datum {
    Datum::Xid8(xid.get())
}

/// The transaction's number, which it gets if it has none.
fn own(cx: &StatementCx) -> SqlResult<Option<Xid>> {
    Ok(cx.seed.resources.own_xid()?)
}

fn own_if_any(cx: &StatementCx) -> Option<Xid> {
    cx.seed.resources.own_xid_if_any()
}

fn database(cx: &StatementCx) -> SqlResult<&Database> {
    let database = cx.view.database();
    database.ok_or_else(|| SqlError::internal("a transaction without a database"))
}

/// How many transactions there have been since, by the last 32 bits.
fn age(cx: &StatementCx, xid: u32) -> SqlResult<Datum> {
    if xid < FIRST_NORMAL {
        return Ok(Datum::Int4(i32::MAX));
    }
    let now = match own_if_any(cx) {
        Some(own) => own,
        None => database(cx)?.next_xid(),
    };
    Ok(Datum::Int4(
        (now.get() as u32).wrapping_sub(xid).cast_signed(),
    ))
}

/// How a transaction has ended; NULL where that is no longer kept.
fn status(cx: &StatementCx, xid: u64) -> SqlResult<Datum> {
    let db = database(cx)?;
    // The first numbers are no transaction's: none, that of a new database, and that of rows that
    // are visible to all.
    match xid {
        0 => return Ok(Datum::Null),
        1 | 2 => return Ok(Datum::Text("committed".to_owned())),
        _ => {}
    }
    if xid >= db.next_xid().get() {
        let message = format!("transaction ID {xid} is in the future");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    if xid < db.oldest_status().get() {
        return Ok(Datum::Null);
    }
    Ok(Datum::Text(
        match db.xid_status(Xid::new(xid))? {
            XidStatus::Committed => "committed",
            XidStatus::Aborted => "aborted",
            XidStatus::InProgress => "in progress",
        }
        .to_owned(),
    ))
}
