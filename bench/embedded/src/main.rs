//! evenkeel's engine beside other embedded engines, in equal durability. See README.md.

mod data;
mod machine;
mod measure;
mod plan;
mod reopen;
mod report;
mod subject;
mod subjects;
mod workloads;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Parser, Subcommand};

use crate::plan::Plan;
use crate::report::{Missing, Report, Sample, SubjectLine};
use crate::subject::{Result, Subject};

/// Compares embedded engines on commits, reads, a mixed load and reopening after a kill.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Commits for ever and acknowledges on standard output; a run starts and kills it.
    #[command(hide = true)]
    WriteUntilKilled {
        subject: String,
        dir: PathBuf,
        cache: u64,
        rows: u64,
    },
}

#[derive(Args)]
struct RunArgs {
    /// A first answer in about a minute (the default).
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Figures to publish.
    #[arg(long)]
    full: bool,
    /// Rounds, instead of the mode's number.
    #[arg(long)]
    rounds: Option<u32>,
    /// Only these subjects; the first is what the others are compared with.
    #[arg(long, value_delimiter = ',')]
    subjects: Vec<String>,
    /// Only these workloads, and loading.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// Where databases are made, and removed again; on the disk to be measured.
    #[arg(long, default_value = "/var/tmp")]
    dir: PathBuf,
    /// Writes the figures here, anew after every subject's turn.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Some(Command::WriteUntilKilled {
            subject,
            dir,
            cache,
            rows,
        }) => write_until_killed(subject, dir, *cache, *rows),
        None => run(&cli.run),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evenkeel-bench-embedded: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn write_until_killed(subject: &str, dir: &Path, cache: u64, rows: u64) -> Result<()> {
    let plan = Plan {
        cache,
        kill_rows: rows,
        ..Plan::quick()
    };
    let chosen = chosen(&[subject.to_owned()])?;
    chosen
        .iter()
        .try_for_each(|subject| reopen::child(subject, dir, &plan))
}

/// The subjects with these names, in this order; all, if there are none.
fn chosen(names: &[String]) -> Result<Vec<Subject>> {
    if names.is_empty() {
        return Ok(subjects::all());
    }
    let find = |name: &String| {
        let found = subjects::all().into_iter().find(|one| one.name == name);
        let why = subjects::missing().into_iter().find(|one| one.0 == name);
        let why = why.map_or("there is no such subject", |(_, why)| why);
        found.ok_or_else(|| format!("{name}: {why}").into())
    };
    names.iter().map(find).collect()
}

fn run(args: &RunArgs) -> Result<()> {
    let mut plan = if args.full {
        Plan::full()
    } else {
        Plan::quick()
    };
    plan.rounds = args.rounds.unwrap_or(plan.rounds).max(1);
    let subjects = chosen(&args.subjects)?;
    let work = tempfile::Builder::new()
        .prefix("evenkeel-bench-embedded-")
        .tempdir_in(&args.dir)
        .map_err(|error| format!("making a directory in {}: {error}", args.dir.display()))?;
    if machine::filesystem(work.path()) == "tmpfs" {
        return Err(format!("{} is in memory: it has no syncs", args.dir.display()).into());
    }
    let mut report = describe(&plan, &subjects, work.path())?;
    let begun = Instant::now();
    for round in 0..plan.rounds {
        // The first subject of this round is the last of the next.
        for turn in 0..subjects.len() {
            let subject = &subjects[(turn + round as usize) % subjects.len()];
            eprintln!("round {} of {}: {}", round + 1, plan.rounds, subject.name);
            let dir = work.path().join(format!("{}-{round}", subject.name));
            let turn = Turn {
                subject,
                dir: &dir,
                plan: &plan,
                only: &args.workloads,
            };
            turn.run(&mut report)?;
            std::fs::remove_dir_all(&dir)?;
            report.seconds = begun.elapsed().as_secs_f64();
            write_json(&report, args)?;
        }
    }
    report.finished = true;
    write_json(&report, args)?;
    println!("{}", report.table());
    Ok(())
}

fn write_json(report: &Report, args: &RunArgs) -> Result<()> {
    match &args.json {
        Some(path) => report
            .write(path)
            .map_err(|error| format!("writing {}: {error}", path.display()).into()),
        None => Ok(()),
    }
}

fn describe(plan: &Plan, subjects: &[Subject], dir: &Path) -> Result<Report> {
    let mut report = Report::new(plan.mode, plan.rounds);
    report.started = machine::now();
    report.machine = machine::facts(dir)?;
    report.settings = plan.settings().into_iter().collect();
    report.subjects = subjects
        .iter()
        .map(|subject| SubjectLine {
            name: subject.name,
            version: (subject.version)(),
            durability: subject.durability,
            settings: subject.settings,
        })
        .collect();
    let missing = subjects::missing().into_iter();
    report.missing = missing.map(|(name, why)| Missing { name, why }).collect();
    Ok(report)
}

/// All workloads on one subject, once.
struct Turn<'a> {
    subject: &'a Subject,
    dir: &'a Path,
    plan: &'a Plan,
    only: &'a [String],
}

impl Turn<'_> {
    /// Runs what was asked for. A subject that fails leaves a hole; the others go on.
    fn run(&self, report: &mut Report) -> Result<()> {
        let version = (self.subject.version)();
        let mut add = |sample| report.add(self.subject.name, &version, sample);
        if let Err(error) = self.workloads(&mut add) {
            eprintln!("{}: {error}", self.subject.name);
            add(Sample::hole("failed", 1, "", error.to_string()))?;
        }
        Ok(())
    }

    fn wanted(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == workload)
    }

    fn workloads(&self, add: &mut dyn FnMut(Sample) -> Result<()>) -> Result<()> {
        let plan = self.plan;
        let store = (self.subject.open)(self.dir, plan.cache)?;
        add(workloads::load(store.as_ref(), plan)?)?;
        add(workloads::size(self.dir)?)?;
        for threads in [1, 4] {
            if self.wanted("commit") {
                add(workloads::commit(store.as_ref(), plan, threads)?)?;
            }
        }
        if self.wanted("batch") {
            add(workloads::batch(store.as_ref(), plan)?)?;
        }
        for threads in [1, 2, 4] {
            if self.wanted("read") {
                add(workloads::read(store.as_ref(), plan, threads)?)?;
            }
        }
        if self.wanted("mixed") {
            let samples = workloads::mixed(store.as_ref(), plan)?;
            samples.into_iter().try_for_each(&mut *add)?;
        }
        store.close()?;
        if self.wanted("reopen") {
            add(self.reopen()?)?;
        }
        Ok(())
    }

    fn reopen(&self) -> Result<Sample> {
        let acknowledged = reopen::kill_amid_writing(self.subject, self.dir, self.plan)?;
        let (took, store) = reopen::reopen(self.subject, self.dir, self.plan)?;
        let verdict = reopen::verify(store.as_ref(), self.plan, &acknowledged)?;
        store.close()?;
        let mut sample = Sample::time("reopen", 1, took);
        sample.lost = Some(verdict.lost);
        if verdict.torn > 0 {
            sample.note = format!("{} commits are there by half", verdict.torn);
        }
        Ok(sample)
    }
}
