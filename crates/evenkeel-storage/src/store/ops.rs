//! Files, holds, checkpoints and shutdown.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use crate::buffer::WriteGuard;
use crate::checkpoint::CheckpointMode;
use crate::config::Tuning;
use crate::core::RedoHold;
use crate::error::{StorageError, StorageResult};
use crate::ids::{FileId, Fork, Lsn};
use crate::mutant::Mutant;
use crate::page::PageRead;
use crate::record::files::encode_file;
use crate::record::{PartFlags, RecordKind, RecordView, RemovalLsn};
use crate::resource_manager::{ApplyContext, apply_part};
use crate::store::Store;
use crate::wal::reader::LogReader;

/// How long the redo point may take to pass the gap of a log whose damage was given up.
const PATIENCE: Duration = Duration::from_secs(20);

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

    /// Logs the manager's state ([`ResourceManager::state_records`]): to be called at intervals
    /// while there is activity, for readers of the log that do not begin at a redo point.
    ///
    /// [`ResourceManager::state_records`]: crate::store::ResourceManager::state_records
    ///
    /// # Errors
    /// As [`Store::admit`].
    pub fn log_state(&self) -> StorageResult<()> {
        self.admit()?;
        self.core.log_state(&self.core.holds.open_creations());
        Ok(())
    }

    /// As [`Store::log_state`], while the database starts: on a full disk there is space for it
    /// when other work is not admitted, and a start that needed more would never end.
    pub fn log_first_state(&self) {
        self.core.log_state(&self.core.holds.open_creations());
    }

    /// Creates a file for transaction `xid`. If recovery starts before the hold is dropped it
    /// reports the file through
    /// [`ResourceManager::file_created`](crate::store::ResourceManager::file_created), so the
    /// transaction keeps the hold until it has ended.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn create_file(&self, xid: u64) -> StorageResult<(FileId, RedoHold)> {
        let file = self.core.control.take_file_id();
        let hold = self.create_file_as(file, xid)?;
        Ok((file, hold))
    }

    /// Creates a file that is gone with the process (STO-15). Recovery hears nothing of it.
    ///
    /// # Errors
    /// As [`Store::create_file`].
    pub fn create_temporary_file(&self) -> StorageResult<FileId> {
        self.admit()?;
        let file = FileId::temporary(self.core.control.take_file_id().number());
        self.core.pool.create_fork(file, Fork::Main)?;
        Ok(file)
    }

    /// Gives no file to come the number of this one: a temporary file of an earlier process, which
    /// the log does not have, and whose drop would take a new file of its number along.
    pub fn pass_file_id(&self, file: FileId) {
        self.core.control.pass_file_id(file);
    }

    /// Creates a file under an id of the caller's choice: below
    /// [`FIRST_FREE_FILE`](crate::store::FIRST_FREE_FILE), or a status file.
    ///
    /// # Errors
    /// As [`Store::create_file`].
    pub fn create_file_as(&self, file: FileId, xid: u64) -> StorageResult<RedoHold> {
        self.admit()?;
        let hold = self.hold_redo_here();
        let payload = encode_file(file);
        let lsn = self
            .core
            .log_payload(xid, RecordKind::FILE_CREATE, &payload);
        // A file that is there is in the log, so none is left behind by a crash.
        self.core.log.flush(lsn)?;
        self.core.pool.create_fork(file, Fork::Main)?;
        hold.is_creation(file, xid);
        Ok(hold)
    }

    /// Reads again, in log order, what recovery replayed, from the redo point or from wherever it
    /// is by now: for state that is too large to be kept while recovery runs. The manager's floor
    /// keeps what it needs.
    ///
    /// # Errors
    /// Those of `visit`; when a segment cannot be read, or a record that was replayed is gone.
    pub fn replay_again<E: From<StorageError>>(
        &self,
        mut visit: impl FnMut(&RecordView<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let control = self.control();
        let layout = self.core.log.segments().layout().clone();
        let disk = Arc::clone(&self.core.disk);
        let start = (control.redo, control.incarnation);
        let mut reader = LogReader::new(disk, layout.clone(), start, self.core.log.gaps());
        let end = self.recovery_stats().redo_end;
        while reader.is_before(end) {
            let lsn = reader.position();
            let failure = match reader.next_record() {
                Ok(Some(record)) => {
                    visit(&record)?;
                    continue;
                }
                Ok(None) => None,
                Err(error) => Some(error),
            };
            // A checkpoint may have given up the log here: the manager's floor was no obstacle.
            let now = self.control();
            if now.redo > lsn {
                let (disk, start) = (Arc::clone(&self.core.disk), (now.redo, now.incarnation));
                reader = LogReader::new(disk, layout.clone(), start, self.core.log.gaps());
                continue;
            }
            let (page, reason) = (None, "the record was valid when it was replayed".into());
            return Err(failure
                .unwrap_or(StorageError::Redo { lsn, page, reason })
                .into());
        }
        Ok(())
    }

    /// To be called once the manager has dropped the files that recovery reported and that no
    /// committed transaction has. Until then the redo point does not pass their creation.
    ///
    /// Where the damaged end of the log was given up, a checkpoint moves the redo point behind the
    /// gap before this returns. Before, the manager's floor and the reported creations keep it in
    /// front; afterwards commits are acknowledged, which a start that gives up the log from the
    /// gap on once more would lose. So the manager's floor must be gone by now (REC-12).
    ///
    /// # Errors
    /// When that checkpoint fails, or could not move the redo point so far.
    pub fn recovery_finished(&self) -> StorageResult<()> {
        *self.recovery_hold.lock() = None;
        if self.is_gap_ahead.load(Ordering::Acquire) {
            // One may find that the cleaner is just writing a page.
            let begun = Instant::now();
            loop {
                self.checkpoint(CheckpointMode::Fast)?;
                if self.control().redo > self.recovery.end() || begun.elapsed() > PATIENCE {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            let (redo, end) = (self.control().redo, self.recovery.end());
            if redo <= end {
                let text = format!("the redo point is {redo}, before the log's gap at {end}");
                return Err(StorageError::Internal(text.into()));
            }
            self.is_gap_ahead.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Drops a file and all its forks. The caller has made sure that nobody uses it; snapshots
    /// before `removal` may on a standby.
    ///
    /// # Errors
    /// When the instance is poisoned, or the file cannot be unlinked.
    pub fn drop_file(&self, file: FileId, removal: RemovalLsn) -> StorageResult<()> {
        self.drop_files(&[file], removal)
    }

    /// Drops several files at the cost of one flush of the log, and one sync of their directory.
    ///
    /// # Errors
    /// As [`Store::drop_file`].
    pub fn drop_files(&self, files: &[FileId], removal: RemovalLsn) -> StorageResult<()> {
        const AT_ONCE: usize = 1024;
        let (temporary, files): (Vec<FileId>, Vec<FileId>) =
            files.iter().partition(|file| file.is_temporary());
        self.core.poison.check()?;
        self.core.pool.drop_files(&temporary)?;
        for files in files.chunks(AT_ONCE) {
            self.core.poison.check()?;
            let _hold = self.hold_redo_here();
            let payload: Vec<u8> = files.iter().flat_map(|file| encode_file(*file)).collect();
            let kind = RecordKind::FILE_DROP;
            let lsn = self.core.log_removal(0, removal, kind, &payload);
            // Not before it is durable: a log that does not say so must find the file.
            self.core.log.flush(lsn)?;
            self.core.pool.drop_files(files)?;
            for file in files {
                self.core.quarantine.forget_file(*file)?;
            }
        }
        Ok(())
    }

    /// Cuts a fork to `blocks` pages. The caller has made sure that nobody uses the pages
    /// beyond, or can come to; snapshots before `removal` may on a standby.
    ///
    /// # Errors
    /// When the instance is or becomes poisoned: a fork that the log says is cut must be.
    pub fn truncate(
        &self,
        file: FileId,
        fork: Fork,
        blocks: u32,
        removal: RemovalLsn,
    ) -> StorageResult<()> {
        self.admit()?;
        if file.is_temporary() {
            return self.core.pool.truncate(file, fork, blocks);
        }
        let _hold = self.hold_redo_here();
        let mut payload = Vec::with_capacity(13);
        payload.extend_from_slice(&encode_file(file));
        payload.extend_from_slice(&blocks.to_le_bytes());
        payload.push(fork as u8);
        let kind = RecordKind::TRUNCATE;
        let lsn = self.core.log_removal(0, removal, kind, &payload);
        self.core.log.flush(lsn)?;
        self.core
            .pool
            .truncate(file, fork, blocks)
            .and_then(|()| self.core.quarantine.forget_tail(file, fork, blocks))
            .inspect_err(|error| {
                self.core
                    .poison
                    .set(format!("cutting file {file} fork {fork} failed: {error}"));
            })
    }

    /// Applies to a page what records from `first` to `last` say of it without having a part for
    /// it: in recovery the resource manager hears of them through
    /// [`ResourceManager::replayed`](crate::store::ResourceManager::replayed). The operation must
    /// be idempotent, since it may be applied twice. Until then the manager's `redo_floor` has to
    /// hold the redo point at or below `first`.
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
        let manager = self.core.manager.as_ref();
        apply_part(
            manager,
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

    /// Changes settings while the database is open. A checkpoint that is under way keeps its pace;
    /// all else follows within moments.
    ///
    /// # Errors
    /// When a setting is out of its range; nothing is changed then.
    pub fn tune(&self, tuning: Tuning) -> StorageResult<()> {
        self.core.config.tuned(&tuning).validate()?;
        *self.core.tuning.write() = tuning;
        self.core.log.set_writer_delay(tuning.wal_writer_delay);
        Ok(())
    }

    /// To be called before what a manager writes at the end: on a full disk the space that was kept
    /// for that is used from here on, and no log is made ahead of use.
    pub fn prepare_shutdown(&self) {
        self.core.log.segments().make_ahead(false);
        self.core.reserve.release();
    }

    /// Takes a last checkpoint, closes the files and ends the threads. Everything fails from
    /// then on. Nobody may be changing pages. Redo that is not done within `redo_at_close` is left
    /// to the next start, from the redo point that this checkpoint could reach.
    ///
    /// # Errors
    /// The reason why the last checkpoint failed; the next start recovers then.
    pub fn shutdown(&self) -> StorageResult<()> {
        self.prepare_shutdown();
        // With pages that are owed nothing the next start has nothing to redo.
        self.recovery.close(self.core.config.redo_at_close);
        let result = self.checkpointer.request(CheckpointMode::Shutdown);
        self.stop_threads();
        if !self.core.poison.is_set() {
            self.core.reserve.take();
        }
        match result {
            // It was shut down before.
            Err(StorageError::ShutDown) if !self.core.poison.is_set() => Ok(()),
            other => other,
        }
    }

    fn stop_threads(&self) {
        self.recovery.stop();
        self.checkpointer.stop();
        self.core.stop();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop_threads();
    }
}
