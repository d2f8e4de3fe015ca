//! Compiled statements by text, shared by all sessions.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::compile::Compiled;

/// Inputs of a compiled statement besides the catalog.
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

struct Entry {
    compiled: Arc<Compiled>,
    catalog_version: u64,
    used: AtomicU64,
    bytes: usize,
}

/// A bounded map, by number of statements and by memory; the least recently used quarter goes when
/// it is full. A statement is kept when it comes for the second time: most that are run once are
/// not run again, and some are megabytes of literals (PLAN-9).
pub struct PlanCache {
    shards: Vec<RwLock<Shard>>,
    hasher: RandomState,
    statements_per_shard: usize,
    bytes_per_shard: usize,
    clock: AtomicU64,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<CacheKey, Entry>,
    bytes: usize,
    /// Hashes of the statements that came for the first time lately.
    seen: VecDeque<u64>,
}

const SHARDS: usize = 16;
/// Statements of a shard that a second one is looked for among.
const SEEN: usize = 256;

/// The memory of a compiled statement, about: a short literal becomes a value of many times its
/// length.
pub fn compiled_bytes(text: &str) -> usize {
    (4 << 10) + 16 * text.len()
}

/// The memory that parsing and planning a text takes, about; 0 for a text so short that it does
/// not matter. A literal is copied a few times; a token costs what a token and its expression are,
/// however short it is.
pub fn planning_bytes(text: &str) -> usize {
    const MATTERS: usize = 64 << 10;
    const COPIES: usize = 4;
    const TOKEN_BYTES: usize = 200;
    if text.len() < MATTERS {
        return 0;
    }
    let mut tokens = 0;
    let mut quoted = false;
    for byte in text.bytes() {
        match byte {
            b'\'' => quoted = !quoted,
            _ if quoted => {}
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {}
            _ => tokens += 1,
        }
    }
    text.len() * COPIES + tokens * TOKEN_BYTES
}

impl PlanCache {
    /// A cache of about `statements` in `bytes`.
    pub fn new(statements: usize, bytes: usize) -> PlanCache {
        PlanCache {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
            statements_per_shard: (statements / SHARDS).max(4),
            bytes_per_shard: bytes / SHARDS,
            clock: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: &CacheKey) -> (&RwLock<Shard>, u64) {
        let hash = self.hasher.hash_one(key);
        (&self.shards[hash as usize % SHARDS], hash)
    }

    /// The statement of `key` under this catalog version.
    pub fn get(&self, key: &CacheKey, catalog_version: u64) -> Option<Arc<Compiled>> {
        let shard = self.shard(key).0.read();
        let entry = shard
            .entries
            .get(key)
            .filter(|entry| entry.catalog_version == catalog_version)?;
        entry.used.store(
            self.clock.fetch_add(1, Ordering::Relaxed),
            Ordering::Relaxed,
        );
        Some(Arc::clone(&entry.compiled))
    }

    /// Keeps the statement of `key` under this catalog version, if it comes for the second time;
    /// `bytes` is its memory.
    pub fn put(&self, key: CacheKey, catalog_version: u64, compiled: Arc<Compiled>, bytes: usize) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let (shard, hash) = self.shard(&key);
        let mut shard = shard.write();
        let replaced = shard.entries.remove(&key);
        shard.bytes -= replaced.as_ref().map_or(0, |entry| entry.bytes);
        let admitted = replaced.is_some() || shard.was_seen(hash);
        let mut evicted = Vec::new();
        if admitted && bytes <= self.bytes_per_shard {
            while shard.entries.len() >= self.statements_per_shard
                || shard.bytes + bytes > self.bytes_per_shard
            {
                shard.evict(&mut evicted);
            }
            shard.bytes += bytes;
            let entry = Entry {
                compiled,
                catalog_version,
                used: AtomicU64::new(now),
                bytes,
            };
            shard.entries.insert(key, entry);
        }
        // Plans are large, and are not dropped under the lock.
        drop(shard);
        drop((replaced, evicted));
    }
}

impl Shard {
    /// Whether the statement came before; remembers it if not.
    fn was_seen(&mut self, hash: u64) -> bool {
        if let Some(at) = self.seen.iter().position(|seen| *seen == hash) {
            self.seen.remove(at);
            return true;
        }
        if self.seen.len() == SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(hash);
        false
    }

    /// Takes the least recently used quarter out, one statement at least.
    fn evict(&mut self, evicted: &mut Vec<Entry>) {
        let used = |entry: &Entry| entry.used.load(Ordering::Relaxed);
        let mut ages: Vec<u64> = self.entries.values().map(used).collect();
        ages.sort_unstable();
        let Some(limit) = ages.get(ages.len() / 4) else {
            return;
        };
        for (_, entry) in self.entries.extract_if(|_, entry| used(entry) <= *limit) {
            self.bytes -= entry.bytes;
            evicted.push(entry);
        }
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

    fn put_twice(cache: &PlanCache, text: &str, bytes: usize) {
        for _ in 0..2 {
            cache.put(key(text), 1, Arc::new(Compiled::empty()), bytes);
        }
    }

    fn kept(cache: &PlanCache) -> (usize, usize) {
        let shards = cache.shards.iter().map(RwLock::read);
        shards.fold((0, 0), |(count, bytes), shard| {
            let sum: usize = shard.entries.values().map(|entry| entry.bytes).sum();
            assert_eq!(sum, shard.bytes);
            (count + shard.entries.len(), bytes + shard.bytes)
        })
    }

    #[test]
    fn entries_of_another_catalog_version_are_not_found() {
        let cache = PlanCache::new(64, 1 << 20);
        put_twice(&cache, "a", 100);
        assert!(cache.get(&key("a"), 1).is_some());
        assert!(cache.get(&key("a"), 2).is_none());
        assert!(cache.get(&key("b"), 1).is_none());
        // It is known, and replaced at once.
        cache.put(key("a"), 2, Arc::new(Compiled::empty()), 100);
        assert!(cache.get(&key("a"), 2).is_some());
        assert_eq!(kept(&cache), (1, 100));
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = PlanCache::new(64, 1 << 20);
        for number in 0..10_000 {
            put_twice(&cache, &number.to_string(), 100);
        }
        assert!(kept(&cache).0 <= 64, "{:?}", kept(&cache));
        assert!(cache.get(&key("9999"), 1).is_some());
        let cache = PlanCache::new(10_000, 1 << 20);
        for number in 0..10_000 {
            put_twice(&cache, &number.to_string(), 10 << 10);
        }
        let (count, bytes) = kept(&cache);
        assert!(count > 30 && bytes <= 1 << 20, "{count} {bytes}");
        // One that alone is too large is not kept, and drives no other out.
        put_twice(&cache, "large", 1 << 20);
        assert_eq!(kept(&cache), (count, bytes));
    }

    #[test]
    fn a_statement_is_kept_when_it_comes_for_the_second_time() {
        let cache = PlanCache::new(1024, 64 << 20);
        for number in 0..1024 {
            let statement = key(&number.to_string());
            cache.put(statement, 1, Arc::new(Compiled::empty()), 100);
        }
        assert_eq!(kept(&cache), (0, 0));
        cache.put(key("1023"), 1, Arc::new(Compiled::empty()), 100);
        assert!(cache.get(&key("1023"), 1).is_some());
    }

    #[test]
    fn planning_costs_by_tokens_and_by_length() {
        assert_eq!(planning_bytes("SELECT 1"), 0);
        let literal = format!("SELECT '{}'", "x".repeat(1 << 20));
        let list = format!("SELECT 1{}", ",1".repeat(1 << 19));
        assert!(planning_bytes(&literal) < 5 << 20);
        assert!(planning_bytes(&list) > 100 << 20);
    }
}
