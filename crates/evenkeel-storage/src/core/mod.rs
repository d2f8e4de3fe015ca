//! An open database below its facade: the parts that changes, checkpoints and recovery share.

mod control_state;
mod holds;
mod reserve;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evenkeel_io::Disk;

use parking_lot::RwLock;

use crate::buffer::BufferPool;
use crate::config::{StorageConfig, Tuning};
use crate::control::{Control, State};
pub(crate) use crate::core::control_state::ControlState;
pub use crate::core::holds::RedoHold;
pub(crate) use crate::core::holds::{Holds, OpenCreations};
pub(crate) use crate::core::reserve::SpaceReserve;
use crate::error::{ApplyError, StorageError, StorageResult};
use crate::ids::Lsn;
use crate::mutant::Mutant;
use crate::poison::Poison;
use crate::quarantine::Quarantine;
use crate::record::files::{OpenFile, encode_open_files};
use crate::record::{HEADER_LEN, RecordBuilder, RecordKind, RemovalLsn, aligned};
use crate::resource_manager::{ApplyContext, ResourceManager, StoreState};
use crate::stats::{IoStats, Watchdog};
use crate::wal::Log;
use crate::writeout::Writer;

/// State shared by changes, checkpoints and recovery.
pub(crate) struct Core {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) io: Arc<IoStats>,
    pub(crate) watchdog: Watchdog,
    pub(crate) dir: PathBuf,
    pub(crate) config: StorageConfig,
    /// The part of `config` that may have changed since.
    pub(crate) tuning: RwLock<Tuning>,
    pub(crate) manager: Arc<dyn ResourceManager>,
    pub(crate) poison: Arc<Poison>,
    pub(crate) log: Arc<Log>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) holds: Arc<Holds>,
    pub(crate) reserve: SpaceReserve,
    pub(crate) quarantine: Quarantine,
    pub(crate) control: ControlState,
    /// Where the log went on when the database was opened.
    pub(crate) opened_at: Lsn,
    /// Redo has just been done, so a checkpoint is due.
    pub(crate) recovered: AtomicBool,
}

impl Core {
    /// The settings that can change, as they are now.
    pub(crate) fn tuning(&self) -> Tuning {
        *self.tuning.read()
    }

    /// Poisons the instance after a page and its log record were found not to fit.
    #[cold]
    pub(crate) fn apply_failed(
        &self,
        op: u16,
        cx: &ApplyContext,
        error: &ApplyError,
    ) -> StorageError {
        let text: Arc<str> = Arc::from(format!(
            "operation {op:#06x} of the record at {} failed on {}: {error}",
            cx.lsn, cx.page_id
        ));
        self.poison.set(Arc::clone(&text));
        StorageError::Internal(text)
    }

    /// Says in the control file that the database is open, and whether the log from the redo
    /// point on goes on having images.
    pub(crate) fn mark_running(&self, images: bool) -> StorageResult<()> {
        let mut control = self.control.lock();
        let next = Control {
            state: State::Running,
            images,
            durable: self.log.durable_lsn(),
            ..control.current().clone()
        };
        control.write(next)
    }

    /// Announces a redo point and remembers it where only such a one may become the redo point.
    pub(crate) fn announce_redo_point(&self) -> Lsn {
        let lsn = self.log.append_redo_point();
        if self.log.has_images() {
            self.control.announced(lsn);
        }
        lsn
    }

    /// The best redo point that is not beyond `limit`. In a log with images it is one that was
    /// announced: only from there on every page that is changed has its image
    /// (CKPT-5).
    pub(crate) fn redo_point_within(&self, limit: Lsn, old: Lsn) -> Lsn {
        if self.config.has(Mutant::MoveRedoPointBack) {
            return Lsn(old.0 - 8);
        }
        if self.config.has(Mutant::PassEverything) {
            return self.log.insert_lsn();
        }
        if !self.log.has_images() || self.config.has(Mutant::AnyRedoPoint) {
            return limit.max(old);
        }
        self.control.take_announced(limit, old)
    }

    /// Logs a record that has a payload and no parts, and removes nothing.
    pub(crate) fn log_payload(&self, xid: u64, kind: RecordKind, payload: &[u8]) -> Lsn {
        self.log_removal(xid, RemovalLsn::Commit(Lsn::ZERO), kind, payload)
    }

    /// Logs a record that has a payload and no parts.
    pub(crate) fn log_removal(
        &self,
        xid: u64,
        removal: RemovalLsn,
        kind: RecordKind,
        payload: &[u8],
    ) -> Lsn {
        let mut record = RecordBuilder::new(Vec::new(), xid);
        record.removal(removal);
        record.payload(kind, payload);
        self.log.append(&mut record, |_| {})
    }

    /// Logs which files were created by transactions that have not ended, so that the redo point
    /// may pass the records of their creation. Returns where; none if there are none.
    pub(crate) fn record_open_files(&self, open: &OpenCreations) -> Option<Lsn> {
        const AT_ONCE: usize = 1024;
        let files: Vec<OpenFile> = open.files().collect();
        let records = files.chunks(AT_ONCE).map(|files| {
            let payload = encode_open_files(files);
            self.log_payload(0, RecordKind::OPEN_FILES, &payload)
        });
        // All are written; the first is the lowest.
        records.reduce(Lsn::min)
    }

    /// Logs the manager's state. Returns how much log it takes, in bytes.
    pub(crate) fn log_state(&self, open: &OpenCreations) -> u64 {
        let files = open.files().map(|open| (open.file, open.xid));
        let state = StoreState {
            time_micros: self.disk.now_micros(),
            next_file: self.control.next_file(),
            files: files.collect(),
        };
        let records = self.manager.state_records(state).into_iter();
        let lengths = records.map(|(kind, payload)| {
            self.log_payload(0, kind, &payload);
            aligned(HEADER_LEN + payload.len()) as u64
        });
        lengths.sum()
    }

    /// Writes what is in the log and ends the threads.
    pub(crate) fn stop(&self) {
        // Redo has ended, and is one of the owners of this.
        self.pool.owed().clear();
        // First: it may write log.
        self.writer.stop_cleaner();
        if let Err(error) = self.log.stop() {
            tracing::warn!("the log was not flushed at the end: {error}");
        }
        if let Err(error) = self.writer.shutdown() {
            tracing::warn!("the double-write area was not closed: {error}");
        }
        self.watchdog.stop();
    }
}
