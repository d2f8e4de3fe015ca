//! Where a hash join's rows come from: its children, or pairs of files over which they were
//! divided.

use evenkeel_expr::program::Program;
use evenkeel_planner::plan::Node;
use evenkeel_types::Datum;

use super::table::{HashTable, key_of};
use crate::batch::Batch;
use crate::context::{ALL, Child, Cx, Step};
use crate::error::ExecResult;
use crate::partitions::{partition_of, partitions};
use crate::spill::{Cursor, RowStore};

/// A pair of files, with how often their rows have been divided.
struct Pair {
    outer: RowStore,
    outer_at: Cursor,
    inner: RowStore,
    inner_at: Cursor,
    level: u32,
}

/// Files over which both sides are divided.
pub(super) struct Divided {
    pub inner: Vec<RowStore>,
    outer: Vec<RowStore>,
}

impl Divided {
    /// Divides the rows of a table.
    pub fn of(
        table: &mut HashTable,
        (keys, level): (&[Program], u32),
        key: &mut Vec<Datum>,
        cx: &Cx,
    ) -> ExecResult<Divided> {
        let mut inner = partitions(table.row(0).len(), cx)?;
        for at in 0..table.len() {
            key_of(keys, table.row(at), key, cx)?;
            let partition = partition_of(table.hash(key), level);
            inner[partition].push(table.row(at))?;
        }
        Ok(Divided {
            inner,
            outer: Vec::new(),
        })
    }

    /// Adds an outer row to a partition.
    pub fn push_outer(&mut self, partition: usize, row: &[Datum], cx: &Cx) -> ExecResult<()> {
        if self.outer.is_empty() {
            self.outer = partitions(row.len(), cx)?;
        }
        self.outer[partition].push(row)
    }
}

pub(super) struct Source {
    outer: Child,
    inner: Child,
    /// The pair that rows are read from; none for the children.
    pair: Option<Box<Pair>>,
    waiting: Vec<Pair>,
}

impl Source {
    pub fn new(outer: Child, inner: Child) -> Source {
        Source {
            outer,
            inner,
            pair: None,
            waiting: Vec::new(),
        }
    }

    /// Whether rows come from the children.
    pub fn is_children(&self) -> bool {
        self.pair.is_none()
    }

    /// How often the rows have been divided.
    pub fn level(&self) -> u32 {
        self.pair.as_ref().map_or(0, |pair| pair.level)
    }

    /// The next inner rows.
    pub fn next_inner(&mut self, node: &Node, cx: &Cx, rows: &mut Batch) -> ExecResult<Step> {
        match &mut self.pair {
            None => self.inner.next(node, cx, ALL, rows),
            Some(pair) => read(&pair.inner, &mut pair.inner_at, cx, rows),
        }
    }

    /// The next outer rows.
    pub fn next_outer(
        &mut self,
        node: &Node,
        cx: &Cx,
        want: usize,
        rows: &mut Batch,
    ) -> ExecResult<Step> {
        match &mut self.pair {
            None => self.outer.next(node, cx, want, rows),
            Some(pair) => read(&pair.outer, &mut pair.outer_at, cx, rows),
        }
    }

    /// Goes on with the next pair of files, of those that the rows at hand were divided over
    /// first; false when there is none.
    pub fn next_pair(&mut self, divided: Option<Divided>) -> bool {
        let level = self.level() + 1;
        if let Some(divided) = divided {
            let mut outer = divided.outer.into_iter();
            for inner in divided.inner {
                // Without outer rows there are no files for them: an empty one serves.
                let outer = outer.next().unwrap_or_else(|| inner.another());
                if outer.is_empty() && inner.is_empty() {
                    continue;
                }
                self.waiting.push(Pair {
                    outer,
                    outer_at: Cursor::default(),
                    inner,
                    inner_at: Cursor::default(),
                    level,
                });
            }
        }
        self.pair = self.waiting.pop().map(Box::new);
        self.pair.is_some()
    }

    /// Begins anew with the outer side, and with the inner one if it is given.
    pub fn rescan(&mut self, outer: &Node, inner: Option<&Node>, cx: &Cx) -> ExecResult<()> {
        self.pair = None;
        self.waiting.clear();
        self.outer.rescan(outer, cx)?;
        match inner {
            Some(inner) => self.inner.rescan(inner, cx),
            None => Ok(()),
        }
    }
}

/// A batch of a file's rows.
fn read(from: &RowStore, cursor: &mut Cursor, cx: &Cx, rows: &mut Batch) -> ExecResult<Step> {
    rows.reset(from.width());
    while rows.len() < cx.env.limits.batch && from.read(cursor, rows)? {}
    Ok(if rows.is_empty() {
        Step::Done
    } else {
        Step::Rows
    })
}
