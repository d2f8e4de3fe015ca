//! The session as a function that it calls sees it.

use std::sync::Mutex;

use evenkeel_types::{Datum, TypeContext};

use crate::error::ExprResult;
use crate::generator::RandomState;

/// The session of a call.
pub trait Session: Send + Sync {
    /// Settings that text forms depend on, the zone, and the start of the transaction.
    fn types(&self) -> &TypeContext;
    /// The start of the statement, microseconds since 1970 UTC.
    fn statement_start(&self) -> i64;
    /// Asks whether there is room for a value that is about to be made; charges nothing.
    ///
    /// # Errors
    /// 54000, 53200.
    fn reserve(&self, bytes: usize) -> ExprResult<()>;
    /// Charges bytes of a value that an evaluation holds, until as many are released.
    ///
    /// # Errors
    /// 53200; nothing is charged then.
    fn hold(&self, bytes: usize) -> ExprResult<()>;
    /// Ends a charge of [`Session::hold`].
    fn release(&self, bytes: usize);
    /// The state of the session's random numbers; `None` shares one with others, which no seed
    /// sets.
    fn random_state(&self) -> Option<&Mutex<RandomState>> {
        None
    }
    /// 57014 when the statement is to end; asked by loops that may be long.
    ///
    /// # Errors
    /// 57014.
    fn check_cancel(&self) -> ExprResult<()>;
    /// Answers a function about the session, the catalog or the server (`current_user`,
    /// `pg_get_indexdef`, `current_setting`, `to_regclass`, …), by its oid in `pg_proc`.
    ///
    /// # Errors
    /// Those of the function; 0A000 where it is not built.
    fn system_call(&self, oid: u32, args: &[Datum]) -> ExprResult<Datum>;
}
