//! A run of `pgbench`, and what is done beside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Bench;
use super::beside::Operation;
use crate::client::Client;
use crate::error::LabError;
use crate::pgbench::{Log, failed, printed_rate};
use crate::plan::Workload;
use crate::record::Row;
use crate::sample::Sampler;
use crate::views::Accesses;

impl Bench<'_> {
    pub(super) fn pgbench(&mut self, workload: &Workload) -> Result<Row, LabError> {
        self.say(&format!("pgbench {}", workload.label));
        let port = self.server()?.port;
        let logs = tempfile::tempdir_in(log_parent(self.context.work))
            .map_err(LabError::file("writing in", self.context.work))?;
        let operation = workload.beside.as_ref();
        let mut operation = operation.map(|beside| self.operation(beside)).transpose()?;
        let mut pgbench = self.pgbench_command(workload, logs.path())?;
        let before = self.before()?;
        let sampler = Sampler::start(self.server()?);
        let checkpoint = workload.checkpoint_at.map(|at| {
            self.context
                .note_text(&format!("# beside the next, {at} s into it: CHECKPOINT"));
            checkpoint_later(port, at)
        });
        let context = self.context;
        let started = Instant::now();
        let outcome = self.client_beside(&mut pgbench, |elapsed| match &mut operation {
            Some(operation) => operation.watch(context, elapsed),
            None => Ok(()),
        });
        let seconds = started.elapsed().as_secs_f64();
        let sampled_from = sampler.begun;
        let series = sampler.finish();
        let checkpoint = checkpoint.map(|thread| thread.join().unwrap_or(Ok(())));
        let cuts = operation.as_mut().map(Operation::finish);
        let text = outcome?;
        // Without the checkpoint or the cuts the measurement did not take place.
        checkpoint.unwrap_or(Ok(()))?;
        let cuts = cuts.transpose()?;
        let mut log = Log::new(workload.limit_ms)?;
        log.cut(cuts.as_ref().map_or(&[], |cuts| cuts.as_slice()));
        log.read(logs.path())?;
        let duration = workload.seconds.map(|s| s as usize);
        let mut row = Row {
            figures: log.figures(duration),
            series,
            ..Row::new(&workload.label)
        };
        if let Some(stolen) = row.series.get("stolen_pct") {
            let calm = log.calm(duration, sampled_from, stolen);
            row.figures.extend(calm);
        }
        log.series(duration, &mut row.series);
        row.figures.insert("seconds".to_owned(), seconds);
        printed(&text, &mut row);
        self.after(&before, &mut row)?;
        if let Some(operation) = operation {
            let last = Accesses::read(&mut self.server()?.client()?);
            operation.put(&log.part_rates(duration), last, &mut row.figures);
        }
        Ok(row)
    }

    /// A run that logs its transactions into files in `logs`.
    fn pgbench_command(&self, workload: &Workload, logs: &Path) -> Result<Command, LabError> {
        let mut pgbench = self.context.client("pgbench", self.server()?.port);
        pgbench.args(["-n", "-l"]);
        pgbench.arg(format!("--log-prefix={}", logs.join("log").display()));
        if let Some(seconds) = workload.seconds {
            pgbench.args(["-T", &seconds.to_string()]);
        }
        pgbench.args(&workload.args);
        if let Some(script) = workload.script {
            let file = self.dir.join("script.sql");
            std::fs::write(&file, script).map_err(LabError::file("writing", &file))?;
            self.context.note_text(&format!(
                "# script.sql: {}",
                script.trim().replace('\n', " ")
            ));
            pgbench.arg("-f").arg(&file);
        }
        Ok(pgbench)
    }
}

/// The figures that `pgbench` prints.
fn printed(text: &str, row: &mut Row) {
    if let Some(rate) = printed_rate(text) {
        row.figures.insert("tps".to_owned(), rate);
    }
    if let Some(failed) = failed(text).filter(|failed| *failed > 0.0) {
        row.figures.insert("failed".to_owned(), failed);
    }
}

/// Asks for a checkpoint beside the load.
fn checkpoint_later(port: u16, seconds: u32) -> JoinHandle<Result<(), LabError>> {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(seconds.into()));
        let client = Client::connect(port, Duration::from_secs(5));
        let mut client = client.map_err(|message| LabError::Sql {
            statement: "CHECKPOINT".to_owned(),
            message,
        })?;
        client.ask("CHECKPOINT").map(drop)
    })
}

/// Memory rather than the disk under test, where the machine has it.
fn log_parent(work: &Path) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        work.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_fails_beside_the_load_is_told() {
        let port = crate::client::tests_support::serve(|_| None);
        let error = checkpoint_later(port, 0).join().unwrap().unwrap_err();
        assert_eq!(error.reason(), "CHECKPOINT: ERROR: refused");
        assert!(error.is_local(), "a hole in its row, and the case goes on");
    }
}
