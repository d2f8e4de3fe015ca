//! `array_agg`.

use evenkeel_types::{
    ArrayValue, Datum, Dimension, MAX_ARRAY_SIZE, MAX_DIMENSIONS, SqlState, TypeError, TypeResult,
};

use super::counts::heap_bytes;
use crate::call::Session;
use crate::proc::Accumulator;

/// `array_agg` of values that are no arrays; NULLs are elements.
#[derive(Debug, Default)]
pub(super) struct Elements {
    elements: Vec<Datum>,
    heap: usize,
}

impl Elements {
    fn push(&mut self, value: &Datum) -> TypeResult<()> {
        if self.elements.len() >= MAX_ARRAY_SIZE {
            return Err(TypeError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("array size exceeds the maximum allowed ({MAX_ARRAY_SIZE})"),
            ));
        }
        self.heap += heap_bytes(value);
        self.elements.push(value.clone());
        Ok(())
    }
}

impl Accumulator for Elements {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        match args {
            [value] => self.push(value),
            _ => Err(TypeError::internal("array_agg has one argument")),
        }
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(match self.elements.is_empty() {
            true => Datum::Null,
            false => Datum::array(self.elements.clone()),
        })
    }

    fn finish(self: Box<Self>, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(match self.elements.is_empty() {
            true => Datum::Null,
            false => Datum::array(self.elements),
        })
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.elements.capacity() * size_of::<Datum>() + self.heap
    }
}

/// `array_agg` of arrays of one shape, which become the parts of an array with one dimension more.
#[derive(Debug, Default)]
pub(super) struct SubArrays {
    elements: Elements,
    shape: Vec<Dimension>,
    arrays: i32,
}

impl SubArrays {
    fn dimensions(&self) -> Vec<Dimension> {
        let mut dimensions = vec![Dimension {
            length: self.arrays,
            lower: 1,
        }];
        dimensions.extend(&self.shape);
        dimensions
    }
}

fn shape_error(message: &str) -> TypeError {
    TypeError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

impl Accumulator for SubArrays {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [Datum::Array(array)] = args else {
            return Err(TypeError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "cannot accumulate null arrays",
            ));
        };
        let dimensions = array.dimensions();
        if self.arrays == 0 {
            if array.is_empty() {
                return Err(shape_error("cannot accumulate empty arrays"));
            }
            if dimensions.len() >= MAX_DIMENSIONS {
                return Err(TypeError::new(
                    SqlState::PROGRAM_LIMIT_EXCEEDED,
                    format!(
                        "number of array dimensions ({}) exceeds the maximum allowed \
                         ({MAX_DIMENSIONS})",
                        dimensions.len() + 1
                    ),
                ));
            }
            self.shape = dimensions.to_vec();
        } else if self.shape != dimensions {
            return Err(shape_error(
                "cannot accumulate arrays of different dimensionality",
            ));
        }
        self.arrays += 1;
        let mut elements = array.elements().iter();
        elements.try_for_each(|element| self.elements.push(element))
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        if self.arrays == 0 {
            return Ok(Datum::Null);
        }
        let elements = self.elements.elements.clone();
        let array = ArrayValue::new(&self.dimensions(), elements)?;
        Ok(Datum::Array(array.into()))
    }

    fn finish(self: Box<Self>, _session: &dyn Session) -> TypeResult<Datum> {
        if self.arrays == 0 {
            return Ok(Datum::Null);
        }
        let array = ArrayValue::new(&self.dimensions(), self.elements.elements)?;
        Ok(Datum::Array(array.into()))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.elements.bytes()
    }
}
