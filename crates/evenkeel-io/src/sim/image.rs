//! Crash images: which of the possible disks a power failure leaves.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::blocks::{BLOCK, Block, block_of, bytes_of, same};
use super::inode::{Inode, Pending};
use super::rng::{Rng, mix};
use super::state::{Node, State, Tree, is_root, parent};

/// Which unsynced changes survive a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing that was not synced.
    Nothing,
    /// Everything.
    Everything,
    /// All up to some operation, nothing after it.
    Prefix,
    /// Some operations, each whole, in no order.
    Operations,
    /// Each block of 4096 bytes, each length and each directory entry by itself: a write of
    /// several blocks tears.
    Torn4096,
    /// Each sector of 512 bytes by itself.
    Torn512,
    /// Each aligned 8192 bytes by themselves: what a device leaves that writes so much
    /// atomically, and no other.
    Torn8192,
    /// One of the above, by the seed.
    Mixed,
}

impl Outcome {
    /// Every outcome of an ordinary device but [`Outcome::Mixed`].
    pub const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Everything,
        Self::Prefix,
        Self::Operations,
        Self::Torn4096,
        Self::Torn512,
    ];
}

/// Decides, by seed, what survives.
struct Chooser {
    outcome: Outcome,
    rng: Rng,
    /// Salt by which whole operations survive, the same in every file they touch.
    salt: u64,
    /// How many of eight survive, where each is decided by itself.
    eighths: u64,
    /// The last journal index that survives, for `Prefix`.
    last: u64,
}

impl Chooser {
    fn new(state: &State, outcome: Outcome, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let outcome = match outcome {
            Outcome::Mixed => Outcome::ALL[rng.index(Outcome::ALL.len())],
            other => other,
        };
        let salt = rng.next_u64();
        let eighths = [1, 4, 7][rng.index(3)];
        let mut last = 0;
        if outcome == Outcome::Prefix {
            let mut places = unsynced_operations(state);
            places.push(0);
            last = places[rng.index(places.len())];
        }
        Self {
            outcome,
            rng,
            salt,
            eighths,
            last,
        }
    }

    /// Whether the operation with this index survives, where operations are decided whole.
    fn survives(&self, index: u64) -> bool {
        match self.outcome {
            Outcome::Prefix => index <= self.last,
            _ => mix(self.salt ^ index) % 8 < self.eighths,
        }
    }

    /// One of a history's versions, or `None` for what is durable.
    fn version<'a, T>(&mut self, versions: &'a [(u64, T)]) -> Option<&'a T> {
        let chosen = match self.outcome {
            Outcome::Nothing => None,
            Outcome::Everything => versions.last(),
            Outcome::Prefix | Outcome::Operations => versions
                .iter()
                .rev()
                .find(|(index, _)| self.survives(*index)),
            Outcome::Torn8192 | Outcome::Torn4096 | Outcome::Torn512 | Outcome::Mixed => {
                if !self.rng.chance(self.eighths) {
                    None
                } else if self.rng.chance(4) {
                    versions.last()
                } else {
                    versions.get(self.rng.index(versions.len()))
                }
            }
        };
        chosen.map(|(_, version)| version)
    }

    fn block(&mut self, pending: &Pending) -> Block {
        let whole = self.outcome != Outcome::Torn512
            || pending
                .versions
                .iter()
                .all(|(_, block)| same(block, &pending.durable));
        if whole {
            return self
                .version(&pending.versions)
                .unwrap_or(&pending.durable)
                .clone();
        }
        let mut bytes = [0; BLOCK];
        for start in (0..BLOCK).step_by(SECTOR) {
            let source = self.version(&pending.versions).unwrap_or(&pending.durable);
            let sector = start..start + SECTOR;
            bytes[sector.clone()].copy_from_slice(&bytes_of(source)[sector]);
        }
        block_of(&bytes)
    }

    /// Index of the last operation that survives in two adjacent blocks.
    fn last_of_pair(&mut self, inode: &Inode, pair: u64) -> u64 {
        let blocks = [2 * pair, 2 * pair + 1].into_iter();
        let pending = blocks.filter_map(|number| inode.pending.get(&number));
        let versions = pending.flat_map(|pending| &pending.versions);
        let mut operations: Vec<_> = versions.map(|(index, _)| (*index, *index)).collect();
        operations.sort_unstable();
        self.version(&operations).copied().unwrap_or(0)
    }

    fn file(&mut self, inode: &Arc<Inode>) -> Arc<Inode> {
        if inode.is_clean() {
            return Arc::clone(inode);
        }
        let mut blocks = inode.blocks.clone();
        for (number, block) in &inode.stale {
            blocks.set(*number, block.clone());
        }
        let mut pair = None;
        for (number, pending) in &inode.pending {
            let block = if self.outcome == Outcome::Torn8192 {
                let last = match pair {
                    Some((of, last)) if of == number / 2 => last,
                    _ => self.last_of_pair(inode, number / 2),
                };
                pair = Some((number / 2, last));
                let versions = pending.versions.iter().rev();
                let mut before = versions.skip_while(|(index, _)| *index > last);
                before
                    .next()
                    .map_or(&pending.durable, |(_, block)| block)
                    .clone()
            } else {
                self.block(pending)
            };
            if !same(&block, blocks.get(*number)) {
                blocks.set(*number, block);
            }
        }
        let len = self
            .version(&inode.pending_lens)
            .copied()
            .unwrap_or(inode.durable_len);
        blocks.cut(len);
        Arc::new(Inode {
            blocks,
            len,
            durable_len: len,
            ..Inode::default()
        })
    }

    fn names(&mut self, state: &State) -> Arc<Tree> {
        let mut names = Arc::clone(&state.durable);
        for op in &state.pending {
            if self.version(&[(op.index, ())]).is_some() {
                op.apply(Arc::make_mut(&mut names));
            }
        }
        reachable(&names)
    }
}

const SECTOR: usize = 512;

/// Journal indexes of all operations that have left something unsynced, in order.
fn unsynced_operations(state: &State) -> Vec<u64> {
    let mut indexes: Vec<u64> = state.pending.iter().map(|op| op.index).collect();
    for inode in state.files.values().filter(|inode| !inode.is_clean()) {
        indexes.extend(inode.pending_lens.iter().map(|(index, _)| index));
        let versions = inode.pending.values().flat_map(|pending| &pending.versions);
        indexes.extend(versions.map(|(index, _)| index));
    }
    indexes.sort_unstable();
    indexes.dedup();
    indexes
}

/// Entries whose directories all exist: a lost directory takes what is in it along.
fn reachable(names: &Arc<Tree>) -> Arc<Tree> {
    let in_tree = |tree: &Tree, dir: &Path| is_root(dir) || tree.get(dir) == Some(&Node::Dir);
    if names.keys().all(|path| in_tree(names, parent(path))) {
        return Arc::clone(names);
    }
    let mut kept = Tree::new();
    for (path, node) in &**names {
        // Ancestors sort before their descendants.
        if in_tree(&kept, parent(path)) {
            kept.insert(Arc::clone(path), *node);
        }
    }
    Arc::new(kept)
}

/// One possible disk after a power failure in this state.
pub(crate) fn crash(state: &State, outcome: Outcome, seed: u64) -> State {
    let mut chooser = Chooser::new(state, outcome, seed);
    let names = chooser.names(state);
    let mut files = BTreeMap::new();
    for node in names.values() {
        if let Node::File(ino) = node
            && let Some(inode) = state.files.get(ino)
        {
            files.entry(*ino).or_insert_with(|| chooser.file(inode));
        }
    }
    State {
        crashes: state.crashes + 1,
        files,
        durable: Arc::clone(&names),
        names,
        pending: Vec::new(),
        next_ino: state.next_ino,
    }
}
