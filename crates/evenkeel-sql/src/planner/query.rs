//! Queries for the analytic executor: bound, coerced, with their parameters typed, but neither
//! optimised nor tied to a snapshot, so that they can be kept.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Values};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::sql::sqlparser::ast;

use super::binder::{Binder, is_untyped, small_literal};
use super::names::{self, ItemName};
use super::unique::{make_names_unique, original};
use super::unnest;
use crate::error::SqlResult;
use crate::session::api::Column;
use crate::types::SqlType;

/// A bound query.
#[derive(Debug)]
pub struct QueryPlan {
    /// The plan, over sources that only know definitions (planner rule 2).
    pub plan: LogicalPlan,
    /// Types of the result columns.
    pub types: Arc<[SqlType]>,
    /// The result columns for the client.
    pub columns: Arc<[Column]>,
}

/// Binds a query.
pub fn plan_query(binder: &Binder<'_>, query: &ast::Query) -> SqlResult<QueryPlan> {
    let names = names::of_query(query);
    let mut query = Box::new(query.clone());
    make_names_unique(&mut query);
    let statement = ast::Statement::Query(query);
    let plan = plan_statement(binder, statement)?;
    let (types, columns) = describe(&plan, &names);
    Ok(QueryPlan {
        plan,
        types,
        columns,
    })
}

/// The types of a query's columns as an assignment takes them: what was written as a bare string,
/// NULL or a parameter is of no type yet.
pub fn assigned_types(plan: &QueryPlan) -> Vec<SqlType> {
    let mut top = &plan.plan;
    loop {
        top = match top {
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::Distinct(Distinct::All(input)) => input,
            _ => break,
        };
    }
    let rows = match top {
        LogicalPlan::Projection(projection) => std::slice::from_ref(&projection.expr),
        LogicalPlan::Values(values) => &values.values,
        _ => &[],
    };
    let mut types = plan.types.to_vec();
    for row in rows {
        for (ty, _) in types
            .iter_mut()
            .zip(row)
            .filter(|(_, expr)| has_no_type(expr))
        {
            *ty = SqlType::Unknown;
        }
    }
    types
}

fn has_no_type(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => has_no_type(&alias.expr),
        Expr::Literal(value, _) => matches!(value, ScalarValue::Utf8(_) | ScalarValue::Null),
        Expr::Placeholder(param) => is_untyped(param),
        _ => false,
    }
}

/// Binds and coerces a statement, and types its parameters.
pub fn plan_statement(binder: &Binder<'_>, statement: ast::Statement) -> SqlResult<LogicalPlan> {
    let mut context = binder.planner_context();
    let plan = binder
        .sql_to_rel()
        .sql_statement_to_plan_with_context(statement, &mut context)?;
    let plan = finish(binder, plan)?;
    Ok(unnest::improve(plan)?)
}

/// Coerces a plan to PostgreSQL's types, and types its parameters.
pub fn finish(binder: &Binder<'_>, plan: LogicalPlan) -> SqlResult<LogicalPlan> {
    let plan = rewrite(plan, small_literal)?;
    let plan = TypeCoercion::new().analyze(plan, binder.state().config_options())?;
    Ok(rewrite(plan, |expr| binder.typed_param(expr))?)
}

/// Rewrites every expression of a plan that may change type, keeping names.
fn rewrite(
    plan: LogicalPlan,
    rule: impl Fn(Expr) -> Transformed<Expr>,
) -> datafusion::error::Result<LogicalPlan> {
    use datafusion::common::tree_node::TreeNode;
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        // LIMIT and OFFSET are bigint by definition.
        LogicalPlan::Limit(_) => Ok(Transformed::no(node)),
        LogicalPlan::Values(values) => rewrite_values(values, &rule),
        node => {
            let preserver = NamePreserver::new(&node);
            let node = node.map_expressions(|expr| {
                if is_count_of_literal(&expr) {
                    return Ok(Transformed::no(expr));
                }
                let name = preserver.save(&expr);
                let changed = expr.transform_up(|e| Ok(rule(e)))?;
                Ok(changed.update_data(|e| name.restore(e)))
            })?;
            if node.transformed {
                node.map_data(LogicalPlan::recompute_schema)
            } else {
                Ok(node)
            }
        }
    })?;
    Ok(rewritten.data)
}

/// `count(*)` arrives as a count of a literal, which the optimiser knows by its type.
fn is_count_of_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_count_of_literal(&alias.expr),
        Expr::AggregateFunction(call) => {
            call.func.name() == "count"
                && matches!(call.params.args.as_slice(), [Expr::Literal(..)])
        }
        _ => false,
    }
}

fn rewrite_values(
    values: Values,
    rule: &impl Fn(Expr) -> Transformed<Expr>,
) -> datafusion::error::Result<Transformed<LogicalPlan>> {
    use datafusion::common::tree_node::TreeNode;
    let mut rows = Vec::with_capacity(values.values.len());
    for row in values.values {
        let mut items = Vec::with_capacity(row.len());
        for item in row {
            items.push(item.transform_up(|e| Ok(rule(e)))?.data);
        }
        rows.push(items);
    }
    Ok(Transformed::yes(LogicalPlanBuilder::values(rows)?.build()?))
}

/// The result columns of a plan under PostgreSQL's names.
pub fn describe(plan: &LogicalPlan, names: &[ItemName]) -> (Arc<[SqlType]>, Arc<[Column]>) {
    let fields = plan.schema().fields();
    let types: Arc<[SqlType]> = fields
        .iter()
        .map(|field| SqlType::from_arrow_field(field))
        .map(known)
        .collect();
    let stars = names.iter().filter(|name| **name == ItemName::Star).count();
    let mut labels: Vec<String> = fields
        .iter()
        .map(|field| original(field.name()).to_owned())
        .collect();
    // With one star its width follows; with several, items before the first and behind the
    // last are still certain.
    let head = names
        .iter()
        .take_while(|name| **name != ItemName::Star)
        .count();
    let tail = if stars == 0 {
        0
    } else {
        names.len() - head - stars
    };
    for (label, name) in labels.iter_mut().zip(&names[..head.min(names.len())]) {
        set_label(label, name);
    }
    if stars == 1 {
        for (label, name) in labels.iter_mut().rev().zip(names.iter().rev().take(tail)) {
            set_label(label, name);
        }
    }
    let columns = labels
        .into_iter()
        .zip(types.iter())
        .map(|(name, ty)| column(name, *ty));
    let columns = columns.collect();
    (types, columns)
}

fn set_label(label: &mut String, name: &ItemName) {
    if let ItemName::One(name) = name {
        label.clone_from(name);
    }
}

/// A result column whose type nothing told is text.
fn known(ty: SqlType) -> SqlType {
    if ty == SqlType::Unknown {
        SqlType::Text
    } else {
        ty
    }
}

/// A result column that is not a table's.
pub fn column(name: String, ty: SqlType) -> Column {
    Column {
        name,
        type_oid: ty.oid(),
        typmod: ty.typmod(),
        len: ty.wire_len(),
        table_oid: 0,
        attnum: 0,
    }
}
