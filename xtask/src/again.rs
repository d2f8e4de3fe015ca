//! Runs the tests, and those that failed once more by themselves.
//!
//! A test that passes the second time has found a race, in itself or in the product. It does not
//! stop a change that has nothing to do with it, but it is named in the last lines, so that it is
//! looked into. A test that fails twice, or a test program that dies, fails the run.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// More failures than this have a common cause, which no second run would disprove.
const MOST: usize = 3;

/// How long the end of the output is waited for once cargo has ended.
const AFTERWARDS: Duration = Duration::from_secs(10);

/// Runs `tests()`, a `cargo test` with `--no-fail-fast`; returns the names of the tests that
/// passed only the second time.
///
/// # Errors
/// When a test failed twice, or the run for another reason than a few failing tests.
pub fn run(tests: impl Fn() -> Command) -> Result<BTreeSet<String>, String> {
    let (first, outcome) = watched(tests());
    let Err(error) = outcome else {
        return Ok(BTreeSet::new());
    };
    if !first.are_all_named() || first.tests.len() > MOST {
        return Err(error);
    }
    eprintln!("== again: {}", first.list());
    let mut again = tests();
    again.args(["--", "--exact"]).args(&first.tests);
    let (second, outcome) = watched(again);
    outcome?;
    // Names that no program knows would pass by running nothing.
    if second.passed.is_superset(&first.tests) {
        Ok(first.tests)
    } else {
        Err(error)
    }
}

/// Runs `command`, passes its output through and returns which tests failed, with the outcome.
fn watched(mut command: Command) -> (Failures, Result<(), String>) {
    let name = format!("{command:?}");
    let noted = Arc::new(Mutex::new(Failures::default()));
    let status = std::io::pipe().and_then(|(output, input)| {
        command.stdout(input.try_clone()?).stderr(input);
        let child = command.spawn();
        // It holds ends of the pipe, which must be gone for the output to end.
        drop(command);
        let mut child = child?;
        let (done, is_done) = mpsc::channel();
        let noted = Arc::clone(&noted);
        std::thread::spawn(move || {
            pass_through(output, &noted);
            // The receiver may have given up waiting.
            let _ = done.send(());
        });
        let status = child.wait();
        // A process that a test left behind may hold the pipe for ever.
        let _ = is_done.recv_timeout(AFTERWARDS);
        status
    });
    let failures = std::mem::take(&mut *lock(&noted));
    let outcome = match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the tests failed ({status}): {name}")),
        Err(error) => Err(format!("the tests: cannot run {name}: {error}")),
    };
    (failures, outcome)
}

fn pass_through(output: PipeReader, noted: &Mutex<Failures>) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let mut out = std::io::stderr().lock();
        // Nobody may be reading; the outcome counts all the same.
        let _ = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
        lock(noted).note(&String::from_utf8_lossy(&line));
    }
}

fn lock(noted: &Mutex<Failures>) -> MutexGuard<'_, Failures> {
    noted.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tests that failed, as cargo and the test programs print it.
#[derive(Default)]
struct Failures {
    tests: BTreeSet<String>,
    passed: BTreeSet<String>,
    /// Failed tests of the program that is running.
    of_this: usize,
    /// Programs that failed without the name of a test.
    unnamed: usize,
}

impl Failures {
    fn note(&mut self, line: &str) {
        if let Some(name) = of_test(line, "FAILED") {
            self.of_this += 1;
            self.tests.insert(name.to_owned());
        } else if let Some(name) = of_test(line, "ok") {
            self.passed.insert(name.to_owned());
        } else if line.starts_with("error: test failed, to rerun pass") {
            self.unnamed += usize::from(self.of_this == 0);
            self.of_this = 0;
        } else if line.contains("process didn't exit successfully") && line.contains("signal") {
            self.unnamed += 1;
        }
    }

    fn are_all_named(&self) -> bool {
        self.unnamed == 0 && !self.tests.is_empty()
    }

    fn list(&self) -> String {
        let tests: Vec<&str> = self.tests.iter().map(String::as_str).collect();
        tests.join(", ")
    }
}

/// The name in a line `test NAME ... OUTCOME`.
fn of_test<'a>(line: &'a str, outcome: &str) -> Option<&'a str> {
    let line = line.strip_prefix("test ")?.strip_suffix(outcome)?;
    line.strip_suffix(" ... ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(lines: &[&str]) -> Failures {
        let mut failures = Failures::default();
        lines.iter().for_each(|line| failures.note(line));
        failures
    }

    #[test]
    fn failed_tests_are_named() {
        let failures = noted(&[
            "test a::b ... ok",
            "test a::c ... FAILED",
            "test result: FAILED. 1 passed; 1 failed",
            "error: test failed, to rerun pass `-p a --lib`",
        ]);
        assert!(failures.are_all_named());
        assert_eq!(failures.list(), "a::c");
        assert!(failures.passed.contains("a::b"));
    }

    #[test]
    fn a_program_that_dies_is_no_failed_test() {
        let dies = "error: test failed, to rerun pass `-p b --test x`";
        assert!(!noted(&["test a::c ... FAILED", dies, dies]).are_all_named());
        let killed = "  process didn't exit successfully: `b` (signal: 6, SIGABRT)";
        assert!(!noted(&["test a::c ... FAILED", dies, killed]).are_all_named());
        assert!(!noted(&[]).are_all_named());
    }
}
