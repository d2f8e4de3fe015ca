//! Expressions.

use super::{JsonConstructor, JsonItem, Name, Pos, QualifiedName, Query, SortBy, Window};

/// An expression and where it begins (for an operator: where the operator stands, as
/// PostgreSQL's `location` has it).
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// The node.
    pub kind: ExprKind,
    /// Its position.
    pub at: Pos,
}

/// The kinds of expression (`a_expr` and `c_expr` of the grammar).
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A constant.
    Literal(Literal),
    /// `$1`, counted from 1.
    Param(u32),
    /// `a`, `t.a`, `s.t.a`; `t.*` ends with [`FieldPart::Star`].
    Column(Vec<FieldPart>),
    /// `(expr).field`, `(expr).*`
    Field { base: Box<Expr>, field: FieldPart },
    /// `expr[i]`, `expr[l:u]`
    Subscript {
        base: Box<Expr>,
        subscripts: Vec<Subscript>,
    },
    /// `CAST(x AS t)`, `x::t`, `t 'literal'`
    Cast { arg: Box<Expr>, ty: TypeName },
    /// `x COLLATE c`
    Collate {
        arg: Box<Expr>,
        collation: QualifiedName,
    },
    /// `x AT TIME ZONE z`; `AT LOCAL` has no zone.
    AtTimeZone {
        arg: Box<Expr>,
        zone: Option<Box<Expr>>,
    },
    /// An operator; `left` is absent for a prefix operator.
    Op {
        op: Operator,
        left: Option<Box<Expr>>,
        right: Box<Expr>,
    },
    /// `x op ANY (array)`, `x op ALL (array)`; with a subquery it is a [`ExprKind::Sublink`].
    AnyAll {
        op: Operator,
        all: bool,
        left: Box<Expr>,
        array: Box<Expr>,
    },
    /// `NOT x`
    Not(Box<Expr>),
    /// `x AND y AND …`, flat.
    And(Vec<Expr>),
    /// `x OR y OR …`, flat.
    Or(Vec<Expr>),
    /// `x IS [NOT] NULL`
    IsNull { arg: Box<Expr>, negated: bool },
    /// `x IS [NOT] TRUE|FALSE|UNKNOWN`; `value` is `None` for UNKNOWN.
    IsBool {
        arg: Box<Expr>,
        value: Option<bool>,
        negated: bool,
    },
    /// `x IS [NOT] DISTINCT FROM y`
    IsDistinct {
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    /// `x IS [NOT] [NFC] NORMALIZED`
    IsNormalized {
        arg: Box<Expr>,
        form: Option<String>,
        negated: bool,
    },
    /// `x IS [NOT] JSON [kind] [WITH UNIQUE KEYS]`
    IsJson {
        arg: Box<Expr>,
        item: JsonItem,
        unique: bool,
        negated: bool,
    },
    /// `JSON (…)`, `JSON_OBJECT (…)` and the other constructors.
    Json(Box<JsonConstructor>),
    /// `x [NOT] LIKE y [ESCAPE e]` and its kin.
    Like {
        kind: LikeKind,
        negated: bool,
        arg: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<Box<Expr>>,
    },
    /// `x [NOT] BETWEEN [SYMMETRIC] low AND high`
    Between {
        arg: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
        symmetric: bool,
        negated: bool,
    },
    /// `x [NOT] IN (a, b, …)`
    InList {
        arg: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    /// A function call.
    Call(Box<Call>),
    /// `COALESCE(…)`
    Coalesce(Vec<Expr>),
    /// `GREATEST(…)`
    Greatest(Vec<Expr>),
    /// `LEAST(…)`
    Least(Vec<Expr>),
    /// `NULLIF(a, b)`
    NullIf(Box<Expr>, Box<Expr>),
    /// `CASE [operand] WHEN … THEN … [ELSE …] END`
    Case {
        operand: Option<Box<Expr>>,
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    /// `ROW(…)`, `(a, b)`
    Row { fields: Vec<Expr>, explicit: bool },
    /// `ARRAY[…]`; nested brackets without `ARRAY` are elements of this kind too.
    Array(Vec<Expr>),
    /// A subquery within an expression.
    Sublink(Box<Sublink>),
    /// `GROUPING(a, b)`
    Grouping(Vec<Expr>),
    /// `CURRENT_DATE` and the others without parentheses.
    SqlValue(SqlValue, Option<i32>),
    /// `DEFAULT`, where the grammar takes it: VALUES of INSERT, SET of UPDATE.
    Default,
    /// `MERGE_ACTION()`
    MergeAction,
    /// `CURRENT OF cursor`
    CurrentOf(Name),
    /// Syntax that parses but that is not built, by name, for the message.
    Unsupported(String),
}

/// One part of a column reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldPart {
    /// A name.
    Name(Name),
    /// `*`
    Star(Pos),
}

/// A constant as it was written.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `NULL`
    Null,
    /// `TRUE`, `FALSE`
    Bool(bool),
    /// Digits that fit an `int4`; `0x`, `0o`, `0b` and underscores are read.
    Integer(i32),
    /// Any other number, in decimal digits as PostgreSQL's lexer hands it over.
    Number(String),
    /// A string of any quoting, escapes resolved.
    String(String),
    /// `B'101'`: the bits.
    Bits(String),
    /// `X'1F'`: the hexadecimal digits.
    HexBits(String),
}

/// A subscript of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscript {
    /// `[lower:upper]` rather than `[upper]`.
    pub slice: bool,
    /// The lower end of a slice, if given.
    pub lower: Option<Expr>,
    /// The index, or the upper end of a slice, if given.
    pub upper: Option<Expr>,
}

/// An operator, perhaps written `OPERATOR(schema.op)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// The schema of the long form.
    pub schema: Option<String>,
    /// Its characters (`!=` is `<>`).
    pub symbol: String,
}

/// Which pattern match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LikeKind {
    /// `LIKE`
    Like,
    /// `ILIKE`
    ILike,
    /// `SIMILAR TO`
    Similar,
}

/// A function call with all that may follow it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The function. Syntax that stands for a function (`EXTRACT`, `SUBSTRING … FROM`, `TRIM`,
    /// `POSITION`, `OVERLAY`, `OVERLAPS`, …) is the call of `pg_catalog`'s function.
    pub name: QualifiedName,
    /// The arguments.
    pub args: Vec<Argument>,
    /// `f(*)`
    pub star: bool,
    /// `f(DISTINCT …)`
    pub distinct: bool,
    /// The last argument is `VARIADIC array`.
    pub variadic: bool,
    /// `ORDER BY` within the parentheses, or of `WITHIN GROUP`.
    pub order_by: Vec<SortBy>,
    /// `WITHIN GROUP`
    pub within_group: bool,
    /// `FILTER (WHERE …)`
    pub filter: Option<Expr>,
    /// `OVER name` or `OVER (…)`
    pub over: Option<Window>,
    /// Written by syntax of its own (`EXTRACT(…)`), so that a column is named after the function
    /// that the grammar chose.
    pub special: bool,
}

/// An argument, perhaps named.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// `name => value`
    pub name: Option<Name>,
    /// The value.
    pub value: Expr,
}

/// A subquery within an expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Sublink {
    /// Its kind.
    pub kind: SublinkKind,
    /// The subquery.
    pub query: Query,
}

/// Kind of a subquery in an expression, by the use of its rows.
#[derive(Debug, Clone, PartialEq)]
pub enum SublinkKind {
    /// `EXISTS (…)`
    Exists,
    /// `(…)` as a value.
    Scalar,
    /// `ARRAY(…)`
    Array,
    /// `x op ANY (…)`; `x IN (…)` has no operator.
    Any { left: Expr, op: Option<Operator> },
    /// `x op ALL (…)`
    All { left: Expr, op: Operator },
}

/// The functions without parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlValue {
    /// `CURRENT_DATE`
    CurrentDate,
    /// `CURRENT_TIME`
    CurrentTime,
    /// `CURRENT_TIMESTAMP`
    CurrentTimestamp,
    /// `LOCALTIME`
    LocalTime,
    /// `LOCALTIMESTAMP`
    LocalTimestamp,
    /// `CURRENT_ROLE`
    CurrentRole,
    /// `CURRENT_USER`
    CurrentUser,
    /// `USER`
    User,
    /// `SESSION_USER`
    SessionUser,
    /// `CURRENT_CATALOG`
    CurrentCatalog,
    /// `CURRENT_SCHEMA`
    CurrentSchema,
}

/// A type's name as written.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeName {
    /// The name; SQL's own spellings are `pg_catalog`'s (`int` is `pg_catalog.int4`).
    pub name: QualifiedName,
    /// Modifiers within parentheses.
    pub modifiers: Vec<Expr>,
    /// The fields of `interval day to second`, as PostgreSQL's bit mask.
    pub interval_fields: Option<i32>,
    /// Dimensions: `int[]` has one, with its bound if given.
    pub dimensions: Vec<Option<i32>>,
    /// `SETOF`
    pub setof: bool,
    /// Where it begins.
    pub at: Pos,
}
