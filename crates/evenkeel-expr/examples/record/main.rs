//! Records PostgreSQL's answers for `tests/aggregates.txt` and files of calls.
//!
//! ```sh
//! cargo run -p evenkeel-expr --example record -- aggregates FILE SEED psql -h HOST -p PORT
//! cargo run -p evenkeel-expr --example record -- calls FILE psql -h HOST -p PORT
//! ```
//!
//! `aggregates` makes new cases from a seed, `calls` asks again for the cases of a file. The server
//! is one in the locale C whose `TimeZone` is `America/New_York` (`PGTZ`).

use std::io::Write as _;
use std::process::{Command, Stdio};

mod aggregates;
mod calls;

type Failure = Box<dyn std::error::Error>;

/// Lines of a file: the case, the statement that answers it, and the answer.
struct Case {
    line: String,
    sql: Option<String>,
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: record (aggregates FILE SEED | calls FILE) psql ARGUMENT…";
    let (Some(kind), Some(file)) = (args.next(), args.next()) else {
        return Err(usage.into());
    };
    let cases = match kind.as_str() {
        "aggregates" => aggregates::cases(args.next().ok_or(usage)?.parse()?),
        "calls" => calls::cases(&std::fs::read_to_string(&file)?),
        _ => return Err(usage.into()),
    };
    let answers = ask(&script(&cases), &args.next().ok_or(usage)?, args)?;
    let mut answers = answers.lines();
    let mut out = String::new();
    for case in &cases {
        out.push_str(&case.line);
        if case.sql.is_some() {
            out.push('\t');
            out.push_str(answers.next().ok_or("fewer answers than cases")?);
        }
        out.push('\n');
    }
    std::fs::write(&file, out)?;
    Ok(())
}

/// One statement for each case, which answers in one line: a text, or `!` with SQLSTATE and
/// message.
fn script(cases: &[Case]) -> String {
    let mut out = String::from(
        "SET TimeZone = 'America/New_York';
CREATE FUNCTION pg_temp.ask(q text) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE r text; s text; m text; BEGIN EXECUTE q INTO r;
RETURN coalesce(replace(replace(r, E'\\n', '\\n'), E'\\t', '\\t'), '\\N');
EXCEPTION WHEN OTHERS THEN
GET STACKED DIAGNOSTICS s = RETURNED_SQLSTATE, m = MESSAGE_TEXT;
RETURN '!' || s || ' ' || m; END $f$;\n",
    );
    for sql in cases.iter().filter_map(|case| case.sql.as_ref()) {
        out.push_str(&format!("SELECT pg_temp.ask($q${sql}$q$);\n"));
    }
    out
}

fn ask(script: &str, program: &str, args: impl Iterator<Item = String>) -> Result<String, Failure> {
    let mut child = Command::new(program)
        .args(args)
        .args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("psql has no input")?;
    let script = script.to_owned();
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| "the writer panicked")??;
    if !output.status.success() {
        return Err("psql failed".into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
