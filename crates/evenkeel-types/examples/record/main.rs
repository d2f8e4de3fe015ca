//! Records PostgreSQL's answers for `tests/recorded`.
//!
//! ```sh
//! cargo run -p evenkeel-types --example record -- tests/recorded/numeric.txt psql -h HOST -p PORT
//! ```
//!
//! A file is made of sections. A section's first line is `# name: SQL`, where `$1`, `$2` … stand
//! for the fields of a case; each line after it is a case: fields, and the answer behind ` = `.
//! `# set NAME VALUE` is a setting of the session. Only the answers are rewritten. Blanks within a
//! field are written `~`. `generate KIND SEED` instead of a command writes new cases, without
//! answers.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

mod datetimes;
mod intervals;
mod numerics;
mod random;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(program)) = (args.next(), args.next()) else {
        return Err("usage: record FILE (generate KIND SEED | psql ARGUMENT…)".into());
    };
    if program == "generate" {
        let kind = args.next().unwrap_or_default();
        let seed: u64 = args.next().unwrap_or_default().parse()?;
        let cases = match kind.as_str() {
            "numeric" => numerics::generate(seed),
            "datetime" => datetimes::generate(seed),
            "interval" => intervals::generate(seed),
            other => return Err(format!("no cases of {other}").into()),
        };
        std::fs::write(&file, format!("# seed {seed}\n{cases}"))?;
        return Ok(());
    }
    let text = std::fs::read_to_string(&file)?;
    let answers = ask(&script(&text), &program, args)?;
    let mut answers = answers.lines();
    let mut out = String::new();
    for line in text.lines() {
        match case_of(line) {
            Some(fields) => {
                let answer = answers
                    .next()
                    .ok_or("PostgreSQL gave fewer answers than asked for")?;
                writeln!(out, "{fields} = {}", shortened(answer))?;
            }
            None => writeln!(out, "{line}")?,
        }
    }
    std::fs::write(&file, out)?;
    Ok(())
}

/// The fields of a case; `None` for a line that is none.
fn case_of(line: &str) -> Option<&str> {
    if line.starts_with('#') || line.is_empty() {
        return None;
    }
    Some(line.rsplit_once(" = ").map_or(line, |(fields, _)| fields))
}

/// Long answers are kept by their length, beginning and hash (FNV-1a).
fn shortened(answer: &str) -> String {
    if answer.len() <= 200 {
        return answer.to_owned();
    }
    let hash = answer.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{}… {} {hash:016x}", &answer[..40], answer.len())
}

/// One statement for each case, which answers in one line.
fn script(text: &str) -> String {
    let mut out = String::from(
        "CREATE FUNCTION pg_temp.ask(q text) RETURNS text LANGUAGE plpgsql AS $f$
DECLARE r text; s text; m text; d text; BEGIN EXECUTE 'SELECT (' || q || ')::text' INTO r;
RETURN coalesce(r, 'NULL'); EXCEPTION WHEN OTHERS THEN
GET STACKED DIAGNOSTICS s = RETURNED_SQLSTATE, m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL;
RETURN '!' || s || ' ' || m || CASE WHEN d = '' THEN '' ELSE ' / ' || d END; END $f$;\n",
    );
    let mut template = "";
    for line in text.lines() {
        if let Some((name, value)) = line
            .strip_prefix("# set ")
            .and_then(|set| set.split_once(' '))
        {
            let _ = writeln!(out, "SET {name} = '{value}';");
            continue;
        }
        if let Some((_, sql)) = line
            .strip_prefix("# ")
            .and_then(|head| head.split_once(": "))
        {
            template = sql;
        }
        let Some(fields) = case_of(line) else {
            continue;
        };
        let mut sql = template.to_owned();
        for (at, field) in fields.split(' ').enumerate() {
            sql = sql.replace(&format!("${}", at + 1), &field.replace('~', " "));
        }
        let _ = writeln!(out, "SELECT pg_temp.ask($q${sql}$q$);");
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
