//! A transaction's own changes of the catalog, until its end.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_engine::Transaction;
use parking_lot::Mutex;

use super::state::{CatalogChange, CatalogState};
use super::{Oid, Shared};

/// How many changes there were at a savepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DdlMark(usize);

#[derive(Debug, Default)]
struct Inner {
    changes: Vec<CatalogChange>,
    /// The last view, with the version of the committed state and the number of changes that
    /// it was made of.
    view: Option<(u64, usize, Arc<CatalogState>)>,
}

/// The changes a transaction has made to the catalog. Part of the session's transaction; a
/// handle to it, when cloned.
#[derive(Debug, Clone, Default)]
pub struct DdlLog(Arc<Mutex<Inner>>);

impl DdlLog {
    /// Where it stands, for a savepoint.
    pub fn mark(&self) -> DdlMark {
        DdlMark(self.0.lock().changes.len())
    }

    /// Forgets what came after the mark. The engine's rollback does so by itself; doing it
    /// again changes nothing.
    pub fn rollback_to(&self, mark: DdlMark) {
        let mut inner = self.0.lock();
        inner.changes.truncate(mark.0);
        inner.view = None;
    }

    /// The tables and views that the transaction has defined since the mark.
    pub fn defined_since(&self, mark: DdlMark) -> BTreeSet<Oid> {
        let inner = self.0.lock();
        let changes = inner.changes.iter().skip(mark.0);
        let defined = changes.filter_map(|change| match change {
            CatalogChange::PutTable(table) => Some(table.oid),
            CatalogChange::PutView(view) => Some(view.oid),
            CatalogChange::PutType(info) => Some(info.oid),
            _ => None,
        });
        defined.collect()
    }

    /// Whether the transaction has changed nothing.
    pub fn is_empty(&self) -> bool {
        self.0.lock().changes.is_empty()
    }

    pub(super) fn view(&self, shared: &Shared) -> Arc<CatalogState> {
        let mut inner = self.0.lock();
        let current = Arc::clone(&shared.current.read());
        if inner.changes.is_empty() {
            return current;
        }
        let made_of = (current.version, inner.changes.len());
        if let Some((version, changes, view)) = &inner.view
            && (*version, *changes) == made_of
        {
            return Arc::clone(view);
        }
        let view = Arc::new(current.with(&inner.changes, shared.new_version()));
        inner.view = Some((made_of.0, made_of.1, Arc::clone(&view)));
        view
    }

    /// Records a change: visible to this transaction now, to all when it commits (CAT-3), to nobody
    /// when it rolls back.
    pub(super) fn push(&self, txn: &mut Transaction, shared: &Arc<Shared>, change: CatalogChange) {
        let mark = self.mark();
        self.0.lock().changes.push(change);
        let (log, state) = (self.clone(), Arc::clone(shared));
        txn.on_commit(Box::new(move || log.publish(&state)));
        let log = self.clone();
        txn.on_abort(Box::new(move || log.rollback_to(mark)));
    }

    /// Makes all changes the current state, at once. Each change has a hook that calls this, so
    /// that the rollback of a savepoint can take any of them away; the first does it all.
    fn publish(&self, shared: &Shared) {
        let changes = std::mem::take(&mut self.0.lock().changes);
        if changes.is_empty() {
            return;
        }
        let mut current = shared.current.write();
        *current = Arc::new(current.with(&changes, shared.new_version()));
    }
}
