//! The inner side is hashed by its keys, the outer side looks its partners up. When memory has no
//! room for the inner side, both sides are divided by the hash over files, and each pair of files
//! is joined by itself.

mod probe;
mod source;
mod table;

use evenkeel_planner::plan::{JoinType, Node};

use self::probe::Probe;
use self::source::{Divided, Source};
use self::table::{HashTable, key_of};
use crate::batch::Batch;
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::partitions::{MOST_LEVELS, partition_of};
use crate::walk::{depends, programs_depend};

/// Phase of the join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The inner side is hashed.
    Build,
    /// The outer side is divided over files, as the inner side is.
    Divide,
    /// Outer rows look for partners.
    Probe,
    /// Inner rows without a partner.
    Unmatched,
    Done,
}

/// Filters and projects itself.
pub(crate) struct HashJoin {
    source: Source,
    phase: Phase,
    table: Option<HashTable>,
    divided: Option<Divided>,
    probe: Probe,
    rows: Batch,
    at: usize,
    /// The parameters that the inner side depends on, and their version when it was hashed.
    depends: Option<Vec<usize>>,
    stamp: u64,
    /// Whether the table has the whole inner side.
    whole: bool,
}

/// Whether inner rows without a partner are kept.
fn keeps_inner(join: JoinType) -> bool {
    matches!(join, JoinType::Right | JoinType::Full)
}

impl HashJoin {
    pub fn new(outer: Child, inner: Child) -> HashJoin {
        HashJoin {
            source: Source::new(outer, inner),
            phase: Phase::Build,
            table: None,
            divided: None,
            probe: Probe::default(),
            rows: Batch::default(),
            at: 0,
            depends: None,
            stamp: 0,
            whole: false,
        }
    }

    /// Hashes inner rows until they end, or until it gives way.
    fn build(&mut self, node: &Node, cx: &Cx) -> ExecResult<Step> {
        kind!(
            node,
            HashJoin {
                inner,
                inner_keys,
                join
            }
        );
        loop {
            let step = self.source.next_inner(inner, cx, &mut self.rows)?;
            let table = match &mut self.table {
                Some(table) => table,
                none => none.insert(HashTable::new(inner.width, inner_keys, cx)),
            };
            match step {
                Step::Yield => return Ok(Step::Yield),
                Step::Done => break,
                Step::Rows => {}
            }
            for at in 0..self.rows.len() {
                let row = self.rows.row_mut(at);
                let complete = key_of(inner_keys, row, &mut self.probe.key, cx)?;
                if !complete && !keeps_inner(*join) && *join != JoinType::NullAwareAnti {
                    continue;
                }
                let hash = table.hash(&self.probe.key);
                let level = self.source.level();
                if let Some(divided) = &mut self.divided {
                    divided.inner[partition_of(hash, level)].push(row)?;
                    continue;
                }
                // NOT IN asks of all rows whether there is a NULL; rows with one hash cannot be
                // divided for ever.
                let divides = *join != JoinType::NullAwareAnti && level < MOST_LEVELS;
                let full = table.len() > 0 && table.bytes() >= cx.env.limits.work_mem;
                if !(full && divides) {
                    match table.insert(row, &mut self.probe.key, hash) {
                        Ok(()) => continue,
                        Err(refused) if !divides || table.len() == 0 => return Err(refused.into()),
                        Err(_) => {}
                    }
                }
                let divided = Divided::of(table, (inner_keys, level), &mut self.probe.key, cx)?;
                let divided = self.divided.insert(divided);
                divided.inner[partition_of(hash, level)].push(row)?;
                *table = HashTable::with_seed_of(table, inner.width, inner_keys, cx);
            }
            if cx.over(self.rows.len())? {
                return Ok(Step::Yield);
            }
        }
        self.whole = self.source.is_children() && self.divided.is_none();
        self.phase = if self.divided.is_some() {
            Phase::Divide
        } else {
            Phase::Probe
        };
        if let Some(table) = &mut self.table
            && keeps_inner(*join)
        {
            table.partners = vec![false; table.len()];
        }
        self.at = 0;
        self.rows.reset(0);
        self.probe.forget();
        Ok(Step::Rows)
    }

    /// Divides outer rows until they end, or until it gives way.
    fn divide(&mut self, node: &Node, cx: &Cx) -> ExecResult<Step> {
        kind!(node, HashJoin { outer, outer_keys });
        let (Some(table), Some(divided)) = (&self.table, &mut self.divided) else {
            return Err(ExecError::plan("a join that is not divided"));
        };
        loop {
            let step = self.source.next_outer(outer, cx, ALL, &mut self.rows)?;
            match step {
                Step::Yield => return Ok(Step::Yield),
                Step::Done => break,
                Step::Rows => {}
            }
            for at in 0..self.rows.len() {
                let row = self.rows.row(at);
                key_of(outer_keys, row, &mut self.probe.key, cx)?;
                let partition = partition_of(table.hash(&self.probe.key), self.source.level());
                divided.push_outer(partition, row, cx)?;
            }
            if cx.over(self.rows.len())? {
                return Ok(Step::Yield);
            }
        }
        self.next_pair();
        Ok(Step::Rows)
    }

    /// Goes on with the next pair of files.
    fn next_pair(&mut self) {
        let divided = self.divided.take();
        if self.source.next_pair(divided) {
            self.table = None;
            self.phase = Phase::Build;
        } else {
            self.phase = Phase::Done;
        }
        self.at = 0;
        self.rows.reset(0);
        self.probe.forget();
    }

    /// The next outer rows; the join goes on when there are none.
    fn next_outer(&mut self, node: &Node, cx: &Cx, want: usize) -> ExecResult<Step> {
        kind!(node, HashJoin { outer, join });
        let needs_inner = matches!(join, JoinType::Inner | JoinType::Semi | JoinType::Right);
        let none = self.table.as_ref().is_none_or(|table| table.len() == 0);
        self.at = 0;
        let step = if none && needs_inner {
            Step::Done
        } else {
            // One outer row may be enough for a bounded number of rows.
            let want = if want == ALL { ALL } else { 1 };
            self.source.next_outer(outer, cx, want, &mut self.rows)?
        };
        if step == Step::Done {
            self.rows.reset(0);
            if keeps_inner(*join) {
                self.phase = Phase::Unmatched;
            } else {
                self.next_pair();
            }
        }
        Ok(step)
    }
}

impl Operator for HashJoin {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        out.reset(node.width);
        let most = cx.most(want);
        loop {
            if out.is_full(most) {
                return Ok(Step::Rows);
            }
            let step = match self.phase {
                Phase::Done if out.is_empty() => return Ok(Step::Done),
                Phase::Done => return Ok(Step::Rows),
                Phase::Build => self.build(node, cx)?,
                Phase::Divide => self.divide(node, cx)?,
                Phase::Probe => {
                    let Some(table) = &mut self.table else {
                        return Err(ExecError::plan("a join without a table"));
                    };
                    let rows = &mut self.rows;
                    if !self
                        .probe
                        .run(node, cx, (table, rows, &mut self.at), most, out)?
                    {
                        Step::Rows
                    } else {
                        match self.next_outer(node, cx, want)? {
                            Step::Done => Step::Rows,
                            step => step,
                        }
                    }
                }
                Phase::Unmatched => {
                    if let Some(table) = &mut self.table
                        && self
                            .probe
                            .unmatched(node, cx, (table, &mut self.at), most, out)?
                    {
                        self.next_pair();
                    }
                    Step::Rows
                }
            };
            if step == Step::Yield || cx.over(self.rows.len() + 1)? {
                return Ok(if out.is_empty() {
                    Step::Yield
                } else {
                    Step::Rows
                });
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(
            node,
            HashJoin {
                outer,
                inner,
                inner_keys
            }
        );
        let depends = self.depends.get_or_insert_with(|| {
            let mut all = depends(inner, cx);
            all.extend(programs_depend(inner_keys, cx));
            all
        });
        let stamp = cx.stamp(depends);
        let keep = self.whole && self.table.is_some() && stamp == self.stamp;
        self.stamp = stamp;
        self.divided = None;
        self.rows.reset(0);
        self.at = 0;
        self.probe.forget();
        if keep {
            self.phase = Phase::Probe;
            if let Some(table) = &mut self.table {
                table.partners.fill(false);
            }
            return self.source.rescan(outer, None, cx);
        }
        self.whole = false;
        self.table = None;
        self.phase = Phase::Build;
        self.source.rescan(outer, Some(inner), cx)
    }
}
