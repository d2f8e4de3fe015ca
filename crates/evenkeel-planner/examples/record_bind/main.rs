//! Records what PostgreSQL says of the statements that the binder's test asks about: columns and
//! parameters, or the error. `record_bind PORT` wants a server without password on 127.0.0.1 and
//! writes `answers.txt` and `clients.txt` of `tests/bind`; it makes and drops the tables of
//! `schema.txt` there.

mod mistakes;
mod statements;
mod wire;

use std::fmt::Write as _;
use std::io;

use wire::{Answer, Connection};

const SCHEMA: &str = include_str!("../../tests/bind/schema.txt");

/// The commands that make the tables.
fn schema() -> String {
    let mut sql = String::from(
        "SET client_min_messages = error; DROP SCHEMA IF EXISTS public, other CASCADE; \
         CREATE SCHEMA public; CREATE SCHEMA other;",
    );
    for table in SCHEMA.split("\n\n") {
        let mut parts = Vec::new();
        let mut name = "";
        for line in table.lines() {
            if let Some(given) = line.strip_prefix("table ") {
                name = given;
            } else if let Some(key) = line.strip_prefix("key ") {
                parts.push(format!("PRIMARY KEY ({})", key.replace(' ', ", ")));
            } else if !line.is_empty() {
                parts.push(line.replace(" notnull", " NOT NULL"));
            }
        }
        let _ = write!(sql, "CREATE TABLE {name} ({});", parts.join(", "));
    }
    sql
}

fn one_line(text: &str) -> String {
    text.replace('\n', "\\n")
}

fn write_answer(out: &mut String, statement: &str, answer: &Answer) {
    let _ = writeln!(out, "S {statement}");
    let field = |code| {
        answer
            .error
            .iter()
            .find(|(c, _)| *c == code)
            .map(|(_, text)| text)
    };
    if answer.error.is_empty() {
        for (name, oid, modifier) in &answer.columns {
            // The row type of a table has another oid in each recording.
            let oid = if *oid < 16_384 {
                oid.to_string()
            } else {
                "row".to_owned()
            };
            let _ = writeln!(out, "C {oid} {modifier} {name}");
        }
        for oid in &answer.params {
            let _ = writeln!(out, "P {oid}");
        }
    }
    for (key, code) in [('E', 'C'), ('M', 'M'), ('D', 'D'), ('H', 'H'), ('@', 'P')] {
        if let Some(text) = field(code) {
            let _ = writeln!(out, "{key} {}", one_line(text));
        }
    }
    out.push('\n');
}

/// Writes what PostgreSQL says of the statements.
fn record(connection: &mut Connection, all: &[String], file: &str) -> io::Result<()> {
    let mut out = String::new();
    for statement in all {
        let answer = connection.describe(statement)?;
        write_answer(&mut out, statement, &answer);
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bind/");
    std::fs::write(format!("{root}{file}"), out)?;
    println!("{} statements in {file}", all.len());
    Ok(())
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let port = port.ok_or_else(|| io::Error::other("the server's port is wanted"))?;
    let mut connection = Connection::open(port)?;
    let made = connection.run(&schema())?;
    if let Some((_, message)) = made.error.iter().find(|(code, _)| *code == 'M') {
        return Err(io::Error::other(message.clone()));
    }
    let mut all = statements::all();
    all.extend(mistakes::all());
    let mut seen = std::collections::HashSet::new();
    all.retain(|statement| seen.insert(statement.clone()));
    record(&mut connection, &all, "answers.txt")?;
    let clients = include_str!("clients.sql").lines();
    let clients: Vec<String> = clients
        .filter(|line| !line.starts_with("--"))
        .map(str::to_owned)
        .collect();
    record(&mut connection, &clients, "clients.txt")
}
