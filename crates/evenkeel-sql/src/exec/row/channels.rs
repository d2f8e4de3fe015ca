//! Functions of channels: `pg_notify` and its kin.

use std::sync::Arc;

use evenkeel_types::ArrayValue;

use crate::error::SqlResult;
use crate::exec::StatementCx;
use crate::types::Datum;

/// Answers a function of channels by its oid in `pg_proc`; `None` for any other.
pub fn call(oid: u32, cx: &StatementCx, args: &[Datum]) -> Option<SqlResult<Datum>> {
    let channels = &cx.seed.resources.channels;
    Some(match (oid, args) {
        (3035, []) => {
            let listened = channels.channels();
            let names = listened.iter().map(|channel| Datum::from(&**channel));
            let names = ArrayValue::of_elements(names.collect());
            Ok(Datum::Array(Arc::new(names)))
        }
        (3036, [channel, payload]) => {
            let text = |value: &Datum| value.as_str().unwrap_or_default().to_owned();
            let sent = channels.notify(&text(channel), &text(payload));
            sent.map(|()| Datum::Text(String::new()))
        }
        (3296, []) => Ok(Datum::Float8(channels.queue_usage())),
        _ => return None,
    })
}
