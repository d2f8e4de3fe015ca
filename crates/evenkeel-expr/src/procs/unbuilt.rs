//! The names of PostgreSQL's functions that are not built, so that a call of one is refused by
//! its name (0A000) and a misspelt name is not (42883).

use std::collections::HashSet;
use std::sync::LazyLock;

/// A name a line, as `SELECT DISTINCT proname FROM pg_proc` of PostgreSQL 18 gives them.
const NAMES: &str = include_str!("unbuilt.txt");

static UNBUILT: LazyLock<HashSet<&str>> = LazyLock::new(|| NAMES.lines().collect());

/// Whether PostgreSQL has functions of this name, of which none is built.
pub fn is_unbuilt(name: &str) -> bool {
    UNBUILT.contains(name)
}

#[cfg(test)]
mod tests {
    use super::NAMES;
    use crate::procs::procs_named;

    #[test]
    fn no_name_that_is_listed_as_unbuilt_is_built() {
        let built = NAMES.lines().filter(|name| !procs_named(name).is_empty());
        assert_eq!(built.collect::<Vec<_>>(), Vec::<&str>::new());
        assert!(NAMES.lines().is_sorted());
    }
}
