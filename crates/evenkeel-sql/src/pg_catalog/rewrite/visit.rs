//! Walks over statements. sqlparser's walk is generic over its visitor and some thousand
//! functions long; here it exists once, for hooks behind a pointer.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

/// What a reading walk calls; `Break` ends it.
pub trait Hooks {
    /// Before what is in a query.
    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        GO_ON
    }

    /// After what is in a query.
    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        GO_ON
    }

    /// At a relation's name.
    fn pre_visit_relation(&mut self, _relation: &ObjectName) -> ControlFlow<()> {
        GO_ON
    }

    /// Before what is in a table factor.
    fn pre_visit_table_factor(&mut self, _factor: &TableFactor) -> ControlFlow<()> {
        GO_ON
    }

    /// Before what is in an expression.
    fn pre_visit_expr(&mut self, _expr: &Expr) -> ControlFlow<()> {
        GO_ON
    }
}

/// What a changing walk calls; `Break` ends it.
pub trait HooksMut {
    /// Before what is in a query.
    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        GO_ON
    }

    /// After what is in a query.
    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        GO_ON
    }

    /// Before what is in a SELECT.
    fn pre_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        GO_ON
    }

    /// After what is in a SELECT.
    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        GO_ON
    }

    /// Before what is in a table factor.
    fn pre_visit_table_factor(&mut self, _factor: &mut TableFactor) -> ControlFlow<()> {
        GO_ON
    }

    /// Before what is in an expression.
    fn pre_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<()> {
        GO_ON
    }

    /// After what is in an expression.
    fn post_visit_expr(&mut self, _expr: &mut Expr) -> ControlFlow<()> {
        GO_ON
    }
}

struct Reader<'a>(&'a mut dyn Hooks);

impl Visitor for Reader<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.0.pre_visit_relation(relation)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.0.pre_visit_table_factor(factor)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0.pre_visit_expr(expr)
    }
}

struct Changer<'a>(&'a mut dyn HooksMut);

impl VisitorMut for Changer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.0.pre_visit_select(select)
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.0.post_visit_select(select)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.0.pre_visit_table_factor(factor)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.0.post_visit_expr(expr)
    }
}

/// Walks over a part of a statement; whether a hook ended the walk.
pub fn walk(node: &impl Visit, hooks: &mut dyn Hooks) -> bool {
    node.visit(&mut Reader(hooks)).is_break()
}

/// Walks over a part of a statement with hooks that may change it.
pub fn walk_mut(node: &mut impl VisitMut, hooks: &mut dyn HooksMut) {
    let _ = node.visit(&mut Changer(hooks));
}
