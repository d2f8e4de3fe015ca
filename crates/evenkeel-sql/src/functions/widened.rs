//! Accumulators of `bigint` fed with narrower integers: the values are cast on their way in.
//!
//! The sum of `integer` is a `bigint` and that of `bigint` a `numeric`, so the cast cannot be left
//! to the coercion of arguments: coerced to `bigint` once, a second look would see the sum of a
//! `bigint`.

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::scalar::ScalarValue;

/// An accumulator over the values as `bigint`.
#[derive(Debug)]
pub(super) struct Widened<A: ?Sized>(pub(super) Box<A>);

fn widen(values: &[ArrayRef]) -> DfResult<Vec<ArrayRef>> {
    values
        .iter()
        .map(|array| Ok(cast(array, &DataType::Int64)?))
        .collect()
}

impl Accumulator for Widened<dyn Accumulator> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.0.update_batch(&widen(values)?)
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.0.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.0.retract_batch(&widen(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}

impl GroupsAccumulator for Widened<dyn GroupsAccumulator> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> DfResult<()> {
        let values = widen(values)?;
        self.0
            .update_batch(&values, group_indices, filter, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DfResult<ArrayRef> {
        self.0.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> DfResult<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> DfResult<()> {
        self.0.merge_batch(values, group_indices, total_num_groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DfResult<Vec<ArrayRef>> {
        self.0.convert_to_state(&widen(values)?, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
