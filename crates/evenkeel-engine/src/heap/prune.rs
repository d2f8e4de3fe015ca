//! Pruning: which line pointers of a page change, and moving its tuples together.
//!
//! A *plan* is made from the page and from what is known of its transactions; the plan travels
//! in the log record and redo carries it out without asking anybody (HEAP-3).

use evenkeel_storage::page::PageRead;

use super::layout::*;
use super::ops::{CLEAR_XMAX, COMPACT, FREEZE_XMIN, Prune, SET_VISIBLE};
use smallvec::{SmallVec, smallvec};

use crate::error::EngineResult;
use crate::txn::{Hint, XidAtHorizon};
use crate::types::Xid;

/// Tells what became of transactions.
pub trait XidsAtHorizon {
    /// The fate of `xid`, given what the tuple's hint bits say.
    ///
    /// # Errors
    /// When a status page has to be read and cannot be.
    fn fate(&mut self, xid: Xid, hint: Hint) -> EngineResult<XidAtHorizon>;
}

impl<F: FnMut(Xid, Hint) -> EngineResult<XidAtHorizon>> XidsAtHorizon for F {
    fn fate(&mut self, xid: Xid, hint: Hint) -> EngineResult<XidAtHorizon> {
        self(xid, hint)
    }
}

/// The liveness of a tuple, as the code that may remove it judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TupleLiveness {
    /// Nobody will see it again.
    Dead,
    /// Deleted, but some snapshot may still see it.
    RecentlyDead,
    /// Not deleted. `old`: every snapshot sees it.
    Live { old: bool },
    /// Its inserter or deleter is running.
    InDoubt { deleting: bool },
    /// Nobody has deleted it; a plan that is not thorough does not ask for more.
    Untouched,
}

/// The hint on the inserting transaction in the header's bits.
pub fn xmin_hint(header: &TupleHeader) -> Hint {
    if header.xmin_mask & (XMIN_COMMITTED | XMIN_FROZEN) != 0 {
        Hint::Committed
    } else if header.xmin_mask & XMIN_ABORTED != 0 {
        Hint::Aborted
    } else {
        Hint::None
    }
}

/// The hint on the deleting transaction in the header's bits.
pub fn xmax_hint(header: &TupleHeader) -> Hint {
    if header.xmax_mask & XMAX_COMMITTED != 0 {
        Hint::Committed
    } else if header.xmax_mask & XMAX_ABORTED != 0 {
        Hint::Aborted
    } else {
        Hint::None
    }
}

/// The fate of a tuple. A transaction that deletes a tuple sees it: if the deleter committed or
/// is running, the inserter needs no look-up. The inserter of a tuple nobody deleted needs none
/// either, unless `thorough`.
fn tuple_fate(
    header: &TupleHeader,
    thorough: bool,
    fates: &mut dyn XidsAtHorizon,
) -> EngineResult<TupleLiveness> {
    if header.xmax.is_some() {
        match fates.fate(header.xmax, xmax_hint(header))? {
            XidAtHorizon::CommittedForAll => return Ok(TupleLiveness::Dead),
            XidAtHorizon::CommittedLately => return Ok(TupleLiveness::RecentlyDead),
            XidAtHorizon::InProgress => return Ok(TupleLiveness::InDoubt { deleting: true }),
            XidAtHorizon::Aborted => {}
        }
    } else if !thorough {
        return Ok(TupleLiveness::Untouched);
    }
    Ok(match inserter_fate(header, fates)? {
        XidAtHorizon::CommittedForAll => TupleLiveness::Live { old: true },
        XidAtHorizon::CommittedLately => TupleLiveness::Live { old: false },
        XidAtHorizon::InProgress => TupleLiveness::InDoubt { deleting: false },
        XidAtHorizon::Aborted => TupleLiveness::Dead,
    })
}

/// The state in which a table's statistics count a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// Committed, and not deleted by anybody who has committed.
    Live,
    /// Deleted, or never committed.
    Dead,
    /// Its inserter is running.
    Coming,
}

/// The state in which statistics count a tuple.
///
/// # Errors
/// Those of `fates`.
pub fn row_state(header: &TupleHeader, fates: &mut dyn XidsAtHorizon) -> EngineResult<RowState> {
    Ok(match tuple_fate(header, true, fates)? {
        TupleLiveness::Dead | TupleLiveness::RecentlyDead => RowState::Dead,
        TupleLiveness::InDoubt { deleting: false } => RowState::Coming,
        TupleLiveness::Live { .. }
        | TupleLiveness::InDoubt { deleting: true }
        | TupleLiveness::Untouched => RowState::Live,
    })
}

fn inserter_fate(
    header: &TupleHeader,
    fates: &mut dyn XidsAtHorizon,
) -> EngineResult<XidAtHorizon> {
    if header.frozen() {
        Ok(XidAtHorizon::CommittedForAll)
    } else {
        fates.fate(header.xmin, xmin_hint(header))
    }
}

/// How far a plan goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanOptions<'a> {
    /// Every inserter is looked at: what rows of rolled-back inserts there are, and what the
    /// page is to all snapshots. Otherwise only dead versions and those that updates left.
    pub thorough: bool,
    /// The table has no index, and a lock keeps any from being made: dead slots become unused
    /// at once. A reader that prunes cannot know that, vacuum can.
    pub no_indexes: bool,
    /// Dead slots to make unused: those whose index entries vacuum has removed, ascending.
    pub reap: &'a [u16],
    /// Xmins below this are frozen when every snapshot sees them, aborted xmaxs below it are
    /// removed. None freezes nothing.
    pub freeze_below: Option<Xid>,
    /// Whether the all-visible bit is set when it holds.
    pub set_visible: bool,
    /// Freeze whatever has committed, seen by every snapshot or not: a deliberate bug.
    pub freeze_recent: bool,
}

/// A plan and what it leaves on the page.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The record's data.
    pub op: Prune,
    /// Tuples that lose their space.
    pub removed: u32,
    /// Tuples of any kind that stay.
    pub kept: u32,
    /// Tuples that are dead to new snapshots but must stay.
    pub recently_dead: u32,
    /// Slots that are dead afterwards, newly or before.
    pub dead: Vec<u16>,
    /// Every tuple left is visible to every snapshot, and no slot is dead. Only a thorough plan
    /// can say so.
    pub all_visible: bool,
    /// `all_visible`, and no tuple left depends on any transaction's status.
    pub all_frozen: bool,
    /// The oldest transaction id that stays unfrozen on the page, or none.
    pub oldest_xid: Xid,
    /// Transactions whose commits the plan takes from snapshots that do not see them: the deleters
    /// of what it removes, the inserters of what it freezes.
    pub removes: Xids,
    /// The inserters of what stays, if the plan is thorough: where the page becomes all-visible,
    /// their commits become visible to all.
    pub shows: Xids,
}

/// Transaction ids, some of them more than once.
#[derive(Clone, Debug, Default)]
pub struct Xids(SmallVec<[Xid; 8]>);

impl Xids {
    /// Adds one; neighbours on a page often are the same.
    fn add(&mut self, xid: Xid) {
        if xid.is_some() && self.0.last() != Some(&xid) {
            self.0.push(xid);
        }
    }

    /// The ids.
    pub fn iter(&self) -> impl Iterator<Item = Xid> + '_ {
        self.0.iter().copied()
    }
}

impl Plan {
    /// Whether carrying it out would change anything that matters.
    pub fn is_idle(&self) -> bool {
        self.op.keeps_all() && self.op.freeze.is_empty() && self.op.bits == 0
    }
}

struct Planner<'a, P: ?Sized> {
    page: &'a P,
    block: u32,
    options: PlanOptions<'a>,
    /// By slot; `None` for slots without a tuple, or whose tuple is to be removed.
    fates: SmallVec<[Option<TupleLiveness>; 256]>,
    /// By slot: heap-only tuples that no chain has led to.
    lost: SmallVec<[bool; 256]>,
    plan: Plan,
}

/// Plans the pruning of `block`'s page.
///
/// # Errors
/// When the fate of a transaction cannot be found out.
pub fn plan<P: PageRead + ?Sized>(
    page: &P,
    block: u32,
    options: PlanOptions<'_>,
    fates: &mut dyn XidsAtHorizon,
) -> EngineResult<Plan> {
    let slots = page.slots();
    let mut planner = Planner {
        page,
        block,
        options,
        fates: smallvec![None; usize::from(slots) + 1],
        lost: smallvec![false; usize::from(slots) + 1],
        plan: Plan {
            all_visible: options.thorough,
            all_frozen: true,
            ..Plan::default()
        },
    };
    for slot in 1..=slots {
        if let Some((offset, _)) = page.tuple_at(slot) {
            let at = usize::from(slot);
            planner.lost[at] = page.flags_of(offset) & HEAP_ONLY != 0;
            // One cache line per tuple that nobody deleted: most of them.
            planner.fates[at] = Some(if options.thorough || page.has_xmax(offset) {
                tuple_fate(&page.header(offset), options.thorough, fates)?
            } else {
                TupleLiveness::Untouched
            });
        }
    }
    for slot in 1..=slots {
        planner.root(slot);
    }
    for slot in 1..=slots {
        planner.orphan(slot, fates)?;
    }
    Ok(planner.finish())
}

impl<P: PageRead + ?Sized> Planner<'_, P> {
    /// Handles the chain that starts at `slot`, if one does.
    fn root(&mut self, slot: u16) {
        let lp = self.page.line_pointer(slot);
        match lp.state {
            LpState::Unused => {}
            LpState::Dead
                if self.options.no_indexes || self.options.reap.binary_search(&slot).is_ok() =>
            {
                self.plan.op.unused.push(slot);
            }
            LpState::Dead => self.plan.dead.push(slot),
            LpState::Redirect => self.chain(slot, Some(lp.offset)),
            LpState::Normal => {
                let fate = self.fates[usize::from(slot)];
                let head = !self.lost[usize::from(slot)] && fate.is_some();
                if head && fate != Some(TupleLiveness::Untouched) {
                    self.chain(slot, None);
                }
            }
        }
    }

    /// The tuple at a slot that has one and is not to be removed.
    fn tuple(&self, slot: u16) -> Option<(TupleHeader, TupleLiveness)> {
        let fate = (*self.fates.get(usize::from(slot))?)?;
        let (offset, _) = self.page.tuple_at(slot)?;
        Some((self.page.header(offset), fate))
    }

    /// Walks the chain from `root` and takes its dead head off.
    fn chain(&mut self, root: u16, redirect: Option<u16>) {
        let mut members: SmallVec<[u16; 16]> = SmallVec::new();
        let mut dead = 0;
        let mut next = Some((redirect.unwrap_or(root), None));
        while let Some((slot, expected)) = next.take() {
            let Some((header, fate)) = self.tuple(slot) else {
                break;
            };
            let linked = expected.is_none_or(|xmax| header.xmin == xmax);
            if !linked {
                break;
            }
            // A member other than the root is heap-only, and of one chain.
            let lost = std::mem::replace(&mut self.lost[usize::from(slot)], false);
            if lost == (slot == root) {
                break;
            }
            members.push(slot);
            match fate {
                TupleLiveness::Dead => dead = members.len(),
                TupleLiveness::RecentlyDead => {}
                TupleLiveness::Live { .. }
                | TupleLiveness::InDoubt { .. }
                | TupleLiveness::Untouched => {
                    break;
                }
            }
            if header.is(HOT_UPDATED) && header.ctid.block.0 == self.block {
                next = Some((header.ctid.slot, Some(header.xmax)));
            }
        }
        self.cut(root, redirect, &members, dead);
    }

    /// Records what becomes of a chain whose first `dead` members are dead.
    fn cut(&mut self, root: u16, redirect: Option<u16>, members: &[u16], dead: usize) {
        if dead == 0 {
            return;
        }
        for &slot in &members[..dead] {
            self.remove(slot);
            if slot != root {
                self.plan.op.unused.push(slot);
            }
        }
        match members.get(dead) {
            None => self.kill(root),
            Some(&live) if redirect != Some(live) => self.plan.op.redirect.push((root, live)),
            Some(_) => {}
        }
    }

    /// Notes that the tuple at `slot` goes. Its deleter saw its inserter, so the deleter's commit
    /// is not the older one; a tuple whose inserter rolled back nobody sees.
    fn remove(&mut self, slot: u16) {
        if let Some((header, _)) = self.tuple(slot) {
            self.plan.removes.add(header.xmax);
        }
        self.fates[usize::from(slot)] = None;
        self.plan.removed += 1;
    }

    fn kill(&mut self, root: u16) {
        if self.options.no_indexes {
            self.plan.op.unused.push(root);
        } else {
            self.plan.op.dead.push(root);
            self.plan.dead.push(root);
        }
    }

    /// A heap-only tuple no chain leads to is the work of an update that is running, or of one
    /// that rolled back.
    fn orphan(&mut self, slot: u16, fates: &mut dyn XidsAtHorizon) -> EngineResult<()> {
        if !self.lost[usize::from(slot)] {
            return Ok(());
        }
        if let Some((header, fate)) = self.tuple(slot)
            && (fate == TupleLiveness::Dead
                || inserter_fate(&header, fates)? == XidAtHorizon::Aborted)
        {
            self.remove(slot);
            self.plan.op.unused.push(slot);
        }
        Ok(())
    }

    /// Looks at what stays: freezing, visibility, the next prune hint.
    fn finish(mut self) -> Plan {
        for slot in 1..self.fates.len() as u16 {
            if self.fates[usize::from(slot)] == Some(TupleLiveness::Untouched) {
                self.plan.kept += 1;
            } else if let Some((header, fate)) = self.tuple(slot) {
                self.keep(slot, &header, fate);
            }
        }
        let plan = &mut self.plan;
        plan.all_visible &= plan.dead.is_empty();
        plan.all_frozen &= plan.all_visible;
        if plan.removed > 0 {
            plan.op.bits |= COMPACT;
        }
        if self.options.set_visible && plan.all_visible && !self.page.all_visible() {
            plan.op.bits |= SET_VISIBLE;
        }
        self.plan
    }

    fn keep(&mut self, slot: u16, header: &TupleHeader, fate: TupleLiveness) {
        let plan = &mut self.plan;
        plan.kept += 1;
        plan.shows.add(header.xmin);
        let mut what = 0;
        let (mut xmin, mut xmax) = (header.xmin, header.xmax);
        if header.frozen() {
            xmin = Xid::NONE;
        }
        match fate {
            TupleLiveness::Live { old } => {
                let mut limit = self.options.freeze_below.unwrap_or(Xid::NONE);
                let old = old || self.options.freeze_recent;
                if self.options.freeze_recent {
                    limit = Xid::MAX;
                }
                plan.all_visible &= old;
                if old && xmin.is_some() && xmin < limit {
                    what |= FREEZE_XMIN;
                    plan.removes.add(header.xmin);
                    xmin = Xid::NONE;
                }
                if xmax.is_some() && xmax < limit {
                    what |= CLEAR_XMAX;
                    xmax = Xid::NONE;
                }
            }
            TupleLiveness::RecentlyDead => {
                plan.recently_dead += 1;
                plan.all_visible = false;
                plan.op.prune_xid = oldest(plan.op.prune_xid, xmax);
            }
            TupleLiveness::InDoubt { deleting } => {
                plan.all_visible = false;
                if deleting {
                    plan.op.prune_xid = oldest(plan.op.prune_xid, xmax);
                }
            }
            // Part of a chain that does not hold together; a check will name it.
            TupleLiveness::Dead | TupleLiveness::Untouched => plan.all_visible = false,
        }
        if what != 0 {
            plan.op.add_frozen(slot, what);
        }
        plan.all_frozen &= !xmin.is_some() && !xmax.is_some();
        plan.oldest_xid = oldest(plan.oldest_xid, oldest(xmin, xmax));
    }
}

/// The older of two ids, where none is no id.
pub fn oldest(a: Xid, b: Xid) -> Xid {
    match (a.is_some(), b.is_some()) {
        (true, true) => a.min(b),
        (true, false) => a,
        _ => b,
    }
}
