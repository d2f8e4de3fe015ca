//! The catalog of functions, operators, casts and aggregates, with PostgreSQL's oids. A name that
//! is not here does not exist for a statement; clients read the same tables as `pg_proc`,
//! `pg_operator`, `pg_cast` and `pg_aggregate`.

use std::ops::Range;

use evenkeel_types::{Datum, SqlType, TypeResult};

use crate::call::{Call, Session};
use crate::error::ExprResult;

/// The type of an argument or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgType {
    /// This type, whatever its modifier.
    Is(SqlType),
    /// `anyelement`: any type, the same for all arguments of this kind.
    AnyElement,
    /// `anyarray`: an array of that type.
    AnyArray,
    /// `anynonarray`
    AnyNonArray,
    /// `anyenum`: as `anyelement`, of an enumerated type.
    AnyEnum,
    /// `anycompatible`: the common type of all arguments of this kind.
    AnyCompatible,
    /// `anycompatiblearray`
    AnyCompatibleArray,
    /// `"any"`: any type, each its own.
    Any,
    /// `record`, or any row type.
    Record,
}

/// On what a function's value depends: `provolatile`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    /// Its arguments alone.
    Immutable,
    /// The session too, but the same throughout a statement.
    Stable,
    /// Anything: may differ from call to call, or has an effect.
    Volatile,
}

/// A function's body.
pub type Body = fn(&Call<'_>) -> ExprResult<Datum>;

/// Makes the running state of an aggregate for one group.
pub type NewAccumulator = fn(&AggregateTypes<'_>) -> Box<dyn Accumulator>;

/// Makes the running state of an ordered-set aggregate for one group, whose rows are already
/// sorted and counted.
///
/// # Errors
/// Those that the final function has about its direct arguments.
pub type NewOrderedSet =
    fn(&AggregateTypes<'_>, &OrderedInput<'_>) -> TypeResult<Box<dyn Accumulator>>;

/// Argument and result types of an aggregate call.
#[derive(Debug, Clone, Copy)]
pub struct AggregateTypes<'a> {
    /// The types of its arguments; the direct ones come first.
    pub args: &'a [SqlType],
    /// The type of its result.
    pub result: SqlType,
}

/// Facts of an ordered-set aggregate's input, known before its first row: the aggregate keeps the
/// few values that its answer needs, not the group.
#[derive(Debug, Clone, Copy)]
pub struct OrderedInput<'a> {
    /// The direct arguments.
    pub direct: &'a [Datum],
    /// The number of rows that will come.
    pub rows: u64,
    /// Their order, a column of `WITHIN GROUP (ORDER BY …)` each.
    pub order: &'a [OrderedColumn],
}

/// A column of `WITHIN GROUP (ORDER BY …)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderedColumn {
    /// Descending.
    pub desc: bool,
    /// NULLs before all values.
    pub nulls_first: bool,
}

/// An aggregate's arguments within rows of one width that lie one behind the other.
#[derive(Debug, Clone)]
pub struct ArgRows<'a> {
    values: &'a [Datum],
    width: usize,
    count: usize,
    args: Range<usize>,
}

impl<'a> ArgRows<'a> {
    /// Of `count` rows of `width` values, in which the arguments have these places; none if the
    /// rows do not have them.
    pub fn new(
        values: &'a [Datum],
        width: usize,
        count: usize,
        args: Range<usize>,
    ) -> Option<ArgRows<'a>> {
        let there = args.start <= args.end && args.end <= width;
        let all = width.checked_mul(count) == Some(values.len());
        (there && all).then_some(ArgRows {
            values,
            width,
            count,
            args,
        })
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.count
    }

    #[inline]
    fn args(&self, at: usize) -> &'a [Datum] {
        let start = at * self.width;
        &self.values[start + self.args.start..start + self.args.end]
    }
}

/// The running state of an aggregate for one group. DISTINCT, FILTER and ORDER BY are the
/// executor's, strict transitions are not: NULLs are handed over, and the accumulator passes over
/// those that it does not count.
pub trait Accumulator: Send {
    /// Takes in a row's arguments, without the direct ones.
    ///
    /// # Errors
    /// Those of the transition function.
    fn add(&mut self, args: &[Datum], session: &dyn Session) -> TypeResult<()>;
    /// Takes in many rows' arguments, one after the other.
    ///
    /// # Errors
    /// As [`Accumulator::add`].
    fn add_rows(&mut self, rows: &ArgRows<'_>, session: &dyn Session) -> TypeResult<()> {
        (0..rows.count).try_for_each(|at| self.add(rows.args(at), session))
    }
    /// Takes a row out again, for moving window frames: the one that was added first of those that
    /// are in. False where that cannot be done; the state is then of no use, and its owner makes a
    /// new one.
    ///
    /// # Errors
    /// Those of the inverse transition function.
    fn remove(&mut self, _args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        Ok(false)
    }
    /// The value so far; the state stays as it is.
    ///
    /// # Errors
    /// Those of the final function.
    fn value(&self, session: &dyn Session) -> TypeResult<Datum>;
    /// The value, and the end of the state: large values are moved out, not copied.
    ///
    /// # Errors
    /// Those of the final function.
    fn finish(self: Box<Self>, session: &dyn Session) -> TypeResult<Datum> {
        self.value(session)
    }
    /// Bytes that the state holds, for the memory budget.
    fn bytes(&self) -> usize;
}

/// Begins to return the rows of a set-returning function.
pub type RowsOf = fn(&Call<'_>) -> TypeResult<Box<dyn Rows>>;

/// The rows of a set-returning function, made one after the other as they are asked for.
pub trait Rows: Send {
    /// Puts the columns of the next row into `row`, which is empty or the row before; false after
    /// the last. The session is that of the statement that asks, which may be a later one of the
    /// same cursor.
    ///
    /// # Errors
    /// Those of the function; 57014.
    fn next(&mut self, session: &dyn Session, row: &mut Vec<Datum>) -> TypeResult<bool>;
    /// Bytes that the state holds, for the memory budget.
    fn bytes(&self) -> usize;
}

/// Window functions that are no aggregates; the executor has them built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowFunction {
    /// `row_number()`
    RowNumber,
    /// `rank()`
    Rank,
    /// `dense_rank()`
    DenseRank,
    /// `percent_rank()`
    PercentRank,
    /// `cume_dist()`
    CumeDist,
    /// `ntile(n)`
    Ntile,
    /// `lag(v [, n [, default]])`
    Lag,
    /// `lead(v [, n [, default]])`
    Lead,
    /// `first_value(v)`
    FirstValue,
    /// `last_value(v)`
    LastValue,
    /// `nth_value(v, n)`
    NthValue,
}

/// Kind of a function, with its implementation: `prokind`, `proretset`.
#[derive(Clone, Copy)]
pub enum ProcKind {
    /// One value from one row's.
    Scalar(Body),
    /// One value from many rows'.
    Aggregate(NewAccumulator),
    /// An ordered-set aggregate with so many direct arguments, which come first; the rows arrive
    /// in order, those with a NULL left out.
    OrderedSet(NewOrderedSet, usize),
    /// A hypothetical-set aggregate: an ordered-set one with a direct argument for each column of
    /// the order, whose rows with NULLs count.
    HypotheticalSet(NewOrderedSet),
    /// A window function.
    Window(WindowFunction),
    /// A set of rows; the names and types of its columns if it has more than one.
    Set(RowsOf, &'static [(&'static str, SqlType)]),
}

impl std::fmt::Debug for ProcKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ProcKind::Scalar(_) => "Scalar",
            ProcKind::Aggregate(_) => "Aggregate",
            ProcKind::OrderedSet(..) => "OrderedSet",
            ProcKind::HypotheticalSet(_) => "HypotheticalSet",
            ProcKind::Window(_) => "Window",
            ProcKind::Set(..) => "Set",
        })
    }
}

/// A function: a row of `pg_proc`.
#[derive(Debug)]
pub struct Proc {
    /// `oid`, PostgreSQL's.
    pub oid: u32,
    /// `proname`
    pub name: &'static str,
    /// The types of its arguments.
    pub args: &'static [ArgType],
    /// `pronargdefaults`: so many of the last arguments may be left out; the body sees the
    /// defaults.
    pub defaults: &'static [Default],
    /// Whether the last argument may come any number of times (its type is then the element's, or
    /// `Any`).
    pub variadic: bool,
    /// The type of its result.
    pub result: ArgType,
    /// `proisstrict`: a NULL argument makes NULL without a call.
    pub strict: bool,
    /// `provolatile`
    pub volatility: Volatility,
    /// Its kind and body.
    pub kind: ProcKind,
    /// `procost`, in units of `cpu_operator_cost`.
    pub cost: f32,
}

impl Proc {
    /// A function of one row's values; volatility and strictness come together.
    pub(crate) const fn scalar(
        oid: u32,
        name: &'static str,
        args: &'static [ArgType],
        result: ArgType,
        (volatility, strict): (Volatility, bool),
        body: Body,
    ) -> Proc {
        Proc {
            oid,
            name,
            args,
            defaults: &[],
            variadic: false,
            result,
            strict,
            volatility,
            kind: ProcKind::Scalar(body),
            cost: 1.0,
        }
    }

    /// With another cost.
    pub(crate) const fn cost(mut self, cost: f32) -> Proc {
        self.cost = cost;
        self
    }

    /// Whether the last argument may come any number of times.
    pub(crate) const fn variadic(mut self, variadic: bool) -> Proc {
        self.variadic = variadic;
        self
    }

    /// With arguments that may be left out.
    pub(crate) const fn defaults(mut self, defaults: &'static [Default]) -> Proc {
        self.defaults = defaults;
        self
    }
}

/// The default of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// NULL
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int4(i32),
    /// A float.
    Float8(f64),
    /// A text.
    Text(&'static str),
}

/// An operator: a row of `pg_operator`.
#[derive(Debug)]
pub struct OperatorDef {
    /// `oid`
    pub oid: u32,
    /// `oprname`
    pub name: &'static str,
    /// `oprleft`; `None` for a prefix operator.
    pub left: Option<ArgType>,
    /// `oprright`
    pub right: ArgType,
    /// `oprcode`, by oid.
    pub proc: u32,
    /// `oprcom`, or 0.
    pub commutator: u32,
    /// `oprnegate`, or 0.
    pub negator: u32,
}

/// When a cast is applied: `castcontext`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Anywhere.
    Implicit,
    /// In assignments and when asked for.
    Assignment,
    /// When asked for.
    Explicit,
}

/// How a cast is done: `castmethod`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CastMethod {
    /// The same bits.
    Binary,
    /// [`crate::program::Program::Cast`].
    Convert,
    /// By the text forms.
    InOut,
}

/// A cast: a row of `pg_cast`.
#[derive(Debug)]
pub struct CastDef {
    /// `castsource`
    pub source: SqlType,
    /// `casttarget`
    pub target: SqlType,
    /// `castcontext`
    pub context: CastContext,
    /// `castmethod`
    pub method: CastMethod,
}
