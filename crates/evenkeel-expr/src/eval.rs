//! Evaluation of a program, one row at a time.

mod arrays;
mod casts;
mod domains;
mod rows;

use evenkeel_types::{ArrayValue, Datum, SqlType, TypeError};
use smallvec::SmallVec;

use crate::call::{Call, Session};
use crate::error::{self, ExprResult};
use crate::memory::{Space, large_bytes};
use crate::proc::{Proc, ProcKind};
use crate::program::{CallNode, Program, SubplanNode};

/// Runs the subplans that a program asks for; the executor implements it.
pub trait Subplans {
    /// The answer of a subplan, its parameters set. `env` evaluates the node's own programs: an
    /// operand of CASE around it is known there.
    ///
    /// # Errors
    /// Those of the subplan; 21000 for more than one row.
    fn ask(&self, node: &SubplanNode, row: &[Datum], env: &Env<'_>) -> ExprResult<Datum>;
    /// The value of an executor parameter.
    ///
    /// # Errors
    /// Those of the subplan that computes it when it is first asked for.
    fn exec_param(&self, number: usize) -> ExprResult<Datum>;
}

/// For programs without subplans and executor parameters.
#[derive(Debug, Clone, Copy)]
pub struct NoSubplans;

impl Subplans for NoSubplans {
    fn ask(&self, _: &SubplanNode, _: &[Datum], _: &Env<'_>) -> ExprResult<Datum> {
        Err(error::internal("there is no subplan here"))
    }

    fn exec_param(&self, _: usize) -> ExprResult<Datum> {
        Err(error::internal("there is no executor parameter here"))
    }
}

/// Stack that one level of evaluation may need, and how much is added when it is not there.
const RED_ZONE: usize = 64 << 10;
const STACK_SEGMENT: usize = 1 << 20;

/// Terms of a condition between two questions to the session, and the last of them.
const TERMS: usize = 256;
const TERMS_LAST: usize = TERMS - 1;

/// All that programs are evaluated with, except the row.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// The statement's parameters.
    pub params: &'a [Datum],
    /// The session.
    pub session: &'a dyn Session,
    /// The subplans.
    pub subplans: &'a dyn Subplans,
    /// The operand of the innermost CASE.
    operand: Option<&'a Datum>,
    /// The value that a domain's condition is asked for.
    domain_value: Option<&'a Datum>,
}

impl<'a> Env<'a> {
    /// An environment.
    pub fn new(
        params: &'a [Datum],
        session: &'a dyn Session,
        subplans: &'a dyn Subplans,
    ) -> Env<'a> {
        Env {
            params,
            session,
            subplans,
            operand: None,
            domain_value: None,
        }
    }

    /// Asks the session now and then in a condition of very many terms.
    #[inline]
    fn count_term(&self, at: usize) -> ExprResult<()> {
        match at % TERMS {
            TERMS_LAST => self.session.check_cancel(),
            _ => Ok(()),
        }
    }

    /// The value of a program for a row.
    ///
    /// # Errors
    /// Those of the functions, operators, casts and subplans in it.
    pub fn eval(&self, program: &Program, row: &[Datum]) -> ExprResult<Datum> {
        match program {
            Program::Call(node) => self.call(node, row),
            Program::And(_)
            | Program::Or(_)
            | Program::Not(_)
            | Program::IsNull { .. }
            | Program::RowIsNull { .. }
            | Program::IsBool { .. }
            | Program::IsDistinct { .. }
            | Program::RowCompare { .. } => {
                Ok(self.truth(program, row)?.map_or(Datum::Null, Datum::Bool))
            }
            Program::Exec(number) => self.subplans.exec_param(*number),
            Program::Const(_)
            | Program::Param(_)
            | Program::Slot(_)
            | Program::CaseOperand
            | Program::DomainValue => match self.leaf(program, row) {
                Some(value) => Ok(value.clone()),
                None => self.computed(program, row),
            },
            _ => stacker::maybe_grow(RED_ZONE, STACK_SEGMENT, || self.eval_other(program, row)),
        }
    }

    #[inline(never)]
    fn eval_other(&self, program: &Program, row: &[Datum]) -> ExprResult<Datum> {
        match program {
            Program::Cast(node) => self.cast(node, row),
            Program::ToDomain(node) => self.allowed(node, row),
            Program::Case {
                operand,
                branches,
                otherwise,
            } => self.case(operand.as_deref(), branches, otherwise, row),
            Program::Coalesce(args) => {
                for arg in args {
                    let value = self.eval(arg, row)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Datum::Null)
            }
            Program::Extreme { greatest, args } => self.extreme(*greatest, args, row),
            Program::NullIf { equal, args } => {
                let (mut first, mut space) = (self.space(), self.space());
                first.put(self.eval(&args[0], row)?)?;
                let second = self.arg(&args[1], row, &mut space)?;
                let same = self.boolean(equal, first.get(), second)?;
                Ok(if same == Some(true) {
                    Datum::Null
                } else {
                    first.take()
                })
            }
            Program::AnyAll { proc, all, args } => self.any_all(proc, *all, args, row),
            Program::Array { nested, items, .. } => self.array(*nested, items, row),
            Program::Subscript { array, indexes } => self.subscript(array, indexes, row),
            Program::Slice { array, ranges } => self.slice(array, ranges, row),
            Program::AssignPart(assignment) => self.assign_part(assignment, row),
            Program::Row {
                names,
                types,
                fields,
            } => self.row(names, types, fields, row),
            Program::Field { row: record, field } => self.field(record, *field, row),
            Program::Subplan(node) => self.subplans.ask(node, row, self),
            _ => Err(error::internal(
                "a program of this kind is evaluated elsewhere",
            )),
        }
    }

    /// The truth of a program that gives a boolean; `None` is unknown.
    ///
    /// # Errors
    /// As [`Env::eval`]; XX000 for a program of another type.
    pub fn truth(&self, program: &Program, row: &[Datum]) -> ExprResult<Option<bool>> {
        match program {
            Program::Call(node) => self.call_truth(node, row),
            Program::And(args) => {
                let mut truth = Some(true);
                for (at, arg) in args.iter().enumerate() {
                    self.count_term(at)?;
                    match self.nested_truth(arg, row)? {
                        Some(true) => {}
                        Some(false) => return Ok(Some(false)),
                        None => truth = None,
                    }
                }
                Ok(truth)
            }
            Program::Or(args) => {
                let mut truth = Some(false);
                for (at, arg) in args.iter().enumerate() {
                    self.count_term(at)?;
                    match self.nested_truth(arg, row)? {
                        Some(false) => {}
                        Some(true) => return Ok(Some(true)),
                        None => truth = None,
                    }
                }
                Ok(truth)
            }
            Program::Not(arg) => Ok(self.nested_truth(arg, row)?.map(|truth| !truth)),
            Program::IsNull { arg, negated } => {
                let null = match self.leaf(arg, row) {
                    Some(value) => value.is_null(),
                    None => self.computed(arg, row)?.is_null(),
                };
                Ok(Some(null != *negated))
            }
            Program::RowIsNull { arg, negated } => self.row_is_null(arg, *negated, row).map(Some),
            Program::IsBool {
                arg,
                value,
                negated,
            } => Ok(Some((self.nested_truth(arg, row)? == *value) != *negated)),
            Program::IsDistinct {
                equal,
                args,
                negated,
            } => self
                .is_distinct(equal, args, row)
                .map(|is| Some(is != *negated)),
            Program::RowCompare { op, pairs } => self.row_compare(*op, pairs, row),
            _ => match self.leaf(program, row) {
                Some(value) => as_truth(value),
                None => as_truth(&self.computed(program, row)?),
            },
        }
    }

    #[inline]
    fn call_truth(&self, node: &CallNode, row: &[Datum]) -> ExprResult<Option<bool>> {
        match self.call(node, row) {
            Ok(Datum::Bool(value)) => Ok(Some(value)),
            Ok(Datum::Null) => Ok(None),
            Ok(_) => Err(no_boolean()),
            Err(error) => Err(error),
        }
    }

    fn nested_truth(&self, program: &Program, row: &[Datum]) -> ExprResult<Option<bool>> {
        match program {
            // The arguments of a call are evaluated with a check of their own.
            Program::Call(node) => self.call_truth(node, row),
            Program::Slot(_) | Program::Const(_) | Program::Param(_) => self.truth(program, row),
            _ => stacker::maybe_grow(RED_ZONE, STACK_SEGMENT, || self.truth(program, row)),
        }
    }

    /// The value of a program that is no leaf, or the error of a leaf that is not there.
    #[inline(never)]
    fn computed(&self, program: &Program, row: &[Datum]) -> ExprResult<Datum> {
        let mut space = self.space();
        self.arg(program, row, &mut space)?;
        Ok(space.take())
    }

    /// A place for an argument.
    #[inline]
    fn space(&self) -> Space<'a> {
        Space::new(self.session)
    }

    /// A value that was made while what it was made of is still held: both must have room.
    #[inline]
    fn made(&self, result: ExprResult<Datum>) -> ExprResult<Datum> {
        if let Ok(value) = &result
            && large_bytes(value) != 0
        {
            self.session.reserve(large_bytes(value))?;
        }
        result
    }

    /// A value, borrowed where the row, the program or the parameters hold it; otherwise put into
    /// `space`.
    ///
    /// # Errors
    /// As [`Env::eval`].
    #[inline]
    fn arg<'t>(
        &self,
        program: &'t Program,
        row: &'t [Datum],
        space: &'t mut Space<'_>,
    ) -> ExprResult<&'t Datum>
    where
        'a: 't,
    {
        match program {
            Program::Slot(at) => row
                .get(*at)
                .ok_or_else(|| error::internal("a row has fewer columns than a program reads")),
            Program::Const(value) => Ok(value),
            Program::Param(at) => self
                .params
                .get(*at)
                .ok_or_else(|| error::internal("a parameter has no value")),
            Program::CaseOperand => self
                .operand
                .ok_or_else(|| error::internal("an operand of CASE is outside of one")),
            Program::DomainValue => self
                .domain_value
                .ok_or_else(|| error::internal("a domain's value is outside of a condition")),
            _ => {
                let value =
                    stacker::maybe_grow(RED_ZONE, STACK_SEGMENT, || self.eval(program, row))?;
                space.put(value)
            }
        }
    }

    /// A value that is held somewhere; `None` for one that must be computed, or that is not there.
    #[inline]
    fn leaf<'t>(&self, program: &'t Program, row: &'t [Datum]) -> Option<&'t Datum>
    where
        'a: 't,
    {
        match program {
            Program::Slot(at) => row.get(*at),
            Program::Const(value) => Some(value),
            Program::Param(at) => self.params.get(*at),
            Program::CaseOperand => self.operand,
            Program::DomainValue => self.domain_value,
            _ => None,
        }
    }

    fn call(&self, node: &CallNode, row: &[Datum]) -> ExprResult<Datum> {
        match &*node.args {
            [a] => {
                if let Some(a) = self.leaf(a, row) {
                    return self.invoke(node, &[a]);
                }
            }
            [a, b] => {
                if let (Some(a), Some(b)) = (self.leaf(a, row), self.leaf(b, row)) {
                    return self.invoke(node, &[a, b]);
                }
            }
            _ => {}
        }
        self.call_of_computed(node, row)
    }

    /// A call with arguments that are computed, and held meanwhile.
    #[inline(never)]
    fn call_of_computed(&self, node: &CallNode, row: &[Datum]) -> ExprResult<Datum> {
        match &*node.args {
            [a] => {
                let mut space = self.space();
                self.invoke(node, &[self.arg(a, row, &mut space)?])
            }
            [a, b] => {
                let (mut left, mut right) = (self.space(), self.space());
                let left = self.arg(a, row, &mut left)?;
                let right = self.arg(b, row, &mut right)?;
                self.invoke(node, &[left, right])
            }
            args => {
                let mut space: SmallVec<[Space<'_>; 4]> =
                    args.iter().map(|_| self.space()).collect();
                let values: SmallVec<[&Datum; 8]> = args
                    .iter()
                    .zip(&mut space)
                    .map(|(arg, space)| self.arg(arg, row, space))
                    .collect::<ExprResult<_>>()?;
                if node.variadic_array {
                    return self.invoke_variadic(node, &values);
                }
                self.invoke(node, &values)
            }
        }
    }

    #[inline]
    fn invoke(&self, node: &CallNode, args: &[&Datum]) -> ExprResult<Datum> {
        if node.variadic_array && node.proc.variadic {
            return self.invoke_variadic(node, args);
        }
        if node.proc.strict && args.iter().any(|arg| arg.is_null()) {
            return Ok(Datum::Null);
        }
        let call = Call {
            oid: node.proc.oid,
            args,
            types: &node.arg_types,
            result: node.result,
            session: self.session,
        };
        // Most results are of types whose values have one size.
        if has_one_size(node.result) {
            return run(node.proc, &call);
        }
        self.made(run(node.proc, &call))
    }

    /// `VARIADIC array`: a function that takes any number of arguments of any type sees the
    /// elements as such arguments.
    fn invoke_variadic(&self, node: &CallNode, args: &[&Datum]) -> ExprResult<Datum> {
        let spread = node.proc.args.last() == Some(&crate::proc::ArgType::Any);
        let Some((last, first)) = args.split_last().filter(|_| spread) else {
            let call = Call {
                oid: node.proc.oid,
                args,
                types: &node.arg_types,
                result: node.result,
                session: self.session,
            };
            if node.proc.strict && args.iter().any(|arg| arg.is_null()) {
                return Ok(Datum::Null);
            }
            return self.made(run(node.proc, &call));
        };
        let none = ArrayValue::default();
        let array = match last {
            Datum::Array(array) => array,
            // `format` takes a NULL array for an empty one.
            _ if node.proc.name == "format" => &none,
            _ => return Ok(Datum::Null),
        };
        let element = node.arg_types.last().and_then(|ty| ty.element());
        let element = element.unwrap_or(SqlType::Unknown);
        let mut types: Vec<SqlType> = node.arg_types[..first.len()].to_vec();
        types.resize(first.len() + array.elements().len(), element);
        let all: Vec<&Datum> = first.iter().copied().chain(array.elements()).collect();
        let call = Call {
            oid: node.proc.oid,
            args: &all,
            types: &types,
            result: node.result,
            session: self.session,
        };
        self.made(run(node.proc, &call))
    }

    /// A boolean operator on two values of the types that it takes.
    fn boolean(&self, proc: &'static Proc, a: &Datum, b: &Datum) -> ExprResult<Option<bool>> {
        if proc.strict && (a.is_null() || b.is_null()) {
            return Ok(None);
        }
        let value = run(
            proc,
            &Call {
                oid: proc.oid,
                args: &[a, b],
                types: &[],
                result: SqlType::Bool,
                session: self.session,
            },
        )?;
        as_truth(&value)
    }

    fn is_distinct(
        &self,
        equal: &'static Proc,
        args: &[Program; 2],
        row: &[Datum],
    ) -> ExprResult<bool> {
        let (mut left, mut right) = (self.space(), self.space());
        let left = self.arg(&args[0], row, &mut left)?;
        let right = self.arg(&args[1], row, &mut right)?;
        match (left.is_null(), right.is_null()) {
            (true, true) => Ok(false),
            (false, false) => Ok(self.boolean(equal, left, right)? != Some(true)),
            _ => Ok(true),
        }
    }

    fn case(
        &self,
        operand: Option<&Program>,
        branches: &[(Program, Program)],
        otherwise: &Program,
        row: &[Datum],
    ) -> ExprResult<Datum> {
        let mut space = self.space();
        let operand = match operand {
            Some(operand) => Some(self.arg(operand, row, &mut space)?),
            None => self.operand,
        };
        let conditions = Env { operand, ..*self };
        for (condition, value) in branches {
            if conditions.nested_truth(condition, row)? == Some(true) {
                return self.eval(value, row);
            }
        }
        self.eval(otherwise, row)
    }

    fn extreme(&self, greatest: bool, args: &[Program], row: &[Datum]) -> ExprResult<Datum> {
        let mut best = self.space();
        for arg in args {
            let value = self.eval(arg, row)?;
            if value.is_null() {
                continue;
            }
            let better = match greatest {
                true => value.compare(best.get()).is_gt(),
                false => value.compare(best.get()).is_lt(),
            };
            if best.get().is_null() || better {
                best.put(value)?;
            }
        }
        Ok(best.take())
    }
}

#[inline]
fn has_one_size(ty: SqlType) -> bool {
    matches!(
        ty,
        SqlType::Bool
            | SqlType::Int2
            | SqlType::Int4
            | SqlType::Int8
            | SqlType::Float4
            | SqlType::Float8
            | SqlType::Date
            | SqlType::Timestamp(_)
            | SqlType::Timestamptz(_)
            | SqlType::Numeric(_)
    )
}

#[inline]
fn as_truth(value: &Datum) -> ExprResult<Option<bool>> {
    match value {
        Datum::Bool(value) => Ok(Some(*value)),
        Datum::Null => Ok(None),
        _ => Err(no_boolean()),
    }
}

#[cold]
fn no_boolean() -> TypeError {
    error::internal("a condition is not a boolean")
}

#[inline]
fn run(proc: &Proc, call: &Call<'_>) -> ExprResult<Datum> {
    match &proc.kind {
        ProcKind::Scalar(body) => body(call),
        _ => Err(not_scalar(proc)),
    }
}

#[cold]
fn not_scalar(proc: &Proc) -> TypeError {
    error::internal(format!("{} is no function of one row", proc.name))
}
