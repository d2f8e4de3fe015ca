//! Groups found by a hash table; with grouping sets a row is in a group of each set. When memory
//! has no room for another group, rows of groups that are not there go to files by their hash,
//! and each file is aggregated by itself afterwards.

use evenkeel_engine::memory::Reservation;
use evenkeel_planner::plan::Node;
use evenkeel_types::Datum;

use super::group::{Group, push_group};
use crate::batch::{Batch, row_bytes};
use crate::context::{ALL, Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::hash_index::HashIndex;
use crate::key::{HashSeed, same};
use crate::partitions::{MOST_LEVELS, partition_of, partitions};
use crate::spill::{Cursor, RowStore};

/// Grouped columns that are as much work as a row.
const COLUMNS_OF_A_ROW: usize = 16;

/// Where rows are taken from.
enum Source {
    Child,
    /// A file of rows, each with its set's number, and how often they have been divided.
    File(Box<RowStore>, Cursor, u32),
}

pub(crate) struct Hashed {
    child: Child,
    source: Source,
    seed: HashSeed,
    index: HashIndex,
    /// The groups' keys: grouped columns, then the set's number.
    keys: Vec<Datum>,
    groups: Vec<Option<Group>>,
    reservation: Option<Reservation>,
    /// Files of the source at hand; those that wait, with their levels.
    files: Vec<RowStore>,
    waiting: Vec<(RowStore, u32)>,
    rows: Batch,
    /// The row of these that is taken in next, and the grouping set for which it is.
    at: usize,
    at_set: usize,
    args: Vec<Datum>,
    /// The group that is handed over next; none while rows are taken in.
    handing_over: Option<usize>,
    any_rows: bool,
    done: bool,
}

impl Hashed {
    pub fn new(child: Child) -> Hashed {
        Hashed {
            child,
            source: Source::Child,
            seed: HashSeed::new(),
            index: HashIndex::default(),
            keys: Vec::new(),
            groups: Vec::new(),
            reservation: None,
            files: Vec::new(),
            waiting: Vec::new(),
            rows: Batch::default(),
            at: 0,
            at_set: 0,
            args: Vec::new(),
            handing_over: None,
            any_rows: false,
            done: false,
        }
    }

    /// The next rows of the source.
    fn pull(&mut self, node: &Node, cx: &Cx) -> ExecResult<Step> {
        kind!(node, Aggregate { child });
        match &mut self.source {
            Source::Child => self.child.next(child, cx, ALL, &mut self.rows),
            Source::File(rows, cursor, _) => {
                self.rows.reset(rows.width());
                while self.rows.len() < cx.env.limits.batch && rows.read(cursor, &mut self.rows)? {}
                Ok(if self.rows.is_empty() {
                    Step::Done
                } else {
                    Step::Rows
                })
            }
        }
    }

    /// Takes in the rows at hand; false when it gives way before the last. With many grouping sets
    /// one row is the work of many.
    fn take_in(&mut self, node: &Node, cx: &Cx) -> ExecResult<bool> {
        kind!(node, Aggregate { child, sets, group });
        let work = 1 + group.len() / COLUMNS_OF_A_ROW;
        while self.at < self.rows.len() {
            self.any_rows = true;
            let mut last = true;
            if matches!(self.source, Source::Child) {
                self.take_in_row(node, self.at, self.at_set, cx)?;
                self.at_set += 1;
                last = self.at_set >= sets.len();
            } else {
                let set = self.rows.row(self.at).get(child.width);
                let Some(Datum::Int4(set)) = set else {
                    return Err(ExecError::plan("a row without its grouping set"));
                };
                let set = usize::try_from(*set).unwrap_or(0);
                self.take_in_row(node, self.at, set, cx)?;
            }
            if last {
                self.at += 1;
                self.at_set = 0;
            }
            if cx.over(work)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes in a row for one grouping set.
    fn take_in_row(&mut self, node: &Node, at: usize, set: usize, cx: &Cx) -> ExecResult<()> {
        kind!(
            node,
            Aggregate {
                child,
                group,
                sets,
                aggregates
            }
        );
        let row = &self.rows.row(at)[..child.width];
        if group.iter().any(|slot| *slot >= row.len()) {
            return Err(ExecError::plan("a column beyond its row"));
        }
        let number = Datum::Int4(i32::try_from(set).unwrap_or(i32::MAX));
        // The key is not copied out of the row unless it is a new group's.
        let kept = sets.get(set);
        let value = |(place, slot): (usize, &usize)| match kept {
            Some(set) if !set.contains(&place) => &Datum::Null,
            _ => &row[*slot],
        };
        let key = || group.iter().enumerate().map(value).chain([&number]);
        let hash = self.seed.hash(key());
        let width = group.len() + 1;
        let keys = &self.keys;
        let found = self.index.find(hash, |at| {
            let known = &keys[at * width..(at + 1) * width];
            known.iter().zip(key()).all(|(a, b)| same(a, b))
        });
        let Some(at_group) = found else {
            if self.is_full(cx) {
                return self.put_aside(node, at, hash, number, cx);
            }
            let new = Group::new(aggregates, cx)?;
            let key: Vec<Datum> = key().cloned().collect();
            let bytes = row_bytes(&key) + new.bytes() + HashIndex::ROW_BYTES;
            self.charge(bytes, cx)?;
            self.keys.extend(key);
            self.index.insert(hash);
            self.groups.push(Some(new));
            return self.add(node, at, self.groups.len() - 1, cx);
        };
        self.add(node, at, at_group, cx)
    }

    fn add(&mut self, node: &Node, at: usize, group: usize, cx: &Cx) -> ExecResult<()> {
        kind!(node, Aggregate { child, aggregates });
        let row = &self.rows.row(at)[..child.width];
        let Some(Some(group)) = self.groups.get_mut(group) else {
            return Ok(());
        };
        let before = group.bytes();
        group.add(aggregates, row, &mut self.args, cx)?;
        let after = group.bytes();
        if after > before {
            self.charge(after - before, cx)?;
        }
        Ok(())
    }

    fn charge(&mut self, bytes: usize, cx: &Cx) -> ExecResult<()> {
        let reservation = self.reservation.get_or_insert_with(|| cx.reservation());
        Ok(reservation.grow(bytes)?)
    }

    /// How often the rows of the source have been divided.
    fn level(&self) -> u32 {
        match &self.source {
            Source::Child => 0,
            Source::File(_, _, level) => *level,
        }
    }

    /// Whether no more groups are added. One group is, in any case.
    fn is_full(&self, cx: &Cx) -> bool {
        let used = self.reservation.as_ref().map_or(0, Reservation::bytes);
        !self.groups.is_empty()
            && (!self.files.is_empty() || used >= cx.env.limits.work_mem)
            && self.level() < MOST_LEVELS
    }

    /// Writes a row, with its grouping set, to a file.
    fn put_aside(
        &mut self,
        node: &Node,
        at: usize,
        hash: u64,
        set: Datum,
        cx: &Cx,
    ) -> ExecResult<()> {
        kind!(node, Aggregate { child });
        if self.files.is_empty() {
            self.files = partitions(child.width + 1, cx)?;
        }
        let mut row = self.rows.row(at)[..child.width].to_vec();
        row.push(set);
        let file = partition_of(hash, self.level());
        self.files[file].push(&row)
    }

    /// Hands over the groups; false when it gives way before the last.
    fn hand_over(
        &mut self,
        node: &Node,
        most: usize,
        cx: &Cx,
        out: &mut Batch,
    ) -> ExecResult<bool> {
        kind!(
            node,
            Aggregate {
                group,
                aggregates,
                sets
            }
        );
        let width = group.len() + 1;
        while let Some(next) = self.handing_over
            && next < self.groups.len()
            && !out.is_full(most)
        {
            let key = &mut self.keys[next * width..(next + 1) * width];
            let (values, set) = key.split_at_mut(group.len());
            if let Some(group) = &mut self.groups[next]
                && !group.settle(aggregates, values, cx)?
            {
                return Ok(false);
            }
            let set = match set {
                [Datum::Int4(set)] if !sets.is_empty() => Some(*set),
                _ => None,
            };
            if let Some(group) = self.groups[next].take() {
                push_group(values, group, set, cx, out)?;
            }
            self.handing_over = Some(next + 1);
        }
        Ok(true)
    }

    /// Groups of no rows: of grouping sets without columns.
    fn empty_sets(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(
            node,
            Aggregate {
                group,
                aggregates,
                sets
            }
        );
        for (number, _) in sets.iter().enumerate().filter(|(_, set)| set.is_empty()) {
            self.keys.resize(self.keys.len() + group.len(), Datum::Null);
            let number = i32::try_from(number).unwrap_or(i32::MAX);
            self.keys.push(Datum::Int4(number));
            self.groups.push(Some(Group::new(aggregates, cx)?));
        }
        Ok(())
    }

    /// Goes on with the next file; false when there is none.
    fn next_source(&mut self) -> bool {
        let level = self.level() + 1;
        let files = std::mem::take(&mut self.files).into_iter();
        let files = files.filter(|file| !file.is_empty());
        self.waiting.extend(files.map(|file| (file, level)));
        self.forget();
        let Some((file, level)) = self.waiting.pop() else {
            return false;
        };
        self.source = Source::File(Box::new(file), Cursor::default(), level);
        true
    }

    fn forget(&mut self) {
        self.index.clear();
        self.keys = Vec::new();
        self.groups = Vec::new();
        self.reservation = None;
        self.handing_over = None;
        self.rows.reset(0);
        (self.at, self.at_set) = (0, 0);
    }
}

impl Operator for Hashed {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(
            node,
            Aggregate {
                group,
                aggregates,
                sets
            }
        );
        out.reset(group.len() + aggregates.len() + usize::from(!sets.is_empty()));
        let most = cx.most(want);
        while !self.done {
            if self.handing_over.is_some() {
                let settled = self.hand_over(node, most, cx, out)?;
                if !out.is_empty() {
                    cx.over(out.len())?;
                    return Ok(Step::Rows);
                }
                if !settled {
                    return Ok(Step::Yield);
                }
                self.done = !self.next_source();
                continue;
            }
            if !self.take_in(node, cx)? {
                return Ok(Step::Yield);
            }
            match self.pull(node, cx)? {
                Step::Rows => (self.at, self.at_set) = (0, 0),
                Step::Yield => {
                    self.at = self.rows.len();
                    return Ok(Step::Yield);
                }
                Step::Done => {
                    if !self.any_rows {
                        self.empty_sets(node, cx)?;
                    }
                    self.handing_over = Some(0);
                }
            }
        }
        Ok(Step::Done)
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Aggregate { child });
        self.forget();
        self.source = Source::Child;
        self.files.clear();
        self.waiting.clear();
        self.any_rows = false;
        self.done = false;
        self.child.rescan(child, cx)
    }
}
