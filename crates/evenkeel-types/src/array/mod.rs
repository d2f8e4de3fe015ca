//! Arrays: up to six dimensions with lower bounds, elements row by row, NULLs among them.

mod assign;
mod forms;
mod input;
#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use crate::datum::{ArrayValue, Datum, Dimension, MAX_DIMENSIONS};

pub use assign::AssignedPart;
pub use forms::{parse_binary, put_value, write, write_binary};
pub use input::parse;

impl ArrayValue {
    /// The element at these subscripts; `None` out of bounds and for another number of subscripts.
    pub fn get(&self, subscripts: &[i32]) -> Option<&Datum> {
        if subscripts.len() != self.dimensions().len() || subscripts.is_empty() {
            return None;
        }
        let mut at = 0usize;
        for (dimension, subscript) in self.dimensions().iter().zip(subscripts) {
            let offset = i64::from(*subscript) - i64::from(dimension.lower);
            let offset = (offset < i64::from(dimension.length)).then_some(offset)?;
            at = at * usize::try_from(dimension.length).ok()? + usize::try_from(offset).ok()?;
        }
        self.elements().get(at)
    }

    /// The part between these subscripts, both included; an end that is not given is the array's,
    /// as are dimensions beyond those given. Its subscripts begin with 1. Empty where there is
    /// nothing between, or the array has fewer dimensions.
    #[must_use]
    pub fn slice(&self, ranges: &[(Option<i32>, Option<i32>)]) -> ArrayValue {
        if ranges.len() > self.dimensions().len() {
            return ArrayValue::default();
        }
        // Per dimension: elements passed over, elements taken.
        let mut parts: SmallVec<[(usize, usize); MAX_DIMENSIONS]> = SmallVec::new();
        for (at, dimension) in self.dimensions().iter().enumerate() {
            let (low, high) = ranges.get(at).copied().unwrap_or((None, None));
            let low = low.map_or(dimension.lower, |low| low.max(dimension.lower));
            let high = high.map_or(dimension.upper(), |high| high.min(dimension.upper()));
            if low > high {
                return ArrayValue::default();
            }
            let size =
                |from: i32, to: i32| usize::try_from(i64::from(to) - i64::from(from)).unwrap_or(0);
            parts.push((size(dimension.lower, low), size(low, high) + 1));
        }
        let mut starts = vec![0usize];
        for (dimension, (skip, take)) in self.dimensions().iter().zip(&parts) {
            let length = usize::try_from(dimension.length).unwrap_or(0);
            starts = starts
                .iter()
                .flat_map(|start| (0..*take).map(move |at| start * length + skip + at))
                .collect();
        }
        let elements = starts
            .iter()
            .filter_map(|at| self.elements().get(*at).cloned())
            .collect();
        let dimensions = parts.iter().map(|(_, take)| Dimension {
            length: i32::try_from(*take).unwrap_or(i32::MAX),
            lower: 1,
        });
        ArrayValue::from_parts(dimensions.collect(), elements)
    }
}
