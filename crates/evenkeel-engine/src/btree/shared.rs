//! In-memory state of an index file, one per file however often it is opened.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use evenkeel_storage::buffer::ForkHandle;
use evenkeel_storage::{BlockNumber, FileId, Fork, Lsn, Store};
use parking_lot::{Mutex, MutexGuard};

use super::alloc::FreeBlocks;
use super::key::Position;
use super::page::Meta;
use crate::error::EngineResult;

/// How many locks the keys of a unique index share.
const VALUE_LOCKS: usize = 64;

/// A mutex with a cache line to itself.
#[repr(align(64))]
struct ValueLock(Mutex<()>);

/// State that all handles of one index file share. None of it is needed for correctness except
/// the value locks and the number of the running vacuum.
pub(super) struct Shared {
    pub store: Arc<Store>,
    pub fork: Arc<ForkHandle>,
    pub file: FileId,
    /// The root as last seen: block in the high half, level in the low; 0 is unknown.
    root: AtomicU64,
    /// The rightmost leaf as last seen; 0 is unknown.
    rightmost: AtomicU32,
    /// The first bytes of its first key, when it was seen.
    rightmost_from: AtomicU64,
    /// Pages to be used next.
    pub free: Mutex<FreeBlocks>,
    /// The running vacuum, or 0. Splits write it into both halves.
    pub vacuum_cycle: AtomicU64,
    /// Held by the running vacuum.
    pub vacuum: Mutex<()>,
    /// No entry was hinted dead whose row a commit behind this position removed.
    hinted_upto: AtomicU64,
    values: [ValueLock; VALUE_LOCKS],
    /// Of how many splits one is left for a later visitor to finish; 0 is none.
    #[cfg(test)]
    pub unfinished_every: AtomicU32,
}

type Registry = HashMap<(usize, FileId), Weak<Shared>>;

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

/// Numbers vacuums; a number that a page kept from another run of the program does no harm.
static CYCLES: AtomicU64 = AtomicU64::new(1);

impl Shared {
    /// The state of `file`, made if no handle has it open.
    pub fn attach(store: &Arc<Store>, file: FileId) -> EngineResult<Arc<Shared>> {
        let fork = store.pool().fork(file, Fork::Main)?;
        // The store's address is its identity: a live entry keeps the store alive.
        let key = (Arc::as_ptr(store).addr(), file);
        let mut registry = REGISTRY.lock();
        if let Some(shared) = registry.get(&key).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        if registry.len() >= 2 * registry.values().filter(|s| s.strong_count() > 0).count() + 64 {
            registry.retain(|_, shared| shared.strong_count() > 0);
        }
        let shared = Arc::new(Shared {
            store: Arc::clone(store),
            fork,
            file,
            root: AtomicU64::new(0),
            rightmost: AtomicU32::new(0),
            rightmost_from: AtomicU64::new(0),
            free: Mutex::default(),
            vacuum_cycle: AtomicU64::new(0),
            vacuum: Mutex::default(),
            // Hints that pages have got before.
            hinted_upto: AtomicU64::new(store.removal_bound().0),
            values: std::array::from_fn(|_| ValueLock(Mutex::new(()))),
            #[cfg(test)]
            unfinished_every: AtomicU32::new(0),
        });
        registry.insert(key, Arc::downgrade(&shared));
        Ok(shared)
    }

    /// Locks out other inserts of this key that check for duplicates (BT-5).
    pub fn lock_value(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut hash = key.len() as u64;
        for chunk in key.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
        }
        self.values[(hash >> 32) as usize % VALUE_LOCKS].0.lock()
    }

    /// The root as last seen.
    pub fn cached_root(&self) -> Option<Meta> {
        let root = self.root.load(Ordering::Relaxed);
        (root != 0).then_some(Meta {
            root: BlockNumber((root >> 32) as u32),
            level: root as u16,
        })
    }

    /// Notes the root.
    pub fn cache_root(&self, root: Option<Meta>) {
        let word = root.map_or(0, |meta| {
            u64::from(meta.root.0) << 32 | u64::from(meta.level)
        });
        self.root.store(word, Ordering::Relaxed);
    }

    /// The rightmost leaf as last seen, if `position` may lie there.
    pub fn cached_rightmost(&self, position: &Position<'_>) -> Option<BlockNumber> {
        let block = self.rightmost.load(Ordering::Relaxed);
        let from = self.rightmost_from.load(Ordering::Relaxed);
        (block != 0 && position.head() >= from).then_some(BlockNumber(block))
    }

    /// Notes the rightmost leaf and the place of its first entry.
    pub fn cache_rightmost(&self, block: BlockNumber, first: &Position<'_>) {
        if self.rightmost.load(Ordering::Relaxed) != block.0 {
            self.rightmost.store(block.0, Ordering::Relaxed);
            self.rightmost_from.store(first.head(), Ordering::Relaxed);
        }
    }

    /// Forgets the rightmost leaf.
    pub fn forget_rightmost(&self) {
        self.rightmost.store(0, Ordering::Relaxed);
    }

    /// No entry was hinted dead whose row a commit behind this position removed.
    pub fn hinted_upto(&self) -> Lsn {
        Lsn(self.hinted_upto.load(Ordering::Acquire))
    }

    /// Entries are about to be hinted dead.
    pub fn will_hint(&self) {
        let bound = self.store.removal_bound();
        self.hinted_upto.fetch_max(bound.0, Ordering::AcqRel);
    }

    #[cfg(test)]
    pub fn leaves_split_unfinished(&self) -> bool {
        static SPLITS: AtomicU32 = AtomicU32::new(0);
        let every = self.unfinished_every.load(Ordering::Relaxed);
        every != 0 && SPLITS.fetch_add(1, Ordering::Relaxed).is_multiple_of(every)
    }

    /// A number for a vacuum that begins.
    pub fn next_cycle() -> u64 {
        CYCLES.fetch_add(1, Ordering::Relaxed)
    }
}
