//! Arrays in programs: constructors, subscripts, slices, `ANY` and `ALL`.

use evenkeel_types::{
    ArrayValue, AssignedPart, Datum, Dimension, MAX_DIMENSIONS, SqlState, TypeError,
};
use smallvec::SmallVec;

use super::Env;
use crate::casts;
use crate::error::{self, ExprResult};
use crate::json;
use crate::memory::{Charge, LARGE};
use crate::pace::Pace;
use crate::proc::Proc;
use crate::program::{PartAssignment, Program};

/// Bytes of a `name`, those behind its end included.
const NAME_LENGTH: i32 = 64;

impl Env<'_> {
    pub(super) fn any_all(
        &self,
        proc: &'static Proc,
        all: bool,
        args: &[Program; 2],
        row: &[Datum],
    ) -> ExprResult<Datum> {
        let (mut left, mut right) = (self.space(), self.space());
        let left = self.arg(&args[0], row, &mut left)?;
        let right = self.arg(&args[1], row, &mut right)?;
        let Datum::Array(array) = right else {
            return match right {
                Datum::Null => Ok(Datum::Null),
                _ => Err(error::internal("ANY or ALL of a value that is no array")),
            };
        };
        let mut unknown = false;
        let mut pace = Pace::new(self.session);
        for element in array.elements() {
            pace.step(1)?;
            match self.boolean(proc, left, element)? {
                Some(truth) if truth != all => return Ok(Datum::Bool(truth)),
                Some(_) => {}
                None => unknown = true,
            }
        }
        Ok(if unknown {
            Datum::Null
        } else {
            Datum::Bool(all)
        })
    }

    pub(super) fn array(
        &self,
        nested: bool,
        items: &[Program],
        row: &[Datum],
    ) -> ExprResult<Datum> {
        let values = self.values(items, row)?;
        if nested {
            let parts = values.iter().filter_map(Datum::as_array);
            let count = parts.map(|part| part.elements().len()).sum::<usize>();
            if count > LARGE / size_of::<Datum>() {
                self.session.reserve(count * size_of::<Datum>())?;
            }
            return self.made(joined(&values));
        }
        Ok(Datum::array(values))
    }

    /// The values of programs, which are held together.
    pub(super) fn values(&self, programs: &[Program], row: &[Datum]) -> ExprResult<Vec<Datum>> {
        let mut charge = Charge::new(self.session);
        let mut values = Vec::with_capacity(programs.len());
        for program in programs {
            let value = self.eval(program, row)?;
            charge.add(&value)?;
            values.push(value);
        }
        Ok(values)
    }

    /// Subscripts or bounds as numbers; `None` where one is NULL.
    fn index(&self, program: &Program, row: &[Datum]) -> ExprResult<Option<i32>> {
        let mut space = self.space();
        match self.arg(program, row, &mut space)? {
            Datum::Int4(index) => Ok(Some(*index)),
            Datum::Null => Ok(None),
            _ => Err(error::internal("a subscript is not an integer")),
        }
    }

    pub(super) fn subscript(
        &self,
        array: &Program,
        indexes: &[Program],
        row: &[Datum],
    ) -> ExprResult<Datum> {
        let mut space = self.space();
        let array = self.arg(array, row, &mut space)?;
        let mut at: SmallVec<[i32; MAX_DIMENSIONS]> = SmallVec::new();
        for index in indexes {
            match self.index(index, row)? {
                Some(index) => at.push(index),
                None => return Ok(Datum::Null),
            }
        }
        match array {
            Datum::Null => Ok(Datum::Null),
            Datum::Array(array) => self.made(Ok(array.get(&at).cloned().unwrap_or(Datum::Null))),
            // A name: its bytes from 0, with zeros up to its length.
            Datum::Text(name) => match at.as_slice() {
                [at @ 0..NAME_LENGTH] => {
                    let byte = usize::try_from(*at)
                        .ok()
                        .and_then(|at| name.as_bytes().get(at));
                    Ok(casts::char_of(byte.copied().unwrap_or(0)))
                }
                _ => Ok(Datum::Null),
            },
            _ => Err(error::unsupported(
                "a subscript of a value of this type is not supported",
            )),
        }
    }

    pub(super) fn slice(
        &self,
        array: &Program,
        ranges: &[(Option<Program>, Option<Program>)],
        row: &[Datum],
    ) -> ExprResult<Datum> {
        let mut space = self.space();
        let array = self.arg(array, row, &mut space)?;
        let mut bounds: SmallVec<[(Option<i32>, Option<i32>); MAX_DIMENSIONS]> = SmallVec::new();
        for (low, high) in ranges {
            let mut ends = [None, None];
            for (end, given) in ends.iter_mut().zip([low, high]) {
                if let Some(given) = given {
                    *end = self.index(given, row)?;
                    if end.is_none() {
                        return Ok(Datum::Null);
                    }
                }
            }
            bounds.push((ends[0], ends[1]));
        }
        match array {
            Datum::Null => Ok(Datum::Null),
            Datum::Array(array) => self.made(Ok(Datum::Array(array.slice(&bounds).into()))),
            _ => Err(error::unsupported(
                "slices of fixed-length arrays not implemented",
            )),
        }
    }

    pub(super) fn assign_part(
        &self,
        assignment: &PartAssignment,
        row: &[Datum],
    ) -> ExprResult<Datum> {
        if let Some(by_index) = assignment.json {
            return self.assign_json(assignment, by_index, row);
        }
        let (mut space, mut value_space) = (self.space(), self.space());
        let array = self.arg(&assignment.array, row, &mut space)?;
        let empty = ArrayValue::default();
        let array = array.as_array().unwrap_or(&empty);
        let mut ends: SmallVec<[(Option<i32>, Option<i32>); MAX_DIMENSIONS]> = SmallVec::new();
        for (low, high) in &assignment.ranges {
            let end = |end: &Option<Program>| match end {
                None => Ok(None),
                Some(end) => self.index(end, row)?.map(Some).ok_or_else(|| {
                    let message = "array subscript in assignment must not be null";
                    TypeError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)
                }),
            };
            ends.push((end(low)?, end(high)?));
        }
        let value = self.arg(&assignment.value, row, &mut value_space)?;
        let (part, values) = match (assignment.slice, value) {
            (false, value) => {
                let at = ends.iter().filter_map(|(_, at)| *at);
                let at: SmallVec<[i32; MAX_DIMENSIONS]> = at.collect();
                (
                    AssignedPart::element(array, &at)?,
                    std::slice::from_ref(value),
                )
            }
            (true, Datum::Array(values)) => (AssignedPart::slice(array, &ends)?, values.elements()),
            (true, _) => return Ok(Datum::Array(array.clone().into())),
        };
        let bytes = part.elements() * (size_of::<Datum>() + size_of::<usize>());
        if bytes > LARGE {
            self.session.reserve(bytes)?;
        }
        self.made(Ok(Datum::Array(part.assign(array, values)?.into())))
    }

    fn assign_json(
        &self,
        assignment: &PartAssignment,
        by_index: bool,
        row: &[Datum],
    ) -> ExprResult<Datum> {
        let mut path = Vec::with_capacity(assignment.ranges.len());
        for step in assignment
            .ranges
            .iter()
            .filter_map(|(_, step)| step.as_ref())
        {
            path.push(match self.eval(step, row)? {
                Datum::Text(name) => name,
                Datum::Int4(index) => index.to_string(),
                _ => {
                    let message = "jsonb subscript in assignment must not be null";
                    return Err(TypeError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
                }
            });
        }
        let path: Vec<Option<&str>> = path.iter().map(|step| Some(step.as_str())).collect();
        let (mut space, mut value_space) = (self.space(), self.space());
        let json = self.arg(&assignment.array, row, &mut space)?;
        let value = self.arg(&assignment.value, row, &mut value_space)?;
        self.made(json::assign(self.session, (json, by_index), &path, value))
    }
}

/// An array of arrays, which have one shape.
fn joined(items: &[Datum]) -> ExprResult<Datum> {
    let refused = || {
        let message =
            "multidimensional arrays must have array expressions with matching dimensions";
        error::subscript(message)
    };
    let empty = ArrayValue::default();
    let mut arrays = items.iter().map(|item| item.as_array().unwrap_or(&empty));
    let Some(first) = arrays.next().map(ArrayValue::dimensions) else {
        return Ok(Datum::array(Vec::new()));
    };
    if arrays.any(|array| array.dimensions() != first) {
        return Err(refused());
    }
    if first.is_empty() {
        return Ok(Datum::array(Vec::new()));
    }
    if first.len() >= MAX_DIMENSIONS {
        return Err(error::too_large(format!(
            "number of array dimensions ({}) exceeds the maximum allowed ({MAX_DIMENSIONS})",
            first.len() + 1
        )));
    }
    let mut dimensions: SmallVec<[Dimension; MAX_DIMENSIONS]> = SmallVec::new();
    dimensions.push(Dimension {
        length: i32::try_from(items.len()).unwrap_or(i32::MAX),
        lower: 1,
    });
    dimensions.extend_from_slice(first);
    let elements = items
        .iter()
        .filter_map(Datum::as_array)
        .flat_map(|array| array.elements().iter().cloned())
        .collect();
    Ok(Datum::Array(ArrayValue::new(&dimensions, elements)?.into()))
}
