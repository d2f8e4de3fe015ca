//! Bounds of the memory and of the temporary files that one session's work takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{EngineError, EngineResult};
use crate::memory::SessionMemory;

/// The bytes of a session's temporary files, within PostgreSQL's `temp_file_limit`.
#[derive(Debug)]
pub struct TempQuota {
    /// In bytes; `u64::MAX` for no limit.
    limit: AtomicU64,
    used: AtomicU64,
}

impl Default for TempQuota {
    fn default() -> TempQuota {
        TempQuota {
            limit: AtomicU64::new(u64::MAX),
            used: AtomicU64::new(0),
        }
    }
}

impl TempQuota {
    /// `temp_file_limit`, in bytes; none for no limit.
    pub fn set_limit(&self, limit: Option<u64>) {
        let limit = limit.unwrap_or(u64::MAX);
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes in files now, those included that are to be written.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes` for a file, which gives them back when it is removed.
    ///
    /// # Errors
    /// 53400 when the limit would be passed; nothing is taken then.
    pub fn take(&self, bytes: u64) -> EngineResult<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used <= limit {
            return Ok(());
        }
        self.give_back(bytes);
        Err(EngineError::TempFileLimit { limit })
    }

    /// Gives back what [`TempQuota::take`] took.
    pub fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bounds of work that keeps many entries: beyond `bytes` they go to temporary files.
#[derive(Clone, Debug)]
pub struct WorkLimits {
    /// Bytes in memory (`maintenance_work_mem`).
    pub bytes: usize,
    /// The budget they are charged to.
    pub memory: Arc<SessionMemory>,
    /// The session's temporary files.
    pub files: Arc<TempQuota>,
}

impl WorkLimits {
    /// For work of no session.
    #[must_use]
    pub fn unlimited(bytes: usize) -> WorkLimits {
        WorkLimits {
            bytes,
            memory: SessionMemory::unlimited(),
            files: Arc::default(),
        }
    }

    /// The same limits with other bytes in memory.
    #[must_use]
    pub fn with_bytes(&self, bytes: usize) -> WorkLimits {
        WorkLimits {
            bytes,
            ..self.clone()
        }
    }
}
