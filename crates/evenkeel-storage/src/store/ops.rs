//! Files, holds, checkpoints and shutdown.

use std::sync::atomic::{Ordering, fence};

use crate::buffer::WriteGuard;
use crate::checkpoint::CheckpointMode;
use crate::error::{ApplyError, StorageError, StorageResult};
use crate::ids::{FileId, Fork, Lsn};
use crate::mutant::Mutant;
use crate::page::PageRead;
use crate::store::{ApplyContext, RedoHold, Store, apply_part};
use crate::wal::record::{FieldReader, PartFlags, RecordBuilder, RecordKind};

/// Payload of a [`RecordKind::FILE_CREATE`] record.
pub(crate) fn encode_file(file: FileId) -> [u8; 8] {
    file.0.to_le_bytes()
}

/// Reads the payload of a file record.
pub(crate) fn decode_file(payload: &[u8]) -> Result<FileId, ApplyError> {
    FieldReader::new(payload).u64().map(FileId)
}

/// The files that a [`RecordKind::FILE_DROP`] record names.
pub(crate) fn decode_files(payload: &[u8]) -> impl Iterator<Item = FileId> + '_ {
    payload
        .chunks_exact(8)
        .filter_map(|chunk| decode_file(chunk).ok())
}

/// Reads the payload of a [`RecordKind::TRUNCATE`] record.
pub(crate) fn decode_truncate(payload: &[u8]) -> Result<(FileId, Fork, u32), ApplyError> {
    let mut fields = FieldReader::new(payload);
    let file = FileId(fields.u64()?);
    let blocks = fields.u32()?;
    let fork = Fork::from_u8(fields.u8()?).ok_or_else(|| ApplyError::new("no such fork"))?;
    Ok((file, fork, blocks))
}

impl Store {
    /// Keeps the redo point at or below `lsn` until the hold is dropped. Only useful for an
    /// `lsn` that something else still keeps from being passed.
    pub fn hold_redo(&self, lsn: Lsn) -> RedoHold {
        self.core.holds.hold(|| lsn)
    }

    /// Keeps the redo point at or below the position at which the next record will be inserted.
    pub fn hold_redo_here(&self) -> RedoHold {
        self.core.holds.hold(|| self.core.log.insert_lsn())
    }

    /// Creates a file for transaction `xid`. If recovery starts before the hold is dropped it
    /// reports the file through
    /// [`StorageClient::file_created`](crate::store::StorageClient::file_created), so the
    /// transaction keeps the hold until it has ended.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn create_file(&self, xid: u64) -> StorageResult<(FileId, RedoHold)> {
        let file = FileId(self.core.next_file.fetch_add(1, Ordering::Relaxed));
        let hold = self.create_file_as(file, xid)?;
        Ok((file, hold))
    }

    /// Creates a file under an id of the caller's choice: below
    /// [`FIRST_FREE_FILE`](crate::store::FIRST_FREE_FILE), or a status file.
    ///
    /// # Errors
    /// As [`Store::create_file`].
    pub fn create_file_as(&self, file: FileId, xid: u64) -> StorageResult<RedoHold> {
        self.admit()?;
        let hold = self.hold_redo_here();
        let lsn = self.log_payload(xid, RecordKind::FILE_CREATE, &encode_file(file));
        // A file that is there is in the log, so none is left behind by a crash.
        self.core.log.flush(lsn)?;
        self.core.pool.create_fork(file, Fork::Main)?;
        Ok(hold)
    }

    /// To be called once the client has dropped the files that recovery reported and that no
    /// committed transaction has. Until then the redo point does not pass their creation.
    pub fn recovery_finished(&self) {
        *self.core.recovery_hold.lock() = None;
    }

    /// Drops a file and all its forks. The caller has made sure that nobody uses it.
    ///
    /// # Errors
    /// When the instance is poisoned, or the file cannot be unlinked.
    pub fn drop_file(&self, file: FileId) -> StorageResult<()> {
        self.drop_files(&[file])
    }

    /// Drops several files at the cost of one flush of the log.
    ///
    /// # Errors
    /// As [`Store::drop_file`].
    pub fn drop_files(&self, files: &[FileId]) -> StorageResult<()> {
        const AT_ONCE: usize = 1024;
        for files in files.chunks(AT_ONCE) {
            self.core.poison.check()?;
            let _hold = self.hold_redo_here();
            let payload: Vec<u8> = files.iter().flat_map(|file| encode_file(*file)).collect();
            let lsn = self.log_payload(0, RecordKind::FILE_DROP, &payload);
            // Not before it is durable: a log that does not say so must find the file.
            self.core.log.flush(lsn)?;
            for file in files {
                self.core.pool.drop_file(*file)?;
            }
        }
        Ok(())
    }

    /// Cuts a fork to `blocks` pages. The caller has made sure that nobody uses the pages
    /// beyond, or can come to.
    ///
    /// # Errors
    /// When the instance is or becomes poisoned: a fork that the log says is cut must be.
    pub fn truncate(&self, file: FileId, fork: Fork, blocks: u32) -> StorageResult<()> {
        self.admit()?;
        let _hold = self.hold_redo_here();
        let mut payload = Vec::with_capacity(13);
        payload.extend_from_slice(&encode_file(file));
        payload.extend_from_slice(&blocks.to_le_bytes());
        payload.push(fork as u8);
        let lsn = self.log_payload(0, RecordKind::TRUNCATE, &payload);
        self.core.log.flush(lsn)?;
        self.core
            .pool
            .truncate(file, fork, blocks)
            .inspect_err(|error| {
                self.core
                    .poison
                    .set(format!("cutting file {file} fork {fork} failed: {error}"));
            })
    }

    fn log_payload(&self, xid: u64, kind: RecordKind, payload: &[u8]) -> Lsn {
        let mut record = RecordBuilder::new(Vec::new(), xid);
        record.payload(kind, payload);
        self.core.log.append(&mut record, |_| {})
    }

    /// Applies to a page what records from `first` to `last` say of it without having a part for
    /// it: in recovery the client hears of them through
    /// [`StorageClient::replayed`](crate::store::StorageClient::replayed). What is applied twice
    /// must do no harm. Until then the client's `redo_floor` has to hold the redo point at or
    /// below `first`.
    ///
    /// # Errors
    /// [`StorageError::Internal`], and the instance is poisoned, when it cannot be applied.
    pub fn apply_late(
        &self,
        (first, last): (Lsn, Lsn),
        guard: &mut WriteGuard<'_>,
        op: u16,
        data: &[u8],
    ) -> StorageResult<()> {
        let cx = ApplyContext {
            lsn: last,
            page_id: guard.page_id(),
        };
        guard.mark_dirty(first);
        let before = guard.lsn();
        let client = self.core.client.as_ref();
        apply_part(
            client,
            op,
            PartFlags::NONE,
            &mut guard.page_mut(),
            data,
            &cx,
        )
        .map_err(|error| self.core.apply_failed(op, &cx, &error))?;
        if before > last {
            // An image was logged in between, which has to be durable before the page is written.
            guard.page_mut().set_lsn(before);
        }
        let log = &self.core.log;
        if log.has_images() {
            fence(Ordering::SeqCst);
            let redo = log.cycle().redo;
            // Redo from there meets neither the page's content nor all of these records.
            let skipped = self.core.config.has(Mutant::SkipLateImage);
            if (before <= redo || first < redo) && !skipped {
                let lsn = log.append_image(guard.page_id(), guard.bytes());
                guard.page_mut().set_lsn(lsn);
            }
        }
        Ok(())
    }

    /// Takes a checkpoint and waits for it.
    ///
    /// # Errors
    /// The reason why it failed; the redo point stays where it was.
    pub fn checkpoint(&self, mode: CheckpointMode) -> StorageResult<()> {
        self.checkpointer.request(mode)
    }

    /// Takes a last checkpoint, closes the files and ends the threads. Everything fails from
    /// then on. Nobody may be changing pages.
    ///
    /// # Errors
    /// The reason why the last checkpoint failed; the next start recovers then.
    pub fn shutdown(&self) -> StorageResult<()> {
        let result = self.checkpointer.request(CheckpointMode::Shutdown);
        if result.is_ok() {
            let generation = self.core.control.lock().current().generation;
            let noted = self
                .core
                .pool
                .files()
                .note_lengths(&self.core.dir, generation);
            if let Err(error) = noted {
                // Without it a file cut from now on is not noticed; nothing else is lost.
                tracing::warn!("could not write down how long files are: {error}");
            }
        }
        self.stop_threads();
        match result {
            // It was shut down before.
            Err(StorageError::ShutDown) if !self.core.poison.is_set() => Ok(()),
            other => other,
        }
    }

    fn stop_threads(&self) {
        self.checkpointer.stop();
        self.core.stop();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop_threads();
    }
}
