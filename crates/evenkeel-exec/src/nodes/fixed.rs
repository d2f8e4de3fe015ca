//! Operators with a mark: in a re-check they give the one row that is held for them.

use evenkeel_engine::heap::rows::RowBatch;
use evenkeel_engine::table::KeyKind;
use evenkeel_planner::plan::{Node, NodeKind};
use evenkeel_types::Datum;

use super::index_keys::{Search, key_columns, search};
use crate::batch::Batch;
use crate::context::{Cx, Fixed, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::rows::ScannedTable;

/// Adds to the rows of an operator that it is there.
pub(crate) struct Marked {
    raw: Box<dyn Operator>,
    rows: Batch,
}

impl Marked {
    pub fn new(raw: Box<dyn Operator>) -> Marked {
        Marked {
            raw,
            rows: Batch::default(),
        }
    }
}

impl Operator for Marked {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        let step = self.raw.next(node, cx, want, &mut self.rows)?;
        out.reset(self.rows.width() + 1);
        for at in 0..self.rows.len() {
            for value in self.rows.row_mut(at) {
                out.push_value(crate::batch::take(value));
            }
            out.push_value(Datum::Bool(true));
            out.end_row();
        }
        Ok(step)
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        self.rows.reset(0);
        self.raw.rescan(node, cx)
    }

    fn bound(&mut self, node: &Node, rows: usize) {
        self.raw.bound(node, rows);
    }
}

fn mark_of(node: &Node) -> ExecResult<usize> {
    node.mark
        .ok_or_else(|| ExecError::plan("a re-check without a mark"))
}

/// The held row of what is not stored.
#[derive(Default)]
pub(crate) struct FixedRow {
    done: bool,
}

impl Operator for FixedRow {
    fn next(&mut self, node: &Node, cx: &Cx, _want: usize, out: &mut Batch) -> ExecResult<Step> {
        let fixed = cx.fixed_row(mark_of(node)?)?;
        let Fixed::Values(values) = fixed else {
            out.reset(0);
            return Ok(Step::Done);
        };
        out.reset(values.len() + 1);
        if std::mem::replace(&mut self.done, true) {
            return Ok(Step::Done);
        }
        values
            .iter()
            .for_each(|value| out.push_value(value.clone()));
        out.push_value(Datum::Bool(true));
        out.end_row();
        Ok(Step::Rows)
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.done = false;
        Ok(())
    }
}

/// The held row of a table, under the conditions of its scan: it filters and projects itself.
#[derive(Default)]
pub(crate) struct FixedScan {
    done: bool,
}

impl FixedScan {
    /// Whether the keys of an index scan find the row.
    fn found(node: &Node, row: &[u8], cx: &Cx) -> ExecResult<bool> {
        let NodeKind::IndexScan {
            relation,
            index,
            keys,
            ..
        } = &node.kind
        else {
            return Ok(true);
        };
        let index = relation.indexes.get(*index);
        let index = index.ok_or_else(|| ExecError::plan("an index that is not there"))?;
        let columns = key_columns(index);
        let (table, _) = cx.env.relations.table(relation)?;
        let stored = table.def().indexes.get(index.position);
        let stored = stored.ok_or_else(|| ExecError::plan("an index that its table lacks"))?;
        let mut key = Vec::new();
        if stored.key.key(row, &mut key)? == KeyKind::Absent {
            return Ok(false);
        }
        Ok(match search(keys, &columns, cx)? {
            Search::Nothing => false,
            Search::Prefix(prefix) => key.starts_with(&prefix),
            Search::Prefixes(prefixes) => prefixes.iter().any(|prefix| key.starts_with(prefix)),
            Search::Ranges(ranges) => ranges.iter().any(|range| {
                let low = range.low.as_ref().is_none_or(|(low, inclusive)| {
                    key >= *low && (*inclusive || !key.starts_with(low))
                });
                let high = range.high.as_ref().is_none_or(|(high, inclusive)| {
                    key < *high || (*inclusive && key.starts_with(high))
                });
                low && high
            }),
        })
    }
}

impl Operator for FixedScan {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        out.reset(node.width);
        let (NodeKind::SeqScan {
            relation, columns, ..
        }
        | NodeKind::IndexScan {
            relation, columns, ..
        }
        | NodeKind::BitmapHeapScan {
            relation, columns, ..
        }) = &node.kind
        else {
            return Err(ExecError::plan("a node of another kind"));
        };
        let Fixed::Stored(at, bytes) = cx.fixed_row(mark_of(node)?)? else {
            return Ok(Step::Done);
        };
        if std::mem::replace(&mut self.done, true) || !Self::found(node, &bytes, cx)? {
            return Ok(Step::Done);
        }
        let mut page = RowBatch::new();
        page.push(at, &bytes);
        let mut table = ScannedTable::open(relation, columns, node, cx)?;
        if let NodeKind::BitmapHeapScan { recheck, .. } = &node.kind
            && !table.holds(&bytes, recheck, cx)?
        {
            return Ok(Step::Done);
        }
        table.emit(&page, 0, (node, cx), cx.most(want), out)?;
        Ok(if out.is_empty() {
            Step::Done
        } else {
            Step::Rows
        })
    }

    fn rescan(&mut self, _node: &Node, _cx: &Cx) -> ExecResult<()> {
        self.done = false;
        Ok(())
    }
}
