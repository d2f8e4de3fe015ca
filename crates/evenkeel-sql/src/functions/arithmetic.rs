//! Arithmetic that reports overflow and division by zero, as PostgreSQL's operators do:
//! DataFusion's wrap integers around and make infinities.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::numeric::{add, div, mul, neg, sub};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, i256};
use datafusion::arrow::error::ArrowError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::arrow::{ColumnBuilder, datum_at};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, Numeric, NumericMod, SqlType};

/// An operator on two numbers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operator: Operator,
    name: &'static str,
    signature: Signature,
}

/// The function for an operator; `None` where DataFusion's own does what PostgreSQL's does.
pub(super) fn checked(operator: Operator, ty: &DataType) -> Option<Arc<ScalarUDF>> {
    static ALL: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
        [
            (Operator::Plus, "checked_add"),
            (Operator::Minus, "checked_subtract"),
            (Operator::Multiply, "checked_multiply"),
            (Operator::Divide, "checked_divide"),
        ]
        .map(|(operator, name)| {
            let signature = Signature::any(2, Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Checked {
                operator,
                name,
                signature,
            }))
        })
    });
    let integer = matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64);
    let float = matches!(ty, DataType::Float32 | DataType::Float64);
    let at = match operator {
        Operator::Plus => 0,
        Operator::Minus => 1,
        Operator::Multiply => 2,
        Operator::Divide => 3,
        _ => return None,
    };
    (integer || float).then(|| Arc::clone(&ALL[at]))
}

/// `-` before a number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Negation {
    signature: Signature,
}

/// The function for a sign; `None` where DataFusion's own does what PostgreSQL's does.
pub(super) fn negation(ty: &DataType) -> Option<Arc<ScalarUDF>> {
    static ONE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Negation { signature }))
    });
    let integer = matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64);
    integer.then(|| Arc::clone(&ONE))
}

impl ScalarUDFImpl for Negation {
    fn name(&self) -> &str {
        "checked_negate"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> DfResult<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Int64))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return Err(SqlError::internal("a sign has one number").into());
        };
        let scalar = matches!(value, ColumnarValue::Scalar(_));
        let array = value.to_array(if scalar { 1 } else { args.number_rows })?;
        let negated = neg(&array).map_err(|error| from_kernel(error, array.data_type()))?;
        one_if(scalar, negated)
    }
}

/// Digits after the point that a quotient has at least.
const QUOTIENT_SCALE: i16 = 16;
/// Most digits of a decimal.
const MAX_DIGITS: i16 = 76;

/// `numeric / numeric`. PostgreSQL chooses the scale of each quotient by its size; in a column
/// all have one, which is its least.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Quotient {
    signature: Signature,
}

/// Division of decimals.
pub(super) fn quotient() -> Arc<ScalarUDF> {
    static ONE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Quotient { signature }))
    });
    Arc::clone(&ONE)
}

/// Precision and scale of a decimal type.
fn decimal_parts(ty: &DataType) -> Option<(i16, i16)> {
    match ty {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            Some((i16::from(*precision), i16::from(*scale)))
        }
        _ => None,
    }
}

/// Whether [`quotient`] divides these types.
pub(super) fn are_decimals(left: &DataType, right: &DataType) -> bool {
    decimal_parts(left).is_some() && decimal_parts(right).is_some()
}

fn quotient_type(left: &DataType, right: &DataType) -> SqlType {
    let (Some((p1, s1)), Some((_, s2))) = (decimal_parts(left), decimal_parts(right)) else {
        return SqlType::Numeric(None);
    };
    let scale = QUOTIENT_SCALE.max(s1).max(s2);
    let precision = (p1 - s1 + s2.max(0) + scale).clamp(1, MAX_DIGITS);
    let modifier = NumericMod {
        precision: precision.unsigned_abs(),
        scale,
    };
    SqlType::Numeric(Some(modifier))
}

/// Rounded half away from zero to `scale` digits; `None` when 76 digits are not enough.
fn divide(left: &Numeric, right: &Numeric, scale: i8) -> Option<Numeric> {
    let places = |n: &Numeric| i8::try_from(n.dscale()).ok();
    let (s1, s2) = (places(left)?, places(right)?);
    let shift = u32::try_from(i32::from(scale) + i32::from(s2) - i32::from(s1)).ok()?;
    let power = i256::from_i128(10).checked_pow(shift)?;
    let dividend = left.to_i256(s1)?.checked_mul(power)?;
    let divisor = right.to_i256(s2)?;
    let whole = dividend.checked_div(divisor)?;
    let rest = dividend.checked_rem(divisor)?;
    let up = rest.checked_abs()?.checked_mul(i256::from_i128(2))? >= divisor.checked_abs()?;
    let sign = if dividend.is_negative() == divisor.is_negative() {
        1
    } else {
        -1
    };
    let step = i256::from_i128(if up { sign } else { 0 });
    Some(Numeric::from_i256(whole.checked_add(step)?, scale))
}

impl Quotient {
    fn compute(args: &ScalarFunctionArgs) -> SqlResult<ArrayRef> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = arrays.as_slice() else {
            return Err(SqlError::internal("an operator has two arguments"));
        };
        let ty = quotient_type(left.data_type(), right.data_type());
        let scale = decimal_parts(&ty.arrow_type()).map_or(0, |(_, scale)| scale);
        let scale = i8::try_from(scale).unwrap_or(i8::MAX);
        let operand = SqlType::Numeric(None);
        let overflow = || {
            SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "numeric field overflow",
            )
        };
        let mut builder = ColumnBuilder::new(ty, left.len());
        for row in 0..left.len() {
            let value = match (
                datum_at(left, row, operand)?,
                datum_at(right, row, operand)?,
            ) {
                (Datum::Numeric(_), Datum::Numeric(b)) if b == Numeric::zero() => {
                    return Err(division_by_zero());
                }
                (Datum::Numeric(a), Datum::Numeric(b)) => {
                    Datum::Numeric(divide(&a, &b, scale).ok_or_else(overflow)?)
                }
                _ => Datum::Null,
            };
            builder.append(&value)?;
        }
        Ok(builder.finish())
    }
}

impl ScalarUDFImpl for Quotient {
    fn name(&self) -> &str {
        "numeric_div"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> DfResult<DataType> {
        Ok(match arg_types {
            [left, right] => quotient_type(left, right).arrow_type(),
            _ => SqlType::Numeric(None).arrow_type(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        one_if(scalar, Quotient::compute(&args)?)
    }
}

/// A result as a scalar when all arguments were scalars.
fn one_if(scalar: bool, result: ArrayRef) -> DfResult<ColumnarValue> {
    if scalar {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
            &result, 0,
        )?));
    }
    Ok(ColumnarValue::Array(result))
}

fn out_of_range(ty: &DataType) -> SqlError {
    let message = match ty {
        DataType::Float32 | DataType::Float64 => "value out of range: overflow".to_owned(),
        other => format!(
            "{} out of range",
            SqlType::from_arrow_type(other).base_name()
        ),
    };
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// An error of Arrow's arithmetic on values of a type.
fn from_kernel(error: ArrowError, ty: &DataType) -> SqlError {
    match error {
        ArrowError::DivideByZero => division_by_zero(),
        ArrowError::ArithmeticOverflow(_) => out_of_range(ty),
        other => SqlError::internal(other.to_string()),
    }
}

impl Checked {
    fn compute(&self, left: &ArrayRef, right: &ArrayRef) -> SqlResult<ArrayRef> {
        let kernel = match self.operator {
            Operator::Plus => add,
            Operator::Minus => sub,
            Operator::Multiply => mul,
            _ => div,
        };
        let result = kernel(left, right).map_err(|error| from_kernel(error, left.data_type()))?;
        match left.data_type() {
            DataType::Float64 => {
                let value = |array: &ArrayRef, row| array.as_primitive::<Float64Type>().value(row);
                self.check_floats(left, right, &result, value)?;
            }
            DataType::Float32 => {
                let value = |array: &ArrayRef, row| {
                    f64::from(array.as_primitive::<Float32Type>().value(row))
                };
                self.check_floats(left, right, &result, value)?;
            }
            _ => {}
        }
        Ok(result)
    }

    fn check_floats(
        &self,
        left: &ArrayRef,
        right: &ArrayRef,
        result: &ArrayRef,
        value: impl Fn(&ArrayRef, usize) -> f64,
    ) -> SqlResult<()> {
        for row in (0..result.len()).filter(|row| result.is_valid(*row)) {
            let (a, b) = (value(left, row), value(right, row));
            if self.operator == Operator::Divide && b == 0.0 && !a.is_nan() {
                return Err(division_by_zero());
            }
            if value(result, row).is_infinite() && a.is_finite() && b.is_finite() {
                return Err(out_of_range(left.data_type()));
            }
        }
        Ok(())
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> DfResult<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Int64))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = arrays.as_slice() else {
            return Err(SqlError::internal("an operator has two arguments").into());
        };
        one_if(scalar, self.compute(left, right)?)
    }
}
