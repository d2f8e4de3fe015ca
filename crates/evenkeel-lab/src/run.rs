//! `lab run`: takes the experiments through their cases, the subjects in turn, and keeps each
//! run's record as soon as it has ended.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::context::Context;
use crate::embedded;
use crate::environment::{DiskGroup, machine, require_space};
use crate::error::LabError;
use crate::plan::{Better, Case, Experiment, Figure, Step, Work};
use crate::record::{self, Extent, FORMAT, Record};
use crate::steps::Bench;
use crate::subject::{Subject, enterable_dir};

/// A subject, or why it is not to be had.
pub type Candidate = (String, Result<Box<dyn Subject>, String>);

/// The request of `lab run`.
pub struct Plan<'a> {
    /// The experiments, in order.
    pub experiments: Vec<&'static Experiment>,
    /// Quick or full.
    pub extent: Extent,
    /// Only cases whose name contains one of these; empty for all.
    pub cases: Vec<String>,
    /// How often each case is measured, if not as often as its experiment says.
    pub rounds: Option<u32>,
    /// Where the records go.
    pub out: PathBuf,
    /// A directory on the disk under test.
    pub work: PathBuf,
    /// The systems to measure.
    pub subjects: Vec<Candidate>,
    /// The directory of the stock clients.
    pub clients: PathBuf,
    /// The port servers are to listen on, if not any.
    pub port: Option<u16>,
    /// Whether to measure again what has been measured.
    pub again: bool,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
}

impl Plan<'_> {
    /// That there is something to run.
    ///
    /// # Errors
    /// The names of the cases there are, if none of them was asked for.
    pub fn check(&self) -> Result<(), LabError> {
        if self.cases.is_empty() || runs(self) > 0 {
            return Ok(());
        }
        let all = self.experiments.iter().filter_map(|e| match e.work {
            Work::Servers { cases, .. } => Some(cases(self.extent)),
            Work::Embedded => None,
        });
        let names: Vec<String> = all.flatten().map(|case| case.name).collect();
        let names = names.join("; ");
        Err(LabError::Usage(format!(
            "no case is called so: there are {names}"
        )))
    }

    fn rounds(&self, rounds: fn(Extent) -> u32) -> u32 {
        self.rounds.unwrap_or_else(|| rounds(self.extent))
    }

    fn cases(&self, cases: fn(Extent) -> Vec<Case>) -> Vec<Case> {
        let mut cases = cases(self.extent);
        let is_wanted = |case: &Case| self.cases.iter().any(|part| case.name.contains(part));
        cases.retain(|case| self.cases.is_empty() || is_wanted(case));
        cases
    }
}

/// How a run of the lab went.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Measured now.
    pub measured: u32,
    /// Kept from an earlier run.
    pub kept: u32,
    /// Without a result.
    pub holes: u32,
}

struct Bars {
    all: MultiProgress,
    total: ProgressBar,
    step: ProgressBar,
}

impl Bars {
    fn new(runs: u64) -> Bars {
        let style = |template: &str| {
            ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("━╸─")
        };
        let all = MultiProgress::new();
        let total = all.add(ProgressBar::new(runs));
        total.set_style(style(
            "{bar:40} {pos}/{len} runs  {elapsed_precise}  {prefix}",
        ));
        let step = all.add(ProgressBar::new_spinner());
        step.set_style(style("{spinner} {elapsed}  {wide_msg}"));
        step.enable_steady_tick(Duration::from_millis(200));
        Bars { all, total, step }
    }

    fn say(&self, line: &str) {
        self.all.suspend(|| println!("{line}"));
    }
}

/// Runs everything that is planned and not yet there.
///
/// # Errors
/// [`LabError::Interrupted`], with all finished runs kept, or that the results' or the work
/// directory cannot be used. A failure within a run becomes a hole.
pub fn run(plan: &Plan<'_>) -> Result<Tally, LabError> {
    std::fs::create_dir_all(&plan.out).map_err(LabError::file("creating", &plan.out))?;
    let _alone = alone(&plan.out)?;
    let work = tempfile::Builder::new()
        .prefix("evenkeel-lab-")
        .tempdir_in(&plan.work)
        .map_err(LabError::file("writing in", &plan.work))?;
    enterable_dir(work.path())?;
    save_machine(plan)?;
    let mut lab = Lab {
        plan,
        work: work.path(),
        bars: Bars::new(runs(plan)),
        tally: Tally::default(),
        shown: BTreeSet::new(),
    };
    for experiment in &plan.experiments {
        lab.bars.total.set_prefix(experiment.name);
        lab.experiment(experiment)?;
    }
    lab.bars.step.finish_and_clear();
    lab.bars.total.finish_and_clear();
    Ok(lab.tally)
}

/// Holds the lock on the results. It is given up by name: closing would leave it with any child
/// between its fork and its exec.
#[derive(Debug)]
struct Alone(std::fs::File);

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}

/// Two labs at once would measure each other: the results' directory is locked for one.
fn alone(out: &Path) -> Result<Alone, LabError> {
    let path = out.join("lock");
    let file = std::fs::File::create(&path).map_err(LabError::file("creating", &path))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Alone(file)),
        Err(_) => Err(LabError::unavailable(
            out.display().to_string(),
            "another run of the lab writes its results there",
        )),
    }
}

fn runs(plan: &Plan<'_>) -> u64 {
    let each = plan
        .experiments
        .iter()
        .map(|experiment| match experiment.work {
            Work::Servers { rounds, cases } => {
                u64::from(plan.rounds(rounds))
                    * (plan.cases(cases).len() * plan.subjects.len()) as u64
            }
            Work::Embedded => u64::from(plan.cases.is_empty()),
        });
    each.sum()
}

fn save_machine(plan: &Plan<'_>) -> Result<(), LabError> {
    let dir = plan.out.join(plan.extent.name());
    std::fs::create_dir_all(&dir).map_err(LabError::file("creating", &dir))?;
    let file = dir.join("machine.json");
    let text = serde_json::to_vec_pretty(&machine(&plan.work));
    let text = text.map_err(|e| LabError::Usage(e.to_string()))?;
    std::fs::write(&file, text).map_err(LabError::file("writing", &file))
}

struct Lab<'a> {
    plan: &'a Plan<'a>,
    work: &'a Path,
    bars: Bars,
    tally: Tally,
    /// Experiments and cases whose settings have been printed.
    shown: BTreeSet<(&'static str, String)>,
}

/// Which run of the plan.
struct Turn<'a> {
    experiment: &'static Experiment,
    case: &'a Case,
    round: u32,
}

impl Lab<'_> {
    fn context(&self) -> Context<'_> {
        Context {
            work: self.work,
            clients: &self.plan.clients,
            port: self.plan.port,
            interrupted: self.plan.interrupted,
            progress: &self.bars.step,
            commands: RefCell::default(),
        }
    }

    fn experiment(&mut self, experiment: &'static Experiment) -> Result<(), LabError> {
        let Work::Servers { rounds, cases } = experiment.work else {
            if self.plan.cases.is_empty() {
                self.embedded()?;
            }
            return Ok(());
        };
        let cases = self.plan.cases(cases);
        for round in 1..=self.plan.rounds(rounds) {
            for case in &cases {
                self.case(&Turn {
                    experiment,
                    case,
                    round,
                })?;
            }
        }
        Ok(())
    }

    /// One case in one round, the subjects in turn. Where one has been measured by another build,
    /// all are measured anew: figures of different hours are not comparable.
    fn case(&mut self, turn: &Turn<'_>) -> Result<(), LabError> {
        let plan = self.plan;
        let mut order = in_turn(&plan.subjects, turn.round);
        // Should the lab be interrupted, the last of them says again that all are to be.
        order.sort_by_key(|candidate| self.is_of_another_build(turn, candidate));
        let stale = order
            .last()
            .is_some_and(|last| self.is_of_another_build(turn, last));
        for candidate in order {
            self.turn(turn, candidate, plan.again || stale)?;
            self.bars.total.inc(1);
        }
        Ok(())
    }

    fn earlier(&self, turn: &Turn<'_>, label: &str) -> Option<Record> {
        let (plan, name) = (self.plan, turn.experiment.name);
        let path = record::path(
            &plan.out,
            plan.extent,
            name,
            &turn.case.name,
            label,
            turn.round,
        );
        Record::load(&path)
    }

    fn is_of_another_build(&self, turn: &Turn<'_>, (label, candidate): &Candidate) -> bool {
        let Ok(subject) = candidate else { return false };
        self.earlier(turn, label)
            .is_some_and(|earlier| !earlier.build.is_empty() && earlier.build != subject.build())
    }

    fn embedded(&mut self) -> Result<(), LabError> {
        let (plan, context) = (self.plan, self.context());
        let records = embedded::run(&context, plan.extent, &plan.out, plan.again)?;
        drop(context);
        for record in records {
            self.keep(&record);
        }
        self.bars.total.inc(1);
        Ok(())
    }

    fn turn(
        &mut self,
        turn: &Turn<'_>,
        (label, candidate): &Candidate,
        anew: bool,
    ) -> Result<(), LabError> {
        let earlier = self.earlier(turn, label).filter(|e| e.hole.is_none());
        if let (Some(earlier), Ok(subject), false) = (earlier, candidate, anew)
            && earlier.build == subject.build()
        {
            self.tally.kept += 1;
            return Ok(());
        }
        let record = match candidate {
            Ok(subject) => {
                self.show_settings(turn);
                self.measure(turn, subject.as_ref())?
            }
            Err(reason) => empty(self.plan.extent, turn, label, Some(reason.clone())),
        };
        self.keep(&record);
        Ok(())
    }

    /// Shows the settings of a case's servers before the case's first run.
    fn show_settings(&mut self, turn: &Turn<'_>) {
        let (name, case) = (turn.experiment.name, turn.case);
        if self.shown.insert((name, case.name.clone())) {
            let settings = case.settings.iter().map(|(n, v)| format!("{n} = {v}"));
            let settings: Vec<String> = settings.collect();
            let settings = settings.join("; ");
            self.bars.say(&format!("{name}, {}: {settings}", case.name));
        }
    }

    /// Saves a record, and says what it holds. A hole does not take the place of a result of the
    /// same build, nor of any when it only says that the subject is not to be had now. A record
    /// that cannot be saved is a hole too, and the others go on.
    fn keep(&mut self, record: &Record) {
        self.bars.say(&summary(record));
        if record.hole.is_some() {
            self.tally.holes += 1;
            if let Some(good) = good(record, &self.plan.out) {
                let line = format!("{:>9} the result of {} is kept", "", good.started);
                self.bars.say(&line);
                return;
            }
        }
        match record.save(&self.plan.out) {
            Ok(_) => self.tally.measured += u32::from(record.hole.is_none()),
            Err(error) => {
                self.tally.holes += u32::from(record.hole.is_none());
                let line = format!("{:>9} it is lost: {}", "", error.reason());
                self.bars.say(&line);
            }
        }
    }

    /// One run. Only the user's interrupt is an error; everything else is a hole.
    fn measure(&self, turn: &Turn<'_>, subject: &dyn Subject) -> Result<Record, LabError> {
        let mut record = empty(self.plan.extent, turn, subject.label(), None);
        record.version = subject.version();
        record.build = subject.build();
        let names = turn.case.switch;
        if !names.is_empty() && !turn.case.default && !names.iter().any(|name| subject.knows(name))
        {
            let names = names.join(" or ");
            record.hole = Some(format!("{} has no setting {names}", subject.label()));
            return Ok(record);
        }
        let context = self.context();
        let started = Instant::now();
        let outcome = perform(&context, turn.case, subject, &mut record);
        record.seconds = started.elapsed().as_secs_f64();
        record.commands = shortened(&context.commands.take(), self.work);
        match outcome {
            Ok(()) => {}
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(error) => record.hole = Some(error.reason()),
        }
        Ok(record)
    }
}

/// The result that a hole would wrongly replace.
fn good(hole: &Record, out: &Path) -> Option<Record> {
    let path = record::path(
        out,
        hole.extent,
        &hole.experiment,
        &hole.case,
        &hole.subject,
        hole.round,
    );
    let earlier = Record::load(&path)?;
    let same = hole.build.is_empty() || hole.build == earlier.build;
    (earlier.hole.is_none() && same).then_some(earlier)
}

fn perform(
    context: &Context<'_>,
    case: &Case,
    subject: &dyn Subject,
    record: &mut Record,
) -> Result<(), LabError> {
    require_space(context.work, case.space_mb)?;
    if case
        .steps
        .iter()
        .any(|step| matches!(step, Step::SlowDisk(_)))
    {
        DiskGroup::create(context.work, "trial")?;
    }
    let mut bench = Bench::start(context, subject, case)?;
    record.settings.clone_from(bench.settings());
    record.missing = bench.missing().to_vec();
    let outcome = case
        .steps
        .iter()
        .try_for_each(|step: &Step| bench.step(step));
    record.rows = std::mem::take(&mut bench.rows);
    record.environment = std::mem::take(&mut bench.environment);
    outcome
}

fn empty(extent: Extent, turn: &Turn<'_>, label: &str, hole: Option<String>) -> Record {
    Record {
        format: FORMAT,
        experiment: turn.experiment.name.to_owned(),
        case: turn.case.name.clone(),
        subject: label.to_owned(),
        version: String::new(),
        build: String::new(),
        extent,
        round: turn.round,
        started: record::now(),
        seconds: 0.0,
        hole,
        settings: crate::subject::Settings::new(),
        missing: Vec::new(),
        environment: Vec::new(),
        commands: Vec::new(),
        rows: Vec::new(),
    }
}

/// Command lines without the random names of the run's own directories.
fn shortened(commands: &[String], work: &Path) -> Vec<String> {
    let work = work.display().to_string();
    let shorten = |line: &String| {
        let words = line.replace(&work, "WORK");
        let words = words
            .split(' ')
            .map(|word| match word.split_once("WORK/case-") {
                Some((before, rest)) => {
                    let rest = rest.split_once('/').map_or("", |(_, rest)| rest);
                    format!("{before}WORK/{rest}")
                }
                None if word.starts_with("--log-prefix=") => "--log-prefix=LOG".to_owned(),
                None => word.to_owned(),
            });
        words.collect::<Vec<String>>().join(" ")
    };
    commands.iter().map(shorten).collect()
}

/// One line for the terminal.
fn summary(record: &Record) -> String {
    let head = format!(
        "{:<9} {:<14} {:<28} {:>6.1} s ",
        record.experiment, record.subject, record.case, record.seconds
    );
    if let Some(reason) = &record.hole {
        return format!("{head} no result: {reason}");
    }
    let figures = crate::experiments::named(&record.experiment).map_or(&[][..], |e| e.figures);
    let parts = record.rows.iter().filter_map(|row| {
        if row.hole.is_some() {
            return Some(format!("{}: –", row.label));
        }
        let judged = |f: &&Figure| f.better != Better::Neither && row.figures.contains_key(f.key);
        let figure = figures.iter().find(judged)?;
        let value = row.figures.get(figure.key)?;
        Some(format!(
            "{}: {} {}",
            row.label,
            crate::report::number(*value),
            figure.unit
        ))
    });
    format!("{head} {}", parts.collect::<Vec<_>>().join(" │ "))
}

/// The order of turns in a round: the last of one round is the first of the next, since what came
/// before may have used up what a shared machine had to give.
fn in_turn<T>(subjects: &[T], round: u32) -> Vec<&T> {
    let mut order: Vec<&T> = subjects.iter().collect();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::tests_support::Scripted;
    use std::sync::atomic::Ordering;

    fn plan<'a>(out: &Path, stop: &'a AtomicBool, subjects: Vec<Candidate>) -> Plan<'a> {
        Plan {
            experiments: vec![crate::experiments::named("freeze").unwrap()],
            extent: Extent::Quick,
            cases: Vec::new(),
            rounds: None,
            out: out.to_owned(),
            work: out.to_owned(),
            subjects,
            clients: PathBuf::from("/nowhere"),
            port: None,
            again: false,
            interrupted: stop,
        }
    }

    fn crashing(label: &str) -> Candidate {
        let script = "echo 'PANIC: could not write: No space left on device' >&2; exit 1";
        let subject: Box<dyn Subject> = Box::new(Scripted::new(label, script));
        (label.to_owned(), Ok(subject))
    }

    #[test]
    fn a_subject_that_fails_is_a_hole_and_the_others_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let absent = ("PostgreSQL 18".to_owned(), Err("no PyPI wheel".to_owned()));
        let plan = plan(
            dir.path(),
            &stop,
            vec![crashing("one"), absent, crashing("two")],
        );
        let tally = run(&plan).unwrap();
        assert_eq!((tally.measured, tally.kept, tally.holes), (0, 0, 3));
        let holes: Vec<(String, String)> = Record::load_all(dir.path())
            .into_iter()
            .map(|record| (record.subject, record.hole.unwrap()))
            .collect();
        let one = "one ended by itself (exit status: 1): PANIC: could not write: No space left on \
                   device";
        assert!(
            holes.contains(&("one".to_owned(), one.to_owned())),
            "{holes:?}"
        );
        assert!(holes.contains(&("PostgreSQL 18".to_owned(), "no PyPI wheel".to_owned())));
        assert_eq!(holes.len(), 3);
    }

    #[test]
    fn nobody_is_always_the_first() {
        let orders = [1, 2, 3].map(|round| in_turn(&["one", "two"], round));
        let there = vec![&"one", &"two"];
        let back = vec![&"two", &"one"];
        assert_eq!(orders, [there.clone(), back, there]);
    }

    #[test]
    fn only_the_cases_that_are_asked_for_are_run() {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let mut plan = plan(dir.path(), &stop, vec![crashing("one")]);
        plan.rounds = Some(2);
        plan.cases = vec!["FREEZE".to_owned()];
        assert!(plan.check().is_ok());
        assert_eq!(run(&plan).unwrap().holes, 2);
        plan.cases = vec!["no such".to_owned()];
        let reason = plan.check().unwrap_err().reason();
        assert!(reason.ends_with("there are VACUUM FREEZE"), "{reason}");
    }

    #[test]
    fn an_interrupted_lab_keeps_what_it_has_and_goes_on_there() {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let subject = crashing("one");
        let build = subject.1.as_ref().map(|s| s.build()).unwrap();
        let first = plan(dir.path(), &stop, vec![subject]);
        run(&first).unwrap();
        let mut record = Record::load_all(dir.path()).pop().unwrap();
        record.hole = None;
        record.save(dir.path()).unwrap();
        stop.store(true, Ordering::Relaxed);
        // Kept without a server, so that even an interrupted lab gets past it.
        assert_eq!(run(&first).unwrap().kept, 1);
        assert_eq!(Record::load_all(dir.path())[0].build, build);
        let again = Plan {
            again: true,
            subjects: vec![(
                "one".to_owned(),
                Ok(Box::new(Scripted::new("one", "sleep 1000"))),
            )],
            ..first
        };
        assert!(matches!(run(&again), Err(LabError::Interrupted)));
        assert!(Record::load_all(dir.path())[0].hole.is_none());
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 2, "only the results and the lock: {left:?}");
    }

    /// A results' directory with a result of each of `labels`.
    fn with_results(labels: &[&str], stop: &AtomicBool) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let subjects = labels.iter().map(|label| crashing(label)).collect();
        run(&plan(dir.path(), stop, subjects)).unwrap();
        for mut record in Record::load_all(dir.path()) {
            record.hole = None;
            record.save(dir.path()).unwrap();
        }
        dir
    }

    fn results(dir: &Path) -> Vec<(String, bool)> {
        let records = Record::load_all(dir).into_iter();
        records
            .map(|record| (record.subject, record.hole.is_none()))
            .collect()
    }

    #[test]
    fn a_new_build_of_one_subject_has_all_measured_anew() {
        let stop = AtomicBool::new(false);
        let dir = with_results(&["one", "two"], &stop);
        let same = plan(dir.path(), &stop, vec![crashing("one"), crashing("two")]);
        assert_eq!(run(&same).unwrap().kept, 2);
        let other: Box<dyn Subject> = Box::new(Scripted::new("one", "echo 'FATAL: x' >&2; exit 2"));
        let changed = ("one".to_owned(), Ok(other));
        let tally = run(&plan(dir.path(), &stop, vec![changed, crashing("two")])).unwrap();
        assert_eq!((tally.kept, tally.holes), (0, 2));
        // The new build has no result; that of the old one is not its.
        let expected = [("one".to_owned(), false), ("two".to_owned(), true)];
        assert_eq!(results(dir.path()), expected);
    }

    #[test]
    fn a_hole_does_not_replace_a_result_of_the_same_build_or_of_an_absent_subject() {
        let stop = AtomicBool::new(false);
        let dir = with_results(&["one", "two"], &stop);
        let absent = ("two".to_owned(), Err("not installed".to_owned()));
        let mut plan = plan(dir.path(), &stop, vec![crashing("one"), absent]);
        plan.again = true;
        assert_eq!(run(&plan).unwrap().holes, 2);
        let expected = ["one", "two"].map(|label| (label.to_owned(), true));
        assert_eq!(results(dir.path()), expected);
    }

    #[test]
    fn a_record_that_cannot_be_saved_does_not_end_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        std::fs::create_dir(dir.path().join("quick")).unwrap();
        std::fs::write(dir.path().join("quick/freeze"), "no directory").unwrap();
        let plan = plan(dir.path(), &stop, vec![crashing("one"), crashing("two")]);
        let tally = run(&plan).unwrap();
        assert_eq!((tally.measured, tally.holes), (0, 2));
    }

    #[test]
    fn a_second_lab_does_not_write_where_one_is_at_work() {
        let dir = tempfile::tempdir().unwrap();
        let first = alone(dir.path()).unwrap();
        let reason = alone(dir.path()).unwrap_err().reason();
        assert!(reason.ends_with("another run of the lab writes its results there"));
        drop(first);
        alone(dir.path()).unwrap();
    }

    #[test]
    fn command_lines_lose_the_names_of_the_moment() {
        let work = Path::new("/var/tmp/evenkeel-lab-x");
        let lines = ["postgres -D /var/tmp/evenkeel-lab-x/case-abc/data -p 5".to_owned()];
        assert_eq!(shortened(&lines, work), ["postgres -D WORK/data -p 5"]);
    }
}
