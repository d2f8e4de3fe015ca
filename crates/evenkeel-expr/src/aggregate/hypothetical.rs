//! Hypothetical-set aggregates: the place that a row of the direct arguments would have among the
//! group's rows.

use std::cmp::Ordering;

use evenkeel_types::{Datum, TypeError, TypeResult};

use super::counts::heap_bytes;
use crate::call::Session;
use crate::proc::{Accumulator, AggregateTypes, NewOrderedSet, OrderedColumn, OrderedInput};

/// Which place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// One more than the rows before it.
    Rank,
    /// One more than the distinct rows before it.
    DenseRank,
    /// The share of the rows before it.
    PercentRank,
    /// The share of rows before it or equal to it, itself included.
    CumeDist,
}

/// The running count of rows before the hypothetical one.
#[derive(Debug)]
struct Hypothetical {
    place: Place,
    row: Vec<Datum>,
    order: Vec<OrderedColumn>,
    rows: u64,
    /// Rows, or for [`Place::DenseRank`] distinct rows, that count.
    before: u64,
    /// The last row that counted, for [`Place::DenseRank`].
    last: Option<Vec<Datum>>,
}

impl Hypothetical {
    /// The order of a row and the hypothetical one.
    fn compare(&self, row: &[Datum]) -> Ordering {
        let columns = row.iter().zip(&self.row).zip(&self.order);
        columns.fold(Ordering::Equal, |order, ((value, of), column)| {
            order.then_with(|| compare(value, of, *column))
        })
    }

    fn is_last(&self, row: &[Datum]) -> bool {
        let equal = |last: &Vec<Datum>| {
            let mut pairs = last.iter().zip(row);
            pairs.all(|(a, b)| a.compare(b) == Ordering::Equal)
        };
        self.last.as_ref().is_some_and(equal)
    }
}

fn compare(a: &Datum, b: &Datum, column: OrderedColumn) -> Ordering {
    let nulls = if column.nulls_first {
        Ordering::Less
    } else {
        Ordering::Greater
    };
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => nulls,
        (false, true) => nulls.reverse(),
        (false, false) if column.desc => b.compare(a),
        (false, false) => a.compare(b),
    }
}

impl Accumulator for Hypothetical {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let counts = match self.compare(args) {
            Ordering::Less => true,
            Ordering::Equal => self.place == Place::CumeDist,
            Ordering::Greater => false,
        };
        if !counts || self.place == Place::DenseRank && self.is_last(args) {
            return Ok(());
        }
        self.before += 1;
        if self.place == Place::DenseRank {
            self.last = Some(args.to_vec());
        }
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        let (before, rows) = (self.before as f64, self.rows as f64);
        Ok(match self.place {
            Place::Rank | Place::DenseRank => Datum::Int8(self.before.cast_signed() + 1),
            Place::PercentRank if self.rows == 0 => Datum::Float8(0.0),
            Place::PercentRank => Datum::Float8(before / rows),
            Place::CumeDist => Datum::Float8((before + 1.0) / (rows + 1.0)),
        })
    }

    fn bytes(&self) -> usize {
        let row = |row: &Vec<Datum>| {
            row.capacity() * size_of::<Datum>() + row.iter().map(heap_bytes).sum::<usize>()
        };
        size_of::<Self>() + row(&self.row) + self.last.as_ref().map_or(0, row)
    }
}

fn hypothetical(place: Place, input: &OrderedInput<'_>) -> TypeResult<Box<dyn Accumulator>> {
    if input.direct.len() != input.order.len() {
        return Err(TypeError::internal(
            "a hypothetical row has as many columns as the order",
        ));
    }
    Ok(Box::new(Hypothetical {
        place,
        row: input.direct.to_vec(),
        order: input.order.to_vec(),
        rows: input.rows,
        before: 0,
        last: None,
    }))
}

/// `rank(…) WITHIN GROUP`
pub(super) const RANK: NewOrderedSet =
    |_: &AggregateTypes<'_>, input| hypothetical(Place::Rank, input);
/// `dense_rank(…) WITHIN GROUP`
pub(super) const DENSE_RANK: NewOrderedSet = |_, input| hypothetical(Place::DenseRank, input);
/// `percent_rank(…) WITHIN GROUP`
pub(super) const PERCENT_RANK: NewOrderedSet = |_, input| hypothetical(Place::PercentRank, input);
/// `cume_dist(…) WITHIN GROUP`
pub(super) const CUME_DIST: NewOrderedSet = |_, input| hypothetical(Place::CumeDist, input);
