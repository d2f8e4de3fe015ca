//! `evenkeel repair`: rebuilds damaged pages from what else there is of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use evenkeel_engine::{Config, Database};
use evenkeel_io::{FileDisk, IoMethod};

use crate::Failure;
use crate::check::{TELL_EVERY, percent, progress_bar};

/// Opens the database as a server would, reads every page, and rebuilds those that are damaged,
/// each whole or not at all.
pub fn repair(data: &Path) -> Result<(), Failure> {
    if !data.is_dir() {
        return Err(format!("{} is not a directory", data.display()).into());
    }
    let disk = Arc::new(FileDisk::new(IoMethod::Sync));
    let database = Database::open(disk, data, Config::default())?;
    let outcome = repair_database(&database);
    let closed = database.close();
    let (damaged, left) = outcome?;
    closed?;
    match (damaged, left) {
        (0, _) => println!("no page is damaged"),
        (_, 0) => {}
        (damaged, left) => {
            return Err(format!(
                "{left} of {damaged} damaged pages could not be rebuilt: restore them from a \
                 backup, or give up what was on them (evenkeel damaged --help)"
            )
            .into());
        }
    }
    Ok(())
}

/// Answers how many pages were damaged, and how many of them still are.
fn repair_database(database: &Database) -> Result<(usize, usize), Failure> {
    let store = database.store();
    // The log that a page may be rebuilt from is not given up meanwhile.
    let hold = store.hold_redo(store.control().redo);
    let bar = progress_bar();
    let report = database.check_pages(&mut |step| {
        if step.pages_done.is_multiple_of(TELL_EVERY) {
            let done = percent(step.pages_done, step.pages);
            bar.set_message(format!("reading pages, {done}: {}", step.page));
            bar.tick();
        }
    })?;
    bar.finish_and_clear();
    let set_aside = store.damaged_pages();
    let mut damaged: BTreeSet<_> = set_aside.iter().map(|damaged| damaged.page).collect();
    damaged.extend(report.damaged);
    let mut left = 0;
    for page in &damaged {
        match store.rebuild_damaged_page(*page) {
            Ok(lsn) => println!("{page} is rebuilt, LSN {lsn}"),
            Err(error) => {
                left += 1;
                println!("{error}");
            }
        }
    }
    drop(hold);
    Ok((damaged.len(), left))
}
