//! Ordered-set aggregates: `percentile_cont`, `percentile_disc`, `mode`. The number of rows is
//! known before the first, so only those that the answer needs are kept.

use std::cmp::Ordering;

use evenkeel_types::{ArrayValue, Datum, Dimension, SqlState, TypeError, TypeResult};

use super::counts::heap_bytes;
use crate::call::Session;
use crate::proc::{Accumulator, AggregateTypes, OrderedInput};

/// `mode`: the first of the values that occur most often.
#[derive(Debug, Default)]
pub(super) struct Mode {
    mode: Option<Datum>,
    frequency: u64,
    /// The first of the equal values that come now, and their number.
    run: Option<Datum>,
    length: u64,
    /// Whether `mode` is the value of `run`.
    run_is_mode: bool,
}

/// Begins a `mode`.
///
/// # Errors
/// None.
pub(super) fn mode(
    _types: &AggregateTypes<'_>,
    _input: &OrderedInput<'_>,
) -> TypeResult<Box<dyn Accumulator>> {
    Ok(Box::new(Mode::default()))
}

impl Accumulator for Mode {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [value] = args else {
            return Err(TypeError::internal("mode has one argument"));
        };
        match &self.run {
            Some(run) if run.compare(value) == Ordering::Equal => self.length += 1,
            _ => {
                self.run = Some(value.clone());
                self.length = 1;
                self.run_is_mode = false;
            }
        }
        if self.length > self.frequency {
            if !self.run_is_mode {
                self.mode.clone_from(&self.run);
                self.run_is_mode = true;
            }
            self.frequency = self.length;
        }
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(self.mode.clone().unwrap_or(Datum::Null))
    }

    fn bytes(&self) -> usize {
        let values = self.mode.iter().chain(&self.run);
        size_of::<Self>() + values.map(heap_bytes).sum::<usize>()
    }
}

/// The value of a percentile: one row's, or one between two rows'.
#[derive(Debug, Clone)]
struct Percentile {
    /// The row, from 0.
    row: u64,
    /// How far the value is from that row's to the next one's; 0 for the row's own.
    part: f64,
    low: Datum,
    high: Datum,
}

impl Percentile {
    fn discrete(percentile: f64, rows: u64) -> Percentile {
        let row = (percentile * rows as f64).ceil() as u64;
        Percentile {
            row: row.saturating_sub(1),
            part: 0.0,
            low: Datum::Null,
            high: Datum::Null,
        }
    }

    fn continuous(percentile: f64, rows: u64) -> Percentile {
        let place = percentile * rows.saturating_sub(1) as f64;
        Percentile {
            row: place.floor() as u64,
            part: place - place.floor(),
            low: Datum::Null,
            high: Datum::Null,
        }
    }

    fn add(&mut self, row: u64, value: &Datum) {
        if row == self.row {
            self.low = value.clone();
        } else if row == self.row + 1 && self.part > 0.0 {
            self.high = value.clone();
        }
    }

    fn value(&self) -> TypeResult<Datum> {
        if self.part == 0.0 {
            return Ok(self.low.clone());
        }
        Ok(match (&self.low, &self.high) {
            (Datum::Float8(low), Datum::Float8(high)) => {
                Datum::Float8(low + (self.part * (high - low)))
            }
            (Datum::Interval(low), Datum::Interval(high)) => {
                let distance = high.checked_sub(*low)?.checked_mul(self.part)?;
                Datum::Interval(distance.checked_add(*low)?)
            }
            _ => Datum::Null,
        })
    }
}

/// How the row of a percentile is found.
type Placed = fn(f64, u64) -> Percentile;

/// `percentile_cont` and `percentile_disc`, of one percentile or of an array of them.
#[derive(Debug)]
struct Percentiles {
    /// The next row's number.
    next: u64,
    /// `None` for one that is NULL.
    percentiles: Vec<Option<Percentile>>,
    /// Rows that are wanted, in order, each with the percentile that wants it.
    wanted: Vec<(u64, usize)>,
    /// How many of them have come.
    come: usize,
    /// The dimensions of an array of percentiles.
    dimensions: Option<Vec<Dimension>>,
}

impl Percentiles {
    fn new(percentiles: Vec<Option<Percentile>>, dimensions: Option<Vec<Dimension>>) -> Self {
        let rows = |(at, percentile): (usize, &Option<Percentile>)| {
            let of = percentile.as_ref();
            let low = of.map(|percentile| (percentile.row, at));
            let high = of.filter(|percentile| percentile.part > 0.0);
            [low, high.map(|percentile| (percentile.row + 1, at))]
        };
        let wanted = percentiles.iter().enumerate().flat_map(rows);
        let mut wanted: Vec<(u64, usize)> = wanted.flatten().collect();
        wanted.sort_unstable();
        Percentiles {
            next: 0,
            percentiles,
            wanted,
            come: 0,
            dimensions,
        }
    }
}

impl Accumulator for Percentiles {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [value] = args else {
            return Err(TypeError::internal("a percentile is of one value"));
        };
        while let Some((row, at)) = self.wanted.get(self.come)
            && *row == self.next
        {
            if let Some(percentile) = &mut self.percentiles[*at] {
                percentile.add(self.next, value);
            }
            self.come += 1;
        }
        self.next += 1;
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        let values = self.percentiles.iter().map(|percentile| {
            percentile
                .as_ref()
                .map_or(Ok(Datum::Null), Percentile::value)
        });
        let mut values: Vec<Datum> = values.collect::<TypeResult<_>>()?;
        match &self.dimensions {
            Some(dimensions) => Ok(Datum::Array(ArrayValue::new(dimensions, values)?.into())),
            None => Ok(values.pop().unwrap_or(Datum::Null)),
        }
    }

    fn bytes(&self) -> usize {
        let percentiles = self.percentiles.iter().flatten();
        let values = percentiles.flat_map(|percentile| [&percentile.low, &percentile.high]);
        size_of::<Self>()
            + self.percentiles.capacity() * size_of::<Option<Percentile>>()
            + self.wanted.capacity() * size_of::<(u64, usize)>()
            + values.map(heap_bytes).sum::<usize>()
    }
}

fn checked(percentile: f64) -> TypeResult<f64> {
    if (0.0..=1.0).contains(&percentile) {
        return Ok(percentile);
    }
    Err(TypeError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!(
            "percentile value {} is not between 0 and 1",
            general(percentile)
        ),
    ))
}

/// A number as C's `%g` prints it: six significant digits, without zeros at the end.
fn general(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

fn begin(input: &OrderedInput<'_>, placed: Placed) -> TypeResult<Box<dyn Accumulator>> {
    let place = |percentile: &Datum| match percentile {
        Datum::Float8(percentile) => checked(*percentile)
            .map(|percentile| (input.rows > 0).then(|| placed(percentile, input.rows))),
        _ => Ok(None),
    };
    Ok(Box::new(match input.direct {
        // Without rows an array's percentiles are not even looked at.
        [Datum::Array(array)] if input.rows > 0 => {
            let percentiles = array.elements().iter().map(place);
            Percentiles::new(
                percentiles.collect::<TypeResult<_>>()?,
                Some(array.dimensions().to_vec()),
            )
        }
        [percentile @ Datum::Float8(_)] => Percentiles::new(vec![place(percentile)?], None),
        _ => Percentiles::new(Vec::new(), None),
    }))
}

/// Begins a `percentile_disc`.
///
/// # Errors
/// 22003 for a percentile beyond 0 and 1.
pub(super) fn discrete(
    _types: &AggregateTypes<'_>,
    input: &OrderedInput<'_>,
) -> TypeResult<Box<dyn Accumulator>> {
    begin(input, Percentile::discrete)
}

/// Begins a `percentile_cont`.
///
/// # Errors
/// As [`discrete`].
pub(super) fn continuous(
    _types: &AggregateTypes<'_>,
    input: &OrderedInput<'_>,
) -> TypeResult<Box<dyn Accumulator>> {
    begin(input, Percentile::continuous)
}
