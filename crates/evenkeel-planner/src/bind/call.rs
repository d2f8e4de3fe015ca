//! Function calls: which function is meant, and what the call is: a scalar, an aggregate, a window
//! function, a set, a cast, or a field of a row.

use evenkeel_expr::proc::{self, ArgType, CastContext, Proc, ProcKind};
use evenkeel_types::{Datum, SqlState, SqlType};

use super::candidates::{self, Candidate, Choice};
use super::columns::field_of;
use super::pathway::{self, Pathway};
use super::{Binder, poly, tables, type_name, types};
use crate::ast::{self, Pos};
use crate::bound::{CallExpr, Expr, ExprKind};
use crate::error::{PlanError, PlanResult};

/// Most arguments of a call.
const MAX_ARGS: usize = 100;

/// A function that was chosen, with its arguments coerced.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) proc: &'static Proc,
    pub(super) args: Vec<Expr>,
    pub(super) result: SqlType,
    pub(super) variadic_array: bool,
}

/// Resolution of a name with arguments.
enum Meaning {
    Function(&'static Proc, Vec<ArgType>),
    /// `type(value)`
    Cast(SqlType),
    None,
    Ambiguous,
}

pub(super) fn signature(name: &str, args: &[SqlType]) -> String {
    let list: Vec<&str> = args.iter().map(|ty| types::name(*ty)).collect();
    format!("{name}({})", list.join(", "))
}

/// The declared arguments of a function for a call with `given` arguments; `None` if it does not
/// take so many.
fn declared(proc: &Proc, given: usize, variadic_array: bool) -> Option<Vec<ArgType>> {
    let mut args = proc.args.to_vec();
    if proc.variadic {
        let last = args.pop()?;
        if variadic_array {
            args.push(match last {
                ArgType::Is(ty) => ArgType::Is(ty.array_of()?),
                ArgType::AnyElement => ArgType::AnyArray,
                ArgType::AnyCompatible => ArgType::AnyCompatibleArray,
                other => other,
            });
            return (args.len() == given).then_some(args);
        }
        if given <= args.len() {
            return None;
        }
        args.resize(given, last);
        return Some(args);
    }
    if given > args.len() || given + proc.defaults.len() < args.len() {
        return None;
    }
    args.truncate(given);
    Some(args)
}

/// The candidates of a name. Of two with the same arguments the one without defaults or variadic
/// arguments is meant.
fn candidates_of(name: &str, given: usize, variadic: bool) -> Vec<Candidate<&'static Proc>> {
    let mut list: Vec<Candidate<&'static Proc>> = Vec::new();
    for proc in tables::procs_named(name).iter().copied() {
        let Some(args) = declared(proc, given, variadic) else {
            continue;
        };
        let plain = |p: &Proc| !p.variadic && p.args.len() == given;
        match list.iter_mut().find(|c| c.args == args) {
            Some(same) if plain(proc) && !plain(same.what) => same.what = proc,
            Some(_) => {}
            None => list.push(Candidate { what: proc, args }),
        }
    }
    list
}

fn meaning(name: &str, given: &[SqlType], variadic: bool) -> Meaning {
    let list = candidates_of(name, given.len(), variadic);
    if let Some(exact) = candidates::exact(&list, given) {
        return Meaning::Function(exact.what, exact.args);
    }
    if let ([source], Some(target), false) = (given, type_name::by_name(name), variadic) {
        let is_cast = *source == SqlType::Unknown
            || match pathway::pathway(target, *source, CastContext::Explicit) {
                Pathway::Relabel => true,
                Pathway::InOut => !(*source == SqlType::Record && tables::category(target) == 'S'),
                _ => false,
            };
        if is_cast {
            return Meaning::Cast(target);
        }
    }
    match candidates::choose(&list, given) {
        Choice::One(candidate) => Meaning::Function(candidate.what, candidate.args),
        Choice::Ambiguous => Meaning::Ambiguous,
        Choice::None => Meaning::None,
    }
}

pub(super) fn default_value(default: proc::Default, arg: ArgType) -> Expr {
    let (value, ty) = match default {
        proc::Default::Null => (
            Datum::Null,
            match arg {
                ArgType::Is(ty) => ty,
                _ => SqlType::Unknown,
            },
        ),
        proc::Default::Bool(value) => (Datum::Bool(value), SqlType::Bool),
        proc::Default::Int4(value) => (Datum::Int4(value), SqlType::Int4),
        proc::Default::Float8(value) => (Datum::Float8(value), SqlType::Float8),
        proc::Default::Text(value) => (Datum::Text(value.to_owned()), SqlType::Text),
    };
    Expr {
        kind: ExprKind::Const(value),
        ty,
        at: Pos::NONE,
    }
}

impl Binder<'_> {
    /// A call as written.
    pub(super) fn bind_call(&mut self, call: &ast::Call, at: Pos) -> PlanResult<Expr> {
        let mut args = Vec::with_capacity(call.args.len());
        let seen = self.scope().set_calls_seen;
        for argument in &call.args {
            args.push(self.bind_expr(&argument.value)?);
        }
        if call.within_group {
            let before = std::mem::replace(&mut self.scope().place, super::scope::Place::OrderBy);
            let bound: PlanResult<Vec<Expr>> = call
                .order_by
                .iter()
                .map(|key| self.bind_expr(&key.value))
                .collect();
            self.scope().place = before;
            args.extend(bound?);
        }
        self.bind_call_of(call, args, seen, at)
    }

    pub(super) fn bind_call_of(
        &mut self,
        call: &ast::Call,
        args: Vec<Expr>,
        seen: usize,
        at: Pos,
    ) -> PlanResult<Expr> {
        if args.len() > MAX_ARGS {
            let message = "cannot pass more than 100 arguments to a function";
            return Err(PlanError::new(SqlState::TOO_MANY_ARGUMENTS, message).at(at));
        }
        let name = call.name.display();
        let plain = !call.star
            && !call.distinct
            && !call.variadic
            && !call.within_group
            && call.order_by.is_empty()
            && call.filter.is_none()
            && call.over.is_none();
        if let ([row], true, [only]) = (args.as_slice(), plain, call.name.parts.as_slice())
            && row.ty == SqlType::Record
            && let Some(field) = self.field_named(row, &only.text)
        {
            return Ok(field_of(row.clone(), field.0, field.1, at));
        }
        self.check_qualification(&call.name, at)?;
        // Of the functions of `information_schema` there are those named so.
        let of_information = call.name.last().starts_with("_pg_");
        let in_catalog = match call.name.schema() {
            None | Some("pg_catalog") => !of_information,
            Some("information_schema") => of_information,
            Some(schema) if !self.catalog.schema_exists(schema) => {
                return Err(self.no_schema(schema, at));
            }
            Some(_) => false,
        };
        let given: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        if call.args.iter().any(|argument| argument.name.is_some()) {
            let resolved = self.resolve_named(call, args, in_catalog, at)?;
            return self.finish_call(call, resolved, seen, at);
        }
        let meaning = if in_catalog {
            meaning(call.name.last(), &given, call.variadic)
        } else {
            Meaning::None
        };
        match meaning {
            Meaning::Function(proc, declared) => {
                let resolved = self.resolve_call(proc, &declared, args, call.variadic)?;
                self.finish_call(call, resolved, seen, at)
            }
            Meaning::Cast(target) => {
                check_plain(call, &name, at)?;
                let mut args = args;
                match args.pop() {
                    Some(arg) => self.coerce(arg, target, CastContext::Explicit, at),
                    None => Err(undefined_function(call, &given, at)),
                }
            }
            Meaning::Ambiguous => {
                let message = format!("function {} is not unique", signature(&name, &given));
                let hint = "Could not choose a best candidate function. You might need to add \
                            explicit type casts.";
                let error = PlanError::new(SqlState::AMBIGUOUS_FUNCTION, message);
                Err(error.hint(hint).at(at))
            }
            Meaning::None => Err(undefined_function(call, &given, at)),
        }
    }

    /// The arguments coerced, the defaults filled in, the result's type.
    pub(super) fn resolve_call(
        &mut self,
        proc: &'static Proc,
        declared: &[ArgType],
        args: Vec<Expr>,
        variadic_array: bool,
    ) -> PlanResult<Resolved> {
        let given: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let resolved = poly::resolve(&given, declared, Some(proc.result))?;
        let mut args = self.coerce_args(args, &resolved.args)?;
        if variadic_array
            && let Some(last) = args.last()
            && proc.variadic
            && last.ty.element().is_none()
        {
            let message = "VARIADIC argument must be an array";
            let error = PlanError::new(SqlState::DATATYPE_MISMATCH, message);
            return Err(error.at(super::place::of(last)));
        }
        if !proc.variadic && args.len() < proc.args.len() {
            let missing = proc.args.len() - args.len();
            let first = proc.defaults.len().saturating_sub(missing);
            let rest = &proc.args[args.len()..];
            let added: Vec<Expr> = proc.defaults[first..]
                .iter()
                .zip(rest)
                .map(|(default, arg)| default_value(*default, *arg))
                .collect();
            for (value, arg) in added.into_iter().zip(rest) {
                args.push(match arg {
                    ArgType::Is(ty) => self.coerce(value, *ty, CastContext::Implicit, Pos::NONE)?,
                    _ => value,
                });
            }
        }
        let result = match resolved.result {
            Some(result) => result,
            // `"any"` as a result is the first argument's type.
            None => given.first().copied().unwrap_or(SqlType::Text),
        };
        Ok(Resolved {
            proc,
            args,
            result,
            variadic_array: variadic_array && proc.variadic,
        })
    }

    /// The call by the function's kind, with what only aggregates or windows may have.
    fn finish_call(
        &mut self,
        call: &ast::Call,
        resolved: Resolved,
        seen: usize,
        at: Pos,
    ) -> PlanResult<Expr> {
        match resolved.proc.kind {
            ProcKind::Scalar(_) => {
                check_plain(call, &call.name.display(), at)?;
                if let ("pg_typeof", [arg]) = (resolved.proc.name, &*resolved.args)
                    && arg.ty.is_of_domain()
                {
                    // No value knows the domain that it is of.
                    return Ok(Expr {
                        kind: ExprKind::Const(Datum::Oid(arg.ty.oid())),
                        ty: resolved.result,
                        at,
                    });
                }
                let args = resolved.args;
                let args = self.shown_as_names(resolved.proc, args)?;
                Ok(plain_call(Resolved { args, ..resolved }, at))
            }
            ProcKind::Set(..) => {
                check_plain(call, &call.name.display(), at)?;
                self.check_set_call(seen, at)?;
                let Resolved {
                    proc,
                    args,
                    result,
                    variadic_array,
                } = resolved;
                let kind = ExprKind::SetCall(CallExpr {
                    proc,
                    operator: None,
                    args,
                    variadic_array,
                });
                Ok(Expr {
                    kind,
                    ty: result,
                    at,
                })
            }
            ProcKind::Aggregate(_) | ProcKind::OrderedSet(..) | ProcKind::HypotheticalSet(_)
                if call.over.is_none() =>
            {
                self.bind_aggregate(call, resolved, seen, at)
            }
            _ => self.bind_window_call(call, resolved, seen, at),
        }
    }

    /// A function of a row, written like a column of it.
    pub(super) fn row_function(
        &mut self,
        name: &str,
        row: Expr,
        at: Pos,
    ) -> PlanResult<Option<Expr>> {
        match meaning(name, &[row.ty], false) {
            Meaning::Function(proc, declared) if matches!(proc.kind, ProcKind::Scalar(_)) => {
                let resolved = self.resolve_call(proc, &declared, vec![row], false)?;
                Ok(Some(plain_call(resolved, at)))
            }
            Meaning::Cast(target) => {
                Ok(Some(self.coerce(row, target, CastContext::Explicit, at)?))
            }
            _ => Ok(None),
        }
    }

    /// Refuses more than this database and a schema before a function's name.
    fn check_qualification(&self, name: &ast::QualifiedName, at: Pos) -> PlanResult<()> {
        let parts: Vec<&str> = name.parts.iter().map(|part| part.text.as_str()).collect();
        match parts.as_slice() {
            [] | [_] | [_, _] => Ok(()),
            [database, _, _] => self.check_database(database, &parts, at),
            _ => {
                let shown = parts.join(".");
                let message = format!("improper qualified name (too many dotted names): {shown}");
                Err(PlanError::new(SqlState::SYNTAX_ERROR, message).at(at))
            }
        }
    }

    fn field_named(&self, row: &Expr, name: &str) -> Option<(usize, SqlType)> {
        let fields = self.row_fields(row)?;
        let hit = fields.iter().position(|(field, _)| **field == *name)?;
        Some((hit, fields[hit].1))
    }
}

pub(super) const NO_MATCH: &str = "No function matches the given name and argument types. You might need to \
                        add explicit type casts.";

fn plain_call(resolved: Resolved, at: Pos) -> Expr {
    let kind = ExprKind::Call(CallExpr {
        proc: resolved.proc,
        operator: None,
        args: resolved.args,
        variadic_array: resolved.variadic_array,
    });
    Expr {
        kind,
        ty: resolved.result,
        at,
    }
}

fn undefined_function(call: &ast::Call, given: &[SqlType], at: Pos) -> PlanError {
    let shown = signature(&call.name.display(), given);
    let of_the_system = call
        .name
        .schema()
        .is_none_or(|schema| schema == "pg_catalog");
    if of_the_system && tables::is_unbuilt(call.name.last()) {
        return PlanError::unsupported(format!("function {shown} is not supported")).at(at);
    }
    if call.within_group || (!call.order_by.is_empty() && call.args.len() > 1) {
        let hint = if call.within_group {
            NO_MATCH
        } else {
            "No aggregate function matches the given name and argument types. Perhaps you \
             misplaced ORDER BY; ORDER BY must appear after all regular arguments of the \
             aggregate."
        };
        let message = format!("function {shown} does not exist");
        return PlanError::new(SqlState::UNDEFINED_FUNCTION, message)
            .hint(hint)
            .at(at);
    }
    let message = format!("function {shown} does not exist");
    PlanError::new(SqlState::UNDEFINED_FUNCTION, message)
        .hint(NO_MATCH)
        .at(at)
}

/// Refuses what only aggregates and window functions may have.
fn check_plain(call: &ast::Call, name: &str, at: Pos) -> PlanResult<()> {
    let wrong = |message: String| Err(PlanError::new(SqlState::WRONG_OBJECT_TYPE, message).at(at));
    if call.star {
        return wrong(format!(
            "{name}(*) specified, but {name} is not an aggregate function"
        ));
    }
    if call.distinct {
        return wrong(format!(
            "DISTINCT specified, but {name} is not an aggregate function"
        ));
    }
    if call.within_group {
        return wrong(format!(
            "WITHIN GROUP specified, but {name} is not an aggregate function"
        ));
    }
    if !call.order_by.is_empty() {
        return wrong(format!(
            "ORDER BY specified, but {name} is not an aggregate function"
        ));
    }
    if call.filter.is_some() {
        return wrong(format!(
            "FILTER specified, but {name} is not an aggregate function"
        ));
    }
    if call.over.is_some() {
        return wrong(format!(
            "OVER specified, but {name} is not a window function nor an aggregate function"
        ));
    }
    Ok(())
}
