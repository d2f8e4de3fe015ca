//! The end of domains: behind the binder expressions have the types that values have.

use std::sync::Arc;

use evenkeel_types::{Datum, SqlType};

use crate::ast::Pos;
use crate::bound::{Expr, ExprKind, Query, RangeEntry, SetNode};

use super::walk::{self, Change};

/// Gives each expression the type of its values: a domain is a type of the binder's alone. Its
/// tests stand in [`ExprKind::ToDomain`].
pub(super) struct ForgetDomains;

impl Change for ForgetDomains {
    fn expr(&mut self, expr: &mut Expr, _depth: usize) {
        expr.ty = expr.ty.storage();
        match &mut expr.kind {
            ExprKind::Relabel(arg) if arg.ty == expr.ty => {
                *expr = std::mem::replace(arg, nothing());
            }
            ExprKind::ToDomain(domain) if domain.tests.is_empty() => {
                let arg = std::mem::replace(&mut domain.arg, nothing());
                *expr = arg;
            }
            ExprKind::ToDomain(domain) => {
                let conditions = domain.tests.iter_mut().flatten();
                conditions.for_each(|(_, condition)| walk::change_expr(condition, 0, self));
            }
            _ => {}
        }
    }

    fn entry(&mut self, entry: &mut RangeEntry, _depth: usize) {
        entry.types.iter_mut().for_each(|ty| *ty = ty.storage());
    }

    fn query(&mut self, query: &mut Query) {
        for cte in &mut query.ctes {
            let types = &mut Arc::make_mut(cte).types;
            types.iter_mut().for_each(|ty| *ty = ty.storage());
        }
        if let Some(set) = &mut query.set_operation {
            forget_of_set(set);
        }
    }
}

/// The same of an expression over a row.
pub(super) fn forget_domains(expr: &mut Expr) {
    walk::change_expr(expr, 0, &mut ForgetDomains);
}

fn forget_of_set(node: &mut SetNode) {
    if let SetNode::Op {
        left, right, types, ..
    } = node
    {
        types.iter_mut().for_each(|ty| *ty = ty.storage());
        forget_of_set(left);
        forget_of_set(right);
    }
}

fn nothing() -> Expr {
    Expr {
        kind: ExprKind::Const(Datum::Null),
        ty: SqlType::Unknown,
        at: Pos::NONE,
    }
}
