//! Errors of the lab, each with a message of one line: it becomes a hole in the report.

use std::path::{Path, PathBuf};

/// Why a measurement, a run or a command of the lab failed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The user interrupted the lab.
    #[error("interrupted")]
    Interrupted,
    /// The machine lacks something that the measurement needs.
    #[error("{what}: {why}")]
    Unavailable {
        /// The missing thing.
        what: String,
        /// Why, and what would help.
        why: String,
    },
    /// The disk under the work directory is too full.
    #[error("{} has {free} MB free, and this needs {needed} MB", .dir.display())]
    NoSpace {
        /// The work directory.
        dir: PathBuf,
        /// Megabytes needed.
        needed: u64,
        /// Megabytes free.
        free: u64,
    },
    /// Another program listens on the port that was asked for.
    #[error("port {0} is in use by another program")]
    PortInUse(u16),
    /// A server under test ended by itself or did not come up.
    #[error("{subject} {how}: {last}")]
    Crashed {
        /// The subject's label.
        subject: String,
        /// How it ended.
        how: String,
        /// The last telling line of its log.
        last: String,
    },
    /// A client program failed.
    #[error("{program} failed ({status}): {last}")]
    Program {
        /// The program.
        program: String,
        /// Its exit status.
        status: String,
        /// The last telling line it printed.
        last: String,
    },
    /// A statement was refused.
    #[error("{statement}: {message}")]
    Sql {
        /// The statement.
        statement: String,
        /// The server's message.
        message: String,
    },
    /// A file or directory of the lab could not be used.
    #[error("{doing} {}: {source}", .path.display())]
    File {
        /// The operation tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// These benches take longer than they did, beyond chance.
    #[error("slower: {0}")]
    Slower(String),
    /// A command-line argument makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl LabError {
    /// A function for `map_err` that names what was tried on which file.
    pub fn file<'a>(
        doing: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(std::io::Error) -> LabError + 'a {
        move |source| LabError::File {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    /// `what` is not to be had on this machine.
    pub fn unavailable(what: impl Into<String>, why: impl Into<String>) -> LabError {
        LabError::Unavailable {
            what: what.into(),
            why: why.into(),
        }
    }

    /// Whether this concerns one measurement only, and its server can go on.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(
            self,
            LabError::Sql { .. } | LabError::Program { .. } | LabError::Unavailable { .. }
        )
    }

    /// The reason as one line of at most 200 characters.
    #[must_use]
    pub fn reason(&self) -> String {
        one_line(&self.to_string(), 200)
    }
}

/// `text` with its white space collapsed, cut to `most` characters.
#[must_use]
pub fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let kept: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// The line of a program's output that says most: the last that reports an error, else the last.
#[must_use]
pub fn telling_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let marks = ["PANIC", "FATAL", "panicked", "ERROR", "error:", "Error"];
    let telling = lines
        .iter()
        .rev()
        .find(|line| marks.iter().any(|mark| line.contains(mark)))
        .or(lines.last());
    one_line(telling.unwrap_or(&"it printed nothing"), 160)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line() {
        let error = LabError::Sql {
            statement: "SELECT 1".into(),
            message: "first\n  second\nthird".into(),
        };
        assert_eq!(error.reason(), "SELECT 1: first second third");
        let long = LabError::Usage("x".repeat(1_000));
        assert_eq!(long.reason().chars().count(), 200);
    }

    #[test]
    fn the_telling_line_is_the_last_error() {
        let text =
            "LOG: starting\nFATAL: no space left on device\nLOG: database system is shut down";
        assert_eq!(telling_line(text), "FATAL: no space left on device");
        assert_eq!(telling_line("a\nb\n"), "b");
        assert_eq!(telling_line(""), "it printed nothing");
    }
}
