//! After an unclean end: whole pages for torn ones, out of the double-write area.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_io::{AlignedBuf, File, IoErrorKind, OpenOptions};

use super::area::{area_path, read_header, write_header};
use super::format::{BatchHeader, FileHeader};
use crate::buffer::{BufferPool, ForkHandle};
use crate::error::StorageResult;
use crate::ids::{BlockNumber, Fork, PageId};
use crate::page::checksum::{self, Verdict};
use crate::page::{PAGE_SIZE, PageBytes};
use crate::parallel;

/// Most pages of one read and one write.
const RUN_PAGES: usize = 128;
/// Threads beside the opening one that restore, and runs that are worth one.
const HELPERS: usize = 7;
const RUNS_EACH: usize = 16;

/// What was found in the double-write area when the store was opened.
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
    pub(super) old: Vec<(Arc<dyn File>, FileHeader)>,
}

/// An image in the area, newest last.
struct Image {
    order: (u64, u64),
    file: Arc<dyn File>,
    offset: u64,
    checksum: u32,
}

/// Looks at every page that an area in use at the last end names, and writes it home again: its
/// own content if that is whole, else the newest whole image (write-out rule 5). Everything is
/// synced before this returns, so the area is not needed any more.
pub(super) fn restore(pool: &BufferPool, dir: &Path) -> StorageResult<Restored> {
    let direct = pool.files().direct();
    let mut headers = Vec::new();
    for number in 0..2 {
        let opts = OpenOptions::read_write().direct(direct);
        let file = match pool.files().disk().open(&area_path(dir, number), opts) {
            Ok(file) => file,
            Err(error) if error.kind() == IoErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        if let Some(header) = read_header(&*file)? {
            headers.push((number, file, header));
        }
    }
    let newest = headers
        .iter()
        .max_by_key(|(_, _, header)| header.generation);
    let next = newest.map_or((0, 1), |(number, _, header)| {
        // The file of an unclean end stays as it is until the other one is in use.
        let number = if header.active { 1 - number } else { *number };
        (number, header.generation + 1)
    });
    let old: Vec<_> = headers
        .into_iter()
        .filter(|(_, _, header)| header.active)
        .map(|(_, file, header)| (file, header))
        .collect();
    let begun = Instant::now();
    let mut images = BTreeMap::new();
    for (file, header) in &old {
        collect(file, header, &mut images)?;
    }
    let runs = runs(pool, images)?;
    let mut stats = restore_runs(&runs)?;
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
    // instance of a page that the device has damaged since (write-out rule 16).
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

/// Every batch header of `epoch` in a file, with the offset of the batch's first image.
fn batches(file: &Arc<dyn File>, epoch: u64) -> StorageResult<Vec<(BatchHeader, u64)>> {
    const WINDOW: usize = 128 * PAGE_SIZE;
    let len = file.len()?;
    let mut window = AlignedBuf::zeroed(WINDOW);
    let mut at = PAGE_SIZE as u64;
    let mut found = Vec::new();
    while at < len {
        let read = file.read_at(&mut window, at)?;
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
        if read < WINDOW {
            break;
        }
        at += read as u64;
    }
    Ok(found)
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
fn restore_runs(runs: &[Run]) -> StorageResult<RestoreStats> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut stats = RestoreStats::default();
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            restore_run(run, &mut stats)?;
        }
        Ok(stats)
    };
    let helpers = (runs.len() / RUNS_EACH).min(HELPERS);
    parallel::share("evenkeel-restore", helpers, work, RestoreStats::and)
}

/// Reads a run, puts images in the place of torn pages, and writes it home.
fn restore_run(run: &Run, stats: &mut RestoreStats) -> StorageResult<()> {
    let (segment, offset) = run.fork.files().segment(run.first.block)?;
    let mut home = AlignedBuf::zeroed(run.images.len() * PAGE_SIZE);
    segment.file().read_exact_at(&mut home, offset)?;
    for (index, (bytes, candidates)) in home
        .chunks_exact_mut(PAGE_SIZE)
        .zip(&run.images)
        .enumerate()
    {
        let page = run.page(index);
        stats.checked += 1;
        let Some(Verdict::Damaged { stored, computed }) = verdict(bytes, page) else {
            continue;
        };
        let Some(image) = whole_image(candidates, page)? else {
            stats.damaged += 1;
            tracing::error!(
                "{page} is torn or damaged (checksum {stored:08x} stored, {computed:08x} \
                 computed) and the double-write area has no whole image of it"
            );
            continue;
        };
        tracing::info!("{page} was torn; restored from the double-write area");
        stats.restored += 1;
        bytes.copy_from_slice(&image);
    }
    // Written even where it was whole: the page cache may hold what the disk does not.
    segment.file().write_all_at(&home, offset)?;
    segment.count_write();
    Ok(())
}

/// The newest image that is what its batch header said.
fn whole_image(candidates: &[Image], page: PageId) -> StorageResult<Option<AlignedBuf>> {
    for image in candidates {
        let mut bytes = AlignedBuf::zeroed(PAGE_SIZE);
        match image.file.read_exact_at(&mut bytes, image.offset) {
            Ok(()) => {}
            Err(error) if error.kind() == IoErrorKind::UnexpectedEof => continue,
            Err(error) => return Err(error.into()),
        }
        let meant = bytes[..4] == image.checksum.to_le_bytes();
        if meant && verdict(&bytes, page).is_some_and(Verdict::is_valid) {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

fn verdict(bytes: &[u8], page: PageId) -> Option<Verdict> {
    <&PageBytes>::try_from(bytes)
        .ok()
        .map(|bytes| checksum::verify(bytes, page))
}

/// Marks area files as not needed any more.
pub(super) fn retire(old: &[(Arc<dyn File>, FileHeader)], fsync: bool) -> StorageResult<()> {
    for (file, header) in old {
        write_header(
            &**file,
            &FileHeader {
                active: false,
                ..*header
            },
            fsync,
        )?;
    }
    Ok(())
}
