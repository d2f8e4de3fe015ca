//! Assignments to elements and slices of arrays, as `array_set_element` and `array_set_slice` of
//! PostgreSQL's `arrayfuncs.c` make them: an array of one dimension grows to have the subscript.

use smallvec::SmallVec;

use crate::datum::{ArrayValue, Datum, Dimension, MAX_ARRAY_SIZE, MAX_DIMENSIONS, too_many};
use crate::error::{SqlState, TypeError, TypeResult};

type Dimensions = SmallVec<[Dimension; MAX_DIMENSIONS]>;

fn refused(message: &str) -> TypeError {
    TypeError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

/// So many subscripts, where an array may have no more dimensions.
fn check_count(subscripts: usize) -> TypeResult<()> {
    if (1..=MAX_DIMENSIONS).contains(&subscripts) {
        return Ok(());
    }
    Err(TypeError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!(
            "number of array dimensions ({subscripts}) exceeds the maximum allowed \
             ({MAX_DIMENSIONS})"
        ),
    ))
}

/// The number of elements of these dimensions.
fn count(dimensions: &[Dimension]) -> TypeResult<usize> {
    let lengths = dimensions.iter().map(|dimension| dimension.length);
    lengths.into_iter().try_fold(1usize, |count, length| {
        let length = usize::try_from(length).map_err(|_| too_many())?;
        let product = count.checked_mul(length);
        product
            .filter(|count| *count <= MAX_ARRAY_SIZE)
            .ok_or_else(too_many)
    })
}

/// The subscripts from `lower` to `upper`, both included.
fn between(lower: i32, upper: i32) -> TypeResult<Dimension> {
    let length = i64::from(upper) - i64::from(lower) + 1;
    let length = u32::try_from(length)
        .ok()
        .and_then(|length| i32::try_from(length).ok());
    let length = length.ok_or_else(too_many)?;
    Ok(Dimension { length, lower })
}

/// A part of an array to which a value is assigned: the array's dimensions afterwards, and for each
/// of them the part's subscripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignedPart {
    dimensions: Dimensions,
    part: Dimensions,
}

impl AssignedPart {
    /// The part that is one element.
    ///
    /// # Errors
    /// 2202E for another number of subscripts than dimensions, and out of the bounds of an array of
    /// several; 54000 where the array would be too large.
    pub fn element(array: &ArrayValue, at: &[i32]) -> TypeResult<AssignedPart> {
        check_count(at.len())?;
        let mut ends: SmallVec<[(Option<i32>, Option<i32>); MAX_DIMENSIONS]> = SmallVec::new();
        ends.extend(at.iter().map(|at| (Some(*at), Some(*at))));
        if !array.dimensions().is_empty() && array.dimensions().len() != at.len() {
            return Err(refused("wrong number of array subscripts"));
        }
        AssignedPart::slice(array, &ends)
    }

    /// The part between these subscripts, both included; an end that is not given is the array's.
    ///
    /// # Errors
    /// As [`AssignedPart::element`]; 2202E for more ranges than dimensions, for one that ends
    /// before it begins, and for an end that is not given where the array is empty.
    pub fn slice(
        array: &ArrayValue,
        ranges: &[(Option<i32>, Option<i32>)],
    ) -> TypeResult<AssignedPart> {
        check_count(ranges.len())?;
        let had = array.dimensions();
        if had.is_empty() {
            return AssignedPart::of_empty(ranges);
        }
        if had.len() < ranges.len() {
            return Err(refused("wrong number of array subscripts"));
        }
        let (mut dimensions, mut part) = (Dimensions::new(), Dimensions::new());
        for (at, old) in had.iter().enumerate() {
            let (lower, upper) = ranges.get(at).copied().unwrap_or((None, None));
            let (lower, upper) = (lower.unwrap_or(old.lower), upper.unwrap_or(old.upper()));
            if lower > upper {
                return Err(refused("upper bound cannot be less than lower bound"));
            }
            part.push(between(lower, upper)?);
            let grown = between(lower.min(old.lower), upper.max(old.upper()))?;
            if had.len() > 1 && grown != *old {
                return Err(refused("array subscript out of range"));
            }
            dimensions.push(grown);
        }
        count(&dimensions)?;
        Ok(AssignedPart { dimensions, part })
    }

    fn of_empty(ranges: &[(Option<i32>, Option<i32>)]) -> TypeResult<AssignedPart> {
        if ranges
            .iter()
            .any(|ends| ends.0.is_none() || ends.1.is_none())
        {
            return Err(
                refused("array slice subscript must provide both boundaries").detail(
                    "When assigning to a slice of an empty array value, slice boundaries must be \
                     fully specified.",
                ),
            );
        }
        let mut part = Dimensions::new();
        for (lower, upper) in ranges.iter().copied() {
            if let (Some(lower), Some(upper)) = (lower, upper) {
                part.push(between(lower, upper)?);
            }
        }
        count(&part)?;
        Ok(AssignedPart {
            dimensions: part.clone(),
            part,
        })
    }

    /// Number of elements of the array afterwards.
    pub fn elements(&self) -> usize {
        count(&self.dimensions).unwrap_or(MAX_ARRAY_SIZE)
    }

    /// The array with these values in the part, row by row; values beyond the part are left out.
    ///
    /// # Errors
    /// 2202E for fewer values than the part has elements.
    pub fn assign(&self, array: &ArrayValue, values: &[Datum]) -> TypeResult<ArrayValue> {
        if count(&self.part)? > values.len() {
            return Err(refused("source array too small"));
        }
        let mut elements = vec![Datum::Null; self.elements()];
        let places = self.places(array.dimensions());
        for (place, value) in places.into_iter().zip(array.elements()) {
            put(&mut elements, place, value);
        }
        for (place, value) in self.places(&self.part).into_iter().zip(values) {
            put(&mut elements, place, value);
        }
        ArrayValue::new(&self.dimensions, elements)
    }

    /// Where the elements of these subscripts are among those of the array afterwards.
    fn places(&self, of: &[Dimension]) -> Vec<usize> {
        if of.is_empty() {
            return Vec::new();
        }
        let mut starts = vec![0usize];
        for (whole, of) in self.dimensions.iter().zip(of) {
            let size = |length: i32| usize::try_from(length).unwrap_or(0);
            let skip = usize::try_from(i64::from(of.lower) - i64::from(whole.lower)).unwrap_or(0);
            let rows = starts.iter();
            starts = rows
                .flat_map(|start| {
                    let first = start * size(whole.length) + skip;
                    first..first + size(of.length)
                })
                .collect();
        }
        starts
    }
}

fn put(elements: &mut [Datum], place: usize, value: &Datum) {
    if let Some(element) = elements.get_mut(place) {
        *element = value.clone();
    }
}
