//! The state of a query that is being bound: its range table, what its names may mean, and which
//! clause the binder is in.

use std::sync::Arc;

use evenkeel_types::SqlType;

use crate::ast;
use crate::ast::Pos;
use crate::bound::{Cte, Expr, RangeEntry};
use crate::relation::Oid;

/// The clause in which an expression stands, for what is allowed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Place {
    /// No clause yet.
    #[default]
    None,
    JoinOn,
    FromSubquery,
    FromFunction,
    Where,
    Having,
    Filter,
    WindowPartition,
    WindowOrder,
    FrameRange,
    FrameRows,
    FrameGroups,
    Select,
    GroupBy,
    OrderBy,
    DistinctOn,
    Limit,
    Offset,
    Values,
    /// The only row of an INSERT's VALUES.
    SingleValues,
    UpdateSource,
    /// A subscript of a column of INSERT.
    InsertTarget,
    Returning,
    /// RETURNING of MERGE.
    MergeReturning,
    MergeWhen,
    IndexExpression,
    IndexPredicate,
    /// A column's default.
    Default,
    /// A CHECK constraint.
    Check,
    /// The new values of a column whose type changes.
    Transform,
    /// The values of a generated column.
    Generated,
    /// The rows that COPY FROM takes.
    CopyWhere,
    ExecuteArgument,
}

impl Place {
    /// The clause as messages call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::None => "invalid expression kind",
            Place::JoinOn => "JOIN/ON",
            Place::FromSubquery => "sub-SELECT in FROM",
            Place::FromFunction => "function in FROM",
            Place::Where => "WHERE",
            Place::Having => "HAVING",
            Place::Filter => "FILTER",
            Place::WindowPartition => "window PARTITION BY",
            Place::WindowOrder => "window ORDER BY",
            Place::FrameRange => "window RANGE",
            Place::FrameRows => "window ROWS",
            Place::FrameGroups => "window GROUPS",
            Place::Select => "SELECT",
            Place::GroupBy => "GROUP BY",
            Place::OrderBy => "ORDER BY",
            Place::DistinctOn => "DISTINCT ON",
            Place::Limit => "LIMIT",
            Place::Offset => "OFFSET",
            Place::Values | Place::SingleValues => "VALUES",
            Place::UpdateSource => "UPDATE",
            Place::InsertTarget => "INSERT",
            Place::Returning | Place::MergeReturning => "RETURNING",
            Place::MergeWhen => "MERGE WHEN conditions",
            Place::IndexExpression => "index expressions",
            Place::IndexPredicate => "index predicates",
            Place::Default => "DEFAULT expressions",
            Place::Check => "check constraints",
            Place::Transform => "transform expressions",
            Place::Generated => "column generation expressions",
            Place::CopyWhere => "COPY FROM WHERE conditions",
            Place::ExecuteArgument => "EXECUTE parameters",
        }
    }
}

/// A column that a name may mean: a variable of an entry of the range table.
#[derive(Debug, Clone)]
pub(super) struct NsColumn {
    pub(super) name: Arc<str>,
    /// The entry and column; for columns of a join those of the side it comes from.
    pub(super) rel: usize,
    pub(super) column: usize,
    pub(super) ty: SqlType,
    /// Hidden from `*` and from names: a column that USING merged, in a join without alias.
    pub(super) hidden: bool,
}

/// An item of the namespace: something a table name may mean.
#[derive(Debug, Clone)]
pub(super) struct NsItem {
    /// Its entry in the range table.
    pub(super) rel: usize,
    pub(super) name: Arc<str>,
    pub(super) columns: Vec<NsColumn>,
    /// Whether the table name is visible.
    pub(super) table_visible: bool,
    /// Whether its columns are visible without the table name.
    pub(super) columns_visible: bool,
    /// Visible to LATERAL items only.
    pub(super) lateral_only: bool,
    /// Whether LATERAL items may use it (not below the wrong side of an outer join).
    pub(super) lateral_ok: bool,
    /// For `schema.table.column`: the relation, if the entry has no alias.
    pub(super) relation: Option<Oid>,
    /// A function that gives one column of a scalar type: its name is that column.
    pub(super) scalar_function: bool,
}

/// Facts of a range-table entry that errors and hints name.
#[derive(Debug, Clone)]
pub(super) struct EntryInfo {
    /// Whether the statement gave it an alias.
    pub(super) aliased: bool,
    /// The relation's own name and oid.
    pub(super) relation: Option<(Arc<str>, Oid)>,
    /// A common table expression's own name.
    pub(super) cte: Option<Arc<str>>,
    /// Whether it is a join.
    pub(super) join: bool,
}

/// A common table expression that may be referred to.
#[derive(Debug, Clone)]
pub(super) struct CteSlot {
    pub(super) name: Arc<str>,
    pub(super) columns: Vec<Arc<str>>,
    pub(super) types: Vec<SqlType>,
    /// Set when it is bound; before that only its own recursive term may refer to it.
    pub(super) bound: Option<Cte>,
    /// The number of references so far.
    pub(super) references: usize,
}

/// A query that is being bound.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) range_table: Vec<RangeEntry>,
    pub(super) info: Vec<EntryInfo>,
    pub(super) namespace: Vec<NsItem>,
    pub(super) ctes: Vec<CteSlot>,
    /// `OVERRIDING SYSTEM VALUE` (true) or `USER VALUE` of an INSERT.
    pub(super) overriding: Option<bool>,
    /// Names of WITH items that are not bound yet, for the hint.
    pub(super) future_ctes: Vec<String>,
    pub(super) place: Place,
    pub(super) has_aggregates: bool,
    pub(super) has_windows: bool,
    pub(super) has_set_calls: bool,
    /// Where the last set-returning function was seen; tells whether an expression had one.
    pub(super) set_calls_seen: usize,
    pub(super) last_set_call: Option<Pos>,
    /// Whether LATERAL references are being bound.
    pub(super) lateral_active: bool,
    /// Windows, named ones first.
    pub(super) windows: Vec<ast::Window>,
    /// Arguments of GROUPING, checked when GROUP BY is known.
    pub(super) groupings: Vec<(Vec<Expr>, Pos)>,
    /// The entry of the table that is changed, for a hint.
    pub(super) target: Option<usize>,
    /// The entry of MERGE's action, while its RETURNING is bound.
    pub(super) merge_action: Option<usize>,
    /// The query is one term of a recursive one: aggregates are refused.
    pub(super) recursive_term: bool,
}
