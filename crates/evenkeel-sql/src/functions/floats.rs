//! Comparisons of floats: -0 equals 0, and every NaN equals every other and is above all numbers.
//! Arrow compares bits.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::ExprSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::error::SqlError;

/// Name of the function whose values compare by their bits.
pub(super) const COMPARABLE: &str = "comparable";

/// A float as the one of its equals that stands for all.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Comparable {
    signature: Signature,
}

fn comparable() -> Arc<ScalarUDF> {
    static ONE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Comparable { signature }))
    });
    Arc::clone(&ONE)
}

fn one_of_equals_64(value: f64) -> f64 {
    if value.is_nan() {
        f64::NAN.copysign(1.0)
    } else if value == 0.0 {
        0.0
    } else {
        value
    }
}

fn one_of_equals_32(value: f32) -> f32 {
    if value.is_nan() {
        f32::NAN.copysign(1.0)
    } else if value == 0.0 {
        0.0
    } else {
        value
    }
}

impl ScalarUDFImpl for Comparable {
    fn name(&self) -> &str {
        COMPARABLE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> DfResult<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Float64))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let field = args.arg_fields.first().map(Arc::clone);
        let field =
            field.ok_or_else(|| SqlError::internal("a comparison's operand is one value"))?;
        Ok(field)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return Err(SqlError::internal("a comparison's operand is one value").into());
        };
        Ok(match value {
            ColumnarValue::Scalar(scalar) => ColumnarValue::Scalar(of_scalar(scalar.clone())),
            ColumnarValue::Array(array) => ColumnarValue::Array(of_array(array)),
        })
    }
}

fn of_scalar(scalar: ScalarValue) -> ScalarValue {
    match scalar {
        ScalarValue::Float64(Some(value)) => ScalarValue::Float64(Some(one_of_equals_64(value))),
        ScalarValue::Float32(Some(value)) => ScalarValue::Float32(Some(one_of_equals_32(value))),
        other => other,
    }
}

fn of_array(array: &ArrayRef) -> ArrayRef {
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        let same: Float64Array = floats.unary(one_of_equals_64);
        return Arc::new(same);
    }
    if let Some(floats) = array.as_primitive_opt::<Float32Type>() {
        let same: Float32Array = floats.unary(one_of_equals_32);
        return Arc::new(same);
    }
    Arc::clone(array)
}

fn is_float(ty: &DataType) -> bool {
    matches!(ty, DataType::Float32 | DataType::Float64)
}

/// Which operands of comparisons are rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// All but columns, while a column beside a constant may still find an index.
    Computed,
    /// All.
    All,
}

/// An expression that is to be compared, rewritten if it is a float.
pub(super) fn operand(
    expr: Expr,
    schema: &dyn ExprSchema,
    which: Operands,
) -> DfResult<Transformed<Expr>> {
    match &expr {
        Expr::Column(_) if which == Operands::Computed => return Ok(Transformed::no(expr)),
        Expr::ScalarFunction(call) if call.name() == COMPARABLE => {
            return Ok(Transformed::no(expr));
        }
        Expr::Alias(_) | Expr::Placeholder(_) => return Ok(Transformed::no(expr)),
        _ => {}
    }
    if !expr.get_type(schema).is_ok_and(|ty| is_float(&ty)) {
        return Ok(Transformed::no(expr));
    }
    match expr {
        Expr::Literal(value, metadata) => {
            let same = of_scalar(value.clone());
            // They compare by their bits.
            let changed = same != value;
            let literal = Expr::Literal(same, metadata);
            Ok(Transformed::new_transformed(literal, changed))
        }
        // Nothing else becomes NaN or -0.
        Expr::Cast(cast) if cast.expr.get_type(schema).is_ok_and(|ty| !is_float(&ty)) => {
            Ok(Transformed::no(Expr::Cast(cast)))
        }
        other => Ok(Transformed::yes(Expr::ScalarFunction(
            ScalarFunction::new_udf(comparable(), vec![other]),
        ))),
    }
}

fn compares(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// Rewrites the operands of one comparison.
pub(super) fn comparison(
    expr: Expr,
    schema: &dyn ExprSchema,
    which: Operands,
) -> DfResult<Transformed<Expr>> {
    let mut changed = false;
    let mut item = |expr| -> DfResult<Expr> {
        let operand = operand(expr, schema, which)?;
        changed |= operand.transformed;
        Ok(operand.data)
    };
    let mut part = |expr: Box<Expr>| item(*expr).map(Box::new);
    let expr = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
            let (left, right) = (part(left)?, part(right)?);
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::Between(between) => Expr::Between(Between {
            expr: part(between.expr)?,
            low: part(between.low)?,
            high: part(between.high)?,
            ..between
        }),
        Expr::InList(list) => {
            let expr = part(list.expr)?;
            let items = list.list.into_iter().map(&mut item);
            Expr::InList(InList {
                expr,
                list: items.collect::<DfResult<_>>()?,
                negated: list.negated,
            })
        }
        other => return Ok(Transformed::no(other)),
    };
    Ok(Transformed::new_transformed(expr, changed))
}
