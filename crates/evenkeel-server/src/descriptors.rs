//! How the process's open files are shared out between connections and data.

/// Files that the log, the double-write area, the control file, directories, listening sockets, the
/// runtime, sorts and spilled hash tables need at once.
const OTHERS: usize = 64;

/// How many of the files that the process may have open are for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Data files.
    pub data_files: usize,
    /// Sessions, at most `max_connections`.
    pub sessions: usize,
    /// Connections that are not sessions yet: those that cancel, and that have not said yet who
    /// they are.
    pub pending: usize,
}

impl Descriptors {
    /// Shares out `limit` open files among `max_connections` sessions and the data. Where that is
    /// too little connections get two thirds of what is left after `OTHERS`. As many connections
    /// as sessions may be under way to be one, so that many clients can come at once.
    #[must_use]
    pub fn share(limit: Option<u64>, max_connections: usize) -> Descriptors {
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let left = limit.map_or(usize::MAX, |limit| limit.saturating_sub(OTHERS));
        let sockets = left / 3 * 2;
        let pending = max_connections.min(sockets / 4).max(1);
        let sessions = max_connections.min(sockets.saturating_sub(pending)).max(1);
        Descriptors {
            data_files: left.saturating_sub(sessions + pending),
            sessions,
            pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_and_data_files_fit_into_the_limit_whatever_it_is() {
        for limit in [0, 64, 100, 256, 1024, 4096, 1 << 20] {
            for connections in [1, 100, 1000, 100_000] {
                let shares = Descriptors::share(Some(limit), connections);
                let all = shares.data_files + shares.sessions + shares.pending + OTHERS;
                assert!(all as u64 <= limit.max(64 + 3), "{limit}: {shares:?}");
                assert!(shares.sessions <= connections);
            }
        }
        let shares = Descriptors::share(Some(1024), 100);
        assert_eq!((shares.sessions, shares.data_files), (100, 760));
        assert_eq!(Descriptors::share(None, 1000).sessions, 1000);
    }
}
