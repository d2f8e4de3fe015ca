//! Visibility of a page's tuples to a snapshot, and the hint bits learnt on the way.

use evenkeel_storage::buffer::ReadGuard;
use smallvec::SmallVec;

use super::layout::*;
use super::prune::{xmax_hint, xmin_hint};
use crate::error::EngineResult;
use crate::txn::{Hint, Snapshot, Visibility};
use crate::types::{CommandId, Xid};

/// Judges tuples for one snapshot.
pub struct VisibilityChecker<'a> {
    snapshot: &'a Snapshot,
    floor: Xid,
    command: CommandId,
    last: Option<(Xid, Hint, Visibility)>,
    /// Facts learnt about the page being visited: header word, bits.
    hints: SmallVec<[(usize, u64); 16]>,
}

impl<'a> VisibilityChecker<'a> {
    /// A judge with `snapshot`'s view.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        VisibilityChecker {
            snapshot,
            floor: snapshot.floor(),
            command: snapshot.command(),
            last: None,
            hints: SmallVec::new(),
        }
    }

    /// Whether the snapshot sees the tuple whose header, at `offset`, is `header`.
    ///
    /// # Errors
    /// `StatusNotInMemory`: the page is let go of, the status read, and the page visited again,
    /// by who called ([`VisibilityChecker::start_again`]).
    pub fn sees(&mut self, offset: usize, header: &TupleHeader) -> EngineResult<bool> {
        Ok(self.inserted(offset, header)? && !self.deleted(offset, header)?)
    }

    fn inserted(&mut self, offset: usize, header: &TupleHeader) -> EngineResult<bool> {
        if header.frozen() {
            return Ok(true);
        }
        let hint = xmin_hint(header);
        match hint {
            Hint::Aborted => return Ok(false),
            Hint::Committed if header.xmin < self.floor => return Ok(true),
            _ => {}
        }
        let visibility = self.look(header.xmin, hint)?;
        if visibility.own {
            return Ok(self.commands(header)?.0 < self.command);
        }
        self.learn(offset, hint, &visibility, XMIN_COMMITTED, XMIN_ABORTED);
        Ok(visibility.visible)
    }

    fn deleted(&mut self, offset: usize, header: &TupleHeader) -> EngineResult<bool> {
        if !header.xmax.is_some() {
            return Ok(false);
        }
        let hint = xmax_hint(header);
        match hint {
            Hint::Aborted => return Ok(false),
            Hint::Committed if header.xmax < self.floor => return Ok(true),
            _ => {}
        }
        let visibility = self.look(header.xmax, hint)?;
        if visibility.own {
            return Ok(self.commands(header)?.1 < self.command);
        }
        self.learn(offset + 8, hint, &visibility, XMAX_COMMITTED, XMAX_ABORTED);
        Ok(visibility.visible)
    }

    /// The inserting and the deleting command of an own tuple.
    fn commands(&self, header: &TupleHeader) -> EngineResult<(CommandId, CommandId)> {
        let cid = CommandId(header.cid);
        if header.is(COMBO_CID) {
            self.snapshot.combo(cid)
        } else {
            Ok((cid, cid))
        }
    }

    /// A look-up; the last one is remembered, as neighbours often have the same inserter.
    fn look(&mut self, xid: Xid, hint: Hint) -> EngineResult<Visibility> {
        if let Some((last, with, visibility)) = self.last
            && last == xid
            && with == hint
        {
            return Ok(visibility);
        }
        let visibility = self.snapshot.visibility_in_memory(xid, hint)?;
        self.last = Some((xid, hint, visibility));
        Ok(visibility)
    }

    fn learn(
        &mut self,
        word: usize,
        had: Hint,
        visibility: &Visibility,
        committed: u16,
        aborted: u16,
    ) {
        let bits = match (had, visibility.set) {
            (Hint::None, Some(Hint::Committed)) => committed,
            (Hint::None, Some(Hint::Aborted)) => aborted,
            _ => return,
        };
        self.hints.push((word, mask_word(bits)));
    }

    /// The visit of a page did not come to its end: what was learnt of it is forgotten.
    pub fn start_again(&mut self) {
        self.hints.clear();
    }

    /// Sets what was learnt, if the page lock can be had for it at once.
    pub fn apply_hints(&mut self, guard: &mut ReadGuard<'_>) {
        if self.hints.is_empty() {
            return;
        }
        if let Some(mut hints) = guard.try_hint() {
            for &(word, bits) in &self.hints {
                hints.or_u64(word, bits);
            }
        }
        self.hints.clear();
    }
}
