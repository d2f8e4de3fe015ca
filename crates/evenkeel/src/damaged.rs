//! `evenkeel damaged`: the pages that are set aside as damaged, and the way out.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, Subcommand};
use evenkeel_engine::{Config, Database};
use evenkeel_io::{FileDisk, IoMethod};
use evenkeel_storage::{BlockNumber, FileId, Fork, PageId, quarantine};

use crate::Failure;

/// A remedy for a damaged page.
#[derive(Subcommand)]
pub enum Action {
    /// Make a damaged page again from what else there is of it: the log, its side file, the
    /// double-write area. No server may be using the directory
    Rebuild(Page),
    /// Make a damaged page a page of zeroes: what was on it is lost. No server may be using the
    /// directory
    Zero(Page),
    /// Take a damaged page as the disk has it, and forget the changes that it lacks. No server
    /// may be using the directory
    Discard(Page),
}

/// A page, as the list and the errors name it.
#[derive(Args)]
pub struct Page {
    /// base/NUMBER or status/NUMBER
    file: FileId,
    /// main, fsm or vm
    fork: Fork,
    /// The block's number
    block: u32,
}

impl Page {
    fn id(&self) -> PageId {
        PageId {
            file: self.file,
            fork: self.fork,
            block: BlockNumber(self.block),
        }
    }
}

/// Lists, or opens the database as a server would and ends the damage of one page.
pub fn damaged(data: &Path, action: Option<&Action>) -> Result<(), Failure> {
    if !data.is_dir() {
        return Err(format!("{} is not a directory", data.display()).into());
    }
    let disk = Arc::new(FileDisk::new(IoMethod::Sync));
    let Some(action) = action else {
        return list(&disk, data);
    };
    let database = Database::open(disk, data, Config::default())?;
    let store = database.store();
    let done = match action {
        Action::Rebuild(page) => store
            .rebuild_damaged_page(page.id())
            .map(|lsn| format!("{} is rebuilt, LSN {lsn}", page.id())),
        Action::Zero(page) => store
            .zero_damaged_page(page.id())
            .map(|lsn| format!("{} is zeroed, LSN {lsn}", page.id())),
        Action::Discard(page) => store
            .discard_damage(page.id())
            .map(|lsn| format!("{} is taken as the disk has it, LSN {lsn}", page.id())),
    };
    let closed = database.close();
    println!("{}", done?);
    closed?;
    Ok(())
}

fn list(disk: &FileDisk, data: &Path) -> Result<(), Failure> {
    let pages = quarantine::list(disk, data)?;
    for damaged in &pages {
        println!(
            "{}, LSN {}: {}; changes kept in {}",
            damaged.page,
            damaged.lsn,
            damaged.reason,
            damaged.side_file.display()
        );
    }
    if pages.is_empty() {
        println!("no page is set aside as damaged");
    }
    Ok(())
}
