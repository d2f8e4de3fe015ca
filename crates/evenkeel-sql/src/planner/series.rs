//! `generate_series` in FROM, under PostgreSQL's column names: over integers a source of rows,
//! over timestamps the list that the function gives.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    FunctionArg, FunctionArgExpr, ObjectName, TableAlias, TableFactor,
};

use super::binder::small_literal;
use super::source::SeriesSource;
use super::utility::ident_text;
use crate::error::{SqlError, SqlState};
use crate::functions::GENERATE_SERIES;
use crate::types::SqlType;

/// Plans `generate_series(…)` in FROM.
#[derive(Debug)]
pub struct SeriesPlanner;

impl RelationPlanner for SeriesPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let (args, alias) = match &relation {
            TableFactor::Table {
                name,
                args: Some(args),
                alias,
                with_ordinality: false,
                ..
            } if is_series(name) => (&args.args, alias),
            TableFactor::Function {
                name,
                args,
                alias,
                with_ordinality: false,
                ..
            } if is_series(name) => (args, alias),
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        let mut exprs = Vec::with_capacity(args.len());
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(sql)) = arg else {
                return Err(SqlError::unsupported("this argument of generate_series").into());
            };
            let expr = context.sql_to_expr(sql.clone(), &DFSchema::empty())?;
            exprs.push(small_literal(expr).data);
        }
        let column = column_name(alias.as_ref());
        let label = alias
            .as_ref()
            .map_or(GENERATE_SERIES.into(), |a| ident_text(&a.name));
        let plan = match series_type(&exprs)? {
            Some(ty) => {
                let source = Arc::new(SeriesSource::new(exprs, ty, &column));
                LogicalPlanBuilder::scan(TableReference::bare(label), source, None)?
            }
            None => {
                let function = context
                    .context_provider()
                    .get_function_meta(GENERATE_SERIES)
                    .ok_or_else(|| SqlError::internal("generate_series is not registered"))?;
                LogicalPlanBuilder::empty(true)
                    .project([function.call(exprs).alias(&column)])?
                    .unnest_column(Column::from_name(column))?
                    .alias(TableReference::bare(label))?
            }
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
            plan.build()?,
            None,
        ))))
    }
}

fn is_series(name: &ObjectName) -> bool {
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident())
        .map(ident_text)
        .collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    matches!(
        parts.as_slice(),
        [GENERATE_SERIES] | ["pg_catalog", GENERATE_SERIES]
    )
}

/// As in PostgreSQL the alias of a function with one column names the column too.
fn column_name(alias: Option<&TableAlias>) -> String {
    match alias {
        Some(alias) => match alias.columns.first() {
            Some(column) => ident_text(&column.name),
            None => ident_text(&alias.name),
        },
        None => GENERATE_SERIES.into(),
    }
}

/// `integer` unless an argument is a `bigint`; `None` for types that are not integers.
fn series_type(args: &[Expr]) -> Result<Option<SqlType>> {
    if !(2..=3).contains(&args.len()) {
        let message = "function generate_series with these arguments does not exist";
        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).into());
    }
    let mut ty = SqlType::Int4;
    for arg in args {
        let (_, field) = arg.to_field(&DFSchema::empty())?;
        match SqlType::from_arrow_field(&field) {
            SqlType::Int2 | SqlType::Int4 | SqlType::Unknown => {}
            SqlType::Int8 => ty = SqlType::Int8,
            _ => return Ok(None),
        }
    }
    Ok(Some(ty))
}
