//! The double-write area: a ring of slots in one of two files.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_io::{AlignedBuf, Disk, File, IoErrorKind, IoResult, OpenOptions};
use parking_lot::{Condvar, Mutex};

use super::format::FileHeader;
use crate::error::StorageResult;
use crate::files::{Segment, SyncTable};
use crate::page::{PAGE_SIZE, PageBytes};

const CHUNK: usize = 1 << 20;
/// Fewest slots that an area can do with.
pub(super) const LEAST_SLOTS: u32 = 8;
/// A lane that failed does not finish its batch: who waits for it looks at the poison so often.
const RECHECK: Duration = Duration::from_millis(50);

/// Path of one of the two files.
pub(super) fn area_path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("doublewrite.{number}"))
}

/// The area in use.
pub(super) struct DoublewriteBuffer {
    file: Arc<dyn File>,
    header: FileHeader,
    fsync: bool,
    /// A deliberate bug: slots are free before the home files are synced.
    pub(super) reuse_early: bool,
    slots: u32,
    ring: Mutex<SlotRing>,
    finished: Condvar,
    /// Lanes that wait for the other one's batch.
    awaited: AtomicU32,
    sync: Arc<SyncTable>,
    /// Times that home files had to be synced to make room.
    pub(super) full: AtomicU64,
}

/// The slots of the ring that are taken, oldest batch first.
struct SlotRing {
    head: u32,
    taken: u32,
    sequence: u64,
    batches: VecDeque<Taken>,
}

struct Taken {
    sequence: u64,
    /// Slots from the end of the batch before, those skipped at the end of the file included.
    slots: u32,
    /// The batch's home writes; `None` until they have completed.
    homes: Option<Vec<(Arc<Segment>, u64)>>,
}

/// Slots for one batch.
pub(super) struct BatchSlots {
    pub(super) sequence: u64,
    /// Batches that may still be needed, this one included.
    pub(super) live: u32,
    first: u32,
}

impl DoublewriteBuffer {
    /// Takes file `number` into use, of `slots` slots, under a new epoch. Its content is not
    /// needed any more.
    pub(super) fn activate(
        disk: &dyn Disk,
        dir: &Path,
        number: usize,
        generation: u64,
        slots: u32,
        direct: bool,
        sync: &Arc<SyncTable>,
    ) -> StorageResult<DoublewriteBuffer> {
        let path = area_path(dir, number);
        let file = disk.open(&path, OpenOptions::create().direct(direct))?;
        let fsync = sync.fsync();
        let slots = fit(&*file, slots)?;
        let header = FileHeader {
            epoch: disk.random_u64(),
            generation,
            active: true,
        };
        write_header(&*file, &header, fsync)?;
        if fsync {
            disk.sync_dir(dir)?;
        }
        Ok(DoublewriteBuffer {
            file,
            header,
            fsync,
            reuse_early: false,
            slots,
            ring: Mutex::new(SlotRing {
                head: 0,
                taken: 0,
                sequence: 1,
                batches: VecDeque::new(),
            }),
            finished: Condvar::new(),
            awaited: AtomicU32::new(0),
            sync: Arc::clone(sync),
            full: AtomicU64::new(0),
        })
    }

    /// Sees to it that file `number`, the other one, has its space, of `slots` slots: a start after
    /// a crash uses it, and the disk may be full by then.
    pub(super) fn allocate_other(
        disk: &dyn Disk,
        dir: &Path,
        number: usize,
        slots: u32,
    ) -> StorageResult<()> {
        let file = disk.open(&area_path(dir, number), OpenOptions::create())?;
        let (len, bytes) = (file.len()?, file_size(slots));
        if len == bytes {
            return Ok(());
        }
        if len > bytes {
            file.set_len(bytes)?;
        }
        match file.allocate(0, bytes).and_then(|()| file.sync_all()) {
            Err(error) if error.kind() == IoErrorKind::NoSpace => {
                tracing::warn!(
                    "no space for the second double-write file: a start after a crash needs {} MB",
                    bytes >> 20
                );
                Ok(())
            }
            allocated => Ok(allocated?),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.header.epoch
    }

    /// Most images in a batch, so that a second one can form while the first is under way.
    pub(super) fn max_batch(&self) -> usize {
        (self.slots as usize / 4).saturating_sub(1).max(1)
    }

    /// Whether a lane waits for the other one's batch to be home.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }

    /// Slots for a header and `images` images; syncs home files when the ring is full.
    pub(super) fn take(&self, images: usize) -> StorageResult<BatchSlots> {
        // A batch is at most a quarter of the slots, which are a u32.
        let want = images as u32 + 1;
        let mut ring = self.ring.lock();
        loop {
            ring.reap(self.reuse_early);
            if let Some(slots) = ring.take(want, self.slots) {
                return Ok(slots);
            }
            if ring
                .batches
                .front()
                .is_some_and(|oldest| oldest.homes.is_none())
            {
                // The other lane's batch is still on its way home, and waits for nobody.
                self.awaited.fetch_add(1, Ordering::Relaxed);
                self.finished.wait_for(&mut ring, RECHECK);
                self.awaited.fetch_sub(1, Ordering::Relaxed);
                self.sync.check()?;
                continue;
            }
            let unsynced = ring.unsynced();
            drop(ring);
            self.full.fetch_add(1, Ordering::Relaxed);
            self.sync.sync_segments(&unsynced)?;
            ring = self.ring.lock();
        }
    }

    /// Writes a batch (header and images) into its slots and makes it durable.
    pub(super) fn write(&self, slots: &BatchSlots, batch: &[u8]) -> IoResult<()> {
        debug_assert!(
            slots.first as usize + batch.len() / PAGE_SIZE <= self.slots as usize,
            "a batch beyond the slots that it has taken"
        );
        let offset = (u64::from(slots.first) + 1) * PAGE_SIZE as u64;
        self.file.write_all_at(batch, offset)?;
        if self.fsync {
            self.file.sync_data()
        } else {
            Ok(())
        }
    }

    /// The batch's home writes have completed: its slots are free once these are synced.
    pub(super) fn finish(&self, slots: &BatchSlots, homes: Vec<(Arc<Segment>, u64)>) {
        let mut ring = self.ring.lock();
        let sequence = slots.sequence;
        let batch = ring
            .batches
            .iter_mut()
            .find(|batch| batch.sequence == sequence);
        debug_assert!(
            batch.as_ref().is_some_and(|batch| batch.homes.is_none()),
            "slots were freed before their batch was home"
        );
        if let Some(batch) = batch {
            batch.homes = Some(homes);
        }
        self.finished.notify_all();
    }

    /// Declares the area not needed: every home write is durable.
    pub(super) fn retire(&self) -> IoResult<()> {
        let header = FileHeader {
            active: false,
            ..self.header
        };
        write_header(&*self.file, &header, self.fsync)
    }
}

impl SlotRing {
    /// Frees the slots of the oldest batches whose home files have been synced since.
    fn reap(&mut self, early: bool) {
        while let Some(oldest) = self.batches.front() {
            let Some(homes) = &oldest.homes else { return };
            let mut unsynced = homes.iter().filter(|(home, write)| !home.is_synced(*write));
            if !early && unsynced.next().is_some() {
                return;
            }
            self.taken -= oldest.slots;
            self.batches.pop_front();
        }
    }

    fn take(&mut self, want: u32, slots: u32) -> Option<BatchSlots> {
        let skip = if self.head + want > slots {
            slots - self.head
        } else {
            0
        };
        if self.taken + skip + want > slots {
            return None;
        }
        let first = (self.head + skip) % slots;
        self.head = (first + want) % slots;
        self.taken += skip + want;
        debug_assert!(
            self.batches.iter().map(|batch| batch.slots).sum::<u32>() + skip + want == self.taken,
            "slots are counted that no batch has"
        );
        self.sequence += 1;
        let sequence = self.sequence;
        self.batches.push_back(Taken {
            sequence,
            slots: skip + want,
            homes: None,
        });
        // Each takes at least one slot, which are a u32.
        let live = self.batches.len() as u32;
        Some(BatchSlots {
            sequence,
            live,
            first,
        })
    }

    /// Home files of all batches that are home but not synced.
    fn unsynced(&self) -> Vec<Arc<Segment>> {
        let mut segments: Vec<Arc<Segment>> = Vec::new();
        for (segment, write) in self
            .batches
            .iter()
            .filter_map(|b| b.homes.as_ref())
            .flatten()
        {
            let known = |other: &Arc<Segment>| Arc::ptr_eq(other, segment);
            if !segment.is_synced(*write) && !segments.iter().any(known) {
                segments.push(Arc::clone(segment));
            }
        }
        segments
    }
}

fn file_size(slots: u32) -> u64 {
    (u64::from(slots) + 1) * PAGE_SIZE as u64
}

/// Gives the file `slots` slots and returns how many it has: on a full disk those of before, if
/// they are enough.
fn fit(file: &dyn File, slots: u32) -> StorageResult<u32> {
    let (len, bytes) = (file.len()?, file_size(slots));
    if len > bytes {
        file.set_len(bytes)?;
    }
    if len >= bytes {
        return Ok(slots);
    }
    match fill(file, len, bytes) {
        Ok(()) => Ok(slots),
        Err(error) if error.kind() == IoErrorKind::NoSpace && len >= file_size(LEAST_SLOTS) => {
            file.set_len(len / PAGE_SIZE as u64 * PAGE_SIZE as u64)?;
            // Fewer than `slots`, which are a u32.
            Ok((len / PAGE_SIZE as u64 - 1) as u32)
        }
        Err(error) => Err(error.into()),
    }
}

/// Written, not only allocated: later syncs then carry no metadata.
fn fill(file: &dyn File, from: u64, to: u64) -> IoResult<()> {
    file.allocate(from, to - from)?;
    let zeroes = AlignedBuf::zeroed(CHUNK);
    // Whole pages, as direct I/O needs them.
    let mut at = from / PAGE_SIZE as u64 * PAGE_SIZE as u64;
    while at < to {
        let len = (to - at).min(CHUNK as u64);
        file.write_all_at(&zeroes[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

/// Reads the header of an area file; `None` when there is no such file or no valid header.
pub(super) fn read_header(file: &dyn File) -> IoResult<Option<FileHeader>> {
    let mut page = AlignedBuf::zeroed(PAGE_SIZE);
    match file.read_exact_at(&mut page, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == IoErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    Ok(<&PageBytes>::try_from(&page[..])
        .ok()
        .and_then(FileHeader::decode))
}

pub(super) fn write_header(file: &dyn File, header: &FileHeader, fsync: bool) -> IoResult<()> {
    let mut page = AlignedBuf::zeroed(PAGE_SIZE);
    if let Ok(bytes) = <&mut PageBytes>::try_from(&mut page[..]) {
        header.encode(bytes);
    }
    file.write_all_at(&page, 0)?;
    if fsync { file.sync_data() } else { Ok(()) }
}
