//! Queries.

use super::{Expr, Name, Operator, Persistence, Pos, QualifiedName, Statement, TypeName};

/// A query with everything that may surround its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// `WITH`
    pub with: Option<With>,
    /// The body.
    pub body: QueryBody,
    /// `ORDER BY`
    pub order_by: Vec<SortBy>,
    /// `LIMIT`; `None` for none and for `LIMIT ALL`.
    pub limit: Option<Expr>,
    /// `FETCH FIRST … WITH TIES`
    pub with_ties: bool,
    /// `OFFSET`
    pub offset: Option<Expr>,
    /// `FOR UPDATE` and its kin.
    pub locking: Vec<Locking>,
    /// Where it begins.
    pub at: Pos,
}

impl Query {
    /// Whether it is `SELECT … INTO`.
    pub fn has_into(&self) -> bool {
        let mut query = self;
        loop {
            match &query.body {
                QueryBody::Select(select) => return select.into.is_some(),
                QueryBody::SetOp { left, .. } => query = left,
                QueryBody::Values(_) => return false,
            }
        }
    }

    /// Takes the table of `SELECT … INTO`, which the first select of a query may have.
    pub fn take_into(&mut self) -> Option<(QualifiedName, Persistence)> {
        let mut query = self;
        loop {
            match &mut query.body {
                QueryBody::Select(select) => {
                    let persistence = select.into_persistence;
                    return Some((select.into.take()?, persistence));
                }
                QueryBody::SetOp { left, .. } => query = left,
                QueryBody::Values(_) => return None,
            }
        }
    }
}

/// The body of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryBody {
    /// `SELECT …`
    Select(Box<Select>),
    /// `VALUES …`
    Values(Vec<Vec<Expr>>),
    /// `a UNION b`; an arm in parentheses may have its own order and limit.
    SetOp {
        op: SetOp,
        all: bool,
        left: Box<Query>,
        right: Box<Query>,
    },
}

/// Set operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOp {
    /// `UNION`
    Union,
    /// `INTERSECT`
    Intersect,
    /// `EXCEPT`
    Except,
}

/// `SELECT`
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Select {
    /// `DISTINCT`
    pub distinct: Distinct,
    /// The select list; `*` is a column reference.
    pub targets: Vec<Target>,
    /// `FROM`
    pub from: Vec<FromItem>,
    /// `WHERE`
    pub filter: Option<Expr>,
    /// `GROUP BY`
    pub group_by: Vec<Grouping>,
    /// `GROUP BY DISTINCT`
    pub group_distinct: bool,
    /// `HAVING`
    pub having: Option<Expr>,
    /// `WINDOW`
    pub windows: Vec<Window>,
    /// `INTO table`, which makes it another statement.
    pub into: Option<QualifiedName>,
    /// How long the table of `INTO` lives.
    pub into_persistence: Persistence,
}

/// `DISTINCT` of a select list.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Distinct {
    /// Not asked for.
    #[default]
    All,
    /// `DISTINCT`
    Rows,
    /// `DISTINCT ON (…)`
    On(Vec<Expr>),
}

/// An item of a select list or of RETURNING.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The expression.
    pub value: Expr,
    /// `AS name`
    pub alias: Option<Name>,
}

/// An element of GROUP BY.
#[derive(Debug, Clone, PartialEq)]
pub enum Grouping {
    /// An expression.
    Expr(Expr),
    /// `()`
    Empty(Pos),
    /// `(a, b)` within a grouping set
    Set(Vec<Expr>),
    /// `ROLLUP (…)`
    Rollup(Vec<Grouping>, Pos),
    /// `CUBE (…)`
    Cube(Vec<Grouping>, Pos),
    /// `GROUPING SETS (…)`
    Sets(Vec<Grouping>, Pos),
}

/// An element of ORDER BY.
#[derive(Debug, Clone, PartialEq)]
pub struct SortBy {
    /// The expression, position or name.
    pub value: Expr,
    /// `ASC`, `DESC`, `USING op`
    pub direction: SortDirection,
    /// `NULLS FIRST` (true) or `NULLS LAST`, if given.
    pub nulls_first: Option<bool>,
}

/// The direction of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortDirection {
    /// Not given
    Default,
    /// `ASC`
    Asc,
    /// `DESC`
    Desc,
    /// `USING op`, and where the operator stands
    Using(Operator, Pos),
}

/// A row-locking clause.
#[derive(Debug, Clone, PartialEq)]
pub struct Locking {
    /// How strongly.
    pub strength: LockStrength,
    /// `OF a, b`; all when empty.
    pub tables: Vec<Name>,
    /// `NOWAIT`, `SKIP LOCKED`
    pub wait: LockWait,
    /// Where it begins.
    pub at: Pos,
}

/// Row locks, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockStrength {
    /// `FOR KEY SHARE`
    KeyShare,
    /// `FOR SHARE`
    Share,
    /// `FOR NO KEY UPDATE`
    NoKeyUpdate,
    /// `FOR UPDATE`
    Update,
}

/// If a row is locked by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    /// Wait.
    Block,
    /// `NOWAIT`
    Error,
    /// `SKIP LOCKED`
    Skip,
}

/// `WITH`
#[derive(Debug, Clone, PartialEq)]
pub struct With {
    /// `RECURSIVE`
    pub recursive: bool,
    /// The common table expressions, in order.
    pub ctes: Vec<Cte>,
    /// Where it begins.
    pub at: Pos,
}

/// A common table expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Cte {
    /// Its name.
    pub name: Name,
    /// Names of its columns, if given.
    pub columns: Vec<Name>,
    /// `MATERIALIZED` (true), `NOT MATERIALIZED`, or neither.
    pub materialized: Option<bool>,
    /// The statement: a query, or a change with RETURNING.
    pub statement: Box<Statement>,
    /// `SEARCH` or `CYCLE` was written.
    pub search_or_cycle: bool,
}

/// An item of FROM.
#[derive(Debug, Clone, PartialEq)]
pub enum FromItem {
    /// A relation by name.
    Table {
        name: QualifiedName,
        /// `ONLY`
        only: bool,
        alias: Option<Alias>,
        /// `TABLESAMPLE` was written.
        sample: bool,
    },
    /// `[LATERAL] (query) alias`
    Subquery {
        query: Box<Query>,
        lateral: bool,
        alias: Option<Alias>,
        at: Pos,
    },
    /// `[LATERAL] f(…) [WITH ORDINALITY] alias`, `ROWS FROM (…)`
    Functions {
        /// The calls, each with its column definition list if given.
        calls: Vec<(Expr, Vec<ColumnDef>)>,
        /// `ROWS FROM`
        rows_from: bool,
        ordinality: bool,
        lateral: bool,
        alias: Option<Alias>,
        /// `AS (a int, b text)` for all.
        columns: Vec<ColumnDef>,
        at: Pos,
    },
    /// `a JOIN b …`
    Join(Box<Join>),
}

/// A join as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// Which rows without a partner stay.
    pub kind: JoinKind,
    /// `NATURAL`
    pub natural: bool,
    /// The left side.
    pub left: FromItem,
    /// The right side.
    pub right: FromItem,
    /// `USING (…)`, with its alias.
    pub using: Option<(Vec<Name>, Option<Name>)>,
    /// `ON`
    pub on: Option<Expr>,
    /// The alias of a join in parentheses.
    pub alias: Option<Alias>,
    /// Where it begins.
    pub at: Pos,
}

/// Kinds of join; a CROSS JOIN is an inner join without a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// `[INNER] JOIN`, `CROSS JOIN`
    Inner,
    /// `LEFT JOIN`
    Left,
    /// `RIGHT JOIN`
    Right,
    /// `FULL JOIN`
    Full,
}

/// `AS t (a, b)`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The name.
    pub name: Name,
    /// Names of columns.
    pub columns: Vec<Name>,
}

/// A column of a column definition list.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDef {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: TypeName,
    /// `COLLATE`
    pub collation: Option<QualifiedName>,
}

/// A window: a definition, or a reference to one.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// The name that WINDOW gives it, or for `OVER name` the name that is meant.
    pub name: Option<Name>,
    /// `OVER name`, without parentheses.
    pub reference: bool,
    /// The window that this one refines: `(base ORDER BY …)`.
    pub base: Option<Name>,
    /// `PARTITION BY`
    pub partition_by: Vec<Expr>,
    /// `ORDER BY`
    pub order_by: Vec<SortBy>,
    /// The frame, if given.
    pub frame: Option<Frame>,
    /// Where it begins.
    pub at: Pos,
}

/// A window's frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Its unit.
    pub unit: FrameUnit,
    /// Its start.
    pub start: FrameBound,
    /// Its end; `CURRENT ROW` when not given.
    pub end: FrameBound,
    /// `EXCLUDE`
    pub exclude: FrameExclude,
    /// Where it begins.
    pub at: Pos,
}

/// The unit of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameUnit {
    /// `ROWS`
    Rows,
    /// `RANGE`
    Range,
    /// `GROUPS`
    Groups,
}

/// An end of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameBound {
    /// `UNBOUNDED PRECEDING`
    UnboundedPreceding,
    /// `n PRECEDING`
    Preceding(Box<Expr>),
    /// `CURRENT ROW`
    CurrentRow,
    /// `n FOLLOWING`
    Following(Box<Expr>),
    /// `UNBOUNDED FOLLOWING`
    UnboundedFollowing,
}

/// EXCLUDE of a window frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameExclude {
    /// Nothing
    NoOthers,
    /// `CURRENT ROW`
    CurrentRow,
    /// `GROUP`
    Group,
    /// `TIES`
    Ties,
}
