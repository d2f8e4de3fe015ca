//! The findings of a check, and how far it has come.

use evenkeel_storage::PageId;

/// Problems reported at most; the rest is only counted.
const PROBLEMS_MAX: usize = 100;

/// The findings of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Blocks of the heap.
    pub blocks: u32,
    /// Row versions in it.
    pub tuples: u64,
    /// Entries of all indexes.
    pub index_entries: u64,
    /// Problems found, each naming file, block and slot; at most 100.
    pub problems: Vec<String>,
    /// How many problems there are.
    pub problem_count: u64,
    /// Pages that could not be loaded, when all of them were read.
    pub damaged: Vec<PageId>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problem_count == 0
    }

    /// Adds the problems of another check.
    pub(crate) fn include(&mut self, other: CheckReport) {
        let room = PROBLEMS_MAX.saturating_sub(self.problems.len());
        self.problem_count += other.problem_count;
        self.problems.extend(other.problems.into_iter().take(room));
    }

    pub(crate) fn add(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

/// How far a check has come.
#[derive(Clone, Copy, Debug)]
pub struct CheckStep<'a> {
    /// The index that is read; none for the heap.
    pub index: Option<&'a str>,
    /// Blocks seen.
    pub blocks_done: u32,
    /// Blocks there are.
    pub blocks: u32,
}
