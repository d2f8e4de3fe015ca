//! Changes of a parsed statement before DataFusion plans it, so that what PostgreSQL's clients
//! ask of the catalogs can be planned: spellings that DataFusion does not read become ones that
//! it does, and subqueries that it cannot take apart become joins.

pub mod ast;
mod expressions;
mod scope;
mod sources;
mod subqueries;
#[cfg(test)]
mod tests;
pub mod visit;

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    ObjectName, Query, Select, SelectItem, Statement, TableFactor,
};

use visit::{Hooks, HooksMut, walk, walk_mut};

use crate::error::SqlResult;
use crate::functions::SessionVars;
use crate::planner::names::{ItemName, of_item};

/// Rewrites a statement; one that names no catalog keeps its shape (rule 5).
///
/// # Errors
/// None: what cannot be rewritten is left for the planner to refuse.
pub fn rewrite(statement: &mut Statement, _vars: &Arc<SessionVars>) -> SqlResult<()> {
    rewrite_statement(statement);
    Ok(())
}

/// As [`rewrite`], for what does not depend on the session, which is all.
pub(super) fn rewrite_statement(statement: &mut Statement) {
    walk_mut(statement, &mut expressions::Expressions::default());
    let mut mentions = Mentions(false);
    walk(statement, &mut mentions);
    if mentions.0 {
        walk_mut(statement, &mut Shapes::default());
    }
}

/// Whether a catalog is named anywhere.
struct Mentions(bool);

impl Hooks for Mentions {
    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if scope::catalog(relation).is_some() {
            self.0 = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                name,
                args: Some(_),
                ..
            } if sources::is_function(name) => {
                self.0 = true;
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The names that a select list's items have.
pub fn item_names(select: &Select) -> Vec<ItemName> {
    select.projection.iter().map(of_item).collect()
}

/// Gives items whose expression now has another name the one they had.
pub fn restore_names(select: &mut Select, names: &[ItemName]) {
    for (at, before) in names.iter().enumerate() {
        let ItemName::One(name) = before else {
            continue;
        };
        let Some(item) = select.projection.get_mut(at) else {
            continue;
        };
        if of_item(item) == *before {
            continue;
        }
        if let SelectItem::UnnamedExpr(expr) = item {
            let expr = std::mem::replace(expr, ast::null());
            *item = SelectItem::ExprWithAlias {
                expr,
                alias: ast::quoted(name),
            };
        }
    }
}

/// The second pass: the shape of queries on catalogs.
#[derive(Default)]
struct Shapes {
    names: Vec<Vec<ItemName>>,
    subqueries: subqueries::Counter,
}

impl HooksMut for Shapes {
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        sources::inline_laterals(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        sources::function_to_relation(factor);
        sources::unnest_to_rows(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.names.push(item_names(select));
        sources::drop_unnest(select);
        sources::prune(select);
        subqueries::simplify(select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        sources::resolve_tableoid(select);
        subqueries::to_joins(select, &mut self.subqueries);
        if let Some(names) = self.names.pop() {
            restore_names(select, &names);
        }
        ControlFlow::Continue(())
    }
}
