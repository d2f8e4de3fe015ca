//! `round` and `trunc` as PostgreSQL has them: of `numeric` half away from zero, of
//! `double precision` half to even.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::arrow::{ColumnBuilder, datum_at, datum_from_scalar, scalar_from_datum};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Datum, NumericMod, SqlType};

/// `round` or `trunc`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Rounding {
    name: &'static str,
    to_nearest: bool,
    signature: Signature,
}

pub(super) fn functions() -> Vec<Rounding> {
    let function = |name, to_nearest| Rounding {
        name,
        to_nearest,
        signature: Signature::user_defined(Volatility::Immutable),
    };
    vec![function("round", true), function("trunc", false)]
}

fn no_function(name: &str, types: &[DataType]) -> SqlError {
    let names: Vec<&str> = types
        .iter()
        .map(|ty| SqlType::from_arrow_type(ty).base_name())
        .collect();
    let message = format!("function {name}({}) does not exist", names.join(", "));
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).hint(
        "No function matches the given name and argument types. \
               You might need to add explicit type casts.",
    )
}

/// A decimal with room for one digit more, and the scale that the result shows.
fn result_type(decimal: &DataType, places: Option<i64>) -> SqlType {
    let (precision, scale) = match decimal {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (i64::from(*precision), i64::from(*scale))
        }
        _ => return SqlType::Numeric(None),
    };
    // Without a constant number of places every row has the argument's scale.
    let wanted = places.unwrap_or(scale).clamp(0, 38);
    let digits = (precision - scale + wanted + 1).clamp(1, 76);
    let modifier = NumericMod {
        precision: u16::try_from(digits).unwrap_or(76),
        scale: i16::try_from(wanted.min(digits)).unwrap_or(0),
    };
    SqlType::Numeric(Some(modifier))
}

fn constant_places(args: &ReturnFieldArgs<'_>) -> Option<i64> {
    if args.arg_fields.len() < 2 {
        return Some(0);
    }
    match args.scalar_arguments.get(1)? {
        Some(ScalarValue::Int64(places)) => *places,
        _ => None,
    }
}

impl Rounding {
    fn value(&self, value: &Datum, places: &Datum) -> SqlResult<Datum> {
        let places = match places {
            Datum::Int8(places) => i32::try_from(*places).unwrap_or(i32::MAX),
            Datum::Null => return Ok(Datum::Null),
            _ => return Err(SqlError::internal("the places of round are no bigint")),
        };
        Ok(match value {
            Datum::Float8(x) if self.to_nearest => Datum::Float8(x.round_ties_even()),
            Datum::Float8(x) => Datum::Float8(x.trunc()),
            Datum::Numeric(n) if self.to_nearest => Datum::Numeric(n.round(places)),
            Datum::Numeric(n) => Datum::Numeric(n.truncate(places)),
            other => other.clone(),
        })
    }

    fn invoke(&self, args: &ScalarFunctionArgs) -> SqlResult<ColumnarValue> {
        let result = SqlType::from_arrow_field(&args.return_field);
        let input = args.args.first().zip(args.arg_fields.first());
        let (value, field) = input.ok_or_else(|| no_function(self.name, &[]))?;
        let ty = SqlType::from_arrow_type(field.data_type());
        let places = args.args.get(1);
        let places_at = |row: usize| match places {
            None => Ok(Datum::Int8(0)),
            Some(ColumnarValue::Scalar(scalar)) => datum_from_scalar(scalar, SqlType::Int8),
            Some(ColumnarValue::Array(array)) => datum_at(array, row, SqlType::Int8),
        };
        if let (ColumnarValue::Scalar(scalar), None | Some(ColumnarValue::Scalar(_))) =
            (value, places)
        {
            let rounded = self.value(&datum_from_scalar(scalar, ty)?, &places_at(0)?)?;
            return Ok(ColumnarValue::Scalar(scalar_from_datum(&rounded, result)?));
        }
        let array = value.to_array(args.number_rows)?;
        let mut builder = ColumnBuilder::new(result, args.number_rows);
        for row in 0..args.number_rows {
            builder.append(&self.value(&datum_at(&array, row, ty)?, &places_at(row)?)?)?;
        }
        Ok(ColumnarValue::Array(builder.finish()))
    }
}

impl ScalarUDFImpl for Rounding {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> DfResult<Vec<DataType>> {
        let first = match arg_types.first() {
            Some(ty @ (DataType::Decimal128(..) | DataType::Decimal256(..))) => ty.clone(),
            Some(ty) if ty.is_integer() && arg_types.len() == 2 => DataType::Decimal128(20, 0),
            Some(ty) if (ty.is_numeric() || ty.is_null()) && arg_types.len() == 1 => {
                DataType::Float64
            }
            _ => return Err(no_function(self.name, arg_types).into()),
        };
        match arg_types.get(1) {
            None => Ok(vec![first]),
            Some(ty) if (ty.is_integer() || ty.is_null()) && arg_types.len() == 2 => {
                Ok(vec![first, DataType::Int64])
            }
            Some(_) => Err(no_function(self.name, arg_types).into()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> DfResult<DataType> {
        Ok(match arg_types.first() {
            Some(DataType::Float64) => DataType::Float64,
            Some(decimal) => result_type(decimal, None).arrow_type(),
            None => return Err(no_function(self.name, arg_types).into()),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let ty = match args.arg_fields.first().map(|field| field.data_type()) {
            None | Some(DataType::Float64) => SqlType::Float8,
            Some(decimal) => result_type(decimal, constant_places(&args)),
        };
        Ok(Arc::new(ty.arrow_field(self.name, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(self.invoke(&args)?)
    }
}
