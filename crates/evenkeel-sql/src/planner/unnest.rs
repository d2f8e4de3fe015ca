//! Plans with set-returning functions in select lists, made better than DataFusion makes them:
//! volatile items are evaluated for every row of a set, and a lone series over integers is a
//! source of rows instead of a list in memory.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Unnest,
};

use super::source::SeriesSource;
use crate::functions::GENERATE_SERIES;
use crate::types::SqlType;

/// Begins the names of what is handed through to an item; no SQL text can have it.
const PASSED: &str = "\u{1}passed";

/// Improves every `unnest` of a coerced plan.
pub fn improve(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Unnest(_));
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    if !found {
        return Ok(plan);
    }
    let improved = plan.transform_up_with_subqueries(|node| {
        // Nodes keep the types and names of their inputs.
        let node = node.recompute_schema()?;
        let LogicalPlan::Projection(outer) = node else {
            return Ok(Transformed::yes(node));
        };
        Ok(Transformed::yes(match parts(&outer) {
            Some((unnest, inner)) => rearranged(&outer, unnest, inner)?,
            None => LogicalPlan::Projection(outer),
        }))
    })?;
    Ok(improved.data)
}

/// An item list over the sets in it, over what those are made from.
fn parts(outer: &Projection) -> Option<(&Unnest, &Projection)> {
    let LogicalPlan::Unnest(unnest) = &*outer.input else {
        return None;
    };
    match &*unnest.input {
        LogicalPlan::Projection(inner) => Some((unnest, inner)),
        _ => None,
    }
}

fn rearranged(outer: &Projection, unnest: &Unnest, inner: &Projection) -> Result<LogicalPlan> {
    let series = lone_series(unnest, inner)?;
    let mut kept = Vec::new();
    let mut moved: HashMap<Column, Expr> = HashMap::new();
    let mut passed: Vec<Column> = Vec::new();
    for (expr, (qualifier, field)) in inner.expr.iter().zip(inner.schema.iter()) {
        let name = Column::new(qualifier.cloned(), field.name());
        let is_list = unnest.exec_columns.contains(&name);
        if is_list || !(series.is_some() || expr.is_volatile()) || needs_place(expr) {
            kept.push(expr.clone());
        } else {
            moved.insert(name, pass_columns(expr, &mut passed)?);
        }
    }
    let source = match series {
        Some(series) if kept.len() == 1 && passed.is_empty() => series,
        _ if moved.is_empty() => return Ok(LogicalPlan::Projection(outer.clone())),
        _ => {
            for (at, column) in passed.into_iter().enumerate() {
                kept.push(Expr::Column(column).alias(format!("{PASSED}{at}")));
            }
            LogicalPlanBuilder::from(Arc::unwrap_or_clone(Arc::clone(&inner.input)))
                .project(kept)?
                .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
                .build()?
        }
    };
    let preserver = NamePreserver::new_for_projection();
    let items = outer.expr.iter().map(|item| {
        let name = preserver.save(item);
        let changed = item.clone().transform_up(|expr| {
            Ok(match &expr {
                Expr::Column(column) => match moved.get(column) {
                    Some(item) => Transformed::yes(item.clone()),
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            })
        })?;
        Ok(name.restore(changed.data))
    });
    let items = items.collect::<Result<Vec<Expr>>>()?;
    LogicalPlanBuilder::from(source).project(items)?.build()
}

/// An item with the columns it is made from under names that meet no other.
fn pass_columns(expr: &Expr, passed: &mut Vec<Column>) -> Result<Expr> {
    let expr = expr.clone().unalias_nested().data;
    let expr = expr.transform_up(|e| {
        let Expr::Column(column) = e else {
            return Ok(Transformed::no(e));
        };
        let at = match passed.iter().position(|known| *known == column) {
            Some(at) => at,
            None => {
                passed.push(column);
                passed.len() - 1
            }
        };
        let name = format!("{PASSED}{at}");
        Ok(Transformed::yes(Expr::Column(Column::from_name(name))))
    })?;
    Ok(expr.data)
}

/// Whether an expression means what it means only where it is.
fn needs_place(expr: &Expr) -> bool {
    let looks_out = expr.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        ))
    });
    looks_out.unwrap_or(true)
}

/// The rows of a single `generate_series` over integers in a query without FROM.
fn lone_series(unnest: &Unnest, inner: &Projection) -> Result<Option<LogicalPlan>> {
    let one_row = matches!(&*inner.input, LogicalPlan::EmptyRelation(empty)
        if empty.produce_one_row);
    let ([(list, output)], [_]) = (
        unnest.list_type_columns.as_slice(),
        unnest.exec_columns.as_slice(),
    ) else {
        return Ok(None);
    };
    let Some(Expr::Alias(list)) = inner.expr.get(*list).filter(|_| one_row) else {
        return Ok(None);
    };
    let Expr::ScalarFunction(call) = &*list.expr else {
        return Ok(None);
    };
    if call.name() != GENERATE_SERIES || output.depth != 1 {
        return Ok(None);
    }
    let mut ty = SqlType::Int4;
    for arg in &call.args {
        let (_, field) = arg.to_field(inner.input.schema())?;
        match SqlType::from_arrow_field(&field) {
            SqlType::Int4 => {}
            SqlType::Int8 => ty = SqlType::Int8,
            _ => return Ok(None),
        }
        if needs_place(arg) || arg.is_volatile() {
            return Ok(None);
        }
    }
    let source = Arc::new(SeriesSource::new(call.args.clone(), ty, GENERATE_SERIES));
    let column = Column::new(Some(GENERATE_SERIES), GENERATE_SERIES);
    let value = Expr::Column(column).alias(output.output_column.name.clone());
    let plan = LogicalPlanBuilder::scan(TableReference::bare(GENERATE_SERIES), source, None)?;
    plan.project([value])?.build().map(Some)
}
