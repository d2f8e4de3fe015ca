//! Fates of transactions as seen from one horizon, for a vacuum or a sample of many pages.

use std::collections::HashMap;

use super::prune::{Fate, Fates};
use crate::error::{EngineError, EngineResult};
use crate::txn::system::TxnSystem;
use crate::txn::{Hint, Horizon};
use crate::types::Xid;

/// Fates as seen from one horizon. Asked under a page lock, they never read a page: a status that
/// is not in memory is fetched between two tries, and remembered (VAC-7).
pub(crate) struct HorizonFates<'a> {
    system: &'a TxnSystem,
    horizon: &'a Horizon,
    /// Neighbours often have the same inserter.
    last: Option<(Xid, Hint, Fate)>,
    fetched: HashMap<Xid, Fate>,
}

impl<'a> HorizonFates<'a> {
    pub(crate) fn new(system: &'a TxnSystem, horizon: &'a Horizon) -> HorizonFates<'a> {
        HorizonFates {
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
                    let fate = self.system.removal(self.horizon, xid, Hint::None)?.0.into();
                    self.fetched.insert(xid, fate);
                }
                result => return result,
            }
        }
    }
}

impl Fates for HorizonFates<'_> {
    fn fate(&mut self, xid: Xid, hint: Hint) -> EngineResult<Fate> {
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
            removal => removal?.into(),
        };
        self.last = Some((xid, hint, fate));
        Ok(fate)
    }
}
