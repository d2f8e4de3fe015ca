//! Literals of unknown type take their type from what they are compared or combined with.

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::binder::{means_present, small_literal};
use crate::arrow::scalar_from_datum;
use crate::types::{Datum, SqlType, TypeContext};

/// DataFusion asks this before it builds a binary operation.
#[derive(Debug)]
pub struct PgLiterals;

impl ExprPlanner for PgLiterals {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let left = small_literal(left).data;
        let right = small_literal(right).data;
        if !takes_other_type(&op) {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        let (left, right) = match (string_of(&left), string_of(&right)) {
            (Some(text), None) => (typed(text, &right, schema)?.unwrap_or(left), right),
            (None, Some(text)) => {
                let converted = typed(text, &left, schema)?;
                (left, converted.unwrap_or(right))
            }
            _ => (left, right),
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

fn takes_other_type(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
    )
}

fn string_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// The literal as a value of the other side's type; `None` when that is a string, or unknown
/// itself, or its reading depends on the session.
fn typed(text: &str, other: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Ok((_, field)) = other.to_field(schema) else {
        return Ok(None);
    };
    let ty = SqlType::from_arrow_field(&field);
    let wanted = match ty {
        // A char column compares without trailing blanks.
        SqlType::Char(_) => SqlType::Char(None),
        SqlType::Numeric(_) => SqlType::Numeric(None),
        SqlType::Date | SqlType::Timestamp(_) if means_present(text) => return Ok(None),
        SqlType::Timestamptz(_) | SqlType::Void | SqlType::Interval => return Ok(None),
        ty if ty.is_string() => return Ok(None),
        ty => ty,
    };
    let datum = Datum::parse_text(wanted, text, &TypeContext::default())?;
    let scalar = scalar_from_datum(&datum, wanted)?;
    Ok(Some(Expr::Literal(scalar, None)))
}
