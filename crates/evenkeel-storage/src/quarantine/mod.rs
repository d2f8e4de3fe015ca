//! Pages that could not be brought up to date, set aside with what the log owes them, so that
//! neither holds the redo point nor is forgotten. See this directory's README for the rules.

mod side_file;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_io::{Disk, IoErrorKind, OpenOptions};
use parking_lot::{Mutex, MutexGuard};

use crate::buffer::{BufferPool, Damage, DamagedPages};
use crate::error::{StorageError, StorageResult};
use crate::ids::{FileId, Fork, Lsn, PageId};
use crate::record::PartView;

use side_file::SideFile;
pub(crate) use side_file::{EntryKind, Owed};

/// The directory of the side files.
const DIRECTORY: &str = "damaged";
/// Ends the name of a side file that is being written.
const UNFINISHED: &str = ".new";
/// Bytes of a side file that are held in memory.
const BUDGET: usize = if cfg!(test) { 4 << 10 } else { 1 << 20 };
/// With more damaged pages than this the whole directory is not to be trusted.
const MOST_PAGES: usize = 1 << 20;

/// A page that is set aside as damaged.
#[derive(Clone, Debug)]
pub struct DamagedPage {
    /// The page.
    pub page: PageId,
    /// The LSN that it was found with; zero when it could not be read.
    pub lsn: Lsn,
    /// Why it was set aside.
    pub reason: String,
    /// The file with the log's changes that the page lacks.
    pub side_file: PathBuf,
}

impl From<&Damage> for DamagedPage {
    fn from(damage: &Damage) -> DamagedPage {
        DamagedPage {
            page: damage.page,
            lsn: damage.lsn,
            reason: damage.reason.to_string(),
            side_file: damage.side_file.clone(),
        }
    }
}

/// The pages of the database in `dir` that are set aside, in order. Changes nothing, so a server
/// may have it open.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(disk: &dyn Disk, dir: &Path) -> StorageResult<Vec<DamagedPage>> {
    let mut found = Vec::new();
    let directory = dir.join(DIRECTORY);
    for name in names(disk, &directory)? {
        if let Some(page) = side_file::page_of(&name) {
            found.push((&known(disk, &directory.join(&name), page)).into());
        }
    }
    found.sort_unstable_by_key(|damaged: &DamagedPage| damaged.page);
    Ok(found)
}

fn names(disk: &dyn Disk, directory: &Path) -> StorageResult<Vec<String>> {
    match disk.list(directory) {
        Ok(names) => Ok(names),
        Err(error) if error.kind() == IoErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Reads the header of a side file. The name alone is enough for the page to be set aside.
fn known(disk: &dyn Disk, path: &Path, page: PageId) -> Damage {
    let unreadable = |reason: String| Damage {
        page,
        lsn: Lsn::ZERO,
        reason: reason.into(),
        side_file: path.to_owned(),
        upto: Lsn::MAX,
    };
    match SideFile::open(disk, path, page) {
        Ok(Some(file)) => file.damage,
        Ok(None) => unreadable("its side file is gone".into()),
        Err(error) => unreadable(format!("its side file cannot be read: {error}")),
    }
}

/// Why a page is set aside, as the error says that was met.
pub(crate) fn damage(page: PageId, cause: &StorageError, upto: Lsn) -> Damage {
    let lsn = match cause {
        StorageError::PageDamaged { lsn, .. } | StorageError::PageSetAside { lsn, .. } => *lsn,
        StorageError::LostWrite { found, .. } => *found,
        _ => Lsn::ZERO,
    };
    Damage {
        page,
        lsn,
        reason: cause.to_string().into(),
        side_file: PathBuf::new(),
        upto,
    }
}

/// The side files of a database.
pub(crate) struct Quarantine {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    pool: Arc<BufferPool>,
    fsync: bool,
    /// Held by who changes a side file, or ends one.
    changing: Mutex<()>,
}

/// Adds a part of the record at an LSN to a side file.
pub(crate) type AddPart<'a> = dyn FnMut(Lsn, &PartView<'_>) -> StorageResult<()> + 'a;

/// A late change was kept, or is to be tried on the page again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    Yes,
    /// The page is not set aside any more.
    TryAgain,
}

impl Quarantine {
    /// Finds the pages that earlier starts set aside, and removes what was not finished.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        data: &Path,
        pool: &Arc<BufferPool>,
        fsync: bool,
    ) -> StorageResult<Quarantine> {
        let quarantine = Quarantine {
            disk: Arc::clone(disk),
            dir: data.join(DIRECTORY),
            pool: Arc::clone(pool),
            fsync,
            changing: Mutex::default(),
        };
        let found = names(&**disk, &quarantine.dir)?;
        if !found.is_empty() {
            // Entries that an earlier process made or removed may be in the page cache alone.
            quarantine.sync_dir()?;
        }
        for name in found {
            let path = quarantine.dir.join(&name);
            if name.ends_with(UNFINISHED) {
                disk.remove(&path)?;
            } else if let Some(page) = side_file::page_of(&name) {
                let damage = known(&**disk, &path, page);
                tracing::warn!("{page} is set aside as damaged: {}", damage.reason);
                quarantine.pages().set(damage, true);
            }
        }
        Ok(quarantine)
    }

    pub(crate) fn pages(&self) -> &DamagedPages {
        self.pool.damaged()
    }

    fn path(&self, page: PageId) -> PathBuf {
        self.dir.join(side_file::name(page))
    }

    fn unfinished_path(&self, page: PageId) -> PathBuf {
        self.dir.join(side_file::name(page) + UNFINISHED)
    }

    /// Makes the directory, with a durable entry.
    fn make_dir(&self) -> StorageResult<()> {
        if self.disk.exists(&self.dir)? {
            return Ok(());
        }
        self.disk.create_dir_all(&self.dir)?;
        let data = self.dir.parent().unwrap_or(&self.dir);
        self.pool.files().sync_table().sync_dir(data)
    }

    fn sync_dir(&self) -> StorageResult<()> {
        self.pool.files().sync_table().sync_dir(&self.dir)
    }

    /// Writes `bytes` at `at`, where the file ends from then on, and syncs it.
    fn write(&self, path: &Path, at: u64, bytes: &[u8]) -> StorageResult<()> {
        let file = self.disk.open(path, OpenOptions::create())?;
        file.set_len(at)?;
        file.write_all_at(bytes, at)?;
        if self.fsync {
            file.sync_all().inspect_err(|error| {
                let path = path.display();
                self.pool
                    .poison()
                    .set(format!("syncing {path} failed: {error}"));
            })?;
        }
        Ok(())
    }

    /// Holds all side files still.
    pub(crate) fn still(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Sets a page aside, durably, with the parts that `each` shows, behind those that an earlier
    /// start has kept. The side file gets its name when it is whole; without it the page is not set
    /// aside, and the log still has everything.
    pub(crate) fn set_aside(
        &self,
        mut damage: Damage,
        each: impl FnOnce(&mut AddPart<'_>) -> StorageResult<()>,
    ) -> StorageResult<()> {
        let page = damage.page;
        let _still = self.still();
        if self.pages().len() >= MOST_PAGES {
            let text = format!(
                "more than {MOST_PAGES} pages are damaged: {}",
                damage.reason
            );
            return Err(StorageError::Internal(text.into()));
        }
        self.make_dir()?;
        damage.side_file = self.path(page);
        let unfinished = self.unfinished_path(page);
        let (mut buffer, mut written, mut parts) = (Vec::new(), 0, 0_u64);
        side_file::encode_header(&damage, &mut buffer);
        let mut add = |owed: &Owed<'_>| {
            side_file::encode_entry(owed, &mut buffer);
            parts += 1;
            if buffer.len() > BUDGET {
                self.write(&unfinished, written, &buffer)?;
                written += buffer.len() as u64;
                buffer.clear();
            }
            Ok(())
        };
        self.for_each_owed(page, &mut add)?;
        each(&mut |lsn, part| {
            add(&Owed {
                kind: EntryKind::Part,
                lsn,
                prev_lsn: part.prev_lsn,
                op: part.op,
                flags: part.flags,
                data: part.data,
            })
        })?;
        self.write(&unfinished, written, &buffer)?;
        self.disk.rename(&unfinished, &damage.side_file)?;
        self.sync_dir()?;
        tracing::error!(
            "{page} is set aside as damaged; {parts} changes of it are kept in {}",
            damage.side_file.display()
        );
        self.pages().set(damage, true);
        Ok(())
    }

    /// Keeps a late change of a page that could not be loaded, because of `cause`; the page is
    /// set aside if it was not. The change is durable when this returns.
    pub(crate) fn keep_late(
        &self,
        page: PageId,
        cause: &StorageError,
        owed: &Owed<'_>,
    ) -> StorageResult<Kept> {
        let _still = self.still();
        let mut bytes = Vec::new();
        if self.pages().get(page).is_some() {
            let end = self.end_of(page)?;
            side_file::encode_entry(owed, &mut bytes);
            self.write(&self.path(page), end, &bytes)?;
            return Ok(Kept::Yes);
        }
        if matches!(cause, StorageError::PageSetAside { .. }) {
            return Ok(Kept::TryAgain);
        }
        let mut damage = damage(page, cause, Lsn::ZERO);
        damage.side_file = self.path(page);
        side_file::encode_header(&damage, &mut bytes);
        side_file::encode_entry(owed, &mut bytes);
        self.make_dir()?;
        self.write(&self.unfinished_path(page), 0, &bytes)?;
        self.disk
            .rename(&self.unfinished_path(page), &damage.side_file)?;
        self.sync_dir()?;
        tracing::error!("{cause}; {page} is set aside");
        self.pages().set(damage, true);
        Ok(Kept::Yes)
    }

    /// Where what is whole of a page's side file ends.
    fn end_of(&self, page: PageId) -> StorageResult<u64> {
        let path = self.path(page);
        let Some(mut file) = SideFile::open(&*self.disk, &path, page)? else {
            return Err(StorageError::FileDamaged {
                path,
                offset: 0,
                reason: "the side file is gone".into(),
            });
        };
        while file.next()?.is_some() {}
        Ok(file.position())
    }

    /// Shows the changes that a page lacks to `visit`, in order.
    pub(crate) fn for_each_owed(
        &self,
        page: PageId,
        mut visit: impl FnMut(&Owed<'_>) -> StorageResult<()>,
    ) -> StorageResult<()> {
        if let Some(mut file) = SideFile::open(&*self.disk, &self.path(page), page)? {
            while let Some(owed) = file.next()? {
                visit(&owed)?;
            }
        }
        Ok(())
    }

    /// The redo point is about to move to `redo`: pages made anew by records before are durable
    /// and need their side files no more. Afterwards no record would say so.
    pub(crate) fn settle(&self, redo: Lsn) -> StorageResult<()> {
        self.remove(&self.pages().replaced_before(redo))
    }

    /// A file is dropped, and its pages with it.
    pub(crate) fn forget_file(&self, file: FileId) -> StorageResult<()> {
        self.remove(&self.pages().kept_of(file, None))
    }

    /// A fork is cut: its blocks from `from` on will be others when they come back.
    pub(crate) fn forget_tail(&self, file: FileId, fork: Fork, from: u32) -> StorageResult<()> {
        self.remove(&self.pages().kept_of(file, Some((fork, from))))
    }

    /// Removes side files, for good when this returns.
    fn remove(&self, pages: &[PageId]) -> StorageResult<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let _still = self.still();
        for page in pages {
            match self.disk.remove(&self.path(*page)) {
                Ok(()) => {}
                Err(error) if error.kind() == IoErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.sync_dir()?;
        for page in pages {
            self.pages().forget(*page);
        }
        Ok(())
    }
}
