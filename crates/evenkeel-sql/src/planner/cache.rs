//! Compiled statements by text, shared by all sessions.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::compile::Compiled;

/// What a compiled statement depends on besides the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The text.
    pub text: Arc<str>,
    /// The types the client gave its parameters, as oids.
    pub params: Arc<[u32]>,
    /// A number for search path, role and the settings that binding looks at: equal numbers,
    /// equal settings.
    pub environment: u64,
}

/// What is known of a text.
#[derive(Debug, Clone)]
pub enum Cached {
    /// Compiled under some catalog version.
    Ready(Arc<Compiled>),
    /// With its literals as parameters the text is not for the compiled executor.
    NotNormalisable,
}

struct Entry {
    cached: Cached,
    catalog_version: u64,
    used: AtomicU64,
}

/// A bounded map; the least recently used quarter goes when it is full.
pub struct PlanCache {
    shards: Vec<RwLock<HashMap<CacheKey, Entry>>>,
    hasher: RandomState,
    capacity_per_shard: usize,
    clock: AtomicU64,
}

const SHARDS: usize = 16;

impl PlanCache {
    /// A cache of about `capacity` statements.
    pub fn new(capacity: usize) -> PlanCache {
        PlanCache {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
            capacity_per_shard: (capacity / SHARDS).max(4),
            clock: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: &CacheKey) -> &RwLock<HashMap<CacheKey, Entry>> {
        let hash = self.hasher.hash_one(key) as usize;
        &self.shards[hash % SHARDS]
    }

    /// What is known of `key` under this catalog version.
    pub fn get(&self, key: &CacheKey, catalog_version: u64) -> Option<Cached> {
        let shard = self.shard(key).read();
        let entry = shard
            .get(key)
            .filter(|entry| entry.catalog_version == catalog_version)?;
        entry.used.store(
            self.clock.fetch_add(1, Ordering::Relaxed),
            Ordering::Relaxed,
        );
        Some(entry.cached.clone())
    }

    /// Keeps what was found out about `key` under this catalog version.
    pub fn put(&self, key: CacheKey, catalog_version: u64, cached: Cached) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut shard = self.shard(&key).write();
        if shard.len() >= self.capacity_per_shard && !shard.contains_key(&key) {
            let mut ages: Vec<u64> = shard
                .values()
                .map(|entry| entry.used.load(Ordering::Relaxed))
                .collect();
            ages.sort_unstable();
            let limit = ages[ages.len() / 4];
            shard.retain(|_, entry| entry.used.load(Ordering::Relaxed) > limit);
        }
        shard.insert(
            key,
            Entry {
                cached,
                catalog_version,
                used: AtomicU64::new(now),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> CacheKey {
        CacheKey {
            text: text.into(),
            params: Arc::from([]),
            environment: 0,
        }
    }

    #[test]
    fn entries_of_another_catalog_version_are_not_found() {
        let cache = PlanCache::new(64);
        cache.put(key("a"), 1, Cached::NotNormalisable);
        assert!(cache.get(&key("a"), 1).is_some());
        assert!(cache.get(&key("a"), 2).is_none());
        assert!(cache.get(&key("b"), 1).is_none());
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = PlanCache::new(64);
        for number in 0..10_000 {
            cache.put(key(&number.to_string()), 1, Cached::NotNormalisable);
        }
        let kept: usize = cache.shards.iter().map(|shard| shard.read().len()).sum();
        assert!(kept <= 64, "{kept}");
        assert!(cache.get(&key("9999"), 1).is_some());
    }
}
