//! Ways to get rows, with what they are expected to cost: the planner compares these, and makes the
//! plan from the best.

use std::rc::Rc;
use std::sync::Arc;

use crate::ast::MergeWhen;
use crate::bound::{
    ChangeKind, Expr, ExprKind, Frame, MergeAction, RowMark, RowRule, SortKey, Sublink, SublinkKind,
};
use crate::plan::{AggregateStrategy, Estimate, JoinType};
use crate::relation::Relation;

use super::number::NUMBERED;
use super::rels::Rels;

/// A shared path.
pub(super) type PathRef = Rc<Path>;
/// A shared expression.
pub(super) type ExprRef = Rc<Expr>;

/// A way to get rows.
#[derive(Debug)]
pub(super) struct Path {
    /// How.
    pub(super) kind: PathKind,
    /// Its cost, rows and width.
    pub(super) estimate: Estimate,
    /// The order of its rows; empty if there is none.
    pub(super) order: Vec<OrderKey>,
    /// The relations whose columns its rows have.
    pub(super) rels: Rels,
}

/// An element of an order.
#[derive(Debug, Clone)]
pub(super) struct OrderKey {
    /// The ordering expression.
    pub(super) expr: ExprRef,
    /// Descending.
    pub(super) desc: bool,
    /// NULLs first.
    pub(super) nulls_first: bool,
}

impl From<&SortKey<Expr>> for OrderKey {
    fn from(key: &SortKey<Expr>) -> OrderKey {
        OrderKey {
            expr: Rc::new(key.key.clone()),
            desc: key.desc,
            nulls_first: key.nulls_first,
        }
    }
}

/// How an index is searched; the values look at no column of its relation.
#[derive(Debug, Clone, Default)]
pub(super) struct IndexMatch {
    /// Values for the first columns.
    pub(super) equal: Vec<ExprRef>,
    /// An array for the next column.
    pub(super) any: Option<ExprRef>,
    /// Ends for the next column: whether rows equal to it are wanted.
    pub(super) low: Option<(ExprRef, bool)>,
    /// The other end.
    pub(super) high: Option<(ExprRef, bool)>,
    /// The next column IS NULL.
    pub(super) is_null: bool,
}

/// Where the places of rows come from.
#[derive(Debug, Clone)]
pub(super) struct Bitmap {
    pub(super) kind: BitmapKind,
    /// The cost of having all places.
    pub(super) cost: f64,
    /// The share of the relation's rows that they are of.
    pub(super) share: f64,
}

/// The kinds of sources of places.
#[derive(Debug, Clone)]
pub(super) enum BitmapKind {
    /// An index.
    Index { index: usize, keys: IndexMatch },
    /// Places that all have.
    And(Vec<Bitmap>),
    /// Places that any has.
    Or(Vec<Bitmap>),
}

impl Bitmap {
    /// Calls `f` with how each index is searched.
    pub(super) fn each_search(&self, f: &mut dyn FnMut(&IndexMatch)) {
        match &self.kind {
            BitmapKind::Index { keys, .. } => f(keys),
            BitmapKind::And(parts) | BitmapKind::Or(parts) => {
                parts.iter().for_each(|part| part.each_search(f));
            }
        }
    }
}

/// How rows are got.
#[derive(Debug)]
pub(super) enum PathKind {
    /// No row.
    Nothing,
    /// One row without columns, if the conditions hold.
    Result { conditions: Vec<ExprRef> },
    /// All rows of a relation of any kind but a subquery.
    Scan { rel: usize, filter: Vec<ExprRef> },
    /// Rows by an index.
    Index {
        rel: usize,
        index: usize,
        keys: IndexMatch,
        filter: Vec<ExprRef>,
        backward: bool,
    },
    /// Rows whose places indexes find, in the order of the heap.
    Bitmap {
        rel: usize,
        bitmap: Bitmap,
        /// The conditions that the bitmap answers.
        recheck: Vec<ExprRef>,
        filter: Vec<ExprRef>,
    },
    /// The rows of a query, as those of a relation.
    Subquery {
        rel: usize,
        child: PathRef,
        filter: Vec<ExprRef>,
    },
    /// A nested loop; `filter` is asked of what the join gives.
    NestedLoop {
        outer: PathRef,
        inner: PathRef,
        join: JoinType,
        condition: Vec<ExprRef>,
        filter: Vec<ExprRef>,
    },
    /// A hash join: pairs of outer and inner key.
    Hash {
        outer: PathRef,
        inner: PathRef,
        join: JoinType,
        keys: Vec<(ExprRef, ExprRef)>,
        condition: Vec<ExprRef>,
        filter: Vec<ExprRef>,
    },
    /// Keeps rows for further runs.
    Materialize { child: PathRef },
    /// Keeps rows by the outer values that they depend on.
    Memoize { child: PathRef },
    /// Sorts.
    Sort {
        child: PathRef,
        keys: Vec<OrderKey>,
        presorted: usize,
        bounded: bool,
    },
    /// Computes.
    Project { child: PathRef, exprs: Vec<ExprRef> },
    /// Computes, with set-returning functions.
    ProjectSet {
        child: PathRef,
        exprs: Vec<ExprRef>,
        /// The rows are the child's with what is computed after them, not the expressions alone.
        keep: bool,
    },
    /// Leaves out.
    Filter {
        child: PathRef,
        filter: Vec<ExprRef>,
    },
    /// Groups: its rows are the grouped expressions and the aggregates.
    Aggregate {
        child: PathRef,
        strategy: AggregateStrategy,
        group: Vec<ExprRef>,
        sets: Vec<Vec<usize>>,
        aggregates: Vec<ExprRef>,
    },
    /// Window functions over one window.
    Window {
        child: PathRef,
        partition: Vec<ExprRef>,
        order: Vec<OrderKey>,
        frame: Rc<Frame>,
        functions: Vec<ExprRef>,
    },
    /// Leaves out rows equal to the one before in the first so many of these.
    Unique { child: PathRef, exprs: Vec<ExprRef> },
    /// Skips and ends; `ties` are the order by which rows tie.
    Limit {
        child: PathRef,
        offset: Option<ExprRef>,
        count: Option<ExprRef>,
        ties: Option<Vec<OrderKey>>,
    },
    /// One after the other; the columns are those of relation `rel`.
    Append { rel: usize, children: Vec<PathRef> },
    /// INTERSECT or EXCEPT; the columns are those of relation `rel`.
    SetOperation {
        rel: usize,
        left: PathRef,
        right: PathRef,
        except: bool,
        all: bool,
    },
    /// Locks rows of relations. Its rows have the ids of the rows of all relations in `held`.
    LockRows {
        child: PathRef,
        marks: Vec<RowMark>,
        held: Vec<usize>,
    },
    /// Changes a table.
    Modify { child: PathRef, change: Rc<Change> },
    /// A recursive union; the columns are those of relation `rel`.
    RecursiveUnion {
        rel: usize,
        union_id: usize,
        first: PathRef,
        step: PathRef,
        all: bool,
    },
}

/// A change of a table, by rows of a path.
#[derive(Debug)]
pub(super) struct Change {
    /// Kind.
    pub(super) kind: ChangeKind,
    /// The table.
    pub(super) relation: Arc<Relation>,
    /// The relation that its rows are, for UPDATE and DELETE.
    pub(super) rel: usize,
    /// The columns that the first columns of the rows are for.
    pub(super) columns: Vec<usize>,
    /// The relations that the rows are made from.
    pub(super) held: Vec<usize>,
    /// The relations that stand for the row before and after the change.
    pub(super) before_after: Option<(usize, usize)>,
    /// RETURNING: expressions over these and the rows.
    pub(super) returning: Vec<ExprRef>,
    /// ON CONFLICT.
    pub(super) conflict: Option<OnConflict>,
    /// MERGE.
    pub(super) merge: Option<Merge>,
    /// CHECK constraints over the columns of `rel`, which stand for the new row.
    pub(super) generated: Vec<(usize, ExprRef)>,
    /// CHECK constraints.
    pub(super) checks: Vec<(RowRule, ExprRef)>,
}

/// MERGE.
#[derive(Debug)]
pub(super) struct Merge {
    /// The relation that stands for the target row when a clause is asked and its values are
    /// computed.
    pub(super) there: usize,
    /// That for the row that RETURNING shows as the target's.
    pub(super) shown: usize,
    /// That for the name of the action, with RETURNING.
    pub(super) action: Option<usize>,
    /// The clauses.
    pub(super) clauses: Vec<MergeClause>,
}

/// A WHEN clause.
#[derive(Debug)]
pub(super) struct MergeClause {
    /// The rows that it is for.
    pub(super) when: MergeWhen,
    /// Conjuncts of its condition.
    pub(super) condition: Vec<ExprRef>,
    /// Its action.
    pub(super) action: MergeAction,
    /// The columns that get values.
    pub(super) columns: Vec<usize>,
    /// These values.
    pub(super) values: Vec<ExprRef>,
}

/// ON CONFLICT.
#[derive(Debug)]
pub(super) struct OnConflict {
    /// The indexes of the table that decide; empty for any.
    pub(super) arbiters: Vec<usize>,
    /// DO UPDATE.
    pub(super) update: Option<ConflictUpdate>,
}

/// DO UPDATE.
#[derive(Debug)]
pub(super) struct ConflictUpdate {
    /// The relation that stands for the row that was to be inserted.
    pub(super) excluded: usize,
    /// The columns that are set.
    pub(super) columns: Vec<usize>,
    /// Their values.
    pub(super) values: Vec<ExprRef>,
    /// Conjuncts of WHERE.
    pub(super) filter: Vec<ExprRef>,
}

/// Whether two expressions are the same but for their positions.
pub(super) fn same(a: &Expr, b: &Expr) -> bool {
    a.ty == b.ty && same_kind(&a.kind, &b.kind)
}

fn same_all<'e>(
    a: impl ExactSizeIterator<Item = &'e Expr>,
    b: impl ExactSizeIterator<Item = &'e Expr>,
) -> bool {
    a.len() == b.len() && a.zip(b).all(|(a, b)| same(a, b))
}

fn same_kind(a: &ExprKind, b: &ExprKind) -> bool {
    match (a, b) {
        (ExprKind::Const(a), ExprKind::Const(b)) => a.identical(b),
        (ExprKind::Param(a), ExprKind::Param(b))
        | (ExprKind::SublinkColumn(a), ExprKind::SublinkColumn(b)) => a == b,
        (ExprKind::Var(a), ExprKind::Var(b)) => a == b,
        (ExprKind::CaseOperand, ExprKind::CaseOperand)
        | (ExprKind::DomainValue, ExprKind::DomainValue) => true,
        (ExprKind::Grouping(a), ExprKind::Grouping(b)) => a == b,
        // Each subquery is its own: two that read alike run twice, as in PostgreSQL's equal() but
        // for the copies of one and the same.
        (ExprKind::Sublink(a), ExprKind::Sublink(b)) => a.id == b.id && outer_parts(a, b),
        (ExprKind::Aggregate(a), ExprKind::Aggregate(b)) => {
            let flags =
                |e: &crate::bound::AggregateExpr| (e.proc.oid, e.distinct, e.variadic_array);
            let keys = |e: &crate::bound::AggregateExpr| {
                let keys = e.order_by.iter();
                keys.map(|key| (key.desc, key.nulls_first))
                    .collect::<Vec<_>>()
            };
            flags(a) == flags(b) && keys(a) == keys(b) && same_parts(&a_expr(a), &a_expr(b))
        }
        (ExprKind::Window(a), ExprKind::Window(b)) => {
            (a.proc.oid, a.window) == (b.proc.oid, b.window)
                && same_all(a.args.iter(), b.args.iter())
                && same_all(a.filter.iter(), b.filter.iter())
        }
        _ => same_head(a, b) && same_children(a, b),
    }
}

/// Whether two copies of a subquery look at the same columns and aggregates outside.
fn outer_parts(a: &Sublink, b: &Sublink) -> bool {
    fn collect(sublink: &Sublink) -> Vec<Expr> {
        let mut parts = Vec::new();
        super::walk::each_of_query(&sublink.query, &mut |part| match &part.kind {
            ExprKind::Var(var) if var.depth == NUMBERED => parts.push(part.clone()),
            ExprKind::Aggregate(aggregate) if aggregate.depth == NUMBERED => {
                parts.push(part.clone());
            }
            _ => {}
        });
        match &sublink.kind {
            SublinkKind::Any(test) | SublinkKind::All(test) => parts.push(Expr::clone(test)),
            SublinkKind::Exists | SublinkKind::Scalar | SublinkKind::Array => {}
        }
        parts
    }
    std::sync::Arc::ptr_eq(&a.query, &b.query) || same_all(collect(a).iter(), collect(b).iter())
}

type AggregateParts<'e> = Vec<&'e Expr>;

fn a_expr(aggregate: &crate::bound::AggregateExpr) -> [AggregateParts<'_>; 4] {
    [
        aggregate.direct.iter().collect(),
        aggregate.args.iter().collect(),
        aggregate.order_by.iter().map(|key| &key.key).collect(),
        aggregate.filter.iter().collect(),
    ]
}

fn same_parts(a: &[AggregateParts<'_>; 4], b: &[AggregateParts<'_>; 4]) -> bool {
    a.iter()
        .zip(b)
        .all(|(a, b)| same_all(a.iter().copied(), b.iter().copied()))
}

/// Whether two nodes are the same but for their parts.
fn same_head(a: &ExprKind, b: &ExprKind) -> bool {
    use ExprKind as E;
    match (a, b) {
        (E::Call(a), E::Call(b)) | (E::SetCall(a), E::SetCall(b)) => {
            (a.proc.oid, a.variadic_array) == (b.proc.oid, b.variadic_array)
        }
        (E::Cast { explicit: a, .. }, E::Cast { explicit: b, .. })
        | (E::Extreme { greatest: a, .. }, E::Extreme { greatest: b, .. })
        | (E::Array { nested: a, .. }, E::Array { nested: b, .. }) => a == b,
        (E::Relabel(_), E::Relabel(_))
        | (E::And(_), E::And(_))
        | (E::Or(_), E::Or(_))
        | (E::Not(_), E::Not(_))
        | (E::Coalesce(_), E::Coalesce(_))
        | (E::Row(_), E::Row(_))
        | (E::Subscript { .. }, E::Subscript { .. }) => true,
        (
            E::IsNull { .. }
            | E::IsBool { .. }
            | E::IsDistinct { .. }
            | E::Case { .. }
            | E::NullIf { .. },
            _,
        ) => same_test(a, b),
        (
            E::AnyAll {
                op: a, all: all_a, ..
            },
            E::AnyAll {
                op: b, all: all_b, ..
            },
        ) => (a.proc.oid, all_a) == (b.proc.oid, all_b),
        (E::Field { field: a, .. }, E::Field { field: b, .. }) => a == b,
        (E::NamedRow(a, _), E::NamedRow(b, _)) => a == b,
        (E::ToDomain(a), E::ToDomain(b)) => (a.domain, a.each) == (b.domain, b.each),
        (E::RowCompare { op: a, .. }, E::RowCompare { op: b, .. }) => a == b,
        // Which ends are given shows from no part.
        (E::Slice { ranges: a, .. }, E::Slice { ranges: b, .. }) => {
            let given = |ranges: &[(Option<Expr>, Option<Expr>)]| {
                let ends = ranges.iter();
                ends.map(|(low, high)| (low.is_some(), high.is_some()))
                    .collect::<Vec<_>>()
            };
            given(a) == given(b)
        }
        _ => false,
    }
}

/// The same for tests and choices.
fn same_test(a: &ExprKind, b: &ExprKind) -> bool {
    use ExprKind as E;
    match (a, b) {
        (
            E::IsNull {
                negated: a,
                row: row_a,
                ..
            },
            E::IsNull {
                negated: b,
                row: row_b,
                ..
            },
        ) => (a, row_a) == (b, row_b),
        (
            E::IsBool {
                value: value_a,
                negated: a,
                ..
            },
            E::IsBool {
                value: value_b,
                negated: b,
                ..
            },
        ) => (value_a, a) == (value_b, b),
        (
            E::IsDistinct {
                equal: equal_a,
                negated: a,
                ..
            },
            E::IsDistinct {
                equal: equal_b,
                negated: b,
                ..
            },
        ) => (equal_a.oid, a) == (equal_b.oid, b),
        (
            E::Case {
                operand: operand_a, ..
            },
            E::Case {
                operand: operand_b, ..
            },
        ) => operand_a.is_some() == operand_b.is_some(),
        (E::NullIf { equal: a, .. }, E::NullIf { equal: b, .. }) => a.oid == b.oid,
        _ => false,
    }
}

fn same_children(a: &ExprKind, b: &ExprKind) -> bool {
    fn collect(kind: &ExprKind) -> Vec<&Expr> {
        let mut parts = Vec::new();
        super::walk::parts_of(kind, &mut |part| parts.push(part));
        parts
    }
    let (a, b) = (collect(a), collect(b));
    same_all(a.into_iter(), b.into_iter())
}
