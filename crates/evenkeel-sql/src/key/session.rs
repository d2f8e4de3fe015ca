//! The session under which index keys are computed: the same for all, since expressions of indexes
//! are immutable.

use std::sync::LazyLock;

use evenkeel_expr::ExprResult;
use evenkeel_expr::call::Session;
use evenkeel_types::{Datum, SqlState, TypeContext, TypeError};

/// Default settings, and no catalog.
pub(crate) struct IndexSession {
    types: TypeContext,
}

/// The one of the process.
pub(crate) static INDEX_SESSION: LazyLock<IndexSession> = LazyLock::new(|| IndexSession {
    types: TypeContext::default(),
});

impl Session for IndexSession {
    fn types(&self) -> &TypeContext {
        &self.types
    }

    fn statement_start(&self) -> i64 {
        0
    }

    fn reserve(&self, bytes: usize) -> ExprResult<()> {
        allocated(bytes)
    }

    // A key is a page's fraction, and its parts are of one row: `reserve` bounds each.
    fn hold(&self, _bytes: usize) -> ExprResult<()> {
        Ok(())
    }

    fn release(&self, _bytes: usize) {}

    fn check_cancel(&self) -> ExprResult<()> {
        Ok(())
    }

    fn system_call(&self, oid: u32, _args: &[Datum]) -> ExprResult<Datum> {
        let message = format!("function {oid} in an index expression is not supported");
        Err(TypeError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }
}

/// The bytes of a value: PostgreSQL's `MaxAllocSize`.
const MAX_ALLOC: usize = 0x3fff_ffff;

/// Checks the length of a value before it is made; 54000 when it is too long.
pub(crate) fn allocated(bytes: usize) -> ExprResult<()> {
    if bytes <= MAX_ALLOC {
        return Ok(());
    }
    let message = format!("string buffer exceeds maximum allowed length ({MAX_ALLOC} bytes)");
    Err(TypeError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}
