//! Set-returning functions outside of FROM: `generate_series` in a select list becomes
//! `unnest` of the list that our function of that name gives, which DataFusion plans; where
//! PostgreSQL takes no set-returning function it is refused with PostgreSQL's words.

use std::ops::ControlFlow;

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Function, GroupByExpr, Insert, LimitClause, OrderByKind, Query, Select,
    SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Visit,
};

use super::change;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::functions::GENERATE_SERIES;
use crate::pg_catalog::rewrite::visit::{Hooks, HooksMut, walk, walk_mut};
use crate::pg_catalog::rewrite::{ast, item_names, restore_names};

/// DataFusion's function that makes rows of a list.
const UNNEST: &str = "unnest";

/// Prepares a statement's set-returning functions for DataFusion. Not to be done twice.
///
/// # Errors
/// 0A000 where there may be none.
pub fn expand(statement: &mut Statement, state: &SessionState) -> SqlResult<()> {
    let mut mentions = Mentions(false);
    walk(statement, &mut mentions);
    if !mentions.0 {
        return Ok(());
    }
    match statement {
        Statement::Query(_) => {}
        Statement::Insert(insert) => check_insert(insert)?,
        Statement::Update(update) => {
            refuse(&update.assignments, "UPDATE")?;
            check_from(std::slice::from_ref(&update.table))?;
            refuse(&update.selection, "WHERE")?;
            refuse(&update.returning, "RETURNING")?;
        }
        Statement::Delete(delete) => {
            refuse(&delete.selection, "WHERE")?;
            refuse(&delete.returning, "RETURNING")?;
        }
        // EXPLAIN plans its statement from the text.
        _ => return Ok(()),
    }
    let mut queries = Queries {
        state,
        refused: None,
    };
    walk_mut(statement, &mut queries);
    queries.refused.map_or(Ok(()), Err)
}

/// As in PostgreSQL a VALUES of one row is the select list of the INSERT.
fn check_insert(insert: &mut Insert) -> SqlResult<()> {
    refuse(&insert.on, "UPDATE")?;
    refuse(&insert.returning, "RETURNING")?;
    let Some(query) = &mut insert.source else {
        return Ok(());
    };
    if let SetExpr::Values(values) = query.body.as_mut()
        && let [row] = values.rows.as_mut_slice()
        && has_set(&row.content)
    {
        let items = std::mem::take(&mut row.content);
        let items = items.into_iter().map(SelectItem::UnnamedExpr).collect();
        query.body = change::select(items, Vec::new(), None)?.body;
    }
    Ok(())
}

fn is_set_function(function: &Function) -> bool {
    ast::system_name(&function.name).is_some_and(|name| name == GENERATE_SERIES || name == UNNEST)
}

fn is_set(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if is_set_function(function))
}

/// Whether a set-returning function is called in any expression.
struct Mentions(bool);

impl Hooks for Mentions {
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 |= is_set(expr);
        match self.0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The same, without what is in subqueries.
#[derive(Default)]
struct Finder {
    queries: usize,
    found: bool,
}

impl Hooks for Finder {
    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.found |= self.queries == 0 && is_set(expr);
        match self.found {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

fn has_set(node: &impl Visit) -> bool {
    let mut finder = Finder::default();
    walk(node, &mut finder);
    finder.found
}

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

/// 0A000 if there is a set-returning function in a clause.
fn refuse(clause: &impl Visit, name: &str) -> SqlResult<()> {
    if has_set(clause) {
        let message = format!("set-returning functions are not allowed in {name}");
        return Err(refused(message));
    }
    Ok(())
}

fn check_from(from: &[TableWithJoins]) -> SqlResult<()> {
    for tables in from {
        check_factor(&tables.relation)?;
        for join in &tables.joins {
            check_factor(&join.relation)?;
            refuse(&join.join_operator, "JOIN conditions")?;
        }
    }
    Ok(())
}

fn check_factor(factor: &TableFactor) -> SqlResult<()> {
    if let TableFactor::NestedJoin {
        table_with_joins, ..
    } = factor
    {
        return check_from(std::slice::from_ref(&**table_with_joins));
    }
    if has_set(factor) {
        let message = "set-returning functions must appear at top level of FROM";
        return Err(refused(message));
    }
    Ok(())
}

/// The walk over all queries of a statement.
struct Queries<'a> {
    state: &'a SessionState,
    refused: Option<SqlError>,
}

impl Queries<'_> {
    fn end(&mut self, outcome: SqlResult<()>) -> ControlFlow<()> {
        match outcome {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.refused = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl HooksMut for Queries<'_> {
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let outcome = check_limit(query)
            .and_then(|()| check_values(&query.body))
            .and_then(|()| order_by_position(query));
        self.end(outcome)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let outcome = check_select(select)
            .and_then(|()| group_by_position(select))
            .and_then(|()| expand_list(select, self.state));
        self.end(outcome)
    }
}

fn check_limit(query: &Query) -> SqlResult<()> {
    match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            refuse(limit, "LIMIT")?;
            refuse(offset, "OFFSET")?;
        }
        clause => refuse(clause, "LIMIT")?,
    }
    refuse(&query.fetch, "LIMIT")
}

fn check_values(body: &SetExpr) -> SqlResult<()> {
    match body {
        SetExpr::Values(values) => refuse(values, "VALUES"),
        SetExpr::SetOperation { left, right, .. } => {
            check_values(left)?;
            check_values(right)
        }
        _ => Ok(()),
    }
}

fn check_select(select: &Select) -> SqlResult<()> {
    check_from(&select.from)?;
    refuse(&select.selection, "WHERE")?;
    refuse(&select.having, "HAVING")?;
    refuse(&select.named_window, "window definitions")?;
    if let Some(Distinct::On(exprs)) = &select.distinct
        && has_set(exprs)
    {
        return Err(SqlError::unsupported(
            "a set-returning function in DISTINCT ON",
        ));
    }
    Ok(())
}

/// The number in the select list of what is ordered or grouped by, as the planner knows the
/// values of a set only by their place in the list.
fn position(items: &[SelectItem], expr: &Expr, clause: &str) -> SqlResult<Expr> {
    let at = items
        .iter()
        .position(|item| ast::item_expr(item) == Some(expr));
    // Of a star nobody knows yet how many columns it is.
    let plain = |at: &usize| {
        items[..*at]
            .iter()
            .all(|item| ast::item_expr(item).is_some())
    };
    match at.filter(plain) {
        Some(at) => Ok(ast::number(at as u64 + 1)),
        None => Err(SqlError::unsupported(format!(
            "a set-returning function in {clause} that is not in the select list"
        ))),
    }
}

fn order_by_position(query: &mut Query) -> SqlResult<()> {
    let Some(order) = &mut query.order_by else {
        return Ok(());
    };
    let OrderByKind::Expressions(exprs) = &mut order.kind else {
        return Ok(());
    };
    let items = match &*query.body {
        SetExpr::Select(select) => select.projection.as_slice(),
        _ => &[],
    };
    for item in exprs {
        if has_set(&item.expr) {
            item.expr = position(items, &item.expr, "ORDER BY")?;
        }
    }
    Ok(())
}

fn group_by_position(select: &mut Select) -> SqlResult<()> {
    let GroupByExpr::Expressions(exprs, _) = &mut select.group_by else {
        return Ok(());
    };
    for expr in exprs {
        if has_set(expr) {
            *expr = position(&select.projection, expr, "GROUP BY")?;
        }
    }
    Ok(())
}

fn expand_list(select: &mut Select, state: &SessionState) -> SqlResult<()> {
    let names = item_names(select);
    let mut wrap = Wrap {
        state,
        queries: 0,
        around: Vec::new(),
        refused: None,
    };
    for expr in select.projection.iter_mut().filter_map(ast::item_expr_mut) {
        walk_mut(expr, &mut wrap);
        if let Some(error) = wrap.refused {
            return Err(error);
        }
    }
    restore_names(select, &names);
    Ok(())
}

/// The walk over one item of a select list.
struct Wrap<'a> {
    state: &'a SessionState,
    /// How many queries inside of the list the walk is.
    queries: usize,
    /// Of every expression around, what PostgreSQL says if there is a set in it.
    around: Vec<Option<&'static str>>,
    refused: Option<SqlError>,
}

impl Wrap<'_> {
    /// What may hold no set, with PostgreSQL's words for one in it.
    fn without_sets(&self, expr: &Expr) -> Option<&'static str> {
        let Expr::Function(function) = expr else {
            return matches!(expr, Expr::Case { .. })
                .then_some("set-returning functions are not allowed in CASE");
        };
        let name = ast::system_name(&function.name)?;
        if function.over.is_some() {
            Some("window function calls cannot contain set-returning function calls")
        } else if self.state.aggregate_functions().contains_key(&name) {
            Some("aggregate function calls cannot contain set-returning function calls")
        } else {
            (name == "coalesce").then_some("set-returning functions are not allowed in COALESCE")
        }
    }

    fn check(&self, expr: &Expr) -> SqlResult<()> {
        if let Expr::Function(function) = expr {
            refuse(&function.filter, "FILTER")?;
            refuse(&function.over, "window definitions")?;
        }
        match self.around.iter().rev().copied().flatten().next() {
            Some(message) if is_set(expr) => Err(refused(message).hint(
                "You might be able to move the set-returning function into a LATERAL FROM item.",
            )),
            _ => Ok(()),
        }
    }
}

impl HooksMut for Wrap<'_> {
    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        if let Err(error) = self.check(expr) {
            self.refused = Some(error);
            return ControlFlow::Break(());
        }
        self.around.push(self.without_sets(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        self.around.pop();
        if let Expr::Function(function) = expr
            && ast::system_name(&function.name).is_some_and(|name| name == GENERATE_SERIES)
        {
            *expr = ast::call(UNNEST, vec![ast::take(expr)]);
        }
        ControlFlow::Continue(())
    }
}
