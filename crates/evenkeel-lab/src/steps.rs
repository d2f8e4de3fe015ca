//! Carries out the steps of one case on one subject.

mod beside;
mod recovery;
mod workload;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::environment::DiskGroup;
use crate::error::LabError;
use crate::plan::{Case, Set, Step};
use crate::record::{self, Row};
use crate::sample::{Processors, Sampler, Usage};
use crate::server::{self, Server};
use crate::subject::{Settings, Subject, enterable_dir};
use crate::views::{self, Counters};

/// Longest wait for a server to answer: recovery of a full run's log on a slow machine.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// A statement that takes less has no course over time.
const SERIES_FROM: Duration = Duration::from_secs(3);
const MIB: f64 = 1_048_576.0;

/// One case under way on one subject.
pub struct Bench<'a> {
    context: &'a Context<'a>,
    subject: &'a dyn Subject,
    settings: Settings,
    missing: Vec<String>,
    dir: PathBuf,
    server: Option<Server>,
    image: Option<PathBuf>,
    /// Log inserted up to the last checkpoint that a step asked for.
    log_at_checkpoint: Option<f64>,
    log_to_redo: Option<f64>,
    /// Where the log ended at the crash.
    crashed_at: Option<f64>,
    /// The measurements so far.
    pub rows: Vec<Row>,
    /// The machine as the steps made it.
    pub environment: Vec<String>,
}

/// State at a measurement's start, for the comparison at its end.
struct Before {
    processors: Option<Processors>,
    usage: Usage,
    counters: Counters,
    log: Option<f64>,
}

impl<'a> Bench<'a> {
    /// Makes a data directory and starts a server.
    ///
    /// # Errors
    /// Why there is none.
    pub fn start(
        context: &'a Context<'a>,
        subject: &'a dyn Subject,
        case: &Case,
    ) -> Result<Bench<'a>, LabError> {
        let wanted = case.settings.iter().map(|(n, v)| (*n, v.as_str()));
        let (settings, missing) = known(subject, wanted);
        let dir = tempfile::Builder::new()
            .prefix("case-")
            .tempdir_in(context.work)
            .map_err(LabError::file("writing in", context.work))?
            .keep();
        enterable_dir(&dir)?;
        let mut bench = Bench {
            context,
            subject,
            settings,
            missing,
            dir,
            server: None,
            image: None,
            log_at_checkpoint: None,
            log_to_redo: None,
            crashed_at: None,
            rows: Vec::new(),
            environment: Vec::new(),
        };
        let data = bench.dir.join("data");
        bench.say("making a data directory");
        context.copy(&template(context, subject)?, &data)?;
        if let Some(initdb) = subject.initdb(&data) {
            context.note_text("# made once, and copied for each case:");
            context.note(&initdb);
        }
        let settings = bench.settings.clone();
        bench.server = Some(bench.launch(&data, &settings)?);
        if let Ok(mut client) = bench.server()?.client() {
            for extension in subject.extensions() {
                let sql = format!("CREATE EXTENSION {extension}");
                if client.ask(&sql).is_ok() {
                    context.note_text(&format!("# beside the load: {sql}"));
                }
            }
        }
        Ok(bench)
    }

    /// The settings the server runs with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Settings asked for that the subject does not have.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Carries out a step. A measurement that fails while the server lives is a row that says
    /// why; everything else that fails ends the case.
    ///
    /// # Errors
    /// Why the case cannot go on.
    pub fn step(&mut self, step: &Step) -> Result<(), LabError> {
        self.context.go_on()?;
        let measured = match step {
            Step::Pgbench(workload) => Some((&workload.label, self.pgbench(workload))),
            Step::Statement { label, set, sql } => Some((label, self.statement(label, set, sql))),
            Step::Recover(recovery) => Some((&recovery.label, self.recover(recovery))),
            Step::Restart(label) => Some((label, self.restart(label))),
            _ => None,
        };
        if let Some((label, outcome)) = measured {
            return match outcome {
                Ok(row) => {
                    self.rows.push(row);
                    Ok(())
                }
                Err(error) if error.is_local() => {
                    if let Some(server) = &mut self.server {
                        server.alive()?;
                    }
                    self.rows.push(Row::hole(label, error.reason()));
                    Ok(())
                }
                Err(error) => Err(error),
            };
        }
        self.prepare(step)
    }

    fn prepare(&mut self, step: &Step) -> Result<(), LabError> {
        match step {
            Step::Load(scale) => self.load(*scale),
            Step::Sql(sql) => self.sql(sql),
            Step::SlowDisk(iops) => {
                match self.server()?.group() {
                    Some(group) => group.limit_writes(*iops)?,
                    // Made again for the reason it gives.
                    None => DiskGroup::create(self.context.work, "why")?.limit_writes(*iops)?,
                }
                let text = format!("slow disk: {iops} writes a second (blkio control group)");
                self.environment.push(text);
                Ok(())
            }
            Step::Size => {
                let mut row = Row::new("size");
                let bytes = directory_size(&self.server()?.data);
                row.figures
                    .insert("size_mib".to_owned(), bytes as f64 / MIB);
                self.rows.push(row);
                Ok(())
            }
            Step::Crash => self.crash(),
            Step::Pgbench(_) | Step::Statement { .. } | Step::Recover(_) | Step::Restart(_) => {
                Ok(())
            }
        }
    }

    fn server(&self) -> Result<&Server, LabError> {
        self.server
            .as_ref()
            .ok_or_else(|| LabError::Usage("a step needs a server after the crash".to_owned()))
    }

    /// Starts a server over `data`.
    fn launch(&self, data: &Path, settings: &Settings) -> Result<Server, LabError> {
        let port = server::port(self.context.port)?;
        self.context
            .note(&self.subject.server(data, port, settings));
        let group = DiskGroup::create(self.context.work, &port.to_string()).ok();
        let stop = self.context.interrupted;
        Server::start(self.subject, data, port, settings, group, PATIENCE, stop)
    }

    /// Runs a client to its end, ending it when the server dies.
    fn client(&mut self, command: &mut Command) -> Result<String, LabError> {
        self.client_beside(command, |_| Ok(()))
    }

    /// As `client`, calling `beside` now and then, whose error ends the client too.
    fn client_beside(
        &mut self,
        command: &mut Command,
        mut beside: impl FnMut(Duration) -> Result<(), LabError>,
    ) -> Result<String, LabError> {
        let Some(server) = &mut self.server else {
            return Err(LabError::Usage("a step needs a server".to_owned()));
        };
        let outcome = self.context.run(command, |elapsed| {
            server.alive()?;
            beside(elapsed)
        });
        // A client that fails because its server died says less than the server.
        if outcome.as_ref().is_err_and(LabError::is_local) {
            server.alive()?;
        }
        outcome
    }

    fn say(&self, what: &str) {
        self.context
            .progress
            .set_message(format!("{}: {what}", self.subject.label()));
    }

    fn before(&self) -> Result<Before, LabError> {
        let server = self.server()?;
        let mut client = server.client()?;
        Ok(Before {
            counters: views::read(&mut client),
            log: views::log_position(&mut client),
            processors: Processors::now(),
            usage: Usage::of(server.pid(), server.group()),
        })
    }

    fn after(&self, before: &Before, row: &mut Row) -> Result<(), LabError> {
        let server = self.server()?;
        let usage = Usage::of(server.pid(), server.group());
        usage.since(&before.usage).put(&mut row.figures);
        let processors = Processors::now().zip(before.processors);
        if let Some(stolen) = processors.and_then(|(now, then)| now.stolen_since(&then)) {
            row.figures.insert("stolen_pct".to_owned(), stolen);
        }
        let mut client = server.client()?;
        row.counters = views::difference(&before.counters, &views::read_settled(&mut client));
        let log = views::log_position(&mut client).zip(before.log);
        if let Some((now, then)) = log {
            row.figures.insert("log_mib".to_owned(), (now - then) / MIB);
            if let Some(&count) = row
                .figures
                .get("transactions")
                .filter(|count| **count > 0.0)
            {
                let each = (now - then) / count;
                row.figures.insert("log_bytes_per_tx".to_owned(), each);
            }
        }
        flushing(row);
        Ok(())
    }

    fn load(&mut self, scale: u32) -> Result<(), LabError> {
        self.say(&format!("loading scale {scale}"));
        let port = self.server()?.port;
        let before = self.before()?;
        let mut init = self.context.client("pgbench", port);
        init.args(["-i", "-q", "-s", &scale.to_string()]);
        let started = Instant::now();
        self.client(&mut init)?;
        let mut row = Row::new("load (pgbench -i)");
        let seconds = started.elapsed().as_secs_f64();
        row.figures.insert("load_s".to_owned(), seconds);
        self.after(&before, &mut row)?;
        self.rows.push(row);
        Ok(())
    }

    fn sql(&mut self, sql: &str) -> Result<(), LabError> {
        self.say(sql);
        let mut psql = self.psql(&[], sql)?;
        self.client(&mut psql)?;
        if sql == "CHECKPOINT" {
            self.log_at_checkpoint = views::log_position(&mut self.server()?.client()?);
        }
        Ok(())
    }

    fn psql(&self, before: &[&str], sql: &str) -> Result<Command, LabError> {
        let mut psql = self.context.client("psql", self.server()?.port);
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        for text in before.iter().chain([&sql]) {
            psql.args(["-c", text]);
        }
        Ok(psql)
    }

    fn statement(&mut self, label: &str, set: &[Set], sql: &str) -> Result<Row, LabError> {
        self.say(sql);
        let wanted = set
            .iter()
            .filter(|set| set.required || self.subject.knows(set.name));
        let mut set: Vec<String> = wanted
            .map(|set| format!("SET {} = '{}'", set.name, set.value))
            .collect();
        set.push("\\timing on".to_owned());
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let before = self.before()?;
        let mut psql = self.psql(&set, sql)?;
        let sampler = Sampler::start(self.server()?);
        let started = Instant::now();
        let outcome = self.client(&mut psql);
        let took = started.elapsed();
        let series = sampler.finish();
        let text = outcome?;
        let mut row = Row::new(label);
        if took >= SERIES_FROM {
            row.series = series;
        }
        let ms = timing(&text).ok_or_else(|| LabError::Sql {
            statement: sql.to_owned(),
            message: "psql printed no time".to_owned(),
        })?;
        row.figures.insert("ms".to_owned(), ms);
        self.after(&before, &mut row)?;
        Ok(row)
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        self.server = None;
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A new data directory of `subject`, made once and copied for each case.
fn template(context: &Context<'_>, subject: &dyn Subject) -> Result<PathBuf, LabError> {
    let dir = context
        .work
        .join(format!("new-{}", record::plain(subject.label())));
    if !dir.exists()
        && let Err(error) = subject.create(&dir)
    {
        let _ = std::fs::remove_dir_all(&dir);
        return Err(error);
    }
    Ok(dir)
}

/// The settings that `subject` has, and the names of those that it does not.
fn known<'s>(
    subject: &dyn Subject,
    wanted: impl Iterator<Item = (&'s str, &'s str)>,
) -> (Settings, Vec<String>) {
    let (mut settings, mut missing) = (Settings::new(), Vec::new());
    for (name, value) in wanted {
        if subject.knows(name) {
            settings.insert(name.to_owned(), value.to_owned());
        } else {
            missing.push(name.to_owned());
        }
    }
    (settings, missing)
}

/// Milliseconds of the last `Time:` line that `psql` printed.
fn timing(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("Time: "))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Log syncs of a timed statement, the share of its time that the server spent on them, and the
/// share that the statement's own session spent on them or waited for pages they hold back.
fn flushing(row: &mut Row) {
    let Some(elapsed) = row.figures.get("ms").copied().filter(|ms| *ms > 0.0) else {
        return;
    };
    let counters = std::mem::take(&mut row.counters);
    let counter = |name: &str| counters.get(name).copied();
    let sum = |names: &[&str]| {
        let found: Vec<f64> = names.iter().filter_map(|name| counter(name)).collect();
        (!found.is_empty()).then(|| found.iter().sum::<f64>())
    };
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            row.figures.insert(name.to_owned(), value);
        }
    };
    let syncs = counter("pg_stat_io.wal.fsyncs").or_else(|| counter("pg_stat_wal.wal_sync"));
    put("log_flushes", syncs);
    let by_io = sum(&["pg_stat_io.wal.fsync_time", "pg_stat_io.wal.write_time"]);
    let time = by_io.or_else(|| sum(&["pg_stat_wal.wal_sync_time", "pg_stat_wal.wal_write_time"]));
    put("flush_pct", time.map(|time| 100.0 * time / elapsed));
    let own = by_io.map(|_| sum(&SESSION_WAITS).unwrap_or(0.0));
    put("own_flush_pct", own.map(|time| 100.0 * time / elapsed));
    row.counters = counters;
}

/// A session's own writes of the log, and its waits for a cleaner that waits for the log.
const SESSION_WAITS: [&str; 3] = [
    "pg_stat_io.client.wal.fsync_time",
    "pg_stat_io.client.wal.write_time",
    "evenkeel_buffers.ring_wait_log_time",
];

fn directory_size(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => directory_size(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::tests_support::Scripted;

    #[test]
    fn the_last_time_counts() {
        assert_eq!(
            timing("Time: 1.5 ms\nx\nTime: 1234.567 ms (00:01.235)\n"),
            Some(1234.567)
        );
        assert_eq!(timing("x"), None);
    }

    #[test]
    fn settings_that_a_subject_lacks_are_left_out_and_named() {
        let subject = Scripted::new("fake", "true");
        let wanted = [("shared_buffers", "1GB"), ("autovacuum", "off")];
        let (settings, missing) = known(&subject, wanted.into_iter());
        assert_eq!(settings.len(), 1);
        assert_eq!(missing, ["autovacuum"]);
    }

    #[test]
    fn flushing_reads_either_view() {
        let mut row = Row::new("x");
        row.figures.insert("ms".to_owned(), 200.0);
        row.counters.insert("pg_stat_io.wal.fsyncs".to_owned(), 3.0);
        row.counters
            .insert("pg_stat_io.wal.fsync_time".to_owned(), 50.0);
        row.counters
            .insert("evenkeel_buffers.ring_wait_log_time".to_owned(), 4.0);
        flushing(&mut row);
        assert!((row.figures["log_flushes"] - 3.0).abs() < 1e-9);
        assert!((row.figures["flush_pct"] - 25.0).abs() < 1e-9);
        assert!((row.figures["own_flush_pct"] - 2.0).abs() < 1e-9);
    }
}
