//! Snapshots, and what they see.

use std::sync::Arc;

use evenkeel_storage::Lsn;

use super::own_xids::OwnXids;
use super::snapshot_registry::{SlotIndex, View};
use super::system::TxnSystem;
use super::xid_state::{Hint, XidState};
use crate::error::{EngineError, EngineResult};
use crate::mutant::Mutant;
use crate::types::{CommandId, Xid, XidStatus};

/// A snapshot's verdict on an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visibility {
    /// The id's changes are visible. Never set for the transaction's own ids.
    pub visible: bool,
    /// The id is the transaction's own: command ids decide.
    pub own: bool,
    /// The id's status as of the snapshot.
    pub status: XidStatus,
    /// The hint that may be put into the tuple now, if it has none.
    pub set: Option<Hint>,
}

/// A consistent state of the database: everything committed up to a log position, and the
/// transaction's own changes before a command. It holds back the removal of what it sees until
/// it is dropped. Clones share that.
#[derive(Clone)]
pub struct Snapshot {
    held: Arc<HeldView>,
    command: CommandId,
}

/// A view announced in a slot.
struct HeldView {
    system: Arc<TxnSystem>,
    own: Arc<OwnXids>,
    slot: SlotIndex,
    view: View,
}

impl Drop for HeldView {
    fn drop(&mut self) {
        self.system.core.slots.release(self.slot);
    }
}

impl Snapshot {
    /// The newest state.
    pub(crate) fn take(
        system: &Arc<TxnSystem>,
        own: &Arc<OwnXids>,
        command: CommandId,
    ) -> EngineResult<Snapshot> {
        let Some(slot) = system.core.slots.take() else {
            let what = "too many snapshots are in use".into();
            return Err(EngineError::LimitExceeded { what });
        };
        let core = &system.core;
        let view = core.slots.announce(slot, || core.publisher.view());
        let held = HeldView {
            system: Arc::clone(system),
            own: Arc::clone(own),
            slot,
            view,
        };
        Ok(Snapshot {
            held: Arc::new(held),
            command,
        })
    }

    /// The newest state, in the same slot; `false` if clones of the old one are in use.
    pub(crate) fn renew(&mut self, command: CommandId) -> bool {
        let Some(held) = Arc::get_mut(&mut self.held) else {
            return false;
        };
        let core = &held.system.core;
        held.view = core.slots.announce(held.slot, || core.publisher.view());
        self.command = command;
        true
    }

    /// The same state, seeing the transaction's own changes before `command`.
    #[must_use]
    pub fn with_command(&self, command: CommandId) -> Snapshot {
        Snapshot {
            held: Arc::clone(&self.held),
            command,
        }
    }

    /// Whether both hold back the removal of the same things.
    pub(crate) fn holds_same(&self, other: &Snapshot) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    /// Commits up to here are visible.
    pub fn lsn(&self) -> Lsn {
        self.held.view.lsn
    }

    /// All ids below are decided for this snapshot: there a hint replaces the look-up. From here
    /// on the hint and the span of the id's chunk do, unless the chunk has commits on both sides
    /// of the snapshot's position.
    pub fn floor(&self) -> Xid {
        self.held.view.floor
    }

    /// Own changes of earlier commands are visible.
    pub fn command(&self) -> CommandId {
        if self.held.system.has(Mutant::SeeOwnCommand) {
            return CommandId(self.command.0.saturating_add(1));
        }
        self.command
    }

    /// The transaction's own ids.
    pub fn own(&self) -> &OwnXids {
        &self.held.own
    }

    /// The command ids (cmin, cmax) that a combo id stands for.
    ///
    /// # Errors
    /// If the transaction never made it: the tuple is damaged.
    pub fn combo(&self, number: CommandId) -> EngineResult<(CommandId, CommandId)> {
        let unknown =
            || EngineError::corrupted(format!("combo command id {} is unknown", number.0));
        self.held.own.combo(number).ok_or_else(unknown)
    }

    /// This snapshot's verdict on `xid`, given the tuple's hint.
    ///
    /// # Errors
    /// If the id's status has to be read and cannot be.
    #[inline]
    pub fn visibility(&self, xid: Xid, hint: Hint) -> EngineResult<Visibility> {
        match self.sight_by_hint(xid, hint) {
            Some(visibility) => Ok(visibility),
            None => self.sight_slow(xid, hint, TxnSystem::known),
        }
    }

    /// [`Snapshot::visibility`] for who has locked a page: it reads none.
    ///
    /// # Errors
    /// `StatusNotInMemory`.
    #[inline]
    pub(crate) fn visibility_in_memory(&self, xid: Xid, hint: Hint) -> EngineResult<Visibility> {
        match self.sight_by_hint(xid, hint) {
            Some(visibility) => Ok(visibility),
            None => self.sight_slow(xid, hint, TxnSystem::known_in_memory),
        }
    }

    #[inline]
    fn sight_by_hint(&self, xid: Xid, hint: Hint) -> Option<Visibility> {
        match hint {
            Hint::Aborted => Some(Visibility::of(XidStatus::Aborted, None)),
            Hint::Committed if xid < self.held.view.floor => {
                Some(Visibility::of(XidStatus::Committed, None))
            }
            Hint::Committed | Hint::None => None,
        }
    }

    fn sight_slow(
        &self,
        xid: Xid,
        hint: Hint,
        known: impl FnOnce(&TxnSystem, Xid) -> EngineResult<XidState>,
    ) -> EngineResult<Visibility> {
        let HeldView {
            system, own, view, ..
        } = &*self.held;
        if xid >= view.floor && own.contains(xid) {
            let status = XidStatus::InProgress;
            return Ok(Visibility {
                visible: false,
                own: true,
                status,
                set: None,
            });
        }
        let mut view = *view;
        if system.has(Mutant::SeeLaterCommits) {
            view.lsn = Lsn::MAX;
        }
        if hint == Hint::Committed
            && let Some(visible) = system.core.window.committed_by(xid, view.lsn)
        {
            let status = match visible {
                true => XidStatus::Committed,
                false => XidStatus::InProgress,
            };
            return Ok(Visibility::of(status, None));
        }
        let known = known(system, xid)?;
        let status = match known {
            XidState::Aborted => XidStatus::Aborted,
            XidState::Older => XidStatus::Committed,
            XidState::Committed(lsn) if lsn <= view.lsn => XidStatus::Committed,
            XidState::Committed(_) | XidState::InProgress => XidStatus::InProgress,
        };
        let set = if hint == Hint::None {
            system.hint(known)
        } else {
            None
        };
        Ok(Visibility::of(status, set))
    }
}

impl Visibility {
    fn of(status: XidStatus, set: Option<Hint>) -> Visibility {
        Visibility {
            visible: status == XidStatus::Committed,
            own: false,
            status,
            set,
        }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("lsn", &self.lsn())
            .field("floor", &self.floor())
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}
