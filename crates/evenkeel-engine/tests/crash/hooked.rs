//! A simulated disk with hooks where durability is made: for tests that skip, delay or watch it.

use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use evenkeel_io::{BootId, Disk, File, IoQueue, IoResult, LockGuard, OpenOptions, SimDisk};

/// Replacements of a file's operations; each does the operation unless it says otherwise. `mark`
/// belongs to the open file, for whatever a hook has to remember of it.
pub trait Hooks: Send + Sync + 'static {
    fn before_write(&self, _file: &dyn File, _mark: &AtomicBool) -> IoResult<()> {
        Ok(())
    }

    fn sync_data(&self, file: &dyn File, _mark: &AtomicBool) -> IoResult<()> {
        file.sync_data()
    }

    fn sync_all(&self, file: &dyn File, _mark: &AtomicBool) -> IoResult<()> {
        file.sync_all()
    }

    fn sync_dir(&self, disk: &SimDisk, dir: &Path) -> IoResult<()> {
        disk.sync_dir(dir)
    }
}

/// Whether a file lies in a directory, or is a file, of the database.
pub fn is_in(file: &dyn File, part: &str) -> bool {
    file.path().to_string_lossy().contains(part)
}

pub struct Hooked<H> {
    disk: SimDisk,
    hooks: Arc<H>,
}

impl<H: Hooks> Hooked<H> {
    pub fn new(disk: &SimDisk, hooks: H) -> Arc<Self> {
        Arc::new(Hooked {
            disk: disk.clone(),
            hooks: Arc::new(hooks),
        })
    }
}

impl<H: Hooks> Disk for Hooked<H> {
    fn open(&self, path: &Path, opts: OpenOptions) -> IoResult<Arc<dyn File>> {
        Ok(Arc::new(HookedFile {
            file: self.disk.open(path, opts)?,
            hooks: Arc::clone(&self.hooks),
            mark: AtomicBool::new(false),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> IoResult<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> IoResult<()> {
        self.disk.remove(path)
    }

    fn create_dir_all(&self, path: &Path) -> IoResult<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> IoResult<Vec<String>> {
        self.disk.list(dir)
    }

    fn exists(&self, path: &Path) -> IoResult<bool> {
        self.disk.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> IoResult<()> {
        self.hooks.sync_dir(&self.disk, dir)
    }

    fn lock(&self, path: &Path) -> IoResult<Box<dyn LockGuard>> {
        self.disk.lock(path)
    }

    fn queue(&self, depth: usize) -> Box<dyn IoQueue> {
        self.disk.queue(depth)
    }

    fn random_u64(&self) -> u64 {
        self.disk.random_u64()
    }

    fn now_micros(&self) -> u64 {
        self.disk.now_micros()
    }

    fn boot_id(&self) -> Option<BootId> {
        self.disk.boot_id()
    }

    fn free_space(&self, dir: &Path) -> IoResult<Option<u64>> {
        self.disk.free_space(dir)
    }

    fn max_open_files(&self) -> Option<u64> {
        self.disk.max_open_files()
    }
}

struct HookedFile<H> {
    file: Arc<dyn File>,
    hooks: Arc<H>,
    mark: AtomicBool,
}

impl<H: Hooks> File for HookedFile<H> {
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> IoResult<usize> {
        self.file.read_vectored_at(bufs, offset)
    }

    fn write_all_vectored_at(&self, bufs: &mut [IoSlice<'_>], offset: u64) -> IoResult<()> {
        self.hooks.before_write(&*self.file, &self.mark)?;
        self.file.write_all_vectored_at(bufs, offset)
    }

    fn sync_data(&self) -> IoResult<()> {
        self.hooks.sync_data(&*self.file, &self.mark)
    }

    fn sync_all(&self) -> IoResult<()> {
        self.hooks.sync_all(&*self.file, &self.mark)
    }

    fn len(&self) -> IoResult<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> IoResult<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> IoResult<()> {
        self.file.allocate(offset, len)
    }

    fn start_writeback(&self, offset: u64, len: u64) -> IoResult<()> {
        self.file.start_writeback(offset, len)
    }

    fn await_writeback(&self, offset: u64, len: u64) -> IoResult<()> {
        self.file.await_writeback(offset, len)
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}
