//! Statements with what they give, from files.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use evenkeel_sql::{Session, SqlResult, StatementResult};

use crate::harness::{open, run, session};

/// One step of a file.
#[derive(Debug)]
struct Step {
    line: usize,
    session: String,
    sql: String,
    expect: Expect,
}

#[derive(Debug)]
enum Expect {
    Ok,
    Error { sqlstate: String, part: String },
    Rows { sorted: bool, rows: Vec<String> },
    Tag(String),
}

fn parse(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut session = String::from("main");
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("session ") {
            session = name.to_owned();
            continue;
        }
        let mut words = line.splitn(4, ' ');
        let kind = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let mut sql = String::new();
        let mut rows = Vec::new();
        let mut in_rows = false;
        while let Some((_, next)) = lines.next_if(|(_, next)| !next.trim_end().is_empty()) {
            if next == "----" {
                in_rows = true;
            } else if in_rows {
                rows.push(next.to_owned());
            } else {
                sql.push_str(next);
                sql.push('\n');
            }
        }
        let expect = match kind {
            ("statement", "ok") => Expect::Ok,
            ("statement", "tag") => Expect::Tag(rest(line, 2)),
            ("statement" | "query", "error") => Expect::Error {
                sqlstate: words.next().unwrap_or("").to_owned(),
                part: words.next().unwrap_or("").to_owned(),
            },
            ("query", order) => Expect::Rows {
                sorted: order == "sorted",
                rows,
            },
            _ => panic!("line {}: {line}", number + 1),
        };
        steps.push(Step {
            line: number + 1,
            session: session.clone(),
            sql,
            expect,
        });
    }
    steps
}

fn rest(line: &str, words: usize) -> String {
    line.split(' ').skip(words).collect::<Vec<_>>().join(" ")
}

async fn run_file(path: &Path) -> Result<(), String> {
    let engine = open();
    let mut sessions: HashMap<String, Session> = HashMap::new();
    let text = std::fs::read_to_string(path).unwrap();
    let mut failures = String::new();
    for step in parse(&text) {
        let session = sessions
            .entry(step.session.clone())
            .or_insert_with(|| session(&engine));
        let sql = step
            .sql
            .split_once("<<\n")
            .map_or(step.sql.as_str(), |(head, _)| head);
        let outcome = run_with_data(session, sql, &step.sql).await;
        if let Some(problem) = compare(&step.expect, outcome) {
            let _ = writeln!(
                failures,
                "{}:{}: {}{problem}",
                path.display(),
                step.line,
                step.sql
            );
        }
    }
    drop(sessions);
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures)
    }
}

/// Runs `sql`; a COPY in it finds its data in `whole`, behind `<<`.
async fn run_with_data(
    session: &mut Session,
    sql: &str,
    whole: &str,
) -> SqlResult<(Vec<String>, String)> {
    let Some((_, data)) = whole.split_once("<<\n") else {
        return run(session, sql).await;
    };
    let mut query = session.simple(sql);
    let mut tag = String::new();
    while let Some(result) = session.next_result(&mut query).await? {
        if let StatementResult::CopyIn(_) = result {
            // In pieces, so that lines are cut.
            for piece in data.as_bytes().chunks(7) {
                session.copy_data(piece).await?;
            }
            tag = session.copy_done().await?;
        }
    }
    Ok((Vec::new(), tag))
}

fn compare(expect: &Expect, outcome: SqlResult<(Vec<String>, String)>) -> Option<String> {
    match (expect, outcome) {
        (Expect::Ok, Ok(_)) => None,
        (Expect::Tag(wanted), Ok((_, tag))) if *wanted == tag => None,
        (Expect::Tag(_), Ok((_, tag))) => Some(format!("  tag: {tag}")),
        (Expect::Error { sqlstate, part }, Err(error)) => {
            let message = format!("{} {:?}", error.message, error.fields);
            let fits = error.sqlstate.as_str() == sqlstate && message.contains(part.as_str());
            (!fits).then(|| format!("  error {}: {message}", error.sqlstate))
        }
        (Expect::Rows { sorted, rows }, Ok((got, _))) => {
            // A value may have lines of its own, as it has in the file.
            let lines = got
                .iter()
                .flat_map(|row| row.split('\n').map(str::to_owned));
            let mut got: Vec<String> = lines.collect();
            if *sorted {
                got.sort();
            }
            (*rows != got).then(|| format!("  got:\n{}", got.join("\n")))
        }
        (_, Err(error)) => Some(format!(
            "  error {}: {} {:?}",
            error.sqlstate, error.message, error.fields
        )),
        (Expect::Error { .. }, Ok((rows, tag))) => {
            Some(format!("  no error, but {tag}\n{}", rows.join("\n")))
        }
    }
}

fn files() -> Vec<PathBuf> {
    let directory =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs it")).join("tests/slt");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn every_statement_gives_what_its_file_says() {
    let only = std::env::var("SLT").ok();
    let mut failures = String::new();
    for file in files() {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        if let Err(found) = run_file(&file).await {
            failures.push_str(&found);
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}
