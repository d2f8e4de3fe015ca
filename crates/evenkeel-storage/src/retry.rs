//! Reads that a device fails for a moment.

/// How often a read is attempted in all before its failure counts as damage.
const ATTEMPTS: usize = 3;

/// Repeats a read that failed in a way that may pass.
pub(crate) fn attempts<T, E>(
    may_pass: impl Fn(&E) -> bool,
    mut read: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..ATTEMPTS {
        match read() {
            Err(error) if may_pass(&error) => {}
            done => return done,
        }
    }
    read()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passing_fault_is_no_failure_and_a_lasting_one_is_found_out_soon() {
        let reads = |failing: usize, may_pass: bool| {
            let mut read = 0;
            let result = attempts(
                |()| may_pass,
                || {
                    read += 1;
                    if read > failing { Ok(read) } else { Err(()) }
                },
            );
            (result, read)
        };
        assert_eq!(reads(0, true), (Ok(1), 1));
        assert_eq!(reads(2, true), (Ok(3), 3));
        assert_eq!(reads(3, true), (Err(()), 3));
        assert_eq!(reads(1, false), (Err(()), 1));
    }
}
