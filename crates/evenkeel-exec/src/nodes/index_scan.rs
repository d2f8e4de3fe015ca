//! The rows that an index finds, in its order.

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::{Direction, IndexScan as EngineScan, KeyRange};
use evenkeel_planner::plan::{IndexKeys, Node};
use evenkeel_planner::relation::Relation;
use evenkeel_types::key::KeyColumn;

use super::index_keys::{Search, key_columns, search};
use crate::batch::Batch;
use crate::context::{Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::rows::ScannedTable;

/// The index, as the engine numbers it, and its columns.
struct Opened {
    table: ScannedTable,
    number: usize,
    columns: Vec<KeyColumn>,
    /// Whether a search by all columns finds one row at most.
    unique: bool,
    /// Whether the rows come from its keys.
    only: bool,
}

/// Filters and projects itself.
#[derive(Default)]
pub(crate) struct IndexScan {
    opened: Option<Opened>,
    /// Whether the keys have been searched under the parameters as they are now.
    begun: bool,
    scan: Option<EngineScan>,
    /// Ranges that come after the scan's, the next one last.
    ranges: Vec<KeyRange>,
    /// Whole keys of a unique index that are to be looked up, the next one last.
    points: Vec<Vec<u8>>,
    page: RowBatch,
    at: usize,
}

/// Keys looked up between two chances to give way.
const LOOKED_UP_AT_ONCE: usize = 64;

/// In the order of a stack, of which the first to be read is the last.
fn in_turn<T>(mut ascending: Vec<T>, backward: bool) -> Vec<T> {
    if !backward {
        ascending.reverse();
    }
    ascending
}

impl Opened {
    fn new(
        relation: &Relation,
        (index, only): (usize, bool),
        columns: &[usize],
        node: &Node,
        cx: &Cx,
    ) -> ExecResult<Opened> {
        let index = relation.indexes.get(index);
        let index = index.ok_or_else(|| ExecError::plan("an index that is not there"))?;
        let keys = key_columns(index);
        Ok(Opened {
            table: match only {
                true => ScannedTable::of_keys(relation, (columns, &keys), node, cx)?,
                false => ScannedTable::open(relation, columns, node, cx)?,
            },
            number: index.position,
            columns: keys,
            unique: index.is_proof(),
            only,
        })
    }

    /// Whether keys with so many columns are looked up one by one, not searched for.
    fn looks_up(&self, columns: usize) -> bool {
        self.unique && !self.only && columns == self.columns.len()
    }
}

impl IndexScan {
    /// Searches the keys; a single row is in the page then.
    fn begin(
        &mut self,
        node: &Node,
        (keys, backward): (&IndexKeys, bool),
        cx: &Cx,
    ) -> ExecResult<()> {
        let Some(opened) = &self.opened else {
            return Ok(());
        };
        self.begun = true;
        match search(keys, &opened.columns, cx)? {
            Search::Nothing => {}
            Search::Prefix(key) => {
                if opened.looks_up(keys.equal.len()) {
                    let snapshot = &cx.env.snapshot;
                    let table = &opened.table.table;
                    table.index_lookup(snapshot, opened.number, &key, &mut self.page)?;
                    cx.count_index(node, 1, 0);
                } else {
                    self.ranges.push(KeyRange::prefix(&key));
                }
            }
            Search::Prefixes(keys_of) => {
                if opened.looks_up(keys.equal.len() + 1) {
                    self.points = in_turn(keys_of, backward);
                } else {
                    let ranges = keys_of.iter().map(|key| KeyRange::prefix(key));
                    self.ranges = in_turn(ranges.collect(), backward);
                }
            }
            Search::Ranges(ranges) => self.ranges = in_turn(ranges, backward),
        }
        Ok(())
    }

    /// Looks some keys up; their rows are in the page then, which may be none.
    fn look_up(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        let Some(opened) = &self.opened else {
            return Ok(());
        };
        let snapshot = &cx.env.snapshot;
        let some = self.points.len().saturating_sub(LOOKED_UP_AT_ONCE);
        cx.count_index(node, (self.points.len() - some) as u64, 0);
        for key in self.points.drain(some..).rev() {
            let table = &opened.table.table;
            table.index_lookup(snapshot, opened.number, &key, &mut self.page)?;
        }
        Ok(())
    }

    /// Replaces the page by the next rows; false at the end.
    fn next_page(&mut self, node: &Node, backward: bool, cx: &Cx) -> ExecResult<bool> {
        self.page.clear();
        self.at = 0;
        if !self.points.is_empty() {
            self.look_up(node, cx)?;
            return Ok(true);
        }
        let Some(opened) = &self.opened else {
            return Ok(false);
        };
        loop {
            if let Some(scan) = &mut self.scan {
                let more = scan.next_page(&mut self.page)?;
                if opened.only {
                    cx.count_index(node, 0, scan.take_heap_rows());
                }
                if more {
                    return Ok(true);
                }
                self.scan = None;
            }
            let Some(range) = self.ranges.pop() else {
                return Ok(false);
            };
            let direction = if backward {
                Direction::Backward
            } else {
                Direction::Forward
            };
            let snapshot = &cx.env.snapshot;
            let table = &opened.table.table;
            let scan = table.index_scan(snapshot, opened.number, &range, direction)?;
            cx.count_index(node, 1, 0);
            let scan = scan.cancelled_by(&cx.env.cancel);
            self.scan = Some(match opened.only {
                true => scan.keys_only(),
                false => scan,
            });
        }
    }
}

impl Operator for IndexScan {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(
            node,
            IndexScan {
                relation,
                index,
                columns,
                keys,
                backward,
                only,
            }
        );
        out.reset(node.width);
        if self.opened.is_none() {
            self.opened = Some(Opened::new(relation, (*index, *only), columns, node, cx)?);
        }
        if !self.begun {
            self.begin(node, (keys, *backward), cx)?;
        }
        let most = cx.most(want);
        loop {
            if let Some(opened) = &mut self.opened {
                let table = &mut opened.table;
                self.at = table.emit(&self.page, self.at, (node, cx), most, out)?;
            }
            if out.is_full(most) {
                return Ok(Step::Rows);
            }
            if cx.over(self.page.len() + 1)? {
                self.page.clear();
                self.at = 0;
                return Ok(if out.is_empty() {
                    Step::Yield
                } else {
                    Step::Rows
                });
            }
            if !self.next_page(node, *backward, cx)? {
                return Ok(if out.is_empty() {
                    Step::Done
                } else {
                    Step::Rows
                });
            }
        }
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.begun = false;
        self.scan = None;
        self.ranges.clear();
        self.points.clear();
        self.page.clear();
        self.at = 0;
        Ok(())
    }
}
