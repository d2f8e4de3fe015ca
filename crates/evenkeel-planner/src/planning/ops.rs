//! The operators that the planner reasons about: equality and order of B-trees.

use evenkeel_expr::proc::{ArgType, OperatorDef, Proc};
use evenkeel_types::SqlType;

use crate::bound::{CallExpr, Expr, ExprKind};

use super::path::same;

/// The operators that a B-tree is searched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `=`
    Equal,
    /// `>=`
    GreaterEqual,
    /// `>`
    Greater,
}

impl Comparison {
    /// The same with its sides exchanged.
    pub(super) fn commuted(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessEqual => Comparison::GreaterEqual,
            Comparison::Equal => Comparison::Equal,
            Comparison::GreaterEqual => Comparison::LessEqual,
            Comparison::Greater => Comparison::Less,
        }
    }
}

/// The operator of a call, if it was written as one.
pub(super) fn operator(call: &CallExpr) -> Option<&'static OperatorDef> {
    evenkeel_expr::operator_by_oid(call.operator?)
}

fn comparison_named(name: &str) -> Option<Comparison> {
    Some(match name {
        "<" => Comparison::Less,
        "<=" => Comparison::LessEqual,
        "=" => Comparison::Equal,
        ">=" => Comparison::GreaterEqual,
        ">" => Comparison::Greater,
        _ => return None,
    })
}

/// A comparison of two values by a B-tree's operator, with the types that it compares.
pub(super) struct Compared<'e> {
    /// Which.
    pub(super) op: Comparison,
    /// Left operand.
    pub(super) left: &'e Expr,
    /// Right operand.
    pub(super) right: &'e Expr,
    /// The type that the operator takes on the left.
    pub(super) left_type: SqlType,
    /// The type that the operator takes on the right.
    pub(super) right_type: SqlType,
}

/// Takes a comparison apart.
pub(super) fn comparison(expr: &Expr) -> Option<Compared<'_>> {
    let ExprKind::Call(call) = &expr.kind else {
        return None;
    };
    let op = comparison_named(operator(call)?.name)?;
    let [left, right] = call.args.as_slice() else {
        return None;
    };
    let (left_type, right_type) = operand_types(call.proc, left, right)?;
    Some(Compared {
        op,
        left,
        right,
        left_type,
        right_type,
    })
}

fn operand_types(proc: &Proc, left: &Expr, right: &Expr) -> Option<(SqlType, SqlType)> {
    let [a, b] = proc.args else { return None };
    let of = |arg: &ArgType, expr: &Expr| match arg {
        ArgType::Is(ty) => Some(*ty),
        ArgType::AnyElement | ArgType::AnyArray | ArgType::AnyEnum => Some(expr.ty),
        _ => None,
    };
    Some((of(a, left)?, of(b, right)?))
}

/// The operands of `a = b` where both are compared as one type.
pub(super) fn same_type_equality(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let compared = comparison(expr)?;
    let equal =
        compared.op == Comparison::Equal && compared.left_type.oid() == compared.right_type.oid();
    equal.then_some((compared.left, compared.right))
}

/// The comparison `expr` with `other` in the place of its operand `known`.
pub(super) fn with_operand(expr: &Expr, known: &Expr, other: &Expr) -> Option<Expr> {
    let mut expr = expr.clone();
    let ExprKind::Call(call) = &mut expr.kind else {
        return None;
    };
    let operand = call.args.iter_mut().find(|arg| same(arg, known))?;
    if operand.ty.oid() != other.ty.oid() {
        return None;
    }
    *operand = other.clone();
    Some(expr)
}

/// An expression without the names that it goes under.
pub(super) fn stripped(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Relabel(arg) => stripped(arg),
        _ => expr,
    }
}

/// Whether equal values of a comparison hash to the same: both sides are compared as one type, or
/// are integers of any width.
pub(super) fn is_hashable(compared: &Compared<'_>) -> bool {
    let integer = |ty: SqlType| matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
    compared.op == Comparison::Equal
        && (compared.left_type.oid() == compared.right_type.oid()
            || (integer(compared.left_type) && integer(compared.right_type)))
}
