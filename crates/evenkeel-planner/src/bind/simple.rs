//! CASE, COALESCE, GREATEST, IS TRUE, arrays and their subscripts, CURRENT_DATE and its kin.

use evenkeel_expr::proc::CastContext;
use evenkeel_types::{Datum, SqlState, SqlType};

use super::expr::{boolean, constant};
use super::operators::plain;
use super::{Binder, common_type, place, tables, types};
use crate::ast::{self, ExprKind as K, Pos, SqlValue};
use crate::bound::{CallExpr, Expr, ExprKind};
use crate::error::{PlanError, PlanResult};

/// Most dimensions of an array.
const MAX_DIMENSIONS: usize = 6;

/// The ends of a subscript, as far as they are given; an index is an upper end.
pub(super) type Range = (Option<Expr>, Option<Expr>);

/// 42804: a value of this type has no parts by subscripts.
pub(super) fn no_subscripts(ty: SqlType) -> PlanError {
    let message = format!(
        "cannot subscript type {} because it does not support subscripting",
        types::name(ty)
    );
    PlanError::new(SqlState::DATATYPE_MISMATCH, message)
}

impl Binder<'_> {
    pub(super) fn bind_is_bool(
        &mut self,
        arg: &ast::Expr,
        value: Option<bool>,
        negated: bool,
        at: Pos,
    ) -> PlanResult<Expr> {
        let clause = match (value, negated) {
            (Some(true), false) => "IS TRUE",
            (Some(true), true) => "IS NOT TRUE",
            (Some(false), false) => "IS FALSE",
            (Some(false), true) => "IS NOT FALSE",
            (None, false) => "IS UNKNOWN",
            (None, true) => "IS NOT UNKNOWN",
        };
        let arg = self.bind_expr(arg)?;
        let arg = Box::new(self.coerce_to_boolean(arg, clause)?);
        let kind = ExprKind::IsBool {
            arg,
            value,
            negated,
        };
        Ok(boolean(kind, at))
    }

    /// Values of one common type.
    fn alike(&mut self, bound: Vec<Expr>, construct: &str) -> PlanResult<(Vec<Expr>, SqlType)> {
        let refs: Vec<&Expr> = bound.iter().collect();
        let common = common_type::select(&refs, construct)?;
        let mut coerced = Vec::with_capacity(bound.len());
        for expr in bound {
            coerced.push(self.coerce_to_common(expr, common, construct)?);
        }
        let refs: Vec<&Expr> = coerced.iter().collect();
        let ty = common_type::with_modifier(&refs, common);
        Ok((coerced, ty))
    }

    fn bind_all(&mut self, args: &[ast::Expr]) -> PlanResult<Vec<Expr>> {
        args.iter().map(|arg| self.bind_expr(arg)).collect()
    }

    pub(super) fn bind_coalesce(&mut self, args: &[ast::Expr], at: Pos) -> PlanResult<Expr> {
        let seen = self.scope().set_calls_seen;
        let bound = self.bind_all(args)?;
        let (bound, ty) = self.alike(bound, "COALESCE")?;
        self.no_set_calls_since(seen, "COALESCE")?;
        let kind = ExprKind::Coalesce(bound);
        Ok(Expr { kind, ty, at })
    }

    pub(super) fn bind_extreme(
        &mut self,
        greatest: bool,
        args: &[ast::Expr],
        at: Pos,
    ) -> PlanResult<Expr> {
        let construct = if greatest { "GREATEST" } else { "LEAST" };
        let bound = self.bind_all(args)?;
        let (args, ty) = self.alike(bound, construct)?;
        if !super::sort::can_compare("<", ty) {
            let ty = types::name(ty);
            let message = format!("could not identify a comparison function for type {ty}");
            return Err(PlanError::new(SqlState::UNDEFINED_FUNCTION, message));
        }
        let kind = ExprKind::Extreme { greatest, args };
        Ok(Expr { kind, ty, at })
    }

    pub(super) fn bind_case(
        &mut self,
        operand: Option<&ast::Expr>,
        branches: &[(ast::Expr, ast::Expr)],
        otherwise: Option<&ast::Expr>,
        at: Pos,
    ) -> PlanResult<Expr> {
        let seen = self.scope().set_calls_seen;
        let operand = match operand {
            Some(operand) => {
                let operand = self.bind_expr(operand)?;
                Some(self.resolve_unknown(operand)?)
            }
            None => None,
        };
        let mut conditions = Vec::with_capacity(branches.len());
        let mut values = Vec::with_capacity(branches.len() + 1);
        for (condition, value) in branches {
            let mut bound = self.bind_expr(condition)?;
            if let Some(operand) = &operand {
                let placeholder = Expr {
                    kind: ExprKind::CaseOperand,
                    ty: operand.ty,
                    at: operand.at,
                };
                let at = place::of_ast(condition);
                bound = self.make_op(&plain("="), Some(placeholder), bound, at)?;
            }
            conditions.push(self.coerce_to_boolean(bound, "CASE/WHEN")?);
            values.push(self.bind_expr(value)?);
        }
        let default = match otherwise {
            Some(otherwise) => self.bind_expr(otherwise)?,
            None => constant(Datum::Null, SqlType::Unknown, Pos::NONE),
        };
        // The default decides first.
        let mut refs: Vec<&Expr> = vec![&default];
        refs.extend(&values);
        let common = common_type::select(&refs, "CASE")?;
        let default = self.coerce_to_common(default, common, "CASE/ELSE")?;
        let mut bound = Vec::with_capacity(values.len());
        for (condition, value) in conditions.into_iter().zip(values) {
            bound.push((
                condition,
                self.coerce_to_common(value, common, "CASE/WHEN")?,
            ));
        }
        self.no_set_calls_since(seen, "CASE")?;
        let mut refs: Vec<&Expr> = vec![&default];
        refs.extend(bound.iter().map(|branch| &branch.1));
        let ty = common_type::with_modifier(&refs, common);
        let kind = ExprKind::Case {
            operand: operand.map(Box::new),
            branches: bound,
            otherwise: Box::new(default),
        };
        Ok(Expr { kind, ty, at })
    }

    /// `ARRAY[…]`, cast to `target` if it is given.
    pub(super) fn bind_array(
        &mut self,
        items: &[ast::Expr],
        target: Option<SqlType>,
        at: Pos,
    ) -> PlanResult<Expr> {
        self.deeper(|binder| binder.bind_array_items(items, target, at))
    }

    fn bind_array_items(
        &mut self,
        items: &[ast::Expr],
        target: Option<SqlType>,
        at: Pos,
    ) -> PlanResult<Expr> {
        let mut nested = false;
        let mut bound = Vec::with_capacity(items.len());
        for item in items {
            let value = match &item.kind {
                K::Array(inner) => {
                    nested = true;
                    self.bind_array(inner, target, item.at)?
                }
                _ => self.bind_expr(item)?,
            };
            nested |= value.ty.element().is_some() && !value.ty.is_vector();
            bound.push(value);
        }
        let (array, item) = self.array_types(&bound, target, nested, at)?;
        let mut coerced = Vec::with_capacity(bound.len());
        for value in bound {
            coerced.push(if target.is_some() {
                let at = place::of(&value);
                self.cast_explicitly(value, item, at)?
            } else {
                self.coerce_to_common(value, item, "ARRAY")?
            });
        }
        // As `exprTypmod`: a modifier that all items have is the array's.
        let first = coerced.first().map(|item| item.ty);
        let array = match first {
            Some(ty)
                if matches!(array, SqlType::Array(..))
                    && types::same(ty, item)
                    && coerced.iter().all(|item| item.ty == ty) =>
            {
                ty.arrays_with_its_modifier().unwrap_or(array)
            }
            _ => array,
        };
        let kind = ExprKind::Array {
            nested,
            items: coerced,
        };
        Ok(Expr {
            kind,
            ty: array,
            at,
        })
    }

    /// The type of the array and that of its items.
    fn array_types(
        &mut self,
        bound: &[Expr],
        target: Option<SqlType>,
        nested: bool,
        at: Pos,
    ) -> PlanResult<(SqlType, SqlType)> {
        if let Some(array) = target {
            let element = array.element().unwrap_or(array);
            return Ok((array, if nested { array } else { element }));
        }
        if bound.is_empty() {
            let message = "cannot determine type of empty array";
            let hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[].";
            let error = PlanError::new(SqlState::INDETERMINATE_DATATYPE, message);
            return Err(error.hint(hint).at(at));
        }
        let refs: Vec<&Expr> = bound.iter().collect();
        let common = common_type::select(&refs, "ARRAY")?;
        let undefined =
            |message: String| PlanError::new(SqlState::UNDEFINED_OBJECT, message).at(at);
        let name = types::name(common);
        if nested {
            if common.element().is_none() {
                let message = format!("could not find element type for data type {name}");
                return Err(undefined(message));
            }
            return Ok((common, common));
        }
        match common.array_of() {
            Some(array) => Ok((array, common)),
            None => Err(undefined(format!(
                "could not find array type for data type {name}"
            ))),
        }
    }

    pub(super) fn bind_subscript(
        &mut self,
        base: &ast::Expr,
        subscripts: &[ast::Subscript],
        at: Pos,
    ) -> PlanResult<Expr> {
        let array = self.bind_expr(base)?;
        let array = self.of_base(array);
        if array.ty == SqlType::Jsonb {
            return self.bind_jsonb_subscript(array, subscripts, at);
        }
        let slice = subscripts.iter().any(|subscript| subscript.slice);
        let element = match array.ty {
            SqlType::Name => Some(SqlType::InternalChar),
            other => other.element(),
        };
        let Some(element) = element else {
            return Err(no_subscripts(array.ty).at(place::of(&array)));
        };
        let ranges = self.bind_ranges(&subscripts.iter().collect::<Vec<_>>())?;
        // The parts of a vector are an array.
        let ty = match array.ty.is_vector() {
            true => element.array_of().unwrap_or(array.ty),
            false => array.ty,
        };
        let array = Box::new(array);
        Ok(if slice {
            let kind = ExprKind::Slice { array, ranges };
            Expr { kind, ty, at }
        } else {
            let indexes = ranges.into_iter().filter_map(|range| range.1).collect();
            Expr {
                kind: ExprKind::Subscript { array, indexes },
                ty: element,
                at,
            }
        })
    }

    /// Subscripts, of which each is a slice if one is.
    pub(super) fn bind_ranges(&mut self, subscripts: &[&ast::Subscript]) -> PlanResult<Vec<Range>> {
        let slice = subscripts.iter().any(|subscript| subscript.slice);
        let mut ranges = Vec::with_capacity(subscripts.len());
        for subscript in subscripts {
            let mut lower = self.subscript_value(subscript.lower.as_ref())?;
            let upper = self.subscript_value(subscript.upper.as_ref())?;
            if slice && !subscript.slice {
                lower = Some(constant(Datum::Int4(1), SqlType::Int4, Pos::NONE));
            }
            ranges.push((lower, upper));
        }
        if ranges.len() > MAX_DIMENSIONS {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({MAX_DIMENSIONS})",
                ranges.len()
            );
            return Err(PlanError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        Ok(ranges)
    }

    /// `jsonb[…]`, which is `#>`: each subscript is a name or an index.
    fn bind_jsonb_subscript(
        &mut self,
        json: Expr,
        subscripts: &[ast::Subscript],
        at: Pos,
    ) -> PlanResult<Expr> {
        let subscripts: Vec<&ast::Subscript> = subscripts.iter().collect();
        let steps = self.jsonb_steps(&subscripts, place::of(&json))?;
        let mut path = Vec::with_capacity(steps.len());
        for step in steps {
            let explicit = CastContext::Explicit;
            let text = self.coerce_to_target(step, SqlType::Text, explicit, Pos::NONE)?;
            path.extend(text);
        }
        let path = Expr {
            kind: ExprKind::Array {
                items: path,
                nested: false,
            },
            ty: SqlType::TEXT_ARRAY,
            at: Pos::NONE,
        };
        self.make_op(&super::operators::plain("#>"), Some(json), path, at)
    }

    /// The subscripts of a `jsonb` that stands at `at`: each an integer or a text.
    pub(super) fn jsonb_steps(
        &mut self,
        subscripts: &[&ast::Subscript],
        at: Pos,
    ) -> PlanResult<Vec<Expr>> {
        let mut path = Vec::with_capacity(subscripts.len());
        for subscript in subscripts {
            let (Some(step), false) = (&subscript.upper, subscript.slice) else {
                let bound = subscript.upper.as_ref().or(subscript.lower.as_ref());
                let at = bound.map_or(at, |bound| bound.at);
                let message = "jsonb subscript does not support slices";
                return Err(PlanError::new(SqlState::DATATYPE_MISMATCH, message).at(at));
            };
            let step = self.bind_expr(step)?;
            let (from, at) = (step.ty, place::of(&step));
            path.push(self.jsonb_step(step)?.ok_or_else(|| {
                let message = format!("subscript type {} is not supported", types::name(from));
                let hint = "jsonb subscript must be coercible to either integer or text.";
                let error = PlanError::new(SqlState::DATATYPE_MISMATCH, message);
                error.hint(hint).at(at)
            })?);
        }
        Ok(path)
    }

    /// A subscript of a `jsonb`: an integer if it can be one, or a text.
    fn jsonb_step(&mut self, step: Expr) -> PlanResult<Option<Expr>> {
        let implicit = CastContext::Implicit;
        if step.ty != SqlType::Unknown {
            let index = self.coerce_to_target(step.clone(), SqlType::Int4, implicit, Pos::NONE)?;
            if index.is_some() {
                return Ok(index);
            }
        }
        self.coerce_to_target(step, SqlType::Text, implicit, Pos::NONE)
    }

    fn subscript_value(&mut self, value: Option<&ast::Expr>) -> PlanResult<Option<Expr>> {
        let Some(value) = value else {
            return Ok(None);
        };
        let bound = self.bind_expr(value)?;
        let at = place::of(&bound);
        let context = CastContext::Assignment;
        match self.coerce_to_target(bound, SqlType::Int4, context, Pos::NONE)? {
            Some(index) => Ok(Some(index)),
            None => {
                let message = "array subscript must have type integer";
                Err(PlanError::new(SqlState::DATATYPE_MISMATCH, message).at(at))
            }
        }
    }

    /// `CURRENT_DATE` and the others: calls of what they stand for.
    pub(super) fn bind_sql_value(
        &mut self,
        value: SqlValue,
        precision: Option<i32>,
        at: Pos,
    ) -> PlanResult<Expr> {
        /// `now`, `current_user`, `session_user`, `current_schema`, `current_database`.
        const PROCS: [u32; 5] = [1299, 745, 746, 1402, 861];
        let digits = precision.map(|p| u8::try_from(p).unwrap_or(if p < 0 { 0 } else { 6 }).min(6));
        let (proc, cast) = match value {
            SqlValue::CurrentDate => (PROCS[0], Some(SqlType::Date)),
            SqlValue::CurrentTimestamp => (PROCS[0], digits.map(|d| SqlType::Timestamptz(Some(d)))),
            SqlValue::LocalTimestamp => (PROCS[0], Some(SqlType::Timestamp(digits))),
            SqlValue::LocalTime => (PROCS[0], Some(SqlType::Time(digits))),
            SqlValue::CurrentTime => (PROCS[0], Some(SqlType::Timetz(digits))),
            SqlValue::CurrentRole | SqlValue::CurrentUser | SqlValue::User => (PROCS[1], None),
            SqlValue::SessionUser => (PROCS[2], None),
            SqlValue::CurrentSchema => (PROCS[3], None),
            SqlValue::CurrentCatalog => (PROCS[4], None),
        };
        let Some(proc) = tables::proc_by_oid(proc) else {
            return Err(PlanError::unsupported(format!("{value:?} is not supported")).at(at));
        };
        let ty = match proc.result {
            evenkeel_expr::proc::ArgType::Is(ty) => ty,
            _ => SqlType::Text,
        };
        let call = Expr {
            kind: ExprKind::Call(CallExpr {
                proc,
                operator: None,
                args: Vec::new(),
                variadic_array: false,
            }),
            ty,
            at,
        };
        match cast {
            Some(target) => self.cast_explicitly(call, target, at),
            None => Ok(call),
        }
    }
}
