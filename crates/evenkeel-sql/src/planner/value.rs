//! Compiles bound expressions into the values of compiled statements.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::physical_expr::create_physical_expr;

use super::binder::{Binder, param_field, param_index};
use crate::arrow::datum_from_scalar;
use crate::error::{SqlError, SqlResult};
use crate::exec::oltp::expr::{Input, RowExpr, Typed, Value};
use crate::functions::{finish_expr, pg_semantics};
use crate::types::SqlType;

/// Whether an expression is beyond the compiled executor: it needs other rows.
pub fn needs_plan(expr: &Expr) -> bool {
    let mut found = false;
    let walked = expr.apply(|e| {
        found |= matches!(
            e,
            Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Unnest(_)
                | Expr::GroupingSet(_)
        );
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    });
    found || walked.is_err()
}

/// Compiles a coerced expression over the columns of `schema`, which are a table's in order.
pub fn compile(binder: &Binder<'_>, expr: &Expr, schema: &DFSchema) -> SqlResult<Typed> {
    match expr {
        Expr::Alias(alias) => compile(binder, &alias.expr, schema),
        Expr::Column(column) => {
            let index = schema.index_of_column(column)?;
            let ty = SqlType::from_arrow_field(schema.field(index));
            Ok(Typed {
                value: Value::Column(index),
                ty,
            })
        }
        Expr::Placeholder(param) => {
            let index = param_index(&param.id)
                .ok_or_else(|| SqlError::syntax(format!("no such parameter: {}", param.id)))?;
            let ty = binder.infer_param(index, SqlType::Text);
            Ok(Typed {
                value: Value::Param(index),
                ty,
            })
        }
        Expr::Literal(scalar, _) => {
            let (_, field) = expr.to_field(schema)?;
            let ty = SqlType::from_arrow_field(&field);
            Ok(Typed {
                value: Value::Const(datum_from_scalar(scalar, ty)?),
                ty,
            })
        }
        Expr::ScalarFunction(call) if call.args.is_empty() && is_now(call.name()) => Ok(Typed {
            value: Value::Now,
            ty: SqlType::Timestamptz(None),
        }),
        _ => {
            let expr = row_expr(binder, expr, schema, false)?;
            let ty = expr.ty;
            Ok(Typed {
                value: Value::Expr(Box::new(expr)),
                ty,
            })
        }
    }
}

fn is_now(name: &str) -> bool {
    matches!(name, "now" | "current_timestamp" | "transaction_timestamp")
}

/// Compiles an expression for the evaluator; of a `condition` it only matters whether it is
/// true.
pub fn row_expr(
    binder: &Binder<'_>,
    expr: &Expr,
    schema: &DFSchema,
    condition: bool,
) -> SqlResult<RowExpr> {
    let (columns, params) = inputs(expr, schema)?;
    let mut fields = Vec::with_capacity(columns.len() + params.len());
    let mut input_types = Vec::with_capacity(fields.capacity());
    for &column in &columns {
        let (qualifier, field) = schema.qualified_field(column);
        input_types.push(SqlType::from_arrow_field(field));
        fields.push((qualifier.cloned(), Arc::clone(field)));
    }
    let row_fields: Vec<_> = fields.iter().map(|(_, field)| Arc::clone(field)).collect();
    for &param in &params {
        let ty = binder.infer_param(param, SqlType::Text);
        input_types.push(ty);
        let field = param_field(Some(ty))
            .as_ref()
            .clone()
            .with_name(param_name(param));
        fields.push((None, Arc::new(field)));
    }
    let arrow: Vec<_> = fields.iter().map(|(_, field)| Arc::clone(field)).collect();
    let inner = DFSchema::new_with_metadata(fields, std::collections::HashMap::new())?;
    let expr = expr.clone().transform_up(|e| Ok(param_to_column(e)))?.data;
    let needs_session = looks_at_session(&expr, &inner);
    let expr = pg_semantics(expr, &inner)?.data;
    let expr = finish_expr(expr, &inner, condition)?.data;
    let (_, field) = expr.to_field(&inner)?;
    let props = binder.state().execution_props();
    let physical = create_physical_expr(&expr, &inner, props, &PhysicalPlanningContext::default())?;
    let mut wanted: Vec<Input> = columns.iter().map(|c| Input::Column(*c)).collect();
    wanted.extend(params.iter().map(|p| Input::Param(*p)));
    Ok(RowExpr {
        physical,
        inputs: wanted,
        input_types,
        schema: Arc::new(Schema::new(arrow)),
        row_schema: Arc::new(Schema::new(row_fields)),
        projection: columns,
        needs_session,
        ty: SqlType::from_arrow_field(&field),
    })
}

fn param_name(index: usize) -> String {
    format!("${}", index + 1)
}

fn param_to_column(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::Placeholder(param) => {
            Transformed::yes(Expr::Column(Column::new_unqualified(param.id)))
        }
        other => Transformed::no(other),
    }
}

fn inputs(expr: &Expr, schema: &DFSchema) -> SqlResult<(Vec<usize>, Vec<usize>)> {
    let mut columns = Vec::new();
    let mut params = Vec::new();
    expr.apply(|e| {
        match e {
            Expr::Column(column) => columns.push(schema.index_of_column(column)?),
            Expr::Placeholder(param) => params.extend(param_index(&param.id)),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    columns.sort_unstable();
    columns.dedup();
    params.sort_unstable();
    params.dedup();
    Ok((columns, params))
}

/// Whether evaluation may look at the session: a function may, and so may a cast between text
/// and types that a time zone has a say in.
fn looks_at_session(expr: &Expr, schema: &DFSchema) -> bool {
    let mut found = false;
    let plain = |ty: SqlType| ty.is_number() || ty == SqlType::Bool || ty.is_oid();
    // The walk itself cannot fail: the closure never does.
    let _ = expr.apply(|e| {
        found |= match e {
            Expr::ScalarFunction(_) | Expr::TryCast(_) => true,
            Expr::Cast(cast) => {
                let from = cast
                    .expr
                    .to_field(schema)
                    .map(|(_, f)| SqlType::from_arrow_field(&f));
                !plain(SqlType::from_arrow_field(&cast.field)) || !from.is_ok_and(plain)
            }
            _ => false,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    found
}
