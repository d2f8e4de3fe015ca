//! The statement with its meaning: every name resolved, every expression typed, every coercion
//! written out. Shaped like PostgreSQL's `Query`. The binder makes it, the planner reads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_expr::proc::Proc;
use evenkeel_expr::program::RowCompareOp;
use evenkeel_types::DomainType;
use evenkeel_types::{Datum, SqlType};

use crate::ast::{
    FrameExclude, FrameUnit, JoinKind, LockStrength, LockWait, MergeWhen, Pos, SetOp,
};
use crate::relation::{Oid, Relation};

/// A typed expression.
#[derive(Debug, Clone)]
pub struct Expr {
    /// The node.
    pub kind: ExprKind,
    /// Its type with modifier.
    pub ty: SqlType,
    /// Where it stands.
    pub at: Pos,
}

/// `array[i] := value` or `array[l:u] := values`: the bounds of [`ExprKind::Slice`], or of an
/// element the subscripts as upper ones.
#[derive(Debug, Clone)]
pub struct PartAssignment {
    /// The array, of which NULL is an empty one.
    pub array: Expr,
    /// A range for each dimension that is given.
    pub ranges: Vec<(Option<Expr>, Option<Expr>)>,
    /// Whether the value is an array, whose elements come in the place of the part's.
    pub slice: bool,
    /// Of a part of a `jsonb`, whose subscripts are names and indexes: whether the first one is an
    /// index, by which NULL becomes an array, and else an object.
    pub json: Option<bool>,
    /// The value.
    pub value: Expr,
}

impl PartAssignment {
    /// The expressions directly in it.
    pub fn iter(&self) -> impl Iterator<Item = &Expr> {
        let ends = self.ranges.iter().flat_map(|(lower, upper)| [lower, upper]);
        let array = std::iter::once(&self.array);
        array.chain(ends.flatten()).chain([&self.value])
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let ranges = self.ranges.iter_mut();
        let ends = ranges.flat_map(|(lower, upper)| [lower, upper]);
        let array = std::iter::once(&mut self.array);
        array.chain(ends.flatten()).chain([&mut self.value])
    }
}

/// A coercion to a domain.
#[derive(Debug, Clone)]
pub struct ToDomain {
    /// The value, of the type that the domain is over.
    pub arg: Expr,
    /// The domain.
    pub domain: &'static DomainType,
    /// Whether the value is an array of the domain's values.
    pub each: bool,
    /// Whether it was written.
    pub explicit: bool,
    /// How many conversions around the value were not written.
    pub added: usize,
    /// Its tests, in the order in which they are made: `None` is NOT NULL, of CHECK they are the
    /// name and the condition over [`ExprKind::DomainValue`].
    pub tests: Vec<Option<(Arc<str>, Expr)>>,
}

/// The kinds of typed expression.
#[derive(Debug, Clone)]
pub enum ExprKind {
    /// A constant.
    Const(Datum),
    /// A parameter of the statement, from 0.
    Param(usize),
    /// A column: of the range table `depth` queries further out.
    Var(Var),
    /// A scalar function or operator.
    Call(CallExpr),
    /// A cast that converts.
    Cast { arg: Box<Expr>, explicit: bool },
    /// The same bits under another type.
    Relabel(Box<Expr>),
    /// `AND`, flat.
    And(Vec<Expr>),
    /// `OR`, flat.
    Or(Vec<Expr>),
    /// `NOT`
    Not(Box<Expr>),
    /// `IS [NOT] NULL`; `row` if the argument is a row.
    IsNull {
        arg: Box<Expr>,
        negated: bool,
        row: bool,
    },
    /// `IS [NOT] TRUE | FALSE | UNKNOWN`
    IsBool {
        arg: Box<Expr>,
        value: Option<bool>,
        negated: bool,
    },
    /// `IS [NOT] DISTINCT FROM`, with the operator `=`.
    IsDistinct {
        equal: &'static Proc,
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    /// `CASE`; with an operand each condition mentions it as [`ExprKind::CaseOperand`].
    Case {
        operand: Option<Box<Expr>>,
        branches: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    /// The operand of the innermost CASE.
    CaseOperand,
    /// A value that a domain must allow, or an array of such values.
    ToDomain(Box<ToDomain>),
    /// `VALUE` in the condition of a domain.
    DomainValue,
    /// `COALESCE`
    Coalesce(Vec<Expr>),
    /// `GREATEST` or `LEAST`
    Extreme { greatest: bool, args: Vec<Expr> },
    /// `NULLIF`, with the operator `=`.
    NullIf {
        equal: &'static Proc,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `left op ANY | ALL (array)`; `x IN (a, b)` of one type is this with an array.
    AnyAll {
        op: OpRef,
        all: bool,
        left: Box<Expr>,
        array: Box<Expr>,
    },
    /// `ARRAY[…]`
    Array { nested: bool, items: Vec<Expr> },
    /// `array[i]`
    Subscript {
        array: Box<Expr>,
        indexes: Vec<Expr>,
    },
    /// `array[l:u]`
    Slice {
        array: Box<Expr>,
        ranges: Vec<(Option<Expr>, Option<Expr>)>,
    },
    /// An array with a value in place of one of its parts.
    AssignPart(Box<PartAssignment>),
    /// `ROW(…)`
    Row(Vec<Expr>),
    /// A row of a table or query, with the names of its fields.
    NamedRow(Arc<[Arc<str>]>, Vec<Expr>),
    /// A field of a row, from 0.
    Field { row: Box<Expr>, field: usize },
    /// `(a, b) < (c, d)`: each pair with its operators `=` and `<`.
    RowCompare {
        op: RowCompareOp,
        pairs: Vec<(Expr, Expr, &'static Proc, &'static Proc)>,
    },
    /// A subquery.
    Sublink(Box<Sublink>),
    /// A column of the subquery's row, within the test of a [`SublinkKind::Any`] or `All`.
    SublinkColumn(usize),
    /// An aggregate, of the query `depth` levels further out.
    Aggregate(Box<AggregateExpr>),
    /// A window function, or an aggregate over a window.
    Window(Box<WindowExpr>),
    /// `GROUPING(…)`: expressions of GROUP BY, by their place in [`Query::group_by`].
    Grouping(Vec<usize>),
    /// A set-returning function, in a select list.
    SetCall(CallExpr),
    /// `DEFAULT`, until the binder has put the column's default in its place.
    Default,
}

/// A reference to a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Var {
    /// How many queries further out.
    pub depth: usize,
    /// Its entry in that query's range table.
    pub rel: usize,
    /// The column, from 0; [`WHOLE_ROW`] for the whole row, or the
    /// position of a [`crate::relation::SystemColumn`].
    pub column: usize,
}

/// [`Var::column`] of a whole row.
pub const WHOLE_ROW: usize = usize::MAX;

/// An operator that was resolved: what runs it, and which it is (0 for a function that no operator
/// stands for).
#[derive(Debug, Clone, Copy)]
pub struct OpRef {
    /// `pg_operator`
    pub oid: Oid,
    /// Its function.
    pub proc: &'static Proc,
}

/// A call of a function.
#[derive(Debug, Clone)]
pub struct CallExpr {
    /// The function.
    pub proc: &'static Proc,
    /// The operator's oid if it was written as one, for index conditions and for EXPLAIN.
    pub operator: Option<Oid>,
    /// The arguments, coerced, defaults filled in.
    pub args: Vec<Expr>,
    /// The last argument is an array that stands for the variadic arguments.
    pub variadic_array: bool,
}

/// A subquery in an expression.
#[derive(Debug, Clone)]
pub struct Sublink {
    /// Which it is: its copies have the same, whatever is done to them.
    pub id: SublinkId,
    /// Its kind.
    pub kind: SublinkKind,
    /// The query; its variables of depth 1 are those of the query around it.
    pub query: Arc<Query>,
}

/// Tells one subquery from all others of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SublinkId(u64);

impl SublinkId {
    /// Another one than all before.
    pub fn fresh() -> SublinkId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        SublinkId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Kind of a subquery in an expression, by the use of its rows.
#[derive(Debug, Clone)]
pub enum SublinkKind {
    /// `EXISTS`
    Exists,
    /// A value.
    Scalar,
    /// `ARRAY(…)`
    Array,
    /// `ANY`, `IN`: the test mentions the row's columns as [`ExprKind::SublinkColumn`].
    Any(Box<Expr>),
    /// `ALL`
    All(Box<Expr>),
}

/// An aggregate.
#[derive(Debug, Clone)]
pub struct AggregateExpr {
    /// The aggregate.
    pub proc: &'static Proc,
    /// Direct arguments of an ordered-set aggregate.
    pub direct: Vec<Expr>,
    /// The aggregated arguments.
    pub args: Vec<Expr>,
    /// `DISTINCT`
    pub distinct: bool,
    /// `ORDER BY`
    pub order_by: Vec<SortKey<Expr>>,
    /// `FILTER`
    pub filter: Option<Expr>,
    /// Whether the last argument is `VARIADIC array`.
    pub variadic_array: bool,
    /// The query it belongs to, so many levels further out.
    pub depth: usize,
}

/// A function over a window.
#[derive(Debug, Clone)]
pub struct WindowExpr {
    /// The function.
    pub proc: &'static Proc,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// `FILTER`
    pub filter: Option<Expr>,
    /// Its window in [`Query::windows`].
    pub window: usize,
}

/// An element of an order.
#[derive(Debug, Clone)]
pub struct SortKey<T> {
    /// The ordering expression.
    pub key: T,
    /// Descending.
    pub desc: bool,
    /// NULLs before all values.
    pub nulls_first: bool,
}

/// A query.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Common table expressions of its own WITH.
    pub ctes: Vec<Arc<Cte>>,
    /// The range table, which its variables index.
    pub range_table: Vec<RangeEntry>,
    /// FROM.
    pub from: Vec<FromNode>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// The select list; junk columns (ORDER BY, GROUP BY) come last.
    pub targets: Vec<Target>,
    /// The grouped expressions.
    pub group_by: Vec<Expr>,
    /// Grouping sets over [`Query::group_by`]; empty for a plain GROUP BY.
    pub grouping_sets: Vec<Vec<usize>>,
    /// Whether it is grouped: by GROUP BY, an aggregate or HAVING.
    pub grouped: bool,
    /// HAVING.
    pub having: Option<Expr>,
    /// Windows.
    pub windows: Vec<WindowDef>,
    /// DISTINCT: targets by number, or [`Distinct::All`].
    pub distinct: Distinct,
    /// ORDER BY: targets by number.
    pub order_by: Vec<SortKey<usize>>,
    /// OFFSET, an int8.
    pub offset: Option<Expr>,
    /// LIMIT, an int8.
    pub limit: Option<Expr>,
    /// WITH TIES
    pub with_ties: bool,
    /// Row locks.
    pub row_marks: Vec<RowMark>,
    /// A set operation, whose leaves are subqueries of the range table; then the targets are
    /// variables of its first leaf's columns with the set's types.
    pub set_operation: Option<SetNode>,
}

/// DISTINCT.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Distinct {
    /// Not asked for.
    #[default]
    All,
    /// `DISTINCT`: over all targets that are not junk.
    Rows,
    /// `DISTINCT ON`: over these targets.
    On(Vec<usize>),
}

/// An item of the select list.
#[derive(Debug, Clone)]
pub struct Target {
    /// The value.
    pub expr: Expr,
    /// The column's name.
    pub name: Arc<str>,
    /// Not part of the result.
    pub junk: bool,
}

/// An entry of the range table.
#[derive(Debug, Clone)]
pub struct RangeEntry {
    /// The name that column references use, and that EXPLAIN shows.
    pub alias: Arc<str>,
    /// Its columns' names, as the aliases leave them.
    pub columns: Vec<Arc<str>>,
    /// Their types.
    pub types: Vec<SqlType>,
    /// Its kind.
    pub kind: RangeKind,
    /// May see the entries before it.
    pub lateral: bool,
    /// Expressions and predicates of the indexes of a relation.
    pub indexes: Vec<IndexExprs>,
    /// The values of its columns that are computed where they are read, by position, over the other
    /// columns.
    pub virtuals: Vec<(usize, Expr)>,
}

/// The expressions and the predicate of an index, over the columns of its entry.
#[derive(Debug, Clone)]
pub struct IndexExprs {
    /// Which of [`Relation::indexes`].
    pub index: usize,
    /// [`crate::relation::Index::expressions`]
    pub expressions: Vec<Expr>,
    /// [`crate::relation::Index::predicate`]
    pub predicate: Option<Expr>,
}

/// Kind of a range-table entry.
#[derive(Debug, Clone)]
pub enum RangeKind {
    /// A relation; a view's query is a `Subquery`.
    Relation(Arc<Relation>),
    /// A subquery in FROM.
    Subquery(Arc<Query>),
    /// Functions side by side.
    Functions {
        calls: Vec<CallExpr>,
        /// Number of columns of each.
        widths: Vec<usize>,
        ordinality: bool,
    },
    /// Rows of VALUES.
    Values(Vec<Vec<Expr>>),
    /// A common table expression: of the query `depth` levels further out, by number. Within its
    /// own recursive term it is the working table.
    Cte {
        depth: usize,
        cte: usize,
        working: bool,
    },
    /// A join: its columns stand for these expressions over its sides (for FULL JOIN USING a
    /// COALESCE).
    Join { columns: Vec<Expr> },
    /// The row that ON CONFLICT refused: `excluded`.
    Excluded(Arc<Relation>),
    /// The row before or after a change: `old`, `new`. It need not be there.
    Version(Arc<Relation>),
    /// The name of the action that MERGE took for a row, its only column.
    MergeAction,
}

/// A node of FROM.
#[derive(Debug, Clone)]
pub enum FromNode {
    /// An entry of the range table.
    Entry(usize),
    /// A join.
    Join(Box<JoinNode>),
}

/// A join.
#[derive(Debug, Clone)]
pub struct JoinNode {
    /// Its kind.
    pub kind: JoinKind,
    /// Its left side.
    pub left: FromNode,
    /// Its right side.
    pub right: FromNode,
    /// Its condition; `None` is true.
    pub condition: Option<Expr>,
    /// Its own entry in the range table.
    pub entry: usize,
}

/// A common table expression.
#[derive(Debug, Clone)]
pub struct Cte {
    /// Its name.
    pub name: Arc<str>,
    /// `MATERIALIZED` (true), `NOT MATERIALIZED`, or neither.
    pub materialized: Option<bool>,
    /// Its columns.
    pub columns: Vec<Arc<str>>,
    /// Their types.
    pub types: Vec<SqlType>,
    /// The query; of a recursive one `set_operation` has the two terms. Variables of depth 1 are
    /// those of the query with the WITH.
    pub query: Query,
    /// Whether it refers to itself.
    pub recursive: bool,
    /// How often it is referred to.
    pub references: usize,
    /// Set for a change: `query` then has all its expressions in its select list.
    pub change: Option<Arc<ChangeShape>>,
}

/// A window.
#[derive(Debug, Clone)]
pub struct WindowDef {
    /// PARTITION BY
    pub partition_by: Vec<Expr>,
    /// ORDER BY
    pub order_by: Vec<SortKey<Expr>>,
    /// The frame.
    pub frame: Frame,
}

/// A window's frame.
#[derive(Debug, Clone)]
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

/// An end of a frame.
#[derive(Debug, Clone)]
pub enum FrameBound {
    /// `UNBOUNDED PRECEDING`
    UnboundedPreceding,
    /// `n PRECEDING`: an int8 for ROWS and GROUPS; for RANGE the value that the ordering column is
    /// changed by.
    Preceding(Box<Expr>),
    /// `CURRENT ROW`
    CurrentRow,
    /// `n FOLLOWING`
    Following(Box<Expr>),
    /// `UNBOUNDED FOLLOWING`
    UnboundedFollowing,
}

/// A row lock.
#[derive(Debug, Clone)]
pub struct RowMark {
    /// The entry of the range table; of a subquery, which has marks of its own, nothing is locked
    /// here.
    pub rel: usize,
    /// How strongly.
    pub strength: LockStrength,
    /// If it is locked by another.
    pub wait: LockWait,
}

/// A tree of set operations.
#[derive(Debug, Clone)]
pub enum SetNode {
    /// A subquery of the range table.
    Leaf(usize),
    /// An operation; its columns have these types, and both sides are coerced to them already.
    Op {
        op: SetOp,
        all: bool,
        left: Box<SetNode>,
        right: Box<SetNode>,
        types: Vec<SqlType>,
    },
}

/// A change of a table: INSERT, UPDATE, DELETE or MERGE.
#[derive(Debug, Clone)]
pub struct Change {
    /// The kind.
    pub kind: ChangeKind,
    /// The rows and their new values. For UPDATE and DELETE the target is the first node of its
    /// FROM; for INSERT the target is in its range table alone; for MERGE the FROM is the join of
    /// target and source, and there are no new values.
    pub query: Query,
    /// The target's entry in the range table.
    pub target: usize,
    /// The target.
    pub relation: Arc<Relation>,
    /// The column of the relation that each target of `query` is the new value of. Columns that
    /// INSERT does not have are NULL.
    pub columns: Vec<usize>,
    /// ON CONFLICT of an INSERT.
    pub conflict: Option<OnConflict>,
    /// The WHEN clauses of a MERGE, in order.
    pub clauses: Vec<MergeClause>,
    /// Values of generated columns, by position, over the target's other columns, which stand for
    /// the new row.
    pub generated: Vec<(usize, Expr)>,
    /// CHECK constraints over the target's columns, which stand for the new row.
    pub checks: Vec<(RowRule, Expr)>,
    /// RETURNING, if it was written.
    pub returning: Option<Returning>,
}

/// A [`Change`] without its expressions: all stand in the select list of its query, first the new
/// values, then RETURNING, then those of ON CONFLICT's SET and WHERE, then of each WHEN clause its
/// condition and its values, then generated columns, then CHECK constraints.
#[derive(Debug, Clone)]
pub struct ChangeShape {
    /// The kind.
    pub kind: ChangeKind,
    /// [`Change::target`].
    pub target: usize,
    /// [`Change::relation`].
    pub relation: Arc<Relation>,
    /// The columns that the new values are for: of INSERT all, in their order.
    pub columns: Vec<usize>,
    /// The items of RETURNING.
    pub returned: usize,
    /// With RETURNING, the entries that stand for the row before and after.
    pub before_after: Option<(usize, usize)>,
    /// ON CONFLICT: its indexes, and for DO UPDATE [`ConflictUpdate::excluded`] and
    /// [`ConflictUpdate::columns`].
    pub conflict: Option<(Arbiter, Option<(usize, Vec<usize>)>)>,
    /// The WHEN clauses of MERGE.
    pub clauses: Vec<ClauseShape>,
    /// The positions of generated columns.
    pub generated: Vec<usize>,
    /// The CHECK constraints.
    pub checks: Vec<RowRule>,
    /// [`Returning::action`].
    pub action: Option<usize>,
}

/// A [`MergeClause`] without its expressions.
#[derive(Debug, Clone)]
pub struct ClauseShape {
    /// [`MergeClause::when`].
    pub when: MergeWhen,
    /// Whether it has a condition.
    pub conditional: bool,
    /// [`MergeClause::action`].
    pub action: MergeAction,
    /// [`MergeClause::columns`]; of INSERT all, in their order.
    pub columns: Vec<usize>,
}

/// A rule of rows that a condition is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowRule {
    /// A CHECK constraint, by name.
    Check(Arc<str>),
    /// NOT NULL of the column at this position, whose value is computed where it is read.
    NotNull(usize),
}

/// `ON CONFLICT`
#[derive(Debug, Clone)]
pub struct OnConflict {
    /// The indexes whose conflicts it is for.
    pub arbiter: Arbiter,
    /// `DO UPDATE`
    pub update: Option<ConflictUpdate>,
}

/// The indexes that ON CONFLICT is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arbiter {
    /// Any.
    Any,
    /// These, by their numbers in [`Relation::indexes`].
    Indexes(Vec<usize>),
}

/// `DO UPDATE`: its variables are of the target, the row that is there, and of `excluded`.
#[derive(Debug, Clone)]
pub struct ConflictUpdate {
    /// The entry of the range table for the row that was to be inserted.
    pub excluded: usize,
    /// The columns that are set.
    pub columns: Vec<usize>,
    /// Their new values.
    pub targets: Vec<Target>,
    /// `WHERE`
    pub filter: Option<Expr>,
}

/// A WHEN clause of MERGE. Variables of the target are those of the row that is there.
#[derive(Debug, Clone)]
pub struct MergeClause {
    /// The rows that it is for.
    pub when: MergeWhen,
    /// `AND condition`
    pub condition: Option<Expr>,
    /// Its action.
    pub action: MergeAction,
    /// The columns that are given values.
    pub columns: Vec<usize>,
    /// These values.
    pub targets: Vec<Target>,
}

/// The actions of a [`MergeClause`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeAction {
    /// `INSERT`
    Insert,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
    /// `DO NOTHING`
    Nothing,
}

/// The kinds of [`Change`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// `INSERT`
    Insert,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
    /// `MERGE`
    Merge,
}

/// RETURNING. Variables of the target are the new row's, of DELETE the old one's.
#[derive(Debug, Clone)]
pub struct Returning {
    /// The list.
    pub targets: Vec<Target>,
    /// The entry of the range table that stands for the row before the change.
    pub old: usize,
    /// That for the row after it.
    pub new: usize,
    /// Of MERGE that for the name of the action.
    pub action: Option<usize>,
}

/// A bound statement.
#[derive(Debug, Clone)]
pub struct Bound {
    /// The statement.
    pub statement: BoundStatement,
    /// The types of its parameters; those that nothing decided were an error.
    pub params: Vec<SqlType>,
}

/// The kinds of statement that have a plan.
#[derive(Debug, Clone)]
pub enum BoundStatement {
    /// A query.
    Query(Arc<Query>),
    /// INSERT, UPDATE, DELETE or MERGE.
    Change(Arc<Change>),
}
