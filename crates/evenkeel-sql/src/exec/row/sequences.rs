//! `nextval` and its kin.

use std::sync::Arc;

use evenkeel_engine::sequence::{NoNumber, Sequence};
use evenkeel_engine::{Database, FileId};

use crate::catalog::{Oid, Relation, SequenceInfo};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::exec::StatementCx;
use crate::exec::sequence_use::Used;
use crate::types::Datum;

/// `pg_get_sequence_data`, which is a set here.
const DATA: u32 = 16_028;

/// Answers a function of sequences by its oid in `pg_proc`; `None` for any other.
pub fn call(oid: u32, cx: &StatementCx, args: &[Datum]) -> Option<SqlResult<Datum>> {
    let answered = match (oid, args) {
        (1574, [Datum::Oid(sequence)]) => next(cx, *sequence),
        (1575, [Datum::Oid(sequence)]) => current(cx, *sequence),
        (1576, [Datum::Oid(sequence), Datum::Int8(value)]) => set(cx, *sequence, *value, true),
        (
            1765,
            [
                Datum::Oid(sequence),
                Datum::Int8(value),
                Datum::Bool(called),
            ],
        ) => set(cx, *sequence, *value, *called),
        (2559, []) => last(cx),
        (4032, [Datum::Oid(sequence)]) => return Some(last_value(cx, *sequence)),
        (DATA, [Datum::Oid(sequence)]) => return Some(data(cx, *sequence)),
        _ => return None,
    };
    Some(answered.map(Datum::Int8))
}

fn not_open(oid: Oid) -> SqlError {
    let message = format!("could not open relation with OID {oid}");
    SqlError::new(SqlState::INTERNAL_ERROR, message)
}

/// The definition as of now: that of the transaction's own changes, or the newest that has been
/// committed.
fn definition(cx: &StatementCx, oid: Oid) -> SqlResult<Arc<SequenceInfo>> {
    if let Some(sequence) = cx.view.sequence(oid) {
        return Ok(Arc::clone(sequence));
    }
    match cx.view.relation(oid) {
        Some(other) => Err(not_a_sequence(&other)),
        None => Err(not_open(oid)),
    }
}

/// 42809 for a relation that is no sequence.
pub fn not_a_sequence(relation: &Relation) -> SqlError {
    let (name, kind) = match relation {
        Relation::Table(table) => (&table.name, "tables"),
        Relation::Index(_, index) => (&index.name, "indexes"),
        Relation::Sequence(sequence) => (&sequence.name, "sequences"),
        Relation::View(view) => (&view.name, "views"),
    };
    let message = format!("cannot open relation \"{name}\"");
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    error.detail(format!("This operation is not supported for {kind}."))
}

/// The open sequence, and what `work` makes of it. A sequence that another transaction drops or
/// restarts is looked for again when that has ended: a wait for that transaction as any other, with
/// its timeouts and its deadlocks.
fn with_open<T>(
    cx: &StatementCx,
    oid: Oid,
    work: impl Fn(&Sequence, &SequenceInfo) -> SqlResult<Result<T, NoNumber>>,
) -> SqlResult<(T, Arc<SequenceInfo>)> {
    let mut info = definition(cx, oid)?;
    let database = database(cx)?;
    loop {
        if let Some(sequence) = database.sequence(info.file)? {
            match work(&sequence, &info)? {
                Ok(value) => return Ok((value, info)),
                Err(NoNumber::AtMax) => return Err(exhausted(&info, "maximum", info.rule.max)),
                Err(NoNumber::AtMin) => return Err(exhausted(&info, "minimum", info.rule.min)),
                Err(NoNumber::Closing(xid)) => {
                    cx.seed.cancel.check()?;
                    cx.seed.resources.wait_for_xid(xid)?;
                    // It has ended; what follows from that is about to be seen.
                    std::thread::yield_now();
                }
            }
        }
        let newest = cx.seed.resources.sequences.catalog().current();
        let newer = newest.sequence(oid).filter(|newer| newer.file != info.file);
        match newer {
            Some(newer) => info = Arc::clone(newer),
            None if database.sequence(info.file)?.is_none() => return Err(not_open(oid)),
            None => {}
        }
    }
}

fn database(cx: &StatementCx) -> SqlResult<&Database> {
    let database = cx.view.database();
    database.ok_or_else(|| SqlError::internal("a sequence without a database"))
}

fn exhausted(info: &SequenceInfo, end: &str, bound: i64) -> SqlError {
    let message = format!(
        "nextval: reached {end} value of sequence \"{}\" ({bound})",
        info.name
    );
    SqlError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, message)
}

fn refuse_read_only(cx: &StatementCx, file: FileId, function: &str) -> SqlResult<()> {
    if !cx.seed.resources.sequences.is_read_only() || file.is_temporary() {
        return Ok(());
    }
    let message = format!("cannot execute {function}() in a read-only transaction");
    Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
}

fn next(cx: &StatementCx, oid: Oid) -> SqlResult<i64> {
    let session = &cx.seed.resources.sequences;
    let file = definition(cx, oid)?.file;
    if let Some(number) = session.reserved(oid, file) {
        return Ok(number);
    }
    refuse_read_only(cx, file, "nextval")?;
    let (taken, info) = with_open(cx, oid, |sequence, info| Ok(sequence.next(&info.rule)?))?;
    if taken.logged {
        session.note_logged();
    }
    let used = Used {
        file: info.file,
        last: taken.first,
        cached: taken.last,
        increment: info.rule.increment,
    };
    session.took(oid, used);
    Ok(taken.first)
}

fn current(cx: &StatementCx, oid: Oid) -> SqlResult<i64> {
    let info = definition(cx, oid)?;
    let last = cx.seed.resources.sequences.last_of(oid);
    last.ok_or_else(|| {
        let message = format!(
            "currval of sequence \"{}\" is not yet defined in this session",
            info.name
        );
        SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
    })
}

fn last(cx: &StatementCx) -> SqlResult<i64> {
    let last = cx.seed.resources.sequences.last_used();
    let last = last.filter(|(oid, _)| cx.view.sequence(*oid).is_some());
    last.map(|(_, number)| number).ok_or_else(|| {
        let message = "lastval is not yet defined in this session";
        SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
    })
}

fn set(cx: &StatementCx, oid: Oid, value: i64, is_called: bool) -> SqlResult<i64> {
    let info = definition(cx, oid)?;
    refuse_read_only(cx, info.file, "setval")?;
    let (min, max) = (info.rule.min, info.rule.max);
    if value < min || value > max {
        let message = format!(
            "setval: value {value} is out of bounds for sequence \"{}\" ({min}..{max})",
            info.name
        );
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let session = &cx.seed.resources.sequences;
    let ((), info) = with_open(cx, oid, |sequence, _| Ok(sequence.set(value, is_called)?))?;
    if !info.file.is_temporary() {
        session.note_logged();
    }
    if is_called {
        let used = Used {
            file: info.file,
            last: value,
            cached: value,
            increment: info.rule.increment,
        };
        session.set(oid, used);
    } else {
        session.forget_reserve(oid);
    }
    Ok(value)
}

fn last_value(cx: &StatementCx, oid: Oid) -> SqlResult<Datum> {
    let position = position(cx, oid)?;
    Ok(match position {
        Some([last, _, Datum::Bool(true)]) => last,
        _ => Datum::Null,
    })
}

/// The last value and, as a number, whether it was given out; NULL for no sequence.
fn data(cx: &StatementCx, oid: Oid) -> SqlResult<Datum> {
    if cx.view.sequence(oid).is_none() {
        return Ok(Datum::Null);
    }
    let Some([last, _, called]) = position(cx, oid)? else {
        return Ok(Datum::Null);
    };
    let called = Datum::Int8(i64::from(called == Datum::Bool(true)));
    Ok(Datum::array(vec![last, called]))
}

/// The row of a sequence, read as a table: `last_value`, `log_cnt`, `is_called`. None for one
/// that is being dropped.
pub fn position(cx: &StatementCx, oid: Oid) -> SqlResult<Option<[Datum; 3]>> {
    let info = definition(cx, oid)?;
    let open = database(cx)?.sequence(info.file)?;
    Ok(open.map(|sequence| {
        let position = sequence.position();
        [
            Datum::Int8(position.last_value),
            Datum::Int8(position.log_cnt),
            Datum::Bool(position.is_called),
        ]
    }))
}
