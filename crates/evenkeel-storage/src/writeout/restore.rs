//! After an unclean end: whole pages for torn ones, out of the double-write area.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use evenkeel_io::{AlignedBuf, File, IoErrorKind, OpenOptions};

use super::area::{area_path, read_header, write_header};
use super::format::{BatchHeader, FileHeader};
use crate::buffer::BufferPool;
use crate::error::StorageResult;
use crate::ids::{BlockNumber, Fork, PageId};
use crate::page::checksum::{self, Verdict};
use crate::page::{PAGE_SIZE, PageBytes};

/// What was found in the double-write area when the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreStats {
    /// Pages that the area names and that exist.
    pub checked: u64,
    /// Pages whose content on disk failed its checksum and was replaced by an image.
    pub restored: u64,
    /// Pages whose content on disk fails its checksum and of which no whole image is left.
    pub damaged: u64,
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
    let mut images = BTreeMap::new();
    for (file, header) in &old {
        collect(file, header, &mut images)?;
    }
    let mut stats = RestoreStats::default();
    for (page, mut candidates) in images {
        candidates.sort_by_key(|image: &Image| std::cmp::Reverse(image.order));
        restore_page(pool, page, &candidates, &mut stats)?;
    }
    if stats.checked != 0 {
        pool.files().sync_table().sync_all()?;
        tracing::info!(
            "double-write area: {} pages checked, {} restored, {} damaged",
            stats.checked,
            stats.restored,
            stats.damaged
        );
    }
    Ok(Restored { stats, next, old })
}

/// Finds the images of every batch of a file's present epoch.
fn collect(
    file: &Arc<dyn File>,
    header: &FileHeader,
    images: &mut BTreeMap<PageId, Vec<Image>>,
) -> StorageResult<()> {
    const WINDOW: usize = 128 * PAGE_SIZE;
    let len = file.len()?;
    let mut window = AlignedBuf::zeroed(WINDOW);
    let mut at = PAGE_SIZE as u64;
    while at < len {
        let read = file.read_at(&mut window, at)?;
        // Any slot may hold a header: an old one may lie among newer images, whose own
        // checksums then tell that they are not what it names.
        for (slot, page) in window[..read].chunks_exact(PAGE_SIZE).enumerate() {
            let Some(batch) = <&PageBytes>::try_from(page)
                .ok()
                .and_then(BatchHeader::decode)
            else {
                continue;
            };
            if batch.epoch != header.epoch {
                continue;
            }
            let first = at + ((slot + 1) * PAGE_SIZE) as u64;
            for (index, entry) in batch.entries.iter().enumerate() {
                images.entry(entry.page).or_default().push(Image {
                    order: (header.generation, batch.sequence),
                    file: Arc::clone(file),
                    offset: first + (index * PAGE_SIZE) as u64,
                    checksum: entry.checksum,
                });
            }
        }
        if read < WINDOW {
            break;
        }
        at += read as u64;
    }
    Ok(())
}

fn restore_page(
    pool: &BufferPool,
    page: PageId,
    candidates: &[Image],
    stats: &mut RestoreStats,
) -> StorageResult<()> {
    if !pool.files().exists(page.file, Fork::Main)? {
        return Ok(());
    }
    let fork = pool.fork(page.file, page.fork)?;
    if page.block.0 >= fork.len() {
        // Dropped, cut off, or grown and never synced: then redo makes it from nothing.
        return Ok(());
    }
    stats.checked += 1;
    let mut home = AlignedBuf::zeroed(PAGE_SIZE);
    fork.files().read(page.block, &mut home)?;
    if let Some(Verdict::Damaged { stored, computed }) = verdict(&home, page) {
        let Some(image) = whole_image(candidates, page)? else {
            stats.damaged += 1;
            tracing::error!(
                "{page} is torn or damaged (checksum {stored:08x} stored, {computed:08x} \
                 computed) and the double-write area has no whole image of it"
            );
            return Ok(());
        };
        tracing::info!("{page} was torn; restored from the double-write area");
        stats.restored += 1;
        home = image;
    }
    // Written even if it was whole: the page cache may hold what the disk does not.
    write_home(&fork, page.block, &home)
}

fn write_home(
    fork: &crate::buffer::ForkHandle,
    block: BlockNumber,
    bytes: &[u8],
) -> StorageResult<()> {
    let (segment, offset) = fork.files().segment(block)?;
    segment.file().write_all_at(bytes, offset)?;
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
