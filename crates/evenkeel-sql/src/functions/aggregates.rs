//! `sum` and `avg` with PostgreSQL's result types: the sum of `integer` is a `bigint`, that of
//! `bigint` a `numeric`, which does not overflow, and so is the average of integers.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
    Volatility,
};

use super::widened::Widened;

/// Digits after the point with which averages of integers are computed; DataFusion's `avg` adds
/// four, which makes PostgreSQL's sixteen.
const AVERAGE_SCALE: i8 = 12;

/// DataFusion's aggregate, over arguments cast to another type first.
#[derive(Debug)]
struct Coerced {
    inner: Arc<AggregateUDF>,
    /// The type in whose values integers of a type are aggregated.
    integers_as: fn(&DataType) -> Option<DataType>,
    /// Whether integers narrower than `bigint` are taken as they are and widened inside.
    widens: bool,
    signature: Signature,
}

/// The aggregates, to be registered over DataFusion's.
pub(super) fn functions() -> Vec<AggregateUDF> {
    let coerced = |inner, integers_as, widens| {
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::new_from_impl(Coerced {
            inner,
            integers_as,
            widens,
            signature,
        })
    };
    vec![
        coerced(sum_udaf(), sum_type, true),
        coerced(avg_udaf(), average_type, false),
    ]
}

fn sum_type(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::Int64 | DataType::UInt64 => Some(DataType::Decimal128(20, 0)),
        narrow if is_narrow(narrow) => Some(narrow.clone()),
        _ => None,
    }
}

fn is_narrow(ty: &DataType) -> bool {
    matches!(ty, DataType::Int8 | DataType::Int16 | DataType::Int32)
}

impl Coerced {
    fn widens(&self, ty: Option<&DataType>) -> bool {
        self.widens && ty.is_some_and(is_narrow)
    }

    fn widens_arguments(&self, args: &AccumulatorArgs<'_>) -> bool {
        self.widens(args.expr_fields.first().map(|field| field.data_type()))
    }
}

fn average_type(ty: &DataType) -> Option<DataType> {
    let digits = match ty {
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => 5,
        DataType::Int32 | DataType::UInt16 => 10,
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => 20,
        _ => return None,
    };
    Some(DataType::Decimal128(
        digits + AVERAGE_SCALE.unsigned_abs(),
        AVERAGE_SCALE,
    ))
}

impl PartialEq for Coerced {
    fn eq(&self, other: &Coerced) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Coerced {}

impl Hash for Coerced {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl AggregateUDFImpl for Coerced {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> DfResult<Vec<DataType>> {
        if let [only] = arg_types
            && let Some(ty) = (self.integers_as)(only)
        {
            return Ok(vec![ty]);
        }
        let field = |ty: &DataType| Arc::new(Field::new("argument", ty.clone(), true)) as FieldRef;
        let fields: Vec<FieldRef> = arg_types.iter().map(field).collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced
            .iter()
            .map(|field| field.data_type().clone())
            .collect())
    }

    fn return_type(&self, arg_types: &[DataType]) -> DfResult<DataType> {
        if self.widens(arg_types.first()) {
            return Ok(DataType::Int64);
        }
        self.inner.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        if self.widens_arguments(&args) {
            return Ok(Box::new(Widened(self.inner.accumulator(args)?)));
        }
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> DfResult<Box<dyn GroupsAccumulator>> {
        if self.widens_arguments(&args) {
            return Ok(Box::new(Widened(
                self.inner.create_groups_accumulator(args)?,
            )));
        }
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> DfResult<Box<dyn Accumulator>> {
        if self.widens_arguments(&args) {
            return Ok(Box::new(Widened(
                self.inner.create_sliding_accumulator(args)?,
            )));
        }
        self.inner.create_sliding_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}
