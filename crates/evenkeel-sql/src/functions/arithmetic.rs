//! Arithmetic that reports overflow and division by zero, as PostgreSQL's operators do:
//! DataFusion's wrap integers around and make infinities.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::numeric::{add, div, mul, sub};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::SqlType;

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

impl Checked {
    fn compute(&self, left: &ArrayRef, right: &ArrayRef) -> SqlResult<ArrayRef> {
        let kernel = match self.operator {
            Operator::Plus => add,
            Operator::Minus => sub,
            Operator::Multiply => mul,
            _ => div,
        };
        let result = kernel(left, right).map_err(|error| match error {
            ArrowError::DivideByZero => division_by_zero(),
            ArrowError::ArithmeticOverflow(_) => out_of_range(left.data_type()),
            other => SqlError::internal(other.to_string()),
        })?;
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
        let result = self.compute(left, right)?;
        if scalar {
            let value = datafusion::scalar::ScalarValue::try_from_array(&result, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        Ok(ColumnarValue::Array(result))
    }
}
