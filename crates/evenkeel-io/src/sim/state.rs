//! The whole state of a simulated disk, and the changes it is made of.
//!
//! The live disk and the replay for crash images change it through the same [`State::apply`],
//! so a replayed state is the live one by construction.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::blocks::Block;
use super::inode::Inode;

/// Identity of a file's content, which may have several names in its life or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ino(pub(crate) u64);

/// The object that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Node {
    File(Ino),
    Dir,
}

/// Paths and what they name. The roots ("" and "/") are always there and not listed.
pub(crate) type Tree = BTreeMap<Arc<Path>, Node>;

/// One mutation, complete: applying it needs nothing but the state.
#[derive(Clone)]
pub(crate) enum Change {
    Create {
        path: Arc<Path>,
        ino: Ino,
    },
    CreateDir {
        path: Arc<Path>,
    },
    Rename {
        from: Arc<Path>,
        to: Arc<Path>,
        node: Node,
    },
    Remove {
        path: Arc<Path>,
    },
    SyncDir {
        dir: Arc<Path>,
    },
    Write {
        ino: Ino,
        blocks: Vec<(u64, Block)>,
        end: u64,
    },
    SetLen {
        ino: Ino,
        len: u64,
    },
    Allocate {
        ino: Ino,
        end: u64,
    },
    Sync {
        ino: Ino,
    },
    FailSync {
        ino: Ino,
    },
    DropCaches,
}

/// An unsynced change of directory entries; its effects survive a crash together or not at all.
#[derive(Clone)]
pub(crate) struct NameOp {
    pub(crate) index: u64,
    pub(crate) effects: Vec<(Arc<Path>, Option<Node>)>,
}

impl NameOp {
    fn is_in(&self, dir: &Path) -> bool {
        self.effects.iter().any(|(path, _)| parent(path) == dir)
    }

    pub(crate) fn apply(&self, tree: &mut Tree) {
        for (path, node) in &self.effects {
            match node {
                Some(node) => tree.insert(Arc::clone(path), *node),
                None => tree.remove(path),
            };
        }
    }
}

/// The directory a path is in; the roots are their own.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Whether the path is one that always exists.
pub(crate) fn is_root(path: &Path) -> bool {
    path.parent().is_none()
}

/// Everything a crash can leave something of. Clones share all content.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// Crashes of the machine so far.
    pub(crate) crashes: u64,
    pub(crate) files: BTreeMap<Ino, Arc<Inode>>,
    /// The directory entries that a process sees.
    pub(crate) names: Arc<Tree>,
    /// The entries that are certain to survive a crash, below directories that do.
    pub(crate) durable: Arc<Tree>,
    pub(crate) pending: Vec<NameOp>,
    pub(crate) next_ino: u64,
}

impl State {
    pub(crate) fn node(&self, path: &Path) -> Option<Node> {
        if is_root(path) {
            Some(Node::Dir)
        } else {
            self.names.get(path).copied()
        }
    }

    pub(crate) fn is_dir(&self, path: &Path) -> bool {
        self.node(path) == Some(Node::Dir)
    }

    pub(crate) fn file(&self, ino: Ino) -> Option<&Inode> {
        self.files.get(&ino).map(|inode| &**inode)
    }

    /// Applies the change with this journal index.
    pub(crate) fn apply(&mut self, index: u64, change: &Change) {
        match change {
            Change::Create { path, ino } => {
                self.files.insert(*ino, Arc::default());
                self.next_ino = self.next_ino.max(ino.0 + 1);
                self.rename_all(index, vec![(Arc::clone(path), Some(Node::File(*ino)))]);
            }
            Change::CreateDir { path } => {
                self.rename_all(index, vec![(Arc::clone(path), Some(Node::Dir))]);
            }
            Change::Rename { from, to, node } => {
                let effects = vec![(Arc::clone(from), None), (Arc::clone(to), Some(*node))];
                self.rename_all(index, effects);
            }
            Change::Remove { path } => {
                self.rename_all(index, vec![(Arc::clone(path), None)]);
            }
            Change::SyncDir { dir } => self.sync_dir(dir),
            Change::Write { ino, blocks, end } => self.with(*ino, |inode| {
                for (number, block) in blocks {
                    inode.put(index, *number, block.clone());
                }
                inode.set_len(index, inode.len.max(*end));
            }),
            Change::SetLen { ino, len } => self.with(*ino, |inode| inode.set_len(index, *len)),
            Change::Allocate { ino, end } => {
                self.with(*ino, |inode| inode.set_len(index, inode.len.max(*end)));
            }
            Change::Sync { ino } => self.with(*ino, Inode::sync),
            Change::FailSync { ino } => self.with(*ino, Inode::fail_sync),
            Change::DropCaches => {
                let dirty = self.files.values_mut().filter(|inode| !inode.is_clean());
                dirty.for_each(|inode| Arc::make_mut(inode).drop_cache());
            }
        }
    }

    fn with(&mut self, ino: Ino, change: impl FnOnce(&mut Inode)) {
        if let Some(inode) = self.files.get_mut(&ino) {
            change(Arc::make_mut(inode));
        }
    }

    fn rename_all(&mut self, index: u64, effects: Vec<(Arc<Path>, Option<Node>)>) {
        let op = NameOp { index, effects };
        op.apply(Arc::make_mut(&mut self.names));
        self.pending.push(op);
    }

    /// Makes every change durable that touches the directory, a rename with both its ends. No
    /// change left pending then names this directory, so the order of changes is kept.
    fn sync_dir(&mut self, dir: &Path) {
        let (synced, left) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition::<Vec<_>, _>(|op| op.is_in(dir));
        self.pending = left;
        if !synced.is_empty() {
            let durable = Arc::make_mut(&mut self.durable);
            synced.iter().for_each(|op| op.apply(durable));
        }
    }
}
