//! Operators: the one that a symbol means for its arguments, and the expression that applies it.

use evenkeel_expr::proc::{ArgType, CastContext, OperatorDef, Proc};
use evenkeel_types::{SqlState, SqlType};

use super::candidates::{self, Candidate, Choice, is_exactly};
use super::{Binder, poly, tables, types};
use crate::ast::{Operator, Pos};
use crate::bound::{CallExpr, Expr, ExprKind, OpRef};
use crate::error::{PlanError, PlanResult};

/// An operator that was chosen, with its declared arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chosen {
    pub(super) def: &'static OperatorDef,
    pub(super) proc: &'static Proc,
}

impl Chosen {
    pub(super) fn op_ref(self) -> OpRef {
        OpRef {
            oid: self.def.oid,
            proc: self.proc,
        }
    }
}

fn signature(symbol: &str, left: Option<SqlType>, right: SqlType) -> String {
    match left {
        Some(left) => format!("{} {symbol} {}", types::name(left), types::name(right)),
        None => format!("{symbol} {}", types::name(right)),
    }
}

fn not_found(
    op: &Operator,
    left: Option<SqlType>,
    right: SqlType,
    ambiguous: bool,
    at: Pos,
) -> PlanError {
    let symbol = match &op.schema {
        Some(schema) => format!("{schema}.{}", op.symbol),
        None => op.symbol.clone(),
    };
    let signature = signature(&symbol, left, right);
    if ambiguous {
        let hint = "Could not choose a best candidate operator. You might need to add explicit \
                    type casts.";
        let message = format!("operator is not unique: {signature}");
        return PlanError::new(SqlState::AMBIGUOUS_FUNCTION, message)
            .hint(hint)
            .at(at);
    }
    let hint = if left.is_some() {
        "No operator matches the given name and argument types. You might need to add explicit \
         type casts."
    } else {
        "No operator matches the given name and argument type. You might need to add an explicit \
         type cast."
    };
    let message = format!("operator does not exist: {signature}");
    PlanError::new(SqlState::UNDEFINED_FUNCTION, message)
        .hint(hint)
        .at(at)
}

/// The candidates of a symbol with so many arguments.
fn candidates_of(op: &Operator, prefix: bool) -> Vec<Candidate<&'static OperatorDef>> {
    named(op)
        .iter()
        .copied()
        .filter(|def| def.left.is_none() == prefix)
        .map(|def| Candidate {
            args: def.left.into_iter().chain([def.right]).collect(),
            what: def,
        })
        .collect()
}

fn named(op: &Operator) -> &'static [&'static OperatorDef] {
    match &op.schema {
        Some(schema) if schema != "pg_catalog" => &[],
        _ => tables::operators_named(&op.symbol),
    }
}

/// The operator for just these types.
fn exact(op: &Operator, left: Option<SqlType>, right: SqlType) -> Option<&'static OperatorDef> {
    let fits = |def: &&&'static OperatorDef| match (def.left, left) {
        (Some(declared), Some(given)) => {
            is_exactly(declared, given) && is_exactly(def.right, right)
        }
        (None, None) => is_exactly(def.right, right),
        _ => false,
    };
    named(op).iter().find(fits).copied()
}

/// The operator that the types can be converted for.
fn chosen_among(
    op: &Operator,
    left: Option<SqlType>,
    right: SqlType,
    at: Pos,
) -> PlanResult<&'static OperatorDef> {
    let list = candidates_of(op, left.is_none());
    let given: Vec<SqlType> = left.into_iter().chain([right]).collect();
    match candidates::choose(&list, &given) {
        Choice::One(candidate) => Ok(candidate.what),
        Choice::Ambiguous => Err(not_found(op, left, right, true, at)),
        Choice::None => Err(not_found(op, left, right, false, at)),
    }
}

/// The operator for these types.
///
/// # Errors
/// 42883, 42725
pub(super) fn find(
    op: &Operator,
    left: Option<SqlType>,
    right: SqlType,
    at: Pos,
) -> PlanResult<Chosen> {
    let exact = match (left, right) {
        // A literal is first taken to be of the other side's type.
        (Some(SqlType::Unknown), other) | (Some(other), SqlType::Unknown)
            if other != SqlType::Unknown =>
        {
            exact(op, Some(other), other)
        }
        _ => exact(op, left, right),
    };
    let def = match exact {
        Some(def) => def,
        None => chosen_among(op, left, right, at)?,
    };
    match tables::proc_by_oid(def.proc) {
        Some(proc) => Ok(Chosen { def, proc }),
        None => {
            let message = format!(
                "operator {} is not supported",
                signature(def.name, left, right)
            );
            Err(PlanError::unsupported(message).at(at))
        }
    }
}

/// The operator of that name for two values of one type, if there is one: `=` and `<` as sorting,
/// grouping and comparing rows use them.
pub(super) fn for_type(symbol: &str, ty: SqlType) -> Option<Chosen> {
    let op = plain(symbol);
    find(&op, Some(ty), ty, Pos::NONE).ok()
}

/// An operator without schema.
pub(super) fn plain(symbol: &str) -> Operator {
    Operator {
        schema: None,
        symbol: symbol.to_owned(),
    }
}

impl Binder<'_> {
    /// `left op right`, or `op right`.
    pub(super) fn make_op(
        &mut self,
        op: &Operator,
        left: Option<Expr>,
        right: Expr,
        at: Pos,
    ) -> PlanResult<Expr> {
        self.check_operator_schema(op, at)?;
        let chosen = find(op, left.as_ref().map(|expr| expr.ty), right.ty, at)?;
        let args: Vec<Expr> = left.into_iter().chain([right]).collect();
        let given: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let declared: Vec<ArgType> = chosen
            .def
            .left
            .into_iter()
            .chain([chosen.def.right])
            .collect();
        let resolved = poly::resolve(&given, &declared, Some(chosen.proc.result))
            .map_err(|error| error.at(at))?;
        let args = self.coerce_args(args, &resolved.args)?;
        let args = self.shown_as_names(chosen.proc, args)?;
        let result = resolved.result.unwrap_or(SqlType::Text);
        Ok(Expr {
            kind: ExprKind::Call(CallExpr {
                proc: chosen.proc,
                operator: Some(chosen.def.oid),
                args,
                variadic_array: false,
            }),
            ty: result,
            at,
        })
    }

    fn check_operator_schema(&self, op: &Operator, at: Pos) -> PlanResult<()> {
        match &op.schema {
            Some(schema) if !self.catalog.schema_exists(schema) => Err(self.no_schema(schema, at)),
            _ => Ok(()),
        }
    }

    /// The arguments as values of the types that a call takes.
    pub(super) fn coerce_args(
        &mut self,
        args: Vec<Expr>,
        wanted: &[Option<SqlType>],
    ) -> PlanResult<Vec<Expr>> {
        let mut coerced = Vec::with_capacity(args.len());
        for (index, arg) in args.into_iter().enumerate() {
            coerced.push(match wanted.get(index).copied().flatten() {
                Some(ty) => self.coerce(arg, ty, CastContext::Implicit, Pos::NONE)?,
                None => arg,
            });
        }
        Ok(coerced)
    }

    /// `left op ANY | ALL (array)`
    pub(super) fn make_any_all(
        &mut self,
        op: &Operator,
        all: bool,
        left: Expr,
        array: Expr,
        at: Pos,
    ) -> PlanResult<Expr> {
        let wrong = |message: &str| PlanError::new(SqlState::WRONG_OBJECT_TYPE, message).at(at);
        let element = match array.ty {
            SqlType::Unknown => SqlType::Unknown,
            ty => match ty.element() {
                Some(element) => element,
                None => return Err(wrong("op ANY/ALL (array) requires array on right side")),
            },
        };
        self.check_operator_schema(op, at)?;
        let chosen = find(op, Some(left.ty), element, at)?;
        let given = [left.ty, element];
        let declared: Vec<ArgType> = chosen
            .def
            .left
            .into_iter()
            .chain([chosen.def.right])
            .collect();
        let resolved = poly::resolve(&given, &declared, Some(chosen.proc.result))
            .map_err(|error| error.at(at))?;
        if resolved.result != Some(SqlType::Bool) {
            return Err(wrong(
                "op ANY/ALL (array) requires operator to yield boolean",
            ));
        }
        let right_type = resolved.args.get(1).copied().flatten();
        let array_type = match (right_type.and_then(SqlType::array_of), right_type) {
            (Some(ty), _) => ty,
            (None, Some(ty)) => {
                let name = types::name(ty);
                let message = format!("could not find array type for data type {name}");
                return Err(PlanError::new(SqlState::UNDEFINED_OBJECT, message).at(at));
            }
            (None, None) => array.ty,
        };
        let left = match resolved.args.first().copied().flatten() {
            Some(ty) => self.coerce(left, ty, CastContext::Implicit, Pos::NONE)?,
            None => left,
        };
        let array = self.coerce(array, array_type, CastContext::Implicit, Pos::NONE)?;
        Ok(Expr {
            kind: ExprKind::AnyAll {
                op: chosen.op_ref(),
                all,
                left: Box::new(left),
                array: Box::new(array),
            },
            ty: SqlType::Bool,
            at,
        })
    }

    /// The operator `=` of IS DISTINCT FROM and NULLIF, with both arguments coerced.
    pub(super) fn equality(
        &mut self,
        left: Expr,
        right: Expr,
        construct: &str,
        at: Pos,
    ) -> PlanResult<(&'static Proc, Expr, Expr)> {
        let call = self.make_op(&plain("="), Some(left), right, at)?;
        if call.ty != SqlType::Bool {
            let message = format!("{construct} requires = operator to yield boolean");
            return Err(PlanError::new(SqlState::DATATYPE_MISMATCH, message).at(at));
        }
        if let ExprKind::Call(mut call) = call.kind
            && let (Some(right), Some(left)) = (call.args.pop(), call.args.pop())
        {
            return Ok((call.proc, left, right));
        }
        let message = "an operator is no call";
        Err(PlanError::new(SqlState::INTERNAL_ERROR, message))
    }
}
