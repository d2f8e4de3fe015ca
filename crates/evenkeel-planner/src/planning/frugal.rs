//! The session that constants are computed with: it refuses what is large or takes long. Its
//! refusals leave an expression as it is; no statement sees them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use evenkeel_expr::call::Session;
use evenkeel_expr::{ExprResult, LARGE, RandomState, nested_bytes};
use evenkeel_types::{Datum, TypeContext, TypeError};

/// Portions of work that the constants of a statement take in all: some milliseconds.
const PORTIONS: usize = 32;
/// Bytes of the constants that are computed for a statement.
const BYTES: usize = 1 << 20;

/// A session that gives little.
pub(super) struct Frugal<'s> {
    session: &'s dyn Session,
    portions: AtomicUsize,
    bytes: AtomicUsize,
    refused: AtomicBool,
}

fn take(left: &AtomicUsize, amount: usize) -> bool {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(amount)
    });
    taken.is_ok()
}

impl<'s> Frugal<'s> {
    /// For the constants of one statement.
    pub fn new(session: &'s dyn Session) -> Frugal<'s> {
        Frugal {
            session,
            portions: AtomicUsize::new(PORTIONS),
            bytes: AtomicUsize::new(BYTES),
            refused: AtomicBool::new(false),
        }
    }

    /// The value of a computation, if it is one to be kept in a plan.
    pub fn kept(&self, compute: impl FnOnce() -> ExprResult<Datum>) -> Option<Datum> {
        self.refused.store(false, Ordering::Relaxed);
        let value = compute().ok()?;
        // A function that catches errors has caught a refusal too.
        let refused = self.refused.load(Ordering::Relaxed);
        let bytes = nested_bytes(&value);
        (!refused && bytes <= LARGE && take(&self.bytes, bytes)).then_some(value)
    }

    fn refuse(&self) -> ExprResult<()> {
        self.refused.store(true, Ordering::Relaxed);
        Err(TypeError::internal("a constant is left to the execution"))
    }
}

impl Session for Frugal<'_> {
    fn types(&self) -> &TypeContext {
        self.session.types()
    }

    fn statement_start(&self) -> i64 {
        self.session.statement_start()
    }

    fn reserve(&self, bytes: usize) -> ExprResult<()> {
        match bytes > LARGE {
            true => self.refuse(),
            false => Ok(()),
        }
    }

    fn hold(&self, _: usize) -> ExprResult<()> {
        self.refuse()
    }

    fn release(&self, _: usize) {}

    fn random_state(&self) -> Option<&Mutex<RandomState>> {
        self.session.random_state()
    }

    fn check_cancel(&self) -> ExprResult<()> {
        match take(&self.portions, 1) {
            true => self.session.check_cancel(),
            false => self.refuse(),
        }
    }

    fn system_call(&self, oid: u32, args: &[Datum]) -> ExprResult<Datum> {
        self.session.system_call(oid, args)
    }
}
