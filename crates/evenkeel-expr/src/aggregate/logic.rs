//! `bool_and`, `bool_or`.

use evenkeel_types::{Datum, TypeResult};

use super::{no_value, no_value_removed};
use crate::call::Session;
use crate::proc::Accumulator;

/// Counts of the values that are not NULL and of those that are true.
#[derive(Debug)]
pub(super) struct Logic {
    values: u64,
    truths: u64,
    any: bool,
}

impl Logic {
    /// `bool_and`
    pub(super) fn all() -> Logic {
        Logic {
            values: 0,
            truths: 0,
            any: false,
        }
    }

    /// `bool_or`
    pub(super) fn any() -> Logic {
        Logic {
            any: true,
            ..Logic::all()
        }
    }
}

impl Accumulator for Logic {
    fn add(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<()> {
        let [Datum::Bool(value)] = args else {
            return no_value(args);
        };
        self.values += 1;
        self.truths += u64::from(*value);
        Ok(())
    }

    fn remove(&mut self, args: &[Datum], _session: &dyn Session) -> TypeResult<bool> {
        let [Datum::Bool(value)] = args else {
            return no_value_removed(args);
        };
        self.values -= 1;
        self.truths -= u64::from(*value);
        Ok(true)
    }

    fn value(&self, _session: &dyn Session) -> TypeResult<Datum> {
        Ok(match (self.values, self.any) {
            (0, _) => Datum::Null,
            (_, true) => Datum::Bool(self.truths > 0),
            (values, false) => Datum::Bool(self.truths == values),
        })
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}
