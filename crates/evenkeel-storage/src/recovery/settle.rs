//! Applies the log's file operations once it has been read: creates, drops, cuts and lengths
//! (REC-13).

use super::analysis::{Analysis, LogScan};
use super::lists::PageLists;
use crate::core::Core;
use crate::error::{StorageError, StorageResult};
use crate::ids::{Fork, Lsn, PageId};

/// Removes, makes and cuts files as the log has it. Nobody uses them yet.
pub(super) fn files(core: &Core, analysis: &Analysis) -> StorageResult<()> {
    let scan = &analysis.scan;
    let dropped: Vec<_> = scan.dropped().collect();
    if !dropped.is_empty() {
        core.pool.drop_files(&dropped)?;
        for file in dropped {
            core.quarantine.forget_file(file)?;
        }
    }
    for file in analysis.files_made() {
        core.pool.create_fork(file, Fork::Main)?;
    }
    for (file, fork, blocks) in scan.least_cuts() {
        core.pool.truncate(file, fork, blocks)?;
        core.quarantine.forget_tail(file, fork, blocks)?;
    }
    Ok(())
}

/// Result of settling the page lists.
pub(super) struct Settled {
    /// Changes that were left out.
    pub(super) doomed: u64,
    /// Pages that were left out because they are home with all their changes.
    pub(super) home: u64,
    /// Blocks by which forks were lengthened.
    pub(super) new: u64,
    /// Pages of forks that cannot be used, with the reason.
    pub(super) damaged: Vec<(PageId, StorageError)>,
}

/// Leaves out of the lists what no longer matters and, if `trusts_homes`, pages that the manifest
/// says are home with all of it; makes every fork as long as its last page that is owed anything.
pub(super) fn lists(
    core: &Core,
    scan: &LogScan,
    lists: &mut PageLists,
    trusts_homes: bool,
) -> StorageResult<Settled> {
    let doomed = match scan.removes_pages() {
        true => lists.settle(|page| scan.matters_from(page)),
        false => 0,
    };
    let manifest = core.pool.files().manifest();
    let home = match trusts_homes && !lists.keeps_all {
        true => lists.leave_out_home(|page| match core.pool.damaged().get(page) {
            None => manifest.last_written(page),
            // It is set aside until a record that has all of it is met (QRT-3).
            Some(_) => Lsn::ZERO,
        }),
        false => 0,
    };
    let mut lengths = vec![0_u32; lists.forks().len()];
    for list in lists.lists() {
        let page = lists.page_id(list.key);
        let Some(len) = page.block.0.checked_add(1) else {
            return Err(StorageError::Redo {
                lsn: lists.first(list),
                page: Some(page),
                reason: "block number out of range".into(),
            });
        };
        let known = &mut lengths[list.key.fork() as usize];
        *known = (*known).max(len);
    }
    let mut damaged = Vec::new();
    let mut new = 0;
    for (number, len) in lengths.iter().enumerate().filter(|(_, len)| **len > 0) {
        let (file, fork) = lists.forks()[number];
        let opened = core.pool.fork(file, fork);
        match opened.and_then(|fork| {
            new += u64::from(len.saturating_sub(fork.len()));
            fork.ensure_len(*len)
        }) {
            // One file that cannot be used is the error of its users.
            Err(error @ StorageError::FileDamaged { .. }) => {
                let of_fork = lists
                    .lists()
                    .iter()
                    .filter(|list| list.key.fork() as usize == number);
                damaged.extend(of_fork.map(|list| (lists.page_id(list.key), error.clone())));
            }
            other => other?,
        }
    }
    Ok(Settled {
        doomed,
        home,
        new,
        damaged,
    })
}
