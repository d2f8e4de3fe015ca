//! Runs the queries that stock psql sends for its `\d` commands, as captured from psql 15 and
//! 18 (`tests/psql/*.sql`), and compares the rows with those beside them (`*.out`), which are
//! PostgreSQL 18's for the same tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_engine::{Config, Database};
use evenkeel_io::SimDisk;
use evenkeel_sql::{Session, SessionParams, SqlConfig, SqlEngine, SqlResult, StatementResult};

const TABLES: &str = "
    create table accounts (
        id integer not null,
        owner character varying(40) not null default 'nobody'::character varying,
        balance numeric(12,2),
        note text,
        constraint accounts_pkey primary key (id)
    ) with (fillfactor=90);
    create index accounts_owner_idx on accounts (owner, balance desc);
    create table \"Odd Name\" (a bigint, unique (a));
    create unique index odd_uniq on \"Odd Name\" (a desc nulls last)";

/// Oids in the captured queries, and whose they are.
const OIDS: [(&str, &str); 3] = [
    ("16384", "accounts"),
    ("16392", "accounts_pkey"),
    ("16395", "\"Odd Name\""),
];

async fn rows(session: &mut Session, sql: &str) -> SqlResult<Vec<String>> {
    let mut query = session.simple(sql);
    let mut rows = Vec::new();
    while let Some(result) = session.next_result(&mut query).await? {
        if let StatementResult::Rows(mut stream) = result {
            while let Some(batch) = stream.next_batch(100).await? {
                let width = stream.columns().len();
                rows.extend(batch.iter().map(|body| decode(body, width)));
            }
        }
    }
    Ok(rows)
}

fn decode(body: &[u8], width: usize) -> String {
    let mut fields = Vec::new();
    let mut rest = body;
    for _ in 0..width {
        let (length, tail) = rest.split_at(4);
        match usize::try_from(i32::from_be_bytes(length.try_into().unwrap())) {
            Err(_) => {
                fields.push("NULL".to_owned());
                rest = tail;
            }
            Ok(length) => {
                let (field, tail) = tail.split_at(length);
                fields.push(String::from_utf8_lossy(field).replace('\n', "\\n"));
                rest = tail;
            }
        }
    }
    fields.join("|")
}

fn open() -> Arc<SqlEngine> {
    let disk = Arc::new(SimDisk::new(1));
    let db = Database::open(disk, Path::new("/data"), Config::default()).unwrap();
    SqlEngine::open(db, SqlConfig::default()).unwrap()
}

async fn session_with_tables() -> Session {
    let params = SessionParams {
        user: "postgres".into(),
        database: "postgres".into(),
        ..SessionParams::default()
    };
    let mut session = open().session(params).unwrap();
    rows(&mut session, TABLES).await.unwrap();
    session
}

/// The oids of this database under those of the captured queries.
async fn oids(session: &mut Session) -> BTreeMap<&'static str, String> {
    let mut found = BTreeMap::new();
    for (captured, name) in OIDS {
        let sql = format!("select '{name}'::regclass::oid");
        let mut oid = rows(session, &sql).await.unwrap();
        found.insert(captured, oid.remove(0));
    }
    found
}

fn fixtures() -> Vec<PathBuf> {
    let dir =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs it")).join("tests/psql");
    let files = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|e| e == "sql"))
        .collect();
    files.sort();
    files
}

/// A captured query for this database.
fn with_oids(query: &str, oids: &BTreeMap<&'static str, String>) -> String {
    let mut parts = query.split('\'').map(str::to_owned).collect::<Vec<_>>();
    for part in &mut parts {
        if let Some(oid) = oids.get(part.as_str()) {
            part.clone_from(oid);
        } else if let Some(list) = part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
            let mut items: Vec<&str> = list.split(',').collect();
            for item in &mut items {
                *item = oids.get(*item).map_or(*item, String::as_str);
            }
            *part = format!("{{{}}}", items.join(","));
        }
    }
    parts.join("'")
}

/// A row with the captured oids.
fn with_captured(row: &str, oids: &BTreeMap<&'static str, String>) -> String {
    let captured = |field| {
        oids.iter()
            .find(|(_, oid)| *oid == field)
            .map(|(name, _)| *name)
    };
    let fields = row.split('|').map(|field| captured(field).unwrap_or(field));
    fields.collect::<Vec<_>>().join("|")
}

/// Answers to a file's queries, in the form of the `.out` files.
async fn transcript(
    session: &mut Session,
    text: &str,
    oids: &BTreeMap<&'static str, String>,
) -> String {
    let mut out = String::new();
    for (number, query) in text
        .split(";\n")
        .map(str::trim)
        .filter(|q| !q.is_empty())
        .enumerate()
    {
        let sql = with_oids(query, oids);
        writeln!(out, "-- {}", number + 1).unwrap();
        match rows(session, &sql).await {
            Ok(rows) => {
                for row in rows {
                    writeln!(out, "{}", with_captured(&row, oids)).unwrap();
                }
            }
            Err(error) => {
                let state = error.sqlstate.0;
                writeln!(out, "ERROR {state}: {}", error.message).unwrap();
            }
        }
    }
    out
}

#[tokio::test]
async fn queries_of_stock_psql_give_the_rows_of_postgresql() {
    let mut session = session_with_tables().await;
    let oids = oids(&mut session).await;
    let mut failed = Vec::new();
    for file in fixtures() {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split_once('\n').unwrap().1;
        let given = transcript(&mut session, text, &oids).await;
        let expected = std::fs::read_to_string(file.with_extension("out")).unwrap_or_default();
        if std::env::var_os("EVENKEEL_BLESS").is_some() {
            std::fs::write(file.with_extension("out"), given).unwrap();
        } else if given != expected {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            println!("== {name}: expected\n{expected}== given\n{given}");
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test]
async fn every_relation_can_be_read() {
    let mut session = session_with_tables().await;
    let sql = "select n.nspname, c.relname from pg_class c join pg_namespace n \
               on n.oid = c.relnamespace where n.nspname <> 'public' and c.relkind in ('r', 'v')";
    let relations = rows(&mut session, sql).await.unwrap();
    assert!(relations.len() > 100);
    for relation in relations {
        let name = relation.replace('|', ".");
        let read = rows(&mut session, &format!("select * from {name}")).await;
        assert!(read.is_ok(), "{name}: {:?}", read.err());
    }
}

#[tokio::test]
async fn named_oids_show_as_names_and_compare_as_numbers() {
    let mut session = session_with_tables().await;
    let sql = "select oid::regclass, oid::regclass::text, relname from pg_class \
               where oid = '\"Odd Name\"'::regclass and oid::regclass = '\"Odd Name\"'::regclass";
    let shown = rows(&mut session, sql).await.unwrap();
    assert_eq!(shown, ["\"Odd Name\"|\"Odd Name\"|Odd Name"]);
    let missing = rows(&mut session, "select 'nothing'::regclass")
        .await
        .unwrap_err();
    assert_eq!(missing.sqlstate.0, "42P01");
}
