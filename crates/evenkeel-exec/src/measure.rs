//! Measurements of an execution's operators, for EXPLAIN ANALYZE.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use evenkeel_planner::plan::Node;

/// Measurements of an operator, its children included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measure {
    /// How often it ran.
    pub loops: u64,
    /// Rows that it gave, in all runs.
    pub rows: u64,
    /// Rows that its filter left out, in all runs.
    pub removed: u64,
    /// Searches of an index, in all runs.
    pub searches: u64,
    /// Rows of the heap that a scan of an index alone looked at, in all runs.
    pub heap_rows: u64,
    /// Pages of the heap that a bitmap scan read, for certain rows of them and as a whole.
    pub heap_blocks: [u64; 2],
    /// Time until the first row, the sum over all runs.
    pub startup: Duration,
    /// Time, the sum over all runs.
    pub total: Duration,
    /// Changes of a MERGE.
    pub merged: MergeCounts,
}

/// Rows that a MERGE changed, by action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeCounts {
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
}

/// The measures of an execution, by the addresses of its nodes: the plan stays where it is.
#[derive(Default)]
pub(crate) struct Measures(RefCell<HashMap<usize, Measure>>);

impl Measures {
    /// Changes the measure of a node.
    pub fn change(&self, node: &Node, change: impl FnOnce(&mut Measure)) {
        change(self.0.borrow_mut().entry(key(node)).or_default());
    }

    /// That of a node; nothing for one that never ran.
    pub fn of(&self, node: &Node) -> Measure {
        self.0.borrow().get(&key(node)).copied().unwrap_or_default()
    }
}

fn key(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}
