//! Functions that look at the running server, or act on it and its sessions.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use evenkeel_engine::EngineError;
use evenkeel_settings::Configuration;
use evenkeel_storage::ids::ParsePageError;
use evenkeel_storage::{BlockNumber, Lsn, PageId, StorageResult, Store};

use super::{Definition, arg, lax, number_arg, relation_arg, strict, text_arg};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::instance::{Backend, Instance, Kind};
use crate::pg_catalog::shared_rows;
use crate::pg_catalog::view::CatalogView;
use crate::types::{Datum, Numeric};

pub(super) const FUNCTIONS: &[Definition] = &[
    lax("pg_available_extensions", |_, _| {
        Ok(shared_rows::extensions_there_are())
    }),
    lax("pg_cancel_backend", |snapshot, args| {
        signal(snapshot, args, Backend::cancel)
    }),
    lax("pg_terminate_backend", |snapshot, args| {
        signal(snapshot, args, Backend::terminate)
    }),
    lax("pg_stat_reset", |snapshot, _| {
        let tables = snapshot
            .tables
            .iter()
            .map(|table| snapshot.table_id(table.oid));
        server(snapshot)?.reset_tables(tables);
        reset(snapshot, &[Kind::Database])
    }),
    lax("pg_stat_reset_single_table_counters", |snapshot, args| {
        let table = relation_arg(snapshot, args, 0)?;
        server(snapshot)?.reset_tables([snapshot.table_id(table)]);
        Ok(Datum::Null)
    }),
    lax("pg_stat_reset_shared", reset_shared),
    lax("pg_stat_reset_slru", |_, _| Ok(Datum::Null)),
    lax("pg_stat_clear_snapshot", |_, _| Ok(Datum::Null)),
    lax("pg_stat_force_next_flush", |_, _| Ok(Datum::Null)),
    lax("evenkeel_zero_damaged_page", |snapshot, args| {
        end_damage(snapshot, args, Store::zero_damaged_page)
    }),
    lax("evenkeel_rebuild_damaged_page", |snapshot, args| {
        end_damage(snapshot, args, Store::rebuild_damaged_page)
    }),
    lax("evenkeel_discard_damage", |snapshot, args| {
        end_damage(snapshot, args, Store::discard_damage)
    }),
    lax("pg_current_wal_lsn", |snapshot, _| {
        lsn(snapshot, |server| {
            server.database().store().log().durable_lsn().0
        })
    }),
    lax("pg_current_wal_flush_lsn", |snapshot, _| {
        lsn(snapshot, |server| {
            server.database().store().log().durable_lsn().0
        })
    }),
    lax("pg_current_wal_insert_lsn", |snapshot, _| {
        lsn(snapshot, |server| {
            server.database().store().log().insert_lsn().0
        })
    }),
    lax("pg_last_wal_replay_lsn", |_, _| Ok(Datum::Null)),
    lax("pg_last_wal_receive_lsn", |_, _| Ok(Datum::Null)),
    strict("pg_wal_lsn_diff", |_, args| {
        let (a, b) = (lsn_arg(args, 0)?, lsn_arg(args, 1)?);
        let difference = i128::from(a) - i128::from(b);
        Ok(Datum::Numeric(Numeric::from_i128(difference, 0)))
    }),
    lax("pg_is_in_recovery", |_, _| Ok(Datum::Bool(false))),
    lax("pg_postmaster_start_time", |snapshot, _| {
        Ok(started(snapshot))
    }),
    lax("pg_conf_load_time", |snapshot, _| {
        let configuration = snapshot.settings.configuration();
        Ok(configuration.map_or_else(|| started(snapshot), |known| loaded_at(&known)))
    }),
    lax("pg_reload_conf", reload),
    strict("pg_blocking_pids", blocking),
];

fn server(snapshot: &CatalogView) -> SqlResult<&Arc<Instance>> {
    let server = snapshot.instance.as_ref();
    server.ok_or_else(|| SqlError::internal("a server's function outside a server"))
}

/// `pg_reload_conf()`: whether the files could be read.
fn reload(snapshot: &CatalogView, _: &[Datum]) -> SqlResult<Datum> {
    let Some(configuration) = snapshot.settings.configuration() else {
        return Ok(Datum::Bool(false));
    };
    match configuration.reload() {
        Ok(()) => Ok(Datum::Bool(true)),
        Err(error) => {
            tracing::warn!("the configuration is not loaded again: {error}");
            Ok(Datum::Bool(false))
        }
    }
}

fn backend(snapshot: &CatalogView, pid: i32) -> Option<Arc<Backend>> {
    snapshot.instance.as_ref()?.backends().find(pid)
}

fn signal(snapshot: &CatalogView, args: &[Datum], act: fn(&Backend)) -> SqlResult<Datum> {
    let pid = i32::try_from(number_arg(args, 0)?).unwrap_or(0);
    let found = backend(snapshot, pid);
    if let Some(backend) = &found {
        act(backend);
    }
    Ok(Datum::Bool(found.is_some()))
}

/// `evenkeel_rebuild_damaged_page(file, fork, block)`, `evenkeel_zero_damaged_page(…)` and
/// `evenkeel_discard_damage(…)`: end a page's damage, the page being named as
/// `evenkeel_damaged_pages` does. Answers the LSN of the record that says so.
fn end_damage(
    snapshot: &CatalogView,
    args: &[Datum],
    end: fn(&Store, PageId) -> StorageResult<Lsn>,
) -> SqlResult<Datum> {
    let refused = |text: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text);
    let named = |error: ParsePageError| refused(error.to_string());
    let block = u32::try_from(number_arg(args, 2)?);
    let page = PageId {
        file: text_arg(args, 0)?.parse().map_err(named)?,
        fork: text_arg(args, 1)?.parse().map_err(named)?,
        block: BlockNumber(block.map_err(|_| refused("block number out of range".into()))?),
    };
    let ended = end(server(snapshot)?.database().store(), page);
    let lsn = ended.map_err(EngineError::from)?;
    Ok(Datum::Text(lsn.to_string()))
}

fn reset(snapshot: &CatalogView, kinds: &[Kind]) -> SqlResult<Datum> {
    let server = server(snapshot)?;
    for kind in kinds {
        server.reset(*kind, snapshot.statement_ts);
    }
    Ok(Datum::Null)
}

fn reset_shared(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    if arg(args, 0).is_null() {
        return reset(snapshot, Kind::ALL_SHARED);
    }
    let target = text_arg(args, 0)?;
    match Kind::shared(target) {
        Some(kinds) => reset(snapshot, kinds),
        None => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("unrecognized reset target: \"{target}\""),
        )
        .hint(
            "Target must be \"archiver\", \"bgwriter\", \"checkpointer\", \"io\", \
             \"recovery_prefetch\", \"slru\", or \"wal\".",
        )),
    }
}

/// As PostgreSQL writes a log position.
fn lsn(snapshot: &CatalogView, position: fn(&Instance) -> u64) -> SqlResult<Datum> {
    let lsn = position(server(snapshot)?);
    Ok(Datum::Text(format!("{:X}/{:08X}", lsn >> 32, lsn as u32)))
}

fn lsn_arg(args: &[Datum], at: usize) -> SqlResult<u64> {
    let text = text_arg(args, at)?;
    let halves = text.split_once('/');
    let halves = halves.and_then(|(high, low)| {
        let high = u32::from_str_radix(high, 16).ok()?;
        Some((high, u32::from_str_radix(low, 16).ok()?))
    });
    let (high, low) = halves.ok_or_else(|| {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type pg_lsn: \"{text}\""),
        )
    })?;
    Ok(u64::from(high) << 32 | u64::from(low))
}

fn started(snapshot: &CatalogView) -> Datum {
    let server = snapshot.instance.as_ref();
    server.map_or(Datum::Null, |server| Datum::Timestamptz(server.started()))
}

fn loaded_at(configuration: &Configuration) -> Datum {
    let at = configuration.loaded().at;
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Datum::Timestamptz(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// The sessions that hold what a session waits for.
fn blocking(snapshot: &CatalogView, args: &[Datum]) -> SqlResult<Datum> {
    use evenkeel_engine::WaitOn;
    let pid = i32::try_from(number_arg(args, 0)?).unwrap_or(0);
    let server = server(snapshot)?;
    let waiting = backend(snapshot, pid).and_then(|backend| backend.transaction());
    let db = server.database();
    let wait = waiting.and_then(|open| {
        let mut waits = db.waits().into_iter();
        waits.find(|wait| wait.transaction == open.number)
    });
    let mut pids = Vec::new();
    if let Some(wait) = wait {
        let locks = db.locks();
        let holds = |open: &crate::instance::OpenTransaction| match wait.on {
            WaitOn::Transaction(xid) => open.ids.contains(xid),
            WaitOn::Lock(key) => locks
                .iter()
                .any(|lock| lock.granted && lock.key == key && lock.transaction == open.number),
        };
        for other in server.backends().list() {
            let open = other.transaction();
            if open.is_some_and(|open| open.number != wait.transaction && holds(&open)) {
                pids.push(other.pid.to_string());
            }
        }
    }
    Ok(Datum::Text(format!("{{{}}}", pids.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_positions_are_read_as_they_are_written() {
        let arg = |text: &str| [Datum::Text(text.to_owned())];
        assert_eq!(lsn_arg(&arg("1/0000000A"), 0).unwrap(), (1 << 32) + 10);
        assert_eq!(lsn_arg(&arg("0/FF"), 0).unwrap(), 255);
        let refused = lsn_arg(&arg("12"), 0).unwrap_err();
        assert_eq!(refused.sqlstate.as_str(), "22P02");
    }
}
