//! Long computations, which may be ended between two of their steps.

use std::cell::Cell;

use crate::error::TypeResult;

/// Steps, products of two digits, between two questions.
const PORTION: usize = 64 << 10;

/// Counts the steps of a computation, and asks now and then whether it is to go on.
pub struct Work<'w> {
    ask: Option<&'w dyn Fn() -> TypeResult<()>>,
    left: Cell<usize>,
}

impl<'w> Work<'w> {
    /// A computation that is not ended.
    #[inline]
    #[must_use]
    pub fn unasked() -> Work<'static> {
        Work {
            ask: None,
            left: Cell::new(PORTION),
        }
    }

    /// One that ends with the error of `ask`.
    #[inline]
    pub fn asking(ask: &'w dyn Fn() -> TypeResult<()>) -> Work<'w> {
        Work {
            ask: Some(ask),
            left: Cell::new(PORTION),
        }
    }

    /// Counts steps. Errors: those of the question.
    #[inline]
    pub(super) fn step(&self, steps: usize) -> TypeResult<()> {
        let left = self.left.get();
        if steps < left {
            self.left.set(left - steps);
            return Ok(());
        }
        self.left.set(PORTION);
        self.ask.map_or(Ok(()), |ask| ask())
    }
}
