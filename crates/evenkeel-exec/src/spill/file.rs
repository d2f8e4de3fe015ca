//! Temporary files: in the data directory, through the database's disk, within
//! `temp_file_limit`. Nothing of them has to survive a crash.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_engine::EngineError;
use evenkeel_engine::temp::TempQuota;
use evenkeel_io::{Disk, File, IoErrorKind, IoResult, OpenOptions};
use evenkeel_storage::store::Store;
use evenkeel_types::SqlState;

use crate::error::{ExecError, ExecResult};

/// The directory below the data directory, under PostgreSQL's name, which backup tools skip.
const DIRECTORY: &str = "pgsql_tmp";
/// Names of files here begin with this.
const PREFIX: &str = "pgsql_tmp.rows.";
/// Bytes written at once.
const CHUNK: usize = 16 << 10;

/// Numbers files, of whatever session.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The temporary files of one session: PostgreSQL's `temp_file_limit` is for all of a session's.
pub struct TempSpace {
    store: Arc<Store>,
    dir: PathBuf,
    quota: Arc<TempQuota>,
}

impl TempSpace {
    /// No files yet, and no limit.
    pub fn new(store: &Arc<Store>) -> TempSpace {
        TempSpace {
            dir: store.dir().join(DIRECTORY),
            store: Arc::clone(store),
            quota: Arc::default(),
        }
    }

    /// Removes the files that a process has left which did not end by itself.
    ///
    /// # Errors
    /// When they cannot be listed or removed.
    pub fn remove_left_over(disk: &dyn Disk, data: &Path) -> ExecResult<()> {
        let dir = data.join(DIRECTORY);
        let remove = || -> IoResult<()> {
            if !disk.exists(&dir)? {
                return Ok(());
            }
            for name in disk.list(&dir)? {
                // As in PostgreSQL, whatever begins so.
                if name.starts_with(DIRECTORY) {
                    disk.remove(&dir.join(name))?;
                }
            }
            Ok(())
        };
        remove().map_err(|error| ExecError::temporary(&error))
    }

    /// The bytes of the session's files, those of its commands' sorts included.
    pub fn quota(&self) -> &Arc<TempQuota> {
        &self.quota
    }

    /// A new file, from the pool of descriptors.
    fn open(&self, path: &Path) -> ExecResult<Arc<dyn File>> {
        let made = self.store.disk().create_dir_all(&self.dir);
        made.map_err(|error| ExecError::temporary(&error))?;
        let opened = self.store.open_temporary(path, OpenOptions::create());
        Ok(opened.map_err(EngineError::from)?)
    }
}

/// A file that is written at its end and read anywhere; dropping it removes it.
pub(crate) struct TempFile {
    space: Arc<TempSpace>,
    path: PathBuf,
    file: Arc<dyn File>,
    /// Bytes in the file.
    written: u64,
    /// Bytes to be written behind them.
    tail: Vec<u8>,
}

impl TempFile {
    /// A new, empty file.
    pub fn create(space: &Arc<TempSpace>) -> ExecResult<TempFile> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = space.dir.join(format!("{PREFIX}{number}"));
        let file = space.open(&path)?;
        Ok(TempFile {
            space: Arc::clone(space),
            path,
            file,
            written: 0,
            tail: Vec::new(),
        })
    }

    /// Bytes, those included that are to be written.
    pub fn len(&self) -> u64 {
        self.written + self.tail.len() as u64
    }

    /// Appends what `put` puts.
    pub fn append(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> ExecResult<()> {
        let before = self.tail.len();
        put(&mut self.tail);
        let bytes = (self.tail.len() - before) as u64;
        if let Err(error) = self.space.quota.take(bytes) {
            self.tail.truncate(before);
            return Err(error.into());
        }
        if self.tail.len() < CHUNK {
            return Ok(());
        }
        self.flush()
    }

    /// Writes what is to be written, and gives the memory back.
    fn flush(&mut self) -> ExecResult<()> {
        let bytes = self.tail.len() as u64;
        let written = self.file.write_all_at(&self.tail, self.written);
        self.written += bytes;
        self.tail = Vec::new();
        written.map_err(|error| ExecError::temporary(&error))
    }

    /// Fills `out` with the bytes from `offset` on; XX000 when there are fewer.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> ExecResult<()> {
        let on_disk = self.written.saturating_sub(offset).min(out.len() as u64);
        let (from_file, from_tail) = out.split_at_mut(on_disk as usize);
        if !from_file.is_empty() {
            let read = self.file.read_exact_at(from_file, offset);
            read.map_err(|error| ExecError::temporary(&error))?;
        }
        if !from_tail.is_empty() {
            let start = (offset + on_disk).saturating_sub(self.written) as usize;
            let bytes = self.tail.get(start..start + from_tail.len());
            from_tail.copy_from_slice(bytes.ok_or_else(ended)?);
        }
        Ok(())
    }
}

/// A file that ends before its rows do.
fn ended() -> ExecError {
    ExecError::new(
        SqlState::DATA_CORRUPTED,
        "a temporary file ends within a row",
    )
}

impl Drop for TempFile {
    fn drop(&mut self) {
        self.space.quota.give_back(self.len());
        if let Err(error) = self.space.store.disk().remove(&self.path)
            && error.kind() != IoErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "temporary file stays");
        }
    }
}
