//! After an unclean end: whole pages for torn ones, out of the double-write area.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_io::{AlignedBuf, Disk, File, IoError, IoErrorKind, OpenOptions};

use super::doublewrite::{area_path, read_header, write_header};
use super::format::{BatchHeader, FileHeader};
use crate::buffer::{BufferPool, ForkHandle};
use crate::error::StorageResult;
use crate::ids::{BlockNumber, Fork, Lsn, PageId};
use crate::page::checksum::{self, Verdict};
use crate::page::{PAGE_SIZE, PageBuf, PageBytes};
use crate::parallel;

/// Most pages of one read and one write.
const RUN_PAGES: usize = 128;
/// Bytes of an area that are read at once.
const WINDOW: usize = 128 * PAGE_SIZE;
/// Threads beside the opening one that restore, and runs that are worth one.
const HELPERS: usize = 7;
const RUNS_EACH: usize = 16;

/// Counts of the pages that the double-write area named when the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreStats {
    /// Pages that the area names and that exist.
    pub checked: u64,
    /// Pages whose content on disk failed its checksum and was replaced by an image.
    pub restored: u64,
    /// Pages whose content on disk fails its checksum and of which no whole image is left.
    pub damaged: u64,
    /// How long it took, syncs included.
    pub took: Duration,
}

impl RestoreStats {
    fn and(self, other: RestoreStats) -> RestoreStats {
        RestoreStats {
            checked: self.checked + other.checked,
            restored: self.restored + other.restored,
            damaged: self.damaged + other.damaged,
            took: self.took.max(other.took),
        }
    }
}

/// The outcome for the area that is to be used from now on.
pub(super) struct Restored {
    pub(super) stats: RestoreStats,
    /// Number of the file to be used, and its generation.
    pub(super) next: (usize, u64),
    /// Files that were needed until now; to be retired when the next one is in use.
    pub(super) old: Vec<OldFile>,
}

/// An area file that was needed until now, or whose header could not be read.
pub(super) struct OldFile {
    number: usize,
    file: Arc<dyn File>,
    header: FileHeader,
}

impl Restored {
    /// Whether the file that is not used next has been needed until now.
    pub(super) fn needs_other(&self) -> bool {
        self.old.iter().any(|old| old.number != self.next.0)
    }
}

/// An image in the area, newest last.
struct Image {
    order: (u64, u64),
    file: Arc<dyn File>,
    offset: u64,
    checksum: u32,
}

/// Looks at every page that an area in use at the last end names, and writes it home again: its
/// own content if that is whole, else the newest whole image (OUT-5). Everything is
/// synced before this returns, so the area is not needed any more.
pub(super) fn restore(
    pool: &BufferPool,
    dir: &Path,
    replayed: Option<&Range<Lsn>>,
) -> StorageResult<Restored> {
    let direct = pool.files().direct();
    let mut headers = Vec::new();
    let mut unreadable = Vec::new();
    for number in 0..2 {
        let opts = OpenOptions::read_write().direct(direct);
        let file = match pool.files().disk().open(&area_path(dir, number), opts) {
            Ok(file) => file,
            Err(error) if error.kind() == IoErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        match read_header(&*file) {
            Ok(Some(header)) => headers.push(OldFile {
                number,
                file,
                header,
            }),
            Ok(None) => {}
            Err(error) => {
                tracing::error!("a double-write area gives no images: {error}");
                // Its images must not come back when it can be read again.
                let header = FileHeader {
                    epoch: pool.files().disk().random_u64(),
                    generation: 0,
                    active: false,
                };
                unreadable.push(OldFile {
                    number,
                    file,
                    header,
                });
            }
        }
    }
    let newest = headers.iter().max_by_key(|old| old.header.generation);
    let next = newest.map_or((0, 1), |OldFile { number, header, .. }| {
        // The file of an unclean end stays as it is until the other one is in use.
        let number = if header.active { 1 - number } else { *number };
        (number, header.generation + 1)
    });
    let mut old: Vec<_> = headers
        .into_iter()
        .filter(|old| old.header.active)
        .collect();
    let begun = Instant::now();
    let mut images = BTreeMap::new();
    for old in &old {
        collect(&old.file, &old.header, &mut images)?;
    }
    let runs = runs(pool, images)?;
    let mut stats = restore_runs(&runs, &Lost { pool, replayed })?;
    if stats.checked != 0 {
        pool.files().sync_table().sync_all()?;
        stats.took = begun.elapsed();
        tracing::info!(
            "double-write area: {} pages checked, {} restored, {} damaged, in {:.3} s",
            stats.checked,
            stats.restored,
            stats.damaged,
            stats.took.as_secs_f64()
        );
    }
    old.extend(unreadable);
    Ok(Restored { stats, next, old })
}

/// Finds the images of a file's present epoch that may still be needed.
fn collect(
    file: &Arc<dyn File>,
    header: &FileHeader,
    images: &mut BTreeMap<PageId, Vec<Image>>,
) -> StorageResult<()> {
    let batches = batches(file, header.epoch)?;
    // An image of before that is no home's last one: taking it would undo changes unnoticed, for
    // instance of a page that the device has damaged since (OUT-16).
    let oldest = batches.iter().map(|(batch, _)| batch.oldest_live()).max();
    for (batch, first) in batches {
        if Some(batch.sequence) < oldest {
            continue;
        }
        for (index, entry) in batch.entries.iter().enumerate() {
            images.entry(entry.page).or_default().push(Image {
                order: (header.generation, batch.sequence),
                file: Arc::clone(file),
                offset: first + (index * PAGE_SIZE) as u64,
                checksum: entry.checksum,
            });
        }
    }
    Ok(())
}

/// The whole images of a page that either area file has, of whatever use and batch, newest first.
/// They are known by their checksum, which covers the page's identity: the header of their batch
/// may have been overwritten. Whether one is the page's last content is for the caller to know.
pub(crate) fn images_of(disk: &dyn Disk, dir: &Path, page: PageId) -> StorageResult<Vec<PageBuf>> {
    let mut found = Vec::new();
    for number in 0..2 {
        let file = match disk.open(&area_path(dir, number), OpenOptions::read_only()) {
            Ok(file) => file,
            Err(error) if error.kind() == IoErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let len = file.len()?;
        let mut window = AlignedBuf::zeroed(WINDOW);
        let mut at = PAGE_SIZE as u64;
        while at < len {
            let read = (len - at).min(WINDOW as u64) as usize;
            // One that cannot be read is zero, and no image.
            let _ = read_pages(&*file, &mut window[..read], at);
            for slot in window[..read].chunks_exact(PAGE_SIZE) {
                if verdict(slot, page) == Some(Verdict::Valid) {
                    let mut image = PageBuf::zeroed();
                    image.bytes_mut().copy_from_slice(slot);
                    found.push(image);
                }
            }
            at += read as u64;
        }
    }
    found.sort_by_key(|image| std::cmp::Reverse(checksum::lsn_of(image.bytes())));
    Ok(found)
}

/// Every batch header of `epoch` in a file, with the offset of the batch's first image.
fn batches(file: &Arc<dyn File>, epoch: u64) -> StorageResult<Vec<(BatchHeader, u64)>> {
    let len = file.len()?;
    let mut window = AlignedBuf::zeroed(WINDOW);
    let mut at = PAGE_SIZE as u64;
    let mut found = Vec::new();
    while at < len {
        let read = (len - at).min(WINDOW as u64) as usize;
        // An unreadable slot holds no header.
        for (index, error) in read_pages(&**file, &mut window[..read], at) {
            let page = at / PAGE_SIZE as u64 + index as u64;
            tracing::warn!("page {page} of a double-write area cannot be read: {error}");
        }
        // Any slot may hold a header: an old one may lie among newer images, whose own
        // checksums then tell that they are not what it names.
        for (slot, page) in window[..read].chunks_exact(PAGE_SIZE).enumerate() {
            let batch = <&PageBytes>::try_from(page)
                .ok()
                .and_then(BatchHeader::decode);
            if let Some(batch) = batch.filter(|batch| batch.epoch == epoch) {
                found.push((batch, at + ((slot + 1) * PAGE_SIZE) as u64));
            }
        }
        at += read as u64;
    }
    Ok(found)
}

/// Reads pages in one operation, or, when that fails, each by itself: one bad sector is not to
/// take the others along. Those that cannot be read are zero and named by their index.
fn read_pages(file: &dyn File, pages: &mut [u8], offset: u64) -> Vec<(usize, IoError)> {
    if file.read_exact_at(pages, offset).is_ok() {
        return Vec::new();
    }
    let mut failed = Vec::new();
    for (index, page) in pages.chunks_mut(PAGE_SIZE).enumerate() {
        if let Err(error) = file.read_exact_at(page, offset + (index * PAGE_SIZE) as u64) {
            page.fill(0);
            failed.push((index, error));
        }
    }
    failed
}

/// Adjacent pages of one segment that the area names, with their images, newest first.
struct Run {
    fork: Arc<ForkHandle>,
    first: PageId,
    images: Vec<Vec<Image>>,
}

impl Run {
    fn page(&self, index: usize) -> PageId {
        PageId {
            // A run is within a fork, whose blocks are a u32.
            block: BlockNumber(self.first.block.0 + index as u32),
            ..self.first
        }
    }
}

/// The pages that exist, as runs in file order.
fn runs(pool: &BufferPool, images: BTreeMap<PageId, Vec<Image>>) -> StorageResult<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for (page, mut candidates) in images {
        candidates.sort_by_key(|image: &Image| std::cmp::Reverse(image.order));
        if !pool.files().exists(page.file, Fork::Main)? {
            continue;
        }
        let fork = pool.fork(page.file, page.fork)?;
        if page.block.0 >= fork.len() {
            // Dropped, cut off, or grown and never synced: then redo makes it from nothing.
            continue;
        }
        let follows = |run: &&mut Run| {
            let left = run.fork.files().blocks_left_in_segment(run.first.block) as usize;
            let len = run.images.len();
            len < left.min(RUN_PAGES) && run.page(len) == page
        };
        match runs.last_mut().filter(follows) {
            Some(run) => run.images.push(candidates),
            None => runs.push(Run {
                fork,
                first: page,
                images: vec![candidates],
            }),
        }
    }
    Ok(runs)
}

/// Restores all runs, several at a time: with a cold page cache every one is a read.
fn restore_runs(runs: &[Run], lost: &Lost<'_>) -> StorageResult<RestoreStats> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut stats = RestoreStats::default();
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            restore_run(run, lost, &mut stats)?;
        }
        Ok(stats)
    };
    let helpers = (runs.len() / RUNS_EACH).min(HELPERS);
    parallel::share("evenkeel-restore", helpers, work, RestoreStats::and)
}

/// Reads a run, puts images in the place of torn pages, and writes it home. A page that cannot be
/// read is as good as torn; if there is no image of it either it is left as it is: whoever reads
/// it is to get the error, and not a page of zeroes.
fn restore_run(run: &Run, lost: &Lost<'_>, stats: &mut RestoreStats) -> StorageResult<()> {
    let (segment, offset) = run.fork.files().segment(run.first.block)?;
    let mut home = AlignedBuf::zeroed(run.images.len() * PAGE_SIZE);
    let mut unread = read_pages(&**segment.file(), &mut home, offset)
        .into_iter()
        .peekable();
    let mut known = vec![true; run.images.len()];
    for (index, (bytes, candidates)) in home
        .chunks_exact_mut(PAGE_SIZE)
        .zip(&run.images)
        .enumerate()
    {
        let page = run.page(index);
        stats.checked += 1;
        let fault = match (unread.next_if(|(at, _)| *at == index), verdict(bytes, page)) {
            (Some((_, error)), _) => {
                known[index] = false;
                error.to_string()
            }
            (None, Some(Verdict::Damaged { stored, computed })) => {
                format!("checksum {stored:08x} stored, {computed:08x} computed")
            }
            (None, _) => {
                if let Some(image) = lost.replacement(page, bytes, candidates) {
                    stats.restored += 1;
                    bytes.copy_from_slice(&image);
                }
                continue;
            }
        };
        let replayed = whole_image(candidates, page, |lsn| lost.is_replayed_on(lsn));
        let Some(image) = replayed.or_else(|| whole_image(candidates, page, |_| true)) else {
            stats.damaged += 1;
            tracing::error!(
                "{page} is torn or damaged ({fault}) and the double-write area has no whole \
                 image of it"
            );
            continue;
        };
        tracing::info!("{page} was torn ({fault}); restored from the double-write area");
        stats.restored += 1;
        known[index] = true;
        bytes.copy_from_slice(&image);
    }
    // Written even where it was whole: the page cache may hold what the disk does not.
    let mut start = 0;
    for pages in known.chunk_by(|a, b| a == b) {
        let end = start + pages.len();
        if pages[0] {
            let bytes = &home[start * PAGE_SIZE..end * PAGE_SIZE];
            let at = offset + (start * PAGE_SIZE) as u64;
            segment.file().write_all_at(bytes, at)?;
        }
        start = end;
    }
    segment.count_write();
    Ok(())
}

/// Which pages have been changed by log that was lost.
struct Lost<'a> {
    pool: &'a BufferPool,
    replayed: Option<&'a Range<Lsn>>,
}

impl Lost<'_> {
    /// An image for a page whose LSN says that it was: the newest one from which redo gets to the
    /// log's end. The changes that it lacks have LSNs of their own, so the log that is read for
    /// redo has them. Without one the page stays, and whoever loads it is told.
    fn replacement(&self, page: PageId, home: &[u8], images: &[Image]) -> Option<AlignedBuf> {
        let end = self.replayed?.end;
        let lsn = checksum::lsn_of(<&PageBytes>::try_from(home).ok()?);
        if lsn < end && self.pool.core().gap_at(lsn).is_none() {
            return None;
        }
        let image = whole_image(images, page, |lsn| self.is_replayed_on(lsn))?;
        tracing::warn!(
            "{page} has LSN {lsn}, where there is no log; restored from the double-write area"
        );
        Some(image)
    }

    /// Whether redo has every change of a page since the one at `lsn`.
    fn is_replayed_on(&self, lsn: Lsn) -> bool {
        let is_read = self.replayed.is_some_and(|log| log.contains(&lsn));
        is_read && self.pool.core().gap_at(lsn).is_none()
    }
}

/// The newest image that is what its batch header said, with an LSN that is wanted. One that cannot
/// be read is not.
fn whole_image(
    candidates: &[Image],
    page: PageId,
    wanted: impl Fn(Lsn) -> bool,
) -> Option<AlignedBuf> {
    candidates.iter().find_map(|image| {
        let mut bytes = AlignedBuf::zeroed(PAGE_SIZE);
        image.file.read_exact_at(&mut bytes, image.offset).ok()?;
        let meant = bytes[..4] == image.checksum.to_le_bytes();
        let is_whole = meant && verdict(&bytes, page).is_some_and(Verdict::is_valid);
        let lsn = checksum::lsn_of(<&PageBytes>::try_from(&bytes[..]).ok()?);
        let is_whole = is_whole && wanted(lsn);
        is_whole.then_some(bytes)
    })
}

fn verdict(bytes: &[u8], page: PageId) -> Option<Verdict> {
    <&PageBytes>::try_from(bytes)
        .ok()
        .map(|bytes| checksum::verify(bytes, page))
}

/// Marks area files as not needed any more, but for the one that is in use now: both may have been
/// active, or its header unreadable, and its images are to count from here on.
pub(super) fn retire(old: &[OldFile], in_use: Option<usize>, fsync: bool) -> StorageResult<()> {
    for old in old.iter().filter(|old| Some(old.number) != in_use) {
        write_header(
            &*old.file,
            &FileHeader {
                active: false,
                ..old.header
            },
            fsync,
        )?;
    }
    Ok(())
}
