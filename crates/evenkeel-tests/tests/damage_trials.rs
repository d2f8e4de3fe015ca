//! Every kind of file in a data directory is damaged in every way, after a crash and after a clean
//! end. The damage is named when the server starts, when a statement reads it or when
//! `check` looks, or it changes no answer. Nothing is wrong in silence.
//!
//! `EVENKEEL_TRIALS` sets how many trials (the default keeps the suite short), `EVENKEEL_SEED` the
//! seed, which is printed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use evenkeel_tests::scale::{scale, seeded};
use evenkeel_tests::server::{TestServer, evenkeel};
use rand::Rng;
use rand::rngs::SmallRng;

const TRIALS: usize = 8;
const PAGE: u64 = 8192;
const SETTINGS: [&str; 3] = ["fsync=off", "shared_buffers=4MB", "autovacuum=off"];

/// Statements whose answers are the whole content, once by the heaps and once by the indexes.
const ORACLE: [&str; 12] = [
    "SELECT count(*), sum(a), md5(string_agg(b, ',' ORDER BY a)) FROM plain",
    "SET enable_seqscan = off; SELECT count(*), sum(k), min(k), max(k) FROM plain WHERE k >= 0",
    "SET enable_seqscan = off; SELECT count(*), sum(a) FROM plain WHERE a > 0",
    "SET enable_seqscan = off; \
     SELECT md5(string_agg(b, ',' ORDER BY a)) FROM plain WHERE a BETWEEN 100 AND 400",
    "SELECT count(*), sum(n), sum(id), sum(m) FROM counters",
    "SELECT count(*), sum(a) FROM late",
    "SELECT count(*), max(seq), sum(seq) FROM ledger",
    "SELECT count(*), sum(length(c)) FROM emptied",
    "SELECT string_agg(relname || relkind::text, ',' ORDER BY relname) FROM pg_class \
     WHERE relname IN ('plain', 'plain_pkey', 'plain_k', 'counters', 'ledger', 'emptied', 's')",
    "SELECT count(*), min(attname), max(attname) FROM pg_attribute a JOIN pg_class c \
     ON c.oid = a.attrelid WHERE c.relname = 'plain'",
    "SELECT last_value FROM s",
    "SELECT count(*), sum(attnum) FROM pg_attribute WHERE attrelid >= 16384 AND attnum > 0",
];

fn answers(server: &TestServer) -> Vec<Result<String, String>> {
    let answer = |sql: &&str| {
        let verbose = ["-X", "-q", "-A", "-t", "-v", "VERBOSITY=verbose", "-v"];
        let mut arguments = verbose.to_vec();
        arguments.push("ON_ERROR_STOP=1");
        for part in sql.split("; ") {
            arguments.extend(["-c", part]);
        }
        let out = server.psql_with(&arguments);
        if out.status.success() {
            Ok(out.stdout)
        } else {
            Err(out.stderr)
        }
    };
    ORACLE.iter().map(answer).collect()
}

fn whole(server: &TestServer) -> Vec<String> {
    let answers = answers(server).into_iter();
    answers.map(|answer| answer.expect("undamaged")).collect()
}

/// Directories to damage copies of, and their contents.
struct Template {
    clean: PathBuf,
    /// Its answers.
    at_rest: Vec<String>,
    killed: PathBuf,
    /// The answers after each transaction since the last start of the one that was killed: one
    /// whose log lost its end is at one of these.
    states: Vec<Vec<String>>,
    /// The directory before the last changes, after a clean end.
    older: PathBuf,
}

const SETUP: &str = "
    CREATE TABLE plain (a int PRIMARY KEY, k int, b text);
    INSERT INTO plain SELECT g, g % 500, 'row ' || g || repeat('x', g % 90)
        FROM generate_series(1, 8000) g;
    CREATE INDEX plain_k ON plain (k);
    CREATE TABLE counters (id int PRIMARY KEY, n int);
    INSERT INTO counters SELECT g, 0 FROM generate_series(1, 300) g;
    CREATE TABLE ledger (seq int PRIMARY KEY);
    CREATE TABLE emptied (a int PRIMARY KEY, c text);
    INSERT INTO emptied SELECT g, repeat('e', 100) FROM generate_series(1, 2000) g;
    CREATE SEQUENCE s;
    SELECT nextval('s');
    VACUUM plain";

const LATER: &str = "
    INSERT INTO plain SELECT g, g % 700, 'late ' || g FROM generate_series(8001, 9500) g;
    UPDATE plain SET b = b || '!' WHERE a % 7 = 0;
    UPDATE plain SET k = k + 1 WHERE a % 5 = 0;
    DELETE FROM plain WHERE a % 11 = 0;
    DELETE FROM emptied WHERE a > 200;
    UPDATE counters SET n = n + 1;
    SELECT nextval('s') FROM generate_series(1, 100);
    VACUUM plain;
    CREATE TABLE late AS SELECT g AS a FROM generate_series(1, 50) g;
    ALTER TABLE counters ADD COLUMN m int DEFAULT 7;
    VACUUM emptied;
    CHECKPOINT";

impl Template {
    fn make(dir: &Path) -> Template {
        let data = dir.join("data");
        let [older, clean, killed] = ["older", "clean", "killed"].map(|name| dir.join(name));
        let server = TestServer::start(&data, &SETTINGS);
        run_script(&server, SETUP);
        assert!(server.stop().success());
        copy(&data, &older);
        let server = TestServer::start(&data, &SETTINGS);
        run_script(&server, LATER);
        let at_rest = whole(&server);
        assert!(server.stop().success());
        copy(&data, &clean);
        let server = TestServer::start(&data, &SETTINGS);
        let mut states = vec![whole(&server)];
        for seq in 1..=24 {
            server.psql(&transaction(seq)).ok();
            if seq == 12 {
                server.psql("CHECKPOINT").ok();
            }
            states.push(whole(&server));
        }
        server.kill();
        copy(&data, &killed);
        Template {
            clean,
            at_rest,
            killed,
            states,
            older,
        }
    }
}

/// Statement by statement, since VACUUM runs in no transaction.
fn run_script(server: &TestServer, script: &str) {
    let mut arguments = vec!["-X", "-q", "-v", "ON_ERROR_STOP=1"];
    for statement in script.split(';') {
        arguments.extend(["-c", statement]);
    }
    server.psql_with(&arguments).ok();
}

/// One transaction in several tables.
fn transaction(seq: i32) -> String {
    format!(
        "BEGIN; INSERT INTO ledger VALUES ({seq}); \
         UPDATE counters SET n = n + {seq} WHERE id % 24 = {}; \
         UPDATE plain SET k = k + 1000, b = b || '{seq}' WHERE a % 240 = {seq}; \
         DELETE FROM plain WHERE a % 331 = {seq}; \
         INSERT INTO plain SELECT g, {seq}, repeat('n', 50) \
             FROM generate_series({seq} * 100 + 10000, {seq} * 100 + 10050) g; \
         CREATE TABLE made{seq} (a int PRIMARY KEY); INSERT INTO made{seq} VALUES ({seq}); \
         INSERT INTO late VALUES ({seq}); COMMIT",
        seq % 24
    )
}

fn copy(from: &Path, to: &Path) {
    let mut cp = std::process::Command::new("cp");
    let done = cp
        .args(["-r", "--sparse=always"])
        .arg(from)
        .arg(to)
        .status();
    assert!(done.is_ok_and(|status| status.success()), "cp");
}

/// All files of a directory, by kind.
fn kinds(data: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut kinds: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut dirs = vec![data.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let relative = path.strip_prefix(data).unwrap().to_owned();
            kinds.entry(kind(&relative)).or_default().push(relative);
        }
    }
    kinds.values_mut().for_each(|files| files.sort());
    kinds
}

/// Which kind of file a path below the data directory names.
fn kind(relative: &Path) -> String {
    let name = relative.file_name().unwrap().to_str().unwrap();
    let dir = relative.parent().unwrap().to_str().unwrap();
    if dir == "base" {
        let system = name.split(['_', '.']).next().and_then(|n| n.parse().ok());
        let system = system.is_some_and(|number: u64| number < 16_384);
        let owner = if system { "system" } else { "user" };
        let fork = name.split_once('_').map_or("main", |(_, fork)| fork);
        return format!("base {owner} {fork}");
    }
    match dir {
        "" => name.split('.').next().unwrap().to_owned(),
        _ => dir.to_owned(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Damage {
    Truncated,
    Zeroed,
    BlockZeroed,
    Flipped,
    Swapped,
    Older,
    Removed,
}

const DAMAGES: [Damage; 7] = [
    Damage::Truncated,
    Damage::Zeroed,
    Damage::BlockZeroed,
    Damage::Flipped,
    Damage::Swapped,
    Damage::Older,
    Damage::Removed,
];

/// One trial: which file of which directory, and how.
struct Trial {
    after_crash: bool,
    file: PathBuf,
    damage: Damage,
    what: String,
    /// Other files that the damage touches.
    others: Vec<String>,
}

impl Trial {
    /// Damages the copy in `data`; `None` where there is nothing to do.
    fn run(
        template: &Template,
        data: &Path,
        rng: &mut SmallRng,
        after_crash: bool,
        files: &[PathBuf],
        damage: Damage,
    ) -> Option<Trial> {
        let file = files[rng.random_range(0..files.len())].clone();
        let path = data.join(&file);
        let length = std::fs::metadata(&path).unwrap().len();
        let mut trial = Trial {
            after_crash,
            file,
            damage,
            what: String::new(),
            others: Vec::new(),
        };
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        // Half of the time within what the file holds, which may be a small part of it.
        let used = if rng.random() { length } else { held(&path) }.max(1);
        match damage {
            Damage::Truncated => {
                let mut to = rng.random_range(0..used);
                if rng.random() {
                    to -= to % PAGE;
                }
                trial.what = format!("to {to} of {length}");
                open().set_len(to).unwrap();
            }
            Damage::Zeroed => {
                let file = open();
                file.set_len(0).unwrap();
                file.set_len(length).unwrap();
            }
            Damage::BlockZeroed => {
                let block = rng.random_range(0..used) / PAGE;
                trial.what = format!("block {block}");
                let size = PAGE.min(length - block * PAGE) as usize;
                write_at(&mut open(), block * PAGE, &vec![0; size]);
            }
            Damage::Flipped if length == 0 => return None,
            Damage::Flipped => {
                let (at, bits) = (rng.random_range(0..used), rng.random_range(1..=255_u8));
                trial.what = format!("{bits:#x} at {at}");
                flip(&mut open(), at, bits);
            }
            Damage::Swapped => {
                let others: Vec<_> = files.iter().filter(|other| **other != trial.file).collect();
                let other = others.get(rng.random_range(0..others.len().max(1)))?;
                trial.what = format!("with {}", other.display());
                trial.others.push(other.display().to_string());
                let (other, aside) = (data.join(other), data.with_extension("swap"));
                std::fs::rename(&path, &aside).unwrap();
                std::fs::rename(&other, &path).unwrap();
                std::fs::rename(&aside, &other).unwrap();
            }
            Damage::Older => {
                let older = template.older.join(&trial.file);
                if !older.exists() {
                    return None;
                }
                std::fs::copy(older, &path).unwrap();
            }
            Damage::Removed => std::fs::remove_file(&path).unwrap(),
        }
        Some(trial)
    }

    fn name(&self) -> String {
        let after = if self.after_crash {
            "crash"
        } else {
            "clean end"
        };
        let file = self.file.display();
        format!("after a {after}: {file} {:?} {}", self.damage, self.what)
    }

    /// Whether a message names what was damaged.
    fn named(&self, message: &str) -> bool {
        let mut names = vec![self.file.display().to_string()];
        names.extend(self.others.iter().cloned());
        // A log segment is named by its own name, a fork by its file's number.
        names.iter().any(|name| {
            let last = name.rsplit('/').next().unwrap_or(name);
            let number = last.split(['_', '.']).next().unwrap_or(last);
            message.contains(last) || name.starts_with("base/") && message.contains(number)
        })
    }
}

/// Where the last byte of a file that is not zero ends.
fn held(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last as u64 + 1)
}

fn flip(file: &mut File, at: u64, bits: u8) {
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).unwrap();
    file.read_exact(&mut byte).unwrap();
    write_at(file, at, &[byte[0] ^ bits]);
}

fn write_at(file: &mut File, offset: u64, bytes: &[u8]) {
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(bytes).unwrap();
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Harmless,
    Refused,
    Named,
    /// A log that ends earlier than it did: an earlier state, whole.
    Earlier,
    Unnamed(String),
    Silent(String),
}

/// SQLSTATEs by which damage says that it is damage.
const DAMAGED: [&str; 3] = ["XX001", "XX002", "58P01"];

/// One look at the damaged directory through the server.
fn look(template: &Template, trial: &Trial, data: &Path) -> Verdict {
    let log = data.with_extension("log");
    let _ = std::fs::remove_file(&log);
    let server = match TestServer::try_start(data, &SETTINGS) {
        Ok(server) => server,
        Err(log) if log.contains("panicked") => return Verdict::Silent(log),
        Err(log) if trial.named(&log) => return Verdict::Refused,
        Err(log) => return Verdict::Unnamed(log),
    };
    let found = answers(&server);
    let said = server.log();
    let stopped = server.stop();
    let log = std::fs::read_to_string(&log).unwrap_or_default();
    if log.contains("panicked") || stopped.code().is_none() {
        return Verdict::Silent(format!("{stopped}: {log}"));
    }
    let states: &[Vec<String>] = if trial.after_crash {
        &template.states
    } else {
        std::slice::from_ref(&template.at_rest)
    };
    let last = states.last().unwrap();
    let mut named = false;
    for (sql, (got, expected)) in ORACLE.iter().zip(found.iter().zip(last)) {
        match got {
            Ok(got) if got == expected => {}
            Ok(_) if earlier(trial, states, &found) => return Verdict::Earlier,
            // Said once when it started is said.
            Ok(_) if trial.named(&warnings(&said)) => named = true,
            Ok(got) => return Verdict::Silent(format!("{sql}: {got} for {expected}\n{said}")),
            Err(error) if DAMAGED.iter().any(|state| error.contains(state)) => {
                if !trial.named(error) && !trial.named(&said) {
                    return Verdict::Unnamed(format!("{sql}: {error}\n{said}"));
                }
                named = true;
            }
            Err(error) => return Verdict::Silent(format!("{sql}: {error}\n{said}")),
        }
    }
    if named {
        Verdict::Named
    } else {
        Verdict::Harmless
    }
}

fn warnings(log: &str) -> String {
    let loud = |line: &&str| line.contains("WARN") || line.contains("ERROR");
    log.lines().filter(loud).collect::<Vec<_>>().join("\n")
}

/// Whether everything is as it was after one of the transactions before the last: nothing tells a
/// log whose end is gone from one that ended there.
fn earlier(trial: &Trial, states: &[Vec<String>], found: &[Result<String, String>]) -> bool {
    let log = trial.after_crash && trial.file.starts_with("wal");
    let same = |state: &Vec<String>| {
        let pairs = state.iter().zip(found);
        pairs
            .into_iter()
            .all(|(state, found)| found.as_ref() == Ok(state))
    };
    log && states.iter().any(same)
}

fn trial(template: &Template, dir: &Path, rng: &mut SmallRng) -> Option<(String, Verdict)> {
    let after_crash = rng.random();
    let data = dir.join("trial");
    let _ = std::fs::remove_dir_all(&data);
    let from = if after_crash {
        &template.killed
    } else {
        &template.clean
    };
    copy(from, &data);
    let kinds = kinds(&data);
    let (kind, files) = kinds.iter().nth(rng.random_range(0..kinds.len()))?;
    let damage = DAMAGES[rng.random_range(0..DAMAGES.len())];
    let trial = Trial::run(template, &data, rng, after_crash, files, damage)?;
    let mut verdict = look(template, &trial, &data);
    // Damage that was harmless stays so: the first look may have written over what it did not see.
    if verdict == Verdict::Harmless {
        verdict = look(template, &trial, &data);
        let check = evenkeel(&["check", &data.display().to_string()]);
        if verdict == Verdict::Harmless && !check.status.success() {
            let report = check.stdout + &check.stderr;
            verdict = if trial.named(&report) {
                Verdict::Named
            } else {
                Verdict::Unnamed(report)
            };
        }
    }
    Some((format!("{kind}: {}", trial.name()), verdict))
}

#[test]
fn damage_is_named_or_harmless_whatever_file_it_meets() {
    let trials = scale("EVENKEEL_TRIALS", TRIALS);
    let mut rng = seeded();
    let dir = tempfile::tempdir().unwrap();
    let template = Template::make(dir.path());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut done = 0;
    while done < trials {
        let Some((name, verdict)) = trial(&template, dir.path(), &mut rng) else {
            continue;
        };
        done += 1;
        let word = format!("{verdict:?}");
        let word = word.split('(').next().unwrap().to_owned();
        println!("{done} {word} {name}");
        *counts.entry(word).or_default() += 1;
        if let Verdict::Unnamed(why) | Verdict::Silent(why) = verdict {
            println!("    {}", why.replace('\n', "\n    "));
            wrong.push(name);
        }
    }
    println!("{trials} trials: {counts:?}");
    assert!(
        wrong.is_empty(),
        "{} of {trials}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
