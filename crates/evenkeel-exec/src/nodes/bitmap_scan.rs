//! The rows whose places indexes find, in the order of the heap.

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::{BitmapScan as EngineScan, KeyRange, TidBitmap, TidSearch};
use evenkeel_planner::plan::{IndexKeys, Node, NodeKind};
use evenkeel_planner::relation::Relation;

use super::index_keys::{Search, key_columns, search};
use crate::batch::Batch;
use crate::context::{Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::rows::ScannedTable;

/// Filters and projects itself.
#[derive(Default)]
pub(crate) struct BitmapScan {
    table: Option<ScannedTable>,
    gathering: Gathering,
    scan: Option<EngineScan>,
    page: RowBatch,
    at: usize,
}

/// Bitmaps that are being made: the nodes of the plan's tree of them one after the other, each
/// behind those that it combines.
#[derive(Default)]
struct Gathering {
    /// Nodes that are done.
    done: usize,
    bitmaps: Vec<TidBitmap>,
    /// The search of the index at hand, and the ranges that come after it.
    search: Option<TidSearch>,
    ranges: Option<Vec<KeyRange>>,
}

/// The nodes of a tree of bitmaps, each behind those that it combines.
fn in_turn<'n>(node: &'n Node, out: &mut Vec<&'n Node>) {
    if let NodeKind::BitmapCombine { bitmaps, .. } = &node.kind {
        bitmaps.iter().for_each(|bitmap| in_turn(bitmap, out));
    }
    out.push(node);
}

/// The ranges of an index that are searched.
fn ranges(
    relation: &Relation,
    index: usize,
    keys: &IndexKeys,
    cx: &Cx,
) -> ExecResult<Vec<KeyRange>> {
    let index = relation.indexes.get(index);
    let index = index.ok_or_else(|| ExecError::plan("an index that is not there"))?;
    Ok(match search(keys, &key_columns(index), cx)? {
        Search::Nothing => Vec::new(),
        Search::Prefix(key) => vec![KeyRange::prefix(&key)],
        Search::Prefixes(keys) => keys.iter().map(|key| KeyRange::prefix(key)).collect(),
        Search::Ranges(ranges) => ranges,
    })
}

impl Gathering {
    /// Goes on; false when it gives way.
    fn go_on(&mut self, bitmap: &Node, table: &ScannedTable, cx: &Cx) -> ExecResult<bool> {
        let mut nodes = Vec::new();
        in_turn(bitmap, &mut nodes);
        while let Some(node) = nodes.get(self.done) {
            match &node.kind {
                NodeKind::BitmapIndexScan {
                    relation,
                    index,
                    keys,
                } => {
                    if !self.index((node, relation, *index, keys), table, cx)? {
                        return Ok(false);
                    }
                }
                NodeKind::BitmapCombine { bitmaps, all } => {
                    let first = self.bitmaps.len().saturating_sub(bitmaps.len());
                    let mut parts = self.bitmaps.drain(first..);
                    let none = || ExecError::plan("a combination of no bitmaps");
                    let one = parts.next().ok_or_else(none)?;
                    let made = parts.try_fold(one, |made, part| match all {
                        true => Ok(made.and(part)),
                        false => made.or(part),
                    })?;
                    drop(parts);
                    self.bitmaps.push(made);
                    cx.count_run(node);
                }
                _ => return Err(ExecError::plan("a node that is no bitmap")),
            }
            self.done += 1;
        }
        Ok(true)
    }

    /// Gathers the places of one index; false when it gives way.
    fn index(
        &mut self,
        (node, relation, index, keys): (&Node, &Relation, usize, &IndexKeys),
        table: &ScannedTable,
        cx: &Cx,
    ) -> ExecResult<bool> {
        let left = match &mut self.ranges {
            Some(left) => left,
            none => {
                let bytes = cx.env.limits.work_mem;
                self.bitmaps.push(TidBitmap::new(&cx.env.memory, bytes));
                none.insert(ranges(relation, index, keys, cx)?)
            }
        };
        let number = relation.indexes.get(index).map(|index| index.position);
        let number = number.ok_or_else(|| ExecError::plan("an index that is not there"))?;
        let bitmap = self.bitmaps.last_mut();
        let bitmap = bitmap.ok_or_else(|| ExecError::plan("a bitmap that is not there"))?;
        loop {
            if let Some(search) = &mut self.search {
                let found = search.step(bitmap)?;
                cx.count_found(node, found);
                if found > 0 {
                    if cx.over(found)? {
                        return Ok(false);
                    }
                    continue;
                }
                self.search = None;
            }
            let Some(range) = left.pop() else {
                self.ranges = None;
                cx.count_run(node);
                return Ok(true);
            };
            cx.count_index(node, 1, 0);
            let (snapshot, cancel) = (&cx.env.snapshot, &cx.env.cancel);
            let search = table.table.tid_search(snapshot, number, &range, cancel)?;
            self.search = Some(search);
        }
    }
}

impl BitmapScan {
    /// Replaces the page by the next rows; false at the end.
    fn next_page(&mut self, node: &Node, cx: &Cx) -> ExecResult<bool> {
        kind!(node, BitmapHeapScan { recheck });
        self.at = 0;
        let (Some(scan), Some(table)) = (&mut self.scan, &mut self.table) else {
            return Err(ExecError::plan("a bitmap that was not made"));
        };
        let Some(whole) = scan.next_page(&mut self.page)? else {
            return Ok(false);
        };
        cx.count_heap_block(node, whole);
        if whole {
            let mut kept = RowBatch::new();
            for (tid, row) in self.page.iter() {
                if table.holds(row, recheck, cx)? {
                    kept.push(tid, row);
                }
            }
            self.page = kept;
        }
        Ok(true)
    }
}

impl Operator for BitmapScan {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(
            node,
            BitmapHeapScan {
                relation,
                columns,
                bitmap,
            }
        );
        out.reset(node.width);
        let table = match &mut self.table {
            Some(table) => table,
            none => none.insert(ScannedTable::open(relation, columns, node, cx)?),
        };
        if self.scan.is_none() {
            if !self.gathering.go_on(bitmap, table, cx)? {
                return Ok(Step::Yield);
            }
            let made = self.gathering.bitmaps.pop();
            let made = made.ok_or_else(|| ExecError::plan("a bitmap that was not made"))?;
            let (snapshot, cancel) = (&cx.env.snapshot, &cx.env.cancel);
            self.scan = Some(table.table.bitmap_scan(snapshot, made, cancel));
        }
        let most = cx.most(want);
        loop {
            if let Some(table) = &mut self.table {
                self.at = table.emit(&self.page, self.at, (node, cx), most, out)?;
            }
            if out.is_full(most) {
                return Ok(Step::Rows);
            }
            let more = self.next_page(node, cx)?;
            if more && !cx.over(self.page.len() + 1)? {
                continue;
            }
            return Ok(match (out.is_empty(), more) {
                (false, _) => Step::Rows,
                (true, true) => Step::Yield,
                (true, false) => Step::Done,
            });
        }
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.gathering = Gathering::default();
        self.scan = None;
        self.page.clear();
        self.at = 0;
        Ok(())
    }
}
