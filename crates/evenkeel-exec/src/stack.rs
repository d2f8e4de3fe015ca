//! Room on the stack for functions that recurse over a plan, whose depth a client chooses.

/// Stack that is left where no more is added: enough for the levels of a plan between two looks.
const ENOUGH_BYTES: usize = 256 << 10;
/// Stack that is added.
const STACK_BYTES: usize = 2 << 20;

/// Runs `work` where the stack has room for some levels of a plan.
pub(crate) fn with_room<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ENOUGH_BYTES, STACK_BYTES, work)
}
