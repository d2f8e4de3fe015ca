//! The state that all operators of one execution share, and the operator itself.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_engine::memory::{Reservation, SessionMemory};
use evenkeel_engine::table::Table;
use evenkeel_engine::{CancelFlag, Doubt, Snapshot, Tid};
use evenkeel_expr::call::Session;
use evenkeel_expr::large_bytes;
use evenkeel_planner::plan::{HeldRow, Node, Plan};
use evenkeel_types::Datum;

use crate::any_set::AnySet;
use crate::batch::Batch;
use crate::error::{ExecError, ExecResult};
use crate::events::RowEvents;
use crate::measure::Measures;
use crate::relations::Relations;
use crate::spill::{RowStore, TempSpace};
use crate::writer::{Write, Writer, Written};

/// Rows of a batch.
const BATCH: usize = 256;
/// Rows of work between two looks at the clock and the cancel flag.
const LOOK_EVERY: u32 = 1024;
/// How long an execution works before it gives way to others.
const SLICE: Duration = Duration::from_millis(2);

/// A caller that wants all rows.
pub(crate) const ALL: usize = usize::MAX;

/// The outcome of asking an operator for rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// At least one row, and at most as many as were wanted.
    Rows,
    /// No row: it is at its end, and stays there until it is run again.
    Done,
    /// No row yet: the caller gives way and asks again.
    Yield,
}

/// An operator's running state. The plan's node that it runs is handed to each call: the state
/// borrows nothing from the plan.
pub(crate) trait Operator: Send {
    /// Replaces `out` by the next rows: at most `want`, and at most a batch. An operator
    /// evaluates no expression for rows beyond those wanted (RUN-3).
    fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step>;
    /// Begins anew, under the executor parameters as they are now. Also called before the first
    /// `next`.
    fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()>;
    /// No more than so many rows will be asked for until the next `rescan`.
    fn bound(&mut self, _node: &Node, _rows: usize) {}
}

/// A child operator.
pub(crate) struct Child(pub Box<dyn Operator>);

impl Child {
    /// [`Operator::next`].
    #[inline]
    pub fn next(&mut self, node: &Node, cx: &Cx, want: usize, out: &mut Batch) -> ExecResult<Step> {
        if cx.interrupts() {
            out.reset(out.width());
            return Ok(Step::Yield);
        }
        self.0.next(node, cx, want, out)
    }

    /// [`Operator::rescan`].
    pub fn rescan(&mut self, node: &Node, cx: &Cx) -> ExecResult<()> {
        self.0.rescan(node, cx)
    }

    /// [`Operator::bound`].
    pub fn bound(&mut self, node: &Node, rows: usize) {
        self.0.bound(node, rows);
    }
}

/// Bounds and ways of one execution.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes that one operator keeps before it uses temporary files (`work_mem`).
    pub work_mem: usize,
    /// Scans of large tables begin where another one is (`synchronize_seqscans`).
    pub synchronize_seqscans: bool,
    /// Most rows of a batch.
    pub batch: usize,
    /// How long it works before it gives way.
    pub slice: Duration,
    /// For tests: operators give way at random, from this seed.
    pub interrupt: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            work_mem: 4 << 20,
            synchronize_seqscans: true,
            batch: BATCH,
            slice: SLICE,
            interrupt: None,
        }
    }
}

/// The session's side of an execution.
pub struct Environment {
    /// Decides which rows are visible.
    pub snapshot: Snapshot,
    /// Where rows come from.
    pub relations: Arc<dyn Relations>,
    /// The session as functions see it.
    pub session: Arc<dyn Session>,
    /// The session's memory budget.
    pub memory: Arc<SessionMemory>,
    /// Ends the execution when it is raised.
    pub cancel: CancelFlag,
    /// Where rows go that memory has no room for.
    pub temp: Arc<TempSpace>,
    /// Where changes of rows are noted that foreign keys look at.
    pub events: Arc<RowEvents>,
    /// A fixed snapshot that must see the rows that are changed, if they are found by another.
    pub cross_check: Option<Snapshot>,
    /// Bounds.
    pub limits: Limits,
}

/// An executor parameter.
#[derive(Debug, Default)]
struct ExecParam {
    value: Option<Datum>,
    /// The charge of a large value.
    charge: Option<Reservation>,
    /// When it was set, among all settings.
    version: u64,
    /// The subplan that computes it when it is first asked for.
    source: Option<usize>,
}

/// The working table of a recursive union.
struct WorkingTable {
    union_id: usize,
    rows: Arc<RowStore>,
    /// When it was set, among all settings.
    version: u64,
}

/// The number by which a working table is among the parameters that something depends on.
pub(crate) fn working_param(union_id: usize) -> usize {
    usize::MAX - union_id
}

/// The rows of a subplan that are kept.
#[derive(Default)]
pub(crate) struct Kept {
    /// The rows read so far.
    pub store: Option<RowStore>,
    /// Whether that is all.
    pub complete: bool,
    /// The version of what it depends on.
    pub stamp: u64,
    /// The first column's values, hashed when they are first looked up; within it none where
    /// they are too many.
    pub any: Option<Option<AnySet>>,
}

/// A subplan's running state.
pub(crate) struct SubplanState {
    /// Its operator; taken out while it runs.
    pub root: Option<Child>,
    /// Its rows, if it is one that keeps them.
    pub kept: Kept,
    /// For a parameter's subplan: the version of what it depended on when it ran.
    pub stamp: u64,
}

/// Executor parameters that subplans depend on, by the subplans' numbers, as far as they were asked
/// for: of subplans that ask for one another each is walked once.
pub(crate) type Known = RefCell<HashMap<usize, Arc<[usize]>>>;

/// The one row that an operator with a mark gives in a re-check.
#[derive(Debug, Clone)]
pub(crate) enum Fixed {
    /// An outer join had no row of it.
    Nothing,
    /// A version of a table's row, with its place.
    Stored(Tid, Arc<[u8]>),
    /// The values, for what is not stored.
    Values(Arc<[Datum]>),
}

/// Makes operators for a node and those below it.
pub(crate) type Build = fn(&Node, &[HeldRow]) -> ExecResult<Child>;

/// A parameter's number, value and version.
pub(crate) type SavedParam = (usize, Option<Datum>, u64);

/// The state that all operators of one execution share.
pub(crate) struct Cx {
    pub plan: Arc<Plan>,
    pub params: Vec<Datum>,
    pub env: Environment,
    exec: RefCell<Vec<ExecParam>>,
    pub subplans: Vec<RefCell<SubplanState>>,
    /// Parameters that the subplans depend on.
    pub known: Known,
    /// Working tables of recursive unions, by their number.
    working: RefCell<Vec<WorkingTable>>,
    /// Makes operators for a re-check.
    pub rebuild: Build,
    /// Where rows are changed and locked, if they are.
    pub writer: Option<Arc<dyn Writer>>,
    /// Whether a write waits for another transaction.
    waits: Cell<bool>,
    /// Rows that the statement has changed.
    changed: Cell<u64>,
    /// The rows of operators with a mark, in a re-check.
    pub fixed_rows: RefCell<Vec<(usize, Fixed)>>,
    /// Counts the times that a parameter or working table was set.
    versions: Cell<u64>,
    left: Cell<u32>,
    /// Programs that were evaluated, as far as the next question to the session needs it.
    evaluated: Cell<u8>,
    since: Cell<Option<Instant>>,
    /// The measures of its operators, if it is measured.
    pub measures: Option<Measures>,
    /// Why a subplan failed, while the failure passes through an expression.
    failure: RefCell<Option<ExecError>>,
    random: Cell<u64>,
}

/// Evaluations between two questions to the session: one of a thousand terms takes some 20 us.
const EVALUATIONS: u8 = 64;

impl Cx {
    pub fn new(
        plan: Arc<Plan>,
        params: Vec<Datum>,
        env: Environment,
        subplans: Vec<RefCell<SubplanState>>,
        sources: &[(usize, usize)],
        rebuild: Build,
    ) -> ExecResult<Cx> {
        let mut exec = Vec::new();
        exec.resize_with(plan.exec_params, ExecParam::default);
        for (param, subplan) in sources {
            let slot: Option<&mut ExecParam> = exec.get_mut(*param);
            let slot = slot.ok_or_else(|| ExecError::plan("a subplan for no parameter"))?;
            slot.source = Some(*subplan);
        }
        Ok(Cx {
            random: Cell::new(env.limits.interrupt.map_or(0, |seed| seed | 1)),
            plan,
            params,
            env,
            exec: RefCell::new(exec),
            subplans,
            known: Known::default(),
            working: RefCell::default(),
            rebuild,
            writer: None,
            waits: Cell::new(false),
            changed: Cell::new(0),
            fixed_rows: RefCell::default(),
            versions: Cell::new(0),
            left: Cell::new(LOOK_EVERY),
            evaluated: Cell::new(0),
            since: Cell::new(None),
            measures: None,
            failure: RefCell::default(),
        })
    }

    /// Most rows that an operator puts into a batch for a caller that wants `want`.
    #[inline]
    pub fn most(&self, want: usize) -> usize {
        want.min(self.env.limits.batch)
    }

    /// Rows that an operator asks of its child when it has `have` of the rows wanted. `ALL` stays
    /// `ALL`, since a bounded number is taken as exact.
    #[inline]
    pub fn rest(want: usize, have: usize) -> usize {
        if want == ALL { ALL } else { want - have }
    }

    /// Begins a slice of work.
    pub fn begin_slice(&self) {
        self.since.set(None);
        self.waits.set(false);
    }

    /// Begins a write; none if it waits.
    pub fn write(&self, table: &Arc<Table>, write: Write) -> ExecResult<Option<Written>> {
        let written = self.writer()?.start(table, &self.env.snapshot, write)?;
        self.waits.set(written.is_none());
        Ok(written)
    }

    /// Goes on with the write that waits.
    pub fn resume_write(&self) -> ExecResult<Option<Written>> {
        let written = self.writer()?.resume()?;
        self.waits.set(written.is_none());
        Ok(written)
    }

    /// The places of the rows that were inserted together last.
    pub fn placed(&self) -> ExecResult<Vec<Tid>> {
        Ok(self.writer()?.placed())
    }

    /// The doubts about keys of the rows written since the last call.
    pub fn doubts(&self) -> ExecResult<Vec<Doubt>> {
        Ok(self.writer()?.doubts())
    }

    fn writer(&self) -> ExecResult<&dyn Writer> {
        let writer = self.writer.as_deref();
        writer.ok_or_else(|| ExecError::plan("a change without a transaction"))
    }

    /// Whether a write waits.
    pub fn waits(&self) -> bool {
        self.waits.get()
    }

    /// Waits on this thread for the write that waits, if one does.
    pub fn wait(&self) {
        if self.waits.replace(false)
            && let Some(writer) = &self.writer
        {
            evenkeel_engine::block_on(writer.wait());
        }
    }

    /// Counts a changed row of the statement itself, not of its WITH queries.
    pub fn count_change(&self, node: &Node) {
        self.count_changes(node, 1);
    }

    /// As [`Cx::count_change`], of many rows.
    pub fn count_changes(&self, node: &Node, rows: usize) {
        if std::ptr::eq(node, &self.plan.root) {
            self.changed.set(self.changed.get() + rows as u64);
        }
    }

    /// The rows that the statement has changed.
    pub fn changed(&self) -> u64 {
        self.changed.get()
    }

    /// Counts `work` rows. True when the operator must give way; it may put that off until it
    /// has handed over the rows that it has.
    ///
    /// # Errors
    /// A raised cancel flag.
    #[inline]
    pub fn over(&self, work: usize) -> ExecResult<bool> {
        let left = self.left.get() as usize;
        if work < left {
            self.left.set((left - work) as u32);
            return Ok(false);
        }
        self.look()
    }

    /// Counts an evaluation: rows say little of the time that long expressions take.
    ///
    /// # Errors
    /// 57014.
    #[inline]
    pub fn count_evaluation(&self) -> ExecResult<()> {
        let count = self.evaluated.get().wrapping_add(1);
        self.evaluated.set(count);
        match count % EVALUATIONS {
            0 => Ok(self.env.session.check_cancel()?),
            _ => Ok(()),
        }
    }

    #[cold]
    fn look(&self) -> ExecResult<bool> {
        self.env.cancel.check()?;
        self.left.set(LOOK_EVERY);
        match self.since.get() {
            None => {
                self.since.set(Some(Instant::now()));
                Ok(false)
            }
            Some(since) => Ok(since.elapsed() >= self.env.limits.slice),
        }
    }

    /// Whether a test wants this call to give way.
    #[inline]
    fn interrupts(&self) -> bool {
        let mut state = self.random.get();
        if state == 0 {
            return false;
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.random.set(state);
        state.is_multiple_of(3)
    }

    /// An empty reservation in the session's budget.
    pub fn reservation(&self) -> Reservation {
        Reservation::new(&self.env.memory)
    }

    fn next_version(&self) -> u64 {
        self.versions.set(self.versions.get() + 1);
        self.versions.get()
    }

    /// The parameters that a re-check may set for a while. Those of subplans know themselves
    /// whether they are still valid.
    pub fn save_params(&self) -> Vec<SavedParam> {
        let exec = self.exec.borrow();
        let params = exec.iter().enumerate();
        let params = params.filter(|(_, param)| param.source.is_none());
        let saved = params.map(|(number, param)| (number, param.value.clone(), param.version));
        saved.collect()
    }

    /// Sets them as they were. No setting in between has their versions.
    pub fn restore_params(&self, saved: Vec<SavedParam>) {
        let mut exec = self.exec.borrow_mut();
        for (number, value, version) in saved {
            let param = &mut exec[number];
            (param.value, param.version) = (value, version);
        }
    }

    /// Sets an executor parameter.
    ///
    /// # Errors
    /// XX000 for one that the plan has not; 53200.
    pub fn set_exec(&self, number: usize, value: Datum) -> ExecResult<()> {
        let mut exec = self.exec.borrow_mut();
        let param = exec.get_mut(number);
        let param = param.ok_or_else(|| ExecError::plan("a parameter it has not"))?;
        // The value before is dropped before this one is charged.
        (param.value, param.charge) = (None, None);
        if large_bytes(&value) != 0 {
            let charge = Reservation::of(&self.env.memory, large_bytes(&value))?;
            param.charge = Some(charge);
        }
        param.value = Some(value);
        param.version = self.next_version();
        Ok(())
    }

    /// An executor parameter's value, and the subplan that computes it.
    pub fn exec_value(&self, number: usize) -> ExecResult<(Option<Datum>, Option<usize>)> {
        let exec = self.exec.borrow();
        let param = exec.get(number);
        let param = param.ok_or_else(|| ExecError::plan("a parameter it has not"))?;
        Ok((param.value.clone(), param.source))
    }

    /// A number that is another whenever one of these parameters has been set.
    pub fn stamp(&self, params: &[usize]) -> u64 {
        if params.is_empty() {
            return 0;
        }
        let exec = self.exec.borrow();
        let working = self.working.borrow();
        let version = |number: &usize| match exec.get(*number) {
            Some(param) => param.version,
            None => working
                .iter()
                .find(|table| working_param(table.union_id) == *number)
                .map_or(0, |table| table.version),
        };
        params.iter().map(version).max().unwrap_or(0)
    }

    /// Sets the working table of a recursive union.
    pub fn set_working(&self, union_id: usize, rows: Arc<RowStore>) {
        let mut working = self.working.borrow_mut();
        let version = self.next_version();
        match working.iter_mut().find(|table| table.union_id == union_id) {
            Some(table) => {
                table.rows = rows;
                table.version = version;
            }
            None => working.push(WorkingTable {
                union_id,
                rows,
                version,
            }),
        }
    }

    /// The working table of a recursive union.
    pub fn working(&self, union_id: usize) -> Option<Arc<RowStore>> {
        let working = self.working.borrow();
        let found = working.iter().find(|table| table.union_id == union_id);
        found.map(|table| Arc::clone(&table.rows))
    }

    /// Keeps the failure of a subplan until the expression that asked for it has returned.
    pub fn fail(&self, error: ExecError) {
        *self.failure.borrow_mut() = Some(error);
    }

    /// The failure that an expression's error stands for.
    pub fn failed(&self) -> Option<ExecError> {
        self.failure.borrow_mut().take()
    }
}
