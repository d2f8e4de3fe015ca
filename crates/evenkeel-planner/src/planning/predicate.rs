//! Whether conditions imply a partial index's predicate: a part of PostgreSQL's `predtest.c`. Each
//! rule is sound for whatever values parameters take, since plans are kept.

use std::cmp::Ordering;

use evenkeel_types::{Datum, SqlType};

use crate::bound::{Expr, ExprKind};

use super::ops::{self, Comparison, stripped};
use super::path::same;

/// Arms of an `IN` list that are looked at one by one.
const ARMS_MOST: usize = 100;

/// Whether two expressions are the same but for their positions.
pub(crate) fn same_expr(a: &Expr, b: &Expr) -> bool {
    same(a, b)
}

/// Whether the predicate is true of every row of which all the conditions are.
pub(crate) fn implied(conditions: &[&Expr], predicate: &Expr) -> bool {
    if let ExprKind::And(parts) = &predicate.kind {
        return parts.iter().all(|part| implied(conditions, part));
    }
    conditions
        .iter()
        .any(|condition| implies(condition, predicate))
        || arms(predicate).is_some_and(|arms| {
            // All conditions together may imply an arm that none implies alone only by an AND
            // within it.
            arms.iter().any(|arm| implied(conditions, arm))
        })
}

fn implies(condition: &Expr, predicate: &Expr) -> bool {
    if same(condition, predicate) {
        return true;
    }
    if let ExprKind::And(parts) = &condition.kind {
        return parts.iter().any(|part| implies(part, predicate));
    }
    if let Some(of_condition) = arms(condition) {
        return of_condition.iter().all(|arm| implied(&[arm], predicate));
    }
    simple(condition, predicate)
}

/// The arms of an OR, or of `= ANY` of constants.
fn arms(expr: &Expr) -> Option<Vec<Expr>> {
    match &expr.kind {
        ExprKind::Or(arms) => Some(arms.clone()),
        ExprKind::AnyAll {
            left,
            array,
            all: false,
            op,
        } => {
            let SqlType::Array(element, _) = array.ty else {
                return None;
            };
            let values: Vec<Datum> = match &stripped(array).kind {
                ExprKind::Const(Datum::Array(array)) => array.elements().to_vec(),
                ExprKind::Array { items, .. } => {
                    let values = items.iter().map(|item| match &item.kind {
                        ExprKind::Const(value) => Some(value.clone()),
                        _ => None,
                    });
                    values.collect::<Option<_>>()?
                }
                _ => return None,
            };
            if values.is_empty() || values.len() > ARMS_MOST {
                return None;
            }
            let arm = |value: Datum| Expr {
                kind: ExprKind::Call(crate::bound::CallExpr {
                    proc: op.proc,
                    operator: Some(op.oid),
                    args: vec![
                        (**left).clone(),
                        Expr {
                            kind: ExprKind::Const(value),
                            ty: *element,
                            at: expr.at,
                        },
                    ],
                    variadic_array: false,
                }),
                ty: SqlType::Bool,
                at: expr.at,
            };
            Some(values.into_iter().map(arm).collect())
        }
        _ => None,
    }
}

/// Neither is an AND or an OR.
fn simple(condition: &Expr, predicate: &Expr) -> bool {
    match &predicate.kind {
        ExprKind::IsNull {
            arg,
            negated: true,
            row: false,
        } => is_null_without(condition, arg),
        ExprKind::Call(_) => compared(condition, predicate),
        _ => false,
    }
}

/// Whether an expression is not true where `arg` is NULL.
fn is_null_without(expr: &Expr, arg: &Expr) -> bool {
    if same(stripped(expr), stripped(arg)) {
        return true;
    }
    match &expr.kind {
        ExprKind::Relabel(inner) | ExprKind::Cast { arg: inner, .. } | ExprKind::Not(inner) => {
            is_null_without(inner, arg)
        }
        ExprKind::Call(call) => {
            call.proc.strict && call.args.iter().any(|part| is_null_without(part, arg))
        }
        ExprKind::AnyAll {
            left,
            op,
            all: false,
            ..
        } => op.proc.strict && is_null_without(left, arg),
        _ => false,
    }
}

/// A comparison with a constant, the constant on the right.
struct WithConst<'e> {
    /// None is `<>`.
    op: Option<Comparison>,
    left: &'e Expr,
    value: &'e Datum,
    ty: SqlType,
}

fn with_const(expr: &Expr) -> Option<WithConst<'_>> {
    let ExprKind::Call(call) = &expr.kind else {
        return None;
    };
    let [first, second] = call.args.as_slice() else {
        return None;
    };
    let compared = ops::comparison(expr);
    let unequal = ops::operator(call).is_some_and(|operator| operator.name == "<>");
    if compared.is_none() && !unequal {
        return None;
    }
    let op = compared.map(|compared| compared.op);
    match (&stripped(first).kind, &stripped(second).kind) {
        (_, ExprKind::Const(value)) => Some(WithConst {
            op,
            left: first,
            value,
            ty: second.ty,
        }),
        (ExprKind::Const(value), _) => Some(WithConst {
            op: op.map(Comparison::commuted),
            left: second,
            value,
            ty: first.ty,
        }),
        _ => None,
    }
}

/// `x op₁ c₁` implies `x op₂ c₂` by how the constants compare.
fn compared(condition: &Expr, predicate: &Expr) -> bool {
    use Comparison::{Equal, Greater, GreaterEqual, Less, LessEqual};
    let (Some(given), Some(wanted)) = (with_const(condition), with_const(predicate)) else {
        return false;
    };
    if !same(stripped(given.left), stripped(wanted.left)) {
        return false;
    }
    let Some(order) = order((given.value, given.ty), (wanted.value, wanted.ty)) else {
        return false;
    };
    let (below, above) = (order == Ordering::Less, order == Ordering::Greater);
    let equal = order == Ordering::Equal;
    match (given.op, wanted.op) {
        (Some(Equal), Some(Equal)) | (None, None) => equal,
        (Some(Equal), None) => !equal,
        (Some(Equal | LessEqual), Some(Less)) | (Some(LessEqual), None) => below,
        (Some(Equal | Less | LessEqual), Some(LessEqual)) | (Some(Less), Some(Less) | None) => {
            below || equal
        }
        (Some(Equal | GreaterEqual), Some(Greater)) | (Some(GreaterEqual), None) => above,
        (Some(Equal | Greater | GreaterEqual), Some(GreaterEqual))
        | (Some(Greater), Some(Greater) | None) => above || equal,
        _ => false,
    }
}

/// How two constants of one type, or two integers, compare; none with a NULL.
fn order((a, a_type): (&Datum, SqlType), (b, b_type): (&Datum, SqlType)) -> Option<Ordering> {
    let integer = |value: &Datum| match value {
        Datum::Int2(v) => Some(i64::from(*v)),
        Datum::Int4(v) => Some(i64::from(*v)),
        Datum::Int8(v) => Some(*v),
        _ => None,
    };
    if a.is_null() || b.is_null() {
        return None;
    }
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return Some(a.cmp(&b));
    }
    let alike = a_type.oid() == b_type.oid()
        && std::mem::discriminant(a) == std::mem::discriminant(b)
        && !matches!(a_type, SqlType::Char(_));
    alike.then(|| a.compare(b))
}
