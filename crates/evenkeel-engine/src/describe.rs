//! Names for people: what log records and parts are, as `waldump` prints them.

use evenkeel_storage::RecordKind;

use crate::txn::record;
use crate::{btree, heap, status, vm};

/// Name of a record's kind.
#[must_use]
pub fn record_name(kind: RecordKind) -> String {
    let name = match kind {
        RecordKind::PAGES => Some("PAGES"),
        record::COMMIT => Some("COMMIT"),
        record::ABORT => Some("ABORT"),
        storage => storage.storage_name(),
    };
    name.map_or_else(|| format!("KIND_{}", kind.0), str::to_owned)
}

/// Name of a part's operation.
#[must_use]
pub fn operation_name(op: u16) -> String {
    use btree::redo::op as tree;
    let name = match op {
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
        other => return format!("operation {other:#06x}"),
    };
    name.to_owned()
}
