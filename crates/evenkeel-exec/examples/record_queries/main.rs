//! Records what PostgreSQL answers to the statements that the test `queries` runs: columns and
//! rows, or the error. `record_queries PORT` wants a server without password on 127.0.0.1 and
//! writes `tests/queries/answers`; it makes and drops the tables of `tests/queries/schema.txt`.

mod generate;
mod lists;
mod wire;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use wire::{Answer, Connection};

const SCHEMA: &str = include_str!("../../tests/queries/schema.txt");

fn literal(field: &str) -> String {
    match field {
        "\\N" => "NULL".to_owned(),
        text => format!("'{}'", text.replace('\'', "''")),
    }
}

/// The commands that make one table and its rows.
fn table(text: &str) -> String {
    let (mut name, mut columns, mut after) = ("", Vec::new(), String::new());
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "table" => name = rest,
            "column" => columns.push(rest.replace(" notnull", " NOT NULL")),
            "key" => columns.push(format!("PRIMARY KEY ({rest})")),
            "index" => {
                let unique = rest.strip_prefix("unique ");
                let kind = if unique.is_some() { "UNIQUE" } else { "" };
                let _ = write!(
                    after,
                    "CREATE {kind} INDEX ON {name} ({});",
                    unique.unwrap_or(rest)
                );
            }
            _ => {
                let fields: Vec<_> = rest.split('|').map(literal).collect();
                let _ = write!(after, "INSERT INTO {name} VALUES ({});", fields.join(", "));
            }
        }
    }
    format!("CREATE TABLE {name} ({});{after}", columns.join(", "))
}

fn one_line(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn write_answer(out: &mut String, statement: &str, answer: &Answer) {
    let _ = writeln!(out, "S {statement}");
    let field = |code| answer.error.iter().find(|(c, _)| *c == code);
    if answer.error.is_empty() {
        for (name, oid, modifier) in &answer.columns {
            // The row type of a table has another oid in each recording.
            let oid = if *oid < 16_384 { *oid } else { 2_249 };
            let _ = writeln!(out, "C {oid} {modifier} {name}");
        }
        for row in &answer.rows {
            let fields = row.iter().map(|field| match field {
                Some(text) => one_line(text).replace('\t', "\\t"),
                None => "\\N".to_owned(),
            });
            let _ = writeln!(out, "R {}", fields.collect::<Vec<_>>().join("\t"));
        }
    }
    for (key, code) in [('E', 'C'), ('M', 'M')] {
        if let Some((_, text)) = field(code) {
            let _ = writeln!(out, "{key} {}", one_line(text));
        }
    }
    out.push('\n');
}

/// The statement over tables of which some columns are stored as text, for tables have no columns
/// of arrays or intervals.
fn with_types(statement: String) -> String {
    if statement.contains(" arrs") {
        let cast = "id, ai::int[] AS ai, at::text[] AS at";
        return format!("WITH arrs AS (SELECT {cast} FROM arrs) {statement}");
    }
    if statement.contains("times") && statement.contains("iv") {
        let cast = "id, d, tm, ts, tz, iv::interval AS iv, zone";
        return format!("WITH times AS (SELECT {cast} FROM times) {statement}");
    }
    statement
}

/// The statements of each area: those of the files, then those that are made.
fn areas(root: &Path) -> io::Result<BTreeMap<String, Vec<String>>> {
    let mut areas: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in fs::read_dir(root.join("examples/record_queries/statements"))? {
        let path = file?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(&path)?;
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("--"));
        let area = areas.entry(name.into_owned()).or_default();
        area.extend(lines.map(str::to_owned));
    }
    for (name, statements) in generate::areas() {
        areas.entry(name.to_owned()).or_default().extend(statements);
    }
    Ok(areas)
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let port = port.ok_or_else(|| io::Error::other("the server's port is wanted"))?;
    let mut connection = Connection::open(port)?;
    let tables: String = SCHEMA.split("\n\n").map(table).collect();
    let schema = format!(
        "SET client_min_messages = error; DROP SCHEMA IF EXISTS queries CASCADE; \
         CREATE SCHEMA queries; SET search_path = queries; SET timezone = 'Europe/Berlin'; SET statement_timeout = '10s'; {tables}"
    );
    let made = connection.run(&schema)?;
    if let Some((_, message)) = made.error.iter().find(|(code, _)| *code == 'M') {
        return Err(io::Error::other(message.clone()));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut seen, mut count) = (HashSet::new(), 0);
    for (name, statements) in areas(root)? {
        let mut out = String::new();
        for statement in statements.into_iter().map(with_types) {
            if seen.insert(statement.clone()) {
                let mut answer = connection.run(&statement)?;
                answer.columns = connection.columns(&statement)?;
                write_answer(&mut out, &statement, &answer);
                count += 1;
            }
        }
        fs::write(root.join(format!("tests/queries/answers/{name}.txt")), out)?;
    }
    connection.run("DROP SCHEMA queries CASCADE")?;
    println!("{count} statements");
    Ok(())
}
