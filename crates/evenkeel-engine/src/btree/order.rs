//! The order of a node's keys: what a check of the tree verifies, and every change keeps.

use evenkeel_storage::page::PageRead;

use super::key::TidOrder;
use super::page::{Fault, Node};

/// The position that a page's range begins at.
pub(super) type LowBound<'a> = Option<(&'a [u8], TidOrder)>;

/// Verifies that entries, or downlinks, ascend, and lie from `low` to before the high key.
pub(super) fn check_order<P: PageRead + ?Sized>(
    node: &Node<'_, P>,
    low: LowBound<'_>,
) -> Result<(), Fault> {
    let leaf = node.is_leaf();
    let fault = |entries, downlinks| Err(Fault(if leaf { entries } else { downlinks }));
    let high = node.high_key()?;
    if !leaf && node.len() == 0 {
        return Err(Fault("inner page without downlinks"));
    }
    // The first downlink stands for minus infinity, whatever it holds.
    let first = node.first() + u16::from(!leaf);
    let mut last = None;
    for slot in first..node.end() {
        let at = if leaf {
            node.entry(slot)?.position()
        } else {
            node.pivot(slot)?.position()
        };
        if let Some((key, tid)) = low {
            let order = at.compare(key, tid);
            if order.is_lt() || order.is_eq() && !leaf {
                return fault(
                    "entry below the page's range",
                    "downlink below the page's range",
                );
            }
        }
        if high.is_some_and(|high| at.compare(high.key, high.tid).is_ge()) {
            return fault("entry beyond the high key", "downlink beyond the high key");
        }
        if last.is_some_and(|(key, tid)| at.compare(key, tid).is_le()) {
            return fault("entries out of order", "downlinks out of order");
        }
        last = Some((at.key, at.tid));
    }
    Ok(())
}

/// Verifies a node alone: its keys, unless searches pass it by.
pub(super) fn check_alone<P: PageRead + ?Sized>(page: &P) -> Result<(), Fault> {
    let node = Node::of(page)?;
    if node.header.is_ignored() {
        return Ok(());
    }
    check_order(&node, None)
}

/// Verifies that `right` begins where `left` ends, and that each names the other.
pub(super) fn check_neighbours<P: PageRead, Q: PageRead>(
    (left_block, left): (u32, &P),
    (right_block, right): (u32, &Q),
) -> Result<(), Fault> {
    let (left, right) = (Node::of(left)?, Node::of(right)?);
    if left.header.right.0 != right_block || right.header.left.0 != left_block {
        return Err(Fault("siblings do not name each other"));
    }
    if left.header.is_ignored() || right.header.is_ignored() {
        return Ok(());
    }
    let low = left.high_key()?.map(|high| (high.key, high.tid));
    check_order(&right, low)
}

/// Whether a node was sound before a change: one that was damaged already is no fault of the
/// change. Known in builds with debug assertions alone.
#[derive(Clone, Copy)]
pub(super) struct Sound(bool);

impl Sound {
    /// Looks at the page before the change.
    #[inline]
    pub(super) fn before<P: PageRead>(page: &P) -> Sound {
        Sound(cfg!(debug_assertions) && check_alone(page).is_ok())
    }

    /// Of several pages that one record changes.
    #[inline]
    pub(super) fn and(self, other: Sound) -> Sound {
        Sound(self.0 && other.0)
    }

    /// Asserts that the change has left a sound page.
    #[inline]
    pub(super) fn assert_after<P: PageRead>(self, page: &P) {
        debug_assert!(
            !self.0 || check_alone(page).is_ok(),
            "a change spoiled a page of a tree: {:?}",
            check_alone(page)
        );
    }

    /// Asserts that the change has left two sound neighbours.
    #[inline]
    pub(super) fn assert_neighbours<P: PageRead, Q: PageRead>(
        self,
        left: (u32, &P),
        right: (u32, &Q),
    ) {
        debug_assert!(
            !self.0 || check_neighbours(left, right).is_ok(),
            "a change left neighbours that do not fit: {:?}",
            check_neighbours(left, right)
        );
    }
}
