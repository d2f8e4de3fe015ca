//! The plan: an immutable tree of physical operators that the row executor runs.
//!
//! A node's *raw* row is described with its kind; `filter` are conjuncts over it, `project`, if
//! given, makes the output row from it, else the raw row is the output. All programs of a node are
//! over the raw row unless said otherwise.

use std::sync::Arc;

use evenkeel_expr::proc::Proc;
use evenkeel_expr::program::Program;
use evenkeel_types::SqlType;

use crate::ast::{FrameExclude, FrameUnit, LockStrength, LockWait, MergeWhen};
use crate::bound::RowRule;
use crate::relation::{Oid, Relation, SystemColumn};

/// A statement's plan.
#[derive(Debug)]
pub struct Plan {
    /// The operator that gives the result.
    pub root: Node,
    /// Subplans, by the numbers that programs and nodes use.
    pub subplans: Vec<Subplan>,
    /// Number of executor parameters.
    pub exec_params: usize,
    /// The result's columns.
    pub columns: Vec<OutputColumn>,
    /// The types of the statement's parameters.
    pub params: Vec<SqlType>,
    /// The relations it reads or changes, for their locks.
    pub relations: Vec<Arc<Relation>>,
    /// Those of them that it changes.
    pub changed: Vec<Oid>,
    /// Those of them whose rows it locks.
    pub locked: Vec<Oid>,
}

/// Levels of operators that any stack has room to drop.
const SHALLOW: usize = 200;
/// Stack that dropping an operator needs, besides what is in it.
const LEVEL_BYTES: usize = 2 << 10;
/// Stack that dropping the programs of an operator needs.
const PROGRAM_BYTES: usize = 1 << 20;

impl Plan {
    /// Takes the operators of a plan that will not run.
    pub fn take_root(mut self) -> Node {
        std::mem::replace(&mut self.root, Node::nothing())
    }
}

impl Drop for Plan {
    /// An operator drops those below it within its own drop, and the last owner of a plan may be a
    /// thread with a small stack: deep ones are dropped on a stack that is made for it.
    fn drop(&mut self) {
        let subplans = self.subplans.iter().map(|subplan| &subplan.root);
        let depth = subplans.map(Node::depth).max().max(Some(self.root.depth()));
        let depth = depth.unwrap_or_default();
        if depth > SHALLOW {
            stacker::grow(depth * LEVEL_BYTES + PROGRAM_BYTES, || {
                self.root = Node::nothing();
                self.subplans.clear();
            });
        }
    }
}

/// A column of the result.
#[derive(Debug, Clone)]
pub struct OutputColumn {
    /// Its name.
    pub name: Arc<str>,
    /// The type of its values.
    pub ty: SqlType,
    /// The same, or the domain that it is declared as.
    pub declared: SqlType,
    /// The relation and column (from 1) that it comes from, if it is nothing else.
    pub origin: Option<(Oid, i16)>,
}

/// A plan within the plan.
#[derive(Debug)]
pub struct Subplan {
    /// The name of a common table expression.
    pub name: Option<Arc<str>>,
    /// Its operator.
    pub root: Node,
    /// When it runs.
    pub kind: SubplanUse,
}

/// When a subplan runs.
#[derive(Debug, Clone, PartialEq)]
pub enum SubplanUse {
    /// Whenever a program asks, with its parameters set.
    PerRow,
    /// Whenever a program asks; it depends on nothing, so its rows are kept.
    Kept,
    /// Once, when this executor parameter is first asked for: a scalar (or EXISTS, which gives a
    /// boolean).
    Once {
        param: usize,
        exists: bool,
        /// `ARRAY(…)` of this element type.
        array: Option<SqlType>,
    },
    /// A common table expression that is read by [`NodeKind::CteScan`], kept as it is read.
    Cte,
}

/// An operator.
#[derive(Debug)]
pub struct Node {
    /// The operation.
    pub kind: NodeKind,
    /// Conjuncts, in the order in which they are asked.
    pub filter: Vec<Program>,
    /// The output row.
    pub project: Option<Vec<Program>>,
    /// Number of columns of the output row.
    pub width: usize,
    /// The number by which a re-check fixes this operator's row (see [`HeldRow`]). The raw row then
    /// has one column more, its last: for scans of tables the row's place as an int8, block and
    /// line pointer (`block << 16 | pointer`), for others `true`.
    pub mark: Option<usize>,
    /// The planner's estimate.
    pub estimate: Estimate,
    /// For EXPLAIN, where the plan was made for that.
    pub notes: Option<Box<Notes>>,
}

/// An operator's properties in EXPLAIN besides its costs, in PostgreSQL's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// `Node Type`
    pub node_type: &'static str,
    /// `Operation`, of a change: the title of the text form.
    pub operation: Option<&'static str>,
    /// `Join Type`, for a join that is not inner.
    pub join_type: Option<&'static str>,
    /// The relation and its name in the query.
    pub relation: Option<(Arc<str>, Arc<str>)>,
    /// The index.
    pub index: Option<Arc<str>>,
    /// Whether an index is read backward.
    pub backward: bool,
    /// `Index Cond`, `Filter`, `Sort Key`, … in the order in which they are shown.
    pub details: Vec<(&'static str, Detail)>,
}

/// A property of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// One text.
    Text(String),
    /// Several.
    List(Vec<String>),
}

/// The planner's estimate of an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// Cost until the first row.
    pub startup: f64,
    /// Cost of all rows.
    pub total: f64,
    /// Rows of one execution.
    pub rows: f64,
    /// Average bytes of a row.
    pub bytes: f64,
}

/// An element of a sort order: a column of the input row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortColumn {
    /// The slot.
    pub slot: usize,
    /// Descending.
    pub desc: bool,
    /// NULLs before all values.
    pub nulls_first: bool,
}

/// Scans of what a subplan parameter, an outer join's row or a parameter decides are run again
/// (`rescan`) when one of the executor parameters that they use is set anew.
#[derive(Debug)]
pub enum NodeKind {
    /// One row without columns, if the conditions (which look at no row) hold.
    Result { conditions: Vec<Program> },
    /// Rows of expressions that look at no row.
    Values(Vec<Vec<Program>>),
    /// The columns `columns` of a table's visible rows, in the order of the heap.
    SeqScan {
        relation: Arc<Relation>,
        columns: Vec<usize>,
    },
    /// The same, found by an index, in its order or backward. `filter` is asked of every row.
    IndexScan {
        relation: Arc<Relation>,
        /// Which of [`Relation::indexes`].
        index: usize,
        columns: Vec<usize>,
        keys: IndexKeys,
        backward: bool,
        /// Whether the index's own columns are all that is looked at: the rows come from its keys.
        /// `columns` are the table's all the same. Never with a mark.
        only: bool,
    },
    /// The same, of the rows whose places the bitmap has, in the order of the heap. `recheck` is
    /// asked of a row of a page that is meant as a whole, `filter` of every row.
    BitmapHeapScan {
        relation: Arc<Relation>,
        columns: Vec<usize>,
        /// [`NodeKind::BitmapIndexScan`] or [`NodeKind::BitmapCombine`].
        bitmap: Box<Node>,
        recheck: Vec<Program>,
    },
    /// The places of rows that an index finds: only within a bitmap.
    BitmapIndexScan {
        relation: Arc<Relation>,
        index: usize,
        keys: IndexKeys,
    },
    /// The places that all of some bitmaps have, or any of them: only within a bitmap.
    BitmapCombine { bitmaps: Vec<Node>, all: bool },
    /// Rows that the server makes: catalogs and statistics views.
    VirtualScan {
        relation: Arc<Relation>,
        columns: Vec<usize>,
    },
    /// Functions side by side (padded with NULL), each with so many columns; with `ordinality` a
    /// last column counts.
    FunctionScan {
        calls: Vec<SetCall>,
        ordinality: bool,
    },
    /// The rows of a [`SubplanUse::Cte`] subplan.
    CteScan { subplan: usize },
    /// The rows that the recursive union's last step added.
    WorkingScan { union_id: usize },
    /// The rows of the child (for filters and projections that need a node of their own).
    Project { child: Box<Node> },
    /// Select lists with set-returning functions: each item is a program or a call; the others are
    /// repeated, functions that end early give NULL.
    ProjectSet {
        child: Box<Node>,
        items: Vec<SetItem>,
    },
    /// For each outer row the inner rows. Raw row: outer columns, then inner columns (outer only
    /// for Semi and Anti). `params` are set from the outer row before the inner side runs again.
    NestedLoop {
        outer: Box<Node>,
        inner: Box<Node>,
        join: JoinType,
        params: Vec<(usize, usize)>,
        /// The join's condition, over outer and inner columns.
        condition: Vec<Program>,
    },
    /// The inner side is hashed by its keys. Raw row as for a nested loop; `Right*` types join and
    /// keep by the inner side. Keys are equal by the types' equality; NULLs are equal to nothing.
    HashJoin {
        outer: Box<Node>,
        inner: Box<Node>,
        join: JoinType,
        /// Over the outer row.
        outer_keys: Vec<Program>,
        /// Over the inner row.
        inner_keys: Vec<Program>,
        /// Further join conditions, over outer and inner columns.
        condition: Vec<Program>,
    },
    /// Both sides are ordered by the keys. Raw row as for a nested loop.
    MergeJoin {
        outer: Box<Node>,
        inner: Box<Node>,
        join: JoinType,
        /// Slots of outer and inner row.
        keys: Vec<(SortColumn, usize)>,
        condition: Vec<Program>,
    },
    /// Keeps the child's rows for further runs.
    Materialize { child: Box<Node> },
    /// Keeps the child's rows by the values of the executor parameters that it depends on.
    Memoize { child: Box<Node>, keys: Vec<usize> },
    /// The child's rows in order; with `presorted` they are ordered by so many columns already.
    /// With a bound only so many are needed, if the executor finds the limit above it constant.
    Sort {
        child: Box<Node>,
        keys: Vec<SortColumn>,
        presorted: usize,
        bounded: bool,
    },
    /// Skips and ends; `ties` are the columns by which rows tie with the last.
    Limit {
        child: Box<Node>,
        offset: Option<Program>,
        count: Option<Program>,
        ties: Option<Vec<SortColumn>>,
    },
    /// Groups. Raw row: grouped columns (NULL where a grouping set leaves them out), then
    /// aggregates, then with several sets the number of the set.
    Aggregate {
        child: Box<Node>,
        strategy: AggregateStrategy,
        /// Slots of the child's row.
        group: Vec<usize>,
        /// Grouping sets over `group`, by place; empty for one set of all.
        sets: Vec<Vec<usize>>,
        aggregates: Vec<Aggregate>,
    },
    /// The child's rows, ordered by partition and order, with the functions' values after them.
    Window {
        child: Box<Node>,
        partition: Vec<usize>,
        order: Vec<SortColumn>,
        frame: Frame,
        functions: Vec<WindowCall>,
    },
    /// Leaves out rows equal to the one before in these columns.
    Unique {
        child: Box<Node>,
        columns: Vec<usize>,
    },
    /// The rows of all children, one child after the other.
    Append { children: Vec<Node> },
    /// Children that are each in this order, merged.
    MergeAppend {
        children: Vec<Node>,
        keys: Vec<SortColumn>,
    },
    /// `INTERSECT` or `EXCEPT`, by hashing whole rows; NULLs are equal.
    SetOperation {
        left: Box<Node>,
        right: Box<Node>,
        except: bool,
        all: bool,
    },
    /// The first term's rows, then the second's until it adds none. Without `all` rows that were
    /// there are left out. `union_id` names its working table.
    RecursiveUnion {
        union_id: usize,
        first: Box<Node>,
        step: Box<Node>,
        all: bool,
    },
    /// Locks the rows of tables that the child's rows were made from. A child's row that a newer
    /// version changes is made again from that, as `held` says.
    LockRows {
        child: Box<Node>,
        marks: Vec<RowMark>,
        held: Vec<HeldRow>,
    },
    /// Changes a table's rows by the child's. Raw row: the child's columns, then the table's
    /// columns before the change (NULL for an inserted row) and after it (NULL for a deleted one),
    /// and for both whether they are there, `true` or NULL; for MERGE then the columns of the row
    /// that is there after the change or, of a deleted one, was there before it, and the name of
    /// the action. Without `project` it gives no rows. A row to be stored gets the values of its
    /// generated columns, by position, from its other columns.
    ModifyTable {
        child: Box<Node>,
        relation: Arc<Relation>,
        change: RowChange,
        held: Vec<HeldRow>,
        generated: Vec<(usize, Program)>,
        checks: Vec<Check>,
        /// System columns that the raw row ends with, of the version before or after the change;
        /// NULL where there is none.
        system: Vec<(Side, SystemColumn)>,
    },
}

/// A row's version before or after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Before it.
    Old,
    /// After it.
    New,
}

/// A CHECK constraint of a table whose rows are changed.
#[derive(Debug)]
pub struct Check {
    /// The rule.
    pub rule: RowRule,
    /// Its condition over the columns of the row to be stored, which may not be false.
    pub condition: Program,
}

/// How a row of [`NodeKind::ModifyTable`]'s child changes the table.
#[derive(Debug)]
pub enum RowChange {
    /// Its first columns are the table's.
    Insert { conflict: Option<OnConflict> },
    /// Its first columns are the new values of these columns; the row's place is in slot `row`.
    Update { columns: Vec<usize>, row: usize },
    /// The row's place is in this slot.
    Delete { row: usize },
    /// The action of the first clause whose condition holds.
    Merge(Merge),
}

/// The actions of MERGE on a row of its join.
#[derive(Debug)]
pub struct Merge {
    /// The slot of the target row's place; NULL where no target row matches.
    pub row: usize,
    /// Slots of which all are NULL where no source row matches, and no others are.
    pub source: Vec<usize>,
    /// The clauses, in order.
    pub clauses: Vec<MergeClause>,
}

/// A WHEN clause. Its programs are over the child's row, then the target's columns before the
/// change.
#[derive(Debug)]
pub struct MergeClause {
    /// The rows that it is for.
    pub when: MergeWhen,
    /// Conjuncts that must hold.
    pub condition: Vec<Program>,
    /// Its action.
    pub action: MergeAction,
}

/// An action of MERGE.
#[derive(Debug)]
pub enum MergeAction {
    /// Inserts a row of these values.
    Insert(Vec<Program>),
    /// Sets these columns.
    Update(Vec<(usize, Program)>),
    /// Deletes the row.
    Delete,
    /// Nothing.
    Nothing,
}

/// Action for a row to insert whose key another row has.
#[derive(Debug)]
pub struct OnConflict {
    /// The index, by its place in [`Relation::indexes`], where that happens; none for any unique
    /// one.
    pub arbiter: Option<usize>,
    /// Updates the row that is there; else nothing happens.
    pub update: Option<ConflictUpdate>,
}

/// An update of the row that is there. Its programs are over that row's columns, then those of the
/// row that was to be inserted.
#[derive(Debug)]
pub struct ConflictUpdate {
    /// Columns and their new values.
    pub set: Vec<(usize, Program)>,
    /// Conjuncts that must hold.
    pub filter: Vec<Program>,
    /// System columns of the row in the way, which its programs find behind the rows.
    pub system: Vec<SystemColumn>,
}

/// A row that a row of the child was made from. When a concurrent transaction has changed one of
/// them, the child runs once more over these rows alone, the changed one in its newest version,
/// every other as it was (PostgreSQL's EvalPlanQual); it then gives the new row, or none.
///
/// Operators without a mark run as they did: those within subqueries, `EXISTS` and `IN`.
#[derive(Debug)]
pub struct HeldRow {
    /// The operator, by its [`Node::mark`].
    pub mark: usize,
    /// The slot of its last column: NULL where an outer join has added NULLs.
    pub id: usize,
    /// The table that it scans, whose row is read again at its place.
    pub relation: Option<Arc<Relation>>,
    /// For other operators the slots of their columns.
    pub columns: Vec<usize>,
}

/// How an index is searched.
#[derive(Debug, Default)]
pub struct IndexKeys {
    /// Values of the first columns, compared by equality. A NULL finds nothing.
    pub equal: Vec<KeyProgram>,
    /// The next column is equal to one of this array's elements; rows come in index order, each
    /// once.
    pub any: Option<KeyProgram>,
    /// Ends for the next column: the value, and whether rows equal to it are wanted.
    pub low: Option<(KeyProgram, bool)>,
    /// The other end, by value.
    pub high: Option<(KeyProgram, bool)>,
    /// The next column IS NULL.
    pub is_null: bool,
}

impl IndexKeys {
    /// Whether more is asked of a key than to be equal to values.
    #[must_use]
    pub fn has_rest(&self) -> bool {
        self.is_null || self.low.is_some() || self.high.is_some()
    }
}

/// A key's value. It looks at no row; it may be of a wider integer type than the column, so that a
/// value out of the column's range matches nothing (or, at an end, is no end).
#[derive(Debug)]
pub struct KeyProgram {
    /// The value.
    pub value: Program,
    /// Its type.
    pub from: SqlType,
    /// The column's type.
    pub column: SqlType,
}

/// A call of a set-returning function.
#[derive(Debug)]
pub struct SetCall {
    /// The function.
    pub proc: &'static Proc,
    /// Its arguments.
    pub args: Vec<Program>,
    /// Their types.
    pub arg_types: Vec<SqlType>,
    /// The types of its columns.
    pub columns: Vec<SqlType>,
}

/// An item of a select list with set-returning functions.
#[derive(Debug)]
pub enum SetItem {
    /// A value.
    Value(Program),
    /// A set.
    Set(SetCall),
}

/// Kinds of join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinType {
    /// Pairs.
    Inner,
    /// Pairs, and outer rows without a partner.
    Left,
    /// Pairs, and inner rows without a partner.
    Right,
    /// Pairs, and rows of both sides without a partner.
    Full,
    /// Outer rows with a partner, once.
    Semi,
    /// Outer rows without a partner.
    Anti,
    /// `NOT IN`: as Anti, but an unknown comparison drops the outer row too; hash joins only.
    NullAwareAnti,
}

/// How groups are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateStrategy {
    /// One group.
    Plain,
    /// The child's rows are ordered by the grouped columns.
    Sorted,
    /// By a hash table.
    Hashed,
}

/// An aggregate.
#[derive(Debug)]
pub struct Aggregate {
    /// The aggregate.
    pub proc: &'static Proc,
    /// Direct arguments, which look at grouped columns only.
    pub direct: Vec<Program>,
    /// Arguments, over the child's row.
    pub args: Vec<Program>,
    /// Types of direct arguments and arguments.
    pub arg_types: Vec<SqlType>,
    /// Type of the result.
    pub result: SqlType,
    /// DISTINCT over the arguments.
    pub distinct: bool,
    /// ORDER BY: programs over the child's row.
    pub order_by: Vec<(Program, bool, bool)>,
    /// FILTER, over the child's row.
    pub filter: Option<Program>,
}

/// A window's frame.
#[derive(Debug)]
pub struct Frame {
    /// Its unit.
    pub unit: FrameUnit,
    /// Its start.
    pub start: FrameBound,
    /// Its end.
    pub end: FrameBound,
    /// Its EXCLUDE.
    pub exclude: FrameExclude,
}

/// An end of a frame; values look at no row.
#[derive(Debug)]
pub enum FrameBound {
    /// `UNBOUNDED PRECEDING`
    UnboundedPreceding,
    /// `n PRECEDING`; for RANGE with the programs that compute the bound from the ordering
    /// column's value (slot 0) and the offset (slot 1).
    Preceding(Program, Option<Program>),
    /// `CURRENT ROW`
    CurrentRow,
    /// `n FOLLOWING`
    Following(Program, Option<Program>),
    /// `UNBOUNDED FOLLOWING`
    UnboundedFollowing,
}

/// A function over a window.
#[derive(Debug)]
pub struct WindowCall {
    /// A window function or an aggregate.
    pub proc: &'static Proc,
    /// Its arguments, over the child's row.
    pub args: Vec<Program>,
    /// Their types.
    pub arg_types: Vec<SqlType>,
    /// The result's type.
    pub result: SqlType,
    /// FILTER.
    pub filter: Option<Program>,
}

/// A row lock.
#[derive(Debug)]
pub struct RowMark {
    /// Which of the held rows, by its place in the list.
    pub held: usize,
    /// How strongly.
    pub strength: LockStrength,
    /// If it is locked by another.
    pub wait: LockWait,
}

impl Node {
    fn nothing() -> Node {
        Node {
            kind: NodeKind::Values(Vec::new()),
            filter: Vec::new(),
            project: None,
            width: 0,
            mark: None,
            estimate: Estimate::default(),
            notes: None,
        }
    }

    /// Levels of operators, itself among them.
    fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut rest = vec![(self, 1)];
        while let Some((node, depth)) = rest.pop() {
            deepest = deepest.max(depth);
            rest.extend(node.children().into_iter().map(|child| (child, depth + 1)));
        }
        deepest
    }

    /// The operators that it reads from, outer side first.
    pub fn children(&self) -> Vec<&Node> {
        match &self.kind {
            NodeKind::Result { .. }
            | NodeKind::Values(_)
            | NodeKind::SeqScan { .. }
            | NodeKind::IndexScan { .. }
            | NodeKind::BitmapIndexScan { .. }
            | NodeKind::VirtualScan { .. }
            | NodeKind::FunctionScan { .. }
            | NodeKind::CteScan { .. }
            | NodeKind::WorkingScan { .. } => Vec::new(),
            NodeKind::BitmapHeapScan { bitmap, .. } => vec![bitmap],
            NodeKind::BitmapCombine { bitmaps, .. } => bitmaps.iter().collect(),
            NodeKind::Project { child }
            | NodeKind::ProjectSet { child, .. }
            | NodeKind::Materialize { child }
            | NodeKind::Memoize { child, .. }
            | NodeKind::Sort { child, .. }
            | NodeKind::Limit { child, .. }
            | NodeKind::Aggregate { child, .. }
            | NodeKind::Window { child, .. }
            | NodeKind::Unique { child, .. }
            | NodeKind::LockRows { child, .. }
            | NodeKind::ModifyTable { child, .. } => vec![child],
            NodeKind::NestedLoop { outer, inner, .. }
            | NodeKind::HashJoin { outer, inner, .. }
            | NodeKind::MergeJoin { outer, inner, .. } => vec![outer, inner],
            NodeKind::Append { children } | NodeKind::MergeAppend { children, .. } => {
                children.iter().collect()
            }
            NodeKind::SetOperation { left, right, .. } => vec![left, right],
            NodeKind::RecursiveUnion { first, step, .. } => vec![first, step],
        }
    }
}
