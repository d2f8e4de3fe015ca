//! Fates of transactions as seen from one horizon, for a vacuum or a sample of many pages.

use std::collections::HashMap;

use super::prune::XidsAtHorizon;
use crate::error::{EngineError, EngineResult};
use crate::txn::system::TxnSystem;
use crate::txn::{Hint, Horizon, XidAtHorizon};
use crate::types::Xid;

/// Fates as seen from one horizon. Asked under a page lock, they never read a page: a status that
/// is not in memory is fetched between two tries, and remembered (VAC-7).
pub(crate) struct HorizonXids<'a> {
    system: &'a TxnSystem,
    horizon: &'a Horizon,
    /// Neighbours often have the same inserter.
    last: Option<(Xid, Hint, XidAtHorizon)>,
    fetched: HashMap<Xid, XidAtHorizon>,
}

impl<'a> HorizonXids<'a> {
    pub(crate) fn new(system: &'a TxnSystem, horizon: &'a Horizon) -> HorizonXids<'a> {
        HorizonXids {
            system,
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
                    let fate = self.system.removal(self.horizon, xid, Hint::None)?.0;
                    self.fetched.insert(xid, fate);
                }
                result => return result,
            }
        }
    }
}

impl XidsAtHorizon for HorizonXids<'_> {
    fn fate(&mut self, xid: Xid, hint: Hint) -> EngineResult<XidAtHorizon> {
        if let Some((last, with, fate)) = self.last
            && last == xid
            && with == hint
        {
            return Ok(fate);
        }
        let fate = match self.system.removal_in_memory(self.horizon, xid, hint) {
            Err(EngineError::StatusNotInMemory { xid }) if self.fetched.contains_key(&xid) => {
                self.fetched[&xid]
            }
            removal => removal?,
        };
        self.last = Some((xid, hint, fate));
        Ok(fate)
    }
}
