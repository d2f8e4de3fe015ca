//! The resource manager: the engine, as storage sees it.
//!
//! Applies the parts of log records to pages, forward and in redo alike, and passes the log's
//! progress on to the transactions. It lies above all modules that own pages, so that none of them
//! depends on the others (ENG-1).

pub(crate) mod redo;

use std::sync::Arc;

use evenkeel_storage::page::PageMut;
use evenkeel_storage::{
    ApplyContext, ApplyError, FileId, InsertedRecord, Lsn, RecordKind, RecordView, ResourceManager,
    StoreState,
};

use crate::describe;
use crate::txn::core::TxnCore;
use crate::txn::record;
use crate::types::Xid;

/// The client of an open store.
pub(crate) struct EngineRmgr {
    txn: Arc<TxnCore>,
}

impl EngineRmgr {
    pub(crate) fn new(txn: Arc<TxnCore>) -> EngineRmgr {
        EngineRmgr { txn }
    }
}

impl ResourceManager for EngineRmgr {
    fn apply(
        &self,
        op: u16,
        page: &mut PageMut<'_>,
        data: &[u8],
        cx: &ApplyContext,
    ) -> Result<(), ApplyError> {
        redo::apply(op, page, data, cx)
    }

    fn mask(&self, page: &mut PageMut<'_>) {
        redo::mask(page);
    }

    fn strip(&self, page: &mut PageMut<'_>) {
        redo::strip(page);
    }

    fn completed(&self, notes: &[InsertedRecord]) {
        self.txn.completed(notes);
    }

    fn durable(&self, upto: Lsn) {
        self.txn.durable(upto);
    }

    fn knows(&self, record: &RecordView<'_>) -> Result<(), String> {
        describe::knows(record)
    }

    fn floor_after(&self, next: u64) -> u64 {
        self.txn.recovery.lock().next_xid().get().max(next)
    }

    fn state_records(&self, state: StoreState) -> Vec<(RecordKind, Vec<u8>)> {
        let running = self.txn.running(state);
        let payloads = running.into_iter().flat_map(|running| running.encode());
        payloads.map(|payload| (record::RUNNING, payload)).collect()
    }

    fn removal_bound(&self) -> Lsn {
        self.txn.removal_bound()
    }

    fn replayed(&self, record: &RecordView<'_>) -> Result<(), ApplyError> {
        self.txn.recovery.lock().replayed(record)
    }

    fn file_created(&self, file: FileId, xid: u64) {
        self.txn.recovery.lock().file_created(file, Xid::new(xid));
    }

    fn file_dropped(&self, file: FileId) {
        self.txn.recovery.lock().file_dropped(file);
    }

    fn redo_floor(&self) -> Option<Lsn> {
        self.txn.redo_floor()
    }

    fn raise_redo_floor(&self) {
        self.txn.publisher.hurry();
    }

    fn checkpoint_payload(&self) -> Vec<u8> {
        self.txn.checkpoint_payload()
    }

    fn restore_payload(&self, payload: &[u8]) -> Result<(), ApplyError> {
        self.txn.restore_payload(payload)
    }
}
