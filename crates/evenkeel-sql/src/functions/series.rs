//! `generate_series` as a function of values: each call gives the list of what PostgreSQL's
//! set-returning function gives one by one; the planner takes the list apart.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, PrimitiveArray, timezone::Tz};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Int32Type, Int64Type, IntervalMonthDayNanoType,
    TimestampMicrosecondType,
};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::SqlType;

/// The name, PostgreSQL's.
pub const GENERATE_SERIES: &str = "generate_series";

/// The most values that the calls for one batch of rows may give together: they are in memory
/// at once.
const MOST_VALUES: usize = 1 << 27;

/// Over integers and over timestamps.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct GenerateSeries {
    signature: Signature,
}

impl GenerateSeries {
    pub(super) fn new() -> GenerateSeries {
        GenerateSeries {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

/// The types of the arguments that a call with arguments of types `given` really has;
/// `integer` unless one is a `bigint`, and dates are timestamps with time zone.
fn argument_types(given: &[DataType]) -> Option<Vec<DataType>> {
    let moment = |ty: &DataType| matches!(ty, DataType::Timestamp(..) | DataType::Date32);
    if given.iter().all(is_integer_or_null) && (2..=3).contains(&given.len()) {
        let ty = match given.contains(&DataType::Int64) {
            true => DataType::Int64,
            false => DataType::Int32,
        };
        return Some(vec![ty; given.len()]);
    }
    let [start, stop, step] = given else {
        return None;
    };
    let ends = [start, stop];
    // A string is what a literal may still become.
    let open = |ty: &DataType| matches!(ty, DataType::Null | DataType::Utf8 | DataType::Utf8View);
    let fits = ends.iter().all(|ty| moment(ty) || open(ty))
        && (open(step) || *step == SqlType::Interval.arrow_type());
    if !fits || !ends.iter().any(|ty| moment(ty)) {
        return None;
    }
    let zoned = |ty: &&DataType| matches!(ty, DataType::Timestamp(_, Some(_)) | DataType::Date32);
    let end = match ends.iter().any(zoned) {
        true => SqlType::Timestamptz(None).arrow_type(),
        false => SqlType::Timestamp(None).arrow_type(),
    };
    Some(vec![end.clone(), end, SqlType::Interval.arrow_type()])
}

fn is_integer_or_null(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Null
    )
}

fn undefined(given: &[DataType]) -> SqlError {
    let names: Vec<String> = given
        .iter()
        .map(|ty| match ty {
            DataType::Null => "unknown".to_owned(),
            ty => SqlType::from_arrow_type(ty).base_name().to_owned(),
        })
        .collect();
    let message = format!(
        "function {GENERATE_SERIES}({}) does not exist",
        names.join(", ")
    );
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
}

impl ScalarUDFImpl for GenerateSeries {
    fn name(&self) -> &str {
        GENERATE_SERIES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> DfResult<Vec<DataType>> {
        // What does not fit is refused with the result type, where the error stays as it is.
        Ok(argument_types(given).unwrap_or_else(|| given.to_vec()))
    }

    fn return_type(&self, given: &[DataType]) -> DfResult<DataType> {
        let types = argument_types(given).ok_or_else(|| undefined(given))?;
        let value = types.first().cloned().unwrap_or(DataType::Null);
        Ok(DataType::List(Arc::new(Field::new_list_field(value, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_constant = args.args.iter().all(constant);
        let rows = if is_constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows));
        let arrays = arrays.collect::<DfResult<Vec<ArrayRef>>>()?;
        let list = Arc::new(lists(&arrays)?);
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::List(list)),
            false => ColumnarValue::Array(list),
        })
    }
}

fn lists(args: &[ArrayRef]) -> SqlResult<ListArray> {
    match args.first().map(|first| first.data_type()) {
        Some(DataType::Int32) => integers::<Int32Type>(args),
        Some(DataType::Int64) => integers::<Int64Type>(args),
        Some(DataType::Timestamp(..)) => timestamps(args),
        _ => Err(SqlError::internal("arguments of a series were not coerced")),
    }
}

fn integers<T>(args: &[ArrayRef]) -> SqlResult<ListArray>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64> + TryFrom<i128>,
{
    let rows = args.first().map_or(0, |first| first.len());
    let mut lists = Lists::<T>::new(rows);
    for row in 0..rows {
        let mut given = [0, 0, 1];
        let mut any_null = false;
        for (value, array) in given.iter_mut().zip(args) {
            any_null |= array.is_null(row);
            let native: i64 = array.as_primitive::<T>().value(row).into();
            *value = i128::from(native);
        }
        let [start, stop, step] = given;
        if !any_null {
            if step == 0 {
                return Err(zero_step());
            }
            let steps = (stop - start) / step;
            // Division rounds towards zero: only the sign tells a step the other way.
            let count = match (stop - start).signum() * step.signum() < 0 {
                true => 0,
                false => usize::try_from(steps + 1).unwrap_or(usize::MAX),
            };
            lists.check(count)?;
            let values = (0..count as i128).map(|at| T::Native::try_from(start + at * step));
            lists.values.extend(values.filter_map(Result::ok));
        }
        lists.end_row();
    }
    lists.finish(T::DATA_TYPE)
}

fn timestamps(args: &[ArrayRef]) -> SqlResult<ListArray> {
    let [start, stop, step] = args else {
        return Err(SqlError::internal("a series of timestamps without a step"));
    };
    let ty = start.data_type().clone();
    let utc: Tz = "+00:00"
        .parse()
        .map_err(|_| SqlError::internal("UTC is no time zone"))?;
    let rows = start.len();
    let mut lists = Lists::<TimestampMicrosecondType>::new(rows);
    for row in 0..rows {
        if args.iter().all(|array| array.is_valid(row)) {
            let step = step.as_primitive::<IntervalMonthDayNanoType>().value(row);
            let stop = stop.as_primitive::<TimestampMicrosecondType>().value(row);
            let direction = direction(step);
            if direction == 0 {
                return Err(zero_step());
            }
            let start = start.as_primitive::<TimestampMicrosecondType>().value(row);
            let mut next = Some(start);
            let within = |at: &i64| {
                if direction > 0 {
                    *at <= stop
                } else {
                    *at >= stop
                }
            };
            while let Some(at) = next.filter(within) {
                lists.check(1)?;
                lists.values.push(at);
                next = TimestampMicrosecondType::add_month_day_nano(at, step, utc);
            }
        }
        lists.end_row();
    }
    lists.finish(ty)
}

/// The sign of an interval, as intervals are compared: months of 30 days of 24 hours.
fn direction(step: <IntervalMonthDayNanoType as ArrowPrimitiveType>::Native) -> i128 {
    let (months, days, nanos) = IntervalMonthDayNanoType::to_parts(step);
    let days = i128::from(months) * 30 + i128::from(days);
    (days * 86_400_000_000_000 + i128::from(nanos)).signum()
}

fn zero_step() -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        "step size cannot equal zero",
    )
}

/// The lists of a batch of calls.
struct Lists<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    lengths: Vec<usize>,
    before: usize,
}

impl<T: ArrowPrimitiveType> Lists<T> {
    fn new(rows: usize) -> Lists<T> {
        Lists {
            values: Vec::new(),
            lengths: Vec::with_capacity(rows),
            before: 0,
        }
    }

    /// 54000 if `more` values would be too many.
    fn check(&self, more: usize) -> SqlResult<()> {
        if self.values.len().saturating_add(more) <= MOST_VALUES {
            return Ok(());
        }
        let message =
            format!("{GENERATE_SERIES} in a select list would give more than {MOST_VALUES} values");
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .hint("Call the function in FROM, or for fewer rows at a time."))
    }

    fn end_row(&mut self) {
        self.lengths.push(self.values.len() - self.before);
        self.before = self.values.len();
    }

    fn finish(self, ty: DataType) -> SqlResult<ListArray> {
        let field = Arc::new(Field::new_list_field(ty.clone(), true));
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        let values = PrimitiveArray::<T>::from_iter_values(self.values).with_data_type(ty);
        let list = ListArray::try_new(field, offsets, Arc::new(values), None);
        list.map_err(|error| datafusion::error::DataFusionError::from(error).into())
    }
}
