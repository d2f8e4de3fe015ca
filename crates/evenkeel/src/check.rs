//! `evenkeel check`: reads everything there is and says what is wrong with it.

use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::table::Table;
use evenkeel_engine::{Config, Database};
use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_sql::catalog::DATABASE_OID;
use evenkeel_sql::{SqlConfig, SqlEngine};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Failure;

/// Blocks between two looks at how far it has come.
pub(crate) const TELL_EVERY: u64 = 1024;

/// Opens the database as a server would (a crashed one is recovered first), checks the checksum
/// of every page, then every table with its indexes.
pub fn check(data: &Path) -> Result<(), Failure> {
    if !data.is_dir() {
        return Err(format!("{} is not a directory", data.display()).into());
    }
    let disk = Arc::new(FileDisk::new(IoMethod::Sync));
    let database = Database::open(disk, data, Config::default())?;
    let outcome = check_database(&database);
    let closed = database.close();
    let problems = outcome?;
    closed?;
    if problems == 0 {
        println!("no problems found");
        return Ok(());
    }
    Err(format!("{problems} problems found in {}", data.display()).into())
}

fn check_database(database: &Database) -> Result<u64, Failure> {
    let bar = progress_bar();
    let pages = database.check_pages(&mut |step| {
        if step.pages_done.is_multiple_of(TELL_EVERY) {
            let done = percent(step.pages_done, step.pages);
            bar.set_message(format!("reading pages, {done}: {}", step.page));
            bar.tick();
        }
    })?;
    let mut problems = report(&bar, "pages", &pages.problems, pages.problem_count);
    let engine = SqlEngine::open(database.clone(), SqlConfig::default())?;
    for (name, table) in tables_of(&engine)? {
        let found = table.check_telling(&mut |step| {
            // The first block of an index is number one.
            if u64::from(step.blocks_done) % TELL_EVERY <= 1 {
                let part = match step.index {
                    None => "heap".to_owned(),
                    Some(index) => format!("index {index}"),
                };
                let (done, blocks) = (step.blocks_done, step.blocks);
                let percent = percent(done.into(), blocks.into());
                bar.set_message(format!(
                    "checking table {name}: {part}, block {done} of {blocks}, {percent}"
                ));
                bar.tick();
            }
        })?;
        problems += report(&bar, &name, &found.problems, found.problem_count);
    }
    engine.close()?;
    bar.finish_and_clear();
    Ok(problems)
}

/// The tables of all databases, with their names; behind the first one's, that of the database.
fn tables_of(engine: &SqlEngine) -> Result<Vec<(String, Arc<Table>)>, Failure> {
    let databases = engine.databases();
    let mut all = vec![("pg_database".to_owned(), Arc::clone(databases.table()))];
    for catalog in databases.catalogs()? {
        let database = databases.name_of(catalog.database_oid());
        let named = |name: &str| match catalog.database_oid() {
            DATABASE_OID => name.to_owned(),
            _ => format!("{name} of database {database}"),
        };
        let own = catalog.system_tables();
        all.extend(own.map(|(name, table)| (named(name), Arc::clone(table))));
        let state = catalog.current();
        let users = state.tables();
        all.extend(users.map(|table| (named(&table.name), Arc::clone(&table.table))));
    }
    Ok(all)
}

pub(crate) fn percent(done: u64, all: u64) -> String {
    format!("{} %", done * 100 / all.max(1))
}

fn report(bar: &ProgressBar, what: &str, problems: &[String], count: u64) -> u64 {
    bar.suspend(|| {
        for problem in problems {
            println!("{what}: {problem}");
        }
        let more = count.saturating_sub(problems.len() as u64);
        if more > 0 {
            println!("{what}: and {more} more");
        }
    });
    count
}

pub(crate) fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}
