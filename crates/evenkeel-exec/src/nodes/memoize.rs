//! Keeps its child's rows by the values of some parameters, those used last.

use std::collections::{HashMap, VecDeque};

use evenkeel_engine::memory::Reservation;
use evenkeel_planner::plan::Node;
use evenkeel_types::Datum;
use smallvec::SmallVec;

use crate::batch::{Batch, row_bytes};
use crate::context::{Child, Cx, Operator, Step};
use crate::error::{ExecError, ExecResult};
use crate::key::{HashSeed, same_keys};
use crate::walk::depends;

/// The rows for one key, all of them.
struct Entry {
    key: Vec<Datum>,
    rows: Batch,
    bytes: usize,
    /// When it was used last.
    used: u64,
}

/// Source of the rows since the parameters were set.
enum Source {
    /// An entry, by its hash and key, and the row that comes next.
    Kept(u64, usize),
    /// The child; what it has given is gathered to be kept, unless it is too much.
    Child(u64, Option<Batch>),
    Done,
}

pub(crate) struct Memoize {
    child: Child,
    seed: HashSeed,
    entries: HashMap<u64, SmallVec<[Entry; 1]>>,
    /// Hashes and times of use, the oldest first; an entry used again is there again.
    uses: VecDeque<(u64, u64)>,
    clock: u64,
    reservation: Option<Reservation>,
    key: Vec<Datum>,
    source: Source,
    /// The other parameters that the child depends on.
    depends: Option<Vec<usize>>,
    stamp: u64,
}

impl Memoize {
    pub fn new(child: Child) -> Memoize {
        Memoize {
            child,
            seed: HashSeed::new(),
            entries: HashMap::new(),
            uses: VecDeque::new(),
            clock: 0,
            reservation: None,
            key: Vec::new(),
            source: Source::Done,
            depends: None,
            stamp: 0,
        }
    }

    fn entry(&mut self, hash: u64) -> Option<&mut Entry> {
        let entries = self.entries.get_mut(&hash)?;
        entries
            .iter_mut()
            .find(|entry| same_keys(&entry.key, &self.key))
    }

    /// Forgets the entry that was not used for longest; false when there is none.
    fn forget_one(&mut self) -> bool {
        while let Some((hash, used)) = self.uses.pop_front() {
            let Some(entries) = self.entries.get_mut(&hash) else {
                continue;
            };
            if let Some(at) = entries.iter().position(|entry| entry.used == used) {
                let entry = entries.remove(at);
                if entries.is_empty() {
                    self.entries.remove(&hash);
                }
                if let Some(reservation) = &mut self.reservation {
                    reservation.shrink(entry.bytes);
                }
                return true;
            }
        }
        false
    }

    /// Keeps rows, if there is room for them.
    fn keep(&mut self, hash: u64, rows: Batch, cx: &Cx) {
        let each = rows.rows().map(row_bytes);
        let bytes = each.sum::<usize>() + row_bytes(&self.key) + size_of::<Entry>();
        let limit = cx.env.limits.work_mem;
        if bytes > limit {
            return;
        }
        loop {
            let reservation = self.reservation.get_or_insert_with(|| cx.reservation());
            if reservation.bytes() + bytes <= limit && reservation.grow(bytes).is_ok() {
                break;
            }
            if !self.forget_one() {
                return;
            }
        }
        self.clock += 1;
        self.uses.push_back((hash, self.clock));
        let entry = Entry {
            key: std::mem::take(&mut self.key),
            rows,
            bytes,
            used: self.clock,
        };
        self.entries.entry(hash).or_default().push(entry);
    }

    /// Notes the use of an entry. The list of uses stays about as long as that of entries.
    fn note_use(&mut self, hash: u64) {
        self.clock += 1;
        let clock = self.clock;
        if let Some(entry) = self.entry(hash) {
            entry.used = clock;
        }
        self.uses.push_back((hash, clock));
        if self.uses.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.uses.retain(|(hash, used)| {
                let entries = entries.get(hash).into_iter().flatten();
                entries.into_iter().any(|entry| entry.used == *used)
            });
        }
    }
}

impl Operator for Memoize {
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        kind!(node, Memoize { child });
        out.reset(child.width);
        let most = cx.most(want);
        match &mut self.source {
            Source::Done => Ok(Step::Done),
            Source::Kept(hash, at) => {
                let (hash, mut next) = (*hash, *at);
                if let Some(entry) = self.entry(hash) {
                    while next < entry.rows.len() && !out.is_full(most) {
                        out.push_row(entry.rows.row(next));
                        next += 1;
                    }
                }
                self.source = Source::Kept(hash, next);
                Ok(if out.is_empty() {
                    Step::Done
                } else {
                    Step::Rows
                })
            }
            Source::Child(hash, gathered) => {
                let step = self.child.next(child, cx, want, out)?;
                if step == Step::Done {
                    let (hash, gathered) = (*hash, gathered.take());
                    self.source = Source::Done;
                    if let Some(rows) = gathered {
                        self.keep(hash, rows, cx);
                    }
                    return Ok(Step::Done);
                }
                if let Some(rows) = gathered {
                    out.rows().for_each(|row| rows.push_row(row));
                    let bytes = rows.rows().take(1).map(row_bytes).sum::<usize>() * rows.len();
                    if bytes > cx.env.limits.work_mem {
                        *gathered = None;
                    }
                }
                Ok(step)
            }
        }
    }

    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        kind!(node, Memoize { child, keys });
        let others = self.depends.get_or_insert_with(|| {
            let mut depends = depends(child, cx);
            depends.retain(|param| !keys.contains(param));
            depends
        });
        let stamp = cx.stamp(others);
        if stamp != self.stamp {
            self.stamp = stamp;
            self.entries.clear();
            self.uses.clear();
            self.reservation = None;
        }
        self.key.clear();
        for param in keys {
            let (value, _) = cx.exec_value(*param)?;
            let value = value.ok_or_else(|| ExecError::plan("a parameter that nothing has set"))?;
            self.key.push(value);
        }
        let hash = self.seed.hash(&self.key);
        if self.entry(hash).is_some() {
            self.note_use(hash);
            self.source = Source::Kept(hash, 0);
            return Ok(());
        }
        self.source = Source::Child(hash, Some(Batch::new(child.width)));
        self.child.rescan(child, cx)
    }
}
