//! Where expressions are in an operator's rows, and what the executor's parameters stand for.

use std::collections::HashMap;
use std::rc::Rc;

use crate::bound::{Expr, ExprKind};

use super::number::NUMBERED;
use super::path::{ExprRef, same};

/// The columns of an operator's rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    width: usize,
    vars: HashMap<(usize, usize), usize>,
    exprs: Vec<(ExprRef, usize)>,
    /// The slot of the grouping set's number, and the sets.
    pub(super) sets: Option<(usize, Rc<Vec<Vec<usize>>>)>,
}

impl Layout {
    /// The columns of a relation.
    pub(super) fn of_columns(rel: usize, columns: impl IntoIterator<Item = usize>) -> Layout {
        let mut layout = Layout::default();
        for column in columns {
            layout.vars.insert((rel, column), layout.width);
            layout.width += 1;
        }
        layout
    }

    /// The values of expressions.
    pub(super) fn of_exprs<'e>(exprs: impl IntoIterator<Item = &'e ExprRef>) -> Layout {
        let mut layout = Layout::default();
        exprs.into_iter().for_each(|expr| layout.push(expr));
        layout
    }

    /// Number of columns.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Adds a column.
    pub(super) fn push(&mut self, expr: &ExprRef) {
        let slot = self.width;
        self.width += 1;
        match expr.kind {
            ExprKind::Var(var) if var.depth == NUMBERED => {
                self.vars.entry((var.rel, var.column)).or_insert(slot);
            }
            _ => self.exprs.push((Rc::clone(expr), slot)),
        }
    }

    /// Adds a column and answers its slot.
    pub(super) fn push_computed(&mut self, expr: &ExprRef) -> usize {
        self.push(expr);
        self.width - 1
    }

    /// Adds a relation's column.
    pub(super) fn push_var(&mut self, rel: usize, column: usize) {
        self.vars.insert((rel, column), self.width);
        self.width += 1;
    }

    /// Gives a relation's column the slot of another.
    pub(super) fn alias_var(&mut self, rel: usize, column: usize, slot: usize) {
        self.vars.insert((rel, column), slot);
    }

    /// Adds a column that stands for nothing of the statement.
    pub(super) fn push_nameless(&mut self) -> usize {
        self.width += 1;
        self.width - 1
    }

    /// The columns of two sides.
    pub(super) fn joined(mut self, right: Layout) -> Layout {
        let first = self.width;
        for (var, slot) in right.vars {
            self.vars.entry(var).or_insert(first + slot);
        }
        let exprs = right.exprs.into_iter();
        self.exprs
            .extend(exprs.map(|(expr, slot)| (expr, first + slot)));
        self.width += right.width;
        self
    }

    /// The slot of a relation's column.
    pub(super) fn var(&self, rel: usize, column: usize) -> Option<usize> {
        self.vars.get(&(rel, column)).copied()
    }

    /// The slot of an expression.
    pub(super) fn find(&self, expr: &Expr) -> Option<usize> {
        if let ExprKind::Var(var) = expr.kind
            && var.depth == NUMBERED
        {
            return self.var(var.rel, var.column);
        }
        let mut exprs = self.exprs.iter();
        exprs
            .find(|(known, _)| same(known, expr))
            .map(|(_, slot)| *slot)
    }
}

/// The executor's parameters that stand for columns of outer rows, innermost scope last.
#[derive(Debug, Default)]
pub(super) struct Env {
    scopes: Vec<Scope>,
    /// The parameters of the row of the subquery whose test is being made.
    pub(super) sublink_columns: Vec<Vec<usize>>,
}

/// Parameters that one nested loop or subplan sets.
#[derive(Debug, Default)]
pub(super) struct Scope {
    /// Columns.
    pub(super) vars: HashMap<(usize, usize), usize>,
    /// Other expressions: aggregates of an outer query.
    pub(super) exprs: Vec<(ExprRef, usize)>,
}

impl Env {
    /// Opens a scope.
    pub(super) fn open(&mut self, scope: Scope) {
        self.scopes.push(scope);
    }

    /// Closes the innermost.
    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// The parameter that stands for an expression that is no column.
    pub(super) fn find_computed(&self, expr: &Expr) -> Option<usize> {
        let leaf = matches!(
            expr.kind,
            ExprKind::Var(_) | ExprKind::Const(_) | ExprKind::Param(_)
        );
        if leaf { None } else { self.find(expr) }
    }

    /// The parameter that stands for an expression.
    pub(super) fn find(&self, expr: &Expr) -> Option<usize> {
        let mut scopes = self.scopes.iter().rev();
        scopes.find_map(|scope| match expr.kind {
            ExprKind::Var(var) if var.depth == NUMBERED => {
                scope.vars.get(&(var.rel, var.column)).copied()
            }
            _ => {
                let mut exprs = scope.exprs.iter();
                exprs
                    .find(|(known, _)| same(known, expr))
                    .map(|(_, param)| *param)
            }
        })
    }
}
