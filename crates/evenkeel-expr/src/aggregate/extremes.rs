//! `min`, `max`.

use std::cmp::Ordering;

use evenkeel_types::{Datum, TypeError, TypeResult};

use super::counts::heap_bytes;
use crate::call::Session;
use crate::proc::Accumulator;

/// The least or greatest value, by the order of its type.
#[derive(Debug)]
pub(super) struct Extreme {
    value: Option<Datum>,
    /// How the value that is kept compares with one that does not replace it.
    kept: Ordering,
}

impl Extreme {
    /// `min`
    pub(super) fn least() -> Extreme {
        Extreme {
            value: None,
            kept: Ordering::Less,
        }
    }

    /// `max`
    pub(super) fn greatest() -> Extreme {
        Extreme {
            value: None,
            kept: Ordering::Greater,
        }
    }
}

/// Whether equal values of the type may differ: 0 and -0, 1.0 and 1.00. Of those PostgreSQL returns
/// the last; of `bpchar` the first.
fn equal_values_differ(value: &Datum) -> bool {
    !matches!(value, Datum::Text(_) | Datum::Char(_) | Datum::Bytea(_))
}

/// The order of two values; 42804 for rows of different types.
#[inline]
fn order(kept: &Datum, value: &Datum) -> TypeResult<Ordering> {
    match (kept, value) {
        (Datum::Record(kept), Datum::Record(value)) => kept.compare_checked(value),
        _ => Ok(kept.compare(value)),
    }
}

impl Accumulator for Extreme {
    #[inline]
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [value] = args else {
            return Err(TypeError::internal("min and max have one argument"));
        };
        if value.is_null() {
            return Ok(());
        }
        let order = self.value.as_ref().map(|kept| order(kept, value));
        let replaced = match order.transpose()? {
            Some(Ordering::Equal) => equal_values_differ(value),
            Some(order) => order != self.kept,
            None => true,
        };
        if replaced {
            self.value = Some(value.clone());
        }
        Ok(())
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(self.value.clone().unwrap_or(Datum::Null))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.value.as_ref().map_or(0, heap_bytes)
    }
}
