//! A statement of one more session beside a run of `pgbench`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Bench, timing};
use crate::client::Client;
use crate::context::{Context, Running, command_line};
use crate::environment::sync;
use crate::error::LabError;
use crate::plan::Beside;
use crate::sample::unix_time;
use crate::views::Accesses;

/// The file that `\copy` reads.
const FILE: &str = "copy.txt";
const MB: u64 = 1_000_000;
/// How long an interrupted statement may take to be cancelled.
const PATIENCE: Duration = Duration::from_secs(10);
/// The parts into which it cuts the run.
const PARTS: [&str; 3] = ["before", "during", "after"];

/// The statement: to begin, under way, or over.
pub(super) struct Operation {
    statement: String,
    at: Duration,
    psql: Command,
    running: Option<(Instant, Running)>,
    /// When it began and ended, in Unix time.
    span: Option<[f64; 2]>,
    /// Asks for what is counted; only while the run lasts, for its sessions are awaited then.
    client: Option<Client>,
    /// Counted where the run begins, and at the end of each part but the last.
    accesses: Vec<Option<Accesses>>,
}

impl Bench<'_> {
    /// Makes ready what is to run beside the next workload.
    pub(super) fn operation(&self, beside: &Beside) -> Result<Operation, LabError> {
        if let Some(megabytes) = beside.file_mb {
            let file = self.dir.join(FILE);
            write_rows(&file, megabytes * MB).map_err(LabError::file("writing", &file))?;
            // Its own write-back is over before the run.
            sync(&self.dir)?;
            let row = row(1).replace('\t', "\\t");
            let note = format!("# {FILE}: {megabytes} MB of rows such as {}", row.trim());
            self.context.note_text(&note);
        }
        let mut psql = self.psql(&["\\timing on"], &beside.sql)?;
        psql.current_dir(&self.dir);
        let line = command_line(&psql);
        let note = format!("# beside the next, {} s into it: {line}", beside.at);
        self.context.note_text(&note);
        let at = Duration::from_secs(beside.at.into());
        Ok(Operation::new(
            &beside.sql,
            at,
            psql,
            self.server()?.client()?,
        ))
    }
}

impl Operation {
    fn new(statement: &str, at: Duration, psql: Command, client: Client) -> Operation {
        let mut operation = Operation {
            statement: statement.to_owned(),
            at,
            psql,
            running: None,
            span: None,
            client: Some(client),
            accesses: Vec::new(),
        };
        operation.count();
        operation
    }

    fn count(&mut self) {
        let accesses = self.client.as_mut().and_then(Accesses::read);
        self.accesses.push(accesses);
    }

    /// Begins it when it is time to, and notices its end. Called all through the run.
    ///
    /// # Errors
    /// Why it failed.
    pub(super) fn watch(
        &mut self,
        context: &Context<'_>,
        elapsed: Duration,
    ) -> Result<(), LabError> {
        if let Some((_, running)) = &mut self.running {
            let Some(outcome) = running.outcome() else {
                return Ok(());
            };
            let ended = unix_time();
            self.running = None;
            let ms = timing(&outcome?).ok_or_else(|| self.error("psql printed no time"))?;
            self.span = Some([ended - ms / 1_000.0, ended]);
            self.count();
        } else if self.span.is_none() && elapsed >= self.at {
            self.count();
            self.running = Some((Instant::now(), context.start(&mut self.psql)?));
        }
        Ok(())
    }

    fn error(&self, message: &str) -> LabError {
        LabError::Sql {
            statement: self.statement.clone(),
            message: message.to_owned(),
        }
    }

    /// When it began and ended, in Unix time. If it is still under way it is cancelled: it would
    /// disturb what is measured next.
    ///
    /// # Errors
    /// That it has not ended with the run.
    pub(super) fn finish(&mut self) -> Result<[f64; 2], LabError> {
        self.client = None;
        if let Some(span) = self.span {
            return Ok(span);
        }
        let Some((began, running)) = self.running.take() else {
            return Err(self.error("was not begun when the run ended"));
        };
        let seconds = began.elapsed().as_secs_f64();
        running.interrupt(PATIENCE);
        Err(self.error(&format!(
            "had not ended when the run did, {seconds:.1} s after it began"
        )))
    }

    /// How the load fared in each part of the run: its rates, and what was counted, `last` at the
    /// end.
    pub(super) fn put(
        mut self,
        rates: &[Option<f64>],
        last: Option<Accesses>,
        figures: &mut BTreeMap<String, f64>,
    ) {
        self.accesses.push(last);
        let mut put = |name: &str, value: Option<f64>| {
            if let Some(value) = value {
                figures.insert(name.to_owned(), value);
            }
        };
        put("took_s", self.span.map(|[began, ended]| ended - began));
        for (part, rate) in PARTS.iter().zip(rates) {
            put(&format!("tps_{part}"), *rate);
        }
        if let [Some(before), Some(during), ..] = rates {
            put("during_pct", Some(100.0 * during / before.max(1.0)));
        }
        for (part, accesses) in PARTS.iter().zip(self.accesses.windows(2)) {
            if let [Some(then), Some(now)] = accesses {
                put(&format!("hit_{part}_pct"), now.hit_share_since(then));
            }
        }
    }
}

/// A row of the file, for a table of a number and a text.
fn row(number: u64) -> String {
    format!("{number}\t{}\n", "abcdefghij".repeat(9))
}

fn write_rows(file: &Path, bytes: u64) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    let mut written = 0;
    for number in 1.. {
        if written >= bytes {
            break;
        }
        let row = row(number);
        out.write_all(row.as_bytes())?;
        written += row.len() as u64;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests_support::serve;
    use crate::context::tests_support::with_context;
    use std::sync::atomic::AtomicBool;

    /// A statement that begins after a second, of a `psql` that is a shell script.
    fn operation(script: &str) -> Operation {
        let mut counted = 0;
        let port = serve(move |sql| {
            counted += 1;
            let hits_and_reads = sql.contains("blks") || sql.contains("hits");
            hits_and_reads.then(|| counted.to_string())
        });
        let mut psql = Command::new("sh");
        psql.args(["-c", script]);
        let client = Client::connect(port, PATIENCE).unwrap();
        Operation::new("VACUUM t", Duration::from_secs(1), psql, client)
    }

    /// Calls `watch` until it has something to say, for as long as a slow machine may need.
    fn watched(operation: &mut Operation) -> Result<(), LabError> {
        with_context(&AtomicBool::new(false), |context| {
            operation.watch(context, Duration::from_millis(999))?;
            assert!(operation.running.is_none());
            let begun = Instant::now();
            while operation.span.is_none() && begun.elapsed() < Duration::from_secs(100) {
                operation.watch(context, Duration::from_secs(1))?;
                std::thread::sleep(Duration::from_millis(1));
            }
            // It is begun once.
            operation.watch(context, Duration::from_secs(2))
        })
    }

    #[test]
    fn a_run_is_cut_where_the_statement_began_and_ended() {
        let mut vacuum = operation("echo VACUUM; echo 'Time: 1500.000 ms (00:01.500)'");
        let before = unix_time();
        watched(&mut vacuum).unwrap();
        let [began, ended] = vacuum.finish().unwrap();
        assert!((ended - began - 1.5).abs() < 1e-3);
        assert!(ended >= before && ended <= unix_time());
        let mut figures = BTreeMap::new();
        let last = vacuum.accesses.last().copied().flatten();
        vacuum.put(&[Some(200.0), Some(50.0), None], last, &mut figures);
        assert!((figures["took_s"] - 1.5).abs() < 1e-3);
        assert!((figures["during_pct"] - 25.0).abs() < 1e-9);
        assert!(!figures.contains_key("tps_after"));
        // As many hits as reads, and none of either in the end.
        for part in &PARTS[..2] {
            let hits = figures[&format!("hit_{part}_pct")];
            assert!((hits - 50.0).abs() < 1e-9, "{figures:?}");
        }
        assert!(!figures.contains_key("hit_after_pct"));
    }

    #[test]
    fn a_statement_that_fails_ends_its_run() {
        let mut vacuum = operation("echo 'ERROR:  no such table' >&2; exit 1");
        let error = watched(&mut vacuum).unwrap_err();
        assert!(error.reason().ends_with("ERROR: no such table"), "{error}");
        assert!(error.is_local(), "a hole in its row, and the case goes on");
        assert!(vacuum.finish().is_err());
        let error = watched(&mut operation("echo VACUUM")).unwrap_err();
        assert_eq!(error.reason(), "VACUUM t: psql printed no time");
    }

    #[test]
    fn a_statement_that_outlasts_its_run_is_told_and_ended() {
        let mut vacuum = operation("exec sleep 1000");
        let reason = vacuum.finish().unwrap_err().reason();
        assert_eq!(reason, "VACUUM t: was not begun when the run ended");
        with_context(&AtomicBool::new(false), |context| {
            vacuum.watch(context, Duration::from_secs(1)).unwrap();
            vacuum.watch(context, Duration::from_secs(1)).unwrap();
            let error = vacuum.finish().unwrap_err();
            let told = "VACUUM t: had not ended when the run did, ";
            assert!(error.reason().starts_with(told), "{error}");
            assert!(error.is_local());
        });
        assert!(vacuum.running.is_none());
    }

    #[test]
    fn the_file_has_the_size_that_was_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        write_rows(&file, MB).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!((MB..MB + 200).contains(&(text.len() as u64)));
        let last = text.lines().last().unwrap().split_once('\t').unwrap();
        assert_eq!(last.0, text.lines().count().to_string());
    }
}
