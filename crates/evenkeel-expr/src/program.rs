//! The expression program: a typed tree over a row's slots, evaluated one row at a time.

use std::sync::Arc;

use evenkeel_types::DomainType;
use evenkeel_types::{Datum, SqlType};

use crate::proc::Proc;

/// A byte offset in the statement's text, for errors; `u32::MAX` where there is none.
pub type Position = u32;

/// `array[i] := value` or `array[l:u] := values`; an end that is not given is the array's own.
#[derive(Debug, Clone)]
pub struct PartAssignment {
    /// The array, of which NULL is an empty one.
    pub array: Program,
    /// The ends of the part in each dimension; an element's subscript is the upper one.
    pub ranges: Box<[(Option<Program>, Option<Program>)]>,
    /// Whether the value is an array, whose elements come in the place of the part's.
    pub slice: bool,
    /// Of a part of a `jsonb`, whose subscripts are names and indexes: whether the first one is an
    /// index, by which NULL becomes an array, and else an object.
    pub json: Option<bool>,
    /// The value.
    pub value: Program,
}

/// A program; built by the planner, immutable, shared by all executions of a plan.
#[derive(Debug, Clone)]
pub enum Program {
    /// A constant.
    Const(Datum),
    /// A parameter of the statement, from 0.
    Param(usize),
    /// A value that the executor sets: a column of an outer row, or the value of a subplan that
    /// runs once.
    Exec(usize),
    /// A column of the input row.
    Slot(usize),
    /// A call of a function or operator. The first argument's errors come first; a strict function
    /// is not called with a NULL, but all arguments are evaluated.
    Call(Box<CallNode>),
    /// A cast that is more than another name for the same bits.
    Cast(Box<CastNode>),
    /// Lazy: stops at the first false.
    And(Box<[Program]>),
    /// Lazy: stops at the first true.
    Or(Box<[Program]>),
    /// Three-valued.
    Not(Box<Program>),
    /// `IS NULL` of a value that is no row.
    IsNull { arg: Box<Program>, negated: bool },
    /// `IS [NOT] NULL` of a row: all fields NULL, or (negated) none.
    RowIsNull { arg: Box<Program>, negated: bool },
    /// `IS [NOT] TRUE | FALSE | UNKNOWN` (`None`).
    IsBool {
        arg: Box<Program>,
        value: Option<bool>,
        negated: bool,
    },
    /// `IS [NOT] DISTINCT FROM`; `equal` is the operator `=` of the types.
    IsDistinct {
        equal: &'static Proc,
        args: Box<[Program; 2]>,
        negated: bool,
    },
    /// `CASE`; with an operand each condition is `operand = value`, where the operand is a
    /// [`Program::CaseOperand`].
    Case {
        operand: Option<Box<Program>>,
        branches: Box<[(Program, Program)]>,
        otherwise: Box<Program>,
    },
    /// The operand of the innermost CASE.
    CaseOperand,
    /// A value, or each element of an array, that domains must allow.
    ToDomain(Box<DomainNode>),
    /// The value that the condition of a domain is asked for.
    DomainValue,
    /// Lazy.
    Coalesce(Box<[Program]>),
    /// `GREATEST` (true) or `LEAST`: NULLs are passed over; the values' order
    /// decides.
    Extreme {
        greatest: bool,
        args: Box<[Program]>,
    },
    /// NULL if both are equal, else the first.
    NullIf {
        equal: &'static Proc,
        args: Box<[Program; 2]>,
    },
    /// `left op ANY (array)` or, with `all`, `ALL`; the operator's function gives a boolean.
    AnyAll {
        proc: &'static Proc,
        all: bool,
        args: Box<[Program; 2]>,
    },
    /// `ARRAY[…]` of values of this element type; with `nested` the values are arrays themselves.
    Array {
        element: SqlType,
        nested: bool,
        items: Box<[Program]>,
    },
    /// `array[i][j]`
    Subscript {
        array: Box<Program>,
        indexes: Box<[Program]>,
    },
    /// `array[l:u]`; an end that is not given is the array's own.
    Slice {
        array: Box<Program>,
        ranges: Box<[(Option<Program>, Option<Program>)]>,
    },
    /// An array with a value in place of one of its parts.
    AssignPart(Box<PartAssignment>),
    /// `ROW(…)`, with the fields' types, and their names if it is a row of a table or query.
    Row {
        names: Arc<[Arc<str>]>,
        types: Box<[SqlType]>,
        fields: Box<[Program]>,
    },
    /// Field of a row, from 0.
    Field { row: Box<Program>, field: usize },
    /// `(a, b) < (c, d)`: the first pair that differs decides; NULL there makes NULL.
    RowCompare {
        op: RowCompareOp,
        pairs: Box<[RowPair]>,
    },
    /// A subplan, by its number in the plan; asked through [`crate::eval::Subplans`].
    Subplan(Box<SubplanNode>),
}

/// A call.
#[derive(Debug, Clone)]
pub struct CallNode {
    /// The function.
    pub proc: &'static Proc,
    /// Its arguments, already of the types it takes.
    pub args: Box<[Program]>,
    /// The arguments' types, which polymorphic functions look at.
    pub arg_types: Box<[SqlType]>,
    /// The type of the result.
    pub result: SqlType,
    /// Whether the last argument is an array that stands for the variadic arguments.
    pub variadic_array: bool,
    /// Where it stands.
    pub at: Position,
}

/// A cast.
#[derive(Debug, Clone)]
pub struct CastNode {
    /// The value.
    pub arg: Program,
    /// Its type.
    pub from: SqlType,
    /// The type wanted, with its modifier.
    pub to: SqlType,
    /// An explicit cast cuts strings that are too long; the others refuse them.
    pub explicit: bool,
    /// Where it stands.
    pub at: Position,
}

/// A coercion to a domain.
#[derive(Debug, Clone)]
pub struct DomainNode {
    /// The domain.
    pub domain: &'static DomainType,
    /// The value, of the type that the domain is over.
    pub arg: Program,
    /// The tests, in the order in which they are made: `None` is NOT NULL, of CHECK they are the
    /// name and the condition over [`Program::DomainValue`].
    pub tests: Box<[Option<(Arc<str>, Program)>]>,
    /// Whether the value is an array whose elements are tested.
    pub each: bool,
}

/// How rows are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowCompareOp {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}

/// A pair of fields that are compared: `equal` decides whether they differ, `less` which is less.
#[derive(Debug, Clone)]
pub struct RowPair {
    /// Left field.
    pub left: Program,
    /// Right field.
    pub right: Program,
    /// The operator `=` of the types.
    pub equal: &'static Proc,
    /// The operator `<` of the types.
    pub less: &'static Proc,
}

/// A subplan in an expression.
#[derive(Debug, Clone)]
pub struct SubplanNode {
    /// Its number.
    pub plan: usize,
    /// The use of its rows.
    pub kind: SubplanKind,
    /// Values that its plan refers to: executor parameter and what it is set to before it runs.
    pub params: Box<[(usize, Program)]>,
}

/// Use of a subplan's rows in an expression.
#[derive(Debug, Clone)]
pub enum SubplanKind {
    /// Whether it has a row.
    Exists,
    /// The first column of its only row; NULL if there is none, 21000 if there are more.
    Scalar,
    /// Its first column as an array.
    Array(SqlType),
    /// `test` is true for any row: the row's columns are set as these executor parameters.
    Any {
        columns: Box<[usize]>,
        test: Box<Program>,
    },
    /// `test` is true for all rows.
    All {
        columns: Box<[usize]>,
        test: Box<Program>,
    },
}
