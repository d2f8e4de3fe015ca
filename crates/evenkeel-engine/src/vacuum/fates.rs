//! What became of the transactions that a vacuum or a sample meets.

use std::collections::HashMap;

use crate::database::Database;
use crate::error::{EngineError, EngineResult};
use crate::heap::prune::{Fate, Fates};
use crate::txn::{Hint, Horizon};
use crate::types::Xid;

/// Fates as seen from one horizon. Asked under a page lock, they never read a page: what is not
/// in memory is fetched between two tries, and remembered.
pub(crate) struct VacuumFates<'a> {
    db: &'a Database,
    horizon: &'a Horizon,
    /// Neighbours often have the same inserter.
    last: Option<(Xid, Hint, Fate)>,
    fetched: HashMap<Xid, Fate>,
}

impl<'a> VacuumFates<'a> {
    pub(crate) fn new(db: &'a Database, horizon: &'a Horizon) -> VacuumFates<'a> {
        VacuumFates {
            db,
            horizon,
            last: None,
            fetched: HashMap::new(),
        }
    }

    /// Runs `attempt`, which asks under page locks, again for every status page that it missed.
    pub(crate) fn retry<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> EngineResult<T>,
    ) -> EngineResult<T> {
        loop {
            match attempt(self) {
                Err(EngineError::StatusNotInMemory { xid }) => {
                    let fate = self.db.removal(self.horizon, xid, Hint::None)?.0.into();
                    self.fetched.insert(xid, fate);
                }
                result => return result,
            }
        }
    }
}

impl Fates for VacuumFates<'_> {
    fn fate(&mut self, xid: Xid, hint: Hint) -> EngineResult<Fate> {
        if let Some((last, with, fate)) = self.last
            && last == xid
            && with == hint
        {
            return Ok(fate);
        }
        let fate = match self.db.removal_in_memory(self.horizon, xid, hint) {
            Err(EngineError::StatusNotInMemory { xid }) if self.fetched.contains_key(&xid) => {
                self.fetched[&xid]
            }
            removal => removal?.into(),
        };
        self.last = Some((xid, hint, fate));
        Ok(fate)
    }
}
