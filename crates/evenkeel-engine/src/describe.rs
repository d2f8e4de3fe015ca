//! Names for people: what log records and parts are, as `waldump` prints them.

use evenkeel_storage::record::CLIENT_FLAGS;
use evenkeel_storage::wal::dump::list;
use evenkeel_storage::{PartFlags, RecordKind, RecordView};

use crate::heap::ops::{OLD_KEY, OLD_ROW};
use crate::txn::Running;
use crate::txn::record::{self, Ending};
use crate::types::Xid;
use crate::{btree, heap, sequence, status, vm};

/// Name of a record's kind.
#[must_use]
pub fn record_name(kind: RecordKind) -> String {
    let name = match kind {
        RecordKind::PAGES => Some("PAGES"),
        record::COMMIT => Some("COMMIT"),
        record::ABORT => Some("ABORT"),
        record::RUNNING => Some("RUNNING"),
        record::LOCKS => Some("LOCKS"),
        record::RELATION => Some("RELATION"),
        storage => storage.storage_name(),
    };
    name.map_or_else(|| format!("KIND_{}", kind.0), str::to_owned)
}

/// The content of the payload of a record of the engine's kinds; none if there is none, or if it
/// makes no sense.
#[must_use]
pub fn payload_text(record: &RecordView<'_>) -> Option<String> {
    match record.kind() {
        record::COMMIT | record::ABORT => {
            let ending = Ending::decode(Xid::new(record.xid()), record.payload()).ok()?;
            Some(ending_text(&ending))
        }
        RecordKind::PAGES => {
            let (tag, bytes) = record.payload().split_first()?;
            match *tag {
                OLD_KEY => Some(format!("old key: {} bytes", bytes.len())),
                OLD_ROW => Some(format!("old row: {} bytes", bytes.len())),
                _ => None,
            }
        }
        record::RUNNING => Some(running_text(&Running::decode(record.payload()).ok()?)),
        record::LOCKS => {
            let tables = record::decode_locks(record.payload()).ok()?;
            Some(format!("tables: {}", list(tables.iter())))
        }
        _ => None,
    }
}

fn ending_text(ending: &Ending) -> String {
    let mut text = format!("time: {}, floor: {}", ending.time_micros, ending.floor);
    add_lists(
        &mut text,
        &[
            ("subxids", list(ending.subxids.iter())),
            ("aborted", list(ending.aborted.iter())),
            ("drops", list(ending.dropped.iter())),
            ("invalidates", list(ending.invalidations.iter())),
            ("unlocks", list(ending.locks.iter())),
        ],
    );
    text
}

fn running_text(running: &Running) -> String {
    let mut text = format!(
        "time: {}, next: {}, next file: {}, floor: {}, oldest status: {}, newest commit: {}",
        running.time_micros,
        running.next,
        running.next_file,
        running.floor,
        running.oldest_status,
        running.newest_commit
    );
    let locks = running.locks.iter();
    let files = running.files.iter();
    add_lists(
        &mut text,
        &[
            ("open", list(running.open.iter())),
            (
                "locks",
                list(locks.map(|(xid, table)| format!("{table} by {xid}"))),
            ),
            (
                "files",
                list(files.map(|(file, xid)| format!("{file} of {xid}"))),
            ),
        ],
    );
    if running.more {
        text += ", to be continued";
    }
    text
}

fn add_lists(text: &mut String, lists: &[(&str, String)]) {
    for (name, items) in lists.iter().filter(|(_, items)| !items.is_empty()) {
        *text += &format!(", {name}: {items}");
    }
}

/// Name of a part's operation.
#[must_use]
pub fn operation_name(op: u16) -> String {
    operation(op).map_or_else(|| format!("operation {op:#06x}"), str::to_owned)
}

/// Whether this program knows the content of a record of the engine's kinds.
///
/// # Errors
/// The unknown part of it.
pub(crate) fn knows(record: &RecordView<'_>) -> Result<(), String> {
    let kind = record.kind();
    let known = match kind {
        RecordKind::PAGES | record::ABORT | record::RUNNING | record::LOCKS => 0,
        record::COMMIT => record::FLAG_SYNC,
        _ => return Err(format!("kind {}", kind.0)),
    };
    let flags = record.flags() & CLIENT_FLAGS;
    if flags & !known != 0 {
        return Err(format!("flags {flags:#04x} of kind {}", kind.0));
    }
    if matches!(kind, record::COMMIT | record::ABORT)
        && let Some(lists) = Ending::unknown_lists(record.payload())
    {
        return Err(format!("lists {lists:#04x} of kind {}", kind.0));
    }
    if kind == RecordKind::PAGES
        && let Some(tag) = record.payload().first()
        && ![OLD_KEY, OLD_ROW].contains(tag)
    {
        return Err(format!("payload {tag} of kind {}", kind.0));
    }
    let changes = record.parts().filter(|part| {
        let is_image = part.flags.contains(PartFlags::IMAGE);
        !is_image && operation(part.op).is_none()
    });
    changes
        .map(|part| Err(format!("operation {:#06x}", part.op)))
        .next()
        .unwrap_or(Ok(()))
}

fn operation(op: u16) -> Option<&'static str> {
    use btree::redo::op as tree;
    Some(match op {
        heap::ops::OP_INSERT => "heap INSERT",
        heap::ops::OP_MULTI_INSERT => "heap MULTI_INSERT",
        heap::ops::OP_MODIFY => "heap MODIFY",
        heap::ops::OP_UPDATE => "heap UPDATE",
        heap::ops::OP_PRUNE => "heap PRUNE",
        vm::redo::OP_CHANGE => "vm CHANGE",
        tree::META => "btree META",
        tree::NODE => "btree NODE",
        tree::INSERT => "btree INSERT",
        tree::SPLIT_LEFT => "btree SPLIT_LEFT",
        tree::SET_LEFT => "btree SET_LEFT",
        tree::SET_RIGHT => "btree SET_RIGHT",
        tree::CLEAR_FLAGS => "btree CLEAR_FLAGS",
        tree::DELETE_ITEMS => "btree DELETE_ITEMS",
        tree::REMOVE_DOWNLINK => "btree REMOVE_DOWNLINK",
        tree::HALF_DEAD => "btree HALF_DEAD",
        tree::UNLINK => "btree UNLINK",
        status::OP_SET => "status SET",
        status::OP_MERGE => "status MERGE",
        status::stamps::OP_STAMP => "status STAMP",
        sequence::OP_SET => "sequence SET",
        _ => return None,
    })
}
