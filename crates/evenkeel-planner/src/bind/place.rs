//! Where an expression begins, as PostgreSQL's errors point at it.

use super::walk::{RED_ZONE, STACK_PART};
use crate::ast;
use crate::ast::Pos;
use crate::bound::{Expr, ExprKind, SublinkKind};

fn leftmost(a: Pos, b: Pos) -> Pos {
    // `Pos::NONE` is the greatest.
    a.min(b)
}

/// The place of a bound expression: for operators and casts the leftmost of the node and its
/// arguments.
pub(super) fn of(expr: &Expr) -> Pos {
    stacker::maybe_grow(RED_ZONE, STACK_PART, || match &expr.kind {
        ExprKind::Call(call) | ExprKind::SetCall(call) => {
            call.args.iter().map(of).fold(expr.at, leftmost)
        }
        ExprKind::Cast { arg, .. }
        | ExprKind::Relabel(arg)
        | ExprKind::Not(arg)
        | ExprKind::IsNull { arg, .. }
        | ExprKind::IsBool { arg, .. } => leftmost(expr.at, of(arg)),
        ExprKind::And(args) | ExprKind::Or(args) => args
            .first()
            .map_or(expr.at, |arg| leftmost(expr.at, of(arg))),
        ExprKind::IsDistinct { left, .. }
        | ExprKind::NullIf { left, .. }
        | ExprKind::AnyAll { left, .. } => leftmost(expr.at, of(left)),
        ExprKind::Subscript { array, .. } | ExprKind::Slice { array, .. } => of(array),
        ExprKind::Field { row, .. } if !matches!(row.kind, ExprKind::Sublink(_)) => of(row),
        ExprKind::Sublink(sublink) => match &sublink.kind {
            SublinkKind::Any(test) | SublinkKind::All(test) => leftmost(expr.at, of(test)),
            _ => expr.at,
        },
        ExprKind::RowCompare { pairs, .. } => pairs.first().map_or(expr.at, |pair| of(&pair.0)),
        _ => expr.at,
    })
}

/// The place of an expression as written.
pub(super) fn of_ast(expr: &ast::Expr) -> Pos {
    use ast::ExprKind as K;
    stacker::maybe_grow(RED_ZONE, STACK_PART, || match &expr.kind {
        K::Op {
            left: Some(arg), ..
        }
        | K::AnyAll { left: arg, .. }
        | K::IsNull { arg, .. }
        | K::IsBool { arg, .. }
        | K::IsDistinct { left: arg, .. }
        | K::Like { arg, .. }
        | K::Between { arg, .. }
        | K::InList { arg, .. }
        | K::AtTimeZone { arg, .. }
        | K::Field { base: arg, .. }
        | K::Subscript { base: arg, .. }
        | K::Collate { arg, .. } => leftmost(expr.at, of_ast(arg)),
        K::Cast { arg, ty } => leftmost(leftmost(expr.at, ty.at), of_ast(arg)),
        K::And(args) | K::Or(args) => args
            .first()
            .map_or(expr.at, |arg| leftmost(expr.at, of_ast(arg))),
        K::Sublink(sublink) => match &sublink.kind {
            ast::SublinkKind::Any { left, .. } | ast::SublinkKind::All { left, .. } => {
                leftmost(expr.at, of_ast(left))
            }
            _ => expr.at,
        },
        _ => expr.at,
    })
}
