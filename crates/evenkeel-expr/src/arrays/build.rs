//! Functions that make an array of another one.

use std::cmp::Ordering;

use evenkeel_types::{
    ArrayValue, Datum, Dimension, MAX_ARRAY_SIZE, MAX_DIMENSIONS, SqlState, TypeError, TypeResult,
};

use super::{null_not_allowed, subscript_error};
use crate::call::Call;
use crate::memory::{nested_bytes, too_many};
use crate::pace::{VALUE_STEPS, sort_paced};
use crate::random;

/// Copies of elements.
fn copies<'d>(
    call: &Call<'_>,
    elements: impl Iterator<Item = &'d Datum> + Clone,
) -> TypeResult<Vec<Datum>> {
    let (count, bytes) = sizes(call, elements.clone())?;
    call.room_of_values(count, bytes)?;
    let mut copies = Vec::with_capacity(count);
    let mut pace = call.pace();
    for element in elements {
        copies.push(element.clone());
        pace.step(VALUE_STEPS)?;
    }
    Ok(copies)
}

/// How many elements there are, and the bytes that they hold.
fn sizes<'d>(
    call: &Call<'_>,
    elements: impl Iterator<Item = &'d Datum>,
) -> TypeResult<(usize, usize)> {
    let (mut count, mut bytes, mut pace) = (0, 0usize, call.pace());
    for element in elements {
        pace.step(1)?;
        count += 1;
        bytes = bytes.saturating_add(nested_bytes(element));
    }
    Ok((count, bytes))
}

fn made(dimensions: &[Dimension], elements: Vec<Datum>) -> TypeResult<Datum> {
    Ok(Datum::Array(ArrayValue::new(dimensions, elements)?.into()))
}

/// The one dimension of an array that takes an element more.
fn only_dimension(array: &ArrayValue) -> TypeResult<Dimension> {
    match array.dimensions() {
        [] => Ok(Dimension {
            length: 0,
            lower: 1,
        }),
        [dimension] => Ok(*dimension),
        _ => Err(TypeError::new(
            SqlState::DATA_EXCEPTION,
            "argument must be empty or one-dimensional array",
        )),
    }
}

fn longer(dimension: Dimension) -> TypeResult<[Dimension; 1]> {
    let length = dimension.length.checked_add(1).ok_or_else(too_many)?;
    Ok([Dimension {
        length,
        ..dimension
    }])
}

fn integer_out_of_range() -> TypeError {
    TypeError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range")
}

/// `array_append(anycompatiblearray, anycompatible)`; a NULL array is an empty one.
pub fn append(call: &Call<'_>) -> TypeResult<Datum> {
    let array = call.array(0);
    let dimension = only_dimension(array)?;
    if dimension.upper() == i32::MAX {
        return Err(integer_out_of_range());
    }
    let elements = copies(call, array.elements().iter().chain([call.arg(1)]))?;
    made(&longer(dimension)?, elements)
}

/// `array_prepend(anycompatible, anycompatiblearray)`; the lower bound stays.
pub fn prepend(call: &Call<'_>) -> TypeResult<Datum> {
    let array = call.array(1);
    let dimension = only_dimension(array)?;
    if dimension.lower == i32::MIN {
        return Err(integer_out_of_range());
    }
    let elements = copies(call, [call.arg(0)].into_iter().chain(array.elements()))?;
    made(&longer(dimension)?, elements)
}

/// `array_cat(anycompatiblearray, anycompatiblearray)`: end to end, or the one as a further part of
/// the other.
pub fn concatenate(call: &Call<'_>) -> TypeResult<Datum> {
    if call.is_null(0) || call.array(0).is_empty() && !call.is_null(1) {
        return Ok(call.arg(1).clone());
    }
    if call.is_null(1) || call.array(1).is_empty() {
        return Ok(call.arg(0).clone());
    }
    let (left, right) = (call.array(0), call.array(1));
    let (of_left, of_right) = (left.dimensions(), right.dimensions());
    let refused = |detail: String| {
        Err(subscript_error("cannot concatenate incompatible arrays").detail(detail))
    };
    let (outer, more, inner) = match of_left.len().cmp(&of_right.len()) {
        Ordering::Equal => (of_left, of_right[0].length, [&of_left[1..], &of_right[1..]]),
        Ordering::Greater if of_left.len() == of_right.len() + 1 => {
            (of_left, 1, [&of_left[1..], of_right])
        }
        Ordering::Less if of_left.len() + 1 == of_right.len() => {
            (of_right, 1, [of_left, &of_right[1..]])
        }
        _ => {
            return refused(format!(
                "Arrays of {} and {} dimensions are not compatible for concatenation.",
                of_left.len(),
                of_right.len()
            ));
        }
    };
    if inner[0] != inner[1] {
        let element = if of_left.len() == of_right.len() {
            "element "
        } else {
            ""
        };
        return refused(format!(
            "Arrays with differing {element}dimensions are not compatible for concatenation."
        ));
    }
    let mut dimensions = outer.to_vec();
    let length = dimensions[0].length.checked_add(more);
    dimensions[0].length = length.ok_or_else(too_many)?;
    let elements = left.elements().iter().chain(right.elements());
    made(&dimensions, copies(call, elements)?)
}

/// The numbers of an argument of `array_fill`.
fn numbers(call: &Call<'_>, at: usize) -> TypeResult<Vec<i32>> {
    if call.is_null(at) {
        return Err(null_not_allowed(
            "dimension array or low bound array cannot be null",
        ));
    }
    let array = call.array(at);
    if array.dimensions().len() > 1 {
        return Err(subscript_error("wrong number of array subscripts")
            .detail("Dimension array must be one dimensional."));
    }
    let number = |value: &Datum| match value {
        Datum::Int4(number) => Ok(*number),
        _ => Err(null_not_allowed("dimension values cannot be null")),
    };
    array.elements().iter().map(number).collect()
}

/// `array_fill(anyelement, integer[] [, integer[]])`
pub fn fill(call: &Call<'_>) -> TypeResult<Datum> {
    let lowers = (call.args.len() > 2)
        .then(|| numbers(call, 2))
        .transpose()?;
    let lengths = numbers(call, 1)?;
    if lengths.len() > MAX_DIMENSIONS {
        return Err(TypeError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({MAX_DIMENSIONS})",
                lengths.len()
            ),
        ));
    }
    let lowers = lowers.unwrap_or_else(|| vec![1; lengths.len()]);
    if lowers.len() != lengths.len() {
        return Err(subscript_error("wrong number of array subscripts")
            .detail("Low bound array has different size than dimensions array."));
    }
    let mut count = 1usize;
    for length in &lengths {
        let length = usize::try_from(*length).map_err(|_| too_many())?;
        let product = count.checked_mul(length);
        count = product
            .filter(|count| *count <= MAX_ARRAY_SIZE)
            .ok_or_else(too_many)?;
    }
    if lengths.is_empty() || count == 0 {
        return Ok(Datum::array(Vec::new()));
    }
    let pairs = lengths.iter().zip(&lowers);
    let dimension = |(length, lower): (&i32, &i32)| Dimension {
        length: *length,
        lower: *lower,
    };
    let dimensions: Vec<Dimension> = pairs.map(dimension).collect();
    let value = call.arg(0);
    call.room_of_values(count, nested_bytes(value).saturating_mul(count))?;
    let (mut elements, mut pace) = (Vec::with_capacity(count), call.pace());
    for _ in 0..count {
        elements.push(value.clone());
        pace.step(VALUE_STEPS)?;
    }
    made(&dimensions, elements)
}

/// `trim_array(anyarray, integer)`: without so many of the last elements.
pub fn trim(call: &Call<'_>) -> TypeResult<Datum> {
    let array = call.array(0);
    let first = array.dimensions().first();
    let length = first.map_or(0, |dimension| dimension.length);
    let trimmed = call.int4(1)?;
    if !(0..=length).contains(&trimmed) {
        return Err(subscript_error(format!(
            "number of elements to trim must be between 0 and {length}"
        )));
    }
    let Some(first) = first else {
        return Ok(call.arg(0).clone());
    };
    // Of an array that begins with the least subscript nothing may stay; no subscript is below.
    if trimmed == length {
        return Ok(Datum::array(Vec::new()));
    }
    let (count, bytes) = sizes(call, array.elements().iter())?;
    call.room_of_values(count, bytes)?;
    let slice = array.slice(&[(None, Some(first.upper() - trimmed))]);
    Ok(Datum::Array(slice.into()))
}

/// `array_remove(anycompatiblearray, anycompatible)`
pub fn remove(call: &Call<'_>) -> TypeResult<Datum> {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let array = call.array(0);
    let dimension = match array.dimensions() {
        [] => return Ok(call.arg(0).clone()),
        [dimension] => *dimension,
        _ => {
            return Err(TypeError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "removing elements from multidimensional arrays is not supported",
            ));
        }
    };
    let removed = call.arg(1);
    let mut pace = call.pace();
    let mut kept = Vec::new();
    for value in array.elements() {
        pace.step(VALUE_STEPS)?;
        if !value.equals(removed) {
            kept.push(value);
        }
    }
    let kept = copies(call, kept.into_iter())?;
    let length = i32::try_from(kept.len()).unwrap_or(i32::MAX);
    let dimension = Dimension {
        length,
        ..dimension
    };
    made(&[dimension], kept)
}

/// `array_replace(anycompatiblearray, anycompatible, anycompatible)`
pub fn replace(call: &Call<'_>) -> TypeResult<Datum> {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let array = call.array(0);
    let (from, to) = (call.arg(1), call.arg(2));
    let elements = array.elements().iter();
    let mut pace = call.pace();
    let mut replaced = Vec::with_capacity(elements.len());
    for value in elements {
        pace.step(VALUE_STEPS)?;
        replaced.push(if value.equals(from) { to } else { value });
    }
    made(array.dimensions(), copies(call, replaced.into_iter())?)
}

/// The elements, or the parts along the first dimension.
fn parts(array: &ArrayValue) -> impl DoubleEndedIterator<Item = &[Datum]> + ExactSizeIterator {
    let inner = array.dimensions().iter().skip(1);
    let size = inner.fold(1usize, |size, dimension| {
        size.saturating_mul(usize::try_from(dimension.length).unwrap_or(1))
    });
    array.elements().chunks(size.max(1))
}

/// `array_reverse(anyarray)`, along the first dimension.
pub fn reverse(call: &Call<'_>) -> TypeResult<Datum> {
    let array = call.array(0);
    let reversed: Vec<&[Datum]> = parts(array).rev().collect();
    made(
        array.dimensions(),
        copies(call, reversed.into_iter().flatten())?,
    )
}

fn compare_parts(a: &[Datum], b: &[Datum]) -> Ordering {
    let mut orders = a.iter().zip(b).map(|(a, b)| a.compare(b));
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// `array_sort(anyarray [, descending [, nulls_first]])`, along the first dimension. NULLs come
/// last, or of a descending order first, if nothing is said.
pub fn sort(call: &Call<'_>) -> TypeResult<Datum> {
    let array = call.array(0);
    let descending = call.flag(1);
    let nulls_first = if call.args.len() > 2 {
        call.flag(2)
    } else {
        descending
    };
    let mut sorted: Vec<&[Datum]> = parts(array).collect();
    let order = |a: &&[Datum], b: &&[Datum]| {
        let null = |part: &[Datum]| matches!(part, [Datum::Null]);
        match (null(a), null(b)) {
            (false, false) if descending => compare_parts(b, a),
            (false, false) => compare_parts(a, b),
            (a, b) if nulls_first => b.cmp(&a),
            (a, b) => a.cmp(&b),
        }
    };
    sort_paced(&mut sorted, order, &mut call.pace())?;
    made(
        array.dimensions(),
        copies(call, sorted.into_iter().flatten())?,
    )
}

/// The first `count` parts of a random order, which as in PostgreSQL no seed sets.
fn drawn(array: &ArrayValue, count: usize) -> Vec<&[Datum]> {
    let mut all: Vec<&[Datum]> = parts(array).collect();
    let last = all.len().saturating_sub(1);
    random::unseeded(|state| {
        for at in 0..count.min(last) {
            // Lengths of arrays are integers.
            let other = state.between(at as i64, last as i64);
            all.swap(at, usize::try_from(other).unwrap_or(at));
        }
    });
    all.truncate(count);
    all
}

/// `array_shuffle(anyarray)`
pub fn shuffle(call: &Call<'_>) -> TypeResult<Datum> {
    let array = call.array(0);
    let shuffled = drawn(array, parts(array).len());
    made(
        array.dimensions(),
        copies(call, shuffled.into_iter().flatten())?,
    )
}

/// `array_sample(anyarray, integer)`
pub fn sample(call: &Call<'_>) -> TypeResult<Datum> {
    let array = call.array(0);
    let length = parts(array).len();
    let count = usize::try_from(call.int4(1)?).ok();
    let Some(count) = count.filter(|count| *count <= length) else {
        return Err(TypeError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("sample size must be between 0 and {length}"),
        ));
    };
    let mut dimensions = array.dimensions().to_vec();
    if let Some(first) = dimensions.first_mut() {
        *first = Dimension {
            length: i32::try_from(count).unwrap_or(i32::MAX),
            lower: 1,
        };
    }
    let sample = drawn(array, count);
    made(&dimensions, copies(call, sample.into_iter().flatten())?)
}
