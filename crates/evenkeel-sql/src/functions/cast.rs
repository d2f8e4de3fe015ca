//! `CAST` with PostgreSQL's input and output functions, rounding and errors.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::session_vars;
use crate::arrow::{ColumnBuilder, NUMERIC_SCALE, datum_at, datum_from_scalar, scalar_from_datum};
use crate::error::SqlResult;
use crate::types::{SqlType, TypeContext};

/// A cast to one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PgCast {
    to: SqlType,
    signature: Signature,
}

/// The cast from one type to another as a function; `None` where Arrow's cast does what
/// PostgreSQL's does.
pub(super) fn pg_cast(from: SqlType, from_arrow: &DataType, to: SqlType) -> Option<ScalarUDF> {
    let by_text_form = to.is_string()
        && match from_arrow {
            DataType::Decimal256(_, scale) => *scale == NUMERIC_SCALE,
            DataType::Boolean
            | DataType::Float32
            | DataType::Float64
            | DataType::Timestamp(..)
            | DataType::FixedSizeBinary(16)
            | DataType::Binary
            | DataType::Interval(_)
            | DataType::Duration(_) => true,
            _ => false,
        };
    let readable = !to.is_string() && !matches!(to, SqlType::Interval | SqlType::Void);
    let instant = |ty| matches!(ty, SqlType::Timestamptz(_));
    let ours = by_text_form
        || (from.is_string() && readable)
        || (from.is_number() && is_integer(to) && from.oid() != to.oid())
        || instant(from) != instant(to) && is_datetime(from) && is_datetime(to)
        || (to.is_string() && to.typmod() != -1 && from != to)
        // The padding must not come with the value.
        || (matches!(from, SqlType::Char(_)) && to == SqlType::Text);
    // Widening never fails and never rounds.
    let widening = is_integer(from) && is_integer(to) && from.wire_len() < to.wire_len();
    (ours && !widening).then(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(PgCast { to, signature })
    })
}

fn is_integer(ty: SqlType) -> bool {
    matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8)
}

fn is_datetime(ty: SqlType) -> bool {
    matches!(
        ty,
        SqlType::Date | SqlType::Time | SqlType::Timestamp(_) | SqlType::Timestamptz(_)
    )
}

impl PgCast {
    fn invoke(&self, args: &ScalarFunctionArgs) -> SqlResult<ColumnarValue> {
        let (Some(value), Some(field)) = (args.args.first(), args.arg_fields.first()) else {
            return Err(crate::error::SqlError::internal("a cast has one argument"));
        };
        let from = SqlType::from_arrow_field(field);
        // Without a session (a constant folded outside of any) the defaults apply.
        let session = session_vars(&args.config_options).ok();
        let default = TypeContext::default();
        let cx = session.as_ref().map_or(&default, |session| &session.cx);
        let array = match value {
            ColumnarValue::Scalar(scalar) => {
                let datum = datum_from_scalar(scalar, from)?;
                let cast = datum.cast_explicit(from, self.to, cx)?;
                return Ok(ColumnarValue::Scalar(scalar_from_datum(&cast, self.to)?));
            }
            ColumnarValue::Array(array) => array,
        };
        let mut builder = ColumnBuilder::new(self.to, array.len());
        for row in 0..array.len() {
            let datum = datum_at(array, row, from)?;
            builder.append(&datum.cast_explicit(from, self.to, cx)?)?;
        }
        Ok(ColumnarValue::Array(builder.finish()))
    }
}

impl ScalarUDFImpl for PgCast {
    fn name(&self) -> &str {
        self.to.type_name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> DfResult<DataType> {
        Ok(self.to.arrow_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let nullable = args
            .arg_fields
            .first()
            .is_none_or(|field| field.is_nullable());
        Ok(Arc::new(self.to.arrow_field(self.name(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(self.invoke(&args)?)
    }
}
